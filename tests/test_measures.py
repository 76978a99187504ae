"""Measures: values, swap deltas, text, and what they refuse."""

import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import VALUES, scaled, swap_delta

import lambdaplug as lp
from lambdaplug.measures import as_measure, registered, swap_deltas

ranked_labels = st.lists(st.integers(0, 4), min_size=1, max_size=14)


def test_every_registered_measure_has_an_oracle():
    assert {as_measure(name).name for name in VALUES} == set(registered())


@pytest.mark.parametrize("name", VALUES)
@settings(max_examples=60, deadline=None)
@given(labels=ranked_labels)
def test_swap_delta_is_the_brute_force_swap(name, labels):
    # A last document with the largest label keeps lmax at 4 for the measures that read it off the data.
    labels = scaled(name, [*labels, 4])
    delta = swap_deltas(name, labels)
    n = len(labels)
    expected = [[swap_delta(name, labels, min(a, b), max(a, b)) if a != b else 0.0 for b in range(n)] for a in range(n)]
    np.testing.assert_allclose(delta, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", VALUES)
@settings(max_examples=60, deadline=None)
@given(queries=st.lists(ranked_labels, min_size=1, max_size=4))
def test_value_is_the_formula(name, queries):
    queries = [scaled(name, [*labels, 4]) for labels in queries]
    group = [len(labels) for labels in queries]
    scores = np.concatenate([-np.arange(n, dtype=float) for n in group])
    found = lp.evaluate(name, np.concatenate(queries), scores, group, per_query=True)[str(as_measure(name))]
    expected = [np.nan if (value := VALUES[name](labels)) is None else value for labels in queries]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


def test_gains_only_drops_the_swaps_that_lose():
    labels = [0, 1, 0, 1, 0]
    full, gains = swap_deltas("mrr", labels), swap_deltas(lp.MRR(gains_only=True), labels)
    assert gains[0, 1] == gains[0, 3] == full[0, 1] == 0.5
    assert full[1, 2] > 0
    assert gains[1:, 1:].max() == 0.0


@pytest.mark.parametrize(
    "text",
    ["ndcg@10", "map", "p@5", "rbp(p=0.9)", "ndcg@10(gain='linear')", "ndcg(gain=[0,1,3])", "mrr(gains_only=True)"],
)
def test_a_measure_prints_as_its_text(text):
    assert str(as_measure(text)) == text
    assert as_measure(f" {text.upper().split('(')[0]}{text[len(text.split('(')[0]) :]} ") == as_measure(text)


def test_parameters_are_kept_in_one_form():
    assert as_measure("Precision@5") == as_measure("p@5")
    assert as_measure("mean_average_precision(relevant=2)") == lp.MAP(relevant=2)
    assert as_measure("ndcg(k=10)") == lp.NDCG(k=10)
    assert str(lp.MAP(relevant=np.int64(2))) == "map(relevant=2)"
    assert lp.NDCG(gain=[0, 1, 3]) == lp.NDCG(gain=np.array([0, 1, 3]))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        *(("hitrate@10", "hit"), ("hit_rate@10", "hit"), ("auc", "pairs"), ("roc_auc", "pairs"), ("prec_at_5", "p")),
        *(("recall_at_10", "recall"), ("mean reciprocal rank", "mrr"), ("rank correlation", "spearman")),
        *(("ndcg_at_k", "ndcg"), ("averageprecison", "map"), ("precison@5", "p"), ("NDCG-10", "ndcg")),
    ],
)
def test_the_hint_goes_by_meaning(text, name):
    with pytest.raises(lp.LambdaplugError, match=f"The nearest is '{name}'. There are: alphandcg, bpref, "):
        as_measure(text)


def test_spearman_is_the_rank_correlation():
    rng = np.random.default_rng(0)
    labels, scores = rng.integers(0, 5, 40).astype(float), rng.normal(size=40)
    found = lp.evaluate("spearman", labels, scores, [25, 15], per_query=True)["spearman"]
    expected = [scipy.stats.spearmanr(labels[own], scores[own]).statistic for own in (slice(25), slice(25, 40))]
    np.testing.assert_allclose(found, expected, atol=1e-12)
    assert lp.verify("spearman")
    np.testing.assert_allclose(value("spearman", -np.exp(-labels[:25])), value("spearman", labels[:25]))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ndgc@10", "nearest is 'ndcg'.*bpref, cndcg"),
        ("ndcg@0", "k must be an integer >= 1"),
        ("ndcg(k=" + "9" * 5000 + ")", "cannot read 'ndcg.{60,90}'"),
        ("ndcg(k=True)", "k must be an integer >= 1 .* got True"),
        ("map(relevant=" + "(" * 5000 + ")" * 5000 + ")", "cannot read 'map"),
        ("rbp(p=0.8,p=0.5)", "rbp was given a parameter twice"),
        ("ndcg@10(k=5)", "ndcg was given a parameter twice"),
        ("map(relevant=1e999)", "relevant must be a finite number; got inf"),
        ("err(max_label='4')", "max_label must be a finite number, or None; got '4'"),
        ("mrr(gains_only='no')", "gains_only must be True or False; got 'no'"),
        ("ndcg(gain={0:1})", "gain must be 'exp2', 'linear', a sequence"),
        ("bpref@5", "bpref has no parameter 'k'.* It takes: relevant"),
        ("rbp(p=2)", "p must be a number >= 0 and < 1"),
        ("p", "missing 1 required positional argument: 'k'.* such as 'ndcg@10'"),
        ("", "no measure ''"),
        ("xyzzy", r"no measure 'xyzzy'\. There are"),
        ("ndcg@10@5", "no measure 'ndcg@10@5'"),
        (7, "expected a measure or its name"),
    ],
)
def test_an_unreadable_measure_says_what_to_write(text, message):
    with pytest.raises(lp.LambdaplugError, match=message):
        as_measure(text)


@pytest.mark.parametrize("kind", [kind for kind in registered().values() if dataclasses.fields(kind)])
def test_every_parameter_of_every_measure_is_checked(kind):
    itself = []
    itself.append(itself)
    values = [10**5000, itself, float("nan"), np.float32("inf"), "x", b"1", {}, object(), [None], np.eye(2), 1j]
    for field in dataclasses.fields(kind):
        for wrong in values if field.name != "k" else [10**5000, float("nan"), {}, object(), 1j]:  # k may name a column
            with pytest.raises(lp.LambdaplugError, match=rf"{kind.name}: {field.name} must be"):
                kind(**{**({"k": 3} if "k" in kind.__dataclass_fields__ else {}), field.name: wrong})


def value(measure, labels):
    return lp.evaluate([measure], labels, -np.arange(len(labels)), [len(labels)])[str(as_measure(measure))]


def test_labels_beyond_the_gain():
    for bad in (31, -1):
        with pytest.raises(lp.LambdaplugError, match=rf"labels from 0 to 30, got a label of {bad}"):
            value("ndcg", [0, bad, 2])
    assert value("ndcg", [30, 0]) == 1.0
    assert value("ndcg(gain='linear')", [100, 0.5]) == 1.0
    assert 0 < value(lp.NDCG(gain=lambda label: 1 / (1 + np.exp(-label))), [-3, 40]) < 1
    assert value(lp.NDCG(gain=lambda label: 1 if label > 35 else 0), [1, 40]) == pytest.approx(1 / np.log2(3))
    with pytest.raises(lp.LambdaplugError, match="takes the integer labels 0 to 2; got 3"):
        value("ndcg(gain=[0,1,3])", [0, 3])
    with pytest.raises(lp.LambdaplugError, match=r"integer labels 0 to 2; got 1\.5"):
        value("ndcg(gain=[0,1,3])", [0, 1.5])
    with pytest.raises(lp.LambdaplugError, match="finite and not negative"):
        value("ndcg(gain='linear')", [-1, 2])
    with pytest.raises(lp.LambdaplugError, match="click scores from 0 to 1"):
        value("cndcg", [0, 2])
    with pytest.raises(lp.LambdaplugError, match="max_label is 2, but the labels go up to 3"):
        value("err(max_label=2)", [0, 3])
    with pytest.raises(lp.LambdaplugError, match="gain must be 'exp2'"):
        value("ndcg(gain='square')", [0, 1])


def test_discounts():
    assert value(lp.DCG(gain="linear", discount=lambda rank: 1 / rank), [3, 2, 0]) == 4.0
    assert value("dcg(gain='linear',discount=[1,0.5])", [1, 1, 1]) == 1.5
    with pytest.raises(lp.LambdaplugError, match="discount must be 'log2'"):
        value("dcg(discount='log')", [1])


def test_the_table_of_measures_is_the_registry():
    page = (Path(__file__).parent.parent / "recipes/guide/measures.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)[^|]*\| [^|]*\| [^|]* \| ([^|]*?) \|$", page, re.M)
    assert dict(rows) == {name: kind.undefined for name, kind in registered().items()}, "one row per measure"


def test_every_measure_has_a_citation_and_an_example():
    for kind in registered().values():
        assert re.search(r"\((19|20)\d\d\), \"", kind.__doc__), kind  # authors (year), "title"
        assert ">>> lp.evaluate(" in kind.__doc__, kind
        assert "Parameters" in kind.__doc__ or ":class:" in kind.__doc__ or not dataclasses.fields(kind), kind
