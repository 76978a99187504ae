"""Prove a measure: its swap delta and the direction of its forces against exchanging the documents and measuring again,
and its fast gradients, which rest on what its flags promise, against exact ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .custom import Custom
from .errors import LambdaplugError
from .kernels import value_kernel
from .measures import CNDCG, Array, Measure, Prepared, as_measure, query_deltas
from .objectives import LambdaRank
from .queries import Column, Labels, PerQuery, Queries
from .rows import row_order
from .tables import Report

__all__ = ["Counterexample", "Verification", "verify"]

SHORT = 8
LONGER = (12, 17, 24, 33)  # once each: what is wrong further down
DEEPEST = 200  # a cut-off up to here has lists that go beyond it
TOLERANCE = 1e-12  # of the largest value that the list has in any order tried
SCALED = 1e-9  # instead, where there is a scale: ERR's divides by 1 - gain, which may be next to 0
FAST = 1e-4  # of a document's hessian, a sum of what cannot cancel, float32 may lose this much: usually it is 1e-6
FAST_FORCE = 1e-2  # and of its gradient, in units of the hessian, which is the smaller one
FAST_ROUNDING = 1e-9  # of the query's largest hessian: deltas that are nothing beside the others
DEEP = 100  # documents of one label, below which others differ by deltas far smaller than what they are subtracted from
MISSING = 0.25  # of the labels, in lists with missing ones
ROUNDING = 1e-14  # of the largest of all lists: values may cancel to nothing, their last digits do not


class Counterexample(NamedTuple):
    """Ranked labels of one query, of which the documents at positions i < j (from 0) change places."""

    labels: list[float]
    i: int
    j: int
    expected: float  # |value after - value before|, with columns its sign, too
    got: float  # |delta|, or the delta

    def __str__(self) -> str:
        labels = ", ".join(f"{label:g}" for label in self.labels)
        return (
            f"ranked labels [{labels}]: exchanging positions {self.i} and {self.j} changes the value by "
            f"{self.expected:.10g}, the delta says {self.got:.10g}"
        )


@dataclass(frozen=True, repr=False)
class Verification(Report):
    """What :func:`verify` found; true if every delta was right, no force works against the value and every flag holds."""

    measure: str
    ok: bool
    pairs: int  # swaps compared
    longest: int  # documents in the longest list
    worst: float  # the largest difference
    counterexample: Counterexample | None  # the first one, on the shortest list
    note: str = ""
    backwards: bool = False  # the counterexample's delta is right, and its force works towards the lower value
    flag: str = ""  # what is wrong with the measure's flags, where its delta is right

    def __bool__(self) -> bool:
        return self.ok

    def __str__(self) -> str:
        tried = f"all {self.pairs} pairs of lists of up to {self.longest} documents"
        verdict = f"the delta equals the swap in {tried} (largest difference {self.worst:.1e})."
        if self.backwards:
            verdict = (
                "forces are BACKWARDS: they push up the document with the higher gain, and the value falls when it rises. "
                f"First: {self.counterexample}."
            )
        elif self.counterexample is not None:
            verdict = f"the delta is WRONG (largest difference {self.worst:.3g}). First: {self.counterexample}."
        elif self.flag:
            verdict = f"a flag is WRONG: {self.flag}"
        return f"{self.measure}: {verdict}{' ' if self.note else ''}{self.note}"


def verify(
    measure: str | Measure, *, trials: int = 200, labels: npt.ArrayLike | None = None, seed: int = 0
) -> Verification:
    """Compare a measure's delta with the brute-force swap, for every pair of random label lists.

    Also check that a step along the forces does not lower the value: a pair's force pushes up the document with the
    higher gain, so exchanging the two must not raise the value where that one stands above, nor lower it where it stands
    below. And check what the measure's class promises (``symmetric``, ``greater``, ``coarse``, ``scaled``,
    ``unlabelled``): the fast gradients of lp.LambdaRank, which rely on it, must be the exact ones.

    Parameters
    ----------
    measure : str or Measure
        Usually one of ``lp.custom``.
    trials : int
        So many lists have 0 to 8 documents; a few more have up to 33, and with a cut-off k up to k + 4 (for k to 200). They
        come with many ties and in growing length, so the counter-example reported first is a short one.
    labels : sequence, optional
        The label values to draw from; default 0, 1, 2, 3, 4, or what the measure takes. Columns are drawn from the
        measure's own.
    seed : int
        Of the lists.

    Returns
    -------
    Verification
        With ``.ok``; it prints what was found.

    Examples
    --------
    >>> verify("p@3")
    p@3: the delta equals the swap in all 2854 pairs of lists of up to 33 documents (largest difference 5.6e-17).
    >>> verify("map").ok
    True
    """
    kind = as_measure(measure)
    values = _label_values(kind) if labels is None else np.asarray(labels, dtype=np.float64).ravel()
    if not values.size or not np.isfinite(values).all():
        raise LambdaplugError(f"verify: labels= are the finite label values to draw from, got {labels!r}.")
    if isinstance(trials, bool) or not isinstance(trials, (int, np.integer)) or trials < 1:
        raise LambdaplugError(f"verify: trials must be an integer >= 1, got {trials!r}.")
    drawn = _draw(kind.cutoff, values, int(trials), np.random.default_rng(seed))
    sizes = np.array([len(labels) for labels in drawn])
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    ranked = np.concatenate([*drawn, np.empty(0)])
    kind = _with_drawn_columns(kind, sizes, np.random.default_rng(seed + 2))
    prepared = kind.prepared_for(Queries(ranked, sizes))

    query, i, j = _all_pairs(sizes)
    if kind.reach is not None:
        near = j - i <= kind.reach
        query, i, j = query[near], i[near], j[near]
    before = _values(kind, prepared, prepared.gain, offsets)
    # Each pair's list once more, one after the other, with the two gains exchanged.
    places = np.concatenate([[0], np.cumsum(sizes[query])])
    swapped = prepared.gain[np.arange(places[-1]) + np.repeat(offsets[query] - places[:-1], sizes[query])]
    a, b = places[:-1] + i, places[:-1] + j
    swapped[a], swapped[b] = swapped[b], swapped[a]
    after = _values(kind, prepared, swapped, places)
    for found, of in ((before, np.arange(len(sizes))), (after, query)):
        wrong = np.flatnonzero(~np.isfinite(found) & (prepared.norm[of] != 0.0))
        if len(wrong):
            raise LambdaplugError(
                f"verify: {kind!r} is {found[wrong[0]]} for an order of the labels {drawn[of[wrong[0]]].tolist()}."
            )
    with np.errstate(invalid="ignore"):
        change = (after - before[query]) * prepared.norm[query]
    signed = kind.pair_delta().signed
    expected = np.where(prepared.norm[query] == 0.0, 0.0, change if signed else np.abs(change))
    if getattr(kind, "gains_only", False):
        expected = np.where(change > 0.0, expected, 0.0)
    deltas = [query_deltas(kind, prepared, offsets, q) for q in range(len(sizes))]
    got = np.array([deltas[q][a, b] for q, a, b in zip(query, i, j, strict=True)])
    difference = np.abs(got - expected)
    difference[np.isnan(difference)] = np.inf
    scale = np.zeros(len(sizes))
    with np.errstate(invalid="ignore"):
        sized = np.maximum(np.abs(before[query]), np.abs(after)) * np.abs(prepared.norm[query])
    np.maximum.at(scale, query, np.where(prepared.norm[query] == 0.0, 0.0, sized))
    allowed = np.maximum((SCALED if kind.scaled else TOLERANCE) * scale, ROUNDING * scale.max(initial=0.0))
    wrong = np.flatnonzero(difference > allowed[query])
    # The pair's force works towards the higher grade above.
    towards = np.sign(prepared.grade[offsets[query] + j] - prepared.grade[offsets[query] + i])
    against = np.flatnonzero((got > 0.0) & (towards * change < -allowed[query]) & (not signed))
    first = None
    if len(wrong) or len(against):
        p = int((*wrong, *against)[0])
        lists = drawn[query[p]].tolist()
        first = Counterexample(lists, int(i[p]), int(j[p]), float(expected[p]), float(got[p]))
    worst = float(difference.max(initial=0.0))
    backwards = len(against) > 0 and not len(wrong)
    flag = "" if first is not None else _wrong_flag(kind, drawn, np.random.default_rng(seed + 1))
    ok = first is None and not flag
    return Verification(str(kind), ok, len(query), int(sizes[-1]), worst, first, _note(kind), backwards, flag)


def _with_drawn_columns(kind: Measure, sizes: npt.NDArray[np.int64], rng: np.random.Generator) -> Measure:
    """The measure with columns for lists of these sizes: rows of its own, drawn together; cut-offs per query likewise."""
    drawn: dict[str, Any] = {}
    for name, several in kind.columns.items():
        if any(isinstance(one, Column) or not len(one) for one in several):
            raise LambdaplugError(f"verify: the column {name!r} has no rows here: expected an array to draw from.")
    length = min((len(one) for several in kind.columns.values() for one in several), default=0)
    rows = rng.integers(0, length, int(sizes.sum())) if length else np.empty(0, np.int64)
    for name, several in kind.columns.items():
        drawn[name] = np.stack([one.values[rows] for one in several], axis=1)
    if isinstance(k := getattr(kind, "k", None), PerQuery):
        drawn["k"] = rng.choice(k.values, len(sizes))
    return kind.with_columns(drawn) if drawn else kind


def _wrong_flag(kind: Measure, drawn: list[Array], rng: np.random.Generator) -> str:
    """What the measure's class promises and does not hold; a measure without swap rows promises nothing."""
    if not kind.by_rows:
        return ""
    ranked = np.concatenate(drawn)
    middle, lowest = np.sort(np.unique(ranked))[[-1 - len(np.unique(ranked)) // 2, 0]]
    deep = np.concatenate([np.full(DEEP, middle), rng.choice([lowest, middle], DEEP)])
    sizes = np.array([*map(len, drawn), len(deep)])
    labels = np.concatenate([ranked, deep])
    holed = np.where(rng.random(len(labels)) < MISSING, np.nan, labels)
    kind = _with_drawn_columns(kind, sizes, rng)
    return _unlabelled(kind, holed, sizes) or _slow(kind, labels, sizes)


def _unlabelled(kind: Measure, holed: Array, sizes: npt.NDArray[np.int64]) -> str:
    """``unlabelled`` must be NaN if and only if the functions tell a document without a label from one with gain 0."""
    if isinstance(kind, Custom) or kind.tabled:  # its functions are never shown a NaN
        return ""
    queries = Queries(np.zeros(len(holed)), sizes)
    offsets = queries.offsets
    prepared, missing = kind.prepared_for(queries, Labels(holed)), np.isnan(holed)
    known, none = (_values(kind, prepared, np.where(missing, gain, prepared.gain), offsets) for gain in (np.nan, 0.0))
    if np.isnan(kind.unlabelled):
        wrong = ~np.isfinite(known) & np.isfinite(none)
        said = "unlabelled is NaN, and for lists with such a gain the value is not finite: it should be 0."
    else:
        wrong = np.isfinite(known) & (known != none)
        said = "unlabelled is 0, and value() counts a gain of NaN in another way than 0: it should be NaN."
    return said if wrong.any() else ""


def _slow(kind: Measure, labels: Array, sizes: npt.NDArray[np.int64]) -> str:
    """Whether the fast gradients of these lists are the exact ones; if not, the first list where they are not."""
    rng = np.random.default_rng(len(labels))
    scores = np.concatenate([np.sort(rng.normal(size=n))[::-1] for n in sizes.tolist()])
    objective, queries = LambdaRank(kind), Queries(labels, sizes)
    fast, exact = (objective.differentiate(queries, scores, dtype=np.float64, exact=exact) for exact in (False, True))
    largest = np.zeros(len(sizes))
    query = np.repeat(np.arange(len(sizes)), sizes)
    np.maximum.at(largest, query, exact[1])
    slack = FAST_ROUNDING * largest[query]
    for what, share, got, expected in zip(
        ("hessian", "gradient"), (FAST, FAST_FORCE), fast[::-1], exact[::-1], strict=True
    ):
        wrong = np.flatnonzero(~(np.abs(got - expected) <= share * exact[1] + slack))
        if len(wrong):
            row = int(wrong[0])
            own = np.flatnonzero(query == query[row])
            ranked = ", ".join(f"{label:g}" for label in labels[own][:40])
            more = ", ..." if len(own) > 40 else ""
            return (
                "lp.LambdaRank's fast gradients, which rely on symmetric, greater, coarse and scaled, are not the exact "
                f"ones. First: ranked labels [{ranked}{more}], the {what} of position {row - own[0]} is "
                f"{expected[row]:.6g}, the fast one {got[row]:.6g}."
            )
    return ""


def _draw(k: int | None, values: Array, trials: int, rng: np.random.Generator) -> list[Array]:
    """Label lists in growing length."""
    beyond = (k + 1, k + 4) if k is not None and SHORT < k <= DEEPEST else ()
    sizes = np.sort(np.concatenate([np.arange(trials) % (SHORT + 1), [*LONGER, *beyond]]).astype(np.int64))
    # Half of the lists draw from two values only: ties, and queries where nothing or everything is relevant.
    return [rng.choice(values if t % 2 else rng.choice(values, 2), size=n) for t, n in enumerate(sizes.tolist())]


def _note(measure: Measure) -> str:
    if isinstance(measure, Custom) and measure.brute_force:
        promise = "" if measure.k is None else "k= and "
        return f"It has no delta= and is trained by brute-force swaps, so this proves {promise}their direction alone."
    if measure.reach is not None:
        return f"Compared for documents at most {measure.reach} apart: by its definition it is the pair's alone."
    return ""


def _label_values(measure: Measure) -> Array:
    gain, top = getattr(measure, "gain", getattr(measure, "click", None)), getattr(measure, "max_label", None)
    if isinstance(measure, CNDCG):
        return np.arange(5) / 4.0
    return np.arange(len(gain) if isinstance(gain, tuple) else 5 if top is None else int(top) + 1, dtype=np.float64)


def _all_pairs(sizes: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], ...]:
    """The query and the two positions i < j of every pair."""
    pairs = [(q, i, j) for q, n in enumerate(sizes.tolist()) for i in range(n) for j in range(i + 1, n)]
    query, i, j = np.array(pairs, dtype=np.int64).reshape(-1, 3).T
    return query, i, j


def _values(measure: Measure, prepared: Prepared, gain: Array, offsets: npt.NDArray[np.int64]) -> Array:
    """The raw value of each list as it stands."""
    out = np.zeros(len(offsets) - 1)
    scratch = np.empty(int(np.diff(offsets).max(initial=0)))
    measure.run(
        value_kernel(measure.value),
        gain,
        prepared.discount,
        prepared.k,
        (offsets, 0, len(out), row_order(offsets)),
        scratch,
        out,
    )
    return out
