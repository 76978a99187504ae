"""Preferences: pairs of rows of which one is known to be better, in place of grades."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import numpy.typing as npt

from ..checking import positive, shown
from ..costs import as_cost
from ..errors import LambdaplugError
from ..kernels import FLOAT64_ROWS, MARK_ROWS, Given, given_delta_kernel, given_force_kernel, swap_kernel
from ..measures import Measure, Prepared, as_measure
from ..measures.deltas import frozen
from ..queries import Array, Queries, Task, vector
from ..values import Value, called
from .base import Into, Objective, Ranking, Scratch

__all__ = ["Preferences", "RowPairs"]

Rows = npt.NDArray[np.int64]


class RowPairs(Value):
    """(better, worse) rows of a data set, with weights: a copy that never changes, equal by content."""

    rows: Rows  # two columns
    weight: Array | None
    digest: bytes

    def __init__(self, pairs: npt.ArrayLike, weight: npt.ArrayLike | None) -> None:
        rows = _rows(pairs)
        weights = None if weight is None else _weights(weight, len(rows))
        content = rows.tobytes() + (b"" if weights is None else weights.tobytes())
        self._set(rows=rows, weight=weights, digest=hashlib.blake2b(content, digest_size=16).digest())

    def _content(self) -> tuple[Any, ...]:
        return len(self), self.digest

    def __len__(self) -> int:
        return len(self.rows)

    def __reduce__(self) -> Any:
        return RowPairs, (self.rows, self.weight)

    def __repr__(self) -> str:
        return f"<{len(self)} pairs>"

    def of(self, queries: Queries) -> tuple[Given, Array]:
        """Those pairs whose rows are among these, by query, and their weights. In the order given within a query."""
        if not queries.numbered:
            raise LambdaplugError(
                "pairs: they name rows of the whole data set, and xgb.cv's folds do not say which of them they hold. With "
                "folds = lp.query_folds(group), folds=folds and fpreproc=folds.fpreproc they do; lgb.cv's do in any case."
            )
        total = queries.total_rows
        beyond = np.flatnonzero((self.rows >= total).any(axis=1))
        if len(beyond):
            pair = int(beyond[0])
            raise LambdaplugError(
                f"pairs: pair {pair} is of the rows {self.rows[pair].tolist()}, and the data set has {total}, numbered from 0. "
                "They follow the rows into LightGBM's subsets and folds; a slice of an XGBoost DMatrix does not say which "
                "rows it holds, so give its objective pairs of its own."
            )
        rows, kept = self.rows, np.arange(len(self))
        if queries.rows is not None:
            place = np.full(total, -1)
            place[queries.rows] = np.arange(len(queries.rows))
            rows = place[rows]
            kept = np.flatnonzero((rows >= 0).any(axis=1))
        query = np.searchsorted(queries.offsets, rows[kept], side="right") - 1
        query[rows[kept] < 0] = -1
        across = np.flatnonzero(query[:, 0] != query[:, 1])
        if len(across):
            self._refuse(int(kept[across[0]]), *query[across[0]].tolist())
        order = np.argsort(query[:, 0], kind="stable")
        kept, counts = kept[order], np.bincount(query[:, 0], minlength=len(queries))
        begin = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        better, worse = (np.ascontiguousarray(column) for column in rows[kept].T)
        return Given(better, worse, begin), np.ones(len(kept)) if self.weight is None else self.weight[kept]

    def _refuse(self, pair: int, *query: int) -> None:
        better, worse = self.rows[pair].tolist()
        first, second = (f"query {number}" if number >= 0 else "a query outside this subset" for number in query)
        raise LambdaplugError(
            f"pairs: pair {pair} prefers row {better}, which is in {first}, to row {worse}, which is in {second}. Only documents "
            "of one query can be compared: leave such pairs out. Rows and queries are numbered from 0."
        )


def _rows(pairs: npt.ArrayLike) -> Rows:
    try:
        given = np.asarray(pairs)
    except ValueError:
        given = np.empty(0)
    if given.ndim != 2 or given.shape[1] != 2 or given.dtype.kind not in "iu" or not len(given):
        what = f"an array of {given.dtype} of shape {given.shape}" if isinstance(pairs, np.ndarray) else shown(pairs)
        raise LambdaplugError(
            "pairs: expected (better, worse) row numbers, an array of integers of shape (m, 2) with at least one pair; got "
            f"{what}."
        )
    for name, wrong in (
        ("a negative row", (given < 0).any(axis=1)),
        ("the same row twice", given[:, 0] == given[:, 1]),
    ):
        if wrong.any():
            pair = int(np.flatnonzero(wrong)[0])
            raise LambdaplugError(
                f"pairs: expected two different rows, numbered from 0; pair {pair} has {name}: {given[pair].tolist()}."
            )
    rows = np.array(given, dtype=np.int64, order="C")
    rows.setflags(write=False)
    return rows


def _weights(weight: npt.ArrayLike, pairs: int) -> Array:
    values: Array = vector(weight, "weight").copy()
    if len(values) != pairs or not (np.isfinite(values).all() and (values >= 0.0).all()):
        raise LambdaplugError(
            f"weight: expected one finite number >= 0 per pair ({pairs}), got {len(values)} values: {shown(weight)}."
        )
    values.setflags(write=False)
    return values


class Preferences(Objective):
    """Learn from pairs of documents of which one is better: duels, judgments by a language model, clicks that skip.

    For each pair (i, j), i better than j, with the weight w and the score margin o = s_i - s_j,

        force = sigma w |dM| rho,  hessian = sigma^2 w |dM| rho (1 - rho),  rho = 1/(1 + exp(sigma o)).

    Without a measure, M is the share of a query's pairs that stand in the right order, so |dM| = 1/(pairs of the query):
    grades turned into all their pairs give ``lp.LambdaRank("pairs")``. With a measure, |dM| is what exchanging the two
    would change by the data set's labels, in the present order; the pair alone says which of them should rise, and pairs
    of equal label do not act.

    Parameters
    ----------
    pairs : array of int, shape (m, 2)
        Rows of the data set, numbered from 0: the better one, and the worse one of the same query. A pair may come more
        than once, and turned round: all add up.
    weight : array of float, shape (m,), or None
        One weight per pair, >= 0; None: 1 each.
    measure : str, Measure or None
        Weigh pairs by this measure's |dM|.
    sigma : float
        Steepness of the pair cost.

    Notes
    -----
    In LightGBM the pairs follow their rows into subsets and folds, as ``labels=`` do. A slice of an XGBoost DMatrix does not
    know its rows: give its objective pairs of its own; ``xgb.cv`` is refused. On Dask, rows have no numbers, and the
    objective is refused there; a worker's function (Ray, Spark) can build it from the pairs of its own rows. Query weights
    multiply a query's forces, document weights both a pair's. The labels of the data set are read with a measure only.

    References: C. Burges et al. (2005), "Learning to rank using gradient descent", ICML. T. Joachims (2002),
    "Optimizing search engines using clickthrough data", KDD: a clicked result is better than those skipped above it.

    >>> objective = lp.Preferences([[2, 0], [2, 1], [0, 1]])
    >>> objective
    Preferences(<3 pairs>)
    >>> objective.gradients(labels=[0, 0, 0], scores=[0.0, 0.0, 0.0], group=[3])[0].round(4)
    array([ 0.    ,  0.3333, -0.3333], dtype=float32)
    """

    pairs: RowPairs
    measure: Measure | None
    sigma: float
    cutoff = 1  # for the balance of work: each pair once
    divisible = False

    def __init__(
        self,
        pairs: npt.ArrayLike,
        weight: npt.ArrayLike | None = None,
        measure: str | Measure | None = None,
        *,
        sigma: float = 1.0,
    ) -> None:
        kind = None if measure is None else as_measure(measure)
        self._set(pairs=RowPairs(pairs, weight), measure=kind, sigma=positive(sigma, "sigma"))

    def __repr__(self) -> str:
        first = [repr(self.pairs)]
        first += [f"weight=<{len(self.pairs)} values>"] if self.pairs.weight is not None else []
        measure = None if self.measure is None else str(self.measure)
        return called("Preferences", *first, measure=(measure, None), sigma=(self.sigma, 1.0))

    @property
    def cutoffs(self) -> frozenset[int | None]:
        return frozenset([1 if self.measure is None else self.measure.cutoff])  # ranking checks the scores, too

    @property
    def target(self) -> Measure | None:
        return self.measure

    def given(self, queries: Queries) -> tuple[Given, Array]:
        """The pairs of these queries, and their weights; without a measure, each times its |dM|."""

        def make() -> tuple[Given, Array]:
            given, weight = self.pairs.of(queries)
            counts = np.diff(given.begin)
            return given, weight if self.measure is not None else weight / np.repeat(counts, counts)

        return queries.memo(("pairs", self.pairs, self.measure is None), make)

    def check_order(self, queries: Queries) -> None:
        def judge() -> None:
            given, weight = self.given(queries)
            acting = weight > 0.0
            if self.measure is not None:
                _, grade, norm, _, _ = self._prepared(queries)
                defined = np.repeat(norm != 0.0, np.diff(given.begin))
                acting &= defined & (grade[given.better] != grade[given.worse])
            if len(queries.labels) and not acting.any():
                found = f"{len(weight)} of its {len(self.pairs)} pairs are in these {len(queries.labels)} rows"
                labels = "" if self.measure is None else f" and two labels that {self.measure} tells apart"
                raise LambdaplugError(
                    f"{self!r} has nothing to learn from: {found}, and none of them has a positive weight{labels}."
                )

        queries.memo(("pairs act", self.pairs, self.measure), judge)

    def _prepared(self, queries: Queries) -> Prepared:
        assert self.measure is not None
        measure = self.measure
        return queries.memo((measure, None, False), lambda: measure.prepared_for(queries))

    def accumulate(self, ranking: Ranking, task: Task, scratch: Scratch, into: Into) -> None:
        queries = ranking.queries
        given, sizes = self.given(queries)
        if self.measure is not None:
            sizes = self._weighed(ranking, task, scratch, given, sizes)
        weight = queries.row_weights
        coefficient, *sums = into
        cost = as_cost("ranknet")
        numbers, span = (self.sigma, cost.shift, coefficient), (task.first, task.last, queries.offsets[task.first])
        given_force_kernel(cost.exact)(tuple(given), sizes, ranking.scores, weight, numbers, span, tuple(sums))

    def _weighed(self, ranking: Ranking, task: Task, scratch: Scratch, given: Given, weight: Array) -> Array:
        """The weights of the task's pairs times their |dM|."""
        measure, queries, prepared = self.measure, ranking.queries, self._prepared(ranking.queries)
        assert measure is not None
        size = int(queries.offsets[task.last] - queries.offsets[task.first])
        rows = scratch.array("rows", FLOAT64_ROWS, size)
        marks = scratch.array("marks", MARK_ROWS, task.last - task.first, np.int64)
        lists = queries.offsets, task.first, task.last, ranking.orders[measure.cutoff]
        measure.run(swap_kernel(measure.swap_rows()), tuple(prepared), lists, rows, marks)
        sizes: Array = scratch.array("pair sizes", 1, len(weight))[0]
        ranks = scratch.array("ranks", 1, queries.longest, np.int32)[0]
        pair = measure.pair_delta()
        about, tables = (prepared.grade, prepared.norm), (rows, frozen(rows, pair, prepared), marks)
        measure.run(given_delta_kernel(pair), tuple(given), weight, about, lists, tables, ranks, sizes)
        return sizes
