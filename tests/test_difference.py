"""What changed from one objective to another."""

import matplotlib
import numpy as np
import oracle
import pytest

import lambdaplug as lp
from lambdaplug.analysis.difference import pair_forces
from lambdaplug.queries import Queries

matplotlib.use("Agg")
RANDOM = np.random.default_rng(0)
GROUP = [12, 1, 9, 15]
LABELS = RANDOM.integers(0, 5, sum(GROUP)).astype(float)
SCORES = RANDOM.normal(size=sum(GROUP))
CLICKS = RANDOM.choice([0.0, 0.5, 1.0], sum(GROUP))
QUERIES = Queries(LABELS, GROUP)


def test_the_numbers_are_those_of_the_two_gradients():
    a, b = lp.LambdaRank("ndcg"), lp.LambdaRank("map@3", sigma=2.0)
    report = lp.analysis.explain_difference(a, b, LABELS, SCORES, GROUP)
    first, second = (objective.gradients(LABELS, SCORES, GROUP) for objective in (a, b))
    np.testing.assert_allclose(report.gradient_a, first[0], atol=1e-6)
    assert report.correlation == pytest.approx(np.corrcoef(first[0], second[0])[0, 1], abs=1e-5)
    assert report.scale == pytest.approx(np.sqrt(np.sum(second[0] ** 2) / np.sum(first[0] ** 2)), rel=1e-5)
    assert report.hessian_scale == pytest.approx(second[1].sum() / first[1].sum(), rel=1e-5)
    np.testing.assert_allclose(report.difference, second[0] / report.scale - first[0], atol=1e-6)
    both = (first[0] != 0) & (second[0] != 0)
    assert report.flips == pytest.approx(np.mean(np.sign(first[0][both]) != np.sign(second[0][both])))
    squares = np.add.reduceat(report.difference**2, np.cumsum([0, *GROUP[:-1]]))
    np.testing.assert_allclose(report.query_share, squares / squares.sum(), rtol=1e-6)
    assert report.worst == np.argmax(squares)
    assert np.isnan(report.query_correlation[1])  # one document: nothing is pushed
    np.testing.assert_allclose(np.nansum(report.query_flips < 0), 0)


def test_the_pairs_are_those_that_changed_most():
    a, b = lp.LambdaRank("ndcg"), lp.LambdaRank("map")
    report = lp.analysis.explain_difference(a, b, LABELS, SCORES, GROUP, pairs=3)
    rows = slice(*QUERIES.offsets[report.worst : report.worst + 2].tolist())
    scores, labels = SCORES[rows].tolist(), LABELS[rows].tolist()
    changes = {}
    for i in range(len(scores)):
        for j in range(i):
            pulls = [
                oracle.gradients(name, scores, labels, allowed=lambda x, y, i=i, j=j: {x, y} == {i, j})[0]
                for name in ("ndcg", "map")
            ]
            upper, lower = (i, j) if (-scores[i], i) < (-scores[j], j) else (j, i)
            changes[rows.start + upper, rows.start + lower] = -pulls[0][upper], -pulls[1][upper] / report.scale
    total = sum(abs(x - y) for x, y in changes.values())
    expected = sorted(changes.items(), key=lambda item: -abs(item[1][0] - item[1][1]))[:3]
    assert len(report.pairs) == 3
    for pair, ((upper, lower), (x, y)) in zip(report.pairs, expected, strict=True):
        assert (pair.upper, pair.lower) == (upper, lower)
        assert (pair.force_a, pair.force_b) == pytest.approx((x, y), rel=1e-6)
        assert pair.share == pytest.approx(abs(x - y) / total, rel=1e-6)
        assert pair.labels == (LABELS[upper], LABELS[lower])
        assert pair.ranks[0] < pair.ranks[1]


@pytest.mark.parametrize(
    "objective",
    [
        lp.LambdaRank("err@5", normalize="log", cost=lp.RankNet(distance=0.01)),
        lp.LambdaRank("ndcg", step="gradient"),
        lp.presets.lightgbm(5),
        lp.presets.xgboost("ndcg"),
        lp.presets.xgboost("pairwise", "mean", 2),
        lp.Mixture([(0.3, lp.LambdaRank("map", step="gradient")), (0.7, lp.presets.lightgbm())], step="gradient"),
        lp.Graded([lp.LambdaRank("ndcg"), lp.LambdaRank("cndcg", labels=CLICKS, ignore_zero=True)], weights=[0.6, 0.4]),
    ],
    ids=repr,
)
def test_pair_forces_add_up_to_the_gradient(objective):
    weight = RANDOM.uniform(0.5, 2.0, len(GROUP))
    for queries in (QUERIES, Queries(LABELS, GROUP, query_weight=weight)):
        whole = objective.differentiate(queries, SCORES, 4, exact=True, dtype=np.float64)[0]
        for query in (0, 2):
            rows = slice(*queries.offsets[query : query + 2].tolist())
            forces = pair_forces(objective, queries, query, SCORES, 4)
            np.testing.assert_allclose(forces.sum(axis=1), whole[rows], rtol=1e-4, atol=1e-4 * np.abs(whole).max())
            np.testing.assert_allclose(forces, -forces.T, atol=1e-9 * np.abs(whole).max())


def test_it_prints_and_plots(tmp_path):
    report = lp.analysis.explain_difference(lp.presets.lightgbm(), lp.LambdaRank("map"), LABELS, SCORES, GROUP)
    text = str(report)
    for part in (
        "a  presets.lightgbm()",
        "b  LambdaRank('map')",
        "4 queries, 37 documents",
        "sign flips",
        "differs most",
    ):
        assert part in text
    assert len(text.splitlines()) == 12 + 5
    assert max(map(len, text.splitlines())) <= 80
    axes = report.plot()
    axes[0].figure.savefig(tmp_path / "plot.png")
    assert (tmp_path / "plot.png").stat().st_size > 5000


def test_where_there_is_nothing_to_explain():
    same = lp.analysis.explain_difference(lp.LambdaRank("ndcg"), lp.LambdaRank("ndcg"), LABELS, SCORES, GROUP)
    assert "No difference but the scale" in str(same)
    assert same.flips == 0
    assert same.plot() is not None
    silent = lp.analysis.explain_difference(
        lp.LambdaRank("ndcg"), lp.LambdaRank("map"), labels=[0, 0], scores=[1, 2], group=[2]
    )
    assert np.isnan(silent.correlation)
    assert silent.pairs is None
    smooth = lp.analysis.explain_difference(lp.LambdaRank("ndcg"), lp.Approx("ndcg"), LABELS, SCORES, GROUP)
    assert "pairs are not known" in str(smooth)
    with pytest.raises(lp.LambdaplugError, match="explain_difference: expected an objective such as"):
        lp.analysis.explain_difference("ndcg", lp.LambdaRank("map"), LABELS, SCORES, GROUP)
