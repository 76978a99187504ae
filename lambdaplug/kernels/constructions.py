"""Pairs of documents and what swapping each would change, for any form of delta; and documents moved to their place.

The pairwise kernel of ``pairs`` is made for measures whose delta has one form, and for all pairs. This one takes the
delta as a function of two ranks, a floor under it and a window around each document. It works row by row: first what
each pair of document i with those below it weighs, in float64, then their forces, in float32, so that the second loop
becomes packed instructions whatever the delta is. What is said there about float32 holds here.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .compiling import REDUCE, compile_kernel, inlinable, load, sources_stamp

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
LIST_ROWS32 = 5  # float32: exp, grade | what the pair weighs, gradient, hessian
LIST_PADDING = 8  # float32 lanes of a 256-bit register: the loop's remainder runs on padding instead of one by one
ROW_BLOCK = 128
COLUMN_BLOCK = np.uint64(512)
ONE = np.uint64(1)
LANES = np.uint64(LIST_PADDING - 1)


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
    """``kernel(scores, grade, weight, tier, sigma, spread, offsets, first, last, order, rows, fast, wide) -> wide ones``.

    Queries as ranked lists: fills what the pair kernels only read; a kernel of its own, so that they can promise that
    (see ``load``). ``weight`` and ``tier`` may be empty. ``wide``: queries whose scores spread over more than ``spread``.
    """
    stamp = sources_stamp()

    def kernel(
        scores: Any,
        grade: Any,
        weight: Any,
        tier: Any,
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
            for r in range(n):
                row = start + order[start + r]
                rows[4, low + r] = scores[row]
                rows[5, low + r] = grade[row]
                rows[6, low + r] = weight[row] if weight.size > 0 else 1.0
                rows[7, low + r] = tier[row] if tier.size > 0 else 0.0
                fast[0, padded + r] = np.exp(sigma * (scores[row] - scores[start + order[start]]))
                fast[1, padded + r] = grade[row]
            for to in range(padded + n, padded + n + LIST_PADDING):
                fast[0, to] = 1.0
                fast[1, to] = np.nan  # neither above nor below any grade: no force
                fast[2, to] = 0.0
            range_of_scores = sigma * (rows[4, low] - rows[4, low + n - 1]) if n > 0 else 0.0
            wide[query - first] = not range_of_scores <= spread
            count += 1 if wide[query - first] else 0
        return count

    return compile_kernel(kernel)


@functools.cache
def exact_pairs_kernel(pair: PairDelta, cost: Callable[..., tuple[float, float]]) -> Callable[..., int]:
    """Forces and hessians of the pairs of ``wide`` queries, in float64.

    ``rows`` and ``cuts`` come from the swap kernel, ``rows`` and ``wide`` from the list kernel; ``frozen`` is ``rows`` once
    more, not writeable. Of a query's pairs at most ``window`` ranks apart, each weighs |delta|, but at least ``floor``.
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
        coefficient: float,
        floor: float,
        window: int,
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
                    margin = sigma * (score[i] - score[j])
                    push, bend = cost64(margin if better else -margin, shift)
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
                coefficient * norm[query] * sigma,
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
def fast_pairs_kernel(pair: PairDelta, cost: Callable[..., tuple[float, float]]) -> Callable[..., int]:
    """The same for the other queries, in float32 from ``fast``; ``plain``: without weights and tiers."""
    begin = inlinable(pair.begin)
    delta = inlinable(pair.delta)
    costly = pair.costly
    cost32 = inlinable(cost)
    stamp = sources_stamp()

    def kernel(
        plain: bool,
        sigma: float,
        shift: float,
        coefficient: float,
        floor: float,
        window: int,
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
        zero = np.float32(0.0)
        shift32 = np.float32(shift)
        for query in range(first, last):
            start = offsets[query]
            n = offsets[query + 1] - start
            if norm[query] == 0.0 or n < 2 or wide[query - first]:
                continue
            low = start - offsets[first]
            high = low + n
            cut = cuts[query - first]
            least = np.float32(floor / norm[query])
            floor32 = least if plain else zero
            end = n - 1 if least > zero else cut
            ranked, still = rows[0, low:high], frozen[0, low:high]
            grade, weight, tier = rows[5, low:high], rows[6, low:high], rows[7, low:high]
            gradient64, hessian64 = rows[8, low:high], rows[9, low:high]
            padded = low + LIST_PADDING * (query - first)
            exponential, grade32 = fast[0, padded:], fast[1, padded:]
            size32, gradient32, hessian32 = fast[2, padded:], fast[3, padded:], fast[4, padded:]
            for r in range(n):
                gradient64[r] = 0.0
                hessian64[r] = 0.0
            for r in range(n + LIST_PADDING):
                gradient32[r] = zero
                hessian32[r] = zero
            state = begin(ranked, still, rows[1, low:high], rows[2, low:high], rows[3, low:high])
            for i in range(end):
                stop = min(n, i + 1 + window)
                j = i + 1
                while j < stop:  # not a range, of whose numbers LLVM does not see that they are not negative
                    ordered = not costly or grade[i] > grade[j] or grade[i] < grade[j]
                    size32[j] = abs(delta(ranked, still, state, i, j)) if i < cut and ordered else zero
                    j += 1
                if not plain:
                    for j in range(i + 1, stop):
                        size = size32[j]
                        size = (least if size < least else size) * weight[i] * weight[j]
                        size32[j] = size if tier[i] == tier[j] else 0.0
                for j in range(stop, min(stop + LIST_PADDING, n)):
                    size32[j] = zero  # a window's padding is other documents
                e_i, grade_i = load(exponential, np.uint64(i)), load(grade32, np.uint64(i))
                column, edge = np.uint64(i + 1), np.uint64(stop)
                while column < edge:
                    length = min(COLUMN_BLOCK, edge - column)
                    gradient_sum = zero
                    hessian_sum = zero
                    for j in range(column, column + ((length + LANES) & ~LANES)):
                        e_j, grade_j = load(exponential, j), load(grade32, j)
                        better = grade_i > grade_j
                        weighs = size32[j]
                        weighs = floor32 if weighs < floor32 else weighs
                        weighs = weighs if better or grade_i < grade_j else zero
                        over, under = (e_i if better else e_j) * shift32, e_j if better else e_i
                        force, curvature = cost32(over, under, np.float32(1.0) / (over + under))
                        force *= weighs
                        curvature *= force
                        force = force if better else -force
                        gradient_sum -= force
                        hessian_sum += curvature
                        gradient32[j] += force
                        hessian32[j] += curvature
                    gradient64[i] += gradient_sum
                    hessian64[i] += hessian_sum
                    column += length
                if (i + 1) % ROW_BLOCK == 0 or i + 1 == end:
                    for j in range(n):
                        gradient64[j] += gradient32[j]
                        hessian64[j] += hessian32[j]
                        gradient32[j] = zero
                        hessian32[j] = zero
            if not give_back(
                order[start : start + n],
                coefficient * norm[query] * sigma,
                sigma,
                gradient64,
                hessian64,
                gradient[low:high],
                hessian[low:high],
            ):
                return int(query)
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

    ``ranked`` and ``moved`` are scratch as long as the longest query. Returns the first query with a result that is
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
        offsets: Any,
        first: int,
        last: int,
        order: Any,
        ranked: Any,
        moved: Any,
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
            for r in range(n):
                row = start + order[start + r]
                mine = grade[row]
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
                force = min(change, bound) * (weight[row] if weight.size > 0 else 1.0) * coefficient
                gradient[row - offsets[first]] += -force if place < r else force
                hessian[row - offsets[first]] += force
        return -1

    return compile_kernel(kernel)
