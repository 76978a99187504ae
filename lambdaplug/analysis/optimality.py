"""Is a model a local optimum of a measure? A Monte Carlo certificate (Donmez, Svore, Burges 2009, section 5)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from .. import plotting
from ..checking import integer, progress_bar
from ..errors import LambdaplugError
from ..evaluation import Part, per_query_values
from ..hosts.base import raw_scores, sliceable, weights_of
from ..measures import Measure, as_measure
from ..objectives import LambdaRank
from ..queries import Array, Queries
from ..reports import Report
from .curves import Curves

__all__ = ["Landscape", "Optimality", "Trial", "local_optimality", "unit", "unit_direction"]

Rule: TypeAlias = Literal["significant", "strict"]

STEPS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)  # times the norm of all weights
SHARE = 0.01  # of all directions, in what the report says
TOLERANCE = 1e-12  # the same values summed in another order are no improvement
SHOWN = 4  # directions in the curves


class Trial(NamedTuple):
    """What happens to the mean of a measure along some directions: arrays ``[direction, step]``."""

    value: float  # where the directions start
    queries: int  # that have a value
    change: Array
    error: Array  # the standard error of ``change``, from the paired differences of the queries

    def bound(self, level: float) -> float:
        """What Student's t must exceed: the chance of any false alarm among all directions and steps is the level."""
        from scipy.special import stdtrit

        return float(stdtrit(self.queries - 1, 1.0 - level / max(self.change.size, 1)))

    def improves(self, level: float | None) -> npt.NDArray[np.bool_]:
        """Where the measure is higher; with a level, significantly so."""
        higher: npt.NDArray[np.bool_] = self.change > TOLERANCE * max(1.0, abs(self.value))
        return higher if level is None else higher & (self.change > self.bound(level) * self.error)


class Landscape:
    """The mean of a measure over queries, at the weights of a model and around them.

    Scores are linear in the weights: along a direction u they are s + eta * table @ u. So a direction costs one pass over the
    table, and every step along it one ranking.

    Parameters
    ----------
    weights : array
        Leaf values, or one weight per feature.
    scores : array
        The model's, one per row.
    table : scipy.sparse.csr_matrix
        What each row takes from the weights, [row, weight]: 1 for its leaves, or its features.
    queries : Queries
        Labels and groups.
    measure : str or Measure
        What is looked at.

    Examples
    --------
    >>> from scipy import sparse
    >>> table = sparse.csr_matrix(np.eye(2))  # two rows, each in a leaf of its own of one tree
    >>> landscape = Landscape(np.array([0.0, 1.0]), np.array([0.0, 1.0]), table, Queries([0, 1], [2]), "ndcg")
    >>> landscape.value()
    1.0
    >>> round(landscape.value(np.array([2.0, 0.0])), 4)  # with these added to the leaf values
    0.6309
    """

    def __init__(self, weights: Array, scores: Array, table: Any, queries: Queries, measure: str | Measure) -> None:
        if table.shape[0] != len(queries.labels):
            raise LambdaplugError(f"X: expected one row per label ({len(queries.labels)}), got {table.shape[0]}.")
        self.weights, self.table, self.queries = weights, table, queries
        self.scores = np.asarray(scores, dtype=np.float64)
        self.measure = as_measure(measure)
        if not self._values(self.scores).size:
            raise LambdaplugError(
                f"{self.measure} is undefined for every query ({self.measure.undefined}): nothing to measure."
            )

    def value(self, moved: Array | None = None) -> float:
        """The measure, with ``moved`` added to the weights."""
        return float(self._values(self._scores(moved)).mean())

    def along(self, directions: Iterable[Array], steps: Sequence[float], moved: Array | None = None) -> Trial:
        """Try every step along each direction, from the weights (plus ``moved``)."""
        start = self._scores(moved)
        before, found = self._values(start), []
        n = len(before)
        for direction in directions:
            move = self.table @ direction
            changes = np.array([self._values(start + step * move) - before for step in steps])
            error = changes.std(axis=1, ddof=1) / n**0.5 if n > 1 else np.full(len(steps), np.inf)
            found.append((changes.mean(axis=1), error))
        change, error = np.reshape(found, (-1, 2, len(steps))).swapaxes(0, 1)
        return Trial(float(before.mean()), n, change, error)

    def lambda_direction(self, moved: Array | None = None) -> Array:
        """Each weight's Newton step under the lambda forces of the measure, damped where a weight has little curvature.

        Of unit length, or 0 where there is no force.
        """
        scores = self._scores(moved)
        gradient, hessian = LambdaRank(self.measure).differentiate(self.queries, scores)
        damped = self.table.power(2).T @ hessian
        return unit(-(self.table.T @ gradient) / np.maximum(damped + damped.mean(), np.finfo(float).tiny))

    def _scores(self, moved: Array | None) -> Array:
        return self.scores if moved is None else self.scores + self.table @ moved

    def _values(self, scores: Array) -> Array:
        """Of each query that has one."""
        values = per_query_values([Part(self.measure)], self.queries, scores)[0]
        return values[~np.isnan(values)]


def unit(vector: Array) -> Array:
    """The vector at length 1; 0 stays 0."""
    return vector / (float(np.sqrt(np.square(vector).sum())) or 1.0)


def unit_direction(size: int, number: int, seed: int) -> Array:
    """A random unit vector: a function of the seed and its number alone."""
    return unit(np.random.default_rng([seed, number]).standard_normal(size))


@dataclass(frozen=True, repr=False)
class Optimality(Report):
    """What ``lp.analysis.local_optimality`` found; prints as a report.

    Attributes
    ----------
    measure, value : str and float
        What was looked at, and what it is at the model's own weights.
    weights, norm, directions : int, float and int
        How many weights, their norm, and how many random directions were tried.
    trial : Trial
        All directions at all steps: arrays [direction, step].
    steps : array
        Times ``norm``.
    best_improvement, best_step, best_direction : float, float and array
        The largest change of the measure, below 0 where every direction loses at every step; and where it was found: at
        ``weights + best_step * norm * best_direction``.
    guided : Trial
        Along the lambda forces of the measure, which are no random direction.
    curves : Curves
        The measure along some directions, and the lowest, the mean and the highest of all.
    rule, level : str and float
        As asked for.

    Examples
    --------
    >>> import lambdaplug as lp
    >>> data = lp.data.cubic(queries=20, documents=8, features=5)
    >>> model = lp.LGBMRanker(objective="ndcg", n_estimators=4, verbose=-1).fit(data.X, data.labels, group=data.group)
    >>> report = lp.analysis.local_optimality(model.booster_, *data, "map", 5, progress=False)
    >>> report.directions, report.measure
    (5, 'map')
    """

    measure: str
    value: float
    weights: int
    norm: float
    directions: int
    trial: Trial
    steps: Array
    best_improvement: float
    best_step: float
    best_direction: Array
    guided: Trial
    rule: Rule
    level: float

    @property
    def improves(self) -> npt.NDArray[np.bool_]:
        """By the rule: ``[direction, step]``."""
        return self.trial.improves(self.level if self.rule == "significant" else None)

    @property
    def detectable(self) -> Array:
        """At each step, from about which change on an improvement is significant: the test's power."""
        errors: Array = self.trial.error.mean(axis=0)
        return self.trial.bound(self.level) * errors

    @property
    def improving(self) -> int:
        """How many of the directions improve the measure, at some step, by the rule."""
        return int(self.improves.any(axis=1).sum())

    @property
    def optimum(self) -> bool:
        """No direction improves the measure, by the rule."""
        return self.improving == 0

    @property
    def growing(self) -> bool:
        """The measure rises significantly along the lambda forces: the model is not fully trained, and gets no verdict."""
        return bool(self.guided.improves(self.level).any())

    @property
    def confidence(self) -> float:
        """Of the verdict. An optimum: that fewer than 1 % of all directions improve. None: that one really does.

        An improvement beyond the significance level holds with confidence 1 - level for queries like these; under the
        strict rule it is a fact about these queries.
        """
        if self.optimum:
            return 1.0 - (1.0 - SHARE) ** self.directions
        return 1.0 if self.rule == "strict" else 1.0 - self.level

    @property
    def share_bound(self) -> float:
        """With confidence 1 - level, at most this share of all directions improves (Clopper, Pearson)."""
        from scipy.special import betaincinv

        n, k = self.directions, self.improving
        return 1.0 if k == n else float(betaincinv(k + 1, n - k, 1.0 - self.level))

    @property
    def _verdict(self) -> str:
        if self.growing:
            return f"still growing, no verdict: along the lambda forces it rises by {self.guided.change.max():.5f}"
        if not self.optimum:
            return f"NOT a local optimum, by {self.improving} of {self.directions} random directions"
        if self.share_bound > 1.01 * SHARE:
            needed = math.ceil(math.log(self.level) / math.log1p(-SHARE))
            return f"no verdict: none of {self.directions} random directions improves it, and {needed} are needed"
        return f"a local optimum: none of {self.directions} random directions improves it"

    def _before(self) -> list[str]:
        return [
            f"{self.measure} {self.value:.4f} over {self.trial.queries} queries: {self._verdict}",
            f"Steps of so many times the norm of the {self.weights} weights; an improvement is {self.rule}. With confidence "
            f"{1 - self.level:g}, at most {100 * self.share_bound:.3g} % of all directions improve.",
        ]

    def _cells(self) -> list[list[str]]:
        cells = [["step", "higher", "significant", "mean change", "largest change", "significant from"]]
        counts = [self.trial.improves(level).sum(axis=0).tolist() for level in (None, self.level)]
        changes = self.trial.change.mean(axis=0), self.trial.change.max(axis=0), self.detectable
        for step, higher, sure, *values in zip(self.steps, *counts, *changes, strict=True):
            cells.append([f"{step:g}", str(higher), str(sure), *(f"{value:+.6f}" for value in values)])
        return cells

    @property
    def curves(self) -> Curves:
        forward = np.hstack([np.zeros((self.directions, 1)), self.trial.change])  # from the model's own weights on
        lines = {f"direction {number}": forward[number] for number in range(min(SHOWN, self.directions))}
        lines |= {"lowest": forward.min(0), "mean": forward.mean(0), "highest": forward.max(0)}
        values = (self.value + np.array(list(lines.values())).T).tolist()
        rows = [dict(zip(lines, point, strict=True)) for point in values]
        return Curves(np.append(0.0, self.steps), rows, over="step")

    def plot(self, ax: Any = None) -> Any:
        """The measure over the step, along some directions and over all of them (the papers' Figures 1-4 and 6).

        Returns Matplotlib's axes.
        """
        with plotting.drawing(ax) as ax:
            self.curves.plot(ax)
            ax.axhline(self.value, color="0.4", linestyle=":", linewidth=1)
            ax.set_xscale("symlog", linthresh=float(self.steps.min()))
            ax.set(xlabel="step / norm of the weights", ylabel=self.measure, xlim=(0.0, None))
            ax.set_title(f"{self.measure} {self.value:.4f}:\n{self._verdict}")
        return ax


def local_optimality(
    booster: Any,
    X: Any,
    labels: npt.ArrayLike,
    group: npt.ArrayLike | None = None,
    measure: str | Measure = "",
    directions: int = 459,
    steps: Sequence[float] = STEPS,
    seed: int = 0,
    progress: bool = True,
    *,
    qid: npt.ArrayLike | None = None,
    columns: Mapping[str, npt.ArrayLike] | None = None,
    rule: Rule = "significant",
    level: float = 0.01,
) -> Optimality:
    """Whether a boosted model is a local optimum of a measure over these rows.

    The weights w are all leaf values, or those of a linear model. Each of so many random unit vectors u is tried:
    M(w + eta u), eta being ``steps`` times the norm of w, M the mean over the queries where the measure is defined. If none
    improves M, then with confidence 1 - 0.99^directions fewer than 1 % of all directions do: 0.99 for 459 directions.

    Parameters
    ----------
    booster : Booster or fitted ranker
        Of either host: trees, or a linear model (``gblinear``). Trees with linear leaves, forests that average, XGBoost's DART
        with dropped trees and models with several outputs are refused.
    X : array-like or data frame
        Rows, usually those it was trained on.
    labels : array-like
        One label per row.
    group : array-like
        The number of documents of each query, in order.
    measure : str or Measure
        M.
    directions : int
        How many random directions.
    steps : sequence of float
        How far, times the norm of all weights.
    seed : int
        Of the directions.
    progress : bool
        Whether to show a progress bar.
    qid : array-like, optional
        In place of ``group``: one query id per row, the rows of a query next to each other.
    columns : mapping, optional
        What the measure names besides labels, by name: ``{"clicks": clicks}``.
    rule : 'significant' or 'strict'
        What an improvement is. ``"strict"``, the papers': M is higher at some step. Measures of rankings are steps themselves,
        flickering at a small scale, so small steps improve by chance. ``"significant"``: the paired t-test over queries finds
        it higher at ``level``, one-sided, with Bonferroni's correction over all directions and steps. The report counts both.
    level : float
        Of that test.

    Returns
    -------
    Optimality
        With ``.optimum .confidence .best_improvement .best_direction .best_step .curves .plot()``; it prints. A random
        direction among thousands is almost at right angles to the one that matters, so the lambda forces of the measure are
        tried too (``.guided``): where they raise it significantly the model is still growing (``.growing``), and the report
        gives no verdict.

    References
    ----------
    P. Donmez, K. Svore, C. Burges (2009), "On the local optimality of LambdaRank", SIGIR. Y. Yue, C. Burges (2007), "On using
    simultaneous perturbation stochastic approximation for IR measures, and the empirical optimality of LambdaRank", NIPS
    Machine Learning for Web Search Workshop.

    Examples
    --------
    >>> import lightgbm as lgb
    >>> import lambdaplug as lp
    >>> data = lp.data.cubic(queries=20, documents=8, features=5)
    >>> params = {"objective": lp.LambdaRank("ndcg"), "verbose": -1, "num_threads": 1}
    >>> booster = lgb.train(params, lgb.Dataset(data.X, data.labels, group=data.group), 4)
    >>> report = lp.analysis.local_optimality(booster, *data, "ndcg", directions=20, progress=False)
    >>> report.directions, report.optimum == (report.improving == 0)
    (20, True)
    """
    forward = np.sort(np.asarray(steps, dtype=np.float64).ravel())  # near ones first: each ranking starts from the last
    integer(directions, "directions")
    if not forward.size or not (np.isfinite(forward).all() and forward[0] > 0):
        raise LambdaplugError(f"steps: expected numbers above 0, as shares of the norm of the weights; got {steps!r}.")
    if rule not in ("significant", "strict") or not 0 < level < 1:
        raise LambdaplugError(
            f"expected rule='significant' or 'strict', and a level between 0 and 1; got {rule=}, {level=}."
        )
    (model, weights, read), X = weights_of(booster), sliceable(X)
    queries = Queries(labels, group, qid=qid, columns=columns)
    landscape = Landscape(weights, raw_scores(model, X), read(X), queries, measure)
    size, norm = len(weights), float(np.sqrt(np.square(weights).sum()))
    if norm == 0.0:
        raise LambdaplugError("local_optimality: all weights are 0, so steps have no scale: train the model first.")
    uphill, at = landscape.lambda_direction(), forward.tolist()
    with progress_bar(directions, f"{landscape.measure}: local optimality", progress) as tick:

        def random() -> Iterator[Array]:
            for number in range(directions):
                yield norm * unit_direction(size, number, seed)
                tick(1)

        trial = landscape.along(random(), at)
    guided = landscape.along([norm * uphill] if uphill.any() else [], at)
    best, step = np.unravel_index(int(trial.change.argmax()), trial.change.shape)
    return Optimality(
        measure=str(landscape.measure),
        value=trial.value,
        weights=size,
        norm=norm,
        directions=directions,
        trial=trial,
        steps=forward,
        best_improvement=float(trial.change[best, step]),
        best_step=at[step],
        best_direction=unit_direction(size, int(best), seed),
        guided=guided,
        rule=rule,
        level=level,
    )
