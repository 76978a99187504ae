"""Diagnostics of lambda gradients, on hand-made rankings and through live trainings; simulated clicks."""

import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb
from oracle import swap_delta

import lambdaplug as lp
from lambdaplug import analysis


@pytest.fixture(scope="module")
def data():
    return lp.data.cubic(queries=60, documents=15, features=6, terms=8, noise=0.2)


def test_agreement_counts_equal_signs_and_documents_left_alone():
    labels, group = [2, 1, 0, 0], [4]
    judged = lp.LambdaRank("ndcg")
    assert analysis.lambda_agreement(judged, judged, labels, np.zeros(4), group)["agreement"].tolist() == [1.0]
    # Clicks on the first two the other way round: pairs (0, 1) only, the rest is left alone.
    clicks = lp.LambdaRank("cndcg", labels=[0.5, 1.0, 0.0, 0.0], ignore_zero=True)
    signs = [np.sign(o.gradients(labels, [0.0, 1.0, 2.0, 3.0], group)[0]) for o in (judged, clicks)]
    expected = np.mean((signs[0] == signs[1]) | (signs[1] == 0))
    rounds = [[0.0, 1.0, 2.0, 3.0], [0.0, 1.0, 2.0, 3.0]]
    found = analysis.lambda_agreement(judged, {"clicks": clicks, "itself": judged}, labels, rounds, group, [5, 10])
    assert found["agreement: clicks"].tolist() == [expected, expected]
    assert expected < 1.0
    assert found["agreement: itself"].tolist() == [1.0, 1.0]
    assert found.iterations.tolist() == [5, 10]
    with pytest.raises(lp.LambdaplugError, match=r"expected 1 rounds of 4 rows, got \(2, 4\)"):
        analysis.lambda_agreement(judged, clicks, labels, rounds, group, [5])


def test_force_by_label_adds_up_the_pairs():
    scores, labels = [4.0, 3.0, 2.0, 1.0, 0.0], [0, 3, 1, 4, 0]
    shares = {}
    totals = {}
    for i, mine in enumerate(labels):
        if mine < 3:
            continue
        parts = {}
        for j, other in enumerate(labels):
            if other != mine:
                rho = 1 / (1 + np.exp((scores[i] - scores[j]) * (1 if mine > other else -1)))
                force = swap_delta("ndcg", labels, min(i, j), max(i, j)) * rho * (1 if mine > other else -1)
                parts[other] = parts.get(other, 0.0) + force
        total = sum(map(abs, parts.values()))
        for other, force in parts.items():
            shares[other] = shares.get(other, 0.0) + abs(force) / total
        totals[i] = total
    expected = {level: share / len(totals) for level, share in shares.items()}
    for objective in (lp.LambdaRank("ndcg"), lp.LambdaRank("ndcg", step="gradient")):  # a query's scale is no share
        found = analysis.force_by_label(objective, labels, scores, [5])
        shares = {float(name.rpartition(" ")[2]): share[0] for name, share in found.items()}
        assert shares == pytest.approx(expected, rel=1e-5)
        assert sum(shares.values()) == pytest.approx(1.0)
    with pytest.raises(lp.LambdaplugError, match="own labels"):
        analysis.force_by_label(lp.LambdaRank("ndcg", labels=labels), labels, scores, [5])
    with pytest.raises(lp.LambdaplugError, match="no label is 9 or more"):
        analysis.force_by_label(lp.LambdaRank("ndcg"), labels, scores, [5], high=9)


def test_effective_pairs_are_those_with_a_delta():
    rng = np.random.default_rng(0)
    for name in ("ndcg", "ndcg@3", "map", "mrr", "err", "pairs"):
        scores, labels = rng.normal(size=12), rng.integers(0, 3, 12)
        ranked = [int(x) for x in labels[np.argsort(-scores)]]
        expected = sum(
            ranked[a] != ranked[b] and swap_delta(name, ranked, a, b) > 1e-12
            for a in range(12)
            for b in range(a + 1, 12)
        )
        found = analysis.effective_pairs(lp.LambdaRank(name), labels=labels, scores=scores, group=[12])
        assert found[f"effective pairs: {name}"].tolist() == [expected], name


def test_effective_pairs_of_a_tier_are_equal_in_the_tiers_above():
    rng = np.random.default_rng(0)
    group = [12, 0, 1, 9]
    scores, labels, clicks = rng.normal(size=22), rng.integers(0, 3, 22), rng.integers(0, 3, 22) / 2
    clicks[3] = np.nan
    tiers = [lp.LambdaRank("ndcg"), lp.LambdaRank("cndcg", labels=clicks), lp.LambdaRank("dcg", labels=np.arange(22))]
    objective = lp.Mixture([(0.5, lp.Graded(tiers)), (0.5, lp.LambdaRank("ndcg"))])
    counts = analysis.count_pairs(objective, scores, lp.queries.Queries(labels, group))
    pairs = [(i, j) for low, high in ((0, 12), (13, 22)) for i in range(low, high) for j in range(i + 1, high)]
    judged = sum(labels[i] != labels[j] for i, j in pairs)
    clicked = sum(labels[i] == labels[j] and abs(clicks[i] - clicks[j]) > 0 for i, j in pairs)
    rest = sum(labels[i] == labels[j] and clicks[i] == clicks[j] for i, j in pairs)
    assert {name: int(count.sum()) for name, count in counts.items()} == {
        "ndcg": judged,
        "cndcg": clicked,
        "dcg": rest,
        "ndcg (4)": judged,
    }
    assert counts["ndcg"].tolist()[1:3] == [0, 0]


def test_the_papers_order_of_effective_pairs(data):
    scores = np.random.default_rng(1).normal(size=len(data.labels))
    counts = [
        analysis.effective_pairs(lp.LambdaRank(name), data.labels, scores, data.group)[f"effective pairs: {name}"][0]
        for name in ("ndcg", "ndcg@10", "map(relevant=2)", "mrr(relevant=2)")
    ]
    assert counts == sorted(counts, reverse=True)


def test_rank_changes_and_top_labels():
    changes = analysis.rank_changes([[3, 2, 1, 0], [2, 3, 1, 0]], [4], k=2)
    assert [values[1] for values in changes.values()] == [1.0, 0.5]
    changes = analysis.rank_changes([[1, 0, 1, 0], [1, 0, 0, 1], [1, 0, 0, 1]], [2, 2], k=1)
    assert [values[1:].tolist() for values in changes.values()] == [[0.5, 0.0], [0.5, 0.0]]
    shares = analysis.top_labels(labels=[0, 1, 2, 0, 1], scores=[1, 2, 3, 1, 2], group=[3, 2], k=1)
    assert {name: value[0] for name, value in shares.items()} == {
        "label 0 in the top 1": 0.0,
        "label 1 in the top 1": 0.5,
        "label 2 in the top 1": 0.5,
    }


def test_every_diagnostic_plots(data):
    import matplotlib as mpl

    mpl.use("Agg")
    objective = lp.LambdaRank("ndcg")
    rounds = np.random.default_rng(0).normal(size=(3, len(data.labels)))
    given = {"labels": data.labels, "group": data.group}
    for curves, lines in (
        (analysis.lambda_agreement(objective, lp.LambdaRank("map"), scores=rounds, **given), 1),
        (analysis.force_by_label(objective, scores=rounds, **given), 5),
        (analysis.top_labels(scores=rounds, **given), 5),
        (analysis.rank_changes(rounds, data.group), 2),
        (analysis.effective_pairs(objective, scores=rounds, **given), 1),
    ):
        axes = curves.plot()
        assert len(axes.lines) == lines
        np.testing.assert_array_equal(axes.lines[0].get_ydata(), next(iter(curves.values())))
    bars = analysis.top_labels(scores=rounds[0], **given).plot(names="label 4")
    assert [patch.get_width() for patch in bars.patches] == analysis.top_labels(scores=rounds[0], **given)[
        "label 4 in the top 3"
    ].tolist()


@pytest.mark.parametrize("host", ["lightgbm", "xgboost"])
def test_a_recorder_follows_a_live_training(host, data, tmp_path):
    objective = lp.LambdaRank("ndcg")
    recorder = lp.analysis.record(
        data.X,
        data.labels,
        data.group,
        analysis.Measured("ndcg@3"),
        analysis.TopLabels(3),
        analysis.RankChanges(3),
        analysis.ForceByLabel(objective),
        analysis.EffectivePairs(objective),
        analysis.Agreement(objective, {"itself": objective}),
        every=2,
    )
    if host == "lightgbm":
        made = lgb.Dataset(data.X, data.labels, group=data.group)
        parameters = {"objective": objective, "verbose": -1, "num_leaves": 7, "min_data_in_leaf": 5, "num_threads": 1}
        model = lgb.train(parameters, made, 8, callbacks=[recorder])
        at_eight = model.predict(data.X, num_iteration=8)
    else:
        made = xgb.DMatrix(data.X, data.labels, qid=data.qid)
        model = xgb.train({"min_child_weight": 0, "nthread": 1}, made, 8, obj=objective, callbacks=[recorder])
        at_eight = model.predict(xgb.DMatrix(data.X), iteration_range=(0, 8))
    values = recorder.curves
    assert values.iterations.tolist() == [2, 4, 6, 8]
    expected = lp.evaluate("ndcg@3", data.labels, at_eight, data.group)["ndcg@3"]
    assert values["ndcg@3"][-1] == pytest.approx(expected, abs=1e-6)
    assert values["ndcg@3"][-1] > values["ndcg@3"][0]
    assert np.isnan(values["changed in the list"][0])
    assert 0 < values["changed in the list"][-1] < 1
    assert (values["agreement: itself"] == 1).all()
    tops = sum(values[name] for name in values if name.startswith("label"))
    np.testing.assert_allclose(tops, 1.0)
    import matplotlib as mpl

    mpl.use("Agg")
    axes = recorder.plot(names="label")
    axes.figure.savefig(tmp_path / "plot.png")
    assert len(axes.lines) == 5


def test_what_cannot_be_recorded_is_refused(data):
    with pytest.raises(lp.LambdaplugError, match="at least one diagnostic"):
        lp.analysis.record(data.X, data.labels, data.group)
    with pytest.raises(lp.LambdaplugError, match="every: expected an integer >= 1"):
        lp.analysis.record(data.X, data.labels, data.group, analysis.TopLabels(3), every=0)


def test_simulated_clicks_are_biased_by_label_position_and_taste(data):
    clicks = lp.data.simulate_clicks(data.labels, data.group, sessions=400)
    np.testing.assert_array_equal(clicks, lp.data.simulate_clicks(data.labels, data.group, sessions=400))
    assert clicks.min() >= 0.0
    per_query = np.add.reduceat(clicks, np.cumsum(data.group) - data.group)
    assert per_query.max() <= 1.0 + 1e-12  # one last click a session
    assert clicks[data.labels >= 3].mean() > 2 * clicks[data.labels == 0].mean()
    # The same documents shown in row order: the first rows are looked at most.
    flat = lp.data.simulate_clicks(
        np.ones(1000), np.full(100, 10), scores=np.tile(-np.arange(10.0), 100), chances=(0.1, 0.3)
    )
    by_rank = flat.reshape(100, 10).mean(axis=0)
    assert by_rank[0] > by_rank[4]
    taste = np.tile([2.0, -2.0], 500)
    tasted = lp.data.simulate_clicks(
        np.ones(1000), np.full(100, 10), scores=np.zeros(1000), taste=taste, examination=0.0
    )
    assert tasted[taste > 0].mean() > 3 * tasted[taste < 0].mean()
    with pytest.raises(lp.LambdaplugError, match="add up to 3"):
        lp.data.simulate_clicks([1, 1], [3])
    with pytest.raises(lp.LambdaplugError, match="labels 0 to 4 have a click chance"):
        lp.data.simulate_clicks([7], [1])
