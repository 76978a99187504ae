"""Pair costs: what a pair of documents pays for its order.

A cost is two formulas of the same function. ``exact(margin, shift)`` takes the score margin o = sigma (s_i - s_j) of
the better over the worse document. ``fast(better, worse, shift)`` takes exp(sigma s_i) and exp(sigma s_j), each up to
the same factor, so that no exp stands in the inner loop. Both return (force, hessian) for |delta| = 1 and sigma = 1.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .errors import LambdaplugError

__all__ = ["Cost", "RankNet", "as_cost"]


@dataclass(frozen=True)
class Cost:
    """Base of the pair costs; subclasses register themselves under ``name``."""

    name: ClassVar[str] = ""
    registry: ClassVar[dict[str, type["Cost"]]] = {}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        Cost.registry[cls.name] = cls

    @property
    def shift(self) -> float:
        """The cost's one parameter, as the kernel's fast formula wants it."""
        return 0.0

    @staticmethod
    def exact(margin: float, shift: float) -> tuple[float, float]:
        raise NotImplementedError

    @staticmethod
    def fast(better: float, worse: float, shift: float) -> tuple[float, float]:
        raise NotImplementedError


@dataclass(frozen=True)
class RankNet(Cost):
    """Cross entropy of the pair: C = log(1 + exp(-o)), so rho = 1/(1 + exp(o)), force rho, hessian rho (1 - rho).

    >>> RankNet.exact(0.0, 0.0)
    (0.5, 0.25)
    """

    name: ClassVar[str] = "ranknet"

    @staticmethod
    def exact(margin: float, shift: float) -> tuple[float, float]:
        small = math.exp(-abs(margin))
        low = small / (1.0 + small)
        high = 1.0 / (1.0 + small)
        return (low if margin > 0.0 else high), low * high

    @staticmethod
    def fast(better: float, worse: float, shift: float) -> tuple[float, float]:
        inverse = np.float32(1.0) / (better + worse)
        rho = worse * inverse
        return rho, rho * (better * inverse)


def as_cost(cost: str | Cost) -> Cost:
    """A cost by value or by name."""
    if isinstance(cost, Cost):
        return cost
    if isinstance(cost, str) and cost in Cost.registry:
        return Cost.registry[cost]()
    raise LambdaplugError(f"cost: expected one of {sorted(Cost.registry)} or a cost object, got {cost!r}.")
