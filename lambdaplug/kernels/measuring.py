"""The three O(n) kernels that every measure is specialised into: normaliser, value, swap rows."""

import functools
from collections.abc import Callable
from typing import Any

from .compiling import compile_kernel, inlinable, sources_stamp

__all__ = ["norm_kernel", "swap_kernel", "value_kernel"]


@functools.cache
def norm_kernel(norm: Callable[..., float]) -> Callable[..., None]:
    """``kernel(gain, discount, k, offsets, first, last, order, ranked, out)``: ``out[query]``, order = the ideal one."""
    return _per_query(norm)


@functools.cache
def value_kernel(value: Callable[..., float]) -> Callable[..., None]:
    """The same for the raw value, order = the ranking by score."""
    return _per_query(value)


def _per_query(function: Callable[..., float]) -> Callable[..., None]:
    measured = inlinable(function)
    stamp = sources_stamp()

    def kernel(
        gain: Any, discount: Any, k: int, offsets: Any, first: int, last: int, order: Any, ranked: Any, out: Any
    ) -> None:
        _ = stamp
        for query in range(first, last):
            start = offsets[query]
            n = offsets[query + 1] - start
            for r in range(n):
                ranked[r] = gain[start + order[start + r]]
            out[query] = measured(ranked[:n], discount, k)

    return compile_kernel(kernel)


@functools.cache
def swap_kernel(swap: Callable[..., int]) -> Callable[..., None]:
    """``kernel(gain, discount, k, norm, offsets, first, last, order, rows, cuts)``.

    Fills, in rank order, the rows gain, upper, lower and scale of the queries first..last (the first of them at
    column 0), and each query's cut.
    """
    rows_of = inlinable(swap)
    stamp = sources_stamp()

    def kernel(
        gain: Any,
        discount: Any,
        k: int,
        norm: Any,
        offsets: Any,
        first: int,
        last: int,
        order: Any,
        rows: Any,
        cuts: Any,
    ) -> None:
        _ = stamp
        for query in range(first, last):
            start = offsets[query]
            n = offsets[query + 1] - start
            if norm[query] == 0.0 or n < 2:
                cuts[query - first] = 0
                continue
            low = start - offsets[first]
            high = low + n
            for r in range(n):
                rows[0, low + r] = gain[start + order[start + r]]
                rows[3, low + r] = 1.0
            cut = rows_of(rows[0, low:high], discount, k, rows[1, low:high], rows[2, low:high], rows[3, low:high])
            cuts[query - first] = min(cut, n - 1)

    return compile_kernel(kernel)
