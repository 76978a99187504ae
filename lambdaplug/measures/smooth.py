"""Measures in smooth positions: what their ``smooth()`` returns, see ``base``."""

from typing import Any

import numpy as np

from ..kernels import inlinable

__all__ = ["smooth_average_precision", "smooth_log2", "smooth_reciprocal_rank", "smooth_table"]


@inlinable
def _inside(position: float, cut: float, beta: float) -> tuple[float, float]:
    """[position <= k] as a sigmoid, and its derivative; no exp overflows."""
    x = beta * (cut - position)
    small = np.exp(-abs(x))
    return (1.0 if x > 0.0 else small) / (1.0 + small), -beta * small / (1.0 + small) ** 2


@inlinable
def _tangent(table: Any, r: int) -> float:
    """The slope at a point of a table: the harmonic mean of the two sides', 0 at an extremum or beside a flat."""
    after = table[r + 1] - table[r] if r + 1 < len(table) else table[r] - table[r - 1]
    before = table[r] - table[r - 1] if r > 0 else after
    return 2.0 * before * after / (before + after) if before * after > 0.0 else 0.0


@inlinable
def _between(table: Any, position: float) -> tuple[float, float]:
    """A table by rank between its ranks, and the derivative: the cubic that is smooth and has no extremum of its own."""
    r = min(max(int(position) - 1, 0), len(table) - 2)
    x = position - 1.0 - r
    rise = table[r + 1] - table[r]
    left, right = _tangent(table, r), _tangent(table, r + 1)
    square = 3.0 * rise - 2.0 * left - right
    cube = left + right - 2.0 * rise
    return table[r] + x * (left + x * (square + x * cube)), left + x * (2.0 * square + 3.0 * x * cube)


def smooth_log2(gain: Any, position: Any, discount: Any, cut: float, beta: float, slope: Any) -> float:
    """sum of gain / log2(1 + position) * [position <= k]."""
    total = 0.0
    for r in range(len(gain)):
        slope[r] = 0.0
        if gain[r] > 0.0:
            inverse = 1.0 / np.log2(1.0 + position[r])
            inside, fall = _inside(position[r], cut, beta)
            total += gain[r] * inverse * inside
            slope[r] = gain[r] * inverse * (fall - inside * inverse / ((1.0 + position[r]) * np.log(2.0)))
    return total


def smooth_table(gain: Any, position: Any, discount: Any, cut: float, beta: float, slope: Any) -> float:
    """sum of gain * discount(position) * [position <= k], the discount's table interpolated."""
    total = 0.0
    for r in range(len(gain)):
        slope[r] = 0.0
        if gain[r] > 0.0:
            value, rate = _between(discount, position[r])
            inside, fall = _inside(position[r], cut, beta)
            total += gain[r] * value * inside
            slope[r] = gain[r] * (rate * inside + value * fall)
    return total


def smooth_average_precision(gain: Any, position: Any, discount: Any, cut: float, beta: float, slope: Any) -> float:
    """sum over relevant y of [p_y <= k]/p_y * (1 + sum over other relevant x of 1/(1 + exp(-beta (p_y - p_x))))."""
    n, total = len(gain), 0.0
    share, above = np.zeros(n), np.ones(n)  # [p <= k]/p, and the relevant documents down to this one
    for r in range(n):
        slope[r] = 0.0
        if gain[r] > 0.0:
            share[r] = _inside(position[r], cut, beta)[0] / position[r]
    for y in range(n):
        if gain[y] > 0.0:
            for x in range(y + 1, n):
                if gain[x] > 0.0:
                    ahead, rate = _inside(position[y], position[x], beta)  # how surely y stands above x
                    above[x] += ahead
                    above[y] += 1.0 - ahead
                    slope[y] -= rate * (share[y] - share[x])
                    slope[x] += rate * (share[y] - share[x])
    for r in range(n):
        if gain[r] > 0.0:
            inside, fall = _inside(position[r], cut, beta)
            total += share[r] * above[r]
            slope[r] += above[r] * (fall - inside / position[r]) / position[r]
    return total


def smooth_reciprocal_rank(gain: Any, position: Any, discount: Any, cut: float, beta: float, slope: Any) -> float:
    """The mean of [p <= k]/p over the relevant documents with the weights exp(-beta p): beta makes it the first one's."""
    first = np.inf
    for r in range(len(gain)):
        if gain[r] > 0.0:
            first = min(first, position[r])
    weights = total = 0.0
    for r in range(len(gain)):
        if gain[r] > 0.0:
            weight = np.exp(-beta * (position[r] - first))
            weights += weight
            total += weight * _inside(position[r], cut, beta)[0] / position[r]
    mean = total / weights if weights > 0.0 else 0.0
    for r in range(len(gain)):
        slope[r] = 0.0
        if gain[r] > 0.0:
            weight = np.exp(-beta * (position[r] - first)) / weights
            inside, fall = _inside(position[r], cut, beta)
            share = inside / position[r]
            slope[r] = weight * ((fall - share) / position[r] - beta * (share - mean))
    return mean
