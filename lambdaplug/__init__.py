"""lambdaplug: ranking objectives for LightGBM and XGBoost, as plug-ins. The whole public face is on this page."""

import importlib
from typing import TYPE_CHECKING, Any

from . import analysis, costs, data, hosts, measures, schedules
from .comparison import compare, leaderboard
from .custom import custom
from .deprecation import warn_deprecated
from .errors import LambdaplugError, LambdaplugWarning
from .evaluation import evaluate, metric
from .folds import query_folds
from .hosts import presets
from .hosts.callback import callback
from .hosts.front import front
from .hosts.stamping import stamp
from .kernels import set_num_threads
from .objectives import (
    FDSA,
    SPSA,
    Approx,
    Calibrated,
    Graded,
    LambdaRank,
    ListMLE,
    Mixture,
    Pareto,
    PLRank,
    Preferences,
    QueryRMSE,
    QuerySoftmax,
    StochasticRank,
    Unbiased,
    constructions,
    interpolate,
    objective,
)
from .verification import verify
from .version import __version__ as __version__

if TYPE_CHECKING:
    from .costs import *  # noqa: F403
    from .hosts import dask
    from .hosts.dask.lightgbm import DaskLGBMRanker as DaskLGBMRanker
    from .hosts.dask.xgboost import DaskXGBRanker as DaskXGBRanker
    from .hosts.lightgbm import LGBMRanker
    from .hosts.xgboost import XGBDataIter as XGBDataIter
    from .hosts.xgboost import XGBRanker
    from .measures.cascade import *  # noqa: F403
    from .measures.discounted import *  # noqa: F403
    from .measures.intents import *  # noqa: F403
    from .measures.market import *  # noqa: F403
    from .measures.pairs import *  # noqa: F403
    from .measures.rank_correlation import *  # noqa: F403
    from .measures.relevance import *  # noqa: F403
    from .schedules import *  # noqa: F403

__all__ = [
    "FDSA",
    "SPSA",
    "Approx",
    "Calibrated",
    "Graded",
    "LGBMRanker",
    "LambdaRank",
    "LambdaplugError",
    "LambdaplugWarning",
    "ListMLE",
    "Mixture",
    "PLRank",
    "Pareto",
    "Preferences",
    "QueryRMSE",
    "QuerySoftmax",
    "StochasticRank",
    "Unbiased",
    "XGBRanker",
    "analysis",
    "callback",
    "compare",
    "constructions",
    "costs",
    "custom",
    "dask",
    "data",
    "evaluate",
    "front",
    "interpolate",
    "leaderboard",
    "measures",
    "metric",
    "objective",
    "presets",
    "query_folds",
    "schedules",
    "set_num_threads",
    "stamp",
    "verify",
]

# Where else a name may be found: with what it belongs to, lp.NDCG being lp.measures.NDCG; or in a module that needs a
# package which not everybody has, and is imported when first asked for.
_HOMES = {
    "measures": " ".join(measures.MEASURES),
    "costs": "RankNet Sigmoid",
    "schedules": "cosine exponential guard join linear on_plateau step",
    "analysis": "estimate_propensities position_bias",
    "hosts.lightgbm": "LGBMRanker",
    "hosts.xgboost": "XGBDataIter XGBRanker",
    "hosts.dask.lightgbm": "DaskLGBMRanker",
    "hosts.dask.xgboost": "DaskXGBRanker",
}
_MOVED = ["explain_difference", "local_optimality", "match_table", "polish", "record"]  # to analysis, with a warning


def __getattr__(name: str) -> Any:
    if name == "dask":
        return hosts.module(name)
    if name in _MOVED:
        warn_deprecated(f"lambdaplug.{name} is now lambdaplug.analysis.{name}.")
        return getattr(analysis, name)
    for home, names in _HOMES.items():
        if name in names.split():
            return getattr(importlib.import_module(f"{__name__}.{home}"), name)
    raise AttributeError(f"module 'lambdaplug' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *" ".join(_HOMES.values()).split()])
