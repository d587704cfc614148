"""What every request passes before a page sees it, and what every answer bears.

A page in a browser may have its own name point at this machine (DNS rebinding) and then read what it
likes: so a request is answered only where its Host header bears a name that the broker goes by. An IP
address cannot be rebound.
"""

from collections.abc import Callable, Iterable, Mapping
from ipaddress import ip_address

import msgspec
import structlog
import trio
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kohort.broker.http.conversation import CONVERSATION, Conversation
from kohort.broker.http.credentials import Credentials
from kohort.broker.runtime.lock_out import LockOut

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
WHO = {"www-authenticate": 'Basic realm="kohort", charset="UTF-8", Bearer realm="kohort"'}
OPEN_PATHS = frozenset(("/health/live", "/health/ready"))
"""What whoever starts and stops brokers may ask without a secret; then it hears no reasons."""
KNOWN = "kohort.known"
"""In a scope: whether who asks may know more than that."""
GUESS_SECONDS = 0.1
"""So long who shows a wrong secret waits for the answer: on a few connections that makes few guesses."""
LINE_SECONDS = 10.0

USER = "kohort.user"
"""In a scope: whose secret was shown; empty where none is asked for."""

Knows = Callable[[str | None], bool]
"""Whether an Authorization header is good enough."""

log = structlog.get_logger("kohort.http")


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


class SecretCheck:
    """Decides whether a request has a valid secret. After too many wrong secrets a client is locked out."""

    def __init__(self, knows: Knows | None, *, lock_out_max_ms: int = 0, listener: str = "http") -> None:
        """`knows` tells whether a secret is valid; if it is None, every request is admitted.

        A lock-out lasts `lock_out_max_ms` at most. `listener` names the port in the log.
        """
        self._knows = knows
        self._lock_out = LockOut()
        self._lock_out_max_ms = lock_out_max_ms
        self._listener = listener
        self._refused = 0
        self._said_at = float("-inf")

    def admits(self, header: str | None, conversation: Conversation) -> bool:
        """Return whether an Authorization header has a valid secret, and count it if it has a wrong one."""
        known = self._knows is None or self._is_known(self._knows, header, conversation.host)
        conversation.is_guessing = not known and header is not None
        if conversation.is_guessing:
            self._note_guess()
        return known

    def _is_known(self, knows: Knows, header: str | None, host: str) -> bool:
        """Return whether a secret is valid. While a client is locked out, no secret is."""
        if header is None:
            return False
        now_ms, who = int(trio.current_time() * 1000), Credentials.claimed(header)
        if self._lock_out.wait_ms(host, who, now_ms, longest_ms=self._lock_out_max_ms):
            return False
        is_right = knows(header)
        if is_right:
            self._lock_out.succeeded(host, who)
        else:
            self._lock_out.failed(host, who, now_ms)
        return is_right

    def _note_guess(self) -> None:
        """Log wrong secrets, several in one line."""
        self._refused += 1
        now = trio.current_time()
        if now - self._said_at >= LINE_SECONDS:
            log.warning("authentication failed", listener=self._listener, count=self._refused)
            self._refused, self._said_at = 0, now


class Guard:
    """An ASGI application that lets another one answer what may be answered."""

    def __init__(
        self,
        app: ASGIApp,
        hosts: AllowedHosts,
        knows: Knows | None = None,
        *,
        lock_out_max_ms: int = 0,
        name_of: Callable[[str], str] = lambda _: "",
    ) -> None:
        """`app` answers the requests whose secret `knows` accepts."""
        self._name_of = name_of
        self._secrets = SecretCheck(knows, lock_out_max_ms=lock_out_max_ms)
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

        answer = self._refusal(scope) or self._stranger(scope) or self._app
        self._in_flight += 1
        try:
            await answer(scope, receive, send_with_headers)
        finally:
            self._in_flight -= 1

    def _stranger(self, scope: Scope) -> ASGIApp | None:
        """Return what answers one that shows no secret, or None where it may see the page."""
        header = Headers(scope=scope).get("authorization")
        scope[KNOWN] = self._secrets.admits(header, scope[CONVERSATION])
        scope[USER] = self._name_of(header) if header is not None and scope[KNOWN] else ""
        if scope[KNOWN] or (header is None and scope["path"] in OPEN_PATHS):
            return None
        if header is None:
            return _not_known()
        return _not_known_in_a_while

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
        if scope[CONVERSATION].may_ask_health_alone and scope["path"] not in OPEN_PATHS:
            return error_response(503, "too many connections")
        if self._in_flight >= REQUESTS_MAX and scope["path"] not in OPEN_PATHS:
            return error_response(503, "too many requests are in flight")
        return None


def _has_small_body(headers: Headers) -> bool:
    """Return whether the body is short, and says so before it comes."""
    length = headers.get("content-length", "0")
    return "transfer-encoding" not in headers and length.isdecimal() and int(length) <= BODY_BYTES_MAX


def _not_known() -> Response:
    return error_response(401, "show a secret of kohort.http.credentials.file, by Basic or as Bearer", WHO)


async def _not_known_in_a_while(scope: Scope, receive: Receive, send: Send) -> None:
    await trio.sleep(GUESS_SECONDS)
    await _not_known()(scope, receive, send)


def error_response(status: int, error: str, headers: Mapping[str, str] | None = None) -> Response:
    """Return an error as JSON."""
    body = msgspec.json.encode({"error": error})
    return Response(body, status, headers=headers, media_type="application/json")
