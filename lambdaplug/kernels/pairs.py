"""Pairs of documents: what each weighs, and the forces of all.

The inner loop runs over the documents below two neighbours in a list. It sums up the two in scalars and updates the others
in place, reads everything else through ``load``, calls no exp, has no branch and one division for two pairs, so LLVM turns
it into packed instructions.

A list is in rank order, where only rows above the cut have pairs; or, if it is whole, by falling gain: each document's loop
then begins at the next lower gain, so that pairs of equal gain, often half of all, are left out and the upper one of a pair
is always the better.

|delta| is |gain_i - gain_j| * scale_i * |upper_i - lower_j|, in float32; or any function of two ranks, which is first asked,
in float64, for the pairs of four rows with a block of documents.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .jit import (
    REDUCE,
    add_both,
    borrowed,
    compile_kernel,
    inlinable,
    keep,
    line,
    lines,
    load,
    local_float32,
    located,
    per_function,
    reducible,
)
from .layout import *

ROWS, COLUMNS = np.uint64(ROW_BLOCK), np.uint64(COLUMN_BLOCK)
SIZES = COLUMN_BLOCK + 2 * PADDING  # what the pairs of a row with a block weigh, and padding; whole cache lines
FOUR_SIZES = 4 * SIZES
OF_1, OF_2, OF_3 = np.uint64(SIZES), np.uint64(2 * SIZES), np.uint64(3 * SIZES)  # where those of the other rows begin
SWEEP = 2 * PADDING  # float32 of a 512-bit register
SWEPT = np.uint64(SWEEP - 1)
# A rank so masked is not negative, and LLVM sees it: no choice whether to count from the end.
NATURAL = np.uint64(0x7FFFFFFF)


class PairShape(NamedTuple):
    """What a loop is specialised for; everything else is an argument and never recompiles."""

    gained: bool = True  # |delta| has the factor |gain_i - gain_j|
    plain: bool = False  # the gains alone tell which document is better, every document is in pairs, and no tiers
    symmetric: bool = False  # upper and lower are the same, so that it does not matter which document ranks higher
    greater: bool = False  # whichever ranks higher, the delta is the greater of its two forms
    fine: bool = True  # upper - lower is so much smaller than both that they are kept in two parts
    scaled: bool = False  # |delta| has a factor of the upper document
    weighed: bool = False  # weights, tiers of which both must be the same, and choices of which one must not be 0
    distanced: bool = False  # |delta| is divided by a constant plus the distance of the places
    shifted: bool = False  # the cost has a parameter
    summed: bool = False  # a query is scaled by log2(1 + S)/S, S its summed force
    spaced: bool = False  # |delta| has a summand by the distance of the two ranks: lower is the rank, scale the table
    given: bool = False  # |delta| is a function of two ranks
    signed: bool = False  # and its sign, not the grades, says which document belongs above


class PairDelta(NamedTuple):
    """What swapping the documents at two ranks i < j changes, as two functions that Numba can compile.

    ``begin(gain, table, upper, lower, scale)`` is called once per query and returns whatever ``delta`` wants to know;
    ``delta(gain, table, state, i, j)`` once per pair. Both get the gains in rank order and the measure's table, which cannot
    be written to.

    ``sweep(state, i, first, count, sizes)``, if there is one, is ``delta`` of four ranks from i on with ``count`` ranks from
    ``first`` on, into ``sizes`` (OF_1, OF_2, OF_3: where those of the second to fourth begin): a loop of its own, which
    becomes packed instructions. It is called with i = 0, 4, ..., and each time for all ranks after i; of a rank with
    itself or one above it, it may say anything. ``count`` is a multiple of SWEEP, so that ranks may lie beyond the list: what
    the state has of them must be there to be read.
    """

    begin: Callable[..., Any]
    delta: Callable[..., float]
    costly: bool = False  # worth a branch to leave out pairs that have no order
    signed: bool = False  # value after - value before, which says which document belongs above; not their grades
    sweep: Callable[..., None] | None = None


class Document(NamedTuple):
    """One document as a pair sees it, in the order of the rows of Tables.fast."""

    power: float  # exp of its score
    order: float  # its grade; by falling gain, its rank
    gain: float
    upper: float
    upper_rest: float  # what float32 leaves of it
    lower: float
    lower_rest: float
    scale: float
    weight: float
    tier: float
    chosen: float
    place: float  # the score that it is ordered by
    place_rest: float


@reducible
def document(parts: Any, at: Any) -> Any:
    power, order, gain, upper, upper_rest, lower, lower_rest, scale, weight, tier, chosen, place, place_rest = parts
    return Document(
        *(load(power, at), load(order, at), load(gain, at), load(upper, at), load(upper_rest, at), load(lower, at)),
        *(load(lower_rest, at), load(scale, at), load(weight, at), load(tier, at), load(chosen, at)),
        *(load(place, at), load(place_rest, at)),
    )


@inlinable
def distance(upper: float, upper_rest: float, lower: float, lower_rest: float) -> float:
    """|upper - lower| of two numbers held in two parts each; strict arithmetic, or the second parts are lost."""
    return abs((upper - lower) + (upper_rest - lower_rest))


@reducible
def moved(shape: Any, upper: float, upper_rest: float, lower: float, lower_rest: float) -> Any:
    """|upper - lower|."""
    return distance(upper, upper_rest, lower, lower_rest) if shape.fine else abs(upper - lower)


@reducible
def ranked_size(shape: Any, i: Any, j: Any, told: float) -> tuple[float, bool]:
    """The delta of an upper document and a lower one, positive where the upper is the better, and whether it is.

    ``told``: the summand by the distance of their ranks, or what a function says of the pair.
    """
    lower, lower_rest = (j.upper, j.upper_rest) if shape.symmetric else (j.lower, j.lower_rest)
    size = told if shape.given else moved(shape, i.upper, i.upper_rest, lower, lower_rest)
    if shape.spaced:
        size += told
    if shape.plain:
        better = i.gain > j.gain
        size *= i.gain - j.gain
    else:
        better, worse = i.order > j.order, i.order < j.order
        if shape.gained:
            size *= abs(i.gain - j.gain)
        size = -size if shape.signed or not better else size
        size = size if better or worse else np.float32(0.0)
        better = size > np.float32(0.0) if shape.signed else better
    if shape.scaled:
        size *= i.scale
    return size, better


@reducible
def falling_size(shape: Any, i: Any, j: Any) -> Any:
    """The delta of two documents of which i has the higher gain."""
    size, above = i.gain - j.gain, i.order < j.order
    if shape.symmetric:
        size *= moved(shape, i.upper, i.upper_rest, j.upper, j.upper_rest)
    elif shape.greater and not shape.fine:
        size *= max(i.upper - j.lower, j.upper - i.lower)
    else:
        over, over_rest = i.upper if above else j.upper, i.upper_rest if above else j.upper_rest
        under, under_rest = j.lower if above else i.lower, j.lower_rest if above else i.lower_rest
        size *= moved(shape, over, over_rest, under, under_rest)
    if shape.scaled:
        size *= i.scale if above else j.scale
    return size


@reducible
def weigh(shape: Any, size: float, one: Any, other: Any, apart: float) -> float:
    """What a pair weighs, as a function of its two documents."""
    if shape.weighed:
        size *= one.weight * other.weight
        size = size if one.tier == other.tier and one.chosen + other.chosen > np.float32(0.0) else np.float32(0.0)
    if shape.distanced:
        size /= apart + distance(one.place, one.place_rest, other.place, other.place_rest)
    return size


@inlinable
def nearness(near: float, place: Any) -> float:
    """What a pair's distance is added to. Where all places are equal nothing is divided."""
    for r in range(1, len(place)):
        if place[r] != place[0]:
            return near
    return 1.0


@inlinable
def log_scale(force: float) -> float:
    """log2(1 + S)/S."""
    return np.log2(1.0 + force) / force if force > 0.0 else 1.0


@inlinable
def ranked_parts(rows: Any, still: Any, low: int, n: int) -> Any:
    """What a pair's ``begin`` is given of a query: gains, table, upper, lower and scale."""
    gain, table = line(still[0], GAIN, low, n), borrowed(still[1])
    return gain, table, line(rows, UPPER, low, n), line(rows, LOWER, low, n), line(rows, SCALE, low, n)


def no_delta(gain: Any, table: Any, state: Any, i: int, j: int) -> float:
    return 0.0


def no_sweep(state: Any, i: Any, first: Any, count: Any, sizes: Any) -> None:
    """For a delta without one."""


def begin_nothing(gain: Any, table: Any, upper: Any, lower: Any, scale: Any) -> float:
    return 0.0


BY_ROWS = PairDelta(begin_nothing, no_delta)  # there is no function: the loop reads the rows itself


def sizes_of(pair: PairDelta) -> Callable[..., None]:
    """``told(parts, grade, row, column, count, cut, least, sizes)``: what the function says of the pairs of four rows.

    They are those of ranks row, row + 1, ... with ``count`` ranks from ``column`` on: 0 for a rank with itself or one above
    it. Below the cut, where a user's delta need not know an answer, all are ``least``.
    """
    delta, sweep = inlinable(pair.delta), reducible(pair.sweep or no_sweep)
    costly, signed, swept = pair.costly, pair.signed, pair.sweep is not None

    def told(parts: Any, grade: Any, row: Any, column: Any, count: Any, cut: Any, least: Any, sizes: Any) -> None:
        gain, table, state = parts
        if swept:
            sweep(state, row, column, (count + SWEPT) & ~SWEPT, sizes)
        for x in range(ZERO if swept else FOUR):
            i = row + x
            for u in range(i + ONE - column if column == row else ZERO, count):
                j, change = column + u, 0.0
                if i < cut and (not costly or load(grade, i) > load(grade, j) or load(grade, i) < load(grade, j)):
                    change = delta(gain, table, state, natural(i), natural(j))
                size = change if signed else abs(change)
                sizes[x * OF_1 + u] = least if size < least and not signed else size
        for x in range(FOUR if column == row else ZERO):
            for u in range(x + ONE):
                sizes[x * OF_1 + u] = np.float32(0.0)

    return reducible(told) if swept else inlinable(told)


@inlinable
def natural(rank: Any) -> Any:
    return np.int64(rank & NATURAL)


@per_function
def pairs_kernel(
    cost: Callable[..., tuple[float, float]], shape: PairShape, falling: bool, pair: PairDelta = BY_ROWS
) -> Callable[..., int]:
    """``kernel(pull, norm, lists, tables, levels, still, sums)``: the pairs of BY_GAIN (``falling``) or BY_RANK queries.

    The levels are for falling gains alone. Returns the first query of which a function of two ranks says what is not
    finite, or -1: all else is found in the end, in the host's precision.
    """
    cost32, begin, told = inlinable(cost), inlinable(pair.begin), sizes_of(pair)
    given, spaced, weighed, distanced = shape.given, shape.spaced, shape.weighed or shape.distanced, shape.distanced
    shifted, summed = shape.shifted, shape.summed
    kind, step = BY_GAIN if falling else BY_RANK, FOUR if given else TWO
    # By rows, upper and lower are read in float32 only: the sums take their rows, for one more would not fit the cache.
    gradient_row, hessian_row = (GRADIENT, HESSIAN) if given else (UPPER, LOWER)

    def kernel(pull: Any, norm: Any, lists: Any, tables: Any, levels: Any, still: Any, sums: Any) -> int:
        pull, lists, tables, sums = Pull(*pull), Lists(*lists), Tables(*tables), Sums(*sums)
        offsets, first, fast, rows = lists.offsets, lists.first, tables.fast, tables.rows
        sigma, shift32 = pull.sigma, np.float32(pull.shift)
        zero, one = np.float32(0.0), np.float32(1.0)
        documents, sizes, broken = lines(fast, DOCUMENT_ROWS), local_float32(FOUR_SIZES), -1
        for query in range(first, lists.last):
            if tables.marks[KIND, query - first] != kind:
                continue
            start, n, low = located(offsets, first, query)
            padded, width = low + PADDING * (query - first), n + PADDING
            base, end, cut = np.uint64(padded), np.uint64(n), n if falling else tables.marks[CUT, query - first]
            least = np.float32(pull.floor / norm[query])
            stop_row = end if given and least > zero else np.uint64(cut)
            order = line(tables.places, LISTED, low, n) if falling else line(lists.order, 0, start, n)
            to_gradient, to_hessian = line(sums.gradient, 0, low, n), line(sums.hessian, 0, low, n)
            next_gain, grade = line(levels[1], 0, start, n), line(fast, ORDER32, padded, width)
            gradient64, hessian64 = line(rows, gradient_row, low, n), line(rows, hessian_row, low, n)
            gradient32, hessian32 = line(fast, GRADIENT32, padded, width), line(fast, HESSIAN32, padded, width)
            for r in range(n):
                gradient64[r] = hessian64[r] = 0.0
            for r in range(width):
                gradient32[r] = hessian32[r] = zero
            total = 0.0  # of the forces, where they are summed
            apart = np.float32(nearness(pull.near, line(rows, PLACE, low, n)) if distanced else 1.0)
            if spaced:
                space, place, far = (
                    line(fast, SCALE32, padded, width),
                    line(fast, LOWER32, padded, width),
                    np.float32(cut),
                )
            if given:
                gains, table, upper, lower, scale = ranked_parts(rows, still, low, n)
                owned = begin(gains, table, upper, lower, scale)
                asked = gains, table, borrowed(owned)
            for block in range(ZERO, stop_row, ROWS):
                stop = min(block + ROWS, stop_row)
                for row in range(block, stop, step):
                    column = np.uint64(load(next_gain, row)) if falling else row if given else row + ONE
                    if column >= end:
                        break
                    while column < end:
                        length = min(COLUMNS, end - column)
                        if given:
                            told(asked, grade, row, column, length, cut, least, sizes)
                        for i in range(row, min(row + step, stop), TWO):
                            # Documents i and k = i + 1 against those below. In rank order k against itself has no size, and
                            # a last one is alone; by falling gain the lowest gain has no document below it, and no pair a size.
                            k = i + ONE if falling or i + ONE < stop else i
                            both = one if k > i else zero
                            document_i, document_k = document(documents, base + i), document(documents, base + k)
                            e_i, e_k = document_i.power, document_k.power
                            told_i = told_k = zero
                            if spaced:
                                far_i, far_k = load(space, np.uint64(cut) - i), load(space, np.uint64(cut) - k)
                            sum_i = sum_k = bend_i = bend_k = force = zero
                            for j in range(column, column + ((length + LANES) & ~LANES)):
                                document_j = document(documents, base + j)
                                if falling:
                                    size_i = falling_size(shape, document_i, document_j)
                                    size_k = falling_size(shape, document_k, document_j)
                                    better_i = better_k = True
                                else:
                                    if given:
                                        told_i, told_k = (
                                            sizes[(i - row) * OF_1 + j - column],
                                            sizes[(k - row) * OF_1 + j - column],
                                        )
                                    elif spaced:  # all ranks below the cut are one
                                        beneath = load(place, j) >= far
                                        near_i, near_k = load(space, j - i), load(space, j - k)
                                        told_i = far_i if beneath else near_i
                                        told_k = far_k if beneath else near_k
                                    size_i, better_i = ranked_size(shape, document_i, document_j, told_i)
                                    size_k, better_k = ranked_size(shape, document_k, document_j, told_k)
                                    size_k *= both
                                if weighed:
                                    size_i = weigh(shape, size_i, document_i, document_j, apart)
                                    size_k = weigh(shape, size_k, document_k, document_j, apart)
                                e_j = document_j.power
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
                                strength_i, strength_k = (push_i, push_k) if falling else (abs(push_i), abs(push_k))
                                curve_i *= strength_i
                                curve_k *= strength_k
                                if summed:
                                    force += strength_i + strength_k
                                sum_i -= push_i
                                sum_k -= push_k
                                bend_i += curve_i
                                bend_k += curve_k
                                add_both(gradient32, hessian32, j, push_i + push_k, curve_i + curve_k)
                            gradient64[i] += sum_i
                            gradient64[k] += sum_k
                            hessian64[i] += bend_i
                            hessian64[k] += bend_k
                            total += force
                        column += length
                for r in range(n):
                    gradient64[r] += gradient32[r]
                    hessian64[r] += hessian32[r]
                    gradient32[r] = hessian32[r] = zero
            unit = pull.coefficient * norm[query] * sigma
            if summed:
                unit *= log_scale(2.0 * norm[query] * sigma * total)
            if given:
                keep(owned)
            for r in range(n):
                if given and broken < 0 and not (np.isfinite(gradient64[r]) and np.isfinite(hessian64[r])):
                    broken = query
                to_gradient[np.uint64(order[r])] += unit * gradient64[r]
                to_hessian[np.uint64(order[r])] += unit * sigma * hessian64[r]
        return broken

    return compile_kernel(kernel, fastmath=REDUCE)


# --- exact
# Pairs one by one in float64, for any form of delta: queries whose scores spread too far for float32, pairs within a
# window, pairs whose weight depends on which document is better, and the reference for the fast loop.


@per_function
def exact_kernel(pair: PairDelta, cost: Callable[..., tuple[float, float]]) -> Callable[..., int]:
    """``kernel(pull, norm, documents, lists, window, (tables, still), into, bias)``: WIDE pairs up to ``window`` ranks apart.

    ``into`` has the sums, and counts, one per query or empty, which receive how many pairs weigh anything. With a ``bias``
    every pair is multiplied by above and below, and its cost log(1 + exp(-margin)), whatever the pair weighs, is added to
    plus and minus. Returns the first query with a result that is not finite, or -1.
    """
    begin, delta, cost64, signed = inlinable(pair.begin), inlinable(pair.delta), inlinable(cost), pair.signed

    def kernel(
        pull: Any, norm: Any, documents: Any, lists: Any, window: int, scratch: Any, into: Any, bias: Any
    ) -> int:
        pull, lists, factors, (tables, still) = Pull(*pull), Lists(*lists), PairBias(*bias), scratch
        tables = Tables(*tables)
        documents, (gradient, hessian, counts) = Documents(*borrowed(documents)), into
        offsets, first, rows, weight = lists.offsets, lists.first, tables.rows, documents.weight
        biased, broken = factors.above.size > 0, -1
        for query in range(first, lists.last):
            if tables.marks[KIND, query - first] != WIDE:
                continue
            start, n, low = located(offsets, first, query)
            cut, least = tables.marks[CUT, query - first], pull.floor / norm[query]
            gradient64, hessian64 = line(rows, GRADIENT, low, n), line(rows, HESSIAN, low, n)
            place, order = line(rows, PLACE, low, n), line(lists.order, 0, start, n)
            for r in range(n):
                gradient64[r] = hessian64[r] = 0.0
                place[r] = documents.placed[start + order[r]]
            gains, table, upper, lower, scale = ranked_parts(rows, still, low, n)
            state = begin(gains, table, upper, lower, scale)
            apart = nearness(pull.near, place)
            count, total = 0, 0.0  # of the forces, where they are summed
            worth = pull.coefficient * (factors.weight[query] if factors.weight.size > 0 else 1.0)
            for i in range(n - 1 if least > 0.0 or biased else cut):  # the costs are those of all pairs
                for j in range(i + 1, min(n, i + 1 + window)):
                    one, other = start + order[i], start + order[j]
                    if not paired(documents, one, other):
                        continue
                    change = delta(gains, table, state, i, j) if i < cut else 0.0
                    better = change < 0.0 if signed else documents.grade[one] > documents.grade[other]
                    up, down = (one, other) if better else (other, one)
                    margin = pull.sigma * (documents.scores[up] - documents.scores[down])
                    first_weight, second_weight = (weight[one], weight[other]) if weight.size > 0 else (1.0, 1.0)
                    if biased:
                        loss = worth * first_weight * second_weight
                        loss *= np.log1p(np.exp(-abs(margin))) + max(-margin, 0.0)
                        factors.plus[up] += loss * factors.below[down]
                        factors.minus[down] += loss * factors.above[up]
                    size = least if abs(change) < least else abs(change)
                    if size == 0.0:
                        continue
                    count += 1
                    size *= first_weight * second_weight
                    if pull.near > 0.0:
                        size /= apart + abs(place[i] - place[j])
                    push, bend = cost64(margin, pull.shift)
                    total += push * size
                    if biased:  # after the sum, which would divide the factors out again
                        size *= factors.above[up] * factors.below[down]
                    gradient64[up - start] -= push * size
                    gradient64[down - start] += push * size
                    hessian64[up - start] += bend * size
                    hessian64[down - start] += bend * size
            if counts.size > 0:
                counts[query] = count
            unit = pull.coefficient * norm[query] * pull.sigma
            unit *= log_scale(2.0 * norm[query] * pull.sigma * total) if pull.summed else 1.0
            for r in range(n):
                if broken < 0 and not (np.isfinite(gradient64[r]) and np.isfinite(hessian64[r])):
                    broken = query
                gradient[low + r] += unit * gradient64[r]
                hessian[low + r] += unit * pull.sigma * hessian64[r]
        return broken

    return compile_kernel(kernel)


@inlinable
def paired(documents: Any, one: int, other: int) -> bool:
    """Whether two rows have an order, the same tier, and a chosen one among them."""
    grade, tier, chosen = documents.grade, documents.tier, documents.chosen
    ordered = grade[one] > grade[other] or grade[one] < grade[other]
    alike = tier.size == 0 or tier[one] == tier[other]
    return bool(ordered and alike and (chosen.size == 0 or chosen[one] + chosen[other] > 0.0))


# --- given
# Pairs that are given one by one, as better and worse rows: what each weighs, and its force. In float64.


class Given(NamedTuple):
    """Pairs of rows, by query: those of query q are ``begin[q]:begin[q + 1]``."""

    better: Any
    worse: Any
    begin: Any


@per_function
def given_delta_kernel(pair: PairDelta) -> Callable[..., None]:
    """``kernel(given, weight, (grade, norm), lists, tables, ranks, sizes)``: weight times delta of each pair.

    ``tables`` are the rows that a measure's ``swap`` has filled, the same with the measure's table, and the marks; ``ranks`` is
    scratch, as long as the longest query.
    """
    begin, delta = inlinable(pair.begin), inlinable(pair.delta)

    def kernel(given: Any, weight: Any, prepared: Any, lists: Any, tables: Any, ranks: Any, sizes: Any) -> None:
        given, lists, (rows, still, marks), (grade, norm) = Given(*given), Lists(*lists), tables, prepared
        for query in range(lists.first, lists.last):
            low, high, cut = given.begin[query], given.begin[query + 1], marks[CUT, query - lists.first]
            for p in range(low, high):
                sizes[p] = 0.0
            if low == high or cut <= 0:
                continue
            start, n, here = located(lists.offsets, lists.first, query)
            for r in range(n):
                ranks[lists.order[start + r]] = r
            gains, table, upper, lower, scale = ranked_parts(rows, still, here, n)
            state = begin(gains, table, upper, lower, scale)
            for p in range(low, high):
                one, other = given.better[p], given.worse[p]
                i, j = ranks[one - start], ranks[other - start]
                if min(i, j) < cut and (grade[one] > grade[other] or grade[one] < grade[other]):
                    sizes[p] = weight[p] * norm[query] * delta(gains, table, state, min(i, j), max(i, j))

    return compile_kernel(kernel)


@per_function
def given_force_kernel(cost: Callable[..., tuple[float, float]]) -> Callable[..., None]:
    """``kernel(given, sizes, scores, weight, numbers, span, sums)``: the forces of pairs that weigh so much.

    ``weight``: one per row, or empty. ``numbers``: sigma, the cost's parameter, and the coefficient of everything.
    ``span``: the first query, the last, and the row that is at index 0 of the sums.
    """
    cost64 = inlinable(cost)

    def kernel(given: Any, sizes: Any, scores: Any, weight: Any, numbers: Any, span: Any, sums: Any) -> None:
        given, (sigma, shift, coefficient), (first, last, base), (gradient, hessian) = (
            Given(*given),
            numbers,
            span,
            sums,
        )
        for p in range(given.begin[first], given.begin[last]):
            size = coefficient * sigma * abs(sizes[p])
            if size == 0.0:
                continue
            i, j = given.better[p], given.worse[p]
            if weight.size > 0:
                size *= weight[i] * weight[j]
            push, bend = cost64(sigma * (scores[i] - scores[j]), shift)
            gradient[i - base] -= size * push
            gradient[j - base] += size * push
            hessian[i - base] += size * sigma * bend
            hessian[j - base] += size * sigma * bend

    return compile_kernel(kernel)
