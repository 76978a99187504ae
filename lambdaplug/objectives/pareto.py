"""Several goals at once: weights that each round decides anew, from the parts' gradients or their measures."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, fields
from typing import Any, ClassVar, NoReturn

import numpy as np
import numpy.typing as npt
from numpy.typing import ArrayLike
from scipy.optimize import nnls

from ..checking import integer, is_number, positive
from ..errors import LambdaplugError
from ..kernels import blend_kernel, chance_kernel, gram_kernel
from ..measures import Measure, Prepared
from ..queries import Array, Queries
from ..schedules import Guard, Moment
from ..values import keep
from .base import Asked, MeasureObjective, Objective, Round, answers, common_cutoff, planned, require_objective
from .mixture import Mixture
from .smoothing import label_hash

__all__ = ["Pareto", "min_norm", "reported"]

METHODS = ("mgda", "chebyshev", "epsilon", "sample")
BY_MEASURES = ("chebyshev", "epsilon")
OPTIONS = {  # and the methods that have them; all others are for every method
    "bounds": ("epsilon",),
    "preference": ("mgda", "chebyshev", "sample"),
    "rate": ("epsilon",),
    "reference": BY_MEASURES,
    "seed": ("sample",),
    "smooth": ("chebyshev",),
}
VANISHED = 1e-12  # of the largest norm: a gradient that has nothing to say


def min_norm(gram: ArrayLike) -> Array:
    """The point a of the simplex (a >= 0, sum a = 1) that minimises a' G a, for a Gram matrix G of any size.

    Of G = V'V, a multiple of it is the a >= 0 with the least |V a|^2 + t (sum a - 1)^2.

    >>> min_norm([[4.0, 0.0], [0.0, 1.0]]).round(12)
    array([0.2, 0.8])
    """
    matrix = np.asarray(gram, dtype=np.float64)
    count, weight = len(matrix), float(np.trace(matrix)) / len(matrix)
    if weight == 0.0:
        return np.full(count, 1.0 / count)
    squares, vectors = np.linalg.eigh(matrix / weight)
    root = np.sqrt(np.maximum(squares, 0.0))[:, None] * vectors.T
    multiple = nnls(np.vstack([root, np.ones(count)]), np.append(np.zeros(count), 1.0))[0]
    found: Array = multiple / multiple.sum()
    return found


@dataclass(frozen=True, repr=False)
class Pareto(Objective):
    """Several objectives, none of them given up: gradient = sum_m w_m g_m, with weights w that each round decides anew.

    g_m and h_m are the parts' gradients and hessians over all rows, r the preferences. The weights have the sum 1, and
    hessians are added with the same ones.

    ``"mgda"``: the point with the least norm in the convex hull of g_m / r_m (Désidéri 2012):

        a = argmin |sum_m a_m g_m / r_m|^2,  a >= 0,  sum a_m = 1;  w_m in proportion to a_m / r_m.

    To first order no part gets worse; the improvements of those with a_m > 0 are in proportion to r_m, and a part that
    improves by more than its share anyway has no weight.

    ``"chebyshev"``: the part whose measure is furthest from its reference, by preference, in a smooth maximum:

        w_m in proportion to r_m exp(r_m (reference_m - M_m) / smooth).

    ``"epsilon"``: the first part, subject to ``bounds`` on the others' measures, by multipliers that grow while a bound is
    missed and fall while it is exceeded:

        a_m <- max(0, a_m + rate (reference_m - M_m) / (reference_m - bound_m) - rate);  w in proportion to (1, a_2, ...).

    ``"sample"``: stochastic label aggregation (Carmel et al. 2020): each query draws one part per round, part m
    with the probability r_m / sum r. The draw is a function of seed, the query's scores and labels: the same at any
    number of threads and on a cluster. Queries of equal scores and labels draw alike.

    M_m is the mean of the part's own measure over the training queries where it is defined, by this round's scores and
    the part's own labels: no pair cost, and what ``lp.evaluate`` would say. Each costs a ranking and a value per round.
    Multipliers are kept for the training of one Booster; a continued training starts them anew.

    Weights are the same at any number of threads. On a cluster the workers add up their inner products and measures; the weights
    are then those of one machine up to rounding. ``callback.trace`` and ``lp.analysis.record`` have them per round: ``weight 0``,
    ``weight 1``, ..., and ``measure 0``, ... for chebyshev and epsilon.

    A part whose gradient has vanished (1e-12 of the largest norm) is left out for that round, where MGDA would give it all
    weight and stop; when all have, weights are the preferences. Parts of equal gradients share in any way: their sum is
    the same. Equal parts are refused. A Pareto may be a part of a Pareto, not of a Mixture.

    Parameters
    ----------
    parts : sequence of Objective
        At least two, with labels of their own if they have any.
    method : str
        ``"mgda"``, ``"chebyshev"``, ``"epsilon"`` or ``"sample"``.
    preference : sequence of float, optional
        One number >= 0 per part; default equal ones. A part with 0 never acts. Not for epsilon.
    bounds : sequence of float
        For epsilon: the least value of each measure after the first.
    reference : sequence of float, optional
        For chebyshev and epsilon: the best value of each part's measure; default 1.
    normalize : str, optional
        ``"norm"`` (default, except for sample) decides as if all g_m had norm 1, so that a part's scale does not matter;
        ``"none"`` takes them as they are (Désidéri's); ``"std"`` divides each query's gradients and hessians, part by
        part, by the standard deviation of its gradients, so that each query counts alike.
    smooth : float
        For chebyshev, in units of the measures: the smaller, the more of the weight is on the worst part.
    rate : float
        For epsilon: how fast multipliers move.
    seed : int
        For sample.
    guard : Guard, optional
        ``lp.guard("ndcg@3", floor=0.6)`` lowers the weights after the first while that metric is below the floor.

    References
    ----------
    J.-A. Désidéri (2012), "Multiple-gradient descent algorithm (MGDA) for multiobjective optimization", Comptes Rendus
    Mathematique 350(5-6). D. Carmel, E. Haramaty, A. Lazerson, L. Lewin-Eytan (2020), "Multi-objective ranking optimization
    for product search using stochastic label aggregation", WWW.

    Examples
    --------
    >>> from lambdaplug import LambdaRank
    >>> objective = Pareto([LambdaRank("ndcg"), LambdaRank("ndcg", labels="stars")], preference=[0.7, 0.3])
    >>> objective
    Pareto([LambdaRank('ndcg'), LambdaRank('ndcg', labels='stars')], preference=[0.7, 0.3])
    >>> data = {"labels": [0, 1, 2], "scores": [0.3, 0.2, 0.1], "group": [3], "columns": {"stars": [3, 1, 2]}}
    >>> [round(weight, 3) for weight in objective.weights(**data)]
    [0.418, 0.582]
    """

    parts: Sequence[Objective]
    method: str = "mgda"
    preference: Sequence[float] | None = None
    _: KW_ONLY
    bounds: Sequence[float] | None = None
    reference: Sequence[float] | None = None
    normalize: str | None = None
    smooth: float = 0.01
    rate: float = 0.1
    seed: int = 0
    guard: Guard | None = None

    counted = True  # what it decides belongs to a round
    summable = False
    moment: ClassVar[Any] = None  # of a round's plan: the round
    origin: ClassVar[Pareto | None] = None  # and what was planned

    def __post_init__(self) -> None:
        parts, method = _checked_parts(self.parts), self.method
        if method not in METHODS:
            raise LambdaplugError(f"method: expected one of {', '.join(map(repr, METHODS))}, got {method!r}.")
        for field in fields(self):
            methods = OPTIONS.get(field.name, METHODS)
            if method not in methods and getattr(self, field.name) != field.default:
                raise LambdaplugError(f"{field.name}: it belongs to {' and '.join(methods)}, not to {method!r}.")
        allowed = ("none", "std") if method == "sample" else ("norm", "none", "std")
        if self.normalize not in (None, *allowed):
            raise LambdaplugError(
                f"normalize: expected one of {', '.join(map(repr, allowed))}, got {self.normalize!r}."
            )
        if self.guard is not None and not isinstance(self.guard, Guard):
            raise LambdaplugError(f"guard: expected lp.guard('ndcg@3', floor=...), got {self.guard!r}.")
        keep(self, parts=parts, smooth=positive(self.smooth, "smooth"), rate=positive(self.rate, "rate"))
        keep(self, seed=integer(self.seed, "seed", 0, 2**63 - 1))
        for name, count in (("preference", len(parts)), ("reference", len(parts)), ("bounds", len(parts) - 1)):
            if getattr(self, name) is not None:
                keep(self, **{name: _numbers(getattr(self, name), name, count)})
        if min(self.shares) < 0.0 or sum(self.shares) == 0.0:
            raise LambdaplugError(f"preference: expected numbers >= 0, not all 0; got {list(self.shares)}.")
        if method == "epsilon" and not (self.bounds and all(np.less(self.bounds, self.best[1:]))):
            raise LambdaplugError(
                "bounds: epsilon needs the least value of each measure after the first, less than its reference "
                f"{list(self.best[1:])}, got {self.bounds!r}."
            )
        if method in BY_MEASURES:
            for part in parts:
                _goal(part)

    @property
    def shares(self) -> tuple[float, ...]:
        """The preferences, equal ones unless said."""
        return (1.0 / len(self.parts),) * len(self.parts) if self.preference is None else tuple(self.preference)

    @property
    def best(self) -> tuple[float, ...]:
        """The best value of each part's measure, 1 unless said."""
        return (1.0,) * len(self.parts) if self.reference is None else tuple(self.reference)

    @property
    def schedules(self) -> tuple[Guard, ...]:
        return () if self.guard is None else (self.guard,)

    @property
    def inner(self) -> tuple[Objective, ...]:
        return tuple(self.parts)

    @property
    def watching(self) -> Pareto:
        """The sum whose weights ``callback.trace`` shows."""
        return self

    @property
    def cutoff(self) -> int | None:
        return common_cutoff(self.parts)

    def check_order(self, queries: Queries) -> None:
        for share, part in zip(self.shares, self.parts, strict=True):
            if share > 0.0:
                part.check_order(queries)

    def at(self, round: Round) -> NoReturn:
        raise LambdaplugError(
            f"{self!r} decides its weights from all queries at once: ask for gradients of all of them."
        )

    # --- one round

    def resolved(self, moment: Moment) -> Pareto:
        parts = [
            Mixture([(1.0, part)], normalize="std") if self.normalize == "std" and part.summable else part
            for part in self.parts
        ]
        return planned(self, parts=tuple(part.resolved(moment) for part in parts), moment=moment, origin=self)

    def weights(
        self,
        labels: ArrayLike,
        scores: ArrayLike,
        group: ArrayLike | None = None,
        weight: ArrayLike | None = None,
        iteration: int = 0,
        *,
        qid: ArrayLike | None = None,
        columns: Mapping[str, Any] | None = None,
    ) -> list[float]:
        """The weights that ``gradients`` of the same arguments has; of sample, the shares of queries that drew each part."""
        moment = Moment(iteration)
        queries = Queries.weighted(labels, group, weight, qid, columns)
        self.resolved(moment).differentiate(queries, scores, iteration)
        return moment.weights[self]

    def answer(self, queries: Queries, values: Array, asked: Asked) -> tuple[Any, Any]:
        if asked.bias is not None:
            raise LambdaplugError(f"{self!r}: its parts' pairs cannot be weighed by positions one by one.")
        if self.origin is None:
            plan = self.resolved(Moment(asked.iteration, asked.memory))
            return plan.answer(queries, values, asked._replace(memory=None))
        acting = [k for k, share in enumerate(self.shares) if share > 0.0]
        goals = self._goals(queries)
        measured = np.zeros((len(goals), len(queries)))  # by part and query, before the norm
        measuring = [kind.measuring(own, out) for (kind, own), out in zip(goals, measured, strict=True)]
        found = {k: self.parts[k].answer(queries, values, asked) for k in acting if not self.parts[k].summable}
        others = [k for k in acting if k not in found]
        together = answers([self.parts[k] for k in others], queries, values, asked, measuring)
        found |= dict(zip(others, together, strict=True))
        if self.method == "sample":
            return self._drawn(queries, values, found)
        gram = self._gram([found[k][0] for k in acting])
        chosen = self._decided(acting, gram, self._means(goals, measured))
        self.moment.weights[self.origin] = chosen
        weighed = [k for k in acting if chosen[k] > 0.0]
        for which in range(2):  # in place of the first part's: fresh memory would cost more than the sums
            blend_kernel()(np.array(chosen)[weighed], tuple(found[k][which] for k in weighed))
        return found[weighed[0]]

    def _summed(self, sums: Array) -> Array:
        """Over all workers."""
        return sums if self.moment.total is None else self.moment.total(sums)

    def _gram(self, gradients: list[npt.NDArray[Any]]) -> Array:
        """Inner products of the parts' gradients; outside mgda only their squares are needed."""
        gram = np.zeros((len(gradients), len(gradients)))
        gram_kernel()(tuple(gradients), self.method == "mgda", gram)
        return self._summed(gram)

    def _decided(self, acting: list[int], gram: Array, values: Array) -> list[float]:
        """The weights of all parts, from the acting ones' inner products and all parts' measures."""
        share = np.array(self.shares)
        norm = np.zeros(len(share))
        norm[acting] = np.sqrt(np.diag(gram))
        alive = norm > VANISHED * norm.max()
        multipliers = self._multipliers(values) if self.method == "epsilon" else []
        if not alive.any():
            return (share / share.sum()).tolist()  # type: ignore[no-any-return]
        r, scale = share[alive], 1.0 / norm[alive] if self.normalize in (None, "norm") else np.ones(int(alive.sum()))
        if self.method == "mgda":
            inside = alive[acting]
            by = scale / r
            own = min_norm(gram[np.ix_(inside, inside)] * np.outer(by, by)) / r
        elif self.method == "chebyshev":
            behind = r * (np.array(self.best) - values)[alive] / self.smooth
            own = r * np.exp(behind - behind.max())
        else:
            own = np.array([1.0, *multipliers])[alive]
        weights = np.zeros(len(share))
        weights[alive] = own * scale
        if weights.sum() == 0.0:  # the first part has vanished, and every bound holds
            weights[alive] = scale
        found: list[float] = (weights / weights.sum()).tolist()
        return found if self.guard is None else self.guard.applied(found, self.moment.memory)

    def _multipliers(self, values: Array) -> list[float]:
        """epsilon's, moved by this round's measures."""
        last = self.moment.recall(("multipliers", self.origin)) or [0.0] * (len(self.parts) - 1)
        best, bounds = np.array(self.best[1:]), np.array(self.bounds)
        moved = np.maximum(0.0, last + self.rate * ((best - values[1:]) / (best - bounds) - 1.0))
        self.moment.keep(("multipliers", self.origin), moved.tolist())
        return moved.tolist()  # type: ignore[no-any-return]

    def _drawn(self, queries: Queries, scores: Array, found: dict[int, tuple[Any, Any]]) -> tuple[Any, Any]:
        """Of each query the gradients of the part that it has drawn."""
        share = (np.array(self.shares) / sum(self.shares)).tolist()
        if self.guard is not None:
            share = self.guard.applied(share, self.moment.memory)
        chances = np.empty(len(queries))
        chance_kernel()(scores, (label_hash(None, queries), self.seed, 0), queries.offsets, chances)
        last = int(np.flatnonzero(share)[-1])  # rounding must not draw a part without a share
        drawn = np.minimum(np.searchsorted(np.cumsum(share), chances, side="right"), last)
        counts = self._summed(np.bincount(drawn, minlength=len(share)).astype(np.float64))
        self.moment.weights[self.origin] = (counts / max(float(counts.sum()), 1.0)).tolist()
        rows = np.repeat(drawn, queries.sizes)
        out = tuple(np.zeros_like(one) for one in next(iter(found.values())))
        for k, part in found.items():
            for into, own in zip(out, part, strict=True):
                np.copyto(into, own, where=rows == k)
        return out[0], out[1]

    # --- the parts' measures

    def _goals(self, queries: Queries) -> list[tuple[Measure, Prepared]]:
        """Each part's measure, where they are needed, and what it sees of the queries."""
        if self.origin is None or self.method not in BY_MEASURES:
            return []
        return [(_goal(part), _prepared(part, queries)) for part in self.origin.parts]

    def _means(self, goals: list[tuple[Measure, Prepared]], measured: Array) -> Array:
        """The mean of each part's measure, over the queries where it is defined."""
        if not goals:
            return np.empty(0)
        norms = np.stack([own.norm for _, own in goals])
        defined = norms != 0.0
        sums = self._summed(np.stack([np.where(defined, measured * norms, 0.0).sum(axis=1), defined.sum(axis=1)]))
        if not sums[1].all():
            k = int(np.argmin(sums[1]))
            raise LambdaplugError(f"{self.origin!r}: the measure of part {k}, {goals[k][0]}, is defined in no query.")
        found: Array = sums[0] / sums[1]
        self.moment.values[self.origin] = found.tolist()
        return found


def _checked_parts(parts: Sequence[Objective]) -> tuple[Objective, ...]:
    own = tuple(require_objective(part, "Pareto: ") for part in parts)
    if len(own) < 2:
        raise LambdaplugError(f"Pareto: expected at least two objectives, got {len(own)}.")
    for k, part in enumerate(own):
        if not part.summable and not isinstance(part, Pareto):
            raise LambdaplugError(
                f"Pareto: {part!r} learns from all queries, and cannot be a part. Put Pareto inside it."
            )
        if part in own[:k]:
            raise LambdaplugError(
                f"Pareto: parts {own.index(part)} and {k} are the same objective, {part!r}: drop one."
            )
    return own


def _goal(part: Objective) -> Measure:
    """The measure by which a part is judged."""
    kind = part.kind if isinstance(part, MeasureObjective) else part.goal
    if kind is None:
        raise LambdaplugError(
            f"Pareto: chebyshev and epsilon decide by the parts' measures, and {part!r} has none. Use method='mgda' or "
            "'sample', or a part made for a measure such as lp.LambdaRank('ndcg')."
        )
    return kind


def _prepared(part: Objective, queries: Queries) -> Prepared:
    if isinstance(part, MeasureObjective):
        return part.prepared(queries)
    kind = _goal(part)
    return queries.memo((kind, None, False), lambda: kind.prepared_for(queries))


def _numbers(values: Sequence[float], name: str, count: int) -> tuple[float, ...]:
    found = tuple(values)
    if len(found) != count or not all(is_number(value) and np.isfinite(value) for value in found):
        raise LambdaplugError(f"{name}: expected {count} finite numbers, got {values!r}.")
    return tuple(map(float, found))


def reported(weights: Mapping[Hashable, list[float]], values: Mapping[Hashable, list[float]]) -> dict[str, float]:
    """What a round's Pareto has decided, by name; nothing where there was none."""
    outermost = [objective for objective in weights if isinstance(objective, Pareto)][-1:]
    found = {f"weight {k}": weight for one in outermost for k, weight in enumerate(weights[one])}
    return found | {f"measure {k}": value for one in outermost for k, value in enumerate(values.get(one, []))}
