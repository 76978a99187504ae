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
from typing import Any, NamedTuple

import numpy as np

from .jit import compile_kernel, float32_from_bits, inlinable, line, load, located, per_function
from .layout import *

FAST_SPREAD = 42.0  # exp(-42)^2 = 3e-37 is a normal float32, and so is its reciprocal
FAR = 1e38  # the exp of padding: the product of two such totals is infinite, its reciprocal 0, and so is the force
LOG2_E = 1.4426950408889634
LN_2 = 0.6931471805599453


class Wanted(NamedTuple):
    """What the pair loop that follows reads; arguments, because staging is compiled once for all."""

    sigma: float
    spread: float = FAST_SPREAD  # of the scores times sigma, beyond which a query is WIDE; -1: every one is
    by_rows: bool = False  # upper and lower; if not, the exp and the grade alone
    graded: bool = True  # the grades; if not, gains tell which document is better
    symmetric: bool = False
    ordered: bool = False
    fine: bool = False
    distanced: bool = False
    weighed: bool = False  # weights and tiers in float64
    floored: bool = False  # pairs below the cut have a size as well
    spaced: bool = False  # scale is a table by the distance of two ranks, and lower is the rank


WANTED = group(FLOAT, FLOAT, *[FLAG] * 9)


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
def stage_exactly(documents: Documents, order: Any, start: int, low: int, rows: Any) -> None:
    """Places, grades, weights, tiers and choices in float64, by rank."""
    n = len(order)
    place = line(rows, PLACE, low, n)
    grade, weight, tier = line(rows, GRADE, low, n), line(rows, WEIGHT, low, n), line(rows, TIER, low, n)
    chosen = line(rows, CHOSEN, low, n)
    for r in range(n):
        row = np.uint64(start + order[r])
        place[r] = load(documents.placed, row)
        grade[r] = load(documents.grade, row)
        weight[r] = load(documents.weight, row) if documents.weight.size > 0 else 1.0
        tier[r] = load(documents.tier, row) if documents.tier.size > 0 else 0.0
        chosen[r] = load(documents.chosen, row) if documents.chosen.size > 0 else 1.0


@inlinable
def pad(row: Any, value: float) -> None:
    """Fill what follows the documents of a padded row."""
    for r in range(len(row) - PADDING, len(row)):
        row[r] = np.float32(value)


@inlinable
def stage_parts(value: Any, part: int, rest: int, fine: bool, fast: Any, padded: int) -> None:
    """A row as float32, and if ``fine`` what that leaves of it."""
    n = len(value)
    to, to_rest = line(fast, part, padded, n + PADDING), line(fast, rest, padded, n + PADDING)
    for r in range(n):
        to[r] = np.float32(load(value, r))
    pad(to, 0.0)
    if fine:
        for r in range(n):
            to_rest[r] = np.float32(load(value, r) - to[r])
        pad(to_rest, 0.0)


@inlinable
def stage_column(column: Any, documents: Any, start: int, to: int, fast: Any, padded: int) -> None:
    """Values by row as float32, by rank; a column may be empty."""
    if column.size > 0:
        n = len(documents)
        row = line(fast, to, padded, n + PADDING)
        for r in range(n):
            row[r] = np.float32(column[start + documents[r]])
        pad(row, 0.0)


@inlinable
def stage_distance(place: Any, top: float, fast: Any, padded: int) -> None:
    """Places in two parts: small distances far from the top need both."""
    n = len(place)
    to, rest = line(fast, PLACE32, padded, n + PADDING), line(fast, PLACE_REST, padded, n + PADDING)
    for r in range(n):
        value = place[r] - top
        to[r] = np.float32(value)
        rest[r] = np.float32(value - np.float32(value))
    pad(to, 0.0)
    pad(rest, 0.0)


@functools.cache
def stage_by_gain_kernel() -> Callable[..., int]:
    """``kernel((scores, placed, weight), wanted, begin, lists, tables) -> the kinds of queries there are, BY_RANK: those left over``.

    Whole lists, put into the order of falling gains: ``begin`` is where each document's gain begins in that order. Left
    over are lists with a cut, and WIDE ones.
    """

    def kernel(documents: Any, wanted: Any, begin: Any, lists: Any, tables: Any) -> int:
        wanted, lists, tables = Wanted(*wanted), Lists(*lists), Tables(*tables)
        scores, placed, weight = documents  # of a data set's columns no more than it reads: each takes time to compile
        rows, fast = tables.rows, tables.fast
        offsets, first, order, marks = lists.offsets, lists.first, lists.order, tables.marks
        sigma, fine, symmetric, ordered = wanted.sigma, wanted.fine, wanted.symmetric, wanted.ordered
        found = 0
        for query in range(first, lists.last):
            start, cut = offsets[query], marks[CUT, query - first]
            n = offsets[query + 1] - start
            marks[KIND, query - first] = 0
            if cut <= 0:
                continue
            if cut < n - 1:  # not a whole list
                found |= BY_RANK
                continue
            own = line(scores, 0, start, n)
            top, wide = extent(own, own[order[start]], sigma, wanted.spread)
            if wide:
                found |= BY_RANK
                continue
            low = start - offsets[first]
            padded = low + PADDING * (query - first)
            found |= BY_GAIN
            marks[KIND, query - first] = BY_GAIN
            document, taken = line(tables.places, DOCUMENT, low, n), line(tables.places, TAKEN, low, n)
            score, scale = line(rows, SCORE, low, n), line(rows, SCALE, low, n)
            upper, lower = line(rows, UPPER, low, n), line(rows, LOWER, low, n)
            upper_to, upper_rest = line(fast, UPPER32, padded, n), line(fast, UPPER_REST, padded, n)
            lower_to, lower_rest = line(fast, LOWER32, padded, n), line(fast, LOWER_REST, padded, n)
            rank_to, scale_to = line(fast, RANK32, padded, n), line(fast, SCALE32, padded, n)
            for r in range(n):
                taken[r] = 0
            for r in range(n):  # every document to its place, in rank order among those of the same gain
                row = load(order, start + r)
                here = np.uint64(load(begin, start + row))
                to = here + np.uint64(taken[here])
                taken[here] += 1
                document[to] = row
                score[to] = load(own, row)
                value = load(upper, r)
                upper_to[to] = np.float32(value)
                if fine:
                    upper_rest[to] = np.float32(value - np.float32(value))
                if not symmetric:
                    value = load(lower, r)
                    lower_to[to] = np.float32(value)
                    if fine:
                        lower_rest[to] = np.float32(value - np.float32(value))
                    if ordered:
                        rank_to[to] = np.float32(r)
                        scale_to[to] = np.float32(load(scale, r))
            power = line(fast, EXP, padded, n + PADDING)
            for r in range(n):
                power[r] = exponential(sigma * (score[r] - top))
            if wanted.distanced:
                highest = placed[start + order[start]]
                for r in range(n):
                    value = placed[start + document[r]]
                    rows[PLACE, low + r] = value
                    value -= highest
                    fast[PLACE32, padded + r] = np.float32(value)
                    fast[PLACE_REST, padded + r] = np.float32(value - np.float32(value))
            if weight.size > 0:
                for r in range(n):
                    fast[WEIGHT32, padded + r] = np.float32(load(weight, start + document[r]))
            for r in range(n, n + PADDING):
                power[r] = np.float32(
                    FAR
                )  # infinitely far: whatever finite is left in the other rows, it exerts no force
        return found

    return compile_kernel(kernel, fastmath={"nsz", "contract"})


@functools.cache
def stage_by_rank_kernel() -> Callable[..., int]:
    """``kernel(documents, wanted, lists, tables) -> the kinds of queries there are``.

    Lists as they stand, by rows or by delta: the queries to which ``marks`` gives no kind yet.
    """

    def kernel(documents: Any, wanted: Any, lists: Any, tables: Any) -> int:
        documents, wanted = Documents(*documents), Wanted(*wanted)
        lists, tables = Lists(*lists), Tables(*tables)
        scores, rows, fast = documents.scores, tables.rows, tables.fast
        offsets, first, order, marks = lists.offsets, lists.first, lists.order, tables.marks
        sigma, graded = wanted.sigma, wanted.graded
        found = 0
        for query in range(first, lists.last):
            cut = marks[CUT, query - first]
            if cut < 0 or (cut == 0 and not wanted.floored) or marks[KIND, query - first] != 0:
                continue
            start, n, low = located(offsets, first, query)
            padded = low + PADDING * (query - first)
            document, own, score = line(order, 0, start, n), line(scores, 0, start, n), line(rows, SCORE, low, n)
            for r in range(n):  # documents by an ordinary read: packed, such a loop is slower than one by one
                score[r] = load(own, document[r])
            top, wide = extent(score, score[0], sigma, wanted.spread)
            kind = WIDE if wide else BY_RANK
            marks[KIND, query - first] = kind
            found |= kind
            if kind == WIDE or wanted.weighed:
                stage_exactly(documents, document, start, low, rows)
            if kind == WIDE:
                continue
            # Padding exerts no force: it is no better and no worse than anything, or, without grades, infinitely far.
            # The other rows need finite numbers there.
            power = line(fast, EXP, padded, n + PADDING)
            for r in range(n):
                power[r] = exponential(sigma * (score[r] - top))
            pad(power, 1.0 if graded else FAR)
            if graded:
                grade, grade_to = line(documents.grade, 0, start, n), line(fast, GRADE32, padded, n + PADDING)
                for r in range(n):
                    grade_to[r] = np.float32(load(grade, document[r]))
                pad(grade_to, np.nan)
            if not wanted.by_rows:
                continue
            gain, upper, lower = line(rows, GAIN, low, n), line(rows, UPPER, low, n), line(rows, LOWER, low, n)
            least = gain[0]  # only differences of gains matter: without their common part they fit float32
            here = 1
            while np.isnan(least) and here < n:  # of documents without a label, which are in no pair
                least = gain[here]
                here += 1
            gain_to = line(fast, GAIN32, padded, n + PADDING)
            for r in range(n):
                gain_to[r] = np.float32(load(gain, r) - least)
            pad(gain_to, 0.0)
            stage_parts(upper, UPPER32, UPPER_REST, wanted.fine, fast, padded)
            if not wanted.symmetric:
                stage_parts(lower, LOWER32, LOWER_REST, wanted.fine, fast, padded)
            if wanted.spaced:
                stage_parts(line(rows, SCALE, low, n), SPACE32, SPACE32, False, fast, padded)
            if wanted.distanced:
                place = line(rows, PLACE, low, n)
                for r in range(n):
                    place[r] = load(documents.placed, start + document[r])
                stage_distance(place, place[0], fast, padded)
            stage_column(documents.weight, document, start, WEIGHT32, fast, padded)
            stage_column(documents.tier, document, start, TIER32, fast, padded)
            stage_column(documents.chosen, document, start, CHOSEN32, fast, padded)
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
        if tabled:
            discount = prepared.discount
        else:
            discount = line(prepared.discount, 0, 0, prepared.discount.shape[1])
        offsets, first = lists.offsets, lists.first
        for query in range(first, lists.last):
            start, n, low = located(offsets, first, query)
            marks[KIND, query - first] = 0
            if prepared.norm[query] == 0.0 or n < 2:
                marks[CUT, query - first] = -1
                continue
            ranked, upper = line(rows, GAIN, low, n), line(rows, UPPER, low, n)
            lower, scale = line(rows, LOWER, low, n), line(rows, SCALE, low, n)
            for r in range(n):
                ranked[r] = load(prepared.gain, start + load(lists.order, start + r))
                scale[r] = 1.0
            cut = rows_of(ranked, discount, prepared.k, upper, lower, scale)
            cut = cut if cut < n - 1 else n - 1
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
            marks[CUT, query - first] = cut

    return compile_kernel(kernel)


def no_value(gain: Any, discount: Any, k: int) -> float:
    return 0.0
