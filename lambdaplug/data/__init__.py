"""Data to try things on, and to read from files."""

from ..rows import sizes_of
from .batches import whole_queries
from .clicks import Clicks, simulate_clicks
from .letor import LAYOUTS, LetorParts, load_letor, save_letor
from .ranking import RankingData
from .sessions import Sessions, from_sessions
from .synthetic import cubic

__all__ = [
    "LAYOUTS",
    "Clicks",
    "LetorParts",
    "RankingData",
    "Sessions",
    "cubic",
    "from_sessions",
    "load_letor",
    "save_letor",
    "simulate_clicks",
    "sizes_of",
    "whole_queries",
]
