"""Lambda constructions: the rules by which a measure's changes become forces on documents (Donmez et al. 2009, section 7.1).

The paper names five of its thirteen and defines them in a sentence each; where that leaves room, the reading taken here
is marked. Two more are later work: the weights of NDCG-Loss2++ and the pairs of Lambda-eX. dM is what the measure M changes by. M is meant in points out of 100 wherever the paper compares it with 1.
A grade is the measure's gain of a document's label. All but the last act on pairs of different grade, the better
document pushed up and the other down by the same force, so that a query's gradients sum to 0.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from ..checking import integer, not_negative, positive
from ..costs import Cost
from ..custom import Custom
from ..errors import LambdaplugError, LambdaplugWarning
from ..kernels import CHOICES, Leaf, PairDelta, Pull, order_kernel, places
from ..measures import Measure, Prepared, registered
from ..measures.base import begin_rows, raised
from ..measures.discounted import spaced_delta, spaced_rows
from ..queries import Array, Queries
from ..rows import levels
from ..values import Value, keep
from .base import Round
from .pairs import NO_COUNTS, Choice, pair_leaf
from .smoothing import label_hash

if TYPE_CHECKING:
    from .lambdarank import LambdaRank

__all__ = [
    "Construction",
    "DiscreteBounded",
    "Extended",
    "LocalCost",
    "LocalGradient",
    "Loss2",
    "RankNetWeightPairs",
    "SpringSmooth",
    "as_construction",
]

POINT = 0.01  # of a measure whose best value is 1
BRUTE_FORCE_WORK = 200**3  # label reads for one query's swaps, above which a warning is in place


@dataclass(frozen=True, repr=False)
class Construction(Value):
    """Base of the constructions: how changes of a measure become forces. Subclasses register themselves under ``name``.

    Examples
    --------
    >>> import lambdaplug as lp
    >>> isinstance(lp.constructions.Loss2(), lp.constructions.Construction)
    True
    """

    registry: ClassVar[dict[str, type["Construction"]]] = {}

    name: ClassVar[str] = ""
    pairwise: ClassVar[bool] = True  # forces come in opposite pairs
    costed: ClassVar[bool] = True  # the objective's cost and sigma enter
    everywhere: ClassVar[bool] = False  # it also acts below the measure's cut-off
    reach: ClassVar[int | None] = None  # how many ranks apart the documents of a pair may be; None: all are
    least: ClassVar[float] = 0.0  # the least |dM| of a pair
    by_rows: ClassVar[bool] = False  # the loops by rows know it
    spaced: ClassVar[bool] = False  # |dM| has a summand by the distance of two ranks: see ``swap_rows``

    def __init_subclass__(cls, **flags: Any) -> None:
        super().__init_subclass__()
        for flag, value in flags.items():
            setattr(cls, flag, value)
        if cls.name:
            Construction.registry[cls.name] = cls

    def written(self) -> str:
        return repr(self.name if self == type(self)() else self)

    def cutoff(self, measure: Measure) -> int | None:
        """The rank below which nothing acts, for the balance of work."""
        known = [k for k in (self.reach, measure.cutoff) if k is not None and not self.everywhere]
        return min(known, default=None)

    def formulas(self, cost: Cost) -> tuple[Callable[..., Any], Callable[..., Any], float]:
        """The pair's cost as the kernel wants it: its fast and its exact formula, and their parameter."""
        return cost.fast, cost.exact, cost.shift

    def check(self, measure: Measure) -> None:
        """Refuse a measure for which it means nothing."""

    # What the pair engine asks.

    def raises(self, measure: Measure) -> bool:
        """Whether pairs below the measure's cut-off are weighed as if one of the two stood at it."""
        return False

    def seen(self, objective: "LambdaRank", queries: Queries, prepared: Prepared) -> Prepared:
        """What ``swap_rows`` are made of."""
        return prepared

    def swap_rows(self, measure: Measure) -> Callable[..., int]:
        """The function that fills the swap rows."""
        return measure.swap_rows()

    def pair_delta(self, measure: Measure, prepared: Prepared) -> PairDelta:
        """The same as a function of two ranks."""
        return measure.pair_delta(prepared=prepared)

    def choice(self, objective: "LambdaRank", queries: Queries) -> Choice | None:
        """Which documents' pairs count, for one round; None: all do."""
        return None

    def leaf(
        self, objective: "LambdaRank", round: Round, tier: Array, counts: npt.NDArray[np.int64] = NO_COUNTS
    ) -> Leaf:
        """As a part of a round; see ``pair_leaf``."""
        measure = objective.kind
        if isinstance(measure, Custom) and measure.brute_force:
            reach, longest = objective.reach, round.queries.longest
            round.queries.memo(
                ("brute force", measure, reach), lambda: _warn_of_work(measure, longest, reach or longest)
            )
        return pair_leaf(objective, round, tier, counts)

    def refuse(self, objective: "LambdaRank", query: int, what: str = "exchanging two documents") -> None:
        raise LambdaplugError(
            f"{objective!r}: in query {query}, {what} changes the measure by something not finite, or too large for "
            "float32. Its functions must return finite numbers for every order of the labels."
        )


@dataclass(frozen=True, repr=False)
class RankNetWeightPairs(Construction, name="ranknet_weight_pairs", by_rows=True):
    """force = sigma |dM(i, j)| rho for every pair of different grade, rho = 1/(1 + exp(sigma (s_i - s_j))). The default.

    Equations of the paper's section 4; with another cost, its force in place of rho.

    Examples
    --------
    >>> import lambdaplug as lp
    >>> lp.LambdaRank("ndcg@10", construction=lp.constructions.RankNetWeightPairs())
    LambdaRank('ndcg@10')
    """


@dataclass(frozen=True, repr=False)
class SpringSmooth(Construction, name="spring_smooth", everywhere=True):
    """The default with max(|dM|, ``floor`` points out of 100) in place of |dM|, our reading of "lower-bounded by 1".

    Every pair of different grade then has a force, also those below a cut-off, wherever the measure is defined.

    Parameters
    ----------
    floor : float
        The least |dM|, in points out of 100.

    Examples
    --------
    >>> import lambdaplug as lp
    >>> lp.LambdaRank("ndcg@10", construction=lp.constructions.SpringSmooth(0.5))
    LambdaRank('ndcg@10', construction=SpringSmooth(floor=0.5))
    """

    floor: float = 1.0

    def __post_init__(self) -> None:
        keep(self, floor=positive(self.floor, "SpringSmooth: floor"))

    least = property(lambda self: POINT * self.floor)


@dataclass(frozen=True, repr=False)
class LocalCost(Construction, name="local_cost"):
    """The default's force, between documents at most ``window`` ranks apart only (our reading; neighbours by default).

    Parameters
    ----------
    window : int
        At most so many ranks apart.

    Examples
    --------
    >>> import lambdaplug as lp
    >>> lp.LambdaRank("ndcg@10", construction=lp.constructions.LocalCost(2))
    LambdaRank('ndcg@10', construction=LocalCost(window=2))
    """

    window: int = 1

    def __post_init__(self) -> None:
        keep(self, window=integer(self.window, "LocalCost: window"))

    reach = property(lambda self: self.window)


def _slope(margin: float, shift: float) -> tuple[float, float]:
    slope = 1.0 / (abs(margin) + shift)
    return slope, slope * slope


@dataclass(frozen=True, repr=False)
class LocalGradient(Construction, name="local_gradient", costed=False, reach=1):
    """force = |dM(r, r+1)| / (|s_r - s_(r+1)| + ``margin``) between neighbours in the ranking of different grade.

    There is no pair cost: ``cost`` and ``sigma`` do not enter. Its derivative changes sign, so the hessian is our choice,
    |dM| / (|s_r - s_(r+1)| + margin)^2: a Newton step closes the gap. ``margin`` is in units of the scores; the paper
    gives no value.

    Parameters
    ----------
    margin : float
        In units of the scores, > 0; the paper gives no value.

    Examples
    --------
    >>> import lambdaplug as lp
    >>> lp.LambdaRank("ndcg@10", construction=lp.constructions.LocalGradient(0.5))
    LambdaRank('ndcg@10', construction=LocalGradient(margin=0.5))
    """

    margin: float = 1.0

    def __post_init__(self) -> None:
        keep(self, margin=positive(self.margin, "LocalGradient: margin"))

    def formulas(self, cost: Cost) -> tuple[Callable[..., Any], Callable[..., Any], float]:
        return cost.fast, _slope, float(self.margin)  # neighbours are few: the fast one is never called


@dataclass(frozen=True, repr=False)
class DiscreteBounded(Construction, name="discrete_bounded", pairwise=False, costed=False, everywhere=True):
    """force on a document = min(``bound`` points out of 100, |M with it moved to its ideal position - M|), towards there.

    The ideal position is the document's in the order of falling grades, equal ones as they stand in the ranking; each
    document between takes the position of the next. Documents that are in no pair with it keep their positions: those
    without a label, with ``ignore_zero`` those of the label 0, and in a later tier of ``lp.Graded`` those of other tiers
    above (our reading, as is "points").

    These are forces on single documents: a query's gradients do not sum to 0, a document weight multiplies its own force
    alone, and there is no pair cost, so ``cost`` and ``sigma`` do not enter. A force that does not depend on the scores
    has no derivative; the hessian is our choice, the force itself: a Newton step is one unit of score. O(n^2) per query.

    Parameters
    ----------
    bound : float
        The largest force, in points out of 100.

    Examples
    --------
    >>> import lambdaplug as lp
    >>> lp.LambdaRank("ndcg@10", construction=lp.constructions.DiscreteBounded(2.0))
    LambdaRank('ndcg@10', construction=DiscreteBounded(bound=2))
    """

    bound: float = 1.0

    def __post_init__(self) -> None:
        keep(self, bound=positive(self.bound, "DiscreteBounded: bound"))

    def leaf(
        self, objective: "LambdaRank", round: Round, tier: Array, counts: npt.NDArray[np.int64] = NO_COUNTS
    ) -> Leaf:
        if counts.size:
            raise LambdaplugError(f"{objective!r} acts on single documents: it has no pairs to count.")
        prepared, measure = objective.prepared(round.queries), objective.kind
        columns = round.queries.weights(objective.weight), tier
        pull = tuple(Pull(1.0, 1.0, 0.0, 0.0, objective.log, round.coefficient))

        def refuse(query: int) -> None:
            self.refuse(objective, query, "moving a document")

        values = prepared.given, columns, POINT * self.bound, pull, round.level
        return Leaf(places, (order_kernel(measure.value, measure.tabled),), values, refuse, measure)


@dataclass(frozen=True, repr=False)
class Loss2(Construction, name="loss2", by_rows=True):
    """NDCG-Loss2++: the default's force with another weight of the pair in place of |dM(i, j)|,

        w = |G_i - G_j| (|D(r_i) - D(r_j)| + mu |D(m) - D(m + 1)|) / ideal,  m = |r_i - r_j| >= 1,

    with the measure's own gain G, discount D and ideal value (1 where it has none), ranks r from 1. The first summand is
    |dM|, so ``mu=0`` is the default; the second is a bound that pairs close together feel most. With a cut-off k, D(r) is 0
    beyond k in the first summand, and in m all ranks beyond k are k + 1, as TF-Ranking has it: pairs below k do not act.
    For measures with a discount that falls: ndcg, dcg, cndcg, rbp.

    Parameters
    ----------
    mu : float
        The weight of the second summand, >= 0; 10 in the paper.

    References
    ----------
    X. Wang, C. Li, N. Golbandi, M. Bendersky, M. Najork (2018), "The LambdaLoss framework for ranking
    metric optimization", CIKM.

    Examples
    --------
    >>> import lambdaplug as lp
    >>> lp.LambdaRank("ndcg", construction=lp.constructions.Loss2(mu=5))
    LambdaRank('ndcg', construction=Loss2(mu=5))
    """

    mu: float = 10.0

    def __post_init__(self) -> None:
        keep(self, mu=not_negative(self.mu, "Loss2: mu"))

    def check(self, measure: Measure) -> None:
        if not measure.falling:
            possible = ", ".join(sorted(name for name, kind in registered().items() if kind.falling))
            raise LambdaplugError(
                f"Loss2 needs a measure that is a sum of gain x discount, with a discount that falls: {possible}; got "
                f"{measure}."
            )

    spaced = property(lambda self: self.mu > 0.0)

    def seen(self, objective: "LambdaRank", queries: Queries, prepared: Prepared) -> Prepared:
        def make() -> Prepared:
            table = np.zeros(len(prepared.discount))
            full = objective.kind.discounts(len(table))
            table[1:] = self.mu * np.abs(np.diff(full))
            return prepared._replace(discount=np.concatenate([prepared.discount, table]))

        if not self.spaced:
            return prepared
        return queries.memo((self, objective.kind, objective.labels, objective.ignore_zero), make)

    def swap_rows(self, measure: Measure) -> Callable[..., int]:
        return spaced_rows if self.spaced else measure.swap_rows()

    def pair_delta(self, measure: Measure, prepared: Prepared) -> PairDelta:
        return PairDelta(begin_rows, spaced_delta) if self.spaced else super().pair_delta(measure, prepared)


def _fields(kind: type[Measure]) -> dict[str, Any]:
    return {field.name: field for field in fields(kind)}


@dataclass(frozen=True, repr=False)
class Extended(Construction, name="extended", by_rows=True, everywhere=True):
    """Lambda-eX: more pairs for a measure with a cut-off k. A pair needs a document in C, where LambdaRank wants one in the
    first k.

    C is the first k and, for each grade of which the ideal first k have more documents than the present ones, documents
    of that grade from below: as many as are missing, those with the highest scores (``"static"``) or drawn anew in every
    round (``"random"``); or ``"all"`` of that grade. They are drawn by hash from the objective's ``seed`` and the query's
    scores and labels. With ``noise``, ranks are those of the noisy order.

    Below k the measure itself never changes. For those that mean something without a cut-off (cndcg, dcg, err, map,
    meanndcg, mrr, ndcg, rbp), |dM| is what the swap changes by the measure without it, over the same ideal value as with
    it, as LightGBM's and XGBoost's pairs of truncated lists have it. Precision, recall, hit, wta and your own measures with
    ``k=`` have no such form: a pair above or across k weighs its swap, and one below k (our reading)

        |dM(i, j)| = |M_i - M_j|,  M_i: M after the document at rank k and i change places,

    how much it matters which of the two takes the last rank that counts: |rel_i - rel_j| / k for precision.

    Parameters
    ----------
    documents : 'static', 'random' or 'all'
        Which documents from below.

    References
    ----------
    F. Marcuzzi, C. Lucchese, S. Orlando (2023), "LambdaRank gradients are incoherent", CIKM.

    Examples
    --------
    >>> import lambdaplug as lp
    >>> lp.LambdaRank("ndcg@10", construction=lp.constructions.Extended("all"))
    LambdaRank('ndcg@10', construction=Extended(documents='all'))
    """

    documents: str = "static"

    def __post_init__(self) -> None:
        if self.documents not in CHOICES:
            known = ", ".join(map(repr, CHOICES))
            raise LambdaplugError(f"Extended: expected one of {known}, got {self.documents!r}.")

    def check(self, measure: Measure) -> None:
        if measure.cutoff is None:
            possible = ", ".join(sorted(f"{name}@k" for name, kind in registered().items() if "k" in _fields(kind)))
            raise LambdaplugError(
                f"Extended adds pairs from below a measure's cut-off: expected one of {possible}, wta, or lp.custom with "
                f"k=; {measure} has no cut-off."
            )

    def raises(self, measure: Measure) -> bool:
        own = _fields(type(measure)).get("k")  # a measure that may be cut off, and need not be, is weighed without it
        return isinstance(measure, Custom) or own is None or own.default is not None

    def pair_delta(self, measure: Measure, prepared: Prepared) -> PairDelta:
        pair = super().pair_delta(measure, prepared)
        return raised(pair) if self.raises(measure) else pair

    def seen(self, objective: "LambdaRank", queries: Queries, prepared: Prepared) -> Prepared:
        def make() -> Prepared:
            longest = len(prepared.discount)
            discount = np.ascontiguousarray(objective.kind.discounts(longest), dtype=np.float64)
            return prepared._replace(discount=discount, k=longest)

        if self.raises(objective.kind):
            return prepared
        return queries.memo(("uncut", objective.kind, objective.labels, objective.ignore_zero), make)

    def choice(self, objective: "LambdaRank", queries: Queries) -> Choice:
        grade = objective.prepared(queries).grade
        key = ("levels", objective.kind, objective.labels, objective.ignore_zero)
        about = queries.memo(key, lambda: np.nan_to_num(levels([grade], queries.offsets), nan=-1).astype(np.int32))
        rule = CHOICES[self.documents], int(objective.kind.cutoff or 0), objective.seed
        return Choice(rule, about, label_hash(objective.labels, queries), np.zeros(len(grade)))


def _warn_of_work(measure: Custom, longest: int, reach: int) -> None:
    if longest * min(longest, reach) * min(longest, measure.k or longest) > BRUTE_FORCE_WORK:
        warnings.warn(
            f"{measure} has no delta: every pair of documents is swapped and measured again, n^3 for a query of n, and "
            f"the longest has {longest}. Give it delta= (see lp.custom and lp.verify), or k= if only the top counts.",
            LambdaplugWarning,
            stacklevel=2,
        )


def as_construction(construction: "str | Construction") -> Construction:
    """A construction by value or by name.

    Parameters
    ----------
    construction : str or Construction
        Such as ``"loss2"``.

    Returns
    -------
    Construction
        That of this name, with its default parameters; or the one given.

    Examples
    --------
    >>> as_construction("loss2")
    Loss2()
    """
    if isinstance(construction, Construction):
        return construction
    if isinstance(construction, str) and construction in Construction.registry:
        return Construction.registry[construction]()
    names = ", ".join(map(repr, Construction.registry))
    raise LambdaplugError(
        f"construction: expected one of {names}, or an object such as lp.constructions.LocalCost(window=3); "
        f"got {construction!r}."
    )
