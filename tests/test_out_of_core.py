"""Data larger than memory: XGBoost from batches, LightGBM from sequences and files, on the trees of data in memory."""

import itertools
import weakref

import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb
from hypothesis import given, settings
from hypothesis import strategies as st

import lambdaplug as lp

DATA = lp.data.cubic(queries=60, documents=15, features=6, noise=0.3)
X, Y, GROUP = DATA
QID = DATA.qid
CUTS = [0, 300, 307, 311, 600, 900]  # 300 and 600 are between two queries, 307 and 311 in the same one
QUIET = {"verbose": -1, "num_threads": 1, "num_leaves": 7, "metric": "None", "min_sum_hessian_in_leaf": 0}
CLICKS = lp.data.simulate_clicks(Y, GROUP)
OURS = {"nthread": 1, "max_depth": 3, "min_child_weight": 0, "objective": "rank:ndcg", "disable_default_eval_metric": 1}
MOVING = lp.interpolate(lp.LambdaRank("ndcg"), lp.LambdaRank("mrr"), weight=lp.linear(0.0, 0.1))
TWO_SOURCES = lp.Graded([lp.LambdaRank("ndcg"), lp.LambdaRank("cndcg", labels="clicks")], weights=[0.8, 0.2])
EXTERNAL = getattr(xgb, "ExtMemQuantileDMatrix", xgb.DMatrix)  # it came with XGBoost 3


def batches(*columns, cuts=CUTS):
    return [tuple(column[first:last] for column in columns) for first, last in itertools.pairwise(cuts)]


def trees_of_xgboost(data, objective):
    found = {}
    lp.attach(data, clicks=CLICKS)
    given = {
        "custom_metric": lp.metric("map"),
        "evals": [(data, "train")],
        "evals_result": found,
        "verbose_eval": False,
    }
    parameters = {**OURS, "tree_method": "hist"}
    model = xgb.train(parameters, data, 8, obj=objective, callbacks=[lp.callback(objective)], **given)
    return model.get_dump(dump_format="json", with_stats=True), found


@pytest.mark.parametrize("objective", [lp.LambdaRank("map"), MOVING, TWO_SOURCES], ids=repr)
@pytest.mark.parametrize("kind", [EXTERNAL, xgb.DMatrix, xgb.QuantileDMatrix], ids=lambda kind: kind.__name__)
def test_xgboost_grows_the_same_trees_from_batches(kind, objective, tmp_path):
    prefix = None if kind is xgb.QuantileDMatrix else str(tmp_path / "pages")
    data = kind(lp.XGBDataIter(lambda: batches(X, Y, QID), cache_prefix=prefix))
    assert data.get_group().tolist() == GROUP.tolist()
    expected = trees_of_xgboost(xgb.QuantileDMatrix(X, Y, qid=QID), objective)
    assert trees_of_xgboost(data, objective) == expected


def test_xgboost_weights_come_with_the_batches(tmp_path):
    each = 1.0 + np.arange(len(GROUP)) % 3
    weight = np.repeat(each, GROUP)
    whole = xgb.QuantileDMatrix(X, Y, qid=QID, weight=each)
    feed = lp.XGBDataIter(batches(X, Y, weight, QID), cache_prefix=str(tmp_path / "pages"))
    # XGBoost weighs the bins too, batch by batch: the bins of the whole make the trees comparable.
    options = {"ref": whole} if EXTERNAL is not xgb.DMatrix else {}
    data = EXTERNAL(feed, **options)
    np.testing.assert_array_equal(data.get_weight(), each)
    if options:
        objective = lp.LambdaRank("map")
        assert trees_of_xgboost(data, objective) == trees_of_xgboost(whole, objective)
    weight[0] += 1
    with pytest.raises(lp.LambdaplugError, match="one per query; these differ"):
        EXTERNAL(lp.XGBDataIter(batches(X, Y, weight, QID), cache_prefix=str(tmp_path / "other")))


def test_batches_that_cannot_be_trained_on_are_refused(tmp_path):
    def external(given):
        return EXTERNAL(lp.XGBDataIter(given, cache_prefix=str(tmp_path / "pages")))

    scattered = np.concatenate([QID[:-5], QID[:5]])
    with pytest.raises(lp.LambdaplugError, match="batch 4: query 0 comes back after another one"):
        external(batches(X, Y, scattered))
    with pytest.raises(
        lp.LambdaplugError, match=r"batch 0: expected arrays with one entry per row.*\(300, 6\), \(299,\)"
    ):
        external([(X[:300], Y[:299], QID[:300])])
    with pytest.raises(lp.LambdaplugError, match=r"batch 0: .*NaN is no query"):
        external([(X, Y, np.full(len(Y), np.nan))])
    with pytest.raises(lp.LambdaplugError, match=r"expected batches \(X, labels, qid\)"):
        external(batches(Y, QID))
    with pytest.raises(lp.LambdaplugError, match="Pass the function that makes it"):
        lp.XGBDataIter(iter(batches(X, Y, QID)))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(1, 5), max_size=12), st.data())
def test_whole_queries_are_the_same_rows_and_never_cut(sizes, data):
    ids = np.repeat(np.random.default_rng(0).permutation(len(sizes)), np.asarray(sizes, dtype=int))
    rows = np.arange(len(ids))
    cuts = [0, *sorted(data.draw(st.lists(st.integers(0, len(ids)), max_size=6))), len(ids)]
    found = list(lp.data.whole_queries(batches(rows, ids, cuts=cuts)))
    assert np.concatenate([batch[0] for batch in found] or [rows]).tolist() == rows.tolist()
    seen = [set(batch[1].tolist()) for batch in found]
    assert all(seen)
    assert sum(map(len, seen)) == len(sizes)
    # As few as it can be: a batch more than came in, for the last query, at most.
    assert len(found) <= len(cuts)


def test_a_reader_may_fill_its_arrays_anew():
    def refilled():
        values, ids = np.empty(3, int), np.empty(3, int)
        for first in range(0, 9, 3):
            values[:], ids[:] = np.arange(first, first + 3), np.arange(first, first + 3) // 2  # queries of two rows
            yield values, ids

    found = [(values.tolist(), ids.tolist()) for values, ids in lp.data.whole_queries(refilled())]
    assert found == [([0, 1], [0, 0]), ([2, 3], [1, 1]), ([4, 5, 6, 7], [2, 2, 3, 3]), ([8], [4])]


def test_one_batch_is_held_at_a_time():
    held = []

    def read():
        for number in range(4):
            assert all(one() is None for one in held)
            column = np.arange(3 * number, 3 * number + 3)
            held.append(weakref.ref(column))
            yield (column, column // 2)
            del column

    batches_of = lp.data.whole_queries(read())
    while next(batches_of, None) is not None:  # nor does the caller hold one
        pass
    assert len(held) == 4


class Rows(lgb.Sequence):
    """Rows that are read when they are asked for."""

    batch_size = 37

    def __init__(self, table):
        self.table = table

    def __getitem__(self, index):
        return self.table[index]

    def __len__(self):
        return len(self.table)


def trees_of_lightgbm(data, objective):
    lp.attach(data, clicks=CLICKS)
    model = lgb.train({**QUIET, "objective": objective}, data, 8, callbacks=[lp.callback(objective)])
    text = model.model_to_string()
    return text[text.index("Tree=0") : text.index("end of trees")]


@pytest.mark.parametrize("objective", [lp.LambdaRank("map"), MOVING, TWO_SOURCES], ids=repr)
def test_lightgbm_grows_the_same_trees_from_sequences_and_files(objective, tmp_path):
    expected = trees_of_lightgbm(lgb.Dataset(X, Y, group=GROUP), objective)
    table = X.astype(np.float64)
    pieces = [Rows(table[first:last]) for first, last in itertools.pairwise(CUTS)]
    assert trees_of_lightgbm(lgb.Dataset(pieces, Y, group=GROUP), objective) == expected

    names = ["label", *(f"feature{i}" for i in range(X.shape[1])), "qid"]
    write = {"delimiter": ",", "fmt": "%.17g", "comments": ""}
    np.savetxt(tmp_path / "a.csv", np.column_stack([Y, table, QID]), header=",".join(names), **write)
    columns = {"header": True, "label_column": "name:label", "group_column": "name:qid"}
    # LightGBM reads numbers in a hurry unless told otherwise.
    options = {"two_round": True, "precise_float_parser": True, "verbose": -1}
    assert trees_of_lightgbm(lgb.Dataset(tmp_path / "a.csv", params={**columns, **options}), objective) == expected

    np.savetxt(tmp_path / "b.csv", np.column_stack([Y, table]), **write)
    np.savetxt(tmp_path / "b.csv.query", GROUP, fmt="%d")
    assert trees_of_lightgbm(lgb.Dataset(tmp_path / "b.csv", params=options), objective) == expected

    lgb.Dataset(X, Y, group=GROUP).save_binary(tmp_path / "data.bin")
    assert trees_of_lightgbm(lgb.Dataset(tmp_path / "data.bin"), objective) == expected


def test_lightgbm_groups_that_do_not_fit_the_sequences_are_refused():
    with pytest.raises((lp.LambdaplugError, lgb.basic.LightGBMError), match=r"group|uery"):
        trees_of_lightgbm(lgb.Dataset([Rows(X[:307].astype(float))], Y[:307], group=GROUP), lp.LambdaRank("map"))
