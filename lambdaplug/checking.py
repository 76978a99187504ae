"""Arguments that are numbers, checked in one place: each error says what was expected and what came. And optional libraries."""

import contextlib
import importlib
import math
import numbers
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from .errors import LambdaplugError

__all__ = [
    "as_numbers",
    "import_pandas",
    "integer",
    "is_number",
    "not_negative",
    "on_host",
    "one_of",
    "positive",
    "progress_bar",
    "refuse_data",
    "refuse_swapped",
    "shown",
]


FRACTIONS = 20  # so many different ones are scores, and not shares of clicks


def shown(value: object) -> str:
    """What was given, on one line, whatever it is."""
    try:
        text = " ".join(repr(value).split())
    except Exception:  # an integer of thousands of digits, a list within itself: Python's, or the user's own
        return f"a value of type {type(value).__name__} that cannot be printed"
    return text if len(text) <= 100 else f"{text[:60]}...{text[-20:]}"


def on_host(values: Any) -> Any:
    """Values that are on a GPU (cupy, cuDF) fetched from there; others as they are."""
    if hasattr(values, "__cuda_array_interface__") and hasattr(values, "get"):
        return values.get()
    return values


def as_numbers(values: Any, name: str) -> npt.NDArray[Any]:
    """A NumPy array of numbers, as they are if possible; what is masked is NaN, whatever lies under the mask."""
    try:
        if isinstance(values, np.ma.MaskedArray):
            values = np.ma.filled(values.astype(np.float64), np.nan)
        found = np.asarray(on_host(values))
        if found.dtype.kind in "cmM":
            raise TypeError(f"they are {found.dtype}")
        return found if found.dtype.kind in "biuf" else found.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise LambdaplugError(f"{name}: expected numbers, got {type(values).__name__} ({error}).") from None


def refuse_data(args: tuple[Any, ...], what: str, name: str = "map") -> None:
    """Boosters call what they are given as an objective or a metric: say what they should be given."""
    if any(hasattr(one, "get_label") for one in args):  # a data set of either host
        raise LambdaplugError(
            f"{what}, and was called with a booster's data. To train, give the booster an object such as "
            f"lp.objective({name!r}); to report, lp.metric({name!r})."
        )


def refuse_swapped(labels: Any, scores: Any) -> None:
    """Scores where labels belong: fractions there, some below 0 or many different ones, and here a few integers >= 0."""
    grades = as_numbers(scores, "scores")
    graded = grades.shape == labels.shape and ((grades >= 0) & (grades == np.floor(grades))).all()
    if graded and (labels != np.floor(labels)).any():
        few, many = len(np.unique(grades)), len(np.unique(labels))
        if 1 < few < many and (many >= FRACTIONS or labels.min() < 0):
            raise LambdaplugError(
                f"expected labels, then scores. These labels are {many} different fractions and these scores {few} "
                "different grades: it seems that they have changed places."
            )


def is_number(value: object) -> bool:
    """Whether this is a real number, which True and False are not."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def integer(value: Any, name: str, least: int = 1, most: float = math.inf, purpose: str = "") -> int:
    """The value, which must be an integer within these bounds.

    >>> integer(0, "draws")
    Traceback (most recent call last):
        ...
    lambdaplug.errors.LambdaplugError: draws: expected an integer >= 1, got 0.
    """
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool) and least <= value <= most:
        return int(value)
    bounds = f">= {least}" if most == math.inf else f"from {least} to {most}"
    raise LambdaplugError(f"{name}: expected an integer {bounds}{purpose}, got {shown(value)}.")


def positive(value: Any, name: str, purpose: str = "") -> float:
    """The value, which must be a finite number > 0."""
    if is_number(value) and 0 < value < math.inf:
        return float(value)
    raise LambdaplugError(f"{name}: expected a positive number{purpose}, got {shown(value)}.")


def not_negative(value: Any, name: str, purpose: str = "") -> float:
    """The value, which must be a finite number >= 0."""
    if is_number(value) and 0 <= value < math.inf:
        return float(value)
    raise LambdaplugError(f"{name}: expected a finite number >= 0{purpose}, got {shown(value)}.")


def one_of(value: Any, name: str, known: tuple[Any, ...]) -> None:
    """Refuse a value that is none of these words, integers or None.

    >>> one_of("high", "ties", ("best", "worst"))
    Traceback (most recent call last):
        ...
    lambdaplug.errors.LambdaplugError: ties: expected 'best' or 'worst', got 'high'.
    """
    if isinstance(value, bool) or not isinstance(value, (str, int, type(None))) or value not in known:
        *most, last = map(repr, known)
        raise LambdaplugError(f"{name}: expected {', '.join(most)}{' or ' if most else ''}{last}, got {shown(value)}.")


def import_pandas() -> Any:
    """pandas; an error says where it is missing."""
    try:
        import pandas
    except ImportError:
        raise LambdaplugError("a frame needs pandas: python -m pip install pandas.") from None
    return pandas


@contextlib.contextmanager
def progress_bar(total: int, title: str, wanted: bool, **options: Any) -> Iterator[Callable[[int], Any]]:
    """What tells tqdm of progress; tqdm is silent where there is no terminal, and we are where there is no tqdm."""
    try:
        tqdm = importlib.import_module("tqdm").tqdm if wanted else None
    except ImportError:
        tqdm = None
    if tqdm is None:
        yield lambda _: None
    else:
        with tqdm(total=total, desc=title, **{"disable": None, "leave": False, **options}) as bar:
            yield bar.update
