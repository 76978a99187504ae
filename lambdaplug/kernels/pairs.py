"""What a pair of documents weighs besides its delta, in one place for all pair loops."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .jit import (
    REDUCE,
    borrowed,
    compile_kernel,
    copied,
    inlinable,
    keep,
    line,
    load,
    local_float32,
    located,
    per_function,
    reducible,
)
from .layout import *


class PairShape(NamedTuple):
    """What a loop by rows is specialised for; everything else is an argument and never recompiles."""

    gained: bool = True  # |delta| has the factor |gain_i - gain_j|
    plain: bool = False  # the gains alone tell which document is better, every document is in pairs, and no tiers
    symmetric: bool = False  # upper and lower are the same, so that it does not matter which document ranks higher
    greater: bool = False  # whichever ranks higher, the delta is the greater of its two forms
    fine: bool = True  # upper - lower is so much smaller than both that they are kept in two parts
    scaled: bool = False  # |delta| has a factor of the upper document
    weighted: bool = False  # documents carry weights
    tiered: bool = False  # only pairs of the same tier
    distanced: bool = False  # |delta| is divided by a constant plus the distance of the places
    shifted: bool = False  # the cost has a parameter
    summed: bool = False  # a query is scaled by log2(1 + S)/S, S its summed force
    spaced: bool = False  # |delta| has a summand by the distance of the two ranks: lower is the rank, scale the table
    capped: bool = False  # and there is a cut, below which all ranks are one
    chosen: bool = False  # only pairs with a chosen document

    @property
    def ordered(self) -> bool:
        """Whether a list by falling gain has to know its documents' ranks."""
        return not self.symmetric and (self.fine or not self.greater)


class Pair(NamedTuple):
    """Which weights there are; a PairShape says it too."""

    weighted: bool
    tiered: bool
    distanced: bool
    chosen: bool


class Weighed(NamedTuple):
    """One document as a pair's weight sees it."""

    weight: float
    tier: float
    place: float  # the score that it is ordered by
    place_rest: float  # what float32 leaves of it
    chosen: float  # not 0: its pairs count


@inlinable
def distance(upper: float, upper_rest: float, lower: float, lower_rest: float) -> float:
    """|upper - lower| of two numbers held in two parts each; strict arithmetic, or the second parts are lost."""
    return abs((upper - lower) + (upper_rest - lower_rest))


@reducible
def weigh(pair: Any, size: float, better: bool, one: Any, other: Any, apart: float) -> float:
    """The weight of a pair: a function of its two documents. ``better``: the one is the better of the two.

    Here no weight asks which is better. The one that does, a click's propensity, is for exact.py's loop alone.
    """
    if pair.weighted:
        size *= one.weight * other.weight
    if pair.tiered:
        size = size if one.tier == other.tier else np.float32(0.0)
    if pair.chosen:
        size = size if one.chosen + other.chosen > np.float32(0.0) else np.float32(0.0)
    if pair.distanced:
        size /= apart + distance(one.place, one.place_rest, other.place, other.place_rest)
    return size


weigh_exactly = inlinable(copied(weigh))  # the same for float64: nothing reordered


@inlinable
def nearness(near: float, place: Any, n: int) -> float:
    """What a pair's distance is added to. Where all places are equal nothing is divided."""
    for r in range(1, n):
        if place[r] != place[0]:
            return near
    return 1.0


@inlinable
def log_scale(force: float) -> float:
    """log2(1 + S)/S."""
    return np.log2(1.0 + force) / force if force > 0.0 else 1.0


# --- pairs
# Pairs by rows: measures whose delta is |gain_i - gain_j| * scale_i * |upper_i - lower_j|, in float32.
#
# The inner loop runs over all documents below two neighbours in a list. It sums up the two in scalars and updates the others
# in place, reads everything else through ``load``, calls no exp, has no branch and one division for two pairs, so LLVM turns
# it into packed instructions.
#
# A list is in rank order, where only rows above the cut have pairs; or, if it is whole, by falling gain: each document's loop
# then begins at the next lower gain, so that pairs of equal gain, often half of all, are left out and the upper one of a pair
# is always the better.


ROWS, COLUMNS = np.uint64(ROW_BLOCK), np.uint64(COLUMN_BLOCK)


class Document(NamedTuple):
    """One document as a pair's delta sees it; upper and lower in two parts each."""

    gain: float
    upper: float
    upper_rest: float
    lower: float
    lower_rest: float
    order: float  # its grade; by falling gain, its rank
    scale: float


@reducible
def document(parts: Any, i: Any, scale: Any) -> Any:
    """The document at i, of its parts by list."""
    gain, upper, upper_rest, lower, lower_rest, order = parts
    first, second, third = load(gain, i), load(upper, i), load(upper_rest, i)
    return Document(first, second, third, load(lower, i), load(lower_rest, i), load(order, i), scale)


@reducible
def weighed_document(weights: Any, i: Any) -> Any:
    weight, tier, place, rest, chosen = weights
    return Weighed(load(weight, i), load(tier, i), load(place, i), load(rest, i), load(chosen, i))


@reducible
def ranked_size(shape: Any, i: Any, j: Any, bonus: float) -> tuple[float, bool]:
    """The delta of an upper document and a lower one, positive where the upper is the better, and whether it is.

    ``bonus`` is the summand by the distance of their ranks.
    """
    size = distance(i.upper, i.upper_rest, j.lower, j.lower_rest) if shape.fine else abs(i.upper - j.lower)
    if shape.spaced:
        size += bonus
    if shape.plain:
        better = i.gain > j.gain
        size *= i.gain - j.gain
    else:
        better = i.order > j.order
        if shape.gained:
            size *= abs(i.gain - j.gain)
        size = size if better else -size
        size = size if better or i.order < j.order else np.float32(0.0)
    if shape.scaled:
        size *= i.scale
    return size, better


@reducible
def falling_size(shape: Any, i: Any, j: Any) -> Any:
    """The delta of two documents of which i has the higher gain."""
    size = i.gain - j.gain
    if shape.symmetric and shape.fine:
        size *= distance(i.upper, i.upper_rest, j.upper, j.upper_rest)
    elif shape.symmetric:
        size *= abs(i.upper - j.upper)
    elif shape.greater and not shape.fine:
        size *= max(i.upper - j.lower, j.upper - i.lower)
    else:
        above = i.order < j.order
        over, under = i.upper if above else j.upper, j.lower if above else i.lower
        if shape.fine:
            over_rest, under_rest = i.upper_rest if above else j.upper_rest, j.lower_rest if above else i.lower_rest
            size *= distance(over, over_rest, under, under_rest)
        else:
            size *= abs(over - under)
        if shape.scaled:
            size *= i.scale if above else j.scale
    return size


@functools.cache
def pairs_kernel(cost: Callable[..., tuple[float, float]], shape: PairShape, falling: bool) -> Callable[..., int]:
    """``kernel(pull, norm, lists, tables, levels, frozen, sums)``: the pairs of BY_GAIN (``falling``) or BY_RANK queries.

    The levels are for falling gains alone. Returns -1: what is not finite is found in the end, in the host's precision.
    """
    cost32 = inlinable(cost)
    symmetric, scaled, shifted, summed = shape.symmetric, shape.scaled, shape.shifted, shape.summed
    distanced, spaced, capped = shape.distanced, shape.spaced, shape.capped
    weighed = shape.weighted or shape.tiered or distanced or shape.chosen
    kind = BY_GAIN if falling else BY_RANK

    def kernel(pull: Any, norm: Any, lists: Any, tables: Any, levels: Any, frozen: Any, sums: Any) -> int:
        _, below, gains = levels
        pull, lists, tables, sums = Pull(*pull), Lists(*lists), Tables(*tables), Sums(*sums)
        offsets, first, fast, rows = lists.offsets, lists.first, tables.fast, tables.rows
        sigma, shift32 = pull.sigma, np.float32(pull.shift)
        zero, one = np.float32(0.0), np.float32(1.0)
        for query in range(first, lists.last):
            if tables.marks[KIND, query - first] != kind:
                continue
            start, n, low = located(offsets, first, query)
            end, cut = np.uint64(n), n if falling else tables.marks[CUT, query - first]
            stop_row = np.uint64(cut)
            gradient64, hessian64 = line(rows, GRADIENT_BY_ROWS, low, n), line(rows, HESSIAN_BY_ROWS, low, n)
            for r in range(len(gradient64)):
                gradient64[r] = 0.0
                hessian64[r] = 0.0
            documents = line(tables.places, DOCUMENT, low, n) if falling else line(lists.order, 0, start, n)
            to_gradient, to_hessian = line(sums.gradient, 0, low, n), line(sums.hessian, 0, low, n)
            total = 0.0  # of the forces, where they are summed
            padded, width = low + PADDING * (query - first), n + PADDING
            e, order32 = line(fast, EXP, padded, width), line(fast, GRADE32, padded, width)
            gain = line(gains, 0, start, width) if falling else line(fast, GAIN32, padded, width)
            next_gain = line(below, 0, start, n)
            upper, upper_rest = line(fast, UPPER32, padded, width), line(fast, UPPER_REST, padded, width)
            lower, lower_rest = upper, upper_rest
            if not symmetric:
                lower, lower_rest = line(fast, LOWER32, padded, width), line(fast, LOWER_REST, padded, width)
            parts = gain, upper, upper_rest, lower, lower_rest, order32
            gradient32, hessian32 = line(fast, GRADIENT32, padded, width), line(fast, HESSIAN32, padded, width)
            scale, scale32 = line(rows, SCALE, low, n), line(fast, SCALE32, padded, width)
            if weighed:
                weight32, tier32 = line(fast, WEIGHT32, padded, width), line(fast, TIER32, padded, width)
                place32, place_rest = line(fast, PLACE32, padded, width), line(fast, PLACE_REST, padded, width)
                weights = weight32, tier32, place32, place_rest, line(fast, CHOSEN32, padded, width)
                apart32 = np.float32(nearness(pull.near, line(rows, PLACE, low, n), n) if distanced else 1.0)
            for r in range(len(gradient32)):
                gradient32[r] = 0.0
                hessian32[r] = 0.0
            if spaced:
                space, place = line(fast, SPACE32, padded, width), line(fast, LOWER32, padded, width)
                far = np.float32(cut)
            for block in range(np.uint64(0), stop_row, ROWS):
                stop = block + ROWS if block + ROWS < stop_row else stop_row
                for i in range(block, stop, TWO):
                    # Documents i and k = i + 1 against those below. In rank order k against itself has no size, and a
                    # last one is alone; by falling gain the lowest gain has no document below it, and no pair a size.
                    column, k, both = i + ONE, i + ONE, one
                    if falling:
                        column = np.uint64(load(next_gain, i))
                        if column >= end:
                            break
                    else:
                        k = i + ONE if i + ONE < stop else i
                        both = one if k > i else zero
                    e_i, e_k = load(e, i), load(e, k)
                    scale_i, scale_k = one, one
                    if scaled and falling:
                        scale_i, scale_k = load(scale32, i), load(scale32, k)
                    elif scaled:
                        scale_i, scale_k = np.float32(scale[i]), np.float32(scale[k])
                    if spaced and capped:
                        far_i, far_k = load(space, np.uint64(cut) - i), load(space, np.uint64(cut) - k)
                    bonus_i = bonus_k = zero
                    document_i = document(parts, i, scale_i)
                    document_k = document(parts, k, scale_k)
                    if weighed:
                        mine_i = weighed_document(weights, i)
                        mine_k = weighed_document(weights, k)
                    gradient_i = gradient_k = hessian_i = hessian_k = 0.0
                    while column < end:
                        length = COLUMNS if column + COLUMNS < end else end - column
                        sum_i = sum_k = bend_i = bend_k = force = zero
                        for j in range(column, column + ((length + LANES) & ~LANES)):
                            scale_j = load(scale32, j) if scaled and falling else one
                            document_j = document(parts, j, scale_j)
                            if falling:
                                size_i = falling_size(shape, document_i, document_j)
                                size_k = falling_size(shape, document_k, document_j)
                                better_i = better_k = True
                            else:
                                if spaced:
                                    bonus_i, bonus_k = load(space, j - i), load(space, j - k)
                                if spaced and capped:  # all ranks below the cut are one
                                    beneath = load(place, j) >= far
                                    bonus_i, bonus_k = far_i if beneath else bonus_i, far_k if beneath else bonus_k
                                size_i, better_i = ranked_size(shape, document_i, document_j, bonus_i)
                                size_k, better_k = ranked_size(shape, document_k, document_j, bonus_k)
                                size_k *= both
                            if weighed:
                                theirs = weighed_document(weights, j)
                                size_i = weigh(shape, size_i, better_i, mine_i, theirs, apart32)
                                size_k = weigh(shape, size_k, better_k, mine_k, theirs, apart32)
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
                            curve_i *= push_i if falling else abs(push_i)
                            curve_k *= push_k if falling else abs(push_k)
                            if summed:
                                force += (push_i + push_k) if falling else (abs(push_i) + abs(push_k))
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
                    hessian64[i] += hessian_i
                    if k < end:
                        gradient64[k] += gradient_k
                        hessian64[k] += hessian_k
                for r in range(n):
                    gradient64[r] += gradient32[r]
                    hessian64[r] += hessian32[r]
                    gradient32[r] = zero
                    hessian32[r] = zero
            unit = pull.coefficient * norm[query] * sigma
            if summed:
                unit *= log_scale(2.0 * norm[query] * sigma * total)
            for r in range(n):
                to_gradient[np.uint64(documents[r])] += unit * gradient64[r]
                to_hessian[np.uint64(documents[r])] += unit * sigma * hessian64[r]
        return -1

    return compile_kernel(kernel, fastmath=REDUCE)


# --- by_delta
# Pairs by delta: the loop for any form of delta, as a function of two ranks, and for a floor under it.
#
# It works by rows, four at a time: first what their pairs with the documents above or below them weigh, in float64, then
# the forces, in float32, so that the second loop becomes packed instructions whatever the delta is.


SIZES = COLUMN_BLOCK + 2 * PADDING  # what the pairs of a row with a block weigh, and padding; whole cache lines
FOUR_SIZES = 4 * SIZES
OF_1, OF_2, OF_3 = np.uint64(SIZES), np.uint64(2 * SIZES), np.uint64(3 * SIZES)  # where those of the other rows begin
SWEEP = 2 * PADDING  # float32 of a 512-bit register
SWEPT = np.uint64(SWEEP - 1)
# A rank so masked is not negative, and LLVM sees it: no choice whether to count from the end.
NATURAL = np.uint64(0x7FFFFFFF)


class PairDelta(NamedTuple):
    """What swapping the documents at two ranks i < j changes, as two functions that Numba can compile.

    ``begin(ranked, frozen, upper, lower, scale)`` is called once per query and returns whatever ``delta`` wants to know;
    ``delta(ranked, frozen, state, i, j)`` once per pair. Both get the gains in rank order twice: as a scratch array,
    and as one that cannot be written to; ``tabled``: the second with the measure's table, as a tuple of two.

    ``sweep(state, i, first, count, sizes)``, if there is one, is ``delta`` of four ranks from i on with ``count`` ranks from
    ``first`` on, into ``sizes`` (OF_1, OF_2, OF_3: where those of the second to fourth begin): a loop of its own, which
    becomes packed instructions. It is called with i = 0, 4, ..., and each time for all ranks from i on; of a rank with
    itself or one above it, it may say anything. ``count`` is a multiple of SWEEP, so that ranks may lie beyond the list: what
    the state has of them must be there to be read.
    """

    begin: Callable[..., Any]
    delta: Callable[..., float]
    costly: bool = False  # worth a branch to leave out pairs that have no order
    whole: bool = False  # there is no cut
    signed: bool = False  # value after - value before, which says which document belongs above; not their grades
    tabled: bool = False
    sweep: Callable[..., None] | None = None


@inlinable
def natural(rank: Any) -> Any:
    return np.int64(rank & NATURAL)


@inlinable
def swap_parts(rows: Any, low: int, n: int) -> tuple[Any, Any, Any]:
    return line(rows, UPPER, low, n), line(rows, LOWER, low, n), line(rows, SCALE, low, n)


@inlinable
def frozen_gains(frozen: Any, low: int, n: int) -> Any:
    return line(frozen[0], GAIN, low, n)


@inlinable
def frozen_and_table(frozen: Any, low: int, n: int) -> Any:
    rows, table = frozen
    return line(rows, GAIN, low, n), borrowed(table)


def frozen_view(pair: PairDelta) -> Callable[..., Any]:
    """What of the argument ``frozen`` of a kernel its pair's functions get, as a function of it and the query's place."""
    return frozen_and_table if pair.tabled else frozen_gains


def no_sweep(state: Any, i: Any, first: Any, count: Any, sizes: Any) -> None:
    """For a delta without one."""


@reducible
def kept(signed: bool, change: float) -> float:
    return change if signed else abs(change)


@reducible
def aimed(better: bool, raised: float, e: float, raised_j: float, e_j: float) -> tuple[float, float, float]:
    """A row's document and another as a cost with a parameter wants them: the better, the worse, and the inverse of their sum."""
    high, low = raised if better else raised_j, e_j if better else e
    return high, low, np.float32(1.0) / (high + low)


@reducible
def pair_force(better: bool, size: float, forth: tuple[float, float], back: tuple[float, float]) -> tuple[float, float]:
    """Force and hessian of a pair: ``forth`` is its cost if the row's document is the better one, ``back`` if the other is."""
    force = forth[0] if better else -back[0]
    bend = forth[0] * forth[1] if better else back[0] * back[1]
    return size * force, size * bend


@per_function
def by_delta_kernel(
    pair: PairDelta, cost: Callable[..., tuple[float, float]], shifted: bool, summed: bool, plain: bool, long: bool
) -> Callable[..., int]:
    """``kernel(pull, norm, lists, tables, levels, frozen, sums)``: all pairs of BY_RANK queries, forces in float32.

    Four rows at a time: of a whole list, each with the documents above it, so that every loop begins where the list does;
    otherwise, and in a sweep, the rows above the cut, each with the documents below it. ``shifted``: the cost has a parameter; ``plain``:
    without weights, tiers, distances, choices and a floor; ``long``: a list may be longer than a block of columns. Returns the first query with a result that is not finite, or -1.
    """
    begin = inlinable(pair.begin)
    delta = inlinable(pair.delta)
    costly, signed, tabled, swept = pair.costly, pair.signed, pair.tabled, pair.sweep is not None
    whole = pair.whole and not swept
    sweep = reducible(pair.sweep or no_sweep)
    cost32 = inlinable(cost)

    def kernel(pull: Any, norm: Any, lists: Any, tables: Any, levels: Any, frozen: Any, sums: Any) -> int:
        pull, lists, tables, sums = Pull(*pull), Lists(*lists), Tables(*tables), Sums(*sums)
        offsets, first, fast, rows = lists.offsets, lists.first, tables.fast, tables.rows
        sigma, near, shift32 = pull.sigma, pull.near, np.float32(pull.shift)
        sizes = local_float32(FOUR_SIZES)
        zero, one = np.float32(0.0), np.float32(1.0)
        for query in range(first, lists.last):
            if tables.marks[KIND, query - first] != BY_RANK:
                continue
            start, n, low = located(offsets, first, query)
            padded, width = low + PADDING * (query - first), n + PADDING
            cut = n if whole else tables.marks[CUT, query - first]
            least = np.float32(pull.floor / norm[query])
            end = n if least > zero else cut
            ranked = line(rows, GAIN, low, n)
            if tabled:  # not in a function: what it returned would be reference-counted inside the loops
                still = frozen_and_table(frozen, low, n)
            else:
                still = line(frozen[0], GAIN, low, n)
            place, grade = line(rows, PLACE, low, n), line(rows, GRADE, low, n)
            weight, tier, chosen = (line(rows, WEIGHT, low, n), line(rows, TIER, low, n), line(rows, CHOSEN, low, n))
            powers, grade32 = line(fast, EXP, padded, width), line(fast, GRADE32, padded, width)
            gradient32, hessian32 = line(fast, GRADIENT32, padded, width), line(fast, HESSIAN32, padded, width)
            documents = line(lists.order, 0, start, n)
            to_gradient, to_hessian = line(sums.gradient, 0, low, n), line(sums.hessian, 0, low, n)
            unit = pull.coefficient * norm[query] * sigma
            if summed:  # the factor comes last
                total = 0.0
                gradient64, hessian64 = line(rows, GRADIENT, low, n), line(rows, HESSIAN, low, n)
                for r in range(n):
                    gradient64[r] = 0.0
                    hessian64[r] = 0.0
            apart = nearness(near, place, n)
            upper, lower, scale = (line(rows, UPPER, low, n), line(rows, LOWER, low, n), line(rows, SCALE, low, n))
            owned = begin(ranked, still, upper, lower, scale)
            state = borrowed(owned)
            how = Pair(True, True, near > 0.0, True)
            for block in range(0, end, ROW_BLOCK):
                for r in range(width):
                    gradient32[r] = zero
                    hessian32[r] = zero
                for row in range(block, min(block + ROW_BLOCK, end), 4):
                    # Nothing is asked below the cut, where a user's delta need not know an answer.
                    known, beyond = cut - row, min(row + 4, n)
                    row_1, row_2, row_3 = row, row, row
                    grade_0, grade_1, grade_2, grade_3 = grade[row], np.nan, np.nan, np.nan
                    if known > 1:
                        row_1, grade_1 = row + 1, grade[row + 1]
                    if known > 2:
                        row_2, grade_2 = row + 2, grade[row + 2]
                    if known > 3:
                        row_3, grade_3 = row + 3, grade[row + 3]
                    here = np.uint64(row)
                    e_0, e_1 = load(powers, here), load(powers, here + ONE)
                    e_2, e_3 = load(powers, here + TWO), load(powers, here + THREE)
                    raised_0, raised_1, raised_2, raised_3 = shift32 * e_0, shift32 * e_1, shift32 * e_2, shift32 * e_3
                    own_0, own_1 = load(grade32, here), load(grade32, here + ONE)
                    own_2, own_3 = load(grade32, here + TWO), load(grade32, here + THREE)
                    head, edge = (0, beyond) if whole else (row, n)
                    for column in range(head, edge if long else head + 1, COLUMN_BLOCK):
                        stop = min(column + COLUMN_BLOCK, edge)
                        origin, length = np.uint64(column), np.uint64(stop - column)
                        since, until = (column, min(stop, row)) if whole else (max(column, beyond), stop)
                        if swept:
                            sweep(state, here, origin, (length + SWEPT) & ~SWEPT, sizes)
                            if column == row:  # a row and those before it
                                sizes[OF_1] = sizes[OF_2] = sizes[OF_3] = zero
                                sizes[OF_2 + ONE] = sizes[OF_3 + ONE] = sizes[OF_3 + TWO] = zero
                        else:
                            if column <= row < stop:  # each of the four and itself, and what fills the last register
                                for u in range(PADDING):
                                    to = np.uint64(row - column + u)
                                    sizes[to] = zero
                                    sizes[OF_1 + to] = zero
                                    sizes[OF_2 + to] = zero
                                    sizes[OF_3 + to] = zero
                            for u in range(np.uint64(since - column), np.uint64(until - column if known > 0 else 0)):
                                j = natural(origin + u)
                                change_0 = change_1 = change_2 = change_3 = 0.0
                                if not costly or grade_0 > grade[j] or grade_0 < grade[j]:
                                    change_0 = delta(ranked, still, state, j if whole else row, row if whole else j)
                                if not costly or grade_1 > grade[j] or grade_1 < grade[j]:
                                    change_1 = delta(ranked, still, state, j if whole else row_1, row_1 if whole else j)
                                if not costly or grade_2 > grade[j] or grade_2 < grade[j]:
                                    change_2 = delta(ranked, still, state, j if whole else row_2, row_2 if whole else j)
                                if not costly or grade_3 > grade[j] or grade_3 < grade[j]:
                                    change_3 = delta(ranked, still, state, j if whole else row_3, row_3 if whole else j)
                                sizes[u] = kept(signed, change_0)
                                sizes[OF_1 + u] = kept(signed, change_1)
                                sizes[OF_2 + u] = kept(signed, change_2)
                                sizes[OF_3 + u] = kept(signed, change_3)
                            if column <= row < stop:  # the four among themselves; as a loop, a tenth of the whole time
                                own, inside = np.uint64(row - column), beyond - row
                                if inside > 1 and known > 0:
                                    size_01 = kept(signed, delta(ranked, still, state, row, row + 1))
                                    sizes[OF_1 + own if whole else own + ONE] = size_01
                                if inside > 2 and known > 0:
                                    size_02 = kept(signed, delta(ranked, still, state, row, row + 2))
                                    sizes[OF_2 + own if whole else own + TWO] = size_02
                                if inside > 2 and known > 1:
                                    size_12 = kept(signed, delta(ranked, still, state, row + 1, row + 2))
                                    sizes[OF_2 + own + ONE if whole else OF_1 + own + TWO] = size_12
                                if inside > 3 and known > 0:
                                    size_03 = kept(signed, delta(ranked, still, state, row, row + 3))
                                    sizes[OF_3 + own if whole else own + THREE] = size_03
                                if inside > 3 and known > 1:
                                    size_13 = kept(signed, delta(ranked, still, state, row + 1, row + 3))
                                    sizes[OF_3 + own + ONE if whole else OF_1 + own + THREE] = size_13
                                if inside > 3 and known > 2:
                                    size_23 = kept(signed, delta(ranked, still, state, row + 2, row + 3))
                                    sizes[OF_3 + own + TWO if whole else OF_2 + own + THREE] = size_23
                        if not whole:
                            for x in range(max(0, known), beyond - row):  # below the cut
                                for u in range(length):
                                    sizes[np.uint64(x * SIZES) + u] = zero
                        if not plain:
                            for x in range(row, beyond):
                                since, until = (column, min(stop, x)) if whole else (max(column, x + 1), stop)
                                mine = Weighed(weight[x], tier[x], place[x], 0.0, chosen[x])
                                for r in range(np.uint64(since), np.uint64(until)):
                                    u = np.uint64((x - row) * SIZES) + r - origin
                                    size = least if sizes[u] < least and not signed else sizes[u]
                                    theirs = Weighed(weight[r], tier[r], place[r], 0.0, chosen[r])
                                    sizes[u] = weigh(how, size, grade[x] > grade[r], mine, theirs, apart)
                        sum_0 = sum_1 = sum_2 = sum_3 = bend_0 = bend_1 = bend_2 = bend_3 = force = zero
                        for u in range((length + LANES) & ~LANES):
                            j = origin + u
                            e_j, grade_j = load(powers, j), load(grade32, j)
                            better_0, better_1 = own_0 > grade_j, own_1 > grade_j
                            better_2, better_3 = own_2 > grade_j, own_3 > grade_j
                            size_0 = sizes[u] if better_0 or own_0 < grade_j else zero
                            size_1 = sizes[OF_1 + u] if better_1 or own_1 < grade_j else zero
                            size_2 = sizes[OF_2 + u] if better_2 or own_2 < grade_j else zero
                            size_3 = sizes[OF_3 + u] if better_3 or own_3 < grade_j else zero
                            if signed:  # of a whole list, the row's document is the lower one
                                better_0, better_1 = (size_0 > zero) == whole, (size_1 > zero) == whole
                                better_2, better_3 = (size_2 > zero) == whole, (size_3 > zero) == whole
                                size_0, size_1, size_2, size_3 = abs(size_0), abs(size_1), abs(size_2), abs(size_3)
                            if shifted:  # with the parameter, the product of two totals could overflow
                                raised_j = shift32 * e_j
                                forth_0 = back_0 = cost32(*aimed(better_0, raised_0, e_0, raised_j, e_j))
                                forth_1 = back_1 = cost32(*aimed(better_1, raised_1, e_1, raised_j, e_j))
                                forth_2 = back_2 = cost32(*aimed(better_2, raised_2, e_2, raised_j, e_j))
                                forth_3 = back_3 = cost32(*aimed(better_3, raised_3, e_3, raised_j, e_j))
                            else:
                                total_0, total_1, total_2, total_3 = e_0 + e_j, e_1 + e_j, e_2 + e_j, e_3 + e_j
                                inverse = one / (total_0 * total_1)
                                inverse_0, inverse_1 = inverse * total_1, inverse * total_0
                                inverse = one / (total_2 * total_3)
                                inverse_2, inverse_3 = inverse * total_3, inverse * total_2
                                forth_0, back_0 = cost32(e_0, e_j, inverse_0), cost32(e_j, e_0, inverse_0)
                                forth_1, back_1 = cost32(e_1, e_j, inverse_1), cost32(e_j, e_1, inverse_1)
                                forth_2, back_2 = cost32(e_2, e_j, inverse_2), cost32(e_j, e_2, inverse_2)
                                forth_3, back_3 = cost32(e_3, e_j, inverse_3), cost32(e_j, e_3, inverse_3)
                            push_0, curve_0 = pair_force(better_0, size_0, forth_0, back_0)
                            push_1, curve_1 = pair_force(better_1, size_1, forth_1, back_1)
                            push_2, curve_2 = pair_force(better_2, size_2, forth_2, back_2)
                            push_3, curve_3 = pair_force(better_3, size_3, forth_3, back_3)
                            if summed:
                                force += abs(push_0) + abs(push_1) + abs(push_2) + abs(push_3)
                            sum_0 -= push_0
                            sum_1 -= push_1
                            sum_2 -= push_2
                            sum_3 -= push_3
                            bend_0 += curve_0
                            bend_1 += curve_1
                            bend_2 += curve_2
                            bend_3 += curve_3
                            gradient32[j] += push_0 + push_1 + push_2 + push_3
                            hessian32[j] += curve_0 + curve_1 + curve_2 + curve_3
                        gradient32[here] += sum_0
                        gradient32[here + ONE] += sum_1
                        gradient32[here + TWO] += sum_2
                        gradient32[here + THREE] += sum_3
                        hessian32[here] += bend_0
                        hessian32[here + ONE] += bend_1
                        hessian32[here + TWO] += bend_2
                        hessian32[here + THREE] += bend_3
                        if summed:
                            total += force
                lost = 0
                for r in range(n):
                    lost += not (abs(gradient32[r]) < np.inf and hessian32[r] < np.inf)
                if lost > 0:
                    return int(query)
                for r in range(n):
                    if summed:
                        gradient64[r] += gradient32[r]
                        hessian64[r] += hessian32[r]
                    else:
                        to_gradient[np.uint64(documents[r])] += unit * gradient32[r]
                        to_hessian[np.uint64(documents[r])] += unit * sigma * hessian32[r]
            keep(owned)
            if summed:
                unit *= log_scale(2.0 * norm[query] * sigma * total)
                for r in range(n):
                    to_gradient[np.uint64(documents[r])] += unit * gradient64[r]
                    to_hessian[np.uint64(documents[r])] += unit * sigma * hessian64[r]
        return -1

    return compile_kernel(kernel, fastmath=REDUCE)


@per_function
def delta_kernel(pair: PairDelta) -> Callable[..., None]:
    """``kernel(rows, frozen, cut, out)``: the n x n deltas of one query, before its norm; zero below the diagonal."""
    begin = inlinable(pair.begin)
    delta = inlinable(pair.delta)
    view, signed = frozen_view(pair), pair.signed

    def kernel(rows: Any, frozen: Any, cut: int, out: Any) -> None:
        n = rows.shape[1]
        ranked, still = line(rows, GAIN, 0, n), view(frozen, 0, n)
        state = begin(ranked, still, *swap_parts(rows, 0, n))
        for i in range(cut):
            for j in range(i + 1, n):
                out[i, j] = kept(signed, delta(ranked, still, state, i, j))

    return compile_kernel(kernel)


# --- exact
# Pairs one by one in float64, for any form of delta: queries whose scores spread too far for float32, pairs within a
# window, pairs whose weight depends on which document is better, and the reference for the fast loops.


@per_function
def exact_kernel(pair: PairDelta, cost: Callable[..., tuple[float, float]]) -> Callable[..., int]:
    """``kernel(pull, norm, lists, window, tables, frozen, into, bias)``: the pairs of WIDE queries at most so many ranks apart.

    ``into`` has the sums, and counts, one per query or empty, which receive how many pairs weigh anything. With a ``bias``
    every pair is multiplied by above and below, and its cost log(1 + exp(-margin)), whatever the pair weighs, is added to
    plus and minus. Returns the first query with a result that is not finite, or -1.
    """
    begin = inlinable(pair.begin)
    delta = inlinable(pair.delta)
    view, signed = frozen_view(pair), pair.signed
    cost64 = inlinable(cost)

    def kernel(pull: Any, norm: Any, lists: Any, window: int, tables: Any, frozen: Any, into: Any, bias: Any) -> int:
        pull, lists, tables, factors = Pull(*pull), Lists(*lists), Tables(*tables), PairBias(*bias)
        gradient, hessian, counts = into
        offsets, first, rows, sigma = lists.offsets, lists.first, tables.rows, pull.sigma
        how = Pair(True, True, pull.near > 0.0, True)
        biased, broken, up, down = factors.above.size > 0, -1, 0, 0
        for query in range(first, lists.last):
            if tables.marks[KIND, query - first] != WIDE:
                continue
            start = offsets[query]
            n = offsets[query + 1] - start
            low = start - offsets[first]
            cut, least = tables.marks[CUT, query - first], pull.floor / norm[query]
            ranked, still = line(rows, GAIN, low, n), view(frozen, low, n)
            score, grade = line(rows, SCORE, low, n), line(rows, GRADE, low, n)
            weight, tier = line(rows, WEIGHT, low, n), line(rows, TIER, low, n)
            chosen, place = line(rows, CHOSEN, low, n), line(rows, PLACE, low, n)
            gradient64, hessian64 = line(rows, GRADIENT, low, n), line(rows, HESSIAN, low, n)
            for r in range(n):
                gradient64[r] = 0.0
                hessian64[r] = 0.0
            state = begin(ranked, still, *swap_parts(rows, low, n))
            apart = nearness(pull.near, place, n)
            count = 0
            total = 0.0  # of the forces, where they are summed
            last = n - 1 if least > 0.0 or biased else cut  # the costs are those of all pairs
            documents = line(lists.order, 0, start, n)
            worth = pull.coefficient * (factors.weight[query] if factors.weight.size > 0 else 1.0)
            for i in range(last):
                mine = Weighed(weight[i], tier[i], place[i], 0.0, chosen[i])
                for j in range(i + 1, min(n, i + 1 + window)):
                    better = grade[i] > grade[j]
                    if not (better or grade[i] < grade[j]) or tier[i] != tier[j] or chosen[i] + chosen[j] == 0.0:
                        continue
                    change = delta(ranked, still, state, i, j) if i < cut else 0.0
                    better = change < 0.0 if signed else better
                    margin = sigma * (score[i] - score[j])
                    margin = margin if better else -margin
                    if biased:
                        up = start + (documents[i] if better else documents[j])
                        down = start + (documents[j] if better else documents[i])
                        loss = worth * weight[i] * weight[j] * (np.log1p(np.exp(-abs(margin))) + max(-margin, 0.0))
                        factors.plus[up] += loss * factors.below[down]
                        factors.minus[down] += loss * factors.above[up]
                    size = least if abs(change) < least else abs(change)
                    if size == 0.0:
                        continue
                    count += 1
                    theirs = Weighed(weight[j], tier[j], place[j], 0.0, chosen[j])
                    size = weigh_exactly(how, size, better, mine, theirs, apart)
                    push, bend = cost64(margin, pull.shift)
                    total += push * size
                    if biased:  # after the sum, which would divide the factors out again
                        size *= factors.above[up] * factors.below[down]
                    push *= size if better else -size
                    bend *= size
                    gradient64[i] -= push
                    gradient64[j] += push
                    hessian64[i] += bend
                    hessian64[j] += bend
            if counts.size > 0:
                counts[query] = count
            unit = pull.coefficient * norm[query] * sigma
            unit *= log_scale(2.0 * norm[query] * sigma * total) if pull.summed else 1.0
            for r in range(n):
                if broken < 0 and not (np.isfinite(gradient64[r]) and np.isfinite(hessian64[r])):
                    broken = query
                gradient[low + documents[r]] += unit * gradient64[r]
                hessian[low + documents[r]] += unit * sigma * hessian64[r]
        return broken

    return compile_kernel(kernel)


# --- preferring
# Pairs that are given one by one, as better and worse rows: what each weighs, and its force. In float64.


class Given(NamedTuple):
    """Pairs of rows, by query: those of query q are ``begin[q]:begin[q + 1]``."""

    better: Any
    worse: Any
    begin: Any


@per_function
def given_delta_kernel(pair: PairDelta) -> Callable[..., None]:
    """``kernel(given, weight, (grade, norm), lists, tables, ranks, sizes)``: weight times |delta| of each pair.

    ``tables`` are the rows that a measure's ``swap`` has filled, the same with the measure's table, and the marks; ``ranks`` is
    scratch, as long as the longest query.
    """
    begin = inlinable(pair.begin)
    delta = inlinable(pair.delta)
    view = frozen_view(pair)

    def kernel(given: Any, weight: Any, prepared: Any, lists: Any, tables: Any, ranks: Any, sizes: Any) -> None:
        given, lists = Given(*given), Lists(*lists)
        rows, frozen, marks = tables
        grade, norm = prepared
        for query in range(lists.first, lists.last):
            low, high = given.begin[query], given.begin[query + 1]
            cut = marks[CUT, query - lists.first]
            for p in range(low, high):
                sizes[p] = 0.0
            if low == high or cut <= 0:
                continue
            start, n, here = located(lists.offsets, lists.first, query)
            for r in range(n):
                ranks[lists.order[start + r]] = r
            ranked, still = line(rows, GAIN, here, n), view(frozen, here, n)
            state = begin(ranked, still, *swap_parts(rows, here, n))
            for p in range(low, high):
                i, j = given.better[p], given.worse[p]
                if grade[i] > grade[j] or grade[i] < grade[j]:
                    a, b = ranks[i - start], ranks[j - start]
                    upper, lower = (a, b) if a < b else (b, a)
                    if upper < cut:
                        sizes[p] = weight[p] * norm[query] * abs(delta(ranked, still, state, upper, lower))

    return compile_kernel(kernel)


@per_function
def given_force_kernel(cost: Callable[..., tuple[float, float]]) -> Callable[..., None]:
    """``kernel(given, sizes, scores, weight, numbers, span, sums)``: the forces of pairs that weigh so much.

    ``weight``: one per row, or empty. ``numbers``: sigma, the cost's parameter, and the coefficient of everything.
    ``span``: the first query, the last, and the row that is at index 0 of the sums.
    """
    cost64 = inlinable(cost)

    def kernel(given: Any, sizes: Any, scores: Any, weight: Any, numbers: Any, span: Any, sums: Any) -> None:
        given = Given(*given)
        sigma, shift, coefficient = numbers
        first, last, base = span
        gradient, hessian = sums
        for p in range(given.begin[first], given.begin[last]):
            size = coefficient * sigma * sizes[p]
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
