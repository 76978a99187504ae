"""What one goal costs in another: the same training for a row of preferences, and the front of what it reaches."""

import concurrent.futures
import contextlib
import functools
import hashlib
import multiprocessing
import operator
import os
import pickle
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from .. import plotting
from ..checking import integer, progress_bar
from ..errors import LambdaplugError
from ..evaluation import Metric, import_pandas, mean
from ..measures import Measure
from ..objectives import Objective
from ..objectives.base import require_objective
from ..queries import Array, Queries
from ..tables import Report
from ..version import __version__
from .fitting import Part, fitted, loaded, require_host
from .leaves import raw_scores

__all__ = ["Front", "front"]

Measures: TypeAlias = str | Measure | Metric | Sequence[str | Measure | Metric]
ENDINGS = {"lightgbm": ".txt", "xgboost": ".json"}  # of a saved model


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
    boosters: tuple[Any, ...]  #: the hosts' own, one per preference
    per_query: Array  #: [point, measure, query]; NaN where a measure is undefined
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
        return _dominated(self.values)

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

    def hypervolume(self, reference: Mapping[str, float] | Sequence[float]) -> float:
        """How much lies between the points and a reference that is worse: the volume of the union of their boxes.

        ``reference`` has one value per measure, by name or in their order. Points not beyond it in all measures add
        nothing. Two fronts are compared with the same reference.
        """
        return _volume(self.values - self._reference(reference))

    def hypervolume_interval(
        self, reference: Mapping[str, float] | Sequence[float], draws: int = 500, seed: int = 0
    ) -> tuple[float, float]:
        """The hypervolume's confidence interval: quantiles over so many draws of the queries with replacement."""
        worst = self._reference(reference)
        rng, queries = np.random.default_rng(seed), self.per_query.shape[2]
        found = []
        for _ in range(integer(draws, "draws")):
            drawn = self.per_query[:, :, rng.integers(0, queries, queries)]
            count = np.maximum(np.count_nonzero(~np.isnan(drawn), axis=2), 1)
            found.append(_volume(np.nansum(drawn, axis=2) / count - worst))
        low, high = np.quantile(found, [0.5 - self.level / 2, 0.5 + self.level / 2]).tolist()
        return low, high

    def index(self, measure: str | Measure, floor: Mapping[str, float] | None = None) -> int:
        """The point that has most of this measure among those whose other measures are at least at their floors."""
        values, wanted = self.values, self._column(measure)
        allowed = np.ones(len(values), dtype=bool)
        for name, least in (floor or {}).items():
            allowed &= values[:, self._column(name)] >= least
        if not allowed.any():
            most = {name: round(float(values[:, self._column(name)].max()), 4) for name in floor or {}}
            raise LambdaplugError(
                f"choose: no point is at or above the floor {dict(floor or {})!r}; the most that points reach, each by "
                f"itself, is {most!r}. Lower the floor, or add preferences."
            )
        return int(np.argmax(np.where(allowed, values[:, wanted], -np.inf)))

    def choose(self, measure: str | Measure, floor: Mapping[str, float] | None = None) -> Any:
        """The Booster that gives most of one measure while others stay at or above their floors.

        By the means on the validation data: as it is the best of several there, test it on other data.
        """
        return self.boosters[self.index(measure, floor)]

    def frame(self) -> Any:
        """A pandas DataFrame, one row per preference: measures, ends of their intervals, dominated, knee."""
        columns: dict[str, Any] = {"preference": list(self.preferences)}
        intervals = self.intervals
        for k, name in enumerate(self.measures):
            columns |= {name: self.values[:, k], f"{name} low": intervals[:, k, 0], f"{name} high": intervals[:, k, 1]}
        knee = np.arange(len(self.preferences)) == self.knee
        return import_pandas().DataFrame({**columns, "dominated": self.dominated, "knee": knee})

    def plot(self, ax: Any = None, label: str | None = None, color: Any = None) -> Any:
        """The first two measures with their intervals: dominated points hollow, the knee a star; returns Matplotlib's axes."""
        if len(self.measures) < 2:
            raise LambdaplugError(f"plot: expected a front of at least two measures, got {list(self.measures)}.")
        (x, y), hollow = self.values[:, :2].T, self.dominated
        order = np.flatnonzero(~hollow)[np.argsort(x[~hollow], kind="stable")]
        errors = [np.abs(self.intervals[:, k].T - self.values[:, k]) for k in (0, 1)]
        names = ["front", "dominated", "knee"] if label is None else [label, f"{label}, dominated", f"{label}, knee"]
        with plotting.drawing(ax) as ax:
            (drawn,) = ax.plot(x[order], y[order], "o-", label=names[0], color=color)
            own = drawn.get_color()
            ax.errorbar(x, y, xerr=errors[0], yerr=errors[1], fmt="none", ecolor=own, alpha=0.25)
            if hollow.any():
                ax.plot(x[hollow], y[hollow], "o", mfc="white", color=own, label=names[1], zorder=3)
            ax.plot(x[[self.knee]], y[[self.knee]], "*", ms=15, color=own, mec="black", label=names[2], zorder=4)
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

    def _reference(self, reference: Mapping[str, float] | Sequence[float]) -> Array:
        if isinstance(reference, Mapping):
            named = {self._column(name): value for name, value in reference.items()}
            reference = [named[k] for k in sorted(named)]
        if len(reference) != len(self.measures):
            raise LambdaplugError(
                f"reference: expected one value per measure {list(self.measures)}, got {len(reference)} values."
            )
        return np.asarray(reference, dtype=np.float64)


def _dominated(values: Array) -> npt.NDArray[np.bool_]:
    as_good = (values[:, None] >= values[None]).all(axis=2)  # [i, j]: i is nowhere worse than j
    found: npt.NDArray[np.bool_] = (as_good & ~as_good.T).any(axis=0)
    return found


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
    train: Part,
    valid: Part,
    measures: Measures,
    host: str = "lightgbm",
    params: Mapping[str, Any] | None = None,
    rounds: int = 100,
    *,
    folder: str | os.PathLike[str] | None = None,
    jobs: int = 1,
    level: float = 0.95,
    progress: bool = True,
) -> Front:
    """Train for each of a row of preferences: what does a point of one measure cost in another?

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
        Of which higher is better. By other labels than the data set's: ``lp.metric("cndcg", labels=valid_clicks)``.
    host : str
        ``"lightgbm"`` or ``"xgboost"``.
    params : mapping, optional
        The host's parameters.
    rounds : int
        How many trees each model has.
    folder : path, optional
        Where each model is saved as soon as it is trained. A second call with the same data, objectives, parameters and
        rounds loads what is there, and trains the rest.
    jobs : int
        How many models are trained at a time, each in a process of its own that gets the data once. Give each its share of
        the cores (``num_threads`` or ``nthread`` in ``params``). The processes import the script anew: what it does stands
        under ``if __name__ == "__main__":``, and functions of your own in a module. The models are the same.
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
    >>> new, valid_new = data.X[:, 0] > 0, valid.X[:, 0] > 0
    >>> parts = [lp.LambdaRank("ndcg"), lp.LambdaRank("map", labels=new)]
    >>> found = lp.front(
    ...     lambda r: lp.Pareto(parts, preference=r),
    ...     [[0.9, 0.1], [0.5, 0.5], [0.1, 0.9]],
    ...     data,
    ...     valid,
    ...     ["ndcg", lp.metric("map", labels=valid_new)],
    ...     rounds=5,
    ...     progress=False,
    ... )
    >>> found.measures, found.values.shape
    (('ndcg', 'map'), (3, 2))
    >>> model = found.choose("ndcg", floor={"map": 0.5})
    """
    require_host(host)
    if not 0.0 < level < 1.0:
        raise LambdaplugError(f"level: expected a number between 0 and 1, such as 0.95; got {level!r}.")
    integer(rounds, "rounds")
    integer(jobs, "jobs")
    metric, row, own = _metric(measures), tuple(preferences), dict(params or {})
    objectives = _objectives(make_objective, row)
    X_valid, labels_valid, group_valid = valid
    queries = Queries(labels_valid, group_valid)
    boosters, values = [], []
    with contextlib.ExitStack() as stack:
        tick = stack.enter_context(progress_bar(len(row), "front", progress))
        if jobs > 1:
            folder = stack.enter_context(tempfile.TemporaryDirectory()) if folder is None else folder
        given = tuple(train), tuple(valid), host, own, rounds, folder
        if jobs > 1:
            _train_apart(objectives, given, jobs, tick)
        for objective in objectives:
            booster = _trained(objective, *given)
            values.append(metric.per_query(queries, raw_scores(booster, X_valid)))
            boosters.append(booster)
            tick(int(jobs == 1))
    return Front(tuple(metric.names), row, tuple(boosters), np.array(values), level)


def _objectives(make_objective: Callable[[Any], Objective], preferences: tuple[Any, ...]) -> list[Objective]:
    if not preferences:
        raise LambdaplugError("preferences: expected at least one, got none.")
    found = [make_objective(preference) for preference in preferences]
    for preference, objective in zip(preferences, found, strict=True):
        require_objective(objective, f"front: make_objective({preference!r}): ")
    return found


def _train_apart(objectives: list[Objective], given: tuple[Any, ...], jobs: int, tick: Callable[[int], Any]) -> None:
    """Train in processes of their own, which save what they have trained."""
    host, folder = given[2], given[-1]
    for objective in objectives:
        _path(folder, host, (objective, *given[:-1]))  # says what cannot be sent
    context = multiprocessing.get_context("spawn")  # after a fork, OpenMP hangs
    with concurrent.futures.ProcessPoolExecutor(jobs, context, _receive, (given,)) as pool:
        for done in concurrent.futures.as_completed([pool.submit(_train_one, objective) for objective in objectives]):
            done.result()
            tick(1)


_GIVEN: list[Any] = []  # in such a process: what all its trainings share


def _receive(given: tuple[Any, ...]) -> None:
    _GIVEN.extend(given)


def _train_one(objective: Objective) -> None:
    _trained(objective, *_GIVEN)


def _trained(
    objective: Objective,
    train: Part,
    valid: Part | None,
    host: str,
    params: dict[str, Any],
    rounds: int,
    folder: str | os.PathLike[str] | None,
) -> Any:
    """The Booster; with a folder the one that is there, or saved there."""
    watched = list(dict.fromkeys(watcher.metric for watcher in objective.watchers))
    valid, metric = (valid, Metric(watched)) if watched else (None, None)
    if folder is None:
        return fitted(host, objective, train, valid, params, rounds, metric)
    path = _path(folder, host, (objective, train, valid, host, params, rounds))
    if path.exists():
        return loaded(host, path)
    booster = fitted(host, objective, train, valid, params, rounds, metric)
    beside = path.with_name(f"{path.stem}.{os.getpid()}{path.suffix}")
    booster.save_model(str(beside))
    beside.replace(path)  # a whole file or none
    return booster


def _metric(measures: Measures) -> Metric:
    several = [measures] if isinstance(measures, (str, Measure, Metric)) else list(measures)
    if not several:
        raise LambdaplugError("measures: expected at least one, got none.")
    found = functools.reduce(operator.add, (one if isinstance(one, Metric) else Metric([one]) for one in several))
    if any(part.weighted for part in found.parts):
        raise LambdaplugError("measures: points of a front are unweighted means; leave out weight= of lp.metric.")
    return found


def _path(folder: str | os.PathLike[str], host: str, made_of: tuple[Any, ...]) -> Path:
    """The file of a model, named by all that it is made of."""
    try:
        content = pickle.dumps((__version__, made_of))
    except Exception as error:  # whatever a user's own class raises
        raise LambdaplugError(
            f"folder, jobs: a model is known again by its objective, data and parameters, and one of them cannot be pickled "
            f"({error}). Use functions of a module in place of lambdas, or leave out folder= and jobs=."
        ) from None
    Path(folder).mkdir(parents=True, exist_ok=True)
    return Path(folder) / (hashlib.blake2b(content, digest_size=16).hexdigest() + ENDINGS[host])
