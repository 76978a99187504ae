"""Batches of rows whose boundaries cut no query, for data that does not fit into memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from ..errors import LambdaplugError
from ..rows import sizes_of

__all__ = ["whole_queries"]

Batch: TypeAlias = tuple[npt.NDArray[Any], ...]


def whole_queries(batches: Iterable[Sequence[npt.ArrayLike]]) -> Iterator[Batch]:
    """The same rows in batches that cut no query: a batch's last query waits for the next batch, where it may go on.

    Held at a time are one batch, a copy of it where a query was joined to it, and one query, copied too: the reader may fill
    its arrays anew. A query that comes back after another one is an error: its rows must stand together.

    Parameters
    ----------
    batches : iterable of tuples of arrays
        Arrays with one entry per row, the last of them the query ids: ``(X, labels, qid)``.

    Returns
    -------
    iterator of tuples of arrays
        As they came.

    Examples
    --------
    >>> read = [([5, 6, 7], [1, 1, 2]), ([8, 9], [2, 3])]  # one column and the query ids; query 2 is cut in two
    >>> [(values.tolist(), ids.tolist()) for values, ids in whole_queries(read)]
    [([5, 6], [1, 1]), ([7, 8], [2, 2]), ([9], [3])]
    """
    waiting: list[Batch] = []  # the pieces of the last query
    finished: set[Any] = set()
    number = -1
    for batch in batches:  # enumerate would hold the batch before
        number += 1
        columns = tuple(np.asarray(column) for column in batch)
        del batch
        rows = {column.shape[0] if column.ndim else -1 for column in columns}
        if len(columns) < 2 or len(rows) > 1 or -1 in rows:
            raise LambdaplugError(
                f"batch {number}: expected arrays with one entry per row, the query ids last, such as (X, labels, qid); "
                f"got shapes {[column.shape for column in columns]}."
            )
        ids = columns[-1]
        if ids.ndim != 1:
            raise LambdaplugError(f"batch {number}: expected one query id per row, got ids of shape {ids.shape}.")
        if (ids != ids).any():
            raise LambdaplugError(
                f"batch {number}: some query ids are NaN. Drop those rows, or give each a query of its own."
            )
        if not len(ids):
            continue
        ends = np.cumsum(sizes_of(ids))
        another = bool(waiting) and waiting[-1][-1][0] != ids[0]
        if another:
            finished.add(waiting[-1][-1][0].item())
        for query in ids[ends - 1].tolist():
            if query in finished:
                raise LambdaplugError(
                    f"batch {number}: query {query} comes back after another one. The rows of a query must stand "
                    "together, in one batch or in consecutive ones: sort them by query."
                )
            finished.add(query)
        finished.discard(ids[-1].item())
        last = int(ends[-2]) if len(ends) > 1 else 0
        kept = tuple(column[last:].copy() for column in columns)
        if last:
            waiting.append(tuple(column[:last] for column in columns))
        del columns, ids
        if last or another:
            yield _joined(waiting)
            waiting = []
        waiting.append(kept)
    if waiting:
        yield _joined(waiting)


def _joined(pieces: list[Batch]) -> Batch:
    if len(pieces) == 1:
        return pieces[0]
    return tuple(np.concatenate(columns) for columns in zip(*pieces, strict=True))
