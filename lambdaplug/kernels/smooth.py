"""Smooth positions of the documents of a query, and the way back from them to the scores.

    position(x) = 1 + sum over y != x of q(x, y),  q(x, y) = 1/(1 + exp(alpha (s_x - s_y)))

Documents are taken in rank order, so that q(i, j) <= 1/2 for i above j, and position(i) = rank(i) + what the documents
below add - what those above are short of 1: no digit is lost to the integers. The inner loops call no exp. The
ranking is cut into chunks over which alpha s falls by at most ``CHUNK``, and exp(alpha (s - s of the chunk's first)) is
taken once per document; then q(i, j) = e_j/(a e_i + e_j), where a = 1 within a chunk and a number of the two chunks for
the next one. Documents further apart than the next chunk have q < exp(-CHUNK) = 2e-28, which is left out. So nothing
overflows whatever alpha and the scores are, and the sharper the sigmoid, the fewer pairs there are to visit.
"""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from .jit import REDUCE, compile_kernel, inlinable, line, load, located, per_function, reducible

CHUNK = 64.0
POSITION_ROWS = 7  # exponential, bridge to the next chunk | position | gain, slope | gradient, hessian
ONE = np.uint64(1)


@functools.cache
def chunk_kernel() -> Callable[..., None]:
    """``kernel(scores, alpha, norm, offsets, first, last, order, rows, ends)``.

    Writes, in rank order, each document's exponential, and at a chunk's first document the chunk's end and the factor
    ``a`` towards the next one (0: too far, or none). It is a kernel of its own because the others may only ``load``
    what no store in the same function has written.
    """

    def kernel(
        scores: Any, alpha: float, norm: Any, offsets: Any, first: int, last: int, order: Any, rows: Any, ends: Any
    ) -> None:
        for query in range(first, last):
            if norm[query] == 0.0:
                continue
            start, n, low = located(offsets, first, query)
            head = 0
            for r in range(n):
                top = scores[start + order[start + head]]
                fall = alpha * (top - scores[start + order[start + r]])
                if not fall <= CHUNK:
                    ends[low + head] = r
                    rows[1, low + head] = np.exp(fall) if fall <= 2.0 * CHUNK else 0.0
                    head = r
                    fall = 0.0
                rows[0, low + r] = np.exp(-fall)
            if n > 0:
                ends[low + head] = n
                rows[1, low + head] = 0.0

    return compile_kernel(kernel)


@inlinable
def reach(end_of: Any, bridge: Any, head: Any) -> tuple[Any, Any, float]:
    """Where the chunk that begins here ends, where the next one does if it is near enough, and the factor towards it."""
    end, factor = np.uint64(end_of[head]), bridge[head]
    return end, np.uint64(end_of[end]) if factor > 0.0 else end, factor


@reducible
def displaced(total: float, e_i: float, exponential: Any, since: Any, until: Any, position: Any) -> float:
    """The total, and by how much a document's position is further down for these others; theirs are so much further up."""
    for j in range(since, until):
        e_j = load(exponential, j)
        q = e_j / (e_i + e_j)
        total += q
        position[j] -= q
    return total


@functools.cache
def position_kernel() -> Callable[..., None]:
    """``kernel(norm, offsets, first, last, rows, ends)``: the positions, from what ``chunk_kernel`` wrote."""

    def kernel(norm: Any, offsets: Any, first: int, last: int, rows: Any, ends: Any) -> None:
        for query in range(first, last):
            _, n, low = located(offsets, first, query)
            if norm[query] == 0.0 or n == 0:
                continue
            exponential, bridge, position = rows[0, low : low + n], rows[1, low : low + n], rows[2, low : low + n]
            for r in range(n):
                position[r] = 1.0 + r
            end_of, head = ends[low : low + n], np.uint64(0)
            while head < n:
                end, next_end, factor = reach(end_of, bridge, head)
                for i in range(head, end):
                    e_i = load(exponential, i)
                    total = displaced(0.0, e_i, exponential, i + ONE, end, position)
                    position[i] += displaced(total, e_i * factor, exponential, end, next_end, position)
                head = end

    return compile_kernel(kernel, fastmath=REDUCE)


@per_function
def smooth_kernel(smooth: Callable[..., float]) -> Callable[..., None]:
    """``kernel(gain, discount, (cut, beta), norm, (offsets, first, last, order), rows, value)``.

    The measure's value in positions, one per query from index 0 on, before its normaliser, and its derivative with
    respect to every position.
    """
    measured = inlinable(smooth)

    def kernel(gain: Any, discount: Any, smoothed: Any, norm: Any, lists: Any, rows: Any, value: Any) -> None:
        cut, beta = smoothed
        offsets, first, last, order = lists
        for query in range(first, last):
            start, n, low = located(offsets, first, query)
            value[query - first] = 0.0
            if norm[query] == 0.0 or n == 0:
                continue
            high = low + n
            for r in range(n):
                rows[3, low + r] = gain[start + order[start + r]]
            value[query - first] = measured(
                rows[3, low:high], rows[2, low:high], discount, cut, beta, rows[4, low:high]
            )

    return compile_kernel(kernel)


@reducible
def pushed(
    sums: Any, e_i: float, w_i: float, exponential: Any, slope: Any, span: Any, onto: Any
) -> tuple[float, float]:
    """The sums with the forces, and their sizes, on a document by these others; the opposite is added ``onto`` theirs."""
    force, bend = sums
    force_on, bend_on = onto
    for j in range(span[0], span[1]):
        e_j = load(exponential, j)
        inverse = 1.0 / (e_i + e_j)
        push = (e_i * inverse) * (e_j * inverse) * (w_i - load(slope, j))
        force += push
        bend += abs(push)
        force_on[j] -= push
        bend_on[j] += abs(push)
    return force, bend


@functools.cache
def backward_kernel() -> Callable[..., None]:
    """``kernel(alpha, norm, (offsets, first, last, order), rows, ends, (coefficient, gradient, hessian))``.

    With w(x) the derivative with respect to position(x), the score of x has the derivative
    -alpha sum_y q (1 - q) (w(x) - w(y)), so each pair is a force and its opposite. Adds minus that to ``gradient``, and
    alpha^2/4 sum_y q (1 - q) |w(x) - w(y)| to ``hessian``.
    """

    def kernel(alpha: float, norm: Any, lists: Any, rows: Any, ends: Any, into: Any) -> None:
        offsets, first, last, order = lists
        coefficient, gradient, hessian = into
        for query in range(first, last):
            start, n, low = located(offsets, first, query)
            if norm[query] == 0.0 or n < 2:
                continue
            exponential, bridge, slope = rows[0, low : low + n], rows[1, low : low + n], rows[4, low : low + n]
            force_on, bend_on = rows[5, low : low + n], rows[6, low : low + n]
            for r in range(n):
                force_on[r] = bend_on[r] = 0.0
            end_of, head = ends[low : low + n], np.uint64(0)
            while head < n:
                end, next_end, factor = reach(end_of, bridge, head)
                for i in range(head, end):
                    e_i, w_i = load(exponential, i), load(slope, i)
                    sums = pushed((0.0, 0.0), e_i, w_i, exponential, slope, (i + ONE, end), (force_on, bend_on))
                    near = end, next_end
                    force, bend = pushed(sums, e_i * factor, w_i, exponential, slope, near, (force_on, bend_on))
                    force_on[i] += force
                    bend_on[i] += bend
                head = end
            unit = coefficient * norm[query] * alpha
            for r in range(n):
                document = low + order[start + r]
                gradient[document] += unit * force_on[r]
                hessian[document] += 0.25 * unit * alpha * bend_on[r]

    return compile_kernel(kernel, fastmath=REDUCE)


# --- perturbing
# The value of a ranking with one document moved.


NOISE = 1e-13  # of two values: a difference that rounding alone can make


@inlinable
def change(after: float, before: float) -> float:
    """after - before, 0 where that is no more than rounding: normalised, even that would become a force."""
    difference = after - before
    size = abs(difference)
    return 0.0 if size <= NOISE * abs(before) and size < np.inf else difference


@per_function
def move_kernel(value: Callable[..., float], flat: bool) -> Callable[..., None]:
    """``kernel(scores, c, prepared, (offsets, first, last, order), ranked, slope)``; ``flat``: discounts are a table's only row.

    For each document, (value with its score raised by c - value with it lowered by c) / 2c, all others in place. A
    document that moves only shifts those it passes, so nothing is sorted: n values of O(n) per query. ``ranked`` is
    scratch, 2 x the longest query; the first query's ``slope`` begins at index 0.
    """
    measured = inlinable(value)

    def kernel(scores: Any, c: float, prepared: Any, lists: Any, ranked: Any, slope: Any) -> None:
        gain, _, norm, table, k = prepared
        if flat:
            discount = line(table, 0, 0, table.shape[1])
        else:
            discount = table
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
