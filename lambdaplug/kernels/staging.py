"""Staging: from the rows that a measure's ``swap`` has filled to the tables that the pair loops read.

It is apart from the loops because a pair loop may only ``load`` what no store in the same function has written. Orders and
scores are independent of each other: deltas belong to the order, forces to the scores, and they need not agree.

Three things keep float32 honest:

- exp(s_i - s_max) is taken once per document, in float64. A query whose scores spread so far that products of it would
  underflow is WIDE: the exact loop takes it, in float64 with one exp per pair.
- where upper_i - lower_j is a difference of nearly equal numbers, each is kept as a sum of two float32.
- sums run over short blocks and are then added in float64.
"""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from .jit import compile_kernel, float32_from_bits, inlinable, line, load, located, per_function
from .layout import *
from .pairs import PairShape

FAST_SPREAD = 42.0  # exp(-42)^2 = 3e-37 is a normal float32, and so is its reciprocal
FAR = 1e38  # the exp of padding: the product of two such totals is infinite, its reciprocal 0, and so is the force
LOG2_E = 1.4426950408889634
LN_2 = 0.6931471805599453


SHAPE_FLAGS = group(*[FLAG] * len(PairShape._fields))


@inlinable
def exponential(x: float) -> Any:
    """exp(x) for x <= 0 to a float32's precision (exp(-80) below that), without a call, so that loops are vectorised."""
    x = x if x > -80.0 else -80.0
    power = np.floor(x * LOG2_E + 0.5)
    r = x - power * LN_2
    series = 1.0 + r * (1 / 6 + r * (1 / 24 + r * (1 / 120 + r * (1 / 720 + r / 5040)))) * r * r + (r + r * r * 0.5)
    return np.float32(series) * float32_from_bits(np.int32((np.int32(power) + np.int32(127)) << np.int32(23)))


@inlinable
def extent(score: Any, first: float, sigma: float, spread: float) -> tuple[float, bool]:
    """The highest score, and whether one is further below it than the spread.

    ``first``, the first document's, is the highest unless the order is not that of the scores. Counting becomes packed
    instructions, a maximum does not.
    """
    top = first
    while True:
        above = beyond = 0
        for r in range(len(score)):
            above += score[r] > top
            beyond += not sigma * (top - score[r]) <= spread
        if above == 0:
            return top, beyond > 0
        for r in range(len(score)):
            top = score[r] if score[r] > top else top


@inlinable
def pad(row: Any, value: float) -> None:
    """Fill what follows the documents of a padded row."""
    for r in range(len(row) - PADDING, len(row)):
        row[r] = np.float32(value)


@inlinable
def stage_column(column: Any, neutral: float, order: Any, start: int, to: Any) -> None:
    """Values by row as float32, in the list's order; a column may be empty."""
    for r in range(len(order)):
        to[r] = np.float32(column[start + order[r]] if column.size > 0 else neutral)
    pad(to, 0.0)


@inlinable
def stage_place(placed: Any, top: float, order: Any, start: int, place: Any, to: Any, to_rest: Any) -> None:
    """Places in two parts, below the top's: small distances far from the top need both."""
    for r in range(len(order)):
        place[r] = placed[start + order[r]]
        to[r] = np.float32(place[r] - top)
        to_rest[r] = np.float32(place[r] - top - np.float32(place[r] - top))
    pad(to, 0.0)
    pad(to_rest, 0.0)


@functools.cache
def stage_kernel(falling: bool) -> Callable[..., int]:
    """``kernel(documents, pull, spread, shape, levels, lists, tables) -> the kinds of queries there are``.

    Lists as they stand, BY_RANK or WIDE: the queries to which ``marks`` gives no kind yet. ``falling``: whole lists, put into
    the order of falling gains; those with a cut, and WIDE ones, are left over, which is said as BY_RANK. WIDE: scores times
    sigma lie further apart than ``spread``; -1: all are. What the loop of this shape does not read is not staged.
    """

    def stage_row(value: Any, ranked: Any, less: float, to: Any, to_rest: Any, fine: bool) -> None:
        """Values by rank as float32, and if ``fine`` what that leaves of them."""
        for r in range(len(ranked)):
            whole = load(value, ranked[r] if falling else r) - less
            to[r] = np.float32(whole)
            if fine:
                to_rest[r] = np.float32(whole - np.float32(whole))
        pad(to, 0.0)
        if fine:
            pad(to_rest, 0.0)

    staged = inlinable(stage_row)

    def kernel(documents: Any, pull: Any, spread: float, shape: Any, levels: Any, lists: Any, tables: Any) -> int:
        documents, pull, shape = Documents(*documents), Pull(*pull), PairShape(*shape)
        symmetric, graded = shape.symmetric and not shape.spaced, not shape.plain
        lists, tables, (begin, _, gains) = Lists(*lists), Tables(*tables), levels
        rows, fast, marks, offsets, first = tables.rows, tables.fast, tables.marks, lists.offsets, lists.first
        found = 0
        for query in range(first, lists.last):
            start, n, low = located(offsets, first, query)
            cut = marks[CUT, query - first]
            if cut < 0 or (cut == 0 and pull.floor == 0.0) or marks[KIND, query - first] != 0:
                continue
            padded, width = low + PADDING * (query - first), n + PADDING
            own, order, score = (
                line(documents.scores, 0, start, n),
                line(lists.order, 0, start, n),
                line(rows, SCORE, 0, n),
            )
            top, wide = extent(own, own[order[0]], pull.sigma, spread)
            if falling and (wide or cut < n - 1):  # not a whole list
                found |= BY_RANK
                continue
            kind = BY_GAIN if falling else WIDE if wide else BY_RANK
            marks[KIND, query - first] = kind
            found |= kind
            if wide:
                continue
            upper, upper_to = line(rows, UPPER, low, n), line(fast, UPPER32, padded, width)
            gain, gain_to = line(rows, GAIN, low, n), line(fast, GAIN32, padded, width)
            ranked = line(tables.places, RANKED, 0, n)
            if falling:  # every document to its place, in rank order among those of the same gain
                listed, taken = line(tables.places, LISTED, low, n), line(tables.places, TAKEN, 0, n)
                for r in range(n):
                    taken[r] = 0
                for r in range(n):
                    row = load(lists.order, start + r)
                    here = np.uint64(load(begin, start + row))
                    to = here + np.uint64(taken[here])
                    taken[here] += 1
                    listed[to], ranked[to], score[to], upper_to[to] = row, r, load(own, row), np.float32(load(upper, r))
                    gain_to[r] = gains[start + r]
                pad(upper_to, 0.0)
                pad(gain_to, 0.0)
                order = listed
            else:
                for r in range(n):  # documents by an ordinary read: packed, such a loop is slower than one by one
                    score[r] = load(own, order[r])
            # Padding exerts no force: it is no better and no worse than anything, or, without grades, infinitely far.
            # The other rows need finite numbers there.
            power, rank = line(fast, EXP, padded, width), line(fast, ORDER32, padded, width)
            for r in range(n):
                power[r] = exponential(pull.sigma * (score[r] - top))
            pad(power, 1.0 if graded else FAR)
            if falling and not symmetric:
                for r in range(n):
                    rank[r] = np.float32(ranked[r])
            elif graded:
                stage_column(documents.grade, 0.0, order, start, rank)
                pad(rank, np.nan)
            if not shape.given:
                if not falling:
                    least, here = (
                        gain[0],
                        1,
                    )  # only differences of gains matter: without their common part they fit float32
                    while np.isnan(least) and here < n:  # of documents without a label, which are in no pair
                        least = gain[here]
                        here += 1
                    staged(gain, ranked, least, gain_to, gain_to, False)
                if shape.fine or not falling:
                    staged(upper, ranked, 0.0, upper_to, line(fast, UPPER_REST, padded, width), shape.fine)
                if not symmetric:
                    to, to_rest = line(fast, LOWER32, padded, width), line(fast, LOWER_REST, padded, width)
                    staged(line(rows, LOWER, low, n), ranked, 0.0, to, to_rest, shape.fine)
                if shape.scaled or shape.spaced:
                    to = line(fast, SCALE32, padded, width)
                    staged(line(rows, SCALE, low, n), ranked, 0.0, to, to, False)
            if shape.weighed:
                stage_column(documents.weight, 1.0, order, start, line(fast, WEIGHT32, padded, width))
                stage_column(documents.tier, 0.0, order, start, line(fast, TIER32, padded, width))
                stage_column(documents.chosen, 1.0, order, start, line(fast, CHOSEN32, padded, width))
            if shape.distanced:
                to, to_rest = line(fast, PLACE32, padded, width), line(fast, PLACE_REST, padded, width)
                highest = documents.placed[start + lists.order[start]]
                stage_place(documents.placed, highest, order, start, line(rows, PLACE, low, n), to, to_rest)
        return found

    return compile_kernel(kernel, fastmath={"nsz", "contract"})


# --- swapping
# What a swap changes, by rank.


@per_function
def swap_kernel(
    swap: Callable[..., int], tabled: bool, value: Callable[..., float] | None = None
) -> Callable[..., None]:
    """``kernel(prepared, lists, rows, marks)``: the rows GAIN, UPPER, LOWER and SCALE, and each query's cut.

    The cut is -1 where a query has no pairs or the measure is not defined. No query has a kind yet. ``prepared`` has a
    table in place of discounts, of which a measure that is not ``tabled`` gets the first row.

    With the measure's ``value``, pairs below the cut-off count as well: of each document there, UPPER becomes the value with
    this document and the one at the cut-off exchanged, and SCALE -1. Those between a query's cut and the cut-off, whose
    pairs change nothing, get a SCALE of 0. There is no cut any more.
    """
    rows_of, raised = inlinable(swap), value is not None
    value_of = inlinable(value or no_value)

    def kernel(prepared: Any, lists: Any, rows: Any, marks: Any) -> None:
        prepared, lists = Prepared(*prepared), Lists(*lists)
        discount = prepared.discount if tabled else line(prepared.discount, 0, 0, prepared.discount.shape[1])
        for query in range(lists.first, lists.last):
            start, n, low = located(lists.offsets, lists.first, query)
            marks[KIND, query - lists.first] = 0
            marks[CUT, query - lists.first] = -1
            if prepared.norm[query] == 0.0 or n < 2:
                continue
            ranked, upper = line(rows, GAIN, low, n), line(rows, UPPER, low, n)
            lower, scale = line(rows, LOWER, low, n), line(rows, SCALE, low, n)
            for r in range(n):
                ranked[r] = load(prepared.gain, start + load(lists.order, start + r))
                scale[r] = 1.0
            cut = min(rows_of(ranked, discount, prepared.k, upper, lower, scale), n - 1)
            if raised:
                k = min(prepared.k, n)
                for r in range(cut, k):
                    scale[r] = 0.0
                for r in range(k, n):
                    ranked[k - 1], ranked[r] = ranked[r], ranked[k - 1]
                    upper[r] = value_of(ranked, discount, prepared.k)
                    ranked[k - 1], ranked[r] = ranked[r], ranked[k - 1]
                    scale[r] = -1.0
                cut = n - 1
            marks[CUT, query - lists.first] = cut

    return compile_kernel(kernel)


def no_value(gain: Any, discount: Any, k: int) -> float:
    return 0.0
