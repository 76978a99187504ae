"""A measure of your own, trained for: what a shop earns in its first five slots.

    python recipes/own_measure.py                      # generated shop
    python recipes/own_measure.py --data file.npz      # your own: arrays X, y (revenue a row), qid, split (0, 1, 2)

A label is what the shop earns when the product is bought. A customer looks at five slots with falling attention and
spends no more than a budget, so no sum of gains and discounts is this measure: it is the ten lines below. Models are
trained for NDCG, for NDCG@5 and for the revenue itself, and measured by both; the revenue's swap delta is proved before it
is used, and timed against brute-force swaps.
"""

import argparse
import dataclasses
import time

import lightgbm as lgb
import matplotlib
import numpy as np
import pandas as pd
from scipy import stats
from tqdm import tqdm

import lambdaplug as lp

matplotlib.use("Agg")
import matplotlib.pyplot as plt

ATTENTION = np.array([1.0, 0.7, 0.5, 0.35, 0.25])
BUDGET = 25.0


def earned(labels):
    """What the five slots would earn without a budget."""
    total = 0.0
    for slot in range(min(5, len(labels))):
        total += ATTENTION[slot] * labels[slot]
    return total


def revenue(labels):
    total = 0.0
    for slot in range(min(5, len(labels))):
        total += ATTENTION[slot] * labels[slot]
    return min(total, BUDGET)


def revenue_delta(labels, i, j, total):
    """What exchanging positions i < j changes: i gives its attention to j's product."""
    lost = ATTENTION[i] - (ATTENTION[j] if j < 5 else 0.0) if i < 5 else 0.0
    return min(total + lost * (labels[j] - labels[i]), BUDGET) - min(total, BUDGET)


REVENUE = lp.custom("revenue@5", revenue, delta=revenue_delta, prepare=earned, k=5)
NDCG, NDCG_5 = lp.NDCG(gain="linear"), lp.NDCG(k=5, gain="linear")


def generated(queries):
    """A shop: grades as judged results have them, prices that depend on two features, revenue = price x chance to sell."""
    data = lp.data.cubic(queries, documents=30, noise=0.3)
    price = 20.0 * np.exp(0.8 * data.X[:, 0] + 0.3 * data.X[:, 1])
    chance = np.array([0.01, 0.05, 0.15, 0.35, 0.6])[data.labels.astype(int)]
    return dataclasses.replace(data, labels=(price * chance).astype(np.float32)).split(0.5, 0.25, 0.25)


def load(path):
    """Train, validation and test parts of a .npz file."""
    file = np.load(path)
    parts = []
    for number in range(3):
        rows = file["split"] == number
        parts.append(lp.data.RankingData(file["X"][rows], file["y"][rows], lp.data.sizes_of(file["qid"][rows])))
    return parts


def train(objective, part, valid, rounds):
    data = lgb.Dataset(part.X, part.labels, group=part.group)
    parameters = {"objective": objective, "learning_rate": 0.1, "metric": "None", "min_sum_hessian_in_leaf": 0}
    return lgb.train(
        {**parameters, "verbose": -1},
        data,
        rounds,
        valid_sets=[lgb.Dataset(valid.X, valid.labels, group=valid.group, reference=data)],
        feval=lp.metric(objective.measure),
        callbacks=[lgb.early_stopping(30, verbose=False)],
    )


def milliseconds(objective, part):
    scores = np.random.default_rng(0).normal(size=len(part.labels))
    times = []
    for _ in range(6):  # the first one compiles
        start = time.perf_counter()
        objective.gradients(scores, part.labels, part.group)
        times.append(1000 * (time.perf_counter() - start))
    return min(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="a .npz file; default: a generated shop")
    parser.add_argument("--queries", type=int, default=2000, help="of the generated shop")
    parser.add_argument("--rounds", type=int, default=300, help="at most so many trees (early stopping)")
    parser.add_argument("--quick", action="store_true", help="less data and fewer trees")
    parser.add_argument("--plot", default="own_measure.png", help="where the chart goes")
    options = parser.parse_args()
    rounds = 15 if options.quick else options.rounds
    part, valid, test = load(options.data) if options.data else generated(160 if options.quick else options.queries)

    print(lp.verify(REVENUE, labels=[0.0, 1.0, 5.0, 12.5, 30.0, 80.0]))
    contest = {"NDCG": NDCG, "NDCG@5": NDCG_5, "revenue": REVENUE}
    found, curves = {}, {}
    for name, measure in tqdm(contest.items(), desc="training", disable=None):
        model = train(lp.LambdaRank(measure), part, valid, rounds)
        scores = model.predict(test.X)
        found[name] = lp.evaluate([NDCG_5, REVENUE], test.labels, scores, test.group, empty=0, per_query=True)
        curves[name] = [
            lp.evaluate(REVENUE, test.labels, model.predict(test.X, num_iteration=n), test.group)[str(REVENUE)]
            for n in range(1, model.best_iteration + 1, max(1, model.best_iteration // 20))
        ]

    rows = {}
    for name, values in found.items():
        cells = []
        for measure, unit in ((NDCG_5, 100), (REVENUE, 1)):
            mine, baseline = unit * values[str(measure)], unit * found["NDCG"][str(measure)]
            low, high = stats.ttest_1samp(mine - baseline, 0.0).confidence_interval(0.95)
            cells += [f"{mine.mean():.2f}", "" if name == "NDCG" else f"{low:+.2f} to {high:+.2f}"]
        rows[f"trained for {name}"] = cells
    columns = ["NDCG@5, points", "against NDCG (95 %)", "revenue a query", "against NDCG (95 %) "]
    print(f"{len(part.group)} / {len(valid.group)} / {len(test.group)} queries; test queries:")
    print(pd.DataFrame(rows, index=columns).T.to_string())
    gain = found["revenue"][str(REVENUE)] - found["NDCG"][str(REVENUE)]
    significant = stats.ttest_1samp(gain, 0.0).pvalue < 0.05
    words = "earns more" if gain.mean() > 0 else "earns less"
    print(
        f"Trained for revenue it {words}{'' if significant else ', but not significantly'}: {gain.mean():+.2f} a query."
    )
    by_delta, by_swaps = (
        milliseconds(lp.LambdaRank(measure), part) for measure in (REVENUE, lp.custom("revenue@5-swapped", revenue))
    )
    built_in = milliseconds(lp.LambdaRank("ndcg@5(gain='linear')"), part)
    print(f"One gradient: {by_delta:.1f} ms by its delta, {by_swaps:.1f} ms by swaps; NDCG@5 {built_in:.1f} ms.")

    figure, axis = plt.subplots(figsize=(7, 4))
    for name, curve in curves.items():
        axis.plot(np.linspace(0, 1, len(curve)), curve, label=f"trained for {name}")
    axis.set(title="test revenue of the first five slots", xlabel="share of the trees", ylabel="a query")
    axis.legend()
    figure.tight_layout()
    figure.savefig(options.plot, dpi=120)


if __name__ == "__main__":
    main()
