"""Lambda constructions: the rules by which a measure's changes become forces on documents (Donmez et al. 2009, section 7.1).

The paper names five of its thirteen and defines them in a sentence each; where that leaves room, the reading taken here
is marked. dM is what the measure M changes by. M is meant in points out of 100 wherever the paper compares it with 1.
A grade is the measure's gain of a document's label. All but the last act on pairs of different grade, the better
document pushed up and the other down by the same force, so that a query's gradients sum to 0.
"""

import abc
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from ..costs import Cost
from ..custom import Custom
from ..errors import LambdaplugError, LambdaplugWarning
from ..kernels import Documents, Pull, place_kernel
from ..measures import Measure
from ..queries import Array, Queries, Task
from .base import EMPTY, Into, Ranking, Scratch
from .pairs import NO_COUNTS, ByDelta

if TYPE_CHECKING:
    from .lambdarank import LambdaRank

__all__ = [
    "Construction",
    "DiscreteBounded",
    "LocalCost",
    "LocalGradient",
    "RankNetWeightPairs",
    "SpringSmooth",
    "as_construction",
]

POINT = 0.01  # of a measure whose best value is 1
BRUTE_FORCE_WORK = 200**3  # label reads for one query's swaps, above which a warning is in place


@dataclass(frozen=True)
class Construction(abc.ABC):
    """Base of the constructions; subclasses register themselves under ``name``."""

    name: ClassVar[str] = ""
    pairwise: ClassVar[bool] = True  # forces come in opposite pairs
    costed: ClassVar[bool] = True  # the objective's cost and sigma enter
    registry: ClassVar[dict[str, type["Construction"]]] = {}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls.name:
            Construction.registry[cls.name] = cls

    def cutoff(self, measure: Measure) -> int | None:
        """The rank below which nothing acts, for the balance of work."""
        return measure.cutoff

    def ranks(self, measure: Measure) -> int | None:  # noqa: ARG002
        """How many of the top ranks it must know; None = all."""
        return None

    @property
    def reach(self) -> int | None:
        """How many ranks apart the documents of a pair may be; None: all are."""
        return None

    @property
    def least(self) -> float:
        """The least |dM| of a pair."""
        return 0.0

    def formulas(self, cost: Cost) -> tuple[Callable[..., Any], Callable[..., Any], float]:
        """The pair's cost as the kernel wants it: its fast and its exact formula, and their parameter."""
        return cost.fast, cost.exact, cost.shift

    @abc.abstractmethod
    def accumulate(
        self,
        objective: "LambdaRank",
        ranking: Ranking,
        task: Task,
        scratch: Scratch,
        into: Into,
        tier: Array = EMPTY,
        counts: npt.NDArray[np.int64] = NO_COUNTS,
    ) -> None:
        """As an objective's; with ``counts``, one per query, also count the pairs that act."""


def _positive(construction: Construction, name: str) -> None:
    value = getattr(construction, name)
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)) or not 0 < value < np.inf:
        raise LambdaplugError(f"{type(construction).__name__}: {name} must be a positive number, got {value!r}.")


@dataclass(frozen=True)
class RankNetWeightPairs(Construction):
    """force = sigma |dM(i, j)| rho for every pair of different grade, rho = 1/(1 + exp(sigma (s_i - s_j))). The default.

    Equations of the paper's section 4; with another cost, its force in place of rho.
    """

    name: ClassVar[str] = "ranknet_weight_pairs"

    def ranks(self, measure: Measure) -> int | None:
        return measure.cutoff if self.reach is None else None

    def accumulate(
        self,
        objective: "LambdaRank",
        ranking: Ranking,
        task: Task,
        scratch: Scratch,
        into: Into,
        tier: Array = EMPTY,
        counts: npt.NDArray[np.int64] = NO_COUNTS,
    ) -> None:
        measure, counted = objective.measure, counts.size > 0
        if isinstance(measure, Custom) and measure.brute_force:
            _warn_of_work(ranking.queries, measure, objective.reach)

        def make() -> ByDelta:
            order = ranking.orders[objective.ranks]
            return ByDelta(objective, ranking, order, tier, objective.reach, counted)

        engine = ranking.engine(objective, tier, make)
        query = engine(task, scratch, into, counts)
        _check(objective, query, "exchanging two documents")


@dataclass(frozen=True)
class SpringSmooth(RankNetWeightPairs):
    """The default with max(|dM|, ``floor`` points out of 100) in place of |dM|, our reading of "lower-bounded by 1".

    Every pair of different grade then has a force, also those below a cut-off, wherever the measure is defined.
    """

    floor: float = 1.0

    name: ClassVar[str] = "spring_smooth"

    def __post_init__(self) -> None:
        _positive(self, "floor")

    @property
    def least(self) -> float:
        return POINT * self.floor

    def cutoff(self, measure: Measure) -> int | None:  # noqa: ARG002
        return None


@dataclass(frozen=True)
class LocalCost(RankNetWeightPairs):
    """The default's force, between documents at most ``window`` ranks apart only (our reading; neighbours by default)."""

    window: int = 1

    name: ClassVar[str] = "local_cost"

    def __post_init__(self) -> None:
        if isinstance(self.window, bool) or not isinstance(self.window, (int, np.integer)) or self.window < 1:
            raise LambdaplugError(f"LocalCost: window must be an integer >= 1, got {self.window!r}.")

    @property
    def reach(self) -> int:
        return int(self.window)

    def cutoff(self, measure: Measure) -> int | None:
        return self.reach if measure.cutoff is None else min(self.reach, measure.cutoff)


def _slope(margin: float, shift: float) -> tuple[float, float]:
    slope = 1.0 / (abs(margin) + shift)
    return slope, slope * slope


@dataclass(frozen=True)
class LocalGradient(RankNetWeightPairs):
    """force = |dM(r, r+1)| / (|s_r - s_(r+1)| + ``margin``) between neighbours in the ranking of different grade.

    There is no pair cost: ``cost`` and ``sigma`` do not enter. Its derivative changes sign, so the hessian is our choice,
    |dM| / (|s_r - s_(r+1)| + margin)^2: a Newton step closes the gap. ``margin`` is in units of the scores; the paper
    gives no value.
    """

    margin: float = 1.0

    name: ClassVar[str] = "local_gradient"
    costed: ClassVar[bool] = False

    def __post_init__(self) -> None:
        _positive(self, "margin")

    @property
    def reach(self) -> int:
        return 1

    def formulas(self, cost: Cost) -> tuple[Callable[..., Any], Callable[..., Any], float]:
        return cost.fast, _slope, float(self.margin)  # neighbours are few: the fast one is never called

    def cutoff(self, measure: Measure) -> int | None:  # noqa: ARG002
        return 1


@dataclass(frozen=True)
class DiscreteBounded(Construction):
    """force on a document = min(``bound`` points out of 100, |M with it moved to its ideal position - M|), towards there.

    The ideal position is the document's in the order of falling grades, equal ones as they stand in the ranking; each
    document between takes the position of the next. Documents that are in no pair with it keep their positions: those
    without a label, with ``ignore_zero`` those of the label 0, and in a later tier of ``lp.Graded`` those of other tiers
    above (our reading, as is "points").

    These are forces on single documents: a query's gradients do not sum to 0, a document weight multiplies its own force
    alone, and there is no pair cost, so ``cost`` and ``sigma`` do not enter. A force that does not depend on the scores
    has no derivative; the hessian is our choice, the force itself: a Newton step is one unit of score. O(n^2) a query.
    """

    bound: float = 1.0

    name: ClassVar[str] = "discrete_bounded"
    pairwise: ClassVar[bool] = False
    costed: ClassVar[bool] = False

    def __post_init__(self) -> None:
        _positive(self, "bound")

    def cutoff(self, measure: Measure) -> int | None:  # noqa: ARG002
        return None

    def accumulate(
        self,
        objective: "LambdaRank",
        ranking: Ranking,
        task: Task,
        scratch: Scratch,
        into: Into,
        tier: Array = EMPTY,
        counts: npt.NDArray[np.int64] = NO_COUNTS,
    ) -> None:
        if counts.size:
            raise LambdaplugError(f"{objective!r} acts on single documents: it has no pairs to count.")
        queries, measure = ranking.queries, objective.measure
        prepared = objective.prepared(queries)
        weight = EMPTY if queries.document_weight is None else queries.document_weight
        documents = tuple(Documents(ranking.scores, prepared.grade, weight, tier))
        lists = queries.offsets, task.first, task.last, ranking.orders[None]
        coefficient, gradient, hessian = into
        pull = tuple(Pull(1.0, 1.0, 0.0, 0.0, objective.log, coefficient))
        room = scratch.array("moved", 3, queries.longest)
        kernel = place_kernel(measure.value)
        query = measure.run(
            kernel, tuple(prepared), documents, POINT * self.bound, pull, lists, room, (gradient, hessian)
        )
        _check(objective, query, "moving a document")


def _check(objective: "LambdaRank", query: int, what: str) -> None:
    if query >= 0:
        raise LambdaplugError(
            f"{objective!r}: in query {query}, {what} changes the measure by something not finite, or too large for "
            "float32. Its functions must return finite numbers for every order of the labels."
        )


def _warn_of_work(queries: Queries, measure: Custom, reach: int | None) -> None:
    longest = queries.longest
    work = longest * min(longest, reach or longest) * min(longest, measure.k or longest)
    if work <= BRUTE_FORCE_WORK:
        return

    def warn() -> None:
        warnings.warn(
            f"{measure!r} has no delta: every pair of documents is swapped and measured again, n^3 for a query of n, and "
            f"the longest has {longest}. Give it delta= (see lp.custom and lp.verify), or k= if only the top counts.",
            LambdaplugWarning,
            stacklevel=2,
        )

    queries.memo(("brute force", measure), warn)


def as_construction(construction: "str | Construction") -> Construction:
    """A construction by value or by name."""
    if isinstance(construction, Construction):
        return construction
    if isinstance(construction, str) and construction in Construction.registry:
        return Construction.registry[construction]()
    names = ", ".join(map(repr, Construction.registry))
    raise LambdaplugError(
        f"construction: expected one of {names}, or an object such as lp.constructions.LocalCost(window=3); "
        f"got {construction!r}."
    )
