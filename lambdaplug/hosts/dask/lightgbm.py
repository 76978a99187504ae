"""LightGBM on Dask: a ranker on every worker, over LightGBM's own network, that trains for an objective on checked data."""

import functools
import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import lightgbm as lgb
import numpy as np
from distributed import default_client

from ...documenting import documented
from ...errors import LambdaplugError
from ...evaluation import Metric
from ...objectives import Objective, as_objective
from ...queries import Array
from ..base import by_name
from ..bias import learned, remember
from ..callback import Callback
from ..estimators import as_metric
from ..leaves import take
from ..lightgbm import LGBMRanker
from ..sharing import STAND_IN_WEIGHT, Share, set_columns, sharing
from .cluster import DaskRanker, Member, Rows, collected, train
from .network import connected

__all__ = ["DaskLGBMRanker", "train_sets"]

# What belongs to a row, and the argument of ``fit`` that has it for each evaluation set.
_FURTHER = {name: f"eval_{name}" for name in ("qid", "group", "sample_weight", "init_score")}
_aliases = lgb.basic._ConfigAliases.get


# --- on the workers ------------------------------------------------------------------------------------------------


class _DataSets:
    """A callback that finds out which of LightGBM's data sets each of a worker's has become, when a training begins."""

    order, before_iteration = -1 << 30, True  # before all other callbacks

    def __init__(self, columns: Sequence[Mapping[str, Array]]) -> None:
        self.columns = columns  # of the training data and of each evaluation set but those
        self.found: list[lgb.Dataset] = []

    def __call__(self, environment: Any) -> None:
        if environment.iteration == environment.begin_iteration:
            self.found = [environment.model.train_set, *environment.model.valid_sets]
            for data, columns in zip(self.found, self.columns, strict=True):
                set_columns(data, columns)

    def metric(self, metric: Any) -> Any:
        """A metric of ours as LightGBM's ranker calls it, which passes it arrays of a data set; others as they are."""
        if not isinstance(metric, Metric):
            return metric

        def evaluate(labels: Any, scores: Any, weight: Any, group: Any) -> Any:  # noqa: ARG001
            return metric(scores, next(data for data in self.found if data.get_label() is labels))

        return evaluate


def _together(member: Member, callback: Any) -> Any:
    """A callback of the user's among workers: where it stops the training on any of them, it stops on all.

    A worker that stopped alone would leave the others waiting for it in LightGBM's network.
    """
    if isinstance(callback, Callback) or type(callback).__module__ == lgb.callback.__name__:
        return callback

    def called(environment: Any) -> None:
        stop = None
        try:
            callback(environment)
        except lgb.callback.EarlyStopException as error:
            stop = error
        if member.total(np.array([float(stop is not None)]))[0] > 0:
            results = environment.evaluation_result_list or []
            raise stop or lgb.callback.EarlyStopException(environment.iteration, results)

    called.order = getattr(callback, "order", 0)  # type: ignore[attr-defined]
    called.before_iteration = getattr(callback, "before_iteration", False)  # type: ignore[attr-defined]
    return called


def _work(params: dict[str, Any], network: list[Any], fit: dict[str, Any], member: Member, sets: list[Rows]) -> Any:
    """A worker's training: what the ranker has learned, and the curve of position biases if there is one."""
    training, *evals = sets
    threads = params.get("n_jobs") or member.threads
    ranker = LGBMRanker(**{**params, "n_jobs": threads, "num_machines": member.count})
    found = _DataSets([one.columns for one in (training, *(one for one in evals if one is not training))])
    # LightGBM takes no data set without rows. It knows the training data by the very objects.
    stand_in = take(training.X, slice(1)), np.zeros(1), np.ones(1, np.int64), np.array([STAND_IN_WEIGHT]), None
    (X, y, *own), *others = (
        (one.X, one.vector("y"), one.sizes, one.vector("sample_weight"), one.vector("init_score"))
        if len(one.sizes)
        else stand_in
        for one in sets
    )
    names = "group", "sample_weight", "init_score"
    given = {**fit, **dict(zip(names, own, strict=True))}
    given["eval_metric"] = [found.metric(one) for one in fit["eval_metric"]]
    given["callbacks"] = [found, *(_together(member, one) for one in fit.get("callbacks") or ())]
    if evals:
        rows, labels, *further = zip(*others, strict=True)
        paired = "eval_X" in inspect.signature(lgb.LGBMRanker.fit).parameters  # LightGBM 4.7 and later
        given |= {"eval_X": rows, "eval_y": labels} if paired else {"eval_set": list(zip(rows, labels, strict=True))}
        given |= {f"eval_{name}": list(some) for name, some in zip(names, further, strict=True)}
    with connected(member, *network), sharing(Share(member.uneven, member.total)):
        ranker.fit(X, y, **given)
    # Given as several evaluation sets, the training data are reported once, by the last of their names.
    mine = [name for name, one in zip(fit.get("eval_names") or (), evals, strict=False) if one is training]
    for reported in (ranker.evals_result_, ranker.best_score_):
        for name in mine[:-1]:
            reported.setdefault(name, reported.get(mine[-1], {}))
    if member.rank > 0:
        return None
    asked = {*ranker.get_params(), "_other_params"}
    state = {name: value for name, value in vars(ranker).items() if name not in asked}
    return state, learned(ranker.objective, ranker)


# --- on the client -------------------------------------------------------------------------------------------------


@documented
class DaskLGBMRanker(lgb.DaskLGBMRanker, DaskRanker):  # type: ignore[misc]
    """``lightgbm.DaskLGBMRanker`` that takes a measure or an objective: ``.fit(dX, dy, qid=dq)``, or ``group=`` as the parent.

    ``qid`` and ``eval_qid`` have the query id of each row, and cannot be misaligned unnoticed. ``eval_metric`` takes
    ``lp.metric(...)``, exact over the workers, and is the measure trained for if left out; on such metrics early
    stopping works too. Data that cut a query are refused. ``score`` is that of ``lp.LGBMRanker``.

    {ranker_objective}
    client : distributed.Client, optional
        Default the current one.
    **kwargs
        All parameters of ``lightgbm.DaskLGBMRanker``.

    >>> model = lp.DaskLGBMRanker(objective="map", n_estimators=50)  # model.fit(dX, dy, qid=dq), Dask's arrays
    >>> model.n_estimators
    50
    """

    objective: Any
    score = DaskRanker.score
    _trained_for = LGBMRanker._trained_for

    @functools.wraps(lgb.DaskLGBMRanker.fit)
    def fit(self, *args: Any, **kwargs: Any) -> "DaskLGBMRanker":
        own = {name: kwargs.pop(name, None) for name in ("qid", "eval_qid")}
        options = {**by_name(lgb.DaskLGBMRanker.fit, args, kwargs), **own}
        data, *sets = collected(options, _FURTHER)
        sets = [data if all(one[name] is None or one[name] is data[name] for name in data) else one for one in sets]
        objective = as_objective(self.objective)
        plugged = objective if isinstance(objective, Objective) else None
        params = {name: value for name, value in self.get_params().items() if name != "client"}
        metrics = options["eval_metric"] = _metrics(params, plugged, options, bool(sets))
        if sets:
            options["eval_names"] = options.get("eval_names") or [f"valid_{i}" for i in range(len(sets))]
        learner = str(next((params.pop(name) for name in _aliases("tree_learner") if name in params), ""))
        params["tree_learner"] = learner if learner.startswith(("data", "feature", "voting")) else "data"
        network = [  # in the order in which ``connected`` takes them
            next((params.pop(name) for name in _aliases(word) if params.get(name)), default)
            for word, default in (("machines", ""), ("local_listen_port", 0), ("time_out", 120))
        ]
        work = functools.partial(_work, params, network, options)
        ours, callbacks = [one for one in metrics if isinstance(one, Metric)], options.get("callbacks")
        state, curve = train(self.client or default_client(), work, [data, *sets], plugged, ours, callbacks, least=2)
        self.__dict__.update(state)
        remember(self.booster_, self.objective, curve)
        return self

    def to_local(self) -> LGBMRanker:
        """The model as an ``lp.LGBMRanker``."""
        local: LGBMRanker = self._lgb_dask_to_local(LGBMRanker)
        return local


def _metrics(params: dict[str, Any], objective: Objective | None, fit: dict[str, Any], evaluated: bool) -> list[Any]:
    """The metrics to report: what ``fit`` is asked for, or else the measure trained for.

    LightGBM's own metrics are each worker's: stopping on them, some workers would stop, and the others wait for ever.
    """
    named = [params[name] for name in ("metric", "metrics", "metric_types") if params.get(name)]  # LightGBM's own
    asked, target = as_metric(fit.get("eval_metric")), None if objective is None else objective.target
    if evaluated and asked is None and target is not None and not named:
        asked = Metric([target])
    metrics = [one for one in (asked if isinstance(asked, list) else [asked]) if one is not None]
    stops = any(params.get(name) for name in _aliases("early_stopping_round")) or any(
        isinstance(one, lgb.callback._EarlyStoppingCallback) for one in fit.get("callbacks") or ()
    )
    if stops and not evaluated:
        raise LambdaplugError("early stopping: there is nothing to look at. Pass evals= (a ranker: eval_set=).")
    quiet = all(str(name).lower() in ("none", "custom", "na", "null") for name in named)
    silent = bool(named) or objective is not None  # else the objective's own metric comes along
    if stops and not (metrics and all(isinstance(one, Metric) for one in metrics) and quiet and silent):
        raise LambdaplugError(
            "early stopping on LightGBM's own metrics: each worker computes them of its own rows, so that one stops "
            "and the others wait. Stop on lp.metric alone: eval_metric=lp.metric('ndcg@10'), and metric='None' "
            "beside an objective of LightGBM's."
        )
    return metrics


def _as_estimator(params: dict[str, Any]) -> dict[str, Any]:
    """Parameters by the names that LightGBM's estimators have for them.

    Given under another name, a parameter might lose against the estimator's default.
    """
    renamed, names = dict(params), lgb.basic._ConfigAliases
    for name in lgb.LGBMRanker().get_params():
        found = [alias for alias in names.get_by_alias(name) if alias in renamed]
        main_first = sorted(found, key=lambda alias: (len(names.get(alias)) == 1, alias))
        values = [renamed.pop(alias) for alias in main_first]
        if values:
            renamed[name] = values[0]
    return renamed


def train_sets(
    client: Any, params: dict[str, Any], sets: list[Any], names: list[str], **options: Any
) -> dict[str, Any]:
    """``lp.dask.train`` of checked arguments."""
    for word, name in (("objective", "objective"), ("num_boost_round", "num_iterations")):
        given = options.pop(word, None)
        params |= {} if given is None else {name: given}
    rounds, callbacks = options.pop("early_stopping_rounds"), list(options.pop("callbacks") or ())
    if rounds is not None:
        callbacks.append(lgb.early_stopping(rounds, verbose=False))
    data, *evals = sets
    if evals:
        options["eval_set"] = [(one["X"], one["y"]) for one in evals]
        options |= {"eval_qid": [one["qid"] for one in evals], "eval_names": names}
    ranker = DaskLGBMRanker(client=client, **_as_estimator(params))
    ranker.fit(**data, eval_metric=options.pop("metric"), callbacks=callbacks, **options)
    return {"booster": ranker.booster_, "history": ranker.evals_result_}
