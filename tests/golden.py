"""Golden gradients: every objective, with every measure, by hand and in both hosts, as they were when they were written.

    python tests/golden.py compare [--only TEXT]     # equal bit for bit? ends with 1 where not
    python tests/golden.py write                     # after a change that is meant to change them

``tests/test_golden.py`` compares some of them, within rounding, on every machine.
"""

import argparse
import hashlib
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import lightgbm as lgb
import numpy as np
import xgboost as xgb

import lambdaplug as lp

FILE = Path(__file__).with_name("golden.npz")
RNG = np.random.default_rng(20)
SIZES = np.array([7, 0, 1, 2, 12, 30, 3, 41, 9, 5, 24, 16])
LONG = np.array([120, 333, 64, 150])


def rows_of(sizes: np.ndarray, seed: int) -> dict[str, np.ndarray]:
    """Scores (some equal), labels and columns of queries of these sizes."""
    rng, n = np.random.default_rng(seed), int(sizes.sum())
    labels = rng.integers(0, 5, n).astype(float)
    starts = np.concatenate([[0], np.cumsum(sizes)])[:-1]
    pairs = [
        (a + i, a + j) for a, m in zip(starts, sizes, strict=True) for i in range(m) for j in (i + 1, i + 3) if j < m
    ]
    return {
        "scores": rng.normal(size=n).round(1) * 1.5,
        "labels": labels,
        "clicks": (rng.random(n) < 0.1 + 0.15 * labels).astype(float),
        "price": rng.uniform(1.0, 50.0, n),
        "intent": rng.integers(10, 13, n),
        "judged": rng.integers(0, 3, (n, 3)) * (rng.random((n, 3)) < 0.5),
        "seller": rng.integers(0, 3, n),
        "position": np.concatenate([rng.permutation(m) for m in sizes]).astype(np.int64),
        "duels": np.array(pairs),
        "weight": rng.uniform(0.5, 2.0, n),
        "query_weight": rng.uniform(0.5, 2.0, len(sizes)),
        "cut": rng.integers(1, 20, len(sizes)),
    }


SETS = {"short": (SIZES, rows_of(SIZES, 1)), "long": (LONG, rows_of(LONG, 2))}
MEASURES = [
    *[
        "ndcg",
        "ndcg@3",
        "ndcg@4(gain='linear')",
        "ndcg(gain=(0.0,1.0,3.0,0.0,2.0))",
        "ndcg(discount=(1.0,0.5,0.5,0.1))",
    ],
    *[
        "meanndcg@3",
        "dcg@5",
        "cndcg@3",
        "map",
        "map@3",
        "map(relevant=2)",
        "mrr",
        "mrr@3",
        "err",
        "err@4",
        "p@5",
        "recall@3",
    ],
    *["wta", "pairs", "rbp", "rbp@3(p=0.5)", "bpref", "hit@3", "spearman"],
]
Column = Callable[[str], object]
Make = Callable[[Column], object]


def custom_value(labels):
    total = 0.0
    for r in range(min(3, len(labels))):
        total += labels[r] / (r + 2)
    return total


def custom_delta(labels, i, j):
    above = 1 / (i + 2) if i < 3 else 0.0
    below = 1 / (j + 2) if j < 3 else 0.0
    return (above - below) * (labels[j] - labels[i])


def cases() -> dict[str, Make]:
    """Every case by its name; ``column`` gives what an objective of this version takes for a column."""
    made: dict[str, Make] = {}

    def add(name: str, make: Make) -> None:
        made[name] = make

    for m in MEASURES:
        add(f"lambdarank {m}", lambda _, m=m: lp.LambdaRank(m))
        add(f"lambdarank std {m}", lambda _, m=m: lp.LambdaRank(m, step="gradient"))
        add(f"lambdarank noise {m}", lambda _, m=m: lp.LambdaRank(m, noise=1.0, samples=2, normalize="log"))
        add(f"objective {m}", lambda _, m=m: lp.objective(m))
        add(f"spsa {m}", lambda _, m=m: lp.SPSA(m, evaluations=4, seed=1))
        add(f"fdsa {m}", lambda _, m=m: lp.FDSA(m))
    for c in ("spring_smooth", "local_cost", "local_gradient", "discrete_bounded"):
        for m in ("ndcg", "ndcg@3", "map", "map@3", "mrr", "err@4", "pairs"):
            add(f"{c} {m}", lambda _, c=c, m=m: lp.LambdaRank(m, construction=c))
    for m in ("ndcg", "dcg@5", "cndcg@3", "rbp"):
        add(f"loss2 {m}", lambda _, m=m: lp.LambdaRank(m, construction="loss2"))
    for kind in ("static", "random", "all"):
        for m in ("ndcg@3", "p@5", "map@3", "hit@3"):
            add(
                f"extended {kind} {m}",
                lambda _, k=kind, m=m: lp.LambdaRank(m, construction=lp.constructions.Extended(k)),
            )
    options = {
        "sigma": {"sigma": 2.0},
        "distance": {"cost": lp.RankNet(distance=0.01)},
        "sigmoid": {"cost": lp.Sigmoid(0.5)},
        "log": {"normalize": "log"},
        "ignore zero": {"ignore_zero": True},
        "normal": {"noise": 0.7, "noise_kind": "normal"},
        "neighbours": {"noise": 1.0, "neighbours": 1},
        "schedule": {"noise": lp.exponential(1.0, 0.9)},
    }
    for o, given in options.items():
        for m in ("ndcg", "ndcg@3", "map", "err", "mrr@3", "pairs"):
            add(f"{o} {m}", lambda _, given=given, m=m: lp.LambdaRank(m, **given))
    for m in ("ndcg", "ndcg@3", "dcg@5", "cndcg@3", "map", "map@3", "mrr", "p@5", "recall@3", "wta", "rbp", "mrr@3"):
        add(f"approx {m}", lambda _, m=m: lp.Approx(m))
        add(f"approx constant {m}", lambda _, m=m: lp.Approx(m, hessian="constant", alpha=lp.cosine(5, 50, 40)))
    for m in ("ndcg", "ndcg@3", "dcg@5", "cndcg@3", "rbp", "p@5", "recall@3", "wta"):
        add(f"plrank {m}", lambda _, m=m: lp.PLRank(m, samples=8))
        add(f"stochastic {m}", lambda _, m=m: lp.StochasticRank(m, samples=2, mu=0.1))
    for m in ("err", "err@4", "mrr", "mrr@3", "map", "map@3"):
        add(f"stochastic {m}", lambda _, m=m: lp.StochasticRank(m))
    add("queryrmse", lambda _: lp.QueryRMSE())
    add("softmax", lambda _: lp.QuerySoftmax())
    add("softmax share", lambda _: lp.QuerySoftmax("share"))
    add("listmle", lambda _: lp.ListMLE())
    add("listmle 5", lambda _: lp.ListMLE(5))
    add("calibrated", lambda _: lp.Calibrated(0.5, max_label=4.0))
    add("mixture", lambda _: lp.Mixture([(0.7, lp.objective("ndcg@3")), (0.3, lp.QuerySoftmax())]))
    add(
        "mixture std", lambda _: lp.Mixture([(1.0, lp.LambdaRank("map")), (0.5, lp.LambdaRank("err"))], step="gradient")
    )
    add("interpolate", lambda _: lp.interpolate(lp.LambdaRank("ndcg"), lp.LambdaRank("map"), lp.linear(0.1, 0.1)))
    add("graded", lambda c: lp.Graded([lp.LambdaRank("ndcg"), lp.LambdaRank("cndcg", labels=c("clicks"))], [0.7, 0.3]))
    tiers = ("ndcg@3", "mrr", "err")
    add("graded 3", lambda _: lp.Graded([lp.LambdaRank(m) for m in tiers], [0.5, 0.3, 0.2], step="gradient"))
    for method in ("mgda", "sample", "chebyshev"):
        given = {"preference": [0.4, 0.6], **({"seed": 3} if method == "sample" else {})}
        if method == "mgda":
            given = {}
        add(
            f"pareto {method}",
            lambda _, method=method, given=given: lp.Pareto(
                [lp.LambdaRank("ndcg"), lp.LambdaRank("map")], method, **given
            ),
        )
    add("pareto epsilon", lambda _: lp.Pareto([lp.LambdaRank("ndcg"), lp.LambdaRank("map")], "epsilon", bounds=[0.9]))
    add("labels", lambda c: lp.LambdaRank("map", labels=c("clicks")))
    add("objective labels", lambda c: lp.objective("map", labels=c("clicks")))
    add("softmax labels", lambda c: lp.QuerySoftmax(labels=c("clicks")))
    add("approx labels", lambda c: lp.Approx("ndcg", labels=c("clicks")))
    for k in (None, 3):
        add(f"revenue {k}", lambda c, k=k: lp.LambdaRank(lp.Revenue(price=c("price"), k=k)))
        add(f"revenue cascade {k}", lambda c, k=k: lp.LambdaRank(lp.Revenue(price=c("price"), k=k, cascade=True)))
        add(f"alphandcg {k}", lambda c, k=k: lp.LambdaRank(lp.AlphaNDCG(intents=c("intent"), k=k)))
        add(f"alphandcg table {k}", lambda c, k=k: lp.LambdaRank(lp.AlphaNDCG(intents=c("judged"), k=k, alpha=0.3)))
        add(f"erria {k}", lambda c, k=k: lp.LambdaRank(lp.ERRIA(intents=c("intent"), k=k), noise=1.0))
        add(f"exposure {k}", lambda c, k=k: lp.LambdaRank(lp.Exposure(group=c("seller"), k=k)))
    add("exposure merit", lambda c: lp.LambdaRank(lp.Exposure(group=c("seller"), k=3, target="merit")))
    add("objective revenue", lambda c: lp.objective(lp.Revenue(price=c("price"), k=3)))
    add("cut ndcg", lambda c: lp.LambdaRank(lp.NDCG(k=c("cut"))))
    add("cut map", lambda c: lp.LambdaRank(lp.MAP(k=c("cut"))))
    add("preferences", lambda c: lp.Preferences(c("duels")))
    add("preferences ndcg", lambda c: lp.Preferences(c("duels"), measure="ndcg"))
    add(
        "unbiased ipw",
        lambda c: lp.Unbiased(lp.LambdaRank("map"), c("position"), propensities=1 / np.arange(1.0, 400.0)),
    )
    add("unbiased", lambda c: lp.Unbiased(lp.LambdaRank("ndcg"), c("position")))
    add("unbiased pairwise", lambda c: lp.Unbiased(lp.LambdaRank("ndcg"), c("position"), "pairwise"))
    add("preset lightgbm", lambda _: lp.presets.lightgbm())
    add("preset lightgbm unnormed", lambda _: lp.presets.lightgbm(truncation_level=5, norm=False, sigmoid=2.0))
    add("preset xendcg", lambda _: lp.presets.lightgbm_xendcg())
    for o in ("ndcg", "map", "pairwise"):
        add(f"preset xgboost {o}", lambda _, o=o: lp.presets.xgboost(o))
        add(
            f"preset xgboost {o} 3",
            lambda _, o=o: lp.presets.xgboost(o, num_pair_per_sample=3, score_normalization=False),
        )
    add("preset yetirank", lambda _: lp.presets.catboost_yetirank())
    add("custom value", lambda _: lp.LambdaRank(lp.custom("mine", custom_value)))
    add("custom delta", lambda _: lp.LambdaRank(lp.custom("mine", custom_value, delta=custom_delta, k=3)))
    return made


IN_HOSTS = [
    *[
        "lambdarank ndcg@3",
        "lambdarank std map",
        "lambdarank noise err",
        "objective ndcg",
        "objective map",
        "objective mrr",
    ],
    *[
        "schedule ndcg",
        "spsa map",
        "approx constant ndcg",
        "plrank ndcg",
        "stochastic map",
        "softmax",
        "mixture",
        "interpolate",
    ],
    *[
        "graded",
        "pareto mgda",
        "pareto chebyshev",
        "pareto epsilon",
        "labels",
        "revenue 3",
        "alphandcg 3",
        "preferences",
    ],
    *["unbiased ipw", "unbiased", "unbiased pairwise", "custom delta"],
]


NAMED = True  # whether this version's objectives name columns


def by_hand(make: Make) -> Iterator[tuple[str, np.ndarray]]:
    """Gradients and hessians of both sets, at two iterations, with weights of queries and of documents."""
    for where, (sizes, rows) in SETS.items():
        objective = make((lambda name: name) if NAMED else rows.__getitem__)
        given = {"columns": {k: v for k, v in rows.items() if k not in ("scores", "labels")}} if NAMED else {}
        for how, weight, iteration in (
            ("", None, 0),
            ("later", None, 7),
            ("query weights", rows["query_weight"], 0),
            ("document weights", rows["weight"], 0),
        ):
            try:
                found = objective.gradients(rows["labels"], rows["scores"], sizes, weight, iteration, **given)
            except lp.LambdaplugError as error:
                found = (np.array([f"refused: {type(error).__name__}"]),)
            step = 1 if where == "short" else 11
            for name, array in zip(("gradient", "hessian"), found, strict=False):
                yield f"{where} {how} {name}", array[::step]


def in_hosts(make: Make) -> Iterator[tuple[str, np.ndarray]]:
    """Predictions after five rounds in each host, with weights."""
    sizes = SIZES[SIZES > 0]
    rows = rows_of(sizes, 3)
    columns = {k: v for k, v in rows.items() if k not in ("scores", "labels", "weight", "query_weight", "cut")}
    objective = make((lambda name: name) if NAMED else rows.__getitem__)
    x = np.random.default_rng(4).normal(size=(sizes.sum(), 5)) + rows["labels"][:, None] * 0.3
    attach = lp.attach if NAMED else lambda data, **_: data
    common = {"verbose": -1, "num_threads": 1, "num_leaves": 6, "min_data_in_leaf": 3, "min_sum_hessian_in_leaf": 0.0}
    data = attach(lgb.Dataset(x, rows["labels"], group=sizes), **columns)
    yield "lightgbm", lgb.train({**common, "objective": objective}, data, 5).predict(x, raw_score=True)
    weight = np.repeat(rows["query_weight"], sizes)
    data = attach(lgb.Dataset(x, rows["labels"], group=sizes, weight=weight), **columns)
    yield "lightgbm weighted", lgb.train({**common, "objective": objective}, data, 5).predict(x, raw_score=True)
    matrix = attach(xgb.DMatrix(x, rows["labels"], qid=np.repeat(np.arange(len(sizes)), sizes)), **columns)
    grown = {"nthread": 1, "max_depth": 3, "min_child_weight": 0.0, "base_score": 0.0}
    yield "xgboost", xgb.train(grown, matrix, 5, obj=objective).predict(matrix, output_margin=True)
    matrix.set_weight(rows["query_weight"])
    yield "xgboost weighted", xgb.train(grown, matrix, 5, obj=objective).predict(matrix, output_margin=True)


def computed(only: str = "") -> Iterator[tuple[str, np.ndarray]]:
    for name, make in cases().items():
        if only in name:
            for what, array in by_hand(make):
                yield f"{name} | {what}", array
            if name in IN_HOSTS:
                for what, array in in_hosts(make):
                    yield f"{name} | {what}", array


def digest(array: np.ndarray) -> int:
    return int.from_bytes(hashlib.blake2b(array.tobytes(), digest_size=8).digest(), "little")


def sample(array: np.ndarray) -> np.ndarray:
    """What is kept of an array beside its digest, to say how far another one is: its largest value and 15 of its values."""
    if array.dtype.kind == "U":
        return np.zeros(16)
    kept = np.zeros(16)
    kept[0] = np.abs(array).max(initial=0.0)
    some = array[:: max(1, -(-len(array) // 15))]
    kept[1 : 1 + len(some)] = some
    return kept


def golden() -> dict[str, tuple[int, np.ndarray]]:
    with np.load(FILE) as kept:
        return dict(
            zip(kept["names"].tolist(), zip(kept["digests"].tolist(), kept["samples"], strict=True), strict=True)
        )


def difference(array: np.ndarray, expected: tuple[int, np.ndarray]) -> float:
    """0 for equal bits; else the largest difference of the kept values, relative to the largest value of all."""
    if digest(array) == expected[0]:
        return 0.0
    if array.dtype.kind == "U":
        return np.inf
    return max(float(np.abs(sample(array) - expected[1]).max() / max(expected[1][0], 1e-30)), 1e-300)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["compare", "write"])
    parser.add_argument("--only", default="", help="only cases whose name contains this text")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    if chosen.command == "write":
        found = dict(computed())
        arrays = list(found.values())
        digests = np.array([digest(array) for array in arrays], np.uint64)
        samples = np.array([sample(array) for array in arrays])
        np.savez_compressed(FILE, names=np.array(list(found)), digests=digests, samples=samples.astype(np.float32))
        print(f"{len(found)} arrays written to {FILE}")
        return 0
    kept, differing, equal = golden(), 0, 0
    for name, array in computed(chosen.only):
        far = difference(array, kept[name]) if name in kept else np.inf
        differing, equal = differing + (far > 0.0), equal + (far == 0.0)
        if far:
            print(f"{far:8.1e}  {name}" if name in kept else f"     new  {name}", flush=True)
    print(f"{equal} arrays equal bit for bit, {differing} differ")
    return int(differing > 0)


if __name__ == "__main__":
    sys.exit(main())
