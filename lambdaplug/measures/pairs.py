"""Measures of the order as a whole: pairs of documents in the right order."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..kernels import inlinable
from .base import Measure
from .relevance import Relevance

__all__ = ["BPref", "Pairs"]


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
    """Pairwise correct: pairs = rightly ordered pairs / pairs with different labels. Its lambda gradient is RankNet.

    The delta is that of the pair alone, 1/pairs: turning its order round, whatever stands between the two.

    References: C. Burges et al. (2005), "Learning to rank using gradient descent", ICML.

    >>> lp.evaluate("pairs", labels=[1, 0, 2], scores=[3, 2, 1], group=[3])
    {'pairs': 0.3333333333333333}
    """

    name: ClassVar[str] = "pairs"
    coarse: ClassVar[float] = np.inf
    formula: ClassVar[str] = "rightly ordered pairs / pairs with different labels (RankNet)"
    undefined: ClassVar[str] = "all labels equal"
    gained: ClassVar[bool] = False
    unlabelled: ClassVar[float] = np.nan
    reach: ClassVar[int | None] = 1

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
class BPref(Relevance):
    """bpref = (1/R) sum over relevant d of 1 - min(nonrelevant above d, R) / min(R, N), N = nonrelevant documents.

    {relevant}
    References: C. Buckley, E. Voorhees (2004), "Retrieval evaluation with incomplete information", SIGIR.

    >>> lp.evaluate("bpref", labels=[1, 0, 1], scores=[3, 2, 1], group=[3])
    {'bpref': 0.5}
    """

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
