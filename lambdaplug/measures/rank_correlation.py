"""Rank correlation of the order as a whole with the labels."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ..kernels import inlinable
from ..rows import average_ranks
from .base import Measure, Prepared
from .gains import Array

__all__ = ["Spearman"]


@inlinable
def _deviations(gain: Any) -> tuple[float, float, float]:
    """How many documents have a label, the mean of their gains, and the sum of squares around it."""
    n = 0.0
    total = 0.0
    for g in gain:
        if not np.isnan(g):
            n += 1.0
            total += g
    mean = total / n if n > 0.0 else 0.0
    squares = 0.0
    for g in gain:
        if not np.isnan(g):
            squares += (g - mean) * (g - mean)
    return n, mean, squares


@dataclass(frozen=True, repr=False)
class Spearman(Measure):
    """Spearman's rank correlation of the order with the labels, over the whole list: from -1 to 1.

        rho = sum_d (p_d - mean p) (q_d - mean q) / sqrt(sum_d (p_d - mean p)^2 sum_d (q_d - mean q)^2),

    p the places, from the last to the first, q the ranks of labels, from the lowest to the highest; equal labels share the
    average of their ranks. Both ends of the list count alike. Where labels are equal, as a rule, no order reaches 1. Documents
    without a label are left out.

    References: C. Spearman (1904), "The proof and measurement of association between two things", American Journal of
    Psychology 15(1).

    >>> lp.evaluate("spearman", labels=[1, 0, 2], scores=[3, 2, 1], group=[3])
    {'spearman': -0.5}
    """

    name: ClassVar[str] = "spearman"
    symmetric: ClassVar[bool] = True
    coarse: ClassVar[float] = np.inf  # ranks are exact in float32
    formula: ClassVar[str] = "rank correlation of the order with the labels, from -1 to 1"
    undefined: ClassVar[str] = "all labels equal"
    unlabelled: ClassVar[float] = np.nan

    def prepare(self, labels: Array, offsets: npt.NDArray[np.int64], columns: Sequence[Array] = ()) -> Prepared:
        return super().prepare(average_ranks(labels, offsets), offsets, columns)

    @staticmethod
    def value(gain: Any, discount: Any, k: int) -> float:
        n, mean, _ = _deviations(gain)
        place = 0.5 * (n - 1.0)
        total = 0.0
        for g in gain:
            if not np.isnan(g):
                total += (g - mean) * place
                place -= 1.0
        return total

    @staticmethod
    def expected(gain: Any, ends: Any, discount: Any, k: int) -> float:
        # Every document of a stretch stands, on average, in its middle.
        n, mean, _ = _deviations(gain)
        place = 0.5 * (n - 1.0)
        total = 0.0
        low = 0
        while low < len(gain):
            here, middle, _ = _deviations(gain[low : ends[low]])
            total += here * (middle - mean) * (place - 0.5 * (here - 1.0))
            place -= here
            low = ends[low]
        return total

    @staticmethod
    def norm(gain: Any, discount: Any, k: int) -> float:
        n, _, squares = _deviations(gain)
        return 1.0 / np.sqrt(squares * n * (n * n - 1.0) / 12.0) if squares > 0.0 else 0.0

    @staticmethod
    def swap(gain: Any, discount: Any, k: int, upper: Any, lower: Any, scale: Any) -> int:
        place = 0.0
        for r in range(len(gain)):
            upper[r] = place
            lower[r] = place
            place += 0.0 if np.isnan(gain[r]) else 1.0
        return len(gain)
