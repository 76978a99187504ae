"""Forces on single documents: each moved to its ideal place."""

from collections.abc import Callable
from typing import Any

import numpy as np

from .compiling import compile_kernel, inlinable, line, per_function
from .rows import Documents, Lists, Prepared, Pull, Sums
from .weighing import log_scale

__all__ = ["place_kernel"]


@per_function
def place_kernel(value: Callable[..., float]) -> Callable[..., int]:
    """``kernel(prepared, documents, bound, pull, lists, room, sums)``: each document moved to its ideal place.

    A force is at most ``bound``. ``room`` is scratch, three rows as long as the longest query. Returns the first query with
    a result that is not finite, or -1.
    """
    measured = inlinable(value)

    def kernel(prepared: Any, documents: Any, bound: float, pull: Any, lists: Any, room: Any, sums: Any) -> int:
        prepared, documents = Prepared(*prepared), Documents(*documents)
        pull, lists, sums = Pull(*pull), Lists(*lists), Sums(*sums)
        gain, discount, norm, k = prepared.gain, prepared.discount, prepared.norm, prepared.k
        grade, weight, tier = documents.grade, documents.weight, documents.tier
        offsets, first, order = lists.offsets, lists.first, lists.order
        longest = room.shape[1]
        ranked, moved, forces = line(room, 0, 0, longest), line(room, 1, 0, longest), line(room, 2, 0, longest)
        for query in range(first, lists.last):
            start = offsets[query]
            n = offsets[query + 1] - start
            if norm[query] == 0.0 or n < 2:
                continue
            for r in range(n):
                ranked[r] = gain[start + order[start + r]]
                moved[r] = ranked[r]
            now = measured(moved[:n], discount, k)
            total = 0.0
            for r in range(n):
                row = start + order[start + r]
                mine = grade[row]
                forces[r] = 0.0
                if np.isnan(mine):
                    continue
                # How many of those it competes with belong above it ...
                above = 0
                for q in range(n):
                    other = start + order[start + q]
                    rival = tier.size == 0 or tier[other] == tier[row]
                    above += 1 if rival and (grade[other] > mine or (grade[other] == mine and q < r)) else 0
                # ... and the place that leaves it, of the places that they hold.
                place = r
                for q in range(n):
                    other = start + order[start + q]
                    rival = (tier.size == 0 or tier[other] == tier[row]) and not np.isnan(grade[other])
                    if rival:
                        if above == 0:
                            place = q
                            break
                        above -= 1
                if place == r:
                    continue
                for q in range(n):
                    moved[q] = ranked[q]
                carried = ranked[r]  # each takes the place of the next one it competes with; all others keep theirs
                step = 1 if place < r else -1
                for q in range(place, r + step, step):
                    other = start + order[start + q]
                    if (tier.size == 0 or tier[other] == tier[row]) and not np.isnan(grade[other]):
                        moved[q] = carried
                        carried = ranked[q]
                change = abs(measured(moved[:n], discount, k) - now) * norm[query]
                if not np.isfinite(change):
                    return int(query)
                force = min(change, bound) * (weight[row] if weight.size > 0 else 1.0)
                forces[r] = -force if place < r else force
                total += force
            unit = pull.coefficient * (log_scale(total) if pull.summed else 1.0)
            for r in range(n):
                to = start + order[start + r] - offsets[first]
                sums.gradient[to] += unit * forces[r]
                sums.hessian[to] += unit * abs(forces[r])
        return -1

    return compile_kernel(kernel)
