"""Gradients are what they were: some of the golden cases, within rounding, on any machine; all of them: golden.py."""

import golden
import pytest

CASES = golden.cases()
SOME = (
    *("lambdarank ndcg@3", "lambdarank noise err", "objective map", "local_cost ndcg", "spsa map", "approx map@3"),
    *("plrank ndcg", "stochastic map", "listmle", "graded", "pareto mgda", "revenue 3", "preferences", "unbiased"),
    "preset lightgbm",
)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", SOME)
def test_gradients_are_those_that_were_written(name):
    kept = golden.golden()
    for what, array in golden.by_hand(CASES[name]):
        assert golden.difference(array, kept[f"{name} | {what}"]) < 1e-5, what
