"""The kinds of leaves: what a round does to the queries first..last-1 of a task. See round.py.

Each returns FINE and 0, or what is wrong with which row or query. Sums have the first query's rows at index 0.
"""

from typing import Any

import numpy as np

from .jit import inlinable, line
from .layout import *
from .round import WHOSE, leaf, level_of
from .staging import WANTED

NOISE = function(NOTHING, GIVEN, DRAW, *SPAN, NUMBERS)
SWAP = function(NOTHING, PREPARED, LISTS, TABLE, INTEGER_TABLE)
RULE, ABOUT = group(INTEGER, INTEGER, INTEGER), group(GIVEN, GIVEN_PLACES)
CHOOSE = function(NOTHING, RULE, ABOUT, GIVEN, HASHES, LISTS, INTEGER_TABLE, TABLE, NUMBERS)
STAGE_BY_GAIN = function(INTEGER, group(GIVEN, GIVEN, GIVEN), WANTED, GIVEN_PLACES, LISTS, TABLES)
STAGE_BY_RANK = function(INTEGER, DOCUMENTS, WANTED, LISTS, TABLES)
LOOP = function(INTEGER, PULL, GIVEN, LISTS, TABLES, LEVELS, STILL, SUMS)
EXACT = function(INTEGER, PULL, GIVEN, LISTS, INTEGER, TABLES, STILL, group(NUMBERS, NUMBERS, INTEGERS), BIAS)
EMPTY = np.empty(0)


@leaf({"rank": RANK})
def ranked(leaf: Any, round: Any, room: Any, first: int, last: int) -> tuple[int, int]:
    """Each query's documents by score; or only a look at the scores."""
    row = leaf.call.rank(round.scores, round.offsets, first, last, round.order, room.keys, room.documents)
    return FINE if row < 0 else BAD_SCORE, row


@inlinable
def draw_order(call: Any, draw: Any, sample: int, lower: Any, round: Any, room: Any, first: int, last: int) -> Any:
    """Noisy scores, less ``lower`` if it is not empty, and their order; a row that is not finite, or -1.

    Leaves that draw the same one after the other share it.
    """
    hashes, seed, noise, number, sorts = draw
    whose = number << 32 | sample
    if whose == room.notes[WHOSE]:
        return -1
    offsets, noisy, order = round.offsets, room.noisy, room.noisy_order
    call.noise(round.scores, (hashes, seed, sample, noise), offsets, first, last, noisy)
    for row in range(offsets[first], offsets[last] if lower.size > 0 else offsets[first]):
        noisy[row] -= lower[row]
    for row in range(offsets[first], offsets[last] if sorts else offsets[first]):
        order[row] = round.order[row]  # to start from
    room.notes[WHOSE] = whose if lower.size == 0 else -1
    return call.rank(noisy, offsets, first, last, order, room.keys, room.documents)


DRAWN = group(HASHES, INTEGER, FLOAT, INTEGER, FLAG)  # hashes of the labels, seed, noise, a number of its own, sorts


@leaf(
    {
        "noise": NOISE,
        "rank": RANK,
        "swap": SWAP,
        "choose": CHOOSE,
        "stage_by_gain": STAGE_BY_GAIN,
        "stage_by_rank": STAGE_BY_RANK,
        "by_gain": LOOP,
        "by_rank": LOOP,
        "exact": EXACT,
    },
    prepared=PREPARED,
    columns=group(GIVEN, GIVEN, GIVEN, NUMBERS),  # grade, weight, tier, chosen
    wanted=WANTED,
    levels=LEVELS,
    pull=PULL,
    window=INTEGER,
    strict=FLAG,  # a sum that is not finite is refused here; if not, in the host's precision in the end
    counts=INTEGERS,
    bias=BIAS,
    draw=DRAWN,
    samples=INTEGER,
    choice=group(RULE, ABOUT, HASHES),
    level=INTEGER,
)
def pairs(leaf: Any, round: Any, room: Any, first: int, last: int) -> tuple[int, int]:
    """A LambdaRank: the deltas of an order, and forces at the scores."""
    call, tables, offsets, norm = leaf.call, room.tables, round.offsets, leaf.prepared[2]
    rows, _, _, marks = tables
    grade, weight, tier, chosen = leaf.columns
    rule, about, hashes = leaf.choice
    begin, placed, order = leaf.levels[0], round.scores, round.order
    sums = level_of(room, leaf.level, offsets[last] - offsets[first])
    still = rows, leaf.prepared[3]
    for sample in range(leaf.samples):
        if leaf.draw[2] > 0.0:
            placed, order = room.noisy, room.noisy_order
            row = draw_order(call, leaf.draw, sample, EMPTY, round, room, first, last)
            if row >= 0:
                return BAD_SCORE, row
        lists = offsets, first, last, order
        call.swap(leaf.prepared, lists, rows, marks)
        if chosen.size > 0:
            call.choose(rule, about, round.scores, hashes, lists, marks, room.keys, chosen)
        found, query = BY_RANK, -1
        if begin.size > 0:
            found = call.stage_by_gain((round.scores, placed, weight), leaf.wanted, begin, lists, tables)
        if found & BY_RANK:
            if not leaf.ready & STAGED:
                return LATER, STAGED
            documents = round.scores, placed, grade, weight, tier, chosen
            found = (found & ~BY_RANK) | call.stage_by_rank(documents, leaf.wanted, lists, tables)
        if found & ~leaf.ready:
            return LATER, found
        if found & BY_RANK:
            query = call.by_rank(leaf.pull, norm, lists, tables, leaf.levels, still, sums)
        if found & BY_GAIN:
            call.by_gain(leaf.pull, norm, lists, tables, leaf.levels, still, sums)
        if found & WIDE and query < 0:
            into = sums[0], sums[1], leaf.counts
            query = call.exact(leaf.pull, norm, lists, leaf.window, tables, still, into, leaf.bias)
        if query >= 0 and leaf.strict:
            return BAD_CHANGE, query
    return FINE, 0


PLACE = function(INTEGER, PREPARED, group(GIVEN, GIVEN), FLOAT, PULL, LISTS, TABLE, SUMS)


@leaf(
    {"place": PLACE},
    prepared=PREPARED,
    columns=group(GIVEN, GIVEN),  # weight, tier
    bound=FLOAT,
    pull=PULL,
    level=INTEGER,
)
def places(leaf: Any, round: Any, room: Any, first: int, last: int) -> tuple[int, int]:
    """Forces on single documents: each moved to its ideal place."""
    lists = round.offsets, first, last, round.order
    sums = level_of(room, leaf.level, round.offsets[last] - round.offsets[first])
    query = leaf.call.place(leaf.prepared, leaf.columns, leaf.bound, leaf.pull, lists, room.keys, sums)
    return FINE if query < 0 else BAD_CHANGE, query


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


@leaf({"value": VALUE}, gain=GIVEN, discount=GIVEN_TABLE, k=INTEGER, out=NUMBERS)
def measured(leaf: Any, round: Any, room: Any, first: int, last: int) -> tuple[int, int]:
    """A measure's value of each query, before its norm."""
    lists, ranked = (round.offsets, first, last, round.order), line(room.keys, 0, 0, room.keys.shape[1])
    leaf.call.value(leaf.gain, leaf.discount, leaf.k, lists, ranked, leaf.out)
    return FINE, 0


TIED = function(NOTHING, GIVEN, GIVEN, FLAG, GIVEN, INTEGER, LISTS, group(NUMBERS, INTEGERS), NUMBERS)


@leaf({"value": TIED}, gain=GIVEN, discount=GIVEN, k=INTEGER, descending=FLAG, out=NUMBERS)
def measured_ties(leaf: Any, round: Any, room: Any, first: int, last: int) -> tuple[int, int]:
    """The same where equal scores stand by gain, or in all orders."""
    longest, lists = room.keys.shape[1], (round.offsets, first, last, round.order)
    scratch = line(room.keys, 0, 0, longest), np.empty(longest, np.int64)
    leaf.call.value(leaf.gain, round.scores, leaf.descending, leaf.discount, leaf.k, lists, scratch, leaf.out)
    return FINE, 0


SHAPE = function(NOTHING, NUMBERS, NUMBERS, FLAG, FLAG, *SPAN)


@leaf({"shape": SHAPE}, std=FLAG, unit=FLAG, coefficient=FLOAT, level=INTEGER)
def gathered(leaf: Any, round: Any, room: Any, first: int, last: int) -> tuple[int, int]:
    """Add the sum of the next level, in a shape of its own."""
    n = round.offsets[last] - round.offsets[first]
    gradient, hessian = level_of(room, leaf.level + 1, n)
    to_gradient, to_hessian = level_of(room, leaf.level, n)
    leaf.call.shape(gradient, hessian, leaf.std, leaf.unit, round.offsets, first, last)
    for row in range(n):
        to_gradient[row] += leaf.coefficient * gradient[row]
        to_hessian[row] += leaf.coefficient * hessian[row]
        gradient[row] = hessian[row] = 0.0
    return FINE, 0


def written_as(numbers: Any) -> Any:
    @leaf(
        {"shape": SHAPE, "finish": function(INTEGER, SUMS, GIVEN, FLOAT, *SPAN, group(numbers, numbers))},
        std=FLAG,
        unit=FLAG,
        weight=GIVEN,
        floor=FLOAT,
        out=group(numbers, numbers),
    )
    def written(leaf: Any, round: Any, room: Any, first: int, last: int) -> tuple[int, int]:
        """The first level's sum in its shape, weighed and in the host's precision."""
        n = round.offsets[last] - round.offsets[first]
        sums = gradient, hessian = level_of(room, 0, n)
        if leaf.std or leaf.unit:
            leaf.call.shape(gradient, hessian, leaf.std, leaf.unit, round.offsets, first, last)
        row = leaf.call.finish(sums, leaf.weight, leaf.floor, round.offsets, first, last, leaf.out)
        for r in range(n):
            gradient[r] = hessian[r] = 0.0
        return FINE if row < 0 else BAD_RESULT, row

    return written


written, written_exactly = written_as(NUMBERS32), written_as(NUMBERS)
