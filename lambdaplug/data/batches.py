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

    Held at a time are one batch, a copy of it and of one query: the reader may fill its arrays anew. A query that comes
    back after another one is an error: its rows must stand together.

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
    waiting: Batch | None = None  # the last query
    finished: set[Any] = set()
    number = -1
    for batch in batches:  # enumerate would hold the batch before
        number += 1
        columns = tuple(np.asarray(column) for column in batch)
        del batch
        shapes = [column.shape for column in columns]
        if len(columns) < 2 or len(shapes[-1]) != 1 or any(shape[:1] != shapes[-1] for shape in shapes):
            raise LambdaplugError(
                f"batch {number}: expected arrays with one entry per row, the query ids last, such as (X, labels, qid); "
                f"got shapes {shapes}."
            )
        if waiting is not None:
            columns = tuple(np.concatenate(pieces) for pieces in zip(waiting, columns, strict=True))
        if not len(columns[-1]):
            continue
        ends = np.cumsum(sizes_of(columns[-1]))
        queries = columns[-1][ends - 1].tolist()
        for query in queries:
            if query in finished or query != query:
                raise LambdaplugError(
                    f"batch {number}: query {query} comes back after another one. The rows of a query must stand "
                    "together, in one batch or in consecutive ones: sort them by query (NaN is no query)."
                )
            finished.add(query)
        finished.discard(queries[-1])
        last = int(ends[-2]) if len(ends) > 1 else 0
        waiting = tuple(column[last:].copy() for column in columns)
        if last:
            yield tuple(column[:last] for column in columns)
        del columns
    if waiting is not None:
        yield waiting
