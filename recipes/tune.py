"""Tuning: Optuna over measure, sigma, schedule and tree parameters, with pruning, never cutting a query.

    python recipes/tune.py                                        # generated data
    python recipes/tune.py --data train.txt                       # your own LETOR / SVMLight file with query ids
    python recipes/tune.py --storage sqlite:///tune.db            # goes on where it was stopped

Every trial is a LightGBM cross-validation over lp.query_folds, stopped early on the measure that counts (--target) and
given up where it lags behind the median of the others. What to train for is a parameter like the others: often it is not
the target itself. The best trial is trained again on all of these queries and compared with the defaults on test queries.

Needs Optuna (in the extra "recipes").
"""

import argparse

import lightgbm as lgb
import numpy as np
import optuna
import pandas as pd
from tqdm import tqdm

import lambdaplug as lp
from lambdaplug import plotting

plt = plotting.use()

MEASURES = ["ndcg", "ndcg@10", "map"]


def objective_of(parameters, target):
    """The objective that a trial's parameters describe."""
    first = lp.LambdaRank(parameters["measure"], sigma=parameters["sigma"])
    if parameters["schedule"] == "constant":
        return first
    # Moves to the target while the model learns.
    second = lp.LambdaRank(target, sigma=parameters["sigma"])
    pace = parameters["pace"]
    weight = lp.linear(0.0, 1 / pace) if parameters["schedule"] == "linear" else lp.step({0: 0.0, pace: 1.0})
    return lp.interpolate(first, second, weight=weight)


def suggest(trial, rounds):
    parameters = {
        "measure": trial.suggest_categorical("measure", MEASURES),
        "sigma": trial.suggest_float("sigma", 0.3, 3.0, log=True),
        "schedule": trial.suggest_categorical("schedule", ["constant", "linear", "step"]),
        "learning_rate": trial.suggest_float("learning_rate", 0.03, 0.3, log=True),
        "num_leaves": trial.suggest_int("num_leaves", 7, 63, log=True),
        "min_data_in_leaf": trial.suggest_int("min_data_in_leaf", 5, 100, log=True),
        "lambda_l2": trial.suggest_float("lambda_l2", 1e-3, 10.0, log=True),
    }
    if parameters["schedule"] != "constant":
        parameters["pace"] = trial.suggest_int("pace", max(2, rounds // 20), rounds, log=True)
    return parameters


def lightgbm_parameters(parameters, objective, threads):
    # LightGBM's default for min_sum_hessian_in_leaf forbids splits at a small sigma; at 0 its own count of a leaf's rows
    # can fail.
    trees = {key: parameters[key] for key in ("learning_rate", "num_leaves", "min_data_in_leaf", "lambda_l2")}
    quiet = {"metric": "None", "verbose": -1, "min_sum_hessian_in_leaf": 1e-6, "num_threads": threads}
    return {"objective": objective, **trees, **quiet}


def cross_validate(trial, data, folds, target, rounds, threads):
    """The target on the folds' test queries at the best round."""
    parameters = suggest(trial, rounds)
    objective = objective_of(parameters, target)

    def prune(env):
        trial.report(env.evaluation_result_list[0][2], step=env.iteration)
        if trial.should_prune():
            raise optuna.TrialPruned

    history = lgb.cv(
        lightgbm_parameters(parameters, objective, threads),
        lgb.Dataset(data.X, data.labels, group=data.group),
        rounds,
        folds=folds,
        feval=lp.metric(target),
        callbacks=[lgb.early_stopping(max(5, rounds // 10), verbose=False), prune],
    )
    means = next(values for name, values in history.items() if name.endswith("-mean"))
    trial.set_user_attr("rounds", len(means))
    return means[-1]


def train(parameters, data, rounds, target, threads):
    objective = objective_of(parameters, target)
    given = lightgbm_parameters(parameters, objective, threads)
    dataset = lgb.Dataset(data.X, data.labels, group=data.group)
    return lgb.train(given, dataset, rounds)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="a LETOR / SVMLight file with query ids; default: generated data")
    parser.add_argument("--target", default="ndcg@10", help="the measure that counts")
    parser.add_argument("--trials", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=300, help="at most so many trees (early stopping)")
    parser.add_argument("--folds", type=int, default=4)
    parser.add_argument("--storage", help="where Optuna keeps the study; default: nowhere")
    parser.add_argument("--threads", type=int, default=0, help="of LightGBM; 0: all. --quick takes one")
    parser.add_argument("--quick", action="store_true", help="less data, fewer trials and trees")
    parser.add_argument("--plot", default="tune.png", help="where the figures go")
    options = parser.parse_args()
    if options.quick:
        options.trials, options.rounds, options.folds, options.threads = 8, 15, 2, 1
    size = (100, 20, 10) if options.quick else (400, 40, 30)
    data = lp.data.load_letor(options.data) if options.data else lp.data.cubic(*size, noise=0.3)
    known, test = data.split(0.75, 0.25)
    folds = lp.query_folds(known.group, options.folds)

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(
        study_name=f"lambdaplug {options.target}, {options.rounds} rounds, {options.folds} folds",
        storage=options.storage,
        load_if_exists=True,
        direction="maximize",
        sampler=optuna.samplers.TPESampler(seed=0),
        pruner=optuna.pruners.MedianPruner(n_startup_trials=min(5, options.trials // 3), n_warmup_steps=3),
    )
    default = {"measure": options.target, "sigma": 1.0, "schedule": "constant", "learning_rate": 0.1}
    default |= {"num_leaves": 31, "min_data_in_leaf": 20, "lambda_l2": 1e-3}
    if options.target in MEASURES and not study.trials:
        study.enqueue_trial(default)
    with tqdm(total=options.trials, desc="trials", disable=None) as bar:
        study.optimize(
            lambda trial: cross_validate(trial, known, folds, options.target, options.rounds, options.threads),
            n_trials=options.trials,
            callbacks=[lambda *_: bar.update()],
        )

    done = [trial for trial in study.trials if trial.state is optuna.trial.TrialState.COMPLETE]
    pruned = [trial for trial in study.trials if trial.state is optuna.trial.TrialState.PRUNED]
    best = sorted(done, key=lambda trial: -trial.value)
    rows = [{options.target: trial.value, **trial.params, "rounds": trial.user_attrs["rounds"]} for trial in best[:5]]
    print(
        f"{len(folds)} folds over {len(known.group)} queries; {len(done)} trials done, {len(pruned)} pruned; the best:"
    )
    print(pd.DataFrame(rows, index=[trial.number for trial in best[:5]]).round(4).fillna("-").to_string())

    baseline = next((trial for trial in done if trial.params == default), None)
    rounds = options.rounds if baseline is None else baseline.user_attrs["rounds"]
    models = {
        "default": train(default, known, rounds, options.target, options.threads),
        "tuned": train(best[0].params, known, best[0].user_attrs["rounds"], options.target, options.threads),
    }
    scores = [model.predict(test.X) for model in models.values()]
    print(f"\non {len(test.group)} test queries, default (a) and tuned (b):")
    print(lp.compare(options.target, test.labels, *scores, test.group))

    axes = plt.subplots(3, 1, figsize=(8, 9))[1]
    for trial in study.trials:
        steps = sorted(trial.intermediate_values.items())
        color = plotting.ORANGE if trial in pruned else plotting.BLUE
        axes[0].plot(*np.array(steps).T, color=color, alpha=0.4, linewidth=1)
    target = f"validation {options.target}"
    axes[0].set(xlabel="iteration", ylabel=target)
    axes[0].set_title("Every trial: blue done, orange pruned")
    axes[1].plot([t.number for t in done], [t.value for t in done], "o", label="trial")
    axes[1].plot([t.number for t in done], np.maximum.accumulate([t.value for t in done]), label="best so far")
    axes[1].set(xlabel="number of the trial", ylabel=target)
    axes[1].set_title("Trials that were done")
    plotting.integers(axes[1].xaxis)
    for measure in MEASURES:
        points = [(trial.params["sigma"], trial.value) for trial in done if trial.params["measure"] == measure]
        axes[2].plot(*np.array(points).reshape(-1, 2).T, "o", label=measure)
    axes[2].set(xscale="log", xlabel="sigma, the steepness of the pair cost", ylabel=target)
    axes[2].set_title("By the measure trained for")
    for axis in axes[1:]:
        plotting.legend(axis)
    plt.savefig(options.plot)


if __name__ == "__main__":
    main()
