"""Position bias: against LightGBM's own, against the formulas, and the state of trainings."""

import concurrent.futures
import copy
import pickle

import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb

import lambdaplug as lp
from lambdaplug.objectives.unbiased import PositionBias, State
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


def columns(clicks):
    """Where rows were shown, and other labels of them."""
    _, y, _, position = clicks
    return {"third": np.arange(len(y)) % 3, **({} if position is None else {"shown": position})}


def lightgbm(objective, clicks, rounds=ROUNDS, position=None, threads=1, **further):
    X, y, group, _ = clicks
    data = lp.attach(lgb.Dataset(X, y, group=group, position=position), **columns(clicks))
    return lgb.train({**PARAMETERS, "objective": objective, "num_threads": threads}, data, rounds, **further)


def matrix(clicks, position=None):
    X, y, group, _ = clicks
    data = xgb.DMatrix(X, y)
    data.set_group(group)
    if position is not None:
        data.set_float_info("label_lower_bound", position)
    return lp.attach(data, **columns(clicks))


def xgboost(objective, clicks, rounds=ROUNDS, position=None, **further):
    return xgb.train(XGB, matrix(clicks, position), rounds, obj=objective, **further)


def by_hand(objective, clicks, method, rounds=3, rate=0.15, regularization=0.0, scores=None):
    """The curve after so many rounds at the same scores, from the formulas."""
    _, y, group, p = clicks
    scores = np.zeros(len(y)) if scores is None else scores
    count, start = p.max() + 1, np.cumsum(group) - group
    if method == "additive":
        b = np.zeros(count, np.float32)
        for _ in range(rounds):
            gradient, hessian = objective.gradients(y, scores + b[p], group, columns=columns(clicks))
            g, h, n = (np.bincount(p, w, count) for w in (gradient, hessian, None))
            b = (b + rate * (-g - regularization * n * b) / (h + regularization * n + 0.001)).astype(np.float32)
        return (b,)
    t = np.ones((2, count))
    for _ in range(rounds):
        below = np.maximum(t[1], 1.0)
        costs = np.zeros((2, count))
        for s, n in zip(start, group, strict=True):
            own, at, label = scores[s : s + n], p[s : s + n], y[s : s + n]
            for i in np.flatnonzero(label == 1):
                for j in np.flatnonzero(label == 0):
                    c = np.log1p(np.exp(own[j] - own[i]))
                    costs[0, at[i]] += c / below[at[j]]
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
    ours = lightgbm(lp.Unbiased(inner, "shown", regularization=regularization), clicks, 20)
    field = lightgbm(lp.Unbiased(inner, regularization=regularization), clicks, 20, position=position)
    assert not np.array_equal(theirs.predict(X), lightgbm(inner, clicks, 20).predict(X))
    for booster in (ours, field):
        np.testing.assert_array_equal(booster.predict(X), theirs.predict(X))


@pytest.mark.parametrize(
    ("method", "inner"),
    [
        ("additive", lp.LambdaRank("map")),
        ("additive", lp.objective("map")),
        ("additive", lp.Approx("ndcg")),
        ("additive", lp.Graded([lp.LambdaRank("map"), lp.LambdaRank("pairs", labels="third")])),
        ("pairwise", lp.LambdaRank("map")),
        ("pairwise", lp.LambdaRank("ndcg@3")),  # pairs below rank 3 have no force, and yet a cost
    ],
    ids=str,
)
def test_what_is_learned_follows_the_formulas(clicks, method, inner):
    _, y, group, _ = clicks
    scores = np.random.default_rng(1).normal(size=len(y))
    rate = {"rate": 0.15} if method == "additive" else {}
    objective = lp.Unbiased(inner, "shown", method, regularization=0.3, clip=1e6, **rate)
    memory, queries = {}, Queries(y, group, columns=columns(clicks))
    for iteration in range(3):
        objective.differentiate(queries, scores, iteration, memory=memory)
    curve = lp.position_bias(objective)
    expected = by_hand(inner, clicks, method, regularization=0.3, scores=scores)
    np.testing.assert_allclose(curve.columns, expected, rtol=1e-5, atol=1e-6)


def test_no_click_on_what_is_seldom_seen_says_less_never_more():
    """t- falls with the relevance of what is shown below; taken at its word, it made models worse than naive ones."""
    state = State("pairwise", PositionBias("pairwise", [[1.0, 0.5, 0.01], [1.0, 0.5, 2.0]]))
    above, below = state.factors(np.array([0, 1, 2]), 20.0)
    assert (above.tolist(), below.tolist()) == ([1.0, 2.0, 20.0], [1.0, 1.0, 0.5])


def test_a_normalised_query_keeps_the_weights_of_its_clicks():
    """log2(1 + S)/S with the weights in S divided most of them out again."""
    scores, y, group = [0.0, 0.0, 0.0, 0.0], [0, 1, 0, 1], [2, 2]
    inner = lp.LambdaRank("pairs", normalize="log")
    plain, weighed = (
        objective.gradients(y, scores, group, columns={"shown": [0, 0, 1, 1]})[0]
        for objective in (inner, lp.Unbiased(inner, "shown", propensities=[1.0, 0.1]))
    )
    np.testing.assert_allclose(weighed / plain, [1, 1, 10, 10], rtol=1e-5)


def test_odds_are_read_as_chances():
    """Users who look with the chances 1, 1/2 and 1/4, and click on half of what they look at."""
    truth, rows = np.array([1.0, 0.5, 0.25]), np.array([10.0, 40.0, 20.0])
    bias = np.log(0.5 * truth / (1 - 0.5 * truth))
    curve = PositionBias("additive", [bias], [rows, rows * 0.5 * truth])
    np.testing.assert_allclose(curve.propensity, truth, rtol=1e-4)
    np.testing.assert_allclose(PositionBias("additive", [bias]).propensity, np.exp(bias - bias[0]))
    counts = [[0.0, *rows], [0.0, *(rows * 0.5 * truth)]]  # nothing was shown at position 0
    np.testing.assert_allclose(PositionBias("additive", [[0.0, *bias]], counts).propensity[1:], truth, rtol=1e-4)


@pytest.mark.parametrize("kind", ["plain", "noise", "mixture", "graded", "log"])
def test_pairs_are_those_of_the_fast_loops_while_nothing_is_learned(clicks, kind):
    _, y, group, position = clicks
    own = {"shown": position, "third": np.arange(len(y)) % 3 > 1}
    rank = lp.LambdaRank("ndcg@5")
    inner = {
        "plain": rank,
        "noise": lp.LambdaRank("map", noise=1.0, samples=2),
        "mixture": lp.Mixture([(0.3, rank), (0.7, lp.LambdaRank("map", normalize="std"))]),
        "graded": lp.Graded([rank, lp.LambdaRank("map", labels="third")]),
        "log": lp.LambdaRank("ndcg", cost=lp.RankNet(distance=0.01), normalize="log"),
    }[kind]
    scores = np.random.default_rng(2).normal(size=len(y))
    plain = inner.gradients(y, scores, group, columns=own)
    for options in ({"method": "pairwise"}, {"propensities": [1.0] * 12}):
        debiased = lp.Unbiased(inner, "shown", **options).gradients(y, scores, group, columns=own)
        for ours, theirs in zip(debiased, plain, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=2e-4, atol=2e-6)


def test_known_propensities_weigh_the_better_document():
    def weighed(**options):
        objective = lp.Unbiased(lp.LambdaRank("pairs"), "shown", propensities=[1.0, 0.5, 0.01], **options)
        return objective.gradients([0, 1, 1], [0.0, 0.0, 0.0], [3], columns={"shown": [0, 1, 2]})[0] * 4

    np.testing.assert_allclose(weighed(), [2 + 20, -2, -20], rtol=1e-6)
    np.testing.assert_allclose(weighed(clip=5), [2 + 5, -2, -5], rtol=1e-6)
    np.testing.assert_allclose(weighed(clip=5, normalize=True) * 3.5, [2 + 5, -2, -5], rtol=1e-6)


@pytest.mark.parametrize("method", ["additive", "pairwise"])
@pytest.mark.parametrize("train", [lightgbm, xgboost])
def test_a_continued_training_goes_on_where_the_first_stopped(clicks, method, train):
    X, _, _, _ = clicks
    objective = lp.Unbiased(lp.LambdaRank("ndcg"), "shown", method)
    old = "init_model" if train is lightgbm else "xgb_model"
    rows = X if train is lightgbm else xgb.DMatrix(X)
    whole = train(objective, clicks, 6)
    first = train(objective, clicks, 3)
    going_on = lp.Unbiased(lp.LambdaRank("ndcg"), "shown", method, start=lp.position_bias(first))
    second = train(going_on, clicks, 3, **{old: first})
    np.testing.assert_array_equal(second.predict(rows), whole.predict(rows))
    assert lp.position_bias(second) == lp.position_bias(whole) != lp.position_bias(first)
    with pytest.warns(lp.LambdaplugWarning, match="continues a model of 3 trees"):
        train(objective, clicks, 1, **{old: first})


def test_trainings_learn_apart_in_threads_and_again(clicks):
    objective = lp.Unbiased(lp.LambdaRank("ndcg"), "shown", "pairwise")
    alone = [lp.position_bias(lightgbm(objective, clicks, rounds)) for rounds in (4, 6)]
    assert alone[0] != alone[1]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        boosters = list(pool.map(lambda rounds: lightgbm(objective, clicks, rounds), (4, 6)))
    assert [lp.position_bias(booster) for booster in boosters] == alone
    twin = pickle.loads(pickle.dumps(copy.deepcopy(objective)))
    assert twin == objective
    assert lp.position_bias(lightgbm(twin, clicks, 4)) == lp.position_bias(twin) == alone[0]


def test_the_number_of_threads_does_not_matter(clicks):
    objective = lp.Unbiased(lp.LambdaRank("ndcg"), "shown", "pairwise")
    one, two = (lp.position_bias(lightgbm(objective, clicks, 1, threads=threads)) for threads in (1, 2))
    assert one == two  # after one round: LightGBM's trees need not be the same


def test_both_cross_validations_know_the_positions_of_their_folds(clicks):
    X, y, group, position = clicks
    folds = list(lp.query_folds(group, 3))
    objective, given = lp.Unbiased(lp.LambdaRank("ndcg")), lp.Unbiased(lp.LambdaRank("ndcg"), "shown")
    parameters = {**PARAMETERS, "objective": given}
    data = lp.attach(lgb.Dataset(X, y, group=group), shown=position)
    kept = lgb.cv(parameters, data, 4, folds=folds, feval=lp.metric("ndcg"), return_cvbooster=True)
    field = {**PARAMETERS, "objective": objective}
    data = lgb.Dataset(X, y, group=group, position=position)
    read = lgb.cv(field, data, 4, folds=folds, feval=lp.metric("ndcg"), return_cvbooster=True)
    for ours, theirs in zip(kept["cvbooster"].boosters, read["cvbooster"].boosters, strict=True):
        own, numbered = (np.sort(lp.position_bias(booster).columns[0]) for booster in (ours, theirs))
        np.testing.assert_allclose(numbered, own, atol=1e-6)  # LightGBM numbers positions by their first appearance
    found = xgb.cv(XGB, matrix(clicks, position), 4, nfold=3, obj=objective, custom_metric=lp.metric("ndcg"))
    assert len(found) == 4
    with pytest.raises(lp.LambdaplugError, match=r"in xgb\.cv they come along"):
        xgb.cv(XGB, matrix(clicks), 2, nfold=3, obj=given)
    xgb.cv(XGB, matrix(clicks), 2, nfold=3, obj=lp.Unbiased(lp.LambdaRank("ndcg"), "rows"))


@pytest.mark.parametrize(("method", "options"), [("additive", {}), ("pairwise", {"regularization": 1.0})])
def test_xgboost_learns_from_its_own_field_and_the_rows(clicks, method, options):
    X, y, group, position = clicks
    inner = lp.LambdaRank("ndcg")
    given = xgboost(lp.Unbiased(inner, "shown", method, **options), clicks)
    field = xgboost(lp.Unbiased(inner, None, method, **options), clicks, position=position)
    assert lp.position_bias(field) == lp.position_bias(given)
    order = np.lexsort((position, np.repeat(np.arange(len(group)), group)))
    shown = X[order], y[order], group, position[order]
    assert lp.position_bias(xgboost(lp.Unbiased(inner, "rows", method, **options), shown)) == lp.position_bias(
        xgboost(lp.Unbiased(inner, "shown", method, **options), shown)
    )


def test_the_rate_is_the_boosters_own(clicks):
    for train in (lightgbm, xgboost):
        own, said, other = (
            np.array(lp.position_bias(train(lp.Unbiased(INNER, "shown", rate=rate), clicks, 3)).columns[0])
            for rate in (None, 0.15, 0.5)
        )
        np.testing.assert_allclose(own, said, rtol=1e-5)
        assert abs(other - own).max() > 0.01


def test_rankers_and_curves(clicks):
    X, y, group, _ = clicks
    objective = lp.Unbiased(lp.LambdaRank("ndcg"), "shown", "pairwise")
    ranker = lp.LGBMRanker(objective=objective, n_estimators=3, verbose=-1).fit(
        X, y, group=group, columns=columns(clicks)
    )
    curve = lp.position_bias(ranker)
    assert len(curve) == len(curve.propensity) == 12
    assert curve.columns[0][0] == curve.columns[1][0] == 1.0
    assert "propensity" in str(curve)
    qid = np.repeat(np.arange(len(group)), group)
    ranker = lp.XGBRanker(objective=lp.Unbiased(lp.LambdaRank("ndcg"), "shown"), n_estimators=3)
    ranker.fit(X, y, qid=qid, columns=columns(clicks))
    assert len(lp.position_bias(ranker).columns[0]) == 12
    with pytest.raises(lp.LambdaplugError, match="no position biases"):
        lp.position_bias(lightgbm(lp.LambdaRank("ndcg"), clicks, 1))
    with pytest.raises(lp.LambdaplugError, match="expected a Booster"):
        lp.position_bias(3)


INNER = lp.LambdaRank("map")


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: lp.Unbiased(INNER, [0, -1]), "say position='position'"),
        (lambda: lp.Unbiased(INNER, method="other"), "'additive' or 'pairwise'"),
        (lambda: lp.Unbiased("map"), "expected an objective"),
        (lambda: lp.Unbiased(INNER, "rows", regularization=-1), "regularization"),
        (lambda: lp.Unbiased(INNER, "rows", "pairwise", rate=0.1), "additive method's"),
        (lambda: lp.Unbiased(INNER, "rows", propensities=[1, 0]), r"positions 0 to 1, got \[1.0, 0.0\]"),
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
    ("objective", "shown", "said"),
    [
        (lp.Unbiased(INNER, "shown"), [0, -1], "column 'shown': .*row 1 has -1"),
        (lp.Unbiased(INNER, "shown"), [0, 0.5], "row 1 has 0.5"),
        (lp.Unbiased(INNER), [0, 1], "does not say where its rows were shown"),
        (lp.Unbiased(INNER, "shown", propensities=[1, 0.5]), [1, 2], "each of the positions 0 to 2, got"),
        (lp.Unbiased(INNER, "rows", propensities=lambda place: 1 - place), [0, 1], "finite number > 0"),
    ],
)
def test_bad_data(objective, shown, said):
    with pytest.raises(lp.LambdaplugError, match=said):
        objective.gradients([0, 1], [0.0, 0.0], [2], columns={"shown": shown})


def test_it_is_no_part_of_a_sum():
    with pytest.raises(lp.LambdaplugError, match=r"cannot be a part of a sum. Put the sum inside"):
        lp.Mixture([(1.0, lp.Unbiased(INNER, "rows"))])
    with pytest.raises(lp.LambdaplugError, match=r"cannot be a part. Put Pareto inside it"):
        lp.Pareto([lp.Unbiased(INNER, "rows"), INNER])


def test_on_a_cluster_positions_must_follow_the_rows():
    with pytest.raises(lp.LambdaplugError, match="or the name of a column"):
        lp.Unbiased(INNER).check_share()
    with pytest.raises(lp.LambdaplugError, match="normalize=True divides by a mean"):
        lp.Unbiased(INNER, "rows", propensities=[1, 0.5], normalize=True).check_share()
    lp.Unbiased(INNER, "rows").check_share()


# --- what it is for ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=[1.0, 0.0], ids=["biased", "unbiased"])
def users(request):
    """The recipe's documents, fewer of them, and clicks of users who look at rank r with the chance 1/r, or always."""
    data = lp.data.cubic(1200, 15, 20, terms=30, noise=0.3)
    train, test = data.split(2, 1)
    weak = lightgbm(lp.LambdaRank("ndcg"), (train.X[:300], train.labels[:300], train.group[:20], None), 10)
    shown_by = weak.predict(train.X) / weak.predict(train.X).std()
    log = lp.data.simulate_clicks(
        *(train.labels, train.group),
        scores=shown_by,
        users="position",
        examination=request.param,
        chances=(0.02, 0.1, 0.25, 0.5, 0.8),
        sessions=1,
        rankings=6,
    )
    return request.param, train, test, log


@pytest.mark.parametrize("method", ["additive", "pairwise"])
def test_models_of_clicks_are_better_by_the_true_labels_or_not_worse(users, method):
    eta, train, test, log = users
    rows = train.X[log.rows], log.labels, log.group, log.position
    inner = lp.LambdaRank("ndcg@10")
    naive, ours = (lightgbm(one, rows, 25) for one in (inner, lp.Unbiased(inner, "shown", method)))
    found = lp.compare("ndcg@10", test.labels, naive.predict(test.X), ours.predict(test.X), test.group)
    assert found.interval[0 if eta else 1] > 0.0
    if eta:
        truth, clicked = log.propensity, np.bincount(log.position, log.labels) / len(log.group)
        off = np.abs(lp.position_bias(ours).propensity - truth).max()
        assert off < 0.1
        assert off < np.abs(clicked / clicked[0] - truth).max()


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


def test_simulated_curves():
    given = {"users": "position", "examination": [0.9, 0.6, 0.5, 0.1], "sessions": 50, "chances": [0.2]}
    log = lp.data.simulate_clicks(np.zeros(4000, int), np.full(1000, 4), **given)
    np.testing.assert_allclose(log.rate.reshape(1000, 4).mean(axis=0), 0.2 * log.propensity, atol=0.01)
    assert log.propensity.tolist() == given["examination"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"users": "robots"}, "'last' or 'position'"),
        ({"rankings": 2}, "is for users='position'"),
        ({"users": "position", "examination": [1.0]}, "each of 2 ranks"),
        ({"examination": [0.5, 1.0]}, "must not rise"),
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
    with pytest.raises(lp.LambdaplugError, match="it enters means"):
        lp.evaluate("map", y, a, group, weight=weight, per_query=True)
    data, kind = matrix(clicks), lp.metric("map", weight=True)
    data.set_weight(weight.astype(float))
    assert kind(a, data) == [("map", pytest.approx(one["map"]))]
    set_ = lgb.Dataset(X, y, group=group, weight=np.repeat(weight.astype(float), group)).construct()
    assert kind(a, set_)[0][1] == pytest.approx(one["map"])
    with pytest.raises(lp.LambdaplugError, match="of documents"):
        kind(a, lgb.Dataset(X, y, group=group, weight=rng.random(len(y))).construct())
