"""Climb the measure itself: ApproxAP and ApproxNDCG beside LambdaRank.

    python recipes/direct_approximation.py                    # generated data, and the five folds of MQ2008 where it is found
    python recipes/direct_approximation.py --data file.npz    # your own: arrays X, y, qid, part (1..5)

Section 6 of "A general approximation framework for direct optimization of information retrieval measures" (2008): how
far the surrogate is from the measure while a model learns, for several alpha and beta (Figures 1-3), and test MAP and
NDCG of models trained for either (Table 3, Figure 5), alpha and beta chosen on validation. Beside them LambdaRank and
lp.objective, which is smoothed; the paper compares with other methods (Table 2, Figure 4). Validation chooses the learning
rate of all of them.
"""

import itertools

import common
import lightgbm as lgb
import numpy as np
import pandas as pd

import lambdaplug as lp
from lambdaplug import plotting

PAPER = "Qin, Liu, Li 2008"
MEASURES = {"AP": "map", "NDCG": "ndcg"}
DATA = "a .npz file; default: generated data, and MQ2008 where it is found"
# Steps of a fixed length along the gradient, as in the paper. In a Newton step alpha would be no more than the scores' unit.
STEPS = {"hessian": "constant", "normalize": "std"}
LEAVES = {"num_leaves": 15, "learning_rate": 0.2}
FIGURE_TREES = 60  # of the models whose error is watched
SETTING_TREES = (
    300  # at most, of the models that alpha and beta are chosen by; the learning rate is chosen by grown ones
)
FIGURES = {
    "AP, beta 10 (Figure 1)": [("map", {"alpha": alpha, "beta": 10}) for alpha in (10, 50, 100)],
    "AP, alpha 100 (Figure 2)": [("map", {"alpha": 100, "beta": beta}) for beta in (1, 10, 100)],
    "NDCG (Figure 3)": [("ndcg", {"alpha": alpha}) for alpha in (10, 50, 300)],
}


DRAWN = {1: 45, 2: 45, 3: 63}  # training queries of a fold of TD2004 (75 queries) and of OHSUMED (106)


def load(path):
    file = np.load(path)
    return [common.rows_of(file, file["part"] == number) for number in range(1, 6)]


def together(parts):
    return lp.data.RankingData(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))


def folds(parts):
    """LETOR's: three parts to train on, one to choose by, one to test on, each part tested once."""
    for k in range(5):
        turned = [parts[(k + i) % 5] for i in range(5)]
        yield together(turned[:3]), turned[3], turned[4]


def label_of(setting):
    return ", ".join(f"{name} {value:g}" for name, value in setting.items())


def approximation_error(objective, part, rounds):
    """|surrogate - measure| of the training queries as the model grows: {trees: values}."""
    name = str(objective.measure)
    parameters = {"objective": objective, "num_threads": 1, "verbose": -1} | LEAVES
    model = lgb.train(parameters, lgb.Dataset(part.X, part.labels, group=part.group), rounds)
    errors = {}
    for m in np.unique(np.linspace(max(1, rounds // 20), rounds, 12).astype(int)).tolist():
        scores = model.predict(part.X, num_iteration=m)
        truth = common.values(name, part, scores)[name]
        errors[m] = np.abs(objective.value(labels=part.labels, scores=scores, group=part.group, per_query=True) - truth)
    return errors


def seen(number, claim):
    """What a figure of the paper shows without a number: at least what its queries could show."""
    return common.Claim(f"{PAPER}, Figure {number}", claim, queries=DRAWN[number], said="yes")


def figures(study, axes, title, parts):
    """Figures 1-3 and their claims, on the training queries of each data set, or of one fold."""
    rounds, found = min(FIGURE_TREES, study.options.rounds), {}
    for axis, (figure, settings) in zip(axes, FIGURES.items(), strict=True):
        for measure, setting in settings:
            objective = lp.Approx(measure, **setting, **STEPS)
            several = [
                study.once((title, k, objective), lambda o=objective, p=part: approximation_error(o, p, rounds))
                for k, part in enumerate(parts)
            ]
            moments = {m: [errors[m] for errors in several] for m in several[0]}
            axis.plot(list(moments), [common.interval(sets)[0] for sets in moments.values()], label=label_of(setting))
            found[measure, label_of(setting)] = list(moments.values())
        axis.set(title=f"|surrogate - measure|: {figure}, training queries", xlabel="trees", ylabel="mean error")
        plotting.legend(axis)
    means = {name: [common.interval(one[k])[0] for k in (0, len(one) // 2, -1)] for name, one in found.items()}
    study.say(f"{title}, training queries: approximation error after a twentieth, half and all of {rounds} trees")
    study.say(pd.DataFrame(means, index=["1/20", "1/2", "all"]).T.round(4).to_string())
    ends = {name: one[-1] for name, one in found.items()}
    for bound, (name, sets) in [(5.0, one) for one in list(ends.items())[:3]] + [(2.0, list(ends.items())[2])]:
        claim = f"{bound:g} points minus AP's error is above 0, {name[1]}, {title}"
        study.decide(seen(1, claim), [bound / 100 - errors for errors in sets])
    for number, settings in enumerate(FIGURES.values(), 1):
        for blunt, sharp in itertools.pairwise((measure, label_of(setting)) for measure, setting in settings):
            claim = f"{blunt[0].upper().replace('MAP', 'AP')}'s error falls from {blunt[1]} to {sharp[1]}, {title}"
            study.decide(seen(number, claim), [a - b for a, b in zip(ends[blunt], ends[sharp], strict=True)])


def candidates(quick):
    """{name: (measure, objectives)}: validation chooses one of them, and then its learning rate."""
    alphas, betas, found = *(([10], [10]) if quick else ([10, 50, 100], [1, 10, 100])), {}
    for name, measure in MEASURES.items():
        settings = [{"alpha": a, "beta": b} for a, b in itertools.product(alphas, betas)]
        if name == "NDCG":
            settings = [{"alpha": a} for a in (*alphas, 300)]
        steps = [lp.Approx(measure, **setting, **STEPS) for setting in settings]
        found[f"Approx{name}"] = measure, [*steps, lp.Approx(measure)]
    for name, measure in MEASURES.items():
        found[f"LambdaRank {name}"] = measure, [lp.LambdaRank(measure)]
        found[f"lp.objective {name}"] = measure, [lp.objective(measure)]
    return found


def contest(study, title, splits):
    """Every model measured by both measures; values of all folds, by name and measure."""
    found, chosen = {}, {}
    rates = [LEAVES | {"learning_rate": rate} for rate in ([0.1] if study.options.quick else [0.2, 0.5])]
    trees = min(SETTING_TREES, study.options.rounds)
    for name, (measure, objectives) in candidates(study.options.quick).items():
        best, numbers = [], {}
        for k, parts in enumerate(splits):
            own = 0 if title == "generated" else k  # data sets that are alike: alpha and beta of the first serve all
            if own not in numbers:
                choices = [(objective, rates[0]) for objective in objectives] if len(objectives) > 1 else []
                numbers[own] = study.choose((title, own), choices, parts, measure, trees)[0] if choices else 0
            choices = [(objectives[numbers[own]], rate) for rate in rates]
            best.append(study.best((title, k), choices, parts, measure, list(MEASURES.values())))
        found[name] = {column: [one.tests[text] for one in best] for column, text in MEASURES.items()}
        shown = [f"{one.objective!r}".replace(", hessian='constant', normalize='std'", "") for one in best]
        speeds = [f"learning rate {one.parameters['learning_rate']:g}" for one in best]
        chosen[name] = [f"{a}, {b}" if "Approx" in name else b for a, b in zip(shown, speeds, strict=True)]
    rows = {}
    for name, columns in found.items():
        rows[name] = []
        for column, sets in columns.items():
            own, half = common.interval(sets)
            against = found[f"LambdaRank {column}"][column]
            change, error = common.interval([a - b for a, b in zip(sets, against, strict=True)])
            rows[name] += [f"{100 * own:.2f} ± {100 * half:.2f}", f"{100 * change:+.2f} ± {100 * error:.2f}"]
    columns = [
        text
        for name in ("MAP", "NDCG")
        for text in (name, f"against LambdaRank {name[-2:] if name == 'MAP' else name}")
    ]
    study.say(
        f"\n{title}, test queries of {len(splits)} {'data set(s)' if title == 'generated' else 'folds'}, points with 95 % intervals (Table 3, Figure 5):"
    )
    study.say(pd.DataFrame(rows, index=columns).T.to_string())
    study.say("Chosen on validation:")
    for name, several in chosen.items():
        study.say(f"  {name}: {'; '.join(dict.fromkeys(several))}")
    pairs = [("AP", "ApproxAP", "ApproxNDCG"), ("NDCG", "ApproxNDCG", "ApproxAP")]
    differ = {c: [x - y for x, y in zip(found[a][c], found[b][c], strict=True)] for c, a, b in pairs}
    if title != "generated":  # folds are one data set
        differ = {column: [np.concatenate(folds)] for column, folds in differ.items()}
    study.decide(common.Claim(f"{PAPER}, Table 3", f"ApproxAP beats ApproxNDCG by MAP, {title}", 3.2), differ["AP"])
    claim = f"ApproxNDCG is not behind ApproxAP by NDCG (half a point), {title}"
    study.decide(common.Claim(f"{PAPER}, Figure 5", claim, 0.05, least=-0.5), differ["NDCG"])
    return found


def dots(axis, title, found):
    for shift, column in enumerate(MEASURES):
        means, halves = 100 * np.array([common.interval(columns[column]) for columns in found.values()]).T
        label = column.replace("AP", "MAP")
        places = np.arange(len(found)) + 0.2 * shift
        axis.errorbar(means, places, xerr=halves, fmt="os"[shift], capsize=3, label=f"tested by {label}")
    axis.set_yticks(range(len(found)), found)
    axis.invert_yaxis()
    axis.set(title=f"{title}, test queries, 95 % intervals", xlabel="points", ylabel="trained with")
    plotting.legend(axis)


def main():
    study = common.Study(__doc__, queries=10_000, rounds=800, patience=50, tested=8000, seeds=3, data=DATA)
    options = study.options
    sets = {}
    if not options.data:
        sets["generated"] = [study.data(seed) for seed in range(options.seeds)]
    path = options.data or (None if options.quick else common.beside("mq2008"))
    if path:
        sets["MQ2008" if not options.data else options.data] = list(folds(load(path)))
    title = next(iter(sets))
    figure, axes = common.panels(";".join(["AA", "BB", "CC", "DD", "EE"][: 3 + len(sets)]), 2.4)
    figures(study, axes[:3], title, [parts[0] for parts in sets[title]][: None if title == "generated" else 1])
    for axis, (name, splits) in zip(axes[3:], sets.items(), strict=True):
        dots(axis, name, contest(study, name, splits))
    study.say_growth()
    study.finish(figure)


if __name__ == "__main__":
    main()
