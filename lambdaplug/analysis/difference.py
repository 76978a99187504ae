"""What changed from one objective to another: how their gradients differ, by query, by document, by pair."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .. import plotting
from ..evaluation import query_names
from ..objectives import LambdaRank, Objective
from ..objectives.base import require_objective
from ..objectives.builtin import BuiltIn
from ..objectives.mixture import Sum
from ..queries import Array, Queries, vector
from ..reports import Report, aligned

__all__ = ["Difference", "PairDifference", "explain_difference", "pair_forces"]

LARGEST = 600  # documents: pairs of larger queries would take too long


class PairDifference(NamedTuple):
    """One pair of documents and what the two objectives do with it. See :func:`lambdaplug.analysis.explain_difference`.

    Attributes
    ----------
    upper, lower : int
        Rows of the data, from 0; ``upper`` ranks higher.
    ranks : tuple of int
        Of the two, from 0.
    labels : tuple of float
        Of the two.
    force_a, force_b : float
        How strongly the pair pulls the upper document up (negative: down), b's divided by the scale ratio.
    share : float
        Of the query's whole difference, pair by pair.

    Examples
    --------
    >>> import lambdaplug as lp
    >>> report = lp.analysis.explain_difference(lp.LambdaRank("ndcg"), lp.LambdaRank("map"), labels=[0, 1, 2], scores=[3, 2, 1], group=[3])
    >>> report.pairs[0].ranks
    (0, 1)
    """

    upper: int
    lower: int
    ranks: tuple[int, int]
    labels: tuple[float, float]
    force_a: float
    force_b: float
    share: float


@dataclass(frozen=True, repr=False)
class Difference(Report):
    """How the gradients of ``b`` differ from those of ``a``; printed, a small report. See :func:`lambdaplug.analysis.explain_difference`.

    Attributes
    ----------
    a, b : Objective
        What was compared.
    offsets : array of int
        Where each query's rows begin.
    gradient_a, gradient_b : array
        Per document.
    difference : array
        Per document: b divided by the scale ratio, minus a.
    correlation, flips, scale, hessian_scale : float
        Over all documents: the correlation, the share of documents pushed the other way, and b over a.
    query_correlation, query_flips, query_scale : array
        The same per query, NaN where nothing is pushed.
    query_share : array
        Per query: of the whole squared difference.
    query_ids : array
        The user's own ids of the queries, or their numbers.
    worst : int
        The number of the query that differs most, -1 if none does.
    pairs : tuple of PairDifference or None
        Its pairs that account for most of it; None where an objective is no sum over pairs, or the query has more than 600
        documents.

    Examples
    --------
    >>> import lambdaplug as lp
    >>> report = lp.analysis.explain_difference(lp.LambdaRank("ndcg"), lp.LambdaRank("map"), labels=[0, 1, 2], scores=[3, 2, 1], group=[3])
    >>> report.worst, report.difference.round(3).tolist()
    (0, [0.047, -0.14, 0.093])
    """

    a: Objective
    b: Objective
    offsets: npt.NDArray[np.int64]
    gradient_a: Array
    gradient_b: Array
    difference: Array
    correlation: float
    flips: float
    scale: float
    hessian_scale: float
    query_correlation: Array
    query_flips: Array
    query_scale: Array
    query_share: Array
    query_ids: npt.NDArray[Any]
    worst: int
    pairs: tuple[PairDifference, ...] | None

    def __str__(self) -> str:
        counts = f"{len(self.offsets) - 1} queries, {len(self.difference)} documents"
        cells = [["of queries", "all", "5 %", "median", "95 %"]]
        for name, value, each in (
            ("correlation", self.correlation, self.query_correlation),
            ("share of sign flips", self.flips, self.query_flips),
            ("scale, b over a", self.scale, self.query_scale),
        ):
            known = each[~np.isnan(each)]
            spread = np.quantile(known, [0.05, 0.5, 0.95]).tolist() if len(known) else [np.nan] * 3
            cells.append([name, *(f"{number:.4g}" for number in (value, *spread))])
        cells.append(["hessians, b over a", f"{self.hessian_scale:.4g}", "", "", ""])
        lines = [f"a  {self.a!r}", f"b  {self.b!r}", counts, "", *aligned(cells), ""]
        if self.worst < 0:
            return "\n".join([*lines, "No difference but the scale."])
        share = f"{self.query_share[self.worst]:.1%} of the whole"
        lines.append(f"Query {self.query_ids[self.worst]} differs most ({share}).")
        if self.pairs is None:
            lines.append("Its pairs are not known: an objective is no sum over pairs, or the query is too long.")
            return "\n".join(lines)
        cells = [["its pairs: rows", "ranks", "labels", "pull of a", "of b/scale", "share"]]
        for pair in self.pairs:
            ranks, labels = f"{pair.ranks[0] + 1}, {pair.ranks[1] + 1}", f"{pair.labels[0]:g}, {pair.labels[1]:g}"
            forces = f"{pair.force_a:.4g}", f"{pair.force_b:.4g}", f"{pair.share:.1%}"
            cells.append([f"{pair.upper}, {pair.lower}", ranks, labels, *forces])
        return "\n".join([*lines, *aligned(cells)])

    def plot(self, axes: Any = None) -> Any:
        """Gradient against gradient, and the worst query's documents. Two Matplotlib axes."""
        with plotting.drawing(axes, "A;B", figsize=(8.0, 7.0)) as drawn:
            cloud, documents = drawn
            scaled = self.gradient_a + self.difference
            cloud.plot(self.gradient_a, scaled, ".", markersize=2, alpha=0.5)
            cloud.axline((0, 0), slope=1, color="0.5", linewidth=0.8)
            cloud.set(xlabel="gradient of a", ylabel=f"gradient of b / {self.scale:.3g}, the scale")
            cloud.set_title(f"All documents:\ncorrelation {self.correlation:.3f}, sign flips {self.flips:.1%}")
            documents.set(xlabel="document of the query", ylabel="gradient")
            documents.set_title("No query differs but in scale")
            plotting.integers(documents.xaxis)
            if self.worst >= 0:
                rows = slice(*self.offsets[self.worst : self.worst + 2].tolist())
                for name, values, shift in (("a", self.gradient_a, -0.2), ("b / scale", scaled, 0.2)):
                    documents.bar(np.arange(rows.stop - rows.start) + shift, values[rows], 0.4, label=name)
                documents.set_title(f"Query {self.query_ids[self.worst]}, which differs most")
                plotting.legend(documents)
            if axes is None:  # a figure of our own has room for the names
                names = f"a = {plotting.shortened(self.a, 100)}\nb = {plotting.shortened(self.b, 100)}"
                cloud.figure.suptitle(names, x=0.01, ha="left", fontsize="medium")
        return drawn


def explain_difference(
    objective_a: Objective,
    objective_b: Objective,
    labels: npt.ArrayLike,
    scores: npt.ArrayLike,
    group: npt.ArrayLike | None = None,
    *,
    qid: npt.ArrayLike | None = None,
    weight: npt.ArrayLike | None = None,
    iteration: int = 0,
    pairs: int = 5,
    columns: Mapping[str, npt.ArrayLike] | None = None,
) -> Difference:
    """What changes if b is trained instead of a: their gradients at the same scores, compared.

    Boosters divide by hessians and are steered by learning rates, so one factor over all documents (the scale ratio) is
    reported and then taken out; what is left is direction.

    Parameters
    ----------
    objective_a, objective_b : Objective
        Such as ``lp.presets.lightgbm()`` and ``lp.objective("map")``.
    scores : array-like
        One score per row.
    labels : array-like
        One label per row.
    group : array-like
        The number of documents of each query, in order.
    qid : array-like, optional
        In place of ``group``: one query id per row, numbers or text, the rows of a query next to each other.
    weight : array-like, optional
        One per row or per query.
    iteration : int
        Of schedules.
    pairs : int
        How many pairs of the worst query to list.
    columns : mapping, optional
        What is objectives name besides labels, by name: ``{"clicks": clicks}``.

    Returns
    -------
    Difference
        ``print`` it, or ``.plot()`` it; its arrays have one value per query or per document.

    Examples
    --------
    >>> report = explain_difference(LambdaRank("ndcg"), LambdaRank("map"), labels=[0, 1, 2], scores=[3, 2, 1], group=[3])
    >>> round(report.correlation, 3), report.flips
    (0.959, 0.0)
    """
    for objective in (objective_a, objective_b):
        require_objective(objective, "explain_difference: ")
    queries, values = Queries.weighted(labels, group, weight, qid, columns), vector(scores, "scores")
    (a, hessian_a), (b, hessian_b) = (
        _exact(objective, queries, values, iteration) for objective in (objective_a, objective_b)
    )
    correlation, flips, scale = _compared(a, b)
    factor = scale if scale > 0 else 1.0
    difference = b / factor - a
    each = [slice(start, stop) for start, stop in itertools.pairwise(queries.offsets.tolist())]
    like, flipped, times = np.array([_compared(a[rows], b[rows]) for rows in each]).reshape(-1, 3).T
    squares = np.array([np.sum(difference[rows] ** 2) for rows in each])
    differs = squares.max(initial=0.0) > 1e-18 * max(np.sum(a**2), np.sum(b**2))
    worst = int(np.argmax(squares)) if differs else -1
    found = None
    if differs:
        first, second = (pair_forces(one, queries, worst, values, iteration) for one in (objective_a, objective_b))
        if not np.isnan(first + second).any():
            found = _pairs(queries, values, worst, first, second / factor, pairs)
    return Difference(
        a=objective_a,
        b=objective_b,
        offsets=queries.offsets,
        gradient_a=a,
        gradient_b=b,
        difference=difference,
        correlation=correlation,
        flips=flips,
        scale=scale,
        hessian_scale=float(np.sum(hessian_b) / np.sum(hessian_a)) if np.sum(hessian_a) > 0 else np.nan,
        query_correlation=like,
        query_flips=flipped,
        query_scale=times,
        query_share=squares / (squares.sum() or 1.0),
        query_ids=query_names(queries, qid),
        worst=worst,
        pairs=found,
    )


def _compared(a: Array, b: Array) -> tuple[float, float, float]:
    """Correlation, share of sign flips among what both push, and b's size over a's, of two vectors of pushes.

    A query's forces cancel, so that their mean is 0 and is not subtracted.
    """
    sizes, both = (float(np.linalg.norm(a)), float(np.linalg.norm(b))), (a != 0) & (b != 0)
    flips = float(np.mean((a[both] > 0) != (b[both] > 0))) if both.any() else np.nan
    correlation = float(a @ b) / (sizes[0] * sizes[1]) if all(sizes) else np.nan
    return correlation, flips, sizes[1] / sizes[0] if sizes[0] else np.nan


def _pairs(queries: Queries, scores: Array, query: int, a: Array, b: Array, count: int) -> tuple[PairDifference, ...]:
    start = int(queries.offsets[query])
    order = queries.rank(scores, 1)[start : start + len(a)]
    a, b = -a[np.ix_(order, order)], -b[np.ix_(order, order)]  # by rank
    size = np.triu(np.abs(b - a), 1)  # each pair once
    rows, found = start + order.astype(np.int64), []
    for place in np.argsort(-size, axis=None, kind="stable")[:count].tolist():
        i, j = divmod(place, len(a))
        if size[i, j] > 0:
            labels = float(queries.labels[rows[i]]), float(queries.labels[rows[j]])
            forces = float(a[i, j]) + 0.0, float(b[i, j]) + 0.0, float(size[i, j] / size.sum())
            found.append(PairDifference(int(rows[i]), int(rows[j]), (i, j), labels, *forces))
    return tuple(found)


def pair_forces(objective: Objective, queries: Queries, query: int, scores: Array, iteration: int = 0) -> Array:
    """[i, j]: what the pair of the query's documents i and j adds to i's gradient; NaN if pairs are not all there is."""
    forces = np.full((queries.sizes[query],) * 2, np.nan)
    if len(forces) > LARGEST:
        return forces
    if isinstance(objective, LambdaRank):
        forces = _without_each(objective.unscaled(), queries, query, scores, iteration)
    elif isinstance(objective, BuiltIn):
        forces = objective.pair_forces(queries, query, scores, iteration)
    elif isinstance(objective, Sum) and not any(objective.tier(queries, k).size for k in range(len(objective.inner))):
        forces = np.zeros_like(forces)
        for share, part in zip(objective.weights_at(iteration), objective.inner, strict=True):
            if share != 0.0:
                forces += share * pair_forces(part, queries, query, scores, iteration)
    # As the objective scales the query (weights, normalisation); unless they do not add up to its gradient.
    whole = _exact(objective, queries, scores, iteration)[0][queries.offsets[query] : queries.offsets[query + 1]]
    net = forces.sum(axis=1)
    factor = float(whole @ net / (net @ net)) if net.any() else 1.0
    slack = 1e-4 * float(np.abs(whole).max(initial=0.0))  # the hosts' sums are float32
    return forces * (factor if np.allclose(factor * net, whole, rtol=1e-4, atol=slack) else np.nan)


def _without_each(objective: LambdaRank, queries: Queries, query: int, scores: Array, iteration: int) -> Array:
    """Asked again without i, its weight being 0 and its place kept: what the others lose was i's doing. All in one call."""
    start, size = int(queries.offsets[query]), int(queries.sizes[query])
    # Measures may scale by the largest label of the data set: it comes along, in queries of one document.
    every = [queries.labels, *queries.columns.numbers_of_rows()]
    largest = [int(np.nanargmax(labels)) for labels in every if not np.isnan(labels).all()]
    chosen = np.concatenate([np.tile(np.arange(start, start + size), size + 1), largest]).astype(np.int64)
    weight = np.ones(len(chosen)) if queries.document_weight is None else queries.document_weight[chosen]
    weight[np.arange(1, size + 1) * size + np.arange(size)] = 0.0
    groups, columns = [size] * (size + 1) + [1] * len(largest), queries.columns.part(chosen)
    asked = Queries(queries.labels[chosen], groups, document_weight=weight, columns=columns)
    each = _exact(objective, asked, scores[chosen], iteration)[0][: size * (size + 1)].reshape(size + 1, size)
    forces: Array = np.ascontiguousarray((each[0] - each[1:]).T)
    np.fill_diagonal(forces, 0.0)
    return forces


def _exact(objective: Objective, queries: Queries, scores: Array, iteration: int) -> tuple[Array, Array]:
    gradient, hessian = objective.differentiate(queries, scores, iteration, exact=True, dtype=np.float64)
    return gradient, hessian
