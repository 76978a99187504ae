"""Rows over the partitions of Dask collections, laid out so that no query is cut."""

import itertools
import numbers
import uuid
from collections.abc import Sequence
from typing import Any, NamedTuple

import dask.array as da
import dask.dataframe as dd
import numpy as np
import numpy.typing as npt
import pandas as pd
import scipy.sparse
from dask import delayed
from dask.highlevelgraph import HighLevelGraph

from ...errors import LambdaplugError
from ...rows import sizes_of

LAY_OUT = "Lay the data out first: dX, dy, dq = lp.dask.partition_by_query(X, y, qid)."


def is_dask(thing: Any) -> bool:
    return hasattr(thing, "__dask_graph__")


def values_of(part: Any) -> npt.NDArray[Any]:
    """A partition of one column, as a flat array."""
    return np.asarray(part).reshape(-1)


def take(part: Any, rows: Any) -> Any:
    return part.iloc[rows] if hasattr(part, "iloc") else part[rows]


def join(parts: Sequence[Any]) -> Any:
    if len(parts) == 1:
        return parts[0]
    if hasattr(parts[0], "iloc"):
        return pd.concat(parts)
    return scipy.sparse.vstack(parts, format="csr") if scipy.sparse.issparse(parts[0]) else np.concatenate(parts)


def whole_rows(collection: Any) -> Any:
    """The same with all columns of a row in one partition."""
    if isinstance(collection, da.Array) and collection.ndim == 2 and collection.numblocks[1] > 1:
        return collection.rechunk({1: -1})
    return collection


def parts_of(collection: Any) -> list[Any]:
    """The partitions, each as something that Dask can compute."""
    parts = whole_rows(collection).to_delayed()
    return list(parts.ravel() if isinstance(parts, np.ndarray) else parts)


def _itself(part: Any) -> Any:
    return part


def array_of(parts: Sequence[Any], rows: Sequence[int], rest: tuple[int, ...], meta: npt.NDArray[Any]) -> da.Array:
    """The partitions as a Dask array of shape (rows, *rest). Those without rows stay, unlike in da.concatenate."""
    parts = [delayed(_itself)(part) for part in parts]  # no Dask takes a key that is a plain word for data
    name = f"lambdaplug-{uuid.uuid4().hex}"
    blocks = {(name, number, *(0 for _ in rest)): part.key for number, part in enumerate(parts)}
    graph = HighLevelGraph.from_collections(name, blocks, dependencies=parts)
    return da.Array(graph, name, (tuple(rows), *((size,) for size in rest)), meta=meta)


def _fitting(part: Any, meta: Any) -> Any:
    """Columns of the types that were promised: older Dasks hold text as another type than they say."""
    if isinstance(meta, pd.Series):
        other = part.dtype != meta.dtype and not isinstance(meta.dtype, pd.CategoricalDtype)
        return part.astype(meta.dtype) if other else part
    kinds = {
        name: kind
        for (name, kind), found in zip(meta.dtypes.items(), part.dtypes, strict=True)
        if found != kind and not isinstance(kind, pd.CategoricalDtype)
    }
    return part.astype(kinds) if kinds else part


def frame_of(parts: Sequence[Any], meta: Any) -> Any:
    return dd.from_delayed([delayed(_fitting)(part, meta) for part in parts], meta=meta)  # unverified, .values fails


def like(thing: Any, parts: Sequence[Any], rows: Sequence[int]) -> Any:
    """The partitions as a collection of this thing's kind; the thing is Dask's or not."""
    meta = getattr(thing, "_meta", None)
    if meta is None:
        meta = take(thing, slice(0))
    return frame_of(parts, meta) if hasattr(meta, "iloc") else array_of(parts, rows, thing.shape[1:], meta)


# --- laying out ----------------------------------------------------------------------------------------------------


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
    if all(is_dask(thing) for thing in things):
        return _moved(_aligned(things), npartitions)
    if any(is_dask(thing) for thing in things):
        raise LambdaplugError(
            "partition_by_query: expected Dask collections only, or none. Beside a Dask array X, a local y is "
            "da.from_array(y, chunks=X.chunks[0])."
        )
    return _placed([_local(thing) for thing in things], 4 if npartitions is None else int(npartitions))


def _local(thing: Any) -> Any:
    if scipy.sparse.issparse(thing):
        return thing.tocsr()  # not every kind can be sliced by rows
    return thing if hasattr(thing, "iloc") else np.asarray(thing)


def _name(place: int) -> str:
    return ("X", "y", "qid")[place] if place < 3 else f"column {place - 2}"


def with_ids(ids: npt.NDArray[Any]) -> npt.NDArray[Any]:
    if pd.isna(ids).any():
        raise LambdaplugError("qid: some rows have none. Drop them, or give each a query of its own.")
    return ids


def _cut(sizes: npt.NDArray[np.int64], npartitions: int) -> list[tuple[int, int]]:
    """Runs of queries (first, last + 1) of about equal rows: the bounds of queries nearest to equal shares."""
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    shares = offsets[-1] * np.arange(1, npartitions) / npartitions
    after = np.searchsorted(offsets, shares)
    nearest = np.where(shares - offsets[after - 1] <= offsets[after] - shares, after - 1, after)
    bounds = np.unique(np.concatenate([[0], nearest, [len(sizes)]]))
    return list(zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True))


def _placed(things: list[Any], npartitions: int) -> tuple[Any, ...]:
    rows = things[0].shape[0]
    for place, thing in enumerate(things):
        if thing.shape[0] != rows:
            raise LambdaplugError(f"{_name(place)}: expected {rows} rows, as X has, got {thing.shape[0]}.")
    if not rows:
        raise LambdaplugError("partition_by_query: there are no rows.")
    ids = with_ids(values_of(things[2]))
    order = np.argsort(ids, kind="stable")
    sizes = sizes_of(ids[order])
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    pieces = [order[offsets[first] : offsets[last]] for first, last in _cut(sizes, npartitions)]
    counts = [len(piece) for piece in pieces]
    return tuple(like(thing, [delayed(take(thing, piece)) for piece in pieces], counts) for thing in things)


def _aligned(things: list[Any]) -> list[Any]:
    X = things[0]
    chunks: tuple[Any, ...] = X.chunks[0] if isinstance(X, da.Array) else (np.nan,)
    if not np.isnan(chunks).any():
        things = [
            thing.rechunk({0: chunks}) if isinstance(thing, da.Array) and thing.shape[0] == X.shape[0] else thing
            for thing in things
        ]
    for place, thing in enumerate(things):
        if len(parts_of(thing)) != len(parts_of(X)):
            raise LambdaplugError(
                f"{_name(place)}: expected {len(parts_of(X))} partitions, as X has, got {len(parts_of(thing))}."
            )
    return things


class _Ids(NamedTuple):
    """A partition's query ids."""

    ids: npt.NDArray[Any]  # sorted
    counts: npt.NDArray[np.int64]
    ordered: bool
    lengths: list[int]


def _survey(qid: Any, *things: Any) -> _Ids:
    values = with_ids(values_of(qid))
    ids, counts = np.unique(values, return_counts=True)
    return _Ids(ids, counts, bool((values[1:] >= values[:-1]).all()), [thing.shape[0] for thing in things])


def _pieces(things: list[Any], first: Any, last: Any) -> list[Any]:
    ids = values_of(things[2])
    rows = np.flatnonzero((ids >= first) & (ids <= last))
    return [take(thing, rows) for thing in things]


def _gathered(pieces: list[list[Any]]) -> list[Any]:
    things = [join(parts) for parts in zip(*pieces, strict=True)]
    order = np.argsort(values_of(things[2]), kind="stable")
    return [take(thing, order) for thing in things]


def _moved(things: list[Any], npartitions: int | None) -> tuple[Any, ...]:
    parts = list(zip(*(parts_of(thing) for thing in things), strict=True))
    surveys: list[_Ids] = list(da.compute(*(delayed(_survey)(part[2], *part[:2], *part[3:]) for part in parts)))
    filled = [one for one in surveys if len(one.ids)]
    if not filled:
        raise LambdaplugError("partition_by_query: there are no rows.")
    for number, one in enumerate(surveys):
        if any(length != one.counts.sum() for length in one.lengths):
            raise LambdaplugError(
                f"partition {number}: qid has {one.counts.sum()} rows; X, y and the further columns {one.lengths}."
            )
    apart = all(a.ids[-1] < b.ids[0] for a, b in itertools.pairwise(filled))
    if npartitions is None and apart and all(one.ordered for one in surveys):
        return tuple(things)
    ids, which = np.unique(np.concatenate([one.ids for one in filled]), return_inverse=True)
    sizes = np.bincount(which, np.concatenate([one.counts for one in filled])).astype(np.int64)
    results, counts = [], []
    for first, last in _cut(sizes, npartitions or len(parts)):
        low, high = ids[first], ids[last - 1]
        pieces = [
            delayed(_pieces)(list(part), low, high)
            for part, one in zip(parts, surveys, strict=True)
            if ((one.ids >= low) & (one.ids <= high)).any()
        ]
        results.append(delayed(_gathered, nout=len(things))(pieces))
        counts.append(int(sizes[first:last].sum()))
    return tuple(like(thing, [result[place] for result in results], counts) for place, thing in enumerate(things))
