"""Objectives: gradients and hessians from scores and queries. Pure; the boosters that call them live in hosts."""

from . import constructions as constructions
from .approx import Approx as Approx
from .base import Objective as Objective
from .lambdarank import LambdaRank as LambdaRank
from .listwise import Calibrated as Calibrated
from .listwise import ListMLE as ListMLE
from .listwise import QueryRMSE as QueryRMSE
from .listwise import QuerySoftmax as QuerySoftmax
from .mixture import Graded as Graded
from .mixture import Mixture as Mixture
from .mixture import interpolate as interpolate
from .pareto import Pareto as Pareto
from .perturbation import FDSA as FDSA
from .perturbation import SPSA as SPSA
from .preferences import Preferences as Preferences
from .recommended import as_objective as as_objective
from .recommended import objective as objective
from .sampled import PLRank as PLRank
from .sampled import StochasticRank as StochasticRank
from .unbiased import PositionBias as PositionBias
from .unbiased import Unbiased as Unbiased
