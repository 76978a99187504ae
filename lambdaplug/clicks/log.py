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
        self.frame, self.names, self.pandas = frame, list(names), import_pandas()
        self.lines = len(frame[self.names[0]]) if self.names else 0

    def make(self, columns: dict[str, Any]) -> Any:
        """A frame of this kind; of a dict, pandas'."""
        kind = self.pandas.DataFrame if isinstance(self.frame, Mapping) else type(self.frame)
        return getattr(kind, "from_pydict", kind)(columns)

    def column(self, name: str, role: str) -> Any:
        """A series of pandas."""
        if name not in self.names:
            listed = ", ".join(map(str, self.names))
            raise LambdaplugError(f"from_sessions: {role}={name!r}: there is no such column. There are: {listed}.")
        values = self.frame[name]
        values = values.to_numpy() if hasattr(values, "to_numpy") else values
        if len(values) != self.lines or not self.lines:
            raise LambdaplugError(
                f"from_sessions: {role}={name!r}: expected one value per line of the log, and at least one line; got {len(values)} "
                f"beside {self.lines} lines."
            )
        return self.pandas.Series(values)

    def ids(self, name: str, role: str) -> tuple[Integers, npt.NDArray[Any]]:
        """The values as numbers 0, 1, ... in the order of their first appearance, and the values by these numbers."""
        codes, values = self.pandas.factorize(self.column(name, role))
        self._refuse(name, role, codes < 0, "an id", "drop it, or give it an id of its own")
        return codes.astype(np.int64), values.to_numpy()

    def numbers(self, name: str, role: str, least: int, most: int, remedy: str) -> Integers:
        """Integers within these bounds."""
        values = self.pandas.to_numeric(self.column(name, role), errors="coerce").to_numpy(np.float64, na_value=np.nan)
        right = (values == np.floor(values)) & (values >= least) & (values <= most)
        self._refuse(name, role, ~right, f"an integer from {least} to {most}", remedy)
        return np.asarray(values, np.int64)

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
