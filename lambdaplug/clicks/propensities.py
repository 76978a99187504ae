"""How likely each display position is looked at, from logs in which documents changed places."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .. import plotting
from ..checking import shown
from ..errors import LambdaplugError, LambdaplugWarning
from .log import Array, Integers, Placements, add_up
from .sessions import Sessions
from .simulation import Clicks

__all__ = ["PropensityCurve", "estimate_propensities"]

STEPS = 100
CLOSE = 1e-10  # of a step of the logarithms


@dataclass(frozen=True, eq=False)
class PropensityCurve:
    """Propensities by position with intervals; ``lp.Unbiased(..., propensities=curve)`` takes it as it is.

    Attributes
    ----------
    propensity : array
        By position, relative to the first one that is known; NaN for one that the log does not link to it.
    low, high : array
        The ends of the intervals; both 1 for the first.
    level : float
        Of the intervals.

    Examples
    --------
    >>> curve = PropensityCurve(np.array([1.0, 0.5]), np.array([1.0, 0.4]), np.array([1.0, 0.6]), level=0.95)
    >>> curve
    PropensityCurve([1.  0.5], low=[1.  0.4], high=[1.  0.6], level=0.95)
    """

    propensity: Array
    low: Array
    high: Array
    level: float

    def __repr__(self) -> str:
        values, low, high = (
            np.array2string(one, precision=3, threshold=10) for one in (self.propensity, self.low, self.high)
        )
        return f"PropensityCurve({values}, low={low}, high={high}, level={self.level:g})"

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.array(self.propensity, dtype)

    def plot(self, ax: Any = None, truth: Any = None) -> Any:
        """The propensities by position with their intervals, and the true ones where they are known. Returns Matplotlib's axes."""
        with plotting.drawing(ax) as ax:
            if truth is not None:
                known = np.asarray(truth, float)
                ax.plot(known / known[0], "k--", label="truth")
            ax.plot(self.propensity, marker="o", markersize=3, label="harvested")
            name = f"{self.level:.0%} interval"
            ax.fill_between(
                np.arange(len(self.propensity)), self.low, self.high, alpha=0.2, color=plotting.BLUE, label=name
            )
            ax.set(xlabel="display position, 0 the top", ylabel="propensity relative to the first position")
            ax.set_title("How likely a position is looked at")
            plotting.integers(ax.xaxis)
            plotting.legend(ax)
        return ax


def estimate_propensities(log: Sessions | Clicks, *, randomized: bool = False, level: float = 0.95) -> PropensityCurve:
    """How likely users look at each position, from a log in which the same documents were shown at several.

    Where a document of a query was seen at more than one place (two rankers, a model that changed, an A/B test, swaps for
    the purpose), its clicks tell the places apart: relevance is the same, only the place differs. With the chance p_k r of
    a click on a document of relevance r at position k, and n_k impressions and c_k clicks of it there, the p solve

        sum of c_k = sum of (c_0 + c_1 + ...) n_k p_k/(n_0 p_0 + n_1 p_1 + ...)  for each k,

    the sums over all documents seen at two positions or more. No ranking model is needed, and none is assumed. This is the
    all-pairs estimator of Agarwal et al. with a relevance of each document's own in place of one per pair of positions.
    What it takes for granted is that a look depends on the position alone. Intervals are by the delta method for log p,
    with the spread between queries or that of independent clicks, whichever is larger.

    Parameters
    ----------
    log : Sessions or Clicks
        What ``lp.data.from_sessions`` made of a log, or ``lp.data.simulate_clicks``.
    randomized : bool
        The results of each query were shown in random order: all its documents together are what was seen at several
        positions, and no document has to come twice.
    level : float
        Of the intervals.

    Returns
    -------
    PropensityCurve
        ``propensity``, ``low`` and ``high`` by position; compare it with ``lp.position_bias(booster).propensity``, ``.plot()``
        it, or train with it: ``lp.Unbiased(objective, position, propensities=curve)``.

    References
    ----------
    A. Agarwal, I. Zaitsev, X. Wang, C. Li, M. Najork, T. Joachims (2019), "Estimating position bias without intrusive
    interventions", WSDM. X. Wang, M. Bendersky, D. Metzler, M. Najork (2016), "Learning to rank with selection bias in
    personal search", SIGIR (randomised results).

    Examples
    --------
    >>> import lambdaplug as lp
    >>> labels, group = [2, 1, 0, 0] * 200, [4] * 200
    >>> log = lp.data.simulate_clicks(labels, group, users="position", examination=1.0, rankings=5, sessions=40)
    >>> curve = estimate_propensities(log)
    >>> bool(np.abs(curve.propensity - [1, 1 / 2, 1 / 3, 1 / 4]).max() < 0.05)
    True
    """
    from scipy.special import stdtrit

    if not 0 < level < 1:
        raise LambdaplugError(f"level: expected a number between 0 and 1, such as 0.95; got {level!r}.")
    if not isinstance(log, (Sessions, Clicks)):
        raise LambdaplugError(
            f"estimate_propensities: expected rows made of a log, lp.data.from_sessions(frame, ...), got {shown(log)}."
        )
    counts, asked = log.placements, log.asked
    if randomized:
        counts = add_up(asked[counts.row], counts.position, counts.impressions, counts.clicks)
        asked = np.arange(int(asked.max()) + 1)
    cells = _linked(counts, asked, "queries" if randomized else "documents")
    theta, error = _solved(cells)
    half = float(stdtrit(max(int(cells.query.max()), 1), 0.5 + level / 2)) * error
    curve = np.full((3, int(cells.positions[-1]) + 1), np.nan)
    curve[:, cells.positions] = np.exp([theta, theta - half, theta + half])
    return PropensityCurve(curve[0], curve[1], curve[2], level)


class _Cells(NamedTuple):
    """Impressions and clicks by unit (what was seen at several positions) and position, both numbered without gaps."""

    unit: Integers
    query: Integers  # of the unit
    place: Integers
    impressions: Array
    clicks: Array
    positions: Integers  # by place


def _linked(counts: Placements, asked: Integers, what: str) -> _Cells:
    """The units seen at two positions or more, with those positions that clicks link to the first; a warning names others."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    row, position, impressions, clicks = counts
    kept = np.bincount(row)[row] > 1
    seen, found = (
        csr_array((1.0 * (kept & some), (row, position)), shape=(int(row.max()) + 1, int(position.max()) + 1))
        for some in (impressions > 0, clicks > 0)
    )
    # An arrow from each position to one that was clicked where both had the same unit: a curve that is neither 0 nor
    # infinite needs a way there and back.
    part = connected_components(seen.T @ found, connection="strong")[1]
    several = np.flatnonzero(np.bincount(part)[part] > 1)
    if not len(several):
        raise LambdaplugError(
            f"estimate_propensities: no two positions are linked by {what} that were seen and clicked at both, so that nothing "
            "tells the position from the relevance. Use a longer log, or one with several rankers or a changed model, or "
            "exchange results for a share of the searches; if each query's results were shown in random order, pass "
            "randomized=True; else learn the curve beside a model: lp.Unbiased(objective, position)."
        )
    linked = part == part[several[0]]
    others = np.setdiff1d(position, np.flatnonzero(linked))
    if len(others):
        listed = f"{', '.join(map(str, others[:10]))}{', ...' if len(others) > 10 else ''}"
        warnings.warn(
            f"estimate_propensities: the positions {listed} are not known: clicks on {what} seen there and elsewhere do not "
            f"link them to position {several[0]}, to which the others are relative. A longer log, or positions put together, "
            "would.",
            LambdaplugWarning,
            stacklevel=3,
        )
    kept &= linked[position]
    kept &= np.bincount(row, kept)[row] > 1
    units, unit = np.unique(row[kept], return_inverse=True)
    positions, place = np.unique(position[kept], return_inverse=True)
    numbers = np.unique(asked[units], return_inverse=True)[1].reshape(-1)
    times, won = (some[kept].astype(np.float64) for some in (impressions, clicks))
    return _Cells(unit.reshape(-1), numbers, place.reshape(-1), times, won, positions)


def _solved(cells: _Cells) -> tuple[Array, Array]:
    """log p by place, 0 for the first, and standard errors: Newton's method for a sum that is concave in log p."""
    from scipy.sparse import csr_array

    unit, query, place, impressions, clicks, _ = cells
    total = np.bincount(unit, weights=clicks)
    won, size = np.bincount(place, weights=clicks), (len(query), len(cells.positions))

    def table(values: Array) -> Any:
        return csr_array((values, (unit, place)), shape=size)

    def at(theta: Array) -> tuple[float, Array]:
        """What is maximised, and the share of each cell in its unit's clicks."""
        weight = impressions * np.exp(theta[place])
        whole = np.bincount(unit, weights=weight)
        return float(won @ theta - total @ np.log(whole)), weight / whole[unit]

    theta = np.log(won / np.bincount(place, weights=impressions))
    theta -= theta[0]
    value, share = at(theta)
    for _ in range(STEPS):
        expected = total[unit] * share
        gradient = won - np.bincount(place, weights=expected)
        shares = table(share)
        bend = np.diag(np.bincount(place, weights=expected)) - (shares.T @ table(expected)).toarray()
        step = np.append(0.0, np.linalg.solve(bend[1:, 1:], gradient[1:]))
        factor = 1.0
        while (found := at(theta + factor * step))[0] < value - 1e-12 * abs(value) and factor > 1e-9:
            factor /= 2
        theta, (value, share) = theta + factor * step, found
        if np.abs(step).max() < CLOSE:
            break
    inverse = np.linalg.inv(bend[1:, 1:])

    # The spread of the gradient: as it is between queries, and as independent clicks would have it. The first is 0 for a
    # position that one query alone knows.
    rest = csr_array((clicks - expected, (query[unit], place)), shape=(int(query.max()) + 1, size[1]))
    many = rest.shape[0]
    between = (rest.T @ rest).toarray() * (many / max(many - 1, 1))
    rate = np.minimum(expected / impressions, 1.0)
    spread = impressions * rate * (1.0 - rate)
    click = csr_array((np.ones(len(place)), (np.arange(len(place)), place))) - shares[unit]  # its part in the gradient
    within = (click.T @ click.multiply(spread[:, None])).toarray()
    variances = [np.diag(inverse @ middle[1:, 1:] @ inverse) for middle in (between, within)]
    return theta, np.append(0.0, np.sqrt(np.maximum(*variances)))
