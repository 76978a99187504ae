"""Clicks below judgments: raise a click measure without paying in NDCG.

    python recipes/graded_clicks.py                    # generated data and simulated clicks
    python recipes/graded_clicks.py --data file.npz    # your own: arrays X, y, click (NaN = unknown), qid, split (0, 1, 2)

The graded objective of "Learning to rank with multiple objective functions" (2011): NDCG on the labels first, CNDCG on
the clicks among documents of equal label. Sweeps the click tier's weight w, picks it on validation, and prints the
paper's Table 1 with paired t-tests; plots NDCG@3 against CNDCG@3 over w and the paper's Figure 2.
"""

import common
import lightgbm as lgb
import matplotlib
import numpy as np
import pandas as pd
from tqdm import tqdm

import lambdaplug as lp

matplotlib.use("Agg")
import matplotlib.pyplot as plt

WEIGHTS = [0.01, 0.1, 0.2, 0.3, 0.4, 0.5]
CUTS = range(1, 11)
DATA = "a .npz file; default: generated data, and techno2020_clicks where it is found"


def generated(queries, seed=0):
    """Judged documents whose clicks depend on the label and on two features that the judges did not look at."""
    data = lp.data.cubic(queries, documents=40, noise=0.3, seed=seed)
    clicks = lp.data.simulate_clicks(data.labels, data.group, taste=1.5 * (data.X[:, 0] + data.X[:, 1]), seed=seed)
    clicks = np.minimum(4 * clicks, 1.0)  # last clicks are spread thin: stretched to use the range [0, 1]
    parts = data.split(0.6, 0.2, 0.2)
    ends = np.cumsum([len(part.labels) for part in parts])[:-1]
    return list(zip(parts, np.split(clicks, ends), strict=True))


def load(path):
    """Train, validation and test parts of a .npz file, each with its clicks."""
    file = np.load(path)
    click = file["click"] if file["click"].ndim == 1 else np.where(file["shown"], file["y_click"] / 3, np.nan)
    masks = [file["split"] == number for number in range(3)]
    return [(common.rows_of(file, rows), click[rows]) for rows in masks]


def train(objective, part, valid, rounds, callbacks=()):
    data = lgb.Dataset(part.X, part.labels, group=part.group)
    checks = [lgb.Dataset(valid.X, valid.labels, group=valid.group, reference=data)]
    parameters = {"objective": objective, "metric": "None", "verbose": -1, "min_sum_hessian_in_leaf": 1e-12}
    stopping = lgb.early_stopping(30, verbose=False)
    return lgb.train(
        parameters,
        data,
        rounds,
        valid_sets=checks,
        feval=lp.metric("ndcg@3"),
        callbacks=[stopping, *callbacks],
    )


def compare(name, part, clicks, baseline, scores):
    """By NDCG of the labels or CNDCG of the clicks; a document without a click score counts 0."""
    labels = np.nan_to_num(clicks) if name.startswith("cndcg") else part.labels
    return lp.compare(name, labels, baseline, scores, part.group)


def main():
    parser = common.arguments(
        __doc__, "graded_clicks.png", queries=1500, rounds=300, data=DATA, quick="less data, fewer trees and weights"
    )
    options = parser.parse_args()
    rounds, weights = (15, [0.1, 0.5]) if options.quick else (options.rounds, WEIGHTS)
    if options.data:
        sets = {options.data: load(options.data)}
    else:
        sets = {"generated": generated(120 if options.quick else options.queries)}
        real = common.beside("techno2020_clicks")
        if real and not options.quick:
            sets["techno2020_clicks"] = load(real)
    figure, axes = plt.subplots(len(sets), 2, figsize=(11, 4 * len(sets)), squeeze=False)
    for (name, parts), row in zip(sets.items(), axes, strict=True):
        print(f"--- {name}: {' / '.join(str(len(part.group)) for part, _ in parts)} queries")
        study(parts, rounds, weights, *row)
    figure.tight_layout()
    figure.savefig(options.plot, dpi=120)


def study(parts, rounds, weights, pareto, agreeing):
    (train_part, train_clicks), (valid_part, _), (test_part, test_clicks) = parts
    judged = lp.LambdaRank("ndcg")
    clicked = lp.LambdaRank("cndcg", labels=train_clicks, ignore_zero=True)
    agreement = lp.analysis.Agreement(
        judged,
        {"all click pairs": lp.LambdaRank("cndcg", labels=train_clicks), "restricted": restricted(judged, clicked)},
    )
    recorder = lp.analysis.record(
        train_part.X, train_part.labels, train_part.group, agreement, every=max(1, rounds // 30)
    )
    models = {0.0: train(judged, train_part, valid_part, rounds, [recorder])}
    for w in tqdm(weights, desc="training", disable=None):
        objective = lp.Graded([judged, clicked], weights=[1 - w, w])
        models[w] = train(objective, train_part, valid_part, rounds)

    def validate(w):
        return lp.evaluate("ndcg@3", valid_part.labels, models[w].predict(valid_part.X), valid_part.group)["ndcg@3"]

    chosen = max(weights, key=validate)  # as in the paper
    scores = {w: model.predict(test_part.X) for w, model in models.items()}

    def against_baseline(name, w):
        return compare(name, test_part, test_clicks, scores[0.0], scores[w])

    sweep = {}
    for w in weights:
        found = [against_baseline(name, w) for name in ("ndcg@3", "cndcg@3")]
        sweep[f"{w:g}{' <- chosen by validation NDCG@3' if w == chosen else ''}"] = [
            "{:+.2f} ({:+.2f} to {:+.2f})".format(*(100 * x for x in (one.difference, *one.interval))) for one in found
        ]
    print(pd.DataFrame(sweep, index=["NDCG@3, points (95 % interval)", "CNDCG@3"]).T.to_string())

    rows = {}
    for kind in ("ndcg", "cndcg"):
        found = [against_baseline(f"{kind}@{k}", chosen) for k in CUTS]
        rows[f"{kind.upper()} baseline"] = [f"{100 * one.mean_a:.2f} " for one in found]
        rows[f"{kind.upper()} graded"] = [f"{100 * one.mean_b:.2f}{'*' if one.p_t < 0.05 else ' '}" for one in found]
    print(pd.DataFrame(rows, index=[f"@{k}" for k in CUTS]).T.to_string())
    print("* differs from the baseline, paired t-test at 95 %")
    clicks, relevance = (against_baseline(name, chosen) for name in ("cndcg@3", "ndcg@3"))
    confirmed = clicks.interval[0] > 0 and relevance.interval[1] > 0
    print(
        f"The paper's finding (clicks rise, no significant loss of NDCG) is {'' if confirmed else 'NOT '}confirmed here."
    )

    order = sorted(models)
    places = [tuple(against_baseline(name, w).mean_b for name in ("ndcg@3", "cndcg@3")) for w in order]
    pareto.plot(*zip(*places, strict=True), "o-")
    for w, place in zip(order, places, strict=True):
        pareto.annotate(f"w={w:g}", place)
    pareto.set(xlabel="test NDCG@3", ylabel="test CNDCG@3", title="over the click tier's weight")
    recorder.plot(agreeing).set(ylabel="share of documents", title="lambda agreement (Figure 2)")


def restricted(judged, clicked):
    """The click tier alone: pairs of equal label, both clicked."""
    return lp.Graded([judged, clicked], weights=[0.0, 1.0])


if __name__ == "__main__":
    main()
