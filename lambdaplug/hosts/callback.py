"""One callback for both hosts: it shows schedules that watch a metric what it is on validation data."""

import sys
from importlib.util import find_spec
from typing import Any

import numpy as np

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
        if evals_log is None:
            wanted = self._wanted(watchers)
            values = {} if wanted is None else _lightgbm_values(boosters, wanted, self.valid)
        else:
            values = _xgboost_values(evals_log, set(names), self.valid) if names or evals_log else {}
        training = host.training(boosters[0])
        weights = self._weights(training)
        decided = reported(training.weights, training.values)
        self.trace.append({"iteration": iteration, "weight": sum(weights[1:]), **decided, **values})
        for booster in boosters:
            for watcher, name in zip(watchers, names, strict=True):
                watcher.observe(values[name], host.training(booster).memory)

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


def _missing(name: str, found: list[str], how: str) -> LambdaplugError:
    return LambdaplugError(
        f"the objective watches {name!r} on a validation set, and the training evaluates "
        f"{', '.join(found) or 'nothing'}: {how}"
    )


def _lightgbm_values(boosters: list[Any], metric: Metric, valid: str | None) -> dict[str, float]:
    names = metric.names
    values: dict[str, list[float]] = {name: [] for name in names}
    for booster in boosters:
        host_of(booster).training(booster).named = True  # what is only watched is in no history
        results = booster.eval_valid(feval=metric)
        sets = list(dict.fromkeys(result[0] for result in results))
        if not sets or (valid is not None and valid not in sets):
            raise _missing(names[0], sets, "pass valid_sets=[...] to lgb.train (and valid= one of their names).")
        chosen = valid or sets[0]
        # LightGBM's own metric of the same name comes before ours.
        latest = {result[1]: float(result[2]) for result in results if result[0] == chosen}
        for name in names:
            values[name].append(latest[name])
    return {name: float(np.mean(found)) for name, found in values.items()}


def _xgboost_values(log: Any, names: set[str], valid: str | None) -> dict[str, float]:
    sets = list(log)
    chosen = valid or (sets[-1] if sets else None)
    how = "pass evals=[(dvalid, 'valid')] and custom_metric=lp.metric(...) with it to xgb.train."
    if chosen not in log:
        raise _missing(sorted(names)[0], sets, how)
    for name in names:
        if name not in log[chosen]:
            raise _missing(name, [f"{chosen}: {', '.join(log[chosen])}"], how)
    latest = {name: history[-1] for name, history in log[chosen].items()}
    return {name: float(value[0] if isinstance(value, tuple) else value) for name, value in latest.items()}


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
