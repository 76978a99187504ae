"""A LambdaRank as a leaf of a round: which loops its pairs are for, and what they are told."""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from ..errors import LambdaplugError
from ..kernels import (
    BY_GAIN,
    BY_RANK,
    BY_ROWS,
    FAST_SPREAD,
    STAGED,
    WIDE,
    Leaf,
    Levels,
    PairBias,
    PairShape,
    Pull,
    choose_kernel,
    exact_kernel,
    leaves,
    pairs_kernel,
    stage_kernel,
    swap_kernel,
)
from ..queries import Array
from ..schedules import constant
from .base import EMPTY, Round
from .smoothing import NO_DRAW, drawing

if TYPE_CHECKING:
    from .lambdarank import LambdaRank

__all__ = ["NO_COUNTS", "Choice", "Gains", "pair_leaf"]

NO_COUNTS: npt.NDArray[np.int64] = np.empty(0, dtype=np.int64)


class Gains(NamedTuple):
    """What a data set's gains look like to a loop by rows."""

    plain: bool = False  # they alone tell which document is better
    fine: bool = False  # deltas are so much smaller than their parts that float32 needs two of each
    levels: Levels = Levels()


class Choice(NamedTuple):
    """Which documents' pairs count."""

    rule: tuple[int, int, int] = (0, 0, 0)
    about: npt.NDArray[np.int32] = np.empty(0, np.int32)  # by row: its grade's level, -1 for none
    hashes: npt.NDArray[np.uint32] = np.empty(0, np.uint32)
    chosen: Array = EMPTY  # one per row, which receives it; empty: all count


NO_CHOICE, NO_BIAS = Choice(), PairBias()


def pair_leaf(
    objective: "LambdaRank", round: Round, tier: Array = EMPTY, counts: npt.NDArray[np.int64] = NO_COUNTS
) -> Leaf:
    """``tier``: one per row, or empty: only pairs of the same tier act. ``counts`` receives how many pairs of each query act."""
    queries, measure, rule, cost = round.queries, objective.kind, objective.rule, objective.pair_cost
    prepared, noise, (fast, slow, shift) = objective.prepared(queries), constant(objective.noise), rule.formulas(cost)
    seen, choice = rule.seen(objective, queries, prepared), rule.choice(objective, queries) or NO_CHOICE
    weight, chosen = queries.weights(objective.weight), choice.chosen
    delta, raised, biased = rule.pair_delta(measure, prepared), rule.raises(measure), round.bias is not None
    exact = round.exact or biased or objective.reach is not None or counts.size > 0
    by_rows = measure.by_rows and rule.by_rows and not raised
    gains = objective.gains(queries) if by_rows and not exact else Gains()
    shape = PairShape(
        gained=by_rows and measure.gained,
        plain=gains.plain and shift == 1.0 and not tier.size,
        symmetric=measure.symmetric,
        greater=measure.greater,
        fine=gains.fine if seen is prepared else measure.fine(seen.discount[: queries.longest]),
        scaled=by_rows and measure.scaled,
        weighed=weight.size + tier.size + chosen.size > 0,
        distanced=cost.distance > 0.0,
        shifted=shift != 1.0,
        summed=objective.log,
        spaced=rule.spaced,
        given=not by_rows,
        signed=not by_rows and delta.signed,
    )
    falling = shape.plain and not shape.spaced and gains.levels.begin.size > 0
    samples, draw, *noisy = 1, NO_DRAW, None, None
    if noise > 0.0:
        samples, draw, *noisy = objective.samples, *drawing(objective, round, noise, objective.noise_kind)
    pull = Pull(objective.sigma, shift, cost.distance, rule.least, objective.log, round.coefficient / samples)
    kernels = (
        *noisy,
        swap_kernel(rule.swap_rows(measure), measure.tabled, measure.value if raised else None),
        choose_kernel() if chosen.size else None,
        stage_kernel(True) if falling else None,
        stage_kernel(False),
        pairs_kernel(fast, shape, True) if falling else None,
        pairs_kernel(fast, shape, False, BY_ROWS if by_rows else delta),
        exact_kernel(delta, slow),
    )
    values = (
        *(seen.given, (prepared.grade, weight, tier, chosen), -1.0 if exact else FAST_SPREAD, tuple(shape)),
        tuple(gains.levels if falling else Levels()),
        *(tuple(pull), queries.longest if objective.reach is None else objective.reach, biased or not by_rows, counts),
        *(tuple(round.bias or NO_BIAS), draw, samples, (choice.rule, choice.about, choice.hashes), round.level),
    )

    def refuse(query: int) -> None:
        if biased:
            raise LambdaplugError(
                f"{objective!r}: a force in query {query} is not finite. Lower clip=, sigma or the gains, or scale the scores down."
            )
        rule.refuse(objective, query)

    return Leaf(leaves.pairs, kernels, values, refuse, measure, (0, 0, 0, 0, 0, STAGED, BY_GAIN, BY_RANK, WIDE))
