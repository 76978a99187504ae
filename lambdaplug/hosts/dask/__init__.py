"""Training over the workers of a Dask cluster, with either host: queries never cut, evaluation exact.

>>> from lambdaplug import dask
>>> dX, dy, dq = dask.partition_by_query([[0.5], [0.1], [0.7]], [1, 0, 0], [2, 1, 2], npartitions=2)
>>> dq.compute().tolist()
[1, 2, 2]
"""

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

from ...errors import LambdaplugError
from ...evaluation import Metric
from ...objectives import Objective, as_objective
from ...objectives.base import require_objective
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
            own = parameters.pop(name)
            metric = metric or own
    if metric is not None and not isinstance(metric, Metric):
        raise LambdaplugError(f"metric: expected lp.metric('ndcg@10'), got {metric!r}.")
    if host not in ("xgboost", "lightgbm"):
        raise LambdaplugError(f"host: expected 'xgboost' or 'lightgbm', got {host!r}.")
    sets = [_named(one, host) for one in (data, *(one for one, _ in evals))]
    options |= {"objective": objective, "metric": metric, "callbacks": callbacks}
    options["early_stopping_rounds"] = early_stopping_rounds
    if num_boost_round is not None:
        options["num_boost_round"] = num_boost_round
    module, names = importlib.import_module(f".{host}", __name__), [name for _, name in evals]
    result: dict[str, Any] = module.train_sets(client, parameters, sets, names, **options)
    return result


def _named(data: Any, host: str) -> Any:
    """(dX, dy, dq) by name, or a DaskDMatrix as it is; all else is refused."""
    if isinstance(data, (tuple, list)) and len(data) == 3:
        return dict(zip(("X", "y", "qid"), data, strict=True))
    if host == "xgboost" and hasattr(data, "worker_map"):
        return data
    before, after = ("", ", or a DaskDMatrix with qid") if host == "xgboost" else ("for LightGBM ", "")
    count = f" of {len(data)}" if isinstance(data, (tuple, list)) else ""
    raise LambdaplugError(
        f"data: {before}expected (dX, dy, dq), as lp.dask.partition_by_query returns them{after}; got "
        f"{type(data).__name__}{count}."
    )
