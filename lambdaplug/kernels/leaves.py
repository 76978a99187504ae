"""The kinds of leaves: what a round does to the queries first..last-1 of a task. See round.py.

Each returns FINE and 0, or what is wrong with which row or query. Sums have the first query's rows at index 0.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from .finishing import gathered as gathered
from .finishing import written as written
from .finishing import written_exactly as written_exactly
from .jit import inlinable, line, load, located, per_function
from .layout import *
from .round import WHOSE, leaf, level_of
from .staging import SHAPE_FLAGS

NOISE = function(NOTHING, GIVEN, DRAW, *SPAN, NUMBERS)
SWAP = function(NOTHING, PREPARED, LISTS, TABLE, INTEGER_TABLE)
RULE = group(INTEGER, INTEGER, INTEGER)
CHOOSE = function(NOTHING, RULE, GIVEN_PLACES, GIVEN, HASHES, LISTS, INTEGER_TABLE, TABLE, NUMBERS)
STAGE = function(INTEGER, DOCUMENTS, PULL, FLOAT, SHAPE_FLAGS, LEVELS, LISTS, TABLES)
LOOP = function(INTEGER, PULL, GIVEN, LISTS, TABLES, LEVELS, STILL, SUMS)
EXACT = function(
    INTEGER, PULL, GIVEN, DOCUMENTS, LISTS, INTEGER, group(TABLES, STILL), group(NUMBERS, NUMBERS, INTEGERS), BIAS
)
EMPTY = np.empty(0)


@leaf({})
def checked(leaf: Any, round: Any, room: Any, first: int, last: int) -> tuple[int, int]:
    """A look at the scores."""
    start, stop, broken = round.offsets[first], round.offsets[last], 0
    scores = line(round.scores, 0, start, stop - start)
    for r in range(len(scores)):  # counting becomes packed instructions
        broken += not abs(load(scores, r)) < np.inf
    for r in range(len(scores) if broken > 0 else 0):
        if not np.isfinite(scores[r]):
            return WRONG, start + r
    return FINE, 0


@leaf({"rank": RANK})
def ranked(leaf: Any, round: Any, room: Any, first: int, last: int) -> tuple[int, int]:
    """Each query's documents by score."""
    leaf.call.rank(round.scores, round.offsets, first, last, round.order, room.keys, room.documents)
    return FINE, 0


@inlinable
def draw_order(leaf: Any, sample: int, lower: Any, round: Any, room: Any, first: int, last: int) -> None:
    """Noisy scores, less ``lower`` if it is not empty, and their order.

    Leaves that draw the same one after the other share it.
    """
    hashes, seed, noise, number = leaf.draw
    whose = number << 32 | sample
    if whose == room.notes[WHOSE]:
        return
    offsets, noisy, order = round.offsets, room.noisy, room.noisy_order
    leaf.call.noise(round.scores, (hashes, seed, sample, noise), offsets, first, last, noisy)
    start, rows = offsets[first], offsets[last] - offsets[first]
    drawn, now, last_order = line(noisy, 0, start, rows), line(order, 0, start, rows), line(round.order, 0, start, rows)
    for r in range(rows if lower.size > 0 else 0):
        drawn[r] -= lower[start + r]
    for r in range(rows):  # to start from
        now[r] = last_order[r]
    room.notes[WHOSE] = whose if lower.size == 0 else -1
    leaf.call.rank(noisy, offsets, first, last, order, room.keys, room.documents)


DRAWN = group(HASHES, INTEGER, FLOAT, INTEGER)  # hashes of the labels, seed, noise, a number of its own


@leaf(
    {
        "noise": NOISE,
        "rank": RANK,
        "swap": SWAP,
        "choose": CHOOSE,
        "stage_by_gain": STAGE,
        "stage_by_rank": STAGE,
        "by_gain": LOOP,
        "by_rank": LOOP,
        "exact": EXACT,
    },
    prepared=PREPARED,
    columns=group(GIVEN, GIVEN, GIVEN, NUMBERS),  # grade, weight, tier, chosen
    spread=FLOAT,
    shape=SHAPE_FLAGS,
    levels=LEVELS,
    pull=PULL,
    window=INTEGER,
    strict=FLAG,  # a sum that is not finite is refused here; if not, in the host's precision in the end
    counts=INTEGERS,
    bias=BIAS,
    draw=DRAWN,
    samples=INTEGER,
    choice=group(RULE, GIVEN_PLACES, HASHES),
    level=INTEGER,
)
def pairs(leaf: Any, round: Any, room: Any, first: int, last: int) -> tuple[int, int]:
    """A LambdaRank: the deltas of an order, and forces at the scores."""
    call, tables, offsets, norm = leaf.call, room.tables, round.offsets, leaf.prepared[2]
    rows, _, _, marks = tables
    grade, weight, tier, chosen = leaf.columns
    rule, about, hashes = leaf.choice
    placed, order = round.scores, round.order
    sums = level_of(room, leaf.level, offsets[last] - offsets[first])
    still = rows, leaf.prepared[3]
    for sample in range(leaf.samples):
        if leaf.draw[2] > 0.0:
            placed, order = room.noisy, room.noisy_order
            draw_order(leaf, sample, EMPTY, round, room, first, last)
        lists = offsets, first, last, order
        call.swap(leaf.prepared, lists, rows, marks)
        if chosen.size > 0:
            call.choose(rule, about, round.scores, hashes, lists, marks, room.keys, chosen)
        found, query, documents = BY_RANK, -1, (round.scores, placed, grade, weight, tier, chosen)
        if leaf.levels[0].size > 0:
            found = call.stage_by_gain(documents, leaf.pull, leaf.spread, leaf.shape, leaf.levels, lists, tables)
        if found & BY_RANK:
            if not leaf.ready & STAGED:
                return LATER, STAGED
            found = (found & ~BY_RANK) | call.stage_by_rank(
                documents, leaf.pull, leaf.spread, leaf.shape, leaf.levels, lists, tables
            )
        if found & ~leaf.ready:
            return LATER, found
        if found & BY_RANK:
            query = call.by_rank(leaf.pull, norm, lists, tables, leaf.levels, still, sums)
        if found & BY_GAIN:
            call.by_gain(leaf.pull, norm, lists, tables, leaf.levels, still, sums)
        if found & WIDE and query < 0:
            into = sums[0], sums[1], leaf.counts
            query = call.exact(leaf.pull, norm, documents, lists, leaf.window, (tables, still), into, leaf.bias)
        if query >= 0 and leaf.strict:
            return WRONG, query
    return FINE, 0


PAIRS_GIVEN = group(GIVEN_INTEGERS, GIVEN_INTEGERS, GIVEN_INTEGERS)
GIVEN_DELTA = function(
    NOTHING, PAIRS_GIVEN, GIVEN, group(GIVEN, GIVEN), LISTS, group(TABLE, STILL, INTEGER_TABLE), PLACES, NUMBERS
)
NUMBERS_OF_PAIRS = group(FLOAT, FLOAT, FLOAT)  # sigma, the cost's parameter, a coefficient
GIVEN_FORCE = function(
    NOTHING, PAIRS_GIVEN, GIVEN, GIVEN, GIVEN, NUMBERS_OF_PAIRS, group(INTEGER, INTEGER, INTEGER), SUMS
)


@leaf(
    {"swap": SWAP, "delta": GIVEN_DELTA, "force": GIVEN_FORCE},
    pairs=PAIRS_GIVEN,
    weight=GIVEN,  # of the pairs
    sizes=NUMBERS,  # scratch, one per pair: by a measure's delta; or empty
    prepared=PREPARED,
    documents=GIVEN,  # weights, or empty
    numbers=NUMBERS_OF_PAIRS,
    level=INTEGER,
)
def given_pairs(leaf: Any, round: Any, room: Any, first: int, last: int) -> tuple[int, int]:
    """Pairs that are given one by one."""
    offsets, (rows, _, _, marks), call = round.offsets, room.tables, leaf.call
    prepared, sizes = leaf.prepared, leaf.weight
    if leaf.sizes.size > 0:
        lists = offsets, first, last, round.order
        call.swap(prepared, lists, rows, marks)
        tables, ranks = (rows, (rows, prepared[3]), marks), line(room.documents, 0, 0, room.documents.shape[1])
        call.delta(leaf.pairs, leaf.weight, (prepared[1], prepared[2]), lists, tables, ranks, leaf.sizes)
        sizes = leaf.sizes
    span, sums = (first, last, offsets[first]), level_of(room, leaf.level, offsets[last] - offsets[first])
    call.force(leaf.pairs, sizes, round.scores, leaf.documents, leaf.numbers, span, sums)
    return FINE, 0


VALUE = function(NOTHING, GIVEN, GIVEN_TABLE, INTEGER, LISTS, NUMBERS, NUMBERS)


@leaf({"value": VALUE}, gain=GIVEN, discount=GIVEN_TABLE, k=INTEGER, order=PLACES, out=NUMBERS)
def measured(leaf: Any, round: Any, room: Any, first: int, last: int) -> tuple[int, int]:
    """A measure's value of each query, before its norm; ``order`` in place of the round's, if it is not empty."""
    order = leaf.order if leaf.order.size > 0 else round.order
    lists, ranked = (round.offsets, first, last, order), line(room.keys, 0, 0, room.keys.shape[1])
    leaf.call.value(leaf.gain, leaf.discount, leaf.k, lists, ranked, leaf.out)
    return FINE, 0


@per_function
def expected(function: Callable[..., float]) -> Any:
    """A measure's mean over all orders of equal scores, by its ``expected``, before its norm; ``order``: the best one."""
    mean = inlinable(function)

    @leaf({}, gain=GIVEN, discount=GIVEN, k=INTEGER, order=PLACES, out=NUMBERS)
    def expected(leaf: Any, round: Any, room: Any, first: int, last: int) -> tuple[int, int]:
        scores, offsets, order, gain, out = round.scores, round.offsets, leaf.order, leaf.gain, leaf.out
        ranked, ends = line(room.keys, 0, 0, room.keys.shape[1]), np.empty(room.keys.shape[1], np.int64)
        for query in range(first, last):
            start, n, _ = located(offsets, first, query)
            for r in range(n - 1, -1, -1):  # ends[r]: where the stretch of rank r's score ends
                row = start + order[start + r]
                ranked[r], ends[r] = gain[row], r + 1
                if r + 1 < n and scores[row] == scores[start + order[start + r + 1]]:
                    ends[r] = ends[r + 1]
            out[query] = mean(ranked[:n], ends[:n], leaf.discount, leaf.k)
        return FINE, 0

    return expected
