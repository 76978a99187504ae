"""Every ranking measure: its value and its swap delta, side by side. To add one, write one class in one of the families.

A measure is a value: it prints as text that parses back, compares, hashes and pickles.

>>> as_measure("ndcg@10") == NDCG(k=10)
True
>>> NDCG(k=10, gain="linear")
ndcg@10(gain='linear')

``base`` says what a measure is; ``discounted``, ``relevance``, ``cascade``, ``pairs``, ``rank_correlation``, ``intents`` and
``market`` are the families.
"""

from .base import Measure, Prepared, Seen
from .cascade import ERR, MRR, RBP
from .deltas import query_deltas, swap_deltas
from .discounted import CNDCG, DCG, NDCG, MeanNDCG
from .gains import Array, Discount, Gain, gains_by
from .intents import ERRIA, AlphaNDCG
from .market import Exposure, Revenue
from .pairs import BPref, Pairs
from .rank_correlation import Spearman
from .relevance import MAP, WTA, Hit, Precision, Recall
from .text import as_measure, as_measures, registered, with_columns

__all__ = [
    "CNDCG",
    "DCG",
    "ERR",
    "ERRIA",
    "MAP",
    "MRR",
    "NDCG",
    "RBP",
    "WTA",
    "AlphaNDCG",
    "Array",
    "BPref",
    "Discount",
    "Exposure",
    "Gain",
    "Hit",
    "MeanNDCG",
    "Measure",
    "Pairs",
    "Precision",
    "Prepared",
    "Recall",
    "Revenue",
    "Seen",
    "Spearman",
    "as_measure",
    "as_measures",
    "gains_by",
    "query_deltas",
    "registered",
    "swap_deltas",
    "with_columns",
]
