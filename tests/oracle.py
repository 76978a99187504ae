"""Every measure and the lambda gradient once more, in plain Python, slowly: what the package is compared with."""

import math

import numpy as np


def rank(scores):
    """Rows by descending score, equal scores in row order."""
    return sorted(range(len(scores)), key=lambda row: (-scores[row], row))


def dcg(gains, discounts):
    return sum(g * d for g, d in zip(gains, discounts, strict=False))


def log_discounts(n, k=None):
    return [1 / math.log2(1 + r) if k is None or r <= k else 0.0 for r in range(1, n + 1)]


def ndcg(labels, k=None, gain=lambda label: 2**label - 1, discounts=None):
    discounts = log_discounts(len(labels), k) if discounts is None else discounts
    gains = [gain(label) for label in labels]
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
    for r, label in enumerate(labels, 1):
        p = (2**label - 1) / 2**max_label
        total += looking * p / r if k is None or r <= k else 0.0
        looking *= 1 - p
    return total


def pairwise_correct(labels):
    pairs = [(a, b) for i, a in enumerate(labels) for b in labels[i + 1 :] if a != b]
    return sum(a > b for a, b in pairs) / len(pairs) if pairs else None


def bpref(labels, relevant=1):
    is_relevant = [label >= relevant for label in labels]
    total, others = sum(is_relevant), len(labels) - sum(is_relevant)
    if not total or not others:
        return None
    terms = [
        1 - min(sum(not x for x in is_relevant[:i]), total) / min(total, others)
        for i, found in enumerate(is_relevant)
        if found
    ]
    return sum(terms) / total


def rank_biased_precision(labels, p=0.8, max_label=4):
    return (1 - p) * sum((2**label - 1) / (2**max_label - 1) * p**r for r, label in enumerate(labels))


# Each measure by its text: the value of ranked labels 0..4 (a data set whose largest label is 4), None = undefined.
VALUES = {
    "ndcg": ndcg,
    "ndcg@3": lambda x: ndcg(x, 3),
    "ndcg@4(gain='linear')": lambda x: ndcg(x, 4, gain=float),
    "ndcg(gain=(0.0,1.0,3.0,5.0,6.0))": lambda x: ndcg(x, gain=lambda label: [0, 1, 3, 5, 6][int(label)]),
    "ndcg(discount=(1.0,0.5,0.5,0.1))": lambda x: ndcg(x, discounts=[1, 0.5, 0.5, 0.1]),
    "meanndcg": mean_ndcg,
    "meanndcg@3": lambda x: mean_ndcg(x, 3),
    "dcg@5": lambda x: dcg([2**label - 1 for label in x], log_discounts(len(x), 5)),
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
}


def scaled(name, labels):
    """Labels 0..4 as the measure takes them: click scores lie in [0, 1]."""
    return [label / 4 for label in labels] if name.startswith("cndcg") else labels


def swap_delta(name, labels, a, b):
    """|M after exchanging ranks a and b - M|, by doing it."""
    if name == "pairs":  # turning one pair's order round, all other pairs in place
        different = sum(x != y for i, x in enumerate(labels) for y in labels[i + 1 :])
        return 1 / different if labels[a] != labels[b] else 0.0
    swapped = list(labels)
    swapped[a], swapped[b] = swapped[b], swapped[a]
    before, after = VALUES[name](labels), VALUES[name](swapped)
    return 0.0 if before is None else abs(after - before)


def ranknet(margin):
    rho = math.exp(-margin) / (1 + math.exp(-margin)) if margin > 0 else 1 / (1 + math.exp(margin))
    return rho, rho * (1 - rho)


def gradients(name, scores, labels, sigma=1.0, weight=None, cost=ranknet, allowed=lambda _i, _j: True):
    """The pair loop of the lambda gradient over one query; ``allowed`` says which pairs count."""
    n = len(scores)
    order = rank(scores)
    ranked = [labels[row] for row in order]
    weight = [1.0] * n if weight is None else weight
    gradient, hessian = np.zeros(n), np.zeros(n)
    for a in range(n):
        for b in range(n):
            i, j = order[a], order[b]
            if ranked[a] > ranked[b] and allowed(i, j):
                size = swap_delta(name, ranked, min(a, b), max(a, b)) * weight[i] * weight[j]
                force, bend = cost(sigma * (scores[i] - scores[j]))
                gradient[i] -= sigma * size * force
                gradient[j] += sigma * size * force
                hessian[i] += sigma**2 * size * bend
                hessian[j] += sigma**2 * size * bend
    return gradient, hessian
