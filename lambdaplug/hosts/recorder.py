"""Diagnostics over the rounds of a live training: a callback for both hosts."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import numpy.typing as npt

from ..analysis import Curves, Diagnostic, Moment
from ..checking import integer
from ..documenting import documented
from ..errors import LambdaplugError
from ..objectives.pareto import reported
from ..queries import Array, Queries
from .following import Follower, host_of

__all__ = ["Recorder", "record"]


class Recorder(Follower):
    """See :func:`record`."""

    order = 100

    def __init__(self, X: Any, queries: Queries, diagnostics: tuple[Diagnostic, ...], every: int) -> None:
        super().__init__()
        self.X = X
        self.queries = queries
        self.diagnostics = diagnostics
        self.every = every
        self._iterations: list[int] = []
        self._units: dict[str, str] = {}
        self._rows: list[dict[str, float]] = []
        self._before: Array | None = None
        self._matrix: Any = None

    @property
    def curves(self) -> Curves:
        """What was recorded so far: arrays by name, with a plot."""
        return Curves(self._iterations, self._rows, units=self._units)

    def plot(self, ax: Any = None, names: str | None = None) -> Any:
        """``curves.plot``."""
        return self.curves.plot(ax, names)

    def follow(self, model: Any, iteration: int, evals_log: Any = None) -> None:
        rounds = iteration + 1
        if rounds % self.every == 0:
            scores = np.asarray(self._predict(model, evals_log is not None), dtype=np.float64)
            moment = Moment(self.queries, scores, self._before, rounds)
            host = host_of(model)
            row = reported(host.training(next(iter(host.boosters(model)))).moment)
            self._units |= {name: name.split()[0] for name in row}  # weights and measures
            for ask in self.diagnostics:
                found = ask(moment)
                row |= found
                self._units |= dict.fromkeys(found, ask.unit)
            self._rows.append(row)
            self._iterations.append(rounds)
            self._before = scores

    def _predict(self, model: Any, matrix: bool) -> npt.ArrayLike:
        if not matrix:
            return model.predict(self.X, num_iteration=-1, raw_score=True)  # type: ignore[no-any-return]
        if self._matrix is None:
            self._matrix = importlib.import_module("xgboost").DMatrix(self.X)
        return model.predict(self._matrix, output_margin=True)  # type: ignore[no-any-return]


@documented
def record(
    X: Any,
    labels: npt.ArrayLike,
    group: Any = None,
    *diagnostics: Diagnostic,
    every: int = 1,
    qid: npt.ArrayLike | None = None,
) -> Recorder:
    """``callbacks=[recorder]`` in ``lgb.train`` or ``xgb.train``: asks diagnostics of the model as it grows.

    Every so many rounds the model predicts these rows. The weights of an ``lp.Pareto`` are recorded too.

    Parameters
    ----------
    X : array-like or data frame
        The rows to look at, usually the training data.
    {labels} {group} {qid}
    *diagnostics : Diagnostic
        Of ``lp.analysis``: ``TopLabels``, ``RankChanges``, ``ForceByLabel``, ``Agreement``, ``EffectivePairs``, ``Measured``.
    every : int
        Ask after each so many rounds.

    Returns
    -------
    Recorder
        Afterwards ``recorder.curves`` has an array for each name, one value per recorded round; ``recorder.plot()`` draws them
        over the iteration.

    Examples
    --------
    >>> import lightgbm as lgb
    >>> import lambdaplug as lp
    >>> data = lp.data.cubic(queries=20, documents=8, features=5)
    >>> recorder = lp.analysis.record(*data, lp.analysis.TopLabels(3), every=2)
    >>> params = {"objective": lp.LambdaRank("ndcg"), "verbose": -1, "num_threads": 1}
    >>> booster = lgb.train(params, lgb.Dataset(data.X, data.labels, group=data.group), 4, callbacks=[recorder])
    >>> recorder.curves.iterations
    array([2, 4])
    """
    if isinstance(group, Diagnostic):
        group, diagnostics = None, (group, *diagnostics)
    if not diagnostics or not all(isinstance(diagnostic, Diagnostic) for diagnostic in diagnostics):
        raise LambdaplugError("record: name at least one diagnostic, e.g. lp.analysis.TopLabels(3).")
    return Recorder(X, Queries(labels, group, qid=qid), diagnostics, integer(every, "record: every"))
