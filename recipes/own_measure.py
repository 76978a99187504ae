"""A measure of your own, trained for: what a shop earns in its first five slots.

    python recipes/own_measure.py                      # generated shop
    python recipes/own_measure.py --data file.npz      # yours: arrays X, y (chance to sell), price, qid, split (0, 1, 2)

A label is the chance that a customer who sees the product buys it; the price is a column of its own. The customer looks at
five slots with falling attention and spends no more than a budget, so no sum of gains and discounts is this measure: it is
the ten lines below. Models are trained for NDCG of what a product earns (price x chance), for its NDCG@5 and for the
revenue itself, and measured by both; the revenue's swap delta is proved before it is used, and timed against brute-force swaps.

Trained for as it stands, the revenue earns less than NDCG: it knows the first five slots only, and a list that has
reached the budget has no force at all, so that most pairs of products teach nothing. Deltas of orders near the present one
(``noise=``) give them a force, and half of the same measure without the budget, lp.Revenue, keeps one where the budget is
reached. A quarter of NDCG as a support earned about what NDCG alone does. Last, what it costs to be
no built-in measure: NDCG and NDCG@5 once more, as measures of one's own, by rows=, by delta= and by delta= and prepare=,
beside other built-in ones.
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


def earned(labels, price):
    """What the five slots would earn without a budget."""
    total = 0.0
    for slot in range(min(5, len(labels))):
        total += ATTENTION[slot] * labels[slot] * price[slot]
    return total


def revenue(labels, price):
    total = 0.0
    for slot in range(min(5, len(labels))):
        total += ATTENTION[slot] * labels[slot] * price[slot]
    return min(total, BUDGET)


def revenue_delta(labels, i, j, total, price):
    """What exchanging positions i < j changes: i gives its attention to j's product."""
    lost = ATTENTION[i] - (ATTENTION[j] if j < 5 else 0.0) if i < 5 else 0.0
    return min(total + lost * (labels[j] * price[j] - labels[i] * price[i]), BUDGET) - min(total, BUDGET)


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


NDCG, NDCG_5 = lp.NDCG(gain="linear"), lp.NDCG(k=5, gain="linear")


def generated(queries):
    """A shop: grades as judged results have them give the chance to sell, and two features the price."""
    data = lp.data.cubic(queries, documents=30, noise=0.3)
    chance = np.array([0.01, 0.05, 0.15, 0.35, 0.6], dtype=np.float32)[data.labels.astype(int)]
    parts = dataclasses.replace(data, labels=chance).split(0.5, 0.25, 0.25)
    return parts, [20.0 * np.exp(0.8 * part.X[:, 0] + 0.3 * part.X[:, 1]) for part in parts]


def loaded(path):
    file = np.load(path)
    return common.load(path), [file["price"][file["split"] == number] for number in range(3)]


def priced(part, price, **options):
    """LightGBM's data, with prices and what a row is worth."""
    data = lgb.Dataset(part.X, part.labels, group=part.group, **options)
    return lp.attach(data, price=price, worth=part.labels * price)


def train(objective, metric, data, valid, rounds):
    parameters = {"objective": objective, "learning_rate": 0.1, "metric": "None", "min_sum_hessian_in_leaf": 1e-12}
    return lgb.train(
        {**parameters, "verbose": -1},
        data,
        rounds,
        valid_sets=[valid.set_reference(data)],
        feval=metric,
        callbacks=[lgb.early_stopping(30, verbose=False)],
    )


def contest(measure):
    """By name: an objective, and the metric on validation data that stops it."""
    earning = lp.metric(measure)
    # The same without the budget, as a built-in measure: it goes on where the budget is reached.
    endless = lp.Revenue(price="price", click=float, k=5, discount=ATTENTION)
    both = lp.LambdaRank(measure, noise=1.0), lp.LambdaRank(endless, noise=1.0)
    return {
        "NDCG": (lp.LambdaRank(NDCG, labels="worth"), lp.metric(NDCG, labels="worth")),
        "NDCG@5": (lp.LambdaRank(NDCG_5, labels="worth"), lp.metric(NDCG_5, labels="worth")),
        "revenue": (lp.LambdaRank(measure), earning),
        "revenue, noise=1": (both[0], earning),
        "revenue, noise=1, and without a budget": (lp.Mixture([(0.5, one) for one in both]), earning),
    }


def milliseconds(measures, part, rounds=6, price=None):
    """One gradient for each as a host asks for it, on one thread: the least of several, taken in turn."""
    random = np.random.default_rng(0)
    scores = random.normal(size=len(part.labels))
    objectives, times = [lp.LambdaRank(measure) for measure in measures], []
    options = {"num_threads": 1, "verbose": -1}
    # Each its own data set, which remembers the last ranking.
    price = np.ones(len(part.labels)) if price is None else price
    sets = [priced(part, price, params=options).construct() for _ in measures]
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
    (part, valid, test), (price, valid_price, test_price) = (
        loaded(options.data) if options.data else generated(160 if options.quick else options.queries)
    )

    measure = lp.custom("sales@5", revenue, delta=revenue_delta, prepare=earned, k=5, columns="price")
    print(lp.verify(measure, labels=[0.0, 0.01, 0.05, 0.2, 0.6], columns={"price": price}))
    found, curves, worth = {}, {}, test.labels * test_price
    for name, (objective, metric) in tqdm(contest(measure).items(), desc="training", disable=None):
        model = train(objective, metric, priced(part, price), priced(valid, valid_price), rounds)

        def money(scores, **how):
            own = {"price": test_price}
            return lp.evaluate(measure, test.labels, scores, test.group, columns=own, **how)[str(measure)]

        scores = model.predict(test.X)
        goods = lp.evaluate(NDCG_5, worth, scores, test.group, empty=0, per_query=True)[str(NDCG_5)]
        found[name] = {"NDCG@5, points": 100 * goods, "revenue per query": money(scores, empty=0, per_query=True)}
        curves[name] = [
            money(model.predict(test.X, num_iteration=n))
            for n in range(1, model.best_iteration + 1, max(1, model.best_iteration // 20))
        ]

    rows = {}
    for name, values in found.items():
        cells = {}
        for number, (what, mine) in enumerate(values.items()):
            low, high = stats.ttest_1samp(mine - found["NDCG"][what], 0.0).confidence_interval(0.95)
            against = "" if name == "NDCG" else f"{low:+.2f} to {high:+.2f}"
            cells |= {what: f"{mine.mean():.2f}", "against NDCG (95 %)" + " " * number: against}
        rows[f"trained for {name}"] = cells
    print(f"{len(part.group)} / {len(valid.group)} / {len(test.group)} queries; test queries:")
    print(pd.DataFrame(rows).T.to_string())
    for name, values in found.items():
        gain = values["revenue per query"] - found["NDCG"]["revenue per query"]
        if name.startswith("revenue"):
            words = "earns more" if gain.mean() > 0 else "earns less"
            sure = "" if stats.ttest_1samp(gain, 0.0).pvalue < 0.05 else ", but not significantly"
            print(f"Trained for {name} it {words}{sure}: {gain.mean():+.2f} per query.")
    swapped = lp.custom("sales@5-swapped", revenue, columns="price")
    timed = milliseconds([measure, swapped, NDCG_5], part, price=price)
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
