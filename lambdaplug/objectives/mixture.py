"""Sums of objectives: gradients add, so several measures, label sources and moving targets need no kernel of their own."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import LambdaplugError
from ..measures import Measure
from ..queries import Array, Labels, Queries, Task
from ..schedules import Guard, Memory, Moment, Number, OnPlateau, check, clip, constant, is_constant
from ..values import called
from .base import EMPTY, Into, Objective, Ranking, Scratch, as_step, common_cutoff, require_objective
from .lambdarank import LambdaRank

__all__ = ["Graded", "Mixture", "interpolate"]


class Mixture(Objective):
    """A weighted sum of objectives: gradient = sum_k w_k gradient_k, hessian alike.

    Each part is an objective as it would be alone, with its own step and normalisation; parts may be mixtures again. A
    weight is a number or a schedule (``lp.linear(0.1, 0.01)``, any callable of the iteration), which is called
    once per round.

    Parameters
    ----------
    parts : sequence of (weight, Objective)
        Weights are numbers or schedules.
    step : str, optional
        ``"gradient"`` makes every combined hessian 1; default the sum of the parts' hessians.
    normalize : str, optional
        ``"std"`` divides each query's combined gradients by their standard deviation; on with that step.
    guard : Guard, optional
        ``lp.guard("ndcg@3", floor=0.6)`` lowers the weights after the first while that metric is below the floor.

    >>> a, b = lp.LambdaRank("ndcg"), lp.LambdaRank("map")
    >>> lp.Mixture([(0.7, a), (0.3, b)])
    Mixture([(0.7, LambdaRank('ndcg')), (0.3, LambdaRank('map'))])
    """

    terms: tuple[tuple[Number, Objective], ...]  # weight and part
    step: str | None
    normalize: str
    guard: Guard | None

    def __init__(
        self,
        parts: Sequence[tuple[Number, Objective]],
        *,
        step: str | None = None,
        normalize: str | None = None,
        guard: Guard | None = None,
    ) -> None:
        terms = tuple((check(weight, f"weight {k}"), part) for k, (weight, part) in enumerate(parts))
        if not terms:
            raise LambdaplugError("expected at least one objective.")
        for _, part in terms:
            require_objective(part)
            if not part.summable:
                raise LambdaplugError(
                    f"{part!r} looks at all queries at once, so it cannot be a part of a sum. Put the sum inside: "
                    "lp.Pareto([lp.Mixture(...), ...]), lp.Unbiased(lp.Mixture(...))."
                )
        if guard is not None and (not isinstance(guard, Guard) or len(terms) < 2):
            raise LambdaplugError(
                f"guard: expected lp.guard('ndcg@3', floor=...) and at least two parts, got {guard!r}."
            )
        step, normalize = as_step(step, normalize, None)
        self._set(terms=terms, step=step, normalize=normalize, guard=guard)
        self._set(std=normalize == "std", unit=step == "gradient")

    def __repr__(self) -> str:
        terms = ", ".join(f"({weight!r}, {part!r})" for weight, part in self.terms)
        return self._called(f"[{terms}]")

    def _called(self, *first: str) -> str:
        normalize = self.normalize, "std" if self.unit else "none"
        name = type(self).__name__
        return called(name, *first, step=(self.step, None), normalize=normalize, guard=(self.guard, None))

    @property
    def parts(self) -> tuple[Objective, ...]:
        return tuple(part for _, part in self.terms)

    @property
    def schedules(self) -> tuple[Number | Guard, ...]:
        weights = tuple(weight for weight, _ in self.terms)
        return weights if self.guard is None else (self.guard, *weights)

    @property
    def cutoff(self) -> int | None:
        return common_cutoff(self.parts)

    @property
    def cutoffs(self) -> frozenset[int | None]:
        return frozenset().union(*(part.cutoffs for part in self.parts))

    @property
    def divisible(self) -> bool:
        return all(part.divisible and not (part.std or part.unit) for part in self.parts)

    @property
    def target(self) -> Measure | None:
        return self.parts[0].target

    @property
    def watching(self) -> Mixture:
        """The outermost mixture in here whose own weights follow a metric; itself if none does."""
        if any(isinstance(number, (OnPlateau, Guard)) for number in self.schedules):
            return self
        inner = [part for part in self.parts if isinstance(part, Mixture) and part.watchers]
        return inner[0].watching if inner else self

    def weights(self, iteration: int = 0, memory: Memory | None = None) -> list[float]:
        """The parts' weights at this iteration."""
        return self.weights_in(Moment(iteration, memory))

    def weights_in(self, moment: Moment) -> list[float]:
        """``weights``, of a round that others ask too."""
        weights = [moment.number(weight) for weight, _ in self.terms]
        if min(weights) < 0.0:
            raise LambdaplugError(
                f"{self!r}: a weight is {min(weights):g} at iteration {moment.iteration}; weights start at 0."
            )
        if self.guard is not None:
            weights = self.guard.applied(weights, moment.memory)
        return weights

    def resolved(self, moment: Moment) -> Mixture:
        weights = moment.weights[self] = self.weights_in(moment)
        parts = [part.resolved(moment) for part in self.parts]
        return self._with(terms=tuple(zip(weights, parts, strict=True)), guard=None)

    def idle(self, k: int) -> bool:
        """Whether part k has no weight in any iteration; what a guard takes from the others goes to the first."""
        return self.terms[k][0] == 0.0 and not (k == 0 and self.guard is not None)

    def check_order(self, queries: Queries) -> None:
        for k, part in enumerate(self.parts):
            if not self.idle(k):
                part.check_order(queries)

    def accumulate(self, ranking: Ranking, task: Task, scratch: Scratch, into: Into) -> None:
        coefficient, gradient, hessian = into
        for k, (weight, part) in enumerate(self.terms):
            weight = constant(weight)
            if weight == 0.0:
                continue
            if not (part.std or part.unit):
                self.add(k, ranking, task, scratch, (coefficient * weight, gradient, hessian))
                continue
            with scratch.deeper() as depth:
                sums = scratch.sums(depth, len(gradient))
                self.add(k, ranking, task, scratch, (1.0, *sums))
                part.shape(ranking.queries, task, *sums)
                gradient += coefficient * weight * sums[0]
                hessian += coefficient * weight * sums[1]

    def add(self, k: int, ranking: Ranking, task: Task, scratch: Scratch, into: Into) -> None:
        """Add part k before its shape."""
        self.parts[k].accumulate(ranking, task, scratch, into)

    def tier(self, queries: Queries, k: int) -> Array:  # noqa: ARG002
        """One number per row: part k's pairs are those of equal numbers. Empty: all pairs."""
        return EMPTY


class Graded(Mixture):
    """Tiers of label sources in falling priority, such as human judgments and then clicks.

        gradient = sum_k w_k gradient_k, the forces of tier k only on pairs that are equal in all tiers above it.

    The first tier is an objective as it stands. A later tier's force acts only on pairs whose documents are equal in all
    tiers above (both labelled there) and ordered in its own source, weighted by its own measure's swap delta over the
    whole ranking. Equal above means the same label, even where a measure above gives two labels the same gain; ordered
    means by the own measure's gains. NaN in a source is a document without a label there: it takes part in no pair of that
    tier, and keeps its place in the ranking.

    Parameters
    ----------
    tiers : sequence of LambdaRank
        Those after the first usually with ``labels=``.
    weights : sequence, optional
        One per tier, numbers that sum to 1 or schedules; default equal ones.
    {mixture_options}
    References: K. Svore, M. Volkovs, C. Burges (2011), "Learning to rank with multiple objective functions", WWW.

    >>> clicks = [0.2, 0.6, 0.0, 1.0]
    >>> second = lp.LambdaRank("cndcg", labels=clicks, ignore_zero=True)
    >>> lp.Graded([lp.LambdaRank("ndcg"), second], weights=[0.8, 0.2])
    Graded([LambdaRank('ndcg'), LambdaRank('cndcg', labels=<4 values>, ignore_zero=True)], weights=[0.8, 0.2])
    """

    def __init__(
        self,
        tiers: Sequence[LambdaRank],
        weights: Sequence[Number] | None = None,
        *,
        step: str | None = None,
        normalize: str | None = None,
        guard: Guard | None = None,
    ) -> None:
        for tier in tiers:
            if not isinstance(tier, LambdaRank):
                raise LambdaplugError(f"Graded: expected a tier such as lp.LambdaRank('ndcg'), got {tier!r}.")
        if not tiers:
            raise LambdaplugError("Graded: expected at least one tier.")
        if weights is None:
            weights = [1.0 / len(tiers)] * len(tiers)
        if len(weights) != len(tiers):
            raise LambdaplugError(f"weights: expected one per tier ({len(tiers)}), got {len(weights)}.")
        numbers = [weight for weight in weights if not callable(weight)]
        if len(numbers) == len(weights) and abs(sum(numbers) - 1.0) > 1e-6:
            raise LambdaplugError(
                f"weights: expected numbers that sum to 1, got {list(weights)} with the sum {sum(numbers):g}."
            )
        super().__init__(list(zip(weights, tiers, strict=True)), step=step, normalize=normalize, guard=guard)

    def __repr__(self) -> str:
        weights, tiers = zip(*self.terms, strict=True)
        return self._called(repr(list(tiers)), f"weights={list(weights)!r}")

    def add(self, k: int, ranking: Ranking, task: Task, scratch: Scratch, into: Into) -> None:
        part, tier = self.parts[k], self.tier(ranking.queries, k)
        assert isinstance(part, LambdaRank)
        part.accumulate(ranking, task, scratch, into, tier)

    def above(self, k: int) -> tuple[Labels | None, ...]:
        """The label sources of the tiers above tier k."""
        return tuple(part.labels for part in self.parts[:k] if isinstance(part, LambdaRank))

    def check_order(self, queries: Queries) -> None:
        for k, part in enumerate(self.parts):
            if not self.idle(k) and isinstance(part, LambdaRank):
                part.check_order(queries, self.above(k))

    def tier(self, queries: Queries, k: int) -> Array:
        sources = self.above(k)
        return queries.memo(("tiers", sources), lambda: queries.tiers(sources)) if k else EMPTY


class interpolate(Mixture):  # noqa: N801 -- reads as the function it was in the paper
    """gradient = (1 - w_m) gradient_a + w_m gradient_b, w clipped to [0, 1]: from one objective to another while the model learns.

    Parameters
    ----------
    a, b : Objective
        The first and the last.
    weight : float or schedule
        w, such as ``lp.linear(0.0, 0.01)``.
    {mixture_options}
    References: K. Svore, M. Volkovs, C. Burges (2011), "Learning to rank with multiple objective functions", WWW.

    >>> lp.interpolate(lp.LambdaRank("ndcg"), lp.LambdaRank("map"), weight=0.25).weights()
    [0.75, 0.25]
    """

    def __init__(
        self,
        a: Objective,
        b: Objective,
        weight: Number,
        *,
        step: str | None = None,
        normalize: str | None = None,
        guard: Guard | None = None,
    ) -> None:
        weight = check(weight, "weight")
        super().__init__([(weight, a), (weight, b)], step=step, normalize=normalize, guard=guard)

    @property
    def weight(self) -> Number:
        """The weight of b."""
        return self.terms[1][0]

    def __repr__(self) -> str:
        return self._called(repr(self.parts[0]), repr(self.parts[1]), f"weight={self.weight!r}")

    def idle(self, k: int) -> bool:
        no_weight = is_constant(self.weight) and self.weights()[k] == 0.0
        return no_weight and not (k == 0 and self.guard is not None)

    def weights_in(self, moment: Moment) -> list[float]:
        weight = clip(moment.number(self.weight))
        if self.guard is not None:
            weight *= self.guard.value(moment.memory)
        return [1.0 - weight, weight]
