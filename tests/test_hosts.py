"""LightGBM and XGBoost: every way in, the same gradients and trees on each, and a clear word where one would fail."""

import copy
import gc
import itertools
import os
import pickle
import subprocess
import sys
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import cloudpickle
import lightgbm as lgb
import numba
import numpy as np
import pandas as pd
import pytest
import sklearn
import threadpoolctl
import xgboost as xgb
from sklearn.model_selection import GroupKFold

import lambdaplug as lp
from lambdaplug import queries, training
from lambdaplug.kernels import run_round, run_threads

pytestmark = pytest.mark.filterwarnings("ignore:The argument 'eval_set'")  # deprecated by the newest LightGBM only

ROUNDS = 8
OBJECTIVES = {
    "ndcg@10": lp.LambdaRank("ndcg@10"),
    "map": lp.LambdaRank("map", sigma=2.0),
    "mrr, gradient step": lp.LambdaRank("mrr", step="gradient"),
    "approx": lp.Approx("map@10", beta=1.0),
    "fdsa": lp.FDSA("err"),
}


# --- data and hosts ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Data:
    """Rows in queries, and what goes with them."""

    X: np.ndarray
    y: np.ndarray
    group: np.ndarray

    @property
    def qid(self):
        return np.repeat(np.arange(len(self.group)), self.group)

    @property
    def rows(self):
        return len(self.y)

    @property
    def frame(self):
        return pd.DataFrame(self.X, columns=[f"feature_{i}" for i in range(self.X.shape[1])]).assign(qid=self.qid)

    def scores(self, seed=0):
        return np.random.default_rng(seed).normal(size=self.rows)

    def part(self, rows):
        return Data(self.X[rows], self.y[rows], np.unique(self.qid[rows], return_counts=True)[1])


def make_data(seed, number=220):
    rng = np.random.default_rng(seed)
    group = rng.integers(1, 26, number)
    group[:2] = 1, 25
    # Sixty-fourths are exact in text too, so that a file holds the same numbers.
    X = np.round(64 * rng.normal(size=(group.sum(), 6))) / 64
    signal = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.5 * np.abs(X[:, 3]) + rng.normal(0, 0.5, len(X))
    return Data(X, np.digitize(signal, [0.3, 0.9, 1.5, 2.2]).astype(float), group)


def changed(data, **arrays):
    return Data(**{"X": data.X, "y": data.y, "group": data.group, **arrays})


@pytest.fixture(scope="module")
def data():
    return make_data(0)


@pytest.fixture(scope="module")
def other():
    return make_data(1, 150)


# One thread and one layout: more threads add the histograms in another order.
LIGHTGBM = {
    "learning_rate": 0.2,
    "num_leaves": 7,
    "num_threads": 1,
    "force_row_wise": True,
    "verbosity": -1,
    "metric": "None",
}
XGBOOST = {
    "learning_rate": 0.2,
    "max_depth": 3,
    "min_child_weight": 1e-3,
    "nthread": 1,
    "objective": "rank:ndcg",
    "disable_default_eval_metric": 1,
}
LIGHTGBM_RANKER = {"n_estimators": ROUNDS, "n_jobs": 1, **{k: v for k, v in LIGHTGBM.items() if k != "num_threads"}}
XGBOOST_RANKER = {"n_estimators": ROUNDS, "n_jobs": 1, "learning_rate": 0.2, "max_depth": 3, "min_child_weight": 1e-3}
NO_SPLIT = {"LightGBM": {"min_sum_hessian_in_leaf": 1e6}, "XGBoost": {"min_child_weight": 1e6}}


class LightGBM:
    """What the tests do with a host, in LightGBM's words."""

    name = "LightGBM"
    floor = "min_sum_hessian_in_leaf"
    parameters = LIGHTGBM

    @staticmethod
    def data(data, weight=None, **options):
        return lgb.Dataset(data.X, data.y, group=data.group, weight=weight, **options)

    @staticmethod
    def built(data, weight=None):
        return LightGBM.data(data, weight).construct()

    @classmethod
    def train(cls, objective, train, rounds=ROUNDS, model=None, **changes):
        return lgb.train({**cls.parameters, **changes, "objective": objective}, train, rounds, init_model=model)

    @classmethod
    def curves(cls, objective, metric, train, valid, rounds, stop=None):
        """The booster, its best iteration if it may stop early, and the recorded values of the metric."""
        recorded = {}
        callbacks = [lgb.record_evaluation(recorded)]
        callbacks += [lgb.early_stopping(stop, verbose=False)] if stop else []
        booster = lgb.train(
            {**cls.parameters, "objective": objective},
            train := cls.data(train),
            rounds,
            valid_sets=[cls.data(valid, reference=train)],
            valid_names=["valid"],
            feval=metric,
            callbacks=callbacks,
        )
        return booster, booster.best_iteration - 1, recorded["valid"]

    @staticmethod
    def predict(booster, X, rounds=None):
        return booster.predict(X, num_iteration=rounds or -1)

    @staticmethod
    def trees(booster):
        # Not dump_model: lgb.train reads its model back from text, which rounds the statistics of inner nodes.
        return booster.model_to_string().partition("Tree=0")[2].partition("end of trees")[0]


class XGBoost:
    """The same in XGBoost's words."""

    name = "XGBoost"
    floor = "min_child_weight"
    parameters = XGBOOST

    @staticmethod
    def data(data, weight=None, kind=xgb.DMatrix, **options):
        return kind(data.X, data.y, qid=data.qid, weight=weight, **options)

    built = data

    @classmethod
    def train(cls, objective, train, rounds=ROUNDS, model=None, **changes):
        return xgb.train({**cls.parameters, **changes}, train, rounds, obj=objective, xgb_model=model)

    @classmethod
    def curves(cls, objective, metric, train, valid, rounds, stop=None, **options):
        recorded = {}
        booster = xgb.train(
            cls.parameters,
            cls.data(train),
            rounds,
            obj=objective,
            evals=[(cls.data(valid), "valid")],
            custom_metric=metric,
            early_stopping_rounds=stop,
            evals_result=recorded,
            verbose_eval=False,
            **options,
        )
        return booster, booster.best_iteration if stop else None, recorded["valid"]

    @staticmethod
    def predict(booster, X, rounds=None):
        return booster.predict(xgb.DMatrix(X), iteration_range=(0, rounds or 0))

    @staticmethod
    def trees(booster):
        return booster.get_dump(with_stats=True)


HOSTS = pytest.mark.parametrize("host", [LightGBM, XGBoost], ids=lambda host: host.name)


def assert_same_arrays(found, expected):
    for one, two in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, two)


@pytest.fixture
def small_tasks(monkeypatch):
    """Data of this size is one task for one thread; make it many."""
    monkeypatch.setattr(queries, "CHUNK_WORK", (1 << 11, 1 << 12))


@pytest.fixture
def thread_counts(monkeypatch):
    """The numbers of threads that gradients were computed with."""
    counts = []

    def counted(leaves, rows, rooms, threads, team=None):
        counts.append(threads)
        return run_round(leaves, rows, rooms, threads, team)

    monkeypatch.setattr("lambdaplug.queries.run_round", counted)
    yield counts
    lp.set_num_threads(None)


# --- every way into training -------------------------------------------------------------------------------------


@HOSTS
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "query weights"])
def test_training_uses_the_gradients_of_the_pure_function(host, weighted, data):
    each = np.random.default_rng(3).uniform(0.5, 2, len(data.group)).astype(np.float32) if weighted else None
    weight = np.repeat(each, data.group) if weighted and host is LightGBM else each
    objective = lp.LambdaRank("ndcg@10")

    def by_hand(scores, _):
        return objective.gradients(data.y, scores, data.group, each)

    trees = [host.trees(host.train(function, host.data(data, weight))) for function in (objective, by_hand)]
    assert trees[0] == trees[1]
    assert weighted == (trees[0] != host.trees(host.train(objective, host.data(data))))


# --- cross-validation --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["LightGBM, query_folds", "LightGBM, GroupKFold", "XGBoost, query_folds"])
def test_cross_validation_is_training_on_each_fold(kind, data):
    objective, metric, values = lp.LambdaRank("map"), lp.metric("map"), []
    splitter = lp.query_folds(data.group, 3, seed=1) if "query" in kind else GroupKFold(3)
    folds = splitter if "query" in kind else list(splitter.split(data.X, data.y, data.qid))
    whole = LightGBM.data(data) if "LightGBM" in kind else xgb.DMatrix(data.X, data.y)
    if "LightGBM" in kind:
        parameters = {**LightGBM.parameters, "objective": objective}
        found = lgb.cv(parameters, whole, ROUNDS, folds=splitter, feval=metric)["valid map-mean"]
    else:
        options = {"obj": objective, "custom_metric": metric, "as_pandas": False}
        found = xgb.cv(XGBoost.parameters, whole, ROUNDS, folds=folds, fpreproc=folds.fpreproc, **options)
        found = found["test-map-mean"]
    for train, test in folds:
        host, test = (LightGBM if "LightGBM" in kind else XGBoost), data.part(test)
        booster = host.train(objective, whole.subset(train) if host is LightGBM else host.data(data.part(train)))
        values.append(lp.evaluate("map", test.y, host.predict(booster, test.X), test.group)["map"])
    assert len(values) == 3
    assert found[-1] == pytest.approx(np.mean(values), abs=1e-12 if "LightGBM" in kind else 1e-6)


def test_xgboost_fpreproc_refuses_other_folds(data):
    folds, others = lp.query_folds(data.group, 3), lp.query_folds(data.group, 4)
    options = {"folds": others, "fpreproc": folds.fpreproc, "obj": lp.LambdaRank("map")}
    with pytest.raises(lp.LambdaplugError, match="not the folds' data sets"):
        xgb.cv(XGBoost.parameters, xgb.DMatrix(data.X, data.y), 1, **options)


def test_query_folds_keep_queries_whole(data):
    folds = lp.query_folds(data.group, 4, seed=2)
    assert sorted(np.concatenate([test for _, test in folds])) == list(range(data.rows))
    for train, test in folds:
        assert not set(data.qid[train]) & set(data.qid[test])
        assert len(train) + len(test) == data.rows
    assert_same_arrays(folds[0], lp.query_folds(data.group, 4, seed=2)[0])
    assert not np.array_equal(folds[0][1], lp.query_folds(data.group, 4, seed=3)[0][1])


# --- what a host's data set becomes ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", OBJECTIVES)
@pytest.mark.parametrize(
    ("host", "weight"),
    [
        (LightGBM, None),
        (LightGBM, "query"),  # given as equal weights of a query's documents
        (LightGBM, "document"),
        (XGBoost, None),
        (XGBoost, "query"),  # which has no others
    ],
)
def test_data_sets_give_the_gradients_of_their_arrays(host, name, weight, data):
    objective, scores = OBJECTIVES[name], data.scores()
    rng = np.random.default_rng(5)
    size = {None: 0, "query": len(data.group), "document": data.rows}[weight]
    given = rng.uniform(0.5, 2, size).astype(np.float32) if weight else None
    stored = np.repeat(given, data.group) if weight == "query" and host is LightGBM else given
    if weight == "document" and not isinstance(objective, lp.LambdaRank):
        with pytest.raises(lp.LambdaplugError, match="weights must be one per query"):
            objective(scores, host.built(data, stored))
        return
    found = objective(scores, host.built(data, stored))
    assert [array.dtype for array in found] == [np.float32] * 2
    assert_same_arrays(found, objective.gradients(data.y, scores, data.group, given))


def test_all_folds_read_lightgbms_weights_alike(data):
    # One row whose weight differs from its query's makes all weights weights of documents, in folds without it too.
    weights = np.repeat(np.random.default_rng(7).uniform(1, 5, len(data.group)), data.group).astype(np.float32)
    odd = int(np.flatnonzero(data.qid == 1)[2])
    weights[odd] *= 2
    objective, whole = lp.LambdaRank("map"), LightGBM.data(data, weights)
    again = np.arange(data.rows)
    for (rows, _), of in itertools.product(lp.query_folds(data.group, 2), (whole, whole.subset(again).construct())):
        made, part = of.subset(rows).construct(), data.part(rows)
        expected = objective.gradients(part.y, np.zeros(part.rows), part.group, weights[rows])
        assert_same_arrays(objective(np.zeros(part.rows), made), expected)


@pytest.mark.parametrize("what", ["label", "group", "weight"])
@HOSTS
def test_a_changed_data_set_is_noticed(host, what, data):
    objective, made = lp.LambdaRank("ndcg"), host.built(data)
    before = objective(data.scores(0), made)
    labels, group, weight = data.y, data.group, None
    if what == "label":
        made.set_label(labels := 4 - data.y)
    elif what == "group":
        made.set_group(group := data.group[::-1])
    else:
        weight = np.arange(1.0, len(data.group) + 1)
        made.set_weight(np.repeat(weight, data.group) if host is LightGBM else weight)
    assert_same_arrays(objective(data.scores(1), made), objective.gradients(labels, data.scores(1), group, weight))
    assert not np.array_equal(before[0], objective.gradients(labels, data.scores(0), group, weight)[0])


@HOSTS
def test_caches_keep_no_data_set_alive(host, data):
    objective, metric = lp.LambdaRank("map"), lp.metric("map")
    made = host.built(data)
    booster = host.train(objective, made, 2)
    metric(data.scores(), made)
    watched = weakref.ref(made)
    del made, booster
    gc.collect()
    assert watched() is None


@HOSTS
def test_inputs_are_not_written_to(host, data):
    objective, metric = lp.LambdaRank("map", step="gradient"), lp.metric("map")
    arrays = {"scores": data.scores(), "labels": data.y.copy(), "group": data.group.copy()}
    arrays |= {"weight": np.linspace(0.5, 2, data.rows)}
    before = copy.deepcopy(arrays)
    result = objective.gradients(**arrays)
    lp.evaluate("map", arrays["labels"], arrays["scores"], arrays["group"])
    made = host.built(data)
    result += objective(arrays["scores"], made)
    metric(arrays["scores"], made)
    for name, array in arrays.items():
        assert array.flags.writeable, name
        np.testing.assert_array_equal(array, before[name])
        assert not any(np.shares_memory(array, found) for found in result)


# --- estimators --------------------------------------------------------------------------------------------------


class Ranker:
    """An estimator of lambdaplug's, its parent, and what its fit wants."""

    @classmethod
    def make(cls, objective, **changes):
        return cls.ours(objective=objective, **{**cls.settings, **changes})


class LightGBMRanker(Ranker):
    host, ours, parent = LightGBM, lp.LGBMRanker, lgb.LGBMRanker
    settings = LIGHTGBM_RANKER

    @staticmethod
    def fit(estimator, data, valid=None, metric=None, stop=None):
        options = {} if metric is None else {"eval_metric": metric}
        if valid is not None:
            options |= {"eval_set": [(valid.X, valid.y)], "eval_group": [valid.group]}
        if stop is not None:
            options["callbacks"] = [lgb.early_stopping(stop, verbose=False)]
        return estimator.fit(data.X, data.y, group=data.group, **options)

    @staticmethod
    def booster(estimator):
        return estimator.booster_

    @staticmethod
    def stopped(estimator):
        return estimator.best_iteration_ - 1, estimator.evals_result_["valid_0"]


class XGBoostRanker(Ranker):
    host, ours, parent = XGBoost, lp.XGBRanker, xgb.XGBRanker
    settings = XGBOOST_RANKER

    @staticmethod
    def fit(estimator, data, valid=None, metric=None, stop=None):
        options = {} if valid is None else {"eval_set": [(valid.X, valid.y)], "eval_qid": [valid.qid]}
        if metric is not None:
            estimator.set_params(eval_metric=metric)
        if stop is not None:
            estimator.set_params(early_stopping_rounds=stop)
        return estimator.fit(data.X, data.y, qid=data.qid, verbose=False, **options)

    @staticmethod
    def booster(estimator):
        return estimator.get_booster()

    @staticmethod
    def stopped(estimator):
        return estimator.best_iteration, estimator.evals_result()["validation_0"]


def fit(ranker, kind, data, **changes):
    return ranker.fit(kind(objective=lp.LambdaRank("map"), **{**ranker.settings, **changes}), data)


RANKERS = pytest.mark.parametrize("ranker", [LightGBMRanker, XGBoostRanker], ids=lambda ranker: ranker.host.name)


@RANKERS
def test_a_measure_means_the_objective_recommended_for_it(ranker, data, other):
    expected = ranker.fit(ranker.make(lp.objective("mrr@5")), data)
    for word in ("mrr@5", "MRR@5", lp.MRR(k=5)):
        estimator = ranker.fit(sklearn.base.clone(ranker.make(word)), data, valid=other)
        assert estimator.get_params()["objective"] == word
        assert ranker.host.trees(ranker.booster(estimator)) == ranker.host.trees(ranker.booster(expected))
        np.testing.assert_array_equal(estimator.predict(data.X), expected.predict(data.X))
        if ranker is XGBoostRanker:  # LightGBM's settings here name a metric, "None"
            assert list(estimator.evals_result()["validation_0"]) == ["mrr@5"]
        loaded = pickle.loads(pickle.dumps(estimator))
        np.testing.assert_array_equal(loaded.predict(data.X), expected.predict(data.X))


@RANKERS
def test_estimators_grow_the_trees_of_the_functional_api(ranker, data):
    objective = lp.LambdaRank("ndcg@10")
    estimator = ranker.fit(ranker.make(objective), data)
    booster = ranker.host.train(objective, ranker.host.data(data))
    assert ranker.host.trees(ranker.booster(estimator)) == ranker.host.trees(booster)
    np.testing.assert_array_equal(estimator.predict(data.X), ranker.host.predict(booster, data.X))


@pytest.mark.parametrize("kind", ["beyond 32 bits", "text"])
def test_xgboosts_query_ids_may_be_anything(kind, data, other):
    # XGBoost keeps 32 bits of an id: different queries would become one.
    expected = XGBoostRanker.fit(XGBoostRanker.make("map"), data, valid=other)
    ids, valid = ([f"q{i}" for i in one.qid] if kind == "text" else one.qid << 32 for one in (data, other))
    estimator = XGBoostRanker.make("map")
    sets = {"eval_set": [(other.X, other.y), (data.X, data.y)], "eval_qid": [valid, ids], "verbose": False}
    estimator.fit(data.X, data.y, qid=ids, **sets)
    frames = [one.frame.assign(qid=known) for one, known in ((data, ids), (other, valid))]
    again = XGBoostRanker.make("map")
    again.fit(frames[0], data.y, eval_set=[(frames[1], other.y)], verbose=False)
    for one in (estimator, again):
        assert one.evals_result()["validation_0"] == expected.evals_result()["validation_0"]
    np.testing.assert_array_equal(again.predict(frames[1]), expected.predict(other.X))
    best = expected.evals_result()["validation_0"]["map"][-1]
    assert again.score(frames[1], other.y) == pytest.approx(best, abs=1e-6)


def test_xgboosts_query_ids_that_are_refused(data):
    estimator = XGBoostRanker.make(lp.LambdaRank("map"))
    for lacking in (spoiled(data.qid, np.nan), np.ma.masked_equal(data.qid, 3)):
        with pytest.raises(lp.LambdaplugError, match="qid: some rows have no query id"):
            estimator.fit(data.X, data.y, qid=lacking)
    with pytest.raises(lp.LambdaplugError, match="qid: some rows have no query id"):
        estimator.fit(data.X, data.y, qid=data.qid, eval_set=[(data.X, data.y)], eval_qid=[spoiled(data.qid, np.nan)])


@RANKERS
def test_estimators_still_take_their_parents_objectives(ranker, data):
    name = {"LightGBM": "lambdarank", "XGBoost": "rank:pairwise"}[ranker.host.name]
    models = [ranker.fit(kind(objective=name, **ranker.settings), data) for kind in (ranker.ours, ranker.parent)]
    np.testing.assert_array_equal(models[0].predict(data.X), models[1].predict(data.X))


@pytest.mark.parametrize("weight", [None, "query", "document"])
def test_lightgbms_own_ranker_takes_an_objective_too(weight, data):
    rng = np.random.default_rng(11)
    weights = {
        None: None,
        "query": np.repeat(rng.uniform(0.5, 2, len(data.group)), data.group),
        "document": rng.uniform(0.5, 2, data.rows),
    }
    trees = []
    for kind in (lp.LGBMRanker, lgb.LGBMRanker):
        estimator = kind(objective=lp.LambdaRank("map"), **LIGHTGBM_RANKER)
        estimator.fit(data.X, data.y, group=data.group, sample_weight=weights[weight])
        trees.append(LightGBM.trees(estimator.booster_))
    assert trees[0] == trees[1]


@RANKERS
@pytest.mark.parametrize("fails", [False, True], ids=["fitted", "failed"])
def test_fit_leaves_the_parameters_as_they_were_given(ranker, fails, data, other):
    given = {"objective": lp.LambdaRank("ndcg")}
    if ranker is XGBoostRanker:
        scheduler = xgb.callback.LearningRateScheduler([0.2] * ROUNDS)
        given |= {"eval_metric": lp.metric("map"), "callbacks": [scheduler]}
    estimator = ranker.make(**given)
    before = repr(estimator.get_params())
    if fails:
        with pytest.raises(lp.LambdaplugError, match="exp2"):  # whose labels end at 30
            ranker.fit(estimator, changed(data, y=data.y + 30), valid=other)
    else:
        ranker.fit(estimator, data, valid=other)
    assert all(getattr(estimator, name) is value for name, value in given.items())
    assert repr(estimator.get_params()) == before
    expected = ranker.fit(ranker.make(**given), data).predict(data.X)
    np.testing.assert_array_equal(ranker.fit(estimator, data).predict(data.X), expected)


@RANKERS
def test_estimators_are_copied_and_take_parameters(ranker, data):
    estimator = ranker.fit(ranker.make(lp.LambdaRank("map")), data)
    assert isinstance(estimator, ranker.parent)
    assert set(ranker.ours().get_params()) == set(ranker.parent().get_params())
    for how in (copy.deepcopy, lambda fitted: pickle.loads(cloudpickle.dumps(fitted))):
        twin = how(estimator)
        np.testing.assert_array_equal(twin.predict(data.X), estimator.predict(data.X))
        np.testing.assert_array_equal(ranker.fit(twin, data).predict(data.X), estimator.predict(data.X))
    fresh = sklearn.base.clone(estimator)
    assert repr(fresh.get_params()) == repr(estimator.get_params())
    with pytest.raises(sklearn.exceptions.NotFittedError):
        fresh.predict(data.X)
    np.testing.assert_array_equal(ranker.fit(fresh, data).predict(data.X), estimator.predict(data.X))
    changed = ranker.fit(fresh.set_params(objective=lp.LambdaRank("mrr"), n_estimators=3), data)
    expected = ranker.host.train(lp.LambdaRank("mrr"), ranker.host.data(data), 3)
    np.testing.assert_array_equal(changed.predict(data.X), ranker.host.predict(expected, data.X))


def test_a_fitted_xgboost_booster_is_an_ordinary_one(data, other):
    saving = xgb.callback.EarlyStopping(rounds=3, save_best=True)
    for callbacks in (None, [saving]):
        estimator = XGBoostRanker.make(lp.LambdaRank("map"), n_estimators=30, callbacks=callbacks)
        booster = XGBoostRanker.fit(estimator, data, valid=other, metric=lp.metric("map")).get_booster()
        assert type(booster) is xgb.Booster
        assert b"lambdaplug" not in pickle.dumps(booster)
    assert booster.num_boosted_rounds() == saving.stopping_history["validation_0"]["map"].index(booster.best_score) + 1


# --- metrics and early stopping ----------------------------------------------------------------------------------


@HOSTS
@pytest.mark.parametrize("empty", ["skip", 0, 1])
def test_metrics_report_what_evaluate_says(host, empty, data, other):
    names = ["ndcg@10", "map", "mrr", "err@10", "p@5", "rbp(p=0.8)"]
    metric = lp.metric(*names, empty=empty)
    booster, _, curves = host.curves(lp.LambdaRank("map"), metric, data, other, ROUNDS)
    for rounds in (1, ROUNDS):
        expected = lp.evaluate(names, other.y, host.predict(booster, other.X, rounds), other.group, empty=empty)
        found = {name: curve[rounds - 1] for name, curve in curves.items()}
        assert list(found) == list(expected)
        assert found == pytest.approx(expected, abs=1e-6)


STOP, MOST = 5, 60


def assert_stopped_at_the_top(best, curve):
    assert best == int(np.argmax(curve))
    # One that minimised would have ended after the first rounds, while the curve was rising.
    assert best > 0
    assert len(curve) == min(best + STOP + 1, MOST)
    assert len(curve) > STOP + 1


MEASURES = pytest.mark.parametrize("name", ["mrr", "ndcg@10"])


@HOSTS
@MEASURES
def test_early_stopping_maximises(host, name, data, other):
    metric = lp.metric(name, name=f"pre-{name}")  # XGBoost would minimise such a name
    _, best, curves = host.curves(lp.LambdaRank("ndcg@10"), metric, data, other, MOST, STOP)
    assert_stopped_at_the_top(best, curves[f"pre-{name}"])


@RANKERS
@MEASURES
def test_estimators_stop_early_at_the_top(ranker, name, data, other):
    estimator = ranker.make(lp.LambdaRank("ndcg@10"), n_estimators=MOST)
    ranker.fit(estimator, data, valid=other, metric=lp.metric(name), stop=STOP)
    best, curves = ranker.stopped(estimator)
    assert list(curves) == [name]
    assert_stopped_at_the_top(best, curves[name])
    expected = lp.evaluate(name, other.y, estimator.predict(other.X), other.group)[name]  # both predict with the best
    assert max(curves[name]) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("host", ["LightGBM", "XGBoost"])
def test_early_stopping_maximises_in_cross_validation(host, data):
    objective, metric, folds = lp.LambdaRank("ndcg@10"), lp.metric("mrr"), lp.query_folds(data.group, 3)
    if host == "LightGBM":
        parameters = {**LightGBM.parameters, "objective": objective, "early_stopping_round": STOP}
        found = lgb.cv(parameters, LightGBM.data(data), MOST, folds=folds, feval=metric)
        curve = found["valid mrr-mean"]
    else:
        made = XGBoost.data(data)
        options = {"obj": objective, "custom_metric": metric, "early_stopping_rounds": STOP, "as_pandas": False}
        curve = xgb.cv(XGBoost.parameters, made, MOST, nfold=3, **options)["test-mrr-mean"]
    # Both give the curve up to the best round.
    assert len(curve) - 1 == int(np.argmax(curve)) > 0


def test_an_explicit_minimum_is_respected_by_xgboost(data, other):
    stop = [xgb.callback.EarlyStopping(rounds=STOP, maximize=False)]
    booster, _, curves = XGBoost.curves(lp.LambdaRank("ndcg@10"), lp.metric("mrr"), data, other, MOST, callbacks=stop)
    assert booster.best_iteration == int(np.argmin(curves["mrr"]))


@pytest.mark.parametrize("name", ["loss", None])
def test_xgboosts_other_metrics_keep_their_direction(name, data, other):
    # Early stopping watches a metric of the user's, for which lower is better: ours beside it must not turn it round.
    def loss(scores, made):
        ours = lp.metric("mrr")(scores, made)
        return [*ours, ("loss", -dict(ours)["mrr"])]

    watching = xgb.callback.EarlyStopping(rounds=STOP, metric_name=name)
    _, _, curves = XGBoost.curves(lp.LambdaRank("ndcg@10"), loss, data, other, MOST, callbacks=[watching])
    assert watching.maximize is False
    assert len(curves["loss"]) == int(np.argmin(curves["loss"])) + STOP + 1


def test_a_metric_has_a_name_of_the_users_or_a_list_of_measures():
    assert lp.metric("mrr", name="pre-mrr").names == ["pre-mrr"]
    assert repr(lp.metric("mrr", name="pre-mrr")) == "metric('mrr', name='pre-mrr')"
    assert lp.metric(["map", "mrr"]).names == ["map", "mrr"] == lp.metric("map", "mrr").names
    assert (lp.metric("map", name="a") + lp.metric("map", name="b")).names == ["a", "b"]
    with pytest.raises(lp.LambdaplugError, match="is for one measure, got 2"):
        lp.metric("map", "mrr", name="both")


# --- copies, pickles, threads ------------------------------------------------------------------------------------


def test_metrics_and_folds_are_equal_by_what_they_say():
    made = lp.metric("ndcg@3", "map", empty=0) + lp.metric("mrr", name="first")
    assert pickle.loads(pickle.dumps(made)) == made == copy.deepcopy(made)
    assert len({made, pickle.loads(pickle.dumps(made)), lp.metric("map")}) == 2
    assert lp.metric("map") + lp.metric("map") == lp.metric("map")
    both = lp.metric("ndcg@3") + lp.metric("ndcg@3", labels="clicks")
    assert both.names == ["ndcg@3", "ndcg@3(labels='clicks')"]
    assert both.without(["ndcg@3"]).names == ["ndcg@3"]  # of the clicks, which are left
    assert lp.query_folds([2, 3, 4], n=3) == lp.query_folds([2, 3, 4], n=3) != lp.query_folds([2, 3, 4], n=3, seed=1)


@HOSTS
@pytest.mark.usefixtures("small_tasks")
def test_threads_can_share_an_objective_and_a_data_set(host, data):
    objective, metric, made = lp.LambdaRank("map"), lp.metric("map", "mrr"), host.built(data)
    scores = [data.scores(seed) for seed in range(40)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda each: (objective(each, made), metric(each, made)), scores))
    for each, (gradients, values) in zip(scores, found, strict=True):
        assert_same_arrays(gradients, objective.gradients(data.y, each, data.group))
        expected = lp.evaluate(["map", "mrr"], data.y, each, data.group)
        assert {value[0]: value[1] for value in values} == expected


# --- numbers of threads ------------------------------------------------------------------------------------------


@HOSTS
@pytest.mark.usefixtures("small_tasks")
def test_the_number_of_threads_changes_no_tree(host, data, thread_counts):
    trees = []
    for threads in (1, 2, 3):
        lp.set_num_threads(threads)
        trees.append(host.trees(host.train(lp.LambdaRank("ndcg@10"), host.data(data), 15)))
    assert set(thread_counts) == {1, 2, 3}
    assert trees[0] == trees[1] == trees[2]


WAYS = {
    "lgb.train": lambda data, **how: LightGBM.train(lp.LambdaRank("map"), LightGBM.data(data), **how),
    # LightGBM does not tell a Dataset that is already built about the parameters of a training.
    "lgb.train, built": lambda data, **how: LightGBM.train(lp.LambdaRank("map"), LightGBM.built(data), **how),
    "lp.LGBMRanker": lambda data, **how: fit(LightGBMRanker, lp.LGBMRanker, data, **how),
    "lgb.LGBMRanker": lambda data, **how: fit(LightGBMRanker, lgb.LGBMRanker, data, **how),
    "xgb.train": lambda data, **how: XGBoost.train(lp.LambdaRank("map"), XGBoost.data(data), **how),
    "lp.XGBRanker": lambda data, **how: fit(XGBoostRanker, lp.XGBRanker, data, **how),
}


@pytest.mark.parametrize("way", WAYS)
def test_gradients_use_the_hosts_number_of_threads(way, data, thread_counts):
    name = "nthread" if way == "xgb.train" else "num_threads" if "train" in way else "n_jobs"
    for threads in (1, 3):
        thread_counts.clear()
        WAYS[way](data, **{name: threads})
        assert set(thread_counts) == {threads}
    lp.set_num_threads(2)
    thread_counts.clear()
    WAYS[way](data, **{name: 1})
    assert set(thread_counts) == {2}


@HOSTS
def test_the_hosts_own_threads_do_the_work(host, data, monkeypatch):
    made, teams, workers = host.built(data), [], set()
    team = training.read(made).team
    if team is None:
        pytest.skip("this host was not built with GNU's OpenMP")

    def watched(*arguments):
        teams.append(arguments[-1])
        return run_round(*arguments)

    monkeypatch.setattr("lambdaplug.queries.run_round", watched)
    lp.LambdaRank("map")(data.scores(), made)
    assert teams
    assert all(one is team for one in teams)

    def work():
        workers.add(threading.get_ident() in {thread.ident for thread in threading.enumerate()})

    run_threads(work, 3, team)
    assert workers == {True, False}  # besides Python's own, threads that it did not start

    def fail():
        raise ZeroDivisionError("in a thread")

    with pytest.raises(ZeroDivisionError, match="in a thread"):
        run_threads(fail, 2, team)


@pytest.mark.usefixtures("small_tasks")
@pytest.mark.parametrize("asked", [0, 1], ids=["none comes", "one does"])
def test_no_task_is_left_out_where_threads_are(asked, data):
    def team(function, *_):
        for _ in range(asked):
            function()

    objective, scores = lp.LambdaRank("map"), data.scores()
    rows = queries.Queries(data.y, data.group)
    found = objective.differentiate(rows, scores, threads=3, team=team)
    assert_same_arrays(found, objective.gradients(data.y, scores, data.group))


@pytest.mark.usefixtures("small_tasks")
def test_nobody_elses_threads_are_changed(data, thread_counts):
    def state():
        pools = {pool["filepath"]: pool["num_threads"] for pool in threadpoolctl.threadpool_info()}
        limits = {name: value for name, value in os.environ.items() if name.endswith("_NUM_THREADS")}
        return numba.get_num_threads(), numba.config.NUMBA_NUM_THREADS, pools, limits, threading.active_count()

    objective, made = lp.LambdaRank("map"), [host.built(data) for host in (LightGBM, XGBoost)]
    numba.get_num_threads()  # the first time, this very question starts Numba's threads and sets OpenMP's number
    before = state()
    for seed, threads in enumerate((1, 2, 7, None)):
        lp.set_num_threads(threads)
        objective.gradients(data.y, data.scores(), data.group)
        lp.evaluate("map", data.y, data.scores(), data.group)
        for each in made:
            objective(data.scores(seed), each)
        assert state() == before
    assert {1, 2, 7} <= set(thread_counts)


# --- refused -----------------------------------------------------------------------------------------------------


def spoiled(array, value):
    return np.concatenate([array[:5], [value], array[6:]])


def masked(array):
    return np.ma.masked_array(array, np.arange(len(array)) == 5)


BAGGING = {"bagging_by_query": True, "bagging_fraction": 0.5, "bagging_freq": 1}


def gradients(data, measure="ndcg", **changes):
    arrays = {"scores": data.scores(), "labels": data.y, "group": data.group, **changes}
    return lp.LambdaRank(measure).gradients(**arrays)


def trained(host, data, objective=None, **changes):
    host.train(objective or lp.LambdaRank("ndcg"), host.data(data), 2, **changes)


def called(host, data, value):
    # Directly: LightGBM quietly makes zeros of NaN, in initial scores as in labels.
    lp.LambdaRank("map")(spoiled(data.scores(), value), host.built(data))


def without_queries(host, data):
    kind = {LightGBM: lgb.Dataset, XGBoost: xgb.DMatrix}[host]
    host.train(lp.LambdaRank("map"), kind(data.X, data.y), 2)


def metric_without_queries(host, data):
    made = lgb.Dataset(data.X, data.y).construct() if host is LightGBM else xgb.DMatrix(data.X, data.y)
    lp.metric("map")(data.scores(), made)


def cv_by_rows(data):
    lgb.cv({**LightGBM.parameters, "objective": lp.LambdaRank("map")}, LightGBM.data(data), 2, nfold=3)


def subset_by_rows(data):
    made = LightGBM.data(data).subset(np.arange(1, data.rows, 2)).construct()
    lp.LambdaRank("map")(np.zeros(len(range(1, data.rows, 2))), made)


REFUSED = {
    "masked score": (lambda d: gradients(d, scores=masked(d.scores())), "got nan in row 5"),
    "masked label": (lambda d: gradients(d, labels=masked(d.y)), "labels: row 5 is NaN"),
    "masked size": (lambda d: gradients(d, group=masked(d.group)), "group: expected the number of documents"),
    "masked weight": (lambda d: gradients(d, weight=masked(np.ones(d.rows))), "weight: expected finite numbers"),
    "masked, evaluated": (lambda d: lp.evaluate("map", d.y, masked(d.scores()), d.group), "got nan in row 5"),
    "label -1": (lambda d: gradients(d, labels=spoiled(d.y, -1)), "exp2.* label of -1.*linear"),
    "weights of neither": (lambda d: gradients(d, weight=np.ones(7)), "weight: expected one value per query"),
    "arrays": (lambda d: lp.LambdaRank("map")(d.scores(), d.y), "expected a data set.*got ndarray"),
    "rows cut by lgb.cv": (cv_by_rows, "queries are cut in two.*query_folds"),
    "rows cut by a subset": (subset_by_rows, "queries are cut in two.*query_folds"),
    "bagging_by_query": (lambda d: trained(LightGBM, d, **BAGGING), "bagging_by_query"),
    # LightGBM does not tell a Dataset that is already built about the parameters of a training.
    "bagging_by_query, built": (
        lambda d: LightGBM.train(lp.LambdaRank("map"), LightGBM.built(d), **BAGGING),
        "bagging_by_query",
    ),
    "bagging_by_query, lp.LGBMRanker": (lambda d: fit(LightGBMRanker, lp.LGBMRanker, d, **BAGGING), "bagging_by_query"),
}
for _host in (LightGBM, XGBoost):
    REFUSED |= {
        f"{_host.name}, no queries": (partial(without_queries, _host), "no queries"),
        f"{_host.name}, metric without queries": (partial(metric_without_queries, _host), "no queries"),
        f"{_host.name}, NaN score": (partial(called, _host, value=np.nan), "scores: .*got nan in row 5"),
        f"{_host.name}, infinite score": (partial(called, _host, value=-np.inf), "scores: .*got -inf in row 5"),
        f"{_host.name}, labels= too short": (
            lambda d, host=_host: trained(host, d, lp.LambdaRank("map", labels=d.y[1:])),
            "labels: expected the name of a column",
        ),
    }


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case, data):
    act, message = REFUSED[case]
    with pytest.raises(lp.LambdaplugError, match=message):
        act(data)


def test_a_masked_label_is_none(data):
    # Where NaN stands for no label, so does a masked value; without any, a mask says nothing.
    scores, clicks = data.scores(), (data.y > 2).astype(float)
    found = [
        lp.LambdaRank("map", labels="own").gradients(data.y, scores, data.group, columns={"own": labels})
        for labels in (masked(clicks), spoiled(clicks, np.nan))
    ]
    assert_same_arrays(*found)
    assert_same_arrays(gradients(data, labels=np.ma.masked_array(data.y, False)), gradients(data))


# --- rounds that learn nothing -----------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
def test_a_training_without_splits_is_warned_of_once(way, data):
    settings = NO_SPLIT["XGBoost" if "xgb" in way.lower() else "LightGBM"]
    with pytest.warns(lp.LambdaplugWarning, match=next(iter(settings))) as caught:
        WAYS[way](data, **settings)
    assert sum(issubclass(warning.category, lp.LambdaplugWarning) for warning in caught) == 1


FLOORS = {
    "LightGBM": {"num_leaves": 31, "min_sum_hessian_in_leaf": 15},
    "XGBoost": {"max_depth": 6, "min_child_weight": 15},
}
AFTER = 11  # trees that can be small are warned of after ten rounds


@HOSTS
def test_hessians_that_suffice_for_few_leaves_are_warned_of_once(host, data):
    with pytest.warns(lp.LambdaplugWarning, match=rf"at most \d leaves.*Set {host.floor}.*step='gradient'") as caught:
        host.train(lp.LambdaRank("mrr"), host.data(data), AFTER, **FLOORS[host.name])
    assert sum(issubclass(warning.category, lp.LambdaplugWarning) for warning in caught) == 1
    host.train(lp.LambdaRank("mrr", step="gradient"), host.data(data), AFTER, **FLOORS[host.name])


# The settings of pytest turn an unwarranted warning into an error.
@HOSTS
@pytest.mark.parametrize("name", ["mrr", "ndcg@10", "map"])
def test_the_hosts_usual_settings_are_not_warned_of(host, name, data):
    if host is LightGBM:
        lgb.train({"verbosity": -1, "num_threads": 1, "objective": lp.LambdaRank(name)}, host.data(data), AFTER)
    else:
        xgb.train({"disable_default_eval_metric": 1, "nthread": 1}, host.data(data), AFTER, obj=lp.LambdaRank(name))


# --- continued, saved, imported ----------------------------------------------------------------------------------


def run(code, *arguments):
    """Run Python code in a process of its own; what it prints."""
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", ["lightgbm", "xgboost"])
def test_one_host_does_not_need_the_other(name):
    code = """
import sys
needed = sys.argv[1]
absent = {"lightgbm": "xgboost", "xgboost": "lightgbm"}[needed]
sys.modules[absent] = None  # importing it raises ImportError
import numpy as np
import lambdaplug as lp
X, y, group = np.arange(200.0)[:, None], np.arange(200) // 2 % 4, [10] * 20
estimator = getattr(lp, {"lightgbm": "LGBMRanker", "xgboost": "XGBRanker"}[needed])
estimator(objective=lp.LambdaRank("map"), n_estimators=2).fit(X, y, group=group)
print("fitted")
"""
    assert run(code, name).strip().endswith("fitted")
