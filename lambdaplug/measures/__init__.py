"""Every ranking measure: its value and its swap delta, side by side. To add one, write one class in one of the families.

A measure is a value: it prints as the call that makes it, and as a string it is the text that is read back.

>>> as_measure("ndcg@10") == NDCG(k=10)
True
>>> NDCG(k=10, gain="linear"), str(NDCG(k=10, gain="linear"))
(NDCG(k=10, gain='linear'), "ndcg@10(gain='linear')")

``base`` says what a measure is; ``discounted``, ``relevance``, ``cascade``, ``order``, ``intents``, ``market`` and
``lexicographic`` are the families: what is in a family's ``__all__`` is ``lp.measures.NAME`` and ``lp.NAME``.
"""

from . import cascade, discounted, intents, lexicographic, market, order, relevance
from .base import Measure, Prepared, Seen
from .cascade import *
from .deltas import query_deltas, swap_deltas
from .discounted import *
from .gains import Array, Discount, Gain, gains_by
from .intents import *
from .lexicographic import *
from .market import *
from .order import *
from .relevance import *
from .text import as_measure, as_measures, registered

FAMILIES = cascade, discounted, intents, lexicographic, market, order, relevance
MEASURES = sorted(name for family in FAMILIES for name in family.__all__)

__all__ = ["Array", "Discount", "Gain", "Measure", "Prepared", "Seen", "as_measure", "as_measures", "gains_by"]
__all__ += ["query_deltas", "registered", "swap_deltas", *MEASURES]
