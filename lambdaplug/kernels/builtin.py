"""The boosters' own ranking objectives, operation by operation: the same float32 and float64, in the same order.

A tree is a discrete thing: a last bit in a gradient may choose another split, and from there on another model. So
nothing here is fast-math, nothing is reordered, and where the hosts look a number up in a table, so do these loops.
All write to ``sums`` (float32, gradient and hessian, scratch) as the hosts do, and then add to the float64 ``gradient``
and ``hessian``, the first query's rows at index 0 on. ``forces``, if not empty, belongs to the one query asked for:
forces[i, j] receives the force with which the pair of documents i and j moves i. Arguments come in groups: ``rows`` by
row, query or rank; ``lists`` the queries' offsets, the first and last of the task, and the ranking; ``into`` a
coefficient and the two arrays to add so many times to.
"""

import functools
import math
from typing import Any

import numpy as np

from .jit import inlinable, located
from .layout import *
from .round import leaf, level_of

TABLE_SIZE = 1 << 20
MASK = np.uint64(0xFFFFFFFF)
# minstd_rand of the C++ standard: x -> 48271 x mod 2^31 - 1, on 1 .. 2^31 - 2.
MINSTD = 48271
MINSTD_MODULUS = (1 << 31) - 1
# float literals in LightGBM, then used in double arithmetic
NEAR, LEAST = float(np.float32(0.01)), float(np.float32(1e-15))


@inlinable
def scale_of(total: float) -> float:
    """log2(1 + S) / S: both hosts' normalisation of a query whose forces add up to S."""
    return float(np.log2(1.0 + total)) / total if total > 0.0 else 1.0  # math.log2 came with Numba 0.59


@inlinable
def cleared(sums: Any, n: int) -> tuple[Any, Any]:
    """Scratch for a query's gradient and hessian, all 0."""
    pull, bend = sums[0, :n], sums[1, :n]
    for r in range(n):
        pull[r] = bend[r] = np.float32(0.0)
    return pull, bend


@inlinable
def note(forces: Any, high: int, low: int, force: float) -> None:
    if forces.size > 0:
        forces[high, low] += force
        forces[low, high] -= force


@inlinable
def add_weighed(own: Any, weight: Any, row: int, into: Any, at: int) -> None:
    """Add a document's gradient and hessian times its weight, if there are weights, in float32."""
    coefficient, gradient, hessian = into
    pull, bend = own
    if weight.size > 0:
        pull = pull * np.float32(weight[row])
        bend = bend * np.float32(weight[row])
    gradient[at] += coefficient * pull
    hessian[at] += coefficient * bend


@leaf(
    {},
    lookup=group(GIVEN, FLOAT, FLOAT),
    norm=FLAG,
    truncation=INTEGER,
    rows=group(GIVEN_TABLE, GIVEN, GIVEN, GIVEN),  # labels and gains, 1/ideal DCG, discounts, weights
    forces=TABLE,
    coefficient=FLOAT,
    level=INTEGER,
)
def lambdarank(leaf: Any, round: Any, room: Any, first: int, last: int) -> tuple[int, int]:
    """LightGBM's lambdarank. ``table``: the sigmoid at 2^20 steps from ``-reach`` on; gain[0] the labels, gain[1] the gains."""
    scores, offsets, order, forces, norm = round.scores, round.offsets, round.order, leaf.forces, leaf.norm
    (table, reach, sigmoid), (gain, inverse, discount, weight), truncation = leaf.lookup, leaf.rows, leaf.truncation
    into = leaf.coefficient, *level_of(room, leaf.level, offsets[last] - offsets[first])
    sums = np.empty((2, room.keys.shape[1]), np.float32)
    step = len(table) / (reach - -reach)
    for query in range(first, last):
        start, n, low_row = located(offsets, first, query)
        if n < 2:
            continue
        pull, bend = cleared(sums, n)
        spread = scores[start + order[start]] != scores[start + order[start + n - 1]]
        total = 0.0
        for i in range(min(n - 1, truncation)):
            for j in range(i + 1, n):
                high, low = order[start + i], order[start + j]
                if gain[0, start + high] == gain[0, start + low]:
                    continue
                if gain[0, start + high] < gain[0, start + low]:
                    high, low = low, high
                margin = scores[start + high] - scores[start + low]
                gap = gain[1, start + high] - gain[1, start + low]
                delta = gap * abs(discount[i] - discount[j]) * inverse[query]
                if norm and spread:
                    delta /= NEAR + abs(margin)
                if margin <= -reach:
                    rho = table[0]
                elif margin >= reach:
                    rho = table[len(table) - 1]
                else:
                    rho = table[int((margin + reach) * step)]
                curve = rho * (1.0 - rho)
                force = rho * (-sigmoid * delta)
                curve *= sigmoid * sigmoid * delta
                pull[low] -= np.float32(force)
                bend[low] += np.float32(curve)
                pull[high] += np.float32(force)
                bend[high] += np.float32(curve)
                total -= 2 * force
                note(forces, high, low, force)
        scale = scale_of(total) if norm else 1.0
        if forces.size > 0:
            forces *= scale
        for r in range(n):
            own = np.float32(pull[r] * scale), np.float32(bend[r] * scale)
            add_weighed(own, weight, start + r, into, low_row + r)
    return FINE, 0


@leaf({}, seed=INTEGER, iteration=INTEGER, rows=group(GIVEN, GIVEN), coefficient=FLOAT, level=INTEGER)
def xendcg(leaf: Any, round: Any, room: Any, first: int, last: int) -> tuple[int, int]:
    """LightGBM's rank_xendcg. Each query has a generator of its own, ``seed`` + its index, that runs on over the rounds."""
    factor, increment = np.uint64(214013), np.uint64(2531011)
    zero, one = np.uint64(0), np.uint64(1)
    sixteen, mask = np.uint64(16), np.uint64(0x7FFF)
    scores, offsets, seed, iteration, (gain, weight) = round.scores, round.offsets, leaf.seed, leaf.iteration, leaf.rows
    into = leaf.coefficient, *level_of(room, leaf.level, offsets[last] - offsets[first])
    states = np.empty((3, room.keys.shape[1]))
    for query in range(first, last):
        start, n, low_row = located(offsets, first, query)
        if n < 2:
            continue
        share, term = states[0, :n], states[1, :n]
        # The generator as it stands after so many rounds of n draws each: the same step squared, again and again.
        random = np.uint64(seed + query) & MASK
        times, multiplier, addend = np.uint64(iteration * n), factor, increment
        while times > zero:
            if times & one:
                random = (random * multiplier + addend) & MASK
            addend = (multiplier * addend + addend) & MASK
            multiplier = (multiplier * multiplier) & MASK
            times >>= one
        top = scores[start]
        for r in range(1, n):
            top = max(scores[start + r], top)
        total = 0.0
        for r in range(n):
            share[r] = math.exp(scores[start + r] - top)
            total += share[r]
        for r in range(n):
            share[r] /= total
        total = 0.0
        for r in range(n):
            random = (random * factor + increment) & MASK
            term[r] = gain[start + r] - np.float64((random >> sixteen) & mask) / 32768.0
            total += term[r]
        inverse = 1.0 / max(LEAST, total)
        total = 0.0
        for r in range(n):
            value = -term[r] * inverse + share[r]
            states[2, r] = np.float32(value)
            term[r] = value / (1.0 - share[r])
            total += term[r]
        second = 0.0
        for r in range(n):
            value = share[r] * (total - term[r])
            states[2, r] = np.float32(np.float32(states[2, r]) + np.float32(value))
            term[r] = value / (1.0 - share[r])
            second += term[r]
        for r in range(n):
            value = share[r] * (second - term[r])
            pull = np.float32(np.float32(states[2, r]) + np.float32(value))
            bend = np.float32(share[r] * (1.0 - share[r]))
            add_weighed((pull, bend), weight, start + r, into, low_row + r)
    return FINE, 0


@inlinable
def sigmoid32(x: Any) -> Any:
    """XGBoost's sigmoid of a float32, in float32."""
    return np.float32(1.0) / (math.exp(min(-x, np.float32(88.7))) + np.float32(1.0) + np.float32(1e-16))


@functools.cache
def rank_pairs(by_gain: bool, by_precision: bool, sampled: bool, unbiased: bool) -> Any:
    """XGBoost's rank:ndcg, rank:map and rank:pairwise; ``sampled``: its pair method mean, else topk.

    With lambdarank_unbiased, ``bias`` has t+ and t- by place in the query, and by row the sums of costs over
    t- and over t+, to be added to. A cost is log(1 + exp(+margin)) |dM|: the sign is XGBoost's.

    ``pairs`` is its num_pair_per_sample; ``begin[row]`` where the row's label begins in the query's list by falling
    label. ``distanced`` and ``scaled`` are its two normalisations.
    """

    @leaf(
        {},
        pairs=INTEGER,
        iteration=INTEGER,
        normed=group(FLAG, FLAG),
        rows=group(GIVEN, GIVEN, GIVEN, GIVEN, GIVEN_PLACES),  # label, gain, 1/ideal DCG, discounts, begin
        forces=TABLE,
        bias=group(GIVEN, GIVEN, NUMBERS, NUMBERS),
        coefficient=FLOAT,
        level=INTEGER,
    )
    def rank_pairs(leaf: Any, round: Any, room: Any, first: int, last: int) -> tuple[int, int]:
        (distanced, scaled), (above, below, plus, minus) = leaf.normed, leaf.bias
        scores, offsets, order, forces, iteration = (
            round.scores,
            round.offsets,
            round.order,
            leaf.forces,
            leaf.iteration,
        )
        (label, gain, inverse, discount, begin), pairs, coefficient = leaf.rows, leaf.pairs, leaf.coefficient
        gradient, hessian = level_of(room, leaf.level, offsets[last] - offsets[first])
        longest = room.keys.shape[1]
        sums, states, places = (
            np.empty((2, longest), np.float32),
            np.empty((2, longest)),
            np.empty((2, longest), np.int32),
        )
        for query in range(first, last):
            start, n, low_row = located(offsets, first, query)
            if n < 2:
                continue
            pull, bend = cleared(sums, n)
            ranked = order[start : start + n]
            best, worst = np.float32(scores[start + ranked[0]]), np.float32(scores[start + ranked[n - 1]])
            divided = distanced and best != worst
            relevant, reciprocal = states[0, :n], states[1, :n]
            if by_precision:
                found = 0.0
                summed = 0.0
                for r in range(n):
                    found += label[start + ranked[r]]
                    summed += label[start + ranked[r]] / np.float64(r + 1)
                    relevant[r] = found
                    reciprocal[r] = summed
            by_label, count = places[0, :n], places[1, :n]
            rows = min(n, pairs)
            if sampled:
                rows = n
                # Ranks by falling label, those of one label in rank order.
                for r in range(n):
                    count[r] = 0
                for r in range(n):
                    label_at = begin[start + ranked[r]]
                    by_label[label_at + count[label_at]] = r
                    count[label_at] += 1
            random = ((iteration + 1) * (len(offsets) - 1) + query) & 0xFFFFFFFF
            random %= MINSTD_MODULUS
            random = random if random > 0 else 1
            total = 0.0
            bucket = 0
            while bucket < rows:
                # topk: document by document, each with all below it. mean: label by label, each document of it with
                # so many drawn from the others.
                draws = 0
                here, others = 1, n - bucket - 1
                if sampled:
                    here = count[bucket]
                    others = n - here
                    draws = pairs if others > 0 else 0
                else:
                    draws = 1
                for _draw in range(draws):
                    for mine in range(bucket, bucket + here):
                        for step in range(1 if sampled else others):
                            i, j = mine, mine + 1 + step
                            if sampled:
                                # uniform_int_distribution of libstdc++: equal shares of the range, the rest refused.
                                share = (MINSTD_MODULUS - 2) // others
                                drawn = share * others
                                while drawn >= share * others:
                                    random = random * MINSTD % MINSTD_MODULUS
                                    drawn = random - 1
                                other = drawn // share
                                if other >= bucket:
                                    other += here
                                i, j = by_label[mine], by_label[other]
                            label_i, label_j = label[start + ranked[i]], label[start + ranked[j]]
                            if label_i == label_j:
                                continue
                            if label_i < label_j:
                                i, j = j, i
                            high, low = ranked[i], ranked[j]
                            delta = 1.0
                            if by_gain:
                                gain_i, gain_j = gain[start + high], gain[start + low]
                                now = gain_i * discount[i] + gain_j * discount[j]
                                swapped = gain_j * discount[i] + gain_i * discount[j]
                                delta = abs((now - swapped) * inverse[query])
                            elif by_precision:
                                a, b = min(i, j), max(i, j)
                                between = reciprocal[b - 1] - reciprocal[a]
                                if i > j:  # the relevant one is below
                                    change = relevant[b] / (b + 1.0) - (relevant[a] + 1.0) / (a + 1.0)
                                    delta = abs((change - between) / relevant[n - 1])
                                else:
                                    change = relevant[a] / (a + 1.0) - relevant[b] / (b + 1.0)
                                    delta = abs((change + between) / relevant[n - 1])
                            margin = np.float32(scores[start + high]) - np.float32(scores[start + low])
                            if divided:
                                delta /= np.float64(abs(margin)) + 0.01
                            rho = np.float64(sigmoid32(margin))
                            push = (rho - 1.0) * delta
                            bend64 = max(rho * (1.0 - rho), 1e-16) * delta * 2.0
                            if unbiased and high < len(above) and low < len(above):
                                cost = math.log(1.0 / (1.0 - rho)) * delta
                                if below[low] >= 1e-16:
                                    plus[start + high] += cost / below[low]
                                if above[high] >= 1e-16:
                                    minus[start + low] += cost / above[high]
                                    if below[low] >= 1e-16:
                                        push /= above[high] * below[low]
                                        bend64 /= above[high] * below[low]
                            force = np.float32(push)
                            curve = np.float32(bend64)
                            pull[high] += force
                            bend[high] += curve
                            pull[low] -= force
                            bend[low] += curve
                            total += -2.0 * np.float64(force)
                            note(forces, high, low, force)
                bucket += here
            scale = np.float32(1.0)
            if scaled:
                scale = np.float32(1.0 / pairs) if sampled else np.float32(scale_of(total))
            if forces.size > 0:
                forces *= scale
            for r in range(n):
                gradient[low_row + r] += coefficient * (pull[r] * scale)
                hessian[low_row + r] += coefficient * (bend[r] * scale)
        return FINE, 0

    return rank_pairs


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
