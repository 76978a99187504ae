"""XGBoost: reading a DMatrix, and a ranker that takes lambdaplug's objectives and metrics."""

import sys
import weakref
from typing import Any

import numpy as np
import numpy.typing as npt
import xgboost as xgb

from ..errors import LambdaplugError
from ..evaluation import Metric
from ..objectives import Objective
from ..queries import DataSet, Queries
from .callback import callback

__all__ = ["XGBRanker", "accept", "read"]

Raw = tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]

_known: "weakref.WeakKeyDictionary[xgb.DMatrix, tuple[Raw, DataSet]]" = weakref.WeakKeyDictionary()


def read(data: xgb.DMatrix) -> DataSet:
    """The DMatrix's queries. It keeps no version, so its labels, groups and weights are compared with the last ones."""
    raw = data.get_label(), data.get_uint_info("group_ptr"), data.get_weight()
    known = _known.get(data)
    if known is None or not all(map(np.array_equal, known[0], raw)):
        data_set = DataSet(_queries(data, *raw), "XGBoost", hessian_floor="min_child_weight", on_metric=_maximise)
        _known[data] = known = raw, data_set
    threads = getattr(data, "nthread", None)
    known[1].threads = threads if threads and threads > 0 else None
    return known[1]


def _queries(
    data: xgb.DMatrix, labels: npt.NDArray[Any], bounds: npt.NDArray[Any], weight: npt.NDArray[Any]
) -> Queries:
    rows = data.num_row()
    if rows == 0:  # a worker of a cluster without a share
        return Queries([], [])
    if labels.size != rows:
        raise LambdaplugError(
            f"the DMatrix has {rows} rows and {labels.size} labels: xgb.DMatrix(X, label=y, qid=ids)."
        )
    group = np.diff(bounds.astype(np.int64)) if bounds.size > 1 else None
    return Queries(labels.reshape(rows), group, query_weight=weight if weight.size else None)


def accept(callback: type) -> None:
    """Have XGBoost take this class for one of its callbacks; it has all their methods."""
    xgb.callback.TrainingCallback.register(callback)


def _maximise(names: list[str]) -> None:
    """Have early stopping maximise these metrics.

    XGBoost guesses the direction from a metric's name, would minimise "mrr", and leaves a custom metric no way to say
    otherwise. The metric is called from CallbackContainer.after_iteration, just before early stopping looks at its
    value: an EarlyStopping found there that has not been told a direction is told it now.
    """
    calling = xgb.callback.CallbackContainer.after_iteration.__code__
    frame = sys._getframe(1)
    while frame is not None and frame.f_code is not calling:
        frame = frame.f_back  # type: ignore[assignment]
    if frame is None:  # not in a training: Booster.eval_set, or the user
        return
    for stopping in frame.f_locals["self"].callbacks:
        watches_ours = isinstance(stopping, xgb.callback.EarlyStopping) and stopping.metric_name in (None, *names)
        if watches_ours and stopping.maximize is None:
            stopping.maximize = True


class _Plug(xgb.callback.TrainingCallback):  # type: ignore[misc]
    """For the length of one training, has the Booster use this objective and this metric."""

    def __init__(self, objective: Objective | None, metric: Metric | None) -> None:
        super().__init__()
        self.objective = objective
        self.metric = metric

    def before_training(self, model: xgb.Booster) -> xgb.Booster:
        update, eval_set = model.update, model.eval_set
        if self.objective is not None:
            model.update = lambda data, iteration, fobj=None: update(data, iteration, fobj or self.objective)
        if self.metric is not None:
            model.eval_set = lambda evals, iteration=0, feval=None, output_margin=True: eval_set(
                evals, iteration, feval or self.metric, output_margin
            )
        return model

    def after_training(self, model: xgb.Booster) -> xgb.Booster:
        model.__dict__.pop("update", None)
        model.__dict__.pop("eval_set", None)
        return model


class XGBRanker(xgb.XGBRanker):  # type: ignore[misc]
    """``xgboost.XGBRanker`` with a lambdaplug objective: ``XGBRanker(objective=lp.LambdaRank("map"))``.

    ``eval_metric`` takes ``lp.metric(...)`` too, and is the measure trained for if left out. The parent allows neither,
    so during ``fit`` it sees ``rank:ndcg`` and no metric, and a callback hands ours to the Booster it trains.
    """

    eval_metric: Any
    callbacks: Any

    def __init__(self, *, objective: str | Objective = "rank:ndcg", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.objective: Any = objective

    def get_xgb_params(self) -> dict[str, Any]:
        parameters: dict[str, Any] = super().get_xgb_params()
        if isinstance(self.objective, Objective):
            parameters["objective"] = "rank:ndcg"
            if self.eval_metric is None:  # rank:ndcg's own metric wants whole labels up to 31, and is not asked for
                parameters.setdefault("disable_default_eval_metric", 1)
        return parameters

    def fit(self, X: Any, y: Any, **kwargs: Any) -> "XGBRanker":
        """As the parent's."""
        objective, metric, callbacks = self.objective, self.eval_metric, self.callbacks
        if not isinstance(objective, Objective) and not isinstance(metric, Metric):
            super().fit(X, y, **kwargs)
            return self
        plug = _Plug(objective if isinstance(objective, Objective) else None, _metric_of(objective, metric))
        ticking = [callback(objective)] if isinstance(objective, Objective) and objective.clock is not None else []
        try:
            self.callbacks = [plug, *ticking, *(callbacks or [])]
            self.eval_metric = None if isinstance(metric, Metric) else metric
            super().fit(X, y, **kwargs)
        finally:
            self.objective, self.eval_metric, self.callbacks = objective, metric, callbacks
        return self


def _metric_of(objective: object, metric: object) -> Metric | None:
    if metric is None and isinstance(objective, Objective):
        return Metric([objective.target], "skip") if objective.target is not None else None
    return metric if isinstance(metric, Metric) else None
