"""Training over the workers of a Dask cluster, with either host: queries never cut, evaluation exact, columns beside their rows.

XGBoost trains by its own ``xgboost.dask.train``. LightGBM's own Dask module leaves an evaluation set out on workers that hold none
of its rows, has no room for columns, and waits for ever when a worker is lost. So LightGBM's workers get their rows here, and
find each other by LightGBM's documented parameters ``machines`` and ``local_listen_port``.

>>> from lambdaplug import dask
>>> dX, dy, dq = dask.partition_by_query([[0.5], [0.1], [0.7]], [1, 0, 0], [2, 1, 2], npartitions=2)
>>> dq.compute().tolist()
[1, 2, 2]
"""

import asyncio
import base64
import contextlib
import functools
import itertools
import numbers
import operator
import pickle
import socket
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from typing import Any, NamedTuple
from urllib.parse import urlparse

import dask.array as da
import dask.dataframe as dd
import numpy as np
import numpy.typing as npt
import pandas as pd
import scipy.sparse
from dask import delayed
from distributed import Client, Semaphore, default_client, get_worker

from ..columns import attach, of_data_set
from ..errors import LambdaplugError
from ..evaluation import Metric, per_query_values
from ..grouping import group_sizes
from ..measures import Measure
from ..objectives import Objective, Unbiased, as_objective
from ..objectives.base import MeasureObjective, require_objective
from ..queries import Array, Queries
from ..rows import one_a_query, sizes_of
from .base import by_name, learned, remember, sliceable, take
from .callback import Follower, with_callback
from .rankers import QueryColumn, as_metric

__all__ = ["partition_by_query", "train"]

LAY_OUT = "Lay the data out first: dX, dy, dq = lp.dask.partition_by_query(X, y, qid)."
FURTHER = "y", "sample_weight", "init_score"  # what LightGBM takes one number of for each row
COLUMN = "column "  # and its name: how a partition has a further column beside X, y, ...
PATIENCE = 5.0  # seconds within which all workers end, when one of them has


def is_dask(thing: Any) -> bool:
    return hasattr(thing, "__dask_graph__")


def values_of(part: Any) -> npt.NDArray[Any]:
    """A partition of one column, as a flat array."""
    return np.asarray(part).reshape(-1)


def ids_of(part: Any) -> npt.NDArray[Any]:
    """A partition of query ids, of which every row must have one."""
    ids = values_of(part)
    if pd.isna(ids).any():
        raise LambdaplugError("qid: some rows have none. Drop them, or give each a query of its own.")
    return ids


def join(parts: Sequence[Any]) -> Any:
    if len(parts) == 1:
        return parts[0]
    if hasattr(parts[0], "iloc"):
        return pd.concat(parts)
    return scipy.sparse.vstack(parts, format="csr") if scipy.sparse.issparse(parts[0]) else np.concatenate(parts)


def parts_of(collection: Any) -> list[Any]:
    """The partitions, each as something that Dask can compute, with all columns of their rows."""
    if isinstance(collection, da.Array) and collection.ndim == 2 and collection.numblocks[1] > 1:
        collection = collection.rechunk({1: -1})
    parts = collection.to_delayed()
    return list(parts.ravel() if isinstance(parts, np.ndarray) else parts)


# --- laying out ------------------------------------------------------------------------------------------------------


def _like(thing: Any, parts: Sequence[Any], rows: Sequence[int]) -> Any:
    """The partitions as a collection of this thing's kind; the thing is Dask's or not."""
    meta = thing._meta if is_dask(thing) else take(thing, slice(0))
    if hasattr(meta, "iloc"):
        return dd.from_delayed(parts, meta=meta)
    shapes = [(count, *thing.shape[1:]) for count in rows]
    return da.concatenate([da.from_delayed(part, shape, meta=meta) for part, shape in zip(parts, shapes, strict=True)])


def partition_by_query(X: Any, y: Any, qid: Any, *columns: Any, npartitions: int | None = None) -> tuple[Any, ...]:
    """(X, y, qid, *columns) as Dask collections whose partitions cut no query.

    Takes arrays and pandas frames, or Dask's, all of them or none, row by row alike; ``columns`` are further ones, such
    as weights and clicks. What was a frame comes back as a Dask dataframe or series, all else as Dask arrays. Rows are
    sorted by query id, and inside a query keep their order, wherever they were before. Partitions have about equal rows:
    at most 1/npartitions of all and one query more. There are at most ``npartitions``, and as many as X has unless said
    (4 of local data); fewer where queries are large.

    Of Dask collections the client sees each partition's ids and how many rows each has, no rows: those are sent from
    worker to worker, once, when the result is computed. Collections that are in order already are returned as they are,
    unless ``npartitions`` is given. The ids are computed here, and again with the rows: persist what takes long to compute.

    >>> X, y, qid = np.arange(10.0).reshape(5, 2), np.arange(5), [7, 3, 7, 3, 1]
    >>> dX, dy, dq = partition_by_query(X, y, qid, npartitions=2)
    >>> [part.tolist() for part in (dq.blocks[0].compute(), dq.blocks[1].compute())], dy.compute().tolist()
    ([[1, 3, 3], [7, 7]], [4, 1, 3, 0, 2])
    """
    integer = isinstance(npartitions, numbers.Real) and not isinstance(npartitions, bool) and npartitions % 1 == 0
    if npartitions is not None and not (integer and npartitions >= 1):
        raise LambdaplugError(f"npartitions: expected an integer >= 1, got {npartitions!r}.")
    things = [X, y, qid, *columns]
    spread = is_dask(X)
    if any(is_dask(thing) != spread for thing in things):
        raise LambdaplugError(
            "partition_by_query: expected Dask collections only, or none. Beside a Dask array X, a local y is "
            "da.from_array(y, chunks=X.chunks[0])."
        )
    things = _aligned(things) if spread else [sliceable(thing) for thing in things]
    several = [parts_of(thing) if spread else [thing] for thing in things]
    unit, counts = ("partitions", list(map(len, several))) if spread else ("rows", [one.shape[0] for one in things])
    for place, count in enumerate(counts):
        if count != counts[0]:
            name = ("X", "y", "qid")[place] if place < 3 else f"column {place - 2}"
            raise LambdaplugError(f"{name}: expected {counts[0]} {unit}, as X has, got {count}.")
    parts = list(zip(*several, strict=True))
    later = delayed if spread else lambda function, **_: function  # local data are laid out at once
    surveys: list[_Ids] = list(da.compute(*(later(_survey)(*part) for part in parts)))
    filled = [one for one in surveys if len(one.ids)]
    if not filled:
        raise LambdaplugError("partition_by_query: there are no rows.")
    for number, one in enumerate(surveys):
        if any(length != one.counts.sum() for length in one.lengths):
            raise LambdaplugError(
                f"partition {number}: qid has {one.counts.sum()} rows; X, y and the further columns {one.lengths}."
            )
    apart = all(a.ids[-1] < b.ids[0] for a, b in itertools.pairwise(filled))
    if spread and npartitions is None and apart and all(one.ordered for one in surveys):
        return tuple(things)
    ids, which = np.unique(np.concatenate([one.ids for one in filled]), return_inverse=True)
    sizes = np.bincount(which, np.concatenate([one.counts for one in filled])).astype(np.int64)
    results, rows = [], []
    for first, last in _cut(sizes, int(npartitions or (len(parts) if spread else 4))):
        low, high = ids[first], ids[last - 1]
        some = [part for part, one in zip(parts, surveys, strict=True) if ((one.ids >= low) & (one.ids <= high)).any()]
        results.append(later(_gathered, nout=len(things))([later(_piece)(low, high, *part) for part in some]))
        rows.append(int(sizes[first:last].sum()))
    return tuple(_like(thing, [delayed(one[i]) for one in results], rows) for i, thing in enumerate(things))


def _aligned(things: list[Any]) -> list[Any]:
    """Arrays of as many rows as X in chunks as it has."""
    X = things[0]
    chunks: tuple[Any, ...] = X.chunks[0] if isinstance(X, da.Array) else (np.nan,)
    if np.isnan(chunks).any():
        return things
    fits = [isinstance(thing, da.Array) and thing.shape[0] == X.shape[0] for thing in things]
    return [thing.rechunk({0: chunks}) if fit else thing for thing, fit in zip(things, fits, strict=True)]


class _Ids(NamedTuple):
    """A partition's query ids."""

    ids: npt.NDArray[Any]  # sorted
    counts: npt.NDArray[np.int64]
    ordered: bool
    lengths: list[int]  # of all else


def _survey(X: Any, y: Any, qid: Any, *columns: Any) -> _Ids:
    values = ids_of(qid)
    ids, counts = np.unique(values, return_counts=True)
    ordered = bool((values[1:] >= values[:-1]).all())
    return _Ids(ids, counts, ordered, [thing.shape[0] for thing in (X, y, *columns)])


def _cut(sizes: npt.NDArray[np.int64], npartitions: int) -> list[tuple[int, int]]:
    """Runs of queries (first, last + 1) of about equal rows: the bounds of queries nearest to equal shares."""
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    shares = offsets[-1] * np.arange(1, npartitions) / npartitions
    after = np.searchsorted(offsets, shares)
    nearest = np.where(shares - offsets[after - 1] <= offsets[after] - shares, after - 1, after)
    return list(itertools.pairwise(np.unique([0, *nearest.tolist(), len(sizes)]).tolist()))


def _piece(first: Any, last: Any, *things: Any) -> list[Any]:
    """The rows of these queries."""
    ids = values_of(things[2])
    rows = np.flatnonzero((ids >= first) & (ids <= last))
    return [take(thing, rows) for thing in things]


def _gathered(pieces: list[list[Any]]) -> list[Any]:
    things = [join(parts) for parts in zip(*pieces, strict=True)]
    order = np.argsort(values_of(things[2]), kind="stable")
    return [take(thing, order) for thing in things]


# --- data sets, looked at by the workers that hold them ---------------------------------------------------------------


class Seen(NamedTuple):
    """A partition, as a worker sees it."""

    rows: int
    trouble: str | None  # with which no host trains rightly
    ids: npt.NDArray[Any]  # the query id of each run of rows; empty where sizes were given
    sizes: npt.NDArray[np.int64]
    tops: dict[str, float]  # the highest label, and value of each column
    uneven: bool  # weights differ within a query


def _sizes(part: Mapping[str, Any]) -> npt.NDArray[np.int64]:
    """The number of rows of each query."""
    return group_sizes(values_of(part["group"])) if "group" in part else sizes_of(ids_of(part["qid"]))


def _columns(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    names = [name for name in parts[0] if name.startswith(COLUMN)]
    return {name.removeprefix(COLUMN): np.concatenate([np.asarray(part[name]) for part in parts]) for name in names}


def _look(number: int, objective: Objective | None, metrics: Sequence[Metric], part: dict[str, Any]) -> Seen:
    """A partition, after one gradient and one evaluation: what they refuse is said before workers wait for each other."""
    rows, labels, sizes, columns = part["X"].shape[0], values_of(part["y"]), _sizes(part), _columns([part])
    ids = np.empty(0) if "group" in part else ids_of(part["qid"])[np.cumsum(sizes) - sizes]
    lengths = {f"{name} has": values.shape[0] for name, values in part.items() if name not in ("X", "qid", "group")}
    lengths["the sizes in group add up to" if "group" in part else "qid has"] = int(sizes.sum())
    wrong = next((f"{what} {length}" for what, length in lengths.items() if length != rows), None)
    if wrong is not None:
        trouble = f"partition {number} of X has {rows} rows, and {wrong}. All must be partitioned alike: rechunk or "
        trouble += "repartition them together, or lay them out with lp.dask.partition_by_query(X, y, qid, ...)."
        return Seen(rows, trouble, ids, sizes, {}, False)
    weight = values_of(part.get("sample_weight", ())).astype(np.float32)  # LightGBM's type
    try:
        queries = Queries(labels, sizes, document_weight=weight if len(weight) else None, columns=columns)
        tops = {"y": queries.labels, **columns}
        if objective is not None and rows:
            objective.gradients(labels, np.zeros(rows), sizes, columns=columns)
        for metric in metrics:
            per_query_values(metric.parts, queries, np.zeros(rows))
    except LambdaplugError as error:
        return Seen(rows, f"partition {number}: {error}", ids, sizes, {}, False)
    uneven = len(weight) > 0 and one_a_query(weight, sizes) is None
    return Seen(rows, None, ids, sizes, {name: float(np.max(tops[name], initial=0)) for name in tops}, uneven)


class Spread:
    """A data set over the cluster: its partitions that have rows, as futures on the workers that hold them.

    ``given`` are Dask collections by name, X, y, qid or group, and others; or a DaskDMatrix.
    """

    def __init__(self, client: Any, given: Any, what: str, *wanted: Any) -> None:
        self.given, self.what, self.matrix = given, what, not isinstance(given, dict)
        columns = of_data_set(given).values if self.matrix else given.get("columns") or {}
        if not isinstance(columns, Mapping):
            raise LambdaplugError(f"columns: expected a mapping, {{'clicks': dclicks}}, got {type(columns).__name__}.")
        named = {COLUMN + name: one for name, one in columns.items()}
        parts = (
            _of_matrix(client, given, named) if self.matrix else _computed(client, {**given, "columns": None, **named})
        )
        futures = [part["X"] for part in parts]
        _settle(client, futures)
        found, holders = client.who_has(futures), list[str]()
        for one in futures:  # of several workers that have it, the one that was chosen least often before
            holders.append(min(sorted(found[one.key]), key=holders.count))
        send = functools.partial(client.submit, pure=False)
        works = [functools.partial(_look, number, *wanted) for number in range(len(parts))]
        tasks = [send(*task, workers=[holder]) for *task, holder in zip(works, parts, holders, strict=True)]
        _settle(client, tasks, holders)
        every: list[Seen] = client.gather(tasks)
        self._check(every)
        self.numbers = [number for number, one in enumerate(every) if one.rows]  # without those that have no rows
        self.parts, self.holders = (
            [parts[number] for number in self.numbers],
            [holders[number] for number in self.numbers],
        )
        self.seen = [every[number] for number in self.numbers]

    def _check(self, every: Sequence[Seen]) -> None:
        """Refuse rows that do not fit together, and queries that are cut: hosts would train on without a message."""
        trouble = next((one.trouble for one in every if one.trouble is not None), None)
        if trouble is not None or not any(one.rows for one in every):
            raise LambdaplugError(f"{self.what}: {trouble or 'there are no rows.'}")
        filled = [(number, one) for number, one in enumerate(every) if len(one.ids)]
        if not filled:  # sizes were given
            return
        ids, sizes = np.concatenate([one.ids for _, one in filled]), np.concatenate([one.sizes for _, one in filled])
        where = np.repeat([number for number, _ in filled], [len(one.ids) for _, one in filled])
        different, which, counts = np.unique(ids, return_inverse=True, return_counts=True)
        cut = np.flatnonzero(counts > 1)
        if len(cut):
            pieces = np.flatnonzero(which == cut[0])[:3]
            said = " and ".join(f"{sizes[piece]} rows in partition {where[piece]}" for piece in pieces)
            raise LambdaplugError(
                f"{self.what}: the partitions hold {len(ids)} queries of {len(different)} different ids: {len(cut)} are cut, "
                f"the first being query {different[cut[:1]].tolist()[0]!r}, with {said}. Each worker would rank its piece "
                f"alone. {LAY_OUT}"
            )
        if self.matrix and not (ids.dtype.kind in "biu" and ids.min() >= 0 and ids.max() < 1 << 32):
            raise LambdaplugError(
                f"{self.what}: query ids of a DaskDMatrix must be integers from 0 to 2**32 - 1: XGBoost takes others for one "
                "another. Pass (dX, dy, dq), whose ids may be anything."
            )


def _computed(client: Any, collections: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The partitions of collections, by name, as futures, computed together: what they have in common is computed once."""
    named = {name: one for name, one in collections.items() if one is not None}
    if ("qid" in named) == ("group" in named):
        raise LambdaplugError("qid, group: expected one of them, to know which rows belong together. Pass qid=.")
    for name, one in named.items():
        if not is_dask(one):
            raise LambdaplugError(f"{name}: expected a Dask collection, got {type(one).__name__}. {LAY_OUT}")
    parts = {name: parts_of(one) for name, one in named.items()}
    count = len(parts["X"])
    for name, some in parts.items():
        if len(some) != count:
            raise LambdaplugError(f"{name}: expected {count} partitions, as X has, got {len(some)}. {LAY_OUT}")
    futures = client.compute([*itertools.chain(*parts.values())])
    return [dict(zip(parts, futures[number::count], strict=True)) for number in range(count)]


def _of_matrix(client: Any, matrix: Any, columns: dict[str, Any]) -> list[dict[str, Any]]:
    """The partitions of a DaskDMatrix, by the names that they have here, with those of the columns."""
    lost = sorted(set(matrix.worker_map) - set(client.ncores()))
    if lost:  # no other worker would run what is sent to them
        raise LambdaplugError(
            f"the DaskDMatrix: some of its rows were on workers that are gone: {', '.join(lost[:3])}. Build it again."
        )
    placed = [(part, address) for address, some in matrix.worker_map.items() for part in some]
    placed.sort(key=lambda one: matrix.partition_order[one[0].key])
    names = client.submit(list, placed[0][0], pure=False).result()
    if not {"label", "qid"} <= set(names):
        raise LambdaplugError("the DaskDMatrix has no labels or no queries: DaskDMatrix(client, X, y, qid=ids).")
    ours = {name: {"data": "X", "label": "y"}.get(name, name) for name in names}
    pick = functools.partial(client.submit, pure=False)
    parts = [
        {own: pick(operator.itemgetter(name), part, workers=[there]) for name, own in ours.items()}
        for part, there in placed
    ]
    for name, one in columns.items():
        further = client.compute(parts_of(one))
        if len(further) != len(parts):
            raise LambdaplugError(f"{name}: expected {len(parts)} partitions, as the matrix has, got {len(further)}.")
        for part, own in zip(parts, further, strict=True):
            part[name] = own
    return parts


# --- one training -----------------------------------------------------------------------------------------------------


def _require_open(client: Any) -> None:
    if client.status != "running":
        raise LambdaplugError(
            f"the Dask client was closed while it was needed (it is {client.status!r}). Keep it open until the training "
            "returns, and train again with another one."
        )


def _lost(lost: Sequence[str], more: str = "") -> LambdaplugError:
    return LambdaplugError(
        f"workers that the training needs were lost: {', '.join(lost[:3])}. Killed, out of memory or cut off; their "
        "own logs say more. Train again: rows that they kept are computed again, where Dask knows how (a DaskDMatrix: build "
        f"it again).{more}"
    )


def _settle(client: Any, futures: Sequence[Any], workers: Sequence[str] = ()) -> None:
    """Wait until all are computed; raise what went wrong. Only these workers, if given, may compute them."""
    while not all(one.status == "finished" for one in futures):
        _require_open(client)
        for one in futures:
            if one.status in ("error", "cancelled"):  # one that was lost with its worker is computed again
                one.result()  # raises
        lost = sorted(set(workers) - set(client.ncores()))
        if lost:
            raise _lost(lost)
        time.sleep(0.05)


def _restart(address: str, security: Any, workers: set[str], why: str) -> str:
    """Restart those of the workers that are there, by a client of its own, as the training's may be closed; what is said of it."""
    try:
        with Client(address, security=security, set_as_default=False, timeout=30) as own:
            # Without any worker for a moment, Dask would not compute rows again that were asked for on certain workers.
            until = time.monotonic() + 2 * PATIENCE
            while len(own.ncores()) < 2 and time.monotonic() < until:
                time.sleep(0.1)
            left = sorted(workers & set(own.ncores()))
            for some in (left[:1], left[1:]):
                if some:
                    own.restart_workers(some)
    except Exception as error:
        return f" {why}, and could not be restarted ({error}): restart the cluster."
    said = f"so they were restarted: {', '.join(left)}. Rows that they kept are computed again, where Dask knows how."
    return f" {why}, {said}" if left else ""


@contextlib.contextmanager
def _alone(client: Any) -> Iterator[None]:
    """One training on a cluster at a time: two, each on some of the workers, would wait for each other.

    The lease of a client that is gone ends by itself.
    """
    if client.asynchronous:
        raise LambdaplugError("an asynchronous client: training waits for its workers. Use distributed.Client().")
    lease = Semaphore(max_leases=1, name="lambdaplug", scheduler_rpc=client.scheduler, loop=client.loop)
    try:
        lease.acquire()
        with client.as_current():
            yield
    except Exception:
        _require_open(client)
        raise
    finally:
        if client.status == "running":
            lease.release()


def _spread(
    client: Any, given: Any, names: Sequence[str], objective: Any, metrics: Any, callbacks: Any
) -> list[Spread]:
    """The training data and the evaluation sets, looked at. What is given twice is one."""
    if any(isinstance(one, Follower) and one.local for one in callbacks or ()):
        raise LambdaplugError(
            "callbacks: lp.analysis.record follows a training on one machine, and cannot be sent to workers. Leave it out; "
            "lp.metric on evaluation sets reports every round here."
        )
    if objective is not None:
        objective.check_share()
    keys = list(map(_key, given))
    made: dict[Any, Spread] = {}
    for key, one, name in zip(keys, given, ["", *names], strict=True):
        if key not in made:
            first, evaluated = not made, metrics if made or key in keys[1:] else ()
            what = "the training data" if first else f"the evaluation set {name!r}"
            made[key] = Spread(client, one, what, objective if first else None, evaluated)
            for measure, column in itertools.chain(*map(_measures, [objective if first else None, *evaluated])):
                _check_scale(measure, {seen.tops.get(column or "y", 0.0) for seen in made[key].seen})
    return [made[key] for key in keys]


def _measures(what: Objective | Metric | None) -> Iterator[tuple[Measure, Any]]:
    """Every measure inside, with the column of its labels if they are not the data set's."""
    if isinstance(what, Metric):
        yield from ((part.kind, part.labels) for part in what.parts)
    elif what is not None:
        if isinstance(what, MeasureObjective):
            yield what.kind, what.labels
        yield from itertools.chain(*map(_measures, what.inner))


def _check_scale(measure: Measure, tops: set[float]) -> None:
    """A measure scaled by the highest label must be told it, where a worker might not have a row of it."""
    told = getattr(measure, "max_label", 0) is not None or getattr(measure, "click", None) is not None
    if not told and len(tops) > 1:
        said = replace(measure, max_label=max(tops))  # type: ignore[call-arg]
        raise LambdaplugError(
            f"{measure}: it is scaled by the highest label, and no worker sees all of them: some partitions go up to "
            f"{min(tops):g}, others to {max(tops):g}. Say which it is: {said}."
        )


def train(
    client: Any,
    params: Mapping[str, Any],
    data: Any,
    objective: Objective | str | None = None,
    num_boost_round: int | None = None,
    *,
    evals: Sequence[tuple[Any, str]] = (),
    metric: Metric | None = None,
    early_stopping_rounds: int | None = None,
    callbacks: list[Any] | None = None,
    host: str = "xgboost",
    **options: Any,
) -> dict[str, Any]:
    """Train on a Dask cluster: ``{"booster": ..., "history": {name of evals: {measure: [values]}}}``.

    Parameters
    ----------
    client : distributed.Client
    params : dict
        The host's parameters; an objective or a metric of lambdaplug's may be among them.
    data : (dX, dy, dq) or (dX, dy, dq, columns)
        As ``partition_by_query`` returns them, with further columns by name, ``{"clicks": dclicks}``; for XGBoost a DaskDMatrix or
        DaskQuantileDMatrix too, whose columns are attached, ``lp.attach(matrix, clicks=dclicks)``.
    objective : Objective or str, optional
        lambdaplug's; a measure's name, which means ``lp.objective(name)``; or the host's word; default what params say.
    num_boost_round : int, optional
        Default the host's own.
    evals : list of (data, name)
    metric : Metric, optional
        ``lp.metric(...)``, exact over the workers; default the measure trained for.
    early_stopping_rounds : int, optional
        Stop as soon as the last metric of the last of evals (LightGBM: any one metric of any of evals but the training
        data) has not been better for so many rounds.
    callbacks : list, optional
        The host's; they must do the same on every worker. The one that a schedule needs is added.
    host : "xgboost" or "lightgbm"
    options
        What else ``xgboost.dask.train`` or ``lightgbm.DaskLGBMRanker.fit`` takes.
    """
    parameters = dict(params)
    if objective is None and isinstance(as_objective(parameters.get("objective")), Objective):
        objective = parameters.pop("objective")
    objective = as_objective(objective)
    if isinstance(objective, str):
        parameters["objective"], objective = objective, None
    if objective is not None:
        require_objective(objective, "objective: ")
    for word, instead in (("obj", "objective"), ("custom_metric", "metric")):
        if word in options:
            raise LambdaplugError(f"{word}: expected {instead}= here, which takes lambdaplug's.")
    for name in ("eval_metric", "metric"):
        if isinstance(parameters.get(name), Metric):
            own = parameters.pop(name)
            metric = metric or own
    if metric is not None and not isinstance(metric, Metric):
        raise LambdaplugError(f"metric: expected lp.metric('ndcg@10'), got {metric!r}.")
    if host not in ("xgboost", "lightgbm"):
        raise LambdaplugError(f"host: expected 'xgboost' or 'lightgbm', got {host!r}.")
    sets = [_named(one, host) for one in (data, *(one for one, _ in evals))]
    names = [name for _, name in evals]
    options |= {"early_stopping_rounds": early_stopping_rounds, "callbacks": callbacks}
    if num_boost_round is not None:
        options["num_boost_round"] = num_boost_round
    if host == "xgboost":
        return _train_xgboost(client, parameters, sets, names, objective, metric, **options)
    return _train_lightgbm(client, parameters, sets, names, objective, metric, **options)


def _named(data: Any, host: str) -> Any:
    """(dX, dy, dq) by name, or a DaskDMatrix as it is; all else is refused."""
    if isinstance(data, (tuple, list)) and len(data) in (3, 4):
        return dict(zip(("X", "y", "qid", "columns"), (*data, None), strict=False))
    if host == "xgboost" and hasattr(data, "worker_map"):
        return data
    before, after = ("", ", or a DaskDMatrix with qid") if host == "xgboost" else ("for LightGBM ", "")
    count = f" of {len(data)}" if isinstance(data, (tuple, list)) else ""
    raise LambdaplugError(
        f"data: {before}expected (dX, dy, dq), as lp.dask.partition_by_query returns them{after}; got "
        f"{type(data).__name__}{count}."
    )


def _key(data: Any) -> tuple[int, ...]:
    """The same for the same data set, given again."""
    return tuple(map(id, data.values())) if isinstance(data, dict) else (id(data),)


class DaskRanker(QueryColumn):
    """What both rankers of Dask collections do."""

    client: Any

    def gathered(self, things: Sequence[Any]) -> list[Any]:
        """Rows are scored where they are; one number per row comes here."""
        client = self.client or default_client()
        found: list[Any] = client.gather([client.compute(one) if is_dask(one) else one for one in things])
        return found


def _collected(given: dict[str, Any], further: Mapping[str, str]) -> list[dict[str, Any]]:
    """The training data and every evaluation set by name, taken out of the arguments of ``fit``.

    ``further`` has what else belongs to a row, and the argument with that of each evaluation set.
    """
    rows, labels = (
        [one] if is_dask(one) else one or () for one in (given.pop("eval_X", None), given.pop("eval_y", None))
    )
    pairs = [*(given.pop("eval_set", None) or ()), *zip(rows, labels, strict=True)]
    training = {name: given.pop(name, None) for name in ("X", "y", *further)}
    sets = [{"X": X, "y": y} for X, y in pairs]
    for name, word in further.items():
        values = list(given.pop(word, None) or [None] * len(sets))
        if len(values) != len(sets):
            raise LambdaplugError(f"{word}: expected one for each of eval_set ({len(sets)}), got {len(values)}.")
        sets = [{**one, name: value} for one, value in zip(sets, values, strict=True)]
    same = [all(one[name] is None or one[name] is training[name] for name in one) for one in sets]
    return [training, *(training if own else one for own, one in zip(same, sets, strict=True))]


# --- XGBoost ----------------------------------------------------------------------------------------------------------


def _floats(part: Any) -> Array:
    return values_of(part).astype(np.float64)


def _joined(sets: Sequence[Sequence[Mapping[str, Any]]]) -> list[tuple[Array, dict[str, Any]]]:
    """Labels and columns of a worker's rows of each data set."""
    return [
        (np.concatenate([_floats(part["y"]) for part in parts] or [np.empty(0)]), _columns(parts) if parts else {})
        for parts in sets
    ]


def _numbered(ids: Any, first: int) -> Array:
    """0, 1, ... for the queries of a partition, from this number on."""
    sizes = sizes_of(ids_of(ids))
    return np.repeat(np.arange(first, first + len(sizes), dtype=np.float64), sizes)


def _whole(part: Any) -> Any:
    """The same where numbers begin at bounds of memory that XGBoost accepts: what was sent to a worker may not."""
    if isinstance(part, np.ndarray):
        return np.require(part, requirements="A")
    columns = part.items() if isinstance(part, pd.DataFrame) else ()
    return part if all(np.asarray(column).flags.aligned for _, column in columns) else part.copy()


if find_spec("xgboost") is not None:
    import xgboost as xgb
    from xgboost import dask as dxgb

    from .xgboost import HOST as XGBOOST
    from .xgboost import XGBRanker, metrics_of, plain_parameters

    class Plug:
        """An objective or a metric on a worker, which gives data sets their columns before it first sees them.

        ``placed`` says, by worker, under which key it holds what ``_joined`` has made. An error is also told to the scheduler:
        the client may be told that of another worker, whose network has ended by it.
        """

        def __init__(self, plugged: Any, training: str, placed: Mapping[str, str]) -> None:
            self.plugged, self.training, self.placed = plugged, training, placed

        def __call__(self, scores: Any, data: Any) -> Any:
            worker = get_worker()
            try:
                if worker.address in self.placed and not of_data_set(data).values:
                    labels, columns = worker.data[self.placed[worker.address]][XGBOOST.place(data)]
                    if not np.array_equal(labels.astype(np.float32), data.get_label()):
                        raise LambdaplugError(
                            "columns: XGBoost has put the rows of a worker into another order, as query ids do not rise from row "
                            f"to row in a DaskDMatrix. {LAY_OUT}"
                        )
                    attach(data, **columns)
                return self.plugged(scores, data)
            except Exception as error:
                worker.log_event(self.training, f"{type(error).__name__}: {error}")
                raise

    class Learned(xgb.callback.TrainingCallback):  # type: ignore[misc]
        """Has the Booster take along, from the worker to the client, what ``lp.Unbiased`` has learned."""

        NAME = "lambdaplug_learned"

        def __init__(self, objective: Any) -> None:
            super().__init__()
            self.objective = objective

        def after_training(self, model: Any) -> Any:
            curve = pickle.dumps(learned(self.objective, model))
            model.set_attr(**{self.NAME: base64.b64encode(curve).decode()})
            return model

    def _matrix(client: Any, data: Spread, reference: Any, quantile: bool, options: dict[str, Any]) -> Any:
        """A DaskDMatrix of these rows; its queries are numbered as they come, as XGBoost keeps 32 bits of an id."""
        if data.matrix:
            return data.given
        rows, firsts = [one.rows for one in data.seen], np.cumsum([0, *(len(one.sizes) for one in data.seen)]).tolist()

        def column(make: Any, name: str, *further: Any) -> Any:
            parts = map(delayed(make), [part[name] for part in data.parts], *further)
            return da.concatenate(
                [da.from_delayed(part, (n,), np.float64) for part, n in zip(parts, rows, strict=True)]
            )

        given = {"label": column(_floats, "y"), "qid": column(_numbered, "qid", firsts[:-1])}
        if "base_margin" in data.parts[0]:
            given["base_margin"] = column(_floats, "base_margin")
        X = _like(data.given["X"], [delayed(_whole)(part["X"]) for part in data.parts], rows)
        if quantile:
            return dxgb.DaskQuantileDMatrix(client, X, **given, ref=reference, **options)
        return dxgb.DaskDMatrix(client, X, **given, **{k: v for k, v in options.items() if k != "max_bin"})

    def _placed(client: Any, sets: Sequence[Spread], matrices: Sequence[Any]) -> dict[str, Any]:
        """By worker, a future of the labels and columns that it has of every data set, in the order of its rows."""
        placed: dict[str, list[list[Any]]] = {}
        for number, (data, matrix) in enumerate(zip(sets, matrices, strict=True)):
            known = dict(zip(data.numbers if data.matrix else itertools.count(), data.parts, strict=False))
            for worker, parts in matrix.worker_map.items():
                mine = [known[i] for part in parts if (i := matrix.partition_order[part.key]) in known]
                own = [{k: one for k, one in part.items() if k == "y" or k.startswith(COLUMN)} for part in mine]
                placed.setdefault(worker, [[] for _ in sets])[number] = own
        send = functools.partial(client.submit, _joined, pure=False)
        found = {worker: send(own, workers=[worker]) for worker, own in placed.items()}
        _settle(client, list(found.values()), list(found))
        return found

    def _train_xgboost(
        client: Any, params: dict[str, Any], given: Any, names: Any, objective: Any, metric: Any, **options: Any
    ) -> dict[str, Any]:
        callbacks = options.pop("callbacks", None)
        if metric is None and names and not params.get("eval_metric"):
            metric = metrics_of(objective, None)[1]
        params = plain_parameters(params, objective, params.get("eval_metric"))
        quantile = params.get("tree_method") in (None, "auto", "hist") and params.get("booster") != "gblinear"
        of_matrix = {"max_bin": params.get("max_bin"), **options.pop("matrix_options", {})}
        further = [*(with_callback(objective, callbacks) or ())]
        if isinstance(objective, Unbiased):
            further.append(Learned(objective))
        workers, training = list[str](), uuid.uuid4().hex
        address, security = client.scheduler.address, client.security
        try:
            with _alone(client):
                sets = _spread(client, given, names, objective, [] if metric is None else [metric], callbacks)
                first = _matrix(client, sets[0], None, quantile, of_matrix)
                other = functools.partial(_matrix, client, reference=first, quantile=quantile, options=of_matrix)
                made = {one: first if one is sets[0] else other(one) for one in sets}
                matrices = [made[one] for one in sets]
                workers = [*itertools.chain(*(matrix.worker_map for matrix in matrices))]
                kept = _placed(client, sets, matrices) if any(len(one.seen[0].tops) > 1 for one in sets) else {}
                placed = {worker: future.key for worker, future in kept.items()}
                plugged = [None if one is None else Plug(one, training, placed) for one in (objective, metric)]
                options |= {"obj": plugged[0], "custom_metric": plugged[1], "callbacks": further}
                evals = list(zip(matrices[1:], names, strict=True))
                options = {"verbose_eval": False, **options}
                found: dict[str, Any] = dxgb.train(client, params, first, evals=evals, **options)
        except Exception as error:  # say why, as far as the cluster shows it
            if client.status != "running":  # and its lock on these workers, which XGBoost takes, would stay
                _restart(address, security, set(workers), "")
            _require_open(client)
            lost = sorted(set(workers) - set(client.ncores()))
            if lost:
                raise _lost(lost) from error
            for _, said in client.get_events(training):
                raise LambdaplugError(f"the training ended on a worker: {said}") from error
            raise
        booster = found["booster"]
        text = booster.attr(Learned.NAME)
        if text is not None:
            booster.set_attr(**{Learned.NAME: None})
            remember(booster, objective, pickle.loads(base64.b64decode(text)))
        return found

    class DaskXGBRanker(dxgb.DaskXGBRanker, DaskRanker):  # type: ignore[misc]
        """``xgboost.dask.DaskXGBRanker`` that takes a measure or an objective: ``.fit(dX, dy, qid=dq)``.

        ``eval_metric`` takes ``lp.metric(...)``, exact over the workers, and is the measure trained for if left out. ``columns``
        and ``eval_columns`` are Dask collections by name, as ``lp.dask.train`` takes them. Data that cut a query are refused,
        whatever ``allow_group_split`` says: rows are not moved unless you ask ``lp.dask.partition_by_query`` to. ``score`` is
        that of ``lp.XGBRanker``.

        Parameters
        ----------
        objective : str, Measure or Objective
            A measure, by its text or as an object, means ``lp.objective(measure)``; the host's own words (``"lambdarank"``,
            ``"rank:ndcg"``) keep their meaning.
        **kwargs
            All parameters of ``xgboost.dask.DaskXGBRanker``.

        Examples
        --------
        >>> import lambdaplug as lp
        >>> model = lp.DaskXGBRanker(objective="map", n_estimators=50)  # model.fit(dX, dy, qid=dq), Dask's arrays
        >>> model.n_estimators
        50
        """

        eval_metric: Any
        callbacks: Any
        score = DaskRanker.score
        _trained_for = XGBRanker._trained_for

        def __init__(self, *, objective: str | Measure | Objective = "rank:ndcg", **kwargs: Any) -> None:
            client = kwargs.pop("client", None)  # LightGBM's takes it here, XGBoost's as an attribute
            super().__init__(**kwargs)
            if set(getattr(self, "kwargs", None) or ()) == {"kwargs"}:  # where XGBoost 2.0 loses all of them
                super(dxgb.DaskXGBRanker, self).__init__(**kwargs)
            self.objective: Any = objective
            if client is not None:
                self.client = client

        def get_xgb_params(self) -> dict[str, Any]:
            return plain_parameters(super().get_xgb_params(), self.objective, self.eval_metric)

        @functools.wraps(dxgb.DaskXGBRanker.fit)
        def fit(self, *args: Any, **kwargs: Any) -> "DaskXGBRanker":
            own = {name: kwargs.pop(name, None) for name in ("columns", "eval_columns")}
            given = {**by_name(dxgb.DaskXGBRanker.fit, args, kwargs), **own}
            given = {name: value for name, value in given.items() if value is not None}
            if "group" in given or "eval_group" in given or "qid" not in given:
                raise LambdaplugError(
                    "XGBoost on Dask knows queries by their ids: pass qid= (and eval_qid=), not group=."
                )
            if "sample_weight" in given or "sample_weight_eval_set" in given:
                raise LambdaplugError("XGBoost on Dask takes no weights together with qid; LightGBM does.")
            sets = _collected(
                given, {"qid": "eval_qid", "base_margin": "base_margin_eval_set", "columns": "eval_columns"}
            )
            words, metric = metrics_of(None, self.eval_metric)
            if any(callable(one) for one in (words if isinstance(words, (list, tuple)) else [words])):
                raise LambdaplugError(
                    f"eval_metric: expected names and lp.metric(...), got {words!r}: the mean of a function over workers "
                    "cannot be known. As a measure: lp.metric(lp.custom('name', value))."
                )
            objective, model = as_objective(self.objective), given.get("xgb_model")
            words_of = ("missing", "enable_categorical", "feature_types", "feature_weights")
            results = _train_xgboost(
                self.client,
                {**self.get_xgb_params(), "eval_metric": words},
                sets,
                [f"validation_{i}" for i in range(len(sets) - 1)],
                objective if isinstance(objective, Objective) else None,
                metric,
                callbacks=self.callbacks,
                coll_cfg=getattr(self, "coll_cfg", None),
                matrix_options={name: given.get(name, getattr(self, name, None)) for name in words_of},
                num_boost_round=self.get_num_boosting_rounds(),
                early_stopping_rounds=self.early_stopping_rounds,
                verbose_eval=given.get("verbose", False),
                xgb_model=model.get_booster() if isinstance(model, xgb.XGBModel) else model,
            )
            self._Booster, self.evals_result_ = results["booster"], results["history"]
            return self


# --- LightGBM ---------------------------------------------------------------------------------------------------------


class Hub:
    """Where LightGBM's workers add up: an actor on one of them."""

    def __init__(self, members: int) -> None:
        self.members = members
        self.turns: dict[int, tuple[dict[int, Any], asyncio.Event]] = {}

    async def total(self, turn: int, rank: int, values: Array) -> Array:
        """The sum of what all members bring to this turn, the same bits for each."""
        brought, ready = self.turns.setdefault(turn, ({}, asyncio.Event()))
        brought[rank] = values
        if len(brought) == self.members:
            ready.set()
        await ready.wait()
        self.turns.pop(turn - 1, None)  # all members have that
        total: Array = np.sum([brought[member] for member in range(self.members)], axis=0)
        return total


class Together:
    """A callback of a worker's LightGBM: its rows are a share, and this is how sums over all workers are found."""

    before_iteration = True

    def __init__(self, hub: Any, rank: int, uneven: bool) -> None:
        self.order = -1 << 30  # before all other callbacks
        self.hub, self.rank, self.uneven, self.turn = hub, rank, uneven, 0
        self.booster: Any = None

    def __call__(self, environment: Any) -> None:
        if self.booster is None:
            self.booster = environment.model
            training = LIGHTGBM.training(self.booster)
            training.total, training.uneven = self.total, self.uneven

    def total(self, values: Array) -> Array:
        self.turn += 1
        found: Array = self.hub.total(self.turn, self.rank, values).result()
        return found


def _rows(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """A worker's rows of one data set."""
    flat = {name: np.concatenate([_floats(part[name]) for part in parts]) for name in FURTHER if name in parts[0]}
    sizes = np.concatenate([_sizes(part) for part in parts])
    return {"X": join([part["X"] for part in parts]), "group": sizes, "columns": _columns(parts), **flat}


def _dealt(data: Spread, workers: Sequence[str]) -> list[list[dict[str, Any]]]:
    """The partitions for each of the workers that train, some for each: LightGBM evaluates on all or stops on none."""
    own = [[part for part, holder in zip(data.parts, data.holders, strict=True) if holder == one] for one in workers]
    if not all(own) or sum(map(len, own)) < len(data.parts):
        own = [data.parts[rank :: len(workers)] for rank in range(len(workers))]
    if not all(own):
        raise LambdaplugError(
            f"{data.what}: expected at least as many partitions with rows as there are workers that train ({len(workers)}), "
            f"got {len(data.parts)}: lp.dask.partition_by_query(X, y, qid, npartitions={len(workers)})."
        )
    return own


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("", 0))
        port: int = one.getsockname()[1]
        return port


def _network(client: Any, port: Any, workers: Sequence[str]) -> list[dict[str, Any]]:
    """LightGBM's parameters: where each worker listens, and where it finds the others."""
    hosts = [str(urlparse(one).hostname) for one in workers]
    if port and len(set(hosts)) < len(hosts):
        raise LambdaplugError("local_listen_port: several workers are on one machine, which cannot all have it.")
    free = {} if port else client.run(_free_port, workers=list(workers))
    ports = [int(port or free[one]) for one in workers]
    machines = ",".join(f"{host}:{own}" for host, own in zip(hosts, ports, strict=True))
    words = {"machines": machines, "num_machines": len(workers)} if len(workers) > 1 else {}
    return [{**words, "local_listen_port": own} for own in ports]


def _work(params: dict[str, Any], fit: dict[str, Any], which: Sequence[int], member: Any, *sets: Any) -> Any:
    """A worker's training: what the first one's ranker has learned, and its curve of position biases if there is one."""
    made = [_rows(parts) for parts in sets]
    training, *evals = (made[number] for number in which)
    threads = params.get("n_jobs") or get_worker().state.nthreads
    ranker, together = LGBMRanker(**{**params, "n_jobs": threads}), Together(*member)
    words = "group", "columns", "sample_weight", "init_score"
    given = {**fit, "callbacks": [together, *(fit.get("callbacks") or ())]}
    if evals:
        given |= {f"eval_{name}": [one.get(name) for one in evals] for name in words}
        pairs = [(one["X"], one["y"]) for one in evals]
        given |= (
            dict(zip(("eval_X", "eval_y"), zip(*pairs, strict=True), strict=True)) if PAIRED else {"eval_set": pairs}
        )
    try:
        ranker.fit(training["X"], training["y"], **{name: training.get(name) for name in words}, **given)
        curve = learned(ranker.objective, ranker)
    finally:
        if together.booster is not None:
            together.booster.free_network()
    asked = {*ranker.get_params(), "_other_params"}
    return None if together.rank else ({name: own for name, own in vars(ranker).items() if name not in asked}, curve)


def _outcome(client: Any, workers: Sequence[str], submit: Callable[[int], Any]) -> Any:
    """What the first of the tasks returns, one on each worker. Where one fails or is lost, the others are restarted."""
    address, security, futures = client.scheduler.address, client.security, list[Any]()

    def restart() -> str:
        every = zip(workers, futures, strict=False)
        left = {worker for worker, one in every if one.status not in ("finished", "error")}
        return _restart(address, security, left, "LightGBM's other workers would wait for it for ever")

    try:
        futures += [submit(rank) for rank in range(len(workers))]
        lost = _watched(client, workers, futures)
        if all(one.status == "finished" for one in futures):
            return futures[0].result()
    except BaseException:
        restart()
        raise
    error = next((one.exception() for one in futures if one.status == "error"), None)
    more = restart()
    if lost:
        raise _lost(lost, more) from error
    if error is None:
        raise LambdaplugError(f"the training ended on some workers alone: callbacks must do the same on all.{more}")
    if not more:
        raise error
    raise LambdaplugError(f"the training ended on a worker: {type(error).__name__}: {error}{more}") from error


def _watched(client: Any, workers: Sequence[str], futures: Sequence[Any]) -> list[str]:
    """Wait until all have ended, or some have not some time after the first; the workers that are lost."""
    first = None
    while any(one.status == "pending" for one in futures):
        _require_open(client)
        lost = sorted(set(workers) - set(client.ncores()))
        if first is None and any(one.status != "pending" for one in futures):
            first = time.monotonic()
        if lost or (first is not None and time.monotonic() - first > PATIENCE):
            return lost
        time.sleep(0.1)
    _require_open(client)
    return []


if find_spec("lightgbm") is not None:
    import inspect

    import lightgbm as lgb

    from .lightgbm import HOST as LIGHTGBM
    from .lightgbm import LGBMRanker

    PAIRED = "eval_X" in inspect.signature(lgb.LGBMRanker.fit).parameters  # LightGBM 4.7 and later
    _aliases = lgb.basic._ConfigAliases.get

    class DaskLGBMRanker(lgb.DaskLGBMRanker, DaskRanker):  # type: ignore[misc]
        """``lightgbm.DaskLGBMRanker`` that takes a measure or an objective: ``.fit(dX, dy, qid=dq)``, or ``group=`` as the parent.

        ``qid`` and ``eval_qid`` have the query id of each row, and cannot be misaligned unnoticed. ``columns`` and
        ``eval_columns`` are Dask collections by name, as ``lp.dask.train`` takes them. ``eval_metric`` takes ``lp.metric(...)``,
        exact over the workers, and is the measure trained for if left out; on such metrics early stopping works too. Data that
        cut a query are refused. ``score`` is that of ``lp.LGBMRanker``.

        Parameters
        ----------
        objective : str, Measure or Objective
            A measure, by its text or as an object, means ``lp.objective(measure)``; the host's own words (``"lambdarank"``,
            ``"rank:ndcg"``) keep their meaning.
        client : distributed.Client, optional
            Default the current one.
        **kwargs
            All parameters of ``lightgbm.DaskLGBMRanker``.

        Examples
        --------
        >>> import lambdaplug as lp
        >>> model = lp.DaskLGBMRanker(objective="map", n_estimators=50)  # model.fit(dX, dy, qid=dq), Dask's arrays
        >>> model.n_estimators
        50
        """

        objective: Any
        score = DaskRanker.score
        _trained_for = LGBMRanker._trained_for

        @functools.wraps(lgb.DaskLGBMRanker.fit)
        def fit(self, *args: Any, **kwargs: Any) -> "DaskLGBMRanker":
            own = {name: kwargs.pop(name, None) for name in ("qid", "eval_qid", "columns", "eval_columns")}
            options = {**by_name(lgb.DaskLGBMRanker.fit, args, kwargs), **own}
            further = "qid", "group", "sample_weight", "init_score", "columns"
            given = _collected(options, {name: f"eval_{name}" for name in further})
            objective, client = as_objective(self.objective), self.client or default_client()
            plugged = objective if isinstance(objective, Objective) else None
            params = {name: value for name, value in self.get_params().items() if name != "client"}
            metrics = options["eval_metric"] = _metrics(params, plugged, options, len(given) > 1)
            names = options.get("eval_names") or [f"valid_{i}" for i in range(len(given) - 1)]
            options["eval_names"] = names or None
            learner = str(next((params.pop(name) for name in _aliases("tree_learner") if name in params), ""))
            params["tree_learner"] = learner if learner.startswith(("data", "feature", "voting")) else "data"
            port = next((params.pop(name) for name in _aliases("local_listen_port") if params.get(name)), None)
            wanted = plugged, [one for one in metrics if isinstance(one, Metric)], options.get("callbacks")
            with _alone(client):
                sets = _spread(client, given, names, *wanted)
                workers, distinct = sorted(set(sets[0].holders)), list(dict.fromkeys(sets))
                dealt, which = [_dealt(one, workers) for one in distinct], [distinct.index(one) for one in sets]
                uneven, network = any(one.uneven for one in sets[0].seen), _network(client, port, workers)
                hub = client.submit(Hub, len(workers), actor=True, pure=False, workers=workers[:1])

                def submit(rank: int) -> Any:
                    member, own = (hub, rank, uneven), (parts[rank] for parts in dealt)
                    task = {**params, **network[rank]}, options, which, member, *own
                    return client.submit(_work, *task, workers=[workers[rank]], pure=False)

                state, curve = _outcome(client, workers, submit)
            self.__dict__.update(state)
            remember(self.booster_, self.objective, curve)
            return self

        def to_local(self) -> LGBMRanker:
            """The model as an ``lp.LGBMRanker``."""
            local: LGBMRanker = self._lgb_dask_to_local(LGBMRanker)
            return local

    def _metrics(
        params: dict[str, Any], objective: Objective | None, fit: dict[str, Any], evaluated: bool
    ) -> list[Any]:
        """The metrics to report: what ``fit`` is asked for, or else the measure trained for.

        LightGBM's own metrics are each worker's: stopping on them, some workers would stop, and the others wait for ever.
        """
        named = [params[name] for name in ("metric", "metrics", "metric_types") if params.get(name)]  # LightGBM's own
        asked, target = (
            as_metric(fit.get("eval_metric"), objective is not None),
            None if objective is None else objective.goal,
        )
        if evaluated and asked is None and target is not None and not named:
            asked = Metric.of([target])
        metrics = [one for one in (asked if isinstance(asked, list) else [asked]) if one is not None]
        stops = any(params.get(name) for name in _aliases("early_stopping_round")) or any(
            isinstance(one, lgb.callback._EarlyStoppingCallback) for one in fit.get("callbacks") or ()
        )
        if stops and not evaluated:
            raise LambdaplugError("early stopping: there is nothing to look at. Pass evals= (a ranker: eval_set=).")
        quiet = all(str(name).lower() in ("none", "custom", "na", "null") for name in named)
        silent = bool(named) or objective is not None  # else the objective's own metric comes along
        if stops and not (metrics and all(isinstance(one, Metric) for one in metrics) and quiet and silent):
            raise LambdaplugError(
                "early stopping on LightGBM's own metrics: each worker computes them of its own rows, so that one stops "
                "and the others wait. Stop on lp.metric alone: eval_metric=lp.metric('ndcg@10'), and metric='None' "
                "beside an objective of LightGBM's."
            )
        return metrics

    def _as_estimator(params: dict[str, Any]) -> dict[str, Any]:
        """Parameters by the names that LightGBM's estimators have for them.

        Given under another name, a parameter might lose against the estimator's default.
        """
        renamed, names = dict(params), lgb.basic._ConfigAliases
        for name in lgb.LGBMRanker().get_params():
            found = [alias for alias in names.get_by_alias(name) if alias in renamed]
            main_first = sorted(found, key=lambda alias: (len(names.get(alias)) == 1, alias))
            values = [renamed.pop(alias) for alias in main_first]
            if values:
                renamed[name] = values[0]
        return renamed

    def _train_lightgbm(
        client: Any, params: dict[str, Any], given: Any, names: Any, objective: Any, metric: Any, **options: Any
    ) -> dict[str, Any]:
        callbacks, stop = list(options.pop("callbacks", None) or ()), options.pop("early_stopping_rounds", None)
        rounds = options.pop("num_boost_round", None)
        words = {"objective": objective, "num_iterations": rounds}
        params |= {name: value for name, value in words.items() if value is not None}
        if stop is not None:
            callbacks.append(lgb.early_stopping(stop, verbose=False))
        data, *evals = given
        if evals:
            options |= {"eval_set": [(one["X"], one["y"]) for one in evals], "eval_qid": [one["qid"] for one in evals]}
            options |= {"eval_names": names, "eval_columns": [one["columns"] for one in evals]}
        ranker = DaskLGBMRanker(client=client, **_as_estimator(params))
        ranker.fit(**data, eval_metric=metric, callbacks=callbacks, **options)
        return {"booster": ranker.booster_, "history": ranker.evals_result_}
