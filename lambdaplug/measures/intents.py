"""Measures of documents that serve intents, and are worth less below others that serve the same: see chains.py."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import LambdaplugError
from ..kernels import PairDelta
from ..rows import levels
from .base import Prepared, Seen
from .chains import INTENTS, SLOTS, cascade_value, chained
from .gains import Array, Cutoff, Share, exp2, max_label_of
from .tables import Tabled, query_of, tabled

__all__ = ["ERRIA", "AlphaNDCG"]


class _Cascaded(Tabled, tables=True):
    """Slots by intent."""

    k: Cutoff | None

    value = staticmethod(cascade_value)

    def pair_delta(self, prepared: Prepared | None = None) -> PairDelta:
        return chained(single=prepared is not None and len(prepared.discount) == SLOTS + 3)

    def slot(self, judged: Array, top: float) -> tuple[Array, Array]:
        """Worth and stop of documents judged so for an intent; ``top`` is the largest judgement there can be."""
        raise NotImplementedError

    def tabulated(self, seen: Seen) -> Seen:
        columns = seen.columns[:-1] if isinstance(self.k, str) else seen.columns
        labels = np.nan_to_num(seen.gain)
        intents, slots = _slots(columns, labels, seen.offsets)
        top = max_label_of(
            np.stack(columns) if len(columns) > 1 else labels, getattr(self, "max_label", None), self.name
        )
        own = [intents]
        for intent, judged in slots:
            own += [intent, *(np.where(judged > 0.0, values, 0.0) for values in self.slot(judged, top))]
        return tabled(self, seen, own, grade=levels(own, seen.offsets))  # equal documents are in no pair


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
    most = max(2, int(np.count_nonzero(judged, axis=0).max(initial=0)))  # one alone is that of a single column
    order = np.argsort(judged <= 0.0, axis=0, kind="stable")[:most]
    found = np.take_along_axis(judged, order, axis=0)
    count = np.full(len(labels), float(len(columns)))
    return count, [(np.where(j > 0.0, at, -1.0), j) for at, j in zip(order, found, strict=True)]


@dataclass(frozen=True, repr=False)
class AlphaNDCG(_Cascaded, name="alphandcg", undefined="no document serves an intent", column_fields=("intents",)):
    """alpha-nDCG@k = alpha-DCG@k / that of the greedy ideal order, alpha-DCG@k = sum_{r<=k} D(r) sum_m J(r, m) (1 - alpha)^c,

    where J is 1 if the document at rank r serves intent m, c how many above it do, and D(r) = 1/log2(1 + r). The greedy order
    takes the document that adds most, rank by rank (the best order of all is NP-hard to find): O(k n) per query, once.

    Parameters
    ----------
    intents : str
        The name of the column (see :func:`attach`) with one number per row, the intent that a document with a label > 0 serves
        (category, brand, meaning of the query); or of a table with one column per intent, > 0 where the document serves it,
        whatever its label: a pair then costs O(intents), else O(1).
    alpha : float
        How much less a document is worth for each one above that serves the same intent: from 0 to less than 1.
    k : int, str or None
        The last rank that counts; None: all ranks; the name of a column with one per query.

    References
    ----------
    C. Clarke et al. (2008), "Novelty and diversity in information retrieval evaluation", SIGIR.

    Examples
    --------
    >>> import lambdaplug as lp
    >>> measure = lp.AlphaNDCG(intents="intent", k=2)
    >>> lp.evaluate(measure, labels=[1, 1, 1], scores=[3, 2, 1], group=[3], columns={"intent": [1, 1, 2]})
    {"alphandcg@2(intents='intent')": 0.8065735963827293}
    """

    intents: str = "intents"
    alpha: Share = 0.5
    k: Cutoff | None = None

    discount = "log2"

    def slot(self, judged: Array, top: float) -> tuple[Array, Array]:
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
class ERRIA(_Cascaded, name="erria", undefined="no document serves an intent", column_fields=("intents",)):
    """ERR-IA@k = mean over the query's intents of ERR@k by the judgements for that intent.

    An intent that no document serves is not counted. J is a judgement as ERR's label: p = (2^J - 1)/2^max.

    Parameters
    ----------
    intents : str
        The name of the column (see :func:`attach`) with one number per row, the intent to which the document's label belongs;
        or of a table, one column per intent with the judgements for it, whatever the label: a pair then costs O(intents),
        else O(1).
    k : int, str or None
        The last rank that counts; None: all ranks; the name of a column with one per query.
    max_label : float or None
        The largest judgement there can be; None: the data's. Give it where training and test data may differ in it.

    References
    ----------
    O. Chapelle, S. Ji, C. Liao, E. Velipasaoglu, L. Lai, S. Wu (2011), "Intent-based diversification of web search results",
    Information Retrieval 14(6).

    Examples
    --------
    >>> import lambdaplug as lp
    >>> measure = lp.ERRIA(intents="intent")
    >>> lp.evaluate(measure, labels=[1, 1, 1], scores=[3, 2, 1], group=[3], columns={"intent": [1, 1, 2]})
    {"erria(intents='intent')": 0.3958333333333333}
    """

    intents: str = "intents"
    k: Cutoff | None = None
    max_label: float | None = None

    discount = "reciprocal"

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
