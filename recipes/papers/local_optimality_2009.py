"""Nets trained by LambdaRank end near local optima of four measures; what to train for depends on how many pairs have a force.

    python recipes/papers/local_optimality_2009.py                    # generated data
    python recipes/papers/local_optimality_2009.py --data file.npz    # your own: arrays X, y, qid, split (0, 1, 2)

P. Donmez, K. Svore, C. Burges (2009), "On the local optimality of LambdaRank", SIGIR. Figures 1 to 4 and 6: the training measure along
459 random directions of the weights, and of single weights. Tables 1 and 2: five constructions. Table 3 and Figure 5: each measure trained for
and tested. Two functions serve boosters, and may be copied: ``polish`` walks leaf values uphill on a measure as far as validation
agrees, ``match_table`` is Table 3 with your data, host and parameters.

**It says** that nets trained by LambdaRank are local optima of the measure they were trained for, that weighting RankNet's pairs is the
best of thirteen constructions, and that the measure reported is the one to train for once enough pairs have a force. **We found** the
optima for steps from 0.3 on in linear nets, nearly so in two layers (where single weights still rise, by 0.2 points at most), and not at
0.1, where a thousand queries still jump. With 3,000 queries it hardly matters which of NDCG, NDCG@10 and MAP is trained for, and MRR loses
up to eight points, as it has 8 pairs per query where NDCG has 756. **Use** NDCG, or `lp.objective("mrr")`, which gives
MRR more pairs, and look with `lp.analysis.local_optimality` before you tune further.
"""

import itertools
import json
import pickle

import lightgbm as lgb
import numpy as np
import pandas as pd
import xgboost as xgb
from scipy.special import stdtr
from shared import Net, Paper, chosen, common, dots, measured, train

import lambdaplug as lp
from lambdaplug.analysis.optimality import Landscape, unit, unit_direction
from lambdaplug.hosts.base import raw_scores, weights_of
from lambdaplug.hosts.xgboost import leaf_nodes

MEASURES = [lp.NDCG(), lp.NDCG(k=10), lp.MAP(relevant=2), lp.MRR(relevant=2)]
NDCG, NDCG10, MAP, MRR = NAMES = [str(measure) for measure in MEASURES]
EQ11 = "MRR, Eq. 11"
ELEVEN = lp.MRR(relevant=2, gains_only=True)  # the paper's Eq. 11: no pair whose swap would lower the measure
STEPS = (0.1, 0.3, 1.0)  # the paper's are 0.1, 0.2, ... 1
SINGLE = (-1.0, -0.3, -0.1, 0.1, 0.3, 1.0)
WALKED = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)  # steps of polish, of the weights' norm
CONSTRUCTIONS = ["ranknet_weight_pairs", "spring_smooth", "local_gradient", "local_cost", "discrete_bounded"]
RATES = {NDCG: (0.001, 0.003), NDCG10: (0.001, 0.003), MAP: (0.003, 0.01), MRR: (0.003, 0.01)}


# --- certificates ------------------------------------------------------------------------------------------------


def along(net, part, moves, steps=(1.0,)):
    """{measure: change of its mean [move, step]} of the net's weights plus step times each move."""

    def values(weights):
        return list(lp.evaluate(MEASURES, part.labels, net.scores(part.X, weights), part.group).values())

    start = np.array(values(net.weights))
    found = np.array([[values(net.weights + np.float32(step) * move) for step in steps] for move in moves])
    return dict(zip(NAMES, np.moveaxis(found - start, 2, 0), strict=True))


def directions(net, count):
    return np.array([unit_direction(len(net.weights), number, 0) for number in range(count)], dtype=np.float32)


def certificates(paper):
    """Every net's changes, and the rows of the table."""
    queries, count, epochs = (60, 40, 3) if paper.quick else (1000, 459, 40)
    part = paper.parts(queries, 50, 0.5)[0]
    found, counts, norms = {}, {}, {}
    for kind, hidden in (("linear", 0), ("two layers", 10)):
        for name, measure in zip(NAMES, MEASURES, strict=True):
            # The weights are those that were best on the training queries, which is what the certificate is about.
            how = {"part": part, "valid": part, "measure": measure, "epochs": epochs, "queries_a_step": 10}
            net, _ = train(Net(part.X.shape[1], hidden), lp.LambdaRank(measure), rate=RATES[name][0], **how)
            found[kind, name] = along(net, part, directions(net, count), STEPS)
            norms[kind, name] = float(np.linalg.norm(net.weights))
            if name == NDCG:
                places = np.random.default_rng(0).permutation(len(net.weights))[:100]
                moves = np.eye(len(net.weights), dtype=np.float32)[places]
                found[kind, "one weight"] = along(net, part, moves, SINGLE)
            paper.bar.update()
    early, _ = train(
        Net(part.X.shape[1], 10), lp.LambdaRank(NDCG10), part, part, NDCG10, rate=0.001, epochs=7, queries_a_step=10
    )
    found["two layers", "epoch 7"] = along(early, part, directions(early, count), STEPS)
    blind = Net(part.X.shape[1], 0, seed=3)
    found["linear", "random weights"] = along(blind, part, directions(blind, count), STEPS)
    paper.bar.update()

    def higher(key, name, least=0.0):
        steps = np.array(SINGLE if key[1] == "one weight" else STEPS)
        return int((found[key][name][:, np.abs(steps) >= least] > 1e-9).any(axis=1).sum())

    rows = {}
    for key in found:
        name = key[1] if key[1] in NAMES else NDCG10 if key[1] == "epoch 7" else NDCG
        rows[key] = [name, len(found[key][name]), *(higher(key, name, least) for least in STEPS)]
        rows[key] += [f"{100 * found[key][name].max():+.2f}", f"{norms.get(key, np.nan):.1f}"]
    for kind in ("linear", "two layers"):
        small, counts = (sum(higher((kind, name), name, least) for name in NAMES) for least in (0.1, 0.3))
        regime = f"{len(part.group):,} queries, {kind}, four measures, steps 0.3 to 1"
        asked = count * len(NAMES), "none of 459", f"; {small} from 0.1"
        paper.rare("no direction improves the measure trained for", regime, counts, *asked)
    single = [
        (higher((kind, "one weight"), NDCG, 0.3), len(found[kind, "one weight"][NDCG]))
        for kind in ("linear", "two layers")
    ]
    regime = "NDCG, linear and two layers, 0.3 and 1 either way"
    paper.rare("no weight alone improves it", regime, *(sum(one) for one in zip(*single, strict=True)))
    others = [
        (higher(("two layers", MRR), NDCG10, 0.3), count),
        (higher(("two layers", "epoch 7"), NDCG10, 0.3), count),
    ]
    claim = "nor NDCG@10 of nets trained for MRR, or for 7 epochs"
    paper.rare(claim, "two layers, steps 0.3 to 1", *(sum(one) for one in zip(*others, strict=True)))
    columns = ["measure", "moves", *(f"higher from {least:g}" for least in STEPS), "most, points", "norm"]
    paper.say("Moves that raise the training measure, by the smallest step allowed (Figures 1 to 4 and 6):", keep=True)
    paper.say(pd.DataFrame(rows, index=columns).T.to_string(), keep=True)
    return found


# --- what to train for -------------------------------------------------------------------------------------------


def fitted(paper, parts, objective, measure, rates, seed, queries=None):
    """Of a two-layer net: test values by every measure, and the rate that was best."""
    part, valid, test = parts
    if queries is not None and queries < len(part.group):
        part = part.split(queries, len(part.group) - queries)[0]
    how = {"part": part, "valid": valid, "measure": measure, "epochs": 3 if paper.quick else 25, "queries_a_step": 20}
    net, _, rate = chosen(lambda: Net(part.X.shape[1], 10, seed), rates, objective=objective, **how)
    paper.bar.update()
    return common.values(MEASURES, test, net.scores(test.X)), rate, net


def best_other(found, own, name, others=None):
    """The one that is best, by the mean, of the others, and the differences to it."""
    means = {key: np.mean([np.nanmean(one[name]) for one in found[key]]) for key in others or found if key != own}
    other = max(means, key=means.get)
    return other, [a[name] - b[name] for a, b in zip(found[own], found[other], strict=True)]


def both_of(a, b):
    """Two sorts of differences together, for each data set."""
    return [np.concatenate(two) for two in zip(a, b, strict=True)]


def constructions(paper):
    """Tables 1 and 2, on test queries as the rate is chosen on validation; {measure: {construction: test values}}."""
    found, rates, rows = {MAP: {}, MRR: {}}, {}, {}
    trained_for = {MAP: MEASURES[2], MRR: ELEVEN}
    for seed in paper.sets(4):
        parts = paper.parts(1500, 50, 0.7, 100 + seed, valid=1000)
        for name, kind in itertools.product(found, CONSTRUCTIONS):
            grid = rates.get((name, kind), (0.001,) if paper.quick else (0.001, 0.01, 0.1))
            objective = lp.LambdaRank(trained_for[name], construction=kind)
            tests, rate, _ = fitted(paper, parts, objective, name, grid, seed)
            rates[name, kind] = (rate,)
            found[name].setdefault(kind, []).append(tests)
    own, spring, *local = CONSTRUCTIONS
    regime = f"two layers, noisy, {len(parts[0].group):,} queries, mean of MAP and MRR (Eq. 11)"
    ahead = both_of(*(best_other(by, own, name, local)[1] for name, by in found.items()))
    paper.claim(
        "RankNetWeightPairs beats LocalGradient, LocalCost, DiscreteBounded", f"{regime}; the best of them", ahead
    )
    ahead = both_of(*(best_other(by, own, name, [spring])[1] for name, by in found.items()))
    paper.claim("RankNetWeightPairs beats SpringSmooth (our reading of it)", regime, ahead)
    for name, by in found.items():
        rows[name] = [f"{100 * np.mean([np.nanmean(one[name]) for one in by[kind]]):.2f}" for kind in CONSTRUCTIONS]
    rates = {name: [f"{rates[name, kind][0]:g}" for kind in CONSTRUCTIONS] for name in found}
    rows |= {f"rate, {name}": values for name, values in rates.items()}
    paper.say("\nTest values of the constructions (Tables 1 and 2):", keep=True)
    paper.say(pd.DataFrame(rows, index=CONSTRUCTIONS).to_string(), keep=True)
    return found


def pairs_at(measure, part, net):
    """Effective pairs per query at these weights."""
    some = part.split(min(500, len(part.group) // 2), len(part.group) - min(500, len(part.group) // 2))[0]
    given = {"labels": some.labels, "scores": net.scores(some.X), "group": some.group}
    return float(np.sum(sum(lp.analysis.effective_pairs(lp.LambdaRank(measure), **given).values()))) / len(some.group)


def what_to_train_for(paper):
    """Table 3, and Figure 5: the others with so many queries that they have MRR's pairs."""
    full, equal, rates, pairs = {}, {}, dict(RATES), {}
    for seed in paper.sets(4):
        parts = paper.parts(3000, 50, 0.7, 200 + seed, valid=1000)
        nets = {}
        for name, measure in [*zip(NAMES, MEASURES, strict=True), (EQ11, ELEVEN)]:
            judged = MEASURES[3] if measure is ELEVEN else measure
            tests, rate, nets[name] = fitted(
                paper, parts, lp.LambdaRank(measure), judged, rates.get(name, RATES[MRR]), seed
            )
            rates[name] = (rate,)
            full.setdefault(name, []).append(tests)
        few = pairs_at(ELEVEN, parts[0], nets[EQ11])
        for name, measure in zip(NAMES[:3], MEASURES, strict=False):
            pairs[name] = pairs_at(measure, parts[0], nets[name])
            queries = max(10, round(len(parts[0].group) * few / pairs[name]))
            tests, *_ = fitted(paper, parts, lp.LambdaRank(measure), measure, rates[name], seed, queries)
            equal.setdefault(name, []).append(tests)
        pairs[EQ11] = few
    regime = f"two layers, noisy, {len(parts[0].group):,} queries"
    square = {name: full[name] for name in NAMES}
    for own in (NDCG, MAP):
        other, differences = best_other(square, own, own)
        claim = f"for {own.split('(')[0].upper()} train for it"
        paper.claim(claim, f"{regime}; against {other.split('(')[0]}, the best other", differences)
    few = [
        [a[n] - b[n] for a, b in zip(full[NDCG], full[own], strict=True)] for n, own in ((NDCG10, NDCG10), (MRR, EQ11))
    ]
    regime_of_few = f"{regime}, mean of NDCG@10 and MRR (Eq. 11)"
    paper.claim("for NDCG@10 and MRR, which have few pairs, train for NDCG", regime_of_few, both_of(*few), 2.0)
    start = equal | {EQ11: full[EQ11]}
    other, differences = best_other(start, EQ11, MRR)
    claim = "with as many effective pairs, for MRR train for it"
    paper.claim(claim, f"{regime} for MRR, fewer for the others; against {other}, the best other", differences)
    rows = {}
    for title, found in (("all queries", full), ("MRR's pairs", equal)):
        for name, sets in found.items():
            rows[name, title] = [f"{100 * np.mean([np.nanmean(one[n]) for one in sets]):.2f}" for n in NAMES]
            rows[name, title].append(f"{pairs[name]:.0f}" if name in pairs else "")
    paper.say("\nTrained for (rows), tested (columns), and effective pairs per query (Table 3, Figure 5):", keep=True)
    paper.say(pd.DataFrame(rows, index=[*NAMES, "pairs"]).T.to_string(), keep=True)
    return full


# --- for boosters ------------------------------------------------------------------------------------------------


def with_weights(model, values):
    """A booster of the same host with other leaf values, or weights of features; the first one stays as it is."""
    if isinstance(model, lgb.Booster):
        other = pickle.loads(pickle.dumps(model))
        sizes = [tree["num_leaves"] for tree in model.dump_model()["tree_info"]]
        places = [(tree, leaf) for tree, size in enumerate(sizes) for leaf in range(size)]
        for (tree, leaf), value in zip(places, values.tolist(), strict=True):
            other.set_leaf_output(tree, leaf, value)
        return other
    content, rest = json.loads(model.save_raw("json").decode()), iter(values.tolist())
    inside = content["learner"]["gradient_booster"]["model"]
    if "weights" in inside:
        inside["weights"][:-1] = values.tolist()  # the last one is the constant
    for tree in inside.get("trees", ()):
        for node in leaf_nodes(tree).tolist():
            tree["split_conditions"][node] = tree["base_weights"][node] = next(rest)
    other = xgb.Booster()
    other.load_model(bytearray(json.dumps(content).encode()))
    return other


def polish(model, part, valid, measure, rounds=30, probes=32, patience=5, seed=0):
    """(booster, trace): the weights of a booster walked uphill on the measure itself, as far as validation agrees.

    Every round tries some steps along the lambda forces summed for each weight, and along the measure's own slope, from
    ``probes`` random directions both ways; the step that raises the measure most on these rows is taken, and none that does
    not raise it. The walk ends ``patience`` rounds after the best on ``valid``. The trace is a list of what each accepted step
    did to both. The model itself comes back where no step helped.
    """
    _, weights, read = weights_of(model)
    train, judge = (
        Landscape(weights, raw_scores(model, one.X), read(one.X), lp.queries.Queries(one.labels, one.group), measure)
        for one in (part, valid)
    )
    norm, lengths = float(np.linalg.norm(weights)), list(WALKED)
    moved = best = np.zeros_like(weights)
    trace = [{"train": train.value(), "valid": judge.value()}]
    for number in range(1, rounds + 1):
        ways = [train.lambda_direction(moved)]
        if probes:
            tried = [unit_direction(len(weights), probe, seed + 1000 * number) for probe in range(probes)]
            middle = lengths[len(lengths) // 2]
            both = train.along([norm * one for one in tried], [middle, -middle], moved).change
            ways.append(unit((both[:, 0] - both[:, 1]) @ np.array(tried)))
        trial = train.along([norm * one for one in ways], lengths, moved)
        way, length = np.unravel_index(int(trial.change.argmax()), trial.change.shape)
        if trial.change.max() <= 1e-12:
            break
        moved = moved + lengths[length] * norm * ways[way]
        trace.append({"train": trial.value + float(trial.change.max()), "valid": judge.value(moved)})
        rises = [row["valid"] for row in trace]
        best = moved if rises[-1] > max(rises[:-1]) else best
        if len(rises) - 1 - int(np.argmax(rises)) >= patience:
            break
    if best.any():
        better = with_weights(model, weights + best)
        before, after = (
            lp.evaluate(measure, valid.labels, raw_scores(one, valid.X), valid.group)[str(measure)]
            for one in (model, better)
        )
        if after > before:  # by the scores really given: XGBoost rounds weights to float32
            return better, trace
    return model, trace


def trained(host, objective, measure, part, valid, test, params, rounds):
    """(test scores, trees) of a model with the trees that are best on validation by its own measure."""
    if host == "lightgbm":
        data = lgb.Dataset(part.X, part.labels, group=part.group)
        watched = [lgb.Dataset(valid.X, valid.labels, group=valid.group, reference=data)]
        stopping = [lgb.early_stopping(rounds, verbose=False)]
        own = {"metric": "None", "verbose": -1, **params, "objective": objective}
        model = lgb.train(own, data, rounds, valid_sets=watched, feval=lp.metric(measure), callbacks=stopping)
        return model.predict(test.X), model.best_iteration
    own = {"disable_default_eval_metric": 1, "base_score": 0.0, **params}
    data, watched = (xgb.DMatrix(one.X, one.labels, qid=one.qid) for one in (part, valid))
    stopping = {"evals": [(watched, "valid")], "early_stopping_rounds": rounds, "verbose_eval": False}
    model = xgb.train(own, data, rounds, obj=objective, custom_metric=lp.metric(measure), **stopping)
    trees = model.best_iteration + 1
    return model.predict(xgb.DMatrix(test.X), iteration_range=(0, trees)), trees


def match_table(part, valid, test, measures, host, params, rounds, trainings=1, make=lp.objective):
    """Train for each measure (rows), test on each (columns): (means, p-values against each column's diagonal), two frames.

    Each training is repeated with the seeds 0, 1, ... of the objective and of the host: two that differ in nothing else may
    differ by more than the queries' error, and the tests know it (Welch's and Satterthwaite's degrees of freedom).
    """
    names, found = [str(measure) for measure in measures], []
    for measure in measures:
        seeds = range(trainings)
        models = [
            trained(host, make(measure, seed=s), measure, part, valid, test, {**params, "seed": s}, rounds)
            for s in seeds
        ]
        found.append([list(common.values(measures, test, scores).values()) for scores, _ in models])
    values = np.array(found)  # [trained for, training, tested, query]
    p = np.full((len(names), len(names)), np.nan)
    for row, column in np.ndindex(*p.shape):
        if row != column:
            change = values[row, :, column] - values[column, :, column]
            change = change[:, ~np.isnan(change[0])]
            own, queries = change.mean(axis=0), change.shape[1]
            error, freedom = own.var(ddof=1) / queries, queries - 1
            if trainings > 1:
                between = change.mean(axis=1).var(ddof=1) / trainings
                freedom = (error + between) ** 2 / (error**2 / freedom + between**2 / (trainings - 1))
                error += between
            p[row, column] = 2 * stdtr(freedom, -abs(own.mean()) / error**0.5) if error > 0 else 1.0
    return pd.DataFrame(np.nanmean(values, axis=(1, 3)), names, names), pd.DataFrame(p, names, names)


def boosters(paper):
    """Both functions at work on LightGBM's models, for the page of details."""
    part, valid, test = paper.parts(500, 50, 0.7, 300)
    rounds = 10 if paper.quick else 100
    means, p = match_table(part, valid, test, MEASURES, "lightgbm", {"num_threads": 1}, rounds)
    paper.say(
        f"\nmatch_table: lp.objective in LightGBM, {len(part.group)} queries; * differs from the diagonal at 95 %:",
        keep=True,
    )
    shown = (100 * means).round(2).astype(str) + p.map(lambda one: "*" if one < 0.05 else " ")
    paper.say(shown.to_string(), keep=True)
    data = lgb.Dataset(part.X, part.labels, group=part.group)
    model = lgb.train({"objective": lp.LambdaRank(NDCG10), "num_threads": 1, "verbose": -1}, data, rounds)
    polished, trace = polish(model, part, valid, MEASURES[1], rounds=3 if paper.quick else 10, probes=8)
    before, after = (100 * measured(NDCG10, test, one.predict(test.X)) for one in (model, polished))
    paper.say(
        f"polish on its training queries, {len(trace) - 1} steps: test NDCG@10 {before:.2f} -> {after:.2f}", keep=True
    )
    paper.bar.update()


def main():
    paper = Paper(__doc__)
    found = certificates(paper)
    built = constructions(paper)
    matched = what_to_train_for(paper)
    boosters(paper)
    figure, axes = common.panels("AB;CD;EF", 2.8)
    shown = [("linear", NDCG), ("two layers", MAP), ("two layers", MRR), ("linear", "random weights")]
    for axis, key in zip(axes, shown, strict=False):
        name = key[1] if key[1] in NAMES else NDCG
        lines = 100 * found[key][name]
        axis.fill_between(STEPS, lines.min(axis=0), lines.max(axis=0), color="0.85", label="all directions")
        axis.plot(STEPS, lines[:4].T, ".-", lw=1)
        axis.axhline(0, color="0.3", lw=0.8)
        axis.set(title=f"{key[0]}, {key[1]}", xlabel="step", ylabel="change of it, points")
    for axis, title, name, sets in (
        (axes[4], "MAP by construction", MAP, built[MAP]),
        (axes[5], "MRR by measure trained for", MRR, matched),
    ):
        dots(axis, {key: [one[name] for one in values] for key, values in sets.items()}, title, f"test {name}")
    paper.finish(figure)


if __name__ == "__main__":
    main()
