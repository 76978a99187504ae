"""Check a measure: its swap delta and the direction of its forces against exchanging the documents and measuring again,
and its fast gradients, which rest on what its flags promise, against exact ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .checking import integer
from .columns import given
from .custom import Custom
from .errors import LambdaplugError
from .evaluation import Part, per_query_values
from .kernels import value_kernel
from .measures import CNDCG, Array, Measure, Prepared, as_measure, query_deltas
from .objectives import LambdaRank
from .queries import Queries
from .reports import Report
from .rows import row_order

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
ROUNDING = 1e-14  # of the largest of all lists: values may cancel to nothing, their last digits do not


class Counterexample(NamedTuple):
    """Ranked labels of one query, of which the documents at positions i < j (from 0) change places."""

    labels: list[float]
    i: int
    j: int
    expected: float  # |value after - value before|, with columns its sign, too
    got: float  # |delta|, or the delta

    def __str__(self) -> str:
        return (
            f"ranked labels [{_listed(self.labels)}]: exchanging positions {self.i} and {self.j} changes the value by "
            f"{self.expected:.10g}, the delta says {self.got:.10g}"
        )


@dataclass(frozen=True, repr=False)
class Verification(Report):
    """What :func:`verify` found; true if every delta was right, no force works against the value and every flag holds."""

    measure: str
    pairs: int  # swaps compared
    longest: int  # documents in the longest list
    worst: float  # the largest difference
    counterexample: Counterexample | None  # the first one, on the shortest list
    fault: str  # what is wrong, if anything is
    note: str = ""

    @property
    def ok(self) -> bool:
        return not self.fault

    def __bool__(self) -> bool:
        return self.ok

    def __str__(self) -> str:
        right = (
            f"the delta equals the swap in all {self.pairs} pairs of lists of up to {self.longest} documents (largest "
            f"difference {self.worst:.1e})."
        )
        return f"{self.measure}: {self.fault or right} {self.note}".rstrip()


def verify(
    measure: str | Measure,
    *,
    trials: int = 200,
    labels: npt.ArrayLike | None = None,
    columns: Mapping[str, npt.ArrayLike] | None = None,
    seed: int = 0,
) -> Verification:
    """Compare a measure's delta with the brute-force swap, for every pair of random label lists.

    Also check that a step along the forces does not lower the value: a pair's force pushes up the document with the
    higher gain, so exchanging the two must not raise the value where that one stands above, nor lower it where it stands
    below. And check that the fast gradients of lp.LambdaRank are the exact ones: they rely on what the measure's class
    promises (``symmetric``, ``greater``, ``coarse``, ``scaled``).

    Parameters
    ----------
    measure : str or Measure
        Usually one of ``lp.custom``.
    trials : int
        So many lists have 0 to 8 documents; a few more have up to 33, and with a cut-off k up to k + 4 (for k to 200). They
        come with many ties and in growing length, so the counter-example reported first is a short one.
    labels : sequence, optional
        The label values to draw from; default 0, 1, 2, 3, 4, or what the measure takes.
    columns : mapping, optional
        For a measure with columns: by name the values, or the rows of a table, to draw from, those of several columns together.
    seed : int
        Of the lists.

    Returns
    -------
    Verification
        With ``.ok``; it prints what was found.

    Examples
    --------
    >>> verify("p@3")
    p@3: the delta equals the swap in all 3476 pairs of lists of up to 33 documents (largest difference 5.6e-17).
    >>> verify("map").ok
    True
    """
    kind = as_measure(measure)
    values = _label_values(kind) if labels is None else np.asarray(labels, dtype=np.float64).ravel()
    if not values.size or not np.isfinite(values).all():
        raise LambdaplugError(f"verify: labels= are the finite label values to draw from, got {labels!r}.")
    rng = np.random.default_rng(seed)
    drawn = _draw(kind.cutoff, values, integer(trials, "verify: trials"), rng)
    queries = _queries(kind, drawn, columns, rng)
    prepared = kind.prepared_for(queries)
    signed = kind.pair_delta(prepared=prepared).signed
    values = per_query_values([Part(kind)], queries, np.zeros(len(queries.labels)))[0]
    rounding, tolerance = ROUNDING * np.nan_to_num(np.abs(values)).max(), SCALED if kind.scaled else TOLERANCE

    pairs, worst = 0, 0.0
    first: dict[bool, Counterexample] = {}  # by whether the force is backwards, and the delta right
    for q, ranked in enumerate(drawn[:-1]):  # the last one is too long for this
        i, j, before, after = _exchanged(kind, prepared, queries.offsets, q)
        pairs += len(i)
        norm = prepared.norm[q]
        if not len(i) or norm == 0.0:
            continue
        scale = float(np.abs([before, *after]).max() * abs(norm))
        if not np.isfinite(scale):
            raise LambdaplugError(f"verify: {kind} is not finite for an order of the labels {ranked.tolist()}.")
        change = (after - before) * norm
        expected = change if signed else np.abs(change)
        if getattr(kind, "gains_only", False):
            expected = np.where(change > 0.0, expected, 0.0)
        got = query_deltas(kind, prepared, queries.offsets, q)[i, j]
        difference = np.nan_to_num(np.abs(got - expected), nan=np.inf)
        worst = max(worst, float(difference.max()))
        # The pair's force works towards the higher grade above.
        grade = prepared.grade[queries.offsets[q] : queries.offsets[q + 1]]
        against = np.where((got > 0.0) & (not signed), -np.sign(grade[j] - grade[i]) * change, 0.0)
        for size, backwards in ((difference, False), (against, True)):
            wrong = np.flatnonzero(size > max(tolerance * scale, rounding))
            if len(wrong):
                p = wrong[0]
                numbers = int(i[p]), int(j[p]), float(expected[p]), float(got[p])
                first.setdefault(backwards, Counterexample(ranked.tolist(), *numbers))
    brute_force = isinstance(kind, Custom) and kind.brute_force
    note = "It has no delta=, and is trained by brute-force swaps: checked are k=, if any, and the forces' direction."
    if False in first:
        fault = f"the delta is WRONG (largest difference {worst:.3g}). First: {first[False]}."
        note = (
            f"It has no delta=, so it is k={kind.cutoff} that does not hold: what stands below changes the value too."
        )
    elif first:
        fault = (
            "forces are BACKWARDS: they push up the document with the higher gain, and the value falls when it rises. "
            f"First: {first[True]}."
        )
    else:
        fault = _wrong_flag(kind, queries, rng) if kind.by_rows else ""
    example = first.get(False, first.get(True))
    return Verification(str(kind), pairs, len(drawn[-2]), worst, example, fault, note if brute_force else "")


def _exchanged(
    kind: Measure, prepared: Prepared, offsets: npt.NDArray[np.int64], q: int
) -> tuple[Any, Any, float, Array]:
    """Every two positions i < j of a list, its value, and its value with the two documents exchanged."""
    gain = prepared.gain[offsets[q] : offsets[q + 1]]
    i, j = np.triu_indices(len(gain), 1)
    near = j - i <= (len(gain) if kind.reach is None else kind.reach)
    i, j = i[near], j[near]
    lists, each = np.tile(gain, (len(i) + 1, 1)), np.arange(len(i))
    lists[each, i], lists[each, j] = gain[j], gain[i]
    own, out = np.arange(len(lists) + 1) * len(gain), np.zeros(len(lists))
    kernel, ruler = value_kernel(kind.value), (prepared.discount, prepared.k, (own, 0, len(lists), row_order(own)))
    kind.run(kernel, lists.ravel(), *ruler, np.empty(len(gain)), out)
    return i, j, float(out[-1]), out[:-1]


def _queries(kind: Measure, lists: list[Array], columns: Mapping[str, Any] | None, rng: np.random.Generator) -> Queries:
    """These lists, with rows of the columns that are given, drawn together, and cut-offs per query likewise."""
    sizes = np.array([len(ranked) for ranked in lists])
    how = "lp.verify(measure, columns={{{name!r}: values}}), of which values are drawn"
    known = replace(given(columns, ()), where="verify", how=how)
    own = {name: known.find(name) for name in kind.columns}
    per_query = getattr(kind, "k", None)
    length = min((len(values) for name, values in own.items() if name != per_query), default=1)
    rows = rng.integers(0, length, int(sizes.sum()))
    drawn = {
        name: rng.choice(values, len(sizes)) if name == per_query else values[rows] for name, values in own.items()
    }
    return Queries(np.concatenate(lists), sizes, columns=drawn)


def _wrong_flag(kind: Measure, queries: Queries, rng: np.random.Generator) -> str:
    """Whether the fast gradients are the exact ones; if not, the first row where they are not."""
    scores = np.concatenate([np.sort(rng.normal(size=n))[::-1] for n in queries.sizes.tolist()])
    objective = LambdaRank(kind)
    fast, exact = (np.array(objective.differentiate(queries, scores, exact=x, dtype=np.float64)) for x in (False, True))
    largest = [hessian.max(initial=0.0) for hessian in np.split(exact[1], queries.offsets[1:-1])]
    allowed = np.array([[FAST_FORCE], [FAST]]) * exact[1] + FAST_ROUNDING * np.repeat(largest, queries.sizes)
    wrong = np.argwhere(~(np.abs(fast - exact) <= allowed).T)
    if not len(wrong):
        return ""
    row, what = wrong[0].tolist()
    q = int(np.searchsorted(queries.offsets, row, "right")) - 1
    start, end = queries.offsets[q : q + 2].tolist()
    return (
        "a flag is WRONG: lp.LambdaRank's fast gradients, which rely on symmetric, greater, coarse and scaled, are not the "
        f"exact ones. First: ranked labels [{_listed(queries.labels[start:end])}], the {('gradient', 'hessian')[what]} of "
        f"position {row - start} is {exact[what, row]:.6g}, the fast one {fast[what, row]:.6g}."
    )


def _listed(labels: Any) -> str:
    return ", ".join(f"{label:g}" for label in labels)


def _draw(k: int | None, values: Array, trials: int, rng: np.random.Generator) -> list[Array]:
    """Label lists in growing length, and a long one."""
    beyond = (k + 1, k + 4) if k is not None and SHORT < k <= DEEPEST else ()
    sizes = np.concatenate([np.arange(trials) % (SHORT + 1), [*LONGER, *beyond]]).astype(np.int64)
    # Half of the lists draw from two values only: ties, and queries where nothing or everything is relevant.
    lists = [rng.choice(values if t % 2 else rng.choice(values, 2), size=n) for t, n in enumerate(sizes.tolist())]
    for n in (SHORT, LONGER[0], LONGER[-1], *beyond):  # sparse: the only one of its label among the last three
        lists.append(np.full(n, values.min()))
        lists[-1][n - rng.integers(1, 4)] = values.max()
    known = np.sort(values)
    middle = known[(len(known) - 1) // 2]
    deep = np.append(np.full(DEEP, middle), rng.choice([known[0], middle], DEEP))
    return [*sorted(lists, key=len), deep]


def _label_values(measure: Measure) -> Array:
    gain, top = getattr(measure, "gain", getattr(measure, "click", None)), getattr(measure, "max_label", None)
    if isinstance(measure, CNDCG):
        return np.arange(5) / 4.0
    return np.arange(len(gain) if isinstance(gain, tuple) else 5 if top is None else int(top) + 1, dtype=np.float64)
