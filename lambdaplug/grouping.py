"""Which rows belong together: ``group=`` (sizes) or ``qid=`` (ids) as the number of rows of each query, in one place."""

import sys
from collections import Counter
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from .checking import as_numbers, on_host, shown
from .errors import LambdaplugError
from .rows import sizes_of

__all__ = ["AS_IDS", "Array", "group_sizes", "query_sizes", "vector"]

Array: TypeAlias = npt.NDArray[np.float64]
Sizes: TypeAlias = npt.NDArray[np.int64]

AS_IDS = "Sizes are np.unique(ids, return_counts=True)[1] for sorted ids; ids are passed as qid=."


def vector(values: npt.ArrayLike, name: str) -> Array:
    """One-dimensional contiguous float64; a view where possible."""
    array = np.asarray(as_numbers(values, name), dtype=np.float64)
    if array.ndim == 2 and (array.shape[1] == 1 or not array.size):  # a worker without rows may be given (0, 0)
        array = array.reshape(-1)
    if array.ndim != 1:
        raise LambdaplugError(f"{name}: expected one value each, got an array of shape {array.shape}.")
    return np.ascontiguousarray(array.view())  # a flag set on ours must not show on the caller's


def group_sizes(group: npt.ArrayLike | None, qid: npt.ArrayLike | None = None, rows: int | None = None) -> Sizes:
    """The number of documents of each query, from it or from one query id per row, checked; of so many rows if given.

    >>> group_sizes(None, qid=["b", "b", "a"]).tolist()
    [2, 1]
    """
    if qid is not None:
        if group is not None:
            raise LambdaplugError("group= and qid=: expected one of them, got both.")
        return query_sizes(qid, rows=rows)
    if group is None:
        raise LambdaplugError(
            "no queries: a ranking objective needs to know which rows belong together. Give the data set its group "
            "sizes: lgb.Dataset(X, y, group=sizes), xgb.DMatrix(X, y, qid=ids) or dtrain.set_group(sizes); a function of "
            "lambdaplug takes group= (the number of documents of each query) or qid= (one id per row)."
        )
    try:
        sizes = vector(group, "group")
    except LambdaplugError as error:
        raise LambdaplugError(f"{error} It is the number of documents of each query. {AS_IDS}") from None
    if sizes.size and not (np.isfinite(sizes).all() and (sizes >= 0).all() and (sizes == np.floor(sizes)).all()):
        raise LambdaplugError(f"group: expected the number of documents of each query (integers >= 0). {AS_IDS}")
    if rows is not None and sizes.sum() != rows:
        hint = f" It has one value per row: are these query ids? {AS_IDS}" if len(sizes) == rows else ""
        raise LambdaplugError(
            f"group: the sizes of {len(sizes)} queries add up to {int(sizes.sum())}, not to {rows} rows.{hint}"
        )
    return sizes.astype(np.int64)


def query_sizes(qid: Any, name: str = "qid", rows: int | None = None) -> Sizes:
    """The number of rows of each query, from an id per row (numbers or text), those of a query next to each other."""
    values = np.asarray(on_host(qid))
    values = values.reshape(-1) if values.ndim == 2 and values.shape[1] == 1 else values
    if values.ndim != 1:
        raise LambdaplugError(f"{name}: expected one query id per row, got {shown(qid)}.")
    if rows is not None and len(values) != rows:
        sums = values.dtype.kind in "iuf" and values.sum() == rows
        hint = " They add up to it: are these group sizes? Pass them as group=." if sums else ""
        raise LambdaplugError(f"{name}: expected one query id per row ({rows}), got {len(values)} values.{hint}")
    pandas = sys.modules.get("pandas")  # whose sign for a missing value equals nothing, not even in an if
    missing = np.any(values != values if pandas is None else pandas.isna(values))
    if missing or np.ma.is_masked(qid):
        raise LambdaplugError(f"{name}: some rows have no query id. Drop them, or give each a query of its own.")
    sizes = sizes_of(values)
    first = values[np.cumsum(sizes) - sizes]
    for query, places in Counter(first.tolist()).most_common(1):
        if places > 1:
            raise LambdaplugError(
                f"{name}: expected the rows of a query together; those of query {query!r} are in {places} places. Sort the "
                "rows by query id: order = np.argsort(qid, kind='stable'), then X[order], labels[order], qid[order]. For "
                "permutation_importance, which shuffles columns: scoring=lp.scorer(measure, qid=ids)."
            )
    return sizes
