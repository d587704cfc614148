"""The addresses and the data folder of a broker."""

import socket
from pathlib import Path

import msgspec

PLAINTEXT = "PLAINTEXT"


class Address(msgspec.Struct, frozen=True):
    """A host and a port, with the security protocol."""

    host: str
    port: int
    protocol: str = PLAINTEXT
    name: str = ""
    """The listener's name in settings. The default is its protocol."""

    def __str__(self) -> str:
        scheme = "" if self.protocol == PLAINTEXT else f"{self.protocol}://"
        return (
            f"{scheme}[{self.host}]:{self.port}" if ":" in self.host else f"{scheme}{self.host}:{self.port}"
        )


class Listener(msgspec.Struct, frozen=True):
    """The address on which a broker listens, and the address that it advertises there."""

    listen: Address
    advertise: Address | None = None


class BrokerAddresses(msgspec.Struct, frozen=True):
    """The addresses and the data folder of a broker."""

    listen: Address
    data: Path
    advertise: Address | None = None
    more: tuple[Listener, ...] = ()
    """More listeners. Other brokers use the first one."""
    shared: tuple[Address, ...] = ()
    """Addresses that worker processes of this host share: a connection reaches one of them. The n-th address
    belongs to the n-th listener, whose own address is advertised."""

    @property
    def listeners(self) -> tuple[Listener, ...]:
        """All listeners in order."""
        return Listener(self.listen, self.advertise), *self.more


def bind(address: Address, *, is_shared: bool = False) -> socket.socket:
    """Return a bound non-blocking socket. Raises: OSError with the address.

    With `is_shared`, other processes of the same user may bind the address as well.
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
    """Return the advertised host and port of a listener that listens at `port`."""
    if listener.advertise is None:
        return reachable_host(listener.listen.host), port
    return listener.advertise.host, listener.advertise.port or port


def reachable_host(host: str) -> str:
    """Return a host that clients can reach if a broker listens on `host`."""
    return socket.gethostname() if host in ("", "0.0.0.0", "::") else host
