"""SPSA and FDSA against their definitions in plain Python, and what a random stream must be."""

import copy
import pickle

import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import VALUES, rank, scaled

import lambdaplug as lp
from lambdaplug.kernels import label_hash_kernel, sign_kernel
from lambdaplug.objectives.perturbation import simultaneous_slope
from lambdaplug.queries import Queries

NAMES = list(VALUES)
C = 0.5
# Multiples of c/2 make documents meet exactly where they are moved to: ties decide.
document = st.tuples(
    st.one_of(st.integers(-4, 4).map(lambda x: x * C / 2), st.floats(-2, 2, width=32), st.sampled_from([-1e9, 1e9])),
    st.integers(0, 4),
)
lists = st.lists(st.lists(document, max_size=7), min_size=1, max_size=4)


def unpack(name, queries):
    queries = [*queries, [(0.0, 4)]]  # keeps the largest label at 4
    scores = np.array([s for query in queries for s, _ in query])
    labels = np.array(scaled(name, [y for query in queries for _, y in query]), dtype=float)
    return scores, labels, [len(query) for query in queries]


def measured(name, scores, labels):
    value = VALUES[name]([labels[row] for row in rank(list(scores))]) if len(scores) else None
    return 0.0 if value is None else value


def split(group, *arrays):
    return zip(*(np.split(array, np.cumsum(group)[:-1]) for array in arrays), strict=True)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=15, deadline=None)
@given(queries=lists)
def test_finite_differences_are_two_values_a_document(name, queries):
    scores, labels, group = unpack(name, queries)
    found, ones = lp.FDSA(name, c=C, normalize="none").gradients(labels=labels, scores=scores, group=group)
    assert (ones == 1).all()
    for s, y, g in split(group, scores, labels, found):
        steps = C * np.eye(len(s))
        expected = [-(measured(name, s + d, y) - measured(name, s - d, y)) / (2 * C) for d in steps]
        np.testing.assert_allclose(g, expected, rtol=1e-5, atol=1e-7)


def signs(scores, labels, group, seed=0, draw=0):
    offsets = np.concatenate([[0], np.cumsum(group)])
    hashes, found = np.empty(len(group), np.uint32), np.empty(len(scores))
    label_hash_kernel()(labels, offsets, hashes)
    sign_kernel()(scores, (hashes, seed, draw), offsets, found)
    return found


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=10, deadline=None)
@given(queries=lists, iteration=st.sampled_from([0, 7]), evaluations=st.sampled_from([2, 6]))
def test_simultaneous_perturbation_is_its_definition(name, queries, iteration, evaluations):
    scores, labels, group = unpack(name, queries)
    objective = lp.SPSA(name, c=C, evaluations=evaluations, seed=3, normalize="none")
    found, ones = objective.gradients(labels=labels, scores=scores, group=group, iteration=iteration)
    assert (ones == 1).all()
    expected = np.zeros(len(scores))
    c = C / (iteration + 1) ** 0.101
    for draw in range(evaluations // 2):
        delta = signs(scores, labels, group, seed=3, draw=draw)
        for s, y, d, rows in split(group, scores, labels, delta, np.arange(len(scores))):
            gain = measured(name, s + c * d, y) - measured(name, s - c * d, y)
            expected[rows] -= gain / (2 * c * d) / (evaluations // 2)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7)


def test_signs_are_fair_coins_of_the_query_alone():
    group, rng = [1000] * 20, np.random.default_rng(0)
    scores, labels = rng.normal(size=20_000), rng.integers(0, 5, 20_000).astype(float)
    delta = signs(scores, labels, group)
    assert set(delta) == {-1.0, 1.0}
    moved, relabelled = scores.copy(), labels.copy()
    moved[::1000] += 1e-6  # one document of each query, by a few float32
    relabelled[999::1000] += 1
    others = [signs(scores, labels, group, seed=1), signs(scores, labels, group, seed=1 << 40)]
    others += [signs(scores, labels, group, draw=1), signs(moved, labels, group), signs(scores, relabelled, group)]
    others.append(np.roll(delta, 1))
    for other in others:  # sums of 20,000 coins: standard deviation 141
        assert abs(other.sum()) < 5 * 141
        assert abs((delta * other).sum()) < 5 * 141
    queries = delta.reshape(20, 1000)
    assert np.abs(queries @ queries.T - 1000 * np.eye(20)).max() < 5 * 32
    # Wherever the query stands, and in single precision too.
    some = slice(5000, 7000)
    np.testing.assert_array_equal(signs(scores[some], labels[some], [1000, 1000]), delta[some])
    single = scores.astype(np.float32).astype(float)
    np.testing.assert_array_equal(signs(single, labels, group), delta)


def test_the_estimate_is_unbiased_on_a_smooth_function():
    rng = np.random.default_rng(0)
    group, draws = [6, 1, 9], 20_000
    offsets = np.concatenate([[0], np.cumsum(group)])
    scores, labels = rng.normal(size=16), rng.integers(0, 3, 16)
    labels[-1] = 2
    smooth = lp.Approx("ndcg", alpha=1.0)

    def value(perturbed):
        return np.nan_to_num(smooth.value(labels, perturbed, group, per_query=True))

    c = 1e-3
    truth = -smooth.differentiate(Queries(labels, group), scores, dtype=np.float64)[0]
    few = np.array([simultaneous_slope(value, scores, offsets, c=c, draws=1, seed=m) for m in range(400)])
    error = few.std(axis=0, ddof=1) / np.sqrt(len(few))
    assert (np.abs(few.mean(axis=0) - truth) <= 4 * error + 1e-6).all()
    # A quadratic has no third derivative, hence no bias at any c: the error goes on falling as 1/sqrt(draws).
    matrix = rng.normal(size=(5, 5))

    def quadratic(s):
        return np.array([s @ matrix @ s])

    there = rng.normal(size=5)
    slope = simultaneous_slope(quadratic, there, np.array([0, 5]), c=0.7, draws=draws)
    exact = (matrix + matrix.T) @ there
    error = np.sqrt((exact @ exact - exact**2) / draws)  # of the other documents' slopes
    assert (np.abs(slope - exact) <= 4 * error).all()
    assert error.max() < 0.1 * np.abs(exact).max()


def generated(queries=300, longest=30, seed=0):
    rng = np.random.default_rng(seed)
    group = rng.integers(0, longest, queries)
    group[:3] = 0, 1, 2
    return rng.normal(size=group.sum()), rng.integers(0, 4, group.sum()).astype(float), group


OBJECTIVES = {"SPSA": lp.SPSA("ndcg@10", evaluations=4, seed=1), "FDSA": lp.FDSA("err@5")}


@pytest.mark.parametrize("name", OBJECTIVES)
def test_what_holds_whatever_the_data(name, monkeypatch):
    monkeypatch.setattr("lambdaplug.queries.CHUNK_WORK", (1 << 13, 1 << 14))  # many small tasks
    objective = OBJECTIVES[name]
    scores, labels, group = generated()
    gradient, hessian = objective.gradients(labels=labels, scores=scores, group=group)
    assert (hessian == 1).all()
    queries = Queries(labels, group)
    assert len(queries.tasks(objective.cutoff, objective.divisible)) > 5
    for threads in (1, 2, 3):
        np.testing.assert_array_equal(objective.differentiate(queries, scores, threads=threads), (gradient, hessian))
    monkeypatch.setattr("lambdaplug.queries.CHUNK_WORK", (1 << 20, 1 << 20))
    np.testing.assert_array_equal(objective.gradients(labels=labels, scores=scores, group=group), (gradient, hessian))
    for g in split(group, gradient):
        assert not g[0].any() or g[0].std() == pytest.approx(1.0, rel=1e-5)
    for twin in (copy.deepcopy(objective), pickle.loads(pickle.dumps(objective))):
        assert repr(twin) == repr(objective)
        np.testing.assert_array_equal(twin.gradients(labels=labels, scores=scores, group=group), (gradient, hessian))
    weight = np.where(np.arange(len(group)) % 2, 2.0, 1.0)
    twice = objective.gradients(labels=labels, scores=scores, group=group, weight=weight)[0]
    np.testing.assert_allclose(twice, gradient * np.repeat(weight, group), rtol=1e-6)
    elsewhere = objective._with(labels=lp.LambdaRank("map", labels=labels).labels)
    np.testing.assert_array_equal(elsewhere.gradients(0 * labels, scores, group), (gradient, hessian))
    mixed = lp.Mixture([(0.5, objective), (0.5, lp.LambdaRank("map"))]).gradients(
        labels=labels, scores=scores, group=group
    )[0]
    parts = 0.5 * gradient + 0.5 * lp.LambdaRank("map").gradients(labels=labels, scores=scores, group=group)[0]
    np.testing.assert_allclose(mixed, parts, rtol=1e-4, atol=1e-6)
    with pytest.raises(lp.LambdaplugError, match="weights must be one per query"):
        objective.gradients(labels=labels, scores=scores, group=group, weight=np.arange(len(scores)))


def test_draws_change_with_seed_and_scores():
    scores, labels, group = generated(queries=20)
    objective = lp.SPSA("ndcg")
    first = objective.gradients(labels=labels, scores=scores, group=group)[0]
    assert not np.array_equal(first, objective.gradients(labels=labels, scores=scores + 1e-3, group=group)[0])
    assert not np.array_equal(first, lp.SPSA("ndcg", seed=1).gradients(labels=labels, scores=scores, group=group)[0])


def test_a_query_tosses_the_same_wherever_it_stands():
    scores, labels, group = generated(queries=20)
    objective = lp.SPSA("ndcg@10", evaluations=4, seed=1)
    rows = slice(int(group[:7].sum()), int(group[:15].sum()))
    found = objective.gradients(labels[rows], scores[rows], group[7:15])[0]
    np.testing.assert_array_equal(found, objective.gradients(labels=labels, scores=scores, group=group)[0][rows])
    # The iteration says how far scores are moved; with c_decay=0 it says nothing.
    still = lp.SPSA("ndcg", c_decay=0)
    assert still.constant
    assert not lp.SPSA("ndcg").constant
    np.testing.assert_array_equal(
        still.gradients(labels=labels, scores=scores, group=group),
        still.gradients(labels=labels, scores=scores, group=group, iteration=9),
    )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: lp.SPSA("ndcg", evaluations=3), "they come in pairs, so expected an even number, got 3"),
        (lambda: lp.SPSA("ndcg", evaluations=0), "evaluations: expected an integer >= 2"),
        (lambda: lp.SPSA("ndcg", c=0), "c: expected a positive number"),
        (lambda: lp.FDSA("ndcg", c=np.inf), "c: expected a positive number"),
        (lambda: lp.SPSA("ndcg", c_decay=-1), "c_decay: expected a finite number >= 0"),
        (lambda: lp.SPSA("ndcg", seed=-1), "seed: expected an integer from 0 to"),
        (lambda: lp.SPSA("ndcg", normalize="max"), "normalize: expected"),
        (lambda: lp.SPSA("ndcg", c=1e308).gradients([0, 1], [1e308, 0.0], [2]), "too large to be moved by c"),
    ],
)
def test_what_cannot_be_perturbed_is_refused(make, message):
    with pytest.raises(lp.LambdaplugError, match=message):
        make()


def test_objectives_say_what_they_are():
    objective = lp.SPSA("map", evaluations=8, c=0.1, c_decay=0.2, seed=5, normalize="none")
    assert repr(objective) == "SPSA('map', evaluations=8, c=0.1, c_decay=0.2, seed=5, normalize='none')"
    assert repr(lp.FDSA("map", c=0.1)) == "FDSA('map', c=0.1)"


DATA = lp.data.cubic(queries=150, documents=15, features=8, terms=10, noise=0.2)


def train(host, objective, rounds, callbacks=(), threads=1):
    if host == "LightGBM":
        parameters = {"objective": objective, "num_threads": threads, "verbose": -1, "metric": "None", "num_leaves": 7}
        data = lgb.Dataset(DATA.X, DATA.labels, group=DATA.group)
        return lgb.train(parameters, data, rounds, callbacks=list(callbacks)).predict(DATA.X)
    data = xgb.DMatrix(DATA.X, DATA.labels, qid=DATA.qid)
    parameters = {"nthread": threads, "disable_default_eval_metric": 1, "base_score": 0.0, "max_depth": 3}
    return xgb.train(parameters, data, rounds, obj=objective, callbacks=list(callbacks)).predict(data)


@pytest.mark.parametrize("host", ["LightGBM", "XGBoost"])
def test_boosters_learn(host):
    objective = lp.SPSA("ndcg@10", evaluations=8)
    scores = train(host, objective, 20)
    np.testing.assert_array_equal(scores, train(host, objective, 20, [lp.callback(objective)]))
    seen = []

    def by_hand(scores, _):
        seen.append(len(seen))
        return objective.gradients(DATA.labels, scores, DATA.group, iteration=seen[-1])

    np.testing.assert_array_equal(scores, train(host, by_hand, 20))
    plain = lp.evaluate("ndcg@10", DATA.labels, np.zeros(len(DATA.labels)), DATA.group)["ndcg@10"]
    for found in (scores, train(host, lp.FDSA("ndcg@10"), 20)):
        assert lp.evaluate("ndcg@10", DATA.labels, found, DATA.group)["ndcg@10"] > plain + 0.15


@pytest.mark.parametrize("host", ["LightGBM", "XGBoost"])
def test_a_continued_training_goes_on_as_if_it_had_not_stopped(host):
    objective = lp.SPSA("ndcg@10", evaluations=4)
    if host == "LightGBM":
        parameters = {"objective": objective, "num_threads": 1, "verbose": -1, "metric": "None", "num_leaves": 7}

        def trained(rounds, model=None):
            data = lgb.Dataset(DATA.X, DATA.labels, group=DATA.group, free_raw_data=False)
            return lgb.train(parameters, data, rounds, init_model=model)
    else:
        parameters = {"nthread": 1, "disable_default_eval_metric": 1, "base_score": 0.0, "max_depth": 3}
        data = xgb.DMatrix(DATA.X, DATA.labels, qid=DATA.qid)

        def trained(rounds, model=None):
            return xgb.train(parameters, data, rounds, obj=objective, xgb_model=model)

    X = DATA.X if host == "LightGBM" else xgb.DMatrix(DATA.X)
    np.testing.assert_array_equal(trained(6, trained(4)).predict(X), trained(10).predict(X))
