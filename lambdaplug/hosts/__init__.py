"""LightGBM and XGBoost: how their data sets are read and their estimators subclassed. Thin, no mathematics.

A host's module is imported when the first of its data sets comes along, so neither is needed for the other.
"""

import importlib
from collections.abc import Callable
from typing import Any

from ..training import ROWS, DataSet, register_reader, register_scorer

__all__ = ["HOSTS", "module"]

HOSTS = ("lightgbm", "xgboost")


def module(host: str) -> Any:
    """The host's module; it imports the host."""
    return importlib.import_module(f"{__name__}.{host}")


def _reader(host: str) -> Callable[[Any], DataSet]:
    def read(data: Any) -> DataSet:
        found: DataSet = module(host).HOST.read(data)
        return found

    return read


def _scores(model: Any, X: Any) -> Any:
    return importlib.import_module(f"{__name__}.leaves").raw_scores(model, X)


for _host in HOSTS:
    register_reader(_host, _reader(_host))
    register_scorer(_host, _scores)
register_reader(ROWS, _reader("lightgbm"))  # whose own ranker passes labels, weight and group
