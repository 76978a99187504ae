"""Approx: the surrogate against its formula in plain Python, its gradient against central differences, its bounds."""

import math

import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import generated, log_discounts

import lambdaplug as lp
from lambdaplug.queries import Queries


def sigmoid(x):
    return 1 / (1 + math.exp(-x)) if x > 0 else math.exp(x) / (1 + math.exp(x)) if x > -700 else 0.0


def positions(scores, alpha):
    return [1 + sum(sigmoid(alpha * (t - s)) for j, t in enumerate(scores) if j != i) for i, s in enumerate(scores)]


def inside(position, k, beta):
    return 1.0 if k is None else sigmoid(beta * (k + 0.5 - position))


def discounted(labels, position, beta, k=None, gain=lambda label: 2**label - 1, ideal=True):
    value = sum(gain(y) / math.log2(1 + p) * inside(p, k, beta) for y, p in zip(labels, position, strict=True))
    best = sum(g * d for g, d in zip(sorted(map(gain, labels))[::-1], log_discounts(len(labels), k), strict=True))
    return value if not ideal else value / best if best else None


def average_precision(labels, position, beta, k=None):
    relevant = [p for y, p in zip(labels, position, strict=True) if y >= 1]
    total = 0.0
    for i, p in enumerate(relevant):
        above = 1 + sum(sigmoid(beta * (p - other)) for j, other in enumerate(relevant) if j != i)
        total += inside(p, k, beta) * above / p
    return total / len(relevant) if relevant else None


def reciprocal_rank(labels, position, beta, k=None):
    relevant = [p for y, p in zip(labels, position, strict=True) if y >= 1]
    weight = [math.exp(-beta * (p - min(relevant))) for p in relevant]
    share = [inside(p, k, beta) / p for p in relevant]
    return sum(w * x for w, x in zip(weight, share, strict=True)) / sum(weight) if relevant else None


def counted(labels, position, beta, k, total):
    return sum(inside(p, k, beta) for y, p in zip(labels, position, strict=True) if y >= 1) / total if total else None


SURROGATES = {
    "ndcg": discounted,
    "ndcg@3": lambda y, p, b: discounted(y, p, b, 3),
    "ndcg@2(gain='linear')": lambda y, p, b: discounted(y, p, b, 2, gain=float),
    "dcg": lambda y, p, b: discounted(y, p, b, ideal=False),
    "dcg@4": lambda y, p, b: discounted(y, p, b, 4, ideal=False),
    "map": average_precision,
    "map@3": lambda y, p, b: average_precision(y, p, b, 3),
    "mrr": reciprocal_rank,
    "mrr@2": lambda y, p, b: reciprocal_rank(y, p, b, 2),
    "p@3": lambda y, p, b: counted(y, p, b, 3, 3),
    "recall@2": lambda y, p, b: counted(y, p, b, 2, sum(v >= 1 for v in y)),
    "wta": lambda y, p, b: counted(y, p, b, 1, 1),
}
NAMES = list(SURROGATES)

# Whole numbers of sigmoid widths make ties and near ties likely at any alpha; the far ones are out of every reach.
document = st.tuples(
    st.one_of(st.integers(-3, 3).map(float), st.floats(-4, 4)),
    st.sampled_from([0.0, 0.0, -500.0, 500.0]),
    st.integers(0, 3),
)
lists = st.lists(st.lists(document, max_size=8), min_size=1, max_size=3)
steep = st.sampled_from([(1.0, 1.0), (10.0, 10.0), (100.0, 3.0), (300.0, 100.0)])


def unpack(queries, alpha):
    rows = np.array([row for query in queries for row in query], dtype=float).reshape(-1, 3)
    return rows[:, 0] / alpha + rows[:, 1], rows[:, 2].copy(), [len(query) for query in queries]


def by_query(group, *arrays):
    return zip(*(np.split(np.asarray(array), np.cumsum(group)[:-1]) for array in arrays), strict=True)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=25, deadline=None)
@given(queries=lists, steepness=steep)
def test_values_and_gradients_are_those_of_the_formula(name, queries, steepness):
    alpha, beta = steepness
    scores, labels, group = unpack(queries, alpha)
    objective = lp.Approx(name, alpha=alpha, beta=beta)
    found = objective.value(labels, scores, group, per_query=True)
    exact = objective.differentiate(Queries(labels, group), scores, dtype=np.float64)[0]
    gradient, hessian = objective.gradients(labels, scores, group)
    np.testing.assert_allclose(gradient, exact, rtol=1e-6, atol=1e-30)
    assert (hessian > 0).all()
    step = 1e-5 / alpha / max(1.0, beta / 10)
    for s, y, g, v in zip(*list(zip(*by_query(group, scores, labels, exact), strict=True)), found, strict=True):
        expected = SURROGATES[name](y, positions(s, alpha), beta) if len(s) else None
        if expected is None:
            assert math.isnan(v)
            assert not g.any()
            continue
        assert v == pytest.approx(expected, rel=1e-9, abs=1e-12)
        slope = []
        for i in range(len(s)):
            there, back = (
                SURROGATES[name](y, positions(s + step * d * (np.arange(len(s)) == i), alpha), beta) for d in (1, -1)
            )
            slope.append(-(there - back) / (2 * step))
        np.testing.assert_allclose(g, slope, rtol=1e-4, atol=1e-4 * np.abs(slope).max() + 1e-8 * alpha)
        assert abs(g.sum()) <= 1e-9 * np.abs(g).sum() + 1e-12


def test_the_positions_of_the_papers_example():
    scores = [4.20074, 3.12378, 4.40918, 1.55258, 4.13330]
    expected = [2.00118, 4.00000, 1.00000, 5.00000, 2.99882]
    for document, position in enumerate(expected):
        labels = np.arange(5) == document
        value = lp.Approx("dcg", alpha=100).value(labels, scores, [5])  # 1/log2(1 + position)
        assert 2 ** (1 / value) - 1 == pytest.approx(position, abs=6e-6)
    assert expected == pytest.approx(positions(scores, 100), abs=6e-6)


@pytest.mark.parametrize("name", [*NAMES, "rbp", "cndcg@3", "ndcg@3(discount=[1,0.5,0.5,0.1])"])
def test_sharp_surrogates_are_the_measure(name):
    rng = np.random.default_rng(1)
    group = [0, 1, 2, 40, 7]
    scores, labels = rng.permutation(50).astype(float), rng.integers(0, 4, 50) / (4 if name[0] == "c" else 1)
    found = lp.Approx(name, alpha=300, beta=200).value(labels, scores, group, per_query=True)
    np.testing.assert_allclose(found, lp.evaluate(name, labels, scores, group, per_query=True)[name], atol=1e-9)
    mean = lp.Approx(name, alpha=300, beta=200).value(labels, scores, group)
    assert mean == pytest.approx(lp.evaluate(name, labels, scores, group)[name])


@pytest.mark.parametrize("name", ["rbp", "ndcg(discount=[1,0.5,0.5,0.1])", lp.NDCG(k=4, discount=lambda r: 1 / r**2)])
def test_a_discount_without_a_formula_is_interpolated_smoothly(name):
    rng = np.random.default_rng(2)
    scores, labels = rng.normal(size=12), rng.integers(0, 4, 12).astype(float)
    objective = lp.Approx(name, alpha=4.0)
    gradient = objective.differentiate(Queries(labels, [12]), scores, dtype=np.float64)[0]
    bumps = 1e-6 * np.eye(12)
    values = [[objective.value(labels=labels, scores=scores + d * bump, group=[12]) for d in (1, -1)] for bump in bumps]
    np.testing.assert_allclose(gradient, [(b - a) / 2e-6 for a, b in values], rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("spread", [0.0, 1e-300, 1e3, 1e300])
def test_nothing_overflows(name, spread):
    rng = np.random.default_rng(3)
    group = [0, 1, 2, 90, 90]
    scores, labels = spread * rng.uniform(-1, 1, 183), rng.integers(0, 4, 183)
    scores[100:120] = scores[100]
    with np.errstate(all="raise"):
        for beta in (0.01, 100.0):
            gradient, hessian = lp.Approx(name, alpha=300, beta=beta).gradients(labels, scores, group)
            assert np.isfinite(gradient).all()
            assert np.isfinite(hessian).all()
            assert (hessian > 0).all()


def test_hessians():
    scores, labels, group = generated(longest=40, labels=4)
    for alpha in (1.0, 20.0):
        gradient, hessian = lp.Approx("ndcg", alpha=alpha).gradients(labels, scores, group)
        assert (np.abs(gradient) <= 4 * hessian / alpha * (1 + 1e-5)).all()  # a step is at most the sigmoid's width
        query, n = int(np.argmax(group)), int(group.max())
        rows = slice(group[:query].sum(), group[: query + 1].sum())
        s, y = scores[rows], labels[rows]
        p = np.array(positions(s, alpha))
        ideal = np.sum(np.sort(2**y - 1)[::-1] / np.log2(np.arange(2, n + 2)))
        w = -(2**y - 1) / np.log2(1 + p) ** 2 / (1 + p) / np.log(2) / ideal
        q = np.array([[sigmoid(alpha * (t - u)) for t in s] for u in s])
        expected = alpha**2 / 4 * (q * (1 - q) * np.abs(w[:, None] - w)).sum(axis=1)
        np.testing.assert_allclose(hessian[rows], expected, rtol=1e-5, atol=1e-12)
    raw, ones = lp.Approx("ndcg", hessian="constant").gradients(labels, scores, group)
    assert (ones == 1).all()
    np.testing.assert_array_equal(raw, lp.Approx("ndcg").gradients(labels, scores, group)[0])


def test_a_document_without_a_label_keeps_its_place():
    own = {"judged": [np.nan, 1, 0]}
    unlabelled = lp.Approx("ndcg", labels="judged").gradients([0, 0, 0], [3.0, 2.9, 1.0], [3], columns=own)
    np.testing.assert_array_equal(unlabelled, lp.Approx("ndcg").gradients([0, 1, 0], [3.0, 2.9, 1.0], [3]))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: lp.Approx("err"), "err has no form in smooth positions; cndcg, dcg, map, mrr, ndcg, p, rbp, recall"),
        (
            lambda: lp.Approx("ndcg", alpha=0).gradients([0, 1], [0, 1], [2]),
            "alpha is 0 at iteration 0; it must be pos",
        ),
        (lambda: lp.Approx("map", beta=math.nan), "beta: expected a finite number >= 0, or a schedule such as lp.cosi"),
        (lambda: lp.Approx("ndcg", alpha=lp.on_plateau("map")), "alpha: lp.on_plateau moves a mixture's weights"),
        (lambda: lp.Approx("ndcg", hessian="newton"), "hessian: expected 'gauss_newton' or 'constant', got 'newton'"),
        (lambda: lp.Approx("ndcg", normalize="max"), "normalize: expected"),
        (lambda: lp.Approx("ndcg").gradients([0, 1], [0, 1], [2], [1, 2]), "weights must be one per query"),
        (lambda: lp.Approx("ndcg").value([0, 1, 2], [0, 1], [3]), r"scores: expected one per row \(3\), got 2"),
    ],
)
def test_what_has_no_gradient_is_refused(make, message):
    with pytest.raises(lp.LambdaplugError, match=message):
        make()


# --- in the hosts ------------------------------------------------------------------------------------------------


DATA = lp.data.cubic(queries=150, documents=15, features=8, terms=10, noise=0.2)


def train(host, objective, rounds):
    if host == "LightGBM":
        data = lgb.Dataset(DATA.X, DATA.labels, group=DATA.group)
        parameters = {"objective": objective, "num_threads": 1, "verbose": -1, "num_leaves": 15, "metric": "None"}
        return lgb.train(parameters, data, rounds).predict(DATA.X)
    data = xgb.DMatrix(DATA.X, DATA.labels, qid=DATA.qid)
    parameters = {"nthread": 1, "disable_default_eval_metric": 1, "base_score": 0.0}
    return xgb.train(parameters, data, rounds, obj=objective).predict(data, output_margin=True)


@pytest.mark.filterwarnings("ignore:each leaf must hold")
@pytest.mark.parametrize("host", ["LightGBM", "XGBoost"])
@pytest.mark.parametrize("hessian", ["gauss_newton", "constant"])
@pytest.mark.parametrize("name", ["ndcg", "map(relevant=3)", "p@3(relevant=3)"])
def test_boosters_learn_with_their_default_parameters(host, hessian, name):
    objective = lp.Approx(name, hessian=hessian)
    values = [objective.value(DATA.labels, train(host, objective, rounds), DATA.group) for rounds in (1, 5, 25)]
    assert values[0] < values[1] < values[2]  # it climbs what it says it climbs


def test_a_sharpening_alpha_follows_the_rounds():
    scores, labels, group = generated()
    alpha = lp.cosine(2.0, 20.0, 8)
    objective = lp.Approx("ndcg", alpha=alpha)
    for iteration in (0, 4, 9):
        fixed = lp.Approx("ndcg", alpha=alpha(iteration)).gradients(labels, scores, group)
        np.testing.assert_array_equal(objective.gradients(labels, scores, group, iteration=iteration), fixed)
