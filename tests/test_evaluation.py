"""Evaluation: against other implementations, and its conventions."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, dcg_score, ndcg_score

import lambdaplug as lp


@pytest.fixture(scope="module")
def ranked():
    rng = np.random.default_rng(0)
    group = rng.integers(2, 40, 80)
    rows = group.sum()
    return rng.integers(0, 4, rows), rng.permutation(rows) / 7.0, group


def by_query(values, group):
    return np.split(np.asarray(values), np.cumsum(group)[:-1])


@pytest.mark.parametrize("k", [None, 1, 5, 100])
def test_ndcg_and_dcg_are_scikit_learns(ranked, k):
    labels, scores, group = ranked
    suffix = "" if k is None else f"@{k}"
    found = lp.evaluate([f"ndcg{suffix}", f"dcg{suffix}(gain='linear')"], labels, scores, group, 0, per_query=True)
    for value, y, s in zip(found[f"ndcg{suffix}"], by_query(labels, group), by_query(scores, group), strict=True):
        assert value == pytest.approx(ndcg_score([2.0**y - 1], [s], k=k), abs=1e-12)
    linear = found[f"dcg{suffix}(gain='linear')"]
    for value, y, s in zip(linear, by_query(labels, group), by_query(scores, group), strict=True):
        assert value == pytest.approx(dcg_score([y], [s], k=k), abs=1e-12)


@pytest.mark.parametrize("relevant", [1, 3])
def test_map_is_scikit_learns(ranked, relevant):
    labels, scores, group = ranked
    found = lp.evaluate(lp.MAP(relevant=relevant), labels, scores, group, per_query=True).popitem()[1]
    for value, y, s in zip(found, by_query(labels, group), by_query(scores, group), strict=True):
        if (y >= relevant).any():
            assert value == pytest.approx(average_precision_score(y >= relevant, s), abs=1e-12)
        else:
            assert np.isnan(value)


def test_trec_eval_agrees(ranked):
    ir_measures = pytest.importorskip("ir_measures")
    from ir_measures import AP, RR, P, R, nDCG

    labels, scores, group = ranked
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
    }
    usable = {kind: name for kind, name in names.items() if ir_measures.DefaultPipeline.supports(kind)}
    assert len(usable) >= 5
    expected = ir_measures.calc_aggregate(list(usable), judged, run)
    found = lp.evaluate(list(usable.values()), labels, scores, group, empty=0)
    for kind, name in usable.items():
        assert found[name] == pytest.approx(expected[kind], abs=1e-6), name  # scores go through float32 text there


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

    def letor_discount(rank):
        return 1.0 if rank < 3 else 1 / np.log2(rank)

    checked = 0
    for ranker, folds in reported.items():
        for fold in range(1, 6):
            part = data["part"] == (fold + 4 - 1) % 5 + 1
            labels, qid = data["y"][part], data["qid"][part]
            starts = np.flatnonzero(np.diff(qid, prepend=-1))
            group = np.diff(np.append(starts, len(qid)))
            for name, figure in folds[f"Fold{fold}"].items():
                if name == "MeanNDCG":
                    continue
                kind, _, k = name.partition("@")
                if kind == "NDCG":
                    measure = lp.NDCG(k=int(k), discount=letor_discount)
                else:
                    measure = lp.MAP() if kind == "MAP" else lp.Precision(k=int(k))
                values = lp.evaluate(measure, labels, scores[f"{ranker}_Fold{fold}"], group, 0, per_query=True)
                values = values.popitem()[1]
                if kind == "NDCG":  # LETOR's script: 0 for a list shorter than k
                    values = np.where(group < int(k), 0.0, values)
                assert values.mean() == pytest.approx(figure, abs=5.1e-5), (ranker, fold, name)
                checked += 1
    assert checked >= 400


def test_undefined_queries_are_skipped_or_counted():
    arguments = ["ndcg", "map"], [1, 0, 0, 0], [1.0, 2.0, 3.0, 4.0], [2, 2]
    half = 1 / np.log2(3)
    assert lp.evaluate(*arguments) == {"ndcg": pytest.approx(half), "map": 0.5}
    assert lp.evaluate(*arguments, empty=0) == {"ndcg": pytest.approx(half / 2), "map": 0.25}
    assert lp.evaluate(*arguments, empty=1)["map"] == 0.75
    assert lp.evaluate(*arguments, empty=1, per_query=True)["map"].tolist() == [0.5, 1.0]
    assert np.isnan(lp.evaluate(*arguments, per_query=True)["map"][1])
    assert np.isnan(lp.evaluate("map", [0, 0], [1, 2], [2])["map"])
    for empty in ("zero", 2, True):
        with pytest.raises(lp.LambdaplugError, match="empty: expected 'skip', 0 or 1"):
            lp.evaluate(*arguments, empty=empty)


def test_a_query_without_documents_is_undefined_for_every_measure():
    assert lp.evaluate(["p@2", "dcg"], [1, 1], [1, 2], [0, 2, 0])["p@2"] == 1.0
    assert np.isnan(lp.evaluate("p@2", [1, 1], [1, 2], [0, 2], per_query=True)["p@2"][0])


def test_equal_scores_keep_their_row_order():
    assert lp.evaluate("mrr", [0, 0, 1], [0, 0, 0], [3])["mrr"] == pytest.approx(1 / 3)
    assert lp.evaluate("mrr", [1, 0, 0], [0, 0, 0], [3])["mrr"] == 1.0


def test_many_rows_and_threads_agree():
    rng = np.random.default_rng(1)
    group = rng.integers(0, 60, 20_000)
    labels, scores = rng.integers(0, 5, group.sum()), rng.normal(size=group.sum()).round(2)
    names = ["ndcg@10", "map", "pairs", "bpref"]
    try:
        lp.set_num_threads(1)
        one = lp.evaluate(names, labels, scores, group, per_query=True)
        lp.set_num_threads(3)
        three = lp.evaluate(names, labels, scores, group, per_query=True)
    finally:
        lp.set_num_threads(None)
    for name in names:
        np.testing.assert_array_equal(one[name], three[name])


def test_what_cannot_be_measured_is_refused():
    with pytest.raises(lp.LambdaplugError, match="scores: expected finite"):
        lp.evaluate("ndcg", [0, 1], [np.nan, 1], [2])
    with pytest.raises(lp.LambdaplugError, match=r"scores: expected one a row \(2\), got 1"):
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
    made = lgb.Dataset(data.X, data.labels, group=data.group).construct()
    (found,) = lp.metric("cndcg@3", labels=clicks)(scores, made)
    expected = lp.evaluate("cndcg@3", np.nan_to_num(clicks), scores, data.group)["cndcg@3"]
    assert found == ("cndcg@3", pytest.approx(expected), True)
    with pytest.raises(lp.LambdaplugError, match="one value a row of the data set"):
        lp.metric("cndcg@3", labels=clicks[1:])(scores, made)
