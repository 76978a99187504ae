"""Compare rankings query by query: ``compare`` two or more systems, ``leaderboard`` for the table papers print."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args, overload

import numpy as np
import numpy.typing as npt

from . import plotting
from .checking import import_pandas, integer, one_of, refuse_swapped, shown
from .data import RankingData
from .errors import LambdaplugError
from .evaluation import Convention, Empty, Measures, Part, Rules, Ties, asked, mean, per_query_values
from .measures import Measure
from .queries import Array, Queries
from .reports import Report, aligned, markdown_table
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

    def __str__(self) -> str:
        return str(Comparisons({self.names[1]: self}))

    def plot(self, ax: Any = None) -> Any:
        """The difference with its interval; returns Matplotlib's axes."""
        return Comparisons({self.names[1]: self}).plot(ax)


class Comparisons(Report, dict[str, Comparison]):
    """Several systems against one baseline, by name; their ``_holm`` p-values are corrected for being several."""

    def _before(self) -> list[str]:
        part = next(iter(self.values()))
        left_out = f" ({part.undefined} more where it is undefined)" if part.undefined else ""
        corrected = "; p-values by Holm's correction" if len(self) > 1 else ""
        return [f"{part.measure} over {part.queries} queries{left_out}{corrected}"]

    def _cells(self) -> list[list[str]]:
        first = next(iter(self.values()))
        cells = [
            ["", "mean", "difference", f"{100 * first.level:g} % interval", "p (t)", "p (rand.)", "wins/ties/losses"],
            [f"{first.names[0]} (baseline)", f"{first.mean_a:.4f}", *[""] * 5],
        ]
        for name, part in self.items():
            low, high = part.interval
            counts = f"{part.wins}/{part.ties}/{part.losses}"
            ends = f"{low:+.4f} to {high:+.4f}"
            holm = _p(part.p_t_holm), _p(part.p_randomization_holm)
            cells.append([name, f"{part.mean_b:.4f}", f"{part.difference:+.4f}", ends, *holm, counts])
        return cells

    def plot(self, ax: Any = None) -> Any:
        """Each system's difference from the baseline with its interval; returns Matplotlib's axes."""
        first = next(iter(self.values()))
        return _plot({first.measure: self}, first.names[0], first.level, ax)


def _p(value: float) -> str:
    return "< 0.0001" if value < 1e-4 else f"{value:.4f}"


def _plot(by_measure: Mapping[str, Mapping[str, Comparison]], baseline: str, level: float, ax: Any) -> Any:
    """By measure each system's difference: one row per system, the first on top, and one colour per measure."""
    systems = list(dict.fromkeys(name for parts in by_measure.values() for name in parts))
    count = len(by_measure)
    with plotting.drawing(ax, figsize=(8.0, 1.8 + 0.4 * len(systems) * count**0.5)) as ax:
        for k, (measure, parts) in enumerate(by_measure.items()):
            places = [systems.index(name) + 0.7 * ((k + 0.5) / count - 0.5) for name in parts]
            middle = np.array([part.difference for part in parts.values()])
            ends = np.array([part.interval for part in parts.values()]).reshape(-1, 2).T
            ax.errorbar(middle, places, xerr=np.abs(ends - middle), fmt="o", capsize=4, label=measure)
        ax.axvline(0.0, color="0.4", linestyle=":", linewidth=1)
        ax.set_yticks(range(len(systems)), systems)
        ax.invert_yaxis()  # the first on top
        ax.set(xlabel=f"difference from {baseline}", ylabel="system")
        ax.set_title(f"Differences between systems, with {level:.0%} intervals over queries")
        plotting.legend(ax)
    return ax


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
                    mean  difference       95 % interval   p (t)  p (rand.)  wins/ties/losses
    a (baseline)  0.5000
    b             0.8333     +0.3333  -0.3838 to +1.0504  0.1835     0.5000             2/1/0
    """
    if isinstance(measure, (list, tuple)):
        raise LambdaplugError(
            f"compare: expected one measure, got {len(measure)}. For several: lp.leaderboard({{'a': a, 'b': b}}, measures, labels, "
            "group, baseline='a'), which has the comparisons by measure."
        )
    parts = asked(measure, empty=empty, ties=ties, convention=convention)
    integer(draws, "draws")
    queries = Queries(labels, group, qid=qid, query_weight=weight, columns=columns)
    single = not isinstance(scores_b, Mapping)
    first, *second = names or (("a", "b") if single else ("baseline",))
    if len(second) != single:
        raise LambdaplugError(
            f"compare: names: expected {'two, of a and b' if single else 'one, of the baseline'}; got {names!r}."
        )
    several: Systems = {second[0]: scores_b} if single else scores_b
    if not several:
        raise LambdaplugError("compare: expected at least one system to compare with the baseline, got none.")
    a = _values(parts, scores_a, queries, X)[0]
    others = {name: _values(parts, system, queries, X)[0] for name, system in several.items()}
    found = _compared(str(parts[0].kind), first, a, others, queries.query_weight, level, draws, seed)
    return next(iter(found.values())) if single else found


def _values(parts: Sequence[Part], system: Any, queries: Queries, X: Any) -> list[Array]:
    """A system's values by query, one array per measure."""
    scores = scores_of(system, X)
    refuse_swapped(queries.labels, scores)
    return per_query_values(parts, queries, scores)


def _compared(
    measure: str,
    baseline: str,
    a: Array,
    others: Mapping[str, Array],
    weight: Array | None,
    level: float,
    draws: int,
    seed: int,
) -> Comparisons:
    """Systems' values, one per query, NaN where the measure is undefined, against those of one. 0 draws: no such test."""
    if not 0 < level < 1:
        raise LambdaplugError(f"level: expected a number between 0 and 1, such as 0.95; got {level!r}.")
    found = Comparisons()
    for name, b in others.items():
        defined = ~(np.isnan(a) | np.isnan(b))
        if weight is not None:
            defined &= weight > 0.0  # what weighs nothing is no query
        own = np.ones(np.count_nonzero(defined)) if weight is None else weight[defined] / weight[defined].mean()
        x, y = a[defined], b[defined]
        d = y - x
        # The same value summed in another order is no difference.
        d[np.abs(d) <= 1e-12 * np.maximum(1.0, np.maximum(np.abs(x), np.abs(y)))] = 0.0
        difference = mean(d, own)
        half, p_t = _student(d, own, difference, level)
        found[name] = Comparison(
            measure,
            (baseline, name),
            mean(x, own),
            mean(y, own),
            difference,
            (difference - half, difference + half),
            p_t,
            _randomization((own * d)[d != 0.0], draws, seed) if len(d) and draws else float("nan"),
            wins=int((d > 0).sum()),
            ties=int((d == 0).sum()),
            losses=int((d < 0).sum()),
            undefined=int((~defined).sum()),
            level=level,
        )
    corrected = [holm([getattr(part, kind) for part in found.values()]) for kind in ("p_t", "p_randomization")]
    for name, p, q in zip(others, *corrected, strict=True):
        found[name] = replace(found[name], p_t_holm=p, p_randomization_holm=q)
    return found


def _student(d: Array, weight: Array, difference: float, level: float) -> tuple[float, float]:
    """Half the width of the interval of a weighted mean of mean weight 1, and the p-value."""
    from scipy.special import stdtr, stdtrit

    n = len(d)
    if n < 2:
        return float("nan"), float("nan")
    error = float(np.sum((weight * (d - difference)) ** 2) / (n - 1) / n) ** 0.5
    half = float(stdtrit(n - 1, 0.5 + level / 2)) * error
    if error <= 1e-14 * abs(difference):  # every query differs by the same
        return half, float(difference == 0.0)
    return half, float(2 * stdtr(n - 1, -abs(difference) / error))


def _randomization(d: Array, draws: int, seed: int) -> float:
    """How often random signs give a sum of these differences as far from 0 as theirs."""
    bound = abs(float(d.sum())) - 1e-12 * float(np.abs(d).sum())  # as large but for rounding
    # A byte is a pattern of eight signs: look up the sum it gives to each eight differences.
    eights = -(-len(d) // 8)
    patterns = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1) * 2.0 - 1.0
    sums = np.ascontiguousarray(patterns @ np.pad(d, (0, 8 * eights - len(d))).reshape(-1, 8).T)  # pattern, eight

    def as_large(signs: npt.NDArray[np.uint8]) -> int:
        return int(np.count_nonzero(np.abs(sums[signs, np.arange(eights)].sum(axis=1)) >= bound))

    if len(d) <= EXACT_QUERIES:
        every = np.arange(1 << 16, dtype=np.uint16).view(np.uint8).reshape(-1, 2)[:, :eights]
        return as_large(every) / len(every)
    rng, found, most = np.random.default_rng(seed), 0, max(1, DRAWS_AT_ONCE // eights)
    for first in range(0, draws, most):
        rows = min(most, draws - first)
        found += as_large(np.frombuffer(rng.bytes(rows * eights), dtype=np.uint8).reshape(rows, eights))
    return (1 + found) / (1 + draws)


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
    comparisons: dict[str, Comparisons]  #: by measure, then by system: against the baseline, or the best
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
    def _legend(self) -> str:
        kind = "paired t-test" if self.test == "t" else "paired randomisation test"
        return f"† differs from {self._against} ({kind}, Holm's correction over systems, {100 * self.level:g} %)"

    @property
    def _against(self) -> str:
        return self.baseline or "the best of its column"

    def _table(self, best: str, other: str) -> list[list[str]]:
        """The means, each written as one of these says; † is what stands after those that differ."""
        cells = [["", *(other.format(measure, "") for measure in self.means)]]
        for system in next(iter(self.means.values())):
            cells.append([system])
            for measure, means in self.means.items():
                form = best if self.is_best(measure, system) else other
                cells[-1].append(form.format(f"{means[system]:.4f}", "†" if self.differs(measure, system) else ""))
        return cells

    def __str__(self) -> str:
        lines = aligned(self._table("{}*{:1}", "{} {:1}"))
        return "\n".join([*lines, f"* best of its column; {self._legend}"])

    @property
    def text(self) -> str:
        """A table for the terminal: * the best of a column, † significantly different."""
        return str(self)

    def markdown(self) -> str:
        """A Markdown table: the best of a column in bold, † significantly different."""
        return "\n".join([*markdown_table(self._table("**{}**{}", "{}{}")), "", self._legend])

    def plot(self, ax: Any = None) -> Any:
        """Each system's differences from the baseline (or from each measure's best) with their intervals.

        Returns Matplotlib's axes.
        """
        return _plot(self.comparisons, self._against, self.level, ax)

    def frame(self, p_values: bool = False) -> Any:
        """The means as a pandas DataFrame, one row per system; with ``p_values`` those instead."""
        values = {
            measure: {system: self.p_value(measure, system) for system in row} for measure, row in self.means.items()
        }
        return import_pandas().DataFrame(values if p_values else self.means)


def leaderboard(
    systems: Systems,
    measures: Measures,
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
    if not isinstance(systems, Mapping) or not systems:
        raise LambdaplugError(
            f"leaderboard: expected scores or models by name first, got {shown(systems)}. The call is "
            "lp.leaderboard({'old': scores, 'new': others}, measures, labels, group)."
        )
    parts = asked(measures, empty=empty, ties=ties, convention=convention)
    if baseline is not None:
        one_of(baseline, "baseline", tuple(systems))
    one_of(test, "test", get_args(Test))
    integer(draws, "draws")
    if isinstance(labels, RankingData):
        X, labels, group = labels
    queries = Queries(labels, group, qid=qid, query_weight=weight, columns=columns)
    values = {name: _values(parts, system, queries, X) for name, system in systems.items()}
    means: dict[str, dict[str, float]] = {}
    comparisons: dict[str, Comparisons] = {}
    for k, part in enumerate(parts):
        measure = str(part.kind)
        means[measure] = {name: mean(found[k], queries.query_weight) for name, found in values.items()}
        against = baseline or max(systems, key=means[measure].__getitem__)
        others = {name: found[k] for name, found in values.items() if name != against}
        tested = queries.query_weight, level, draws if test == "randomization" else 0, seed
        comparisons[measure] = _compared(measure, against, values[against][k], others, *tested)
    return Leaderboard(means, comparisons, baseline, test, level)
