"""The last steps of a gradient: normalise, weigh, floor, check, and write in the host's precision."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from .jit import REDUCE, compile_kernel, inlinable, line, located
from .layout import *
from .round import leaf, level_of

# Boosters square sums of gradients and divide them by sums of hessians in float32: beyond this, to infinite leaves.
LARGEST = np.float32(1e18)
BLOCK = 1024  # rows that stay near the processor


@inlinable
def shape(gradient: Any, hessian: Any, std: bool, unit: bool) -> None:
    """One query's. ``std``: divide by the standard deviation of the gradients. ``unit``: every hessian is 1."""
    n, factor = len(gradient), 1.0
    if std and n > 0:
        mean = spread = 0.0
        for r in range(n):
            mean += gradient[r]
        mean /= n
        for r in range(n):
            spread += (gradient[r] - mean) ** 2
        spread /= n
        factor = 1.0 / np.sqrt(spread) if spread > 0.0 else 1.0
    for r in range(n):
        gradient[r] *= factor
        hessian[r] = 1.0 if unit else hessian[r] * factor


@leaf({}, std=FLAG, unit=FLAG, coefficient=FLOAT, level=INTEGER)
def gathered(leaf: Any, round: Any, room: Any, first: int, last: int) -> tuple[int, int]:
    """Add the sum of the next level, in a shape of its own."""
    offsets, std, unit, coefficient = round.offsets, leaf.std, leaf.unit, leaf.coefficient
    rows = offsets[last] - offsets[first]
    gradient, hessian = level_of(room, leaf.level + 1, rows)
    to_gradient, to_hessian = level_of(room, leaf.level, rows)
    for query in range(first, last):
        _, n, low = located(offsets, first, query)
        shape(line(gradient, 0, low, n), line(hessian, 0, low, n), std, unit)
    for row in range(rows):
        to_gradient[row] += coefficient * gradient[row]
        to_hessian[row] += coefficient * hessian[row]
        gradient[row] = hessian[row] = 0.0
    return FINE, 0


def written_as(numbers: Any) -> Any:
    @leaf({}, std=FLAG, unit=FLAG, weight=GIVEN, floor=FLOAT, out=group(numbers, numbers))
    def written(leaf: Any, round: Any, room: Any, first: int, last: int) -> tuple[int, int]:
        """The first level's sum in its shape, weighed (``weight``: one per query, or empty) and in the host's precision."""
        offsets, weight, floor, (out_gradient, out_hessian) = round.offsets, leaf.weight, leaf.floor, leaf.out
        std, unit, broken = leaf.std, leaf.unit, False
        gradient, hessian = level_of(room, 0, offsets[last] - offsets[first])
        for query in range(first, last):
            start, n, low = located(offsets, first, query)
            factor = weight[query] if weight.size > 0 else 1.0
            own_gradient, own_hessian = line(gradient, 0, low, n), line(hessian, 0, low, n)
            to_gradient, to_hessian = line(out_gradient, 0, start, n), line(out_hessian, 0, start, n)
            if std or unit:
                shape(own_gradient, own_hessian, std, unit)
            for r in range(n):  # looked at in the host's precision, where a number may be infinite that was not
                to_gradient[r] = own_gradient[r] * factor
                to_hessian[r] = max(own_hessian[r] * factor, floor)
                broken |= not abs(to_gradient[r]) < LARGEST
                broken |= not abs(to_hessian[r]) < LARGEST
                own_gradient[r] = own_hessian[r] = 0.0
        if broken:
            for row in range(offsets[first], offsets[last]):
                if not (abs(out_gradient[row]) < LARGEST and abs(out_hessian[row]) < LARGEST):
                    return WRONG, row
        return FINE, 0

    return written


written, written_exactly = written_as(NUMBERS32), written_as(NUMBERS)


@functools.cache
def gram_kernel() -> Callable[..., None]:
    """``kernel(parts, mixed, out)``: adds the inner products of vectors to ``out``; if not ``mixed``, their squares alone."""

    def kernel(parts: Any, mixed: bool, out: Any) -> None:
        for low in range(0, len(parts[0]), BLOCK):
            for i in range(len(parts)):
                for j in range(i, len(parts) if mixed else i + 1):
                    one, other = parts[i], parts[j]
                    total = 0.0
                    for row in range(low, min(low + BLOCK, len(one))):
                        total += np.float64(one[row]) * np.float64(other[row])
                    out[i, j] += total
                    if i != j:
                        out[j, i] += total

    return compile_kernel(kernel, fastmath=REDUCE)


@functools.cache
def blend_kernel() -> Callable[..., None]:
    """``kernel(weights, parts)``: the weighted sum of vectors, in float64, in place of the first."""

    def kernel(weights: Any, parts: Any) -> None:
        total = np.empty(BLOCK)
        to = parts[0]
        for low in range(0, len(to), BLOCK):
            length = min(BLOCK, len(to) - low)
            for r in range(length):
                total[r] = weights[0] * to[low + r]
            for k in range(1, len(parts)):
                part, weight = parts[k], weights[k]
                for r in range(length):
                    total[r] += weight * part[low + r]
            for r in range(length):
                to[low + r] = total[r]

    return compile_kernel(kernel)
