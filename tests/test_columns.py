"""Measures of more than a label: columns, the measures that use them, and cut-offs per query."""

import numpy as np
import pytest

import lambdaplug as lp
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


DEPTH = np.array([1, 5, 3, 2, 9, 20])
COLUMNS = {"price": PRICE, "intent": INTENT, "judged": JUDGED, "seller": SELLER, "depth": DEPTH}
OWN = {"columns": "price"}
ROWS_OF = {"labels": LABELS, "scores": SCORES, "group": GROUP, "columns": COLUMNS}
CUSTOM = {
    "swaps": lp.custom("mine", value, **OWN),
    "delta": lp.custom("mine", value, delta=delta, k=3, **OWN),
    "prepare": lp.custom("mine", value, delta=prepared_delta, prepare=worth, **OWN),
    "rows": lp.custom("mine", sums, rows=shown, gain=worth, k=3, **OWN),
}
BUILT_IN = [
    lp.Revenue(price="price", k=3),
    lp.Revenue(price="price", cascade=True),
    lp.Revenue(price="price", click=[0, 0.1, 0.5, 0.7], k=4, cascade=True),
    lp.AlphaNDCG(intents="intent"),
    lp.AlphaNDCG(intents="judged", k=4, alpha=0.3),
    lp.ERRIA(intents="intent", k=5),
    lp.ERRIA(intents="judged"),
    lp.Exposure(group="seller"),
    lp.Exposure(group="seller", k=3, target={0: 1, 1: 2, 2: 0.5}),
    lp.Exposure(group="seller", k=3, target="merit"),
]
CUT = [
    lp.NDCG(k="depth"),
    lp.MAP(k="depth"),
    lp.Precision(k="depth"),
    lp.AlphaNDCG(intents="intent", k="depth"),
    lp.Exposure(group="seller", k="depth"),
    lp.Revenue(price="price", k="depth"),
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
    (values,) = lp.evaluate(measure, **ROWS_OF, per_query=True).values()
    return values[GROUP > 0]


def test_revenue_is_its_formula():
    chance = (2**LABELS - 1) / 2 ** LABELS.max()

    def cascade(rows, discount, _):
        left = np.cumprod(np.append(1.0, 1 - chance[rows]))[:-1]
        return (discount * PRICE[rows] * chance[rows] * left).sum()

    plain = by_hand(lambda rows, discount, _: (discount * PRICE[rows] * chance[rows]).sum(), 3)
    np.testing.assert_allclose(evaluated(lp.Revenue(price="price", k=3)), plain, rtol=1e-12)
    np.testing.assert_allclose(evaluated(lp.Revenue(price="price", k=3, cascade=True)), by_hand(cascade, 3), rtol=1e-12)


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

    np.testing.assert_allclose(evaluated(lp.AlphaNDCG(intents="judged", k=k)), by_hand(alpha, k), rtol=1e-12)
    np.testing.assert_allclose(evaluated(lp.ERRIA(intents="judged", k=k)), by_hand(erria, k), rtol=1e-12)


@pytest.mark.parametrize(("target", "weights"), [("size", np.ones(ROWS)), ("merit", LABELS)])
def test_exposure_is_its_formula(target, weights):
    def exposure(rows, discount, every):
        shares = [discount[SELLER[rows] == g].sum() / discount.sum() for g in range(3)]
        merits = weights if weights[every].sum() else np.ones(ROWS)
        wanted = [merits[every][SELLER[every] == g].sum() / merits[every].sum() for g in range(3)]
        return -0.5 * np.abs(np.subtract(shares, wanted)).sum()

    found = evaluated(lp.Exposure(group="seller", k=3, target=target))
    np.testing.assert_allclose(found, by_hand(exposure, 3), rtol=1e-12, atol=1e-15)


def test_a_measure_with_columns_is_the_function_of_the_ranked_documents():
    expected = by_hand(lambda rows, _, __: value(LABELS[rows], PRICE[rows]))
    for measure in CUSTOM.values():
        np.testing.assert_allclose(evaluated(measure), expected, rtol=1e-12)


def test_one_intent_per_document_is_a_table_of_intents_with_one_each():
    table = np.where(INTENT[:, None] == np.arange(10, 13), LABELS[:, None], 0.0)
    for kind in (lp.AlphaNDCG, lp.ERRIA):
        one, several = (
            lp.LambdaRank(kind()).gradients(LABELS, SCORES, GROUP, columns={"intents": values})
            for values in (INTENT, table)
        )
        np.testing.assert_allclose(one, several, rtol=1e-4, atol=1e-6)


# --- deltas and gradients


@pytest.mark.parametrize("measure", [*BUILT_IN, *CUT, *CUSTOM.values()], ids=str)
def test_deltas_are_those_of_the_swaps(measure):
    proof = lp.verify(measure, trials=50, columns=COLUMNS)
    assert proof, proof


LONG = np.array([700, 2, 0, 3, 4, 5, 45, 1])  # longer than a block of columns, and shorter than a group of rows


@pytest.mark.parametrize("k", [None, 3, 530])
@pytest.mark.parametrize("weighted", [False, True])
def test_packed_loops_are_the_exact_one_in_lists_of_any_length(k, weighted):
    rng, rows = np.random.default_rng(2), int(LONG.sum())
    labels, scores, topics = rng.integers(0, 4, rows), rng.normal(size=rows), rng.integers(0, 3, (rows, 3))
    brand, judged = rng.integers(0, 5, rows), np.where(rng.random(rows) < 0.1, np.nan, labels)
    columns = {"price": rng.normal(1.0, 2.0, rows), "brand": brand, "topics": topics, "judged": judged}
    data = Queries(labels, LONG, document_weight=rng.random(rows) if weighted else None, columns=columns)
    measures = [
        lp.Revenue(price="price", k=k, cascade=True, max_label=4),
        lp.Exposure(group="brand", k=k),
        lp.AlphaNDCG(intents="brand", k=k),
        lp.AlphaNDCG(intents="topics", k=k),
        lp.ERRIA(intents="brand", k=k, max_label=4),
    ]
    for measure in measures[::2] if weighted else measures:  # weights come after what a measure's own loop has done
        objective = lp.LambdaRank(measure, labels="judged", normalize="log")
        fast, exact = (objective.differentiate(data, scores, dtype=np.float64, exact=one) for one in (False, True))
        near = exact[1] + 1e-9 * exact[1].max()
        assert np.all(np.abs(fast[1] - exact[1]) < 1e-4 * near)
        assert np.all(np.abs(fast[0] - exact[0]) < 1e-3 * near)


def test_equal_documents_are_in_no_pair():
    same = {"labels": np.full(40, 2), "scores": RNG.normal(size=40), "group": [40]}
    columns = {"one": np.ones(40), "two": np.ones((40, 2)), "price": np.full(40, 0.3)}
    for measure in (
        lp.AlphaNDCG(intents="one"),
        lp.ERRIA(intents="two", max_label=3),
        lp.Revenue(cascade=True, max_label=3),
    ):
        gradient, _ = lp.LambdaRank(measure, normalize="std").gradients(**same, columns=columns)
        assert not gradient.any()  # no rounding that normalisation could blow up


@pytest.mark.parametrize("k", [1, 4])
def test_a_cut_off_per_query_is_the_cut_off_of_each(k):
    for kind in (lp.NDCG, lp.MAP, lp.Precision, lp.ERR):
        one = lp.LambdaRank(kind(k=k)).gradients(LABELS, SCORES, GROUP)
        own = lp.LambdaRank(kind(k="k")).gradients(LABELS, SCORES, GROUP, columns={"k": [k] * len(GROUP)})
        for a, b in zip(one, own, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-9)
    cuts = np.array([1, 5, 3, 2, 9, 20])
    values = [lp.evaluate(lp.NDCG(k=int(k)), LABELS, SCORES, GROUP, per_query=True)[f"ndcg@{k}"] for k in cuts]
    expected = np.array([values[q][q] for q in range(len(GROUP))])
    for given in (cuts, np.repeat(cuts, GROUP)):
        (found,) = lp.evaluate("ndcg(k='k')", LABELS, SCORES, GROUP, per_query=True, columns={"k": given}).values()
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_comparisons_take_columns():
    expected = lp.evaluate(BUILT_IN[0], **ROWS_OF)["revenue@3"]
    rows = {"labels": LABELS, "group": GROUP, "columns": COLUMNS}
    assert lp.compare(BUILT_IN[0], scores_a=SCORES, scores_b=-SCORES, **rows).mean_a == expected
    assert lp.leaderboard({"a": SCORES}, BUILT_IN[0], **rows).means["revenue@3"]["a"] == expected


# --- what is refused


def evaluate(measure, **columns):
    return lp.evaluate(measure, LABELS, SCORES, GROUP, columns={**COLUMNS, **columns})


REFUSED = [
    (lambda: lp.Revenue(price=PRICE), r"price: expected the name of a column, .*lp.attach\(data, price=values\), and say price='price'"),
    (lambda: lp.AlphaNDCG(intents=INTENT), "say intents='intents'; rankers take fit"),
    (lambda: lp.NDCG(k=[1, 2]), "k must be an integer >= 1 .*or the name of a column"),
    (lambda: lp.custom("mine", value, columns={"price": PRICE}), "say custom 'mine': columns='price'"),
    (lambda: evaluate(lp.Revenue(price="prise")), "'prise': there is none of this name in these rows; its columns: 'price', 'intent'"),
    (lambda: evaluate("ndcg(k='depth')", depth=[1, 0, 2, 3, 4, 5]), "expected cut-offs, one integer >= 1"),
    (lambda: evaluate(BUILT_IN[1]) and lp.evaluate(BUILT_IN[1], **ROWS_OF, ties="worst"), "ties='stable'"),
    (lambda: lp.verify(BUILT_IN[0]), "column 'price': there is none of this name in verify; its columns: none. Give it one: lp.verify"),
    (lambda: lp.custom("mine", value, k=[1, 2], **OWN), "cut-offs per query are a column"),
    (lambda: lp.custom("mine", value), r"must have 1 parameter and then columns by their names .none is in columns=., it has .labels, price"),
    (lambda: lp.custom("mine", lambda price, labels: 1.0, **OWN), "and then columns by their names"),  # noqa: ARG005
    (lambda: lp.AlphaNDCG(alpha=1.0), "and < 1"),
    (lambda: lp.Revenue(click=[0, 2, 2, 2]).gains_of(LABELS, [PRICE]), "chances of at most 1"),
    (lambda: lp.Exposure(group="seller", target="equal"), "'size', 'merit'"),
    (lambda: evaluate(lp.Exposure(group="seller", target={0: 1})), "no share for the group 1"),
    (lambda: lp.LambdaRank(BUILT_IN[3], construction="spring_smooth"), "needs gains that order the documents"),
    (lambda: lp.Approx("ndcg(k='depth')"), "lp.LambdaRank"),
    (lambda: lp.PLRank("ndcg(k='depth')"), "lp.LambdaRank"),
]  # fmt: skip


@pytest.mark.parametrize(("wrong", "words"), REFUSED, ids=[words for _, words in REFUSED])
def test_what_is_wrong_is_said(wrong, words):
    with pytest.raises(lp.LambdaplugError, match=words):
        wrong()
