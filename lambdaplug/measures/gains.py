"""What labels and ranks are worth: gains by label, discounts by rank."""

import numpy as np

from ..errors import LambdaplugError
from .parameters import Array, Discount, Gain, literal

__all__ = ["discounts_by", "exp2", "gains_by", "max_label_of", "reciprocal_ranks"]


def exp2(labels: Array) -> Array:
    """2^label - 1."""
    if labels.size and (labels.min() < 0 or labels.max() > 30):
        bad = labels.min() if labels.min() < 0 else labels.max()
        raise LambdaplugError(
            f"gain 'exp2' is 2^label - 1 for labels from 0 to 30, got a label of {bad:g}. "
            "Use gain='linear', a sequence with one gain per label, or a callable."
        )
    return np.exp2(labels) - 1.0


def gains_by(gain: Gain, labels: Array, name: str) -> Array:
    """What the labels are worth by a measure's parameter ``gain``; ``name`` is the measure's."""
    if isinstance(gain, str):
        if gain == "exp2":
            return exp2(labels)
        values = labels
    elif callable(gain):
        levels, level = np.unique(labels, return_inverse=True)
        values = np.array([float(gain(x)) for x in levels.tolist()], dtype=np.float64)[level]
    else:
        if labels.size and (labels.min() < 0 or labels.max() >= len(gain) or np.any(labels != np.floor(labels))):
            raise LambdaplugError(
                f"{name}: a sequence of {len(gain)} gains takes the integer labels 0 to {len(gain) - 1}; "
                f"the labels go from {labels.min():g} to {labels.max():g}"
                + ("." if np.all(labels == np.floor(labels)) else " and are not all integers.")
            )
        values = np.asarray(gain, dtype=np.float64)[labels.astype(np.int64)]
    if values.size and not (np.isfinite(values).all() and values.min() >= 0):
        bad = values[~(np.isfinite(values) & (values >= 0))][0]
        raise LambdaplugError(f"{name}: gains must be finite and not negative; gain={literal(gain)} gave {bad:g}.")
    return values


def discounts_by(discount: Discount, n: int, name: str) -> Array:
    """What ranks 1 to n count by a measure's parameter ``discount``."""
    if isinstance(discount, str):
        return 1.0 / np.log2(np.arange(2, n + 2))
    if callable(discount):
        values = np.array([float(discount(rank)) for rank in range(1, n + 1)])
    else:  # ranks beyond the sequence count nothing
        values = np.zeros(n)
        values[: len(discount)] = discount[:n]
    if not (np.isfinite(values).all() and (values >= 0).all()):
        raise LambdaplugError(f"{name}: discounts must be finite and not negative; got {values[:5]}...")
    return values


def reciprocal_ranks(n: int) -> Array:
    """1/r for ranks 1 to n."""
    return 1.0 / np.arange(1, n + 1)


def max_label_of(labels: Array, given: float | None, name: str) -> float:
    """The largest label there can be: the parameter ``max_label``, else the largest one there is."""
    found = float(labels.max(initial=0.0))
    if given is not None and found > given:
        raise LambdaplugError(f"{name}: max_label is {given:g}, but the labels go up to {found:g}.")
    return found if given is None else float(given)
