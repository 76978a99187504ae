"""Columns belong to rows: attached to data sets by name, taken along by subsets, folds and batches, refused where they are missing."""

import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb

import lambdaplug as lp
from lambdaplug.hosts.lightgbm import HOST as LIGHTGBM
from lambdaplug.hosts.xgboost import HOST as XGBOOST
from lambdaplug.queries import Queries

RNG = np.random.default_rng(0)
GROUP = np.array([7, 12, 1, 9, 11])
ROWS = int(GROUP.sum())
QID = np.repeat(np.arange(len(GROUP)), GROUP)
X = RNG.normal(size=(ROWS, 4))
LABELS = RNG.integers(0, 4, ROWS).astype(float)
SCORES = RNG.normal(size=ROWS)
PRICE = RNG.uniform(1.0, 50.0, ROWS)
TABLE = RNG.integers(0, 3, (ROWS, 3))
DEPTH = np.array([3, 4, 5, 6, 7])
PAIRS = np.array([[8, 7], [0, 6], [9, 18], [38, 30], [5, 1]])
QUIET = {"verbose": -1, "num_leaves": 4, "min_data_in_leaf": 1, "min_data_in_bin": 1, "num_threads": 1}
EVERY = {"price": PRICE, "table": TABLE, "depth": DEPTH, "duels": PAIRS}


def dataset(**options):
    return lgb.Dataset(X, LABELS, group=GROUP, params=QUIET, **options)


def matrix(rows=slice(None)):
    return xgb.DMatrix(X[rows], LABELS[rows], qid=QID[rows])


def read(data):
    return (LIGHTGBM if isinstance(data, lgb.Dataset) else XGBOOST).queries(None, data)


@pytest.mark.parametrize("make", [dataset, matrix])
def test_a_data_set_keeps_copies_of_its_columns(make):
    price = PRICE.copy()
    data = make()
    assert lp.attach(data, price=price) is data
    price[:] = 0.0
    lp.attach(data, table=TABLE)
    found = lp.attached(data)
    assert list(found) == ["price", "table"]
    np.testing.assert_array_equal(found["price"], PRICE)
    with pytest.raises(ValueError, match="read-only"):
        found["price"][0] = 1.0
    assert lp.attached(make()) == {}


@pytest.mark.parametrize("make", [dataset, matrix])
def test_a_column_attached_again_is_read_again(make):
    data = lp.attach(make(), price=PRICE)
    if isinstance(data, lgb.Dataset):
        data.construct()
    np.testing.assert_array_equal(read(data).column("price"), PRICE)
    assert read(data) is read(data)
    lp.attach(data, price=2 * PRICE)
    np.testing.assert_array_equal(read(data).column("price"), 2 * PRICE)


def check_part(queries, rows):
    """These rows' part of every column."""
    np.testing.assert_array_equal(queries.column("price"), PRICE[rows])
    np.testing.assert_array_equal(np.stack(queries.table("table"), axis=1), TABLE[rows])
    np.testing.assert_array_equal(queries.column("depth"), DEPTH[QID[rows]])
    pairs = queries.pairs("duels")
    inside = PAIRS[np.isin(PAIRS[:, 0], rows)]
    np.testing.assert_array_equal(
        sorted(zip(rows[pairs.better].tolist(), rows[pairs.worse].tolist(), strict=True)),
        sorted(map(tuple, inside.tolist())),
    )


def test_subsets_and_their_subsets_take_their_rows_along():
    data = lp.attach(dataset(position=np.arange(ROWS)), **EVERY).construct()
    check_part(read(data), np.arange(ROWS))
    rows = np.flatnonzero(np.isin(QID, [1, 2, 4]))
    subset = data.subset(rows.tolist()).construct()
    check_part(read(subset), rows)
    np.testing.assert_array_equal(read(subset).position, rows)  # LightGBM loses it
    inner = subset.subset(np.arange(12, 24).tolist()).construct()
    check_part(read(inner), rows[12:24])
    lp.attach(subset, price=-PRICE[rows])
    np.testing.assert_array_equal(read(subset).column("price"), -PRICE[rows])
    np.testing.assert_array_equal(read(inner).column("price"), -PRICE[rows[12:24]])


def test_folds_of_xgb_cv_take_their_rows_along_and_other_slices_do_not():
    data = lp.attach(xgb.DMatrix(X, LABELS), **EVERY)
    folds = lp.query_folds(GROUP, 2)
    seen = []

    def objective(scores, fold):
        queries = read(fold)
        rows = next(own for own in (train for train, _ in folds) if len(own) == len(scores))
        check_part(queries, rows)
        seen.append(len(rows))
        return np.zeros(len(scores)), np.ones(len(scores))

    parameters = {"objective": "rank:ndcg", "disable_default_eval_metric": 1, "nthread": 1}
    xgb.cv(parameters, data, 1, folds=folds, fpreproc=folds.fpreproc, obj=objective)
    assert sorted(seen) == sorted(len(train) for train, _ in folds)
    part = lp.attach(matrix(), price=PRICE).slice(np.arange(7), allow_groups=True)
    part.set_group([7])
    with pytest.raises(
        lp.LambdaplugError, match=r"there is none of this name in this DMatrix; its columns: none.*A slice"
    ):
        read(part).column("price")


def test_batches_bring_further_columns():
    def batches():
        for first, last in ((0, 5), (5, 20), (20, ROWS)):  # queries are cut
            yield (
                X[first:last],
                LABELS[first:last],
                QID[first:last],
                {"price": PRICE[first:last], "table": TABLE[first:last]},
            )

    running = lp.XGBDataIter(batches)
    data = lp.attach(xgb.QuantileDMatrix(running), **running.columns)
    np.testing.assert_array_equal(read(data).column("price"), PRICE)
    np.testing.assert_array_equal(np.stack(read(data).table("table"), axis=1), TABLE)
    with pytest.raises(lp.LambdaplugError, match="the same in all"):
        xgb.QuantileDMatrix(
            lp.XGBDataIter([(X[:7], LABELS[:7], QID[:7]), (X[7:], LABELS[7:], QID[7:], {"price": PRICE[7:]})])
        )


# --- a validation set with as many rows as the training data -------------------------------------------------------

OTHER = RNG.permutation(PRICE)  # the validation set's own prices
REVENUE = lp.Revenue(price="price", k=3)
OURS = {"objective": "rank:ndcg", "disable_default_eval_metric": 1, "nthread": 1, "max_depth": 2, "min_child_weight": 0}


def in_lightgbm():
    train, valid, seen = lp.attach(dataset(), price=PRICE), lp.attach(dataset(), price=OTHER), {}
    parameters = {**QUIET, "objective": lp.LambdaRank(REVENUE), "metric": "None"}
    sets = {"valid_sets": [train, valid.set_reference(train)], "valid_names": ["train", "valid"]}
    callbacks = [lgb.record_evaluation(seen)]
    booster = lgb.train(parameters, train, 3, **sets, feval=lp.metric(REVENUE), callbacks=callbacks)
    return lambda rounds: booster.predict(X, num_iteration=rounds), seen


def in_xgboost():
    train, valid, seen = lp.attach(matrix(), price=PRICE), lp.attach(matrix(), price=OTHER), {}
    evals = {"evals": [(train, "train"), (valid, "valid")], "evals_result": seen, "verbose_eval": False}
    booster = xgb.train(OURS, train, 3, obj=lp.LambdaRank(REVENUE), custom_metric=lp.metric(REVENUE), **evals)
    return lambda rounds: booster.predict(xgb.DMatrix(X), iteration_range=(0, rounds)), seen


def revenue(scores, price):
    return lp.evaluate(REVENUE, LABELS, scores, GROUP, columns={"price": price})["revenue@3"]


@pytest.mark.parametrize("train", [in_lightgbm, in_xgboost])
def test_each_data_set_is_measured_by_its_own_columns(train):
    predict, seen = train()
    for rounds in (1, 2, 3):
        scores = predict(rounds)
        assert seen["train"]["revenue@3"][rounds - 1] == pytest.approx(revenue(scores, PRICE))
        assert seen["valid"]["revenue@3"][rounds - 1] == pytest.approx(revenue(scores, OTHER))
    assert seen["train"] != seen["valid"]


def test_early_stopping_goes_by_the_validation_set_s_own_columns():
    train, valid = (lp.attach(dataset(), price=price) for price in (PRICE, OTHER))
    parameters = {**QUIET, "objective": lp.LambdaRank(REVENUE), "metric": "None"}
    light = {"valid_sets": [valid.set_reference(train)], "callbacks": [lgb.early_stopping(3, verbose=False)]}
    booster = lgb.train(parameters, train, 12, feval=lp.metric(REVENUE), **light)
    values = [
        revenue(booster.predict(X, num_iteration=rounds), OTHER) for rounds in range(1, booster.best_iteration + 4)
    ]
    assert booster.best_iteration == 1 + int(np.argmax(values))
    assert booster.best_score["valid_0"]["revenue@3"] == pytest.approx(max(values))
    train, valid = (lp.attach(matrix(), price=price) for price in (PRICE, OTHER))
    stop = xgb.callback.EarlyStopping(rounds=3)
    told = {
        "evals": [(valid, "valid")],
        "custom_metric": lp.metric(REVENUE),
        "callbacks": [stop],
        "verbose_eval": False,
    }
    booster = xgb.train(OURS, train, 12, obj=lp.LambdaRank(REVENUE), **told)
    rounds = range(1, booster.num_boosted_rounds() + 1)
    values = [revenue(booster.predict(xgb.DMatrix(X), iteration_range=(0, each)), OTHER) for each in rounds]
    assert booster.best_iteration == int(np.argmax(values))


def test_folds_train_and_measure_by_their_rows_columns():
    folds = lp.query_folds(GROUP, 2)
    data = lp.attach(dataset(), price=PRICE)
    parameters = {**QUIET, "objective": lp.LambdaRank(REVENUE), "metric": "None"}
    options = {"folds": folds, "feval": lp.metric(REVENUE), "return_cvbooster": True}
    found = lgb.cv(parameters, data, 2, **options)
    expected = []
    for (_, rows), booster in zip(folds, found["cvbooster"].boosters, strict=True):
        rows = np.sort(rows)
        sizes = lp.data.sizes_of(QID[rows])
        scores = booster.predict(X[rows], num_iteration=2)
        expected += lp.evaluate(REVENUE, LABELS[rows], scores, sizes, columns={"price": PRICE[rows]}).values()
    assert found["valid revenue@3-mean"][-1] == pytest.approx(np.mean(expected))


@pytest.mark.parametrize("kind", [lp.LGBMRanker, lp.XGBRanker])
def test_rankers_give_each_set_its_columns(kind):
    quiet = QUIET if kind is lp.LGBMRanker else {"n_jobs": 1}
    options = {"columns": {"price": PRICE}, "eval_columns": [{"price": OTHER}], "eval_qid": [QID]}
    ranker = kind(objective=REVENUE, n_estimators=2, **quiet)
    ranker.fit(X, LABELS, qid=QID, eval_set=[(X + 0, LABELS)], **options)
    (seen,) = (ranker.evals_result_ if kind is lp.LGBMRanker else ranker.evals_result()).values()
    assert seen["revenue@3"][-1] == pytest.approx(revenue(ranker.predict(X), OTHER))
    assert ranker.score(X, LABELS, qid=QID, columns={"price": OTHER}) == pytest.approx(
        revenue(ranker.predict(X), OTHER)
    )


def test_a_missing_column_is_told_with_the_data_set_that_lacks_it():
    train = lp.attach(dataset(), price=PRICE)
    parameters = {**QUIET, "objective": lp.LambdaRank(REVENUE), "metric": "None"}
    options = {"valid_sets": [dataset().set_reference(train)], "valid_names": ["later"], "feval": lp.metric(REVENUE)}
    with pytest.raises(
        lp.LambdaplugError, match=r"none of this name in the validation set 'later'; .*lp\.attach\(data, price"
    ):
        lgb.train(parameters, train, 2, **options)
    with pytest.raises(lp.LambdaplugError, match="none of this name in the training data; its columns: 'prize'"):
        lgb.train(parameters, lp.attach(dataset(), prize=PRICE), 2)
    watch = {"evals": [(matrix(), "later")], "custom_metric": lp.metric(REVENUE)}
    with pytest.raises(lp.LambdaplugError, match="none of this name in the validation set 'later'; its columns: none"):
        xgb.train(OURS, lp.attach(matrix(), price=PRICE), 2, obj=lp.LambdaRank(REVENUE), **watch)
    with pytest.raises(lp.LambdaplugError, match="column 'price' of the training data: expected one value per row"):
        xgb.train(OURS, lp.attach(matrix(), price=PRICE[1:]), 2, obj=lp.LambdaRank(REVENUE))


# --- weights per document ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [lambda **w: lp.LambdaRank("ndcg", **w), lambda **w: lp.objective("map", **w)])
def test_document_weights_are_the_same_in_both_hosts_and_by_hand(make):
    weight, queries = RNG.uniform(0.5, 2.0, ROWS), RNG.uniform(0.5, 2.0, len(GROUP))
    objective = make(weight="w")
    expected = make().gradients(LABELS, SCORES, GROUP, weight)
    np.testing.assert_array_equal(objective.gradients(LABELS, SCORES, GROUP, columns={"w": weight}), expected)
    lightgbm, xgboost = (lp.attach(data, w=weight) for data in (dataset().construct(), matrix()))
    both = np.array(expected) * np.repeat(queries, GROUP)  # beside those of queries
    found = [objective.gradients(LABELS, SCORES, GROUP, queries, columns={"w": weight})]
    for data, own in ((lightgbm, np.repeat(queries, GROUP)), (xgboost, queries)):
        np.testing.assert_array_equal(objective(SCORES, data), expected)
        data.set_weight(own)
        found.append(objective(SCORES, data))
    for one in found:
        np.testing.assert_allclose(one, both, rtol=1e-5, atol=1e-15)


def arrays(**columns):
    return Queries(LABELS, GROUP, columns=columns)


HOLED = np.where(np.arange(ROWS) == 3, np.nan, PRICE)
REFUSED = [
    (lambda: lp.attach(X, price=PRICE), "attach: expected a data set.*ndarray"),
    (lambda: lp.attach(matrix(), price="high"), "column 'price': expected numbers, got str"),
    (lambda: lp.attach(matrix(), price=["high"] * ROWS), "column 'price': expected numbers"),
    (lambda: lp.attach(matrix(), price=[np.inf]), "row 0 has an infinite one"),
    (lambda: lp.attach(matrix(), price=np.zeros((2, 2, 2))), r"shape \(2, 2, 2\)"),
    (
        lambda: read(lp.attach(matrix(), price=PRICE[1:])).column("price"),
        "expected one value per row .40. or per query .5., got 39",
    ),
    (lambda: arrays(clicks=LABELS).column("price"), "there is none of this name in these rows; its columns: 'clicks'"),
    (lambda: arrays(price=HOLED).column("price"), "expected a number for every row, and row 3 has nan"),
    (lambda: arrays(price=TABLE).column("price"), "got a table"),
    (lambda: arrays(w=-PRICE).weights("w"), "expected a number >= 0 for every row"),
    (lambda: arrays(duels=PRICE).pairs("duels"), "better, worse"),
    (lambda: arrays(duels=[[0, 40]]).pairs("duels"), "expected pairs of two different rows from 0 to 39"),
    (lambda: arrays(duels=[[1, 1]]).pairs("duels"), r"pair 0 is \[1, 1\]"),
    (
        lambda: arrays(duels=[[0, 1], [0, 8]]).pairs("duels"),
        "pair 1 prefers row 0, which is in query 0, to row 8, which is in query 1",
    ),
    (lambda: Queries(LABELS, GROUP, columns=PRICE), "expected a mapping"),
]


@pytest.mark.parametrize(("wrong", "words"), REFUSED, ids=[words for _, words in REFUSED])
def test_what_is_wrong_is_said(wrong, words):
    with pytest.raises(lp.LambdaplugError, match=words):
        wrong()
