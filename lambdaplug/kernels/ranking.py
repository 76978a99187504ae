"""Ranks: for each query, its documents by descending score, equal scores in row order."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from .jit import REDUCE, compile_kernel, compiled, inlinable, line, load, located, per_function
from .layout import *

ZERO, ONE, RUN = np.uint64(0), np.uint64(1), np.uint64(16)


@inlinable
def above(key: float, document: int, other_key: float, other_document: int) -> bool:
    """A total order, so that a ranking does not depend on the permutation it was sorted from."""
    return key > other_key or (key == other_key and document < other_document)


@functools.cache
def rank_kernel() -> Callable[..., Any]:
    """``kernel(scores, offsets, first, last, order, keys, documents)``, scores without NaN.

    ``order`` holds, for each query, a permutation of 0..n-1 on entry (the last ranking: the nearer to the new one the
    faster) and the ranking on return. A merge sort, bottom up, over short runs sorted by insertion; two runs already
    in order are left where they are.
    """

    def kernel(scores: Any, offsets: Any, first: int, last: int, order: Any, keys: Any, documents: Any) -> None:
        for query in range(first, last):
            start, size = offsets[query], offsets[query + 1] - offsets[query]
            key, left_key = line(keys, 0, 0, size), line(keys, 1, 0, size)
            document, left_document = line(documents, 0, 0, size), line(documents, 1, 0, size)
            value_of, ranked = line(scores, 0, start, size), line(order, 0, start, size)
            n = np.uint64(size)  # unsigned indices need no look at their sign
            for r in range(n):
                at = ranked[r]
                value = load(value_of, at)
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

    return compiled(RANK.signature, kernel)


@functools.cache
def count_kernel() -> Callable[..., Any]:
    """``rank_kernel`` by comparing every two documents.

    For short lists in no particular order that is far faster than sorting: a comparison is a lane of a register.
    """

    def kernel(scores: Any, offsets: Any, first: int, last: int, order: Any, keys: Any, documents: Any) -> None:
        for query in range(first, last):
            start = offsets[query]
            n = offsets[query + 1] - start
            own, ranked, count = line(scores, 0, start, n), line(order, 0, start, n), line(documents, 0, 0, n)
            for r in range(n):
                count[r] = 0
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

    return compile_kernel(kernel, fastmath=REDUCE)


@per_function
def value_kernel(value: Callable[..., float], flat: bool = False) -> Callable[..., None]:
    """``kernel(gain, discount, k, lists, ranked, out)``: ``out[query]``, a measure's ``value`` or ``norm`` of the gains as listed.

    ``flat``: discounts are a table's only row.
    """
    measured = inlinable(value)

    def kernel(gain: Any, table: Any, k: int, lists: Any, ranked: Any, out: Any) -> None:
        lists = Lists(*lists)
        if flat:
            discount = line(table, 0, 0, table.shape[1])
        else:
            discount = table
        for query in range(lists.first, lists.last):
            start, n, _ = located(lists.offsets, lists.first, query)
            for r in range(n):
                ranked[r] = gain[start + lists.order[start + r]]
            out[query] = measured(ranked[:n], discount, k)

    return compile_kernel(kernel)
