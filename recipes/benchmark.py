"""How fast lambdaplug is beside the boosters' own ranking objectives, and whether it meets its goals.

    python recipes/benchmark.py                            # everything, in the goals' sizes
    python recipes/benchmark.py --only objective,memory    # some sections
    python recipes/benchmark.py --markdown                 # all results as a Markdown table at the end
    python recipes/benchmark.py --only start --busy        # also two threads beside processes that keep cores busy
    python recipes/benchmark.py --picture recipes/speed.svg --table recipes/results/performance.md    # the README's bars

Machines are noisy: contenders take turns round by round, each keeps its fastest round, and ratios are printed. An
objective's own time is that of a booster's round on one feature and two leaves, where the tree costs almost nothing,
minus the same round with stored gradients. All contenders start from the same random scores and do the same work: the
same pairs, and none of the peers' normalisations. On a busy machine, --cpu-time counts processor time.
"""

import argparse
import importlib.metadata
import importlib.util
import itertools
import os
import pickle
import platform
import re
import subprocess
import sys
import tempfile
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path
from time import perf_counter, thread_time
from typing import NamedTuple
from unittest.mock import patch

import lightgbm as lgb
import numpy as np
import pandas as pd
import xgboost as xgb
from common import pairs_of
from sklearn.datasets import dump_svmlight_file, load_svmlight_file
from tqdm import tqdm

import lambdaplug as lp
from lambdaplug import plotting
from lambdaplug.measures import registered
from lambdaplug.queries import Queries

plt = plotting.use()

SHARES = (0.55, 0.25, 0.13, 0.05, 0.02)  # of the labels 0..4, as judged web results have them
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
CPU_TIME = "--cpu-time" in sys.argv
CLOCK = thread_time if CPU_TIME else perf_counter
THREADS = (1, 2) if CORES > 1 and not CPU_TIME else (1,)
CATBOOST = importlib.util.find_spec("catboost") is not None
MEASURE_GOALS = {"err": 3, "bpref": 3, "mrr": 1, "wta": 1, "p": 1, "recall": 1, "hit": 1}  # all others: 2
OBJECTIVE_GOALS = {  # None: no goal, the figure alone
    lp.Approx("ndcg"): 4,
    lp.PLRank("ndcg", samples=8): None,
    lp.StochasticRank("ndcg"): None,
    lp.StochasticRank("ndcg@10"): None,
    lp.QueryRMSE(): 1,
    lp.QuerySoftmax(): 1,
    lp.ListMLE(): None,
    lp.Calibrated(max_label=4): None,
}

# How much of everything; the goals are meant for the first.
FULL = {"queries": 2000, "documents": 120, "blocks": 4, "rounds": 6, "repeats": 8, "starts": 3}
FULL |= {"training": (2000, 10), "leaves": (31, 255)}  # queries, rounds
FULL |= {"growth_rows": 200_000, "growth_documents": (10, 30, 100, 300, 1000, 3000, 10_000, 20_000)}
FULL |= {"growth_queries": (1000, 3000, 10_000, 30_000)}  # of 100 documents
FULL |= {"tools": (1500, 100), "evaluated": 3_000_000, "examined": (2000, 50, 100, 459)}
FULL |= {"memory": [("LightGBM", 30_000, 100), ("XGBoost", 30_000, 100), ("LightGBM", 50, 20_000)]}
QUICK = FULL | {"queries": 200, "blocks": 2, "rounds": 3, "repeats": 3, "starts": 1, "training": (50, 3)}
QUICK |= {"tools": (50, 40), "evaluated": 30_000, "examined": (40, 20, 5, 20)}
QUICK |= {"leaves": (31,), "growth_rows": 20_000, "growth_documents": (10, 100, 1000, 4000)}
QUICK |= {"growth_queries": (300, 1000, 3000), "memory": [("LightGBM", 50, 2000)]}


class Result(NamedTuple):
    work: str
    measured: str
    value: float
    goal: float | None = None  # at most
    unit: str = ""

    @property
    def verdict(self):
        if self.goal is None:
            return ""
        return "too noisy" if np.isnan(self.value) else "met" if self.value <= self.goal else "NOT MET"

    def line(self):
        goal = "" if self.goal is None else f"<= {self.goal}"
        return [self.work, self.measured, f"{self.value:.3g} {self.unit}".strip(), goal, self.verdict]


def ratio(work, mine, theirs, goal=None):
    """A time that comes out negative, being a difference of two, says that the machine had other work."""
    value = mine / theirs if min(mine, theirs) > 0 else np.nan
    return Result(work, f"{1e3 * mine:.2f} / {1e3 * theirs:.2f} ms", value, goal)


def progress(steps, title, total=None):
    return tqdm(steps, desc=title, total=total, disable=None, leave=False)


# --- data, and contenders: functions that run one round and return its seconds ------------------------------------


def one_feature(queries, documents, binary=False):
    """A feature that says a little about the label, labels, sizes, and random scores to start from, without which lists
    would be full of ties."""
    rng = np.random.default_rng(documents)
    labels = rng.choice(len(SHARES), size=queries * documents, p=SHARES)
    X = np.round(labels + 4.0 * rng.normal(size=len(labels))).astype(np.float32)[:, None]
    labels = (np.minimum(labels, 1) if binary else labels).astype(np.float32)
    return X, labels, np.full(queries, documents), rng.normal(size=len(labels))


def stored_gradients(rows):
    kept = np.random.default_rng(0).normal(size=rows).astype(np.float32), np.ones(rows, np.float32)
    return lambda scores, data: kept  # noqa: ARG005


def seconds(action):
    start = CLOCK()
    action()
    return CLOCK() - start


def lightgbm(X, labels, group, scores=None):
    """Makes contenders on this data. With a callable, ``lgb.train`` too updates a Booster whose objective is "none"."""
    data = lgb.Dataset(X, labels, group=group, init_score=scores, params={"verbose": -1})

    def contender(objective, threads=1, leaves=2, pairs=30):
        fobj, name = (objective, "none") if callable(objective) else (None, objective)
        parameters = {"objective": name, "num_threads": threads, "num_leaves": leaves, "min_sum_hessian_in_leaf": 1e-12}
        parameters |= {"lambdarank_truncation_level": pairs, "lambdarank_norm": False, "metric": "None", "verbose": -1}
        booster = lgb.Booster(parameters, data)
        return lambda: seconds(lambda: booster.update(fobj=fobj))

    return contender


def xgboost(X, labels, group, scores=None):
    data = xgb.DMatrix(X, labels, base_margin=scores)
    data.set_group(group)

    def contender(objective, threads=1, leaves=2, pairs=30):
        fobj, name = (objective, "rank:ndcg") if callable(objective) else (None, objective)
        parameters = {"objective": name, "nthread": threads, "max_leaves": leaves, "max_depth": 0, "lambda": 1e-3}
        parameters |= {"grow_policy": "lossguide", "learning_rate": 0.1, "min_child_weight": 0, "base_score": 0}
        parameters |= {"lambdarank_pair_method": "topk", "lambdarank_num_pair_per_sample": pairs}
        parameters |= {"lambdarank_normalization": False, "lambdarank_score_normalization": False}
        booster, number = xgb.Booster(parameters, [data]), itertools.count()
        return lambda: seconds(lambda: booster.update(data, next(number), fobj))

    return contender


def catboost(X, labels, group, scores=None):
    """CatBoost has no single rounds, so that a contender is the second of a training; and takes no gradients, so that
    RMSE stands for stored ones. It differentiates twice per round, for the tree and for its leaves: that stays in."""
    import catboost as cat

    data = cat.Pool(X, labels, group_id=np.repeat(np.arange(len(group)), group), baseline=scores)

    class Stamps(list):
        def after_iteration(self, info):
            self.append(CLOCK())
            return True

    def contender(objective, threads=1, pairs=None):  # noqa: ARG001
        loss = "RMSE" if callable(objective) else objective
        parameters = {"loss_function": loss, "thread_count": threads, "depth": 1, "iterations": 2, "metric_period": 9}
        parameters |= {"boosting_type": "Plain", "bootstrap_type": "No", "random_strength": 0, "learning_rate": 0.1}
        parameters |= {"leaf_estimation_method": "Gradient", "leaf_estimation_iterations": 1}
        parameters |= {"logging_level": "Silent", "allow_writing_files": False}

        def run():
            stamps = Stamps()
            cat.CatBoost(parameters).fit(data, callbacks=[stamps])
            return stamps[1] - stamps[0]

        return run

    return contender


HOSTS = {"LightGBM": lightgbm, "XGBoost": xgboost, "CatBoost": catboost}


def calls(objective, X, labels, group, scores, threads=1, columns=None):
    """The objective alone, called as a host calls it. Scores move between the calls as by a tree of 31
    leaves: by a twentieth of their spread, as they do after some 20 rounds at the learning rate 0.1."""
    rng = np.random.default_rng(1)
    data = lgb.Dataset(X, labels, group=group, params={"num_threads": threads, "verbose": -1}).construct()
    lp.attach(data, **(columns or {}))
    scores = scores.copy()

    def call():
        np.add(scores, rng.normal(0, 0.05, size=31)[rng.integers(31, size=len(scores))], out=scores)
        return seconds(lambda: objective(scores, data))

    return call


def race(contenders, repeats, title, of=min):
    """Each contender's fastest round, or another figure of all its rounds; they take turns."""
    times = {name: [] for name in contenders}
    for _ in progress(range(repeats), title):
        for name, run in contenders.items():
            times[name].append(run())
    return {name: of(rounds) for name, rounds in times.items()}


# --- sections -----------------------------------------------------------------------------------------------------


def objective(size):
    """lambdaplug / the booster's own objective: a round on one feature and two leaves, minus one of stored gradients"""
    n = size["documents"]
    smooth, named = lp.LambdaRank("ndcg", noise=1.0), lp.objective("map")
    duels = [  # work, host, its objective, how many documents have pairs with all below, our measure or objective, goal
        ("whole-list NDCG", "LightGBM", "lambdarank", n, "ndcg", Fraction(1, 8)),
        ("NDCG@30 pairs", "LightGBM", "lambdarank", 30, "ndcg@30", Fraction(1, 4)),
        ("NDCG@3 pairs", "LightGBM", "lambdarank", 3, "ndcg@3", Fraction(1, 3)),
        ("whole-list NDCG", "XGBoost", "rank:ndcg", n, "ndcg", Fraction(1, 20)),
        ("whole-list MAP", "XGBoost", "rank:map", n, "map", Fraction(1, 20)),
        ("whole-list NDCG, noise=1", "LightGBM", "lambdarank", n, smooth, Fraction(1, 6)),
        ("lp.objective('map')", "XGBoost", "rank:map", n, named, Fraction(1, 4)),
    ]
    if CATBOOST:
        duels.append(("whole-list NDCG", "CatBoost", "LambdaMart:metric=NDCG;norm=false", n, "ndcg", None))
    makers = {}  # each contender has a data set of its own
    for _, host, peer, pairs, measure, _ in duels:
        rows = one_feature(size["queries"], n, binary=peer == "rank:map")
        makers.setdefault((host, "stored"), (HOSTS[host](*rows), stored_gradients(len(rows[0])), pairs))
        makers[host, peer, pairs] = HOSTS[host](*rows), peer, pairs
        if host != "CatBoost":
            ours = lp.LambdaRank(measure) if isinstance(measure, str) else measure
            makers[host, measure] = HOSTS[host](*rows), ours, pairs
    time = {(threads, *name): np.inf for threads in THREADS for name in makers}
    for block, threads in itertools.product(range(size["blocks"]), THREADS):
        # LightGBM's number of threads belongs to the process, so that one and two cannot take turns round by round.
        runs = {(threads, *name): make(what, threads, pairs=pairs) for name, (make, what, pairs) in makers.items()}
        best = race(runs, size["rounds"], f"objective, {threads} threads, block {block + 1}")
        time |= {name: min(time[name], found) for name, found in best.items()}
    alone = {name: found - time[(*name[:2], "stored")] for name, found in time.items()}

    results = []
    for threads, (work, host, peer, pairs, measure, goal) in itertools.product(THREADS, duels):
        mine = alone[threads, host if host != "CatBoost" else "LightGBM", measure]
        said = f"{work} / {host} {peer.partition(';')[0]}" + (", two threads" if threads > 1 else "")
        results.append(ratio(said, mine, alone[threads, host, peer, pairs], goal if threads == 1 else None))
    results += [*smoothed(size), *constructed(size), *parts(size)]
    if len(THREADS) == 1:
        print("\ntwo threads / one: not measured, with --cpu-time or on one core")
        return results
    runs = {threads: calls(lp.LambdaRank("ndcg"), *one_feature(size["queries"], n), threads) for threads in THREADS}
    best = race(runs, 12 * size["repeats"], "threads")
    results.append(ratio("whole-list NDCG alone, two threads / one", best[2], best[1], 0.6))
    for host in ("LightGBM", "XGBoost"):  # small differences of small times: more rounds than above, without the peers
        best = {}
        for block, threads in itertools.product(range(size["blocks"]), THREADS):
            make = HOSTS[host](*one_feature(size["queries"], n))
            runs = {"mine": make(lp.LambdaRank("ndcg"), threads)}
            runs["stored"] = make(stored_gradients(size["queries"] * n), threads)
            for name, found in race(runs, 4 * size["repeats"], f"threads, {host}, block {block + 1}").items():
                best[threads, name] = min(best.get((threads, name), np.inf), found)
        one, two = (best[threads, "mine"] - best[threads, "stored"] for threads in THREADS)
        results.append(ratio(f"whole-list NDCG in {host}, two threads / one", two, one, 0.6))
    return results


def smoothed(size):
    """The cost of noise."""
    rows = one_feature(size["queries"], size["documents"])
    for measure, name in (("ndcg", "whole-list NDCG"), ("ndcg@10", "NDCG@10")):
        runs = {noise: calls(lp.LambdaRank(measure, noise=noise), *rows) for noise in (0.0, 1.0)}
        best = race(runs, 6 * size["repeats"], f"smoothed {name}")
        yield ratio(f"{name}, noise=1 / noise=0", best[1.0], best[0.0], 2.0)


def constructed(size):
    """The cost of other weights, and of more pairs, of the same measure."""
    rows = one_feature(size["queries"], size["documents"])
    for measure, name, construction, goal in (
        ("ndcg", "whole-list NDCG", lp.constructions.Loss2(), 1.5),
        ("ndcg@10", "NDCG@10", lp.constructions.Extended("static"), None),
    ):
        objectives = {"plain": lp.LambdaRank(measure), "other": lp.LambdaRank(measure, construction=construction)}
        best = race(
            {key: calls(one, *rows) for key, one in objectives.items()}, 6 * size["repeats"], f"{name}, constructed"
        )
        yield ratio(
            f"{name}, {type(construction).__name__} / the default construction", best["other"], best["plain"], goal
        )


def parts(size):
    """A part of a large mixture beside a part of a small one."""
    rows = one_feature(size["queries"] // 4, size["documents"])
    mixtures = {n: lp.Mixture([(1.0, lp.LambdaRank(f"ndcg@{k + 1}")) for k in range(n)]) for n in (5, 30)}
    best = race({n: calls(mixture, *rows) for n, mixture in mixtures.items()}, 2 * size["repeats"], "parts")
    yield ratio("a part of a mixture of 30 / of 5", best[30] / 30, best[5] / 5, 1.2)


def busy(size):
    """two threads / one, whole-list NDCG alone, medians (a fastest round is a lucky one) while all cores but one burn"""
    if len(THREADS) == 1:
        print("\nbusy: not measured, with --cpu-time or on one core")
        return []
    runs = {n: calls(lp.LambdaRank("ndcg"), *one_feature(size["queries"], size["documents"]), n) for n in THREADS}
    race(runs, 3, "busy: warming up")
    burning = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(CORES - 1)]
    try:
        usual = race(runs, 12 * size["repeats"], "busy", np.median)
    finally:
        for process in burning:
            process.kill()
            process.wait()
    return [ratio(f"NDCG, two threads / one, {len(burning)} of {CORES} cores busy", usual[2], usual[1], 1.2)]


def rounds(size):
    """What of a gradient is Python: its calls, its time with the GIL, the same beside a Python thread that computes"""
    for name in ("ndcg", "map", "mrr"):
        objective, (_, labels, group, scores) = lp.objective(name), one_feature(size["queries"], size["documents"])
        queries, few = Queries(labels, group), Queries(np.tile([1.0, 0.0], 256), np.full(256, 2))

        def gradient(rows, threads, objective=objective, scores=scores):
            return lambda: seconds(lambda: objective.differentiate(rows, scores[: len(rows.labels)], threads=threads))

        for threads in (1, 8, 32, 64):
            yield Result(f"objective {name}, {threads} threads", "Python calls", counted(gradient(queries, threads)))
        with patch("lambdaplug.queries.CHUNK_WORK", (1, 1)):  # as many tasks as threads want
            fixed = race({threads: gradient(few, threads) for threads in (1, 8, 32, 64)}, 50, "next to no work")
        for threads, taken in fixed.items():
            yield Result(f"objective {name}, {threads} threads", "with the GIL, at most", 1e3 * taken, None, "ms")
        whole = race({1: gradient(queries, 1), 2: gradient(queries, 2)}, size["repeats"], "rounds")
        work = whole[1] * 20_000 / size["queries"] / 32
        yield Result(f"objective {name}, 20,000 queries", "efficiency of 32 cores, model", work / (work + fixed[32]))
        stop = threading.Event()
        thread = threading.Thread(target=compute, args=(stop,), daemon=True)
        thread.start()
        beside = race({2: gradient(queries, 2)}, size["repeats"], "beside a computing thread")
        stop.set()
        thread.join()
        yield ratio(f"objective {name}, two threads: beside a computing Python thread / idle", beside[2], whole[2], 3)


def compute(stop):
    """Python code that wants the GIL all the time."""
    while not stop.is_set():
        sum(range(100))


def counted(action):
    """How many calls of Python and C functions Python sees, in all threads."""
    found = itertools.count()

    def count(_frame, event, _argument):
        if event in ("call", "c_call"):
            next(found)

    action()
    action()
    threading.setprofile(count)
    sys.setprofile(count)
    try:
        action()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return next(found)


def dcg_of_30(gains):
    total = 0.0
    for r in range(min(30, len(gains))):
        total += gains[r] / np.log2(r + 2.0)
    return total


def discounts(gains):
    return 1.0 / np.log2(np.arange(len(gains)) + 2.0)


def training(size):
    """lambdaplug / built-in: a training's rounds on 136 features, the same pairs, one thread"""
    # As the boosters truncate: pairs with one of the first 30, discounts that go on below them, over the ideal DCG@30.
    # With other gradients a training takes longer or shorter by how easily their trees grow.
    measure = lp.custom("truncated", dcg_of_30, rows=discounts, gain="exp2", k=30, normalize=True)
    queries, rounds = size["training"]
    data = lp.data.cubic(queries, size["documents"], features=136, noise=0.3)
    results = []
    for host, peer in (("LightGBM", "lambdarank"), ("XGBoost", "rank:ndcg")):
        make = HOSTS[host](*data)
        for leaves in size["leaves"]:
            # Each repetition grows the same trees, so that every round has its own fastest time.
            best = np.full((2, rounds), np.inf)
            for _ in range(2):
                mine, theirs = make(lp.LambdaRank(measure), leaves=leaves), make(peer, leaves=leaves)
                for number in progress(range(rounds), f"training, {host}, {leaves} leaves"):
                    best[:, number] = np.minimum(best[:, number], [mine(), theirs()])
            results.append(ratio(f"NDCG, pairs of 30 / {host} {peer}, {leaves} leaves", *best.mean(axis=1), 1.0))
    return results


CURVES = []  # for the plot: panel, label, x, seconds


def growth(size):
    """slope on log-log axes: a query's time by its documents at a constant number of rows, and all time by rows"""
    by_documents = [(size["growth_rows"] // n, n) for n in size["growth_documents"]]
    by_rows = [(queries, 100) for queries in size["growth_queries"]]
    results = []
    for panel, shapes in enumerate((by_documents, by_rows)):
        runs = {
            (m, shape): calls(lp.LambdaRank(m), *one_feature(*shape)) for shape in shapes for m in ("ndcg@10", "ndcg")
        }
        best = race(runs, size["repeats"], "growth by rows" if panel else "growth by documents")
        for measure, name, goal in (("ndcg@10", "k = 10", 1.1), ("ndcg", "whole list", 1.1 if panel else 2.0)):
            x = np.array([queries * n if panel else n for queries, n in shapes])
            time = np.array([best[measure, shape] / (1 if panel else shape[0]) for shape in shapes])
            slope = np.polyfit(np.log(x), np.log(time), 1)[0]
            work = f"{name}, {'rows' if panel else 'documents per query'} from {x[0]:,} to {x[-1]:,}"
            measured = f"{1e3 * time[0]:.3g} to {1e3 * time[-1]:.3g} ms"
            results.append(Result(work, measured, slope, goal, "slope"))
            CURVES.append((panel, f"{name}, slope {slope:.2f}", x, time))
    return results


def peak_memory(host, measure, queries, documents):
    """The peak of this process's memory while it trains, in bytes; without a measure, with stored gradients."""
    lp.LambdaRank("ndcg").gradients(labels=[0, 1], scores=[0.0, 1.0], group=[2])  # the compiler takes memory too
    objective = lp.LambdaRank(measure) if measure else stored_gradients(queries * documents)
    run = HOSTS[host](*one_feature(queries, documents))(objective)
    Path("/proc/self/clear_refs").write_text("5")  # forgets the peak that building the data set had
    run(), run()
    return 1024 * int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0])


def memory(size):
    """peak above the booster's own: a training's, minus that of one with stored gradients"""
    if not Path("/proc/self/clear_refs").exists():
        print("memory: skipped, this system has no /proc/self/clear_refs")
        return []
    tasks = [(host, measure, *map(str, shape)) for host, *shape in size["memory"] for measure in ("ndcg", "")]
    with ThreadPoolExecutor(CORES) as pool:
        peaks = pool.map(lambda task: int(python(__file__, "--peak-memory", *task)), tasks)
        peaks = list(progress(peaks, "memory", len(tasks)))
    results = []
    for (host, queries, n), mine, booster in zip(size["memory"], peaks[::2], peaks[1::2], strict=True):
        work = f"{host}, {queries * n / 1e6:g} million rows, queries of {n:,}"
        measured = f"{mine / 1e6:.0f} - {booster / 1e6:.0f} MB"
        results.append(Result(work, measured, (mine - booster) / (queries * n), 48, "bytes/row"))
    return results


START = f"""
from time import {CLOCK.__name__} as clock
import numpy, numba{{}}
start = clock()
import lambdaplug
imported = clock()
lambdaplug.LambdaRank("ndcg").gradients(labels=[0, 1], scores=[0.0, 1.0], group=[2])
print(imported - start, clock() - imported)
"""


EMPTY = f"""
from time import {CLOCK.__name__} as clock
import numpy, numba
start = clock()
numba.njit(lambda array: array[0])(numpy.zeros(1))
print(clock() - start)
"""


def start(size):
    """import and first gradient in fresh processes, with an empty cache and with a filled one"""
    imported, cold, warm, beside, empty = [], [], [], [], []
    for _ in progress(range(size["starts"]), "start"):
        empty.append(float(python("-c", EMPTY)))
        with tempfile.TemporaryDirectory() as cache:
            for first, host in ((cold, ""), (warm, ""), (beside, ", lightgbm")):
                times = python("-c", START.format(host), NUMBA_CACHE_DIR=cache).split()
                imported += [] if host else [float(times[0])]
                first.append(float(times[1]))
    return [
        Result("import beyond numpy and numba", "", min(imported), 0.3, "s"),
        Result("first gradient, cold", "", min(cold), 3, "s"),
        Result("first gradient, warm", "", min(warm), 0.3, "s"),
        Result("first gradient, warm, where LightGBM is imported", "", min(beside), 0.3, "s"),
        Result("for comparison, any first function of Numba's", "", min(empty), None, "s"),
        Result("pickled objective", "", len(pickle.dumps(lp.LambdaRank("ndcg"))), None, "bytes"),
    ]


def measures(size):
    """every registered measure, and other objectives / whole-list NDCG, one thread"""
    X, labels, *others = one_feature(size["queries"], size["documents"])
    goals, runs = {}, {}
    for name, kind in registered().items():
        try:
            measure = kind()
        except TypeError:
            measure = kind(k=10)  # it needs a cut-off
        goals[str(measure)] = MEASURE_GOALS.get(name, 2)
        given = labels / 4 if name == "cndcg" else labels
        runs[str(measure)] = calls(lp.LambdaRank(measure), X, given, *others)
    tenth, columns = lp.Preferences("pairs"), {"pairs": pairs_of(labels, others[0])[::10]}
    named = {repr(objective): (objective, goal) for objective, goal in {**OBJECTIVE_GOALS, tenth: None}.items()}
    named["catboost_yetirank()"] = lp.presets.catboost_yetirank(), None
    for name, (objective, goal) in named.items():
        goals[name], runs[name] = goal, calls(objective, X, labels, *others, columns=columns)
    best = race(runs, 2 * size["repeats"], "measures")
    ndcg = best.pop("ndcg")
    return [ratio(f"{name} / ndcg", time, ndcg, goals[name]) for name, time in best.items()]


def goals(size):
    """measures with columns / NDCG, and Pareto of two / the two one after the other; one thread"""
    X, labels, *others = one_feature(size["queries"], size["documents"])
    rng, rows = np.random.default_rng(1), len(labels)
    price, brand, marks = rng.lognormal(size=rows), rng.integers(6, size=rows), rng.integers(4, size=rows)
    topics = rng.integers(4, size=(rows, 4)) * (rng.random((rows, 4)) < 0.3)
    own = {"price": price, "brand": brand, "marks": marks, "topics": topics}
    warnings.filterwarnings("ignore", "Pareto.*changes with the iteration", lp.LambdaplugWarning)  # as it should
    results = []
    for k, cut in ((None, "whole list"), (10, "k=10")):
        ndcg, second = lp.LambdaRank(lp.NDCG(k=k)), lp.LambdaRank(lp.NDCG(k=k), labels="marks")
        own["cut"] = np.full(size["queries"], k or size["documents"])
        columns = {
            "Revenue": (lp.Revenue(price="price", k=k), 3),
            "Revenue, cascade": (lp.Revenue(price="price", k=k, cascade=True), 3),
            "Exposure": (lp.Exposure(group="brand", k=k), 3),
            "AlphaNDCG, one intent per document": (lp.AlphaNDCG(intents="brand", k=k), 3),
            "ERRIA, one intent per document": (lp.ERRIA(intents="brand", k=k), 3),
            "AlphaNDCG, four columns of intents": (lp.AlphaNDCG(intents="topics", k=k), None),  # O(intents) per pair
            "NDCG, a cut-off per query": (lp.NDCG(k="cut"), None),
        }
        together = {
            "Pareto": lp.Pareto([ndcg, second]),
            "Pareto, normalize='std'": lp.Pareto([ndcg, second], normalize="std"),
            "Pareto, chebyshev": lp.Pareto([ndcg, second], "chebyshev"),
            "Pareto, sample": lp.Pareto([ndcg, second], "sample"),
        }
        runs = {"first": ndcg, "second": second, **together}
        runs |= {name: lp.LambdaRank(measure) for name, (measure, _) in columns.items()}
        best = race(
            {name: calls(one, X, labels, *others, columns=own) for name, one in runs.items()}, 2 * size["repeats"], cut
        )
        results += [
            ratio(f"{name} / NDCG, {cut}", best[name], best["first"], goal) for name, (_, goal) in columns.items()
        ]
        both = best["first"] + best["second"]
        results += [ratio(f"{name} / its two parts, NDCG, {cut}", best[name], both, 1.3) for name in together]
    return results


def tools(size):
    """files and evaluation / scikit-learn's and ir_measures, local optimality, all cores"""
    queries, documents = size["tools"]
    data = lp.data.cubic(queries, documents, features=50)
    results = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data.txt"
        lp.data.save_letor(path, data)
        best = race(
            {
                "mine": lambda: seconds(lambda: lp.data.load_letor(path)),
                "theirs": lambda: seconds(
                    lambda: load_svmlight_file(str(path), query_id=True, dtype=np.float32)[0].toarray()
                ),
            },
            3,
            "files",
        )
        results.append(ratio("load_letor / load_svmlight_file, dense", best["mine"], best["theirs"], 1.0))
        qid = np.repeat(np.arange(queries), data.group)
        best = race(
            {
                "mine": lambda: seconds(lambda: lp.data.save_letor(path, data)),
                "theirs": lambda: seconds(
                    lambda: dump_svmlight_file(data.X, data.labels, str(path), zero_based=False, query_id=qid)
                ),
            },
            3,
            "files",
        )
        results.append(ratio("save_letor / dump_svmlight_file", best["mine"], best["theirs"], 1.0))
    names = ["ndcg@10", "map", "mrr", "p@10", "recall@10"]
    if importlib.util.find_spec("ir_measures") is not None:
        import ir_measures

        theirs = [ir_measures.parse_measure(name) for name in ("nDCG@10", "AP", "RR", "P@10", "R@10")]
        # Its dictionaries are made beforehand: only the evaluation is timed.
        labels, scores = data.labels.astype(int), data.X[:, 0].astype(float)
        judged, ranked = {}, {}
        for query, rows in enumerate(np.split(np.arange(len(labels)), np.cumsum(data.group)[:-1])):
            judged[str(query)] = {str(row): int(labels[row]) for row in rows}
            ranked[str(query)] = {str(row): float(scores[row]) for row in rows}
        runs = {
            "mine": lambda: seconds(lambda: lp.evaluate(names, labels, scores, data.group, empty=0)),
            "theirs": lambda: seconds(lambda: ir_measures.calc_aggregate(theirs, judged, ranked)),
        }
        best = race(runs, 3, "evaluation")
        results.append(ratio("evaluate / ir_measures, five measures", best["mine"], best["theirs"]))
    rows = size["evaluated"]
    labels, scores = np.random.default_rng(0).integers(0, 5, rows), np.random.default_rng(1).normal(size=rows)
    ten = [*names, "dcg", "err@10", "rbp", "ndcg", "map@10"]
    taken = min(seconds(lambda: lp.evaluate(ten, labels, scores, np.full(rows // 100, 100))) for _ in range(2))
    results.append(
        Result(f"evaluate, {rows / 1e6:g} million rows, ten measures", "", taken, 5 if rows > 1e6 else None, "s")
    )
    queries, documents, trees, directions = size["examined"]
    data = lp.data.cubic(queries, documents, features=20, noise=0.3)
    parameters = {"objective": lp.LambdaRank("ndcg"), "min_sum_hessian_in_leaf": 1e-12, "verbose": -1}
    model = lgb.train(parameters, lgb.Dataset(data.X, data.labels, group=data.group), trees)
    taken = seconds(lambda: lp.analysis.local_optimality(model, *data, "ndcg", directions, progress=False))
    work = f"local_optimality, {len(data.labels):,} rows, {trees} trees, {directions} x 10 steps"
    return [*results, Result(work, "", taken, 60 if directions > 100 else None, "s")]


OPTIONAL = {"busy": busy}
SECTIONS = {
    section.__name__: section
    for section in (objective, rounds, training, growth, memory, start, measures, goals, tools)
}


# --- around them --------------------------------------------------------------------------------------------------


def python(*arguments, **environment):
    """The last line that another Python prints."""
    settings = {"env": {**os.environ, **environment}, "check": True, "text": True, "stdout": subprocess.PIPE}
    return subprocess.run([sys.executable, *arguments], **settings).stdout.splitlines()[-1]


def machine():
    model = platform.processor() or platform.machine()
    if Path("/proc/cpuinfo").exists():
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next((line.partition(": ")[2] for line in lines if line.startswith("model name")), model)
    packages = ["lambdaplug", "numpy", "numba", "lightgbm", "xgboost", *(["catboost"] if CATBOOST else [])]
    versions = ", ".join(f"{package} {importlib.metadata.version(package)}" for package in packages)
    busy = f", load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    return f"{model}, {CORES} cores{busy}; Python {platform.python_version()}, {versions}"


def plot(results, path):
    judged = {f"{name}: {r.work}": r for name, r in results[::-1] if r.verdict in ("met", "NOT MET")}
    tall = 1 + 0.22 * max(len(judged), 5)
    figure = plt.figure(figsize=(8, tall + 7))
    axes = [
        part.subplots() for part in figure.subfigures(3, 1, height_ratios=[tall, 3.5, 3.5])
    ]  # each as wide as it can
    shares = [max(result.value / float(result.goal), 0.01) for result in judged.values()]
    axes[0].barh(list(judged), shares, color=[plotting.GREEN if share <= 1 else plotting.ORANGE for share in shares])
    axes[0].axvline(1.0, color="black", linewidth=1)
    axes[0].set(xlabel="value / goal", ylabel="measured", xscale="log")
    axes[0].set_title("Goals: green is met, up to 1")
    axes[0].tick_params(axis="y", labelsize=7)
    axes[1].set(xlabel="documents in the query", ylabel="seconds")
    axes[1].set_title("One query's gradient, one thread")
    axes[2].set(xlabel="rows", ylabel="seconds")
    axes[2].set_title("One gradient, queries of 100 documents, one thread")
    for panel, label, x, time in CURVES:
        axes[1 + panel].loglog(x, time, "o-", label=label)
        axes[1 + panel].xaxis.set_minor_formatter("")
        plotting.legend(axes[1 + panel])
    figure.savefig(path)


def picture(lines, path):
    """The README's: milliseconds of one gradient, lambdaplug's beside the boosters' own; of lines (work, measured)."""
    bars = {}
    for work, measured in lines:
        if found := re.fullmatch(r"(.+) / (LightGBM|XGBoost|CatBoost) [^ ,]+", work):
            mine, theirs = map(float, re.findall(r"[\d.]+", measured))
            bars.setdefault(found[1], {}).setdefault("lambdaplug", mine)
            bars[found[1]][found[2]] = theirs
    colours = dict(zip(("lambdaplug", *HOSTS), plotting.COLOURS, strict=False))
    figure, axis = plt.subplots(figsize=(8, 4))
    place, ticks = 0.0, {}
    for work in ("whole-list NDCG", "NDCG@30 pairs", "whole-list MAP", "lp.objective('map')"):
        ticks[place + 0.5 * (len(bars[work]) - 1)] = work
        for who, time in bars[work].items():
            axis.barh(place, time, color=colours[who], height=0.85, label=who if work == "whole-list NDCG" else None)
            axis.text(time, place, f" {time:.3g} ms", va="center")
            place += 1.0
        place += 0.6
    axis.set_yticks(list(ticks), list(ticks.values()))
    axis.set(xlabel="milliseconds of one thread", ylabel="gradient of")
    axis.set_title("One gradient: 2,000 queries of 120 documents")
    axis.margins(x=0.15)
    axis.invert_yaxis()
    axis.grid(False)
    plotting.legend(axis)
    figure.savefig(path, metadata={"Date": None} if path.endswith(".svg") else None)  # the same figures, the same file


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--only", default=",".join(SECTIONS), help="sections, with commas; default: %(default)s")
    parser.add_argument("--quick", action="store_true", help="small sizes, few repeats: rough figures")
    parser.add_argument("--cpu-time", action="store_true", help="count the processor time of one thread, no clock")
    parser.add_argument("--busy", action="store_true", help="also measure threads on a busy machine")
    parser.add_argument("--markdown", action="store_true", help="at the end, all results as a Markdown table")
    parser.add_argument("--plot", default="benchmark.png", help="where the figure goes")
    parser.add_argument("--picture", help="where a small picture of the section 'objective' goes")
    parser.add_argument(
        "--table", help="draw the picture from a page with the table of --markdown, and measure nothing"
    )
    parser.add_argument("--peak-memory", nargs=4, help=argparse.SUPPRESS)  # a process of the section on memory
    options = parser.parse_args()
    if options.peak_memory:
        host, measure, queries, documents = options.peak_memory
        print(peak_memory(host, measure, int(queries), int(documents)))
        return
    if options.table:
        rows = [line.split(" | ") for line in Path(options.table).read_text().splitlines()]
        picture([(row[1], row[2]) for row in rows if row[0] == "| objective"], options.picture)
        return
    chosen = options.only.split(",")
    if unknown := set(chosen) - set(SECTIONS):
        parser.error(f"--only: no section {', '.join(sorted(unknown))}; there are {', '.join(SECTIONS)}")
    chosen += ["busy"] if options.busy else []
    size = QUICK if options.quick else FULL

    print(machine())
    print(f"Main size: {size['queries']:,} queries of {size['documents']} documents; one thread unless said", end="")
    print("; processor time." if options.cpu_time else ".")
    results, columns = [], ["work", "measured", "value", "goal", ""]
    for name in chosen:
        section = (SECTIONS | OPTIONAL)[name]
        found = section(size)
        results += [(name, result) for result in found]
        print(f"\n{name}: {section.__doc__}", flush=True)
        print(pd.DataFrame([result.line() for result in found], columns=columns).to_string(index=False), flush=True)
    if options.markdown:
        lines = [["section", *columns], ["---"] * 6, *([name, *result.line()] for name, result in results)]
        print("\n" + "\n".join(f"| {' | '.join(line)} |" for line in lines))
    verdicts = [result.verdict for _, result in results]
    print(f"\n{verdicts.count('met')} goals met, {verdicts.count('NOT MET')} not met", end="")
    print("; --quick is too small to judge them" if options.quick else "")
    plot(results, options.plot)
    if options.picture:
        picture([(one.work, one.measured) for name, one in results if name == "objective"], options.picture)


if __name__ == "__main__":
    main()
