"""One connection to one broker: requests are pipelined, answers are matched by correlation id.

The reader and the writer are separate tasks, so that a cancelled caller never leaves half
a frame on the wire: its answer is dropped when it arrives.
"""

import random
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

import anyio
from anyio.abc import ByteStream, TaskGroup

from kohort.client.errors import KohortError, NetworkError, RequestTimeoutError, UnsupportedVersionError
from kohort.client.retry import monotonic_ms
from kohort.client.signal import Signal
from kohort.client.versions import FIRST_API_VERSIONS, MAX_ANSWER_BYTES, SOFTWARE_VERSION, agreed_version
from kohort.protocol.errors import ErrorCode, WireError
from kohort.protocol.framing import Frame, FrameReader
from kohort.protocol.headers import (
    API_VERSIONS_KEY,
    CORRELATION_ID_BYTES,
    frame_request,
    response_body,
    response_header_version,
)
from kohort.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kohort.protocol.schema import Message

if TYPE_CHECKING:
    from kohort.client.direct_stream import DirectStream

SOFTWARE_NAME = "kohort"
RECEIVE_BYTES = 256 << 10
_TLS_ALERT = b"\x15\x03"  # The first bytes that a TLS server sends to a client without a handshake.
_HTTP_ANSWER = b"HTTP/"
_PRODUCE_KEY = 0  # Its size has a separate limit: max_request_size.
_LARGE_REQUEST_BYTES = 128 << 10
_ABOUT_WHO = (17, 36)  # SaslHandshake and SaslAuthenticate.
_SAID_AGAIN_AFTER = 0.85, 0.95  # Of the time that a broker gives, as Kafka's clients.

Answer = TypeVar("Answer", bound=Message)


Outcome = Frame | KohortError


class _Waiter:
    """A task that waits for an answer."""

    __slots__ = ("done", "outcome")

    def __init__(self) -> None:
        self.done = anyio.Event()
        self.outcome: Outcome | None = None

    def __call__(self, outcome: Outcome) -> None:
        self.outcome = outcome
        self.done.set()


OnSent = Callable[[KohortError | None], None]
"""Called when a request was sent, or with the error."""
Observer = Callable[[int, int, int], None]
"""Called with each answer: its API key, its duration in milliseconds, its size in bytes."""


class _Pending(NamedTuple):
    """A request without an answer yet."""

    finish: Callable[[Outcome], None]
    header_version: int
    api_key: int
    sent_ms: int
    size_bytes: int
    name: str


class _Due(NamedTuple):
    """When the answer to a request that no task waits for is late."""

    at_ms: float
    correlation_id: int
    name: str
    timeout_ms: float


class _Held:
    """Waiting requests, and the callbacks for when they are sent."""

    __slots__ = ("requests", "unsent")

    def __init__(self) -> None:
        self.requests: list[bytes] = []
        self.unsent: list[OnSent] = []


def _unanswered(address: str, request: str, timeout_ms: float) -> RequestTimeoutError:
    return RequestTimeoutError(f"{address} did not answer {request} within {round(timeout_ms) / 1000:g} s")


class Identity(Protocol):
    """Authenticates this client to a broker."""

    async def authenticate(self, connection: "Connection", timeout_ms: float) -> int:
        """Return for how many milliseconds the broker accepts it, 0 forever. Raises: AuthenticationError."""
        ...


class Connection:
    """One connection. `negotiate` comes before all other requests.

    Its owner runs `serve` as a task; it ends when the connection does.
    """

    def __init__(
        self,
        stream: "ByteStream | DirectStream",
        address: str,
        client_id: str,
        observer: Observer | None = None,
        *,
        is_secure: bool = False,
    ) -> None:
        self.address = address
        self.likely_cause = ""  # What may have made the broker close the connection.
        self.last_used_ms = monotonic_ms()
        self._stream = stream
        self.is_secure = is_secure
        self._is_authenticated = False
        self._tasks: TaskGroup | None = None
        self._held: _Held | None = None  # Requests that wait until this client has reauthenticated.
        self._client_id = client_id
        self._observer = observer
        self._correlation_id = 0
        self._pending: dict[int, _Pending] = {}
        self._due: deque[_Due] = deque()
        self._due_added = Signal()
        self._answers = 0
        self._outgoing: list[bytes] = []
        self._unsent: deque[OnSent] = deque()  # Callbacks for when the outgoing bytes were sent.
        self._writable = anyio.Event()
        self._versions: Mapping[int, tuple[int, int]] = {}
        self._failure: KohortError | None = None
        self._scope = anyio.CancelScope()

    @property
    def is_open(self) -> bool:
        """Whether requests can be sent."""
        return self._failure is None

    @property
    def pending_count(self) -> int:
        """How many answers are awaited."""
        return len(self._pending)

    @property
    def is_idle(self) -> bool:
        """Whether no answer is awaited."""
        return not self._pending

    async def serve(self) -> None:
        """Send and receive until the connection breaks or is closed; then fail all waiting requests."""
        try:
            with self._scope:
                await self._serve()
        finally:  # Also where its owner ends, and takes this task along.
            self._fail(NetworkError(f"the connection to {self.address} was closed"))
            with anyio.CancelScope(shield=True):
                await anyio.aclose_forcefully(self._stream)

    async def _serve(self) -> None:
        try:
            async with anyio.create_task_group() as tasks:
                self._tasks = tasks
                tasks.start_soon(self._write)
                tasks.start_soon(self._read)
                tasks.start_soon(self._watch)
        except* (OSError, anyio.ClosedResourceError, anyio.BrokenResourceError, anyio.EndOfStream):
            self._fail(NetworkError(f"{self.address} closed the connection{self._hint()}"))
        except* WireError as group:
            self._fail(NetworkError(f"{self.address} does not speak Kafka's protocol: {group.exceptions[0]}"))

    def close(self, error: KohortError | None = None) -> None:
        """Close the connection at once; waiting requests get `error`."""
        if error is not None:
            self._fail(error)
        self._scope.cancel()

    async def negotiate(self, timeout_ms: float) -> None:
        """Learn which versions the broker supports. Raises: KohortError."""
        hello = ApiVersionsRequest(
            client_software_name=SOFTWARE_NAME, client_software_version=SOFTWARE_VERSION
        )
        version = FIRST_API_VERSIONS
        body = await self._exchange(hello, version, timeout_ms)
        if int.from_bytes(body[:2], "big") == ErrorCode.UNSUPPORTED_VERSION:
            refusal = _decode(body, ApiVersionsResponse, 0)
            version = max(
                (each.max_version for each in refusal.api_keys if each.api_key == API_VERSIONS_KEY), default=0
            )
            body = await self._exchange(hello, version, timeout_ms)
        answer = _decode(body, ApiVersionsResponse, version)
        if answer.error_code:
            raise NetworkError(f"{self.address} refused to tell its versions: error {answer.error_code}")
        self._versions = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}
        self._levels = {each.name: each.max_version_level for each in answer.finalized_features}

    async def authenticate(self, who: Identity, timeout_ms: float) -> None:
        """Authenticate, and again as often as the broker demands (KIP-368).

        Raises: AuthenticationError, NetworkError, RequestTimeoutError.
        """
        lifetime_ms = await who.authenticate(self, timeout_ms)
        self._is_authenticated = True
        if lifetime_ms > 0 and self._tasks is not None:
            self._tasks.start_soon(self._say_again, who, lifetime_ms, timeout_ms)

    async def _say_again(self, who: Identity, lifetime_ms: int, timeout_ms: float) -> None:
        while lifetime_ms > 0:
            await anyio.sleep(lifetime_ms * random.uniform(*_SAID_AGAIN_AFTER) / 1000)
            self._held = held = _Held()  # A broker refuses everything else in between.
            try:
                lifetime_ms = await who.authenticate(self, timeout_ms)
            except KohortError as error:
                self.close(error)
                return
            finally:
                self._held = None
            self._outgoing += held.requests
            self._unsent += held.unsent
            self._writable.set()

    def finalized_level(self, feature: str) -> int:
        """Return the level at which the cluster has a feature of Kafka's, 0 where it has it not."""
        return self._levels.get(feature, 0)

    def version_of(self, request: type[Message], highest: int | None = None) -> int:
        """Return the newest version of an API that both sides support, up to `highest`.

        Raises: UnsupportedVersionError.
        """
        return agreed_version(request, self._versions, highest, self.address)

    def speaks(self, request: type[Message]) -> bool:
        """Return whether both sides have a common version of an API."""
        try:
            self.version_of(request)
        except UnsupportedVersionError:
            return False
        return True

    async def request(
        self, request: Message, answer: type[Answer], *, timeout_ms: float, highest: int | None = None
    ) -> Answer:
        """Return the broker's answer to `request`.

        Raises: NetworkError, RequestTimeoutError (the connection is then closed), UnsupportedVersionError.
        """
        version = self.version_of(type(request), highest)
        return _decode(await self._exchange(request, version, timeout_ms), answer, version)

    def start(
        self,
        request: Message,
        answer: type[Answer],
        on_done: Callable[[Answer | KohortError], None],
        *,
        timeout_ms: float,
        highest: int | None = None,
    ) -> None:
        """Send a request; later `on_done` gets its answer, or the error. No task waits for it.

        Raises: NetworkError, RequestTimeoutError if the connection is closed; UnsupportedVersionError.
        """
        version = self.version_of(type(request), highest)

        def finish(outcome: Outcome) -> None:
            if isinstance(outcome, KohortError):
                on_done(outcome)
                return
            try:
                decoded = _decode(outcome, answer, version)
            except KohortError as error:
                on_done(error)
            else:
                on_done(decoded)

        self._put(request, version, finish)
        while self._due and self._due[0].correlation_id not in self._pending:
            self._due.popleft()
        name = type(request).__name__.removesuffix("Request")
        self._due.append(_Due(self.last_used_ms + timeout_ms, self._correlation_id, name, timeout_ms))
        if len(self._due) == 1:
            self._due_added.set()

    def send(self, request: Message, on_sent: OnSent, *, highest: int | None = None) -> None:
        """Send a request that has no answer: Produce with acks=0.

        `on_sent` is called when the system has taken it, or with why it will not. Raises: NetworkError.
        """
        self._put(request, self.version_of(type(request), highest), None)
        (self._unsent if self._held is None else self._held.unsent).append(on_sent)

    async def _exchange(self, request: Message, version: int, timeout_ms: float) -> Frame:
        waiter = _Waiter()
        self._put(request, version, waiter)
        with anyio.move_on_after(timeout_ms / 1000):
            await waiter.done.wait()
        if waiter.outcome is None:
            name = type(request).__name__.removesuffix("Request")
            self.close(_unanswered(self.address, name, timeout_ms))
        if isinstance(waiter.outcome, KohortError):
            raise waiter.outcome
        assert waiter.outcome is not None
        return waiter.outcome

    def _put(self, request: Message, version: int, finish: Callable[[Outcome], None] | None) -> None:
        if self._failure is not None:
            raise self._failure
        declared = request.declaration()
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        framed = frame_request(request, version, self._correlation_id, self._client_id)
        if finish is not None:
            header_version = response_header_version(
                declared.api_key, is_flexible=version in declared.flexible
            )
            self._pending[self._correlation_id] = _Pending(
                finish,
                header_version,
                declared.api_key,
                monotonic_ms(),
                sum(map(len, framed)),
                type(request).__name__,
            )
        if self._held is not None and declared.api_key not in _ABOUT_WHO:
            self._held.requests += framed
        else:
            self._outgoing += framed
        self.last_used_ms = monotonic_ms()
        self._writable.set()

    async def _watch(self) -> None:
        """Close the connection when a request that no task waits for is not answered in time."""
        while True:
            while self._due and self._due[0].correlation_id not in self._pending:
                self._due.popleft()
            if not self._due:
                await self._due_added.wait()
                continue
            due = self._due[0]
            if due.at_ms <= monotonic_ms():
                self.close(_unanswered(self.address, due.name, due.timeout_ms))
            await anyio.sleep(max(0.0, due.at_ms - monotonic_ms()) / 1000)

    async def _write(self) -> None:
        while True:
            await self._writable.wait()
            self._writable = anyio.Event()
            data = b"".join(self._outgoing)
            self._outgoing.clear()
            count = len(self._unsent)
            await self._stream.send(data)
            for _ in range(count):
                self._unsent.popleft()(None)

    def _hint(self) -> str:
        """Return a hint why a broker closed the connection before it answered a real request."""
        if self._answers == 0 and self.is_secure:
            return "; it may want a certificate: ssl_keystore_location"
        if self._answers == 0:
            return "; if its listener expects TLS: security_protocol='SSL'"
        large = self._large_request()
        if not large and self._answers == 1 and self._pending and not self._is_authenticated:
            # It returned its versions, and then received a request.
            return f"; if its listener asks who this is: security_protocol='{self._with_sasl}'"
        return large

    def _large_request(self) -> str:
        """Return the request that may be too large: kohort's broker limits what a request may list."""
        listing = [each for each in self._pending.values() if each.api_key != _PRODUCE_KEY]
        largest = max(listing, key=lambda each: each.size_bytes, default=None)
        if largest is None or largest.size_bytes < _LARGE_REQUEST_BYTES:
            return ""
        name = largest.name.removesuffix("Request")
        self.likely_cause = f"; it may take no {name} of {largest.size_bytes} bytes: ask about fewer at once"
        return self.likely_cause

    @property
    def _with_sasl(self) -> str:
        return "SASL_SSL" if self.is_secure else "SASL_PLAINTEXT"

    async def _read(self) -> None:
        if not isinstance(self._stream, ByteStream):
            await self._stream.receive_frames(_check_speaks_kafka, self._receive)
            return
        reader = FrameReader(MAX_ANSWER_BYTES)
        data = await self._stream.receive(RECEIVE_BYTES)
        _check_speaks_kafka(data)
        while True:
            for frame in reader.receive(data):
                self._receive(frame)
            data = await self._stream.receive(RECEIVE_BYTES)

    def _receive(self, frame: Frame) -> None:
        if len(frame) < CORRELATION_ID_BYTES:
            raise WireError("a response without a correlation id")
        correlation_id = int.from_bytes(frame[:CORRELATION_ID_BYTES], "big", signed=True)
        found = self._pending.pop(correlation_id, None)
        if found is None:
            raise WireError(f"a response to request {correlation_id}, which nobody sent")
        self.last_used_ms = monotonic_ms()
        self._answers += 1
        if self._observer is not None:
            self._observer(found.api_key, self.last_used_ms - found.sent_ms, len(frame))
        found.finish(response_body(frame, found.header_version))

    def _fail(self, error: KohortError) -> None:
        if self._failure is None:
            self._failure = error
        unsent, self._unsent = self._unsent, deque()
        if self._held is not None:
            unsent += self._held.unsent
        for each in unsent:
            each(self._failure)
        waiting, self._pending = self._pending, {}
        for pending in waiting.values():
            pending.finish(self._failure)


def _check_speaks_kafka(first: bytes) -> None:
    """Return unless the first bytes show another protocol. Raises: WireError."""
    if first[:2] == _TLS_ALERT:
        raise WireError("it speaks TLS: security_protocol='SSL', or 'SASL_SSL' with a mechanism")
    if first[:5] == _HTTP_ANSWER:
        raise WireError("it speaks HTTP")


def _decode(body: Frame, answer: type[Answer], version: int) -> Answer:
    try:
        return answer.decode(body, version)
    except WireError as error:
        raise NetworkError(f"an answer that can't be read: {error}") from error
