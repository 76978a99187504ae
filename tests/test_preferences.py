"""Preferences: against plain loops, with rows that move between data sets, and what is refused."""

import copy
import math
import pickle

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
    rows, starts = np.arange(len(labels)), np.cumsum(group) - group
    return np.array(
        [
            (i, j)
            for start, n in zip(starts, group, strict=True)
            for i in rows[start : start + n]
            for j in rows[start : start + n]
            if labels[i] > labels[j]
        ]
    )


def drawn(count, seed=1):
    """Pairs within queries that know nothing of labels, contradictions and repetitions among them."""
    random = np.random.default_rng(seed)
    start = STARTS[random.integers(0, len(GROUP) - 5, count)]  # some queries have none
    better = random.integers(0, 12, count)
    return start[:, None] + np.stack([better, (better + random.integers(1, 12, count)) % 12], axis=1)


PAIRS = drawn(300)
WEIGHT = RANDOM.choice([0.0, 0.5, 2.0], len(PAIRS))


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
        ({"weight": WEIGHT}, {"sigma": 2.0}),
    ):
        objective = lp.Preferences(PAIRS, measure=name, **options, **given)
        expected = plain(PAIRS, options.get("weight", np.ones(len(PAIRS))), name, **given)
        found = objective.gradients(LABELS, SCORES, GROUP)
        np.testing.assert_allclose(found, expected, rtol=2e-6, atol=1e-9)
        weighted = objective.gradients(LABELS, SCORES, GROUP, document_weight)
        expected = plain(
            PAIRS, options.get("weight", np.ones(len(PAIRS))), name, document_weight=document_weight, **given
        )
        np.testing.assert_allclose(weighted, expected, rtol=2e-6, atol=1e-9)
        twice = objective.gradients(LABELS, SCORES, GROUP, np.full(len(GROUP), 2.0))[0]
        np.testing.assert_allclose(twice, 2 * found[0], rtol=1e-6)


def test_a_measure_of_ones_own_weighs_pairs_too():
    own = lp.custom("top3", lambda labels: labels[:3].sum(), k=3)
    found = lp.Preferences(PAIRS, measure=own).gradients(LABELS, SCORES, GROUP)[0]
    linear = lp.DCG(gain="linear", discount=[1, 1, 1])
    np.testing.assert_allclose(
        found, lp.Preferences(PAIRS, measure=linear).gradients(LABELS, SCORES, GROUP)[0], atol=1e-6
    )


def test_all_pairs_of_grades_are_ranknet():
    for scores in (SCORES, SCORES * 30, np.zeros(len(LABELS))):
        found = lp.Preferences(all_pairs(LABELS, GROUP)).gradients(LABELS, scores, GROUP)
        expected = lp.LambdaRank("pairs").differentiate(Queries(LABELS, GROUP), scores, exact=True)
        np.testing.assert_allclose(found, expected, rtol=2e-6, atol=1e-12)
        fast = lp.LambdaRank("pairs").gradients(LABELS, scores, GROUP)[0]
        np.testing.assert_allclose(found[0], fast, atol=2e-6 * np.abs(fast).max())
    for measure in ("ndcg@5", "map"):
        found = lp.Preferences(all_pairs(LABELS, GROUP), measure=measure).gradients(LABELS, SCORES, GROUP)[0]
        fast = lp.LambdaRank(measure).gradients(LABELS, SCORES, GROUP)[0]
        np.testing.assert_allclose(found, fast, atol=2e-6 * np.abs(fast).max())


def test_contradictions_add_up_and_mixtures_mix():
    one, other = lp.Preferences([[0, 1]]), lp.Preferences([[1, 0]])
    both = lp.Preferences([[0, 1], [1, 0]], weight=[2, 2])  # of two pairs each counts half
    g, h = (part.gradients(LABELS, SCORES, GROUP) for part in (one, other))
    np.testing.assert_allclose(both.gradients(LABELS, SCORES, GROUP)[0], g[0] + h[0], atol=1e-7)
    ndcg, pairs = lp.LambdaRank("ndcg@5"), lp.Preferences(PAIRS, WEIGHT)
    mixture = lp.Mixture([(0.7, ndcg), (0.3, pairs)])
    parts = [part.gradients(LABELS, SCORES, GROUP) for part in (ndcg, pairs)]
    for found, a, b in zip(mixture.gradients(LABELS, SCORES, GROUP), *parts, strict=True):
        np.testing.assert_allclose(found, 0.7 * a + 0.3 * b, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("measure", [None, "map"])
def test_the_same_bits_at_any_number_of_threads(measure):
    group = np.full(4000, 12)
    random = np.random.default_rng(3)
    labels, scores = random.integers(0, 3, 48_000), random.normal(size=48_000)
    pairs = 12 * random.integers(0, 4000, 30_000)[:, None] + np.array([[3, 5]])
    pairs = np.concatenate([pairs, pairs[:, ::-1] + 1])
    objective, queries = lp.Preferences(pairs, measure=measure), Queries(labels, group)
    found = [objective.differentiate(queries, scores, threads=threads) for threads in (1, 3)]
    np.testing.assert_array_equal(*found)


def test_they_are_values():
    objective = lp.Preferences(PAIRS, WEIGHT, "ndcg@5", sigma=2)
    assert repr(objective) == "Preferences(<300 pairs>, weight=<300 values>, measure='ndcg@5', sigma=2)"
    for twin in (
        lp.Preferences(PAIRS.tolist(), WEIGHT, lp.NDCG(k=5), sigma=2.0),
        pickle.loads(pickle.dumps(objective)),
    ):
        assert twin == objective
        assert hash(twin) == hash(objective)
        np.testing.assert_array_equal(twin.gradients(LABELS, SCORES, GROUP), objective.gradients(LABELS, SCORES, GROUP))
    assert copy.deepcopy(objective) is objective
    assert objective != lp.Preferences(PAIRS, None, "ndcg@5", sigma=2)
    assert objective != lp.Preferences(PAIRS[:, ::-1], WEIGHT, "ndcg@5", sigma=2)
    given = PAIRS.copy()
    kept = lp.Preferences(given)
    given[:] = 0
    assert kept == lp.Preferences(PAIRS)
    with pytest.raises(AttributeError, match="cannot be changed"):
        objective.sigma = 3


def test_pairs_follow_rows_into_lightgbms_subsets():
    whole = lgb.Dataset(DATA.X, LABELS, group=GROUP, free_raw_data=False).construct()
    queries = RANDOM.permutation(len(GROUP))[:20]
    queries = np.sort(np.append(queries, PAIRS[0, 0] // 12))
    rows = np.concatenate([STARTS[q] + np.arange(GROUP[q]) for q in np.unique(queries)])
    for objective in (lp.Preferences(PAIRS, WEIGHT), lp.Preferences(PAIRS, measure="map")):
        found = objective(SCORES[rows], whole.subset(rows).construct())
        np.testing.assert_array_equal(found[0], objective.gradients(LABELS, SCORES, GROUP)[0][rows])
    across = lp.Preferences([[rows[0], rows[1]], [rows[0], int(np.setdiff1d(np.arange(len(LABELS)), rows)[0])]])
    with pytest.raises(
        lp.LambdaplugError, match=r"row \d+, which is in query 0, to row \d+, which is in a query outside"
    ):
        across(SCORES[rows], whole.subset(rows).construct())
    parameters = {"objective": lp.Preferences(PAIRS), "verbose": -1, "metric": "None"}
    results = lgb.cv(parameters, whole, 3, folds=lp.query_folds(GROUP, 3), feval=lp.metric("ndcg"))
    assert len(results["valid ndcg-mean"]) == 3


@pytest.mark.parametrize("options", [{}, {"measure": "ndcg@5"}], ids=str)
@pytest.mark.parametrize("host", ["lightgbm", "xgboost"])
def test_they_train(host, options):
    pairs = all_pairs(LABELS, GROUP)[::3]
    objective = lp.Preferences(pairs, **options)
    if host == "lightgbm":
        data = lgb.Dataset(DATA.X, LABELS if options else np.zeros(len(LABELS)), group=GROUP)
        parameters = {"objective": objective, "verbose": -1, "num_leaves": 7, "min_data_in_leaf": 5}
        scores = lgb.train(parameters, data, 20).predict(DATA.X)
    else:
        data = xgb.DMatrix(DATA.X, LABELS if options else np.zeros(len(LABELS)), qid=DATA.qid)
        scores = xgb.train({"max_depth": 3, "min_child_weight": 0, "lambda": 1e-3}, data, 20, obj=objective).predict(
            data
        )
    trained, untrained = (lp.evaluate("ndcg@5", LABELS, s, GROUP)["ndcg@5"] for s in (scores, DATA.X[:, 0]))
    assert trained > untrained + 0.2


def test_xgboosts_folds_are_refused():
    data = xgb.DMatrix(DATA.X, LABELS, qid=DATA.qid)
    with pytest.raises(lp.LambdaplugError, match=r"xgb\.cv's folds do not say which of them they hold"):
        xgb.cv({}, data, 2, nfold=2, obj=lp.Preferences(PAIRS), stratified=False)
    part = data.slice(np.arange(12), allow_groups=True)
    part.set_group([12])
    with pytest.raises(lp.LambdaplugError, match=r"a slice of an XGBoost DMatrix does not say"):
        lp.Preferences(PAIRS)(SCORES[:12], part)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: lp.Preferences([[0, 12]]).gradients(LABELS, SCORES, GROUP),
         r"pair 0 prefers row 0, which is in query 0, to row 12, which is in query 1\. Only documents of one query"),
        (lambda: lp.Preferences([[0, 1], [5, 480]]).gradients(LABELS, SCORES, GROUP),
         r"pair 1 is of the rows \[5, 480\], and the data set has 480"),
        (lambda: lp.Preferences([[0, 1], [-1, 2]]), r"pair 1 has a negative row: \[-1, 2\]"),
        (lambda: lp.Preferences([[0, 1], [2, 2]]), r"pair 1 has the same row twice: \[2, 2\]"),
        (lambda: lp.Preferences([]), r"expected \(better, worse\) row numbers, .* got \[\]"),
        (lambda: lp.Preferences([0, 1]), r"shape \(m, 2\)"),
        (lambda: lp.Preferences([[0, 1], [2]]), r"shape \(m, 2\)"),
        (lambda: lp.Preferences([[0.0, 1.0]]), r"an array of integers"),
        (lambda: lp.Preferences(np.zeros((3, 3))), r"got an array of float64 of shape \(3, 3\)"),
        (lambda: lp.Preferences([[0, 1]], [1, 2]), r"weight: expected one finite number >= 0 per pair \(1\), got 2 values"),
        (lambda: lp.Preferences([[0, 1]], [-1]), r"weight: expected one finite number >= 0 per pair"),
        (lambda: lp.Preferences([[0, 1]], [math.nan]), r"weight: expected one finite number >= 0 per pair"),
        (lambda: lp.Preferences([[0, 1]], sigma=0), r"sigma: expected a positive number, got 0"),
        (lambda: lp.Preferences([[0, 1]], measure="ndgc"), r"nearest is 'ndcg'"),
        (lambda: lp.Preferences([[0, 1]]).gradients([0, 1, 2], [0, math.inf, 1], [3]), r"scores: expected finite numbers"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(build, message):
    with pytest.raises(lp.LambdaplugError, match=message):
        build()


def test_pairs_that_cannot_act_are_refused_in_a_training():
    data = lgb.Dataset(DATA.X, LABELS, group=GROUP)
    equal = next([i, i + 1] for i in range(len(LABELS)) if i % 12 < 11 and LABELS[i] == LABELS[i + 1])
    for objective, message in (
        (
            lp.Preferences([[0, 1]], weight=[0.0]),
            r"1 of its 1 pairs are in these 480 rows, and none of them has a positive weight\.$",
        ),
        (lp.Preferences([equal], measure="ndcg"), r"has a positive weight and two labels that ndcg tells apart\.$"),
    ):
        with pytest.raises(lp.LambdaplugError, match=message):
            lgb.train({"objective": objective, "verbose": -1}, data, 1)
