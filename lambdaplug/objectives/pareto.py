"""Several goals at once: weights that each round decides anew, from the parts' gradients or their measures."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt
from numpy.typing import ArrayLike

from ..checking import integer, is_number, not_negative, positive
from ..errors import LambdaplugError
from ..kernels import Leaf, blend_kernel, chance_kernel, gram_kernel
from ..measures import Measure, Prepared
from ..queries import Array, Queries
from ..schedules import Guard, Moment
from ..values import keep
from .base import Asked, MeasureObjective, Objective, Round, answers, common_cutoff, planned, require_objective
from .mixture import Mixture
from .smoothing import label_hash

__all__ = ["Pareto", "min_norm", "reported"]

METHODS = ("mgda", "chebyshev", "epsilon", "sample")
SMOOTH, RATE = 0.01, 0.1  # unless said
OPTIONS = {"bounds": ("epsilon",), "reference": ("chebyshev", "epsilon"), "smooth": ("chebyshev",)}
OPTIONS |= {"preference": ("mgda", "chebyshev", "sample"), "rate": ("epsilon",), "seed": ("sample",)}
VANISHED = 1e-12  # of the largest norm: a gradient that has nothing to say


def min_norm(gram: ArrayLike) -> Array:
    """The point a of the simplex (a >= 0, sum a = 1) that minimises a' G a, for a Gram matrix G of any size.

    Lawson and Hanson's active sets (1974), on the normal equations of |V a|^2 + t (sum a - 1)^2, G = V'V, whose
    solution is a multiple of that point.

    >>> min_norm([[4.0, 0.0], [0.0, 1.0]])
    array([0.2, 0.8])
    """
    matrix = np.asarray(gram, dtype=np.float64)
    count, weight = len(matrix), float(np.trace(matrix)) / len(matrix)
    if weight == 0.0:
        return np.full(count, 1.0 / count)
    kernel = matrix / weight + 1.0
    a, active = np.zeros(count), np.zeros(count, dtype=bool)
    for _ in range(3 * count):  # each step lowers the sum: more are not needed but for rounding
        slope = np.where(active, -np.inf, 1.0 - kernel @ a)
        if slope.max() <= 1e-13:
            break
        active[int(np.argmax(slope))] = True
        while True:
            wanted = np.zeros(count)
            wanted[active] = np.linalg.lstsq(kernel[np.ix_(active, active)], np.ones(active.sum()), rcond=None)[0]
            below = active & (wanted <= 0.0)
            if not below.any():
                a = wanted
                break
            a = a + float(np.min(a[below] / (a[below] - wanted[below]))) * (wanted - a)
            active &= ~(below & (a <= 1e-15))
            a[~active] = 0.0
    found: Array = a / a.sum()
    return found


class _Values(NamedTuple):
    """The parts' measures, found while they are ranked."""

    leaves: list[Leaf]
    kinds: list[Measure]
    prepared: list[Prepared]
    values: Array  # by part and query, before the norm


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
    smooth : float, optional
        For chebyshev, in units of the measures, default 0.01: the smaller, the more of the weight is on the worst part.
    rate : float, optional
        For epsilon: how fast multipliers move; default 0.1.
    seed : int, optional
        For sample; default 0.
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
    smooth: float | None = None
    rate: float | None = None
    seed: int | None = None
    guard: Guard | None = None

    counted = True  # what it decides belongs to a round
    summable = False
    moment: ClassVar[Moment | None] = None  # of a round's plan: the round
    origin: ClassVar[Pareto | None] = None  # and what was planned

    def __post_init__(self) -> None:
        keep(self, parts=_checked_parts(self.parts))
        method, count = self.method, len(self.parts)
        if method not in METHODS:
            raise LambdaplugError(f"method: expected one of {', '.join(map(repr, METHODS))}, got {method!r}.")
        for name, methods in OPTIONS.items():
            if getattr(self, name) is not None and method not in methods:
                raise LambdaplugError(f"{name}: it belongs to {' and '.join(methods)}, not to {method!r}.")
        allowed = ("none", "std") if method == "sample" else ("norm", "none", "std")
        if self.normalize not in (None, *allowed):
            raise LambdaplugError(
                f"normalize: expected one of {', '.join(map(repr, allowed))}, got {self.normalize!r}."
            )
        if self.guard is not None and not isinstance(self.guard, Guard):
            raise LambdaplugError(f"guard: expected lp.guard('ndcg@3', floor=...), got {self.guard!r}.")
        if self.preference is not None:
            keep(self, preference=_preference(self.preference, count))
        if self.reference is not None:
            keep(self, reference=_numbers(self.reference, "reference", count, "part"))
        if self.smooth is not None:
            keep(self, smooth=positive(self.smooth, "smooth"))
        if self.rate is not None:
            keep(self, rate=positive(self.rate, "rate"))
        if self.seed is not None:
            keep(self, seed=integer(self.seed, "seed", 0, 2**63 - 1))
        if method == "epsilon":
            keep(self, bounds=self._checked_bounds())
        if method in ("chebyshev", "epsilon"):
            for k in range(count):
                self._measured(k)
        if self.normalize == "std":
            self._shaped()

    @property
    def shares(self) -> tuple[float, ...]:
        """The preferences, equal ones unless said."""
        return (1.0 / len(self.parts),) * len(self.parts) if self.preference is None else tuple(self.preference)

    @property
    def best(self) -> tuple[float, ...]:
        """The best value of each part's measure, 1 unless said."""
        return (1.0,) * len(self.parts) if self.reference is None else tuple(self.reference)

    def _checked_bounds(self) -> tuple[float, ...]:
        if self.bounds is None:
            raise LambdaplugError("bounds: epsilon needs the least value of each measure after the first, got None.")
        found = _numbers(self.bounds, "bounds", len(self.parts) - 1, "part after the first")
        for bound, best in zip(found, self.best[1:], strict=True):
            if bound >= best:
                raise LambdaplugError(f"bounds: expected less than the reference {best:g}, got {bound:g}.")
        return found

    @property
    def schedules(self) -> tuple[Guard, ...]:
        return () if self.guard is None else (self.guard,)

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
        parts = tuple(part.resolved(moment) for part in self._shaped())
        return planned(self, parts=parts, moment=moment, origin=self)

    def _shaped(self) -> tuple[Objective, ...]:
        if self.normalize != "std":
            return tuple(self.parts)
        return tuple(
            part if isinstance(part, Pareto) else Mixture([(1.0, part)], normalize="std") for part in self.parts
        )

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
        if self.moment is None or self.origin is None:
            plan = self.resolved(Moment(asked.iteration, asked.memory))
            return plan.answer(queries, values, asked._replace(memory=None))
        acting = [k for k, share in enumerate(self.shares) if share > 0.0]
        measured = self._measuring(queries)
        found = self._answers(acting, queries, values, asked, measured)
        dtype = asked.dtype
        if self.method == "sample":
            drawn = self._drawn(queries, values)
            weights = self._summed(np.bincount(drawn, minlength=len(self.parts)).astype(np.float64))
            self.moment.weights[self.origin] = (weights / max(float(weights.sum()), 1.0)).tolist()
            rows = np.repeat(drawn, queries.sizes)
            gradient, hessian = np.zeros(len(rows), dtype), np.zeros(len(rows), dtype)
            for k in acting:
                np.copyto(gradient, found[k][0], where=rows == k)
                np.copyto(hessian, found[k][1], where=rows == k)
            return gradient, hessian
        gram = self._gram([found[k][0] for k in acting])
        chosen = self._decided(acting, gram, np.empty(0) if measured is None else self._means(measured))
        self.moment.weights[self.origin] = chosen
        weighed = [k for k in acting if chosen[k] > 0.0]
        for which in range(2):  # in place of the first part's: fresh memory would cost more than the sums
            blend_kernel()(np.array(chosen)[weighed], tuple(found[k][which] for k in weighed))
        return found[weighed[0]]

    def _answers(
        self, acting: list[int], queries: Queries, values: Array, asked: Asked, measured: _Values | None
    ) -> dict[int, tuple[Any, Any]]:
        """What the parts answer: those that can, together; and by the way, what their measures are."""
        nested = {k: self.parts[k].answer(queries, values, asked) for k in acting if isinstance(self.parts[k], Pareto)}
        others = [k for k in acting if k not in nested]
        plans = [self.parts[k] for k in others]
        found = answers(plans, queries, values, asked, () if measured is None else measured.leaves)
        return nested | dict(zip(others, found, strict=True))

    def _summed(self, sums: Array) -> Array:
        """Over all workers."""
        assert self.moment is not None
        return sums if self.moment.total is None else self.moment.total(sums)

    def _gram(self, gradients: list[npt.NDArray[Any]]) -> Array:
        """Inner products of the parts' gradients; outside mgda only their squares are needed."""
        gram = np.zeros((len(gradients), len(gradients)))
        gram_kernel()(tuple(gradients), self.method == "mgda", gram)
        return self._summed(gram)

    def _decided(self, acting: list[int], gram: Array, values: Array) -> list[float]:
        """The weights of all parts, from the acting ones' inner products and all parts' measures."""
        assert self.moment is not None
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
            behind = r * (np.array(self.best) - values)[alive] / (self.smooth or SMOOTH)
            own = r * np.exp(behind - behind.max())
        else:
            own = np.array([1.0, *multipliers])[alive]
        weights = np.zeros(len(share))
        weights[alive] = own * scale
        if weights.sum() == 0.0:  # the first part has vanished, and every bound holds
            weights[alive] = scale
        weights /= weights.sum()
        found: list[float] = weights.tolist()
        return found if self.guard is None else self.guard.applied(found, self.moment.memory)

    def _multipliers(self, values: Array) -> list[float]:
        """epsilon's, moved by this round's measures."""
        assert self.moment is not None
        last = self.moment.recall(("multipliers", self.origin)) or [0.0] * (len(self.parts) - 1)
        best, bounds = np.array(self.best[1:]), np.array(self.bounds)
        moved = np.maximum(0.0, last + (self.rate or RATE) * ((best - values[1:]) / (best - bounds) - 1.0))
        self.moment.keep(("multipliers", self.origin), moved.tolist())
        return moved.tolist()  # type: ignore[no-any-return]

    def _drawn(self, queries: Queries, scores: Array) -> npt.NDArray[np.int64]:
        """The part that each query has drawn."""
        assert self.moment is not None
        share = (np.array(self.shares) / sum(self.shares)).tolist()
        if self.guard is not None:
            share = self.guard.applied(share, self.moment.memory)
        chances = np.empty(len(queries))
        chance_kernel()(scores, (label_hash(None, queries), self.seed or 0, 0), queries.offsets, chances)
        ends = np.cumsum(share)
        last = int(np.flatnonzero(share)[-1])  # rounding must not draw a part without a share
        return np.minimum(np.searchsorted(ends, chances, side="right"), last)

    # --- the parts' measures

    def _measured(self, k: int) -> tuple[Measure, str | None]:
        """Part k's measure, and the column of its labels."""
        part = self.parts[k] if self.origin is None else self.origin.parts[k]
        if isinstance(part, MeasureObjective):
            return part.kind, part.labels
        if part.goal is None:
            raise LambdaplugError(
                f"Pareto: {self.method} decides by the parts' measures, and {part!r} has none. Use method='mgda' or "
                "'sample', or a part made for a measure such as lp.LambdaRank('ndcg')."
            )
        return part.goal, None

    def _measuring(self, queries: Queries) -> _Values | None:
        """What finds the parts' measures, where they are needed."""
        if self.method not in ("chebyshev", "epsilon"):
            return None
        wanted = [self._measured(k) for k in range(len(self.parts))]
        prepared = [
            queries.memo(
                (kind, source, False),
                lambda kind=kind, source=source: kind.prepared_for(queries, source),  # type: ignore[misc]
            )
            for kind, source in wanted
        ]
        values = np.zeros((len(wanted), len(queries)))

        each = zip(wanted, prepared, values, strict=True)
        measuring = [kind.measuring(own, out) for (kind, _), own, out in each]
        return _Values(measuring, [kind for kind, _ in wanted], prepared, values)

    def _means(self, measured: _Values) -> Array:
        """The mean of each part's measure."""
        assert self.moment is not None
        values = measured.values
        defined = np.array([p.norm != 0.0 for p in measured.prepared]).reshape(values.shape)
        norms = np.array([p.norm for p in measured.prepared]).reshape(values.shape)
        sums = self._summed(np.stack([np.where(defined, values * norms, 0.0).sum(axis=1), defined.sum(axis=1)]))
        if not sums[1].all():
            k = int(np.argmin(sums[1]))
            raise LambdaplugError(
                f"{self.origin!r}: the measure of part {k}, {measured.kinds[k]}, is defined in no query."
            )
        found: Array = sums[0] / sums[1]
        self.moment.values[self.origin] = found.tolist()
        return found


def _checked_parts(parts: Sequence[Objective]) -> tuple[Objective, ...]:
    own = tuple(parts)
    if len(own) < 2:
        raise LambdaplugError(f"Pareto: expected at least two objectives, got {len(own)}.")
    for k, part in enumerate(own):
        require_objective(part, "Pareto: ")
        if not part.summable and not isinstance(part, Pareto):
            raise LambdaplugError(
                f"Pareto: {part!r} learns from all queries, and cannot be a part. Put Pareto inside it."
            )
        if part in own[:k]:
            raise LambdaplugError(
                f"Pareto: parts {own.index(part)} and {k} are the same objective, {part!r}: drop one."
            )
    return own


def _preference(preference: Sequence[float], count: int) -> tuple[float, ...]:
    found = tuple(not_negative(share, "preference") for share in preference)
    if len(found) != count or sum(found) == 0.0:
        raise LambdaplugError(
            f"preference: expected one number >= 0 per part ({count}), not all 0; got {list(preference)!r}."
        )
    return found


def _numbers(values: Sequence[float], name: str, count: int, unit: str) -> tuple[float, ...]:
    found = tuple(values)
    if len(found) != count or not all(is_number(value) and np.isfinite(value) for value in found):
        raise LambdaplugError(f"{name}: expected one finite number per {unit} ({count}), got {values!r}.")
    return tuple(map(float, found))


def reported(weights: Mapping[Hashable, list[float]], values: Mapping[Hashable, list[float]]) -> dict[str, float]:
    """What a round's Pareto has decided, by name; nothing where there was none."""
    found: dict[str, float] = {}
    for objective, own in weights.items():
        if isinstance(objective, Pareto):  # the outermost is the last
            found = {f"weight {k}": weight for k, weight in enumerate(own)}
            found |= {f"measure {k}": value for k, value in enumerate(values.get(objective, []))}
    return found
