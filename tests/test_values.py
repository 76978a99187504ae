"""Objectives are values: they never change, and are equal by what they say."""

import copy
import pickle

import numpy as np
import pytest

import lambdaplug as lp
from lambdaplug import queries as rows_in_queries
from lambdaplug.queries import Queries

MAKERS = [
    lambda: lp.LambdaRank("map"),
    lambda: lp.LambdaRank("ndcg@10", labels=[0.0, 1.0, np.nan], cost=lp.Sigmoid(0.5), ignore_zero=True),
    lambda: lp.LambdaRank("mrr", construction=lp.constructions.LocalCost(window=2), sigma=2.0, normalize="std"),
    lambda: lp.Approx("ndcg", alpha=lp.cosine(1.0, 5.0, 10)),
    lambda: lp.SPSA("err@10", evaluations=4, seed=3),
    lambda: lp.FDSA("err@10"),
    lambda: lp.PLRank("ndcg@10", samples=16, labels=[0.5, 0.1]),
    lambda: lp.StochasticRank("ndcg@10", sigma=lp.cosine(1.0, 0.1, 10)),
    lambda: lp.QueryRMSE(),
    lambda: lp.QuerySoftmax(),
    lambda: lp.QuerySoftmax("share"),
    lambda: lp.ListMLE(k=3),
    lambda: lp.Calibrated(lp.linear(0.1, 0.1), labels=[0.5, 0.1]),
    lambda: lp.Mixture([(0.5, lp.LambdaRank("map")), (lp.linear(0.1, 0.1), lp.SPSA("ndcg"))], step="gradient"),
    lambda: lp.Graded([lp.LambdaRank("ndcg"), lp.LambdaRank("cndcg", labels=[0.5, 0.1])], guard=lp.guard("ndcg", 0.5)),
    lambda: lp.interpolate(lp.LambdaRank("ndcg"), lp.LambdaRank("map"), lp.on_plateau("ndcg@3")),
    lambda: lp.presets.lightgbm(10, label_gain=[0, 1, 5]),
    lambda: lp.presets.lightgbm_xendcg(7),
    lambda: lp.presets.xgboost("map", pair_method="mean"),
]


@pytest.mark.parametrize("make", MAKERS, ids=lambda make: repr(make())[:40])
def test_equal_hashable_and_unchanging(make):
    objective = make()
    twins = [make(), copy.copy(objective), copy.deepcopy(objective), pickle.loads(pickle.dumps(objective))]
    for twin in twins:
        assert twin == objective
        assert hash(twin) == hash(objective)
        assert repr(twin) == repr(objective)
    others = [other() for other in MAKERS if other is not make]
    assert objective not in others
    assert len({objective, *twins, *others}) == len(MAKERS)
    before = repr(objective)
    for name in ("normalize", "std", "measure", "anything"):
        with pytest.raises(AttributeError, match="cannot be changed after it was made"):
            setattr(objective, name, "log")
    with pytest.raises(AttributeError, match="cannot be changed"):
        del objective.std
    assert repr(objective) == before


def test_one_parameter_makes_another_value():
    base = lp.LambdaRank("map")
    for change in (
        {"sigma": 2.0},
        {"normalize": "log"},
        {"labels": [1.0]},
        {"step": "gradient"},
        {"ignore_zero": True},
    ):
        assert lp.LambdaRank("map", **change) != base
    a, b = lp.LambdaRank("ndcg"), lp.LambdaRank("map")
    assert lp.interpolate(a, b, 0.5) != lp.interpolate(b, a, 0.5)
    assert lp.Mixture([(0.5, a), (0.5, b)]) != lp.interpolate(a, b, 0.5)
    assert {lp.LambdaRank("map"): 1}[lp.LambdaRank(lp.MAP())] == 1


class Tagged(lp.LambdaRank):
    """A subclass of one's own, with a parameter of its own."""

    def __init__(self, tag):
        super().__init__("map")
        self._set(tag=tag)


def test_subclasses_of_ones_own_are_values_too():
    assert Tagged("a") == Tagged("a")
    assert len({Tagged("a"), Tagged("a"), Tagged("b"), lp.LambdaRank("map")}) == 3
    with pytest.raises(AttributeError, match="cannot be changed"):
        Tagged("a").tag = "b"


def test_nothing_that_a_mixture_needs_is_made_twice(monkeypatch):
    made = []
    original = lp.NDCG.prepare
    monkeypatch.setattr(lp.NDCG, "prepare", lambda self, *rest: made.append(self) or original(self, *rest))
    random = np.random.default_rng(0)
    queries = Queries(random.integers(0, 5, 200), [20] * 10)
    mixture = lp.Mixture([(1.0, lp.LambdaRank(lp.NDCG(k=k))) for k in range(1, 31)])
    for _ in range(3):
        mixture.differentiate(queries, random.normal(size=200))
    assert len(made) == 30
    # What nobody has asked for lately goes, once there is much: a search over label sources must not fill the memory.
    single = lp.LambdaRank("map")
    for _ in range(rows_in_queries.MEMO_IDLE + 2):
        single.differentiate(queries, random.normal(size=200))
    lp.LambdaRank("mrr").differentiate(queries, random.normal(size=200))
    assert len(queries._memo) < rows_in_queries.MEMO_SIZE
