"""Clicks of simulated users, as a second label source."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ..errors import LambdaplugError

__all__ = ["CLICK_CHANCES", "simulate_clicks"]

CLICK_CHANCES = (0.05, 0.15, 0.3, 0.5, 0.7)  # of a document that is looked at, by its label


def simulate_clicks(
    labels: npt.ArrayLike,
    group: npt.ArrayLike,
    *,
    scores: npt.ArrayLike | None = None,
    taste: npt.ArrayLike | None = None,
    sessions: int = 100,
    examination: float = 1.0,
    chances: Sequence[float] = CLICK_CHANCES,
    seed: int = 0,
) -> npt.NDArray[np.float64]:
    """One click score in [0, 1] a row: in what share of the sessions that document was clicked LAST.

    Each session a user sees the documents by falling ``scores`` (default: by label, with noise), looks at rank r with
    probability (1/r)^examination, clicks on what it looks at with a chance that depends on the label and, with
    ``taste`` (one per row), on something else: the chance's logit is raised by it. Only the session's last click counts,
    which is nearer to satisfaction and less biased by position (Svore et al. 2011, section 6).

    >>> simulate_clicks([4, 0, 0], [3], sessions=10).shape
    (3,)
    """
    grades = np.asarray(labels, dtype=np.int64)
    sizes = np.asarray(group, dtype=np.int64)
    if sizes.sum() != len(grades):
        raise LambdaplugError(f"simulate_clicks: the group sizes add up to {sizes.sum()}, not to {len(grades)} labels.")
    if len(grades) and not 0 <= grades.min() <= grades.max() < len(chances):
        raise LambdaplugError(
            f"simulate_clicks: labels 0 to {len(chances) - 1} have a click chance; pass chances= for others."
        )
    rng = np.random.default_rng(seed)
    shown = grades + rng.normal(size=len(grades)) if scores is None else np.asarray(scores, dtype=np.float64)
    chance = np.asarray(chances, dtype=np.float64)[grades]
    if taste is not None:
        chance = 1.0 / (1.0 + (1.0 - chance) / chance * np.exp(-np.asarray(taste, dtype=np.float64)))
    clicked = np.zeros(len(grades))
    start = 0
    for n in sizes.tolist():
        rows = start + np.argsort(-shown[start : start + n], kind="stable")
        start += n
        if n == 0:
            continue
        probability = chance[rows] * np.arange(1, n + 1) ** -examination
        clicks = rng.random((sessions, n)) < probability
        # A user works down the list: the last click of a session is the lowest one.
        last = n - 1 - np.argmax(clicks[:, ::-1], axis=1)
        clicked[rows] = np.bincount(last[clicks.any(axis=1)], minlength=n) / sessions
    return clicked
