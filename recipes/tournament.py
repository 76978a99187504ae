"""Does naming the measure win? lp.objective beside the built-in objectives, CatBoost's, and its own ablations.

    python recipes/tournament.py                             # generated data, and the real sets that are found: hours
    python recipes/tournament.py --data mine.txt             # does it win on mine? (LETOR / SVMLight text, or .npz)
    python recipes/tournament.py --sets graded --contenders main --repeats 1
    python recipes/tournament.py --contenders ablations      # what each choice in lp.objective is worth

Repeated cross-validation by query: each query is in the test part once per repeat, and every model has the trees that are
best on validation queries by the measure tested. Generated queries cost nothing, so that of generated data thousands more
are tested by every model. A query's values are averaged over its models; then come paired t-tests over queries, with Holm's
correction over all cells. The best built-in of a host is chosen by its test values, which favours it. Finished trainings are
kept in --out, so that a run that was stopped goes on where it was.
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
GROUPS = ("built-in", "main", "ablations", "all")
GENERATED = ("graded", "binary", "one relevant")
RELEVANT = {"lightgbm_rank": 2, "techno2020_clicks": 3, "graded": 2}  # the lowest relevant label; else 1
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
    "Preferences": lambda part: lp.Preferences(pairs_of(*part[1:])),
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


def generated(name, queries, documents):
    """Graded as web search is, and not without error; the same with two labels; or one relevant document per query."""
    data = lp.data.cubic(queries, documents, 20, noise=1.0, seed=3)
    if name == "graded":
        return data.X, data.labels, data.qid
    if name == "binary":
        return data.X, (data.labels >= 3).astype(float), data.qid
    labels, random = np.zeros(len(data.labels)), np.random.default_rng(0)
    for first in range(0, len(labels), documents):
        attraction = np.exp(1.5 * data.labels[first : first + documents])
        labels[first + random.choice(documents, p=attraction / attraction.sum())] = 1
    return data.X, labels, data.qid


@functools.lru_cache(maxsize=1)
def load(name, queries):
    if name in GENERATED:
        return generated(name, queries, 40)
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


def fit_lightgbm(objective, train, valid, test, measures, rounds):
    data = lgb.Dataset(train[0], train[1], group=train[2])
    check = lgb.Dataset(valid[0], valid[1], group=valid[2], reference=data)
    history = {}
    given = objective if isinstance(objective, dict) else {"objective": objective}
    model = lgb.train(
        {**PARAMETERS["lightgbm"], **given},
        data,
        rounds,
        valid_sets=[check],
        feval=lp.metric(*measures),
        callbacks=[lgb.record_evaluation(history)],
    )
    history = history["valid_0"]
    return [model.predict(test[0], num_iteration=1 + int(np.argmax(history[str(m)]))) for m in measures]


def fit_xgboost(objective, train, valid, test, measures, rounds):
    built_in = isinstance(objective, dict)
    binary = built_in and objective["objective"] == "rank:map"
    labels = zero_or_one(train[1], measures) if binary else train[1]
    data, check = xgb.DMatrix(train[0], labels), xgb.DMatrix(valid[0], valid[1])
    data.set_group(train[2])
    check.set_group(valid[2])
    history = {}
    model = xgb.train(
        {**PARAMETERS["xgboost"], **(objective if built_in else {"objective": "rank:ndcg"})},
        data,
        rounds,
        obj=None if built_in else objective,
        evals=[(check, "valid")],
        custom_metric=lp.metric(*measures),
        evals_result=history,
        verbose_eval=False,
    )
    history, rows = history["valid"], xgb.DMatrix(test[0])
    return [model.predict(rows, iteration_range=(0, 1 + int(np.argmax(history[str(m)])))) for m in measures]


def fit_catboost(objective, train, valid, test, measures, rounds):
    binary = objective["loss_function"].endswith(("mode=MAP", "mode=MRR"))
    labels = zero_or_one(train[1], measures) if binary else train[1]
    pool = catboost.Pool(train[0], labels, group_id=np.repeat(np.arange(len(train[2])), train[2]))
    model = catboost.CatBoost({**PARAMETERS["catboost"], **objective, "iterations": rounds}).fit(pool)
    best = [(-1.0, None)] * len(measures)
    stages = zip(model.staged_predict(valid[0]), model.staged_predict(test[0]), strict=True)
    for scores, tested in stages:
        reached = lp.evaluate(measures, valid[1], scores, valid[2])
        best = [max(b, (reached[str(m)], tested), key=lambda x: x[0]) for b, m in zip(best, measures, strict=True)]
    return [scores for _, scores in best]


FIT = {"lightgbm": fit_lightgbm, "xgboost": fit_xgboost, "catboost": fit_catboost}


def contenders(host, chosen):
    """Name -> the objective for a measure, of everything that plays in this host; or a function of the training part.

    ``chosen``: words of GROUPS, and names.
    """
    if host == "catboost":
        every, own, ours = CATBOOST, YETIRANK, ()
    else:
        fixed = {name: (lambda _, spec=spec: spec) for name, spec in (BUILT_IN[host] | WITHOUT_MEASURE).items()}
        every, own, ours = fixed | OURS | ABLATIONS | PEERS, BUILT_IN[host], OURS
    groups = {"all": every, "built-in": own, "main": [*own, *ours], "ablations": ["lp.objective", *ABLATIONS]}
    names = set(itertools.chain.from_iterable(groups.get(word, [word]) for word in chosen))
    return {name: make for name, make in every.items() if name in names}


def known_names():
    """Every word that --contenders takes."""
    return {*GROUPS, *itertools.chain(*BUILT_IN.values()), *OURS, *ABLATIONS, *PEERS, *WITHOUT_MEASURE, *CATBOOST}


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
    of_row = np.repeat(fold, group)

    def part(*folds):
        return X[np.isin(of_row, folds)], y[np.isin(of_row, folds)], group[np.isin(fold, folds)]

    made = contenders(host, chosen)[contender](measures[0])
    values = [[] for _ in measures]
    for k in range(FOLDS):
        rest = [j for j in range(FOLDS) if j not in (k, (k + 1) % FOLDS)]
        tested = k if known == len(group) else FOLDS
        train, test = part(*rest), part(tested)
        objective = made(train) if inspect.isfunction(made) else made
        scores = FIT[host](objective, train, part((k + 1) % FOLDS), test, measures, options.rounds)
        for measure, kept, one in zip(measures, values, scores, strict=True):
            kept.append(np.full(len(group), np.nan))
            kept[-1][fold == tested] = lp.evaluate(measure, test[1], one, test[2], per_query=True)[str(measure)]
    for text, kept in zip(texts, values, strict=True):
        path = path_of(out, name, host, contender, text, repeat)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # queries that were not tested, or have no value
            np.save(path.with_suffix(".part.npy"), np.nanmean(kept, axis=0))
        path.with_suffix(".part.npy").replace(path)


def times(name, options):
    """How often a set is cross-validated: a generated one, with thousands of test queries for each model, once."""
    return 1 if name in GENERATED else options.repeats


def tasks(options, out):
    """What is still to be played. Contenders that do not depend on the measure are trained once for all of them."""
    played = [
        (repeat, name) for repeat in range(options.repeats) for name in options.sets if repeat < times(name, options)
    ]
    for (repeat, name), host in itertools.product(played, options.hosts):
        for contender in contenders(host, options.contenders):
            once = contender in {*BUILT_IN.get(host, ()), *WITHOUT_MEASURE, *YETIRANK}
            each = [[text] for text in options.measures if contender in plays(host, options.contenders, text)]
            for texts in [options.measures] if once else each:
                if not all(path_of(out, name, host, contender, text, repeat).exists() for text in texts):
                    yield name, host, contender, texts, repeat, options, options.contenders, out


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
        difference = found[name, text, host, ours] - those[best]
        test = stats.ttest_1samp(difference, 0.0)
        low, high = test.confidence_interval(0.95)
        rows.append((name, text, host, best, those[best].mean(), difference.mean(), low, high, test.pvalue))
    names = ["set", "measure", "host", "best rival", "its value", "difference", "low", "high", "p"]
    table = pd.DataFrame(rows, columns=names)
    table["p (Holm)"] = holm(np.nan_to_num(table["p"].to_numpy(), nan=1.0))
    return table


def report(table, title):
    ahead = int((table["difference"] > 0).sum())
    decided = table["p (Holm)"] < 0.05
    wins, losses = int((decided & (table["difference"] > 0)).sum()), int((decided & (table["difference"] < 0)).sum())
    print(f"\n{title}")
    print(table.to_string(index=False, float_format=lambda x: f"{x:.4f}"))
    print(
        f"ahead in the mean in {ahead} of {len(table)} cells; significantly (p < .05, Holm) ahead in {wins}, "
        f"behind in {losses}; mean difference {table['difference'].mean():+.4f}"
    )
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


def picture(table, path):
    """Differences with their intervals: one panel per measure, one line per set, one colour per host."""
    sets, texts = list(dict.fromkeys(table["set"])), list(dict.fromkeys(table["measure"]))
    size = (1.6 + 2.6 * len(texts), 1.8 + 0.5 * len(sets))
    figure, axes = plt.subplots(1, len(texts), figsize=size, sharey=True, layout="constrained", squeeze=False)
    colours = {"lightgbm": "#0072b2", "xgboost": "#d55e00"}
    for axis, text in zip(axes[0], texts, strict=True):
        for _, row in table[table["measure"] == text].iterrows():
            place = sets.index(row["set"]) + (-0.14 if row["host"] == "lightgbm" else 0.14)
            decided = row["p (Holm)"] < 0.05
            at, low, high = (100 * row[name] for name in ("difference", "low", "high"))
            axis.plot([low, high], [place, place], color=colours[row["host"]], lw=1.6)
            face = colours[row["host"]] if decided else "white"
            axis.plot(at, place, "o", color=colours[row["host"]], mfc=face, ms=6)
        axis.axvline(0, color="0.5", lw=1)
        axis.set_title(text.upper(), fontsize=10)
        axis.grid(axis="x", color="0.9")
        axis.spines[["top", "right", "left"]].set_visible(False)
        axis.tick_params(axis="y", length=0)
    axes[0][0].set_yticks(range(len(sets)), [Path(name).stem.replace("_clicks", "") for name in sets])
    axes[0][0].invert_yaxis()
    figure.supxlabel("points of 100, with 95 % intervals; filled: p < .05 after Holm's correction", fontsize=9)
    names = {"lightgbm": "LightGBM", "xgboost": "XGBoost"}
    handles = [plt.Line2D([], [], color=colours[h], marker="o", label=names[h]) for h in dict.fromkeys(table["host"])]
    figure.legend(handles=handles, loc="outside upper right", ncols=2, frameon=False)
    figure.suptitle("lp.objective(measure) minus the best built-in objective", x=0.01, ha="left", fontsize=11)
    with plt.rc_context({"svg.fonttype": "none", "font.family": "sans-serif"}):  # letters, not their outlines
        figure.savefig(path, dpi=120)
    print(f"picture: {path}")


def folder(options):
    """Where finished trainings are kept: with the settings that they were made with, and no others."""
    out, names = Path(options.out), ("rounds", "queries", "test_queries", "relevant")
    settings = json.dumps({name: getattr(options, name) for name in names} | {"lambdaplug": lp.__version__})
    out.mkdir(parents=True, exist_ok=True)
    path = out / "settings.json"
    if path.exists() and path.read_text() != settings:
        raise SystemExit(f"{out} has trainings with {path.read_text()}, not with {settings}: choose another --out.")
    path.write_text(settings)
    return out


def main():
    parser = arguments(__doc__, "tournament.png", rounds=200, queries=1000, data=f"{TEXT}, or .npz with X, y, qid")
    parser.add_argument("--test-queries", type=int, default=4000, help="of the generated data, beside --queries")
    parser.add_argument("--relevant", type=float, help="the lowest relevant label; default 1 for your own data")
    parser.add_argument("--sets", nargs="*", help="generated: graded, binary, 'one relevant'; real: " + ", ".join(REAL))
    parser.add_argument("--hosts", nargs="*", default=[*BUILT_IN, *(["catboost"] if catboost else [])])
    parser.add_argument("--measures", nargs="*", default=list(MEASURES))
    parser.add_argument(
        "--contenders",
        nargs="*",
        help="built-in, main (built-in and ours), ablations, all, or names; default all, --quick: main",
    )
    parser.add_argument(
        "--repeats", type=int, default=3, help="of the cross-validation, each with other parts; generated data: 1"
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="trainings at a time, each on one thread")
    parser.add_argument("--out", default="tournament", help="where finished trainings are kept")
    options = parser.parse_args()
    if options.quick:
        options.queries, options.test_queries, options.rounds, options.repeats, options.jobs = 40, 60, 10, 1, 1
        options.hosts, options.measures = ["lightgbm", "xgboost"], ["ndcg@10", "mrr"]
        options.contenders = options.contenders or ["main"]
        options.sets = options.sets or ([] if options.data else ["graded", "one relevant"])
        options.out = str(Path(options.plot).with_suffix(""))
    options.contenders = tuple(options.contenders or ["all"])
    if unknown := set(options.contenders) - known_names():
        parser.error(f"--contenders: {', '.join(sorted(unknown))}? Known: {', '.join(sorted(known_names()))}")
    found = [name for name in REAL if beside(name)]
    options.sets = [options.data] if options.data else options.sets or ["graded", "binary", "one relevant", *found]
    out = folder(options)

    todo = list(tasks(options, out))
    with tqdm(total=len(todo), desc="cross-validations", disable=None) as bar:
        if options.jobs == 1:
            for task in todo:
                play(task)
                bar.update()
        else:
            with concurrent.futures.ProcessPoolExecutor(options.jobs) as pool:
                for _ in concurrent.futures.as_completed([pool.submit(play, task) for task in todo]):
                    bar.update()

    values = results(options, out)
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
    if len(own):
        picture(own, options.plot)


if __name__ == "__main__":
    main()
