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
from .layout import *
from .leaves import NOISE, VALUE
from .listwise import ORDER
from .round import WHOSE, leaf, level_of

CHUNK = 64.0
CHUNKS = group(NUMBERS, NUMBERS, INTEGERS)


@leaf(
    {
        "position": function(NOTHING, CHUNKS, NUMBERS),
        "smooth": function(FLOAT, NUMBERS, NUMBERS, GIVEN, group(FLOAT, FLOAT), NUMBERS),
        "backward": function(NOTHING, FLOAT, FLOAT, CHUNKS, NUMBERS, PLACES, TABLE, SUMS),
    },
    gain=GIVEN,
    norm=GIVEN,
    discount=GIVEN,
    alpha=FLOAT,
    cut=group(FLOAT, FLOAT),  # the last place that counts, and beta
    values=NUMBERS,  # one per query: these are wanted, not the gradient
    coefficient=FLOAT,
    level=INTEGER,
)
def positions(leaf: Any, round: Any, room: Any, first: int, last: int) -> tuple[int, int]:
    """A measure in smooth positions."""
    offsets, norm, longest = round.offsets, leaf.norm, room.keys.shape[1]
    gradient, hessian = level_of(room, leaf.level, offsets[last] - offsets[first])
    rows, forces, ends = np.empty((5, longest)), np.empty((2, longest)), np.empty(longest, np.int64)
    for query in range(first, last):
        start, n, low = located(offsets, first, query)
        if norm[query] == 0.0 or n == 0:
            continue
        order, gain, position = line(round.order, 0, start, n), line(rows, 2, 0, n), line(rows, 3, 0, n)
        chunks, slope = (line(rows, 0, 0, n), line(rows, 1, 0, n), line(ends, 0, 0, n)), line(rows, 4, 0, n)
        cut_up(line(round.scores, 0, start, n), leaf.alpha, order, chunks)
        leaf.call.position(chunks, position)
        for r in range(n):
            gain[r] = leaf.gain[start + order[r]]
        value = leaf.call.smooth(gain, position, leaf.discount, leaf.cut, slope)
        if leaf.values.size > 0:
            leaf.values[query] = value * norm[query]
        else:
            unit, sums = leaf.coefficient * norm[query], (line(gradient, 0, low, n), line(hessian, 0, low, n))
            leaf.call.backward(leaf.alpha, unit, chunks, slope, order, forces, sums)
    return FINE, 0


@inlinable
def cut_up(scores: Any, alpha: float, order: Any, chunks: Any) -> None:
    """By rank each document's exponential, and at a chunk's first document the factor ``a`` towards the next one (0: too far,
    or none) and the chunk's end.
    """
    exponential, bridge, ends = chunks
    n, head = len(order), 0
    for r in range(n):
        fall = alpha * (scores[order[head]] - scores[order[r]])
        if not fall <= CHUNK:
            ends[head] = r
            bridge[head] = np.exp(fall) if fall <= 2.0 * CHUNK else 0.0
            head = r
            fall = 0.0
        exponential[r] = np.exp(-fall)
    ends[head] = n
    bridge[head] = 0.0


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
    """The positions by rank, from what ``cut_up`` wrote: in a kernel of its own, for ``load`` reads what no store in the
    same function has written.
    """

    def kernel(chunks: Any, position: Any) -> None:
        exponential, bridge, ends = chunks
        for r in range(len(position)):
            position[r] = 1.0 + r
        head = np.uint64(0)
        while head < len(position):
            end, next_end, factor = reach(ends, bridge, head)
            for i in range(head, end):
                e_i = load(exponential, i)
                total = displaced(0.0, e_i, exponential, i + ONE, end, position)
                position[i] += displaced(total, e_i * factor, exponential, end, next_end, position)
            head = end

    return compile_kernel(kernel, fastmath=REDUCE)


@per_function
def smooth_kernel(smooth: Callable[..., float]) -> Callable[..., float]:
    """The measure's value in positions, before its normaliser, and its derivative with respect to every position."""
    measured = inlinable(smooth)

    def kernel(gain: Any, position: Any, discount: Any, cut: Any, slope: Any) -> float:
        return measured(gain, position, discount, cut[0], cut[1], slope)

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
    """From the derivatives with respect to positions back to the scores.

    With w(x) the derivative with respect to position(x), the score of x has the derivative
    -alpha sum_y q (1 - q) (w(x) - w(y)), so each pair is a force and its opposite. Adds minus that to the gradient, and
    alpha^2/4 sum_y q (1 - q) |w(x) - w(y)| to the hessian, ``unit`` times. ``forces`` is scratch.
    """

    def kernel(alpha: float, unit: float, chunks: Any, slope: Any, order: Any, forces: Any, sums: Any) -> None:
        (exponential, bridge, ends), n, (gradient, hessian) = chunks, len(order), sums
        force_on, bend_on = line(forces, 0, 0, n), line(forces, 1, 0, n)
        for r in range(n):
            force_on[r] = bend_on[r] = 0.0
        head = np.uint64(0)
        while head < n:
            end, next_end, factor = reach(ends, bridge, head)
            for i in range(head, end):
                e_i, w_i = load(exponential, i), load(slope, i)
                own = pushed((0.0, 0.0), e_i, w_i, exponential, slope, (i + ONE, end), (force_on, bend_on))
                near = end, next_end
                force, bend = pushed(own, e_i * factor, w_i, exponential, slope, near, (force_on, bend_on))
                force_on[i] += force
                bend_on[i] += bend
            head = end
        unit *= alpha
        for r in range(n):
            gradient[order[r]] += unit * force_on[r]
            hessian[order[r]] += 0.25 * unit * alpha * bend_on[r]

    return compile_kernel(kernel, fastmath=REDUCE)


# --- perturbing
# The value of a ranking whose scores were moved.


NOISE_OF_ROUNDING = 1e-13  # of two values: a difference that rounding alone can make


@inlinable
def change(after: float, before: float) -> float:
    """after - before, 0 where that is no more than rounding: normalised, even that would become a force."""
    difference = after - before
    size = abs(difference)
    return 0.0 if size <= NOISE_OF_ROUNDING * abs(before) and size < np.inf else difference


@leaf({"value": ORDER}, prepared=PREPARED, c=FLOAT, coefficient=FLOAT, level=INTEGER)
def moved(leaf: Any, round: Any, room: Any, first: int, last: int) -> tuple[int, int]:
    """Finite differences: value with a score raised by c - value with it lowered by c, all others in place. Hessians are 1
    in the end.

    A document that moves only shifts those it passes, so nothing is sorted: n values of O(n) per query.
    """
    offsets, (gain, _, norm, table, k), value, c = round.offsets, leaf.prepared, leaf.call.value, leaf.c
    gradient, _ = level_of(room, leaf.level, offsets[last] - offsets[first])
    for query in range(first, last):
        start, n, low = located(offsets, first, query)
        if norm[query] == 0.0 or n < 2:
            continue
        scores, order = line(round.scores, 0, start, n), line(round.order, 0, start, n)
        ranked, moved = line(room.keys, 0, 0, n), line(room.keys, 1, 0, n)
        for r in range(n):
            ranked[r] = moved[r] = gain[start + order[r]]
        unmoved = value(moved, table, k)
        for r in range(n):
            document, raised, lowered = order[r], unmoved, unmoved
            for step in (-1, 1):  # up, and down
                for p in range(n):
                    moved[p] = ranked[p]  # a user's function may have written to it, too
                mine, to = scores[document] - step * c, r
                while 0 <= to + step < n:
                    other = order[to + step]
                    above = mine > scores[other] or (mine == scores[other] and document < other)
                    if above == (step > 0):
                        break
                    moved[to] = ranked[to + step]
                    to += step
                moved[to] = ranked[r]
                if to < r:
                    raised = value(moved, table, k)
                elif to > r:
                    lowered = value(moved, table, k)
            slope = norm[query] * change(raised, lowered) / (2.0 * c)
            gradient[low + document] -= leaf.coefficient * slope
    return FINE, 0


@leaf(
    {"noise": NOISE, "rank": RANK, "value": VALUE},
    prepared=PREPARED,
    draw=group(HASHES, INTEGER, INTEGER),  # hashes of the labels, seed, how many
    c=FLOAT,
    coefficient=FLOAT,
    level=INTEGER,
)
def shaken(leaf: Any, round: Any, room: Any, first: int, last: int) -> tuple[int, int]:
    """Simultaneous perturbation: all scores of a query moved at once, and back. Hessians are 1 in the end."""
    scores, offsets, moved, order = round.scores, round.offsets, room.noisy, room.noisy_order
    call, c = leaf.call, leaf.c
    (gain, _, norm, discount, k), (hashes, seed, draws), last_order = leaf.prepared, leaf.draw, round.order
    start, lists, ranked = offsets[first], (offsets, first, last, order), line(room.keys, 2, 0, room.keys.shape[1])
    gradient, _ = level_of(room, leaf.level, offsets[last] - start)
    slope, values, scale = np.zeros(len(gradient)), np.empty((2, last)), leaf.coefficient
    for row in range(start, offsets[last]):
        order[row] = last_order[row]
    room.notes[WHOSE] = -1
    for draw in range(draws):
        for way in range(2):
            call.noise(scores, (hashes, seed, draw, c if way == 1 else -c), offsets, first, last, moved)
            call.rank(moved, offsets, first, last, order, room.keys, room.documents)
            call.value(gain, discount, k, lists, ranked, line(values, way, 0, last))
        for query in range(first, last):
            if norm[query] == 0.0:
                continue
            raised = change(values[1, query] * norm[query], values[0, query] * norm[query])
            for row in range(offsets[query], offsets[query + 1]):
                slope[row - start] += raised if moved[row] > scores[row] else -raised
    for row in range(len(slope)):
        gradient[row] -= scale * (slope[row] / (2.0 * c * draws))
    return FINE, 0
