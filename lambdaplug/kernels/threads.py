"""Threads over tasks. Kernels release the GIL; a task's result never depends on who runs it or beside what."""

import contextlib
import ctypes
import itertools
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias, TypeVar

from ..checking import integer

__all__ = ["Team", "get_num_threads", "openmp_team", "run_tasks", "set_num_threads"]

Task = TypeVar("Task")
# Calls a function in so many threads at once. What it adds to the list ends the work of all.
Team: TypeAlias = Callable[[Callable[[], None], int, list[BaseException]], None]

REGION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)

_chosen: int | None = None


def set_num_threads(n: int | None) -> None:
    """Use n threads from now on, whatever the host is told.

    Parameters
    ----------
    n : int or None
        An integer >= 1; None gives the choice back to the host.

    Examples
    --------
    >>> import lambdaplug as lp
    >>> lp.set_num_threads(1)
    >>> lp.set_num_threads(None)
    """
    global _chosen
    _chosen = None if n is None else integer(n, "set_num_threads", purpose=", or None")


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


def openmp_team(library: Any) -> Team | None:
    """The OpenMP threads of a library that ctypes has loaded; None where it was not built with GNU's.

    Between two of its parallel regions a library's threads stay awake for milliseconds, spinning on the very cores that
    threads of ours would want. In a region of ours they work instead, and none has to be started.
    """
    try:
        parallel = library.GOMP_parallel  # looked up in what the library itself is linked with
    except AttributeError:
        return None
    parallel.argtypes, parallel.restype = (REGION, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint), None
    process = os.getpid()

    def team(function: Callable[[], None], threads: int, failures: list[BaseException]) -> None:
        if os.getpid() == process:
            with _dropped_exceptions(failures):
                parallel(REGION(lambda _: function()), None, threads, 0)
        else:  # a fork has the parent's idea of its threads, and none of them
            _start_threads(function, threads, failures)

    return team


@contextlib.contextmanager
def _dropped_exceptions(failures: list[BaseException]) -> Iterator[None]:
    """Keep what ctypes would print and drop: a signal's exception at a callback's very entry or exit.

    Python handles signals in its main thread only, so only there does the hook need to change, and no two calls change
    it at once.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = sys.unraisablehook

    def keep(unraisable: Any) -> None:
        if "ctypes callback" in (unraisable.err_msg or "") and unraisable.exc_value is not None:
            failures.append(unraisable.exc_value)
        else:
            before(unraisable)

    sys.unraisablehook = keep
    try:
        yield
    finally:
        sys.unraisablehook = before


def _start_threads(function: Callable[[], None], threads: int, failures: list[BaseException]) -> None:
    """Threads that live for one call. A standing pool would not survive a fork, and starting one takes microseconds."""

    def helping(finished: threading.Event) -> None:
        function()
        finished.set()

    # Events, because until Python 3.13 a join that Ctrl-C interrupts takes the running thread for stopped ever after.
    events = [threading.Event() for _ in range(threads - 1)]
    helpers = [threading.Thread(target=helping, args=(event,), daemon=True) for event in events]
    try:
        for helper in helpers:
            helper.start()
        function()
        _wait(helpers, events)
    except BaseException as interruption:  # Ctrl-C while starting or waiting
        failures.append(interruption)
        _wait(helpers, events)


def _wait(helpers: list[threading.Thread], events: list[threading.Event]) -> None:
    for helper, finished in zip(helpers, events, strict=True):
        if helper.ident is not None:  # it was started
            finished.wait()
            helper.join()


def run_tasks(
    work: Callable[[Callable[[], Task | None]], None], tasks: Sequence[Task], threads: int, team: Team | None = None
) -> None:
    """Call ``work(next_task)`` in each thread; ``next_task()`` hands out the tasks in order, then None.

    All tasks have run when it returns, those that a team left included.
    """
    turn = itertools.count()
    failures: list[BaseException] = []

    over = False

    def next_task() -> Task | None:
        nonlocal over
        index = next(turn)
        over = over or index >= len(tasks)
        return None if failures or over else tasks[index]

    def guarded() -> None:
        try:
            work(next_task)
        except BaseException as failure:
            failures.append(failure)

    threads = min(threads, len(tasks))
    if threads <= 1:
        guarded()
    else:
        (team or _start_threads)(guarded, threads, failures)
        if not (over or failures):  # no thread came so far as to find nothing left to do
            guarded()
    if failures:
        raise failures[0]
