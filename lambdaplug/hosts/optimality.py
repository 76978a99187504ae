"""Boosters under the measure itself: is one a local optimum, and can its weights be walked further up?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..analysis import Landscape, Optimality, climb, examine
from ..analysis.optimality import SINGLE_STEPS, STEPS, Rule, Rules
from ..analysis.polishing import POLISH_STEPS
from ..checking import progress_bar
from ..documenting import documented
from ..errors import LambdaplugError
from ..evaluation import mean, per_query_values
from ..measures import Measure, as_measure
from ..queries import Queries, group_sizes
from .leaves import Weights, sliceable, take, weights_of

__all__ = ["local_optimality", "polish"]

Part = tuple[Any, npt.ArrayLike, npt.ArrayLike]


@documented
def local_optimality(
    booster: Any,
    X: Any,
    labels: npt.ArrayLike,
    group: npt.ArrayLike | None = None,
    measure: str | Measure = "",
    directions: int = 459,
    steps: Sequence[float] = STEPS,
    seed: int = 0,
    progress: bool = True,
    *,
    qid: npt.ArrayLike | None = None,
    rule: Rule = "significant",
    level: float = 0.01,
    share: float = 0.01,
    single_weights: int = 100,
    single_steps: Sequence[float] = SINGLE_STEPS,
    shown: int = 4,
    threads: int | None = None,
) -> Optimality:
    """Whether a LightGBM or XGBoost model is a local optimum of a measure over these rows.

    The weights w are all leaf values, or those of XGBoost's linear model. Each of so many random unit vectors u is tried:
    M(w + eta u), eta being ``steps`` times the norm of w, M the mean over the queries where the measure is defined. If none
    improves M, then with confidence 1 - (1 - share)^directions fewer than a share of all directions do: 0.99 for 459
    directions and 1 %.

    Parameters
    ----------
    booster : Booster
        Of LightGBM or XGBoost (``gbtree``, ``gblinear``). Trees with linear leaves, forests that average, DART of XGBoost and
        models with several outputs are refused.
    X : array-like or data frame
        Rows, usually those it was trained on.
    {labels} {group} {qid}
    measure : str or Measure
        M.
    directions : int
        How many random directions.
    steps : sequence of float
        How far, times the norm of all weights.
    seed : int
        Of the directions.
    {progress}
    rule : 'significant' or 'strict'
        What an improvement is. ``"strict"``, the papers': M is higher at some step. Measures of rankings are steps themselves,
        flickering at a small scale, so small steps improve by chance. ``"significant"``: the paired t-test over queries finds
        it higher at ``level``, one-sided, with Bonferroni's correction over all directions and steps. The report counts both.
    level : float
        Of that test.
    share : float
        Of all directions, in the statement above.
    single_weights : int
        So many randomly chosen weights are also moved alone (``.single``, ``.plot_weights()``).
    single_steps : sequence of float
        How far, times the root mean square of all weights.
    shown : int
        Of how many directions ``.curves`` keeps the values.
    threads : int, optional
        Default all cores.

    Returns
    -------
    Optimality
        With ``.optimum .confidence .best_improvement .best_direction .best_step .curves .plot()``; it prints. It also says what
        the lambda forces of the measure do (``.guided``): random directions, almost all of them at right angles to it, may all
        lose where one that is not random wins.

    References
    ----------
    P. Donmez, K. Svore, C. Burges (2009), "On the local optimality of LambdaRank", SIGIR. Y. Yue, C. Burges (2007), "On using
    simultaneous perturbation stochastic approximation for IR measures, and the empirical optimality of LambdaRank", NIPS
    Machine Learning for Web Search Workshop.

    Examples
    --------
    >>> import lightgbm as lgb
    >>> import lambdaplug as lp
    >>> data = lp.data.cubic(queries=20, documents=8, features=5)
    >>> params = {"objective": lp.LambdaRank("ndcg"), "verbose": -1, "num_threads": 1}
    >>> booster = lgb.train(params, lgb.Dataset(data.X, data.labels, group=data.group), 4)
    >>> report = lp.analysis.local_optimality(booster, *data, "ndcg", directions=20, single_weights=0, progress=False)
    >>> report.directions, report.optimum == (report.improving == 0)
    (20, True)
    """
    queries = Queries(labels, group, qid=qid)
    landscape = Landscape(weights_of(booster).model(X, len(queries.labels)), queries, measure, threads)
    rules = Rules(rule, level, share)
    return examine(landscape, directions, steps, seed, progress, rules, single_weights, single_steps, shown)


@documented
def polish(
    booster: Any,
    X: Any,
    labels: npt.ArrayLike,
    group: npt.ArrayLike | None = None,
    measure: str | Measure = "",
    *,
    qid: npt.ArrayLike | None = None,
    valid: Part | None = None,
    holdout: float = 0.2,
    rounds: int = 30,
    probes: int = 32,
    steps: Sequence[float] = POLISH_STEPS,
    patience: int = 5,
    seed: int = 0,
    progress: bool = True,
    threads: int | None = None,
    return_trace: bool = False,
) -> Any:
    """Walk a booster's weights uphill on the measure itself: leaf values, where splits stay as they are, or a linear model's.

    Every round tries ``steps`` (times the norm of the weights) along the lambda forces summed for each weight, and along the
    measure's own slope, from ``probes`` random directions both ways; the step that raises the measure most on these rows is
    taken, and none that does not raise it.

    Parameters
    ----------
    booster : Booster
        Of a kind that :func:`local_optimality` takes.
    X : array-like or data frame
        Rows to climb on, usually those it was trained on.
    {labels} {group} {qid}
    measure : str or Measure
        What to climb.
    valid : (X, labels, group), optional
        Rows that the model has not seen: the booster returned is the one best there.
    holdout : float
        Without ``valid``, the share of the queries that is set aside for it: a fair judge only if the model was trained on
        other rows than these.
    rounds : int
        At most so many steps.
    probes : int
        Random directions per round.
    steps : sequence of float
        How far, times the norm of all weights.
    patience : int
        The walk ends so many rounds after the best on ``valid``.
    seed : int
        Of the directions and the holdout.
    {progress}
    threads : int, optional
        Default all cores.
    return_trace : bool
        Return also a list of what each accepted step did to training and validation.

    Returns
    -------
    Booster, or (Booster, list)
        Of the same host. Where no step helped on the validation rows, the original itself: it is never worse there.

    Examples
    --------
    >>> import lambdaplug as lp
    >>> data = lp.data.cubic(queries=20, documents=8, features=5)
    >>> model = lp.LGBMRanker(objective="ndcg", n_estimators=4, verbose=-1).fit(data.X, data.labels, group=data.group)
    >>> better = lp.analysis.polish(model.booster_, *data, "ndcg", holdout=0.5, rounds=2, probes=4, progress=False)
    >>> better.num_trees()
    4
    """
    kind = as_measure(measure)
    weights = weights_of(booster)
    own = group_sizes(group, qid, len(np.asarray(labels)))
    if valid is None:
        train_part, valid_part = _held_out(X, labels, own, holdout, seed)
    else:
        train_part, valid_part = (X, labels, own), tuple(valid)
    parts = []
    for rows, values, sizes in (train_part, valid_part):
        queries = Queries(values, sizes)
        parts.append(Landscape(weights.model(rows, len(queries.labels)), queries, kind, threads))
    with progress_bar(rounds, f"{kind}: polishing", progress) as tick:
        moved, trace = climb(parts[0], parts[1], rounds, probes, steps, patience, seed, tick)
    polished = weights.rebuilt(weights.values + moved) if moved.any() else weights.booster
    if polished is not weights.booster and not _better(weights, polished, valid_part[0], parts[1].queries, kind):
        polished = weights.booster  # the host's rounding took back what was won
    return (polished, trace) if return_trace else polished


def _held_out(
    X: Any, labels: npt.ArrayLike, sizes: npt.NDArray[np.int64], share: float, seed: int
) -> tuple[Part, Part]:
    count = round(share * len(sizes))
    if not 0 < share < 1 or not 0 < count < len(sizes):
        raise LambdaplugError(
            f"holdout: expected a share of the {len(sizes)} queries that leaves some on both sides, got {share!r}. "
            "Or pass valid=(X, labels, group)."
        )
    held = np.zeros(len(sizes), dtype=bool)
    held[np.random.default_rng(seed).permutation(len(sizes))[:count]] = True
    parts = []
    for chosen in (~held, held):
        rows = np.flatnonzero(np.repeat(chosen, sizes))
        parts.append((take(sliceable(X), rows), np.asarray(labels)[rows], sizes[chosen]))
    return parts[0], parts[1]


def _better(weights: Weights, polished: Any, X: Any, queries: Queries, kind: Measure) -> bool:
    """By the scores that the two boosters really give."""
    before, after = (
        mean(per_query_values([kind], queries, one.scores(X))[0]) for one in (weights, weights_of(polished))
    )
    return after > before
