"""lambdaplug: ranking objectives for LightGBM and XGBoost, as plug-ins. The whole public face is on this page."""

from typing import TYPE_CHECKING, Any

from . import analysis, data, hosts
from .analysis import estimate_propensities, explain_difference
from .comparison import compare, leaderboard
from .costs import RankNet, Sigmoid
from .custom import custom
from .errors import LambdaplugError, LambdaplugWarning
from .evaluation import evaluate, metric
from .folds import query_folds
from .hosts import presets
from .hosts.bias import position_bias
from .hosts.callback import callback
from .hosts.front import front
from .hosts.matching import match_table
from .hosts.optimality import local_optimality, polish
from .hosts.recorder import record
from .hosts.stamping import stamp
from .kernels import set_num_threads
from .measures import (
    CNDCG,
    DCG,
    ERR,
    ERRIA,
    MAP,
    MRR,
    NDCG,
    RBP,
    WTA,
    AlphaNDCG,
    BPref,
    Exposure,
    Hit,
    MeanNDCG,
    Pairs,
    Precision,
    Recall,
    Revenue,
    Spearman,
)
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
from .schedules import cosine, exponential, guard, join, linear, on_plateau, step
from .verification import verify
from .version import __version__

if TYPE_CHECKING:
    from .hosts import dask
    from .hosts.dask.lightgbm import DaskLGBMRanker
    from .hosts.dask.xgboost import DaskXGBRanker
    from .hosts.lightgbm import LGBMRanker
    from .hosts.xgboost import XGBDataIter, XGBRanker

__all__ = [
    "CNDCG",
    "DCG",
    "ERR",
    "ERRIA",
    "FDSA",
    "MAP",
    "MRR",
    "NDCG",
    "RBP",
    "SPSA",
    "WTA",
    "AlphaNDCG",
    "Approx",
    "BPref",
    "Calibrated",
    "DaskLGBMRanker",
    "DaskXGBRanker",
    "Exposure",
    "Graded",
    "Hit",
    "LGBMRanker",
    "LambdaRank",
    "LambdaplugError",
    "LambdaplugWarning",
    "ListMLE",
    "MeanNDCG",
    "Mixture",
    "PLRank",
    "Pairs",
    "Pareto",
    "Precision",
    "Preferences",
    "QueryRMSE",
    "QuerySoftmax",
    "RankNet",
    "Recall",
    "Revenue",
    "Sigmoid",
    "Spearman",
    "StochasticRank",
    "Unbiased",
    "XGBDataIter",
    "XGBRanker",
    "__version__",
    "analysis",
    "callback",
    "compare",
    "constructions",
    "cosine",
    "custom",
    "dask",
    "data",
    "estimate_propensities",
    "evaluate",
    "explain_difference",
    "exponential",
    "front",
    "guard",
    "interpolate",
    "join",
    "leaderboard",
    "linear",
    "local_optimality",
    "match_table",
    "metric",
    "objective",
    "on_plateau",
    "polish",
    "position_bias",
    "presets",
    "query_folds",
    "record",
    "set_num_threads",
    "stamp",
    "step",
    "verify",
]

# Imported when first asked for: each needs a package that not everybody has.
_NEEDS_HOST = {
    "DaskLGBMRanker": "dask.lightgbm",
    "DaskXGBRanker": "dask.xgboost",
    "LGBMRanker": "lightgbm",
    "XGBDataIter": "xgboost",
    "XGBRanker": "xgboost",
    "dask": "dask",
}


def __getattr__(name: str) -> Any:
    if name not in _NEEDS_HOST:
        raise AttributeError(f"module 'lambdaplug' has no attribute {name!r}")
    module = hosts.module(_NEEDS_HOST[name])
    return module if name == "dask" else getattr(module, name)


def __dir__() -> list[str]:
    return sorted(__all__)
