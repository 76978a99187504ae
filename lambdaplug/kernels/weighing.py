"""What a pair of documents weighs besides its delta, in one place for all pair loops."""

from typing import Any, NamedTuple

import numpy as np

from .compiling import copied, inlinable, reducible

__all__ = ["Pair", "PairShape", "Weighed", "distance", "log_scale", "nearness", "weigh", "weigh_exactly"]


class PairShape(NamedTuple):
    """What a loop by rows is specialised for; everything else is an argument and never recompiles."""

    gained: bool = True  # |delta| has the factor |gain_i - gain_j|
    plain: bool = False  # the gains alone tell which document is better, every document is in pairs, and no tiers
    symmetric: bool = False  # upper and lower are the same, so that it does not matter which document ranks higher
    greater: bool = False  # whichever ranks higher, the delta is the greater of its two forms
    fine: bool = True  # upper - lower is so much smaller than both that they are kept in two parts
    scaled: bool = False  # |delta| has a factor of the upper document
    weighted: bool = False  # documents carry weights
    tiered: bool = False  # only pairs of the same tier
    distanced: bool = False  # |delta| is divided by a constant plus the distance of the places
    shifted: bool = False  # the cost has a parameter
    summed: bool = False  # a query is scaled by log2(1 + S)/S, S its summed force
    spaced: bool = False  # |delta| has a summand by the distance of the two ranks: lower is the rank, scale the table
    capped: bool = False  # and there is a cut, below which all ranks are one
    chosen: bool = False  # only pairs with a chosen document

    @property
    def ordered(self) -> bool:
        """Whether a list by falling gain has to know its documents' ranks."""
        return not self.symmetric and (self.fine or not self.greater)


class Pair(NamedTuple):
    """Which weights there are; a PairShape says it too."""

    weighted: bool
    tiered: bool
    distanced: bool
    chosen: bool


class Weighed(NamedTuple):
    """One document as a pair's weight sees it."""

    weight: float
    tier: float
    place: float  # the score that it is ordered by
    place_rest: float  # what float32 leaves of it
    chosen: float  # not 0: its pairs count


@inlinable
def distance(upper: float, upper_rest: float, lower: float, lower_rest: float) -> float:
    """|upper - lower| of two numbers held in two parts each; strict arithmetic, or the second parts are lost."""
    return abs((upper - lower) + (upper_rest - lower_rest))


@reducible
def weigh(pair: Any, size: float, better: bool, one: Any, other: Any, apart: float) -> float:  # noqa: ARG001
    """The weight of a pair: a function of its two documents. ``better``: the one is the better of the two.

    Here no weight asks which is better. The one that does, a click's propensity, is for exact.py's loop alone.
    """
    if pair.weighted:
        size *= one.weight * other.weight
    if pair.tiered:
        size = size if one.tier == other.tier else np.float32(0.0)
    if pair.chosen:
        size = size if one.chosen + other.chosen > np.float32(0.0) else np.float32(0.0)
    if pair.distanced:
        size /= apart + distance(one.place, one.place_rest, other.place, other.place_rest)
    return size


weigh_exactly = inlinable(copied(weigh))  # the same for float64: nothing reordered


@inlinable
def nearness(near: float, place: Any, n: int) -> float:
    """What a pair's distance is added to. Where all places are equal nothing is divided."""
    for r in range(1, n):
        if place[r] != place[0]:
            return near
    return 1.0


@inlinable
def log_scale(force: float) -> float:
    """log2(1 + S)/S."""
    return np.log2(1.0 + force) / force if force > 0.0 else 1.0
