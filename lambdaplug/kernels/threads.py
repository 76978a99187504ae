"""How many threads, and whose."""

import ctypes
import os
import threading
from collections.abc import Callable
from typing import Any, TypeAlias

from ..checking import integer

Team: TypeAlias = Callable[[Callable[[], None], int], None]  # calls a function in so many threads at once

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

    def team(function: Callable[[], None], threads: int) -> None:
        if os.getpid() == process:
            parallel(REGION(lambda _: function()), None, threads, 0)
        else:  # a fork has the parent's idea of its threads, and none of them
            start_threads(function, threads)

    return team


def start_threads(function: Callable[[], None], threads: int) -> None:
    """Threads that live for one call. A standing pool would not survive a fork, and starting one takes microseconds."""
    helpers = [threading.Thread(target=function, daemon=True) for _ in range(threads - 1)]
    for helper in helpers:
        helper.start()
    function()
    for helper in helpers:
        helper.join()


def run_threads(work: Callable[[], None], threads: int, team: Team | None = None) -> None:
    """Call ``work`` in so many threads at once, this one being one of them; it hands out its own tasks."""
    failures: list[BaseException] = []

    def guarded() -> None:
        try:
            work()
        except BaseException as failure:
            failures.append(failure)

    if threads > 1:
        (team or start_threads)(guarded, threads)
    guarded()  # the only one, or for what a team has left
    if failures:
        raise failures[0]
