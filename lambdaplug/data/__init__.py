"""Data to try things on."""

from .synthetic import RankingData, cubic

__all__ = ["RankingData", "cubic"]
