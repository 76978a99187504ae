"""The pairwise kernels: forces and hessians of a lambda gradient, for any measure and any pair cost.

The inner loop runs over all documents below two neighbours in a list. It sums up the two in scalars and updates the
others in place, reads everything else through ``load``, calls no exp, has no branch and one division for two pairs, so
LLVM turns it into packed instructions. There are three such lists, each with a kernel of its own, compiled where it is met:

- in rank order, for measures with a cut-off: only rows above the cut have a loop.
- by falling gain, for whole lists: a document's loop begins at the next lower gain, so that pairs of equal gain, often
  half of all, are left out and the upper one of a pair is always the better.
- in rank order and float64 for queries whose scores spread too far for the others.

Three things keep float32 honest:

- exp(s_i - s_max) is taken once a document, in float64. A query whose scores spread so far that products of it would
  underflow goes through the exact loop, in float64 with one exp a pair.
- where upper_i - lower_j is a difference of nearly equal numbers, each is kept as a sum of two float32.
- sums run over short blocks and are then added in float64.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .compiling import REDUCE, compile_kernel, float32_from_bits, inlinable, line, load, reducible

__all__ = [
    "FAST_SPREAD",
    "FLOAT32_ROWS",
    "FLOAT64_ROWS",
    "GRADED",
    "PADDING",
    "RANKED",
    "WIDE",
    "PairShape",
    "graded_kernel",
    "ranked_kernel",
    "rows_of",
    "stage_graded_kernel",
    "stage_ranked_kernel",
    "wide_kernel",
]

FAST_SPREAD = 42.0  # exp(-42)^2 = 3e-37 is a normal float32, and so is its reciprocal
FAR = 1e38  # the exp of padding: the product of two such totals is infinite, its reciprocal 0, and so is the force
PADDING = 8  # float32 lanes of a 256-bit register: the loop's remainder runs on padding instead of one by one
FLOAT64_ROWS = 6  # gain, upper, lower, scale | gradient, hessian
# exp, gain, upper (2), lower (2), grade or rank, weight, scale | gradient, hessian | score (2), tier
FLOAT32_ROWS = 14
RANKED, GRADED, WIDE = 1, 2, 4
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
    greater: bool = False  # whichever ranks higher, the delta is the greater of its two forms
    fine: bool = True  # upper - lower is so much smaller than both that they are kept in two parts
    scaled: bool = False  # |delta| has a factor of the upper document
    weighted: bool = False  # documents carry weights
    tiered: bool = False  # only pairs of the same tier
    shifted: bool = False  # the cost has a parameter
    summed: bool = False  # a query is scaled by log2(1 + S)/S, S its summed force
    distanced: bool = False  # |delta| is divided by a constant plus the distance of the scores

    @property
    def ordered(self) -> bool:
        """Whether a list by falling gain has to know its documents' ranks."""
        return not self.symmetric and (self.fine or not self.greater)


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
    size = distance(upper_i, upper_rest_i, lower, lower_rest) if shape.fine else abs(upper_i - lower)
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


def rows_of(n: int, cut: int, part: int, parts: int) -> tuple[int, int]:
    """Rows of the triangle that make up so many parts of its area, so that a huge query can keep several threads busy."""
    area = cut * (n - 0.5 * cut)
    first, last = (int(n - (n * n - 2.0 * area * share / parts) ** 0.5 + 0.5) for share in (part, part + 1))
    return first, n if part + 1 == parts else last


@inlinable
def nearness(near: float, scores: Any, start: int, n: int) -> float:
    """What a pair's distance is added to. Where all scores are equal nothing is divided."""
    for r in range(1, n):
        if scores[start + r] != scores[start]:
            return near
    return 1.0


@inlinable
def log_scale(force: float) -> float:
    """log2(1 + S)/S."""
    return np.log2(1.0 + force) / force if force > 0.0 else 1.0


@inlinable
def exponential(x: float) -> Any:
    """exp(x) for x <= 0 to a float32's precision (exp(-80) below that), without a call, so that loops are vectorised."""
    x = x if x > -80.0 else -80.0
    power = np.floor(x * LOG2_E + 0.5)
    r = x - power * LN_2
    series = 1.0 + r * (1 / 6 + r * (1 / 24 + r * (1 / 120 + r * (1 / 720 + r / 5040)))) * r * r + (r + r * r * 0.5)
    return np.float32(series) * float32_from_bits(np.int32((np.int32(power) + np.int32(127)) << np.int32(23)))


@functools.cache
def stage_graded_kernel() -> Callable[..., int]:
    """``kernel(scores, begin, symmetric, ordered, fine, distanced, weight, sigma, fast_spread, offsets, ...)``.

    Derives ``fast`` (float32, each query padded) from ``rows`` (float64, in rank order) for whole lists, put into
    the order of falling gains: ``begin`` is where each document's gain begins. ``places`` receives the lists' documents;
    of ``marks``, the first row holds the queries' cuts and the second receives their kinds. Returns which kinds there are.

    Staging is apart from the pairs because a pair kernel may only ``load`` what no store in the same function has written.
    """

    def kernel(
        scores: Any,
        begin: Any,
        symmetric: bool,
        ordered: bool,
        fine: bool,
        distanced: bool,
        weight: Any,
        sigma: float,
        fast_spread: float,
        offsets: Any,
        first: int,
        last: int,
        order: Any,
        marks: Any,
        rows: Any,
        fast: Any,
        places: Any,
    ) -> int:
        found = 0
        for query in range(first, last):
            start, cut = offsets[query], marks[0, query - first]
            n = offsets[query + 1] - start
            marks[1, query - first] = 0
            if cut == 0:
                continue
            if cut < n - 1:  # not a whole list
                found |= RANKED
                continue
            low = start - offsets[first]
            padded = low + PADDING * (query - first)
            document, taken, score = line(places, 0, low, n), line(places, 1, low, n), line(rows, 4, low, n)
            upper, lower, scale = line(rows, 1, low, n), line(rows, 2, low, n), line(rows, 3, low, n)
            top = scores[start + order[start]]
            if sigma * (top - scores[start + order[start + n - 1]]) > fast_spread:
                found |= WIDE
                marks[1, query - first] = WIDE
                for r in range(n):
                    document[r] = order[start + r]
                continue
            found |= GRADED
            marks[1, query - first] = GRADED
            upper_to, upper_rest = line(fast, 2, padded, n), line(fast, 3, padded, n)
            lower_to, lower_rest = line(fast, 4, padded, n), line(fast, 5, padded, n)
            rank_to, scale_to = line(fast, 6, padded, n), line(fast, 8, padded, n)
            for r in range(n):
                taken[r] = 0
            for r in range(n):  # every document to its place, in rank order among those of the same gain
                row = load(order, start + r)
                at = np.uint64(load(begin, start + row))
                to = at + np.uint64(taken[at])
                taken[at] += 1
                document[to] = row
                score[to] = load(scores, start + row)
                value = load(upper, r)
                upper_to[to] = np.float32(value)
                if fine:
                    upper_rest[to] = np.float32(value - np.float32(value))
                if not symmetric:
                    value = load(lower, r)
                    lower_to[to] = np.float32(value)
                    if fine:
                        lower_rest[to] = np.float32(value - np.float32(value))
                    if ordered:
                        rank_to[to] = np.float32(r)
                        scale_to[to] = np.float32(load(scale, r))
            power = line(fast, 0, padded, n + PADDING)
            for r in range(n):
                power[r] = exponential(sigma * (score[r] - top))
            if distanced:  # small distances of scores far from the top need both parts
                for r in range(n):
                    value = score[r] - top
                    fast[11, padded + r] = np.float32(value)
                    fast[12, padded + r] = np.float32(value - np.float32(value))
            if weight.size > 0:
                for r in range(n):
                    fast[7, padded + r] = np.float32(load(weight, start + document[r]))
            for r in range(n, n + PADDING):  # infinitely far: whatever finite is left there, it exerts no force
                power[r] = np.float32(FAR)
        return found

    return compile_kernel(kernel, fastmath={"nsz", "contract"})


@functools.cache
def stage_ranked_kernel() -> Callable[..., int]:
    """``kernel(scores, grade, symmetric, fine, distanced, weight, tier, sigma, fast_spread, offsets, first, last, ...)``.

    The same for lists in rank order: the queries to which ``marks`` gives no kind yet. ``weight`` and ``tier`` may be
    empty, and so may ``grade`` for a plain shape.
    """

    def kernel(
        scores: Any,
        grade: Any,
        symmetric: bool,
        fine: bool,
        distanced: bool,
        weight: Any,
        tier: Any,
        sigma: float,
        fast_spread: float,
        offsets: Any,
        first: int,
        last: int,
        order: Any,
        marks: Any,
        rows: Any,
        fast: Any,
        places: Any,
    ) -> int:
        found = 0
        for query in range(first, last):
            if marks[0, query - first] == 0 or marks[1, query - first] != 0:
                continue
            start = offsets[query]
            n = offsets[query + 1] - start
            low = start - offsets[first]
            padded = low + PADDING * (query - first)
            document, score = line(places, 0, low, n), line(rows, 4, low, n)  # until a pair kernel needs them
            gain, upper, lower = line(rows, 0, low, n), line(rows, 1, low, n), line(rows, 2, low, n)
            top = scores[start + order[start]]
            for r in range(n):
                document[r] = load(order, start + r)
            for r in range(n):
                score[r] = load(scores, start + document[r])
            beyond = 0
            for r in range(n):
                beyond += sigma * (top - score[r]) > fast_spread
            kind = WIDE if beyond > 0 else RANKED
            marks[1, query - first] = kind
            found |= kind
            least = gain[0]  # only differences of gains matter: without their common part they fit float32
            at = 1
            while np.isnan(least) and at < n:  # of documents without a label, which are in no pair
                least = gain[at]
                at += 1
            power, gain_to, upper_to = line(fast, 0, padded, n), line(fast, 1, padded, n), line(fast, 2, padded, n)
            for r in range(n):
                gain_to[r] = np.float32(load(gain, r) - least)
            for r in range(n):
                upper_to[r] = np.float32(load(upper, r))
            for r in range(n):
                power[r] = exponential(sigma * (score[r] - top))
            if fine:
                for r in range(n):
                    fast[3, padded + r] = np.float32(load(upper, r) - upper_to[r])
            if not symmetric:
                lower_to, lower_rest = line(fast, 4, padded, n), line(fast, 5, padded, n)
                for r in range(n):
                    lower_to[r] = np.float32(load(lower, r))
                for r in range(n):
                    lower_rest[r] = np.float32(load(lower, r) - lower_to[r])
            if distanced and kind == RANKED:  # small distances of scores far from the top need both parts
                for r in range(n):
                    value = score[r] - top
                    fast[11, padded + r] = np.float32(value)
                    fast[12, padded + r] = np.float32(value - np.float32(value))
            graded, weighted, tiered = grade.size > 0, weight.size > 0, tier.size > 0
            if graded or weighted or tiered:
                for r in range(n):
                    if graded:
                        fast[6, padded + r] = grade[start + document[r]]
                    if weighted:
                        fast[7, padded + r] = weight[start + document[r]]
                    if tiered:
                        fast[13, padded + r] = tier[start + document[r]]
            # Padding exerts no force: it is no better and no worse than anything, or, for a plain shape, infinitely far.
            for c in range(FLOAT32_ROWS):
                value = (1.0 if graded else FAR) if c == 0 else np.nan if c == 6 and graded else 0.0
                for r in range(padded + n, padded + n + PADDING):
                    fast[c, r] = np.float32(value)
        return found

    return compile_kernel(kernel, fastmath={"nsz", "contract"})


@functools.cache
def ranked_kernel(cost: Callable[..., tuple[float, float]], shape: PairShape) -> Callable[..., None]:
    """Lists in rank order, in float32: rows above the cut."""
    cost32 = inlinable(cost)
    symmetric, scaled, weighted = shape.symmetric, shape.scaled, shape.weighted
    shifted, summed, distanced = shape.shifted, shape.summed, shape.distanced

    def kernel(
        sigma: float,
        near: float,
        coefficient: float,
        scores: Any,
        norm: Any,
        offsets: Any,
        first: int,
        last: int,
        first_row: int,
        last_row: int,
        marks: Any,
        rows: Any,
        places: Any,
        gradient: Any,
        hessian: Any,
        fast: Any,
        shift: float,
    ) -> None:
        zero, one, shift32 = np.float32(0.0), np.float32(1.0), np.float32(shift)
        for query in range(first, last):
            if marks[1, query - first] != RANKED:
                continue
            start = offsets[query]
            n = offsets[query + 1] - start
            low = start - offsets[first]
            end, cut = np.uint64(n), marks[0, query - first]
            row, stop_row = np.uint64(first_row), np.uint64(last_row if last_row < cut else cut)
            gradient64, hessian64 = line(rows, 4, low, n), line(rows, 5, low, n)
            for r in range(n):
                gradient64[r] = 0.0
                hessian64[r] = 0.0
            documents = line(places, 0, low, n)
            to_gradient, to_hessian = line(gradient, 0, low, n), line(hessian, 0, low, n)
            apart = nearness(near, scores, start, n) if distanced else 1.0
            total = 0.0  # of the forces, where they are summed
            apart32 = np.float32(apart)
            padded, width = low + PADDING * (query - first), n + PADDING
            e, gain = line(fast, 0, padded, width), line(fast, 1, padded, width)
            upper, upper_rest = line(fast, 2, padded, width), line(fast, 3, padded, width)
            lower, lower_rest = upper, upper_rest
            if not symmetric:
                lower, lower_rest = line(fast, 4, padded, width), line(fast, 5, padded, width)
            grade32, weight32, tier32 = (
                line(fast, 6, padded, width),
                line(fast, 7, padded, width),
                line(fast, 13, padded, width),
            )
            gradient32, hessian32 = line(fast, 9, padded, width), line(fast, 10, padded, width)
            score32, score_rest = line(fast, 11, padded, width), line(fast, 12, padded, width)
            for r in range(n + PADDING):
                gradient32[r] = zero
                hessian32[r] = zero
            scale = line(rows, 3, low, n)
            for block in range(row, stop_row, ROW_BLOCK):
                stop = block + ROW_BLOCK if block + ROW_BLOCK < stop_row else stop_row
                for i in range(block, stop, TWO):
                    # Documents i and k = i + 1 against all below i: k against itself has no size. A last one is alone.
                    k = i + ONE if i + ONE < stop else i
                    both = one if k > i else zero
                    e_i, e_k = load(e, i), load(e, k)
                    factor_i, factor_k = one, one
                    if scaled:
                        factor_i, factor_k = np.float32(scale[i]), np.float32(scale[k])
                    if weighted:
                        factor_i *= load(weight32, i)
                        factor_k *= load(weight32, k)
                    upper_i, upper_rest_i, upper_k, upper_rest_k = (
                        load(upper, i),
                        load(upper_rest, i),
                        load(upper, k),
                        load(upper_rest, k),
                    )
                    row_i = load(gain, i), upper_i, upper_rest_i, load(grade32, i), factor_i, load(tier32, i)
                    row_k = load(gain, k), upper_k, upper_rest_k, load(grade32, k), factor_k, load(tier32, k)
                    score_i, score_rest_i = load(score32, i), load(score_rest, i)
                    score_k, score_rest_k = load(score32, k), load(score_rest, k)
                    gradient_i = gradient_k = hessian_i = hessian_k = 0.0
                    column = i + ONE
                    while column < end:
                        length = COLUMN_BLOCK if column + COLUMN_BLOCK < end else end - column
                        sum_i = sum_k = bend_i = bend_k = force = zero
                        for j in range(column, column + ((length + LANES) & ~LANES)):
                            gain_j, lower_j, lower_rest_j = load(gain, j), load(lower, j), load(lower_rest, j)
                            row_j = gain_j, lower_j, lower_rest_j, load(grade32, j), load(weight32, j), load(tier32, j)
                            size_i, better_i = pair_size(shape, row_i, *row_j)
                            size_k, better_k = pair_size(shape, row_k, *row_j)
                            size_k *= both
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
                            curve_i *= abs(push_i)
                            curve_k *= abs(push_k)
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
                        total += force
                        column += length
                    gradient64[i] += gradient_i
                    gradient64[k] += gradient_k
                    hessian64[i] += hessian_i
                    hessian64[k] += hessian_k
                for r in range(n):
                    gradient64[r] += gradient32[r]
                    hessian64[r] += hessian32[r]
                    gradient32[r] = zero
                    hessian32[r] = zero
            unit = coefficient * norm[query] * sigma
            if summed:
                unit *= log_scale(2.0 * norm[query] * sigma * total)
            for r in range(n):
                to_gradient[np.uint64(documents[r])] += unit * gradient64[r]
                to_hessian[np.uint64(documents[r])] += unit * sigma * hessian64[r]

    return compile_kernel(kernel, fastmath=REDUCE)


@functools.cache
def graded_kernel(cost: Callable[..., tuple[float, float]], shape: PairShape) -> Callable[..., None]:
    """Whole lists by falling gain, in float32: each row against the lower gains, which begin where its own ends."""
    cost32 = inlinable(cost)
    symmetric, fine, scaled, weighted = shape.symmetric, shape.fine, shape.scaled, shape.weighted
    summed, distanced, ordered = shape.summed, shape.distanced, shape.ordered

    def kernel(
        sigma: float,
        near: float,
        coefficient: float,
        scores: Any,
        norm: Any,
        offsets: Any,
        first: int,
        last: int,
        first_row: int,
        last_row: int,
        marks: Any,
        rows: Any,
        places: Any,
        gradient: Any,
        hessian: Any,
        fast: Any,
        below: Any,
        gains: Any,
    ) -> None:
        zero, one = np.float32(0.0), np.float32(1.0)
        for query in range(first, last):
            if marks[1, query - first] != GRADED:
                continue
            start = offsets[query]
            n = offsets[query + 1] - start
            low = start - offsets[first]
            end = np.uint64(n)  # whole pairs of rows in each part
            row, stop_row = np.uint64(first_row) & ~ONE, end if last_row >= n else np.uint64(last_row) & ~ONE
            documents = line(places, 0, low, n)
            to_gradient, to_hessian = line(gradient, 0, low, n), line(hessian, 0, low, n)
            apart = nearness(near, scores, start, n) if distanced else 1.0
            unit = coefficient * norm[query] * sigma
            if summed:  # the factor comes last
                total = 0.0
                gradient64, hessian64 = line(rows, 4, low, n), line(rows, 5, low, n)
                for r in range(n):
                    gradient64[r] = 0.0
                    hessian64[r] = 0.0
            apart32 = np.float32(apart)
            padded, width = low + PADDING * (query - first), n + PADDING
            e, upper = line(fast, 0, padded, width), line(fast, 2, padded, width)
            gain, next_gain = line(gains, 0, start, width), line(below, 0, start, n)
            gradient32, hessian32 = line(fast, 9, padded, width), line(fast, 10, padded, width)
            if fine:
                upper_rest = line(fast, 3, padded, width)
            if not symmetric:
                lower = line(fast, 4, padded, width)
                if ordered:
                    rank, lower_rest = line(fast, 6, padded, width), line(fast, 5, padded, width)
            if scaled:
                scale = line(fast, 8, padded, width)
            if weighted:
                weight32 = line(fast, 7, padded, width)
            if distanced:
                score32, score_rest = line(fast, 11, padded, width), line(fast, 12, padded, width)
            for block in range(row, stop_row, ROW_BLOCK):
                for r in range(n + PADDING):
                    gradient32[r] = zero
                    hessian32[r] = zero
                stop = block + ROW_BLOCK
                for i in range(block, stop if stop < stop_row else stop_row, TWO):
                    k = i + ONE
                    column = np.uint64(load(next_gain, i))
                    if column >= end:  # the lowest gain: nobody below. If k has it, its pairs have no size
                        break
                    e_i, e_k = load(e, i), load(e, k)
                    gain_i, gain_k = load(gain, i), load(gain, k)
                    upper_i, upper_k = load(upper, i), load(upper, k)
                    if fine:
                        upper_rest_i, upper_rest_k = load(upper_rest, i), load(upper_rest, k)
                    if not symmetric:
                        lower_i, lower_k = load(lower, i), load(lower, k)
                        if ordered:
                            rank_i, rank_k = load(rank, i), load(rank, k)
                            lower_rest_i, lower_rest_k = load(lower_rest, i), load(lower_rest, k)
                    if scaled:
                        scale_i, scale_k = load(scale, i), load(scale, k)
                    if weighted:
                        weight_i, weight_k = load(weight32, i), load(weight32, k)
                    if distanced:
                        score_i, score_rest_i = load(score32, i), load(score_rest, i)
                        score_k, score_rest_k = load(score32, k), load(score_rest, k)
                    gradient_i = gradient_k = hessian_i = hessian_k = 0.0
                    while column < end:
                        length = COLUMN_BLOCK if column + COLUMN_BLOCK < end else end - column
                        sum_i = sum_k = bend_i = bend_k = force = zero
                        for j in range(column, column + ((length + LANES) & ~LANES)):
                            e_j, gain_j, upper_j = load(e, j), load(gain, j), load(upper, j)
                            size_i, size_k = gain_i - gain_j, gain_k - gain_j
                            if fine:
                                upper_rest_j = load(upper_rest, j)
                            if symmetric and fine:
                                size_i *= distance(upper_i, upper_rest_i, upper_j, upper_rest_j)
                                size_k *= distance(upper_k, upper_rest_k, upper_j, upper_rest_j)
                            elif symmetric:
                                size_i *= abs(upper_i - upper_j)
                                size_k *= abs(upper_k - upper_j)
                            elif not ordered:
                                lower_j = load(lower, j)
                                size_i *= max(upper_i - lower_j, upper_j - lower_i)
                                size_k *= max(upper_k - lower_j, upper_j - lower_k)
                            else:
                                lower_j, rank_j = load(lower, j), load(rank, j)
                                above_i, above_k = rank_i < rank_j, rank_k < rank_j
                                over_i, under_i = upper_i if above_i else upper_j, lower_j if above_i else lower_i
                                over_k, under_k = upper_k if above_k else upper_j, lower_j if above_k else lower_k
                                if fine:
                                    lower_rest_j = load(lower_rest, j)
                                    over_rest = upper_rest_i if above_i else upper_rest_j
                                    under_rest = lower_rest_j if above_i else lower_rest_i
                                    size_i *= distance(over_i, over_rest, under_i, under_rest)
                                    over_rest = upper_rest_k if above_k else upper_rest_j
                                    under_rest = lower_rest_j if above_k else lower_rest_k
                                    size_k *= distance(over_k, over_rest, under_k, under_rest)
                                else:
                                    size_i *= abs(over_i - under_i)
                                    size_k *= abs(over_k - under_k)
                                if scaled:
                                    scale_j = load(scale, j)
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
                            curve_i *= push_i
                            curve_k *= push_k
                            if summed:
                                force += push_i + push_k
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
                    gradient32[i] += np.float32(gradient_i)
                    gradient32[k] += np.float32(gradient_k)
                    hessian32[i] += np.float32(hessian_i)
                    hessian32[k] += np.float32(hessian_k)
                for r in range(n):
                    if summed:
                        gradient64[r] += gradient32[r]
                        hessian64[r] += hessian32[r]
                    else:
                        to_gradient[np.uint64(documents[r])] += unit * gradient32[r]
                        to_hessian[np.uint64(documents[r])] += unit * sigma * hessian32[r]
            if summed:
                unit *= log_scale(2.0 * norm[query] * sigma * total)
                for r in range(n):
                    to_gradient[np.uint64(documents[r])] += unit * gradient64[r]
                    to_hessian[np.uint64(documents[r])] += unit * sigma * hessian64[r]

    return compile_kernel(kernel, fastmath=REDUCE)


@functools.cache
def wide_kernel(cost: Callable[..., tuple[float, float]], shape: PairShape) -> Callable[..., None]:
    """Lists in rank order whose scores spread too far, pair by pair in float64."""
    cost64 = inlinable(cost)
    gained, scaled, weighted, tiered = shape.gained, shape.scaled, shape.weighted, shape.tiered
    summed, distanced = shape.summed, shape.distanced

    def kernel(
        sigma: float,
        near: float,
        coefficient: float,
        scores: Any,
        norm: Any,
        offsets: Any,
        first: int,
        last: int,
        first_row: int,
        last_row: int,
        marks: Any,
        rows: Any,
        places: Any,
        gradient: Any,
        hessian: Any,
        shift: float,
        grade: Any,
        weight: Any,
        tier: Any,
    ) -> None:
        for query in range(first, last):
            if marks[1, query - first] != WIDE:
                continue
            start = offsets[query]
            n = offsets[query + 1] - start
            low = start - offsets[first]
            end, cut = np.uint64(n), marks[0, query - first]
            row, stop_row = np.uint64(first_row), np.uint64(last_row if last_row < cut else cut)
            gradient64, hessian64 = line(rows, 4, low, n), line(rows, 5, low, n)
            for r in range(n):
                gradient64[r] = 0.0
                hessian64[r] = 0.0
            documents = line(places, 0, low, n)
            to_gradient, to_hessian = line(gradient, 0, low, n), line(hessian, 0, low, n)
            apart = nearness(near, scores, start, n) if distanced else 1.0
            total = 0.0  # of the forces, where they are summed
            values = rows[:, low : low + n]
            for i in range(row, stop_row):
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
                    total += push * size
                    push *= size if better else -size
                    bend *= size
                    gradient64[i] -= push
                    gradient64[j] += push
                    hessian64[i] += bend
                    hessian64[j] += bend
            unit = coefficient * norm[query] * sigma
            if summed:
                unit *= log_scale(2.0 * norm[query] * sigma * total)
            for r in range(n):
                to_gradient[np.uint64(documents[r])] += unit * gradient64[r]
                to_hessian[np.uint64(documents[r])] += unit * sigma * hessian64[r]

    return compile_kernel(kernel)
