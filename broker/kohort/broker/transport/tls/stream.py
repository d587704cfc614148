"""A TCP socket with TLS on it: what `PlainTransport` is without.

OpenSSL reads and writes the socket itself, record by record (16 KiB), and keeps no more than one of each:
ciphertext waits in the kernel, which says so by the poller. What is decrypted and not taken is the one thing
that it cannot tell of: `has_leftovers`.
"""

import errno
import os
import socket
import ssl
from contextlib import suppress

from kohort.broker.transport.file_range import FileRange

SEND_BYTES_MAX = 65_536
"""What is encrypted by one call. One that would block is made again with the same bytes, and counts until
then as nothing sent: a whole answer at once would look as if its client took nothing."""
DROPPED_BYTES = 65_536
_ALERT = bytes.fromhex("15030300020246")  # Fatal, protocol_version.


class TlsTransport:
    """Bytes to and from a socket, encrypted; ranges of files are read first."""

    __slots__ = ("_socket", "file_descriptor", "wants_write")

    def __init__(self, sock: socket.socket, context: ssl.SSLContext) -> None:
        """Take `sock`, connected and not blocking. Raises: OSError where the client has gone."""
        self._socket = context.wrap_socket(
            sock, server_side=True, do_handshake_on_connect=False, suppress_ragged_eofs=True
        )
        self.file_descriptor = self._socket.fileno()
        self.wants_write = False
        """Whether TLS itself has something to send, and the socket was full."""

    def shake_hands(self) -> None:
        """Go on with the handshake; return once it is done. Raises: BlockingIOError, OSError."""
        try:
            self._socket.do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError) as wanted:
            raise self._blocked(wanted) from None

    def certificate(self) -> bytes | None:
        """Return the certificate by which the client has proved who it is, in DER."""
        return self._socket.getpeercert(binary_form=True)

    @property
    def version(self) -> str:
        """What is spoken: TLSv1.3."""
        return self._socket.version() or ""

    @property
    def has_leftovers(self) -> bool:
        """Whether something has been decrypted and not been taken: the poller knows nothing of it."""
        return self._socket.pending() > 0

    def receive(self, count: int, /) -> bytes:
        """Return at most so many bytes, none at the end. Raises: BlockingIOError, OSError."""
        try:
            return self._socket.recv(count)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError) as wanted:
            raise self._blocked(wanted) from None

    def receive_into(self, view: memoryview) -> int:
        """Fill `view` with what has arrived; return how many bytes. Raises: BlockingIOError, OSError."""
        try:
            return self._socket.recv_into(view)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError) as wanted:
            raise self._blocked(wanted) from None

    def send(self, data: bytes | memoryview, /) -> int:
        """Send the first bytes of `data`; return how many. Raises: BlockingIOError, OSError.

        What would block has to be sent next, and before anything else.
        """
        if len(data) > SEND_BYTES_MAX:
            data = memoryview(data)[:SEND_BYTES_MAX]
        try:
            return self._socket.send(data)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise BlockingIOError from None

    def send_range(self, piece: FileRange) -> int:
        """Read and send the next stretch of a file's range; return how many bytes. Raises: as `send`."""
        data = os.pread(piece.file_descriptor, min(piece.size_bytes, SEND_BYTES_MAX), piece.position)
        if not data:
            raise OSError(errno.EIO, "a file range ended before its size")
        return self.send(data)

    def refuse(self, *, speaks_tls: bool) -> None:
        """Let a client that is to be closed hear why: what it has sent is dropped, or nothing reaches it."""
        with suppress(OSError, ValueError):
            socket.socket.recv(self._socket, DROPPED_BYTES)
        if not speaks_tls:  # OpenSSL says nothing to such a one, Java does, and clients know it by that.
            with suppress(OSError, ValueError):
                socket.socket.send(self._socket, _ALERT)

    def close(self) -> None:
        """Say that this is the end, if the socket takes that at once, and close it."""
        with suppress(OSError, ValueError):  # Its answer is not waited for; one that has gone gets none.
            self._socket.unwrap()
        self._socket.close()

    def _blocked(self, wanted: ssl.SSLError) -> BlockingIOError:
        self.wants_write = isinstance(wanted, ssl.SSLWantWriteError)
        return BlockingIOError(errno.EAGAIN, "it would block")
