"""Schedules: from the boosting iteration (0 is the first tree) to a number. Any callable of the iteration is one.

These are values: they print, compare, hash and pickle.
"""

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar, NamedTuple, TypeAlias

from .checking import not_negative, positive
from .errors import LambdaplugError
from .measures import Measure, as_measure
from .values import Value, keep

__all__ = ["cosine", "exponential", "guard", "join", "linear", "on_plateau", "step"]

Number: TypeAlias = float | Callable[[int], float]
Memory: TypeAlias = dict[Hashable, Any]


def clip(weight: float) -> float:
    return min(max(weight, 0.0), 1.0)


def is_constant(number: Number) -> bool:
    return not callable(number)


def at(number: Number, iteration: int, memory: Memory | None = None) -> float:
    """The number at this iteration; ``memory`` is what a watching schedule has seen in this training."""
    now = number.value(memory) if isinstance(number, OnPlateau) else number(iteration) if callable(number) else number
    if not math.isfinite(now):
        raise LambdaplugError(f"{number!r} is {now} at iteration {iteration}: a weight must be a finite number.")
    return float(now)


def constant(number: Number) -> float:
    """A number that no schedule stands for any more."""
    assert not callable(number)
    return number


class Learned(NamedTuple):
    """What a training has learned in a round, and what it knew before."""

    iteration: int
    before: Any
    after: Any


@dataclass(eq=False)
class Moment:
    """One round of a training: asks each schedule for its number once, however often that is used."""

    iteration: int
    memory: Memory | None = None
    look: bool = False  # no round: nothing is kept
    later: bool = False  # the training has had rounds before
    total: Callable[[Any], Any] | None = None  # adds arrays up over the workers that train together
    rate: Callable[[], float | None] = lambda: None  # the booster's learning rate; None if it is not known
    weights: dict[Hashable, list[float]] = field(default_factory=dict)  # of the sums in it, once they are known
    values: dict[Hashable, list[float]] = field(default_factory=dict)  # of the parts' measures, if weights follow them
    _numbers: dict[Number, float] = field(default_factory=dict)  # by the schedule

    def number(self, number: Number) -> float:
        """What it is in this round."""
        if not callable(number):
            return number
        if number not in self._numbers:
            self._numbers[number] = at(number, self.iteration, self.memory)
        return self._numbers[number]

    def recall(self, key: Hashable) -> Any:
        """What was learned before this round, however often it is asked for; None if nothing was."""
        known: Learned | None = (self.memory or {}).get(key)
        if known is None:
            return None
        return known.after if known.iteration < self.iteration else known.before

    def keep(self, key: Hashable, value: Any) -> None:
        """Have later rounds recall this."""
        if self.memory is not None and not self.look:
            self.memory[key] = Learned(self.iteration, self.recall(key), value)


def check(number: object, name: str, example: str = "lp.linear(0.1, 0.01)") -> Number:
    """A finite number or a callable of the iteration."""
    if callable(number):
        return number
    return not_negative(number, name, f", or a schedule such as {example}")


def check_of_iteration(number: object, name: str, example: str) -> Number:
    """``check`` of what is no mixture's weight."""
    if isinstance(number, OnPlateau):
        raise LambdaplugError(
            f"{name}: lp.on_plateau moves a mixture's weights: use it alone, or a schedule of the iteration."
        )
    return check(number, name, example)


@dataclass(frozen=True, repr=False)
class linear(Value):
    """w_m = start + m * rate, clipped to [0, 1].

    Parameters
    ----------
    start : float
        The weight of the first tree.
    rate : float
        What each further tree adds.

    Examples
    --------
    >>> [round(linear(0.1, 0.25)(m), 2) for m in (0, 1, 4)]
    [0.1, 0.35, 1.0]
    """

    start: float
    rate: float

    def __call__(self, iteration: int) -> float:
        return clip(self.start + iteration * self.rate)


@dataclass(frozen=True, repr=False)
class exponential(Value):
    """w_m = w_(m-1) + exp(-eta/m), w_0 = start, clipped to [0, 1]: slow for the first trees, then fast.

    Parameters
    ----------
    start : float
        The weight of the first tree.
    eta : float
        The larger, the later the weight grows.

    References
    ----------
    K. Svore, M. Volkovs, C. Burges (2011), "Learning to rank with multiple objective functions", WWW.

    Examples
    --------
    >>> [round(exponential(0.1, 100)(m), 3) for m in (0, 20, 30, 60)]
    [0.1, 0.123, 0.331, 1.0]
    """

    start: float
    eta: float

    def __call__(self, iteration: int) -> float:
        weight = self.start
        for m in range(1, iteration + 1):
            weight += math.exp(-self.eta / m)
        return clip(weight)


@dataclass(frozen=True, repr=False)
class cosine(Value):
    """w_m = end + (start - end) (1 + cos(pi m/rounds))/2 for m < rounds, and end from then on.

    Parameters
    ----------
    start, end : float
        The first value and the last.
    rounds : int
        How many trees the way takes.

    Examples
    --------
    >>> [round(cosine(0.0, 1.0, 10)(m), 2) for m in (0, 5, 10, 20)]
    [0.0, 0.5, 1.0, 1.0]
    """

    start: float
    end: float
    rounds: int

    def __post_init__(self) -> None:
        positive(self.rounds, "cosine: rounds")

    def __call__(self, iteration: int) -> float:
        done = min(iteration / self.rounds, 1.0)
        return self.end + (self.start - self.end) * 0.5 * (1.0 + math.cos(math.pi * done))


@dataclass(frozen=True, repr=False)
class step(Value):
    """Piecewise constant: ``step({0: 0.1, 50: 0.5})`` is 0.1 for the first 50 trees, then 0.5.

    Parameters
    ----------
    values : mapping
        From the iteration at which a value begins to the value; it has a value for iteration 0. Pairs of both will do.

    Examples
    --------
    >>> [step({0: 0.1, 50: 0.5})(m) for m in (0, 49, 50)]
    [0.1, 0.1, 0.5]
    """

    values: Mapping[int, float] | Sequence[tuple[int, float]]

    def __post_init__(self) -> None:
        values = dict(self.values)
        if min(values, default=-1) != 0:
            raise LambdaplugError(
                f"step: say the value from iteration 0 on, e.g. {{0: 0.1, 50: 0.5}}; got {self.values!r}."
            )
        keep(self, values=tuple(sorted(values.items())))

    def __call__(self, iteration: int) -> float:
        return [value for start, value in dict(self.values).items() if start <= iteration][-1]


@dataclass(frozen=True, repr=False)
class join(Value):
    """One schedule after another: ``join([a, b], [100])`` is a for 100 trees, then b, which starts at its own 0.

    Parameters
    ----------
    schedules : sequence
        Schedules or numbers.
    boundaries : sequence of int
        The iterations at which the second, third, ... begin.

    Examples
    --------
    >>> join([linear(0.0, 0.1), 0.7], [3])(5)
    0.7
    """

    schedules: Sequence[Number]
    boundaries: Sequence[int]

    def __post_init__(self) -> None:
        schedules, bounds = tuple(self.schedules), tuple(self.boundaries)
        if len(bounds) != len(schedules) - 1 or list(bounds) != sorted(bounds):
            raise LambdaplugError(
                f"join: {len(schedules)} schedules need {len(schedules) - 1} rising boundaries, got {bounds!r}."
            )
        own = tuple(check_of_iteration(schedule, "join", "lp.linear(0.1, 0.01)") for schedule in schedules)
        keep(self, schedules=own, boundaries=bounds)

    def __call__(self, iteration: int) -> float:
        passed = [0, *(boundary for boundary in self.boundaries if boundary <= iteration)]
        return at(self.schedules[len(passed) - 1], iteration - passed[-1])


# --- schedules that watch a validation metric; the callback shows it to them ---------------------------------------


@dataclass(frozen=True, repr=False)
class Watcher(Value):
    """A schedule that watches a validation metric, and remembers in a training's memory what it has seen."""

    metric: str | Measure

    def __post_init__(self) -> None:
        keep(self, metric=as_measure(self.metric))

    @property
    def measure(self) -> Measure:
        """What it watches."""
        return as_measure(self.metric)


@dataclass(frozen=True, repr=False)
class OnPlateau(Watcher):
    """A weight that moves from start towards end by step whenever a validation metric has stopped rising.

    ``lp.callback(objective)`` shows it the metric each round. A continued training starts it anew. It is a weight of
    ``lp.Mixture``, ``lp.Graded`` or ``lp.interpolate``.

    Parameters
    ----------
    metric : str or Measure
        The validation metric to watch; the training must evaluate it.
    patience : int
        After so many rounds without a rise the weight moves.
    start, end : float
        The first weight and the last.
    step : float
        What it moves by, towards ``end``.
    min_delta : float
        A rise is a metric above the best so far plus this.

    Examples
    --------
    >>> import lambdaplug as lp
    >>> weight = lp.on_plateau("ndcg@10", patience=5)
    >>> objective = lp.interpolate(lp.LambdaRank("ndcg"), lp.LambdaRank("map"), weight=weight)
    >>> objective.weights_at()  # before any round was seen
    [1.0, 0.0]
    """

    patience: int = 10
    _: KW_ONLY
    start: float = 0.0
    end: float = 1.0
    step: float = 0.1
    min_delta: float = 0.0

    called_as: ClassVar[str] = "on_plateau"

    def __post_init__(self) -> None:
        if self.patience < 1 or self.step == 0 or (self.end - self.start) * self.step < 0:
            raise LambdaplugError(
                f"on_plateau: expected a patience >= 1 and a step from start towards end, got patience={self.patience!r}, "
                f"start={self.start!r}, end={self.end!r}, step={self.step!r}."
            )
        super().__post_init__()

    def __call__(self, iteration: int) -> float:
        return self.start  # outside a training nothing has been seen

    def seen(self, memory: Memory | None) -> tuple[float, float, int]:
        """The weight, the best metric so far, and the rounds without a rise."""
        known: tuple[float, float, int] = (memory or {}).get(self, (self.start, -math.inf, 0))
        return known

    def value(self, memory: Memory | None) -> float:
        return self.seen(memory)[0]

    def observe(self, value: float, memory: Memory) -> None:
        """One more round's metric."""
        weight, best, waited = self.seen(memory)
        if value > best + self.min_delta:
            memory[self] = weight, value, 0
        elif waited + 1 < self.patience:
            memory[self] = weight, best, waited + 1
        else:
            low, high = sorted((self.start, self.end))
            memory[self] = min(max(weight + self.step, low), high), best, 0


@dataclass(frozen=True, repr=False)
class Guard(Watcher):
    """Keep a validation metric above a floor: improve the later parts of a Graded or Mixture without paying in the first.

    After a round below the floor the later parts' weights are multiplied by ``down``, after any other by ``up`` (never
    beyond what they were given, never below ``least`` of it); what they lose goes to the first part. It is for ``guard=`` of
    ``lp.Mixture``, ``lp.Graded``, ``lp.interpolate`` and ``lp.Pareto``, with ``lp.callback(objective)``.

    Parameters
    ----------
    metric : str or Measure
        The validation metric to keep up; the training must evaluate it.
    floor : float
        Its least value.
    down, up : float
        What the weights are multiplied by, below 1 and above 1.
    least : float
        The least share of the weights that stays.

    Examples
    --------
    >>> import lambdaplug as lp
    >>> tiers = [lp.LambdaRank("ndcg"), lp.LambdaRank("cndcg", labels="clicks")]
    >>> objective = lp.Graded(tiers, guard=lp.guard("ndcg@3", floor=0.6))
    """

    floor: float
    _: KW_ONLY
    down: float = 0.5
    up: float = 1.1
    least: float = 1e-3

    called_as: ClassVar[str] = "guard"

    def __post_init__(self) -> None:
        if not (0.0 < self.down < 1.0 < self.up and 0.0 < self.least < 1.0):
            raise LambdaplugError(
                f"guard: expected 0 < down < 1 < up and 0 < least < 1, got {self.down!r}, {self.up!r} and {self.least!r}."
            )
        super().__post_init__()

    def value(self, memory: Memory | None) -> float:
        """What is left of the later parts' weight."""
        share: float = (memory or {}).get(self, 1.0)
        return share

    def applied(self, weights: list[float], memory: Memory | None) -> list[float]:
        """The weights with that share of the later ones; what those lose goes to the first."""
        share = self.value(memory)
        later = [weight * share for weight in weights[1:]]
        return [weights[0] + sum(weights[1:]) - sum(later), *later] if share != 1.0 else weights

    def observe(self, value: float, memory: Memory) -> None:
        share = self.value(memory)
        memory[self] = max(share * self.down, self.least) if value < self.floor else min(share * self.up, 1.0)


# As functions are called: each call makes one.
on_plateau = OnPlateau
guard = Guard
