"""The columns of a log, of whatever kind it is, each checked as it is read; and counts of it by row and position."""

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ..checking import import_pandas, shown
from ..errors import LambdaplugError
from ..grouping import Array

__all__ = ["Array", "Integers", "Log", "Placements", "add_up"]

Integers: TypeAlias = npt.NDArray[np.int64]

MOST = 1 << 20  # the last position that a page of results may have


class Placements(NamedTuple):
    """How often each row was shown at each position, and clicked there; one entry per row and position that occur."""

    row: Integers
    position: Integers
    impressions: Integers
    clicks: Integers


def add_up(row: Integers, position: Integers, impressions: npt.NDArray[Any], clicks: npt.NDArray[Any]) -> Placements:
    """Counts added up by row and position."""
    wide = int(position.max(initial=0)) + 1
    keys, cell = np.unique(row * wide + position, return_inverse=True)
    sums = (np.bincount(cell.reshape(-1), weights=counts).astype(np.int64) for counts in (impressions, clicks))
    return Placements(keys // wide, keys % wide, *sums)


class Log:
    """A frame of pandas or polars, an Arrow table or a dict of columns, as ``from_sessions`` reads it."""

    def __init__(self, frame: Any) -> None:
        names = frame if isinstance(frame, Mapping) else getattr(frame, "column_names", getattr(frame, "columns", None))
        if names is None:
            raise LambdaplugError(
                f"from_sessions: expected a DataFrame of pandas or polars, an Arrow table or a dict of columns, got {shown(frame)}."
            )
        self.frame, self.names = frame, list(names)
        self.lines: int | None = None

    def make(self, columns: dict[str, Any]) -> Any:
        """A frame of this kind; of a dict, pandas'."""
        kind = import_pandas().DataFrame if isinstance(self.frame, Mapping) else type(self.frame)
        return getattr(kind, "from_pydict", kind)(columns)

    def column(self, name: str, role: str) -> npt.NDArray[Any]:
        if name not in self.names:
            listed = ", ".join(map(str, self.names))
            raise LambdaplugError(f"from_sessions: {role}={name!r}: there is no such column. There are: {listed}.")
        column = self.frame[name]
        values = column.to_numpy() if hasattr(column, "to_numpy") else np.asarray(column)
        if values.dtype.kind in "US" and not isinstance(column, np.ndarray):
            values = np.array(column, dtype=object)  # NumPy would make text of a NaN or a number among texts
        self.lines = len(values) if self.lines is None else self.lines
        if values.ndim != 1 or len(values) != self.lines or not self.lines:
            raise LambdaplugError(
                f"from_sessions: {role}={name!r}: expected one value per line of the log, and at least one line; got an array of "
                f"shape {values.shape} beside {self.lines} lines."
            )
        return values

    def ids(self, name: str, role: str) -> tuple[Integers, npt.NDArray[Any]]:
        """The values as numbers 0, 1, ... in the order of their first appearance, and the values by these numbers."""
        values, known = self.column(name, role), dict[Any, int]()
        codes = np.fromiter((known.setdefault(one, len(known)) for one in values.tolist()), np.int64, len(values))
        for value, number in known.items():
            if _is_missing(value):
                self._refuse(name, role, codes == number, "an id", "drop it, or give it an id of its own")
        return codes, values[np.flatnonzero(np.diff(np.maximum.accumulate(codes), prepend=-1))]

    def numbers(self, name: str, role: str, least: int, most: int, remedy: str) -> Integers:
        """Integers within these bounds."""
        given = self.column(name, role)
        try:
            values = given.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise LambdaplugError(
                f"from_sessions: {role}={name!r}: expected numbers, got {given.dtype} ({error}). Drop the lines without one."
            ) from None
        right = (values == np.floor(values)) & (values >= least) & (values <= most)
        self._refuse(name, role, ~right, f"an integer from {least} to {most}", remedy)
        return values.astype(np.int64)

    def flags(self, name: str, role: str) -> Integers:
        return self.numbers(name, role, 0, 1, "several clicks in an impression count as one: pass the column > 0")

    def positions(self, name: str, top: int) -> Integers:
        """From 0."""
        remedy = "say top=0 where the log counts from 0, and drop the lines of results that were not shown"
        return self.numbers(name, "position", top, MOST, remedy) - top

    def _refuse(self, name: str, role: str, wrong: npt.NDArray[np.bool_], expected: str, remedy: str) -> None:
        if wrong.any():
            line = int(np.argmax(wrong))
            got = self.column(name, role)[line]
            raise LambdaplugError(
                f"from_sessions: {role}={name!r}: expected {expected} in each line, got {got} in line {line} (counted from 0): {remedy}."
            )


def _is_missing(value: Any) -> bool:
    try:
        return value is None or bool(value != value)
    except TypeError:  # pandas' sign for a missing value equals nothing, not even in an if
        return True
