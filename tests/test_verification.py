"""lp.verify: right deltas pass, and what is wrong is shown on a short list."""

import dataclasses

import numpy as np
import oracle
import pytest
from oracle import revenue
from test_custom import FAST, OWN

import lambdaplug as lp


@pytest.mark.parametrize("measure", [*oracle.VALUES, "mrr(gains_only=True)", "err(max_label=2)", *OWN])
def test_verify_finds_every_delta_right(measure):
    report = lp.verify(measure, trials=60)
    assert report
    assert report.ok
    assert report.counterexample is None
    assert report.worst < 1e-12
    assert "equals the swap" in str(report)


def test_verify_reports_the_first_counter_example():
    def shifted(labels, i, j):
        return labels[i] - labels[j] if i < 2 and j >= 2 else 0.0

    report = lp.verify(lp.custom("sales@3", revenue, delta=shifted))
    labels, i, j, expected, got = report.counterexample
    assert not report
    swapped = list(labels)
    swapped[i], swapped[j] = swapped[j], swapped[i]
    assert expected == abs(revenue(swapped) - revenue(labels)) != got == abs(shifted(labels, i, j))
    assert len(labels) == 3  # the shortest that shows it
    assert f"exchanging positions {i} and {j} changes the value by {expected:g}" in str(report)
    assert repr(report) == str(report)

    def flat(labels):
        return np.ones(len(labels))

    assert "exchanging positions" in str(lp.verify(lp.custom("sales@3", revenue, rows=flat)))


def test_verify_measures_by_the_values_own_size():
    def nothing(labels, i, j):
        return 0.0 * labels[i] * j

    def mixed(labels):
        return 1e6 * labels[0] + (1e-4 * labels[1] if len(labels) > 1 else 0.0)

    def mixed_delta(labels, i, j):
        upper, lower = 1e6 if i == 0 else 1e-4 if i == 1 else 0.0, 1e-4 if j == 1 else 0.0
        return (upper - lower) * (labels[i] - labels[j])

    def large_part(labels, i, j):
        return 1e6 * (labels[i] - labels[j]) if i == 0 else 0.0

    assert not lp.verify(lp.custom("tiny", lambda labels: 1e-10 * labels[0], delta=nothing))
    assert lp.verify(lp.custom("mixed", mixed, delta=mixed_delta))
    assert not lp.verify(lp.custom("mixed", mixed, delta=large_part))
    assert lp.verify("err(max_label=20)")


def test_verify_checks_the_promise_of_k_and_says_what_is_trivial():
    def first(labels):  # is not cut off, which lists of many zeros show
        for rank in range(len(labels)):
            if labels[rank] > 0:
                return 1.0 / (rank + 1)
        return 0.0

    assert "so it is k=10 that does not hold" in str(lp.verify(lp.custom("first", first, k=10)))
    assert not lp.verify(lp.custom("sales@3", revenue, k=2))
    assert "by brute-force swaps: checked are k=, if any" in str(lp.verify(lp.custom("sales@3", revenue, k=3)))
    assert lp.verify(FAST, labels=[0.25, -1.5], trials=20)
    with pytest.raises(lp.LambdaplugError, match="finite label values"):
        lp.verify(FAST, labels=[])
    with pytest.raises(lp.LambdaplugError, match="trials: expected an integer >= 1"):
        lp.verify(FAST, trials=0)


SPAM = (0.0, 1.0, 3.0, 0.0, 2.0)  # a label of 3 is worth nothing


def worth(labels):
    total = 0.0
    for r in range(len(labels)):
        total += labels[r] / (r + 1.0)
    return total


def test_verify_finds_forces_that_work_against_the_value():
    def negative(labels):
        return -labels[0]

    class ByLabel(lp.NDCG):
        name = ""

        def prepare(self, labels, offsets):
            return super().prepare(labels, offsets)._replace(grade=labels)

    assert lp.verify(lp.custom("worth", worth))
    assert lp.verify(lp.custom("worth", worth, gain=SPAM))
    assert lp.verify(lp.NDCG(gain=SPAM))
    assert lp.verify(ByLabel())
    for wrong in (lp.custom("negative", negative), ByLabel(gain=SPAM), lp.NDCG(discount=(0.1, 1.0))):
        report = lp.verify(wrong)
        assert not report
        assert len(report.counterexample.labels) == 2  # the shortest that shows it
        assert report.counterexample.expected == pytest.approx(report.counterexample.got)
        assert "forces are BACKWARDS" in str(report)
    shifted = lp.custom("shifted", worth, delta=lambda labels, i, j: labels[i] - labels[j] + 0.0 * j)
    assert "the delta is WRONG" in str(lp.verify(shifted))


def flipped(kind, **flags):
    """A measure whose class promises something else."""
    body = {"name": "", **flags}  # without a name, it takes nobody's place
    return dataclasses.dataclass(frozen=True, repr=False)(type(kind.__name__, (kind,), body))()


@pytest.mark.parametrize(
    ("measure", "said"),
    [
        (flipped(lp.MAP, symmetric=True), "fast gradients"),
        (flipped(lp.BPref, symmetric=True), "fast gradients"),
        (flipped(lp.MRR, greater=True), "fast gradients"),
        (flipped(lp.BPref, greater=True), "fast gradients"),
        (flipped(lp.ERR, coarse=np.inf), "fast gradients"),
        (flipped(lp.ERR, scaled=False), "fast gradients"),
        (flipped(lp.NDCG, gained=False), "the delta is WRONG"),
        (flipped(lp.Pairs, gained=True), "the delta is WRONG"),
        (flipped(lp.Pairs, reach=None), "the delta is WRONG"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_verify_sees_a_wrong_flag(measure, said):
    report = lp.verify(measure)
    assert not report
    assert said in str(report)


def test_verify_looks_further_down_than_the_short_lists():
    def first(n):
        def value(labels):
            total = 0.0
            for r in range(min(n, len(labels))):
                total += labels[r]
            return total

        return value

    def delta_of_ten(labels, i, j):
        return labels[i] - labels[j] if i < 10 <= j else 0.0

    def delta_of_twelve(labels, i, j):
        return labels[i] - labels[j] if i < 12 <= j else 0.0

    assert lp.verify(lp.custom("twelve", first(12), delta=delta_of_twelve, k=12))
    assert not lp.verify(lp.custom("twelve", first(12), delta=delta_of_ten, k=12))
    assert not lp.verify(lp.custom("twelve", first(12), delta=delta_of_twelve, k=9))
    deep = lp.verify(lp.custom("hundred", first(100), k=99))
    assert not deep
    assert deep.longest == 103
