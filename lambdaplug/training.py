"""A training as objectives and metrics see it: whose data set it is, which round, and what schedules have seen.

The hosts pass an objective its scores and a data set. ``read`` asks the reader that the data set's host has registered
for the rest.
"""

import threading
import warnings
import weakref
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from .errors import LambdaplugError, LambdaplugWarning
from .kernels import Team
from .queries import Array, Queries
from .schedules import Memory, Moment

__all__ = [
    "ROWS",
    "DataSet",
    "Grown",
    "Rows",
    "Training",
    "read",
    "register_reader",
    "register_scorer",
    "scores_of",
    "tell",
]


class Rows(NamedTuple):
    """What a host's own ranker passes in place of a data set."""

    labels: Any
    weight: Any
    group: Any


class Grown(NamedTuple):
    """The last trees of a training, and what limits their size."""

    leaves: list[int]  # of each tree
    hessian: float  # the sum over a tree's rows, the mean of the trees
    possible: int  # how many leaves the host's other limits allow
    floor: float  # the least sum of hessians that a leaf may hold


@dataclass
class Training:
    """What is known of one Booster's training, from round to round."""

    memory: Memory = field(default_factory=dict)  # what schedules have seen, and position biases learned
    moment: Moment | None = None  # the last round
    _counts: dict[Hashable, tuple[int, int]] = field(default_factory=dict)

    def round(self, objective: Hashable, trees: int) -> int:
        """The iteration that begins, from the Booster's count of its trees.

        LightGBM drops a tree without a split, and its count stands still: that round counts all the same, or a schedule
        would never leave it. XGBoost keeps such trees.
        """
        last, dropped = self._counts.get(objective, (-1, 0))
        dropped += trees == last
        self._counts[objective] = trees, dropped
        return trees + dropped


@dataclass(frozen=True)
class DataSet:
    """A host's data set as lambdaplug sees it during one call."""

    queries: Queries  # the same object as long as the data set does not change
    host: str
    threads: int | None = None  # what the host was told to use
    team: Team | None = None  # the host's own threads, idle while it waits for us
    booster: Any = None  # the Booster that is being trained, if one was found
    training: Training | None = None  # what is known of its training
    trees: int = 0  # that it has
    hessian_floor: str = ""  # the host's parameter that can forbid every split
    grown: Callable[[int], "Grown | None"] = lambda _: None  # the trees of so many last rounds; takes a millisecond
    on_metric: Callable[[list[tuple[str, float]]], None] | None = None  # told what a metric reports
    total: Callable[[Array], Array] | None = None  # adds arrays up over the workers that train together
    partial: bool = False  # one worker's share of the rows that are trained on
    stand_in: bool = False  # a row that a host needed where a worker's share has none: not to be counted
    directed: bool = False  # the host wants to be told by a metric that higher is better
    rate: Callable[[], float | None] = lambda: None  # the learning rate; takes a millisecond

    def moment(self, objective: Hashable) -> Moment:
        """The round that begins for this objective."""
        training, iteration = self.training, 0
        if training is not None:
            iteration = training.round(objective, self.trees)
        else:
            training, iteration = _counted(self.queries, objective)
        training.moment = Moment(
            iteration, training.memory, later=training.moment is not None, total=self.total, rate=self.rate
        )
        return training.moment


# --- calls for which no Booster can be found -----------------------------------------------------------------------

_calls: "weakref.WeakKeyDictionary[Queries, dict[Hashable, tuple[Training, int]]]" = weakref.WeakKeyDictionary()
_told = threading.local()


def tell(objective: Hashable, iteration: int) -> None:
    """Say the iteration of this thread's next calls for which no Booster is found."""
    if not hasattr(_told, "iterations"):
        _told.iterations = {}
    _told.iterations[objective] = int(iteration)


def _counted(queries: Queries, objective: Hashable) -> tuple[Training, int]:
    """Each call with the same data set is a round, unless the iteration was told."""
    told: int | None = getattr(_told, "iterations", {}).get(objective)
    known = _calls.setdefault(queries, {})
    if objective not in known and told is None:
        warnings.warn(
            f"{objective!r} changes with the iteration, and the Booster that is training, which knows it, was not found "
            "above this call: rounds are counted by the calls of this objective with this data set, from 0. If that is "
            "wrong, as in a continued training, say the iteration before each call: lp.callback(objective).tick(i).",
            LambdaplugWarning,
            stacklevel=5,
        )
    training, calls = known.get(objective, (Training(), 0))
    known[objective] = training, calls + 1
    return training, calls if told is None else told


# --- readers -------------------------------------------------------------------------------------------------------

_SCORERS: dict[str, Callable[[Any, Any], Any]] = {}


def register_scorer(package: str, scorer: Callable[[Any, Any], Any]) -> None:
    """Say how models whose class comes from this package score rows."""
    _SCORERS[package] = scorer


def scores_of(system: Any, X: Any) -> Any:
    """Scores as they are, or those that a model gives the rows of X."""
    if not hasattr(system, "predict"):
        return system
    if X is None:
        raise LambdaplugError(
            f"got a model ({type(system).__name__}) in place of scores: give the rows to score as X=, or its scores."
        )
    packages = [kind.__module__.partition(".")[0] for kind in type(system).__mro__]
    return next((_SCORERS[name] for name in packages if name in _SCORERS), type(system).predict)(system, X)


ROWS = "rows"  # in place of a package
_READERS: dict[str, Callable[[Any], DataSet]] = {}


def register_reader(package: str, reader: Callable[[Any], DataSet]) -> None:
    """Say how data sets whose class comes from this package are read, or ``ROWS``."""
    _READERS[package] = reader


def read(data: Any) -> DataSet:
    """The data set that a host passed to an objective or a metric."""
    if isinstance(data, Rows):
        return _READERS[ROWS](data)
    for kind in type(data).__mro__:
        package = kind.__module__.partition(".")[0]
        if package in _READERS:
            return _READERS[package](data)
    raise LambdaplugError(
        f"expected a data set of {' or '.join(sorted(set(_READERS) - {ROWS}))} as the second argument, got {type(data).__name__}. "
        "For arrays use objective.gradients(labels=, scores=, group=) or lp.evaluate; for scikit-learn's interface "
        "lp.LGBMRanker and lp.XGBRanker."
    )
