"""What one goal costs in another: the same training for a row of preferences, and the front of what it reaches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from .. import plotting
from ..checking import import_pandas, integer, progress_bar
from ..columns import attach
from ..errors import LambdaplugError
from ..evaluation import Metric, mean, per_query_values
from ..measures import Measure
from ..objectives import Objective
from ..objectives.base import require_objective
from ..queries import Array, Queries
from ..reports import Report
from .base import host_named, raw_scores
from .rankers import add_up

__all__ = ["Front", "front"]

Measures: TypeAlias = str | Measure | Metric | Sequence[str | Measure | Metric]
Columns: TypeAlias = Mapping[str, npt.ArrayLike] | None


@dataclass(frozen=True, repr=False, eq=False)
class Front(Report):
    """What each preference reaches, one point per preference. See :func:`lambdaplug.front`.

    Attributes
    ----------
    measures : tuple of str
        What was measured.
    preferences : tuple
        What was asked for.
    boosters : tuple
        The hosts' own, one per preference.
    per_query : array
        [point, measure, query]; NaN where a measure is undefined.
    level : float
        Of the intervals.
    """

    measures: tuple[str, ...]
    preferences: tuple[Any, ...]
    boosters: tuple[Any, ...]
    per_query: Array
    level: float = 0.95

    @property
    def values(self) -> Array:
        """The mean over queries, [point, measure]."""
        return np.array([[mean(values) for values in point] for point in self.per_query])

    @property
    def intervals(self) -> Array:
        """The ends of the mean's confidence interval over queries (Student's t), [point, measure, end]."""
        from scipy.special import stdtrit

        count = np.count_nonzero(~np.isnan(self.per_query), axis=2)
        centre = self.values
        off = np.nansum((self.per_query - centre[..., None]) ** 2, axis=2)
        with np.errstate(invalid="ignore", divide="ignore"):
            half = stdtrit(count - 1.0, 0.5 + self.level / 2) * np.sqrt(off / (count - 1.0) / count)
        return np.stack([centre - half, centre + half], axis=2)

    @property
    def dominated(self) -> npt.NDArray[np.bool_]:
        """Which points are no better than another by any measure, and worse by one."""
        values = self.values
        as_good = (values[:, None] >= values[None]).all(axis=2)  # [i, j]: i is nowhere worse than j
        return np.asarray((as_good & ~as_good.T).any(axis=0))

    @property
    def knee(self) -> int:
        """The point of the front that is furthest beyond the line (the plane) through its ends.

        That is the largest sum of the measures, each on a scale on which the front reaches from 0 to 1.
        """
        values = self.values
        best = values[~self.dominated]
        low, span = best.min(axis=0), np.ptp(best, axis=0)
        scaled = ((values - low) / np.where(span > 0.0, span, 1.0)).sum(axis=1)
        return int(np.argmax(np.where(self.dominated, -np.inf, scaled)))

    def hypervolume(self, reference: Sequence[float]) -> float:
        """How much lies between the points and a reference that is worse: the volume of the union of their boxes.

        ``reference`` has one value per measure, in their order. Points not beyond it in all measures add
        nothing. Two fronts are compared with the same reference.
        """
        if len(reference) != len(self.measures):
            raise LambdaplugError(f"reference: expected one value per measure {self.measures}, got {reference!r}.")
        return _volume(self.values - np.asarray(reference, dtype=np.float64))

    def index(self, measure: str | Measure, floor: Mapping[str, float] | None = None) -> int:
        """The point that has most of this measure among those whose other measures are at least at their floors."""
        values = self.values
        floors = {self._column(name): least for name, least in (floor or {}).items()}
        allowed = np.logical_and.reduce([np.ones(len(values), bool), *(values[:, k] >= f for k, f in floors.items())])
        if not allowed.any():
            most = {self.measures[k]: round(float(values[:, k].max()), 4) for k in floors}
            raise LambdaplugError(f"choose: no point is at or above the floor {floor!r}; the most there is: {most!r}.")
        return int(np.argmax(np.where(allowed, values[:, self._column(measure)], -np.inf)))

    def choose(self, measure: str | Measure, floor: Mapping[str, float] | None = None) -> Any:
        """The Booster that gives most of one measure while others stay at or above their floors.

        By the means on the validation data: as it is the best of several there, test it on other data.
        """
        return self.boosters[self.index(measure, floor)]

    def frame(self) -> Any:
        """A pandas DataFrame, one row per preference: measures, ends of their intervals, dominated, knee."""
        columns: dict[str, Any] = {"preference": list(self.preferences)}
        for k, name in enumerate(self.measures):
            low, high = self.intervals[:, k].T
            columns |= {name: self.values[:, k], f"{name} low": low, f"{name} high": high}
        knee = np.arange(len(self.preferences)) == self.knee
        return import_pandas().DataFrame({**columns, "dominated": self.dominated, "knee": knee})

    def plot(self, ax: Any = None, label: str | None = None, color: Any = None) -> Any:
        """The first two measures with their intervals: dominated points hollow, the knee a star; returns Matplotlib's axes."""
        if len(self.measures) < 2:
            raise LambdaplugError(f"plot: expected a front of at least two measures, got {list(self.measures)}.")
        (x, y), hollow = self.values[:, :2].T, self.dominated
        order = np.flatnonzero(~hollow)[np.argsort(x[~hollow], kind="stable")]
        half = np.abs(self.intervals[:, :2, 1] - self.values[:, :2]).T
        said = "" if label is None else f"{label}, "
        with plotting.drawing(ax) as ax:
            own = ax.plot(x[order], y[order], "o-", label=label or "front", color=color)[0].get_color()
            ax.errorbar(x, y, xerr=half[0], yerr=half[1], fmt="none", ecolor=own, alpha=0.25)
            if hollow.any():
                ax.plot(x[hollow], y[hollow], "o", mfc="white", color=own, label=f"{said}dominated", zorder=3)
            knee = {"ms": 15, "color": own, "mec": "black", "label": f"{said}knee", "zorder": 4}
            ax.plot(x[[self.knee]], y[[self.knee]], "*", **knee)
            ax.set(xlabel=self.measures[0], ylabel=self.measures[1])
            ax.set_title(f"What one measure costs in the other, with {self.level:.0%} intervals over queries")
            plotting.legend(ax)
        return ax

    def _cells(self) -> list[list[str]]:
        cells = [["preference", *self.measures, ""]]
        for k, (preference, point) in enumerate(zip(self.preferences, self.values, strict=True)):
            mark = "dominated" if self.dominated[k] else "knee" if k == self.knee else ""
            ends = [f"{x:.4f} ± {high - x:.4f}" for x, high in zip(point, self.intervals[k, :, 1], strict=True)]
            cells.append([str(preference), *ends, mark])
        return cells

    def _column(self, measure: str | Measure) -> int:
        if str(measure) not in self.measures:
            raise LambdaplugError(f"expected one of the front's measures {list(self.measures)}, got {str(measure)!r}.")
        return self.measures.index(str(measure))


def _volume(points: Array) -> float:
    """Of the union of the boxes from 0 to each point, slice by slice along the last axis."""
    beyond = points[(points > 0.0).all(axis=1)]
    if not len(beyond):
        return 0.0
    if beyond.shape[1] == 1:
        return float(beyond.max())
    beyond = beyond[np.argsort(-beyond[:, -1], kind="stable")]
    heights = beyond[:, -1] - np.append(beyond[1:, -1], 0.0)
    return float(sum(h * _volume(beyond[: k + 1, :-1]) for k, h in enumerate(heights.tolist()) if h > 0.0))


def front(
    make_objective: Callable[[Any], Objective],
    preferences: Sequence[Any],
    train: Any,
    valid: Any,
    measures: Measures,
    host: str = "lightgbm",
    params: Mapping[str, Any] | None = None,
    rounds: int = 100,
    *,
    columns: Columns = None,
    valid_columns: Columns = None,
    level: float = 0.95,
    progress: bool = True,
) -> Front:
    """Train for each of a row of preferences, one after the other: what does a point of one measure cost in another?

    Parameters
    ----------
    make_objective : callable
        From a preference to the objective to train: ``lambda r: lp.Pareto([a, b], preference=r)``, or for a linear sweep
        ``lambda w: lp.Mixture([(1 - w, a), (w, b)])``.
    preferences : sequence
        What it is called with.
    train, valid : RankingData or (X, labels, group)
        Points are measured on ``valid``.
    measures : str, Measure, Metric or a sequence of them
        Of which higher is better.
    host : str
        ``"lightgbm"`` or ``"xgboost"``.
    params : mapping, optional
        The host's parameters.
    rounds : int
        How many trees each model has.
    columns, valid_columns : mapping, optional
        What objectives and measures need besides labels, by name, as ``lp.attach`` takes it: of the training rows, and of the
        others.
    level : float
        Of the confidence intervals over queries.
    progress : bool
        Whether to show a progress bar.

    Returns
    -------
    Front
        With ``.values``, ``.intervals``, ``.dominated``, ``.knee``, ``.frame()``, ``.plot()``, ``.hypervolume(reference)``,
        ``.choose(measure, floor={...})`` and the ``.boosters``; it prints.

    Examples
    --------
    >>> import lambdaplug as lp
    >>> data, valid = lp.data.cubic(queries=40, documents=8, features=5).split(0.5, 0.5)
    >>> parts = [lp.LambdaRank("ndcg"), lp.LambdaRank("mrr(relevant=3)")]
    >>> found = lp.front(
    ...     lambda r: lp.Pareto(parts, preference=r),
    ...     [[0.9, 0.1], [0.5, 0.5], [0.1, 0.9]],
    ...     data,
    ...     valid,
    ...     ["ndcg", "mrr(relevant=3)"],
    ...     rounds=5,
    ...     progress=False,
    ... )
    >>> found.measures, found.values.shape
    (('ndcg', 'mrr(relevant=3)'), (3, 2))
    >>> model = found.choose("ndcg", floor={"mrr(relevant=3)": 0.1})
    """
    if not 0.0 < level < 1.0:
        raise LambdaplugError(f"level: expected a number between 0 and 1, such as 0.95; got {level!r}.")
    integer(rounds, "rounds")
    several = [measures] if isinstance(measures, (str, Measure, Metric)) else list(measures)
    metric = add_up([one if isinstance(one, Metric) else Metric.of([one]) for one in several])
    row = tuple(preferences)
    if not row or metric is None or any(part.weighted for part in metric.parts):
        raise LambdaplugError("preferences, measures: expected at least one of each, measures without weight=.")
    objectives = [make_objective(preference) for preference in row]
    for preference, objective in zip(row, objectives, strict=True):
        require_objective(objective, f"front: make_objective({preference!r}): ")
    (X, y, group), (X_valid, labels_valid, group_valid) = train, valid
    queries = Queries(labels_valid, group_valid, columns=valid_columns)
    own = host_named(host)
    boosters, values = [], []
    with progress_bar(len(row), "front", progress) as tick:
        for objective in objectives:
            watched = list(dict.fromkeys(watcher.metric for watcher in objective.watchers))  # by schedules
            told = Metric.of(watched) if watched else None
            data = attach(own.data(X, y, group, None), **(columns or {}))
            further = (
                attach(own.data(X_valid, labels_valid, group_valid, data), **(valid_columns or {})) if told else None
            )
            boosters.append(own.train(objective, data, further, told, params or {}, rounds))
            values.append(per_query_values(metric.parts, queries, raw_scores(boosters[-1], X_valid, -1)))
            tick(1)
    return Front(tuple(metric.names), row, tuple(boosters), np.array(values), level)
