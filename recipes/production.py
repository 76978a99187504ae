"""In production: train with early stopping and checkpoints, kill -9, resume to the identical model, export, serve.

    python recipes/production.py                      # generated data
    python recipes/production.py --data train.txt     # your own LETOR / SVMLight file with query ids

For each host: one training that is left alone, and one in a process that is killed in the middle and started again. A
training writes a line of JSON per round (journal.jsonl) and every few rounds a checkpoint. Started again, it goes on from
the checkpoint: the callback tells the objective the true iteration, so that its schedule goes on too, and early stopping
reads the best round so far from the journal. The two models are compared byte by byte, then loaded in a process that
cannot import lambdaplug, and their scores compared.

What would not survive is the boosters' own random generators, which start anew: bagging, feature_fraction, subsample and
colsample_* give an equally good model, not the identical one. The objectives' random draws follow the iteration.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import lambdaplug as lp

# From the judged order at large towards its top, round by round.
OBJECTIVE = lp.interpolate(lp.LambdaRank("ndcg"), lp.LambdaRank("ndcg@10"), weight=lp.linear(0.0, 0.02))
METRIC = "ndcg@10"
MODELS = {"LightGBM": "model.txt", "XGBoost": "model.ubj"}

SERVE = """
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "lambdaplug":
            raise ImportError("there is no lambdaplug here")

sys.meta_path.insert(0, Refuse())
import lightgbm, numpy, xgboost
X = numpy.load(sys.argv[1])
for path in sys.argv[2:]:
    if path.endswith(".txt"):
        scores = lightgbm.Booster(model_file=path).predict(X)
    else:
        scores = xgboost.Booster(model_file=path).inplace_predict(X)
    numpy.save(path + ".npy", scores)
"""


def replace(path, write):
    """Write a file so that it is there whole or not at all, whenever the process dies."""
    new = path.with_name("new-" + path.name)
    write(new)
    os.replace(new, path)


class Journal:
    """A line of JSON per round. What early stopping must know is in it, so that nothing is lost with the process."""

    def __init__(self, path, rounds, options):
        lines = (
            path.read_text().splitlines()[:rounds] if path.exists() else []
        )  # rounds after the checkpoint come again
        replace(path, lambda new: new.write_text("".join(line + "\n" for line in lines)))
        self.values = [json.loads(line)[METRIC] for line in lines]
        self.file, self.options = path.open("a"), options

    def add(self, iteration, value):
        """Returns whether to stop."""
        self.values.append(value)
        line = {"iteration": iteration, METRIC: value, "time": time.time(), "process": os.getpid()}
        self.file.write(json.dumps(line) + "\n")
        self.file.flush()
        os.fsync(self.file.fileno())
        if iteration + 1 == self.options.hold:
            time.sleep(600)
        return iteration - self.best >= self.options.patience

    @property
    def best(self):
        return int(np.argmax(self.values))

    @property
    def over(self):
        """Whether the training had ended already, and only the export is left to do."""
        rounds = len(self.values)
        return rounds == self.options.rounds or (rounds > 0 and rounds - 1 - self.best >= self.options.patience)


def train_lightgbm(folder, train, valid, options):
    import lightgbm as lgb

    checkpoint = folder / "checkpoint.txt"
    done = lgb.Booster(model_file=checkpoint).num_trees() if checkpoint.exists() else 0
    journal = Journal(folder / "journal.jsonl", done, options)

    def after_round(env):
        stop = journal.add(env.iteration, env.evaluation_result_list[0][2])
        if (env.iteration + 1) % options.every == 0:
            replace(checkpoint, env.model.save_model)
        if stop:
            raise lgb.callback.EarlyStopException(journal.best, env.evaluation_result_list)

    data = lgb.Dataset(train.X, train.labels, group=train.group)
    if journal.over:
        model = lgb.Booster(model_file=checkpoint)
    else:
        model = lgb.train(
            {"objective": OBJECTIVE, "metric": "None", "verbose": -1, "min_sum_hessian_in_leaf": 1e-6}
            | {"learning_rate": 0.1, "num_threads": options.threads},
            data,
            options.rounds - done,
            valid_sets=[lgb.Dataset(valid.X, valid.labels, group=valid.group, reference=data)],
            feval=lp.metric(METRIC),
            callbacks=[after_round],
            init_model=checkpoint if done else None,
        )
    # Stamped, for readers that ask a model for its objective. Its parameters say how many rounds a process was to make.
    text = lp.stamp(model.model_to_string(num_iteration=journal.best + 1))
    text = re.sub(r"\[num_iterations: \d+\]", f"[num_iterations: {options.rounds}]", text)
    replace(folder / MODELS["LightGBM"], lambda new: new.write_text(text))


def train_xgboost(folder, train, valid, options):
    import xgboost as xgb

    checkpoint = folder / "checkpoint.ubj"
    done = xgb.Booster(model_file=checkpoint).num_boosted_rounds() if checkpoint.exists() else 0
    journal = Journal(folder / "journal.jsonl", done, options)

    class AfterRound(xgb.callback.TrainingCallback):
        def after_iteration(self, model, epoch, evals_log):
            rounds = model.num_boosted_rounds()
            stop = journal.add(rounds - 1, evals_log["valid"][METRIC][-1])
            if rounds % options.every == 0:
                replace(checkpoint, model.save_model)
            return stop

    data, check = (xgb.DMatrix(part.X, part.labels, qid=part.qid) for part in (train, valid))
    if journal.over:
        model = xgb.Booster(model_file=checkpoint)
    else:
        model = xgb.train(
            {"objective": "rank:ndcg", "disable_default_eval_metric": 1, "min_child_weight": 0, "lambda": 1e-3}
            | {"learning_rate": 0.1, "nthread": options.threads},
            data,
            options.rounds - done,
            obj=OBJECTIVE,
            evals=[(check, "valid")],
            custom_metric=lp.metric(METRIC),
            verbose_eval=False,
            callbacks=[AfterRound()],
            xgb_model=checkpoint if done else None,
        )
    replace(folder / MODELS["XGBoost"], model[: journal.best + 1].save_model)


TRAIN = {"LightGBM": train_lightgbm, "XGBoost": train_xgboost}


def kill_in_the_middle(command, journal, after):
    """Start a training and kill -9 it when its journal has so many lines, where it waits for that."""
    process = subprocess.Popen([*command, "--hold", str(after)])
    while process.poll() is None:
        if journal.exists() and len(journal.read_text().splitlines()) >= after:
            process.send_signal(signal.SIGKILL)
            process.wait()
        time.sleep(0.01)
    if process.returncode != -signal.SIGKILL:
        raise RuntimeError(f"the training ended with {process.returncode} before it could be killed")
    return len(journal.read_text().splitlines())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="a LETOR / SVMLight file with query ids; default: generated data")
    parser.add_argument("--rounds", type=int, default=400, help="at most so many trees (early stopping)")
    parser.add_argument("--patience", type=int, default=30, help="rounds without a better one before it stops")
    parser.add_argument("--every", type=int, default=5, help="rounds from checkpoint to checkpoint")
    parser.add_argument("--hold", type=int, help="wait after this round, to be killed there")
    parser.add_argument("--threads", type=int, default=0, help="of the boosters; 0: all. --quick takes one")
    parser.add_argument("--quick", action="store_true", help="less data and fewer trees")
    parser.add_argument("--plot", default="production.png", help="where the learning curves go")
    parser.add_argument("--train", nargs=2, metavar=("HOST", "FOLDER"), help="one training only, or the rest of it")
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.patience, options.every, options.threads = min(options.rounds, 60), 6, 2, 1
    size = (100, 20, 8) if options.quick else (300, 50, 50)
    data = lp.data.load_letor(options.data) if options.data else lp.data.cubic(*size, noise=0.5)
    train, valid, test = data.split(0.6, 0.2, 0.2)
    if options.train:
        TRAIN[options.train[0]](Path(options.train[1]), train, valid, options)
        return

    import pandas as pd
    from tqdm import tqdm

    from lambdaplug import plotting

    axis = plotting.use().subplots()[1]
    with tempfile.TemporaryDirectory() as name:
        root, rows, curves = Path(name), {}, {}
        for host, model in tqdm(MODELS.items(), desc="training", disable=None):
            alone, killed = root / host / "alone", root / host / "killed"
            alone.mkdir(parents=True)
            killed.mkdir()
            command = [sys.executable, *sys.argv, "--train", host, killed]
            TRAIN[host](alone, train, valid, options)
            curves[host] = pd.read_json(alone / "journal.jsonl", lines=True)
            last = len(curves[host])
            # After the best round and before the last: what early stopping knows must outlive the process.
            reached = kill_in_the_middle(command, killed / "journal.jsonl", last - options.patience // 3)
            subprocess.run(command, check=True)
            again = pd.read_json(killed / "journal.jsonl", lines=True)
            rows[host] = {
                "killed after round": reached,
                "resumed after round": sum(again["process"] != again["process"].iloc[-1]),
                "best round": again[METRIC].argmax() + 1,
                "stopped after round": len(again),
                "same journal": again[METRIC].equals(curves[host][METRIC]),
                "same model, byte by byte": (alone / model).read_bytes() == (killed / model).read_bytes(),
            }
        paths = [str(root / host / "killed" / model) for host, model in MODELS.items()]
        np.save(root / "X.npy", test.X)
        subprocess.run([sys.executable, "-c", SERVE, str(root / "X.npy"), *paths], check=True)
        import lightgbm as lgb
        import xgboost as xgb

        here = (
            lgb.Booster(model_file=paths[0]).predict(test.X),
            xgb.Booster(model_file=paths[1]).inplace_predict(test.X),
        )
        for host, path, scores in zip(MODELS, paths, here, strict=True):
            served = np.load(path + ".npy")
            rows[host]["same scores without lambdaplug"] = np.array_equal(served, scores)
            rows[host][f"test {METRIC}"] = round(lp.evaluate(METRIC, test.labels, served, test.group)[METRIC], 4)
    print(f"{OBJECTIVE!r}, {len(train.group)} / {len(valid.group)} / {len(test.group)} queries")
    print(pd.DataFrame(rows).to_string())

    for (host, curve), row in zip(curves.items(), rows.values(), strict=True):
        (line,) = axis.plot(curve["iteration"] + 1, curve[METRIC], label=host)
        axis.axvline(row["killed after round"], color=line.get_color(), linestyle=":", label=f"{host}: kill -9")
    axis.set(xlabel="iteration", ylabel=f"validation {METRIC}")
    axis.set_title("Killed, resumed, and the same model")
    plotting.legend(axis)
    axis.figure.savefig(options.plot)
    if not all(value for row in rows.values() for name, value in row.items() if name.startswith("same")):
        sys.exit("the resumed training did not give the model of the one left alone")


if __name__ == "__main__":
    main()
