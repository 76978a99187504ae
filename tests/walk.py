"""The calls from a host's ``train`` to the float32 arrays of one round, and back.

    python tests/walk.py [--host xgboost] [--objective "ndcg@10"]

Every line is a call into another file of the package, indented below the one that it came from, four deep; a number says how
often. The round is the third, so that what is made once for a data set is not shown.
"""

import argparse
import sys
from pathlib import Path

import lightgbm as lgb
import xgboost as xgb

import lambdaplug as lp

PACKAGE = str(Path(lp.__file__).parent)
ROUND, DEEPEST = 3, 4


class Walk:
    """Watches one call of an objective."""

    def __init__(self, objective):
        self.objective, self.rounds, self.steps, self.files, self.depth = objective, 0, [], [], 0

    def __deepcopy__(self, memo):  # as LightGBM does with its parameters
        return self

    def __call__(self, scores, data):
        self.rounds += 1
        if self.rounds != ROUND:
            return self.objective(scores, data)
        sys.setprofile(self.watch)
        try:
            return self.objective(scores, data)
        finally:
            sys.setprofile(None)

    def watch(self, frame, event, _):
        code = frame.f_code
        if not code.co_filename.startswith(PACKAGE) or code.co_name.startswith("<"):
            return
        if event == "call":
            crossing = not self.files or self.files[-1] != code.co_filename
            if crossing:
                file, name = Path(code.co_filename).relative_to(PACKAGE), getattr(code, "co_qualname", code.co_name)
                self.steps.append((self.depth, f"{file}: {name}"))
            self.depth += crossing
            self.files.append(code.co_filename)
        elif event == "return" and self.files:
            self.files.pop()
            self.depth -= not self.files or self.files[-1] != code.co_filename

    def lines(self):
        """Steps, with those that repeat below one caller counted."""
        found = []  # [depth, text, times]
        for depth, text in self.steps:
            if depth < DEEPEST:
                start = max((i for i, line in enumerate(found) if line[0] < depth), default=-1) + 1
                same = next((line for line in found[start:] if line[:2] == [depth, text]), None)
                if same is None:
                    found.append([depth, text, 1])
                else:
                    same[2] += 1
        return ["  " * depth + text + (f"  x {times}" if times > 1 else "") for depth, text, times in found]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--host", choices=["lightgbm", "xgboost"], default="lightgbm")
    parser.add_argument("--objective", default="ndcg@10")
    options = parser.parse_args()
    data, watched = lp.data.cubic(queries=20, documents=10, features=5), Walk(lp.objective(options.objective))
    if options.host == "lightgbm":
        params = {"objective": watched, "verbose": -1, "num_threads": 1}
        lgb.train(params, lgb.Dataset(data.X, data.labels, group=data.group), ROUND)
    else:
        xgb.train({"nthread": 1}, xgb.DMatrix(data.X, data.labels, qid=data.qid), ROUND, obj=watched)
    print(f"{options.host}'s train", *watched.lines(), "float32 gradient, float32 hessian", sep="\n  ")
