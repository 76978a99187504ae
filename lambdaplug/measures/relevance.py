"""Measures that tell only relevant documents from the others."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .base import Measure
from .discounted import Discounted
from .gains import Array, Cutoff, summed
from .smooth import smooth_average_precision

__all__ = ["MAP", "WTA", "Hit", "Precision", "Recall"]


@dataclass(frozen=True, repr=False)
class Relevance(Measure):
    """Measures that tell only relevant documents, label >= ``relevant``, from the others."""

    relevant: float = field(default=1, kw_only=True)

    def gains(self, labels: Array) -> Array:
        return (labels >= self.relevant).astype(np.float64)


def relevant_documents(gain: Any, discount: Any, k: int) -> float:
    """1 / relevant documents."""
    relevant = 0.0
    for g in gain:
        relevant += g
    return 1.0 / relevant if relevant > 0.0 else 0.0


@dataclass(frozen=True, repr=False)
class _TopK(Relevance, Discounted, falling=False):
    """What counts is how many of the top k are relevant."""

    k: Cutoff


@dataclass(frozen=True, repr=False)
class Precision(_TopK, name="p"):
    """P@k = relevant documents in the top k / k.

    Parameters
    ----------
    k : int
        The last rank that counts; it must be given.
    relevant : float
        Documents with a label >= this are relevant.

    References
    ----------
    C. J. van Rijsbergen (1979), "Information Retrieval", second edition, chapter 7.

    Examples
    --------
    >>> import lambdaplug as lp
    >>> lp.evaluate("p@2", labels=[1, 0, 1], scores=[3, 2, 1], group=[3])
    {'p@2': 0.5}
    """

    def discounts(self, n: int) -> Array:
        return np.full(n, 1.0 / (self.cutoff or 1))


@dataclass(frozen=True, repr=False)
class Recall(_TopK, name="recall", undefined="nothing relevant"):
    """Recall@k = relevant documents in the top k / all relevant documents.

    Parameters
    ----------
    k : int
        The last rank that counts; it must be given.
    relevant : float
        Documents with a label >= this are relevant.

    References
    ----------
    C. Cleverdon (1967), "The Cranfield tests on index language devices", Aslib Proceedings 19(6).

    Examples
    --------
    >>> import lambdaplug as lp
    >>> lp.evaluate(lp.Recall(k=2, relevant=2), labels=[1, 2, 3], scores=[3, 2, 1], group=[3])
    {'recall@2(relevant=2)': 0.5}
    """

    norm = staticmethod(relevant_documents)


@dataclass(frozen=True, repr=False)
class Hit(Relevance, name="hit", coarse=np.inf):
    """Hit@k = 1 if a relevant document is in the top k, else 0; also Success@k. hit@1 is WTA.

    Parameters
    ----------
    k : int
        The last rank that counts; it must be given.
    relevant : float
        Documents with a label >= this are relevant.

    References
    ----------
    M. Deshpande, G. Karypis (2004), "Item-based top-N recommendation algorithms", ACM TOIS 22(1).

    Examples
    --------
    >>> import lambdaplug as lp
    >>> lp.evaluate("hit@2", labels=[0, 1, 1], scores=[3, 2, 1], group=[3])
    {'hit@2': 1.0}
    """

    k: Cutoff

    shortest = Discounted.shortest

    @staticmethod
    def value(gain: Any, discount: Any, k: int) -> float:
        for r in range(min(k, len(gain))):
            if gain[r] > 0.0:
                return 1.0
        return 0.0

    @staticmethod
    def expected(gain: Any, ends: Any, discount: Any, k: int) -> float:
        # Of the stretch that the cut-off goes through, place by place: the chance that none was relevant so far.
        none_yet = 1.0
        low = 0
        while low < min(k, len(gain)):
            high = ends[low]
            relevant = summed(gain, low, high)
            for r in range(low, min(high, k)):
                none_yet *= max(high - r - relevant, 0.0) / (high - r)
            low = high
        return 1.0 - none_yet

    @staticmethod
    def swap(gain: Any, discount: Any, k: int, upper: Any, lower: Any, scale: Any) -> int:
        # Without a relevant document in the top k, one from below makes a hit. The only one there loses it to any
        # that is not relevant. Of two or more, none matters.
        inside = 0.0
        for r in range(len(gain)):
            top = 1.0 if r < k else 0.0
            inside += top * gain[r]
            upper[r] = top
            lower[r] = top
        if inside > 0.0:
            for r in range(k, len(gain)):
                lower[r] = gain[r]
        return min(k, len(gain)) if inside < 2.0 else 0


@dataclass(frozen=True, repr=False)
class WTA(Relevance, Discounted, name="wta", falling=False):
    """Winner takes all: WTA = 1 if the top document is relevant, else 0.

    Parameters
    ----------
    relevant : float
        Documents with a label >= this are relevant.

    References
    ----------
    C. Burges, R. Ragno, Q. Le (2006), "Learning to rank with nonsmooth cost functions", NIPS.

    Examples
    --------
    >>> import lambdaplug as lp
    >>> lp.evaluate("wta", labels=[0, 1, 1], scores=[3, 2, 1], group=[3])
    {'wta': 0.0}
    """

    cutoff = 1


@dataclass(frozen=True, repr=False)
class MAP(Relevance, name="map", greater=True, coarse=2000, undefined="nothing relevant"):
    """AP@k = (1/R) sum_{r<=k} rel(r) * precision(r), R = all relevant documents; its mean over queries is MAP@k.

    Parameters
    ----------
    k : int or None
        The last rank that counts; None: all ranks.
    relevant : float
        Documents with a label >= this are relevant.

    References
    ----------
    C. Buckley, E. Voorhees (2000), "Evaluating evaluation measure stability", SIGIR.

    Examples
    --------
    >>> import lambdaplug as lp
    >>> lp.evaluate("map", labels=[1, 0, 1], scores=[3, 2, 1], group=[3])
    {'map': 0.8333333333333333}
    """

    k: Cutoff | None = None

    # b(r) = n(r)/r - H(r): a relevant document at rank p above another at q changes b(p) - b(q), and below it
    # (b(q) + 1/q) - (b(p) + 1/p) >= 1/q - 1/p. So where one of the two is the change, the other is not positive.

    discount = "reciprocal"

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
            relevant = summed(gain, low, high)
            among = (relevant - 1.0) / (n - 1.0) if n > 1 else 0.0
            for r in range(low, min(high, k)):
                total += relevant / n * (seen + 1.0 + (r - low) * among) / (r + 1)
            seen += relevant
            low = high
        return total

    norm = staticmethod(relevant_documents)

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
        return smooth_average_precision
