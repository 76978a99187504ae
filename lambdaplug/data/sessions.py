"""Logs of what users were shown and did, one line per result shown, into rows to train on."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ..checking import import_pandas, not_negative, shown
from ..errors import LambdaplugError

__all__ = ["Columns", "Placements", "Sessions", "add_up", "from_sessions"]

Array: TypeAlias = npt.NDArray[np.float64]
Integers: TypeAlias = npt.NDArray[np.int64]


class Placements(NamedTuple):
    """How often each row was shown at each position, and clicked there; one entry per row and position that occur."""

    row: Integers
    position: Integers
    impressions: Integers
    clicks: Integers


@dataclass(frozen=True, eq=False)
class Sessions:
    """A log of sessions as rows, one per query and document; see :func:`from_sessions`.

    Attributes
    ----------
    query, document : array
        The ids of each row's query and document.
    group : array of int
        The number of rows of each query.
    impressions, clicks, purchases : array of int
        How often each row was shown, clicked and bought; ``purchases`` is None where the log has none.
    ctr : array of float
        The click-through rate of each row, shrunk towards the mean: (clicks + strength mean)/(impressions + strength).
    position : array of int
        Where each row was typically shown: the median (of two in the middle the upper place), 0 for the top.
    pairs, pair_counts : array of int
        (clicked row, row skipped above it), and in how many impressions: ``lp.Preferences(log.pairs, log.pair_counts)``.
    searches : array of int
        How often each query was asked: weights for ``lp.evaluate``.
    placements : Placements
        The same counts by row and position, for ``lp.estimate_propensities``.

    Examples
    --------
    >>> log = {"query": ["a", "a"], "document": ["x", "y"], "position": [1, 2], "click": [0, 1]}
    >>> rows = from_sessions(log, query="query", document="document", position="position", click="click")
    >>> rows.qid.tolist(), rows.clicks.tolist()
    ([0, 0], [0, 1])
    """

    query: npt.NDArray[Any]
    document: npt.NDArray[Any]
    group: Integers
    impressions: Integers
    clicks: Integers
    purchases: Integers | None
    ctr: Array
    position: Integers
    pairs: Integers
    pair_counts: Integers
    searches: Integers
    placements: Placements

    def __repr__(self) -> str:
        counts = f"{len(self.clicks)} rows, {len(self.group)} queries, {self.searches.sum()} searches"
        return f"<Sessions: {counts}, {self.clicks.sum()} clicks, {len(self.pairs)} pairs>"

    @property
    def qid(self) -> Integers:
        """The query of each row, 0, 1, ...: rising, as XGBoost wants it."""
        return np.repeat(np.arange(len(self.group)), self.group)

    def frame(self) -> Any:
        """The rows as a pandas DataFrame, to join features to: ``log.frame().merge(features, how="left")``."""
        names = ("query", "document", "impressions", "clicks", "purchases", "ctr", "position")
        columns = {name: getattr(self, name) for name in names}
        return import_pandas().DataFrame({name: value for name, value in columns.items() if value is not None})


def from_sessions(
    frame: Any,
    *,
    query: str,
    document: str,
    position: str,
    click: str,
    purchase: str | None = None,
    session: str | None = None,
    strength: float = 10.0,
    top: int | None = None,
) -> Sessions:
    """A log with one line per result shown, into rows to train on, one per query and document.

    An impression is one page of results that one user saw for one query. A result that was clicked is better than those
    above it, in the same impression, that were not (skip-above pairs, Joachims 2002). Click-through rates of rows that
    were shown seldom are mostly chance, and are shrunk towards the rate m of the whole log:

        ctr = (clicks + strength m)/(impressions + strength).

    Parameters
    ----------
    frame : DataFrame, table or mapping
        Of pandas or polars, an Arrow table, or a dict of columns.
    query, document : str
        The columns of their ids, of any kind.
    position : str
        The column of places in the impression, integers from the top down.
    click, purchase : str
        The columns that are 1 where the result was clicked (bought), else 0.
    session : str, optional
        The column that says which lines were shown together: lines of one session and one query are one impression.
        Without it, the log must be in the order shown: an impression ends where the query changes or the position does
        not rise.
    strength : float
        So many impressions at the mean rate are added to those of each row.
    top : int, optional
        The number that the log gives to the first place; default the smallest one, if that is 0 or 1.

    Returns
    -------
    Sessions
        Queries in the order of the log; the rows of a query by their typical position, so that
        ``lp.Unbiased(..., position="rows")`` is near the truth as well. It prints its counts.

    References
    ----------
    T. Joachims (2002), "Optimizing search engines using clickthrough data", KDD.

    Examples
    --------
    >>> log = {
    ...     "query": ["shoes", "shoes", "shoes", "shoes", "shoes", "shoes"],
    ...     "document": ["a", "b", "c", "b", "a", "c"],
    ...     "position": [1, 2, 3, 1, 2, 3],
    ...     "click": [0, 1, 0, 1, 0, 0],
    ... }
    >>> rows = from_sessions(log, query="query", document="document", position="position", click="click")
    >>> rows
    <Sessions: 3 rows, 1 queries, 2 searches, 2 clicks, 1 pairs>
    >>> rows.document.tolist(), rows.clicks.tolist(), rows.ctr.round(3).tolist(), rows.pairs.tolist()
    (['a', 'b', 'c'], [0, 2, 0], [0.278, 0.444, 0.278], [[1, 0]])
    """
    columns = Columns(frame, "from_sessions")
    strength = not_negative(strength, "strength")
    queries, query_ids = columns.ids(query, "query")
    documents, document_ids = columns.ids(document, "document")
    place, clicked = columns.positions(position, top), columns.flags(click, "click")
    bought = None if purchase is None else columns.flags(purchase, "purchase")
    if session is None:
        impression = np.cumsum(np.append(True, (queries[1:] != queries[:-1]) | (place[1:] <= place[:-1]))) - 1
    else:
        keys = columns.ids(session, "session")[0] * len(query_ids) + queries
        impression = np.unique(keys, return_inverse=True)[1].reshape(-1)
    _refuse_twice(impression, documents, f"document {document!r}", document_ids)
    _refuse_twice(impression, place, f"position {position!r}", None)
    return _rows(_Lines(queries, documents, place, clicked, bought, impression), query_ids, document_ids, strength)


class _Lines(NamedTuple):
    """Of a log, ids as numbers."""

    query: Integers
    document: Integers
    position: Integers
    clicked: Array
    bought: Array | None
    impression: Integers


def _rows(lines: _Lines, queries: npt.NDArray[Any], documents: npt.NDArray[Any], strength: float) -> Sessions:
    query, document, position, clicked, bought, impression = lines
    keys, unit = np.unique(query * len(documents) + document, return_inverse=True)
    unit = unit.reshape(-1)
    times = np.bincount(unit)
    middle = position[np.lexsort((position, unit))][np.cumsum(times) - times + (times - 1) // 2]
    order = np.lexsort((keys, middle, keys // len(documents)))  # the keys: in the order of the log
    place = np.empty(len(keys), np.int64)
    place[order] = np.arange(len(keys))
    row = place[unit]
    clicks = np.bincount(row, weights=clicked).astype(np.int64)
    seen = np.lexsort((position, impression))
    pairs, pair_counts = _skipped_above(impression[seen], row[seen], clicked[seen] > 0)
    return Sessions(
        queries[keys[order] // len(documents)],
        documents[keys[order] % len(documents)],
        np.bincount(keys // len(documents)),
        times[order],
        clicks,
        None if bought is None else np.bincount(row, weights=bought).astype(np.int64),
        (clicks + strength * clicked.mean()) / (times[order] + strength),
        middle[order],
        pairs,
        pair_counts,
        np.bincount(query[np.unique(impression, return_index=True)[1]]),
        add_up(row, position, np.ones(len(row)), clicked),
    )


def add_up(row: Integers, position: Integers, impressions: npt.NDArray[Any], clicks: npt.NDArray[Any]) -> Placements:
    """Counts added up by row and position."""
    wide = int(position.max(initial=0)) + 1
    keys, cell = np.unique(row * wide + position, return_inverse=True)
    sums = (np.bincount(cell.reshape(-1), weights=counts).astype(np.int64) for counts in (impressions, clicks))
    return Placements(keys // wide, keys % wide, *sums)


def _skipped_above(impression: Integers, row: Integers, clicked: npt.NDArray[np.bool_]) -> tuple[Integers, Integers]:
    """(clicked, skipped) rows and how often, from lines by impression and position."""
    skipped = np.flatnonzero(~clicked)
    before = np.cumsum(~clicked)  # of a clicked line: those above it, in this impression and the earlier ones
    first = np.searchsorted(impression, impression[clicked])
    earlier = np.append(0, before)[first]
    counts = before[clicked] - earlier
    step = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    better, worse = np.repeat(row[clicked], counts), row[skipped[np.repeat(earlier, counts) + step]]
    many = int(row.max()) + 1
    keys, times = np.unique(better * many + worse, return_counts=True)
    return np.stack([keys // many, keys % many], axis=1), times.astype(np.int64)


def _refuse_twice(impression: Integers, values: Integers, what: str, ids: npt.NDArray[Any] | None) -> None:
    """Refuse a value that stands twice in an impression."""
    order = np.lexsort((values, impression))
    same = (np.diff(impression[order]) == 0) & (np.diff(values[order]) == 0)
    if same.any():
        at = int(np.argmax(same))
        first, second = sorted(order[at : at + 2].tolist())
        value = values[first] if ids is None else ids[values[first]]
        raise LambdaplugError(
            f"from_sessions: {what}: {value} stands twice in one impression, in the lines {first} and {second}. If these are two "
            "impressions, pass session=, a column that differs between them (with the time of the search in it); else "
            "drop one of the lines."
        )


class Columns:
    """The columns of a log, of whatever kind it is, each checked as it is read; ``caller`` begins the messages."""

    def __init__(self, frame: Any, caller: str) -> None:
        for late in ("collect", "compute"):
            if hasattr(type(frame), late):
                raise LambdaplugError(f"{caller}: this frame is not in memory yet: pass frame.{late}().")
        names = frame if isinstance(frame, Mapping) else getattr(frame, "column_names", getattr(frame, "columns", None))
        if names is None:
            raise LambdaplugError(
                f"{caller}: expected a DataFrame of pandas or polars, an Arrow table or a dict of columns, got {shown(frame)}."
            )
        self.frame, self.caller, self.names = frame, caller, list(names)
        self.lines: int | None = None

    def column(self, name: str, role: str) -> npt.NDArray[Any]:
        if name not in self.names:
            raise LambdaplugError(
                f"{self.caller}: {role}={name!r}: there is no such column. There are: {', '.join(map(str, self.names))}."
            )
        column = self.frame[name]
        values = column.to_numpy() if hasattr(column, "to_numpy") else np.asarray(column)
        if values.dtype.kind in "US" and not isinstance(column, np.ndarray):
            values = np.array(column, dtype=object)  # NumPy would make text of a NaN or a number among texts
        self.lines = len(values) if self.lines is None else self.lines
        if values.ndim != 1 or len(values) != self.lines or not self.lines:
            raise LambdaplugError(
                f"{self.caller}: {role}={name!r}: expected one value per line of the log, and at least one line; got an array of "
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

    def numbers(self, name: str, role: str) -> Array:
        values = self.column(name, role)
        try:
            return values.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise LambdaplugError(
                f"{self.caller}: {role}={name!r}: expected numbers, got {values.dtype} ({error}). Drop the lines without one."
            ) from None

    def positions(self, name: str, top: int | None) -> Integers:
        """From 0."""
        values = self.numbers(name, "position")
        wrong = ~np.isfinite(values) | (values != np.floor(values)) | (values < (top or 0)) | (values >= 1 << 20)
        drop = "drop the lines of results that were not shown"
        self._refuse(name, "position", wrong, f"an integer >= {top or 0}", drop)
        first = int(values.min()) if top is None else top
        if first > 1:
            raise LambdaplugError(
                f"{self.caller}: position={name!r}: the smallest is {first}. Say which number the log gives to the first place: top=1."
            )
        return values.astype(np.int64) - first

    def flags(self, name: str, role: str) -> Array:
        values = self.numbers(name, role)
        several = "several clicks in an impression count as one: pass the column > 0"
        self._refuse(name, role, (values != 0) & (values != 1), "0 or 1", several)
        return values

    def counts(self, name: str, role: str) -> Array:
        values = self.numbers(name, role)
        wrong = ~(np.isfinite(values) & (values >= 0) & (values == np.floor(values)))
        self._refuse(name, role, wrong, "an integer >= 0", "drop the line")
        return values

    def _refuse(self, name: str, role: str, wrong: npt.NDArray[np.bool_], expected: str, remedy: str) -> None:
        if wrong.any():
            line = int(np.argmax(wrong))
            got = self.column(name, role)[line]
            raise LambdaplugError(
                f"{self.caller}: {role}={name!r}: expected {expected} in each line, got {got} in line {line} (counted from 0): {remedy}."
            )


def _is_missing(value: Any) -> bool:
    try:
        return value is None or bool(value != value)
    except TypeError:  # pandas' sign for a missing value equals nothing, not even in an if
        return True
