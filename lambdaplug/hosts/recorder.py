"""Diagnostics over the rounds of a live training: a callback for both hosts."""

import importlib
from typing import Any

import numpy as np
import numpy.typing as npt

from ..analysis.lambdas import Diagnostic, Moment
from ..errors import LambdaplugError
from ..queries import Array, Queries
from .calling import introduce

__all__ = ["Recorder", "record"]


class Recorder:
    """See :func:`record`."""

    def __init__(self, X: Any, queries: Queries, diagnostics: tuple[Diagnostic, ...], every: int) -> None:
        self.X = X
        self.queries = queries
        self.diagnostics = diagnostics
        self.every = every
        self.order = 100  # LightGBM wants an attribute of the instance
        self.iterations: list[int] = []
        self._values: list[dict[str, float]] = []
        self._before: Array | None = None
        self._matrix: Any = None
        introduce(Recorder)

    @property
    def values(self) -> dict[str, Array]:
        """One array for each name, one value for each recorded round; NaN where a round had none."""
        names = list(dict.fromkeys(name for row in self._values for name in row))
        return {name: np.array([row.get(name, np.nan) for row in self._values]) for name in names}

    def _record(self, iteration: int, scores: npt.ArrayLike) -> None:
        values = np.asarray(scores, dtype=np.float64)
        moment = Moment(values, self._before, self.queries.labels, self.queries.sizes, iteration)
        self._values.append({name: value for ask in self.diagnostics for name, value in ask(moment).items()})
        self.iterations.append(iteration)
        self._before = values

    # LightGBM calls the object before an iteration: what it sees is the model of the rounds before.

    def __call__(self, env: Any) -> None:
        if env.iteration > 0 and env.iteration % self.every == 0:
            self._record(env.iteration, env.model.predict(self.X, num_iteration=-1, raw_score=True))

    # XGBoost.

    def before_training(self, model: Any) -> Any:
        return model

    def after_training(self, model: Any) -> Any:
        return model

    def before_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:  # noqa: ARG002
        rounds = model.num_boosted_rounds()
        if rounds > 0 and rounds % self.every == 0:
            if self._matrix is None:
                self._matrix = importlib.import_module("xgboost").DMatrix(self.X)
            self._record(rounds, model.predict(self._matrix, output_margin=True))
        return False

    def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:  # noqa: ARG002
        return False

    def plot(self, ax: Any = None, names: str | None = None) -> Any:
        """Everything recorded (or what begins with ``names``) over the rounds; returns Matplotlib's axes."""
        if ax is None:
            ax = importlib.import_module("matplotlib.pyplot").subplots()[1]
        for name, values in self.values.items():
            if names is None or name.startswith(names):
                ax.plot(self.iterations, values, label=name)
        ax.set_xlabel("round")
        ax.legend(fontsize="small")
        return ax


def record(X: Any, labels: npt.ArrayLike, group: npt.ArrayLike, *diagnostics: Diagnostic, every: int = 1) -> Recorder:
    """``callbacks=[recorder]`` in ``lgb.train`` or ``xgb.train``: asks diagnostics of the model as it grows.

    ``X``, ``labels`` and ``group`` are the rows to look at, usually the training data; every so many rounds the model
    predicts them. Afterwards ``recorder.iterations``, ``recorder.values`` (arrays by name) and ``recorder.plot()``.

        recorder = lp.record(X, y, group, lp.analysis.TopLabels(3), lp.analysis.RankChanges(3), every=10)
    """
    if not diagnostics or not all(isinstance(diagnostic, Diagnostic) for diagnostic in diagnostics):
        raise LambdaplugError("record: name at least one diagnostic, e.g. lp.analysis.TopLabels(3).")
    if every < 1:
        raise LambdaplugError(f"record: every must be from 1 on, got {every!r}.")
    return Recorder(X, Queries(labels, group), diagnostics, every)
