"""The handshake of a connection that is to be encrypted."""

import ssl

import anyio
from anyio.abc import SocketStream
from anyio.streams.tls import TLSStream

from kohort.client.errors import NetworkError, RequestTimeoutError, SslAuthenticationError
from kohort.client.security import handshake_failure


async def shake_hands(
    stream: SocketStream, context: ssl.SSLContext, host: str, address: str, timeout_ms: float
) -> TLSStream:
    """Return the stream with TLS on it.

    Raises: SslAuthenticationError, NetworkError, RequestTimeoutError; the stream is then closed.
    """
    try:
        with anyio.fail_after(timeout_ms / 1000):
            return await TLSStream.wrap(
                stream, server_side=False, hostname=host, ssl_context=context, standard_compatible=False
            )
    except TimeoutError:
        problem: Exception = RequestTimeoutError(f"no TLS handshake with {address} in {timeout_ms:.0f} ms")
    except (OSError, anyio.BrokenResourceError, anyio.EndOfStream) as error:
        problem = handshake_problem(error, address)
    await anyio.aclose_forcefully(stream)
    raise problem


def handshake_problem(error: Exception, address: str) -> NetworkError | SslAuthenticationError:
    """Return a failed handshake as a client's error, which is final where the next one would fail, too."""
    if isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError | ssl.SSLSyscallError):
        return NetworkError(f"no TLS with {address}: {handshake_failure(error)}")
    if isinstance(error, ssl.SSLError):  # Source: SslTransportLayer.
        return SslAuthenticationError(f"no TLS with {address}: {handshake_failure(error)}")
    return NetworkError(f"no TLS with {address}: it closed the connection; is its listener PLAINTEXT?")
