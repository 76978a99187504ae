"""Gradients of a measure's expectation over random rankings, from a few of them."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from .jit import REDUCE, compile_kernel, float32_from_bits, inlinable, line, load, located, reducible
from .layout import *
from .leaves import DRAWN, NOISE, draw_order
from .listwise import one_more
from .noise import LOG2_E, NARROW, precise_exponential
from .round import leaf, level_of

# Of one query: its scores, or what noise was added to; noisy scores, their order, gains; discounts and k.
LIST = group(GIVEN, NUMBERS, PLACES, GIVEN), group(GIVEN, INTEGER)


@leaf(
    # The loss also gets ``how``, how often it is to be added, and a gradient and second derivative to add it to.
    {"noise": NOISE, "rank": RANK, "loss": function(NOTHING, *LIST, group(FLOAT, INTEGER), FLOAT, SUMS)},
    prepared=group(GIVEN, GIVEN, GIVEN, INTEGER),  # gain, norm, discount, k
    draw=DRAWN,
    samples=INTEGER,
    how=group(FLOAT, INTEGER),  # sigma, and a kind of measure
    centres=group(GIVEN, GIVEN),  # what is taken from the scores, or empty; and what is left of them
    coefficient=FLOAT,
    level=INTEGER,
)
def over_rankings(leaf: Any, round: Any, room: Any, first: int, last: int) -> tuple[int, int]:
    """A loss of rankings drawn near the present one. Its hessian is the size of the sum of second derivatives."""
    offsets, (gain, norm, discount, k), (lower, centres) = round.offsets, leaf.prepared, leaf.centres
    gradient, hessian = level_of(room, leaf.level, offsets[last] - offsets[first])
    second, unit = np.zeros(len(hessian)), leaf.coefficient / leaf.samples
    for sample in range(leaf.samples):
        draw_order(leaf, sample, lower, round, room, first, last)
        for query in range(first, last):
            start, n, low = located(offsets, first, query)
            if norm[query] != 0.0 and n > 1:
                noisy, order = line(room.noisy, 0, start, n), line(room.noisy_order, 0, start, n)
                own = line(centres, 0, start, n), noisy, order, line(gain, 0, start, n)
                sums = line(gradient, 0, low, n), line(second, 0, low, n)
                leaf.call.loss(own, (discount, k), leaf.how, unit * norm[query], sums)
    for row in range(len(hessian)):
        hessian[row] += abs(second[row])
    return FINE, 0


# --- Plackett-Luce


@inlinable
def shares(power: Any, order: Any, worth: Any, discount: Any, m: int, total: Any, share: Any, rest: Any) -> None:
    """exp(score)/D by rank, below rank m over rank m's D; and the sum of gain * discount from each rank to m."""
    n = len(order)
    below = left = 0.0
    for r in range(n - 1, m - 1, -1):
        mine = power[np.uint64(load(order, r))]
        below += mine
        share[r] = mine
    for r in range(m - 1, -1, -1):  # two sums at once: each waits for its last addition
        document = np.uint64(load(order, r))
        below += power[document]
        left += load(discount, r) * load(worth, document)
        total[r] = below
        share[r] = power[document]
        rest[r] = left
    for r in range(m):
        share[r] /= total[r]
    last = 1.0 / total[m - 1]
    for r in range(m, n):
        share[r] *= last


@inlinable
def wide_shares(own: Any, order: Any, worth: Any, discount: Any, m: int, total: Any, share: Any, rest: Any) -> None:
    """The same of scores whose exp underflows: ``total`` are logarithms."""
    n = len(order)
    top, below, left = -np.inf, 0.0, 0.0
    for r in range(n - 1, -1, -1):
        top, below = one_more(top, below, own[order[r]])
        total[r] = top + np.log(below)
        if r < m:
            left += discount[r] * worth[order[r]]
            rest[r] = left
    for r in range(n):
        share[r] = np.exp(own[order[r]] - total[r if r < m else m - 1])


@functools.cache
def plackett_luce_kernel() -> Callable[..., None]:
    """What a ranking of a query says of the mean of sum gain * discount over the Plackett-Luce model's rankings.

    Minus the first and second derivatives are added. For document i at rank r, with m = min(r, k), inside = [r <= k],
    D_q the sum of exp(score) from rank q on, p_q = exp(s_i)/D_q and R_q the sum of gain * discount from rank q to k:

        first = A + B,  A = inside R_(r+1),  B = sum over q <= m of p_q (discount_q gain_i - R_q)
        second = A (1 - S) + B (inside + 1 - S) - C,  S = sum over q <= m of p_q,
        C = sum over q <= m of p_q^2 (discount_q gain_i - R_q)

    Sums over q are kept times D_r or its square, by which no term exceeds its R: D_(r+1)/D_r is 1 - p_r.
    """

    def kernel(own: Any, discounts: Any, _how: Any, unit: float, sums: Any) -> None:
        (scores, _, order, worth), (discount, k), (to_gradient, to_hessian) = own, discounts, sums
        n = len(order)
        m, room = min(k, n), np.empty((4, n + 1))
        power, total = line(room, 0, 0, n), line(room, 1, 0, n)
        share, rest = line(room, 2, 0, n), line(room, 3, 0, n + 1)  # by rank, as total
        any_score = load(scores, 0)
        far = 0
        for r in range(n):
            far += not abs(load(scores, r) - any_score) <= NARROW
        for r in range(n if far == 0 else 0):
            power[r] = precise_exponential(load(scores, r) - any_score)
        rest[m] = 0.0
        if far == 0:
            shares(power, order, worth, discount, m, total, share, rest)
        else:
            wide_shares(scores, order, worth, discount, m, total, share, rest)
        up = down = steps = 0.0  # the sums of the discount, R and 1 over D
        up_squared = down_squared = 0.0  # and over D^2
        fall = 1.0  # D of this rank over D of the last one
        for r in range(m):
            document = np.uint64(load(order, r))
            p, theta = share[r], load(discount, r)
            square = fall * fall
            up = up * fall + theta
            down = down * fall + rest[r]
            steps = steps * fall + 1.0
            up_squared = up_squared * square + theta
            down_squared = down_squared * square + rest[r]
            fall = 1.0 - p
            a, g = rest[r + 1], load(worth, document)
            b, others = p * (g * up - down), 1.0 - p * steps
            to_gradient[document] -= unit * (a + b)
            c = p * p * (g * up_squared - down_squared)
            to_hessian[document] -= unit * (a * others + b * (1.0 + others) - c)
        for r in range(m, n):
            document = np.uint64(load(order, r))
            p, g = share[r], load(worth, document)
            b = p * (g * up - down)
            to_gradient[document] -= unit * b
            c = p * p * (g * up_squared - down_squared)
            to_hessian[document] -= unit * (b * (1.0 - p * steps) - c)

    return compile_kernel(kernel, fastmath={"nsz", "contract"})


# --- StochasticRank


# Scratch by rank: rank, noisy score, gain; discount_q - discount_(q+1) times c_q for documents that stay above i, and for
# those that move up when i is taken out, the same with i still in c, without the first document of gain 1, and without c.
STANDS, NOISY, WORTH, STAYING, RISING, RISING_REST, RISING_DROP = range(7)
PEAK = 0.3989422804014327  # of the normal density
LINEAR, AVERAGE, CASCADE = range(3)


SHARP = np.float32(-0.5 * LOG2_E)
BLOCK = 256  # terms whose sum stays in float32


@inlinable
def bell(x: Any) -> Any:
    """exp(-x^2/2) in float32 (2^-120 further out), without a call."""
    y = SHARP * x * x
    y = y if y > np.float32(-120.0) else np.float32(-120.0)
    power = np.floor(y + np.float32(0.5))
    r = y - power
    series = np.float32(0.0096181291) + r * np.float32(0.0013333558)
    series = np.float32(0.2402265070) + r * (np.float32(0.0555041087) + r * series)
    series = np.float32(1.0) + r * (np.float32(0.6931471806) + r * series)
    return series * float32_from_bits(np.int32((np.int32(power) + np.int32(127)) << np.int32(23)))


@reducible
def slopes(room: Any, rising: int, count: int, at: tuple[int, float, float], c: Any) -> tuple[float, float]:
    """The sum of the terms of so many ranks, of a document ``at`` (rank, mean, gain), and the sum of their sizes.

    Of those below it, c_q is what is in the row ``rising`` times ``c[0]``, minus ``c[1]``.
    """
    r32, mean, g = np.float32(at[0]), np.float32(at[1]), np.float32(at[2])
    scale, less = np.float32(c[0]), np.float32(c[1])
    total = total_bend = 0.0
    for begin in range(0, count, BLOCK):
        size = min(BLOCK, count - begin)
        rank, place, worth = (
            line(room, STANDS, begin, size),
            line(room, NOISY, begin, size),
            line(room, WORTH, begin, size),
        )
        staying, risen = line(room, STAYING, begin, size), line(room, rising, begin, size)
        drop = line(room, RISING_DROP, begin, size)
        slope = bend = np.float32(0.0)
        for r in range(np.uint64(size)):
            change = staying[r] if rank[r] < r32 else risen[r] * scale - drop[r] * less
            term = (g - worth[r]) * change * bell(place[r] - mean)  # its own is 0
            slope += term
            bend += abs(term)
        total += slope
        total_bend += bend
    return total, total_bend


@functools.cache
def stochastic_rank_kernel() -> Callable[..., None]:
    """StochasticRank of a query, of which the first k + 1 noisy ranks must be known.

    Each document i is taken out of the order of the noisy scores. With Z_q and h_q the noisy score and the gain of the
    others at place q, phi the density of i's noisy score given the others', and c_q what depends on the others above q,

        slope = sum over q <= k of phi(Z_q) (M with i at q - M with i at q + 1)
              = sum over q <= k of phi(Z_q) (gain_i - h_q) c_q (discount_q - discount_(q+1)),

    because only i and one other change places: every measure here has that form. The kind: LINEAR, c = 1; AVERAGE
    precision, c = 1 + relevant others above; CASCADE, c = the product of 1 - gain over the others above. Adds minus the
    slope to the gradient, and phi's peak times the sum of the terms' sizes to the hessian.
    """

    def kernel(own: Any, discounts: Any, how: Any, unit: float, sums: Any) -> None:
        (centres, noisy, ranked, gain), (discount, k), (sigma, kind), (gradient, hessian) = own, discounts, how, sums
        n = len(ranked)
        m = min(k, n - 1)  # places of the others that matter
        room = np.empty((7, n + PADDING), np.float32)
        per_width = np.sqrt((n - 1) / n) / sigma
        origin = noisy[ranked[0]]
        total = 0.0
        for row in range(n):
            total += noisy[row] - centres[row]
        above = above_rest = 1.0  # the rest: without the first document of gain 1, which ends every cascade
        fallen, first_sure = 0.0, -1
        for r in range(m + 1):
            document = ranked[r]
            g = gain[document]
            drop = discount[r] - discount[r + 1] if r < m else 0.0
            room[STANDS, r] = r
            room[NOISY, r] = (noisy[document] - origin) * per_width
            room[WORTH, r] = g
            room[STAYING, r] = drop * above
            room[RISING, r] = fallen * above
            room[RISING_REST, r] = fallen * above_rest
            room[RISING_DROP, r] = fallen
            fallen = drop
            if kind == AVERAGE:
                above += g
            elif kind == CASCADE:
                if g == 1.0 and first_sure < 0:
                    first_sure = r
                else:
                    above_rest *= 1.0 - g
                above *= 1.0 - g
        count = (m + PADDING) & ~(PADDING - 1)  # one by one, the remainder of a loop would take as long as the rest
        for r in range(m + 1, count):
            for row in range(7):
                room[row, r] = 0.0
            room[STANDS, r] = r
        height = PEAK * per_width
        unit *= height
        for r in range(n):
            document = ranked[r]
            others = (total - (noisy[document] - centres[document])) / (n - 1)  # the mean of their noise
            mean, g = (centres[document] + others - origin) * per_width, gain[document]
            scale, less, which = 1.0, 0.0, RISING
            if kind == AVERAGE:
                less = g
            elif kind == CASCADE and g < 1.0:
                scale = 1.0 / (1.0 - g)
            elif kind == CASCADE and r == first_sure:
                which = RISING_REST
            slope, bend = slopes(room, which, count, (r, mean, g), (scale, less))
            gradient[document] -= unit * slope
            hessian[document] += unit * height * bend

    return compile_kernel(kernel, fastmath=REDUCE)
