"""Pair costs: what a pair of documents pays for its order.

A cost is two formulas of the same function. ``exact(margin, shift)`` takes the score margin o = sigma (s_i - s_j) of
the better over the worse document. ``fast(better, worse, inverse)`` takes shift exp(sigma s_i) and exp(sigma s_j), each up
to the same factor, and 1/(better + worse), so that neither exp nor division stands in the inner loop for each pair. For
|delta| = 1 and sigma = 1 the first returns (force, hessian), the second (force, hessian / force): the hessian is then
one product of the force that has been weighed already.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from .errors import LambdaplugError
from .values import Value

__all__ = ["Cost", "RankNet", "Sigmoid", "as_cost"]


@dataclass(frozen=True, repr=False)
class Cost(Value):
    """Base of the pair costs, which are named as their classes are."""

    convex: ClassVar[bool] = True  # a second derivative to divide by; without one, the step is along the gradient

    @property
    def shift(self) -> float:
        """The cost's one parameter: a factor of the better document's exponential."""
        return 1.0

    @property
    def distance(self) -> float:
        """If positive, |delta| is divided by this plus the distance of the two scores, of the noisy ones if there is noise."""
        return 0.0

    @staticmethod
    def exact(margin: float, shift: float) -> tuple[float, float]:
        raise NotImplementedError

    @staticmethod
    def fast(better: float, worse: float, inverse: float) -> tuple[float, float]:
        raise NotImplementedError


@dataclass(frozen=True, repr=False)
class RankNet(Cost):
    """Cross entropy of the pair: C = log(1 + exp(-o)), so rho = 1/(1 + exp(o)), force rho, hessian rho (1 - rho).

    Here o = sigma (s_i - s_j) is the score margin of the better document over the worse.

    Parameters
    ----------
    distance : float
        With d > 0, as LightGBM and XGBoost have it (0.01 there), |delta| is divided by d + |s_i - s_j| unless all scores of
        the query are equal: pairs that are close together count more. With noise (see :class:`LambdaRank`) it is the distance
        of the noisy scores, whose order the delta belongs to. 0: no division.

    References
    ----------
    C. Burges et al. (2005), "Learning to rank using gradient descent", ICML.

    Examples
    --------
    >>> import lambdaplug as lp
    >>> lp.RankNet.exact(0.0, 0.0)
    (0.5, 0.25)
    """

    distance: float = 0.0

    def __post_init__(self) -> None:
        if not 1e-6 <= self.distance <= 1e6 and self.distance != 0.0:
            raise LambdaplugError(f"RankNet: distance must be 0 (none) or from 1e-6 to 1e6, got {self.distance!r}.")

    @staticmethod
    def exact(margin: float, shift: float) -> tuple[float, float]:
        small = math.exp(-abs(margin))
        low = small / (1.0 + small)
        high = 1.0 / (1.0 + small)
        return (low if margin > 0.0 else high), low * high

    @staticmethod
    def fast(better: float, worse: float, inverse: float) -> tuple[float, float]:
        return worse * inverse, better * inverse


@dataclass(frozen=True, repr=False)
class Sigmoid(Cost):
    """A smooth count of misordered pairs: C = z = 1/(1 + exp(o + mu)), force z (1 - z).

    A pair far from being turned round is left alone, on either side. The second derivative changes sign, so it goes with
    ``step="gradient"``.

    Parameters
    ----------
    mu : float
        The margin at which a pair's force is largest, with its sign changed; from -50 to 50.

    References
    ----------
    K. Svore, M. Volkovs, C. Burges (2011), "Learning to rank with multiple objective functions", WWW,
    equations 13-15.

    Examples
    --------
    >>> import lambdaplug as lp
    >>> lp.Sigmoid.exact(0.0, 1.0)
    (0.25, 0.0)
    """

    mu: float = 0.0

    convex: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not -50.0 <= self.mu <= 50.0:
            raise LambdaplugError(f"Sigmoid: mu must be a number from -50 to 50, got {self.mu!r}.")

    @property
    def shift(self) -> float:
        return math.exp(self.mu)

    @staticmethod
    def exact(margin: float, shift: float) -> tuple[float, float]:
        small = math.exp(-abs(margin + math.log(shift)))
        return small / (1.0 + small) ** 2, 0.0

    @staticmethod
    def fast(better: float, worse: float, inverse: float) -> tuple[float, Any]:
        return (worse * inverse) * (better * inverse), np.float32(0.0)


def as_cost(cost: str | Cost) -> Cost:
    """A cost by value or by name."""
    by_name = {kind.__name__.lower(): kind for kind in Cost.__subclasses__()}
    if isinstance(cost, str) and cost in by_name:
        return by_name[cost]()
    if isinstance(cost, Cost):
        return cost
    raise LambdaplugError(f"cost: expected one of {sorted(by_name)} or a cost object, got {cost!r}.")
