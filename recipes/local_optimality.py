"""Is a model a local optimum of the measure it was trained for? A certificate, and one step further.

    python recipes/local_optimality.py                    # generated data
    python recipes/local_optimality.py --data file.npz    # your own: arrays X, y, qid, split (0, 1, 2)

"On the local optimality of LambdaRank" (2009). Moves all weights of a model along 459 random directions and measures
again: if none improves, fewer than 1 % of directions do, with 99 % confidence. The paper's models were nets of one and two
layers: here XGBoost's linear model (the weights of the features) and boosted trees of LightGBM and XGBoost (their leaf
values), for NDCG, NDCG@10, MAP and MRR, with plain and with smoothed LambdaRank (Figures 1-4), a model trained for
another measure, an early one, and random weights (Figure 6). An improvement is what the paper counts, any rise at any
step, and beside it what is significant (paired t-test over queries, corrected for all directions and steps). The directions
of all data sets are counted together. Then lp.analysis.polish walks the leaf values of LightGBM's models of 500 queries
uphill, on their own training queries or on fresh ones.
"""

from typing import NamedTuple

import common
import lightgbm as lgb
import numpy as np
import pandas as pd
import xgboost as xgb
from scipy.special import ndtr, stdtrit

import lambdaplug as lp
from lambdaplug import plotting

PAPER = "Donmez, Svore, Burges 2009"
STEPS = (0.003, 0.01, 0.03, 0.1, 0.3)  # of the weights' norm
POLISHED = 500  # training queries at most of a model that is polished, which takes many gradients
NOTICED = 0.002  # a rise that the significant rule should notice: 0.2 points, the size of the papers' differences


class Certificate(NamedTuple):
    """What moving along random directions did: ``change`` and its standard ``error``, arrays [direction, step]."""

    value: float
    change: np.ndarray
    error: np.ndarray
    queries: int

    @property
    def higher(self):
        return int((self.change > 0).any(axis=1).sum())

    @property
    def bound(self):
        """Of Student's t, corrected for all directions and steps."""
        return float(stdtrit(self.queries - 1, 1 - 0.01 / self.change.size))

    @property
    def sure(self):
        return int((self.change > self.bound * self.error).any(axis=1).sum())

    @property
    def noticed(self):
        """The chance that a direction whose best step rises by 0.2 points counts as sure."""
        errors = np.take_along_axis(self.error, self.change.argmax(1)[:, None], 1)
        return float(np.mean(ndtr(NOTICED / np.maximum(errors, 1e-12) - self.bound)))


# As in the papers nothing is regularised: XGBoost's own lambda and min_child_weight, made for other hessians than plain
# LambdaRank's, which are those of a mean over pairs and far below 1, would end the training before its optimum.
BARE = {"lambda": 0, "nthread": 1, "base_score": 0.0, "disable_default_eval_metric": 1}


def lightgbm_trees(objective, part, rounds):
    data = lgb.Dataset(part.X, part.labels, group=part.group)
    return lgb.train({"objective": objective, "num_threads": 1, "verbose": -1}, data, rounds)


def xgboost_trees(objective, part, rounds):
    parameters = BARE | {"max_leaves": 31, "grow_policy": "lossguide", "max_depth": 0, "learning_rate": 0.1}
    data = xgb.DMatrix(part.X, part.labels, qid=part.qid)
    return xgb.train(parameters | {"lambda": 1e-3, "min_child_weight": 0}, data, rounds, obj=objective)


def linear(objective, part, rounds):
    """XGBoost's linear model, trained until its weights stand still."""
    parameters = BARE | {"booster": "gblinear", "updater": "coord_descent", "learning_rate": 0.5}
    return xgb.train(parameters, xgb.DMatrix(part.X, part.labels, qid=part.qid), 3 * rounds, obj=objective)


KINDS = {"linear": linear, "LightGBM trees": lightgbm_trees, "XGBoost trees": xgboost_trees}


def examine(model, part, measure, directions, seed):
    asked = {"directions": directions, "steps": STEPS, "seed": seed, "progress": False, "single_weights": 1}
    report = lp.analysis.local_optimality(model, *part, measure, **asked)
    return Certificate(report.value, report.trial.change, report.trial.error, report.trial.queries)


def with_random_weights(model):
    """The same model with normally distributed weights."""
    weights = lp.hosts.leaves.weights_of(model)
    return weights.rebuilt(np.random.default_rng(1).normal(size=len(weights.values)))


def certificates(study, part, measures, seed):
    """{(model, how it was trained, measure): Certificate} of one data set."""
    rounds, directions, models, found = study.options.rounds, study.options.directions, {}, {}

    def ask(kind, how, train, measure):
        def work():
            model = train()
            return (None if kind == "XGBoost trees" else model), examine(model, part, measure, directions, seed)

        model, found[kind, how, str(measure)] = study.once((seed, kind, how, measure, directions), work)
        models.setdefault((kind, how), model)

    for kind, fit in KINDS.items():
        for noise in (0.0, 1.0):
            for measure in measures:
                objective = lp.LambdaRank(measure, noise=noise)
                how = f"for {measure}" + (", smoothed" if noise else "")
                ask(kind, how, lambda f=fit, o=objective: f(o, part, rounds), measure)
    ndcg, ndcg10, _, first = measures
    few = max(1, rounds // 10)
    for kind, how, less in (("linear", "3 rounds", 1), ("LightGBM trees", f"{few} trees", few)):
        ask(kind, f"for {first}", lambda k=kind: models[k, f"for {first}"], ndcg10)
        ask(kind, how, lambda k=kind, r=less: KINDS[k](lp.LambdaRank(ndcg10), part, r), ndcg10)
        ask(kind, "random weights", lambda k=kind: with_random_weights(models[k, f"for {ndcg}"]), ndcg)
    return found


def report(study, found, measures):
    """The table of all data sets, and the paper's claims by both rules."""
    directions, rows = study.options.directions, {}
    every = {key: [one[key] for one in found] for key in found[0]}
    for key, several in every.items():
        best = max(several, key=lambda one: one.change.max())
        step = STEPS[int(best.change.max(0).argmax())]
        counts = [
            ", ".join(str(count) for count in counts)
            for counts in zip(*((c.higher, c.sure) for c in several), strict=True)
        ]
        means = [
            f"{np.mean([getattr(one, name) for one in several]):.{digits}f}"
            for name, digits in (("value", 4), ("noticed", 2))
        ]
        rows[key] = [means[0], *counts, f"{best.change.max():+.5f}", f"{step:g}", means[1]]
    study.say(pd.DataFrame(rows, index=["value", "higher", "sure", "best", "at step", "noticed"]).T.to_string())
    study.say(
        f"higher: of {directions} directions in each data set, those in which the measure rises at some step, however"
    )
    study.say(
        "little; sure: those in which it rises significantly; best: the largest rise, at a step in units of the weights'"
    )
    study.say(f"norm; noticed: the chance that a direction in which it rises by {100 * NOTICED:g} points is sure")
    names = [str(measure) for measure in measures]

    def fewer(figure, text, several, rule="significantly"):
        """The claim that no direction improves: certified, fewer than 1 % of all."""
        claim = common.Claim(
            f"{PAPER}, {figure}", f"fewer than 1 % of directions improve {text}", unit="% of directions"
        )
        counts = [one.sure if rule == "significantly" else one.higher for one in several]
        noticed = float(np.mean([one.noticed for one in several])) if rule == "significantly" else 1.0
        return claim, counts, directions, noticed

    for kind in KINDS:
        for number, name in enumerate(names, 1):
            for rule in ("at all", "significantly"):
                several = every[kind, f"for {name}", name]
                study.count(*fewer(f"Figure {number}", f"{rule}: {kind} for {name}", several, rule))
    for how in (f"for {names[3]}", "3 rounds"):
        text = f"significantly by {names[1]}: linear, {how}"
        study.count(*fewer("section 8", text, every["linear", how, names[1]]))
    for kind in ("linear", "LightGBM trees"):
        rises = [(one.change > 0).any(axis=1).astype(float) for one in every[kind, "random weights", names[0]]]
        claim = common.Claim(f"{PAPER}, Figure 6", f"random weights are no optimum: {kind}", 50.0, over="directions")
        study.decide(claim, rises)
    rows, passes = {}, []
    for kind in KINDS:
        for name in names:
            both = []
            for how in ("", ", smoothed"):
                claim, *counted = fewer("", "", every[kind, f"for {name}{how}", name])
                both.append(claim.count(*counted))
            rows[kind, name] = ["{here:.2f} ({low:.2f} to {high:.2f})".format(**one) for one in both]
            if [one["verdict"] == "confirmed" for one in both] == [False, True]:
                passes.append(f"{kind} for {name}")
    study.say("\nDirections that improve significantly, % of all with 95 % intervals:")
    study.say(pd.DataFrame(rows, index=["plain", "smoothed"]).T.to_string())
    study.say(
        f"The smoothed model is certified (fewer than 1 %) where the plain one is not: {', '.join(passes) or 'nowhere'}"
    )


def polish(study, measures, parts, seed):
    """lp.analysis.polish on the training queries and on fresh ones, beside training anew: {measure: (tests, traces)}."""
    part, fresh, valid, test = parts
    # Polishing on fresh queries also means more data: trained anew on both is what to compare it with.
    both = lp.data.RankingData(*(np.concatenate(arrays) for arrays in zip(part, fresh, strict=True)))
    found = {}
    for measure in measures:

        def walk(measure=measure):
            model = lightgbm_trees(lp.LambdaRank(measure), part, study.options.rounds)
            systems, traces = {"as trained": model}, {}
            for name, rows in (("own queries", part), ("fresh queries", fresh)):
                better, traces[name] = lp.analysis.polish(
                    model, *rows, measure, valid=valid, progress=False, return_trace=True
                )
                systems[f"polished, {name}"] = better
            systems["trained anew on both"] = lightgbm_trees(lp.LambdaRank(measure), both, study.options.rounds)
            name = str(measure)
            tests = {name_: common.values(measure, test, one.predict(test.X))[name] for name_, one in systems.items()}
            return tests, {k: [row["valid"] - trace[0]["valid"] for row in trace] for k, trace in traces.items()}

        found[str(measure)] = study.once((seed, "polished", measure), walk)
    return found


def polished(study, found, sizes):
    """The table of all data sets."""
    rows = {}
    for name in found[0]:
        tests = [one[name][0] for one in found]
        cells = [common.interval([one[how] - one["as trained"] for one in tests]) for how in list(tests[0])[1:]]
        value, _ = common.interval([one["as trained"] for one in tests])
        rows[name] = [f"{100 * value:.2f}", *(f"{100 * m:+.2f} ± {100 * h:.2f}" for m, h in cells)]
    study.say(
        f"\nlp.analysis.polish of LightGBM's models of {sizes[0]:,} queries, as far as validation agrees; "
        f"{sizes[1]:,} test queries of each data set, change in points:"
    )
    study.say(pd.DataFrame(rows, index=list(tests[0])).T.to_string())


def draw(found, traces, measures):
    """Figures 1-4 and 6, of one data set: the measure along four random directions of each model, and polishing."""
    names = [str(measure) for measure in measures]
    figure, axes = common.panels("ABC;DEF;GHI;JKL;MN.;OOO", 2.5)
    shown = [(f"for {name}", name) for name in names] + [("random weights", names[0])]
    panels = [(kind, *one) for one in shown for kind in KINDS][:-1]
    for axis, (kind, how, name) in zip(axes, panels, strict=False):
        one = found[kind, how, name]
        for k in range(4):
            axis.plot(STEPS, one.value + one.change[k], ".-", label=f"direction {k + 1}")
        axis.axhline(one.value, color="0.3", lw=0.8, label="as trained")
        axis.set(xscale="log", title=f"{kind}, {how}", xlabel="step / norm of the weights", ylabel=f"training {name}")
    figure.legend(
        *axes[0].get_legend_handles_labels(),
        loc="outside upper left",
        ncols=5,
        title="The first data set",
        alignment="left",
    )
    for number, (name, lines) in enumerate(traces.items()):
        for which, gain in lines.items():
            style = ".-" if which == "fresh queries" else "x:"
            axes[-1].plot(100 * np.array(gain), style, color=f"C{number}", label=f"{name}, {which}")
    axes[-1].set(title="polishing LightGBM's models", xlabel="accepted steps", ylabel="change on validation, points")
    plotting.integers(axes[-1].xaxis)
    common.legend_below(axes[-1], 4)
    return figure


def main():
    given = [
        ("--relevant", {"type": float, "default": 2, "help": "lowest relevant label (the paper: 2 of 0..4)"}),
        ("--directions", {"type": int, "default": 459, "help": "of the certificate"}),
    ]
    study = common.Study(
        __doc__, queries=10_000, rounds=60, tested=3250, seeds=3, given=given, quick={"directions": 40}
    )
    options = study.options
    measures = [lp.NDCG(), lp.NDCG(k=10), lp.MAP(relevant=options.relevant), lp.MRR(relevant=options.relevant)]
    found, walked = [], []
    for seed in range(options.seeds):
        part, valid, rest = study.data(seed)
        few = part if len(part.group) <= POLISHED else part.split(POLISHED, len(part.group) - POLISHED)[0]
        half = len(few.group) // 2
        fresh, test = rest.split(half, len(rest.group) - half)
        found.append(certificates(study, part, measures, seed))
        walked.append(polish(study, measures, (few, fresh, valid, test), seed))
    study.say(
        f"{len(part.labels):,} rows in {len(part.group):,} queries in each of {options.seeds} data set(s), {options.rounds} trees, linear"
    )
    study.say(f"models of {part.X.shape[1]} weights, {options.directions} directions x {len(STEPS)} steps")
    report(study, found, measures)
    polished(study, walked, (len(few.group), len(test.group)))
    study.finish(draw(found[0], {name: traces for name, (_, traces) in walked[0].items()}, measures))


if __name__ == "__main__":
    main()
