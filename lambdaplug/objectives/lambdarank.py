"""LambdaRank: pair forces weighted by what swapping the pair would change."""

from typing import Any

import numpy as np
import numpy.typing as npt

from ..costs import Cost, as_cost
from ..errors import LambdaplugError
from ..kernels import (
    FAST_SPREAD,
    FLOAT32_ROWS,
    FLOAT64_ROWS,
    PADDING,
    PairShape,
    level_kernel,
    pair_kernel,
    rank_kernel,
    stage_kernel,
    swap_kernel,
)
from ..measures import Measure, Prepared, as_measure
from ..queries import Array, Labels, Queries, Task
from ..rows import row_order
from .base import EMPTY, Objective, Ranking, Scratch, as_step

__all__ = ["LambdaRank"]

NOWHERE = np.empty(0, np.int32)


class LambdaRank(Objective):
    """Train for any measure M: for every pair with i better than j and the score margin o = s_i - s_j,

        force = sigma |dM(i, j)| rho,  hessian = sigma^2 |dM(i, j)| rho (1 - rho),  rho = 1/(1 + exp(sigma o)),

    where |dM(i, j)| is what exchanging the two documents would change (Burges et al. 2006; Donmez et al. 2009). The
    force is subtracted from i's gradient and added to j's; boosters minimise, so i rises.

    Parameters
    ----------
    measure: a measure or its name: ``"ndcg@10"``, ``"map"``, ``lp.NDCG(k=10, gain="linear")``.
    labels: another label source, one value a row in the data set's row order; default the data set's labels.
    cost: ``"ranknet"`` (above), ``lp.RankNet(distance=0.01)`` (each |dM| divided by 0.01 + |o|) or ``lp.Sigmoid(mu)``.
    sigma: steepness of the pair cost.
    step: ``"newton"`` returns the hessians above; ``"gradient"`` returns 1 for every document, for the pairs' costs
        whose second derivative says nothing (the default with ``lp.Sigmoid``), and then divides each query's gradients by their standard deviation.
    ignore_zero: documents with the label 0 are in no pair, as unclicked results in a click tier (see Graded).
    normalize: ``"std"`` divides each query's gradients (and Newton hessians) by the standard deviation of its
        gradients; ``"log"`` multiplies both by log2(1 + S)/S, S the query's summed force on all documents, as LightGBM
        and XGBoost do; ``"none"`` does neither; default what the step does.

    >>> objective = LambdaRank("map")
    >>> gradient, hessian = objective.gradients(scores=[0.0, 0.0], labels=[0, 1], group=[2])
    >>> gradient
    array([ 0.25, -0.25], dtype=float32)
    """

    def __init__(
        self,
        measure: str | Measure,
        *,
        labels: npt.ArrayLike | None = None,
        cost: str | Cost = "ranknet",
        sigma: float = 1.0,
        step: str | None = None,
        normalize: str | None = None,
        ignore_zero: bool = False,
    ) -> None:
        self.measure = as_measure(measure)
        self.labels = labels if labels is None or isinstance(labels, Labels) else Labels(labels)
        self.cost = as_cost(cost)
        if isinstance(sigma, bool) or not isinstance(sigma, (int, float, np.number)) or not 0 < sigma < np.inf:
            raise LambdaplugError(f"sigma: expected a positive number, got {sigma!r}.")
        self.sigma = float(sigma)
        self.step, self.normalize = as_step(step, normalize, "newton" if self.cost.convex else "gradient", pairs=True)
        if self.step == "newton" and not self.cost.convex:
            raise LambdaplugError(f"{self.cost!r} has no second derivative to divide by: use step='gradient'.")
        self.std, self.unit = self.normalize == "std", self.step == "gradient"
        self.log = self.normalize == "log"
        self.ignore_zero = bool(ignore_zero)

    def __repr__(self) -> str:
        said = [repr(str(self.measure))]
        said += [f"labels=<{len(self.labels)} values>"] if self.labels is not None else []
        said += [f"cost={self.cost!r}"] if self.cost != as_cost("ranknet") else []
        said += [f"sigma={self.sigma:g}"] if self.sigma != 1.0 else []
        said += [f"step={self.step!r}"] if self.step != ("newton" if self.cost.convex else "gradient") else []
        usual = "std" if self.step == "gradient" else "none"
        said += [f"normalize={self.normalize!r}"] if self.normalize != usual else []
        said += ["ignore_zero=True"] if self.ignore_zero else []
        return f"LambdaRank({', '.join(said)})"

    @property
    def cutoff(self) -> int | None:
        return self.measure.cutoff

    @property
    def divisible(self) -> bool:
        return not self.log  # its factor needs all of a query's forces

    @property
    def target(self) -> Measure | None:
        return self.measure if self.labels is None else None

    def prepared(self, queries: Queries) -> Prepared:
        """The measure's view of these queries; made once a data set."""

        def prepare() -> Prepared:
            labels = queries.labels_of(self.labels)
            prepared = self.measure.prepare(labels, queries.offsets)
            if self.ignore_zero:
                prepared = prepared._replace(grade=np.where(labels == 0.0, np.nan, prepared.grade))
            return prepared

        return queries.memo((self.measure, self.labels, self.ignore_zero), prepare)

    def graded(self, queries: Queries) -> tuple[bool, npt.NDArray[np.int32]]:
        """Whether the gains alone tell which document is better; where each one's gain begins in a list by gain."""

        def sort() -> tuple[bool, npt.NDArray[np.int32]]:
            gain, grade, *_ = self.prepared(queries)
            if not self.measure.gained or np.isnan(gain).any():
                return False, NOWHERE
            order, longest = row_order(queries.offsets), int(queries.sizes.max(initial=0))
            buffers = np.empty((2, longest)), np.empty((2, longest), np.int32)
            rank_kernel()(gain, queries.offsets, 0, len(queries), order, *buffers)
            begin = np.empty(len(gain), np.int32)
            plain = level_kernel()(gain, grade, queries.offsets, order, begin)
            return plain, begin if plain and self.cutoff is None else NOWHERE

        return queries.memo(("graded", self.measure, self.labels, self.ignore_zero), sort)

    def accumulate(
        self,
        ranking: Ranking,
        task: Task,
        scratch: Scratch,
        coefficient: float,
        gradient: Array,
        hessian: Array,
        tier: Array = EMPTY,
    ) -> None:
        """With ``tier``, one a row: of the pairs whose two rows have the same."""
        queries, scores, first, last = ranking.queries, ranking.scores, task.first, task.last
        gain, grade, norm, discount, k = self.prepared(queries)
        plain, begin = self.graded(queries)
        measure, shifted = self.measure, self.cost.shift != 1.0
        weight = EMPTY if queries.document_weight is None else queries.document_weight
        shape = PairShape(
            gained=measure.gained,
            plain=plain and not shifted and not tier.size,
            symmetric=measure.symmetric,
            scaled=measure.scaled,
            weighted=weight.size > 0,
            tiered=tier.size > 0,
            shifted=shifted,
            summed=self.log,
            distanced=self.cost.distance > 0.0,
        )
        size, count = len(gradient), last - first
        rows = scratch.array("rows", FLOAT64_ROWS, size)
        fast = scratch.array("fast", FLOAT32_ROWS, size + PADDING * (count + 1), np.float32)
        places = scratch.array("places", 4, size, np.int32)
        cuts, kinds = scratch.array("cuts", 2, count, np.int64)
        spread = -1.0 if ranking.exact else FAST_SPREAD
        ranked: tuple[Any, ...] = (queries.offsets, first, last, ranking.orders[self.cutoff])
        staged: tuple[Any, ...] = (cuts, rows, fast, places, kinds)
        swap_kernel(self.measure.swap_rows())(gain, discount, k, norm, *ranked, rows, cuts)
        stage_kernel()(
            *(scores, EMPTY if shape.plain else grade, begin if shape.plain else NOWHERE, shape.symmetric),
            *(shape.distanced, weight, tier, self.sigma, spread, *ranked, *staged),
        )
        pair_kernel(self.cost.fast, self.cost.exact, shape)(
            *(self.sigma, self.cost.shift, self.cost.distance, coefficient, scores, grade, weight, tier, norm),
            *(queries.offsets, first, last, task.part, task.parts, *staged, gradient, hessian),
        )
