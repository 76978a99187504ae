"""One callback for both hosts: it tells an objective the iteration, and its watching schedules the validation metric."""

from collections.abc import Hashable
from typing import Any

import numpy as np

from ..errors import LambdaplugError
from ..evaluation import Metric
from ..objectives import Objective
from ..objectives.mixture import Mixture
from .calling import call_after_rounds, introduce

__all__ = ["Callback", "callback", "with_callback"]


class Callback:
    """See :func:`callback`. LightGBM calls the object itself, XGBoost its methods."""

    def __init__(self, objective: Objective, valid: str | None = None, metric: Metric | None = None) -> None:
        if not isinstance(objective, Objective):
            raise LambdaplugError(f"callback: expected an objective, got {objective!r}.")
        self.objective = objective
        self.valid = valid
        self.metric = metric
        self.order = -100  # LightGBM: before other callbacks; it wants an attribute of the instance
        self.trace: list[dict[str, float]] = []
        self._seen: Hashable = None
        self._looks_afterwards = False
        introduce(Callback)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        introduce(Callback)

    def tick(self, iteration: int, training: Hashable = "loop") -> None:
        """Tell the iteration by hand, in a loop of one's own over Booster.update."""
        self._tick(iteration, training, None)

    def _tick(self, iteration: int, training: Hashable, data_sets: frozenset[int] | None) -> None:
        if self.objective.clock is None:
            return
        if training != self._seen:
            self._seen, self.trace = training, []
        self.objective.clock.tick(iteration, training, data_sets)

    @property
    def _watchers(self) -> tuple[Any, ...]:
        return self.objective.watchers if isinstance(self.objective, Mixture) else ()

    def _show(self, values: dict[str, float], iteration: int) -> None:
        """What the validation metrics were after the last round."""
        if self.objective.clock is None or not isinstance(self.objective, Mixture):
            return
        memory = self.objective.clock.moment.memory
        weights = self.objective.watching.weights(iteration, memory)
        self.trace.append({"iteration": iteration, "weight": sum(weights[1:]), **values})
        for watcher in self._watchers:
            watcher.observe(values[str(watcher.metric)], memory)

    # LightGBM: called before each iteration with its CallbackEnv, because before_iteration below is true.

    def __call__(self, env: Any) -> None:
        if env.iteration == env.begin_iteration:
            self._seen = None
            self._looks_afterwards = bool(self._watchers) and call_after_rounds(self._look)
        elif self._watchers and not self._looks_afterwards:  # a loop of one's own
            self._look(env.model, env.iteration - 1)
        data_sets = frozenset(id(booster.train_set) for booster in _boosters(env.model))
        self._tick(env.iteration, id(env.model), data_sets)

    def _look(self, model: Any, iteration: int) -> None:
        watched = Metric(list(dict.fromkeys(watcher.metric for watcher in self._watchers)))
        further = None if self.metric is None else self.metric.without(watched.names)
        metric = watched if further is None else watched + further
        self._show(_lightgbm_values(_boosters(model), metric, self.valid), iteration)

    # XGBoost: a TrainingCallback in all but name; hosts.xgboost registers it as one.

    def before_training(self, model: Any) -> Any:
        self._seen = None
        return model

    def after_training(self, model: Any) -> Any:
        return model

    def before_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:  # noqa: ARG002
        # The epoch restarts at 0 when a training is continued; the rounds boosted do not.
        first = model.cvfolds[0].bst if hasattr(model, "cvfolds") else model
        self._tick(first.num_boosted_rounds(), id(model), None)
        return False

    def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:  # noqa: ARG002
        clock = self.objective.clock
        if clock is not None:
            iteration = clock.moment.last
            clock.stop()
            if self._watchers:
                names = {str(watcher.metric) for watcher in self._watchers}
                self._show(_xgboost_values(evals_log, names, self.valid), iteration)
        return False


def with_callback(objective: object, callbacks: list[Any] | None) -> list[Any] | None:
    """The callbacks, and the one that the objective needs if it is not among them."""
    if not isinstance(objective, Objective) or objective.clock is None:
        return callbacks
    given = list(callbacks or [])
    if any(isinstance(one, Callback) and one.objective.clock is objective.clock for one in given):
        return given
    return [callback(objective), *given]


def _missing(name: str, found: list[str], how: str) -> LambdaplugError:
    return LambdaplugError(
        f"the objective watches {name!r} on a validation set, and the training evaluates "
        f"{', '.join(found) or 'nothing'}: {how}"
    )


def _boosters(model: Any) -> list[Any]:
    return getattr(model, "boosters", None) or [model]


def _lightgbm_values(boosters: list[Any], metric: Metric, valid: str | None) -> dict[str, float]:
    names = metric.names
    values: dict[str, list[float]] = {name: [] for name in names}
    for booster in boosters:
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
    """``callbacks=[lp.callback(objective)]``, in ``train`` and ``cv`` of both hosts: tells it the iteration.

    Needed where something inside the objective changes with the iteration, harmless elsewhere. One object serves one
    training at a time. Schedules that watch a metric (``lp.on_plateau``, ``lp.guard``) see it on the validation set
    named ``valid``; default LightGBM's first and XGBoost's last. ``callback.trace`` has a row for every round then:
    iteration, weight of the parts after the first, and the metrics: with XGBoost all that it evaluates, with LightGBM
    the watched ones and those in ``metric``, such as ``lp.metric("cndcg@3", labels=valid_clicks)``.
    """
    return Callback(objective, valid, metric)
