"""What the programs of the five papers share: their model class, verdicts, a table, a picture, and the page of them all.

    python recipes/papers/shared.py    # write the papers' part of recipes/results.md from recipes/results/papers/*.json

The papers' models are linear and two-layer nets, trained query by query: ``Net`` and ``train`` are that, in plain NumPy on
``objective.gradients(...)``, which serves any model whose scores have a derivative.
"""

import argparse
import ast
import json
import sys
import time
from pathlib import Path

import numpy as np
from scipy.special import betaincinv, stdtrit
from tqdm import tqdm

import lambdaplug as lp

sys.path.insert(0, str(Path(__file__).parent.parent))
import common

RECIPES = Path(__file__).parent.parent
PAPERS = ["lambdarank_2006", "spsa_2007", "approx_2008", "local_optimality_2009", "multiple_objectives_2011"]
VERDICTS = ["reproduced", "smaller than in the paper", "level", "opposite", "not comparable"]
START, END = "<!-- papers: start -->", "<!-- papers: end -->"


# --- the model class ---------------------------------------------------------------------------------------------


class Net:
    """Scores linear in the features, or of so many hidden units (tanh). All weights are one vector."""

    def __init__(self, features, hidden=0, seed=0):
        self.features, self.hidden = features, hidden
        weights = np.random.default_rng(seed).normal(size=(features + 2) * hidden or features)
        weights /= features**0.5
        if hidden:
            weights[-hidden:] *= (features / hidden) ** 0.5
        self.weights = weights.astype(np.float32)

    def inside(self, X, weights):
        """The hidden units' values."""
        f, h = self.features, self.hidden
        return np.tanh(X @ weights[: f * h].reshape(f, h) + weights[f * h : -h])

    def scores(self, X, weights=None):
        weights = self.weights if weights is None else weights
        return self.inside(X, weights) @ weights[-self.hidden :] if self.hidden else X @ weights

    def step(self, X, gradient_of_scores, rate):
        """Every weight one step down the gradient that these rows' scores have."""
        if not self.hidden:
            self.weights -= rate * (gradient_of_scores(X @ self.weights) @ X)
            return
        f, h = self.features, self.hidden
        units, last = self.inside(X, self.weights), self.weights[-h:].copy()
        gradient = gradient_of_scores(units @ last)
        back = gradient[:, None] * last * (1 - units * units)
        self.weights[: f * h] -= rate * (X.T @ back).ravel()
        self.weights[f * h : -h] -= rate * back.sum(axis=0)
        self.weights[-h:] -= rate * (gradient @ units)


def train(net, objective, part, valid, measure, *, rate, epochs, queries_a_step=1, patience=20, seed=0, watch=None):
    """The net with the weights that were best on validation, and the validation values of all epochs.

    Each step takes the summed gradients of so many queries, in a new order every epoch. As in the papers the rate falls by
    0.8 after an epoch that lowered the training measure (here that of the first 1,000 queries). The training ends after
    ``patience`` epochs that were no better on validation. ``watch`` is called with the net after each epoch.
    """
    starts, rng, rate = np.cumsum(part.group) - part.group, np.random.default_rng(seed), np.float32(rate)
    some = part if len(part.group) <= 1000 else part.split(1000, len(part.group) - 1000)[0]
    best, weights, before, values = -np.inf, net.weights, -np.inf, []
    for _ in range(epochs):
        order = rng.permutation(len(part.group))
        for first in range(0, len(order), queries_a_step):
            chosen = order[first : first + queries_a_step]
            sizes = part.group[chosen]
            rows = np.concatenate([np.arange(starts[q], starts[q] + part.group[q]) for q in chosen])
            labels = part.labels[rows]

            def slope(scores, labels=labels, sizes=sizes):
                return objective.gradients(labels=labels, scores=scores, group=sizes)[0]

            net.step(part.X[rows], slope, rate)
        if watch is not None:
            watch(net)
        now = measured(measure, some, net.scores(some.X))
        rate, before = (rate * np.float32(0.8), now) if now < before else (rate, now)
        values.append(measured(measure, valid, net.scores(valid.X)))
        if values[-1] > best:
            best, weights = values[-1], net.weights.copy()
        elif len(values) - np.argmax(values) > patience:
            break
    net.weights = weights
    return net, values


def measured(measure, part, scores):
    return next(iter(lp.evaluate(measure, part.labels, scores, part.group).values()))


def chosen(make, rates, **how):
    """Of a training with each rate, the one that is best on validation: (net, validation values, rate)."""
    found = [(*train(make(), rate=rate, **how), rate) for rate in rates]
    return max(found, key=lambda one: max(one[1]))


def standard(parts):
    """The same parts, each feature with mean 0 and deviation 1 in the first."""
    mean, spread = parts[0].X.mean(axis=0), parts[0].X.std(axis=0)
    spread[spread == 0] = 1
    return [lp.data.RankingData((one.X - mean) / spread, one.labels, one.group) for one in parts]


# --- verdicts ----------------------------------------------------------------------------------------------------

RULE = """An effect is reproduced where its 95 % interval is above 0 and includes or exceeds half of the paper's (above 0 is enough where the
paper says "significant" or shows a figure without numbers), smaller where it is above 0 and below that half, level where it includes 0,
opposite where it is below 0. "No change" is reproduced where the interval is within the margin named, a gain "at no loss" is level
where a loss of half a point is not excluded, "no direction improves" is reproduced where fewer than 1 % of all directions do, at 99 %.
Intervals are over data sets where there are several, else over test queries."""


def interval(sets):
    """(mean, low, high) of differences query by query, an array for each data set; NaN where a measure is undefined."""
    means = np.array([np.nanmean(one) for one in sets])
    values = means if len(means) > 1 else np.asarray(sets[0])[~np.isnan(sets[0])]
    half = stdtrit(len(values) - 1, 0.975) * values.std(ddof=1) / len(values) ** 0.5
    return float(values.mean()), float(values.mean() - half), float(values.mean() + half)


def verdict(low, high, effect=None, margin=None):
    """By the rule above; an effect of None is one that the paper gives no number for."""
    if margin is not None:
        return "reproduced" if -margin < low and high < margin else "opposite" if high < 0 or low > 0 else "level"
    if low > 0:
        return "reproduced" if high >= (effect or 0) / 2 else "smaller than in the paper"
    return "opposite" if high < 0 else "level"


# --- a program ---------------------------------------------------------------------------------------------------


class Paper:
    """A program's command line, its table of claims, and what it leaves for the page."""

    def __init__(self, about, data="a .npz file: arrays X, y, qid, split (0, 1, 2); default: generated data"):
        self.name = Path(sys.argv[0]).stem
        parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
        parser.add_argument("--data", help=data)
        parser.add_argument(
            "--quick", action="store_true", help="less data and shorter trainings: seconds, not minutes"
        )
        parser.add_argument("--plot", default=f"{self.name}.png", help="where the picture goes")
        parser.add_argument("--out", help="a folder for table and picture, from which shared.py makes the page")
        self.options = parser.parse_args()
        self.quick, self.rows, self.lines, self.started = self.options.quick, [], [], time.process_time()
        self.bar = tqdm(desc=self.name, disable=None)

    def parts(self, queries, features, noise, seed=0, documents=50, valid=2000, test=4000):
        """Train, validation and test parts: the user's, or generated, with the labels' shares of a web search engine."""
        if self.options.data:
            return standard(common.load(self.options.data))
        if self.quick:
            queries, valid, test = 300, 200, 400
        data = lp.data.cubic(queries + valid + test, documents, features, noise=noise, seed=seed)
        return data.split(queries, valid, test)

    def sets(self, count):
        """Numbers of the data sets."""
        return range(1 if self.quick or self.options.data else count)

    def claim(self, claim, regime, sets, effect=None, said=None, margin=None, scale=100.0, digits=2):
        """A row of the table: differences query by query, for each data set."""
        mean, low, high = (scale * one for one in interval(sets))
        there = said or (f"{effect:+.{digits}f}" if effect is not None else "significant")
        found = f"{mean:+.{digits}f} ({low:+.{digits}f} to {high:+.{digits}f})"
        self.row(claim, regime, there, found, verdict(low, high, effect, margin))

    def rare(self, claim, regime, improving, directions, said="none", more=""):
        """A row: that fewer than 1 % of directions improve."""
        k, n = improving, directions
        low = float(betaincinv(k, n - k + 1, 0.01)) if k else 0.0
        high = float(betaincinv(k + 1, n - k, 0.99)) if k < n else 1.0
        decided = "reproduced" if high < 0.0101 else "opposite" if low > 0.01 else "level"
        self.row(claim, regime, said, f"{k} of {n:,} (at most {100 * high:.1f} %){more}", decided)

    def row(self, claim, regime, there, found, decided):
        self.rows.append({"claim": claim, "regime": regime, "paper": there, "found": found, "verdict": decided})
        self.say(f"{decided.upper()}: {claim} [{regime}]: paper {there}, found {found}")

    def say(self, text, keep=False):
        """Print; what is kept is for the page of details."""
        tqdm.write(str(text), file=sys.stdout)
        self.lines += str(text).split("\n") if keep else []

    def finish(self, figure):
        self.bar.close()
        figure.savefig(self.options.plot)
        if self.options.out:
            out = Path(self.options.out)
            out.mkdir(parents=True, exist_ok=True)
            common.small_picture(figure, out / f"{self.name}.png")
            minutes = round((time.process_time() - self.started) / 60, 1)
            found = {"minutes": minutes, "rows": self.rows, "details": self.lines}
            (out / f"{self.name}.json").write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", "utf-8")


def dots(axis, sets, title, label):
    """Means and 95 % intervals by name, from the values of each data set, in points."""
    points = np.array([[100 * one for one in interval(values)] for values in sets.values()])
    axis.errorbar(points[:, 0], range(len(sets)), xerr=points[:, 2] - points[:, 0], fmt="o", capsize=3)
    axis.set_yticks(range(len(sets)), sets)
    axis.set(title=title, xlabel=label)
    axis.invert_yaxis()


# --- the page ----------------------------------------------------------------------------------------------------


def section(name, found):
    """A paper on the page: its headline, a paragraph, the table and the picture."""
    about = ast.get_docstring(ast.parse((RECIPES / "papers" / f"{name}.py").read_text("utf-8")))
    headline, _, rest = about.partition("\n")
    paragraph = rest.strip().split("\n\n")[-1]
    lines = ["| claim | regime | paper | found (95 %) | verdict |", "|---|---|---|---|---|"]
    lines += ["| {claim} | {regime} | {paper} | {found} | {verdict} |".format(**row) for row in found["rows"]]
    command = f"`python recipes/papers/{name}.py`, {found['minutes']:g} processor minutes; in points of 100 where no unit is named."
    return "\n\n".join(
        [f"### {headline}", paragraph, command, "\n".join(lines), f"![{headline}](results/papers/{name}.png)"]
    )


def details(name, found):
    """What it printed beside the table, for a page of its own."""
    text = "\n".join(line.rstrip() for line in found["details"]).strip("\n")
    return f"## {name}.py\n\n```\n{text}\n```"


def summary(several):
    """How many claims of each paper have which verdict."""
    lines = ["| program | claims | " + " | ".join(VERDICTS) + " |", "|" + "---|" * (len(VERDICTS) + 2)]
    for name, found in several.items():
        counts = [sum(row["verdict"] == verdict for row in found["rows"]) for verdict in VERDICTS]
        cells = [str(count or "") for count in counts]
        lines.append(f"| `recipes/papers/{name}.py` | {len(found['rows'])} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", default=RECIPES, type=Path, help="of results.md and results/papers")
    folder = parser.parse_args().folder
    found = {name: folder / "results" / "papers" / f"{name}.json" for name in PAPERS}
    found = {name: json.loads(path.read_text("utf-8")) for name, path in found.items() if path.exists()}
    page = folder / "results.md"
    before, _, rest = page.read_text("utf-8").partition(START)
    link = "What the programs printed beside these tables is on [a page of its own](results/papers/details.md)."
    parts = [START, summary(found), RULE, link, *(section(name, one) for name, one in found.items()), END]
    page.write_text(before + "\n\n".join(parts) + rest.partition(END)[2], "utf-8")
    title = "# The papers: details\n\nBeside the tables of [results](../../results.md)."
    parts = [title, *(details(name, one) for name, one in found.items() if one["details"])]
    (folder / "results" / "papers" / "details.md").write_text("\n\n".join(parts) + "\n", "utf-8")


if __name__ == "__main__":
    main()
