"""Comparisons of systems: against scipy and brute force; the leaderboard's text."""

import inspect
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import lambdaplug as lp
from lambdaplug.comparison import _randomization, holm

# What SciPy calls it from 1.15 on, and what before.
SEED = "rng" if "rng" in inspect.signature(stats.permutation_test).parameters else "random_state"


@pytest.fixture(scope="module")
def contest():
    rng = np.random.default_rng(0)
    group = rng.integers(0, 30, 200)
    labels = rng.integers(0, 5, group.sum()) * (rng.random(group.sum()) < 0.3)
    a = labels + rng.normal(size=len(labels)) * 3
    return labels, group, a, a + rng.normal(size=len(labels)), labels + rng.normal(size=len(labels))


@pytest.mark.parametrize("measure", ["ndcg@10", "map(relevant=2)", "p@3"])
def test_two_systems_as_scipy_compares_them(contest, measure):
    labels, group, a, b, _ = contest
    found = lp.compare(measure, labels, a, b, group, level=0.9)
    x, y = (lp.evaluate(measure, labels, s, group, per_query=True)[measure] for s in (a, b))
    undefined = np.isnan(x)
    assert found.undefined == undefined.sum() > 0
    x, y = x[~undefined], y[~undefined]
    expected = stats.ttest_1samp(y - x, 0.0)
    assert (found.mean_a, found.mean_b) == (pytest.approx(x.mean()), pytest.approx(y.mean()))
    assert found.difference == pytest.approx(y.mean() - x.mean())
    assert found.p_t == found.p_t_holm == pytest.approx(expected.pvalue)
    assert found.interval == pytest.approx(tuple(expected.confidence_interval(0.9)))
    assert (found.wins, found.losses) == ((y > x + 1e-12).sum(), (y < x - 1e-12).sum())
    assert found.queries == len(x)
    flipped = stats.permutation_test(
        (y, x),
        lambda y, x, axis: np.round(np.mean(y - x, axis=axis), 12),
        permutation_type="samples",
        vectorized=True,
        **{SEED: np.random.default_rng(2)},
    )
    assert found.p_randomization == pytest.approx(flipped.pvalue, abs=0.02)
    again = lp.compare(measure, labels, b, a, group, level=0.9)
    assert (again.difference, again.wins) == (pytest.approx(-found.difference), found.losses)
    assert found == lp.compare(measure, labels, a, b, group, level=0.9)
    assert found.p_randomization != lp.compare(measure, labels, a, b, group, seed=1).p_randomization


@settings(max_examples=40, deadline=None)
@given(d=st.lists(st.integers(-4, 4).filter(bool), min_size=1, max_size=9))
def test_few_queries_try_every_sign(d):
    sums = [abs(np.dot(signs, d)) for signs in itertools.product((-1, 1), repeat=len(d))]
    expected = np.mean([s >= abs(sum(d)) for s in sums])
    assert _randomization(np.array(d, dtype=float) / 7, 100, 0) == pytest.approx(expected)


def test_many_queries_draw_signs():
    rng = np.random.default_rng(1)
    d = rng.normal(0.15, 1, 100)
    signs = rng.choice([-1.0, 1.0], size=(20_000, 100))
    expected = np.mean(np.abs(signs @ d) >= abs(d.sum()))
    assert _randomization(d, 20_000, 0) == pytest.approx(expected, abs=0.02)
    assert _randomization(d + 5, 999, 0) == 1 / 1000  # no draw is as large


def test_nothing_to_tell_apart():
    same = lp.compare("ndcg", [1, 0, 1, 0], [1, 2, 1, 2], [1, 2, 1, 2], [2, 2])
    assert (same.difference, same.interval, same.p_t, same.p_randomization) == (0, (0, 0), 1, 1)
    assert (same.wins, same.ties, same.losses) == (0, 2, 0)
    always = lp.compare("mrr", [1, 0, 1, 0], [1, 2, 1, 2], [2, 1, 2, 1], [2, 2])
    assert (always.difference, always.p_t, always.p_randomization) == (0.5, 0, 0.5)
    one = lp.compare("mrr", [1, 0], [1, 2], [2, 1], [2])
    assert np.isnan([one.p_t, *one.interval]).all()
    assert one.p_randomization == 1
    none = lp.compare("mrr", [0, 0], [1, 2], [2, 1], [2])
    assert none.undefined == 1
    assert np.isnan([none.mean_a, none.difference, none.p_t, none.p_randomization]).all()
    kept = lp.compare("mrr", [0, 0], [1, 2], [2, 1], [2], empty=0)
    assert (kept.mean_a, kept.queries) == (0, 1)
    for wrong in ({"level": 95}, {"draws": 0}):
        with pytest.raises(lp.LambdaplugError, match="expected a"):
            lp.compare("mrr", [0, 0], [1, 2], [2, 1], [2], **wrong)


def test_several_systems_against_a_baseline(contest):
    labels, group, a, b, c = contest
    found = lp.compare("ndcg@10", labels, a, {"noisy": b, "good": c}, group, names=["old"])
    alone = lp.compare("ndcg@10", labels, a, b, group)
    assert list(found) == ["noisy", "good"]
    assert found["noisy"].p_t == alone.p_t
    assert [part.p_t_holm for part in found.values()] == holm([part.p_t for part in found.values()])
    assert found["noisy"].names == ("old", "noisy")
    lines = str(found).splitlines()
    assert len(lines) == 5
    assert "Holm" in lines[0]
    assert lines[2].startswith("old (baseline)")
    assert "< 0.0001" in lines[4]
    with pytest.raises(lp.LambdaplugError, match="at least one system"):
        lp.compare("ndcg@10", labels, a, {}, group)


def test_the_leaderboard_by_traffic(contest):
    labels, group, a, b, c = contest
    traffic = np.random.default_rng(0).integers(0, 9, len(group))
    board = lp.leaderboard({"old": a, "noisy": b, "good": c}, "map", labels, group, baseline="old", weight=traffic)
    pairs = lp.compare("map", labels, a, {"noisy": b, "good": c}, group, weight=traffic)
    assert board.means["map"]["old"] == lp.evaluate("map", labels, a, group, weight=traffic)["map"]
    assert board.p_value("map", "noisy") == pairs["noisy"].p_t_holm
    with pytest.raises(lp.LambdaplugError, match="weight: expected one value per query"):
        lp.leaderboard({"old": a}, "map", labels, group, weight=[1.0])


def test_the_leaderboard(contest):
    pd = pytest.importorskip("pandas")
    labels, group, a, b, c = contest
    systems = {"old": a, "noisy": b, "good|best": c}
    measures = ["ndcg@10", "map"]
    board = lp.leaderboard(systems, measures, labels, group, baseline="old")
    means = {name: lp.evaluate(measures, labels, scores, group) for name, scores in systems.items()}
    pd.testing.assert_frame_equal(board.frame(), pd.DataFrame(means).T)
    pairs = lp.compare("map", labels, a, {"noisy": b, "good|best": c}, group)
    p_values = board.frame(p_values=True)
    assert p_values.loc["noisy", "map"] == pairs["noisy"].p_t_holm
    assert np.isnan(p_values.loc["old", "map"])
    best = f"{means['good|best']['map']:.4f}"
    assert f"{best}*†" in board.text.splitlines()[3]
    assert str(board) == repr(board) == board.text
    markdown = board.markdown().splitlines()
    assert markdown[:2] == ["|  | ndcg@10 | map |", "| --- | ---: | ---: |"]
    assert markdown[4].startswith("| good\\|best | **")
    assert markdown[4].endswith(f"**{best}**† |")
    assert markdown[6].startswith("† differs from old (paired t-test")

    against_best = lp.leaderboard(systems, measures, labels, group, test="randomization")
    assert set(against_best.comparisons["map"]) == {"old", "noisy"}
    assert against_best.differs("map", "old")
    assert not against_best.differs("map", "good|best")
    assert "from the best of its column (paired randomisation test" in against_best.text
    with pytest.raises(lp.LambdaplugError, match=r"baseline: expected 'old', 'noisy' or 'good\|best', got 'older'"):
        lp.leaderboard(systems, measures, labels, group, baseline="older")
    with pytest.raises(lp.LambdaplugError, match="scores or models by name first"):
        lp.leaderboard({}, measures, labels, group)
    with pytest.raises(lp.LambdaplugError, match="test: expected 't' or 'randomization', got 'z'"):
        lp.leaderboard(systems, measures, labels, group, test="z")


def test_what_was_typed_in_another_order_is_told_the_right_one():
    rng = np.random.default_rng(0)
    scores, labels, group = rng.normal(size=40), rng.integers(0, 2, 40), [20, 20]
    for call in (
        lambda: lp.evaluate("map", scores, labels, group),
        lambda: lp.compare("map", scores, labels, labels, group),
        lambda: lp.leaderboard({"a": labels}, "map", scores, group),
    ):
        with pytest.raises(lp.LambdaplugError, match=r"expected labels, then scores.* changed places"):
            call()
    with pytest.raises(lp.LambdaplugError, match=r"expected scores or models by name first.*lp\.leaderboard\(\{"):
        lp.leaderboard(["map"], labels, {"a": scores}, group)
    for measure in (lp.metric("map"), lp.objective("map"), lp.MAP):
        with pytest.raises(lp.LambdaplugError, match="expected a measure or its name"):
            lp.evaluate(measure, labels, scores, group)
    with pytest.raises(lp.LambdaplugError, match="names: expected two, of a and b"):
        lp.compare("map", labels, scores, scores, group, names=["a"])
    with pytest.raises(lp.LambdaplugError, match=r"expected one measure, got 2.*lp\.leaderboard"):
        lp.compare(["map", "mrr"], labels, scores, scores, group)
