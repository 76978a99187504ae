"""Gradients without a formula: SPSA and FDSA beside LambdaRank and RankNet, and how smooth NDCG is.

    python recipes/numerical_gradients.py                    # generated data
    python recipes/numerical_gradients.py --data file.npz    # your own: arrays X, y, qid, split (0, 1, 2)

"On using simultaneous perturbation stochastic approximation for learning to rank" (2007). NDCG@10 on training, validation
and test queries (its Table 1), c chosen on validation, the learning rate a_m = a/(50 + m^0.602) for the numerical
gradients. Then a LambdaRank model of which one weight, a leaf's value, moves with all others fixed, over 100, 1,000 and
10,000 queries (its Figures 2-5): the more queries, the smoother NDCG becomes.
"""

import itertools

import common
import lightgbm as lgb
import numpy as np
import pandas as pd

import lambdaplug as lp

PAPER = "Yue, Burges 2007"
MEASURE = "ndcg@10"
DISTANCES = [0.3, 1.0]
SHARES = np.linspace(-2, 2, 21)  # of a leaf's value, added to it
CLOSER = np.linspace(-0.01, 0.01, 31)
THERE = {"LambdaRank": 70.7, "RankNet": 69.9, "SPSA:4": 67.7}  # Table 1, test


def variants(quick):
    """What is trained, by name; c is chosen on validation."""
    distances = DISTANCES[:1] if quick else DISTANCES
    found = {"LambdaRank": [lp.LambdaRank(MEASURE)], "RankNet": [lp.LambdaRank("pairs")]}
    for evaluations in (2, 4, 8):
        found[f"SPSA:{evaluations}"] = [lp.SPSA(MEASURE, evaluations=evaluations, c=c) for c in distances]
    return found | {"FDSA": [lp.FDSA(MEASURE, c=1.0)]}


def slower(m):
    """The paper's a_m, which starts as LightGBM's learning rate."""
    return 0.1 * 51 / (50 + (m + 1) ** 0.602)


def contest(study, seed):
    """The best of each variant on validation."""
    parts, best = study.data(seed), {}
    for name, objectives in variants(study.options.quick).items():
        callbacks = [] if name in ("LambdaRank", "RankNet") else [lgb.reset_parameter(learning_rate=slower)]
        best[name] = study.best(seed, [(one, {}) for one in objectives], parts, MEASURE, MEASURE, callbacks)
    return best


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


def weights_moved(quick, sizes, seed):
    """(leaves, {queries: NDCG of each leaf at each share}) of one data set; with the first, its weight closer."""
    many = lp.data.cubic(sizes[-1], documents=50, features=20, noise=0.3, seed=1 + seed)
    some = many.split(sizes[1], sizes[-1] - sizes[1])[0]
    data = lgb.Dataset(some.X, some.labels, group=some.group)
    parameters = {"objective": lp.LambdaRank("ndcg"), "num_threads": 1, "verbose": -1}
    model = lgb.train(parameters, data, 20 if quick else 60)
    weights = heavy_leaves(model, some, 3 if quick else 20)
    scores, leaf = model.predict(many.X), model.predict(many.X, pred_leaf=True)
    lines = {}
    for size in sizes:
        part = many.split(size, sizes[-1] - size)[0] if size < sizes[-1] else many
        end = len(part.labels)
        moves = [(leaf[:end, tree] == number, value) for tree, number, value in weights]
        lines[size] = [[moved(scores[:end], inside, value, share, part) for share in SHARES] for inside, value in moves]
    tree, number, value = weights[0]
    near = [moved(scores, leaf[:, tree] == number, value, share, many) for share in CLOSER]
    return weights, lines, np.array(near)


def smoothness(study, axes):
    """One weight at a time, over more and more queries; Figures 2 to 5."""
    quick, seeds = study.options.quick, range(study.options.seeds)
    sizes = (10, 40, 160) if quick else (100, 1_000, 10_000)
    found = [study.once(("smooth", sizes, seed), lambda s=seed: weights_moved(quick, sizes, s)) for seed in seeds]
    weights, drawn, near = found[0]
    rough, rows = {}, {}
    for size, axis in zip(sizes, axes, strict=False):
        for (tree, number, _), line in list(zip(weights, drawn[size], strict=True))[:5]:
            axis.plot(100 * SHARES, line, ".-", label=f"tree {tree}, leaf {number}")
        title = f"NDCG over {size:,} queries (Figures 2-4)"
        axis.set(title=title, xlabel="% change of the leaf's value", ylabel="NDCG")
        common.legend_below(axis)
        rough[size] = [np.array([roughness(np.array(line)) for line in lines[size]]) for _, lines, _ in found]
        every = [line for _, lines, _ in found for line in lines[size]]
        tops = [abs(float(SHARES[int(np.argmax(line))])) for line in every]
        rows[f"{size:,}"] = [np.mean([np.ptp(line) for line in every]), common.interval(rough[size])[0], np.mean(tops)]
    study.say(
        "\nOne leaf's value from -200 % to +200 % of itself, LambdaRank on NDCG, means over the heaviest leaves of"
    )
    study.say(f"{len(weights)} trees in each of {len(seeds)} data set(s):")
    index = ["span of NDCG", "roughness / span", "mean |change| at the top"]
    study.say(pd.DataFrame(rows, index=index).T.rename_axis("queries").round(5).to_string())
    for few, lots in itertools.pairwise(sizes):
        claim = f"NDCG becomes smoother from {few:,} to {lots:,} queries"
        differences = [a - b for a, b in zip(rough[few], rough[lots], strict=True)]
        claim = common.Claim(
            f"{PAPER}, Figure 2", claim, queries=5, unit="roughness / span", over="leaves", said="yes"
        )  # there, five weights
        study.decide(claim, differences)
    axes[3].plot(100 * CLOSER, 1e6 * (near - near[len(near) // 2]), ".-")
    title = f"The first, {sizes[-1]:,} queries, closer (Figure 5)"
    axes[3].set(title=title, xlabel="% change of the leaf's value", ylabel="change of NDCG, millionths")
    means = np.array([common.interval(rough[size])[0] for size in sizes])
    axes[4].loglog(sizes, means, "o-", label="found")
    axes[4].loglog(sizes, means[0] * np.sqrt(sizes[0] / np.array(sizes)), "--", label="1/sqrt(queries)")
    axes[4].set(title="Roughness of NDCG", xlabel="queries", ylabel="roughness / span")
    axes[4].yaxis.get_major_locator().set_params(subs=(1, 2, 5))
    axes[4].yaxis.set_major_formatter("{x:g}")
    axes[4].minorticks_off()
    common.legend_below(axes[4])


def main():
    study = common.Study(__doc__, queries=10_000, rounds=300, patience=50, tested=6000, seeds=4)
    options = study.options
    found = [contest(study, seed) for seed in range(options.seeds)]
    rows = {}
    tests = {name: [one[name].tests[MEASURE] for one in found] for name in found[0]}
    for name in found[0]:
        best = [one[name] for one in found]
        own = [
            lp.evaluate(MEASURE, part.labels, one.model.predict(part.X), part.group)[MEASURE]
            for one, (part, *_) in zip(best, map(study.data, range(options.seeds)), strict=True)
        ]
        distances = ", ".join(f"{one.objective.c:g}" if hasattr(one.objective, "c") else "-" for one in best)
        trees = ", ".join(str(one.model.num_trees()) for one in best)
        means = [float(np.mean(own)), float(np.mean([one.value for one in best]))]
        rows[name] = [*means, *common.interval(tests[name]), distances, trees]
    table = pd.DataFrame(rows, index=["train", "valid", "test", "± 95 %", "c", "trees"]).T
    sizes = " / ".join(str(len(part.group)) for part in study.data())
    study.say(
        f"{sizes} queries in each of {options.seeds} data sets, up to {options.rounds} trees; {MEASURE} (Table 1):"
    )
    study.say_growth()
    study.say(table.to_string(formatters=dict.fromkeys(["train", "valid", "test", "± 95 %"], "{:.4f}".format)))
    for a, b in (("LambdaRank", "RankNet"), ("RankNet", "SPSA:4"), ("LambdaRank", "SPSA:4")):
        claim = common.Claim(f"{PAPER}, Table 1", f"{a} beats {b}, NDCG@10", THERE[a] - THERE[b])
        study.decide(claim, [x - y for x, y in zip(tests[a], tests[b], strict=True)])

    figure, axes = common.panels("AB;CD;EF")
    for column, mark in zip(("train", "valid", "test"), "^so", strict=True):
        axes[0].plot(table[column].astype(float), table.index, mark, label=column)
    axes[0].set(title="Table 1", xlabel=MEASURE, ylabel="trained with")
    axes[0].invert_yaxis()
    common.legend_below(axes[0], 3)
    smoothness(study, axes[1:])
    study.finish(figure)


if __name__ == "__main__":
    main()
