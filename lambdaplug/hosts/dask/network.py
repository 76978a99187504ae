"""LightGBM's network among the workers of a training, which ends on all of them when it fails on one.

LightGBM's workers talk over connections of their own. When one of them stops, by an error or killed, the others read on
from a connection that has ended, for ever: a thread busy in C++ that no exception reaches, and a worker lost to every later
training. So the client tells them, and each takes its connections from under LightGBM, which notices that.

LightGBM has no public way to end it. Its ``time_out`` is one of connecting only, and aborts the process; a process of its own
for each training could be killed, but takes a copy of the rows and seconds to start; restarted workers lose their rows.

The network is made here, through ``Booster.set_network``, when all workers have their rows and a port: nothing that can fail
lies between that and a network that stands. A worker that is lost just then leaves the others waiting for its connection,
and LightGBM has no way to call that off. So they connect in its place, and the network that then stands is ended as any other.
"""

import contextlib
import os
import socket
import struct
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING
from urllib.parse import urlparse

import psutil

from ...errors import LambdaplugError

if TYPE_CHECKING:
    from .cluster import Member

__all__ = ["abort", "connected"]

RANK = struct.Struct("=i")  # what LightGBM says first over a connection: the lower rank connects to the higher


class Network:
    """A training's connections on this worker."""

    def __init__(self, rank: int, machines: Collection[str]) -> None:
        import lightgbm as lgb  # the network is asked of by trainings of the other host, too

        self.rank, self.machines = rank, list(machines)  # host:port, by rank
        self.connections: dict[int, int] = {}  # file number: inode
        self.connecting = True
        self.stand_ins: dict[int, socket.socket] = {}  # by the rank that is missing
        self._booster = lgb.Booster.__new__(lgb.Booster)  # any will do, without a model: the network is this thread's

    def connect(self, time_out: int) -> None:
        """Make the network, for Boosters of this thread; returns when all connections stand."""
        machines, port = ",".join(self.machines), _address(self.machines[self.rank])[1]
        self._booster.set_network(machines, port, time_out, len(self.machines))
        self.connections = connections_of(machines)
        self.connecting = False

    def close(self) -> None:
        self._booster.free_network()
        for one in self.stand_ins.values():
            one.close()

    def replace(self, missing: Collection[int]) -> None:
        """Be the members that are missing: connect as those of lower rank, listen as those of higher, if on this host."""
        for rank in set(missing) - set(self.stand_ins):
            with contextlib.suppress(OSError):  # LightGBM does not listen yet, or another process does already
                if rank < self.rank:
                    self.stand_ins[rank] = socket.create_connection(_address(self.machines[self.rank]), timeout=1)
                    self.stand_ins[rank].sendall(RANK.pack(rank))
                else:
                    self.stand_ins[rank] = socket.create_server(_address(self.machines[rank]), backlog=128)

    def abort(self) -> None:
        """Take the connections from under the training, whose next use of them then is an error."""
        with open(os.devnull, "rb") as nothing:
            for number, inode in self.connections.items():
                with contextlib.suppress(OSError):
                    if os.fstat(number).st_ino == inode:
                        # Whoever reads from it must look at it again. It may have been ended by the other end.
                        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(number)) as one:
                            one.shutdown(socket.SHUT_RDWR)
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


_networks: dict[tuple[str, int], Network] = {}  # by training and rank: several workers may share a process


@contextlib.contextmanager
def connected(member: "Member", machines: str = "", port: int = 0, time_out: int = 120) -> Iterator[None]:
    """While this lasts, the network of all members stands. ``machines`` (host:port,...) or ``port`` are where to listen."""
    host = str(urlparse(member.address).hostname)
    known = [_address(one) for one in machines.split(",") if one]
    with _first_free([own for name, own in known if name == host] or [port], host) as reserved:
        found = member.exchange(f"{host}:{reserved.getsockname()[1]}")
    network = _networks[member.training, member.rank] = Network(member.rank, found)
    try:
        network.connect(time_out)
        yield
    finally:
        del _networks[member.training, member.rank]
        network.close()


def _first_free(ports: Collection[int], host: str) -> socket.socket:
    """A socket that keeps one of the ports, without listening."""
    for port in ports:
        found = socket.socket()
        with contextlib.suppress(OSError):
            found.bind(("", port))
            return found
        found.close()
    raise LambdaplugError(f"machines, local_listen_port: no port is free on {host} among {list(ports)}.")


def abort(training: str, missing: Collection[int] = ()) -> dict[int, bool]:
    """End a training in this process, as far as its networks stand: the ranks that have one, and whether they still connect.

    ``missing`` are the ranks that will not connect to them.
    """
    networks = [network for (name, _), network in list(_networks.items()) if name == training]
    for network in networks:
        if network.connecting:  # then hands off its sockets: LightGBM would abort the process
            network.replace(missing)
        else:
            network.abort()
    return {network.rank: network.connecting for network in networks}
