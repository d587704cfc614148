"""A service that records are pushed to: it notes each, and answers as the record's value asks.

python -m tests.queues.service PORT JOURNAL     as a process; the journal has a line for each push:
the partition, the attempt, the value
"""

from __future__ import annotations

import base64
import os
import ssl
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple


class Push(NamedTuple):
    """One POST."""

    value: str
    headers: dict[str, str]

    @property
    def key(self) -> str:
        return base64.b64decode(self.headers.get("kafka-key", "")).decode()

    @property
    def attempt(self) -> int:
        return int(self.headers["kafka-attempt"])


class HttpDouble(ThreadingHTTPServer):
    """Values are words: `ok`, `status NNN`, `fail N` (so often), `action NAME`, `delay MS`, `sleep MS`."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 200

    def __init__(self, port: int = 0, journal: Path | None = None, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self._scheme = "http" if tls is None else "https"
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_side=True)
        self.pushes: list[Push] = []
        self.running = self.running_most = 0
        self.lock = threading.Lock()
        self.times: Counter[str] = Counter()
        self.file = (
            None if journal is None else os.open(journal, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        )

    @property
    def url(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self.server_address[1]}/push"

    def values(self) -> list[str]:
        """Return the values that came, in their order."""
        return [each.value for each in self.pushes]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: HttpDouble

    def do_POST(self) -> None:
        size_bytes = int(self.headers.get("content-length") or 0)
        body = self.rfile.read(size_bytes)
        if len(body) < size_bytes:  # Whoever pushed it died in the middle.
            self.close_connection = True
            return
        value = body.decode()
        push = Push(value, {name.lower(): text for name, text in self.headers.items()})
        with self.server.lock:
            self.server.running += 1
            self.server.running_most = max(self.server.running_most, self.server.running)
            self.server.pushes.append(push)
            self.server.times[value] += 1
            times = self.server.times[value]
        if self.server.file is not None:
            line = f"{push.headers['kafka-partition']} {push.attempt} {value}\n"
            os.write(self.server.file, line.encode())
        status, headers = 200, {}
        for word in value.split(","):
            verb, _, argument = word.strip().partition(" ")
            if verb == "sleep":
                time.sleep(float(argument) / 1000)
            elif verb == "status":
                status = int(argument)
            elif verb == "fail" and times <= int(argument):
                status = 503
            elif verb == "action":
                status, headers["kafka-action"] = 422, argument
            elif verb == "delay":
                headers["kafka-retry-delay-ms"] = argument
        with self.server.lock:
            self.server.running -= 1
        self.send_response(status)
        for name, text in headers.items():
            self.send_header(name, text)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@contextmanager
def http_double(port: int = 0, tls: ssl.SSLContext | None = None) -> Iterator[HttpDouble]:
    """Serve in a thread of this process."""
    server = HttpDouble(port, tls=tls)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


if __name__ == "__main__":
    HttpDouble(int(sys.argv[1]), Path(sys.argv[2])).serve_forever()
