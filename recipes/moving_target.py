"""A target that moves while the model learns: from RankNet's cost to a sigmoid's.

    python recipes/moving_target.py                    # generated data, the paper's sweeps
    python recipes/moving_target.py --data file.npz    # your own: arrays X, y, qid, split (0, 1, 2)

Section 5 of "Learning to rank with multiple objective functions" (2011). lambda_m = (1 - w_m) L + w_m S with L the
NDCG lambda with RankNet's cost, S with the sigmoid cost (S@3: truncated at 3), w_m rising linearly or exponentially;
gradient steps, each query's combined lambda divided by its standard deviation. Prints the paper's Table 2 with paired
t-tests; plots its Figures 3, 4, 6 and 7.
"""

import common
import lightgbm as lgb
import matplotlib
import pandas as pd
from tqdm import tqdm

import lambdaplug as lp

matplotlib.use("Agg")
import matplotlib.pyplot as plt

CUTS = range(1, 11)
LEARNING_RATES = [0.2, 0.5]
STARTS = [0.1, 0.25, 0.5]
RATES = {"linear": [0.1, 0.01, 0.001], "exponential": [100, 250]}
SCHEDULES = {"linear": lp.linear, "exponential": lp.exponential}

NEWTON = lp.LambdaRank("ndcg")
GRADIENT = lp.LambdaRank("ndcg", step="gradient")


def moving(truncated, schedule):
    """L + S, or L + S@3: raw lambdas mixed, then normalised together."""
    first = lp.LambdaRank("ndcg", step="gradient", normalize="none")
    second = lp.LambdaRank("ndcg@3" if truncated else "ndcg", cost=lp.Sigmoid(), normalize="none")
    return lp.interpolate(first, second, schedule, step="gradient")


def train(objective, learning_rate, part, valid, rounds, callbacks=()):
    """The trees, as many as gave the best validation NDCG@3."""
    data = lgb.Dataset(part.X, part.labels, group=part.group)
    model = lgb.train(
        {"objective": objective, "learning_rate": learning_rate, "num_leaves": 30, "metric": "None", "verbose": -1}
        | {"min_sum_hessian_in_leaf": 1e-12},
        data,
        rounds,
        valid_sets=[lgb.Dataset(valid.X, valid.labels, group=valid.group, reference=data)],
        feval=lp.metric("ndcg@3"),
        callbacks=[lgb.early_stopping(rounds, verbose=False), *callbacks],
    )
    return model, model.best_score["valid_0"]["ndcg@3"]


def verdict(better, worse):
    return "confirmed" if better == 8 else "refuted" if worse == 8 else "not confirmed"


def report(test, found, rates):
    """Table 2, and which of the paper's claims hold here."""

    def compare(k, baseline, name):
        return lp.compare(f"ndcg@{k}", test.labels, found[baseline], found[name], test.group)

    rows = {}
    for name in found:
        results = [
            compare(k, "Baseline (Newton)" if name.startswith("Baseline") else "Baseline (gradient)", name)
            for k in CUTS
        ]
        rows[name] = [f"{100 * result.mean_b:.2f}{'*' if result.p_t < 0.05 else ' '}" for result in results]
    print(pd.DataFrame(rows, index=[f"@{k}" for k in CUTS]).T.to_string())
    print(
        "* differs at 95 % (paired t-test): the gradient baseline from Newton's, the others from the gradient baseline"
    )
    print("The paper's claims, at each cut from @3 to @10:")
    for kind in rates:
        for other in ("Baseline (gradient)", "Baseline (Newton)", f"L + S@3 {kind}"):
            results = [compare(k, other, f"L + S {kind}") for k in range(3, 11)]
            better = sum(result.interval[0] > 0 for result in results)
            worse = sum(result.interval[1] < 0 for result in results)
            gain, low, high = (100 * x for x in (results[0].difference, *results[0].interval))
            print(
                f"  L + S {kind} beats {other}: {verdict(better, worse)} (significantly better at {better} of 8, worse at "
                f"{worse}; at @3 {gain:+.2f} points, 95 % interval {low:+.2f} to {high:+.2f})"
            )


def learning_curves(axes, part, valid, test, rounds, fractions, contest):
    """Figure 7: less training data, each name's scores with all of it, objective and learning rate given."""
    curves = {name: [] for name in contest}
    for fraction in tqdm(fractions, desc="fractions", disable=None):
        smaller = part.split(fraction, 1 - fraction)[0]
        for name, (_, objective, speed) in contest.items():
            scores = train(objective, speed, smaller, valid, rounds)[0].predict(test.X)
            curves[name].append(lp.evaluate(["ndcg@3", "ndcg@10"], test.labels, scores, test.group))
    for name, (scores, *_) in contest.items():
        curves[name].append(lp.evaluate(["ndcg@3", "ndcg@10"], test.labels, scores, test.group))
    for axis, k in zip(axes, (3, 10), strict=True):
        for name, values in curves.items():
            axis.plot([*fractions, 1.0], [value[f"ndcg@{k}"] for value in values], "o-", label=name)
        axis.set(title=f"test NDCG@{k} by share of training queries (Figure 7)", xlabel="share")
        axis.legend(fontsize="small")


def main():
    quick = "less data, fewer trees, one value per sweep"
    options = common.arguments(__doc__, "moving_target.png", queries=800, rounds=200, quick=quick).parse_args()
    rounds = 12 if options.quick else options.rounds
    speeds = LEARNING_RATES[:1] if options.quick else LEARNING_RATES
    starts = STARTS[:1] if options.quick else STARTS
    rates = {kind: values[:1] for kind, values in RATES.items()} if options.quick else RATES
    fractions = [0.5] if options.quick else [0.1, 0.25, 0.5]
    if options.data:
        parts = common.load(options.data)
    else:
        parts = lp.data.cubic(100 if options.quick else options.queries, documents=40, noise=0.3).split(0.6, 0.2, 0.2)
    part, valid, test = parts

    diagnostics = [
        lp.analysis.ForceByLabel(NEWTON, high=3),
        lp.analysis.TopLabels(3),
        lp.analysis.RankChanges(3),
        lp.analysis.Measured("ndcg@3"),
    ]
    recorder = lp.analysis.record(part.X, part.labels, part.group, *diagnostics, every=max(1, rounds // 25))
    variants = {"Baseline (Newton)": [NEWTON], "Baseline (gradient)": [GRADIENT]}
    for name, truncated in (("L + S", False), ("L + S@3", True)):
        for kind, etas in rates.items():
            schedules = [SCHEDULES[kind](start, eta) for start in starts for eta in etas]
            variants[f"{name} {kind}"] = [moving(truncated, schedule) for schedule in schedules]

    found, chosen = {}, {}
    with tqdm(total=len(speeds) * sum(map(len, variants.values())), desc="training", disable=None) as bar:
        for name, objectives in variants.items():
            candidates = []
            for objective in objectives:
                for speed in speeds:
                    watching = [recorder] if objective is NEWTON and speed == speeds[0] else []
                    candidates.append((*train(objective, speed, part, valid, rounds, watching), objective, speed))
                    bar.update()
            model, _, *chosen[name] = max(candidates, key=lambda candidate: candidate[1])
            found[name] = model.predict(test.X)

    print(
        f"{len(part.group)} / {len(valid.group)} / {len(test.group)} queries, up to {rounds} trees; swept on validation NDCG@3:"
    )
    for name, (objective, speed) in chosen.items():
        weight = f", weight {objective.weight!r}" if name.startswith("L + S") else ""
        print(f"  {name}: learning rate {speed:g}{weight}")
    report(test, found, rates)

    figure, axes = plt.subplots(2, 3, figsize=(15, 8))
    recorder.plot(axes[0, 0], "force").set(title="force on labels 3 and 4, by the other label (Figure 3a)")
    recorder.plot(axes[0, 1], "label").set(title="labels in the top 3 (Figure 3b)")
    recorder.plot(axes[0, 2], "changed").set(title="rank changes and training NDCG@3 (Figure 4)")
    axes[0, 2].plot(recorder.curves.iterations, recorder.curves["ndcg@3"], label="training NDCG@3")
    axes[0, 2].legend(fontsize="small")
    for kind, etas in RATES.items():
        for eta in etas:
            axes[1, 0].plot([SCHEDULES[kind](0.1, eta)(m) for m in range(500)], label=f"{kind} {eta:g}")
    axes[1, 0].set(title="weights (Figure 6)", xlabel="round")
    axes[1, 0].legend(fontsize="small")

    names = ("Baseline (Newton)", "Baseline (gradient)", "L + S linear")
    learning_curves(
        axes[1, 1:], part, valid, test, rounds, fractions, {name: (found[name], *chosen[name]) for name in names}
    )
    figure.tight_layout()
    figure.savefig(options.plot, dpi=110)


if __name__ == "__main__":
    main()
