"""LightGBM and XGBoost: every way in, the same gradients and trees on each, and a clear word where one would fail."""

import copy
import gc
import inspect
import itertools
import os
import pickle
import re
import signal
import subprocess
import sys
import threading
import time
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
from sklearn.model_selection import GridSearchCV, GroupKFold

import lambdaplug as lp
from lambdaplug import queries, training
from lambdaplug.objectives import base

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

    def run_tasks(work, tasks, threads, team=None):
        counts.append(threads)
        return run(work, tasks, threads, team)

    run = base.run_tasks
    monkeypatch.setattr(base, "run_tasks", run_tasks)
    yield counts
    lp.set_num_threads(None)


# --- every way into training -------------------------------------------------------------------------------------


@HOSTS
@pytest.mark.parametrize("name", ["ndcg@10", "map", "mrr", "hit@1", "spearman"])
def test_training_ranks_unseen_queries_better(host, name, data, other):
    booster = host.train(lp.LambdaRank(name), host.data(data), 20)
    untrained = lp.evaluate(name, other.y, np.zeros(other.rows), other.group)[name]
    trained = lp.evaluate(name, other.y, host.predict(booster, other.X), other.group)[name]
    assert trained > untrained + 0.5 * (1 - untrained)


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


def test_lightgbm_booster_update(data):
    objective = lp.LambdaRank("map")
    booster = lgb.Booster({**LightGBM.parameters, "objective": "none"}, LightGBM.data(data))
    for _ in range(ROUNDS):
        booster.update(fobj=objective)
    assert LightGBM.trees(booster) == LightGBM.trees(LightGBM.train(objective, LightGBM.data(data)))


def test_xgboost_booster_update(data):
    objective, train = lp.LambdaRank("map"), XGBoost.data(data)
    booster = xgb.Booster(XGBoost.parameters, [train])
    for iteration in range(ROUNDS):
        booster.update(train, iteration, fobj=objective)
    assert XGBoost.trees(booster) == XGBoost.trees(XGBoost.train(objective, XGBoost.data(data)))


def write_libsvm(data, path):
    with path.open("w") as file:
        for label, row in zip(data.y, data.X, strict=True):
            file.write(f"{label:g} " + " ".join(f"{column}:{value}" for column, value in enumerate(row)) + "\n")
    np.savetxt(path.with_name(path.name + ".query"), data.group, fmt="%d")
    return lgb.Dataset(str(path))


DATASETS = {
    "pandas": lambda data, _: lgb.Dataset(
        data.frame.drop(columns="qid"), pd.Series(data.y), group=pd.Series(data.group)
    ),
    "lists": lambda data, _: lgb.Dataset(data.X, data.y.tolist(), group=data.group.tolist()),
    "file": lambda data, folder: write_libsvm(data, folder / "train.txt"),
}


@pytest.mark.parametrize("source", DATASETS)
def test_lightgbm_dataset_from_anything_gives_the_same_model(source, data, tmp_path):
    objective = lp.LambdaRank("ndcg@10")
    expected = LightGBM.train(objective, LightGBM.data(data)).predict(data.X)
    found = LightGBM.train(objective, DATASETS[source](data, tmp_path)).predict(data.X)
    np.testing.assert_array_equal(found, expected)


DMATRICES = {
    "QuantileDMatrix": partial(XGBoost.data, kind=xgb.QuantileDMatrix),
    "pandas": lambda data: xgb.DMatrix(data.frame.drop(columns="qid"), pd.Series(data.y), qid=pd.Series(data.qid)),
    "set_group": lambda data: xgb.DMatrix(data.X, data.y, group=data.group),
}


@pytest.mark.parametrize("source", DMATRICES)
def test_xgboost_data_of_every_kind_gives_the_same_model(source, data):
    objective = lp.LambdaRank("ndcg@10")
    models = [XGBoost.train(objective, make(data)) for make in (XGBoost.data, DMATRICES[source])]
    columns = data.frame.drop(columns="qid") if source == "pandas" else data.X
    np.testing.assert_array_equal(XGBoost.predict(models[1], columns), XGBoost.predict(models[0], data.X))


# --- cross-validation --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["query_folds", "GroupKFold"])
def test_lightgbm_cv(kind, data):
    objective = lp.LambdaRank("map")
    folds = lp.query_folds(data.group, 3, seed=1) if kind == "query_folds" else GroupKFold(3)
    found = lgb.cv(
        {**LightGBM.parameters, "objective": objective},
        LightGBM.data(data),
        ROUNDS,
        folds=folds,
        feval=lp.metric("map"),
    )
    whole, values = LightGBM.data(data), []
    for train, test in folds if kind == "query_folds" else folds.split(data.X, data.y, data.qid):
        booster, test = LightGBM.train(objective, whole.subset(train)), data.part(test)
        values.append(lp.evaluate("map", test.y, booster.predict(test.X), test.group)["map"])
    assert len(values) == 3
    assert found["valid map-mean"][-1] == pytest.approx(np.mean(values), abs=1e-12)


@pytest.mark.parametrize("kind", ["nfold", "query_folds"])
def test_xgboost_cv(kind, data):
    objective, made = lp.LambdaRank("map"), []

    def keep(train, test, parameters):
        made.append((train, test))
        return train, test, parameters

    if kind == "nfold":
        whole, how = XGBoost.data(data), {"nfold": 3, "fpreproc": keep}
    else:
        folds = lp.query_folds(data.group, 3, seed=1)
        regroup = folds.fpreproc
        whole = xgb.DMatrix(data.X, data.y)
        how = {"folds": folds, "fpreproc": lambda *fold: keep(*regroup(*fold))}
    found = xgb.cv(
        XGBoost.parameters, whole, ROUNDS, obj=objective, custom_metric=lp.metric("map"), as_pandas=False, **how
    )
    values = []
    for train, test in made:
        scores = XGBoost.train(objective, train).predict(test)
        group = np.diff(test.get_uint_info("group_ptr"))
        values.append(lp.evaluate("map", test.get_label(), scores, group)["map"])
    assert found["test-map-mean"][-1] == pytest.approx(np.mean(values), abs=1e-6)
    if kind == "query_folds":
        for (_, rows), (_, test) in zip(folds, made, strict=True):
            expected = data.part(rows)
            np.testing.assert_array_equal(np.diff(test.get_uint_info("group_ptr")), expected.group)
            np.testing.assert_array_equal(test.get_label(), expected.y)


def test_xgboost_fpreproc_refuses_other_folds(data):
    folds = lp.query_folds(data.group, 3)
    with pytest.raises(lp.LambdaplugError, match="not the folds' data sets"):
        xgb.cv(
            XGBoost.parameters,
            xgb.DMatrix(data.X, data.y),
            1,
            folds=lp.query_folds(data.group, 4),
            fpreproc=folds.fpreproc,
            obj=lp.LambdaRank("map"),
        )


def test_query_folds_keep_queries_whole(data):
    folds = lp.query_folds(data.group, 4, seed=2)
    assert sorted(np.concatenate([test for _, test in folds])) == list(range(data.rows))
    for train, test in folds:
        assert not set(data.qid[train]) & set(data.qid[test])
        assert len(train) + len(test) == data.rows
    assert_same_arrays(folds[0], lp.query_folds(data.group, 4, seed=2)[0])
    assert not np.array_equal(folds[0][1], lp.query_folds(data.group, 4, seed=3)[0][1])


IDS = {
    "from 0": np.repeat(np.arange(4), 5),
    "from 1": np.repeat(np.arange(1, 51), np.arange(50) % 7 + 1),
    "large": np.repeat([10032, 10032 + 7, 18219], [4, 9, 6]),
    "large, in no order": np.repeat(np.random.default_rng(0).permutation(np.arange(15_000, 15_200)), 10),
    "in no order": np.repeat(np.random.default_rng(0).permutation(60), 3),
}


@pytest.mark.parametrize("kind", IDS)
def test_query_folds_refuse_ids(kind):
    ids = IDS[kind]
    with pytest.raises(lp.LambdaplugError, match=r"query ids\? Sizes are np.unique.*rows=\d+"):
        lp.query_folds(ids, 3)
    with pytest.raises(
        lp.LambdaplugError, match=rf"not to {len(ids)} rows. It has one value per row: are these query ids"
    ):
        lp.query_folds(ids, 3, rows=len(ids))
    if ids.sum() < 10_000:
        assert len(lp.query_folds(ids, 3, rows=ids.sum())) == 3  # whoever says so may have such sizes


@pytest.mark.parametrize(
    "sizes",
    [
        [10] * 50,
        [10] * 50 + [5] * 50,
        [100] * 50 + [60] * 50 + [80] * 20,
        [1, 2, 3],
        [2, 2, 3, 3, 4, 4],
        [20_000] * 5,
        [20_000] * 5 + [5000] * 5,
        [0, 3, 0, 2],
        np.random.default_rng(0).integers(1, 30, 200),
        np.random.default_rng(0).integers(100, 2000, 300),
    ],
    ids=lambda sizes: f"{len(sizes)} of {len(set(sizes))}",
)
def test_query_folds_take_sizes_for_sizes(sizes):
    folds = lp.query_folds(sizes, 2)
    assert sum(len(test) for _, test in folds) == sum(sizes)
    assert_same_arrays(folds[0], lp.query_folds(sizes, 2, rows=sum(sizes))[0])


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
    objective, seen = lp.LambdaRank("map"), {}

    def recording(scores, made):
        rows, found = np.array(made.used_indices), objective(scores, made)
        seen.setdefault(tuple(rows), found)
        return found

    folds = lp.query_folds(data.group, 2)
    parameters = {**LightGBM.parameters, "objective": recording}
    lgb.cv(parameters, LightGBM.data(data, weights), 1, folds=folds, feval=lp.metric("map"))
    assert [odd in rows for rows in seen] in ([True, False], [False, True])
    for rows, found in seen.items():
        part = data.part(list(rows))
        assert_same_arrays(found, objective.gradients(part.y, np.zeros(part.rows), part.group, weights[list(rows)]))
    inner = LightGBM.data(data, weights).subset(np.arange(data.rows)).construct()
    inner = inner.subset(np.flatnonzero(data.qid != 1)).construct()
    part = data.part(data.qid != 1)
    expected = objective.gradients(part.y, np.zeros(part.rows), part.group, weights[data.qid != 1])
    assert_same_arrays(objective(np.zeros(part.rows), inner), expected)


@HOSTS
def test_one_object_on_two_data_sets_in_turn(host, data, other):
    objective = lp.LambdaRank("err@10")
    built = [(part, host.built(part)) for part in (data, other)]
    for seed in range(3):
        for part, data_set in built:
            scores = part.scores(seed)
            assert_same_arrays(objective(scores, data_set), objective.gradients(part.y, scores, part.group))


@HOSTS
def test_two_objects_on_one_data_set_in_turn(host, data):
    data_set = host.built(data)
    for seed in range(2):
        for objective in OBJECTIVES.values():
            scores = data.scores(seed)
            assert_same_arrays(objective(scores, data_set), objective.gradients(data.y, scores, data.group))


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


def test_lightgbms_score_buffer_is_left_alone(data):
    objective, metric = lp.LambdaRank("ndcg@10"), lp.metric("ndcg@10")
    calls = []

    def untouched(function, scores, train):
        before = scores.copy()
        found = function(scores, train)
        np.testing.assert_array_equal(scores, before)
        assert scores.flags.writeable
        calls.append(function)
        return found

    made = LightGBM.data(data)
    booster = lgb.train(
        {**LightGBM.parameters, "objective": lambda scores, train: untouched(objective, scores, train)},
        made,
        ROUNDS,
        valid_sets=[made],
        feval=lambda scores, train: untouched(metric, scores, train),
    )
    assert calls.count(objective) == calls.count(metric) == ROUNDS
    assert LightGBM.trees(booster) == LightGBM.trees(LightGBM.train(objective, LightGBM.data(data)))


# --- another label source ----------------------------------------------------------------------------------------


def clicks_of(data):
    return np.random.default_rng(7).integers(0, 2, data.rows)


@HOSTS
def test_labels_replace_those_of_the_data_set(host, data):
    clicks, scores = clicks_of(data), data.scores()
    found = lp.LambdaRank("map", labels=clicks)(scores, host.built(data))
    assert_same_arrays(found, lp.LambdaRank("map").gradients(clicks, scores, data.group))


def test_labels_follow_the_rows_into_a_subset(data):
    clicks = clicks_of(data)
    rows = np.flatnonzero(data.qid % 3 != 1)
    part = data.part(rows)
    objective = lp.LambdaRank("map", labels=clicks)
    found = objective(part.scores(), LightGBM.built(data).subset(rows).construct())
    assert_same_arrays(found, lp.LambdaRank("map").gradients(clicks[rows], part.scores(), part.group))


def test_labels_follow_the_rows_into_lightgbms_folds(data):
    clicks, folds = clicks_of(data), lp.query_folds(data.group, 2)
    parameters = {**LightGBM.parameters, "objective": lp.LambdaRank("map", labels=clicks)}
    found = lgb.cv(parameters, LightGBM.data(data), ROUNDS, folds=folds, feval=lp.metric("map"), return_cvbooster=True)
    for (rows, _), booster in zip(folds, found["cvbooster"].boosters, strict=True):
        part = data.part(rows)

        def by_hand(scores, _, rows=rows, part=part):
            return lp.LambdaRank("map").gradients(clicks[rows], scores, part.group)

        expected = LightGBM.train(by_hand, LightGBM.data(data).subset(rows))
        assert LightGBM.trees(booster) == LightGBM.trees(expected)


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

COPIES = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda x: pickle.loads(pickle.dumps(x)),
    "cloudpickle": lambda x: pickle.loads(cloudpickle.dumps(x)),
}


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
    for word, message in (("mrr@0", "k must be an integer >= 1"), ("mmr@5", "no measure 'mmr@5'"), ("map(x=1)", "'x'")):
        with pytest.raises(lp.LambdaplugError, match=re.escape(message)):
            ranker.fit(ranker.make(word), data)


@RANKERS
def test_estimators_are_their_parents_kind(ranker):
    assert issubclass(ranker.ours, ranker.parent)
    objective = lp.LambdaRank("map")
    estimator = ranker.make(objective)
    assert isinstance(estimator, ranker.parent)
    assert set(ranker.ours().get_params()) == set(ranker.parent().get_params())
    assert estimator.get_params()["objective"] is objective
    assert repr(estimator).startswith(ranker.ours.__name__)


@RANKERS
def test_estimators_grow_the_trees_of_the_functional_api(ranker, data):
    objective = lp.LambdaRank("ndcg@10")
    estimator = ranker.fit(ranker.make(objective), data)
    booster = ranker.host.train(objective, ranker.host.data(data))
    assert ranker.host.trees(ranker.booster(estimator)) == ranker.host.trees(booster)
    np.testing.assert_array_equal(estimator.predict(data.X), ranker.host.predict(booster, data.X))


@pytest.mark.parametrize("ours", [False, True])
def test_lightgbms_arguments_may_come_by_position(ours, data, other):
    metric = lp.metric("mrr") if ours else None
    estimator, again = (LightGBMRanker.make(lp.LambdaRank("map"), metric=None) for _ in range(2))
    sets = [(other.X, other.y)], None, None, None, [other.group]
    estimator.fit(data.X, data.y, None, None, data.group, *sets, metric)
    named = LightGBMRanker.fit(again, data, valid=other, metric=metric)
    assert estimator.evals_result_ == named.evals_result_
    assert list(estimator.evals_result_["valid_0"]) == ["mrr" if ours else "map"]
    with pytest.raises(TypeError, match="'group' twice"):
        estimator.fit(data.X, data.y, None, None, data.group, group=data.group)
    with pytest.raises(TypeError, match="arguments, got 40"):
        estimator.fit(*[None] * 40)


NAMES = {
    "beyond 32 bits": lambda qid: qid + (1 << 40),
    "the same lowest 32 bits": lambda qid: qid.astype(np.uint64) << 32,
    "fractions": lambda qid: 7 + qid / 1024,
    "negative": lambda qid: qid - 1000,
    "in no order": lambda qid: np.random.default_rng(0).permutation(1000)[qid],
    "text": lambda qid: [f"query {one}" for one in qid],
    "series of text": lambda qid: pd.Series([f"query {one}" for one in qid]),
    "series": lambda qid: pd.Series(qid + (1 << 40), index=qid[::-1]),
    "column": lambda qid: (qid + (1 << 40))[:, None],
}


@pytest.mark.parametrize("kind", NAMES)
def test_xgboosts_query_ids_may_be_anything(kind, data, other):
    # XGBoost keeps 32 bits of an id: different queries would become one.
    expected = XGBoostRanker.fit(XGBoostRanker.make(lp.LambdaRank("map")), data, valid=other)
    estimator = XGBoostRanker.make(lp.LambdaRank("map"))
    ids, valid = NAMES[kind](data.qid), NAMES[kind](other.qid)
    sets = {"eval_set": [(other.X, other.y), (data.X, data.y)], "eval_qid": [valid, ids], "verbose": False}
    estimator.fit(data.X, data.y, qid=ids, **sets)
    assert XGBoost.trees(estimator.get_booster()) == XGBoost.trees(expected.get_booster())
    assert estimator.evals_result()["validation_0"] == expected.evals_result()["validation_0"]
    if kind != "column":
        frames = [one.frame.assign(qid=np.asarray(known)) for one, known in ((data, ids), (other, valid))]
        again = XGBoostRanker.make(lp.LambdaRank("map")).fit(
            frames[0], data.y, eval_set=[(frames[1], other.y)], verbose=False
        )
        np.testing.assert_array_equal(again.predict(frames[1]), expected.predict(other.X))
        assert again.evals_result() == expected.evals_result()


def test_xgboosts_query_ids_that_are_refused(data):
    estimator, ids = XGBoostRanker.make(lp.LambdaRank("map")), data.qid + 0.5
    with pytest.raises(lp.LambdaplugError, match=r"qid: .*those of query 1.5 are in 2 places"):
        estimator.fit(data.X, data.y, qid=np.where(np.arange(data.rows) == data.rows - 1, 1.5, ids))
    for lacking in (spoiled(ids, np.nan), [None, *ids[1:]], np.ma.masked_equal(data.qid, 3)):
        with pytest.raises(lp.LambdaplugError, match="qid: some rows have no query id"):
            estimator.fit(data.X, data.y, qid=lacking)
    with pytest.raises(lp.LambdaplugError, match="eval_qid: some rows have no query id"):
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
def test_estimators_clone_and_take_parameters(ranker, data):
    estimator = ranker.fit(ranker.make(lp.LambdaRank("map")), data)
    fresh = sklearn.base.clone(estimator)
    assert repr(fresh.get_params()) == repr(estimator.get_params())
    with pytest.raises(sklearn.exceptions.NotFittedError):
        fresh.predict(data.X)
    np.testing.assert_array_equal(ranker.fit(fresh, data).predict(data.X), estimator.predict(data.X))
    changed = ranker.fit(fresh.set_params(objective=lp.LambdaRank("mrr"), n_estimators=3), data)
    expected = ranker.host.train(lp.LambdaRank("mrr"), ranker.host.data(data), 3)
    np.testing.assert_array_equal(changed.predict(data.X), ranker.host.predict(expected, data.X))


@pytest.mark.parametrize("how", ["deepcopy", "pickle", "cloudpickle"])
@RANKERS
def test_estimators_are_copied_before_and_after_fit(ranker, how, data):
    estimator = ranker.make(lp.LambdaRank("map"))
    twin = COPIES[how](estimator)
    expected = ranker.fit(estimator, data).predict(data.X)
    np.testing.assert_array_equal(ranker.fit(twin, data).predict(data.X), expected)
    fitted = COPIES[how](estimator)
    np.testing.assert_array_equal(fitted.predict(data.X), expected)
    np.testing.assert_array_equal(ranker.fit(fitted, data).predict(data.X), expected)


def test_a_fitted_xgboost_booster_is_an_ordinary_one(data, other, tmp_path):
    ordinary = set(xgb.XGBRanker(n_estimators=1).fit(data.X, data.y, qid=data.qid).get_booster().__dict__)
    saving = xgb.callback.EarlyStopping(rounds=3, save_best=True)
    estimator = XGBoostRanker.make(lp.LambdaRank("map"), eval_metric=lp.metric("map"), n_estimators=30)
    for callbacks in (None, [saving]):
        XGBoostRanker.fit(estimator.set_params(callbacks=callbacks), data, valid=other)
        booster = estimator.get_booster()
        assert type(booster) is xgb.Booster
        assert set(booster.__dict__) == ordinary
        expected = estimator.predict(data.X)
        np.testing.assert_array_equal(XGBoost.predict(pickle.loads(pickle.dumps(booster)), data.X), expected)
        estimator.save_model(tmp_path / "model.ubj")
        loaded = xgb.Booster(model_file=tmp_path / "model.ubj")
        np.testing.assert_array_equal(XGBoost.predict(loaded, data.X), expected)
    assert booster.num_boosted_rounds() == saving.stopping_history["validation_0"]["map"].index(booster.best_score) + 1


@pytest.mark.skipif(
    "interval" not in inspect.signature(xgb.callback.TrainingCheckPoint).parameters,
    reason="XGBoost 2.0 names it otherwise",
)
def test_xgboost_checkpoints_can_be_pickles(data, tmp_path):
    saving = xgb.callback.TrainingCheckPoint(directory=tmp_path, interval=2, as_pickle=True)
    estimator = XGBoostRanker.fit(XGBoostRanker.make(lp.LambdaRank("map"), callbacks=[saving]), data)
    saved = max((pickle.loads(path.read_bytes()) for path in tmp_path.iterdir()), key=xgb.Booster.num_boosted_rounds)
    assert type(saved) is xgb.Booster
    assert saved.num_boosted_rounds() == ROUNDS - 1
    saved.update(XGBoost.data(data), ROUNDS - 1, fobj=lp.LambdaRank("map"))  # it goes on like any other
    assert saved.get_dump() == estimator.get_booster().get_dump()


def mean_ap(estimator, X, y):
    """A scorer for data frames with their query ids; anything the estimator is given, it ranks."""
    return lp.evaluate("map", y, estimator.predict(X), np.unique(X["qid"], return_counts=True)[1])["map"]


GRID = (lp.LambdaRank("map"), lp.LambdaRank("mrr"))


@pytest.mark.parametrize("scoring", [mean_ap, None], ids=["scorer", "own score"])
def test_grid_search_over_xgboosts_objective(scoring, data):
    search = GridSearchCV(
        XGBoostRanker.make(GRID[0], eval_metric=lp.metric("map")),
        {"objective": GRID, "max_depth": [1, 3]},
        cv=GroupKFold(3).split(data.X, data.y, data.qid),
        scoring=scoring,
        error_score="raise",
    ).fit(data.frame, data.y)
    for index in np.random.default_rng(0).choice(4, 2, replace=False):
        values = []
        for train, test in GroupKFold(3).split(data.X, data.y, data.qid):
            chosen = search.cv_results_["params"][index]
            estimator = XGBoostRanker.make(chosen["objective"], max_depth=chosen["max_depth"])
            XGBoostRanker.fit(estimator, data.part(train))
            part = data.part(test)
            values.append(lp.evaluate("map", part.y, estimator.predict(part.X), part.group)["map"])
        assert search.cv_results_["mean_test_score"][index] == pytest.approx(np.mean(values), abs=1e-6)
    assert search.best_params_["max_depth"] == 3
    assert search.best_score_ == max(search.cv_results_["mean_test_score"])


@pytest.mark.skipif("enable_metadata_routing" not in sklearn.get_config(), reason="since scikit-learn 1.3")
def test_grid_search_can_route_query_ids(data):
    with sklearn.config_context(enable_metadata_routing=True):
        search = GridSearchCV(
            XGBoostRanker.make(GRID[0]).set_fit_request(qid=True),
            {"max_depth": [1, 3]},
            cv=GroupKFold(3),
            scoring=lambda estimator, X, y: np.corrcoef(estimator.predict(X), y)[0, 1],
            error_score="raise",
        ).fit(data.X, data.y, qid=data.qid, groups=data.qid)
    assert search.best_params_ == {"max_depth": 3}


@RANKERS
def test_search_over_query_folds_with_clones(ranker, data):
    # scikit-learn's searches cannot cut LightGBM's group sizes, in its own ranker neither: the loop is three lines.
    means = {}
    for depth in (1, 3):
        estimator, values = ranker.make(GRID[0], max_depth=depth), []
        for train, test in lp.query_folds(data.group, 3):
            fitted, part = ranker.fit(sklearn.base.clone(estimator), data.part(train)), data.part(test)
            values.append(lp.evaluate("map", part.y, fitted.predict(part.X), part.group)["map"])
        means[depth] = np.mean(values)
    assert means[3] > means[1] + 0.02


@pytest.mark.parametrize("metric", [None, "mrr"])
def test_xgboosts_own_score_is_the_last_metric(metric, data, other):
    estimator = XGBoostRanker.make(lp.LambdaRank("map"), eval_metric=metric and lp.metric("ndcg", metric))
    estimator.fit(data.frame, data.y)
    name = metric or "map"  # without a metric, what was trained for
    expected = lp.evaluate(name, other.y, estimator.predict(other.frame), other.group)[name]
    assert estimator.score(other.frame, other.y) == pytest.approx(expected, abs=1e-6)


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


MEASURES = pytest.mark.parametrize("name", ["mrr", "err@10", "p@5", "ndcg@10"])


@HOSTS
@MEASURES
def test_early_stopping_maximises(host, name, data, other):
    _, best, curves = host.curves(lp.LambdaRank("ndcg@10"), lp.metric(name), data, other, MOST, STOP)
    assert_stopped_at_the_top(best, curves[name])


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


def test_xgboosts_ranker_reports_the_measure_trained_for(data, other):
    estimator = XGBoostRanker.make(lp.LambdaRank("mrr"), n_estimators=MOST)
    XGBoostRanker.fit(estimator, data, valid=other, stop=STOP)
    best, curves = XGBoostRanker.stopped(estimator)
    assert list(curves) == ["mrr"]
    assert_stopped_at_the_top(best, curves["mrr"])


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


@pytest.mark.parametrize("way", ["train", "callback"])
def test_an_explicit_minimum_is_respected_by_xgboost(way, data, other):
    if way == "train":
        options, stop = {"maximize": False}, STOP
    else:
        options, stop = {"callbacks": [xgb.callback.EarlyStopping(rounds=STOP, maximize=False)]}, None
    booster, _, curves = XGBoost.curves(lp.LambdaRank("ndcg@10"), lp.metric("mrr"), data, other, MOST, stop, **options)
    assert booster.best_iteration == int(np.argmin(curves["mrr"]))
    assert len(curves["mrr"]) == booster.best_iteration + STOP + 1 < MOST


def test_xgboosts_other_metrics_keep_their_direction(data, other):
    # Early stopping watches a metric of the user's, for which lower is better: ours beside it must not turn it round.
    def loss(scores, made):
        ours = lp.metric("mrr")(scores, made)
        return [*ours, ("loss", -dict(ours)["mrr"])]

    watching = xgb.callback.EarlyStopping(rounds=STOP, metric_name="loss")
    _, _, curves = XGBoost.curves(lp.LambdaRank("ndcg@10"), loss, data, other, MOST, callbacks=[watching])
    assert watching.maximize is False
    assert len(curves["loss"]) == int(np.argmin(curves["loss"])) + STOP + 1


class Logging(xgb.callback.TrainingCallback):
    """A user's callback that calls the metric itself, and keeps the log that early stopping watches."""

    def __init__(self, valid, stopping=None):
        super().__init__()
        self.valid, self.held, self.log = valid, {"no": "callbacks"}, {}
        self.inner = [stopping]

    def after_iteration(self, model, epoch, evals_log):
        log = evals_log if self.inner == [None] else self.log
        ((name, value),) = lp.metric("mrr")(model.predict(self.valid), self.valid)
        log.setdefault("mine", {}).setdefault(name, []).append(value)
        return self.inner[0].after_iteration(model, epoch, log) if self.inner != [None] else False


@pytest.mark.parametrize("way", ["beside", "inside"])
@pytest.mark.parametrize("name", [None, "mrr"])
def test_early_stopping_maximises_what_a_callback_logs(way, name, data, other):
    stopping = xgb.callback.EarlyStopping(rounds=STOP, metric_name=name)
    logging = Logging(XGBoost.data(other), stopping if way == "inside" else None)
    callbacks = [logging] if way == "inside" else [logging, stopping]
    log = {}
    xgb.train(
        {**XGBOOST, "disable_default_eval_metric": 1},
        XGBoost.data(data),
        MOST,
        obj=lp.LambdaRank("ndcg@10"),
        callbacks=callbacks,
        evals_result=log,
    )
    curve = (logging.log if way == "inside" else log)["mine"]["mrr"]
    assert stopping.maximize is True
    assert_stopped_at_the_top(int(np.argmax(curve)), curve)


class Holding(xgb.callback.TrainingCallback):
    """A user's callback that asks an early stopping, kept where ``ask`` finds it."""

    def __init__(self, ask, **held):
        super().__init__()
        self.ask, self.held = ask, held

    def after_iteration(self, model, epoch, evals_log):
        return self.ask(model, epoch, evals_log)


def in_a_thread(scores, made):
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(lp.metric("mrr"), scores, made).result()


def test_early_stopping_that_a_callback_holds_by_name_maximises(data, other):
    stopping = xgb.callback.EarlyStopping(rounds=STOP)
    holding = Holding(stopping.after_iteration, stopping=stopping)
    booster, _, curves = XGBoost.curves(
        lp.LambdaRank("ndcg@10"), lp.metric("mrr"), data, other, MOST, callbacks=[holding]
    )
    assert_stopped_at_the_top(booster.best_iteration, curves["mrr"])


def hidden(**chosen):
    """Callbacks with an early stopping that only a function's closure holds."""
    ask = xgb.callback.EarlyStopping(**{"rounds": STOP, **chosen}).after_iteration
    return [Holding(lambda *round_: ask(*round_))]


def out_of_reach(metric, data, other, objective=None, rounds=MOST, **options):
    valid = XGBoost.data(other)
    evals, log = [(XGBoost.data(data), "train"), (valid, "valid")], {}
    objective = objective or lp.LambdaRank("ndcg@10")
    plain = {"obj": objective} if not isinstance(objective, str) else {}
    parameters = XGBOOST if plain else {**XGBOOST, "objective": objective}
    options = {"evals": evals, "custom_metric": metric, "verbose_eval": False, "evals_result": log, **options}
    return xgb.train(parameters, XGBoost.data(data), rounds, **plain, **options), log


MINIMISED = r"early stopping minimises '(mrr|quality)'.*begin with auc, pre, map, ndcg.*maximize=True"
OUT_OF_REACH = pytest.mark.parametrize("metric", [lp.metric("mrr"), in_a_thread], ids=["plain", "in a thread"])


@OUT_OF_REACH
@pytest.mark.parametrize(
    ("objective", "chosen"),
    [
        (None, {}),
        ("rank:ndcg", {}),
        (None, {"rounds": 1}),
        ("rank:ndcg", {"min_delta": 0.01}),
        (None, {"metric_name": "mrr", "data_name": "train"}),
    ],
)
def test_early_stopping_out_of_reach_is_refused_if_it_minimises(metric, objective, chosen, data, other):
    # A function hides the EarlyStopping, and a thread hides all callbacks. Refused before it has judged anything.
    rounds = []
    counting = Holding(lambda model, epoch, log: rounds.append(epoch))  # noqa: ARG005
    with pytest.raises(lp.LambdaplugError, match=MINIMISED):
        out_of_reach(metric, data, other, objective, callbacks=[*hidden(**chosen), counting])
    assert rounds == [0]
    with pytest.raises(lp.LambdaplugError, match=MINIMISED):  # and once more, while the first one is alive
        out_of_reach(metric, data, other, objective, callbacks=hidden(**chosen))


def test_early_stopping_beside_a_metric_in_a_thread_is_refused_and_cured(data, other):
    with pytest.raises(lp.LambdaplugError, match=MINIMISED):
        out_of_reach(in_a_thread, data, other, early_stopping_rounds=STOP)
    booster, log = out_of_reach(in_a_thread, data, other, early_stopping_rounds=STOP, maximize=True)
    assert_stopped_at_the_top(booster.best_iteration, log["valid"]["mrr"])


@OUT_OF_REACH
@pytest.mark.parametrize("chosen", [{"maximize": True}, {"metric_name": "loss"}, {"metric_name": "map"}])
def test_early_stopping_out_of_reach_that_is_right_goes_on(metric, chosen, data, other, recwarn):
    def several(scores, made):
        ((name, value),) = metric(scores, made)
        return [("loss", 1 - value), *lp.metric("map")(scores, made), (name, value)]

    booster, log = out_of_reach(several, data, other, callbacks=hidden(**chosen))
    name = chosen.get("metric_name", "mrr")
    curve = np.array(log["valid"][name])
    assert_stopped_at_the_top(booster.best_iteration, -curve if name == "loss" else curve)
    assert not [str(one.message) for one in recwarn if issubclass(one.category, lp.LambdaplugWarning)]


@pytest.mark.parametrize("name", ["map", "ndcg@10"])
def test_names_that_xgboost_maximises_are_not_refused_out_of_reach(name, data, other):
    booster, log = out_of_reach(lp.metric(name), data, other, callbacks=hidden())
    assert_stopped_at_the_top(booster.best_iteration, log["valid"][name])


def test_early_stopping_out_of_reach_is_refused_under_another_name(data, other):
    with pytest.raises(lp.LambdaplugError, match=MINIMISED):
        out_of_reach(quality, data, other, callbacks=hidden())
    renamed = lambda scores, made: ("map_of_mine", quality(scores, made)[1])  # noqa: E731
    booster, log = out_of_reach(renamed, data, other, callbacks=hidden())
    assert_stopped_at_the_top(booster.best_iteration, log["valid"]["map_of_mine"])


@OUT_OF_REACH
@pytest.mark.parametrize("renamed", [False, True])
def test_early_stopping_out_of_reach_in_cross_validation(metric, renamed, data):
    def measured(scores, made):
        ((name, value),) = metric(scores, made)
        return "quality" if renamed else name, value

    options = {"obj": lp.LambdaRank("ndcg@10"), "custom_metric": measured, "nfold": 3, "as_pandas": False}
    made = XGBoost.data(data)
    with pytest.raises(lp.LambdaplugError, match=MINIMISED):
        xgb.cv(XGBoost.parameters, made, MOST, callbacks=hidden(), **options)
    curves = xgb.cv(XGBoost.parameters, made, MOST, callbacks=hidden(maximize=True), **options)
    curve = curves["test-quality-mean" if renamed else "test-mrr-mean"]
    assert len(curve) - 1 == int(np.argmax(curve)) > 0


@pytest.mark.parametrize("maximize", [None, True])
def test_early_stopping_in_a_loop_of_ones_own_is_refused_if_it_minimises(maximize, data, other):
    train, valid, log = XGBoost.data(data), XGBoost.data(other), {"valid": {"mrr": []}}
    booster, stopping = xgb.Booster(XGBOOST, [train, valid]), xgb.callback.EarlyStopping(rounds=STOP, maximize=maximize)

    def loop():
        for iteration in range(MOST):
            booster.update(train, iteration, fobj=lp.LambdaRank("ndcg@10"))
            log["valid"]["mrr"].append(dict(lp.metric("mrr")(booster.predict(valid), valid))["mrr"])
            if stopping.after_iteration(booster, iteration, log):
                return

    if maximize:
        loop()
        assert_stopped_at_the_top(int(booster.attr("best_iteration")), log["valid"]["mrr"])
        return
    for _ in range(2):  # it stays refused
        with pytest.raises(lp.LambdaplugError, match=MINIMISED):
            loop()
    assert len(log["valid"]["mrr"]) == 1
    stopping.maximize = True
    loop()
    assert len(log["valid"]["mrr"]) > STOP + 1


def test_evaluating_without_early_stopping_is_not_refused(data, other, recwarn):
    metric, objective = lp.metric("mrr"), lp.LambdaRank("ndcg@10")
    train, valid, again = XGBoost.data(data), XGBoost.data(other), XGBoost.data(other)
    booster = xgb.Booster(XGBOOST, [train, valid])
    best = 0.0
    for iteration in range(8):
        booster.update(train, iteration, fobj=objective)
        booster.eval_set([(train, "train"), (valid, "valid")], iteration, metric)
        value = dict(metric(booster.predict(valid), valid))["mrr"]
        if value > best:  # a note of one's own
            best = value
            booster.set_attr(best_score=value, best_iteration=iteration)
    # A training that watches the same values, rightly, while the ones from above are still there; and one that goes on.
    options = {"evals": [(train, "train"), (again, "again")], "verbose_eval": False, "custom_metric": metric}
    stopped = xgb.train(XGBOOST, train, 8, obj=objective, early_stopping_rounds=STOP, **options)
    xgb.train(XGBOOST, train, 3, obj=objective, xgb_model=stopped, **options)
    # One in sight, beside a callback that measures in a thread of its own, where nothing is.
    beside = Holding(lambda model, *_: bool(in_a_thread(model.predict(valid), valid)) and False)
    seen = xgb.train(XGBOOST, train, MOST, obj=objective, early_stopping_rounds=STOP, callbacks=[beside], **options)
    assert seen.num_boosted_rounds() > STOP + 1
    assert not [str(one.message) for one in recwarn if issubclass(one.category, lp.LambdaplugWarning)]


def quality(scores, made):
    return "quality", dict(lp.metric("mrr")(scores, made))["mrr"]


def watching(way):
    if way == "rounds":
        return {"stop": STOP}
    return {"callbacks": [xgb.callback.EarlyStopping(rounds=STOP, metric_name="quality" if way == "named" else None)]}


@pytest.mark.parametrize("way", ["rounds", "named", "unnamed"])
def test_early_stopping_maximises_a_metric_by_another_name(way, data, other):
    booster, _, curves = XGBoost.curves(lp.LambdaRank("ndcg@10"), quality, data, other, MOST, **watching(way))
    assert_stopped_at_the_top(booster.best_iteration, curves["quality"])


def test_early_stopping_maximises_a_metric_by_another_name_in_cross_validation(data):
    options = {"obj": lp.LambdaRank("ndcg@10"), "custom_metric": quality, "early_stopping_rounds": STOP}
    curve = xgb.cv(XGBoost.parameters, XGBoost.data(data), MOST, nfold=3, as_pandas=False, **options)
    assert len(curve["test-quality-mean"]) - 1 == int(np.argmax(curve["test-quality-mean"])) > 0


@pytest.mark.parametrize("way", ["rounds", "named", "unnamed"])
@pytest.mark.parametrize("loss", [lambda value: 1 - value, lambda value: -value], ids=["rest", "negative"])
def test_a_loss_made_of_a_metric_is_minimised(way, loss, data, other):
    def lost(scores, made):
        return "quality", loss(quality(scores, made)[1])

    booster, _, curves = XGBoost.curves(lp.LambdaRank("ndcg@10"), lost, data, other, MOST, **watching(way))
    assert booster.best_iteration == int(np.argmin(curves["quality"])) > 0
    assert len(curves["quality"]) == min(booster.best_iteration + STOP + 1, MOST)


@pytest.mark.parametrize("way", ["rounds", "named", "unnamed"])
def test_a_metric_changed_beyond_recognition_is_warned_of(way, data, other):
    def percent(scores, made):
        return "quality", 100 * quality(scores, made)[1]

    with pytest.warns(lp.LambdaplugWarning, match="early stopping minimises 'quality'.* made of mrr.*maximize=True"):
        XGBoost.curves(lp.LambdaRank("ndcg@10"), percent, data, other, MOST, **watching(way))
    said = {"callbacks": [xgb.callback.EarlyStopping(rounds=STOP, maximize=True)]}
    booster, _, curves = XGBoost.curves(lp.LambdaRank("ndcg@10"), percent, data, other, MOST, **said)
    assert_stopped_at_the_top(booster.best_iteration, curves["quality"])


@pytest.mark.parametrize("name", [None, "rmse"])
def test_xgboosts_own_metric_is_minimised_beside_a_callback_that_measures(name, data, other):
    stopping = xgb.callback.EarlyStopping(rounds=STOP, data_name="valid", metric_name=name)
    valid = XGBoost.data(other)
    parameters = {**XGBOOST, "disable_default_eval_metric": 0, "eval_metric": "rmse"}
    options = {"evals": [(valid, "valid")], "callbacks": [Logging(valid), stopping], "verbose_eval": False}
    xgb.train(parameters, XGBoost.data(data), 3, obj=lp.LambdaRank("ndcg@10"), **options)
    assert stopping.maximize is False


# --- copies, pickles, threads ------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", COPIES)
@pytest.mark.parametrize("name", OBJECTIVES)
def test_copies_of_objectives_give_equal_gradients(name, how, data):
    objective, scores = OBJECTIVES[name], data.scores()
    twin = COPIES[how](objective)
    assert repr(twin) == repr(objective)
    expected = objective.gradients(data.y, scores, data.group)
    assert_same_arrays(twin.gradients(data.y, scores, data.group), expected)
    for host in (LightGBM, XGBoost):
        assert_same_arrays(twin(scores, host.built(data)), expected)


@pytest.mark.parametrize("how", COPIES)
def test_copies_of_metrics_give_equal_values(how, data):
    metric, made = lp.metric("ndcg@10", "rbp(p=0.7)", empty=1), LightGBM.built(data)
    twin = COPIES[how](metric)
    assert repr(twin) == repr(metric)
    assert twin(data.scores(), made) == metric(data.scores(), made)


@pytest.mark.parametrize("how", COPIES)
def test_copies_keep_their_label_source(how, data):
    clicks, scores = clicks_of(data), data.scores()
    twin = COPIES[how](lp.LambdaRank("map", labels=clicks))
    assert_same_arrays(twin(scores, LightGBM.built(data)), lp.LambdaRank("map").gradients(clicks, scores, data.group))


@pytest.mark.parametrize("dump", [pickle.dumps, cloudpickle.dumps], ids=["pickle", "cloudpickle"])
def test_pickles_stay_small_after_training(dump, data, other):
    objective, metric = lp.LambdaRank("ndcg@10"), lp.metric("ndcg@10")
    sizes = [len(dump(thing)) for thing in (objective, metric)]
    assert max(sizes) < 2000
    for host in (LightGBM, XGBoost):
        host.curves(objective, metric, data, other, 3)
    objective.gradients(data.y, data.scores(), data.group)
    assert [len(dump(thing)) for thing in (objective, metric)] == sizes


@HOSTS
@pytest.mark.usefixtures("small_tasks")
def test_trainings_in_threads_equal_those_in_turn(host, data, other):
    objective = lp.LambdaRank("ndcg@10")
    parts = [data, other, data, other]

    def trees(part):
        return host.trees(host.train(objective, host.data(part), 15))

    expected = [trees(part) for part in parts[:2]] * 2
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(trees, parts)) == expected


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


THREADED = {
    "lgb.train": lambda data, n: LightGBM.train(lp.LambdaRank("map"), LightGBM.data(data), 2, num_threads=n),
    # LightGBM does not tell a Dataset that is already built about the parameters of a training.
    "lgb.train, built": lambda data, n: LightGBM.train(lp.LambdaRank("map"), LightGBM.built(data), 2, num_threads=n),
    "xgb.train": lambda data, n: XGBoost.train(lp.LambdaRank("map"), XGBoost.data(data), 2, nthread=n),
    "lp.LGBMRanker": lambda data, n: fit(LightGBMRanker, lp.LGBMRanker, data, n_jobs=n),
    "lp.XGBRanker": lambda data, n: fit(XGBoostRanker, lp.XGBRanker, data, n_jobs=n),
}


@pytest.mark.parametrize("way", THREADED)
def test_gradients_use_the_hosts_number_of_threads(way, data, thread_counts):
    for threads in (1, 3):
        thread_counts.clear()
        THREADED[way](data, threads)
        assert set(thread_counts) == {threads}
    lp.set_num_threads(2)
    thread_counts.clear()
    THREADED[way](data, 1)
    assert set(thread_counts) == {2}


@HOSTS
@pytest.mark.usefixtures("small_tasks")
def test_the_hosts_own_threads_do_the_work(host, data, monkeypatch):
    team = training.read(host.built(data)).team
    if team is None:
        pytest.skip("this host was not built with GNU's OpenMP")
    regions, workers, run = [], set(), base.run_tasks

    def run_tasks(work, tasks, threads, given=None):
        def watched(next_task):
            workers.add(threading.get_ident() in {thread.ident for thread in threading.enumerate()})
            work(next_task)

        regions.append(given is team)
        return run(watched, tasks, threads, given)

    monkeypatch.setattr(base, "run_tasks", run_tasks)
    objective, scores = lp.LambdaRank("map"), data.scores()
    lp.set_num_threads(3)
    try:
        found = objective(scores, host.built(data))
    finally:
        lp.set_num_threads(None)
    assert all(regions)
    assert workers == {True, False}  # besides Python's own, threads that it did not start
    assert_same_arrays(found, objective.gradients(data.y, scores, data.group))

    def fail(next_task):
        while (task := next_task()) is not None:
            if task == 5:
                raise ZeroDivisionError("task 5")

    with pytest.raises(ZeroDivisionError, match="task 5"):
        run(fail, list(range(8)), 2, team)

    # A fork remembers the parent's threads and has none of them: it must not wait for them.
    child = os.fork()
    if child == 0:
        done = []
        run(lambda next_task: [done.append(task) for task in iter(next_task, None)], list(range(8)), 2, team)
        os._exit(0 if sorted(done) == list(range(8)) else 1)
    deadline = time.monotonic() + 30
    while (ended := os.waitpid(child, os.WNOHANG))[0] == 0 and time.monotonic() < deadline:
        time.sleep(0.01)
    if ended[0] == 0:
        os.kill(child, signal.SIGKILL)
    assert ended == (child, 0)


@pytest.mark.parametrize("asked", [0, 1], ids=["none comes", "one does and leaves the rest"])
def test_no_task_is_left_out_where_threads_are(asked):
    done = []

    def work(next_task):
        while (task := next_task()) is not None:
            done.append(task)

    def team(function, *_):
        for _ in range(asked):
            function()

    base.run_tasks(work, list(range(8)), 3, team)
    assert sorted(done) == list(range(8))


@HOSTS
def test_an_interruption_at_the_entry_of_the_hosts_threads_is_not_lost(host, data, capfd):
    team = training.read(host.built(data)).team
    if team is None:
        pytest.skip("this host was not built with GNU's OpenMP")
    hook, main = sys.unraisablehook, threading.main_thread().ident

    def entered():
        if threading.get_ident() == main:
            raise KeyboardInterrupt("at the entry")

    failures = []
    team(entered, 2, failures)
    assert [repr(failure) for failure in failures] == ["KeyboardInterrupt('at the entry')"]

    def unlucky(function, threads, failures):
        team(lambda: (entered(), function()), threads, failures)

    with pytest.raises(KeyboardInterrupt, match="at the entry"):
        base.run_tasks(lambda next_task: list(iter(next_task, None)), list(range(8)), 2, unlucky)
    assert sys.unraisablehook is hook
    assert "ignored" not in capfd.readouterr().err


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
    "sizes that do not add up": (lambda d: gradients(d, group=d.group[:-1]), "add up to .* not to"),
    "ids for sizes": (lambda d: gradients(d, group=d.qid), "are these query ids"),
    "NaN score": (lambda d: gradients(d, scores=spoiled(d.scores(), np.nan)), "got nan in row 5"),
    "infinite score": (lambda d: gradients(d, scores=spoiled(d.scores(), np.inf)), "got inf in row 5"),
    "too few scores": (lambda d: gradients(d, scores=d.scores()[1:]), "scores: expected one per row"),
    "NaN label": (lambda d: gradients(d, labels=spoiled(d.y, np.nan)), "labels: row 5 is NaN"),
    "masked score": (lambda d: gradients(d, scores=masked(d.scores())), "got nan in row 5"),
    "masked label": (lambda d: gradients(d, labels=masked(d.y)), "labels: row 5 is NaN or masked"),
    "masked size": (lambda d: gradients(d, group=masked(d.group)), "group: expected the number of documents"),
    "masked weight": (lambda d: gradients(d, weight=masked(np.ones(d.rows))), "weight: expected finite numbers"),
    "masked score to evaluate": (
        lambda d: lp.evaluate("map", d.y, masked(d.scores()), d.group),
        "got nan in row 5",
    ),
    "label 31": (lambda d: gradients(d, labels=spoiled(d.y, 31)), "exp2.* label of 31.*linear"),
    "label -1": (lambda d: gradients(d, labels=spoiled(d.y, -1)), "exp2.* label of -1.*linear"),
    "weights of neither": (lambda d: gradients(d, weight=np.ones(7)), "weight: expected one value per query"),
    "arrays": (lambda d: lp.LambdaRank("map")(d.scores(), d.y), "expected a data set.*got ndarray"),
    "arrays for a metric": (lambda d: lp.metric("map")(d.scores(), d.y), "expected a data set.*got ndarray"),
    "rows cut by lgb.cv": (cv_by_rows, "queries are cut in two.*query_folds"),
    "rows cut by a subset": (subset_by_rows, "queries are cut in two.*query_folds"),
    "bagging_by_query": (lambda d: trained(LightGBM, d, **BAGGING), "bagging_by_query"),
    "bagging_by_query, text": (lambda d: trained(LightGBM, d, bagging_by_query="true"), "bagging_by_query"),
    # LightGBM does not tell a Dataset that is already built about the parameters of a training.
    "bagging_by_query, built": (
        lambda d: LightGBM.train(lp.LambdaRank("map"), LightGBM.built(d), **BAGGING),
        "bagging_by_query",
    ),
    "bagging_by_query, lp.LGBMRanker": (lambda d: fit(LightGBMRanker, lp.LGBMRanker, d, **BAGGING), "bagging_by_query"),
    "bagging_by_query, lgb.LGBMRanker": (
        lambda d: fit(LightGBMRanker, lgb.LGBMRanker, d, **BAGGING),
        "bagging_by_query",
    ),
}
for _host in (LightGBM, XGBoost):
    REFUSED |= {
        f"{_host.name}, no queries": (partial(without_queries, _host), "no queries"),
        f"{_host.name}, metric without queries": (partial(metric_without_queries, _host), "no queries"),
        f"{_host.name}, NaN score": (partial(called, _host, value=np.nan), "scores: .*got nan in row 5"),
        f"{_host.name}, infinite score": (partial(called, _host, value=-np.inf), "scores: .*got -inf in row 5"),
        f"{_host.name}, label 31": (
            lambda d, host=_host: trained(host, changed(d, y=spoiled(d.y, 31))),
            "exp2.* label of 31",
        ),
        f"{_host.name}, label -1": (
            lambda d, host=_host: trained(host, changed(d, y=spoiled(d.y, -1))),
            "exp2.* label of -1",
        ),
        f"{_host.name}, labels= too short": (
            lambda d, host=_host: trained(host, d, lp.LambdaRank("map", labels=d.y[1:])),
            "labels=: expected one value per row",
        ),
    }


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case, data):
    act, message = REFUSED[case]
    with pytest.raises(lp.LambdaplugError, match=message):
        act(data)


def test_a_refused_parameter_can_be_taken_back(data):
    made = LightGBM.data(data)
    with pytest.raises(lp.LambdaplugError, match="bagging_by_query"):
        LightGBM.train(lp.LambdaRank("map"), made, bagging_by_query=True)
    booster = LightGBM.train(lp.LambdaRank("map"), made)
    assert LightGBM.trees(booster) == LightGBM.trees(LightGBM.train(lp.LambdaRank("map"), LightGBM.data(data)))


def test_a_masked_label_is_none(data):
    # Where NaN stands for no label, so does a masked value; without any, a mask says nothing.
    scores, clicks = data.scores(), (data.y > 2).astype(float)
    found = [
        lp.LambdaRank("map", labels=labels).gradients(data.y, scores, data.group)
        for labels in (masked(clicks), spoiled(clicks, np.nan))
    ]
    assert_same_arrays(*found)
    assert_same_arrays(gradients(data, labels=np.ma.masked_array(data.y, False)), gradients(data))


@HOSTS
def test_labels_that_no_gain_of_the_hosts_takes(host, data):
    # Floats and labels beyond 31 are fatal to the hosts' own ranking; a linear gain takes them.
    float_labels = changed(data, y=data.y * 10.5 - 3)
    objective = lp.LambdaRank(lp.NDCG(k=10, gain=lambda label: label + 3))
    booster = host.train(objective, host.data(float_labels), 15)
    scores = host.predict(booster, data.X)
    assert lp.evaluate("ndcg@10", data.y, scores, data.group)["ndcg@10"] > 0.8


# --- rounds that learn nothing -----------------------------------------------------------------------------------


WAYS = {
    "lgb.train": lambda data, **how: LightGBM.train(lp.LambdaRank("map"), LightGBM.data(data), **how),
    "lp.LGBMRanker": lambda data, **how: fit(LightGBMRanker, lp.LGBMRanker, data, **how),
    "lgb.LGBMRanker": lambda data, **how: fit(LightGBMRanker, lgb.LGBMRanker, data, **how),
    "xgb.train": lambda data, **how: XGBoost.train(lp.LambdaRank("map"), XGBoost.data(data), **how),
    "lp.XGBRanker": lambda data, **how: fit(XGBoostRanker, lp.XGBRanker, data, **how),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_training_without_splits_is_warned_of_once(way, data):
    settings = NO_SPLIT["XGBoost" if "xgb" in way.lower() else "LightGBM"]
    with pytest.warns(lp.LambdaplugWarning, match=next(iter(settings))) as caught:
        WAYS[way](data, **settings)
    assert sum(issubclass(warning.category, lp.LambdaplugWarning) for warning in caught) == 1


FLOORS = {
    "LightGBM": {"num_leaves": 31, "min_sum_hessian_in_leaf": 40},
    "XGBoost": {"max_depth": 6, "min_child_weight": 40},
}
AFTER = 11  # the trees are first looked at after ten rounds


def cross_validated(host, data, **how):
    parameters = {**host.parameters, **how}
    if host is LightGBM:
        folds = lp.query_folds(data.group, 2)
        lgb.cv(
            {**parameters, "objective": lp.LambdaRank("mrr")},
            host.data(data),
            AFTER,
            folds=folds,
            feval=lp.metric("mrr"),
        )
    else:
        xgb.cv(parameters, host.data(data), AFTER, nfold=2, obj=lp.LambdaRank("mrr"), custom_metric=lp.metric("mrr"))


def continued(host, data, **how):
    objective = lp.LambdaRank("mrr")
    first = host.train(
        objective, host.data(data), 3, **{**how, **{name: 1e-3 for name in how if name.startswith("min")}}
    )
    host.train(objective, host.data(data), AFTER, model=first, **how)


LONGER = {
    "train": lambda host, data, **how: host.train(lp.LambdaRank("mrr"), host.data(data), AFTER, **how),
    "cv": cross_validated,
    "continued": continued,
    "ranker": lambda host, data, **how: fit(
        {LightGBM: LightGBMRanker, XGBoost: XGBoostRanker}[host],
        {LightGBM: lp.LGBMRanker, XGBoost: lp.XGBRanker}[host],
        data,
        n_estimators=AFTER,
        **how,
    ),
    "dart": lambda host, data, **how: host.train(
        lp.LambdaRank("mrr"), host.data(data), AFTER, **{"boosting" if host is LightGBM else "booster": "dart"}, **how
    ),
    "sampled": lambda host, data, **how: host.train(
        lp.LambdaRank("mrr"),
        host.data(data),
        AFTER,
        **({"bagging_fraction": 0.5, "bagging_freq": 1} if host is LightGBM else {"subsample": 0.5}),
        **how,
    ),
}


@HOSTS
@pytest.mark.parametrize("way", LONGER)
def test_trees_that_the_hessians_keep_small_are_warned_of_once(host, way, data):
    settings = FLOORS[host.name]
    with pytest.warns(lp.LambdaplugWarning, match=rf"trees are small.*could grow \d+.*{list(settings)[1]}") as caught:
        LONGER[way](host, data, **settings)
    ours = [warning for warning in caught if issubclass(warning.category, lp.LambdaplugWarning)]
    assert len(ours) == (2 if way == "cv" else 1)  # each fold is a training


def test_weights_that_add_up_to_one_are_warned_of(data):
    made = XGBoost.data(data, np.full(len(data.group), 5 / len(data.group)))
    with pytest.warns(lp.LambdaplugWarning, match=r"trees are small: the last 5 have \d leaves.*could grow 64"):
        xgb.train({"disable_default_eval_metric": 1, "nthread": 1}, made, AFTER, obj=lp.LambdaRank("mrr"))


SLOW = {"disable_default_eval_metric": 1, "nthread": 1, "learning_rate": 0.1}
LONG = 41  # the last look is after forty rounds


def learned(name, data, made, **how):
    """What 41 slow rounds make of the training data, and the leaves of the last trees."""
    booster = xgb.train({**SLOW, **how}, made, LONG, obj=lp.LambdaRank(name))
    value = lp.evaluate(name, data.y, booster.predict(made), data.group)[name]
    return value, np.median([tree.count("leaf=") for tree in booster.get_dump()[-5:]])


def test_trees_that_the_hessians_keep_small_later_on_are_warned_of(data):
    made = XGBoost.data(data, np.full(len(data.group), 0.25))
    with pytest.warns(lp.LambdaplugWarning, match="trees are small") as caught:
        found, leaves = learned("ndcg", data, made)
    assert len(caught) == 1
    without, more = learned("ndcg", data, made, min_child_weight=0)
    assert leaves < more / 2
    assert found < without - 0.008


@pytest.mark.parametrize("name", ["mrr", "ndcg", "map"])
def test_trees_that_shrink_as_all_is_learnt_are_not_warned_of(name, data):
    found, leaves = learned(name, data, XGBoost.data(data))
    without, more = learned(name, data, XGBoost.data(data), min_child_weight=0)
    assert leaves < more
    assert found > without - 0.008


LARGE_ENOUGH = {
    "ordinary": ({}, {}),
    "a limit on the gain": ({"min_gain_to_split": 5}, {"gamma": 5}),
    "shallow": ({"max_depth": 2}, {"max_depth": 2}),
    "large leaves": ({"min_data_in_leaf": 700}, {"max_leaves": 4, "max_depth": 0}),
}


# The settings of pytest turn an unwarranted warning into an error.
@HOSTS
@pytest.mark.parametrize("case", LARGE_ENOUGH)
@pytest.mark.parametrize("name", ["mrr", "ndcg@10"])
def test_trees_that_are_small_for_another_reason_are_not_warned_of(host, case, name, data):
    how = LARGE_ENOUGH[case][host is XGBoost]
    if host is LightGBM:
        lgb.train({"verbosity": -1, "num_threads": 1, "objective": lp.LambdaRank(name), **how}, host.data(data), AFTER)
    else:
        plain = {"disable_default_eval_metric": 1, "nthread": 1, **how}
        xgb.train(plain, host.data(data), AFTER, obj=lp.LambdaRank(name))


@HOSTS
@pytest.mark.parametrize("case", ["two values", "few rows", "gradient step"])
def test_small_data_are_not_warned_of(host, case, data):
    objective = lp.LambdaRank("mrr", step="gradient" if case == "gradient step" else "newton")
    if case == "two values":
        data = changed(data, X=(data.X[:, :2] > 0).astype(float))
    elif case == "few rows":
        data = data.part(data.qid < 40)
    host.train(objective, host.data(data), AFTER, **{**FLOORS[host.name], list(FLOORS[host.name])[1]: 1})


@HOSTS
@pytest.mark.parametrize("rate", [1e-3, 0.2])
def test_an_ordinary_training_is_not_warned_of(host, rate, data):
    host.train(lp.LambdaRank("map"), host.data(data), 15, learning_rate=rate)


@HOSTS
def test_short_trainings_on_one_data_set_are_not_warned_of(host, data):
    # Each begins from the same scores, which is not a round that changed nothing.
    objective, made = lp.LambdaRank("map"), host.data(data)
    for _ in range(3):
        host.train(objective, made, 1)


@HOSTS
def test_asking_twice_for_the_same_gradients_is_not_warned_of(host, data):
    objective, made = lp.LambdaRank("map"), host.built(data)
    assert_same_arrays(objective(data.scores(), made), objective(data.scores(), made))


@HOSTS
@pytest.mark.parametrize("how", ["mirrored", "a little"])
def test_rounds_that_move_scores_at_equal_spread_are_not_warned_of(host, how, data):
    # Late in a long training the scores' variance hardly changes any more, but the trees still move them.
    before = 3 * data.scores()
    if how == "mirrored":
        after = -before
    else:  # two leaves, far above float32's rounding, and yet no change of the mean, the variance or any trend
        known = np.stack([np.ones(data.rows), before, np.arange(data.rows)], axis=1)
        leaf = np.where(data.X[:, 0] > 0, 0.002, -0.002)
        after = before + leaf - known @ np.linalg.lstsq(known, leaf, rcond=None)[0]
    objective, turn = lp.LambdaRank("map"), itertools.cycle([before.astype(np.float32), after.astype(np.float32)])
    host.train(lambda _, made: objective(next(turn), made), host.data(data), 4)


@HOSTS
def test_nothing_left_to_learn_is_not_warned_of(host, data):
    # Equal scores stand in row order, which is ideal here: every document keeps its place, and no split is right.
    first = np.zeros(data.rows)
    first[np.cumsum(data.group) - data.group] = 1.0
    objective = lp.LambdaRank("ndcg", construction="discrete_bounded")
    booster = host.train(objective, host.data(changed(data, y=first)), 3)
    assert np.ptp(host.predict(booster, data.X)) == 0


# --- continued, saved, imported ----------------------------------------------------------------------------------


@HOSTS
@pytest.mark.parametrize("name", OBJECTIVES)
def test_five_rounds_and_five_more_are_ten(host, name, data):
    objective = OBJECTIVES[name]
    half = host.train(objective, host.data(data), 5)
    continued = host.train(objective, host.data(data), 5, model=half)
    whole = host.train(objective, host.data(data), 10)
    np.testing.assert_array_equal(host.predict(continued, data.X), host.predict(whole, data.X))
    assert not np.array_equal(host.predict(half, data.X), host.predict(whole, data.X))


def run(code, *arguments):
    """Run Python code in a process of its own; what it prints."""
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_lambdaplug_imports_neither_host():
    code = """
import sys
import lambdaplug as lp
lp.LambdaRank("map").gradients([0, 1], [1.0, 2.0], [2])
lp.evaluate("map", [0, 1], [1, 2], [2])
print([name for name in ("lightgbm", "xgboost", "sklearn", "pandas") if name in sys.modules])
"""
    assert run(code).strip() == "[]"


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


def test_saved_models_predict_without_lambdaplug(data, tmp_path):
    objective = lp.LambdaRank("ndcg@10")
    expected = []
    for host in (LightGBM, XGBoost):
        booster = host.train(objective, host.data(data))
        booster.save_model(tmp_path / f"{host.name}.{'txt' if host is LightGBM else 'json'}")
        expected.append(host.predict(booster, data.X))
    np.save(tmp_path / "X.npy", data.X)
    code = """
import sys
from pathlib import Path
sys.modules["lambdaplug"] = None  # importing it raises ImportError
import lightgbm as lgb
import numpy as np
import xgboost as xgb
folder = Path(sys.argv[1])
X = np.load(folder / "X.npy")
np.save(folder / "0.npy", lgb.Booster(model_file=folder / "LightGBM.txt").predict(X))
np.save(folder / "1.npy", xgb.Booster(model_file=folder / "XGBoost.json").predict(xgb.DMatrix(X)))
"""
    run(code, str(tmp_path))
    assert_same_arrays([np.load(tmp_path / f"{index}.npy") for index in range(2)], expected)


def test_a_list_of_metrics_may_have_ours_and_xgboosts(data):
    ranker = lp.XGBRanker(
        objective=lp.LambdaRank("map"), n_estimators=2, eval_metric=[lp.metric("map"), "ndcg@3", lp.metric("mrr")]
    )
    ranker.fit(data.X, data.y, qid=data.qid, eval_set=[(data.X, data.y)], eval_qid=[data.qid])
    assert list(ranker.evals_result()["validation_0"]) == ["ndcg@3", "map", "mrr"]
    assert len(ranker.eval_metric) == 3
