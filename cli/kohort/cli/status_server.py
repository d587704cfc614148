"""HTTP of the long-running commands: a few pages that say how the process is, in threads of its own."""

import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import click

from kohort.broker.http.guard import BODY_BYTES_MAX, HEADERS, AllowedHosts
from kohort.broker.http.page_files import POLICY, page_file
from kohort.broker.http.questions import Question
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
TOO_LARGE = Page(413, "text/plain", b"a body says its length, and has at most 4 KiB\n")
MISDIRECTED = Page(421, "text/plain", b"this server does not answer to that host name\n")


def file_page(name: str, folder: Path) -> Page:
    """Return a file of a page for a browser."""
    found = page_file(name, folder)
    if found is None:
        return NOT_FOUND
    return Page(200, found.content_type, found.body, {"content-security-policy": POLICY})


class StatusServer(ThreadingHTTPServer):
    """Answers by a function of the question, for whoever asks by an address or a name of this machine."""

    daemon_threads = True
    request_queue_size = CONNECTIONS_MAX
    """How many connections may wait to be accepted. The client of one more tries again a second later."""

    def __init__(self, http: str, page: Callable[[Question], Page], *, takes_posts: bool = False) -> None:
        """Serve at HOST:PORT; `takes_posts`: not GET alone.

        Raises: click.UsageError for no address, OSError where it is taken.
        """
        try:
            host, port = parse_address(http)
        except ConfigurationError as error:
            raise click.UsageError(f"--http: {error}") from None
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._free = threading.BoundedSemaphore(CONNECTIONS_MAX)
        hosts = AllowedHosts((host, socket.gethostname()))
        super().__init__((host, port), _handler(page, hosts, takes_posts=takes_posts))
        threading.Thread(target=self.serve_forever, name="kohort-http", daemon=True).start()

    def close(self) -> None:
        """Answer nobody any more."""
        self.shutdown()
        self.server_close()

    def process_request(self, request: object, client_address: object) -> None:
        """Give a connection a thread, or close it where there are too many."""
        if self._free.acquire(blocking=False):
            try:
                super().process_request(request, client_address)  # type: ignore[arg-type]  # As socketserver has it.
            except BaseException:  # The system has no thread: `socketserver` closes the connection.
                self._free.release()
                raise
        else:
            self.shutdown_request(request)  # type: ignore[arg-type]  # As socketserver has it.

    def process_request_thread(self, request: object, client_address: object) -> None:
        """Answer one connection, which is cut where it lasts too long."""
        cut = threading.Timer(CONNECTION_SECONDS_MAX, _cut, (request,))
        cut.daemon = True
        try:
            cut.start()
            super().process_request_thread(request, client_address)  # type: ignore[arg-type]  # As above.
        finally:
            cut.cancel()
            self._free.release()

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of a connection that broke or was cut."""


def _cut(connection: socket.socket) -> None:
    """Shut a connection down: its thread, which may wait for the client, then ends and closes it."""
    with suppress(OSError):  # The connection has ended meanwhile.
        connection.shutdown(socket.SHUT_RDWR)


def _handler(
    page: Callable[[Question], Page], hosts: AllowedHosts, *, takes_posts: bool
) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(b"")

        def _post(self) -> None:
            length = self.headers.get("content-length", "")
            if not length.isdecimal() or int(length) > BODY_BYTES_MAX:
                self._send(TOO_LARGE)
            else:
                self._answer(self.rfile.read(int(length)))

        if takes_posts:
            do_POST = _post

        def _answer(self, body: bytes) -> None:
            path, _, query = self.path.partition("?")
            headers = tuple(
                (name.lower().encode("latin-1"), value.encode("latin-1", "replace"))
                for name, value in self.headers.items()
            )
            asked = Question(self.command, path, query.encode(), headers, body)
            self._send(page(asked) if hosts.allows(self.headers.get("host")) else MISDIRECTED)

        def _send(self, answer: Page) -> None:
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
