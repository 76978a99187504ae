"""What can be learned from the labels at all, and which document of a pair belongs above: by its gain."""

import itertools
import warnings

import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb
from oracle import VALUES, generated, moving, rank, swap_delta

import lambdaplug as lp
from lambdaplug.evaluation import asked, per_query_values
from lambdaplug.hosts.lightgbm import HOST as LIGHTGBM
from lambdaplug.measures import swap_deltas
from lambdaplug.queries import Queries
from lambdaplug.rows import differing

DATA = lp.data.cubic(queries=40, documents=6, features=3)
ROWS = len(DATA.labels)
NONE = np.full(ROWS, np.nan)


def in_lightgbm(objective, labels=DATA.labels, data=None):
    data = data or lp.attach(lgb.Dataset(DATA.X, labels, group=DATA.group), **COLUMNS)
    quiet = {"objective": objective, "metric": "None", "verbosity": -1, "num_threads": 1, "num_leaves": 4}
    return lgb.train(quiet, data, 2, callbacks=[lp.callback(objective)])


def in_xgboost(objective, labels=DATA.labels, data=None):
    data = data or lp.attach(xgb.DMatrix(DATA.X, labels, group=DATA.group), **COLUMNS)
    quiet = {"disable_default_eval_metric": 1, "nthread": 1, "max_depth": 2, "min_child_weight": 0, "lambda": 1e-3}
    return xgb.train(quiet, data, 2, obj=objective, callbacks=[lp.callback(objective)])


# --- measures that can learn nothing -------------------------------------------------------------------------------


def top(labels):
    return labels[0]


NDCG, NEVER = lp.LambdaRank("ndcg"), lp.LambdaRank("mrr(relevant=5)")
ZEROS = np.zeros(ROWS)

COLUMNS = {
    "none": NONE,
    "zeros": ZEROS,
    "some": np.where(np.arange(ROWS) < 30, np.nan, 0.01 * np.arange(ROWS)),
    "first": np.where(np.arange(ROWS) % 6, np.nan, 1.0),
}
LEARN_NOTHING = {
    "no label is so high": (NEVER, DATA.labels),
    "all labels are 0": (NDCG, ZEROS),
    "defined everywhere, and nothing to order": (lp.LambdaRank("dcg"), ZEROS),
    "everything is relevant": (lp.LambdaRank("map"), 1.0 + ZEROS),
    "the cut-off is below no document": (lp.LambdaRank("p@6"), DATA.labels),
    "no document has a label": (lp.LambdaRank("ndcg", labels="none"), DATA.labels),
    "only label 0 and one other, which are ignored": (lp.LambdaRank("ndcg", ignore_zero=True), 1.0 * (DATA.labels > 1)),
    "another label source": (lp.LambdaRank("cndcg", labels="zeros"), DATA.labels),
    "other constructions": (lp.LambdaRank("map", construction="spring_smooth"), ZEROS),
    "smooth positions": (lp.Approx("map(relevant=5)"), DATA.labels),
    "values": (lp.SPSA("recall@6"), DATA.labels),
    "sampled rankings": (lp.PLRank("recall@6"), DATA.labels),
    "noisy rankings": (lp.StochasticRank("mrr(relevant=5)"), DATA.labels),
    "lists": (lp.ListMLE(), 1.0 + ZEROS),
    "squares": (lp.QueryRMSE(), ZEROS),
    "shares": (lp.QuerySoftmax(), ZEROS),
    "chances": (lp.Calibrated(1.0), ZEROS),
    "differences": (lp.FDSA("bpref"), ZEROS),
    "one's own": (lp.LambdaRank(lp.custom("top", top, normalize=True)), ZEROS),
    "a part": (lp.Mixture([(1.0, NDCG), (0.5, NEVER)]), DATA.labels),
    "a part of a part": (lp.Mixture([(1.0, lp.Mixture([(1.0, NEVER)]))]), DATA.labels),
    "a part that a schedule may wake": (lp.interpolate(NDCG, NEVER, lp.linear(0.0, 0.1)), DATA.labels),
    "the end of an interpolation": (lp.interpolate(NEVER, NDCG, 0.0), DATA.labels),
    "a first part that a guard may wake": (
        lp.Mixture([(0.0, NEVER), (1.0, NDCG)], guard=lp.guard("ndcg", 0.1)),
        DATA.labels,
    ),
    "a tier of the labels of the tier above": (lp.Graded([NDCG, lp.LambdaRank("map")]), DATA.labels),
    "LightGBM's": (lp.presets.lightgbm(), ZEROS),
    "LightGBM's gains": (lp.presets.lightgbm(label_gain=[0.0] * 5), DATA.labels),
    "XGBoost's": (lp.presets.xgboost("ndcg"), ZEROS),
    "XGBoost's pairs": (lp.presets.xgboost("pairwise"), 1.0 + ZEROS),
}


@pytest.mark.parametrize("case", LEARN_NOTHING)
def test_what_can_learn_nothing_is_refused(case):
    objective, labels = LEARN_NOTHING[case]
    for train in (in_lightgbm, in_xgboost):
        with pytest.raises(lp.LambdaplugError, match=r"nothing to learn from: there is no query, of 40, in which"):
            train(objective, labels)
    # A pure function of arrays stays one: a single query without relevant documents is no mistake there.
    gradient, _ = objective.gradients(labels=labels, scores=np.arange(ROWS), group=DATA.group, columns=COLUMNS)
    assert np.isfinite(gradient).all()


def test_the_error_says_which_labels_occur():
    with pytest.raises(
        lp.LambdaplugError, match=r"The labels that occur are 0, 1, 2, 3, 4; 0 rows have none\. The longest query has 6"
    ):
        in_lightgbm(NEVER)
    with pytest.raises(lp.LambdaplugError, match="labels that occur are none at all; 240 rows"):
        in_lightgbm(lp.LambdaRank("map", labels="none"))
    with pytest.raises(lp.LambdaplugError, match=r"occur are 0\.3, 0\.31, .*, \.\.\.; 30 rows have none"):
        in_lightgbm(lp.LambdaRank("map(relevant=3)", labels="some"))
    with pytest.raises(lp.LambdaplugError, match="documents that are equal in the tiers above"):
        in_lightgbm(lp.Graded([NDCG, lp.LambdaRank("map")]))


LEARN_SOMETHING = {
    "a part without weight": lp.Mixture([(1.0, NDCG), (0.0, NEVER)]),
    "the start of an interpolation": lp.interpolate(NDCG, NEVER, 0.0),
    "the end of one": lp.interpolate(NEVER, NDCG, 1.0),
    "a tier without weight": lp.Graded([NDCG, lp.LambdaRank("map")], weights=[1.0, 0.0]),
    "pairs below the cut-off have a floor": lp.LambdaRank("p@6", construction="spring_smooth"),
    "unlabelled documents count in values": lp.FDSA("ndcg", labels="first"),
    "random targets": lp.presets.lightgbm_xendcg(),
}


@pytest.mark.parametrize("case", LEARN_SOMETHING)
def test_what_can_learn_something_is_not(case):
    for train in (in_lightgbm, in_xgboost):
        train(LEARN_SOMETHING[case])


def test_few_queries_that_teach_are_warned_of_once_a_data_set():
    labels = ZEROS.copy()
    labels[3] = 1.0
    data = lgb.Dataset(DATA.X, labels, group=DATA.group)
    with pytest.warns(
        lp.LambdaplugWarning, match=r"learns from 1 of 40 queries \(2\.5 %\).*labels that occur are 0, 1"
    ):
        in_lightgbm(NDCG, data=data)
    labels[10] = labels[16] = 1.0  # 3 of 40 are more than 5 %
    with warnings.catch_warnings():
        warnings.simplefilter("error", lp.LambdaplugWarning)
        in_lightgbm(NDCG, data=data)
        in_lightgbm(NDCG, labels)


def test_a_fold_without_anything_to_learn_is_refused():
    labels = np.where(DATA.qid < 20, DATA.labels, 0.0)
    parameters = {"objective": NDCG, "metric": "None", "verbosity": -1, "num_threads": 1}
    data = lgb.Dataset(DATA.X, labels, group=DATA.group)
    folds = [(np.flatnonzero(DATA.qid >= 20), np.flatnonzero(DATA.qid < 20))]
    with pytest.raises(lp.LambdaplugError, match=r"no query, of 20, in which.*labels that occur are 0;"):
        lgb.cv(parameters, data, folds=folds, num_boost_round=1, feval=lp.metric("ndcg"))


def test_a_workers_share_may_teach_nothing(monkeypatch):
    monkeypatch.setattr(LIGHTGBM, "total", lambda _: lambda values: values)
    in_lightgbm(NEVER)
    monkeypatch.setattr(xgb.collective, "is_distributed", lambda: True)
    in_xgboost(NEVER)


def test_no_rows_are_no_reason():
    for objective in (NEVER, lp.Approx("map"), lp.presets.lightgbm(), lp.Graded([NDCG, lp.LambdaRank("map")])):
        objective.check_order(Queries([], []))
        objective.check_order(Queries([], [0, 0]))


def test_differing_is_its_definition():
    rng = np.random.default_rng(0)
    for _ in range(300):
        sizes = rng.integers(0, 5, rng.integers(0, 5))
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        values = rng.choice([0.0, 1.0, np.nan], offsets[-1])
        within = rng.choice([0.0, 1.0, np.nan], offsets[-1])
        for tier in (None, within):
            expected = [
                any(
                    values[i] != values[j] and not np.isnan(values[i] + values[j])
                    for i, j in itertools.combinations(range(low, high), 2)
                    if tier is None or tier[i] == tier[j]
                )
                for low, high in itertools.pairwise(offsets)
            ]
            assert differing(values, offsets, tier).tolist() == expected


# --- gains that do not rise with the label -------------------------------------------------------------------------

SPAM = (0.0, 1.0, 3.0, 0.0, 2.0)  # a label of 3 is worth nothing


@pytest.mark.parametrize("k", [None, 3])
@pytest.mark.parametrize("construction", ["ranknet_weight_pairs", "spring_smooth", "discrete_bounded"])
def test_pairs_are_ordered_by_gain(k, construction):
    scores, labels, group = generated()
    by_gain = lp.LambdaRank(lp.NDCG(k=k, gain=SPAM), construction=construction)
    as_labels = lp.LambdaRank(lp.NDCG(k=k, gain="linear"), construction=construction)
    expected = as_labels.gradients(np.take(SPAM, labels.astype(int)), scores, group)
    np.testing.assert_array_equal(by_gain.gradients(labels, scores, group), expected)


def test_gains_that_rise_with_the_label_order_as_labels_do():
    scores, labels, group = generated()
    for k in (None, 3):
        usual = lp.LambdaRank(lp.NDCG(k=k)).gradients(labels, scores, group)
        table = lp.LambdaRank(lp.NDCG(k=k, gain=(0, 1, 3, 7, 15))).gradients(labels, scores, group)
        np.testing.assert_array_equal(table, usual)
    # Gains that float32 cannot tell apart are told apart.
    close = lp.LambdaRank(lp.NDCG(gain=(1.0, 1.0 + 1e-12, 1.0 + 2e-12, 1.0, 1.0)))
    gradient, _ = close.gradients([0, 2, 3], [0.0, 0.0, 0.0], [3])
    assert gradient[1] < 0 < gradient[0]
    assert gradient[2] > 0


# --- documents that are in no pair ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["ndcg@3", "map", "bpref", "pairs"])
def test_documents_in_no_pair_are_not_moved(name):
    rng = np.random.default_rng(1)
    group = rng.integers(2, 8, 150)
    rows = int(group.sum())
    scores, above = rng.normal(size=rows), rng.integers(0, 2, rows).astype(float)
    labels = np.where(rng.random(rows) < 0.3, np.nan, rng.integers(0, 3, rows))
    edges = np.cumsum(group)[:-1]
    for ignore_zero, tiered in itertools.product([False, True], repeat=2):
        part = lp.LambdaRank(name, labels="judged", construction="discrete_bounded", ignore_zero=ignore_zero)
        objective = lp.Graded([NDCG, part], [0.0, 1.0]) if tiered else part
        expected = []
        for s, y, t in zip(*(np.split(x, edges) for x in (scores, labels, above)), strict=True):

            def allowed(i, j, y=y, t=t, ignore_zero=ignore_zero, tiered=tiered):
                return not (ignore_zero and 0 in (y[i], y[j])) and (not tiered or t[i] == t[j])

            expected.append(moving(name, s.tolist(), y.tolist(), allowed=allowed)[0])
        expected = np.concatenate(expected)
        found, _ = objective.gradients(above, scores, group, columns={"judged": labels})
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-7)
        assert not found[np.isnan(labels)].any()
        assert np.abs(found).max() > 0 or ignore_zero  # without label 0, all are relevant


# --- documents that nobody has judged ------------------------------------------------------------------------------


def partly_judged(seed, queries=200, longest=7):
    rng = np.random.default_rng(seed)
    group = rng.integers(1, longest, queries)
    rows = int(group.sum())
    labels = rng.choice([0.0, 1.0, np.nan], rows, p=[0.3, 0.3, 0.4])
    return rng.integers(-2, 3, rows).astype(float), labels, group


@pytest.mark.parametrize("name", ["bpref", "pairs", "spearman"])
def test_unjudged_documents_leave_values_and_deltas_alone(name):
    scores, labels, group = partly_judged(0)
    queries = Queries(np.zeros(len(labels)), group, columns={"judged": labels})
    edges = np.cumsum(group)[:-1]
    parts = list(zip(np.split(scores, edges), np.split(labels, edges), strict=True))

    def value(ranked):
        found = VALUES[name](ranked)
        return np.nan if found is None else found

    for ties, chosen in (("stable", None), ("worst", np.min), ("best", np.max), ("expected", np.mean)):
        found = per_query_values(asked(name, labels="judged", ties=ties), queries, scores)[0]
        for (s, y), got in zip(parts, found, strict=True):
            if chosen is None:
                want = value([y[row] for row in rank(s.tolist())])
            else:
                orders = [
                    order for order in itertools.permutations(range(len(s))) if (np.diff(s[list(order)]) <= 0).all()
                ]
                want = chosen([value(y[list(order)].tolist()) for order in orders])
            np.testing.assert_allclose(got, want, atol=1e-12)
    for _, y in parts:
        n, ranked = len(y), y.tolist()
        if VALUES[name](ranked) is not None:
            want = [[swap_delta(name, ranked, min(a, b), max(a, b)) for b in range(n)] for a in range(n)]
            want = np.where(np.isnan(y[:, None] + y), 0.0, want)  # in no pair
            np.testing.assert_allclose(swap_deltas(name, ranked), want, atol=1e-12)


@pytest.mark.parametrize("name", ["bpref", "pairs", "spearman"])
@pytest.mark.parametrize("spread", [1.0, 300.0])
def test_unjudged_documents_have_no_gradient(name, spread):
    scores, labels, group = partly_judged(1)
    given = {"labels": np.zeros(len(labels)), "group": group, "columns": {"judged": labels}}
    gradient, hessian = lp.LambdaRank(name, labels="judged").gradients(scores=spread * scores, **given)
    assert np.isfinite(gradient).all()
    assert np.isfinite(hessian).all()
    assert not gradient[np.isnan(labels)].any()
    # Without them the same: for these measures they are not there.
    known = ~np.isnan(labels)
    query = np.repeat(np.arange(len(group)), group)
    sizes = np.bincount(query[known], minlength=len(group))
    alone, _ = lp.LambdaRank(name).gradients(labels[known], spread * scores[known], sizes)
    np.testing.assert_allclose(gradient[known], alone, rtol=1e-5, atol=1e-6)
    for other in (lp.FDSA(name, labels="judged"), lp.LambdaRank(name, labels="judged", construction="local_cost")):
        assert np.isfinite(other.gradients(scores=scores, **given)[0]).all()
