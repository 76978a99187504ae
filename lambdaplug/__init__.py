"""lambdaplug: ranking objectives for LightGBM and XGBoost, as plug-ins. The whole public face is on this page."""

from typing import TYPE_CHECKING, Any

from . import analysis, costs, data, measures, schedules
from .analysis import estimate_propensities
from .columns import attach, attached
from .comparison import compare, leaderboard
from .costs import RankNet, Sigmoid
from .custom import custom
from .errors import LambdaplugError, LambdaplugWarning
from .evaluation import evaluate, metric
from .folds import query_folds
from .hosts import presets
from .hosts.base import position_bias
from .hosts.callback import callback
from .hosts.front import front
from .kernels import set_num_threads
from .measures.cascade import *
from .measures.discounted import *
from .measures.intents import *
from .measures.lexicographic import *
from .measures.market import *
from .measures.order import *
from .measures.relevance import *
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
    PositionBias,
    Preferences,
    QueryRMSE,
    QuerySoftmax,
    StochasticRank,
    Unbiased,
    constructions,
    interpolate,
    objective,
)
from .reading import read
from .schedules import cosine, exponential, guard, join, linear, on_plateau, step
from .scoring import scorer
from .verification import verify
from .version import __version__ as __version__

if TYPE_CHECKING:
    from .hosts import dask
    from .hosts.dask import DaskLGBMRanker, DaskXGBRanker
    from .hosts.lightgbm import LGBMRanker, stamp
    from .hosts.xgboost import XGBDataIter, XGBRanker

__docformat__ = "numpy"

__all__ = [
    "FDSA",
    "SPSA",
    "Approx",
    "Calibrated",
    "DaskLGBMRanker",
    "DaskXGBRanker",
    "Graded",
    "LGBMRanker",
    "LambdaRank",
    "LambdaplugError",
    "LambdaplugWarning",
    "ListMLE",
    "Mixture",
    "PLRank",
    "Pareto",
    "PositionBias",
    "Preferences",
    "QueryRMSE",
    "QuerySoftmax",
    "RankNet",
    "Sigmoid",
    "StochasticRank",
    "Unbiased",
    "XGBDataIter",
    "XGBRanker",
    "analysis",
    "attach",
    "attached",
    "callback",
    "compare",
    "constructions",
    "cosine",
    "costs",
    "custom",
    "dask",
    "data",
    "estimate_propensities",
    "evaluate",
    "exponential",
    "front",
    "guard",
    "interpolate",
    "join",
    "leaderboard",
    "linear",
    "measures",
    "metric",
    "objective",
    "on_plateau",
    "position_bias",
    "presets",
    "query_folds",
    "read",
    "schedules",
    "scorer",
    "set_num_threads",
    "stamp",
    "step",
    "verify",
]
__all__ += measures.MEASURES  # and every family's, which star imports bring

if not TYPE_CHECKING:  # else a name that does not exist would pass type checks

    def __getattr__(name: str) -> Any:
        """What needs a package that not everybody has is imported when it is first asked for."""
        if name in ("LGBMRanker", "stamp"):
            from .hosts import lightgbm as home
        elif name in ("XGBRanker", "XGBDataIter"):
            from .hosts import xgboost as home
        elif name in ("dask", "DaskLGBMRanker", "DaskXGBRanker"):
            from .hosts import dask as home
        else:
            raise AttributeError(f"module 'lambdaplug' has no attribute {name!r}")
        return home if name == "dask" else getattr(home, name)


def __dir__() -> list[str]:
    return __all__
