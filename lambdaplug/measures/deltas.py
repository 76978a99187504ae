"""Swap deltas of every pair of a query, to look at."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from ..grouping import vector
from ..kernels import FLOAT64_ROWS, MARK_ROWS, given_delta_kernel, swap_kernel
from ..queries import Queries
from ..rows import row_order
from .base import Measure, Prepared
from .gains import Array
from .text import as_measure

__all__ = ["query_deltas", "swap_deltas"]


def swap_deltas(
    measure: str | Measure, ranked_labels: npt.ArrayLike, columns: Mapping[str, npt.ArrayLike] | None = None
) -> Array:
    """|delta| of every pair of one query whose labels are given in rank order, as an n x n matrix, float64.

    ``columns`` are those of the measure, in rank order as well.

    >>> swap_deltas("mrr", [0, 1]).round(3).tolist()
    [[0.0, 0.5], [0.5, 0.0]]
    """
    measure, labels = as_measure(measure), vector(ranked_labels, "labels")
    own = {**(columns or {}), "ranked labels": labels}
    queries = Queries(np.zeros(len(labels)), [len(labels)], columns=own)
    return np.abs(query_deltas(measure, measure.prepared_for(queries, "ranked labels"), queries.offsets, 0))


def query_deltas(measure: Measure, prepared: Prepared, offsets: npt.NDArray[np.int64], query: int) -> Array:
    """``swap_deltas`` of one of several queries whose rows stand in rank order; signed, where the delta is."""
    own = slice(offsets[query], offsets[query + 1])
    one = prepared._replace(gain=prepared.gain[own], grade=prepared.grade[own], norm=prepared.norm[query : query + 1])
    n, pair = len(one.gain), measure.pair_delta(prepared)
    alone, (upper, lower) = np.array([0, n]), np.triu_indices(n, 1)
    lists, rows, marks = (
        (alone, 0, 1, row_order(alone)),
        np.zeros((FLOAT64_ROWS, n)),
        np.zeros((MARK_ROWS, 1), np.int64),
    )
    measure.run(swap_kernel(measure.swap_rows(), True), tuple(one), lists, rows, marks)
    sizes, given, ranks = np.zeros(len(upper)), (upper, lower, np.array([0, len(upper)])), np.empty(n, np.int32)
    tables = rows, (rows, prepared.discount), marks
    measure.run(
        given_delta_kernel(pair), given, np.ones(len(upper)), (one.grade, one.norm), lists, tables, ranks, sizes
    )
    delta = np.zeros((n, n))
    delta[upper, lower] = sizes if pair.signed else np.abs(sizes)
    return np.asarray(delta + delta.T)
