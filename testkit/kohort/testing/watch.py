"""Between the broker's transport and those who answer: looks on, and does what the test has ordered."""

import itertools
import threading
from collections import deque
from collections.abc import Awaitable
from functools import partial
from inspect import isawaitable
from typing import TypeVar, cast

import msgspec

from kohort.broker.broker import Broker
from kohort.broker.handlers.wrapping import WrappedRequest
from kohort.broker.transport.dispatch import Dispatch, Handle
from kohort.broker.transport.request import Request
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.fetch import FetchRequest
from kohort.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kohort.protocol.registry import APIS, BY_NAME
from kohort.protocol.schema import Message
from kohort.testing.clock import MovableClock
from kohort.testing.faults import Fault, Faults
from kohort.testing.refusing import SESSION_ERRORS, refuse
from kohort.testing.requests import SeenRequest, plain
from kohort.testing.tearing import TornRequest

REQUESTS_KEPT = 10_000
METADATA = BY_NAME["Metadata"].api_key
M = TypeVar("M", bound=Message)
Answer = Message | Awaitable[Message | None] | None


class Watch:
    """What was seen of a broker's requests, over all its restarts. The loop's thread only, unless said."""

    def __init__(self, clock: MovableClock) -> None:
        self.requests: deque[SeenRequest] = deque(maxlen=REQUESTS_KEPT)
        self.faults = Faults()
        self.changed = threading.Condition()
        self._clock = clock
        self._numbers = itertools.count()
        self._broker: Broker | None = None
        self._clients: dict[int, tuple[Request, str]] = {}  # The last request of each connection.

    def attach(self, broker: Broker) -> None:
        """Look on at this broker from now on, which has just been made."""
        self._broker = broker
        self._clients.clear()

    def between(self, answering: Dispatch) -> Dispatch:
        """Return what stands between the transport and `answering`."""
        return WatchedDispatch(answering, self)

    def wait_for_change(self, seconds: float) -> None:
        """Return when something has happened, or after so many seconds. Any thread."""
        with self.changed:
            self.changed.wait(seconds)

    def tell(self) -> None:
        """Wake whoever waits for something to happen."""
        with self.changed:
            self.changed.notify_all()

    def note(self, request: Request, message: Message) -> SeenRequest:
        """Return the entry for a request that has come."""
        name = request.api.name
        kept = None if name == "Produce" else message
        seen = SeenRequest(
            name, request.version, request.client_id or "", self._clock.wall_ms() / 1_000, kept
        )
        self.requests.append(seen)
        connection = request.connection
        key = id(connection)
        if key not in self._clients:
            connection.on_close.append(partial(self._forget, key))
        self._clients[key] = (request, seen.client_id)
        self.tell()
        return seen

    def _forget(self, key: int) -> None:
        self._clients.pop(key, None)

    def drop_connections(self, client_id: str | None) -> int:
        """Close the connections of one client or of all; return how many there were."""
        chosen = [
            request for request, name in self._clients.values() if client_id is None or name == client_id
        ]
        for request in chosen:
            request.hang_up()
        return len(chosen)

    def later(self, seconds: float, request: Request, begin: "partial[Answer]") -> None:
        """Have `begin` answer the request when so much of the broker's time has passed."""
        assert self._broker is not None
        key = ("delayed by a test", next(self._numbers))
        due_ms = self._clock.now_ms() + round(seconds * 1_000)
        self._broker.timers.set(key, due_ms, partial(self._begin, request, begin))

    def _begin(self, request: Request, begin: "partial[Answer]") -> None:
        assert self._broker is not None
        answer = begin()
        if answer is None:
            return
        if isawaitable(answer):
            self._broker.workers.spawn(_respond, request, answer)
        else:
            request.respond(answer)


async def _respond(request: Request, answer: Awaitable[Message | None]) -> None:
    found = await answer
    if found is not None:
        request.respond(found)


class WatchedDispatch:
    """Finds who answers, and looks on."""

    def __init__(self, answering: Dispatch, watch: Watch) -> None:
        self._answering = answering
        self._watch = watch

    def handler_of(self, api_key: int) -> Handle:
        """Return the function that answers the API."""
        return partial(self._handle, self._answering.handler_of(api_key))

    def _handle(self, handle: Handle, message: Message, request: Request) -> Answer:
        seen = self._watch.note(request, message)
        delay = self._watch.faults.take(seen, delays=True)
        go_on = partial(self._answer, handle, message, request, seen)
        if delay is None:
            return go_on()
        assert delay.seconds is not None
        self._watch.later(delay.seconds, request, go_on)
        return None

    def _answer(self, handle: Handle, message: Message, request: Request, seen: SeenRequest) -> Answer:
        faults = self._watch.faults
        fault = faults.failure_for(seen)
        if fault is None or _asks_for_brokers_alone(message, request.version):
            return self._pass_on(handle, message, request, seen)
        if _is_incremental(message) and fault.code is not None and fault.code not in SESSION_ERRORS:
            # It names no partition that could fail: the client is made to send a full one.
            return self._say(seen, refuse(APIS[1].response, message, SESSION_ERRORS[0], request.version))
        faults.take(seen, delays=False)
        return self._fail(fault, handle, message, request, seen)

    def _fail(
        self, fault: Fault, handle: Handle, message: Message, request: Request, seen: SeenRequest
    ) -> Answer:
        if fault.is_torn:
            return self._pass_on(handle, message, TornRequest(request), seen)
        if fault.code is None or getattr(message, "acks", None) == 0:
            request.hang_up()
            return None
        if request.api.api_key == METADATA:
            answer = handle(message, request)
            if isawaitable(answer):
                return self._note_later(_failing(fault.code, answer), seen)
            return self._say(seen, _fail_topics(fault.code, answer))
        return self._say(seen, refuse(request.api.response, message, fault.code, request.version))

    def _pass_on(self, handle: Handle, message: Message, request: Request, seen: SeenRequest) -> Answer:
        answer = handle(message, WatchedRequest(request, seen, self._watch))
        if answer is None:
            return None
        if isawaitable(answer):
            return self._note_later(answer, seen, request)
        return self._say(seen, answer, request)

    async def _note_later(
        self, answer: Awaitable[Message | None], seen: SeenRequest, request: Request | None = None
    ) -> Message | None:
        found = await answer
        return None if found is None else self._say(seen, found, request)

    def _say(self, seen: SeenRequest, answer: Message, request: Request | None = None) -> Message:
        seen.answered(answer)
        if isinstance(request, TornRequest):
            request.respond(answer)  # The transport drops what it is given afterwards.
        self._watch.tell()
        return answer


class WatchedRequest(WrappedRequest):
    """A request whose answer is looked at on its way."""

    __slots__ = ("_seen", "_watch")

    def __init__(self, request: Request, seen: SeenRequest, watch: Watch) -> None:
        super().__init__(request)
        self._seen = seen
        self._watch = watch

    def respond(self, message: Message) -> None:
        """Answer the request."""
        self._seen.answered(message)
        super().respond(message)
        self._watch.tell()


def _is_incremental(message: Message) -> bool:
    """Whether a fetch goes on in a session, so that it need not name what it reads."""
    return isinstance(message, FetchRequest) and message.session_id > 0 and message.session_epoch > 0


def _asks_for_brokers_alone(message: Message, version: int) -> bool:
    """Whether a metadata request names no topic that could fail."""
    return isinstance(message, MetadataRequest) and version > 0 and message.topics == ()


async def _failing(code: ErrorCode, answer: Awaitable[Message | None]) -> Message:
    return _fail_topics(code, await answer)


def _fail_topics(code: ErrorCode, found: object) -> MetadataResponse:
    """Return the answer with every topic in it failed; the brokers are those that there are."""
    answer = plain(found)
    assert isinstance(answer, MetadataResponse)
    failed = tuple(_replaced(each, error_code=code, partitions=()) for each in answer.topics)
    return _replaced(answer, topics=failed)


def _replaced(message: M, **values: object) -> M:
    """Return the message with other values. Type checkers do not see that it is a struct of msgspec's."""
    return cast(M, msgspec.structs.replace(cast(msgspec.Struct, message), **values))
