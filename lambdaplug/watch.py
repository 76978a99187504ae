"""A watch on rounds that learn little although there is something to learn: the boosters do not say so."""

import warnings
import weakref
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .errors import LambdaplugWarning
from .training import DataSet

__all__ = ["watch"]


SAMPLE = 128
LOOKS = 10, 20, 40  # rounds, after which the trees are looked at
TREES = 5  # the last ones, then
ROWS = 40  # for each leaf, at least: trees of few rows are small in any case
FEW = 0.3  # of the leaves that are possible
NEAR = 3.0  # times the floor: what leaves hold on average where the floor is what stops them
FITTED = 0.1  # of the gradients: no more than that is left where the training data are learnt, and trees shrink rightly


class Seen(NamedTuple):
    """What a training looked like in its last round."""

    sample: npt.NDArray[np.float64]  # the scores of some rows
    pushed: bool  # its gradients were not all zero
    rounds: int
    gradient: float  # the largest sum, without signs, of the first round and those looked at
    warned: bool


_seen: "weakref.WeakKeyDictionary[Any, Seen]" = weakref.WeakKeyDictionary()


def watch(data: DataSet, scores: npt.ArrayLike, gradient: npt.NDArray[Any], hessian: npt.NDArray[Any]) -> None:
    """Warn, once per training, when the last round's tree has no split, or when the hessians keep the trees small.

    A tree without a split moves all scores alike. A few rows tell most rounds from that; only when they do not is the
    tree itself looked at. The size of trees is looked at a few times, from the booster's own account of them: with a low
    learning rate they become small later. They do so too as the training data are learnt, with nothing lost: then few
    gradients are left.
    """
    values = np.asarray(scores).reshape(-1)
    if data.booster is None or values.size == 0:
        return
    sample = values[:: 1 + values.size // SAMPLE].astype(np.float64)
    last = _seen.get(data.booster)
    if last is None or len(last.sample) != len(sample):
        warned = last is not None and last.warned
        _seen[data.booster] = Seen(sample, _pushed(gradient), 0, _size(gradient), warned)
        return
    message, rounds, most = None, last.rounds + 1, last.gradient
    if not last.warned:
        moved = sample - last.sample
        # A shift of all scores rounds each of them anew, in the host's precision.
        rounding = 4 * np.finfo(values.dtype).eps * max(np.abs(sample).max(), np.abs(last.sample).max())
        if np.ptp(moved) <= rounding and last.pushed:
            message = _no_split(data, values.size, hessian)
        if rounds in LOOKS:
            size = _size(gradient)
            most = max(most, size)
            if message is None and size > FITTED * most:
                message = _small_trees(data, values.size)
    if message is not None:
        warnings.warn(message, LambdaplugWarning, stacklevel=3)
    warned = last.warned or message is not None
    _seen[data.booster] = Seen(sample, _pushed(gradient), rounds, most, warned)


def _pushed(gradient: npt.NDArray[Any]) -> bool:
    """Whether any gradient is not zero; a few rows mostly tell."""
    return bool(gradient[:: 1 + gradient.size // SAMPLE].any() or gradient.any())


def _size(gradient: npt.NDArray[Any]) -> float:
    return float(np.abs(gradient).sum(dtype=np.float64))


def _no_split(data: DataSet, rows: int, hessian: npt.NDArray[Any]) -> str | None:
    grown = data.grown(1)
    if grown is None or max(grown.leaves) > 1:
        return None
    parameter, total = data.hessian_floor, float(hessian.sum(dtype=np.float64))
    return (
        f"the last round made no split, so {data.host} learned nothing from it, although its gradients were not zero. Each "
        f"leaf must hold {parameter} of the hessians, and those of all {rows} rows add up to {total:.3g}: set {parameter} "
        f"well below {total / 10:.1g} (1e-12 is safe), or use step='gradient', whose hessians are 1. If it is that low "
        "already, look for features that do not vary and for limits on a split's gain and size."
    )


def _small_trees(data: DataSet, rows: int) -> str | None:
    """What to say where leaves are few, and hold hardly more of the hessians than they must.

    Leaves that are few for another reason hold more: features that hardly vary, a limit on the gain of a split.
    """
    grown = data.grown(TREES)
    if grown is None:
        return None
    leaves, possible = float(np.median(grown.leaves)), min(grown.possible, rows // ROWS)
    if leaves > FEW * possible or grown.hessian > NEAR * grown.floor * leaves:
        return None
    return (
        f"the trees are small: the last {len(grown.leaves)} have {leaves:g} leaves (median), where {data.host} could grow "
        f"{possible}. Each leaf must hold {grown.floor:g} of the hessians ({data.hessian_floor}), and those of a whole "
        f"tree add up to {grown.hessian:.3g}: set {data.hessian_floor} well below {grown.hessian / possible / 10:.1g} "
        "(1e-12 is safe), or use step='gradient', whose hessians are 1. L2 regularisation (lambda, lambda_l2) is on the "
        "same scale."
    )
