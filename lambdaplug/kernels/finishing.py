"""The last steps of a gradient: normalise, weigh, floor, check, and write in the host's precision."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from .compiling import REDUCE, compile_kernel, line, load

__all__ = ["finish_kernel", "shape_kernel"]

# Boosters square sums of gradients and divide them by sums of hessians in float32: beyond this, to infinite leaves.
LARGEST = 1e18


@functools.cache
def shape_kernel() -> Callable[..., None]:
    """``kernel(gradient, hessian, std, unit, offsets, first, last)``, in place, the first query's rows at index 0 on.

    ``std``: divide each query's gradients and hessians by the standard deviation of its gradients. ``unit``: every
    hessian is 1.
    """

    def kernel(gradient: Any, hessian: Any, std: bool, unit: bool, offsets: Any, first: int, last: int) -> None:
        base = offsets[first]
        for query in range(first, last):
            start = offsets[query] - base
            stop = offsets[query + 1] - base
            factor = 1.0
            if std and stop > start:
                mean = 0.0
                for row in range(start, stop):
                    mean += gradient[row]
                mean /= stop - start
                variance = 0.0
                for row in range(start, stop):
                    variance += (gradient[row] - mean) ** 2
                deviation = np.sqrt(variance / (stop - start))
                if deviation > 0.0:
                    factor = 1.0 / deviation
            for row in range(start, stop):
                gradient[row] *= factor
                hessian[row] = 1.0 if unit else hessian[row] * factor

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
