"""Ray Train: xgb.train and lgb.train on several workers with a lambdaplug objective, beside one machine.

    python recipes/ray_train.py                      # generated data, a local Ray with two workers
    python recipes/ray_train.py --data train.txt     # your own LETOR / SVMLight file with query ids

Ray Train's function API runs your function on every worker, and the booster inside finds its fellows. Objective and
callback need nothing special. What you see to is that the shards are cut between queries: data.split does it here.

Prints how many trees have the splits of one machine's. XGBoost's all do here, because the generated features take few
values. LightGBM's workers find the bins of some features each, from their own rows: there, and with XGBoost on features
of many values, it is the quality that is the same: then the difference comes with its interval.

Needs Ray (pip install "lambdaplug[ray,lightgbm,xgboost,recipes]"); without it the recipe exits with 77.
"""

import importlib.util
import os
import re
import sys
import tempfile
from pathlib import Path

if importlib.util.find_spec("ray") is None:
    print("skipped: this recipe needs Ray (pip install 'lambdaplug[ray]').")
    sys.exit(77)

import common
import lightgbm as lgb
import numpy as np
import pandas as pd
import ray
import ray.train
import xgboost as xgb
from ray.train.lightgbm import LightGBMTrainer, get_network_params
from ray.train.xgboost import XGBoostTrainer
from tqdm import tqdm

import lambdaplug as lp
from lambdaplug import plotting

plt = plotting.use()


def with_xgboost(objective, part, rounds, path):
    parameters = {"learning_rate": 0.1, "max_depth": 5, "min_child_weight": 0, "lambda": 1e-3, "nthread": 1}
    parameters |= {"disable_default_eval_metric": 1, "objective": "rank:ndcg"}
    data = xgb.QuantileDMatrix(part.X, part.labels, qid=part.qid)
    model = xgb.train(parameters, data, rounds, obj=objective)
    model.save_model(path)


def with_lightgbm(objective, part, rounds, path, **network):
    parameters = {"objective": objective, "learning_rate": 0.1, "min_sum_hessian_in_leaf": 1e-6, "metric": "None"}
    parameters |= {"verbose": -1, "num_threads": 1, **network}
    data = lgb.Dataset(part.X, part.labels, group=part.group)
    lgb.train(parameters, data, rounds).save_model(path)


def work(config):
    """What every worker does, with its share of the queries."""
    rank = ray.train.get_context().get_world_rank()
    part = ray.get(config["shards"][rank])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.json"
        if config["host"] == "XGBoost":
            with_xgboost(config["objective"], part, config["rounds"], path)
        else:
            # LightGBM must hear that each worker has brought its own rows, and where the others are.
            network = {"tree_learner": "data", "pre_partition": True, **get_network_params()}
            with_lightgbm(config["objective"], part, config["rounds"], path, **network)
        # All have the same model in the end; one hands it over.
        checkpoint = ray.train.Checkpoint.from_directory(folder) if rank == 0 else None
        ray.train.report({"queries": len(part.group)}, checkpoint=checkpoint)


def on_ray(host, objective, train, rounds, workers, folder):
    shards = [ray.put(part) for part in train.split(*[1] * workers)]  # cut between queries
    trainer = {"XGBoost": XGBoostTrainer, "LightGBM": LightGBMTrainer}[host](
        work,
        train_loop_config={"host": host, "objective": objective, "rounds": rounds, "shards": shards},
        scaling_config=ray.train.ScalingConfig(num_workers=workers),
        run_config=ray.train.RunConfig(storage_path=folder, name=host),
    )
    with trainer.fit().checkpoint.as_directory() as found:
        return (Path(found) / "model.json").read_text()


def on_one_machine(host, objective, train, rounds, folder):
    path = Path(folder) / "one.json"
    (with_xgboost if host == "XGBoost" else with_lightgbm)(objective, train, rounds, path)
    return path.read_text()


def splits_and_scores(host, text, X):
    """The trees without their leaf values, whose last digits depend on the order of additions."""
    if host == "XGBoost":
        model = xgb.Booster(model_file=bytearray(text, "utf-8"))
        return [re.sub("leaf=.*", "", tree) for tree in model.get_dump()], model.inplace_predict(X)
    splits = list(
        zip(*(re.findall(f"^{line}=(.*)", text, re.M) for line in ("split_feature", "threshold")), strict=True)
    )
    return splits, lgb.Booster(model_str=text).predict(X)


def main():
    train, test, objective, options = common.on_workers(__doc__, "ray_train.png")
    rounds = options.rounds
    paths = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(Path(lp.__file__).parent.parent)]))
    ray.init(
        num_cpus=options.workers,
        include_dashboard=False,
        log_to_driver=False,
        runtime_env={"env_vars": {"PYTHONPATH": paths}},  # the workers import this lambdaplug
    )
    measures, rows, scores, verdicts = ["ndcg@10", "map"], {}, {}, []
    with tempfile.TemporaryDirectory() as folder:
        for host in tqdm(["XGBoost", "LightGBM"], desc="training", disable=None):
            texts = {
                "one machine": on_one_machine(host, objective, train, rounds, folder),
                f"Ray, {options.workers} workers": on_ray(host, objective, train, rounds, options.workers, folder),
            }
            trees = []
            for where, text in texts.items():
                grown, scores[host, where] = splits_and_scores(host, text, test.X)
                trees.append(grown)
                rows[host, where] = lp.evaluate(measures, test.labels, scores[host, where], test.group)
            same = sum(a == b for a, b in zip(*trees, strict=True))
            pair = [scores[host, where] for where in texts]
            verdicts.append(
                f"{host}: {same} of {rounds} trees have the splits of one machine's; largest difference of two "
            )
            verdicts[-1] += f"scores {np.abs(np.subtract(*pair)).max():.2g}"
            if same < rounds:
                verdicts.append(str(lp.compare("ndcg@10", test.labels, *pair, test.group)))
    ray.shutdown()
    table = pd.DataFrame(rows).T
    print(table.round(4).to_string())
    print("\n".join(verdicts))

    axes = list(plt.subplot_mosaic("AA;BC", figsize=(8, 7))[1].values())
    bars = table.stack().unstack(1)[list(texts)]
    bars.index = [f"{host}, {measure}" for host, measure in bars.index]
    bars.plot.bar(ax=axes[0], rot=0, xlabel="host and measure", ylabel="mean over test queries", legend=False)
    axes[0].set_title("Trained on one machine and by Ray Train")
    plotting.legend(axes[0], loc="lower left", bbox_to_anchor=(0.0, 1.08), ncols=2)
    for axis, host in zip(axes[1:], ["XGBoost", "LightGBM"], strict=True):
        axis.plot(*[found for (name, _), found in scores.items() if name == host], ".", markersize=2)
        axis.set(xlabel="score, one machine", ylabel="score, Ray")
        axis.set_title(f"{host}: test documents")
    plt.savefig(options.plot)


if __name__ == "__main__":
    main()
