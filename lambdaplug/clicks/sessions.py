"""Logs of what users were shown and did, one line per result shown, into rows to train on."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..checking import not_negative
from ..errors import LambdaplugError, LambdaplugWarning
from .log import Array, Integers, Log, Placements, add_up

__all__ = ["Sessions", "from_sessions"]


@dataclass(frozen=True, eq=False, repr=False)
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
    position : array of int
        Where each row was typically shown: the median (of two in the middle the upper place), 0 for the top.
    searches : array of int
        How often each query was asked: weights for ``lp.evaluate``.
    placements : Placements
        The same counts by row and position, for ``lp.estimate_propensities``.
    strength : float
        Of the shrinking of rates.
    skipped : tuple
        Pairs of a clicked row and one skipped above it, those shown in both orders; their counts; and which share of all
        skips below which was clicked they are.
    kind : callable
        What makes a frame of the log's kind of a dict of columns.

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
    position: Integers
    searches: Integers
    placements: Placements
    strength: float
    skipped: tuple[Integers, Array, float]
    kind: Callable[[dict[str, Any]], Any]

    def __repr__(self) -> str:
        counts = f"{len(self.clicks)} rows, {len(self.group)} queries, {self.searches.sum()} searches"
        return f"<Sessions: {counts}, {self.clicks.sum()} clicks, {len(self.skipped[0])} pairs>"

    @property
    def qid(self) -> Integers:
        """The query of each row, 0, 1, ...: rising, as XGBoost wants it."""
        return np.repeat(np.arange(len(self.group)), self.group)

    asked = qid

    @property
    def ctr(self) -> Array:
        """The click-through rate of each row, shrunk towards the mean m: (clicks + strength m)/(impressions + strength)."""
        return self.rate(np.ones(int(self.placements.position.max()) + 1))

    def rate(self, propensity: Any) -> Array:
        """Clicks over looks of each row, shrunk towards the mean m of all: (clicks + strength m)/(looks + strength).

        A row's looks are the sum of the propensities of the positions at which it was shown, such as
        ``lp.estimate_propensities(rows)`` finds them. Positions without one (NaN) are left out. So a row that was always
        shown far down, and clicked as often as one at the top, has the higher rate; it may be above 1 by chance, and is cut
        there.
        """
        curve = np.asarray(propensity, np.float64)
        row, position, impressions, clicks = self.placements
        if curve.ndim != 1 or len(curve) <= position.max():
            raise LambdaplugError(
                f"rate: expected a propensity for each of {position.max() + 1} positions, got an array of shape {curve.shape}."
            )
        known = np.isfinite(curve[position])
        looks = np.bincount(row, np.where(known, impressions * curve[position], 0.0))
        clicked = np.bincount(row, np.where(known, clicks, 0))
        mean = clicked.sum() / max(float(looks.sum()), 1.0)
        weight = np.maximum(looks + self.strength, np.finfo(float).tiny)
        return np.asarray(np.minimum((clicked + self.strength * mean) / weight, 1.0))

    @property
    def pairs(self) -> Integers:
        """(clicked row, row skipped above it) of pairs that were shown in both orders, for ``lp.Preferences``."""
        pairs, _, share = self.skipped
        if share < 0.5:
            warnings.warn(
                f"pairs: of the results clicked below a skipped one, {share:.0%} were also shown above it. The others say no more "
                "than how the engine ranked, upside down, and are left out. Better use such a log's clicks over looks, "
                "rows.rate(propensities), or exchange results for a share of the searches.",
                LambdaplugWarning,
                stacklevel=2,
            )
        return pairs

    @property
    def pair_counts(self) -> Array:
        """How often each pair was seen, had both orders been shown as often as the rarer one: weights for the pairs."""
        return self.skipped[1]

    @property
    def columns(self) -> dict[str, npt.NDArray[Any]]:
        """What belongs to each row, by name: ``lp.attach(data, **rows.columns)``.

        Without ``position``: a row was shown at several, and ``lp.Unbiased`` wants the one of each impression.
        """
        names = ("impressions", "clicks", "purchases", "ctr")
        columns = {name: getattr(self, name) for name in names}
        return {name: values for name, values in columns.items() if values is not None}

    def frame(self) -> Any:
        """The rows as a frame of the log's kind (pandas for a dict), to join features to: ``frame.merge(features, how="left")``."""
        ids = {name: getattr(self, name) for name in ("query", "document")}
        ids = {name: values.tolist() if values.dtype.kind == "O" else values for name, values in ids.items()}
        return self.kind({**ids, **self.columns, "position": self.position})


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
    top: int = 1,
) -> Sessions:
    """A log with one line per result shown, into rows to train on, one per query and document.

    An impression is one page of results that one user saw for one query. Click-through rates of rows that were shown
    seldom are mostly chance, and are shrunk towards the rate m of the whole log:

        ctr = (clicks + strength m)/(impressions + strength).

    A result that was clicked seems better than those above it, in the same impression, that were not (skip-above pairs,
    Joachims 2002). But what is clicked below another stood below it: counted as they come, such pairs turn the engine's
    ranking upside down. So a pair counts only if both orders were shown, n and n' times, and its count is multiplied by
    min(n, n')/n. Then the chances of looking are the same for both, and more clicks are left to the better one.

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
    top : int
        The number that the log gives to the first place: 1, or 0.

    Returns
    -------
    Sessions
        Queries in the order of the log; the rows of a query by their typical position. It prints its counts.

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
    log, strength = Log(frame), not_negative(strength, "strength")
    queries, query_ids = log.ids(query, "query")
    documents, document_ids = log.ids(document, "document")
    place, clicked = log.positions(position, top), log.flags(click, "click")
    bought = None if purchase is None else log.flags(purchase, "purchase")
    if session is None:
        impression = np.cumsum(np.append(True, (queries[1:] != queries[:-1]) | (place[1:] <= place[:-1]))) - 1
    else:
        keys = log.ids(session, "session")[0] * len(query_ids) + queries
        impression = np.unique(keys, return_inverse=True)[1].reshape(-1)
    _refuse_twice(impression, documents, f"document {document!r}", document_ids)
    _refuse_twice(impression, place, f"position {position!r}", None)

    keys, unit = np.unique(queries * len(document_ids) + documents, return_inverse=True)
    unit, times = unit.reshape(-1), np.bincount(unit.reshape(-1))
    middle = place[np.lexsort((place, unit))][np.cumsum(times) - times + (times - 1) // 2]
    order = np.lexsort((keys, middle, keys // len(document_ids)))  # the keys: in the order of the log
    row = np.argsort(order)[unit]
    seen = np.lexsort((place, impression))
    return Sessions(
        query=query_ids[keys[order] // len(document_ids)],
        document=document_ids[keys[order] % len(document_ids)],
        group=np.bincount(keys // len(document_ids)),
        impressions=times[order],
        clicks=np.bincount(row, weights=clicked).astype(np.int64),
        purchases=None if bought is None else np.bincount(row, weights=bought).astype(np.int64),
        position=middle[order],
        searches=np.bincount(queries[np.unique(impression, return_index=True)[1]]),
        placements=add_up(row, place, np.ones(len(row)), clicked),
        strength=strength,
        skipped=_skipped_above(impression[seen], row[seen], clicked[seen] > 0),
        kind=log.make,
    )


def _skipped_above(
    impression: Integers, row: Integers, clicked: npt.NDArray[np.bool_]
) -> tuple[Integers, Array, float]:
    """(clicked, skipped) rows shown in both orders, their counts, and their share; of lines by impression and position."""
    many = int(row.max()) + 1
    parts: list[tuple[npt.NDArray[Any], ...]] = [(np.empty(0, np.int64),) * 3]
    for gap in range(1, int(np.bincount(impression).max())):
        lower = gap + np.flatnonzero(impression[gap:] == impression[:-gap])
        passed = clicked[lower] & ~clicked[lower - gap]
        keys, which, times = np.unique(row[lower] * many + row[lower - gap], return_inverse=True, return_counts=True)
        parts.append((keys, times, np.bincount(which.reshape(-1), passed, len(keys))))
    every, *counted = (np.concatenate(some) for some in zip(*parts, strict=True))
    keys, which = np.unique(every, return_inverse=True)
    shown, skipped = (np.bincount(which.reshape(-1), some, len(keys)) for some in counted)
    other = (keys % many) * many + keys // many
    place = np.minimum(np.searchsorted(keys, other), max(len(keys) - 1, 0))
    kept = (skipped > 0) & (keys[place] == other)
    share = float(skipped[kept].sum() / max(skipped.sum(), 1.0)) if skipped.any() else 1.0
    counts = skipped[kept] * np.minimum(shown[kept], shown[place][kept]) / shown[kept]
    return np.stack([keys[kept] // many, keys[kept] % many], axis=1), counts, share


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
