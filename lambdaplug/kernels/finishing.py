"""The last steps of a gradient: normalise, weigh, floor, check, and write in the host's precision."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from .jit import REDUCE, compile_kernel, inlinable, line, load

# Boosters square sums of gradients and divide them by sums of hessians in float32: beyond this, to infinite leaves.
LARGEST = 1e18
BLOCK = 1024  # rows that stay near the processor
FOUR = 4


@functools.cache
def shape_kernel() -> Callable[..., None]:
    """``kernel(gradient, hessian, std, unit, offsets, first, last)``, in place, the first query's rows at index 0 on.

    ``std``: divide each query's gradients and hessians by the standard deviation of its gradients. ``unit``: every
    hessian is 1.
    """

    def kernel(gradient: Any, hessian: Any, std: bool, unit: bool, offsets: Any, first: int, last: int) -> None:
        base = offsets[first]
        factor = np.ones(FOUR)
        for query in range(first, last, FOUR):
            if std:
                deviations(gradient, offsets, query, min(query + FOUR, last), base, factor)
            for own in range(query, min(query + FOUR, last)):
                for row in range(offsets[own] - base, offsets[own + 1] - base):
                    gradient[row] *= factor[own - query]
                    hessian[row] = 1.0 if unit else hessian[row] * factor[own - query]

    return compile_kernel(kernel)


@inlinable
def deviations(gradient: Any, offsets: Any, first: int, last: int, base: int, factor: Any) -> None:
    """1 / the standard deviation of up to four queries' gradients; 1 where that is 0.

    Each sum has to wait for its last addition, and four of them at once wait no longer than one.
    """
    start, length, shortest = np.zeros(FOUR, np.int64), np.zeros(FOUR, np.int64), 0
    for x in range(last - first):
        start[x] = offsets[first + x] - base
        length[x] = offsets[first + x + 1] - offsets[first + x]
        shortest = length[x] if x == 0 else min(shortest, length[x])
    mean, spread = np.zeros(FOUR), np.zeros(FOUR)
    a, b, c, d = start[0], start[1], start[2], start[3]
    for squared in range(2):
        sum_0 = sum_1 = sum_2 = sum_3 = 0.0
        mean_0, mean_1, mean_2, mean_3 = mean[0], mean[1], mean[2], mean[3]
        for r in range(shortest):
            if squared == 0:
                sum_0 += gradient[a + r]
                sum_1 += gradient[b + r]
                sum_2 += gradient[c + r]
                sum_3 += gradient[d + r]
            else:
                sum_0 += (gradient[a + r] - mean_0) ** 2
                sum_1 += (gradient[b + r] - mean_1) ** 2
                sum_2 += (gradient[c + r] - mean_2) ** 2
                sum_3 += (gradient[d + r] - mean_3) ** 2
        spread[0], spread[1], spread[2], spread[3] = sum_0, sum_1, sum_2, sum_3
        for x in range(last - first):
            for r in range(start[x] + shortest, start[x] + length[x]):
                spread[x] += gradient[r] if squared == 0 else (gradient[r] - mean[x]) ** 2
            if length[x] > 0:
                spread[x] /= length[x]
        if squared == 0:
            for x in range(FOUR):
                mean[x] = spread[x]
    for x in range(last - first):
        factor[x] = 1.0 / np.sqrt(spread[x]) if spread[x] > 0.0 else 1.0


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


@functools.cache
def finish_kernel() -> Callable[..., int]:
    """``kernel(sums, weight, floor, offsets, first, last, out)``: both are a gradient and a hessian.

    ``weight``: one per query, or empty. Returns the row of the first result that is not finite or is too large, or -1.
    """

    most = np.float32(LARGEST)

    def kernel(sums: Any, weight: Any, floor: float, offsets: Any, first: int, last: int, out: Any) -> int:
        gradient, hessian = sums
        out_gradient, out_hessian = out
        base = offsets[first]
        broken = False
        for query in range(first, last):
            query_weight = weight[query] if weight.size > 0 else 1.0
            start, n = offsets[query], offsets[query + 1] - offsets[query]
            given_gradient, given_hessian = line(gradient, 0, start - base, n), line(hessian, 0, start - base, n)
            to_gradient, to_hessian = line(out_gradient, 0, start, n), line(out_hessian, 0, start, n)
            for r in range(n):
                # Looked at in the host's precision, where a number may be infinite that was not. Comparisons notice with
                # every version of Numba; a sum of x * 0, which should be NaN then, did not with 0.58.
                to_gradient[r] = load(given_gradient, r) * query_weight
                broken |= not abs(to_gradient[r]) < most
                to_hessian[r] = max(load(given_hessian, r) * query_weight, floor)
                broken |= not abs(to_hessian[r]) < most
        if broken:
            for row in range(base, offsets[last]):
                if not (abs(out_gradient[row]) < most and abs(out_hessian[row]) < most):
                    return row
        return -1

    return compile_kernel(kernel, fastmath=REDUCE)
