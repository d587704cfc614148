"""Records requests between the broker's transport and its handlers, and injects faults."""

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
from kohort.broker.transport.request import Origin, Request
from kohort.protocol.errors import ErrorCode
from kohort.protocol.headers import API_VERSIONS_KEY
from kohort.protocol.messages.fetch import FetchRequest
from kohort.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kohort.protocol.registry import APIS, BY_NAME
from kohort.protocol.schema import Message
from kohort.testing.api_versions import ApiLimits
from kohort.testing.clock import MovableClock
from kohort.testing.error_responses import SESSION_ERRORS, error_response
from kohort.testing.faults import Answer, Fault, Faults, PausedRequest
from kohort.testing.pauses import Pauses
from kohort.testing.recorder import Recorder
from kohort.testing.requests import SeenRequest, message_of
from kohort.testing.torn_request import TornRequest

REQUESTS_KEPT = 10_000
METADATA = BY_NAME["Metadata"].api_key
M = TypeVar("M", bound=Message)


class Watch:
    """The requests of a broker, over all its restarts. Only the loop's thread, unless said otherwise."""

    def __init__(self, clock: MovableClock, limits: ApiLimits | None = None) -> None:
        """With `limits` it refuses the requests that a broker of an older version of Kafka refuses."""
        self.limits = limits
        self.requests: deque[SeenRequest] = deque(maxlen=REQUESTS_KEPT)
        self.faults = Faults()
        self.pauses = Pauses(self.faults, clock)
        self.recorders: list[Recorder] = []
        self.changed = threading.Condition()
        self._clock = clock
        self._clients: dict[int, tuple[Request, str]] = {}  # The last request of each connection.

    def attach(self, broker: Broker) -> None:
        """Watch this new broker."""
        self.pauses.attach(broker)
        self._clients.clear()

    def detach(self) -> None:
        """Let no request wait: the broker stops."""
        self.pauses.detach()

    def wrap_dispatch(self, answering: Dispatch) -> Dispatch:
        """Return a dispatch that watches `answering`."""
        return WatchedDispatch(answering, self)

    def wait_for_change(self, seconds: float) -> None:
        """Return after the next request or response, or after `seconds`. Any thread."""
        with self.changed:
            self.changed.wait(seconds)

    def notify(self) -> None:
        """Wake the threads in `wait_for_change`."""
        with self.changed:
            self.changed.notify_all()

    def add_request(self, request: Request, message: Message) -> SeenRequest:
        """Record a request. Return its entry."""
        name = request.api.name
        kept = None if name == "Produce" else message
        seen = SeenRequest(
            name, request.version, request.client_id or "", self._clock.wall_ms() / 1_000, kept
        )
        self.requests.append(seen)
        connection = request.connection
        key = id(connection)
        if key not in self._clients:
            connection.on_close.append(partial(self._forget, key, connection))
        self._clients[key] = (request, seen.client_id)
        for each in tuple(self.recorders):
            each.asked(seen, request, message)
        self.notify()
        return seen

    def add_answer(self, seen: SeenRequest, answer: Message) -> None:
        """Record the answer to a request."""
        seen.answered(answer)
        for each in tuple(self.recorders):
            each.answered(seen, answer)

    def _forget(self, key: int, connection: Origin) -> None:
        self._clients.pop(key, None)
        self.pauses.forget(connection)

    def drop_connections(self, client_id: str | None) -> int:
        """Close the connections of one client, or all. Return their number."""
        chosen = [
            request for request, name in self._clients.values() if client_id is None or name == client_id
        ]
        for request in chosen:
            request.hang_up()
        return len(chosen)


class WatchedDispatch:
    """A dispatch that records requests and injects faults."""

    def __init__(self, answering: Dispatch, watch: Watch) -> None:
        self._answering = answering
        self._watch = watch

    def handler_of(self, api_key: int) -> Handle:
        """Return the handler of the API."""
        handle, limits = self._answering.handler_of(api_key), self._watch.limits
        if limits is not None and api_key == API_VERSIONS_KEY:
            handle = limits.wrap(handle)
        return partial(self._handle, handle)

    def _handle(self, handle: Handle, message: Message, request: Request) -> Answer:
        seen = self._watch.add_request(request, message)
        limits = self._watch.limits
        refusal = None if limits is None else limits.refusal(request)
        if limits is not None and refusal is not None:
            seen.fault = refusal
            refused = limits.refuse(request)
            return None if refused is None else self._record_response(seen, refused)
        execute = partial(self._answer_or_fail, handle, message, request, seen)
        return self._watch.pauses.admit(PausedRequest(seen, request, execute))

    def _answer_or_fail(
        self, handle: Handle, message: Message, request: Request, seen: SeenRequest
    ) -> Answer:
        faults = self._watch.faults
        fault = faults.failure_for(seen)
        if fault is None or _names_no_topic(message, request.version):
            return self._handle_normally(handle, message, request, seen)
        if _is_incremental(message) and fault.code is not None and fault.code not in SESSION_ERRORS:
            # It names no partitions. A session error makes the client send a full request.
            return self._record_response(
                seen, error_response(APIS[1].response, message, SESSION_ERRORS[0], request.version)
            )
        faults.take_failure(seen)
        return self._fail(fault, handle, message, request, seen)

    def _fail(
        self, fault: Fault, handle: Handle, message: Message, request: Request, seen: SeenRequest
    ) -> Answer:
        if fault.is_torn:
            return self._handle_normally(handle, message, TornRequest(request), seen)
        if fault.code is None or getattr(message, "acks", None) == 0:
            request.hang_up()
            return None
        if request.api.api_key == METADATA:
            answer = handle(message, request)
            if isawaitable(answer):
                return self._respond_later(_failing(fault.code, answer), seen)
            return self._record_response(seen, _fail_topics(fault.code, answer))
        return self._record_response(
            seen, error_response(request.api.response, message, fault.code, request.version)
        )

    def _handle_normally(
        self, handle: Handle, message: Message, request: Request, seen: SeenRequest
    ) -> Answer:
        answer = handle(message, WatchedRequest(request, seen, self._watch))
        if answer is None:
            return None
        if isawaitable(answer):
            return self._respond_later(answer, seen, request)
        return self._record_response(seen, answer, request)

    async def _respond_later(
        self, answer: Awaitable[Message | None], seen: SeenRequest, request: Request | None = None
    ) -> Message | None:
        found = await answer
        return None if found is None else self._record_response(seen, found, request)

    def _record_response(self, seen: SeenRequest, answer: Message, request: Request | None = None) -> Message:
        self._watch.add_answer(seen, answer)
        if isinstance(request, TornRequest):
            request.respond(answer)  # The transport drops later responses.
        self._watch.notify()
        return answer


class WatchedRequest(WrappedRequest):
    """A request whose response is recorded."""

    __slots__ = ("_seen", "_watch")

    def __init__(self, request: Request, seen: SeenRequest, watch: Watch) -> None:
        super().__init__(request)
        self._seen = seen
        self._watch = watch

    def respond(self, message: Message) -> None:
        """Answer the request."""
        self._watch.add_answer(self._seen, message)
        super().respond(message)
        self._watch.notify()


def _is_incremental(message: Message) -> bool:
    """Whether a fetch continues a session, so that it need not name its partitions."""
    return isinstance(message, FetchRequest) and message.session_id > 0 and message.session_epoch > 0


def _names_no_topic(message: Message, version: int) -> bool:
    """Whether a metadata request names no topic."""
    return isinstance(message, MetadataRequest) and version > 0 and message.topics == ()


async def _failing(code: ErrorCode, answer: Awaitable[Message | None]) -> Message:
    return _fail_topics(code, await answer)


def _fail_topics(code: ErrorCode, found: object) -> MetadataResponse:
    """Return the response with an error for every topic. The brokers stay."""
    answer = message_of(found)
    assert isinstance(answer, MetadataResponse)
    failed = tuple(_replaced(each, error_code=code, partitions=()) for each in answer.topics)
    return _replaced(answer, topics=failed)


def _replaced(message: M, **values: object) -> M:
    """Return the message with other values. Type checkers do not know that it is a msgspec struct."""
    return cast(M, msgspec.structs.replace(cast(msgspec.Struct, message), **values))
