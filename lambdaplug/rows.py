"""The geometry of rows in queries: plain functions of offsets, ``offsets[q]:offsets[q + 1]`` being query q's rows."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["differing", "levels", "one_a_query", "row_order", "sizes_of"]


def row_order(offsets: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
    """For each query 0, 1, ..., n-1: the ranking by row."""
    rows = np.arange(offsets[-1], dtype=np.int32)
    return rows - np.repeat(offsets[:-1], np.diff(offsets)).astype(np.int32)


def sizes_of(ids: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """The lengths of the runs of equal ids: group sizes from query ids."""
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
    keys = [query] if within is None else [query, within]
    kept = ~np.isnan(values) if within is None else ~(np.isnan(values) | np.isnan(within))
    rows = np.flatnonzero(kept)
    if within is not None:
        rows = rows[np.lexsort((within[rows], query[rows]))]
    values, keys = values[rows], [key[rows] for key in keys]
    # Neighbours with the same keys but other values; rows of the same keys are neighbours.
    differ = values[1:] != values[:-1]
    for key in keys:
        differ &= key[1:] == key[:-1]
    found = np.zeros(len(offsets) - 1, dtype=bool)
    found[keys[0][1:][differ]] = True
    return found
