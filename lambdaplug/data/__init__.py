"""Data to try things on, and to read from files."""

from ..clicks import Clicks, Sessions, from_sessions, simulate_clicks
from ..rows import sizes_of
from .batches import whole_queries
from .letor import load_letor, save_letor
from .ranking import RankingData
from .synthetic import cubic

__all__ = [
    "Clicks",
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
