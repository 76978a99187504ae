"""One training over the workers of a cluster, whichever the host: who has which rows, where they meet, how it ends.

Every worker that holds rows to train on runs one task, with its rows of all data sets. The host trains inside it, over a
network of its own. The client waits; where a task fails or a worker is lost, it ends the others and says why.
"""

import asyncio
import contextlib
import functools
import re
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from distributed import CancelledError, MultiLock, default_client, get_worker

from ...errors import LambdaplugError
from ...evaluation import Metric
from ...objectives import Objective
from ...queries import Array, Labels, vector
from ...rows import sizes_of
from ..estimators import QueryColumn
from ..leaves import take
from ..recorder import Recorder
from .checks import COLUMN, Examined, add_columns, examine, settled
from .layout import aligned, is_dask, join, values_of
from .network import abort

__all__ = ["DaskRanker", "Member", "Rows", "collected", "train"]

# Seconds. Workers that are well have connected after SOON; those that wait for others try to connect at growing
# intervals, up to CONNECTING. One that is busy in Python sees that the training has ended when it needs the others: an
# error is raised after BUSY, while it still runs.
SOON, BUSY, CONNECTING = 2.0, 10.0, 300.0
PATIENCE = 5.0  # between looks at who has the workers that a training waits for
OWNED = ":lambdaplug:"  # in a lock's name, after that of its client

# How an error is known that a worker raises because another one has ended: the hub's, and the hosts' own.
SECOND_HAND = re.compile("EndedError|socket|allreduce|allgather|communicat", re.IGNORECASE)


class DaskRanker(QueryColumn):
    """A ranker of Dask collections. ``score`` has rows scored where they are; one number per row comes here."""

    client: Any

    def gathered(self, things: Sequence[Any]) -> list[Any]:
        client = self.client or default_client()
        found: list[Any] = client.gather([client.compute(one) if is_dask(one) else one for one in things])
        return found


def collected(given: dict[str, Any], further: Mapping[str, str]) -> list[dict[str, Any]]:
    """The training data and every evaluation set by name, taken out of the arguments of ``fit``.

    ``further`` has what else belongs to a row, and the argument with that of each evaluation set.
    """
    eval_set, *pair = (given.pop(name, None) for name in ("eval_set", "eval_X", "eval_y"))
    if any(one is not None for one in pair):
        if eval_set is not None:
            raise LambdaplugError("eval_set: expected it, or eval_X and eval_y; got both.")
        rows, labels = (() if one is None else one if isinstance(one, tuple) else (one,) for one in pair)
        if len(rows) != len(labels):
            raise LambdaplugError(
                f"eval_X, eval_y: expected as many of the one as of the other, got {len(rows)} and {len(labels)}."
            )
        eval_set = list(zip(rows, labels, strict=True))
    training = {name: given.pop(name, None) for name in ("X", "y", *further)}
    sets = [{"X": X, "y": y} for X, y in eval_set or ()]
    for name, word in further.items():
        values = list(given.pop(word, None) or [None] * len(sets))
        if len(values) != len(sets):
            raise LambdaplugError(f"{word}: expected one for each of eval_set ({len(sets)}), got {len(values)}.")
        sets = [{**one, name: value} for one, value in zip(sets, values, strict=True)]
    return [training, *sets]


# --- on the workers ------------------------------------------------------------------------------------------------


class EndedError(LambdaplugError):
    """Raised where a worker waits for others and the training has ended on one of them."""


class Hub:
    """Where the members of one training meet: an actor on one of the workers."""

    def __init__(self, members: int) -> None:
        self.members = members
        self.brought: dict[int, dict[int, Any]] = {}  # by turn and rank
        self.changed = asyncio.Condition()
        self.failure: str | None = None

    async def exchange(self, turn: int, rank: int, value: Any) -> list[Any]:
        """What all members bring to this turn, by rank."""
        brought = self.brought.setdefault(turn, {})
        brought[rank] = value
        async with self.changed:
            self.changed.notify_all()
            await self.changed.wait_for(lambda: len(brought) == self.members or self.failure is not None)
        if self.failure is not None:
            raise EndedError(self.failure)
        self.brought.pop(turn - 1, None)  # all members have that
        return [brought[member] for member in range(self.members)]

    async def fail(self, reason: str) -> None:
        self.failure = reason
        async with self.changed:
            self.changed.notify_all()


class Member:
    """One worker's part in a training."""

    def __init__(self, hub: Any, training: str, rank: int, count: int, uneven: bool) -> None:
        worker = get_worker()
        self.address, self.threads = str(worker.address), int(worker.state.nthreads)
        self.hub, self.training, self.rank, self.count = hub, training, rank, count
        self.uneven = uneven  # on some worker the weights differ within a query
        self.turn = 0

    def exchange(self, value: Any) -> list[Any]:
        """What all members bring, by rank."""
        self.turn += 1
        found: list[Any] = self.hub.exchange(self.turn, self.rank, value).result()
        return found

    def total(self, values: Array) -> Array:
        """The sum over all members, the same bits for each."""
        total: Array = np.sum(self.exchange(values), axis=0)
        return total


class Rows:
    """A worker's rows of one data set, perhaps none."""

    def __init__(self, parts: list[dict[str, Any]]) -> None:
        named = {name: name.removeprefix(COLUMN) for name in parts[0] if name.startswith(COLUMN)}
        self.columns = {own: Labels(_flat(parts, name)).values for name, own in named.items()}
        self.parts = [{name: aligned(one) for name, one in part.items() if name not in named} for part in parts]
        self._vectors: dict[str, Array] = {}

    @functools.cached_property
    def X(self) -> Any:  # noqa: N802
        return join([part["X"] for part in self.parts])

    @functools.cached_property
    def sizes(self) -> npt.NDArray[np.int64]:
        """The number of rows of each query."""
        known = "group" in self.parts[0]
        return _flat(self.parts, "group") if known else sizes_of(_flat(self.parts, "qid"))

    def vector(self, name: str) -> Array | None:
        """One number per row, the same object each time; None where there are none of this name."""
        if name in self.parts[0] and name not in self._vectors:
            self._vectors[name] = vector(_flat(self.parts, name), name)
        return self._vectors.get(name)


def _flat(parts: list[dict[str, Any]], name: str) -> npt.NDArray[Any]:
    return np.concatenate([values_of(part[name]) for part in parts])


def _run(
    work: Callable[[Member, list[Rows]], Any], which: Sequence[int], sets: list[list[dict[str, Any]]], *member: Any
) -> Any:
    """A worker's task. ``which`` of the sets is the training data, and which each evaluation set."""
    empty = {name: take(part, slice(0)).copy() for name, part in sets[0][0].items()}
    made = [Rows(parts or [empty]) for parts in sets]
    return work(Member(*member), [made[number] for number in which])


# --- on the client -------------------------------------------------------------------------------------------------


def train(
    client: Any,
    work: Callable[[Member, list[Rows]], Any],
    given: Sequence[Any],
    objective: Objective | None,
    metrics: Sequence[Metric],
    callbacks: Sequence[Any] | None,
    least: int = 1,
) -> Any:
    """What ``work`` returns on the first of the workers, called on each as ``work(member, [training rows, evaluation rows, ...])``.

    ``given`` has the training data and each evaluation set, as ``examine`` takes them; the same object twice is one data set.
    ``least`` is how many rows to train on each worker needs.
    """
    if client.asynchronous:
        raise LambdaplugError("an asynchronous client: training waits for its workers. Use distributed.Client().")
    if any(isinstance(one, Recorder) for one in callbacks or ()):
        raise LambdaplugError(
            "callbacks: lp.analysis.record follows a training on one machine, and cannot be sent to workers. Leave it out; "
            "lp.metric on evaluation sets reports every round here."
        )
    known: dict[tuple[int, ...], Examined] = {}
    keys = [tuple(map(id, one.values() if isinstance(one, dict) else (one,))) for one in given]
    for key, one in zip(keys, given, strict=True):
        if key not in known:
            known[key] = examine(client, one)
    data, *evals = (known[key] for key in keys)
    add_columns(client, objective, metrics, data, evals)
    rows = Counter[str]()
    for part in data.parts:
        rows[part.worker] += part.seen.rows
    if min(rows.values()) < least:
        raise LambdaplugError(
            f"expected {least} rows to train on or more on every worker, got {min(rows.values())} on one. Use fewer partitions, "
            "or fewer workers."
        )
    sets, workers = list(known.values()), sorted(rows)
    placed: list[list[list[Any]]] = [[[] for _ in sets] for _ in workers]  # a worker's partitions of each
    for number, part in ((number, part) for number, one in enumerate(sets) for part in one.parts):
        place = workers.index(part.worker) if part.worker in rows else part.block % len(workers)
        placed[place][number].append(part.data)
    which, uneven = [sets.index(known[key]) for key in keys], any(part.seen.uneven for part in data.parts)
    # Two trainings, each on some of the workers, would wait for each other. An actor belongs to the current client.
    with client.as_current(), alone(client, workers):
        training = _Training(client, uuid.uuid4().hex, workers)
        return training.outcome([(work, which, own) for own in placed], uneven)


@contextlib.contextmanager
def alone(client: Any, workers: list[str]) -> Iterator[None]:
    """While this lasts, no other training has one of these workers, nor one of XGBoost's own, which has the same locks.

    A lock outlasts the client that has it. So ours say whose they are, and whoever waits has the scheduler release those
    of clients that are gone.
    """
    lock = MultiLock(workers, client)
    lock.id = f"{client.id}{OWNED}{lock.id}"
    try:
        while not lock.acquire(timeout=PATIENCE):
            with contextlib.suppress(Exception):  # a scheduler may refuse to run functions, or be without lambdaplug
                client.run_on_scheduler(_release_abandoned, workers)
        yield
    finally:
        if client.status == "running":
            with contextlib.suppress(KeyError):  # interrupted before it was asked for
                client.sync(client.scheduler.multi_lock_release, id=lock.id)


def _release_abandoned(workers: list[str], dask_scheduler: Any = None) -> None:
    """On the scheduler: release locks of these workers that clients have which are gone."""
    locks = dask_scheduler.extensions["multi_locks"]
    for holder in {locks.locks[worker][0] for worker in workers if locks.locks[worker]}:
        client, owned, _ = holder.partition(OWNED)
        if owned and client not in dask_scheduler.clients and not locks.requests_left[holder]:
            locks.release(id=holder)


class _Training:
    """The tasks of the workers, by rank."""

    def __init__(self, client: Any, name: str, workers: list[str]) -> None:
        self.client, self.name, self.workers = client, name, workers
        self.hub = client.submit(Hub, len(workers), actor=True, pure=False, workers=workers[:1])
        self.futures: list[Any] = []

    def outcome(self, tasks: Sequence[tuple[Any, ...]], uneven: bool) -> Any:
        """What the first of the tasks returns; each goes to a worker, by rank."""
        try:
            for rank, (task, address) in enumerate(zip(tasks, self.workers, strict=True)):
                member = self.hub, self.name, rank, len(self.workers), uneven
                self.futures.append(self.client.submit(_run, *task, *member, workers=[address], pure=False))
            settled(self.client, self.futures, self.workers)
            if all(one.status == "finished" for one in self.futures):
                return self.futures[0].result()
            errors = self.end("it has failed on another worker")
        except BaseException as error:
            self.end(f"{type(error).__name__}: {error}")
            raise
        finally:
            self.client.cancel([*self.futures, self.hub], force=True)
        gone = self.gone()
        if gone:
            raise LambdaplugError(
                f"the training ended because {len(gone)} of {len(self.workers)} workers were lost: {', '.join(gone[:3])}. "
                "Killed, out of memory or cut off; their own logs say more. What is still there can be trained on again."
            ) from next(iter(errors), None)
        raise min(errors, key=lambda error: SECOND_HAND.search(repr(error)) is not None, default=CancelledError())

    def gone(self) -> list[str]:
        return sorted(set(self.workers) - set(self.client.ncores()))

    def end(self, reason: str) -> list[BaseException]:
        """End the training wherever it still runs; what it has raised."""
        with contextlib.suppress(Exception):  # the hub may be lost, too
            self.hub.result(timeout=5).fail(f"the training ended: {reason}.").result(timeout=5)
        began, missing = time.monotonic(), set[int]()
        while True:
            reports = self.client.run(abort, self.name, missing, on_error="ignore").values()
            connecting = {rank: waits for report in reports for rank, waits in report.items()}
            gone, elapsed = self.gone(), time.monotonic() - began
            pending = {rank for rank, one in enumerate(self.futures) if not one.done()}
            running = {rank for rank in pending if self.workers[rank] not in gone} | set(connecting)
            if not running or elapsed > (CONNECTING if any(connecting.values()) else BUSY):
                return [one.exception() for one in self.futures if one.status == "error"]
            missing = set(range(len(self.workers))) - running if elapsed > SOON else set()
            time.sleep(0.05)
