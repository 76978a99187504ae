"""What holds for every objective: threads, company, weights, columns, mixtures, and trainings in both hosts that continue."""

import copy
import dataclasses
import itertools
import pickle

import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb
from oracle import revenue

import lambdaplug as lp
from lambdaplug.queries import Queries

DATA = lp.data.cubic(queries=60, documents=15, features=6, noise=0.3)
DATA.X.setflags(write=False)
ROWS, QUERIES, HALF = len(DATA.labels), len(DATA.group), 30 * 15
SCORES = np.random.default_rng(0).normal(size=ROWS).astype(np.float32)
PAIRS = np.array(
    [
        pair
        for start in range(0, ROWS, 15)
        for pair in itertools.permutations(range(start, start + 15), 2)
        if DATA.labels[pair[0]] > DATA.labels[pair[1]]
    ]
)
COLUMNS = {
    "pairs": PAIRS,
    "own": DATA.labels,
    "judged": np.where(np.arange(ROWS) % 5, DATA.labels, np.nan),
    "click rates": np.random.default_rng(2).integers(0, 5, ROWS) / 4,
}
COMPILED = lp.custom("sales@3", revenue)

# By pairs and by single documents, exact, smoothed and drawn, of lists and of values, alone and in sums.
OBJECTIVES = [
    *(lp.LambdaRank(name) for name in ("ndcg", "map@5", "hit@3(relevant=4)", "spearman", COMPILED)),
    lp.LambdaRank("err", step="gradient"),
    lp.LambdaRank("mrr(relevant=3)", normalize="std"),
    lp.LambdaRank("ndcg", cost=lp.Sigmoid(0.5)),
    lp.LambdaRank("bpref", labels="judged", noise=0.7),
    lp.LambdaRank("ndcg@10", noise=1.0, neighbours=1, samples=4, seed=3),
    lp.LambdaRank("ndcg", construction="spring_smooth", noise=0.5),
    lp.LambdaRank("map", construction=lp.constructions.LocalCost(window=3), noise=0.5, noise_kind="normal"),
    lp.LambdaRank("recall@5", cost=lp.RankNet(distance=0.01), normalize="log", noise=lp.cosine(1.0, 0.0, 10)),
    *(lp.LambdaRank("map@5", construction=name) for name in ("local_gradient", "local_cost", "discrete_bounded")),
    lp.LambdaRank("ndcg@5", construction=lp.constructions.Loss2()),
    *(lp.LambdaRank("p@5", construction=lp.constructions.Extended(name)) for name in ("static", "random", "all")),
    lp.Approx("ndcg", alpha=lp.cosine(2.0, 20.0, 8)),
    lp.Approx("map@5", hessian="constant", normalize="std"),
    lp.SPSA("ndcg@10", evaluations=8, seed=1),
    lp.FDSA("err@5"),
    lp.PLRank("ndcg@5", samples=9),
    lp.PLRank("p@3(relevant=3)", hessian="constant"),
    lp.StochasticRank("map(relevant=2)", mu=0.1, samples=2),
    lp.StochasticRank("mrr(relevant=3)", hessian="constant", normalize="none"),
    lp.QueryRMSE(),
    lp.QuerySoftmax("share"),
    lp.ListMLE(k=3),
    lp.Calibrated(max_label=4),
    lp.Preferences("pairs"),
    lp.Preferences("pairs", measure="map"),
    lp.Graded([lp.LambdaRank("ndcg"), lp.LambdaRank("cndcg", labels="click rates", noise=0.5)]),
    lp.interpolate(lp.LambdaRank("map"), lp.LambdaRank("ndcg"), lp.linear(0.1, 0.1), normalize="std"),
    lp.presets.catboost_yetirank(permutations=2),
]
EACH = pytest.mark.parametrize("objective", OBJECTIVES, ids=repr)


def gradients(objective, *weight, scores=SCORES, labels=DATA.labels, **options):
    columns = COLUMNS | options.pop("columns", {})
    return np.array(objective.gradients(labels, scores, DATA.group, *weight, columns=columns, **options))


@EACH
def test_threads_company_and_time_change_nothing(objective, monkeypatch):
    monkeypatch.setattr("lambdaplug.queries.CHUNK_WORK", (1 << 10, 1 << 11))  # many small tasks
    found = gradients(objective)
    assert np.isfinite(found).all()
    assert found[0].any()
    assert (found[1] > 0).all()
    queries = Queries(DATA.labels, DATA.group, columns=COLUMNS)
    assert len(queries.tasks(5, 3)) > 10
    for threads in (1, 2, 3):
        np.testing.assert_array_equal(objective.differentiate(queries, SCORES, threads=threads), found)
    assert objective.constant == np.array_equal(gradients(objective, iteration=4), found)
    for twin in (copy.deepcopy(objective), pickle.loads(pickle.dumps(objective))):
        assert twin == objective
        np.testing.assert_array_equal(gradients(twin), found)
    # A query's draws are its own, as on any part of a cluster; the last half has no pair of the first.
    columns = {name: values[HALF:] for name, values in COLUMNS.items()}
    columns["pairs"] = PAIRS[PAIRS[:, 0] >= HALF] - HALF
    alone = objective.gradients(DATA.labels[HALF:], SCORES[HALF:], DATA.group[30:], columns=columns)
    np.testing.assert_array_equal(alone, found[:, HALF:])


@EACH
def test_weights_columns_and_mixtures(objective):
    found = gradients(objective)
    weight = np.random.default_rng(1).random(QUERIES) + 0.5
    np.testing.assert_allclose(gradients(objective, weight), found * np.repeat(weight, 15), rtol=1e-5, atol=1e-9)
    for wrong in (np.nan, np.inf):
        with pytest.raises(lp.LambdaplugError, match=r"scores: expected finite numbers, got (nan|inf) in row 1"):
            gradients(objective, scores=np.where(np.arange(ROWS) == 1, wrong, SCORES))
    if getattr(objective, "labels", "judged") is None:
        zeros = np.zeros(ROWS)
        elsewhere = gradients(dataclasses.replace(objective, labels="own"), labels=zeros)
        np.testing.assert_array_equal(elsewhere, found)
        assert np.isfinite(gradients(dataclasses.replace(objective, labels="judged"), labels=zeros)).all()
    if getattr(objective, "seed", None) is not None and getattr(objective, "noise", 1):
        assert np.any(gradients(dataclasses.replace(objective, seed=4))[0] != found[0])
    other = lp.LambdaRank("map")
    moving = lp.interpolate(other, objective, lp.linear(0.25, 0.25))
    for iteration, share in ((0, 0.25), (2, 0.75)):
        parts = gradients(other), gradients(objective, iteration=iteration)
        mixed = gradients(moving, iteration=iteration)
        np.testing.assert_allclose(mixed, (1 - share) * parts[0] + share * parts[1], rtol=1e-4, atol=1e-6)
    for end, part in ((0.0, other), (1.0, objective)):
        for mixture in (lp.interpolate(other, objective, end), lp.Mixture([(1 - end, other), (end, objective)])):
            np.testing.assert_array_equal(gradients(mixture), gradients(part))


@EACH
@pytest.mark.parametrize("host", ["lightgbm", "xgboost"])
def test_trainings_learn_and_continue(host, objective):
    if host == "lightgbm":
        X = DATA.X

        def train(rounds, before=None, threads=1):
            data = lp.attach(lgb.Dataset(X, DATA.labels, group=DATA.group, free_raw_data=False), **COLUMNS)
            parameters = {"objective": objective, "verbose": -1, "num_leaves": 7, "num_threads": threads}
            # Else LightGBM chooses by the clock how it adds up, and last digits with it.
            parameters |= {"min_sum_hessian_in_leaf": 1e-9, "deterministic": True, "force_col_wise": True}
            return lgb.train(parameters, data, rounds, init_model=before)
    else:
        X = xgb.DMatrix(DATA.X)

        def train(rounds, before=None, threads=1):
            data = lp.attach(xgb.DMatrix(DATA.X, DATA.labels, qid=DATA.qid), **COLUMNS)
            parameters = {"max_depth": 3, "min_child_weight": 0, "lambda": 1e-2, "base_score": 0.0}
            return xgb.train(parameters | {"nthread": threads}, data, rounds, obj=objective, xgb_model=before)

    whole = train(16).predict(X)
    np.testing.assert_array_equal(train(8, train(8), threads=2).predict(X), whole)
    before, after = (lp.evaluate("ndcg", DATA.labels, s, DATA.group, ties="expected") for s in (0 * whole, whole))
    assert after["ndcg"] > before["ndcg"] + 0.1
