"""A training as objectives and metrics see it: whose data set it is, which round, and what schedules have seen.

The hosts pass an objective its scores and a data set. ``read`` asks the reader that the data set's host has registered
for the rest.
"""

import functools
import threading
import warnings
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


@dataclass
class Training:
    """What one Booster's training has learned, and in which round: the only place for it. Nothing here holds the Booster."""

    memory: Memory = field(default_factory=dict)  # what schedules have seen, and what objectives have learned
    iteration: int | None = None  # of the last round
    weights: dict[Hashable, list[float]] = field(default_factory=dict)  # of the sums, in the last round
    values: dict[Hashable, list[float]] = field(default_factory=dict)  # of the parts' measures, then
    dropped: int = 0  # rounds whose trees the host has dropped
    last: Any = None  # what the host tells a dropped tree by
    threads: int | None = None  # what the host was told to use
    rows: tuple[Rows, Queries] | None = None  # those that came without a data set
    looked: int = 0  # rounds that were watched
    warned: bool = False
    checked: bool = False  # its parameters have been looked through
    named: bool = False  # the metrics' names have been compared with the host's own
    total: Callable[[Array], Array] | None = (
        None  # adds arrays up over the workers that train together, where we bring the sums
    )
    uneven: bool = False  # on some worker the weights differ within a query


@dataclass(frozen=True)
class DataSet:
    """A host's data set as lambdaplug sees it during one call."""

    queries: Queries  # the same object as long as the data set does not change
    host: Any  # hosts.base.Host
    booster: Any  # that this call belongs to; None if none was found
    training: Training | None  # what is known of its training
    look: bool  # the Booster does not grow a tree by this call: it is no round, and nothing is learned
    asked: str  # "objective" or "metric": what the Booster itself called; empty where a function of the user's did
    threads: int | None  # what the host was told to use
    team: Team | None  # the host's own threads, idle while it waits for us
    total: Callable[[Array], Array] | None  # adds arrays up over the workers that train together
    partial: bool  # one worker's share of the rows that are trained on

    def moment(self, objective: Hashable, scores: Array) -> Moment:
        """The round that begins for this objective, or that is only looked at."""
        training, look = self.training, self.look
        if training is not None:
            iteration = self.host.iteration(self.booster, look, scores)
        else:
            told: int | None = getattr(_told, "iterations", {}).get(objective)
            if told is None:
                _warn_of_no_booster(objective)
                return Moment(0, total=self.total)
            training, look, iteration = self.queries.memo(("training", objective), Training), False, told
        later = not look and training.iteration not in (None, iteration)
        rate = functools.partial(self.host.learning_rate, self.booster)
        moment = Moment(iteration, training.memory, look=look, later=later, total=self.total, rate=rate)
        if not look:  # of the moment itself nothing is kept: its rate holds the Booster
            training.iteration, training.weights, training.values = iteration, moment.weights, moment.values
        return moment


# --- calls for which no Booster can be found -----------------------------------------------------------------------

_told = threading.local()


def tell(objective: Hashable, iteration: int) -> None:
    """Say the iteration of this thread's next calls for which no Booster is found."""
    if not hasattr(_told, "iterations"):
        _told.iterations = {}
    _told.iterations[objective] = int(iteration)


def _warn_of_no_booster(objective: Hashable) -> None:
    warnings.warn(
        f"{objective!r} changes with the iteration, and the Booster that is training, which knows it, was not found above "
        "this call: this is the gradient of iteration 0, and nothing is learned from it. Say the iteration before each call: "
        "lp.callback(objective).tick(i).",
        LambdaplugWarning,
        stacklevel=5,
    )


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
