"""Measures of the user's own: values, deltas, what they refuse, and their way into other processes."""

import copy
import dataclasses
import functools
import os
import pickle
import subprocess
import sys
import types
from pathlib import Path

import cloudpickle
import lightgbm as lgb
import numba
import numpy as np
import oracle
import pytest
import xgboost as xgb
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import revenue, revenue_delta

import lambdaplug as lp
from lambdaplug.measures import registered, swap_deltas
from lambdaplug.queries import Queries

ROOT = Path(__file__).parent.parent


def precision(labels):
    """Average precision, times the number of relevant documents."""
    seen = 0.0
    total = 0.0
    for r in range(len(labels)):
        if labels[r] >= 1:
            seen += 1
            total += seen / (r + 1)
    return total


def precision_rows(labels):
    n = len(labels)
    upper = np.empty(n)
    lower = np.empty(n)
    seen = 0.0
    harmonic = 0.0
    for r in range(n):
        relevant = 1.0 if labels[r] >= 1 else 0.0
        seen += relevant
        lower[r] = seen / (r + 1) - harmonic
        harmonic += relevant / (r + 1)
        upper[r] = (seen + 1 - relevant) / (r + 1) - harmonic
    return upper, lower


def precision_delta(labels, i, j, rows):
    return rows[0][i] - rows[1][j] if (labels[i] >= 1) != (labels[j] >= 1) else 0.0


def revenue_rows(labels):
    return (np.arange(len(labels)) < 3) * 1.0


def relevance(label):
    return float(label >= 1)


def stopping(gains):
    """Expected reciprocal rank: a gain is the chance to stop."""
    looking = 1.0
    total = 0.0
    for r in range(len(gains)):
        total += looking * gains[r] / (r + 1)
        looking *= 1.0 - gains[r]
    return total


def stopping_rows(gains):
    n = len(gains)
    upper, lower = np.empty(n), np.empty(n)
    looking = 1.0
    total = 0.0
    for r in range(n):
        lower[r] = total + looking / (r + 1)
        total += looking * gains[r] / (r + 1)
        looking *= 1.0 - gains[r]
        upper[r] = total + looking / (r + 1)
    return upper, lower, 1.0 / (1.0 - gains)


BRUTE = lp.custom("sales@3", revenue)
FAST = lp.custom("sales@3", revenue, delta=revenue_delta, k=3)
AVERAGE = lp.custom("average", precision, delta=precision_delta, prepare=precision_rows, normalize=True)
# The same by rows, one, two and three of them.
SLOTS = lp.custom("sales@3", revenue, rows=revenue_rows, k=3)
PRECISE = lp.custom("average", precision, rows=precision_rows, gain=relevance, normalize=True)
STOPPING = lp.custom("stopping", stopping, rows=stopping_rows, gain=[(2**label - 1) / 16 for label in range(5)])
OWN = [BRUTE, FAST, AVERAGE, SLOTS, PRECISE, STOPPING]

ranked_labels = st.lists(st.integers(0, 4), min_size=1, max_size=9)


def generated(seed=0, queries=60, longest=30):
    rng = np.random.default_rng(seed)
    group = rng.integers(0, longest, queries)
    group[:3] = 0, 1, 2
    return rng.normal(size=group.sum()).round(1), rng.integers(0, 5, group.sum()).astype(float), group


@settings(max_examples=60, deadline=None)
@given(labels=ranked_labels)
def test_values_are_the_functions(labels):
    scores = -np.arange(len(labels))
    found = lp.evaluate([BRUTE, "map", AVERAGE], labels, scores, [len(labels)], empty=0)
    assert found["sales@3"] == pytest.approx(sum(labels[:3]))
    assert found["average"] == pytest.approx(found["map"])


@settings(max_examples=60, deadline=None)
@given(labels=ranked_labels)
def test_swap_deltas_by_brute_force_and_by_delta(labels):
    np.testing.assert_allclose(swap_deltas(FAST, labels), swap_deltas(BRUTE, labels), atol=1e-12)
    np.testing.assert_allclose(swap_deltas(SLOTS, labels), swap_deltas(BRUTE, labels), atol=1e-12)
    for mine in (AVERAGE, PRECISE):
        np.testing.assert_allclose(swap_deltas(mine, labels), swap_deltas("map", labels), atol=1e-12)
    np.testing.assert_allclose(swap_deltas(STOPPING, labels), swap_deltas("err(max_label=4)", labels), atol=1e-12)


@pytest.mark.parametrize(("measure", "spread"), [(BRUTE, 1.0), (FAST, 1.0), (BRUTE, 300.0), (SLOTS, 1.0)])
def test_gradients_are_the_pair_loop(monkeypatch, measure, spread):
    monkeypatch.setitem(oracle.VALUES, "sales@3", lambda labels: sum(labels[:3]))
    scores, labels, group = generated(longest=9)
    scores *= spread
    weight = np.random.default_rng(1).random(len(scores)) if measure is FAST else np.ones(len(scores))
    edges = np.cumsum(group)[:-1]
    parts = zip(*(np.split(x, edges) for x in (scores, labels, weight)), strict=True)
    expected = [oracle.gradients("sales@3", *map(list, (s, y)), 1.5, list(w)) for s, y, w in parts]
    given = weight if measure is FAST else None  # the loop without weights is another one
    found = lp.LambdaRank(measure, sigma=1.5).gradients(labels, scores, group, weight=given)
    for f, e in zip(found, zip(*expected, strict=True), strict=True):
        e = np.concatenate(e)
        np.testing.assert_allclose(f, e, rtol=0, atol=2e-6 * np.abs(e).max())


def test_rows_are_as_good_as_the_built_in_measures():
    # Whole lists, and lists whose scores spread too far for float32; one constant more in a row changes nothing.
    def shifted(labels):
        return 1e4 + 1.0 / np.log2(np.arange(2, len(labels) + 2))

    def discounted(labels):
        total = 0.0
        for r in range(len(labels)):
            total += labels[r] / np.log2(r + 2)
        return total

    gain = lp.custom("discounted", discounted, rows=shifted, gain="exp2", normalize=True)
    for scores, labels, group in (generated(queries=100), generated(1, queries=6, longest=1500)):
        for mine, theirs in ((gain, "ndcg"), (PRECISE, "map"), (AVERAGE, "map"), (STOPPING, "err(max_label=4)")):
            for stretch in (1.0, 30.0):
                found = lp.LambdaRank(mine).gradients(labels=labels, scores=stretch * scores, group=group)
                expected = lp.LambdaRank(theirs).gradients(labels=labels, scores=stretch * scores, group=group)
                for f, e in zip(found, expected, strict=True):
                    np.testing.assert_allclose(f, e, rtol=0, atol=2e-6 * np.abs(e).max())


def test_both_hosts_stop_on_it():
    data, metric, log = lp.data.cubic(queries=40, documents=12, features=6), lp.metric(BRUTE), {}
    dataset = lgb.Dataset(data.X, data.labels, group=data.group)
    parameters = {"objective": lp.LambdaRank(BRUTE), "metric": "None", "verbose": -1, "min_sum_hessian_in_leaf": 0}
    recording = [lgb.record_evaluation(log)]
    lgb.train(parameters, dataset, 8, valid_sets=[dataset], feval=metric, callbacks=recording)
    assert log["training"]["sales@3"][-1] > log["training"]["sales@3"][0]
    dtrain = xgb.DMatrix(data.X, data.labels, qid=data.qid)
    parameters, log = {"disable_default_eval_metric": 1, "min_child_weight": 0}, {}
    told = {"custom_metric": metric, "evals": [(dtrain, "train")], "evals_result": log, "verbose_eval": False}
    xgb.train(parameters, dtrain, 8, obj=lp.LambdaRank(BRUTE), **told)
    assert log["train"]["sales@3"][-1] > log["train"]["sales@3"][0]


def test_rows_without_a_label_are_in_no_pair_and_count_as_0(monkeypatch):
    monkeypatch.setitem(oracle.VALUES, "sales@3", lambda labels: sum(labels[:3]))
    scores, labels = [5.0, 4.0, 3.0, 2.0, 1.0], [np.nan, 2.0, 1.0, 0.0, 3.0]
    found, _ = lp.LambdaRank(BRUTE, labels="own").gradients([0] * 5, scores, [5], columns={"own": labels})
    expected, _ = oracle.gradients("sales@3", scores, [0.0, *labels[1:]], allowed=lambda i, j: 0 not in (i, j))
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_a_normalised_measure_is_undefined_without_an_ideal():
    assert np.isnan(lp.evaluate(AVERAGE, [0, 0], [1, 0], [2])["average"])
    assert not lp.LambdaRank(AVERAGE).gradients([0, 0], [1, 0], [2])[0].any()


TABLE = np.array([0.0, 1.0])


def test_indices_out_of_range_are_an_error():
    def looked_up(labels):
        return TABLE[int(labels[0])]

    def looked_up_delta(labels, i, j):
        return TABLE[int(labels[i])] - TABLE[int(labels[j])] if i == 0 else 0.0

    measure = lp.custom("table", looked_up, delta=looked_up_delta)
    assert lp.evaluate(measure, [1, 0], [1, 0], [2]) == {"table": 1.0}
    for ties in ("stable", "worst", "best"):
        with pytest.raises(lp.LambdaplugError, match="reads beyond the end"):
            lp.evaluate(measure, [2, 0], [1, 0], [2], ties=ties)
    with pytest.raises(lp.LambdaplugError, match="reads beyond the end"):
        lp.verify(measure)
    assert lp.verify(measure, labels=[0, 1])


def test_rows_that_cannot_be_used_are_an_error_in_training():
    def short(labels):
        return np.ones(min(len(labels), 20))

    def infinite(labels):
        return 1.0 / (labels - 2.0)

    def looked_up(labels):
        rows = np.empty(len(labels))
        for r in range(len(labels)):
            rows[r] = TABLE[int(labels[r])]
        return rows

    for rows, message in (
        (short, "one finite number per document"),
        (infinite, "one finite number per document"),
        (looked_up, "reads beyond"),
    ):
        objective = lp.LambdaRank(lp.custom("sales@3", revenue, rows=rows))
        with pytest.raises(lp.LambdaplugError, match=message):
            objective.gradients(np.arange(30) % 3, np.arange(30.0), [30])


def test_one_array_of_rows_is_symmetric():
    def shares(labels):
        return np.full(len(labels), 1.0 / int(labels.sum()))

    measure = lp.custom("shares", revenue, rows=shares)
    assert measure.symmetric  # though there are no shares of 0
    assert lp.LambdaRank(measure).gradients([1, 0], [2.0, 1.0], [2])[0].tolist() == [0.0, 0.0]


def test_bools_and_defaults(monkeypatch):
    def better(labels, above=1):
        return labels[0] > above

    def better_delta(labels, i, j, above=1):
        return i == 0 and (labels[i] > above) != (labels[j] > above)

    fast = lp.custom("better", better, delta=better_delta, normalize=True)
    brute = lp.custom("better", better)
    np.testing.assert_array_equal(swap_deltas(fast, [1, 2, 2]), swap_deltas(brute, [1, 2, 2]))
    monkeypatch.setitem(oracle.VALUES, "better", lambda labels: float(labels[0] > 1))
    expected = oracle.gradients("better", [2.0, 1.0, 0.0], [1, 2, 2])
    np.testing.assert_allclose(lp.LambdaRank(fast).gradients([1, 2, 2], [2.0, 1.0, 0.0], [3]), expected, atol=1e-6)
    assert lp.evaluate(fast, [2, 0], [1, 0], [2]) == {"better": 1.0}
    assert lp.verify(fast)


# --- a value like any other measure ------------------------------------------------------------------------------


CHANGING = """
def value(labels):
    total = 0.0
    for r in range(min(K, len(labels))):
        total += shop.PRICE * labels[r]
    return total
"""


def test_custom_measures_are_values():
    assert str(FAST) == "sales@3"
    assert repr(FAST) == "custom('sales@3', oracle.revenue)"
    assert repr(lp.LambdaRank(FAST)) == "LambdaRank('sales@3')"
    assert copy.deepcopy(FAST) == copy.copy(FAST) == FAST != BRUTE
    assert hash(copy.copy(FAST)) == hash(FAST)
    assert "sales@3" not in registered()
    assert pickle.loads(pickle.dumps(FAST)) == FAST
    for measure, carried in ((FAST, pickle), (lp.custom("top", lambda labels: labels[0]), cloudpickle)):
        back = carried.loads(carried.dumps(measure))
        assert repr(back) == repr(measure)
        assert lp.evaluate(back, [1, 2], [1, 0], [2]) == lp.evaluate(measure, [1, 2], [1, 0], [2])


def test_a_function_is_compiled_with_the_globals_that_it_has_when_its_measure_is_made():
    shop = types.ModuleType("shop")
    space = {"shop": shop}
    exec(CHANGING, space)
    made = []
    for space["K"], shop.PRICE in ((3, 1.0), (1, 1.0), (1, 7.0)):
        made.append(lp.custom(f"revenue{len(made)}", space["value"]))
    data = [1.0, 2.0, 3.0], [3.0, 2.0, 1.0], [3]
    assert list(lp.evaluate(made, *data).values()) == [6.0, 1.0, 7.0]
    space["K"] = 2  # another process gets it as it was, too
    carried = cloudpickle.loads(cloudpickle.dumps(made[2]))
    assert lp.evaluate(carried, *data) == {"revenue2": 7.0}


def test_gains_are_any_callable():
    for gain in ({1: 2.0, 2: 4.0}.get, functools.partial(np.multiply, 2.0)):
        measure = lp.custom("sales@3", revenue, gain=gain)
        assert copy.copy(measure) == measure != dataclasses.replace(measure, k=2)
        assert lp.evaluate(measure, [2, 1], [2, 1], [2])["sales@3"] == 6.0


SCRIPT = """
import sys
import cloudpickle
import lambdaplug as lp
import numpy as np
import shop

SLOTS = 2

def revenue(labels):
    total = 0.0
    for r in range(min(SLOTS, len(labels))):
        total += shop.price(labels[r])
    return total

def counted(labels):
    return FACTOR * (np.arange(len(labels)) < SLOTS)

FACTOR = 2.0
measure = lp.custom("sales@2", revenue)
by_rows = lp.LambdaRank(lp.custom("sales@2", revenue, rows=counted, gain=lambda label: label, k=SLOTS))
if len(sys.argv) > 1:
    objective = lp.LambdaRank(measure)
    print(objective.gradients([0, 1, 2], [0.0, 0.0, 0.0], [3])[0].tolist())
    with open(sys.argv[1], "wb") as file:
        file.write(cloudpickle.dumps((objective, lp.metric(measure), by_rows)))
print(lp.evaluate([measure, lp.custom("top", shop.top)], [0, 1, 2], [0.0, 0.0, 0.0], [3]))
"""
SHOP = """
import numba

@numba.njit
def price(label):
    return FACTOR * label

def top(labels):
    return FACTOR * labels[0] + OFFSET
"""
WORKER = """
import sys, pickle
with open(sys.argv[1], "rb") as file:
    objective, metric, by_rows = pickle.load(file)
print(objective.gradients([0, 1, 2], [0.0, 0.0, 0.0], [3])[0].tolist())
print(by_rows.gradients([0, 1, 2], [0.0, 0.0, 0.0], [3])[0].tolist())
print(metric, metric.parts[0][0] == objective.measure)
"""


def run(*arguments, where, stdin=None):
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{where}"}
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        input=stdin,
        capture_output=True,
        text=True,
        check=True,
        cwd=where,
        env=environment,
    ).stdout.splitlines()


def test_from_a_script_to_a_worker_and_after_an_edit(tmp_path):
    def shop(factor, offset):
        (tmp_path / "shop.py").write_text(SHOP.replace("FACTOR", factor).replace("OFFSET", offset))

    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "worker.py").write_text(WORKER)
    shop("2.0", "0.0")
    file = tmp_path / "objective"
    gradient, values = run("script.py", file, where=tmp_path)
    assert gradient == "[2.0, 1.0, -3.0]"
    assert values == "{'sales@2': 2.0, 'top': 0.0}"
    # Another process, as a Dask worker: the function of __main__ travels inside the pickle.
    there, by_rows, metric = run("worker.py", file, where=tmp_path)
    assert there == by_rows == gradient
    assert metric == "metric('sales@2') True"
    # An edited module is compiled anew, whatever lies in Numba's cache; and from standard input there is no file at all.
    shop("4.0", "1.0")
    assert run("-", where=tmp_path, stdin=SCRIPT) == ["{'sales@2': 4.0, 'top': 1.0}"]


# --- what is refused ---------------------------------------------------------------------------------------------


def writes(labels):
    labels[0] = 0.0
    return 0.0


def text(labels):
    return "high" if len(labels) else "low"


def helper(labels):
    return labels.sum()


def beyond(labels, i, j):
    return labels[j + 1] - labels[i]


def calls_plain(labels):
    return helper(labels)


def perhaps(labels):
    if labels[0] < 5:
        return labels[0]
    return None


def unassigned():
    def value(labels):
        return factor * labels[0] if labels[0] > 1 else 0.0

    if not value:
        factor = 1.0
    return value


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (("x", perhaps), {}, "perhaps must always return a number; to Numba it returns float64 or None"),
        (("x", lambda labels: labels[...][0]), {}, "Numba cannot compile <lambda>: .*No definition for lowering"),
        (("x", unassigned()), {}, "Numba cannot compile value.*factor"),
        (("x", writes), {}, "Numba cannot compile writes: .*setitem"),
        (("x", text), {}, "text must always return a number; to Numba it returns unicode_type"),
        (("x", calls_plain), {}, "custom 'x': Numba cannot compile calls_plain: .*helper.* need @numba.njit"),
        (("x", sum), {}, "value must be a plain Python function"),
        (("x", revenue), {"delta": 3}, "delta must be a plain Python function"),
        (("x", revenue), {"prepare": precision_rows}, "prepare= is for a delta="),
        (("x", revenue), {"delta": revenue_delta, "rows": revenue_rows}, "rows= takes the place of delta="),
        (("x", revenue), {"rows": revenue}, "rows= must return one array, .upper, lower. or .upper, lower, scale."),
        (("x", revenue), {"k": 0}, "k: expected an integer >= 1"),
        (("x", revenue), {"k": [1, 2]}, "for all queries .cut-offs per query are a column"),
        (("x y", revenue), {}, "name without spaces"),
        (("ndcg@10", revenue), {}, "'ndcg@10' is a measure of lambdaplug's"),
        (("x", revenue), {"delta": revenue}, "Numba cannot compile revenue"),
        (("x", revenue), {"delta": beyond}, "beyond fails for the ranked labels .* positions 0 and 1: IndexError"),
    ],
)
def test_what_cannot_work_is_refused_at_once(arguments, options, message):
    with pytest.raises(lp.LambdaplugError, match=message):
        lp.custom(*arguments, **options)


def test_a_compiled_function_is_taken_too():
    assert lp.evaluate(lp.custom("x", numba.njit(revenue)), [1, 2], [1, 0], [2]) == {"x": 3.0}


def test_values_that_are_not_finite_name_the_query():
    def inverse(labels):
        return np.inf if labels[0] == 0 else np.nan if labels[0] == 2 else 1.0

    measure = lp.custom("inverse", inverse)
    arguments = [1, 1, 0, 1], [1, 0, 1, 0], [2, 2]
    with pytest.raises(lp.LambdaplugError, match="value of query 1 is inf"):
        lp.evaluate(measure, *arguments)
    with pytest.raises(lp.LambdaplugError, match="in query 1, exchanging two documents"):
        lp.LambdaRank(measure).gradients(labels=arguments[0], scores=arguments[1], group=arguments[2])
    with pytest.raises(lp.LambdaplugError, match="in query 1, moving a document"):
        lp.LambdaRank(measure, construction="discrete_bounded").gradients(
            labels=arguments[0], scores=arguments[1], group=arguments[2]
        )
    with pytest.raises(lp.LambdaplugError, match="query 0 in ideal order is not finite"):
        lp.evaluate(lp.custom("inverse", inverse, normalize=True), [2, 1], [1, 0], [2])
    with pytest.raises(lp.LambdaplugError, match=r"the value of query [0-9]+ is nan"):
        lp.verify(measure)


def test_brute_force_on_long_queries_warns_once():
    scores, labels = np.arange(250.0), np.arange(250.0) % 2
    queries, objective = Queries(labels, [250]), lp.LambdaRank(BRUTE)
    with pytest.warns(lp.LambdaplugWarning, match=r"n\^3 for a query of n, and the longest has 250"):
        objective.differentiate(queries, scores)
    objective.differentiate(queries, scores)  # here a second warning would be an error
    for quiet in (FAST, lp.custom("sales@3", revenue, k=3)):
        lp.LambdaRank(quiet).differentiate(queries, scores)


# --- found by looking again ----------------------------------------------------------------------------------------


def sloping(labels):
    total = 0.0
    for r in range(len(labels)):
        total += labels[r] / (r + 10)
    return total


def sloping_delta(labels, i, j):
    if not 0 <= i < j < len(labels):
        raise ValueError("no pair of positions from above to below")
    return (labels[i] - labels[j]) * (1.0 / (i + 10) - 1.0 / (j + 10))


def cut_sloping_delta(labels, i, j):
    if not 0 <= i < min(6, j) or j >= len(labels):
        raise ValueError("no pair of positions from above to below, the upper one above the cut")
    return (labels[i] - labels[j]) * (1.0 / (i + 10) - 1.0 / (j + 10))


@pytest.mark.parametrize("k", [None, 6])
def test_lists_of_every_length(k):
    """Four rows at a time, eight documents to a register, 512 to a block: no remainder is left out or counted twice."""
    group = np.array([*range(26), *range(506, 523), 1023, 1024, 1025, 1, 0])
    rng = np.random.default_rng(0)
    scores, labels = rng.normal(size=group.sum()), rng.integers(0, 3, group.sum()).astype(float)
    delta = sloping_delta if k is None else cut_sloping_delta
    objective = lp.LambdaRank(lp.custom("sloping", sloping, delta=delta, k=k))
    for weight in (None, rng.uniform(0.5, 2.0, group.sum())):
        queries = Queries(labels, group, document_weight=weight)
        fast = objective.differentiate(queries, scores)
        exact = objective.differentiate(queries, scores, exact=True, dtype=np.float64)
        for found, expected in zip(fast, exact, strict=True):
            for f, e in zip(*(np.split(x, queries.offsets[1:-1]) for x in (found, expected)), strict=True):
                np.testing.assert_allclose(f, e, rtol=0, atol=2e-6 * np.abs(e).max(initial=0.0))


def test_rounding_is_no_force():
    """Three documents in three slots: whatever changes places, the sum is the same, up to its last digit."""
    labels = [0.1, 0.2, 0.3]
    assert revenue(labels) != revenue(labels[::-1])
    for objective in (
        lp.LambdaRank(BRUTE, normalize="std"),
        lp.FDSA(BRUTE, c=1.0),
        lp.SPSA(BRUTE, evaluations=8, c=1.0),
        lp.FDSA(lp.DCG(k=3, gain="linear", discount=[1] * 3), c=1.0),
    ):
        assert not objective.gradients(labels, [0.3, 0.2, 0.1], [3])[0].any(), objective


def test_two_measures_of_one_name_are_refused():
    ours = [lp.custom("x", lambda labels: labels[0]), lp.custom("x", lambda labels: -labels[0])]
    for ask in (lambda: lp.evaluate(ours, [1.0], [1.0], [1]), lambda: lp.metric(*ours)):
        with pytest.raises(lp.LambdaplugError, match="two different measures are called 'x'"):
            ask()
    assert lp.evaluate([ours[0], ours[0]], [1.0], [1.0], [1]) == {"x": 1.0}


@pytest.mark.parametrize("kind", [lp.SPSA, lp.FDSA])
def test_numerical_gradients_say_what_is_wrong_with_a_value(kind):
    table = np.ones(13)  # enough for the lists that a function is tried on

    def long(labels):
        return table[len(labels)]

    def inverse(labels):
        return 1.0 if labels[0] < 2 else np.nan

    with pytest.raises(lp.LambdaplugError, match="reads beyond the end of an array"):
        kind(lp.custom("long", long)).gradients(np.arange(15) % 2, np.arange(15) / 10, [15])
    scores, labels, group = [0.3, 0.2, 0.1, 0.2, 0.1], [1, 0, 1, 2, 0], [3, 2]
    with pytest.raises(lp.LambdaplugError, match=r"row [34] is nan.*a function of the measure is not finite"):
        kind(lp.custom("inverse", inverse), c=1.0).gradients(labels, scores, group)


def test_the_support_of_the_recommended_objective_has_the_gain_of_the_measure():
    def gains_of(**options):
        objective = lp.objective(lp.custom("sales@5", revenue, delta=revenue_delta, k=5, **options))
        return objective.inner[1].measure.gain

    assert gains_of() == "linear"  # without a gain the functions get the labels themselves
    assert gains_of(gain="exp2") == "exp2"
