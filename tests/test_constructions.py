"""Lambda constructions: each against a plain reading of its definition."""

import collections
import functools
import itertools
import math
import re
from dataclasses import fields

import numpy as np
import oracle
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import (
    VALUES,
    exp2,
    generated,
    moving,
    pair_loop,
    rank,
    ranknet,
    reading,
    revenue,
    revenue_delta,
    scaled,
    sigmoid,
    slope,
    swap_delta,
)

import lambdaplug as lp
from lambdaplug.analysis import effective_pairs
from lambdaplug.kernels import label_hash_kernel, noise_kernel
from lambdaplug.measures import registered
from lambdaplug.queries import Queries

MEASURES = list(VALUES)


# One's own measure, by swaps and by a delta.
OWN = {
    "revenue": lp.custom("sales", revenue),
    "sales@3": lp.custom("sales@3", revenue, delta=revenue_delta, k=3),
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
    check(objective.gradients(labels, scores, group), expected, exact)


@pytest.mark.parametrize("construction", NAMES)
@pytest.mark.parametrize("name", ["ndcg@3", "map"])
def test_weights_tiers_and_the_other_cost(construction, name):
    scores, labels, group = generated()
    rng = np.random.default_rng(5)
    weight, tier = rng.random(len(scores)) * 3, rng.integers(0, 2, len(scores)).astype(float)
    objective = lp.LambdaRank(name, construction=construction)
    expected = expected_of(construction, name, scores, labels, group, weight=weight)
    check(objective.gradients(labels, scores, group, weight=weight), expected)

    lower = lp.LambdaRank(name, construction=construction, labels="own")
    graded = lp.Graded([lp.LambdaRank("ndcg"), lower], weights=[0.0, 1.0])
    found = graded.gradients(tier, scores, group, columns={"own": labels})
    check(found, expected_of(construction, name, scores, labels, group, tier=tier))

    if objective.rule.costed:
        for mu in (0.5, -2.0):
            other = lp.LambdaRank(name, construction=construction, cost=lp.Sigmoid(mu), normalize="none")
            assert other.unit
            cost = functools.partial(sigmoid, mu=mu)
            gradient, _ = expected_of(construction, name, scores, labels, group, cost=cost)
            check(other.gradients(labels, scores, group), [gradient, np.ones(len(scores))])


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
    if name not in OWN:  # their loop is that of map with spring_smooth
        alone = lp.LambdaRank(measure, construction=construction, normalize="log").gradients(labels, scores, group)
        check(alone, expected_of(construction, name, scores, labels, group, log=True))


PARAMETERS = {
    lp.constructions.SpringSmooth(floor=5): lambda s, y: pair_loop("map", s, y, lambda d: max(d, 0.05)),
    lp.constructions.LocalCost(window=3): lambda s, y: pair_loop("map", s, y, reach=3),
    lp.constructions.LocalGradient(margin=0.1): lambda s, y: pair_loop(
        "map", s, y, reach=1, cost=lambda gap: slope(gap, 0.1)
    ),
    lp.constructions.DiscreteBounded(bound=20): lambda s, y: moving("map", s, y, bound=0.2),
}


@pytest.mark.parametrize("construction", PARAMETERS, ids=repr)
def test_parameters(construction):
    scores, labels, group = generated()
    found = lp.LambdaRank("map", construction=construction).gradients(labels, scores, group)
    check(found, by_query(lambda s, y: PARAMETERS[construction](s, y)[:2], scores, labels, group))


@pytest.mark.parametrize(
    ("name", "construction"),
    [
        ("ndcg@5", lp.constructions.SpringSmooth()),
        ("ndcg@5", lp.constructions.LocalCost(window=700)),
        ("ndcg", "loss2"),
        ("ndcg@700", "loss2"),
        ("ndcg@700", "extended"),
        ("p@700", "extended"),
    ],
)
def test_long_lists_add_up(name, construction):
    rng = np.random.default_rng(2)  # longer than the kernels' blocks, in float32 and in float64
    scores, labels = rng.normal(size=1300), rng.integers(0, 3, 1300).astype(float)
    objective, queries = lp.LambdaRank(name, construction=construction), Queries(labels, [1300])
    exact = objective.differentiate(queries, scores, exact=True, dtype=np.float64)
    for f, e in zip(objective.differentiate(queries, scores), exact, strict=True):
        np.testing.assert_allclose(f, e, rtol=0, atol=4e-6 * np.abs(e).max())
    if objective.rule.name == "spring_smooth":  # its floor reaches below the cut
        assert exact[0].all()


def test_diagnostics_count_what_acts():
    scores, labels, group = [5.0, 4.0, 3.0, 2.0, 1.0, 0.0], [0, 2, 0, 1, 2, 0], [6]
    everyone = set(itertools.combinations(range(6), 2))
    acting = {pair for pair in everyone if pair[0] < 2}
    below = {pair for pair in everyone if 4 in pair}  # the other 2, which the first two places lack
    for construction, pairs in (
        ("ranknet_weight_pairs", acting),
        ("spring_smooth", everyone),
        ("local_gradient", {(0, 1), (1, 2)}),
        ("local_cost", {(0, 1), (1, 2)}),
        ("loss2", acting),
        ("extended", acting | below),
    ):
        objective = lp.LambdaRank("ndcg@2", construction=construction)
        found = int(sum(effective_pairs(objective, labels, scores, group).values())[0])
        assert found == sum(labels[a] != labels[b] for a, b in pairs), construction


# --- weights by the distance of two ranks, and more pairs below a cut-off ------------------------------------------


def forces(scores, labels, order, size, sigma=1.0, weight=None, allowed=oracle.always):
    """Gradient and hessian from the size of each pair of places a < b (from 0) in this order; RankNet's cost."""
    gradient, hessian = np.zeros((2, len(scores)))
    for a, b in itertools.combinations(range(len(order)), 2):
        i, j = (order[a], order[b]) if labels[order[a]] > labels[order[b]] else (order[b], order[a])
        if labels[i] > labels[j] and allowed(i, j):
            force, bend = ranknet(sigma * (scores[i] - scores[j]))
            factor = sigma * size(a, b) * (1.0 if weight is None else weight[i] * weight[j])
            gradient[i] -= factor * force
            gradient[j] += factor * force
            hessian[[i, j]] += factor * sigma * bend
    return gradient, hessian


def linear(label):
    return float(label)


def clicks(label):
    return 2 ** (4 * label) - 1


def biased(p):
    return lambda r: (1 - p) * p ** (r - 1)


def log2(r):
    return 1 / math.log2(1 + r)


STEPS = (1.0, 0.5, 0.5, 0.1)
# Gain, discount by rank from 1, cut-off, and what the ideal order is divided by.
DISCOUNTED = {
    "ndcg": (exp2, log2, None, True),
    "ndcg@3": (exp2, log2, 3, True),
    "ndcg@1": (exp2, log2, 1, True),
    "ndcg@2": (exp2, log2, 2, True),
    "ndcg@40": (exp2, log2, 40, True),
    "ndcg@4(gain='linear')": (linear, log2, 4, True),
    "ndcg(discount=[1,0.5,0.5,0.1])": (exp2, lambda r: STEPS[r - 1] if r <= 4 else 0.0, None, True),
    "dcg@5": (exp2, log2, 5, False),
    "cndcg@3": (clicks, log2, 3, True),
    "rbp": (lambda label: exp2(label) / 15, biased(0.8), None, False),
    "rbp@3(p=0.5)": (lambda label: exp2(label) / 15, biased(0.5), 3, False),
}


def loss2(name, scores, labels, mu, order=None, **options):
    """The formula of the paper, pair by pair; all ranks beyond a cut-off are the next one."""
    gain, discount, k, divided = DISCOUNTED[name]
    order = rank(scores) if order is None else order
    gains, n = [gain(label) for label in labels], len(labels)
    cut = [discount(r) if k is None or r <= k else 0.0 for r in range(1, n + 1)]
    ideal = sum(g * d for g, d in zip(sorted(gains, reverse=True), cut, strict=True)) if divided else 1.0

    def size(a, b):
        i, j = order[a], order[b]
        m = (b if k is None else min(b, k)) - (a if k is None else min(a, k))
        bonus = mu * abs(discount(m) - discount(m + 1)) if m >= 1 else 0.0
        return abs(gains[i] - gains[j]) * (abs(cut[a] - cut[b]) + bonus) / ideal

    return forces(scores, labels, order, size, **options) if ideal > 0 else np.zeros((2, n))


def by_query(build, scores, labels, group, **each):
    """One query at a time; each of ``each`` is one value per row."""
    parts = [split(values, group) for values in each.values()]
    found = [
        build(list(s), list(y), **dict(zip(each, given, strict=True)))
        for s, y, *given in zip(split(scores, group), split(labels, group), *parts, strict=True)
    ]
    return [np.concatenate(arrays) for arrays in zip(*found, strict=True)]


@pytest.mark.parametrize("name", DISCOUNTED)
def test_loss2_is_the_formula(name):
    scores, labels, group = generated(queries=30)
    scores[100:140] *= 100  # spread too far for float32
    labels[-1] = 4  # lmax
    labels = np.array(scaled(name, labels))
    weight = np.random.default_rng(5).random(len(scores)) * 3
    for mu, sigma in ((10.0, 1.0), (0.5, 2.0)):
        objective = lp.LambdaRank(name, construction=lp.constructions.Loss2(mu), sigma=sigma)
        expected = by_query(lambda s, y: loss2(name, s, y, mu, sigma=sigma), scores, labels, group)  # noqa: B023
        exact = objective.differentiate(Queries(labels, group), scores, exact=True, dtype=np.float64)
        check(objective.gradients(labels, scores, group), expected, exact)
    expected = by_query(
        lambda s, y, weight: loss2(name, s, y, 0.5, sigma=2.0, weight=weight), scores, labels, group, weight=weight
    )
    check(objective.gradients(labels, scores, group, weight=weight), expected)


@pytest.mark.parametrize("options", [{}, {"noise": 0.5, "neighbours": 2}, {"normalize": "log"}], ids=str)
def test_loss2_without_mu_is_the_default_bit_for_bit(options):
    scores, labels, group = generated()
    for name in ("ndcg", "rbp@3"):
        plain, none = (
            lp.LambdaRank(name, construction=construction, **options).gradients(labels, scores, group)
            for construction in ("ranknet_weight_pairs", lp.constructions.Loss2(mu=0))
        )
        np.testing.assert_array_equal(none, plain)


def noisy_order(objective, scores, labels):
    state, noisy, offsets = np.empty(1, np.uint32), np.empty(len(scores)), np.array([0, len(scores)])
    label_hash_kernel()(np.asarray(labels, float), offsets, state)
    noise_kernel("logistic")(np.asarray(scores), (state, objective.seed, 0, objective.noise), offsets, 0, 1, noisy)
    return np.argsort(-noisy, kind="stable").tolist()


# The measures with a cut-off that mean something without one.
WHOLE = [
    "ndcg@3",
    "ndcg@2",
    "ndcg@4(gain='linear')",
    "map@3",
    "mrr@3",
    "err@4",
    "rbp@3(p=0.5)",
    "meanndcg@3",
    "cndcg@3",
    "dcg@5",
]
MORE = {
    "ndcg(gain='linear')": lambda x: oracle.ndcg(x, gain=float),
    "rbp(p=0.5)": lambda x: oracle.rank_biased_precision(x, 0.5),
    "cndcg": lambda x: oracle.ndcg(x, gain=clicks),
    "dcg": lambda x: oracle.dcg(oracle.gains_of(x), oracle.log_discounts(len(x))),
}


def lacking(order, grade, k):
    """By grade, how many of it the present first k lack, and where those below stand."""
    known = [level for level in grade if not math.isnan(level)]
    top, ideal = [grade[row] for row in order[:k]], sorted(known, reverse=True)[:k]
    for level in sorted(set(ideal)):
        missing = ideal.count(level) - top.count(level)
        if missing > 0:
            yield missing, [row for row in order[k:] if grade[row] == level]


def extended(name, scores, labels, chosen, order=None, **options):
    """LambdaRank's pairs and those with a document among ``chosen``."""
    order = rank(scores) if order is None else order
    k, grade = cutoff(name), oracle.grades_of(name, labels)
    whole = re.sub(r"@\d+", "", name) if name in WHOLE else name
    ranked = [labels[row] for row in order]
    if not ranked or VALUES[whole](ranked) is None:
        return np.zeros((2, len(labels)))
    factor = 1.0
    if name in DISCOUNTED and DISCOUNTED[name][3]:  # over the ideal value of the first k
        gains = sorted(oracle.gains_of(labels, DISCOUNTED[name][0]), reverse=True)
        discounts = oracle.log_discounts(len(gains))
        factor = oracle.dcg(gains, discounts) / oracle.dcg(gains[:k], discounts)

    def raised(a):
        """The value with the document at this place at the last that counts."""
        swapped = list(ranked)
        swapped[a], swapped[k - 1] = swapped[k - 1], swapped[a]
        return VALUES[name](swapped)

    def size(a, b):
        if a >= k and order[a] not in chosen and order[b] not in chosen:
            return 0.0
        if a >= k and whole == name:
            return abs(raised(a) - raised(b))
        return factor * swap_delta(whole, ranked, a, b)

    return forces(scores, grade, order, size, **options)


def best(order, grade, k):
    return {row for missing, rows in lacking(order, grade, k) for row in rows[:missing]}


def every(order, grade, k):
    return {row for _, rows in lacking(order, grade, k) for row in rows}


def chance(labels):
    """That one of the first three is liked: what a document changes depends on the others."""
    missed = 1.0
    for r in range(min(3, len(labels))):
        missed *= 1.0 - 0.2 * labels[r]
    return 1.0 - missed


def counted(labels):
    return (np.arange(len(labels)) < 3) * 1.0


# Measures that mean nothing without their cut-off, and those of one's own by name.
CUT = ["p@5", "recall@3", "hit@3", "hit@2(relevant=3)", "wta", "wta(relevant=3)"]
OWN_CUT = {
    "swaps@3": lp.custom("swaps@3", chance, k=3),
    "divided@3": lp.custom("divided@3", chance, k=3, normalize=True),
    "delta@3": lp.custom("delta@3", revenue, delta=revenue_delta, k=3),
    "rows@3": lp.custom("rows@3", revenue, rows=counted, k=3),
}
MORE |= {
    "swaps@3": chance,
    "divided@3": lambda x: chance(x) / ideal if (ideal := chance(sorted(x, reverse=True))) > 0 else None,
    "delta@3": revenue,
    "rows@3": revenue,
}


def cutoff(name):
    return 1 if name.startswith("wta") else int(re.search(r"@(\d+)", name)[1])


def test_every_measure_with_a_cutoff_is_among_those_extended():
    kinds = {type(lp.LambdaRank(name).measure) for name in [*WHOLE, *CUT]}
    assert kinds == {
        kind for kind in registered().values() if kind is lp.WTA or any(field.name == "k" for field in fields(kind))
    }


@pytest.mark.parametrize(
    ("name", "documents", "choose"),
    [
        *((name, "static", best) for name in [*WHOLE, *CUT, *OWN_CUT]),
        *((name, "all", every) for name in ("ndcg@3", "hit@3", "rows@3")),
    ],
)
def test_extended_is_lambdarank_with_more_pairs(monkeypatch, name, documents, choose):
    for whole, function in MORE.items():
        monkeypatch.setitem(VALUES, whole, function)
    scores, labels, group = generated(queries=30)
    scores[100:140] *= 100
    labels[-1] = 4
    labels = np.array(scaled(name, labels))

    def build(s, y, weight=None, sigma=1.0):
        chosen = choose(rank(s), oracle.grades_of(name, y), cutoff(name))
        return extended(name, s, y, chosen, weight=weight, sigma=sigma)

    objective = lp.LambdaRank(OWN_CUT.get(name, name), construction=lp.constructions.Extended(documents))
    exact = objective.differentiate(Queries(labels, group), scores, exact=True, dtype=np.float64)
    check(objective.gradients(labels, scores, group), by_query(build, scores, labels, group), exact)
    weight = np.random.default_rng(5).random(len(scores)) * 3
    expected = by_query(build, scores, labels, group, weight=weight)
    check(objective.gradients(labels, scores, group, weight=weight), expected)


def test_extended_with_tiers_and_documents_without_a_label():
    rng = np.random.default_rng(6)
    scores, labels, tier = rng.normal(size=20), rng.integers(0, 3, 20).astype(float), rng.integers(0, 2, 20)
    labels[[2, 5, 11]] = np.nan
    chosen = best(rank(list(scores)), list(labels), 3)
    assert chosen
    objective, own = lp.LambdaRank("ndcg@3", construction="extended", labels="own"), {"own": labels}
    expected = extended("ndcg@3", list(scores), list(labels), chosen)
    check(objective.gradients(tier, scores, [20], columns=own), expected)
    graded = lp.Graded([lp.LambdaRank("ndcg"), objective], weights=[0.0, 1.0])
    same = lambda i, j: tier[i] == tier[j]  # noqa: E731
    expected = extended("ndcg@3", list(scores), list(labels), chosen, allowed=same)
    check(graded.gradients(tier, scores, [20], columns=own), expected)


def test_extended_draws_every_choice_as_often():
    scores, labels = [6.0, 5.0, 4.0, 3.0, 2.0, 1.0, 0.0], [0, 1, 2, 2, 0, 2, 1]  # two of 2, of three below, are lacking
    possible = {
        choice: extended("ndcg@2", scores, labels, set(choice))[0] for choice in itertools.combinations((2, 3, 5), 2)
    }
    counts = collections.Counter()
    for seed in range(150):
        objective = lp.LambdaRank("ndcg@2", construction=lp.constructions.Extended("random"), seed=seed)
        gradient = objective.gradients(labels, scores, [7])[0]
        again = objective.gradients([*labels, 0, 1], [*scores, 0.0, 1.0], [7, 2])[0]
        np.testing.assert_array_equal(again[:7], gradient)  # a query's draws are its own
        counts[next(choice for choice, expected in possible.items() if np.allclose(gradient, expected, atol=1e-6))] += 1
    assert len(counts) == 3
    assert min(counts.values()) > 30
    objective = lp.LambdaRank("ndcg@2", construction=lp.constructions.Extended("random"))
    moved = [objective.gradients(labels, np.array(scores) + shift, [7])[0] for shift in range(9)]  # other rounds
    assert len({gradient.round(6).tobytes() for gradient in moved}) > 1


@pytest.mark.parametrize("construction", [lp.constructions.Loss2(), lp.constructions.Extended("static")], ids=str)
def test_both_go_by_the_noisy_order(construction):
    rng = np.random.default_rng(4)
    scores, labels = rng.normal(size=14), rng.integers(0, 4, 14).astype(float)
    objective = lp.LambdaRank("ndcg@3", construction=construction, noise=1.0, seed=11)
    order = noisy_order(objective, scores, labels)
    assert order != rank(scores)
    if isinstance(construction, lp.constructions.Loss2):
        expected = loss2("ndcg@3", list(scores), list(labels), 10.0, order)
    else:
        expected = extended("ndcg@3", list(scores), list(labels), best(order, list(labels), 3), order)
    check(objective.gradients(labels, scores, [14]), expected)
    near = lp.LambdaRank("ndcg@3", construction=construction, noise=1.0, seed=11, neighbours=2)
    assert np.abs(near.gradients(labels, scores, [14])[0] - expected[0]).max() > 0


def rank_with(name, construction, **options):
    return lambda: lp.LambdaRank(OWN.get(name, name), construction=construction, **options)


FALLING, CUT_OFF = (
    "discount that falls: cndcg, dcg, ndcg, rbp; got",
    "expected one of cndcg@k, .* recall@k, wta, or lp.custom",
)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (rank_with("map", "spring"), "expected one of 'ranknet_weight_pairs', 'spring_smooth'"),
        (rank_with("map", "local_gradient", sigma=2.0), "has no pair cost: leave out cost= and sigma="),
        (rank_with("map", "discrete_bounded", cost=lp.Sigmoid()), "has no pair cost: leave out cost= and sigma="),
        (lambda: lp.constructions.SpringSmooth(floor=0), "floor: expected a positive number"),
        (lambda: lp.constructions.LocalCost(window=0.5), "window: expected an integer >= 1"),
        (lambda: lp.constructions.LocalGradient(margin=-1), "margin: expected a positive number"),
        (lambda: lp.constructions.DiscreteBounded(bound=True), "bound: expected a positive number"),
        (lambda: lp.constructions.Loss2(mu=-1), "Loss2: mu: expected a finite number >= 0, got -1"),
        (lambda: lp.constructions.Extended("dynamic"), "expected one of 'static', 'random', 'all', got 'dynamic'"),
        *((rank_with(name, "loss2"), FALLING) for name in ("map", "wta", "meanndcg", "hit@3", "revenue")),
        *((rank_with(name, "extended"), CUT_OFF) for name in ("ndcg", "spearman", "revenue")),
    ],
)
def test_measures_they_cannot_do_are_refused_with_those_they_can(build, message):
    with pytest.raises(lp.LambdaplugError, match=message):
        build()
