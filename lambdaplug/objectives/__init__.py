"""Objectives: gradients and hessians from scores and queries. Pure; the boosters that call them live in hosts."""

from .approx import Approx
from .base import Objective
from .lambdarank import LambdaRank
from .mixture import Graded, Mixture, interpolate

__all__ = ["Approx", "Graded", "LambdaRank", "Mixture", "Objective", "interpolate"]
