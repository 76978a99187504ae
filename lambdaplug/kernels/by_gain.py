"""Pairs by rows, whole lists by falling gain: each document's loop begins at the next lower gain, so that pairs of equal
gain, often half of all, are left out and the upper one of a pair is always the better. See ``by_rank`` for the loop.
"""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from . import rows as at
from .compiling import REDUCE, compile_kernel, inlinable, line, load, located
from .rows import Lists, Pull, Span, Sums, Tables
from .weighing import PairShape, Weighed, distance, log_scale, nearness, weigh

__all__ = ["by_gain_kernel"]

ROWS, COLUMNS = np.uint64(at.ROW_BLOCK), np.uint64(at.COLUMN_BLOCK)


@functools.cache
def by_gain_kernel(cost: Callable[..., tuple[float, float]], shape: PairShape) -> Callable[..., None]:
    """``kernel(pull, norm, lists, span, tables, below, gains, sums)``: the pairs of BY_GAIN queries, in float32.

    By list, ``below`` is where the next lower gain begins, and ``gains`` are float32.
    """
    cost32 = inlinable(cost)
    symmetric, fine, scaled, ordered = shape.symmetric, shape.fine, shape.scaled, shape.ordered
    summed, distanced, weighed = shape.summed, shape.distanced, shape.weighted or shape.distanced

    def kernel(pull: Any, norm: Any, lists: Any, span: Any, tables: Any, below: Any, gains: Any, sums: Any) -> None:
        pull, lists, span, tables = Pull(*pull), Lists(*lists), Span(*span), Tables(*tables)
        sums = Sums(*sums)
        offsets, first, fast, rows = lists.offsets, lists.first, tables.fast, tables.rows
        sigma, zero, one = pull.sigma, np.float32(0.0), np.float32(1.0)
        for query in range(first, lists.last):
            if tables.marks[at.KIND, query - first] != at.BY_GAIN:
                continue
            start, n, low = located(offsets, first, query)
            end = np.uint64(n)  # whole pairs of rows in each part
            row = np.uint64(span.first_row) & ~at.ONE
            stop_row = end if span.last_row >= n else np.uint64(span.last_row) & ~at.ONE
            documents = line(tables.places, at.DOCUMENT, low, n)
            to_gradient, to_hessian = line(sums.gradient, 0, low, n), line(sums.hessian, 0, low, n)
            unit = pull.coefficient * norm[query] * sigma
            if summed:  # the factor comes last
                total = 0.0
                gradient64, hessian64 = line(rows, at.GRADIENT_BY_ROWS, low, n), line(rows, at.HESSIAN_BY_ROWS, low, n)
                for r in range(len(gradient64)):
                    gradient64[r] = 0.0
                    hessian64[r] = 0.0
            padded, width = low + at.PADDING * (query - first), n + at.PADDING
            e, upper = line(fast, at.EXP, padded, width), line(fast, at.UPPER32, padded, width)
            gain, next_gain = line(gains, 0, start, width), line(below, 0, start, n)
            gradient32, hessian32 = line(fast, at.GRADIENT32, padded, width), line(fast, at.HESSIAN32, padded, width)
            if fine:
                upper_rest = line(fast, at.UPPER_REST, padded, width)
            if not symmetric:
                lower = line(fast, at.LOWER32, padded, width)
                if ordered:
                    rank, lower_rest = line(fast, at.RANK32, padded, width), line(fast, at.LOWER_REST, padded, width)
            if scaled:
                scale = line(fast, at.SCALE32, padded, width)
            if weighed:
                weight32, place32 = line(fast, at.WEIGHT32, padded, width), line(fast, at.PLACE32, padded, width)
                place_rest = line(fast, at.PLACE_REST, padded, width)
                apart32 = np.float32(nearness(pull.near, line(rows, at.PLACE, low, n), n) if distanced else 1.0)
            for block in range(row, stop_row, ROWS):
                for r in range(len(gradient32)):
                    gradient32[r] = 0.0
                    hessian32[r] = 0.0
                stop = block + ROWS
                for i in range(block, stop if stop < stop_row else stop_row, at.TWO):
                    k = i + at.ONE
                    column = np.uint64(load(next_gain, i))
                    if column >= end:  # the lowest gain: no document below. If k has it, its pairs have no size
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
                    if weighed:
                        mine_i = Weighed(load(weight32, i), zero, load(place32, i), load(place_rest, i), one)
                        mine_k = Weighed(load(weight32, k), zero, load(place32, k), load(place_rest, k), one)
                    gradient_i = gradient_k = hessian_i = hessian_k = 0.0
                    while column < end:
                        length = COLUMNS if column + COLUMNS < end else end - column
                        sum_i = sum_k = bend_i = bend_k = force = zero
                        for j in range(column, column + ((length + at.LANES) & ~at.LANES)):
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
                            if weighed:
                                theirs = Weighed(load(weight32, j), zero, load(place32, j), load(place_rest, j), one)
                                size_i = weigh(shape, size_i, True, mine_i, theirs, apart32)
                                size_k = weigh(shape, size_k, True, mine_k, theirs, apart32)
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
                if summed:
                    for r in range(n):
                        gradient64[r] += gradient32[r]
                        hessian64[r] += hessian32[r]
                else:
                    for r in range(n):
                        to_gradient[np.uint64(documents[r])] += unit * gradient32[r]
                        to_hessian[np.uint64(documents[r])] += unit * sigma * hessian32[r]
            if summed:
                unit *= log_scale(2.0 * norm[query] * sigma * total)
                for r in range(n):
                    to_gradient[np.uint64(documents[r])] += unit * gradient64[r]
                    to_hessian[np.uint64(documents[r])] += unit * sigma * hessian64[r]

    return compile_kernel(kernel, fastmath=REDUCE)
