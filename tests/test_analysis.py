"""What an objective does to a ranking, how two differ, and whether a model is a local optimum."""

import importlib
import itertools
import pickle
import warnings
from pathlib import Path

import lightgbm as lgb
import matplotlib as mpl
import numpy as np
import oracle
import pandas as pd
import pytest
import xgboost as xgb
from scipy import sparse, stats

import lambdaplug as lp
from lambdaplug import analysis
from lambdaplug.analysis.difference import pair_forces
from lambdaplug.hosts.base import raw_scores, weights_of
from lambdaplug.queries import Queries

mpl.use("Agg")


HOSTS = ["lightgbm", "xgboost"]
DATA = lp.data.cubic(queries=60, documents=14, features=6, noise=0.3)
PART = DATA.X, DATA.labels, DATA.group


def test_agreement_counts_equal_signs_and_documents_left_alone():
    labels, group, scores = [2, 1, 0, 0], [4], [0.0, 1.0, 2.0, 3.0]
    judged, first = lp.LambdaRank("ndcg"), lp.LambdaRank("p@1")  # which moves only what may stand first
    signs = [np.sign(o.gradients(labels, scores, group)[0]) for o in (first, judged)]
    expected = np.mean((signs[0] == signs[1]) | (signs[1] == 0))
    both = {"judged": judged, "itself": first}
    found = analysis.lambda_agreement(first, both, labels, [scores, scores], group, [5, 10])
    assert found["agreement: judged"].tolist() == [expected, expected]
    assert expected < 1.0
    assert found["agreement: itself"].tolist() == [1.0, 1.0]
    assert found.iterations.tolist() == [5, 10]
    with pytest.raises(lp.LambdaplugError, match=r"expected 1 rounds of 4 rows, got \(2, 4\)"):
        analysis.lambda_agreement(judged, first, labels, [scores, scores], group, [5])


def test_force_by_label_adds_up_the_pairs():
    scores, labels = [4.0, 3.0, 2.0, 1.0, 0.0], [0, 3, 1, 4, 0]
    forces, shares = pair_forces(lp.LambdaRank("ndcg"), Queries(labels, [5]), 0, np.array(scores)), {}
    for i in (1, 3):  # the highly relevant ones
        parts = {other: abs(forces[i, np.equal(labels, other)].sum()) for other in {*labels} - {labels[i]}}
        for other, force in parts.items():
            shares[other] = shares.get(other, 0.0) + force / sum(parts.values()) / 2
    for objective in (lp.LambdaRank("ndcg"), lp.LambdaRank("ndcg", step="gradient")):  # a query's scale is no share
        found = analysis.force_by_label(objective, labels, scores, [5])
        assert {float(name.rpartition(" ")[2]): share[0] for name, share in found.items()} == pytest.approx(shares)
    with pytest.raises(lp.LambdaplugError, match="own labels"):
        analysis.force_by_label(lp.QueryRMSE(), labels, scores, [5])
    with pytest.raises(lp.LambdaplugError, match="no label is 9 or more"):
        analysis.force_by_label(lp.LambdaRank("ndcg"), labels, scores, [5], high=9)


def test_effective_pairs_are_those_with_a_delta():
    rng = np.random.default_rng(0)
    for name in ("ndcg", "ndcg@3", "map", "mrr", "err", "pairs"):
        scores, labels = rng.normal(size=12), rng.integers(0, 3, 12)
        ranked = [int(x) for x in labels[np.argsort(-scores)]]
        expected = sum(
            ranked[a] != ranked[b] and oracle.swap_delta(name, ranked, a, b) > 1e-12
            for a in range(12)
            for b in range(a + 1, 12)
        )
        found = analysis.effective_pairs(lp.LambdaRank(name), labels=labels, scores=scores, group=[12])
        assert found[f"effective pairs: {name}"].tolist() == [expected], name


def test_effective_pairs_of_a_tier_are_equal_in_the_tiers_above():
    labels, scores = [0, 1, 2, 0, 2], [4.0, 3.0, 2.0, 1.0, 0.0]
    tiers = lp.Graded([lp.LambdaRank("p@1(relevant=2)"), lp.LambdaRank("ndcg")])
    objective = lp.Mixture([(0.5, tiers), (0.5, lp.LambdaRank("ndcg"))])
    found = analysis.effective_pairs(objective, labels, scores, [5])
    # Either relevant document may take the first place; no pair of different labels is left to the second tier.
    names = ("p@1(relevant=2)", "ndcg", "ndcg (3)")
    assert [found[f"effective pairs: {name}"][0] for name in names] == [2, 0, 8]


def test_rank_changes_and_top_labels():
    changes = analysis.rank_changes([[3, 2, 1, 0], [2, 3, 1, 0]], [4], k=2)
    assert [values[1] for values in changes.values()] == [1.0, 0.5]
    changes = analysis.rank_changes([[1, 0, 1, 0], [1, 0, 0, 1], [1, 0, 0, 1]], [2, 2], k=1)
    assert [values[1:].tolist() for values in changes.values()] == [[0.5, 0.0], [0.5, 0.0]]
    shares = analysis.top_labels(labels=[0, 1, 2, 0, 1], scores=[1, 2, 3, 1, 2], group=[3, 2], k=1)
    assert [value[0] for value in shares.values()] == [0.0, 0.5, 0.5]


@pytest.mark.parametrize("host", HOSTS)
def test_a_recorder_follows_a_live_training(host):
    objective = lp.LambdaRank("ndcg")
    recorder = lp.analysis.record(DATA.X, every=2)
    if host == "lightgbm":
        made = lgb.Dataset(DATA.X, DATA.labels, group=DATA.group)
        parameters = {"objective": objective, "verbose": -1, "num_leaves": 7, "num_threads": 1}
        model = lgb.train(parameters, made, 7, callbacks=[recorder])
        at_four = model.predict(DATA.X, num_iteration=4)
    else:
        made = xgb.DMatrix(DATA.X, DATA.labels, qid=DATA.qid)
        model = xgb.train({"min_child_weight": 0, "nthread": 1}, made, 7, obj=objective, callbacks=[recorder])
        at_four = model.predict(xgb.DMatrix(DATA.X), iteration_range=(0, 4), output_margin=True)
    assert recorder.iterations.tolist() == [2, 4, 6]
    np.testing.assert_allclose(recorder.scores[1], at_four, atol=1e-6)
    changes = analysis.rank_changes(recorder.scores, DATA.group, iterations=recorder.iterations)["changed in the list"]
    assert np.isnan(changes[0])
    assert 0 < changes[-1] < 1
    with pytest.raises(lp.LambdaplugError, match="every: expected an integer >= 1"):
        lp.analysis.record(DATA.X, every=0)


# --- two objectives ------------------------------------------------------------------------------------------------

RANDOM = np.random.default_rng(0)
GROUP = [12, 1, 9, 15]
LABELS = RANDOM.integers(0, 5, sum(GROUP)).astype(float)
SCORES = RANDOM.normal(size=sum(GROUP))
CLICKS = RANDOM.choice([0.0, 0.5, 1.0], sum(GROUP))
QUERIES = Queries(LABELS, GROUP, columns={"clicks": CLICKS})


def test_the_numbers_are_those_of_the_two_gradients():
    a, b = lp.LambdaRank("ndcg"), lp.LambdaRank("map@3", sigma=2.0)
    report = lp.analysis.explain_difference(a, b, LABELS, SCORES, GROUP)
    first, second = (objective.gradients(LABELS, SCORES, GROUP) for objective in (a, b))
    np.testing.assert_allclose(report.gradient_a, first[0], atol=1e-6)
    assert report.correlation == pytest.approx(np.corrcoef(first[0], second[0])[0, 1], abs=1e-5)
    assert report.scale == pytest.approx(np.sqrt(np.sum(second[0] ** 2) / np.sum(first[0] ** 2)), rel=1e-5)
    assert report.hessian_scale == pytest.approx(second[1].sum() / first[1].sum(), rel=1e-5)
    np.testing.assert_allclose(report.difference, second[0] / report.scale - first[0], atol=1e-6)
    both = (first[0] != 0) & (second[0] != 0)
    assert report.flips == pytest.approx(np.mean(np.sign(first[0][both]) != np.sign(second[0][both])))
    squares = np.add.reduceat(report.difference**2, np.cumsum([0, *GROUP[:-1]]))
    np.testing.assert_allclose(report.query_share, squares / squares.sum(), rtol=1e-6)
    assert report.worst == np.argmax(squares)
    assert np.isnan(report.query_correlation[1])  # one document: nothing is pushed
    np.testing.assert_allclose(np.nansum(report.query_flips < 0), 0)


def test_the_pairs_are_those_that_changed_most():
    a, b = lp.LambdaRank("ndcg"), lp.LambdaRank("map")
    report = lp.analysis.explain_difference(a, b, LABELS, SCORES, GROUP, pairs=3)
    rows = slice(*QUERIES.offsets[report.worst : report.worst + 2].tolist())
    scores, labels = SCORES[rows].tolist(), LABELS[rows].tolist()
    changes = {}
    for i in range(len(scores)):
        for j in range(i):
            pulls = [
                oracle.gradients(name, scores, labels, allowed=lambda x, y, i=i, j=j: {x, y} == {i, j})[0]
                for name in ("ndcg", "map")
            ]
            upper, lower = (i, j) if (-scores[i], i) < (-scores[j], j) else (j, i)
            changes[rows.start + upper, rows.start + lower] = -pulls[0][upper], -pulls[1][upper] / report.scale
    total = sum(abs(x - y) for x, y in changes.values())
    expected = sorted(changes.items(), key=lambda item: -abs(item[1][0] - item[1][1]))[:3]
    assert len(report.pairs) == 3
    for pair, ((upper, lower), (x, y)) in zip(report.pairs, expected, strict=True):
        assert (pair.upper, pair.lower) == (upper, lower)
        assert (pair.force_a, pair.force_b) == pytest.approx((x, y), rel=1e-6)
        assert pair.share == pytest.approx(abs(x - y) / total, rel=1e-6)
        assert pair.labels == (LABELS[upper], LABELS[lower])
        assert pair.ranks[0] < pair.ranks[1]


@pytest.mark.parametrize(
    "objective",
    [
        lp.LambdaRank("err@5", normalize="log", cost=lp.RankNet(distance=0.01)),
        lp.LambdaRank("ndcg", step="gradient"),
        lp.presets.lightgbm(5),
        lp.presets.xgboost("ndcg"),
        lp.presets.xgboost("pairwise", num_pair_per_sample=2),
        lp.Mixture([(0.3, lp.LambdaRank("map", step="gradient")), (0.7, lp.presets.lightgbm())], step="gradient"),
    ],
    ids=repr,
)
def test_pair_forces_add_up_to_the_gradient(objective):
    weight = RANDOM.uniform(0.5, 2.0, len(GROUP))
    for queries in (QUERIES, Queries(LABELS, GROUP, query_weight=weight, columns={"clicks": CLICKS})):
        whole = objective.differentiate(queries, SCORES, 4, exact=True, dtype=np.float64)[0]
        for query in (0, 2):
            rows = slice(*queries.offsets[query : query + 2].tolist())
            forces = pair_forces(objective, queries, query, SCORES, 4)
            np.testing.assert_allclose(forces.sum(axis=1), whole[rows], rtol=1e-4, atol=1e-4 * np.abs(whole).max())
            np.testing.assert_allclose(forces, -forces.T, atol=1e-9 * np.abs(whole).max())


def test_it_prints_and_plots(tmp_path):
    report = lp.analysis.explain_difference(lp.presets.lightgbm(), lp.LambdaRank("map"), LABELS, SCORES, GROUP)
    text = str(report)
    assert text.startswith("a  presets.lightgbm()\nb  LambdaRank('map')\n4 queries, 37 documents\n")
    assert len(text.splitlines()) == 12 + 5
    assert max(map(len, text.splitlines())) <= 80
    ids = np.repeat(["shoes", "socks", "hats", "coats"], GROUP)
    named = lp.analysis.explain_difference(report.a, report.b, LABELS, SCORES, qid=ids)
    assert f"Query {ids[report.offsets[report.worst]]} differs most" in str(named)
    axes = report.plot()
    axes[0].figure.savefig(tmp_path / "plot.png")
    assert (tmp_path / "plot.png").stat().st_size > 5000


def test_where_there_is_nothing_to_explain():
    same = lp.analysis.explain_difference(lp.LambdaRank("ndcg"), lp.LambdaRank("ndcg"), LABELS, SCORES, GROUP)
    assert "No difference but the scale" in str(same)
    assert same.flips == 0
    assert same.plot() is not None
    silent = lp.analysis.explain_difference(
        lp.LambdaRank("ndcg"), lp.LambdaRank("map"), labels=[0, 0], scores=[1, 2], group=[2]
    )
    assert np.isnan(silent.correlation)
    assert silent.pairs is None
    assert silent.worst == -1
    smooth = lp.analysis.explain_difference(lp.LambdaRank("ndcg"), lp.Approx("ndcg"), LABELS, SCORES, GROUP)
    assert "pairs are not known" in str(smooth)
    with pytest.raises(lp.LambdaplugError, match="explain_difference: expected an objective such as"):
        lp.analysis.explain_difference("ndcg", lp.LambdaRank("map"), LABELS, SCORES, GROUP)


# --- local optimality ----------------------------------------------------------------------------------------------


@pytest.fixture
def recipe(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parent.parent / "recipes" / "papers"))
    return importlib.import_module("local_optimality_2009")


def train(host, measure="ndcg", data=DATA, rounds=8, **parameters):
    objective = lp.LambdaRank(measure)
    if host == "lightgbm":
        own = {"objective": objective, "num_leaves": 7, "num_threads": 1, "verbose": -1, "min_sum_hessian_in_leaf": 0}
        with warnings.catch_warnings():  # of rounds without a split
            warnings.simplefilter("ignore")
            return lgb.train({**own, **parameters}, lgb.Dataset(data.X, data.labels, group=data.group), rounds)
    own = {"nthread": 1, "max_depth": 3, "min_child_weight": 0, "lambda": 1e-3, **parameters}
    return xgb.train(own, xgb.DMatrix(data.X, data.labels, qid=data.qid), rounds, obj=objective)


@pytest.fixture(scope="module")
def boosters():
    return {host: train(host) for host in HOSTS} | {"linear": train("xgboost", booster="gblinear")}


@pytest.mark.parametrize(
    ("host", "parameters"),
    [
        ("lightgbm", {"categorical_feature": "0", "min_data_per_group": 1}),
        ("lightgbm", {"boosting": "dart", "drop_rate": 0.5}),
        ("lightgbm", {"min_gain_to_split": 1.5}),  # some trees without a split
        ("xgboost", {"num_parallel_tree": 3}),
        ("xgboost", {"gamma": 3.0, "tree_method": "exact"}),
        ("xgboost", {"booster": "gblinear"}),
    ],
    ids=str,
)
def test_weights_add_up_to_the_booster_s_own_scores(host, parameters):
    X = DATA.X.copy()
    X[:, 0] = np.clip(np.floor(X[:, 0] + 2), 0, 4)  # five categories
    X[::5, 1] = np.nan
    booster, weights, read = weights_of(train(host, data=lp.data.RankingData(X, *PART[1:]), **parameters))
    table, scores = read(X), raw_scores(booster, X)
    assert table.shape == (len(X), len(weights))
    constant = scores - table @ weights  # XGBoost's base score, beside
    np.testing.assert_allclose(constant, constant[0], atol=1e-12 if host == "lightgbm" else 1e-5)
    np.testing.assert_array_equal(read(sparse.csr_matrix(np.nan_to_num(X) + 10)[:9]).shape, (9, len(weights)))


def test_rankers_are_read_by_the_trees_that_they_predict_with(boosters):
    stopped = pickle.loads(pickle.dumps(boosters["lightgbm"]))
    stopped.best_iteration = 3
    rows = {"eval_set": [(DATA.X[:280], DATA.labels[:280])], "eval_qid": [DATA.qid[:280]], "verbose": False}
    ranker = lp.XGBRanker(objective="map", n_estimators=12, n_jobs=1, early_stopping_rounds=2)
    ranker.fit(DATA.X, DATA.labels, qid=DATA.qid, **rows)
    for model in (stopped, ranker):
        booster, weights, read = weights_of(model)
        constant = model.predict(DATA.X) - read(DATA.X) @ weights
        np.testing.assert_allclose(constant, constant[0], atol=1e-5)
        np.testing.assert_allclose(raw_scores(booster, DATA.X), model.predict(DATA.X), rtol=1e-6)
    frame = pd.DataFrame(DATA.X, columns=boosters["lightgbm"].feature_name())
    assert (weights_of(stopped)[2](frame) != weights_of(stopped)[2](DATA.X)).nnz == 0


def test_what_cannot_be_certified_is_refused():
    X, y = DATA.X, DATA.labels
    quiet = {"verbose": -1, "num_threads": 1}
    refused = [
        lgb.train({**quiet, "objective": "regression", "linear_tree": True}, lgb.Dataset(X, y), 3),
        lgb.train({**quiet, "objective": "multiclass", "num_class": 5}, lgb.Dataset(X, y), 2),
        lgb.train({**quiet, "boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.5}, lgb.Dataset(X, y), 2),
        xgb.train({"booster": "dart", "rate_drop": 0.5, "one_drop": 1}, xgb.DMatrix(X, y), 3),
        xgb.train({"booster": "gblinear", "objective": "multi:softprob", "num_class": 5}, xgb.DMatrix(X, y), 2),
        xgb.train({"objective": "multi:softprob", "num_class": 5}, xgb.DMatrix(X, y), 2),
    ]
    for model in refused:
        with pytest.raises(lp.LambdaplugError, match="not sums of one leaf value"):
            weights_of(model)
    for model, message in [(xgb.train({}, xgb.DMatrix(X, y), 0), "no trees"), (3, "got int")]:
        with pytest.raises(lp.LambdaplugError, match=message):
            weights_of(model)


@pytest.mark.parametrize("kind", ["lightgbm", "xgboost", "linear"])
def test_the_report_is_that_of_a_booster_whose_weights_were_changed(kind, boosters, recipe):
    changed = recipe.with_weights
    booster, asked = boosters[kind], {"directions": 40, "steps": [0.3, 0.02], "progress": False}
    report = lp.analysis.local_optimality(booster, *PART, "ndcg@10", **asked, rule="strict")
    weights, exact = weights_of(booster)[1], 1e-12 if kind == "lightgbm" else 2e-3  # XGBoost rounds to float32

    def value(weights):
        scores = raw_scores(changed(booster, weights), DATA.X)
        return lp.evaluate("ndcg@10", DATA.labels, scores, DATA.group)["ndcg@10"]

    assert report.value == pytest.approx(value(weights), abs=1e-12)
    assert report.steps.tolist() == [0.02, 0.3]
    assert np.square(report.best_direction).sum() == pytest.approx(1.0)
    moved = weights + report.best_step * report.norm * report.best_direction
    assert value(moved) == pytest.approx(report.value + report.best_improvement, abs=exact)
    assert report.best_improvement == report.trial.change.max()
    gradient, hessian = lp.LambdaRank("ndcg@10").gradients(*PART[1:2], raw_scores(booster, DATA.X), DATA.group)
    table = weights_of(booster)[2](DATA.X)
    curvature = table.power(2).T @ hessian
    uphill = -(table.T @ gradient) / (curvature + curvature.mean())
    moved = weights + 0.3 * report.norm * uphill / np.linalg.norm(uphill)
    assert value(moved) == pytest.approx(report.value + report.guided.change[0, 1], abs=exact)
    assert report.curves.iterations.tolist() == [0.0, 0.02, 0.3]
    assert report.curves["direction 1"].tolist() == [report.value, *(report.value + report.trial.change[1])]


def look(weights, labels, group, **asked):
    """The report of a model with a leaf for every row."""
    rows = np.arange(len(weights))
    bins = {"max_bin": 2 * len(rows), "min_data_in_bin": 1, "verbose": -1}
    grown = {"objective": "regression", "num_leaves": len(rows), "min_data_in_leaf": 1, "min_sum_hessian_in_leaf": 0}
    model = lgb.train({**bins, **grown}, lgb.Dataset(rows[:, None], 1.0 * rows, params=bins), 1)
    for leaf, weight in zip(model.predict(rows[:, None], pred_leaf=True).ravel().tolist(), weights, strict=True):
        model.set_leaf_output(0, leaf, weight)
    return analysis.local_optimality(model, rows[:, None], labels, group, "ndcg", **asked, progress=False), model


def test_a_known_optimum_is_one_and_a_known_slope_is_none():
    rows = [3, 2, 1, 0] * 30, [4] * 30
    right, few = (look([4, 3, 2, 1] * 30, *rows, directions=n)[0] for n in (459, 100))
    wrong, _ = look([1, 2, 3, 4] * 30, *rows)
    assert right.optimum
    assert right.confidence == pytest.approx(1 - 0.99**459)
    assert right.best_improvement <= 0 < wrong.best_improvement
    assert right.share_bound == pytest.approx(1 - 0.01 ** (1 / 459))
    assert "a local optimum: none of 459 random directions improves it" in str(right)
    assert "no verdict: none of 100 random directions improves it, and 459 are needed" in str(few)
    assert (wrong.optimum, wrong.growing, wrong.confidence) == (False, True, 0.99)
    assert wrong.improves.any(axis=1).sum() == wrong.improving > 150
    assert "still growing, no verdict" in str(wrong)
    # One tie: half of the directions break it the right way; significant in a single query it never is.
    for rule, optimum in (("strict", False), ("significant", True)):
        report, _ = look([2, 2, 0], [0, 1, 0], [3], directions=50, steps=(0.01,), rule=rule)
        assert report.optimum is optimum
        assert 10 < (report.trial.change > 0).sum() < 40


def test_significance_is_the_paired_t_test_with_bonferroni_s_correction():
    rng = np.random.default_rng(3)
    labels, group, steps = rng.integers(0, 3, size=400), [10] * 40, (0.1, 1.0)
    start = 0.3 * rng.normal(size=400) - labels
    report, model = look(start, labels, group, directions=30, steps=steps, level=0.05)
    leaf = model.predict(np.arange(400)[:, None], pred_leaf=True).ravel()
    for number, (index, step) in itertools.product(range(30), enumerate(steps)):
        direction = np.random.default_rng([0, number]).standard_normal(400)[leaf]
        moved = start + step * report.norm * direction / np.linalg.norm(direction)
        a, b = (lp.evaluate("ndcg", labels, s, group, per_query=True)["ndcg"] for s in (start, moved))
        a, b = a[~np.isnan(a)], b[~np.isnan(b)]
        p = stats.ttest_rel(b, a, alternative="greater").pvalue
        assert report.improves[number, index] == (p < 0.05 / 60)
    assert 0 < report.improves.sum() < 60


def test_wrong_arguments_are_named(boosters, recipe):
    for message, arguments in [
        ("directions: expected", {"directions": 0}),
        ("steps: expected", {"steps": [0.1, -0.1]}),
        ("expected rule='significant' or 'strict'", {"rule": "loose"}),
        ("between 0 and 1", {"level": 1.0}),
        (r"one row per label \(840\), got 839", {"X": DATA.X[1:]}),
        ("the features themselves", {"X": lgb.Dataset(DATA.X)}),
        ("undefined for every query", {"labels": 0 * DATA.labels, "measure": "map"}),
    ]:
        given = dict(zip(("X", "labels", "group"), PART, strict=True)) | {"measure": "ndcg"} | arguments
        with pytest.raises(lp.LambdaplugError, match=message):
            lp.analysis.local_optimality(boosters["lightgbm"], **given, progress=False)
    nothing = recipe.with_weights(boosters["linear"], np.zeros(DATA.X.shape[1]))
    with pytest.raises(lp.LambdaplugError, match="all weights are 0"):
        lp.analysis.local_optimality(nothing, *PART, "ndcg")


@pytest.mark.parametrize("host", HOSTS)
def test_the_recipe_s_table_knows_how_far_trainings_differ(host, recipe):
    part, valid, test = DATA.split(0.5, 0.2, 0.3)
    threads = {"num_threads": 1} if host == "lightgbm" else {"nthread": 1}
    measures = [lp.NDCG(), lp.MAP(relevant=2)]
    means, p = recipe.match_table(part, valid, test, measures, host, threads, 6, trainings=3)
    assert means.shape == p.shape == (2, 2)
    assert np.isnan(np.diag(p)).all()
    change = []  # the cell (map, ndcg) by hand
    for seed in range(3):
        scores = [
            recipe.trained(host, lp.objective(m, seed=seed), m, part, valid, test, {**threads, "seed": seed}, 6)[0]
            for m in measures
        ]
        ndcg = [lp.evaluate("ndcg", test.labels, one, test.group, per_query=True)["ndcg"] for one in scores]
        change.append(ndcg[1] - ndcg[0])
    change = np.array(change)
    queries, trainings = change.mean(0).var(ddof=1) / change.shape[1], change.mean(1).var(ddof=1) / 3
    freedom = (queries + trainings) ** 2 / (queries**2 / (change.shape[1] - 1) + trainings**2 / 2)
    assert p.iloc[1, 0] == pytest.approx(2 * stats.t.sf(abs(change.mean()) / (queries + trainings) ** 0.5, freedom))
    assert list(means.columns) == ["ndcg", "map(relevant=2)"]
