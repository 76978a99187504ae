"""A measure as a function of a model's weights, where scores are linear in them: boosted trees, and linear models."""

import abc
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ..errors import LambdaplugError
from ..kernels import (
    gather_kernel,
    get_num_threads,
    rank_kernel,
    run_tasks,
    scatter_kernel,
    top_kernel,
    value_kernel,
)
from ..measures import Measure, as_measure
from ..objectives import LambdaRank
from ..queries import Array, Queries
from ..rows import row_order

__all__ = ["Landscape", "LeafModel", "LinearModel", "Trial", "WeightModel", "unit", "unit_directions"]

Rows: TypeAlias = npt.NDArray[Any]  # leaf numbers or features, a row of them for each row of the data
Table: TypeAlias = Callable[[int, int], Array]  # directions first..last-1, one per column

CHUNK_BYTES = 1 << 27  # of leaf numbers and moves worked on at a time
KEPT_BYTES = 1 << 29  # of leaf numbers, scores and gains: where there are more, rows are predicted anew for each use
BLOCK = 32  # directions gathered at a time
GATHERED_ROWS = 4096  # by a task


class WeightModel(abc.ABC):
    """A model whose scores are linear in its weights.

    ``read(first, last)`` returns, of the rows first..last-1, their scores and a table of ``dtype``: what each row takes from
    the weights.
    """

    weights: Array
    read: Callable[[int, int], tuple[Array, Rows]]
    dtype: ClassVar[type]

    @property
    @abc.abstractmethod
    def row_bytes(self) -> int:
        """Of one row of the table."""

    @abc.abstractmethod
    def moves(self, rows: Rows, table: Array, threads: int) -> Array:
        """How far these rows move, one column for each direction of ``table[weight, direction]``."""

    @abc.abstractmethod
    def sums(self, rows: Rows, gradient: Array, hessian: Array) -> Array:
        """``[2, weight]``: the derivatives by the weights, from those by the rows' scores."""


@dataclass(frozen=True)
class LeafModel(WeightModel):
    """A row's score is a constant plus one weight for each tree: that of the leaf it stands in.

    Parameters
    ----------
    weights : array
        All leaf values.
    trees : int
        How many trees.
    read : callable
        ``read(first, last)`` returns, of the rows first..last-1, their scores and their places ``[row, tree]`` in ``weights``.

    Examples
    --------
    >>> leaves = np.array([[0], [1]], np.int32)  # two rows, each in a leaf of its own of one tree
    >>> model = LeafModel(np.array([0.0, 1.0]), 1, lambda first, last: (np.arange(2.0)[first:last], leaves[first:last]))
    >>> model.read(1, 2)[0]
    array([1.])
    """

    weights: Array
    trees: int
    read: Callable[[int, int], tuple[Array, Rows]]
    dtype: ClassVar[type] = np.int32

    @property
    def row_bytes(self) -> int:
        return 4 * self.trees

    def moves(self, rows: Rows, table: Array, threads: int) -> Array:
        moves = np.empty((len(rows), table.shape[1]))
        table = np.ascontiguousarray(table, dtype=np.float64)

        def work(next_first: Callable[[], int | None]) -> None:
            while (first := next_first()) is not None:
                gather_kernel()(rows, table, first, min(first + GATHERED_ROWS, len(rows)), moves)

        run_tasks(work, range(0, len(rows), GATHERED_ROWS), threads)
        return moves

    def sums(self, rows: Rows, gradient: Array, hessian: Array) -> Array:
        sums = np.zeros((2, len(self.weights)))
        scatter_kernel()(rows, gradient, hessian, sums)
        return sums


@dataclass(frozen=True)
class LinearModel(WeightModel):
    """A row's score is a constant plus the sum of its features, each times its weight.

    Parameters
    ----------
    weights : array
        One per feature.
    read : callable
        ``read(first, last)`` returns, of the rows first..last-1, their scores and their features.

    Examples
    --------
    >>> X = np.array([[1.0, 2.0], [3.0, 4.0]])
    >>> model = LinearModel(np.array([1.0, -1.0]), lambda first, last: (X[first:last] @ [1.0, -1.0], X[first:last]))
    >>> model.moves(X, np.array([[1.0], [1.0]]), 1)
    array([[3.],
           [7.]])
    """

    weights: Array
    read: Callable[[int, int], tuple[Array, Rows]]
    dtype: ClassVar[type] = np.float64

    @property
    def row_bytes(self) -> int:
        return 8 * len(self.weights)

    def moves(self, rows: Rows, table: Array, threads: int) -> Array:  # noqa: ARG002 -- BLAS has threads of its own
        moves: Array = rows @ table
        return moves

    def sums(self, rows: Rows, gradient: Array, hessian: Array) -> Array:
        return np.stack([gradient @ rows, hessian @ np.square(rows)])


class Trial(NamedTuple):
    """What happens to the mean of a measure along some directions: arrays ``[direction, step]``."""

    value: float  # where the directions start
    queries: int  # that have a value
    change: Array
    error: Array  # the standard error of ``change``, from the paired differences of the queries

    @property
    def t(self) -> Array:
        """Student's t of the paired differences."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self.change == 0.0, 0.0, self.change / self.error)


class _Chunk(NamedTuple):
    """A chunk of the queries that have a value."""

    numbers: Any  # of the rows: a slice or an array
    scores: Array
    table: Rows
    offsets: npt.NDArray[np.int64]
    gain: Array
    norm: Array


class Landscape:
    """The mean of a measure over queries, at the weights of a model and around them.

    Scores are linear in the weights: along a direction u of a tree model they are s + eta * (sum of u over a row's leaves).
    So a direction costs one pass over the leaf numbers, and every step along it one ranking. Rows come in chunks of whole
    queries; no result depends on the number of threads.

    Parameters
    ----------
    model : WeightModel
        Weights, and what each row takes from them.
    queries : Queries
        Labels and groups.
    measure : str or Measure
        What is looked at.
    threads : int, optional
        Default all cores.

    Examples
    --------
    >>> leaves = np.array([[0], [1]], np.int32)  # two rows, each in a leaf of its own of one tree
    >>> model = LeafModel(np.array([0.0, 1.0]), 1, lambda first, last: (np.arange(2.0)[first:last], leaves[first:last]))
    >>> landscape = Landscape(model, Queries([0, 1], [2]), "ndcg")
    >>> landscape.value()
    1.0
    >>> round(landscape.value(np.array([2.0, 0.0])), 4)  # with these added to the leaf values
    0.6309
    """

    def __init__(
        self, model: WeightModel, queries: Queries, measure: str | Measure, threads: int | None = None
    ) -> None:
        self.model = model
        self.queries = queries
        self.measure = as_measure(measure)
        self.threads = get_num_threads(threads)
        self._prepared = self.measure.prepared_for(queries)
        self._defined = self._prepared.norm != 0.0
        if not self._defined.any():
            raise LambdaplugError(
                f"{self.measure} is undefined for every query ({self.measure.undefined}): nothing to measure."
            )
        limit = max(1, CHUNK_BYTES // (model.row_bytes + 8 * BLOCK))
        chunk = np.cumsum(queries.sizes) // limit
        self._edges = [0, *(np.flatnonzero(np.diff(chunk)) + 1).tolist(), len(queries)]
        self._keeps = (model.row_bytes + 16) * len(queries.labels) <= KEPT_BYTES
        self._kept: dict[int, _Chunk] = {}  # by the first query

    def value(self, moved: Array | None = None) -> float:
        """The measure, with ``moved`` added to the weights."""
        return self.along(lambda _first, _last: np.empty((0, 0)), 0, [], moved).value

    def along(
        self,
        table: Table,
        count: int,
        steps: Sequence[float],
        moved: Array | None = None,
        tick: Callable[[int], Any] | None = None,
    ) -> Trial:
        """Try every step along each of so many directions, from the weights (plus ``moved``).

        ``table(first, last)`` has a row for each weight and a column for each of these directions. ``tick`` is told the
        number of rankings done since it was last told.
        """
        sums, squares = np.zeros((2, count, len(steps)))
        total = 0.0
        for first, last in itertools.pairwise(self._edges):
            rows = self._read(first, last)
            if not len(rows.norm):
                continue
            start = self._scores(rows, moved)
            ranking = row_order(rows.offsets)
            before = _Ruler(self, rows)(start, ranking)
            total += float(before.sum())
            for begin in range(0, count, BLOCK):
                end = min(begin + BLOCK, count)
                moves = self.model.moves(rows.table, table(begin, end), self.threads)
                self._measure(rows, start, ranking, before, moves, steps, sums[begin:end], squares[begin:end])
                if tick is not None:
                    share = int(self.queries.offsets[last] - self.queries.offsets[first]) / len(self.queries.labels)
                    tick(round((end - begin) * len(steps) * share))
        n = int(self._defined.sum())
        variance = np.maximum(squares - sums**2 / n, 0.0) / max(n - 1, 1)
        error = np.sqrt(variance / n) if n > 1 else np.full_like(sums, np.inf)
        return Trial(total / n, n, sums / n, error)

    def lambda_direction(self, moved: Array | None = None) -> Array:
        """Each weight's Newton step under the lambda forces of the measure, damped where a weight has little curvature.

        Of unit length, or 0 where there is no force.
        """
        scores = np.zeros(len(self.queries.labels))
        for rows in self._chunks():
            scores[rows.numbers] = self._scores(rows, moved)
        forces = LambdaRank(self.measure).differentiate(self.queries, scores, threads=self.threads)
        sums = np.zeros((2, len(self.model.weights)))  # gradient, hessian
        for rows in self._chunks():
            own = (np.ascontiguousarray(part[rows.numbers], dtype=np.float64) for part in forces)
            sums += self.model.sums(rows.table, *own)
        gradient, hessian = sums
        damped = hessian + hessian.mean()
        return unit(np.divide(-gradient, damped, out=np.zeros_like(damped), where=damped > 0.0))

    def _chunks(self) -> Iterator[_Chunk]:
        return (self._read(first, last) for first, last in itertools.pairwise(self._edges))

    def _scores(self, rows: _Chunk, moved: Array | None) -> Array:
        if moved is None:
            return rows.scores
        return rows.scores + self.model.moves(rows.table, moved[:, None], self.threads)[:, 0]

    def _read(self, first: int, last: int) -> _Chunk:
        if first in self._kept:
            return self._kept[first]
        offsets = self.queries.offsets
        begin, end = int(offsets[first]), int(offsets[last])
        scores, table = self.model.read(begin, end)
        sizes, defined = np.diff(offsets[first : last + 1]), self._defined[first:last]
        numbers: Any = slice(begin, end)
        if not defined.all():
            inside = np.repeat(defined, sizes)
            numbers = begin + np.flatnonzero(inside)
            scores, table, sizes = scores[inside], table[inside], sizes[defined]
        rows = _Chunk(
            numbers,
            np.ascontiguousarray(scores, dtype=np.float64),
            np.ascontiguousarray(table, dtype=self.model.dtype),
            np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
            np.ascontiguousarray(self._prepared.gain[numbers]),
            self._prepared.norm[first:last][defined],
        )
        if self._keeps:
            self._kept[first] = rows
        return rows

    def _measure(
        self,
        rows: _Chunk,
        start: Array,
        ranking: npt.NDArray[np.int32],
        before: Array,
        moves: Array,
        steps: Sequence[float],
        sums: Array,
        squares: Array,
    ) -> None:
        """Add the changes of each query, and their squares, along each direction."""

        def work(next_direction: Callable[[], int | None]) -> None:
            measured = _Ruler(self, rows)
            scores = np.empty_like(start)
            while (direction := next_direction()) is not None:
                move = np.ascontiguousarray(moves[:, direction])
                order = ranking.copy()
                for index, step in enumerate(steps):
                    np.multiply(move, step, out=scores)
                    np.add(scores, start, out=scores)
                    change = measured(scores, order) - before
                    sums[direction, index] += change.sum()
                    squares[direction, index] += np.square(change).sum()

        run_tasks(work, range(moves.shape[1]), self.threads)


class _Ruler:
    """Ranks and measures the same rows again and again, each time from the ranking before; one per thread."""

    def __init__(self, landscape: Landscape, rows: _Chunk) -> None:
        longest = int(np.diff(rows.offsets).max())
        self.rows, self.top = rows, landscape.queries.top(landscape.measure.cutoff)
        self.value = value_kernel(landscape.measure.value)
        self.discount, self.k = landscape._prepared.discount, landscape._prepared.k
        self.buffers = np.empty((2, longest)), np.empty((2, longest), np.int32)
        self.ranked = np.empty(longest)

    def __call__(self, scores: Array, order: npt.NDArray[np.int32]) -> Array:
        """One value per query; ``order`` is any ranking on entry and that of the scores on return."""
        rows = self.rows
        queries = len(rows.norm)
        ranked = rows.offsets, 0, queries, order, *self.buffers
        row = rank_kernel()(scores, *ranked) if self.top is None else top_kernel()(scores, self.top, *ranked)
        if row >= 0:
            raise LambdaplugError(f"the model gives a row the score {scores[row]}: expected finite numbers.")
        out = np.empty(queries)
        self.value(rows.gain, self.discount, self.k, (rows.offsets, 0, queries, order), self.ranked, out)
        return out * rows.norm


def unit(vector: Array) -> Array:
    """The vector at length 1; 0 stays 0."""
    length = float(np.sqrt(np.square(vector).sum()))
    return vector / length if length > 0.0 else np.zeros_like(vector)


def unit_directions(size: int, numbers: Sequence[int], seed: int) -> Array:
    """Random unit vectors, one per column: each is a function of the seed and its number alone."""
    table = np.empty((size, len(numbers)))
    for column, number in enumerate(numbers):
        table[:, column] = unit(np.random.default_rng([seed, number]).standard_normal(size))
    return table
