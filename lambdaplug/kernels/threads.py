"""Threads over tasks. Kernels release the GIL; a task's result never depends on who runs it or beside what."""

import itertools
import os
import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

from ..errors import LambdaplugError

__all__ = ["get_num_threads", "run_tasks", "set_num_threads"]

Task = TypeVar("Task")

_chosen: int | None = None


def set_num_threads(n: int | None) -> None:
    """Use n threads from now on, whatever the host is told; None gives the choice back to the host."""
    global _chosen
    if n is not None and (isinstance(n, bool) or not isinstance(n, int) or n < 1):
        raise LambdaplugError(f"set_num_threads: expected a whole number from 1 on, or None; got {n!r}.")
    _chosen = n


def get_num_threads(wanted: int | None = None) -> int:
    """``set_num_threads`` if it was called, else what the host wants, else every core this process may use."""
    if _chosen is not None:
        return _chosen
    if wanted is not None and wanted > 0:
        return wanted
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on this platform
        return os.cpu_count() or 1


def run_tasks(work: Callable[[Callable[[], Task | None]], None], tasks: Sequence[Task], threads: int) -> None:
    """Call ``work(next_task)`` in each thread; ``next_task()`` hands out the tasks in order, then None.

    Threads live for one call. A standing pool would not survive a fork, and starting one takes microseconds.
    """
    turn = itertools.count()
    failures: list[BaseException] = []

    def next_task() -> Task | None:
        index = next(turn)
        return None if failures or index >= len(tasks) else tasks[index]

    def guarded() -> None:
        try:
            work(next_task)
        except BaseException as failure:
            failures.append(failure)

    def helping(finished: threading.Event) -> None:
        guarded()
        finished.set()

    # Events, because until Python 3.13 a join that Ctrl-C interrupts takes the running thread for stopped ever after.
    events = [threading.Event() for _ in range(min(threads, len(tasks)) - 1)]
    helpers = [threading.Thread(target=helping, args=(event,), daemon=True) for event in events]
    try:
        for helper in helpers:
            helper.start()
        guarded()
        _wait(helpers, events)
    except BaseException as interruption:  # Ctrl-C while starting or waiting
        failures.append(interruption)  # so nobody begins another task
        _wait(helpers, events)
    if failures:
        raise failures[0]


def _wait(helpers: list[threading.Thread], events: list[threading.Event]) -> None:
    for helper, finished in zip(helpers, events, strict=True):
        if helper.ident is not None:  # it was started
            finished.wait()
            helper.join()
