"""Gradients without a formula learn where weights are few; NDCG becomes smoother with many queries, and never smooth.

    python recipes/papers/spsa_2007.py                    # generated data
    python recipes/papers/spsa_2007.py --data file.npz    # your own, for Table 1: arrays X, y, qid, split (0, 1, 2)

Y. Yue, C. Burges (2007), "On using simultaneous perturbation stochastic approximation for learning to rank, and the empirical
optimality of LambdaRank", MSR-TR-2007-115. As in the paper the perturbed numbers are the weights of linear nets and NDCG is the
mean of all training queries; lp.SPSA perturbs scores, each query's own, which any booster can use: it is in the details.

**It says** that two evaluations along a random direction estimate a gradient of any measure; that this needs fewer evaluations than a
difference for each weight, and yet stays behind LambdaRank and RankNet, as NDCG still jumps in small steps over 10,000 queries.
**We found** fewer evaluations where features depend on each other (with independent ones differences are as good), NDCG smoother with
every tenfold of queries and jumping all the same, and LambdaRank's weights at its optimum. With 50 features and a search for a0 and c0,
SPSA:4 is level with LambdaRank and RankNet; the paper had 367. (In Figure 1 a0 is the best of three by where the first run ends; SPSA:4 has
the largest and starts late.) **Use** `lp.SPSA` or `lp.FDSA` for a measure that is known by its
value alone, and `lp.custom` or `lp.LambdaRank` for all others: a step of SPSA needs every query evaluated four times.
"""

import itertools

import numpy as np
import pandas as pd
from scipy.special import expit
from shared import Net, Paper, chosen, common, dots, interval, measured, train, verdict

import lambdaplug as lp

A, ALPHA, GAMMA = 50, 0.602, 0.101  # of the paper's steps a_k = a0/(A + k^alpha) and distances c_k = c0/k^gamma
MEASURE = "ndcg@10"
SHARES = np.linspace(-1, 1, 31)  # of a weight's trained value, added to it
CLOSER = np.linspace(-0.005, 0.005, 31)


def spsa(value, weights, evaluations, iterations, a0, c0, rng):
    """Weights iteration by iteration: uphill on ``value`` (of several weight vectors), by averages over random directions."""
    for k in range(1, iterations + 1):
        c = c0 / k**GAMMA
        ways = rng.choice([-1.0, 1.0], size=(evaluations // 2, len(weights)))
        found = value(np.concatenate([weights + c * ways, weights - c * ways]))
        rise = (found[: len(ways)] - found[len(ways) :]) / (2 * c)
        weights = weights + a0 / (A + k**ALPHA) * (rise[:, None] / ways).mean(axis=0)
        yield weights


# --- Figure 1: cross entropy by evaluations ----------------------------------------------------------------------


def cross_entropy(data):
    """(value of weight vectors, its gradient): RankNet's cost, the mean over pairs, of a linear net."""
    starts = np.cumsum(data.group) - data.group
    pairs = [s + np.argwhere(g[:, None] > g) for s, g in zip(starts, np.split(data.labels, starts[1:]), strict=True)]
    better, worse = np.concatenate(pairs).T
    apart = data.X[better] - data.X[worse]

    def value(several):
        return np.logaddexp(0, -(apart @ several.T.astype(np.float32))).mean(axis=0)

    def gradient(weights):
        return -expit(-(apart @ weights.astype(np.float32))) @ apart / len(apart)

    return value, gradient


def fdsa(gradient, weights, iterations, a0):
    """As in the paper by the closed form, which costs two evaluations for each weight."""
    for k in range(1, iterations + 1):
        weights = weights - a0 / (A + k**ALPHA) * gradient(weights)
        yield weights


def correlated(data):
    """The same labels with features that depend on each other, as real ones do: mixed, with scales that fall as 1/sqrt(k)."""
    features = data.X.shape[1]
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(features, features)))[0]
    scales = np.arange(1, features + 1) ** -0.5
    mixed = data.X @ (turn * scales * (features / np.square(scales).sum()) ** 0.5) @ turn.T
    return lp.data.RankingData(mixed.astype(np.float32), data.labels, data.group)


def figure_1(paper):
    """{(data, method): cross entropy [run, evaluations]}, and the evaluations; steps are chosen by where the first run ends."""
    features = 20 if paper.quick else 60
    iterations, runs = (10, 2) if paper.quick else (30, 10)
    data, found = lp.data.cubic(30 if paper.quick else 100, 26, features, noise=0.7), {}
    for kind, one in (("correlated", correlated(data)), ("independent", data)):
        value, gradient = cross_entropy(one)

        def walk(name, a0, run, value=value, gradient=gradient):
            rng = np.random.default_rng(run)
            start = rng.normal(size=features) / features**0.5
            if name == "FDSA":
                path, every = fdsa(gradient, start, iterations, a0), 1
            else:
                each = int(name[5:])
                path = spsa(lambda w: -value(w), start, each, 2 * features * iterations // each, a0, 0.03, rng)
                every = 2 * features // each
            return value(np.array([start, *(w for k, w in enumerate(path, 1) if k % every == 0)]))

        for name in ("FDSA", "SPSA:2", "SPSA:4", "SPSA:8"):
            steps = (10, 30, 100) if name == "FDSA" else (1, 3, 10)
            a0 = min(steps, key=lambda a0: np.nan_to_num(walk(name, a0, 0)[-1], nan=np.inf))
            found[kind, name] = np.array([walk(name, a0, run) for run in range(runs)])
            paper.say(
                f"{kind} features, {name}: a0 {a0:g}, {found[kind, name][:, -1].mean():.4f} at the end", keep=True
            )
            paper.bar.update()
    evaluations = np.arange(iterations + 1) * 2 * features
    third = iterations // 3
    for kind in ("correlated", "independent"):
        mean, low, high = np.round(interval([found[kind, "FDSA"][:, third] - found[kind, "SPSA:2"][:, third]]), 3)
        claim = "SPSA:2 has a lower cross entropy than FDSA at as many evaluations"
        regime = f"linear, {features} {kind} features, {evaluations[third]:,} evaluations"
        paper.row(claim, regime, "figure", f"{mean:+.3f} ({low:+.3f} to {high:+.3f})", verdict(low, high))
    mean, low, high = interval([found["correlated", "SPSA:8"][:, third] - found["correlated", "SPSA:2"][:, third]])
    found_ = f"{mean:+.3f} ({low:+.3f} to {high:+.3f})"
    regime = f"{features} correlated features, {evaluations[third]:,} evaluations"
    paper.row(
        "averages (SPSA:8) change nothing (margin 0.02)", regime, "figure", found_, verdict(low, high, margin=0.02)
    )
    return {name: found["correlated", name] for name in ("FDSA", "SPSA:2", "SPSA:4", "SPSA:8")}, evaluations


# --- Table 1: NDCG@10 --------------------------------------------------------------------------------------------


def by_spsa(part, valid, a0, c0, iterations, seed):
    """(net, validation values): SPSA:4 in the weights of a linear net, on mean NDCG@10."""
    net = Net(part.X.shape[1], 0, seed)

    def value(several):
        return np.array([measured(MEASURE, part, part.X @ w.astype(np.float32)) for w in several])

    best, values = net.weights, []
    for k, weights in enumerate(spsa(value, net.weights, 4, iterations, a0, c0, np.random.default_rng(seed))):
        if k % 20 == 0:
            values.append(measured(MEASURE, valid, valid.X @ weights.astype(np.float32)))
            best = weights if values[-1] == max(values) else best
    net.weights = best.astype(np.float32)
    return net, values


def table_1(paper):
    rates = {"LambdaRank": (0.001, 0.003), "RankNet": (0.01, 0.1), "lp.SPSA:4": (0.001, 0.01)}
    trained = {
        "LambdaRank": lp.LambdaRank("ndcg"),
        "RankNet": lp.LambdaRank("pairs"),
        "lp.SPSA:4": lp.SPSA(MEASURE, evaluations=4),
    }
    found, steps = {}, [(a0, c0) for a0 in (3, 15) for c0 in (0.03, 0.1)][: 1 if paper.quick else None]
    for seed in paper.sets(5):
        parts = paper.parts(1500, 50, 0.7, seed, documents=26, valid=1000)
        part, valid, test = parts if paper.options.data else map(correlated, parts)
        models = {}
        for name, objective in trained.items():
            how = {"part": part, "valid": valid, "measure": MEASURE, "epochs": 3 if paper.quick else 25}
            make = lambda s=seed, f=part.X.shape[1]: Net(f, 0, s)  # noqa: E731
            models[name], _, rate = chosen(make, rates[name], objective=objective, queries_a_step=20, **how)
            rates[name] = (rate,)
            paper.bar.update()
        walks = [(*by_spsa(part, valid, *step, 30 if paper.quick else 400, seed), step) for step in steps]
        models["SPSA:4"], _, step = max(walks, key=lambda one: max(one[1]))
        steps = [step]
        paper.bar.update()
        for name, net in models.items():
            own = [measured(MEASURE, one, net.scores(one.X)) for one in (part, valid)]
            tests = common.values(MEASURE, test, net.scores(test.X))[MEASURE]
            found.setdefault(name, []).append((*own, tests))
    rows = {
        name: [100 * np.mean([np.nanmean(one[k]) for one in sets]) for k in range(3)] for name, sets in found.items()
    }
    paper.say(f"\nNDCG@10 of linear nets, mean over data sets (Table 1); SPSA:4 with a0, c0 = {steps[0]}:", keep=True)
    paper.say(pd.DataFrame(rows, index=["train", "valid", "test"]).T.round(2).to_string(), keep=True)
    regime = f"linear, 50 correlated features, NDCG@10 {rows['LambdaRank'][2]:.0f}"
    for a, b, effect in (("LambdaRank", "SPSA:4", 3.0), ("RankNet", "SPSA:4", 2.2), ("LambdaRank", "RankNet", 0.8)):
        differences = [x[2] - y[2] for x, y in zip(found[a], found[b], strict=True)]
        paper.claim(f"{a} beats {b}, NDCG@10", regime, differences, effect)
    return found


# --- Figures 2 to 5: how smooth NDCG is --------------------------------------------------------------------------


def curves(net, part, places, shares):
    """NDCG with one weight changed by these shares of itself, the others fixed: [weight, share]."""
    found = np.empty((len(places), len(shares)))
    for row, place in enumerate(places):
        for column, share in enumerate(shares):
            weights = net.weights.copy()
            weights[place] *= 1 + share
            found[row, column] = measured("ndcg", part, net.scores(part.X, weights))
    return 100 * found


def roughness(curve):
    """What a cubic in the weight leaves, as a share of the curve's span."""
    rest = curve - np.polyval(np.polyfit(SHARES, curve, 3), SHARES)
    return 100 * rest.std() / np.ptp(curve)


def smoothness(paper):
    sizes = (10, 40, 160) if paper.quick else (100, 1_000, 10_000)
    data = lp.data.cubic(sizes[-1] + 500, 50, 50, seed=9)
    many, valid = data.split(sizes[-1], 500)
    parts = [many.split(size, sizes[-1] - size)[0] for size in sizes[:-1]] + [many]
    drawn, rises, tops = {}, [], []
    for name, hidden, rate in (("linear", 0, 0.001), ("two layers", 10, 0.001)):
        how = {"rate": rate, "epochs": 5 if paper.quick else 12, "queries_a_step": 20}
        net, _ = train(Net(50, hidden), lp.LambdaRank("ndcg"), many, valid, "ndcg", **how)
        places = (
            np.argsort(-np.abs(net.weights))[:5]
            if not hidden
            else np.arange(len(net.weights) - hidden, len(net.weights))
        )
        drawn[name] = {size: curves(net, part, places, SHARES) for size, part in zip(sizes, parts, strict=True)}
        whole = drawn[name][sizes[-1]]
        rises.append(whole.max(axis=1) - whole[:, len(SHARES) // 2])
        near = curves(net, many, places[:3], CLOSER)
        tops.append(((near[:, 1:-1] > near[:, :-2]) & (near[:, 1:-1] > near[:, 2:])).sum(axis=1))
        paper.bar.update()
    rough = {s: np.concatenate([[roughness(line) for line in drawn[name][s]] for name in drawn]) for s in sizes}
    paper.say("\nWhat a cubic leaves of NDCG's curve in one weight, % of its span, mean over 15 weights:", keep=True)
    paper.say(", ".join(f"{size:,} queries {values.mean():.2f}" for size, values in rough.items()), keep=True)
    regime = "clean data, linear and two layers, 15 weights"
    for few, lots in itertools.pairwise(sizes):
        mean, low, high = interval([rough[few] - rough[lots]])
        found = f"{mean:+.2f} % of the span ({low:+.2f} to {high:+.2f})"
        paper.row(
            f"NDCG is smoother over {lots:,} than over {few:,} queries", regime, "figure", found, verdict(low, high)
        )
    count = np.concatenate(tops)
    found, decided = (
        f"{count.min()} to {count.max()} local maxima in 1 % of a weight",
        "reproduced" if count.min() > 1 else "level",
    )
    paper.row(f"and still jumps in small steps, {sizes[-1]:,} queries", regime, "figure", found, decided)
    claim = "LambdaRank ends at NDCG's optimum in each weight alone (margin 0.2 points)"
    paper.claim(claim, regime, [np.concatenate(rises)], said="figure", margin=0.2, scale=1)
    return drawn, near


def main():
    paper = Paper(__doc__)
    entropy, evaluations = figure_1(paper)
    found = table_1(paper)
    drawn, near = smoothness(paper)
    figure, axes = common.panels("AB;CD;EF", 2.8)
    for name, runs in entropy.items():
        axes[0].plot(evaluations, runs.mean(axis=0), "s--" if name == "FDSA" else "-", label=name)
    axes[0].set(title="Figure 1: mean of all runs", xlabel="evaluations", ylabel="cross entropy")
    dots(axes[1], {name: [one[2] for one in sets] for name, sets in found.items()}, "Table 1", "test NDCG@10")
    for axis, size in zip(axes[2:5], drawn["linear"], strict=True):
        axis.plot(100 * SHARES, drawn["linear"][size].T, "-")
        axis.set(title=f"NDCG, five weights, {size:,} queries", xlabel="% change of a weight", ylabel="NDCG")
    axes[5].plot(100 * CLOSER, near[0], ".-")
    axes[5].set(title="two layers, one weight, closer", xlabel="% change of the weight", ylabel="NDCG")
    lp.plotting.legend(axes[0])
    paper.finish(figure)


if __name__ == "__main__":
    main()
