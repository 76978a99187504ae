"""Objectives are values: they never change, and are equal by what they say."""

import copy
import dataclasses
import pickle
import re

import numpy as np
import pytest

import lambdaplug as lp
from lambdaplug import queries as rows_in_queries
from lambdaplug.measures import registered
from lambdaplug.queries import Queries

OBJECTIVES = [
    lp.LambdaRank("map"),
    lp.LambdaRank("ndcg@10", labels="clicks", cost=lp.Sigmoid(0.5), ignore_zero=True),
    lp.LambdaRank("mrr", construction=lp.constructions.LocalCost(window=2), sigma=2.0, normalize="std"),
    lp.Approx("ndcg", alpha=lp.cosine(1.0, 5.0, 10)),
    lp.SPSA("err@10", evaluations=4, seed=3),
    lp.FDSA("err@10"),
    lp.PLRank("ndcg@10", samples=16, labels="clicks"),
    lp.StochasticRank("ndcg@10", sigma=lp.cosine(1.0, 0.1, 10)),
    lp.QueryRMSE(),
    lp.QuerySoftmax(),
    lp.QuerySoftmax("share"),
    lp.ListMLE(k=3),
    lp.Calibrated(lp.linear(0.1, 0.1), labels="clicks"),
    lp.Mixture([(0.5, lp.LambdaRank("map")), (lp.linear(0.1, 0.1), lp.SPSA("ndcg"))], step="gradient"),
    lp.Graded([lp.LambdaRank("ndcg"), lp.LambdaRank("cndcg", labels="clicks")], guard=lp.guard("ndcg", 0.5)),
    lp.interpolate(lp.LambdaRank("ndcg"), lp.LambdaRank("map"), lp.on_plateau("ndcg@3")),
    lp.presets.lightgbm(10, label_gain=[0, 1, 5]),
    lp.presets.lightgbm_xendcg(7),
    lp.presets.xgboost("map", num_pair_per_sample=3),
    lp.presets.xgboost(unbiased=True, bias_norm=2),
    lp.objective("map", labels="clicks", weight="w"),
    lp.LambdaRank(lp.Revenue(price="margin", k=3)),
    lp.LambdaRank("ndcg(k='depth')", construction="local_cost", neighbours=2, noise=0.5),
    lp.Preferences("duels", "w", "ndcg@5", sigma=2),
    lp.LambdaRank("ndcg", construction=lp.constructions.Loss2(5)),
    lp.Unbiased(lp.LambdaRank("map"), "rows", propensities=[1.0, 0.5]),
    lp.Unbiased(lp.LambdaRank("ndcg"), "shown", "pairwise", start=lp.PositionBias("pairwise", [[1, 0.5], [1, 0.9]])),
    lp.Pareto([lp.LambdaRank("ndcg"), lp.LambdaRank("map")], "epsilon", bounds=[0.5], rate=0.2),
    lp.Pareto([lp.LambdaRank("ndcg"), lp.QueryRMSE()], preference=[2, 1], normalize="std"),
]


@dataclasses.dataclass(frozen=True, repr=False)
class Tagged(lp.LambdaRank):
    """A subclass of one's own, with a parameter of its own."""

    tag: str = ""


def test_subclasses_of_ones_own_are_values_too():
    assert Tagged("map", tag="a") == Tagged("map", tag="a")
    assert len({Tagged("map", tag="a"), Tagged("map", tag="a"), Tagged("map", tag="b"), lp.LambdaRank("map")}) == 3
    assert repr(Tagged("map", tag="a")) == "Tagged('map', tag='a')"
    with pytest.raises(AttributeError, match="cannot assign"):
        Tagged("map").tag = "b"


def test_what_labels_give_is_made_once_and_goes_when_nobody_asks_for_it():
    random = np.random.default_rng(0)
    queries, scores = Queries(random.integers(0, 5, 200), [20] * 10), random.normal(size=200)
    single = lp.LambdaRank("map")
    assert single.prepared(queries) is lp.LambdaRank("map", sigma=2.0).prepared(queries)
    lp.Mixture([(1.0, lp.LambdaRank(lp.NDCG(k=k))) for k in range(1, 31)]).differentiate(queries, scores)
    for _ in range(rows_in_queries.MEMO_IDLE + 2):  # a search over label sources must not fill the memory
        single.differentiate(queries, scores)
    lp.LambdaRank("mrr").differentiate(queries, scores)
    assert len(queries._memo) < rows_in_queries.MEMO_SIZE


SCHEDULES = [
    lp.linear(0.1, 1 / 3),
    lp.exponential(0.1, 100),
    lp.cosine(1.0, 0.0, 50),
    lp.step({0: 0.1, 50: 0.5}),
    lp.join([lp.linear(0.0, 0.1), 0.7], [3]),
    lp.on_plateau("ndcg@3", patience=5, end=0.5),
    lp.guard("map(relevant=2)", 0.6, least=1e-4),
]
CONSTRUCTIONS = [kind() for kind in lp.constructions.Construction.registry.values()]
COSTS = [lp.RankNet(), lp.RankNet(0.01), lp.Sigmoid(), lp.Sigmoid(-0.3)]
MEASURES = [
    *(lp.measures.as_measure(f"{name}@3" if name in ("p", "recall", "hit") else name) for name in registered()),
    lp.NDCG(k=10, gain=[0, 1, 1e-9], discount=[1, 0.5]),
    lp.RBP(p=1 / 3, max_label=4),
    lp.Revenue(price="margin", click=[0, 0.5], k=3, cascade=True),
    lp.AlphaNDCG(intents="topics", k="depth"),
    lp.ERRIA(),
    lp.Exposure(group="seller", target={1: 2, 2: 1}),
]


VALUES = [*SCHEDULES, *COSTS, *CONSTRUCTIONS, *MEASURES, *OBJECTIVES]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_equal_hashable_unchanging_and_made_again_by_what_it_prints(value):
    made = eval(repr(value), {**vars(lp), **vars(lp.constructions)})
    for twin in (lp.read(repr(value)), made, copy.deepcopy(value), pickle.loads(pickle.dumps(value))):
        assert (twin, hash(twin), repr(twin)) == (value, hash(value), repr(value))
    assert len(pickle.dumps(value)) < 2000
    for name in ("normalize", "std", "measure", "anything"):
        with pytest.raises(AttributeError, match="cannot assign"):
            setattr(value, name, "log")


def test_different_values_are_different():
    assert len(set(VALUES)) == len(VALUES)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("linaer(start=0, rate=1)", "there is no 'linaer'. The nearest is 'linear'"),
        ("LambdaRank('map', sigm=2)", "LambdaRank has no parameter 'sigm'. The nearest is 'sigma'"),
        ("LambdaRank('map', sigma=1, sigma=2)", "LambdaRank was given a parameter twice"),
        ("LambdaRank('map', **{})", "LambdaRank has no parameter"),
        ("linear(0.1)", "missing 1 required positional argument: 'rate'. It takes: start, rate"),
        ("ndcg@10", "a measure's text, 'ndcg@10', goes where a measure belongs"),
        ("QuerySoftmax", "is no call, such as QuerySoftmax()"),
        ("[QuerySoftmax()]", "expected the text of an objective, measure, cost or schedule"),
        ("__import__('os').system('true')", "there is no"),
        ("LambdaRank(__import__('os'))", "there is no"),
        ("LambdaRank('map', sigma=1 + 1)", "is no call"),
        ("LambdaRank('map', sigma=-1)", "sigma: expected a positive number"),
        ("[" * 5000, "cannot read"),
        ("1" + "+1" * 100_000, "cannot read"),
        ("step({[0]: 1})", "unhashable"),
        (3, "expected the text"),
    ],
)
def test_read_says_what_it_expected(text, said):
    with pytest.raises(lp.LambdaplugError, match=re.escape(said)):
        lp.read(text)


def test_read_takes_what_people_type():
    assert lp.read(" lp.LambdaRank( 'MAP' , noise = 1 )") == lp.LambdaRank("map", noise=1.0)
    assert lp.read("objective('ndcg@10')") == lp.objective("ndcg@10")
    assert lp.read("presets.lightgbm(20)") == lp.presets.lightgbm(20)
    assert lp.read("lp.RBP(p=.5, max_label=None)") == lp.RBP(p=0.5)
