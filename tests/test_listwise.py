"""Losses of a list: against the loss in plain Python by central differences, in both hosts, and calibration."""

import dataclasses
import math

import lightgbm as lgb
import matplotlib
import numpy as np
import pytest
import xgboost as xgb

import lambdaplug as lp
from lambdaplug.queries import Queries

matplotlib.use("Agg")


def log_sum(values):
    top = max(values)
    return top + math.log(sum(math.exp(v - top) for v in values))


def query_rmse(s, y, w):
    m = sum(a * (b - c) for a, b, c in zip(w, s, y, strict=True)) / sum(w)
    return 0.5 * sum(a * (b - c - m) ** 2 for a, b, c in zip(w, s, y, strict=True))


def cross_entropy(s, t, w):
    return -sum(a * b * (c - log_sum(s)) for a, b, c in zip(w, t, s, strict=True))


def softmax(s, y, w):
    return cross_entropy(s, [math.exp(v - log_sum(y)) for v in y], w)


def shares(s, y, w):
    return cross_entropy(s, [v / sum(y) for v in y], w) if sum(y) else 0.0


def list_mle(s, y, w, k=None):
    total = 0.0
    for i in range(len(s)):
        above, equal = sum(v > y[i] for v in y), sum(v == y[i] for v in y)
        share = 1.0 if k is None else min(max(k - above, 0), equal) / equal
        total -= share * w[i] * (s[i] - log_sum([s[j] for j in range(len(s)) if y[j] <= y[i]]))
    return total


def calibrated(s, y, w, weight, top=1.0):
    y = [v / top for v in y]
    logs = [-math.log1p(math.exp(-v)) if v > -30 else v for v in s]  # log q
    pointwise = sum(a * ((1 - b) * v - c) for a, b, v, c in zip(w, y, s, logs, strict=True))
    total = sum(a * b for a, b in zip(w, y, strict=True))
    if not total:
        return (1 - weight) * pointwise
    level = log_sum([math.log(a) + c for a, c in zip(w, logs, strict=True)])
    listed = -sum(a * b * (c - level) for a, b, c in zip(w, y, logs, strict=True)) / total
    return (1 - weight) * pointwise + weight * listed


LOSSES = {
    "rmse": (lp.QueryRMSE(), query_rmse),
    "softmax": (lp.QuerySoftmax(), softmax),
    "share": (lp.QuerySoftmax("share"), shares),
    "mle": (lp.ListMLE(), list_mle),
    "mle@2": (lp.ListMLE(k=2), lambda *query: list_mle(*query, k=2)),
    "calibrated": (lp.Calibrated(max_label=3), lambda *query: calibrated(*query, 0.5, 3)),
    "list part": (lp.Calibrated(1.0, max_label=3), lambda *query: calibrated(*query, 1.0, 3)),
    "log loss": (lp.Calibrated(0.0, max_label=3), lambda *query: calibrated(*query, 0.0, 3)),
}
EXACT = ["softmax", "share", "mle", "mle@2", "log loss"]  # whose hessian is the second derivative


def queries_of(seed):
    rng = np.random.default_rng(seed)
    group = np.array([1, 2, 0, 5, 8, 3])
    rows = int(group.sum())
    return rng.normal(size=rows) * 2, rng.integers(0, 4, rows).astype(float), group, rng.random(rows) + 0.5


def split(group, *arrays):
    return zip(*(np.split(np.asarray(array), np.cumsum(group)[:-1]) for array in arrays), strict=True)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("weighted", [False, True])
def test_gradients_are_the_losses_own(name, weighted):
    objective, loss = LOSSES[name]
    scores, labels, group, weight = queries_of(3)
    found = Queries.weighted(labels, group, weight if weighted else None)
    gradient, hessian = objective.differentiate(found, scores, dtype=np.float64)
    assert (hessian > 0).all()
    for s, y, w, g, h in split(group, scores, labels, weight if weighted else np.ones(len(labels)), gradient, hessian):
        for i in range(len(s)):
            at = [loss((s + d * (np.arange(len(s)) == i)).tolist(), y.tolist(), w.tolist()) for d in (-1e-3, 0, 1e-3)]
            assert g[i] == pytest.approx((at[2] - at[0]) / 2e-3, rel=1e-5, abs=1e-6)
            second = (at[2] - 2 * at[1] + at[0]) / 1e-6
            assert h[i] >= second - 1e-4
            if name in EXACT:
                assert h[i] == pytest.approx(second, rel=1e-3, abs=1e-4)


@pytest.mark.parametrize("name", LOSSES)
def test_levels_and_rows_without_a_label(name):
    objective, _ = LOSSES[name]
    scores, labels, group, _ = queries_of(5)
    plain = objective.gradients(labels, scores, group)[0]
    if name not in ("calibrated", "log loss", "list part"):  # whose level matters
        np.testing.assert_allclose(objective.gradients(labels, scores + 3.0, group)[0], plain, atol=1e-5)
        for query in np.split(plain, np.cumsum(group)[:-1]):
            assert abs(query.sum()) < 1e-5
    # A row without a label is as no row.
    source = labels.copy()
    source[[4, 9]] = np.nan
    elsewhere = dataclasses.replace(objective, labels="other")
    found = elsewhere.gradients(np.zeros(len(labels)), scores, group, columns={"other": source})
    kept = ~np.isnan(source)
    sizes = [int(part.sum()) for part in np.split(kept, np.cumsum(group)[:-1])]
    expected = objective.gradients(labels[kept], scores[kept], sizes)
    np.testing.assert_allclose(np.array(found)[:, kept], expected, rtol=1e-6, atol=1e-7)
    assert not found[0][~kept].any()


@pytest.mark.parametrize("name", LOSSES)
def test_scores_far_apart_lose_nothing(name):
    objective, _ = LOSSES[name]
    # Plackett-Luce terms deep in the list depend on documents far below the best: exp(-900) is 0.
    scores, labels = np.array([900.0, 0.0, -900.0, -901.0]), np.array([3.0, 2.0, 1.0, 0.0])
    gradient, hessian = objective.differentiate(Queries(labels, [4]), scores, dtype=np.float64)
    assert np.isfinite(gradient).all()
    assert (hessian > 0).all()
    if name == "mle":
        p = 1 / (1 + math.e)
        np.testing.assert_allclose(gradient, [0.0, 0.0, -p, p], rtol=1e-12)
    low = np.array([-800.0, -801.0, -802.0])  # every probability underflows
    slope = objective.differentiate(Queries([3.0, 0.0, 1.0], [3]), low, dtype=np.float64)[0]
    near = objective.differentiate(Queries([3.0, 0.0, 1.0], [3]), low + 780.0, dtype=np.float64)[0]
    np.testing.assert_allclose(slope, near, rtol=1e-6, atol=1e-8)


def test_equal_labels_have_no_order_in_list_mle():
    scores, labels = np.array([0.3, -0.2, 1.0, 0.1]), np.array([1.0, 2.0, 1.0, 0.0])
    turned = [2, 1, 3, 0]
    for k in (None, 1, 2, 3):
        gradient = lp.ListMLE(k).gradients(labels, scores, [4])[0]
        np.testing.assert_allclose(lp.ListMLE(k).gradients(labels[turned], scores[turned], [4])[0], gradient[turned])


def test_the_weight_of_calibrated_may_follow_a_schedule():
    scores, labels, group, _ = queries_of(0)
    moving = lp.Calibrated(lp.linear(0.0, 0.1), max_label=3)
    assert not moving.constant
    assert repr(moving) == "Calibrated(weight=linear(start=0, rate=0.1), max_label=3)"
    for iteration in (0, 4):
        fixed = lp.Calibrated(0.1 * iteration, max_label=3).gradients(labels, scores, group)
        np.testing.assert_array_equal(moving.gradients(labels, scores, group, iteration=iteration), fixed)
    with pytest.raises(lp.LambdaplugError, match=r"weight is 2 at iteration 2; it must lie in \[0, 1\]"):
        lp.Calibrated(lambda m: m).gradients([0, 1], [0.0, 1.0], [2], iteration=2)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: lp.ListMLE(k=0), "k: expected an integer from 1 to 2147483647, or None for the whole list, got 0"),
        (lambda: lp.QuerySoftmax("labels"), "target: expected 'softmax' or 'share', got 'labels'"),
        (lambda: lp.Calibrated(1.5).gradients([0, 1], [0.0, 1.0], [2]), "weight is 1.5 at iteration 0; it must lie"),
        (lambda: lp.Calibrated(-1), "weight: expected a finite number >= 0"),
        (lambda: lp.Calibrated(lp.on_plateau("ndcg")), "weight: lp.on_plateau moves a mixture's weights"),
        (lambda: lp.Calibrated(max_label=0), "max_label: expected a positive number, got 0"),
        (
            lambda: lp.Calibrated().gradients([0, 4], [0.0, 1.0], [2]),
            "expected labels from 0 to 1, got 0 to 4. A label is a probability: for grades 0 to 4, give max_label=4",
        ),
        (
            lambda: lp.QuerySoftmax("share").gradients([-1, 4], [0.0, 1.0], [2]),
            "shares need labels >= 0, got -1",
        ),
        (lambda: lp.analysis.calibration([0, 2], [0.0, 1.0]), "labels from 0 to 2. For grades 0 to 4 give max_label=4"),
        (
            lambda: lp.analysis.calibration([0, 1], [0.0]),
            "expected one label, score and weight per row, got 2, 1 and 2",
        ),
        (lambda: lp.analysis.calibration([0, 1], [0.0, 1.0], 0), "bins: expected an integer >= 1"),
        (lambda: lp.analysis.calibration([0, 1], [0.0, 1.0], weight=[0, 0]), "weight: expected finite numbers"),
    ],
)
def test_what_makes_no_sense_is_refused(make, message):
    with pytest.raises(lp.LambdaplugError, match=message):
        make()


DATA = lp.data.cubic(queries=60, documents=15, features=6, noise=0.3)


def predictions(host, objective, labels):
    if host == "lightgbm":
        parameters = {"objective": objective, "verbose": -1, "num_threads": 1, "num_leaves": 7}
        return lgb.train(parameters, lgb.Dataset(DATA.X, labels, group=DATA.group), 40).predict(DATA.X)
    data, parameters = xgb.DMatrix(DATA.X, labels, qid=DATA.qid), {"nthread": 1, "max_depth": 3}
    return xgb.train(parameters, data, 40, obj=objective).predict(data, output_margin=True)


@pytest.mark.parametrize("host", ["lightgbm", "xgboost"])
def test_calibrated_scores_are_probabilities_and_those_of_other_objectives_are_not(host):
    labels = (DATA.labels >= 2).astype(float)
    mine = lp.analysis.calibration(labels, predictions(host, lp.Calibrated(), labels))
    theirs = lp.analysis.calibration(labels, predictions(host, lp.QuerySoftmax(), labels))
    base = -np.mean(labels * np.log(labels.mean()) + (1 - labels) * np.log(1 - labels.mean()))
    assert mine.ece < 0.15 < theirs.ece
    assert mine.logloss < base < theirs.logloss


def test_calibration_by_hand():
    rng = np.random.default_rng(0)
    scores, labels, weight = rng.normal(size=500) * 2, rng.integers(0, 3, 500), rng.random(500)
    found = lp.analysis.calibration(labels, scores, bins=4, max_label=2, weight=weight)
    q, y = 1 / (1 + np.exp(-scores)), labels / 2
    assert found.logloss == pytest.approx(np.average(-y * np.log(q) - (1 - y) * np.log(1 - q), weights=weight))
    ece = 0.0
    for bin, (low, high) in enumerate([(0.0, 0.25), (0.25, 0.5), (0.5, 0.75), (0.75, 1.0)]):
        rows = (q >= low) & (q < high)
        assert found.counts[bin] == pytest.approx(weight[rows].sum())
        assert found.predicted[bin] == pytest.approx(np.average(q[rows], weights=weight[rows]))
        assert found.observed[bin] == pytest.approx(np.average(y[rows], weights=weight[rows]))
        ece += weight[rows].sum() / weight.sum() * abs(found.predicted[bin] - found.observed[bin])
    assert found.ece == pytest.approx(ece)
    few = lp.analysis.calibration([0, 1], [-1000.0, 1000.0], bins=5)
    assert few.logloss == few.ece == 0.0
    assert np.isnan(few.predicted[1:-1]).all()
    assert few.plot().get_xlabel() == "predicted probability"
    assert "logloss 0.0000, ece 0.0000 over 2 rows" in repr(few)
