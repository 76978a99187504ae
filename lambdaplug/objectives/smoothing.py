"""Smoothed lambdas: deltas averaged over orders near the present one.

A swap delta looks at one order. Where that order is nearly right, or the measure sees little of the list, almost no pair
acts, and training starves. With noise the deltas are those of z = s + noise e, e drawn for each document, and the forces
those of the scores s themselves:

    force = sigma * mean over samples of |dM(i, j; order of z)| * rho(s_i - s_j).

A distance that divides the delta (``lp.RankNet(distance=d)``) is that of z as well: documents that the noise has put far
apart are far apart, however close their scores. Divided by the distance of s, two equal scores with a large delta in the
noisy order would outweigh all other pairs.

The draws are a function of the query itself: seed, scores as float32, labels, sample and the document's place. So they need
no iteration, are the same at any number of threads and on any part of a cluster, and are new in each round because the
scores move. Where nothing moves, they are repeated.
"""

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..checking import integer
from ..errors import LambdaplugError
from ..kernels import label_hash_kernel, noise_kernel
from ..queries import COUNTED, Array, Labels, Queries, Task
from ..schedules import Number, check_of_iteration
from .base import Ranking, Scratch

if TYPE_CHECKING:
    from .lambdarank import LambdaRank

__all__ = ["check_noise", "label_hash", "noisy_order", "noisy_ranking"]


def check_noise(noise: object, samples: object, kind: object, neighbours: object, seed: object) -> Number:
    """The noise, if all of these make sense."""
    noise = check_of_iteration(noise, "noise", "lp.cosine(1.0, 0.1, 200)")
    integer(samples, "samples")
    integer(seed, "seed", 0, 2**63 - 1)
    if neighbours is not None:
        integer(neighbours, "neighbours", purpose=", or None for all pairs")
    if kind not in ("logistic", "normal"):
        raise LambdaplugError(f"noise_kind: expected 'logistic' or 'normal', got {kind!r}.")
    return noise


def noisy_order(
    ranking: Ranking,
    task: Task,
    scratch: Scratch,
    draw: tuple[npt.NDArray[np.uint32], int, int, float],
    kind: str,
    cutoff: int | None,
    lower: Array | None = None,
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """The task's noisy scores, less ``lower``, and their order, as tables of one row. Good until the thread's next ones.

    ``draw``: hashes of the labels, seed, sample and noise. ``cutoff``: how many ranks are needed; None = all.
    """
    queries = ranking.queries
    rows, offsets = len(queries.labels), queries.offsets
    # As long as the data set, as orders are; only a thread's own queries are ever touched.
    noisy, orders = scratch.array("noisy scores", 1, rows), scratch.array("noisy order", 1, rows, np.int32)
    z, order = noisy[0], orders[0]
    noise_kernel(kind)(ranking.scores, draw, offsets, task.first, task.last, z)
    region = slice(int(offsets[task.first]), int(offsets[task.last]))
    if lower is not None:
        z[region] -= lower[region]
    top, longest = queries.top(cutoff), queries.longest
    if top is not None or longest > COUNTED:
        order[region] = next(iter(ranking.orders.values()))[region]  # a guess at the top
    buffers = scratch.array("keys", 2, longest), scratch.array("documents", 2, longest, np.int32)
    queries.rank_part(z, top, task.first, task.last, order, *buffers, known=False)
    return noisy, orders


def noisy_ranking(objective: "LambdaRank", ranking: Ranking, task: Task, scratch: Scratch, sample: int) -> Ranking:
    """The task's queries in the order of noisy scores, with the scores as they are. Good until the thread's next one."""
    hashes = label_hash(objective.labels, ranking.queries)
    draw = (hashes, objective.seed, sample, float(objective.noise))  # type: ignore[arg-type]
    cutoff = None if objective.neighbours is not None else objective.construction.ranks(objective.measure)
    noisy, orders = noisy_order(ranking, task, scratch, draw, objective.noise_kind, cutoff)
    key = "noisy", id(objective), id(orders)  # all outlive the round
    found: Ranking | None = ranking.engines.get(key)
    if found is None:
        places = dict.fromkeys([*ranking.orders, cutoff, None], orders[0])
        found = dataclasses.replace(ranking, orders=places, noisy=noisy[0], engines={})
        ranking.engines[key] = found
    return found


def label_hash(source: Labels | None, queries: Queries) -> npt.NDArray[np.uint32]:
    """32 bits of each query's labels in this source, or the data set's own; made once per data set."""

    def make() -> npt.NDArray[np.uint32]:
        out = np.empty(len(queries), np.uint32)
        labels = np.ascontiguousarray(queries.labels_of(source))
        label_hash_kernel()(labels, queries.offsets, out)
        return out

    return queries.memo(("label hash", source), make)
