"""Pair by pair, or document by document: how the time of a gradient grows with the documents of a query.

    python recipes/speed_up.py

Section 6.1 of "Learning to rank with non-smooth cost functions" (2006). RankNet's gradient of a linear model, with 50
features and label shares as the web's: once pair by pair, each pair's difference of features passed through the model, and once
factorised, all forces on the scores first (lp.LambdaRank("pairs")) and then one pass over the documents. The slopes on
log-log axes, of the longest lists, are the paper's Figure 1, right; processor time, so that a busy machine does not matter.
"""

import os
import time

# Before NumPy and Numba are loaded: threads that wait for each other would count as work.
os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"
os.environ["MKL_NUM_THREADS"] = os.environ["NUMBA_NUM_THREADS"] = "1"

import common
import numpy as np
import pandas as pd

import lambdaplug as lp

PAPER = "Burges, Ragno, Le 2006"
RANKNET = lp.LambdaRank("pairs", normalize="none")


def pair_by_pair(data, weights):
    """The sum over pairs of RankNet's derivative times the difference of the features; each query's, over its pairs."""
    total, first = np.zeros(len(weights)), 0
    for size in data.group.tolist():
        X, labels = data.X[first : first + size], data.labels[first : first + size]
        better, worse = np.nonzero(labels[:, None] > labels[None, :])
        for start in range(0, len(better), 20_000):  # as much as a cache holds
            differences = X[better[start : start + 20_000]] - X[worse[start : start + 20_000]]
            total -= (1 / (1 + np.exp(differences @ weights))) @ differences / len(better)
        first += size
    return total


def factorised(data, weights):
    return RANKNET.gradients(labels=data.labels, scores=data.X @ weights, group=data.group)[0] @ data.X


def seconds(gradient, data, weights):
    start, count = time.process_time(), 0
    while count == 0 or time.process_time() - start < 0.05:
        gradient(data, weights)
        count += 1
    return (time.process_time() - start) / count


def main():
    study = common.Study(__doc__, queries=100, tested=0, seeds=4, quick={"queries": 10, "seeds": 2})
    options = study.options
    documents = [4, 8, 16, 26, 64] if options.quick else [4, 8, 16, 26, 64, 128, 256, 512]
    ways = {"pair by pair": pair_by_pair, "factorised": factorised}
    times = {name: np.empty((options.seeds, len(documents))) for name in ways}
    weights = np.random.default_rng(0).normal(size=50).astype(np.float32) / 7
    for seed in range(options.seeds):
        for k, size in enumerate(documents):
            data = lp.data.cubic(options.queries, size, 50, seed=seed)
            if seed == 0:  # they are the same gradient
                a, b = (gradient(data, weights) for gradient in ways.values())
                np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4 * np.abs(a).max())
            for name, gradient in ways.items():
                times[name][seed, k] = study.once((name, size, seed), lambda g=gradient, d=data: seconds(g, d, weights))
    longest = np.log(documents[-4:])  # in shorter lists the calls themselves take most of the time
    slopes = {
        name: np.array([np.polyfit(longest, np.log(line[-4:]), 1)[0] for line in found])
        for name, found in times.items()
    }
    table = {f"{size}": [1e3 * times[name][:, k].mean() for name in ways] for k, size in enumerate(documents)}
    table[f"slope from {documents[-4]}"] = [slopes[name].mean() for name in ways]
    study.say(
        f"{options.queries} queries, mean of {options.seeds} data sets; milliseconds of a gradient by documents per query:"
    )
    study.say(pd.DataFrame(table, index=list(ways)).round(3).T.to_string())
    claim = f"slope of the pair-by-pair gradient's time minus the factorised one's, from {documents[-4]} documents on"
    differences = slopes["pair by pair"] - slopes["factorised"]
    study.decide(
        common.Claim(f"{PAPER}, Figure 1", claim, 1.943 - 1.185, unit="slope", over="data sets"), [differences]
    )
    at = documents.index(26)
    ratio = times["pair by pair"][:, at] / times["factorised"][:, at]
    claim = common.Claim(
        f"{PAPER}, section 6.1", "times faster, 26 documents per query", 5.1, least=1.0, unit="times", over="data sets"
    )
    study.decide(claim, [ratio])

    figure, (axis,) = common.panels("AA", 4.5)
    for name, found in times.items():
        label = f"{name}, slope {slopes[name].mean():.2f} from {documents[-4]} documents on"
        mark = "o-" if name == "factorised" else "s--"
        axis.errorbar(documents, found.mean(0), 2 * found.std(0), fmt=mark, capsize=3, label=label)
    axis.set(
        xscale="log", yscale="log", xlabel="documents per query", ylabel="seconds per gradient, ± 2 standard deviations"
    )
    axis.set_title(f"RankNet's gradient of {options.queries} queries, linear model")
    common.legend_below(axis)
    study.finish(figure)


if __name__ == "__main__":
    main()
