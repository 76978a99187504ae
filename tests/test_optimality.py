"""Local optimality, polishing and the table of measures, against boosters whose leaves were really changed."""

import functools
import itertools
import math
import pickle
import warnings

import lightgbm as lgb
import numpy as np
import oracle
import pandas as pd
import pytest
import xgboost as xgb
from scipy import sparse, stats

import lambdaplug as lp
from lambdaplug.analysis import Landscape, LeafModel, examine, landscape
from lambdaplug.analysis.optimality import Rules, confidence_of, directions_for
from lambdaplug.hosts.leaves import weights_of
from lambdaplug.queries import Queries

HOSTS = ["lightgbm", "xgboost"]
DATA = lp.data.cubic(queries=60, documents=14, features=6, noise=0.3)


def holes(X):
    """With missing values, and a first column of five categories."""
    X = X.copy()
    X[:, 0] = np.clip(np.floor(X[:, 0] + 2), 0, 4)
    X[::5, 1] = np.nan
    return X


def train(host, measure="ndcg", data=DATA, rounds=8, **parameters):
    objective = lp.LambdaRank(measure)
    if host == "lightgbm":
        own = {"objective": objective, "num_leaves": 7, "num_threads": 1, "verbose": -1, "min_sum_hessian_in_leaf": 0}
        return lgb.train({**own, **parameters}, lgb.Dataset(data.X, data.labels, group=data.group), rounds)
    own = {"nthread": 1, "max_depth": 3, "min_child_weight": 0, "lambda": 1e-3, **parameters}
    return xgb.train(own, xgb.DMatrix(data.X, data.labels, qid=data.qid), rounds, obj=objective)


@pytest.fixture(scope="module")
def boosters():
    return {host: train(host) for host in HOSTS}


def raw(booster, X):
    if isinstance(booster, lgb.Booster):
        return booster.predict(X, raw_score=True)
    return booster.predict(xgb.DMatrix(X), output_margin=True)


# --- leaves ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", ["plain", "holes", "several a round", "one leaf"])
@pytest.mark.parametrize("host", HOSTS)
def test_leaf_values_add_up_to_the_booster_s_own_scores(host, shape):
    data = DATA
    parameters = {}
    if shape == "holes":
        data = lp.data.RankingData(holes(DATA.X), DATA.labels, DATA.group)
        parameters = {"categorical_feature": "0", "min_data_per_group": 1} if host == "lightgbm" else {}
    elif shape == "several a round":
        parameters = {"boosting": "dart", "drop_rate": 0.5} if host == "lightgbm" else {"num_parallel_tree": 3}
    elif shape == "one leaf":  # some trees without a split
        parameters = {"min_gain_to_split": 1.5} if host == "lightgbm" else {"gamma": 3.0, "tree_method": "exact"}
    with warnings.catch_warnings():  # of rounds without a split
        warnings.simplefilter("ignore")
        booster = train(host, data=data, **parameters)
    leaves = weights_of(booster)
    scores, places = leaves.read(data.X)
    expected = raw(booster, data.X)
    np.testing.assert_array_equal(scores, expected)
    assert places.shape == (len(data.labels), leaves.trees)
    added = np.zeros(len(scores), dtype=np.float64 if host == "lightgbm" else np.float32)
    for tree in range(leaves.trees):
        added += leaves.values[places[:, tree]].astype(added.dtype)
    if host == "lightgbm":
        np.testing.assert_array_equal(added, expected)
    else:
        np.testing.assert_allclose(
            added - added[0], expected - expected[0], atol=2e-6
        )  # a constant, base_score, beside
    np.testing.assert_array_equal(raw(leaves.rebuilt(leaves.values), data.X), expected)
    other = np.random.default_rng(0).normal(size=len(leaves.values))
    rebuilt = leaves.rebuilt(other)
    moved = raw(rebuilt, data.X) - expected
    np.testing.assert_allclose(
        moved, (other - leaves.values)[places].sum(axis=1), atol=1e-5 if host == "xgboost" else 1e-12
    )
    np.testing.assert_array_equal(raw(booster, data.X), expected)


def linear_booster(X):
    objective = lp.LambdaRank("ndcg@10")
    return xgb.train({"booster": "gblinear", "nthread": 1}, xgb.DMatrix(X, DATA.labels, qid=DATA.qid), 8, obj=objective)


def test_the_weights_of_a_linear_model_are_those_of_its_features():
    X = holes(DATA.X)
    booster = linear_booster(X)
    weights = weights_of(booster)
    expected = raw(booster, X)
    scores, features = weights.read(X)
    np.testing.assert_array_equal(scores, expected)
    np.testing.assert_array_equal(features, np.where(np.isnan(X), 0.0, X))
    constant = expected - features @ weights.values
    np.testing.assert_allclose(constant, constant[0], atol=1e-5)
    np.testing.assert_array_equal(raw(weights.rebuilt(weights.values), X), expected)
    other = np.random.default_rng(0).normal(size=X.shape[1])
    moved = raw(weights.rebuilt(other), X) - expected
    np.testing.assert_allclose(moved, features @ (other - weights.values), atol=1e-5)
    np.testing.assert_array_equal(raw(booster, X), expected)
    for theirs in (sparse.csr_matrix(DATA.X[:20]), pd.DataFrame(DATA.X[:20], columns=booster.feature_names)):
        np.testing.assert_array_equal(weights.model(theirs, 20).read(5, 15)[1], DATA.X[5:15])
    ranker = lp.XGBRanker(objective="map", booster="gblinear", n_estimators=3, n_jobs=1, early_stopping_rounds=2)
    ranker.fit(DATA.X, DATA.labels, qid=DATA.qid, eval_set=[(DATA.X, DATA.labels)], eval_qid=[DATA.qid], verbose=False)
    np.testing.assert_allclose(weights_of(ranker).scores(DATA.X), ranker.predict(DATA.X), rtol=1e-6)


def test_a_linear_model_is_examined_and_polished():
    booster, part = linear_booster(DATA.X), (DATA.X, DATA.labels, DATA.group)
    weights = weights_of(booster)
    asked = {"directions": 40, "steps": [0.3, 0.02], "single_weights": 3, "progress": False}
    report = lp.analysis.local_optimality(booster, *part, "ndcg@10", **asked)
    assert (report.weights, report.directions) == (DATA.X.shape[1], 40)
    forces = lp.LambdaRank("ndcg@10").gradients(labels=DATA.labels, scores=raw(booster, DATA.X), group=DATA.group)
    step, curvature = -forces[0] @ DATA.X, forces[1] @ np.square(DATA.X)
    uphill = step / (curvature + curvature.mean())  # each weight's Newton step, damped
    for change, direction in [
        (report.trial.change[0], report.direction(0)),
        (report.guided.change[0], uphill / np.linalg.norm(uphill)),
    ]:
        for index, length in enumerate(report.steps):
            scores = raw(weights.rebuilt(weights.values + length * report.norm * direction), DATA.X)
            found = lp.evaluate("ndcg@10", DATA.labels, scores, DATA.group)["ndcg@10"]
            assert report.value + change[index] == pytest.approx(found, abs=2e-3)  # XGBoost rounds to float32
    again = lp.analysis.local_optimality(booster, *part, "ndcg@10", **asked, threads=1)
    np.testing.assert_array_equal(report.trial.change, again.trial.change)
    polished = lp.analysis.polish(booster, *part, "ndcg@10", valid=part, rounds=2, probes=4, progress=False)
    before, after = (
        lp.evaluate("ndcg@10", DATA.labels, raw(one, DATA.X), DATA.group)["ndcg@10"] for one in (booster, polished)
    )
    assert after > before


@pytest.mark.parametrize("host", HOSTS)
def test_frames_sparse_rows_and_rankers_are_read_alike(host, boosters):
    booster, X = boosters[host], DATA.X[:50]
    plain = weights_of(booster).model(X, 50).read(10, 40)
    frame = pd.DataFrame(X, columns=booster.feature_name() if host == "lightgbm" else None)
    assert not (X == 0).any()  # which XGBoost would take for missing in sparse rows
    for other in (frame, sparse.csc_matrix(X), X.tolist()):
        if host == "xgboost" and other is frame:
            continue  # trained without names
        for mine, theirs in zip(plain, weights_of(booster).model(other, 50).read(10, 40), strict=True):
            np.testing.assert_array_equal(mine, theirs)
    if host == "lightgbm":
        stopped = pickle.loads(pickle.dumps(booster))
        stopped.best_iteration = 3  # what it predicts with
        assert weights_of(stopped).trees == 3
        rebuilt = weights_of(stopped).rebuilt(2 * weights_of(stopped).values)
        assert (rebuilt.best_iteration, rebuilt.num_trees()) == (3, 8)
        np.testing.assert_allclose(rebuilt.predict(X), 2 * stopped.predict(X))
        ranker = lp.LGBMRanker(objective=lp.LambdaRank("map"), n_estimators=5, n_jobs=1, verbose=-1)
        ranker.fit(DATA.X, DATA.labels, group=DATA.group)
    else:
        ranker = lp.XGBRanker(objective=lp.LambdaRank("map"), n_estimators=12, n_jobs=1, early_stopping_rounds=2)
        ranker.fit(
            DATA.X,
            DATA.labels,
            qid=DATA.qid,
            eval_set=[(DATA.X[:280], DATA.labels[:280])],
            eval_qid=[DATA.qid[:280]],
            verbose=False,
        )
    np.testing.assert_allclose(weights_of(ranker).scores(X), ranker.predict(X), rtol=1e-6)


def test_what_is_no_sum_of_leaf_values_is_refused():
    X, y = DATA.X, DATA.labels
    quiet = {"verbose": -1, "num_threads": 1}
    refused = [
        lgb.train({**quiet, "objective": "regression", "linear_tree": True}, lgb.Dataset(X, y), 3),
        lgb.train({**quiet, "objective": "multiclass", "num_class": 5}, lgb.Dataset(X, y), 2),
        lgb.train({**quiet, "boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.5}, lgb.Dataset(X, y), 2),
        xgb.train({"booster": "dart"}, xgb.DMatrix(X, y), 2),
        xgb.train({"booster": "gblinear", "objective": "multi:softprob", "num_class": 5}, xgb.DMatrix(X, y), 2),
        xgb.train({"objective": "multi:softprob", "num_class": 5}, xgb.DMatrix(X, y), 2),
    ]
    for model in refused:
        with pytest.raises(lp.LambdaplugError, match="not sums of one leaf value"):
            weights_of(model)
    empty = lgb.Booster(quiet, lgb.Dataset(X, y))
    for model, message in [(empty, "no trees"), (xgb.train({}, xgb.DMatrix(X, y), 0), "no trees"), (3, "got int")]:
        with pytest.raises(lp.LambdaplugError, match=message):
            weights_of(model)


# --- directions --------------------------------------------------------------------------------------------------


def by_hand(name, scores, labels, group):
    """One value per query by the oracle, undefined ones left out."""
    values = []
    for q, end in enumerate(np.cumsum(group)):
        rows = slice(end - group[q], end)
        ranked = [labels[rows][i] for i in oracle.rank(scores[rows].tolist())]
        value = oracle.VALUES[name](ranked) if ranked else None
        values += [] if value is None else [value]
    return np.array(values)


@pytest.mark.parametrize("name", ["ndcg", "ndcg@3", "map(relevant=2)", "mrr", "err", "pairs", "p@5"])
def test_changes_along_directions_are_those_of_ranking_anew(name, monkeypatch):
    rng = np.random.default_rng(1)
    group = np.array([30, 0, 1, 12, 2, 40, 5])
    labels = rng.choice([0, 0, 0, 1, 2, 4], size=group.sum()).astype(float)
    labels[30:43] = 0  # undefined ones
    places = rng.integers(0, 6, size=(len(labels), 3)) + np.array([0, 6, 12])
    weights = rng.normal(size=18)
    base = np.round(weights[places].sum(axis=1), 1)  # with ties
    moved = rng.normal(size=18)
    table = rng.normal(size=(18, 40))
    steps = [0.01, 0.3, -2.0]
    asked = []

    def read(first, last):
        asked.append(last - first)
        return base[first:last], places[first:last].astype(np.int32)

    found = []
    for threads, size, kept in [(1, 1 << 27, 1 << 29), (3, 1 << 27, 1 << 29), (2, 268 * 20, 1 << 29), (2, 268 * 20, 0)]:
        monkeypatch.setattr(landscape, "CHUNK_BYTES", size)
        monkeypatch.setattr(landscape, "KEPT_BYTES", kept)
        asked.clear()
        one = Landscape(LeafModel(weights, 3, read), Queries(labels, group), name, threads)
        one.value(moved)
        found.append(one.along(lambda first, last: table[:, first:last], 40, steps, moved))
        assert sum(asked) == (len(labels) if kept else 2 * len(labels))  # predicted once, or anew each time
    assert max(asked) < 20 + 40  # of 90: up to the limit and one query more
    for part in ("change", "error", "value"):
        np.testing.assert_array_equal(getattr(found[0], part), getattr(found[1], part))
        np.testing.assert_array_equal(getattr(found[2], part), getattr(found[3], part))
        np.testing.assert_allclose(getattr(found[0], part), getattr(found[2], part), atol=1e-14)
    start = base + moved[places].sum(axis=1)
    before = by_hand(name, start, labels, group)
    assert found[0].queries == len(before)
    assert found[0].value == pytest.approx(before.mean(), abs=1e-12)
    for direction in (0, 31, 39):
        for index, step in enumerate(steps):
            d = by_hand(name, start + step * table[:, direction][places].sum(axis=1), labels, group) - before
            assert found[0].change[direction, index] == pytest.approx(d.mean(), abs=1e-12)
            assert found[0].error[direction, index] == pytest.approx(stats.sem(d), abs=1e-9)


@pytest.mark.parametrize("host", HOSTS)
def test_the_report_is_that_of_a_booster_whose_leaves_were_changed(host, boosters):
    booster = boosters[host]
    part = DATA.X, DATA.labels, DATA.group
    report = lp.analysis.local_optimality(
        booster, *part, "ndcg@10", directions=40, steps=[0.3, 0.02], single_weights=12, progress=False, rule="strict"
    )
    leaves = weights_of(booster)
    value = lp.evaluate("ndcg@10", DATA.labels, raw(booster, DATA.X), DATA.group)["ndcg@10"]
    assert report.value == pytest.approx(value, abs=1e-12)
    assert report.steps.tolist() == [0.02, 0.3]
    exact = 1e-12 if host == "lightgbm" else 2e-3  # XGBoost rounds leaf values and scores to float32
    for number in (0, report.best[0]):
        direction = report.direction(number)
        assert np.square(direction).sum() == pytest.approx(1.0)
        for index, step in enumerate(report.steps):
            changed = raw(leaves.rebuilt(leaves.values + step * report.norm * direction), DATA.X)
            found = lp.evaluate("ndcg@10", DATA.labels, changed, DATA.group)["ndcg@10"]
            assert report.value + report.trial.change[number, index] == pytest.approx(found, abs=exact)
    np.testing.assert_array_equal(report.best_direction, report.direction(report.best[0]))
    assert report.best_improvement == report.trial.change.max()
    one = np.zeros(len(leaves.values))
    one[report.single_weights[3]] = 0.5 * report.norm / math.sqrt(len(one))
    found = lp.evaluate("ndcg@10", DATA.labels, raw(leaves.rebuilt(leaves.values + one), DATA.X), DATA.group)["ndcg@10"]
    assert report.value + report.single.change[3, list(report.single_steps).index(0.5)] == pytest.approx(
        found, abs=exact
    )
    # Curves go through the model, both ways.
    assert report.curves.iterations.tolist() == [-0.3, -0.02, 0.0, 0.02, 0.3]
    assert report.curves["direction 1"][2] == report.value
    assert report.curves["direction 1"][4] == report.value + report.trial.change[1, 1]
    assert report.curves["highest"][3] == pytest.approx(report.value + report.trial.change[:, 0].max())
    again = lp.analysis.local_optimality(
        booster, *part, "ndcg@10", 40, [0.02, 0.3], single_weights=12, progress=False, rule="strict", threads=1
    )
    np.testing.assert_array_equal(report.trial.change, again.trial.change)
    assert report.optimum is again.optimum


def simple(weights, labels, group):
    """A model with a leaf for every row."""
    weights = np.array(weights, dtype=float)
    places = np.arange(len(weights), dtype=np.int32)[:, None]
    model = LeafModel(weights, 1, lambda first, last: (weights[first:last], places[first:last]))
    return Landscape(model, Queries(labels, group), "ndcg")


def test_a_known_optimum_is_one_and_a_known_slope_is_none():
    labels = [3, 2, 1, 0] * 30
    right = examine(simple([4, 3, 2, 1] * 30, labels, [4] * 30), progress=False)
    wrong = examine(simple([1, 2, 3, 4] * 30, labels, [4] * 30), progress=False)
    assert right.optimum
    assert right.confidence == pytest.approx(1 - 0.99**459)
    assert right.best_improvement <= 0 < wrong.best_improvement
    assert right.improving == 0 == right.single_improves.sum()
    assert right.share_bound == pytest.approx(1 - 0.01 ** (1 / 459))
    assert not wrong.optimum
    assert wrong.confidence == 0.99
    assert wrong.improves.any(axis=1).sum() == wrong.improving > 150
    assert "NOT a local optimum" in str(wrong)
    assert "None of 459 random directions improves it significantly" in str(right)
    assert "with confidence 0.9901, fewer than 1 % of directions do" in str(right)
    # One tie: half of the directions break it the right way; significant in a single query it never is.
    tied = [2.0, 2.0, 0.0]
    for rule, optimum in (("strict", False), ("significant", True)):
        report = examine(simple(tied, [0, 1, 0], [3]), 50, (0.01,), rules=Rules(rule), progress=False)
        assert report.optimum is optimum
        assert 10 < (report.trial.change > 0).sum() < 40
    assert report.best_improvement == pytest.approx(1 - 1 / math.log2(3))


def test_significance_is_the_paired_t_test_with_bonferroni_s_correction():
    rng = np.random.default_rng(3)
    labels = rng.integers(0, 3, size=400)
    start = 0.3 * rng.normal(size=400) - labels
    report = examine(simple(start, labels, [10] * 40), 30, (0.1, 1.0), progress=False, rules=Rules(level=0.05))
    for number in range(30):
        for index, step in enumerate((0.1, 1.0)):
            moved = start + step * report.norm * report.direction(number)
            a, b = (by_hand("ndcg", scores, labels, [10] * 40) for scores in (start, moved))
            p = stats.ttest_rel(b, a, alternative="greater").pvalue
            assert report.improves[number, index] == (p < 0.05 / 60)
    assert report.improves.any()
    assert not report.improves.all()


@pytest.mark.parametrize("host", HOSTS)
def test_random_leaf_values_are_no_optimum(host):
    data = lp.data.cubic(queries=150, documents=15, features=5)
    leaves = weights_of(train(host, data=data, rounds=20))
    trained = lp.analysis.local_optimality(leaves.booster, *data, "ndcg", 60, [0.5, 1.0], progress=False)
    shuffled = leaves.rebuilt(np.random.default_rng(0).normal(size=len(leaves.values)))
    random = lp.analysis.local_optimality(shuffled, *data, "ndcg", 60, [0.5, 1.0], progress=False)
    assert trained.optimum
    assert not random.optimum
    assert random.best_improvement > 0.02 > trained.best_improvement


def test_numbers_of_directions():
    assert directions_for(0.01, 0.99) == 459
    assert confidence_of(458) < 0.99 <= confidence_of(459)


def test_wrong_arguments_are_named(boosters):
    part = DATA.X, DATA.labels, DATA.group
    booster = boosters["lightgbm"]
    for message, arguments in [
        ("directions: expected", {"directions": 0}),
        ("steps: expected", {"steps": [0.1, -0.1]}),
        ("rule: expected", {"rule": "loose"}),
        ("between 0 and 1", {"level": 1.0}),
        ("single_weights: expected", {"single_weights": -1}),
    ]:
        with pytest.raises(lp.LambdaplugError, match=message):
            lp.analysis.local_optimality(booster, *part, "ndcg", progress=False, **arguments)
    with pytest.raises(lp.LambdaplugError, match=r"one row per label \(840\), got 839"):
        lp.analysis.local_optimality(booster, DATA.X[1:], DATA.labels, DATA.group, "ndcg")
    with pytest.raises(lp.LambdaplugError, match="the features themselves"):
        lp.analysis.local_optimality(booster, lgb.Dataset(DATA.X), DATA.labels, DATA.group, "ndcg")
    with pytest.raises(lp.LambdaplugError, match="undefined for every query"):
        lp.analysis.local_optimality(booster, DATA.X, 0 * DATA.labels, DATA.group, "map")
    leaves = weights_of(booster)
    with pytest.raises(lp.LambdaplugError, match="all weights are 0"):
        lp.analysis.local_optimality(leaves.rebuilt(0 * leaves.values), *part, "ndcg")
    with pytest.raises(lp.LambdaplugError, match="a share of the 60 queries"):
        lp.analysis.polish(booster, *part, "ndcg", holdout=1.0)
    with pytest.raises(lp.LambdaplugError, match="patience: expected an integer >= 1, got 0"):
        lp.analysis.polish(booster, *part, "ndcg", patience=0, progress=False)
    with pytest.raises(lp.LambdaplugError, match="steps above 0"):
        lp.analysis.polish(booster, *part, "ndcg", steps=[0.0], progress=False)
    with pytest.raises(lp.LambdaplugError, match="'lightgbm' or 'xgboost'"):
        lp.analysis.match_table(DATA, DATA, "ndcg", host="catboost")
    with pytest.raises(lp.LambdaplugError, match="different measures"):
        lp.analysis.match_table(DATA, DATA, ["map", "map"])


# --- polish ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("measure", ["mrr(relevant=3)", "ndcg@3"])
def test_polishing_is_never_worse_on_validation_and_serves_as_usual(host, measure, boosters, tmp_path):
    booster = boosters[host]
    fresh, valid = lp.data.cubic(queries=120, documents=14, features=6, noise=0.3).split(0.6, 0.4)
    before = raw(booster, valid.X)
    polished, trace = lp.analysis.polish(
        booster, *fresh, measure, valid=tuple(valid), rounds=6, probes=8, return_trace=True, progress=False
    )
    assert type(polished) is type(booster)
    np.testing.assert_array_equal(raw(booster, valid.X), before)
    start, end = (
        lp.evaluate(measure, valid.labels, raw(one, valid.X), valid.group)[measure] for one in (booster, polished)
    )
    assert trace[0]["valid"] == pytest.approx(start, abs=1e-12)
    assert end >= start
    assert end == pytest.approx(max(row["valid"] for row in trace), abs=1e-12 if host == "lightgbm" else 0.02)
    climbed = [row["train"] for row in trace]
    assert all(b > a for a, b in itertools.pairwise(climbed))
    assert len(climbed) > 2
    path = tmp_path / "model.json"
    polished.save_model(path)
    loaded = lgb.Booster(model_file=path) if host == "lightgbm" else xgb.Booster(model_file=path)
    for copy in (loaded, pickle.loads(pickle.dumps(polished))):
        np.testing.assert_array_equal(raw(copy, valid.X), raw(polished, valid.X))


def test_where_no_step_helps_the_original_comes_back(boosters):
    booster = boosters["lightgbm"]
    valid = DATA.X, raw(booster, DATA.X) - raw(booster, DATA.X).min(), DATA.group
    valid = valid[0], np.floor(4 * valid[1] / valid[1].max()), valid[2]  # labels that the model ranks perfectly
    assert lp.evaluate("ndcg", valid[1], raw(booster, DATA.X), DATA.group)["ndcg"] == pytest.approx(1.0)
    assert lp.analysis.polish(booster, *DATA, "ndcg", valid=valid, rounds=3, progress=False) is booster
    assert isinstance(lp.analysis.polish(booster, *DATA, "ndcg", rounds=1, probes=0, progress=False), lgb.Booster)


# --- which measure to train for ----------------------------------------------------------------------------------


@pytest.mark.parametrize("host", HOSTS)
def test_the_table_of_measures(host):
    part, valid, test = DATA.split(0.5, 0.2, 0.3)
    threads = {"num_threads": 1} if host == "lightgbm" else {"nthread": 1}
    rules = {"progress": False, "builtins": False}
    measures = ["ndcg", lp.MAP(relevant=2), "mrr(relevant=2)"]
    table = lp.analysis.match_table(part, tuple(test), measures, host, threads, rounds=6, valid=valid, **rules)
    names = [str(lp.measures.as_measure(one)) for one in measures]
    assert table.values.shape == (3, 3)
    assert np.isnan(np.diag(table.p_values)).all()
    traffic = np.append(3.0, np.zeros(len(test.group) - 1))  # of one query alone
    one = lp.analysis.match_table(part, test, "ndcg", host, threads, rounds=6, valid=valid, **rules, weight=traffic)
    assert 0.0 <= one.values[0, 0] <= 1.0
    assert one.values[0, 0] != table.values[0, 0]
    again = lp.analysis.match_table(part, test, measures[:2], host, threads, rounds=6, valid=valid, **rules)
    np.testing.assert_array_equal(again.values, table.values[:2, :2])
    plain = lp.analysis.match_table(part, test, "ndcg", host, threads, 6, valid, **rules, objective=lp.LambdaRank)
    assert plain.values[0, 0] != table.values[0, 0]
    pairs = table.effective_pairs
    assert pairs[0] > pairs[1] > pairs[2] > 0
    # The cell (map, ndcg) by other means.
    if host == "lightgbm":
        scores = []
        for measure, trees in zip(names[:2], table.trees, strict=False):
            data = lgb.Dataset(part.X, part.labels, group=part.group)
            model = lgb.train({"objective": lp.objective(measure), "verbose": -1, **threads}, data, trees)
            scores.append(raw(model, test.X))
        result = lp.compare("ndcg", test.labels, *scores, test.group)
        assert result.mean_b == pytest.approx(table.values[1, 0])
        assert result.p_t == pytest.approx(table.p_values[1, 0])
    assert str(table).splitlines()[0].split() == ["trained", "for", "effective", "pairs", *names]
    assert table.markdown().count("|") == 5 * 6
    assert table.frame().loc["ndcg", names[2]] == table.values[0, 2]
    assert table.frame(p_values=True).loc["ndcg", "ndcg"] != table.values[0, 0]
    assert len(table.summary) == 3


def test_a_table_of_several_trainings_knows_how_far_they_differ():
    part, test = DATA.split(0.6, 0.4)
    rules = {"params": {"num_threads": 1}, "rounds": 6, "progress": False, "builtins": ["lambdarank"]}
    measures = ["ndcg", "map(relevant=2)"]
    table = lp.analysis.match_table(part, test, measures, trainings=3, **rules)
    single = [
        lp.analysis.match_table(part, test, measures, objective=functools.partial(lp.objective, seed=seed), **rules)
        for seed in range(3)
    ]
    np.testing.assert_allclose(table.values, np.mean([one.values for one in single], axis=0), atol=1e-12)
    # The cell (map, ndcg) by hand: the error of the queries and that of the trainings.
    values = []
    for seed, measure in itertools.product(range(3), measures):
        data = lgb.Dataset(part.X, part.labels, group=part.group)
        objective = lp.objective(measure, seed=seed)
        model = lgb.train({"objective": objective, "verbose": -1, "num_threads": 1, "seed": seed}, data, 6)
        values.append(lp.evaluate("ndcg", test.labels, raw(model, test.X), test.group, per_query=True)["ndcg"])
    differences = np.array(values[1::2]) - np.array(values[::2])
    queries = differences.mean(0).var(ddof=1) / differences.shape[1]
    trainings = differences.mean(1).var(ddof=1) / 3
    freedom = (queries + trainings) ** 2 / (queries**2 / (differences.shape[1] - 1) + trainings**2 / 2)
    t = abs(differences.mean()) / (queries + trainings) ** 0.5
    assert trainings > 0.0
    assert table.p_values[1, 0] == pytest.approx(2 * stats.t.sf(t, freedom))
    assert "3 trainings" in str(table)
    with pytest.raises(lp.LambdaplugError, match="trainings: expected an integer >= 1, got 0"):
        lp.analysis.match_table(part, test, measures, trainings=0, **rules)
    with pytest.raises(lp.LambdaplugError, match=r"expected an objective= that takes seed=.*Use trainings=1"):
        lp.analysis.match_table(part, test, measures, trainings=2, objective=lp.Approx, **rules)
