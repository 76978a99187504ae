"""LambdaRank: pair forces weighted by what swapping the pair would change."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from typing import cast

import numpy as np
import numpy.typing as npt

from ..checking import integer, positive
from ..columns import column_name
from ..costs import Cost, RankNet, as_cost
from ..errors import LambdaplugError
from ..kernels import Leaf, Levels
from ..measures import Measure, Prepared, as_measure
from ..queries import Array, Queries
from ..rows import differing, gain_levels
from ..schedules import Moment, Number, is_constant
from ..values import keep
from .base import EMPTY, MeasureObjective, Round, check_step, label_column, normalization, planned, require_order
from .constructions import Construction, RankNetWeightPairs, as_construction
from .pairs import Gains
from .smoothing import check_noise

__all__ = ["LambdaRank"]


@dataclass(frozen=True, repr=False)
class LambdaRank(MeasureObjective):
    """Train for any measure M: lambda forces between the documents of each query.

    For every pair with i better than j and the score margin o = s_i - s_j,

        force = sigma |dM(i, j)| rho,  hessian = sigma^2 |dM(i, j)| rho (1 - rho),  rho = 1/(1 + exp(sigma o)),

    where |dM(i, j)| is what exchanging the two documents would change. The force is subtracted from i's gradient and added
    to j's; boosters minimise, so i rises.

    Parameters
    ----------
    measure : str or Measure
        ``"ndcg@10"``, ``"map"``, ``lp.NDCG(k=10, gain="linear")``, ...
    labels : str, optional
        The name of a column (see :func:`attach`) with other labels, NaN for a row without one; default the data set's labels.
    weight : str, optional
        The name of a column with a weight per document: a pair's force is multiplied by both its weights. In LightGBM and XGBoost
        alike, beside the data set's own weights.
    cost : str or Cost
        ``"ranknet"`` (above), ``lp.RankNet(distance=0.01)`` (each |dM| divided by 0.01 + |o|) or ``lp.Sigmoid(mu)``.
    sigma : float
        Steepness of the pair cost.
    construction : str or Construction
        How changes of the measure become forces: ``"ranknet_weight_pairs"`` (above), ``"spring_smooth"``,
        ``"local_gradient"``, ``"local_cost"``, ``"discrete_bounded"``, ``"loss2"``, ``"extended"``, or an object of
        ``lp.constructions``, which says what each is.
    step : str, optional
        ``"newton"`` returns the hessians above; ``"gradient"`` returns 1 for every document, for the pairs' costs whose second
        derivative says nothing (the default with ``lp.Sigmoid``), and then divides each query's gradients by their standard
        deviation.
    normalize : str, optional
        ``"std"`` divides each query's gradients (and Newton hessians) by the standard deviation of its gradients; ``"log"``
        multiplies both by log2(1 + S)/S, S the query's summed force on all documents, as LightGBM and XGBoost do; ``"none"``
        does neither; default what the step does.
    ignore_zero : bool
        Documents with the label 0 are in no pair, as unclicked results in a click tier (see :class:`Graded`).
    noise : float or schedule
        Deltas are those of orders near the present one, by scores plus so much noise, in units of the scores, and forces those
        of the scores as they are (see :mod:`lambdaplug.objectives.smoothing`). 0: the present order alone.
    samples : int
        How many noisy orders are drawn per round.
    noise_kind : str
        ``"logistic"``, ``"normal"`` or ``"gumbel"``, of scale 1.
    neighbours : int, optional
        Only pairs at most so many places apart in the noisy order; CatBoost's YetiRank has 1.
    seed : int
        Of the draws, which are a function of seed, the query's scores and labels, sample and document.

    References
    ----------
    C. Burges, R. Ragno, Q. Le (2006), "Learning to rank with nonsmooth cost functions", NIPS. P. Donmez, K.
    Svore, C. Burges (2009), "On the local optimality of LambdaRank", SIGIR.

    Examples
    --------
    >>> import lambdaplug as lp
    >>> objective = lp.LambdaRank("map")
    >>> gradient, hessian = objective.gradients(labels=[0, 1], scores=[0.0, 0.0], group=[2])
    >>> gradient
    array([ 0.25, -0.25], dtype=float32)
    """

    measure: str | Measure
    _: KW_ONLY
    labels: str | None = None
    weight: str | None = None
    cost: str | Cost = RankNet()  # noqa: RUF009 -- it never changes
    sigma: float = 1.0
    construction: str | Construction = RankNetWeightPairs()  # noqa: RUF009
    step: str | None = None
    normalize: str | None = None
    ignore_zero: bool = False
    noise: Number = 0.0
    samples: int = 1
    noise_kind: str = "logistic"
    neighbours: int | None = None
    seed: int = 0

    scheduled = ("noise",)

    def __post_init__(self) -> None:
        measure, cost, rule = as_measure(self.measure), as_cost(self.cost), as_construction(self.construction)
        rule.check(measure)
        if measure.tabled and rule.name not in ("ranknet_weight_pairs", "local_cost"):
            raise LambdaplugError(
                f"{rule!r} needs gains that order the documents, and {measure} has columns or a cut-off per query: "
                "expected construction='ranknet_weight_pairs' or 'local_cost'."
            )
        if not rule.costed and (self.sigma != 1.0 or cost != RankNet()):
            raise LambdaplugError(f"{rule!r} has no pair cost: leave out cost= and sigma=.")
        check_step(self.step, self.normalize, pairs=True)
        if self.step == "newton" and not cost.convex:
            raise LambdaplugError(f"{cost!r} has no second derivative to divide by: use step='gradient'.")
        noise = check_noise(self.noise, self.noise_kind)
        smoothed = not is_constant(noise) or noise != 0.0
        if smoothed and not rule.costed:
            raise LambdaplugError(f"{rule!r} has no pair cost, so noise= cannot smooth it: leave it out.")
        if self.neighbours is not None and not smoothed:
            raise LambdaplugError(
                "neighbours: expected noise= beside it, as they are neighbours in the noisy order. In the present order "
                "they are construction=lp.constructions.LocalCost(window=...)."
            )
        keep(self, measure=measure, labels=label_column(self.labels), cost=cost, construction=rule, noise=noise)
        keep(self, sigma=positive(self.sigma, "sigma"), ignore_zero=bool(self.ignore_zero))
        keep(self, samples=integer(self.samples, "samples"), seed=integer(self.seed, "seed", 0, 2**63 - 1))
        if self.weight is not None:
            keep(self, weight=column_name(self.weight, "weight"))
        if self.neighbours is not None:
            keep(self, neighbours=integer(self.neighbours, "neighbours", purpose=", or None for all pairs"))

    @property
    def pair_cost(self) -> Cost:
        """The cost."""
        return cast(Cost, self.cost)

    @property
    def rule(self) -> Construction:
        """The construction."""
        return cast(Construction, self.construction)

    @property
    def unit(self) -> bool:
        return not self.pair_cost.convex if self.step is None else self.step == "gradient"

    @property
    def std(self) -> bool:
        return normalization(self.normalize, self.unit) == "std"

    @property
    def log(self) -> bool:
        """Whether each query is scaled by log2(1 + S)/S."""
        return self.normalize == "log"

    def resolved(self, moment: Moment) -> LambdaRank:
        if is_constant(self.noise):
            return self
        noise = moment.number(self.noise)
        if noise < 0.0:
            raise LambdaplugError(f"{self!r}: noise is {noise:g} at iteration {moment.iteration}; it must be >= 0.")
        return planned(self, noise=noise)

    @property
    def reach(self) -> int | None:
        """How many ranks apart the documents of a pair may be; None: all are."""
        reaches = [reach for reach in (self.rule.reach, self.neighbours) if reach is not None]
        return min(reaches, default=None)

    def unscaled(self) -> LambdaRank:
        """Its forces as they are, with no factor for a query as a whole; hessians of 1."""
        return replace(self, step="gradient", normalize="none")

    def prepared(self, queries: Queries) -> Prepared:
        prepared = super().prepared(queries)
        if not self.ignore_zero:
            return prepared

        def ignore() -> Prepared:
            zero = queries.labels_of(self.labels) == 0.0
            return prepared._replace(grade=np.where(zero, np.nan, prepared.grade))

        return queries.memo((self.kind, self.labels, True), ignore)

    @property
    def cutoff(self) -> int | None:
        return self.rule.cutoff(self.kind)

    def check_order(self, queries: Queries, above: tuple[str | None, ...] = ()) -> None:
        """``above``: the columns of labels in which the documents of a pair must be equal."""

        def acting() -> npt.NDArray[np.bool_]:
            _, grade, norm, discount, _ = self.prepared(queries)
            shortest = 2 if self.rule.least > 0.0 else self.kind.shortest(discount)
            defined: npt.NDArray[np.bool_] = (norm != 0.0) & (queries.sizes >= shortest)
            return differing(grade, queries.offsets, queries.tiers(above) if above else None) & defined

        key = (self.kind, self.labels, self.ignore_zero, self.rule.least > 0.0, above)
        among = " that are equal in the tiers above" if above else ""
        require_order(self, queries, key, self.labels, acting, among)

    def gains(self, queries: Queries) -> Gains:
        """What the gains of these queries look like; made once per data set."""

        def sort() -> Gains:
            gain, grade, _, discount, _ = self.prepared(queries)
            fine, whole = self.kind.fine(discount), self.kind.cutoff is None
            if not self.kind.gained or self.kind.tabled or not len(gain) or np.isnan(gain).any():
                return Gains(False, fine)
            if grade is gain and not whole:
                return Gains(True, fine)
            plain, *levels = gain_levels(gain, grade, queries.offsets)
            return Gains(plain, fine, Levels(*levels) if plain and whole else Levels())

        return queries.memo(("gains", self.kind, self.labels, self.ignore_zero), sort)

    def at(self, round: Round, tier: Array = EMPTY) -> list[Leaf]:
        """With ``tier``, one per row: of the pairs whose two rows have the same."""
        return [self.rule.leaf(self, round, tier)]
