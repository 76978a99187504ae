"""Leaves that are losses of a whole list, in one or two passes over its documents.

A loss is a function of one list: scores, targets and weights, from which it fills in the gradient and a positive
hessian, so many (``unit``) times. A row whose target is NaN has no label: it is no part of its list. Nothing
overflows, whatever the scores are.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from .jit import compile_kernel, inlinable, line, located, per_function
from .layout import *
from .pairs import log_scale
from .round import leaf, level_of


def of_lists(loss: Callable[..., None]) -> Any:
    """A kind of leaf that adds this loss of every list, its documents in ``order``, or by row if that is empty."""
    differentiate = inlinable(loss)

    @leaf(
        {},
        target=GIVEN,
        weight=GIVEN,
        number=FLOAT,  # of the loss's own
        order=GIVEN_PLACES,
        coefficient=FLOAT,
        level=INTEGER,
    )
    def lists(leaf: Any, round: Any, room: Any, first: int, last: int) -> tuple[int, int]:
        offsets, order, target, weight = round.offsets, leaf.order, leaf.target, leaf.weight
        scores, longest = round.scores, room.keys.shape[1]
        gradient, hessian = level_of(room, leaf.level, offsets[last] - offsets[first])
        table, places = np.empty((6, longest)), np.empty(longest, np.int64)
        for query in range(first, last):
            start, n, low = located(offsets, first, query)
            count = 0
            for r in range(n):
                place = order[start + r] if order.size > 0 else r
                if not np.isnan(target[start + place]):
                    places[count] = place
                    table[0, count] = scores[start + place]
                    table[1, count] = target[start + place]
                    table[2, count] = weight[start + place] if weight.size > 0 else 1.0
                    count += 1
            if count == 0:
                continue
            own = line(table, 0, 0, count), line(table, 1, 0, count), line(table, 2, 0, count), line(table, 3, 0, count)
            slope, bend = line(table, 4, 0, count), line(table, 5, 0, count)
            differentiate(own, leaf.number, leaf.coefficient, slope, bend)
            for r in range(count):
                gradient[low + places[r]] += slope[r]
                hessian[low + places[r]] += bend[r]
        return FINE, 0

    return lists


@of_lists
def query_rmse(own: Any, _number: float, unit: float, slope: Any, bend: Any) -> None:
    """Squared errors of what differs within a query."""
    score, target, weight, _ = own
    total = mean = 0.0
    for r in range(len(score)):
        total += weight[r]
        mean += weight[r] * (score[r] - target[r])
    mean = mean / total if total > 0.0 else 0.0
    for r in range(len(score)):
        bend[r] = unit * weight[r]
        slope[r] = bend[r] * (score[r] - target[r] - mean)


@of_lists
def softmax(own: Any, _number: float, unit: float, slope: Any, bend: Any) -> None:
    """The cross entropy of the targets and softmax(scores)."""
    score, target, weight, power = own
    top, total, targets = np.max(score), 0.0, 0.0
    for r in range(len(score)):
        power[r] = np.exp(score[r] - top)
        total += power[r]
        targets += target[r] * weight[r]
    if not targets > 0.0:
        unit = targets = 0.0
    for r in range(len(score)):
        p = power[r] / total
        slope[r] = unit * (targets * p - target[r] * weight[r])
        bend[r] = unit * targets * p * (1.0 - p)


@inlinable
def one_more(top: float, total: float, score: float) -> tuple[float, float]:
    """A sum of exp(score), kept as total * exp(top) with the highest score so far, after one more."""
    if score > top:
        return score, total * np.exp(top - score) + 1.0
    return top, total + np.exp(score - top)


@of_lists
def list_mle(own: Any, k: float, unit: float, slope: Any, bend: Any) -> None:
    """The likelihood of the first k places of the list, which is in the order of falling targets.

    A stretch of equal targets has one denominator D, the sum of exp(score) from its first document to the last of the
    list, of which ``logs`` keeps the logarithm. Sums over the stretches above are kept relative to the present D, which
    is the smallest.
    """
    score, target, weight, logs = own
    n, top, total = len(score), -np.inf, 0.0
    for r in range(n - 1, -1, -1):
        top, total = one_more(top, total, score[r])
        logs[r] = top + np.log(total)
    begin, before = 0, logs[0]
    above = above_squared = 0.0  # sums over the stretches so far of their weights, over D and D^2
    while begin < n:
        end = begin + 1
        while end < n and target[end] == target[begin]:
            end += 1
        share = min(max(k - begin, 0), end - begin) / (end - begin)  # of its places that are among the first k
        fall = np.exp(logs[begin] - before)
        above *= fall
        above_squared *= fall * fall
        before = logs[begin]
        for r in range(begin, end):
            above += share * weight[r]
            above_squared += share * weight[r]
        for r in range(begin, end):
            p = np.exp(score[r] - before)
            slope[r] = unit * (p * above - share * weight[r])
            bend[r] = unit * max(p * above - p * p * above_squared, 0.0)
        begin = end


@inlinable
def relative(score: float, small: float, least: float) -> float:
    """exp(min(score, 0) - least), given small = exp(-|score|)."""
    if least < 0.0:
        return float(np.exp(min(score, 0.0) - least))
    return 1.0 if score > 0.0 else small


@of_lists
def calibrated(own: Any, share: float, unit: float, slope: Any, bend: Any) -> None:
    """(1 - share) times the log loss of q = sigmoid(score), and share times the cross entropy of target/sum of targets and
    q/sum of q. Sums of q are kept over exp(least), which is as small as the largest q: all may underflow.
    """
    score, target, weight, part = own
    least, total, targets = min(np.max(score), 0.0), 0.0, 0.0
    for r in range(len(score)):
        small = np.exp(-abs(score[r]))
        part[r] = weight[r] * relative(score[r], small, least)
        total += part[r] / (1.0 + small)
        targets += weight[r] * target[r]
    listed = targets > 0.0 and total > 0.0
    for r in range(len(score)):
        small = np.exp(-abs(score[r]))
        q = (1.0 if score[r] > 0.0 else small) / (1.0 + small)
        rest = (small if score[r] > 0.0 else 1.0) / (1.0 + small)
        force = (1.0 - share) * weight[r] * (q - target[r])
        curve = (1.0 - share) * weight[r] * q * rest
        if listed:
            mine = part[r] / ((1.0 + small) * total)
            wanted = weight[r] * target[r] / targets
            force += share * rest * (mine - wanted)
            curve += share * rest * (q * wanted + rest * mine)
        slope[r] = unit * force
        bend[r] = unit * curve


# --- placing
# Forces on single documents: each moved to its ideal place.


@per_function
def order_kernel(value: Callable[..., float], tabled: bool) -> Callable[..., float]:
    """A measure's value of gains by rank and a table, of which a measure that is not ``tabled`` gets the first row."""
    measured = inlinable(value)

    def kernel(ranked: Any, table: Any, k: int) -> float:
        if tabled:
            discount = table
        else:
            discount = line(table, 0, 0, table.shape[1])
        return float(measured(ranked, discount, k))

    return compile_kernel(kernel)


ORDER = function(FLOAT, NUMBERS, GIVEN_TABLE, INTEGER)


@leaf(
    {"value": ORDER},
    prepared=PREPARED,
    columns=group(GIVEN, GIVEN),  # weight, tier
    bound=FLOAT,  # of a force
    pull=PULL,
    level=INTEGER,
)
def places(leaf: Any, round: Any, room: Any, first: int, last: int) -> tuple[int, int]:
    """Each document moved to its ideal place, among those of its tier that have a label."""
    offsets, (gain, grade, norm, table, k), (weight, tier) = round.offsets, leaf.prepared, leaf.columns
    gradient, hessian = level_of(room, leaf.level, offsets[last] - offsets[first])
    pull, value, keys = Pull(*leaf.pull), leaf.call.value, room.keys
    held = np.empty(keys.shape[1], np.int64)
    for query in range(first, last):
        start, n, low = located(offsets, first, query)
        if norm[query] == 0.0 or n < 2:
            continue
        order, ranked = line(round.order, 0, start, n), line(keys, 0, 0, n)
        moved, forces = line(keys, 1, 0, n), line(keys, 2, 0, n)
        for r in range(n):
            ranked[r] = moved[r] = gain[start + order[r]]
        now = value(moved, table, k)
        total = 0.0
        for r in range(n):
            row = start + order[r]
            forces[r] = 0.0
            if np.isnan(grade[row]):
                continue
            # The places of those it competes with and its own, which of them is its own, and which it should be.
            count = mine = ideal = 0
            for q in range(n):
                other = start + order[q]
                if (tier.size == 0 or tier[other] == tier[row]) and not np.isnan(grade[other]):
                    if q == r:
                        mine = count
                    if grade[other] > grade[row] or (grade[other] == grade[row] and q < r):
                        ideal += 1
                    held[count] = q
                    count += 1
            if ideal == mine:
                continue
            for q in range(n):
                moved[q] = ranked[q]
            carried = ranked[r]  # each takes the place of the next one it competes with; all others keep theirs
            step = 1 if ideal < mine else -1
            for p in range(ideal, mine + step, step):
                moved[held[p]] = carried
                carried = ranked[held[p]]
            change = abs(value(moved, table, k) - now) * norm[query]
            if not np.isfinite(change):
                return WRONG, query
            force = min(change, leaf.bound) * (weight[row] if weight.size > 0 else 1.0)
            forces[r] = -force if ideal < mine else force
            total += force
        unit = pull.coefficient * (log_scale(total) if pull.summed else 1.0)
        for r in range(n):
            gradient[low + order[r]] += unit * forces[r]
            hessian[low + order[r]] += unit * abs(forces[r])
    return FINE, 0
