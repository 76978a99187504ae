"""Which measure to train for: every measure trained for, every one tested, and how it changes with more data.

    python recipes/match_the_measure.py                    # generated data
    python recipes/match_the_measure.py --data file.npz    # your own: arrays X, y, qid, split (0, 1, 2)

"On the local optimality of LambdaRank" (2009), section 7.3: NDCG, NDCG@10, MAP and MRR. With plain LambdaRank, as in the
paper: each measure trained for and tested (its Tables 3 and 4), test MRR over the number of effective pairs for training
sets of several sizes (its Figure 5), and training sets so large that each measure has as many effective pairs as MRR.
Then lp.objective in place of LambdaRank, in both hosts. What is best to train for depends on how much there is to learn
from: try --queries 1500 as well.
"""

import common
import numpy as np
import pandas as pd

import lambdaplug as lp

PAPER = "Donmez, Svore, Burges 2009"
RATE = {"learning_rate": 0.5}  # so that models of 10,000 queries end within the trees allowed
ORDINARY = {"lightgbm": {"num_threads": 1} | RATE, "xgboost": {"nthread": 1} | RATE}
COUNTED = 1000  # queries
TRAININGS = 5  # of lp.objective for each measure: single ones differ by more than the queries' error


def pairs_of(measure, part, model):
    """Effective pairs: the mean over five moments of a training, counted in the first queries and scaled up to all."""
    plain, queries = lp.LambdaRank(measure), len(part.group)
    part = part.split(COUNTED, queries - COUNTED)[0] if queries > COUNTED else part
    moments = np.unique(np.linspace(1, model.num_trees(), 5).astype(int)).tolist()
    counts = [
        sum(lp.analysis.effective_pairs(plain, labels=part.labels, scores=scores, group=part.group).values())
        for scores in (model.predict(part.X, num_iteration=m) for m in moments)
    ]
    return float(np.mean(counts)) * queries / len(part.group)


def fit(study, seed, share, measure, measures):
    """(tests, effective pairs, training queries) of plain LambdaRank on a share of the training queries."""
    part, valid, test = study.data(seed)
    some = part if share >= 1 else part.split(share, 1 - share)[0]
    choices = [(lp.LambdaRank(measure), RATE)]
    best = study.best((seed, round(share, 6)), choices, (some, valid, test), measure, [str(m) for m in measures])
    pairs = study.once((seed, round(share, 6), "pairs", measure, RATE), lambda: pairs_of(measure, some, best.model))
    return best.tests, pairs, len(some.group)


def square(study, measures, full, equal):
    """Tables 3 and 4, and the same with as many effective pairs as MRR has."""
    names = [str(measure) for measure in measures]

    def cell(found, a, name):
        mean, _ = common.interval([tests[name] for tests, *_ in found[a]])
        change, half = common.interval(
            [x[0][name] - y[0][name] for x, y in zip(found[a], full[measures[names.index(name)]], strict=True)]
        )
        return f"{100 * mean:.2f}{'†' if abs(change) > half > 0 else ' '}"

    for title, found in (("all training queries", full), ("as many effective pairs as MRR", equal)):
        rows = {}
        for measure in measures:
            pairs, queries = (np.mean([one[k] for one in found[measure]]) for k in (1, 2))
            rows[str(measure)] = [f"{queries:,.0f}", f"{pairs:,.0f}", *(cell(found, measure, name) for name in names)]
        study.say(f"\nPlain LambdaRank, {title}; rows: trained for, columns: tested, points")
        study.say(pd.DataFrame(rows, index=["queries", "pairs", *names]).T.to_string())
    study.say("† differs at 95 % (paired) from training for the measure tested, on all training queries")


def claims(study, measures, full, equal):
    ndcg, ndcg10, average, first = measures

    def differ(name, a, b):
        return [x[0][str(name)] - y[0][str(name)] for x, y in zip(a, b, strict=True)]

    for own in (ndcg, average):
        for other in (m for m in measures if m is not own):
            claim = common.Claim(f"{PAPER}, Table 3", f"for {own}, train for {own} rather than {other}", queries=10_000)
            study.decide(claim, differ(own, full[own], full[other]))
    for own in (ndcg10, first):
        claim = f"with {len(study.data()[0].group):,} queries, for {own} train for {ndcg}"
        claim = common.Claim(f"{PAPER}, Table 3", claim, 2.0)
        study.decide(claim, differ(own, full[ndcg], full[own]))
    for other in (ndcg, ndcg10, average):
        claim = f"with equal effective pairs, for {first} train for it rather than {other}"
        claim = common.Claim(f"{PAPER}, Figure 5", claim, queries=10_000)
        study.decide(claim, differ(first, full[first], equal[other]))


def losses(table):
    """What is ahead of the diagonal, by tests corrected for all cells off it."""
    off = ~np.eye(len(table.values), dtype=bool)
    p = np.ones(off.shape)
    p[off] = common.holm(np.nan_to_num(table.p_values[off], nan=1.0))
    ahead = np.argwhere((p < 0.05) & (table.values > table.values.diagonal()))
    found = [f"{table.trained[row]} by {table.measures[column]}" for row, column in ahead]
    return f"ahead of the diagonal at 95 % after Holm's correction over the {off.sum()} cells off it: {', '.join(found) or 'none'}"


def main():
    given = [("--relevant", {"type": float, "default": 2, "help": "lowest relevant label (the paper: 2 of 0..4)"})]
    study = common.Study(__doc__, queries=10_000, rounds=400, patience=50, tested=10_500, seeds=4, given=given)
    options = study.options
    measures = [lp.NDCG(), lp.NDCG(k=10), lp.MAP(relevant=options.relevant), lp.MRR(relevant=options.relevant)]
    shares, seeds = (1 / 4,) if options.quick else (1 / 16, 1 / 4), range(options.seeds)
    full = {m: [fit(study, seed, 1, m, measures) for seed in seeds] for m in measures}
    first = measures[-1]
    equal = {m: [fit(study, s, full[first][s][1] / full[m][s][1], m, measures) for s in seeds] for m in measures}
    grown = [{m: [fit(study, seed, share, m, measures) for seed in seeds] for m in measures} for share in shares]
    grown.append(full)
    parts = study.data()
    sizes = " / ".join(str(len(part.group)) for part in parts)
    study.say(f"{sizes} queries in each of {options.seeds} data set(s), up to {options.rounds} trees, LightGBM")
    study.say_growth()
    square(study, measures, full, equal)
    claims(study, measures, full, equal)

    figure, axes = common.panels("AA;BB;CC", 3.0)
    for measure in measures:
        pairs = [np.mean([one[1] for one in found[measure]]) for found in grown]
        points = [common.interval([one[0][str(first)] for one in found[measure]]) for found in grown]
        means, halves = 100 * np.array(points).T
        axes[0].errorbar(pairs, means, halves, fmt="o-", capsize=3, label=f"trained for {measure}")
    axes[0].set(xscale="log", xlabel="effective pairs", ylabel=f"test {first}, points")
    axes[0].set_title("Figure 5: plain LambdaRank, 95 % intervals")
    common.legend_below(axes[0])
    part, valid, test = parts
    trainings = 1 if options.quick else TRAININGS
    for axis, (host, parameters) in zip(axes[1:], ORDINARY.items(), strict=True):

        def matched(host=host, parameters=parameters):
            rules = {"progress": False, "builtins": False, "trainings": trainings}
            return lp.analysis.match_table(part, test, measures, host, parameters, options.rounds, valid, **rules)

        table = study.once(("lp.objective", host, parameters, trainings), matched)
        study.say(f"\nlp.objective, {host}, first data set:\n{table}")
        study.say(f"trees: {', '.join(map(str, table.trees))}")
        study.say(losses(table))
        table.plot(axis)
        axis.set_title(f"lp.objective, {host}: darker: better in its column; † differs from the diagonal at 95 %")
    study.finish(figure)


if __name__ == "__main__":
    main()
