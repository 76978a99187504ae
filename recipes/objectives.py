"""Every objective on one data set: what it reaches, and what a round of it costs.

    python recipes/objectives.py                      # generated data
    python recipes/objectives.py --data train.txt     # your own LETOR / SVMLight file with query ids

All are trained in LightGBM and XGBoost with ordinary parameters, and stopped on validation by NDCG@10. The time is the
processor's for one gradient on the training data, one thread, the least of several. One table, one picture.
"""

import time
import warnings
from pathlib import Path

import lightgbm as lgb
import numpy as np
import pandas as pd
from common import TEXT, arguments, pairs_of
from quickstart import TRAIN, load
from tqdm import tqdm

import lambdaplug as lp

plt = lp.plotting.use()

MEASURE = lp.NDCG(k=10)
OBJECTIVES = {
    "lp.objective": lp.objective(MEASURE),
    "LambdaRank": lp.LambdaRank(MEASURE),
    "LambdaRank, Loss2": lp.LambdaRank("ndcg", construction=lp.constructions.Loss2()),
    "LambdaRank, Extended": lp.LambdaRank(MEASURE, construction=lp.constructions.Extended("static")),
    "RankNet": lp.LambdaRank("pairs"),
    "YetiRank's weights": lp.presets.catboost_yetirank(),
    "Approx": lp.Approx(MEASURE),
    "PLRank": lp.PLRank(MEASURE),
    "StochasticRank": lp.StochasticRank(MEASURE),
    "SPSA": lp.SPSA(MEASURE),
    "QueryRMSE": lp.QueryRMSE(),
    "QuerySoftmax": lp.QuerySoftmax(),
    "ListMLE": lp.ListMLE(),
    "XE-NDCG": lp.presets.lightgbm_xendcg(),
}
BY_DATA = {  # of the training part
    "Calibrated": lambda data: lp.Calibrated(max_label=data.labels.max()),
    "Preferences": lambda _: lp.Preferences("pairs"),
}


def milliseconds(objective, data):
    """Of one gradient at scores that spread as after some rounds."""
    rows = lgb.Dataset(data.X[:, :1], data.labels, group=data.group, params={"verbose": -1}).construct()
    lp.attach(rows, pairs=pairs_of(data.labels, data.group))
    random, times = np.random.default_rng(0), []
    scores = random.normal(size=len(data.labels))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lp.LambdaplugWarning)  # nothing is trained here, so that no round is known
        for _ in range(6):
            scores += random.normal(0, 0.05, len(scores))
            start = time.thread_time()
            objective(scores, rows)
            times.append(time.thread_time() - start)
    return 1000 * min(times)


def plot(table, path):
    """Quality with intervals on the left, cost on the right, one line per objective."""
    size = (9, 1.4 + 0.32 * len(table))
    figure, (left, right) = plt.subplots(1, 2, figsize=size, sharey=True, width_ratios=(3, 2))
    places = np.arange(len(table))
    for host, shift in (("LightGBM", -0.12), ("XGBoost", 0.12)):
        half = 1.96 * table[f"{host}, error"]
        left.errorbar(table[host], places + shift, xerr=half, fmt="o", ms=5, lw=1, label=host)
    left.set_yticks(places, table.index)
    left.invert_yaxis()
    left.set(xlabel=f"test {str(MEASURE).upper()}, with 95 % intervals", title="What it reaches")
    lp.plotting.legend(left, bbox_to_anchor=(0.0, -0.1), ncols=2)
    right.barh(places, table["ms per gradient"], height=0.6, color="0.6")
    right.set(xlabel="milliseconds per gradient, one thread", title="What it costs")
    right.set_xscale("log", subs=[2, 5])
    right.xaxis.set_major_formatter("{x:g}")
    right.xaxis.set_minor_formatter("{x:g}")
    figure.savefig(path)
    print(f"picture: {Path(path).resolve()}")


def main():
    parser = arguments(__doc__, "objectives.png", rounds=200, data=TEXT)
    options = parser.parse_args()
    train, valid, test = load(options.data, (60, 30, 60) if options.quick else (800, 200, 2000))
    rounds = 8 if options.quick else options.rounds
    lp.set_num_threads(1)

    pairs = pairs_of(train.labels, train.group)
    rows, every = {}, OBJECTIVES | {name: make(train) for name, make in BY_DATA.items()}
    for name, objective in tqdm(every.items(), desc="objectives", disable=None):
        rows[name] = {}
        for host, fit in TRAIN.items():
            scores = fit(objective, train, valid, MEASURE, rounds, pairs=pairs)(test.X)
            values = lp.evaluate(MEASURE, test.labels, scores, test.group, per_query=True)[str(MEASURE)]
            rows[name][host] = np.nanmean(values)
            rows[name][f"{host}, error"] = np.nanstd(values) / np.sqrt(np.sum(~np.isnan(values)))
        rows[name]["ms per gradient"] = milliseconds(objective, train)
    table = pd.DataFrame(rows).T.sort_values("LightGBM", ascending=False)
    print(f"test {MEASURE}; {len(train.group)} / {len(valid.group)} / {len(test.group)} queries")
    print(table.to_string(float_format=lambda x: f"{x:.4f}"))
    plot(table, options.plot)


if __name__ == "__main__":
    main()
