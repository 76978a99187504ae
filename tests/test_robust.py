"""Whatever comes in: a model with finite predictions, or a clear word. Wherever it runs: no hang, no abort."""

import math
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lambdaplug as lp

ROOT = Path(__file__).parent.parent

# --- anything at all ---------------------------------------------------------------------------------------------

# Of each family of objectives in each host: always the same ones, unless LAMBDAPLUG_FUZZ asks for so many new ones.
FUZZ = int(os.environ.get("LAMBDAPLUG_FUZZ", "0"))
EXAMPLES = FUZZ or 120

LABELS = {
    "levels": lambda rng, rows: rng.integers(0, 5, rows),
    "binary": lambda rng, rows: rng.integers(0, 2, rows),
    "fractions": lambda rng, rows: rng.random(rows),
    "beyond": lambda rng, rows: rng.choice([0, 1, 30, 31], rows),
    "equal": lambda rng, rows: np.full(rows, rng.integers(0, 3)),
}
SCORES = {
    "none": lambda *_: None,
    "usual": lambda rng, rows: rng.normal(size=rows),
    "ties": lambda rng, rows: rng.integers(-1, 2, rows),
    "wide": lambda rng, rows: 300 * rng.normal(size=rows),
}
ODD = st.sampled_from([*[None] * 12, 0.0, -1.0, math.nan, math.inf, -math.inf, 1e30, 1e300, 1e-300])  # None: nothing is


def spoiled(rng, values, odd):
    """The values, with the odd one somewhere among them, or now and then in place of all."""
    if odd is None or values is None:
        return values
    values = values.astype(float)
    values[slice(None) if rng.random() < 0.2 else rng.integers(len(values))] = odd
    return values


@dataclass(frozen=True)
class Case:
    """Rows in queries and all that can be said of them: what to draw, and the seed to draw it with."""

    group: list
    labels: str
    odd_label: float | None
    weights: str | None
    odd_weight: float | None
    scores: str
    odd_score: float | None
    rounds: int
    seed: int

    def arrays(self):
        rng, rows = np.random.default_rng(self.seed), sum(self.group)
        X = rng.normal(size=(rows, 2)).round(1)
        y = spoiled(rng, LABELS[self.labels](rng, rows), self.odd_label)
        size = {None: 0, "query": len(self.group), "document": rows}[self.weights]
        weight = spoiled(rng, rng.uniform(0.1, 3, size), self.odd_weight) if self.weights else None
        return X, y, np.array(self.group), weight, spoiled(rng, SCORES[self.scores](rng, rows), self.odd_score)


def cases(*weights):
    return st.builds(
        Case,
        group=st.lists(st.sampled_from([0, 1, 2, 3, 5, 9]), min_size=1, max_size=6).filter(any),
        labels=st.sampled_from(sorted(LABELS)),
        odd_label=ODD,
        weights=st.sampled_from([None, *weights]),
        odd_weight=ODD,
        scores=st.sampled_from(sorted(SCORES)),
        odd_score=ODD,
        rounds=st.integers(1, 3),
        seed=st.integers(0, 2**16),
    )


def lambdarank(_):
    names = ("ndcg", "ndcg@2", "map", "mrr", "err@2", "p@3", "wta", "pairs", "rbp", "bpref", "cndcg@3")
    costs = {"sigma": 50.0}, {"step": "gradient"}, {"normalize": "std"}, {"normalize": "log"}, {"noise": 1.0}
    kinds = ("spring_smooth", "local_gradient", "local_cost", "discrete_bounded")
    return [
        *map(lp.LambdaRank, names),
        *(lp.LambdaRank("ndcg", **options) for options in costs),
        *(lp.LambdaRank("map@5", construction=kind) for kind in kinds),
        lp.LambdaRank("map", cost=lp.RankNet(distance=0.01)),
        lp.LambdaRank("ndcg", cost=lp.Sigmoid(0.5)),
    ]


def mixed(_):
    ndcg, by_clicks = lp.LambdaRank("ndcg"), lp.LambdaRank("map", labels="clicks", ignore_zero=True)
    return [
        lp.Graded([ndcg, by_clicks], weights=[0.8, 0.2]),
        lp.Graded([ndcg, lp.LambdaRank("map", labels="holed")]),
        lp.Mixture([(lp.exponential(0.1, 100.0), ndcg), (1e30, by_clicks)], normalize="std"),
        lp.interpolate(ndcg, lp.SPSA("map"), lp.cosine(1.0, 0.0, 2), step="gradient"),
        lp.objective("map"),
    ]


def others(_):
    return [
        lp.Approx("ndcg"),
        lp.Approx("map@3", alpha=lp.cosine(1.0, 1e6, 4), beta=1.0),
        lp.SPSA("map", c=1e-3),
        lp.FDSA("err@5", c=1e3, normalize="none"),
        lp.PLRank("p@2", samples=3, hessian="constant"),
        lp.StochasticRank("err@3", sigma=1e-3, mu=1.0),
        lp.QueryRMSE(),
        lp.QuerySoftmax("share"),
        lp.ListMLE(k=2),
        lp.Calibrated(0.9, max_label=30),
    ]


def presets(_):
    return [
        lp.presets.lightgbm(2, norm=False, sigmoid=2.0),
        lp.presets.lightgbm_xendcg(),
        lp.presets.xgboost("map"),
        lp.presets.xgboost("pairwise", num_pair_per_sample=2),
        lp.presets.xgboost("ndcg", exp_gain=False),
    ]


FAMILIES = [lambdarank, mixed, others, presets]

LIGHTGBM = {
    "learning_rate": [1.0, 1e3],
    "num_leaves": [2],
    "min_data_in_leaf": [5],
    "min_sum_hessian_in_leaf": [1e-12, 1e3],  # of 0 it dies on such data, with its own lambdarank too
    "lambda_l2": [1.0],
    "boosting": ["dart"],
    "data_sample_strategy": ["goss"],
    "bagging_fraction": [0.5],
    "bagging_freq": [1],
    "bagging_by_query": [True],
    "extra_trees": [True],
    "linear_tree": [True],
    "max_delta_step": [1.0],
    "use_quantized_grad": [True],
    "path_smooth": [1.0],
    "num_threads": [2],
}
if tuple(map(int, lgb.__version__.split(".")[:2])) < (4, 2):
    del LIGHTGBM["use_quantized_grad"]  # which dies of small data there, with its own lambdarank too
XGBOOST = {
    "learning_rate": [1.0, 1e3],
    "max_depth": [1],
    "min_child_weight": [0.0, 1e3],
    "lambda": [0.0],
    "alpha": [1.0],
    "booster": ["dart"],  # gblinear makes NaN of weighted queries now and then, with its own rank:pairwise too
    "tree_method": ["exact", "approx"],
    "subsample": [0.5],
    "num_parallel_tree": [2],
    "max_delta_step": [1.0],
    "objective": ["rank:ndcg", "rank:map"],
    "grow_policy": ["lossguide"],
    "base_score": [0.0],
    "nthread": [2],
}


def columns(rows):
    clicks = np.arange(rows) % 3 / 2
    return {"clicks": clicks, "holed": np.where(clicks == 1, np.nan, 2 * clicks)}


def choices(parameters):
    """Up to three parameters changed."""
    changes = [(name, value) for name, values in parameters.items() for value in values]
    return st.lists(st.sampled_from(changes), max_size=3).map(dict)


def train_lightgbm(objective, case, parameters):
    X, y, group, weight, scores = case.arrays()
    if case.weights == "query":
        weight = np.repeat(weight, group)
    data = lp.attach(lgb.Dataset(X, y, group=group, weight=weight, init_score=scores), **columns(len(y)))
    usual = {"metric": "None", "verbosity": -1, "min_data_in_bin": 1, "min_data_in_leaf": 1, "num_threads": 1}
    given = {**usual, "feature_pre_filter": False, **parameters, "objective": objective}
    return lgb.train(given, data, case.rounds, callbacks=[lp.callback(objective)]).predict(X)


def train_xgboost(objective, case, parameters):
    X, y, group, weight, scores = case.arrays()
    data = lp.attach(xgb.DMatrix(X, y, group=group, weight=weight, base_margin=scores), **columns(len(y)))
    given = {"disable_default_eval_metric": 1, "verbosity": 0, "nthread": 1, **parameters}
    booster = xgb.train(given, data, case.rounds, obj=objective, callbacks=[lp.callback(objective)])
    return booster.predict(xgb.DMatrix(X), output_margin=True)


HOSTS = {
    "LightGBM": (train_lightgbm, choices(LIGHTGBM), cases("query", "document")),
    "XGBoost": (train_xgboost, choices(XGBOOST), cases("query")),
}

# What the hosts refuse themselves, before or after they ask for gradients.
THEIRS = {
    "LightGBM": (
        lgb.basic.LightGBMError,
        # no feature has two values, as in data of one row; a bag of half a row
        r"\(train_data->num_features\(\)\) > \(0\)|\(num_data\) > \(0\)",
    ),
    "XGBoost": (
        xgb.core.XGBoostError,
        r"Label contains NaN, infinity or a value too large|Weights must be positive values",
    ),
}


@pytest.mark.filterwarnings(
    "ignore::lambdaplug.errors.LambdaplugWarning",
    "ignore:overflow encountered in cast:RuntimeWarning",  # LightGBM's, of 1e300 to float32
)
@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
@pytest.mark.parametrize("host", HOSTS)
@settings(
    max_examples=EXAMPLES,
    derandomize=not FUZZ,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(data=st.data())
def test_finite_predictions_or_a_clear_error(host, family, data):
    train, changes, case = HOSTS[host]
    case, parameters = data.draw(case), data.draw(changes)
    objectives = family(sum(case.group))
    objective = objectives[data.draw(st.integers(0, len(objectives) - 1))]
    error, message = THEIRS[host]
    try:
        predictions = train(objective, case, parameters)
    except lp.LambdaplugError:
        return
    except error as refusal:
        if re.search(message, str(refusal)):
            return
        raise
    assert np.isfinite(predictions).all(), (objective, predictions)


def test_weights_that_would_make_infinite_leaves_are_refused():
    # The gradient is a float32, but divided by the least hessian it would be none.
    objective, arrays = lp.LambdaRank("ndcg"), ([0, 1], [500.0, -500.0], [2])
    assert np.abs(objective.gradients(*arrays, [1e17])[0]).max() > 1e16
    with pytest.raises(lp.LambdaplugError, match="too large for float32"):
        objective.gradients(*arrays, [1e30])


# --- processes and threads ---------------------------------------------------------------------------------------

TRAIN = """
import lambdaplug as lp


def grow(host, data, objective, rounds):
    "What a host grows, its inner sums included."
    callbacks = [lp.callback(objective)]
    if host == "LightGBM":
        import lightgbm as lgb

        rows = lgb.Dataset(data.X, data.labels, group=data.group)
        quiet = {"num_threads": 1, "verbosity": -1, "metric": "None", "num_leaves": 5, "objective": objective}
        return lgb.train(quiet, rows, rounds, callbacks=callbacks).model_to_string()
    import xgboost as xgb

    rows = xgb.DMatrix(data.X, data.labels, qid=data.qid)
    quiet = {"nthread": 1, "min_child_weight": 0, "max_depth": 2, "disable_default_eval_metric": 1}
    return xgb.train(quiet, rows, rounds, obj=objective, callbacks=callbacks).get_dump(with_stats=True)


def moving(start=0.0):
    return lp.interpolate(lp.LambdaRank("ndcg"), lp.LambdaRank("map"), lp.linear(start, 0.1))

"""

PROGRAM = """
import multiprocessing
import sys
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import lightgbm
import xgboost
from joblib.externals import loky

from lambdaplug import queries

queries.CHUNK_WORK = 1 << 9, 1 << 10  # so that there is work for several threads
lp.set_num_threads(3)
data = lp.data.cubic(queries=60, documents=10, features=4)


def trees(seed):
    return [grow(host, data, moving(0.1 * seed), 4) for host in ("LightGBM", "XGBoost")]


def pool(way):
    if way == "threads":
        return ThreadPoolExecutor(4)
    return loky.ProcessPoolExecutor(2) if way == "loky" else ProcessPoolExecutor(2, multiprocessing.get_context(way))


if __name__ == "__main__":
    if "fork" in sys.argv:  # XGBoost that was used before a fork hangs after it, with its own objectives too
        grow("LightGBM", data, moving(), 4)
    for way in sys.argv[1:]:
        with pool(way) as workers:
            found = list(workers.map(trees, range(4)))
        print(way, found == [trees(seed) for seed in range(4)], flush=True)
"""


def run(*arguments, **options):
    """The lines that a Python process of its own prints; one that hangs is killed and fails."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **options}
    command = [sys.executable, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240, env=environment)
    assert done.returncode == 0, done.stderr
    return [line for line in done.stdout.splitlines() if line and not line.startswith("[LightGBM]")]


# Threads first, as nothing is compiled or loaded then; a fork must come before XGBoost is used, so that it is alone.
@pytest.mark.parametrize("ways", [["fork"], ["threads", "spawn", "forkserver", "loky"]], ids="-".join)
def test_processes_and_threads_grow_the_same_trees(ways, tmp_path):
    ways = [way for way in ways if "fork" not in way or hasattr(os, "fork")]  # not every platform can
    (tmp_path / "program.py").write_text(TRAIN + PROGRAM)
    said = run(tmp_path / "program.py", *ways)
    # LightGBM 4.0 may chat between: its verbosity is one for all threads.
    assert [line for line in said if line.split()[0] in ways] == [f"{way} True" for way in ways]


# --- Ctrl-C ------------------------------------------------------------------------------------------------------

INTERRUPTED = """
import os, signal, sys, threading

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background work is born deaf to it
lp.set_num_threads(2)
data = lp.data.cubic(queries=200, documents=200, features=4)

def train(rounds=3):
    return grow(sys.argv[1], data, moving(), rounds)

def interrupt(over):
    while not over.wait(0.3):
        os.kill(os.getpid(), signal.SIGINT)

expected = train()
for _ in range(3):
    over = threading.Event()
    thread = threading.Thread(target=interrupt, args=[over])
    thread.start()
    try:
        train(1000)
    except KeyboardInterrupt:
        over.set()
        thread.join()
        print(train() == expected)
"""


@pytest.mark.skipif(os.name != "posix", reason="sends SIGINT")
@pytest.mark.parametrize("host", ["LightGBM", "XGBoost"])
def test_ctrl_c_in_a_round_leaves_the_process_usable(host):
    assert run("-c", TRAIN + INTERRUPTED, host) == ["True"] * 3


def test_numba_switched_off_is_said_at_the_first_kernel():
    program = """
import pytest
import lambdaplug as lp

for call in (
    lambda: lp.evaluate("ndcg", [1, 0], [0.0, 1.0], [2]),
    lambda: lp.LambdaRank("map").gradients([0, 1], [0.0, 0.0], [2]),
    lambda: lp.custom("top", lambda labels: labels[0]),
):
    with pytest.raises(lp.LambdaplugError, match="Unset NUMBA_DISABLE_JIT"):
        call()
"""
    run("-c", program, NUMBA_DISABLE_JIT="1")
