"""Any objective on any rows: against the oracle's float64, query by query.

What is drawn: measures x costs x constructions x normalisations x steps x weights x missing labels x tiers x mixtures,
ties, equal labels, queries of no, one and few documents, scores far beyond exp's range, arrays of any type and layout.
Always the same small sample, unless ``LAMBDAPLUG_FUZZ=50000`` asks for so many queries of new ones.
"""

import os
from dataclasses import dataclass

import numpy as np
import pytest
from oracle import VALUES, Sums, always, ranknet, reading, revenue, scaled, sigmoid

import lambdaplug as lp
from lambdaplug.queries import Queries

NAMES = "scores", "labels", "group", "weight"
CASES = int(os.environ.get("LAMBDAPLUG_FUZZ", "0"))
BATCH = 250  # queries for which one objective is drawn, as most of the time is compiling
SMALL, SEED = 8, 80  # batches of the sample; this seed's have every cost, construction, normalisation and kind of sum

# Relative to the largest sum of terms in the query: of float32 results, and of float64's.
FAST, EXACT = 4e-6, 1e-10
TINY = 1e-30  # absolute: float32 ends near here

CONSTRUCTIONS = ["spring_smooth", "local_gradient", "local_cost", "discrete_bounded"]
FLOOR = 1e-16


OWN = "revenue"


@dataclass
class Part:
    """A LambdaRank, as its arguments."""

    measure: str
    construction: str
    cost: str
    sigma: float
    normalize: str
    step: str
    ignore_zero: bool
    labels: np.ndarray | None  # another source than the data set's

    def build(self, column):
        costs = {"ranknet": "ranknet", "near": lp.RankNet(distance=0.01), "sigmoid": lp.Sigmoid(0.5)}
        return lp.LambdaRank(
            lp.custom(OWN, revenue) if self.measure == OWN else self.measure,
            construction=self.construction,
            cost=costs[self.cost],
            sigma=self.sigma,
            normalize=self.normalize,
            step=self.step,
            ignore_zero=self.ignore_zero,
            labels=None if self.labels is None else column,
        )

    def expect(self, scores, labels, weight, tier):
        """Before its shape."""

        def allowed(i, j):
            ignored = self.ignore_zero and (labels[i] == 0 or labels[j] == 0)
            return not ignored and (tier is None or tier[i] == tier[j])

        options = {"allowed": always if tier is None and not self.ignore_zero else allowed, "weight": weight}
        if self.construction not in ("local_gradient", "discrete_bounded"):
            cost = (lambda margin: sigmoid(margin, 0.5)) if self.cost == "sigmoid" else ranknet
            options |= {"cost": cost, "sigma": self.sigma, "distance": 0.01 if self.cost == "near" else 0.0}
        found = reading(self.construction, self.measure, scores, labels, log=self.normalize == "log", **options)
        return Sums(*found[:2], *found[2:].max(axis=1, initial=0.0))

    def shaped(self, sums):
        return sums.shaped(self.normalize, self.step)


@dataclass
class Whole:
    """A sum of parts: tiers, a mixture, or one alone."""

    kind: str
    parts: list
    weights: list
    normalize: str = "none"
    step: str | None = None

    def build(self):
        built = [part.build(f"labels {k}") for k, part in enumerate(self.parts)]
        options = {"normalize": self.normalize, "step": self.step}
        if self.kind == "graded":
            return lp.Graded(built, self.weights, **options)
        if self.kind == "mixture":
            return lp.Mixture(list(zip(self.weights, built, strict=True)), **options)
        return built[0]

    def columns(self):
        return {f"labels {k}": part.labels for k, part in enumerate(self.parts) if part.labels is not None}

    def expect(self, scores, labels, weight, rows):
        """Of one query: its rows' scores, labels and weights; ``rows`` cuts them out of other label sources."""
        sums = Sums(np.zeros(len(scores)), np.zeros(len(scores)), 0.0, 0.0)
        above = []
        for share, part in zip(self.weights, self.parts, strict=True):
            own = labels if part.labels is None else part.labels[rows].tolist()
            tier = list(zip(*above, strict=True)) if above and self.kind == "graded" else None
            if tier is not None:  # no label above: equal to none, not even to itself
                tier = [Never() if any(x != x for x in values) else values for values in tier]
            if share != 0.0:
                sums += part.shaped(part.expect(scores, own, weight, tier)).scaled(share)
            above.append(own)
        return sums if self.kind == "alone" else sums.shaped(self.normalize, self.step)


class Never:
    """Equal to nothing."""

    __hash__ = None

    def __eq__(self, other):
        return False


# --- drawing -------------------------------------------------------------------------------------------------------


def draw_labels(rng, sizes, measure, missing):
    """Labels for a measure, one kind for each query; with some, many or all of them missing if that is allowed."""
    whole = "gain=[" in measure
    parts = []
    for size in sizes:
        kind = rng.integers(6)
        level = rng.integers(0, 5, size).astype(float)
        if kind == 0:
            level[:] = rng.integers(0, 5)
        elif kind == 1:
            level = (rng.random(size) < 0.3) * float(rng.integers(1, 5))
        elif kind == 2 and not whole:
            level = rng.integers(0, 9, size) / 2
        if missing:
            level[rng.random(size) < rng.choice([0.0, 0.2, 0.6, 1.0], p=[0.3, 0.4, 0.25, 0.05])] = np.nan
        parts.append(level)
    labels = np.concatenate(parts)
    labels[-1] = 4.0  # the last query has one document: the largest label is the same in every draw
    return np.array(scaled(measure, labels.tolist()))


def draw_scores(rng, sizes):
    extremes = [-1e30, -900.0, -60.0, -1e-30, 0.0, 1e-30, 60.0, 900.0, 1e30]
    kinds = {
        "ties": lambda n: rng.integers(-2, 3, n).astype(float),
        "usual": lambda n: rng.normal(size=n),
        "equal": lambda n: np.full(n, rng.normal()),
        "close": lambda n: 5.0 + 1e-6 * rng.integers(0, 4, n),
        "wide": lambda n: 40.0 * rng.normal(size=n),
        "extreme": lambda n: rng.choice(extremes, n),
    }
    names = rng.choice(list(kinds), len(sizes), p=[0.3, 0.4, 0.05, 0.05, 0.1, 0.1])
    return np.concatenate([kinds[name](n) for name, n in zip(names, sizes, strict=True)])


def draw_part(rng, sizes, other_labels, measures):
    measure = str(rng.choice(measures))
    construction = str(rng.choice(CONSTRUCTIONS)) if rng.random() < 0.35 else "ranknet_weight_pairs"
    costed = construction not in ("local_gradient", "discrete_bounded")
    cost = str(rng.choice(["ranknet", "near", "sigmoid"], p=[0.6, 0.2, 0.2])) if costed else "ranknet"
    sigma = float(rng.choice([1.0, 0.3, 2.5])) if costed else 1.0
    step = "gradient" if cost == "sigmoid" or rng.random() < 0.15 else "newton"
    normalize = str(rng.choice(["none", "std", "log"], p=[0.6, 0.2, 0.2]))
    labels = draw_labels(rng, sizes, measure, rng.random() < 0.7) if other_labels else None
    ignore_zero = bool(rng.random() < (0.3 if other_labels else 0.05))
    return Part(measure, construction, cost, sigma, normalize, step, ignore_zero, labels)


def draw_objective(rng, sizes, own):
    kind = str(rng.choice(["alone", "graded", "mixture"], p=[0.6, 0.25, 0.15]))
    measures = [*(name for name in VALUES if name != OWN), *([OWN] if own else [])]
    count = {"alone": 1, "graded": int(rng.integers(2, 4)), "mixture": 2}[kind]
    parts = [draw_part(rng, sizes, k > 0 or rng.random() < 0.4, measures) for k in range(count)]
    weights = [1.0] if kind == "alone" else (rng.dirichlet(np.ones(count))).tolist()
    if kind == "graded" and rng.random() < 0.2:
        weights = [0.0, 1.0, *[0.0] * (count - 2)]
    shaped = kind != "alone" and rng.random() < 0.2
    return Whole(kind, parts, weights, "std" if shaped else "none", "gradient" if shaped else None)


def laid_out(rng, values):
    """The same values in another type or layout, none of which may be written to."""
    kind = rng.integers(4)
    if kind == 0:
        return values.tolist()
    if kind == 1:  # every third entry of something larger
        wide = np.full(3 * len(values), 7.0)
        wide[1::3] = values
        values = wide[1::3]
    elif kind == 2 and np.array_equal(values, values.astype(np.float32)):
        values = values.astype(np.float32)
    elif kind == 3 and np.array_equal(values, np.floor(values)) and np.abs(values).max(initial=0) < 100:
        values = values.astype(np.int64)
    values = values.view()
    values.setflags(write=False)
    return values


# --- comparing -----------------------------------------------------------------------------------------------------


def compare(found, expected, tolerance):
    """The first query where they differ by more than rounding."""
    start = 0
    for query, sums in enumerate(expected):
        rows = slice(start, start + len(sums.gradient))
        start = rows.stop
        limits = tolerance * sums.gradient_terms + TINY, tolerance * max(sums.hessian_terms, FLOOR) + TINY
        wanted = sums.gradient, np.maximum(sums.hessian, FLOOR)
        for values, want, limit in zip(found, wanted, limits, strict=True):
            if not np.isfinite(values[rows]).all() or (np.abs(values[rows] - want) > limit).any():
                return query, rows, values[rows], want
    return None


def run_batch(seed, own):
    rng = np.random.default_rng(seed)
    sizes = rng.choice([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 17], BATCH, p=[0.03, 0.04, 0.2, *[0.102] * 7, 0.016])
    sizes[-1] = 1
    whole = draw_objective(rng, sizes, own)
    first = whole.parts[0].measure if whole.parts[0].labels is None else "ndcg(gain=[0])"
    labels, scores = draw_labels(rng, sizes, first, False), draw_scores(rng, sizes)
    kind = str(rng.choice(["none", "query", "document"], p=[0.5, 0.2, 0.3]))
    weight = {"none": None, "query": rng.uniform(0, 3, BATCH), "document": rng.choice([0.0, 0.5, 1.0, 3.0], sum(sizes))}
    edges = np.concatenate([[0], np.cumsum(sizes)])
    expected = []
    for query in range(BATCH):
        rows = slice(edges[query], edges[query + 1])
        documents = weight[kind][rows].tolist() if kind == "document" else None
        sums = whole.expect(scores[rows].tolist(), labels[rows].tolist(), documents, rows)
        expected.append(sums.scaled(weight["query"][query]) if kind == "query" else sums)

    objective = whole.build()
    arrays = [laid_out(rng, scores), laid_out(rng, labels), laid_out(rng, sizes.astype(float))]
    arrays.append(None if weight[kind] is None else laid_out(rng, weight[kind]))
    copies = [None if array is None else np.array(array) for array in arrays]
    queries = Queries.weighted(labels, sizes, weight[kind], columns=whole.columns())
    for tolerance, found in (
        (FAST, objective.gradients(**dict(zip(NAMES, arrays, strict=True)), columns=whole.columns())),
        (EXACT, objective.differentiate(queries, scores, exact=True, dtype=np.float64)),
    ):
        wrong = compare(found, expected, tolerance)
        if wrong is not None:
            query, rows, got, want = wrong
            sources = [None if part.labels is None else part.labels[rows].tolist() for part in whole.parts]
            pytest.fail(
                f"seed {seed}, query {query}: {objective!r}\nscores {scores[rows].tolist()}\nlabels "
                f"{labels[rows].tolist()}\nsources {sources}\n{kind} weights "
                f"{weight[kind][rows] if kind == 'document' else ''}\ngot  {got}\nwant {want}",
                pytrace=False,
            )
    for array, copy in zip(arrays, copies, strict=True):
        np.testing.assert_array_equal(np.array(array), copy)


def test_every_gradient_is_the_oracles(monkeypatch):
    monkeypatch.setitem(VALUES, OWN, lambda labels: float(np.nansum(labels[:3])))
    entropy = np.random.SeedSequence().entropy if CASES else SEED
    for batch in range(-(-CASES // BATCH) if CASES else SMALL):
        # One's own measure is compiled anew in every process: a few of many, none of the sample.
        run_batch([entropy, batch], own=CASES > 0 and batch % 20 == 0)
