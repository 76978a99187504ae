"""Leaves that are losses of a whole list, in one or two passes over its documents.

Each adds the gradient and a positive hessian. A row whose target is NaN has no label: it is no part of its list.
``weight`` is one per row, or empty. Nothing overflows, whatever the scores are.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from .jit import compile_kernel, inlinable, line, located, per_function
from .layout import *
from .pairs import log_scale
from .round import leaf, level_of

LIST = {
    "target": GIVEN,
    "weight": GIVEN,
    "number": FLOAT,
    "order": GIVEN_PLACES,
    "coefficient": FLOAT,
    "level": INTEGER,
}


@leaf({}, **LIST)
def query_rmse(leaf: Any, round: Any, room: Any, first: int, last: int) -> tuple[int, int]:
    """Squared errors of what differs within a query."""
    offsets, scores, target, weight, coefficient = (
        round.offsets,
        round.scores,
        leaf.target,
        leaf.weight,
        leaf.coefficient,
    )
    gradient, hessian = level_of(room, leaf.level, offsets[last] - offsets[first])
    for query in range(first, last):
        start, stop, low = offsets[query], offsets[query + 1], offsets[query] - offsets[first]
        total = mean = 0.0
        for row in range(start, stop):
            if not np.isnan(target[row]):
                w = weight[row] if weight.size > 0 else 1.0
                total += w
                mean += w * (scores[row] - target[row])
        if total == 0.0:
            continue
        mean /= total
        for row in range(start, stop):
            if not np.isnan(target[row]):
                w = coefficient * (weight[row] if weight.size > 0 else 1.0)
                gradient[low + row - start] += w * (scores[row] - target[row] - mean)
                hessian[low + row - start] += w
    return FINE, 0


@inlinable
def highest(scores: Any, target: Any, start: int, stop: int) -> float:
    """The highest score of rows that have a target; -inf where none has."""
    top = -np.inf
    for row in range(start, stop):
        if not np.isnan(target[row]) and scores[row] > top:
            top = scores[row]
    return top


@inlinable
def one_more(top: float, total: float, score: float) -> tuple[float, float]:
    """A sum of exp(score), kept as total * exp(top) with the highest score so far, after one more."""
    if score > top:
        return score, total * np.exp(top - score) + 1.0
    return top, total + np.exp(score - top)


@leaf({}, **LIST)
def softmax(leaf: Any, round: Any, room: Any, first: int, last: int) -> tuple[int, int]:
    """The cross entropy of the targets and softmax(scores)."""
    offsets, scores, target, weight, coefficient = (
        round.offsets,
        round.scores,
        leaf.target,
        leaf.weight,
        leaf.coefficient,
    )
    gradient, hessian = level_of(room, leaf.level, offsets[last] - offsets[first])
    powers = line(room.keys, 0, 0, room.keys.shape[1])
    for query in range(first, last):
        start, stop, low = offsets[query], offsets[query + 1], offsets[query] - offsets[first]
        top = highest(scores, target, start, stop)
        total = targets = 0.0
        for row in range(start, stop):
            if not np.isnan(target[row]):
                powers[row - start] = np.exp(scores[row] - top)
                total += powers[row - start]
                targets += target[row] * (weight[row] if weight.size > 0 else 1.0)
        if not targets > 0.0:
            continue
        for row in range(start, stop):
            if not np.isnan(target[row]):
                own = target[row] * (weight[row] if weight.size > 0 else 1.0)
                p = powers[row - start] / total
                gradient[low + row - start] += coefficient * (targets * p - own)
                hessian[low + row - start] += coefficient * targets * p * (1.0 - p)
    return FINE, 0


@leaf({}, **LIST)
def list_mle(leaf: Any, round: Any, room: Any, first: int, last: int) -> tuple[int, int]:
    """The likelihood of the first k places; ``order`` is by falling target, those without one last.
    A stretch of equal targets has one denominator D, the sum of
       exp(score) from its first document to the last of the list, of which ``logs`` keeps the logarithm. Sums over the stretches above are kept relative to the present D, which is the smallest.
    """
    offsets, scores, target, weight, coefficient = (
        round.offsets,
        round.scores,
        leaf.target,
        leaf.weight,
        leaf.coefficient,
    )
    gradient, hessian = level_of(room, leaf.level, offsets[last] - offsets[first])
    k, order, logs = int(leaf.number), leaf.order, line(room.keys, 0, 0, room.keys.shape[1])
    for query in range(first, last):
        start, n, low = located(offsets, first, query)
        ranked = line(order, 0, start, n)
        while n > 0 and np.isnan(target[start + ranked[n - 1]]):
            n -= 1
        if n == 0:
            continue
        top, total = -np.inf, 0.0
        for r in range(n - 1, -1, -1):
            top, total = one_more(top, total, scores[start + ranked[r]])
            logs[r] = top + np.log(total)
        begin = 0
        before = logs[0]
        above = above_squared = 0.0  # sums over the stretches so far of their weights, over D and D^2
        while begin < n:
            end = begin + 1
            while end < n and target[start + ranked[end]] == target[start + ranked[begin]]:
                end += 1
            share = min(max(k - begin, 0), end - begin) / (end - begin)  # of its places that are among the first k
            fall = np.exp(logs[begin] - before)
            above *= fall
            above_squared *= fall * fall
            before = logs[begin]
            for r in range(begin, end):
                w = share * (weight[start + ranked[r]] if weight.size > 0 else 1.0)
                above += w
                above_squared += w
            for r in range(begin, end):
                row = start + ranked[r]
                own = share * (weight[row] if weight.size > 0 else 1.0)
                p = np.exp(scores[row] - before)
                gradient[low + row - start] += coefficient * (p * above - own)
                hessian[low + row - start] += coefficient * max(p * above - p * p * above_squared, 0.0)
            begin = end
    return FINE, 0


@inlinable
def relative(score: float, small: float, least: float) -> float:
    """exp(min(score, 0) - least), given small = exp(-|score|)."""
    if least < 0.0:
        return float(np.exp(min(score, 0.0) - least))
    return 1.0 if score > 0.0 else small


@leaf({}, **LIST)
def calibrated(leaf: Any, round: Any, room: Any, first: int, last: int) -> tuple[int, int]:
    """(1 - share) times the log loss of q = sigmoid(score), and share times the cross entropy of target/sum of targets and
    q/sum of q. Sums of q are kept over exp(least), which is as small as the largest q: all may underflow.
    """
    offsets, scores, target, weight, coefficient = (
        round.offsets,
        round.scores,
        leaf.target,
        leaf.weight,
        leaf.coefficient,
    )
    gradient, hessian = level_of(room, leaf.level, offsets[last] - offsets[first])
    share = leaf.number
    for query in range(first, last):
        start, stop, low = offsets[query], offsets[query + 1], offsets[query] - offsets[first]
        top = highest(scores, target, start, stop)
        least = min(top, 0.0)
        total = targets = 0.0
        for row in range(start, stop):
            if not np.isnan(target[row]):
                w = weight[row] if weight.size > 0 else 1.0
                small = np.exp(-abs(scores[row]))
                total += w * relative(scores[row], small, least) / (1.0 + small)
                targets += w * target[row]
        listed = targets > 0.0 and total > 0.0
        for row in range(start, stop):
            if not np.isnan(target[row]):
                w = weight[row] if weight.size > 0 else 1.0
                s = scores[row]
                small = np.exp(-abs(s))
                q = (1.0 if s > 0.0 else small) / (1.0 + small)
                rest = (small if s > 0.0 else 1.0) / (1.0 + small)
                slope = (1.0 - share) * w * (q - target[row])
                bend = (1.0 - share) * w * q * rest
                if listed:
                    mine = w * relative(s, small, least) / ((1.0 + small) * total)
                    wanted = w * target[row] / targets
                    slope += share * rest * (mine - wanted)
                    bend += share * rest * (q * wanted + rest * mine)
                gradient[low + row - start] += coefficient * slope
                hessian[low + row - start] += coefficient * bend
    return FINE, 0


# --- placing
# Forces on single documents: each moved to its ideal place.


@per_function
def place_kernel(value: Callable[..., float], tabled: bool) -> Callable[..., int]:
    """``kernel(prepared, columns, bound, pull, lists, room, sums)``: each document moved to its ideal place.

    A force is at most ``bound``; ``columns`` are weights and tiers. ``room`` is scratch, three rows as long as the longest query. Returns the first query with
    a result that is not finite, or -1.
    """
    measured = inlinable(value)

    def kernel(prepared: Any, columns: Any, bound: float, pull: Any, lists: Any, room: Any, sums: Any) -> int:
        gain, grade, norm, table, k = prepared
        weight, tier = columns
        pull, lists, sums = Pull(*pull), Lists(*lists), Sums(*sums)
        if tabled:
            discount = table
        else:
            discount = line(table, 0, 0, table.shape[1])
        offsets, first, order = lists.offsets, lists.first, lists.order
        longest = room.shape[1]
        ranked, moved, forces = line(room, 0, 0, longest), line(room, 1, 0, longest), line(room, 2, 0, longest)
        for query in range(first, lists.last):
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
                place = r
                for q in range(n):
                    other = start + order[start + q]
                    rival = (tier.size == 0 or tier[other] == tier[row]) and not np.isnan(grade[other])
                    if rival:
                        if above == 0:
                            place = q
                            break
                        above -= 1
                if place == r:
                    continue
                for q in range(n):
                    moved[q] = ranked[q]
                carried = ranked[r]  # each takes the place of the next one it competes with; all others keep theirs
                step = 1 if place < r else -1
                for q in range(place, r + step, step):
                    other = start + order[start + q]
                    if (tier.size == 0 or tier[other] == tier[row]) and not np.isnan(grade[other]):
                        moved[q] = carried
                        carried = ranked[q]
                change = abs(measured(moved[:n], discount, k) - now) * norm[query]
                if not np.isfinite(change):
                    return int(query)
                force = min(change, bound) * (weight[row] if weight.size > 0 else 1.0)
                forces[r] = -force if place < r else force
                total += force
            unit = pull.coefficient * (log_scale(total) if pull.summed else 1.0)
            for r in range(n):
                to = start + order[start + r] - offsets[first]
                sums.gradient[to] += unit * forces[r]
                sums.hessian[to] += unit * abs(forces[r])
        return -1

    return compile_kernel(kernel)
