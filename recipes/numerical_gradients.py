"""Gradients without a formula: SPSA and FDSA beside LambdaRank and RankNet, and how smooth NDCG is.

    python recipes/numerical_gradients.py                    # generated data
    python recipes/numerical_gradients.py --data file.npz    # your own: arrays X, y, qid, split (0, 1, 2)

"On using simultaneous perturbation stochastic approximation for learning to rank" (2007). Prints NDCG@10 on training,
validation and test queries (its Table 1), c chosen on validation, the learning rate a_m = a/(50 + m^0.602) for the
numerical gradients. Then takes a LambdaRank model and moves one of its weights, a leaf's value, with all others fixed, over
100, 1,000 and 10,000 queries (its Figures 2-5): the more queries, the smoother NDCG becomes.
"""

import common
import lightgbm as lgb
import matplotlib
import numpy as np
import pandas as pd
from scipy import stats
from tqdm import tqdm

import lambdaplug as lp

matplotlib.use("Agg")
import matplotlib.pyplot as plt

MEASURE = "ndcg@10"
DISTANCES = [0.1, 0.3, 1.0]
EVALUATIONS = [2, 4, 8]


def train(objective, part, rounds, valid=None):
    data = lgb.Dataset(part.X, part.labels, group=part.group)
    parameters = {"objective": objective, "metric": "None", "verbose": -1, "min_sum_hessian_in_leaf": 1e-12}
    callbacks = []
    if not isinstance(objective, lp.LambdaRank):
        callbacks.append(lgb.reset_parameter(learning_rate=lambda m: 0.1 * 51 / (50 + (m + 1) ** 0.602)))
    watching = {}
    if valid is not None:
        callbacks.append(lgb.early_stopping(rounds, verbose=False))
        watching = {"valid_sets": [lgb.Dataset(valid.X, valid.labels, group=valid.group)], "feval": lp.metric(MEASURE)}
    return lgb.train(parameters, data, rounds, callbacks=callbacks, **watching)


def values(model, part):
    return lp.evaluate(MEASURE, part.labels, model.predict(part.X), part.group, per_query=True)[MEASURE]


def heavy_leaves(model, part, count):
    """(tree, leaf, value) of the leaf that moves most, value^2 x rows of a sample, in each of so many trees."""
    leaf = model.predict(part.X[:20_000], pred_leaf=True)
    found = []
    for tree in np.linspace(0, leaf.shape[1] - 1, count).astype(int).tolist():
        numbers, rows = np.unique(leaf[:, tree], return_counts=True)
        outputs = np.array([model.get_leaf_output(tree, number) for number in numbers.tolist()])
        heaviest = int(np.argmax(outputs**2 * rows))
        found.append((tree, int(numbers[heaviest]), outputs[heaviest]))
    return found


def moved(scores, rows, value, share, part):
    """Mean NDCG with one leaf's value changed by this share of it."""
    return lp.evaluate("ndcg", part.labels, scores + share * value * rows, part.group)["ndcg"]


def roughness(curve):
    """What is left of a curve after a cubic in the weight, as a share of what the curve spans."""
    x = np.linspace(-1, 1, len(curve))
    rest = curve - np.polyval(np.polyfit(x, curve, 3), x)
    return float(rest.std() / np.ptp(curve)) if np.ptp(curve) > 0 else np.nan


def smoothness(axes, quick):
    """One weight at a time, over more and more queries."""
    sizes = (10, 40, 160) if quick else (100, 1_000, 10_000)
    shares = np.linspace(-2, 2, 21 if quick else 41)
    many = lp.data.cubic(sizes[-1], documents=50, features=20, noise=0.3, seed=1)
    model = train(lp.LambdaRank("ndcg"), many, 20 if quick else 60)
    weights = heavy_leaves(model, many, 3 if quick else 5)
    scores = model.predict(many.X)
    leaf = model.predict(many.X, pred_leaf=True)
    summary = {}
    for size, axis in zip(sizes, axes.flat[1:], strict=False):
        some = many.split(size, sizes[-1] - size)[0] if size < sizes[-1] else many
        end = len(some.labels)
        curves = []
        for tree, number, value in tqdm(weights, desc=f"{size} queries", disable=None):
            inside = leaf[:end, tree] == number
            curves.append([moved(scores[:end], inside, value, share, some) for share in shares])
            axis.plot(100 * shares, curves[-1], ".-", label=f"tree {tree}, leaf {number}")
        axis.set(title=f"NDCG over {size:,} queries (Figures 2-4)", xlabel="% change of the leaf's value")
        axis.legend(fontsize="small")
        spans = [np.ptp(curve) for curve in curves]
        best = [float(shares[int(np.argmax(curve))]) for curve in curves]
        summary[f"{size:,}"] = [
            np.mean(spans),
            np.mean([roughness(np.array(curve)) for curve in curves]),
            np.mean(np.abs(best)),
        ]
    index = ["span of NDCG", "roughness / span", "mean |change| at the top"]
    print(
        "One leaf's value from -200 % to +200 % of itself, LambdaRank on NDCG, means over the heaviest leaves of several trees:"
    )
    print(pd.DataFrame(summary, index=index).T.rename_axis("queries").round(5).to_string())
    rough = [row[1] for row in summary.values()]
    print(f"NDCG becomes smoother with more queries: {'yes' if rough[0] > rough[1] > rough[2] else 'NO'}")
    tree, number, value = weights[0]
    inside = leaf[:, tree] == number
    closer = np.linspace(-0.01, 0.01, 41)
    axes[1, 1].plot(100 * closer, [moved(scores, inside, value, share, many) for share in closer], ".-")
    axes[1, 1].set(
        title=f"one of them, blown up, {sizes[-1]:,} queries (Figure 5)", xlabel="% change of the leaf's value"
    )
    axes[1, 2].loglog(sizes, rough, "o-", label="found")
    axes[1, 2].loglog(sizes, rough[0] * np.sqrt(sizes[0] / np.array(sizes)), "--", label="1/sqrt(queries)")
    axes[1, 2].set(title="roughness / span", xlabel="queries")
    axes[1, 2].legend()


def main():
    quick = "less data, fewer trees, one value of c, fewer weights"
    options = common.arguments(__doc__, "numerical_gradients.png", queries=1000, rounds=200, quick=quick).parse_args()
    rounds = 15 if options.quick else options.rounds
    distances = [0.3] if options.quick else DISTANCES
    if options.data:
        parts = common.load(options.data)
    else:
        parts = lp.data.cubic(100 if options.quick else options.queries, noise=0.3).split(0.5, 0.2, 0.3)
    part, valid, test = parts

    variants = {"LambdaRank": [lp.LambdaRank(MEASURE)], "RankNet": [lp.LambdaRank("pairs")]}
    for evaluations in EVALUATIONS:
        variants[f"SPSA:{evaluations}"] = [lp.SPSA(MEASURE, evaluations=evaluations, c=c) for c in distances]
    variants["FDSA"] = [lp.FDSA(MEASURE, c=c) for c in distances]
    rows, found = {}, {}
    with tqdm(total=sum(map(len, variants.values())), desc="training", disable=None) as bar:
        for name, objectives in variants.items():
            models = []
            for objective in objectives:
                model = train(objective, part, rounds, valid)
                models.append((model.best_score["valid_0"][MEASURE], model, objective))
                bar.update()
            score, model, objective = max(models, key=lambda candidate: candidate[0])
            found[name] = values(model, test)
            c = getattr(objective, "c", np.nan)
            rows[name] = [np.nanmean(values(model, part)), score, np.nanmean(found[name]), c, model.best_iteration]
    table = pd.DataFrame(rows, index=["train", "valid", "test", "c", "trees"]).T
    print(f"{len(part.group)} / {len(valid.group)} / {len(test.group)} queries, up to {rounds} trees; {MEASURE}:")
    shown = dict.fromkeys(["train", "valid", "test"], "{:.4f}".format)
    print(table.to_string(formatters={**shown, "c": "{:g}".format, "trees": "{:.0f}".format}, na_rep="-"))
    means = table["test"]
    for a, b in (("LambdaRank", "RankNet"), ("RankNet", "SPSA:4"), ("FDSA", "SPSA:8")):
        d = (found[a] - found[b])[~np.isnan(found[a] - found[b])]
        low, high = stats.ttest_1samp(d, 0.0).confidence_interval(0.95)
        print(f"{a} - {b} on test: {means[a] - means[b]:+.4f} (95 % interval {low:+.4f} to {high:+.4f})")
    holds = means["LambdaRank"] > means["RankNet"] > means["SPSA:4"]
    print(f"The paper's order, LambdaRank > RankNet > SPSA:4, {'shows' if holds else 'does NOT show'} here.")

    figure, axes = plt.subplots(2, 3, figsize=(15, 8))
    table[["train", "valid", "test"]].plot.bar(ax=axes[0, 0], rot=30)
    axes[0, 0].set(title=f"{MEASURE} (Table 1)", ylim=(0.9 * table["test"].min(), 1.02 * table["train"].max()))
    smoothness(axes, options.quick)
    figure.tight_layout()
    figure.savefig(options.plot, dpi=110)


if __name__ == "__main__":
    main()
