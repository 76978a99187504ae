"""Lambda constructions: each against a plain reading of its definition."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import VALUES, generated, moving, pair_loop, reading, revenue, revenue_delta, scaled, sigmoid, slope

import lambdaplug as lp
from lambdaplug.analysis import effective_pairs, force_by_label
from lambdaplug.queries import Queries

MEASURES = list(VALUES)


# One's own measure, by swaps and by a delta.
OWN = {
    "revenue": lp.custom("revenue", revenue),
    "revenue@3": lp.custom("revenue@3", revenue, delta=revenue_delta, k=3),
}
NAMES = ["ranknet_weight_pairs", "spring_smooth", "local_gradient", "local_cost", "discrete_bounded"]


def split(values, group):
    return np.split(np.asarray(values), np.cumsum(group)[:-1])


def expected_of(construction, name, scores, labels, group, **options):
    each = {key: split(options.pop(key), group) for key in ("weight", "tier") if options.get(key) is not None}
    results = []
    for q, (s, y) in enumerate(zip(split(scores, group), split(labels, group), strict=True)):
        given = {"weight": list(each["weight"][q])} if "weight" in each else {}
        if "tier" in each:
            given["allowed"] = lambda i, j, tier=each["tier"][q]: tier[i] == tier[j]
        results.append(reading(construction, name, list(s), list(y), **options, **given)[:2])
    return [np.concatenate(arrays) for arrays in zip(*results, strict=True)]


def check(found, expected, exact=None):
    for k, (f, e) in enumerate(zip(found, expected, strict=True)):
        np.testing.assert_allclose(f, e, rtol=0, atol=2e-6 * max(np.abs(e).max(initial=0), 1e-9))
        if exact is not None:
            np.testing.assert_allclose(exact[k], np.maximum(e, 1e-16) if k else e, rtol=1e-11, atol=1e-13)


score_values = st.one_of(
    st.integers(-2, 2).map(float), st.floats(-5, 5, width=32), st.sampled_from([60.0, -60.0, 900.0, -900.0])
)
some_queries = st.lists(st.lists(st.tuples(score_values, st.integers(0, 4)), max_size=8), min_size=1, max_size=4)


@pytest.mark.parametrize("construction", NAMES)
@settings(max_examples=60, deadline=None)
@given(name=st.sampled_from(MEASURES), queries=some_queries, sigma=st.sampled_from([1.0, 2.5]))
def test_every_construction_with_every_measure(construction, name, queries, sigma):
    queries = [*queries, [(0.0, 4)]]  # keeps lmax at 4
    group = [len(query) for query in queries]
    scores = np.array([s for query in queries for s, _ in query])
    labels = np.array(scaled(name, [label for query in queries for _, label in query]), dtype=float)
    sigma = sigma if lp.constructions.Construction.registry[construction].costed else 1.0
    objective = lp.LambdaRank(name, construction=construction, sigma=sigma)
    exact = objective.differentiate(Queries(labels, group), scores, exact=True, dtype=np.float64)
    expected = expected_of(construction, name, scores, labels, group, sigma=sigma)
    check(objective.gradients(scores, labels, group), expected, exact)


def test_every_measure_at_least_once():
    # The table above is drawn from; this one is walked through, in the construction that needs the measure most.
    scores, labels, group = generated(queries=20)
    for name in MEASURES:
        y = np.array(scaled(name, labels))
        objective = lp.LambdaRank(name, construction="discrete_bounded")
        check(objective.gradients(scores, y, group), expected_of("discrete_bounded", name, scores, y, group))


@pytest.mark.parametrize("construction", NAMES)
@pytest.mark.parametrize("name", ["ndcg@3", "map"])
def test_weights_tiers_steps_and_the_other_cost(construction, name):
    scores, labels, group = generated()
    rng = np.random.default_rng(5)
    weight, tier = rng.random(len(scores)) * 3, rng.integers(0, 2, len(scores)).astype(float)
    objective = lp.LambdaRank(name, construction=construction)
    check(
        objective.gradients(scores, labels, group, weight),
        expected_of(construction, name, scores, labels, group, weight=weight),
    )

    plain = objective.gradients(scores, labels, group)
    per_query = rng.random(len(group)) + 0.5
    for f, e in zip(objective.gradients(scores, labels, group, per_query), plain, strict=True):
        np.testing.assert_allclose(f, e * np.repeat(per_query, group), rtol=1e-5, atol=1e-15)

    lower = lp.LambdaRank(name, construction=construction, labels=labels)
    graded = lp.Graded([lp.LambdaRank("ndcg"), lower], weights=[0.0, 1.0])
    check(graded.gradients(scores, tier, group), expected_of(construction, name, scores, labels, group, tier=tier))

    stepped, ones = lp.LambdaRank(name, construction=construction, step="gradient").gradients(scores, labels, group)
    assert (ones == 1).all()
    for before, after in zip(split(plain[0], group), split(stepped, group), strict=True):
        deviation = before.std(dtype=np.float64) if len(before) else 0.0
        if deviation > 0:
            np.testing.assert_allclose(after, before / deviation, rtol=1e-4, atol=1e-6)

    if objective.construction.costed:
        other = lp.LambdaRank(name, construction=construction, cost=lp.Sigmoid(0.5), normalize="none")
        gradient, _ = expected_of(construction, name, scores, labels, group, cost=lambda o: sigmoid(o, 0.5))
        check(other.gradients(scores, labels, group)[:1], [gradient])
    else:
        for option in ({"cost": lp.Sigmoid(0.5)}, {"sigma": 2.0}):
            with pytest.raises(lp.LambdaplugError, match=r"has no pair cost: leave out cost= and sigma="):
                lp.LambdaRank(name, construction=construction, **option)


@pytest.mark.parametrize(
    ("name", "construction"),
    [
        *(("map", name) for name in NAMES),
        *((own, name) for own in OWN for name in ("ranknet_weight_pairs", "spring_smooth", "local_cost")),
        ("revenue", "discrete_bounded"),
    ],
)
def test_the_hosts_normalisations(monkeypatch, name, construction):
    for own in OWN:
        monkeypatch.setitem(VALUES, own, lambda labels: sum(labels[:3]))
    measure, costed = OWN.get(name, name), lp.constructions.Construction.registry[construction].costed
    scores, labels, group = generated(queries=30)
    scores[20:40] = 0.0  # a query of equal scores: nothing is divided by a distance
    scores[100:] *= 100  # and some whose scores spread too far for float32
    weight = np.random.default_rng(5).random(len(scores)) * 3
    options, given = {"log": True}, {"normalize": "log"}
    if costed:
        options |= {"distance": 0.01, "sigma": 1.5}
        given |= {"cost": lp.RankNet(distance=0.01), "sigma": 1.5}
    objective = lp.LambdaRank(measure, construction=construction, **given)
    for weights in (None, weight):
        expected = expected_of(construction, name, scores, labels, group, weight=weights, **options)
        queries = Queries(labels, group, document_weight=weights)
        exact = objective.differentiate(queries, scores, exact=True, dtype=np.float64)
        check(objective.differentiate(queries, scores), expected, exact)
    alone = lp.LambdaRank(measure, construction=construction, normalize="log").gradients(scores, labels, group)
    check(alone, expected_of(construction, name, scores, labels, group, log=True))
    if not costed:
        with pytest.raises(lp.LambdaplugError, match="has no pair cost"):
            lp.LambdaRank(measure, construction=construction, cost=lp.RankNet(distance=0.01))


@pytest.mark.parametrize("construction", NAMES)
def test_what_holds_whatever_the_construction(construction):
    scores, labels, group = generated(queries=4000, longest=40)
    objective, queries = lp.LambdaRank("map@5", construction=construction), Queries(labels, group)
    one, two = (objective.differentiate(queries, scores, threads=n) for n in (1, 3))
    np.testing.assert_array_equal(one, two)
    assert np.abs(one[0]).max() > 0
    assert (one[1] > 0).all()
    sums = np.array([g.sum() for g in split(one[0].astype(float), group)])
    assert objective.construction.pairwise == (np.abs(sums).max() < 1e-5)
    none, floor = objective.gradients([3.0, 2.0, 1.0], [0, 0, 0], [3])
    assert not none.any()
    np.testing.assert_allclose(floor, 1e-16)


def test_parameters():
    scores, labels, group = generated()
    for build, expected in [
        (lp.constructions.SpringSmooth(floor=5), lambda s, y: pair_loop("map", s, y, lambda d: max(d, 0.05))[:2]),
        (lp.constructions.LocalCost(window=3), lambda s, y: pair_loop("map", s, y, reach=3)[:2]),
        (
            lp.constructions.LocalGradient(margin=0.1),
            lambda s, y: pair_loop("map", s, y, reach=1, cost=lambda o: slope(o, 0.1))[:2],
        ),
        (lp.constructions.DiscreteBounded(bound=20), lambda s, y: moving("map", s, y, bound=0.2)[:2]),
    ]:
        objective = lp.LambdaRank("map", construction=build)
        pairs = zip(split(scores, group), split(labels, group), strict=True)
        wanted = zip(*(expected(list(s), list(y)) for s, y in pairs), strict=True)
        check(objective.gradients(scores, labels, group), [np.concatenate(arrays) for arrays in wanted])
        assert repr(objective) == f"LambdaRank('map', construction={build!r})"
        assert pickle.loads(pickle.dumps(build)) == build
    assert repr(lp.LambdaRank("map", construction="local_cost")) == "LambdaRank('map', construction='local_cost')"
    assert lp.LambdaRank("map", construction=lp.constructions.LocalCost(window=1)).construction.name == "local_cost"


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda: lp.LambdaRank("map", construction="spring"),
            "expected one of 'ranknet_weight_pairs', 'spring_smooth'",
        ),
        (lambda: lp.constructions.SpringSmooth(floor=0), "floor must be a positive number"),
        (lambda: lp.constructions.LocalCost(window=0.5), "window must be an integer >= 1"),
        (lambda: lp.constructions.LocalGradient(margin=-1), "margin must be a positive number"),
        (lambda: lp.constructions.DiscreteBounded(bound=True), "bound must be a positive number"),
    ],
)
def test_what_does_not_exist(build, message):
    with pytest.raises(lp.LambdaplugError, match=message):
        build()


def test_a_floor_reaches_below_the_cut_and_long_lists_add_up():
    # Longer than the kernel's blocks, in float32 and in float64.
    rng = np.random.default_rng(2)
    scores, labels = rng.normal(size=1300), rng.integers(0, 3, 1300).astype(float)
    for construction in (lp.constructions.SpringSmooth(), lp.constructions.LocalCost(window=700)):
        objective = lp.LambdaRank("ndcg@5", construction=construction)
        exact = objective.differentiate(Queries(labels, [1300]), scores, exact=True, dtype=np.float64)
        for f, e in zip(objective.gradients(scores, labels, [1300]), exact, strict=True):
            np.testing.assert_allclose(f, e, rtol=0, atol=2e-6 * np.abs(e).max())
    low = np.argsort(-scores)[1000:]
    assert np.count_nonzero(lp.LambdaRank("ndcg@5").gradients(scores, labels, [1300])[0][low]) == 300
    assert lp.LambdaRank("ndcg@5", construction="spring_smooth").gradients(scores, labels, [1300])[0][low].all()


def test_diagnostics_count_what_acts():
    scores, labels, group = [5.0, 4.0, 3.0, 2.0, 1.0, 0.0], [0, 2, 0, 1, 2, 0], [6]
    counts = {
        name: int(sum(effective_pairs(lp.LambdaRank("ndcg@2", construction=name), scores, labels, group).values())[0])
        for name in NAMES[:4]
    }
    unequal = sum(a != b for i, a in enumerate(labels) for b in labels[i + 1 :])
    acting = sum(a != b for i, a in enumerate(labels[:2]) for b in labels[i + 1 :])
    assert counts == {
        "ranknet_weight_pairs": acting,
        "spring_smooth": unequal,
        "local_gradient": 2,
        "local_cost": 2,
    }
    single = lp.LambdaRank("ndcg", construction="discrete_bounded")
    with pytest.raises(lp.LambdaplugError, match="acts on single documents: it has no pairs to count"):
        effective_pairs(single, scores, labels, group)
    with pytest.raises(lp.LambdaplugError, match="expected a LambdaRank of pairs"):
        force_by_label(single, scores, labels, group)


def test_documents_without_a_label_keep_their_positions():
    scores = [4.0, 3.0, 2.0, 1.0]
    objective = lp.LambdaRank("ndcg", labels=[0.0, np.nan, 2.0, 1.0], construction="discrete_bounded")
    gradient, _ = objective.gradients(scores, [0, 0, 0, 0], [4])
    # Of the positions 0, 2 and 3 the document with label 2 belongs in 0, label 1 in 2, label 0 in 3.
    np.testing.assert_array_equal(np.sign(gradient), [1, 0, -1, -1])
