"""SPSA and FDSA against their definitions in plain Python, and what a random stream must be."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import VALUES, generated, rank, scaled

import lambdaplug as lp
from lambdaplug.kernels import label_hash_kernel, noise_kernel

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
    found, ones = lp.FDSA(name, c=C, normalize="none").gradients(labels, scores, group)
    assert (ones == 1).all()
    for s, y, g in split(group, scores, labels, found):
        steps = C * np.eye(len(s))
        expected = [-(measured(name, s + d, y) - measured(name, s - d, y)) / (2 * C) for d in steps]
        np.testing.assert_allclose(g, expected, rtol=1e-5, atol=1e-7)


def signs(scores, labels, group, seed=0, draw=0):
    offsets = np.concatenate([[0], np.cumsum(group)])
    hashes, found = np.empty(len(group), np.uint32), np.empty(len(scores))
    label_hash_kernel()(labels, offsets, hashes)
    noise_kernel("sign")(scores, (hashes, seed, draw, 1.0), offsets, 0, len(group), found)
    return np.sign(found - scores)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=10, deadline=None)
@given(queries=lists, iteration=st.sampled_from([0, 7]), evaluations=st.sampled_from([2, 6]))
def test_simultaneous_perturbation_is_its_definition(name, queries, iteration, evaluations):
    scores, labels, group = unpack(name, queries)
    objective = lp.SPSA(name, c=C, evaluations=evaluations, seed=3, normalize="none")
    found, ones = objective.gradients(labels, scores, group, iteration=iteration)
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
    delta, moved = signs(scores, labels, group), scores.copy()
    assert set(delta) == {-1.0, 1.0}
    moved[::1000] += 1e-6  # one document of each query, by a few float32
    others = signs(scores, labels, group, seed=1), signs(scores, labels, group, draw=1), signs(moved, labels, group)
    for other in (*others, np.roll(delta, 1)):  # sums of 20,000 coins: standard deviation 141
        assert abs(other.sum()) < 5 * 141
        assert abs((delta * other).sum()) < 5 * 141
    # Wherever the query stands, and in single precision too.
    some, single = slice(5000, 7000), scores.astype(np.float32).astype(float)
    np.testing.assert_array_equal(signs(scores[some], labels[some], [1000, 1000]), delta[some])
    np.testing.assert_array_equal(signs(single, labels, group), delta)


def test_draws_change_with_the_scores_and_c_with_the_iteration():
    scores, labels, group = generated(queries=20)
    first, moved = (lp.SPSA("ndcg").gradients(labels, s, group)[0] for s in (scores, scores + 1e-3))
    assert not np.array_equal(first, moved)
    still = lp.SPSA("ndcg", c_decay=0)
    assert still.constant
    assert not lp.SPSA("ndcg").constant


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
        (lambda: lp.FDSA("ndcg").gradients([0, 1], [0, 1], [2], [1, 2]), "weights must be one per query"),
    ],
)
def test_what_cannot_be_perturbed_is_refused(make, message):
    with pytest.raises(lp.LambdaplugError, match=message):
        make()
