"""Pairs that are given one by one, as better and worse rows: what each weighs, and its force. In float64."""

from collections.abc import Callable
from typing import Any, NamedTuple

from .by_delta import PairDelta, frozen_view
from .compiling import compile_kernel, inlinable, line, located, per_function
from .rows import CUT, GAIN, LOWER, SCALE, UPPER, Lists

__all__ = ["Given", "given_delta_kernel", "given_force_kernel"]


class Given(NamedTuple):
    """Pairs of rows, by query: those of query q are ``begin[q]:begin[q + 1]``."""

    better: Any
    worse: Any
    begin: Any


@per_function
def given_delta_kernel(pair: PairDelta) -> Callable[..., None]:
    """``kernel(given, weight, (grade, norm), lists, tables, ranks, sizes)``: weight times |delta| of each pair.

    ``tables`` are the rows that a measure's ``swap`` has filled, the same not writeable, and the marks; ``ranks`` is
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
            start, n, at = located(lists.offsets, lists.first, query)
            for r in range(n):
                ranks[lists.order[start + r]] = r
            ranked, still = line(rows, GAIN, at, n), view(frozen, at, n)
            state = begin(ranked, still, line(rows, UPPER, at, n), line(rows, LOWER, at, n), line(rows, SCALE, at, n))
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
