"""Logs of sessions into rows, simulated clicks, and propensities from logs in which documents changed places."""

import importlib.util
import pickle
from collections import Counter, defaultdict

import numpy as np
import pytest

import lambdaplug as lp

NAMES = {"query": "q", "document": "d", "position": "p", "click": "c"}


def random_log(seed, pages=60):
    """Pages of results for five queries, in the order shown."""
    rng = np.random.default_rng(seed)
    log = defaultdict(list)
    for page in range(pages):
        query, length = rng.integers(5), rng.integers(1, 7)
        for place, document in enumerate(rng.permutation(8)[:length]):
            log["q"].append(f"query {query}")
            log["d"].append(f"sku-{document}")
            log["p"].append(place + 1)
            log["c"].append(int(rng.random() < 0.3))
            log["b"].append(int(log["c"][-1] and rng.random() < 0.5))
            log["s"].append(page)
    return dict(log)


def by_hand(log):
    """Rows, pairs and searches by plain loops, by the ids."""
    rows, searches, pages = defaultdict(lambda: [0, 0, 0, []]), Counter(), defaultdict(list)
    above, skipped = Counter(), Counter()
    for q, d, p, c, b, s in zip(*(log[name] for name in "qdpcbs"), strict=True):
        row = rows[q, d]
        row[0], row[1], row[2] = row[0] + 1, row[1] + c, row[2] + b
        row[3].append(p - 1)
        pages[s, q].append((p, d, c))
    for (_, q), page in pages.items():
        searches[q] += 1
        for p, d, c in page:
            above.update((q, d, other) for place, other, clicked in page if place < p)
            skipped.update((q, d, other) for place, other, clicked in page if c and not clicked and place < p)
    pairs = {
        (q, d, e): times * min(above[q, d, e], above[q, e, d]) / above[q, d, e]
        for (q, d, e), times in skipped.items()
        if above[q, e, d]
    }
    return rows, pairs, searches


@pytest.mark.parametrize("order", ["as shown", "with sessions", "shuffled"])
def test_rows_against_plain_loops(order):
    log = random_log(0)
    if order == "shuffled":
        mixed = np.random.default_rng(1).permutation(len(log["q"]))
        log = {name: [column[i] for i in mixed] for name, column in log.items()}
    rows, pairs, searches = by_hand(log)
    # Two pages of one query that follow each other, the second longer, are told apart by their positions.
    session = {} if order == "as shown" else {"session": "s"}
    found = lp.data.from_sessions(log, **NAMES, purchase="b", strength=4, **session)
    named = list(zip(found.query.tolist(), found.document.tolist(), strict=True))
    assert sorted(named) == sorted(rows)
    assert found.query[np.cumsum(found.group) - 1].tolist() == list(dict.fromkeys(log["q"]))
    assert found.group.tolist() == [sum(q == one for one, _ in named) for q in dict.fromkeys(log["q"])]
    mean = np.mean(log["c"])
    for k, name in enumerate(named):
        shown, clicks, bought, places = rows[name]
        assert (found.impressions[k], found.clicks[k], found.purchases[k]) == (shown, clicks, bought)
        assert found.ctr[k] == pytest.approx((clicks + 4 * mean) / (shown + 4))
        assert found.position[k] == sorted(places)[(len(places) - 1) // 2]
    assert (np.diff(found.position)[np.diff(found.qid) == 0] >= 0).all()
    counted = zip(found.pairs.tolist(), found.pair_counts.tolist(), strict=True)
    assert {(*named[a], named[b][1]): times for (a, b), times in counted} == pytest.approx(pairs)
    assert dict(zip(dict.fromkeys(log["q"]), found.searches.tolist(), strict=True)) == searches
    cells = Counter((q, d, p - 1) for q, d, p in zip(log["q"], log["d"], log["p"], strict=True))
    placed = found.placements
    at = zip(placed.row.tolist(), placed.position.tolist(), strict=True)
    assert {(*named[row], p): n for (row, p), n in zip(at, placed.impressions.tolist(), strict=True)} == cells
    assert np.bincount(placed.row, placed.clicks).tolist() == found.clicks.tolist()


def test_frames_of_every_kind_are_read_alike():
    pd = pytest.importorskip("pandas")
    log = random_log(2)
    whole = lp.data.from_sessions(log, **NAMES)
    assert (
        repr(whole)
        == f"<Sessions: {len(whole.clicks)} rows, 5 queries, 60 searches, {sum(log['c'])} clicks, {len(whole.pairs)} pairs>"
    )
    assert whole.purchases is None
    assert "purchases" not in whole.frame().columns
    frames = [
        pd.DataFrame(log),
        pd.DataFrame(log).convert_dtypes(),
        pd.DataFrame(log).astype({"c": bool, "q": "category"}),
    ]
    for module, make in (("pyarrow", "table"), ("polars", "DataFrame")):
        if importlib.util.find_spec(module):
            frames.append(getattr(importlib.import_module(module), make)(log))
    for frame in frames:
        found = lp.data.from_sessions(frame, **NAMES)
        back = found.frame()
        assert type(back) is (pd.DataFrame if isinstance(frame, dict) else type(frame))  # the input's kind
        back = back if isinstance(back, pd.DataFrame) else back.to_pandas()
        pd.testing.assert_frame_equal(back, whole.frame(), check_dtype=False)
        np.testing.assert_array_equal(found.pairs, whole.pairs)
    with pytest.raises(lp.LambdaplugError, match="expected a DataFrame of pandas or polars, an Arrow table or a dict"):
        lp.data.from_sessions([1, 2, 3], **NAMES)


GOOD = {"q": [1, 1, 1, 2], "d": list("abca"), "p": [1, 2, 3, 1], "c": [0, 1, 0, 0]}


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        ({}, {"click": "clicks"}, r"click='clicks': there is no such column. There are: q, d, p, c"),
        ({"p": [1, 2, float("nan"), 1]}, {}, r"position='p': expected an integer .* got nan in line 2 .*not shown"),
        ({"p": [1, 2, 2.5, 1]}, {}, "got 2.5 in line 2"),
        ({"p": [1, 2, None, 1]}, {}, "expected an integer from 1 to .* in each line, got .* in line 2"),
        ({"p": ["x", 2, 3, 1]}, {}, "in each line, got x in line 0"),
        ({"p": [0, 1, 2, 0]}, {}, "got 0 in line 0 .*say top=0"),
        (
            {"c": [0, 3, 0, 0]},
            {},
            "click='c': expected an integer from 0 to 1 in each line, got 3 in line 1 .* count as one",
        ),
        ({"c": [0, 1, float("nan"), 0]}, {}, "from 0 to 1 in each line, got nan in line 2"),
        ({"d": list("aaca")}, {}, "document 'd': a stands twice in one impression, in the lines 0 and 1.*session="),
        (
            {"p": [1, 2, 2, 1], "s": [7] * 4},
            {"session": "s"},
            "position 'p': 1 stands twice in one impression, in the lines 1 and 2",
        ),
        ({"q": [1, None, 1, 2]}, {}, "query='q': expected an id in each line, got .* in line 1"),
        ({"d": ["a", float("nan"), "c", "a"]}, {}, "document='d': expected an id in each line, got nan in line 1"),
        ({"c": [0, 1]}, {}, "click='c': expected one value per line .* got 2 beside 4 lines"),
        ({name: [] for name in "qdpc"}, {}, "at least one line"),
        ({}, {"strength": -1}, "strength: expected a finite number >= 0"),
    ],
    ids=str,
)
def test_what_a_log_must_not_hold(change, options, message):
    with pytest.raises(lp.LambdaplugError, match=message):
        lp.data.from_sessions({**GOOD, **change}, **{**NAMES, **options})


def test_pairs_and_rates_of_a_log_order_documents_and_do_not_turn_the_ranking_upside_down():
    data = lp.data.cubic(queries=300, documents=10, features=4)

    def logged(**options):
        log = lp.data.simulate_clicks(data.labels, data.group, users="position", rankings=40, sessions=1, **options)
        table = {"q": data.qid[log.rows], "d": log.rows, "p": log.position + 1, "c": log.count}
        return lp.data.from_sessions(
            {**table, "s": np.repeat(np.arange(len(log.group)), log.group)}, **NAMES, session="s"
        )

    rows = logged(variety=0.7)
    y = data.labels[rows.document]
    better, worse = y[rows.pairs].T
    agree, contradict = rows.pair_counts[better > worse].sum(), rows.pair_counts[better < worse].sum()
    assert agree > 1.5 * contradict  # as they come, more than half contradict
    assert lp.evaluate("ndcg@10", y, rows.rate(lp.estimate_propensities(rows)), rows.group)["ndcg@10"] > 0.9
    np.testing.assert_allclose(rows.rate(np.ones(10)), rows.ctr)
    shuffled = logged(scores=np.random.default_rng(0).normal(size=len(data.labels)))
    y = data.labels[shuffled.document]
    assert np.corrcoef(shuffled.rate(1 / np.arange(1, 11)), y)[0, 1] > np.corrcoef(shuffled.ctr, y)[0, 1] + 0.05
    with pytest.raises(lp.LambdaplugError, match="a propensity for each of 10 positions, got an array of shape"):
        rows.rate([1.0, 0.5])
    with pytest.warns(lp.LambdaplugWarning, match="the engine ranked, upside down"):
        few = logged(variety=0.05).pairs
    with pytest.warns(lp.LambdaplugWarning, match="0% were also shown above"):
        assert not len(logged(variety=0.0).pairs)
    assert len(few) < len(rows.pairs) / 3


# --- propensities --------------------------------------------------------------------------------------------------


def simulated(seed, queries=150, documents=6, **options):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 5, queries * documents)
    given = {"users": "position", "rankings": 3, "sessions": 5, "examination": 1.0, "seed": seed, **options}
    return lp.data.simulate_clicks(labels, [documents] * queries, **given)


@pytest.mark.parametrize("randomized", [False, True])
def test_the_true_curve_lies_in_the_intervals_as_often_as_they_say(randomized):
    inside = []
    for seed in range(60):
        shuffled = {"rankings": 1, "scores": np.random.default_rng(100 + seed).random(900)} if randomized else {}
        log = simulated(seed, **shuffled)
        curve = lp.estimate_propensities(log, randomized=randomized)
        inside += ((curve.low <= log.propensity) & (log.propensity <= curve.high))[1:].tolist()
    assert 0.91 < np.mean(inside) < 0.985  # of 300; 0.95 is said


@pytest.mark.parametrize("examination", [1.0, [1.0, 0.9, 0.5, 0.45, 0.2, 0.25, 0.1, 0.1]])
def test_the_true_curve_is_found(examination):
    log = simulated(0, 600, 8, sessions=20, examination=examination)
    curve, narrower = (lp.estimate_propensities(log, level=level) for level in (0.95, 0.5))
    assert np.abs(curve.propensity - log.propensity).max() < 0.05
    assert (narrower.high < curve.high)[1:].all()


def rows_of(log, documents):
    """Of simulated clicks, as a session log has them."""
    turn = np.tile(np.arange(log.sessions), len(log.rows))
    rows, count, position = (np.repeat(values, log.sessions) for values in (log.rows, log.count, log.position))
    page = np.repeat(np.arange(len(log.group)), log.group)
    table = {"q": rows // documents, "d": rows % documents, "p": position + 1, "c": turn < count}
    return lp.data.from_sessions(
        {**table, "s": np.repeat(page, log.sessions) * log.sessions + turn}, **NAMES, session="s"
    )


def test_a_session_log_and_simulated_clicks_give_the_same_curve():
    log = simulated(5)
    expected, found = (lp.estimate_propensities(one) for one in (log, rows_of(log, 6)))
    for curve in (found, pickle.loads(pickle.dumps(expected))):
        for name in ("propensity", "low", "high"):
            np.testing.assert_allclose(getattr(curve, name), getattr(expected, name), rtol=1e-9)


def test_a_curve_trains_and_plots():
    plt = pytest.importorskip("matplotlib.pyplot")
    log = simulated(1)
    curve = lp.estimate_propensities(log)
    assert repr(curve).startswith("PropensityCurve([1. ")
    inner = lp.LambdaRank("map")
    objective, by_values = (
        lp.Unbiased(inner, "position", propensities=given) for given in (curve, curve.propensity.tolist())
    )
    assert objective == by_values
    scores = np.zeros(len(log.rows))
    given = log.labels, scores, log.group
    corrected = objective.gradients(*given, columns={"position": log.position})[0]
    assert not np.array_equal(corrected, inner.gradients(*given)[0])
    ax = curve.plot(truth=log.propensity)
    assert len(ax.lines) == 2
    assert len(ax.collections) == 1
    plt.close(ax.figure)


def counted(document, position, clicks, query=0, times=10):
    """Rows of a log in which each of these was shown so many times."""
    many = len(document)
    turn = np.tile(np.arange(times), many)
    table = {"q": query, "d": document, "p": position, "c": clicks}
    table = {name: np.repeat(np.broadcast_to(values, many), times) for name, values in table.items()}
    table |= {"c": turn < table["c"], "s": np.arange(many * times)}
    return lp.data.from_sessions(table, **NAMES, session="s", top=0)


def test_positions_that_nothing_links_are_named():
    # Two documents change places at 0 and 1, two at 3 and 4; 5 was never clicked.
    log = counted(list("aabbccdda"), [0, 1, 0, 1, 3, 4, 3, 4, 5], [4, 1, 4, 3, 2, 1, 2, 1, 0])
    with pytest.warns(lp.LambdaplugWarning, match=r"the positions 3, 4, 5 are not known.*to position 0"):
        curve = lp.estimate_propensities(log)
    # sum of c_1 = sum of c n p_1/(n + n p_1)
    np.testing.assert_allclose(curve.propensity, [1.0, 0.5])
    assert curve.low[1] < 0.5 < curve.high[1]  # one query alone: as if clicks were independent


def test_what_propensities_cannot_be_had_from():
    for options, message in (
        ({}, "no two positions are linked by documents .*randomized=True"),
        ({"document": ["a", "a"]}, "linked by documents that were seen and clicked at both"),
        ({"query": [0, 1], "randomized": True}, "no two positions are linked by queries"),
        ({"level": 95}, "level: expected a number between 0 and 1"),
    ):
        asked = {name: options.pop(name) for name in ("randomized", "level") if name in options}
        log = counted(**{"document": ["a", "b"], "position": [0, 1], "clicks": [1, 0], **options})
        with pytest.raises(lp.LambdaplugError, match=message):
            lp.estimate_propensities(log, **asked)
    with pytest.raises(lp.LambdaplugError, match=r"expected rows made of a log, lp.data.from_sessions\(frame"):
        lp.estimate_propensities(GOOD)


# --- simulated clicks ----------------------------------------------------------------------------------------------


def test_simulated_clicks_are_biased_by_label_position_and_taste():
    data = lp.data.cubic(queries=60, documents=15, features=6, terms=8, noise=0.2)
    clicks = lp.data.simulate_clicks(data.labels, data.group, sessions=400)
    np.testing.assert_array_equal(clicks, lp.data.simulate_clicks(data.labels, data.group, sessions=400))
    assert clicks.min() >= 0.0
    assert clicks.reshape(60, 15).sum(axis=1).max() <= 1.0 + 1e-12  # one last click a session
    assert clicks[data.labels >= 3].mean() > 2 * clicks[data.labels == 0].mean()

    def by_rank(labels, **options):
        n = len(labels)
        shown = {"scores": np.tile(-np.arange(float(n)), 200), "group": np.full(200, n)}
        return lp.data.simulate_clicks(np.tile(labels, 200), **shown, **options).reshape(200, n).mean(axis=0)

    for examination in (1.0, 0.3):  # satisfied users stop, and do not drift to the bottom
        found = by_rank([4] + [0] * 19, examination=examination)
        assert found[0] > 0.4 > 0.03 > found[1:].max()
    flat = by_rank([1] * 10, chances=(0.1, 0.3))
    assert flat[0] > flat[4]
    tasted = by_rank([1, 1], taste=np.tile([-2.0, 2.0], 200), examination=0.0)
    assert tasted[1] > 3 * tasted[0]
    for labels, group, message in (([1, 1], [3], "add up to 3"), ([7], [1], "labels 0 to 4 have a click chance")):
        with pytest.raises(lp.LambdaplugError, match=message):
            lp.data.simulate_clicks(labels, group)
