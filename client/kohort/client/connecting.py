"""How a connection to a broker is opened: over asyncio's streams or anyio's, in the clear or by TLS."""

import os
import re
import socket
import sys
from typing import TYPE_CHECKING, TypeAlias

import anyio
from anyio.abc import ByteStream, SocketAttribute

from kohort.client.connection import Connection, Observer
from kohort.client.errors import NetworkError, RequestTimeoutError
from kohort.client.versions import MAX_ANSWER_BYTES

if TYPE_CHECKING:
    import ssl
    from asyncio.trsock import TransportSocket

    from kohort.client.direct_stream import DirectStream

RawSocket: TypeAlias = "socket.socket | TransportSocket"

_NUMBER = re.compile(r"\[Errno (\d+)\]")


async def open_connection(
    host: str,
    port: int,
    *,
    client_id: str,
    timeout_ms: float,
    receive_buffer_bytes: int = -1,
    send_buffer_bytes: int = -1,
    observer: Observer | None = None,
    tls: "ssl.SSLContext | None" = None,
) -> Connection:
    """Return a connection to `host:port`, before the two sides have agreed on versions.

    Raises: NetworkError, RequestTimeoutError, SslAuthenticationError.
    """
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    try:
        with anyio.fail_after(timeout_ms / 1000):
            direct = await _connect_directly(host, port) if tls is None else None
            stream = await anyio.connect_tcp(host, port) if direct is None else None
    except TimeoutError:
        raise RequestTimeoutError(f"no connection to {address} in {timeout_ms:.0f} ms") from None
    except OSError as error:
        raise NetworkError(f"no connection to {address}: {_reason(error)}") from error
    raw = _socket_of(direct, stream)
    for option, size in ((socket.SO_RCVBUF, receive_buffer_bytes), (socket.SO_SNDBUF, send_buffer_bytes)):
        if size > 0:
            raw.setsockopt(socket.SOL_SOCKET, option, size)
    if tls is None:
        plain = direct or stream
        assert plain is not None
        return Connection(plain, address, client_id, observer)
    assert stream is not None
    from kohort.client.tls import shake_hands  # noqa: PLC0415  # Not loaded without TLS.

    secure = await shake_hands(stream, tls, host, address, timeout_ms)
    return Connection(secure, address, client_id, observer, is_secure=True)


async def _connect_directly(host: str, port: int) -> "DirectStream | None":
    """Return a stream of asyncio's, None where another loop runs. Raises: OSError."""
    asyncio = sys.modules.get("asyncio")
    try:
        if asyncio is None or asyncio.current_task() is None:
            return None
    except RuntimeError:
        return None
    from kohort.client.direct_stream import connect  # noqa: PLC0415  # Trio users need none of it.

    return await connect(host, port, MAX_ANSWER_BYTES)


def _socket_of(direct: "DirectStream | None", stream: ByteStream | None) -> "RawSocket":
    if direct is not None:
        found: RawSocket = direct.transport.get_extra_info("socket")
        return found
    assert stream is not None
    return stream.extra(SocketAttribute.raw_socket)


def _reason(error: OSError) -> str:
    """Return the operating system's message inside the errors of anyio and asyncio."""
    inner: BaseException | None = error
    while inner is not None:
        if isinstance(inner, OSError) and inner.errno:
            return inner.strerror or str(inner) if inner.errno < 0 else os.strerror(inner.errno)
        inner = inner.exceptions[0] if isinstance(inner, BaseExceptionGroup) else inner.__cause__
    among = _NUMBER.search(str(error))  # asyncio joins the errors of several addresses in one text.
    return str(error) if among is None else os.strerror(int(among[1]))
