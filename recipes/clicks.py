"""Clicks and where they were seen: naive training, and three ways to take the bias of positions out.

    python recipes/clicks.py                # users who look at rank r with the chance 1/r, and users who look at everything
    python recipes/clicks.py --variety 3    # rankings that differ more: position says less about relevance
    python recipes/clicks.py --informed     # rankings by more than the features: position says what they do not
    python recipes/clicks.py --data file.npz    # counts by position, as in techno2020_clicks, which is taken where it is found

A weak ranker shows documents, users click, a model learns from the clicks alone. As the users are simulated, two things
are known that nobody knows of a real log: the labels, by which every model is measured, and the chance of looking at a
position, beside which the learned curves are plotted. On real logs such corrections improve the prediction of clicks more
surely than rankings (Hager et al. 2024): believe a test with judgments, or with users.
"""

import json

import common
import lightgbm as lgb
import numpy as np
import xgboost as xgb
from tqdm import tqdm

import lambdaplug as lp

plt = lp.plotting.use()

DOCUMENTS = 15
PLACES = 10  # of which the curves are compared
CHANCES = (0.02, 0.1, 0.25, 0.5, 0.8)  # of a click on what is looked at, by label
MEASURES = {"ndcg@10": "ndcg@10", "map": "map(relevant=2)", "mrr": "mrr(relevant=2)"}  # of clicks, and of labels
WAYS = ("additive", "pairwise", "propensities", "true labels")
DATA = "a .npz file with shows and clicks by position; default: generated, and techno2020_clicks where it is found"


def generated(options, eta):
    """Train and test parts, and a log of clicks on the training part, as a ranker trained on 20 queries shows it."""
    queries, seed = options.queries + options.queries // 2, options.seed
    train, test = lp.data.cubic(queries, DOCUMENTS, 20, terms=30, noise=0.3, seed=seed).split(2, 1)
    few = DOCUMENTS * 20
    weak = fit_lightgbm(lp.LambdaRank("ndcg"), train.X[:few], train.labels[:few], train.group[:20], 10)
    scores = weak.predict(train.X)
    log = lp.data.simulate_clicks(
        train.labels,
        train.group,
        scores=(scores - scores.mean()) / scores.std() + (train.labels if options.informed else 0.0),
        users="position",
        examination=eta,
        chances=CHANCES,
        sessions=1,
        rankings=options.rankings,
        variety=options.variety,
        seed=seed,
    )
    return train, test, log


def fit_lightgbm(objective, X, labels, group, rounds, **columns):
    parameters = {"objective": objective, "verbose": -1, "num_leaves": 15, "learning_rate": 0.1, "metric": "None"}
    return lgb.train(parameters, lp.attach(lgb.Dataset(X, labels, group=group), **columns), rounds)


def fit_xgboost(objective, X, labels, group, rounds, **columns):
    parameters = {"objective": "rank:ndcg", "learning_rate": 0.1, "max_leaves": 15, "max_depth": 0, "base_score": 0}
    parameters |= {"grow_policy": "lossguide", "min_child_weight": 1e-3, "lambda": 1e-3}
    if isinstance(objective, dict):  # parameters of the built-in one
        parameters, objective = parameters | objective, None
    data = xgb.QuantileDMatrix(X, labels)
    data.set_group(group)
    return xgb.train(parameters, lp.attach(data, **columns), rounds, obj=objective)


HOSTS = {"LightGBM": fit_lightgbm, "XGBoost": fit_xgboost}


def predicted(model, X):
    return model.predict(xgb.DMatrix(X) if isinstance(model, xgb.Booster) else X)


def ways(inner, propensity):
    return {
        "naive": inner,
        "additive": lp.Unbiased(inner, "position"),
        "pairwise": lp.Unbiased(inner, "position", "pairwise"),
        "propensities": lp.Unbiased(inner, "position", propensities=propensity),
    }


def share_recovered(values, way, draws=2000):
    """How much of the way from naive training to true labels, with a 95 % interval: test queries drawn again."""
    gap, own = (values[name] - values["naive"] for name in ("true labels", way))
    known = ~np.isnan(gap)
    drawn = np.random.default_rng(0).integers(0, known.sum(), (draws, known.sum()))
    shares = own[known][drawn].sum(axis=1) / gap[known][drawn].sum(axis=1)
    return own[known].sum() / gap[known].sum(), *np.percentile(shares, [2.5, 97.5])


def report(measure, part, models, biased, base="naive"):
    """A line per model: its mean, the difference to naive training and, where there is a gap to close, its share of it."""
    scores = {name: predicted(model, part.X) for name, model in models.items()}
    values = {
        name: lp.evaluate(measure, part.labels, own, part.group, per_query=True)[measure]
        for name, own in scores.items()
    }
    naive = scores.pop(base)
    found = lp.compare(measure, part.labels, naive, scores, part.group, names=[base])
    tqdm.write(f"  {measure:<16} {base:<18} {found[next(iter(scores))].mean_a:.4f}")
    for name, one in found.items():
        low, high = one.interval
        text = f"  {'':<16} {name:<18} {one.mean_b:.4f} {one.difference:+.4f} ({low:+.4f} to {high:+.4f})"
        if biased and name in WAYS[:3]:
            text += "  {:.0%} of the gap ({:.0%} to {:.0%})".format(*share_recovered(values, name))
        tqdm.write(text)


def line(name, curve):
    return f"  {name:<16} {' '.join(f'{value:.2f}' for value in curve[:PLACES])}"


def curves(models, log):
    """By name; XGBoost's own is in its configuration."""
    found = {name: lp.position_bias(models[name]).propensity for name in ("additive", "pairwise")}
    if "XGBoost's own" in models:
        own = json.loads(models["XGBoost's own"].save_config())["learner"]["objective"]
        found["XGBoost's own"] = np.array(own["ti+"], float)
    truth = log.propensity[:PLACES] / log.propensity[0]
    tqdm.write(line("truth", truth))
    for name, curve in found.items():
        tqdm.write(f"{line(name, curve)}  at most {np.abs(curve[:PLACES] - truth).max():.3f} off")
    return found


def draw(ax, title, found, log):
    ax.plot(log.propensity[:PLACES] / log.propensity[0], "k--", label="truth")
    shown = np.bincount(log.position, minlength=PLACES)[:PLACES]
    rates = np.bincount(log.position, weights=log.labels, minlength=PLACES)[:PLACES] / shown
    ax.plot(rates / rates[0], ":", color="gray", label="clicks, uncorrected")
    for name, curve in found.items():
        ax.plot(curve[:PLACES], "o-", markersize=3, label=name)
    ax.set(title=title, xlabel="position", ylabel="propensity, relative to the first", ylim=(0, None))
    ax.legend(fontsize="small")


def simulated(options, bar, axes):
    """Both hosts, all measures and ways, for users with and without bias."""
    pairs = {"lambdarank_pair_method": "topk", "lambdarank_num_pair_per_sample": DOCUMENTS}
    for column, eta in zip(axes.T, options.eta, strict=True):
        train, test, log = generated(options, eta)
        X = train.X[log.rows]
        for host, ax in zip(options.host, column, strict=True):
            tqdm.write(f"--- {host}, users look at rank r with the chance 1/r^{eta:g}: {log}")
            for of_clicks in options.measure:
                fit, of_labels = HOSTS[host], MEASURES[of_clicks]
                objectives = ways(lp.LambdaRank(of_clicks), log.propensity)
                if of_clicks == "ndcg@10" and host == "XGBoost":
                    objectives["XGBoost's naive"] = pairs
                    objectives["XGBoost's own"] = {**pairs, "lambdarank_unbiased": True}
                models = {}
                for name, objective in objectives.items():
                    models[name] = fit(objective, X, log.labels, log.group, options.rounds, **log.columns)
                    bar.update()
                models["true labels"] = fit(
                    lp.LambdaRank(of_labels), train.X, train.labels, train.group, options.rounds
                )
                bar.update()
                report(of_labels, test, models, eta > 0)
                if of_clicks == options.measure[0]:
                    draw(ax, f"{host}, eta = {eta:g}", curves(models, log), log)


def redrawn(file, rows, lists, seed=0):
    """Sessions drawn from counts by position: at each place a document, as often as it was shown there, and its click."""
    rng = np.random.default_rng(seed)
    names = file["click_names"].tolist()
    shows, clicks = (file["click"][:, names.index(f"{word}_pos0") :][:, :PLACES] for word in ("shows", "clicks"))
    rows = rows[file["shown"][rows]]
    out = []
    for query in np.split(rows, np.cumsum(lp.data.sizes_of(file["qid"][rows]))[:-1]):
        for _ in range(lists):
            taken, chosen = [], []
            for place in range(PLACES):
                weight = np.where(np.isin(query, taken), 0.0, shows[query, place])
                if weight.sum() > 0:
                    taken.append(rng.choice(query, p=weight / weight.sum()))
                    chance = clicks[taken[-1], place] / shows[taken[-1], place]
                    chosen.append((taken[-1], place, rng.random() < chance))
            out += [chosen] if len(chosen) > 1 else []
    row, position, clicked = np.array([one for chosen in out for one in chosen], dtype=int).T
    return row, position, clicked, np.array([len(chosen) for chosen in out])


def real(path, options, bar):
    """A public log with human marks: no truth is known of its users, only which model the judges prefer."""
    file = np.load(path)
    row, position, clicked, group = redrawn(file, np.flatnonzero(file["split"] == 0), options.lists)
    test = common.rows_of(file, file["split"] == 2)
    train = common.rows_of(file, file["split"] == 0)
    rates = np.bincount(position, weights=clicked) / np.bincount(position)
    tqdm.write(
        f"--- {path.parent.name}: {len(group)} sessions redrawn from counts, {clicked.mean():.0%} of rows clicked"
    )
    tqdm.write(line("clicks", rates / rates[0]))
    for host in options.host:
        fit = HOSTS[host]
        inner = lp.LambdaRank("ndcg@10")
        objectives = {name: way for name, way in ways(inner, [1.0]).items() if name != "propensities"}
        models = {}
        for name, objective in objectives.items():
            models[name] = fit(objective, file["X"][row], clicked, group, options.rounds, position=position)
            bar.update()
        models["human marks"] = fit(inner, train.X, train.labels, train.group, options.rounds)
        bar.update()
        tqdm.write(f"  {host}: by human marks of {len(test.group)} test queries")
        report("ndcg@10", test, models, biased=False)
        for name in ("additive", "pairwise"):
            tqdm.write(line(name, lp.position_bias(models[name]).propensity))


def main():
    parser = common.arguments(__doc__, "clicks.png", queries=2000, rounds=60, data=DATA)
    parser.add_argument("--eta", type=float, nargs="+", default=[1.0, 0.0], help="chances of looking are 1/rank^eta")
    parser.add_argument("--rankings", type=int, default=6, help="how many rankings of each query are shown, once each")
    parser.add_argument("--variety", type=float, default=1.0, help="how much the rankings of one query differ")
    parser.add_argument("--informed", action="store_true", help="their ranker knows more than the features say")
    parser.add_argument("--host", nargs="+", default=list(HOSTS), choices=HOSTS)
    parser.add_argument("--measure", nargs="+", default=list(MEASURES), choices=MEASURES)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    options.lists = 6
    if options.quick:
        options.queries, options.rankings, options.rounds, options.lists = 100, 2, 6, 1
    path = common.Path(options.data) if options.data else common.beside("techno2020_clicks")
    rows, columns = len(options.host), len(options.eta)
    figure, axes = plt.subplots(rows, columns, figsize=(5.5 * columns, 4 * rows), squeeze=False)
    own = "XGBoost" in options.host and "ndcg@10" in options.measure  # two more models
    fits = columns * (rows * len(options.measure) * 5 + 2 * own) + (0 if path is None else 4 * rows)
    with tqdm(total=fits, unit="model", leave=False) as bar:
        simulated(options, bar, axes)
        if path is not None:
            real(path, options, bar)
    figure.savefig(options.plot, dpi=120)


if __name__ == "__main__":
    main()
