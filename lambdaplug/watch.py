"""A watch on trainings whose trees cannot grow because the hessians are small: the boosters do not say so."""

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt

from .errors import LambdaplugWarning
from .training import DataSet

__all__ = ["watch"]

LOOKS = 1, 10  # rounds, counted from 1: hessians are largest at first, and the first trees say little
FEW = 10.0  # leaves


def watch(data: DataSet, gradient: npt.NDArray[Any], hessian: npt.NDArray[Any]) -> None:
    """Warn, once per training, when the hessians of all rows suffice for few leaves, or for no split at all."""
    training = data.training
    if training is None or data.look or data.partial or training.warned:
        return
    training.looked += 1
    if training.looked not in LOOKS or not gradient.any():
        return
    floor, total = data.host.hessian_floor(data.booster), float(hessian.sum(dtype=np.float64))
    none = total < 2.0 * floor
    training.warned = none or (training.looked > 1 and total < FEW * floor)
    if training.warned:
        found = "no split, and the booster learns nothing" if none else f"at most {total / floor:.0f} leaves"
        name = data.host.floor_name
        warnings.warn(
            f"each leaf must hold {floor:g} of the hessians ({name}), and those of all {len(hessian)} rows add up to "
            f"{total:.3g}: a tree can have {found}. Set {name} well below {total / 1000:.1g} (1e-12 is safe), or use "
            "step='gradient', whose hessians are 1. L2 regularisation (lambda, lambda_l2) is on the same scale.",
            LambdaplugWarning,
            stacklevel=3,
        )
