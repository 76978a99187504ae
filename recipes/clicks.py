"""Clicks and where they were seen: naive training, and three ways to take the bias of positions out.

    python recipes/clicks.py                # simulated users, who look at rank r with the chance 1/r
    python recipes/clicks.py --eta 0        # users who look at everything: nothing to correct
    python recipes/clicks.py --variety 5    # rankings nearly at random: position says little about relevance

A weak ranker shows documents, users click, a model learns from the clicks alone. As the users are simulated, two things
are known that nobody knows of a real log: the labels, by which every model is measured, and the chance of looking at a
position, beside which the learned curves are plotted. On real logs such corrections improve the prediction of clicks more
surely than rankings (Hager et al. 2024): believe a test with judgments, or with users.
"""

import common
import lightgbm as lgb
import matplotlib
import numpy as np
import xgboost as xgb

import lambdaplug as lp

matplotlib.use("Agg")
import matplotlib.pyplot as plt

lp.plotting.use()

DOCUMENTS = 15
CHANCES = (0.02, 0.1, 0.25, 0.5, 0.8)  # of a click on what is looked at, by label
MEASURE = "ndcg@10"


def generated(queries, eta, rankings, variety):
    """Train and test parts, and a log of clicks on the training part, as a ranker trained on 20 queries shows it."""
    train, test = lp.data.cubic(queries + queries // 2, DOCUMENTS, 20, terms=30, noise=0.3).split(2, 1)
    few = DOCUMENTS * 20
    weak = fit_lightgbm(lp.LambdaRank("ndcg"), train.X[:few], train.labels[:few], train.group[:20], 10)
    scores = weak.predict(train.X)
    log = lp.data.simulate_clicks(
        train.labels,
        train.group,
        scores=(scores - scores.mean()) / scores.std(),
        users="position",
        examination=eta,
        chances=CHANCES,
        sessions=1,
        rankings=rankings,
        variety=variety,
    )
    return train, test, log, weak


def fit_lightgbm(objective, X, labels, group, rounds):
    parameters = {"objective": objective, "verbose": -1, "num_leaves": 15, "learning_rate": 0.1, "metric": "None"}
    return lgb.train(parameters, lgb.Dataset(X, labels, group=group), rounds)


def fit_xgboost(objective, X, labels, group, rounds):
    parameters = {"objective": "rank:ndcg", "learning_rate": 0.1, "max_leaves": 15, "max_depth": 0}
    parameters |= {"grow_policy": "lossguide", "min_child_weight": 1e-3, "lambda": 1e-3, "base_score": 0}
    if isinstance(objective, dict):  # parameters of the built-in one
        parameters, objective = parameters | objective, None
    data = xgb.DMatrix(X, labels)
    data.set_group(group)
    return xgb.train(parameters, data, rounds, obj=objective)


def study(fit, train, test, log, rounds, built_in, ax):
    """Train in one host in every way, print the table, and plot the learned curves."""
    inner = lp.LambdaRank(MEASURE)
    rows = train.X[log.rows], log.labels, log.group
    ways = {
        "naive": inner,
        "additive": lp.Unbiased(inner, log.position),
        "pairwise": lp.Unbiased(inner, log.position, "pairwise"),
        "true propensities": lp.Unbiased(inner, log.position, propensities=log.propensity),
        **built_in,
    }
    models = {name: fit(objective, *rows, rounds) for name, objective in ways.items()}
    models["true labels"] = fit(inner, train.X, train.labels, train.group, rounds)
    matrix = xgb.DMatrix(test.X) if fit is fit_xgboost else test.X
    scores = {name: model.predict(matrix) for name, model in models.items()}
    found = lp.compare(MEASURE, test.labels, scores.pop("naive"), scores, test.group, names=["naive"])
    print(found)
    gap = found["true labels"]
    if gap.interval[0] > 0:
        parts = {name: found[name].difference / gap.difference for name in list(ways)[1:4]}
        shares = ", ".join(f"{name} {share:.0%}" for name, share in parts.items())
        print(f"of the way from naive to true labels: {shares}")
    ax.plot(log.propensity[:10], "k--", label="truth")
    for name in ("additive", "pairwise"):
        curve = lp.position_bias(models[name]).propensity[:10]
        ax.plot(curve, "o-", label=name)
        print(f"{name}: at most {np.abs(curve - log.propensity[:10]).max():.3f} from the true curve at ten positions")
    ax.set(xlabel="position", ylabel="propensity, relative to the first")
    ax.legend()


def main():
    parser = common.arguments(__doc__, "clicks.png", queries=2000, rounds=60, data="not used: the users must be known")
    parser.add_argument("--eta", type=float, default=1.0, help="users look at rank r with the chance 1/r^eta")
    parser.add_argument("--variety", type=float, default=0.7, help="how much the rankings of one query differ")
    options = parser.parse_args()
    queries, rankings, rounds = (200, 2, 12) if options.quick else (options.queries, 3, options.rounds)
    train, test, log, weak = generated(queries, options.eta, rankings, options.variety)
    [shown] = lp.evaluate(MEASURE, test.labels, weak.predict(test.X), test.group).values()
    print(f"{log}; the ranker that showed them has {MEASURE} {shown:.4f}")
    figure, axes = plt.subplots(1, 2, figsize=(11, 4))
    pairs = {"lambdarank_pair_method": "topk", "lambdarank_num_pair_per_sample": DOCUMENTS}
    own = {"XGBoost's own unbiased": {**pairs, "lambdarank_unbiased": True}, "XGBoost's own naive": pairs}
    for name, fit, built_in, ax in (
        ("LightGBM", fit_lightgbm, {}, axes[0]),
        ("XGBoost", fit_xgboost, own, axes[1]),
    ):
        print(f"--- {name}", flush=True)
        study(fit, train, test, log, rounds, built_in, ax)
        ax.set_title(f"{name}, eta = {options.eta:g}")
    figure.savefig(options.plot, dpi=120)


if __name__ == "__main__":
    main()
