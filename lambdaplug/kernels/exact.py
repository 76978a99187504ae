"""Pairs one by one in float64, for any form of delta: queries whose scores spread too far for float32, pairs within a
window, pairs whose weight depends on which document is better, and the reference for the fast loops.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .by_delta import PairDelta, frozen_view
from .compiling import compile_kernel, inlinable, line, per_function
from .rows import (
    CHOSEN,
    CUT,
    GAIN,
    GRADE,
    GRADIENT,
    HESSIAN,
    KIND,
    LOWER,
    PLACE,
    SCALE,
    SCORE,
    TIER,
    UPPER,
    WEIGHT,
    WIDE,
    Lists,
    Pull,
    Span,
    Tables,
)
from .weighing import Pair, Weighed, log_scale, nearness, weigh_exactly

__all__ = ["PairBias", "exact_kernel"]


class PairBias(NamedTuple):
    """Factors of a pair, and its cost by row; one value per row, but ``weight``, which is one per query or empty."""

    above: Any  # of the better document
    below: Any  # of the worse one
    plus: Any  # receives the costs of the pairs in which a row is the better one, times the other's factor
    minus: Any  # the same where it is the worse one
    weight: Any  # of the query, for the costs alone: the forces are weighed later


@per_function
def exact_kernel(pair: PairDelta, cost: Callable[..., tuple[float, float]]) -> Callable[..., int]:
    """``kernel(pull, norm, lists, span, tables, frozen, into, bias)``: the pairs of WIDE queries.

    ``frozen`` is the table ``rows`` once more, not writeable; ``into`` has the sums, and counts, one per query or empty,
    which receive how many pairs weigh anything. With a ``bias``, a tuple as PairBias, every pair is multiplied by above
    and below, and its cost log(1 + exp(-margin)), whatever the pair weighs, is added to plus and minus; None compiles to
    a loop without that. Returns the first query with a result that is not finite, or -1.
    """
    begin = inlinable(pair.begin)
    delta = inlinable(pair.delta)
    view, signed = frozen_view(pair), pair.signed
    cost64 = inlinable(cost)

    def kernel(pull: Any, norm: Any, lists: Any, span: Any, tables: Any, frozen: Any, into: Any, bias: Any) -> int:
        pull, lists, span, tables = Pull(*pull), Lists(*lists), Span(*span), Tables(*tables)
        gradient, hessian, counts = into
        offsets, first, rows, sigma = lists.offsets, lists.first, tables.rows, pull.sigma
        how = Pair(True, True, pull.near > 0.0, True)
        broken = -1
        if bias is not None:
            factors = PairBias(*bias)
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
            upper, lower, scale = line(rows, UPPER, low, n), line(rows, LOWER, low, n), line(rows, SCALE, low, n)
            state = begin(ranked, still, upper, lower, scale)
            apart = nearness(pull.near, place, n)
            count = 0
            total = 0.0  # of the forces, where they are summed
            last = min(span.last_row, n - 1 if least > 0.0 else cut)
            documents = line(lists.order, 0, start, n)
            if bias is not None:
                last = n - 1  # the costs are those of all pairs
                worth = pull.coefficient * (factors.weight[query] if factors.weight.size > 0 else 1.0)
            # Not below 0, and LLVM sees it: no choice whether to count from the end.
            for i in range(max(span.first_row, 0), last):
                mine = Weighed(weight[i], tier[i], place[i], 0.0, chosen[i])
                for j in range(i + 1, min(n, i + 1 + span.window)):
                    better = grade[i] > grade[j]
                    if not (better or grade[i] < grade[j]) or tier[i] != tier[j] or chosen[i] + chosen[j] == 0.0:
                        continue
                    change = delta(ranked, still, state, i, j) if i < cut else 0.0
                    better = change < 0.0 if signed else better
                    margin = sigma * (score[i] - score[j])
                    margin = margin if better else -margin
                    if bias is not None:
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
                    if bias is not None:  # after the sum, which would divide the factors out again
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
