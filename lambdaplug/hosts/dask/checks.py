"""Data on Dask, examined by the workers that hold it before a training: what would train wrongly is refused."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from dask import delayed

from ...errors import LambdaplugError
from ...evaluation import Metric
from ...measures import Measure
from ...objectives import Objective, Preferences
from ...objectives.base import MeasureObjective
from ...queries import Column, Labels, group_sizes, vector
from ...rows import one_a_query, sizes_of
from ..recorder import Recorder
from .layout import LAY_OUT, is_dask, like, parts_of, values_of, whole_rows, with_ids


class Job(NamedTuple):
    """What ``lp.dask.train`` was asked for."""

    client: Any
    params: dict[str, Any]
    data: Any
    objective: Objective | None
    evals: Sequence[tuple[Any, str]]
    metric: Metric | None
    callbacks: list[Any] | None


class Partition(NamedTuple):
    """One partition, as the worker that holds it sees it."""

    rows: int
    columns: int
    lengths: dict[str, int]  # of what has one value per row
    wrong: dict[str, int]  # how many values no host can train with
    ids: npt.NDArray[Any]  # the query id of each run of rows; empty where sizes were given
    sizes: npt.NDArray[np.int64]
    top: float  # the highest label
    uneven: bool  # weights differ within a query


def examine_partition(X: Any, y: Any, qid: Any = None, group: Any = None, **others: Any) -> Partition:
    labels = vector(values_of(y), "y")
    lengths = {"y": len(labels), **{name: part.shape[0] for name, part in others.items()}}
    wrong = {"y": int((~np.isfinite(labels)).sum())}
    if qid is None:
        ids, sizes = np.empty(0), group_sizes(values_of(group))
        lengths["group"] = int(sizes.sum())
    else:
        values = with_ids(values_of(qid))
        sizes = sizes_of(values)
        ids = values[np.cumsum(sizes) - sizes]
        lengths["qid"] = len(values)
    weight = vector(values_of(others.get("sample_weight", ())), "sample_weight").astype(np.float32)  # LightGBM's type
    wrong["sample_weight"] = int((~(np.isfinite(weight) & (weight >= 0))).sum())
    uneven = len(weight) == sizes.sum() and len(weight) > 0 and one_a_query(weight, sizes) is None
    return Partition(X.shape[0], X.shape[1], lengths, wrong, ids, sizes, _top(labels), uneven)


def _top(labels: npt.NDArray[Any]) -> float:
    """The highest label; rows without one do not count."""
    return float(np.fmax.reduce(labels, initial=-np.inf))


def check_partitions(partitions: Sequence[Partition], unit: str = "partition") -> None:
    """Refuse rows that do not fit together, values that no host trains with and queries that are cut.

    A worker that finds such a thing itself, in the training, leaves the others waiting for it.
    """
    if not any(one.rows for one in partitions):
        raise LambdaplugError("there are no rows to train on.")
    widths = {one.columns: number for number, one in enumerate(partitions) if one.rows}
    if len(widths) > 1:
        said = " and ".join(f"{width} in {unit} {number}" for width, number in list(widths.items())[:2])
        raise LambdaplugError(f"X: expected the same number of columns everywhere, got {said}.")
    for number, one in enumerate(partitions):
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
    _refuse_cuts(partitions, unit)


def _refuse_cuts(partitions: Sequence[Partition], unit: str) -> None:
    filled = [one.ids for one in partitions if len(one.ids)]  # an empty one may be of another type, and change the ids
    ids = np.concatenate(filled) if filled else np.empty(0)
    different, which, counts = np.unique(ids, return_inverse=True, return_counts=True)
    cut = np.flatnonzero(counts > 1)
    if not len(cut):
        return
    where = np.repeat(np.arange(len(partitions)), [len(one.ids) for one in partitions])
    sizes = np.concatenate([one.sizes for one in partitions])
    pieces = np.flatnonzero(which == cut[0])
    said = " and ".join(f"{sizes[piece]} rows in {unit} {where[piece]}" for piece in pieces[:3])
    first = different[cut[:1]].tolist()[0]
    raise LambdaplugError(
        f"the {unit}s hold {len(ids)} queries of {len(different)} different ids: {len(cut)} are cut, the first being "
        f"query {first!r}, with {said}. Each worker would rank its piece alone. {LAY_OUT}"
    )


@dataclass(frozen=True, eq=False)
class Examined:
    """A data set that was examined and found right; its partitions without rows are left out."""

    partitions: Sequence[Partition]  # a DaskDMatrix has one per worker
    lengths: Sequence[int]  # the rows of every partition that was given
    kept: Sequence[int]  # which of them are left
    X: Any  # a Dask collection, or the DaskDMatrix
    parts: dict[str, list[Any]] = field(default_factory=dict)  # X, y, qid or group, and all else, by name
    held: Any = None  # on the workers as long as this is here

    @property
    def rows(self) -> list[int]:
        """Of the partitions that are left."""
        return [self.lengths[i] for i in self.kept]

    def vectors(self, name: str) -> list[Any]:
        """The partitions of what has one number per row."""
        return [delayed(vector)(part, name) for part in self.parts[name]]


def examine(client: Any, X: Any, y: Any, qid: Any = None, group: Any = None, **others: Any) -> Examined:
    """Have the workers examine a data set; refuse one that could not be trained on rightly."""
    if qid is None and group is None:
        raise LambdaplugError("no queries: a ranking objective needs to know which rows belong together. Pass qid=.")
    if qid is not None and group is not None:
        raise LambdaplugError(
            "qid and group: expected one of them, got both. Pass qid=, which cannot be misaligned unnoticed."
        )
    named = {"X": whole_rows(X), "y": y, "qid": qid, "group": group, **others}
    named = {name: one for name, one in named.items() if one is not None}
    for name, one in named.items():
        if not is_dask(one):
            raise LambdaplugError(f"{name}: expected a Dask collection, got {type(one).__name__}. {LAY_OUT}")
    named = {name: client.persist(one) for name, one in named.items()}
    parts = {name: parts_of(one) for name, one in named.items()}
    count = len(parts["X"])
    for name, some in parts.items():
        if len(some) != count:
            raise LambdaplugError(f"{name}: expected {count} partitions, as X has, got {len(some)}. {LAY_OUT}")
    tasks = [delayed(examine_partition)(**{name: some[i] for name, some in parts.items()}) for i in range(count)]
    partitions: list[Partition] = client.gather(client.compute(tasks))
    check_partitions(partitions)
    lengths = [one.rows for one in partitions]
    kept = np.flatnonzero(lengths).tolist()
    parts = {name: [some[i] for i in kept] for name, some in parts.items()}
    X = named["X"] if len(kept) == count else like(named["X"], parts["X"], [lengths[i] for i in kept])
    return Examined([partitions[i] for i in kept], lengths, kept, X, parts, named)


class Columns:
    """The Dask columns that an objective and its metrics name, held on the workers, and which data set has which."""

    def __init__(
        self,
        client: Any,
        objective: Objective | None,
        metrics: Sequence[Metric],
        training: Examined,
        evals: Sequence[Examined],
    ) -> None:
        _refuse_row_numbers(objective)
        ours = _columns(() if objective is None else objective.sources)
        theirs = _columns([source for metric in metrics for source in metric.sources])
        self._held = {one.name: client.persist(one.collection) for one in (*ours, *theirs)}  # parts alone hold nothing
        self._parts = {name: parts_of(held) for name, held in self._held.items()}
        tasks = {name: [delayed(_length_and_top)(part) for part in parts] for name, parts in self._parts.items()}
        found = {name: client.gather(client.compute(some)) for name, some in tasks.items()}
        self._lengths = {name: [length for length, _ in some] for name, some in found.items()}
        self._tops = {name: {top for length, top in some if length} for name, some in found.items()}
        self._check_scales(objective, [training])
        for metric in metrics:
            self._check_scales(metric, evals)
        self._wanted = {
            one: [*(ours if one is training else ()), *(theirs if one in evals else ())] for one in (training, *evals)
        }
        self._require(ours, [training], "the training data")
        self._require(theirs, evals, "any of the evaluation sets")

    def of(self, data: Examined) -> dict[str, list[Any]]:
        """The partitions of a data set's columns, by name."""
        names = [one.name for one in self._wanted[data] if self._lengths[one.name] == list(data.lengths)]
        return {name: [self._parts[name][i] for i in data.kept] for name in names}

    def _require(self, sources: Sequence[Column], data: Sequence[Examined], words: str) -> None:
        for one in sources:
            if not any(one.name in self.of(each) for each in data):
                raise LambdaplugError(
                    f"{one.what}: a Dask column with partitions of {self._lengths[one.name]} rows does not fit {words}. "
                    "Lay it out with the rows: dX, dy, dq, dclicks = lp.dask.partition_by_query(X, y, qid, clicks)."
                )

    def _check_scales(self, what: Objective | Metric | None, data: Sequence[Examined]) -> None:
        """A measure scaled by the highest label must be told it, where a worker might not have a row of it."""
        for (kind, source), each in itertools.product(_measures(what), data):
            own = {one.top for one in each.partitions if one.rows}
            tops = self._tops[source.name] if isinstance(source, Column) else own
            told = getattr(kind, "max_label", 0) is not None or getattr(kind, "click", None) is not None
            if not told and len(tops) > 1:
                said = replace(kind, max_label=max(tops))  # type: ignore[call-arg]
                raise LambdaplugError(
                    f"{kind}: it is scaled by the highest label, and no worker sees all of them: some partitions go up to "
                    f"{min(tops):g}, others to {max(tops):g}. Say which it is: {said}."
                )


def _refuse_row_numbers(objective: Objective | None) -> None:
    if isinstance(objective, Preferences):
        raise LambdaplugError(
            f"{objective!r}: its pairs are rows by number, and rows that are spread over workers have none. Train on one "
            "machine; or turn what the pairs say into grades, as a Dask column: lp.LambdaRank('pairs', labels=column)."
        )
    for part in () if objective is None else objective.parts:
        _refuse_row_numbers(part)
    if objective is not None:
        objective.check_share()


def _columns(sources: Sequence[Labels]) -> list[Column]:
    for source in sources:
        if not isinstance(source, Column):
            raise LambdaplugError(
                f"{source.what}: an array cannot follow the rows to the workers. Pass a Dask column with the partitions of "
                "the data: dX, dy, dq, dclicks = lp.dask.partition_by_query(X, y, qid, clicks)."
            )
        if source.collection is None:
            raise LambdaplugError(f"{source.what}: a Dask column does not survive a pickle. Build the objective again.")
    return [source for source in sources if isinstance(source, Column)]


def _length_and_top(part: Any) -> tuple[int, float]:
    labels = values_of(part).astype(np.float64)
    return len(labels), _top(labels)


def _measures(what: Objective | Metric | None) -> list[tuple[Measure, Labels | None]]:
    """Every measure inside, with its labels if they are not the data set's."""
    if isinstance(what, Metric):
        return [(kind, part.labels) for part in what.parts for kind in part.kinds]
    if isinstance(what, MeasureObjective):
        return [(what.measure, what.labels)]
    return [] if what is None else [one for part in what.parts for one in _measures(part)]


def lost(client: Any, before: set[str]) -> LambdaplugError | None:
    """What to say about workers that were there before."""
    gone = sorted(before - set(client.ncores()))
    if not gone:
        return None
    return LambdaplugError(
        f"the training ended because {len(gone)} of {len(before)} workers were lost: {', '.join(gone[:3])}. Killed, out of "
        "memory or cut off; their own logs say more. What is still there can be trained on again."
    )


def triple(data: Any, host: str = "", alternative: str = "") -> tuple[Any, Any, Any]:
    """(dX, dy, dq), refusing all else; ``host`` and ``alternative`` are words for the error."""
    if isinstance(data, (tuple, list)) and len(data) == 3:
        return data[0], data[1], data[2]
    count = f" of {len(data)}" if isinstance(data, (tuple, list)) else ""
    raise LambdaplugError(
        f"data: {host}expected (dX, dy, dq), as lp.dask.partition_by_query returns them{alternative}; got "
        f"{type(data).__name__}{count}."
    )


def refuse_unfit(client: Any, callbacks: Sequence[Any] | None) -> None:
    """Refuse a client and callbacks with which no training on workers is possible."""
    if client.asynchronous:
        raise LambdaplugError("an asynchronous client: training waits for its workers. Use distributed.Client().")
    if any(isinstance(one, Recorder) for one in callbacks or ()):
        raise LambdaplugError(
            "callbacks: lp.analysis.record follows a training on one machine, and cannot be sent to workers. Leave it out; "
            "lp.metric on evaluation sets reports every round here."
        )
