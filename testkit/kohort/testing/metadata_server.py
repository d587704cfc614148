"""A server in memory with etcd's JSON API, for the metadata of a test's cluster."""

import select
import socket
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

import msgspec

from kohort.broker.etcd.messages import Json
from kohort.testing.etcd_gateway import HTTP_OK, answered, created, watched
from kohort.testing.etcd_store import EtcdStore

TICK_SECONDS = 0.05  # Leases may end so late, and watches of closed connections as well.


class MetadataServer:
    """The store and its server threads. It runs from its construction until `close`."""

    def __init__(self) -> None:
        self._store = EtcdStore()
        self._changed = threading.Condition()
        self._ended = False
        self._http = _Server(("127.0.0.1", 0), _Handler)
        self._http.metadata = self
        self._threads = [
            threading.Thread(
                target=self._http.serve_forever, args=(TICK_SECONDS,), name="kohort-metadata", daemon=True
            ),
            threading.Thread(target=self._expire, name="kohort-metadata-leases", daemon=True),
        ]
        for each in self._threads:
            each.start()

    @property
    def port(self) -> int:
        """The port on 127.0.0.1."""
        return int(self._http.server_address[1])

    @property
    def url(self) -> str:
        """The address for etcd clients."""
        return f"http://127.0.0.1:{self.port}"

    def close(self) -> None:
        """Stop the server."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()
        self._http.shutdown()
        self._http.server_close()
        for each in self._threads:
            each.join()

    def answer(self, path: str, form: Json) -> tuple[int, Json]:
        """Return the HTTP status and the answer of a call."""
        with self._changed:
            revision = self._store.revision
            found = answered(self._store, path, form, time.monotonic())
            if self._store.revision != revision:
                self._changed.notify_all()
        return found

    def watch(self, form: dict[str, Any], sock: socket.socket) -> Iterator[Json]:
        """Yield the responses of a watch, until its connection closes or this server ends."""
        with self._changed:
            first, goes_on = created(self._store, form)
        yield first
        while True:
            with self._changed:
                news = None
                if goes_on:
                    news, goes_on = watched(self._store, form)
                if news is None and not self._ended:
                    self._changed.wait(TICK_SECONDS)
                if self._ended:
                    return
            if news is not None:
                yield news
            elif _is_gone(sock):
                return

    def _expire(self) -> None:
        with self._changed:
            while not self._ended:
                revision = self._store.revision
                self._store.expire(time.monotonic())
                if self._store.revision != revision:
                    self._changed.notify_all()
                self._changed.wait(TICK_SECONDS)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128  # The default, 5, is too small for many brokers at once.
    block_on_close = False
    metadata: MetadataServer

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Report errors except closed connections, because tests stop brokers."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    @property
    def _metadata(self) -> MetadataServer:
        return cast(_Server, self.server).metadata

    def do_POST(self) -> None:
        """Answer a call, or stream a watch."""
        path = self.path.removeprefix("/v3/")
        size = int(self.headers["Content-Length"])
        content = self.rfile.read(size)
        if len(content) < size:  # The broker was stopped in the middle of its call.
            self.close_connection = True
            return
        form = msgspec.json.decode(content)
        if path == "watch":
            self._stream(form["create_request"])
            return
        self._answer(*self._metadata.answer(path, form))

    def _answer(self, status: int, answer: Json) -> None:
        content = msgspec.json.encode(answer)
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _stream(self, form: dict[str, Any]) -> None:
        self.close_connection = True
        self.send_response(HTTP_OK)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for message in self._metadata.watch(form, self.connection):
            line = msgspec.json.encode({"result": message}) + b"\n"
            try:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
            except OSError:
                return
        self.wfile.write(b"0\r\n\r\n")

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


def _is_gone(sock: socket.socket) -> bool:
    """Whether the client has closed the connection. It sends nothing during a watch."""
    looking = select.poll()  # `select` takes no descriptor above 1,023.
    looking.register(sock, select.POLLIN)
    try:
        return bool(looking.poll(0)) and not sock.recv(1, socket.MSG_PEEK)
    except OSError:
        return True
