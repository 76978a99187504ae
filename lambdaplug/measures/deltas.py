"""Swap deltas of every pair of a query, to look at."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from ..grouping import vector
from ..kernels import CUT, FLOAT64_ROWS, MARK_ROWS, delta_kernel, swap_kernel
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
    gain, grade, norm = prepared.gain[own], prepared.grade[own], prepared.norm[query : query + 1]
    n = len(gain)
    alone = np.array([0, n])
    rows = np.zeros((FLOAT64_ROWS, n))
    marks = np.zeros((MARK_ROWS, 1), dtype=np.int64)
    one = tuple(prepared._replace(gain=gain, grade=grade, norm=norm))
    measure.run(swap_kernel(measure.swap_rows(), True), one, (alone, 0, 1, row_order(alone)), rows, marks)
    delta, cut = np.zeros((n, n)), int(marks[CUT, 0])
    if cut > 0:
        pair = measure.pair_delta(True, prepared)
        measure.run(delta_kernel(pair), rows, (rows, prepared.discount), cut, delta)
    ordered = (grade[:, None] < grade[None, :]) | (grade[:, None] > grade[None, :])
    delta = np.where(ordered, norm[0] * delta, 0.0)
    return np.asarray(delta + delta.T)
