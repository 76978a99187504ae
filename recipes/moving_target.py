"""A target that moves while the model learns: from RankNet's cost to a sigmoid's.

    python recipes/moving_target.py                    # generated data, the paper's sweeps
    python recipes/moving_target.py --data file.npz    # your own: arrays X, y, qid, split (0, 1, 2)

Section 5 of "Learning to rank with multiple objective functions" (2011). lambda_m = (1 - w_m) L + w_m S with L the
NDCG lambda with RankNet's cost, S with the sigmoid cost (S@3: truncated at 3), w_m rising linearly or exponentially;
gradient steps, each query's combined lambda divided by its standard deviation. The paper's Table 2: 30 leaves, up to 1,000
trees, learning rates and schedules swept on the validation queries of one data set and kept for the others. Its Figures 3,
4, 6 and 7. Then what a user asks: does moving help lp.objective, in LightGBM and in XGBoost?
"""

import itertools

import common
import numpy as np
import pandas as pd
import xgboost as xgb

import lambdaplug as lp

PAPER = "Svore, Volkovs, Burges 2011, Table 2"
CUTS = range(1, 11)
WATCHED = 500  # trees of Figures 3 and 4, as in the paper
MOVING = 400  # trees of lp.objective while something moves
DRAWN = 4  # data sets of Figures 3 and 4, and of the table of lp.objective
LESS = 2  # data sets of Figure 7
LEARNING_RATES = [0.2, 0.5]
STARTS = [0.1, 0.25, 0.5]
RATES = {"linear": [0.1, 0.01, 0.001], "exponential": [100, 250]}
SCHEDULES = {"linear": lp.linear, "exponential": lp.exponential}
THERE = {  # NDCG@3 and NDCG@10 in the paper
    "Baseline (Newton)": (61.66, 65.17),
    "Baseline (gradient)": (61.94, 65.51),
    "L + S linear": (62.19, 65.68),
    "L + S exponential": (62.15, 65.71),
    "L + S@3 linear": (61.82, 65.14),
    "L + S@3 exponential": (61.75, 65.03),
}
CLAIMS = [("Baseline (gradient)", "Baseline (Newton)")]
CLAIMS += [
    (f"L + S {kind}", other)
    for kind in RATES
    for other in ("Baseline (gradient)", "Baseline (Newton)", f"L + S@3 {kind}")
]
NEWTON = lp.LambdaRank("ndcg")
GRADIENT = lp.LambdaRank("ndcg", step="gradient")


def moving(truncated, schedule):
    """L + S, or L + S@3: raw lambdas mixed, then normalised together."""
    first = lp.LambdaRank("ndcg", step="gradient", normalize="none")
    second = lp.LambdaRank("ndcg@3" if truncated else "ndcg", cost=lp.Sigmoid(), normalize="none")
    return lp.interpolate(first, second, schedule, step="gradient")


def movers(rounds):
    """What may move in lp.objective, and what stays beside it; (fixed, moving) by name."""
    own = lp.objective("ndcg@10")
    sigmoid = lp.LambdaRank("ndcg@10", cost=lp.Sigmoid(), normalize="none")
    support = lp.interpolate(lp.objective("ndcg"), lp.objective("ndcg@10", support=None), lp.linear(0.25, 0.5 / rounds))
    raw = lp.objective("ndcg@10", normalize="none")
    steps = {"hessian": "constant", "normalize": "std"}
    return {
        "support falling": (own, support),
        "noise falling": (own, lp.objective("ndcg@10", noise=lp.cosine(2.0, 0.5, rounds))),
        "RankNet to Sigmoid": (
            lp.Mixture([(1.0, raw)], step="gradient"),
            lp.interpolate(raw, sigmoid, lp.linear(0.1, 0.5 / rounds), step="gradient"),
        ),
        "alpha of Approx rising": (
            lp.Approx("ndcg@10", alpha=10, **steps),
            lp.Approx("ndcg@10", alpha=lp.cosine(2.0, 20.0, rounds), **steps),
        ),
    }


def train(objective, speed, part, valid, rounds, callbacks=(), patience=None):
    leaves = {"learning_rate": speed, "num_leaves": 30}
    return common.trained(objective, part, valid, "ndcg@3", rounds, callbacks, patience, **leaves)


def sweep(study, part, valid):
    """The learning rate and the schedule of each variant that are best on validation: {name: (objective, speed)}."""
    quick, ends = study.options.quick, (study.options.rounds, (), study.patience)
    some = slice(1 if quick else None)
    variants = {"Baseline (Newton)": [NEWTON], "Baseline (gradient)": [GRADIENT]}
    for name, truncated in (("L + S", False), ("L + S@3", True)):
        for kind, etas in RATES.items():
            schedules = [SCHEDULES[kind](start, eta) for start in STARTS[some] for eta in etas[some]]
            variants[f"{name} {kind}"] = [moving(truncated, schedule) for schedule in schedules]
    chosen = {}
    for name, objectives in variants.items():
        choices = list(itertools.product(objectives, LEARNING_RATES[some]))
        tried = [study.once(("swept", *one), lambda one=one: train(*one, part, valid, *ends)[0]) for one in choices]
        chosen[name] = choices[int(np.argmax(tried))]
        weight = f", weight {chosen[name][0].weight!r}" if name.startswith("L + S") else ""
        study.say(f"  {name}: learning rate {chosen[name][1]:g}{weight}")
    return chosen


def table(study, found):
    """Table 2, and the paper's claims at @3 and @10."""
    rows = {}
    for name, sets in found.items():
        base = "Baseline (Newton)" if name.startswith("Baseline") else "Baseline (gradient)"
        cells = []
        for k in CUTS:
            mean, _ = common.interval([one[f"ndcg@{k}"] for one in sets])
            change, half = common.interval(
                [a[f"ndcg@{k}"] - b[f"ndcg@{k}"] for a, b in zip(sets, found[base], strict=True)]
            )
            cells.append(f"{100 * mean:.2f}{'*' if abs(change) > half else ' '}")
        rows[name] = cells
    study.say(pd.DataFrame(rows, index=[f"@{k}" for k in CUTS]).T.to_string())
    study.say("* differs at 95 % (paired): the gradient baseline from Newton's, the others from the gradient baseline")
    for name, other in CLAIMS:
        for column, k in enumerate((3, 10)):
            effect = THERE[name][column] - THERE[other][column]
            differences = [a[f"ndcg@{k}"] - b[f"ndcg@{k}"] for a, b in zip(found[name], found[other], strict=True)]
            study.decide(common.Claim(PAPER, f"{name} beats {other}, NDCG@{k}", effect), differences)


def learning_curves(study, axes, chosen, found):
    """Figure 7: less training data."""
    fractions, sets = [0.5] if study.options.quick else [0.1, 0.25, 0.5], range(min(LESS, study.options.seeds))
    for name in ("Baseline (Newton)", "Baseline (gradient)", "L + S linear"):

        def less(fraction, seed, name=name):
            part, valid, test = study.data(seed)
            smaller = part.split(fraction, 1 - fraction)[0]
            model = train(*chosen[name], smaller, valid, study.options.rounds, (), study.patience)[1]
            return common.values(["ndcg@3", "ndcg@10"], test, model.predict(test.X))

        points = [
            [study.once(("less", f, s, name, chosen[name]), lambda f=f, s=s: less(f, s)) for s in sets]
            for f in fractions
        ]
        points.append([found[name][seed] for seed in sets])
        for axis, k in zip(axes, (3, 10), strict=True):
            cells = [common.interval([one[f"ndcg@{k}"] for one in several]) for several in points]
            means, halves = np.array(cells).T
            axis.errorbar([*fractions, 1.0], means, halves, fmt="o-", capsize=3, label=name)
            axis.set(xlabel="share of the training queries", ylabel=f"test NDCG@{k}")
            axis.set_title(f"Figure 7: NDCG@{k}, 95 % intervals")
            common.legend_below(axis)


def boosted(host, objective, parts, rounds):
    """Values of test queries of a model with ordinary parameters, stopped on validation."""
    part, valid, test = parts
    if host == "LightGBM":
        scores = common.trained(objective, part, valid, "ndcg@10", rounds, learning_rate=0.1)[1].predict(test.X)
    else:
        matrices = [xgb.DMatrix(one.X, one.labels, qid=one.qid) for one in parts]
        model = xgb.train(
            {"learning_rate": 0.1, "nthread": 1, "disable_default_eval_metric": 1},
            matrices[0],
            rounds,
            obj=objective,
            evals=[(matrices[1], "valid")],
            custom_metric=lp.metric("ndcg@10"),
            early_stopping_rounds=rounds,
            verbose_eval=False,
        )
        scores = model.predict(matrices[2], iteration_range=(0, model.best_iteration + 1))
    return common.values("ndcg@10", test, scores)["ndcg@10"]


def does_it_help(study):
    """Four ways to move, in both hosts, against the same that stands still and against lp.objective."""
    trees, rows, sets = min(MOVING, study.options.rounds), {}, range(min(DRAWN, study.options.seeds))
    for host in ("LightGBM", "XGBoost"):

        def run(objective, host=host):
            key = host, objective, trees
            return [study.once((*key, s), lambda s=s: boosted(host, objective, study.data(s), trees)) for s in sets]

        best = run(lp.objective("ndcg@10"))
        rows[host, "lp.objective, nothing moves"] = [f"{common.interval(best)[0]:.4f}", "", ""]
        for name, (fixed, moves) in movers(trees).items():
            still, moved = run(fixed), run(moves)
            cells = [common.between([a - b for a, b in zip(moved, other, strict=True)]) for other in (still, best)]
            shown = [f"{100 * mean:+.2f} ± {100 * half:.2f}" for mean, half in cells]
            rows[host, name] = [f"{common.interval(moved)[0]:.4f}", *shown]
    columns = ["NDCG@10", "against standing still", "against lp.objective"]
    study.say(
        f"\nDoes moving help lp.objective? Test NDCG@10, up to {trees} trees, learning rate 0.1; differences in points, with 95 %"
    )
    study.say(f"intervals over {len(sets)} data set(s), as trainings differ by more than the error of the queries:")
    study.say(pd.DataFrame(rows, index=columns).T.to_string())


def watch(study, part, valid, seed):
    """Figures 3 and 4: what happens as the Newton baseline learns, as arrays by name."""

    def record():
        rounds = min(WATCHED, study.options.rounds)
        asked = [lp.analysis.ForceByLabel(NEWTON, high=3), lp.analysis.TopLabels(3)]
        asked += [lp.analysis.RankChanges(3), lp.analysis.Measured("ndcg@3")]
        recorder = lp.analysis.record(part.X, part.labels, part.group, *asked, every=max(1, rounds // 25))
        train(NEWTON, LEARNING_RATES[0], part, valid, rounds, [recorder])
        curves = recorder.curves
        return {"round": np.array(curves.iterations)} | {name: np.array(curves[name]) for name in curves}

    return study.once(("watched", seed), record)


def draw(axes, watched):
    """The mean over the data sets, and its 95 % interval."""
    from scipy.special import stdtrit

    chosen = {
        "force": ("Figure 3a: whose force moves labels 3, 4", "share of the force"),
        "label": ("Figure 3b: labels in the top 3", "share of the documents"),
        "changed": ("Figure 4: places that change", "share of the places, NDCG@3"),
    }
    for axis, (word, (title, what)) in zip(axes, chosen.items(), strict=True):
        for name in (n for n in watched[0] if n.startswith(word) or (word == "changed" and n == "ndcg@3")):
            lines = np.array([one[name] for one in watched if name in one])
            mean, count = lines.mean(axis=0), len(lines)
            (line,) = axis.plot(watched[0]["round"], mean, label=name)
            if count > 1:
                half = stdtrit(count - 1, 0.975) * lines.std(axis=0, ddof=1) / count**0.5
                axis.fill_between(watched[0]["round"], mean - half, mean + half, alpha=0.2, color=line.get_color())
        axis.set(title=title, xlabel="trees", ylabel=what)
        common.legend_below(axis)


def main():
    study = common.Study(__doc__, rounds=1000, patience=100, tested=5000, seeds=10)
    options = study.options
    part, valid, test = study.data()
    study.say(
        f"{len(part.group)} / {len(valid.group)} / {len(test.group)} queries in each of {options.seeds} data set(s), up to {options.rounds} trees;"
    )
    study.say("swept on validation NDCG@3 of the first:")
    chosen = sweep(study, part, valid)
    found, watched = {name: [] for name in chosen}, []
    for seed in range(options.seeds):
        part, valid, test = study.data(seed)
        for name, (objective, speed) in chosen.items():

            def tested(objective=objective, speed=speed, part=part, valid=valid, test=test):
                model = train(objective, speed, part, valid, options.rounds, (), study.patience)[1]
                return common.values([f"ndcg@{k}" for k in CUTS], test, model.predict(test.X)), model.num_trees()

            values, trees = study.once(("tested", seed, objective, speed), tested)
            found[name].append(values)
            study.trees.append(trees)
        if seed < DRAWN:
            watched.append(watch(study, part, valid, seed))
    study.say_growth()
    table(study, found)

    figure, axes = common.panels("AB;CD;EF")
    draw(axes[:3], watched)
    for kind, etas in RATES.items():
        for eta in etas:
            axes[3].plot([SCHEDULES[kind](0.1, eta)(m) for m in range(500)], label=f"{kind} {eta:g}")
    axes[3].set(title="Figure 6: weights of S that start at 0.1", xlabel="round", ylabel="weight")
    common.legend_below(axes[3])
    learning_curves(study, axes[4:], chosen, found)
    does_it_help(study)
    study.finish(figure)


if __name__ == "__main__":
    main()
