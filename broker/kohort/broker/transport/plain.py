"""A TCP socket as it is: what a connection sends and receives by when there is no TLS.

A transport has these few methods, none of which blocks: BlockingIOError says that it would have to. One
over `ssl.SSLObject` has the same, and reads a file's range itself, since it must encrypt it.
"""

import errno
import os
import socket

from kohort.broker.transport.file_range import FileRange


class PlainTransport:
    """Bytes to and from a socket; ranges of files by `sendfile`."""

    __slots__ = ("_socket", "file_descriptor", "receive", "send")

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self.file_descriptor = sock.fileno()
        # The socket's own methods: a call less for each request.
        self.receive = sock.recv
        self.send = sock.send

    def receive_into(self, view: memoryview) -> int:
        """Fill `view` with what has arrived; return how many bytes. Raises: OSError."""
        return self._socket.recv_into(view)

    def send_range(self, piece: FileRange) -> int:
        """Send the next stretch of a file's range; return how many bytes were taken. Raises: OSError."""
        count = os.sendfile(self.file_descriptor, piece.file_descriptor, piece.position, piece.stretch_bytes)
        if not count:
            raise OSError(errno.EIO, "a file range ended before its size")
        return count

    def close(self) -> None:
        """Close the socket at once."""
        self._socket.close()
