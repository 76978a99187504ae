"""Callbacks of both hosts in one object: called after each round."""

import importlib
import importlib.util
import sys
from typing import Any

from .base import Host

__all__ = ["Follower", "host_of"]


def host_of(model: Any) -> Host:
    """The host of what a callback is given: a Booster, or the folds of a cross-validation."""
    package = next(
        name for kind in type(model).__mro__ if (name := kind.__module__.partition(".")[0]) in ("lightgbm", "xgboost")
    )
    host: Host = importlib.import_module(f".{package}", __package__).HOST
    return host


class _Before:
    """XGBoost calls ``before_iteration``; LightGBM takes it for a flag, and calls objects with a true one before a round only.

    So it can be called and is false, and both hosts call the object after their rounds.
    """

    def __bool__(self) -> bool:
        return False

    def __call__(self, model: Any, epoch: int, evals_log: Any) -> bool:  # noqa: ARG002
        return False


class Follower:
    """Base of the callbacks: a subclass says what to do when a training begins and after each round."""

    order = 0  # LightGBM's, among other callbacks
    before_iteration = _Before()

    def __init__(self) -> None:
        self.order = type(self).order  # LightGBM wants an attribute of the instance
        introduce(type(self))

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        introduce(type(self))

    def begin(self) -> None:
        """A training begins."""

    def follow(self, model: Any, iteration: int, evals_log: Any = None) -> None:
        """A round is over. ``evals_log`` is XGBoost's; LightGBM is asked."""
        raise NotImplementedError

    # LightGBM.

    def __call__(self, env: Any) -> None:
        if env.iteration == env.begin_iteration:
            self.begin()
        self.follow(env.model, env.iteration)

    # XGBoost.

    def before_training(self, model: Any) -> Any:
        self.begin()
        return model

    def after_training(self, model: Any) -> Any:
        return model

    def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:  # noqa: ARG002
        # The epoch restarts at 0 when a training is continued; the rounds boosted do not.
        host = host_of(model)
        self.follow(model, host.trees(next(iter(host.boosters(model)))) - 1, evals_log)
        return False


def introduce(callback: type) -> None:
    """Have XGBoost take this class for one of its callbacks: it has all their methods, but cannot be a subclass.

    XGBoost is imported for it only where LightGBM has not been imported, which is then not the host.
    """
    known = "xgboost" in sys.modules
    if known or ("lightgbm" not in sys.modules and importlib.util.find_spec("xgboost") is not None):
        importlib.import_module("xgboost").callback.TrainingCallback.register(callback)
