"""Diagnostics of lambda gradients (Svore, Volkovs, Burges 2011, Figures 2-4; Donmez et al. 2009, effective pairs).

Each is a function of given scores: those of one ranking, or of several rounds, one row each, as ``lp.analysis.record`` keeps
them. It returns :class:`Curves`: arrays by name, one value per round, with a plot.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ..errors import LambdaplugError
from ..objectives import LambdaRank, Objective
from ..objectives.base import Round
from ..objectives.mixture import Sum
from ..queries import Array, Queries, group_sizes, vector
from ..rows import row_order
from .curves import Curves

__all__ = ["effective_pairs", "force_by_label", "lambda_agreement", "rank_changes", "top_labels"]

Rows: TypeAlias = npt.ArrayLike
Opt: TypeAlias = npt.ArrayLike | None  # which may be left out


def lambda_agreement(
    a: Objective,
    b: Objective | Mapping[str, Objective],
    labels: Rows,
    scores: Rows,
    group: Opt = None,
    iterations: Opt = None,
    *,
    qid: Opt = None,
    columns: Mapping[str, Rows] | None = None,
) -> Curves:
    """How far two objectives push documents the same way: the share that both push alike, or that b leaves alone.

    Parameters
    ----------
    a : Objective
        The one.
    b : Objective or mapping
        The other, or several by name.
    labels : array-like
        One label per row.
    scores : array-like
        Of one ranking, one per row, or of several rounds, [round, row].
    group : array-like
        The number of documents of each query, in order.
    iterations : array-like, optional
        The numbers of the rounds; default 0, 1, ...
    qid : array-like, optional
        In place of ``group``: one query id per row, the rows of a query next to each other.
    columns : mapping, optional
        What is named besides labels, by name: ``{"clicks": clicks}``.

    Returns
    -------
    Curves
        Arrays by name, one value per round, with ``.plot()``.

    References
    ----------
    K. Svore, M. Volkovs, C. Burges (2011), "Learning to rank with multiple objective functions", WWW, figure 2.

    Examples
    --------
    >>> import lambdaplug as lp
    >>> both = lp.LambdaRank("ndcg"), lp.LambdaRank("mrr")
    >>> lambda_agreement(*both, labels=[1, 1, 0], scores=[[3, 2, 1], [2, 3, 1]], group=[3])["agreement"].round(2)
    array([1., 1.])
    """
    named = {"agreement": b} if isinstance(b, Objective) else {f"agreement: {name}": one for name, one in b.items()}
    queries = Queries(labels, group, qid=qid, columns=columns)

    def ask(scores: Array, iteration: int) -> dict[str, float]:
        mine, *others = (np.sign(one.differentiate(queries, scores, iteration)[0]) for one in (a, *named.values()))
        return {n: float(np.mean((mine == other) | (other == 0))) for n, other in zip(named, others, strict=True)}

    return _over(ask, scores, queries, iterations, "share of documents")


def force_by_label(
    objective: LambdaRank,
    labels: Rows,
    scores: Rows,
    group: Opt = None,
    high: float = 3,
    iterations: Opt = None,
    *,
    qid: Opt = None,
    columns: Mapping[str, Rows] | None = None,
) -> Curves:
    """From whom a highly relevant document's force comes: by the other document's label, the mean share.

    The pairs between two labels are picked out by document weights, so this is the objective's own force.

    Parameters
    ----------
    objective : LambdaRank
        Whose force; of pairs, and of the data set's own labels.
    labels : array-like
        One label per row.
    scores : array-like
        Of one ranking, one per row, or of several rounds, [round, row].
    group : array-like
        The number of documents of each query, in order.
    high : float
        The least label of a highly relevant document.
    iterations : array-like, optional
        The numbers of the rounds; default 0, 1, ...
    qid : array-like, optional
        In place of ``group``: one query id per row, the rows of a query next to each other.
    columns : mapping, optional
        What is named besides labels, by name: ``{"clicks": clicks}``.

    Returns
    -------
    Curves
        Arrays by name, one value per round, with ``.plot()``.

    References
    ----------
    K. Svore, M. Volkovs, C. Burges (2011), "Learning to rank with multiple objective functions", WWW, equation 11, figure 3a.

    Examples
    --------
    >>> import lambdaplug as lp
    >>> shares = force_by_label(lp.LambdaRank("ndcg"), labels=[3, 0, 1], scores=[0, 0, 0], group=[3])
    >>> {name: round(float(share[0]), 3) for name, share in shares.items()}
    {'force from label 0': 0.463, 'force from label 1': 0.537}
    """
    if not isinstance(objective, LambdaRank) or objective.labels is not None or not objective.rule.pairwise:
        raise LambdaplugError(
            f"force_by_label: expected a LambdaRank of pairs and of the data set's own labels, got {objective!r}."
        )
    raw = objective.unscaled()  # each pass would be scaled by a factor of its own
    queries = Queries(labels, group, qid=qid, columns=columns)
    values, levels = queries.labels, np.unique(queries.labels).tolist()
    if not any(level >= high for level in levels):
        raise LambdaplugError(f"force_by_label: no label is {high:g} or more; they are {levels}.")

    def ask(scores: Array, _: int) -> dict[str, float]:
        force = np.zeros((len(levels), len(values)))
        for mine, (number, other) in itertools.product(levels, enumerate(levels)):
            if mine >= high and mine != other:
                rows = values == mine
                weight = np.where(rows | (values == other), 1.0, 0.0)
                pairs = Queries(values, queries.sizes, document_weight=weight, columns=queries.columns)
                force[number, rows] = np.abs(raw.differentiate(pairs, scores, dtype=np.float64)[0][rows])
        pushed = force[:, force.any(axis=0)]
        shares = (pushed / pushed.sum(axis=0)).mean(axis=1) if pushed.size else np.zeros(len(levels))
        named = zip(levels, shares.tolist(), strict=True)
        return {f"force from label {level:g}": share for level, share in named if share}

    return _over(ask, scores, queries, iterations, "share of the force")


def top_labels(
    labels: Rows, scores: Rows, group: Opt = None, k: int = 3, iterations: Opt = None, *, qid: Opt = None
) -> Curves:
    """The shares of the labels among the documents ranked in the top k.

    Parameters
    ----------
    labels : array-like
        One label per row.
    scores : array-like
        Of one ranking, one per row, or of several rounds, [round, row].
    group : array-like
        The number of documents of each query, in order.
    k : int
        How many ranks are the top.
    iterations : array-like, optional
        The numbers of the rounds; default 0, 1, ...
    qid : array-like, optional
        In place of ``group``: one query id per row, the rows of a query next to each other.

    Returns
    -------
    Curves
        Arrays by name, one value per round, with ``.plot()``.

    References
    ----------
    K. Svore, M. Volkovs, C. Burges (2011), "Learning to rank with multiple objective functions", WWW, figure 3b.

    Examples
    --------
    >>> top_labels(labels=[0, 4, 1], scores=[3, 2, 1], group=[3], k=2)["label 4 in the top 2"]
    array([0.5])
    """
    queries = Queries(labels, group, qid=qid)
    top, levels = row_order(queries.offsets) < k, np.unique(queries.labels).tolist()

    def ask(scores: Array, _: int) -> dict[str, float]:
        found = queries.labels[_ranked_rows(queries, scores)[top]]
        return {f"label {level:g} in the top {k}": float(np.mean(found == level)) for level in levels}

    return _over(ask, scores, queries, iterations, "share of the top documents")


def rank_changes(scores: Rows, group: Opt = None, k: int = 3, iterations: Opt = None, *, qid: Opt = None) -> Curves:
    """The shares of the top k places, and of all places, that hold another document than in the round before.

    Parameters
    ----------
    scores : array-like
        Of several rounds, [round, row]; the first has none before it, and is NaN.
    group : array-like
        The number of documents of each query, in order.
    k : int
        How many ranks are the top.
    iterations : array-like, optional
        The numbers of the rounds; default 0, 1, ...
    qid : array-like, optional
        In place of ``group``: one query id per row, the rows of a query next to each other.

    Returns
    -------
    Curves
        Arrays by name, one value per round, with ``.plot()``.

    References
    ----------
    K. Svore, M. Volkovs, C. Burges (2011), "Learning to rank with multiple objective functions", WWW, figure 4.

    Examples
    --------
    >>> changes = rank_changes([[3, 2, 1, 0], [3, 2, 0, 1]], [4], k=2)
    >>> changes["changed in the top 2"], changes["changed in the list"]
    (array([nan,  0.]), array([nan, 0.5]))
    """
    sizes = group_sizes(group, qid)
    queries = Queries(np.zeros(int(sizes.sum())), sizes)
    top = row_order(queries.offsets) < k
    before: list[npt.NDArray[np.int64]] = []

    def ask(scores: Array, _: int) -> dict[str, float]:
        before.append(_ranked_rows(queries, scores))
        moved = before[-1] != before[-2] if len(before) > 1 else np.full(len(scores), np.nan)
        return {f"changed in the top {k}": float(np.mean(moved[top])), "changed in the list": float(np.mean(moved))}

    return _over(ask, scores, queries, iterations, "share of places")


def effective_pairs(
    objective: Objective,
    labels: Rows,
    scores: Rows,
    group: Opt = None,
    iterations: Opt = None,
    *,
    qid: Opt = None,
    columns: Mapping[str, Rows] | None = None,
) -> Curves:
    """The number of pairs that exert a force, for each LambdaRank inside an objective. Few of them, little to learn from.

    A tier of a Graded counts its own pairs: those that are equal in the tiers above it. A construction that acts on single
    documents (``"discrete_bounded"``) has none, and is refused.

    Parameters
    ----------
    objective : Objective
        A LambdaRank, or a sum with some inside.
    labels : array-like
        One label per row.
    scores : array-like
        Of one ranking, one per row, or of several rounds, [round, row].
    group : array-like
        The number of documents of each query, in order.
    iterations : array-like, optional
        The numbers of the rounds; default 0, 1, ...
    qid : array-like, optional
        In place of ``group``: one query id per row, the rows of a query next to each other.
    columns : mapping, optional
        What is named besides labels, by name: ``{"clicks": clicks}``.

    Returns
    -------
    Curves
        Arrays by name, one value per round, with ``.plot()``.

    References
    ----------
    P. Donmez, K. Svore, C. Burges (2009), "On the local optimality of LambdaRank", SIGIR.

    Examples
    --------
    >>> import lambdaplug as lp
    >>> effective_pairs(lp.LambdaRank("ndcg"), labels=[0, 1, 0], scores=[3, 2, 1], group=[3])["effective pairs: ndcg"]
    array([2.])
    """
    queries = Queries(labels, group, qid=qid, columns=columns)

    def ask(scores: Array, _: int) -> dict[str, float]:
        found: dict[str, float] = {}
        for part, tier in _parts(objective, queries):
            counts = np.zeros(len(queries), dtype=np.int64)
            leaf = part.rule.leaf(part, Round(queries, scores, draws={}), tier, counts)
            queries.run([leaf], scores, 1, cutoff=None, levels=1)
            name = f"effective pairs: {part.kind}"
            found[name if name not in found else f"{name} ({len(found) + 1})"] = float(counts.sum())
        return found

    return _over(ask, scores, queries, iterations, "pairs")


def _parts(objective: Objective, queries: Queries, tier: Array | None = None) -> Iterator[tuple[LambdaRank, Array]]:
    """Every LambdaRank inside, with the tiers that its pairs must share (empty: none)."""
    if isinstance(objective, LambdaRank):
        yield objective, np.empty(0) if tier is None else tier
    elif isinstance(objective, Sum):
        for k, part in enumerate(objective.inner):
            yield from _parts(part, queries, objective.tier(queries, k))
    else:
        raise LambdaplugError(f"effective_pairs: {objective!r} has no pairs to count: expected a LambdaRank or a sum.")


def _ranked_rows(queries: Queries, scores: Array) -> npt.NDArray[np.int64]:
    return np.repeat(queries.offsets[:-1], queries.sizes) + queries.rank(vector(scores, "scores"), 1)


def _over(
    ask: Callable[[Array, int], dict[str, float]], scores: Rows, queries: Queries, iterations: Opt, unit: str
) -> Curves:
    """Numbers by name of each round's scores and iteration."""
    rounds = np.atleast_2d(np.asarray(scores, dtype=np.float64))
    numbers = np.arange(len(rounds)) if iterations is None else np.atleast_1d(iterations)
    expected = (len(numbers), len(queries.labels))
    if rounds.shape != expected:
        raise LambdaplugError(f"scores: expected {expected[0]} rounds of {expected[1]} rows, got {rounds.shape}.")
    rows = [ask(each, iteration) for each, iteration in zip(rounds, numbers.tolist(), strict=True)]
    return Curves(numbers, rows, unit=unit)
