"""The one pairwise kernel: forces and hessians of a lambda gradient, for any measure and any pair cost.

The inner loop runs over all documents below two neighbours in a list. It sums up the two in scalars and updates the
others in place, reads everything else through ``load``, calls no exp, has no branch and one division for two pairs, so
LLVM turns it into packed instructions. There are three such lists:

- in rank order, for measures with a cut-off: only rows above the cut have a loop.
- by falling gain, for whole lists: a document's loop begins at the next lower gain, so that pairs of equal gain, often
  half of all, are left out and the upper one of a pair is always the better.
- in rank order and float64 for queries whose scores spread too far for the others.

Three things keep float32 honest:

- exp(s_i - s_max) is taken once a document, in float64. A query whose scores spread so far that products of it would
  underflow goes through the exact loop, in float64 with one exp a pair.
- upper_i - lower_j is a difference of nearly equal numbers deep in the list, so each is kept as a sum of two float32.
- sums run over short blocks and are then added in float64.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .compiling import REDUCE, compile_kernel, float32_from_bits, inlinable, load, reducible, sources_stamp

__all__ = ["FAST_SPREAD", "FLOAT32_ROWS", "FLOAT64_ROWS", "PADDING", "PairShape", "pair_kernel", "stage_kernel"]

FAST_SPREAD = 42.0  # exp(-42)^2 = 3e-37 is a normal float32, and so is its reciprocal
FAR = 1e38  # the exp of padding: the product of two such totals is infinite, its reciprocal 0, and so is the force
PADDING = 8  # float32 lanes of a 256-bit register: the loop's remainder runs on padding instead of one by one
FLOAT64_ROWS = 6  # gain, upper, lower, scale | gradient, hessian
FLOAT32_ROWS = (
    13  # exp, gain, upper (2), lower (2), grade or rank, weight, tier or scale | gradient, hessian | score (2)
)
RANKED, GRADED, WIDE = 0, 1, 2
ROW_BLOCK = np.uint64(128)
COLUMN_BLOCK = np.uint64(512)
ONE = np.uint64(1)
TWO = np.uint64(2)
LANES = np.uint64(PADDING - 1)
LOG2_E = 1.4426950408889634
LN_2 = 0.6931471805599453


class PairShape(NamedTuple):
    """What a kernel is specialised for; everything else is an argument and never recompiles."""

    gained: bool = True  # |delta| has the factor |gain_i - gain_j|
    plain: bool = False  # the gains alone tell which document is better, every document is in pairs, and no tiers
    symmetric: bool = False  # upper and lower are the same, so that it does not matter which document ranks higher
    scaled: bool = False  # |delta| has a factor of the upper document
    weighted: bool = False  # documents carry weights
    tiered: bool = False  # only pairs of the same tier
    shifted: bool = False  # the cost has a parameter
    summed: bool = False  # a query is scaled by log2(1 + S)/S, S its summed force
    distanced: bool = False  # |delta| is divided by a constant plus the distance of the scores


@inlinable
def distance(upper: float, upper_rest: float, lower: float, lower_rest: float) -> float:
    """|upper - lower| of two numbers held in two parts each; strict arithmetic, or the second parts are lost."""
    return abs((upper - lower) + (upper_rest - lower_rest))


@reducible
def pair_size(
    shape: PairShape,
    row: tuple[Any, Any, Any, Any, Any, Any],
    gain: float,
    lower: float,
    lower_rest: float,
    grade: float,
    weight: float,
    tier: float,
) -> tuple[float, bool]:
    """The delta of an upper document (gain, upper in two parts, grade, factor, tier) and a lower one, and which is better.

    It is positive where the upper document is.
    """
    gain_i, upper_i, upper_rest_i, grade_i, factor_i, tier_i = row
    size = distance(upper_i, upper_rest_i, lower, lower_rest)
    if shape.plain:
        better = gain_i > gain
        size *= gain_i - gain
    else:
        better = grade_i > grade
        if shape.gained:
            size *= abs(gain_i - gain)
        size = size if better else -size
        size = size if better or grade_i < grade else np.float32(0.0)
    if shape.scaled or shape.weighted:
        size *= factor_i
    if shape.weighted:
        size *= weight
    if shape.tiered:
        size = size if tier_i == tier else np.float32(0.0)
    return size, better


@inlinable
def exponential(x: float) -> Any:
    """exp(x) for -80 <= x <= 0 to a float32's precision, without a call, so that loops over it are vectorised."""
    power = np.floor(x * LOG2_E + 0.5)
    r = x - power * LN_2
    series = 1.0 + r * (1 / 6 + r * (1 / 24 + r * (1 / 120 + r * (1 / 720 + r / 5040)))) * r * r + (r + r * r * 0.5)
    return np.float32(series) * float32_from_bits(np.int32((np.int32(power) + np.int32(127)) << np.int32(23)))


@functools.cache
def stage_kernel() -> Callable[..., None]:
    """``kernel(scores, grade, begin, symmetric, distanced, weight, tier, sigma, fast_spread, offsets, first, last, ...)``.

    Derives ``fast`` (float32, each query padded) from ``rows`` (float64, in rank order). It is a kernel of its own
    because the pair kernel may only ``load`` what no store in the same function has written. ``weight`` and ``tier`` may
    be empty, and so may ``grade`` for a plain shape. ``begin``, if not empty, is where each
    document's gain begins in a list by falling gain: whole lists are put into that order. ``places`` receives the list's
    documents and, where a gain begins, how many have it; ``kinds`` which list each query has.
    """
    stamp = sources_stamp()

    def kernel(
        scores: Any,
        grade: Any,
        begin: Any,
        symmetric: bool,
        distanced: bool,
        weight: Any,
        tier: Any,
        sigma: float,
        fast_spread: float,
        offsets: Any,
        first: int,
        last: int,
        order: Any,
        cuts: Any,
        rows: Any,
        fast: Any,
        places: Any,
        kinds: Any,
    ) -> None:
        _ = stamp
        for query in range(first, last):
            if cuts[query - first] == 0:
                continue
            start = offsets[query]
            n = offsets[query + 1] - start
            low = start - offsets[first]
            padded = low + PADDING * (query - first)
            document = places[0, low : low + n]
            score = rows[4, low : low + n]  # until the pair kernel needs it
            top = scores[start + order[start]]
            graded = begin.size > 0 and cuts[query - first] == n - 1
            if graded and sigma * (top - scores[start + order[start + n - 1]]) <= fast_spread:
                kinds[query - first] = GRADED
                # Every document to its place, in rank order among those of the same gain.
                count, rank = places[1, low : low + n], places[2, low : low + n]
                count[:] = 0
                for r in range(n):
                    at = load(begin, start + load(order, start + r))
                    rank[at + count[at]] = r
                    count[at] += 1
                for s in range(n):
                    document[s] = load(order, start + rank[s])
                for s in range(n):
                    score[s] = load(scores, start + document[s])
                to = fast[1, padded : padded + n]
                gain = rows[0, low : low + n]
                for s in range(n):
                    to[s] = np.float32(load(gain, rank[s]) - gain[0])
                for c in range(1, 2 if symmetric else 3):
                    part = rows[c, low : low + n]
                    to = fast[2 * c, padded : padded + n]
                    rest = fast[2 * c + 1, padded : padded + n]
                    for s in range(n):
                        value = load(part, rank[s])
                        to[s] = np.float32(value)
                        rest[s] = np.float32(value - np.float32(value))
                if not symmetric:
                    for s in range(n):
                        fast[6, padded + s] = rank[s]
                        fast[8, padded + s] = rows[3, low + rank[s]]
            else:
                document[:] = order[start : start + n]
                for r in range(n):
                    score[r] = load(scores, start + document[r])
                beyond = 0
                for r in range(n):
                    beyond += sigma * (top - score[r]) > fast_spread
                kinds[query - first] = WIDE if beyond > 0 else RANKED
                gain = rows[0, low : low + n]
                to = fast[1, padded : padded + n]
                for r in range(n):  # only differences of gains matter: without their common part they fit float32
                    to[r] = np.float32(gain[r] - gain[0])
                for c in range(1, 3):
                    part = rows[c, low : low + n]
                    to = fast[2 * c, padded : padded + n]
                    rest = fast[2 * c + 1, padded : padded + n]
                    for r in range(n):
                        to[r] = np.float32(part[r])
                    for r in range(n):
                        rest[r] = np.float32(part[r] - to[r])
            to = fast[0, padded : padded + n]
            for r in range(n):
                to[r] = exponential(max(sigma * (score[r] - top), -80.0))
            if distanced:  # small distances of scores far from the top need both parts
                to = fast[11, padded : padded + n]
                rest = fast[12, padded : padded + n]
                for r in range(n):
                    to[r] = np.float32(score[r] - top)
                for r in range(n):
                    rest[r] = np.float32((score[r] - top) - to[r])
                fast[11, padded + n : padded + n + PADDING] = np.float32(0.0)
                fast[12, padded + n : padded + n + PADDING] = np.float32(0.0)
            if grade.size > 0:
                for r in range(n):
                    fast[6, padded + r] = grade[start + document[r]]
            if weight.size > 0:
                for r in range(n):
                    fast[7, padded + r] = weight[start + document[r]]
            if tier.size > 0:
                for r in range(n):
                    fast[8, padded + r] = tier[start + document[r]]
            for c in range(9):
                fast[c, padded + n : padded + n + PADDING] = np.float32(0.0)
            # Padding exerts no force: it is no better and no worse than anything, or, for a plain shape, infinitely far.
            fast[0, padded + n : padded + n + PADDING] = np.float32(1.0 if grade.size > 0 else FAR)
            if grade.size > 0:
                fast[6, padded + n : padded + n + PADDING] = np.float32(np.nan)

    return compile_kernel(kernel, fastmath={"nsz", "contract"})


@functools.cache
def pair_kernel(
    fast_cost: Callable[..., tuple[float, float]], exact_cost: Callable[..., tuple[float, float]], shape: PairShape
) -> Callable[..., None]:
    """Specialise the kernel; its arguments are those of ``stage_kernel`` and what it computed."""
    cost32 = inlinable(fast_cost)
    cost64 = inlinable(exact_cost)
    gained, plain, symmetric, scaled, weighted, tiered, shifted, summed, distanced = shape
    stamp = sources_stamp()

    def kernel(
        sigma: float,
        shift: float,
        near: float,
        coefficient: float,
        scores: Any,
        grade: Any,
        weight: Any,
        tier: Any,
        norm: Any,
        offsets: Any,
        first: int,
        last: int,
        part: int,
        parts: int,
        cuts: Any,
        rows: Any,
        fast: Any,
        places: Any,
        kinds: Any,
        gradient: Any,
        hessian: Any,
    ) -> None:
        _ = stamp
        zero = np.float32(0.0)
        one = np.float32(1.0)
        shift32 = np.float32(shift)
        for query in range(first, last):
            cut = cuts[query - first]
            if cut == 0:
                continue
            start = offsets[query]
            n = offsets[query + 1] - start
            low = start - offsets[first]
            # Rows part/parts of the triangle, so that one huge query can keep several threads busy.
            area = cut * (n - 0.5 * cut)
            first_row = np.uint64(n - np.sqrt(n * n - 2.0 * area * part / parts) + 0.5)
            last_row = np.uint64(n - np.sqrt(n * n - 2.0 * area * (part + 1) / parts) + 0.5)
            if part + 1 == parts:
                last_row = np.uint64(cut)
            end = np.uint64(n)
            gradient64, hessian64 = rows[4, low : low + n], rows[5, low : low + n]
            gradient64[:] = 0.0
            hessian64[:] = 0.0
            documents = places[0, low : low + n]
            kind = kinds[query - first]
            total = 0.0  # of the forces, where they are summed
            apart = 1.0  # what a pair's distance is added to; equal scores all over the query: nothing is divided
            if distanced:
                for r in range(1, n):
                    if scores[start + r] != scores[start]:
                        apart = near
                        break
            apart32 = np.float32(apart)
            if kind == WIDE:
                values = rows[:, low : low + n]
                for i in range(first_row, last_row):
                    upper_row = start + documents[i]
                    for j in range(i + ONE, end):
                        lower_row = start + documents[j]
                        better = grade[upper_row] > grade[lower_row]
                        if not (better or grade[upper_row] < grade[lower_row]):
                            continue
                        if tiered and tier[upper_row] != tier[lower_row]:
                            continue
                        size = abs(values[1, i] - values[2, j])
                        if gained:
                            size *= abs(values[0, i] - values[0, j])
                        if scaled:
                            size *= values[3, i]
                        if weighted:
                            size *= weight[upper_row] * weight[lower_row]
                        if distanced:
                            size /= apart + abs(scores[upper_row] - scores[lower_row])
                        margin = sigma * (scores[upper_row] - scores[lower_row])
                        push, bend = cost64(margin if better else -margin, shift)
                        if summed:
                            total += push * size
                        push *= size if better else -size
                        bend *= size
                        gradient64[i] -= push
                        gradient64[j] += push
                        hessian64[i] += bend
                        hessian64[j] += bend
            else:
                padded = low + PADDING * (query - first)
                e, gain = fast[0, padded:], fast[1, padded:]
                upper, upper_rest = fast[2, padded:], fast[3, padded:]
                lower, lower_rest = fast[4, padded:], fast[5, padded:]
                grade32, weight32, tier32 = fast[6, padded:], fast[7, padded:], fast[8, padded:]
                gradient32, hessian32 = fast[9, padded:], fast[10, padded:]
                score32, score_rest = fast[11, padded:], fast[12, padded:]
                scale = rows[3, low : low + n]
                for j in range(n + PADDING):
                    gradient32[j] = zero
                    hessian32[j] = zero
                graded = plain and kind == GRADED
                column_i = np.uint64(0)
                if graded:  # whole pairs of rows in each part
                    first_row &= ~ONE
                    last_row = end if part + 1 == parts else last_row & ~ONE
                for block in range(first_row, last_row, ROW_BLOCK):
                    stop = min(block + ROW_BLOCK, last_row)
                    if graded:
                        for i in range(block, stop, TWO):
                            k = i + ONE
                            while column_i <= i:
                                column_i += np.uint64(places[1, low + column_i])
                            column = column_i
                            if column >= end:  # the lowest gain: nobody below. If k has it, its pairs have no size
                                break
                            e_i, e_k = load(e, i), load(e, k)
                            gain_i, gain_k = load(gain, i), load(gain, k)
                            upper_i, upper_rest_i = load(upper, i), load(upper_rest, i)
                            upper_k, upper_rest_k = load(upper, k), load(upper_rest, k)
                            lower_i, lower_rest_i = load(lower, i), load(lower_rest, i)
                            lower_k, lower_rest_k = load(lower, k), load(lower_rest, k)
                            rank_i, rank_k = load(grade32, i), load(grade32, k)
                            scale_i, scale_k = load(tier32, i), load(tier32, k)
                            weight_i, weight_k = load(weight32, i), load(weight32, k)
                            score_i, score_rest_i = load(score32, i), load(score_rest, i)
                            score_k, score_rest_k = load(score32, k), load(score_rest, k)
                            gradient_i = gradient_k = hessian_i = hessian_k = 0.0
                            while column < end:
                                length = min(COLUMN_BLOCK, end - column)
                                sum_i = sum_k = bend_i = bend_k = zero
                                for j in range(column, column + ((length + LANES) & ~LANES)):
                                    e_j, gain_j = load(e, j), load(gain, j)
                                    upper_j, upper_rest_j = load(upper, j), load(upper_rest, j)
                                    size_i, size_k = gain_i - gain_j, gain_k - gain_j
                                    if symmetric:
                                        size_i *= distance(upper_i, upper_rest_i, upper_j, upper_rest_j)
                                        size_k *= distance(upper_k, upper_rest_k, upper_j, upper_rest_j)
                                    else:
                                        lower_j, lower_rest_j = load(lower, j), load(lower_rest, j)
                                        rank_j = load(grade32, j)
                                        above_i, above_k = rank_i < rank_j, rank_k < rank_j
                                        size_i *= distance(
                                            upper_i if above_i else upper_j,
                                            upper_rest_i if above_i else upper_rest_j,
                                            lower_j if above_i else lower_i,
                                            lower_rest_j if above_i else lower_rest_i,
                                        )
                                        size_k *= distance(
                                            upper_k if above_k else upper_j,
                                            upper_rest_k if above_k else upper_rest_j,
                                            lower_j if above_k else lower_k,
                                            lower_rest_j if above_k else lower_rest_k,
                                        )
                                        if scaled:
                                            scale_j = load(tier32, j)
                                            size_i *= scale_i if above_i else scale_j
                                            size_k *= scale_k if above_k else scale_j
                                    if weighted:
                                        weight_j = load(weight32, j)
                                        size_i *= weight_i * weight_j
                                        size_k *= weight_k * weight_j
                                    if distanced:
                                        score_j, score_rest_j = load(score32, j), load(score_rest, j)
                                        size_i /= apart32 + distance(score_i, score_rest_i, score_j, score_rest_j)
                                        size_k /= apart32 + distance(score_k, score_rest_k, score_j, score_rest_j)
                                    total_i, total_k = e_i + e_j, e_k + e_j
                                    inverse = one / (total_i * total_k)
                                    push_i, curve_i = cost32(e_i, e_j, inverse * total_k)
                                    push_k, curve_k = cost32(e_k, e_j, inverse * total_i)
                                    push_i *= size_i
                                    push_k *= size_k
                                    curve_i *= size_i
                                    curve_k *= size_k
                                    sum_i -= push_i
                                    sum_k -= push_k
                                    bend_i += curve_i
                                    bend_k += curve_k
                                    gradient32[j] += push_i + push_k
                                    hessian32[j] += curve_i + curve_k
                                gradient_i += sum_i
                                gradient_k += sum_k
                                hessian_i += bend_i
                                hessian_k += bend_k
                                column += length
                            if summed:  # the upper one is the better in every pair
                                total -= gradient_i + gradient_k
                            gradient64[i] += gradient_i
                            gradient64[k] += gradient_k
                            hessian64[i] += hessian_i
                            hessian64[k] += hessian_k
                    for i in range(block, block if graded else stop, TWO):
                        # Documents i and k = i + 1 against all below i: k against itself has no size.
                        k = min(i + ONE, stop - ONE)
                        e_i, e_k = load(e, i), load(e, k)
                        factor_i, factor_k = one, one
                        if scaled:
                            factor_i, factor_k = np.float32(scale[i]), np.float32(scale[k])
                        if weighted:
                            factor_i *= load(weight32, i)
                            factor_k *= load(weight32, k)
                        row_i = (
                            load(gain, i),
                            load(upper, i),
                            load(upper_rest, i),
                            load(grade32, i),
                            factor_i,
                            load(tier32, i),
                        )
                        row_k = (
                            load(gain, k),
                            load(upper, k),
                            load(upper_rest, k),
                            load(grade32, k),
                            factor_k,
                            load(tier32, k),
                        )
                        score_i, score_rest_i = load(score32, i), load(score_rest, i)
                        score_k, score_rest_k = load(score32, k), load(score_rest, k)
                        gradient_i = gradient_k = hessian_i = hessian_k = 0.0
                        column = i + ONE
                        while column < end:
                            length = min(COLUMN_BLOCK, end - column)
                            below = range(column, column + ((length + LANES) & ~LANES))
                            sum_i = sum_k = bend_i = bend_k = force = zero
                            if k == i:  # a last one alone
                                for j in below:
                                    row_j = (
                                        load(gain, j),
                                        load(lower, j),
                                        load(lower_rest, j),
                                        load(grade32, j),
                                        load(weight32, j),
                                        load(tier32, j),
                                    )
                                    size_i, better_i = pair_size(shape, row_i, *row_j)
                                    if distanced:
                                        score_j, score_rest_j = load(score32, j), load(score_rest, j)
                                        size_i /= apart32 + distance(score_i, score_rest_i, score_j, score_rest_j)
                                    e_j = load(e, j)
                                    high_i, low_i = e_i if better_i else e_j, e_j if better_i else e_i
                                    if shifted:
                                        high_i *= shift32
                                        inverse_i = one / (high_i + low_i)
                                    else:  # as for two, so that padding comes to 0
                                        total_i = e_i + e_j
                                        inverse_i = (one / (total_i * total_i)) * total_i
                                    push_i, curve_i = cost32(high_i, low_i, inverse_i)
                                    push_i *= size_i
                                    curve_i *= abs(size_i)
                                    if summed:
                                        force += abs(push_i)
                                    sum_i -= push_i
                                    bend_i += curve_i
                                    gradient32[j] += push_i
                                    hessian32[j] += curve_i
                            else:
                                for j in below:
                                    row_j = (
                                        load(gain, j),
                                        load(lower, j),
                                        load(lower_rest, j),
                                        load(grade32, j),
                                        load(weight32, j),
                                        load(tier32, j),
                                    )
                                    size_i, better_i = pair_size(shape, row_i, *row_j)
                                    size_k, better_k = pair_size(shape, row_k, *row_j)
                                    if distanced:
                                        score_j, score_rest_j = load(score32, j), load(score_rest, j)
                                        size_i /= apart32 + distance(score_i, score_rest_i, score_j, score_rest_j)
                                        size_k /= apart32 + distance(score_k, score_rest_k, score_j, score_rest_j)
                                    e_j = load(e, j)
                                    high_i, low_i = e_i if better_i else e_j, e_j if better_i else e_i
                                    high_k, low_k = e_k if better_k else e_j, e_j if better_k else e_k
                                    if shifted:  # with the parameter, the product of two totals could overflow
                                        high_i *= shift32
                                        high_k *= shift32
                                        inverse_i, inverse_k = one / (high_i + low_i), one / (high_k + low_k)
                                    else:
                                        total_i, total_k = e_i + e_j, e_k + e_j
                                        inverse = one / (total_i * total_k)
                                        inverse_i, inverse_k = inverse * total_k, inverse * total_i
                                    push_i, curve_i = cost32(high_i, low_i, inverse_i)
                                    push_k, curve_k = cost32(high_k, low_k, inverse_k)
                                    push_i *= size_i
                                    push_k *= size_k
                                    curve_i *= abs(size_i)
                                    curve_k *= abs(size_k)
                                    if summed:
                                        force += abs(push_i) + abs(push_k)
                                    sum_i -= push_i
                                    sum_k -= push_k
                                    bend_i += curve_i
                                    bend_k += curve_k
                                    gradient32[j] += push_i + push_k
                                    hessian32[j] += curve_i + curve_k
                            gradient_i += sum_i
                            gradient_k += sum_k
                            hessian_i += bend_i
                            hessian_k += bend_k
                            if summed:
                                total += force
                            column += length
                        gradient64[i] += gradient_i
                        gradient64[k] += gradient_k
                        hessian64[i] += hessian_i
                        hessian64[k] += hessian_k
                    for j in range(block + ONE, end):
                        gradient64[j] += gradient32[j]
                        hessian64[j] += hessian32[j]
                        gradient32[j] = zero
                        hessian32[j] = zero
            unit = coefficient * norm[query] * sigma
            if summed:
                force64 = 2.0 * norm[query] * sigma * total
                unit *= np.log2(1.0 + force64) / force64 if force64 > 0.0 else 1.0
            for r in range(n):
                document = low + documents[r]
                gradient[document] += unit * gradient64[r]
                hessian[document] += unit * sigma * hessian64[r]

    return compile_kernel(kernel, fastmath=REDUCE)
