"""Rows over the partitions of Dask collections, laid out so that no query is cut."""

import itertools
import numbers
from collections.abc import Sequence
from typing import Any, NamedTuple

import dask.array as da
import dask.dataframe as dd
import numpy as np
import numpy.typing as npt
import pandas as pd
import scipy.sparse
from dask import delayed

from ...errors import LambdaplugError
from ..leaves import sliceable, take

LAY_OUT = "Lay the data out first: dX, dy, dq = lp.dask.partition_by_query(X, y, qid)."


def is_dask(thing: Any) -> bool:
    return hasattr(thing, "__dask_graph__")


def values_of(part: Any) -> npt.NDArray[Any]:
    """A partition of one column, as a flat array."""
    return np.asarray(part).reshape(-1)


def ids_of(part: Any) -> npt.NDArray[Any]:
    """A partition of query ids, of which every row must have one."""
    ids = values_of(part)
    if pd.isna(ids).any():
        raise LambdaplugError("qid: some rows have none. Drop them, or give each a query of its own.")
    return ids


def join(parts: Sequence[Any]) -> Any:
    if len(parts) == 1:
        return parts[0]
    if hasattr(parts[0], "iloc"):
        return pd.concat(parts)
    return scipy.sparse.vstack(parts, format="csr") if scipy.sparse.issparse(parts[0]) else np.concatenate(parts)


def aligned(part: Any) -> Any:
    """The same where numbers begin at bounds of memory that XGBoost accepts: what was sent to a worker may not."""
    if isinstance(part, np.ndarray):
        return np.require(part, requirements="A")
    columns = part.items() if isinstance(part, pd.DataFrame) else ()
    return part if all(np.asarray(column).flags.aligned for _, column in columns) else part.copy()


def parts_of(collection: Any) -> list[Any]:
    """The partitions, each as something that Dask can compute, with all columns of their rows."""
    if isinstance(collection, da.Array) and collection.ndim == 2 and collection.numblocks[1] > 1:
        collection = collection.rechunk({1: -1})
    parts = collection.to_delayed()
    return list(parts.ravel() if isinstance(parts, np.ndarray) else parts)


def _fitting(part: Any, meta: Any) -> Any:
    """Columns of the types that were promised: older Dasks hold text as another type than they say."""
    if isinstance(meta, pd.Series):
        return _fitting(part.to_frame("one"), meta.to_frame("one"))["one"].rename(meta.name)
    kinds = {
        name: kind
        for (name, kind), found in zip(meta.dtypes.items(), part.dtypes, strict=True)
        if found != kind and not isinstance(kind, pd.CategoricalDtype)
    }
    return part.astype(kinds) if kinds else part


def _like(thing: Any, parts: Sequence[Any], rows: Sequence[int]) -> Any:
    """The partitions as a collection of this thing's kind; the thing is Dask's or not."""
    meta = thing._meta if is_dask(thing) else take(thing, slice(0))
    if hasattr(meta, "iloc"):  # unverified, .values fails
        return dd.from_delayed([delayed(_fitting)(part, meta) for part in parts], meta=meta)
    shapes = [(count, *thing.shape[1:]) for count in rows]
    return da.concatenate([da.from_delayed(part, shape, meta=meta) for part, shape in zip(parts, shapes, strict=True)])


def partition_by_query(X: Any, y: Any, qid: Any, *columns: Any, npartitions: int | None = None) -> tuple[Any, ...]:
    """(X, y, qid, *columns) as Dask collections whose partitions cut no query.

    Takes arrays and pandas frames, or Dask's, all of them or none, row by row alike; ``columns`` are further ones, such
    as weights and clicks. What was a frame comes back as a Dask dataframe or series, all else as Dask arrays. Rows are
    sorted by query id, and inside a query keep their order, wherever they were before. Partitions have about equal rows:
    at most 1/npartitions of all and one query more. There are at most ``npartitions``, and as many as X has unless said
    (4 of local data); fewer where queries are large.

    Of Dask collections the client sees each partition's ids and how many rows each has, no rows: those are sent from
    worker to worker, once, when the result is computed. Collections that are in order already are returned as they are,
    unless ``npartitions`` is given. The ids are computed here, and again with the rows: persist what takes long to compute.

    >>> X, y, qid = np.arange(10.0).reshape(5, 2), np.arange(5), [7, 3, 7, 3, 1]
    >>> dX, dy, dq = partition_by_query(X, y, qid, npartitions=2)
    >>> [part.tolist() for part in (dq.blocks[0].compute(), dq.blocks[1].compute())], dy.compute().tolist()
    ([[1, 3, 3], [7, 7]], [4, 1, 3, 0, 2])
    """
    integer = isinstance(npartitions, numbers.Real) and not isinstance(npartitions, bool) and npartitions % 1 == 0
    if npartitions is not None and not (integer and npartitions >= 1):
        raise LambdaplugError(f"npartitions: expected an integer >= 1, got {npartitions!r}.")
    things = [X, y, qid, *columns]
    spread = is_dask(X)
    if any(is_dask(thing) != spread for thing in things):
        raise LambdaplugError(
            "partition_by_query: expected Dask collections only, or none. Beside a Dask array X, a local y is "
            "da.from_array(y, chunks=X.chunks[0])."
        )
    things = _aligned(things) if spread else [sliceable(thing) for thing in things]
    several = [parts_of(thing) if spread else [thing] for thing in things]
    unit, counts = ("partitions", list(map(len, several))) if spread else ("rows", [one.shape[0] for one in things])
    for place, count in enumerate(counts):
        if count != counts[0]:
            name = ("X", "y", "qid")[place] if place < 3 else f"column {place - 2}"
            raise LambdaplugError(f"{name}: expected {counts[0]} {unit}, as X has, got {count}.")
    parts = list(zip(*several, strict=True))
    later = delayed if spread else lambda function, **_: function  # local data are laid out at once
    surveys: list[_Ids] = list(da.compute(*(later(_survey)(*part) for part in parts)))
    filled = [one for one in surveys if len(one.ids)]
    if not filled:
        raise LambdaplugError("partition_by_query: there are no rows.")
    for number, one in enumerate(surveys):
        if any(length != one.counts.sum() for length in one.lengths):
            raise LambdaplugError(
                f"partition {number}: qid has {one.counts.sum()} rows; X, y and the further columns {one.lengths}."
            )
    apart = all(a.ids[-1] < b.ids[0] for a, b in itertools.pairwise(filled))
    if spread and npartitions is None and apart and all(one.ordered for one in surveys):
        return tuple(things)
    ids, which = np.unique(np.concatenate([one.ids for one in filled]), return_inverse=True)
    sizes = np.bincount(which, np.concatenate([one.counts for one in filled])).astype(np.int64)
    results, rows = [], []
    for first, last in _cut(sizes, int(npartitions or (len(parts) if spread else 4))):
        low, high = ids[first], ids[last - 1]
        some = [part for part, one in zip(parts, surveys, strict=True) if ((one.ids >= low) & (one.ids <= high)).any()]
        results.append(later(_gathered, nout=len(things))([later(_piece)(low, high, *part) for part in some]))
        rows.append(int(sizes[first:last].sum()))
    return tuple(_like(thing, [delayed(one[i]) for one in results], rows) for i, thing in enumerate(things))


def _aligned(things: list[Any]) -> list[Any]:
    """Arrays of as many rows as X in chunks as it has."""
    X = things[0]
    chunks: tuple[Any, ...] = X.chunks[0] if isinstance(X, da.Array) else (np.nan,)
    if np.isnan(chunks).any():
        return things
    fits = [isinstance(thing, da.Array) and thing.shape[0] == X.shape[0] for thing in things]
    return [thing.rechunk({0: chunks}) if fit else thing for thing, fit in zip(things, fits, strict=True)]


class _Ids(NamedTuple):
    """A partition's query ids."""

    ids: npt.NDArray[Any]  # sorted
    counts: npt.NDArray[np.int64]
    ordered: bool
    lengths: list[int]  # of all else


def _survey(X: Any, y: Any, qid: Any, *columns: Any) -> _Ids:
    values = ids_of(qid)
    ids, counts = np.unique(values, return_counts=True)
    ordered = bool((values[1:] >= values[:-1]).all())
    return _Ids(ids, counts, ordered, [thing.shape[0] for thing in (X, y, *columns)])


def _cut(sizes: npt.NDArray[np.int64], npartitions: int) -> list[tuple[int, int]]:
    """Runs of queries (first, last + 1) of about equal rows: the bounds of queries nearest to equal shares."""
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    shares = offsets[-1] * np.arange(1, npartitions) / npartitions
    after = np.searchsorted(offsets, shares)
    nearest = np.where(shares - offsets[after - 1] <= offsets[after] - shares, after - 1, after)
    return list(itertools.pairwise(np.unique([0, *nearest.tolist(), len(sizes)]).tolist()))


def _piece(first: Any, last: Any, *things: Any) -> list[Any]:
    """The rows of these queries."""
    ids = values_of(things[2])
    rows = np.flatnonzero((ids >= first) & (ids <= last))
    return [take(thing, rows) for thing in things]


def _gathered(pieces: list[list[Any]]) -> list[Any]:
    things = [join(parts) for parts in zip(*pieces, strict=True)]
    order = np.argsort(values_of(things[2]), kind="stable")
    return [take(thing, order) for thing in things]
