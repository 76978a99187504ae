"""What keeps a training on Dask from waiting for a worker that will not come, or will not come back.

LightGBM's workers talk over connections of their own. When one of them stops, by an error or killed, the others read on from
a connection that has ended, for ever: a thread busy in C++ that no exception reaches, and a worker lost to every later
training. So the client tells them: each worker knows which ports its trainings use, and takes those connections from under
one that has failed, which LightGBM does notice.

A worker that stops before the network stands leaves the others waiting for its connection. There is no way to call that
off: LightGBM takes an error of a listening socket, and attempts to connect that all failed, for a reason to abort the
process. So somebody else connects in the place of the worker that is missing, and the network that then stands is taken
from under the training as any other.
"""

import contextlib
import os
import socket
import stat
import struct
import threading
import time
import traceback
from collections.abc import Callable, Collection, Iterator
from typing import Any, NamedTuple
from urllib.parse import urlparse

import lightgbm as lgb
from distributed import get_worker

from .dask_checks import lost

__all__ = ["ending", "hang_up", "joined"]

_RANK = struct.Struct("=i")  # what LightGBM says first over a connection

# How long to wait for workers, in seconds, before an error is raised while they still run. Those whose network stands were
# told, and will see it once they need the others. Those who are still to connect would wait for ever if left to it.
_BUSY, _CONNECTING = 10.0, 300.0


class State(NamedTuple):
    """A training on one worker."""

    machine: str  # host:port
    machines: tuple[str, ...]  # all of the training's, by rank
    running: bool
    connected: bool  # to all others, or has been


class _Network:
    """A training's connections on this worker."""

    def __init__(self, machines: str, port: int) -> None:
        self.machines = tuple(machines.split(","))
        self.machine = f"{urlparse(str(get_worker().address)).hostname}:{port}"
        self.port = port
        self.ports = frozenset(map(_port, self.machines))
        self.sockets: dict[int, int] = {}  # file number: inode
        self.stand_ins: dict[str, socket.socket] = {}  # by the machine that is missing
        self.running = True
        self.forming = False  # LightGBM waits for others to connect
        self.failed = False  # before the network stood

    @property
    def state(self) -> State:
        waiting = self.forming or (len(self.machines) > 1 and not self.sockets)
        return State(self.machine, self.machines, self.running, not (waiting if self.running else self.failed))

    def look(self) -> None:
        """Note the connections while they stand: one that was reset no longer says whose it was."""
        self.forming = False
        for number in map(int, os.listdir("/dev/fd") if os.path.isdir("/dev/fd") else ()):
            with contextlib.suppress(OSError):  # not connected, or closed meanwhile
                found = os.fstat(number)
                if not stat.S_ISSOCK(found.st_mode):
                    continue
                if _listens(number, self.port):
                    self.forming = True
                elif self.ports & _ends(number):
                    self.sockets[number] = found.st_ino

    def hang_up(self, missing: Collection[str]) -> None:
        """Take the connections from under the training; have them made first, if LightGBM still waits for some."""
        self.look()
        if self.forming:  # then hands off: an error now would abort the process
            self._replace(missing)
            return
        for one in self.stand_ins.values():
            _reset(one)
        with open(os.devnull, "rb") as nothing:
            for number, inode in self.sockets.items():
                with contextlib.suppress(OSError):
                    if os.fstat(number).st_ino == inode:
                        _wake(number)
                        os.dup2(nothing.fileno(), number)

    def _replace(self, missing: Collection[str]) -> None:
        """Connect as those of lower rank that are missing: the lower rank connects to the higher."""
        for rank, machine in enumerate(self.machines[: self.machines.index(self.machine)]):
            if machine in missing and machine not in self.stand_ins:
                with contextlib.suppress(OSError):  # bound, and not yet listening
                    self.stand_ins[machine] = one = socket.create_connection(("127.0.0.1", self.port), timeout=1)
                    one.sendall(_RANK.pack(rank))

    def leave(self, error: BaseException) -> None:
        """Close the network of the Booster that an error's frames hold.

        Left there, it would close the network of whatever this thread trains when it is collected.
        """
        self.failed = True
        for frame, _ in traceback.walk_tb(error.__traceback__):
            for thing in list(frame.f_locals.values()):
                if isinstance(thing, lgb.Booster):
                    self.failed &= not thing._network
                    thing.free_network()


# By training and worker: several workers may share a process. The last one that ended is kept, for it is asked about.
_networks: dict[tuple[str, str], _Network] = {}

# By training and machine: who listens in the place of a worker of this host that is missing.
_listeners: dict[tuple[str, str], socket.socket] = {}


# --- on the workers ------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def joined(training: str, machines: str, port: int) -> Iterator[tuple[_Network, Callable[[Any], None]]]:
    """While this lasts, this worker takes part in a training among these machines (host:port,...), listening on a port.

    Yields its network and a callback, for before a round.
    """
    address = str(get_worker().address)
    for key in [key for key, one in list(_networks.items()) if key[1] == address and not one.running]:
        _networks.pop(key, None)
    network = _networks[training, address] = _Network(machines, port)

    def look(environment: Any) -> None:
        if environment.iteration == environment.begin_iteration:
            network.look()

    look.before_iteration = True  # type: ignore[attr-defined]
    try:
        yield network, look
    finally:
        network.running = False
        for one in network.stand_ins.values():
            one.close()


def hang_up(training: str, missing: Collection[str] = ()) -> list[State]:
    """Take this worker's connections from under a training; how it stands there. ``missing`` are machines that will not
    connect to the others, who are waiting for them."""
    networks = [network for (name, _), network in list(_networks.items()) if name == training]
    for network in networks:
        if network.running:
            network.hang_up(missing)
    _listen(training, missing)
    return [network.state for network in networks]


def _listen(training: str, missing: Collection[str]) -> None:
    """Take the connections that are meant for machines that are missing, if this is their host."""
    for key in [key for key in _listeners if key[0] == training and key[1] not in missing]:
        _listeners.pop(key).close()
    for machine in missing:
        with contextlib.suppress(OSError):  # of another host, or another worker listens already
            if (training, machine) not in _listeners:
                host = machine.rpartition(":")[0]
                listener = socket.create_server((host, _port(machine)), backlog=len(missing) + 64)
                listener.setblocking(False)
                _listeners[training, machine] = listener
            while True:
                one, _ = _listeners[training, machine].accept()
                one.settimeout(1)
                one.recv(_RANK.size, socket.MSG_WAITALL)  # reset before it was said, LightGBM would abort
                _reset(one)


def _port(machine: str) -> int:
    return int(machine.rpartition(":")[2])


def _reset(one: socket.socket) -> None:
    """End a connection so that its other end sees an error."""
    with contextlib.suppress(OSError):
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    one.close()


def _wake(number: int) -> None:
    """Have whoever reads from a connection look at it again."""
    with contextlib.suppress(OSError), socket.socket(fileno=os.dup(number)) as one:  # ended by the other end
        one.shutdown(socket.SHUT_RDWR)


def _listens(number: int, port: int) -> bool:
    with socket.socket(fileno=os.dup(number)) as one:
        internet = one.family in (socket.AF_INET, socket.AF_INET6)
        return (
            internet and bool(one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)) and one.getsockname()[1] == port
        )


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


def _end(client: Any, hub: Any, training: str, reason: str) -> None:
    with contextlib.suppress(Exception):  # the hub may be lost, too
        hub.result(timeout=5).fail(reason).result(timeout=5)
    began = time.monotonic()
    missing: set[str] = set()
    while True:
        reports = client.run(hang_up, training, missing, on_error="ignore").values()
        states: list[State] = [state for report in reports for state in report]
        running = [state for state in states if state.running]
        patience = _BUSY if all(state.connected for state in running) else _CONNECTING
        if not running or time.monotonic() - began > patience:
            break
        missing = set(running[0].machines) - {state.machine for state in states if state.running or state.connected}
        time.sleep(0.05)
    if missing:
        client.run(hang_up, training, on_error="ignore")  # nobody listens in their place any more
