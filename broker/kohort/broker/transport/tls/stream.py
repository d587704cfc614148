"""The transport of a connection with TLS, like `PlainTransport` without.

OpenSSL does not read the socket itself: it gets received bytes piece by piece. Otherwise it would read
records until it has data, and a client that sends key updates without end would block the loop for seconds,
because a key update is expensive. So pieces are small, and a client that sends too many bytes for too little
data is disconnected.

At most one piece is buffered in each direction. Other bytes wait in the kernel, and the poller reports them.
The poller cannot report received bytes that are buffered here: `has_leftovers` does.
"""

import errno
import socket
import ssl
from contextlib import suppress
from typing import cast

from kohort.broker.transport.file_range import FileRange
from kohort.storage.operating_system import pread

RECEIVE_BYTES = 16_645
"""The size of a piece for OpenSSL: the longest record."""
RECEIVES_MAX = 4
SEND_BYTES_MAX = 65_536
"""The most bytes that one call encrypts. They wait here if the socket is full."""
RECORD_BYTES = 16_384
"""The most data in one record."""
DEBT_BYTES_MAX = 2 * RECEIVE_BYTES
"""The most received bytes without data. Half of it may be an incomplete record."""
BYTES_FOR_ONE = 128
"""Each byte of data allows so many received bytes. A record with one byte of data has up to 70."""
UNSENT_BYTES_MAX = 65_536
"""More unsent bytes occur only if a client makes TLS answer again and again, and does not read."""
DROPPED_BYTES = 65_536
_ALERT = bytes.fromhex("15030300020246")  # Fatal, protocol_version.


class TlsTransport:
    """Sends and receives encrypted bytes. File ranges are read first."""

    __slots__ = ("_arrived", "_debt_bytes", "_leaving", "_socket", "_tls", "_unsent", "file_descriptor")

    def __init__(self, sock: socket.socket, context: ssl.SSLContext) -> None:
        """`sock` is connected and non-blocking."""
        self._socket = sock
        self._arrived, self._leaving = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._arrived, self._leaving, server_side=True)
        self._unsent = b""
        self._debt_bytes = 0
        self.file_descriptor = sock.fileno()

    def shake_hands(self) -> None:
        """Continue the handshake. Return when it is finished. Raises: BlockingIOError, OSError."""
        try:
            self._try_to_shake_hands()
        except ssl.SSLError:
            with suppress(OSError):
                self.flush()  # Sends the alert.
            raise
        self._debt_bytes = 0
        self.flush()

    def _try_to_shake_hands(self) -> None:
        if not self._arrived.pending:
            self._fill()
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self.flush()
            raise BlockingIOError(errno.EAGAIN, "the handshake goes on when more arrives") from None

    def certificate(self) -> bytes | None:
        """Return the client's verified certificate in DER, or None."""
        return self._tls.getpeercert(binary_form=True)

    def resumed_until_s(self) -> float | None:
        """Return the end of the certificate of a resumed session, in seconds since 1970.

        None means that the session is not resumed: then OpenSSL has checked the certificate.
        """
        found = self._tls.getpeercert() if self._tls.session_reused else None
        return ssl.cert_time_to_seconds(str(found["notAfter"])) if found else None

    @property
    def has_received(self) -> bool:
        """Whether a byte of the handshake has been received."""
        return self._debt_bytes > 0

    @property
    def version(self) -> str:
        """The version, such as TLSv1.3."""
        return self._tls.version() or ""

    @property
    def has_leftovers(self) -> bool:
        """Whether received bytes are buffered, which the poller does not report."""
        return self._arrived.pending > 0 or self._arrived.eof or self._tls.pending() > 0

    @property
    def wants_write(self) -> bool:
        """Whether encrypted bytes wait for the socket."""
        return len(self._unsent) > 0

    def receive(self, count: int, /) -> bytes:
        """Return at most `count` bytes of the received records; none at the end.

        Raises: BlockingIOError, OSError.
        """
        if not self.has_leftovers:
            self._fill()
        try:
            data = self._tls.read(count)
            if data and self._arrived.pending:
                data += self._rest(count - len(data))
        except ssl.SSLWantReadError:
            self._settle(0)
            raise BlockingIOError(errno.EAGAIN, "nothing has arrived as a whole") from None
        except ssl.SSLEOFError:  # Some clients send no close_notify.
            return b""
        self._settle(len(data))
        return data

    def _rest(self, count: int) -> bytes:
        """Return at most `count` bytes of the records after the first one."""
        parts: list[bytes] = []
        try:
            while count and self._arrived.pending:
                data = self._tls.read(count)
                if not data:
                    self._arrived.write_eof()  # The client has sent close_notify.
                    break
                parts.append(data)
                count -= len(data)
        except ssl.SSLError:  # An incomplete or invalid record: the next read reports it.
            pass
        return b"".join(parts)

    def receive_into(self, view: memoryview) -> int:
        """Read received bytes into `view`. Return their number. Raises: BlockingIOError, OSError."""
        count = 0
        try:
            for _ in range(RECEIVES_MAX):
                if not self.has_leftovers:
                    self._fill()
                count += self._read_into(view[count:])
                if count == len(view) or self._arrived.eof:
                    break
        except BlockingIOError:
            if not count:
                raise
        return count

    def _read_into(self, view: memoryview) -> int:
        """Read OpenSSL's data into `view`. Return the number of bytes. Raises: OSError."""
        count = 0
        try:
            while count < len(view):
                # With a buffer it returns a number; its type stubs are wrong.
                read = cast("int", self._tls.read(len(view) - count, cast("bytearray", view[count:])))
                if not read:
                    self._arrived.write_eof()  # The client has sent close_notify.
                    break
                count += read
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLEOFError:
            return count
        self._settle(count)
        return count

    def _fill(self) -> None:
        """Pass received bytes to OpenSSL. Raises: BlockingIOError, OSError."""
        data = self._socket.recv(RECEIVE_BYTES)
        if data:
            self._arrived.write(data)
            self._debt_bytes += len(data)
        else:
            self._arrived.write_eof()

    def _settle(self, count: int) -> None:
        """Count data against received bytes. Raises: OSError if there is too little data."""
        self._debt_bytes = max(0, self._debt_bytes - count * BYTES_FOR_ONE)
        if self._leaving.pending:
            self.flush()
        if self._debt_bytes > DEBT_BYTES_MAX or len(self._unsent) > UNSENT_BYTES_MAX:
            raise OSError(errno.EPROTO, "the client sends too many TLS records with too little data")

    def send(self, data: bytes | memoryview, /) -> int:
        """Send the first bytes of `data`. Return their number. Raises: BlockingIOError, OSError.

        Encrypted bytes may still wait for the socket: see `wants_write` and `flush`.
        """
        if self._unsent:
            self.flush()
            if self._unsent:
                raise BlockingIOError(errno.EAGAIN, "the socket is full")
        taken = 0
        if len(data) > RECORD_BYTES:  # OpenSSL encrypts one record at a time.
            view = memoryview(data)[:SEND_BYTES_MAX]
            while taken < len(view):
                taken += self._tls.write(view[taken:])
        else:
            taken = self._tls.write(data)
        self.flush()
        return taken

    def send_range(self, piece: FileRange) -> int:
        """Read and send the next part of a file range. Return the number of bytes. Raises: like `send`."""
        data = pread(piece.file_descriptor, min(piece.size_bytes, SEND_BYTES_MAX), piece.position)
        if not data:
            raise OSError(errno.EIO, "a file range ended before its size")
        return self.send(data)

    def flush(self) -> None:
        """Send encrypted bytes, as far as the socket accepts them. Raises: OSError."""
        if self._leaving.pending:
            self._unsent += self._leaving.read()
        if self._unsent:
            try:
                sent = self._socket.send(self._unsent)
            except BlockingIOError:
                return
            self._unsent = self._unsent[sent:]

    def refuse(self, *, speaks_tls: bool) -> None:
        """Send the reason to a client before its connection closes. Unread bytes would prevent that."""
        with suppress(OSError):
            self._socket.recv(DROPPED_BYTES)
        if not speaks_tls:  # Like Java, unlike OpenSSL: clients recognize it.
            with suppress(OSError):
                self._socket.send(_ALERT)

    def close(self) -> None:
        """Send close_notify if the socket accepts it at once, and close.

        OpenSSL's memory is released at once, before the garbage collector frees the connection.
        """
        with suppress(OSError, ValueError):  # The client's answer is not needed.
            try:
                self._tls.unwrap()
            finally:
                self.flush()
        self._socket.close()
        self._unsent = b""
        del self._tls, self._arrived, self._leaving
