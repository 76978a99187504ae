"""One callback for both hosts: it shows schedules that watch a metric what it is on validation data."""

import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np

from ..checking import shown
from ..errors import LambdaplugError
from ..evaluation import Metric
from ..objectives import Objective
from ..objectives.base import require_objective
from ..objectives.mixture import Sum
from ..objectives.pareto import Pareto, reported
from ..schedules import Guard, OnPlateau
from ..training import Training, tell
from .base import host_of

__all__ = ["Callback", "Follower", "callback", "with_callback"]


class _Before:
    """XGBoost calls ``before_iteration``; LightGBM takes it for a flag, and calls objects with a true one before a round only.

    So it can be called and is false, and both hosts call the object after their rounds.
    """

    def __bool__(self) -> bool:
        return False

    def __call__(self, model: Any, epoch: int, evals_log: Any) -> bool:
        return False


class Follower:
    """Base of the callbacks: a subclass says what to do when a training begins and after each round."""

    order = 0  # LightGBM's, among other callbacks
    local = False  # it follows trainings on one machine only
    before_iteration = _Before()

    def __init__(self) -> None:
        self.order = type(self).order  # LightGBM wants an attribute of the instance
        _introduce()

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        _introduce()

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

    def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        # The epoch restarts at 0 when a training is continued; the rounds boosted do not.
        host = host_of(model)
        self.follow(model, host.rounds(next(iter(host.boosters(model)))) - 1, evals_log)
        return False


def _introduce() -> None:
    """Have XGBoost take these for its callbacks, which its module here sees to.

    It is imported for it only where LightGBM has not been imported, which is then not the host.
    """
    if "xgboost" in sys.modules or ("lightgbm" not in sys.modules and find_spec("xgboost") is not None):
        from . import xgboost  # noqa: F401


class Callback(Follower):
    """See :func:`callback`."""

    order = 5  # LightGBM: before early stopping, which ends the round by an exception

    def __init__(self, objective: Objective, valid: str | None = None, metric: Metric | None = None) -> None:
        require_objective(objective, "callback: ")
        super().__init__()
        self.objective = objective
        self.valid = valid
        self.metric = metric
        self.trace: list[dict[str, float]] = []

    def tick(self, iteration: int) -> None:
        """Say the iteration, where the objective is called by something else than a Booster; a Booster knows it."""
        tell(self.objective, iteration)

    def begin(self) -> None:
        self.trace = []

    def follow(self, model: Any, iteration: int, evals_log: Any = None) -> None:
        watchers = self.objective.watchers
        if not isinstance(self.objective, Pareto) and not (watchers and isinstance(self.objective, Sum)):
            return
        host = host_of(model)
        boosters = list(host.boosters(model))
        names = [str(watcher.measure) for watcher in watchers]
        wanted = self._wanted(watchers)
        if evals_log is not None:
            last = {name: {measure: values[-1] for measure, values in one.items()} for name, one in evals_log.items()}
            logs, usual = [last] if names or last else [], -1
        else:
            logs, usual = [] if wanted is None else [_evaluated(booster, wanted) for booster in boosters], 0
        watched = [self._watched(log, usual, names) for log in logs]
        values = {name: float(np.mean([one[name] for one in watched])) for name in (watched[0] if watched else ())}
        training = host.training(boosters[0])
        weights = self._weights(training)
        decided = reported(training.weights, training.values)
        self.trace.append({"iteration": iteration, "weight": sum(weights[1:]), **decided, **values})
        for booster in boosters:
            for watcher, name in zip(watchers, names, strict=True):
                watcher.observe(values[name], host.training(booster).memory)

    def _watched(self, log: Mapping[str, Mapping[str, Any]], usual: int, names: Sequence[str]) -> dict[str, Any]:
        """What was measured on the set that is watched: the one of this name, or the host's usual one."""
        chosen = self.valid or (list(log)[usual] if log else "")
        found = {name: value[0] if isinstance(value, tuple) else value for name, value in log.get(chosen, {}).items()}
        missing = next((name for name in names if name not in found), None)
        if chosen not in log or missing is not None:
            raise LambdaplugError(
                f"the objective watches {missing!r} on a validation set, and the training evaluates {shown(dict(log))}: pass "
                "valid_sets=[...] to lgb.train, or evals=[(dvalid, 'valid')] and custom_metric=lp.metric(...) with it to "
                "xgb.train (and valid= one of their names)."
            )
        return found

    def _wanted(self, watchers: tuple[OnPlateau | Guard, ...]) -> Metric | None:
        """What LightGBM is asked for: what is watched, and the further measures."""
        if not watchers:
            return self.metric
        watched = Metric.of(list(dict.fromkeys(watcher.measure for watcher in watchers)))
        further = None if self.metric is None else self.metric.without(watched.names)
        return watched if further is None else watched + further

    def _weights(self, training: Training) -> list[float]:
        """Those of the last round."""
        assert isinstance(self.objective, (Sum, Pareto))
        if self.objective.watching not in training.weights:
            raise LambdaplugError(
                f"callback: {self.objective!r} was told to watch a training of another objective. Give lp.callback the "
                "objective that is trained."
            )
        return training.weights[self.objective.watching]


def with_callback(objective: object, callbacks: list[Any] | None) -> list[Any] | None:
    """The callbacks, and the one that the objective needs if it is not among them."""
    if not isinstance(objective, Objective) or not objective.watchers:
        return callbacks
    given = list(callbacks or [])
    if any(isinstance(one, Callback) and one.objective == objective for one in given):
        return given
    return [callback(objective), *given]


def _evaluated(booster: Any, metric: Metric) -> dict[str, dict[str, float]]:
    """By validation set, what a Booster of LightGBM measures now; what is only watched is in no history."""
    host_of(booster).training(booster).named = True
    found: dict[str, dict[str, float]] = {}
    for name, measure, value, _ in booster.eval_valid(
        feval=metric
    ):  # a metric of its own comes before ours of the same name
        found.setdefault(name, {})[measure] = float(value)
    return found


def callback(objective: Objective, valid: str | None = None, metric: Metric | None = None) -> Callback:
    """``callbacks=[lp.callback(objective)]``, in ``train`` and ``cv`` of both hosts: for schedules that watch a metric.

    Needed by ``lp.on_plateau`` and ``lp.guard``, harmless elsewhere: the iteration is known from the Booster that is
    training. One object serves one training at a time.

    Parameters
    ----------
    objective : Objective
        The objective that is trained.
    valid : str, optional
        The name of the validation set to watch; default LightGBM's first and XGBoost's last.
    metric : Metric, optional
        With LightGBM, further measures for ``trace``, such as ``lp.metric("cndcg@3", labels=valid_clicks)``; with XGBoost
        all that it evaluates are there.

    Returns
    -------
    Callback
        ``callback.trace`` has one row per round: iteration, weight of the parts after the first, and the metrics; of an
        ``lp.Pareto``, which needs no watcher for it, also the weight of each part.

    Examples
    --------
    >>> import lambdaplug as lp
    >>> weight = lp.on_plateau("ndcg@10", patience=5)
    >>> objective = lp.interpolate(lp.LambdaRank("ndcg"), lp.LambdaRank("map"), weight=weight)
    >>> watch = lp.callback(objective)  # lgb.train(..., feval=lp.metric("ndcg@10"), callbacks=[watch])
    >>> watch.trace
    []
    """
    return Callback(objective, valid, metric)
