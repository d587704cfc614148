"""How a broker connects to another one; by default with a plain socket."""

from collections.abc import Awaitable, Callable
from typing import NamedTuple

import trio


class Dialled(NamedTuple):
    """A connection, and the socket under it."""

    stream: trio.abc.Stream
    socket: trio.socket.SocketType


Dial = Callable[[str, int], Awaitable[Dialled]]
"""Connects to a host and a port. Raises: OSError."""


class PeerRefused(OSError):
    """The two brokers did not come together: the text says why."""


async def dial_plain(host: str, port: int) -> Dialled:
    """Connect in the clear. Raises: OSError."""
    stream = await trio.open_tcp_stream(host, port)
    return Dialled(stream, stream.socket)
