"""Training over the workers of a Dask cluster, with either host: queries never cut, evaluation exact.

>>> from lambdaplug import dask
>>> dX, dy, dq = dask.partition_by_query([[0.5], [0.1], [0.7]], [1, 0, 0], [2, 1, 2], npartitions=2)
>>> dq.compute().tolist()
[1, 2, 2]
"""

from collections.abc import Mapping, Sequence
from typing import Any

from ...errors import LambdaplugError
from ...evaluation import Metric
from ...objectives import Objective, as_objective
from ...objectives.base import require_objective
from .checks import Job
from .layout import partition_by_query

__all__ = ["partition_by_query", "train"]


def train(
    client: Any,
    params: Mapping[str, Any],
    data: Any,
    objective: Objective | str | None = None,
    num_boost_round: int | None = None,
    *,
    evals: Sequence[tuple[Any, str]] = (),
    metric: Metric | None = None,
    early_stopping_rounds: int | None = None,
    callbacks: list[Any] | None = None,
    host: str = "xgboost",
    **options: Any,
) -> dict[str, Any]:
    """Train on a Dask cluster: ``{"booster": ..., "history": {name of evals: {measure: [values]}}}``.

    Parameters
    ----------
    client : distributed.Client
    params : dict
        The host's parameters; an objective or a metric of lambdaplug's may be among them.
    data : (dX, dy, dq)
        As ``partition_by_query`` returns them; for XGBoost a DaskDMatrix or DaskQuantileDMatrix too.
    objective : Objective or str, optional
        lambdaplug's, with ``labels=`` a Dask column where it has one; a measure's name, which means ``lp.objective(name)``; or
        the host's word; default what params say.
    num_boost_round : int, optional
        Default the host's own.
    evals : list of (data, name)
    metric : Metric, optional
        ``lp.metric(...)``, exact over the workers; default the measure trained for.
    early_stopping_rounds : int, optional
        Stop as soon as the last metric of the last of evals (LightGBM: any one metric of any of evals but the training
        data) has not been better for so many rounds.
    callbacks : list, optional
        The host's; the one that a schedule needs is added.
    host : "xgboost" or "lightgbm"
    options
        What else ``xgboost.dask.train`` or ``lightgbm.DaskLGBMRanker.fit`` takes.
    """
    parameters = dict(params)
    if objective is None and isinstance(as_objective(parameters.get("objective")), Objective):
        objective = parameters.pop("objective")
    objective = as_objective(objective)
    if isinstance(objective, str):
        parameters["objective"], objective = objective, None
    if objective is not None:
        require_objective(objective, "objective: ")
    for word, instead in (("obj", "objective"), ("custom_metric", "metric")):
        if word in options:
            raise LambdaplugError(f"{word}: expected {instead}= here, which takes lambdaplug's.")
    for name in ("eval_metric", "metric"):
        if isinstance(parameters.get(name), Metric):
            found = parameters.pop(name)
            metric = found if metric is None else metric
    if metric is not None and not isinstance(metric, Metric):
        raise LambdaplugError(f"metric: expected lp.metric('ndcg@10'), got {metric!r}.")
    named = any(parameters.get(name) for name in ("eval_metric", "metric", "metrics", "metric_types"))
    if metric is None and evals and not named and objective is not None and objective.target is not None:
        metric = Metric([objective.target])
    job = Job(client, parameters, data, objective, evals, metric, callbacks)
    if host == "xgboost":
        from . import xgboost

        options.setdefault("verbose_eval", False)
        if num_boost_round is not None:
            options["num_boost_round"] = num_boost_round
        options["early_stopping_rounds"] = early_stopping_rounds
        return xgboost.train(job, **options)
    if host == "lightgbm":
        from . import lightgbm

        if num_boost_round is not None:
            parameters["num_iterations"] = num_boost_round
        return lightgbm.train(job, early_stopping_rounds, **options)
    raise LambdaplugError(f"host: expected 'xgboost' or 'lightgbm', got {host!r}.")
