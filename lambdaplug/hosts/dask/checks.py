"""Data on Dask, examined by the workers that hold it before a training: what would train wrongly is refused."""

import contextlib
import itertools
import operator
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
from distributed import CancelledError, TimeoutError, wait

from ...errors import LambdaplugError
from ...evaluation import Metric
from ...measures import Measure
from ...objectives import Objective, Preferences
from ...objectives.base import MeasureObjective
from ...queries import Column, Labels, group_sizes, vector
from ...rows import one_a_query, sizes_of
from .layout import LAY_OUT, ids_of, is_dask, parts_of, values_of

__all__ = ["COLUMN", "Examined", "add_columns", "check_partitions", "examine", "examine_partition", "settled"]

K = TypeVar("K", bound=Hashable)

COLUMN = "column "  # and its name: how a partition has a further column beside X, y, ...


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


def _examine(part: dict[str, Any]) -> Partition:
    return examine_partition(**part)


def check_partitions(partitions: Sequence[Partition], workers: Sequence[str] | None = None) -> None:
    """Refuse rows that do not fit together, values that no host trains with and queries that are cut.

    A worker that finds such a thing itself, in the training, leaves the others waiting for it. With ``workers`` that keep
    their partitions together, a query may go on from one partition to the worker's next.
    """
    if not any(one.rows for one in partitions):
        raise LambdaplugError("there are no rows to train on.")
    widths = {one.columns: number for number, one in enumerate(partitions) if one.rows}
    if len(widths) > 1:
        said = " and ".join(f"{width} in partition {number}" for width, number in list(widths.items())[:2])
        raise LambdaplugError(f"X: expected the same number of columns everywhere, got {said}.")
    for number, one in enumerate(partitions):
        for trouble in one.troubles:
            raise LambdaplugError(trouble.format(f"partition {number}"))
    unit, place = "partition", list(range(len(partitions)))
    if workers is not None:
        unit, place = "worker", [sorted(set(workers)).index(one) for one in workers]
    filled = sorted((i for i, one in enumerate(partitions) if len(one.ids)), key=place.__getitem__)
    if not filled:  # whose ids may be of another type
        return
    ids, sizes = (np.concatenate([getattr(partitions[i], name) for i in filled]) for name in ("ids", "sizes"))
    where = np.repeat([place[i] for i in filled], [len(partitions[i].ids) for i in filled])
    starts = np.flatnonzero(np.append(True, (ids[1:] != ids[:-1]) | (where[1:] != where[:-1])))
    ids, where, sizes = ids[starts], where[starts], np.add.reduceat(sizes, starts)
    different, which, counts = np.unique(ids, return_inverse=True, return_counts=True)
    cut = np.flatnonzero(counts > 1)
    if len(cut):
        pieces = np.flatnonzero(which == cut[0])[:3]
        said = " and ".join(f"{sizes[piece]} rows in {unit} {where[piece]}" for piece in pieces)
        raise LambdaplugError(
            f"the {unit}s hold {len(ids)} queries of {len(different)} different ids: {len(cut)} are cut, the first being "
            f"query {different[cut[:1]].tolist()[0]!r}, with {said}. Each worker would rank its piece alone. {LAY_OUT}"
        )


class Part(NamedTuple):
    """A partition that was examined, found right and has rows."""

    data: dict[str, Any]  # X, y, qid or group, and all else, by name: futures
    worker: str  # that has them
    block: int  # partitions of the same one may share a query, and stay together
    seen: Partition


@dataclass(frozen=True, eq=False)
class Examined:
    """A data set, without its partitions that have no rows."""

    parts: list[Part]
    lengths: list[int]  # the rows of every partition that was given


def settled(client: Any, futures: Sequence[Any], workers: Sequence[str] = ()) -> list[str]:
    """Wait until all are computed, one has failed, or one of these workers, which alone may compute them, is lost: those lost."""
    while True:
        pending = [one.status for one in futures if one.status != "finished"]
        gone = sorted(set(workers) - set(client.ncores())) if pending else []
        if gone or any(status != "pending" for status in pending) or not pending:
            return gone
        with client.as_current(), contextlib.suppress(TimeoutError, CancelledError):
            wait(futures, timeout=0.5)


def examine(client: Any, given: Any) -> Examined:
    """Have the workers examine a data set, given by name or as a DaskDMatrix; refuse what would not be trained on rightly."""
    parts, bound = _parts(client, given) if isinstance(given, dict) else _parts_of_matrix(client, given)
    holders = _holders(client, [part["X"] for part in parts]) if bound is None else bound
    blocks = range(len(parts)) if bound is None else map(bound.index, bound)
    tasks = [  # where the rows are: a copy elsewhere would make it look as if they were there, too
        client.submit(_examine, part, workers=[holder], pure=False) for part, holder in zip(parts, holders, strict=True)
    ]
    gone = settled(client, tasks, holders)
    if gone:
        raise LambdaplugError(
            f"while rows were examined, workers that had them were lost: {', '.join(gone[:3])}. Killed, out of memory or "
            "cut off; their own logs say more. Train again: what can be computed again, is (a DaskDMatrix: build it again)."
        )
    seen: list[Partition] = client.gather(tasks)
    check_partitions(seen, bound)
    every = map(Part, parts, holders, blocks, seen)
    return Examined([part for part in every if part.seen.rows], [one.rows for one in seen])


def _holders(client: Any, futures: list[Any]) -> list[str]:
    """The worker that has each; of several, the one that was chosen least often before."""
    settled(client, futures)
    for one in futures:
        if one.status != "finished":
            one.result()  # raises what went wrong
    found, chosen = client.who_has(futures), list[str]()
    for one in futures:
        chosen.append(min(sorted(found[one.key]), key=chosen.count))
    return chosen


def _computed(client: Any, collections: Mapping[K, Any]) -> dict[K, list[Any]]:
    """The partitions of each as futures, computed together: what they have in common is computed once."""
    parts = {name: parts_of(one) for name, one in collections.items()}
    futures = iter(client.compute([*itertools.chain(*parts.values())]))
    return {name: list(itertools.islice(futures, len(some))) for name, some in parts.items()}


def _parts(client: Any, given: dict[str, Any]) -> tuple[list[dict[str, Any]], None]:
    """The partitions of collections, by name, as futures; they are bound to no worker."""
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
    return [{name: some[i] for name, some in futures.items()} for i in range(count)], None


def _parts_of_matrix(client: Any, matrix: Any) -> tuple[list[dict[str, Any]], list[str]]:
    """The partitions of a DaskDMatrix, by the names that they have here; and the worker that each is bound to."""
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
    return parts, [there for _, there in placed]


# --- further columns -----------------------------------------------------------------------------------------------


def add_columns(
    client: Any, objective: Objective | None, metrics: Sequence[Metric], training: Examined, evals: Sequence[Examined]
) -> None:
    """Add to the partitions of each data set the Dask columns of its own that the objective and the metrics name."""
    asked: list[tuple[Objective | Metric, Sequence[Examined], str]] = [
        (metric, evals, "any of the evaluation sets") for metric in metrics
    ]
    if objective is not None:
        _refuse_row_numbers(objective)
        asked.insert(0, (objective, [training], "the training data"))
    collections: dict[Labels, Any] = {}
    for source in itertools.chain(*(what.sources for what, _, _ in asked)):
        if not isinstance(source, Column):
            raise LambdaplugError(
                f"{source.what}: an array cannot follow the rows to the workers. Pass a Dask column with the partitions of "
                "the data: dX, dy, dq, dclicks = lp.dask.partition_by_query(X, y, qid, clicks)."
            )
        if source.collection is None:
            raise LambdaplugError(f"{source.what}: a Dask column does not survive a pickle. Build the objective again.")
        collections[source] = source.collection
    futures = _computed(client, collections)
    found = {source: client.gather(client.map(_length_and_top, some)) for source, some in futures.items()}
    for what, sets, words in asked:
        for (kind, labels), data in itertools.product(_measures(what), sets):
            seen = [(part.seen.rows, part.seen.top) for part in data.parts] if labels is None else found[labels]
            _check_scale(kind, {top for length, top in seen if length})
        for source in what.sources:
            lengths = [length for length, _ in found[source]]
            fitting = [data for data in sets if data.lengths == lengths]
            if not fitting:
                raise LambdaplugError(
                    f"{source.what}: a Dask column with partitions of {lengths} rows does not fit {words}. Lay it out with "
                    "the rows: dX, dy, dq, dclicks = lp.dask.partition_by_query(X, y, qid, clicks)."
                )
            filled = [future for future, length in zip(futures[source], lengths, strict=True) if length]
            for part, future in itertools.chain(*(zip(data.parts, filled, strict=True) for data in fitting)):
                part.data[COLUMN + source.digest.decode()] = future


def _length_and_top(part: Any) -> tuple[int, float]:
    labels = values_of(part).astype(np.float64)
    return len(labels), float(np.fmax.reduce(labels, initial=-np.inf))


def _inside(objective: Objective) -> Iterator[Objective]:
    yield objective
    for part in objective.parts:
        yield from _inside(part)


def _measures(what: Objective | Metric) -> Iterator[tuple[Measure, Labels | None]]:
    """Every measure inside, with its labels if they are not the data set's."""
    if isinstance(what, Metric):
        yield from ((kind, part.labels) for part in what.parts for kind in part.kinds)
    else:
        yield from ((one.measure, one.labels) for one in _inside(what) if isinstance(one, MeasureObjective))


def _check_scale(kind: Measure, tops: set[float]) -> None:
    """A measure scaled by the highest label must be told it, where a worker might not have a row of it."""
    told = getattr(kind, "max_label", 0) is not None or getattr(kind, "click", None) is not None
    if not told and len(tops) > 1:
        said = replace(kind, max_label=max(tops))  # type: ignore[call-arg]
        raise LambdaplugError(
            f"{kind}: it is scaled by the highest label, and no worker sees all of them: some partitions go up to "
            f"{min(tops):g}, others to {max(tops):g}. Say which it is: {said}."
        )


def _refuse_row_numbers(objective: Objective) -> None:
    for one in _inside(objective):
        if isinstance(one, Preferences):
            raise LambdaplugError(
                f"{one!r}: its pairs are rows by number, and rows that are spread over workers have none. Train on one "
                "machine; or turn what the pairs say into grades, as a Dask column: lp.LambdaRank('pairs', labels=column)."
            )
    objective.check_share()
