"""Diagnostics of lambda gradients (Svore, Volkovs, Burges 2011, Figures 2-4; Donmez et al. 2009, effective pairs).

Each is a function of one ranking, and a small class that a recorder asks once a round of a live training
(``lp.record``). Their results are arrays; the recorder plots them over the rounds.
"""

import abc
import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..errors import LambdaplugError
from ..evaluation import per_query_values
from ..measures import Measure, as_measure
from ..objectives import LambdaRank, Objective
from ..objectives.base import Ranking, Scratch
from ..queries import Array, Queries, vector

__all__ = [
    "Agreement",
    "Diagnostic",
    "EffectivePairs",
    "ForceByLabel",
    "Measured",
    "RankChanges",
    "TopLabels",
    "effective_pairs",
    "force_by_label",
    "lambda_agreement",
    "rank_changes",
    "top_labels",
]


def lambda_agreement(
    a: Objective,
    b: Objective,
    scores: npt.ArrayLike,
    labels: npt.ArrayLike,
    group: npt.ArrayLike,
    iteration: int = 0,
) -> float:
    """The share of documents that both objectives push the same way, or that b leaves alone (Figure 2).

    >>> both = LambdaRank("ndcg"), LambdaRank("ndcg", labels=[0, 1])
    >>> lambda_agreement(*both, scores=[0, 0], labels=[1, 0], group=[2])
    0.0
    """
    queries = Queries(labels, group)
    forces = [objective.differentiate(queries, scores, iteration)[0] for objective in (a, b)]
    return float(np.mean((np.sign(forces[0]) == np.sign(forces[1])) | (forces[1] == 0.0)))


def force_by_label(
    objective: LambdaRank, scores: npt.ArrayLike, labels: npt.ArrayLike, group: npt.ArrayLike, high: float = 3
) -> dict[float, float]:
    """From whom a highly relevant document's force comes: by the other document's label, the mean share (Eq. 11).

    The pairs between two labels are picked out by document weights, so this is the objective's own force.

    >>> shares = force_by_label(LambdaRank("ndcg"), [0, 0, 0], [3, 0, 1], [3])
    >>> {level: round(share, 3) for level, share in shares.items()}
    {0.0: 0.463, 1.0: 0.537}
    """
    if not isinstance(objective, LambdaRank) or objective.labels is not None or not objective.construction.pairwise:
        raise LambdaplugError(
            f"force_by_label: expected a LambdaRank of pairs and of the data set's own labels, got {objective!r}."
        )
    raw = copy.copy(objective)
    raw.std = raw.unit = False  # each pass would be divided by a standard deviation of its own
    values = vector(labels, "labels")
    levels = np.unique(values)
    highly = levels[levels >= high]
    if not len(highly):
        raise LambdaplugError(
            f"force_by_label: no label is {high:g} or more; the largest is {values.max(initial=0):g}."
        )
    force = {level: np.zeros(len(values)) for level in levels.tolist()}
    for mine in highly.tolist():
        rows = values == mine
        for other in levels.tolist():
            if other != mine:
                weight = np.where(rows | (values == other), 1.0, 0.0)
                queries = Queries(values, group, document_weight=weight)
                force[other][rows] += raw.differentiate(queries, scores, dtype=np.float64)[0][rows]
    total = np.sum([np.abs(part) for part in force.values()], axis=0)
    pushed = total > 0
    return {
        level: float(np.mean(np.abs(part[pushed]) / total[pushed])) if pushed.any() else 0.0
        for level, part in force.items()
        if part.any()
    }


def top_labels(scores: npt.ArrayLike, labels: npt.ArrayLike, group: npt.ArrayLike, k: int = 3) -> dict[float, float]:
    """The shares of the labels among the documents ranked in the top k (Figure 3b).

    >>> top_labels([3, 2, 1], [0, 4, 1], [3], k=2)
    {0.0: 0.5, 1.0: 0.0, 4.0: 0.5}
    """
    queries = Queries(labels, group)
    top = _ranked_rows(queries, scores)[_ranks(queries) < k]
    levels = np.unique(queries.labels)
    found = queries.labels[top]
    return {level: float(np.mean(found == level)) for level in levels.tolist()}


def rank_changes(before: npt.ArrayLike, after: npt.ArrayLike, group: npt.ArrayLike, k: int = 3) -> tuple[float, float]:
    """The shares of the top k places, and of all places, that hold another document than before (Figure 4).

    >>> rank_changes([3, 2, 1, 0], [3, 2, 0, 1], [4], k=2)
    (0.0, 0.5)
    """
    sizes = np.asarray(group)
    queries = Queries(np.zeros(int(sizes.sum())), sizes)
    moved = _ranked_rows(queries, before) != _ranked_rows(queries, after)
    if not len(moved):
        return 0.0, 0.0
    return float(np.mean(moved[_ranks(queries) < k])), float(np.mean(moved))


def effective_pairs(
    objective: LambdaRank, scores: npt.ArrayLike, labels: npt.ArrayLike, group: npt.ArrayLike
) -> npt.NDArray[np.int64]:
    """The number of pairs of each query that exert a force. Few of them, little to learn from.

    Of whatever construction; one that acts on single documents (``"discrete_bounded"``) has no pairs, and is refused.

    >>> [int(effective_pairs(LambdaRank(name), [3, 2, 1], [0, 1, 0], [3]).sum()) for name in ("ndcg", "mrr")]
    [2, 2]
    """
    if not isinstance(objective, LambdaRank):
        raise LambdaplugError(
            f"effective_pairs: expected a LambdaRank, got {objective!r}; ask for each part of a mixture."
        )
    queries = Queries(labels, group)
    values = vector(scores, "scores")
    ranking = Ranking(queries, values, queries.rank(values, 1))
    counts = np.zeros(len(queries), dtype=np.int64)
    for task in queries.tasks(None, divisible=False):
        gradient, hessian = np.zeros((2, int(queries.offsets[task.last] - queries.offsets[task.first])))
        objective.construction.accumulate(objective, ranking, task, Scratch(), 1.0, gradient, hessian, counts=counts)
    return counts


def _ranked_rows(queries: Queries, scores: npt.ArrayLike) -> npt.NDArray[np.int64]:
    return np.repeat(queries.offsets[:-1], queries.sizes) + queries.rank(vector(scores, "scores"), 1)


def _ranks(queries: Queries) -> npt.NDArray[np.int64]:
    return np.arange(queries.offsets[-1]) - np.repeat(queries.offsets[:-1], queries.sizes)


# --- once a round of a live training -----------------------------------------------------------------------------


class Moment(NamedTuple):
    """The state of a model at one round."""

    scores: Array
    before: Array | None  # the scores when last recorded
    labels: Array
    group: npt.NDArray[np.int64]
    iteration: int = 0


class Diagnostic(abc.ABC):
    """Something a recorder asks of every recorded round: one number for each name."""

    @abc.abstractmethod
    def __call__(self, moment: Moment) -> dict[str, float]: ...


@dataclass(frozen=True)
class Agreement(Diagnostic):
    """``lambda_agreement`` of a with each of several named others."""

    a: Objective
    others: dict[str, Objective]

    def __call__(self, moment: Moment) -> dict[str, float]:
        return {
            f"agreement: {name}": lambda_agreement(
                self.a, other, moment.scores, moment.labels, moment.group, moment.iteration
            )
            for name, other in self.others.items()
        }


@dataclass(frozen=True)
class ForceByLabel(Diagnostic):
    """``force_by_label`` of an objective."""

    objective: LambdaRank
    high: float = 3

    def __call__(self, moment: Moment) -> dict[str, float]:
        shares = force_by_label(self.objective, moment.scores, moment.labels, moment.group, self.high)
        return {f"force from label {level:g}": share for level, share in shares.items()}


@dataclass(frozen=True)
class TopLabels(Diagnostic):
    """``top_labels`` of the ranking."""

    k: int = 3

    def __call__(self, moment: Moment) -> dict[str, float]:
        shares = top_labels(moment.scores, moment.labels, moment.group, self.k)
        return {f"label {level:g} in the top {self.k}": share for level, share in shares.items()}


@dataclass(frozen=True)
class RankChanges(Diagnostic):
    """``rank_changes`` since the last recorded round."""

    k: int = 3

    def __call__(self, moment: Moment) -> dict[str, float]:
        top, whole = (np.nan, np.nan)
        if moment.before is not None:
            top, whole = rank_changes(moment.before, moment.scores, moment.group, self.k)
        return {f"changed in the top {self.k}": top, "changed in the list": whole}


@dataclass(frozen=True)
class EffectivePairs(Diagnostic):
    """``effective_pairs`` of an objective, added up."""

    objective: LambdaRank

    def __call__(self, moment: Moment) -> dict[str, float]:
        pairs = effective_pairs(self.objective, moment.scores, moment.labels, moment.group)
        return {f"effective pairs: {self.objective.measure}": float(pairs.sum())}


class Measured(Diagnostic):
    """Measures of the ranking."""

    def __init__(self, *measures: str | Measure) -> None:
        self.measures: Sequence[Measure] = [as_measure(measure) for measure in measures]

    def __call__(self, moment: Moment) -> dict[str, float]:
        values: list[Any] = per_query_values(self.measures, Queries(moment.labels, moment.group), moment.scores)
        return {str(kind): float(np.nanmean(value)) for kind, value in zip(self.measures, values, strict=True)}
