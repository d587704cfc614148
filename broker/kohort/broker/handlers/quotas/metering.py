"""A `Dispatch` that meters requests, returns throttle times, and delays clients.

A produce is metered when it comes, a fetch before it is answered, the time that the loop is busy always;
replication between brokers is not. A produce over the quota is done, and then delayed; a fetch over it
(its bytes, or the loop's time) has no records, and its session is not changed.

All of the loop's time counts: handlers that answer at once, each step of those that run as tasks, and the
rest of a connection's turn, in which bytes are received, decoded, encoded and sent. No request is handled
while the clients that share its quota have exceeded it: many connections get no more than one.
Source: Kafka's KafkaApis, ClientQuotaManager and KIP-219.
"""

import time
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator
from functools import partial
from types import coroutine
from typing import Any

import msgspec

from kohort.broker.config.current import CurrentConfig
from kohort.broker.handlers.prepared import Prepared
from kohort.broker.handlers.quotas.mutations import STRICT_FROM, Mutations
from kohort.broker.handlers.quotas.muting import YIELD_MS, Muting
from kohort.broker.handlers.wrapping import WrappedRequest
from kohort.broker.metadata import MetadataStore
from kohort.broker.metadata.quotas import follow_quotas
from kohort.broker.quotas.book import MUTATION, REQUEST, Book, Sharers
from kohort.broker.quotas.meter import Meter, Use, Windows
from kohort.broker.runtime.clock import Clock
from kohort.broker.runtime.timers import Timers
from kohort.broker.runtime.workers import Workers
from kohort.broker.transport.dispatch import Dispatch, Handle
from kohort.broker.transport.request import Origin, Request
from kohort.protocol.registry import BROKER_PAGE_KEY, READABLE_OFFSETS_KEY

PRODUCES, FETCHES, SHARE_FETCHES = 0, 1, 78
ADDS_TO_TRANSACTIONS, WRITES_MARKERS = 24, 27
SHARE_STATES = range(83, 88)
BETWEEN_BROKERS = frozenset((WRITES_MARKERS, *SHARE_STATES, READABLE_OFFSETS_KEY, BROKER_PAGE_KEY))
FIRST_OF_BROKERS = 4
"""From that version on brokers add partitions to transactions for their clients."""
NOBODY = -1
TURN_SECONDS = 0.05
"""How often a task checks whether another one that shares its quota has ended."""
TURN_MS_MAX = 1_000
"""So long others wait for a task, which may wait for a replica: then the next one begins beside it."""
THROTTLE = "throttle_time_ms"

IsBroker = Callable[[Request, int, int], bool]
"""Says whether a request is of the broker with that id and epoch."""


class MeteredRequest(WrappedRequest):
    """A request whose answer is metered, and says for how long to wait."""

    __slots__ = ("_metering", "busy_since_s", "client", "has_records", "throttle_ms", "user")

    def __init__(self, metering: "Metering", request: Request) -> None:
        super().__init__(request)
        self._metering = metering
        self.user = request.principal.partition(":")[2]
        self.client = request.client_id or ""
        self.throttle_ms = 0
        self.has_records = False
        self.busy_since_s: float | None = None  # While its handler runs: since when its time is not noted.

    def may_have(self, size_bytes: int) -> bool:
        """Return whether a reader may get so many bytes of records now; otherwise it waits."""
        return self._metering.may_have(self, size_bytes)

    def finish(self, answer: Any) -> Any:
        """Return the answer, which says for how long to wait."""
        return self._metering.answered(self, answer)


class Metering:
    """Forwards requests when they are allowed. The loop's thread only."""

    def __init__(
        self,
        inner: Dispatch,
        metadata: MetadataStore,
        current: CurrentConfig,
        *,
        timers: Timers,
        clock: Clock,
        workers: Workers,
        busy_s: Callable[[], float] = time.perf_counter,
        is_broker: IsBroker = lambda *_: False,
    ) -> None:
        """Measure by the quotas in the metadata; `busy_s` is a clock for how long the loop was busy.

        `is_broker` says whether a request is one of the broker that it says it is of: those are free.
        """
        self._is_broker = is_broker
        self._inner = inner
        self._metadata = metadata
        self._current = current
        self._clock = clock
        self._busy_s = busy_s
        self._bound: dict[int, Handle] = {}
        self._workers = workers
        self._noted_s = 0.0  # In the running turn, by handlers.
        # Whose time a connection's turns are; None: those of a broker, which are free.
        self._askers: dict[Origin, tuple[str, str] | None] = {}
        self._running: dict[Sharers, tuple[MeteredRequest, int]] = {}  # Whose task was begun last, and when.
        self.book = Book()
        self.muting = Muting(timers, clock, workers)
        config = current.config
        self.meter = Meter(
            self.book,
            Windows(config.quota_window_num, config.quota_window_size_seconds),
            Windows(config.controller_quota_window_num, config.controller_quota_window_size_seconds),
        )
        follow_quotas(metadata, self.book)

    def handler_of(self, api_key: int) -> Handle:
        """Return the function that answers the API, and is metered."""
        handle = self._bound.get(api_key)
        if handle is None:
            handle = self._bound[api_key] = self._measured(self._inner.handler_of(api_key))
        return handle

    def connection_wait_ms(self, address: str) -> int:
        """Note a new connection; return for how long it is to wait, and be closed then."""
        return self.meter.connect(address, self._clock.now_ms()) if self.book.has_addresses else 0

    def uses(self, most: int) -> Iterator[Use]:
        """Yield how much clients use of the quotas that were used last."""
        return self.meter.uses(most, self._clock.now_ms())

    def _measured(self, handle: Handle) -> Handle:
        again = partial(self._ask_again, handle)

        def handle_unless_muted(message: Any, request: Request) -> Any:
            if self.muting.holds(again, message, request):
                return None
            if self.book.has_requests and (wait_ms := self._wait_ms(message, request)):
                self.muting.mute(request.connection, wait_ms)
                self.muting.holds(again, message, request)
                return None
            return self._ask(handle, message, request)

        return handle_unless_muted

    def _ask_again(self, handle: Handle, message: Any, request: Request) -> Any:
        """Handle a delayed request, unless it has to wait longer."""
        wait_ms = self._wait_ms(message, request) if self.book.has_requests else 0
        if wait_ms:
            self.muting.put_back(partial(self._ask_again, handle), message, request, wait_ms)
            return None
        return self._ask(handle, message, request)

    def _wait_ms(self, message: Any, request: Request) -> int:
        """Return how long clients that share the quota have to wait; 0 without one."""
        if self._is_brokers(message, request):
            if request.connection in self._askers:
                self._askers[request.connection] = None
            return 0
        user, client = request.principal.partition(":")[2], request.client_id or ""
        self._remember(request.connection, user, client)
        return self.meter.time_wait_ms(user, client, self._clock.now_ms())

    def _ask(self, handle: Handle, message: Any, request: Request) -> Any:
        if not self.book.has_clients or self._is_brokers(message, request):
            return handle(message, request)
        api_key = request.api.api_key
        metered = MeteredRequest(self, request)
        if api_key in STRICT_FROM and self.book.limit(MUTATION, metered.user, metered.client) is not None:
            return self._mutate(handle, message, metered)
        if api_key == PRODUCES:
            self._note_produced(metered, message)
        elif api_key == FETCHES:
            message = self._within_quota(metered, message)
        return self._timed(handle, message, metered)

    def _timed(self, handle: Handle, message: Any, metered: MeteredRequest) -> Any:
        metered.busy_since_s = self._busy_s()
        answer = handle(message, metered)
        throttle_ms = self._note_time(metered)
        metered.busy_since_s = None
        if metered.api.api_key != FETCHES:  # It waits once it is answered, and has no records then.
            self._throttle(metered, throttle_ms, YIELD_MS)
        if answer is None:
            return None
        if isinstance(answer, Awaitable):
            return self._later(metered, answer)
        return self.answered(metered, answer)

    def _note_time(self, metered: MeteredRequest) -> int:
        """Note how long the loop was busy with it since that was noted; return for how long it is to wait."""
        if not self.book.has_requests or self.book.limit(REQUEST, metered.user, metered.client) is None:
            return 0
        busy_s = 0.0
        if metered.busy_since_s is not None:
            until_s = self._busy_s()
            busy_s, metered.busy_since_s = until_s - metered.busy_since_s, until_s
            self._noted_s += busy_s
        return self.meter.record_time(metered.user, metered.client, busy_s, self._clock.now_ms())

    def _remember(self, connection: Origin, user: str, client: str) -> None:
        """Note whose time the turns of the connection are."""
        if connection not in self._askers:
            connection.on_close.append(partial(self._forget, connection))
        self._askers[connection] = user, client

    def _forget(self, connection: Origin) -> None:
        self._askers.pop(connection, None)

    def note_turn(self, connection: Origin, seconds: float) -> None:
        """Note the duration of a connection's turn: the part that handlers have not noted counts as well."""
        noted_s, self._noted_s = self._noted_s, 0.0
        requester = self._askers.get(connection)
        if requester is None or not self.book.has_requests or seconds <= noted_s:
            return
        throttle_ms = self.meter.record_time(*requester, seconds - noted_s, self._clock.now_ms())
        if throttle_ms and not connection.closed:
            self.muting.mute(connection, throttle_ms + YIELD_MS)

    async def _later(self, metered: MeteredRequest, answer: Awaitable[Any]) -> Any:
        limit = self.book.limit(REQUEST, metered.user, metered.client)
        found = await (answer if limit is None else self._in_turn(limit.shared_by, metered, answer))
        return None if found is None else self.answered(metered, found)

    async def _in_turn(self, sharers: Sharers, metered: MeteredRequest, answer: Awaitable[Any]) -> Any:
        """Return the answer of a task, which waits for others that share its quota."""
        has_waited = False
        while self._has_turn(sharers) or (has_waited and self._time_wait_ms(metered)):
            has_waited = True
            await self._workers.sleep(TURN_SECONDS)
            if metered.connection.closed and isinstance(answer, Coroutine):
                answer.close()  # It has not begun.
                return None
        self._running[sharers] = turn = metered, self._clock.now_ms()
        try:
            return await _stepped(answer, self._busy_s, partial(self._note_step, metered))
        finally:
            if self._running.get(sharers) is turn:
                del self._running[sharers]

    def _has_turn(self, sharers: Sharers) -> bool:
        """Return whether a task of theirs is to be waited for."""
        turn = self._running.get(sharers)
        return turn is not None and self._clock.now_ms() - turn[1] < TURN_MS_MAX

    def _time_wait_ms(self, metered: MeteredRequest) -> int:
        return self.meter.time_wait_ms(metered.user, metered.client, self._clock.now_ms())

    def _note_step(self, metered: MeteredRequest, busy_s: float) -> None:
        now_ms = self._clock.now_ms()
        throttle_ms = self.meter.record_time(metered.user, metered.client, busy_s, now_ms)
        if not metered.connection.closed:
            self._throttle(metered, throttle_ms, YIELD_MS)

    def answered(self, metered: MeteredRequest, answer: Any) -> Any:
        """Return the answer, which says for how long its client has to wait, if it has to."""
        if metered.api.api_key == SHARE_FETCHES:  # Its records are acquired by now.
            count = _record_bytes(answer)
            now_ms = self._clock.now_ms()
            self._throttle(metered, self.meter.hand_out(metered.user, metered.client, count, now_ms))
        elif metered.api.api_key == FETCHES and not metered.has_records:
            self._throttle(metered, self._note_time(metered), YIELD_MS)
        if not metered.throttle_ms:
            return answer
        found = answer.message if isinstance(answer, Prepared) else answer
        if not hasattr(found, THROTTLE):
            return answer
        told_ms = max(metered.throttle_ms, found.throttle_time_ms)
        return msgspec.structs.replace(found, throttle_time_ms=told_ms)

    def _throttle(self, metered: MeteredRequest, throttle_ms: int, yield_ms: int = 0) -> None:
        if throttle_ms > metered.throttle_ms:
            metered.throttle_ms = throttle_ms
            self.muting.mute(metered.connection, throttle_ms + yield_ms)

    def _is_brokers(self, message: Any, request: Request) -> bool:
        """Return whether another broker asks, as none but brokers do: anybody can say so."""
        api_key = request.api.api_key
        if api_key in BETWEEN_BROKERS or (
            api_key == ADDS_TO_TRANSACTIONS and request.version >= FIRST_OF_BROKERS
        ):
            return self._is_broker(request, NOBODY, NOBODY)
        if api_key != FETCHES:
            return False
        state = message.replica_state
        node_id = max(message.replica_id, state.replica_id)
        return node_id >= 0 and self._is_broker(request, node_id, state.replica_epoch)

    # -- single APIs --------------------------------------------------------------------------------------

    def _note_produced(self, metered: MeteredRequest, message: Any) -> None:
        count = sum(len(each.records or b"") for topic in message.topic_data for each in topic.partition_data)
        now_ms = self._clock.now_ms()
        self._throttle(metered, self.meter.produce(metered.user, metered.client, count, now_ms))

    def may_have(self, metered: MeteredRequest, size_bytes: int) -> bool:
        """Note the records for a reader; if that is too much, it gets none, and asks again.

        Where it has taken too much of the loop's time it gets nothing either, and that counts as no bytes.
        """
        throttle_ms = self._note_time(metered)
        if throttle_ms:
            self._throttle(metered, throttle_ms, YIELD_MS)
            return False
        now_ms = self._clock.now_ms()
        metered.has_records, throttle_ms = self.meter.fetch(metered.user, metered.client, size_bytes, now_ms)
        self._throttle(metered, throttle_ms)
        return metered.has_records

    def _within_quota(self, metered: MeteredRequest, message: Any) -> Any:
        """Return the fetch limited to the bytes that its client may have in all windows."""
        bytes_max = self.meter.fetched_at_once_max(metered.user, metered.client)
        if bytes_max is None or message.max_bytes <= bytes_max:
            return message
        return msgspec.structs.replace(message, max_bytes=bytes_max)

    def _mutate(self, handle: Handle, message: Any, metered: MeteredRequest) -> Any:
        strictly = metered.version >= STRICT_FROM[metered.api.api_key]
        throttle_ms = 0

        def take(count: int) -> bool:
            nonlocal throttle_ms
            taken, throttle_ms = self.meter.mutate(
                metered.user, metered.client, count, self._clock.now_ms(), strictly=strictly
            )
            return taken

        mutations = Mutations(self._metadata.snapshot(), self._current.config.num_partitions, take)
        verdict = mutations.judge(metered, message)
        self._throttle(metered, throttle_ms)
        if verdict.answer is not None:
            return self.answered(metered, verdict.answer)
        finish = verdict.finish
        if finish is None:
            return self._timed(handle, verdict.message, metered)

        async def finished() -> Any:
            answer = self._timed(handle, verdict.message, metered)
            assert answer is not None, "who makes and deletes topics answers by itself"
            return finish(await answer if isinstance(answer, Awaitable) else answer)

        return finished()


@coroutine
def _stepped(
    answer: Awaitable[Any], busy_s: Callable[[], float], note: Callable[[float], None]
) -> Generator[Any, Any, Any]:
    """Return what `answer` returns; note how long each step took, from one wait to the next."""
    steps = answer.__await__()
    value: Any = None
    failure: BaseException | None = None
    while True:
        began_s = busy_s()
        try:
            waits_for = steps.send(value) if failure is None else steps.throw(failure)
        except StopIteration as end:
            return end.value
        finally:
            note(busy_s() - began_s)
        value, failure = None, None
        try:
            value = yield waits_for
        except BaseException as error:  # noqa: BLE001  # Also a cancellation, which the answer has to handle.
            failure = error


def _record_bytes(answer: Any) -> int:
    return sum(len(each.records or b"") for topic in answer.responses for each in topic.partitions)
