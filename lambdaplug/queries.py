"""Rows in queries: checked once, never changed, shared by everything that ranks them."""

import functools
import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NoReturn, TypeVar

import numpy as np
import numpy.typing as npt

from .columns import Columns, Pairs, given
from .errors import LambdaplugError
from .grouping import Array, group_sizes, vector
from .kernels import LATER, Leaf, Rooms, Team, count_kernel, leaves, rank_kernel, run_round
from .rows import MANY_ROWS, levels, row_order

__all__ = ["Array", "Queries", "group_sizes", "refuse_score", "vector"]

T = TypeVar("T")

CHUNK_WORK = 1 << 20, 6 << 20  # pairs in a task: long beside what handing it out costs, short beside a round
CHUNKS = 4  # for each thread, so that none waits long for another's last
MEMO_SIZE = 24  # results kept in any case; beyond it, those not asked for lately are forgotten
MEMO_IDLE = 64  # gradients or evaluations
COUNTED = 256  # documents of the longest list, up to which comparing every two is faster than sorting
NO_WEIGHTS = np.empty(0)


class Queries:
    """``labels`` of rows that belong to consecutive queries, ``offsets[q]:offsets[q + 1]`` being query q's rows."""

    def __init__(
        self,
        labels: npt.ArrayLike,
        group: npt.ArrayLike | None,
        *,
        query_weight: npt.ArrayLike | None = None,
        document_weight: npt.ArrayLike | None = None,
        columns: Columns | Mapping[str, Any] | None = None,
        position: npt.ArrayLike | None = None,
        qid: npt.ArrayLike | None = None,
    ) -> None:
        self.labels = vector(labels, "labels")
        wrong = np.flatnonzero(~np.isfinite(self.labels))
        if len(wrong):
            raise LambdaplugError(
                f"labels: row {wrong[0]} is NaN, masked or infinite. Every row needs a label; drop the rows without one."
            )
        self.offsets = np.concatenate([[0], np.cumsum(group_sizes(group, qid, len(self.labels)))]).astype(np.int64)
        self.query_weight = _weight(query_weight, len(self), "query")
        self.document_weight = _weight(document_weight, len(self.labels), "row")
        self.position = position  # where each row was shown, if the host knows; checked by those who use it
        self.columns = columns if isinstance(columns, Columns) else given(columns, self.sizes)
        self._memo: dict[Hashable, list[Any]] = {}  # what was made, and the last call that asked for it
        self._calls = 0
        self._making = threading.RLock()
        self._order: npt.NDArray[np.int32] | None = None  # where the next ranking starts from: it changes the time only

    @classmethod
    def weighted(
        cls,
        labels: npt.ArrayLike,
        group: npt.ArrayLike | None,
        weight: npt.ArrayLike | None,
        qid: npt.ArrayLike | None = None,
        columns: Mapping[str, Any] | None = None,
    ) -> "Queries":
        """With weights per query or per document, told apart by their number."""
        if weight is None:
            return cls(labels, group, qid=qid, columns=columns)
        weights, rows = vector(weight, "weight"), len(vector(labels, "labels"))
        sizes = group_sizes(group, qid, rows)
        of_queries, of_rows = len(weights) == len(sizes), len(weights) == rows
        if of_queries == of_rows:
            raise LambdaplugError(
                f"weight: expected one value per query ({len(sizes)}) or per document ({rows}), told apart by their number, "
                f"got {len(weights)}."
            )
        own = {"query_weight" if of_queries else "document_weight": weights}
        return cls(labels, sizes, columns=columns, **own)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def row_weights(self) -> Array:
        """One per row; empty without weights of documents."""
        return NO_WEIGHTS if self.document_weight is None else self.document_weight

    @functools.cached_property
    def sizes(self) -> npt.NDArray[np.int64]:
        return np.diff(self.offsets)

    @functools.cached_property
    def longest(self) -> int:
        return int(self.sizes.max(initial=0))

    def begin(self) -> None:
        """A gradient or an evaluation begins; what it asks ``memo`` for is kept for as long as such calls ask for it."""
        self._calls += 1

    def memo(self, key: Hashable, make: Callable[[], T]) -> T:
        """What ``make`` returned for this key. Threads wait for the first who makes it."""
        with self._making:
            if key not in self._memo:
                made = make()
                if len(self._memo) >= MEMO_SIZE:
                    since = self._calls - MEMO_IDLE
                    self._memo = {key: kept for key, kept in self._memo.items() if kept[1] >= since}
                self._memo[key] = [made, 0]
            kept = self._memo[key]
            kept[1] = self._calls
        return kept[0]  # type: ignore[no-any-return]

    def labels_of(self, name: str | None) -> Array:
        """The labels of these rows in a column, where NaN is none, or their own."""
        if name is None:
            return self.labels
        return self.memo(("labels", name), lambda: self.columns.numbers(name, missing=True))

    def column(self, name: str) -> Array:
        """One number for each row."""
        return self.memo(("column", name), lambda: self.columns.numbers(name))

    def table(self, name: str) -> list[Array]:
        """The columns of a table, or the one that it is."""
        return self.memo(("table", name), lambda: self.columns.table(name))

    def weights(self, name: str | None) -> Array:
        """One for each row: the data set's own, times those of a column; empty if there are neither."""

        def multiplied() -> Array:
            own = self.columns.numbers(str(name), least=0.0)
            return own if self.document_weight is None else own * self.document_weight

        return self.row_weights if name is None else self.memo(("weights", name), multiplied)

    def pairs(self, name: str) -> Pairs:
        """Pairs of rows, (better, worse), by query."""
        return self.memo(("pairs", name), lambda: self.columns.pairs(name, self.offsets))

    def tiers(self, columns: tuple[str | None, ...]) -> Array:
        """A number for each row, equal within a query where all these columns have equal labels; NaN if one has none."""
        return levels([self.labels_of(name) for name in columns], self.offsets)

    def tasks(self, cutoff: int | None, threads: int = 1) -> npt.NDArray[np.int64]:
        """Where chunks of whole queries of about equal work for so many threads begin, and where the last one ends."""
        return self.memo(("tasks", cutoff, threads), lambda: self._make_tasks(cutoff, threads))

    def _make_tasks(self, cutoff: int | None, threads: int) -> npt.NDArray[np.int64]:
        sizes = self.sizes
        work = sizes * (sizes if cutoff is None else np.minimum(sizes, cutoff)) + 64 * sizes
        total = int(work.sum())
        least, most = (1 + total // size for size in CHUNK_WORK[::-1])
        chunks = min(max(CHUNKS * threads, -(-least // threads) * threads), most)
        chunk = (np.cumsum(work) - work) * chunks // max(1, total)
        return np.asarray(np.unique([0, *(np.flatnonzero(np.diff(chunk)) + 1), len(self)]), np.int64)

    def rank(self, scores: Array, threads: int, team: Team | None = None) -> npt.NDArray[np.int32]:
        """For each query its documents (0..n-1) by descending score, equal scores in row order."""
        return np.array(self.run([], scores, threads, team))

    def run(
        self,
        steps: Sequence[Leaf],
        scores: Array,
        threads: int,
        team: Team | None = None,
        *,
        cutoff: int | None = 1,
        ranked: bool = True,
        levels: int = 0,
        only: int | None = None,
    ) -> npt.NDArray[np.int32]:
        """One round: these leaves, with the documents ``ranked`` by score or only a look at the scores. The ranking.

        ``cutoff``: the rank below which nothing is to be done; ``only``: of one query.
        """
        edges = self.tasks(cutoff, threads) if only is None else np.array([only, only + 1])
        # The last ranking is nearly right, if no other round is at work on it. Of few rows any order is: the kernel that sorts
        # from scratch takes longer to compile than it would save.
        with self._making:
            last, self._order = self._order, None
        order, known = (row_order(self.offsets), len(self.labels) <= MANY_ROWS) if last is None else (last, True)
        first = [Leaf(leaves.checked, (), (), lambda row: refuse_score(scores, row))]
        if ranked:
            sorts = rank_kernel if known or self.longest > COUNTED else count_kernel
            first.append(Leaf(leaves.ranked, (sorts(),), ()))
        steps = [*first, *steps]
        rooms = self.memo(("rooms", cutoff, threads, levels, only), lambda: Rooms(edges, self.offsets, levels))
        while said := run_round(steps, (self.offsets, scores, order, edges), rooms, threads, team):
            leaf, what, where = said
            if what == LATER:
                steps[leaf].compile(where)
            elif (refuse := steps[leaf].refuse) is not None:
                refuse(where)
        if ranked and only is None:
            self._order = order
        return order


def refuse_score(scores: Array, row: int) -> NoReturn:
    """Say that this row's score is not finite."""
    raise LambdaplugError(
        f"scores: expected finite numbers, got {scores[row]} in row {row}. "
        "A booster that diverged gives such scores: lower learning_rate, or raise lambda_l2 / lambda."
    )


def _weight(weight: npt.ArrayLike | None, expected: int, unit: str) -> Array | None:
    if weight is None:
        return None
    values = vector(weight, "weight")
    if len(values) != expected:
        raise LambdaplugError(f"weight: expected one value per {unit} ({expected}), got {len(values)}.")
    if not (np.isfinite(values).all() and (values >= 0).all()):
        raise LambdaplugError("weight: expected finite numbers that are not negative.")
    return values
