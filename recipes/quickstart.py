"""Train for what you measure: built-in objectives beside lambdaplug's, in LightGBM and XGBoost.

    python recipes/quickstart.py                      # generated data
    python recipes/quickstart.py --data train.txt     # your own LETOR / SVMLight file with query ids

One table: test NDCG@10, MAP and MRR (documents labelled --relevant or more count as relevant) of each model.
"""

import argparse

import lightgbm as lgb
import matplotlib
import pandas as pd
import xgboost as xgb
from tqdm import tqdm

import lambdaplug as lp

matplotlib.use("Agg")
import matplotlib.pyplot as plt


def train_lightgbm(objective, train, valid, metric, rounds):
    data = lgb.Dataset(train.X, train.labels, group=train.group)
    check = lgb.Dataset(valid.X, valid.labels, group=valid.group, reference=data)
    # LightGBM's default for min_sum_hessian_in_leaf is on the scale of other losses. 1e-12 suits a ranking
    # objective; at 0 LightGBM may stop with an error of its own.
    parameters = {"objective": objective, "metric": "None", "learning_rate": 0.1, "min_sum_hessian_in_leaf": 1e-12}
    model = lgb.train(
        {**parameters, "verbose": -1},
        data,
        rounds,
        valid_sets=[check],
        feval=metric,
        callbacks=[lgb.early_stopping(30, verbose=False)],
    )
    return model.predict


def train_xgboost(objective, train, valid, metric, rounds):
    data, check = (xgb.DMatrix(part.X, part.labels, qid=part.qid) for part in (train, valid))
    # The same for XGBoost's min_child_weight; lambda is on that scale too.
    parameters = {"learning_rate": 0.1, "max_leaves": 31, "grow_policy": "lossguide", "max_depth": 0}
    parameters |= {"min_child_weight": 0, "lambda": 1e-3, "disable_default_eval_metric": 1}
    builtin = isinstance(objective, str)
    model = xgb.train(
        {**parameters, "objective": objective if builtin else "rank:ndcg"},
        data,
        rounds,
        evals=[(check, "valid")],
        obj=None if builtin else objective,
        custom_metric=metric,
        early_stopping_rounds=30,
        verbose_eval=False,
    )
    return lambda X: model.predict(xgb.DMatrix(X), iteration_range=(0, model.best_iteration + 1))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="a LETOR / SVMLight file with query ids; default: generated data")
    parser.add_argument("--relevant", type=float, help="lowest relevant label; default 2 for generated data, else 1")
    parser.add_argument("--rounds", type=int, default=200, help="at most so many trees (early stopping)")
    parser.add_argument("--quick", action="store_true", help="less data and fewer trees")
    parser.add_argument("--plot", default="quickstart.png", help="where the bar chart goes")
    options = parser.parse_args()

    data = lp.data.load_letor(options.data) if options.data else lp.data.cubic(150 if options.quick else 450, noise=0.3)
    relevant = options.relevant or (1 if options.data else 2)
    train, valid, test = data.split(0.6, 0.2, 0.2)
    rounds = min(options.rounds, 20) if options.quick else options.rounds

    ndcg, average_precision, first = lp.NDCG(k=10), lp.MAP(relevant=relevant), lp.MRR(relevant=relevant)
    measures = [ndcg, average_precision, first]
    runs = [
        ("LightGBM", train_lightgbm, "lambdarank", ndcg),
        *[("LightGBM", train_lightgbm, lp.LambdaRank(measure), measure) for measure in measures],
        ("XGBoost", train_xgboost, "rank:ndcg", ndcg),
        *[("XGBoost", train_xgboost, lp.LambdaRank(measure), measure) for measure in measures],
    ]
    rows = {}
    for host, fit, objective, stop_on in tqdm(runs, desc="training", disable=None):
        predict = fit(objective, train, valid, lp.metric(stop_on), rounds)
        name = objective if isinstance(objective, str) else repr(objective)
        rows[host, name] = lp.evaluate(measures, test.labels, predict(test.X), test.group)

    table = pd.DataFrame(rows).T.rename(columns=dict(zip(map(str, measures), ["NDCG@10", "MAP", "MRR"], strict=True)))
    marked = table.apply(lambda column: [f"{x:.4f}{'*' if x == column.max() else ' '}" for x in column])
    print(f"{len(train.group)} / {len(valid.group)} / {len(test.group)} queries; relevant: label >= {relevant:g}")
    print(marked.to_string())
    print("* best of its column")

    axes = table.plot.bar(subplots=True, layout=(1, 3), figsize=(11, 4), legend=False, rot=90)[0]
    for axis, column in zip(axes, table, strict=True):
        axis.set_ylim(table[column].min() * 0.95, table[column].max() * 1.02)
    plt.tight_layout()
    plt.savefig(options.plot, dpi=120)


if __name__ == "__main__":
    main()
