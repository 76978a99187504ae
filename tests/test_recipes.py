"""What the recipes share: verdicts on claims, trainings done once, and the page made of them."""

import json
import shutil
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import recipe_process
from scipy import stats

RECIPES = Path(__file__).parent.parent / "recipes"


@pytest.fixture
def common(monkeypatch):
    monkeypatch.syspath_prepend(str(RECIPES))
    import common

    return common


def differences(mean, queries=400, spread=0.1):
    """Exactly this mean and this standard deviation."""
    values = np.random.default_rng(0).normal(size=queries)
    values = (values - values.mean()) / values.std(ddof=1)
    return [mean + spread * values]


# 400 queries and a deviation of 10 points: intervals of about +-0.98 points.
@pytest.mark.parametrize(
    ("given", "mean", "verdict"),
    [
        ({"effect": 2.0}, 0.015, "confirmed"),
        ({"effect": 2.0}, 0.005, "refuted"),
        ({"effect": 2.0}, -0.05, "refuted"),
        ({"effect": 1.2}, 0.005, "undecided"),
        ({"effect": 0.0, "least": -1.5}, -0.002, "confirmed"),
        ({"effect": 0.0, "least": -1.5}, -0.02, "refuted"),
        ({"effect": 0.0, "least": -0.5}, 0.0, "undecided"),
        ({}, -0.02, "refuted"),
        ({}, 0.0, "undecided"),
        ({"queries": 100}, 0.0, "refuted"),  # with 100 queries 1.96 points are the least that is significant
        ({"queries": 10_000}, 0.0, "undecided"),
    ],
)
def test_a_claim_is_confirmed_refuted_or_undecided(common, given, mean, verdict):
    found = common.Claim("paper", "claim", **given).decide(differences(mean))
    assert found["verdict"] == verdict
    assert found["here"] == pytest.approx(100 * mean, abs=1e-9)
    assert found["high"] - found["low"] == pytest.approx(2 * 0.983, abs=1e-3)


def test_a_claim_without_a_number_has_a_power_too(common):
    # As much as five weights would have shown, by Student's t; but it claimed no such effect, which would be refuted here.
    claim = common.Claim("paper", "claim", queries=5, said="yes")
    found = claim.decide(differences(0.0, 20))
    assert found["there"] == "yes (at least +12.42)"
    assert (found["verdict"], found["power"] > 0.99) == ("undecided", True)
    assert claim.decide(differences(-0.1, 20))["verdict"] == "refuted"


def test_data_sets_that_contradict_each_other_are_the_sample(common):
    claim = common.Claim("paper", "claim", effect=1.5)
    found = claim.decide([differences(mean)[0] for mean in (0.03, -0.02, 0.03, -0.01)])
    assert (found["over"], found["tested"], found["verdict"]) == ("data sets", 4, "undecided")
    assert found["spread"] == pytest.approx(np.std([3, -2, 3, -1], ddof=1))
    agreed = claim.decide([differences(mean)[0] for mean in (0.03, 0.02, 0.03, 0.01)])
    assert (agreed["over"], agreed["tested"], agreed["verdict"]) == ("queries", 1600, "confirmed")
    # Beside it the interval with the data sets as the sample, which is that of a t-test of their means.
    low, high, verdict = agreed["stricter"]
    expected = stats.ttest_1samp([3, 2, 3, 1], 0).confidence_interval(0.95)
    assert (low, high) == pytest.approx(tuple(expected), abs=1e-4)
    assert verdict == "confirmed"
    assert common.between([np.full(5, 0.01 * mean) for mean in (3, 2, 3, 1)]) == pytest.approx(
        (0.0225, (expected.high - expected.low) / 200)
    )


def test_the_power_is_that_of_simulated_studies_and_undefined_queries_do_not_count(common):
    claim = common.Claim("paper", "claim", effect=1.0)
    decided = claim.decide([np.append(differences(0.01)[0], np.nan)])
    assert decided["tested"] == 400
    drawn = np.random.default_rng(1).normal(0.01, 0.1, (2000, 400))
    share = np.mean([claim.decide([one])["verdict"] == "confirmed" for one in drawn])
    assert decided["power"] == pytest.approx(share, abs=0.03)
    assert claim.decide(differences(0.01, decided["needed"]))["power"] == pytest.approx(0.8, abs=0.005)


@pytest.mark.parametrize(
    ("improving", "noticed", "verdict"),
    [([0], 1.0, "confirmed"), ([0], 0.1, "undecided"), ([3], 1.0, "undecided"), ([40], 1.0, "refuted")],
)
def test_a_certificate_needs_directions_that_would_be_noticed(common, improving, noticed, verdict):
    found = common.Claim("paper", "claim", unit="% of directions").count(improving, 459, noticed)
    assert found["verdict"] == verdict
    assert found["power"] == pytest.approx(1 - (1 - 0.01 * noticed) ** 459)


@pytest.mark.parametrize(
    ("improving", "noticed", "verdict", "over", "tested"),
    [
        ([3, 2, 1, 0], 1.0, "confirmed", "directions", 1836),  # 0.33 %, at most 0.71 %
        ([3, 2, 1, 0], 0.5, "undecided", "directions", 1836),  # of 1 % no more than these would be noticed
        ([3, 5, 4, 0], 1.0, "undecided", "directions", 1836),
        ([10, 10, 10], 1.0, "refuted", "directions", 1377),
        ([40, 0, 0], 1.0, "undecided", "data sets", 3),  # the first alone refutes it, the others confirm it
    ],
)
def test_certificates_of_several_data_sets_are_counted_together(common, improving, noticed, verdict, over, tested):
    found = common.Claim("paper", "claim", unit="% of directions").count(improving, 459, noticed)
    assert (found["verdict"], found["over"], found["tested"]) == (verdict, over, tested)
    assert found["here"] == pytest.approx(100 * sum(improving) / (459 * len(improving)))
    if over == "directions":  # the power is that of simulated studies: so often 1 % of directions is not taken for less
        drawn = np.random.default_rng(0).binomial(459, 0.01 * noticed, (300, len(improving)))
        claim = common.Claim("paper", "claim", unit="% of directions")
        high = [claim.count([int(one.sum())], tested)["high"] for one in drawn]
        assert found["power"] == pytest.approx(np.mean(np.array(high) >= 1.0), abs=0.08)


def test_a_study_does_each_training_once(common, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["some.py", "--kept", str(tmp_path), "--seeds", "1"])
    done = []
    for _ in range(2):
        study = common.Study("about")
        assert study.once(("name", 1), lambda: done.append(1) or "found") == "found"
    assert done == [1]
    assert common.Study("about").once(("name", 2), lambda: "other") == "other"


def test_a_study_says_how_many_models_were_still_growing(common, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["some.py", "--rounds", "30"])
    study = common.Study("about", patience=5, rounds=30)
    study.trees = [12, 25, 26, 30]  # a training whose best tree is 25 ended at tree 30 for want of a better one
    study.say_growth()
    assert "Of 4 models tested, 2 were still growing at the last tree" in " ".join(study.lines)
    assert "among the last 5). Trees of the models: 12 to 30, median 26." in " ".join(study.lines)


def test_a_training_ends_after_its_patience(common):
    import lambdaplug as lp

    part, valid = lp.data.cubic(40, 10, 3).split(20, 20)
    measure, rounds = lp.NDCG(k=3), 60
    value, model = common.trained(lp.LambdaRank(measure), part, valid, measure, rounds, patience=2)
    best, most = common.trained(lp.LambdaRank(measure), part, valid, measure, rounds)
    assert model.num_trees() <= most.num_trees()
    assert value <= best
    scores = model.predict(valid.X)
    assert lp.evaluate(measure, valid.labels, scores, valid.group)[str(measure)] == pytest.approx(value)


def test_the_page_is_what_the_results_make(tmp_path):
    page = tmp_path / "results.md"
    shutil.copy(RECIPES / "results.md", page)
    arguments = ["--page", str(page), "--plot", str(tmp_path / "claims.png")]
    code, _, error = recipe_process.run(RECIPES / "make_results.py", *arguments, where=tmp_path)
    assert code == 0, error
    assert page.read_text("utf-8") == (RECIPES / "results.md").read_text("utf-8")
    for path in (RECIPES / "results").glob("*.json"):
        one = json.loads(path.read_text("utf-8"))
        assert one["command"] == f"python recipes/{path.stem}.py"  # nothing but the defaults
        assert (RECIPES / one["recipe"]).with_suffix(".py").is_file()


def test_the_readme_gives_the_counts_of_the_results():
    found = [json.loads(path.read_text("utf-8")) for path in (RECIPES / "results").glob("*.json")]
    verdicts = Counter(claim["verdict"] for one in found for claim in one["claims"])
    counts = ", ".join(f"{verdicts[name]} {name}" for name in ("confirmed", "refuted", "undecided"))
    line = f"{verdicts.total()} claims of the papers, each with its effect, interval and power: {counts}."
    assert line in " ".join((RECIPES.parent / "README.md").read_text("utf-8").split())
