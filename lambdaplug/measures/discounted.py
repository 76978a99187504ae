"""Measures that are a sum of gain times discount: DCG and its relatives."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import LambdaplugError
from ..kernels import inlinable
from .base import Measure
from .gains import Array, Cutoff, Discount, Gain, gains_by, summed
from .smooth import smooth_log2, smooth_table

__all__ = ["CNDCG", "DCG", "NDCG", "MeanNDCG"]


@inlinable
def ideal_sum(gain: Any, discount: Any, k: int) -> float:
    """1 / sum of gain * discount over the ideal order."""
    ideal = 0.0
    for r in range(len(gain)):
        ideal += gain[r] * discount[r]
    return 1.0 / ideal if ideal > 0.0 else 0.0


@inlinable
def _expected_sum(gain: Any, ends: Any, discount: Any, k: int) -> float:
    # Every document of a stretch is as likely at each of its ranks: mean gain times the discounts.
    total = 0.0
    low = 0
    while low < min(k, len(gain)):
        high = ends[low]
        total += summed(gain, low, high) * summed(discount, low, high) / (high - low)  # discounts are 0 beyond k
        low = high
    return total


def spaced_rows(gain: Any, discount: Any, k: int, upper: Any, lower: Any, scale: Any) -> int:
    """Swap rows of a weight with a summand by the distance of two ranks, for lp.constructions.Loss2.

    After the discounts comes the table of it, which ``scale`` receives; ``lower`` is the rank, one for all below the cut-off.
    """
    half = len(discount) // 2
    for r in range(len(gain)):
        upper[r] = discount[r]
        lower[r] = min(r, k)
        scale[r] = discount[half + r]
    return min(k, len(gain))


def spaced_delta(gain: Any, table: Any, state: Any, i: int, j: int) -> float:
    upper, lower, scale = state
    return float(abs(gain[i] - gain[j]) * (abs(upper[i] - upper[j]) + scale[int(lower[j] - lower[i])]))


class Discounted(Measure, symmetric=True, falling=True):
    """sum over ranks of gain * discount: a swap changes it by |gain_a - gain_b| * |discount_a - discount_b|."""

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

    @staticmethod
    def swap(gain: Any, discount: Any, k: int, upper: Any, lower: Any, scale: Any) -> int:
        for r in range(len(gain)):
            upper[r] = discount[r]
            lower[r] = discount[r]
        return k if k < len(gain) else len(gain)

    def smooth(self) -> Callable[..., float] | None:
        return smooth_log2 if getattr(self, "discount", None) == "log2" else smooth_table


@dataclass(frozen=True, repr=False)
class DCG(Discounted, name="dcg"):
    """DCG@k = sum_{r<=k} G(l_r) D(r), by default G(l) = 2^l - 1 and D(r) = 1/log2(1 + r).

    Parameters
    ----------
    k : int or None
        The last rank that counts; None: all ranks.
    gain : 'exp2', 'linear', sequence or callable
        What a label is worth: 2^label - 1, the label, one gain per label 0, 1, ..., or a function of the label.
    discount : 'log2', sequence or callable
        What a rank counts: 1/log2(1 + rank), one number per rank (0 beyond them), or a function of the rank.

    References
    ----------
    K. Järvelin, J. Kekäläinen (2002), "Cumulated gain-based evaluation of IR techniques", ACM TOIS 20(4).

    Examples
    --------
    >>> import lambdaplug as lp
    >>> lp.evaluate("dcg@2", labels=[1, 0, 2], scores=[3, 2, 1], group=[3])
    {'dcg@2': 1.0}
    """

    k: Cutoff | None = None
    gain: Gain = "exp2"
    discount: Discount = "log2"

    def gains(self, labels: Array) -> Array:
        return gains_by(self.gain, labels, self.name)


@dataclass(frozen=True, repr=False)
class NDCG(DCG, name="ndcg", undefined="no positive gain"):
    """NDCG@k = DCG@k / DCG@k of the ideal order. The discount is zero beyond k: this is the true NDCG@k.

    Parameters
    ----------
    k : int or None
        The last rank that counts; None: all ranks.
    gain : 'exp2', 'linear', sequence or callable
        What a label is worth: 2^label - 1, the label, one gain per label 0, 1, ..., or a function of the label.
    discount : 'log2', sequence or callable
        What a rank counts: 1/log2(1 + rank), one number per rank (0 beyond them), or a function of the rank.

    References
    ----------
    K. Järvelin, J. Kekäläinen (2002), "Cumulated gain-based evaluation of IR techniques", ACM TOIS 20(4).

    Examples
    --------
    >>> import lambdaplug as lp
    >>> lp.evaluate("ndcg@2", labels=[1, 0, 2], scores=[3, 2, 1], group=[3])
    {'ndcg@2': 0.27541155237618664}
    """

    norm = staticmethod(ideal_sum)


@inlinable
def _mean_discounts(gain: Any, discount: Any, k: int) -> Any:
    """What a rank counts in the mean of NDCG@1 ... NDCG@n: its discount times the mean of 1/ideal DCG@k over k >= rank."""
    n = min(k, len(gain))
    ideal = np.sort(gain)[::-1]
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
class MeanNDCG(DCG, name="meanndcg", falling=False, undefined="no positive gain"):
    """MeanNDCG@k = (NDCG@1 + ... + NDCG@k) / k; of a shorter list, or without k, up to the list's length.

    It is a sum of gain * discount like the others, with discounts of each query's own: D(r) times the mean over the cuts
    from r on of 1/ideal DCG.

    Parameters
    ----------
    k : int or None
        The last rank that counts; None: all ranks.
    gain : 'exp2', 'linear', sequence or callable
        What a label is worth: 2^label - 1, the label, one gain per label 0, 1, ..., or a function of the label.
    discount : 'log2', sequence or callable
        What a rank counts: 1/log2(1 + rank), one number per rank (0 beyond them), or a function of the rank.

    References
    ----------
    T. Qin, T.-Y. Liu (2013), "Introducing LETOR 4.0 datasets", arXiv:1306.2597.

    Examples
    --------
    >>> import lambdaplug as lp
    >>> lp.evaluate("meanndcg", labels=[1, 0, 2], scores=[3, 2, 1], group=[3])
    {'meanndcg': 0.43242458888332885}
    """

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
        return 1.0 if ideal_sum(gain, discount, k) > 0.0 else 0.0

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
class CNDCG(Discounted, name="cndcg", undefined="no positive click score"):
    """CNDCG@k = NDCG@k of a click score c in [0, 1], with the gain G(c) = 2^(4c) - 1.

    Parameters
    ----------
    k : int or None
        The last rank that counts; None: all ranks.
    discount : 'log2', sequence or callable
        What a rank counts: 1/log2(1 + rank), one number per rank (0 beyond them), or a function of the rank.

    References
    ----------
    K. Svore, M. Volkovs, C. Burges (2011), "Learning to rank with multiple objective functions", WWW.

    Examples
    --------
    >>> import lambdaplug as lp
    >>> lp.evaluate("cndcg", labels=[0.5, 0, 1], scores=[3, 2, 1], group=[3])
    {'cndcg': 0.6215669797301413}
    """

    k: Cutoff | None = None
    discount: Discount = "log2"

    def gains(self, labels: Array) -> Array:
        if labels.size and (labels.min() < 0 or labels.max() > 1):
            raise LambdaplugError(
                f"cndcg takes click scores from 0 to 1, got labels from {labels.min():g} to {labels.max():g}. "
                "Divide them by their maximum, or use ndcg."
            )
        return np.asarray(np.exp2(4.0 * labels) - 1.0)

    norm = staticmethod(ideal_sum)
