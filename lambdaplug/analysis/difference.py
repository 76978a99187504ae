"""What changed from one objective to another: how their gradients differ, by query, by document, by pair."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import plotting
from ..deprecation import labels_first
from ..documenting import documented
from ..objectives import LambdaRank, Mixture, Objective
from ..objectives.base import require_objective
from ..objectives.builtin import BuiltIn
from ..queries import Array, Queries, vector
from ..tables import Report

__all__ = ["Difference", "PairDifference", "explain_difference", "pair_forces"]

LARGEST = 600  # documents: pairs of larger queries would take too long


@dataclass(frozen=True)
class PairDifference:
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
    worst : int
        The query that differs most, -1 if none does.
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
    worst: int
    pairs: tuple[PairDifference, ...] | None

    def __str__(self) -> str:
        queries = len(self.offsets) - 1
        lines = [
            f"a  {self.a!r}",
            f"b  {self.b!r}",
            f"{queries} queries, {len(self.difference)} documents",
            "",
            f"{'':24}{'all':>10}{'5 %':>10}{'median':>10}{'95 %':>10}  of queries",
        ]
        for name, value, each in (
            ("correlation", self.correlation, self.query_correlation),
            ("share of sign flips", self.flips, self.query_flips),
            ("scale, b over a", self.scale, self.query_scale),
        ):
            known = each[~np.isnan(each)]
            spread = np.quantile(known, [0.05, 0.5, 0.95]) if len(known) else [np.nan] * 3
            lines.append(f"{name:24}" + "".join(f"{number:10.4g}" for number in (value, *spread)))
        lines.append(f"{'hessians, b over a':24}{self.hessian_scale:10.4g}")
        if self.worst < 0:
            return "\n".join([*lines, "", "No difference but the scale."])
        lines += ["", f"Query {self.worst} differs most ({self.query_share[self.worst]:.1%} of the whole)."]
        if self.pairs is None:
            return "\n".join(
                [*lines, "Its pairs are not known: an objective is no sum over pairs, or the query is too long."]
            )
        lines.append(
            f"{'its pairs: rows':>20}{'ranks':>12}{'labels':>12}{'pull of a':>12}{'of b/scale':>12}{'share':>8}"
        )
        for pair in self.pairs:
            rows = f"{pair.upper}, {pair.lower}"
            ranks = f"{pair.ranks[0] + 1}, {pair.ranks[1] + 1}"
            labels = f"{pair.labels[0]:g}, {pair.labels[1]:g}"
            lines.append(f"{rows:>20}{ranks:>12}{labels:>12}{pair.force_a:12.4g}{pair.force_b:12.4g}{pair.share:8.1%}")
        return "\n".join(lines)

    def plot(self, axes: Any = None) -> Any:
        """Gradient against gradient, the queries' correlations, and the worst query's documents. Three Matplotlib axes."""
        with plotting.drawing(axes, "AB;CC", figsize=(8.0, 7.0)) as drawn:
            cloud, queries, documents = drawn
            scaled = self.gradient_b / self.scale if self.scale > 0 else self.gradient_b
            cloud.plot(self.gradient_a, scaled, ".", markersize=2, alpha=0.5)
            cloud.axline((0, 0), slope=1, color="0.5", linewidth=0.8)
            cloud.set(xlabel="gradient of a", ylabel=f"gradient of b / {self.scale:.3g}, the scale")
            cloud.set_title(f"All documents:\ncorrelation {self.correlation:.3f}, sign flips {self.flips:.1%}")
            known = self.query_correlation[~np.isnan(self.query_correlation)]
            queries.hist(known, bins=np.linspace(min(0.0, known.min(initial=0.0)), 1.0, 31))
            queries.set(xlabel="correlation of a and b within a query", ylabel="number of queries")
            plotting.integers(queries.yaxis)
            queries.set_title(f"Each query:\nmedian correlation {np.median(known) if len(known) else np.nan:.3f}")
            documents.set(xlabel="document of the query", ylabel="gradient")
            plotting.integers(documents.xaxis)
            if self.worst >= 0:
                rows = slice(*self.offsets[self.worst : self.worst + 2].tolist())
                place = np.arange(rows.stop - rows.start)
                documents.bar(place - 0.2, self.gradient_a[rows], 0.4, label="a")
                documents.bar(place + 0.2, scaled[rows], 0.4, label=f"b / {self.scale:.3g}")
                share = self.query_share[self.worst]
                documents.set_title(f"Query {self.worst}, which differs most: {share:.1%} of the difference")
                plotting.legend(documents)
            else:
                documents.set_title("No query differs but in scale")
            if axes is None:  # a figure of our own has room for the names
                names = f"a = {plotting.shortened(self.a, 100)}\nb = {plotting.shortened(self.b, 100)}"
                cloud.figure.suptitle(names, x=0.01, ha="left", fontsize="medium")
        return drawn


@labels_first(2)
@documented
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
    {labels} {group} {qid}
    weight : array-like, optional
        One per row or per query.
    iteration : int
        Of schedules.
    pairs : int
        How many pairs of the worst query to list.

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
    queries, values = Queries.weighted(labels, group, weight, qid), vector(scores, "scores")
    (a, hessian_a), (b, hessian_b) = (
        _exact(objective, queries, values, iteration) for objective in (objective_a, objective_b)
    )
    scale = _ratio(np.linalg.norm(b), np.linalg.norm(a))
    difference = (b / scale if scale > 0 else b) - a
    starts = queries.offsets
    each = [slice(start, stop) for start, stop in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True)]
    squares = np.array([np.sum(difference[rows] ** 2) for rows in each])
    worst = int(np.argmax(squares)) if len(squares) and squares.max() > 1e-18 * max(np.sum(a**2), np.sum(b**2)) else -1
    found = None
    if worst >= 0:
        forces = [pair_forces(objective, queries, worst, values, iteration) for objective in (objective_a, objective_b)]
        if forces[0] is not None and forces[1] is not None:
            found = _pairs(queries, values, worst, forces[0], forces[1] / (scale if scale > 0 else 1.0), pairs)
    return Difference(
        objective_a,
        objective_b,
        queries.offsets,
        a,
        b,
        difference,
        _correlation(a, b),
        _flips(a, b),
        scale,
        _ratio(float(np.sum(hessian_b)), float(np.sum(hessian_a))),
        np.array([_correlation(a[rows], b[rows]) for rows in each]),
        np.array([_flips(a[rows], b[rows]) for rows in each]),
        np.array([_ratio(np.linalg.norm(b[rows]), np.linalg.norm(a[rows])) for rows in each]),
        squares / squares.sum() if squares.sum() > 0 else squares,
        worst,
        found,
    )


def _ratio(over: Any, under: Any) -> float:
    return float(over / under) if under > 0 else float("nan")


def _correlation(a: Array, b: Array) -> float:
    """Of two vectors of pushes: a query's forces cancel, so their mean is 0 and is not subtracted."""
    norm = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(a @ b) / norm if norm > 0 else float("nan")


def _flips(a: Array, b: Array) -> float:
    """Of the documents pushed by both, the share pushed the other way."""
    both = (a != 0) & (b != 0)
    return float(np.mean((a[both] > 0) != (b[both] > 0))) if both.any() else float("nan")


def _pairs(queries: Queries, scores: Array, query: int, a: Array, b: Array, count: int) -> tuple[PairDifference, ...]:
    start = int(queries.offsets[query])
    order = queries.rank(scores, 1)[start : start + len(a)]
    rank = np.empty(len(a), dtype=np.int64)
    rank[order] = np.arange(len(a))
    size = np.triu(np.abs(b - a)[np.ix_(order, order)], 1)  # by rank: each pair once
    total = float(size.sum())
    found = []
    for place in np.argsort(-size, axis=None, kind="stable")[:count].tolist():
        upper, lower = (int(order[at]) for at in divmod(place, len(a)))
        if size.flat[place] > 0:
            found.append(
                PairDifference(
                    start + upper,
                    start + lower,
                    (int(rank[upper]), int(rank[lower])),
                    (float(queries.labels[start + upper]), float(queries.labels[start + lower])),
                    0.0 - float(a[upper, lower]),
                    0.0 - float(b[upper, lower]),
                    float(size.flat[place]) / total,
                )
            )
    return tuple(found)


def pair_forces(
    objective: Objective, queries: Queries, query: int, scores: Array, iteration: int = 0
) -> npt.NDArray[np.float64] | None:
    """[i, j]: what the pair of the query's documents i and j adds to i's gradient; None if pairs are not all there is.

    A LambdaRank is asked again without i, its weight being 0 and its place kept: what the others lose was i's doing.
    """
    if queries.sizes[query] > LARGEST:
        return None
    ask = _Question(queries, query, scores, iteration)
    if isinstance(objective, LambdaRank):
        return ask.scaled(objective, ask.without_each(objective.unscaled()))
    if isinstance(objective, BuiltIn):
        return ask.scaled(objective, objective.pair_forces(queries, query, scores, iteration))
    if not isinstance(objective, Mixture):
        return None
    total = np.zeros((ask.size, ask.size))
    for k, (weight, part) in enumerate(zip(objective.weights(iteration), objective.parts, strict=True)):
        if weight == 0.0:
            continue
        forces: Array | None
        if isinstance(part, LambdaRank) and objective.tier(queries, k).size:  # its pairs depend on the tiers above
            alone = _only(objective, k, part)
            forces = ask.scaled(alone, ask.without_each(_only(objective, k, part.unscaled())))
        else:
            forces = pair_forces(part, queries, query, scores, iteration)
        if forces is None:
            return None
        total += weight * forces
    return ask.scaled(objective, total)


def _only(objective: Mixture, k: int, part: LambdaRank) -> Mixture:
    """The sum with this as its part k, and nothing else."""
    terms = tuple((1.0, part) if j == k else (0.0, other) for j, other in enumerate(objective.parts))
    return objective._with(terms=terms, std=False, unit=False, guard=None)


@dataclass(frozen=True)
class _Question:
    """One query, to be asked about its pairs."""

    queries: Queries
    query: int
    scores: Array
    iteration: int

    @property
    def rows(self) -> slice:
        return slice(*self.queries.offsets[self.query : self.query + 2].tolist())

    @property
    def size(self) -> int:
        return int(self.queries.sizes[self.query])

    def scaled(self, objective: Objective, forces: Array | None) -> Array | None:
        """Forces as the objective scales the query (weights, normalisation); None if they do not add up to its gradient."""
        if forces is None:
            return None
        whole = _exact(objective, self.queries, self.scores, self.iteration)[0][self.rows]
        net = forces.sum(axis=1)
        factor = float(whole @ net / (net @ net)) if net.any() else 1.0
        slack = 1e-4 * float(np.abs(whole).max(initial=0.0))  # the hosts' sums are float32
        return factor * forces if np.allclose(factor * net, whole, rtol=1e-4, atol=slack) else None

    def without_each(self, objective: Objective) -> Array:
        """The query once as it is and once without each document, side by side in one call."""
        queries, rows, size = self.queries, self.rows, self.size
        # Measures may scale by the largest label of the data set: it comes along, in queries of one document.
        every = [queries.labels, *(source.values for source in objective.sources)]
        largest = [int(np.nanargmax(labels)) for labels in every if not np.isnan(labels).all()]
        chosen = np.concatenate([np.tile(np.arange(rows.start, rows.stop), size + 1), largest]).astype(np.int64)
        weight = np.ones(len(queries.labels)) if queries.document_weight is None else queries.document_weight
        weight = weight[chosen]
        weight[np.arange(1, size + 1) * size + np.arange(size)] = 0.0
        asked = Queries(
            queries.labels[chosen],
            [size] * (size + 1) + [1] * len(largest),
            document_weight=weight,
            rows=chosen,
            total_rows=len(queries.labels),
        )
        gradient = _exact(objective, asked, self.scores[chosen], self.iteration)[0]
        each = gradient[: size * (size + 1)].reshape(size + 1, size)
        forces: Array = np.ascontiguousarray((each[0] - each[1:]).T)
        np.fill_diagonal(forces, 0.0)
        return forces


def _exact(objective: Objective, queries: Queries, scores: Array, iteration: int) -> tuple[Array, Array]:
    gradient, hessian = objective.differentiate(queries, scores, iteration, exact=True, dtype=np.float64)
    return gradient, hessian
