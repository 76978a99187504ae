"""One training of either host, for tools that train models themselves. What cannot be the same in both stands here."""

import importlib
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np

from ..errors import LambdaplugError
from ..evaluation import Metric
from ..objectives import Objective
from . import HOSTS
from .callback import with_callback

__all__ = ["Part", "fitted", "loaded", "require_host"]

Part: TypeAlias = Any  # (X, labels, group), or what unpacks into it


def require_host(host: str) -> None:
    if host not in HOSTS:
        raise LambdaplugError(f"host: expected 'lightgbm' or 'xgboost', got {host!r}.")


def loaded(host: str, path: Any) -> Any:
    """The Booster in a file."""
    return importlib.import_module(host).Booster(model_file=str(path))


def fitted(
    host: str,
    objective: Objective | str,
    train: Part,
    valid: Part | None,
    params: Mapping[str, Any],
    rounds: int,
    metric: Metric | None = None,
    stopping: bool = False,
) -> Any:
    """A Booster trained for an objective, ours or the host's by name.

    With ``stopping`` it knows its best round on ``valid`` by the metric; else that is what schedules watch there.
    """
    given, callbacks = ([train] if valid is None else [train, valid]), list(with_callback(objective, None) or ())
    if host == "lightgbm":
        lgb = importlib.import_module("lightgbm")
        own = {"metric": "None", "verbose": -1, **params, "objective": objective}
        sets = [lgb.Dataset(X, labels, group=group) for X, labels, group in given]
        if stopping:
            callbacks.append(lgb.early_stopping(rounds, first_metric_only=True, verbose=False))
        watched = {
            "valid_sets": [one.set_reference(sets[0]) for one in sets[1:]],
            "feval": metric if stopping else None,
        }
        return lgb.train(own, sets[0], rounds, callbacks=callbacks, **watched)
    xgb = importlib.import_module("xgboost")
    own = {"disable_default_eval_metric": 1, "base_score": 0.0, **params, "objective": objective}
    if not isinstance(objective, str):
        own["objective"] = "rank:ndcg"  # what a saved model says; the gradients are the objective's
    numbered = [(X, labels, np.repeat(np.arange(len(group)), group)) for X, labels, group in given]
    sets = [xgb.DMatrix(X, labels, qid=qid, enable_categorical=True) for X, labels, qid in numbered]
    return xgb.train(
        own,
        sets[0],
        rounds,
        obj=None if isinstance(objective, str) else objective,
        evals=[(one, "valid") for one in sets[1:]],
        custom_metric=metric,
        callbacks=callbacks,
        early_stopping_rounds=rounds if stopping else None,
        verbose_eval=False,
    )
