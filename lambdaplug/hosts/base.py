"""What lambdaplug wants to know of a booster: one class, which each host's module implements."""

import abc
import functools
import inspect
import sys
import weakref
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

from ..deprecation import named
from ..kernels import openmp_team
from ..queries import Array, Queries
from ..training import DataSet, Grown, Training

__all__ = ["Host", "by_name", "calling", "waiting"]


def calling(kind: type | tuple[()], variable: str = "self") -> Any:
    """The object of this class whose method, the innermost such call, is running in this thread; None if there is none.

    With ``variable``, another of that call's variables.

    The hosts pass an objective its scores and data set, and a metric the same; neither says which Booster is training,
    which alone knows the round, its parameters and its trees. But the call comes from inside one of its methods. This and
    ``waiting`` are the places that look at the callers' frames, and None is an answer that every caller must be able to
    bear: a compiled caller has no frames, nor has one in another thread.
    """
    frame = sys._getframe(1)
    while frame is not None:
        caller = frame.f_locals.get("self") if frame.f_code.co_varnames[:1] == ("self",) else None
        if isinstance(caller, kind):
            return frame.f_locals.get(variable)
        frame = frame.f_back  # type: ignore[assignment]
    return None


def waiting(method: Callable[..., Any], handled: object) -> Any:
    """The object whose method is running, in whichever thread, with this object in a variable; None if not just one is."""
    found = []
    for frame in sys._current_frames().values():
        while frame is not None:
            if frame.f_code is getattr(method, "__code__", None):
                variables = frame.f_locals
                found += [variables["self"]] if any(one is handled for one in variables.values()) else []
            frame = frame.f_back  # type: ignore[assignment]
    return found[0] if len(found) == 1 else None


def by_name(method: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """A call's arguments by the names that the method's own signature gives them, ``self`` left out."""
    return named(method.__name__, list(inspect.signature(method).parameters)[1:], args, kwargs)


class Host(abc.ABC):
    """One host; a subclass is made once, in the host's module."""

    name: ClassVar[str]
    hessian_floor: ClassVar[str]  # the parameter that can forbid every split
    directed: ClassVar[bool]  # a metric has to say that higher is better

    def __init__(self, booster: type, module: object) -> None:
        self._booster = booster
        self._team = openmp_team(getattr(module, "_LIB", None))
        self._known: weakref.WeakKeyDictionary[Any, tuple[Any, Queries]] = weakref.WeakKeyDictionary()  # by their owner
        self._trainings: weakref.WeakKeyDictionary[Any, Training] = weakref.WeakKeyDictionary()

    def training(self, booster: Any) -> Training:
        """What is known of this Booster's training."""
        return self._trainings.setdefault(booster, Training())

    def read(self, data: Any) -> DataSet:
        """Everything about the call that brought this data set."""
        booster = calling(self._booster)
        self.check(booster, data)
        return DataSet(
            self.queries(booster, data),
            self.name,
            self.threads(booster, data),
            self._team,
            booster,
            None if booster is None else self.training(booster),
            0 if booster is None else self.trees(booster),
            self.hessian_floor,
            functools.partial(self.grown, booster),
            functools.partial(self.on_metric, booster, data),
            self.total(),
            self.is_partial(booster),
            self.is_stand_in(data),
            self.directed,
            functools.partial(self.learning_rate, booster),
        )

    @abc.abstractmethod
    def queries(self, booster: Any, data: Any) -> Queries:
        """The rows of a data set; the same object as long as it does not change."""

    @abc.abstractmethod
    def trees(self, booster: Any) -> int:
        """How many rounds the Booster has kept."""

    @abc.abstractmethod
    def threads(self, booster: Any, data: Any) -> int | None:
        """What the training was told to use."""

    @abc.abstractmethod
    def grown(self, booster: Any, rounds: int) -> Grown | None:
        """The trees of so many last rounds; None where there are none."""

    @abc.abstractmethod
    def learning_rate(self, booster: Any) -> float | None:
        """Of the round that begins; None if there is none."""

    @abc.abstractmethod
    def boosters(self, model: Any) -> Iterator[Any]:
        """The Boosters behind what a callback is given: one, or one per fold."""

    def check(self, booster: Any, data: Any) -> None:  # noqa: B027
        """Refuse parameters with which a custom objective would learn nothing."""

    def on_metric(self, booster: Any, data: Any, reported: list[tuple[str, float]]) -> None:  # noqa: B027
        """A metric reports these measures of a data set, of which higher is better."""

    def total(self) -> Callable[[Array], Array] | None:
        """How arrays are added up over the workers that train together; None on one machine."""
        return None

    def is_partial(self, booster: Any) -> bool:  # noqa: ARG002
        """Whether this is one worker of several that train together."""
        return self.total() is not None

    def is_stand_in(self, data: Any) -> bool:  # noqa: ARG002
        """Whether the data set is no more than a row for a worker without any."""
        return False
