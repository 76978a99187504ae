"""Objectives: gradients and hessians from scores and queries. Pure; the boosters that call them live in hosts."""

from . import constructions
from .approx import Approx
from .base import Objective
from .lambdarank import LambdaRank
from .mixture import Graded, Mixture, interpolate
from .perturbation import FDSA, SPSA
from .preferences import Preferences
from .recommended import as_objective, objective

__all__ = [
    "FDSA",
    "SPSA",
    "Approx",
    "Graded",
    "LambdaRank",
    "Mixture",
    "Objective",
    "Preferences",
    "as_objective",
    "constructions",
    "interpolate",
    "objective",
]
