"""`kohort serve --ephemeral --control HOST:PORT`: a test's broker that any language controls over HTTP."""

import json
import signal
import socket
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import FrameType
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec

from kohort.broker.config import ConfigError
from kohort.broker.http.guard import host_of
from kohort.broker.transport.addresses import Address
from kohort.protocol.errors import ApiError
from kohort.testing.broker import Broker
from kohort.testing.control_routes import NotFound, Routes
from kohort.testing.errors import BrokerFailed, NotInTime

BODY_BYTES_MAX = 1024 * 1024
WRONG = (ValueError, msgspec.ValidationError, msgspec.DecodeError, ConfigError, ApiError, BrokerFailed)


def serve_controlled(
    settings: dict[str, str], kafka: Address, http: Address, control: Address, registry: Address | None
) -> None:
    """Serve until SIGTERM, SIGINT or SIGHUP. Raises: ConfigError, StorageError, OSError."""
    stop = threading.Event()

    def end(number: int, frame: FrameType | None) -> None:
        stop.set()

    for each in ("SIGTERM", "SIGINT", "SIGHUP"):
        if hasattr(signal, each) and signal.getsignal(getattr(signal, each)) is not signal.SIG_IGN:
            signal.signal(getattr(signal, each), end)
    broker = Broker(settings, http=True, schema_registry=registry is not None)
    core = broker._core
    core.kafka, core.http, core.registry = kafka, http, registry
    with broker, ControlServer(broker, control) as server:
        more = "" if registry is None else f" schema-registry={core.registry}"
        addresses = f"kafka={core.kafka} http={core.http}{more} control={server.address}"
        sys.stdout.write(f"kohort ready {addresses} data={core.folder}\n")
        sys.stdout.flush()
        stop.wait()


class ControlServer:
    """Serves the control port of a broker within its `with` block, each request in a thread of its own."""

    def __init__(self, broker: Broker, address: Address) -> None:
        """Listen. Raises: OSError."""
        self._routes = Routes(broker)
        routes = self._routes

        class Handler(ControlHandler):
            def answer(self, method: str, path: list[str], query: dict[str, str], body: bytes) -> object:
                return routes.answer(method, path, query, body)

        self._server = _Server(address, Handler)
        host, port = self._server.server_address[:2]
        self.address = Address(str(host), int(port))
        self._thread = threading.Thread(target=self._server.serve_forever, name="kohort-control", daemon=True)

    def __enter__(self) -> "ControlServer":
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        self._routes.close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: Address, handler: type[BaseHTTPRequestHandler]) -> None:
        self.address_family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        super().__init__((address.host, address.port), handler)


class ControlHandler(BaseHTTPRequestHandler):
    """One connection of the control port."""

    protocol_version = "HTTP/1.1"

    def answer(self, method: str, path: list[str], query: dict[str, str], body: bytes) -> object:
        """Return the answer to a request: text, or what JSON can express."""
        raise NotImplementedError

    def do_GET(self) -> None:
        """Answer."""
        self._handle("GET")

    def do_POST(self) -> None:
        """Answer."""
        self._handle("POST")

    def do_DELETE(self) -> None:
        """Answer."""
        self._handle("DELETE")

    def log_message(self, format: str, *args: object) -> None:
        """Write nothing."""

    def _handle(self, method: str) -> None:
        length = self.headers.get("Content-Length") or "0"
        if self.headers.get("Transfer-Encoding") is not None or not (length.isascii() and length.isdecimal()):
            self.close_connection = True
            self._send(411, {"error": "send the body with its Content-Length, not in chunks"})
            return
        if int(length) > BODY_BYTES_MAX:
            self.close_connection = True
            self._send(413, {"error": f"a body has at most {BODY_BYTES_MAX} bytes"})
            return
        body = self.rfile.read(int(length))
        if self.headers.get("Origin") is not None or not self._is_own_host():
            self._send(403, {"error": "pages of a browser may not control the broker"})
            return
        try:
            url = urlsplit(self.path)
            path = [unquote(each) for each in url.path.split("/") if each]
            self._send(200, self.answer(method, path, dict(parse_qsl(url.query)), body))
        except NotFound as error:
            self._send(404, {"error": str(error)})
        except NotInTime as error:
            self._send(409, {"error": str(error)})
        except WRONG as error:
            self._send(400, {"error": str(error)})
        except Exception as error:  # noqa: BLE001  # A supervisor: each request gets an answer.
            self._send(500, {"error": f"{type(error).__name__}: {error}"})

    def _is_own_host(self) -> bool:
        """Whether the request names an address of this machine, and no name that a page has chosen."""
        named = host_of(self.headers.get("Host") or "localhost").lower()
        return named in {"localhost", "127.0.0.1", "::1", self.connection.getsockname()[0]}

    def _send(self, status: int, answer: object) -> None:
        is_text = isinstance(answer, str)
        body = answer.encode() if isinstance(answer, str) else json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/plain; charset=utf-8" if is_text else "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
