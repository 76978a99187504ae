"""Random signs that depend on nothing but their coordinates, and the value of a ranking with one document moved."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from .compiling import compile_kernel, inlinable, per_function

__all__ = ["NOISE", "change", "move_kernel", "sign_kernel"]

# The increment and the two multipliers of splitmix64, a generator whose state is a counter.
STEP = np.uint64(0x9E3779B97F4A7C15)
FIRST = np.uint64(0xBF58476D1CE4E5B9)
SECOND = np.uint64(0x94D049BB133111EB)
THIRTY, TWENTY_SEVEN, THIRTY_ONE = np.uint64(30), np.uint64(27), np.uint64(31)
TOP = np.uint64(63)
ZERO = np.uint64(0)


@inlinable
def scramble(state: Any, coordinate: int) -> Any:
    """Take one more coordinate into a hash of 64 bits."""
    state = (state ^ np.uint64(coordinate)) + STEP
    state = (state ^ (state >> THIRTY)) * FIRST
    state = (state ^ (state >> TWENTY_SEVEN)) * SECOND
    return state ^ (state >> THIRTY_ONE)


@functools.cache
def sign_kernel() -> Callable[..., None]:
    """``kernel(seed, iteration, draw, first, offsets, signs)``: -1 or +1 for each document of queries first, first + 1, ...

    Each is a hash of (seed, iteration, query, draw, document in its query), whoever asks and in whatever order.
    """

    def kernel(seed: int, iteration: int, draw: int, first: int, offsets: Any, signs: Any) -> None:
        training = scramble(scramble(ZERO, seed), iteration)
        for query in range(len(offsets) - 1):
            state = scramble(scramble(training, first + query), draw)
            for row in range(offsets[query], offsets[query + 1]):
                signs[row] = 1.0 if scramble(state, row - offsets[query]) >> TOP == ZERO else -1.0

    return compile_kernel(kernel)


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
            start = offsets[query]
            n = offsets[query + 1] - start
            low = start - offsets[first]
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
