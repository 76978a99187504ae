"""The geometry of rows in queries: plain functions of offsets, ``offsets[q]:offsets[q + 1]`` being query q's rows."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .kernels import rank_kernel

__all__ = [
    "MANY_ROWS",
    "average_ranks",
    "differing",
    "gain_levels",
    "ideal_order",
    "levels",
    "one_a_query",
    "row_order",
    "sizes_of",
]


MANY_ROWS = 100_000  # from here on, counting saves more time than one more kernel takes to load
BLOCK = 2 * MANY_ROWS  # rows that are looked at together where each takes tens of bytes


def row_order(offsets: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
    """For each query 0, 1, ..., n-1: the ranking by row."""
    rows = np.arange(offsets[-1], dtype=np.int32)
    rows -= np.repeat(offsets[:-1].astype(np.int32), np.diff(offsets))
    return rows


def ideal_order(values: npt.NDArray[np.float64], offsets: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
    """For each query its rows by falling value, NaN last, equal ones by row."""
    missing = np.isnan(values)
    if missing.any():
        values = np.where(missing, -np.inf, values)
    del missing  # millions of rows: nothing is kept longer than needed
    longest = int(np.diff(offsets).max(initial=0))
    order, buffers = row_order(offsets), (np.empty((2, longest)), np.empty((2, longest), np.int32))
    rank_kernel()(values, offsets, 0, len(offsets) - 1, order, *buffers)
    return order


def gain_levels(
    gain: npt.NDArray[np.float64], grade: npt.NDArray[np.float64], offsets: npt.NDArray[np.int64]
) -> tuple[bool, npt.NDArray[np.int32], npt.NDArray[np.int32], npt.NDArray[np.float32]]:
    """What the lists are by falling gain: (alike, begin, below, gains).

    ``alike``: whether the gains order any two documents of a query as their grades do, equal ones included.
    ``begin[row]`` is where the row's gain begins in its query's list. By list: ``below``, where the next lower gain
    begins, and ``gains``, each above the query's lowest.
    """
    begin, below = np.empty((2, len(gain)), np.int32)
    gains, alike = np.empty(len(gain), np.float32), True
    cuts = np.unique([0, *np.searchsorted(offsets, np.arange(BLOCK, len(gain), BLOCK)), len(offsets) - 1])
    for first, last in itertools.pairwise(cuts.tolist()):
        part = slice(offsets[first], offsets[last])
        found = _gain_levels(gain[part], grade[part], offsets[first : last + 1] - offsets[first])
        alike &= found[0]
        with np.errstate(over="ignore"):  # the error about the gradient says what is too large
            begin[part], below[part], gains[part] = found[1:]
    return alike, begin, below, gains


def _gain_levels(
    gain: npt.NDArray[np.float64], grade: npt.NDArray[np.float64], offsets: npt.NDArray[np.int64]
) -> tuple[bool, npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    sizes = np.diff(offsets)
    filled = sizes > 0
    start = np.repeat(offsets[:-1], sizes)
    rows = start + ideal_order(gain, offsets)
    falling, graded = gain[rows], grade[rows]
    new = falling[1:] != falling[:-1]
    alike = np.where(new, graded[1:] < graded[:-1], graded[1:] == graded[:-1])  # NaN is not equal to itself
    heads = offsets[:-1][filled][1:] - 1  # between the last document of a list and the first of the next
    new[heads] = alike[heads] = True
    edges = np.concatenate([[0], np.flatnonzero(new) + 1, [len(rows)]])
    lengths = np.diff(edges)
    begin = np.empty(len(rows), np.int64)
    begin[rows] = np.repeat(edges[:-1], lengths) - start
    below = np.repeat(edges[1:], lengths) - start
    gains = falling - np.repeat(falling[offsets[1:][filled] - 1], sizes[filled])
    return bool(alike.all()), begin, below, gains


def average_ranks(values: npt.NDArray[np.float64], offsets: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """For each query the ranks of its values, 1 for the lowest, equal ones sharing their average; NaN has none."""
    sizes = np.diff(offsets)
    query = np.repeat(np.arange(len(sizes)), sizes)
    order = np.lexsort((values, query))  # NaN last
    rising, query = values[order], query[order]
    starts = np.flatnonzero(np.append(True, (rising[1:] != rising[:-1]) | (query[1:] != query[:-1]))[: len(order)])
    lengths = np.diff(np.append(starts, len(order)))
    ranks = np.empty(len(values))
    ranks[order] = np.repeat(starts - offsets[query[starts]] + 0.5 * (lengths + 1), lengths)
    ranks[np.isnan(values)] = np.nan
    return ranks


def sizes_of(ids: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """The lengths of the runs of equal ids: group sizes from query ids.

    Parameters
    ----------
    ids : array-like
        One query id per row; the rows of a query stand together.

    Returns
    -------
    array of int
        The number of rows of each query, in order.

    Examples
    --------
    >>> import lambdaplug as lp
    >>> lp.data.sizes_of([7, 7, 3, 3, 3])
    array([2, 3])
    """
    values = np.asarray(ids)
    starts = np.flatnonzero(np.append(True, values[1:] != values[:-1])[: len(values)])
    return np.diff(np.append(starts, len(values)))


def one_a_query(values: npt.NDArray[Any], sizes: npt.NDArray[np.int64]) -> npt.NDArray[Any] | None:
    """Of values that are equal within every query, one for each (1 for a query without rows); None if they are not."""
    filled = sizes > 0
    each = np.ones(len(sizes), values.dtype)
    each[filled] = values[(np.cumsum(sizes) - sizes)[filled]]
    return each if np.array_equal(np.repeat(each, sizes), values) else None


def levels(columns: Sequence[npt.NDArray[np.float64]], offsets: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Number the distinct values (of several columns, the distinct combinations) of each query 0, 1, ... in order.

    The numbers are small whole ones, exact in float32, whatever the values were. NaN in any column stays NaN.
    """
    sizes = np.diff(offsets)
    query = np.repeat(np.arange(len(sizes)), sizes)
    order = np.lexsort((*columns, query))
    new = np.zeros(len(order), dtype=bool)
    for values in (*columns, query):
        new[1:] |= np.diff(values[order]) != 0
    count = np.cumsum(new)
    level = np.empty(len(order))
    level[order] = count - count[offsets[:-1][query]] if len(order) else count
    level[np.isnan(np.sum(columns, axis=0))] = np.nan
    return level


def differing(
    values: npt.NDArray[np.float64],
    offsets: npt.NDArray[np.int64],
    within: npt.NDArray[np.float64] | None = None,
) -> npt.NDArray[np.bool_]:
    """Which queries have two different values, in rows of the same ``within`` if given; NaN is left aside in both."""
    query = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    rows = np.flatnonzero(~np.isnan(values) if within is None else ~np.isnan(values + within))
    if within is not None:
        rows = rows[np.lexsort((within[rows], query[rows]))]
    # Neighbours with the same keys but other values; rows of the same keys are neighbours.
    differ = values[rows[1:]] != values[rows[:-1]]
    for key in [query] if within is None else [query, within]:
        differ &= key[rows[1:]] == key[rows[:-1]]
    found = np.zeros(len(offsets) - 1, dtype=bool)
    found[query[rows[1:]][differ]] = True
    return found
