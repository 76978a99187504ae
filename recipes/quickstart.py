"""Name the measure and train for it: built-in objectives beside lp.objective, in LightGBM and XGBoost.

    python recipes/quickstart.py                      # generated data
    python recipes/quickstart.py --data train.txt     # your own LETOR / SVMLight file with query ids

One table: test NDCG@10, MAP and MRR (documents labelled --relevant or more count as relevant) of each model, with ordinary
parameters, and what lp.objective gains over the best built-in, with its interval over test queries.
"""

import argparse
from pathlib import Path

import lightgbm as lgb
import numpy as np
import pandas as pd
import xgboost as xgb
from tqdm import tqdm

import lambdaplug as lp
from lambdaplug import plotting

plt = plotting.use()

BUILT_IN = {"LightGBM": ["lambdarank", "rank_xendcg"], "XGBoost": ["rank:ndcg", "rank:pairwise"]}


def load(path, sizes):
    """Train, validation and test parts of a file, or of generated data with so many queries each."""
    if path:
        return lp.data.load_letor(path).split(0.6, 0.2, 0.2)
    return lp.data.cubic(sum(sizes), documents=40, features=20, noise=1.0).split(*sizes)


def train_lightgbm(objective, train, valid, measure, rounds, **columns):
    data = lp.attach(lgb.Dataset(train.X, train.labels, group=train.group), **columns)
    check = lgb.Dataset(valid.X, valid.labels, group=valid.group, reference=data)
    model = lgb.train(
        {"objective": objective, "metric": "None", "verbose": -1},
        data,
        rounds,
        valid_sets=[check],
        feval=lp.metric(measure),
        callbacks=[lgb.early_stopping(50, verbose=False)],
    )
    return model.predict


def train_xgboost(objective, train, valid, measure, rounds, **columns):
    data, check = (xgb.DMatrix(part.X, part.labels, qid=part.qid) for part in (train, valid))
    lp.attach(data, **columns)
    built_in = isinstance(objective, str)
    model = xgb.train(
        {"objective": objective if built_in else "rank:ndcg", "disable_default_eval_metric": 1, "eta": 0.1},
        data,
        rounds,
        evals=[(check, "valid")],
        obj=None if built_in else objective,
        custom_metric=lp.metric(measure),
        early_stopping_rounds=50,
        verbose_eval=False,
    )
    return lambda X: model.predict(xgb.DMatrix(X), iteration_range=(0, model.best_iteration + 1))


TRAIN = {"LightGBM": train_lightgbm, "XGBoost": train_xgboost}


def plot(gains, path, quick):
    """Horizontal bars with intervals: what lp.objective adds to the best built-in, in points of 100."""
    figure, axis = plt.subplots(figsize=(8, 3.6))
    places = np.arange(len(gains))[::-1]
    colours = [plotting.BLUE if host == "LightGBM" else plotting.ORANGE for host in gains["host"]]
    bars = [100 * (gains["gain"] - gains["low"]), 100 * (gains["high"] - gains["gain"])]
    axis.barh(places, 100 * gains["gain"], color=colours, alpha=0.8, xerr=bars, ecolor="0.3", capsize=3)
    axis.axvline(0, color="0.3", lw=1)
    axis.set_yticks(places, [f"{row.measure} in {row.host}" for row in gains.itertuples()])
    axis.set(xlabel="points of 100, with 95 % intervals over test queries", ylabel="measure and host")
    title = "What lp.objective(measure) adds to the best built-in objective of its host"
    axis.set_title(f"{title}\n--quick: too little data and too few trees to say" if quick else title)
    figure.savefig(path)
    print(f"chart: {Path(path).resolve()}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="a LETOR / SVMLight file with query ids; default: generated data")
    parser.add_argument("--relevant", type=float, help="lowest relevant label; default 2 for generated data, else 1")
    parser.add_argument("--rounds", type=int, default=200, help="at most so many trees (early stopping)")
    parser.add_argument(
        "--quick", action="store_true", help="less data and fewer trees: shows that all works, compares nothing"
    )
    parser.add_argument("--plot", default="quickstart.png", help="where the chart goes")
    options = parser.parse_args()

    train, valid, test = load(options.data, (80, 30, 60) if options.quick else (600, 200, 2000))
    relevant = options.relevant or (1 if options.data else 2)
    rounds = min(options.rounds, 20) if options.quick else options.rounds
    measures = {"NDCG@10": lp.NDCG(k=10), "MAP": lp.MAP(relevant=relevant), "MRR": lp.MRR(relevant=relevant)}

    runs = [(host, name, stop) for host in TRAIN for name in [*BUILT_IN[host], "lp.objective"] for stop in measures]
    values = {}
    for host, name, stop in tqdm(runs, desc="training", disable=None):
        measure = measures[stop]
        objective = lp.objective(measure) if name == "lp.objective" else name
        predict = TRAIN[host](objective, train, valid, measure, rounds)
        found = lp.evaluate(measure, test.labels, predict(test.X), test.group, per_query=True)
        values[host, name, stop] = found[str(measure)]

    table = pd.Series({key: np.nanmean(found) for key, found in values.items()}).unstack()[list(measures)]
    table = table.reindex(dict.fromkeys((host, name) for host, name, _ in runs)).rename_axis(["", ""])
    best = table == table.groupby(level=0).transform("max")
    marked = table.map("{:.4f}".format) + best.map({True: "*", False: " "}.get)
    print(f"{len(train.group)} / {len(valid.group)} / {len(test.group)} queries; relevant: label >= {relevant:g}")
    print(marked.to_string())
    print("* best of its host\n")

    rows = []
    for host in TRAIN:
        for stop in measures:
            rival = max(BUILT_IN[host], key=lambda name, at=(host, stop): table.loc[(at[0], name), at[1]])
            difference = values[host, "lp.objective", stop] - values[host, rival, stop]
            difference = difference[~np.isnan(difference)]
            half = 1.96 * difference.std(ddof=1) / np.sqrt(len(difference))
            gain = difference.mean()
            rows.append((host, stop, rival, gain, gain - half, gain + half))
    gains = pd.DataFrame(rows, columns=["host", "measure", "best built-in", "gain", "low", "high"])
    print(gains.to_string(index=False, float_format=lambda x: f"{x:+.4f}"))
    if options.quick:
        print("--quick shows that all works: its data are too few, and its trainings too short, to compare objectives.")
    plot(gains, options.plot, options.quick)


if __name__ == "__main__":
    main()
