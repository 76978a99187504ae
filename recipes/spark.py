"""Spark: SparkXGBRanker with a lambdaplug objective on several workers, beside one machine.

    python recipes/spark.py                      # generated data, a local Spark with two workers
    python recipes/spark.py --data train.txt     # your own LETOR / SVMLight file with query ids

XGBoost's Spark estimator takes objectives by name only. PluggedRanker below overrides the one method that collects the
arguments of the workers' xgb.train, and adds obj= and the callback. force_repartition=True is a must: without it a
partition's end may cut a query in two, without an error.

Prints how many trees have the splits of one machine's. All have them here, because the generated features take few
values; where XGBoost's workers have to estimate the bins from their own rows, or Spark does not keep the order of a
query's rows, it is the quality that is the same: the difference comes with its interval.

Needs pyspark and Java 17 (pip install "lambdaplug[spark,xgboost,recipes]"); without them it exits with 77.
"""

import importlib.util
import os
import re
import shutil
import sys

if importlib.util.find_spec("pyspark") is None or shutil.which("java") is None:
    print("skipped: this recipe needs pyspark (pip install 'lambdaplug[spark]') and Java 17.")
    sys.exit(77)

import common
import numpy as np
import pandas as pd
import xgboost as xgb
from pyspark.sql import SparkSession
from xgboost.spark import SparkXGBRanker

import lambdaplug as lp
from lambdaplug import plotting

plt = plotting.use()

PARAMETERS = {"learning_rate": 0.1, "max_depth": 5, "min_child_weight": 0, "reg_lambda": 1e-3, "tree_method": "hist"}
PARAMETERS |= {"disable_default_eval_metric": 1, "objective": "rank:ndcg"}  # what the model says; gradients are ours


class PluggedRanker(SparkXGBRanker):
    """SparkXGBRanker whose workers train with a lambdaplug objective: ``PluggedRanker(...).plug(objective)``."""

    def plug(self, objective):
        if not self.getOrDefault(self.force_repartition):
            raise lp.LambdaplugError("PluggedRanker: set force_repartition=True, or workers get parts of queries.")
        self.plugged = {"obj": objective}
        return self

    def _get_xgb_parameters(self, dataset):
        booster, training, matrix = super()._get_xgb_parameters(dataset)
        return booster, {**training, **self.plugged}, matrix


def start_spark(workers):
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # the workers import lambdaplug too
    builder = SparkSession.builder.master(f"local[{workers}]").config("spark.log.level", "ERROR")
    return builder.config("spark.ui.enabled", "false").config("spark.ui.showConsoleProgress", "false").getOrCreate()


def on_spark(session, objective, train, rounds, workers):
    rows = zip(train.X.tolist(), train.labels.tolist(), train.qid.tolist(), strict=True)
    table = session.createDataFrame(list(rows), "features array<float>, label float, qid long")
    ranker = PluggedRanker(
        features_col="features",
        label_col="label",
        qid_col="qid",
        num_workers=workers,
        force_repartition=True,
        n_estimators=rounds,
        **PARAMETERS,
    )
    return ranker.plug(objective).fit(table).get_booster()


def on_one_machine(objective, train, rounds):
    data = xgb.QuantileDMatrix(train.X, train.labels, qid=train.qid)
    return xgb.train(PARAMETERS, data, rounds, obj=objective)


def splits(model):
    """The trees without their leaf values, whose last digits depend on the order of additions."""
    return [re.sub("leaf=.*", "", tree) for tree in model.get_dump()]


def main():
    train, test, objective, options = common.on_workers(__doc__, "spark.png")
    rounds = options.rounds
    session = start_spark(options.workers)
    models = {
        "one machine": on_one_machine(objective, train, rounds),
        f"Spark, {options.workers} workers": on_spark(session, objective, train, rounds, options.workers),
    }
    session.stop()

    scores = {name: model.inplace_predict(test.X) for name, model in models.items()}
    measures = ["ndcg@10", "map"]
    table = {name: lp.evaluate(measures, test.labels, found, test.group) for name, found in scores.items()}
    print(pd.DataFrame(table).T.round(4).to_string())
    one, many = (splits(model) for model in models.values())
    same = sum(a == b for a, b in zip(one, many, strict=True))
    print(f"{same} of {rounds} trees have the splits of one machine's", end="; ")
    print(f"largest difference of two scores {np.abs(np.subtract(*scores.values())).max():.2g}")
    print(lp.compare("ndcg@10", test.labels, *scores.values(), test.group))

    axes = plt.subplots(1, 2, figsize=(10, 4))[1]
    pd.DataFrame(table).plot.bar(ax=axes[0], rot=0, xlabel="measure", ylabel="mean over test queries", legend=False)
    axes[0].set_title("Trained on one machine and on Spark")
    plotting.legend(axes[0], loc="lower left", bbox_to_anchor=(0.0, 1.08), ncols=2)
    first, second = scores.values()
    axes[1].plot(first, second, ".", markersize=2)
    axes[1].set(xlabel="score, one machine", ylabel="score, Spark")
    axes[1].set_title(f"Test documents: at most {np.abs(first - second).max():.1g} apart")
    plt.savefig(options.plot)


if __name__ == "__main__":
    main()
