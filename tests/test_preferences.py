"""Preferences: against plain loops, with rows that move between data sets, and what is refused."""

import math

import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb
from oracle import grades_of, rank, ranknet, swap_delta

import lambdaplug as lp
from lambdaplug.queries import Queries

DATA = lp.data.cubic(queries=40, documents=12, features=6, noise=0.2)
LABELS, GROUP = DATA.labels.astype(float), DATA.group
RANDOM = np.random.default_rng(0)
SCORES = RANDOM.normal(size=len(LABELS)).round(1)
STARTS = np.cumsum(GROUP) - GROUP


def all_pairs(labels, group):
    """Every (better, worse) pair of rows of different label."""
    queries = np.split(np.arange(len(labels)), np.cumsum(group)[:-1])
    return np.array([(i, j) for rows in queries for i in rows for j in rows if labels[i] > labels[j]])


def drawn(count, seed=1):
    """Pairs within queries that know nothing of labels, contradictions and repetitions among them."""
    random = np.random.default_rng(seed)
    start = STARTS[random.integers(0, len(GROUP) - 5, count)]  # some queries have none
    better = random.integers(0, 12, count)
    return start[:, None] + np.stack([better, (better + random.integers(1, 12, count)) % 12], axis=1)


PAIRS = drawn(300)
WEIGHT = RANDOM.choice([0.0, 0.5, 2.0], len(PAIRS))
COLUMNS = {"duels": PAIRS, "w": WEIGHT, "all": all_pairs(LABELS, GROUP)}
ROWS = {"labels": LABELS, "scores": SCORES, "group": GROUP, "columns": COLUMNS}


def plain(pairs, weight, name=None, sigma=1.0, document_weight=None):
    gradient, hessian = np.zeros((2, len(LABELS)))
    query = np.searchsorted(STARTS, pairs[:, 0], side="right") - 1
    for (i, j), w, q in zip(pairs.tolist(), weight, query, strict=True):
        own = slice(STARTS[q], STARTS[q] + GROUP[q])
        size = 1 / np.count_nonzero(query == q)
        if name is not None:
            order = rank(SCORES[own].tolist())
            ranked = [LABELS[own][row] for row in order]
            a, b = sorted(order.index(row - STARTS[q]) for row in (i, j))
            grade = grades_of(name, ranked)
            size = swap_delta(name, ranked, a, b) if grade[a] != grade[b] else 0.0
        if document_weight is not None:
            size *= document_weight[i] * document_weight[j]
        force, bend = ranknet(sigma * (SCORES[i] - SCORES[j]))
        gradient[i] -= sigma * w * size * force
        gradient[j] += sigma * w * size * force
        hessian[[i, j]] += sigma**2 * w * size * bend
    return gradient, np.maximum(hessian, 1e-16)


@pytest.mark.parametrize("name", [None, "ndcg@3", "map", "err", "pairs", "hit@3", "mrr"])
def test_forces_are_the_formula(name):
    document_weight = RANDOM.random(len(LABELS))
    for options, given in (
        ({}, {}),
        ({"weight": "w"}, {"sigma": 2.0}),
    ):
        objective = lp.Preferences("duels", measure=name, **options, **given)
        each = WEIGHT if options else np.ones(len(PAIRS))
        found = objective.gradients(**ROWS)
        np.testing.assert_allclose(found, plain(PAIRS, each, name, **given), rtol=2e-6, atol=1e-9)
        weighted = objective.gradients(**ROWS, weight=document_weight)
        expected = plain(PAIRS, each, name, document_weight=document_weight, **given)
        np.testing.assert_allclose(weighted, expected, rtol=2e-6, atol=1e-9)


def test_all_pairs_of_grades_are_ranknet():
    for scores in (SCORES, SCORES * 30, np.zeros(len(LABELS))):
        found = lp.Preferences("all").gradients(LABELS, scores, GROUP, columns=COLUMNS)
        expected = lp.LambdaRank("pairs").differentiate(Queries(LABELS, GROUP), scores, exact=True)
        np.testing.assert_allclose(found, expected, rtol=2e-6, atol=1e-12)
        fast = lp.LambdaRank("pairs").gradients(LABELS, scores, GROUP)[0]
        np.testing.assert_allclose(found[0], fast, atol=2e-6 * np.abs(fast).max())
    for measure in ("ndcg@5", "map"):
        found = lp.Preferences("all", measure=measure).gradients(**ROWS)[0]
        fast = lp.LambdaRank(measure).gradients(LABELS, SCORES, GROUP)[0]
        np.testing.assert_allclose(found, fast, atol=2e-6 * np.abs(fast).max())


def test_pairs_follow_rows_into_lightgbms_subsets():
    whole = lgb.Dataset(DATA.X, LABELS, group=GROUP, free_raw_data=False)
    queries = RANDOM.permutation(len(GROUP))[:20]
    queries = np.sort(np.append(queries, PAIRS[0, 0] // 12))
    rows = np.concatenate([STARTS[q] + np.arange(GROUP[q]) for q in np.unique(queries)])
    across = [[rows[0], rows[1]], [rows[0], int(np.setdiff1d(np.arange(len(LABELS)), rows)[0])]]
    lp.attach(whole, **COLUMNS, across=across).construct()
    part = whole.subset(rows).construct()
    for objective in (lp.Preferences("duels", "w"), lp.Preferences("duels", measure="map")):
        np.testing.assert_array_equal(objective(SCORES[rows], part)[0], objective.gradients(**ROWS)[0][rows])
    with pytest.raises(
        lp.LambdaplugError, match=r"row \d+, which is in query 0, to row \d+, which is in a query that is not here"
    ):
        lp.Preferences("across")(SCORES[rows], part)
    parameters = {"objective": lp.Preferences("duels"), "verbose": -1, "metric": "None"}
    results = lgb.cv(parameters, whole, 3, folds=lp.query_folds(GROUP, 3), feval=lp.metric("ndcg"))
    assert len(results["valid ndcg-mean"]) == 3


def test_xgboosts_folds_are_refused():
    data = lp.attach(xgb.DMatrix(DATA.X, LABELS, qid=DATA.qid), duels=PAIRS)
    with pytest.raises(lp.LambdaplugError, match=r"A slice of a DMatrix begins without columns; in xgb\.cv"):
        xgb.cv({}, data, 2, nfold=2, obj=lp.Preferences("duels"), stratified=False)
    part = data.slice(np.arange(12), allow_groups=True)
    part.set_group([12])
    with pytest.raises(lp.LambdaplugError, match=r"A slice of a DMatrix begins without columns"):
        lp.Preferences("duels")(SCORES[:12], part)


def weighing(*weight):
    own = {"pairs": [[0, 1]], "w": weight}
    return lp.Preferences("pairs", "w").gradients(LABELS, SCORES, GROUP, columns=own)


@pytest.mark.parametrize(  # what is wrong with the pairs themselves: test_attach.py
    ("build", "message"),
    [
        (lambda: lp.Preferences(PAIRS), r"pairs: expected the name of a column, .* and say pairs='pairs'"),
        (lambda: weighing(1, 2), r"expected one finite number >= 0 for each of the 1 pairs"),
        (lambda: weighing(-1), r"expected one finite number >= 0 for each"),
        (lambda: weighing(math.nan), r"expected one finite number >= 0 for each"),
        (lambda: lp.Preferences("pairs", sigma=0), r"sigma: expected a positive number, got 0"),
        (lambda: lp.Preferences("pairs", measure="ndgc"), r"nearest is 'ndcg'"),
    ],
)
def test_what_makes_no_sense_is_refused(build, message):
    with pytest.raises(lp.LambdaplugError, match=message):
        build()


def test_pairs_that_cannot_act_are_refused_in_a_training():
    equal = next([i, i + 1] for i in range(len(LABELS)) if i % 12 < 11 and LABELS[i] == LABELS[i + 1])
    data = lgb.Dataset(DATA.X, LABELS, group=GROUP)
    lp.attach(data, one=[[0, 1]], zero=[0.0], equal=[equal])
    for objective, message in (
        (
            lp.Preferences("one", weight="zero"),
            r"1 of its 1 pairs are in these 480 rows, and none of them has a positive weight\.$",
        ),
        (lp.Preferences("equal", measure="ndcg"), r"has a positive weight and two labels that ndcg tells apart\.$"),
    ):
        with pytest.raises(lp.LambdaplugError, match=message):
            lgb.train({"objective": objective, "verbose": -1}, data, 1)
