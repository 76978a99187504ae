"""Ranks: for each query, its documents by descending score, equal scores in row order."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from .compiling import compile_kernel, sources_stamp

__all__ = ["rank_kernel"]


@functools.cache
def rank_kernel() -> Callable[..., int]:
    """``kernel(scores, offsets, first, last, order, keys, documents) -> row of the first score not finite, or -1``.

    ``order`` holds, for each query, a permutation of 0..n-1 on entry (the last ranking: the nearer to the new one the
    faster) and the ranking on return. (score descending, row ascending) is a total order, so the result does not
    depend on the permutation it started from. A stable merge sort, bottom up, over short runs sorted by insertion;
    two runs already in order are not merged.
    """
    stamp = sources_stamp()

    def kernel(scores: Any, offsets: Any, first: int, last: int, order: Any, keys: Any, documents: Any) -> int:
        _ = stamp
        for query in range(first, last):
            start = offsets[query]
            n = offsets[query + 1] - start
            for r in range(n):
                document = order[start + r]
                key = scores[start + document]
                if not np.isfinite(key):
                    return int(start + document)
                keys[0, r] = key
                documents[0, r] = document
            run = 12
            for low in range(0, n, run):
                for r in range(low + 1, min(low + run, n)):
                    key = keys[0, r]
                    document = documents[0, r]
                    s = r
                    while s > low and (
                        keys[0, s - 1] < key or (keys[0, s - 1] == key and documents[0, s - 1] > document)
                    ):
                        keys[0, s] = keys[0, s - 1]
                        documents[0, s] = documents[0, s - 1]
                        s -= 1
                    keys[0, s] = key
                    documents[0, s] = document
            source = 0
            while run < n:
                target = 1 - source
                for low in range(0, n, 2 * run):
                    middle = min(low + run, n)
                    high = min(low + 2 * run, n)
                    a = low
                    b = middle
                    in_order = b == high or (
                        keys[source, b - 1] > keys[source, b]
                        or (keys[source, b - 1] == keys[source, b] and documents[source, b - 1] < documents[source, b])
                    )
                    if in_order:
                        for s in range(low, high):
                            keys[target, s] = keys[source, s]
                            documents[target, s] = documents[source, s]
                        continue
                    for s in range(low, high):
                        take_left = b == high or (
                            a < middle
                            and (
                                keys[source, a] > keys[source, b]
                                or (keys[source, a] == keys[source, b] and documents[source, a] < documents[source, b])
                            )
                        )
                        if take_left:
                            keys[target, s] = keys[source, a]
                            documents[target, s] = documents[source, a]
                            a += 1
                        else:
                            keys[target, s] = keys[source, b]
                            documents[target, s] = documents[source, b]
                            b += 1
                source = target
                run *= 2
            for r in range(n):
                order[start + r] = documents[source, r]
        return -1

    return compile_kernel(kernel)
