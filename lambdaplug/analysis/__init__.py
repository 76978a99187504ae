"""What an objective does to a ranking, and where a model stands under a measure, in numbers and plots."""

from ..clicks import Calibration as Calibration
from ..clicks import PropensityCurve as PropensityCurve
from ..clicks import calibration as calibration
from ..clicks import estimate_propensities as estimate_propensities
from ..hosts.base import position_bias as position_bias
from .curves import Curves as Curves
from .difference import Difference as Difference
from .difference import PairDifference as PairDifference
from .difference import explain_difference as explain_difference
from .lambdas import effective_pairs as effective_pairs
from .lambdas import force_by_label as force_by_label
from .lambdas import lambda_agreement as lambda_agreement
from .lambdas import rank_changes as rank_changes
from .lambdas import top_labels as top_labels
from .optimality import Optimality as Optimality
from .optimality import local_optimality as local_optimality
from .recorder import record as record
