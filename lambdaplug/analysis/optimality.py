"""Is a model a local optimum of a measure? A Monte Carlo certificate (Donmez, Svore, Burges 2009, section 5)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from .. import plotting
from ..checking import integer, progress_bar
from ..errors import LambdaplugError
from ..hosts.base import raw_scores, sliceable, weights_of
from ..kernels import get_num_threads, rank_kernel, value_kernel
from ..measures import Measure, as_measure
from ..objectives import LambdaRank
from ..queries import Array, Queries, refuse_score
from ..rows import row_order
from ..tables import Report
from .curves import Curves

__all__ = ["Landscape", "Optimality", "Trial", "local_optimality", "unit", "unit_direction"]

Rule: TypeAlias = Literal["significant", "strict"]

STEPS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)  # times the norm of all weights
TOLERANCE = 1e-12  # the same values summed in another order are no improvement
BLOCK = 32  # directions at a time
SHOWN = 4  # of them in the curves


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
    table, and every step along it one ranking. No result depends on the number of threads.

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
    threads : int, optional
        Default all cores.

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

    def __init__(
        self,
        weights: Array,
        scores: Array,
        table: Any,
        queries: Queries,
        measure: str | Measure,
        threads: int | None = None,
    ) -> None:
        if table.shape[0] != len(queries.labels):
            raise LambdaplugError(f"X: expected one row per label ({len(queries.labels)}), got {table.shape[0]}.")
        self.weights, self.table, self.queries = weights, table, queries
        self.scores = np.ascontiguousarray(scores, dtype=np.float64)
        self.measure, self.threads = as_measure(measure), get_num_threads(threads)
        self._prepared = self.measure.prepared_for(queries)
        self._defined = int(np.count_nonzero(self._prepared.norm))
        if not self._defined:
            raise LambdaplugError(
                f"{self.measure} is undefined for every query ({self.measure.undefined}): nothing to measure."
            )

    def value(self, moved: Array | None = None) -> float:
        """The measure, with ``moved`` added to the weights."""
        return self.along(lambda _: self.weights, 0, [], moved).value

    def along(
        self,
        direction: Callable[[int], Array],
        count: int,
        steps: Sequence[float],
        moved: Array | None = None,
        tick: Callable[[int], Any] = lambda _: None,
    ) -> Trial:
        """Try every step along each of so many directions, vectors by number, from the weights (plus ``moved``)."""
        start = self.scores if moved is None else self.scores + self.table @ moved
        ranking = row_order(self.queries.offsets)
        before = self._ruler()(start, ranking)
        sums, squares = np.zeros((2, count, len(steps)))
        for first in range(0, count, BLOCK):
            block = range(first, min(first + BLOCK, count))
            moves = self.table @ np.stack([direction(number) for number in block], axis=1)

            def tried(number: int, moves: Array = moves, first: int = first) -> None:
                measured, scores = self._ruler(), np.empty_like(start)
                move, order = np.ascontiguousarray(moves[:, number - first]), ranking.copy()
                for index, step in enumerate(steps):
                    np.multiply(move, step, out=scores)
                    np.add(scores, start, out=scores)
                    change = measured(scores, order) - before
                    sums[number, index], squares[number, index] = change.sum(), np.square(change).sum()

            with ThreadPoolExecutor(self.threads) as pool:
                list(pool.map(tried, block))
            tick(len(block) * len(steps))
        n = self._defined
        variance = np.maximum(squares - sums**2 / n, 0.0) / max(n - 1, 1)
        error = np.sqrt(variance / n) if n > 1 else np.full_like(sums, np.inf)
        return Trial(float(before.sum()) / n, n, sums / n, error)

    def lambda_direction(self, moved: Array | None = None) -> Array:
        """Each weight's Newton step under the lambda forces of the measure, damped where a weight has little curvature.

        Of unit length, or 0 where there is no force.
        """
        scores = self.scores if moved is None else self.scores + self.table @ moved
        gradient, hessian = LambdaRank(self.measure).differentiate(self.queries, scores, threads=self.threads)
        damped = self.table.power(2).T @ hessian.astype(np.float64)
        damped += damped.mean()
        return unit(
            np.divide(
                -(self.table.T @ gradient.astype(np.float64)), damped, out=np.zeros_like(damped), where=damped > 0.0
            )
        )

    def _ruler(self) -> Callable[[Array, npt.NDArray[np.int32]], Array]:
        """From scores and a ranking to one value per query; the ranking becomes that of the scores. One per thread."""
        queries, prepared, longest = self.queries, self._prepared, self.queries.longest
        rank, value = rank_kernel(), value_kernel(self.measure.value)
        buffers, ranked = (np.empty((2, longest)), np.empty((2, longest), np.int32)), np.empty(longest)

        def measured(scores: Array, order: npt.NDArray[np.int32]) -> Array:
            row = rank(scores, queries.offsets, 0, len(queries), order, *buffers)
            if row >= 0:
                refuse_score(scores, row)
            out = np.zeros(len(queries))
            lists = queries.offsets, 0, len(queries), order
            self.measure.run(value, prepared.gain, prepared.discount, prepared.k, lists, ranked, out)
            return np.where(prepared.norm == 0.0, 0.0, out * prepared.norm)

        return measured


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
    share, rule, level : float, str and float
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
    share: float
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
        """Of the verdict. An optimum: that fewer than ``share`` of all directions improve. None: that one really does.

        An improvement beyond the significance level holds with confidence 1 - level for queries like these; under the
        strict rule it is a fact about these queries.
        """
        if self.optimum:
            return 1.0 - (1.0 - self.share) ** self.directions
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
        if self.share_bound > 1.01 * self.share:
            needed = math.ceil(math.log(self.level) / math.log1p(-self.share))
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
        curves = self.curves
        x = curves.iterations
        with plotting.drawing(ax) as ax:
            ax.fill_between(x, curves["lowest"], curves["highest"], color="0.85", label="all")
            for name in list(curves)[: min(SHOWN, self.directions)]:
                ax.plot(x, curves[name], ".-", label=name)
            ax.axhline(self.value, color="0.4", linestyle=":", linewidth=1, label="the model's value")
            ax.set_xscale("symlog", linthresh=float(self.steps.min()))
            ax.set(xlabel="step / norm of the weights", ylabel=self.measure)
            ax.set_title(f"{self.measure} {self.value:.4f}:\n{self._verdict}")
            plotting.legend(ax)
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
    share: float = 0.01,
    threads: int | None = None,
) -> Optimality:
    """Whether a boosted model is a local optimum of a measure over these rows.

    The weights w are all leaf values, or those of a linear model. Each of so many random unit vectors u is tried:
    M(w + eta u), eta being ``steps`` times the norm of w, M the mean over the queries where the measure is defined. If none
    improves M, then with confidence 1 - (1 - share)^directions fewer than a share of all directions do: 0.99 for 459
    directions and 1 %.

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
    share : float
        Of all directions, in the statement above.
    threads : int, optional
        Default all cores.

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
    if not 0 < share < 1 or not 0 < level < 1:
        raise LambdaplugError(f"share and level: expected numbers between 0 and 1, got {share!r} and {level!r}.")
    if rule not in ("significant", "strict"):
        raise LambdaplugError(f"rule: expected 'significant' or 'strict', got {rule!r}.")
    (model, weights, read), X, queries = (
        weights_of(booster),
        sliceable(X),
        Queries(labels, group, qid=qid, columns=columns),
    )
    landscape = Landscape(weights, raw_scores(model, X), read(X), queries, measure, threads)
    size, norm = len(weights), float(np.sqrt(np.square(weights).sum()))
    if norm == 0.0:
        raise LambdaplugError("local_optimality: all weights are 0, so steps have no scale: train the model first.")
    uphill = landscape.lambda_direction()

    def random(number: int) -> Array:
        return norm * unit_direction(size, number, seed)

    with progress_bar((directions + 1) * len(forward), f"{landscape.measure}: local optimality", progress) as tick:
        trial = landscape.along(random, directions, forward.tolist(), tick=tick)
        guided = landscape.along(lambda _: norm * uphill, int(uphill.any()), forward.tolist(), tick=tick)
    best, at = np.unravel_index(int(trial.change.argmax()), trial.change.shape)
    found = trial.change[best, at], forward[at], unit_direction(size, int(best), seed)
    which = str(landscape.measure), trial.value, size, norm, directions
    return Optimality(*which, trial, forward, *found, guided, share, rule, level)
