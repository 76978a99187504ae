"""The one pairwise kernel: forces and hessians of a lambda gradient, for any measure and any pair cost.

The inner loop runs over all documents below document i in the ranking. It updates i in two scalars and the others in
place, reads everything else through ``load``, calls no exp, and has no branch, so LLVM turns it into packed
instructions. Three things keep float32 honest there:

- exp(s_i - s_max) is taken once a document in float64. A query whose scores spread so far that this would
  underflow goes through the exact loop, in float64 with one exp a pair.
- upper_i - lower_j is a difference of nearly equal numbers deep in the list, so each is kept as a sum of two float32.
- sums run over short blocks and are then added in float64.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .compiling import REDUCE, compile_kernel, inlinable, load, sources_stamp

__all__ = ["FAST_SPREAD", "FLOAT32_ROWS", "FLOAT64_ROWS", "PADDING", "PairShape", "pair_kernel", "stage_kernel"]

FAST_SPREAD = 80.0  # exp(-80) = 1.8e-35 is a normal float32, and so is its reciprocal
PADDING = 8  # float32 lanes of a 256-bit register: the loop's remainder runs on padding instead of one by one
FLOAT64_ROWS = 9  # gain, upper, lower, scale | score, grade, weight | gradient, hessian
FLOAT32_ROWS = 11  # exp, grade, gain, upper (2), lower (2), weight, tier | gradient, hessian
ROW_BLOCK = np.uint64(128)
COLUMN_BLOCK = np.uint64(512)
ONE = np.uint64(1)
LANES = np.uint64(PADDING - 1)


class PairShape(NamedTuple):
    """What a kernel is specialised for; everything else is an argument and never recompiles."""

    gained: bool = True  # |delta| has the factor |gain_i - gain_j|
    scaled: bool = False  # |delta| has a factor of the upper document
    weighted: bool = False  # documents carry weights
    tiered: bool = False  # only pairs of the same tier


@inlinable
def distance(upper: float, upper_rest: float, lower: float, lower_rest: float) -> float:
    """|upper - lower| of two numbers held in two parts each; strict arithmetic, or the second parts are lost."""
    return abs((upper - lower) + (upper_rest - lower_rest))


@functools.cache
def stage_kernel() -> Callable[..., None]:
    """``kernel(scores, grade, weight, tier, sigma, fast_spread, offsets, first, last, order, cuts, rows, fast, wide)``.

    Completes ``rows`` (float64, in rank order) and derives ``fast`` (float32, each query padded) from it. It is a
    kernel of its own because the pair kernel may only ``load`` what no store in the same function has written.
    ``weight`` and ``tier`` may be empty.
    """
    stamp = sources_stamp()

    def kernel(
        scores: Any,
        grade: Any,
        weight: Any,
        tier: Any,
        sigma: float,
        fast_spread: float,
        offsets: Any,
        first: int,
        last: int,
        order: Any,
        cuts: Any,
        rows: Any,
        fast: Any,
        wide: Any,
    ) -> None:
        _ = stamp
        for query in range(first, last):
            if cuts[query - first] == 0:
                continue
            start = offsets[query]
            n = offsets[query + 1] - start
            low = start - offsets[first]
            padded = low + PADDING * (query - first)
            top = scores[start + order[start]]
            least = rows[0, low]  # only differences of gains matter: without their common part they fit float32
            for r in range(n):
                least = min(least, rows[0, low + r])
            wide[query - first] = not (sigma * (top - scores[start + order[start + n - 1]]) <= fast_spread)
            for r in range(n):
                row = start + order[start + r]
                at = low + r
                to = padded + r
                rows[4, at] = scores[row]
                rows[5, at] = grade[row]
                fast[0, to] = np.exp(sigma * (scores[row] - top))
                fast[1, to] = grade[row]
                fast[2, to] = rows[0, at] - least
                upper = np.float32(rows[1, at])
                fast[3, to] = upper
                fast[4, to] = rows[1, at] - upper
                lower = np.float32(rows[2, at])
                fast[5, to] = lower
                fast[6, to] = rows[2, at] - lower
                if weight.size > 0:
                    rows[6, at] = weight[row]
                    fast[7, to] = weight[row]
                if tier.size > 0:
                    fast[8, to] = tier[row]
            for to in range(padded + n, padded + n + PADDING):
                for c in range(9):
                    fast[c, to] = 0.0
                fast[0, to] = 1.0
                fast[1, to] = np.nan  # neither above nor below any grade: no force

    return compile_kernel(kernel)


@functools.cache
def pair_kernel(
    fast_cost: Callable[..., tuple[float, float]], exact_cost: Callable[..., tuple[float, float]], shape: PairShape
) -> Callable[..., None]:
    """Specialise the kernel; its arguments are those of ``stage_kernel`` and what it computed."""
    cost32 = inlinable(fast_cost)
    cost64 = inlinable(exact_cost)
    gained, scaled, weighted, tiered = shape
    stamp = sources_stamp()

    def kernel(
        sigma: float,
        shift: float,
        coefficient: float,
        norm: Any,
        offsets: Any,
        first: int,
        last: int,
        part: int,
        parts: int,
        order: Any,
        cuts: Any,
        rows: Any,
        fast: Any,
        wide: Any,
        gradient: Any,
        hessian: Any,
    ) -> None:
        _ = stamp
        zero = np.float32(0.0)
        one = np.float32(1.0)
        shift32 = np.float32(shift)
        for query in range(first, last):
            cut = cuts[query - first]
            if cut == 0:
                continue
            start = offsets[query]
            n = offsets[query + 1] - start
            low = start - offsets[first]
            # Rows part/parts of the triangle, so that one huge query can keep several threads busy.
            area = cut * (n - 0.5 * cut)
            first_row = np.uint64(n - np.sqrt(n * n - 2.0 * area * part / parts) + 0.5)
            last_row = np.uint64(n - np.sqrt(n * n - 2.0 * area * (part + 1) / parts) + 0.5)
            if part + 1 == parts:
                last_row = np.uint64(cut)
            padded = low + PADDING * (query - first)
            end = np.uint64(n)
            gradient64, hessian64 = rows[7, low : low + n], rows[8, low : low + n]
            gradient64[:] = 0.0
            hessian64[:] = 0.0
            tier = fast[8, padded:]
            if wide[query - first]:
                values = rows[:, low : low + n]
                for i in range(first_row, last_row):
                    for j in range(i + ONE, end):
                        better = values[5, i] > values[5, j]
                        if not (better or values[5, i] < values[5, j]) or (tiered and tier[i] != tier[j]):
                            continue
                        size = abs(values[1, i] - values[2, j])
                        if gained:
                            size *= abs(values[0, i] - values[0, j])
                        if scaled:
                            size *= values[3, i]
                        if weighted:
                            size *= values[6, i] * values[6, j]
                        margin = sigma * (values[4, i] - values[4, j])
                        push, bend = cost64(margin if better else -margin, shift)
                        push *= size if better else -size
                        bend *= size
                        gradient64[i] -= push
                        gradient64[j] += push
                        hessian64[i] += bend
                        hessian64[j] += bend
            else:
                exponential, grade, gain = fast[0, padded:], fast[1, padded:], fast[2, padded:]
                upper, upper_rest = fast[3, padded:], fast[4, padded:]
                lower, lower_rest = fast[5, padded:], fast[6, padded:]
                weight, gradient32, hessian32 = fast[7, padded:], fast[9, padded:], fast[10, padded:]
                scale = rows[3, low : low + n]
                for j in range(n + PADDING):
                    gradient32[j] = zero
                    hessian32[j] = zero
                for block in range(first_row, last_row, ROW_BLOCK):
                    for i in range(block, min(block + ROW_BLOCK, last_row)):
                        e_i, grade_i, gain_i = load(exponential, i), load(grade, i), load(gain, i)
                        upper_i, upper_rest_i = load(upper, i), load(upper_rest, i)
                        tier_i = load(tier, i)
                        factor_i = np.float32(scale[i]) if scaled else one
                        if weighted:
                            factor_i *= load(weight, i)
                        gradient_i = 0.0
                        hessian_i = 0.0
                        column = i + ONE
                        while column < end:
                            length = min(COLUMN_BLOCK, end - column)
                            gradient_sum = zero
                            hessian_sum = zero
                            for j in range(column, column + ((length + LANES) & ~LANES)):
                                e_j, grade_j = load(exponential, j), load(grade, j)
                                better = grade_i > grade_j
                                delta = distance(upper_i, upper_rest_i, load(lower, j), load(lower_rest, j))
                                if gained:
                                    delta *= abs(gain_i - load(gain, j))
                                if scaled or weighted:
                                    delta *= factor_i
                                if weighted:
                                    delta *= load(weight, j)
                                delta = delta if better or grade_i < grade_j else zero
                                if tiered:
                                    delta = delta if tier_i == load(tier, j) else zero
                                force, curvature = cost32(e_i if better else e_j, e_j if better else e_i, shift32)
                                force *= delta
                                curvature *= delta
                                force = force if better else -force
                                gradient_sum -= force
                                hessian_sum += curvature
                                gradient32[j] += force
                                hessian32[j] += curvature
                            gradient_i += gradient_sum
                            hessian_i += hessian_sum
                            column += length
                        gradient64[i] += gradient_i
                        hessian64[i] += hessian_i
                    for j in range(block + ONE, end):
                        gradient64[j] += gradient32[j]
                        hessian64[j] += hessian32[j]
                        gradient32[j] = zero
                        hessian32[j] = zero
            unit = coefficient * norm[query] * sigma
            for r in range(n):
                document = low + order[start + r]
                gradient[document] += unit * gradient64[r]
                hessian[document] += unit * sigma * hessian64[r]

    return compile_kernel(kernel, fastmath=REDUCE)
