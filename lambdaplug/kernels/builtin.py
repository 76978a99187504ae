"""The boosters' own ranking objectives, operation by operation: the same float32 and float64, in the same order.

A tree is a discrete thing: a last bit in a gradient may choose another split, and from there on another model. So
nothing here is fast-math, nothing is reordered, and where the hosts look a number up in a table, so do these loops.
All sum a query up in float32, as the hosts do, and what comes of it is added to the float64 gradient and hessian.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .jit import inlinable, line, located
from .layout import *
from .pairs import log_scale
from .round import leaf, level_of

TABLE_SIZE = 1 << 20
MASK = np.uint64(0xFFFFFFFF)
# minstd_rand of the C++ standard: x -> 48271 x mod 2^31 - 1, on 1 .. 2^31 - 2.
MINSTD = 48271
MINSTD_MODULUS = (1 << 31) - 1
# float literals in LightGBM, then used in double arithmetic
NEAR, LEAST = float(np.float32(0.01)), float(np.float32(1e-15))
BY_GAIN, BY_PRECISION, BY_NOTHING = range(3)  # how XGBoost weighs a pair


def built_in(**fields: Any) -> Callable[[Callable[..., float]], Any]:
    """Makes a kind of leaf of ``sum_up(leaf, query, start, scores, order, sums)``, a function of one query that begins at
    row ``start``. It adds to the sums, gradient and hessian, and returns what they are to be multiplied by.

    ``forces``, if not empty, belongs to the one query asked for: forces[i, j] receives the force with which the pair of
    documents i and j moves i.
    """

    def make(sum_up: Callable[..., float]) -> Any:
        summed = inlinable(sum_up)

        @leaf({}, **fields, weight=GIVEN, forces=TABLE, coefficient=FLOAT, level=INTEGER)
        def queries(leaf: Any, round: Any, room: Any, first: int, last: int) -> tuple[int, int]:
            offsets, weight, forces, coefficient = round.offsets, leaf.weight, leaf.forces, leaf.coefficient
            gradient, hessian = level_of(room, leaf.level, offsets[last] - offsets[first])
            sums = np.empty((2, room.keys.shape[1]), np.float32)
            for query in range(first, last):
                start, n, low = located(offsets, first, query)
                if n < 2:
                    continue
                for r in range(n):
                    sums[0, r] = sums[1, r] = 0.0
                scores, order = line(round.scores, 0, start, n), line(round.order, 0, start, n)
                scale = summed(leaf, query, start, scores, order, sums)
                if forces.size > 0:
                    forces *= scale
                for r in range(n):
                    pull, bend = np.float32(sums[0, r] * scale), np.float32(sums[1, r] * scale)
                    if weight.size > 0:
                        pull *= np.float32(weight[start + r])
                        bend *= np.float32(weight[start + r])
                    gradient[low + r] += coefficient * pull
                    hessian[low + r] += coefficient * bend
            return FINE, 0

        return queries

    return make


@inlinable
def push(sums: Any, forces: Any, high: int, low: int, force: float, curve: float) -> None:
    """A pair's force and curvature, added to its two documents."""
    sums[0, high] += np.float32(force)
    sums[0, low] -= np.float32(force)
    sums[1, high] += np.float32(curve)
    sums[1, low] += np.float32(curve)
    if forces.size > 0:
        forces[high, low] += force
        forces[low, high] -= force


@built_in(
    lookup=group(GIVEN, FLOAT, FLOAT),
    norm=FLAG,
    truncation=INTEGER,
    rows=group(GIVEN, GIVEN, GIVEN, GIVEN),  # labels, gains, 1/ideal DCG, discounts
)
def lambdarank(leaf: Any, query: int, start: int, scores: Any, order: Any, sums: Any) -> float:
    """LightGBM's lambdarank. ``table``: the sigmoid at 2^20 steps from ``-reach`` on."""
    (table, reach, sigmoid), (labels, gains, inverse, discount), forces = leaf.lookup, leaf.rows, leaf.forces
    n, step, total = len(order), len(table) / (reach - -reach), 0.0
    near = leaf.norm and scores[order[0]] != scores[order[n - 1]]
    for i in range(min(n - 1, leaf.truncation)):
        for j in range(i + 1, n):
            high, low = order[i], order[j]
            if labels[start + high] == labels[start + low]:
                continue
            if labels[start + high] < labels[start + low]:
                high, low = low, high
            margin = scores[high] - scores[low]
            delta = (gains[start + high] - gains[start + low]) * abs(discount[i] - discount[j]) * inverse[query]
            if near:
                delta /= NEAR + abs(margin)
            rho = table[int(min(max((margin + reach) * step, 0.0), len(table) - 1.0))]
            force = rho * (-sigmoid * delta)
            push(sums, forces, high, low, force, rho * (1.0 - rho) * (sigmoid * sigmoid * delta))
            total -= 2 * force
    return log_scale(total) if leaf.norm else 1.0


@inlinable
def stepped(random: Any, factor: Any, increment: Any, times: int) -> Any:
    """LightGBM's generator after so many draws: the same step squared, again and again."""
    while times > 0:
        if times & 1:
            random = (random * factor + increment) & MASK
        increment = (factor * increment + increment) & MASK
        factor = (factor * factor) & MASK
        times >>= 1
    return random


@built_in(seed=INTEGER, iteration=INTEGER, gain=GIVEN)
def xendcg(leaf: Any, query: int, start: int, scores: Any, order: Any, sums: Any) -> float:
    """LightGBM's rank_xendcg. Each query has a generator of its own, ``seed`` + its index, that runs on over the rounds."""
    factor, increment = np.uint64(214013), np.uint64(2531011)
    n, states = len(scores), np.empty((2, len(scores)))
    share, term = states[0], states[1]
    random = stepped(np.uint64(leaf.seed + query) & MASK, factor, increment, leaf.iteration * n)
    top = scores[order[0]]
    total = 0.0
    for r in range(n):
        share[r] = math.exp(scores[r] - top)
        total += share[r]
    for r in range(n):
        share[r] /= total
    total = 0.0
    for r in range(n):
        random = (random * factor + increment) & MASK
        term[r] = leaf.gain[start + r] - np.float64((random >> np.uint64(16)) & np.uint64(0x7FFF)) / 32768.0
        total += term[r]
    inverse = 1.0 / max(LEAST, total)
    total = 0.0
    for r in range(n):
        value = -term[r] * inverse + share[r]
        sums[0, r] = np.float32(value)
        sums[1, r] = np.float32(share[r] * (1.0 - share[r]))
        term[r] = value / (1.0 - share[r])
        total += term[r]
    second = 0.0
    for r in range(n):
        value = share[r] * (total - term[r])
        sums[0, r] += np.float32(value)
        term[r] = value / (1.0 - share[r])
        second += term[r]
    for r in range(n):
        sums[0, r] += np.float32(share[r] * (second - term[r]))
    return 1.0


@inlinable
def sigmoid32(x: Any) -> Any:
    """XGBoost's sigmoid of a float32, in float32."""
    return np.float32(1.0) / (math.exp(min(-x, np.float32(88.7))) + np.float32(1.0) + np.float32(1e-16))


@inlinable
def exchanged(found: Any, summed: Any, i: int, j: int) -> float:
    """What exchanging two ranks, the relevant document at i, changes of the average precision.

    ``found`` are the relevant documents down to each rank, ``summed`` the sums of 1/rank over them.
    """
    a, b = min(i, j), max(i, j)
    between, last = summed[b - 1] - summed[a], found[b] / (b + 1.0)
    if i > j:
        change = last - (found[a] + 1.0) / (a + 1.0) - between
    else:
        change = found[a] / (a + 1.0) - last + between
    return float(abs(change / found[len(found) - 1]))


@inlinable
def drawn_pairs(random: int, pairs: int, start: int, order: Any, begin: Any) -> Any:
    """Ranks in pairs, as XGBoost draws them: label by label, each document with one of another label, so many times."""
    n = len(order)
    by_label, count = np.empty(n, np.int64), np.zeros(n, np.int64)
    for r in range(n):  # ranks by falling label, those of one label in rank order
        at = begin[start + order[r]]
        by_label[at + count[at]] = r
        count[at] += 1
    found, bucket, drawn = np.empty((2, n * pairs if count[0] < n else 0), np.int64), 0, 0
    while drawn < found.shape[1]:
        here, others = count[bucket], n - count[bucket]
        # uniform_int_distribution of libstdc++: equal shares of the range, the rest refused.
        share = (MINSTD_MODULUS - 2) // others
        for k in range(here * pairs):
            random = random * MINSTD % MINSTD_MODULUS
            while random - 1 >= share * others:
                random = random * MINSTD % MINSTD_MODULUS
            other = (random - 1) // share
            found[0, drawn] = by_label[bucket + k % here]
            found[1, drawn] = by_label[other + here if other >= bucket else other]
            drawn += 1
        bucket += here
    return found


@built_in(
    kind=INTEGER,
    sampled=FLAG,  # its pair method mean, else topk
    pairs=INTEGER,  # its num_pair_per_sample
    iteration=INTEGER,
    normed=group(FLAG, FLAG),  # its normalisations: by the distance of scores, and by the summed force
    rows=group(GIVEN, GIVEN, GIVEN, GIVEN_PLACES),  # gain, 1/ideal DCG, discounts, where a label's list begins
    bias=group(GIVEN, GIVEN, NUMBERS, NUMBERS),
)
def rank_pairs(leaf: Any, query: int, start: int, scores: Any, order: Any, sums: Any) -> Any:
    """XGBoost's rank:ndcg, rank:map and rank:pairwise.

    With lambdarank_unbiased, ``bias`` has t+ and t- by place in the query, and by row the sums of costs over
    t- and over t+, to be added to. A cost is log(1 + exp(+margin)) |dM|: the sign is XGBoost's.
    """
    (gains, inverse, discount, begin), (above, below, plus, minus) = leaf.rows, leaf.bias
    (distanced, scaled), kind, sampled, forces = leaf.normed, leaf.kind, leaf.sampled, leaf.forces
    n = len(order)
    gain, found, summed = (
        np.empty(n),
        np.empty(n),
        np.empty(n),
    )  # by rank: of itself, and the sums of gain and gain/rank
    for r in range(n):
        gain[r] = gains[start + order[r]]
        found[r] = gain[r] + (found[r - 1] if r > 0 else 0.0)
        summed[r] = gain[r] / (r + 1.0) + (summed[r - 1] if r > 0 else 0.0)
    drawn, visits = np.empty((2, 0), np.int64), min(n, leaf.pairs)
    if sampled:
        seed = (((leaf.iteration + 1) * len(inverse) + query) & 0xFFFFFFFF) % MINSTD_MODULUS
        drawn = drawn_pairs(max(seed, 1), leaf.pairs, start, order, begin)
        visits = drawn.shape[1]
    near = distanced and np.float32(scores[order[0]]) != np.float32(scores[order[n - 1]])
    total = 0.0
    for visit in range(visits):  # one drawn pair; or one document, and all below it
        mine = drawn[0, visit] if sampled else visit
        since, until = (drawn[1, visit], drawn[1, visit] + 1) if sampled else (visit + 1, n)
        for other in range(since, until):
            if gain[mine] == gain[other]:
                continue
            i, j = mine, other
            if gain[mine] < gain[other]:
                i, j = other, mine
            high, low = order[i], order[j]
            delta = 1.0
            if kind == BY_GAIN:
                now = gain[i] * discount[i] + gain[j] * discount[j]
                delta = abs((now - (gain[j] * discount[i] + gain[i] * discount[j])) * inverse[query])
            elif kind == BY_PRECISION:
                delta = exchanged(found, summed, i, j)
            margin = np.float32(scores[high]) - np.float32(scores[low])
            if near:
                delta /= np.float64(abs(margin)) + 0.01
            rho = np.float64(sigmoid32(margin))
            force, curve = (rho - 1.0) * delta, max(rho * (1.0 - rho), 1e-16) * delta * 2.0
            if max(high, low) < len(above):
                cost = math.log(1.0 / (1.0 - rho)) * delta
                if below[low] >= 1e-16:
                    plus[start + high] += cost / below[low]
                if above[high] >= 1e-16:
                    minus[start + low] += cost / above[high]
                if below[low] >= 1e-16 and above[high] >= 1e-16:
                    force /= above[high] * below[low]
                    curve /= above[high] * below[low]
            push(sums, forces, high, low, np.float32(force), np.float32(curve))
            total -= 2.0 * np.float64(np.float32(force))
    if not scaled:
        return np.float32(1.0)
    return np.float32(1.0 / leaf.pairs) if sampled else np.float32(log_scale(total))


@leaf({}, weight=GIVEN, norm=FLOAT)
def weighed_as_xgboost(leaf: Any, round: Any, room: Any, first: int, last: int) -> tuple[int, int]:
    """XGBoost's weights of queries: w n / sum(w), in two float32 products."""
    offsets, norm = round.offsets, np.float32(leaf.norm)
    gradient, hessian = level_of(room, 0, offsets[last] - offsets[first])
    for query in range(first, last):
        weight = np.float32(leaf.weight[query])
        for row in range(offsets[query] - offsets[first], offsets[query + 1] - offsets[first]):
            gradient[row] = (np.float32(gradient[row]) * weight) * norm
            hessian[row] = (np.float32(hessian[row]) * weight) * norm
    return FINE, 0
