"""The hosts' own objectives, tree for tree, and their two normalisations for every measure."""

import copy
import itertools
import json
import math
import pickle

import lightgbm as lgb
import numpy as np
import oracle
import pytest
import xgboost as xgb
from hypothesis import given, settings
from hypothesis import strategies as st

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
QUIET = {
    "verbose": -1,
    "num_threads": 1,
    "num_leaves": 15,
    "learning_rate": 0.1,
    "min_data_in_leaf": 5,
    "metric": "None",
}


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


@pytest.mark.parametrize("truncation", [5, 30, 1000])
@pytest.mark.parametrize("norm", [True, False])
@pytest.mark.parametrize("sigmoid", [1.0, 2.0])
def test_lightgbm_lambdarank_tree_for_tree(sigmoid, norm, truncation):
    builtin = {
        "objective": "lambdarank",
        "sigmoid": sigmoid,
        "lambdarank_norm": norm,
        "lambdarank_truncation_level": truncation,
    }
    assert_same_lightgbm(lp.presets.lightgbm(truncation, norm, sigmoid), builtin, 200)


@pytest.mark.parametrize("rounds", [1, 50])
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
def test_lightgbm_lambdarank_however_it_is_trained(rounds, further, weight):
    assert_same_lightgbm(lp.presets.lightgbm(), {"objective": "lambdarank"}, rounds, further, weight)


def test_lightgbm_lambdarank_with_gains_of_ones_own():
    gains = [0, 1, 4, 5, 20]
    assert_same_lightgbm(lp.presets.lightgbm(label_gain=gains), {"objective": "lambdarank", "label_gain": gains}, 50)


@pytest.mark.parametrize("weight", [None, DOCUMENT_WEIGHT], ids=["plain", "weighted"])
@pytest.mark.parametrize("seed", [5, 77])
def test_lightgbm_xendcg_tree_for_tree(seed, weight):
    assert_same_lightgbm(
        lp.presets.lightgbm_xendcg(seed), {"objective": "rank_xendcg", "objective_seed": seed}, 200, None, weight
    )


# --- XGBoost -----------------------------------------------------------------------------------------------------


XGBOOST_VERSION = tuple(map(int, xgb.__version__.split(".")[:2]))
SINCE = {"normalization": (2, 1), "score_normalization": (3, 0), "pair_method": (3, 1)}  # before, it drew other pairs


def skip_what_this_version_lacks(options):
    for name in options:
        if SINCE.get(name, (2, 0)) > XGBOOST_VERSION:
            pytest.skip(f"XGBoost has this {name} since {SINCE[name]}")


def xgboost_trees(model):
    return json.loads(model.save_raw("json"))["learner"]["gradient_booster"]["model"]["trees"]


def train_xgboost(objective, rounds, further=None, weight=None, labels=Y, **options):
    data = xgb.DMatrix(X, labels, group=GROUP, weight=weight)
    given = {"nthread": 1, "max_depth": 4, "min_child_weight": 0.01, "base_score": 0, "disable_default_eval_metric": 1}
    if isinstance(objective, str):
        return xgb.train({**given, "objective": objective, **(further or {})}, data, rounds, **options)
    return xgb.train(given, data, rounds, obj=objective, callbacks=[lp.callback(objective)], **options)


@pytest.mark.parametrize("weight", [None, QUERY_WEIGHT], ids=["plain", "weighted"])
@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (kind, options)
        for kind in ("ndcg", "map", "pairwise")
        for options in (
            {},
            {"num_pair_per_sample": 5, "normalization": False},
            {"score_normalization": False},
            {"pair_method": "mean"},
            {"pair_method": "mean", "num_pair_per_sample": 3, "normalization": False, "score_normalization": False},
        )
    ]
    + [("ndcg", {"exp_gain": False}), ("ndcg", {"exp_gain": False, "pair_method": "mean", "num_pair_per_sample": 2})],
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
        np.testing.assert_array_equal(np.array([curve.plus, curve.minus], np.float32), learned(built_in))


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
    lp.presets.xgboost("pairwise", "mean", 2, normalization=False),
    lp.presets.xgboost("ndcg", score_normalization=False, exp_gain=False),
]


@pytest.mark.parametrize("preset", PRESETS, ids=repr)
def test_presets_are_ordinary_objectives(preset):
    scores = np.random.default_rng(1).normal(size=len(Y)).astype(np.float32)
    gradient, hessian = preset.gradients(Y, scores, GROUP, iteration=3)
    assert gradient.dtype == np.float32
    assert np.any(gradient)
    for twin in (pickle.loads(pickle.dumps(preset)), copy.deepcopy(preset), eval(f"lp.{preset!r}")):
        np.testing.assert_array_equal(twin.gradients(Y, scores, GROUP, iteration=3), (gradient, hessian))
    half = lp.Mixture([(0.5, preset), (0.5, preset)])
    np.testing.assert_array_equal(half.gradients(Y, scores, GROUP, iteration=3)[0], gradient)
    other = lp.LambdaRank("map")
    mixed = lp.interpolate(preset, other, weight=lp.linear(0.0, 0.25)).gradients(Y, scores, GROUP, iteration=2)[0]
    parts = [objective.gradients(Y, scores, GROUP, iteration=2)[0] for objective in (preset, other)]
    np.testing.assert_allclose(mixed, 0.5 * parts[0] + 0.5 * parts[1], atol=1e-6)
    queries = lp.queries.Queries(Y, GROUP)
    for threads in (1, 3):
        np.testing.assert_array_equal(preset.differentiate(queries, scores, 3, threads), (gradient, hessian))
    assert all(array.size == 0 for array in preset.gradients(labels=[], scores=[], group=[]))
    assert str(preset.target)


def test_a_mixture_of_presets_follows_a_schedule_in_both_hosts():
    presets = lp.presets.lightgbm(), lp.presets.xgboost("ndcg", "mean")
    moving = lp.interpolate(*presets, weight=lp.linear(0.0, 0.1))
    assert lightgbm_trees(train_lightgbm(moving, 1)) == lightgbm_trees(train_lightgbm(presets[0], 1))
    assert xgboost_trees(train_xgboost(moving, 1)) == xgboost_trees(train_xgboost(presets[0], 1))
    for train in (train_lightgbm, train_xgboost):
        model = train(moving, 20)
        scores = model.predict(X if train is train_lightgbm else xgb.DMatrix(X))
        assert lp.evaluate("ndcg@10", Y, scores, GROUP)["ndcg@10"] > 0.75


def test_lightgbm_in_xgboost_has_the_gradients_of_lightgbm():
    weight = QUERY_WEIGHT.astype(np.float32)
    seen = {}

    def spy(scores, data):
        seen["scores"], seen["out"] = scores.copy(), preset(scores, data)
        return seen["out"]

    preset = lp.presets.lightgbm()
    data = xgb.DMatrix(X, Y, group=GROUP, weight=weight)
    xgb.train({"nthread": 1, "base_score": 0, "disable_default_eval_metric": 1}, data, 3, obj=spy)
    builtin = lgb.Booster(
        {**QUIET, "objective": "lambdarank"},
        lgb.Dataset(
            X, Y, group=GROUP, weight=np.repeat(weight, GROUP), init_score=seen["scores"].astype(float)
        ).construct(),
    )
    builtin.update()
    plain = lgb.train(
        {**QUIET, "objective": lambda _scores, _data: seen["out"]},
        lgb.Dataset(X, Y, group=GROUP, init_score=seen["scores"].astype(float)),
        1,
    )
    assert lightgbm_trees(builtin) == lightgbm_trees(plain)


def test_the_rankers_grow_the_same_trees_too():
    settings = {"n_estimators": 10, "num_leaves": 7, "n_jobs": 1, "verbose": -1}
    mine = lp.LGBMRanker(objective=lp.presets.lightgbm(), **settings).fit(X, Y, group=GROUP)
    theirs = lgb.LGBMRanker(objective="lambdarank", **settings).fit(X, Y, group=GROUP)
    assert lightgbm_trees(mine.booster_) == lightgbm_trees(theirs.booster_)
    settings = {"n_estimators": 10, "max_depth": 3, "n_jobs": 1, "base_score": 0}
    query = np.repeat(np.arange(QUERIES), GROUP)
    mine = lp.XGBRanker(objective=lp.presets.xgboost("ndcg"), **settings).fit(X, Y, qid=query)
    theirs = xgb.XGBRanker(objective="rank:ndcg", **settings).fit(X, Y, qid=query)
    assert xgboost_trees(mine.get_booster()) == xgboost_trees(theirs.get_booster())


def test_what_a_preset_refuses():
    with pytest.raises(lp.LambdaplugError, match=r"labels 0, 1, ..., 30, as its host does; got labels from 0 to 0.5"):
        lp.presets.lightgbm().gradients([0.5, 0], [0, 0], [2])
    with pytest.raises(lp.LambdaplugError, match=r"presets.xgboost\('map'\) takes the labels 0, 1, ..., 1"):
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
        (lambda: lp.presets.xgboost("ndcg", bias_norm=2), "bias_norm: it belongs to unbiased=True"),
        (lambda: lp.presets.xgboost("ndcg", unbiased=True, bias_norm=-1), "bias_norm: expected a finite number >= 0"),
    ]:
        with pytest.raises(lp.LambdaplugError, match=message):
            make()


# --- the two normalisations, for every measure -------------------------------------------------------------------


def expected(name, scores, labels, sigma, distance, log, weight=None):
    """One query by the formulas, in plain Python."""
    apart = distance if max(scores) != min(scores) else None

    def cost(margin):
        rho, bend = oracle.ranknet(margin)
        divisor = apart + abs(margin) / sigma if apart else 1.0
        return rho / divisor, bend / divisor

    weight = [1.0] * len(scores) if weight is None else weight
    gradient, hessian = oracle.gradients(name, scores, labels, sigma, weight, cost)
    if not log:
        return gradient, hessian
    pairs = [(i, j) for i in range(len(scores)) for j in range(i)]
    alone = [
        oracle.gradients(name, scores, labels, sigma, weight, cost, lambda a, b, p=p: {a, b} == set(p)) for p in pairs
    ]
    total = sum(np.abs(one[0]).sum() for one in alone)
    scale = math.log2(1 + total) / total if total > 0 else 1.0
    return gradient * scale, hessian * scale


# The measures stand for the kernel's kinds; every combination would be a kernel more to compile.
NORMALISED = [
    *((name, 0.01, True, False) for name in ("ndcg", "ndcg@3", "map", "err", "pairs")),
    ("map", 1.0, False, False),
    ("map", 0.0, True, False),
    ("mrr", 0.01, True, True),
]


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from([-1.0, -0.25, 0.0, 1e-4, 0.5, 3.0]), st.integers(0, 4)), max_size=6),
    st.sampled_from(NORMALISED),
    st.sampled_from([0.5, 1.0, 2.0]),
    st.sampled_from([1.0, 30.0]),  # the second is too wide for the fast path
)
def test_normalisations_against_plain_python(rows, kind, sigma, stretch):
    name, distance, log, weighted = kind
    scores, labels = [stretch * score for score, _ in rows], [*(label for _, label in rows), 4]
    scores.append(0.1)  # the largest label there is: err's scale
    weight = [1.0 + i % 3 for i in range(len(scores))] if weighted and len(scores) > 1 else None
    objective = lp.LambdaRank(name, sigma=sigma, cost=lp.RankNet(distance=distance), normalize="log" if log else None)
    truth = expected(name, scores, labels, sigma, distance, log, weight)
    queries = lp.queries.Queries(labels, [len(labels)], document_weight=weight)
    # Changes of err are differences of nearly equal sums, and the oracle's rho (1 - rho) cancels near 0: 1e-15.
    for exact, tolerance in ((False, 2e-6), (True, 1e-10)):
        found = objective.differentiate(queries, scores, exact=exact, dtype=np.float64)
        for mine, its in zip(found, truth, strict=True):
            np.testing.assert_allclose(mine, its, rtol=tolerance, atol=tolerance * max(1e-9, np.abs(its).max()) + 1e-14)


@pytest.mark.parametrize("measure", ["ndcg", "ndcg@10", "map", "err@10"])
def test_fast_and_exact_agree_on_long_lists(measure):
    random = np.random.default_rng(0)
    labels, scores = random.integers(0, 5, 700), random.normal(size=700) + 1e5
    objective = lp.LambdaRank(measure, cost=lp.RankNet(distance=0.01), normalize="log")
    queries = lp.queries.Queries(labels, [300, 400])
    fast, exact = (objective.differentiate(queries, scores, exact=x, dtype=np.float64) for x in (False, True))
    for mine, its in zip(fast, exact, strict=True):
        np.testing.assert_allclose(mine, its, rtol=0, atol=2e-6 * np.abs(its).max())


def test_both_normalisations_of_ndcg_are_lightgbms_norm():
    """But for its table of sigmoids, which moves a margin by up to 5e-5."""
    scores = np.random.default_rng(0).normal(size=len(Y))
    mine = lp.LambdaRank("ndcg", cost=lp.RankNet(distance=0.01), normalize="log").gradients(Y, scores, GROUP)
    theirs = lp.presets.lightgbm(truncation_level=1000).gradients(Y, scores, GROUP)
    for a, b in zip(mine, theirs, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-4 * np.abs(b).max())


def test_normalisations_mix_say_themselves_and_are_refused_where_they_mean_nothing():
    objective = lp.LambdaRank("map", cost=lp.RankNet(distance=0.01), normalize="log")
    assert repr(objective) == "LambdaRank('map', cost=RankNet(distance=0.01), normalize='log')"
    scores = np.random.default_rng(0).normal(size=len(Y))
    one = objective.gradients(Y, scores, GROUP)
    for sum_of_one in (lp.Mixture([(1.0, objective)]), lp.Graded([objective])):
        np.testing.assert_array_equal(sum_of_one.gradients(Y, scores, GROUP), one)
    clicks = lp.Graded([objective, lp.LambdaRank("cndcg", labels=BINARY, normalize="log")], weights=[0.5, 0.5])
    assert np.isfinite(clicks.gradients(Y, scores, GROUP)).all()
    steps = lp.LambdaRank("map", step="gradient", normalize="log").gradients(Y, scores, GROUP)
    np.testing.assert_array_equal(steps[0], lp.LambdaRank("map", normalize="log").gradients(Y, scores, GROUP)[0])
    assert (steps[1] == 1).all()
    with pytest.raises(lp.LambdaplugError, match="give it to the parts"):
        lp.Mixture([(1.0, objective)], normalize="log")
    with pytest.raises(lp.LambdaplugError, match="'std', 'log', 'none' or None"):
        lp.LambdaRank("map", normalize="sum")
    with pytest.raises(lp.LambdaplugError, match="distance must be 0"):
        lp.RankNet(distance=-0.01)


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
    found = lp.presets.catboost_yetirank(decay=0.7, permutations=3, seed=7).gradients(
        labels=labels, scores=scores, group=[9]
    )
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-9)


def test_yetirank_is_a_value_and_trains():
    preset = lp.presets.catboost_yetirank()
    assert preset == lp.presets.catboost_yetirank(0.85, 10) == pickle.loads(pickle.dumps(preset))
    assert hash(preset) == hash(copy.deepcopy(preset))
    assert preset != lp.presets.catboost_yetirank(0.9)
    assert "Decay(0.85)" in repr(preset)
    untrained = lp.evaluate("ndcg@10", Y, X[:, 0], GROUP)["ndcg@10"]
    data = xgb.DMatrix(X, Y)
    data.set_group(GROUP)
    model = xgb.train({"max_depth": 4, "min_child_weight": 0, "lambda": 1e-3}, data, 20, obj=preset)
    for scores in (model.predict(data), train_lightgbm(preset, 20).predict(X)):
        assert lp.evaluate("ndcg@10", Y, scores, GROUP)["ndcg@10"] > untrained + 0.2
    for wrong, message in (((1.0,), "decay must lie between 0 and 1"), ((0.5, 0), "permutations: expected an integer")):
        with pytest.raises(lp.LambdaplugError, match=message):
            lp.presets.catboost_yetirank(*wrong)
