"""Objectives: gradients and hessians from scores and queries. Pure; the boosters that call them live in hosts."""

from . import constructions
from .approx import Approx
from .base import Objective
from .lambdarank import LambdaRank
from .listwise import Calibrated, ListMLE, QueryRMSE, QuerySoftmax
from .mixture import Graded, Mixture, interpolate
from .pareto import Pareto
from .perturbation import FDSA, SPSA
from .preferences import Preferences
from .recommended import as_objective, objective
from .sampled import PLRank, StochasticRank
from .unbiased import Unbiased

__all__ = [
    "FDSA",
    "SPSA",
    "Approx",
    "Calibrated",
    "Graded",
    "LambdaRank",
    "ListMLE",
    "Mixture",
    "Objective",
    "PLRank",
    "Pareto",
    "Preferences",
    "QueryRMSE",
    "QuerySoftmax",
    "StochasticRank",
    "Unbiased",
    "as_objective",
    "constructions",
    "interpolate",
    "objective",
]
