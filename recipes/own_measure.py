"""A measure of your own, trained for: what a shop earns in its first five slots.

    python recipes/own_measure.py                      # generated shop
    python recipes/own_measure.py --data file.npz      # your own: arrays X, y (revenue per row), qid, split (0, 1, 2)

A label is what the shop earns when the product is bought. A customer looks at five slots with falling attention and
spends no more than a budget, so no sum of gains and discounts is this measure: it is the ten lines below. Models are
trained for NDCG, for NDCG@5 and for the revenue itself, and measured by both; the revenue's swap delta is proved before it
is used, and timed against brute-force swaps. Last, what it costs to be no built-in measure: NDCG and NDCG@5 once more, as
measures of one's own, by rows=, by delta= and by delta= and prepare=, beside other built-in ones.
"""

import dataclasses
import time

import common
import lightgbm as lgb
import numpy as np
import pandas as pd
from scipy import stats
from tqdm import tqdm

import lambdaplug as lp
from lambdaplug import plotting

plt = plotting.use()

ATTENTION = np.array([1.0, 0.7, 0.5, 0.35, 0.25])
BUDGET = 25.0


def earned(labels):
    """What the five slots would earn without a budget."""
    total = 0.0
    for slot in range(min(5, len(labels))):
        total += ATTENTION[slot] * labels[slot]
    return total


def revenue(labels):
    total = 0.0
    for slot in range(min(5, len(labels))):
        total += ATTENTION[slot] * labels[slot]
    return min(total, BUDGET)


def revenue_delta(labels, i, j, total):
    """What exchanging positions i < j changes: i gives its attention to j's product."""
    lost = ATTENTION[i] - (ATTENTION[j] if j < 5 else 0.0) if i < 5 else 0.0
    return min(total + lost * (labels[j] - labels[i]), BUDGET) - min(total, BUDGET)


DISCOUNTS = 1.0 / np.log2(np.arange(2, 1002))
TOP_DISCOUNTS = np.where(np.arange(1000) < 5, DISCOUNTS, 0.0)


def discounted(discounts):
    """DCG with these discounts in three functions: its value, its rows, its delta."""

    def value(gains):
        return np.sum(gains * discounts[: len(gains)])

    def rows(gains):
        return discounts[: len(gains)]

    def delta(gains, i, j):
        return (gains[i] - gains[j]) * (discounts[i] - discounts[j])

    return value, rows, delta


def prepared_delta(gains, i, j, discounts):
    return (gains[i] - gains[j]) * (discounts[i] - discounts[j])


REVENUE = lp.custom("revenue@5", revenue, delta=revenue_delta, prepare=earned, k=5)
NDCG, NDCG_5 = lp.NDCG(gain="linear"), lp.NDCG(k=5, gain="linear")


def generated(queries):
    """A shop: grades as judged results have them, prices that depend on two features, revenue = price x chance to sell."""
    data = lp.data.cubic(queries, documents=30, noise=0.3)
    price = 20.0 * np.exp(0.8 * data.X[:, 0] + 0.3 * data.X[:, 1])
    chance = np.array([0.01, 0.05, 0.15, 0.35, 0.6])[data.labels.astype(int)]
    return dataclasses.replace(data, labels=(price * chance).astype(np.float32)).split(0.5, 0.25, 0.25)


def train(objective, part, valid, rounds):
    data = lgb.Dataset(part.X, part.labels, group=part.group)
    parameters = {"objective": objective, "learning_rate": 0.1, "metric": "None", "min_sum_hessian_in_leaf": 1e-12}
    return lgb.train(
        {**parameters, "verbose": -1},
        data,
        rounds,
        valid_sets=[lgb.Dataset(valid.X, valid.labels, group=valid.group, reference=data)],
        feval=lp.metric(objective.measure),
        callbacks=[lgb.early_stopping(30, verbose=False)],
    )


def milliseconds(measures, part, rounds=6):
    """One gradient for each as a host asks for it, on one thread: the least of several, taken in turn."""
    random = np.random.default_rng(0)
    scores = random.normal(size=len(part.labels))
    objectives, times = [lp.LambdaRank(measure) for measure in measures], []
    options = {"num_threads": 1, "verbose": -1}
    # Each its own data set, which remembers the last ranking.
    sets = [lgb.Dataset(part.X, part.labels, group=part.group, params=options).construct() for _ in measures]
    for _ in range(rounds):  # the first one compiles
        times.append([])
        scores += random.normal(0, 0.05, size=31)[random.integers(31, size=len(scores))]  # as a tree moves them
        for objective, data in zip(objectives, sets, strict=True):
            start = time.thread_time()
            objective(scores, data)
            times[-1].append(1000 * (time.thread_time() - start))
    return np.min(times[1:], axis=0)


def compare_with_the_built_in(queries, names):
    """NDCG and NDCG@5 as measures of one's own: the same gradients, in so much time."""
    part = lp.data.cubic(queries, documents=120, features=10)
    print(
        f"\nOne gradient, {queries:,} queries of 120, of a built-in measure and of the same by lp.custom, ms of one thread:"
    )
    common = {"gain": "exp2", "normalize": True}
    written = {
        "ndcg": (*discounted(DISCOUNTS), None, ["map", "err", "pairs", "bpref", "meanndcg"]),
        "ndcg@5": (*discounted(TOP_DISCOUNTS), 5, ["map@5", "err@5"]),
    }
    for name in names:
        value, rows, delta, k, others = written[name]
        forms = [lp.custom("my_" + name, value, rows=rows, k=k, **common)]
        forms.append(lp.custom("my_" + name, value, delta=delta, k=k, **common))
        forms.append(lp.custom("my_" + name, value, delta=prepared_delta, prepare=rows, k=k, **common))
        for form in forms:
            proof = lp.verify(form)
            if not proof:
                raise SystemExit(proof)
        built_in, *taken = milliseconds([name, *forms, *others], part, 30)
        compared = (
            f"{what} {ms:.1f} ({ms / built_in:.2f} x)"
            for what, ms in zip(["rows=", "delta=", "delta= and prepare=", *others], taken, strict=True)
        )
        print(f"{name} {built_in:.1f}:", ", ".join(compared))


def main():
    parser = common.arguments(
        __doc__, "own_measure.png", queries=2000, rounds=300, data="a .npz file; default: a generated shop"
    )
    options = parser.parse_args()
    rounds = 15 if options.quick else options.rounds
    part, valid, test = (
        common.load(options.data) if options.data else generated(160 if options.quick else options.queries)
    )

    print(lp.verify(REVENUE, labels=[0.0, 1.0, 5.0, 12.5, 30.0, 80.0]))
    contest = {"NDCG": NDCG, "NDCG@5": NDCG_5, "revenue": REVENUE}
    found, curves = {}, {}
    for name, measure in tqdm(contest.items(), desc="training", disable=None):
        model = train(lp.LambdaRank(measure), part, valid, rounds)
        scores = model.predict(test.X)
        found[name] = lp.evaluate([NDCG_5, REVENUE], test.labels, scores, test.group, empty=0, per_query=True)
        curves[name] = [
            lp.evaluate(REVENUE, test.labels, model.predict(test.X, num_iteration=n), test.group)[str(REVENUE)]
            for n in range(1, model.best_iteration + 1, max(1, model.best_iteration // 20))
        ]

    rows = {}
    for name, values in found.items():
        cells = []
        for measure, unit in ((NDCG_5, 100), (REVENUE, 1)):
            mine, baseline = unit * values[str(measure)], unit * found["NDCG"][str(measure)]
            low, high = stats.ttest_1samp(mine - baseline, 0.0).confidence_interval(0.95)
            cells += [f"{mine.mean():.2f}", "" if name == "NDCG" else f"{low:+.2f} to {high:+.2f}"]
        rows[f"trained for {name}"] = cells
    columns = ["NDCG@5, points", "against NDCG (95 %)", "revenue per query", "against NDCG (95 %) "]
    print(f"{len(part.group)} / {len(valid.group)} / {len(test.group)} queries; test queries:")
    print(pd.DataFrame(rows, index=columns).T.to_string())
    gain = found["revenue"][str(REVENUE)] - found["NDCG"][str(REVENUE)]
    significant = stats.ttest_1samp(gain, 0.0).pvalue < 0.05
    words = "earns more" if gain.mean() > 0 else "earns less"
    print(
        f"Trained for revenue it {words}{'' if significant else ', but not significantly'}: {gain.mean():+.2f} per query."
    )
    timed = milliseconds([REVENUE, lp.custom("revenue@5-swapped", revenue), NDCG_5], part)
    print("One gradient: {:.1f} ms by its delta, {:.1f} ms by swaps; NDCG@5 {:.1f} ms.".format(*timed))
    compare_with_the_built_in(*((40, ["ndcg@5"]) if options.quick else (2000, ["ndcg", "ndcg@5"])))

    figure, axis = plt.subplots()
    for name, curve in curves.items():
        axis.plot(np.linspace(0, 1, len(curve)), curve, label=f"trained for {name}")
    axis.set(xlabel="share of the trees", ylabel="revenue per query")
    axis.set_title("Test revenue of the first five slots")
    plotting.legend(axis)
    figure.savefig(options.plot)


if __name__ == "__main__":
    main()
