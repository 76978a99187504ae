"""XGBoost on Dask: ``xgboost.train`` on every worker, over XGBoost's own network, with an objective and checked data."""

import contextlib
import copy
import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from urllib.parse import urlparse

import numpy as np
import xgboost as xgb
from xgboost import dask as dxgb
from xgboost.tracker import RabitTracker

from ...documenting import documented
from ...errors import LambdaplugError
from ...measures import Measure
from ...objectives import Objective, as_objective
from ..base import by_name
from ..bias import learned, remember
from ..callback import Callback, with_callback
from ..sharing import set_columns
from ..xgboost import XGBRanker, metrics_of, plain_parameters
from .cluster import DaskRanker, Member, Rows, collected, train
from .layout import is_dask

__all__ = ["DaskXGBRanker", "train_sets"]


# --- on the workers ------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _connected(member: Member, settings: Any) -> Iterator[None]:
    """While this lasts, XGBoost's network of all members stands. What brings them together runs on the first of them."""
    told = None
    if member.rank == 0:
        host = getattr(settings, "tracker_host_ip", None) or urlparse(member.address).hostname
        port = getattr(settings, "tracker_port", None) or 0
        tracker = RabitTracker(n_workers=member.count, host_ip=host, port=port, sortby="task")
        old = not hasattr(tracker, "worker_args")  # XGBoost 2.0
        tracker.start(*([member.count] if old else []))
        told = {"DMLC_NUM_WORKER": member.count, **tracker.worker_envs()} if old else tracker.worker_args()
        threading.Thread(target=tracker.join if old else tracker.wait_for, daemon=True).start()
    arguments = member.exchange(told)[0]
    if settings is not None:
        arguments = settings.get_comm_config(arguments)
    with xgb.collective.CommunicatorContext(**arguments, DMLC_TASK_ID=f"{member.rank:06d}"):
        yield


class _Batches(xgb.DataIter):  # type: ignore[misc]
    """A worker's partitions, one after the other, queries numbered: XGBoost keeps 32 bits of an id, and sorts by it."""

    def __init__(self, rows: Rows, **features: Any) -> None:
        self.parts, self.features, self.number = rows.parts, features, 0
        self.queries = np.repeat(np.arange(len(rows.sizes)), rows.sizes)
        self.offsets = np.cumsum([0, *(part["X"].shape[0] for part in rows.parts)])
        super().__init__()

    def reset(self) -> None:
        self.number = 0

    def next(self, input_data: Callable[..., Any]) -> bool:
        if self.number == len(self.parts):
            return False
        part, (first, last) = self.parts[self.number], self.offsets[self.number : self.number + 2]
        others = {name: values for name, values in part.items() if name not in ("X", "y", "qid")}
        input_data(data=part["X"], label=part["y"], qid=self.queries[first:last], **others, **self.features)
        self.number += 1
        return True


def _matrix(rows: Rows, reference: xgb.DMatrix | None, quantile: bool, options: dict[str, Any]) -> xgb.DMatrix:
    features = {
        name: options[name] for name in ("feature_names", "feature_types", "feature_weights") if name in options
    }
    others = {name: value for name, value in options.items() if name not in (*features, "max_bin")}
    if reference is not None and hasattr(reference, "get_categories") and not reference.get_categories().empty():
        features["feature_types"] = reference.get_categories()  # the codes of the training data
    if quantile:
        batches = _Batches(rows, **features)
        matrix = xgb.QuantileDMatrix(batches, max_bin=options.get("max_bin"), ref=reference, **others)
    else:
        others |= {name: rows.vector(name) for name in rows.parts[0] if name not in ("X", "y", "qid")}
        matrix = xgb.DMatrix(rows.X, rows.vector("y"), group=rows.sizes, **others, **features)
    if rows.columns:
        set_columns(matrix, rows.columns)
    return matrix


def _together(callback: Any) -> Any:
    """A callback of the user's among workers: where it stops the training on any of them, it stops on all."""
    if isinstance(callback, Callback) or type(callback).__module__ == xgb.callback.__name__:
        return callback

    def agreed(method: Callable[..., Any], *arguments: Any) -> bool:
        stop = np.array([float(bool(method(*arguments)))])
        return bool(xgb.collective.allreduce(stop, xgb.collective.Op.SUM)[0] > 0)

    found = copy.copy(callback)
    for name in ("before_iteration", "after_iteration"):
        setattr(found, name, functools.partial(agreed, getattr(callback, name)))
    return found


def _work(
    params: dict[str, Any],
    matrices: Sequence[tuple[bool, dict[str, Any]]],
    names: Sequence[str],
    settings: tuple[Any, dict[str, Any]],
    options: dict[str, Any],
    member: Member,
    sets: list[Rows],
) -> Any:
    """A worker's training: its Booster and history, and the curve of position biases if there is one."""
    history: dict[str, Any] = {}
    threads = params.get("nthread") or params.get("n_jobs") or member.threads
    network, general = settings
    with _connected(member, network), xgb.config_context(**general):
        built: dict[int, xgb.DMatrix] = {}
        for rows, (quantile, features) in zip(sets, matrices, strict=True):
            if id(rows) not in built:
                reference = built.get(id(sets[0]))
                built[id(rows)] = _matrix(rows, reference, quantile, {**features, "nthread": threads})
        dtrain, *evals = (built[id(rows)] for rows in sets)
        booster = xgb.train(
            {**params, "nthread": threads},
            dtrain,
            evals=list(zip(evals, names, strict=True)) or None,
            evals_result=history,
            **{**options, "callbacks": [_together(one) for one in options["callbacks"]]},
        )
    return None if member.rank > 0 else (booster, history, learned(options["obj"], options["obj"]))


# --- on the client -------------------------------------------------------------------------------------------------


def train_sets(
    client: Any, params: dict[str, Any], sets: list[Any], names: list[str], **options: Any
) -> dict[str, Any]:
    """``lp.dask.train`` of checked arguments; ``matrix_options`` are for data that are no DaskDMatrix."""
    objective, metric = options.pop("objective"), options.pop("metric")
    if metric is None and names and not params.get("eval_metric"):
        metric = metrics_of(objective, None)[1]
    settings = options.pop("coll_cfg", None), xgb.get_config()
    params = plain_parameters(dict(params), objective, params.get("eval_metric"))
    quantile = params.get("tree_method") in (None, "auto", "hist") and params.get("booster") != "gblinear"
    own = quantile, {"max_bin": params.get("max_bin"), **options.pop("matrix_options", {})}
    words = ("feature_names", "feature_types", "feature_weights", "missing", "enable_categorical", "max_bin")
    matrices = [
        own
        if isinstance(one, dict)
        else (isinstance(one, dxgb.DaskQuantileDMatrix), {word: getattr(one, word, None) for word in words})
        for one in sets
    ]
    callbacks = with_callback(objective, options.pop("callbacks")) or []
    options = {"verbose_eval": False, **options, "obj": objective, "custom_metric": metric, "callbacks": callbacks}
    work = functools.partial(_work, params, matrices, names, settings, options)
    metrics = [] if metric is None else [metric]
    run = functools.partial(train, client, work, sets, objective, metrics, callbacks)
    booster, history, curve = _tried(run)
    remember(booster, objective, curve)
    return {"booster": booster, "history": history}


def _tried(run: Callable[[], Any], attempts: int = 3) -> Any:
    """The training's result. Its workers may fail to find each other, when a signal interrupts them: then once more."""
    try:
        return run()
    except xgb.core.XGBoostError as error:
        if "bootstrap the communication group" not in str(error) or attempts == 1:
            raise
    return _tried(run, attempts - 1)


@documented
class DaskXGBRanker(dxgb.DaskXGBRanker, DaskRanker):  # type: ignore[misc]
    """``xgboost.dask.DaskXGBRanker`` that takes a measure or an objective: ``.fit(dX, dy, qid=dq)``.

    ``eval_metric`` takes ``lp.metric(...)``, exact over the workers, and is the measure trained for if left out. Data
    that cut a query are refused, whatever ``allow_group_split`` says: rows are not moved unless you ask
    ``lp.dask.partition_by_query`` to. ``score`` is that of ``lp.XGBRanker``.

    {ranker_objective}
    **kwargs
        All parameters of ``xgboost.dask.DaskXGBRanker``.

    >>> model = lp.DaskXGBRanker(objective="map", n_estimators=50)  # model.fit(dX, dy, qid=dq), Dask's arrays
    >>> model.n_estimators
    50
    """

    eval_metric: Any
    callbacks: Any
    score = DaskRanker.score
    _trained_for = XGBRanker._trained_for

    def __init__(self, *, objective: str | Measure | Objective = "rank:ndcg", **kwargs: Any) -> None:
        client = kwargs.pop("client", None)  # LightGBM's takes it here, XGBoost's as an attribute
        super().__init__(**kwargs)
        if set(getattr(self, "kwargs", None) or ()) == {"kwargs"}:  # where XGBoost 2.0 loses all of them
            super(dxgb.DaskXGBRanker, self).__init__(**kwargs)
        self.objective: Any = objective
        if client is not None:
            self.client = client

    def get_xgb_params(self) -> dict[str, Any]:
        return plain_parameters(super().get_xgb_params(), self.objective, self.eval_metric)

    @functools.wraps(dxgb.DaskXGBRanker.fit)
    def fit(self, *args: Any, **kwargs: Any) -> "DaskXGBRanker":
        given = by_name(dxgb.DaskXGBRanker.fit, args, kwargs)
        given = {name: value for name, value in given.items() if value is not None}
        if "group" in given or "eval_group" in given or "qid" not in given:
            raise LambdaplugError("XGBoost on Dask knows queries by their ids: pass qid= (and eval_qid=), not group=.")
        if "sample_weight" in given or "sample_weight_eval_set" in given:
            raise LambdaplugError("XGBoost on Dask takes no weights together with qid; LightGBM does.")
        sets = collected(given, {"qid": "eval_qid", "base_margin": "base_margin_eval_set"})
        if any(one["qid"] is None for one in sets):
            raise LambdaplugError(f"eval_qid: expected one for each of eval_set ({len(sets) - 1}).")
        objective = as_objective(self.objective)
        words, metric = metrics_of(None, self.eval_metric)
        strange = [one for one in (words if isinstance(words, (list, tuple)) else [words]) if callable(one)]
        if strange:
            raise LambdaplugError(
                f"eval_metric: expected names and lp.metric(...), got {strange[0]!r}, whose mean over workers "
                "cannot be known. As a measure: lp.metric(lp.custom('name', value))."
            )
        model, weights = given.get("xgb_model"), given.get("feature_weights", getattr(self, "feature_weights", None))
        results = train_sets(
            self.client,
            {**self.get_xgb_params(), "eval_metric": words},
            sets,
            [f"validation_{i}" for i in range(len(sets) - 1)],
            objective=objective if isinstance(objective, Objective) else None,
            metric=metric,
            callbacks=self.callbacks,
            coll_cfg=getattr(self, "coll_cfg", None),
            matrix_options={
                **{name: getattr(self, name) for name in ("missing", "enable_categorical", "feature_types")},
                "feature_weights": self.client.compute(weights).result() if is_dask(weights) else weights,
            },
            num_boost_round=self.get_num_boosting_rounds(),
            early_stopping_rounds=self.early_stopping_rounds,
            verbose_eval=given.get("verbose", False),
            xgb_model=model.get_booster() if isinstance(model, xgb.XGBModel) else model,
        )
        self._Booster, self.evals_result_ = results["booster"], results["history"]
        return self
