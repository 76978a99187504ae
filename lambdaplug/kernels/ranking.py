"""Ranks: for each query, its documents by descending score, equal scores in row order."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from .compiling import REDUCE, compile_kernel, inlinable, line, load

__all__ = ["FEW_LEVELS", "count_kernel", "rank_kernel", "sort_kernel", "top_kernel"]

FEW_LEVELS = 8  # different values in a query up to which counting is faster than a merge sort
ZERO, ONE, RUN = np.uint64(0), np.uint64(1), np.uint64(16)


@inlinable
def above(key: float, document: int, other_key: float, other_document: int) -> bool:
    """A total order, so that a ranking does not depend on the permutation it was sorted from."""
    return key > other_key or (key == other_key and document < other_document)


@functools.cache
def rank_kernel() -> Callable[..., Any]:
    """``kernel(scores, offsets, first, last, order, keys, documents) -> row of the first score not finite, or -1``.

    ``order`` holds, for each query, a permutation of 0..n-1 on entry (the last ranking: the nearer to the new one the
    faster) and the ranking on return. A merge sort, bottom up, over short runs sorted by insertion; two runs already
    in order are left where they are.
    """

    def kernel(scores: Any, offsets: Any, first: int, last: int, order: Any, keys: Any, documents: Any) -> Any:
        for query in range(first, last):
            start, size = offsets[query], offsets[query + 1] - offsets[query]
            key, left_key = line(keys, 0, 0, size), line(keys, 1, 0, size)
            document, left_document = line(documents, 0, 0, size), line(documents, 1, 0, size)
            value_of, ranked = line(scores, 0, start, size), line(order, 0, start, size)
            n = np.uint64(size)  # unsigned indices need no look at their sign
            for r in range(n):
                at = ranked[r]
                value = load(value_of, at)
                if not np.isfinite(value):
                    return start + at
                # Insertion: the place of this document in its run.
                s = r
                low = r & ~(RUN - ONE)
                while s > low and above(value, at, key[s - ONE], document[s - ONE]):
                    key[s] = key[s - ONE]
                    document[s] = document[s - ONE]
                    s -= ONE
                key[s] = value
                document[s] = at
            run = RUN
            while run < n:
                for begin in range(ZERO, n - run, run + run):
                    low = begin
                    b = low + run
                    high = b + run if b + run < n else n
                    if above(key[b - ONE], document[b - ONE], key[b], document[b]):
                        continue
                    while above(key[low], document[low], key[b], document[b]):
                        low += ONE  # in place already
                    left = b - low
                    for s in range(left):
                        left_key[s] = key[low + s]
                        left_document[s] = document[low + s]
                    a = ZERO
                    s = low
                    while a < left and b < high:  # which is next is anybody's guess: without a branch
                        next_key, next_document = key[b], document[b]
                        mine, own = left_key[a], left_document[a]
                        other = (next_key > mine) | ((next_key == mine) & (next_document < own))
                        key[s] = next_key if other else mine
                        document[s] = next_document if other else own
                        b += np.uint64(other)
                        a += np.uint64(not other)
                        s += ONE
                    while a < left:
                        key[s] = left_key[a]
                        document[s] = left_document[a]
                        a += ONE
                        s += ONE
                run += run
            for r in range(n):
                ranked[r] = document[r]
        return -1

    return compile_kernel(kernel)


@functools.cache
def top_kernel() -> Callable[..., Any]:
    """``kernel(scores, top, offsets, first, last, order, keys, documents)``: as ``rank_kernel``, the top ranks alone.

    The documents below them follow in row order. On entry the first ones of ``order`` are a guess at the top.
    """

    def kernel(
        scores: Any, top: int, offsets: Any, first: int, last: int, order: Any, keys: Any, documents: Any
    ) -> Any:
        documents[1, :] = -1
        for query in range(first, last):
            start = offsets[query]
            n = offsets[query + 1] - start
            k = top if top < n else n
            if k == 0:
                continue
            value = scores[start : start + n]
            broken = False
            for at in range(n):
                broken |= not abs(value[at]) < np.inf
            if broken:
                for at in range(n):
                    if not np.isfinite(value[at]):
                        return start + at
            key, document, taken = keys[0], documents[0], documents[1]
            for r in range(k + n):  # the guesses first: most are right, and nearly in order
                guess = r < k
                at = order[start + r] if guess else r - k
                if guess:
                    taken[at] = query
                elif not above(value[at], at, key[k - 1], document[k - 1]) or taken[at] == query:
                    continue
                s = r if guess else k - 1
                while s > 0 and above(value[at], at, key[s - 1], document[s - 1]):
                    key[s] = key[s - 1]
                    document[s] = document[s - 1]
                    s -= 1
                key[s] = value[at]
                document[s] = at
            least, row = key[k - 1], document[k - 1]
            to = start + k
            for at in range(n):
                below = value[at] < least or (value[at] == least and at > row)
                if to < start + n:
                    order[to] = at
                to += 1 if below else 0
            for r in range(k):
                order[start + r] = document[r]
        return -1

    return compile_kernel(kernel, fastmath=REDUCE)


@functools.cache
def count_kernel() -> Callable[..., Any]:
    """``kernel(scores, offsets, first, last, order, documents)``: ``rank_kernel`` by comparing every two documents.

    For short lists in no particular order that is far faster than sorting: a comparison is a lane of a register.
    """

    def kernel(scores: Any, offsets: Any, first: int, last: int, order: Any, documents: Any) -> Any:
        for query in range(first, last):
            start = offsets[query]
            n = offsets[query + 1] - start
            own, ranked, count = line(scores, 0, start, n), line(order, 0, start, n), line(documents, 0, 0, n)
            broken = 0
            for r in range(n):
                count[r] = 0
                broken += not abs(load(own, r)) < np.inf
            if broken > 0:
                for r in range(n):
                    if not np.isfinite(own[r]):
                        return start + r
            for i in range(n):
                score = load(own, i)
                higher = 0
                for j in range(np.uint64(i)):
                    wins = load(own, j) >= score
                    higher += wins
                    count[j] += 1 - wins
                count[i] += higher
            for r in range(n):
                ranked[np.uint64(count[r])] = r
        return -1

    return compile_kernel(kernel, fastmath=REDUCE)


@functools.cache
def sort_kernel() -> Callable[..., bool]:
    """``kernel(values, offsets, order, level_of, levels, places) -> whether it could``: ``rank_kernel`` by counting.

    For queries of few different values, as gains are. ``order`` is written only; ``level_of`` has room for the longest
    query, ``levels`` and ``places`` for FEW_LEVELS, always all of them, so that loops over them become a few instructions.
    """

    def kernel(values: Any, offsets: Any, order: Any, level_of: Any, levels: Any, places: Any) -> bool:
        for query in range(len(offsets) - 1):
            start = offsets[query]
            n = offsets[query + 1] - start
            own, ranked = line(values, 0, start, n), line(order, 0, start, n)
            for level in range(FEW_LEVELS):
                levels[level] = np.nan
                places[level] = 0
            count = 0
            for r in range(n):
                value = load(own, r)
                known = 0
                for level in range(FEW_LEVELS):
                    known += levels[level] == value
                if known == 0:
                    if count == FEW_LEVELS or not np.isfinite(value):
                        return False
                    at = count
                    while at > 0 and levels[at - 1] < value:
                        levels[at] = levels[at - 1]
                        at -= 1
                    levels[at] = value
                    count += 1
            for r in range(n):
                value = load(own, r)
                above = 0
                for level in range(FEW_LEVELS):
                    above += levels[level] > value
                level_of[r] = above
            for r in range(n):
                places[np.uint64(level_of[r])] += 1
            to = 0
            for level in range(FEW_LEVELS):
                places[level], to = to, to + places[level]
            for r in range(n):
                above = np.uint64(level_of[r])
                ranked[np.uint64(places[above])] = r
                places[above] += 1
        return True

    return compile_kernel(kernel)
