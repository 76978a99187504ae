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


def sigmoid(margin, mu=0.0):
    z = 1 / (1 + math.exp(min(max(margin + mu, -700), 700)))
    return z * (1 - z), 0.0


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
            lp.LambdaRank("cndcg@3", labels=clicks, ignore_zero=True),
            lp.LambdaRank("map", labels=fresh),
        ],
        weights=weights,
    )
    found = objective.differentiate(Queries(judged, group), scores, exact=True, dtype=np.float64)
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
        np.testing.assert_allclose(found[k], np.maximum(want, 1e-16), atol=1e-12) if k else np.testing.assert_allclose(
            found[k], want, atol=1e-12
        )
    fast = objective.gradients(labels=judged, scores=scores, group=group)
    for found32, found64 in zip(fast, found, strict=True):
        np.testing.assert_allclose(found32, found64, atol=2e-6 * max(np.abs(found64).max(initial=0), 1e-9))


@settings(max_examples=60, deadline=None)
@given(queries=queries, mu=st.sampled_from([0.0, 1.5, -2.0]), sigma=st.sampled_from([1.0, 0.5]))
def test_the_sigmoid_cost_is_its_formula(queries, mu, sigma):
    scores, judged, _, _, group = unpack(queries)
    objective = lp.LambdaRank("ndcg", cost=lp.Sigmoid(mu), sigma=sigma, normalize="none")
    assert objective.step == "gradient"
    want = [
        gradients("ndcg", list(s), list(y), sigma, cost=lambda margin: sigmoid(margin, mu))[0]
        for s, y in by_query(group, scores, judged)
    ]
    want = np.concatenate(want)
    gradient, hessian = objective.gradients(labels=judged, scores=scores, group=group)
    np.testing.assert_allclose(gradient, want, atol=2e-6 * max(np.abs(want).max(initial=0), 1e-9))
    assert (hessian == 1).all()


def generated(seed=0):
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 30, 50)
    rows = group.sum()
    clicks = np.where(rng.random(rows) < 0.3, np.nan, rng.integers(0, 5, rows) / 4)
    return rng.normal(size=rows).round(1), rng.integers(0, 4, rows).astype(float), group, clicks


PARTS = {
    "newton": lp.LambdaRank("ndcg"),
    "map": lp.LambdaRank("map@5", sigma=2.0),
    "gradient": lp.LambdaRank("err", step="gradient"),
    "sigmoid": lp.LambdaRank("ndcg", cost=lp.Sigmoid(0.5)),
    "std": lp.LambdaRank("mrr", normalize="std"),
    "approx": lp.Approx("ndcg"),
    "approx, gradient": lp.Approx("map", hessian="constant", normalize="std"),
    "spsa": lp.SPSA("mrr", evaluations=4),
}


@pytest.mark.parametrize("a", PARTS)
@pytest.mark.parametrize("b", PARTS)
def test_weights_of_zero_and_one_are_the_parts_exactly(a, b):
    scores, labels, group, _ = generated()
    weight = np.random.default_rng(1).random(len(group)) + 0.5
    a, b = PARTS[a], PARTS[b]
    alone = {part: part.gradients(labels=labels, scores=scores, group=group, weight=weight) for part in (a, b)}
    for w, part in ((0.0, a), (1.0, b)):
        for mixed in (lp.interpolate(a, b, w), lp.Mixture([(1 - w, a), (w, b)])):
            np.testing.assert_array_equal(
                mixed.gradients(labels=labels, scores=scores, group=group, weight=weight), alone[part]
            )
    half = lp.interpolate(a, b, 0.25).gradients(labels=labels, scores=scores, group=group, weight=weight)
    for k in (0, 1):
        sum_of_parts = 0.75 * alone[a][k].astype(float) + 0.25 * alone[b][k]
        np.testing.assert_allclose(half[k], sum_of_parts, rtol=1e-5, atol=1e-6 * np.abs(sum_of_parts).max())


GRADES = np.tile([2.0, 0.0, 1.0, 0.0, 2.0, 1.0, 0.0], 3)
WITHIN = [(7 * q + i, 7 * q + j) for q in range(3) for i in range(7) for j in range(7) if GRADES[i] > GRADES[j]]
PEERS = [
    lp.LambdaRank("dcg@3", construction=lp.constructions.Loss2()),
    lp.LambdaRank("recall@3", construction=lp.constructions.Extended("random")),
    lp.PLRank("ndcg@3"),
    lp.StochasticRank("map"),
    lp.QueryRMSE(),
    lp.QuerySoftmax(),
    lp.ListMLE(),
    lp.Calibrated(max_label=2),
    lp.Preferences(WITHIN),
    lp.presets.catboost_yetirank(permutations=2),
]


@pytest.mark.parametrize("peer", PEERS, ids=repr)
def test_peers_objectives_follow_a_schedule_and_weights_in_a_mixture(peer):
    scores, group, weight = np.random.default_rng(3).normal(size=21), [7, 7, 7], [1.0, 3.0, 0.5]
    plain = lp.LambdaRank("map")
    parts = [np.array(part.gradients(GRADES, scores, group, weight), float) for part in (plain, peer)]
    assert parts[1][0].any()
    moving = lp.interpolate(plain, peer, lp.linear(0.25, 0.25))
    for iteration, share in ((0, 0.25), (2, 0.75)):
        found = moving.gradients(GRADES, scores, group, weight, iteration=iteration)
        np.testing.assert_allclose(found, (1 - share) * parts[0] + share * parts[1], rtol=1e-4, atol=1e-6)


def test_one_tier_is_lambdarank_and_a_tier_needs_its_pairs_equal_above():
    scores, labels, group, clicks = generated()
    one = lp.Graded([PARTS["newton"]], weights=[1.0])
    np.testing.assert_array_equal(
        one.gradients(labels=labels, scores=scores, group=group),
        PARTS["newton"].gradients(labels=labels, scores=scores, group=group),
    )
    # A second tier over the first one's labels has no pair left.
    same = lp.Graded([lp.LambdaRank("ndcg"), lp.LambdaRank("map", labels=labels)], weights=[0, 1])
    assert not same.gradients(labels=labels, scores=scores, group=group)[0].any()
    # A first tier that likes all documents alike leaves all pairs.
    flat = lp.Graded([lp.LambdaRank("ndcg"), lp.LambdaRank("cndcg", labels=clicks)], weights=[0, 1])
    plain = lp.LambdaRank("cndcg", labels=clicks)
    np.testing.assert_array_equal(
        flat.gradients(np.ones_like(labels), scores, group), plain.gradients(labels=labels, scores=scores, group=group)
    )


def test_nesting_is_associative():
    scores, labels, group, clicks = generated()
    a, b, c = PARTS["newton"], PARTS["gradient"], lp.LambdaRank("cndcg", labels=clicks)
    left = lp.Mixture([(0.5, lp.Mixture([(0.4, a), (0.6, b)])), (0.5, c)])
    right = lp.Mixture([(0.2, a), (0.8, lp.Mixture([(0.375, b), (0.625, c)]))])
    flat = lp.Mixture([(0.2, a), (0.3, b), (0.5, c)])
    expected = flat.gradients(labels=labels, scores=scores, group=group)
    for nested in (left, right):
        np.testing.assert_allclose(
            nested.gradients(labels=labels, scores=scores, group=group), expected, rtol=1e-5, atol=1e-8
        )


def test_a_graded_inside_an_interpolation_inside_a_mixture():
    scores, labels, group, clicks = generated()
    graded = lp.Graded([PARTS["newton"], lp.LambdaRank("cndcg", labels=clicks, ignore_zero=True)], weights=[0.7, 0.3])
    inner = lp.interpolate(graded, PARTS["map"], lp.linear(0.0, 0.1))
    outer = lp.Mixture([(2.0, inner), (lp.step({0: 0.0, 5: 1.0}), PARTS["sigmoid"])])
    for iteration, (w, s) in {0: (0.0, 0.0), 4: (0.4, 0.0), 7: (0.7, 1.0)}.items():
        found = outer.gradients(labels=labels, scores=scores, group=group, iteration=iteration)[0]
        parts = [
            part.gradients(labels=labels, scores=scores, group=group)[0].astype(float)
            for part in (graded, PARTS["map"], PARTS["sigmoid"])
        ]
        np.testing.assert_allclose(
            found, 2 * (1 - w) * parts[0] + 2 * w * parts[1] + s * parts[2], rtol=1e-4, atol=1e-6
        )


def test_the_standard_deviation_of_the_combined_lambda():
    scores, labels, group, _ = generated()
    a = lp.LambdaRank("ndcg", step="gradient", normalize="none")
    b = lp.LambdaRank("ndcg", cost=lp.Sigmoid(), normalize="none")
    raw = lp.interpolate(a, b, 0.3).gradients(labels=labels, scores=scores, group=group)
    gradient, hessian = lp.interpolate(a, b, 0.3, normalize="std").gradients(labels=labels, scores=scores, group=group)
    assert np.ptp(hessian) > 0  # of a Newton step: divided too
    stepped, ones = lp.interpolate(a, b, 0.3, step="gradient").gradients(labels=labels, scores=scores, group=group)
    assert (ones == 1).all()
    np.testing.assert_array_equal(stepped, gradient)
    for before, after in by_query(group, raw[0].astype(float), gradient):
        if len(before) and before.std() > 0:
            np.testing.assert_allclose(after, before / before.std(), rtol=1e-4, atol=1e-6)


def test_documents_without_a_label_keep_their_place():
    # The unlabelled document at rank 1 pushes the relevant one to rank 2: that is what the measure sees.
    objective = lp.LambdaRank("mrr", labels=[np.nan, 1, 0])
    gradient, _ = objective.gradients([0, 0, 0], [3.0, 2.0, 1.0], [3])
    assert gradient[0] == 0.0
    rho = 1 / (1 + math.e)
    assert gradient[1] == pytest.approx(-(1 / 2 - 1 / 3) * rho)
    for name in ("bpref", "pairs"):  # they count the others, and must not count it
        labels = np.array([1, np.nan, 0, 1, 0])
        with_gap = lp.LambdaRank(name, labels=labels).gradients([0] * 5, [5.0, 4, 3, 2, 1], [5])[0]
        kept = ~np.isnan(labels)
        without = lp.LambdaRank(name).gradients(labels=labels[kept], scores=[5.0, 3, 2, 1], group=[4])[0]
        np.testing.assert_allclose(with_gap[kept], without, rtol=1e-6)


def test_same_bits_at_any_number_of_threads():
    rng = np.random.default_rng(0)
    group = [6500, 40, 40]  # a huge query is split, but not where something inside is normalised
    rows = sum(group)
    scores, labels, clicks = (
        rng.normal(size=rows),
        rng.integers(0, 4, rows) * (rng.random(rows) < 0.05),
        rng.random(rows),
    )
    graded = lp.Graded([lp.LambdaRank("ndcg"), lp.LambdaRank("cndcg", labels=clicks)], weights=[0.8, 0.2])
    normalised = lp.Mixture([(1.0, lp.LambdaRank("map", normalize="std")), (0.5, graded)], normalize="std")
    queries = Queries(labels, group)
    assert max(task.parts for task in queries.tasks(None, graded.divisible)) > 1
    assert not normalised.divisible
    for objective in (graded, normalised):
        one, two = (objective.differentiate(queries, scores, threads=n) for n in (1, 2))
        np.testing.assert_array_equal(one, two)


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


def test_interpolate_clips_and_a_mixture_does_not():
    a, b = PARTS["newton"], PARTS["map"]
    assert lp.interpolate(a, b, lambda m: m - 1).weights(0) == [1.0, 0.0]
    assert lp.interpolate(a, b, lambda m: m - 1).weights(9) == [0.0, 1.0]
    assert lp.Mixture([(lambda m: m - 1, a), (np.float32(1.0), b)]).weights(9) == [8, 1.0]


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
        [PARTS["newton"], lp.LambdaRank("cndcg", labels=[0.0]), lp.LambdaRank("map", labels=[1.0])],
        weights=[0.6, 0.3, 0.1],
        guard=lp.guard("ndcg@3", floor=0.5, down=0.5, up=2.0),
    )
    memory = {}
    assert objective.weights(0, memory) == [0.6, 0.3, 0.1]
    for value, later in ((0.4, 0.5), (0.4, 0.25), (0.6, 0.5), (0.6, 1.0), (0.6, 1.0)):
        objective.guard.observe(value, memory)
        assert objective.weights(0, memory) == pytest.approx([1 - 0.4 * later, 0.3 * later, 0.1 * later])
    twofold = lp.interpolate(PARTS["newton"], PARTS["map"], 0.5, guard=lp.guard("ndcg", floor=0.5))
    assert twofold.weights(0, {twofold.guard: 0.5}) == [0.75, 0.25]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: lp.Mixture([]), "at least one objective"),
        (lambda: lp.Mixture([(1.0, "ndcg")]), "expected an objective such as"),
        (lambda: lp.Mixture([("much", PARTS["map"])]), "weight 0: expected a finite number >= 0, or a schedule"),
        (lambda: lp.Mixture([(math.nan, PARTS["map"])]), "weight 0: expected a finite number"),
        (lambda: lp.Graded([PARTS["map"], PARTS["newton"]], weights=[0.5]), r"expected one per tier \(2\), got 1"),
        (lambda: lp.Graded([PARTS["map"], PARTS["newton"]], weights=[1, 0.3]), "sum to 1, got"),
        (lambda: lp.Graded([]), "at least one tier"),
        (lambda: lp.Mixture([(-1.0, PARTS["map"])]), "weight 0: expected a finite number >= 0"),
        (lambda: lp.Mixture([(lambda m: 2 - m, PARTS["map"])]).weights(3), "a weight is -1 at iteration 3"),
        (lambda: lp.join([0.1, lp.on_plateau("map")], [5]), "use it alone"),
        (lambda: lp.Graded([lp.Mixture([(1, PARTS["map"])])]), "expected a tier such as"),
        (lambda: lp.LambdaRank("ndcg", cost=lp.Sigmoid(), step="newton"), "no second derivative"),
        (lambda: lp.Sigmoid(mu=99), "mu must be a number"),
        (lambda: lp.step({5: 0.1}), "from iteration 0 on"),
        (lambda: lp.join([0.1, 0.2], [9, 3]), "need 1 rising boundaries"),
        (lambda: lp.cosine(0, 1, 0), "rounds: expected a positive number, got 0"),
        (lambda: lp.on_plateau("map", 0), "a patience >= 1"),
        (lambda: lp.guard("map", 0.5, down=2), "0 < down < 1 < up"),
        (lambda: lp.Mixture([(1.0, PARTS["map"])], guard=lp.guard("map", 0.5)), "at least two parts"),
        (
            lambda: lp.Mixture([(lambda m: math.inf * (m + 1), PARTS["map"])]).gradients(
                labels=[0, 1], scores=[0, 1], group=[2]
            ),
            "a weight must be a finite number",
        ),
    ],
)
def test_what_cannot_be_mixed_is_refused(make, message):
    with pytest.raises(lp.LambdaplugError, match=message):
        make()
