"""Smoothed lambdas: their expectation, their limits, and that draws depend on nothing but the query."""

import functools
import itertools
import math

import numpy as np
import pytest
import scipy.stats

import lambdaplug as lp
from lambdaplug.kernels import label_hash_kernel, noise_kernel
from lambdaplug.measures import as_measure, swap_deltas

MEASURES = ["ndcg", "ndcg@2", "map", "mrr", "err(max_label=3)", "p@2", "pairs"]
KINDS = {"logistic": scipy.stats.logistic(), "normal": scipy.stats.norm()}


def force(measure, scores, labels, order, places=None):
    """The gradient whose deltas are those of this order, by a plain loop; with places, divided by 0.01 + their distance."""
    delta = swap_deltas(measure, [labels[i] for i in order])
    gain = as_measure(measure).gains(np.asarray(labels, float))
    gradient = np.zeros(len(scores))
    for a, b in itertools.permutations(range(len(scores)), 2):
        i, j = order[a], order[b]
        if gain[i] > gain[j]:
            pull = delta[a, b] / (1.0 + math.exp(scores[i] - scores[j]))
            pull /= 1.0 if places is None else 0.01 + abs(places[i] - places[j])
            gradient[i] -= pull
            gradient[j] += pull
    return gradient


@functools.cache  # the same for every measure
def probability(order, scores, noise, kind):
    """Of this order of two or three noisy scores, by integration."""
    x = np.linspace(-60.0, 60.0, 200_001)
    below = np.ones_like(x)  # of those after this one, all below x and in order
    for place, i in enumerate(reversed(order)):
        density = KINDS[kind].pdf((x - scores[i]) / noise) / noise * below
        below = np.concatenate([[0.0], np.cumsum(0.5 * (density[1:] + density[:-1]))]) * (x[1] - x[0])
        if place == len(order) - 1:
            return below[-1]
    raise AssertionError


def drawn(measure, scores, labels, calls=60, samples=400, **options):
    """Mean and standard error of the gradient over seeds."""
    found = np.array(
        [
            lp.LambdaRank(measure, samples=samples, seed=seed, **options).gradients(
                labels=labels, scores=scores, group=[len(scores)]
            )[0]
            for seed in range(calls)
        ],
        dtype=float,
    )
    return found.mean(axis=0), found.std(axis=0, ddof=1) / math.sqrt(calls)


@pytest.mark.parametrize(
    ("measure", "kind"),
    [*((measure, "logistic") for measure in MEASURES), ("ndcg", "normal"), ("err(max_label=3)", "normal")],
)
def test_the_expectation_is_the_integral(measure, kind):
    for scores, labels in (((0.3, -0.4), [0, 1]), ((0.5, 0.0, -0.7), [0, 3, 1]), ((0.1, 0.1, 1.5), [1, 0, 2])):
        expected = sum(
            probability(order, scores, 0.8, kind) * force(measure, scores, labels, order)
            for order in itertools.permutations(range(len(scores)))
        )
        mean, error = drawn(measure, scores, labels, noise=0.8, noise_kind=kind)
        assert np.all(np.abs(mean - expected) <= 4.5 * error + 2e-6)


@pytest.mark.parametrize("measure", MEASURES)
def test_the_limits(measure):
    random = np.random.default_rng(1)
    scores, labels = random.normal(size=5), [0, 1, 3, 0, 2]
    plain = lp.LambdaRank(measure).gradients(labels, scores, [5])
    for noise in (0.0, 1e-9):
        np.testing.assert_array_equal(
            lp.LambdaRank(measure, noise=noise, samples=3).gradients(labels, scores, [5]), plain
        )
    orders = list(itertools.permutations(range(5)))
    expected = np.mean([force(measure, scores, labels, order) for order in orders], axis=0)
    mean, error = drawn(measure, scores, labels, noise=1e6)
    assert np.all(np.abs(mean - expected) <= 4.5 * error + 2e-6)


def test_noise_is_what_it_says():
    scores, offsets = np.random.default_rng(0).normal(size=60_000), np.arange(0, 60_001, 30)
    for kind, distribution in KINDS.items():
        noisy = np.empty(60_000)
        draw = (np.arange(2000, dtype=np.uint32), 0, 0, 1.0)
        noise_kernel(kind)(scores, draw, offsets, 0, 2000, noisy)
        found = noisy - scores
        assert scipy.stats.kstest(found, distribution.cdf).pvalue > 1e-3
        for lag in (1, 30):
            assert abs(np.corrcoef(found[:-lag], found[lag:])[0, 1]) < 0.02
        other = np.empty(60_000)
        noise_kernel(kind)(scores, (*draw[:2], 1, 1.0), offsets, 0, 2000, other)  # the next sample
        assert abs(np.corrcoef(found, other - scores)[0, 1]) < 0.02


@pytest.mark.parametrize("spread", [1.0, 100.0])
@pytest.mark.parametrize("measure", ["ndcg", "ndcg@4", "map", "err(max_label=3)", "bpref"])
def test_distances_are_those_of_the_noisy_scores(measure, spread):
    random = np.random.default_rng(2)
    labels, scores = random.integers(0, 4, 12).astype(float), spread * random.normal(size=12)
    offsets, hashes, z = np.array([0, 12]), np.empty(1, np.uint32), np.empty(12)
    label_hash_kernel()(labels, offsets, hashes)
    noise_kernel("logistic")(scores, (hashes, 5, 0, 0.6), offsets, 0, 1, z)
    order = np.argsort(-z, kind="stable").tolist()
    expected = force(measure, scores, labels.tolist(), order, z)
    objective = lp.LambdaRank(measure, cost=lp.RankNet(distance=0.01), noise=0.6, seed=5)
    found = objective.gradients(labels, scores, [12])[0]
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-6 * np.abs(expected).max())


def test_long_lists_are_ranked_alike():
    # Up to a length by counting, beyond it by sorting, with a cut-off by picking the first.
    random = np.random.default_rng(0)
    for n in (256, 257, 700):
        scores, labels = random.normal(size=n), random.integers(0, 4, n)
        for measure in ("ndcg", "ndcg@10"):
            found = lp.LambdaRank(measure, noise=1.0).gradients(labels, scores, [n])[0]
            noisy = np.empty(n)
            states = np.empty(1, np.uint32)
            label_hash_kernel()(labels.astype(float), np.array([0, n]), states)
            noise_kernel("logistic")(scores, (states, 0, 0, 1.0), np.array([0, n]), 0, 1, noisy)
            expected = force(measure, scores, labels, np.argsort(-noisy, kind="stable").tolist())
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6 * np.abs(expected).max())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"noise": -1}, "noise: expected a finite number >= 0, or a schedule such as"),
        ({"noise": math.inf}, "noise: expected a finite number"),
        ({"noise": math.nan}, "noise: expected a finite number"),
        ({"noise": "1"}, "noise: expected a finite number"),
        ({"noise": 1, "samples": 0}, "samples: expected an integer >= 1, got 0"),
        ({"noise": 1, "samples": 1.5}, "samples: expected an integer >= 1"),
        ({"noise": 1, "neighbours": 0}, "neighbours: expected an integer >= 1, or None"),
        ({"neighbours": 1}, "neighbours: expected noise= beside it"),
        ({"noise": 1, "seed": -1}, "seed: expected an integer from 0 to"),
        ({"noise": 1, "noise_kind": "cauchy"}, "noise_kind: expected 'logistic', 'normal', 'gumbel', got 'cauchy'"),
        ({"noise": 1, "construction": "discrete_bounded"}, "has no pair cost, so noise= cannot smooth it"),
        ({"noise": lp.on_plateau("ndcg")}, "noise: lp.on_plateau moves a mixture's weights"),
    ],
)
def test_what_makes_no_sense_is_refused(options, message):
    with pytest.raises(lp.LambdaplugError, match=message):
        lp.LambdaRank("map", **options)
