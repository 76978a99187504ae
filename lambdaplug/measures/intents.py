"""Measures of documents that serve intents, and are worth less below others that serve the same.

alpha-nDCG, ERR-IA and revenue with a cascade are one form. A document has slots, each (intent, worth, stop): with d_r what
rank r counts,

    value = sum over ranks r and the slots of its document of d_r worth T, T = prod (1 - stop) over the documents above
    that have a slot of the same intent.

Exchanging the documents a at rank i and b at rank j > i changes an intent's part, with x = (1 - stop_b)/(1 - stop_a), by

    d_i T_i (worth_b - worth_a) + (x - 1) (its sum over the ranks between) + d_j T_j (x worth_a - worth_b),

a document without the intent having worth and stop 0: O(slots) per pair after running sums, O(n x intents) per query.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ..errors import LambdaplugError
from ..kernels import PairDelta, inlinable
from ..rows import levels
from .base import Seen
from .gains import Array, discounts_by, exp2, max_label_of, reciprocal_ranks
from .tables import OWN, Tabled, query_of, tabled

__all__ = ["ERRIA", "AlphaNDCG"]

INTENTS, SLOTS = (
    OWN,
    OWN + 1,
)  # how many intents the query has; then for each slot its intent (-1: none), worth and stop


def cascade_value(gain: Any, discount: Any, k: int) -> float:
    table = discount
    discount, cut = query_of(gain, table)
    total = 0.0
    if cut > 0:
        looking = np.ones(int(table[INTENTS, int(gain[0])]))
        for r in range(cut):
            row = int(gain[r])
            for slot in range(SLOTS, len(table), 3):
                intent = int(table[slot, row])
                if intent >= 0:
                    total += discount[r] * looking[intent] * table[slot + 1, row]
                    looking[intent] *= 1.0 - table[slot + 2, row]
    return total


def _cascade_begin(ranked: Any, frozen: Any, upper: Any, lower: Any, scale: Any) -> Any:
    gain, table = frozen
    discount, _ = query_of(gain, table)
    n, intents, rows = len(gain), int(table[INTENTS, int(gain[0])]), len(table) - SLOTS
    slots = np.empty((rows, n))
    looking = np.ones((intents, n + 1))  # T of an intent before each rank
    sums = np.zeros((intents, n + 1))  # and its part of the value
    for r in range(n):
        for intent in range(intents):
            looking[intent, r + 1] = looking[intent, r]
            sums[intent, r + 1] = sums[intent, r]
        upper[r] = discount[r]
        for slot in range(rows):
            slots[slot, r] = table[SLOTS + slot, int(gain[r])]
        for slot in range(0, rows, 3):
            intent = int(slots[slot, r])
            if intent >= 0:
                sums[intent, r + 1] += discount[r] * looking[intent, r] * slots[slot + 1, r]
                looking[intent, r + 1] *= 1.0 - slots[slot + 2, r]
    return slots, looking, sums, upper


@inlinable
def _exchanged(state: Any, intent: int, i: int, j: int, a: Any, b: Any) -> float:
    """What one intent's part changes by; a and b are the worth and stop of the documents at i and j."""
    _, looking, sums, discount = state
    ratio = (1.0 - b[1]) / (1.0 - a[1])
    between = sums[intent, j] - sums[intent, i + 1]
    above, below = discount[i] * looking[intent, i], discount[j] * looking[intent, j]
    return float(above * (b[0] - a[0]) + below * (ratio * a[0] - b[0]) + (ratio - 1.0) * between)


@inlinable
def _slot_of(slots: Any, intent: int, r: int) -> tuple[float, float]:
    """Worth and stop of the document at r for this intent; 0 without it."""
    for slot in range(0, len(slots), 3):
        if int(slots[slot, r]) == intent:
            return slots[slot + 1, r], slots[slot + 2, r]
    return 0.0, 0.0


def _cascade_delta(ranked: Any, frozen: Any, state: Any, i: int, j: int) -> float:
    slots = state[0]
    change = 0.0
    for slot in range(0, len(slots), 3):
        intent = int(slots[slot, i])
        if intent >= 0:
            mine = slots[slot + 1, i], slots[slot + 2, i]
            change += _exchanged(state, intent, i, j, mine, _slot_of(slots, intent, j))
        intent = int(slots[slot, j])
        if intent >= 0 and _slot_of(slots, intent, i)[0] == 0.0:  # not one of both
            change += _exchanged(state, intent, i, j, (0.0, 0.0), (slots[slot + 1, j], slots[slot + 2, j]))
    return change


def _single_delta(ranked: Any, frozen: Any, state: Any, i: int, j: int) -> float:
    """The same where every document has one slot: of no intent, it is of the first with a worth and stop of 0."""
    slots = state[0]
    one, other = int(slots[0, i]), int(slots[0, j])
    a, b = (slots[1, i], slots[2, i]), (slots[1, j], slots[2, j])
    if one == other:
        return _exchanged(state, one, i, j, a, b)
    return _exchanged(state, one, i, j, a, (0.0, 0.0)) + _exchanged(state, other, i, j, (0.0, 0.0), b)


class _Cascaded(Tabled):
    """Slots by intent."""

    intents: Any

    value = staticmethod(cascade_value)

    def pair_delta(self, checked: bool = False) -> PairDelta:  # noqa: ARG002
        delta = _single_delta if len(self.intents) == 1 else _cascade_delta
        return PairDelta(_cascade_begin, delta, whole=self.whole, signed=True, tabled=True)

    def slot(self, judged: Array, top: float) -> tuple[Array, Array]:
        """Worth and stop of documents judged so for an intent; ``top`` is the largest judgement there can be."""
        raise NotImplementedError

    def tabulated(self, seen: Seen) -> Seen:
        columns, labels = seen.columns[: len(self.intents)], np.nan_to_num(seen.gain)
        intents, slots = _slots(columns, labels, seen.offsets)
        top = max_label_of(
            np.stack(columns) if len(columns) > 1 else labels, getattr(self, "max_label", None), self.name
        )
        own = [intents]
        for intent, judged in slots:
            own += [intent, *(np.where(judged > 0.0, values, 0.0) for values in self.slot(judged, top))]
        return tabled(self, seen, own)


def _slots(
    columns: Sequence[Array], labels: Array, offsets: npt.NDArray[np.int64]
) -> tuple[Array, list[tuple[Array, Array]]]:
    """How many intents a row's query has; for each slot, the intent (-1: none) and the document's judgement for it."""
    if len(columns) == 1:
        intent = np.where(labels > 0.0, levels(columns, offsets), 0.0)
        highest = np.maximum.reduceat(intent, offsets[:-1][np.diff(offsets) > 0]) if len(intent) else intent
        sizes = np.diff(offsets)
        return np.repeat(highest + 1.0, sizes[sizes > 0]), [(intent, labels)]
    judged = np.stack(columns)
    if judged.size and judged.min() < 0.0:
        raise LambdaplugError(f"column 'intents': expected judgements >= 0, got {judged.min():g}.")
    most = max(1, int(np.count_nonzero(judged, axis=0).max(initial=0)))
    order = np.argsort(judged <= 0.0, axis=0, kind="stable")[:most]
    found = np.take_along_axis(judged, order, axis=0)
    count = np.full(len(labels), float(len(columns)))
    return count, [(np.where(j > 0.0, at, -1.0), j) for at, j in zip(order, found, strict=True)]


@dataclass(frozen=True, repr=False)
class AlphaNDCG(_Cascaded):
    """alpha-nDCG@k = alpha-DCG@k / that of the greedy ideal order, alpha-DCG@k = sum_{r<=k} D(r) sum_m J(r, m) (1 - alpha)^c,

    where J is 1 if the document at rank r serves intent m, c how many above it do, and D(r) = 1/log2(1 + r). The greedy order
    takes the document that adds most, rank by rank (the best order of all is NP-hard to find): O(k n) per query, once.

    Parameters
    ----------
    intents : array
        One number per row, the intent that a document with a label > 0 serves (category, brand, meaning of the query); or
        one column per intent, > 0 where the document serves it, whatever its label.
    alpha : float
        How much less a document is worth for each one above that serves the same intent: from 0 to less than 1.
    k : int or None, or one int per query
        The last rank that counts; None: all ranks.

    References
    ----------
    C. Clarke et al. (2008), "Novelty and diversity in information retrieval evaluation", SIGIR.

    Examples
    --------
    >>> import lambdaplug as lp
    >>> measure = lp.AlphaNDCG(intents=[1, 1, 2], k=2)
    >>> lp.evaluate(measure, labels=[1, 1, 1], scores=[3, 2, 1], group=[3])
    {'alphandcg@2': 0.8065735963827293}
    """

    intents: Any = None
    alpha: float = 0.5
    k: Any = None

    name: ClassVar[str] = "alphandcg"
    formula: ClassVar[str] = "alpha-DCG@k / that of the greedy order: an intent served again is worth 1 - alpha"
    undefined: ClassVar[str] = "no document serves an intent"
    column_fields: ClassVar[tuple[str, ...]] = ("intents",)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.alpha < 1:
            raise LambdaplugError(f"alphandcg: alpha must be at least 0 and less than 1, got {self.alpha!r}.")

    def discounts(self, n: int) -> Array:
        return discounts_by("log2", n, self.name)

    def slot(self, judged: Array, top: float) -> tuple[Array, Array]:  # noqa: ARG002
        return np.ones(len(judged)), np.full(len(judged), self.alpha)

    @staticmethod
    def norm(gain: Any, table: Any, k: int) -> float:
        discount, cut = query_of(gain, table)
        n, total = len(gain), 0.0
        looking = np.ones(int(table[INTENTS, int(gain[0])]) if n > 0 else 0)
        taken = np.zeros(n)
        for r in range(cut):
            best, most = -1, -1.0
            for d in range(n):
                adds, row = 0.0, int(gain[d])
                for slot in range(SLOTS, len(table), 3):
                    if table[slot, row] >= 0.0:
                        adds += looking[int(table[slot, row])] * table[slot + 1, row]
                if taken[d] == 0.0 and adds > most:
                    best, most = d, adds
            taken[best] = 1.0
            total += discount[r] * most
            for slot in range(SLOTS, len(table), 3):
                intent = int(table[slot, int(gain[best])])
                if intent >= 0:
                    looking[intent] *= 1.0 - table[slot + 2, int(gain[best])]
        return 1.0 / total if total > 0.0 else 0.0


@dataclass(frozen=True, repr=False)
class ERRIA(_Cascaded):
    """ERR-IA@k = mean over the query's intents of ERR@k by the judgements for that intent.

    An intent that no document serves is not counted. J is a judgement as ERR's label: p = (2^J - 1)/2^max.

    Parameters
    ----------
    intents : array
        One number per row, the intent to which the document's label belongs; or one column per intent with the
        judgements for it, whatever the label.
    k : int or None, or one int per query
        The last rank that counts; None: all ranks.
    max_label : float or None
        The largest judgement there can be; None: the data's. Give it where training and test data may differ in it.

    References
    ----------
    O. Chapelle, S. Ji, C. Liao, E. Velipasaoglu, L. Lai, S. Wu (2011), "Intent-based diversification of web search results",
    Information Retrieval 14(6).

    Examples
    --------
    >>> import lambdaplug as lp
    >>> measure = lp.ERRIA(intents=[1, 1, 2])
    >>> lp.evaluate(measure, labels=[1, 1, 1], scores=[3, 2, 1], group=[3])
    {'erria': 0.3958333333333333}
    """

    intents: Any = None
    k: Any = None
    max_label: float | None = None

    name: ClassVar[str] = "erria"
    formula: ClassVar[str] = "mean over intents of ERR@k"
    undefined: ClassVar[str] = "no document serves an intent"
    column_fields: ClassVar[tuple[str, ...]] = ("intents",)

    def discounts(self, n: int) -> Array:
        return reciprocal_ranks(n)

    def slot(self, judged: Array, top: float) -> tuple[Array, Array]:
        stop = exp2(judged) / np.exp2(top)
        return stop, stop

    @staticmethod
    def norm(gain: Any, table: Any, k: int) -> float:
        n = len(gain)
        served = np.zeros(int(table[INTENTS, int(gain[0])]) if n > 0 else 0)
        for d in range(n):
            for slot in range(SLOTS, len(table), 3):
                if table[slot + 1, int(gain[d])] > 0.0:
                    served[int(table[slot, int(gain[d])])] = 1.0
        return 1.0 / served.sum() if served.any() else 0.0
