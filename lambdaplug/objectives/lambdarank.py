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
    pair_kernel,
    stage_kernel,
    swap_kernel,
)
from ..measures import Measure, Prepared, as_measure
from ..queries import Array, Labels, Queries, Task
from .base import EMPTY, Objective, Ranking, Scratch, as_step

__all__ = ["LambdaRank"]


class LambdaRank(Objective):
    """Train for any measure M: for every pair with i better than j and the score margin o = s_i - s_j,

        force = sigma |dM(i, j)| rho,  hessian = sigma^2 |dM(i, j)| rho (1 - rho),  rho = 1/(1 + exp(sigma o)),

    where |dM(i, j)| is what exchanging the two documents would change (Burges et al. 2006; Donmez et al. 2009). The
    force is subtracted from i's gradient and added to j's; boosters minimise, so i rises.

    Parameters
    ----------
    measure: a measure or its name: ``"ndcg@10"``, ``"map"``, ``lp.NDCG(k=10, gain="linear")``.
    labels: another label source, one value a row in the data set's row order; default the data set's labels.
    cost: ``"ranknet"`` (above) or ``lp.Sigmoid(mu)``.
    sigma: steepness of the pair cost.
    step: ``"newton"`` returns the hessians above; ``"gradient"`` returns 1 for every document, for the pairs' costs
        whose second derivative says nothing (the default with ``lp.Sigmoid``), and then divides each query's gradients by their standard deviation.
    ignore_zero: documents with the label 0 are in no pair, as unclicked results in a click tier (see Graded).
    normalize: ``"std"`` divides each query's gradients (and Newton hessians) by the standard deviation of its
        gradients, ``"none"`` does not; default what the step does.

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
        self.step, self.normalize = as_step(step, normalize, "newton" if self.cost.convex else "gradient")
        if self.step == "newton" and not self.cost.convex:
            raise LambdaplugError(f"{self.cost!r} has no second derivative to divide by: use step='gradient'.")
        self.std, self.unit = self.normalize == "std", self.step == "gradient"
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

    def shape_of(self, queries: Queries, tiered: bool) -> PairShape:
        """The kernel that these queries need; decided once a data set."""

        def decide() -> PairShape:
            prepared, shifted = self.prepared(queries), self.cost.shift != 1.0
            plain = self.measure.gained and not shifted and _orders_alike(prepared.gain, prepared.grade)
            weighted = queries.document_weight is not None
            return PairShape(self.measure.gained, plain, self.measure.scaled, weighted, tiered, shifted)

        key = ("shape", self.measure, self.labels, self.ignore_zero, self.cost, tiered)
        return queries.memo(key, decide)

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
        shape = self.shape_of(queries, tier.size > 0)
        weight = queries.document_weight if shape.weighted else EMPTY
        size, count = len(gradient), last - first
        rows = scratch.array("rows", (FLOAT64_ROWS, size))
        fast = scratch.array("fast", (FLOAT32_ROWS, size + PADDING * (count + 1)), np.float32)
        cuts = scratch.array("cuts", (count,), np.int64)
        wide = scratch.array("wide", (count,), np.bool_)
        spread = -1.0 if ranking.exact else FAST_SPREAD
        order = ranking.orders[self.cutoff]
        ranked: tuple[Any, ...] = (queries.offsets, first, last, order)
        parted = (queries.offsets, first, last, task.part, task.parts, order)
        swap_kernel(self.measure.swap_rows())(gain, discount, k, norm, *ranked, rows, cuts)
        compared = EMPTY if shape.plain else grade
        stage_kernel()(scores, compared, weight, tier, self.sigma, spread, *ranked, cuts, rows, fast, wide)
        pair_kernel(self.cost.fast, self.cost.exact, shape)(
            *(self.sigma, self.cost.shift, coefficient),
            *(scores, grade, weight, tier, norm, *parted),
            *(cuts, rows, fast, wide, gradient, hessian),
        )


def _orders_alike(gain: Array, grade: Array) -> bool:
    """Whether the gains order any two documents as their grades do, equal ones included."""
    if np.isnan(grade).any() or np.isnan(gain).any():
        return False
    by_grade = np.lexsort((gain, grade))
    return bool(np.array_equal(np.diff(gain[by_grade]) > 0, np.diff(grade[by_grade]) > 0))
