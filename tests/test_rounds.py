"""Objectives that change with the iteration, in both hosts: which round it is, the callback, and the hosts' traps."""

import contextlib
import gc
import os
import subprocess
import sys
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import cloudpickle
import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb

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
    original = Mixture.at

    def at(self, round):
        seen.append((threading.current_thread().name, round.iteration))
        return original(self, round)

    monkeypatch.setattr(Mixture, "at", at)
    return seen


def moving(rate=0.05):
    return lp.Mixture(
        [(lambda m: 1 - min(rate * m, 1.0), lp.LambdaRank("ndcg")), (lp.linear(0.0, rate), lp.LambdaRank("map"))]
    )


def lgb_data(data):
    made = lgb.Dataset(data.X, data.labels, group=data.group, free_raw_data=False)
    return lp.attach(made, against=4 - data.labels)


def xgb_data(data):
    return lp.attach(xgb.DMatrix(data.X, data.labels, qid=data.qid), against=4 - data.labels)


def train_lgb(objective, data, rounds, callbacks=None, **options):
    return lgb.train({"objective": objective, **LGB}, lgb_data(data), rounds, callbacks=callbacks, **options)


def train_xgb(objective, data, rounds, callbacks=None, **options):
    return xgb.train(XGB, xgb_data(data), rounds, obj=objective, callbacks=callbacks, **options)


TRAIN = {"lightgbm": train_lgb, "xgboost": train_xgb}


def checks(host, data, metric="ndcg@3"):
    """The data set as one to evaluate, which XGBoost has to be told the metric of."""
    if host == "lightgbm":
        return {"valid_sets": [lgb_data(data)]}
    return {"evals": [(xgb_data(data), "valid")], "custom_metric": lp.metric(metric), "verbose_eval": False}


def plateau(*arguments, **options):
    weight = lp.on_plateau("ndcg@3", *arguments, **options)
    return lp.interpolate(lp.LambdaRank("ndcg"), lp.LambdaRank("map"), weight)


def dump(model):
    return (
        model.get_dump() if isinstance(model, xgb.Booster) else [str(tree) for tree in model.dump_model()["tree_info"]]
    )


@pytest.mark.parametrize("host", TRAIN)
@pytest.mark.parametrize("threads", [1, 2])
def test_a_schedule_is_called_once_per_round_on_the_callers_thread(host, threads, data):
    seen = []

    def stateful(iteration):
        seen.append((iteration, threading.current_thread()))
        return 1.0 / len(seen)

    # One schedule in several places, and many small tasks.
    inner = lp.Mixture([(stateful, lp.LambdaRank("mrr")), (1.0, lp.Approx("ndcg", alpha=lambda m: stateful(m) + 1.0))])
    objective = lp.interpolate(lp.LambdaRank("ndcg"), inner, stateful)
    lp.set_num_threads(threads)
    try:
        TRAIN[host](objective, data, 4)
    finally:
        lp.set_num_threads(None)
    assert seen == [
        (m, threading.current_thread()) for m in range(4) for _ in range(2)
    ]  # and once through alpha's lambda


@pytest.mark.parametrize("host", TRAIN)
def test_a_round_without_a_split_counts(host, data, recorded):
    # LightGBM drops such a tree and tries again: a schedule that stood still would never leave that round.
    none = lp.Mixture([(lambda m: 0.0 if 2 <= m < 4 else 1.0, lp.LambdaRank("ndcg"))])
    TRAIN[host](none, data, 6)
    assert [iteration for _, iteration in recorded] == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("host", TRAIN)
def test_where_no_booster_is_found_the_round_must_be_told(host, data, recorded):
    objective = moving()
    expected, ticking, rounds = dump(TRAIN[host](objective, data, 3)), lp.callback(objective), iter(range(3))

    def told(scores, made):
        ticking.tick(next(rounds))
        return objective(scores, made)

    with ThreadPoolExecutor(1) as pool:  # a thread of one's own has no Booster above its calls

        def elsewhere(function):
            recorded.clear()
            return TRAIN[host](lambda *given: pool.submit(function, *given).result(), data, 3)

        with pytest.warns(lp.LambdaplugWarning, match=r"iteration 0.*lp.callback\(objective\).tick\(i\)"):
            elsewhere(objective)
        assert [iteration for _, iteration in recorded] == [0, 0, 0]
        assert dump(elsewhere(told)) == expected
        assert [iteration for _, iteration in recorded] == [0, 1, 2]


STATEFUL = {
    "schedule": moving(),
    "additive": lp.Unbiased(lp.LambdaRank("map"), position="rows"),
    "pairwise": lp.Unbiased(lp.LambdaRank("map"), position="rows", method="pairwise"),
    "multipliers": lp.Pareto([lp.LambdaRank("ndcg"), lp.LambdaRank("mrr")], method="epsilon", bounds=[0.9]),
    "XGBoost's": lp.presets.xgboost("ndcg", unbiased=True),
}


@pytest.mark.parametrize("host", TRAIN)
@pytest.mark.parametrize("name", STATEFUL)
def test_looking_at_a_gradient_is_no_round(host, name, data):
    objective = STATEFUL[name]

    def look(scores, made):
        found = float(np.abs(objective(scores, made)[0]).mean())
        return ("gradient", found, False) if host == "lightgbm" else ("gradient", found)

    plain = TRAIN[host](objective, data, 8)
    if host == "lightgbm":
        made = lgb_data(data)
        seen = lgb.train({"objective": objective, **LGB}, made, 8, valid_sets=[made], feval=look)
    else:
        made = xgb_data(data)
        options = {"evals": [(made, "train")], "custom_metric": look, "verbose_eval": False}
        seen = xgb.train(XGB, made, 8, obj=objective, **options)
    assert dump(seen) == dump(plain)
    if name in ("additive", "pairwise"):
        assert lp.position_bias(seen) == lp.position_bias(plain)


@pytest.mark.parametrize("name", STATEFUL)
def test_an_interrupted_round_is_one_round(name, data):
    objective, calls = STATEFUL[name], []

    def interrupted(scores, made):
        found = objective(scores, made)
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return found

    booster = lgb.Booster(LGB | {"objective": "none"}, lgb_data(data))
    while booster.current_iteration() < 6:
        with contextlib.suppress(KeyboardInterrupt):
            booster.update(fobj=interrupted)
    np.testing.assert_array_equal(booster.predict(data.X), train_lgb(objective, data, 6).predict(data.X))


def test_a_round_that_is_rolled_back_comes_again(data, recorded):
    booster = lgb.Booster(LGB | {"objective": "none"}, lgb_data(data))
    for _ in range(3):
        booster.update(fobj=moving())
    booster.rollback_one_iter()
    booster.update(fobj=moving())
    assert [iteration for _, iteration in recorded] == [0, 1, 2, 2]


@pytest.mark.parametrize("host", TRAIN)
@pytest.mark.parametrize("name", STATEFUL)
def test_what_a_training_learns_keeps_no_booster_alive(host, name, data):
    watched = weakref.ref(TRAIN[host](STATEFUL[name], data, 2))
    gc.collect()
    assert watched() is None


def test_labels_set_during_a_training_are_the_ones_that_count(data):
    others = [np.random.default_rng(seed).permutation(data.labels) for seed in range(12)]

    def relabel(env):
        env.model.train_set.set_label(others[env.iteration])

    def by_hand(scores, made):
        return lp.LambdaRank("ndcg").gradients(made.get_label(), scores, made.get_group())

    right = lgb.train({"objective": by_hand, "num_threads": 1, "verbose": -1}, lgb_data(data), 12, callbacks=[relabel])
    for ranker in (lgb.LGBMRanker, lp.LGBMRanker):
        model = ranker(objective=lp.LambdaRank("ndcg"), n_estimators=12, n_jobs=1, verbose=-1)
        fitted = model.fit(data.X, data.labels, group=data.group, callbacks=[relabel])
        np.testing.assert_allclose(fitted.predict(data.X), right.predict(data.X))


@pytest.mark.parametrize("host", TRAIN)
def test_a_loop_of_ones_own(host, data, recorded):
    objective = moving()
    if host == "lightgbm":
        rows, booster = data.X, lgb.Booster(LGB | {"objective": "none"}, lgb_data(data))
    else:
        rows = xgb_data(data)
        booster = xgb.Booster(XGB, [rows])
    for i in range(3):
        booster.update(*([] if host == "lightgbm" else [rows, i]), fobj=objective)
    assert [iteration for _, iteration in recorded] == [0, 1, 2]
    np.testing.assert_array_equal(booster.predict(rows), TRAIN[host](objective, data, 3).predict(rows))


def test_objective_and_callback_meet_again_when_pickled_apart(data):
    objective = plateau(1, step=0.5)
    texts = [cloudpickle.dumps(thing) for thing in (objective, lp.callback(objective))]
    assert max(map(len, texts)) < 5000
    del objective
    other, following = (cloudpickle.loads(text) for text in texts)
    train_xgb(other, data, 2, callbacks=[following], **checks("xgboost", data))
    assert [row["iteration"] for row in following.trace] == [0, 1]


@pytest.mark.parametrize("host", TRAIN)
def test_what_watches_a_metric_must_be_shown_it(host, data):
    objective = plateau(1, step=0.5)
    with pytest.raises(lp.LambdaplugError, match=r"nothing shows it: add callbacks=\[lp.callback\(objective\)\]"):
        TRAIN[host](objective, data, 3)
    other = lp.interpolate(lp.LambdaRank("ndcg"), lp.LambdaRank("mrr"), lp.on_plateau("ndcg@3", 2, step=0.5))
    with pytest.raises(lp.LambdaplugError, match="another objective"):
        TRAIN[host](objective, data, 3, callbacks=[lp.callback(other)], **checks(host, data))


@pytest.mark.parametrize("host", TRAIN)
def test_cross_validation_counts_alike_in_all_folds(host, data, recorded):
    objective, metric = moving(), lp.metric("map")
    callbacks = [lp.callback(objective)]
    if host == "lightgbm":
        parameters, folds = {"objective": objective, **LGB}, lp.query_folds(data.group, 3)
        lgb.cv(parameters, lgb_data(data), 4, folds=folds, feval=metric, callbacks=callbacks)
    else:
        xgb.cv(XGB, xgb_data(data), 4, nfold=3, obj=objective, custom_metric=metric, callbacks=callbacks)
    assert [iteration for _, iteration in recorded] == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]


@pytest.mark.filterwarnings("ignore:The argument 'eval_set'")  # deprecated by the newest LightGBM only
def test_the_rankers_bring_the_callback(data, recorded):
    objective = moving()
    lp.LGBMRanker(objective=objective, n_estimators=3, verbose=-1).fit(data.X, data.labels, group=data.group)
    lp.XGBRanker(objective=objective, n_estimators=3, min_child_weight=0).fit(data.X, data.labels, qid=data.qid)
    assert [iteration for _, iteration in recorded] == [0, 1, 2, 0, 1, 2]
    # One's own is used where there is one, and not doubled.
    watching = plateau(1, step=0.5)
    ticking = lp.callback(watching)
    sets = {"eval_set": [(data.X.copy(), data.labels)], "eval_group": [data.group]}
    ranker = lp.LGBMRanker(objective=watching, n_estimators=6, verbose=-1, num_threads=1)
    ranker.fit(data.X, data.labels, group=data.group, callbacks=[ticking], **sets)
    assert [row["iteration"] for row in ticking.trace] == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("host", TRAIN)
def test_a_plateau_is_seen_through_the_callback(host, data):
    train, valid = data.split(0.7, 0.3)
    objective, rounds = plateau(patience=2, start=0.0, step=0.25), 30
    ticking = lp.callback(objective)
    for _ in range(2):  # the second training starts anew
        TRAIN[host](objective, train, rounds, callbacks=[ticking], **checks(host, valid))
        assert [row["iteration"] for row in ticking.trace] == list(range(rounds))
        schedule, memory, expected = objective.weight, {}, []
        for row in ticking.trace:
            expected.append(schedule.value(memory))
            schedule.observe(row["ndcg@3"], memory)
        assert [row["weight"] for row in ticking.trace] == expected
        assert expected[0] == 0.0 < expected[-1]


def test_a_loop_of_ones_own_is_followed(data):
    from lightgbm.callback import CallbackEnv

    train, valid = data.split(0.7, 0.3)
    objective = plateau(1, step=0.5)
    followers = lp.callback(objective), lp.analysis.record(valid.X)
    booster = lgb.Booster({"verbose": -1, "num_threads": 1}, lgb.Dataset(train.X, train.labels, group=train.group))
    booster.add_valid(lgb.Dataset(valid.X, valid.labels, group=valid.group, reference=booster.train_set), "valid")
    for iteration in range(4):
        booster.update(fobj=objective)
        for follower in followers:
            follower(CallbackEnv(booster, {}, iteration, 0, 4, None))
    assert [row["iteration"] for row in followers[0].trace] == [0, 1, 2, 3]
    assert followers[1].iterations.tolist() == [1, 2, 3, 4]
    seen = [lp.evaluate("ndcg@3", valid.labels, scores, valid.group)["ndcg@3"] for scores in followers[1].scores]
    np.testing.assert_allclose([row["ndcg@3"] for row in followers[0].trace], seen)


def test_a_watched_metric_that_is_not_evaluated_is_an_error(data):
    objective = plateau()
    with pytest.raises(lp.LambdaplugError, match=r"watches 'ndcg@3'.*valid_sets"):
        train_lgb(objective, data, 3, callbacks=[lp.callback(objective)])
    with pytest.raises(lp.LambdaplugError, match=r"watches 'ndcg@3'.*custom_metric"):
        train_xgb(objective, data, 3, [lp.callback(objective)], **checks("xgboost", data, "map"))
    with pytest.raises(lp.LambdaplugError, match="expected an objective"):
        lp.callback("ndcg")


@pytest.mark.parametrize("host", TRAIN)
def test_a_watched_metric_is_the_mean_over_the_folds(host, data):
    objective, metric = plateau(patience=1, start=0.0, step=0.5), lp.metric("ndcg@3")
    ticking = lp.callback(objective)
    if host == "lightgbm":
        parameters, folds = {"objective": objective, **LGB}, lp.query_folds(data.group, 3)
        results = lgb.cv(parameters, lgb_data(data), 8, folds=folds, feval=metric, callbacks=[ticking])
    else:
        options = {"custom_metric": metric, "callbacks": [ticking], "as_pandas": False}
        results = xgb.cv(XGB, xgb_data(data), 8, nfold=3, obj=objective, **options)
    means = results["valid ndcg@3-mean" if host == "lightgbm" else "test-ndcg@3-mean"]
    seen = [row["ndcg@3"] for row in ticking.trace]
    assert seen == pytest.approx(means[: len(seen)], abs=1e-6)
    assert len(seen) >= 7


def test_a_built_in_metric_of_the_same_name_is_not_watched(data):
    train, valid = data.split(0.7, 0.3)
    traces = []
    for metric in ("None", "ndcg"):
        objective = lp.Mixture([(1.0, plateau(2, start=0.25))])
        ticking = lp.callback(objective, metric=lp.metric("ndcg@3", "map"))  # one of them is watched already
        valid_sets = [lgb.Dataset(valid.X, valid.labels, group=valid.group)]
        parameters = {"objective": objective, **LGB, "metric": metric, "eval_at": [3]}
        made = lgb_data(train)
        lgb.train(parameters, made, 4, valid_sets=valid_sets, callbacks=[ticking])
        traces.append(ticking.trace)
    assert traces[0] == traces[1]
    assert traces[0][0]["weight"] == 0.25  # the one that the metric moves
    assert set(traces[0][0]) == {"iteration", "weight", "ndcg@3", "map"}


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
