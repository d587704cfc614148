"""A TCP socket with TLS on it: what `PlainTransport` is without.

OpenSSL does not touch the socket: it is given what has arrived, piece by piece. By itself it would go on from
record to record until there is data for us, and whoever sends new keys without end, which cost us what forty
bytes of anything else do not, would keep it, and the loop with it, for seconds. So a piece is small, and who
has sent too many bytes for the data that came of them is closed.

No more than a piece waits here each way: the rest waits in the kernel, which says so by the poller.
What has arrived and was not taken is the one thing that it cannot tell of: `has_leftovers`.
"""

import errno
import os
import socket
import ssl
from contextlib import suppress
from typing import cast

from kohort.broker.transport.file_range import FileRange

RECEIVE_BYTES = 16_645
"""What OpenSSL is given at once: the longest record."""
RECEIVES_MAX = 4
SEND_BYTES_MAX = 65_536
"""What is taken by one call, and waits here where the socket is full."""
RECORD_BYTES = 16_384
"""What one record carries at most."""
DEBT_BYTES_MAX = 2 * RECEIVE_BYTES
"""So much may arrive that no data come of; half of it may be a record that is not there as a whole."""
BYTES_FOR_ONE = 128
"""A byte of data may cost so many. A record of a single one is 23 bytes long, with older ciphers up to 70."""
UNSENT_BYTES_MAX = 65_536
"""More than that waits only of a client that has TLS answer it again and again, and takes nothing."""
DROPPED_BYTES = 65_536
_ALERT = bytes.fromhex("15030300020246")  # Fatal, protocol_version.


class TlsTransport:
    """Bytes to and from a socket, encrypted; ranges of files are read first."""

    __slots__ = ("_arrived", "_debt_bytes", "_leaving", "_socket", "_tls", "_unsent", "file_descriptor")

    def __init__(self, sock: socket.socket, context: ssl.SSLContext) -> None:
        """Take `sock`, connected and not blocking."""
        self._socket = sock
        self._arrived, self._leaving = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._arrived, self._leaving, server_side=True)
        self._unsent = b""
        self._debt_bytes = 0
        self.file_descriptor = sock.fileno()

    def shake_hands(self) -> None:
        """Go on with the handshake; return once it is done. Raises: BlockingIOError, OSError."""
        try:
            self._try_to_shake_hands()
        except ssl.SSLError:
            with suppress(OSError):
                self.flush()  # By an alert it is told what is wrong.
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
        """Return the certificate by which the client has proved who it is, in DER."""
        return self._tls.getpeercert(binary_form=True)

    def resumed_until_s(self) -> float | None:
        """Return when the certificate ends that a session was begun with which this one goes on from.

        In seconds since 1970; None where it is no such session: then OpenSSL has looked at the certificate.
        """
        found = self._tls.getpeercert() if self._tls.session_reused else None
        return ssl.cert_time_to_seconds(str(found["notAfter"])) if found else None

    @property
    def has_received(self) -> bool:
        """Whether a byte has come of a handshake that is under way."""
        return self._debt_bytes > 0

    @property
    def version(self) -> str:
        """What is spoken: TLSv1.3."""
        return self._tls.version() or ""

    @property
    def has_leftovers(self) -> bool:
        """Whether something has arrived and not been taken: the poller knows nothing of it."""
        return self._arrived.pending > 0 or self._arrived.eof or self._tls.pending() > 0

    @property
    def wants_write(self) -> bool:
        """Whether something is encrypted that the socket has not taken yet."""
        return len(self._unsent) > 0

    def receive(self, count: int, /) -> bytes:
        """Return at most so many bytes, of all records that have arrived; none at the end.

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
        except ssl.SSLEOFError:  # Some clients do not say that this is the end.
            return b""
        self._settle(len(data))
        return data

    def _rest(self, count: int) -> bytes:
        """Return at most so many bytes of the records behind the first one."""
        parts: list[bytes] = []
        try:
            while count and self._arrived.pending:
                data = self._tls.read(count)
                if not data:
                    self._arrived.write_eof()  # It has said that this is the end.
                    break
                parts.append(data)
                count -= len(data)
        except ssl.SSLError:  # No record as a whole, or a ruined one: that is heard of when it is read next.
            pass
        return b"".join(parts)

    def receive_into(self, view: memoryview) -> int:
        """Fill `view` with what has arrived; return how many bytes. Raises: BlockingIOError, OSError."""
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
        """Fill `view` with what OpenSSL has been given; return how many bytes. Raises: OSError."""
        count = 0
        try:
            while count < len(view):
                # With a buffer it returns a number, which its stubs know nothing of.
                read = cast("int", self._tls.read(len(view) - count, cast("bytearray", view[count:])))
                if not read:
                    self._arrived.write_eof()  # It has said that this is the end.
                    break
                count += read
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLEOFError:
            return count
        self._settle(count)
        return count

    def _fill(self) -> None:
        """Give OpenSSL what has arrived. Raises: BlockingIOError, OSError."""
        data = self._socket.recv(RECEIVE_BYTES)
        if data:
            self._arrived.write(data)
            self._debt_bytes += len(data)
        else:
            self._arrived.write_eof()

    def _settle(self, count: int) -> None:
        """Take so many bytes of data for what has arrived. Raises: OSError."""
        self._debt_bytes = max(0, self._debt_bytes - count * BYTES_FOR_ONE)
        if self._leaving.pending:
            self.flush()
        if self._debt_bytes > DEBT_BYTES_MAX or len(self._unsent) > UNSENT_BYTES_MAX:
            raise OSError(errno.EPROTO, "too much of TLS arrives, and too little with it")

    def send(self, data: bytes | memoryview, /) -> int:
        """Send the first bytes of `data`; return how many were taken. Raises: BlockingIOError, OSError.

        They may still wait for the socket, encrypted: `wants_write`, `flush`.
        """
        if self._unsent:
            self.flush()
            if self._unsent:
                raise BlockingIOError(errno.EAGAIN, "the socket is full")
        taken = 0
        if len(data) > RECORD_BYTES:  # OpenSSL takes a record at a time.
            view = memoryview(data)[:SEND_BYTES_MAX]
            while taken < len(view):
                taken += self._tls.write(view[taken:])
        else:
            taken = self._tls.write(data)
        self.flush()
        return taken

    def send_range(self, piece: FileRange) -> int:
        """Read and send the next stretch of a file's range; return how many bytes. Raises: as `send`."""
        data = os.pread(piece.file_descriptor, min(piece.size_bytes, SEND_BYTES_MAX), piece.position)
        if not data:
            raise OSError(errno.EIO, "a file range ended before its size")
        return self.send(data)

    def flush(self) -> None:
        """Send what is encrypted, as far as the socket takes it. Raises: OSError."""
        if self._leaving.pending:
            self._unsent += self._leaving.read()
        if self._unsent:
            try:
                sent = self._socket.send(self._unsent)
            except BlockingIOError:
                return
            self._unsent = self._unsent[sent:]

    def refuse(self, *, speaks_tls: bool) -> None:
        """Let a client that is to be closed hear why: what it has sent is dropped, or nothing reaches it."""
        with suppress(OSError):
            self._socket.recv(DROPPED_BYTES)
        if not speaks_tls:  # OpenSSL says nothing to such a one, Java does, and clients know it by that.
            with suppress(OSError):
                self._socket.send(_ALERT)

    def close(self) -> None:
        """Say that this is the end, if the socket takes that at once, and close it.

        What OpenSSL holds goes at once: the connection itself may wait for the collector.
        """
        with suppress(OSError, ValueError):  # Its answer is not waited for; one that has gone gets none.
            try:
                self._tls.unwrap()
            finally:
                self.flush()
        self._socket.close()
        self._unsent = b""
        del self._tls, self._arrived, self._leaving
