"""Counting the pairs that a lambda gradient acts on."""

import functools
from collections.abc import Callable
from typing import Any

from .compiling import compile_kernel, sources_stamp

__all__ = ["count_kernel"]


@functools.cache
def count_kernel() -> Callable[..., None]:
    """``kernel(grade, tier, gained, offsets, order, cuts, rows, counts)``: pairs with an order and a delta, by query.

    ``rows`` and ``cuts`` are what the swap kernel made of all queries. ``tier``, if not empty: of equal tiers only.
    """
    stamp = sources_stamp()

    def kernel(
        grade: Any, tier: Any, gained: bool, offsets: Any, order: Any, cuts: Any, rows: Any, counts: Any
    ) -> None:
        _ = stamp
        for query in range(len(offsets) - 1):
            start = offsets[query]
            n = offsets[query + 1] - start
            count = 0
            for i in range(cuts[query]):
                upper = start + order[start + i]
                for j in range(i + 1, n):
                    lower = start + order[start + j]
                    ordered = grade[upper] > grade[lower] or grade[upper] < grade[lower]
                    differs = rows[1, start + i] != rows[2, start + j]
                    if gained:
                        differs = differs and rows[0, start + i] != rows[0, start + j]
                    if tier.size > 0:
                        differs = differs and tier[upper] == tier[lower]
                    count += 1 if ordered and differs else 0
            counts[query] = count

    return compile_kernel(kernel)
