"""Dask: a real cluster of two worker processes, both hosts; queries never cut, evaluation exact, no hang."""

import concurrent.futures
import contextlib
import functools
import importlib
import itertools
import logging
import os
import pickle
import signal
import socket
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

HOSTS = ["xgboost", "lightgbm"]
PARAMETERS = {
    "xgboost": {"min_child_weight": 0, "lambda": 1e-3, "max_depth": 4, "base_score": 0.0, "objective": "rank:ndcg"},
    "lightgbm": {"verbose": -1, "num_leaves": 7, "min_data_in_leaf": 1, "min_data_in_bin": 1, "deterministic": True},
}


@contextlib.contextmanager
def cluster_of(count, default=True):
    settled = {  # rows stay where a test has put them
        "distributed.worker.memory.terminate": False,
        "distributed.scheduler.active-memory-manager.start": False,
        "distributed.scheduler.work-stealing": False,
        "distributed.deploy.lost-worker-timeout": "300s",  # a killed one may take its time to be replaced
    }
    with (
        dask.config.set(settled),
        LocalCluster(
            n_workers=count, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=logging.CRITICAL
        ) as cluster,
        Client(cluster, set_as_default=default) as found,
    ):
        yield found


@pytest.fixture(scope="module")
def client():
    with cluster_of(2) as found:
        yield found


@pytest.fixture(scope="module")
def mortal():
    """For tests that kill workers: two are left while another one starts in the place of the third."""
    with cluster_of(3, default=False) as found:
        yield found


def addresses(client, count):
    """Of so many workers, as soon as the client knows of them: what it knows may lag behind."""
    for _ in range(600):
        workers = sorted(client.scheduler_info()["workers"])
        if len(workers) >= count:
            return workers[:count]
        if len(client.cluster.worker_spec) < count:  # one that starts too slowly is given up
            client.cluster.scale(count)
        time.sleep(0.1)
    raise TimeoutError(f"expected {count} workers, got {workers}")


def both(client):
    """Two workers' addresses; a busy machine may lose one for a moment, until its nanny has another."""
    return addresses(client, 2)


def placed(client, collection, workers=None):
    """Its first half on the first worker, the rest on the second."""
    workers = workers or both(client)
    half = collection.numblocks[0] // 2
    pieces = (collection.blocks[:half], collection.blocks[half:])
    held = [client.persist(piece, workers=[worker]) for piece, worker in zip(pieces, workers, strict=True)]
    with client.as_current():
        wait(held)
    return da.concatenate(held)


class Data:
    """Features of few values, so that the bins are the same wherever the rows are."""

    def __init__(self, queries=60, seed=0):
        data = lp.data.cubic(queries=queries, documents=10, features=5, noise=0.3, seed=seed)
        keep = np.random.default_rng(seed).random(len(data.labels)) < 0.8  # queries of different sizes
        self.X, self.labels, self.qid = np.clip(np.round(data.X), -2, 2)[keep], data.labels[keep], data.qid[keep]
        self.group = np.unique(self.qid, return_counts=True)[1]
        self.clicks = lp.data.simulate_clicks(self.labels, self.group)
        self.weight = 1.0 + self.qid % 3

    def spread(self, client, npartitions=4):
        """Half of the partitions on each worker, for good: (dX, dy, dq, dclicks, dweight)."""
        things = lp.dask.partition_by_query(
            *(self.X, self.labels, self.qid, self.clicks, self.weight), npartitions=npartitions
        )
        workers = both(client)
        return [placed(client, thing, workers) for thing in things]

    def train(self, host, objective, rounds=8, params=PARAMETERS):
        """On one machine."""
        callbacks = [lp.callback(objective)] if isinstance(objective, lp.Mixture) else []
        if host == "lightgbm":
            params = {**params[host], "objective": objective, "metric": "None"}
            return lgb.train(
                params,
                lgb.Dataset(self.X, self.labels, group=self.group),
                rounds,
                valid_sets=[self.lgb],
                callbacks=callbacks,
            )
        dtrain = xgb.QuantileDMatrix(self.X, self.labels, qid=self.qid)
        params = {**params[host], "disable_default_eval_metric": 1}
        metric = lp.metric("ndcg@10")
        evals = [(dtrain, "train")]
        return xgb.train(
            *(params, dtrain, rounds),
            obj=objective,
            evals=evals,
            custom_metric=metric,
            callbacks=callbacks,
            verbose_eval=False,
        )

    @property
    def lgb(self):
        return lgb.Dataset(self.X, self.labels, group=self.group)

    def predict(self, booster):
        return booster.predict(self.X if isinstance(booster, lgb.Booster) else xgb.DMatrix(self.X))


DATA = Data()


@pytest.fixture(scope="module")
def spread(client):
    return DATA.spread(client)


def splits(booster):
    """Every tree's splits, and its leaves."""
    if isinstance(booster, xgb.Booster):
        frame = booster.trees_to_dataframe()
        leaf = frame.Feature == "Leaf"
        return list(zip(frame.Tree, frame.Node, frame.Feature, frame.Split.fillna(0), strict=True)), frame.Gain[leaf]
    frame = booster.trees_to_dataframe()
    leaf = frame.split_feature.isna()
    return list(
        zip(frame.node_index, frame.split_feature.fillna(""), frame.threshold.fillna(0), strict=True)
    ), frame.value[leaf]


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
    as_text = draw(st.booleans())
    cuts = sorted(draw(st.lists(st.integers(0, rows), max_size=4)))
    return np.array([f"q{i:+d}" for i in ids] if as_text else ids), cuts, draw(st.integers(1, 6) | st.none())


@pytest.mark.parametrize("kind", ["arrays", "frames", "dask arrays", "dask frames"])
@settings(max_examples=15, deadline=None)
@given(layout=layouts())
def test_partitions_hold_whole_queries_in_their_order(kind, layout):
    ids, cuts, npartitions = layout
    rows = len(ids)
    row = np.arange(rows)
    X = np.column_stack([row, row % 3])
    bounds = np.array([0, *cuts, rows])
    chunks = tuple(np.diff(bounds).tolist())
    if kind == "arrays":
        given_things = X, row, ids, row / 2
    elif kind == "frames":
        frame = pd.DataFrame(X, columns=["a", "b"])
        given_things = frame, pd.Series(row), pd.Series(ids, name="query"), row / 2
    elif kind == "dask arrays":
        pieces = [da.from_array(thing, chunks=-1) for thing in (X, row, ids, row / 2)]
        given_things = [thing.rechunk({0: chunks}) for thing in pieces]
    else:
        frame = pd.DataFrame({"a": row, "b": row % 3, "query": ids, "half": row / 2})
        parts = [dask.delayed(frame.iloc[a:b]) for a, b in itertools.pairwise(bounds)]
        frame = dd.from_delayed(parts, meta=frame.iloc[:0], verify_meta=False)
        given_things = frame[["a", "b"]], frame["a"], frame["query"], frame["half"]
    with dask.config.set(scheduler="synchronous"):
        dX, dy, dq, dhalf = lp.dask.partition_by_query(*given_things, npartitions=npartitions)
        as_frame = "frames" in kind
        assert isinstance(dX, dd.DataFrame if as_frame else da.Array)
        assert isinstance(dq, dd.Series if as_frame else da.Array)
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
    holders = [set(part[2]) for part in parts]
    assert sum(map(len, holders)) == len(set(ids))
    if npartitions is not None:
        largest = np.unique(ids, return_counts=True)[1].max()
        assert len(parts) <= npartitions
        assert max(len(part[1]) for part in parts) <= rows / npartitions + largest


def test_what_cannot_be_laid_out_is_refused():
    X, y, qid = np.zeros((4, 2)), np.zeros(4), np.array([0, 0, 1, 1])
    for wrong, message in [
        ((X, y[:3], qid), "y: expected 4 rows"),
        ((X, y, [0, 0, np.nan, 1]), "qid: some rows have none"),
        ((X[:0], y[:0], qid[:0]), "no rows"),
        ((da.from_array(X), y, qid), "Dask collections only, or none"),
        (
            (da.from_array(X, chunks=(2, 2)), da.from_array(y[:3], chunks=3), da.from_array(qid, chunks=2)),
            "y: expected 2",
        ),
    ]:
        with pytest.raises(lp.LambdaplugError, match=message):
            lp.dask.partition_by_query(*wrong)
    with pytest.raises(lp.LambdaplugError, match="npartitions"):
        lp.dask.partition_by_query(X, y, qid, npartitions=0)


# --- the same as the hosts', the same as one machine ---------------------------------------------------------------


@pytest.mark.parametrize("host", HOSTS)
def test_presets_grow_the_builtin_trees(client, spread, host):
    dX, dy, dq, *_ = spread
    if host == "xgboost":
        objective, word = lp.presets.xgboost("ndcg"), "rank:ndcg"
        own = dxgb.DaskQuantileDMatrix(client, dX, dy, qid=dq)
        builtin = dxgb.train(client, PARAMETERS[host], own, 8)["booster"]
        given_matrix = lp.dask.train(client, PARAMETERS[host], own, objective=objective, num_boost_round=8)["booster"]
        assert splits(given_matrix)[0] == splits(builtin)[0]
    else:
        objective, word = lp.presets.lightgbm(), "lambdarank"
        group = dq.map_blocks(lambda ids: np.unique(ids, return_counts=True)[1], dtype=np.int64)
        builtin = (
            lgb.DaskLGBMRanker(client=client, n_estimators=8, **PARAMETERS[host]).fit(dX, dy, group=group).booster_
        )
    params = {name: value for name, value in PARAMETERS[host].items() if name != "objective"}
    ours, same = (
        lp.dask.train(client, params, (dX, dy, dq), objective=one, num_boost_round=8, host=host)["booster"]
        for one in (objective, word)
    )
    assert len(splits(builtin)[0]) > 40
    for other in (ours, same):
        assert splits(other)[0] == splits(builtin)[0]
        np.testing.assert_allclose(splits(other)[1], splits(builtin)[1], rtol=1e-4, atol=1e-6)


def graded(clicks, weights=(0.8, 0.2)):
    return lp.Graded([lp.LambdaRank("ndcg"), lp.LambdaRank("cndcg", labels=clicks)], weights=list(weights))


def moving(clicks):
    return graded(clicks, [lambda m: 1.0 - min(m, 20) / 20, lambda m: min(m, 20) / 20])


def watching(clicks):  # noqa: ARG001
    # The metric rises slowly enough to be a plateau; every worker must see the same one.
    weight = lp.on_plateau("ndcg@10", patience=1, min_delta=0.01, start=0.0, step=0.3)
    return lp.interpolate(lp.LambdaRank("ndcg"), lp.LambdaRank("map"), weight=weight)


def tossing(_):
    return lp.Mixture(
        [(0.5, lp.SPSA("ndcg@10", evaluations=4, seed=3)), (0.5, lp.LambdaRank("mrr", noise=1.0, normalize="std"))],
        step="gradient",
    )


def descending(clicks):
    return lp.Pareto([lp.LambdaRank("ndcg"), lp.LambdaRank("cndcg", labels=clicks)], preference=[0.4, 0.6])


def bounded(clicks):
    return lp.Pareto([lp.LambdaRank("ndcg"), lp.LambdaRank("cndcg", labels=clicks)], "epsilon", bounds=[0.9])


def first_two(labels, price):
    return labels[0] * price[0] + (0.5 * labels[1] * price[1] if len(labels) > 1 else 0.0)


def earned(clicks):
    return lp.Revenue(price=clicks, click=[0, 0.1, 0.2, 0.4, 0.8], k=5, cascade=True)


def mine(clicks):
    return lp.custom("mine", first_two, k=2, columns={"price": clicks})


def earning(clicks):
    parts = lp.LambdaRank("ndcg"), lp.LambdaRank(earned(clicks)), lp.LambdaRank(mine(clicks))
    return lp.Mixture([(1.0, part) for part in parts])


class Where(lp.LambdaRank):
    """Leaves a trace on every worker where it is called."""

    def __call__(self, scores, data, *rest):
        get_worker().__dict__.setdefault("been", set()).add(type(data).__module__.partition(".")[0])
        return super().__call__(scores, data, *rest)

    @staticmethod
    def been(host, dask_worker):
        return host in dask_worker.__dict__.pop("been", ())


def test_a_worker_that_compiles_first_is_waited_for(client, spread):
    dX, dy, dq, dclicks, _ = spread
    first, second = both(client)
    there = Where(mine(np.array([0.0, 1.0])))
    ready = client.submit(lambda: there.gradients([0, 1], [0.0, 0.0], [2])[0].tolist(), workers=[first], pure=False)
    assert ready.result(timeout=60)[0] > 0  # compiled there, not on the other
    for host in HOSTS:
        fit = functools.partial(
            lp.dask.train, client, PARAMETERS[host], (dX, dy, dq), Where(mine(dclicks)), 4, host=host
        )
        trained = within(120, fit)
        assert isinstance(trained, dict), trained
        assert client.run(Where.been, host) == {first: True, second: True}


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize(
    "make",
    [lambda _: lp.LambdaRank("map"), graded, moving, watching, tossing, descending, bounded, earning],
    ids=["plain", "graded", "scheduled", "watching", "tossing", "mgda", "epsilon", "columns"],
)
def test_the_model_is_the_one_of_one_machine(client, spread, host, make):
    dX, dy, dq, dclicks, _ = spread
    evals = [((dX + 0 if make is watching else dX, dy, dq), "train")]  # what LightGBM trains on is not watched
    metric = lp.metric("ndcg@10") + lp.metric(earned(dclicks)) if make is earning else lp.metric("ndcg@10")
    options = {"num_boost_round": 8, "evals": evals, "metric": metric, "host": host}
    trained = lp.dask.train(client, PARAMETERS[host], (dX, dy, dq), objective=make(dclicks), **options)
    alone = DATA.train(host, make(DATA.clicks))
    assert splits(trained["booster"])[0] == splits(alone)[0]
    np.testing.assert_allclose(DATA.predict(trained["booster"]), DATA.predict(alone), rtol=1e-3, atol=1e-4)
    if make is earning:
        (name, expected), *_ = lp.evaluate(
            earned(DATA.clicks), DATA.labels, DATA.predict(trained["booster"]), DATA.group
        ).items()
        assert trained["history"]["train"][name][-1] == pytest.approx(expected, abs=1e-6)
    if make is watching:  # the weight did move
        assert splits(alone)[0] != splits(DATA.train(host, lp.LambdaRank("ndcg")))[0]


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("method", ["additive", "pairwise"])
def test_position_biases_are_sums_over_all_workers(client, spread, host, method):
    dX, dy, dq, *_ = spread
    place = np.concatenate([np.arange(size) for size in DATA.group])
    position = place + 7 * (DATA.qid >= 45)  # the first worker has never seen the last positions
    column = placed(client, lp.dask.partition_by_query(DATA.X, DATA.labels, DATA.qid, position, npartitions=4)[3])
    for shown, alone in ((column, position), ("rows", place)):
        objective = lp.Unbiased(lp.LambdaRank("ndcg"), shown, method)
        found = lp.dask.train(
            client, PARAMETERS[host], (dX, dy, dq), objective=objective, num_boost_round=8, host=host
        )["booster"]
        machine = DATA.train(host, lp.Unbiased(lp.LambdaRank("ndcg"), alone, method))
        assert splits(found)[0] == splits(machine)[0]
        ours, theirs = lp.position_bias(found), lp.position_bias(machine)
        assert ours == lp.position_bias(objective)
        assert len(ours) == len(theirs) == alone.max() + 1
        np.testing.assert_allclose(ours.propensity, theirs.propensity, rtol=1e-5, atol=1e-6)
        assert ours.counts == theirs.counts


# --- exact over workers --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("bounds", [(0, 4, 30), (0, 30)], ids=["uneven", "one worker"])
def test_evaluation_is_exact_and_stopping_agrees(client, spread, host, bounds):
    dX, dy, dq, dclicks, _ = spread
    valid = Data(queries=30, seed=5)
    offsets = np.concatenate([[0], np.cumsum(valid.group)])[list(bounds)]
    vX, vy, vq, vclicks = (
        da.concatenate([da.from_array(thing[a:b]) for a, b in itertools.pairwise(offsets)])
        for thing in (valid.X, valid.labels, valid.qid, valid.clicks)
    )
    trained = lp.dask.train(
        client,
        PARAMETERS[host],
        (dX, dy, dq),
        objective=graded(dclicks),
        num_boost_round=60,
        evals=[((vX, vy, vq), "valid")],
        metric=lp.metric("cndcg@3", labels=vclicks) + lp.metric("ndcg@3") + lp.metric("map", empty=0),
        early_stopping_rounds=5,
        host=host,
    )
    booster, history = trained["booster"], trained["history"]["valid"]
    rounds = len(history["map"])
    assert rounds < 60  # stopped, on every worker in the same round
    if host == "xgboost":
        assert booster.best_iteration == np.argmax(history["map"])
        scores = booster.predict(xgb.DMatrix(valid.X), iteration_range=(0, rounds))
    else:
        rounds = booster.best_iteration
        scores = booster.predict(valid.X)
    expected = {
        **lp.evaluate("cndcg@3", valid.clicks, scores, valid.group),
        **lp.evaluate("ndcg@3", valid.labels, scores, valid.group),
        **lp.evaluate("map", valid.labels, scores, valid.group, empty=0),
    }
    tolerance = 1e-12 if host == "lightgbm" else 1e-6  # XGBoost prints six digits and reads them again
    assert {name: values[rounds - 1] for name, values in history.items()} == pytest.approx(expected, abs=tolerance)
    # A mean of the workers' means would be another.
    each = lp.evaluate("ndcg@3", valid.labels, scores, valid.group, per_query=True)["ndcg@3"]
    assert abs((np.nanmean(each[:4]) + np.nanmean(each[4:])) / 2 - np.nanmean(each)) > 1e-3


def test_xgboosts_own_training_reports_the_exact_metric_too(client, spread):
    dX, dy, dq, *_ = spread
    matrix = dxgb.DaskDMatrix(client, dX, dy, qid=dq)
    metric = lp.metric("ndcg@3")
    trained = dxgb.train(
        *(client, {**PARAMETERS["xgboost"], "disable_default_eval_metric": 1}, matrix, 3),
        obj=lp.LambdaRank("map"),
        custom_metric=metric,
        evals=[(matrix, "train")],
        verbose_eval=False,
    )
    expected = lp.evaluate("ndcg@3", DATA.labels, DATA.predict(trained["booster"]), DATA.group)["ndcg@3"]
    assert trained["history"]["train"]["ndcg@3"][-1] == pytest.approx(expected, abs=1e-6)


def test_workers_that_do_not_find_each_other_try_again():
    outcomes = [xgb.core.XGBoostError("Failed to bootstrap the communication group."), {"booster": None}]

    def run():
        found = outcomes.pop(0)
        if isinstance(found, dict):
            return found
        raise found

    connected = importlib.import_module("lambdaplug.hosts.dask.xgboost")._tried
    assert connected(run) == {"booster": None}
    outcomes += [xgb.core.XGBoostError("Failed to bootstrap the communication group.")] * 3
    with pytest.raises(xgb.core.XGBoostError, match="bootstrap"):
        connected(run)
    outcomes = [xgb.core.XGBoostError("another trouble"), {}]
    with pytest.raises(xgb.core.XGBoostError, match="another"):
        connected(run)


# --- the rankers ---------------------------------------------------------------------------------------------------


def test_rankers_take_frames_groups_and_weights(client, spread):
    dX, dy, dq, _, dweight = spread
    frame = pd.DataFrame(DATA.X, columns=list("abcde"))
    rows = np.random.default_rng(1).permutation(len(frame))
    shuffled = frame.assign(label=DATA.labels, query=[f"q{i:03d}" for i in DATA.qid]).iloc[np.sort(rows)[::-1]]
    whole = dd.from_pandas(shuffled, npartitions=3, sort=False)
    fX, fy, fq = lp.dask.partition_by_query(whole[list("abcde")], whole["label"], whole["query"], npartitions=3)
    eX = dd.from_dask_array(dX, columns=list("abcde"))
    for kind, options in ((lp.DaskXGBRanker, {"min_child_weight": 0}), (lp.DaskLGBMRanker, {"verbose": -1})):
        ranker = sklearn.base.clone(kind(objective="map", n_estimators=5, **options))  # lp.objective("map")
        ranker.client = client
        ranker.fit(fX, fy, qid=fq, eval_set=[(eX, dy)], eval_qid=[dq])
        assert ranker.objective == "map"
        values = next(iter(ranker.evals_result_.values()))["map"]
        scores = np.asarray(ranker.predict(eX).compute())
        assert values[-1] == pytest.approx(lp.evaluate("map", DATA.labels, scores, DATA.group)["map"], abs=1e-6)
        assert values[-1] > values[0] > 0.5
        for told in ({"qid": dq}, {"qid": DATA.qid}, {"group": DATA.group}):  # Dask's or not
            assert ranker.score(eX, dy, **told) == pytest.approx(values[-1], abs=1e-6)
        with pytest.raises(lp.LambdaplugError, match=r"which rows belong together\. Pass qid="):
            ranker.score(eX, dy)
        loaded = pickle.loads(pickle.dumps(ranker))
        loaded.client = client
        np.testing.assert_array_equal(np.asarray(loaded.predict(eX).compute()), scores)
    assert isinstance(ranker.to_local(), lp.LGBMRanker)
    np.testing.assert_array_equal(ranker.to_local().predict(pd.DataFrame(DATA.X, columns=list("abcde"))), scores)

    group = dq.map_blocks(lambda ids: np.unique(ids, return_counts=True)[1], dtype=np.int64)
    options = {name: value for name, value in PARAMETERS["lightgbm"].items() if name != "min_data_in_leaf"}
    weighted = lp.DaskLGBMRanker(objective=lp.LambdaRank("map"), n_estimators=5, client=client, **options)
    weighted.fit(dX, dy, group=group, sample_weight=dweight)
    alone = lp.LGBMRanker(objective=lp.LambdaRank("map"), n_estimators=5, **options)
    alone.fit(DATA.X, DATA.labels, group=DATA.group, sample_weight=DATA.weight)
    assert splits(weighted.booster_)[0] == splits(alone.booster_)[0]
    here = alone.score(DATA.X, DATA.labels, group=DATA.group, sample_weight=DATA.weight)
    assert weighted.score(dX, dy, group=group, sample_weight=dweight) == pytest.approx(here, abs=1e-12)


# --- refused -------------------------------------------------------------------------------------------------------


def fits(client, dX, dy, dq, objective, **options):
    """Both hosts, by function and by class."""
    yield lambda: lp.dask.train(client, PARAMETERS["xgboost"], (dX, dy, dq), objective=objective, **options)
    yield lambda: lp.dask.train(client, {"verbose": -1}, (dX, dy, dq), objective=objective, host="lightgbm", **options)
    if not options:
        yield lambda: lp.DaskXGBRanker(objective=objective).fit(dX, dy, qid=dq)
        yield lambda: lp.DaskLGBMRanker(objective=objective, verbose=-1).fit(dX, dy, qid=dq)


@pytest.mark.parametrize(
    "changed",
    [lambda ids: ids << 33, lambda ids: ids / 4 + 1, lambda ids: 3 - ids],
    ids=["64 bits", "fractions", "< 0, not sorted"],
)
def test_ids_that_a_matrix_of_xgboosts_would_not_keep_are_kept(client, spread, changed):
    # XGBoost by itself would train on, with several queries as one.
    dX, dy, dq, *_ = spread
    fit = functools.partial(
        lp.dask.train, client, PARAMETERS["xgboost"], objective=lp.LambdaRank("map"), num_boost_round=1
    )
    ids = placed(client, dq.map_blocks(changed))
    matrices = [dxgb.DaskDMatrix(client, dX, dy, qid=one) for one in (ids, dq)]
    found = [DATA.predict(fit(data)["booster"]) for data in ((dX, dy, ids), *matrices)]
    for other in found[1:]:
        np.testing.assert_array_equal(found[0], other)


def test_cut_queries_are_refused(client, spread):
    dX, dy, dq, *_ = spread
    rows = len(DATA.labels)
    chunks = (rows // 2, rows - rows // 2)  # in the middle of a query
    cut = [one.rechunk({0: chunks}) for one in (dX, dy, dq)]
    middle = DATA.qid[rows // 2]
    assert DATA.qid[rows // 2 - 1] == middle
    message = rf"61 queries of 60 different ids: 1 are cut, .* query {middle}, with \d+ rows in partition 0 and .*partition_by_query"
    for fit in fits(client, *cut, lp.LambdaRank("map")):
        with pytest.raises(lp.LambdaplugError, match=message):
            fit()
    scattered = dq.map_blocks(lambda ids: np.roll(ids, 3), dtype=np.int64)
    for fit in fits(client, dX, dy, scattered, lp.LambdaRank("map")):
        with pytest.raises(lp.LambdaplugError, match=r"[23] rows in partition \d and"):
            fit()
    halves = [placed(client, one) for one in cut]
    matrix = dxgb.DaskDMatrix(client, *halves[:2], qid=halves[2])
    assert len(matrix.worker_map) == 2
    with pytest.raises(lp.LambdaplugError, match=f"query {middle}, with .* in worker"):
        lp.dask.train(client, {}, matrix, objective=lp.LambdaRank("map"))


def test_what_does_not_fit_the_rows_is_refused(client, spread):
    dX, dy, dq, dclicks, _ = spread
    first, second, *rest = dX.chunks[0]
    moved = (first + 1, second - 1, *rest)
    for fit in fits(client, dX, dy.rechunk((moved,)), dq, lp.LambdaRank("map")):
        with pytest.raises(lp.LambdaplugError, match=rf"partition 0 of X has {first} rows, and y has {first + 1}"):
            fit()
    sizes = dq.map_blocks(lambda ids: np.unique(ids, return_counts=True)[1], dtype=np.int64).compute()
    queries = [len(np.unique(dq.blocks[i].compute())) for i in range(dq.numblocks[0])]
    queries[0], queries[1] = queries[0] - 1, queries[1] + 1  # the sizes of all still add up
    group = da.from_array(sizes, chunks=(tuple(queries),))
    with pytest.raises(
        lp.LambdaplugError, match=f"partition 0 of X has {first} rows, and the sizes in group add up to"
    ):
        lp.DaskLGBMRanker(objective=lp.LambdaRank("map"), verbose=-1).fit(dX, dy, group=group)
    for wrong, message in [
        (graded(dclicks.rechunk((moved,))), "does not fit the training data"),
        (graded(DATA.clicks), "an array cannot follow the rows"),
        (lp.Preferences([[0, 1]]), "its pairs are rows by number, and rows that are spread over workers have none"),
        (lp.Mixture([(1.0, lp.LambdaRank("map")), (0.5, lp.Preferences([[0, 1]]))]), "its pairs are rows by number"),
        (pickle.loads(pickle.dumps(graded(dclicks))), "does not survive a pickle"),
        (lp.LambdaRank(lp.ERR(k=5)), r"err@5: it is scaled by the highest label.*err@5\(max_label=4.*\)"),
    ]:
        data = (
            dX,
            da.concatenate([da.minimum(dy.blocks[0], 3), dy.blocks[1:]]),
            dq,
        )
        for fit in fits(client, *data, wrong):
            with pytest.raises(lp.LambdaplugError, match=message):
                fit()
    with pytest.raises(lp.LambdaplugError, match="does not fit any of"):
        next(iter(fits(client, dX, dy, dq, lp.LambdaRank("map"), metric=lp.metric("cndcg", labels=dclicks))))()
    with pytest.raises(lp.LambdaplugError, match="these rows came without it"):
        DATA.train("lightgbm", graded(dclicks))
    with pytest.raises(lp.LambdaplugError, match="expected a Dask collection, got ndarray"):
        lp.DaskXGBRanker(objective=lp.LambdaRank("map")).fit(DATA.X, dy, qid=dq)
    with pytest.raises(lp.LambdaplugError, match="no weights together with qid"):
        lp.DaskXGBRanker(objective=lp.LambdaRank("map")).fit(dX, dy, qid=dq, sample_weight=dy)
    with pytest.raises(lp.LambdaplugError, match="pass qid="):
        lp.DaskXGBRanker(objective=lp.LambdaRank("map")).fit(dX, dy, group=dq)
    with pytest.raises(lp.LambdaplugError, match="early stopping on LightGBM's own metrics"):
        lp.DaskLGBMRanker(objective="lambdarank", early_stopping_round=3).fit(
            dX, dy, qid=dq, eval_set=[(dX, dy)], eval_qid=[dq], eval_metric=lp.metric("map")
        )
    with pytest.raises(lp.LambdaplugError, match="host: expected"):
        lp.dask.train(client, {}, (dX, dy, dq), objective=lp.LambdaRank("map"), host="catboost")
    for host, message in (("xgboost", "or a DaskDMatrix"), ("lightgbm", "for LightGBM expected")):
        with pytest.raises(lp.LambdaplugError, match=message):
            lp.dask.train(client, {}, dX, objective=lp.LambdaRank("map"), host=host)


# --- workers in trouble --------------------------------------------------------------------------------------------


class Fails(lp.LambdaRank):
    """Raises in its fourth round on one of the workers."""

    def __init__(self, worker):
        super().__init__("map")
        self.__dict__.update(worker=worker, rounds=0)

    def __call__(self, *arguments, **options):
        self.__dict__["rounds"] += 1
        if self.rounds == 4 and get_worker().address == self.worker:
            raise ZeroDivisionError("a worker's own trouble")
        return super().__call__(*arguments, **options)


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("evaluated", [False, True])
@pytest.mark.parametrize("number", [0, 1])
def test_an_exception_in_a_worker_ends_the_training(client, spread, host, evaluated, number):
    dX, dy, dq, *_ = spread
    data = dX, dy, dq
    evals = [(data, "train")] if evaluated else []
    worker = both(client)[number]
    fit = lambda objective: lp.dask.train(  # noqa: E731
        client, PARAMETERS[host], data, objective=objective, num_boost_round=8, evals=evals, host=host
    )
    workers = set(both(client))
    error = within(120, lambda: fit(Fails(worker)))
    assert isinstance(error, (ZeroDivisionError, lp.LambdaplugError))
    assert "a worker's own trouble" in str(error)
    for one in workers:  # none is left behind in the host's network, reading for ever
        assert client.submit(os.getpid, workers=[one], pure=False).result(timeout=60)
    again = within(120, lambda: fit(lp.LambdaRank("map")))
    assert isinstance(again, dict), again  # the workers are as good as new
    assert set(both(client)) == workers


@pytest.mark.parametrize("host", HOSTS)
def test_values_that_no_host_trains_with_are_refused_before_the_training(client, spread, host):
    dX, dy, dq, _, dweight = spread
    fit = functools.partial(lp.dask.train, client, PARAMETERS[host], objective=lp.LambdaRank("map"), host=host)
    workers = both(client)
    rows = [0, len(DATA.labels) - 1]  # one on each worker, whichever the network waits for
    for row in rows * 2:
        labels = DATA.labels.astype(float)
        labels[row] = np.nan
        without = da.from_array(labels, chunks=dy.chunks)
        for data, evals in (((dX, without, dq), []), ((dX, dy, dq), [((dX, without, dq), "valid")])):
            error = within(60, lambda data=data, evals=evals: fit(data=data, evals=evals))
            assert isinstance(error, lp.LambdaplugError)
            assert f"y: expected a finite label in every row, and partition {3 if row else 0} has 1 of" in str(error)
        again = within(60, lambda: fit(data=(dX, dy, dq), num_boost_round=1))
        assert isinstance(again, dict), again
    assert both(client) == workers
    narrow = da.concatenate([dX.blocks[:3], dX.blocks[3].map_blocks(lambda part: part[:, :4])])
    with pytest.raises(
        lp.LambdaplugError, match=r"X: expected the same number of columns everywhere, got 5 in .* and 4"
    ):
        fit(data=(narrow, dy, dq))
    if host == "lightgbm":
        ranker = lp.DaskLGBMRanker(objective=lp.LambdaRank("map"), client=client)
        for weight in (da.where(dq == DATA.qid[-1], np.nan, dweight), -dweight):
            with pytest.raises(lp.LambdaplugError, match=r"sample_weight: expected finite numbers >= 0, and partition"):
                ranker.fit(dX, dy, qid=dq, sample_weight=weight)
        with pytest.raises(lp.LambdaplugError, match="group: expected the number of documents"):
            ranker.fit(dX, dy, group=dq + 0.5)


class Early(lp.LambdaRank):
    """Raises or kills on some of the workers, after the last they do together and before LightGBM's network is there."""

    def __init__(self, workers, dies=False):
        super().__init__("map")
        self.__dict__.update(workers=workers, dies=dies)

    def __deepcopy__(self, memo):
        with contextlib.suppress(ValueError):  # not on a worker
            here = get_worker().address
            if here in self.workers and self.dies:
                os.kill(os.getpid(), signal.SIGKILL)
            if here in self.workers:
                raise ZeroDivisionError(f"too early on {here}")
        return self


def test_a_worker_that_fails_before_the_network_stands_ends_the_training(mortal):
    client, workers = mortal, addresses(mortal, 3)
    parts = []
    for thing in lp.dask.partition_by_query(DATA.X, DATA.labels, DATA.qid, npartitions=3):
        held = [client.persist(thing.blocks[i], workers=[worker]) for i, worker in enumerate(workers)]
        with client.as_current():
            wait(held)
        parts.append(da.concatenate(held))
    fit = functools.partial(lp.dask.train, client, PARAMETERS["lightgbm"], parts, num_boost_round=1, host="lightgbm")
    for failing in (workers[:1], workers[1:2], workers[2:], workers[:2]):
        error = within(60, lambda failing=failing: fit(Early(failing)))
        assert isinstance(error, (ZeroDivisionError, lp.LambdaplugError))
        assert any(f"too early on {worker}" in str(error) for worker in failing)
        again = within(60, lambda: fit("lambdarank"))
        assert isinstance(again, dict), again
    assert addresses(client, 3) == workers
    error = within(60, lambda: fit(Early(workers[:1], dies=True)))
    assert f"1 of 3 workers were lost: {workers[0]}" in str(error)
    for left in workers[1:]:
        assert client.submit(os.getpid, workers=[left], pure=False).result(timeout=60)


class Dies(Fails):
    """Kills one of the workers in its fourth round."""

    def __call__(self, *arguments, **options):
        if self.rounds == 3 and get_worker().address == self.worker:
            os.kill(os.getpid(), signal.SIGKILL)
        self.__dict__["rounds"] += 1
        return lp.LambdaRank.__call__(self, *arguments, **options)


def kill_when_connecting():
    def set_network(*_, **__):
        os.kill(os.getpid(), signal.SIGKILL)

    lgb.Booster.set_network = set_network


@pytest.mark.parametrize(
    ("host", "number", "connecting"),
    [
        ("xgboost", 0, False),
        ("lightgbm", 0, False),
        ("lightgbm", 1, False),
        ("lightgbm", 0, True),
        ("lightgbm", 1, True),
    ],
)
def test_a_worker_that_is_killed_ends_the_training(mortal, host, number, connecting):
    workers = both(mortal)
    killed, left = workers[number], workers[1 - number]
    dX, dy, dq, *_ = DATA.spread(mortal)
    if connecting:
        mortal.run(kill_when_connecting, workers=[killed])
    objective = lp.LambdaRank("map") if connecting else Dies(killed)
    error = within(
        60, lambda: lp.dask.train(mortal, PARAMETERS[host], (dX, dy, dq), objective, num_boost_round=4, host=host)
    )
    assert isinstance(error, lp.LambdaplugError)
    assert f"1 of 2 workers were lost: {killed}" in str(error)
    assert mortal.submit(os.getpid, workers=[left], pure=False).result(timeout=60)


def test_workers_that_are_all_lost_at_once_end_the_training(mortal):
    dX, dy, dq, *_ = DATA.spread(mortal)
    fit = functools.partial(lp.dask.train, mortal, PARAMETERS["lightgbm"], (dX, dy, dq), host="lightgbm")
    again = within(60, lambda: fit("lambdarank", num_boost_round=1))
    assert isinstance(again, dict), again
    error = within(60, lambda: fit(Early(both(mortal), dies=True)))
    assert "of 2 workers were lost" in str(error)  # the one or both, whichever was noticed


def test_a_query_over_partitions_of_a_matrix_stays_whole_where_its_worker_trains_on_nothing(mortal):
    # XGBoost keeps the partitions of a worker together, so that a query may go on from one to the next.
    client, workers = mortal, addresses(mortal, 3)
    rows = len(DATA.labels)
    chunks = tuple(np.diff([0, 3, 7, rows // 2, rows]).tolist())  # most of them in the middle of a query
    train = [placed(client, one, workers[:2]) for one in lp.dask.partition_by_query(DATA.X, DATA.labels, DATA.qid)]
    apart = [da.from_array(one, chunks=(chunks, *one.shape[1:])) for one in (DATA.X, DATA.labels, DATA.qid)]
    held = [client.persist(one, workers=workers[2:]) for one in apart]
    with client.as_current():
        wait(held)
        valid = dxgb.DaskDMatrix(client, held[0], held[1], qid=held[2])
    assert list(valid.worker_map) == workers[2:]
    trained = within(
        60,
        lambda: lp.dask.train(
            *(client, PARAMETERS["xgboost"], train, lp.LambdaRank("map"), 2), evals=[(valid, "valid")]
        ),
    )
    expected = lp.evaluate("map", DATA.labels, DATA.predict(trained["booster"]), qid=DATA.qid)["map"]
    assert trained["history"]["valid"]["map"][-1] == pytest.approx(expected, abs=1e-6)


def test_a_worker_that_is_killed_while_rows_are_examined_ends_the_training(mortal):
    dX, dy, dq, *_ = DATA.spread(mortal)
    killed = both(mortal)[0]

    def kill_when_examining():
        def killing(*_, **__):
            os.kill(os.getpid(), signal.SIGKILL)

        importlib.import_module("lambdaplug.hosts.dask.checks").examine_partition = killing

    mortal.run(kill_when_examining, workers=[killed])
    error = within(60, lambda: lp.dask.train(mortal, {}, (dX, dy, dq), lp.LambdaRank("map"), num_boost_round=1))
    assert isinstance(error, lp.LambdaplugError)
    assert f"lost: {killed}" in str(error)


@pytest.mark.parametrize("host", HOSTS)
def test_a_client_that_is_gone_or_interrupted_holds_up_no_other(client, spread, host, monkeypatch):
    dX, dy, dq, *_ = spread
    cluster = importlib.import_module("lambdaplug.hosts.dask.cluster")
    monkeypatch.setattr(cluster, "PATIENCE", 0.2)
    fit = functools.partial(
        *(lp.dask.train, client, PARAMETERS[host], (dX, dy, dq), lp.LambdaRank("map")), num_boost_round=1, host=host
    )
    with Client(client.scheduler.address, set_as_default=False) as other:
        gone = cluster.alone(other, both(client))
        gone.__enter__()
        waiting = threading.Thread(target=lambda: trained.append(fit()), daemon=True)
        trained = []
        waiting.start()
        waiting.join(1.0)
        assert not trained  # its client is there
    waiting.join(60)  # closed, and the lock never given back
    assert isinstance(trained[0], dict)

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, cluster.alone(client, both(client)):
        patch.setattr(client, "run_on_scheduler", interrupted)
        assert isinstance(within(60, fit), KeyboardInterrupt)
    assert isinstance(within(60, fit), dict)


def test_connections_are_known_by_the_address_of_a_machine():
    connections_of = importlib.import_module("lambdaplug.hosts.dask.network").connections_of
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        port = listener.getsockname()[1]
        other = stack.enter_context(socket.create_server(("127.0.0.2", port)))  # the same port of another machine
        mine, theirs = (
            {stack.enter_context(socket.create_connection(one.getsockname())), stack.enter_context(one.accept()[0])}
            for one in (listener, other)
        )
        found = connections_of(f"127.0.0.1:{port},127.0.0.3:{port}")
        assert set(found) == {one.fileno() for one in mine}
        assert not set(found) & {one.fileno() for one in theirs}


@pytest.mark.parametrize("host", HOSTS)
def test_workers_and_partitions_without_rows_do_no_harm(client, spread, host):
    dX, dy, dq, dclicks, _ = spread
    workers = both(client)
    nothing = [one[:0] for one in (dX, dy, dq, dclicks)]
    holed = [da.concatenate([none, one, none]) for none, one in zip(nothing, (dX, dy, dq, dclicks), strict=True)]
    # Training rows on one worker, evaluation rows on the other.
    there, here = (
        client.persist(
            [da.from_array(one.copy(), name=False) for one in (DATA.X, DATA.labels, DATA.qid)], workers=[one]
        )
        for one in workers
    )
    wait([there, here])
    holders = [set(itertools.chain(*client.who_has(some).values())) for some in (there, here)]
    assert holders == [{workers[0]}, {workers[1]}]
    alone = DATA.train(host, lp.LambdaRank("map"))
    for training, evaluation in ((holed[:3], (dX, dy, dq)), (there, here)):
        trained = within(
            120,
            lambda training=training, evaluation=evaluation: lp.dask.train(
                client,
                PARAMETERS[host],
                training,
                objective=lp.LambdaRank("map"),
                num_boost_round=8,
                evals=[(evaluation, "valid")],
                host=host,
            ),
        )
        assert isinstance(trained, dict), trained
        assert splits(trained["booster"])[0] == splits(alone)[0]
        found = lp.evaluate("map", DATA.labels, DATA.predict(trained["booster"]), DATA.group)["map"]
        assert trained["history"]["valid"]["map"][-1] == pytest.approx(found, abs=1e-6)
    objective = graded(holed[3])
    train = functools.partial(lp.dask.train, client, PARAMETERS[host], holed[:3], objective=objective, host=host)
    trained = within(120, lambda: train(num_boost_round=8))
    assert isinstance(trained, dict), trained
    assert splits(trained["booster"])[0] == splits(DATA.train(host, graded(DATA.clicks)))[0]


# --- callbacks -----------------------------------------------------------------------------------------------------


def stopping(worker, error=None):
    """A callback for each host that stops in the third round, or raises, on one of the workers."""

    class Stops(xgb.callback.TrainingCallback):
        def after_iteration(self, model, epoch, evals_log):  # noqa: ARG002
            if epoch == 2 and get_worker().address == worker:
                if error is not None:
                    raise error
                return True
            return False

    def stops(environment):
        if environment.iteration == 2 and get_worker().address == worker:
            raise error or lgb.callback.EarlyStopException(environment.iteration, [])

    return {"xgboost": Stops(), "lightgbm": stops}


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("kind", ["ours", "the host's"])
def test_a_callback_on_one_worker_ends_the_training_on_all(client, spread, host, kind):
    dX, dy, dq, *_ = spread
    word = {"xgboost": "rank:ndcg", "lightgbm": "lambdarank"}[host]
    objective = lp.LambdaRank("map") if kind == "ours" else word
    fit = functools.partial(lp.dask.train, client, PARAMETERS[host], (dX, dy, dq), objective, 8, host=host)
    for worker in both(client):
        trained = within(120, lambda worker=worker: fit(callbacks=[stopping(worker)[host]]))
        assert isinstance(trained, dict), trained
        booster = trained["booster"]
        rounds = booster.num_boosted_rounds() if host == "xgboost" else booster.current_iteration()
        assert rounds == 3
        failing = stopping(worker, ZeroDivisionError("a callback's own trouble"))[host]
        error = within(120, lambda failing=failing: fit(callbacks=[failing]))
        assert isinstance(error, (ZeroDivisionError, lp.LambdaplugError))
        assert "a callback's own trouble" in str(error)


# --- found by looking again ----------------------------------------------------------------------------------------


def test_workers_may_share_a_process():
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        dX, dy, dq, *_ = DATA.spread(client)
        for host in HOSTS:
            trained = within(
                120,
                lambda host=host: lp.dask.train(
                    client,
                    PARAMETERS[host],
                    (dX, dy, dq),
                    lp.LambdaRank("map"),
                    8,
                    evals=[((dX, dy, dq), "train")],
                    host=host,
                ),
            )
            assert isinstance(trained, dict), trained
            assert splits(trained["booster"])[0] == splits(DATA.train(host, lp.LambdaRank("map")))[0]


def test_trainings_at_the_same_time_wait_for_each_other(client, spread):
    dX, dy, dq, *_ = spread

    def fit(host):
        return lp.dask.train(client, PARAMETERS[host], (dX, dy, dq), lp.LambdaRank("map"), 2, host=host)["booster"]

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        found = within(120, lambda: list(pool.map(fit, HOSTS * 2)))
    assert isinstance(found, list), found
    for host, booster in zip(HOSTS * 2, found, strict=True):
        assert splits(booster)[0] == splits(DATA.train(host, lp.LambdaRank("map"), 2))[0]


def test_weights_are_read_one_way_on_all_workers(client, spread):
    dX, dy, dq, *_ = spread
    weight = DATA.weight.copy()
    weight[0] += 5  # within the first query alone, which one of the workers has
    dweight = lp.dask.partition_by_query(DATA.X, DATA.labels, DATA.qid, weight, npartitions=4)[3]
    options = {"objective": lp.LambdaRank("map"), "n_estimators": 8, **PARAMETERS["lightgbm"]}
    spread_out = lp.DaskLGBMRanker(client=client, **options).fit(dX, dy, qid=dq, sample_weight=dweight)
    alone = lp.LGBMRanker(**options).fit(DATA.X, DATA.labels, group=DATA.group, sample_weight=weight)
    assert splits(spread_out.booster_)[0] == splits(alone.booster_)[0]
    # Weights of the training are not asked for of further evaluation sets.
    evals = {"eval_set": [(dX, dy), (dX + 0, dy)], "eval_qid": [dq, dq]}
    for weights in (None, [dweight, None]):
        ranker = lp.DaskLGBMRanker(client=client, **options)
        ranker.fit(dX, dy, qid=dq, sample_weight=dweight, eval_sample_weight=weights, **evals)
        first, second = (ranker.evals_result_[name]["map"] for name in ("valid_0", "valid_1"))
        # Rows of the second may be on other workers than those of the first: their sums are added up in another order.
        np.testing.assert_allclose(first, second, rtol=1e-12)


@pytest.mark.parametrize("host", HOSTS)
def test_a_scale_is_that_of_the_labels_it_is_of(client, spread, host):
    dX, dy, dq, *_ = spread
    even = da.minimum(dy, 2)  # up to 2 everywhere, where dy goes up to 3 and to 4
    second = da.concatenate([da.minimum(dy.blocks[0], 1), even.blocks[1:]])
    fit = functools.partial(lp.dask.train, client, PARAMETERS[host], num_boost_round=3, host=host)
    for objective, metric in [
        (lp.LambdaRank("err@5", labels=second), None),
        (lp.LambdaRank("map"), lp.metric("err@5", labels=second)),
    ]:
        with pytest.raises(lp.LambdaplugError, match=r"some partitions go up to 1, others to 2.*max_label=2"):
            fit((dX, dy, dq), objective, metric=metric, evals=[((dX, dy, dq), "train")])
    fit((dX, dy, dq), lp.LambdaRank("err@5", labels=even))


@pytest.mark.parametrize("host", HOSTS)
def test_a_worker_may_have_nothing_to_learn_from(client, spread, host):
    dX, dy, dq, *_ = spread
    half = dy.numblocks[0] // 2
    labels = da.concatenate([dy.blocks[:half], 0 * dy.blocks[half:]])
    trained = lp.dask.train(
        *(client, PARAMETERS[host], (dX, labels, dq), lp.LambdaRank("map"), 2),
        host=host,
        evals=[((dX, labels, dq), "train")],
        metric=lp.metric("map"),
    )
    assert len(trained["history"]["train"]["map"]) == 2


@pytest.mark.parametrize("kind", [lp.DaskXGBRanker, lp.DaskLGBMRanker])
def test_frames_are_predicted_on_and_may_leave_a_worker_without_rows(client, kind):
    names = list("abcde")
    frame = pd.DataFrame(DATA.X, columns=names).assign(label=DATA.labels, query=[f"q{i:03d}" for i in DATA.qid])
    whole = dd.from_pandas(frame, npartitions=3, sort=False)
    options = {"min_child_weight": 0} if kind is lp.DaskXGBRanker else {"verbose": -1}
    ranker = kind(objective=lp.LambdaRank("map"), n_estimators=3, client=client, **options)
    with pytest.raises(lp.LambdaplugError, match=r"the first being query 'q\d+', with"):
        ranker.fit(whole[names], whole["label"], qid=whole["query"])
    fX, fy, fq = lp.dask.partition_by_query(whole[names], whole["label"], whole["query"], npartitions=4)
    local = lp.dask.partition_by_query(frame[names], frame["label"], frame["query"], npartitions=1)
    ranker.fit(fX, fy, qid=fq, eval_set=[local[:2]], eval_qid=[local[2]])
    # XGBoost 2.0 may lose a Booster that predicts twice.
    for laid in (fX,) if kind is lp.DaskXGBRanker else (local[0], fX):
        scores = np.asarray(ranker.predict(laid).compute())
        assert scores.shape == (len(frame),)
    values = next(iter(ranker.evals_result_.values()))["map"]
    assert values[-1] == pytest.approx(lp.evaluate("map", DATA.labels, scores, DATA.group)["map"], abs=1e-6)


def test_columns_in_several_chunks_and_lengths_that_differ(client, spread):
    dX, dy, dq, *_ = spread
    for host in HOSTS:
        by_columns = dX.rechunk({1: 2})
        trained = lp.dask.train(client, PARAMETERS[host], (by_columns, dy, dq), lp.LambdaRank("map"), 8, host=host)
        assert splits(trained["booster"])[0] == splits(DATA.train(host, lp.LambdaRank("map")))[0]
    frame = pd.DataFrame(DATA.X)
    longer, shorter = dd.from_pandas(frame, npartitions=2), dd.from_pandas(frame.iloc[:-2], npartitions=2)
    with pytest.raises(lp.LambdaplugError, match=r"partition \d: qid has \d+ rows; X, y"):
        lp.dask.partition_by_query(longer, shorter[0], shorter[1], npartitions=2)
    with pytest.raises(lp.LambdaplugError, match="nothing to look at"):
        lp.dask.train(client, {}, (dX, dy, dq), lp.LambdaRank("map"), early_stopping_rounds=3, host="lightgbm")
    with pytest.raises(lp.LambdaplugError, match="whose mean over workers cannot be known"):
        lp.DaskXGBRanker(objective=lp.LambdaRank("map"), eval_metric=len).fit(dX, dy, qid=dq)


def test_margins_of_evaluation_sets_count(client, spread):
    dX, dy, dq, *_ = spread
    margin = da.from_array(10.0 * DATA.X[:, 0], chunks=dX.chunks[:1])
    options = {"objective": lp.LambdaRank("map"), "n_estimators": 2, "min_child_weight": 0, "client": client}
    ranker = lp.DaskXGBRanker(**options).fit(
        *(dX, dy),
        qid=dq,
        eval_set=[(dX, dy)] * 3,
        eval_qid=[dq] * 3,
        base_margin_eval_set=[None, margin, margin],
    )
    plain, *moved = (ranker.evals_result_[f"validation_{i}"]["map"] for i in range(3))
    assert moved[0] == moved[1] != plain


def test_evaluation_sets_that_are_no_data_are_refused(client, spread):
    dX, dy, dq, *_ = spread
    for wrong, message in [((dX, dy), "tuple of 2"), ((dX, dy, dq, dq), "tuple of 4"), (None, "NoneType")]:
        for fit in fits(client, dX, dy, dq, lp.LambdaRank("map"), evals=[(wrong, "valid")]):
            with pytest.raises(lp.LambdaplugError, match=rf"expected \(dX, dy, dq\), .*got {message}"):
                fit()


def test_a_matrix_whose_workers_are_gone_is_refused(client, spread):
    dX, dy, dq, *_ = spread
    matrix = dxgb.DaskDMatrix(client, dX, dy, qid=dq)
    matrix.worker_map = {"tcp://127.0.0.1:9": next(iter(matrix.worker_map.values()))}
    error = within(60, lambda: lp.dask.train(client, {}, matrix, lp.LambdaRank("map")))
    assert "workers that are gone: tcp://127.0.0.1:9. Build it again" in str(error)


@pytest.mark.parametrize("names", [None, ["train", "valid"]])
def test_lightgbm_does_not_stop_on_its_training_data(client, spread, names):
    dX, dy, dq, *_ = spread
    valid = Data(queries=20, seed=5)
    vX, vy, vq, *_ = valid.spread(client, npartitions=2)
    score = da.zeros(len(DATA.labels), chunks=dX.chunks[:1])
    options = {"objective": lp.LambdaRank("map"), "n_estimators": 30, "early_stopping_round": 2}
    options = {**PARAMETERS["lightgbm"], **options, "learning_rate": 0.5}
    ranker = lp.DaskLGBMRanker(client=client, **options).fit(
        *(dX, dy),
        qid=dq,
        init_score=score,  # not asked for of the evaluation sets
        eval_set=[(dX, dy), (vX, vy)],
        eval_qid=[dq, vq],
        eval_names=names,
        eval_metric=lp.metric("p@1"),  # of the training data it stands still at once
    )
    alone = lp.LGBMRanker(**options).fit(
        *(DATA.X, DATA.labels),
        group=DATA.group,
        eval_set=[(DATA.X, DATA.labels), (valid.X, valid.labels)],
        eval_group=[DATA.group, valid.group],
        eval_names=["train", "valid"],
        eval_metric=lp.metric("p@1"),
    )
    assert list(ranker.evals_result_) == (names or ["valid_0", "valid_1"])
    for mine, theirs in zip(ranker.evals_result_.values(), alone.evals_result_.values(), strict=True):
        assert mine["p@1"] == pytest.approx(theirs["p@1"])
    assert ranker.best_iteration_ == alone.best_iteration_


def test_training_data_evaluated_twice_and_by_other_queries(client, spread):
    dX, dy, dq, *_ = spread
    one_each = da.arange(len(DATA.labels), chunks=dX.chunks[:1])
    fit = functools.partial(
        lp.DaskLGBMRanker(objective=lp.LambdaRank("map"), n_estimators=2, client=client, verbose=-1).fit, dX, dy, qid=dq
    )
    ranker = fit(eval_set=[(dX, dy)] * 3, eval_qid=[dq, dq, one_each], eval_init_score=[None, None, dy * 0.0])
    found = ranker.evals_result_
    assert found["valid_0"] == found["valid_1"]
    assert ranker.best_score_["valid_0"] == ranker.best_score_["valid_1"] != {}
    assert found["valid_2"]["map"] == [1.0, 1.0] != found["valid_0"]["map"]
    for wrong, message in [
        ({"eval_y": dy}, "eval_X, eval_y: expected as many"),
        ({"eval_X": dX}, "eval_X, eval_y: expected as many"),
        ({"eval_X": (dX, dX), "eval_y": (dy,)}, "eval_X, eval_y: expected as many"),
        ({"eval_X": dX, "eval_y": dy, "eval_set": [(dX, dy)]}, "got both"),
        ({"group": dq}, "qid and group: expected one"),
    ]:
        with pytest.raises(lp.LambdaplugError, match=message):
            fit(**wrong)


def test_large_ids_beside_an_empty_partition():
    ids = 2**60 + np.arange(8) // 2
    checks = importlib.import_module("lambdaplug.hosts.dask.checks")
    checks.check_partitions(
        [checks.examine_partition(np.zeros((len(one), 1)), np.zeros(len(one)), one) for one in (ids, np.empty(0))]
    )


@pytest.mark.parametrize("host", HOSTS)
def test_what_train_takes_and_refuses(client, spread, host):
    dX, dy, dq, *_ = spread
    train = functools.partial(lp.dask.train, client, data=(dX, dy, dq), num_boost_round=2, host=host)
    word = {"xgboost": "eval_metric", "lightgbm": "metric"}[host]
    evals = [((dX, dy, dq), "train")]
    params = {**PARAMETERS[host], "application": "regression"} if host == "lightgbm" else PARAMETERS[host]
    named = train({**params, word: lp.metric("mrr")}, objective=lp.LambdaRank("map"), evals=evals)
    assert list(named["history"]["train"]) == ["mrr"]
    assert splits(named["booster"])[0] == splits(DATA.train(host, lp.LambdaRank("map"), 2))[0]
    for option, instead in (("obj", "objective="), ("custom_metric", "metric=")):
        with pytest.raises(lp.LambdaplugError, match=f"{option}: expected {instead}"):
            train({}, **{option: lp.LambdaRank("map")})
    recorder = lp.analysis.record(DATA.X, DATA.labels, DATA.group, lp.analysis.TopLabels(3))
    with pytest.raises(lp.LambdaplugError, match=r"lp\.analysis\.record follows a training on one machine"):
        train(PARAMETERS[host], objective=lp.LambdaRank("map"), callbacks=[recorder])


class Bare(lp.LambdaRank):
    """Raises where its rows come with further columns."""

    def __call__(self, scores, data, *rest):
        assert not importlib.import_module("lambdaplug.hosts.sharing").columns_of(data), "not its own"
        return super().__call__(scores, data, *rest)


@pytest.mark.parametrize("host", HOSTS)
def test_a_metrics_column_is_not_the_training_datas(client, spread, host):
    dX, dy, dq, dclicks, _ = spread
    trained = lp.dask.train(
        *(client, PARAMETERS[host], (dX, dy, dq), Bare("map"), 2),
        evals=[((dX + 0, dy, dq), "valid")],  # of the same labels and queries
        metric=lp.metric("mrr", labels=dclicks),
        host=host,
    )
    assert len(trained["history"]["valid"]["mrr"]) == 2


def test_rankers_train_for_a_measure_with_a_column_of_its_own(client, spread):
    dX, dy, dq, dclicks, _ = spread
    for host, kind in (("xgboost", lp.DaskXGBRanker), ("lightgbm", lp.DaskLGBMRanker)):
        given = {name: value for name, value in PARAMETERS[host].items() if name not in ("objective", "lambda")}
        ranker = kind(objective=lp.LambdaRank(earned(dclicks)), n_estimators=4, **given)
        ranker.client = client
        ranker.fit(dX, dy, qid=dq)  # without evaluation sets: no metric asks for the column there
        trained = lp.dask.train(client, given, (dX, dy, dq), lp.LambdaRank(earned(dclicks)), 4, host=host)["booster"]
        grown = ranker.get_booster() if host == "xgboost" else ranker.booster_
        assert splits(grown)[0] == splits(trained)[0]


@pytest.mark.parametrize("given", [False, True], ids=["built", "given"])
def test_data_sets_of_equal_labels_have_columns_of_their_own(client, given):
    half = DATA.X[: DATA.group[:30].sum()]
    labels, sizes, rows = DATA.labels[: len(half)], DATA.group[:30], len(half)
    X, y = np.concatenate([half, half[::-1]]), np.tile(labels, 2)
    qid = np.repeat(np.arange(60), np.tile(sizes, 2))
    clicks = np.concatenate([np.arange(rows) % 3 == 0, np.arange(rows) % 2]).astype(float)
    dclicks, *things = (da.from_array(thing, chunks=(rows, *thing.shape[1:])) for thing in (clicks, X, y, qid))
    there = [placed(client, thing) for thing in things]
    workers = both(client)[::-1]  # the other way round, so that one worker has both halves, of equal labels and sizes
    here = [
        da.concatenate([client.persist(thing.blocks[i] + 0, workers=[worker]) for i, worker in enumerate(workers)])
        for thing in things
    ]
    train, valid = (
        dxgb.DaskDMatrix(client, one[0], one[1], qid=one[2]) if given else tuple(one) for one in (there, here)
    )
    trained = lp.dask.train(
        *(client, PARAMETERS["xgboost"], train, lp.LambdaRank("map"), 2),
        evals=[(train, "train"), (valid, "valid")],
        metric=lp.metric("mrr", labels=dclicks),
    )
    scores = trained["booster"].predict(xgb.DMatrix(X))
    expected = lp.evaluate("mrr", clicks, scores, np.tile(sizes, 2))["mrr"]
    for name in ("train", "valid"):
        assert trained["history"][name]["mrr"][-1] == pytest.approx(expected, abs=1e-6)


def test_sparse_matrices_of_any_kind_are_laid_out():
    X, qid = np.arange(8.0).reshape(4, 2), [1, 0, 1, 0]
    dX, *_ = lp.dask.partition_by_query(scipy.sparse.coo_matrix(X), qid, qid, npartitions=1)
    np.testing.assert_array_equal(dX.compute(scheduler="synchronous").toarray(), X[[1, 3, 0, 2]])
    for wrong in ("many", 1.5, np.nan):
        with pytest.raises(lp.LambdaplugError, match="npartitions: expected an integer >= 1"):
            lp.dask.partition_by_query(X, qid, qid, npartitions=wrong)


def test_numbers_that_were_sent_are_aligned():
    layout = importlib.import_module("lambdaplug.hosts.dask.layout")
    sent = np.frombuffer(bytes(8 * 6 + 1), offset=1).reshape(3, 2)
    assert not sent.flags.aligned
    assert layout.aligned(sent).flags.aligned
    frame = pd.DataFrame(sent, copy=False)
    assert all(column.to_numpy().flags.aligned for _, column in layout.aligned(frame).items())
    whole = np.zeros((3, 2))
    assert layout.aligned(whole) is whole
