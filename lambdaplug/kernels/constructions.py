"""Pairs of documents and what swapping each would change, for any form of delta; and documents moved to their place.

The pairwise kernel of ``pairs`` is made for measures whose delta has one form, and for all pairs. This one takes the
delta as a function of two ranks, a floor under it and a window around each document. It works by rows: first what each
pair of a document with those below it weighs, in float64, then their forces, in float32, so that the second loop becomes
packed instructions whatever the delta is. What is said there about float32 holds here.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .compiling import REDUCE, compile_kernel, inlinable, line, load, sources_stamp
from .pairs import exponential, log_scale, nearness

__all__ = [
    "LIST_PADDING",
    "LIST_ROWS",
    "LIST_ROWS32",
    "PairDelta",
    "delta_kernel",
    "exact_pairs_kernel",
    "fast_pairs_kernel",
    "list_kernel",
    "place_kernel",
]

LIST_ROWS = 10  # float64: gain, upper, lower, scale | score, grade, weight, tier | gradient, hessian
LIST_ROWS32 = 6  # float32: exp, grade | what the pairs of two rows weigh, gradient, hessian
LIST_PADDING = 8  # float32 lanes of a 256-bit register: the loop's remainder runs on padding instead of one by one
ROW_BLOCK = 128
COLUMN_BLOCK = np.uint64(512)
ONE = np.uint64(1)
LANES = np.uint64(LIST_PADDING - 1)
NATURAL = np.uint64(
    0x7FFFFFFF
)  # a rank so masked is not negative, and LLVM sees it: no choice whether to count from the end


class PairDelta(NamedTuple):
    """What swapping the documents at two ranks i < j changes, as two functions that Numba can compile.

    ``begin(ranked, frozen, upper, lower, scale)`` is called once a query and returns whatever ``delta`` wants to know;
    ``delta(ranked, frozen, state, i, j)`` once a pair. Both get the gains in rank order twice: as a scratch array,
    and as one that cannot be written to.
    """

    begin: Callable[..., Any]
    delta: Callable[..., float]
    costly: bool = False  # worth a branch to leave out pairs that have no order


@functools.cache
def list_kernel() -> Callable[..., int]:
    """``kernel(scores, grade, weight, tier, weighed, sigma, spread, offsets, first, last, order, ...) -> wide ones``.

    Queries as ranked lists: fills what the pair kernels only read; a kernel of its own, so that they can promise that
    (see ``load``). ``weight`` and ``tier`` may be empty; ``weighed``: the fast kernel wants them. ``wide``: queries whose
    scores spread over more than ``spread``.
    """
    stamp = sources_stamp()

    def kernel(
        scores: Any,
        grade: Any,
        weight: Any,
        tier: Any,
        weighed: bool,
        sigma: float,
        spread: float,
        offsets: Any,
        first: int,
        last: int,
        order: Any,
        rows: Any,
        fast: Any,
        wide: Any,
    ) -> int:
        _ = stamp
        count = 0
        for query in range(first, last):
            start = offsets[query]
            n = offsets[query + 1] - start
            low = start - offsets[first]
            padded = low + LIST_PADDING * (query - first)
            score, grades = line(rows, 4, low, n), line(rows, 5, low, n)
            powers, grade32 = line(fast, 0, padded, n), line(fast, 1, padded, n)
            for r in range(n):
                row = np.uint64(start + load(order, start + r))
                score[r] = load(scores, row)
                grades[r] = load(grade, row)
            top = score[0] if n > 0 else 0.0
            beyond = 0
            for r in range(n):
                beyond += not sigma * (top - score[r]) <= spread
            wide[query - first] = beyond > 0
            count += 1 if beyond > 0 else 0
            if weighed or beyond > 0:
                for r in range(n):
                    row = np.uint64(start + load(order, start + r))
                    rows[6, low + r] = weight[row] if weight.size > 0 else 1.0
                    rows[7, low + r] = tier[row] if tier.size > 0 else 0.0
            for r in range(n):
                powers[r] = exponential(sigma * (score[r] - top))
            for r in range(n):
                grade32[r] = np.float32(grades[r])
            for to in range(padded + n, padded + n + LIST_PADDING):
                fast[0, to] = 1.0
                fast[1, to] = np.nan  # neither above nor below any grade: no force
                fast[2, to] = 0.0
                fast[3, to] = 0.0
        return count

    return compile_kernel(kernel, fastmath={"nsz", "contract"})


@functools.cache
def exact_pairs_kernel(pair: PairDelta, cost: Callable[..., tuple[float, float]]) -> Callable[..., int]:
    """Forces and hessians of the pairs of ``wide`` queries, in float64.

    ``rows`` and ``cuts`` come from the swap kernel, ``rows`` and ``wide`` from the list kernel; ``frozen`` is ``rows`` once
    more, not writeable. Of a query's pairs at most ``window`` ranks apart, each weighs |delta|, but at least ``floor``;
    with a ``near`` above 0, divided by that plus the distance of the scores. ``summed``: a query is scaled by
    log2(1 + S)/S, S its summed force.
    ``counts``, one a query or empty: how many weigh anything. Returns the first query with a result that is not finite,
    or -1.
    """
    begin = inlinable(pair.begin)
    delta = inlinable(pair.delta)
    cost64 = inlinable(cost)
    stamp = sources_stamp()

    def kernel(
        sigma: float,
        shift: float,
        near: float,
        coefficient: float,
        floor: float,
        window: int,
        summed: bool,
        norm: Any,
        offsets: Any,
        first: int,
        last: int,
        order: Any,
        cuts: Any,
        wide: Any,
        rows: Any,
        frozen: Any,
        gradient: Any,
        hessian: Any,
        counts: Any,
    ) -> int:
        _ = stamp
        for query in range(first, last):
            start = offsets[query]
            n = offsets[query + 1] - start
            if norm[query] == 0.0 or n < 2 or not wide[query - first]:
                continue
            low = start - offsets[first]
            high = low + n
            cut = cuts[query - first]
            least = floor / norm[query]
            ranked, still = rows[0, low:high], frozen[0, low:high]
            score, grade, weight, tier = rows[4, low:high], rows[5, low:high], rows[6, low:high], rows[7, low:high]
            gradient64, hessian64 = rows[8, low:high], rows[9, low:high]
            for r in range(n):
                gradient64[r] = 0.0
                hessian64[r] = 0.0
            state = begin(ranked, still, rows[1, low:high], rows[2, low:high], rows[3, low:high])
            count = 0
            total = 0.0  # of the forces, where they are summed
            apart = nearness(near, rows[4], low, n)
            for i in range(n - 1 if least > 0.0 else cut):
                for j in range(i + 1, min(n, i + 1 + window)):
                    better = grade[i] > grade[j]
                    if not (better or grade[i] < grade[j]) or tier[i] != tier[j]:
                        continue
                    size = abs(delta(ranked, still, state, i, j)) if i < cut else 0.0
                    size = least if size < least else size
                    if size == 0.0:
                        continue
                    count += 1
                    size *= weight[i] * weight[j]
                    if near > 0.0:
                        size /= apart + abs(score[i] - score[j])
                    margin = sigma * (score[i] - score[j])
                    push, bend = cost64(margin if better else -margin, shift)
                    total += push * size
                    push *= size if better else -size
                    bend *= size
                    gradient64[i] -= push
                    gradient64[j] += push
                    hessian64[i] += bend
                    hessian64[j] += bend
            if counts.size > 0:
                counts[query] = count
            if not give_back(
                order[start : start + n],
                coefficient * norm[query] * sigma * (log_scale(2.0 * norm[query] * sigma * total) if summed else 1.0),
                sigma,
                gradient64,
                hessian64,
                gradient[low:high],
                hessian[low:high],
            ):
                return int(query)
        return -1

    return compile_kernel(kernel)


@functools.cache
def fast_pairs_kernel(
    pair: PairDelta, cost: Callable[..., tuple[float, float]], shifted: bool, summed: bool
) -> Callable[..., int]:
    """The same for the other queries and all their pairs, in float32 from ``fast``; ``plain``: without weights and tiers.

    Two rows at a time, as in ``pairs``. ``shifted``: the cost has a parameter.
    """
    begin = inlinable(pair.begin)
    delta = inlinable(pair.delta)
    costly = pair.costly
    cost32 = inlinable(cost)
    stamp = sources_stamp()

    def kernel(
        plain: bool,
        sigma: float,
        shift: float,
        near: float,
        coefficient: float,
        floor: float,
        norm: Any,
        offsets: Any,
        first: int,
        last: int,
        order: Any,
        cuts: Any,
        wide: Any,
        rows: Any,
        frozen: Any,
        fast: Any,
        gradient: Any,
        hessian: Any,
    ) -> int:
        _ = stamp
        zero, one, shift32 = np.float32(0.0), np.float32(1.0), np.float32(shift)
        for query in range(first, last):
            start = offsets[query]
            n = offsets[query + 1] - start
            if norm[query] == 0.0 or n < 2 or wide[query - first]:
                continue
            low = start - offsets[first]
            padded, width = low + LIST_PADDING * (query - first), n + LIST_PADDING
            cut = cuts[query - first]
            least = np.float32(floor / norm[query])
            edge, end = np.uint64(n), n - 1 if least > zero else cut
            ranked, still = line(rows, 0, low, n), line(frozen, 0, low, n)
            score, grade = line(rows, 4, low, n), line(rows, 5, low, n)
            weight, tier = line(rows, 6, low, n), line(rows, 7, low, n)
            powers, grade32 = line(fast, 0, padded, width), line(fast, 1, padded, width)
            size_of_i, size_of_k = line(fast, 2, padded, width), line(fast, 3, padded, width)
            gradient32, hessian32 = line(fast, 4, padded, width), line(fast, 5, padded, width)
            documents = line(order, 0, start, n)
            to_gradient, to_hessian = line(gradient, 0, low, n), line(hessian, 0, low, n)
            unit = coefficient * norm[query] * sigma
            if summed:  # the factor comes last
                total = 0.0
                gradient64, hessian64 = line(rows, 8, low, n), line(rows, 9, low, n)
                for r in range(n):
                    gradient64[r] = 0.0
                    hessian64[r] = 0.0
            apart = nearness(near, score, 0, n)
            state = begin(ranked, still, line(rows, 1, low, n), line(rows, 2, low, n), line(rows, 3, low, n))
            for block in range(0, end, ROW_BLOCK):
                for r in range(width):
                    gradient32[r] = zero
                    hessian32[r] = zero
                for i in range(block, min(block + ROW_BLOCK, end), 2):
                    k = i + 1
                    # Nothing is asked below the cut, where a user's delta need not know an answer.
                    size_of_i[k] = abs(delta(ranked, still, state, i, k)) if i < cut else 0.0
                    size_of_k[k] = zero  # of k and itself
                    second, own_k = (k, grade[k]) if k < cut else (i, np.nan)
                    for u in range(np.uint64(k + 1), edge if i < cut else np.uint64(0)):
                        j = np.int64(u & NATURAL)
                        wanted_i = not costly or grade[i] > grade[j] or grade[i] < grade[j]
                        wanted_k = not costly or own_k > grade[j] or own_k < grade[j]
                        change_i = delta(ranked, still, state, i, j) if wanted_i else 0.0
                        change_k = delta(ranked, still, state, second, j) if wanted_k else 0.0
                        size_of_i[u] = abs(change_i)
                        size_of_k[u] = abs(change_k)
                    for row in range(i if i > cut else cut, k + 1):  # below the cut
                        sizes = size_of_i if row == i else size_of_k
                        for u in range(np.uint64(k), edge):
                            sizes[u] = zero
                    for row in range(i, i if plain and least == zero else min(k + 1, end)):
                        sizes = size_of_i if row == i else size_of_k
                        for u in range(np.uint64(row + 1), edge):
                            sizes[u] = least if sizes[u] < least else sizes[u]
                        if not plain:
                            for u in range(np.uint64(row + 1), edge):
                                size = sizes[u] * weight[row] * weight[u]
                                sizes[u] = size if tier[row] == tier[u] else 0.0
                            if near > 0.0:
                                for u in range(np.uint64(row + 1), edge):
                                    sizes[u] /= apart + abs(score[row] - score[u])
                    at, to = np.uint64(i), np.uint64(k)
                    e_i, e_k = load(powers, at), load(powers, to)
                    grade_i, grade_k = load(grade32, at), load(grade32, to)
                    gradient_i = gradient_k = hessian_i = hessian_k = 0.0
                    column = to
                    while column < edge:
                        length = COLUMN_BLOCK if column + COLUMN_BLOCK < edge else edge - column
                        sum_i = sum_k = bend_i = bend_k = force = zero
                        for j in range(column, column + ((length + LANES) & ~LANES)):
                            e_j, grade_j = load(powers, j), load(grade32, j)
                            better_i, better_k = grade_i > grade_j, grade_k > grade_j
                            size_i = size_of_i[j] if better_i or grade_i < grade_j else zero
                            size_k = size_of_k[j] if better_k or grade_k < grade_j else zero
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
                            curve_i *= push_i
                            curve_k *= push_k
                            if summed:
                                force += push_i + push_k
                            push_i = push_i if better_i else -push_i
                            push_k = push_k if better_k else -push_k
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
            if summed:
                unit *= log_scale(2.0 * norm[query] * sigma * total)
                for r in range(n):
                    to_gradient[np.uint64(documents[r])] += unit * gradient64[r]
                    to_hessian[np.uint64(documents[r])] += unit * sigma * hessian64[r]
        return -1

    return compile_kernel(kernel, fastmath=REDUCE)


@inlinable
def give_back(
    order: Any, unit: float, sigma: float, gradient64: Any, hessian64: Any, gradient: Any, hessian: Any
) -> bool:
    """Add a query's sums, which are in rank order, to the results of its rows; False if one is not finite."""
    for r in range(len(order)):
        if not (np.isfinite(gradient64[r]) and np.isfinite(hessian64[r])):
            return False
        gradient[order[r]] += unit * gradient64[r]
        hessian[order[r]] += unit * sigma * hessian64[r]
    return True


@functools.cache
def delta_kernel(pair: PairDelta) -> Callable[..., None]:
    """``kernel(rows, frozen, cut, out)``: the n x n deltas of one query, before its norm; zero below the diagonal."""
    begin = inlinable(pair.begin)
    delta = inlinable(pair.delta)
    stamp = sources_stamp()

    def kernel(rows: Any, frozen: Any, cut: int, out: Any) -> None:
        _ = stamp
        n = rows.shape[1]
        ranked, still = rows[0, :n], frozen[0, :n]
        state = begin(ranked, still, rows[1, :n], rows[2, :n], rows[3, :n])
        for i in range(cut):
            for j in range(i + 1, n):
                out[i, j] = abs(delta(ranked, still, state, i, j))

    return compile_kernel(kernel)


@functools.cache
def place_kernel(value: Callable[..., float]) -> Callable[..., int]:
    """Each document moved to its ideal place; see the arguments in ``DiscreteBounded.accumulate``.

    ``ranked``, ``moved`` and ``forces`` are scratch as long as the longest query. Returns the first query with a result that is
    not finite, or -1.
    """
    measured = inlinable(value)
    stamp = sources_stamp()

    def kernel(
        gain: Any,
        discount: Any,
        k: int,
        norm: Any,
        grade: Any,
        weight: Any,
        tier: Any,
        bound: float,
        coefficient: float,
        summed: bool,
        offsets: Any,
        first: int,
        last: int,
        order: Any,
        ranked: Any,
        moved: Any,
        forces: Any,
        gradient: Any,
        hessian: Any,
    ) -> int:
        _ = stamp
        for query in range(first, last):
            start = offsets[query]
            n = offsets[query + 1] - start
            if norm[query] == 0.0 or n < 2:
                continue
            for r in range(n):
                ranked[r] = gain[start + order[start + r]]
                moved[r] = ranked[r]
            now = measured(moved[:n], discount, k)
            total = 0.0
            for r in range(n):
                row = start + order[start + r]
                mine = grade[row]
                forces[r] = 0.0
                if np.isnan(mine):
                    continue
                # How many of those it competes with belong above it ...
                above = 0
                for q in range(n):
                    other = start + order[start + q]
                    rival = tier.size == 0 or tier[other] == tier[row]
                    above += 1 if rival and (grade[other] > mine or (grade[other] == mine and q < r)) else 0
                # ... and the place that leaves it, of the places that they hold.
                place = 0
                for q in range(n):
                    other = start + order[start + q]
                    rival = (tier.size == 0 or tier[other] == tier[row]) and not np.isnan(grade[other])
                    if rival:
                        if above == 0:
                            place = q
                            break
                        above -= 1
                if tier.size > 0 and np.isnan(tier[row]):
                    place = r
                if place == r:
                    continue
                for q in range(n):
                    moved[q] = ranked[q]
                if place < r:
                    for q in range(place, r):
                        moved[q + 1] = ranked[q]
                else:
                    for q in range(r, place):
                        moved[q] = ranked[q + 1]
                moved[place] = ranked[r]
                change = abs(measured(moved[:n], discount, k) - now) * norm[query]
                if not np.isfinite(change):
                    return int(query)
                force = min(change, bound) * (weight[row] if weight.size > 0 else 1.0)
                forces[r] = -force if place < r else force
                total += force
            unit = coefficient * (log_scale(total) if summed else 1.0)
            for r in range(n):
                to = start + order[start + r] - offsets[first]
                gradient[to] += unit * forces[r]
                hessian[to] += unit * abs(forces[r])
        return -1

    return compile_kernel(kernel)
