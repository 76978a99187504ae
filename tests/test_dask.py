"""Dask: a real cluster of worker processes, both hosts; queries never cut, evaluation exact, no hang."""

import concurrent.futures
import functools
import itertools
import logging
import os
import pickle
import signal
import sys
import threading
import time

import cloudpickle
import dask
import dask.array as da
import dask.dataframe as dd
import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import sklearn.base
import xgboost as xgb
from distributed import Client, LocalCluster, get_worker, wait
from hypothesis import given, settings
from hypothesis import strategies as st
from xgboost import dask as dxgb

import lambdaplug as lp

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # the workers cannot import the tests
pytestmark = [
    pytest.mark.filterwarnings("ignore:Parameter n_jobs will be ignored", "ignore:.*eval_set.*deprecated"),
    pytest.mark.xdist_group("cluster"),  # one cluster for all
]

PARAMETERS = {
    "xgboost": {"min_child_weight": 0, "lambda": 1e-3, "max_depth": 4, "base_score": 0.0, "objective": "rank:ndcg"},
    "lightgbm": {"verbose": -1, "num_leaves": 7, "min_data_in_leaf": 1, "min_data_in_bin": 1, "deterministic": True},
}
HOSTS = list(PARAMETERS)
both_hosts = pytest.mark.parametrize("host", HOSTS)


@pytest.fixture(scope="module")
def client():
    settled = {  # rows stay where a test has put them
        "distributed.worker.memory.terminate": False,
        "distributed.scheduler.active-memory-manager.start": False,
        "distributed.scheduler.work-stealing": False,
        "distributed.deploy.lost-worker-timeout": "300s",  # a killed one may take its time to be replaced
    }
    with (
        dask.config.set(settled),
        LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=logging.CRITICAL
        ) as cluster,
        Client(cluster) as found,
    ):
        yield found


def both(client):
    """Two workers' addresses, as soon as the client knows of them: what it knows may lag behind."""
    for _ in range(600):
        workers = sorted(client.scheduler_info()["workers"])
        if len(workers) == 2:
            return workers
        time.sleep(0.1)
    raise TimeoutError(f"expected 2 workers, got {workers}")


class Data:
    """Features of few values, so that the bins are the same wherever the rows are."""

    def __init__(self, queries=60, seed=0):
        data = lp.data.cubic(queries=queries, documents=10, features=5, noise=0.3, seed=seed)
        keep = np.random.default_rng(seed).random(len(data.labels)) < 0.8  # queries of different sizes
        self.X, self.labels, self.qid = np.clip(np.round(data.X), -2, 2)[keep], data.labels[keep], data.qid[keep]
        self.group = np.unique(self.qid, return_counts=True)[1]
        self.clicks = lp.data.simulate_clicks(self.labels, self.group).astype(float)
        self.place = np.concatenate([np.arange(size) for size in self.group]) + 7 * (self.qid >= 45)
        self.columns = {"clicks": self.clicks, "place": self.place, "price": 1.0 + self.qid % 3 + self.clicks}

    def spread(self, client, npartitions=4):
        """Half of the partitions on each worker, for good: dX, dy, dq, columns."""
        things = self.X, self.labels, self.qid, *self.columns.values()
        found = []
        for laid in lp.dask.partition_by_query(*things, npartitions=npartitions):
            half = laid.numblocks[0] // 2
            pieces = zip((laid.blocks[:half], laid.blocks[half:]), both(client), strict=True)
            held = [client.persist(piece, workers=[worker], allow_other_workers=True) for piece, worker in pieces]
            wait(held)
            found.append(da.concatenate(held))
        return *found[:3], dict(zip(self.columns, found[3:], strict=True))

    def train(self, host, objective, rounds=8, metric="ndcg@10"):
        """On one machine."""
        callbacks = [lp.callback(objective)] if objective.watchers else []
        if host == "lightgbm":
            params = {**PARAMETERS[host], "objective": objective, "metric": "None"}
            data = [lp.attach(lgb.Dataset(self.X, self.labels, group=self.group), **self.columns) for _ in range(2)]
            return lgb.train(params, data[0], rounds, valid_sets=data[1:], callbacks=callbacks)
        data = lp.attach(xgb.QuantileDMatrix(self.X, self.labels, qid=self.qid), **self.columns)
        further = {
            "evals": [(data, "train")],
            "custom_metric": lp.metric(metric),
            "callbacks": callbacks,
            "verbose_eval": False,
        }
        params = {**PARAMETERS[host], "disable_default_eval_metric": 1}
        return xgb.train(params, data, rounds, obj=objective, **further)

    def predict(self, booster):
        return booster.predict(self.X if isinstance(booster, lgb.Booster) else xgb.DMatrix(self.X))


DATA = Data()


@pytest.fixture
def spread(client):
    """Anew for each test: some restart workers."""
    return DATA.spread(client)


def fit(client, host, data, objective, rounds=8, **options):
    return lp.dask.train(client, PARAMETERS[host], data, objective, rounds, host=host, **options)


def splits(booster):
    """Every tree's splits."""
    frame = booster.trees_to_dataframe()
    names = (
        ["Tree", "Node", "Feature", "Split"]
        if isinstance(booster, xgb.Booster)
        else ["node_index", "split_feature", "threshold"]
    )
    return [tuple(0.0 if one != one else one for one in row) for row in frame[names].itertuples(index=False, name=None)]


def within(seconds, work):
    """What the work returns or raises, if it does so in time."""
    outcome = []

    def guarded():
        try:
            outcome.append(work())
        except BaseException as error:
            outcome.append(error)

    thread = threading.Thread(target=guarded, daemon=True)
    thread.start()
    thread.join(seconds)
    assert outcome, f"still at it after {seconds} s"
    return outcome[0]


# --- laying out ----------------------------------------------------------------------------------------------------


@st.composite
def layouts(draw):
    rows = draw(st.integers(1, 40))
    ids = draw(st.lists(st.integers(-3, 9), min_size=rows, max_size=rows))
    cuts = sorted(draw(st.lists(st.integers(0, rows), max_size=4)))
    return (
        np.array([f"q{i:+d}" for i in ids] if draw(st.booleans()) else ids),
        cuts,
        draw(st.integers(1, 6) | st.none()),
    )


@pytest.mark.parametrize("kind", ["arrays", "frames", "dask arrays", "dask frames"])
@settings(max_examples=15, deadline=None)
@given(layout=layouts())
def test_partitions_hold_whole_queries_in_their_order(kind, layout):
    ids, cuts, npartitions = layout
    rows = len(ids)
    row = np.arange(rows)
    X = np.column_stack([row, row % 3])
    bounds = np.array([0, *cuts, rows])
    if kind == "arrays":
        things = X, row, ids, row / 2
    elif kind == "frames":
        things = pd.DataFrame(X, columns=["a", "b"]), pd.Series(row), pd.Series(ids, name="query"), row / 2
    elif kind == "dask arrays":
        chunks = tuple(np.diff(bounds).tolist())
        things = [da.from_array(thing, chunks=-1).rechunk({0: chunks}) for thing in (X, row, ids, row / 2)]
    else:
        frame = pd.DataFrame({"a": row, "b": row % 3, "query": ids, "half": row / 2})
        parts = [dask.delayed(frame.iloc[a:b]) for a, b in itertools.pairwise(bounds)]
        frame = dd.from_delayed(parts, meta=frame.iloc[:0], verify_meta=False)
        things = frame[["a", "b"]], frame["a"], frame["query"], frame["half"]
    with dask.config.set(scheduler="synchronous"):
        dX, dy, dq, dhalf = lp.dask.partition_by_query(*things, npartitions=npartitions)
        assert isinstance(dX, dd.DataFrame if "frames" in kind else da.Array)
        assert isinstance(dq, dd.Series if "frames" in kind else da.Array)
        parts = [
            dask.compute(*(np.ravel(one.to_delayed())[i] for one in (dX, dy, dq, dhalf))) for i in range(dX.npartitions)
        ]
    parts = [[np.asarray(one) for one in part] for part in parts]
    order = np.concatenate([part[1] for part in parts])
    np.testing.assert_array_equal(order, np.argsort(ids, kind="stable"))  # every row once, queries together, order kept
    for part_X, part_y, part_q, part_half in parts:
        np.testing.assert_array_equal(part_X, X[part_y])
        np.testing.assert_array_equal(part_q, ids[part_y])
        np.testing.assert_array_equal(part_half, part_y / 2)
    assert sum(len(set(part[2])) for part in parts) == len(set(ids))
    if npartitions is not None:
        assert len(parts) <= npartitions
        largest = np.unique(ids, return_counts=True)[1].max()
        assert max(len(part[1]) for part in parts) <= rows / npartitions + largest


def test_what_cannot_be_laid_out_is_refused():
    X, y, qid = np.zeros((4, 2)), np.zeros(4), np.array([0, 0, 1, 1])
    dX, dq = da.from_array(X, chunks=(2, 2)), da.from_array(qid, chunks=2)
    for wrong, message in [
        ((X, y[:3], qid), r"have \[4, 3, 4\] rows"),
        ((X, y, [0, 0, np.nan, 1]), "qid: some rows have none"),
        ((X[:0], y[:0], qid[:0]), "no rows"),
        ((dX, y, qid), "Dask collections only, or none"),
        ((dX, da.from_array(y[:3], chunks=3), dq), "have 2, 1, 2 partitions"),
    ]:
        with pytest.raises(lp.LambdaplugError, match=message):
            lp.dask.partition_by_query(*wrong)
    with pytest.raises(lp.LambdaplugError, match="npartitions: expected an integer >= 1"):
        lp.dask.partition_by_query(X, y, qid, npartitions=0)
    sparse, *_ = lp.dask.partition_by_query(scipy.sparse.coo_matrix(X), y, qid, npartitions=1)
    assert sparse.compute(scheduler="synchronous").shape == (4, 2)


# --- the same as the hosts', the same as one machine ---------------------------------------------------------------


@both_hosts
def test_presets_grow_the_builtin_trees(client, spread, host):
    dX, dy, dq, _ = spread
    if host == "xgboost":
        objective, word = lp.presets.xgboost("ndcg"), "rank:ndcg"
        own = dxgb.DaskQuantileDMatrix(client, dX, dy, qid=dq)
        builtin = dxgb.train(client, PARAMETERS[host], own, 8)["booster"]
        assert splits(fit(client, host, own, objective)["booster"]) == splits(builtin)
    else:
        objective, word = lp.presets.lightgbm(), "lambdarank"
        group = dq.map_blocks(lambda ids: np.unique(ids, return_counts=True)[1], dtype=np.int64)
        ranker = lgb.DaskLGBMRanker(client=client, n_estimators=8, **PARAMETERS[host])
        builtin = ranker.fit(dX, dy, group=group).booster_
    assert len(splits(builtin)) > 40
    params = {name: value for name, value in PARAMETERS[host].items() if name != "objective"}
    for one in (objective, word):
        trained = lp.dask.train(client, params, (dX, dy, dq), one, 8, host=host)
        assert splits(trained["booster"]) == splits(builtin)


def watching():
    # The metric rises slowly enough to be a plateau; every worker must see the same one.
    weight = lp.on_plateau("ndcg@10", patience=1, min_delta=0.01, start=0.0, step=0.3)
    return lp.interpolate(lp.LambdaRank("ndcg"), lp.LambdaRank("map"), weight=weight)


EARNED = lp.Revenue(price="price", click=[0, 0.1, 0.2, 0.4, 0.8], k=5)
GRADED = [lp.LambdaRank("ndcg"), lp.LambdaRank("cndcg", labels="clicks")]
NOISY = [(0.5, lp.SPSA("ndcg@10", evaluations=4, seed=3)), (0.5, lp.LambdaRank("mrr", noise=1.0, normalize="std"))]
SAME = {
    "plain": lp.LambdaRank("map"),
    "earning": lp.Mixture([(1.0, lp.LambdaRank("ndcg")), (1.0, lp.LambdaRank(EARNED))]),
    "watching": watching(),
    "noisy": lp.Mixture(NOISY, step="gradient"),
    "mgda": lp.Pareto(GRADED, preference=[0.4, 0.6]),
    "additive": lp.Unbiased(lp.LambdaRank("ndcg"), "place"),  # whose last positions the first worker has never seen
    "pairwise": lp.Unbiased(lp.LambdaRank("ndcg"), "rows", "pairwise"),
}


@both_hosts
@pytest.mark.parametrize("name", SAME)
def test_the_model_is_the_one_of_one_machine(client, spread, host, name):
    objective, evaluated = SAME[name], spread
    if name == "watching":  # what LightGBM trains on is not watched
        evaluated = [spread[0] + 0, *spread[1:]]
    metric = lp.metric("ndcg@10") + lp.metric("cndcg@3", labels="clicks") + lp.metric(EARNED)
    found = fit(client, host, spread, objective, evals=[(evaluated, "valid")], metric=metric)
    trained, alone = found["booster"], DATA.train(host, objective)
    assert splits(trained) == splits(alone)
    np.testing.assert_allclose(DATA.predict(trained), DATA.predict(alone), rtol=1e-3, atol=1e-4)
    values = lp.evaluate([EARNED], DATA.labels, DATA.predict(trained), DATA.group, columns=DATA.columns)
    values |= lp.evaluate("cndcg@3", DATA.clicks, DATA.predict(trained), DATA.group)
    for measure, value in values.items():
        assert found["history"]["valid"][measure][-1] == pytest.approx(value, abs=1e-6)
    if isinstance(objective, lp.Unbiased):
        ours, theirs = lp.position_bias(trained), lp.position_bias(alone)
        np.testing.assert_allclose(ours.propensity, theirs.propensity, rtol=1e-5, atol=1e-6)
        assert ours.counts == theirs.counts


# --- exact over workers --------------------------------------------------------------------------------------------


@both_hosts
def test_evaluation_is_exact_and_stopping_agrees(client, spread, host):
    valid = Data(queries=30, seed=5)
    ends = np.concatenate([[0], np.cumsum(valid.group)])[[0, 4, 30]]  # uneven
    laid = [
        da.concatenate([da.from_array(thing[a:b]) for a, b in itertools.pairwise(ends)])
        for thing in (valid.X, valid.labels, valid.qid)
    ]
    metric = lp.metric("ndcg@3") + lp.metric("map", empty=0)
    options = {"evals": [(laid, "valid")], "metric": metric, "early_stopping_rounds": 5}
    found = fit(client, host, spread, lp.LambdaRank("map"), 60, **options)
    booster, history = found["booster"], found["history"]["valid"]
    rounds = len(history["map"])
    assert rounds < 60  # stopped, on every worker in the same round
    if host == "xgboost":
        assert booster.best_iteration == np.argmax(history["map"])
        scores = booster.predict(xgb.DMatrix(valid.X), iteration_range=(0, rounds))
    else:
        rounds = booster.best_iteration
        scores = booster.predict(valid.X)
    per_query = lp.evaluate("ndcg@3", valid.labels, scores, valid.group, per_query=True)["ndcg@3"]
    expected = {"ndcg@3": np.nanmean(per_query), **lp.evaluate("map", valid.labels, scores, valid.group, empty=0)}
    tolerance = 1e-12 if host == "lightgbm" else 1e-6  # XGBoost prints six digits and reads them again
    assert {name: values[rounds - 1] for name, values in history.items()} == pytest.approx(expected, abs=tolerance)
    means = np.nanmean(per_query[:4]), np.nanmean(per_query[4:])  # whose mean would be another
    assert abs(np.mean(means) - np.nanmean(per_query)) > 1e-3


@both_hosts
def test_workers_and_partitions_without_rows_do_no_harm(client, spread, host):
    *data, columns = spread
    around = lambda one: da.concatenate([one[:0], one, one[:0]])  # noqa: E731
    holed = *map(around, data), {"place": around(columns["place"])}
    objective = lp.Unbiased(lp.LambdaRank("map"), "place")
    alone = DATA.train(host, objective)
    found = within(60, lambda: fit(client, host, holed, objective, evals=[(holed, "valid")]))
    assert splits(found["booster"]) == splits(alone)
    # Training rows on one worker, evaluation rows on the other.
    there, here = (
        client.persist(
            [da.from_array(one.copy(), name=False) for one in (DATA.X, DATA.labels, DATA.qid)], workers=[one]
        )
        for one in both(client)
    )
    wait([there, here])
    found = within(60, lambda: fit(client, host, there, lp.LambdaRank("map"), evals=[(here, "valid")]))
    value = lp.evaluate("map", DATA.labels, DATA.predict(found["booster"]), DATA.group)["map"]
    assert found["history"]["valid"]["map"][-1] == pytest.approx(value, abs=1e-6)
    assert splits(found["booster"]) == splits(DATA.train(host, lp.LambdaRank("map")))


# --- the rankers ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [lp.DaskXGBRanker, lp.DaskLGBMRanker])
def test_rankers_take_frames_of_any_ids(client, kind):
    names = list("abcde")
    frame = pd.DataFrame(DATA.X, columns=names).assign(label=DATA.labels, query=[f"q{i:03d}" for i in DATA.qid])
    whole = dd.from_pandas(frame.iloc[::-1], npartitions=3, sort=False)
    parts = whole[names], whole["label"], whole["query"]
    options = {"min_child_weight": 0} if kind is lp.DaskXGBRanker else {"verbose": -1}
    ranker = sklearn.base.clone(kind(objective="map", n_estimators=5, **options))
    ranker.client = client
    with pytest.raises(lp.LambdaplugError, match=r"query 'q\d+' is cut: partitions 0 and 1"):
        ranker.fit(*parts[:2], qid=parts[2])
    fX, fy, fq = lp.dask.partition_by_query(*parts, npartitions=3)
    ranker.fit(fX, fy, qid=fq, eval_set=[(fX, fy)], eval_qid=[fq])
    assert ranker.objective == "map"
    values = next(iter(ranker.evals_result_.values()))["map"]
    assert values[-1] > values[0] > 0.5
    for qid in (fq, fq.compute()):  # Dask's or not
        assert ranker.score(fX, fy, qid=qid) == pytest.approx(values[-1], abs=1e-6)
    loaded = pickle.loads(pickle.dumps(ranker))
    loaded.client = client
    np.testing.assert_array_equal(np.asarray(loaded.predict(fX).compute()), np.asarray(ranker.predict(fX).compute()))


def test_lightgbms_ranker_takes_sizes_and_reads_weights_one_way_on_all_workers(client, spread):
    dX, dy, dq, columns = spread
    group = dq.map_blocks(lambda ids: np.unique(ids, return_counts=True)[1], dtype=np.int64)
    options = {name: value for name, value in PARAMETERS["lightgbm"].items() if name != "min_data_in_leaf"}
    options |= {"objective": lp.LambdaRank("map"), "n_estimators": 5}
    uneven = da.where(dq == DATA.qid[0], columns["price"], 2.0)  # within the first query alone, which one worker has
    local = np.where(DATA.qid == DATA.qid[0], DATA.columns["price"], 2.0)
    for laid, weight in ((1.0 + dq % 3, 1.0 + DATA.qid % 3), (uneven, local)):
        ranker = lp.DaskLGBMRanker(client=client, **options)
        ranker.fit(dX, dy, group=group, sample_weight=laid)
        alone = lp.LGBMRanker(**options).fit(DATA.X, DATA.labels, group=DATA.group, sample_weight=weight)
        assert splits(ranker.booster_) == splits(alone.booster_)
    assert isinstance(ranker.to_local(), lp.LGBMRanker)
    np.testing.assert_array_equal(ranker.to_local().predict(DATA.X), alone.predict(DATA.X))


# --- refused -------------------------------------------------------------------------------------------------------


@both_hosts
def test_cut_queries_are_refused(client, spread, host):
    *data, _ = spread
    rows = len(DATA.labels)
    cut = [one.rechunk({0: (rows // 2, rows - rows // 2)}) for one in data]  # in the middle of a query
    middle = DATA.qid[rows // 2]
    message = rf"query {middle} is cut: partitions 0 and 1 both have rows of it.*partition_by_query"
    with pytest.raises(lp.LambdaplugError, match=message):
        fit(client, host, cut, lp.LambdaRank("map"))
    if host == "xgboost":
        matrix = dxgb.DaskDMatrix(client, *cut[:2], qid=cut[2])
        with pytest.raises(lp.LambdaplugError, match=f"query {middle} is cut"):
            fit(client, host, matrix, lp.LambdaRank("map"))
    found = fit(client, host, [*data[:2], data[2] << 33], lp.LambdaRank("map"))  # numbered here
    assert splits(found["booster"]) == splits(DATA.train(host, lp.LambdaRank("map")))


@both_hosts
def test_what_would_train_wrongly_is_refused_before_the_training(client, spread, host):
    dX, dy, dq, _ = spread
    workers = both(client)
    first, second, *rest = dX.chunks[0]
    moved = dy.rechunk(((first + 1, second - 1, *rest),))
    missing = da.where(da.arange(len(DATA.labels), chunks=dy.chunks) == 0, np.nan, dy)
    train = functools.partial(fit, client, host)
    for data, objective, message in [
        ((dX, moved, dq), lp.LambdaRank("map"), rf"partition 0 of X has {first} rows, and y has {first + 1}"),
        ((dX, missing, dq), lp.LambdaRank("map"), "partition 0: .*NaN"),
        ((dX, dy, dq), lp.LambdaRank(lp.ERR(k=5)), r"scaled by the highest label.*max_label=4"),
        ((dX, dy, dq), lp.Unbiased(lp.LambdaRank("map"), "place"), "column .place.: there is none of this name"),
        ((dX[:0], dy[:0], dq[:0]), lp.LambdaRank("map"), "there are no rows"),
        ((DATA.X, dy, dq), lp.LambdaRank("map"), "expected a Dask collection, got ndarray"),
        ((dX, dy), lp.LambdaRank("map"), r"expected \(dX, dy, dq\)"),
    ]:
        with pytest.raises(lp.LambdaplugError, match=message):
            train(data, objective)
    recorder = lp.analysis.record(DATA.X)
    with pytest.raises(lp.LambdaplugError, match=r"lp\.analysis\.record follows a training on one machine"):
        train((dX, dy, dq), lp.LambdaRank("map"), callbacks=[recorder])
    if host == "xgboost":
        for wrong, message in [({"sample_weight": dy}, "no weights together"), ({"group": dq}, "by qid=")]:
            with pytest.raises(lp.LambdaplugError, match=message):
                lp.DaskXGBRanker(objective="map").fit(dX, dy, **{"qid": dq, **wrong})
    else:
        with pytest.raises(lp.LambdaplugError, match="early stopping on LightGBM's own metrics"):
            train((dX, dy, dq), "lambdarank", evals=[((dX, dy, dq), "v")], early_stopping_rounds=2)
        with pytest.raises(lp.LambdaplugError, match="as many partitions with rows as there are workers that train"):
            train((dX, dy, dq), lp.LambdaRank("map"), evals=[([one.blocks[:1] for one in (dX, dy, dq)], "v")])
    assert both(client) == workers


# --- columns -------------------------------------------------------------------------------------------------------


def test_a_matrix_carries_its_columns(client, spread):
    dX, dy, dq, columns = spread
    objective = lp.Unbiased(lp.LambdaRank("ndcg"), "place")
    matrix = lp.attach(dxgb.DaskQuantileDMatrix(client, dX, dy, qid=dq), place=columns["place"])
    trained = fit(client, "xgboost", matrix, objective, evals=[(matrix, "train")])["booster"]
    assert splits(trained) == splits(DATA.train("xgboost", objective))


# --- workers in trouble --------------------------------------------------------------------------------------------


class Fails(lp.LambdaRank):
    """Raises, or kills, in its fourth round on one of the workers."""

    def __init__(self, worker, dies=False):
        super().__init__("map")
        self.__dict__.update(worker=worker, dies=dies, rounds=0)

    def __call__(self, *arguments, **options):
        self.__dict__["rounds"] += 1
        if self.rounds == 4 and get_worker().address == self.worker:
            if self.dies:
                os.kill(os.getpid(), signal.SIGKILL)
            raise ZeroDivisionError("a worker's own trouble")
        return super().__call__(*arguments, **options)


@both_hosts
@pytest.mark.parametrize(("dies", "number"), [(False, 0), (True, 1)], ids=["raises", "killed"])
def test_a_worker_that_fails_ends_the_training_and_the_cluster_trains_again(client, spread, host, dies, number):
    data = spread
    worker = both(client)[number]
    error = within(150, lambda: fit(client, host, data, Fails(worker, dies), evals=[(data, "train")]))
    assert isinstance(error, (ZeroDivisionError, lp.LambdaplugError)), error
    assert (f"lost: {worker}" if dies else "a worker's own trouble") in str(error)
    both(client)
    again = within(150, lambda: fit(client, host, data, lp.LambdaRank("map")))
    assert isinstance(again, dict), again
    assert splits(again["booster"]) == splits(DATA.train(host, lp.LambdaRank("map")))


def slowly(_):
    time.sleep(0.15)
    return 0.5


@both_hosts
def test_a_client_that_is_closed_meanwhile(client, spread, host):
    data = spread
    with Client(client.scheduler.address, set_as_default=False) as other:
        objective = lp.Mixture([(slowly, lp.LambdaRank("ndcg")), (0.5, lp.LambdaRank("map"))])
        threading.Timer(5, other.close).start()
        error = within(150, lambda: fit(other, host, data, objective, 200, evals=[(data, "train")]))
    assert isinstance(error, lp.LambdaplugError), error
    assert "client was closed" in str(error)
    again = within(150, lambda: fit(client, host, data, lp.LambdaRank("map"), 2))
    assert isinstance(again, dict), again


def test_trainings_at_the_same_time_wait_for_each_other(client, spread):
    data = spread
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        found = within(
            240, lambda: list(pool.map(lambda host: fit(client, host, data, lp.LambdaRank("map"), 2), HOSTS * 2))
        )
    assert isinstance(found, list), found
    for host, one in zip(HOSTS * 2, found, strict=True):
        assert splits(one["booster"]) == splits(DATA.train(host, lp.LambdaRank("map"), 2))
