"""The last step of a gradient: normalise, weigh, floor, check, and write in the host's precision."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from .compiling import compile_kernel, sources_stamp

__all__ = ["finish_kernel"]


@functools.cache
def finish_kernel() -> Callable[..., int]:
    """``kernel(gradient, hessian, weight, std, unit, floor, offsets, first, last, out_gradient, out_hessian)``.

    ``gradient`` and ``hessian`` are those of the queries first..last alone. ``std``: divide each query's by the
    standard deviation of its gradients. ``unit``: every hessian is 1. ``weight``: one a query, or empty. Returns the
    row of the first result that is not finite, or -1.
    """
    stamp = sources_stamp()

    def kernel(
        gradient: Any,
        hessian: Any,
        weight: Any,
        std: bool,
        unit: bool,
        floor: float,
        offsets: Any,
        first: int,
        last: int,
        out_gradient: Any,
        out_hessian: Any,
    ) -> int:
        _ = stamp
        base = offsets[first]
        for query in range(first, last):
            start = offsets[query]
            stop = offsets[query + 1]
            factor = 1.0
            if std and stop > start:
                mean = 0.0
                for row in range(start, stop):
                    mean += gradient[row - base]
                mean /= stop - start
                variance = 0.0
                for row in range(start, stop):
                    variance += (gradient[row - base] - mean) ** 2
                deviation = np.sqrt(variance / (stop - start))
                if deviation > 0.0:
                    factor = 1.0 / deviation
            query_weight = weight[query] if weight.size > 0 else 1.0
            for row in range(start, stop):
                out_gradient[row] = gradient[row - base] * factor * query_weight
                curvature = query_weight if unit else hessian[row - base] * factor * query_weight
                out_hessian[row] = max(curvature, floor)
                if not (np.isfinite(out_gradient[row]) and np.isfinite(out_hessian[row])):
                    return row
        return -1

    return compile_kernel(kernel)
