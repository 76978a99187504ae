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

from .compiling import compile_kernel, float32_from_bits, inlinable, line, load
from .rows import (
    BY_DELTA_ROWS,
    BY_GAIN,
    BY_RANK,
    CUT,
    DOCUMENT,
    EXP,
    FLOAT32_ROWS,
    GAIN,
    GAIN32,
    GRADE,
    GRADE32,
    KIND,
    LOWER,
    LOWER32,
    LOWER_REST,
    PADDING,
    RANK32,
    SCALE,
    SCALE32,
    SCORE,
    SCORE32,
    SCORE_REST,
    TAKEN,
    TIER,
    TIER32,
    UPPER,
    UPPER32,
    UPPER_REST,
    WEIGHT,
    WEIGHT32,
    WIDE,
    Documents,
)

__all__ = ["FAST_SPREAD", "Wanted", "stage_by_gain_kernel", "stage_by_rank_kernel"]

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


@inlinable
def exponential(x: float) -> Any:
    """exp(x) for x <= 0 to a float32's precision (exp(-80) below that), without a call, so that loops are vectorised."""
    x = x if x > -80.0 else -80.0
    power = np.floor(x * LOG2_E + 0.5)
    r = x - power * LN_2
    series = 1.0 + r * (1 / 6 + r * (1 / 24 + r * (1 / 120 + r * (1 / 720 + r / 5040)))) * r * r + (r + r * r * 0.5)
    return np.float32(series) * float32_from_bits(np.int32((np.int32(power) + np.int32(127)) << np.int32(23)))


@inlinable
def top_of(score: Any, guess: float) -> float:
    """The highest score. ``guess``, the first document's, is it unless the order is another one's: counting is packed."""
    above = 0
    for r in range(len(score)):
        above += score[r] > guess
    top = guess
    if above > 0:
        for r in range(len(score)):
            top = score[r] if score[r] > top else top
    return top


@inlinable
def is_wide(score: Any, top: float, sigma: float, spread: float) -> bool:
    beyond = 0
    for r in range(len(score)):
        beyond += not sigma * (top - score[r]) <= spread
    return beyond > 0


@inlinable
def stage_exactly(documents: Documents, order: Any, start: int, low: int, rows: Any) -> None:
    """Grades, weights and tiers in float64, by rank."""
    n = len(order)
    grade, weight, tier = line(rows, GRADE, low, n), line(rows, WEIGHT, low, n), line(rows, TIER, low, n)
    for r in range(n):
        row = np.uint64(start + load(order, r))
        grade[r] = load(documents.grade, row)
        weight[r] = load(documents.weight, row) if documents.weight.size > 0 else 1.0
        tier[r] = load(documents.tier, row) if documents.tier.size > 0 else 0.0


@inlinable
def stage_distance(score: Any, top: float, fast: Any, padded: int) -> None:
    """Scores in two parts: small distances of scores far from the top need both."""
    n = len(score)
    to, rest = line(fast, SCORE32, padded, n), line(fast, SCORE_REST, padded, n)
    for r in range(n):
        value = score[r] - top
        to[r] = np.float32(value)
        rest[r] = np.float32(value - np.float32(value))


@functools.cache
def stage_by_gain_kernel() -> Callable[..., int]:
    """``kernel(documents, wanted, begin, lists, tables) -> the kinds of queries there are, BY_RANK: those left over``.

    Whole lists, put into the order of falling gains: ``begin`` is where each document's gain begins in that order.
    """

    def kernel(documents: Any, wanted: Any, begin: Any, lists: Any, tables: Any) -> int:
        scores, weight, rows, fast = documents.scores, documents.weight, tables.rows, tables.fast
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
            low = start - offsets[first]
            padded = low + PADDING * (query - first)
            own = line(scores, 0, start, n)
            top = top_of(own, own[order[start]])
            if is_wide(own, top, sigma, wanted.spread):
                found |= WIDE
                marks[KIND, query - first] = WIDE
                for r in range(n):
                    rows[SCORE, low + r] = own[order[start + r]]
                stage_exactly(documents, line(order, 0, start, n), start, low, rows)
                continue
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
                at = np.uint64(load(begin, start + row))
                to = at + np.uint64(taken[at])
                taken[at] += 1
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
                stage_distance(score, top, fast, padded)
            if weight.size > 0:
                for r in range(n):
                    fast[WEIGHT32, padded + r] = np.float32(load(weight, start + document[r]))
            for r in range(n, n + PADDING):  # infinitely far: whatever finite is left there, it exerts no force
                power[r] = np.float32(FAR)
        return found

    return compile_kernel(kernel, fastmath={"nsz", "contract"})


@functools.cache
def stage_by_rank_kernel() -> Callable[..., int]:
    """``kernel(documents, wanted, lists, tables) -> the kinds of queries there are``.

    Lists as they stand, by rows or by delta: the queries to which ``marks`` gives no kind yet.
    """

    def kernel(documents: Any, wanted: Any, lists: Any, tables: Any) -> int:
        scores, rows, fast = documents.scores, tables.rows, tables.fast
        offsets, first, order, marks = lists.offsets, lists.first, lists.order, tables.marks
        sigma, graded = wanted.sigma, wanted.graded
        weighted, tiered = documents.weight.size > 0, documents.tier.size > 0
        found = 0
        for query in range(first, lists.last):
            cut = marks[CUT, query - first]
            if cut < 0 or (cut == 0 and not wanted.floored) or marks[KIND, query - first] != 0:
                continue
            start = offsets[query]
            n = offsets[query + 1] - start
            low = start - offsets[first]
            padded = low + PADDING * (query - first)
            document, own, score = line(order, 0, start, n), line(scores, 0, start, n), line(rows, SCORE, low, n)
            for r in range(n):
                score[r] = load(own, load(document, r))
            top = top_of(score, score[0])
            kind = WIDE if is_wide(score, top, sigma, wanted.spread) else BY_RANK
            marks[KIND, query - first] = kind
            found |= kind
            if kind == WIDE or wanted.weighed:
                stage_exactly(documents, document, start, low, rows)
            if kind == WIDE:
                continue
            power = line(fast, EXP, padded, n)
            for r in range(n):
                power[r] = exponential(sigma * (score[r] - top))
            if graded:
                grade, grade_to = line(documents.grade, 0, start, n), line(fast, GRADE32, padded, n)
                for r in range(n):
                    grade_to[r] = np.float32(load(grade, load(document, r)))
            # Padding exerts no force: it is no better and no worse than anything, or, without grades, infinitely far.
            for c in range(FLOAT32_ROWS if wanted.by_rows else BY_DELTA_ROWS):
                value = (1.0 if graded else FAR) if c == EXP else np.nan if c == GRADE32 and graded else 0.0
                for r in range(padded + n, padded + n + PADDING):
                    fast[c, r] = np.float32(value)
            if not wanted.by_rows:
                continue
            gain, upper, lower = line(rows, GAIN, low, n), line(rows, UPPER, low, n), line(rows, LOWER, low, n)
            least = gain[0]  # only differences of gains matter: without their common part they fit float32
            at = 1
            while np.isnan(least) and at < n:  # of documents without a label, which are in no pair
                least = gain[at]
                at += 1
            gain_to, upper_to = line(fast, GAIN32, padded, n), line(fast, UPPER32, padded, n)
            for r in range(n):
                gain_to[r] = np.float32(load(gain, r) - least)
            for r in range(n):
                upper_to[r] = np.float32(load(upper, r))
            if wanted.fine:
                for r in range(n):
                    fast[UPPER_REST, padded + r] = np.float32(load(upper, r) - upper_to[r])
            if not wanted.symmetric:
                lower_to, lower_rest = line(fast, LOWER32, padded, n), line(fast, LOWER_REST, padded, n)
                for r in range(n):
                    lower_to[r] = np.float32(load(lower, r))
                for r in range(n):
                    lower_rest[r] = np.float32(load(lower, r) - lower_to[r])
            if wanted.distanced:
                stage_distance(score, top, fast, padded)
            for r in range(n if weighted else 0):
                fast[WEIGHT32, padded + r] = documents.weight[start + document[r]]
            for r in range(n if tiered else 0):
                fast[TIER32, padded + r] = documents.tier[start + document[r]]
        return found

    return compile_kernel(kernel, fastmath={"nsz", "contract"})
