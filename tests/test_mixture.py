"""Sums of objectives: tiers, mixtures, schedules, against plain loops over pairs."""

import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import gradients

import lambdaplug as lp
from lambdaplug.queries import Queries
from lambdaplug.schedules import at

levels = st.integers(0, 3)
clicks_or_none = st.sampled_from([0.0, 0.25, 0.5, 1.0, np.nan])
document = st.tuples(st.sampled_from([-1.0, 0.0, 0.5, 2.0, 150.0]), levels, clicks_or_none, st.sampled_from([0, 1, 2]))
queries = st.lists(st.lists(document, max_size=8), min_size=1, max_size=4)


def unpack(queries):
    group = [len(query) for query in queries]
    rows = np.array([document for query in queries for document in query], dtype=float).reshape(-1, 4)
    return *rows.T.copy(), group


def by_query(group, *arrays):
    edges = np.cumsum(group)[:-1]
    return zip(*(np.split(array, edges) for array in arrays), strict=True)


def without_labels_first(name, scores, labels, **options):
    """The oracle's measures know no missing labels: such a document counts nothing, so it is a document of label 0."""
    known = np.where(np.isnan(labels), 0.0, labels)
    allowed = options.pop("allowed", lambda _i, _j: True)
    return gradients(
        name,
        list(scores),
        list(known),
        allowed=lambda i, j: not (np.isnan(labels[i]) or np.isnan(labels[j])) and allowed(i, j),
        **options,
    )


@settings(max_examples=80, deadline=None)
@given(queries=queries, weights=st.sampled_from([(0.5, 0.3, 0.2), (0.0, 1.0, 0.0), (0.2, 0.0, 0.8)]))
def test_three_tiers_are_the_loop_over_pairs(queries, weights):
    scores, judged, clicks, fresh, group = unpack(queries)
    objective = lp.Graded(
        [
            lp.LambdaRank("ndcg@4(gain='linear')"),
            lp.LambdaRank("cndcg@3", labels="clicks", ignore_zero=True),
            lp.LambdaRank("map", labels="fresh"),
        ],
        weights=weights,
    )
    columns = {"clicks": clicks, "fresh": fresh}
    found = objective.differentiate(Queries(judged, group, columns=columns), scores, exact=True, dtype=np.float64)
    expected = []
    for s, y, c, f in by_query(group, scores, judged, clicks, fresh):
        first = gradients("ndcg@4(gain='linear')", list(s), list(y))
        second = without_labels_first("cndcg@3", s, c, allowed=lambda i, j, y=y, c=c: y[i] == y[j] and c[i] * c[j] > 0)
        third = gradients("map", list(s), list(f), allowed=lambda i, j, y=y, c=c: y[i] == y[j] and c[i] == c[j])
        expected.append(
            [sum(w * part[k] for w, part in zip(weights, (first, second, third), strict=True)) for k in (0, 1)]
        )
    for k in (0, 1):
        want = np.concatenate([query[k] for query in expected])
        np.testing.assert_allclose(found[k], np.maximum(want, 1e-16) if k else want, atol=1e-12)
    fast = objective.gradients(judged, scores, group, columns=columns)
    for found32, found64 in zip(fast, found, strict=True):
        np.testing.assert_allclose(found32, found64, atol=2e-6 * max(np.abs(found64).max(initial=0), 1e-9))


def generated(seed=0):
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 30, 50)
    rows = group.sum()
    clicks = np.where(rng.random(rows) < 0.3, np.nan, rng.integers(0, 5, rows) / 4)
    return rng.normal(size=rows).round(1), rng.integers(0, 4, rows).astype(float), group, clicks


PARTS = {
    "newton": lp.LambdaRank("ndcg"),
    "map": lp.LambdaRank("map@5", sigma=2.0),
    "sigmoid": lp.LambdaRank("ndcg", cost=lp.Sigmoid(0.5)),
}


def test_one_tier_is_lambdarank_and_a_tier_needs_its_pairs_equal_above():
    scores, labels, group, clicks = generated()
    one = lp.Graded([PARTS["newton"]], weights=[1.0])
    np.testing.assert_array_equal(
        one.gradients(labels, scores, group),
        PARTS["newton"].gradients(labels, scores, group),
    )
    # A second tier over the first one's labels has no pair left.
    same = lp.Graded([lp.LambdaRank("ndcg"), lp.LambdaRank("map", labels="same")], weights=[0, 1])
    columns = {"same": labels, "clicks": clicks}
    assert not same.gradients(labels, scores, group, columns=columns)[0].any()
    # A first tier that likes all documents alike leaves all pairs.
    flat = lp.Graded([lp.LambdaRank("ndcg"), lp.LambdaRank("cndcg", labels="clicks")], weights=[0, 1])
    plain = lp.LambdaRank("cndcg", labels="clicks")
    np.testing.assert_array_equal(
        flat.gradients(np.ones_like(labels), scores, group, columns=columns),
        plain.gradients(labels, scores, group, columns=columns),
    )


def test_sums_in_sums_are_the_sum_of_their_parts():
    scores, labels, group, clicks = generated()
    rows = {"labels": labels, "scores": scores, "group": group, "columns": {"clicks": clicks}}
    graded = lp.Graded([PARTS["newton"], lp.LambdaRank("cndcg", labels="clicks", ignore_zero=True)], weights=[0.7, 0.3])
    inner = lp.interpolate(graded, PARTS["map"], lp.linear(0.0, 0.1))
    outer = lp.Mixture([(2.0, inner), (lp.step({0: 0.0, 5: 1.0}), PARTS["sigmoid"])])
    parts = [part.gradients(**rows)[0].astype(float) for part in (graded, PARTS["map"], PARTS["sigmoid"])]
    for iteration, (w, s) in {0: (0.0, 0.0), 4: (0.4, 0.0), 7: (0.7, 1.0)}.items():
        found = outer.gradients(**rows, iteration=iteration)[0]
        expected = 2 * (1 - w) * parts[0] + 2 * w * parts[1] + s * parts[2]
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


def test_the_standard_deviation_of_the_combined_lambda():
    scores, labels, group, _ = generated()
    a = lp.LambdaRank("ndcg", step="gradient", normalize="none")
    b = lp.LambdaRank("ndcg", cost=lp.Sigmoid(), normalize="none")
    raw = lp.interpolate(a, b, 0.3).gradients(labels, scores, group)
    gradient, hessian = lp.interpolate(a, b, 0.3, normalize="std").gradients(labels, scores, group)
    assert np.ptp(hessian) > 0  # of a Newton step: divided too
    stepped, ones = lp.interpolate(a, b, 0.3, step="gradient").gradients(labels, scores, group)
    assert (ones == 1).all()
    np.testing.assert_array_equal(stepped, gradient)
    for before, after in by_query(group, raw[0].astype(float), gradient):
        if len(before) and before.std() > 0:
            np.testing.assert_allclose(after, before / before.std(), rtol=1e-4, atol=1e-6)


def test_schedules_hit_the_papers_values():
    assert [lp.linear(0.25, 0.01)(m) for m in (0, 1, 2)] == pytest.approx([0.25, 0.26, 0.27])
    assert lp.linear(0.5, 0.1)(40) == 1.0
    assert lp.linear(0.5, -0.1)(40) == 0.0
    weight = 0.1
    for m in range(1, 60):
        weight = min(1.0, weight + math.exp(-100 / m))
        assert lp.exponential(0.1, 100)(m) == pytest.approx(weight)
    assert lp.exponential(0.5, 250)(0) == 0.5
    joined = lp.join([lp.linear(0.0, 0.1), lp.cosine(1.0, 0.0, 10), 0.3], [5, 15])
    assert [joined(m) for m in (4, 5, 10, 15, 99)] == pytest.approx([0.4, 1.0, 0.5, 0.3, 0.3])
    assert at(lambda m: m / 4, 3) == 0.75
    for schedule in (lp.linear(0.1, 0.2), lp.exponential(0.1, 100), lp.cosine(0, 1, 5), lp.step({0: 0.2}), joined):
        assert pickle.loads(pickle.dumps(schedule)) == schedule
        assert hash(schedule) == hash(pickle.loads(pickle.dumps(schedule)))


def test_a_plateau_moves_the_weight():
    schedule, memory = lp.on_plateau("ndcg@3", patience=2, start=0.1, end=0.3, step=0.15), {}
    weights = []
    for value in (0.5, 0.6, 0.6, 0.59, 0.61, 0.6, 0.6, 0.6, 0.6):
        schedule.observe(value, memory)
        weights.append(schedule.value(memory))
    assert weights == pytest.approx([0.1, 0.1, 0.1, 0.25, 0.25, 0.25, 0.3, 0.3, 0.3])
    assert schedule(100) == schedule.value(None) == 0.1


def test_a_guard_lowers_the_later_weights_and_raises_them_again():
    objective = lp.Graded(
        [PARTS["newton"], lp.LambdaRank("cndcg", labels="clicks"), lp.LambdaRank("map", labels="sales")],
        weights=[0.6, 0.3, 0.1],
        guard=lp.guard("ndcg@3", floor=0.5, down=0.5, up=2.0),
    )
    memory = {}
    assert objective.weights_at(0, memory) == [0.6, 0.3, 0.1]
    for value, later in ((0.4, 0.5), (0.4, 0.25), (0.6, 0.5), (0.6, 1.0), (0.6, 1.0)):
        objective.guard.observe(value, memory)
        assert objective.weights_at(0, memory) == pytest.approx([1 - 0.4 * later, 0.3 * later, 0.1 * later])
    twofold = lp.interpolate(PARTS["newton"], PARTS["map"], 0.5, guard=lp.guard("ndcg", floor=0.5))
    assert twofold.weights_at(0, {twofold.guard: 0.5}) == [0.75, 0.25]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: lp.Mixture([]), "at least one objective with its weight"),
        (lambda: lp.Mixture([(1.0, "ndcg")]), "expected an objective such as"),
        (lambda: lp.Mixture([("much", PARTS["map"])]), "weight 0: expected a finite number >= 0, or a schedule"),
        (
            lambda: lp.Graded([PARTS["map"], PARTS["newton"]], weights=[0.5]),
            r"expected one per tier \(2\).*got \[0.5\]",
        ),
        (lambda: lp.Graded([PARTS["map"], PARTS["newton"]], weights=[1, 0.3]), r"that sum to 1, got \[1.0, 0.3\]"),
        (lambda: lp.Graded([]), "at least one tier, each such as"),
        (lambda: lp.Mixture([(-1.0, PARTS["map"])]), "weight 0: expected a finite number >= 0"),
        (lambda: lp.Mixture([(lambda m: 2 - m, PARTS["map"])]).weights_at(3), "a weight is -1 at iteration 3"),
        (lambda: lp.join([0.1, lp.on_plateau("map")], [5]), "use it alone"),
        (lambda: lp.Graded([lp.Mixture([(1, PARTS["map"])])]), r"each such as lp.LambdaRank\('ndcg'\), got \[Mixture"),
        (lambda: lp.LambdaRank("ndcg", cost=lp.Sigmoid(), step="newton"), "no second derivative"),
        (lambda: lp.Sigmoid(mu=99), "mu must be a number"),
        (lambda: lp.step({5: 0.1}), "from iteration 0 on"),
        (lambda: lp.join([0.1, 0.2], [9, 3]), "need 1 rising boundaries"),
        (lambda: lp.cosine(0, 1, 0), "rounds: expected a positive number, got 0"),
        (lambda: lp.on_plateau("map", 0), "a patience >= 1"),
        (lambda: lp.guard("map", 0.5, down=2), "0 < down < 1 < up"),
        (lambda: lp.Mixture([(1.0, PARTS["map"])], guard=lp.guard("map", 0.5)), "at least two parts"),
        (lambda: lp.Mixture([(lambda _: math.inf, PARTS["map"])]).weights_at(0), "a weight must be a finite number"),
    ],
)
def test_what_cannot_be_mixed_is_refused(make, message):
    with pytest.raises(lp.LambdaplugError, match=message):
        make()
