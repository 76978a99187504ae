"""Compare rankings query by query: ``compare`` two or more systems, ``leaderboard`` for the table papers print."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, overload

import numpy as np
import numpy.typing as npt

from . import plotting
from .checking import integer, refuse_swapped
from .data import RankingData
from .errors import LambdaplugError
from .evaluation import Convention, Empty, Rules, Ties, import_pandas, mean, per_query_values
from .measures import Measure, as_measure, as_measures
from .queries import Array, Queries
from .tables import Report, Row, markdown_table, text_cells
from .training import scores_of

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["Comparison", "Comparisons", "Leaderboard", "compare", "leaderboard"]

Test = Literal["t", "randomization"]
Systems: TypeAlias = Mapping[str, Any]  # scores, or models

EXACT_QUERIES = 16  # up to so many differing queries every sign pattern is tried
DRAWS_AT_ONCE = 1 << 22  # bytes of random signs


@dataclass(frozen=True, repr=False)
class Comparison(Report):
    """System b against system a, over the queries where the measure is defined.

    ``difference`` is mean_b - mean_a, ``interval`` its confidence interval (Student's t), ``wins``, ``ties`` and
    ``losses`` the queries where b is better than a, equal, worse. The p-values are two-sided; ``p_t_holm`` and
    ``p_randomization_holm`` are corrected for the number of systems compared at once.
    """

    measure: str
    names: tuple[str, str]
    mean_a: float
    mean_b: float
    difference: float
    interval: tuple[float, float]
    p_t: float
    p_randomization: float
    wins: int
    ties: int
    losses: int
    undefined: int = 0
    level: float = 0.95
    p_t_holm: float = float("nan")
    p_randomization_holm: float = float("nan")

    @property
    def queries(self) -> int:
        return self.wins + self.ties + self.losses

    def _before(self) -> list[str]:
        return [_over(self)]

    def _cells(self) -> list[list[str]]:
        a, b = self.names
        low, high = self.interval
        return [
            ["", self.measure],
            [a, f" {self.mean_a:.4f}"],
            [b, f" {self.mean_b:.4f}"],
            [f"{b} - {a}", f"{self.difference:+.4f}  ({100 * self.level:g} % interval {low:+.4f} to {high:+.4f})"],
            ["p-value", f" {_p(self.p_t)} (paired t-test), {_p(self.p_randomization)} (randomisation)"],
            ["queries", f" {b} wins {self.wins}, ties {self.ties}, loses {self.losses}"],
        ]

    def __str__(self) -> str:
        rows = self._cells()[1:]
        width = max(len(name) for name, _ in rows)
        return "\n".join([*self._before(), *(f"  {name:<{width}}  {text}" for name, text in rows)])

    def plot(self, ax: Any = None) -> Any:
        """The difference with its interval; returns Matplotlib's axes."""
        return _plot_differences([self], ax)


class Comparisons(Report, dict[str, Comparison]):
    """Several systems against one baseline, by name; their ``_holm`` p-values are corrected for being several."""

    def _before(self) -> list[str]:
        return [f"{_over(next(iter(self.values())))}; p-values by Holm's correction"]

    def _cells(self) -> list[list[str]]:
        first = next(iter(self.values()))
        cells = [
            ["", "mean", "difference", f"{100 * first.level:g} % interval", "p (t)", "p (rand.)", "wins/ties/losses"]
        ]
        cells.append([f"{first.names[0]} (baseline)", f"{first.mean_a:.4f}", "", "", "", "", ""])
        for name, part in self.items():
            low, high = part.interval
            counts = f"{part.wins}/{part.ties}/{part.losses}"
            ends = f"{low:+.4f} to {high:+.4f}"
            holm = _p(part.p_t_holm), _p(part.p_randomization_holm)
            cells.append([name, f"{part.mean_b:.4f}", f"{part.difference:+.4f}", ends, *holm, counts])
        return cells

    def plot(self, ax: Any = None) -> Any:
        """Each system's difference from the baseline with its interval; returns Matplotlib's axes."""
        return _plot_differences(list(self.values()), ax)


def _over(part: Comparison) -> str:
    left_out = f" ({part.undefined} more where it is undefined)" if part.undefined else ""
    return f"{part.measure} over {part.queries} queries{left_out}"


def _plot_differences(parts: Sequence[Comparison], ax: Any) -> Any:
    """One row per comparison, the first on top."""
    first, places = parts[0], np.arange(len(parts))
    middle = np.array([part.difference for part in parts])
    ends = np.array([part.interval for part in parts]).T
    with plotting.drawing(ax, figsize=(8.0, 1.8 + 0.4 * len(parts))) as ax:
        ax.errorbar(middle, places, xerr=np.abs(ends - middle), fmt="o", capsize=4)
        ax.axvline(0.0, color="0.4", linestyle=":", linewidth=1)
        ax.set_yticks(places, [part.names[1] for part in parts])
        ax.set_ylim(len(parts) - 0.5, -0.5)
        ax.set(xlabel=f"difference in {first.measure} from {first.names[0]}", ylabel="system")
        ax.set_title(f"{first.measure} over {first.queries} queries, {100 * first.level:g} % intervals")
    return ax


def _p(value: float) -> str:
    return "< 0.0001" if value < 1e-4 else f"{value:.4f}"


class Options(Rules, total=False):
    """Options of :func:`compare`, for type checkers."""

    X: Any
    names: Sequence[str] | None
    level: float
    draws: int
    seed: int
    weight: npt.ArrayLike | None


@overload
def compare(
    measure: str | Measure,
    labels: npt.ArrayLike,
    scores_a: Any,
    scores_b: Systems,
    group: npt.ArrayLike | None = ...,
    **options: Unpack[Options],
) -> Comparisons: ...


@overload
def compare(
    measure: str | Measure,
    labels: npt.ArrayLike,
    scores_a: Any,
    scores_b: Any,
    group: npt.ArrayLike | None = ...,
    **options: Unpack[Options],
) -> Comparison: ...


def compare(
    measure: str | Measure,
    labels: npt.ArrayLike,
    scores_a: Any,
    scores_b: Any,
    group: npt.ArrayLike | None = None,
    *,
    qid: npt.ArrayLike | None = None,
    X: Any = None,
    names: Sequence[str] | None = None,
    empty: Empty = "skip",
    ties: Ties = "stable",
    convention: Convention | None = None,
    level: float = 0.95,
    draws: int = 10_000,
    seed: int = 0,
    weight: npt.ArrayLike | None = None,
    columns: Mapping[str, npt.ArrayLike] | None = None,
) -> Comparison | Comparisons:
    """System b against system a by one measure, query by query: is the difference more than chance?

    The paired t-test asks whether the mean of the per-query differences is 0, and gives the interval. The randomisation test
    asks how often random signs of these differences give a mean as large: every pattern of signs is tried where up to 16
    queries differ, else ``draws`` random ones, p = (1 + as large) / (1 + draws). Queries where the measure is undefined are
    left out.

    Parameters
    ----------
    measure : str or Measure
        By which systems are compared.
    labels : array-like
        One label per row.
    scores_a : array-like or model
        System a's, one per row: the baseline. Or a model: a Booster, or anything that has ``predict``.
    scores_b : array-like, model or mapping
        System b's; or several systems' by name, each compared with a, with Holm's correction, which keeps the chance of any
        false alarm among them.
    group : array-like
        The number of documents of each query, in order.
    qid : array-like, optional
        In place of ``group``: one query id per row, numbers or text, the rows of a query next to each other.
    X : array-like or data frame, optional
        The rows that models are to score.
    names : sequence of str, optional
        What is printed for a and b (of several systems, for the baseline).
    empty : 'skip', 0 or 1
        What a query counts where a measure is undefined (nothing relevant, no documents): left out, 0 as in trec_eval, or 1 as
        in LightGBM and XGBoost.
    ties : 'stable', 'worst', 'best' or 'expected'
        How equal scores stand: in row order, the lowest gains first, the highest first, or the exact mean over all orders.
    convention : 'letor', optional
        As :func:`lambdaplug.evaluate`.
    level : float
        Of the confidence interval.
    draws : int
        Random patterns of signs.
    seed : int
        Of these draws.
    weight : array-like, optional
        One number >= 0 per query: means are weighted; the t-test has the standard error of a weighted mean,
        sqrt(n/(n - 1) sum w^2 (d - mean)^2)/sum w, and the randomisation test turns the signs of w d.
    columns : mapping, optional
        As :func:`lambdaplug.evaluate`.

    Returns
    -------
    Comparison or Comparisons
        Of several systems a dict by name: ``compare(...)["my system"].p_t_holm``. It prints; ``.plot()`` shows the difference
        with its interval.

    References
    ----------
    M. Smucker, J. Allan, B. Carterette (2007), "A comparison of statistical significance tests for information retrieval
    evaluation", CIKM.

    Examples
    --------
    >>> print(compare("mrr", [1, 0, 0, 1, 1, 0], [1, 2, 2, 1, 1, 2], [2, 1, 1, 2, 1, 2], group=[2, 2, 2]))
    mrr over 3 queries
      a         0.5000
      b         0.8333
      b - a    +0.3333  (95 % interval -0.3838 to +1.0504)
      p-value   0.1835 (paired t-test), 0.5000 (randomisation)
      queries   b wins 2, ties 1, loses 0
    """
    if isinstance(measure, (list, tuple)):
        raise LambdaplugError(
            f"compare: expected one measure, got {len(measure)}. For several: lp.leaderboard({{'a': a, 'b': b}}, measures, labels, "
            "group, baseline='a'), which has the comparisons by measure."
        )
    kind = as_measure(measure)
    queries = Queries(labels, group, qid=qid, query_weight=weight, columns=columns)
    _check(level, draws)

    def values_of(system: Any) -> Array:
        scores = scores_of(system, X)
        refuse_swapped(queries.labels, scores, "compare")
        return per_query_values([kind], queries, scores, empty, ties=ties, convention=convention)[0]

    single = not isinstance(scores_b, Mapping)
    first, *second = names or (("a", "b") if single else ("baseline",))
    several: Systems = scores_b if isinstance(scores_b, Mapping) else dict(zip(second, [scores_b], strict=True))
    if not several:
        raise LambdaplugError("compare: expected at least one system to compare with the baseline, got none.")
    values_a, rules = values_of(scores_a), (level, draws, seed, queries.query_weight)
    parts = [compared(str(kind), (first, name), values_a, values_of(b), *rules) for name, b in several.items()]
    found = Comparisons(zip(several, _holm(parts), strict=True))
    return next(iter(found.values())) if single else found


def _check(level: float, draws: int) -> None:
    if not 0 < level < 1:
        raise LambdaplugError(f"level: expected a number between 0 and 1, such as 0.95; got {level!r}.")
    integer(draws, "draws")


def compared(
    measure: str,
    names: tuple[str, str],
    values_a: Array,
    values_b: Array,
    level: float,
    draws: int,
    seed: int,
    weight: Array | None = None,
) -> Comparison:
    """The comparison of two systems' values, one per query, NaN where the measure is undefined. 0 draws: no such test."""
    from scipy.special import stdtr, stdtrit

    weight = np.ones(len(values_a)) if weight is None else weight
    defined = ~(np.isnan(values_a) | np.isnan(values_b)) & (weight > 0.0)  # what weighs nothing is no query
    a, b, weight = values_a[defined], values_b[defined], weight[defined]
    weight = weight / weight.mean() if len(weight) else weight
    d = b - a
    # The same value summed in another order is no difference.
    d[np.abs(d) <= 1e-12 * np.maximum(1.0, np.maximum(np.abs(a), np.abs(b)))] = 0.0
    n, difference = len(d), mean(d, weight)
    p_t = half = float("nan")
    if n > 1:
        error = float(np.sum((weight * (d - difference)) ** 2) / (n - 1) / n) ** 0.5
        half = float(stdtrit(n - 1, 0.5 + level / 2)) * error
        if error > 1e-14 * abs(difference):
            p_t = float(2 * stdtr(n - 1, -abs(difference) / error))
        else:  # every query differs by the same
            p_t = 1.0 if difference == 0 else 0.0
    return Comparison(
        measure,
        names,
        mean(a, weight),
        mean(b, weight),
        difference,
        (difference - half, difference + half),
        p_t,
        _randomization((weight * d)[d != 0.0], draws, seed) if n and draws else float("nan"),
        int((d > 0).sum()),
        int((d == 0).sum()),
        int((d < 0).sum()),
        int((~defined).sum()),
        level,
    )


def _randomization(d: Array, draws: int, seed: int) -> float:
    """How often random signs give a sum of these differences as far from 0 as theirs."""
    bound = abs(float(d.sum())) - 1e-12 * float(np.abs(d).sum())  # as large but for rounding
    # A byte is a pattern of eight signs: look up the sum it gives to each eight differences.
    padded = np.zeros(-(-len(d) // 8) * 8)
    padded[: len(d)] = d
    patterns = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1) * 2.0 - 1.0
    sums = np.ascontiguousarray(patterns @ padded.reshape(-1, 8).T)  # pattern, eight
    if len(d) <= EXACT_QUERIES:
        every = np.zeros(1)
        for column in sums.T:
            every = np.add.outer(every, column).ravel()
        return float((np.abs(every) >= bound).mean())
    rng = np.random.default_rng(seed)
    eights = len(padded) // 8
    as_large = 0
    left = draws
    while left:
        rows = min(left, max(1, DRAWS_AT_ONCE // eights))
        signs = np.frombuffer(rng.bytes(rows * eights), dtype=np.uint8).reshape(rows, eights)
        as_large += int((np.abs(sums[signs, np.arange(eights)].sum(axis=1)) >= bound).sum())
        left -= rows
    return (1 + as_large) / (1 + draws)


def _holm(parts: Sequence[Comparison]) -> list[Comparison]:
    t = holm([part.p_t for part in parts])
    randomization = holm([part.p_randomization for part in parts])
    return [
        replace(part, p_t_holm=a, p_randomization_holm=b) for part, a, b in zip(parts, t, randomization, strict=True)
    ]


def holm(p_values: Sequence[float]) -> list[float]:
    """p-values corrected for being several: the i-th smallest of m times m - i + 1, never below a smaller one's.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    corrected = np.empty(len(p))
    corrected[order] = np.minimum(np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)), 1.0)
    return [float(value) for value in corrected]


# --- many systems, many measures ---------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Leaderboard(Report):
    """Means of systems (rows) by measures (columns), the best marked, and which differ significantly."""

    means: dict[str, dict[str, float]]  #: by measure, then by system
    comparisons: dict[str, dict[str, Comparison]]  #: by measure, then by system: against the baseline, or the best
    baseline: str | None
    test: Test
    level: float

    def p_value(self, measure: str, system: str) -> float:
        """After Holm's correction; NaN for the system that the others of this measure are compared with."""
        part = self.comparisons[measure].get(system)
        if part is None:
            return float("nan")
        return part.p_t_holm if self.test == "t" else part.p_randomization_holm

    def differs(self, measure: str, system: str) -> bool:
        """Whether this system differs significantly from the baseline, or from the column's best."""
        return self.p_value(measure, system) < 1 - self.level

    def is_best(self, measure: str, system: str) -> bool:
        return self.means[measure][system] == max(self.means[measure].values())

    @property
    def _systems(self) -> list[str]:
        return list(next(iter(self.means.values())))

    @property
    def _legend(self) -> str:
        kind = "paired t-test" if self.test == "t" else "paired randomisation test"
        against = f"from {self.baseline}" if self.baseline is not None else "from the best of its column"
        return f"† differs {against} ({kind}, Holm's correction over systems, {100 * self.level:g} %)"

    def _rows(self) -> list[Row]:
        return [
            ([s], [(self.means[m][s], self.is_best(m, s), self.differs(m, s)) for m in self.means])
            for s in self._systems
        ]

    def _cells(self) -> list[list[str]]:
        return text_cells([""], list(self.means), self._rows())

    def _after(self) -> list[str]:
        return [f"* best of its column; {self._legend}"]

    @property
    def text(self) -> str:
        """A table for the terminal: * the best of a column, † significantly different."""
        return str(self)

    def plot(self, ax: Any = None) -> Any:
        """For each measure, each system's difference from the baseline (or the best), with its interval.

        Filled: significant. Returns Matplotlib's axes.
        """
        systems = [name for name in self._systems if name != self.baseline]
        names, level = list(self.means), 100 * self.level
        with plotting.drawing(ax, figsize=(8.0, 2.0 + 0.25 * len(systems) * len(names))) as ax:
            for row, system in enumerate(systems):
                color = plotting.COLOURS[row % len(plotting.COLOURS)]
                found = [self.comparisons[name].get(system) for name in names]  # of the best, none: the line itself
                places = np.arange(len(names)) + 0.7 * ((row + 0.5) / len(systems) - 0.5)
                middle, *ends = np.array([(0.0,) * 3 if x is None else (x.difference, *x.interval) for x in found]).T
                sure = [color if x is None or self.differs(x.measure, system) else "white" for x in found]
                ax.errorbar(middle, places, xerr=np.abs(ends - middle), fmt="none", ecolor=color, capsize=3)
                ax.scatter(middle, places, color=sure, edgecolors=color, zorder=3)
                ax.scatter([], [], color=color, label=system)
            ax.axvline(0.0, color="0.4", linestyle=":", linewidth=1)
            ax.set_yticks(range(len(names)), names)
            ax.set_ylim(len(names) - 0.5, -0.5)
            against = self.baseline or "the best of each measure"
            ax.set(xlabel=f"difference from {against}", ylabel="measure")
            ax.set_title(f"{level:g} % intervals; filled: significant with Holm's correction")
            plotting.legend(ax)
        return ax

    def markdown(self) -> str:
        """A Markdown table: the best of a column in bold, † significantly different."""
        return markdown_table([""], list(self.means), self._rows(), self._legend)

    def frame(self, p_values: bool = False) -> Any:
        """The means as a pandas DataFrame, one row per system; with ``p_values`` those instead."""
        if not p_values:
            return import_pandas().DataFrame(self.means)
        values = {measure: {s: self.p_value(measure, s) for s in self._systems} for measure in self.means}
        return import_pandas().DataFrame(values)


def leaderboard(
    systems: Systems,
    measures: str | Measure | Sequence[str | Measure],
    labels: npt.ArrayLike | RankingData,
    group: npt.ArrayLike | None = None,
    *,
    qid: npt.ArrayLike | None = None,
    X: Any = None,
    baseline: str | None = None,
    test: Test = "t",
    level: float = 0.95,
    empty: Empty = "skip",
    ties: Ties = "stable",
    convention: Convention | None = None,
    draws: int = 10_000,
    seed: int = 0,
    weight: npt.ArrayLike | None = None,
    columns: Mapping[str, npt.ArrayLike] | None = None,
) -> Leaderboard:
    """Systems by measures, the table papers print, with the best marked and which differ significantly.

    Parameters
    ----------
    systems : mapping
        Scores by the system's name, one score per row; or models: Boosters, or anything that has ``predict``.
    measures : str, Measure or a sequence of them
        The columns.
    labels : array-like or RankingData
        One label per row; or all data, with the rows that models are to score.
    group : array-like
        The number of documents of each query, in order.
    qid : array-like, optional
        In place of ``group``: one query id per row, numbers or text, the rows of a query next to each other.
    X : array-like or data frame, optional
        The rows that models are to score.
    baseline : str, optional
        The system that the others are compared with; default each measure's best.
    test : 't' or 'randomization'
        The paired test, with Holm's correction over the systems of a column.
    level : float
        A difference is significant where p < 1 - level.
    empty : 'skip', 0 or 1
        What a query counts where a measure is undefined (nothing relevant, no documents): left out, 0 as in trec_eval, or 1 as
        in LightGBM and XGBoost.
    ties : 'stable', 'worst', 'best' or 'expected'
        How equal scores stand: in row order, the lowest gains first, the highest first, or the exact mean over all orders.
    convention : 'letor', optional
        As :func:`lambdaplug.evaluate`.
    draws, seed : int
        Of the randomisation test.
    weight : array-like, optional
        One number >= 0 per query, as :func:`compare`.
    columns : mapping, optional
        As :func:`lambdaplug.evaluate`.

    Returns
    -------
    Leaderboard
        It prints; ``.text``, ``.markdown()``, ``.frame()`` and ``.plot()`` show it.

    Examples
    --------
    >>> scores = {"old": [1, 2, 2, 1], "new": [2, 1, 2, 1]}
    >>> print(leaderboard(scores, ["mrr", "p@1"], [1, 0, 1, 0], [2, 2], baseline="old"))
            mrr       p@1
    old  0.7500    0.5000
    new  1.0000*   1.0000*
    * best of its column; † differs from old (paired t-test, Holm's correction over systems, 95 %)
    """
    if not isinstance(systems, Mapping):
        raise LambdaplugError(
            f"leaderboard: expected scores or models by name first, got {type(systems).__name__}. The call is "
            "lp.leaderboard({'old': scores, 'new': others}, measures, labels, group)."
        )
    kinds = as_measures(measures)
    if not systems or not kinds:
        raise LambdaplugError("leaderboard: expected at least one system and one measure.")
    if baseline is not None and baseline not in systems:
        raise LambdaplugError(f"leaderboard: no system {baseline!r}. There are: {', '.join(map(repr, systems))}.")
    if test not in ("t", "randomization"):
        raise LambdaplugError(f"leaderboard: test must be 't' or 'randomization', got {test!r}.")
    _check(level, draws)
    if isinstance(labels, RankingData):
        X, labels, group = labels
    queries = Queries(labels, group, qid=qid, query_weight=weight, columns=columns)
    own = queries.query_weight
    rules, values = (level, draws if test == "randomization" else 0, seed, own), {}
    for system, model in systems.items():
        scores = scores_of(model, X)
        refuse_swapped(queries.labels, scores, "leaderboard")
        values[system] = per_query_values(kinds, queries, scores, empty, ties=ties, convention=convention)
    means: dict[str, dict[str, float]] = {}
    comparisons: dict[str, dict[str, Comparison]] = {}
    for column, kind in enumerate(kinds):
        name = str(kind)
        means[name] = {system: mean(found[column], own) for system, found in values.items()}
        against = max(means[name], key=means[name].__getitem__) if baseline is None else baseline
        others = [system for system in systems if system != against]
        best = values[against][column]
        found = [compared(name, (against, other), best, values[other][column], *rules) for other in others]
        comparisons[name] = dict(zip(others, _holm(found), strict=True))
    return Leaderboard(means, comparisons, baseline, test, level)
