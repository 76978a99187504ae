"""Rows in queries: checked once, never changed, shared by everything that ranks them."""

import hashlib
import itertools
import threading
from collections.abc import Callable, Hashable, Mapping
from typing import Any, NamedTuple, NoReturn, TypeVar

import numpy as np
import numpy.typing as npt

from .errors import LambdaplugError
from .grouping import Array, group_sizes, vector
from .kernels import Team, count_kernel, rank_kernel, run_tasks, top_kernel
from .rows import MANY_ROWS, levels, one_a_query, row_order
from .values import Value

__all__ = [
    "Array",
    "Column",
    "Labels",
    "PerQuery",
    "Queries",
    "Task",
    "as_columns",
    "as_labels",
    "check_column",
    "group_sizes",
    "refuse_score",
    "vector",
]

T = TypeVar("T")

CHUNK_WORK = 1 << 20, 6 << 20  # pairs in a task: long beside what handing it out costs, short beside a round
CHUNKS = 4  # for each thread, so that none waits long for another's last
SPLIT_WORK = 1 << 25
TOP_SHARE = 8  # picking the first of so many documents is faster than ranking them all
MEMO_SIZE = 24  # results kept in any case; beyond it, those not asked for lately are forgotten
MEMO_IDLE = 64  # gradients or evaluations
COUNTED = 256  # documents of the longest list, up to which comparing every two is faster than sorting
NO_WEIGHTS = np.empty(0)
ORDERS = 64  # rankings to start from, one per cut-off


class Task(NamedTuple):
    """Queries first..last-1; for one huge query, the part of its pairs that this task takes."""

    first: int
    last: int
    part: int = 0
    parts: int = 1


class Labels(Value):
    """One value per row from another source than the data set's labels: a copy that never changes, equal by content."""

    values: Array
    digest: bytes
    what: str  # it is called in errors

    def __init__(self, values: npt.ArrayLike, what: str = "labels=") -> None:
        own = vector(values, what).copy()
        if np.isinf(own).any():
            raise LambdaplugError(f"{what}: expected finite numbers (or NaN for no label), got an infinite one.")
        own.setflags(write=False)
        self._set(values=own, digest=hashlib.blake2b(own.tobytes(), digest_size=16).digest(), what=what)

    def _content(self) -> tuple[Any, ...]:
        return (self.digest,)

    def __len__(self) -> int:
        return len(self.values)

    def __reduce__(self) -> Any:
        return type(self), (self.values, self.what)

    def __repr__(self) -> str:
        return f"<{len(self)} values>"

    def of(self, queries: "Queries") -> Array:
        """The values of these rows."""
        if len(self) != queries.total_rows:
            own = "columns=" if self.what.startswith("column") else "labels"
            raise LambdaplugError(
                f"{self.what}: expected one value per row of the data set ({queries.total_rows}), got {len(self)}. "
                "They follow the rows into LightGBM's subsets and folds; a slice of an XGBoost DMatrix does not say "
                f"which rows it holds, so give its objective {own} of its own, and so a metric of other data. In xgb.cv they "
                "follow with folds = lp.query_folds(group): xgb.cv(..., xgb.DMatrix(X, y), folds=folds, fpreproc=folds.fpreproc)."
            )
        return self.values if queries.rows is None else self.values[queries.rows]


class PerQuery(Labels):
    """One value per query, or per row and equal within every query."""

    def of(self, queries: "Queries") -> Array:
        """The values of these rows."""
        if len(self) == len(queries) and queries.rows is None:
            return np.repeat(self.values, queries.sizes)
        if len(self) == queries.total_rows:
            found = super().of(queries)
            if one_a_query(found, queries.sizes) is not None:
                return found
        raise LambdaplugError(
            f"{self.what}: expected one value per query ({len(queries)}), or one per row of the data set "
            f"({queries.total_rows}) that is equal within every query, got {len(self)} values. Only those of rows follow "
            "into LightGBM's subsets and folds: np.repeat(values, group)."
        )


class Column(Labels):
    """One value per row, spread over a cluster as the rows are: a name there, under which each worker finds its share."""

    collection: Any  # Dask's; None after a pickle: the rows are not here

    def __init__(self, collection: Any, name: str | None = None, what: str = "labels=") -> None:
        if name is None:
            key = collection.__dask_keys__()
            while isinstance(key, list):
                key = key[0]
            name = str(key[0])
        self._set(collection=collection, values=np.empty(0), digest=name.encode(), what=what)

    @property
    def name(self) -> str:
        return self.digest.decode()

    def __reduce__(self) -> Any:
        return Column, (None, self.name, self.what)

    def __repr__(self) -> str:
        return "<a Dask column>"

    def of(self, queries: "Queries") -> Array:
        if len(queries.labels) and self.name not in queries.columns:
            raise LambdaplugError(
                f"{self.what}: a Dask column, and these rows came without it. Its partitions must have the rows of the data "
                "set's, and the training must be lp.dask.train, lp.DaskLGBMRanker or lp.DaskXGBRanker; on one machine "
                "pass column.compute()."
            )
        return queries.columns.get(self.name, self.values)


def as_labels(values: Any) -> Labels | None:
    """The label source that ``labels=`` names: nothing, an array, or a Dask collection."""
    if values is None or isinstance(values, Labels):
        return values
    return Column(values) if hasattr(values, "__dask_graph__") else Labels(values)


def as_columns(values: Any, name: str) -> tuple[Labels, ...]:
    """A column of documents, or several side by side: an array of one or two dimensions, or a Dask collection."""
    what = f"column {name!r}"
    if isinstance(values, tuple) and values and all(isinstance(one, Labels) for one in values):
        return values
    if getattr(values, "ndim", 1) == 2 and values.shape[1] > 1:
        several = values if isinstance(values, np.ndarray) or hasattr(values, "__dask_graph__") else np.asarray(values)
        return tuple(one for m in range(values.shape[1]) for one in as_columns(several[:, m], name))
    if hasattr(values, "__dask_graph__"):
        return (Column(values, what=what),)
    if values is None or isinstance(values, (str, bytes)):
        raise LambdaplugError(f"{what}: expected one number per row of the data set, got {values!r}.")
    found = Labels(values, what)
    check_column(found.values, what)
    return (found,)


def check_column(values: Array, what: str) -> None:
    missing = np.isnan(values)
    if missing.any():
        raise LambdaplugError(
            f"{what}: expected a number for every row, row {int(np.argmax(missing))} is NaN or masked. Fill it with what a "
            "document without one counts as, or drop the row."
        )


class Queries:
    """``labels`` of rows that belong to consecutive queries, ``offsets[q]:offsets[q + 1]`` being query q's rows."""

    def __init__(
        self,
        labels: npt.ArrayLike,
        group: npt.ArrayLike | None,
        *,
        query_weight: npt.ArrayLike | None = None,
        document_weight: npt.ArrayLike | None = None,
        rows: npt.NDArray[np.int64] | None = None,
        total_rows: int | None = None,
        columns: Mapping[str, Array] | None = None,
        numbered: bool = True,
        position: npt.ArrayLike | None = None,
        qid: npt.ArrayLike | None = None,
    ) -> None:
        self.labels = vector(labels, "labels")
        if not np.isfinite(self.labels).all():
            if np.isnan(self.labels).any():
                row = int(np.flatnonzero(np.isnan(self.labels))[0])
                raise LambdaplugError(
                    f"labels: row {row} is NaN or masked. Every row needs a label; drop the rows without one."
                )
            raise LambdaplugError("labels: expected finite numbers, got an infinite one.")
        self.offsets = _offsets(group, qid, len(self.labels))
        self.query_weight = _weight(query_weight, len(self), "query")
        self.document_weight = _weight(document_weight, len(self.labels), "row")
        self.rows = rows  # which of the original data set's rows these are, where they are a part of it
        self.total_rows = len(self.labels) if total_rows is None else total_rows
        self.numbered = numbered  # whether row numbers of the original data set can be found here
        self.position = position  # where each row was shown, if the host knows; checked by those who use it
        self.columns = columns or {}  # the values of these rows in a cluster's further columns, by name
        self._memo: dict[Hashable, list[Any]] = {}  # what was made, and the last call that asked for it
        self._calls = 0
        self._making = threading.RLock()
        # Where the next ranking starts from, by cut-off: it changes no result, only the time.
        self._orders: dict[int | None, npt.NDArray[np.int32]] = {}

    @classmethod
    def weighted(
        cls,
        labels: npt.ArrayLike,
        group: npt.ArrayLike | None,
        weight: npt.ArrayLike | None,
        qid: npt.ArrayLike | None = None,
    ) -> "Queries":
        """With weights per query or per document, told apart by their number."""
        if weight is None:
            return cls(labels, group, qid=qid)
        weights, rows = vector(weight, "weight"), len(vector(labels, "labels"))
        group = group_sizes(group, qid, rows)
        queries = len(group)
        if rows == queries == len(weights):
            raise LambdaplugError(
                f"weight: {len(weights)} values could be one per query or one per document, as there are as many of both. "
                "Multiply the gradients yourself, or leave out the weights."
            )
        if len(weights) == queries:
            return cls(labels, group, query_weight=weights)
        if len(weights) == rows:
            return cls(labels, group, document_weight=weights)
        raise LambdaplugError(
            f"weight: expected one value per query ({queries}) or one per document ({rows}), got {len(weights)}."
        )

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __reduce__(self) -> Any:
        raise TypeError("Queries are a cache of one process: pickle the objective, not its data.")

    @property
    def row_weights(self) -> Array:
        """One per row; empty without weights of documents."""
        return NO_WEIGHTS if self.document_weight is None else self.document_weight

    @property
    def sizes(self) -> npt.NDArray[np.int64]:
        return np.diff(self.offsets)

    @property
    def longest(self) -> int:
        return int(self.sizes.max(initial=0))

    def begin(self) -> None:
        """A gradient or an evaluation begins; what it asks ``memo`` for is kept for as long as such calls ask for it."""
        self._calls += 1

    def memo(self, key: Hashable, make: Callable[[], T]) -> T:
        """What ``make`` returned for this key. Threads wait for the first who makes it."""
        kept = self._memo.get(key)
        if kept is None:
            with self._making:
                kept = self._memo.get(key)
                if kept is None:
                    kept = [make(), 0]
                    self._forget()
                    self._memo[key] = kept
        kept[1] = self._calls
        return kept[0]  # type: ignore[no-any-return]

    def _forget(self) -> None:
        if len(self._memo) >= MEMO_SIZE:
            for key in [key for key, (_, asked) in self._memo.items() if asked < self._calls - MEMO_IDLE]:
                del self._memo[key]

    def __contains__(self, key: Hashable) -> bool:
        """Whether ``memo`` has something for this key."""
        return key in self._memo

    def labels_of(self, source: Labels | None) -> Array:
        """The labels of these rows in another source, or their own."""
        return self.labels if source is None else source.of(self)

    def tiers(self, sources: tuple["Labels | None", ...]) -> Array:
        """A number for each row, equal within a query where all these sources have equal labels; NaN if one has none."""
        return levels([self.labels_of(source) for source in sources], self.offsets)

    def tasks(self, cutoff: int | None, divisible: bool = True, threads: int = 1) -> list[Task]:
        """Chunks of about equal work for so many threads; a huge query is split, the same way for all, if it may be."""
        return self.memo(("tasks", cutoff, divisible, threads), lambda: self._make_tasks(cutoff, divisible, threads))

    def _make_tasks(self, cutoff: int | None, divisible: bool, threads: int) -> list[Task]:
        sizes = self.sizes
        pairs = sizes * (sizes if cutoff is None else np.minimum(sizes, cutoff))
        # A huge query stands alone; the others share chunks.
        huge = pairs >= SPLIT_WORK
        work = np.where(huge, 0, pairs + 64 * sizes)
        total = int(work.sum())
        least, most = (1 + total // size for size in CHUNK_WORK[::-1])
        chunks = min(max(CHUNKS * threads, -(-least // threads) * threads), most)
        chunk = (
            (np.cumsum(work) - work) * chunks // max(1, total)
            + np.cumsum(huge)
            + np.cumsum(np.concatenate([[False], huge[:-1]]) if len(huge) else huge)
        )
        edges = [0, *(np.flatnonzero(np.diff(chunk)) + 1).tolist(), len(self)]
        tasks: list[Task] = []
        for first, last in itertools.pairwise(edges):
            if first == last:
                continue
            parts = min(16, 1 + int(pairs[first]) // (SPLIT_WORK // 2)) if divisible and huge[first] else 1
            tasks += [Task(first, last, part, parts) for part in range(parts)]
        return tasks

    def rank(
        self, scores: Array, threads: int, cutoff: int | None = None, team: Team | None = None
    ) -> npt.NDArray[np.int32]:
        """For each query its documents (0..n-1) by descending score, equal scores in row order.

        With a cut-off, only as many come first in this order; where they are few, the others follow in row order.
        """
        top = self.top(cutoff)
        order, known = self.begin_ranking(top)

        def work(next_task: Callable[[], Task | None]) -> None:
            buffers = np.empty((2, self.longest)), np.empty((2, self.longest), np.int32)
            while (task := next_task()) is not None:
                self.rank_part(scores, top, task.first, task.last, order, *buffers, known=known)

        run_tasks(work, self.tasks(1, threads=threads), threads, team)
        self.end_ranking(top, order.copy())
        return order

    def top(self, cutoff: int | None) -> int | None:
        """How many documents to pick, where picking the first is faster than ranking all (None)."""
        return cutoff if cutoff is not None and TOP_SHARE * cutoff * len(self) <= len(self.labels) else None

    def begin_ranking(self, top: int | None) -> tuple[npt.NDArray[np.int32], bool]:
        """Where ``rank_part`` starts from, and whether it is worth starting from: the last ranking, if no other thread uses it.

        Of few rows any order is: the kernel that sorts from scratch takes longer to compile than it would save.
        """
        previous = self._orders.pop(top, None)
        return (row_order(self.offsets), len(self.labels) <= MANY_ROWS) if previous is None else (previous, True)

    def end_ranking(self, top: int | None, order: npt.NDArray[np.int32]) -> None:
        """Let the next ranking start from this one, and change it."""
        if len(self._orders) >= ORDERS:
            self._orders.clear()
        self._orders[top] = order

    def rank_part(
        self,
        scores: Array,
        top: int | None,
        first: int,
        last: int,
        order: Any,
        keys: Any,
        documents: Any,
        *,
        known: bool,
    ) -> None:
        """``rank`` of some queries, in place; ``keys`` and ``documents`` are two rows each, of the longest query.

        ``known``: what is there is nearly right, and worth starting from.
        """
        lists = self.offsets, first, last, order
        if top is not None:
            row = top_kernel()(scores, top, *lists, keys, documents)
        elif not known and self.longest <= COUNTED:
            row = count_kernel()(scores, *lists, documents)
        else:
            row = rank_kernel()(scores, *lists, keys, documents)
        if row >= 0:
            refuse_score(scores, row)


def refuse_score(scores: Array, row: int) -> NoReturn:
    """Say that this row's score is not finite."""
    raise LambdaplugError(
        f"scores: expected finite numbers, got {scores[row]} in row {row}. "
        "A booster that diverged gives such scores: lower learning_rate, or raise lambda_l2 / lambda."
    )


def _offsets(group: npt.ArrayLike | None, qid: npt.ArrayLike | None, rows: int) -> npt.NDArray[np.int64]:
    sizes = group_sizes(group, qid, rows)
    if sizes.max(initial=0) > np.iinfo(np.int32).max:
        raise LambdaplugError(f"group: a query of {sizes.max()} documents is beyond what lambdaplug ranks.")
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def _weight(weight: npt.ArrayLike | None, expected: int, unit: str) -> Array | None:
    if weight is None:
        return None
    values = vector(weight, "weight")
    if len(values) != expected:
        raise LambdaplugError(f"weight: expected one value per {unit} ({expected}), got {len(values)}.")
    if not (np.isfinite(values).all() and (values >= 0).all()):
        raise LambdaplugError("weight: expected finite numbers that are not negative.")
    return values
