"""Clicks: logs read and simulated, how likely each position is looked at, and whether scores are probabilities."""

from .calibration import Calibration as Calibration
from .calibration import calibration as calibration
from .propensities import PropensityCurve as PropensityCurve
from .propensities import estimate_propensities as estimate_propensities
from .sessions import Sessions as Sessions
from .sessions import from_sessions as from_sessions
from .simulation import Clicks as Clicks
from .simulation import simulate_clicks as simulate_clicks
