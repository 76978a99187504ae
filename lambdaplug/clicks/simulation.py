"""Clicks of simulated users, whose ways are known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..checking import integer, not_negative, shown
from ..errors import LambdaplugError
from ..grouping import group_sizes
from .log import Array, Integers, Placements, add_up

__all__ = ["Clicks", "simulate_clicks"]

CLICK_CHANCES = (0.05, 0.15, 0.3, 0.5, 0.7)  # of a document that is looked at, by its label


@dataclass(frozen=True, eq=False)
class Clicks:
    """A log of clicks, one row for each document of each ranking shown, in the order shown.

    Attributes
    ----------
    rows : array of int
        Which row of the data each one is: ``X[clicks.rows]`` are its features.
    group : array of int
        The number of rows of each ranking shown, which is a query of its own.
    position : array of int
        Where each row was shown, 0 for the top.
    count : array of int
        In how many sessions it was clicked.
    sessions : int
        How often each ranking was shown.
    propensity : array of float
        By position: how likely a user looks there.

    Examples
    --------
    >>> log = simulate_clicks([4, 0, 0], [3], users="position", sessions=10)
    >>> log.position.tolist()
    [0, 1, 2]
    """

    rows: Integers
    group: Integers
    position: Integers
    count: Integers
    sessions: int
    propensity: Array

    @property
    def labels(self) -> npt.NDArray[np.float32]:
        """1 for a row with a click, 0 for the others."""
        return (self.count > 0).astype(np.float32)

    @property
    def rate(self) -> Array:
        """The share of sessions with a click, by row."""
        return np.asarray(self.count / self.sessions)

    @property
    def columns(self) -> dict[str, npt.NDArray[Any]]:
        """What belongs to each row, by name: ``lp.attach(data, **log.columns)``."""
        return {"clicks": self.count, "rate": self.rate, "position": self.position}

    @property
    def asked(self) -> Integers:
        """The query of each row of the data, by the number of its first row."""
        query = np.zeros(int(self.rows.max()) + 1, np.int64)
        query[self.rows] = np.repeat(np.minimum.reduceat(self.rows, np.cumsum(self.group) - self.group), self.group)
        return query

    @property
    def placements(self) -> Placements:
        """How often each row of the data was shown and clicked at each position."""
        return add_up(self.rows, self.position, np.full(len(self.rows), self.sessions), self.count)

    def __repr__(self) -> str:
        return f"<Clicks: {self.count.sum()} on {len(self.rows)} rows, {len(self.group)} rankings shown {self.sessions} times>"


def simulate_clicks(
    labels: npt.ArrayLike,
    group: npt.ArrayLike | None = None,
    *,
    qid: npt.ArrayLike | None = None,
    scores: npt.ArrayLike | None = None,
    taste: npt.ArrayLike | None = None,
    sessions: int = 100,
    examination: float | Sequence[float] = 1.0,
    chances: Sequence[float] = CLICK_CHANCES,
    seed: int = 0,
    users: str = "last",
    rankings: int = 1,
    variety: float = 1.0,
) -> Any:
    """Clicks of users who see the documents by falling ``scores``, look at rank r = 1, 2, ... with a known chance, and click
    on what they look at with a chance that depends on the label.

    With ``users="last"``, one click score in [0, 1] per row: in what share of the sessions that document was clicked LAST,
    which is nearer to satisfaction and less biased by position (Svore et al. 2011, section 6). A click satisfies with the
    chance that the document had of being clicked, and a satisfied user stops. With ``users="position"``, a log of all clicks,
    :class:`Clicks`, with positions and true propensities: what ``lp.Unbiased`` can be checked with.

    Parameters
    ----------
    labels, group : array-like
        Labels 0, 1, ..., one per row, and the number of rows of each query.
    qid : array-like, optional
        In place of ``group``: one query id per row.
    scores : array-like, optional
        What the documents are ranked by; default the label plus standard normal noise.
    taste : array-like, optional
        One number per row, by which the logit of the chance of a click is raised: something else than the label.
    sessions : int
        How often each ranking is shown.
    examination : float or sequence
        The chance of looking at rank r is (1/r)^examination, or the sequence's r-th number.
    chances : sequence of float
        The chance of a click on a document that is looked at, by label.
    seed : int
        Of all draws.
    users : str
        ``"last"``: they read down from the top, going from one rank to the next with the ratio of their examination chances,
        and stop when satisfied; ``"position"``: they look at each rank independently of the others.
    rankings : int
        How many different rankings of each query are shown, each a query of its own in the log (``users="position"``).
    variety : float
        The rankings after the first are by ``scores`` plus so many standard deviations of normal noise.

    Returns
    -------
    array or Clicks
        With ``users="last"`` one click score in [0, 1] per row; else a log of all clicks.

    References
    ----------
    K. Svore, M. Volkovs, C. Burges (2011), "Learning to rank with multiple objective functions", WWW, section 6. A. Chuklin,
    I. Markov, M. de Rijke (2015), "Click models for web search", Morgan & Claypool.

    Examples
    --------
    >>> simulate_clicks([4, 0, 0], [3], sessions=10).shape
    (3,)
    >>> log = simulate_clicks([4, 0, 0], [3], users="position", rankings=2, sessions=10)
    >>> log.rows.shape, log.group.tolist(), log.propensity.round(2).tolist()
    ((6,), [3, 3], [1.0, 0.5, 0.33])
    """
    grades = np.asarray(labels, dtype=np.int64)
    if len(grades) and not 0 <= grades.min() <= grades.max() < len(chances):
        raise LambdaplugError(
            f"simulate_clicks: labels 0 to {len(chances) - 1} have a click chance; pass chances= for others."
        )
    if users not in ("last", "position"):
        raise LambdaplugError(f"simulate_clicks: users are 'last' or 'position', got {shown(users)}.")
    sessions, rankings = integer(sessions, "sessions"), integer(rankings, "rankings")
    sizes = group_sizes(group, qid, len(grades))
    curve = _curve(examination, int(sizes.max(initial=0)))
    rng = np.random.default_rng(seed)
    shown_by = grades + rng.normal(size=len(grades)) if scores is None else np.asarray(scores, dtype=np.float64)
    chance = np.asarray(chances, dtype=np.float64)[grades]
    if taste is not None:
        chance = 1.0 / (1.0 + (1.0 - chance) / chance * np.exp(-np.asarray(taste, dtype=np.float64)))
    if users == "last" and rankings > 1:
        raise LambdaplugError("simulate_clicks: rankings= is for users='position'.")
    rows = _shown(rng, sizes, shown_by, rankings, not_negative(variety, "variety"))
    sizes = np.repeat(sizes, rankings)
    position = np.arange(len(rows)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    if users == "position":
        clicked = rng.binomial(sessions, chance[rows] * curve[position]).astype(np.int64)
        return Clicks(rows, sizes, position, clicked, sessions, curve)
    if (np.diff(curve) > 0).any():
        raise LambdaplugError(f"simulate_clicks: {users=} read down from the top: examination must not rise.")
    shares = np.empty(len(rows))
    shares[rows] = _last_clicks(rng, sizes, chance[rows], curve, sessions) / sessions
    return shares


def _curve(examination: float | Sequence[float], longest: int) -> Array:
    """The chance of looking at each rank."""
    if isinstance(examination, (int, float, np.number)):
        return np.asarray(np.arange(1, longest + 1) ** -float(examination), dtype=np.float64)
    curve: Array = np.asarray(examination, dtype=np.float64)
    if curve.ndim != 1 or len(curve) < longest or not ((curve >= 0) & (curve <= 1)).all():
        raise LambdaplugError(
            f"simulate_clicks: examination: expected a number, or a chance from 0 to 1 for each of {longest} ranks; got "
            f"{shown(examination)}."
        )
    return np.array(curve[:longest])


def _shown(rng: np.random.Generator, sizes: Integers, scores: Array, rankings: int, variety: float) -> Integers:
    """The rows of every ranking, from the top; a query's rankings follow each other."""
    query = np.repeat(np.arange(len(sizes)), sizes)
    noise = variety * rng.normal(size=(rankings, len(scores)))
    noise[0] = 0.0
    keys = -(scores + noise).ravel()
    rows, ranking = np.tile(np.arange(len(scores)), rankings), np.repeat(np.arange(rankings), len(scores))
    order = np.lexsort((keys, ranking, np.tile(query, rankings)))
    return rows[order]


def _last_clicks(rng: np.random.Generator, sizes: Integers, chance: Array, curve: Array, sessions: int) -> Integers:
    """In how many sessions each row was the last one clicked, by users who stop when a click has satisfied them."""
    reach = np.append(curve[:1], np.divide(curve[1:], curve[:-1], out=np.zeros(len(curve[1:])), where=curve[:-1] > 0))
    start = np.cumsum(sizes) - sizes
    reading, latest = np.ones((len(sizes), sessions), bool), np.full((len(sizes), sessions), -1)
    for rank in range(len(curve)):
        here = np.flatnonzero(sizes > rank)
        row = start[here] + rank
        own = reading[here] & (rng.random((len(here), sessions)) < reach[rank])
        click = own & (rng.random(own.shape) < chance[row, None])
        latest[here] = np.where(click, row[:, None], latest[here])
        reading[here] = own & (~click | (rng.random(own.shape) < 1.0 - chance[row, None]))
    return np.bincount(latest[latest >= 0], minlength=len(chance))
