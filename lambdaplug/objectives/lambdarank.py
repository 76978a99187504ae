"""LambdaRank: pair forces weighted by what swapping the pair would change."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..costs import Cost, as_cost
from ..errors import LambdaplugError
from ..kernels import PADDING, Levels
from ..measures import Measure, as_measure
from ..queries import Array, Labels, Queries, Task, as_labels
from ..rows import differing, gain_levels
from ..schedules import Guard, Moment, Number, constant, is_constant
from ..values import called
from .base import EMPTY, Into, MeasureObjective, Ranking, Scratch, as_step, require_order
from .constructions import Construction, as_construction
from .pairs import ByRows, Debiased, Gains, Work
from .smoothing import check_noise, noisy_ranking

__all__ = ["LambdaRank"]


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
    {label_source}
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
        ``"logistic"`` or ``"normal"``, of scale 1.
    neighbours : int, optional
        Only pairs at most so many places apart in the noisy order; CatBoost's YetiRank has 1.
    seed : int
        Of the draws, which are a function of seed, the query's scores and labels, sample and document.

    References: C. Burges, R. Ragno, Q. Le (2006), "Learning to rank with nonsmooth cost functions", NIPS. P. Donmez, K.
    Svore, C. Burges (2009), "On the local optimality of LambdaRank", SIGIR.

    >>> objective = lp.LambdaRank("map")
    >>> gradient, hessian = objective.gradients(labels=[0, 1], scores=[0.0, 0.0], group=[2])
    >>> gradient
    array([ 0.25, -0.25], dtype=float32)
    """

    cost: Cost
    sigma: float
    construction: Construction
    step: str
    normalize: str
    log: bool  # each query is scaled by log2(1 + S)/S
    noise: Number
    samples: int
    noise_kind: str
    neighbours: int | None
    seed: int

    def __init__(
        self,
        measure: str | Measure,
        *,
        labels: npt.ArrayLike | None = None,
        cost: str | Cost = "ranknet",
        sigma: float = 1.0,
        construction: str | Construction = "ranknet_weight_pairs",
        step: str | None = None,
        normalize: str | None = None,
        ignore_zero: bool = False,
        noise: Number = 0.0,
        samples: int = 1,
        noise_kind: str = "logistic",
        neighbours: int | None = None,
        seed: int = 0,
    ) -> None:
        measure, cost, construction = as_measure(measure), as_cost(cost), as_construction(construction)
        construction.check(measure)
        if measure.tabled and construction.name not in ("ranknet_weight_pairs", "local_cost"):
            raise LambdaplugError(
                f"{construction!r} needs gains that order the documents, and {measure!r} has columns or a cut-off per query: "
                "expected construction='ranknet_weight_pairs' or 'local_cost'."
            )
        if isinstance(sigma, bool) or not isinstance(sigma, (int, float, np.number)) or not 0 < sigma < np.inf:
            raise LambdaplugError(f"sigma: expected a positive number, got {sigma!r}.")
        if not construction.costed and (sigma != 1.0 or cost != as_cost("ranknet")):
            raise LambdaplugError(f"{construction!r} has no pair cost: leave out cost= and sigma=.")
        step, normalize = as_step(step, normalize, "newton" if cost.convex else "gradient", pairs=True)
        if step == "newton" and not cost.convex:
            raise LambdaplugError(f"{cost!r} has no second derivative to divide by: use step='gradient'.")
        self._set(measure=measure, labels=as_labels(labels), cost=cost, sigma=float(sigma))
        self._set(construction=construction, step=step, normalize=normalize, ignore_zero=bool(ignore_zero))
        self._set(std=normalize == "std", unit=step == "gradient", log=normalize == "log")
        noise = check_noise(noise, samples, noise_kind, neighbours, seed)
        smoothed = not is_constant(noise) or noise != 0.0
        if smoothed and not construction.costed:
            raise LambdaplugError(f"{construction!r} has no pair cost, so noise= cannot smooth it: leave it out.")
        if neighbours is not None and not smoothed:
            raise LambdaplugError(
                "neighbours: expected noise= beside it, as they are neighbours in the noisy order. In the present order "
                "they are construction=lp.constructions.LocalCost(window=...)."
            )
        self._set(noise=noise, samples=int(samples), noise_kind=noise_kind, seed=int(seed))
        self._set(neighbours=None if neighbours is None else int(neighbours))

    def __repr__(self) -> str:
        usual_form = self.construction == type(self.construction)()
        return called(
            "LambdaRank",
            repr(str(self.measure)),
            labels=(self.labels, None),
            cost=(self.cost, as_cost("ranknet")),
            sigma=(self.sigma, 1.0),
            construction=(self.construction.name if usual_form else self.construction, "ranknet_weight_pairs"),
            step=(self.step, "newton" if self.cost.convex else "gradient"),
            normalize=(self.normalize, "std" if self.step == "gradient" else "none"),
            ignore_zero=(self.ignore_zero, False),
            noise=(self.noise, 0.0),
            samples=(self.samples, 1),
            noise_kind=(self.noise_kind, "logistic"),
            neighbours=(self.neighbours, None),
            seed=(self.seed, 0),
        )

    @property
    def schedules(self) -> tuple[Number | Guard, ...]:
        return (self.noise,)

    def resolved(self, moment: Moment) -> LambdaRank:
        if is_constant(self.noise):
            return self
        noise = moment.number(self.noise)
        if noise < 0.0:
            raise LambdaplugError(f"{self!r}: noise is {noise:g} at iteration {moment.iteration}; it must be >= 0.")
        return self._with(noise=noise)

    @property
    def reach(self) -> int | None:
        """How many ranks apart the documents of a pair may be; None: all are."""
        reaches = [reach for reach in (self.construction.reach, self.neighbours) if reach is not None]
        return min(reaches, default=None)

    @property
    def ranks(self) -> int | None:
        """How many of the top ranks it must know; None = all."""
        return self.construction.ranks(self.measure) if self.neighbours is None else None

    def unscaled(self) -> LambdaRank:
        """Its forces as they are, with no factor for a query as a whole."""
        return self._with(std=False, unit=False, log=False)

    @property
    def cutoff(self) -> int | None:
        return self.construction.cutoff(self.measure)

    @property
    def cutoffs(self) -> frozenset[int | None]:
        return frozenset([self.ranks])

    @property
    def staged(self) -> bool:
        """Whether the fast pair kernel knows this measure and this construction."""
        by_rows = self.measure.by_rows and self.construction.by_rows and not self.construction.raises(self.measure)
        return by_rows and self.neighbours is None

    @property
    def divisible(self) -> bool:
        return self.staged and self.construction.divisible and not self.log  # its factor needs all of a query's forces

    def check_order(self, queries: Queries, above: tuple[Labels | None, ...] = ()) -> None:
        """``above``: the label sources in which the documents of a pair must be equal."""

        def acting() -> npt.NDArray[np.bool_]:
            _, grade, norm, discount, _ = self.prepared(queries)
            shortest = 2 if self.construction.least > 0.0 else self.measure.shortest(discount)
            defined: npt.NDArray[np.bool_] = (norm != 0.0) & (queries.sizes >= shortest)
            return differing(grade, queries.offsets, queries.tiers(above) if above else None) & defined

        key = (self.measure, self.labels, self.ignore_zero, self.construction.least > 0.0, above)
        among = " that are equal in the tiers above" if above else ""
        require_order(self, queries, key, self.labels, acting, among)

    def gains(self, queries: Queries) -> Gains:
        """What the gains of these queries look like; made once per data set."""

        def sort() -> Gains:
            gain, grade, _, discount, _ = self.prepared(queries)
            fine, whole = self.measure.fine(discount), self.measure.cutoff is None
            if not self.measure.gained or self.measure.tabled or not len(gain) or np.isnan(gain).any():
                return Gains(False, fine)
            if grade is gain and not whole:
                return Gains(True, fine)
            plain, begin, below, gains = gain_levels(gain, grade, queries.offsets)
            return (
                Gains(plain, fine, Levels(begin, below, np.pad(gains, (0, PADDING))))
                if plain and whole
                else Gains(plain, fine)
            )

        return queries.memo(("gains", self.measure, self.labels, self.ignore_zero), sort)

    def accumulate(self, ranking: Ranking, task: Task, scratch: Scratch, into: Into, tier: Array = EMPTY) -> None:
        """With ``tier``, one per row: of the pairs whose two rows have the same."""
        if constant(self.noise) == 0.0:
            self._add(ranking, task, scratch, into, tier)
            return
        coefficient, gradient, hessian = into
        for sample in range(self.samples):
            noisy = noisy_ranking(self, ranking, task, scratch, sample)
            self._add(noisy, task, scratch, (coefficient / self.samples, gradient, hessian), tier)

    def _add(self, ranking: Ranking, task: Task, scratch: Scratch, into: Into, tier: Array) -> None:
        """With the deltas of the ranking's order."""
        if ranking.bias is not None:
            query = ranking.engine(self, tier, lambda: Debiased(self, ranking, tier))(task, scratch, into)
            if query >= 0:
                raise LambdaplugError(
                    f"{self!r}: a force in query {query} is not finite. Lower clip=, sigma or the gains, or scale the scores down."
                )
            return
        if not self.staged:
            self.construction.accumulate(self, ranking, Work(task, scratch, into, tier))
            return
        engine = ranking.engine(self, tier, lambda: ByRows(self, ranking, tier))
        engine(task, scratch, into)
