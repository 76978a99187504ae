"""Which measure to train for: every measure trained for, every one tested (Donmez, Svore, Burges 2009, section 7.3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import plotting
from ..analysis import count_pairs
from ..checking import integer, progress_bar
from ..comparison import Comparison, compared
from ..errors import LambdaplugError
from ..evaluation import Metric, import_pandas, mean, per_query_values
from ..measures import MAP, NDCG, Measure, as_measures
from ..objectives import LambdaRank, Objective
from ..objectives import objective as recommended
from ..queries import Array, Queries
from ..tables import Report, Row, markdown_table, text_cells
from .fitting import Part, fitted, require_host
from .following import host_of
from .leaves import raw_scores

__all__ = ["MatchTable", "match_table"]

BUILTINS = {"lightgbm": ("lambdarank", "rank_xendcg"), "xgboost": ("rank:ndcg", "rank:pairwise")}
GRADES = np.arange(31.0)  # the labels that they take, without further parameters
HEAD = ["trained for", "effective pairs"]
MOMENTS = 5  # at which effective pairs are counted: the start, the end, and between


@dataclass(frozen=True, repr=False)
class MatchTable(Report):
    """Rows: the measure trained for, then the host's own objectives. Columns: the measure tested.

    See :func:`match_table`.
    """

    measures: tuple[str, ...]
    values: Array  #: mean test value, [trained for, tested]
    comparisons: tuple[tuple[Comparison, ...], ...]  #: of each cell with its column's diagonal
    effective_pairs: Array  #: of each row: pairs with a force on the training queries, mean over the training
    trees: tuple[int, ...]  #: of each row; of several trainings, the median
    level: float = 0.95
    builtins: tuple[str, ...] = ()  #: the host's own objectives: the rows after the measures
    trainings: int = 1  #: of each row, averaged

    @property
    def trained(self) -> tuple[str, ...]:
        """The names of the rows."""
        return self.measures + self.builtins

    @property
    def p_values(self) -> Array:
        """Of the paired t-test of each cell against its column's diagonal, which is NaN."""
        p = np.array([[cell.p_t for cell in row] for row in self.comparisons])
        np.fill_diagonal(p, np.nan)
        return p

    @property
    def differs(self) -> npt.NDArray[np.bool_]:
        """Which cells differ significantly from their column's diagonal."""
        return self.p_values < 1.0 - self.level

    @property
    def summary(self) -> list[str]:
        """For each measure tested, whether training for it was best."""
        lines = []
        for column, name in enumerate(self.measures):
            best = int(np.nanargmax(self.values[:, column]))
            beaten = int((self.differs[:, column] & (self.values[:, column] < self.values[column, column])).sum())
            if best == column:
                others = len(self.trained) - 1
                lines.append(f"{name}: best trained for, significantly better than {beaten} of {others}")
            else:
                how = "significantly" if self.differs[best, column] else "not significantly"
                ahead = self.values[best, column] - self.values[column, column]
                lines.append(f"{name}: training for {self.trained[best]} is better by {ahead:.4f}, {how}")
        return lines

    @property
    def _legend(self) -> str:
        over = "paired t-test" if self.trainings == 1 else f"paired t-test over queries and {self.trainings} trainings"
        return f"† differs from training for the measure tested ({over}, {100 * self.level:g} %)"

    def _rows(self) -> list[Row]:
        best = self.values == np.nanmax(self.values, axis=0)
        cells = zip(self.values.tolist(), best.tolist(), self.differs.tolist(), strict=True)
        leads = zip(self.trained, self.effective_pairs, strict=True)
        return [
            ([name, "" if np.isnan(pairs) else f"{pairs:,.0f}"], list(zip(*marked, strict=True)))
            for (name, pairs), marked in zip(leads, cells, strict=True)
        ]

    def _cells(self) -> list[list[str]]:
        return text_cells(HEAD, self.measures, self._rows())

    def _after(self) -> list[str]:
        return [f"* best of its column; {self._legend}", *self.summary]

    def markdown(self) -> str:
        """A Markdown table: the best of a column in bold, † significantly different from the diagonal."""
        return markdown_table(HEAD, self.measures, self._rows(), self._legend)

    def frame(self, p_values: bool = False) -> Any:
        """The values as a pandas DataFrame, one row per measure trained for; with ``p_values`` those instead."""
        shown = self.p_values if p_values else self.values
        table = import_pandas().DataFrame(shown, index=list(self.trained), columns=list(self.measures))
        return table.rename_axis("trained for")

    def plot(self, ax: Any = None) -> Any:
        """Each column's distance from its best, as colours with the values; returns Matplotlib's axes."""
        rows, count = self.values.shape
        behind = np.nanmax(self.values, axis=0) - self.values
        with plotting.drawing(ax, figsize=(max(8.0, 1.2 * count), max(3.6, 1.4 + 0.5 * rows))) as ax:
            ax.imshow(behind, cmap="Blues_r", vmax=max(float(np.nanmax(behind)), 1e-12), aspect="auto")
            for row, column in np.ndindex(rows, count):
                text = f"{self.values[row, column]:.4f}" + "†" * int(self.differs[row, column])
                weight = "bold" if row == column else "normal"
                white = behind[row, column] < 0.45 * np.nanmax(behind)  # on the darker cells
                ax.text(column, row, text, ha="center", va="center", weight=weight, color="white" if white else "black")
            ax.grid(False)
            turned = {"rotation": 30, "ha": "right", "rotation_mode": "anchor"} if count > 5 else {}
            ax.set_xticks(range(count), self.measures, **turned)
            ax.set_yticks(range(rows), self.trained)
            ax.set(xlabel="measure tested (mean over queries)", ylabel="measure trained for")
            ax.set_title(f"Darker: nearer to the column's best. † differs from the diagonal, {self.level:.0%}")
        return ax


def match_table(
    train: Part,
    test: Part,
    measures: str | Measure | Sequence[str | Measure] = ("ndcg", "ndcg@10", "map", "mrr"),
    host: str = "lightgbm",
    params: Mapping[str, Any] | None = None,
    rounds: int = 100,
    valid: Part | None = None,
    level: float = 0.95,
    progress: bool = True,
    objective: Callable[..., Objective] = recommended,
    weight: npt.ArrayLike | None = None,
    builtins: bool | Sequence[str] = True,
    trainings: int = 1,
) -> MatchTable:
    """Train for each measure, test on each: does training for what you report pay on your data?

    Parameters
    ----------
    train, test, valid : RankingData or (X, labels, group)
        With ``valid`` each model has the trees that are best there by its own measure, without it all ``rounds``.
    measures : str, Measure or a sequence of them
        What is trained for and tested.
    host : str
        ``"lightgbm"`` or ``"xgboost"``.
    params : mapping, optional
        The host's parameters.
    rounds : int
        How many trees at most.
    level : float
        Of the paired t-tests.
    progress : bool
        Whether to show a progress bar.
    objective : callable
        From a measure to what is trained for it: ``lp.objective``, or ``lp.LambdaRank`` for the paper's own.
    weight : array-like, optional
        One number >= 0 per query of ``test``: weighted means and tests, as in ``lp.compare``.
    builtins : bool or sequence of str
        The host's own objectives to train as well, one row each after the measures: their names, or ``True`` for
        ``"lambdarank"`` and ``"rank_xendcg"``, or ``"rank:ndcg"`` and ``"rank:pairwise"`` (and none if labels are no integers
        from 0 to 30, which these do not take). With ``valid`` their number of trees is the best by NDCG (of ``"rank:map"``
        by MAP).
    trainings : int
        How often to train each row, with the seeds 0, 1, ... of the objective, ``objective(measure, seed=1)``, and of the host.
        Two trainings that differ in nothing but their seed may differ by more than the queries' error; with several, values
        are averaged and the tests know it. Where a seed draws nothing (``lp.LambdaRank`` without noise, without sampling in
        the host) all are alike.

    Returns
    -------
    MatchTable
        With ``.values``, ``.p_values`` (each cell against training for the measure tested), ``.effective_pairs`` (pairs
        whose exchange changes the measure in the order reached, the mean over five moments of the training: few of them,
        little to learn from), ``.markdown()``, ``.frame()``, ``.plot()``; it prints.

    References
    ----------
    P. Donmez, K. Svore, C. Burges (2009), "On the local optimality of LambdaRank", SIGIR, section 7.3.

    Examples
    --------
    >>> import lambdaplug as lp
    >>> train, test = lp.data.cubic(queries=40, documents=8, features=5).split(0.5, 0.5)
    >>> table = lp.analysis.match_table(train, test, ["ndcg", "map"], rounds=3, progress=False, objective=lp.LambdaRank)
    >>> table.measures, table.values.shape
    (('ndcg', 'map'), (4, 2))
    >>> table.trained
    ('ndcg', 'map', 'lambdarank', 'rank_xendcg')
    """
    kinds = as_measures(measures)
    require_host(host)
    integer(trainings, "trainings", 1)
    if not kinds or len(set(kinds)) < len(kinds):
        raise LambdaplugError(f"match_table: expected different measures, at least one; got {list(kinds)}.")
    (X, labels, group), (X_test, labels_test, group_test) = train, test
    learned, tested = Queries(labels, group), Queries(labels_test, group_test, query_weight=weight)
    values: list[Array] = []  # of each row [training, measure, query]
    pairs, trees = [], []
    if builtins is True:
        builtins = BUILTINS[host] if np.isin(learned.labels, GRADES).all() else ()
    own = tuple(builtins or ())
    contenders: list[tuple[str, Measure]] = [("", kind) for kind in kinds]
    contenders += [(word, MAP() if word == "rank:map" else NDCG()) for word in own]
    with progress_bar(trainings * len(contenders), "training", progress) as tick:
        for word, kind in contenders:
            row, counted, grown = [], [], []
            for seed in range(trainings):
                trained = word or (objective(kind) if trainings == 1 else _seeded(objective, kind, seed))
                given = {**(params or {}), **({"seed": seed} if trainings > 1 else {})}
                booster = fitted(host, trained, train, valid, given, rounds, Metric([kind]), valid is not None)
                count = _best(booster, host, valid is not None)
                row.append(per_query_values(kinds, tested, raw_scores(booster, X_test, count)))
                counted.append(np.nan if word else _pairs(kind, learned, X, booster, count))
                grown.append(count)
                tick(1)
            values.append(np.array(row))
            pairs.append(float(np.mean(counted)))
            trees.append(int(np.median(grown)))
    names, traffic = tuple(map(str, kinds)), tested.query_weight

    def cell(row: int, column: int, trained: str) -> Comparison:
        a, b = values[column][:, column], values[row][:, column]
        each = [mean(y, traffic) - mean(x, traffic) for x, y in zip(a, b, strict=True)]
        return compared(names[column], (names[column], trained), a.mean(0), b.mean(0), level, 0, 0, traffic, each)

    cells = [
        tuple(cell(row, column, trained) for column in range(len(names))) for row, trained in enumerate(names + own)
    ]
    means = np.array([[mean(one, traffic) for one in row.mean(0)] for row in values])
    return MatchTable(names, means, tuple(cells), np.array(pairs), tuple(trees), level, own, trainings)


def _seeded(objective: Callable[..., Objective], kind: Measure, seed: int) -> Objective:
    """The objective with another seed for each training."""
    try:
        return objective(kind, seed=seed)
    except TypeError as error:
        raise LambdaplugError(
            f"match_table: with several trainings, expected an objective= that takes seed=, as lp.objective and lp.LambdaRank "
            f"do; objective({str(kind)!r}, seed={seed}) raised: {error}. Use trainings=1 for one that draws nothing."
        ) from error


def _best(booster: Any, host: str, stopping: bool) -> int:
    """How many trees to keep. LightGBM's best iteration is a number of trees, XGBoost's that of the last tree."""
    return int(booster.best_iteration) + int(host == "xgboost") if stopping else host_of(booster).trees(booster)


def _pairs(kind: Measure, learned: Queries, X: Any, booster: Any, rounds: int) -> float:
    """The mean number of effective pairs over some moments of the training."""
    moments = np.unique(np.linspace(0, rounds, MOMENTS).round().astype(int)).tolist()
    scores = [np.zeros(len(learned.labels)) if m == 0 else raw_scores(booster, X, m) for m in moments]
    return float(np.mean([count_pairs(LambdaRank(kind), each, learned)[str(kind)].sum() for each in scores]))
