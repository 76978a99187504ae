"""Walk a model's weights uphill on a measure itself, as far as other queries agree."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..checking import integer
from ..errors import LambdaplugError
from ..queries import Array
from .landscape import Landscape, unit, unit_directions

__all__ = ["POLISH_STEPS", "climb"]

POLISH_STEPS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)  # times the norm of the weights
TOLERANCE = 1e-12


def climb(
    train: Landscape,
    valid: Landscape,
    rounds: int,
    probes: int,
    steps: Sequence[float],
    patience: int,
    seed: int,
    tick: Callable[[int], Any],
) -> tuple[Array, list[dict[str, Any]]]:
    """What to add to the weights, and a row for each accepted step.

    A round has two directions to go: the sum of the lambda forces in each leaf, and the slope of the measure itself,
    from its differences along random directions both ways. Of all steps along either, the one that raises the
    training measure most is taken; when none does, or validation has not risen for so many rounds, the walk is over.

    Parameters
    ----------
    train, valid : Landscape
        Where to climb, and where to look whether it helped.
    rounds, probes, patience, seed : int
        As for ``lp.analysis.polish``.
    steps : sequence of float
        As for ``lp.analysis.polish``.
    tick : callable
        Called with 1 after each round.

    Returns
    -------
    array, list of dict
        What to add to the weights, and one row per accepted step.

    Examples
    --------
    >>> from lambdaplug.analysis import LeafModel
    >>> from lambdaplug.queries import Queries
    >>> leaves = np.array([[0], [1]], np.int32)  # two rows, each in a leaf of its own of one tree
    >>> model = LeafModel(np.array([1.0, 0.0]), 1, lambda first, last: (np.array([1.0, 0.0])[first:last], leaves[first:last]))
    >>> landscape = Landscape(model, Queries([0, 1], [2]), "ndcg")
    >>> moved, trace = climb(landscape, landscape, 3, 0, [0.5, 1.0], 1, 0, lambda rounds: None)
    >>> trace[0]["train"] < trace[-1]["train"]
    True
    """
    for name, count, least in (("rounds", rounds, 0), ("probes", probes, 0), ("patience", patience, 1)):
        integer(count, f"polish: {name}", least)
    weights = train.model.weights
    norm = float(np.sqrt(np.square(weights).sum()))
    lengths = np.sort(np.asarray(steps, dtype=np.float64)).tolist()
    if not lengths or lengths[0] <= 0:
        raise LambdaplugError(f"polish: expected steps above 0, as shares of the norm of the weights; got {steps!r}.")
    moved = np.zeros_like(weights)
    best, best_value = moved, valid.value()
    trace: list[dict[str, Any]] = [
        {"round": 0, "train": train.value(), "valid": best_value, "step": 0.0, "direction": "start"}
    ]
    stale = 0
    for number in range(1, rounds + 1 if norm > 0 else 1):
        ways = {"lambda": train.lambda_direction(moved)}
        if probes:
            ways["slope"] = _slope(train, moved, norm, lengths[len(lengths) // 2], probes, [seed, number])
        ways = {name: way for name, way in ways.items() if way.any()}
        table = np.stack([norm * way for way in ways.values()], axis=1) if ways else np.empty((len(weights), 0))
        trial = train.along(lambda first, last, table=table: table[:, first:last], len(ways), lengths, moved)  # type: ignore[misc]
        tick(1)
        if not ways or trial.change.max() <= TOLERANCE * max(1.0, abs(trial.value)):
            break
        way, length = np.unravel_index(int(trial.change.argmax()), trial.change.shape)
        moved = moved + lengths[length] * table[:, way]
        value = valid.value(moved)
        trace.append(
            {
                "round": number,
                "train": trial.value + float(trial.change[way, length]),
                "valid": value,
                "step": lengths[length],
                "direction": list(ways)[way],
            }
        )
        stale += 1
        if value > best_value:
            best, best_value, stale = moved, value, 0
        if stale >= patience:
            break
    return best, trace


def _slope(train: Landscape, moved: Array, norm: float, length: float, probes: int, seed: list[int]) -> Array:
    """The slope of the measure within the span of random directions, from differences both ways; of unit length."""
    mix = int(np.random.default_rng(seed).integers(1 << 62))
    table = unit_directions(len(moved), range(probes), mix)
    both = train.along(lambda first, last: norm * table[:, first:last], probes, [length, -length], moved)
    return unit((table * (both.change[:, 0] - both.change[:, 1])).sum(axis=1))
