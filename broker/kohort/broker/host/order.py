"""The order of a supervisor to a worker, and the distribution of ports and folders.

The listener at port 9092 is shared by all workers: each connection reaches one of them. Besides it worker K
has its own port 9092 + K, which clients get as its address. The first worker's folder is the data
folder itself, as for a broker of one process; the others' are in `workers` within.
"""

import socket
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from kohort.broker.config import ConfigError
from kohort.broker.host.channel import LENGTH_BYTES
from kohort.broker.host.worker_folders import part
from kohort.broker.transport.addresses import Address, Listener, bind

WORKERS_MAX = 64

ENCRYPTED = ("SSL", "SASL_SSL")
HostPort = tuple[str, int]


class Order(msgspec.Struct, frozen=True):
    """The configuration of one worker; before workers are numbered, their common part."""

    listeners: tuple[Listener, ...]
    http: Address | None
    data: str
    log_format: str
    log_level: str
    is_ephemeral: bool = False
    number: int = 0
    node_id: int = 0
    settings: dict[str, str | None] = {}
    shared: tuple[Address, ...] = ()
    addresses: dict[int, tuple[HostPort | None, ...]] = {}
    """By node id where other workers reach it, listener by listener; None: where it is advertised."""
    cluster_id: str = ""


class Ports:
    """The shared addresses and those of each worker, kept for this host's workers until the end.

    They are bound and do not listen: nothing arrives there, and a restarted worker finds its own.
    """

    def __init__(self, listeners: Sequence[Listener], http: Address, workers: int) -> None:
        """Take them. Raises: ConfigError where they are in each other's way, OSError where one is taken."""
        self._socks: list[socket.socket] = []
        check_distances(listeners, http, workers)
        try:
            self.shared = tuple(self._take(each.listen) for each in listeners)
            self.http = self._take(http)
            self.own = [
                tuple(self._take(own_address(each.listen, number)) for each in listeners)
                for number in range(1, workers + 1)
            ]
        except BaseException:
            self.close()
            raise

    def _take(self, address: Address) -> Address:
        sock = bind(address, is_shared=True)
        self._socks.append(sock)
        return msgspec.structs.replace(address, port=sock.getsockname()[1])

    def close(self) -> None:
        """Give them back."""
        for each in self._socks:
            each.close()


def own_address(listen: Address, number: int) -> Address:
    """Return where the worker of that number listens alone; port 0 stays a free one."""
    return msgspec.structs.replace(listen, port=listen.port and listen.port + number)


def own_advertise(listener: Listener, number: int) -> Address | None:
    """Return the advertised address of that worker, None for its listen address."""
    return None if listener.advertise is None else own_address(listener.advertise, number)


def check_distances(listeners: Sequence[Listener], http: Address, workers: int) -> None:
    """Return if no two addresses have the same port. Raises: ConfigError."""
    taken: dict[int, str] = {http.port: f"the HTTP address {http}"} if http.port else {}
    for listener in listeners:
        port = listener.listen.port
        for number in range(workers + 1 if port else 0):
            whose = f"the listener {listener.listen}"
            if port + number in taken or port + number > 65_535:
                other = taken.get(port + number, "the last port")
                raise ConfigError(
                    f"{workers} workers take the {workers} ports behind that of {whose}, and {other} is in "
                    "their way: choose others"
                )
            taken[port + number] = whose


def local(address: Address) -> HostPort | None:
    """Return where a process of this host reaches what listens there.

    None where certificates are shown: those bear the name that is advertised.
    """
    if address.protocol in ENCRYPTED:
        return None
    host = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}.get(address.host, address.host)
    return host, address.port


def orders(common: Order, ports: Ports, settings: Mapping[str, str | None], node_id: int) -> list[Order]:
    """Return the order of each worker; `node_id` is the first one's."""
    addresses = {node_id + index: tuple(map(local, own)) for index, own in enumerate(ports.own)}
    return [
        msgspec.structs.replace(
            common,
            number=number,
            node_id=node_id + number - 1,
            data=str(part(Path(common.data), number)),
            settings={**settings, "node.id": str(node_id + number - 1)},
            shared=ports.shared,
            addresses=addresses,
            http=ports.http if number == 1 else None,
            listeners=tuple(
                Listener(listen, own_advertise(listener, number))
                for listener, listen in zip(common.listeners, own, strict=True)
            ),
        )
        for number, own in enumerate(ports.own, 1)
    ]


def read_order(sock: socket.socket) -> Order:
    """Return the order, which comes first on a worker's channel. Blocks. Raises: OSError."""
    length = int.from_bytes(_read(sock, LENGTH_BYTES), "big")
    return msgspec.json.decode(_read(sock, length), type=Order)


def _read(sock: socket.socket, size: int) -> bytes:
    content = b""
    while len(content) < size:
        chunk = sock.recv(size - len(content))
        if not chunk:
            raise OSError("the supervisor is gone")
        content += chunk
    return content
