"""Where a broker listens, what it tells clients to connect to, and where its data is."""

import socket
from pathlib import Path

import msgspec

PLAINTEXT = "PLAINTEXT"


class Address(msgspec.Struct, frozen=True):
    """A host and a port, and what is spoken there."""

    host: str
    port: int
    protocol: str = PLAINTEXT
    name: str = ""
    """What settings call the listener there; without one it is called after its protocol."""

    def __str__(self) -> str:
        scheme = "" if self.protocol == PLAINTEXT else f"{self.protocol}://"
        return (
            f"{scheme}[{self.host}]:{self.port}" if ":" in self.host else f"{scheme}{self.host}:{self.port}"
        )


class Listener(msgspec.Struct, frozen=True):
    """Where a broker listens, and what it tells those who came that way to connect to."""

    listen: Address
    advertise: Address | None = None


class Places(msgspec.Struct, frozen=True):
    """Where a broker listens, what it tells clients to connect to, and where its data is."""

    listen: Address
    data: Path
    advertise: Address | None = None
    more: tuple[Listener, ...] = ()
    """Where else it listens; to other brokers the first counts."""
    shared: tuple[Address, ...] = ()
    """Where other processes of this host listen as well: each connection reaches one of them. The n-th is the
    n-th listener's, and what clients are told is that listener's own address."""

    @property
    def listeners(self) -> tuple[Listener, ...]:
        """All of them, the first one first."""
        return Listener(self.listen, self.advertise), *self.more


def bind(address: Address, *, is_shared: bool = False) -> socket.socket:
    """Return a bound socket that does not block. Raises: OSError that names the address.

    Where it `is_shared`, other processes of the same user that share it may have the address as well.
    """
    try:
        family, kind, protocol, _, resolved = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        sock = socket.socket(family, kind, protocol)
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if is_shared:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            sock.setblocking(False)
            sock.bind(resolved)
        except OSError:
            sock.close()
            raise
    except OSError as error:
        raise OSError(f"cannot listen on {address}: {error.strerror}") from error
    return sock


def advertised(listener: Listener, port: int) -> tuple[str, int]:
    """Return what clients of a listener are told to connect to, which listens at that port."""
    if listener.advertise is None:
        return reachable_host(listener.listen.host), port
    return listener.advertise.host, listener.advertise.port or port


def reachable_host(host: str) -> str:
    """Return what clients can connect to where a broker listens on `host`."""
    return socket.gethostname() if host in ("", "0.0.0.0", "::") else host
