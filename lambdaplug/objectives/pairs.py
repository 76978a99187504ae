"""A LambdaRank as a leaf of a round: which loops its pairs are for, and what they are told."""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from ..errors import LambdaplugError
from ..kernels import (
    BY_GAIN,
    BY_RANK,
    COLUMN_BLOCK,
    FAST_SPREAD,
    STAGED,
    WIDE,
    Leaf,
    Levels,
    PairBias,
    PairShape,
    Pull,
    Wanted,
    by_delta_kernel,
    choose_kernel,
    exact_kernel,
    leaves,
    pairs_kernel,
    stage_by_gain_kernel,
    stage_by_rank_kernel,
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

    plain: bool  # they alone tell which document is better
    fine: bool  # deltas are so much smaller than their parts that float32 needs two of each
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
    prepared, noise = objective.prepared(queries), constant(objective.noise)
    seen = rule.seen(objective, queries, prepared)
    choice = rule.choice(objective, queries) or NO_CHOICE
    weight, chosen = queries.weights(objective.weight), choice.chosen
    fast, exact, shift = rule.formulas(cost)
    delta = rule.pair_delta(measure, prepared)
    distanced, floored = cost.distance > 0.0, rule.least > 0.0
    alike = measure.by_rows and rule.by_rows and not rule.raises(measure) and objective.neighbours is None
    by_rows = alike and round.bias is None and not counts.size
    falling, levels = False, Levels()
    if by_rows:
        gains = objective.gains(queries)
        spaced, levels = rule.spaced, gains.levels
        shape = PairShape(
            gained=measure.gained,
            plain=gains.plain and shift == 1.0 and not tier.size,
            symmetric=measure.symmetric,
            greater=measure.greater,
            fine=gains.fine if seen is prepared else measure.fine(seen.discount[: queries.longest]),
            scaled=measure.scaled,
            weighted=weight.size > 0,
            tiered=tier.size > 0,
            distanced=distanced,
            shifted=shift != 1.0,
            summed=objective.log,
            spaced=spaced,
            capped=spaced and measure.cutoff is not None,
            chosen=chosen.size > 0,
        )
        parts = not shape.plain, shape.symmetric and not spaced, shape.ordered, shape.fine, distanced
        wanted = Wanted(objective.sigma, -1.0 if round.exact else FAST_SPREAD, True, *parts, spaced=spaced)
        falling = shape.plain and not spaced and levels.begin.size > 0
        loop, by_gain = (pairs_kernel(fast, shape, way) for way in (False, True))
    else:
        plain = not (weight.size or tier.size or distanced or floored or chosen.size)
        slow = round.exact or objective.reach is not None or counts.size > 0 or round.bias is not None
        wanted = Wanted(
            sigma=objective.sigma,
            spread=-1.0 if slow else FAST_SPREAD,
            weighed=not plain or delta.costly or round.bias is not None,
            floored=floored,
        )
        loop = by_delta_kernel(delta, fast, shift != 1.0, objective.log, plain, queries.longest > COLUMN_BLOCK)
        by_gain = None
    samples, draw, *noisy = 1, NO_DRAW, None, None
    if noise > 0.0:
        samples, draw, *noisy = objective.samples, *drawing(objective, round, noise, objective.noise_kind)
    pull = Pull(objective.sigma, shift, cost.distance, rule.least, objective.log, round.coefficient / samples)
    kernels = (
        *noisy,
        swap_kernel(rule.swap_rows(measure), measure.tabled, measure.value if rule.raises(measure) else None),
        choose_kernel() if chosen.size else None,
        stage_by_gain_kernel() if falling else None,
        stage_by_rank_kernel(),
        *(by_gain, loop, exact_kernel(delta, exact)),
    )
    values = (
        *(seen.given, (prepared.grade, weight, tier, chosen), tuple(wanted), tuple(levels if falling else Levels())),
        *(tuple(pull), queries.longest if objective.reach is None else objective.reach, not by_rows, counts),
        *(tuple(round.bias or NO_BIAS), draw, samples, (choice.rule, choice.about, choice.hashes), round.level),
    )

    def refuse(query: int) -> None:
        if round.bias is not None:
            raise LambdaplugError(
                f"{objective!r}: a force in query {query} is not finite. Lower clip=, sigma or the gains, or scale the scores down."
            )
        rule.refuse(objective, query)

    return Leaf(leaves.pairs, kernels, values, refuse, measure, (0, 0, 0, 0, 0, STAGED, BY_GAIN, BY_RANK, WIDE))
