"""Objectives: gradients and hessians from scores and queries. Pure; the boosters that call them live in hosts."""

from .base import Objective
from .lambdarank import LambdaRank

__all__ = ["LambdaRank", "Objective"]
