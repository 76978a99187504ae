"""Generated ranking data with a known truth."""

import math

import numpy as np

from ..checking import integer
from .ranking import RankingData

__all__ = ["LABEL_SHARES", "cubic"]

LABEL_SHARES = (0.55, 0.25, 0.13, 0.05, 0.02)  # labels 0..4 as judged web results have them: most are bad


def cubic(
    queries: int, documents: int = 50, features: int = 50, terms: int = 60, noise: float = 0.0, seed: int = 0
) -> RankingData:
    """Labels 0..4 from a random cubic polynomial of normal features, plus noise.

    The values of the polynomial are cut into labels at the quantiles ``LABEL_SHARES``. The same seed gives the same numbers
    everywhere.

    Parameters
    ----------
    queries, documents : int
        How many queries, and documents of each.
    features : int
        Columns.
    terms : int
        Random monomials of degree 1, 2 or 3.
    noise : float
        In standard deviations of the polynomial.
    seed : int
        Of everything.

    Returns
    -------
    RankingData
        ``X, labels, group``, with ``.split(...)``.

    References
    ----------
    P. Donmez, K. Svore, C. Burges (2009), "On the local optimality of LambdaRank", SIGIR, section 7.

    Examples
    --------
    >>> data = cubic(queries=3, documents=4)
    >>> data.X.shape, data.group.tolist()
    ((12, 50), [4, 4, 4])
    """
    for name, count in (("queries", queries), ("documents", documents), ("features", features), ("terms", terms)):
        integer(count, f"cubic: {name}")
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(queries * documents, features)).astype(np.float32)
    value = np.zeros(len(X))
    for _ in range(terms):
        monomial = np.full(len(X), rng.uniform(-1, 1))
        for feature in rng.integers(0, features, size=rng.integers(1, 4)):
            monomial *= X[:, feature]
        value += monomial
    # Exactly rounded sums and labels by rank: no order of additions, no interpolated quantile decides a label.
    mean = math.fsum(value.tolist()) / len(value)
    spread = math.sqrt(math.fsum(((value - mean) ** 2).tolist()) / len(value))
    value += noise * spread * rng.normal(size=len(X))
    rank = np.empty(len(X), dtype=np.int64)
    rank[np.argsort(value, kind="stable")] = np.arange(len(X))
    below = [math.ceil(share * (len(X) - 1)) for share in np.cumsum(LABEL_SHARES)[:-1].tolist()]
    labels = np.searchsorted(below, rank, side="right").astype(np.float32)
    return RankingData(X, labels, np.full(queries, documents, dtype=np.int64))
