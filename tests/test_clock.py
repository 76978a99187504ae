"""Objectives that change with the iteration, in both hosts: the clock, its callback, and the hosts' traps."""

import copy
import os
import pickle
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import cloudpickle
import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb
from sklearn.base import clone
from sklearn.model_selection import GroupKFold

import lambdaplug as lp
from lambdaplug.objectives import Mixture

ROOT = Path(__file__).parent.parent
LGB = {
    "num_threads": 1,
    "verbose": -1,
    "num_leaves": 7,
    "learning_rate": 0.3,
    "min_sum_hessian_in_leaf": 0,
    "metric": "None",
}
XGB = {
    "nthread": 1,
    "max_depth": 3,
    "min_child_weight": 0,
    "lambda": 0.01,
    "base_score": 0.0,
    "disable_default_eval_metric": 1,
}


@pytest.fixture(scope="module")
def data():
    return lp.data.cubic(queries=80, documents=15, features=8, terms=10, noise=0.2)


@pytest.fixture
def recorded(monkeypatch):
    """The iterations at which any mixture was asked for its weights, with the thread that asked."""
    seen = []
    original = Mixture.accumulate

    def accumulate(self, ranking, task, *rest):
        if task.first == 0 and task.part == 0:
            seen.append((threading.current_thread().name, ranking.iteration))
        original(self, ranking, task, *rest)

    monkeypatch.setattr(Mixture, "accumulate", accumulate)
    return seen


def moving(rate=0.05):
    return lp.Mixture(
        [(lambda m: 1 - min(rate * m, 1.0), lp.LambdaRank("ndcg")), (lp.linear(0.0, rate), lp.LambdaRank("map"))]
    )


def lgb_data(data):
    return lgb.Dataset(data.X, data.labels, group=data.group, free_raw_data=False)


def xgb_data(data):
    return xgb.DMatrix(data.X, data.labels, qid=data.qid)


def train_lgb(objective, data, rounds, callbacks=None, **options):
    callbacks = [lp.callback(objective)] if callbacks is None else callbacks
    return lgb.train({"objective": objective, **LGB}, lgb_data(data), rounds, callbacks=callbacks, **options)


def train_xgb(objective, data, rounds, callbacks=None, **options):
    callbacks = [lp.callback(objective)] if callbacks is None else callbacks
    return xgb.train(XGB, xgb_data(data), rounds, obj=objective, callbacks=callbacks, **options)


TRAIN = {"lightgbm": train_lgb, "xgboost": train_xgb}


def dump(model):
    return (
        model.get_dump() if isinstance(model, xgb.Booster) else [str(tree) for tree in model.dump_model()["tree_info"]]
    )


@pytest.mark.parametrize("host", TRAIN)
def test_every_round_sees_its_iteration(host, data, recorded):
    TRAIN[host](moving(), data, 6)
    assert [iteration for _, iteration in recorded] == [0, 1, 2, 3, 4, 5]


def test_both_hosts_see_the_same_gradient_at_the_same_iteration(data):
    objective, scores = moving(), np.random.default_rng(0).normal(size=len(data.labels)).astype(np.float32)
    ticking = lp.callback(objective)
    sets = lgb_data(data).construct(), xgb_data(data)
    for iteration in (0, 7, 30):
        expected = objective.gradients(scores, data.labels, data.group, iteration=iteration)
        for made in sets:
            ticking.tick(iteration)
            np.testing.assert_array_equal(objective(scores, made), expected)


@pytest.mark.parametrize("host", TRAIN)
def test_fifty_and_fifty_rounds_are_a_hundred(host, data):
    # Both hosts hand the first model's trees on; XGBoost starts its count of epochs anew.
    objective = lp.interpolate(lp.LambdaRank("ndcg"), lp.LambdaRank("map"), lp.linear(0.0, 0.01))
    if host == "lightgbm":
        # LightGBM continues from predicted scores; one bin boundary apart, they would round differently in float32.
        half = train_lgb(objective, data, 50)
        continued = train_lgb(objective, data, 50, init_model=half)
        whole = train_lgb(objective, data, 100)
        np.testing.assert_array_equal(continued.predict(data.X), whole.predict(data.X))
        assert [t["tree_structure"] for t in continued.dump_model()["tree_info"]] == [
            t["tree_structure"] for t in whole.dump_model()["tree_info"]
        ]
    else:
        half = train_xgb(objective, data, 50)
        continued = train_xgb(objective, data, 50, xgb_model=half)
        assert continued.get_dump() == train_xgb(objective, data, 100).get_dump()


@pytest.mark.parametrize("host", TRAIN)
def test_a_clock_that_nobody_ticks_is_an_error_with_the_line_to_add(host, data):
    objective = moving()
    with pytest.raises(lp.LambdaplugError, match=r"callbacks=\[lp.callback\(objective\)\]"):
        TRAIN[host](objective, data, 3, callbacks=[])
    # Also after a training that did tick, on the same data or on other.
    TRAIN[host](objective, data, 2)
    with pytest.raises(lp.LambdaplugError, match="nobody tells"):
        TRAIN[host](objective, data, 3, callbacks=[])
    # The callback of a part is not that of the whole.
    part = moving()
    with pytest.raises(lp.LambdaplugError, match="nobody tells"):
        TRAIN[host](lp.Mixture([(1.0, part)]), data, 3, callbacks=[lp.callback(part)])


@pytest.mark.parametrize("host", TRAIN)
def test_a_constant_objective_needs_no_callback_and_takes_one(host, data):
    objective = lp.Mixture([(0.5, lp.LambdaRank("ndcg")), (0.5, lp.LambdaRank("map"))])
    assert dump(TRAIN[host](objective, data, 4, callbacks=[])) == dump(TRAIN[host](objective, data, 4))
    TRAIN[host](lp.LambdaRank("map"), data, 2)


def test_the_wrong_loop_is_told_so_and_the_right_one_works(data, recorded):
    objective = moving()
    booster = lgb.Booster(LGB | {"objective": "none"}, lgb_data(data))
    ticking = lp.callback(objective)
    for i in range(3):
        ticking.tick(i)
        booster.update(fobj=objective)
    with pytest.raises(lp.LambdaplugError, match=r"call lp.callback\(objective\).tick\(i\)"):
        booster.update(fobj=objective)
    assert [iteration for _, iteration in recorded] == [0, 1, 2]


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x)), clone])
@pytest.mark.parametrize("host", TRAIN)
def test_copies_share_the_clock(how, host, data, recorded):
    if how is clone:
        estimator = clone(lp.LGBMRanker(objective=moving()))
        copied = objective = estimator.objective
    else:
        objective = lp.Mixture([(0.5, lp.LambdaRank("ndcg")), (lp.linear(0.1, 0.1), lp.LambdaRank("map"))])
        copied = how(objective)
    TRAIN[host](copied, data, 3, callbacks=[lp.callback(objective)])
    assert [iteration for _, iteration in recorded] == [0, 1, 2]


def test_objective_and_callback_meet_again_when_pickled_apart(data, recorded):
    objective = moving()
    texts = [cloudpickle.dumps(thing) for thing in (objective, lp.callback(objective))]
    assert max(map(len, texts)) < 5000
    del objective
    other, ticking = (cloudpickle.loads(text) for text in texts)
    train_xgb(other, data, 2, callbacks=[ticking])
    assert [iteration for _, iteration in recorded] == [0, 1]


@pytest.mark.parametrize("host", TRAIN)
def test_trainings_in_threads_keep_their_own_time(host, data):
    objective = moving()
    alone = {rounds: dump(TRAIN[host](objective, data, rounds)) for rounds in (5, 12)}
    results, barrier = {}, threading.Barrier(2)

    def run(rounds):
        barrier.wait()
        results[rounds] = dump(TRAIN[host](objective, data, rounds))

    workers = [threading.Thread(target=run, args=(rounds,)) for rounds in alone]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert results == alone


def test_lightgbm_cv_ticks_once_for_all_folds(data, recorded):
    objective = moving()
    folds = lp.query_folds(data.group, 3)
    for choice in (folds, GroupKFold(3)):
        recorded.clear()
        lgb.cv(
            {"objective": objective, **LGB},
            lgb_data(data),
            4,
            folds=choice,
            feval=lp.metric("map"),
            callbacks=[lp.callback(objective)],
        )
        assert [iteration for _, iteration in recorded] == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]


def test_xgboost_cv_ticks_once_for_all_folds(data, recorded):
    objective = moving()
    xgb.cv(
        XGB,
        xgb_data(data),
        3,
        nfold=2,
        obj=objective,
        custom_metric=lp.metric("map"),
        callbacks=[lp.callback(objective)],
    )
    assert [iteration for _, iteration in recorded] == [0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize("host", TRAIN)
def test_early_stopping_goes_along(host, data):
    objective = moving()
    train, valid = data.split(0.7, 0.3)
    if host == "lightgbm":
        checks = [lgb.Dataset(valid.X, valid.labels, group=valid.group)]
        stopping = [lgb.early_stopping(3, verbose=False), lp.callback(objective)]
        model = train_lgb(objective, train, 80, callbacks=stopping, valid_sets=checks, feval=lp.metric("map"))
        assert model.num_trees() < 80
    else:
        model = train_xgb(
            objective,
            train,
            80,
            evals=[(xgb_data(valid), "valid")],
            custom_metric=lp.metric("map"),
            early_stopping_rounds=3,
            verbose_eval=False,
        )
        assert model.num_boosted_rounds() < 80
    assert dump(model)[:3] == dump(TRAIN[host](objective, train, 3))[:3]


def test_the_rankers_bring_the_callback(data, recorded):
    objective = moving()
    lp.LGBMRanker(objective=objective, n_estimators=3, verbose=-1).fit(data.X, data.labels, group=data.group)
    lp.XGBRanker(objective=objective, n_estimators=3, min_child_weight=0).fit(data.X, data.labels, qid=data.qid)
    assert [iteration for _, iteration in recorded] == [0, 1, 2, 0, 1, 2]
    # One's own is used where there is one, and not doubled.
    watching = lp.interpolate(lp.LambdaRank("ndcg"), lp.LambdaRank("map"), lp.on_plateau("ndcg@3", 1, step=0.5))
    ticking = lp.callback(watching)
    checks = {"eval_X": (data.X.copy(),), "eval_y": (data.labels,), "eval_group": [data.group]}
    ranker = lp.LGBMRanker(objective=watching, n_estimators=6, verbose=-1, num_threads=1)
    try:
        ranker.fit(data.X, data.labels, group=data.group, callbacks=[ticking], **checks)
    except TypeError:  # before LightGBM 4.7
        checks = {"eval_set": [(data.X.copy(), data.labels)], "eval_group": [data.group]}
        ranker.fit(data.X, data.labels, group=data.group, callbacks=[ticking], **checks)
    assert [row["iteration"] for row in ticking.trace] == [0, 1, 2, 3, 4, 5]
    with pytest.raises(lp.LambdaplugError, match=r"use lp.LGBMRanker"):
        lgb.LGBMRanker(objective=objective, n_estimators=3, verbose=-1).fit(data.X, data.labels, group=data.group)


def test_schedules_compile_nothing(data, monkeypatch):
    from numba.core import compiler

    objective = moving()
    train_xgb(objective, data, 1)

    def refuse(self, function):  # noqa: ARG001
        raise AssertionError(f"compiles {function}")

    monkeypatch.setattr(compiler.CompilerBase, "compile_extra", refuse)
    train_xgb(objective, data, 5)


@pytest.mark.parametrize("host", TRAIN)
def test_a_plateau_is_seen_through_the_callback(host, data):
    train, valid = data.split(0.7, 0.3)
    objective = lp.interpolate(
        lp.LambdaRank("ndcg"), lp.LambdaRank("map"), lp.on_plateau("ndcg@3", patience=2, start=0.0, step=0.25)
    )
    ticking = lp.callback(objective)
    rounds = 30
    if host == "lightgbm":
        checks = {"valid_sets": [lgb.Dataset(valid.X, valid.labels, group=valid.group, free_raw_data=False)]}
        train_lgb(objective, train, rounds, callbacks=[ticking], **checks)
    else:
        checks = {"evals": [(xgb_data(valid), "valid")], "verbose_eval": False}
        train_xgb(objective, train, rounds, callbacks=[ticking], custom_metric=lp.metric("ndcg@3"), **checks)
    assert [row["iteration"] for row in ticking.trace] == list(range(rounds))
    weights = [row["weight"] for row in ticking.trace]
    values = [row["ndcg@3"] for row in ticking.trace]
    schedule, memory, expected = objective.weight, {}, []
    for value in values:
        expected.append(schedule.value(memory))
        schedule.observe(value, memory)
    assert weights == expected
    assert weights[0] == 0.0
    assert weights[-1] > 0.0
    # A new training starts anew.
    TRAIN[host](
        objective,
        train,
        2,
        callbacks=[ticking],
        **checks,
        **({"custom_metric": lp.metric("ndcg@3")} if host == "xgboost" else {}),
    )
    assert ticking.trace[0]["weight"] == 0.0


def test_a_loop_of_ones_own_is_followed_from_before_its_rounds(data):
    from lightgbm.callback import CallbackEnv

    train, valid = data.split(0.7, 0.3)
    objective = lp.interpolate(lp.LambdaRank("ndcg"), lp.LambdaRank("map"), lp.on_plateau("ndcg@3", 1, step=0.5))
    followers = lp.callback(objective), lp.record(valid.X, valid.labels, valid.group, lp.analysis.Measured("ndcg@3"))
    booster = lgb.Booster({"verbose": -1, "num_threads": 1}, lgb.Dataset(train.X, train.labels, group=train.group))
    booster.add_valid(lgb.Dataset(valid.X, valid.labels, group=valid.group, reference=booster.train_set), "valid")
    for iteration in range(4):
        for follower in followers:
            follower(CallbackEnv(booster, {}, iteration, 0, 4, None))
        booster.update(fobj=objective)
    assert [row["iteration"] for row in followers[0].trace] == [0, 1, 2]  # nobody looks after the last
    assert followers[1].curves.iterations.tolist() == [1, 2, 3]
    np.testing.assert_allclose([row["ndcg@3"] for row in followers[0].trace], followers[1].curves["ndcg@3"])


@pytest.mark.parametrize("host", TRAIN)
def test_a_guard_keeps_the_first_tier_above_its_floor(host, data):
    train, valid = data.split(0.7, 0.3)
    against = lp.LambdaRank("ndcg(gain='linear')", labels=4 - train.labels)  # a second source that wants the opposite
    rounds = 40

    second = lp.metric("dcg@3(gain='linear')", labels=4 - valid.labels)

    def run(guard):
        objective = lp.Mixture([(0.1, lp.LambdaRank("ndcg")), (0.9, against)], guard=guard)
        ticking = lp.callback(objective, metric=second)
        if host == "lightgbm":
            checks = {"valid_sets": [lgb.Dataset(valid.X, valid.labels, group=valid.group)]}
            model = train_lgb(objective, train, rounds, callbacks=[ticking], **checks)
            scores = model.predict(valid.X)
        else:
            checks = {"evals": [(xgb_data(valid), "valid")], "verbose_eval": False}
            both = lp.metric("ndcg@3") + second
            model = train_xgb(objective, train, rounds, callbacks=[ticking], custom_metric=both, **checks)
            scores = model.predict(xgb_data(valid))
        return lp.evaluate("ndcg@3", valid.labels, scores, valid.group)["ndcg@3"], ticking.trace

    free, _ = run(None)
    guarded, trace = run(lp.guard("ndcg@3", floor=0.45))
    assert guarded > free + 0.1
    assert min(row["weight"] for row in trace) < 0.3
    assert all(set(row) == {"iteration", "weight", "ndcg@3", "dcg@3(gain='linear')"} for row in trace)


def test_a_watched_metric_that_is_not_evaluated_is_an_error(data):
    objective = lp.interpolate(lp.LambdaRank("ndcg"), lp.LambdaRank("map"), lp.on_plateau("ndcg@3"))
    with pytest.raises(lp.LambdaplugError, match=r"watches 'ndcg@3'.*valid_sets"):
        train_lgb(objective, data, 3)
    with pytest.raises(lp.LambdaplugError, match=r"watches 'ndcg@3'.*custom_metric"):
        train_xgb(
            objective, data, 3, evals=[(xgb_data(data), "valid")], custom_metric=lp.metric("map"), verbose_eval=False
        )
    with pytest.raises(lp.LambdaplugError, match="expected an objective"):
        lp.callback("ndcg")


def test_another_label_source_follows_its_rows(data):
    clicks = np.random.default_rng(0).random(len(data.labels))
    objective = lp.Graded([lp.LambdaRank("ndcg"), lp.LambdaRank("cndcg", labels=clicks)], weights=[0.5, 0.5])
    whole = lgb_data(data).construct()
    rows = np.flatnonzero(data.qid % 3 != 0)
    part = whole.subset(rows.tolist()).construct()
    scores = np.random.default_rng(1).normal(size=len(rows))
    sizes = data.group[np.arange(len(data.group)) % 3 != 0]
    direct = lp.Graded([lp.LambdaRank("ndcg"), lp.LambdaRank("cndcg", labels=clicks[rows])], weights=[0.5, 0.5])
    np.testing.assert_array_equal(objective(scores, part), direct.gradients(scores, data.labels[rows], sizes))
    with pytest.raises(lp.LambdaplugError, match="a slice of an XGBoost DMatrix does not say which rows"):
        xgb.cv(XGB, xgb_data(data), 3, nfold=2, obj=objective)


@pytest.mark.parametrize("host", TRAIN)
def test_a_watched_metric_is_the_mean_over_the_folds(host, data):
    objective = lp.interpolate(
        lp.LambdaRank("ndcg"), lp.LambdaRank("map"), lp.on_plateau("ndcg@3", patience=1, start=0.0, step=0.5)
    )
    ticking, metric = lp.callback(objective), lp.metric("ndcg@3")
    if host == "lightgbm":
        folds = lp.query_folds(data.group, 3)
        results = lgb.cv(
            {"objective": objective, **LGB}, lgb_data(data), 8, folds=folds, feval=metric, callbacks=[ticking]
        )
        means = results["valid ndcg@3-mean"]
    else:
        results = xgb.cv(
            XGB, xgb_data(data), 8, nfold=3, obj=objective, custom_metric=metric, callbacks=[ticking], as_pandas=False
        )
        means = results["test-ndcg@3-mean"]
    seen = [row["ndcg@3"] for row in ticking.trace]
    assert seen == pytest.approx(means[: len(seen)], abs=1e-6)
    assert len(seen) >= 7


def test_a_built_in_metric_of_the_same_name_is_not_watched(data):
    train, valid = data.split(0.7, 0.3)
    traces = []
    for metric in ("None", "ndcg"):
        objective = lp.interpolate(lp.LambdaRank("ndcg"), lp.LambdaRank("map"), lp.on_plateau("ndcg@3", 2))
        ticking = lp.callback(objective, metric=lp.metric("ndcg@3", "map"))  # one of them is watched already
        checks = [lgb.Dataset(valid.X, valid.labels, group=valid.group)]
        parameters = {"objective": objective, **LGB, "metric": metric, "eval_at": [3]}
        made = lgb_data(train)
        lgb.train(parameters, made, 4, valid_sets=checks, callbacks=[ticking])
        traces.append(ticking.trace)
    assert traces[0] == traces[1]
    assert set(traces[0][0]) == {"iteration", "weight", "ndcg@3", "map"}


def test_the_trace_shows_the_weight_that_the_metric_moves(data):
    train, valid = data.split(0.7, 0.3)
    inner = lp.interpolate(
        lp.LambdaRank("ndcg"), lp.LambdaRank("map"), lp.on_plateau("ndcg@3", 1, start=0.25, step=0.25)
    )
    objective = lp.Mixture([(1.0, inner)])
    ticking = lp.callback(objective)
    train_lgb(objective, train, 5, [ticking], valid_sets=[lgb.Dataset(valid.X, valid.labels, group=valid.group)])
    assert ticking.trace[0]["weight"] == 0.25


def test_the_lightgbm_ranker_evaluates_what_it_trains_for(data):
    train, valid = data.split(0.7, 0.3)
    floats = valid.labels + 0.5  # fatal to LightGBM's own ndcg, which nobody asked for
    ranker = lp.LGBMRanker(objective=lp.LambdaRank("ndcg@3(gain='linear')"), n_estimators=3, verbose=-1, num_threads=1)
    checks = {"eval_set": [(valid.X, floats)], "eval_group": [valid.group]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # eval_set is deprecated by the newest LightGBM only
        ranker.fit(train.X, train.labels + 0.5, group=train.group, **checks)
        assert {name: len(curve) for name, curve in ranker.evals_result_["valid_0"].items()} == {
            "ndcg@3(gain='linear')": 3
        }
        ranker.fit(train.X, train.labels, group=train.group, eval_metric=lp.metric("ndcg@3", "map"), **checks)
    assert {name: len(curve) for name, curve in ranker.evals_result_["valid_0"].items()} == {"ndcg@3": 3, "map": 3}


def test_a_callback_made_before_xgboost_was_imported_is_taken():
    code = """
import lambdaplug as lp
objective = lp.interpolate(lp.LambdaRank("ndcg"), lp.LambdaRank("map"), lp.linear(0.0, 0.1))
ticking = lp.callback(objective)
import xgboost as xgb
data = lp.data.cubic(10, documents=5, features=3)
xgb.train({}, xgb.DMatrix(data.X, data.labels, qid=data.qid), 2, obj=objective, callbacks=[ticking])
"""
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
