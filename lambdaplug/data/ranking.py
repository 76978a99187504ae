"""Rows in queries, as every loader and generator returns them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["RankingData"]


@dataclass(frozen=True, eq=False)
class RankingData:
    """Rows in queries: features, labels, and the number of documents of each query; unpacks into these three.

    Attributes
    ----------
    X : array of float32
        One row per document.
    labels : array of float32
        One per row.
    group : array of int
        The number of documents of each query, in order.
    query_ids : array or None
        The queries' names in the file they came from, numbers or text, one per query; None for generated data.

    Examples
    --------
    >>> import lambdaplug as lp
    >>> data = lp.data.cubic(queries=4, documents=3, features=2)
    >>> X, labels, group = data
    >>> [len(part.group) for part in data.split(0.5, 0.5)]
    [2, 2]
    """

    X: npt.NDArray[np.float32]
    labels: npt.NDArray[np.float32]
    group: npt.NDArray[np.int64]
    query_ids: npt.NDArray[Any] | None = None

    def __iter__(self) -> Iterator[npt.NDArray[np.generic]]:
        return iter((self.X, self.labels, self.group))

    def __repr__(self) -> str:
        return f"<RankingData: {len(self.labels)} rows, {len(self.group)} queries, {self.X.shape[1]} features>"

    @property
    def qid(self) -> npt.NDArray[np.int64]:
        """The query of each row, 0, 1, ...: rising, as XGBoost wants it."""
        return np.repeat(np.arange(len(self.group)), self.group)

    def split(self, *shares: float) -> list["RankingData"]:
        """Consecutive parts with these shares of the queries; the last takes what is left."""
        edges = np.round(np.cumsum([0.0, *shares[:-1]]) / sum(shares) * len(self.group)).astype(int).tolist()
        rows = np.concatenate([[0], np.cumsum(self.group)])
        parts = []
        for first, last in zip(edges, [*edges[1:], len(self.group)], strict=True):
            cut = slice(rows[first], rows[last])
            ids = None if self.query_ids is None else self.query_ids[first:last]
            parts.append(RankingData(self.X[cut], self.labels[cut], self.group[first:last], ids))
        return parts
