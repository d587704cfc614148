"""An HTTP connection's bytes under TLS: little at a time, and not without end.

OpenSSL works on all that it is given before anybody else has a turn, and whoever sends new keys has it do so
for nothing. So it is given sips, and who has sent too many bytes for the data that came of them is closed.
`transport.tls.stream` does the same for Kafka's clients.
"""

import ssl

import trio

SIP_BYTES = 4_096
FREE_BYTES = 65_536
"""So much may arrive that no data come of: a handshake, and a record that is not there as a whole."""
BYTES_FOR_ONE = 128
"""A byte of data may cost so many."""


class _Sips(trio.abc.Stream):
    """A connection that gives little at once, and no more than `left_bytes` before there are data."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self.left_bytes = FREE_BYTES

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        if self.left_bytes <= 0:
            raise trio.BrokenResourceError("too much of TLS arrives, and too little with it")
        data = await self._stream.receive_some(min(max_bytes or SIP_BYTES, SIP_BYTES))
        self.left_bytes -= len(data)
        return data

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self._stream.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self._stream.wait_send_all_might_not_block()

    async def aclose(self) -> None:
        await self._stream.aclose()


class Encrypted:
    """The server's end of a connection over TLS."""

    def __init__(self, stream: trio.SocketStream, context: ssl.SSLContext) -> None:
        """Shake hands on `stream` once something is to be read."""
        self._sips = _Sips(stream)
        self._tls = trio.SSLStream(self._sips, context, server_side=True, https_compatible=True)

    async def receive_some(self, max_bytes: int) -> bytes | bytearray:
        """Return what has arrived, nothing at the end. Raises: trio.BrokenResourceError."""
        data = await self._tls.receive_some(max_bytes)
        self._sips.left_bytes = min(FREE_BYTES, self._sips.left_bytes + len(data) * BYTES_FOR_ONE)
        return data

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send all of it. Raises: trio.BrokenResourceError."""
        await self._tls.send_all(data)
