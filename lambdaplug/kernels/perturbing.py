"""The value of a ranking with one document moved."""

from collections.abc import Callable
from typing import Any

import numpy as np

from .compiling import compile_kernel, inlinable, located, per_function

__all__ = ["NOISE", "change", "move_kernel"]

NOISE = 1e-13  # of two values: a difference that rounding alone can make


@inlinable
def change(after: float, before: float) -> float:
    """after - before, 0 where that is no more than rounding: normalised, even that would become a force."""
    difference = after - before
    size = abs(difference)
    return 0.0 if size <= NOISE * abs(before) and size < np.inf else difference


@per_function
def move_kernel(value: Callable[..., float]) -> Callable[..., None]:
    """``kernel(scores, c, (gain, norm, discount, k), (offsets, first, last, order), ranked, slope)``.

    For each document, (value with its score raised by c - value with it lowered by c) / 2c, all others in place. A
    document that moves only shifts those it passes, so nothing is sorted: n values of O(n) per query. ``ranked`` is
    scratch, 2 x the longest query; the first query's ``slope`` begins at index 0.
    """
    measured = inlinable(value)

    def kernel(scores: Any, c: float, prepared: Any, lists: Any, ranked: Any, slope: Any) -> None:
        gain, norm, discount, k = prepared
        offsets, first, last, order = lists
        for query in range(first, last):
            start, n, low = located(offsets, first, query)
            if norm[query] == 0.0 or n < 2:
                for row in range(low, low + n):
                    slope[row] = 0.0
                continue
            moved = ranked[1, :n]
            for r in range(n):
                ranked[0, r] = gain[start + order[start + r]]
                moved[r] = ranked[0, r]
            unmoved = measured(moved, discount, k)
            for r in range(n):
                moved[r] = ranked[0, r]  # a user's function may have written to it
            for r in range(n):
                document = order[start + r]
                score = scores[start + document]
                to = r
                while to > 0:
                    other = order[start + to - 1]
                    there = scores[start + other]
                    if not (there < score + c or (there == score + c and other > document)):
                        break
                    to -= 1
                raised = unmoved
                if to < r:
                    for p in range(to + 1, r + 1):
                        moved[p] = ranked[0, p - 1]
                    moved[to] = ranked[0, r]
                    raised = measured(moved, discount, k)
                    for p in range(n):
                        moved[p] = ranked[0, p]
                to = r
                while to + 1 < n:
                    other = order[start + to + 1]
                    there = scores[start + other]
                    if not (there > score - c or (there == score - c and other < document)):
                        break
                    to += 1
                lowered = unmoved
                if to > r:
                    for p in range(r, to):
                        moved[p] = ranked[0, p + 1]
                    moved[to] = ranked[0, r]
                    lowered = measured(moved, discount, k)
                    for p in range(n):
                        moved[p] = ranked[0, p]
                slope[low + document] = norm[query] * change(raised, lowered) / (2.0 * c)

    return compile_kernel(kernel)
