"""What the recipes share: the papers' nets, verdicts and page; the tournament's arguments."""

import importlib
import shutil
from pathlib import Path

import numpy as np
import pytest
import recipe_process
from scipy import optimize, stats

import lambdaplug as lp

RECIPES = Path(__file__).parent.parent / "recipes"


@pytest.fixture
def shared(monkeypatch):
    monkeypatch.syspath_prepend(str(RECIPES / "papers"))
    return importlib.import_module("shared")


@pytest.mark.parametrize(
    ("low", "high", "given", "verdict"),
    [
        (0.5, 1.5, {"effect": 2.0}, "reproduced"),
        (0.5, 0.9, {"effect": 2.0}, "smaller than in the paper"),
        (0.1, 0.2, {}, "reproduced"),  # without a number any effect will do
        (-0.1, 3.0, {"effect": 2.0}, "level"),
        (-0.2, -0.1, {"effect": 2.0}, "opposite"),
        (-0.4, 0.3, {"margin": 0.5}, "reproduced"),
        (-0.6, 0.3, {"margin": 0.5}, "level"),
        (-0.9, -0.6, {"margin": 0.5}, "opposite"),
    ],
)
def test_verdicts_follow_the_rule(shared, low, high, given, verdict):
    assert shared.verdict(low, high, **given) == verdict


def test_intervals_are_over_data_sets_where_there_are_several(shared):
    rng = np.random.default_rng(0)
    sets = [rng.normal(mean, 1.0, 50) for mean in (0.0, 1.0, 2.0)]
    sets[1][3] = np.nan  # a query without a value
    for several, sample in ((sets, [np.nanmean(one) for one in sets]), (sets[:1], sets[0])):
        expected = stats.ttest_1samp(sample, 0).confidence_interval(0.95)
        assert shared.interval(several)[1:] == pytest.approx(tuple(expected))


@pytest.mark.parametrize("hidden", [0, 3])
def test_a_step_of_a_net_is_down_the_gradient_of_what_it_is_trained_for(shared, hidden):
    X, labels, group = lp.data.cubic(queries=4, documents=6, features=5)
    objective = lp.Approx("ndcg", alpha=2.0)
    given = {"labels": labels, "group": group}
    net = shared.Net(5, hidden)
    start = net.weights = net.weights.astype(float)

    def loss(weights):
        return -objective.value(**given, scores=net.scores(X, weights)) * len(group)

    slope = optimize.approx_fprime(start, loss, 1e-5)
    net.weights = start.copy()
    net.step(X, lambda scores: objective.gradients(**given, scores=scores)[0], 1.0)
    np.testing.assert_allclose(start - net.weights, slope, rtol=1e-3, atol=1e-5)


def test_a_net_is_left_with_the_weights_that_were_best_on_validation(shared):
    part, valid = lp.data.cubic(queries=60, documents=10, features=4).split(40, 20)
    seen = []
    net, values = shared.train(
        shared.Net(4),
        lp.LambdaRank("ndcg"),
        part,
        valid,
        "ndcg",
        rate=0.1,
        epochs=8,
        watch=lambda net: seen.append(net),
    )
    assert len(seen) == len(values) == 8
    assert shared.measured("ndcg", valid, net.scores(valid.X)) == pytest.approx(max(values))
    assert max(values) > shared.measured("ndcg", valid, shared.Net(4).scores(valid.X))


@pytest.mark.usefixtures("shared")
def test_two_evaluations_estimate_a_gradient():
    spsa = importlib.import_module("spsa_2007").spsa
    slope, rng = np.array([1.0, -2.0, 0.5]), np.random.default_rng(0)
    steps = [next(spsa(lambda w: w @ slope, np.zeros(3), 2, 1, 51.0, 0.1, rng)) for _ in range(4000)]
    np.testing.assert_allclose(np.mean(steps, axis=0), slope, atol=0.15)


def test_the_page_is_what_the_results_make(tmp_path):
    pages = ["results.md", "results/papers/details.md"]
    shutil.copytree(RECIPES / "results", tmp_path / "results")
    shutil.copy(RECIPES / "results.md", tmp_path)
    code, _, error = recipe_process.run(RECIPES / "papers" / "shared.py", "--folder", str(tmp_path), where=tmp_path)
    assert code == 0, error
    for page in pages:
        assert (tmp_path / page).read_text("utf-8") == (RECIPES / page).read_text("utf-8")


def test_the_page_of_results_is_short():
    lines = (RECIPES / "results.md").read_text("utf-8").splitlines()
    assert len(lines) <= 250
    rows = 0
    for line in lines:
        rows = rows + 1 if line.startswith("|") else 0
        assert rows <= 2 + 12, line


def test_the_tournament_keeps_to_its_arguments_and_goes_on_where_it_was(tmp_path):
    tournament, plot = RECIPES / "tournament.py", str(tmp_path / "plot.png")
    chosen = [
        "--hosts",
        "lightgbm",
        "--measures",
        "map",
        "--sets",
        "graded",
        "--contenders",
        "lambdarank",
        "lp.objective",
    ]
    arguments = ["--quick", "--plot", plot, "--tuned", "3", *chosen]
    code, out, error = recipe_process.run(tournament, *arguments, where=tmp_path)
    assert code == 0, error
    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "plot-tuned-quick").glob("*.npy")}
    assert len(kept) == 2 * (3 + 2 * 3 + 2)  # replicates, splits and seeds
    assert all("-lightgbm-" in path.name and "-map-" in path.name for path in kept)
    for said in ("graded, n 3", "best on validation", "standard deviation over seeds"):
        assert said in out
    again = recipe_process.run(tournament, *arguments, where=tmp_path)
    assert again == (0, out, again[2])
    assert kept == {path: path.stat().st_mtime_ns for path in kept}


@pytest.mark.parametrize(
    "words", [["--measures", "mpa"], ["--hosts", "lgb"], ["--sets", "mq2009"], ["--contenders", "mine"]]
)
def test_the_tournament_refuses_misspelt_words(words, tmp_path):
    code, _, error = recipe_process.run(RECIPES / "tournament.py", "--quick", *words, where=tmp_path)
    assert code == 2
    assert words[1] in error
