"""From the booster's own objective to yours, one change at a time.

    python recipes/migrate.py                    # generated data, and ../shared/data where it is found
    python recipes/migrate.py --data file.npz    # your own: arrays X, y, qid, split (0, 1, 2)

Starts from LightGBM's lambdarank, replaces it by its preset (the same trees, which is checked), then by true NDCG@10 and
by MAP with the built-in's two normalisations, and arrives at lp.objective: with noise, supported by whole-list NDCG. Test
figures of each step with paired tests against the built-in; what the gradients of the steps do to the built-in's model, by
lp.analysis.explain_difference.
"""

import common
import lightgbm as lgb
import pandas as pd
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


def study(name, parts, relevant, rounds, axes):
    part, valid, test = parts
    measures = [lp.NDCG(k=10), lp.MAP(relevant=relevant), lp.MRR(relevant=relevant)]
    models = {
        step: train(objective, part, valid, rounds)
        for step, objective in tqdm(steps(relevant).items(), desc=name, disable=None)
    }
    builtin, preset = (models[step] for step in list(models)[:2])
    same = trees(builtin) == trees(preset)
    print(f"--- {name}: {' / '.join(str(len(one.group)) for one in parts)} queries; relevant: label >= {relevant}")
    print(f"The preset's {preset.num_trees()} trees are the built-in's, digit by digit: {'yes' if same else 'NO'}")
    scores = {step: model.predict(test.X) for step, model in models.items()}
    base = scores["objective='lambdarank'"]
    rows, values = {}, {}
    for step in models:
        found = [lp.compare(measure, test.labels, base, scores[step], test.group) for measure in measures]
        values[step] = [one.mean_b for one in found]
        # Against itself there is nothing to test.
        stars = ["*" if one.wins + one.losses and one.p_t < 0.05 else " " for one in found]
        rows[step] = [f"{value:.4f}{star}" for value, star in zip(values[step], stars, strict=True)]
        rows[step].append(str(models[step].best_iteration))
    print(pd.DataFrame(rows, index=["NDCG@10", "MAP", "MRR", "trees"]).T.to_string())
    print("* differs from the first line, paired t-test at 95 %")

    bars, cloud = axes
    pd.DataFrame(values, index=["NDCG@10", "MAP", "MRR"]).T.plot.barh(ax=bars, legend=False)
    bars.invert_yaxis()
    bars.set(xlabel="mean over test queries", ylabel="trained for", xlim=(0.9 * min(map(min, values.values())), None))
    bars.set_title(f"{name}: one change at a time")
    plotting.legend(bars)
    report = lp.analysis.explain_difference(
        lp.presets.lightgbm(),
        lp.LambdaRank(lp.MAP(relevant=relevant)),
        labels=part.labels,
        scores=builtin.predict(part.X),
        group=part.group,
    )
    cloud.plot(report.gradient_a, report.gradient_b / report.scale, ".", markersize=2, alpha=0.4)
    cloud.set(xlabel="gradient of lp.presets.lightgbm()", ylabel="gradient of MAP, scaled")
    cloud.set_title(f"{name}: training documents, correlation {report.correlation:.2f}")
    return report


def main():
    parser = common.arguments(__doc__, "migrate.png", queries=400, rounds=300, data=DATA)
    parser.add_argument("--relevant", type=int, default=1, help="lowest relevant label of --data")
    options = parser.parse_args()
    if options.data:
        sets = {options.data: (common.load(options.data), options.relevant)}
    else:
        queries = 100 if options.quick else options.queries
        sets = {"generated": (lp.data.cubic(queries, documents=40, noise=0.3).split(0.6, 0.2, 0.2), 2)}
        if not options.quick:
            found = {name: common.beside(name) for name in REAL}
            sets |= {name: (common.load(path), REAL[name]) for name, path in found.items() if path}
    figure, axes = plt.subplots(2 * len(sets), 1, figsize=(8, 8 * len(sets)))
    reports = {}
    for (name, (parts, relevant)), pair in zip(sets.items(), axes.reshape(-1, 2), strict=True):
        reports[name] = study(name, parts, relevant, 15 if options.quick else options.rounds, pair)
    print(f"--- from the preset (a) to MAP (b), at the built-in's model: {next(iter(reports))}")
    print(next(iter(reports.values())))
    figure.savefig(options.plot)


if __name__ == "__main__":
    main()
