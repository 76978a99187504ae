"""Reading afterwards what a training has learned of its display positions."""

from typing import Any

import numpy as np

from ..checking import shown
from ..errors import LambdaplugError
from ..objectives import Objective, Unbiased
from ..objectives.unbiased import PositionBias, State, keep_state, last_state
from .following import host_of

__all__ = ["learned", "position_bias", "remember"]


def learned(objective: Any, trained: Any) -> PositionBias | None:
    """The ``position_bias`` of a worker's training; None where it learns none."""
    return position_bias(trained) if isinstance(objective, Unbiased) and objective.propensities is None else None


def remember(booster: Any, objective: Any, curve: PositionBias | None) -> None:
    """Have ``position_bias`` find what the workers of a cluster have learned, where they have."""
    if curve is not None:
        state = State(curve.method, curve)
        state.counts = np.array(curve.counts)
        host_of(booster).training(booster).memory[objective] = state
        keep_state(objective, state)


def position_bias(trained: Any) -> PositionBias:
    """The curve of position biases that a training with ``lp.Unbiased`` has learned, by position, with ``.plot()``.

    Parameters
    ----------
    trained : Booster, estimator or objective
        A Booster of LightGBM or XGBoost as the training returned it, ``lp.LGBMRanker`` or ``lp.XGBRanker`` after ``fit``, or
        the objective: then of the training that began last with it. A Booster that was saved, copied or sliced
        (XGBoost's ``save_best=True``) has no curve; ask the objective.

    Returns
    -------
    PositionBias
        ``propensity``, one value per position, 1 at the first; ``bias`` (additive) or ``plus`` and ``minus`` (pairwise), as
        the last round left them, whichever round early stopping chose; ``rows`` and ``clicks``. After a training on Dask,
        the one curve that all workers have.

    Examples
    --------
    >>> import lambdaplug as lp
    >>> position_bias(lp.Unbiased(lp.LambdaRank("map"), position="rows", rate=0.5))
    Traceback (most recent call last):
        ...
    lambdaplug.errors.LambdaplugError: no training with Unbiased(LambdaRank('map'), position='rows', rate=0.5) has begun in this process.
    """
    if isinstance(trained, Objective):
        state = last_state(trained)
        if state is None:
            raise LambdaplugError(f"no training with {trained!r} has begun in this process.")
        return state.curve
    booster = getattr(trained, "booster_", None) or (
        trained.get_booster() if hasattr(trained, "get_booster") else trained
    )
    try:
        memory = host_of(booster).training(booster).memory
    except StopIteration:
        raise LambdaplugError(
            f"expected a Booster, a fitted ranker or an lp.Unbiased objective, got {shown(trained)}."
        ) from None
    states = [state for state in memory.values() if isinstance(state, State)]
    if not states:
        raise LambdaplugError(
            "this Booster has learned no position biases: it was trained without lp.Unbiased, with known propensities, or is a "
            "copy (saved and loaded, sliced, unpickled). Ask the objective: lp.position_bias(objective)."
        )
    return states[-1].curve
