"""Measure rankings: ``evaluate`` for arrays, ``metric`` for the boosters' own evaluation and early stopping."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, overload

import numpy as np
import numpy.typing as npt

from .checking import import_pandas, shown
from .documenting import documented
from .errors import LambdaplugError
from .kernels import expected_kernel, get_num_threads, run_tasks, tied_value_kernel, value_kernel
from .measures import DCG, NDCG, Measure, Prepared, as_measures, registered, with_columns
from .queries import Array, Labels, Queries, Task, as_labels, vector
from .rows import one_a_query
from .training import read

__all__ = ["Convention", "Empty", "Metric", "Ties", "evaluate", "import_pandas", "mean", "metric", "per_query_values"]

Empty = Literal["skip", 0, 1]
Ties = Literal["stable", "worst", "best", "expected"]
Convention = Literal["letor"]


@overload
def evaluate(
    measures: Any, labels: Any, scores: Any, group: Any = ..., *rules: Any, frame: Literal[True], **more: Any
) -> Any: ...


@overload
def evaluate(measures: Any, labels: Any, scores: Any, group: Any = ..., *rules: Any, **more: Any) -> dict[str, Any]: ...


@documented  # type: ignore[misc]  # the overloads say what is returned, this what is taken
def evaluate(
    measures: str | Measure | Sequence[str | Measure],
    labels: npt.ArrayLike,
    scores: npt.ArrayLike,
    group: npt.ArrayLike | None = None,
    empty: Empty = "skip",
    per_query: bool = False,
    *,
    qid: npt.ArrayLike | None = None,
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
    {labels}
    scores : array-like
        One score per row.
    {group} {qid}
    {empty}
    per_query : bool
        Return one value per query, NaN where a query is left out.
    {ties}
    convention : 'letor', optional
        Compute what the evaluation script of LETOR 4.0 prints: NDCG's discount is 1 for the first two ranks and 1/log2(rank)
        from there on, NDCG@k of a list shorter than k is 0, and so is every undefined query. Its MeanNDCG is the measure of
        that name.
    frame : bool
        Return a pandas DataFrame, one row per query, one column per measure.
    weight : array-like, optional
        One number >= 0 per query, such as how often it is asked: the weighted mean, sum w value / sum w.
    columns : mapping, optional
        By name one value per row, in place of the measures' own columns, such as ``{"price": prices}`` for ``lp.Revenue``, and
        ``{"k": cutoffs}`` of cut-offs per query: where a measure was made with those of other rows.

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
    kinds = with_columns(as_measures(measures), columns)
    if weight is not None and (per_query or frame):
        raise LambdaplugError("weight: it enters means, and there are none with per_query= or frame=: leave it out.")
    queries = Queries(labels, group, qid=qid, query_weight=weight)
    values = per_query_values(kinds, queries, scores, empty, ties=ties, convention=convention)
    named = {str(kind): value for kind, value in zip(kinds, values, strict=True)}
    if frame:
        return import_pandas().DataFrame(named).rename_axis("query")
    return named if per_query else {name: mean(value, queries.query_weight) for name, value in named.items()}


def mean(values: Array, weight: Array | None = None) -> float:
    """Over the queries that have a value, by their weights if given; NaN if none has."""
    known = ~np.isnan(values)
    defined = values[known]
    if weight is None:
        return float(defined.mean()) if defined.size else float("nan")
    total = float(weight[known].sum())
    return float(weight[known] @ defined) / total if total > 0.0 else float("nan")


def means(
    values: Sequence[Array], weights: Sequence[Array | None], total: Callable[[Array], Array] | None = None
) -> list[float]:
    """``mean`` of each; with ``total``, which adds up over workers, the mean over all workers' queries."""
    if total is None:
        return [mean(value, weight) for value, weight in zip(values, weights, strict=True)]
    ones = [np.ones(len(value)) if weight is None else weight for value, weight in zip(values, weights, strict=True)]
    parts = [(np.nansum(value * own), np.sum(own[~np.isnan(value)])) for value, own in zip(values, ones, strict=True)]
    sums = total(np.array(parts, dtype=np.float64).reshape(len(values), 2))
    return [float(found / count) if count else float("nan") for found, count in sums]


def letor_discount(rank: int) -> float:
    """1, 1, 1/log2(3), 1/log2(4), ..."""
    return 1.0 if rank < 3 else float(1.0 / np.log2(rank))


def _by_letor(kind: Measure) -> Measure:
    plain = isinstance(kind, DCG) and kind.discount == "log2"
    return dataclasses.replace(kind, discount=letor_discount) if plain else kind  # type: ignore[call-arg]


def _expectation(kind: Measure) -> Callable[..., float]:
    """The measure's ``expected``, unless a subclass has given it another value since."""
    for owner in type(kind).__mro__:
        if owner.__dict__.get("expected") is not None:
            return kind.expected  # type: ignore[return-value]
        if "value" in owner.__dict__:
            break
    able = ", ".join(sorted(name for name, other in registered().items() if other.expected is not None))
    raise LambdaplugError(
        f"ties='expected': {kind} does not say its mean over all orders of equal scores. Those which do: {able}; "
        "'stable', 'worst' and 'best' serve every measure."
    )


def per_query_values(
    measures: Sequence[Measure],
    queries: Queries,
    scores: npt.ArrayLike,
    empty: Empty = "skip",
    threads: int | None = None,
    labels: Labels | None = None,
    ties: Ties = "stable",
    convention: Convention | None = None,
) -> list[Array]:
    """One array per measure, one value per query, ranked once for all of them."""
    check_ties(ties)
    if convention not in (None, "letor"):
        raise LambdaplugError(f"convention: expected 'letor' or None, got {convention!r}.")
    if convention == "letor":
        by_letor = [_by_letor(kind) for kind in measures]
        values = per_query_values(by_letor, queries, scores, 0, threads, labels, ties)
        short = [isinstance(kind, NDCG) and queries.sizes < (kind.k or 0) for kind in measures]
        return [np.where(cut, 0.0, value) for cut, value in zip(short, values, strict=True)]
    if isinstance(empty, bool) or empty not in ("skip", 0, 1):
        raise LambdaplugError(f"empty: expected 'skip', 0 or 1, got {empty!r}.")
    ranked = vector(scores, "scores")
    if len(ranked) != len(queries.labels):
        raise LambdaplugError(f"scores: expected one per row ({len(queries.labels)}), got {len(ranked)}.")
    threads = get_num_threads(threads)
    queries.begin()
    order = queries.rank(ranked, threads)
    prepared = _prepare(measures, queries, labels, threads)
    values = [np.zeros(len(queries)) for _ in measures]
    longest = int(queries.sizes.max(initial=0))
    tied = {}
    if ties != "stable":
        for kind in measures:
            if kind.tabled:
                raise LambdaplugError(
                    f"ties: {kind} has no gain by which equal scores could stand: expected ties='stable', got {ties!r}."
                )
            tied[kind] = expected_kernel(_expectation(kind)) if ties == "expected" else tied_value_kernel(kind.value)

    def work(next_task: Callable[[], Task | None]) -> None:
        gains = np.empty(longest)
        ends = np.empty(longest, dtype=np.int64)
        while (task := next_task()) is not None:
            lists = queries.offsets, task.first, task.last, order
            for kind, (gain, _, _, discount, k), out in zip(measures, prepared, values, strict=True):
                if ties == "stable":
                    kind.run(value_kernel(kind.value), gain, discount, k, lists, gains, out)
                else:
                    kind.run(tied[kind], gain, ranked, ties != "worst", discount, k, lists, (gains, ends), out)

    run_tasks(work, queries.tasks(1, threads=threads), threads)
    for kind, p, value in zip(measures, prepared, values, strict=True):
        wrong = np.flatnonzero(~np.isfinite(value) & (p.norm != 0.0))
        if len(wrong):
            raise LambdaplugError(f"{kind!r}: the value of query {wrong[0]} is {value[wrong[0]]}: it must be finite.")
    filler = np.nan if empty == "skip" else float(empty)
    return [np.where(p.norm == 0.0, filler, value * p.norm) for p, value in zip(prepared, values, strict=True)]


def _prepare(measures: Sequence[Measure], queries: Queries, labels: Labels | None, threads: int) -> list[Prepared]:
    """What each measure needs to know about the labels, several measures at a time; kept by the queries."""
    made: dict[Measure, Prepared] = {}

    def work(next_kind: Callable[[], Measure | None]) -> None:
        while (kind := next_kind()) is not None:
            made[kind] = kind.prepared_for(queries, labels)

    run_tasks(work, [kind for kind in dict.fromkeys(measures) if (kind, labels, False) not in queries], threads)
    return [
        queries.memo(
            (kind, labels, False),
            lambda kind=kind: made.get(kind) or kind.prepared_for(queries, labels),  # type: ignore[misc]
        )
        for kind in measures
    ]


def check_ties(ties: object) -> None:
    if ties not in ("stable", "worst", "best", "expected"):
        raise LambdaplugError(f"ties: expected 'stable', 'worst', 'best' or 'expected', got {ties!r}.")


class _Part(NamedTuple):
    kinds: tuple[Measure, ...]
    empty: Empty = "skip"
    labels: Labels | None = None
    ties: Ties = "stable"
    weighted: bool = False


class Metric:
    """Measures as an evaluation function; see :func:`metric`. Metrics add up to one that reports them all."""

    def __init__(self, measures: Sequence[str | Measure], **rules: Any) -> None:
        kinds = as_measures(measures)
        if not kinds:
            raise LambdaplugError("metric: name at least one measure, e.g. lp.metric('ndcg@10').")
        self.parts: tuple[_Part, ...] = (_Part(kinds, **rules),)

    def _of(self, parts: tuple[_Part, ...]) -> Metric:
        other = copy.copy(self)
        other.parts = parts
        return other

    def __add__(self, other: Metric) -> Metric:
        both = self._of(self.parts + other.parts)
        if len(set(both.names)) < len(both.names):
            raise LambdaplugError(f"metric: {', '.join(both.names)} would be reported under the same name.")
        return both

    def __repr__(self) -> str:
        said = []
        for kinds, empty, labels, ties, weighted in self.parts:
            words = [repr(str(kind)) for kind in kinds]
            words += [f"empty={empty!r}"] if empty != "skip" else []
            words += [f"labels={labels!r}"] if labels is not None else []
            words += [f"ties={ties!r}"] if ties != "stable" else []
            words += ["weight=True"] if weighted else []
            said.append(f"metric({', '.join(words)})")
        return " + ".join(said)

    def without(self, names: Sequence[str]) -> Metric | None:
        """The same less the measures of these names; None if nothing is left."""
        left = [
            part._replace(kinds=tuple(kind for kind in part.kinds if str(kind) not in names)) for part in self.parts
        ]
        kept = tuple(part for part in left if part.kinds)
        return self._of(kept) if kept else None

    def weighted(self) -> Metric:
        """The same by the query weights of the data."""
        return self._of(tuple(part._replace(weighted=True) for part in self.parts))

    @property
    def sources(self) -> tuple[Labels, ...]:
        """Every label source besides the data set's own labels, and every column."""
        found = [part.labels for part in self.parts if part.labels is not None]
        return tuple(
            dict.fromkeys([*found, *(one for part in self.parts for kind in part.kinds for one in kind.sources)])
        )

    @property
    def names(self) -> list[str]:
        return [str(kind) for part in self.parts for kind in part.kinds]

    def __call__(self, scores: Any, data: Any, weight: Any = None, group: Any = None) -> Any:
        """What a host calls: (scores, data set), or (labels, scores, weight, group) from ``lgb.LGBMRanker``."""
        if group is not None:
            labels, scores = scores, data
            each = None if weight is None else one_a_query(np.asarray(weight), np.asarray(group))
            queries = Queries(labels, group, query_weight=each, document_weight=weight if each is None else None)
            return self.report(queries, scores, None, with_direction=True)
        data_set = read(data)
        reported = self.report(
            data_set.queries,
            scores[:0] if data_set.stand_in else scores,
            data_set.threads,
            with_direction=data_set.directed,
            total=data_set.total,
        )
        if data_set.on_metric is not None:
            data_set.on_metric(reported)
        return reported

    def per_query(self, queries: Queries, scores: Any, threads: int | None = None) -> list[Array]:
        """One array per measure, one value per query."""
        return [
            value
            for kinds, empty, labels, ties, _ in self.parts
            for value in per_query_values(kinds, queries, scores, empty, threads, labels, ties)
        ]

    def report(
        self,
        queries: Queries,
        scores: Any,
        threads: int | None,
        *,
        with_direction: bool,
        total: Callable[[Array], Array] | None = None,
    ) -> list[Any]:
        """(name, value) of each measure, for LightGBM with the word that higher is better."""
        values = self.per_query(queries, scores, threads)
        weighted = [part.weighted for part in self.parts for _ in part.kinds]
        if any(weighted) and queries.document_weight is not None:
            raise LambdaplugError(
                f"{self!r}: expected weights of queries, and these are of documents: they differ within a query."
            )
        weights = [queries.query_weight if one else None for one in weighted]
        pairs = list(zip(self.names, means(values, weights, total), strict=True))
        return [(*pair, True) for pair in pairs] if with_direction else pairs


@documented
def metric(
    *measures: str | Measure,
    empty: Empty = "skip",
    labels: npt.ArrayLike | None = None,
    ties: Ties = "stable",
    weight: bool = False,
    columns: Mapping[str, npt.ArrayLike] | None = None,
) -> Metric:
    """Measures for ``feval=`` (LightGBM), ``custom_metric=`` (XGBoost) and ``eval_metric=`` (the rankers).

    Early stopping maximises them in both hosts.

    Parameters
    ----------
    *measures : str or Measure
        What to report, one or several.
    {empty}
    labels : array-like, optional
        Measure by another source than the evaluated data set's labels, such as clicks: one value per row of it.
    {ties}
    weight : bool
        Weigh queries by the query weights of the data set that is evaluated (in LightGBM the weights of rows, equal within a
        query), where it has any. Default: the plain mean over queries.
    columns : mapping, optional
        By name one value per row of the evaluated data set, in place of the measures' own columns: ``{"price": prices}``.

    Returns
    -------
    Metric
        A callable for both hosts. Metrics add up: ``lp.metric("ndcg@3") + lp.metric("cndcg@3", labels=clicks)``.

    Notes
    -----
    XGBoost guesses a metric's direction from its name, so lambdaplug tells its ``EarlyStopping`` where that was told no
    ``maximize=``, also inside a callback of yours and where a function of yours reports the value under another name. Where
    it cannot know whether higher is better (the value was changed), it warns. An ``EarlyStopping`` out of its reach (a
    closure holds it, or the metric is called in another thread) is refused before it has judged a round, if it minimises one
    of these metrics: pass it ``maximize=True``. What reaches ``EarlyStopping`` without ``lp.metric``, as from
    ``lp.evaluate``, needs ``maximize=True`` too.

    Examples
    --------
    >>> metric("ndcg@10", "map")
    metric('ndcg@10', 'map')
    """
    if not isinstance(weight, bool):
        raise LambdaplugError(
            "metric: weight: expected True, for the weights of the queries in the data set that is evaluated, or False, got "
            f"{shown(weight)}."
        )
    check_ties(ties)
    kinds = with_columns(as_measures(measures), columns)
    return Metric(kinds, empty=empty, labels=as_labels(labels), ties=ties, weighted=weight)
