"""Data to try things on."""

from ..rows import sizes_of
from .clicks import simulate_clicks
from .synthetic import RankingData, cubic

__all__ = ["RankingData", "cubic", "simulate_clicks", "sizes_of"]
