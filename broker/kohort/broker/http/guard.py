"""What every request passes before a page sees it, and what every answer bears.

A page in a browser may have its own name point at this machine (DNS rebinding) and then read what it
likes: so a request is answered only where its Host header bears a name that the broker goes by. An IP
address cannot be rebound.
"""

from collections.abc import Iterable
from ipaddress import ip_address

import msgspec
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

BODY_BYTES_MAX = 4 * 1024
"""The largest body of a request; no page reads any."""
REQUESTS_MAX = 64
"""In flight at once in all connections."""
ANY_HOST = "*"

NOTHING_ELSE = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
HEADERS = {
    "x-content-type-options": "nosniff",
    "cache-control": "no-store",
    "content-security-policy": NOTHING_ELSE,
    "referrer-policy": "no-referrer",
}
"""On every answer that does not say otherwise."""


class AllowedHosts:
    """The names that the broker answers to over HTTP, beside `localhost` and every IP address."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        """`names` are hosts without a port; a `*` among them allows all."""
        self._names = {_normal(name) for name in names if name} | {"localhost"}

    def allows(self, header: str | None) -> bool:
        """Return whether a Host header may be answered; HTTP/1.0 without any may, browsers send one."""
        if header is None or ANY_HOST in self._names:
            return True
        host = _normal(host_of(header))
        return host in self._names or host.endswith(".localhost") or _is_address(host)


def host_of(header: str) -> str:
    """Return the host that a Host header names, without its port and without brackets."""
    if header.startswith("["):
        return header[1:].partition("]")[0]
    return header.partition(":")[0]


def _normal(name: str) -> str:
    return name.strip().lower().removesuffix(".")


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


class Guard:
    """An ASGI application that lets another one answer what may be answered."""

    def __init__(self, app: ASGIApp, hosts: AllowedHosts) -> None:
        self._app = app
        self._hosts = hosts
        self._in_flight = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        assert scope["type"] == "http"

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(raw=message.setdefault("headers", []))
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        answer = self._refusal(scope) or self._app
        self._in_flight += 1
        try:
            await answer(scope, receive, send_with_headers)
        finally:
            self._in_flight -= 1

    def _refusal(self, scope: Scope) -> Response | None:
        """Return the answer to what no page shall see, or None."""
        headers = Headers(scope=scope)
        host = headers.get("host")
        if not self._hosts.allows(host):
            return error_response(
                421, f"this broker does not go by the name {host}: list it in kohort.http.allowed.hosts"
            )
        if headers.get("upgrade", "").lower() == "websocket":
            return error_response(403, "there is no websocket here")
        if not _has_small_body(headers):
            return error_response(413, f"a body may have at most {BODY_BYTES_MAX} bytes")
        if self._in_flight >= REQUESTS_MAX:
            return error_response(503, "too many requests are in flight")
        return None


def _has_small_body(headers: Headers) -> bool:
    """Return whether the body is short, and says so before it comes."""
    length = headers.get("content-length", "0")
    return "transfer-encoding" not in headers and length.isdecimal() and int(length) <= BODY_BYTES_MAX


def error_response(status: int, error: str) -> Response:
    """Return an error as JSON."""
    return Response(msgspec.json.encode({"error": error}), status, media_type="application/json")
