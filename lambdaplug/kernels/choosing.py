"""Documents below a cut-off whose pairs count as if they stood above it."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from .compiling import compile_kernel, inlinable, line, located
from .drawing import GOLDEN, HALF, UNIT, hashed, mixed
from .rows import CUT, Lists

__all__ = ["CHOICES", "choose_kernel"]

BEST, RANDOM, ALL = range(3)
CHOICES = {"static": BEST, "random": RANDOM, "all": ALL}
THIRD = np.uint32(0x85157AF5)  # keeps these draws apart from the noise's


@inlinable
def place_of(levels: Any, count: int, grade: float) -> int:
    """Where the grade stands among so many falling levels; -1: nowhere."""
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        if levels[middle] > grade:
            low = middle + 1
        else:
            high = middle
    return low if low < count and levels[low] == grade else -1


@functools.cache
def choose_kernel() -> Callable[..., None]:
    """``kernel(rule, about, scores, label_hash, lists, marks, room, chosen)``: 1 for the documents chosen, 0 for the others.

    ``rule``: one of CHOICES, the cut-off and the seed. ``about``: the rows' grades, and each query's documents by falling
    grade, those without one last. ``room``: three rows of scratch, as long as the longest query: the grades in the ideal
    top, how many of each the present top lacks, and how many stand below it. Each query's cut becomes the last chosen
    document's place.
    """

    def kernel(
        rule: Any, about: Any, scores: Any, label_hash: Any, lists: Any, marks: Any, room: Any, chosen: Any
    ) -> None:
        choice, k, seed = rule
        grade, ideal = about
        lists = Lists(*lists)
        longest = room.shape[1]
        levels, lacking, below = line(room, 0, 0, longest), line(room, 1, 0, longest), line(room, 2, 0, longest)
        training = mixed(np.uint32(seed) + mixed(np.uint32(seed >> 32) ^ THIRD))
        for query in range(lists.first, lists.last):
            start, n, _ = located(lists.offsets, lists.first, query)
            cut = marks[CUT, query - lists.first]
            if cut < 0:
                continue
            top = min(k, n)
            count = 0
            for r in range(top):
                wanted = grade[start + ideal[start + r]]
                if np.isnan(wanted):
                    break
                if count == 0 or levels[count - 1] != wanted:
                    levels[count] = wanted
                    lacking[count] = 0.0
                    below[count] = 0.0
                    count += 1
                lacking[count - 1] += 1.0
            for r in range(n):
                row = start + lists.order[start + r]
                chosen[row] = 1.0 if r < top else 0.0
                level = place_of(levels, count, grade[row])
                if level >= 0 and r < top:
                    lacking[level] -= 1.0
                elif level >= 0:
                    below[level] += 1.0
            state = np.uint32(0)
            if choice == RANDOM:  # by the query's scores and labels, and by the order, which noise may have changed
                state = mixed(hashed(line(scores, 0, start, n)) ^ mixed(label_hash[query] ^ training))
                for r in range(top):
                    state = mixed(state ^ (np.uint32(lists.order[start + r]) * GOLDEN + np.uint32(r)))
            last = top
            for r in range(top, n):
                row = start + lists.order[start + r]
                level = place_of(levels, count, grade[row])
                if level < 0 or lacking[level] <= 0.0:
                    continue
                if choice == RANDOM:  # of those left below, as many as are still lacking, each set of them as likely
                    bits = mixed(mixed(np.uint32(row - start) * GOLDEN + state) ^ THIRD)
                    u = (np.float32(np.int32(bits >> np.uint32(9))) + HALF) * UNIT
                    below[level] -= 1.0
                    if u * (below[level] + 1.0) >= lacking[level]:
                        continue
                if choice != ALL:
                    lacking[level] -= 1.0
                chosen[row] = 1.0
                last = r + 1
            marks[CUT, query - lists.first] = min(cut, last)

    return compile_kernel(kernel)
