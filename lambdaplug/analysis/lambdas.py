"""Diagnostics of lambda gradients (Svore, Volkovs, Burges 2011, Figures 2-4; Donmez et al. 2009, effective pairs).

Each is a small class that is asked once per round, and a function that asks it of given scores: those of one ranking, or
of several rounds, one row each. Both return :class:`Curves`: arrays by name, with a plot. ``lp.analysis.record`` asks them of a
training while it runs.
"""

from __future__ import annotations

import abc
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ..deprecation import labels_first
from ..documenting import documented
from ..errors import LambdaplugError
from ..evaluation import per_query_values
from ..measures import Measure, as_measure
from ..objectives import LambdaRank, Mixture, Objective
from ..objectives.base import Ranking, Scratch
from ..objectives.pairs import Work
from ..queries import Array, Queries, group_sizes, vector
from ..rows import row_order
from .curves import Curves

__all__ = [
    "Agreement",
    "Diagnostic",
    "EffectivePairs",
    "ForceByLabel",
    "Measured",
    "Moment",
    "RankChanges",
    "TopLabels",
    "count_pairs",
    "effective_pairs",
    "force_by_label",
    "lambda_agreement",
    "rank_changes",
    "top_labels",
]

Rows: TypeAlias = npt.ArrayLike
Opt: TypeAlias = npt.ArrayLike | None  # which may be left out


class Moment(NamedTuple):
    """The state of a model at one round: what a :class:`Diagnostic` is asked about.

    Attributes
    ----------
    queries : Queries
        The rows to look at.
    scores : array
        One per row.
    before : array or None
        The scores when last asked.
    iteration : int
        The number of the round.

    Examples
    --------
    >>> Moment(Queries([0, 1], [2]), np.array([0.5, 0.1])).iteration
    0
    """

    queries: Queries
    scores: Array
    before: Array | None = None  # the scores when last asked
    iteration: int = 0


class Diagnostic(abc.ABC):
    """Something to ask of a round: one number for each name. Base class; ``lp.analysis.record`` takes any subclass.

    A subclass is called with a :class:`Moment` and returns a dict; ``unit`` says what its numbers are.

    Examples
    --------
    >>> class Spread(Diagnostic):
    ...     unit = "score"
    ...     def __call__(self, moment):
    ...         return {"spread": float(np.ptp(moment.scores))}
    >>> Spread().over([3.0, 2.0, 0.5], Queries([0, 1, 0], [3]))["spread"]
    array([2.5])
    """

    unit: ClassVar[str] = "value"

    @abc.abstractmethod
    def __call__(self, moment: Moment) -> dict[str, float]: ...

    def over(self, scores: npt.ArrayLike, queries: Queries, iterations: npt.ArrayLike | None = None) -> Curves:
        """Ask it of scores, one row per round (or one round's alone); ``iterations`` numbers the rounds, default 0 on."""
        rounds = np.atleast_2d(np.asarray(scores, dtype=np.float64))
        numbers = np.arange(len(rounds)) if iterations is None else np.atleast_1d(np.asarray(iterations))
        expected = (len(numbers), len(queries.labels))
        if rounds.shape != expected:
            raise LambdaplugError(f"scores: expected {expected[0]} rounds of {expected[1]} rows, got {rounds.shape}.")
        befores = [None, *rounds[:-1]]
        moments = [Moment(queries, *round) for round in zip(rounds, befores, numbers.tolist(), strict=True)]
        rows = [self(moment) for moment in moments]
        return Curves(numbers, rows, units={name: self.unit for row in rows for name in row})


@documented
@dataclass(frozen=True)
class Agreement(Diagnostic):
    """The share of documents that a and another objective push the same way, or that the other leaves alone.

    Parameters
    ----------
    a : Objective
        The one.
    others : Objective or mapping
        One other, or several by name.

    References: K. Svore, M. Volkovs, C. Burges (2011), "Learning to rank with multiple objective functions", WWW, figure 2.

    >>> Agreement(LambdaRank("ndcg"), LambdaRank("map")).over([3.0, 2.0, 1.0], Queries([0, 1, 0], [3]))["agreement"]
    array([1.])
    """

    unit: ClassVar[str] = "share of documents"

    a: Objective
    others: Objective | Mapping[str, Objective]

    def __call__(self, moment: Moment) -> dict[str, float]:
        named = {"agreement": self.others} if isinstance(self.others, Objective) else self.others
        prefix = "" if isinstance(self.others, Objective) else "agreement: "
        mine = np.sign(self._force(self.a, moment))
        forces = {name: np.sign(self._force(other, moment)) for name, other in named.items()}
        return {prefix + name: float(np.mean((mine == force) | (force == 0.0))) for name, force in forces.items()}

    @staticmethod
    def _force(objective: Objective, moment: Moment) -> Any:
        return objective.differentiate(moment.queries, moment.scores, moment.iteration)[0]


@documented
@dataclass(frozen=True)
class ForceByLabel(Diagnostic):
    """From whom a highly relevant document's force comes: by the other document's label, the mean share.

    The pairs between two labels are picked out by document weights, so this is the objective's own force.

    Parameters
    ----------
    objective : LambdaRank
        Whose force; of pairs, and of the data set's own labels.
    high : float
        The least label of a highly relevant document.

    References: K. Svore, M. Volkovs, C. Burges (2011), "Learning to rank with multiple objective functions", WWW, equation 11, figure 3a.

    >>> ForceByLabel(LambdaRank("ndcg"), high=1).over([3.0, 2.0, 1.0], Queries([0, 1, 0], [3]))["force from label 0"]
    array([1.])
    """

    unit: ClassVar[str] = "share of the force"

    objective: LambdaRank
    high: float = 3

    def __post_init__(self) -> None:
        objective = self.objective
        if not isinstance(objective, LambdaRank) or objective.labels is not None or not objective.construction.pairwise:
            raise LambdaplugError(
                f"force_by_label: expected a LambdaRank of pairs and of the data set's own labels, got {objective!r}."
            )

    def __call__(self, moment: Moment) -> dict[str, float]:
        raw = self.objective.unscaled()  # each pass would be scaled by a factor of its own
        values = moment.queries.labels
        levels = np.unique(values)
        highly = levels[levels >= self.high]
        if not len(highly):
            raise LambdaplugError(
                f"force_by_label: no label is {self.high:g} or more; the largest is {values.max(initial=0):g}."
            )
        force = {level: np.zeros(len(values)) for level in levels.tolist()}
        for mine in highly.tolist():
            rows = values == mine
            for other in levels.tolist():
                if other != mine:
                    weight = np.where(rows | (values == other), 1.0, 0.0)
                    queries = Queries(values, moment.queries.sizes, document_weight=weight)
                    force[other][rows] += raw.differentiate(queries, moment.scores, dtype=np.float64)[0][rows]
        total = np.sum([np.abs(part) for part in force.values()], axis=0)
        pushed = total > 0
        return {
            f"force from label {level:g}": float(np.mean(np.abs(part[pushed]) / total[pushed])) if pushed.any() else 0.0
            for level, part in force.items()
            if part.any()
        }


@documented
@dataclass(frozen=True)
class TopLabels(Diagnostic):
    """The shares of the labels among the documents ranked in the top k.

    Parameters
    ----------
    k : int
        How many ranks are the top.

    References: K. Svore, M. Volkovs, C. Burges (2011), "Learning to rank with multiple objective functions", WWW, figure 3b.

    >>> TopLabels(2).over([3.0, 2.0, 1.0], Queries([0, 1, 0], [3]))["label 1 in the top 2"]
    array([0.5])
    """

    unit: ClassVar[str] = "share of the top documents"

    k: int = 3

    def __call__(self, moment: Moment) -> dict[str, float]:
        queries = moment.queries
        found = queries.labels[_ranked_rows(queries, moment.scores)[row_order(queries.offsets) < self.k]]
        levels = np.unique(queries.labels)
        return {f"label {level:g} in the top {self.k}": float(np.mean(found == level)) for level in levels.tolist()}


@documented
@dataclass(frozen=True)
class RankChanges(Diagnostic):
    """The shares of the top k places, and of all places, that hold another document than when last asked.

    Parameters
    ----------
    k : int
        How many ranks are the top.

    References: K. Svore, M. Volkovs, C. Burges (2011), "Learning to rank with multiple objective functions", WWW, figure 4.

    >>> RankChanges(1).over([[3, 2, 1], [1, 2, 3]], Queries([0, 1, 0], [3]))["changed in the top 1"]
    array([nan,  1.])
    """

    unit: ClassVar[str] = "share of places"

    k: int = 3

    def __call__(self, moment: Moment) -> dict[str, float]:
        top = whole = np.nan
        queries = moment.queries
        if moment.before is not None and len(moment.scores):
            moved = _ranked_rows(queries, moment.before) != _ranked_rows(queries, moment.scores)
            top, whole = float(np.mean(moved[row_order(queries.offsets) < self.k])), float(np.mean(moved))
        return {f"changed in the top {self.k}": top, "changed in the list": whole}


@documented
@dataclass(frozen=True)
class EffectivePairs(Diagnostic):
    """The number of pairs that exert a force, for each LambdaRank inside an objective (see :func:`count_pairs`).

    Parameters
    ----------
    objective : Objective
        A LambdaRank, or a sum with some inside.

    References: P. Donmez, K. Svore, C. Burges (2009), "On the local optimality of LambdaRank", SIGIR.

    >>> EffectivePairs(LambdaRank("ndcg")).over([3.0, 2.0, 1.0], Queries([0, 1, 0], [3]))["effective pairs: ndcg"]
    array([2.])
    """

    unit: ClassVar[str] = "pairs"

    objective: Objective

    def __call__(self, moment: Moment) -> dict[str, float]:
        counts = count_pairs(self.objective, moment.scores, moment.queries)
        return {f"effective pairs: {name}": float(count.sum()) for name, count in counts.items()}


class Measured(Diagnostic):
    """Measures of the ranking: the mean over queries of each.

    Parameters
    ----------
    *measures : str or Measure
        One or several.

    Examples
    --------
    >>> Measured("mrr").over([3.0, 2.0, 1.0], Queries([0, 1, 0], [3]))["mrr"]
    array([0.5])
    """

    unit: ClassVar[str] = "measure"

    def __init__(self, *measures: str | Measure) -> None:
        self.measures: Sequence[Measure] = [as_measure(measure) for measure in measures]

    def __call__(self, moment: Moment) -> dict[str, float]:
        values: list[Any] = per_query_values(self.measures, moment.queries, moment.scores)
        return {str(kind): float(np.nanmean(value)) for kind, value in zip(self.measures, values, strict=True)}


# --- of given scores ---------------------------------------------------------------------------------------------


@labels_first(2)
@documented
def lambda_agreement(
    a: Objective,
    b: Objective | Mapping[str, Objective],
    labels: Rows,
    scores: Rows,
    group: Opt = None,
    iterations: Opt = None,
    *,
    qid: Opt = None,
) -> Curves:
    """How far two objectives push documents the same way, over rounds: :class:`Agreement` of given scores.

    Parameters
    ----------
    a : Objective
        The one.
    b : Objective or mapping
        The other, or several by name.
    {labels} {scores_of_rounds} {group} {qid} {iterations}

    {curves}

    References: K. Svore, M. Volkovs, C. Burges (2011), "Learning to rank with multiple objective functions", WWW, figure 2.

    >>> both = LambdaRank("ndcg"), LambdaRank("ndcg", labels=[0, 1])
    >>> lambda_agreement(*both, labels=[1, 0], scores=[[0, 0], [1, 0]], group=[2])["agreement"]
    array([0., 0.])
    """
    return Agreement(a, b).over(scores, Queries(labels, group, qid=qid), iterations)


@labels_first(1)
@documented
def force_by_label(
    objective: LambdaRank,
    labels: Rows,
    scores: Rows,
    group: Opt = None,
    high: float = 3,
    iterations: Opt = None,
    *,
    qid: Opt = None,
) -> Curves:
    """Of the force on documents labelled ``high`` or more, the share of each other label: :class:`ForceByLabel`.

    Parameters
    ----------
    objective : LambdaRank
        Whose force; of pairs, and of the data set's own labels.
    {labels} {scores_of_rounds} {group} {qid}
    high : float
        The least label of a highly relevant document.
    {iterations}

    {curves}

    References: K. Svore, M. Volkovs, C. Burges (2011), "Learning to rank with multiple objective functions", WWW, equation 11.

    >>> shares = force_by_label(LambdaRank("ndcg"), labels=[3, 0, 1], scores=[0, 0, 0], group=[3])
    >>> {name: round(float(share[0]), 3) for name, share in shares.items()}
    {'force from label 0': 0.463, 'force from label 1': 0.537}
    """
    return ForceByLabel(objective, high).over(scores, Queries(labels, group, qid=qid), iterations)


@labels_first(0)
@documented
def top_labels(
    labels: Rows, scores: Rows, group: Opt = None, k: int = 3, iterations: Opt = None, *, qid: Opt = None
) -> Curves:
    """The shares of the labels in the top k: :class:`TopLabels` of given scores.

    Parameters
    ----------
    {labels} {scores_of_rounds} {group} {qid}
    k : int
        How many ranks are the top.
    {iterations}

    {curves}

    References: K. Svore, M. Volkovs, C. Burges (2011), "Learning to rank with multiple objective functions", WWW, figure 3b.

    >>> top_labels(labels=[0, 4, 1], scores=[3, 2, 1], group=[3], k=2)["label 4 in the top 2"]
    array([0.5])
    """
    return TopLabels(k).over(scores, Queries(labels, group, qid=qid), iterations)


@documented
def rank_changes(scores: Rows, group: Opt = None, k: int = 3, iterations: Opt = None, *, qid: Opt = None) -> Curves:
    """The share of places that change hands from each round to the next: :class:`RankChanges` of given scores.

    Parameters
    ----------
    scores : array-like
        Of several rounds, [round, row]; the first has none before it, and is NaN.
    {group} {qid}
    k : int
        How many ranks are the top.
    {iterations}

    {curves}

    References: K. Svore, M. Volkovs, C. Burges (2011), "Learning to rank with multiple objective functions", WWW, figure 4.

    >>> changes = rank_changes([[3, 2, 1, 0], [3, 2, 0, 1]], [4], k=2)
    >>> changes["changed in the top 2"], changes["changed in the list"]
    (array([nan,  0.]), array([nan, 0.5]))
    """
    sizes = group_sizes(group, qid)
    return RankChanges(k).over(scores, Queries(np.zeros(int(sizes.sum())), sizes), iterations)


@labels_first(1)
@documented
def effective_pairs(
    objective: Objective, labels: Rows, scores: Rows, group: Opt = None, iterations: Opt = None, *, qid: Opt = None
) -> Curves:
    """The number of pairs that exert a force: :class:`EffectivePairs`. Few of them, little to learn from.

    Parameters
    ----------
    objective : Objective
        A LambdaRank, or a sum with some inside.
    {labels} {scores_of_rounds} {group} {qid} {iterations}

    {curves}

    References: P. Donmez, K. Svore, C. Burges (2009), "On the local optimality of LambdaRank", SIGIR.

    >>> effective_pairs(LambdaRank("ndcg"), labels=[0, 1, 0], scores=[3, 2, 1], group=[3])["effective pairs: ndcg"]
    array([2.])
    """
    return EffectivePairs(objective).over(scores, Queries(labels, group, qid=qid), iterations)


def count_pairs(objective: Objective, scores: npt.ArrayLike, queries: Queries) -> dict[str, npt.NDArray[np.int64]]:
    """For each LambdaRank inside an objective, by its measure, the number of pairs of each query that exert a force.

    A tier of a Graded counts its own pairs: those that are equal in the tiers above it. A construction that acts on single
    documents (``"discrete_bounded"``) has none, and is refused.

    Parameters
    ----------
    objective : Objective
        A LambdaRank, or a sum with some inside.
    scores : array-like
        One score per row.
    queries : Queries
        Labels and groups: ``lambdaplug.queries.Queries(labels, group)``.

    Returns
    -------
    dict
        By the measure's text, an array with one number per query.

    References
    ----------
    P. Donmez, K. Svore, C. Burges (2009), "On the local optimality of LambdaRank", SIGIR.

    Examples
    --------
    >>> count_pairs(LambdaRank("ndcg"), [3, 2, 1], Queries([0, 1, 0], [3]))
    {'ndcg': array([2])}
    """
    values = vector(scores, "scores")
    order = queries.rank(values, 1)
    ranking = Ranking(queries, values, dict.fromkeys(objective.cutoffs, order))
    found: dict[str, npt.NDArray[np.int64]] = {}
    for part, tier in _parts(objective, queries):
        counts = np.zeros(len(queries), dtype=np.int64)
        for task in queries.tasks(None, divisible=False):
            sums = np.zeros((2, int(queries.offsets[task.last] - queries.offsets[task.first])))
            work = Work(task, Scratch(), (1.0, sums[0], sums[1]), tier, counts)
            part.construction.accumulate(part, ranking, work)
        name = str(part.measure)
        found[name if name not in found else f"{name} ({len(found) + 1})"] = counts
    return found


def _parts(objective: Objective, queries: Queries, tier: Array | None = None) -> Iterator[tuple[LambdaRank, Array]]:
    """Every LambdaRank inside, with the tiers that its pairs must share (empty: none)."""
    if isinstance(objective, LambdaRank):
        yield objective, np.empty(0) if tier is None else tier
    elif isinstance(objective, Mixture):
        for k, part in enumerate(objective.parts):
            yield from _parts(part, queries, objective.tier(queries, k))
    else:
        raise LambdaplugError(f"effective_pairs: {objective!r} has no pairs to count: expected a LambdaRank or a sum.")


def _ranked_rows(queries: Queries, scores: npt.ArrayLike) -> npt.NDArray[np.int64]:
    return np.repeat(queries.offsets[:-1], queries.sizes) + queries.rank(vector(scores, "scores"), 1)
