"""The clock: what iteration it is. The only thing about an objective that changes, and it is shared, never copied.

LightGBM deep-copies objectives, Dask pickles objective and callback apart, two trainings may run in two threads. So a
clock survives a deep copy as itself, pickles as an id that finds its twin in the other process, and keeps one time a
thread.
"""

import threading
import uuid
import weakref
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

from .errors import LambdaplugError

__all__ = ["Clock", "Moment"]

_registry: "weakref.WeakValueDictionary[str, Clock]" = weakref.WeakValueDictionary()
_registering = threading.Lock()


@dataclass
class Moment:
    """The time of one training."""

    iteration: int | None = None  # None: not inside a round
    last: int = -1  # the last round's
    training: Hashable = None  # which training ticks
    data_sets: frozenset[int] | None = None  # ids of the data sets that train in this round, where the host tells
    used: set[int] = field(default_factory=set)  # ids of those that have asked for this round's time
    memory: dict[Hashable, Any] = field(default_factory=dict)  # what watching schedules have seen in this training


class Clock:
    """One small object shared by an objective and its callback."""

    def __init__(self, identity: str | None = None) -> None:
        self.identity = identity or uuid.uuid4().hex
        self._local = threading.local()
        _registry[self.identity] = self

    def __copy__(self) -> "Clock":
        return self

    def __deepcopy__(self, memo: object) -> "Clock":
        return self

    def __reduce__(self) -> Any:
        return find, (self.identity,)

    @property
    def moment(self) -> Moment:
        if not hasattr(self._local, "moment"):
            self._local.moment = Moment()
        moment: Moment = self._local.moment
        return moment

    def tick(self, iteration: int, training: Hashable, data_sets: frozenset[int] | None = None) -> None:
        """A round begins."""
        moment = self.moment
        if moment.training != training or iteration < moment.last:
            moment.training, moment.memory = training, {}
        moment.iteration = moment.last = int(iteration)
        moment.data_sets, moment.used = data_sets, set()

    def stop(self) -> None:
        """The round is over: whoever asks now has no callback of his own."""
        self.moment.iteration = None

    def read(self, data: Any, objective: object) -> int:
        """The iteration, for a data set that has not asked yet in this round."""
        moment = self.moment
        mine = moment.data_sets is None or id(data) in moment.data_sets
        if moment.iteration is None or not mine or id(data) in moment.used:
            raise LambdaplugError(
                f"nobody tells {objective!r} the iteration, and it changes with it. Add the callback that does: "
                "callbacks=[lp.callback(objective)] in lgb.train, lgb.cv, xgb.train or xgb.cv; lp.LGBMRanker and "
                "lp.XGBRanker bring it themselves. In a loop of your own over Booster.update, call "
                "lp.callback(objective).tick(i) before each update."
            )
        moment.used.add(id(data))
        return moment.iteration


def find(identity: str) -> Clock:
    """The clock with this id in this process; the first who asks makes it."""
    with _registering:
        return _registry.get(identity) or Clock(identity)
