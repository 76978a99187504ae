"""The hosts' own objectives, tree for tree, and their two normalisations for every measure."""

import itertools
import json
import math
import pickle

import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb

import lambdaplug as lp
from lambdaplug.kernels import label_hash_kernel, noise_kernel

QUERIES, DOCUMENTS = 60, 20


def ranking_data(seed=0):
    """Features of few values, so that leaves, and with them scores, are full of ties; queries of 1 document too."""
    random = np.random.default_rng(seed)
    data = lp.data.cubic(queries=QUERIES, documents=DOCUMENTS, features=8, noise=0.3, seed=seed)
    group = np.full(QUERIES, DOCUMENTS)
    group[:4] = [1, 2, 35, 42]
    return np.round(data.X), data.labels, group, random


X, Y, GROUP, RANDOM = ranking_data()
DOCUMENT_WEIGHT = RANDOM.choice([0.3, 1.0, 2.7], len(Y))
QUERY_WEIGHT = RANDOM.uniform(0.1, 3.0, QUERIES)
BINARY = (Y >= 2).astype(float)
QUIET = {"verbose": -1, "num_threads": 1, "num_leaves": 15, "min_data_in_leaf": 5, "metric": "None"}


def lightgbm_trees(model):
    text = model.model_to_string()
    return text[text.index("Tree=0") : text.index("end of trees")]


def train_lightgbm(objective, rounds, further=None, weight=None, labels=Y, **options):
    callbacks = [lp.callback(objective)] if isinstance(objective, lp.objectives.Objective) else []
    data = lgb.Dataset(X, labels, group=GROUP, weight=weight)
    return lgb.train({**QUIET, "objective": objective, **(further or {})}, data, rounds, callbacks=callbacks, **options)


def assert_same_lightgbm(preset, builtin, rounds, further=None, weight=None):
    mine = lightgbm_trees(train_lightgbm(preset, rounds, further, weight))
    theirs = lightgbm_trees(train_lightgbm(builtin.pop("objective"), rounds, {**builtin, **(further or {})}, weight))
    assert mine.count("Tree=") == rounds
    assert mine == theirs  # rounds are grown one after another, so this is equality after every number of rounds


@pytest.mark.parametrize(("sigmoid", "norm", "truncation"), [(1.0, True, 30), (2.0, False, 5), (1.0, False, 1000)])
def test_lightgbm_lambdarank_tree_for_tree(sigmoid, norm, truncation):
    given = {"sigmoid": sigmoid, "lambdarank_norm": norm, "lambdarank_truncation_level": truncation}
    assert_same_lightgbm(lp.presets.lightgbm(truncation, norm, sigmoid), {"objective": "lambdarank", **given}, 100)


@pytest.mark.parametrize(
    ("further", "weight"),
    [
        ({}, DOCUMENT_WEIGHT),
        ({}, np.repeat(QUERY_WEIGHT, GROUP)),
        ({"bagging_fraction": 0.6, "bagging_freq": 1}, None),
        ({"data_sample_strategy": "goss"}, DOCUMENT_WEIGHT),
        ({"linear_tree": True}, None),
    ],
    ids=["document weights", "query weights", "bagging", "goss", "linear"],
)
def test_lightgbm_lambdarank_however_it_is_trained(further, weight):
    assert_same_lightgbm(lp.presets.lightgbm(), {"objective": "lambdarank"}, 50, further, weight)


def test_lightgbm_lambdarank_with_gains_of_ones_own():
    gains = [0, 1, 4, 5, 20]
    assert_same_lightgbm(lp.presets.lightgbm(label_gain=gains), {"objective": "lambdarank", "label_gain": gains}, 50)


@pytest.mark.parametrize(("seed", "weight"), [(5, None), (77, DOCUMENT_WEIGHT)], ids=["plain", "weighted"])
def test_lightgbm_xendcg_tree_for_tree(seed, weight):
    builtin = {"objective": "rank_xendcg", "objective_seed": seed}
    assert_same_lightgbm(lp.presets.lightgbm_xendcg(seed), builtin, 100, None, weight)


# --- XGBoost -----------------------------------------------------------------------------------------------------


XGBOOST_VERSION = tuple(map(int, xgb.__version__.split(".")[:2]))
SINCE = {"normalization": (2, 1), "score_normalization": (3, 0)}


def skip_what_this_version_lacks(options):
    if any(SINCE.get(name, (2, 0)) > XGBOOST_VERSION for name in options) or (
        "pair_method" in options and XGBOOST_VERSION not in ((3, 1), (3, 2))
    ):
        pytest.skip(f"XGBoost {xgb.__version__} has other {', '.join(options)}")


def xgboost_trees(model):
    return json.loads(model.save_raw("json"))["learner"]["gradient_booster"]["model"]["trees"]


def train_xgboost(objective, rounds, further=None, weight=None, labels=Y, **options):
    data = xgb.DMatrix(X, labels, group=GROUP, weight=weight)
    given = {"nthread": 1, "max_depth": 4, "min_child_weight": 0.01, "base_score": 0, "disable_default_eval_metric": 1}
    if isinstance(objective, str):
        return xgb.train({**given, "objective": objective, **(further or {})}, data, rounds, **options)
    return xgb.train(given, data, rounds, obj=objective, callbacks=[lp.callback(objective)], **options)


@pytest.mark.parametrize(
    ("kind", "options", "weight"),
    [
        (kind, options, weight)
        for kind in ("ndcg", "map", "pairwise")
        for options, weight in (
            ({}, QUERY_WEIGHT),
            ({"num_pair_per_sample": 5, "normalization": False}, None),
            ({"pair_method": "mean", "num_pair_per_sample": 3, "score_normalization": False}, QUERY_WEIGHT),
        )
    ]
    + [("ndcg", {"exp_gain": False, "pair_method": "mean"}, None)],
    ids=str,
)
def test_xgboost_rank_tree_for_tree(kind, options, weight):
    skip_what_this_version_lacks(options)
    labels = BINARY if kind == "map" else Y
    theirs = {"ndcg_exp_gain" if name == "exp_gain" else f"lambdarank_{name}": x for name, x in options.items()}
    mine = xgboost_trees(train_xgboost(lp.presets.xgboost(kind, **options), 50, None, weight, labels))
    assert mine == xgboost_trees(train_xgboost(f"rank:{kind}", 50, theirs, weight, labels))
    assert sum(len(tree["left_children"]) > 1 for tree in mine) > 40


def learned(model):
    """XGBoost's t+ and t-, which it writes in float32."""
    found = json.loads(model.save_config())["learner"]["objective"]
    return np.array([found["ti+"], found["tj-"]], np.float32)


@pytest.mark.parametrize(
    ("kind", "options", "weight"),
    [
        ("ndcg", {}, QUERY_WEIGHT),
        ("ndcg", {"bias_norm": 0.3, "num_pair_per_sample": 7, "normalization": False}, None),
        ("map", {"score_normalization": False}, None),
        ("pairwise", {"pair_method": "mean", "num_pair_per_sample": 3}, None),
    ],
    ids=str,
)
def test_xgboost_unbiased_tree_for_tree_with_its_wrong_sign(kind, options, weight):
    skip_what_this_version_lacks(options)
    labels = BINARY if kind == "map" else Y
    biased = {f"lambdarank_{name}": x for name, x in options.items()}
    theirs = {**biased, "lambdarank_unbiased": True}
    preset = lp.presets.xgboost(kind, unbiased=True, **options)
    mine = train_xgboost(preset, 50, None, weight, labels)
    built_in = train_xgboost(f"rank:{kind}", 50, theirs, weight, labels)
    assert xgboost_trees(mine) == xgboost_trees(built_in)
    assert xgboost_trees(mine) != xgboost_trees(train_xgboost(f"rank:{kind}", 50, biased, weight, labels))
    curve = lp.position_bias(preset)
    if XGBOOST_VERSION >= (3, 0):  # which shows what it has learned
        np.testing.assert_array_equal(np.array(curve.columns, np.float32), learned(built_in))


def test_xgboost_unbiased_begins_anew_in_each_training():
    preset = lp.presets.xgboost("pairwise", unbiased=True)
    assert preset == eval(f"lp.{preset!r}") == pickle.loads(pickle.dumps(preset)) != lp.presets.xgboost("pairwise")
    further = {"lambdarank_unbiased": True}
    first = train_xgboost(preset, 5)
    assert xgboost_trees(first) == xgboost_trees(train_xgboost(preset, 5))
    if XGBOOST_VERSION >= (2, 1):  # before, XGBoost crashed
        theirs = train_xgboost("rank:pairwise", 5, further)
        theirs = train_xgboost("rank:pairwise", 5, further, xgb_model=theirs)
        assert xgboost_trees(train_xgboost(preset, 5, xgb_model=first)) == xgboost_trees(theirs)
    with pytest.raises(lp.LambdaplugError, match="cannot be a part of a sum"):
        lp.Mixture([(1.0, preset), (1.0, lp.LambdaRank("map"))])
    with pytest.raises(lp.LambdaplugError, match="on a cluster each worker would learn"):
        preset.check_share()


# --- ordinary objectives -----------------------------------------------------------------------------------------

PRESETS = [
    lp.presets.lightgbm(),
    lp.presets.lightgbm(5, False, 2.0, (0.0, 1.0, 2.0, 3.0, 4.0)),
    lp.presets.lightgbm_xendcg(3),
    lp.presets.xgboost("ndcg"),
    lp.presets.xgboost("pairwise", num_pair_per_sample=2, normalization=False),
    lp.presets.xgboost("ndcg", score_normalization=False, exp_gain=False),
]


@pytest.mark.parametrize("preset", PRESETS, ids=repr)
def test_presets_are_ordinary_objectives(preset):
    scores = np.random.default_rng(1).normal(size=len(Y)).astype(np.float32)
    gradient, hessian = preset.gradients(Y, scores, GROUP, iteration=3)
    assert np.any(gradient)
    assert preset == eval(f"lp.{preset!r}") == pickle.loads(pickle.dumps(preset))
    half = lp.Mixture([(0.5, preset), (0.5, preset)])
    np.testing.assert_array_equal(half.gradients(Y, scores, GROUP, iteration=3)[0], gradient)
    queries = lp.queries.Queries(Y, GROUP)
    np.testing.assert_array_equal(preset.differentiate(queries, scores, 3, 3), (gradient, hessian))
    assert all(array.size == 0 for array in preset.gradients(labels=[], scores=[], group=[]))
    assert str(preset.goal)


def test_random_pairs_are_refused_for_versions_that_draw_others(monkeypatch):
    for version, refused in (("3.1.2", False), ("3.2.0", False), ("3.0.5", True), ("3.4.1", True)):
        monkeypatch.setattr("lambdaplug.hosts.presets.version", lambda _, found=version: found)
        if refused:
            with pytest.raises(lp.LambdaplugError, match=rf"drawn as XGBoost 3.1 and 3.2 .* here is {version[:3]}"):
                lp.presets.xgboost("ndcg", "mean")
        else:
            lp.presets.xgboost("ndcg", "mean")


def test_what_a_preset_refuses():
    with pytest.raises(lp.LambdaplugError, match=r"labels 0, 1, ..., 30, as its host does; got labels from 0 to 0.5"):
        lp.presets.lightgbm().gradients([0.5, 0], [0, 0], [2])
    with pytest.raises(lp.LambdaplugError, match=r"presets.xgboost\(objective=.map.\) takes the labels 0, 1, ..., 1"):
        lp.presets.xgboost("map").gradients(labels=[2, 0], scores=[0, 0], group=[2])
    with pytest.raises(lp.LambdaplugError, match="weights must be one per query"):
        lp.presets.xgboost("ndcg").gradients(labels=[2, 0, 1], scores=[0, 0, 0], group=[3], weight=[1, 2, 3])
    for make, message in [
        (lambda: lp.presets.lightgbm(0), "truncation_level: expected an integer >= 1, got 0"),
        (lambda: lp.presets.lightgbm(sigmoid=0), "sigmoid: expected a positive number"),
        (lambda: lp.presets.lightgbm_xendcg(-1), "seed: expected an integer from 0 to"),
        (lambda: lp.presets.xgboost("mrr"), r"expected one of \['ndcg', 'map', 'pairwise'\], got 'mrr'"),
        (lambda: lp.presets.xgboost("ndcg", "all"), "pair_method: expected one of"),
        (lambda: lp.presets.xgboost("ndcg", num_pair_per_sample=0), "num_pair_per_sample: expected"),
        (lambda: lp.presets.xgboost("ndcg", unbiased=True, bias_norm=-1), "bias_norm: expected a finite number >= 0"),
    ]:
        with pytest.raises(lp.LambdaplugError, match=message):
            make()


# --- the two normalisations, for every measure -------------------------------------------------------------------


def test_both_normalisations_of_ndcg_are_lightgbms_norm():
    """But for its table of sigmoids, which moves a margin by up to 5e-5."""
    scores = np.random.default_rng(0).normal(size=len(Y))
    mine = lp.LambdaRank("ndcg", cost=lp.RankNet(distance=0.01), normalize="log").gradients(Y, scores, GROUP)
    theirs = lp.presets.lightgbm(truncation_level=1000).gradients(Y, scores, GROUP)
    for a, b in zip(mine, theirs, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-4 * np.abs(b).max())


def test_normalisations_mix_and_are_refused_where_they_mean_nothing():
    objective = lp.LambdaRank("map", cost=lp.RankNet(distance=0.01), normalize="log")
    scores = np.random.default_rng(0).normal(size=len(Y))
    one = objective.gradients(Y, scores, GROUP)
    for sum_of_one in (lp.Mixture([(1.0, objective)]), lp.Graded([objective])):
        np.testing.assert_array_equal(sum_of_one.gradients(Y, scores, GROUP), one)
    steps = lp.LambdaRank("map", cost=lp.RankNet(distance=0.01), step="gradient", normalize="log")
    np.testing.assert_array_equal(steps.gradients(Y, scores, GROUP), (one[0], np.ones(len(Y))))
    with pytest.raises(lp.LambdaplugError, match="in a sum of objectives, for its parts"):
        lp.Mixture([(1.0, objective)], normalize="log")
    with pytest.raises(lp.LambdaplugError, match="normalize: expected 'std', 'none' or None"):
        lp.LambdaRank("map", normalize="sum")


def yetirank(scores, labels, noisy, decay):
    """CatBoost's classic weights in one noisy order."""
    gradient, hessian = np.zeros((2, len(scores)))
    order = np.argsort(-noisy, kind="stable").tolist()
    for place, (a, b) in enumerate(itertools.pairwise(order)):
        weight = 0.15 * decay**place * abs(labels[a] - labels[b])
        i, j = (a, b) if labels[a] > labels[b] else (b, a)
        rho = 1.0 / (1.0 + math.exp(scores[i] - scores[j]))
        gradient[i] -= weight * rho
        gradient[j] += weight * rho
        hessian[[i, j]] += weight * rho * (1.0 - rho)
    return gradient, hessian


def test_yetirank_has_catboosts_weights():
    random = np.random.default_rng(0)
    scores, labels, offsets = random.normal(size=9), random.integers(0, 5, 9), np.array([0, 9])
    state, noisy = np.empty(1, np.uint32), np.empty(9)
    label_hash_kernel()(labels.astype(float), offsets, state)
    expected = np.zeros((2, 9))
    for sample in range(3):
        noise_kernel("logistic")(scores, (state, 7, sample, 1.0), offsets, 0, 1, noisy)
        expected += np.array(yetirank(scores, labels, noisy, 0.7)) / 3
    found = lp.presets.catboost_yetirank(decay=0.7, permutations=3, seed=7).gradients(labels, scores, [9])
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-9)


def test_yetirank_is_a_value_and_trains():
    preset = lp.presets.catboost_yetirank()
    assert preset == lp.presets.catboost_yetirank(0.85, 10) == pickle.loads(pickle.dumps(preset))
    assert "Decay(0.85)" in repr(preset)
    untrained = lp.evaluate("ndcg@10", Y, X[:, 0], GROUP)["ndcg@10"]
    assert lp.evaluate("ndcg@10", Y, train_lightgbm(preset, 20).predict(X), GROUP)["ndcg@10"] > untrained + 0.2
    for wrong, message in (((1.0,), "decay must lie between 0 and 1"), ((0.5, 0), "permutations: expected an integer")):
        with pytest.raises(lp.LambdaplugError, match=message):
            lp.presets.catboost_yetirank(*wrong)
