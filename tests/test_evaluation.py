"""Evaluation: against other implementations, and its conventions."""

import itertools
import json
import math
import os
from pathlib import Path

import numpy as np
import oracle
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, dcg_score, ndcg_score

import lambdaplug as lp
from lambdaplug.queries import Queries


@pytest.fixture(scope="module")
def ranked():
    rng = np.random.default_rng(0)
    group = rng.integers(2, 40, 80)
    rows = group.sum()
    return rng.integers(0, 4, rows), rng.permutation(rows) / 7.0, group


def by_query(values, group):
    return np.split(np.asarray(values), np.cumsum(group)[:-1])


SCIKIT_LEARN = {
    "map": lambda y, s: average_precision_score(y >= 1, s) if (y >= 1).any() else np.nan,
    "map(relevant=3)": lambda y, s: average_precision_score(y >= 3, s) if (y >= 3).any() else np.nan,
}
for cut, k in (("", None), ("@1", 1), ("@5", 5), ("@100", 100)):
    SCIKIT_LEARN[f"ndcg{cut}"] = lambda y, s, k=k: ndcg_score([2.0**y - 1], [s], k=k)
    SCIKIT_LEARN[f"dcg{cut}(gain='linear')"] = lambda y, s, k=k: dcg_score([y], [s], k=k)


@pytest.mark.parametrize("name", SCIKIT_LEARN)
def test_scikit_learn_agrees(ranked, name):
    labels, scores, group = ranked
    found = lp.evaluate(name, labels, scores, group, per_query=True)[name]
    expected = [SCIKIT_LEARN[name](y, s) for y, s in zip(by_query(labels, group), by_query(scores, group), strict=True)]
    if name.startswith("ndcg"):
        found = np.nan_to_num(found)  # without a relevant document, theirs is 0
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_trec_eval_agrees(ranked):
    ir_measures = pytest.importorskip("ir_measures")
    from ir_measures import AP, RR, Bpref, P, R, nDCG

    labels, scores, group = ranked
    labels, scores, group = [1, 2, *labels], [1.0, 2.0, *scores], [2, *group]  # bpref where all are relevant: 1
    judged, run = [], []
    for query, (y, s) in enumerate(zip(by_query(labels, group), by_query(scores, group), strict=True)):
        judged += [ir_measures.Qrel(str(query), str(i), int(label)) for i, label in enumerate(y)]
        run += [ir_measures.ScoredDoc(str(query), str(i), float(score)) for i, score in enumerate(s)]
    names = {
        nDCG(dcg="log2") @ 10: "ndcg@10(gain='linear')",
        nDCG(dcg="exp-log2") @ 10: "ndcg@10",
        AP(rel=2): "map(relevant=2)",
        AP @ 5: "map@5",
        RR @ 10: "mrr@10",
        P(rel=2) @ 5: "p@5(relevant=2)",
        R @ 20: "recall@20",
        Bpref(rel=2): "bpref(relevant=2)",
        Bpref: "bpref",
    }
    usable = {kind: name for kind, name in names.items() if ir_measures.DefaultPipeline.supports(kind)}
    assert len(usable) >= 5
    expected = ir_measures.calc_aggregate(list(usable), judged, run)
    found = lp.evaluate(list(usable.values()), labels, scores, group, empty=0)
    for kind, name in usable.items():
        assert found[name] == pytest.approx(expected[kind], abs=1e-6), name  # scores go through float32 text there


def test_bpref_of_relevant_documents_alone_is_one():
    for ties in ("stable", "expected"):
        assert lp.evaluate("bpref", [1, 2], [2.0, 1.0], [2], ties=ties) == {"bpref": 1.0}  # as trec_eval has it
    assert not lp.LambdaRank("bpref").gradients([1, 2, 0, 1], [2.0, 1.0, 0.0, 0.0], [2, 2])[0][:2].any()


def shared_data(*parts):
    """Real data is never part of the project: used where it lies beside it, else skipped."""
    root = Path(os.environ.get("LAMBDAPLUG_DATA", Path(__file__).parent.parent.parent / "shared" / "data"))
    path = root.joinpath(*parts)
    if not path.exists():
        pytest.skip("real data not found; LAMBDAPLUG_DATA says where it is")
    return path


def test_letors_published_figures_come_out():
    data = np.load(shared_data("mq2008", "data.npz"))
    scores = np.load(shared_data("mq2008", "baseline_scores.npz"))
    reported = json.loads(shared_data("mq2008", "baseline_reported.json").read_text())
    checked = 0
    for ranker, folds in reported.items():
        for fold in range(1, 6):
            part = data["part"] == (fold + 4 - 1) % 5 + 1
            labels, group = data["y"][part], lp.data.sizes_of(data["qid"][part])
            figures = folds[f"Fold{fold}"]
            found = lp.evaluate(list(figures), labels, scores[f"{ranker}_Fold{fold}"], group, convention="letor")
            assert list(found.values()) == pytest.approx(list(figures.values()), abs=5.1e-5), (ranker, fold)
            checked += len(figures)
    assert checked >= 400


def letor_script(labels, scores):
    """One query as LETOR 4.0's evaluation script goes through it: P@1..10, MAP, NDCG@1..10, MeanNDCG."""
    rates = [label for _, label in sorted(zip(scores, labels, strict=True), key=lambda pair: -pair[0])]
    precision, average, seen = [], 0.0, 0
    for position in range(10):
        seen += position < len(rates) and rates[position] >= 1
        precision.append(seen / (position + 1))
    seen = 0
    for position, rate in enumerate(rates):
        if rate >= 1:
            seen += 1
            average += seen / (position + 1)

    def dcg(rates):
        sums = []
        for position, rate in enumerate(rates):
            gain = {0: 0, 1: 1, 2: 3}[rate]
            gain = gain if position < 2 else gain * math.log(2) / math.log(position + 1)
            sums.append(gain + (sums[-1] if sums else 0.0))
        return sums

    ideal = dcg(sorted(rates, reverse=True))
    ndcg = [a / b if b else 0.0 for a, b in zip(dcg(rates), ideal, strict=True)]
    mean = sum(ndcg) / len(ndcg)
    ndcg = (ndcg + [0.0] * 10)[:10]  # a value it never computed is 0 in its sums
    return [*precision, average / seen if seen else 0.0, *ndcg, mean]


@settings(max_examples=50, deadline=None)
@given(rows=st.lists(st.tuples(st.sampled_from([0, 0, 1, 2]), st.integers(0, 6)), min_size=1, max_size=15))
def test_letors_script_line_by_line(rows):
    labels, scores = zip(*rows, strict=True)
    names = [*(f"p@{k}" for k in range(1, 11)), "map", *(f"ndcg@{k}" for k in range(1, 11)), "MeanNDCG"]
    found = lp.evaluate(names, labels, scores, [len(rows)], convention="letor")
    np.testing.assert_allclose(list(found.values()), letor_script(labels, scores), atol=1e-12)


def tied_orders(labels, scores):
    """The ranked labels in every order of equal scores, each as likely."""
    stretches = [
        [labels[row] for row in rows] for _, rows in itertools.groupby(oracle.rank(scores), key=lambda row: scores[row])
    ]
    for orders in itertools.product(*map(itertools.permutations, stretches)):
        yield list(itertools.chain(*orders))


@settings(max_examples=40, deadline=None)
@given(rows=st.lists(st.tuples(st.integers(0, 4), st.sampled_from([-1.5, 0.0, 2.0])), min_size=1, max_size=6))
def test_ties_are_worst_best_and_the_mean_of_every_order(rows):
    labels, scores = map(list, zip(*rows, strict=True))
    orders = list(tied_orders(labels, scores))
    whole = {name: function for name, function in oracle.VALUES.items() if not name.startswith("cndcg")}
    clicks = {name: function for name, function in oracle.VALUES.items() if name.startswith("cndcg")}
    for kinds, unit in ((whole, 1), (clicks, 4)):
        # A second query holds label 4, which err and rbp take as the largest.
        found = {
            ties: lp.evaluate(
                list(kinds),
                [*np.array(labels) / unit, 4 / unit],
                [*scores, 0],
                [len(rows), 1],
                per_query=True,
                ties=ties,
            )
            for ties in ("worst", "best", "expected")
        }
        for name, function in kinds.items():
            values = [function([label / unit for label in order]) for order in orders]
            if values[0] is None:
                assert all(np.isnan(found[ties][name][0]) for ties in found)
                continue
            three = [float(found[ties][name][0]) for ties in ("worst", "best", "expected")]
            assert three == pytest.approx([min(values), max(values), sum(values) / len(values)], abs=1e-12), name


def test_long_ties_are_sorted_and_averaged():
    rng = np.random.default_rng(0)
    labels, scores = rng.integers(0, 5, 3000), rng.integers(0, 3, 3000)
    names = ["ndcg@10", "map", "mrr", "err", "pairs", "bpref"]
    drawn = [rng.permutation(3000) for _ in range(200)]
    for name in names:
        worst, expected, best = (
            lp.evaluate(name, labels, scores, [3000], ties=ties)[name] for ties in ("worst", "expected", "best")
        )
        samples = [lp.evaluate(name, labels[order], scores[order], [3000])[name] for order in drawn]
        assert worst <= min(samples) <= max(samples) <= best
        assert expected == pytest.approx(np.mean(samples), abs=5 * np.std(samples) / len(samples) ** 0.5 + 1e-12)
        by_label = np.lexsort((labels, -scores))
        assert worst == lp.evaluate(name, labels[by_label], scores[by_label], [3000])[name]


def test_ties_in_metrics_and_what_is_refused():
    metric = lp.metric("mrr", ties="expected") + lp.metric("map")
    assert repr(metric) == "metric('mrr', ties='expected') + metric('map')"
    queries = Queries([0, 1], [2])
    assert metric.report(queries, [1.0, 1.0]) == [("mrr", 0.75), ("map", 0.5)]
    assert metric.without(["map"]).names == ["mrr"]
    for refused in (lambda: lp.metric("mrr", ties="random"), lambda: lp.evaluate("mrr", [1], [1], [1], ties="random")):
        with pytest.raises(lp.LambdaplugError, match="ties: expected 'stable', 'worst', 'best' or 'expected'"):
            refused()
    with pytest.raises(lp.LambdaplugError, match="convention: expected None or 'letor', got 'trec'"):
        lp.evaluate("mrr", [1], [1], [1], convention="trec")

    class First(lp.WTA):
        name = ""
        value = staticmethod(lambda gain, discount, k: gain[0])  # noqa: ARG005

    with pytest.raises(lp.LambdaplugError, match=r"does not say its mean.*Those which do: bpref, cndcg, dcg, err"):
        lp.evaluate(First(), [1], [1], [1], ties="expected")


def test_a_frame_has_a_row_a_query():
    pd = pytest.importorskip("pandas")
    found = lp.evaluate(["ndcg", "p@1"], [1, 0, 0], [1, 2, 3], [2, 1], frame=True)
    half = 1 / math.log2(3)
    expected = pd.DataFrame({"ndcg": [half, np.nan], "p@1": [0.0, 0.0]}, index=pd.RangeIndex(2, name="query"))
    pd.testing.assert_frame_equal(found, expected)
    named = lp.evaluate("ndcg", [1, 0, 0], [1, 2, 3], qid=["shoes", "shoes", "socks"], per_query=True, frame=True)
    assert named.index.tolist() == ["shoes", "socks"]


def test_undefined_queries_are_skipped_or_counted():
    arguments = ["ndcg", "map"], [1, 0, 0, 0], [1.0, 2.0, 3.0, 4.0], [2, 2]
    half = 1 / np.log2(3)
    assert lp.evaluate(*arguments) == {"ndcg": pytest.approx(half), "map": 0.5}
    assert lp.evaluate(*arguments, empty=0) == {"ndcg": pytest.approx(half / 2), "map": 0.25}
    assert lp.evaluate(*arguments, empty=1)["map"] == 0.75
    assert lp.evaluate(*arguments, empty=1, per_query=True)["map"].tolist() == [0.5, 1.0]
    assert np.isnan(lp.evaluate(*arguments, per_query=True)["map"][1])
    assert np.isnan(lp.evaluate("map", [0, 0], [1, 2], [2])["map"])
    assert np.isnan(lp.evaluate("p@2", [1, 1], [1, 2], [0, 2], per_query=True)["p@2"][0])  # a query without documents
    assert lp.evaluate("mrr", [0, 0, 1], [0, 0, 0], [3])["mrr"] == pytest.approx(1 / 3)  # equal scores keep their order
    for empty in ("zero", 2, True):
        with pytest.raises(lp.LambdaplugError, match="empty: expected 'skip', 0 or 1"):
            lp.evaluate(*arguments, empty=empty)


def test_what_cannot_be_measured_is_refused():
    with pytest.raises(lp.LambdaplugError, match="scores: expected finite"):
        lp.evaluate("ndcg", [0, 1], [np.nan, 1], [2])
    with pytest.raises(lp.LambdaplugError, match=r"scores: expected one per row \(2\), got 1"):
        lp.evaluate("ndcg", [0, 1], [1], [2])
    with pytest.raises(lp.LambdaplugError, match="name at least one measure"):
        lp.metric()
    with pytest.raises(lp.LambdaplugError, match="expected a data set of lightgbm or xgboost"):
        lp.metric("ndcg")(np.zeros(2), np.zeros(2))


def test_a_metric_by_another_label_source():
    lgb = pytest.importorskip("lightgbm")
    data = lp.data.cubic(queries=20, documents=8, features=4)
    clicks = np.random.default_rng(0).random(len(data.labels))
    clicks[::5] = np.nan  # not labelled: no gain
    scores = np.random.default_rng(1).normal(size=len(clicks))
    made = lp.attach(lgb.Dataset(data.X, data.labels, group=data.group), clicks=clicks).construct()
    (found,) = lp.metric("cndcg@3", labels="clicks")(scores, made)
    expected = lp.evaluate("cndcg@3", np.nan_to_num(clicks), scores, data.group)["cndcg@3"]
    assert found == ("cndcg@3", pytest.approx(expected), True)
    with pytest.raises(lp.LambdaplugError, match="expected one value per row"):
        lp.metric("cndcg@3", labels="clicks")(scores, lp.attach(made, clicks=clicks[1:]))
