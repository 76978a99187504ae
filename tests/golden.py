"""Golden gradients: every objective, with every measure, by hand and in both hosts, as they were when they were written.

    python tests/golden.py compare [--only TEXT]     # equal bit for bit? ends with 1 where not
    python tests/golden.py write                     # after a change that is meant to change them

``tests/test_golden.py`` compares some of them, within rounding, on every machine.
"""

import argparse
import hashlib
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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
MEASURES = (
    *(
        "ndcg",
        "ndcg@3",
        "ndcg@4(gain='linear')",
        "ndcg(gain=(0.0,1.0,3.0,0.0,2.0))",
        "ndcg(discount=(1.0,0.5,0.5,0.1))",
    ),
    *("meanndcg@3", "dcg@5", "cndcg@3", "map", "map@3", "map(relevant=2)", "mrr", "mrr@3", "err", "err@4", "p@5"),
    *("recall@3", "wta", "pairs", "rbp", "rbp@3(p=0.5)", "bpref", "hit@3", "spearman"),
)


def custom_value(labels):
    total = 0.0
    for r in range(min(3, len(labels))):
        total += labels[r] / (r + 2)
    return total


def custom_delta(labels, i, j):
    above = 1 / (i + 2) if i < 3 else 0.0
    below = 1 / (j + 2) if j < 3 else 0.0
    return (above - below) * (labels[j] - labels[i])


def cases() -> dict[str, Any]:
    """Every objective by a name of its own."""
    made: dict[str, Any] = {}
    for m in MEASURES:
        made[f"lambdarank {m}"] = lp.LambdaRank(m)
        made[f"lambdarank std {m}"] = lp.LambdaRank(m, step="gradient")
        made[f"lambdarank noise {m}"] = lp.LambdaRank(m, noise=1.0, samples=2, normalize="log")
        made[f"objective {m}"] = lp.objective(m)
        made[f"spsa {m}"] = lp.SPSA(m, evaluations=4, seed=1)
        made[f"fdsa {m}"] = lp.FDSA(m)
    for c in ("spring_smooth", "local_cost", "local_gradient", "discrete_bounded"):
        for m in ("ndcg", "ndcg@3", "map", "map@3", "mrr", "err@4", "pairs"):
            made[f"{c} {m}"] = lp.LambdaRank(m, construction=c)
    for m in ("ndcg", "dcg@5", "cndcg@3", "rbp"):
        made[f"loss2 {m}"] = lp.LambdaRank(m, construction="loss2")
    for kind in ("static", "random", "all"):
        for m in ("ndcg@3", "p@5", "map@3", "hit@3"):
            made[f"extended {kind} {m}"] = lp.LambdaRank(m, construction=lp.constructions.Extended(kind))
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
            made[f"{o} {m}"] = lp.LambdaRank(m, **given)
    for m in ("ndcg", "ndcg@3", "dcg@5", "cndcg@3", "map", "map@3", "mrr", "p@5", "recall@3", "wta", "rbp", "mrr@3"):
        made[f"approx {m}"] = lp.Approx(m)
        made[f"approx constant {m}"] = lp.Approx(m, hessian="constant", alpha=lp.cosine(5, 50, 40))
    for m in ("ndcg", "ndcg@3", "dcg@5", "cndcg@3", "rbp", "p@5", "recall@3", "wta"):
        made[f"plrank {m}"] = lp.PLRank(m, samples=8)
        made[f"stochastic {m}"] = lp.StochasticRank(m, samples=2, mu=0.1)
    for m in ("err", "err@4", "mrr", "mrr@3", "map", "map@3"):
        made[f"stochastic {m}"] = lp.StochasticRank(m)
    for k in (None, 3):
        made[f"revenue {k}"] = lp.LambdaRank(lp.Revenue(price="price", k=k))
        made[f"revenue cascade {k}"] = lp.LambdaRank(lp.Revenue(price="price", k=k, cascade=True))
        made[f"alphandcg {k}"] = lp.LambdaRank(lp.AlphaNDCG(intents="intent", k=k))
        made[f"alphandcg table {k}"] = lp.LambdaRank(lp.AlphaNDCG(intents="judged", k=k, alpha=0.3))
        made[f"erria {k}"] = lp.LambdaRank(lp.ERRIA(intents="intent", k=k), noise=1.0)
        made[f"exposure {k}"] = lp.LambdaRank(lp.Exposure(group="seller", k=k))
    for o in ("ndcg", "map", "pairwise"):
        made[f"preset xgboost {o}"] = lp.presets.xgboost(o)
        made[f"preset xgboost {o} 3"] = lp.presets.xgboost(o, num_pair_per_sample=3, score_normalization=False)
    two = lp.LambdaRank("ndcg"), lp.LambdaRank("map")
    tiers = [lp.LambdaRank(m) for m in ("ndcg@3", "mrr", "err")]
    by_position = lp.Unbiased(lp.LambdaRank("map"), "position", propensities=1 / np.arange(1.0, 400.0))
    return made | {
        "queryrmse": lp.QueryRMSE(),
        "softmax": lp.QuerySoftmax(),
        "softmax share": lp.QuerySoftmax("share"),
        "listmle": lp.ListMLE(),
        "listmle 5": lp.ListMLE(5),
        "calibrated": lp.Calibrated(0.5, max_label=4.0),
        "mixture": lp.Mixture([(0.7, lp.objective("ndcg@3")), (0.3, lp.QuerySoftmax())]),
        "mixture std": lp.Mixture([(1.0, lp.LambdaRank("map")), (0.5, lp.LambdaRank("err"))], step="gradient"),
        "interpolate": lp.interpolate(*two, lp.linear(0.1, 0.1)),
        "graded": lp.Graded([lp.LambdaRank("ndcg"), lp.LambdaRank("cndcg", labels="clicks")], [0.7, 0.3]),
        "graded 3": lp.Graded(tiers, [0.5, 0.3, 0.2], step="gradient"),
        "pareto mgda": lp.Pareto(two, "mgda"),
        "pareto sample": lp.Pareto(two, "sample", preference=[0.4, 0.6], seed=3),
        "pareto chebyshev": lp.Pareto(two, "chebyshev", preference=[0.4, 0.6]),
        "pareto epsilon": lp.Pareto(two, "epsilon", bounds=[0.9]),
        "labels": lp.LambdaRank("map", labels="clicks"),
        "objective labels": lp.objective("map", labels="clicks"),
        "softmax labels": lp.QuerySoftmax(labels="clicks"),
        "approx labels": lp.Approx("ndcg", labels="clicks"),
        "exposure merit": lp.LambdaRank(lp.Exposure(group="seller", k=3, target="merit")),
        "objective revenue": lp.objective(lp.Revenue(price="price", k=3)),
        "cut ndcg": lp.LambdaRank(lp.NDCG(k="cut")),
        "cut map": lp.LambdaRank(lp.MAP(k="cut")),
        "preferences": lp.Preferences("duels"),
        "preferences ndcg": lp.Preferences("duels", measure="ndcg"),
        "unbiased ipw": by_position,
        "unbiased": lp.Unbiased(lp.LambdaRank("ndcg"), "position"),
        "unbiased pairwise": lp.Unbiased(lp.LambdaRank("ndcg"), "position", "pairwise"),
        "preset lightgbm": lp.presets.lightgbm(),
        "preset lightgbm unnormed": lp.presets.lightgbm(truncation_level=5, norm=False, sigmoid=2.0),
        "preset xendcg": lp.presets.lightgbm_xendcg(),
        "preset yetirank": lp.presets.catboost_yetirank(),
        "custom value": lp.LambdaRank(lp.custom("mine", custom_value)),
        "custom delta": lp.LambdaRank(lp.custom("mine", custom_value, delta=custom_delta, k=3)),
    }


IN_HOSTS = {
    *("lambdarank ndcg@3", "lambdarank std map", "lambdarank noise err", "objective ndcg", "objective map"),
    *("objective mrr", "schedule ndcg", "spsa map", "approx constant ndcg", "plrank ndcg", "stochastic map", "softmax"),
    *("mixture", "interpolate", "graded", "pareto mgda", "pareto chebyshev", "pareto epsilon", "labels", "revenue 3"),
    *("alphandcg 3", "preferences", "unbiased ipw", "unbiased", "unbiased pairwise", "custom delta"),
}


def by_hand(objective: Any) -> Iterator[tuple[str, np.ndarray]]:
    """Gradients and hessians of both sets, at two iterations, with weights of queries and of documents."""
    for where, (sizes, rows) in SETS.items():
        columns = {name: values for name, values in rows.items() if name not in ("scores", "labels")}
        for how, weight, iteration in (
            ("", None, 0),
            ("later", None, 7),
            ("query weights", rows["query_weight"], 0),
            ("document weights", rows["weight"], 0),
        ):
            try:
                found = objective.gradients(rows["labels"], rows["scores"], sizes, weight, iteration, columns=columns)
            except lp.LambdaplugError as error:
                found = (np.array([f"refused: {type(error).__name__}"]),)
            step = 1 if where == "short" else 11
            for name, array in zip(("gradient", "hessian"), found, strict=False):
                yield f"{where} {how} {name}", array[::step]


def in_hosts(objective: Any) -> Iterator[tuple[str, np.ndarray]]:
    """Predictions after five rounds in each host, with weights."""
    sizes = SIZES[SIZES > 0]
    rows = rows_of(sizes, 3)
    labels, by_query, weight = rows["labels"], rows["query_weight"], np.repeat(rows["query_weight"], sizes)
    columns = {k: v for k, v in rows.items() if k not in ("scores", "labels", "weight", "query_weight", "cut")}
    x = np.random.default_rng(4).normal(size=(sizes.sum(), 5)) + labels[:, None] * 0.3
    common = {"verbose": -1, "num_threads": 1, "num_leaves": 6, "min_data_in_leaf": 3, "min_sum_hessian_in_leaf": 0.0}
    grown = {"nthread": 1, "max_depth": 3, "min_child_weight": 0.0, "base_score": 0.0}
    for how, each in (("", None), (" weighted", weight)):
        data = lp.attach(lgb.Dataset(x, labels, group=sizes, weight=each), **columns)
        model = lgb.train({**common, "objective": objective}, data, 5)
        yield f"lightgbm{how}", model.predict(x, raw_score=True)
    for how, each in (("", None), (" weighted", by_query)):
        matrix = lp.attach(xgb.DMatrix(x, labels, qid=np.repeat(np.arange(len(sizes)), sizes), weight=each), **columns)
        yield f"xgboost{how}", xgb.train(grown, matrix, 5, obj=objective).predict(matrix, output_margin=True)


def computed(only: str = "") -> Iterator[tuple[str, np.ndarray]]:
    for name, objective in cases().items():
        if only in name:
            arrays = [*by_hand(objective), *(in_hosts(objective) if name in IN_HOSTS else [])]
            yield from ((f"{name} | {what}", array) for what, array in arrays)


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
