"""Objectives: gradients and hessians from scores and queries. Pure; the boosters that call them live in hosts."""

from . import constructions
from .base import Objective
from .lambdarank import LambdaRank
from .mixture import Graded, Mixture, interpolate

__all__ = ["Graded", "LambdaRank", "Mixture", "Objective", "constructions", "interpolate"]
