"""The links between brokers: a proxy before each, which holds back what one broker sends to another.

Other brokers and clients come the same way; only a connection whose first request is a follower's belongs to
a link. What is held back arrives once the link is whole again, as it does over a network that was parted.
"""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress

FOLLOWER = b"follower-"
HEADER_BYTES = 14
"""Size, API key and version, correlation id, and the length of the client id that follows."""
CHUNK_BYTES = 256 * 1024
POLL_SECONDS = 0.02


class Links:
    """Which broker's bytes do not reach which other one just now. Any thread."""

    def __init__(self) -> None:
        self._cut: set[tuple[int, int]] = set()
        self._changed = threading.Condition()
        self.held_bytes = 0
        """How much has ever been held back: a cut that held nothing was none."""

    def cut(self, source: int, target: int) -> None:
        """Let nothing that `source` sends reach `target`."""
        with self._changed:
            self._cut.add((source, target))

    def heal(self) -> None:
        """Let everything arrive."""
        with self._changed:
            self._cut.clear()
            self._changed.notify_all()

    def pass_through(self, source: int | None, target: int | None, size: int) -> None:
        """Return once so many bytes may arrive; None is a client, from whom nothing is held back."""
        if source is None or target is None:
            return
        with self._changed:
            if (source, target) in self._cut:
                self.held_bytes += size
                self._changed.wait_for(lambda: (source, target) not in self._cut)


class Proxy:
    """What others connect to instead of a broker; where that does not listen, nor does this."""

    def __init__(self, node_id: int, upstream: tuple[str, int], links: Links) -> None:
        self._node_id = node_id
        self._upstream = upstream
        self._links = links
        self._ended = False
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.address: tuple[str, int] = free.getsockname()
        self._listener: socket.socket | None = None  # Who listens before the broker does passes it for dead.
        threading.Thread(target=self._serve, daemon=True, name=f"proxy {node_id}").start()

    def close(self) -> None:
        """Listen no more; connections end with the processes."""
        self._ended = True
        self._refuse()

    def _refuse(self) -> None:
        listener, self._listener = self._listener, None
        if listener is not None:
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)  # It wakes who accepts.
            listener.close()

    def _serve(self) -> None:
        while not self._ended:
            listener = self._listener
            if listener is None:
                self._listen_once_the_broker_does()
                continue
            try:
                near, _ = listener.accept()
            except OSError:
                continue
            try:
                far = socket.create_connection(self._upstream)
            except OSError:
                near.close()
                self._refuse()
            else:
                for sock in (near, far):
                    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                _Connection(self._node_id, near, far, self._links).start()

    def _listen_once_the_broker_does(self) -> None:
        try:
            socket.create_connection(self._upstream).close()
            self._listener = socket.create_server(self.address)
        except OSError:
            time.sleep(POLL_SECONDS)


class _Connection:
    """One connection through a proxy, a thread each way."""

    def __init__(self, target: int, near: socket.socket, far: socket.socket, links: Links) -> None:
        self._target = target
        self._source: int | None = None
        self._near, self._far = near, far
        self._links = links

    def start(self) -> None:
        """Carry bytes from now on."""
        threading.Thread(target=self._requests, daemon=True).start()
        threading.Thread(target=self._answers, daemon=True).start()

    def _requests(self) -> None:
        first: bytes | None = b""
        try:
            while data := self._near.recv(CHUNK_BYTES):
                if first is not None:
                    first += data
                    if len(first) >= HEADER_BYTES:
                        self._source = source_of(first)
                        data, first = first, None
                    else:
                        continue
                self._links.pass_through(self._source, self._target, len(data))
                self._far.sendall(data)
        except OSError:
            pass
        finally:
            _end(self._near, self._far)

    def _answers(self) -> None:
        try:
            while data := self._far.recv(CHUNK_BYTES):
                self._links.pass_through(self._target, self._source, len(data))
                self._near.sendall(data)
        except OSError:
            pass
        finally:
            _end(self._near, self._far)


def source_of(request: bytes) -> int | None:
    """Return the broker that sends this request to fetch from another, None where it is a client's."""
    client_id = request[HEADER_BYTES : HEADER_BYTES + int.from_bytes(request[12:14], "big", signed=True)]
    return int(client_id.removeprefix(FOLLOWER)) if client_id.startswith(FOLLOWER) else None


def _end(*socks: socket.socket) -> None:
    for sock in socks:
        with suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)
        sock.close()
