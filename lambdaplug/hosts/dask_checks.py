"""Data on Dask looked at by the workers that hold it, before a training: what would train wrongly is refused."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from dask import delayed

from ..errors import LambdaplugError
from ..evaluation import Metric
from ..measures import Measure
from ..objectives import Objective
from ..objectives.base import MeasureObjective
from ..queries import Column, Labels, group_sizes, vector
from ..rows import one_a_query, sizes_of
from .dask_layout import LAY_OUT, is_dask, known, like, parts_of, values_of, whole_rows
from .recorder import Recorder

__all__ = [
    "Columns",
    "Laid",
    "Look",
    "check",
    "kind_of",
    "lay",
    "look",
    "lost",
    "measures_of",
    "refuse_async",
    "refuse_local_scales",
    "refuse_recorders",
    "require",
]


class Look(NamedTuple):
    """One partition, as the worker that holds it sees it."""

    rows: int
    columns: int
    lengths: dict[str, int]  # of what has one value per row
    wrong: dict[str, int]  # how many values no host can train with
    ids: npt.NDArray[Any]  # the query id of each run of rows; empty where sizes were given
    sizes: npt.NDArray[np.int64]
    top: float  # the highest label
    uneven: bool  # weights differ within a query


def look(X: Any, y: Any, qid: Any, group: Any, others: dict[str, Any]) -> Look:
    labels = vector(values_of(y), "y")
    lengths = {"y": len(labels), **{name: part.shape[0] for name, part in others.items()}}
    wrong = {"y": int((~np.isfinite(labels)).sum())}
    if qid is None:
        ids, sizes = np.empty(0), group_sizes(values_of(group))
        lengths["group"] = int(sizes.sum())
    else:
        values = known(values_of(qid))
        sizes = sizes_of(values)
        ids = values[np.cumsum(sizes) - sizes]
        lengths["qid"] = len(values)
    weight = vector(values_of(others.get("sample_weight", ())), "sample_weight").astype(np.float32)  # LightGBM's type
    wrong["sample_weight"] = int((~(np.isfinite(weight) & (weight >= 0))).sum())
    uneven = len(weight) == sizes.sum() and len(weight) > 0 and one_a_query(weight, sizes) is None
    return Look(X.shape[0], X.shape[1], lengths, wrong, ids, sizes, top_of(labels), uneven)


def top_of(labels: npt.NDArray[Any]) -> float:
    """The highest label; rows without one do not count."""
    return float(np.fmax.reduce(labels, initial=-np.inf))


def check(looks: Sequence[Look], unit: str = "partition") -> None:
    """Refuse rows that do not fit together, values that no host trains with and queries that are cut.

    A worker that finds such a thing itself, in the training, leaves the others waiting for it.
    """
    if not any(one.rows for one in looks):
        raise LambdaplugError("there are no rows to train on.")
    widths = {one.columns: number for number, one in enumerate(looks) if one.rows}
    if len(widths) > 1:
        said = " and ".join(f"{width} in {unit} {number}" for width, number in list(widths.items())[:2])
        raise LambdaplugError(f"X: expected the same number of columns everywhere, got {said}.")
    for number, one in enumerate(looks):
        for name, length in one.lengths.items():
            if length != one.rows:
                what = f"the sizes in group add up to {length}" if name == "group" else f"{name} has {length}"
                raise LambdaplugError(
                    f"{unit} {number} of X has {one.rows} rows, and {what}. All must be partitioned alike: "
                    "rechunk or repartition them together, or lay them out with lp.dask.partition_by_query(X, y, qid, ...)."
                )
        for name, count in one.wrong.items():
            if count:
                what = "finite numbers >= 0" if name == "sample_weight" else "a finite label in every row"
                raise LambdaplugError(
                    f"{name}: expected {what}, and {unit} {number} has {count} of its {one.rows} rows with something "
                    "else (NaN, for example). Drop those rows, or give them a value."
                )
    filled = [one.ids for one in looks if len(one.ids)]  # an empty one may be of another type, and change the ids
    ids = np.concatenate(filled) if filled else np.empty(0)
    where = np.repeat(np.arange(len(looks)), [len(one.ids) for one in looks])
    sizes = np.concatenate([one.sizes for one in looks]) if len(ids) else np.empty(0, np.int64)
    different, which, counts = np.unique(ids, return_inverse=True, return_counts=True)
    if len(different) == len(ids):
        return
    cut = np.flatnonzero(counts > 1)
    pieces = np.flatnonzero(which == cut[0])
    said = " and ".join(f"{sizes[piece]} rows in {unit} {where[piece]}" for piece in pieces[:3])
    first = different[cut[:1]].tolist()[0]
    raise LambdaplugError(
        f"the {unit}s hold {len(ids)} queries of {len(different)} different ids: {len(cut)} are cut, the first being "
        f"query {first!r}, with {said}. Each worker would rank its piece alone. {LAY_OUT}"
    )


@dataclass(frozen=True)
class Laid:
    """A data set whose partitions were looked at and found right; those without rows are left out."""

    X: Any
    parts: dict[str, list[Any]]  # y, qid or group, and all else, by name
    looks: list[Look]
    kept: list[int]  # which of the given partitions these are
    given: int  # how many there were
    held: list[Any]  # what must stay on the workers as long as this does

    @property
    def rows(self) -> list[int]:
        return [one.rows for one in self.looks]

    @property
    def queries(self) -> list[int]:
        return [len(one.sizes) for one in self.looks]


def lay(client: Any, X: Any, y: Any, qid: Any = None, group: Any = None, **others: Any) -> Laid:
    """Have the workers look at a data set; refuse one that could not be trained on rightly."""
    if qid is None and group is None:
        raise LambdaplugError("no queries: a ranking objective needs to know which rows belong together. Pass qid=.")
    if qid is not None and group is not None:
        raise LambdaplugError(
            "qid and group: expected one of them, got both. Pass qid=, which cannot be misaligned unnoticed."
        )
    named = {"y": y, "qid": qid, "group": group, **others}
    named = {name: one for name, one in named.items() if one is not None}
    for name, one in {"X": X, **named}.items():
        if not is_dask(one):
            raise LambdaplugError(f"{name}: expected a Dask collection, got {type(one).__name__}. {LAY_OUT}")
    X, *held = (client.persist(one) for one in (whole_rows(X), *named.values()))
    parts = {"X": parts_of(X), **{name: parts_of(one) for name, one in zip(named, held, strict=True)}}
    count = len(parts["X"])
    for name, some in parts.items():
        if len(some) != count:
            raise LambdaplugError(f"{name}: expected {count} partitions, as X has, got {len(some)}. {LAY_OUT}")
    tasks = [
        delayed(look)(
            *(parts["X"][i], parts["y"][i], parts["qid"][i] if "qid" in parts else None),
            *(
                parts["group"][i] if "group" in parts else None,
                {name: parts[name][i] for name in others if name in parts},
            ),
        )
        for i in range(count)
    ]
    looks: list[Look] = client.gather(client.compute(tasks))
    check(looks)
    kept = [i for i, one in enumerate(looks) if one.rows]
    parts = {name: [some[i] for i in kept] for name, some in parts.items()}
    if len(kept) < count:
        X = like(X, parts["X"], [looks[i].rows for i in kept])
    return Laid(X, parts, [looks[i] for i in kept], kept, count, held)


def _measured(part: Any) -> tuple[int, float]:
    labels = values_of(part).astype(np.float64)
    return len(labels), top_of(labels)


class Columns:
    """The Dask columns that an objective and its metrics name, and which data sets they belong to."""

    def __init__(self, client: Any, sources: Sequence[Labels]) -> None:
        self.parts: dict[str, list[Any]] = {}
        self.held: list[Any] = []  # on the workers as long as this is here
        for source in dict.fromkeys(sources):
            if not isinstance(source, Column):
                raise LambdaplugError(
                    "labels=: an array cannot follow the rows to the workers. Pass a Dask column with the partitions of "
                    "the data: dX, dy, dq, dclicks = lp.dask.partition_by_query(X, y, qid, clicks)."
                )
            if source.collection is None:
                raise LambdaplugError("labels=: a Dask column does not survive a pickle. Build the objective again.")
            self.held.append(client.persist(source.collection))
            self.parts[source.name] = parts_of(self.held[-1])
        measured = client.compute([delayed(_measured)(part) for parts in self.parts.values() for part in parts])
        found = iter(client.gather(measured))
        self.measured = {name: [next(found) for _ in parts] for name, parts in self.parts.items()}
        self.lengths = {name: [length for length, _ in some] for name, some in self.measured.items()}

    def tops(self, source: Labels) -> set[float]:
        """The highest labels of a column's partitions."""
        return {top for length, top in self.measured[source.name] if length} if isinstance(source, Column) else set()

    def of(
        self, sources: Sequence[Labels], kept: Sequence[int], given: int, rows: Sequence[int]
    ) -> dict[str, list[Any]]:
        """Those of these sources whose partitions have the rows of these, by name."""
        wanted = {source.name for source in sources if isinstance(source, Column)}
        return {
            name: [self.parts[name][i] for i in kept]
            for name, lengths in self.lengths.items()
            if name in wanted
            and (len(lengths) == given and sum(lengths) == sum(rows) and [lengths[i] for i in kept] == list(rows))
        }


def require(columns: Columns, sources: Sequence[Labels], found: Sequence[dict[str, list[Any]]], data: str) -> None:
    """Refuse sources that belong to none of these data sets."""
    for source in sources:
        if isinstance(source, Column) and not any(source.name in one for one in found):
            raise LambdaplugError(
                f"labels=: a Dask column with partitions of {columns.lengths[source.name]} rows does not fit {data}. "
                "Lay it out with the rows: dX, dy, dq, dclicks = lp.dask.partition_by_query(X, y, qid, clicks)."
            )


def lost(client: Any, before: set[str]) -> LambdaplugError | None:
    """What to say about workers that were there before."""
    gone = sorted(before - set(client.ncores()))
    if not gone:
        return None
    return LambdaplugError(
        f"the training ended because {len(gone)} of {len(before)} workers were lost: {', '.join(gone[:3])}. Killed, out of "
        "memory or cut off; their own logs say more. What is still there can be trained on again."
    )


def kind_of(data: Any) -> str:
    """What was given for data, in words."""
    return f"{type(data).__name__}{f' of {len(data)}' if isinstance(data, (tuple, list)) else ''}"


def refuse_async(client: Any) -> None:
    if client.asynchronous:
        raise LambdaplugError("an asynchronous client: training waits for its workers. Use distributed.Client().")


def refuse_recorders(callbacks: Sequence[Any] | None) -> None:
    if any(isinstance(one, Recorder) for one in callbacks or ()):
        raise LambdaplugError(
            "callbacks: lp.record follows a training on one machine, and cannot be sent to workers. Leave it out; "
            "lp.metric on evaluation sets reports every round here."
        )


def measures_of(what: Objective | Metric | None) -> list[tuple[Measure, Labels | None]]:
    """Every measure inside, with its labels if they are not the data set's."""
    if isinstance(what, Metric):
        return [(kind, part.labels) for part in what.parts for kind in part.kinds]
    if isinstance(what, MeasureObjective):
        return [(what.measure, what.labels)]
    return [] if what is None else [one for part in what.parts for one in measures_of(part)]


def refuse_local_scales(
    measures: Sequence[tuple[Measure, Labels | None]], looks: Sequence[Look], columns: Columns
) -> None:
    """A measure scaled by the highest label must be told it, where a worker might not have a row of it."""
    for kind, source in measures:
        tops = {one.top for one in looks if one.rows} if source is None else columns.tops(source)
        if getattr(kind, "max_label", 0) is None and len(tops) > 1:
            told = replace(kind, max_label=max(tops))  # type: ignore[call-arg]
            raise LambdaplugError(
                f"{kind}: it is scaled by the highest label, and no worker sees all of them: some partitions go up to "
                f"{min(tops):g}, others to {max(tops):g}. Say which it is: {told}."
            )
