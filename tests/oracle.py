"""Every measure and every lambda gradient once more, in plain Python, slowly: what the package is compared with.

Nothing here comes from the package. A swap's delta is found by swapping; a label of NaN is none.
"""

import math
import re
from typing import NamedTuple

import numpy as np


def rank(scores):
    """Rows by descending score, equal scores in row order."""
    return sorted(range(len(scores)), key=lambda row: (-scores[row], row))


def dcg(gains, discounts):
    return sum(g * d for g, d in zip(gains, discounts, strict=False))


def log_discounts(n, k=None):
    return [1 / math.log2(1 + r) if k is None or r <= k else 0.0 for r in range(1, n + 1)]


def exp2(label):
    return 2**label - 1


def gains_of(labels, gain=exp2):
    """A document without a label is worth nothing."""
    return [0.0 if math.isnan(label) else gain(label) for label in labels]


def ndcg(labels, k=None, gain=exp2, discounts=None):
    discounts = log_discounts(len(labels), k) if discounts is None else discounts
    gains = gains_of(labels, gain)
    ideal = dcg(sorted(gains, reverse=True), discounts)
    return dcg(gains, discounts) / ideal if ideal > 0 else None


def mean_ndcg(labels, k=None):
    values = [ndcg(labels, cut) for cut in range(1, min(k or len(labels), len(labels)) + 1)]
    return sum(values) / len(values) if values and None not in values else None


def average_precision(labels, k=None, relevant=1):
    is_relevant = [label >= relevant for label in labels]
    total = sum(is_relevant)
    top = range(1, min(k or len(labels), len(labels)) + 1)
    return sum(is_relevant[r - 1] * sum(is_relevant[:r]) / r for r in top) / total if total else None


def reciprocal_rank(labels, k=None, relevant=1):
    ranks = [r for r, label in enumerate(labels, 1) if label >= relevant]
    if not ranks:
        return None
    return 1 / ranks[0] if k is None or ranks[0] <= k else 0.0


def expected_reciprocal_rank(labels, k=None, max_label=4):
    total, looking = 0.0, 1.0
    for r, gain in enumerate(gains_of(labels), 1):
        p = gain / 2**max_label
        total += looking * p / r if k is None or r <= k else 0.0
        looking *= 1 - p
    return total


def judged(labels):
    return [label for label in labels if not math.isnan(label)]


def pairwise_correct(labels):
    labels = judged(labels)
    pairs = [(a, b) for i, a in enumerate(labels) for b in labels[i + 1 :] if a != b]
    return sum(a > b for a, b in pairs) / len(pairs) if pairs else None


def bpref(labels, relevant=1):
    labels = judged(labels)
    is_relevant = [label >= relevant for label in labels]
    total, others = sum(is_relevant), len(labels) - sum(is_relevant)
    if not total:
        return None
    terms = [
        1 - min(sum(not x for x in is_relevant[:i]), total) / max(min(total, others), 1)
        for i, found in enumerate(is_relevant)
        if found
    ]
    return sum(terms) / total


def rank_biased_precision(labels, p=0.8, max_label=4):
    return (1 - p) * sum(gain / exp2(max_label) * p**r for r, gain in enumerate(gains_of(labels)))


def spearman(labels):
    labels = judged(labels)
    n, mean = len(labels), (len(labels) + 1) / 2
    ranks = [sum(x < y for x in labels) + (sum(x == y for x in labels) + 1) / 2 for y in labels]
    squares = sum((rank - mean) ** 2 for rank in ranks)
    if squares == 0:
        return None
    places = [n - r for r in range(n)]
    together = sum((rank - mean) * (place - mean) for rank, place in zip(ranks, places, strict=True))
    return together / math.sqrt(squares * sum((place - mean) ** 2 for place in places))


# Each measure by its text: the value of ranked labels 0..4 (a data set whose largest label is 4), None = undefined.
VALUES = {
    "ndcg": ndcg,
    "ndcg@3": lambda x: ndcg(x, 3),
    "ndcg@4(gain='linear')": lambda x: ndcg(x, 4, gain=float),
    "ndcg(gain=[0,1,3,5,6])": lambda x: ndcg(x, gain=lambda label: [0, 1, 3, 5, 6][int(label)]),
    "ndcg(gain=[0,1,3,0,2])": lambda x: ndcg(x, gain=lambda label: [0, 1, 3, 0, 2][int(label)]),
    "ndcg@2(gain=[2,1,0,0,3])": lambda x: ndcg(x, 2, gain=lambda label: [2, 1, 0, 0, 3][int(label)]),
    "ndcg(discount=[1,0.5,0.5,0.1])": lambda x: ndcg(x, discounts=[1, 0.5, 0.5, 0.1]),
    "meanndcg": mean_ndcg,
    "meanndcg@3": lambda x: mean_ndcg(x, 3),
    "dcg@5": lambda x: dcg(gains_of(x), log_discounts(len(x), 5)),
    "cndcg@3": lambda x: ndcg(x, 3, gain=lambda c: 2 ** (4 * c) - 1),
    "map": average_precision,
    "map@3": lambda x: average_precision(x, 3),
    "map(relevant=2)": lambda x: average_precision(x, relevant=2),
    "mrr": reciprocal_rank,
    "mrr@3": lambda x: reciprocal_rank(x, 3),
    "err": expected_reciprocal_rank,
    "err@4": lambda x: expected_reciprocal_rank(x, 4),
    "p@5": lambda x: sum(label >= 1 for label in x[:5]) / 5,
    "recall@3": lambda x: sum(v >= 1 for v in x[:3]) / sum(v >= 1 for v in x) if any(v >= 1 for v in x) else None,
    "wta": lambda x: float(x[0] >= 1),
    "wta(relevant=3)": lambda x: float(x[0] >= 3),
    "pairs": pairwise_correct,
    "rbp": rank_biased_precision,
    "rbp@3(p=0.5)": lambda x: rank_biased_precision(x[:3], 0.5),
    "bpref": bpref,
    "hit@3": lambda x: float(any(label >= 1 for label in x[:3])),
    "hit@2(relevant=3)": lambda x: float(any(label >= 3 for label in x[:2])),
    "spearman": spearman,
}


def scaled(name, labels):
    """Labels 0..4 as the measure takes them: click scores lie in [0, 1]."""
    return [label / 4 for label in labels] if name.startswith("cndcg") else labels


def grades_of(name, labels):
    """Which of two documents belongs above: the one of the higher grade; NaN: it is in no pair."""
    threshold = re.search(r"relevant=(\d+)", name)
    table = re.search(r"gain=\[([^]]*)\]", name)
    if re.match(r"(map|mrr|p|recall|wta|bpref|hit)\b", name):
        least = int(threshold[1]) if threshold else 1
        return [math.nan if math.isnan(label) else float(label >= least) for label in labels]
    if table:
        gains = [float(gain) for gain in table[1].split(",")]
        return [math.nan if math.isnan(label) else gains[int(label)] for label in labels]
    return list(labels)


def swap_delta(name, labels, a, b):
    """|M after exchanging ranks a and b - M|, by doing it."""
    if name == "pairs":  # turning one pair's order round, all other pairs in place
        known = judged(labels)
        different = sum(x != y for i, x in enumerate(known) for y in known[i + 1 :])
        return 1 / different if labels[a] != labels[b] and not math.isnan(labels[a] + labels[b]) else 0.0
    swapped = list(labels)
    swapped[a], swapped[b] = swapped[b], swapped[a]
    before, after = VALUES[name](labels), VALUES[name](swapped)
    return 0.0 if before is None else abs(after - before)


# --- pair costs: force and hessian of a margin ---------------------------------------------------------------------


def ranknet(margin):
    small = math.exp(-abs(margin))
    low, high = small / (1 + small), 1 / (1 + small)
    return low if margin > 0 else high, low * high


def sigmoid(margin, mu=0.0):
    small = math.exp(-abs(margin + mu))
    return small / (1 + small) ** 2, 0.0


def slope(gap, margin=1.0):
    return 1 / (abs(gap) + margin), 1 / (abs(gap) + margin) ** 2


# --- gradients of one query ----------------------------------------------------------------------------------------


NOISE = 1e-5  # of a value: a change beside which its own rounding is still less than what is compared


def always(_i, _j):
    return True


def log_factor(total):
    return math.log2(1 + total) / total if total > 0 else 1.0


def pair_loop(
    name,
    scores,
    labels,
    size=lambda delta: delta,
    *,
    reach=None,
    cost=ranknet,
    sigma=1.0,
    weight=None,
    allowed=always,
    distance=0.0,
    log=False,
):
    """Gradient and hessian over pairs of different grade, and what rounding is compared with: the size of their terms.

    ``reach``: at most so many ranks apart. ``allowed(i, j)``: which pairs of rows count. ``distance``: what a pair's
    distance is added to before its delta is divided by it.
    """
    n = len(scores)
    order = rank(scores)
    ranked = [labels[row] for row in order]
    grade = grades_of(name, ranked)
    sums = np.zeros((4, n))
    gradient, hessian, sizes, bends = sums
    total, now = 0.0, VALUES[name](ranked) if n > 1 else None
    if now is None:
        return sums
    apart = distance if max(scores) > min(scores) else 1.0
    for a in range(n):
        for b in range(a + 1, n):
            ordered = grade[a] < grade[b] or grade[a] > grade[b]
            if not ordered or (reach is not None and b - a > reach) or not allowed(order[a], order[b]):
                continue
            i, j = (order[a], order[b]) if grade[a] > grade[b] else (order[b], order[a])
            force, bend = cost(sigma * (scores[i] - scores[j]))
            factor = sigma if weight is None else sigma * weight[i] * weight[j]
            if distance:
                factor /= apart + abs(scores[i] - scores[j])
            change = size(swap_delta(name, ranked, a, b))
            total += 2 * factor * change * force
            gradient[i] -= factor * change * force
            gradient[j] += factor * change * force
            for row in (i, j):
                hessian[row] += factor * sigma * change * bend
                sizes[row] += factor * (change + NOISE * abs(now)) * force
                bends[row] += factor * sigma * (change + NOISE * abs(now)) * bend
    return (log_factor(total) if log else 1.0) * sums


def gradients(name, scores, labels, sigma=1.0, weight=None, cost=ranknet, allowed=always):
    """The lambda gradient as it is usually meant."""
    return pair_loop(name, scores, labels, sigma=sigma, weight=weight, cost=cost, allowed=allowed)[:2]


def moving(name, scores, labels, bound=0.01, weight=None, allowed=always, log=False):
    """Each document moved to its ideal place among those it is in pairs with; all others keep their places."""
    order = rank(scores)
    ranked = [labels[row] for row in order]
    grade = grades_of(name, ranked)
    gradient, sizes = np.zeros((2, len(scores)))
    now = VALUES[name](ranked) if len(ranked) > 1 else None
    for place, row in enumerate(order if now is not None else ()):
        # Every document is its own rival, unless it is in no pair at all.
        rivals = [p for p in range(len(order)) if not math.isnan(grade[p]) and allowed(row, order[p])]
        if place not in rivals:
            continue
        mine = rivals.index(place)
        ideal = sorted(rivals, key=lambda p: (-grade[p], p)).index(place)
        sequence = [*rivals[:mine], *rivals[mine + 1 :]]
        sequence.insert(ideal, place)
        moved = list(ranked)
        for to, source in zip(rivals, sequence, strict=True):
            moved[to] = ranked[source]
        factor = 1.0 if weight is None else weight[row]
        gradient[row] = factor * min(bound, abs(VALUES[name](moved) - now)) * np.sign(ideal - mine)
        sizes[row] = abs(gradient[row]) + factor * NOISE * abs(now)
    hessian = np.abs(gradient)
    return (log_factor(hessian.sum()) if log else 1.0) * np.array([gradient, hessian, sizes, sizes])


def reading(construction, name, scores, labels, cost=ranknet, sigma=1.0, **options):
    """What a construction means, by its name and with its defaults."""
    match construction:
        case "discrete_bounded":
            return moving(name, scores, labels, **options)
        case "local_gradient":
            return pair_loop(name, scores, labels, reach=1, cost=slope, **options)
        case "spring_smooth":
            return pair_loop(name, scores, labels, lambda d: max(d, 0.01), cost=cost, sigma=sigma, **options)
        case "local_cost":
            return pair_loop(name, scores, labels, reach=1, cost=cost, sigma=sigma, **options)
        case "ranknet_weight_pairs":
            return pair_loop(name, scores, labels, cost=cost, sigma=sigma, **options)
    raise ValueError(construction)


class Sums(NamedTuple):
    """One query's gradients and hessians, and what rounding may be compared with: the largest terms of their sums."""

    gradient: np.ndarray
    hessian: np.ndarray
    gradient_terms: float
    hessian_terms: float

    def scaled(self, factor):
        return Sums(*(factor * part for part in self))

    def __add__(self, other):
        return Sums(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))

    def shaped(self, normalize, step):
        """Divided by the standard deviation of the gradients, and with hessians of 1, where these say so."""
        gradient, hessian, terms, bends = self
        deviation = gradient.std() if normalize == "std" and len(gradient) else 0.0
        if deviation > 0:
            lost = terms / deviation  # whatever is lost in the gradients is lost in the deviation, too
            gradient, hessian, terms, bends = self.scaled(1 / deviation)
            terms *= 1 + np.abs(gradient).max()
            bends += hessian.max() * lost
            if not lost < 1e5:  # they cancel to nothing but their rounding: any direction at all
                terms = bends = math.inf
        if step == "gradient":
            hessian, bends = np.ones(len(gradient)), 1.0
        return Sums(gradient, hessian, terms, bends)


def revenue(labels):
    total = 0.0
    for slot in range(min(3, len(labels))):
        total += labels[slot]
    return total


def revenue_delta(labels, i, j):
    return labels[i] - labels[j] if i < 3 and j >= 3 else 0.0


def generated(queries=60, longest=14, seed=0, labels=5):
    """(scores, labels, group) of queries of all lengths, none among them, with equal scores."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, longest, queries)
    group[:3] = 0, 1, 2
    return rng.normal(size=group.sum()).round(1), rng.integers(0, labels, group.sum()).astype(float), group
