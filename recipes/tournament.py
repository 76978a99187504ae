"""Does naming the measure win? lp.objective beside the built-in objectives, CatBoost's, and its own ablations.

    python recipes/tournament.py                             # generated data, and the real sets that are found: hours
    python recipes/tournament.py --data mine.txt             # does it win on mine? (LETOR / SVMLight text, or .npz)
    python recipes/tournament.py --sets graded --contenders main --repeats 1
    python recipes/tournament.py --contenders ablations      # what each choice in lp.objective is worth
    python recipes/tournament.py --tuned 24                  # over random parameters, and after tuning

Repeated cross-validation by query: each query is in the test part once per repeat, and every model has the trees that are
best on validation queries by the measure tested. Generated queries cost nothing, so that of generated data thousands more
are tested by every model. A query's values are averaged over its models; then come paired t-tests over queries, with Holm's
correction over all cells. The best built-in of a host is chosen by its test values, which favours it. Finished trainings are
kept in --out, so that a run that was stopped goes on where it was.

With --tuned N all contenders are trained with the same N random configurations of the trees, each with folds and seeds of its
own (generated sets: with data of their own), and everything else as it is by default. The paired differences are taken over
these replicates, which has far more power than one tuned winner. Here the best built-in is that of the highest mean on
validation. A second table has the winners: on each of --splits all N configurations are trained, and each contender's best on
validation is tested. A third says how far a contender's values differ over --seeds, with everything else the same.
"""

import concurrent.futures
import dataclasses
import functools
import inspect
import itertools
import json
import os
import warnings
from pathlib import Path
from typing import NamedTuple

import lightgbm as lgb
import matplotlib
import numpy as np
import pandas as pd
import xgboost as xgb
from common import TEXT, arguments, beside, holm, pairs_of
from scipy import stats
from tqdm import tqdm

import lambdaplug as lp

matplotlib.use("Agg")
import matplotlib.pyplot as plt

lp.plotting.use()

try:
    import catboost
except ImportError:
    catboost = None

FOLDS = 5
GROUPS = ("built-in", "main", "ablations", "candidates", "all")
GENERATED = ("graded", "binary", "one relevant", "clean")
RELEVANT = {"lightgbm_rank": 2, "techno2020_clicks": 3, "graded": 2, "clean": 2}  # the lowest relevant label; else 1
REAL = ("mq2008", "lightgbm_rank", "techno2020_clicks", "fluccs")
MEASURES = ("ndcg@10", "map", "mrr", "err@10", "recall@20")
PARAMETERS = {  # ordinary ones; everything else is the host's default
    "lightgbm": {"learning_rate": 0.1, "num_leaves": 31, "metric": "None", "verbose": -1, "num_threads": 1},
    "xgboost": {"learning_rate": 0.1, "disable_default_eval_metric": 1, "nthread": 1},
    "catboost": {"learning_rate": 0.1, "thread_count": 1, "verbose": False, "allow_writing_files": False},
}
BUILT_IN = {
    "lightgbm": {
        "lambdarank": {"objective": "lambdarank"},
        "lambdarank, whole lists": {"objective": "lambdarank", "lambdarank_truncation_level": 100_000},
        "rank_xendcg": {"objective": "rank_xendcg"},
    },
    "xgboost": {name: {"objective": name} for name in ("rank:ndcg", "rank:map", "rank:pairwise")},
}
OURS = {
    "lp.objective": lp.objective,
    "lp.LambdaRank": lp.LambdaRank,
}
ABLATIONS = {
    "no noise": functools.partial(lp.objective, noise=0.0),
    "half the noise": functools.partial(lp.objective, noise=0.5),
    "twice the noise": functools.partial(lp.objective, noise=2.0),
    "a quarter support": functools.partial(lp.objective, support="ndcg", share=0.25),
    "half support": functools.partial(lp.objective, support="ndcg", share=0.5),  # the rule, without MRR's exception
    "three quarters support": functools.partial(lp.objective, support="ndcg", share=0.75),
    "linear support": functools.partial(lp.objective, support="ndcg(gain='linear')"),
    "no support": functools.partial(lp.objective, support=None),
    "no normalisation": functools.partial(lp.objective, normalize="none"),
    "four samples": functools.partial(lp.objective, samples=4),
    "three neighbours": functools.partial(lp.objective, neighbours=3),
    "noise falling": functools.partial(lp.objective, noise=lp.cosine(2.0, 0.5, 150)),
    "support falling": lambda m: lp.interpolate(
        lp.objective("ndcg"), lp.objective(m, support=None), weight=lp.linear(0.25, 0.005)
    ),
}


def falling(iteration):
    """From 1 to 0.2: 0.6 in round 30."""
    return 0.2 + 0.8 / (1.0 + iteration / 30.0)


@dataclasses.dataclass(frozen=True)
class Spread:
    """lp.objective with noise that falls with the standard deviation of the scores within queries: it needs no round."""

    measure: object

    def __call__(self, scores, data):
        starts = data.get_uint_info("group_ptr") if isinstance(data, xgb.DMatrix) else np.cumsum([0, *data.get_group()])
        sums, squares = (np.add.reduceat(values, starts[:-1]) for values in (scores, scores * scores))
        spread = max(0.0, (squares - sums * sums / np.diff(starts)).sum() / len(scores)) ** 0.5
        return lp.objective(self.measure, noise=0.2 + 0.8 / (1.0 + float(spread) / 0.5))(scores, data)


@dataclasses.dataclass(frozen=True)
class Scaled:
    """Gradients and hessians times a number: what a least sum of hessians and L2 mean is another number of rows then."""

    objective: object
    factor: float

    def __call__(self, scores, data):
        gradient, hessian = self.objective(scores, data)
        return gradient * np.float32(self.factor), hessian * np.float32(self.factor)


CANDIDATES = {
    "falling": functools.partial(lp.objective, noise=falling),
    "falling with the spread": Spread,
    "a third of the scale": lambda measure: Scaled(lp.objective(measure), 0.3),
}
PEERS = {  # a measure that one cannot do, it leaves out
    "Loss2": lambda m: lp.LambdaRank(m, construction=lp.constructions.Loss2()),
    "Extended": lambda m: lp.LambdaRank(m, construction=lp.constructions.Extended()),
    "PLRank": lp.PLRank,
    "StochasticRank": lp.StochasticRank,
}
WITHOUT_MEASURE = {  # of the training part: X, y, group
    "QueryRMSE": lambda _: lp.QueryRMSE(),
    "QuerySoftmax": lambda _: lp.QuerySoftmax(),
    "ListMLE": lambda _: lp.ListMLE(),
    "Calibrated": lambda part: lp.Calibrated(max_label=part[1].max()),
    "Preferences": lambda _: lp.Preferences("pairs"),
    "YetiRank's weights": lambda _: lp.presets.catboost_yetirank(),
}
YETIRANK = {  # its own trees have the same split throughout a level; the others are LightGBM's kind and XGBoost's
    "YetiRank": {},
    "YetiRank, leaf-wise trees": {"grow_policy": "Lossguide", "max_leaves": 31},
    "YetiRank, depth-wise trees": {"grow_policy": "Depthwise", "depth": 6},
}
LIKE = {"lightgbm": "YetiRank, leaf-wise trees", "xgboost": "YetiRank, depth-wise trees"}
CATBOOST = {name: lambda _, trees=trees: {"loss_function": "YetiRank"} | trees for name, trees in YETIRANK.items()} | {
    "YetiRank, mode": lambda measure: {"loss_function": f"YetiRank:mode={_catboost(measure, 'MAP', 'MRR', 'ERR')}"},
    "StochasticRank": lambda measure: {"loss_function": f"StochasticRank:metric={_catboost(measure, 'MRR', 'ERR')}"},
    "LambdaMart": lambda measure: {
        "loss_function": f"LambdaMart:metric={_catboost(measure, 'MAP', 'MRR', 'ERR')}",
        "l2_leaf_reg": 0,
    },
}


def _catboost(measure, *known):
    """CatBoost's word for the measure, or NDCG where it has none."""
    name = measure.name.upper()
    return name if name in known else "NDCG"


def generated(name, queries, documents, seed=3):
    """Graded as web search is, and not without error; the same with two labels, or with one relevant document; or with few errors
    and many features."""
    clean = name == "clean"
    data = lp.data.cubic(queries, documents, 50 if clean else 20, noise=0.3 if clean else 1.0, seed=seed)
    if name in ("graded", "clean"):
        return data.X, data.labels, data.qid
    if name == "binary":
        return data.X, (data.labels >= 3).astype(float), data.qid
    labels, random = np.zeros(len(data.labels)), np.random.default_rng(0)
    for first in range(0, len(labels), documents):
        attraction = np.exp(1.5 * data.labels[first : first + documents])
        labels[first + random.choice(documents, p=attraction / attraction.sum())] = 1
    return data.X, labels, data.qid


@functools.lru_cache(maxsize=1)
def load(name, queries, seed=3):
    if name in GENERATED:
        return generated(name, queries, 40, seed)
    path = beside(name) or Path(name)
    if path.suffix == ".npz":
        file = np.load(path)
        return file["X"], file["y"].astype(float), file["qid"]
    data = lp.data.load_letor(path)
    return data.X, data.labels, data.qid


def zero_or_one(labels, measures):
    """For objectives that take no other labels."""
    relevant = next((m.relevant for m in measures if hasattr(m, "relevant")), 1)
    return (labels >= relevant).astype(float)


def part_of(X, y, group, fold):
    """A function that returns the rows of folds, given each query's."""
    of_row = np.repeat(fold, group)
    return lambda *folds: (X[np.isin(of_row, folds)], y[np.isin(of_row, folds)], group[np.isin(fold, folds)])


def has_waited(history, patience):
    """Whether no measure was better in the last rounds: the same end for contenders of one measure and of all."""
    return patience is not None and all(len(v) > np.argmax(v) + patience for v in history.values())


def patience_of(patience, history):
    """The end of a LightGBM training when no measure was better in so many rounds: the host's own looks at one alone."""

    def stop(env):
        if has_waited(history["valid_0"], patience):
            raise lgb.callback.EarlyStopException(env.iteration, env.evaluation_result_list)

    stop.order = 30  # after the values are recorded
    return stop


class Patience(xgb.callback.TrainingCallback):
    """The same in XGBoost."""

    def __init__(self, patience):
        super().__init__()
        self.patience = patience

    def after_iteration(self, model, epoch, evals_log):
        return has_waited(evals_log["valid"], self.patience)


def with_pairs(data, objective, part):
    """The same data, for Preferences with the grades as pairs."""
    return lp.attach(data, pairs=pairs_of(*part[1:])) if isinstance(objective, lp.Preferences) else data


def fit_lightgbm(objective, parts, measures, rounds, patience=None, drawn=None, watched=()):
    train, valid, test = parts
    data = with_pairs(lgb.Dataset(train[0], train[1], group=train[2]), objective, train)
    check = lgb.Dataset(valid[0], valid[1], group=valid[2], reference=data)
    history = {}
    given = objective if isinstance(objective, dict) else {"objective": objective}
    model = lgb.train(
        {**PARAMETERS["lightgbm"], **(drawn or {}), **given},
        data,
        rounds,
        valid_sets=[check],
        feval=lp.metric(*(watched or measures)),
        callbacks=[lgb.record_evaluation(history), patience_of(patience, history)],
    )
    return best_of(history["valid_0"], measures, lambda trees: model.predict(test[0], num_iteration=trees))


def fit_xgboost(objective, parts, measures, rounds, patience=None, drawn=None, watched=()):
    train, valid, test = parts
    built_in = isinstance(objective, dict)
    binary = built_in and objective["objective"] == "rank:map"
    labels = zero_or_one(train[1], measures) if binary else train[1]
    data, check = xgb.DMatrix(train[0], labels), xgb.DMatrix(valid[0], valid[1])
    data.set_group(train[2])
    check.set_group(valid[2])
    with_pairs(data, objective, train)
    history = {}
    model = xgb.train(
        {**PARAMETERS["xgboost"], **(drawn or {}), **(objective if built_in else {"objective": "rank:ndcg"})},
        data,
        rounds,
        obj=None if built_in else objective,
        evals=[(check, "valid")],
        custom_metric=lp.metric(*(watched or measures)),
        evals_result=history,
        verbose_eval=False,
        callbacks=[Patience(patience)],
    )
    rows = xgb.DMatrix(test[0])
    return best_of(history["valid"], measures, lambda trees: model.predict(rows, iteration_range=(0, trees)))


def best_of(history, measures, predict):
    """For each measure: its best value on validation, with how many trees, and these trees' scores of the test part."""
    trees = [1 + int(np.argmax(history[str(m)])) for m in measures]
    return [(history[str(m)][n - 1], n, predict(n)) for m, n in zip(measures, trees, strict=True)]


def fit_catboost(objective, parts, measures, rounds):
    train, valid, test = parts
    binary = objective["loss_function"].endswith(("mode=MAP", "mode=MRR"))
    labels = zero_or_one(train[1], measures) if binary else train[1]
    pool = catboost.Pool(train[0], labels, group_id=np.repeat(np.arange(len(train[2])), train[2]))
    model = catboost.CatBoost({**PARAMETERS["catboost"], **objective, "iterations": rounds}).fit(pool)
    best = [(-1.0, 0, None)] * len(measures)
    stages = zip(model.staged_predict(valid[0]), model.staged_predict(test[0]), strict=True)
    for trees, (scores, tested) in enumerate(stages, 1):
        reached = lp.evaluate(measures, valid[1], scores, valid[2])
        best = [
            max(b, (reached[str(m)], trees, tested), key=lambda x: x[0]) for b, m in zip(best, measures, strict=True)
        ]
    return best


FIT = {"lightgbm": fit_lightgbm, "xgboost": fit_xgboost, "catboost": fit_catboost}


def contenders(host, chosen):
    """Name -> the objective for a measure, of everything that plays in this host; or a function of the training part.

    ``chosen``: words of GROUPS, and names.
    """
    if host == "catboost":
        every, own, ours = CATBOOST, YETIRANK, ()
    else:
        fixed = {name: (lambda _, spec=spec: spec) for name, spec in (BUILT_IN[host] | WITHOUT_MEASURE).items()}
        every, own, ours = fixed | OURS | ABLATIONS | CANDIDATES | PEERS, BUILT_IN[host], OURS
    groups = {
        "all": every,
        "built-in": own,
        "main": [*own, *ours],
        "ablations": ["lp.objective", *ABLATIONS],
        "candidates": ["lp.objective", *CANDIDATES],
    }
    names = set(itertools.chain.from_iterable(groups.get(word, [word]) for word in chosen))
    return {name: make for name, make in every.items() if name in names}


def known_names():
    """Every word that --contenders takes."""
    own = itertools.chain(*BUILT_IN.values())
    return {*GROUPS, *own, *OURS, *ABLATIONS, *CANDIDATES, *PEERS, *WITHOUT_MEASURE, *CATBOOST}


def able(host, name, make, text):
    try:
        make(lp.LambdaRank(text).measure)
    except lp.LambdaplugError as error:
        print(f"{host}, {text}: without {name}. {error}")
        return False
    return True


@functools.cache
def plays(host, chosen, text):
    """The names of those that can do the measure; it is said of the others why not."""
    return [name for name, make in contenders(host, chosen).items() if able(host, name, make, text)]


def path_of(out, *key):
    return out / ("-".join(str(part).replace("/", "_").replace(":", "_") for part in key) + ".npy")


def save(path, values):
    """All of it, or nothing if the run is stopped."""
    np.save(path.with_suffix(".part.npy"), values)
    path.with_suffix(".part.npy").replace(path)


def measure_for(text, name, relevant):
    measure = lp.LambdaRank(text).measure
    threshold = relevant or RELEVANT.get(name, 1)
    return dataclasses.replace(measure, relevant=threshold) if hasattr(measure, "relevant") else measure


def play(task):
    """One repeat of the cross-validation of one contender: per query, the value of each measure it is tested by."""
    name, host, contender, texts, repeat, options, chosen, out = task
    warnings.simplefilter("ignore", lp.LambdaplugWarning)
    lp.set_num_threads(1)
    measures = [measure_for(text, name, options.relevant) for text in texts]
    X, y, qid = load(name, options.queries + options.test_queries)
    group = lp.data.sizes_of(qid)
    known = options.queries if name in GENERATED else len(group)  # the others are tested by every model
    fold = np.full(len(group), FOLDS)
    for k, part in enumerate(np.array_split(np.random.default_rng(repeat).permutation(known), FOLDS)):
        fold[part] = k
    part = part_of(X, y, group, fold)
    made = contenders(host, chosen)[contender](measures[0])
    values = [[] for _ in measures]
    for k in range(FOLDS):
        rest = [j for j in range(FOLDS) if j not in (k, (k + 1) % FOLDS)]
        tested = k if known == len(group) else FOLDS
        train, test = part(*rest), part(tested)
        objective = made(train) if inspect.isfunction(made) else made
        fitted = FIT[host](objective, (train, part((k + 1) % FOLDS), test), measures, options.rounds)
        for measure, kept, (_, _, one) in zip(measures, values, fitted, strict=True):
            kept.append(np.full(len(group), np.nan))
            kept[-1][fold == tested] = lp.evaluate(measure, test[1], one, test[2], per_query=True)[str(measure)]
    for text, kept in zip(texts, values, strict=True):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # queries that were not tested, or have no value
            save(path_of(out, name, host, contender, text, repeat), np.nanmean(kept, axis=0))


def times(name, options):
    """How often a set is cross-validated: a generated one, with thousands of test queries for each model, once."""
    return 1 if name in GENERATED else options.repeats


def tasks(options, out):
    """What is still to be played. Contenders that do not depend on the measure are trained once for all of them."""
    if options.tuned:
        played = [(trial, name) for trial in trials(options) for name in options.sets]
    else:
        every = itertools.product(range(options.repeats), options.sets)
        played = [(repeat, name) for repeat, name in every if repeat < times(name, options)]
    for (key, name), host in itertools.product(played, options.hosts):
        for contender in contenders(host, options.contenders):
            once = contender in {*BUILT_IN.get(host, ()), *WITHOUT_MEASURE, *YETIRANK}
            each = [[text] for text in options.measures if contender in plays(host, options.contenders, text)]
            for texts in [options.measures] if once else each:
                if not all(path_of(out, name, host, contender, text, key).exists() for text in texts):
                    yield name, host, contender, texts, key, options, options.contenders, out


def results(options, out):
    """(set, measure, host, contender) -> value of each query, the mean over the repeats."""
    found = {}
    for name, text, host in itertools.product(options.sets, options.measures, options.hosts):
        for contender in plays(host, options.contenders, text):
            repeats = range(times(name, options))
            values = np.mean([np.load(path_of(out, name, host, contender, text, k)) for k in repeats], axis=0)
            found[name, text, host, contender] = values[~np.isnan(values)]
    return found


def compared(found, ours, rivals):
    """One row per cell: ours against the best of the rivals, a function of the host that names them."""
    rows = []
    for name, text, host in dict.fromkeys((n, t, h) for n, t, h, c in found if c == ours):
        those = {c: v for (n, t, h, c), v in found.items() if (n, t) == (name, text) and (h, c) in rivals(host)}
        if not those:
            continue
        best = max(those, key=lambda c: those[c].mean())
        known = {"best rival": best, "its value": those[best].mean()}
        found_here = interval_of(found[name, text, host, ours] - those[best])
        rows.append({"set": name, "measure": text, "host": host} | known | found_here)
    return corrected(rows)


def interval_of(values):
    """Mean, 95 % interval, t and p of paired differences."""
    test = stats.ttest_1samp(values, 0.0)
    low, high = test.confidence_interval(0.95)
    found = {"difference": values.mean(), "low": low, "high": high}
    return found | {"t": test.statistic, "n": len(values), "p": test.pvalue}


def corrected(rows):
    """A table of cells, with their p-values after Holm's correction."""
    table = pd.DataFrame(rows)
    if rows:
        table["p (Holm)"] = holm(np.nan_to_num(table["p"].to_numpy(), nan=1.0))
    return table


def summary(table):
    decided, ahead = table["p (Holm)"] < 0.05, table["difference"] > 0
    return (
        f"ahead in the mean in {ahead.sum()} of {len(table)} cells; significantly (p < .05, Holm) ahead in "
        f"{(decided & ahead).sum()}, behind in {(decided & ~ahead).sum()}"
    )


def report(table, title):
    print(f"\n{title}")
    print(table.drop(columns=["t", "n"]).to_string(index=False, float_format=lambda x: f"{x:.4f}"))
    print(f"{summary(table)}; mean difference {table['difference'].mean():+.4f}")
    means = table.groupby("set", sort=False)["difference"].mean()
    print("mean difference by set: " + ", ".join(f"{name} {mean:+.4f}" for name, mean in means.items()))


def others(found):
    """Every contender minus lp.objective, in points of 100: the mean over the cells of its host, and t."""
    rows = {}
    for (name, text, host, contender), values in found.items():
        if contender != "lp.objective" and (name, text, host, "lp.objective") in found:
            test = stats.ttest_rel(values, found[name, text, host, "lp.objective"])
            rows.setdefault((host, contender), []).append(
                (values.mean(), 100 * (values - found[name, text, host, "lp.objective"]).mean(), test.statistic)
            )
    print(
        "\nevery contender minus lp.objective, mean over the cells, points of 100; t of the paired test, lowest and highest"
    )
    for (host, contender), cells in sorted(rows.items(), key=lambda row: (row[0][0], -np.mean([x[1] for x in row[1]]))):
        value, difference, t = np.nan_to_num(cells).T  # the same values have no t
        print(
            f"{host:9}{contender:26}{value.mean():.4f}  {difference.mean():+.2f}  (t {t.min():+.1f} to {t.max():+.1f})"
        )


def matrix(found):
    """Row against column: cells won / tied / lost at p < .05, uncorrected; and average ranks, within each host."""
    for host in dict.fromkeys(h for _, _, h, _ in found):
        names = list(dict.fromkeys(c for _, _, h, c in found if h == host))
        cells = list(dict.fromkeys((n, t) for n, t, h, _ in found if h == host))
        if len(names) < 2:
            continue
        left_out = np.array(np.nan)  # of those who do not play in a cell
        means = np.array([[found.get((*cell, host, name), left_out).mean() for name in names] for cell in cells])
        ranks = np.nanmean(stats.rankdata(-means, axis=1, nan_policy="omit"), axis=0)
        counts = pd.DataFrame("", index=names, columns=names)
        for a, b in itertools.permutations(names, 2):
            outcome = [0, 0, 0]
            for cell in (c for c in cells if (*c, host, a) in found and (*c, host, b) in found):
                test = stats.ttest_rel(found[(*cell, host, a)], found[(*cell, host, b)])
                outcome[1 if not test.pvalue < 0.05 else 0 if test.statistic > 0 else 2] += 1
            counts.loc[a, b] = "/".join(map(str, outcome))
        counts.insert(0, "average rank", ranks.round(2))
        print(f"\n{host}, {len(cells)} cells: row against column, won / tied / lost (paired t-test, p < .05)")
        print(counts.sort_values("average rank").to_string())


# --- over random configurations ------------------------------------------------------------------------------------


class Trial(NamedTuple):
    """A training that all contenders do alike. Replicate i is the configuration, the split and the seed of that number."""

    configuration: int
    split: int
    seed: int

    def __str__(self):
        return "-".join(map(str, self))


APART = 10_000  # the number of the first split that the winners are chosen on, and of the first of the seeds


def trials(options):
    """The replicates; then those of the second table, and of the third."""
    yield from (Trial(i, i, i) for i in range(options.tuned))
    yield from (Trial(i, APART + k, APART + k) for k in range(options.splits) for i in range(options.tuned))
    yield from (Trial(0, 0, APART + k) for k in range(options.seeds))


def drawn(host, trial):
    """A configuration that somebody might try. The same number draws the same in both hosts."""
    random = np.random.default_rng([39, trial.configuration])

    def between(low, high):
        return float(np.exp(random.uniform(np.log(low), np.log(high))))

    rate, leaves, rows, l2 = between(0.03, 0.2), between(7, 64), between(5, 200), between(0.01, 30.0)
    features, bagging = random.uniform(0.4, 1.0), random.uniform(0.5, 1.0)
    if host == "lightgbm":
        of_trees = {"num_leaves": round(leaves), "min_data_in_leaf": round(rows), "lambda_l2": l2}
        sampled = {"feature_fraction": features, "bagging_fraction": bagging, "bagging_freq": 1}
    else:  # leaves and rows as the depth and the sum of hessians that come nearest
        of_trees = {"max_depth": round(np.log2(leaves)) + 1, "min_child_weight": rows / 30.0, "lambda": l2}
        sampled = {"colsample_bytree": features, "subsample": bagging}
    return {"learning_rate": rate, **of_trees, **sampled, "seed": trial.seed}


def parts_for(name, options, split):
    """Half of the queries to train on, a fifth to validate on and the others to test on; a generated set has data of its own for
    each split, and tests apart."""
    X, y, qid = load(name, options.queries + options.test_queries, split)
    group = lp.data.sizes_of(qid)
    if name in GENERATED:
        order, ends = np.arange(len(group)), [5 * options.queries // 7, options.queries]
    else:
        order, ends = np.random.default_rng(split).permutation(len(group)), [len(group) // 2, 7 * len(group) // 10]
    fold = np.digitize(order, ends)
    part = part_of(X, y, group, fold)
    return part(0), part(1), part(2)


def play_trial(task):
    """One training: for each measure its best value on validation, its value on the test part, and the trees."""
    name, host, contender, texts, trial, options, groups, out = task
    warnings.simplefilter("ignore", lp.LambdaplugWarning)
    lp.set_num_threads(1)
    watched = [measure_for(text, name, options.relevant) for text in options.measures]
    measures = [measure_for(text, name, options.relevant) for text in texts]
    parts = parts_for(name, options, trial.split)
    objective = contenders(host, groups)[contender](measures[0])
    objective = objective(parts[0]) if inspect.isfunction(objective) else objective
    chosen = drawn(host, trial)
    fitted = FIT[host](objective, parts, measures, options.rounds, options.patience, chosen, watched)
    for text, measure, (valid, trees, scores) in zip(texts, measures, fitted, strict=True):
        tested = lp.evaluate(measure, parts[2][1], scores, parts[2][2])[str(measure)]
        save(path_of(out, name, host, contender, text, trial), np.array([valid, tested, trees]))


def tried(options, out):
    """One row per training and measure, as far as they are done."""
    rows = []
    for name, text, host in itertools.product(options.sets, options.measures, options.hosts):
        for contender, trial in itertools.product(plays(host, options.contenders, text), trials(options)):
            path = path_of(out, name, host, contender, text, trial)
            if path.exists():
                rows.append((name, text, host, contender, *trial, *np.load(path)))
    return pd.DataFrame(rows, columns=[*CELL, "contender", *Trial._fields, "valid", "test", "trees"])


CELL = ["set", "measure", "host"]


def over_replicates(frame, ours, rivals):
    """One row per cell: ours less the best of the rivals, which are named for each host, over the trials that all did.

    The best rival is that of the highest mean on validation. Of a few replicates the highest on test is the luckiest as well:
    three equal objectives would be "ahead" of a fourth by most of a standard error.
    """
    rows = []
    for cell, here in frame.groupby(CELL, sort=False):
        values = here.pivot(index=list(Trial._fields), columns="contender", values=["valid", "test"])
        valid, test = values["valid"], values["test"]
        those = [name for name in rivals(cell[2]) if name in test and name != ours]
        done = test[[ours, *those]].notna().all(axis=1) if ours in test and those else np.zeros(0, bool)
        if done.sum() > 1:
            best = valid.loc[done, those].mean().idxmax()
            found = interval_of((test[ours] - test[best])[done].to_numpy())
            known = {"best rival": best, "its value": test.loc[done, best].mean()}
            rows.append(dict(zip(CELL, cell, strict=True)) | known | found)
    return corrected(rows)


def over_sets(table):
    """One row per measure and host: the mean of the sets' differences, its interval from the replicates within them."""
    rows = []
    for (text, host), here in table.groupby(["measure", "host"], sort=False):
        variances = ((here["high"] - here["difference"]) / stats.t.ppf(0.975, here["n"] - 1)) ** 2
        error = variances.sum() ** 0.5 / len(here)
        freedom = variances.sum() ** 2 / (variances**2 / (here["n"] - 1)).sum()  # Welch, Satterthwaite
        mean, half = here["difference"].mean(), error * stats.t.ppf(0.975, freedom)
        rows.append((text, host, len(here), mean, mean - half, mean + half, mean / error))
    return pd.DataFrame(rows, columns=["measure", "host", "sets", "difference", "low", "high", "t"])


def shown(table):
    """One row per set and one over all sets, one column per measure and host: the difference in points of 100, and its t."""
    many = table.groupby("set")["n"].max()
    each = table.assign(set=[f"{name}, n {many[name]}" for name in table["set"]])
    cells = pd.concat([each, over_sets(table).assign(set="over sets")])
    cells["text"] = [f"{100 * d:+.2f} ({t:+.1f})" for d, t in zip(cells["difference"], cells["t"], strict=True)]
    keys = {"index": "set", "columns": ["measure", "host"], "values": "text"}
    return cells.pivot_table(**keys, aggfunc="first", sort=False).to_string(na_rep="")


def report_tuned(frame, options):
    """All tables of --tuned; returns that of lp.objective against the built-in objectives."""
    replicates = frame[(frame["configuration"] == frame["split"]) & (frame["seed"] == frame["split"])]
    winners = frame[frame["split"] >= APART].sort_values("valid", ascending=False, kind="stable")
    winners = winners.drop_duplicates([*CELL, "contender", "split"]).assign(configuration=-1)
    built_in = over_replicates(replicates, "lp.objective", lambda host: BUILT_IN[host])
    if len(built_in):
        print("\nlp.objective less the best built-in objective, the same random configurations and folds")
        print(built_in.to_string(index=False, float_format=lambda x: f"{x:.4f}"))
    others = [name for name in dict.fromkeys(frame["contender"]) if not any(name in own for own in BUILT_IN.values())]
    versus = [(name, "the best built-in objective", lambda host: BUILT_IN[host]) for name in others]
    versus += [(name, "lp.objective", lambda _: ["lp.objective"]) for name in others if name != "lp.objective"]
    for how, trained in (
        ("the same random configurations and folds", replicates),
        ("each with the configuration that is best on validation", winners),
    ):
        for name, rival, rivals in versus:
            table = over_replicates(trained, name, rivals)
            if len(table):
                print(f"\n{name} less {rival}, {how}: points of 100 (t over n replicates)\n{shown(table)}")
                print(summary(table))
    same = frame[(frame["split"] == 0) & (frame["seed"] >= APART)]
    if options.seeds > 1 and len(same):
        print(
            "\nstandard deviation over seeds, the same configuration and folds: points of 100, mean square over the sets"
        )
        each = same.groupby([*CELL, "contender"], sort=False)["test"].var().reset_index()
        keys = {"index": "contender", "columns": ["host", "measure"], "values": "test"}
        table = each.pivot_table(**keys, aggfunc="mean", sort=False) ** 0.5
        print((100 * table).to_string(float_format=lambda x: f"{x:.2f}", na_rep=""))
    return built_in


def picture(tables, path):
    """Differences with their intervals: a row of panels per table, one panel per measure, one line per set, one colour per host."""
    every = pd.concat(tables.values())
    texts, sets = list(dict.fromkeys(every["measure"])), [table["set"].nunique() for table in tables.values()]
    size = (1.6 + 2.6 * len(texts), 1.0 + 0.6 * len(tables) + 0.42 * sum(sets))
    kept = {"sharey": "row", "sharex": "col", "layout": "constrained", "squeeze": False, "height_ratios": sets}
    figure, axes = plt.subplots(len(tables), len(texts), figsize=size, **kept)
    colours = {"lightgbm": "#0072b2", "xgboost": "#d55e00"}
    for panels, (title, table) in zip(axes, tables.items(), strict=True):
        shown = list(dict.fromkeys(table["set"]))
        for axis, text in zip(panels, texts, strict=True):
            for _, row in table[table["measure"] == text].iterrows():
                place = shown.index(row["set"]) + (-0.14 if row["host"] == "lightgbm" else 0.14)
                decided = row["p (Holm)"] < 0.05
                at, low, high = (100 * row[name] for name in ("difference", "low", "high"))
                axis.plot([low, high], [place, place], color=colours[row["host"]], lw=1.6)
                face = colours[row["host"]] if decided else "white"
                axis.plot(at, place, "o", color=colours[row["host"]], mfc=face, ms=6)
            axis.axvline(0, color="0.5", lw=1)
            axis.grid(axis="x", color="0.9")
            axis.spines[["top", "right", "left"]].set_visible(False)
            axis.tick_params(axis="y", length=0)
            axis.set_title(f"{text.upper()}, {title}" if len(tables) > 1 else text.upper(), fontsize=10)
        panels[0].set_yticks(range(len(shown)), [Path(name).stem.replace("_clicks", "") for name in shown])
        panels[0].set_ylim(len(shown) - 0.5, -0.5)
    figure.supxlabel("points of 100, with 95 % intervals; filled: p < .05 after Holm's correction", fontsize=9)
    names = {"lightgbm": "LightGBM", "xgboost": "XGBoost"}
    handles = [plt.Line2D([], [], color=colours[h], marker="o", label=names[h]) for h in dict.fromkeys(every["host"])]
    figure.legend(handles=handles, loc="outside upper right", ncols=2, frameon=False)
    figure.suptitle("lp.objective(measure) minus the best built-in objective", x=0.01, ha="left", fontsize=11)
    with plt.rc_context({"svg.fonttype": "none", "font.family": "sans-serif"}):  # letters, not their outlines
        figure.savefig(path, dpi=120)
    print(f"picture: {path}")


def folder(options):
    """Where finished trainings are kept: with the settings that they were made with, and no others."""
    out, names = Path(options.out), ["rounds", "queries", "test_queries", "relevant", "patience"]
    names += ["measures"] if options.tuned else []  # which say when a training ends
    settings = {name: getattr(options, name) for name in names} | {"lambdaplug": lp.__version__}
    settings = json.dumps(settings | {"lp.objective": repr(lp.objective("mrr"))})
    out.mkdir(parents=True, exist_ok=True)
    path = out / "settings.json"
    if path.exists() and path.read_text() != settings:
        raise SystemExit(f"{out} has trainings with {path.read_text()}, not with {settings}: choose another --out.")
    path.write_text(settings)
    return out


QUICK = {"queries": 40, "test_queries": 60, "rounds": 10, "repeats": 1, "jobs": 1, "seeds": 2} | {
    "hosts": ["lightgbm", "xgboost"],
    "measures": ["ndcg@10", "mrr"],
    "contenders": ["main"],
    "sets": ["graded", "one relevant"],
}
TUNED = {
    "queries": 420,
    "test_queries": 1000,
    "patience": 20,
    "hosts": list(BUILT_IN),
    "measures": ["ndcg@10", "map", "mrr"],
    "contenders": ["main"],
}


def options_given():
    """The command line, each word checked."""
    parser = arguments(__doc__, "tournament.png", rounds=200, queries=1000, data=f"{TEXT}, or .npz with X, y, qid")
    parser.add_argument("--test-queries", type=int, default=4000, help="of the generated data, beside --queries")
    parser.add_argument("--relevant", type=float, help="the lowest relevant label; default 1 for your own data")
    known = f"generated: {', '.join(map(repr, GENERATED))}; real: {', '.join(REAL)}"
    parser.add_argument("--sets", nargs="+", help=known)
    parser.add_argument(
        "--hosts", nargs="+", choices=[*BUILT_IN, "catboost"], default=[*BUILT_IN, *(["catboost"] if catboost else [])]
    )
    parser.add_argument("--measures", nargs="+", default=list(MEASURES))
    parser.add_argument(
        "--contenders",
        nargs="+",
        default=["all"],
        help="built-in, main (built-in and ours), ablations, candidates, all, or names; default all; --quick, --tuned: main",
    )
    parser.add_argument(
        "--repeats", type=int, default=3, help="of the cross-validation, each with other parts; generated data: 1"
    )
    parser.add_argument("--tuned", type=int, default=0, metavar="N", help="over so many random configurations")
    parser.add_argument(
        "--splits", type=int, default=2, help="on each of which the winners of --tuned are chosen and tested"
    )
    parser.add_argument("--seeds", type=int, default=5, help="of the third table of --tuned")
    parser.add_argument("--patience", type=int, help="end a training when so many rounds were no better; --tuned: 20")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="trainings at a time, each on one thread")
    parser.add_argument(
        "--above", metavar="FILE", help="the cells.csv of a run with ordinary parameters: its panels in the picture"
    )
    parser.add_argument("--out", help="where finished trainings are kept; default: beside --plot")
    first = parser.parse_args()
    if first.tuned:
        parser.set_defaults(**TUNED)
    if first.quick:
        parser.set_defaults(**QUICK)
    options = parser.parse_args()
    out = (
        str(Path(options.plot).with_suffix(""))
        + ("-tuned" if options.tuned else "")
        + ("-quick" if options.quick else "")
    )
    options.out = options.out or out
    options.contenders = tuple(options.contenders)
    if unknown := set(options.contenders) - known_names():
        parser.error(f"--contenders: {', '.join(sorted(unknown))}? Known: {', '.join(sorted(known_names()))}")
    try:
        options.measures = [str(lp.LambdaRank(text).measure) for text in options.measures]
    except lp.LambdaplugError as error:
        parser.error(f"--measures: {error}")
    if "catboost" in options.hosts and (options.tuned or catboost is None):
        parser.error("--hosts: catboost " + ("is not in --tuned." if options.tuned else "is not installed."))
    if options.data:
        options.sets = [options.data]
    found = [name for name in REAL if beside(name)]
    options.sets = options.sets or ["graded", "binary", "clean" if options.tuned else "one relevant", *found]
    for name in options.sets:
        if name not in (*GENERATED, *found) and not Path(name).is_file():
            where = "; the real sets lie at ../shared/data, or where LAMBDAPLUG_DATA says" if name in REAL else ""
            parser.error(f"--sets: {name}? It is no file. Known: {known}{where}.")
    return options


def main():
    options = options_given()
    out = folder(options)
    one = play_trial if options.tuned else play
    todo, what = list(tasks(options, out)), "trainings" if options.tuned else "cross-validations"
    with concurrent.futures.ProcessPoolExecutor(options.jobs) as pool:
        done = map(one, todo) if options.jobs == 1 else pool.map(one, todo)
        for _ in tqdm(done, total=len(todo), desc=what, disable=None):
            pass
    if options.tuned:
        own = report_tuned(tried(options, out), options)
    else:
        own = report_ordinary(results(options, out))
    if len(own):
        own.to_csv(out / "cells.csv", index=False)
        above = {"ordinary parameters": pd.read_csv(options.above)} if options.above else {}
        picture(above | {"random configurations" if options.tuned else "ordinary parameters": own}, options.plot)


def report_ordinary(values):
    """All tables of the ordinary tournament; returns that of lp.objective against the built-in objectives."""
    own = compared(values, "lp.objective", lambda host: [(host, name) for name in BUILT_IN.get(host, ())])
    if len(own):
        report(own, "lp.objective against the best built-in objective of the same host")
    for kind, rival in (
        ("each with its own trees", lambda _: "YetiRank"),
        ("in the measure's mode, each with its own trees", lambda _: "YetiRank, mode"),
        ("the same kind of trees", LIKE.get),
    ):
        other = compared(values, "lp.objective", lambda host, rival=rival: [("catboost", rival(host))])
        if len(other):
            report(other, f"lp.objective against CatBoost's YetiRank, {kind}")
    others(values)
    matrix(values)
    return own


if __name__ == "__main__":
    main()
