"""Generated ranking data with a known truth."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..errors import LambdaplugError

__all__ = ["LABEL_SHARES", "RankingData", "cubic"]

LABEL_SHARES = (0.55, 0.25, 0.13, 0.05, 0.02)  # labels 0..4 as judged web results have them: most are bad


class RankingData(NamedTuple):
    """Rows in queries: features, labels, and the number of documents of each query."""

    X: npt.NDArray[np.float32]
    labels: npt.NDArray[np.float32]
    group: npt.NDArray[np.int64]

    @property
    def qid(self) -> npt.NDArray[np.int64]:
        """The query of each row, 0, 1, ..."""
        return np.repeat(np.arange(len(self.group)), self.group)

    def split(self, *shares: float) -> list["RankingData"]:
        """Consecutive parts with these shares of the queries; the last takes what is left."""
        edges = np.round(np.cumsum([0.0, *shares[:-1]]) / sum(shares) * len(self.group)).astype(int).tolist()
        rows = np.concatenate([[0], np.cumsum(self.group)])
        parts = []
        for first, last in zip(edges, [*edges[1:], len(self.group)], strict=True):
            cut = slice(rows[first], rows[last])
            parts.append(RankingData(self.X[cut], self.labels[cut], self.group[first:last]))
        return parts


def cubic(
    queries: int, documents: int = 50, features: int = 50, terms: int = 60, noise: float = 0.0, seed: int = 0
) -> RankingData:
    """Labels 0..4 from a random cubic polynomial of normal features, plus noise (in standard deviations).

    The polynomial has ``terms`` random monomials of degree 1, 2 or 3; its values are cut into labels at the quantiles
    ``LABEL_SHARES``. The same seed gives the same numbers everywhere.

    >>> data = cubic(queries=3, documents=4)
    >>> data.X.shape, data.group.tolist()
    ((12, 50), [4, 4, 4])
    """
    for name, count in (("queries", queries), ("documents", documents), ("features", features), ("terms", terms)):
        if count < 1:
            raise LambdaplugError(f"cubic: {name} must be a whole number from 1 on, got {count!r}.")
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(queries * documents, features)).astype(np.float32)
    value = np.zeros(len(X))
    for _ in range(terms):
        monomial = np.full(len(X), rng.uniform(-1, 1))
        for feature in rng.integers(0, features, size=rng.integers(1, 4)):
            monomial *= X[:, feature]
        value += monomial
    value += noise * value.std() * rng.normal(size=len(X))
    edges = np.quantile(value, np.cumsum(LABEL_SHARES)[:-1])
    return RankingData(X, np.digitize(value, edges).astype(np.float32), np.full(queries, documents, dtype=np.int64))
