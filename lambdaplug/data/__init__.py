"""Data to try things on."""

from .clicks import simulate_clicks
from .synthetic import RankingData, cubic

__all__ = ["RankingData", "cubic", "simulate_clicks"]
