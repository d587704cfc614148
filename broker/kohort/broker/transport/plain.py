"""The transport of a connection without TLS: a TCP socket. It implements `Transport`."""

import errno
import os
import socket

from kohort.broker.transport.file_range import FileRange
from kohort.storage.operating_system import HAS_SENDFILE, pread

READ_BYTES = 256 * 1024


class PlainTransport:
    """Sends and receives with a socket, and sends file ranges with `sendfile`."""

    __slots__ = ("_socket", "file_descriptor", "receive", "send")

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self.file_descriptor = sock.fileno()
        # The socket's own methods, to save a call for each request.
        self.receive = sock.recv
        self.send = sock.send

    def receive_into(self, view: memoryview) -> int:
        """Read received bytes into `view`. Return their number. Raises: OSError."""
        return self._socket.recv_into(view)

    def send_range(self, piece: FileRange) -> int:
        """Send the next part of a file range. Return the number of bytes. Raises: OSError."""
        if not HAS_SENDFILE:
            return self._send_read(piece)
        count = os.sendfile(self.file_descriptor, piece.file_descriptor, piece.position, piece.stretch_bytes)
        if not count:
            raise OSError(errno.EIO, "a file range ended before its size")
        return count

    def _send_read(self, piece: FileRange) -> int:
        """Read the next part of the file and send it, on a system without sendfile."""
        data = pread(piece.file_descriptor, min(piece.size_bytes, READ_BYTES), piece.position)
        if not data:
            raise OSError(errno.EIO, "a file range ended before its size")
        return self._socket.send(data)

    def close(self) -> None:
        """Close the socket at once."""
        self._socket.close()
