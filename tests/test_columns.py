"""Measures of more than a label: columns, the measures that use them, and cut-offs per query."""

import itertools
import pickle

import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb

import lambdaplug as lp
from lambdaplug.kernels import norm_kernel, swap_kernel, value_kernel
from lambdaplug.kernels.cache import KernelCache
from lambdaplug.measures import as_measure, swap_deltas
from lambdaplug.queries import Queries

RNG = np.random.default_rng(0)
GROUP = np.array([7, 12, 1, 9, 0, 11])
ROWS = int(GROUP.sum())
X = RNG.normal(size=(ROWS, 4))
LABELS = RNG.integers(0, 4, ROWS).astype(float)
SCORES = RNG.normal(size=ROWS)
PRICE = RNG.uniform(1.0, 50.0, ROWS)
INTENT = RNG.integers(10, 13, ROWS)
JUDGED = RNG.integers(0, 3, (ROWS, 3)) * (RNG.random((ROWS, 3)) < 0.5)
SELLER = RNG.integers(0, 3, ROWS)
QUIET = {"verbose": -1, "num_leaves": 4, "min_data_in_leaf": 1, "min_data_in_bin": 1, "num_threads": 1}


def value(labels, price):
    total = 0.0
    for r in range(min(3, len(labels))):
        total += labels[r] * price[r] / (r + 1)
    return total


def counted(r):
    return 1 / (r + 1) if r < 3 else 0.0


def worth(labels, price):
    return labels * price


def delta(labels, i, j, price):
    above = 1 / (i + 1) if i < 3 else 0.0
    below = 1 / (j + 1) if j < 3 else 0.0
    return (above - below) * (labels[j] * price[j] - labels[i] * price[i])


def prepared_delta(labels, i, j, worths):  # noqa: ARG001
    above = 1 / (i + 1) if i < 3 else 0.0
    below = 1 / (j + 1) if j < 3 else 0.0
    return (above - below) * (worths[j] - worths[i])


def sums(worths):
    total = 0.0
    for r in range(min(3, len(worths))):
        total += worths[r] / (r + 1)
    return total


def shown(worths):
    out = np.zeros(len(worths))
    for r in range(min(3, len(worths))):
        out[r] = 1 / (r + 1)
    return out


OWN = {"columns": {"price": PRICE}}
CUSTOM = {
    "swaps": lp.custom("mine", value, **OWN),
    "delta": lp.custom("mine", value, delta=delta, k=3, **OWN),
    "prepare": lp.custom("mine", value, delta=prepared_delta, prepare=worth, **OWN),
    "rows": lp.custom("mine", sums, rows=shown, gain=worth, k=3, **OWN),
}
BUILT_IN = [
    lp.Revenue(price=PRICE, k=3),
    lp.Revenue(price=PRICE, cascade=True),
    lp.Revenue(price=PRICE, click=[0, 0.1, 0.5, 0.7], k=4, cascade=True),
    lp.AlphaNDCG(intents=INTENT),
    lp.AlphaNDCG(intents=JUDGED, k=4, alpha=0.3),
    lp.ERRIA(intents=INTENT, k=5),
    lp.ERRIA(intents=JUDGED),
    lp.Exposure(group=SELLER),
    lp.Exposure(group=SELLER, k=3, target={0: 1, 1: 2, 2: 0.5}),
    lp.Exposure(group=SELLER, k=3, target="merit"),
]
CUT = [
    lp.NDCG(k=[1, 5, 3, 2, 9, 20]),
    lp.MAP(k=np.array([1, 5, 3, 2, 9, 20])),
    lp.Precision(k=[1, 5, 3, 2, 9, 20]),
    lp.AlphaNDCG(intents=INTENT, k=[1, 5, 3, 2, 9, 20]),
    lp.Exposure(group=SELLER, k=[1, 5, 3, 2, 9, 20]),
    lp.Revenue(price=PRICE, k=[1, 5, 3, 2, 9, 20]),
]


# --- values, by formulas written once more


def queries():
    ends = np.cumsum(GROUP)
    return [slice(end - size, end) for end, size in zip(ends, GROUP, strict=True) if size]


def by_hand(one, k=None):
    """A value per query, from a function of its rows in rank order and the discounts 1/log2(1 + rank)."""
    found = []
    for own in queries():
        rows = np.arange(own.start, own.stop)[np.argsort(-SCORES[own], kind="stable")]
        cut = len(rows) if k is None else min(k, len(rows))
        found.append(one(rows[:cut], 1 / np.log2(np.arange(2, cut + 2)), rows))
    return np.array(found)


def evaluated(measure):
    (values,) = lp.evaluate(measure, LABELS, SCORES, GROUP, per_query=True).values()
    return values[GROUP > 0]


def test_revenue_is_its_formula():
    chance = (2**LABELS - 1) / 2 ** LABELS.max()

    def cascade(rows, discount, _):
        left = np.cumprod(np.append(1.0, 1 - chance[rows]))[:-1]
        return (discount * PRICE[rows] * chance[rows] * left).sum()

    plain = by_hand(lambda rows, discount, _: (discount * PRICE[rows] * chance[rows]).sum(), 3)
    np.testing.assert_allclose(evaluated(lp.Revenue(price=PRICE, k=3)), plain, rtol=1e-12)
    np.testing.assert_allclose(evaluated(lp.Revenue(price=PRICE, k=3, cascade=True)), by_hand(cascade, 3), rtol=1e-12)


def served(rows, m):
    return JUDGED[rows, m] > 0


@pytest.mark.parametrize("k", [None, 4])
def test_diversity_is_its_formula(k):
    def dcg(rows, discount):
        return sum(
            (discount * served(rows, m) * 0.5 ** (np.cumsum(served(rows, m)) - served(rows, m))).sum() for m in range(3)
        )

    def alpha(rows, discount, every):
        left, best = list(every), []
        while left and len(best) < len(rows):  # greedy
            gains = [
                sum(served([d], m)[0] * 0.5 ** served(best, m).sum() if best else served([d], m)[0] for m in range(3))
                for d in sorted(left)
            ]
            best.append(sorted(left)[int(np.argmax(gains))])
            left.remove(best[-1])
        ideal = dcg(np.array(best), discount)
        return dcg(rows, discount) / ideal if ideal else np.nan

    def erria(rows, _, every):
        found = []
        for m in range(3):
            p = (2.0 ** JUDGED[rows, m] - 1) / 4
            left = np.cumprod(np.append(1.0, 1 - p))[:-1]
            if served(every, m).any():
                found.append((p * left / np.arange(1, len(rows) + 1)).sum())
        return np.mean(found) if found else np.nan

    np.testing.assert_allclose(evaluated(lp.AlphaNDCG(intents=JUDGED, k=k)), by_hand(alpha, k), rtol=1e-12)
    np.testing.assert_allclose(evaluated(lp.ERRIA(intents=JUDGED, k=k)), by_hand(erria, k), rtol=1e-12)


@pytest.mark.parametrize(("target", "weights"), [("size", np.ones(ROWS)), ("merit", LABELS)])
def test_exposure_is_its_formula(target, weights):
    def exposure(rows, discount, every):
        shares = [discount[SELLER[rows] == g].sum() / discount.sum() for g in range(3)]
        merits = weights if weights[every].sum() else np.ones(ROWS)
        wanted = [merits[every][SELLER[every] == g].sum() / merits[every].sum() for g in range(3)]
        return -0.5 * np.abs(np.subtract(shares, wanted)).sum()

    found = evaluated(lp.Exposure(group=SELLER, k=3, target=target))
    np.testing.assert_allclose(found, by_hand(exposure, 3), rtol=1e-12, atol=1e-15)


def test_a_measure_with_columns_is_the_function_of_the_ranked_documents():
    expected = by_hand(lambda rows, _, __: value(LABELS[rows], PRICE[rows]))
    for measure in CUSTOM.values():
        np.testing.assert_allclose(evaluated(measure), expected, rtol=1e-12)


def test_one_intent_per_document_is_a_table_of_intents_with_one_each():
    table = np.where(INTENT[:, None] == np.arange(10, 13), LABELS[:, None], 0.0)
    for kind in (lp.AlphaNDCG, lp.ERRIA):
        np.testing.assert_allclose(evaluated(kind(intents=INTENT)), evaluated(kind(intents=table)), rtol=1e-12)


# --- deltas and gradients


@pytest.mark.parametrize("measure", [*BUILT_IN, *CUT, *CUSTOM.values()], ids=str)
def test_deltas_are_those_of_the_swaps(measure):
    proof = lp.verify(measure, trials=50)
    assert proof, proof


def turned(labels, i, j, price):
    above = 1 / (i + 1) if i < 3 else 0.0
    below = 1 / (j + 1) if j < 3 else 0.0
    return (above - below) * (labels[i] * price[i] - labels[j] * price[j])


def test_a_delta_of_the_wrong_sign_is_found():
    proof = lp.verify(lp.custom("mine", value, delta=turned, **OWN))
    assert not proof
    above = [3.0, 0.0], {"price": [10.0, 1.0]}
    assert swap_deltas(CUSTOM["delta"], *above).tolist() == [[0.0, 15.0], [15.0, 0.0]]


def gradients_by_hand(measure, scores):
    """Every pair once: the document that belongs above is the one whose rise raises the value."""
    gradient = np.zeros(ROWS)

    def measured(order):
        places = np.empty(ROWS)
        places[order] = -np.arange(len(order))
        (found,) = lp.evaluate(
            measure, LABELS, np.where(np.isin(np.arange(ROWS), order), places, scores), GROUP, per_query=True
        ).values()
        return found

    for query, own in zip(np.flatnonzero(GROUP), queries(), strict=True):
        order = np.arange(own.start, own.stop)[np.argsort(-scores[own], kind="stable")]
        before = measured(order)[query]
        if np.isnan(before):
            continue
        for i, j in itertools.combinations(range(len(order)), 2):
            swapped = order.copy()
            swapped[[i, j]] = swapped[[j, i]]
            change = measured(swapped)[query] - before
            up, down = (order[j], order[i]) if change > 0 else (order[i], order[j])
            force = abs(change) / (1 + np.exp(scores[up] - scores[down]))
            gradient[up] -= force
            gradient[down] += force
    return gradient


@pytest.mark.parametrize(
    "measure", [BUILT_IN[1], BUILT_IN[2], BUILT_IN[4], BUILT_IN[8], CUT[3], CUSTOM["swaps"], CUSTOM["prepare"]], ids=str
)
def test_gradients_push_up_what_belongs_above_by_the_fast_and_the_exact_loop(measure):
    expected = gradients_by_hand(measure, SCORES)
    for exact in (False, True):
        found, _ = lp.LambdaRank(measure).differentiate(Queries(LABELS, GROUP), SCORES, dtype=np.float64, exact=exact)
        np.testing.assert_allclose(
            found, expected, rtol=1e-4 if not exact else 1e-9, atol=1e-6 * np.abs(expected).max()
        )


LONG = np.array([700, 2, 0, 3, 4, 5, 45, 1])  # longer than a block of columns, and shorter than a group of rows


@pytest.mark.parametrize("k", [None, 3, 530])
@pytest.mark.parametrize("weighted", [False, True])
def test_packed_loops_are_the_exact_one_in_lists_of_any_length(k, weighted):
    rng, rows = np.random.default_rng(2), int(LONG.sum())
    labels, scores, topics = rng.integers(0, 4, rows), rng.normal(size=rows), rng.integers(0, 3, (rows, 3))
    brand, judged = rng.integers(0, 5, rows), np.where(rng.random(rows) < 0.1, np.nan, labels)
    data = Queries(labels, LONG, document_weight=rng.random(rows) if weighted else None)
    measures = [
        lp.Revenue(price=rng.normal(1.0, 2.0, rows), k=k, cascade=True, max_label=4),
        lp.Exposure(group=brand, k=k),
        lp.AlphaNDCG(intents=brand, k=k),
        lp.AlphaNDCG(intents=topics, k=k),
        lp.ERRIA(intents=brand, k=k, max_label=4),
    ]
    for measure in measures[::2] if weighted else measures:  # weights come after what a measure's own loop has done
        objective = lp.LambdaRank(measure, labels=judged, normalize="log")
        fast, exact = (objective.differentiate(data, scores, dtype=np.float64, exact=one) for one in (False, True))
        near = exact[1] + 1e-9 * exact[1].max()
        assert np.all(np.abs(fast[1] - exact[1]) < 1e-4 * near)
        assert np.all(np.abs(fast[0] - exact[0]) < 1e-3 * near)


def test_equal_documents_are_in_no_pair():
    same = {"labels": np.full(40, 2), "scores": RNG.normal(size=40), "group": [40]}
    for measure in (
        lp.AlphaNDCG(intents=np.ones(40)),
        lp.ERRIA(intents=np.ones((40, 2)), max_label=3),
        lp.Revenue(price=np.full(40, 0.3), cascade=True, max_label=3),
    ):
        gradient, _ = lp.LambdaRank(measure, normalize="std").gradients(**same)
        assert not gradient.any()  # no rounding that normalisation could blow up


def test_kernels_of_a_cut_off_per_query_are_kept_on_disk():
    measure = as_measure(lp.NDCG(k=[3, 5]))
    for kernel in (value_kernel(measure.value), norm_kernel(measure.norm), swap_kernel(measure.swap_rows())):
        assert isinstance(kernel._cache, KernelCache)


def test_the_four_forms_of_a_custom_measure_have_one_gradient():
    found = [lp.LambdaRank(CUSTOM[form]).gradients(LABELS, SCORES, GROUP)[0] for form in ("swaps", "delta", "prepare")]
    for other in found[1:]:
        np.testing.assert_allclose(other, found[0], rtol=1e-4, atol=1e-4)
    by_gain = lp.LambdaRank(CUSTOM["rows"]).gradients(LABELS, SCORES, GROUP)[
        0
    ]  # the same pairs: gains that are equal change nothing
    np.testing.assert_allclose(by_gain, found[0], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("k", [1, 4])
def test_a_cut_off_per_query_is_the_cut_off_of_each(k):
    for kind in (lp.NDCG, lp.MAP, lp.Precision, lp.ERR):
        one, own = lp.LambdaRank(kind(k=k)), lp.LambdaRank(kind(k=[k] * len(GROUP)))
        for a, b in zip(one.gradients(LABELS, SCORES, GROUP), own.gradients(LABELS, SCORES, GROUP), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-9)
    cuts = np.array([1, 5, 3, 2, 9, 20])
    values = [lp.evaluate(lp.NDCG(k=int(k)), LABELS, SCORES, GROUP, per_query=True)[f"ndcg@{k}"] for k in cuts]
    expected = np.array([values[q][q] for q in range(len(GROUP))])
    for given in (cuts, np.repeat(cuts, GROUP)):
        found = lp.evaluate(lp.NDCG(k=given), LABELS, SCORES, GROUP, per_query=True)["ndcg@k"]
        np.testing.assert_allclose(found, expected, rtol=1e-12)


# --- columns follow the rows


@pytest.mark.parametrize(
    "make", [lambda: CUSTOM["delta"], lambda: BUILT_IN[2], lambda: lp.NDCG(k=np.repeat([2, 5, 3, 2, 9, 4], GROUP))]
)
def test_columns_follow_the_rows_into_subsets_pickles_and_both_hosts(make):
    objective = pickle.loads(pickle.dumps(lp.LambdaRank(make(), noise=0.5)))
    assert len({objective, lp.LambdaRank(make(), noise=0.5)}) == 1
    data = lgb.Dataset(X, LABELS, group=GROUP[GROUP > 0], params=QUIET)
    model = lgb.train({**QUIET, "objective": objective}, data, 3)
    part = np.arange(7, 7 + 12)  # the second query
    subset = data.subset(part).construct()
    exact = lp.LambdaRank(make())
    taken = {
        name: values[part] for name, values in (("price", PRICE), ("k", np.full(ROWS, 5))) if name in names(make())
    }
    alone = lp.LambdaRank(exact.measure.with_columns(taken))
    np.testing.assert_array_equal(exact(SCORES[part], subset)[0], alone.gradients(LABELS[part], SCORES[part], [12])[0])
    folds = [(np.arange(19), np.arange(19, ROWS)), (np.arange(19, ROWS), np.arange(19))]
    lgb.cv(
        {**QUIET, "objective": objective, "metric": "None"},
        lgb.Dataset(X, LABELS, group=GROUP[GROUP > 0], params=QUIET),
        2,
        folds=folds,
        feval=lp.metric(make()),
    )
    matrix = xgb.DMatrix(X, LABELS, qid=np.repeat(np.arange(6), GROUP))
    booster = xgb.train(
        {
            "max_depth": 2,
            "min_child_weight": 0,
            "objective": "rank:ndcg",
            "disable_default_eval_metric": 1,
            "nthread": 1,
        },
        matrix,
        3,
        obj=objective,
        evals=[(matrix, "t")],
        custom_metric=lp.metric(make()),
        verbose_eval=False,
    )
    for scores in (model.predict(X), booster.predict(matrix)):
        assert np.ptp(scores) > 0


def names(measure):
    return {*measure.columns, *(["k"] if not isinstance(measure.k, (int, type(None))) else [])}


def test_metrics_and_comparisons_of_other_data_take_its_columns():
    half = ROWS - 11
    other = PRICE[half:]
    expected = lp.evaluate(lp.Revenue(price=other, k=3), LABELS[half:], SCORES[half:], [11])
    assert lp.evaluate(BUILT_IN[0], LABELS[half:], SCORES[half:], [11], columns={"price": other}) == expected
    part = lgb.Dataset(X[half:], LABELS[half:], group=[11], params=QUIET).construct()
    ((name, found, _),) = lp.metric(BUILT_IN[0], columns={"price": other})(SCORES[half:], part)
    assert {name: found} == expected
    report = lp.compare(BUILT_IN[0], LABELS[half:], SCORES[half:], SCORES[half:], [11], columns={"price": other})
    assert report.mean_a == pytest.approx(expected["revenue@3"])
    assert lp.evaluate(lp.NDCG(k=[3, 4]), LABELS[half:], SCORES[half:], [11], columns={"k": [2]})[
        "ndcg@k"
    ] == pytest.approx(lp.evaluate("ndcg@2", LABELS[half:], SCORES[half:], [11])["ndcg@2"])


def test_goals_of_columns_are_parts_of_sums_and_of_pareto():
    parts = [lp.LambdaRank("ndcg"), lp.LambdaRank(BUILT_IN[7]), lp.LambdaRank(BUILT_IN[2])]
    mixed = lp.Mixture([(1.0, part) for part in parts]).gradients(LABELS, SCORES, GROUP)[0]
    np.testing.assert_allclose(
        mixed, sum(part.gradients(LABELS, SCORES, GROUP)[0] for part in parts), rtol=1e-4, atol=1e-5
    )
    for method in ("mgda", "chebyshev"):
        pareto = lp.Pareto(parts, method)
        weights = np.array(pareto.weights(LABELS, SCORES, GROUP))
        assert len(pareto.sources) == 2
        assert weights.sum() == pytest.approx(1.0)
    assert np.isfinite(lp.SPSA(BUILT_IN[5]).gradients(LABELS, SCORES, GROUP)[0]).all()
    assert np.isfinite(lp.FDSA(BUILT_IN[8]).gradients(LABELS, SCORES, GROUP)[0]).all()
    assert np.isfinite(lp.objective(BUILT_IN[3]).gradients(LABELS, SCORES, GROUP)[0]).all()


# --- what is refused

REFUSED = [
    (lambda: lp.Revenue(price=[1.0, np.nan]), "column 'price': expected a number for every row, row 1 is NaN"),
    (lambda: lp.Revenue(price=[1.0, np.inf]), "infinite"),
    (lambda: lp.Revenue(k=3), "column 'price': expected one number per row"),
    (lambda: lp.evaluate(lp.Revenue(price=[1.0]), LABELS, SCORES, GROUP), "column 'price': expected one value per row"),
    (lambda: lp.LambdaRank(lp.Exposure(group=[1.0])).gradients(LABELS, SCORES, GROUP), "columns= of its own"),
    (
        lambda: lp.evaluate(BUILT_IN[0], LABELS, SCORES, GROUP, columns={"prise": PRICE}),
        "no measure here has a column 'prise'",
    ),
    (lambda: lp.evaluate("ndcg", LABELS, SCORES, GROUP, columns={"price": PRICE}), "there are: none"),
    (lambda: lp.evaluate(BUILT_IN[1], LABELS, SCORES, GROUP, ties="worst"), "ties='stable'"),
    (lambda: lp.evaluate(lp.NDCG(k=[1, 2]), LABELS, SCORES, GROUP), "one value per query"),
    (lambda: lp.NDCG(k=[1, 0]), "one such per query"),
    (lambda: lp.NDCG(k=[1.5, 2]), "one such per query"),
    (lambda: lp.custom("mine", value, k=[1, 2], **OWN), "make cut-offs per query a column"),
    (lambda: lp.custom("mine", value), "fails for the ranked labels"),
    (
        lambda: lp.custom("mine", value, columns={"price": PRICE[:, None] * [1, 2]}),
        "expected one number per row, got 2",
    ),
    (lambda: lp.custom("mine", value, columns=PRICE), "expected a mapping"),
    (lambda: lp.custom("mine", lambda price, labels: 1.0, **OWN), "and then columns by their names"),  # noqa: ARG005
    (lambda: lp.AlphaNDCG(intents=INTENT, alpha=1.0), "less than 1"),
    (lambda: lp.Revenue(price=PRICE, click=[0, 2, 2, 2]).gains_of(LABELS, [PRICE]), "chances of at most 1"),
    (lambda: lp.Exposure(group=SELLER, target="equal"), "'size', 'merit'"),
    (lambda: lp.evaluate(lp.Exposure(group=SELLER, target={0: 1}), LABELS, SCORES, GROUP), "no share for the group 1"),
    (lambda: lp.LambdaRank(BUILT_IN[3], construction="spring_smooth"), "needs gains that order the documents"),
    (lambda: lp.Approx(lp.NDCG(k=[1, 2])), "lp.LambdaRank"),
    (lambda: lp.PLRank(lp.NDCG(k=[1, 2])), "lp.LambdaRank"),
]


@pytest.mark.parametrize(("wrong", "words"), REFUSED, ids=[words for _, words in REFUSED])
def test_what_is_wrong_is_said(wrong, words):
    with pytest.raises(lp.LambdaplugError, match=words):
        wrong()
