"""Tables: what the functions of a measure need of a document besides its gain, and of a query besides its length.

In place of gains, such functions get the rows' numbers in rank order; in place of discounts, a table with one column per
row. Its first three rows are the query's: what the ranks count, laid along the query's rows; where those begin; and the
cut-off, which may be each query's own.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from ..errors import LambdaplugError
from ..kernels import inlinable
from ..rows import one_a_query, row_order
from .base import Measure, Seen
from .gains import Array

__all__ = ["DISCOUNT", "FIRST", "OWN", "Cutoffs", "Tabled", "cut_only", "query_of", "tabled"]

DISCOUNT, FIRST, CUTOFF, OWN = range(4)  # a measure's own rows begin at OWN


@inlinable
def query_of(gain: Any, table: Any) -> tuple[Any, int]:
    """The discounts of a query's ranks, and its cut-off, from the numbers of its rows."""
    n = len(gain)
    if n == 0:
        return table[DISCOUNT, :0], 0
    row = int(gain[0])
    first = int(table[FIRST, row])
    return table[DISCOUNT, first : first + n], min(int(table[CUTOFF, row]), n)


def cut_only(gain: Any, discount: Any, k: int, upper: Any, lower: Any, scale: Any) -> int:
    return int(query_of(gain, discount)[1])


def tabled(measure: Measure, seen: Seen, own: Sequence[Array], grade: Array | None = None) -> Seen:
    """Row numbers and the table for them, with these rows of the measure's own.

    ``grade``: the documents of a query whose grades differ are in pairs; without it, all that have a label are.
    """
    offsets, rows = seen.offsets, len(seen.gain)
    sizes = np.diff(offsets)
    rank = row_order(offsets).astype(np.int64)
    table = np.zeros((OWN + len(own), rows))
    table[DISCOUNT] = seen.discount[rank] if rows else 0.0
    table[FIRST] = np.repeat(offsets[:-1], sizes)
    k = getattr(measure, "k", None)
    table[CUTOFF] = rows if k is None else k if isinstance(k, int) else seen.columns[-1]
    if isinstance(k, str):
        whole = (table[CUTOFF] >= 1) & (table[CUTOFF] < 2**31) & (table[CUTOFF] == np.floor(table[CUTOFF]))
        if not whole.all() or one_a_query(table[CUTOFF], sizes) is None:
            raise LambdaplugError(f"column {k!r}: expected cut-offs, one integer >= 1 (and < 2**31) per query.")
        for value in np.unique(table[CUTOFF]).astype(np.int64).tolist():
            mine = table[CUTOFF] == value
            discount = replace(measure, k=value).discounts(int(sizes.max(initial=0)))  # type: ignore[call-arg]
            table[DISCOUNT, mine] = np.where(rank < value, discount[rank], 0.0)[mine]
    for row, values in enumerate(own):
        table[OWN + row] = values
    order = rank.astype(np.float64) if grade is None else grade
    return seen._replace(
        gain=np.arange(rows, dtype=np.float64), grade=np.where(np.isnan(seen.grade), np.nan, order), discount=table
    )


@inlinable
def _gains(gain: Any, table: Any) -> Any:
    found = np.empty(len(gain))
    for r in range(len(gain)):
        found[r] = table[OWN, int(gain[r])]
    return found


@functools.cache
def _cut_value(value: Callable[..., float]) -> Callable[..., float]:
    """``value`` or ``norm`` of a measure, with a table."""
    measured = inlinable(value)

    def cut(gain: Any, table: Any, k: int) -> float:
        discount, own = query_of(gain, table)
        return measured(_gains(gain, table), discount, own)

    return cut


@functools.cache
def _cut_swap(swap: Callable[..., int]) -> Callable[..., int]:
    """``swap`` of a measure, with a table; it puts the gains in place of the row numbers."""
    rows_of = inlinable(swap)

    def cut(gain: Any, table: Any, k: int, upper: Any, lower: Any, scale: Any) -> int:
        discount, own = query_of(gain, table)
        ranked = _gains(gain, table)
        for r in range(len(gain)):
            gain[r] = ranked[r]
        return rows_of(gain, discount, own, upper, lower, scale)

    return cut


@dataclass(frozen=True, repr=False)
class Cutoffs(Measure):
    """A measure with a cut-off of each query's own, as it is used: ``lp.NDCG(k="depth")`` is turned into one."""

    inner: Measure
    k: Any = None

    tabled: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not self.inner.by_rows or self.inner.tabled:
            raise LambdaplugError(
                f"{self.inner}: its functions know one cut-off for all queries. Give k= one number, or lp.custom a "
                "column with the cut-offs."
            )

    def __str__(self) -> str:
        return str(self.inner)

    def __repr__(self) -> str:
        return repr(self.inner)

    @property
    def columns(self) -> tuple[str, ...]:
        return self.inner.columns

    gained = property(lambda self: self.inner.gained)
    symmetric = property(lambda self: self.inner.symmetric)
    greater = property(lambda self: self.inner.greater)
    scaled = property(lambda self: self.inner.scaled)
    unlabelled = property(lambda self: self.inner.unlabelled)
    undefined = property(lambda self: self.inner.undefined)
    value = property(lambda self: _cut_value(self.inner.value))
    norm = property(lambda self: _cut_value(self.inner.norm))

    def fine(self, discount: Array) -> bool:
        return self.inner.coarse != np.inf  # queries differ in their discounts

    def swap_rows(self) -> Callable[..., int]:
        return _cut_swap(self.inner.swap_rows())

    def gains_of(self, labels: Array, columns: Sequence[Array]) -> Array:
        return self.inner.gains_of(labels, columns[:-1])

    def tabulated(self, seen: Seen) -> Seen:
        return tabled(self.inner, seen, [seen.gain])._replace(grade=seen.grade)


class Tabled(Measure):
    """By its own delta, whose sign says which document belongs above."""

    tabled: ClassVar[bool] = True
    by_rows: ClassVar[bool] = False
    swap = staticmethod(cut_only)
