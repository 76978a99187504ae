"""PLRank and StochasticRank: against enumerated rankings, integrals, plain formulas, and in both hosts."""

import itertools
import math

import numpy as np
import pytest
import scipy.stats

import lambdaplug as lp
from lambdaplug.kernels import (
    label_hash_kernel,
    noise_kernel,
    plackett_luce_kernel,
)
from lambdaplug.measures import as_measure
from lambdaplug.schedules import Moment

LINEAR = ["ndcg", "ndcg@2", "dcg@3", "cndcg", "rbp(p=0.7,max_label=1)", "p@2", "recall@3", "wta"]
ALL = [*LINEAR, "err(max_label=1)", "err@2(max_label=1)", "map", "map@3", "mrr", "mrr@2"]
LISTS = [  # scores, and labels that every measure takes
    ([0.3, -0.4], [0, 1]),
    ([0.5, 0.0, -0.7], [0, 1, 0.5]),
    ([1.5, 0.1, 0.1, -2.0], [0.25, 0, 1, 1]),
    ([0.0, 0.0, 2.0, -1.0, 0.4], [1, 0, 0, 0.5, 1]),
]


def values_of(measure, labels, orders):
    """The measure of these orders of the documents, 0 where it has none."""
    ranked = np.asarray(labels, float)[np.array(orders)]
    scores = np.tile(-np.arange(len(labels)), len(ranked))
    found = lp.evaluate(measure, ranked.ravel(), scores, [len(labels)] * len(ranked), per_query=True)
    return np.nan_to_num(next(iter(found.values())))


def values(measure, labels):
    """Every order of these documents, and the measure of each."""
    orders = list(itertools.permutations(range(len(labels))))
    return orders, values_of(measure, labels, orders)


def luce(order, scores):
    """The Plackett-Luce probability of an order."""
    ranked = np.asarray(scores)[list(order)]
    return math.exp(sum(ranked[r] - np.logaddexp.reduce(ranked[r:]) for r in range(len(ranked))))


def derivatives(mean, scores, step):
    """First and second, by central differences."""
    scores = np.asarray(scores, dtype=float)
    at = np.array([[mean(scores + d * step * unit) for unit in np.eye(len(scores))] for d in (-1, 0, 1)])
    return (at[2] - at[0]) / (2 * step), (at[2] - 2 * at[1] + at[0]) / step**2


# --- PLRank ------------------------------------------------------------------------------------------------------


def given_rankings(measure, scores, labels, orders, weights):
    """What the kernel makes of these rankings: the sums before they are made positive."""
    n = len(scores)
    sums = np.zeros((2, n))
    prepared = as_measure(measure).prepare(np.asarray(labels, float), np.array([0, n]))
    scores = np.asarray(scores, float)
    for order, weight in zip(np.array(orders, dtype=np.int32), weights, strict=True):
        own, discounts = (scores, scores, order, prepared.gain), (prepared.discount, prepared.k)
        plackett_luce_kernel()(own, discounts, (0.0, 0), weight * prepared.norm[0], tuple(sums))
    return sums


def enumerated(measure, scores, labels):
    orders, _ = values(measure, labels)
    return given_rankings(measure, scores, labels, orders, [luce(order, scores) for order in orders])


@pytest.mark.parametrize("measure", LINEAR)
def test_all_rankings_give_the_derivatives_of_the_mean(measure):
    for scores, labels in LISTS:
        orders, value = values(measure, labels)

        def mean(s, orders=orders, value=value):
            return sum(luce(order, s) * v for order, v in zip(orders, value, strict=True))

        first, second = derivatives(mean, scores, 1e-4)
        gradient, hessian = enumerated(measure, scores, labels)
        np.testing.assert_allclose(gradient, -first, atol=1e-8)
        np.testing.assert_allclose(hessian, -second, atol=1e-6)


@pytest.mark.parametrize("measure", LINEAR)
def test_sampled_rankings_are_right_on_average(measure):
    scores, labels = LISTS[-1]
    # One call of many queries, whose draws differ because their last document's score does, by nothing that matters.
    many = np.tile(scores, (500, 1))
    many[:, -1] += 1e-4 * np.arange(500)
    found = lp.PLRank(measure, samples=12).gradients(labels * 500, many.ravel(), [5] * 500)[0].reshape(500, 5)
    mean, error = found.mean(axis=0), found.std(axis=0, ddof=1) / math.sqrt(500)
    assert np.all(np.abs(mean - enumerated(measure, many[250], labels)[0]) <= 4.5 * error + 1e-6)


def test_scores_far_apart_lose_nothing():
    # The last two are tossed for among themselves, however far below the others they are.
    for far in (29.0, 31.0, 2000.0):
        scores, labels = [2 * far, far, 1.0, 0.0], [0, 1, 0, 1]
        orders = [[0, 1, 2, 3], [0, 1, 3, 2]]
        found = given_rankings("dcg", scores, labels, orders, [luce(order, scores) for order in orders])
        p = 1 / (1 + math.e)
        slope = p * (1 - p) * (1 / math.log2(4) - 1 / math.log2(5))
        np.testing.assert_allclose(found[0], [0, 0, slope, -slope], atol=1e-11)
    for scores in (np.array([1e4, -1e4, 0.0]), np.array([1e300, -1e300, 0.0])):
        gradient, hessian = lp.PLRank("ndcg").gradients([0, 1, 0], scores, [3])
        assert np.isfinite(gradient).all()
        assert (hessian > 0).all()


# --- StochasticRank ----------------------------------------------------------------------------------------------


def one_sample(measure, scores, labels, sigma=1.0, mu=0.0, seed=0):
    """The formula of the paper, place by place, with every value measured anew."""
    n = len(scores)
    hashes, z = np.empty(1, np.uint32), np.empty(n)
    label_hash_kernel()(np.asarray(labels, float), np.array([0, n]), hashes)
    noise_kernel("normal")(np.asarray(scores, float), (hashes, seed, 0, sigma), np.array([0, n]), 0, 1, z)
    e = (z - scores) / sigma
    a = np.asarray(scores) - sigma * mu * np.asarray(labels)
    z = a + sigma * e

    present = np.argsort(-z, kind="stable")
    now = values_of(measure, labels, [present])[0]
    slope = []
    for i in range(n):
        others = [j for j in present if j != i]
        placed = values_of(measure, labels, [[*others[:k], i, *others[k:]] for k in range(n)])
        mean, width = a[i] + sigma * (e.sum() - e[i]) / (n - 1), sigma * math.sqrt(n / (n - 1))
        density = np.concatenate([[0.0], scipy.stats.norm(mean, width).pdf(z[others]), [0.0]])
        slope.append((placed - now) @ np.diff(density))
    return -np.array(slope)


@pytest.mark.parametrize("measure", ALL)
def test_a_sample_is_the_papers_formula(measure):
    random = np.random.default_rng(0)
    for n, options in ((2, {}), (5, {"sigma": 0.5}), (6, {"sigma": 2.0, "mu": 0.7}), (9, {"seed": 3})):
        scores, labels = random.normal(size=n), random.choice([0.0, 0.5, 1.0], n)
        labels[random.integers(n)] = 1.0
        gradient, hessian = lp.StochasticRank(measure, **options).gradients(labels, scores, [n])
        np.testing.assert_allclose(gradient, one_sample(measure, scores, labels, **options), atol=2e-6)
        assert (hessian > 0).all()


def normal_mean(measure, labels):
    """The mean of the measure over scores plus normal noise, by integration."""
    orders, value = values(measure, labels)
    x = np.linspace(-9.0, 9.0, 3001)

    def probability(order, scores):
        below = np.ones_like(x)  # of those after this one, all below x and in order
        for i in reversed(order):
            density = scipy.stats.norm.pdf(x - scores[i]) * below
            below = np.concatenate([[0.0], np.cumsum(0.5 * (density[1:] + density[:-1]))]) * (x[1] - x[0])
        return below[-1]

    return lambda scores: sum(probability(o, scores) * v for o, v in zip(orders, value, strict=True) if v)


@pytest.mark.parametrize("measure", ALL)
def test_the_expectation_is_the_derivative_of_the_mean(measure):
    for scores, labels in LISTS[:3]:
        first, _ = derivatives(normal_mean(measure, labels), scores, 1e-2)
        n = len(scores)
        many = np.tile(scores, (400, 1))
        many[:, -1] += 1e-5 * np.arange(400)
        objective = lp.StochasticRank(measure, samples=10)
        found = objective.gradients(labels * 400, many.ravel(), [n] * 400)[0].reshape(400, n)
        error = found.std(axis=0, ddof=1) / 20.0
        assert np.all(np.abs(found.mean(axis=0) + first) <= 4.5 * error + 3e-4)


# --- both --------------------------------------------------------------------------------------------------------

DATA = lp.data.cubic(queries=60, documents=15, features=6, noise=0.3)
SCORES = np.random.default_rng(0).normal(size=len(DATA.labels)).astype(np.float32)


@pytest.mark.parametrize("make", [lp.PLRank, lp.StochasticRank])
def test_queries_without_an_order_and_documents_without_a_label(make):
    gradient, hessian = make("ndcg@10").gradients([1, 0, 0, 0], [1.0, 2.0, 0.5, 3.0], [1, 0, 2, 1])
    assert not gradient.any()
    assert (hessian > 0).all()
    assert len(make("ndcg").gradients([], [], [])[0]) == 0
    missing = make("ndcg", labels="judged").gradients(
        [0, 0, 0], [3.0, 2.9, 1.0], [3], columns={"judged": [np.nan, 1, 0]}
    )[0]
    assert missing[1] < 0


def test_sigma_and_mu_may_follow_schedules():
    moving = lp.StochasticRank("ndcg", sigma=lp.cosine(2.0, 0.5, 10), mu=lambda m: 0.1 * m)
    assert not moving.constant
    for iteration in (0, 4, 20):
        now = lp.StochasticRank("ndcg", sigma=lp.cosine(2.0, 0.5, 10)(iteration), mu=0.1 * iteration)
        assert moving.resolved(Moment(iteration)) == now
        np.testing.assert_array_equal(
            moving.gradients(DATA.labels, SCORES, DATA.group, iteration=iteration),
            now.gradients(DATA.labels, SCORES, DATA.group),
        )
    with pytest.raises(lp.LambdaplugError, match="sigma is -1 at iteration 2; it must be positive"):
        lp.StochasticRank("ndcg", sigma=lambda m: 1.0 - m).gradients([0, 1], [0.0, 1.0], [2], iteration=2)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: lp.PLRank("map"),
            "PLRank: expected one of the measures cndcg, dcg, ndcg, p, rbp, recall, wta, with or without a cut-off, got map. "
            "lp.StochasticRank also takes err, map and mrr; lp.LambdaRank",
        ),
        (lambda: lp.PLRank("meanndcg"), "got meanndcg"),
        (
            lambda: lp.StochasticRank("bpref"),
            "StochasticRank: expected one of the measures cndcg, dcg, err, map, mrr, ndcg, p, rbp, recall, wta, with or",
        ),
        (lambda: lp.StochasticRank(lp.custom("top", lambda labels: labels[0])), "got top"),
        (lambda: lp.PLRank("ndcg", samples=0), "samples: expected an integer >= 1, got 0"),
        (lambda: lp.PLRank("ndcg", seed=-1), "seed: expected an integer from 0 to"),
        (lambda: lp.PLRank("ndcg", hessian="newton"), "hessian: expected 'second' or 'constant', got 'newton'"),
        (lambda: lp.PLRank("ndcg", normalize="log"), "expected 'std', 'none' or None .*got 'log'"),
        (lambda: lp.StochasticRank("ndcg", sigma=math.nan), "sigma: expected a finite number"),
        (lambda: lp.StochasticRank("ndcg", mu=-1), "mu: expected a finite number >= 0"),
        (lambda: lp.StochasticRank("ndcg", mu=lp.on_plateau("ndcg")), "mu: lp.on_plateau moves a mixture's weights"),
        (lambda: lp.PLRank("ndcg").gradients([0, 1], [0, 1], [2], [1, 2]), "weights must be one per query"),
        (lambda: lp.StochasticRank("ndcg", hessian="second"), "hessian: expected 'gauss_newton' or 'constant'"),
    ],
)
def test_what_makes_no_sense_is_refused(make, message):
    with pytest.raises(lp.LambdaplugError, match=message):
        make()
