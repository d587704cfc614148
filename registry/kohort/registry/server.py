"""The registry over HTTP, on the connections that the broker's own pages are served by."""

import logging
import socket
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import anyio
import msgspec
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from kohort.broker.http.connections import Connections
from kohort.broker.http.conversation import CONVERSATION
from kohort.broker.http.guard import GUESS_SECONDS, WHO, AllowedHosts, SecretCheck
from kohort.client.config import ClientOptions
from kohort.registry.errors import RegistryError
from kohort.registry.log import SchemaLog
from kohort.registry.records import TOPIC
from kohort.registry.routes import Call, Routes
from kohort.registry.state import State
from kohort.registry.views import Text

if TYPE_CHECKING:
    from kohort.broker.http.security import HttpSecurity

logger = logging.getLogger(__name__)

MEDIA_TYPE = "application/vnd.schemaregistry.v1+json"
BODY_BYTES_MAX = 2 * 1024 * 1024
"""The largest body of a request: a schema in JSON, which may have every character escaped."""
CLOSE_SECONDS = 5.0
REQUESTS_MAX = 64
"""In flight at once in all connections."""


class App:
    """Answers requests of Confluent's REST API, as an ASGI application."""

    def __init__(self, log: SchemaLog, routes: Routes, hosts: AllowedHosts, secrets: SecretCheck) -> None:
        self._log = log
        self._routes = routes
        self._hosts = hosts
        self._secrets = secrets
        self._in_flight = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        assert scope["type"] == "http"
        self._in_flight += 1
        try:
            response = await self._response(scope, receive)
            await response(scope, receive, send)
        finally:
            self._in_flight -= 1

    async def _response(self, scope: Scope, receive: Receive) -> Response:
        try:
            self._check(scope)
            if not self._secrets.admits(Headers(scope=scope).get("authorization"), scope[CONVERSATION]):
                return await _not_known(scope)
            body = await _body(Headers(scope=scope), receive)
            call = Call(scope["method"], scope["raw_path"], scope["query_string"], body)
            return _answer(200, await self._answer(call))
        except RegistryError as error:
            return _answer(error.status, {"error_code": error.code, "message": error.message})
        except Exception:  # The supervisor of one request.
            logger.exception("a request failed: %s %s", scope["method"], scope["path"])
            return _answer(500, {"error_code": 500, "message": "Internal Server Error"})

    async def _answer(self, call: Call) -> Any:
        request = partial(self._routes.answer, call)
        if self._routes.is_of_id(call):
            try:
                return request().answer
            except RegistryError:
                pass  # Another registry may have given it just now.
        return await self._log.carry_out(request)

    def _check(self, scope: Scope) -> None:
        """Return if a request may be answered. Raises: RegistryError."""
        headers = Headers(scope=scope)
        host = headers.get("host")
        if not self._hosts.allows(host):
            raise RegistryError(
                421, 421, f"the registry does not go by the name {host}: allow it by --allow-host"
            )
        if scope["method"] == "POST" and "origin" in headers and not _is_json(headers):
            # A browser sends this for a page of any site, without asking whether it may.
            raise RegistryError(403, 403, "a page of a browser sends its body as application/json")
        if self._in_flight > REQUESTS_MAX or scope[CONVERSATION].may_ask_health_alone:
            raise RegistryError(503, 503, "too many requests are in flight")


async def _not_known(scope: Scope) -> Response:
    """Return the refusal of a request without a right secret; a wrong one is refused in a while."""
    if scope[CONVERSATION].is_guessing:
        await anyio.sleep(GUESS_SECONDS)
    return _answer(401, {"error_code": 401, "message": "Unauthorized"}, WHO)


def _is_json(headers: Headers) -> bool:
    media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    return media_type.startswith("application/") and media_type.endswith("json")


async def _body(headers: Headers, receive: Receive) -> bytes:
    """Return the body of a request. Raises: RegistryError for one that is too large."""
    if headers.get("content-length", "0") == "0" and "transfer-encoding" not in headers:
        return b""
    found = bytearray()
    while True:
        message = await receive()
        found += message.get("body", b"")
        if len(found) > BODY_BYTES_MAX:
            raise RegistryError(413, 413, f"a body may have {BODY_BYTES_MAX} bytes")
        if not message.get("more_body", False):
            return bytes(found)


def _answer(status: int, content: Any, more: Mapping[str, str] = MappingProxyType({})) -> Response:
    body = content.encode() if isinstance(content, Text) else msgspec.json.encode(content)
    headers = {"cache-control": "no-store", "x-content-type-options": "nosniff", **more}
    return Response(body, status, headers=headers, media_type=MEDIA_TYPE)


async def serve_registry(
    sock: socket.socket,
    options: ClientOptions,
    hosts: Iterable[str] = (),
    topic: str = TOPIC,
    *,
    security: "HttpSecurity | None" = None,
    ready: Callable[[], None] = lambda: None,
) -> None:
    """Serve on a listening socket until cancelled. `sock` belongs to this function from now on.

    `hosts` are names by which clients may call the registry, beside `localhost` and any IP address.
    `security` says how connections are encrypted and which secrets are right; the caller reloads its files.
    `ready` is called when the topic has been read; requests that come before wait for that.
    Raises: KohortError where the topic cannot be made or read at first.
    """
    with sock:
        sock.setblocking(False)
        state = State()
        log = SchemaLog(state, options, topic)
        try:
            await log.open()
            ready()
            app = App(log, Routes(state, log.cluster_id), AllowedHosts(hosts), _secrets(security))
            await Connections(app, security).serve(sock.dup())
        finally:
            with anyio.CancelScope(shield=True), anyio.move_on_after(CLOSE_SECONDS):
                await log.close()


def _secrets(security: "HttpSecurity | None") -> SecretCheck:
    if security is None:
        return SecretCheck(None)
    return SecretCheck(security.knows, lock_out_max_ms=security.lock_out_max_ms, listener="schema-registry")
