"""Clicks below judgments: raise a click measure without paying in NDCG.

    python recipes/graded_clicks.py                    # generated data and simulated clicks
    python recipes/graded_clicks.py --data file.npz    # your own: arrays X, y, click (NaN = unknown), qid, split (0, 1, 2)

The graded objective of "Learning to rank with multiple objective functions" (2011): NDCG on the labels first, CNDCG on
the clicks among documents of equal label. Its Table 1, with the click tier's weight w chosen in three ways: as in the
paper, by validation NDCG@3; the highest validation CNDCG@3 that costs no more than half a point of NDCG@3; and w = 0.5
under a guard (lp.guard) that keeps validation NDCG@3 at the finished baseline's from the first tree on, which young models
are below, so that it holds the clicks back. Its Figure 2. Of the public log techno2020_clicks, where it is found, the click
tier and CNDCG see only the documents that were shown to users; each query is tested once in five folds.
"""

import itertools

import common
import numpy as np
import pandas as pd

import lambdaplug as lp

PAPER = "Svore, Volkovs, Burges 2011"
WEIGHTS = [0.01, 0.1, 0.2, 0.3, 0.4, 0.5]
RATES = {"generated": 0.5}  # else 0.2, with which models of so many queries still grow at tree 400
BOUND = 0.005  # of NDCG@3: half a point
THERE = {"cndcg@3": 46.75 - 43.12, "cndcg@10": 48.37 - 45.59}  # Table 1, clicks of the same query
CUTS = range(1, 11)
MOMENTS = np.linspace(0.02, 1.0, 12).round(3).tolist()  # of a training
MEASURES = [f"{kind}@{k}" for kind in ("ndcg", "cndcg") for k in CUTS]
DATA = "a .npz file; default: generated data, and techno2020_clicks where it is found"


def generated(study, seed):
    """Judged documents whose clicks depend on the label and on two features that the judges did not look at."""
    found = []
    for number, part in enumerate(study.data(seed)):
        taste = 1.5 * (part.X[:, 0] + part.X[:, 1])
        clicks = lp.data.simulate_clicks(part.labels, part.group, taste=taste, seed=10 * seed + number)
        found.append((part, np.minimum(4 * clicks, 1.0)))  # last clicks are spread thin: stretched to use [0, 1]
    return found


def load(path, folds=None):
    """Train, validation and test parts of a .npz file, each with its clicks: a list of one, or of so many folds."""
    file = np.load(path)
    click = file["click"] if file["click"].ndim == 1 else np.where(file["shown"], file["y_click"] / 3, np.nan)
    if folds:  # of all but two parts the first, the other two in turn
        _, query = np.unique(file["qid"], return_inverse=True)
        part = np.random.default_rng(0).permutation(np.arange(query.max() + 1) % folds)[query]
        splits = [np.maximum((part + k) % folds - (folds - 3), 0) for k in range(folds)]
    else:
        splits = [file["split"]]
    masks = [[split == number for number in range(3)] for split in splits]
    return [[(common.rows_of(file, rows), click[rows]) for rows in three] for three in masks]


def measured(part, clicks, scores):
    """NDCG of the labels, and CNDCG of the documents with known clicks, query by query."""
    found = common.values(MEASURES[:10], part, scores)
    known = ~np.isnan(clicks)
    queries, sizes = np.unique(part.qid[known], return_counts=True)
    seen = lp.evaluate(MEASURES[10:], clicks[known], scores[known], sizes, per_query=True)
    for name, values in seen.items():
        found[name] = np.full(len(part.group), np.nan)
        found[name][queries] = values
    return found


def sweep(study, key, parts, rate=0.2):
    """Baseline (0), each weight and the guard: (means on validation, values of test queries) of each; the baseline's model."""
    (part, clicks), (valid, valid_clicks), (test, test_clicks) = parts
    judged, clicked = tiers(clicks)
    rounds = study.options.rounds

    def run(objective, callbacks=()):
        data, ends = (part, valid, "ndcg@3"), (rounds, callbacks, study.patience)
        _, model = common.trained(objective, *data, *ends, learning_rate=rate)
        checked = measured(valid, valid_clicks, model.predict(valid.X))
        means = {name: float(np.nanmean(checked[name])) for name in ("ndcg@3", "cndcg@3")}
        return means, measured(test, test_clicks, model.predict(test.X)), model

    found = {0.0: study.once((key, rate, judged), lambda: run(judged))}
    for w in WEIGHTS[-2:] if study.options.quick else WEIGHTS:
        objective = lp.Graded([judged, clicked], weights=[1 - w, w])
        found[w] = study.once((key, rate, objective), lambda o=objective: run(o))
    floor = found[0.0][0]["ndcg@3"] - BOUND
    guarded = lp.Graded([judged, clicked], weights=[0.5, 0.5], guard=lp.guard("ndcg@3", floor=floor))
    watching = [lp.callback(guarded, metric=lp.metric("ndcg@3"))]
    found["guard"] = study.once((key, rate, "guard"), lambda: run(guarded, watching))
    return found


def tiers(clicks):
    return lp.LambdaRank("ndcg"), lp.LambdaRank("cndcg", labels=clicks, ignore_zero=True)


def choose(found):
    """The paper's choice of w, and the one that bounds the loss."""
    weights = [w for w in found if w not in (0.0, "guard")]
    allowed = [w for w in weights if found[w][0]["ndcg@3"] >= found[0.0][0]["ndcg@3"] - BOUND] or weights[:1]
    by = {name: lambda w, name=name: found[w][0][name] for name in ("ndcg@3", "cndcg@3")}
    return {
        "validation NDCG@3": max(weights, key=by["ndcg@3"]),
        "bounded loss": max(allowed, key=by["cndcg@3"]),
        "guard": "guard",
    }


def differences(sets, chosen, name):
    return [found[w][1][name] - found[0.0][1][name] for found, w in zip(sets, chosen, strict=True)]


def report(study, title, sets, folds):
    """Table 1 for each way to choose, and the paper's claims."""

    def decide(claim, effect, ws, name, **given):
        found = differences(sets, ws, name)
        found = [np.concatenate(found)] if folds else found  # folds are one data set
        study.decide(common.Claim(f"{PAPER}, Table 1", f"{claim}, {title}", effect, **given), found)

    chosen = {way: [choose(found)[way] for found in sets] for way in choose(sets[0])}
    rows = {}
    for w in sets[0]:
        if w != 0.0:
            cells = [common.interval(differences(sets, [w] * len(sets), name)) for name in ("ndcg@3", "cndcg@3")]
            rows[w if w == "guard" else f"{w:g}"] = [f"{100 * mean:+.2f} ± {100 * half:.2f}" for mean, half in cells]
    study.say("Change against the baseline (NDCG alone) by weight, points, 95 % intervals:")
    study.say(pd.DataFrame(rows, index=["NDCG@3", "CNDCG@3"]).T.to_string())
    rows = {}
    for kind in ("ndcg", "cndcg"):
        base = [common.interval([found[0.0][1][f"{kind}@{k}"] for found in sets])[0] for k in CUTS]
        rows[f"{kind.upper()} baseline"] = [f"{100 * mean:.2f} " for mean in base]
        for way, ws in chosen.items():
            cells = [common.interval(differences(sets, ws, f"{kind}@{k}")) for k in CUTS]
            rows[f"{kind.upper()} {way}"] = [
                f"{100 * (b + change):.2f}{'*' if abs(change) > half else ' '}"
                for b, (change, half) in zip(base, cells, strict=True)
            ]
    study.say(pd.DataFrame(rows, index=[f"@{k}" for k in CUTS]).T.to_string())
    study.say("* differs from the baseline at 95 %, paired")
    for way, ws in list(chosen.items())[:2]:
        study.say(f"w by {way}: {', '.join(f'{w:g}' for w in ws)}")
        for name, effect in THERE.items():
            decide(f"clicks raise {name.upper()}, w by {way}", effect, ws, name)
        decide(f"no loss of NDCG@3 (half a point), w by {way}", 0.0, ws, "ndcg@3", least=-100 * BOUND)


def shares(part, clicks, model):
    """{pairs: {share of the model's trees: share of each query's documents that both tiers push the same way}}."""
    judged, clicked = tiers(clicks)
    others = {"all click pairs": lp.LambdaRank("cndcg", labels=clicks)}
    others["restricted"] = lp.Graded([judged, clicked], weights=[0.0, 1.0])  # equal labels, both clicked
    curves = {name: {} for name in others}
    for moment in MOMENTS:
        scores = model.predict(part.X, num_iteration=max(1, round(moment * model.num_trees())))
        mine = np.sign(judged.gradients(labels=part.labels, scores=scores, group=part.group)[0])
        for name, other in others.items():
            force = np.sign(other.gradients(labels=part.labels, scores=scores, group=part.group)[0])
            agree = (mine == force) | (force == 0.0)
            curves[name][moment] = np.add.reduceat(agree, np.cumsum([0, *part.group[:-1]])) / part.group
    return curves


def agreement(study, title, found, axis):
    """Figure 2: how many documents both tiers push the same way, as the baseline's model grows."""
    for name in found[0]:
        means, halves = np.array([common.interval([one[name][moment] for one in found]) for moment in MOMENTS]).T
        axis.errorbar(100 * np.array(MOMENTS), means, halves, fmt="o-", capsize=3, label=name)
    axis.set(xlabel="% of the trees", ylabel="share of documents")
    axis.set_title(f"Figure 2, {title}:\ndocuments that both tiers push alike")
    common.legend_below(axis)
    claim = f"agreement rises when click pairs are restricted to equal labels and clicked documents, {title}"
    differ = [one["restricted"][MOMENTS[-1]] - one["all click pairs"][MOMENTS[-1]] for one in found]
    study.decide(common.Claim(f"{PAPER}, Figure 2", claim, 15.0), differ)


def main():
    study = common.Study(__doc__, queries=10_000, features=12, rounds=500, patience=50, tested=6000, seeds=4, data=DATA)
    options = study.options
    sets = {}
    if options.data:
        sets[options.data] = load(options.data)
    else:
        sets["generated"] = [generated(study, seed) for seed in range(options.seeds)]
        real = common.beside("techno2020_clicks")
        if real and not options.quick:
            sets["techno2020_clicks"] = load(real, folds=5)
    figure, axes = common.panels(";".join(["AB", "CD"][: len(sets)]), 3.8)
    for (name, several), row in zip(sets.items(), zip(axes[::2], axes[1::2], strict=True), strict=True):
        sizes, folds = " / ".join(str(len(part.group)) for part, _ in several[0]), name != "generated"
        rate = RATES.get(name, 0.2)
        study.say(
            f"--- {name}: {sizes} queries in each of {len(several)} {'fold' if folds else 'data set'}(s), up to {options.rounds} trees,"
        )
        study.say(f"learning rate {rate:g}")
        found = [sweep(study, (name, seed), parts, rate) for seed, parts in enumerate(several)]
        study.trees = [model.num_trees() for one in found for *_, model in one.values()]
        study.say_growth()
        report(study, name, found, folds)
        for w, mark in zip((w for w in found[0] if w != 0.0), itertools.cycle("oD^v<>s"), strict=False):
            x, y = (common.interval(differences(found, [w] * len(found), m)) for m in ("ndcg@3", "cndcg@3"))
            (xs, ys), label = 100 * np.array([x, y]), w if w == "guard" else f"w {w:g}"
            row[0].errorbar(xs[0], ys[0], ys[1], xs[1], mark, capsize=3, label=label)
        common.legend_below(row[0], 4)
        row[0].axvline(0, color="grey", lw=0.8)
        row[0].axhline(0, color="grey", lw=0.8)
        row[0].set(xlabel="change of test NDCG@3, points", ylabel="change of test CNDCG@3, points")
        row[0].set_title(f"{name}:\nagainst NDCG alone, 95 % intervals")
        first = slice(1 if folds else None)  # the training queries of folds are the same ones
        pairs = [(*parts[0], one[0.0][2]) for parts, one in zip(several[first], found[first], strict=True)]
        agree = [study.once((name, seed, rate, "agreement"), lambda a=a: shares(*a)) for seed, a in enumerate(pairs)]
        agreement(study, name, agree, row[1])
    study.finish(figure)


if __name__ == "__main__":
    main()
