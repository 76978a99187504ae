"""Whether scores are probabilities: what was predicted beside what was observed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import plotting
from ..checking import integer, positive
from ..errors import LambdaplugError
from ..queries import Array, vector
from ..tables import Report

__all__ = ["Calibration", "calibration"]


@dataclass(frozen=True, eq=False, repr=False)
class Calibration(Report):
    """What :func:`calibration` found: one value per bin in each array, NaN where a bin has no rows.

    Attributes
    ----------
    edges : array
        Of the bins, one more than there are.
    predicted, observed : array
        The mean predicted probability and the mean label.
    counts : array
        Rows, or their weights.
    logloss : float
        Of all rows.
    ece : float
        Expected calibration error: the mean of |predicted - observed| over rows.

    Examples
    --------
    >>> calibration(labels=[0, 0, 1, 1], scores=[-2.0, -2.0, -2.0, 2.0], bins=2).observed.round(3)
    array([0.333, 1.   ])
    """

    edges: Array  # of the bins, one more than there are
    predicted: Array  # the mean predicted probability
    observed: Array  # the mean label
    counts: Array  # rows, or their weights
    logloss: float
    ece: float  # expected calibration error: the mean of |predicted - observed| over rows

    def _before(self) -> list[str]:
        rows = int(self.counts.sum()) if np.all(self.counts == np.floor(self.counts)) else self.counts.sum()
        return [f"logloss {self.logloss:.4f}, ece {self.ece:.4f} over {rows:,} rows"]

    def _cells(self) -> list[list[str]]:
        bins = zip(self.edges[:-1], self.edges[1:], self.predicted, self.observed, self.counts, strict=True)
        return [
            ["bin", "predicted", "observed", "rows"],
            *(
                [f"{low:.3f} to {high:.3f}", f"{said:.4f}", f"{seen:.4f}", f"{count:,.10g}"]
                for low, high, said, seen, count in bins
                if count
            ),
        ]

    def plot(self, ax: Any = None) -> Any:
        """The reliability diagram: observed over predicted, with each bin's share of the rows. Returns Matplotlib's axes."""
        share = self.counts / max(float(self.counts.sum()), 1e-300)
        filled = self.counts > 0
        with plotting.drawing(ax) as ax:
            ax.bar(self.edges[:-1], share, np.diff(self.edges), align="edge", color="0.85", label="share of the rows")
            ax.plot([0.0, 1.0], [0.0, 1.0], "--", color="0.5", label="perfect")
            ax.plot(self.predicted[filled], self.observed[filled], "o-", label="observed")
            ax.set(xlabel="predicted probability", ylabel="mean label", xlim=(0.0, 1.0), ylim=(0.0, 1.0))
            ax.set_title(f"Reliability: expected calibration error {self.ece:.3f}, log loss {self.logloss:.3f}")
            plotting.legend(ax)
        return ax


def calibration(
    labels: npt.ArrayLike,
    scores: npt.ArrayLike,
    bins: int | Sequence[float] | npt.NDArray[np.float64] = 10,
    *,
    max_label: float = 1.0,
    weight: npt.ArrayLike | None = None,
) -> Calibration:
    """How well sigmoid(score) predicts the label, as after a training with :class:`lambdaplug.Calibrated`.

    The expected calibration error is sum over bins of (rows in the bin/rows) |mean predicted - mean observed|.

    Parameters
    ----------
    labels : array-like
        One per row, from 0 to ``max_label``.
    scores : array-like
        One per row: what the model predicts, before the sigmoid.
    bins : int or sequence
        So many bins of equal width over [0, 1], or their edges, rising from 0 to 1.
    max_label : float
        Labels are divided by it.
    weight : array-like, optional
        One per row.

    Returns
    -------
    Calibration
        Arrays ``edges``, ``predicted``, ``observed``, ``counts``, the numbers ``logloss`` and ``ece``, and ``plot()``.

    References
    ----------
    M. Naeini, G. Cooper, M. Hauskrecht (2015), "Obtaining well calibrated probabilities using Bayesian binning", AAAI.

    Examples
    --------
    >>> found = calibration(labels=[0, 0, 1, 1], scores=[-2.0, -2.0, -2.0, 2.0], bins=2)
    >>> found.counts, round(found.ece, 3)
    (array([3., 1.]), 0.19)
    """
    top = positive(max_label, "max_label")
    y, s = vector(labels, "labels") / top, vector(scores, "scores")
    w = np.ones(len(y)) if weight is None else vector(weight, "weight")
    if not len(y) == len(s) == len(w) or not len(y):
        raise LambdaplugError(
            f"calibration: expected one label, score and weight per row, got {len(y)}, {len(s)} and {len(w)}."
        )
    if not (np.isfinite(s).all() and np.isfinite(y).all() and y.min() >= 0.0 and y.max() <= 1.0):
        raise LambdaplugError(
            f"calibration: expected finite scores and labels from 0 to {top:g}, got labels from {y.min() * top:g} to "
            f"{y.max() * top:g}. For grades 0 to 4 give max_label=4."
        )
    if not (np.isfinite(w).all() and w.min() >= 0.0 and w.sum() > 0.0):
        raise LambdaplugError("weight: expected finite numbers that are not negative, and not all 0.")
    edges = _edges(bins)
    small = np.exp(-np.abs(s))
    q = np.where(s > 0.0, 1.0, small) / (1.0 + small)
    place = np.clip(np.searchsorted(edges, q, side="right") - 1, 0, len(edges) - 2)
    counts, sums, seen = (np.bincount(place, value, len(edges) - 1).astype(np.float64) for value in (w, w * q, w * y))
    with np.errstate(invalid="ignore"):
        predicted, observed = sums / counts, seen / counts
    # -log q = log(1 + exp(-s)), -log(1 - q) = that + s
    logloss = np.maximum(-s, 0.0) + np.log1p(small) + (1.0 - y) * s
    total = float(w.sum())
    ece = float(np.abs(sums - seen).sum()) / total
    return Calibration(edges, predicted, observed, counts, float(w @ logloss) / total, ece)


def _edges(bins: Any) -> Array:
    if isinstance(bins, (int, np.integer)):
        return np.linspace(0.0, 1.0, integer(bins, "bins") + 1)
    edges = vector(bins, "bins")
    if len(edges) < 2 or edges[0] != 0.0 or edges[-1] != 1.0 or not np.all(np.diff(edges) > 0.0):
        raise LambdaplugError(f"bins: expected an integer >= 1, or edges that rise from 0 to 1, got {bins!r}.")
    return edges
