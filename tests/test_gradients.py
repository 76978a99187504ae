"""LambdaRank's gradients: against the pair loop in plain Python, and what must hold whatever the data."""

import gc
import itertools
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import VALUES, gradients, scaled

import lambdaplug as lp
from lambdaplug.kernels import threads
from lambdaplug.objectives.base import HESSIAN_FLOOR
from lambdaplug.queries import Queries

NAMES = list(VALUES)
# Few levels make ties likely; the wide ones leave the fast path (spread beyond 80) and the range of exp.
score_values = st.one_of(
    st.integers(-2, 2).map(float),
    st.floats(-5, 5, width=32),
    st.sampled_from([-1e-30, 1e-30, 60.0, -60.0, 900.0, -900.0]),
)
queries = st.lists(st.lists(st.tuples(score_values, st.integers(0, 4)), max_size=9), min_size=1, max_size=5)


def unpack(name, queries):
    # One document with the largest label at the end of all keeps lmax at 4.
    queries = [*queries, [(0.0, 4)]]
    group = [len(query) for query in queries]
    scores = np.array([s for query in queries for s, _ in query], dtype=float)
    labels = np.array(scaled(name, [label for query in queries for _, label in query]), dtype=float)
    return scores, labels, group


def split(values, group):
    return np.split(np.asarray(values), np.cumsum(group)[:-1])


def reference(name, scores, labels, group, sigma=1.0, weight=None):
    weight = np.ones(len(scores)) if weight is None else weight
    parts = [split(x, group) for x in (scores, labels, weight)]
    results = [gradients(name, list(s), list(y), sigma, list(w)) for s, y, w in zip(*parts, strict=True)]
    return tuple(np.concatenate(arrays) for arrays in zip(*results, strict=True))


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=25, deadline=None)
@given(queries=queries, sigma=st.sampled_from([1.0, 0.3, 2.5]))
def test_gradients_are_the_pair_loop(name, queries, sigma):
    scores, labels, group = unpack(name, queries)
    objective = lp.LambdaRank(name, sigma=sigma)
    gradient, hessian = reference(name, scores, labels, group, sigma)
    exact = objective.differentiate(Queries(labels, group), scores, exact=True, dtype=np.float64)
    np.testing.assert_allclose(exact[0], gradient, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(exact[1], np.maximum(hessian, HESSIAN_FLOOR), rtol=1e-12, atol=1e-12)
    fast = objective.gradients(labels, scores, group)
    assert fast[0].dtype == fast[1].dtype == np.float32
    for found, expected in zip(fast, (gradient, hessian), strict=True):
        np.testing.assert_allclose(found, expected, rtol=0, atol=2e-6 * max(np.abs(expected).max(), 1e-9))
    assert (fast[1] > 0).all()


@pytest.mark.parametrize("name", ["ndcg", "map", "err", "bpref", "pairs", "rbp"])
@pytest.mark.parametrize("n", [700, 1300])
def test_float32_stays_exact_deep_in_a_long_list(name, n):
    # The labels differ only among the last documents, whose discounts are nearly equal: where float32 would cancel.
    rng = np.random.default_rng(n)
    scores = -np.arange(n) * 0.01 + 0.001 * rng.normal(size=n)
    labels = np.zeros(n)
    labels[-30:] = rng.integers(0, 5, 30)
    objective = lp.LambdaRank(name)
    fast = objective.gradients(labels, scores, [n])
    exact = objective.differentiate(Queries(labels, [n]), scores, exact=True, dtype=np.float64)
    for found, expected in zip(fast, exact, strict=True):
        np.testing.assert_allclose(found, expected, rtol=0, atol=2e-6 * np.abs(expected).max())
    forces = np.abs(exact[0]) > 1e-3 * np.abs(exact[0]).max()
    np.testing.assert_allclose(fast[0][forces], exact[0][forces], rtol=2e-5)


def generated(seed=0, queries=60, longest=40):
    rng = np.random.default_rng(seed)
    group = rng.integers(0, longest, queries)
    group[:3] = 0, 1, 2
    rows = group.sum()
    return rng.normal(size=rows).round(1), rng.integers(0, 5, rows).astype(float), group


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("options", [{}, {"step": "gradient"}, {"normalize": "std"}, {"sigma": 2.0}])
def test_what_holds_whatever_the_measure(name, options):
    scores, labels, group = generated()
    labels = np.array(scaled(name, labels))
    objective = lp.LambdaRank(name, **options)
    gradient, hessian = objective.gradients(labels, scores, group)
    queries = list(zip(split(gradient, group), split(hessian, group), split(labels, group), strict=True))

    assert np.abs(gradient).max() > 0
    for g, h, y in queries:
        assert abs(g.sum()) <= 1e-6 * np.abs(g).sum() + 1e-30  # forces come in opposite pairs
        if len(np.unique(y)) < 2:
            assert not g.any()
        assert (h > 0).all()

    # Adding a constant to a query's scores moves nobody.
    shift = np.repeat(np.arange(len(group)) % 7 - 3.0, group)
    np.testing.assert_allclose(
        objective.gradients(labels=labels, scores=scores + shift, group=group)[0], gradient, rtol=1e-5, atol=1e-6
    )

    # Neither does the order of the rows, where no two scores are equal (below a cut-off, sums run in row order).
    distinct = scores + 1e-4 * np.arange(len(scores))
    mixed = np.concatenate(
        [np.random.default_rng(1).permutation(part) for part in split(np.arange(len(scores)), group)]
    )
    mixed = mixed.astype(int)
    in_order = objective.gradients(labels, distinct, group)
    shuffled = objective.gradients(labels[mixed], distinct[mixed], group)
    for found, expected in zip(shuffled, in_order, strict=True):
        if lp.measures.as_measure(name).cutoff is None:
            np.testing.assert_array_equal(found, expected[mixed])
        np.testing.assert_allclose(found, expected[mixed], rtol=1e-5, atol=1e-6 * np.abs(expected).max())


def test_one_huge_query_adds_up():
    rng = np.random.default_rng(3)
    n = 6500
    scores, labels = rng.normal(size=n), (rng.random(n) < 0.02).astype(float)
    group = [5, n - 10, 5]
    objective, queries = lp.LambdaRank("ndcg"), Queries(labels, group)
    one, two = (objective.differentiate(queries, scores, threads=k) for k in (1, 2))
    np.testing.assert_array_equal(one, two)
    exact = objective.differentiate(queries, scores, exact=True, dtype=np.float64)
    for found, expected in zip(one, exact, strict=True):
        np.testing.assert_allclose(found, expected, rtol=0, atol=2e-6 * np.abs(expected).max())


@pytest.mark.parametrize(
    "objective", [lp.LambdaRank("mrr"), lp.LambdaRank("err@5", noise=1.0), lp.PLRank("ndcg@5")], ids=repr
)
def test_fifty_thousand_documents_in_one_query_and_nothing_is_kept(objective):
    rng = np.random.default_rng(0)
    n = 50_000
    scores, labels = rng.normal(size=n), (rng.random(n) < 0.001).astype(float)
    objective.gradients(labels[:10], scores[:10], [10])
    gc.collect()
    gc.disable()  # what a cycle keeps would stay for rounds
    tracemalloc.start()
    try:
        assert np.count_nonzero(objective.gradients(labels, scores, [n])[0]) > 20
        kept, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        gc.enable()
    assert peak < 1000 * n  # bytes; n^2 would be 2.5e9
    assert kept < 4 * n


@pytest.mark.parametrize("name", ["ndcg", "ndcg@3", "map", "err", "pairs"])
@pytest.mark.parametrize("spread", [1.0, 300.0])
def test_document_weights_multiply_the_pairs_force(name, spread):
    scores, labels, group = generated(longest=8)
    scores *= spread
    weight = np.random.default_rng(2).random(len(scores)) * 3
    expected = reference(name, scores, labels, group, weight=weight)
    found = lp.LambdaRank(name).gradients(labels, scores, group, weight=weight)
    for f, e in zip(found, expected, strict=True):
        np.testing.assert_allclose(f, e, rtol=0, atol=2e-6 * np.abs(e).max())
    for g in split(found[0], group):
        assert abs(g.sum()) <= 1e-5 * np.abs(g).sum() + 1e-30


def test_weights_are_told_apart_by_their_number():
    objective = lp.LambdaRank("ndcg")
    with pytest.raises(lp.LambdaplugError, match=r"one value per query \(1\) or per document \(2\), .*got 3"):
        objective.gradients([0, 1], [0, 1], [2], weight=[1, 2, 3])
    with pytest.raises(lp.LambdaplugError, match="told apart by their number"):
        objective.gradients([0, 1], [0, 1], [2, 0], weight=[1, 2])
    with pytest.raises(lp.LambdaplugError, match="finite numbers that are not negative"):
        objective.gradients([0, 1], [0, 1], [2], weight=[-1])


def test_steps_and_normalisation():
    scores, labels, group = generated()
    newton = lp.LambdaRank("ndcg").gradients(labels, scores, group)
    gradient, hessian = lp.LambdaRank("ndcg", step="gradient").gradients(labels, scores, group)
    assert (hessian == 1).all()
    balanced = lp.LambdaRank("ndcg", normalize="std").gradients(labels, scores, group)
    plain = lp.LambdaRank("ndcg", step="gradient", normalize="none").gradients(labels, scores, group)
    np.testing.assert_array_equal(plain[0], newton[0])
    np.testing.assert_array_equal(balanced[0], gradient)
    for before, after, h_before, h_after in zip(
        *(split(x, group) for x in (newton[0], gradient, newton[1], balanced[1])), strict=True
    ):
        deviation = before.std(dtype=np.float64) if len(before) else 0.0
        if deviation > 0:
            np.testing.assert_allclose(after, before / deviation, rtol=1e-5)
            moved = h_before > 1e-10
            np.testing.assert_allclose(h_after[moved], h_before[moved] / deviation, rtol=1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_inputs_of_any_kind_are_read_and_left_alone(dtype):
    scores, labels, group = generated()
    scores = scores.astype(np.float32)
    objective = lp.LambdaRank("map")
    expected = objective.gradients(labels, scores, group)

    def strided(x):
        wide = np.zeros((len(x), 3), x.dtype)
        wide[:, 1] = x
        return wide[:, 1]

    inputs = [strided(x) for x in (labels.astype(dtype), scores, np.asarray(group))]
    for x in inputs:
        x.setflags(write=False)
    copies = [x.copy() for x in inputs]
    np.testing.assert_array_equal(objective.gradients(*inputs), expected)
    for x, copy in zip(inputs, copies, strict=True):
        np.testing.assert_array_equal(x, copy)
    np.testing.assert_array_equal(objective.gradients(list(labels), list(scores), list(group)), expected)
    np.testing.assert_array_equal(objective.gradients(labels, scores[:, None], group), expected)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0, 1], [0, np.nan], [2]), "scores: expected finite numbers, got nan in row 1"),
        (([0, 1], [0, np.inf], [2]), "scores: expected finite numbers, got inf in row 1"),
        (([0, 1], [0.0, 1.0, 2.0], [2]), r"scores: expected one per row \(2\), got 3"),
        (([0, np.nan], [0.5, -1.5], [2]), "labels: row 1 is NaN"),
        (([0, np.inf], [0.5, 1.5], [2]), "labels: row 1 is NaN, masked or infinite"),
        (([0, 1], [0.0, 1.0], [1]), "sizes of 1 queries add up to 1, not to 2 rows"),
        (([0, 1], [0.0, 1.0], [0, 0]), "are these query ids"),
        (([0, 1], [0.0, 1.0], [-1, 3]), "number of documents of each query"),
        (([0, 1], [0.0, 1.0], None), "which rows belong together"),
        ((["a", "b"], [0.0, 1.0], [2]), "labels: expected numbers"),
        (([0, 1], [[0, 1], [0, 1]], [2]), "one value each, got an array of shape"),
        (([0, 31], [0.0, 1.0], [2]), "labels from 0 to 30"),
    ],
)
def test_what_would_learn_nothing_is_refused(arguments, message):
    with pytest.raises(lp.LambdaplugError, match=message):
        lp.LambdaRank("ndcg").gradients(*arguments)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sigma": 0}, "sigma: expected a positive number"),
        ({"step": "second"}, "step: expected 'newton' or 'gradient'"),
        ({"normalize": "max"}, "normalize: expected"),
        ({"cost": "hinge"}, r"cost: expected one of \['ranknet'"),
    ],
)
def test_options_that_do_not_exist(options, message):
    with pytest.raises(lp.LambdaplugError, match=message):
        lp.LambdaRank("ndcg", **options)


def test_gradients_too_large_for_float32_are_refused():
    objective = lp.LambdaRank(lp.DCG(gain=lambda label: 1e60 * label))
    with pytest.raises(lp.LambdaplugError, match="too large for float32"):
        objective.gradients([0, 1], [0, 1], [2])


def test_no_rows_at_all():
    gradient, hessian = lp.LambdaRank("ndcg").gradients([], [], [])
    assert gradient.size == hessian.size == 0


def test_objectives_say_what_they_are():
    assert repr(lp.LambdaRank("ndcg@10")) == "LambdaRank('ndcg@10')"
    assert repr(lp.LambdaRank("map", sigma=2, step="gradient")) == "LambdaRank('map', sigma=2, step='gradient')"


def test_an_error_in_a_thread_reaches_the_caller():
    calls = itertools.count()

    def work():
        if next(calls) == 1:
            raise ZeroDivisionError("a thread")

    with pytest.raises(ZeroDivisionError, match="a thread"):
        threads.run_threads(work, 3)


def test_set_num_threads():
    lp.set_num_threads(3)
    try:
        assert threads.get_num_threads(1) == 3
    finally:
        lp.set_num_threads(None)
    assert threads.get_num_threads(1) == 1
    with pytest.raises(lp.LambdaplugError, match="set_num_threads: expected an integer >= 1, or None, got 0"):
        lp.set_num_threads(0)


def test_labels_that_float32_cannot_tell_apart_are_told_apart():
    # Freshness in seconds since 1970, say: their differences are far below float32's steps at that size.
    stamps = 1.7e9 + np.array([50.0, 0.0, 100.0])
    for name in ("pairs", "ndcg(gain='linear')"):
        objective, own = lp.LambdaRank(name, labels="stamps"), {"stamps": stamps}
        fast = objective.gradients([0, 0, 0], [0.0, 0.0, 0.0], [3], columns=own)
        exact = objective.differentiate(
            Queries([0, 0, 0], [3], columns=own), [0.0, 0.0, 0.0], exact=True, dtype=np.float64
        )
        assert np.abs(exact[0]).max() > 0
        np.testing.assert_allclose(fast[0], exact[0], rtol=1e-5)


def test_discounts_that_hardly_fall_are_subtracted_without_loss():
    rng = np.random.default_rng(0)
    measure = lp.NDCG(discount=[1000.0 - 1e-4 * rank for rank in range(200)])
    queries = Queries(rng.integers(0, 5, 200).astype(float), [200])
    scores = rng.normal(size=200)
    objective = lp.LambdaRank(measure)
    exact = objective.differentiate(queries, scores, exact=True, dtype=np.float64)
    found = objective.differentiate(queries, scores, dtype=np.float64)
    for f, e in zip(found, exact, strict=True):
        np.testing.assert_allclose(f, e, rtol=0, atol=2e-6 * np.abs(e).max())


def test_a_list_that_spreads_beyond_float32_leaves_nothing_behind():
    """Two parts of a mixture share their scratch: what the second writes for one query is the padding of the first's next."""
    rng = np.random.default_rng(0)
    sizes = rng.integers(150, 211, 300)
    labels, scores = rng.integers(0, 3, sizes.sum()).astype(float), rng.normal(size=sizes.sum())
    scores[np.cumsum(sizes)[[3, 5, 8, 10, 13]]] = 1e39
    cost = lp.RankNet(distance=0.01)
    mixture = lp.Mixture([(1.0, lp.LambdaRank(name, cost=cost)) for name in ("ndcg", "ndcg@3")])
    gradient, _ = mixture.differentiate(Queries(labels, sizes), scores, 0, 1)
    assert np.isfinite(gradient).all()
