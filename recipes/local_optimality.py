"""Is a boosted model a local optimum of the measure it was trained for? A certificate, and one step further.

    python recipes/local_optimality.py                      # generated data
    python recipes/local_optimality.py --data train.txt     # your own LETOR / SVMLight file with query ids

"On the local optimality of LambdaRank" (2009). Moves all leaf values of a model along 459 random directions and measures
again: if none improves, fewer than 1 % of directions do, with 99 % confidence. For NDCG, NDCG@10, MAP and MRR in LightGBM
and XGBoost, with the paper's Figures 1-4; for a model trained for another measure, an early model, and random leaf
values (Figure 6). Then lp.analysis.polish walks the leaf values of each model uphill, on its own training queries or on fresh ones.
"""

import argparse

import lightgbm as lgb
import matplotlib
import numpy as np
import xgboost as xgb
from tqdm import tqdm

import lambdaplug as lp

matplotlib.use("Agg")
import matplotlib.pyplot as plt


def train_lightgbm(measure, part, rounds):
    parameters = {"objective": lp.LambdaRank(measure), "verbose": -1, "min_sum_hessian_in_leaf": 1e-12}
    return lgb.train(parameters, lgb.Dataset(part.X, part.labels, group=part.group), rounds)


def train_xgboost(measure, part, rounds):
    parameters = {"max_leaves": 31, "grow_policy": "lossguide", "max_depth": 0, "learning_rate": 0.1}
    parameters |= {"min_child_weight": 0, "lambda": 1e-3, "disable_default_eval_metric": 1}
    data = xgb.DMatrix(part.X, part.labels, qid=part.qid)
    return xgb.train(parameters, data, rounds, obj=lp.LambdaRank(measure))


def predict(model, X):
    return model.predict(X) if isinstance(model, lgb.Booster) else model.predict(xgb.DMatrix(X))


def with_random_leaves(model, seed=0):
    """The same trees with normally distributed leaf values."""
    leaves = lp.hosts.leaves.leaves_of(model)
    return leaves.rebuilt(np.random.default_rng(seed).normal(size=len(leaves.values)))


def polish(models, measures, parts, rounds, hosts):
    """lp.analysis.polish on the training queries and on fresh ones, beside training anew; returns the traces."""
    part, fresh, valid, test = parts
    # Polishing on fresh queries also means more data: trained anew on both is what to compare it with.
    both = lp.data.RankingData(*(np.concatenate(arrays) for arrays in zip(part, fresh, strict=True)))
    print(
        "\nlp.polish, as far as validation agrees, beside training anew; test queries, * differs from the first at 95 %:"
    )
    print(f"{'':27}  as trained  polished, own queries  polished, fresh queries  trained anew on both")
    polished = {}
    for host, train in hosts.items():
        for measure in tqdm(measures, desc="polishing", disable=None):
            model = models[host, f"for {measure}", str(measure)]
            systems = {"as trained": model}
            for name, walk in (("own", part), ("fresh", fresh)):
                better, trace = lp.analysis.polish(
                    model, *walk, measure, valid=valid, progress=False, return_trace=True
                )
                systems[name], polished[host, str(measure), name] = better, trace
            systems["both"] = train(measure, both, rounds)
            scores = {name: predict(one, test.X) for name, one in systems.items()}
            board = lp.leaderboard(scores, measure, test.labels, test.group, baseline="as trained")
            cells = [
                f"{board.means[str(measure)][name]:.4f}{'*' if board.differs(str(measure), name) else ' '}"
                for name in systems
            ]
            print(
                f"{host:8}  {measure!s:15}  "
                + "  ".join(c.rjust(w) for c, w in zip(cells, (12, 22, 24, 21), strict=True))
            )
    return polished


def draw(reports, polished, measures):
    own = [*[(f"for {measure}", str(measure)) for measure in measures], ("random leaf values", str(measures[0]))]
    figure, axes = plt.subplots(3, len(own), figsize=(4 * len(own), 11))
    for line, host in zip(axes, ("LightGBM", "XGBoost"), strict=False):
        for axis, (name, measure) in zip(line, own, strict=True):
            reports[host, name, measure].plot(axis)
            axis.set_title(f"{host}, {name}", fontsize="medium")
            axis.tick_params(axis="x", labelsize="small", rotation=45)
            axis.get_legend().remove()
    for axis, measure in zip(axes[2], measures, strict=False):
        reports["LightGBM", f"for {measure}", str(measure)].plot_weights(axis)
        axis.set_title("LightGBM, one leaf value at a time", fontsize="medium")
    for (host, measure, name), trace in polished.items():
        if host == "LightGBM":
            gain = [row["valid"] - trace[0]["valid"] for row in trace]
            axes[2, -1].plot(gain, ".-" if name == "fresh" else ".:", label=f"{measure}, {name} queries")
    axes[2, -1].set(title="LightGBM, polishing: change on validation", xlabel="accepted steps")
    axes[2, -1].legend(fontsize="x-small")
    return figure


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="a LETOR / SVMLight file with query ids; default: generated data")
    parser.add_argument("--relevant", type=float, help="lowest relevant label; default 2 for generated data, else 1")
    parser.add_argument("--queries", type=int, default=600, help="of the generated data to train on")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--directions", type=int, default=459)
    parser.add_argument(
        "--quick", action="store_true", help="less data, fewer trees and directions, LightGBM's extras only"
    )
    parser.add_argument("--plot", default="local_optimality.png", help="where the figures go")
    options = parser.parse_args()
    rounds, directions = (15, 60) if options.quick else (options.rounds, options.directions)
    if options.data:
        data = lp.data.load_letor(options.data)
    else:
        queries = 60 if options.quick else options.queries
        data = lp.data.cubic(int(queries / 0.4), documents=20 if options.quick else 50, features=20, noise=0.3)
    part, fresh, valid, test = data.split(0.4, 0.2, 0.2, 0.2)
    relevant = options.relevant or (1 if options.data else 2)
    measures = [lp.NDCG(), lp.NDCG(k=10), lp.MAP(relevant=relevant), lp.MRR(relevant=relevant)]

    models = {}  # host, name, model, the measure to examine it by
    hosts = {"LightGBM": train_lightgbm, "XGBoost": train_xgboost}
    for host, train in hosts.items():
        for measure in measures:
            models[host, f"for {measure}", str(measure)] = train(measure, part, rounds)
        ndcg, ndcg10, _, first = measures
        models[host, f"for {first}", str(ndcg10)] = models[host, f"for {first}", str(first)]
        models[host, f"for {ndcg}", str(first)] = models[host, f"for {ndcg}", str(ndcg)]
        models[host, f"{rounds // 10} trees for {ndcg10}", str(ndcg10)] = train(ndcg10, part, max(1, rounds // 10))
        models[host, "random leaf values", str(ndcg)] = with_random_leaves(models[host, f"for {ndcg}", str(ndcg)])
    reports = {}
    for (host, name, measure), model in tqdm(models.items(), desc="examining", disable=None):
        report = lp.analysis.local_optimality(model, *part, measure, directions=directions, progress=False)
        reports[host, name, measure] = report

    rows = len(part.labels)
    print(
        f"{rows:,} rows in {len(part.group):,} queries, {rounds} trees, {directions} directions x {len(report.steps)} steps"
    )
    width = max(len(name) for _, name, _ in reports)
    print(
        f"{'':8}  {'trained':{width}}  {'by':15}  {'value':>6}  {'optimum':>7}  {'sure':>5}  {'higher':>6}  {'best':>9}  at step  {'single':>6}  seconds"
    )
    for (host, name, measure), report in reports.items():
        higher = (report.trial.change > 0).any(axis=1).mean()
        alone = report.single_improves.any(axis=1).mean()
        print(
            f"{host:8}  {name:{width}}  {measure:15}  {report.value:.4f}  {'yes' if report.optimum else 'NO':>7}  "
            f"{report.improving:5d}  {higher:6.0%}  {report.best_improvement:+9.5f}  {report.best_step:7g}  {alone:6.0%}  {report.seconds:7.1f}"
        )
    print(
        "sure: directions that improve significantly at some step; higher: share of directions higher at some step, by however\n"
        "little; best: the largest change found; single: share of 100 leaf values that improve significantly when moved alone"
    )
    print(reports["LightGBM", f"for {measures[1]}", str(measures[1])])

    parts = part, fresh, valid, test
    polished = polish(models, measures, parts, rounds, dict(list(hosts.items())[: 1 if options.quick else 2]))
    figure = draw(reports, polished, measures)
    figure.tight_layout()
    figure.savefig(options.plot, dpi=90)


if __name__ == "__main__":
    main()
