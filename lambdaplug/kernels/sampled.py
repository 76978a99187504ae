"""Gradients of a measure's expectation over random rankings, from a few of them."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from .jit import REDUCE, compile_kernel, float32_from_bits, inlinable, line, load, located, reducible
from .layout import PADDING
from .listwise import one_more
from .noise import LOG2_E, NARROW, precise_exponential

POWER, TOTAL, SHARE, REST = range(4)  # scratch; the last three by rank
PLACKETT_LUCE_ROWS = 4


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
    """``kernel(scores, (gain, norm, discount, k), sampled, (offsets, first, last, order), room, into)``.

    What a ranking of each query, times ``sampled``, says of the mean of sum gain * discount over the Plackett-Luce model's
    rankings; ``into`` is (coefficient, gradient, hessian), to which minus the first and second
    derivatives are added. For document i at rank r, with m = min(r, k), inside = [r <= k], D_q the sum of exp(score) from
    rank q on, p_q = exp(s_i)/D_q and R_q the sum of gain * discount from rank q to k:

        first = A + B,  A = inside R_(r+1),  B = sum over q <= m of p_q (discount_q gain_i - R_q)
        second = A (1 - S) + B (inside + 1 - S) - C,  S = sum over q <= m of p_q,
        C = sum over q <= m of p_q^2 (discount_q gain_i - R_q)

    Sums over q are kept times D_r or its square, by which no term exceeds its R: D_(r+1)/D_r is 1 - p_r. ``room`` is
    scratch of PLACKETT_LUCE_ROWS, one longer than the longest query.
    """

    def kernel(scores: Any, prepared: Any, sampled: float, lists: Any, room: Any, into: Any) -> None:
        gain, norm, discount, k = prepared
        offsets, first, last, ranked = lists
        coefficient, gradient, hessian = into
        for query in range(first, last):
            start, n, low = located(offsets, first, query)
            m = k if k < n else n
            if norm[query] == 0.0 or n < 2 or m < 1:
                continue
            own, worth = line(scores, 0, start, n), line(gain, 0, start, n)
            to_gradient, to_hessian = line(gradient, 0, low, n), line(hessian, 0, low, n)
            power, total = line(room, POWER, 0, n), line(room, TOTAL, 0, n)
            share, rest = line(room, SHARE, 0, n), line(room, REST, 0, n + 1)
            any_score = load(own, 0)
            far = 0
            for r in range(n):
                far += not abs(load(own, r) - any_score) <= NARROW
            for r in range(n if far == 0 else 0):
                power[r] = precise_exponential(load(own, r) - any_score)
            unit, order = coefficient * norm[query] * sampled, line(ranked, 0, start, n)
            rest[m] = 0.0
            if far == 0:
                shares(power, order, worth, discount, m, total, share, rest)
            else:
                wide_shares(own, order, worth, discount, m, total, share, rest)
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


# Scratch by rank: rank, noisy score, gain; discount_q - discount_(q+1) times c_q for documents that stay above i, and for
# those that move up when i is taken out, the same with i still in c, without the first document of gain 1, and without c.
RANK, PLACE, WORTH, STAYING, RISING, RISING_REST, RISING_DROP = range(7)
STOCHASTIC_RANK_ROWS = 7
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
            line(room, RANK, begin, size),
            line(room, PLACE, begin, size),
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
    """``kernel(centres, noisy, (sigma, kind), (gain, norm, discount, k), (offsets, first, last, order), room, into)``.

    Each document i is taken out of the order of the noisy scores. With Z_q and h_q the noisy score and the gain of the
    others at place q, phi the density of i's noisy score given the others', and c_q what depends on the others above q,

        slope = sum over q <= k of phi(Z_q) (M with i at q - M with i at q + 1)
              = sum over q <= k of phi(Z_q) (gain_i - h_q) c_q (discount_q - discount_(q+1)),

    because only i and one other change places: every measure here has that form. ``kind``: LINEAR, c = 1; AVERAGE
    precision, c = 1 + relevant others above; CASCADE, c = the product of 1 - gain over the others above. Adds minus the
    slope to the gradient, and phi's peak times the sum of the terms' sizes to the hessian. ``centres`` are the means of
    the noisy scores; ``order`` must know the first k + 1 ranks; ``room`` is scratch of STOCHASTIC_RANK_ROWS, PADDING
    longer than the longest query, in float32.
    """

    def kernel(centres: Any, noisy: Any, how: Any, prepared: Any, lists: Any, room: Any, into: Any) -> None:
        sigma, kind = how
        gain, norm, discount, k = prepared
        offsets, first, last, order = lists
        coefficient, gradient, hessian = into
        for query in range(first, last):
            start, n, low = located(offsets, first, query)
            m = k if k < n - 1 else n - 1  # places of the others that matter
            if norm[query] == 0.0 or m < 1:
                continue
            ranked = line(order, 0, start, n)
            per_width = np.sqrt((n - 1) / n) / sigma
            origin = noisy[start + ranked[0]]
            total = 0.0
            for row in range(start, start + n):
                total += noisy[row] - centres[row]
            above = above_rest = 1.0  # the rest: without the first document of gain 1, which ends every cascade
            fallen, first_sure = 0.0, -1
            for r in range(m + 1):
                row = start + ranked[r]
                g = gain[row]
                drop = discount[r] - discount[r + 1] if r < m else 0.0
                room[RANK, r] = r
                room[PLACE, r] = (noisy[row] - origin) * per_width
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
                room[RANK, r] = r
                room[PLACE, r] = room[WORTH, r] = room[STAYING, r] = 0.0
                room[RISING, r] = room[RISING_REST, r] = room[RISING_DROP, r] = 0.0
            height = PEAK * per_width
            unit = coefficient * norm[query] * height
            for r in range(n):
                row = start + ranked[r]
                others = (total - (noisy[row] - centres[row])) / (n - 1)  # the mean of their noise
                mean, g = (centres[row] + others - origin) * per_width, gain[row]
                scale, less, which = 1.0, 0.0, RISING
                if kind == AVERAGE:
                    less = g
                elif kind == CASCADE and g < 1.0:
                    scale = 1.0 / (1.0 - g)
                elif kind == CASCADE and r == first_sure:
                    which = RISING_REST
                slope, bend = slopes(room, which, count, (r, mean, g), (scale, less))
                gradient[low + row - start] -= unit * slope
                hessian[low + row - start] += unit * height * bend

    return compile_kernel(kernel, fastmath=REDUCE)
