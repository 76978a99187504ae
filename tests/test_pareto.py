"""Several goals: weights that each round decides, and fronts."""

import pickle

import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb

import lambdaplug as lp
from lambdaplug.objectives.pareto import min_norm
from lambdaplug.queries import Queries
from lambdaplug.schedules import Moment

RNG = np.random.default_rng(5)
DATA = lp.data.cubic(queries=60, documents=12, features=6, seed=1)
PRICE = np.round(np.clip(2 - DATA.labels / 2 + DATA.X[:, 0], 0, 4))  # against the labels, in part
SCORES = RNG.normal(size=len(PRICE))
A, B = lp.LambdaRank("ndcg"), lp.LambdaRank("ndcg", labels="price")
OWN = {"price": PRICE}
ROWS = {"labels": DATA.labels, "scores": SCORES, "group": DATA.group, "columns": OWN}
LGB = {"verbose": -1, "metric": "None", "min_sum_hessian_in_leaf": 1e-9, "num_leaves": 8, "num_threads": 2}
XGB = {"objective": "rank:ndcg", "min_child_weight": 0, "disable_default_eval_metric": 1, "max_depth": 3, "nthread": 2}


def lgb_train(objective, rounds=10, **options):
    return lgb.train(
        {"objective": objective, **LGB},
        lp.attach(lgb.Dataset(DATA.X, DATA.labels, group=DATA.group), **OWN),
        rounds,
        **options,
    )


def xgb_train(objective, rounds=10, **options):
    return xgb.train(
        XGB, lp.attach(xgb.DMatrix(DATA.X, DATA.labels, qid=DATA.qid), **OWN), rounds, obj=objective, **options
    )


@pytest.mark.parametrize("count", [2, 3, 4, 5, 6])
def test_no_point_of_the_simplex_has_a_smaller_norm(count):
    for seed in range(40):
        rng = np.random.default_rng(seed)
        vectors = rng.normal(size=(count, 20)) * np.exp(rng.normal(size=(count, 1))) + rng.normal(size=20)
        gram = vectors @ vectors.T
        found = min_norm(gram)
        assert found.min() >= 0
        assert found.sum() == pytest.approx(1)
        slope = gram @ found  # least where it acts, and nowhere less: the condition of a minimum
        np.testing.assert_allclose(slope[found > 0], found @ slope, rtol=1e-8)
        assert slope.min() >= found @ slope * (1 - 1e-8)
        np.testing.assert_allclose(min_norm(1e-12 * gram), found, atol=1e-10)


def test_min_norm_of_degenerate_matrices():
    np.testing.assert_array_equal(min_norm(np.zeros((2, 2))), [0.5, 0.5])
    one = RNG.normal(size=5)
    vectors = np.array([one, one, -one, 2 * one])
    a = min_norm(vectors @ vectors.T)
    assert a.min() >= 0
    assert a.sum() == pytest.approx(1)
    assert np.abs(a @ vectors).max() < 1e-7


def by_hand(parts, weights):
    return [sum(w * part[k].astype(float) for w, part in zip(weights, parts, strict=True)) for k in (0, 1)]


def test_mgda_improves_both_in_proportion_to_the_preferences():
    g = [part.gradients(**ROWS) for part in (A, B)]
    for preference in ([0.5, 0.5], [0.8, 0.2], [0.3, 0.7]):
        for normalize in ("none", "norm"):
            objective = lp.Pareto([A, B], preference=preference, normalize=normalize)
            found, weights = objective.gradients(**ROWS), objective.weights(**ROWS)
            for one, want in zip(found, by_hand(g, weights), strict=True):
                np.testing.assert_allclose(one, want, rtol=1e-6, atol=1e-7)
            units = [part[0].astype(float) / (np.linalg.norm(part[0]) if normalize == "norm" else 1) for part in g]
            gains = [float(found[0] @ unit) / r for unit, r in zip(units, preference, strict=True)]
            assert min(gains) > 0
            if min(weights) > 0:
                assert gains[0] == pytest.approx(gains[1], rel=1e-4)
    unit = lp.Pareto([A, B], normalize="std")
    shaped = [lp.Mixture([(1.0, part)], normalize="std").gradients(**ROWS) for part in (A, B)]
    for one, want in zip(unit.gradients(**ROWS), by_hand(shaped, unit.weights(**ROWS)), strict=True):
        np.testing.assert_allclose(one, want, rtol=1e-6, atol=1e-6)


def test_a_part_alone_is_that_part_and_weights_have_no_threads():
    for method in ("mgda", "chebyshev", "sample"):
        found = lp.Pareto([A, B], method, [0.0, 1.0]).gradients(**ROWS)
        for one, want in zip(found, B.gradients(**ROWS), strict=True):
            np.testing.assert_array_equal(one, want)
    options = {"epsilon": {"bounds": [0.9]}}
    for method in ("mgda", "chebyshev", "epsilon", "sample"):
        objective = lp.Pareto([A, B], method, **options.get(method, {}))
        assert pickle.loads(pickle.dumps(objective)) == objective
        one, four = (
            objective.differentiate(Queries(DATA.labels, DATA.group, columns=OWN), SCORES, threads=threads)
            for threads in (1, 4)
        )
        for a, b in zip(one, four, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("method", ["mgda", "chebyshev", "epsilon", "sample"])
def test_workers_add_up_to_the_whole(method):
    parts = [lp.LambdaRank("ndcg"), lp.LambdaRank("map(relevant=2)")]
    objective = lp.Pareto(parts, method, **({"bounds": [0.9]} if method == "epsilon" else {}))
    cut, queries = int(DATA.group[:20].sum()), 20
    halves = [
        (Queries(DATA.labels[:cut], DATA.group[:queries]), SCORES[:cut]),
        (Queries(DATA.labels[cut:], DATA.group[queries:]), SCORES[cut:]),
    ]
    brought = []

    def bring(values):
        brought.append(values)
        return values

    for rows in halves:  # what each worker brings; then both get the sum
        objective.resolved(Moment(0, total=bring)).differentiate(*rows)
    sums = [a + b for a, b in zip(brought[: len(brought) // 2], brought[len(brought) // 2 :], strict=True)]
    found = []
    for rows in halves:
        answers = iter(sums)
        plan = objective.resolved(Moment(0, total=lambda _, answers=answers: next(answers)))
        found.append(plan.differentiate(*rows))
        np.testing.assert_allclose(plan.moment.weights[objective], objective.weights(**ROWS), rtol=1e-9)
    for together, alone in zip(zip(*found, strict=True), objective.gradients(**ROWS), strict=True):
        np.testing.assert_allclose(np.concatenate(together), alone, rtol=1e-6, atol=1e-9)


def test_every_query_draws_one_part():
    objective = lp.Pareto([A, B], "sample", [0.25, 0.75], seed=3)
    g, found = [part.gradients(**ROWS)[0] for part in (A, B)], objective.gradients(**ROWS)[0]
    query = DATA.qid
    drawn = [[np.array_equal(found[query == q], part[query == q]) for part in g] for q in range(len(DATA.group))]
    assert all(any(row) for row in drawn)
    shares = objective.weights(**ROWS)
    assert sum(shares) == 1
    assert shares[1] == pytest.approx(0.75, abs=0.15)
    np.testing.assert_array_equal(shares, np.mean(drawn, axis=0))  # no query has equal gradients of both
    for other in (
        objective.gradients(DATA.labels, SCORES + 1.0, DATA.group, columns=OWN),
        lp.Pareto([A, B], "sample", [0.25, 0.75]).gradients(**ROWS),
    ):
        assert not np.allclose(other[0], found, atol=1e-5)  # another round, another seed


def test_chebyshev_goes_to_the_part_that_is_behind():
    good = DATA.labels + 0.01 * SCORES
    for scores, behind in ((good, 1), (PRICE + 0.01 * SCORES, 0)):
        objective = lp.Pareto([A, B], "chebyshev")
        assert objective.weights(DATA.labels, scores, DATA.group, columns=OWN)[behind] > 0.95
    values = [lp.evaluate("ndcg", labels, SCORES, DATA.group)["ndcg"] for labels in (DATA.labels, PRICE)]
    weights = lp.Pareto([A, B], "chebyshev", normalize="none", smooth=0.1).weights(**ROWS)
    want = np.exp((1 - np.array(values)) / 2 / 0.1)
    np.testing.assert_allclose(weights, want / want.sum(), rtol=1e-9)


@pytest.mark.parametrize("train", [lgb_train, xgb_train])
def test_epsilon_keeps_the_bound_and_the_trace_shows_it(train):
    objective = lp.Pareto([A, B], "epsilon", bounds=[0.88])
    seen = lp.callback(objective)
    rows = DATA.X if train is lgb_train else xgb.DMatrix(DATA.X)
    value, alone = (
        lp.evaluate("ndcg", PRICE, booster.predict(rows), DATA.group)["ndcg"]
        for booster in (train(objective, 80, callbacks=[seen]), train(A, 80))
    )
    assert alone < 0.85
    assert value > 0.99 * 0.88
    assert len(seen.trace) == 80
    assert set(seen.trace[0]) == {"iteration", "weight", "weight 0", "weight 1", "measure 0", "measure 1"}
    assert sum(row["weight 0"] + row["weight 1"] for row in seen.trace) == pytest.approx(80)


def test_parts_may_be_sums_with_guards_and_a_pareto_may_be_a_part():
    guarded = lp.Pareto([A, B], guard=lp.guard("ndcg@3", floor=2.0))
    inner = lp.Pareto([lp.Mixture([(0.5, A), (lp.linear(0.1, 0.1), lp.LambdaRank("map"))]), lp.Pareto([A, B])])
    assert len(inner.weights(**ROWS)) == 2
    data = lp.attach(lgb.Dataset(DATA.X, DATA.labels, group=DATA.group), **OWN)
    valid = lgb.Dataset(DATA.X, DATA.labels, group=DATA.group, reference=data)
    seen = lp.callback(guarded, metric=lp.metric("map"))
    lgb.train({"objective": guarded, **LGB}, data, 5, valid_sets=[valid], callbacks=[seen])
    assert "map" in seen.trace[0]
    assert seen.trace[-1]["weight 1"] < 0.2 * seen.trace[0]["weight 1"]


def test_vanished_gradients():
    flat = np.zeros(len(PRICE))
    flat[:2] = 0, 1
    done = lp.LambdaRank("ndcg", labels="flat")
    scores = np.where(flat > 0, 1e4, SCORES)
    objective = lp.Pareto([A, done])
    rows = {"labels": DATA.labels, "scores": scores, "group": DATA.group, "columns": {"flat": flat}}
    assert not done.gradients(**rows)[0].any()
    assert objective.weights(**rows) == [1.0, 0.0]
    nothing = lp.Pareto([lp.LambdaRank("ndcg"), lp.LambdaRank("map")], preference=[3, 1])
    assert nothing.weights([1, 1], [0.0, 1.0], [2]) == [0.75, 0.25]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: lp.Pareto([A]), "at least two objectives, got 1"),
        (lambda: lp.Pareto([A, lp.LambdaRank("ndcg")]), "parts 0 and 1 are the same"),
        (lambda: lp.Pareto([A, "map"]), "expected an objective such as"),
        (lambda: lp.Pareto([A, B], preference=[1, -1]), "preference: expected numbers >= 0"),
        (lambda: lp.Pareto([A, B], preference=[0, 0]), "not all 0"),
        (lambda: lp.Pareto([A, B], preference=[1]), "preference: expected 2 finite numbers"),
        (lambda: lp.Pareto([A, B], "linear"), "method: expected one of 'mgda'"),
        (lambda: lp.Pareto([A, B], "epsilon"), "bounds: epsilon needs"),
        (lambda: lp.Pareto([A, B], "epsilon", bounds=[1.0]), "less than its reference"),
        (lambda: lp.Pareto([A, B], "epsilon", [1, 1], bounds=[0.5]), "preference: it belongs to mgda"),
        (lambda: lp.Pareto([A, B], bounds=[0.5]), "bounds: it belongs to epsilon"),
        (lambda: lp.Pareto([A, B], "sample", normalize="norm"), "normalize: expected one of 'none', 'std'"),
        (lambda: lp.Pareto([A, lp.ListMLE()], "chebyshev"), "has none. Use method='mgda'"),
        (lambda: lp.Pareto([A, B], guard=0.5), "guard: expected lp.guard"),
        (lambda: lp.Mixture([(1.0, lp.Pareto([A, B])), (1.0, A)]), "cannot be a part of a sum"),
    ],
)
def test_refused(make, said):
    with pytest.raises(lp.LambdaplugError, match=said.replace("(", r"\(")):
        make()


# --- fronts


TRAIN, VALID = DATA.split(0.6, 0.4)
CUT = len(TRAIN.labels)
GOALS = [lp.LambdaRank("ndcg"), lp.LambdaRank("map(relevant=3)", labels="price")]
MEASURES = ["ndcg", lp.metric("map(relevant=3)", labels="price")]


def pareto(share):
    return lp.Pareto(GOALS, preference=[1 - share, share])


@pytest.mark.parametrize(("host", "params"), [("lightgbm", LGB), ("xgboost", {"min_child_weight": 0, "max_depth": 3})])
def test_a_front_measures_what_it_trained(host, params):
    options = {"host": host, "params": params, "rounds": 4, "progress": False}
    options |= {"columns": {"price": PRICE[:CUT]}, "valid_columns": {"price": PRICE[CUT:]}}
    found = lp.front(pareto, [0.1, 0.5, 0.9], TRAIN, VALID, MEASURES, **options)
    for point, booster in zip(found.values, found.boosters, strict=True):
        rows = VALID.X if host == "lightgbm" else xgb.DMatrix(VALID.X)
        scores = booster.predict(rows)
        want = [
            lp.evaluate("ndcg", VALID.labels, scores, VALID.group)["ndcg"],
            *lp.evaluate("map(relevant=3)", PRICE[CUT:], scores, VALID.group).values(),
        ]
        np.testing.assert_allclose(point, want, rtol=1e-12)
    name = found.measures[1]
    assert found.choose("ndcg") is found.boosters[int(np.argmax(found.values[:, 0]))]
    floor = float(np.sort(found.values[:, 1])[1])
    allowed = found.values[:, 1] >= floor
    assert found.index("ndcg", {name: floor}) == np.argmax(np.where(allowed, found.values[:, 0], -1))
    with pytest.raises(lp.LambdaplugError, match="no point is at or above the floor"):
        found.choose("ndcg", floor={name: 2.0})
    with pytest.raises(lp.LambdaplugError, match="one of the front's measures"):
        found.choose("mrr")


def a_front(values, queries=2):
    per_query = np.repeat(np.asarray(values, dtype=float)[..., None], queries, axis=2)
    count = len(per_query)
    return lp.hosts.front.Front(tuple("abc"[: per_query.shape[1]]), tuple(range(count)), ("model",) * count, per_query)


def test_dominated_knee_and_hypervolume():
    front = a_front([[0, 1], [0.7, 0.8], [0.6, 0.8], [1, 0], [0.2, 0.9], [1, 0]])
    assert front.dominated.tolist() == [False, False, True, False, False, False]
    assert front.knee == 1
    assert front.hypervolume([0, 0]) == pytest.approx(0.2 * 0.9 + 0.5 * 0.8)
    assert front.hypervolume([0.5, 0.5]) == pytest.approx(0.2 * 0.3)
    assert front.hypervolume([2, 2]) == 0
    points = np.random.default_rng(0).random((6, 3))
    sample = np.random.default_rng(1).random((200_000, 3))
    inside = (sample[:, None] <= points[None]).all(axis=2).any(axis=1).mean()
    assert a_front(points).hypervolume([0, 0, 0]) == pytest.approx(inside, abs=0.005)
    with pytest.raises(lp.LambdaplugError, match="one value per measure"):
        front.hypervolume([0])


def test_intervals_frame_and_plot():
    values = np.random.default_rng(3).random((2, 2, 9))
    values[0, 0, 4] = np.nan
    front = lp.hosts.front.Front(("a", "b"), (0.1, 0.9), ("x", "y"), values)
    from scipy import stats

    known = values[0, 0][~np.isnan(values[0, 0])]
    want = stats.t.interval(0.95, len(known) - 1, known.mean(), stats.sem(known))
    np.testing.assert_allclose(front.intervals[0, 0], want, rtol=1e-9)
    frame = front.frame()
    assert frame["knee"].sum() == 1
    assert frame["a high"][0] == front.intervals[0, 0, 1]
    assert "knee" in str(front)
    ax = a_front([[0, 1], [0.7, 0.8], [0.6, 0.8], [1, 0]]).plot(label="here")
    lines = {line.get_label(): line.get_xydata().tolist() for line in ax.get_lines()}
    assert lines["here, dominated"] == [[0.6, 0.8]]
    assert lines["here, knee"] == [[0.7, 0.8]]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"host": "catboost"}, "host: expected"),
        ({"preferences": []}, "preferences, measures: expected at least one"),
        ({"measures": []}, "measures: expected at least one"),
        ({"make_objective": lambda _: "ndcg"}, "expected an objective such as"),
        ({"level": 95}, "level: expected"),
    ],
)
def test_fronts_refuse(changed, said):
    given = {"make_objective": pareto, "preferences": [0.5], "train": TRAIN, "valid": VALID, "measures": "ndcg"}
    with pytest.raises(lp.LambdaplugError, match=said):
        lp.front(**(given | changed))
