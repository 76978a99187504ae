"""What labels and ranks are worth, and what else a measure takes: its parameters checked, and as text."""

import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from ..checking import shown
from ..errors import LambdaplugError
from ..grouping import Array
from ..kernels import inlinable
from ..values import literal

__all__ = [
    "CUTOFF",
    "Array",
    "Discount",
    "Gain",
    "checked",
    "discounts_by",
    "exp2",
    "gains_by",
    "max_label_of",
    "reciprocal_ranks",
    "summed",
]

Gain: TypeAlias = str | Sequence[float] | Callable[[float], float]
Discount: TypeAlias = str | Sequence[float] | Callable[[int], float]


def _is_cutoff(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value < 2**31


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and abs(value) <= sys.float_info.max  # false for NaN, too


def _is_series(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return value.ndim == 1 and value.dtype.kind in "buif" and bool(np.isfinite(value).all())
    listed = isinstance(value, Sequence) and not isinstance(value, (str, bytes))
    return listed and all(_is_number(x.item() if isinstance(x, np.generic) else x) for x in value)


def _is_gain(value: object) -> bool:
    return value in ("exp2", "linear") if isinstance(value, str) else callable(value) or _is_series(value)


def _is_discount(value: object) -> bool:
    return value == "log2" if isinstance(value, str) else callable(value) or _is_series(value)


CUTOFF = int | None

# By the type that a parameter is declared with: what it may be, in words and in code. Parameters
# of other types look after themselves.
_KINDS: dict[Any, tuple[str, Callable[[Any], bool]]] = {
    CUTOFF: ("an integer >= 1 (and < 2**31), or None for all ranks", lambda k: k is None or _is_cutoff(k)),
    float: ("a finite number", _is_number),
    float | None: ("a finite number, or None", lambda x: x is None or _is_number(x)),
    bool: ("True or False", lambda value: isinstance(value, int) and value in (0, 1)),
    Gain: ("'exp2', 'linear', a sequence of finite numbers or a callable", _is_gain),
    Gain | None: (
        "'exp2', 'linear', a sequence of finite numbers, a callable or None",
        lambda x: x is None or _is_gain(x),
    ),
    Discount: ("'log2', a sequence of finite numbers or a callable", _is_discount),
}


def checked(measure: str, name: str, kind: Any, value: Any) -> Any:
    """A parameter as a measure keeps it: Python's own numbers, a tuple for a sequence. Raises where it is not allowed."""
    if isinstance(value, np.generic):
        value = value.item()
    if kind not in _KINDS:
        return value
    expected, admits = _KINDS[kind]
    if not admits(value):
        raise LambdaplugError(f"{measure}: {name} must be {expected}; got {shown(value)}.")
    if not isinstance(value, str) and isinstance(value, (Sequence, np.ndarray)):
        return tuple(float(x) for x in value)
    return value


def exp2(labels: Array) -> Array:
    """2^label - 1."""
    if labels.size and (labels.min() < 0 or labels.max() > 30):
        bad = labels.min() if labels.min() < 0 else labels.max()
        raise LambdaplugError(
            f"gain 'exp2' is 2^label - 1 for labels from 0 to 30, got a label of {bad:g}. "
            "Use gain='linear', a sequence with one gain per label, or a callable. Where this is what lp.objective adds for "
            "support, NDCG of the whole list: lp.objective('map', support=\"ndcg(gain='linear')\")."
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


@inlinable
def summed(values: Any, low: int, high: int) -> float:
    """The sum over these ranks."""
    total = 0.0
    for r in range(low, high):
        total += values[r]
    return total


def reciprocal_ranks(n: int) -> Array:
    """1/r for ranks 1 to n."""
    return 1.0 / np.arange(1, n + 1)


def max_label_of(labels: Array, given: float | None, name: str) -> float:
    """The largest label there can be: the parameter ``max_label``, else the largest one there is."""
    found = float(labels.max(initial=0.0))
    if given is not None and found > given:
        raise LambdaplugError(f"{name}: max_label is {given:g}, but the labels go up to {found:g}.")
    return found if given is None else float(given)
