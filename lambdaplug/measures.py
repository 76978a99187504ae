"""Every ranking measure: its value and its swap delta, side by side. To add one, write one class here.

A measure is a value: it prints as text that parses back, compares, hashes and pickles.

>>> as_measure("ndcg@10") == NDCG(k=10)
True
>>> NDCG(k=10, gain="linear")
ndcg@10(gain='linear')

``gains(labels)`` says what labels are worth: of two documents, the one with the higher gain belongs above, whatever the
labels, and documents of equal gain are in no pair.

Three functions say what a measure is. All take the gains of one query's documents in rank order, a table of discounts
by rank (entry 0 is rank 1; zero beyond the cut-off) and the cut-off k; they are plain Python that Numba can compile.

``value(gain, discount, k)``
    the measure of this ranking, before normalisation.
``norm(gain, discount, k)``
    the normaliser (1/ideal DCG, 1/relevant documents, ...) from the gains in IDEAL order; 0 where the measure is
    undefined.
``swap(gain, discount, k, upper, lower, scale)``
    what exchanging two documents changes. With a ranked above b, every measure's delta has the form

        |delta(a, b)| = norm * |gain_a - gain_b| * scale_a * |upper_a - lower_b|

    so ``swap`` fills ``upper`` and ``lower`` (and ``scale``, which is 1 on entry) in O(n), and a pair costs O(1). It
    returns the cut: a pair both of whose documents rank below it changes nothing.

What a class says of its ``swap`` (``gained``, ``symmetric``, ``greater``, ``coarse``, ``scaled``) and of documents without
a label (``unlabelled``) makes kernels faster, and gradients wrong where it is not true: ``lp.verify`` proves it.

Two more are optional. One serves ``evaluate(..., ties="expected")``:

``expected(gain, ends, discount, k)``
    the mean of ``value`` over every order of equal scores. ``ends[r]`` is where the stretch of documents with rank r's
    score ends; within a stretch the gains fall.

The other: a measure that can be written in positions has a method ``smooth()`` that returns a function
``(gain, position, discount, cut, beta, slope)``: the value, before normalisation, of documents at positions that need
not be whole numbers, with its derivative with respect to each position in ``slope``. [position <= k] is the sigmoid
1/(1 + exp(-beta (cut - position))), cut = k + 1/2 (infinite without a k), and ``discount`` is not zero beyond k.
"""

import ast
import difflib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from .errors import LambdaplugError
from .kernels import (
    CUT,
    FLOAT64_ROWS,
    MARK_ROWS,
    PairDelta,
    Prepared,
    delta_kernel,
    inlinable,
    norm_kernel,
    sort_stretch,
    swap_kernel,
)
from .rows import ideal_order, levels, row_order

__all__ = [
    "CNDCG",
    "DCG",
    "ERR",
    "MAP",
    "MRR",
    "NDCG",
    "RBP",
    "WTA",
    "BPref",
    "MeanNDCG",
    "Measure",
    "Pairs",
    "Precision",
    "Prepared",
    "Recall",
    "as_measure",
    "as_measures",
    "query_deltas",
    "registered",
    "swap_deltas",
]

Array: TypeAlias = npt.NDArray[np.float64]
Gain: TypeAlias = str | Sequence[float] | Callable[[float], float]
Discount: TypeAlias = str | Sequence[float] | Callable[[int], float]

T = TypeVar("T")

_REGISTRY: dict[str, type["Measure"]] = {}


@dataclass(frozen=True, repr=False)
class Measure:
    """Base of all measures; a subclass with a ``name`` registers itself."""

    name: ClassVar[str] = ""
    formula: ClassVar[str] = ""  # one line for the table of measures
    undefined: ClassVar[str] = "never"  # where the measure has no value
    gained: ClassVar[bool] = True  # the swap delta has the factor |gain_a - gain_b|
    symmetric: ClassVar[bool] = False  # swap writes the same into upper and lower
    greater: ClassVar[bool] = (
        False  # a better than b: |delta| is upper_a - lower_b or upper_b - lower_a, the greater one
    )
    coarse: ClassVar[float] = 0  # the longest list for which float32 holds upper and lower well enough to subtract them
    scaled: ClassVar[bool] = False  # swap writes scale
    unlabelled: ClassVar[float] = 0.0  # gain of a document without a label; NaN where the functions tell it from 0
    by_rows: ClassVar[bool] = True  # the swap delta has the form above; if not, pair_delta alone knows it
    reach: ClassVar[int | None] = None  # the delta is the full swap's of documents at most so many ranks apart

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls.name:
            _REGISTRY[cls.name] = cls

    def __post_init__(self) -> None:
        k = self.cutoff
        if k is not None and (isinstance(k, bool) or not isinstance(k, (int, np.integer)) or k < 1):
            raise LambdaplugError(f"{self.name}: k must be a whole number from 1 on, or None for all ranks; got {k!r}.")
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, np.generic):
                object.__setattr__(self, field.name, value.item())
            elif not isinstance(value, str) and isinstance(value, (Sequence, np.ndarray)):
                object.__setattr__(self, field.name, tuple(float(x) for x in value))

    @property
    def cutoff(self) -> int | None:
        """The last rank that counts; None = all do."""
        return getattr(self, "k", None)

    def __str__(self) -> str:
        k = getattr(self, "k", None)
        text = self.name if k is None else f"{self.name}@{k}"
        given = [
            f"{field.name}={_literal(getattr(self, field.name))}"
            for field in fields(self)
            if field.name != "k" and getattr(self, field.name) != field.default
        ]
        return f"{text}({','.join(given)})" if given else text

    __repr__ = __str__

    # What the labels mean.

    def gains(self, labels: Array) -> Array:
        raise NotImplementedError

    def discounts(self, n: int) -> Array:
        """The discounts of ranks 1..n before the cut-off."""
        return np.ones(n)

    # What the ranking is worth, and what a swap changes: see the top of this file.

    @staticmethod
    def value(gain: Any, discount: Any, k: int) -> float:
        raise NotImplementedError

    @staticmethod
    def norm(gain: Any, discount: Any, k: int) -> float:
        raise NotImplementedError

    @staticmethod
    def swap(gain: Any, discount: Any, k: int, upper: Any, lower: Any, scale: Any) -> int:
        raise NotImplementedError

    expected: ClassVar[Callable[..., float] | None] = None

    def swap_rows(self) -> Callable[..., int]:
        """The function that fills the swap rows; a measure whose parameters change it returns another one."""
        return self.swap

    def smooth(self) -> Callable[..., float] | None:
        """The measure in smooth positions, for lp.Approx; None where there is no such form. See the top of this file."""
        return None

    def fine(self, discount: Array) -> bool:
        """Whether upper_a - lower_b can be so much smaller than both that float32 would lose it in lists this long."""
        return len(discount) > self.coarse

    def shortest(self, discount: Array) -> float:  # noqa: ARG002
        """How many documents a query needs for their order to matter; infinite: no such list is long enough."""
        return 2

    def pair_delta(self, checked: bool = False) -> PairDelta:  # noqa: ARG002
        """The swap delta as a function of two ranks, before the norm; ``checked``: a user's with its indices checked."""
        return PairDelta(_begin_rows, _gained_delta if self.gained else _plain_delta)

    def run(self, kernel: Callable[..., T], *arguments: Any) -> T:
        """Call a kernel that has this measure's functions inside, which may be the user's."""
        try:
            return kernel(*arguments)
        except IndexError:
            raise LambdaplugError(
                f"{self!r}: one of its functions reads beyond the end of an array. A query has any number of documents, "
                "and a table that is looked up needs an entry for every label."
            ) from None

    def prepare(self, labels: Array, offsets: npt.NDArray[np.int64]) -> Prepared:
        """Everything about these labels that does not depend on scores."""
        longest = int(np.diff(offsets).max(initial=0))
        k = longest if self.cutoff is None else min(int(self.cutoff), longest)
        discount = np.ascontiguousarray(self.discounts(longest), dtype=np.float64)
        discount[k:] = 0.0
        labelled = ~np.isnan(labels)
        if labelled.all():
            grade = gain = self.gains(labels)
        else:
            gain = np.full(len(labels), self.unlabelled)
            gain[labelled] = self.gains(labels[labelled])
            grade = np.where(labelled, gain, np.nan)  # neither above nor below any other: no pair
        queries = len(offsets) - 1
        norm = np.zeros(queries)
        missing = np.isnan(gain)
        last = np.where(missing, -np.finfo(np.float64).max, gain) if missing.any() else gain
        ideal, row = ideal_order(last, offsets)
        del last, missing  # millions of rows: nothing is kept longer than needed
        if row >= 0:
            raise LambdaplugError(f"{self}: the gain of row {row}, with the label {labels[row]:g}, is not finite.")
        if _merged(gain, ideal, offsets):
            grade = levels([grade], offsets)  # kernels compare grades in float32: keep different ones different
        lists = offsets, 0, queries, ideal
        self.run(norm_kernel(self.norm), gain, discount, k, lists, np.empty(longest), norm)
        norm[np.diff(offsets) == 0] = 0.0
        return Prepared(gain, grade, norm, discount, k)


def _merged(gain: Array, ideal: npt.NDArray[np.int32], offsets: npt.NDArray[np.int64]) -> bool:
    """Whether float32 makes two different gains of one query equal."""
    with np.errstate(over="ignore"):
        short = gain.astype(np.float32)
    same = short == gain
    if same.all() or np.all(same | np.isnan(gain)):
        return False
    rows = np.repeat(offsets[:-1], np.diff(offsets)) + ideal  # equal ones are neighbours in the ideal order
    gain, short = gain[rows], short[rows]
    return bool(np.any((gain[1:] < gain[:-1]) & (short[1:] == short[:-1])))


def _begin_rows(ranked: Any, frozen: Any, upper: Any, lower: Any, scale: Any) -> tuple[Any, Any, Any]:
    return upper, lower, scale


def _gained_delta(ranked: Any, frozen: Any, state: Any, i: int, j: int) -> float:
    return float(abs(state[0][i] - state[1][j]) * abs(ranked[i] - ranked[j]) * state[2][i])


def _plain_delta(ranked: Any, frozen: Any, state: Any, i: int, j: int) -> float:
    return float(abs(state[0][i] - state[1][j]) * state[2][i])


# --- gains and discounts -----------------------------------------------------------------------------------------


def _exp2(labels: Array) -> Array:
    if labels.size and (labels.min() < 0 or labels.max() > 30):
        bad = labels.min() if labels.min() < 0 else labels.max()
        raise LambdaplugError(
            f"gain 'exp2' is 2^label - 1 for labels from 0 to 30, got a label of {bad:g}. "
            "Use gain='linear', a sequence with one gain a label, or a callable."
        )
    return np.exp2(labels) - 1.0


def gains_by(gain: Gain, labels: Array, name: str) -> Array:
    if isinstance(gain, str):
        if gain == "exp2":
            return _exp2(labels)
        if gain != "linear":
            raise LambdaplugError(f"{name}: gain must be 'exp2', 'linear', a sequence or a callable; got {gain!r}.")
        values = labels
    elif callable(gain):
        levels, level = np.unique(labels, return_inverse=True)
        values = np.array([float(gain(x)) for x in levels.tolist()], dtype=np.float64)[level]
    else:
        if labels.size and (labels.min() < 0 or labels.max() >= len(gain) or np.any(labels != np.floor(labels))):
            raise LambdaplugError(
                f"{name}: a sequence of {len(gain)} gains takes the whole labels 0 to {len(gain) - 1}; "
                f"the labels go from {labels.min():g} to {labels.max():g}"
                + ("." if np.all(labels == np.floor(labels)) else " and are not all whole numbers.")
            )
        values = np.asarray(gain, dtype=np.float64)[labels.astype(np.int64)]
    if values.size and not (np.isfinite(values).all() and values.min() >= 0):
        bad = values[~(np.isfinite(values) & (values >= 0))][0]
        raise LambdaplugError(f"{name}: gains must be finite and not negative; gain={_literal(gain)} gave {bad:g}.")
    return values


def _discounts(discount: Discount, n: int, name: str) -> Array:
    if isinstance(discount, str):
        if discount != "log2":
            raise LambdaplugError(f"{name}: discount must be 'log2', a sequence or a callable; got {discount!r}.")
        return 1.0 / np.log2(np.arange(2, n + 2))
    if callable(discount):
        values = np.array([float(discount(rank)) for rank in range(1, n + 1)])
    else:  # ranks beyond the sequence count nothing
        values = np.zeros(n)
        values[: len(discount)] = discount[:n]
    if not (np.isfinite(values).all() and (values >= 0).all()):
        raise LambdaplugError(f"{name}: discounts must be finite and not negative; got {values[:5]}...")
    return values


# --- normalisers -------------------------------------------------------------------------------------------------


def _one(gain: Any, discount: Any, k: int) -> float:
    return 1.0


@inlinable
def _ideal(gain: Any, discount: Any, k: int) -> float:
    """1 / sum of gain * discount over the ideal order."""
    ideal = 0.0
    for r in range(len(gain)):
        ideal += gain[r] * discount[r]
    return 1.0 / ideal if ideal > 0.0 else 0.0


def _relevant(gain: Any, discount: Any, k: int) -> float:
    """1 / relevant documents."""
    relevant = 0.0
    for g in gain:
        relevant += g
    return 1.0 / relevant if relevant > 0.0 else 0.0


# --- smooth positions --------------------------------------------------------------------------------------------


@inlinable
def _inside(position: float, cut: float, beta: float) -> tuple[float, float]:
    """[position <= k] as a sigmoid, and its derivative; no exp overflows."""
    x = beta * (cut - position)
    small = np.exp(-abs(x))
    return (1.0 if x > 0.0 else small) / (1.0 + small), -beta * small / (1.0 + small) ** 2


@inlinable
def _tangent(table: Any, r: int) -> float:
    """The slope at a point of a table: the harmonic mean of the two sides', 0 at an extremum or beside a flat."""
    after = table[r + 1] - table[r] if r + 1 < len(table) else table[r] - table[r - 1]
    before = table[r] - table[r - 1] if r > 0 else after
    return 2.0 * before * after / (before + after) if before * after > 0.0 else 0.0


@inlinable
def _between(table: Any, position: float) -> tuple[float, float]:
    """A table by rank between its ranks, and the derivative: the cubic that is smooth and has no extremum of its own."""
    r = min(max(int(position) - 1, 0), len(table) - 2)
    x = position - 1.0 - r
    rise = table[r + 1] - table[r]
    left = _tangent(table, r)
    right = _tangent(table, r + 1)
    square = 3.0 * rise - 2.0 * left - right
    cube = left + right - 2.0 * rise
    return table[r] + x * (left + x * (square + x * cube)), left + x * (2.0 * square + 3.0 * x * cube)


def _smooth_log2(gain: Any, position: Any, discount: Any, cut: float, beta: float, slope: Any) -> float:
    """sum of gain / log2(1 + position) * [position <= k]."""
    total = 0.0
    for r in range(len(gain)):
        slope[r] = 0.0
        if gain[r] > 0.0:
            inverse = 1.0 / np.log2(1.0 + position[r])
            inside, fall = _inside(position[r], cut, beta)
            total += gain[r] * inverse * inside
            slope[r] = gain[r] * inverse * (fall - inside * inverse / ((1.0 + position[r]) * np.log(2.0)))
    return total


def _smooth_table(gain: Any, position: Any, discount: Any, cut: float, beta: float, slope: Any) -> float:
    """sum of gain * discount(position) * [position <= k], the discount's table interpolated."""
    total = 0.0
    for r in range(len(gain)):
        slope[r] = 0.0
        if gain[r] > 0.0:
            value, rate = _between(discount, position[r])
            inside, fall = _inside(position[r], cut, beta)
            total += gain[r] * value * inside
            slope[r] = gain[r] * (rate * inside + value * fall)
    return total


def _smooth_average_precision(gain: Any, position: Any, discount: Any, cut: float, beta: float, slope: Any) -> float:
    """sum over relevant y of [p_y <= k]/p_y * (1 + sum over other relevant x of 1/(1 + exp(-beta (p_y - p_x))))."""
    n = len(gain)
    share = np.zeros(n)  # [p <= k]/p
    above = np.ones(n)  # relevant documents down to this one
    for r in range(n):
        slope[r] = 0.0
        if gain[r] > 0.0:
            share[r] = _inside(position[r], cut, beta)[0] / position[r]
    for y in range(n):
        if gain[y] > 0.0:
            for x in range(y + 1, n):
                if gain[x] > 0.0:
                    ahead, rate = _inside(position[y], position[x], beta)  # how surely y stands above x
                    above[x] += ahead
                    above[y] += 1.0 - ahead
                    slope[y] -= rate * (share[y] - share[x])
                    slope[x] += rate * (share[y] - share[x])
    total = 0.0
    for r in range(n):
        if gain[r] > 0.0:
            inside, fall = _inside(position[r], cut, beta)
            total += share[r] * above[r]
            slope[r] += above[r] * (fall - inside / position[r]) / position[r]
    return total


def _smooth_reciprocal_rank(gain: Any, position: Any, discount: Any, cut: float, beta: float, slope: Any) -> float:
    """The mean of [p <= k]/p over the relevant documents with the weights exp(-beta p): beta makes it the first one's."""
    first = np.inf
    for r in range(len(gain)):
        if gain[r] > 0.0:
            first = min(first, position[r])
    weights = 0.0
    total = 0.0
    for r in range(len(gain)):
        if gain[r] > 0.0:
            weight = np.exp(-beta * (position[r] - first))
            weights += weight
            total += weight * _inside(position[r], cut, beta)[0] / position[r]
    mean = total / weights if weights > 0.0 else 0.0
    for r in range(len(gain)):
        slope[r] = 0.0
        if gain[r] > 0.0:
            weight = np.exp(-beta * (position[r] - first)) / weights
            inside, fall = _inside(position[r], cut, beta)
            share = inside / position[r]
            slope[r] = weight * ((fall - share) / position[r] - beta * (share - mean))
    return mean


# --- measures that are a sum of gain times discount --------------------------------------------------------------


@inlinable
def _expected_sum(gain: Any, ends: Any, discount: Any, k: int) -> float:
    # Every document of a stretch is as likely at each of its ranks: mean gain times the discounts.
    total = 0.0
    low = 0
    while low < min(k, len(gain)):
        high = ends[low]
        gains = 0.0
        discounts = 0.0
        for r in range(low, high):
            gains += gain[r]
            discounts += discount[r]  # zero beyond k
        total += gains * discounts / (high - low)
        low = high
    return total


class _Discounted(Measure):
    """sum over ranks of gain * discount: a swap changes it by |gain_a - gain_b| * |discount_a - discount_b|."""

    symmetric: ClassVar[bool] = True

    def fine(self, discount: Array) -> bool:
        return bool(np.ptp(discount) < 0.25 * discount.max()) if len(discount) else False

    def shortest(self, discount: Array) -> float:
        others = np.flatnonzero(discount != discount[:1])
        return float(others[0] + 1) if len(others) else np.inf

    @staticmethod
    def value(gain: Any, discount: Any, k: int) -> float:
        total = 0.0
        for r in range(min(k, len(gain))):
            total += gain[r] * discount[r]
        return total

    expected = staticmethod(_expected_sum)

    norm = staticmethod(_one)

    @staticmethod
    def swap(gain: Any, discount: Any, k: int, upper: Any, lower: Any, scale: Any) -> int:
        for r in range(len(gain)):
            upper[r] = discount[r]
            lower[r] = discount[r]
        return k if k < len(gain) else len(gain)

    def smooth(self) -> Callable[..., float] | None:
        return _smooth_log2 if getattr(self, "discount", None) == "log2" else _smooth_table


@dataclass(frozen=True, repr=False)
class DCG(_Discounted):
    """DCG@k = sum_{r<=k} G(l_r) D(r), by default G(l) = 2^l - 1 and D(r) = 1/log2(1 + r)."""

    k: int | None = None
    gain: Gain = "exp2"
    discount: Discount = "log2"

    name: ClassVar[str] = "dcg"
    formula: ClassVar[str] = "sum of gain x discount over the top k"

    def gains(self, labels: Array) -> Array:
        return gains_by(self.gain, labels, self.name)

    def discounts(self, n: int) -> Array:
        return _discounts(self.discount, n, self.name)


@dataclass(frozen=True, repr=False)
class NDCG(DCG):
    """NDCG@k = DCG@k / DCG@k of the ideal order. The discount is zero beyond k: this is the true NDCG@k.

    >>> str(NDCG(k=10))
    'ndcg@10'
    """

    name: ClassVar[str] = "ndcg"
    formula: ClassVar[str] = "DCG@k / DCG@k of the ideal order"
    undefined: ClassVar[str] = "no positive gain"

    norm = staticmethod(_ideal)


@inlinable
def _mean_discounts(gain: Any, discount: Any, k: int) -> Any:
    """What a rank counts in the mean of NDCG@1 ... NDCG@n: its discount times the mean of 1/ideal DCG@k over k >= rank."""
    n = min(k, len(gain))
    ideal = gain.copy()
    sort_stretch(ideal, 0, len(ideal), True)
    counts = np.zeros(len(gain))
    total = 0.0
    for r in range(n):
        total += ideal[r] * discount[r]
        counts[r] = 1.0 / total if total > 0.0 else 0.0
    rest = 0.0
    for r in range(n - 1, -1, -1):
        rest += counts[r] / n
        counts[r] = discount[r] * rest
    return counts


@dataclass(frozen=True, repr=False)
class MeanNDCG(DCG):
    """The mean of NDCG@1, NDCG@2, ... NDCG@k, of a shorter list or without k up to its length: LETOR's MeanNDCG.

    It is a sum of gain * discount like the others, with discounts of each query's own: D(r) times the mean over the cuts
    from r on of 1/ideal DCG.

    >>> as_measure("MeanNDCG")
    meanndcg
    """

    name: ClassVar[str] = "meanndcg"
    formula: ClassVar[str] = "mean of NDCG@1 ... NDCG@k"
    undefined: ClassVar[str] = "no positive gain"

    @staticmethod
    def value(gain: Any, discount: Any, k: int) -> float:
        counts = _mean_discounts(gain, discount, k)
        total = 0.0
        for r in range(len(gain)):
            total += gain[r] * counts[r]
        return total

    @staticmethod
    def expected(gain: Any, ends: Any, discount: Any, k: int) -> float:
        return _expected_sum(gain, ends, _mean_discounts(gain, discount, k), k)

    @staticmethod
    def norm(gain: Any, discount: Any, k: int) -> float:
        return 1.0 if _ideal(gain, discount, k) > 0.0 else 0.0

    @staticmethod
    def swap(gain: Any, discount: Any, k: int, upper: Any, lower: Any, scale: Any) -> int:
        counts = _mean_discounts(gain, discount, k)
        for r in range(len(gain)):
            upper[r] = counts[r]
            lower[r] = counts[r]
        return min(k, len(gain))

    shortest = Measure.shortest  # its discounts fall in every list
    smooth = Measure.smooth  # and are not a function of the position alone


@dataclass(frozen=True, repr=False)
class CNDCG(_Discounted):
    """NDCG of a click score c in [0, 1], with the gain 2^(4c) - 1."""

    k: int | None = None
    discount: Discount = "log2"

    name: ClassVar[str] = "cndcg"
    formula: ClassVar[str] = "NDCG@k with gain 2^(4c) - 1, c a click score in [0, 1]"
    undefined: ClassVar[str] = "no positive click score"

    def gains(self, labels: Array) -> Array:
        if labels.size and (labels.min() < 0 or labels.max() > 1):
            raise LambdaplugError(
                f"cndcg takes click scores from 0 to 1, got labels from {labels.min():g} to {labels.max():g}. "
                "Divide them by their maximum, or use ndcg."
            )
        return np.asarray(np.exp2(4.0 * labels) - 1.0)

    def discounts(self, n: int) -> Array:
        return _discounts(self.discount, n, self.name)

    norm = staticmethod(_ideal)


@dataclass(frozen=True, repr=False)
class RBP(_Discounted):
    """RBP = (1 - p) sum_r g(l_r) p^(r-1), with g = G(l)/G(lmax); lmax is the data's largest label unless given."""

    p: float = 0.8
    k: int | None = None
    gain: Gain = "exp2"
    max_label: float | None = None

    name: ClassVar[str] = "rbp"
    formula: ClassVar[str] = "(1 - p) x sum of gain / largest gain x p^(rank - 1)"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.p < 1:
            raise LambdaplugError(f"rbp: p must lie between 0 and 1, got {self.p!r}.")

    def gains(self, labels: Array) -> Array:
        top = _max_label(labels, self.max_label, self.name)
        values = gains_by(self.gain, np.append(labels, top), self.name)
        return values[:-1] / values[-1] if values[-1] > 0 else np.zeros(len(labels))

    def discounts(self, n: int) -> Array:
        return np.asarray((1.0 - self.p) * self.p ** np.arange(n))


# --- measures of relevance ---------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class _Relevance(Measure):
    """Measures that tell only relevant documents, label >= ``relevant``, from the others."""

    def gains(self, labels: Array) -> Array:
        return (labels >= getattr(self, "relevant", 1)).astype(np.float64)


def _needs_cutoff(measure: Measure) -> None:
    if measure.cutoff is None:
        raise LambdaplugError(f"{measure.name} needs a cut-off, e.g. '{measure.name}@10'.")


@dataclass(frozen=True, repr=False)
class Precision(_Relevance, _Discounted):
    """P@k = relevant documents in the top k / k."""

    k: int | None = None
    relevant: float = 1

    name: ClassVar[str] = "p"
    formula: ClassVar[str] = "relevant in the top k / k"

    def __post_init__(self) -> None:
        super().__post_init__()
        _needs_cutoff(self)

    def discounts(self, n: int) -> Array:
        return np.full(n, 1.0 / (self.k or 1))


@dataclass(frozen=True, repr=False)
class Recall(_Relevance, _Discounted):
    """Recall@k = relevant documents in the top k / all relevant documents."""

    k: int | None = None
    relevant: float = 1

    name: ClassVar[str] = "recall"
    formula: ClassVar[str] = "relevant in the top k / relevant"
    undefined: ClassVar[str] = "nothing relevant"

    def __post_init__(self) -> None:
        super().__post_init__()
        _needs_cutoff(self)

    norm = staticmethod(_relevant)


@dataclass(frozen=True, repr=False)
class WTA(_Relevance, _Discounted):
    """Winner takes all: 1 if the top document is relevant, else 0."""

    relevant: float = 1

    name: ClassVar[str] = "wta"
    formula: ClassVar[str] = "1 if the top document is relevant"

    @property
    def cutoff(self) -> int:
        return 1


@dataclass(frozen=True, repr=False)
class MAP(_Relevance):
    """AP@k = (1/R) sum_{r<=k} rel(r) * precision(r), R = all relevant documents; its mean over queries is MAP@k."""

    k: int | None = None
    relevant: float = 1

    name: ClassVar[str] = "map"
    # b(r) = n(r)/r - H(r): a relevant document at rank p above another at q changes b(p) - b(q), and below it
    # (b(q) + 1/q) - (b(p) + 1/p) >= 1/q - 1/p. So where one of the two is the change, the other is not positive.
    greater: ClassVar[bool] = True
    coarse: ClassVar[float] = 2000
    formula: ClassVar[str] = "mean over the relevant documents of the precision at their rank"
    undefined: ClassVar[str] = "nothing relevant"

    def discounts(self, n: int) -> Array:
        return 1.0 / np.arange(1, n + 1)

    @staticmethod
    def value(gain: Any, discount: Any, k: int) -> float:
        seen = 0.0
        total = 0.0
        for r in range(min(k, len(gain))):
            seen += gain[r]
            total += gain[r] * seen / (r + 1)
        return total

    @staticmethod
    def expected(gain: Any, ends: Any, discount: Any, k: int) -> float:
        # m of a stretch's n documents are relevant. One is at its place t with probability m/n, and then t of the
        # other n - 1 stand above it in the stretch, of which (m - 1)/(n - 1) are relevant on average.
        total = 0.0
        seen = 0.0
        low = 0
        while low < min(k, len(gain)):
            high = ends[low]
            n = high - low
            relevant = 0.0
            for r in range(low, high):
                relevant += gain[r]
            among = (relevant - 1.0) / (n - 1.0) if n > 1 else 0.0
            for r in range(low, min(high, k)):
                total += relevant / n * (seen + 1.0 + (r - low) * among) / (r + 1)
            seen += relevant
            low = high
        return total

    norm = staticmethod(_relevant)

    @staticmethod
    def swap(gain: Any, discount: Any, k: int, upper: Any, lower: Any, scale: Any) -> int:
        # n(r): relevant in the top r. H(r): sum of 1/q over relevant ranks q <= min(r, k).
        seen = 0.0
        harmonic = 0.0
        for r in range(len(gain)):
            seen += gain[r]
            before = harmonic
            harmonic += gain[r] * discount[r]
            # above: relevant n/r - H(r); else (n + 1)/r - H(r). below: n/r - H(r - 1), which is H(r) if not relevant.
            upper[r] = (seen + 1.0 - gain[r]) * discount[r] - harmonic
            lower[r] = seen * discount[r] - before
        return min(k, len(gain))

    def smooth(self) -> Callable[..., float] | None:
        return _smooth_average_precision


@inlinable
def _reciprocal_rank_rows(gain: Any, discount: Any, k: int, upper: Any, lower: Any, scale: Any) -> int:
    n = len(gain)
    first = n
    second = n
    for r in range(n):
        if gain[r] > 0.0:
            if first == n:
                first = r
            else:
                second = r
                break
    if first == n:
        return 0
    # Above: any other document than the first relevant one gains 1/r - 1/first, and it loses the 1/first it has but for
    # what is left to it: the place it comes to, or that of the second relevant document.
    for r in range(n):
        upper[r] = discount[r]
        lower[r] = discount[r]
    for r in range(first):
        upper[r] -= discount[first]
    lower[first] = 0.0
    for r in range(second, n):
        lower[r] = (1.0 - gain[r]) * discount[second]
    return first + 1


@dataclass(frozen=True, repr=False)
class MRR(_Relevance):
    """RR@k = 1/rank of the first relevant document, 0 if that rank is beyond k; its mean over queries is MRR@k.

    ``gains_only`` keeps only the swaps that raise RR (local optimality paper, Eq. 11).
    """

    k: int | None = None
    relevant: float = 1
    gains_only: bool = False

    name: ClassVar[str] = "mrr"
    coarse: ClassVar[float] = np.inf
    formula: ClassVar[str] = "1 / rank of the first relevant document, 0 beyond k"
    undefined: ClassVar[str] = "nothing relevant"

    def discounts(self, n: int) -> Array:
        return 1.0 / np.arange(1, n + 1)

    @staticmethod
    def value(gain: Any, discount: Any, k: int) -> float:
        for r in range(min(k, len(gain))):
            if gain[r] > 0.0:
                return float(discount[r])
        return 0.0

    @staticmethod
    def expected(gain: Any, ends: Any, discount: Any, k: int) -> float:
        # Within the first stretch that has relevant documents, place by place: the chance that none came before
        # times the chance that one comes now.
        low = 0
        while low < min(k, len(gain)):
            high = ends[low]
            relevant = 0.0
            for r in range(low, high):
                relevant += gain[r]
            if relevant > 0.0:
                total = 0.0
                none_yet = 1.0
                for r in range(low, min(high, k)):
                    left = high - r
                    total += none_yet * relevant / left * discount[r]
                    none_yet *= max(left - relevant, 0.0) / left
                return total
            low = high
        return 0.0

    @staticmethod
    def norm(gain: Any, discount: Any, k: int) -> float:
        return 1.0 if len(gain) > 0 and gain[0] > 0.0 else 0.0

    swap = staticmethod(_reciprocal_rank_rows)

    @staticmethod
    def swap_gains_only(gain: Any, discount: Any, k: int, upper: Any, lower: Any, scale: Any) -> int:
        # The last row above the cut is the first relevant document's: without it no swap loses.
        return max(_reciprocal_rank_rows(gain, discount, k, upper, lower, scale) - 1, 0)

    def swap_rows(self) -> Callable[..., int]:
        return self.swap_gains_only if self.gains_only else self.swap

    def smooth(self) -> Callable[..., float] | None:
        return _smooth_reciprocal_rank


@inlinable
def _judged(gain: Any) -> tuple[float, float]:
    """How many documents are relevant, and how many are not; those without a label are neither."""
    relevant = 0.0
    others = 0.0
    for g in gain:
        if g > 0.0:
            relevant += 1.0
        elif g == 0.0:
            others += 1.0
    return relevant, others


@dataclass(frozen=True, repr=False)
class BPref(_Relevance):
    """bpref = (1/R) sum over relevant d of 1 - min(nonrelevant above d, R) / min(R, N), N = nonrelevant documents."""

    relevant: float = 1

    name: ClassVar[str] = "bpref"
    coarse: ClassVar[float] = np.inf
    formula: ClassVar[str] = "mean over the relevant documents of 1 - share of nonrelevant ones above"
    undefined: ClassVar[str] = "nothing relevant, or nothing nonrelevant"
    unlabelled: ClassVar[float] = np.nan

    @staticmethod
    def value(gain: Any, discount: Any, k: int) -> float:
        relevant, others = _judged(gain)
        bound = min(relevant, others)
        above = 0.0
        total = 0.0
        for g in gain:
            if g > 0.0:
                total += 1.0 - min(above, relevant) / bound if bound > 0.0 else 0.0
            elif g == 0.0:
                above += 1.0
        return total

    @staticmethod
    def expected(gain: Any, ends: Any, discount: Any, k: int) -> float:
        # Of a stretch's u nonrelevant documents 0, 1, ..., u stand above a relevant one, each number equally likely.
        relevant, others = _judged(gain)
        bound = min(relevant, others)
        above = 0.0
        total = 0.0
        low = 0
        while low < len(gain) and bound > 0.0:
            high = ends[low]
            here, beside = _judged(gain[low:high])
            if here > 0.0:
                cost = 0.0
                for more in range(int(beside) + 1):
                    cost += min(above + more, relevant)
                total += here * (1.0 - cost / (beside + 1.0) / bound)
            above += beside
            low = high
        return total

    @staticmethod
    def norm(gain: Any, discount: Any, k: int) -> float:
        relevant, others = _judged(gain)
        return 1.0 / relevant if relevant > 0.0 and others > 0.0 else 0.0

    @staticmethod
    def swap(gain: Any, discount: Any, k: int, upper: Any, lower: Any, scale: Any) -> int:
        # c(x) = min(x, R). Moving a nonrelevant document from below to above costs each relevant one between them 1 if
        # fewer than R stood above it; moving one down gives 1 back to those with at most R above.
        n = len(gain)
        relevant, others = _judged(gain)
        unit = 1.0 / min(relevant, others)
        above = 0.0  # nonrelevant above this rank
        hurt = 0.0  # relevant up to this rank that one more nonrelevant document above would hurt
        helped = 0.0  # and that one fewer would help
        cut = n
        for r in range(n):
            if gain[r] > 0.0:
                lower[r] = unit * (helped + min(above, relevant))
                hurt += 1.0 if above < relevant else 0.0
                helped += 1.0 if above <= relevant else 0.0
                upper[r] = unit * (hurt + min(above, relevant))
            elif gain[r] == 0.0:
                upper[r] = unit * (helped + min(above, relevant))
                lower[r] = unit * (hurt + min(above + 1.0, relevant))
                above += 1.0
                if above > relevant and cut == n:
                    cut = r + 1  # every document from here on has more than R nonrelevant ones above it
            else:  # not judged: in no pair
                upper[r] = 0.0
                lower[r] = 0.0
        return cut


# --- the others --------------------------------------------------------------------------------------------------


def _max_label(labels: Array, given: float | None, name: str) -> float:
    found = float(labels.max(initial=0.0))
    if given is not None and found > given:
        raise LambdaplugError(f"{name}: max_label is {given:g}, but the labels go up to {found:g}.")
    return found if given is None else float(given)


@dataclass(frozen=True, repr=False)
class ERR(Measure):
    """ERR@k = sum_{r<=k} (1/r) p_r prod_{q<r} (1 - p_q), p = (2^l - 1)/2^lmax.

    lmax is the data's largest label unless given: give it where training and test data may differ in it.
    """

    k: int | None = None
    max_label: float | None = None

    name: ClassVar[str] = "err"
    formula: ClassVar[str] = "expected 1 / rank where the user stops; stops with p = (2^l - 1) / 2^lmax"
    scaled: ClassVar[bool] = True

    def gains(self, labels: Array) -> Array:
        return np.asarray(_exp2(labels) / np.exp2(_max_label(labels, self.max_label, self.name)))

    def discounts(self, n: int) -> Array:
        return 1.0 / np.arange(1, n + 1)

    @staticmethod
    def value(gain: Any, discount: Any, k: int) -> float:
        looking = 1.0
        total = 0.0
        for r in range(min(k, len(gain))):
            total += discount[r] * looking * gain[r]
            looking *= 1.0 - gain[r]
        return total

    @staticmethod
    def expected(gain: Any, ends: Any, discount: Any, k: int) -> float:
        # The user is still looking after t of a stretch's n documents with probability a_t, the mean over all sets of
        # t of them of prod (1 - p), and so stops at the next with a_t - a_(t+1). With one document more,
        # a_t <- (1 - t/n) a_t + t/n (1 - p) a_(t-1).
        looking = 1.0
        total = 0.0
        low = 0
        while low < min(k, len(gain)):
            high = ends[low]
            places = min(high, k) - low
            chance = np.zeros(places + 1)
            chance[0] = 1.0
            for r in range(low, high):
                n = r - low + 1
                for t in range(min(n, places), 0, -1):
                    chance[t] += t / n * ((1.0 - gain[r]) * chance[t - 1] - chance[t])
            for t in range(places):
                total += discount[low + t] * looking * (chance[t] - chance[t + 1])
            looking *= chance[places]  # read on only where the stretch ends before k
            low = high
        return total

    norm = staticmethod(_one)

    @staticmethod
    def swap(gain: Any, discount: Any, k: int, upper: Any, lower: Any, scale: Any) -> int:
        # A(r): the contribution of the ranks up to r. P(r) = prod_{q<r} (1 - p_q). For a above b,
        # delta = (p_b - p_a)/(1 - p_a) * [A(a) + P(a+1) D(a) - A(b-1) - P(b) D(b)].
        looking = 1.0
        total = 0.0
        for r in range(len(gain)):
            lower[r] = total + looking * discount[r]
            total += discount[r] * looking * gain[r]
            looking *= 1.0 - gain[r]
            upper[r] = total + looking * discount[r]
            scale[r] = 1.0 / (1.0 - gain[r])
        return min(k, len(gain))


@inlinable
def _rightly_ordered(gain: Any) -> float:
    """How many pairs with different gains stand in the right order; those without a label are in no pair."""
    # A merge sort by falling label counts the pairs it has to turn round.
    source = gain[~np.isnan(gain)]
    target = source.copy()
    n = len(source)
    wrong = 0.0
    equal = 0.0
    run = 1
    while run < n:
        for low in range(0, n, 2 * run):
            middle = min(low + run, n)
            high = min(low + 2 * run, n)
            a = low
            b = middle
            for s in range(low, high):
                if a < middle and (b == high or source[a] >= source[b]):
                    target[s] = source[a]
                    a += 1
                else:
                    target[s] = source[b]
                    wrong += middle - a
                    b += 1
        source, target = target, source
        run *= 2
    tied = 0
    for r in range(1, n):
        tied = tied + 1 if source[r] == source[r - 1] else 0
        equal += tied
    return 0.5 * n * (n - 1) - equal - wrong


@dataclass(frozen=True, repr=False)
class Pairs(Measure):
    """Pairwise correct: rightly ordered pairs / pairs with different labels. Its lambda gradient is RankNet.

    The delta is that of the pair alone, 1/pairs: turning its order round, whatever stands between the two.
    """

    name: ClassVar[str] = "pairs"
    coarse: ClassVar[float] = np.inf
    formula: ClassVar[str] = "rightly ordered pairs / pairs with different labels (RankNet)"
    undefined: ClassVar[str] = "all labels equal"
    gained: ClassVar[bool] = False
    unlabelled: ClassVar[float] = np.nan
    reach: ClassVar[int | None] = 1

    def gains(self, labels: Array) -> Array:
        return labels

    @staticmethod
    def value(gain: Any, discount: Any, k: int) -> float:
        return _rightly_ordered(gain)

    @staticmethod
    def expected(gain: Any, ends: Any, discount: Any, k: int) -> float:
        # The gains of a stretch fall, so that all its pairs are counted; on average half of them are right.
        total = _rightly_ordered(gain)
        low = 0
        while low < len(gain):
            high = ends[low]
            if high - low > 1:
                total -= 0.5 * _rightly_ordered(gain[low:high])
            low = high
        return total

    @staticmethod
    def norm(gain: Any, discount: Any, k: int) -> float:
        n = 0
        for g in gain:
            n += 0 if np.isnan(g) else 1  # in ideal order they come last
        pairs = 0.5 * n * (n - 1)
        tied = 0
        for r in range(1, n):
            tied = tied + 1 if gain[r] == gain[r - 1] else 0
            pairs -= tied
        return 1.0 / pairs if pairs > 0.0 else 0.0

    @staticmethod
    def swap(gain: Any, discount: Any, k: int, upper: Any, lower: Any, scale: Any) -> int:
        for r in range(len(gain)):
            upper[r] = 1.0
            lower[r] = 0.0
        return len(gain)


# --- measures as text --------------------------------------------------------------------------------------------


def registered() -> dict[str, type[Measure]]:
    """Every measure by name."""
    return dict(_REGISTRY)


def _literal(value: object) -> str:
    if callable(value):
        return f"<{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', type(value).__name__)}>"
    return repr(value).replace(" ", "")


_TEXT = re.compile(r"(?P<name>[a-z_]\w*)(?:@(?P<k>\d+))?(?:\((?P<arguments>.*)\))?(?:@(?P<k_last>\d+))?", re.I | re.S)


def as_measure(measure: str | Measure) -> Measure:
    """A measure by value or by its text: a name, a cut-off, and other parameters in brackets.

    >>> as_measure("rbp(p=0.9)")
    rbp(p=0.9)
    >>> as_measure("nDCG@5(gain='linear')")
    ndcg@5(gain='linear')
    """
    if isinstance(measure, Measure):
        return measure
    if not isinstance(measure, str):
        raise LambdaplugError(f"expected a measure or its name such as 'ndcg@10', got {measure!r}.")
    found = _TEXT.fullmatch(measure.strip())
    name = found["name"].lower() if found else measure.strip().lower()
    if found is None or name not in _REGISTRY:
        near = difflib.get_close_matches(name, _REGISTRY, n=1, cutoff=0.0)
        hint = f" The nearest is {near[0]!r}." if near else ""
        raise LambdaplugError(
            f"no measure {measure!r}.{hint} There are: {', '.join(sorted(_REGISTRY))}; "
            "a cut-off follows as in 'ndcg@10', parameters as in 'rbp(p=0.8)'."
        )
    keywords = _keywords(measure, found["arguments"])
    cuts = [k for k in (found["k"], found["k_last"]) if k is not None]
    if len(cuts) + ("k" in keywords) > 1:
        raise LambdaplugError(f"{measure!r} has two cut-offs: write one, as in 'ndcg@10'.")
    if cuts:
        keywords["k"] = int(cuts[0])
    kind = _REGISTRY[name]
    known = [field.name for field in fields(kind)]
    for key in keywords:
        if key not in known:
            what = "no cut-off" if key == "k" else f"no parameter {key!r}"
            raise LambdaplugError(f"{measure!r}: {name} has {what}; it takes {', '.join(known) or 'none'}.")
    return kind(**keywords)


def _keywords(text: str, arguments: str | None) -> dict[str, Any]:
    try:
        call = ast.parse(f"f({arguments or ''})", mode="eval").body
        if isinstance(call, ast.Call) and not call.args and all(keyword.arg for keyword in call.keywords):
            return {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in call.keywords}
    except (SyntaxError, ValueError):
        pass
    raise LambdaplugError(
        f"cannot read the parameters of {text!r}: write them as in 'rbp(p=0.8)' or \"ndcg@10(gain='linear')\"; "
        "a callable has no text, pass the measure itself."
    )


def as_measures(measures: str | Measure | Sequence[str | Measure]) -> tuple[Measure, ...]:
    """One measure or several, as a tuple."""
    if isinstance(measures, (str, Measure)):
        return (as_measure(measures),)
    found = tuple(as_measure(measure) for measure in measures)
    named: dict[str, Measure] = {}
    for measure in found:
        if named.setdefault(str(measure), measure) != measure:
            raise LambdaplugError(
                f"two different measures are called {str(measure)!r}, and would be reported as one. Ask for one at a time."
            )
    return found


def swap_deltas(measure: str | Measure, ranked_labels: npt.ArrayLike) -> Array:
    """|delta| of every pair of one query whose labels are given in rank order, as an n x n matrix, float64.

    >>> swap_deltas("mrr", [0, 1]).round(3).tolist()
    [[0.0, 0.5], [0.5, 0.0]]
    """
    measure = as_measure(measure)
    labels = np.ascontiguousarray(ranked_labels, dtype=np.float64)
    offsets = np.array([0, len(labels)])
    return query_deltas(measure, measure.prepare(labels, offsets), offsets, 0)


def query_deltas(measure: Measure, prepared: Prepared, offsets: npt.NDArray[np.int64], query: int) -> Array:
    """``swap_deltas`` of one of several queries whose rows stand in rank order."""
    own = slice(offsets[query], offsets[query + 1])
    gain, grade, norm = prepared.gain[own], prepared.grade[own], prepared.norm[query : query + 1]
    n = len(gain)
    alone = np.array([0, n])
    rows = np.zeros((FLOAT64_ROWS, n))
    frozen = rows.view()
    frozen.setflags(write=False)
    marks = np.zeros((MARK_ROWS, 1), dtype=np.int64)
    one = tuple(prepared._replace(gain=gain, grade=grade, norm=norm))
    measure.run(swap_kernel(measure.swap_rows()), one, (alone, 0, 1, row_order(alone)), rows, marks)
    delta, cut = np.zeros((n, n)), int(marks[CUT, 0])
    if cut > 0:
        measure.run(delta_kernel(measure.pair_delta(checked=True)), rows, frozen, cut, delta)
    ordered = (grade[:, None] < grade[None, :]) | (grade[:, None] > grade[None, :])
    delta = np.where(ordered, norm[0] * delta, 0.0)
    return np.asarray(delta + delta.T)
