"""LightGBM's network among the workers of a training, which ends on all of them when it fails on one.

LightGBM's workers talk over connections of their own. When one of them stops, by an error or killed, the others read on
from a connection that has ended, for ever: a thread busy in C++ that no exception reaches, and a worker lost to every later
training. So the client tells them, and each takes its connections from under LightGBM, which notices that.

The network is made here, through ``Booster.set_network``, and not when the ranker makes its Booster: so nothing that can
fail lies between the last moment at which all workers are known to be well and a network that stands. A worker that is lost
just then leaves the others waiting for its connection, and LightGBM has no way to call that off. So another process connects
in its place, and the network that then stands is ended as any other.
"""

import contextlib
import os
import socket
import struct
import threading
import time
from collections.abc import Collection, Iterator
from typing import Any, NamedTuple
from urllib.parse import urlparse

import lightgbm as lgb
import psutil
from distributed import get_worker

from .checks import lost

__all__ = ["Network", "joined", "watched"]

# Seconds. Workers that are well have connected after SOON; those that wait for others try to connect at growing
# intervals, up to CONNECTING. One that is busy in Python sees that the training has ended when it needs the others: an
# error is raised after BUSY, while it still runs.
SOON, BUSY, CONNECTING = 2.0, 10.0, 300.0

RANK = struct.Struct("=i")  # what LightGBM says first over a connection: the lower rank connects to the higher


class State(NamedTuple):
    """A training that runs on a worker."""

    machine: str  # host:port
    machines: str  # all of the training's, by rank
    connecting: bool  # LightGBM waits for others to connect


class Network:
    """A training's connections on this worker."""

    def __init__(self, machines: str, port: int) -> None:
        self.worker = str(get_worker().address)
        self.machine, self.machines, self.port = f"{urlparse(self.worker).hostname}:{port}", machines, port
        self.connections: dict[int, int] = {}  # file number: inode
        self.connecting = False
        self.stand_ins: dict[str, socket.socket] = {}  # by the machine that is missing
        self._booster = lgb.Booster.__new__(lgb.Booster)  # any will do, without a model: the network is this thread's

    def check(self) -> None:
        """Raise where the port cannot be used: LightGBM would say so when the others are waiting already."""
        socket.create_server(("", self.port)).close()

    def connect(self, time_out: int) -> None:
        """Make the network, for Boosters of this thread; returns when all connections stand."""
        self.connecting = True
        self._booster.set_network(self.machines, self.port, time_out, self.machines.count(",") + 1)
        self.connections = connections_of(self.machines)
        self.connecting = False

    def close(self) -> None:
        self._booster.free_network()
        for one in self.stand_ins.values():
            one.close()

    def replace(self, missing: Collection[str]) -> None:
        """Connect as the machines of lower rank that are missing."""
        machines = self.machines.split(",")
        for rank, machine in enumerate(machines[: machines.index(self.machine)]):
            if machine in missing and machine not in self.stand_ins:
                with contextlib.suppress(OSError):  # LightGBM does not listen yet
                    self.stand_ins[machine] = socket.create_connection(_address(self.machine), timeout=1)
                    self.stand_ins[machine].sendall(RANK.pack(rank))

    def abort(self) -> None:
        """Take the connections from under the training, whose next use of them then is an error."""
        with open(os.devnull, "rb") as nothing:
            for number, inode in self.connections.items():
                with contextlib.suppress(OSError):
                    if os.fstat(number).st_ino == inode:
                        _wake(number)
                        os.dup2(nothing.fileno(), number)


def connections_of(machines: str) -> dict[int, int]:
    """This process's connections of which one end is the address, host and port, at which one of the machines listens."""
    addresses = set(map(_address, machines.split(",")))
    process, found = psutil.Process(), {}
    connections = process.net_connections if hasattr(process, "net_connections") else process.connections  # psutil < 6
    for one in connections("tcp4"):
        if one.raddr and addresses & {tuple(one.laddr), tuple(one.raddr)}:
            with contextlib.suppress(OSError):  # Windows has no file numbers for them
                found[one.fd] = os.fstat(one.fd).st_ino
    return found


def _address(machine: str) -> tuple[str, int]:
    host, _, port = machine.rpartition(":")
    return host, int(port)


def _wake(number: int) -> None:
    """Have whoever reads from a connection look at it again."""
    with contextlib.suppress(OSError), socket.socket(fileno=os.dup(number)) as one:  # ended by the other end
        one.shutdown(socket.SHUT_RDWR)


# --- on the workers ------------------------------------------------------------------------------------------------

_networks: dict[tuple[str, str], Network] = {}  # by training and worker: several workers may share a process
_listeners: dict[tuple[str, str], socket.socket] = {}  # by training and machine: in the place of one that is missing


@contextlib.contextmanager
def joined(training: str, machines: str, port: int) -> Iterator[Network]:
    """While this lasts, this worker takes part in a training among these machines (host:port,...), listening on a port."""
    network = Network(machines, port)
    _networks[training, network.worker] = network
    try:
        yield network
    finally:
        del _networks[training, network.worker]
        network.close()


def abort(training: str, missing: Collection[str] = ()) -> list[State]:
    """End a training in this process, as far as its networks stand; says where it still runs.

    ``missing`` are machines that will not connect to those that wait for them.
    """
    networks = [network for (name, _), network in list(_networks.items()) if name == training]
    for network in networks:
        if network.connecting:  # then hands off its sockets: LightGBM would abort the process
            network.replace(missing)
        else:
            network.abort()
    for key in [key for key in _listeners if key[0] == training and key[1] not in missing]:
        _listeners.pop(key).close()
    for machine in missing:
        if (training, machine) not in _listeners:
            with contextlib.suppress(OSError):  # of another host, or another process listens already
                _listeners[training, machine] = socket.create_server(_address(machine), backlog=128)
    return [State(network.machine, network.machines, network.connecting) for network in networks]


# --- on the client -------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def watched(client: Any, hub: Any, training: str) -> Iterator[None]:
    """A training with LightGBM inside, whose workers meet at a hub. If it fails, or one of them is lost, it ends on all."""
    before, over = set(client.ncores()), threading.Event()
    losses: list[Exception | None] = []

    def watch() -> None:
        while not over.wait(1.0):
            with contextlib.suppress(Exception):
                gone = before - set(client.ncores())
                if gone and _concerned(hub, gone):
                    losses.append(lost(client, before))
                    _end(client, hub, training, f"workers were lost: {', '.join(sorted(gone))}")
                    client.cancel([hub], force=True)  # and what needs it: it would wait for lost workers for ever
                    return

    watching = threading.Thread(target=watch, daemon=True)
    watching.start()
    try:
        yield
    except BaseException as failure:
        over.set()
        watching.join()
        error = losses[0] if losses else lost(client, before)
        _end(client, hub, training, f"the training stopped: {type(failure).__name__}: {failure}")
        if error is not None and not isinstance(failure, KeyboardInterrupt):
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
    began, missing = time.monotonic(), set[str]()
    while True:
        reports = client.run(abort, training, missing, on_error="ignore").values()
        running: list[State] = [state for report in reports for state in report]
        connecting, elapsed = any(state.connecting for state in running), time.monotonic() - began
        if not running or elapsed > (CONNECTING if connecting else BUSY):
            break
        if connecting and elapsed > SOON:
            missing = set(running[0].machines.split(",")) - {state.machine for state in running}
        time.sleep(0.05)
    if missing:
        client.run(abort, training, on_error="ignore")  # and no longer listen in their place
