"""Old ways to call things, which still work and say what the new one is."""

import functools
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from .errors import LambdaplugError

__all__ = ["labels_first", "named", "scores_come_first", "warn_deprecated"]

F = TypeVar("F", bound=Callable[..., Any])


def warn_deprecated(message: str, stacklevel: int = 3) -> None:
    """Tell whoever called the caller of this function."""
    warnings.warn(message, DeprecationWarning, stacklevel=stacklevel)


def named(function: str, names: Sequence[str], args: Sequence[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    """A call's arguments, those given by place under these names."""
    given = dict(zip(names, args, strict=False))
    twice = sorted(given.keys() & kwargs)
    if len(args) > len(names) or twice:
        what = f"got {twice[0]!r} twice" if twice else f"takes {len(names)} arguments, got {len(args)}"
        raise TypeError(f"{function}() {what}")
    return {**given, **kwargs}


class _Look(NamedTuple):
    """What one number per row looks like; rows without a number are left out."""

    grades: bool  # integers >= 0
    negative: bool
    constant: bool
    fractions: bool  # by its type it could have some


def _look(values: Any) -> _Look | None:
    """None where it is something else: several rounds of scores, text."""
    array = np.asarray(values)
    if array.dtype.kind == "O" and array.ndim:  # numbers without a type of their own
        array = np.array(array.tolist())
    if array.dtype.kind not in "biuf" or not array.ndim or array.size != len(array):
        return None
    known, fractions = array.ravel(), array.dtype.kind == "f"
    known = known[~np.isnan(known)] if fractions else known
    negative = bool((known < 0).any())
    grades = not negative and (not fractions or bool((known == np.floor(known)).all()))
    return _Look(grades, negative, not known.size or bool((known == known[0]).all()), fractions)


def scores_come_first(first: Any, second: Any) -> bool | None:
    """Whether two arrays, given by place, are (scores, labels), the old order, not (labels, scores); None if unclear.

    Labels are grades, mostly: integers >= 0. Scores are not, unless they are constant, as before the first round. So

    1. grades are labels, beside what is no grades;
    2. what is constant is scores, beside what is not: in the second place (unless it is grades, labels that are all equal,
       and fractions below 0 stand first, which labels seldom are), in the first place (labels may all be 0 too) only
       beside grades, and if it is of a floating type;
    3. integers before a floating type are labels;
    4. of two arrays of fractions, one with negative numbers in the second place is scores;
    5. several rounds of scores are scores.

    All else could be either: integer scores beside integer labels, fractions as labels beside positive scores.

    >>> scores_come_first([0, 2, 1], [0.3, -0.1, 0.2]), scores_come_first([0.3, -0.1, 0.2], [0, 2, 1])
    (False, True)
    >>> scores_come_first([0, 2, 1], [3, 1, 2]) is None
    True
    """
    a, b = _look(first), _look(second)
    if a is None or b is None or not len(second):
        return b is not None and np.ndim(first) == 2 and len(second) > 0
    if a.constant != b.constant:
        if b.constant and b.grades and a.negative and a.fractions:
            return None
        if b.constant or (not a.fractions and b.fractions):
            return False
        if not b.grades:
            return False if a.grades and b.negative else None
        return True if a.fractions else None
    if a.grades != b.grades:
        return b.grades
    if (not a.fractions and b.fractions) if a.grades else (b.negative and not a.negative):
        return False
    return False if np.array_equal(first, second) else None


def labels_first(kept: int) -> Callable[[F], F]:
    """For a function that takes (labels, scores, ...) after its first ``kept`` arguments, and once took (scores, labels, ...).

    The old order is read as such, with a warning, where ``scores_come_first``; where that is unclear, names are asked for.
    """

    def decorate(function: F) -> F:
        name = function.__name__

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            before, given = args[:kept], args[kept:]
            named_labels = len(given) == 1 and "labels" in kwargs and "scores" not in kwargs
            old = scores_come_first(*given[:2]) if len(given) > 1 else named_labels
            if old is None:
                raise LambdaplugError(
                    f"{name}: expected labels, then scores, and these two arrays could be either (integers or fractions both); "
                    f"the order was once the other way round. Give them by name: {name}(labels=..., scores=..., group=...)."
                )
            if old:
                warn_deprecated(
                    f"{name}: the order of arguments is (labels, scores, group); this call has the old one, scores before "
                    "labels, and is read so."
                )
                kwargs = {**kwargs, "scores": given[0]} if named_labels else kwargs
                given = () if named_labels else (given[1], given[0], *given[2:])
            return function(*before, *given, **kwargs)

        return call  # type: ignore[return-value]

    return decorate
