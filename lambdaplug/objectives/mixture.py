"""Sums of objectives: gradients add, so several measures, label sources and moving targets need no kernel of their own."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, TypeVar

from ..errors import LambdaplugError
from ..kernels import Leaf
from ..queries import Array, Queries
from ..schedules import Guard, Memory, Moment, Number, OnPlateau, check, clip, constant
from ..values import keep
from .base import EMPTY, Objective, Round, check_step, common_cutoff, normalization, planned, require_objective
from .lambdarank import LambdaRank

S = TypeVar("S", bound="Sum")


@dataclass(frozen=True, repr=False)
class Sum(Objective):
    """What the weighted sums share."""

    _: KW_ONLY
    step: str | None = None
    normalize: str | None = None
    guard: Guard | None = None

    def __post_init__(self) -> None:
        for part in self.inner:
            if not part.summable:
                raise LambdaplugError(
                    f"{part!r} looks at all queries at once, so it cannot be a part of a sum. Put the sum inside: "
                    "lp.Pareto([lp.Mixture(...), ...]), lp.Unbiased(lp.Mixture(...))."
                )
        if self.guard is not None and (not isinstance(self.guard, Guard) or len(self.inner) < 2):
            raise LambdaplugError(
                f"guard: expected lp.guard('ndcg@3', floor=...) and at least two parts, got {self.guard!r}."
            )
        check_step(self.step, self.normalize)

    @property
    @abc.abstractmethod
    def terms(self) -> tuple[tuple[Number, Objective], ...]:
        """Weight and part."""

    @property
    def inner(self) -> tuple[Objective, ...]:
        return tuple(part for _, part in self.terms)

    @property
    def unit(self) -> bool:
        return self.step == "gradient"

    @property
    def std(self) -> bool:
        return normalization(self.normalize, self.unit) == "std"

    @property
    def schedules(self) -> tuple[Number | Guard, ...]:
        weights = tuple(weight for weight, _ in self.terms)
        return weights if self.guard is None else (self.guard, *weights)

    @property
    def cutoff(self) -> int | None:
        return common_cutoff(self.inner)

    @property
    def ranked(self) -> bool:
        return any(part.ranked for part in self.inner)

    @property
    def watching(self) -> Sum:
        """The outermost mixture in here whose own weights follow a metric; itself if none does."""
        if any(isinstance(number, (OnPlateau, Guard)) for number in self.schedules):
            return self
        watching = [part for part in self.inner if isinstance(part, Sum) and part.watchers]
        return watching[0].watching if watching else self

    def weights_at(self, iteration: int = 0, memory: Memory | None = None) -> list[float]:
        """The parts' weights at this iteration."""
        return self.weights_in(Moment(iteration, memory))

    def weights_in(self, moment: Moment) -> list[float]:
        """``weights_at``, of a round that others ask too."""
        weights = [moment.number(weight) for weight, _ in self.terms]
        if min(weights) < 0.0:
            raise LambdaplugError(
                f"{self!r}: a weight is {min(weights):g} at iteration {moment.iteration}; weights start at 0."
            )
        if self.guard is not None:
            weights = self.guard.applied(weights, moment.memory)
        return weights

    def resolved(self, moment: Moment) -> Sum:
        weights = moment.weights[self] = self.weights_in(moment)
        return self.plan(weights, [part.resolved(moment) for part in self.inner])

    @abc.abstractmethod
    def plan(self: S, weights: list[float], parts: list[Any]) -> S:
        """The same with these weights and parts."""

    def idle(self, k: int) -> bool:
        """Whether part k has no weight in any iteration; what a guard takes from the others goes to the first."""
        return self.terms[k][0] == 0.0 and not (k == 0 and self.guard is not None)

    def check_order(self, queries: Queries) -> None:
        for k, part in enumerate(self.inner):
            if not self.idle(k):
                part.check_order(queries)

    def at(self, round: Round) -> list[Leaf]:
        found: list[Leaf] = []
        for k, (weight, part) in enumerate(self.terms):
            if constant(weight) != 0.0:
                tier = self.tier(round.queries, k)
                found += part.within(round, constant(weight), *([tier] if tier.size else []))
        return found

    def tier(self, queries: Queries, k: int) -> Array:
        """One number per row: part k's pairs are those of equal numbers. Empty: all pairs."""
        return EMPTY


@dataclass(frozen=True, repr=False)
class Mixture(Sum):
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

    Examples
    --------
    >>> import lambdaplug as lp
    >>> a, b = lp.LambdaRank("ndcg"), lp.LambdaRank("map")
    >>> lp.Mixture([(0.7, a), (0.3, b)])
    Mixture([(0.7, LambdaRank('ndcg')), (0.3, LambdaRank('map'))])
    """

    parts: Sequence[tuple[Number, Objective]]

    def __post_init__(self) -> None:
        if not self.parts or any(not isinstance(term, (tuple, list)) or len(term) != 2 for term in self.parts):
            raise LambdaplugError(
                "Mixture: expected at least one objective with its weight, as in lp.Mixture([(0.5, a), (0.5, b)])."
            )
        terms = enumerate(self.parts)
        keep(self, parts=tuple((check(weight, f"weight {k}"), require_objective(part)) for k, (weight, part) in terms))
        super().__post_init__()

    @property
    def terms(self) -> tuple[tuple[Number, Objective], ...]:
        return tuple(self.parts)

    def plan(self, weights: list[float], parts: list[Any]) -> Mixture:
        return planned(self, parts=tuple(zip(weights, parts, strict=True)), guard=None)


@dataclass(frozen=True, repr=False)
class Graded(Sum):
    """Tiers of labels in falling priority, such as human judgments and then clicks.

        gradient = sum_k w_k gradient_k, the forces of tier k only on pairs that are equal in all tiers above it.

    The first tier is an objective as it stands. A later tier's force acts only on pairs whose documents are equal in all
    tiers above (both labelled there) and ordered by its own labels, weighted by its own measure's swap delta over the
    whole ranking. Equal above means the same label, even where a measure above gives two labels the same gain; ordered
    means by the own measure's gains. NaN in a column is a document without a label there: it takes part in no pair of that
    tier, and keeps its place in the ranking.

    Parameters
    ----------
    tiers : sequence of LambdaRank
        Those after the first usually with ``labels=``, the name of a column.
    weights : sequence, optional
        One per tier, numbers that sum to 1 or schedules; default equal ones.
    step, normalize, guard : optional
        As for :class:`Mixture`.

    References
    ----------
    K. Svore, M. Volkovs, C. Burges (2011), "Learning to rank with multiple objective functions", WWW.

    Examples
    --------
    >>> import lambdaplug as lp
    >>> second = lp.LambdaRank("cndcg", labels="clicks", ignore_zero=True)
    >>> objective = lp.Graded([lp.LambdaRank("ndcg"), second], weights=[0.8, 0.2])
    >>> objective
    Graded([LambdaRank('ndcg'), LambdaRank('cndcg', labels='clicks', ignore_zero=True)], weights=[0.8, 0.2])
    >>> data = {"labels": [1, 1, 0], "scores": [0.0, 0.0, 0.0], "group": [3]}
    >>> objective.gradients(**data, columns={"clicks": [0.0, 0.5, 0.0]})[0].round(3)
    array([-0.123, -0.032,  0.155], dtype=float32)
    """

    tiers: Sequence[LambdaRank]
    weights: Sequence[Number] | None = None

    def __post_init__(self) -> None:
        tiers, weights = tuple(self.tiers), self.weights
        if not tiers or not all(isinstance(tier, LambdaRank) for tier in tiers):
            raise LambdaplugError(
                f"Graded: expected at least one tier, each such as lp.LambdaRank('ndcg'), got {list(tiers)!r}."
            )
        keep(self, tiers=tiers)
        if weights is not None:
            weights = tuple(check(weight, f"weight {k}") for k, weight in enumerate(weights))
            total = sum(1.0 if callable(weight) else weight for weight in weights)
            if len(weights) != len(tiers) or (abs(total - 1.0) > 1e-6 and not any(map(callable, weights))):
                raise LambdaplugError(
                    f"weights: expected one per tier ({len(tiers)}), schedules or numbers that sum to 1, got {list(weights)}."
                )
            keep(self, weights=weights)
        super().__post_init__()

    @property
    def terms(self) -> tuple[tuple[Number, Objective], ...]:
        weights = [1.0 / len(self.tiers)] * len(self.tiers) if self.weights is None else self.weights
        return tuple(zip(weights, self.tiers, strict=True))

    def plan(self, weights: list[float], parts: list[Any]) -> Graded:
        return planned(self, tiers=tuple(parts), weights=tuple(weights), guard=None)

    def above(self, k: int) -> tuple[str | None, ...]:
        """The columns of labels of the tiers above tier k."""
        return tuple(tier.labels for tier in self.tiers[:k])

    def check_order(self, queries: Queries) -> None:
        for k, tier in enumerate(self.tiers):
            if not self.idle(k):
                tier.check_order(queries, self.above(k))

    def tier(self, queries: Queries, k: int) -> Array:
        columns = self.above(k)
        return queries.memo(("tiers", columns), lambda: queries.tiers(columns)) if k else EMPTY


@dataclass(frozen=True, repr=False)
class interpolate(Sum):  # noqa: N801 -- reads as the function it was in the paper
    """gradient = (1 - w_m) gradient_a + w_m gradient_b, w clipped to [0, 1]: from one objective to another while the model learns.

    Parameters
    ----------
    a, b : Objective
        The first and the last.
    weight : float or schedule
        w, such as ``lp.linear(0.0, 0.01)``.
    step, normalize, guard : optional
        As for :class:`Mixture`.

    References
    ----------
    K. Svore, M. Volkovs, C. Burges (2011), "Learning to rank with multiple objective functions", WWW.

    Examples
    --------
    >>> import lambdaplug as lp
    >>> lp.interpolate(lp.LambdaRank("ndcg"), lp.LambdaRank("map"), weight=0.25).weights_at()
    [0.75, 0.25]
    """

    a: Objective
    b: Objective
    weight: Number

    def __post_init__(self) -> None:
        keep(self, a=require_objective(self.a), b=require_objective(self.b), weight=check(self.weight, "weight"))
        super().__post_init__()

    @property
    def terms(self) -> tuple[tuple[Number, Objective], ...]:
        if callable(self.weight):
            return (self.weight, self.a), (self.weight, self.b)
        return (1.0 - clip(self.weight), self.a), (clip(self.weight), self.b)

    def plan(self, weights: list[float], parts: list[Any]) -> interpolate:
        return planned(self, a=parts[0], b=parts[1], weight=weights[1], guard=None)

    def weights_in(self, moment: Moment) -> list[float]:
        weight = clip(moment.number(self.weight))
        if self.guard is not None:
            weight *= self.guard.value(moment.memory)
        return [1.0 - weight, weight]
