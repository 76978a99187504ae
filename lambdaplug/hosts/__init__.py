"""LightGBM and XGBoost: how their data sets are read and their estimators subclassed. Thin, no mathematics.

A host's module is imported when the first of its data sets comes along, so neither is needed for the other.
"""

from ..training import ROWS, register_reader, register_scorer
from .base import HOSTS, host_named, host_of, raw_scores

__all__ = ["HOSTS", "host_named", "host_of"]

for _name in HOSTS:
    register_reader(_name, lambda data: host_of(data).read(data))
    register_scorer(_name, raw_scores)
register_reader(
    ROWS, lambda data: host_named("lightgbm").read(data)
)  # whose own ranker passes labels, weight and group
