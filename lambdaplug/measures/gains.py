"""What labels and ranks are worth, and what else a measure takes: its parameters checked, and as text."""

import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypeAlias

import numpy as np

from ..checking import is_number, shown
from ..errors import LambdaplugError
from ..grouping import Array
from ..kernels import inlinable
from ..values import literal

__all__ = [
    "Array",
    "Cutoff",
    "Discount",
    "Gain",
    "Share",
    "checked",
    "discounts_by",
    "exp2",
    "gains_by",
    "max_label_of",
    "stop_chances",
    "summed",
]

Cutoff: TypeAlias = int | str  # for all queries, or the name of a column with one per query
Gain: TypeAlias = str | Sequence[float] | Callable[[float], float]
Discount: TypeAlias = str | Sequence[float] | Callable[[int], float]
Share: TypeAlias = Annotated[float, "0 <= p < 1"]


def _is_cutoff(value: Any) -> bool:
    if isinstance(value, str):
        return value != ""
    return is_number(value) and isinstance(value, int) and 1 <= value < 2**31


def _is_finite(value: Any) -> bool:
    return is_number(value) and abs(value) <= sys.float_info.max  # false for NaN, too


def _is_table(value: Any, *words: str) -> bool:
    """Whether it is one of these words, a function, or a sequence of numbers."""
    if isinstance(value, (str, bytes)):
        return value in words
    return callable(value) or (isinstance(value, (Sequence, np.ndarray)) and all(map(_is_finite, value)))


# By the type that a parameter is declared with, None apart: what it may be, in words and in code. Parameters of other types
# look after themselves.
_KINDS: dict[Any, tuple[str, Callable[[Any], bool]]] = {
    Cutoff: ("an integer >= 1 (and < 2**31), or the name of a column with one per query", _is_cutoff),
    int: ("an integer >= 1 (and < 2**31)", lambda k: not isinstance(k, str) and _is_cutoff(k)),
    float: ("a finite number", _is_finite),
    Share: ("a number >= 0 and < 1", lambda p: is_number(p) and 0 <= p < 1),
    bool: ("True or False", lambda value: isinstance(value, bool)),
    Gain: (
        "'exp2', 'linear', a sequence of finite numbers or a callable",
        lambda gain: _is_table(gain, "exp2", "linear"),
    ),
    Discount: ("'log2', a sequence of finite numbers or a callable", lambda discount: _is_table(discount, "log2")),
}
_KINDS |= {kind | None: known for kind, known in _KINDS.items()}


def checked(measure: str, name: str, kind: Any, value: Any, optional: bool) -> Any:
    """A parameter as a measure keeps it: Python's own numbers, a tuple for a sequence. Raises where it is not allowed."""
    if kind not in _KINDS or (optional and value is None):
        return value
    if isinstance(value, np.generic):
        value = value.item()
    expected, admits = _KINDS[kind]
    if not admits(value):
        raise LambdaplugError(f"{measure}: {name} must be {expected}{', or None' * optional}; got {shown(value)}.")
    return (
        tuple(map(float, value)) if isinstance(value, (Sequence, np.ndarray)) and not isinstance(value, str) else value
    )


def exp2(labels: Array) -> Array:
    """2^label - 1."""
    wrong = labels[(labels < 0) | (labels > 30)]
    if wrong.size:
        raise LambdaplugError(
            f"gain 'exp2' is 2^label - 1 for labels from 0 to 30, got a label of {wrong[0]:g}. "
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
        wrong = labels[(labels < 0) | (labels >= len(gain)) | (labels != np.floor(labels))]
        if wrong.size:
            raise LambdaplugError(
                f"{name}: a sequence of {len(gain)} gains takes the integer labels 0 to {len(gain) - 1}; got {wrong[0]:g}."
            )
        values = np.asarray(gain, dtype=np.float64)[labels.astype(np.int64)]
    wrong = values[~(np.isfinite(values) & (values >= 0))]
    if wrong.size:
        raise LambdaplugError(f"{name}: gains must be finite and not negative; gain={literal(gain)} gave {wrong[0]:g}.")
    return values


_BY_RANK: dict[str, Callable[[Any], Any]] = {
    "log2": lambda ranks: 1.0 / np.log2(1 + ranks),
    "reciprocal": lambda ranks: 1.0 / ranks,
    "equal": lambda ranks: np.ones(len(ranks)),
}


def discounts_by(discount: Discount, n: int, name: str) -> Array:
    """What ranks 1 to n count by a measure's parameter ``discount``."""
    if isinstance(discount, str):
        return np.asarray(_BY_RANK[discount](np.arange(1, n + 1)))
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


def max_label_of(labels: Array, given: float | None, name: str) -> float:
    """The largest label there can be: the parameter ``max_label``, else the largest one there is."""
    found = float(labels.max(initial=0.0))
    if given is not None and found > given:
        raise LambdaplugError(f"{name}: max_label is {given:g}, but the labels go up to {found:g}.")
    return found if given is None else float(given)


def stop_chances(labels: Array, max_label: float | None, name: str) -> Array:
    """(2^label - 1)/2^max_label: how likely the user of ERR stops at documents with these labels."""
    return np.asarray(exp2(labels) / np.exp2(max_label_of(labels, max_label, name)))
