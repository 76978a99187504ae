"""How changes of a measure become forces: five lambda constructions side by side.

    python recipes/constructions.py                    # generated data
    python recipes/constructions.py --data file.npz    # your own: arrays X, y, qid, split (0, 1, 2)

Tables 1 and 2 of "On the local optimality of LambdaRank" (2009): MAP and MRR of models trained with each construction.
All take gradient steps, each query's gradients divided by their standard deviation, as only some constructions have a
hessian of their own. As in the paper the learning rate (and here the number of trees) is picked on the validation
queries, so the claims are decided on test queries; a training goes on until validation ends it. Also printed: the pairs
that act at the start of a training, which the paper suspects behind the differences.
"""

import common
import numpy as np
import pandas as pd

import lambdaplug as lp

PAPER = "Donmez, Svore, Burges 2009, Tables 1 and 2"
CONSTRUCTIONS = {
    "ranknet_weight_pairs": "RankNetWeightPairs",
    "spring_smooth": "SpringSmooth",
    "local_gradient": "LocalGradient",
    "local_cost": "LocalCost",
    "discrete_bounded": "DiscreteBounded",
}
# For MAP four data sets contradict each other on these two; with nine more the chance to see the paper's effect is 0.9.
CLOSE = ("ranknet_weight_pairs", "spring_smooth")
MORE = 9
LEARNING_RATES = {"MAP": [0.3, 1.0], "MRR": [0.1, 0.3, 1.0]}  # MRR has fewer pairs to learn from


def pairs_at_start(objective, part):
    """Acting pairs per query when nothing is learned: documents in random order."""
    try:
        scores = np.random.default_rng(0).normal(size=len(part.labels))
        pairs = lp.analysis.effective_pairs(objective, labels=part.labels, scores=scores, group=part.group)
        return f"{sum(pairs.values())[0] / len(part.group):.1f}"
    except lp.LambdaplugError:
        return "no pairs"


def contest(study, measures, seed, constructions=tuple(CONSTRUCTIONS)):
    """The best of each construction on validation, by measure and construction."""
    parts = study.data(seed)
    found = {}
    for title, measure in measures.items():
        rates = [0.3] if study.options.quick else LEARNING_RATES[title]
        for construction in constructions:
            objective = lp.LambdaRank(measure, construction=construction, step="gradient")
            choices = [(objective, {"learning_rate": rate}) for rate in rates]
            found[title, construction] = study.best(seed, choices, parts, measure, str(measure))
    return found


def table(study, number, title, measure, found, more, part):
    """One of the paper's tables, of all data sets together, and its claims, with what ``more`` data sets say."""
    rows, base, column = {}, "ranknet_weight_pairs", str(measure)

    def tests(construction):
        return [one[title, construction].tests[column] for one in found]

    for construction, name in CONSTRUCTIONS.items():
        best = [one[title, construction] for one in found]
        mean, half = common.interval(tests(construction))
        change, error = common.interval([a - b for a, b in zip(tests(construction), tests(base), strict=True)])
        mark = "*" if abs(change) > error > 0 else " "
        rows[name] = [
            f"{100 * np.mean([one.value for one in best]):.2f}",
            f"{100 * mean:.2f} ± {100 * half / 1.96:.2f}{mark}",
            ", ".join(f"{one.parameters['learning_rate']:g}" for one in best),
            ", ".join(str(one.model.num_trees()) for one in best),
            pairs_at_start(lp.LambdaRank(measure, construction=construction), part),
        ]
    columns = [f"validation {title}", f"test {title}", "learning rates", "trees", "acting pairs per query"]
    study.say(f"\nTable {number}: trained for {title}, points ± standard error")
    study.say(pd.DataFrame(rows, index=columns).T.to_string())
    study.say("* differs from RankNetWeightPairs at 95 %, paired")
    for construction, name in list(CONSTRUCTIONS.items())[1:]:
        claim = common.Claim(PAPER, f"RankNetWeightPairs beats {name}, {title}", queries=5000)
        both = [(one[title, base], one[title, construction]) for one in (*found, *more) if (title, construction) in one]
        study.decide(claim, [a.tests[column] - b.tests[column] for a, b in both])


def main():
    given = [("--relevant", {"type": float, "default": 2, "help": "lowest relevant label (the paper: 2 of 0..4)"})]
    study = common.Study(__doc__, queries=10_000, rounds=600, patience=50, tested=6000, seeds=4, given=given)
    options = study.options
    measures = {"MAP": lp.MAP(relevant=options.relevant), "MRR": lp.MRR(relevant=options.relevant)}
    found = [contest(study, measures, seed) for seed in range(options.seeds)]
    others = range(0) if options.quick or options.data else range(options.seeds, options.seeds + MORE)
    more = [contest(study, {"MAP": measures["MAP"]}, seed, CLOSE) for seed in others]
    parts = study.data()
    sizes = " / ".join(str(len(part.group)) for part in parts)
    study.say(f"{sizes} queries in each of {options.seeds} data sets, up to {options.rounds} trees;")
    close = " and ".join(CONSTRUCTIONS[one] for one in CLOSE)
    study.say(f"relevant: {options.relevant:g} or more; the claim on {close} by MAP has {len(more)} more data sets")
    study.say_growth()
    for number, (title, measure) in enumerate(measures.items(), 1):
        table(study, number, title, measure, found, more, parts[0])

    figure, axes = common.panels("AB", 2.8, sharey=True)
    figure.suptitle("Five lambda constructions, test queries, 95 % intervals", x=0.01, ha="left")
    for axis, (title, measure) in zip(axes, measures.items(), strict=True):
        points = [common.interval([one[title, c].tests[str(measure)] for one in found]) for c in CONSTRUCTIONS]
        means, halves = 100 * np.array(points).T
        axis.errorbar(means, range(len(points)), xerr=halves, fmt="o", capsize=4)
        axis.set(title=f"Trained for {title}", xlabel=f"{title}, points")
    axes[0].set_yticks(range(len(CONSTRUCTIONS)), CONSTRUCTIONS.values())
    axes[0].set_ylabel("construction")
    axes[0].invert_yaxis()
    study.finish(figure)


if __name__ == "__main__":
    main()
