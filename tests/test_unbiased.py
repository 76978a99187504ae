"""Position bias: against LightGBM's own, against the formulas, and the state of trainings."""

import concurrent.futures
import copy
import pickle
import warnings

import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb

import lambdaplug as lp
from lambdaplug.queries import Queries

ROUNDS = 8
PARAMETERS = {
    "verbose": -1,
    "num_threads": 1,
    "learning_rate": 0.15,
    "metric": "None",
    "min_sum_hessian_in_leaf": 1e-12,
}
XGB = {"eta": 0.15, "nthread": 1, "base_score": 0, "disable_default_eval_metric": 1, "objective": "rank:ndcg"}


@pytest.fixture(scope="module")
def clicks():
    """Features, clicks, group sizes and positions, which are not the rows' order."""
    rng = np.random.default_rng(0)
    data = lp.data.cubic(60, 12, 6, noise=0.3)
    shown = (data.labels + rng.normal(size=len(data.labels))).reshape(60, 12)
    position = np.argsort(np.argsort(-shown, axis=1), axis=1).ravel()
    clicked = rng.random(len(position)) < (0.1 + 0.2 * data.labels) / (1 + position)
    return data.X, clicked.astype(float), data.group, position


def lightgbm(objective, clicks, rounds=ROUNDS, position=None, **further):
    X, y, group, _ = clicks
    return lgb.train(
        {**PARAMETERS, "objective": objective}, lgb.Dataset(X, y, group=group, position=position), rounds, **further
    )


def matrix(clicks, position=None):
    X, y, group, _ = clicks
    data = xgb.DMatrix(X, y)
    data.set_group(group)
    if position is not None:
        data.set_float_info("label_lower_bound", position)
    return data


def xgboost(objective, clicks, rounds=ROUNDS, position=None, **further):
    return xgb.train(XGB, matrix(clicks, position), rounds, obj=objective, **further)


def ap(ranked):
    return np.sum(np.cumsum(ranked) / np.arange(1, len(ranked) + 1) * ranked) / ranked.sum()


def by_hand(objective, clicks, method, rounds=3, rate=0.15, regularization=0.0, scores=None):
    """The curve after so many rounds at the same scores, from the formulas."""
    _, y, group, p = clicks
    scores = np.zeros(len(y)) if scores is None else scores
    count, start = p.max() + 1, np.cumsum(group) - group
    if method == "additive":
        b = np.zeros(count, np.float32)
        for _ in range(rounds):
            gradient, hessian = objective.gradients(scores + b[p], y, group)
            g, h, n = (np.bincount(p, w, count) for w in (gradient, hessian, None))
            b = (b + rate * (-g - regularization * n * b) / (h + regularization * n + 0.001)).astype(np.float32)
        return (b,)
    t = np.ones((2, count))
    for _ in range(rounds):
        costs = np.zeros((2, count))
        for s, n in zip(start, group, strict=True):
            own, at, label = scores[s : s + n], p[s : s + n], y[s : s + n]
            relevant = label.sum()
            if relevant in (0, n):
                continue
            order = np.argsort(-own, kind="stable")
            place = np.argsort(order)
            for i in np.flatnonzero(label == 1):
                for j in np.flatnonzero(label == 0):
                    ranked = label[order]
                    before = ap(ranked)
                    ranked[[place[i], place[j]]] = ranked[[place[j], place[i]]]
                    c = abs(ap(ranked) - before) * np.log1p(np.exp(own[j] - own[i]))
                    costs[0, at[i]] += c / t[1, at[j]]
                    costs[1, at[j]] += c / t[0, at[i]]
        t = (costs / costs[:, :1]) ** (1 / (1 + regularization))
    return t


@pytest.mark.parametrize("regularization", [0.0, 0.5])
def test_around_the_preset_it_grows_lightgbms_own_trees(clicks, regularization):
    X, _, _, position = clicks
    built_in = {"lambdarank_position_bias_regularization": regularization, "objective": "lambdarank"}
    data = lgb.Dataset(X, clicks[1], group=clicks[2], position=position)
    theirs = lgb.train({**PARAMETERS, **built_in}, data, 20)
    inner = lp.presets.lightgbm()
    ours = lightgbm(lp.Unbiased(inner, position, regularization=regularization), clicks, 20)
    field = lightgbm(lp.Unbiased(inner, regularization=regularization), clicks, 20, position=position)
    assert not np.array_equal(theirs.predict(X), lightgbm(inner, clicks, 20).predict(X))
    for booster in (ours, field):
        np.testing.assert_array_equal(booster.predict(X), theirs.predict(X))


@pytest.mark.parametrize("method", ["additive", "pairwise"])
def test_what_is_learned_follows_the_formulas(clicks, method):
    _, y, group, position = clicks
    scores = np.random.default_rng(1).normal(size=len(y))
    inner = lp.LambdaRank("map")
    rate = {"rate": 0.15} if method == "additive" else {}
    objective = lp.Unbiased(inner, position, method, regularization=0.3, clip=1e6, **rate)
    memory, queries = {}, Queries(y, group)
    for _ in range(3):
        objective.differentiate(queries, scores, memory=memory)
    curve = lp.position_bias(objective)
    expected = by_hand(inner, clicks, method, regularization=0.3, scores=scores)
    np.testing.assert_allclose(curve.columns, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", ["plain", "noise", "mixture", "graded", "log"])
def test_pairs_are_those_of_the_fast_loops_while_nothing_is_learned(clicks, kind):
    _, y, group, position = clicks
    rank = lp.LambdaRank("ndcg@5")
    inner = {
        "plain": rank,
        "noise": lp.LambdaRank("map", noise=1.0, samples=2),
        "mixture": lp.Mixture([(0.3, rank), (0.7, lp.LambdaRank("map", normalize="std"))]),
        "graded": lp.Graded([rank, lp.LambdaRank("map", labels=np.arange(len(y)) % 3 > 1)]),
        "log": lp.LambdaRank("ndcg", cost=lp.RankNet(distance=0.01), normalize="log"),
    }[kind]
    scores = np.random.default_rng(2).normal(size=len(y))
    plain = inner.gradients(scores, y, group)
    for options in ({"method": "pairwise"}, {"propensities": [1.0] * 12}):
        debiased = lp.Unbiased(inner, position, **options).gradients(scores, y, group)
        for ours, theirs in zip(debiased, plain, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=2e-4, atol=2e-6)


def test_known_propensities_weigh_the_better_document():
    def weighed(**options):
        objective = lp.Unbiased(lp.LambdaRank("pairs"), [0, 1, 2], propensities=[1.0, 0.5, 0.01], **options)
        return objective.gradients([0.0, 0.0, 0.0], [0, 1, 1], [3])[0] * 4

    np.testing.assert_allclose(weighed(), [2 + 20, -2, -20], rtol=1e-6)
    np.testing.assert_allclose(weighed(clip=5), [2 + 5, -2, -5], rtol=1e-6)
    np.testing.assert_allclose(weighed(clip=5, normalize=True) * 3.5, [2 + 5, -2, -5], rtol=1e-6)


@pytest.mark.parametrize("method", ["additive", "pairwise"])
@pytest.mark.parametrize("train", [lightgbm, xgboost])
def test_a_continued_training_goes_on_where_the_first_stopped(clicks, method, train):
    X, _, _, position = clicks
    objective = lp.Unbiased(lp.LambdaRank("ndcg"), position, method)
    old = "init_model" if train is lightgbm else "xgb_model"
    rows = X if train is lightgbm else xgb.DMatrix(X)
    whole = train(objective, clicks, 6)
    first = train(objective, clicks, 3)
    going_on = lp.Unbiased(lp.LambdaRank("ndcg"), position, method, start=lp.position_bias(first))
    second = train(going_on, clicks, 3, **{old: first})
    np.testing.assert_array_equal(second.predict(rows), whole.predict(rows))
    assert lp.position_bias(second) == lp.position_bias(whole) != lp.position_bias(first)
    with pytest.warns(lp.LambdaplugWarning, match="continues a model of 3 trees"):
        train(objective, clicks, 1, **{old: first})


def test_trainings_learn_apart_in_threads_and_again(clicks):
    position = clicks[3]
    objective = lp.Unbiased(lp.LambdaRank("ndcg"), position, "pairwise")
    alone = [lp.position_bias(lightgbm(objective, clicks, rounds)) for rounds in (4, 6)]
    assert alone[0] != alone[1]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        boosters = list(pool.map(lambda rounds: lightgbm(objective, clicks, rounds), (4, 6)))
    assert [lp.position_bias(booster) for booster in boosters] == alone
    twin = pickle.loads(pickle.dumps(copy.deepcopy(objective)))
    assert twin == objective
    assert lp.position_bias(lightgbm(twin, clicks, 4)) == lp.position_bias(twin) == alone[0]


def test_the_number_of_threads_does_not_matter(clicks):
    _, y, group, position = clicks
    objective, curves = lp.Unbiased(lp.LambdaRank("ndcg"), position, "pairwise"), []
    for threads in (1, 2):
        memory, queries = {}, Queries(y, group)
        for _ in range(2):
            objective.differentiate(queries, np.zeros(len(y)), threads=threads, memory=memory)
        curves.append(lp.position_bias(objective))
    assert curves[0] == curves[1]


def test_both_cross_validations_know_the_positions_of_their_folds(clicks):
    X, y, group, position = clicks
    folds = list(lp.query_folds(group, 3))
    objective, given = lp.Unbiased(lp.LambdaRank("ndcg")), lp.Unbiased(lp.LambdaRank("ndcg"), position)
    parameters = {**PARAMETERS, "objective": given}
    kept = lgb.cv(
        parameters, lgb.Dataset(X, y, group=group), 4, folds=folds, feval=lp.metric("ndcg"), return_cvbooster=True
    )
    field = {**PARAMETERS, "objective": objective}
    data = lgb.Dataset(X, y, group=group, position=position)
    read = lgb.cv(field, data, 4, folds=folds, feval=lp.metric("ndcg"), return_cvbooster=True)
    for (train, _), ours, theirs in zip(folds, kept["cvbooster"].boosters, read["cvbooster"].boosters, strict=True):
        rows = np.sort(train)
        sizes = lp.data.sizes_of(np.repeat(np.arange(len(group)), group)[rows])
        alone = lightgbm(lp.Unbiased(lp.LambdaRank("ndcg"), position[rows]), (X[rows], y[rows], sizes, None), 4)
        np.testing.assert_allclose(lp.position_bias(ours).bias, lp.position_bias(alone).bias, atol=0.1)
        # LightGBM numbers positions by their first appearance.
        np.testing.assert_allclose(
            np.sort(lp.position_bias(theirs).bias), np.sort(lp.position_bias(ours).bias), atol=1e-6
        )
    found = xgb.cv(XGB, matrix(clicks, position), 4, nfold=3, obj=objective, custom_metric=lp.metric("ndcg"))
    assert len(found) == 4
    with pytest.raises(lp.LambdaplugError, match=r"a fold of xgb\.cv"):
        xgb.cv(XGB, matrix(clicks), 2, nfold=3, obj=given)
    xgb.cv(XGB, matrix(clicks), 2, nfold=3, obj=lp.Unbiased(lp.LambdaRank("ndcg"), "rows"))


@pytest.mark.parametrize(("method", "options"), [("additive", {}), ("pairwise", {"regularization": 1.0})])
def test_xgboost_learns_from_its_own_field_and_the_rows(clicks, method, options):
    X, y, group, position = clicks
    inner = lp.LambdaRank("ndcg")
    given = xgboost(lp.Unbiased(inner, position, method, **options), clicks)
    field = xgboost(lp.Unbiased(inner, None, method, **options), clicks, position=position)
    assert lp.position_bias(field) == lp.position_bias(given)
    order = np.lexsort((position, np.repeat(np.arange(len(group)), group)))
    shown = X[order], y[order], group, position[order]
    assert lp.position_bias(xgboost(lp.Unbiased(inner, "rows", method, **options), shown)) == lp.position_bias(
        xgboost(lp.Unbiased(inner, shown[3], method, **options), shown)
    )


def test_the_rate_is_the_boosters_own(clicks):
    position = clicks[3]
    for train in (lightgbm, xgboost):
        own = lp.position_bias(train(lp.Unbiased(lp.LambdaRank("map"), position), clicks, 3))
        said = lp.position_bias(train(lp.Unbiased(lp.LambdaRank("map"), position, rate=0.15), clicks, 3))
        np.testing.assert_allclose(own.bias, said.bias, rtol=1e-5)
        other = lp.position_bias(train(lp.Unbiased(lp.LambdaRank("map"), position, rate=0.5), clicks, 3))
        assert abs(other.bias - own.bias).max() > 0.01


def test_rankers_and_curves(clicks):
    X, y, group, position = clicks
    objective = lp.Unbiased(lp.LambdaRank("ndcg"), position, "pairwise")
    ranker = lp.LGBMRanker(objective=objective, n_estimators=3, verbose=-1).fit(X, y, group=group)
    curve = lp.position_bias(ranker)
    assert len(curve) == len(curve.plus) == len(curve.minus) == len(curve.propensity) == 12
    assert curve.plus[0] == curve.minus[0] == 1.0
    assert curve.plot(truth=1 / np.arange(1, 13)) is not None
    qid = np.repeat(np.arange(len(group)), group)
    ranker = lp.XGBRanker(objective=lp.Unbiased(lp.LambdaRank("ndcg"), position), n_estimators=3).fit(X, y, qid=qid)
    assert lp.position_bias(ranker).bias.shape == (12,)
    with pytest.raises(lp.LambdaplugError, match="no position biases"):
        lp.position_bias(lightgbm(lp.LambdaRank("ndcg"), clicks, 1))
    with pytest.raises(lp.LambdaplugError, match="expected a Booster"):
        lp.position_bias(3)


INNER = lp.LambdaRank("map")


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: lp.Unbiased(INNER, [0, -1]), "row 1 has -1"),
        (lambda: lp.Unbiased(INNER, [np.nan, 1]), "row 0 has nan"),
        (lambda: lp.Unbiased(INNER, [0, 0.5]), "row 1 has 0.5"),
        (lambda: lp.Unbiased(INNER, "row"), "'rows' or None"),
        (lambda: lp.Unbiased(INNER, method="other"), "'additive' or 'pairwise'"),
        (lambda: lp.Unbiased("map"), "expected an objective"),
        (lambda: lp.Unbiased(INNER, "rows", regularization=-1), "regularization"),
        (lambda: lp.Unbiased(INNER, "rows", "pairwise", rate=0.1), "additive method's"),
        (lambda: lp.Unbiased(INNER, "rows", propensities=[1, 0]), "got 0.0 for position 1"),
        (lambda: lp.Unbiased(INNER, propensities=[1, 0.5]), "expected position="),
        (lambda: lp.Unbiased(INNER, "rows", start=3), "lp.position_bias"),
        (lambda: lp.Unbiased(lp.Approx("ndcg"), "rows", "pairwise"), "weigh pairs"),
        (lambda: lp.Unbiased(lp.LambdaRank("map", cost="sigmoid"), "rows", "pairwise"), "ranknet"),
    ],
)
def test_bad_arguments(make, said):
    with pytest.raises(lp.LambdaplugError, match=said):
        make()


@pytest.mark.parametrize(
    ("objective", "said"),
    [
        (lp.Unbiased(INNER, [0, 1, 2]), r"one value per row of the data set \(2\), got 3"),
        (lp.Unbiased(INNER), "does not say where its rows were shown"),
        (lp.Unbiased(INNER, [1, 2], propensities=[1, 0.5]), "subtract 1"),
        (lp.Unbiased(INNER, "rows", propensities=lambda place: 1 - place), "for position 1"),
    ],
)
def test_bad_data(objective, said):
    with pytest.raises(lp.LambdaplugError, match=said):
        objective.gradients([0.0, 0.0], [0, 1], [2])


def test_it_is_no_part_of_a_sum():
    with pytest.raises(lp.LambdaplugError, match=r"cannot be a part of a sum. Put the sum inside"):
        lp.Mixture([(1.0, lp.Unbiased(INNER, "rows"))])
    with pytest.raises(lp.LambdaplugError, match=r"cannot be a part. Put Pareto inside it"):
        lp.Pareto([lp.Unbiased(INNER, "rows"), INNER])


def test_on_a_cluster_it_is_refused_until_the_numbers_are_known():
    with pytest.raises(lp.LambdaplugError, match="Learn it on one machine"):
        lp.Unbiased(INNER, "rows").check_share()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lp.Unbiased(INNER, "rows", propensities=[1, 0.5]).check_share()


# --- simulated users -----------------------------------------------------------------------------------------------


def test_simulated_users_click_as_they_are_said_to():
    data = lp.data.cubic(300, 8, 5)
    log = lp.data.simulate_clicks(data.labels, data.group, users="position", sessions=200, rankings=2, seed=1)
    assert log.group.tolist() == [8] * 600
    np.testing.assert_array_equal(
        np.sort(log.rows.reshape(600, 8)), np.repeat(np.arange(2400).reshape(300, 8), 2, axis=0)
    )
    np.testing.assert_array_equal(log.position.reshape(600, 8), np.tile(np.arange(8), (600, 1)))
    np.testing.assert_allclose(log.propensity, 1 / np.arange(1, 9))
    chance = np.array([0.05, 0.15, 0.3, 0.5, 0.7])[data.labels.astype(int)][log.rows]
    for place in range(8):
        at = log.position == place
        assert log.rate[at].sum() / chance[at].sum() == pytest.approx(log.propensity[place], abs=0.02)
    assert set(np.unique(log.labels)) == {0.0, 1.0}
    assert "rankings shown 200 times" in repr(log)


def test_simulated_trust_curves_and_cascades():
    labels, group = np.zeros(4000, int), np.full(1000, 4)

    def rates(**options):
        log = lp.data.simulate_clicks(labels, group, sessions=50, chances=[0.2], **options)
        return log.rate.reshape(1000, 4).mean(axis=0), log.propensity

    given, curve = rates(users="position", examination=[0.9, 0.6, 0.5, 0.1])
    np.testing.assert_allclose(given, 0.2 * np.array([0.9, 0.6, 0.5, 0.1]), atol=0.01)
    assert curve.tolist() == [0.9, 0.6, 0.5, 0.1]
    trusted, _ = rates(users="position", examination=0.0, trust=0.5)
    np.testing.assert_allclose(trusted, 0.2 + 0.8 * 0.5 / np.arange(1, 5), atol=0.01)
    cascade, seen = rates(users="cascade", examination=0.0)
    np.testing.assert_allclose(seen, 0.8 ** np.arange(4), atol=0.01)
    np.testing.assert_allclose(cascade, 0.2 * seen, atol=0.01)
    _, persistent = rates(users="cascade", examination=0.0, persistence=0.5)
    np.testing.assert_allclose(persistent, 0.9 ** np.arange(4), atol=0.01)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"users": "robots"}, "'last', 'position' or 'cascade'"),
        ({"trust": 0.1}, "are for users"),
        ({"users": "position", "trust": 2}, "from 0 to 1"),
        ({"users": "position", "examination": [1.0]}, "each of 2 ranks"),
        ({"users": "cascade", "examination": [0.5, 1.0]}, "must not rise"),
        ({"users": "position", "rankings": 0}, "rankings"),
    ],
)
def test_simulations_that_are_refused(options, said):
    with pytest.raises(lp.LambdaplugError, match=said):
        lp.data.simulate_clicks([0, 1], [2], **options)


# --- weights of queries in means -----------------------------------------------------------------------------------


def test_whole_weights_of_queries_are_repeats_in_means(clicks):
    X, y, group, _ = clicks
    rng = np.random.default_rng(3)
    weight, a, b = rng.integers(0, 3, len(group)), rng.normal(size=len(y)), rng.normal(size=len(y))
    repeated = np.repeat(np.arange(len(group)), weight)
    rows = (12 * repeated[:, None] + np.arange(12)).ravel()
    sizes = group[repeated]
    one = lp.evaluate(["map", "ndcg@3"], y, a, group, weight=weight)
    two = lp.evaluate(["map", "ndcg@3"], y[rows], a[rows], sizes)
    assert one == pytest.approx(two)
    assert one != pytest.approx(lp.evaluate(["map", "ndcg@3"], y, a, group))
    weighed = lp.compare("map", y, a, b, group, weight=weight)
    plain = lp.compare("map", y[rows], a[rows], b[rows], sizes)
    assert (weighed.mean_a, weighed.mean_b) == pytest.approx((plain.mean_a, plain.mean_b))
    assert weighed.queries < plain.queries  # a query asked twice is still one observation
    same, twos = (lp.compare("map", y, a, b, group, weight=own) for own in (None, np.full(len(group), 2.0)))
    assert (twos.p_t, *twos.interval) == pytest.approx((same.p_t, *same.interval))
    assert twos.p_randomization == same.p_randomization
    with pytest.raises(lp.LambdaplugError, match="one value per query"):
        lp.evaluate("map", y, a, group, weight=[1.0])
    with pytest.raises(lp.LambdaplugError, match="it enters means"):
        lp.evaluate("map", y, a, group, weight=weight, per_query=True)
    data, kind = matrix(clicks), lp.metric("map", weight=True)
    data.set_weight(weight.astype(float))
    assert kind(a, data) == [("map", pytest.approx(one["map"]))]
    set_ = lgb.Dataset(X, y, group=group, weight=np.repeat(weight.astype(float), group)).construct()
    assert kind(a, set_)[0][1] == pytest.approx(one["map"])
    assert repr(kind) == "metric('map', weight=True)"
    with pytest.raises(lp.LambdaplugError, match="expected True"):
        lp.metric("map", weight=weight)
    with pytest.raises(lp.LambdaplugError, match="of documents"):
        kind(a, lgb.Dataset(X, y, group=group, weight=rng.random(len(y))).construct())
