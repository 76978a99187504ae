"""What a parameter of a measure may be, in words and in code, and how it prints."""

import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ..checking import shown
from ..errors import LambdaplugError

__all__ = ["CUTOFF", "Array", "Discount", "Gain", "checked", "literal"]

Array: TypeAlias = npt.NDArray[np.float64]
Gain: TypeAlias = str | Sequence[float] | Callable[[float], float]
Discount: TypeAlias = str | Sequence[float] | Callable[[int], float]


class _Kind(NamedTuple):
    """What a parameter of a measure may be, in words and in code."""

    expected: str
    admits: Callable[[Any], bool]


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and abs(value) <= sys.float_info.max  # false for NaN, too


def _is_series(value: object) -> bool:
    if isinstance(value, np.ndarray):
        return value.ndim == 1 and value.dtype.kind in "buif" and bool(np.isfinite(value).all())
    listed = isinstance(value, Sequence) and not isinstance(value, (str, bytes))
    return listed and all(_is_number(x.item() if isinstance(x, np.generic) else x) for x in value)  # type: ignore[attr-defined]


def _is_gain(value: object) -> bool:
    return value in ("exp2", "linear") if isinstance(value, str) else callable(value) or _is_series(value)


def _is_discount(value: object) -> bool:
    return value == "log2" if isinstance(value, str) else callable(value) or _is_series(value)


def _or_none(admits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or admits(value)


CUTOFF = int | None

# By the type that a parameter is declared with; parameters of other types look after themselves.
_KINDS: dict[Any, _Kind] = {
    CUTOFF: _Kind(
        "an integer >= 1 (and < 2**31), or None for all ranks",
        _or_none(lambda value: isinstance(value, int) and not isinstance(value, bool) and 1 <= value < 2**31),
    ),
    float: _Kind("a finite number", _is_number),
    float | None: _Kind("a finite number, or None", _or_none(_is_number)),
    bool: _Kind("True or False", lambda value: isinstance(value, int) and value in (0, 1)),
    Gain: _Kind("'exp2', 'linear', a sequence of finite numbers or a callable", _is_gain),
    Gain | None: _Kind("'exp2', 'linear', a sequence of finite numbers, a callable or None", _or_none(_is_gain)),
    Discount: _Kind("'log2', a sequence of finite numbers or a callable", _is_discount),
}


def checked(measure: str, name: str, kind: Any, value: Any) -> Any:
    """A parameter as a measure keeps it: Python's own numbers, a tuple for a sequence. Raises where it is not allowed."""
    if isinstance(value, np.generic):
        value = value.item()
    known = _KINDS.get(kind)
    if known is not None and not known.admits(value):
        raise LambdaplugError(f"{measure}: {name} must be {known.expected}; got {shown(value)}.")
    if not isinstance(value, str) and isinstance(value, (Sequence, np.ndarray)):
        return tuple(float(x) for x in value)
    return value


def literal(value: object) -> str:
    """A parameter as the measure's text has it; a callable has none that could be read back."""
    if callable(value):
        return f"<{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', type(value).__name__)}>"
    return repr(value).replace(" ", "")
