"""What an objective does to a ranking, and where a model stands under a measure, in numbers and plots."""

import importlib
from typing import Any

from .calibration import Calibration as Calibration
from .calibration import calibration as calibration
from .curves import Curves as Curves
from .difference import Difference as Difference
from .difference import PairDifference as PairDifference
from .difference import explain_difference as explain_difference
from .lambdas import Agreement as Agreement
from .lambdas import Diagnostic as Diagnostic
from .lambdas import EffectivePairs as EffectivePairs
from .lambdas import ForceByLabel as ForceByLabel
from .lambdas import Measured as Measured
from .lambdas import Moment as Moment
from .lambdas import RankChanges as RankChanges
from .lambdas import TopLabels as TopLabels
from .lambdas import count_pairs as count_pairs
from .lambdas import effective_pairs as effective_pairs
from .lambdas import force_by_label as force_by_label
from .lambdas import lambda_agreement as lambda_agreement
from .lambdas import rank_changes as rank_changes
from .lambdas import top_labels as top_labels
from .landscape import Landscape as Landscape
from .landscape import LeafModel as LeafModel
from .landscape import LinearModel as LinearModel
from .optimality import Optimality as Optimality
from .optimality import examine as examine
from .polishing import climb as climb
from .propensities import PropensityCurve as PropensityCurve
from .propensities import estimate_propensities as estimate_propensities

# Those that read boosters, or train them, live with the hosts, which know this room and not the other way round.
_OF_HOSTS = {
    "local_optimality": "optimality",
    "match_table": "matching",
    "polish": "optimality",
    "position_bias": "bias",
    "record": "recorder",
}


def __getattr__(name: str) -> Any:
    if name not in _OF_HOSTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"..hosts.{_OF_HOSTS[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted([*(name for name in globals() if not name.startswith("_")), *_OF_HOSTS])
