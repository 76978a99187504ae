"""From the booster's own objective to yours, one change at a time.

    python recipes/migrate.py                    # generated data, and ../shared/data where it is found
    python recipes/migrate.py --data file.npz    # your own: arrays X, y, qid, split (0, 1, 2), all of which are pooled

Starts from LightGBM's lambdarank, replaces it by its preset (the same trees, which is checked), then by true NDCG@10 and
by MAP with the built-in's two normalisations, and arrives at lp.objective: with noise, supported by whole-list NDCG. Figures of
each step over repeated cross-validation (--times), in which every query is tested as often, with paired tests over queries
against the built-in; what the gradients of the steps do to the built-in's model, by lp.analysis.explain_difference.
"""

import common
import lightgbm as lgb
import numpy as np
import pandas as pd
from scipy import stats
from tqdm import tqdm

import lambdaplug as lp
from lambdaplug import plotting

plt = plotting.use()

NORM = {"cost": lp.RankNet(distance=0.01), "normalize": "log"}
REAL = {"mq2008": 1, "lightgbm_rank": 2, "techno2020_clicks": 3}  # and the lowest relevant label
DATA = "a .npz file; default: generated data, and real sets where they are found"


def steps(relevant):
    """The migration: each line changes one thing."""
    average_precision = lp.MAP(relevant=relevant)
    return {
        "objective='lambdarank'": "lambdarank",
        "the preset": lp.presets.lightgbm(),
        "true NDCG@10": lp.LambdaRank("ndcg@10", **NORM),
        "true NDCG@10, noise": lp.LambdaRank("ndcg@10", noise=1.0, **NORM),
        "lp.objective('ndcg@10')": lp.objective("ndcg@10"),
        "MAP": lp.LambdaRank(average_precision, **NORM),
        "MAP, noise": lp.LambdaRank(average_precision, noise=1.0, **NORM),
        "lp.objective('map')": lp.objective(average_precision),
    }


def train(objective, part, valid, rounds):
    data = lgb.Dataset(part.X, part.labels, group=part.group)
    parameters = {"objective": objective, "metric": "None", "verbose": -1}
    return lgb.train(
        {**parameters, "learning_rate": 0.05, "deterministic": True, "force_row_wise": True},
        data,
        rounds,
        valid_sets=[lgb.Dataset(valid.X, valid.labels, group=valid.group, reference=data)],
        feval=lp.metric("ndcg@10"),
        callbacks=[lgb.early_stopping(40, verbose=False)],
    )


def trees(model):
    text = model.model_to_string(num_iteration=-1)
    return text[text.index("Tree=0") : text.index("end of trees")]


def pooled(parts):
    return lp.data.RankingData(
        *(np.concatenate([getattr(part, name) for part in parts]) for name in ("X", "labels", "group"))
    )


def splits(data, times, folds):
    """(repeat, training, validation and test rows): each fold is tested once in each repeat, and validates the one before."""
    for repeat in range(times):
        parts = [rows for _, rows in lp.query_folds(data.group, folds, seed=repeat, rows=len(data.labels))]
        for k in range(folds):
            held = parts[k], parts[(k + 1) % folds]
            yield repeat, np.setdiff1d(np.arange(len(data.labels)), np.concatenate(held)), held[1], held[0]


def part_of(data, rows):
    return lp.data.RankingData(data.X[rows], data.labels[rows], lp.data.sizes_of(data.qid[rows]))


def study(name, data, relevant, options, axes):
    measures = {"NDCG@10": lp.NDCG(k=10), "MAP": lp.MAP(relevant=relevant), "MRR": lp.MRR(relevant=relevant)}
    rounds, times, folds = (15, 1, 3) if options.quick else (options.rounds, options.times, 5)
    grown, same, first = {step: [] for step in steps(relevant)}, [], None
    # By step, measure, repeat and query; every query is tested once in each repeat.
    values = {step: np.full((len(measures), times, len(data.group)), np.nan) for step in grown}
    for repeat, *rows in tqdm(list(splits(data, times, folds)), desc=name, disable=None):
        part, valid, test = (part_of(data, own) for own in rows)
        tested = np.unique(data.qid[rows[2]])
        models = {step: train(objective, part, valid, rounds) for step, objective in steps(relevant).items()}
        for step, model in models.items():
            grown[step].append(model.best_iteration)
            found = lp.evaluate(list(measures.values()), test.labels, model.predict(test.X), test.group, per_query=True)
            values[step][:, repeat, tested] = list(found.values())
        builtin, preset = (models[step] for step in list(models)[:2])
        same.append(trees(builtin) == trees(preset))
        first = first or (part, builtin)
    print(f"--- {name}: {len(data.group)} queries, {folds} folds, {times} times; relevant: label >= {relevant}")
    print(f"The preset's trees are the built-in's, digit by digit, in {sum(same)} of {len(same)} trainings.")
    means = {step: found.mean(axis=1) for step, found in values.items()}  # of a query, over the repeats
    rows = {}
    for step, found in means.items():
        p = stats.ttest_rel(found, means["objective='lambdarank'"], axis=1, nan_policy="omit").pvalue
        rows[step] = [f"{np.nanmean(own):.4f}{'*' if one < 0.05 else ' '}" for own, one in zip(found, p, strict=True)]
        rows[step].append(f"{np.mean(grown[step]):.0f}")
    print(pd.DataFrame(rows, index=[*measures, "trees"]).T.to_string())
    print("* differs from the first line, paired t-test over queries at 95 %")
    picture(
        name,
        {step: np.nanmean(found, axis=1) for step, found in means.items()},
        axes,
        report := differ(*first, relevant),
    )
    return report


def differ(part, builtin, relevant):
    """From the preset's gradients to those of MAP, at a model of the built-in."""
    return lp.analysis.explain_difference(
        lp.presets.lightgbm(),
        lp.LambdaRank(lp.MAP(relevant=relevant)),
        labels=part.labels,
        scores=builtin.predict(part.X),
        group=part.group,
    )


def picture(name, values, axes, report):
    bars, cloud = axes
    pd.DataFrame(values, index=["NDCG@10", "MAP", "MRR"]).T.plot.barh(ax=bars, legend=False)
    bars.invert_yaxis()
    bars.set(xlabel="mean over queries", ylabel="trained for", xlim=(0.9 * min(map(min, values.values())), None))
    bars.set_title(f"{name}: one change at a time")
    plotting.legend(bars)
    cloud.plot(report.gradient_a, report.gradient_b / report.scale, ".", markersize=2, alpha=0.4)
    cloud.set(xlabel="gradient of lp.presets.lightgbm()", ylabel="gradient of MAP, scaled")
    cloud.set_title(f"{name}: training documents, correlation {report.correlation:.2f}")


def main():
    parser = common.arguments(__doc__, "migrate.png", queries=400, rounds=300, data=DATA)
    parser.add_argument("--times", type=int, default=3, help="cross-validations, each with other folds")
    parser.add_argument("--relevant", type=int, default=1, help="lowest relevant label of --data")
    options = parser.parse_args()
    if options.data:
        sets = {options.data: (pooled(common.load(options.data)), options.relevant)}
    else:
        sets = {"generated": (lp.data.cubic(100 if options.quick else options.queries, documents=40, noise=0.3), 2)}
        if not options.quick:
            found = {name: common.beside(name) for name in REAL}
            sets |= {name: (pooled(common.load(path)), REAL[name]) for name, path in found.items() if path}
    figure, axes = plt.subplots(2 * len(sets), 1, figsize=(8, 8 * len(sets)))
    reports = {}
    for (name, (data, relevant)), pair in zip(sets.items(), axes.reshape(-1, 2), strict=True):
        reports[name] = study(name, data, relevant, options, pair)
    print(f"--- from the preset (a) to MAP (b), at the built-in's model: {next(iter(reports))}")
    print(next(iter(reports.values())))
    figure.savefig(options.plot)


if __name__ == "__main__":
    main()
