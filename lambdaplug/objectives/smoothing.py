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

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from ..errors import LambdaplugError
from ..kernels import NOISE_KINDS, count_kernel, label_hash_kernel, noise_kernel, rank_kernel
from ..queries import COUNTED, Queries
from ..schedules import Number, check_of_iteration
from .base import Round

__all__ = ["NO_DRAW", "check_noise", "drawing", "label_hash"]

Draw: TypeAlias = tuple[npt.NDArray[np.uint32], int, float, int]  # as leaves.py has it
NO_DRAW: Draw = np.empty(0, np.uint32), 0, 0.0, -1


def check_noise(noise: object, kind: object) -> Number:
    """The noise, if both make sense."""
    noise = check_of_iteration(noise, "noise", "lp.cosine(1.0, 0.1, 200)")
    if kind not in NOISE_KINDS:
        raise LambdaplugError(f"noise_kind: expected {', '.join(map(repr, NOISE_KINDS))}, got {kind!r}.")
    return noise


def drawing(objective: Any, round: Round, noise: float, kind: str) -> tuple[Draw, Any, Any]:
    """What a leaf with noisy orders is told, and its kernels: the noise's, and one that ranks."""
    key = objective.labels, objective.seed, noise, kind
    number = round.draws.setdefault(key, len(round.draws))  # equal draws are made once for all leaves
    draw = label_hash(objective.labels, round.queries), objective.seed, noise, number
    return draw, noise_kernel(kind), rank_kernel() if round.queries.longest > COUNTED else count_kernel()


def label_hash(column: str | None, queries: Queries) -> npt.NDArray[np.uint32]:
    """32 bits of each query's labels in this column, or the data set's own; made once per data set."""

    def make() -> npt.NDArray[np.uint32]:
        out = np.empty(len(queries), np.uint32)
        labels = np.ascontiguousarray(queries.labels_of(column))
        label_hash_kernel()(labels, queries.offsets, out)
        return out

    return queries.memo(("label hash", column), make)
