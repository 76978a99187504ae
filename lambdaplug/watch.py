"""A watch on rounds that learn nothing although there is something to learn: the boosters do not say so."""

import warnings
import weakref
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .errors import LambdaplugWarning
from .queries import DataSet

__all__ = ["watch"]


class Seen(NamedTuple):
    """What a training looked like in its last round."""

    spread: float
    slope: float
    warned: bool


_seen: "weakref.WeakKeyDictionary[Any, Seen]" = weakref.WeakKeyDictionary()


def watch(data: DataSet, scores: npt.ArrayLike, gradient: npt.NDArray[Any], hessian: npt.NDArray[Any]) -> None:
    """Warn, once a training, when the last round's tree has no split.

    Such a tree moves all scores alike, so neither their variance nor their slope over the rows changes. Only when that
    is so is the tree itself looked at.
    """
    values = np.asarray(scores, dtype=np.float64).reshape(-1)
    if data.training is None or values.size == 0:
        return
    centred = values - values.mean()
    spread = float(centred @ centred)
    slope = float(centred @ np.arange(values.size)) / values.size
    last = _seen.get(data.training)
    # A shift of all scores rounds each of them anew, in the host's precision.
    unchanged = 10 * np.finfo(np.asarray(scores).dtype).eps
    same = (
        last is not None
        and abs(spread - last.spread) <= unchanged * spread
        and abs(slope - last.slope) <= unchanged * np.sqrt(spread * values.size)
    )
    total = float(hessian.sum(dtype=np.float64))
    warned = last is not None and last.warned
    if same and not warned and np.any(gradient) and data.made_no_split is not None and data.made_no_split():
        parameter = data.hessian_floor
        warnings.warn(
            f"the last round made no split, so {data.host} learned nothing from it, although the gradients are not zero. "
            f"Each leaf must hold {parameter} of the hessians, and those of all {values.size} rows add up to {total:.3g}: "
            f"set {parameter} well below {total / 10:.1g} (0 is safe), or use step='gradient', whose hessians are 1. "
            "If it is that low already, look for features that do not vary and for limits on a split's gain and size.",
            LambdaplugWarning,
            stacklevel=3,
        )
        warned = True
    _seen[data.training] = Seen(spread, slope, warned)
