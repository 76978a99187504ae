"""Measures of the order as a whole: pairs of documents in the right order, and rank correlation with the labels."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..kernels import inlinable
from ..rows import average_ranks
from .base import Measure, Prepared
from .gains import Array
from .relevance import Relevance

__all__ = ["BPref", "Pairs", "Spearman"]


@inlinable
def _rightly_ordered(gain: Any) -> float:
    """How many pairs with different gains stand in the right order; those without a label (NaN) are in no pair."""
    pairs = 0
    for a in range(len(gain)):
        for b in range(a + 1, len(gain)):
            pairs += gain[a] > gain[b]
    return float(pairs)


@dataclass(frozen=True, repr=False)
class Pairs(
    Measure, name="pairs", coarse=np.inf, undefined="all labels equal", gained=False, unlabelled=np.nan, reach=1
):
    """Pairwise correct: pairs = rightly ordered pairs / pairs with different labels. Its lambda gradient is RankNet.

    The delta is that of the pair alone, 1/pairs: turning its order round, whatever stands between the two.

    References
    ----------
    C. Burges et al. (2005), "Learning to rank using gradient descent", ICML.

    Examples
    --------
    >>> import lambdaplug as lp
    >>> lp.evaluate("pairs", labels=[1, 0, 2], scores=[3, 2, 1], group=[3])
    {'pairs': 0.3333333333333333}
    """

    @staticmethod
    def value(gain: Any, discount: Any, k: int) -> float:
        return _rightly_ordered(gain)

    @staticmethod
    def expected(gain: Any, ends: Any, discount: Any, k: int) -> float:
        # The gains of a stretch fall, so that all its pairs are counted; on average half of them are right.
        total = _rightly_ordered(gain)
        low = 0
        while low < len(gain):
            total -= 0.5 * _rightly_ordered(gain[low : ends[low]])
            low = ends[low]
        return total

    @staticmethod
    def norm(gain: Any, discount: Any, k: int) -> float:
        pairs = _rightly_ordered(gain)  # of the ideal order: all that have one
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
class BPref(Relevance, name="bpref", coarse=np.inf, undefined="nothing relevant", unlabelled=np.nan):
    """bpref = (1/R) sum over relevant d of 1 - min(nonrelevant above d, R) / min(R, N), N = nonrelevant documents.

    Where all documents are relevant it is 1, as in trec_eval. Documents without a label are neither.

    Parameters
    ----------
    relevant : float
        Documents with a label >= this are relevant.

    References
    ----------
    C. Buckley, E. Voorhees (2004), "Retrieval evaluation with incomplete information", SIGIR.

    Examples
    --------
    >>> import lambdaplug as lp
    >>> lp.evaluate("bpref", labels=[1, 0, 1], scores=[3, 2, 1], group=[3])
    {'bpref': 0.5}
    """

    @staticmethod
    def value(gain: Any, discount: Any, k: int) -> float:
        relevant, others = _judged(gain)
        bound = max(min(relevant, others), 1.0)
        above = 0.0
        total = 0.0
        for g in gain:
            if g > 0.0:
                total += 1.0 - min(above, relevant) / bound
            elif g == 0.0:
                above += 1.0
        return total

    @staticmethod
    def expected(gain: Any, ends: Any, discount: Any, k: int) -> float:
        # Of a stretch's u nonrelevant documents 0, 1, ..., u stand above a relevant one, each number equally likely.
        relevant, others = _judged(gain)
        bound = max(min(relevant, others), 1.0)
        above = 0.0
        total = 0.0
        low = 0
        while low < len(gain):
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
        relevant, _ = _judged(gain)
        return 1.0 / relevant if relevant > 0.0 else 0.0

    @staticmethod
    def swap(gain: Any, discount: Any, k: int, upper: Any, lower: Any, scale: Any) -> int:
        # c(x) = min(x, R). Moving a nonrelevant document from below to above costs each relevant one between them 1 if
        # fewer than R stood above it; moving one down gives 1 back to those with at most R above.
        n = len(gain)
        relevant, others = _judged(gain)
        unit = 1.0 / max(min(relevant, others), 1.0)
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


@inlinable
def _labelled(gain: Any) -> float:
    n = 0.0
    for g in gain:
        n += 0.0 if np.isnan(g) else 1.0
    return n


@dataclass(frozen=True, repr=False)
class Spearman(
    Measure, name="spearman", symmetric=True, coarse=np.inf, undefined="all labels equal", unlabelled=np.nan
):
    """Spearman's rank correlation of the order with the labels, over the whole list: from -1 to 1.

        rho = sum_d (p_d - mean p) (q_d - mean q) / sqrt(sum_d (p_d - mean p)^2 sum_d (q_d - mean q)^2),

    p the places, from the last to the first, q the ranks of labels, from the lowest to the highest; equal labels share the
    average of their ranks. Both ends of the list count alike. Where labels are equal, as a rule, no order reaches 1. Documents
    without a label are left out.

    References
    ----------
    C. Spearman (1904), "The proof and measurement of association between two things", American Journal of
    Psychology 15(1).

    Examples
    --------
    >>> import lambdaplug as lp
    >>> lp.evaluate("spearman", labels=[1, 0, 2], scores=[3, 2, 1], group=[3])
    {'spearman': -0.5}
    """

    def prepare(self, labels: Array, offsets: npt.NDArray[np.int64], columns: Sequence[Array] = ()) -> Prepared:
        return super().prepare(average_ranks(labels, offsets), offsets, columns)

    # Of n documents, the ranks of the labels and the places have the mean (n + 1)/2.

    @staticmethod
    def value(gain: Any, discount: Any, k: int) -> float:
        n = _labelled(gain)
        place = 0.5 * (n - 1.0)
        total = 0.0
        for g in gain:
            if not np.isnan(g):
                total += (g - 0.5 * (n + 1.0)) * place
                place -= 1.0
        return total

    @staticmethod
    def expected(gain: Any, ends: Any, discount: Any, k: int) -> float:
        # Every document of a stretch stands, on average, in its middle.
        n = _labelled(gain)
        place = 0.5 * (n - 1.0)
        total = 0.0
        low = 0
        while low < len(gain):
            here = _labelled(gain[low : ends[low]])
            for r in range(low, ends[low]):
                if not np.isnan(gain[r]):
                    total += (gain[r] - 0.5 * (n + 1.0)) * (place - 0.5 * (here - 1.0))
            place -= here
            low = ends[low]
        return total

    @staticmethod
    def norm(gain: Any, discount: Any, k: int) -> float:
        n = _labelled(gain)
        squares = 0.0
        for g in gain:
            squares += 0.0 if np.isnan(g) else (g - 0.5 * (n + 1.0)) ** 2
        return 1.0 / np.sqrt(squares * n * (n * n - 1.0) / 12.0) if squares > 0.0 else 0.0

    @staticmethod
    def swap(gain: Any, discount: Any, k: int, upper: Any, lower: Any, scale: Any) -> int:
        place = 0.0
        for r in range(len(gain)):
            upper[r] = place
            lower[r] = place
            place += 0.0 if np.isnan(gain[r]) else 1.0
        return len(gain)
