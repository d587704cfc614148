"""What the broker's reactor uses of the operating system's sockets, on the virtual network.

`VirtualSocket` has the methods of a non-blocking `socket.socket`, `VirtualPoller` those of epoll. Descriptors
are numbers of the process alone, and far above real ones: no call of the system takes one for its own.
"""

import errno
import socket
from collections import deque
from collections.abc import Callable
from typing import Any

from kohort.testing.simulation.ends import End, Host, Listener
from kohort.testing.simulation.kernel import Process
from kohort.testing.simulation.network import Network

READ, WRITE, HANG_UP = 1, 4, 16  # As in epoll.
FIRST_DESCRIPTOR = 1 << 20


class Sockets:
    """The open sockets of one process on one host, by descriptor."""

    def __init__(self, network: Network, host: Host, process: Process) -> None:
        self.network = network
        self.host = host
        self.process = process
        self._descriptor = FIRST_DESCRIPTOR

    def take_descriptor(self, sock: "VirtualSocket") -> int:
        """Return a descriptor that the process has not had before."""
        self._descriptor += 1
        self.process.descriptors[self._descriptor] = sock
        return self._descriptor

    def drop_descriptor(self, descriptor: int) -> None:
        """Forget a socket that is closed."""
        self.process.descriptors.pop(descriptor, None)

    def find(self, descriptor: int) -> "VirtualSocket | None":
        """Return the open socket with this descriptor."""
        sock = self.process.descriptors.get(descriptor)
        assert sock is None or isinstance(sock, VirtualSocket)
        return sock

    def socket(self) -> "VirtualSocket":
        """Return a new socket that is neither bound nor connected."""
        return VirtualSocket(self)

    def pair(self) -> tuple["VirtualSocket", "VirtualSocket"]:
        """Return two sockets of this process that are connected with each other."""
        address = (self.host.address, 0)
        ends = [End(self.network, self.host, address, address, self.process) for _ in range(2)]
        ends[0].peer, ends[1].peer = ends[1], ends[0]
        return VirtualSocket(self, ends[0]), VirtualSocket(self, ends[1])


class VirtualSocket:
    """A TCP socket: bound and listening, or connected. It never blocks."""

    family = socket.AF_INET
    type = socket.SOCK_STREAM

    def __init__(self, sockets: Sockets, end: End | None = None) -> None:
        self.sockets = sockets
        self.end = end
        self.on_ready: Callable[[], object] | None = None
        """Called when the socket may have become ready: the poller's."""
        self.on_change: Callable[[], object] | None = None
        """The same, for the socket's owner."""
        self._bound: tuple[str, int] | None = None
        self._listener: Listener | None = None
        self._waiting: deque[End] = deque()  # Connections that were not accepted yet.
        self._descriptor = sockets.take_descriptor(self)
        if end is not None:
            self.attach(end)

    # -- as in socket.socket ------------------------------------------------------------------------------

    def attach(self, end: End) -> None:
        """Be this end of a connection from now on."""
        self.end = end
        end.on_change = self._changed

    def fileno(self) -> int:
        """Return the descriptor, -1 once it is closed."""
        return self._descriptor

    def setblocking(self, flag: bool) -> None:  # As in the standard library.
        """Do nothing: it never blocks."""

    def setsockopt(self, *_option: Any) -> None:
        """Do nothing: no option changes what is simulated."""

    def getsockopt(self, *_option: Any) -> int:
        """Return 0."""
        return 0

    def bind(self, address: tuple[str, int]) -> None:
        """Take the port, 0 for any free one. Raises: OSError."""
        port = address[1] or self.sockets.host.free_port()
        if port in self.sockets.host.listeners:
            raise OSError(errno.EADDRINUSE, "Address already in use")
        self._bound = (address[0], port)

    def listen(self, _backlog: int = 0) -> None:
        """Let clients connect. Raises: OSError."""
        assert self._bound is not None
        sockets = self.sockets
        self._listener = sockets.network.listen(
            sockets.process, sockets.host, self._bound[1], self._take_connection
        )

    def accept(self) -> tuple["VirtualSocket", tuple[str, int]]:
        """Return a connection and the address of its client. Raises: BlockingIOError."""
        if not self._waiting:
            raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
        end = self._waiting.popleft()
        return VirtualSocket(self.sockets, end), end.remote

    def getsockname(self) -> tuple[str, int]:
        """Return the own address."""
        if self.end is not None:
            return self.end.local
        return self._bound or ("0.0.0.0", 0)  # As a socket that is not bound.

    def getpeername(self) -> tuple[str, int]:
        """Return the address of the other side. Raises: OSError."""
        if self.end is None:
            raise OSError(errno.ENOTCONN, "Transport endpoint is not connected")
        return self.end.remote

    def recv(self, bytes_max: int, _flags: int = 0) -> bytes:
        """Return what has arrived, b"" at the end. Raises: BlockingIOError, OSError."""
        data = self._connected().receive(bytes_max)
        if data is None:
            raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
        return data

    def recv_into(self, buffer: memoryview | bytearray, size: int = 0, _flags: int = 0) -> int:
        """Write what has arrived into the buffer. Return its size. Raises: BlockingIOError, OSError."""
        view = memoryview(buffer)
        data = self.recv(size or len(view))
        view[: len(data)] = data
        return len(data)

    def send(self, data: bytes | bytearray | memoryview, _flags: int = 0) -> int:
        """Send some of the bytes. Return how many. Raises: BlockingIOError, OSError."""
        sent = self._connected().send(data)
        if not sent and len(data):
            raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
        return sent

    def shutdown(self, how: int) -> None:
        """Send no more, unless only receiving is ended."""
        if how != socket.SHUT_RD:
            self._connected().end()

    def close(self) -> None:
        """Close it, and the connections that were not accepted."""
        self.sockets.drop_descriptor(self._descriptor)
        self._descriptor = -1
        self.on_ready = None
        if self._listener is not None:
            self._listener.close()
        for end in (*self._waiting, *(() if self.end is None else (self.end,))):
            end.close()
        self._waiting.clear()

    def __enter__(self) -> "VirtualSocket":
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def _connected(self) -> End:
        if self._descriptor == -1:
            raise OSError(errno.EBADF, "Bad file descriptor")
        if self.end is None:
            raise OSError(errno.ENOTCONN, "Transport endpoint is not connected")
        return self.end

    # -- readiness ----------------------------------------------------------------------------------------

    def events(self, wanted: int) -> int:
        """Return which of the wanted events there are, and HANG_UP after an error."""
        if self.end is None:
            return READ & wanted if self._waiting else 0
        found = HANG_UP if self.end.error is not None else 0
        if wanted & READ and self.end.is_readable:
            found |= READ
        if wanted & WRITE and self.end.is_writable:
            found |= WRITE
        return found

    def _take_connection(self, end: End) -> None:
        self._waiting.append(end)
        self._changed()

    def _changed(self) -> None:
        if self.on_ready is not None:
            self.on_ready()
        if self.on_change is not None:
            self.on_change()


class VirtualPoller:
    """What epoll does, for the sockets of one process.

    Polling never waits: `on_ready` tells when there are events.
    """

    def __init__(self, sockets: Sockets) -> None:
        self._sockets = sockets
        self._wanted: dict[int, int] = {}
        self._maybe_ready: dict[int, None] = {}
        self.on_ready: Callable[[], object] = lambda: None
        """Called when there may be events, as code of the process."""

    def register(self, descriptor: int, wanted: int, /) -> None:
        """Watch the socket for the wanted events, some of READ and WRITE."""
        sock = self._sockets.find(descriptor)
        assert sock is not None
        sock.on_ready = lambda: self._is_ready(descriptor)
        self.modify(descriptor, wanted)

    def modify(self, descriptor: int, wanted: int, /) -> None:
        """Change the wanted events; 0 means none."""
        self._wanted[descriptor] = wanted
        sock = self._sockets.find(descriptor)
        if sock is not None and sock.events(wanted):
            self._is_ready(descriptor)

    def unregister(self, descriptor: int, /) -> None:
        """Watch the socket no more."""
        del self._wanted[descriptor]
        self._maybe_ready.pop(descriptor, None)
        sock = self._sockets.find(descriptor)
        if sock is not None:
            sock.on_ready = None

    def _is_ready(self, descriptor: int) -> None:
        is_first = not self._maybe_ready
        self._maybe_ready[descriptor] = None
        if is_first:
            self.on_ready()

    def poll(self, _timeout_seconds: float = 0, events_max: int = -1) -> list[tuple[int, int]]:
        """Return the present events, at most `events_max`. A socket is reported as long as it is ready."""
        found: list[tuple[int, int]] = []
        for descriptor in tuple(self._maybe_ready):
            sock = self._sockets.find(descriptor)
            events = 0 if sock is None else sock.events(self._wanted[descriptor])
            if not events:
                del self._maybe_ready[descriptor]
            elif len(found) != events_max:
                found.append((descriptor, events))
        return found

    @property
    def has_events(self) -> bool:
        """Whether `poll` may return events."""
        return bool(self._maybe_ready)

    def close(self) -> None:
        """Watch nothing."""
        for descriptor in tuple(self._wanted):
            self.unregister(descriptor)
