"""Diagnostics over the rounds of a live training: a callback for both hosts."""

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from ..analysis import Curves, Diagnostic, Moment
from ..errors import LambdaplugError
from ..queries import Array, Queries
from .calling import call_after_rounds, introduce

__all__ = ["Recorder", "record"]


class Recorder:
    """See :func:`record`."""

    def __init__(self, X: Any, queries: Queries, diagnostics: tuple[Diagnostic, ...], every: int) -> None:
        self.X = X
        self.queries = queries
        self.diagnostics = diagnostics
        self.every = every
        self._looks_afterwards = False
        self.order = 100  # LightGBM wants an attribute of the instance
        self._iterations: list[int] = []
        self._rows: list[dict[str, float]] = []
        self._before: Array | None = None
        self._matrix: Any = None
        introduce(Recorder)

    @property
    def curves(self) -> Curves:
        """What was recorded so far: arrays by name, with a plot."""
        return Curves(self._iterations, self._rows)

    def plot(self, ax: Any = None, names: str | None = None) -> Any:
        """``curves.plot``."""
        return self.curves.plot(ax, names)

    def _record(self, rounds: int, predict: Callable[[], npt.ArrayLike]) -> None:
        if rounds % self.every == 0:
            scores = np.asarray(predict(), dtype=np.float64)
            moment = Moment(self.queries, scores, self._before, rounds)
            self._rows.append({name: value for ask in self.diagnostics for name, value in ask(moment).items()})
            self._iterations.append(rounds)
            self._before = scores

    # LightGBM calls the object before each round; what it sees is the model of the rounds before.

    def __call__(self, env: Any) -> None:
        if env.iteration == env.begin_iteration:
            self._looks_afterwards = call_after_rounds(self._look)
        elif not self._looks_afterwards:  # a loop of one's own
            self._look(env.model, env.iteration - 1)

    def _look(self, model: Any, iteration: int) -> None:
        self._record(iteration + 1, lambda: model.predict(self.X, num_iteration=-1, raw_score=True))

    # XGBoost.

    def before_training(self, model: Any) -> Any:
        return model

    def after_training(self, model: Any) -> Any:
        return model

    def before_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:  # noqa: ARG002
        return False

    def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:  # noqa: ARG002
        if self._matrix is None:
            self._matrix = importlib.import_module("xgboost").DMatrix(self.X)
        self._record(model.num_boosted_rounds(), lambda: model.predict(self._matrix, output_margin=True))
        return False


def record(X: Any, labels: npt.ArrayLike, group: npt.ArrayLike, *diagnostics: Diagnostic, every: int = 1) -> Recorder:
    """``callbacks=[recorder]`` in ``lgb.train`` or ``xgb.train``: asks diagnostics of the model as it grows.

    ``X``, ``labels`` and ``group`` are the rows to look at, usually the training data; every so many rounds the model
    predicts them. Afterwards ``recorder.curves`` has an array for each name, one value a recorded round, and a plot.

        recorder = lp.record(X, y, group, lp.analysis.TopLabels(3), lp.analysis.RankChanges(3), every=10)
    """
    if not diagnostics or not all(isinstance(diagnostic, Diagnostic) for diagnostic in diagnostics):
        raise LambdaplugError("record: name at least one diagnostic, e.g. lp.analysis.TopLabels(3).")
    if every < 1:
        raise LambdaplugError(f"record: every must be from 1 on, got {every!r}.")
    return Recorder(X, Queries(labels, group), diagnostics, every)
