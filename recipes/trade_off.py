"""What a point of one goal costs in another: four ways to train for both, at equal cost.

    python recipes/trade_off.py

A generated shop: customers want relevant products (labels 0 to 4), the owner what they earn, which is the chance that a
product sells times its margin (lp.Revenue); how evenly suppliers are shown is reported beside it (lp.Exposure). Where
techno2020_clicks is found, its marks and clicks follow, of the documents that were shown.

Each way has the same number of trainings, and the two models for one goal alone are the ends of all fronts: a linear
sweep of weights (lp.Mixture), and lp.Pareto's "mgda", "chebyshev" (furthest from what each goal alone reaches) and
"epsilon" (the first goal, with bounds between what the ends reach of the second). A front's hypervolume is measured from
the corner below both ends; its intervals are from draws of validation queries, the same for all fronts. Last, each front's
model with most of the second goal that keeps 97 % of the first is measured on test data.

In the generated shop the linear sweep's front is the largest, and the other three are smaller by more than chance; between
marks and clicks no difference of hypervolumes is significant (recipes/results/trade_off.md). Sweep first.
"""

import dataclasses

import common
import numpy as np
import pandas as pd

import lambdaplug as lp

plt = lp.plotting.use()

SHARES = np.linspace(0, 1, 9)  # of the second goal
KEPT = 0.97
CHANCE = [0.01, 0.05, 0.15, 0.35, 0.6]  # that a product with this label is bought when it is seen


@dataclasses.dataclass
class Goal:
    """A measure, and the column of its labels if they are not the data set's."""

    name: str
    measure: lp.measures.Measure
    labels: str | None = None

    @property
    def metric(self):
        return lp.metric(self.measure, labels=self.labels)

    def rows(self, part, columns):
        """Labels, group and columns, as lp.evaluate takes them."""
        labels = part.labels if self.labels is None else columns[self.labels]
        return {"labels": labels, "group": part.group, "columns": columns}


def shop(queries):
    """(parts, their columns, goals, further goals to report): relevant products have lower prices, and one supplier higher margins."""
    data = lp.data.cubic(queries, documents=30, features=20, noise=0.3)
    rng, X = np.random.default_rng(0), data.X
    supplier = np.searchsorted([-0.7, 0.0, 0.7], X[:, 3] + 0.5 * rng.normal(size=len(X))).astype(float)
    price = 20 * np.exp(0.3 * X[:, 0] + 0.3 * X[:, 1] * X[:, 2] - 0.2 * data.labels + 0.2 * rng.normal(size=len(X)))
    margin = price * np.array([0.1, 0.15, 0.2, 0.4])[supplier.astype(int)]
    parts = data.split(0.5, 0.25, 0.25)
    ends = np.cumsum([len(part.labels) for part in parts])[:-1]
    margins, suppliers = np.split(margin, ends), np.split(supplier, ends)
    # In shares of what the best order of the training products would earn.
    worth, revenue = np.array(CHANCE)[parts[0].labels.astype(int)] * margins[0], lp.Revenue("margin", CHANCE, k=10)
    train = {"labels": parts[0].labels, "group": parts[0].group, "columns": {"margin": margins[0]}}
    unit = lp.evaluate(revenue, scores=worth, **train)[str(revenue)]
    columns = [{"margin": one / unit, "supplier": two} for one, two in zip(margins, suppliers, strict=True)]
    goals = [Goal("NDCG@10", lp.NDCG(k=10)), Goal("revenue@10", revenue)]
    return parts, columns, goals, [Goal("exposure@10", lp.Exposure("supplier", k=10))]


def marks_and_clicks(path):
    file = np.load(path)
    rows = [file["shown"] & (file["split"] == number) for number in range(3)]
    clicks = lp.NDCG(k=5, gain="linear")
    goals = [Goal("NDCG@5 of marks", lp.NDCG(k=5)), Goal("NDCG@5 of clicks", clicks, "clicks")]
    columns = [{"clicks": file["y_click"][own].astype(float)} for own in rows]
    return [common.rows_of(file, own) for own in rows], columns, goals, []


def ways(parts, alone):
    """By name: from the second goal's share to an objective; ``alone`` is what each goal's model reaches of both."""
    best, (low, high) = alone.max(axis=0), alone[:, 1]
    # epsilon's multipliers move slowly: with rate=0.3 they swing from end to end in so few rounds.
    return {
        "linear sweep": lambda share: lp.Mixture([(1 - share, parts[0]), (share, parts[1])]),
        "MGDA": lambda share: lp.Pareto(parts, preference=[1 - share, share]),
        "Chebyshev": lambda share: lp.Pareto(parts, "chebyshev", [1 - share, share], reference=best),
        "epsilon": lambda share: lp.Pareto(parts, "epsilon", bounds=[low + share * (high - low)], rate=0.03),
    }


def trained(train, valid, columns, goals, shares, rounds):
    """By name: the front of each way."""
    parts = [lp.LambdaRank(goal.measure, labels=goal.labels) for goal in goals]
    params = {"min_sum_hessian_in_leaf": 1e-9, "learning_rate": 0.1}
    how = {"params": params, "rounds": rounds, "columns": columns[0]}
    metrics = [goal.metric for goal in goals]
    alone = lp.front(parts.__getitem__, [0, 1], train, train, metrics, valid_columns=columns[0], **how)

    def ends_or(make):
        return lambda share: parts[int(share)] if share in (0, 1) else make(share)

    return {
        name: lp.front(ends_or(make), shares, train, valid, metrics, valid_columns=columns[1], **how)
        for name, make in ways(parts, alone.values).items()
    }


def between_ends(front):
    """The hypervolume beyond the lower values of the two ends, in square points."""
    return 1e4 * front.hypervolume(front.values[[0, -1]].min(axis=0))


def volumes(fronts, draws=500):
    """Each front's, with its 95 % interval and that of its difference from the sweep's, over the same draws of queries."""
    queries = fronts["linear sweep"].per_query.shape[2]
    drawn = np.random.default_rng(0).integers(queries, size=(draws, queries))
    found = np.array(
        [
            [between_ends(dataclasses.replace(front, per_query=front.per_query[..., rows])) for rows in drawn]
            for front in fronts.values()
        ]
    )
    low, high = np.quantile([found, found - found[0]], [0.025, 0.975], axis=2)
    table = {
        "square points": [f"{between_ends(front):.1f}" for front in fronts.values()],
        "95 %": [f"{a:.1f} to {b:.1f}" for a, b in zip(low[0], high[0], strict=True)],
        "less the sweep's, 95 %": [
            "",
            *(f"{a:+.1f} to {b:+.1f}" for a, b in zip(low[1, 1:], high[1, 1:], strict=True)),
        ],
    }
    return pd.DataFrame(table, index=list(fronts))


def points(front, goals, further, valid, columns):
    """The front from the first goal's end to the second's, and what a further point of the second costs in the first."""
    order = np.unique(front.values[:, 1], return_index=True)[1]  # equal models once
    order = order[~front.dominated[order]]
    values = 100 * front.values[order]
    steps = np.diff(values, axis=0)
    table = {
        "share": [f"{front.preferences[k]:g}" for k in order],
        goals[0].name: values[:, 0],
        goals[1].name: values[:, 1],
    }
    for goal in further:
        scores = [front.boosters[k].predict(valid.X) for k in order]
        reached = [lp.evaluate(goal.measure, scores=one, **goal.rows(valid, columns)) for one in scores]
        table[goal.name] = [100 * one[str(goal.measure)] for one in reached]
    return pd.DataFrame({**table, "a point costs": ["", *(f"{-a / b:.2f}" for a, b in steps)]})


def on_test(fronts, goals, test, columns):
    """What the chosen models reach on test data."""
    first, second = (str(goal.measure) for goal in goals)
    floor = KEPT * next(iter(fronts.values())).values[0, 0]
    scores = {name: front.choose(second, {first: floor}).predict(test.X) for name, front in fronts.items()}
    sweep = scores.pop("linear sweep")
    print(f"--- most {goals[1].name} with {goals[0].name} >= {100 * floor:.2f} on validation data; on test data:")
    for goal in goals:
        rows = goal.rows(test, columns)
        found = lp.compare(goal.measure, scores_a=sweep, scores_b=scores, names=["linear sweep"], **rows)
        print(f"{goal.name}: {found}")


def main():
    options = common.arguments(
        __doc__, "trade_off.png", queries=1600, rounds=100, quick="less data, fewer trees, the generated shop alone"
    ).parse_args()
    if options.data:
        raise SystemExit("--data: this recipe generates its shop.")
    queries, rounds, shares = (80, 8, [0, 0.5, 1]) if options.quick else (options.queries, options.rounds, SHARES)
    sets = {"generated shop": shop(queries)}
    real = common.beside("techno2020_clicks")
    if real and not options.quick:
        sets["techno2020_clicks, shown documents"] = marks_and_clicks(real)
    figure, axes = plt.subplots(len(sets), 1, figsize=(8, 5 * len(sets)), squeeze=False)
    for (title, ((train, valid, test), columns, goals, further)), axis in zip(sets.items(), axes[:, 0], strict=True):
        fronts = trained(train, valid, columns, goals, shares, rounds)
        print(f"\n=== {title}: {' / '.join(str(len(part.group)) for part in (train, valid, test))} queries, in points")
        for name, front in fronts.items():
            print(
                f"--- {name}\n{points(front, goals, further, valid, columns[1]).round(2).to_string(index=False)}",
                flush=True,
            )
            front.plot(axis, label=name)
        print(f"--- hypervolume between the ends\n{volumes(fronts).to_string()}")
        on_test(fronts, goals, test, columns[2])
        axis.set(xlabel=goals[0].name, ylabel=goals[1].name)
        axis.set_title(f"{title} (95 % intervals; star: the knee)")
    figure.savefig(options.plot, dpi=120)


if __name__ == "__main__":
    main()
