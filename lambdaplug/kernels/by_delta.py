"""Pairs by delta: the loop for any form of delta, as a function of two ranks, and for a floor under it.

It works by rows, four at a time: first what their pairs with the documents above or below them weigh, in float64, then
the forces, in float32, so that the second loop becomes packed instructions whatever the delta is.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .compiling import (
    REDUCE,
    borrowed,
    compile_kernel,
    inlinable,
    keep,
    line,
    load,
    local_float32,
    located,
    per_function,
    reducible,
)
from .rows import (
    BY_RANK,
    CHOSEN,
    COLUMN_BLOCK,
    CUT,
    EXP,
    GAIN,
    GRADE,
    GRADE32,
    GRADIENT,
    GRADIENT32,
    HESSIAN,
    HESSIAN32,
    KIND,
    LANES,
    LOWER,
    ONE,
    PADDING,
    PLACE,
    ROW_BLOCK,
    SCALE,
    THREE,
    TIER,
    TWO,
    UPPER,
    WEIGHT,
    Lists,
    Pull,
    Sums,
    Tables,
)
from .weighing import Pair, Weighed, log_scale, nearness, weigh

__all__ = ["FOUR_SIZES", "OF_1", "OF_2", "OF_3", "SWEEP", "PairDelta", "by_delta_kernel", "delta_kernel", "frozen_view"]

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
def frozen_gains(frozen: Any, low: int, n: int) -> Any:
    return line(frozen, GAIN, low, n)


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
    """``kernel(pull, norm, lists, tables, frozen, sums)``: all pairs of BY_RANK queries, forces in float32.

    Four rows at a time: of a whole list, each with the documents above it, so that every loop begins where the list does;
    otherwise, and in a sweep, the rows above the cut, each with the documents below it. ``shifted``: the cost has a parameter; ``plain``:
    without weights, tiers, distances, choices and a floor; ``long``: a list may be longer than a block of columns. ``frozen`` is
    the table ``rows`` once more, not writeable. Returns the first query with a result that is not finite, or -1.
    """
    begin = inlinable(pair.begin)
    delta = inlinable(pair.delta)
    costly, signed, tabled, swept = pair.costly, pair.signed, pair.tabled, pair.sweep is not None
    whole = pair.whole and not swept
    sweep = reducible(pair.sweep or no_sweep)
    cost32 = inlinable(cost)

    def kernel(pull: Any, norm: Any, lists: Any, tables: Any, frozen: Any, sums: Any) -> int:
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
                still = line(frozen, GAIN, low, n)
            place, grade = line(rows, PLACE, low, n), line(rows, GRADE, low, n)
            weight, tier, chosen = line(rows, WEIGHT, low, n), line(rows, TIER, low, n), line(rows, CHOSEN, low, n)
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
            upper, lower, scale = line(rows, UPPER, low, n), line(rows, LOWER, low, n), line(rows, SCALE, low, n)
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
                    at = np.uint64(row)
                    e_0, e_1 = load(powers, at), load(powers, at + ONE)
                    e_2, e_3 = load(powers, at + TWO), load(powers, at + THREE)
                    raised_0, raised_1, raised_2, raised_3 = shift32 * e_0, shift32 * e_1, shift32 * e_2, shift32 * e_3
                    own_0, own_1 = load(grade32, at), load(grade32, at + ONE)
                    own_2, own_3 = load(grade32, at + TWO), load(grade32, at + THREE)
                    head, edge = (0, beyond) if whole else (row, n)
                    for column in range(head, edge if long else head + 1, COLUMN_BLOCK):
                        stop = min(column + COLUMN_BLOCK, edge)
                        origin, length = np.uint64(column), np.uint64(stop - column)
                        since, until = (column, min(stop, row)) if whole else (max(column, beyond), stop)
                        if swept:
                            sweep(state, at, origin, (length + SWEPT) & ~SWEPT, sizes)
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
                        gradient32[at] += sum_0
                        gradient32[at + ONE] += sum_1
                        gradient32[at + TWO] += sum_2
                        gradient32[at + THREE] += sum_3
                        hessian32[at] += bend_0
                        hessian32[at + ONE] += bend_1
                        hessian32[at + TWO] += bend_2
                        hessian32[at + THREE] += bend_3
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
        state = begin(ranked, still, rows[UPPER, :n], rows[LOWER, :n], rows[SCALE, :n])
        for i in range(cut):
            for j in range(i + 1, n):
                out[i, j] = kept(signed, delta(ranked, still, state, i, j))

    return compile_kernel(kernel)
