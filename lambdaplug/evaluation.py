"""Measure rankings: ``evaluate`` for arrays, ``metric`` for the boosters' own evaluation and early stopping."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypedDict, overload

import numpy as np
import numpy.typing as npt

from .checking import import_pandas, refuse_swapped, shown
from .columns import column_name
from .errors import LambdaplugError
from .kernels import Leaf, expected_kernel, get_num_threads, leaves, tied_value_kernel
from .measures import DCG, NDCG, Measure, Prepared, as_measures, registered
from .queries import Array, Queries, vector
from .rows import one_a_query
from .training import read
from .values import Value

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = [
    "Convention",
    "Empty",
    "Metric",
    "Rules",
    "Ties",
    "evaluate",
    "import_pandas",
    "mean",
    "metric",
    "per_query_values",
]

Empty = Literal["skip", 0, 1]
Ties = Literal["stable", "worst", "best", "expected"]
Convention = Literal["letor"]


class Rules(TypedDict, total=False):
    """Options of :func:`evaluate`, for type checkers."""

    qid: npt.ArrayLike | None
    empty: Empty
    ties: Ties
    convention: Convention | None
    columns: Mapping[str, npt.ArrayLike] | None


@overload
def evaluate(
    measures: str | Measure | Sequence[str | Measure],
    labels: npt.ArrayLike,
    scores: npt.ArrayLike,
    group: npt.ArrayLike | None = ...,
    *,
    per_query: Literal[False] = ...,
    frame: Literal[False] = ...,
    weight: npt.ArrayLike | None = ...,
    **rules: Unpack[Rules],
) -> dict[str, float]: ...


@overload
def evaluate(
    measures: str | Measure | Sequence[str | Measure],
    labels: npt.ArrayLike,
    scores: npt.ArrayLike,
    group: npt.ArrayLike | None = ...,
    *,
    per_query: Literal[True],
    frame: Literal[False] = ...,
    **rules: Unpack[Rules],
) -> dict[str, Array]: ...


@overload
def evaluate(
    measures: str | Measure | Sequence[str | Measure],
    labels: npt.ArrayLike,
    scores: npt.ArrayLike,
    group: npt.ArrayLike | None = ...,
    *,
    per_query: bool = ...,
    frame: Literal[True],
    **rules: Unpack[Rules],
) -> Any: ...


def evaluate(
    measures: str | Measure | Sequence[str | Measure],
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
    kinds = as_measures(measures)
    if weight is not None and (per_query or frame):
        raise LambdaplugError("weight: it enters means, and there are none with per_query= or frame=: leave it out.")
    queries = Queries(labels, group, qid=qid, query_weight=weight, columns=columns)
    refuse_swapped(queries.labels, scores, "evaluate")
    if not per_query and not frame:
        values = part_values(kinds, queries, scores, empty, ties=ties, convention=convention)
        numbers = combined(kinds, [mean(value, queries.query_weight) for value in values])
        return {str(kind): number for kind, number in zip(kinds, numbers, strict=True)}
    values = per_query_values(kinds, queries, scores, empty, ties=ties, convention=convention)
    named = {str(kind): value for kind, value in zip(kinds, values, strict=True)}
    if frame:
        return import_pandas().DataFrame(named, index=query_names(queries, qid)).rename_axis("query")
    return named


def query_names(queries: Queries, qid: npt.ArrayLike | None) -> npt.NDArray[Any]:
    """The user's own ids of the queries, one per query, or their numbers."""
    return np.arange(len(queries)) if qid is None else np.asarray(qid)[queries.offsets[:-1]]


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


def part_values(
    measures: Sequence[Measure],
    queries: Queries,
    scores: npt.ArrayLike,
    empty: Empty = "skip",
    threads: int | None = None,
    labels: str | None = None,
    ties: Ties = "stable",
    convention: Convention | None = None,
) -> list[Array]:
    """``per_query_values`` of the parts of all measures, in a row."""
    parts = [(one, own or labels) for measure in measures for one, own in measure.parts]
    found: dict[str | None, Iterator[Array]] = {}
    for source in dict.fromkeys(own for _, own in parts):
        kinds = [one for one, own in parts if own == source]
        found[source] = iter(per_query_values(kinds, queries, scores, empty, threads, source, ties, convention))
    return [next(found[own]) for _, own in parts]


def combined(measures: Sequence[Measure], values: Iterable[float]) -> list[float]:
    """One number of each measure, from the means of all their parts."""
    rest = iter(values)
    return [measure.combined([next(rest) for _ in measure.parts]) for measure in measures]


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
    labels: str | None = None,
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
        short = [isinstance(kind, NDCG) and queries.sizes < (kind.cutoff or 0) for kind in measures]
        return [np.where(cut, 0.0, value) for cut, value in zip(short, values, strict=True)]
    if isinstance(empty, bool) or empty not in ("skip", 0, 1):
        raise LambdaplugError(f"empty: expected 'skip', 0 or 1, got {empty!r}.")
    ranked = vector(scores, "scores")
    if len(ranked) != len(queries.labels):
        raise LambdaplugError(f"scores: expected one per row ({len(queries.labels)}), got {len(ranked)}.")
    threads = get_num_threads(threads)
    queries.begin()

    def prepare(kind: Measure) -> Prepared:
        return queries.memo((kind, labels, False), lambda: kind.prepared_for(queries, labels))

    prepared = [prepare(kind) for kind in measures]
    values = [np.zeros(len(queries)) for _ in measures]
    steps = [_measuring(kind, p, value, ties) for kind, p, value in zip(measures, prepared, values, strict=True)]
    queries.run(steps, ranked, threads)
    for kind, p, value in zip(measures, prepared, values, strict=True):
        wrong = np.flatnonzero(~np.isfinite(value) & (p.norm != 0.0))
        if len(wrong):
            raise LambdaplugError(f"{kind}: the value of query {wrong[0]} is {value[wrong[0]]}: it must be finite.")
    filler = np.nan if empty == "skip" else float(empty)
    return [np.where(p.norm == 0.0, filler, value * p.norm) for p, value in zip(prepared, values, strict=True)]


def _measuring(kind: Measure, prepared: Prepared, out: Array, ties: Ties) -> Leaf:
    """The leaf that writes a measure's values, before their norms."""
    gain, _, _, discount, k = prepared
    if ties == "stable":
        return kind.measuring(prepared, out)
    if kind.tabled:
        raise LambdaplugError(
            f"ties: {kind} has no gain by which equal scores could stand: expected ties='stable', got {ties!r}."
        )
    kernel = expected_kernel(_expectation(kind)) if ties == "expected" else tied_value_kernel(kind.value)
    return Leaf(leaves.measured_ties, (kernel,), (gain, discount, k, ties != "worst", out), measure=kind)


def check_ties(ties: object) -> None:
    if ties not in ("stable", "worst", "best", "expected"):
        raise LambdaplugError(f"ties: expected 'stable', 'worst', 'best' or 'expected', got {ties!r}.")


class _Part(NamedTuple):
    kinds: tuple[Measure, ...]
    empty: Empty = "skip"
    labels: str | None = None
    ties: Ties = "stable"
    weighted: bool = False
    name: str | None = None  # of the only measure, if the user has one for it

    @property
    def names(self) -> list[str]:
        return [str(kind) for kind in self.kinds] if self.name is None else [self.name]


@dataclasses.dataclass(frozen=True, repr=False)
class Metric(Value):
    """Measures as an evaluation function; see :func:`metric`. Metrics add up to one that reports them all."""

    parts: tuple[_Part, ...]

    @staticmethod
    def of(measures: Sequence[str | Measure], **rules: Any) -> Metric:
        kinds = as_measures(measures)
        if not kinds:
            raise LambdaplugError("metric: name at least one measure, e.g. lp.metric('ndcg@10').")
        return Metric((_Part(kinds, **rules),))

    def __add__(self, other: Metric) -> Metric:
        new = tuple(part for part in other.parts if part not in self.parts)
        both = Metric(self.parts + new)
        if len(set(both.names)) < len(both.names):
            raise LambdaplugError(f"metric: {', '.join(both.names)} would be reported under the same name.")
        return both

    def __repr__(self) -> str:
        usual, said = _Part(()), []
        for part in self.parts:
            words = [kind.written() for kind in part.kinds]
            for field, value in part._asdict().items():
                if field != "kinds" and value != getattr(usual, field):
                    words.append(f"{'weight' if field == 'weighted' else field}={value!r}")
            said.append(f"metric({', '.join(words)})")
        return " + ".join(said)

    def without(self, names: Sequence[str]) -> Metric | None:
        """The same less the measures of these names; None if nothing is left."""
        own = iter(self.names)
        left = [
            part._replace(kinds=tuple(kind for kind in part.kinds if next(own) not in names)) for part in self.parts
        ]
        kept = tuple(part for part in left if part.kinds)
        return Metric(kept) if kept else None

    def weighted(self) -> Metric:
        """The same by the query weights of the data."""
        return Metric(tuple(part._replace(weighted=True) for part in self.parts))

    @property
    def names(self) -> list[str]:
        """Under which the values are reported; of the same measure by several columns, with the column's name."""
        plain = [name for part in self.parts for name in part.names]
        labels = [part.labels for part in self.parts for _ in part.kinds]
        return [
            f"{name}(labels={column!r})" if column is not None and plain.count(name) > 1 else name
            for name, column in zip(plain, labels, strict=True)
        ]

    def __call__(self, scores: Any, data: Any, weight: Any = None, group: Any = None) -> Any:
        """What a host calls: (scores, data set), or (labels, scores, weight, group) from ``lgb.LGBMRanker``."""
        if group is not None:
            labels, scores = scores, data
            each = None if weight is None else one_a_query(np.asarray(weight), np.asarray(group))
            queries = Queries(labels, group, query_weight=each, document_weight=weight if each is None else None)
            return self.report(queries, scores, None, with_direction=True)
        data_set = read(data)
        if data_set.asked == "objective":
            raise LambdaplugError(
                f"{self!r} reports, and was given as an objective: say lp.objective({str(self.parts[0].kinds[0])!r})."
            )
        reported = self.report(
            data_set.queries,
            scores,
            data_set.threads,
            with_direction=data_set.directed,
            total=data_set.total,
        )
        if data_set.on_metric is not None:
            data_set.on_metric(self.names)
        return reported

    def per_query(self, queries: Queries, scores: Any, threads: int | None = None) -> list[Array]:
        """One array per measure, one value per query."""
        return [
            value
            for kinds, empty, labels, ties, *_ in self.parts
            for value in per_query_values(kinds, queries, scores, empty, threads, labels, ties)
        ]

    @property
    def kinds(self) -> list[Measure]:
        return [kind for part in self.parts for kind in part.kinds]

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
        values = [
            value
            for kinds, empty, labels, ties, *_ in self.parts
            for value in part_values(kinds, queries, scores, empty, threads, labels, ties)
        ]
        weighted = [part.weighted for part in self.parts for kind in part.kinds for _ in kind.parts]
        if any(weighted) and queries.document_weight is not None:
            raise LambdaplugError(
                f"{self!r}: expected weights of queries, and these are of documents: they differ within a query."
            )
        weights = [queries.query_weight if one else None for one in weighted]
        pairs = list(zip(self.names, combined(self.kinds, means(values, weights, total)), strict=True))
        return [(*pair, True) for pair in pairs] if with_direction else pairs


def metric(
    *measures: str | Measure | Sequence[str | Measure],
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
            "metric: weight: expected True, for the weights of the queries in the data set that is evaluated, or False, got "
            f"{shown(weight)}."
        )
    check_ties(ties)
    several: list[Any] = []
    for one in measures:
        several += one if isinstance(one, (list, tuple)) else [one]
    kinds = as_measures(several)
    if name is not None and len(kinds) != 1:
        raise LambdaplugError(f"metric: name={name!r} is for one measure, got {len(kinds)}. Metrics add up: a + b.")
    own = None if labels is None else column_name(labels, "labels", "clicks")
    return Metric.of(kinds, empty=empty, labels=own, ties=ties, weighted=weight, name=name)
