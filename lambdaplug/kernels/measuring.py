"""The O(n) kernels that every measure is specialised into: normaliser, value, swap rows; and values where scores tie."""

from collections.abc import Callable
from typing import Any

import numpy as np

from .compiling import compile_kernel, inlinable, line, load, located, per_function
from .rows import CUT, GAIN, KIND, LOWER, SCALE, UPPER, Lists, Prepared

__all__ = [
    "expected_kernel",
    "norm_kernel",
    "raised_kernel",
    "sort_stretch",
    "swap_kernel",
    "tied_value_kernel",
    "value_kernel",
]


@per_function
def norm_kernel(norm: Callable[..., float]) -> Callable[..., None]:
    """``kernel(gain, discount, k, lists, ranked, out)``: ``out[query]``, the lists in ideal order."""
    return _per_query(norm)


@per_function
def value_kernel(value: Callable[..., float]) -> Callable[..., None]:
    """The same for the raw value, the lists in the order of the scores."""
    return _per_query(value)


def _per_query(function: Callable[..., float]) -> Callable[..., None]:
    measured = inlinable(function)

    def kernel(gain: Any, discount: Any, k: int, lists: Any, ranked: Any, out: Any) -> None:
        lists = Lists(*lists)
        for query in range(lists.first, lists.last):
            start, n, _ = located(lists.offsets, lists.first, query)
            for r in range(n):
                ranked[r] = gain[start + lists.order[start + r]]
            out[query] = measured(ranked[:n], discount, k)

    return compile_kernel(kernel)


@inlinable
def sort_stretch(values: Any, low: int, high: int, descending: bool) -> None:
    """Sort a stretch in place, NaN as the lowest; by insertion over falling gaps, which needs no memory."""
    gap = 1
    while gap < (high - low) // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for r in range(low + gap, high):
            value = values[r]
            s = r
            while s >= low + gap:
                other = values[s - gap]
                if descending:
                    wrong = value > other or (np.isnan(other) and not np.isnan(value))
                else:
                    wrong = value < other or (np.isnan(value) and not np.isnan(other))
                if not wrong:
                    break
                values[s] = other
                s -= gap
            values[s] = value
        gap //= 3


@inlinable
def _rank_ties(
    gain: Any, scores: Any, start: int, n: int, order: Any, descending: bool, ranked: Any, ends: Any
) -> None:
    """The gains by rank, sorted where scores are equal; ``ends[r]`` is where the stretch of rank r's score ends."""
    for r in range(n):
        ranked[r] = gain[start + order[start + r]]
    low = 0
    while low < n:
        score = scores[start + order[start + low]]
        high = low + 1
        while high < n and scores[start + order[start + high]] == score:
            high += 1
        for r in range(low, high):
            ends[r] = high
        if high - low > 1:
            sort_stretch(ranked, low, high, descending)
        low = high


@per_function
def tied_value_kernel(value: Callable[..., float]) -> Callable[..., None]:
    """``kernel(gain, scores, descending, discount, k, lists, (ranked, ends), out)``.

    The raw value where equal scores stand by gain: descending, the best order; ascending, the worst.
    """
    return _per_tied_query(value, False)


@per_function
def expected_kernel(expected: Callable[..., float]) -> Callable[..., None]:
    """The same arguments; the mean over every order of equal scores, by a measure's ``expected``."""
    return _per_tied_query(expected, True)


def _per_tied_query(function: Callable[..., float], expected: bool) -> Callable[..., None]:
    measured = inlinable(function)

    def kernel(
        gain: Any, scores: Any, descending: bool, discount: Any, k: int, lists: Any, room: Any, out: Any
    ) -> None:
        ranked, ends = room
        lists = Lists(*lists)
        for query in range(lists.first, lists.last):
            start, n, _ = located(lists.offsets, lists.first, query)
            _rank_ties(gain, scores, start, n, lists.order, descending, ranked, ends)
            if expected:
                out[query] = measured(ranked[:n], ends[:n], discount, k)
            else:
                out[query] = measured(ranked[:n], discount, k)

    return compile_kernel(kernel)


@per_function
def swap_kernel(swap: Callable[..., int]) -> Callable[..., None]:
    """``kernel(prepared, lists, rows, marks)``: the rows GAIN, UPPER, LOWER and SCALE, and each query's cut.

    The cut is -1 where a query has no pairs or the measure is not defined. No query has a kind yet.
    """
    rows_of = inlinable(swap)

    def kernel(prepared: Any, lists: Any, rows: Any, marks: Any) -> None:
        prepared, lists = Prepared(*prepared), Lists(*lists)
        offsets, first = lists.offsets, lists.first
        for query in range(first, lists.last):
            start, n, low = located(offsets, first, query)
            marks[KIND, query - first] = 0
            if prepared.norm[query] == 0.0 or n < 2:
                marks[CUT, query - first] = -1
                continue
            ranked, upper = line(rows, GAIN, low, n), line(rows, UPPER, low, n)
            lower, scale = line(rows, LOWER, low, n), line(rows, SCALE, low, n)
            for r in range(n):
                ranked[r] = load(prepared.gain, start + load(lists.order, start + r))
                scale[r] = 1.0
            cut = rows_of(ranked, prepared.discount, prepared.k, upper, lower, scale)
            marks[CUT, query - first] = cut if cut < n - 1 else n - 1

    return compile_kernel(kernel)


@per_function
def raised_kernel(value: Callable[..., float]) -> Callable[..., None]:
    """``kernel(prepared, lists, rows, marks)``: after ``swap_kernel``, for pairs below the cut-off too.

    Of each document there, UPPER becomes the value with this document and the one at the cut-off exchanged, and SCALE -1.
    Those between a query's cut and the cut-off, whose pairs change nothing, get a SCALE of 0. There is no cut any more.
    """
    value_of = inlinable(value)

    def kernel(prepared: Any, lists: Any, rows: Any, marks: Any) -> None:
        prepared, lists = Prepared(*prepared), Lists(*lists)
        offsets, first = lists.offsets, lists.first
        for query in range(first, lists.last):
            cut = marks[CUT, query - first]
            if cut < 0:
                continue
            _, n, low = located(offsets, first, query)
            ranked = line(rows, GAIN, low, n)
            upper, scale = line(rows, UPPER, low, n), line(rows, SCALE, low, n)
            k = min(prepared.k, n)
            for r in range(cut, k):
                scale[r] = 0.0
            for r in range(k, n):
                ranked[k - 1], ranked[r] = ranked[r], ranked[k - 1]
                upper[r] = value_of(ranked, prepared.discount, prepared.k)
                ranked[k - 1], ranked[r] = ranked[r], ranked[k - 1]
                scale[r] = -1.0
            marks[CUT, query - first] = n - 1

    return compile_kernel(kernel)
