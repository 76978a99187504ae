"""Whether scores are probabilities: what was predicted beside what was observed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import plotting
from ..checking import integer, positive
from ..errors import LambdaplugError
from ..queries import Array, vector
from ..reports import Report

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

    edges: Array
    predicted: Array
    observed: Array
    counts: Array
    logloss: float
    ece: float

    def _before(self) -> list[str]:
        return [f"logloss {self.logloss:.4f}, ece {self.ece:.4f} over {self.counts.sum():,.10g} rows"]

    def _cells(self) -> list[list[str]]:
        cells = [["bin", "predicted", "observed", "rows"]]
        bins = zip(self.edges[:-1], self.edges[1:], self.predicted, self.observed, self.counts, strict=True)
        for low, high, said, seen, count in bins:
            if count:
                cells.append([f"{low:.3f} to {high:.3f}", f"{said:.4f}", f"{seen:.4f}", f"{count:,.10g}"])
        return cells

    def plot(self, ax: Any = None) -> Any:
        """The reliability diagram: observed over predicted, with each bin's share of the rows. Returns Matplotlib's axes."""
        share, filled = self.counts / self.counts.sum(), self.counts > 0
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
    bins: int = 10,
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
    bins : int
        So many of equal width over [0, 1].
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
    from scipy.special import expit, log_expit

    top, bins = positive(max_label, "max_label"), integer(bins, "bins")
    y, s = vector(labels, "labels") / top, vector(scores, "scores")
    w = np.ones(len(y)) if weight is None else vector(weight, "weight")
    if not len(y) == len(s) == len(w) or not len(y):
        raise LambdaplugError(
            f"calibration: expected one label, score and weight per row, got {len(y)}, {len(s)} and {len(w)}."
        )
    if not (np.isfinite(s).all() and (y >= 0.0).all() and (y <= 1.0).all()):
        raise LambdaplugError(
            f"calibration: expected finite scores and labels from 0 to {top:g}, got labels from {y.min() * top:g} to "
            f"{y.max() * top:g}. For grades 0 to 4 give max_label=4."
        )
    if not (np.isfinite(w).all() and w.min() >= 0.0 and w.sum() > 0.0):
        raise LambdaplugError("weight: expected finite numbers that are not negative, and not all 0.")
    q = expit(s)
    place = np.minimum((q * bins).astype(np.int64), bins - 1)
    counts, sums, seen = (np.bincount(place, value, bins).astype(np.float64) for value in (w, w * q, w * y))
    with np.errstate(invalid="ignore"):
        predicted, observed = sums / counts, seen / counts
    logloss = -(y * log_expit(s) + (1.0 - y) * log_expit(-s))
    total = float(w.sum())
    ece = float(np.abs(sums - seen).sum()) / total
    return Calibration(np.linspace(0.0, 1.0, bins + 1), predicted, observed, counts, float(w @ logloss) / total, ece)
