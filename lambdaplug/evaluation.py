"""Measure rankings: ``evaluate`` for arrays, ``metric`` for the boosters' own evaluation and early stopping."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, TypedDict, get_args, overload

import numpy as np
import numpy.typing as npt

from .checking import import_pandas, one_of, refuse_swapped, shown
from .columns import column_name
from .errors import LambdaplugError
from .kernels import Leaf, get_num_threads, leaves
from .measures import DCG, NDCG, Measure, Prepared, as_measures, registered
from .queries import Array, Queries, vector
from .rows import one_a_query
from .training import read
from .values import Value

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["Convention", "Empty", "Metric", "Rules", "Ties", "asked", "evaluate", "mean", "metric", "per_query_values"]

Measures: TypeAlias = str | Measure | Sequence[str | Measure]
Empty = Literal["skip", 0, 1]
Ties = Literal["stable", "worst", "best", "expected"]
Convention = Literal["letor"]
Total: TypeAlias = Callable[[Array], Array] | None  # adds up over workers


class Rules(TypedDict, total=False):
    """Options of :func:`evaluate`, for type checkers."""

    qid: npt.ArrayLike | None
    empty: Empty
    ties: Ties
    convention: Convention | None
    columns: Mapping[str, npt.ArrayLike] | None


@overload
def evaluate(
    measures: Measures,
    labels: npt.ArrayLike,
    scores: npt.ArrayLike,
    group: npt.ArrayLike | None = ...,
    *,
    weight: npt.ArrayLike | None = ...,
    **rules: Unpack[Rules],
) -> dict[str, float]: ...


@overload
def evaluate(
    measures: Measures,
    labels: npt.ArrayLike,
    scores: npt.ArrayLike,
    group: npt.ArrayLike | None = ...,
    *,
    per_query: bool = ...,
    frame: bool = ...,
    **rules: Unpack[Rules],
) -> Any: ...


def evaluate(
    measures: Measures,
    labels: npt.ArrayLike,
    scores: npt.ArrayLike,
    group: npt.ArrayLike | None = None,
    *,
    qid: npt.ArrayLike | None = None,
    empty: Empty = "skip",
    per_query: bool = False,
    ties: Ties = "stable",
    convention: Convention | None = None,
    frame: bool = False,
    weight: npt.ArrayLike | None = None,
    columns: Mapping[str, npt.ArrayLike] | None = None,
) -> Any:
    """The mean over queries of each measure, by its text; with ``per_query`` one value per query.

    Parameters
    ----------
    measures : str, Measure or a sequence of them
        ``"ndcg@10"``, ``lp.MAP(relevant=2)``, ...
    labels : array-like
        One label per row.
    scores : array-like
        One score per row.
    group : array-like
        The number of documents of each query, in order.
    qid : array-like, optional
        In place of ``group``: one query id per row, numbers or text, the rows of a query next to each other.
    empty : 'skip', 0 or 1
        What a query counts where a measure is undefined (nothing relevant, no documents): left out, 0 as in trec_eval, or 1 as
        in LightGBM and XGBoost.
    per_query : bool
        Return one value per query, NaN where a query is left out.
    ties : 'stable', 'worst', 'best' or 'expected'
        How equal scores stand: in row order, the lowest gains first, the highest first, or the exact mean over all orders.
    convention : 'letor', optional
        Compute what the evaluation script of LETOR 4.0 prints: NDCG's discount is 1 for the first two ranks and 1/log2(rank)
        from there on, NDCG@k of a list shorter than k is 0, and so is every undefined query. Its MeanNDCG is the measure of
        that name.
    frame : bool
        Return a pandas DataFrame, one row per query (by its id, if ``qid`` is given), one column per measure.
    weight : array-like, optional
        One number >= 0 per query, such as how often it is asked: the weighted mean, sum w value / sum w.
    columns : mapping, optional
        What the measures name besides labels, by name: ``{"price": prices}`` for ``lp.Revenue(price="price")``, one value per row
        (or per query), or a table.

    Returns
    -------
    dict or DataFrame
        By the measure's text its mean, NaN if no query has a value; with ``per_query`` an array.

    Examples
    --------
    >>> evaluate(["ndcg@10", "mrr"], labels=[0, 1, 1, 0], scores=[2, 1, 4, 3], group=[2, 2])
    {'ndcg@10': 0.8154648767857288, 'mrr': 0.75}
    >>> evaluate("mrr", labels=[0, 1, 0], scores=[5, 5, 1], qid=["a", "a", "a"], ties="expected")
    {'mrr': 0.75}
    """
    parts = asked(measures, empty=empty, ties=ties, convention=convention, weighted=True)
    if weight is not None and (per_query or frame):
        raise LambdaplugError("weight: it enters means, and there are none with per_query= or frame=: leave it out.")
    queries = Queries(labels, group, qid=qid, query_weight=weight, columns=columns)
    refuse_swapped(queries.labels, scores)
    names = [str(part.kind) for part in parts]
    if not per_query and not frame:
        return dict(zip(names, means(parts, queries, scores), strict=True))
    values = dict(zip(names, per_query_values(parts, queries, scores), strict=True))
    if frame:
        return import_pandas().DataFrame(values, index=query_names(queries, qid)).rename_axis("query")
    return values


def query_names(queries: Queries, qid: npt.ArrayLike | None) -> npt.NDArray[Any]:
    """The user's own ids of the queries, one per query, or their numbers."""
    return np.arange(len(queries)) if qid is None else np.asarray(qid)[queries.offsets[:-1]]


# --- values by query, and their means ----------------------------------------------------------------------------


class Part(NamedTuple):
    """A measure, and how it is taken."""

    kind: Measure
    empty: Empty = "skip"
    labels: str | None = None
    ties: Ties = "stable"
    weighted: bool = False
    name: str | None = None  # that the user has given it
    convention: Convention | None = None


def asked(
    measures: Measures,
    *,
    empty: Empty = "skip",
    ties: Ties = "stable",
    convention: Convention | None = None,
    **options: Any,
) -> tuple[Part, ...]:
    """Measures and how they are taken, checked."""
    one_of(empty, "empty", get_args(Empty))
    one_of(ties, "ties", get_args(Ties))
    one_of(convention, "convention", (None, *get_args(Convention)))
    empty = 0 if convention == "letor" else empty
    kinds = as_measures(measures if isinstance(measures, Iterable) else [measures])
    if not kinds:
        raise LambdaplugError("name at least one measure, such as 'ndcg@10'.")
    return tuple(Part(kind, empty, ties=ties, convention=convention, **options) for kind in kinds)


def per_query_values(
    parts: Sequence[Part], queries: Queries, scores: npt.ArrayLike, threads: int | None = None
) -> list[Array]:
    """One array for each, one value per query, ranked once for all of them."""
    ranked = vector(scores, "scores")
    if len(ranked) != len(queries.labels):
        raise LambdaplugError(f"scores: expected one per row ({len(queries.labels)}), got {len(ranked)}.")
    threads = get_num_threads(threads)
    queries.begin()
    steps, made = [], []
    for part in parts:
        kind = _by_letor(part.kind) if part.convention == "letor" else part.kind
        make = functools.partial(kind.prepared_for, queries, part.labels)
        prepared, value = queries.memo((kind, part.labels, False), make), np.zeros(len(queries))
        steps.append(_measuring(kind, prepared, value, part.ties, queries, ranked))
        made.append((part, prepared.norm, value))
    queries.run(steps, ranked, threads)
    return [_complete(part, norm, value, queries.sizes) for part, norm, value in made]


def _measuring(kind: Measure, prepared: Prepared, out: Array, ties: Ties, queries: Queries, scores: Array) -> Leaf:
    """The leaf that writes a measure's values, before their norms."""
    if ties == "stable":
        return kind.measuring(prepared, out)
    if kind.tabled:
        raise LambdaplugError(
            f"ties: {kind} has no gain by which equal scores could stand: expected ties='stable', got {ties!r}."
        )
    gain, _, _, discount, k = prepared
    known, query = np.nan_to_num(gain, nan=-np.inf), np.repeat(np.arange(len(queries)), queries.sizes)
    rows = np.lexsort((known if ties == "worst" else -known, -scores, query))
    order = (rows - queries.offsets[query]).astype(np.int32)
    if ties == "expected":
        return Leaf(leaves.expected(_expectation(kind)), (), (gain, discount, k, order, out), measure=kind)
    return kind.measuring(prepared, out, order)


def _expectation(kind: Measure) -> Callable[..., float]:
    """The measure's ``expected``, unless a subclass has another value than the one that this is the mean of."""
    owner = next(one for one in type(kind).__mro__ if {"value", "expected"} & vars(one).keys())
    if vars(owner).get("expected") is not None:
        return kind.expected  # type: ignore[return-value]
    able = ", ".join(sorted(name for name, other in registered().items() if other.expected is not None))
    raise LambdaplugError(
        f"ties='expected': {kind} does not say its mean over all orders of equal scores. Those which do: {able}; "
        "'stable', 'worst' and 'best' serve every measure."
    )


def _complete(part: Part, norm: Array, value: Array, sizes: npt.NDArray[np.int64]) -> Array:
    """Values times their norms, with what stands for undefined ones."""
    wrong = np.flatnonzero(~np.isfinite(value) & (norm != 0.0))
    if len(wrong):
        raise LambdaplugError(f"{part.kind}: the value of query {wrong[0]} is {value[wrong[0]]}: it must be finite.")
    found = np.where(norm == 0.0, np.nan if part.empty == "skip" else float(part.empty), value * norm)
    if part.convention == "letor" and isinstance(part.kind, NDCG):
        found[sizes < (part.kind.cutoff or 0)] = 0.0
    return found


def _by_letor(kind: Measure) -> Measure:
    plain = isinstance(kind, DCG) and kind.discount == "log2"
    return replace(kind, discount=letor_discount) if plain else kind  # type: ignore[call-arg]


def letor_discount(rank: int) -> float:
    """1, 1, 1/log2(3), 1/log2(4), ..."""
    return 1.0 if rank < 3 else float(1.0 / np.log2(rank))


def means(
    parts: Sequence[Part], queries: Queries, scores: npt.ArrayLike, threads: int | None = None, total: Total = None
) -> list[float]:
    """The mean over queries of each; with ``total``, which adds up over workers, over those of all workers."""
    if queries.document_weight is not None and any(part.weighted for part in parts):
        raise LambdaplugError(
            "weight: expected weights of queries, and these are of documents: they differ within a query."
        )
    inner = [part._replace(kind=kind, labels=own or part.labels) for part in parts for kind, own in part.kind.parts]
    values = per_query_values(inner, queries, scores, threads)
    weights = [queries.query_weight if part.weighted else None for part in inner]
    sums = np.array([_sums(one, weight) for one, weight in zip(values, weights, strict=True)]).reshape(-1, 2)
    numbers = itertools.starmap(_quotient, sums if total is None else total(sums))
    return [part.kind.combined([next(numbers) for _ in part.kind.parts]) for part in parts]


def mean(values: Array, weight: Array | None = None) -> float:
    """Over the queries that have a value, by their weights if given; NaN if none has."""
    return _quotient(*_sums(values, weight))


def _sums(values: Array, weight: Array | None) -> tuple[float, float]:
    """Of the values that there are, and of their weights."""
    known = ~np.isnan(values)
    own = np.ones(np.count_nonzero(known)) if weight is None else weight[known]
    return float((own * values[known]).sum()), float(own.sum())


def _quotient(total: float, count: float) -> float:
    return float(total / count) if count > 0.0 else float("nan")


# --- metrics -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Metric(Value):
    """Measures as an evaluation function; see :func:`metric`. Metrics add up to one that reports them all."""

    parts: tuple[Part, ...]

    @staticmethod
    def of(measures: Measures, **rules: Any) -> Metric:
        return Metric(asked(measures, **rules))

    def __add__(self, other: Metric) -> Metric:
        both = Metric(tuple(dict.fromkeys((*self.parts, *other.parts))))
        if len(set(both.names)) < len(both.names):
            raise LambdaplugError(f"metric: {', '.join(both.names)} would be reported under the same name.")
        return both

    def __repr__(self) -> str:
        said, usual = [], Part._field_defaults
        for options, parts in itertools.groupby(self.parts, lambda part: part[1:]):
            words = [part.kind.written() for part in parts]
            for field, value in zip(Part._fields[1:], options, strict=True):
                if value != usual[field]:
                    words.append(f"{'weight' if field == 'weighted' else field}={value!r}")
            said.append(f"metric({', '.join(words)})")
        return " + ".join(said)

    def without(self, names: Iterable[str]) -> Metric | None:
        """The same less the measures of these names; None if nothing is left."""
        kept = tuple(part for part, name in zip(self.parts, self.names, strict=True) if name not in names)
        return Metric(kept) if kept else None

    def weighted(self) -> Metric:
        """The same by the query weights of the data."""
        return Metric(tuple(part._replace(weighted=True) for part in self.parts))

    @property
    def names(self) -> list[str]:
        """Under which the values are reported; of the same measure by several columns, with the column's name."""
        plain = [part.name or str(part.kind) for part in self.parts]
        return [
            f"{name}(labels={part.labels!r})" if part.labels is not None and plain.count(name) > 1 else name
            for name, part in zip(plain, self.parts, strict=True)
        ]

    def __call__(self, scores: Any, data: Any, weight: Any = None, group: Any = None) -> Any:
        """What a host calls: (scores, data set), or (labels, scores, weight, group) from ``lgb.LGBMRanker``.

        LightGBM is also told that higher is better.
        """
        if group is not None:
            labels, scores = scores, data
            each = None if weight is None else one_a_query(np.asarray(weight), np.asarray(group))
            queries = Queries(labels, group, query_weight=each, document_weight=weight if each is None else None)
            return [(*pair, True) for pair in self.report(queries, scores)]
        data_set = read(data)
        if data_set.asked == "objective":
            raise LambdaplugError(
                f"{self!r} reports, and was given as an objective: say lp.objective({str(self.parts[0].kind)!r})."
            )
        reported = self.report(data_set.queries, scores, data_set.threads, data_set.total)
        data_set.host.on_metric(data_set.booster, self.names)
        return [(*pair, True) for pair in reported] if data_set.host.directed else reported

    def report(self, queries: Queries, scores: Any, threads: int | None = None, total: Total = None) -> list[Any]:
        """The name and value of each measure."""
        return list(zip(self.names, means(self.parts, queries, scores, threads, total), strict=True))


def metric(
    *measures: Measures,
    name: str | None = None,
    empty: Empty = "skip",
    labels: str | None = None,
    ties: Ties = "stable",
    weight: bool = False,
) -> Metric:
    """Measures for ``feval=`` (LightGBM), ``custom_metric=`` (XGBoost) and ``eval_metric=`` (the rankers).

    Early stopping maximises them in both hosts.

    Parameters
    ----------
    *measures : str or Measure
        What to report, one or several, or a list of them.
    name : str, optional
        Report the only measure under this name. Default: its text.
    empty : 'skip', 0 or 1
        What a query counts where a measure is undefined (nothing relevant, no documents): left out, 0 as in trec_eval, or 1 as
        in LightGBM and XGBoost.
    labels : str, optional
        Measure by a column (see :func:`attach`) of the evaluated data set in place of its labels, such as clicks.
    ties : 'stable', 'worst', 'best' or 'expected'
        How equal scores stand: in row order, the lowest gains first, the highest first, or the exact mean over all orders.
    weight : bool
        Weigh queries by the query weights of the data set that is evaluated (in LightGBM the weights of rows, equal within a
        query), where it has any. Default: the plain mean over queries.

    Returns
    -------
    Metric
        A callable for both hosts. Metrics add up: ``lp.metric("ndcg@3") + lp.metric("cndcg@3", labels="clicks")``.

    Notes
    -----
    XGBoost guesses from a metric's name whether more is better: names that begin with auc, pre, map or ndcg are maximised,
    others minimised. lambdaplug tells an ``EarlyStopping`` among the training's own callbacks to maximise its metrics. One
    that a function of yours holds, or that watches a value which a function of yours reports, must be told
    ``maximize=True``, or get the metric under such a name: ``lp.metric("mrr", name="pre-mrr")``.

    Examples
    --------
    >>> metric("ndcg@10", "map")
    metric('ndcg@10', 'map')
    """
    if not isinstance(weight, bool):
        raise LambdaplugError(
            f"metric: weight: expected True, for the query weights of the data set that is evaluated, or False, got {shown(weight)}."
        )
    several: list[Any] = []
    for one in measures:
        several += one if isinstance(one, (list, tuple)) else [one]
    if name is not None and len(several) != 1:
        raise LambdaplugError(f"metric: name={name!r} is for one measure, got {len(several)}. Metrics add up: a + b.")
    own = None if labels is None else column_name(labels, "labels", "clicks")
    return Metric.of(several, empty=empty, labels=own, ties=ties, weighted=weight, name=name)
