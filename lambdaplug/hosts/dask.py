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
from distributed import Client, Semaphore, default_client, get_worker, wait

from ..checking import integer
from ..columns import attach, of_data_set
from ..errors import LambdaplugError
from ..evaluation import Metric, per_query_values
from ..grouping import group_sizes
from ..measures import Measure
from ..objectives import Objective, Unbiased, as_objective
from ..objectives.base import MeasureObjective, require_objective
from ..queries import Array, Queries
from ..rows import one_a_query
from .base import learned, remember, sliceable, take
from .callback import Follower, with_callback
from .rankers import QueryColumn, as_metric, evaluated, for_each

__all__ = ["partition_by_query", "train"]

LAY_OUT = "Lay the data out first: dX, dy, dq = lp.dask.partition_by_query(X, y, qid)."
COLUMN = "column "  # and its name: how a partition has a further column beside X, y, ...
PATIENCE = 5.0  # seconds within which all workers end, when one of them has


def is_dask(thing: Any) -> bool:
    return hasattr(thing, "__dask_graph__")


def values_of(part: Any) -> npt.NDArray[Any]:
    """A partition of one column, as a flat array."""
    return np.asarray(part).reshape(-1)


def floats_of(part: Any) -> Array:
    return values_of(part).astype(np.float64)


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


def _like(head: Any, parts: Sequence[Any], rows: Sequence[int]) -> Any:
    """The partitions as a collection of frames or arrays, whatever these (no) rows are."""
    if hasattr(head, "iloc"):
        return dd.from_delayed(parts, meta=head)
    shapes = [(count, *head.shape[1:]) for count in rows]
    return da.concatenate([da.from_delayed(part, shape, meta=head) for part, shape in zip(parts, shapes, strict=True)])


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
    if npartitions is not None:
        integer(npartitions, "npartitions")
    things, spread = [X, y, qid, *columns], is_dask(X)
    if any(is_dask(thing) != spread for thing in things):
        raise LambdaplugError(
            "partition_by_query: expected Dask collections only, or none. Beside a Dask array X, a local y is "
            "da.from_array(y, chunks=X.chunks[0])."
        )
    things = things if spread else [sliceable(thing) for thing in things]
    several = [parts_of(thing) if spread else [thing] for thing in things]
    if len(set(map(len, several))) > 1:
        counts = ", ".join(str(len(parts)) for parts in several)
        raise LambdaplugError(
            f"partition_by_query: X, y, qid and further columns have {counts} partitions. All must be partitioned alike: "
            "rechunk or repartition them together."
        )
    parts = list(zip(*several, strict=True))
    later = delayed if spread else lambda function, **_: function  # local data are laid out at once
    surveys: list[_Ids] = list(da.compute(*(later(_survey)(number, *part) for number, part in enumerate(parts))))
    filled = [one for one in surveys if len(one.ids)]
    if not filled:
        raise LambdaplugError("partition_by_query: there are no rows.")
    apart = all(a.ids[-1] < b.ids[0] for a, b in itertools.pairwise(filled))
    if spread and npartitions is None and apart and all(one.ordered for one in surveys):
        return tuple(things)
    ids, which = np.unique(np.concatenate([one.ids for one in filled]), return_inverse=True)
    sizes = np.bincount(which, np.concatenate([one.counts for one in filled])).astype(np.int64)
    results, rows = [], []
    for first, last in _cut(sizes, npartitions or (len(parts) if spread else 4)):
        low, high = ids[first], ids[last - 1]
        some = [part for part, one in zip(parts, surveys, strict=True) if ((one.ids >= low) & (one.ids <= high)).any()]
        results.append(later(_gathered, nout=len(things))([later(_piece)(low, high, *part) for part in some]))
        rows.append(int(sizes[first:last].sum()))
    heads = [thing._meta if hasattr(thing, "_meta") else thing[:0] for thing in things]
    return tuple(_like(head, [delayed(one[i]) for one in results], rows) for i, head in enumerate(heads))


class _Ids(NamedTuple):
    """A partition's query ids."""

    ids: npt.NDArray[Any]  # sorted
    counts: npt.NDArray[np.int64]
    ordered: bool


def _survey(number: int, X: Any, y: Any, qid: Any, *columns: Any) -> _Ids:
    values = values_of(qid)
    lengths = [thing.shape[0] for thing in (X, y, qid, *columns)]
    if len(set(lengths)) > 1:
        raise LambdaplugError(
            f"partition {number}: X, y, qid and further columns have {lengths} rows; expected as many."
        )
    if pd.isna(values).any():
        raise LambdaplugError("qid: some rows have none. Drop them, or give each a query of its own.")
    ids, counts = np.unique(values, return_counts=True)
    return _Ids(ids, counts, bool((values[1:] >= values[:-1]).all()))


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


class Summary(NamedTuple):
    """A partition, as a worker sees it."""

    rows: int
    ids: npt.NDArray[Any]  # of each query; empty where sizes were given
    sizes: npt.NDArray[np.int64]
    uneven: bool  # weights differ within a query


class Spread(NamedTuple):
    """A data set over the cluster: its partitions that have rows."""

    given: Any  # Dask collections by name, X, y, qid or group, and others; or a DaskDMatrix
    what: str
    parts: list[dict[str, Any]]  # futures by name
    seen: list[Summary]
    head: Any  # X without rows


def _columns(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    names = [name for name in parts[0] if name.startswith(COLUMN)] if parts else ()
    return {name.removeprefix(COLUMN): np.concatenate([np.asarray(part[name]) for part in parts]) for name in names}


def _sizes(part: Mapping[str, Any], rows: int | None = None) -> npt.NDArray[np.int64]:
    """The number of rows of each query."""
    return group_sizes(values_of(part["group"]) if "group" in part else None, part.get("qid"), rows)


def _look(where: str, objective: Objective | None, metrics: Sequence[Metric], part: dict[str, Any]) -> Summary:
    """A partition, after one gradient and one evaluation: what they refuse is said before workers wait for each other."""
    rows = part["X"].shape[0]
    for name, values in part.items():
        if name not in ("X", "qid", "group") and values.shape[0] != rows:
            raise LambdaplugError(
                f"{where} of X has {rows} rows, and {name} has {values.shape[0]}. All must be partitioned alike: rechunk or "
                "repartition them together, or lay them out with lp.dask.partition_by_query(X, y, qid, ...)."
            )
    try:
        sizes = _sizes(part, rows)
        queries = Queries(values_of(part["y"]), sizes, columns=_columns([part]))
        if objective is not None and rows:
            objective.differentiate(queries, np.zeros(rows))
        for metric in metrics:
            per_query_values(metric.parts, queries, np.zeros(rows))
    except LambdaplugError as error:
        raise LambdaplugError(f"{where}: {error}") from None
    ids = values_of(part["qid"])[np.cumsum(sizes) - sizes] if "qid" in part else np.empty(0)
    weight = values_of(part.get("sample_weight", ())).astype(np.float32)  # LightGBM's type
    return Summary(rows, ids, sizes, len(weight) > 0 and one_a_query(weight, sizes) is None)


def _partitions(client: Any, given: Any) -> list[dict[str, Any]]:
    """The partitions of a data set, as futures by name."""
    plain = isinstance(given, dict)
    parts = {} if plain else _of_matrix(client, given)
    own = {name: one for name, one in given.items() if one is not None and name != "columns"} if plain else {}
    columns = (given.get("columns") or {}) if plain else of_data_set(given).values
    if not isinstance(columns, Mapping):
        raise LambdaplugError(f"columns: expected a mapping, {{'clicks': dclicks}}, got {type(columns).__name__}.")
    for name, one in {**own, **{COLUMN + name: one for name, one in columns.items()}}.items():
        if not is_dask(one):
            raise LambdaplugError(f"{name}: expected a Dask collection, got {type(one).__name__}. {LAY_OUT}")
        parts[name] = parts_of(one)
    if ("qid" in parts) == ("group" in parts):
        raise LambdaplugError("qid, group: expected one of them, to know which rows belong together. Pass qid=.")
    count = len(parts["X"])
    for name, some in parts.items():
        if len(some) != count:
            raise LambdaplugError(f"{name}: expected {count} partitions, as X has, got {len(some)}. {LAY_OUT}")
    futures = client.compute([*itertools.chain(*parts.values())])  # together: what they have in common is computed once
    return [dict(zip(parts, futures[number::count], strict=True)) for number in range(count)]


def _of_matrix(client: Any, matrix: Any) -> dict[str, list[Any]]:
    """What the partitions of a DaskDMatrix have, in their order, by the names that it has here."""
    parts = sorted(itertools.chain(*matrix.worker_map.values()), key=lambda part: matrix.partition_order[part.key])
    pick = functools.partial(client.submit, pure=False)
    ours = {"data": "X", "label": "y"}
    names = pick(list, parts[0]).result()
    return {ours.get(name, name): [pick(operator.itemgetter(name), part) for part in parts] for name in names}


def _spread(client: Any, given: Any, what: str, objective: Objective | None, metrics: Sequence[Metric]) -> Spread:
    """A data set, looked at. Queries that are cut are refused: hosts would train on without a message."""
    parts = _partitions(client, given)
    send = functools.partial(client.submit, pure=False)
    tasks = [send(_look, f"{what}: partition {number}", objective, metrics, part) for number, part in enumerate(parts)]
    head = send(take, parts[0]["X"], slice(0))
    _settle(client, [*tasks, head])
    seen: list[Summary] = client.gather(tasks)
    filled = [number for number, one in enumerate(seen) if one.rows]
    if not filled:
        raise LambdaplugError(f"{what}: there are no rows.")
    held: dict[Any, int] = {}
    for number, one in enumerate(seen):
        ids = one.ids.tolist()
        cut = [query for query in ids if query in held]
        if cut:
            raise LambdaplugError(
                f"{what}: query {cut[0]!r} is cut: partitions {held[cut[0]]} and {number} both have rows of it, and of "
                f"{len(cut) - 1} others. Each worker would rank its piece alone. {LAY_OUT}"
            )
        held |= dict.fromkeys(ids, number)
    return Spread(given, what, [parts[number] for number in filled], [seen[number] for number in filled], head.result())


# --- one training -----------------------------------------------------------------------------------------------------


def _settle(client: Any, futures: Sequence[Any], workers: Sequence[str] = ()) -> None:
    """Wait until all are computed; raise what went wrong. Only these workers, if given, may compute them."""
    while not all(one.status == "finished" for one in futures):
        trouble = _trouble(client, workers)
        if trouble:
            raise LambdaplugError(trouble)
        for one in futures:
            if one.status in ("error", "cancelled"):  # one that was lost with its worker is computed again
                one.result()  # raises
        time.sleep(0.05)


def _trouble(client: Any, workers: Sequence[str]) -> str:
    """Why a training that needs these workers cannot go on, if the cluster shows it."""
    if client.status != "running":
        return (
            f"the Dask client was closed while it was needed (it is {client.status!r}). Keep it open until the training "
            "returns, and train again with another one."
        )
    lost = sorted(set(workers) - set(client.ncores())) if workers else []
    if not lost:
        return ""
    return (
        f"workers that the training needs were lost: {', '.join(lost[:3])}. Killed, out of memory or cut off; their own logs "
        "say more. Train again: rows that they kept are computed again, where Dask knows how."
    )


def _restart(address: str, security: Any, workers: set[str]) -> str:
    """Restart those of the workers that are there, by a client of its own, as the training's may be closed; what is said of it."""
    why = "The other workers would wait for ever"
    try:
        with Client(address, security=security, set_as_default=False, timeout=30) as own:
            left = sorted(workers & set(own.ncores()))
            if not left:
                return ""
            # Without any worker for a moment, Dask would not compute rows again that were asked for on certain workers.
            with contextlib.suppress(TimeoutError):
                own.wait_for_workers(2, timeout=2 * PATIENCE)
            for some in filter(None, (left[:1], left[1:])):
                own.restart_workers(some)
    except Exception as error:
        return f" {why}, and could not be restarted ({error}): restart the cluster."
    return f" {why}, so they were restarted: {', '.join(left)}. Rows that they kept are computed again, where Dask knows how."


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
    except Exception as error:
        if client.status != "running":
            raise LambdaplugError(_trouble(client, ())) from error
        raise
    finally:
        if client.status == "running":
            lease.release()


def _looked_at(
    client: Any, given: Sequence[Any], names: Sequence[str], objective: Any, metrics: Any, callbacks: Any
) -> list[Spread]:
    """The training data and the evaluation sets. One that is the training data is the same object."""
    if any(isinstance(one, Follower) and one.local for one in callbacks or ()):
        raise LambdaplugError(
            "callbacks: lp.analysis.record follows a training on one machine, and cannot be sent to workers. Leave it out; "
            "lp.metric on evaluation sets reports every round here."
        )
    if objective is not None:
        objective.check_share()
    for measure in [*_measures(objective), *(part.kind for one in metrics for part in one.parts)]:
        if getattr(measure, "max_label", 0) is None and getattr(measure, "click", None) is None:
            raise LambdaplugError(
                f"{measure}: it is scaled by the highest label, and no worker sees all of them. Say which it is, such as "
                f"{replace(measure, max_label=4)}."
            )
    same = [_alike(one, given[0]) for one in given[1:]]
    first = _spread(client, given[0], "the training data", objective, metrics if any(same) else ())
    found = [first]
    for one, name, again in zip(given[1:], names, same, strict=True):
        found.append(first if again else _spread(client, one, f"the evaluation set {name!r}", None, metrics))
    return found


def _alike(one: Any, other: Any) -> bool:
    """Whether this is the same data set, given again; what is not said of it is as in the other."""
    if not isinstance(one, dict) or not isinstance(other, dict):
        return one is other
    return all(value is None or value is other[name] for name, value in one.items())


def _measures(objective: Objective | None) -> Iterator[Measure]:
    """Every measure inside."""
    if isinstance(objective, MeasureObjective):
        yield objective.kind
    for part in () if objective is None else objective.inner:
        yield from _measures(part)


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
        The host's parameters.
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
    told = parameters.pop("objective", None)
    objective = as_objective(told if objective is None else objective)
    if isinstance(objective, str):
        parameters["objective"], objective = objective, None
    elif objective is not None:
        require_objective(objective, "objective: ")
    if metric is not None and not isinstance(metric, Metric):
        raise LambdaplugError(f"metric: expected lp.metric('ndcg@10'), got {metric!r}.")
    if host not in ("xgboost", "lightgbm"):
        raise LambdaplugError(f"host: expected 'xgboost' or 'lightgbm', got {host!r}.")
    sets = [_named(one, host) for one in (data, *(one for one, _ in evals))]
    names = [name for _, name in evals]
    options |= {"early_stopping_rounds": early_stopping_rounds, "callbacks": callbacks}
    if num_boost_round is not None:
        options["num_boost_round"] = num_boost_round
    run = _train_xgboost if host == "xgboost" else _train_lightgbm
    return run(client, parameters, sets, names, objective, metric, **options)


def _named(data: Any, host: str) -> Any:
    """(dX, dy, dq) by name, or a DaskDMatrix as it is; all else is refused."""
    if isinstance(data, (tuple, list)) and len(data) in (3, 4):
        return dict(zip(("X", "y", "qid", "columns"), (*data, None), strict=False))
    if host == "xgboost" and hasattr(data, "worker_map"):
        return data
    raise LambdaplugError(
        "data: expected (dX, dy, dq), as lp.dask.partition_by_query returns them, perhaps with {'clicks': dclicks}, or for "
        f"XGBoost a DaskDMatrix with qid; got {type(data).__name__}."
    )


class DaskRanker(QueryColumn):
    """What both rankers of Dask collections do."""

    client: Any

    def gathered(self, things: Sequence[Any]) -> list[Any]:
        """Rows are scored where they are; one number per row comes here."""
        client = self.client or default_client()
        found: list[Any] = client.gather([client.compute(one) if is_dask(one) else one for one in things])
        return found


def _collected(X: Any, y: Any, given: dict[str, Any], further: Mapping[str, str]) -> list[dict[str, Any]]:
    """The training data and every evaluation set by name, taken out of the arguments of ``fit``.

    ``further`` has what else belongs to a row, and the argument with that of each evaluation set.
    """
    pairs = evaluated(given)
    sets = [{"X": one, "y": other} for one, other in [(X, y), *pairs]]
    for name, word in further.items():
        own, others = given.pop(name, None), for_each(word, given.pop(word, None), len(pairs))
        for one, value in zip(sets, [own, *others], strict=True):
            one[name] = value
    return sets


# --- XGBoost ----------------------------------------------------------------------------------------------------------


def _columns_of_each(sets: Sequence[Sequence[Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """The columns of a worker's rows of each data set."""
    return [_columns(parts) for parts in sets]


def _numbered(sizes: npt.NDArray[np.int64], first: int) -> Array:
    """0, 1, ... for the queries of a partition, from this number on."""
    return np.repeat(np.arange(first, first + len(sizes), dtype=np.float64), sizes)


if find_spec("xgboost") is not None:
    import xgboost as xgb
    from xgboost import dask as dxgb

    from .xgboost import XGBRanker, metrics_of, place_of, plain_parameters

    LEARNED = "lambdaplug_learned"
    OF_MATRIX = "missing", "feature_names", "feature_types", "feature_weights", "enable_categorical", "max_bin"

    class Plug(xgb.callback.TrainingCallback):  # type: ignore[misc]
        """An objective or a metric on a worker, which gives data sets their columns before it first sees them.

        ``placed`` says, by worker, under which key it holds what ``_columns_of_each`` has made. An error is also told to the
        scheduler: the client may be told that of another worker, whose network has ended by it. As a callback it has the
        Booster take along, to the client, what ``lp.Unbiased`` has learned.
        """

        def __init__(self, plugged: Any, topic: str, placed: Mapping[str, str]) -> None:
            super().__init__()
            self.plugged, self.topic, self.placed = plugged, topic, placed

        def __call__(self, scores: Any, data: Any) -> Any:
            worker = get_worker()
            try:
                if worker.address in self.placed and not of_data_set(data).values:
                    columns = worker.data[self.placed[worker.address]][place_of(data)[0]]
                    if columns:
                        attach(data, **columns)
                return self.plugged(scores, data)
            except Exception as error:
                worker.log_event(self.topic, f"{type(error).__name__}: {error}")
                raise

        def after_training(self, model: Any) -> Any:
            curve = pickle.dumps(learned(self.plugged, model))
            model.set_attr(**{LEARNED: base64.b64encode(curve).decode()})
            return model

    def _matrix(client: Any, data: Spread, reference: Any, quantile: bool, options: dict[str, Any]) -> Any:
        """A DaskDMatrix of these rows; its queries are numbered as they come, as XGBoost keeps 32 bits of an id."""
        rows, firsts = [one.rows for one in data.seen], np.cumsum([0, *(len(one.sizes) for one in data.seen)]).tolist()

        def column(make: Any, *given: Any) -> Any:
            return _like(np.empty(0), list(map(delayed(make), *given)), rows)

        own = {"label": column(floats_of, [part["y"] for part in data.parts])}
        own["qid"] = column(_numbered, [one.sizes for one in data.seen], firsts[:-1])
        if "base_margin" in data.parts[0]:
            own["base_margin"] = column(floats_of, [part["base_margin"] for part in data.parts])
        X = _like(data.head, [delayed(part["X"]) for part in data.parts], rows)
        if quantile:
            made = dxgb.DaskQuantileDMatrix(client, X, **own, ref=reference, **options)
        else:
            made = dxgb.DaskDMatrix(client, X, **own, **{k: v for k, v in options.items() if k != "max_bin"})
        if not isinstance(data.given, dict):
            vars(made).update({name: value for name, value in vars(data.given).items() if name in OF_MATRIX})
        for (
            parts
        ) in made.worker_map.values():  # else XGBoost would sort the rows by their ids, and mix those of a query
            parts.sort(key=lambda part: made.partition_order[part.key])
        return made

    def _placed(client: Any, sets: Sequence[Spread], matrices: Sequence[Any]) -> dict[str, Any]:
        """By worker, a future of the columns that it has of every data set, in the order of its rows."""
        placed: dict[str, list[list[Any]]] = {}
        for number, (data, matrix) in enumerate(zip(sets, matrices, strict=True)):
            for worker, parts in matrix.worker_map.items():
                own = [data.parts[matrix.partition_order[part.key]] for part in parts]
                columns = [{name: one for name, one in part.items() if name.startswith(COLUMN)} for part in own]
                placed.setdefault(worker, [[] for _ in sets])[number] = columns
        send = functools.partial(client.submit, _columns_of_each, pure=False)
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
        quantile &= isinstance(given[0], (dict, dxgb.DaskQuantileDMatrix))
        of_matrix = {"max_bin": params.get("max_bin"), **options.pop("matrix_options", {})}
        workers, topic = list[str](), uuid.uuid4().hex
        address, security = client.scheduler.address, client.security
        try:
            with _alone(client):
                metrics = [] if metric is None else [metric]
                sets = _looked_at(client, given, names, objective, metrics, callbacks)
                first = _matrix(client, sets[0], None, quantile, of_matrix)
                matrices = [
                    first if one is sets[0] else _matrix(client, one, first, quantile, of_matrix) for one in sets
                ]
                workers = [*itertools.chain(*(matrix.worker_map for matrix in matrices))]
                has_columns = any(name.startswith(COLUMN) for one in sets for name in one.parts[0])
                kept = _placed(client, sets, matrices) if has_columns else {}
                placed = {worker: future.key for worker, future in kept.items()}
                obj, custom_metric = (one and Plug(one, topic, placed) for one in (objective, metric))
                further = [
                    *(with_callback(objective, callbacks) or ()),
                    *([obj] if isinstance(objective, Unbiased) else ()),
                ]
                options = {"verbose_eval": False, **options, "obj": obj, "custom_metric": custom_metric}
                evals = list(zip(matrices[1:], names, strict=True))
                found: dict[str, Any] = dxgb.train(client, params, first, evals=evals, callbacks=further, **options)
        except Exception as error:
            if client.status != "running":  # its lock on these workers, which XGBoost takes, would stay
                _restart(address, security, set(workers))
            trouble, until = _trouble(client, workers), time.monotonic() + PATIENCE
            while not trouble and isinstance(error, xgb.core.XGBoostError) and time.monotonic() < until:
                time.sleep(0.05)  # the others notice that a worker is gone before the scheduler does
                trouble = _trouble(client, workers)
            if not trouble:
                trouble = next((f"the training ended on a worker: {said}" for _, said in client.get_events(topic)), "")
            if trouble:
                raise LambdaplugError(trouble) from error
            raise
        booster = found["booster"]
        text = booster.attr(LEARNED)
        if text is not None:
            booster.set_attr(**{LEARNED: None})
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
            super().__init__(**kwargs)
            if set(getattr(self, "kwargs", None) or ()) == {"kwargs"}:  # where XGBoost 2.0 loses all of them
                super(dxgb.DaskXGBRanker, self).__init__(**kwargs)
            self.objective: Any = objective

        def get_xgb_params(self) -> dict[str, Any]:
            return plain_parameters(super().get_xgb_params(), self.objective, self.eval_metric)

        @functools.wraps(dxgb.DaskXGBRanker.fit)
        def fit(self, X: Any, y: Any, **given: Any) -> "DaskXGBRanker":
            for name in ("group", "eval_group", "sample_weight", "sample_weight_eval_set"):
                if given.pop(name, None) is not None:
                    raise LambdaplugError(
                        f"{name}: XGBoost on Dask knows queries by qid= (and eval_qid=), not by sizes, and takes no weights "
                        "together with it; LightGBM does."
                    )
            further = {"qid": "eval_qid", "base_margin": "base_margin_eval_set", "columns": "eval_columns"}
            sets = _collected(X, y, given, further)
            words, metric = metrics_of(None, self.eval_metric)
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
        self.booster = environment.model
        training = LIGHTGBM.training(self.booster)
        training.total, training.uneven = self.total, self.uneven

    def total(self, values: Array) -> Array:
        self.turn += 1
        found: Array = self.hub.total(self.turn, self.rank, values).result()
        return found


def _holders(client: Any, data: Spread) -> list[str]:
    """The worker that has each partition; of several, the one that was chosen least often before."""
    found, holders = client.who_has([part["X"] for part in data.parts]), list[str]()
    for part in data.parts:
        holders.append(min(sorted(found[part["X"].key]), key=holders.count))
    return holders


def _dealt(client: Any, data: Spread, workers: Sequence[str]) -> list[list[dict[str, Any]]]:
    """The partitions for each of the workers that train, some for each: LightGBM evaluates on all or stops on none."""
    held = list(zip(data.parts, _holders(client, data), strict=True))
    own = [[part for part, holder in held if holder == one] for one in workers]
    if not all(own) or sum(map(len, own)) < len(held):
        own = [data.parts[rank :: len(workers)] for rank in range(len(workers))]
    if not all(own):
        raise LambdaplugError(
            f"{data.what}: expected at least as many partitions with rows as there are workers that train ({len(workers)}), "
            f"got {len(held)}: lp.dask.partition_by_query(X, y, qid, npartitions={len(workers)})."
        )
    return own


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("", 0))
        port: int = one.getsockname()[1]
        return port


def _network(client: Any, port: Any, workers: Sequence[str]) -> list[dict[str, Any]]:
    """LightGBM's parameters: where each worker listens, and where it finds the others."""
    free = {} if port else client.run(_free_port, workers=list(workers))
    ports = [int(port or free[one]) for one in workers]
    machines = ",".join(f"{urlparse(one).hostname}:{own}" for one, own in zip(workers, ports, strict=True))
    words = {"machines": machines, "num_machines": len(workers)} if len(workers) > 1 else {}
    return [{**words, "local_listen_port": own} for own in ports]


def _rows(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """A worker's rows of one data set."""
    single = {name for name in ("y", "sample_weight", "init_score") if name in parts[0]}
    flat: dict[str, Any] = {name: np.concatenate([floats_of(part[name]) for part in parts]) for name in single}
    sizes = np.concatenate([_sizes(part) for part in parts])
    return {"X": join([part["X"] for part in parts]), "group": sizes, "columns": _columns(parts), **flat}


def _work(params: dict[str, Any], fit: dict[str, Any], member: Any, parts: Any, *sets: Any) -> Any:
    """A worker's training: what the first one's ranker has learned, and its curve of position biases if there is one."""
    training = _rows(parts)
    evals = [training if some is None else _rows(some) for some in sets]
    threads = params.get("n_jobs") or get_worker().state.nthreads
    ranker, together = LGBMRanker(**{**params, "n_jobs": threads}), Together(*member)
    given = {**training, **fit, "callbacks": [together, *(fit.get("callbacks") or ())]}
    if evals:
        given["eval_set"] = [(one["X"], one["y"]) for one in evals]
        for name in ("group", "columns", "sample_weight", "init_score"):
            given[f"eval_{name}"] = [one.get(name) for one in evals]
    try:
        ranker.fit(**given)
        curve = learned(ranker.objective, ranker)
    finally:  # else the Booster of a training that failed would end the network of the next one
        if together.booster is not None:
            together.booster.free_network()
    asked = {*ranker.get_params(), "_other_params"}
    return None if together.rank else ({name: own for name, own in vars(ranker).items() if name not in asked}, curve)


def _outcome(client: Any, workers: Sequence[str], submit: Callable[[int], Any]) -> Any:
    """What the first of the tasks returns, one on each worker. Where one fails or is lost, the others are restarted."""
    address, security, futures = client.scheduler.address, client.security, list[Any]()
    try:
        futures += [submit(rank) for rank in range(len(workers))]
        _settle(client, futures, workers)
        return futures[0].result()
    except BaseException as error:
        with contextlib.suppress(Exception):
            wait(futures, timeout=PATIENCE)  # most often all end for the same reason
        ended = {worker for worker, one in zip(workers, futures, strict=False) if one.status in ("finished", "error")}
        trouble, more = _trouble(client, workers), _restart(address, security, set(workers) - ended)
        if isinstance(error, Exception) and (trouble or more):
            said = trouble or f"the training ended on a worker: {type(error).__name__}: {error}"
            raise LambdaplugError(said + more) from error
        raise


if find_spec("lightgbm") is not None:
    import lightgbm as lgb

    from .lightgbm import HOST as LIGHTGBM
    from .lightgbm import LGBMRanker

    _aliases = lgb.basic._ConfigAliases.get

    def _fit_lightgbm(
        client: Any, params: dict[str, Any], given: Sequence[Any], names: Sequence[str], options: dict[str, Any]
    ) -> Any:
        """What a fitted ranker has after a training on all workers, and its curve of position biases if there is one."""
        objective = as_objective(params.get("objective"))
        plugged = objective if isinstance(objective, Objective) else None
        metrics = options["eval_metric"] = _metrics(params, plugged, options, len(given) > 1)
        options["eval_names"] = list(names) or None
        learner = str(next((params.pop(name) for name in _aliases("tree_learner") if name in params), ""))
        params["tree_learner"] = learner if learner.startswith(("data", "feature", "voting")) else "data"
        port = next((params.pop(name) for name in _aliases("local_listen_port") if params.get(name)), None)
        ours = [one for one in metrics if isinstance(one, Metric)]
        with _alone(client):
            first, *evals = _looked_at(client, given, names, plugged, ours, options.get("callbacks"))
            workers = sorted(set(_holders(client, first)))
            dealt: list[list[Any]] = [_dealt(client, first, workers)]
            dealt += [[None] * len(workers) if one is first else _dealt(client, one, workers) for one in evals]
            uneven, network = any(one.uneven for one in first.seen), _network(client, port, workers)
            hub = client.submit(Hub, len(workers), actor=True, pure=False, workers=workers[:1])

            def submit(rank: int) -> Any:
                own = [parts[rank] for parts in dealt]
                member = hub, rank, uneven
                return client.submit(
                    _work, {**params, **network[rank]}, options, member, *own, workers=[workers[rank]], pure=False
                )

            return _outcome(client, workers, submit)

    def _metrics(
        params: dict[str, Any], objective: Objective | None, fit: dict[str, Any], evaluated: bool
    ) -> list[Any]:
        """The metrics to report: what ``fit`` is asked for, or else the measure trained for.

        LightGBM's own metrics are each worker's: stopping on them, some workers would stop, and the others wait for ever.
        """
        own = next((params[name] for name in _aliases("metric") if params.get(name)), None)
        asked = as_metric(fit.get("eval_metric"), objective is not None)
        if evaluated and asked is None and own is None and objective is not None and objective.goal is not None:
            asked = Metric.of([objective.goal])
        metrics = [one for one in (asked if isinstance(asked, list) else [asked]) if one is not None]
        stops = any(params.get(name) for name in _aliases("early_stopping_round")) or any(
            isinstance(one, lgb.callback._EarlyStoppingCallback) for one in fit.get("callbacks") or ()
        )
        ours = bool(metrics) and all(isinstance(one, Metric) for one in metrics)
        silent = objective is not None if own is None else str(own).lower() == "none"  # else the host's comes along
        if stops and not (evaluated and ours and silent):
            raise LambdaplugError(
                "early stopping on LightGBM's own metrics, or on nothing: each worker computes them of its own rows, so that one "
                "stops and the others wait. Stop on lp.metric alone, of evaluation sets: eval_metric=lp.metric('ndcg@10'), and "
                "metric='None' beside an objective of LightGBM's."
            )
        return metrics

    def _as_estimator(params: dict[str, Any]) -> dict[str, Any]:
        """Parameters by the names that LightGBM's estimators have for them.

        Given under another name, a parameter might lose against the estimator's default.
        """
        names = lgb.LGBMRanker().get_params()
        own = {alias: name for name in names for alias in lgb.basic._ConfigAliases.get_by_alias(name)}
        return {own.get(alias, alias): value for alias, value in params.items()}

    def _train_lightgbm(
        client: Any, params: dict[str, Any], given: Any, names: Any, objective: Any, metric: Any, **options: Any
    ) -> dict[str, Any]:
        stop = options.pop("early_stopping_rounds", None)
        stopping = [] if stop is None else [lgb.early_stopping(stop, verbose=False)]
        options |= {"callbacks": [*(options["callbacks"] or ()), *stopping], "eval_metric": metric}
        words = {"objective": objective, "num_iterations": options.pop("num_boost_round", None)}
        params |= {name: value for name, value in words.items() if value is not None}
        ranker = DaskLGBMRanker(client=client, **_as_estimator(params))._fitted(given, names, options)
        return {"booster": ranker.booster_, "history": ranker.evals_result_}

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
        def fit(self, X: Any, y: Any, **options: Any) -> "DaskLGBMRanker":
            further = "qid", "group", "sample_weight", "init_score", "columns"
            sets = _collected(X, y, options, {name: f"eval_{name}" for name in further})
            names = options.pop("eval_names", None) or [f"valid_{i}" for i in range(len(sets) - 1)]
            return self._fitted(sets, names, options)

        def _fitted(self, sets: Any, names: Any, options: dict[str, Any]) -> "DaskLGBMRanker":
            params = {name: value for name, value in self.get_params().items() if name != "client"}
            state, curve = _fit_lightgbm(self.client or default_client(), params, sets, names, options)
            self.__dict__.update(state)
            remember(self.booster_, self.objective, curve)
            return self

        def to_local(self) -> LGBMRanker:
            """The model as an ``lp.LGBMRanker``."""
            local: LGBMRanker = self._lgb_dask_to_local(LGBMRanker)
            return local
