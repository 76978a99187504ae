"""Data on Dask, examined by the workers that hold it before a training: what would train wrongly is refused."""

import contextlib
import itertools
import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from distributed import TimeoutError, wait

from ...errors import LambdaplugError
from ...evaluation import Metric
from ...measures import Measure
from ...objectives import Objective, Preferences
from ...objectives.base import MeasureObjective
from ...queries import Column, Labels, group_sizes, vector
from ...rows import one_a_query, sizes_of
from .layout import LAY_OUT, ids_of, is_dask, parts_of, values_of

__all__ = ["Examined", "check_partitions", "columns_of", "examine", "examine_partition"]


class Partition(NamedTuple):
    """One partition, as a worker sees it."""

    rows: int
    columns: int
    troubles: list[str]  # with which no host can train; {} is where it is
    ids: npt.NDArray[Any]  # the query id of each run of rows; empty where sizes were given
    sizes: npt.NDArray[np.int64]
    top: float  # the highest label; rows without one do not count
    uneven: bool  # weights differ within a query


def examine_partition(X: Any, y: Any, qid: Any = None, group: Any = None, **others: Any) -> Partition:
    rows, labels = X.shape[0], vector(values_of(y), "y")
    weight = vector(values_of(others.get("sample_weight", ())), "sample_weight").astype(np.float32)  # LightGBM's type
    values = np.empty(0) if qid is None else ids_of(qid)
    sizes = group_sizes(values_of(group)) if qid is None else sizes_of(values)
    ids = values if qid is None else values[np.cumsum(sizes) - sizes]
    lengths = {f"{name} has": part.shape[0] for name, part in {"y": labels, **others}.items()}
    lengths["the sizes in group add up to" if qid is None else "qid has"] = int(sizes.sum())
    wrong = {
        "y: expected a finite label in every row": int((~np.isfinite(labels)).sum()),
        "sample_weight: expected finite numbers >= 0": int((~(np.isfinite(weight) & (weight >= 0))).sum()),
    }
    troubles = [
        f"{{}} of X has {rows} rows, and {what} {length}. All must be partitioned alike: rechunk or repartition them "
        "together, or lay them out with lp.dask.partition_by_query(X, y, qid, ...)."
        for what, length in lengths.items()
        if length != rows
    ] + [
        f"{what}, and {{}} has {count} of its {rows} rows with something else (NaN, for example). Drop those rows, or give "
        "them a value."
        for what, count in wrong.items()
        if count
    ]
    uneven = len(weight) == sizes.sum() and len(weight) > 0 and one_a_query(weight, sizes) is None
    return Partition(rows, X.shape[1], troubles, ids, sizes, float(np.fmax.reduce(labels, initial=-np.inf)), uneven)


def _examine_joined(parts: list[dict[str, Any]]) -> tuple[Partition, list[int]]:
    """Partitions in which queries go on from one to the next, as one; and the rows of each."""
    rows = [part["X"].shape[0] for part in parts]
    if len(parts) == 1:
        return examine_partition(**parts[0]), rows
    joined = {name: np.concatenate([values_of(part[name]) for part in parts]) for name in parts[0] if name != "X"}
    X = np.broadcast_to(0.0, (sum(rows), parts[0]["X"].shape[1]))  # its shape is all that is looked at
    return examine_partition(X, **joined), rows


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
        for trouble in one.troubles:
            raise LambdaplugError(trouble.format(f"{unit} {number}"))
    filled = [one.ids for one in partitions if len(one.ids)]  # an empty one may be of another type, and change the ids
    ids = np.concatenate(filled) if filled else np.empty(0)
    different, which, counts = np.unique(ids, return_inverse=True, return_counts=True)
    cut = np.flatnonzero(counts > 1)
    if len(cut):
        where = np.repeat(np.arange(len(partitions)), [len(one.ids) for one in partitions])
        sizes = np.concatenate([one.sizes for one in partitions])
        pieces = np.flatnonzero(which == cut[0])[:3]
        said = " and ".join(f"{sizes[piece]} rows in {unit} {where[piece]}" for piece in pieces)
        raise LambdaplugError(
            f"the {unit}s hold {len(ids)} queries of {len(different)} different ids: {len(cut)} are cut, the first being "
            f"query {different[cut[:1]].tolist()[0]!r}, with {said}. Each worker would rank its piece alone. {LAY_OUT}"
        )


@dataclass(frozen=True, eq=False)
class Examined:
    """A data set that was examined and found right; its partitions without rows are left out."""

    parts: list[dict[str, Any]]  # of each partition X, y, qid or group, and all else, by name: futures
    workers: list[str]  # that have them
    blocks: list[int]  # by number: partitions of the same one may share a query, and stay together
    lengths: list[int]  # the rows of every partition that was given
    partitions: list[Partition]

    def of(self, every: list[Any]) -> list[Any]:
        """Of what belongs to every partition that was given, what belongs to those that are left."""
        return [one for one, rows in zip(every, self.lengths, strict=True) if rows]


def examine(client: Any, given: Any) -> Examined:
    """Have the workers examine a data set, given by name or as a DaskDMatrix; refuse what would not be trained on rightly."""
    bound: list[str] = []
    if isinstance(given, dict):
        parts, unit = _parts(client, given), "partition"
        groups = [[number] for number in range(len(parts))]
    else:
        (parts, groups), unit, bound = _parts_of_matrix(client, given), "worker", list(given.worker_map)
    holders = _holders(client, [part["X"] for part in parts], bound)
    there = [holders[group[0]] for group in groups]
    tasks = [  # where the rows are: a copy elsewhere would make it look as if they were there, too
        client.submit(_examine_joined, [parts[i] for i in group], workers=[holder], pure=False)
        for group, holder in zip(groups, there, strict=True)
    ]
    _wait(client, tasks, there)
    found: list[tuple[Partition, list[int]]] = client.gather(tasks)
    partitions = [one for one, _ in found]
    check_partitions(partitions, unit)
    lengths, blocks = [0] * len(parts), [0] * len(parts)
    for block, (group, (_, rows)) in enumerate(zip(groups, found, strict=True)):
        for number, count in zip(group, rows, strict=True):
            lengths[number], blocks[number] = count, block
    kept = [number for number, count in enumerate(lengths) if count]
    workers, blocks = [there[blocks[number]] for number in kept], [blocks[number] for number in kept]
    return Examined(
        [parts[number] for number in kept], workers, blocks, lengths, [one for one in partitions if one.rows]
    )


def _wait(client: Any, futures: list[Any], workers: Sequence[str]) -> None:
    """Wait for what these workers, and no others, may compute: as long as they are there."""
    pending = futures
    while pending:
        with client.as_current(), contextlib.suppress(TimeoutError):
            wait(pending, timeout=1)
        pending = [one for one in futures if one.status == "pending"]
        gone = sorted(set(workers) - set(client.ncores())) if pending else []
        if gone:
            raise LambdaplugError(
                f"while rows were examined, workers that had them were lost: {', '.join(gone[:3])}. Killed, out of memory or "
                "cut off; their own logs say more. Train again: what can be computed again, is (a DaskDMatrix: build it again)."
            )


def _holders(client: Any, futures: list[Any], workers: Sequence[str]) -> list[str]:
    """The worker that has each; of several, the one that was chosen least often before. ``workers`` compute them, if any."""
    _wait(client, futures, workers)
    for one in futures:
        if one.status != "finished":
            one.result()  # raises what went wrong
    found, chosen = client.who_has(futures), list[str]()
    for one in futures:
        chosen.append(min(sorted(found[one.key]), key=chosen.count))
    return chosen


def _computed(client: Any, collections: dict[str, Any]) -> dict[str, list[Any]]:
    """The partitions of each as futures, computed together: what they have in common is computed once."""
    parts = {name: parts_of(one) for name, one in collections.items()}
    futures = iter(client.compute([*itertools.chain(*parts.values())]))
    return {name: list(itertools.islice(futures, len(some))) for name, some in parts.items()}


def _parts(client: Any, given: dict[str, Any]) -> list[dict[str, Any]]:
    """The partitions of collections, by name, as futures."""
    named = {name: one for name, one in given.items() if one is not None}
    if "qid" in named and "group" in named:
        raise LambdaplugError("qid and group: expected one, got both. Pass qid=, which cannot be misaligned unnoticed.")
    if "qid" not in named and "group" not in named:
        raise LambdaplugError("no queries: a ranking objective needs to know which rows belong together. Pass qid=.")
    for name, one in named.items():
        if not is_dask(one):
            raise LambdaplugError(f"{name}: expected a Dask collection, got {type(one).__name__}. {LAY_OUT}")
    futures = _computed(client, named)
    count = len(futures["X"])
    for name, some in futures.items():
        if len(some) != count:
            raise LambdaplugError(f"{name}: expected {count} partitions, as X has, got {len(some)}. {LAY_OUT}")
    return [{name: some[i] for name, some in futures.items()} for i in range(count)]


def _parts_of_matrix(client: Any, matrix: Any) -> tuple[list[dict[str, Any]], list[list[int]]]:
    """The partitions of a DaskDMatrix, by the names that they have here; and which of them each worker has."""
    gone = sorted(set(matrix.worker_map) - set(client.ncores()))
    if gone:  # no other worker would run what is sent to them
        raise LambdaplugError(
            f"the DaskDMatrix: some of its rows were on workers that are gone: {', '.join(gone[:3])}. Build it again."
        )
    placed = [(part, address) for address, some in matrix.worker_map.items() for part in some]
    placed.sort(key=lambda one: matrix.partition_order[one[0].key])
    names = client.submit(list, placed[0][0], pure=False).result()
    if not {"label", "qid"} <= set(names):
        raise LambdaplugError("the DaskDMatrix has no labels or no queries: DaskDMatrix(client, X, y, qid=ids).")
    ours = {name: {"data": "X", "label": "y"}.get(name, name) for name in names}
    parts = [
        {ours[name]: client.submit(operator.itemgetter(name), part, workers=[there], pure=False) for name in names}
        for part, there in placed
    ]
    return parts, [[number for number, (_, there) in enumerate(placed) if there == one] for one in matrix.worker_map]


# --- further columns -----------------------------------------------------------------------------------------------


def columns_of(
    client: Any, objective: Objective | None, metrics: Sequence[Metric], training: Examined, evals: Sequence[Examined]
) -> dict[Examined, dict[str, list[Any]]]:
    """The Dask columns that an objective and its metrics name: of each data set the futures of its own, by name."""
    _refuse_row_numbers(objective)
    asked = (
        ([] if objective is None else list(objective.sources), [training], "the training data"),
        ([source for metric in metrics for source in metric.sources], evals, "any of the evaluation sets"),
    )
    for source in itertools.chain(*(sources for sources, _, _ in asked)):
        if not isinstance(source, Column):
            raise LambdaplugError(
                f"{source.what}: an array cannot follow the rows to the workers. Pass a Dask column with the partitions of "
                "the data: dX, dy, dq, dclicks = lp.dask.partition_by_query(X, y, qid, clicks)."
            )
        if source.collection is None:
            raise LambdaplugError(f"{source.what}: a Dask column does not survive a pickle. Build the objective again.")
    collections = {one.name: one.collection for sources, _, _ in asked for one in sources if isinstance(one, Column)}
    futures = _computed(client, collections)
    found = {name: client.gather(client.map(_length_and_top, some)) for name, some in futures.items()}
    for what, sets in ((objective, [training]), *((metric, evals) for metric in metrics)):
        for (kind, labels), data in itertools.product(_measures(what), sets):
            own = [(one.rows, one.top) for one in data.partitions]
            seen = found[labels.name] if isinstance(labels, Column) else own
            _check_scale(kind, {top for length, top in seen if length})
    columns: dict[Examined, dict[str, list[Any]]] = {data: {} for data in (training, *evals)}
    for sources, sets, words in asked:
        for source in sources:
            name = source.digest.decode()
            lengths = [length for length, _ in found[name]]
            fitting = [data for data in sets if data.lengths == lengths]
            if not fitting:
                raise LambdaplugError(
                    f"{source.what}: a Dask column with partitions of {lengths} rows does not fit {words}. Lay it out with "
                    "the rows: dX, dy, dq, dclicks = lp.dask.partition_by_query(X, y, qid, clicks)."
                )
            for data in fitting:
                columns[data][name] = data.of(futures[name])
    return columns


def _length_and_top(part: Any) -> tuple[int, float]:
    labels = values_of(part).astype(np.float64)
    return len(labels), float(np.fmax.reduce(labels, initial=-np.inf))


def _measures(what: Objective | Metric | None) -> Iterator[tuple[Measure, Labels | None]]:
    """Every measure inside, with its labels if they are not the data set's."""
    if isinstance(what, Metric):
        yield from ((kind, part.labels) for part in what.parts for kind in part.kinds)
    elif isinstance(what, MeasureObjective):
        yield what.measure, what.labels
    elif what is not None:
        yield from itertools.chain(*map(_measures, what.parts))


def _check_scale(kind: Measure, tops: set[float]) -> None:
    """A measure scaled by the highest label must be told it, where a worker might not have a row of it."""
    told = getattr(kind, "max_label", 0) is not None or getattr(kind, "click", None) is not None
    if not told and len(tops) > 1:
        said = replace(kind, max_label=max(tops))  # type: ignore[call-arg]
        raise LambdaplugError(
            f"{kind}: it is scaled by the highest label, and no worker sees all of them: some partitions go up to "
            f"{min(tops):g}, others to {max(tops):g}. Say which it is: {said}."
        )


def _refuse_row_numbers(objective: Objective | None) -> None:
    if objective is None:
        return
    if isinstance(objective, Preferences):
        raise LambdaplugError(
            f"{objective!r}: its pairs are rows by number, and rows that are spread over workers have none. Train on one "
            "machine; or turn what the pairs say into grades, as a Dask column: lp.LambdaRank('pairs', labels=column)."
        )
    for part in objective.parts:
        _refuse_row_numbers(part)
    objective.check_share()
