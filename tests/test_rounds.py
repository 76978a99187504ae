"""Objectives that change with the iteration, in both hosts: which round it is, the callback, and the hosts' traps."""

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
    return lgb.train({"objective": objective, **LGB}, lgb_data(data), rounds, callbacks=callbacks, **options)


def train_xgb(objective, data, rounds, callbacks=None, **options):
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
        expected = objective.gradients(data.labels, scores, data.group, iteration=iteration)
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


def test_the_plan_of_a_round_holds_plain_numbers():
    weight = lp.linear(0.0, 0.25)
    objective = lp.Mixture(
        [
            (weight, lp.interpolate(lp.LambdaRank("ndcg"), lp.LambdaRank("map"), lp.cosine(0.0, 1.0, 4))),
            (lambda m: m, lp.Approx("ndcg", alpha=lambda m: 1.0 + m, beta=2)),
            (0.5, lp.SPSA("mrr", c=0.4, c_decay=1.0)),
        ],
        guard=lp.guard("ndcg", floor=0.5),
    )
    plan = objective.at(2, {objective.guard: 0.5})
    assert [weight for weight, _ in plan.terms] == [0.5 + 2.5 - 1.25, 1.0, 0.25]
    assert plan.constant is True
    assert plan.watchers == ()
    assert plan.parts[0].weights() == pytest.approx([0.5, 0.5])
    assert (plan.parts[1].alpha, plan.parts[1].beta) == (3.0, 2.0)
    assert plan.parts[2].c == pytest.approx(0.4 / 3)
    assert objective.at(2, {objective.guard: 0.5}) == plan
    with pytest.raises(AttributeError):
        plan.terms = ()


@pytest.mark.parametrize("host", TRAIN)
def test_a_round_without_a_split_counts(host, data, recorded):
    # LightGBM drops such a tree and tries again: a schedule that stood still would never leave that round.
    none = lp.Mixture([(lambda m: 0.0 if 2 <= m < 4 else 1.0, lp.LambdaRank("ndcg"))])
    TRAIN[host](none, data, 6)
    assert [iteration for _, iteration in recorded] == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("host", TRAIN)
def test_a_wrapped_update_still_tells_the_round(host, data, recorded, monkeypatch):
    booster = lgb.Booster if host == "lightgbm" else xgb.Booster
    original = booster.update

    def update(*arguments, **keywords):
        return original(*arguments, **keywords)

    monkeypatch.setattr(booster, "update", update)
    TRAIN[host](moving(), data, 3)
    assert [iteration for _, iteration in recorded] == [0, 1, 2]


@pytest.mark.parametrize("host", TRAIN)
def test_where_no_booster_is_found_rounds_are_counted_with_one_warning(host, data, recorded, monkeypatch):
    # As if the host were compiled: none of its frames can be seen.
    module = sys.modules[f"lambdaplug.hosts.{host}"]
    monkeypatch.setattr(module.HOST, "_booster", threading.Barrier)
    objective = moving()
    with pytest.warns(lp.LambdaplugWarning, match=r"lp.callback\(objective\).tick\(i\)") as caught:
        model = TRAIN[host](objective, data, 3)
    assert [str(warning.message).startswith("Mixture") for warning in caught].count(True) == 1
    assert [iteration for _, iteration in recorded] == [0, 1, 2]
    monkeypatch.undo()
    assert dump(model) == dump(TRAIN[host](objective, data, 3))


@pytest.mark.parametrize("host", TRAIN)
def test_what_watches_no_metric_needs_no_callback_and_takes_one(host, data):
    objective = lp.Mixture([(0.5, lp.LambdaRank("ndcg")), (0.5, lp.LambdaRank("map"))])
    for one in (objective, moving()):
        following = [lp.callback(one)]
        assert dump(TRAIN[host](one, data, 4)) == dump(TRAIN[host](one, data, 4, callbacks=following))


def test_a_loop_of_ones_own(data, recorded):
    objective = moving()
    booster = lgb.Booster(LGB | {"objective": "none"}, lgb_data(data))
    for _ in range(3):
        booster.update(fobj=objective)
    matrix = xgb_data(data)
    booster = xgb.Booster(XGB, [matrix])
    for i in range(3):
        booster.update(matrix, i, objective)
    assert [iteration for _, iteration in recorded] == [0, 1, 2] * 2


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x)), clone])
def test_copies_are_the_same_value(how, data):
    objective = lp.interpolate(lp.LambdaRank("ndcg"), lp.LambdaRank("map"), lp.on_plateau("ndcg@3", 1, step=0.5))
    if how is clone:
        copied = clone(lp.LGBMRanker(objective=objective)).objective
    else:
        copied = how(objective)
    assert copied == objective
    assert hash(copied) == hash(objective)
    following = lp.callback(objective)
    checks = [lgb.Dataset(data.X, data.labels, group=data.group)]
    train_lgb(copied, data, 3, callbacks=[following], valid_sets=checks)
    assert [row["iteration"] for row in following.trace] == [0, 1, 2]


def test_objective_and_callback_meet_again_when_pickled_apart(data):
    objective = lp.interpolate(lp.LambdaRank("ndcg"), lp.LambdaRank("map"), lp.on_plateau("ndcg@3", 1, step=0.5))
    texts = [cloudpickle.dumps(thing) for thing in (objective, lp.callback(objective))]
    assert max(map(len, texts)) < 5000
    del objective
    other, following = (cloudpickle.loads(text) for text in texts)
    checks = {"evals": [(xgb_data(data), "valid")], "verbose_eval": False, "custom_metric": lp.metric("ndcg@3")}
    train_xgb(other, data, 2, callbacks=[following], **checks)
    assert [row["iteration"] for row in following.trace] == [0, 1]


@pytest.mark.parametrize("host", TRAIN)
def test_what_watches_a_metric_must_be_shown_it(host, data):
    objective = lp.interpolate(lp.LambdaRank("ndcg"), lp.LambdaRank("map"), lp.on_plateau("ndcg@3", 1, step=0.5))
    with pytest.raises(lp.LambdaplugError, match=r"nothing shows it: add callbacks=\[lp.callback\(objective\)\]"):
        TRAIN[host](objective, data, 3)
    checks = (
        {"valid_sets": [lgb_data(data)]}
        if host == "lightgbm"
        else {"evals": [(xgb_data(data), "valid")], "verbose_eval": False, "custom_metric": lp.metric("ndcg@3")}
    )
    other = lp.interpolate(lp.LambdaRank("ndcg"), lp.LambdaRank("mrr"), lp.on_plateau("ndcg@3", 2, step=0.5))
    with pytest.raises(lp.LambdaplugError, match="another objective"):
        TRAIN[host](objective, data, 3, callbacks=[lp.callback(other)], **checks)


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


def test_lightgbm_cv_counts_alike_in_all_folds(data, recorded):
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


def test_xgboost_cv_counts_alike_in_all_folds(data, recorded):
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
        stopping = [lgb.early_stopping(3, verbose=False)]
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
    # LightGBM's own ranker passes labels, weights and group sizes as arrays, which are used.
    recorded.clear()
    weight = np.repeat(np.arange(len(data.group)) % 3 + 1.0, data.group)
    options = {"n_estimators": 3, "verbose": -1, "num_threads": 1, "min_child_weight": 0}
    models = [
        kind(objective=objective, **options).fit(data.X, data.labels, group=data.group, sample_weight=weight)
        for kind in (lgb.LGBMRanker, lp.LGBMRanker)
    ]
    assert [iteration for _, iteration in recorded] == [0, 1, 2] * 2
    assert dump(models[0].booster_) == dump(models[1].booster_)


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


def test_a_loop_of_ones_own_is_followed(data):
    from lightgbm.callback import CallbackEnv

    train, valid = data.split(0.7, 0.3)
    objective = lp.interpolate(lp.LambdaRank("ndcg"), lp.LambdaRank("map"), lp.on_plateau("ndcg@3", 1, step=0.5))
    followers = (
        lp.callback(objective),
        lp.analysis.record(valid.X, valid.labels, valid.group, lp.analysis.Measured("ndcg@3")),
    )
    booster = lgb.Booster({"verbose": -1, "num_threads": 1}, lgb.Dataset(train.X, train.labels, group=train.group))
    booster.add_valid(lgb.Dataset(valid.X, valid.labels, group=valid.group, reference=booster.train_set), "valid")
    for iteration in range(4):
        booster.update(fobj=objective)
        for follower in followers:
            follower(CallbackEnv(booster, {}, iteration, 0, 4, None))
    assert [row["iteration"] for row in followers[0].trace] == [0, 1, 2, 3]
    assert followers[1].curves.iterations.tolist() == [1, 2, 3, 4]
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
        train_lgb(objective, data, 3, callbacks=[lp.callback(objective)])
    with pytest.raises(lp.LambdaplugError, match=r"watches 'ndcg@3'.*custom_metric"):
        train_xgb(
            objective,
            data,
            3,
            [lp.callback(objective)],
            evals=[(xgb_data(data), "valid")],
            custom_metric=lp.metric("map"),
            verbose_eval=False,
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
    np.testing.assert_array_equal(objective(scores, part), direct.gradients(data.labels[rows], scores, sizes))
    with pytest.raises(lp.LambdaplugError, match="a slice of an XGBoost DMatrix does not say which rows"):
        xgb.cv(XGB, xgb_data(data), 3, nfold=2, obj=objective)


def within(pairs, rows):
    """The pairs of these rows, numbered as the rows are."""
    place = np.full(pairs.max() + 1, -1)
    kept = rows[rows < len(place)]
    place[kept] = np.flatnonzero(rows < len(place))
    return place[pairs][(place[pairs] >= 0).all(axis=1)]


@pytest.mark.parametrize("what", ["labels", "columns", "pairs"])
def test_what_is_beside_the_labels_follows_its_rows_into_the_folds_of_xgboost(data, what):
    beside, seen = np.random.default_rng(0).random(len(data.labels)), []
    starts = np.cumsum(data.group) - data.group
    pairs = np.column_stack([starts, starts + 1])  # of each query, the first row before the second

    def of(rows=slice(None)):
        if what == "pairs":
            return lp.Preferences(pairs if isinstance(rows, slice) else within(pairs, rows))
        if what == "columns":
            return lp.LambdaRank(lp.Revenue(price=beside[rows]))
        return lp.LambdaRank("cndcg", labels=beside[rows])

    objective, folds = of(), lp.query_folds(data.group, n=3)

    def gradients(scores, part):
        found = objective(scores, part)
        rows, sizes = folds[len(seen) % 3][0], folds.groups[len(seen) % 3][0]
        np.testing.assert_array_equal(part.get_label(), data.labels[rows].astype(np.float32))
        want = of(rows).gradients(labels=data.labels[rows], scores=scores, group=sizes)
        np.testing.assert_array_equal(found, want)
        assert np.abs(found[0]).max() > 0
        seen.append(part)
        return found

    whole = xgb.DMatrix(data.X, data.labels)
    xgb.cv(XGB, whole, 2, folds=folds, fpreproc=folds.fpreproc, obj=gradients)
    assert len(seen) == 6
    slice_of_fold = seen[0].slice([0, 1], allow_groups=True)  # is known to nobody
    slice_of_fold.set_group([2])
    with pytest.raises(lp.LambdaplugError, match="a slice of an XGBoost DMatrix does not say which"):
        objective(np.zeros(2), slice_of_fold)


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
    ranker = lp.LGBMRanker(objective="ndcg@3(gain='linear')", n_estimators=3, verbose=-1, num_threads=1)
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
