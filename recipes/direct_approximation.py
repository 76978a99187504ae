"""Climb the measure itself: ApproxAP and ApproxNDCG beside LambdaRank.

    python recipes/direct_approximation.py                    # five folds of MQ2008 where it is found, else generated data
    python recipes/direct_approximation.py --data file.npz    # your own: arrays X, y, qid, part (1..5)

Section 6 of "A general approximation framework for direct optimization of information retrieval measures" (2008). Plots
how far the surrogate is from the measure while a model learns, for several alpha and beta (Figures 1-3), and prints test
MAP and NDCG of models trained for either (Tables 2 and 3), alpha, beta and LambdaRank's learning rate chosen on
validation, with paired 95 % intervals over the queries of all folds.
"""

import itertools

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

ALPHAS = [10, 20, 50, 100, 300]
BETAS = [1, 10, 100]
SPEEDS = [0.03, 0.1, 0.2]
MEASURES = {"AP": "map", "NDCG": "ndcg"}
# Steps of a fixed length along the gradient, as in the paper. In a Newton step alpha would be no more than the scores' unit.
DATA = "a .npz file; default: MQ2008 where it is found, else generated data"
STEPS = {"hessian": "constant", "normalize": "std"}


def load(path):
    file = np.load(path)
    return [common.rows_of(file, file["part"] == number) for number in range(1, 6)]


def together(parts):
    return lp.data.RankingData(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))


def folds(parts):
    """LETOR's: three parts to train on, one to choose by, one to test on, each part tested once."""
    for k in range(5):
        turned = [parts[(k + i) % 5] for i in range(5)]
        yield together(turned[:3]), turned[3], turned[4]


def train(objective, part, rounds, speed=0.1, **watching):
    parameters = {"objective": objective, "learning_rate": speed, "num_leaves": 15, "metric": "None", "verbose": -1}
    data = lgb.Dataset(part.X, part.labels, group=part.group)
    return lgb.train(parameters | {"min_sum_hessian_in_leaf": 1e-12}, data, rounds, **watching)


def train_best(objective, part, valid, measure, rounds, speed):
    """The trees, as many as were best on validation, and how good they were there."""
    model = train(
        objective,
        part,
        rounds,
        speed,
        valid_sets=[lgb.Dataset(valid.X, valid.labels, group=valid.group)],
        feval=lp.metric(measure),
        callbacks=[lgb.early_stopping(rounds, verbose=False)],
    )
    return model, model.best_score["valid_0"][measure]


def approximation_error(objective, part, rounds, step):
    """Mean |surrogate - measure| over the training queries, as the model grows."""
    name = str(objective.measure)
    model = train(objective, part, rounds)
    errors = {}
    for m in range(step, rounds + 1, step):
        scores = model.predict(part.X, num_iteration=m)
        truth = lp.evaluate(name, part.labels, scores, part.group, per_query=True)[name]
        errors[m] = np.nanmean(
            np.abs(objective.value(labels=part.labels, scores=scores, group=part.group, per_query=True) - truth)
        )
    return pd.Series(errors)


def label_of(setting):
    return ", ".join(f"{name} {value:g}" for name, value in setting.items())


def candidates(quick):
    """What validation chooses among: (learning rate, objective)."""
    alphas, betas, speeds = ([10], [10], [0.1]) if quick else (ALPHAS, BETAS, SPEEDS)
    found = {}
    for name, measure in MEASURES.items():
        settings = [{"alpha": a, "beta": b} for a, b in itertools.product(alphas, betas if name == "AP" else [10])]
        found[f"Approx{name}"] = [(0.1, lp.Approx(measure, **setting, **STEPS)) for setting in settings]
        found[f"Approx{name}"] += [(speed, lp.Approx(measure)) for speed in speeds]
    for name, measure in MEASURES.items():
        found[f"LambdaRank {name}"] = [(speed, lp.LambdaRank(measure)) for speed in speeds]
    return found


def interval(a, b):
    d = (a - b)[~np.isnan(a - b)]
    low, high = stats.ttest_1samp(d, 0.0).confidence_interval(0.95)
    return float(d.mean()), float(low), float(high)


def figures(axes, part, rounds):
    """Figures 1-3: how far the surrogate is from the measure as a model grows."""
    shown = {
        "AP, beta 10 (Figure 1)": [("map", {"alpha": alpha, "beta": 10}) for alpha in (10, 50, 100)],
        "AP, alpha 100 (Figure 2)": [("map", {"alpha": 100, "beta": beta}) for beta in (1, 10, 100)],
        "NDCG (Figure 3)": [("ndcg", {"alpha": alpha}) for alpha in (10, 50, 300)],
    }
    last = {}
    for axis, (title, settings) in zip(axes, tqdm(shown.items(), desc="figures", disable=None), strict=False):
        for measure, setting in settings:
            label = label_of(setting)
            objective = lp.Approx(measure, **setting, **STEPS)
            errors = approximation_error(objective, part, rounds, max(1, rounds // 20))
            axis.plot(errors, label=label)
            last[measure.upper(), label] = [errors.iloc[0], errors.iloc[len(errors) // 2], errors.iloc[-1]]
        axis.set(title=f"|surrogate - measure|, {title}", xlabel="trees")
        axis.legend(fontsize="small")
    print(
        "Approximation error on the training queries of fold 1 (Figures 1-3), after a twentieth, half and all of the trees:"
    )
    print(pd.DataFrame(last, index=["1/20", "1/2", "all"]).T.round(4).to_string())

    for title, settings in shown.items():
        ends = [last[measure.upper(), label_of(setting)][-1] for measure, setting in settings]
        falls = "falls" if all(a > b for a, b in itertools.pairwise(ends)) else "does NOT always fall"
        print(f"{title}: the error {falls} as the sigmoid sharpens; at most {max(ends):.4f} at the end")


def main():
    parser = common.arguments(
        __doc__,
        "direct_approximation.png",
        rounds=100,
        data=DATA,
        quick="generated data, one fold, no choice of alpha and beta",
    )
    options = parser.parse_args()
    rounds = 15 if options.quick else options.rounds
    path = options.data or (None if options.quick else common.beside("mq2008"))
    if path:
        parts = load(path)
    else:
        size = (100, 15, 10) if options.quick else (750, 20, 25)
        parts = lp.data.cubic(size[0], documents=size[1], features=size[2], noise=0.5).split(*[0.2] * 5)
    splits = list(folds(parts))[: 1 if options.quick else 5]

    figure, axes = plt.subplots(1, 4, figsize=(18, 4))
    print(f"{sum(len(part.group) for part in parts)} queries in five parts, {path or 'generated'}; {rounds} trees")
    figures(axes, splits[0][0], rounds)

    # Tables 2 and 3: every model measured by both.
    contest = candidates(options.quick)
    values = {name: {measure: [] for measure in MEASURES} for name in contest}
    chosen = {name: [] for name in contest}
    with tqdm(total=len(splits) * sum(map(len, contest.values())), desc="folds", disable=None) as bar:
        for part, valid, test in splits:
            for name, choices in contest.items():
                measure = MEASURES["AP" if "AP" in name else "NDCG"]
                best, best_value = None, -1.0
                for speed, objective in choices:
                    model, value = train_best(objective, part, valid, measure, rounds, speed)
                    if value > best_value:
                        best, best_value = (model, objective, speed), value
                    bar.update()
                chosen[name].append(f"{best[1]!r} at {best[2]:g}")
                found = lp.evaluate(
                    list(MEASURES.values()), test.labels, best[0].predict(test.X), test.group, per_query=True
                )
                for column, text in MEASURES.items():
                    values[name][column].append(found[text])
    values = {name: {c: np.concatenate(v) for c, v in columns.items()} for name, columns in values.items()}
    table = pd.DataFrame(
        {
            name: {f"M{c}" if c == "AP" else c: np.nanmean(v) for c, v in columns.items()}
            for name, columns in values.items()
        }
    ).T
    print(f"Test queries of {len(splits)} fold(s) (Tables 2 and 3):")
    print(table.round(4).to_string())
    for name, picks in chosen.items():
        print(f"  {name}, chosen on validation: {'; '.join(picks)}")
    contests = [("ApproxAP", "LambdaRank AP", "AP"), ("ApproxNDCG", "LambdaRank NDCG", "NDCG")]
    contests += [("ApproxAP", "ApproxNDCG", "AP"), ("ApproxNDCG", "ApproxAP", "NDCG")]
    for a, b, column in contests:
        gain, low, high = interval(values[a][column], values[b][column])
        verdict = "better" if low > 0 else "worse" if high < 0 else "no significant difference"
        print(f"{a} against {b} in {column}: {gain:+.4f} ({low:+.4f} to {high:+.4f}): {verdict}")
    table.plot.bar(ax=axes[3], rot=20)
    axes[3].set(title="test (Tables 2 and 3)", ylim=(0.97 * table.min().min(), 1.02 * table.max().max()))
    figure.tight_layout()
    figure.savefig(options.plot, dpi=110)


if __name__ == "__main__":
    main()
