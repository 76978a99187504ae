"""Measures in falling priority: the number against brute force, and what both hosts stop at by it."""

import itertools
import math

import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb

import lambdaplug as lp

STEP = 0.005
GRADED = lp.Lexicographic(["ndcg@3", "cndcg@3"], tolerance=STEP, labels=[None, "clicks"])


def better(a, b, steps):
    """Whether the means a are ahead of the means b, measure by measure."""
    for x, y, step in zip(a, b, (*steps, None), strict=True):
        if step is None:
            return x > y
        if math.floor(x / step) != math.floor(y / step):
            return x > y
    return False


@pytest.mark.parametrize("steps", [(0.1,), (0.1, 0.25), (0.3, 0.07, 0.5)])
def test_the_number_orders_means_as_they_are_ordered_one_by_one(steps):
    rng = np.random.default_rng(0)
    graded = lp.Lexicographic(["ndcg", "map", "mrr", "ndcg@1"][: len(steps) + 1], tolerance=steps)
    means = rng.uniform(0, 1, (60, len(steps) + 1))
    means[30:, 0] = means[:30, 0]  # level in the first
    means[:, 0] = 3 * means[:, 0] - 1  # the first may be anything
    means[::7, 1:] = rng.integers(0, 2, means[::7, 1:].shape)  # the ends
    numbers = [float(f"{graded.combined(list(one)):f}") for one in means]  # as XGBoost writes them
    for a, b in itertools.permutations(range(len(means)), 2):
        assert (numbers[a] > numbers[b]) == better(means[a], means[b], steps)


def test_nothing_chosen_is_a_tolerance_below_the_best_and_small_losses_do_not_add_up():
    means = [(0.62 - 0.001 * k, 0.1 * k) for k in range(9)]  # each a little worse first, and better second
    best = max(means, key=lambda one: GRADED.combined(list(one)))
    assert best == (0.62, 0.0) or best[0] > 0.62 - STEP
    assert best[1] == max(second for first, second in means if first >= math.floor(0.62 / STEP) * STEP)


def data():
    whole = lp.data.cubic(queries=120, documents=12, features=6, noise=0.5)
    clicks = lp.data.simulate_clicks(whole.labels, whole.group, taste=whole.X[:, 0])
    half = 60 * 12
    part, valid = whole.split(60, 60)
    return (part, clicks[:half]), (valid, clicks[half:])


@pytest.mark.parametrize("host", ["lightgbm", "xgboost"])
def test_a_training_stops_where_the_first_measure_is_best_and_there_where_the_second_is(host):
    (part, clicks), (valid, seen) = data()
    objective = lp.Graded([lp.LambdaRank("ndcg"), lp.LambdaRank("cndcg", labels="clicks")], weights=[0.5, 0.5])
    metric, rounds = lp.metric(GRADED), 25
    if host == "lightgbm":
        train = lp.attach(lgb.Dataset(part.X, part.labels, group=part.group), clicks=clicks)
        watched = lp.attach(lgb.Dataset(valid.X, valid.labels, group=valid.group, reference=train), clicks=seen)
        stop = [lgb.early_stopping(rounds, verbose=False)]
        own = {"objective": objective, "metric": "None", "verbose": -1, "num_leaves": 5, "num_threads": 1}
        model = lgb.train(own, train, rounds, [watched], feval=metric, callbacks=stop)
        chosen = model.best_iteration
        scores = [model.predict(valid.X, num_iteration=k) for k in range(1, rounds + 1)]
    else:
        train = lp.attach(xgb.DMatrix(part.X, part.labels, qid=part.qid), clicks=clicks)
        watched = lp.attach(xgb.DMatrix(valid.X, valid.labels, qid=valid.qid), clicks=seen)
        own = {"max_depth": 3, "disable_default_eval_metric": 1, "nthread": 1}
        stop = [xgb.callback.EarlyStopping(rounds, metric_name=str(GRADED))]
        model = xgb.train(
            own,
            train,
            rounds,
            [(watched, "valid")],
            obj=objective,
            custom_metric=metric,
            callbacks=stop,
            verbose_eval=False,
        )
        chosen = model.best_iteration + 1
        scores = [model.predict(watched, iteration_range=(0, k)) for k in range(1, rounds + 1)]
    tops = [lp.evaluate("ndcg@3", valid.labels, one, valid.group)["ndcg@3"] for one in scores]
    seconds = [lp.evaluate("cndcg@3", seen, one, valid.group)["cndcg@3"] for one in scores]
    best = 0
    for k, means in enumerate(zip(tops, seconds, strict=True)):
        if better(means, (tops[best], seconds[best]), (STEP,)):
            best = k
    assert chosen == best + 1
    assert tops[best] > max(tops) - STEP


def test_it_is_a_value_of_means_and_says_what_it_is_not_for():
    labels, scores, clicks = [2, 1, 0, 1], [4, 3, 1, 2], [0.1, 0.9, 0.0, 0.2]
    given = {"labels": labels, "scores": scores, "group": [4]}
    parts = lp.evaluate("ndcg@3", **given)["ndcg@3"], lp.evaluate("cndcg@3", clicks, scores, [4])["cndcg@3"]
    found = lp.evaluate([GRADED, "map"], **given, columns={"clicks": clicks})
    assert found["ndcg@3>cndcg@3"] == pytest.approx(math.floor(parts[0] / STEP) + parts[1])
    assert found["map"] == lp.evaluate("map", **given)["map"]
    assert eval(repr(GRADED), vars(lp)) == GRADED
    assert "Lexicographic" in repr(lp.metric(GRADED))
    for use in (
        lambda: lp.evaluate(GRADED, **given, per_query=True),
        lambda: lp.LambdaRank(GRADED).gradients(**given),
    ):
        with pytest.raises(lp.LambdaplugError, match=r"no value of one query.*Graded"):
            use()
    with pytest.raises(lp.LambdaplugError, match=r"dcg is .*Put it first"):
        lp.evaluate(lp.Lexicographic(["map", "dcg"], tolerance=0.1), **given)


@pytest.mark.parametrize(
    ("measures", "options", "message"),
    [
        (["ndcg"], {"tolerance": 0.1}, "two or more measures"),
        ("ndcg", {"tolerance": 0.1}, "two or more measures"),
        (["ndcg", "map"], {"tolerance": 0}, "tolerance: expected a positive number"),
        (["ndcg", "map"], {"tolerance": [0.1, 0.1]}, "1 of them"),
        (["ndcg", "map"], {"tolerance": 0.1, "labels": ["clicks"]}, "for each of the 2 measures"),
        (["ndcg", "map"], {"tolerance": 0.1, "labels": [None, [0.1]]}, "labels"),
    ],
)
def test_wrong_arguments_are_named(measures, options, message):
    with pytest.raises(lp.LambdaplugError, match=message):
        lp.Lexicographic(measures, **options)
