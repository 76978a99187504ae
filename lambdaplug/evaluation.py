"""Measure rankings: ``evaluate`` for arrays, ``metric`` for the boosters' own evaluation and early stopping."""

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from .errors import LambdaplugError
from .kernels import get_num_threads, run_tasks, value_kernel
from .measures import Measure, as_measures
from .queries import Array, Labels, Queries, Task, read, vector

__all__ = ["Empty", "Metric", "evaluate", "metric", "per_query_values"]

Empty = Literal["skip", 0, 1]


def evaluate(
    measures: str | Measure | Sequence[str | Measure],
    labels: npt.ArrayLike,
    scores: npt.ArrayLike,
    group: npt.ArrayLike,
    empty: Empty = "skip",
    per_query: bool = False,
) -> dict[str, Any]:
    """The mean over queries of each measure, by its text; with ``per_query`` one value a query.

    ``empty`` is what a query counts where a measure is undefined (nothing relevant, no documents): left out
    (``"skip"``), ``0`` as trec_eval has it, or ``1`` as LightGBM and XGBoost have it. A query left out is NaN in the
    per-query values, and the mean of no query is NaN. Equal scores keep their row order.

    >>> evaluate(["ndcg@10", "mrr"], labels=[0, 1, 1, 0], scores=[2, 1, 4, 3], group=[2, 2])
    {'ndcg@10': 0.8154648767857288, 'mrr': 0.75}
    """
    kinds = as_measures(measures)
    values = per_query_values(kinds, Queries(labels, group), scores, empty)
    if per_query:
        return {str(kind): value for kind, value in zip(kinds, values, strict=True)}
    return {str(kind): _mean(value) for kind, value in zip(kinds, values, strict=True)}


def _mean(values: Array) -> float:
    defined = values[~np.isnan(values)]
    return float(defined.mean()) if defined.size else float("nan")


def per_query_values(
    measures: Sequence[Measure],
    queries: Queries,
    scores: npt.ArrayLike,
    empty: Empty = "skip",
    threads: int | None = None,
    labels: Labels | None = None,
) -> list[Array]:
    """One array a measure, one value a query, ranked once for all of them."""
    if isinstance(empty, bool) or empty not in ("skip", 0, 1):
        raise LambdaplugError(f"empty: expected 'skip', 0 or 1, got {empty!r}.")
    ranked = vector(scores, "scores")
    if len(ranked) != len(queries.labels):
        raise LambdaplugError(f"scores: expected one a row ({len(queries.labels)}), got {len(ranked)}.")
    threads = get_num_threads(threads)
    order = queries.rank(ranked, threads)
    prepared = [
        queries.memo(
            (kind, labels, False),
            lambda kind=kind: kind.prepare(queries.labels_of(labels), queries.offsets),  # type: ignore[misc]
        )
        for kind in measures
    ]
    values = [np.zeros(len(queries)) for _ in measures]
    longest = int(queries.sizes.max(initial=0))

    def work(next_task: Callable[[], Task | None]) -> None:
        gains = np.empty(longest)
        while (task := next_task()) is not None:
            for kind, (gain, _, _, discount, k), out in zip(measures, prepared, values, strict=True):
                ranked = queries.offsets, task.first, task.last, order
                kind.run(value_kernel(kind.value), gain, discount, k, *ranked, gains, out)

    run_tasks(work, queries.tasks(1), threads)
    for kind, p, value in zip(measures, prepared, values, strict=True):
        wrong = np.flatnonzero(~np.isfinite(value) & (p.norm != 0.0))
        if len(wrong):
            raise LambdaplugError(f"{kind!r}: the value of query {wrong[0]} is {value[wrong[0]]}: it must be finite.")
    filler = np.nan if empty == "skip" else float(empty)
    return [np.where(p.norm == 0.0, filler, value * p.norm) for p, value in zip(prepared, values, strict=True)]


class Metric:
    """Measures as an evaluation function; see :func:`metric`. Metrics add up to one that reports them all."""

    def __init__(
        self, measures: Sequence[str | Measure], empty: Empty = "skip", labels: npt.ArrayLike | None = None
    ) -> None:
        kinds = as_measures(measures)
        if not kinds:
            raise LambdaplugError("metric: name at least one measure, e.g. lp.metric('ndcg@10').")
        self.parts: tuple[tuple[tuple[Measure, ...], Empty, Labels | None], ...] = (
            (kinds, empty, None if labels is None else Labels(labels)),
        )

    def __add__(self, other: "Metric") -> "Metric":
        both = Metric(self.parts[0][0])
        both.parts = self.parts + other.parts
        if len(set(both.names)) < len(both.names):
            raise LambdaplugError(f"metric: {', '.join(both.names)} would be reported under the same name.")
        return both

    def __repr__(self) -> str:
        said = []
        for kinds, empty, labels in self.parts:
            words = [repr(str(kind)) for kind in kinds]
            words += [f"empty={empty!r}"] if empty != "skip" else []
            words += [f"labels=<{len(labels)} values>"] if labels is not None else []
            said.append(f"metric({', '.join(words)})")
        return " + ".join(said)

    def without(self, names: Sequence[str]) -> "Metric | None":
        """The same less the measures of these names; None if nothing is left."""
        left = [
            (tuple(kind for kind in kinds if str(kind) not in names), empty, labels)
            for kinds, empty, labels in self.parts
        ]
        rest = Metric(self.parts[0][0])
        rest.parts = tuple(part for part in left if part[0])
        return rest if rest.parts else None

    @property
    def names(self) -> list[str]:
        return [str(kind) for kinds, _, _ in self.parts for kind in kinds]

    def __call__(self, scores: Any, data: Any, weight: Any = None, group: Any = None) -> Any:  # noqa: ARG002
        """What a host calls: (scores, data set), or (labels, scores, weight, group) from ``lgb.LGBMRanker``."""
        if group is not None:
            labels, scores = scores, data
            return self.report(Queries(labels, group), scores, None, with_direction=True)
        data_set = read(data)
        if data_set.on_metric is not None:
            data_set.on_metric(self.names)
        return self.report(data_set.queries, scores, data_set.threads, with_direction=data_set.host == "LightGBM")

    def report(self, queries: Queries, scores: Any, threads: int | None, *, with_direction: bool) -> list[Any]:
        """(name, value) of each measure, for LightGBM with the word that higher is better."""
        values = [
            _mean(value)
            for kinds, empty, labels in self.parts
            for value in per_query_values(kinds, queries, scores, empty, threads, labels)
        ]
        pairs = list(zip(self.names, values, strict=True))
        return [(*pair, True) for pair in pairs] if with_direction else pairs


def metric(*measures: str | Measure, empty: Empty = "skip", labels: npt.ArrayLike | None = None) -> Metric:
    """Measures for ``feval=`` (LightGBM), ``custom_metric=`` (XGBoost) and ``eval_metric=`` (the rankers).

    Early stopping maximises them in both hosts. Weights do not enter: a metric is the plain mean over queries.
    ``labels`` measures by another source than the evaluated data set's labels, such as clicks: one value a row of it.
    Metrics add up: ``lp.metric("ndcg@3") + lp.metric("cndcg@3", labels=clicks)``.

    >>> metric("ndcg@10", "map")
    metric('ndcg@10', 'map')
    """
    return Metric(measures, empty, labels)
