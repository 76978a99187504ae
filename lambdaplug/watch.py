"""A watch on rounds that learn nothing although there is something to learn: the boosters do not say so."""

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt

from .errors import LambdaplugWarning
from .queries import DataSet

__all__ = ["watch"]


def watch(
    data: DataSet, objective: object, scores: npt.ArrayLike, gradient: npt.NDArray[Any], hessian: npt.NDArray[Any]
) -> None:
    """Warn, once a data set and objective, when the last round's tree changed no score.

    A tree without a split moves all scores alike, so their variance stays; any other tree changes it.
    """
    values = np.asarray(scores).reshape(-1)
    if values.size == 0 or values.dtype.kind != "f":
        return
    spread = float(np.var(values, dtype=np.float64))
    unchanged = 10 * np.finfo(values.dtype).eps * spread  # a shift of all scores rounds each of them anew
    key = id(objective)
    last = data.state.get(key)
    if last is not None and abs(spread - last[0]) <= unchanged and not last[2] and np.any(gradient):
        parameter, total = data.hessian_floor, last[1]
        warnings.warn(
            f"the last round made no split, so {data.host} learned nothing from it, although the gradients are not zero. "
            f"Each leaf must hold {parameter} of the hessians, and those of all {values.size} rows add up to {total:.3g}: "
            f"set {parameter} well below {total / 10:.1g} (0 is safe), or use step='gradient', whose hessians are 1. "
            "If it is that low already, look for features that do not vary and for limits on a split's gain and size.",
            LambdaplugWarning,
            stacklevel=3,
        )
        data.state[key] = (spread, total, True)
        return
    data.state[key] = (spread, float(hessian.sum(dtype=np.float64)), last is not None and last[2])
