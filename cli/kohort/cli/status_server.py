"""HTTP of the long-running commands: a few pages that say how the process is, in threads of its own."""

import socket
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import MappingProxyType
from typing import NamedTuple

import click

from kohort.broker.http.guard import HEADERS, AllowedHosts
from kohort.client.addresses import parse_address
from kohort.client.errors import ConfigurationError

CONNECTIONS_MAX = 16
"""At once, a thread for each; more are closed."""
CONNECTION_SECONDS_MAX = 15.0
"""How long a connection lasts, however slowly it is spoken on."""


class Page(NamedTuple):
    """An answer: its status, its content type, its body, and headers that replace the usual ones."""

    status: int
    content_type: str
    body: bytes
    headers: Mapping[str, str] = MappingProxyType({})


NOT_FOUND = Page(404, "text/plain", b"not found\n")
MISDIRECTED = Page(421, "text/plain", b"this server does not answer to that host name\n")


class StatusServer(ThreadingHTTPServer):
    """Answers GET by a function of the path, for whoever asks by an address or a name of this machine."""

    daemon_threads = True

    def __init__(self, http: str, page: Callable[[str], Page]) -> None:
        """Serve at HOST:PORT. Raises: click.UsageError for no address, OSError where it is taken."""
        try:
            host, port = parse_address(http)
        except ConfigurationError as error:
            raise click.UsageError(f"--http: {error}") from None
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._free = threading.BoundedSemaphore(CONNECTIONS_MAX)
        super().__init__((host, port), _handler(page, AllowedHosts((host, socket.gethostname()))))
        threading.Thread(target=self.serve_forever, name="kohort-http", daemon=True).start()

    def close(self) -> None:
        """Answer nobody any more."""
        self.shutdown()
        self.server_close()

    def process_request(self, request: object, client_address: object) -> None:
        """Give a connection a thread, or close it where there are too many."""
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)  # type: ignore[arg-type]  # As socketserver has it.
        else:
            self.shutdown_request(request)  # type: ignore[arg-type]  # As socketserver has it.

    def process_request_thread(self, request: object, client_address: object) -> None:
        """Answer one connection, which is cut where it lasts too long."""
        cut = threading.Timer(CONNECTION_SECONDS_MAX, self.shutdown_request, (request,))
        cut.daemon = True
        cut.start()
        try:
            super().process_request_thread(request, client_address)  # type: ignore[arg-type]  # As above.
        finally:
            cut.cancel()
            self._free.release()

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of a connection that broke or was cut."""


def _handler(page: Callable[[str], Page], hosts: AllowedHosts) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer = page(self.path) if hosts.allows(self.headers.get("host")) else MISDIRECTED
            self.send_response(answer.status)
            for name, value in {**HEADERS, **answer.headers}.items():
                self.send_header(name, value)
            self.send_header("content-type", answer.content_type)
            self.send_header("content-length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body)

        def log_message(self, format: str, *args: object) -> None:
            """Log nothing."""

    return Handler
