"""lp.objective: what it is made of, that it learns where the measure alone would starve, and what it refuses."""

import pickle

import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb

import lambdaplug as lp
from lambdaplug.measures import registered

DATA = lp.data.cubic(queries=120, documents=25, features=8, noise=0.5)


def part(measure, **options):
    return lp.LambdaRank(measure, **{"cost": lp.RankNet(distance=0.01), "normalize": "log", "noise": 1.0, **options})


@pytest.mark.parametrize(
    ("measure", "support"),
    [
        ("map", "ndcg"),
        ("ndcg@10", "ndcg"),
        ("ndcg@10(gain='linear')", "ndcg(gain='linear')"),
        ("cndcg@3", "cndcg"),
        ("dcg@5(gain=(0, 1, 5))", lp.NDCG(gain=(0, 1, 5))),
        ("err@10", "ndcg"),
    ],
)
def test_it_is_a_composition_of_public_parts(measure, support):
    expected = lp.Mixture([(0.5, part(measure)), (0.5, part(support))])
    found = lp.objective(measure)
    assert found == expected
    assert hash(found) == hash(expected)
    assert repr(found) == repr(expected)
    assert pickle.loads(pickle.dumps(found)) == expected
    assert found.goal == part(measure).measure


def test_mrr_is_helped_by_map():
    for text in ("mrr", "mrr@10(relevant=2)"):
        own = lp.LambdaRank(text).measure
        helped = lp.Mixture([(0.1, part(own)), (0.4, part(lp.MAP(relevant=own.relevant))), (0.5, part("ndcg"))])
        assert lp.objective(text) == helped
        assert lp.objective(text).goal == own  # what rankers report
    assert [weight for weight, _ in lp.objective("mrr", share=0.45).parts] == [0.55, 0.2, 0.25]


def test_its_options():
    assert lp.objective("ndcg") == part("ndcg")
    assert lp.objective("map", support=None) == part("map") == lp.objective("map", share=0)
    assert lp.objective("map", support="map") == part("map")
    found = lp.objective("map", support="err", share=0.25, noise=0.2, samples=2, seed=7, normalize="none")
    options = {"noise": 0.2, "samples": 2, "seed": 7, "normalize": "none"}
    assert found == lp.Mixture([(0.75, part("map", **options)), (0.25, part("err", **options))])
    parts = lp.objective("map", labels="clicks", weight="w").parts
    assert [(one.labels, one.weight) for _, one in parts] == [("clicks", "w")] * 2


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"measure": "mapp"}, "no measure 'mapp'"),
        ({"measure": "map", "share": 1.5}, "share: expected a number from 0 to 1"),
        ({"measure": "map", "share": True}, "share: expected a number from 0 to 1"),
        ({"measure": "map", "support": "nothing"}, "no measure 'nothing'"),
        ({"measure": "map", "noise": -1.0}, "noise"),
        ({"measure": "map", "samples": 0}, "samples: expected an integer >= 1"),
    ],
)
def test_it_says_what_is_wrong(given, message):
    with pytest.raises(lp.LambdaplugError, match=message):
        lp.objective(**given)


def labels_of(kind):
    random = np.random.default_rng(0)
    if kind == "graded":
        return DATA.labels
    if kind == "binary":
        return (DATA.labels >= 2).astype(float)
    if kind == "click rates":
        return np.round(random.beta(1 + DATA.labels, 8), 3)
    best = np.zeros(len(DATA.labels))
    for first in range(0, len(best), 25):
        best[first + np.argmax(DATA.labels[first : first + 25])] = 1.0
    return best


@pytest.mark.parametrize("kind", ["graded", "binary", "one relevant", "click rates"])
@pytest.mark.parametrize("host", ["lightgbm", "xgboost"])
def test_it_learns_with_the_hosts_default_parameters(host, kind):
    labels = labels_of(kind)
    measure = lp.MRR(relevant=0.2) if kind == "click rates" else lp.MRR()
    objective = lp.objective(measure)
    if host == "lightgbm":
        data = lgb.Dataset(DATA.X, labels, group=DATA.group)
        scores = lgb.train({"objective": objective, "verbose": -1}, data, 20).predict(DATA.X)
    else:
        data = xgb.DMatrix(DATA.X, labels, qid=DATA.qid)
        scores = xgb.train({}, data, 20, obj=objective).predict(data)
    untrained = lp.evaluate(measure, labels, DATA.X[:, 0], DATA.group)[str(measure)]
    assert lp.evaluate(measure, labels, scores, DATA.group)[str(measure)] > untrained + 0.4 * (1 - untrained)


@pytest.mark.parametrize("sizes", [[1, 2, 2, 1], [5000, 3]])
def test_short_and_long_queries(sizes):
    random = np.random.default_rng(0)
    labels, scores = np.zeros(sum(sizes)), random.normal(size=sum(sizes))
    labels[[1, 3, 5]] = 1
    gradient, hessian = lp.objective("mrr").gradients(labels, scores, sizes)
    assert np.all(np.isfinite(gradient))
    assert np.all(hessian > 0)
    assert gradient[1] < 0  # it is to rise


@pytest.mark.parametrize("name", sorted(registered()))
def test_every_measure_has_one(name):
    objective = lp.objective(f"{name}@10" if name in ("hit", "p", "recall") else name)
    gradient, hessian = objective.gradients(np.minimum(DATA.labels[:25], 1), np.zeros(25), [25])
    assert np.abs(gradient).max() > 0
    assert np.all(hessian > 0)


@pytest.mark.parametrize("given", ["map", lp.MAP(k=5)])
def test_a_measure_in_place_of_an_objective(given):
    with pytest.raises(lp.LambdaplugError, match=r"Did you mean lp.objective\('map"):
        lp.Mixture([(1.0, given)])


def test_a_measure_or_a_class_given_to_a_booster():
    train, matrix = lgb.Dataset(DATA.X, DATA.labels, group=DATA.group), xgb.DMatrix(DATA.X, DATA.labels, qid=DATA.qid)
    with pytest.raises(
        lp.LambdaplugError, match=r"is a measure. To train for it, give the booster lp.objective\('map@5'\)"
    ):
        lgb.train({"objective": lp.MAP(k=5), "verbose": -1}, train, 1)
    with pytest.raises(lp.LambdaplugError, match=r"to report it, lp.metric\('map'\)"):
        xgb.train({}, matrix, 1, obj=lp.MAP())
    with pytest.raises((lp.LambdaplugError, TypeError), match="LambdaRank"):
        xgb.train({}, matrix, 1, obj=lp.LambdaRank)
