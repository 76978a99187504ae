"""What several recipes share, and no recipe itself: their command line, and data in train, validation and test parts."""

import argparse
import dataclasses
import functools
import hashlib
import itertools
import json
import os
import pickle
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from tqdm import tqdm

import lambdaplug as lp
from lambdaplug import plotting

TEXT = "a LETOR / SVMLight file with query ids; default: generated data"


def arguments(about, plot, *, rounds, queries=None, data="a .npz file; default: generated data", quick=""):
    """The arguments that all of them take; ``about`` is the recipe's text, ``plot`` where its figures go."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help=data)
    if queries is not None:
        parser.add_argument("--queries", type=int, default=queries, help="of the generated data")
    parser.add_argument("--rounds", type=int, default=rounds, help="at most so many trees")
    parser.add_argument("--quick", action="store_true", help=quick or "less data and fewer trees")
    parser.add_argument("--plot", default=plot, help="where the figures go")
    return parser


def load(path):
    """Train, validation and test parts of a .npz file with the arrays X, y, qid and split (0, 1, 2).

    Of LETOR's five parts (an array ``part`` in place of ``split``), fold 1. Without validation, a fifth of the training.
    """
    file = np.load(path)
    split = file["split"] if "split" in file else np.array([0, 0, 0, 0, 1, 2])[file["part"]]
    parts = [rows_of(file, split == number) for number in range(3)]
    return parts if len(parts[1].labels) else [*parts[0].split(0.8, 0.2), parts[2]]


def rows_of(file, rows):
    return lp.data.RankingData(file["X"][rows], file["y"][rows], lp.data.sizes_of(file["qid"][rows]))


def beside(name):
    """A data set in the folder that LAMBDAPLUG_DATA names, or beside this project; None where there is none."""
    root = Path(os.environ.get("LAMBDAPLUG_DATA", Path(__file__).parent.parent.parent / "shared" / "data"))
    path = root / name / "data.npz"
    return path if path.exists() else None


def pairs_of(labels, group):
    """(better, worse) rows: the grades as all their pairs within queries, for lp.Preferences."""
    found = []
    for start, size in zip(np.cumsum(group) - group, group, strict=True):
        grades = labels[start : start + size]
        found.append(start + np.argwhere(grades[:, None] > grades))
    return np.concatenate(found)


def holm(p):
    """p-values adjusted for their number, by Holm's rule."""
    order = np.argsort(p)
    steps = np.maximum.accumulate(np.sort(p) * np.arange(len(p), 0, -1))
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum(steps, 1.0)
    return adjusted


def coarse(queries):
    """Few different values per feature, each on every worker: the bins are exact then, and the same everywhere."""
    data = lp.data.cubic(queries, 30, 20, noise=0.3)
    return dataclasses.replace(data, X=np.clip(np.round(data.X * 4) / 4, -2, 2) + np.float32(0))  # -0 becomes 0


def on_workers(about, plot):
    """(train part, test part, objective, options) of the recipes that train on several workers, beside one machine."""
    parser = arguments(about, plot, queries=1000, rounds=100, data=TEXT)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    if options.quick:
        options.queries, options.rounds = 61, 10
    data = lp.data.load_letor(options.data) if options.data else coarse(options.queries)
    train, test = data.split(0.7, 0.3)
    # With a schedule: every worker knows the round.
    objective = lp.interpolate(lp.LambdaRank("ndcg@10"), lp.LambdaRank("map"), weight=lp.linear(0.0, 0.01))
    print(f"training {objective!r}, {options.rounds} trees on {len(train.group)} queries", flush=True)
    return train, test, objective, options


# --- the papers' claims ------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Claim:
    """What a paper says: that one thing is ahead of another, by ``effect``.

    Where it gives no number, ``queries`` is how many it tested on (or how many weights), and the effect the least that is
    significant with so many. Where it does not say "significant" either, but only "yes" (``said``), that effect serves the
    power alone: such a claim is refuted below 0. ``least`` is what the effect has to exceed: 0, or below it for "no loss".
    ``points`` are hundredths of a measure.
    """

    paper: str
    claim: str
    effect: float | None = None
    queries: int | None = None
    least: float = 0.0
    unit: str = "points"
    over: str = "queries"  # what was tested
    said: str = "significant"

    def decide(self, differences):
        """The verdict of differences query by query, an array for each data set (NaN where a measure is undefined).

        Confirmed: the 95 % interval is above ``least``. Refuted: it is below the paper's effect, if it has one. The power is the
        chance of a confirmation if the paper's effect is the true one; ``needed`` queries would make it 80 %. Where one
        data set alone confirms and another refutes, trainings vary more than queries: then the interval is that of
        the data sets' means. ``stricter`` is that interval and its verdict for every claim on several data sets.
        """
        scale = 100.0 if self.unit == "points" else 1.0
        sets = [scale * np.asarray(d, dtype=float)[~np.isnan(d)] for d in differences]
        found = self._over(np.concatenate(sets))
        effect = found["effect"]
        alone = {self._over(one, effect)["verdict"] for one in sets if len(sets) > 1}
        means = [round(float(one.mean()), 5) for one in sets]
        stricter = self._over(np.array(means), effect) | {"over": "data sets"} if len(sets) > 1 else None
        if stricter and {"confirmed", "refuted"} <= alone:
            found = stricter
        found["stricter"] = stricter and [round(stricter["low"], 5), round(stricter["high"], 5), stricter["verdict"]]
        return dataclasses.asdict(self) | found | {"sets": means}

    def _over(self, values, effect=None):
        """The numbers of a paired test."""
        from scipy.special import stdtrit

        n, spread = len(values), float(values.std(ddof=1))
        error, mean = spread / n**0.5, float(values.mean())
        t = float(stdtrit(n - 1, 0.975))
        if effect is None:
            effect = self.effect
            if effect is None and self.queries:
                effect = float(stdtrit(self.queries - 1, 0.975)) * spread / self.queries**0.5
        there = self.said if self.queries else "yes" if self.effect is None else f"{self.effect:+.2f}"
        above = None if effect is None or effect <= self.least or error == 0.0 else effect - self.least
        claimed = self.least if effect is None or self.said == "yes" else effect
        verdict = "refuted" if mean + t * error < claimed else "undecided"
        return {
            "there": there + (f" (at least {effect:+.2f})" if self.queries else ""),
            "effect": effect,
            "here": mean,
            "low": mean - t * error,
            "high": mean + t * error,
            "spread": spread,
            "tested": n,
            "needed": None if above is None else _needed(above, spread),
            "power": None if above is None else _power(above, spread, n),
            "verdict": "confirmed" if mean - t * error > self.least else verdict,
        }

    def count(self, improving, directions, noticed=1.0, share=0.01):
        """The verdict on "fewer than a share of all directions improve", from the count of each data set.

        Confirmed: the 95 % interval of the directions that improve is below the share; of 459 directions, if none does.
        Refuted: it is above. ``noticed`` is the chance to notice a direction that improves; the power, that of no
        confirmation if the share does; so many ``needed`` directions would make it 80 %. As in ``decide``, data sets
        that contradict each other are the sample.
        """
        total, many = sum(improving), directions * len(improving)
        low, high = _shares(total, many)
        alone = {self._counted(*_shares(one, directions), share) for one in improving if len(improving) > 1}
        means = [100 * one / directions for one in improving]
        power = _unconfirmed(many, share, share * noticed)
        needed = next((n for n in range(1, 2000) if _unconfirmed(n, share, share * noticed) >= 0.8), None)
        found = {"over": "directions", "tested": many, "spread": None, "power": power, "needed": needed}
        if {"confirmed", "refuted"} <= alone:
            sample = self._over(np.array(means))
            low, high = sample["low"] / 100, sample["high"] / 100
            found |= {
                "over": "data sets",
                "tested": len(means),
                "spread": sample["spread"],
                "power": None,
                "needed": None,
            }
        verdict = self._counted(low, high, share)
        if verdict == "confirmed" and power < 0.8:
            verdict = "undecided"
        found |= {"there": "0", "effect": 0.0, "here": 100 * total / many, "low": 100 * low, "high": 100 * high}
        return dataclasses.asdict(self) | found | {"sets": [round(one, 5) for one in means], "verdict": verdict}

    @staticmethod
    def _counted(low, high, share):
        return "confirmed" if high < share else "refuted" if low > share else "undecided"


def _power(effect, spread, n):
    """The chance that a paired t-test of so many differences finds an effect above 0 at 95 %."""
    from scipy.special import nctdtr, ndtr, stdtrit

    shift, bound = effect / spread * n**0.5, float(stdtrit(n - 1, 0.975))
    few = n <= 100 and abs(shift) < 30  # where the normal distribution is not near enough
    return 1 - float(nctdtr(n - 1, shift, bound)) if few else float(ndtr(shift - bound))


def _needed(effect, spread):
    """How many differences make that chance 80 %."""
    n = max(2, int((2.8016 * spread / effect) ** 2))  # by the normal distribution, which needs fewer
    while _power(effect, spread, n) < 0.8:
        n += 1
    return n


def _shares(improving, directions):
    """The 95 % interval of a share (Clopper, Pearson)."""
    from scipy.special import betaincinv

    low = float(betaincinv(improving, directions - improving + 1, 0.025)) if improving else 0.0
    high = float(betaincinv(improving + 1, directions - improving, 0.975)) if improving < directions else 1.0
    return low, high


@functools.lru_cache(None)
def _allowed(directions, share):
    """How many directions may improve at most, so that the interval is below the share; -1 if not even none."""
    return next(k for k in itertools.count(-1) if _shares(k + 1, directions)[1] >= share)


def _unconfirmed(directions, share, truth):
    """The chance that more directions improve than a confirmation allows, if this share of all does; 0 without one."""
    from scipy.special import bdtrc

    most = _allowed(directions, share)
    return float(bdtrc(most, directions, truth)) if most >= 0 else 0.0


def shown_claim(one):
    """A line about a decided claim."""
    power = "" if one["power"] is None else f", power {one['power']:.2f} ({one['needed']} needed for 0.80)"
    return (
        f"{one['verdict'].upper()}: {one['claim']}: there {one['there']}, here {one['here']:+.2f} "
        f"({one['low']:+.2f} to {one['high']:+.2f}) {one['unit']}, {one['tested']:,} {one['over']}{power}"
    )


class Best(NamedTuple):
    objective: Any
    parameters: dict
    value: float
    model: Any
    tests: dict


@functools.lru_cache(2)
def _web(sizes, documents, features, noise, seed):
    return lp.data.cubic(sum(sizes), documents, features, noise=noise, seed=seed).split(*sizes)


class Study:
    """A recipe that decides claims: its command line, its data, trainings done once, and what it found, as a file.

    ``quick`` names the options that ``--quick`` makes small. A training ends when ``patience`` trees were no better on validation;
    without a patience it has all ``--rounds``.
    """

    def __init__(self, about, *, tested=10_000, seeds=2, features=10, patience=None, quick=None, given=(), **defaults):
        self.name, self.about, self.patience = Path(sys.argv[0]).stem, about, patience
        parser = arguments(about, f"{self.name}.png", **{"rounds": 100, "queries": 1500} | defaults)
        parser.add_argument("--test-queries", type=int, default=tested, help="of the generated data, beside --queries")
        parser.add_argument("--features", type=int, default=features, help="of the generated data")
        parser.add_argument("--seeds", type=int, default=seeds, help="generated data sets")
        parser.add_argument("--kept", help="a folder for finished trainings: a run that was stopped goes on from there")
        parser.add_argument("--out", help="a folder for what was found, from which make_results.py makes the page")
        for flag, options in given:
            parser.add_argument(flag, **options)
        self.options = options = parser.parse_args()
        if options.quick:
            small = {"queries": 60, "test_queries": 80, "rounds": 10, "seeds": 1} | (quick or {})
            vars(options).update(small)
        if options.data:
            options.seeds = 1
        self.lines, self.claims, self.trees, self.seconds = [], [], [], 0.0
        self.bar = tqdm(desc="trainings", disable=None)

    def data(self, seed=0, documents=50, valid=1000, noise=0.3):
        """Train, validation and test parts, as a web search engine's: 50 documents per query, most of them bad."""
        options = self.options
        if options.data:
            return load(options.data)
        sizes = options.queries, min(valid, options.queries), options.test_queries
        return _web(sizes, documents, options.features, noise, seed)

    def once(self, key, compute):
        """``compute()``, or what it returned when it was done before with these options."""
        options = self.options
        same = {name: getattr(options, name) for name in ("data", "queries", "test_queries", "features", "rounds")}
        text = repr((self.name, key, same, lp.__version__) + ((self.patience,) if self.patience else ()))
        path = options.kept and Path(options.kept, hashlib.sha256(text.encode()).hexdigest()[:24] + ".pkl")
        if path and path.exists():
            value, seconds = pickle.loads(path.read_bytes())
        else:
            start = time.process_time()  # which other programs do not change
            value = compute()
            seconds = time.process_time() - start
            if path:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.with_suffix(".part").write_bytes(pickle.dumps((value, seconds)))
                path.with_suffix(".part").replace(path)
        self.seconds += seconds
        self.bar.update()
        return value

    def choose(self, key, choices, parts, measure, rounds=None, callbacks=()):
        """Of (objective, parameters): the number of the one whose model is best on validation, its value there, the model."""
        part, valid, _ = parts
        rounds = rounds or self.options.rounds
        limit = () if rounds == self.options.rounds else (rounds,)
        found = []
        for objective, parameters in choices:

            def train(objective=objective, parameters=parameters):
                return trained(objective, part, valid, measure, rounds, callbacks, self.patience, **parameters)

            found.append(self.once((key, objective, parameters, *limit), train))
        k = max(range(len(found)), key=lambda k: found[k][0])
        return k, *found[k]

    def best(self, key, choices, parts, measure, measures, callbacks=()):
        """What ``choose`` chooses, and the values of the test queries by each of ``measures``."""
        k, value, model = self.choose(key, choices, parts, measure, callbacks=callbacks)
        self.trees.append(model.num_trees())
        test = parts[2]
        tests = self.once((key, "tested", choices[k], measures), lambda: values(measures, test, model.predict(test.X)))
        return Best(*choices[k], value, model, tests)

    def say_growth(self):
        """How many of the models tested were still growing at the last tree: those need more trees than they had."""
        last, patience = self.options.rounds, min(self.patience or 1, self.options.rounds)
        growing = sum(trees > last - patience for trees in self.trees)
        self.say(
            f"Of {len(self.trees)} models tested, {growing} were still growing at the last tree allowed (the best one on validation is"
        )
        self.say(
            f"among the last {patience}). Trees of the models: {min(self.trees)} to {max(self.trees)}, median {np.median(self.trees):.0f}."
        )

    def say(self, text=""):
        tqdm.write(str(text), file=sys.stdout)
        self.lines += str(text).split("\n")

    def decide(self, claim, differences):
        self._found(claim.decide(differences))

    def count(self, claim, improving, directions, noticed=1.0):
        """``improving``: a count for each data set."""
        self._found(claim.count(improving, directions, noticed))

    def _found(self, one):
        self.claims.append({k: round(v, 5) if isinstance(v, float) else v for k, v in one.items()})
        tqdm.write(shown_claim(one), file=sys.stdout)

    def finish(self, figure):
        """Save the figure, and with ``--out`` all that was said and decided."""
        self.bar.close()
        options = self.options
        figure.savefig(options.plot)
        if options.out:
            out = Path(options.out)
            out.mkdir(parents=True, exist_ok=True)
            small_picture(figure, out / f"{self.name}.png")
            left_out = {"--out", "--kept", "--plot"}
            rest = [w for i, w in enumerate(sys.argv) if i and not left_out & {w, sys.argv[i - 1]}]
            found = {
                "recipe": self.name,
                "about": self.about,
                "command": " ".join([f"python recipes/{self.name}.py", *rest]),
                "processor minutes": round(self.seconds / 60, 1),
                "made with": {name: version(name) for name in ("lightgbm", "xgboost", "numpy", "numba")},
                "claims": self.claims,
                "text": self.lines,
            }
            (out / f"{self.name}.json").write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", "utf-8")


def panels(mosaic, height=3.4, **options):
    """(figure, its axes): 400 pixels of width for each letter of ``plt.subplot_mosaic``'s line."""
    rows = mosaic.split(";")
    figure, axes = plotting.use().subplot_mosaic(mosaic, figsize=(4 * len(rows[0]), height * len(rows)), **options)
    return figure, list(axes.values())


def legend_below(axis, columns=2):
    """Under a panel that is too narrow for a legend beside it."""
    plotting.legend(axis, bbox_to_anchor=(-0.05, -0.2), ncols=columns)


def small_picture(figure, path):
    """For a page: 64 colours, a third of the bytes."""
    from PIL import Image

    figure.savefig(path)
    Image.open(path).convert("P", palette=Image.Palette.ADAPTIVE, colors=64).save(path, optimize=True)


def trained(objective, part, valid, measure, rounds, callbacks=(), patience=None, **parameters):
    """(validation value, model): LightGBM's on one thread, with the trees that are best on validation by the measure.

    The training ends when ``patience`` trees were no better, or after ``rounds`` trees.
    """
    import lightgbm as lgb

    data = lgb.Dataset(part.X, part.labels, group=part.group)
    model = lgb.train(
        {"objective": objective, "num_threads": 1, "metric": "None", "verbose": -1} | parameters,
        data,
        rounds,
        valid_sets=[lgb.Dataset(valid.X, valid.labels, group=valid.group, reference=data)],
        feval=lp.metric(measure),
        callbacks=[lgb.early_stopping(patience or rounds, verbose=False), *callbacks],
    )
    return next(iter(model.best_score["valid_0"].values())), lgb.Booster(model_str=model.model_to_string())


def values(measures, part, scores):
    """Each measure of each query, by the measure's name."""
    return lp.evaluate(measures, part.labels, scores, part.group, per_query=True)


def interval(sets):
    """(mean, half of its 95 % interval) of the values of all queries of all data sets."""
    every = np.concatenate(sets)
    every = every[~np.isnan(every)]
    return float(every.mean()), 1.96 * float(every.std(ddof=1)) / len(every) ** 0.5


def between(sets):
    """``interval`` with the data sets as the sample, where trainings differ by more than the error of the queries."""
    from scipy.special import stdtrit

    if len(sets) == 1:
        return interval(sets)
    means = np.array([np.nanmean(one) for one in sets])
    return float(means.mean()), float(stdtrit(len(means) - 1, 0.975)) * float(means.std(ddof=1)) / len(means) ** 0.5
