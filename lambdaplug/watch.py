"""A watch on rounds that learn nothing although there is something to learn: the boosters do not say so."""

import warnings
import weakref
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .errors import LambdaplugWarning
from .training import DataSet

__all__ = ["watch"]


SAMPLE = 128


class Seen(NamedTuple):
    """What a training looked like in its last round."""

    sample: npt.NDArray[np.float64]  # the scores of some rows
    warned: bool


_seen: "weakref.WeakKeyDictionary[Any, Seen]" = weakref.WeakKeyDictionary()


def watch(data: DataSet, scores: npt.ArrayLike, gradient: npt.NDArray[Any], hessian: npt.NDArray[Any]) -> None:
    """Warn, once a training, when the last round's tree has no split.

    Such a tree moves all scores alike. A few rows tell most rounds from that; only when they do not is the tree itself
    looked at.
    """
    values = np.asarray(scores).reshape(-1)
    if data.booster is None or values.size == 0:
        return
    sample = values[:: 1 + values.size // SAMPLE].astype(np.float64)
    last = _seen.get(data.booster)
    warned = last is not None and last.warned
    if last is not None and not warned and len(last.sample) == len(sample):
        moved = sample - last.sample
        # A shift of all scores rounds each of them anew, in the host's precision.
        rounding = 4 * np.finfo(values.dtype).eps * max(np.abs(sample).max(), np.abs(last.sample).max())
        alike = np.ptp(moved) <= rounding
        if alike and np.any(gradient) and data.made_no_split is not None and data.made_no_split():
            parameter, total = data.hessian_floor, float(hessian.sum(dtype=np.float64))
            warnings.warn(
                f"the last round made no split, so {data.host} learned nothing from it, although the gradients are not "
                f"zero. Each leaf must hold {parameter} of the hessians, and those of all {values.size} rows add up to "
                f"{total:.3g}: set {parameter} well below {total / 10:.1g} (1e-12 is safe), or use step='gradient', whose "
                "hessians are 1. If it is that low already, look for features that do not vary and for limits on a "
                "split's gain and size.",
                LambdaplugWarning,
                stacklevel=3,
            )
            warned = True
    _seen[data.booster] = Seen(sample, warned)
