"""The scores of a live training, round by round: a callback for both hosts."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ..checking import integer
from ..hosts.base import prepared, raw_scores
from ..hosts.callback import Follower
from ..queries import Array

__all__ = ["Recorder", "record"]


class Recorder(Follower):
    """See :func:`record`."""

    order = 100
    local = True

    def __init__(self, X: Any, every: int) -> None:
        super().__init__()
        self.X = X
        self.every = every
        self._iterations: list[int] = []
        self._scores: list[Array] = []

    @property
    def iterations(self) -> npt.NDArray[np.int64]:
        """The numbers of the rounds recorded so far."""
        return np.array(self._iterations, dtype=np.int64)

    @property
    def scores(self) -> Array:
        """What the model gave the rows: [round, row]."""
        return np.array(self._scores)

    def follow(self, model: Any, iteration: int, evals_log: Any = None) -> None:
        rounds = iteration + 1
        if rounds % self.every == 0:
            self._iterations.append(rounds)
            self.X = prepared(model, self.X)
            self._scores.append(np.asarray(raw_scores(model, self.X, -1), dtype=np.float64))


def record(X: Any, *, every: int = 1) -> Recorder:
    """``callbacks=[recorder]`` in ``lgb.train`` or ``xgb.train``: keeps the scores of these rows as the model grows.

    Every so many rounds the model predicts the rows, and 8 bytes are kept for each. The diagnostics of ``lp.analysis`` take
    the scores of several rounds.

    Parameters
    ----------
    X : array-like or data frame
        The rows to look at, usually the training data.
    every : int
        Record after each so many rounds.

    Returns
    -------
    Recorder
        Afterwards ``recorder.scores`` is an array [round, row], and ``recorder.iterations`` the numbers of the rounds.

    Examples
    --------
    >>> import lightgbm as lgb
    >>> import lambdaplug as lp
    >>> data = lp.data.cubic(queries=20, documents=8, features=5)
    >>> recorder = lp.analysis.record(data.X, every=2)
    >>> params = {"objective": lp.LambdaRank("ndcg"), "verbose": -1, "num_threads": 1}
    >>> booster = lgb.train(params, lgb.Dataset(data.X, data.labels, group=data.group), 4, callbacks=[recorder])
    >>> shares = lp.analysis.top_labels(data.labels, recorder.scores, data.group, iterations=recorder.iterations)
    >>> shares.iterations
    array([2, 4])
    """
    return Recorder(X, integer(every, "record: every"))
