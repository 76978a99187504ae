"""Larger than memory: both hosts from files that are read piece by piece, on the same trees as from memory.

    python recipes/larger_than_memory.py                   # generated data, written to a temporary folder first
    python recipes/larger_than_memory.py --data folder     # your own: *.npz files in order, with X, y and qid

The files may end in the middle of a query. XGBoost gets whole ones through lp.XGBDataIter and keeps its pages on disk
(ExtMemQuantileDMatrix). LightGBM reads through its Sequence and keeps one byte a value in memory; it is told the
queries apart from the rows, so that the ends of the files do not matter to it. Labels and query ids fit into memory.

Each way runs in a process of its own, whose peak memory is in the table. --external leaves out the ways that need all of
the data in memory, and with them the comparison. Needs XGBoost 3 or newer; with an older one it exits with 77.
"""

import argparse
import functools
import importlib.metadata
import itertools
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from tqdm import tqdm

import lambdaplug as lp

OBJECTIVE = lp.LambdaRank("ndcg@10")
ROUTES = ["XGBoost, memory", "XGBoost, files", "LightGBM, memory", "LightGBM, files"]
PER_MEGABYTE = 1 << (20 if sys.platform == "darwin" else 10)  # of ru_maxrss


def generate(folder, queries, documents, features):
    """Generated data in about twenty files of equal length, whatever query that cuts."""
    data = lp.data.cubic(queries, documents, features, noise=0.3)
    rows = len(data.labels) // 20 + 1
    for number, first in enumerate(range(0, len(data.labels), rows)):
        part = slice(first, first + rows)
        np.savez(folder / f"part{number:04}.npz", X=data.X[part], y=data.labels[part], qid=data.qid[part])


@functools.lru_cache(maxsize=1)
def table(path):
    return np.load(path)["X"]


def batches(paths):
    """One file at a time: (X, labels, qid)."""
    for path in paths:
        with np.load(path) as file:
            yield file["X"], file["y"], file["qid"]


def columns(paths):
    """Labels and query ids of all rows, which are small."""
    return (np.concatenate([np.load(path)[name] for path in paths]) for name in ("y", "qid"))


def with_xgboost(paths, external, rounds, threads, folder):
    import xgboost as xgb

    start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if external:
        feed = lp.XGBDataIter(lambda: batches(paths), cache_prefix=str(folder / "pages"))
        data = xgb.ExtMemQuantileDMatrix(feed)
    else:
        labels, qid = columns(paths)
        X = np.concatenate([X for X, _, _ in batches(paths)])
        data = xgb.QuantileDMatrix(X, labels, qid=qid)
    parameters = {"learning_rate": 0.1, "max_depth": 6, "min_child_weight": 0, "lambda": 1e-3}
    parameters |= {"objective": "rank:ndcg", "disable_default_eval_metric": 1, "nthread": threads}
    model = xgb.train(parameters, data, rounds, obj=OBJECTIVE)
    trees = model.get_dump(with_stats=True)
    return start, trees, model.inplace_predict


def with_lightgbm(paths, external, rounds, threads, folder):  # noqa: ARG001
    import lightgbm as lgb

    class Rows(lgb.Sequence):
        batch_size = 4096

        def __init__(self, path):
            self.path, self.length = path, len(np.load(path)["y"])

        def __getitem__(self, index):
            return table(self.path)[index].astype(np.float64)

        def __len__(self):
            return self.length

    start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    labels, qid = columns(paths)
    rows = [Rows(path) for path in paths] if external else np.concatenate([X for X, _, _ in batches(paths)])
    parameters = {"objective": OBJECTIVE, "learning_rate": 0.1, "min_sum_hessian_in_leaf": 1e-6, "verbose": -1}
    parameters |= {"metric": "None", "deterministic": True, "force_row_wise": True, "num_threads": threads}
    model = lgb.train(parameters, lgb.Dataset(rows, labels, group=lp.data.sizes_of(qid)), rounds)
    text = model.model_to_string()
    trees = text[text.index("Tree=0") : text.index("end of trees")].split("Tree=")[1:]
    return start, trees, model.predict


def run(route, paths, rounds, threads):
    """In a process of its own: trains, and prints what the table needs as its last line."""
    host, way = route.split(", ")
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        train = {"XGBoost": with_xgboost, "LightGBM": with_lightgbm}[host]
        start, trees, predict = train(paths, way == "files", rounds, threads, Path(folder))
    peak = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - start) / PER_MEGABYTE
    scores = np.concatenate([predict(X) for X, _, _ in batches(paths)])
    labels, qid = columns(paths)
    ndcg = lp.evaluate("ndcg@10", labels, scores, lp.data.sizes_of(qid))["ndcg@10"]
    found = {"ndcg": ndcg, "peak": peak, "seconds": time.perf_counter() - began, "trees": trees}
    print(json.dumps(found))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="a folder with *.npz files; default: generated data")
    parser.add_argument("--queries", type=int, default=6000, help="of the generated data, 50 rows each")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--external", action="store_true", help="only the ways that do not need all data in memory")
    parser.add_argument("--threads", type=int, default=0, help="of the boosters; 0: all. --quick takes one")
    parser.add_argument("--quick", action="store_true", help="less data and fewer trees")
    parser.add_argument("--plot", default="larger_than_memory.png", help="where the chart goes")
    parser.add_argument("--route", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if (version := importlib.metadata.version("xgboost")).startswith(("1.", "2.")):
        print(f"skipped: ExtMemQuantileDMatrix came with XGBoost 3, and this is {version}.")
        sys.exit(77)
    rounds, threads = (5, 1) if options.quick else (options.rounds, options.threads)
    if options.route == "generate":
        generate(options.data, options.queries, 50, 100)
        return
    if options.route:
        run(options.route, sorted(options.data.glob("*.npz")), options.rounds, options.threads)
        return

    def start(route, *arguments):
        # A process counts the peak of the one that starts it as its own: this one stays small until the end.
        command = [sys.executable, __file__, "--route", route, "--data", str(options.data), *arguments]
        return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout

    with tempfile.TemporaryDirectory() as folder:
        if options.data is None:
            options.data = Path(folder)
            if options.quick:
                generate(options.data, 100, 30, 20)
            else:
                start("generate", "--queries", str(options.queries))
        files = sorted(options.data.glob("*.npz"))
        found = {}
        for route in tqdm([one for one in ROUTES if not options.external or "files" in one], disable=None):
            found[route] = json.loads(start(route, "--rounds", str(rounds), "--threads", str(threads)).splitlines()[-1])
        ids = [np.load(path)["qid"] for path in files]
        cut = sum(before[-1] == after[0] for before, after in itertools.pairwise(ids))

    import pandas as pd

    from lambdaplug import plotting

    plotting.use()
    rows, groups = sum(map(len, ids)), len(np.unique(np.concatenate(ids)))
    print(f"{rows:,} rows, {groups:,} queries in {len(files)} files; {cut} files end in the middle of a query")
    frame = pd.DataFrame(found).T[["ndcg", "peak", "seconds"]].astype(float)
    frame.columns = ["training NDCG@10", "peak memory, MB", "seconds"]
    print(frame.round({"training NDCG@10": 4, "peak memory, MB": 0, "seconds": 1}).to_string())
    print("peak memory: beyond what the process had after its imports")
    for host in () if options.external else ("XGBoost", "LightGBM"):
        pair = (found[f"{host}, {way}"]["trees"] for way in ("memory", "files"))
        same = sum(a == b for a, b in zip(*pair, strict=True))
        print(f"{host}: {same} of {rounds} trees from files are those from memory, digit by digit")

    axis = frame["peak memory, MB"].plot.barh(figsize=(8, 3), xlabel="MB", ylabel="host and source")
    axis.set_title("Peak memory beyond the imports")
    axis.invert_yaxis()
    axis.figure.savefig(options.plot)


if __name__ == "__main__":
    main()
