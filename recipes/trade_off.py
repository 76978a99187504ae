"""What a point of one goal costs in another: a shop that ranks for relevance and for price.

    python recipes/trade_off.py

A generated shop: customers want relevant products (labels 0 to 4), the owner expensive ones (price classes 0 to 4, a
second label source, on average lower for relevant products). Trains the same number of models along a linear sweep of
weights and along preferences of multiple-gradient descent (lp.Pareto), and draws both fronts by NDCG@10 of relevance
and of price on validation data, with their hypervolumes beyond products in no order. Then each front gives the model
with the highest price that keeps 97 % of the relevance which both reach, and the two are compared on test data.

MGDA's steps let neither goal get worse, so its front is expected to be shorter than the sweep's, and here it is: with
800 queries and 60 trees the two agree within their intervals where both have points, and the sweep, which goes on to
models for relevance alone, has the larger hypervolume (1197 against 1035 square points).
"""

import common
import matplotlib
import numpy as np

import lambdaplug as lp

matplotlib.use("Agg")
import matplotlib.pyplot as plt

lp.plotting.use()

RELEVANCE, PRICE = "ndcg@10", "ndcg@10(gain='linear')"  # two names, for two label sources
SHARES = [0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95]
KEPT = 0.97  # of the relevance that both fronts reach


def shop(queries, seed=0):
    """Train, validation and test parts, each with the price classes of its products."""
    data = lp.data.cubic(queries, documents=30, features=20, noise=0.3, seed=seed)
    rng = np.random.default_rng(seed)
    price = data.X[:, 0] + data.X[:, 1] * data.X[:, 2] - 0.4 * data.labels + 0.5 * rng.normal(size=len(data.labels))
    classes = np.searchsorted(np.quantile(price, [0.2, 0.4, 0.6, 0.8]), price).astype(float)
    parts = data.split(0.5, 0.25, 0.25)
    return list(zip(parts, np.split(classes, np.cumsum([len(part.labels) for part in parts])[:-1]), strict=True))


def main():
    options = common.arguments(
        __doc__, "trade_off.png", queries=1200, rounds=100, quick="less data, fewer trees"
    ).parse_args()
    if options.data:
        raise SystemExit("--data: this recipe generates its shop.")
    queries, rounds, shares = (80, 8, [0.1, 0.5, 0.9]) if options.quick else (options.queries, options.rounds, SHARES)
    (train, price), (valid, valid_price), (test, test_price) = shop(queries)
    relevant, expensive = lp.LambdaRank(RELEVANCE), lp.LambdaRank(PRICE, labels=price)
    methods = {
        "linear sweep": lambda share: lp.Mixture([(1 - share, relevant), (share, expensive)]),
        "MGDA": lambda share: lp.Pareto([relevant, expensive], preference=[1 - share, share]),
    }
    measures = [RELEVANCE, lp.metric(PRICE, labels=valid_price)]
    params = {"min_sum_hessian_in_leaf": 1e-9, "learning_rate": 0.1}
    fronts = {
        name: lp.front(make, shares, train, valid, measures, params=params, rounds=rounds)
        for name, make in methods.items()
    }
    # What any front is measured from, known before there is one: products in no order.
    unordered = np.zeros(len(valid.labels))
    reference = [
        lp.evaluate(measure, labels, unordered, valid.group)[measure]
        for measure, labels in ((RELEVANCE, valid.labels), (PRICE, valid_price))
    ]
    axes = plt.subplots(figsize=(7, 5))[1]
    for name, front in fronts.items():
        low, high = front.hypervolume_interval(reference)
        volume = 1e4 * front.hypervolume(reference)
        print(f"--- {name}: hypervolume {volume:.2f} (95 % interval {1e4 * low:.2f} to {1e4 * high:.2f}) square points")
        print(front, flush=True)
        front.plot(axes, label=name)
    axes.set(xlabel="NDCG@10 of relevance", ylabel="NDCG@10 of price")
    axes.set_title("What one goal costs in the other, with 95 % intervals; star: the knee", loc="left", fontsize=10)
    axes.figure.savefig(options.plot, dpi=120)

    floor = KEPT * min(front.values[:, 0].max() for front in fronts.values())
    print(f"--- the highest price with relevance >= {floor:.4f} on validation data, on test data")
    scores = {name: front.choose(PRICE, {RELEVANCE: floor}).predict(test.X) for name, front in fronts.items()}
    names, (linear, mgda) = list(scores), scores.values()
    for what, measure, labels in (("relevance", RELEVANCE, test.labels), ("price", PRICE, test_price)):
        print(f"{what}: {lp.compare(measure, labels, linear, mgda, test.group, names=names)}")


if __name__ == "__main__":
    main()
