"""What keeps a training on Dask from waiting for a worker that will not come back.

LightGBM's workers talk over connections of their own. When one of them stops, by an error or killed, the others read on from
a connection that has ended, for ever: a thread busy in C++ that no exception reaches, and a worker lost to every later
training. So the client tells them: each worker knows which ports its trainings use, and takes those connections from under
one that has failed, which LightGBM does notice.
"""

import contextlib
import os
import socket
import stat
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import lightgbm as lgb
from distributed import get_worker

from .dask_checks import lost

__all__ = ["ending", "hang_up", "joined", "leave"]


class _Network:
    """A training's connections on this worker."""

    def __init__(self, machines: str) -> None:
        self.ports = frozenset(int(machine.rpartition(":")[2]) for machine in machines.split(","))
        self.sockets: dict[int, int] = {}  # file number: inode

    def look(self) -> None:
        """Note the connections while they stand: one that was reset no longer says whose it was."""
        for number in map(int, os.listdir("/dev/fd") if os.path.isdir("/dev/fd") else ()):
            with contextlib.suppress(OSError):  # not connected, or closed meanwhile
                found = os.fstat(number)
                if stat.S_ISSOCK(found.st_mode) and self.ports & _ends(number):
                    self.sockets[number] = found.st_ino


# By training and worker: several workers may share a process.
_networks: dict[tuple[str, str], _Network] = {}


# --- on the workers ------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def joined(training: str, machines: str) -> Iterator[Callable[[Any], None]]:
    """While this lasts, this worker takes part in a training among these machines (host:port,...).

    Yields a callback, for before a round.
    """
    here = training, str(get_worker().address)
    network = _networks[here] = _Network(machines)

    def look(environment: Any) -> None:
        if environment.iteration == environment.begin_iteration:
            network.look()

    look.before_iteration = True  # type: ignore[attr-defined]
    try:
        yield look
    finally:
        del _networks[here]


def leave(error: BaseException) -> None:
    """Close the network of the Booster that an error's frames hold.

    Left there, it would close the network of whatever this thread trains when it is collected.
    """
    for frame, _ in traceback.walk_tb(error.__traceback__):
        for thing in list(frame.f_locals.values()):
            if isinstance(thing, lgb.Booster):
                thing.free_network()


def hang_up(training: str) -> bool:
    """Take this worker's connections from under a training; whether it is still running."""
    networks = [network for (name, _), network in list(_networks.items()) if name == training]
    for network in networks:
        network.look()
        with open(os.devnull, "rb") as nothing:
            for number, inode in network.sockets.items():
                with contextlib.suppress(OSError):
                    if os.fstat(number).st_ino == inode:
                        os.dup2(nothing.fileno(), number)
    return bool(networks)


def _ends(number: int) -> set[int]:
    """The ports of both ends of a connection."""
    with socket.socket(fileno=os.dup(number)) as one:
        if one.family not in (socket.AF_INET, socket.AF_INET6):
            return set()
        return {one.getsockname()[1], one.getpeername()[1]}


# --- on the client -------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def ending(client: Any, hub: Any, training: str) -> Iterator[None]:
    """A training with LightGBM inside. If it fails, or one of its workers is lost, it ends on all of them."""
    before, over = set(client.ncores()), threading.Event()

    def watch() -> None:
        while not over.wait(1.0):
            with contextlib.suppress(Exception):
                gone = before - set(client.ncores())
                if gone and _concerned(hub, gone):
                    _end(client, hub, training, f"workers were lost: {', '.join(sorted(gone))}")
                    return

    watching = threading.Thread(target=watch, daemon=True)
    watching.start()
    try:
        yield
    except BaseException as failure:
        over.set()
        watching.join()
        error = lost(client, before)
        _end(client, hub, training, f"the training stopped: {type(failure).__name__}: {failure}")
        if error is not None and isinstance(failure, Exception):
            raise error from failure
        raise
    finally:
        over.set()


def _concerned(hub: Any, gone: set[str]) -> bool:
    """Whether any of these workers takes part; those that never met the others may."""
    try:
        members = hub.result(timeout=5).members().result(timeout=5)
    except Exception:  # the hub was on one of them
        return True
    return not members or bool(gone & members)


def _end(client: Any, hub: Any, training: str, reason: str, patience: float = 10.0) -> None:
    with contextlib.suppress(Exception):  # the hub may be lost, too
        hub.result(timeout=5).fail(reason).result(timeout=5)
    until = time.monotonic() + patience
    while any(client.run(hang_up, training, on_error="ignore").values()) and time.monotonic() < until:
        time.sleep(0.05)
