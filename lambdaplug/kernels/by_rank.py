"""Pairs by rows, lists in rank order: the loop for measures with a cut-off, where only rows above the cut have pairs.

A loop by rows takes the delta of a pair as |gain_i - gain_j| * scale_i * |upper_i - lower_j|. Its inner loop runs over all
documents below two neighbours in a list. It sums up the two in scalars and updates the others in place, reads everything
else through ``load``, calls no exp, has no branch and one division for two pairs, so LLVM turns it into packed instructions.
"""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from . import rows as at
from .compiling import REDUCE, compile_kernel, inlinable, line, load, located, reducible
from .rows import Lists, Pull, Span, Sums, Tables
from .weighing import PairShape, Weighed, distance, log_scale, nearness, weigh

__all__ = ["by_rank_kernel", "rows_of"]

ROWS, COLUMNS = np.uint64(at.ROW_BLOCK), np.uint64(at.COLUMN_BLOCK)


def rows_of(n: int, cut: int, part: int, parts: int) -> tuple[int, int]:
    """Rows of the triangle that make up so many parts of its area, so that a huge query can keep several threads busy."""
    area = cut * (n - 0.5 * cut)
    first, last = (int(n - (n * n - 2.0 * area * share / parts) ** 0.5 + 0.5) for share in (part, part + 1))
    return first, n if part + 1 == parts else last


@reducible
def pair_size(
    shape: PairShape,
    row: tuple[Any, Any, Any, Any, Any],
    gain: float,
    lower: float,
    lower_rest: float,
    grade: float,
    bonus: float,
) -> tuple[float, bool]:
    """The delta of an upper document (gain, upper in two parts, grade, scale) and a lower one, and which is better.

    It is positive where the upper document is. ``bonus`` is the summand by the distance of their ranks.
    """
    gain_i, upper_i, upper_rest_i, grade_i, scale_i = row
    size = distance(upper_i, upper_rest_i, lower, lower_rest) if shape.fine else abs(upper_i - lower)
    if shape.spaced:
        size += bonus
    if shape.plain:
        better = gain_i > gain
        size *= gain_i - gain
    else:
        better = grade_i > grade
        if shape.gained:
            size *= abs(gain_i - gain)
        size = size if better else -size
        size = size if better or grade_i < grade else np.float32(0.0)
    if shape.scaled:
        size *= scale_i
    return size, better


@functools.cache
def by_rank_kernel(cost: Callable[..., tuple[float, float]], shape: PairShape) -> Callable[..., None]:
    """``kernel(pull, norm, lists, span, tables, sums)``: the pairs of BY_RANK queries, in float32."""
    cost32 = inlinable(cost)
    symmetric, scaled = shape.symmetric, shape.scaled
    shifted, summed, distanced = shape.shifted, shape.summed, shape.distanced
    weighed = shape.weighted or shape.tiered or distanced or shape.chosen
    spaced, capped = shape.spaced, shape.capped

    def kernel(pull: Any, norm: Any, lists: Any, span: Any, tables: Any, sums: Any) -> None:
        pull, lists, span, tables, sums = Pull(*pull), Lists(*lists), Span(*span), Tables(*tables), Sums(*sums)
        offsets, first, fast, rows = lists.offsets, lists.first, tables.fast, tables.rows
        sigma, shift32 = pull.sigma, np.float32(pull.shift)
        zero, one = np.float32(0.0), np.float32(1.0)
        for query in range(first, lists.last):
            if tables.marks[at.KIND, query - first] != at.BY_RANK:
                continue
            start, n, low = located(offsets, first, query)
            end, cut = np.uint64(n), tables.marks[at.CUT, query - first]
            row, stop_row = np.uint64(span.first_row), np.uint64(span.last_row if span.last_row < cut else cut)
            gradient64, hessian64 = line(rows, at.GRADIENT_BY_ROWS, low, n), line(rows, at.HESSIAN_BY_ROWS, low, n)
            for r in range(len(gradient64)):
                gradient64[r] = 0.0
                hessian64[r] = 0.0
            documents = line(lists.order, 0, start, n)
            to_gradient, to_hessian = line(sums.gradient, 0, low, n), line(sums.hessian, 0, low, n)
            total = 0.0  # of the forces, where they are summed
            padded, width = low + at.PADDING * (query - first), n + at.PADDING
            e, gain = line(fast, at.EXP, padded, width), line(fast, at.GAIN32, padded, width)
            upper, upper_rest = line(fast, at.UPPER32, padded, width), line(fast, at.UPPER_REST, padded, width)
            lower, lower_rest = upper, upper_rest
            if not symmetric:
                lower, lower_rest = line(fast, at.LOWER32, padded, width), line(fast, at.LOWER_REST, padded, width)
            grade32 = line(fast, at.GRADE32, padded, width)
            gradient32, hessian32 = line(fast, at.GRADIENT32, padded, width), line(fast, at.HESSIAN32, padded, width)
            if weighed:
                weight32, tier32 = line(fast, at.WEIGHT32, padded, width), line(fast, at.TIER32, padded, width)
                place32, place_rest = line(fast, at.PLACE32, padded, width), line(fast, at.PLACE_REST, padded, width)
                chosen32 = line(fast, at.CHOSEN32, padded, width)
                apart32 = np.float32(nearness(pull.near, line(rows, at.PLACE, low, n), n) if distanced else 1.0)
            for r in range(len(gradient32)):
                gradient32[r] = 0.0
                hessian32[r] = 0.0
            scale = line(rows, at.SCALE, low, n)
            if spaced:
                space, place, far = (
                    line(fast, at.SPACE32, padded, width),
                    line(fast, at.LOWER32, padded, width),
                    np.float32(cut),
                )
            for block in range(row, stop_row, ROWS):
                stop = block + ROWS if block + ROWS < stop_row else stop_row
                for i in range(block, stop, at.TWO):
                    # Documents i and k = i + 1 against all below i: k against itself has no size. A last one is alone.
                    k = i + at.ONE if i + at.ONE < stop else i
                    both = one if k > i else zero
                    e_i, e_k = load(e, i), load(e, k)
                    scale_i, scale_k = one, one
                    if scaled:
                        scale_i, scale_k = np.float32(scale[i]), np.float32(scale[k])
                    if spaced and capped:
                        far_i, far_k = load(space, np.uint64(cut) - i), load(space, np.uint64(cut) - k)
                    bonus_i = bonus_k = zero
                    row_i = load(gain, i), load(upper, i), load(upper_rest, i), load(grade32, i), scale_i
                    row_k = load(gain, k), load(upper, k), load(upper_rest, k), load(grade32, k), scale_k
                    if weighed:
                        mine_i = Weighed(
                            load(weight32, i), load(tier32, i), load(place32, i), load(place_rest, i), load(chosen32, i)
                        )
                        mine_k = Weighed(
                            load(weight32, k), load(tier32, k), load(place32, k), load(place_rest, k), load(chosen32, k)
                        )
                    gradient_i = gradient_k = hessian_i = hessian_k = 0.0
                    column = i + at.ONE
                    while column < end:
                        length = COLUMNS if column + COLUMNS < end else end - column
                        sum_i = sum_k = bend_i = bend_k = force = zero
                        for j in range(column, column + ((length + at.LANES) & ~at.LANES)):
                            row_j = load(gain, j), load(lower, j), load(lower_rest, j), load(grade32, j)
                            if spaced:
                                bonus_i, bonus_k = load(space, j - i), load(space, j - k)
                            if spaced and capped:  # all ranks below the cut are one
                                below = load(place, j) >= far
                                bonus_i, bonus_k = far_i if below else bonus_i, far_k if below else bonus_k
                            size_i, better_i = pair_size(shape, row_i, *row_j, bonus_i)
                            size_k, better_k = pair_size(shape, row_k, *row_j, bonus_k)
                            size_k *= both
                            if weighed:
                                theirs = Weighed(
                                    load(weight32, j),
                                    load(tier32, j),
                                    load(place32, j),
                                    load(place_rest, j),
                                    load(chosen32, j),
                                )
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
            unit = pull.coefficient * norm[query] * sigma
            if summed:
                unit *= log_scale(2.0 * norm[query] * sigma * total)
            for r in range(n):
                to_gradient[np.uint64(documents[r])] += unit * gradient64[r]
                to_hessian[np.uint64(documents[r])] += unit * sigma * hessian64[r]

    return compile_kernel(kernel, fastmath=REDUCE)
