"""Every ranking measure: its value and its swap delta, side by side. To add one, write one class in one of the families.

A measure is a value: it prints as text that parses back, compares, hashes and pickles.

>>> as_measure("ndcg@10") == NDCG(k=10)
True
>>> NDCG(k=10, gain="linear")
ndcg@10(gain='linear')

``base`` says what a measure is; ``discounted``, ``relevance``, ``cascade``, ``pairs``, ``rank_correlation``, ``intents`` and
``market`` are the families: what is in a family's ``__all__`` is ``lp.measures.NAME`` and ``lp.NAME``.
"""

from . import cascade, discounted, intents, market, pairs, rank_correlation, relevance
from .base import Measure, Prepared, Seen
from .cascade import *  # noqa: F403
from .deltas import query_deltas, swap_deltas
from .discounted import *  # noqa: F403
from .gains import Array, Discount, Gain, gains_by
from .intents import *  # noqa: F403
from .market import *  # noqa: F403
from .pairs import *  # noqa: F403
from .rank_correlation import *  # noqa: F403
from .relevance import *  # noqa: F403
from .text import as_measure, as_measures, registered, with_columns

FAMILIES = cascade, discounted, intents, market, pairs, rank_correlation, relevance
MEASURES = sorted(name for family in FAMILIES for name in family.__all__)

__all__ = ["Array", "Discount", "Gain", "Measure", "Prepared", "Seen", "as_measure", "as_measures", "gains_by"]
__all__ += ["query_deltas", "registered", "swap_deltas", "with_columns", *MEASURES]
