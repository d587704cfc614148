"""One HTTP/1.1 connection: requests one after the other, each answered by an ASGI application.

h11 knows the protocol; here are the socket and the deadlines. There is no HTTP/2: one connection would be
many, without a deadline.
"""

from contextlib import suppress
from email.utils import formatdate
from urllib.parse import unquote

import h11
import trio
from starlette.types import ASGIApp, Message, Scope

from kohort.broker.http.encrypted import Encrypted

HEADER_SECONDS = 10.0
"""So long a client may be silent or take over its headers, also between two requests of one connection."""
REQUEST_SECONDS = 60.0
"""So long a request may take, from its headers until its answer has been read."""
HEADER_BYTES_MAX = 16 * 1024
RECEIVE_BYTES = 16 * 1024
LINGER_SECONDS = 1.0
"""So long what a refused client still sends is thrown away: closing at once would take the answer with it."""
VERSIONS = (b"1.0", b"1.1")
CONVERSATION = "kohort.conversation"
"""In a scope: the conversation that the request belongs to."""

_OURS = (h11.IDLE, h11.SEND_RESPONSE)
"""States in which an answer may still begin."""


class Conversation:
    """Serves one connection under a deadline that moves with each request."""

    def __init__(
        self,
        app: ASGIApp,
        stream: trio.SocketStream | Encrypted,
        host: str = "",
        *,
        may_ask_health_alone: bool = False,
    ) -> None:
        """Serve what comes by `stream` from `host`."""
        self._app = app
        self._stream = stream
        self.host = host
        self.may_ask_health_alone = may_ask_health_alone
        """Whether it has one of the places that are kept for those who ask whether the broker is well."""
        self.began = trio.current_time()
        self.is_guessing = False
        """Whether the last secret that it has shown was wrong."""
        self.waits_since: float | None = trio.current_time()
        """Since when nothing is asked; None while something is answered."""
        self._protocol = h11.Connection(h11.SERVER, max_incomplete_event_size=HEADER_BYTES_MAX)
        self._patience = trio.CancelScope()

    async def run(self) -> None:
        """Return once the client has closed, or has taken too long."""
        with self._patience, suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            try:
                while await self._serve_one():
                    self._protocol.start_next_cycle()
            except h11.RemoteProtocolError as error:
                await self._refuse(error.error_status_hint)
                await self._linger()

    async def _serve_one(self) -> bool:
        """Answer the next request; return whether another one may follow."""
        self.waits_since = trio.current_time()
        self._patience.deadline = self.waits_since + HEADER_SECONDS
        request = await self._next_event()
        self.waits_since = None
        if not isinstance(request, h11.Request):
            return False  # The client has closed.
        self._patience.deadline = trio.current_time() + REQUEST_SECONDS
        if request.http_version not in VERSIONS:
            await self._refuse(505)
            return False
        answer = _Answer(self._protocol, self._stream, is_head=request.method == b"HEAD")
        await self._app({**_scope(request), CONVERSATION: self}, self._receive, answer.send)
        while self._protocol.their_state is h11.SEND_BODY:  # What has come and was not asked for.
            if self._protocol.next_event() is h11.NEED_DATA:
                return False
        return self._protocol.our_state is h11.DONE and self._protocol.their_state is h11.DONE

    async def _next_event(self) -> object:
        """Return the next of h11's events, once what it takes has come."""
        while (event := self._protocol.next_event()) is h11.NEED_DATA:
            if self._protocol.they_are_waiting_for_100_continue:
                proceed = h11.InformationalResponse(status_code=100, headers=[])
                await self._stream.send_all(self._protocol.send(proceed) or b"")
            self._protocol.receive_data(bytes(await self._stream.receive_some(RECEIVE_BYTES)))
        return event

    async def _receive(self) -> Message:
        """Return the next part of the body; behind its end there is nothing but that the client goes."""
        if self._protocol.their_state is not h11.SEND_BODY:
            return await self._gone()
        event = await self._next_event()
        if isinstance(event, h11.Data):
            return {"type": "http.request", "body": bytes(event.data), "more_body": True}
        if isinstance(event, h11.EndOfMessage):
            return {"type": "http.request", "body": b"", "more_body": False}
        return {"type": "http.disconnect"}

    async def _gone(self) -> Message:
        """Return once the client has closed; what it says before is its next request, and is kept for it."""
        kept = 0
        with suppress(trio.BrokenResourceError):
            while data := await self._stream.receive_some(RECEIVE_BYTES):
                self._protocol.receive_data(bytes(data))
                kept += len(data)
                if kept >= HEADER_BYTES_MAX:
                    await trio.sleep_forever()
            self._protocol.receive_data(b"")
        return {"type": "http.disconnect"}

    async def _refuse(self, status: int) -> None:
        """Answer what is no HTTP, if an answer can still begin."""
        if self._protocol.our_state in _OURS:
            headers = [("content-length", "0"), ("connection", "close"), ("date", formatdate(usegmt=True))]
            await self._stream.send_all(
                self._protocol.send(h11.Response(status_code=status, headers=headers)) or b""
            )

    def evict(self) -> None:
        """End at once, for somebody who may have something to ask."""
        self._patience.cancel()

    async def _linger(self) -> None:
        if isinstance(self._stream, Encrypted):
            return  # It cannot be ended in one direction alone.
        self._patience.deadline = trio.current_time() + LINGER_SECONDS
        await self._stream.send_eof()
        while await self._stream.receive_some(RECEIVE_BYTES):
            continue


class _Answer:
    """What an application says to one request."""

    def __init__(
        self, protocol: h11.Connection, stream: trio.SocketStream | Encrypted, *, is_head: bool
    ) -> None:
        self._protocol = protocol
        self._stream = stream
        self._is_head = is_head

    async def send(self, message: Message) -> None:
        """Send a message of the application. Raises: trio.BrokenResourceError when the client is gone."""
        if message["type"] == "http.response.start":
            headers = [*message.get("headers", ()), (b"date", formatdate(usegmt=True).encode())]
            await self._write(h11.Response(status_code=message["status"], headers=headers))
        elif message["type"] == "http.response.body":
            body = message.get("body", b"")
            if body and not self._is_head:
                await self._write(h11.Data(data=body))
            if not message.get("more_body", False):
                await self._write(h11.EndOfMessage())

    async def _write(self, event: h11.Event) -> None:
        for piece in self._protocol.send_with_data_passthrough(event) or ():
            await self._stream.send_all(piece)


def _scope(request: h11.Request) -> Scope:
    """Return what an application is told of a request."""
    path, _, query = request.target.partition(b"?")
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": request.http_version.decode(),
        "method": request.method.decode(),
        "scheme": "http",
        "path": unquote(path.decode("latin-1")),
        "raw_path": path,
        "query_string": query,
        "root_path": "",
        "headers": list(request.headers),
        "client": None,
        "server": None,
    }
