"""Measures with a user who reads from the top and may stop at every document."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..kernels import inlinable
from .base import Measure
from .discounted import Discounted
from .gains import Array, Cutoff, Gain, Share, gains_by, max_label_of, stop_chances, summed
from .relevance import Relevance
from .smooth import smooth_reciprocal_rank

__all__ = ["ERR", "MRR", "RBP"]


@dataclass(frozen=True, repr=False)
class RBP(Discounted, name="rbp"):
    """RBP = (1 - p) sum_r g(l_r) p^(r-1), with g = G(l)/G(lmax): the user reads on with probability p.

    Parameters
    ----------
    p : float
        How likely the user reads the next document, from 0 to less than 1.
    k : int or None
        The last rank that counts; None: all ranks.
    gain : 'exp2', 'linear', sequence or callable
        What a label is worth: 2^label - 1, the label, one gain per label 0, 1, ..., or a function of the label.
    max_label : float or None
        lmax; None: the data's largest label. Give it where training and test data may differ in it.

    References
    ----------
    A. Moffat, J. Zobel (2008), "Rank-biased precision for measurement of retrieval effectiveness", ACM TOIS
    27(1).

    Examples
    --------
    >>> import lambdaplug as lp
    >>> lp.evaluate("rbp(p=0.5)", labels=[1, 0, 1], scores=[3, 2, 1], group=[3])
    {'rbp(p=0.5)': 0.625}
    """

    p: Share = 0.8
    k: Cutoff | None = None
    gain: Gain = "exp2"
    max_label: float | None = None

    def gains(self, labels: Array) -> Array:
        top = max_label_of(labels, self.max_label, self.name)
        values = gains_by(self.gain, np.append(labels, top), self.name)
        return values[:-1] / values[-1] if values[-1] > 0 else np.zeros(len(labels))

    def discounts(self, n: int) -> Array:
        return np.asarray((1.0 - self.p) * self.p ** np.arange(n))


@dataclass(frozen=True, repr=False)
class ERR(Measure, name="err", scaled=True):
    """ERR@k = sum_{r<=k} (1/r) p_r prod_{q<r} (1 - p_q), p = (2^l - 1)/2^lmax.

    Parameters
    ----------
    k : int or None
        The last rank that counts; None: all ranks.
    max_label : float or None
        lmax; None: the data's largest label. Give it where training and test data may differ in it.

    References
    ----------
    O. Chapelle, D. Metzler, Y. Zhang, P. Grinspan (2009), "Expected reciprocal rank for graded relevance",
    CIKM.

    Examples
    --------
    >>> import lambdaplug as lp
    >>> lp.evaluate("err", labels=[1, 0, 2], scores=[3, 2, 1], group=[3])
    {'err': 0.4375}
    """

    k: Cutoff | None = None
    max_label: float | None = None

    def gains(self, labels: Array) -> Array:
        return stop_chances(labels, self.max_label, self.name)

    discount = "reciprocal"

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
class MRR(Relevance, name="mrr", coarse=np.inf, undefined="nothing relevant"):
    """RR@k = 1/rank of the first relevant document, 0 if that rank is beyond k; its mean over queries is MRR@k.

    Parameters
    ----------
    k : int or None
        The last rank that counts; None: all ranks.
    relevant : float
        Documents with a label >= this are relevant.
    gains_only : bool
        Train only with the swaps that raise RR: P. Donmez, K. Svore, C. Burges (2009), "On the local optimality of
        LambdaRank", SIGIR, equation 11.

    References
    ----------
    E. Voorhees (1999), "The TREC-8 question answering track report", TREC-8.

    Examples
    --------
    >>> import lambdaplug as lp
    >>> lp.evaluate("mrr", labels=[0, 1, 1], scores=[3, 2, 1], group=[3])
    {'mrr': 0.5}
    """

    k: Cutoff | None = None
    gains_only: bool = False

    discount = "reciprocal"

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
            relevant = summed(gain, low, high)
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
        return smooth_reciprocal_rank
