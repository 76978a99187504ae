"""Columns: what belongs to rows besides features and labels, such as clicks, prices, intents, display positions and pairs.

They are attached to a data set by name, and objectives, measures and metrics say the name. Which rows a column belongs to
is so known, and not found by counting.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, NoReturn, TypeVar

import numpy as np
import numpy.typing as npt

from .checking import as_numbers, shown
from .errors import LambdaplugError
from .known import known_of

__all__ = ["Columns", "attach", "attached", "carry", "column_name", "of_data_set"]

D = TypeVar("D")
Array = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Values = npt.NDArray[Any]


def column_name(value: Any, option: str, example: str | None = None) -> str:
    """The name of a column, as options of objectives, measures and metrics take it; values are refused."""
    if isinstance(value, str) and value:
        return value
    name = example or option
    raise LambdaplugError(
        f"{option}: expected the name of a column, got {shown(value)}. Values belong to rows, so attach them to their data "
        f"set, lp.attach(data, {name}=values), and say {option}={name!r}; rankers take fit(..., columns={{{name!r}: values}}), "
        f"and functions of arrays columns={{{name!r}: values}}."
    )


def as_column(values: Any, name: str) -> Values:
    """One number per row (or query), a table with one row per document, or pairs of rows: a copy that never changes."""
    found = np.array(as_numbers(values, f"column {name!r}"), order="C")
    if found.ndim == 2 and found.shape[1] == 1:
        found = found.reshape(-1)
    if found.ndim not in (1, 2):
        raise LambdaplugError(
            f"column {name!r}: expected one number per row, or a table with one row per document; got an array of shape "
            f"{found.shape}."
        )
    if np.isinf(found).any():
        row = int(np.argwhere(np.isinf(found))[0][0])
        raise LambdaplugError(f"column {name!r}: expected finite numbers, row {row} has an infinite one.")
    found.setflags(write=False)
    return found


class Pairs(NamedTuple):
    """Pairs of rows, one of which is better, by query, and within it in the order given."""

    better: Integers
    worse: Integers
    begin: Integers  # where each query's begin; one more, where the last one's end
    number: Integers  # which of the pairs attached these are


@dataclass(frozen=True, eq=False)
class Columns:
    """The columns of some rows. ``where`` and ``how`` are for errors: what these rows are, and how they get a column."""

    values: Mapping[str, Values] = field(default_factory=dict)  # of the rows that they were attached to
    rows: Integers | None = None  # of a part of those: which ones it has
    sizes: npt.ArrayLike | None = None  # the group sizes of the whole
    where: str = "these rows"
    how: str = "columns={{{name!r}: values}}"

    @property
    def groups(self) -> Integers:
        return np.asarray(() if self.sizes is None else self.sizes, dtype=np.int64)

    @property
    def total(self) -> int:
        """How many rows the whole has."""
        return int(self.groups.sum())

    def part(self, rows: Integers) -> Columns:
        """Those of some of these rows."""
        return replace(self, rows=rows if self.rows is None else self.rows[rows])

    def find(self, name: str) -> Values:
        """A column as it was attached."""
        if name not in self.values:
            has = ", ".join(map(repr, self.values)) or "none"
            raise LambdaplugError(
                f"column {name!r}: there is none of this name in {self.where}; its columns: {has}. Give it one: "
                f"{self.how.format(name=name)}."
            )
        return self.values[name]

    def refuse(self, name: str, what: str) -> NoReturn:
        raise LambdaplugError(f"column {name!r} of {self.where}: {what}")

    def taken(self, name: str) -> Values:
        """What each of these rows has; a value per query is that of all its rows."""
        values = self.find(name)
        if len(values) == len(self.groups) != self.total:
            values = np.repeat(values, self.groups, axis=0)
        if len(values) != self.total:
            self.refuse(
                name, f"expected one value per row ({self.total}) or per query ({len(self.groups)}), got {len(values)}."
            )
        return values if self.rows is None else values[self.rows]

    def numbers(self, name: str, missing: bool = False, least: float = -np.inf) -> Array:
        """One for each of these rows, none below the least; NaN only if some may be missing."""
        values = self.taken(name)
        if values.ndim != 1:
            self.refuse(name, f"expected one number per row, got a table of shape {values.shape}.")
        return self._checked(name, values, missing, least)

    def table(self, name: str) -> list[Array]:
        """Its columns, each with one number for each of these rows."""
        return [self._checked(name, column) for column in np.atleast_2d(self.taken(name).T)]

    def numbers_of_rows(self) -> list[Array]:
        """Every column with numbers for each of these rows, those of a table one by one."""
        fitting = [name for name, values in self.values.items() if len(values) in (self.total, len(self.groups))]
        return [np.asarray(one, np.float64) for name in fitting for one in np.atleast_2d(self.taken(name).T)]

    def _checked(self, name: str, values: Values, missing: bool = False, least: float = -np.inf) -> Array:
        found = np.ascontiguousarray(values, dtype=np.float64)
        wrong = np.flatnonzero((found < least) | (np.isnan(found) & (not missing)))
        if len(wrong):
            row, above = wrong[0], "" if np.isinf(least) else f" >= {least:g}"
            self.refuse(
                name,
                f"expected a number{above} for every row, and row {row} has {found[row]:g}. Where one is missing (NaN, or "
                "masked), fill in what a document without one counts as, or drop the row.",
            )
        return found

    def pairs(self, name: str, offsets: Integers) -> Pairs:
        """Of pairs of rows of the whole, (better, worse), those whose rows are among these; both in one query."""
        values = self.find(name)
        if values.ndim != 2 or values.shape[1] != 2 or values.dtype.kind not in "iu" or not len(values):
            self.refuse(
                name,
                "expected (better, worse) row numbers, integers of shape (m, 2) with at least one pair; got "
                f"{values.dtype} of shape {values.shape}.",
            )
        given = values.astype(np.int64)
        right = ((given >= 0) & (given < self.total)).all(axis=1) & (given[:, 0] != given[:, 1])
        if not right.all():
            pair = int(np.argmin(right))
            self.refuse(
                name,
                f"expected pairs of two different rows from 0 to {self.total - 1}, pair {pair} is {given[pair].tolist()}.",
            )
        place = np.full(self.total, -1)
        place[slice(None) if self.rows is None else self.rows] = np.arange(offsets[-1])
        rows = place[given]
        kept = np.flatnonzero((rows >= 0).any(axis=1))
        query = np.where(rows[kept] < 0, -1, np.searchsorted(offsets, rows[kept], side="right") - 1)
        across = np.flatnonzero(query[:, 0] != query[:, 1])
        if len(across):
            pair = int(kept[across[0]])
            first, second = (f"query {q}" if q >= 0 else "a query that is not here" for q in query[across[0]].tolist())
            self.refuse(
                name,
                f"pair {pair} prefers row {given[pair, 0]}, which is in {first}, to row {given[pair, 1]}, which is in "
                f"{second}. Only documents of one query can be compared: leave such pairs out. Rows and queries are "
                "numbered from 0.",
            )
        order = np.argsort(query[:, 0], kind="stable")
        begin = np.searchsorted(query[order, 0], np.arange(len(offsets)))
        better, worse = (np.ascontiguousarray(column) for column in rows[kept[order]].T)
        return Pairs(better, worse, begin, kept[order])

    def of_pairs(self, name: str, pairs: str) -> Array:
        """One weight for each of these pairs, as they were attached."""
        values, count = self.find(name), len(self.find(pairs))
        if values.shape != (count,) or not (values >= 0).all():
            self.refuse(name, f"expected one finite number >= 0 for each of the {count} pairs of {pairs!r}.")
        return values.astype(np.float64)


# --- what is attached to data sets ------------------------------------------------------------------------------------


def attach(data: D, **columns: Any) -> D:
    """Give a data set further columns, by name; objectives, measures and metrics use them by that name.

    Parameters
    ----------
    data : lightgbm.Dataset, xgboost.DMatrix, QuantileDMatrix or ExtMemQuantileDMatrix, or Dask's DaskDMatrix
        The training data or a validation set. Each has columns of its own.
    **columns : array-like, or Dask collections for a DaskDMatrix
        One value per row, such as clicks or prices; one value per query; a table with one row per document, such as its
        judgements for several intents; or pairs of row numbers, (better, worse), shape (m, 2). They are copied. NaN says that
        a row has none, where that has a meaning: a label that is not known.

    Returns
    -------
    data
        The same object. Columns that it has already stay, unless one of the same name is given.

    Notes
    -----
    LightGBM's subsets and the folds of ``lgb.cv`` use the columns of the data set that they were cut from. A slice of an XGBoost
    DMatrix does not say which rows it holds, so it begins without columns; ``xgb.cv`` takes them along with
    ``folds = lp.query_folds(group)``, ``folds=folds`` and ``fpreproc=folds.fpreproc``.

    Examples
    --------
    >>> import lightgbm as lgb
    >>> import lambdaplug as lp
    >>> train = lgb.Dataset([[0.1], [0.2], [0.3]], [0, 1, 1], group=[3])
    >>> train = lp.attach(train, clicks=[0, 0, 1], price=[10.0, 20.0, 5.0])
    >>> lp.attached(train)
    {'clicks': array([0, 0, 1]), 'price': array([10., 20.,  5.])}
    """
    spread = hasattr(data, "worker_map")  # Dask's, whose columns are Dask collections
    if not spread and not hasattr(data, "get_label"):  # which the data sets of both hosts have, and nothing else
        raise LambdaplugError(
            "attach: expected a data set, such as lgb.Dataset(X, y, group=sizes) or xgb.DMatrix(X, y, qid=ids), got "
            f"{type(data).__name__}. Rankers take fit(..., columns={{...}}), and functions of arrays columns={{...}}."
        )
    before = of_data_set(data)
    kept = before.values if before.rows is None else {}
    given = columns if spread else {name: as_column(values, name) for name, values in columns.items()}
    known_of(data)["columns"] = Columns({**kept, **given})
    return data


def attached(data: Any) -> dict[str, Values]:
    """The columns that :func:`attach` gave a data set.

    Parameters
    ----------
    data : lightgbm.Dataset or xgboost.DMatrix
        What they were attached to; a fold of ``xgb.cv`` has those of the whole.

    Returns
    -------
    dict
        By name the values, as they were given.

    Examples
    --------
    >>> import xgboost as xgb
    >>> import lambdaplug as lp
    >>> lp.attached(lp.attach(xgb.DMatrix([[0.1], [0.2]], [0, 1], qid=[0, 0]), clicks=[1, 0]))
    {'clicks': array([1, 0])}
    """
    return dict(of_data_set(data).values)


def of_data_set(data: Any) -> Columns:
    """What a data set has been given; the same object until it is given more."""
    found: Columns = known_of(data).get("columns", NONE)
    return found


NONE = Columns()


def carry(whole: Any, part: Any, rows: Integers, sizes: Integers) -> None:
    """Give a part of a data set, which has these rows, the columns of the whole, whose group sizes these are."""
    known_of(part)["columns"] = Columns({} if whole is None else of_data_set(whole).values, rows, sizes)


def given(columns: Mapping[str, Any] | None, sizes: npt.ArrayLike) -> Columns:
    """Those of a call with arrays: ``columns={"price": prices}``."""
    if columns is not None and not isinstance(columns, Mapping):
        raise LambdaplugError(f"columns: expected a mapping such as {{'price': prices}}, got {shown(columns)}.")
    return Columns({name: as_column(values, name) for name, values in (columns or {}).items()}, sizes=sizes)
