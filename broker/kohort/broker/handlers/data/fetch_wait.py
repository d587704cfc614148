"""A fetch that waits: for enough to read, for its time to be up, or for its connection to close."""

from itertools import count

from kohort.broker.handlers.data.family import Data
from kohort.broker.handlers.data.fetch_reading import (
    UNKNOWN_OFFSET,
    Reading,
    answer_all,
    answer_changes,
    measure,
    read_targets,
    refused,
    remember_sent,
)
from kohort.broker.handlers.data.fetch_sessions import NO_SESSION, FetchContext
from kohort.broker.handlers.data.fetch_target import FetchTarget
from kohort.broker.handlers.data.follower_targets import targets_with_records
from kohort.broker.handlers.data.reader import CONSUMER, Reader
from kohort.broker.partitions.partition import Partition
from kohort.broker.transport.request import Request
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.fetch import FetchRequest, FetchResponse
from kohort.storage import Slice

_numbers = count()


class FetchWait:
    """One request that has been put off. Kafka's counterpart is DelayedFetch in its purgatory."""

    __slots__ = (
        "_answered",
        "_context",
        "_data",
        "_max_bytes",
        "_message",
        "_min_bytes",
        "_reader",
        "_request",
        "_sizes",
        "_targets",
        "_timer",
    )

    def __init__(
        self,
        data: Data,
        request: Request,
        message: FetchRequest,
        context: FetchContext,
        *,
        reading: Reading,
        reader: Reader = CONSUMER,
        min_bytes: int,
        max_bytes: int,
    ) -> None:
        self._data = data
        self._request = request
        self._message = message
        self._context = context
        self._reader = reader
        self._min_bytes = min_bytes
        self._max_bytes = max_bytes
        self._answered = False
        self._timer = ("fetch", next(_numbers))
        self._targets: dict[Partition, FetchTarget] = {}
        self._sizes: dict[Partition, int] = {}
        if reader.is_follower:  # Not all of its partitions were checked.
            self._targets = {each.partition: each for each in context.targets if each.partition is not None}
            return  # It waits for any event.
        for target, outcome in reading.outcomes:
            if target.partition is not None:
                self._targets[target.partition] = target
                if outcome is not None:
                    assert isinstance(outcome, Slice)  # A fetch with an error does not wait.
                    self._sizes[target.partition] = outcome.size_bytes

    def begin(self, now_ms: int) -> None:
        """Wait from now on."""
        for partition in self._targets:
            self._reader.waits_at(partition)[self] = None
        self._data.timers.set(self._timer, now_ms + self._message.max_wait_ms, self._time_is_up)
        self._request.connection.on_close.append(self.drop)

    def advanced(self, partition: Partition) -> None:
        """Answer if there is enough by now, or if the partition has an error."""
        if self._answered:
            return
        if self._reader.is_follower:
            self._follower_may_read(partition)
            return
        if self._min_bytes > 1:
            size_bytes = measure(self._targets[partition], partition, self._reader)
            if size_bytes is not None:
                self._sizes[partition] = size_bytes
                if sum(self._sizes.values()) < self._min_bytes:
                    return
        reading = read_targets(self._context, self._data.partitions, self._max_bytes, self._reader)
        if reading.must_answer or reading.size_bytes >= self._min_bytes:
            self._answer(reading)

    def _follower_may_read(self, partition: Partition) -> None:
        """Answer if there are records: most calls only report a commit, which followers learn later."""
        target = self._targets[partition]
        begins_elsewhere = target.sent_log_start_offset not in {
            UNKNOWN_OFFSET,
            partition.log.log_start_offset,
        }
        if (
            not (self._reader.wants_high_watermark or begins_elsewhere)
            and measure(target, partition, self._reader) == 0
        ):
            return
        targets = None if self._reader.wants_high_watermark else targets_with_records(self._context)
        reading = read_targets(self._context, self._data.partitions, self._max_bytes, self._reader, targets)
        if reading.must_answer or reading.size_bytes >= self._min_bytes or begins_elsewhere:
            self._answer(reading)

    def _time_is_up(self) -> None:
        self._answer(read_targets(self._context, self._data.partitions, self._max_bytes, self._reader))

    def _answer(self, reading: Reading) -> None:
        if self._answered:
            return  # By itself: a read that failed has woken all waiters there, including this one.
        self._end()
        self._request.connection.on_close.remove(self.drop)
        self._request.respond(answer(self._data, self._message, self._context, reading, self._request))

    def drop(self) -> None:
        """Forget the request: its connection is closed."""
        if not self._answered:
            self._end()

    def _end(self) -> None:
        self._answered = True
        self._data.timers.cancel(self._timer)
        for partition in self._targets:
            self._reader.waits_at(partition).pop(self, None)


def _count(data: Data, message: FetchRequest, reading: Reading) -> None:
    if message.replica_state.replica_id < 0:  # What followers get is not given to clients.
        data.counters.fetched_bytes += reading.size_bytes
    elif data.partitions.replicas is not None:
        for target, outcome in reading.outcomes:
            if type(outcome) is Slice and target.partition is not None:
                data.partitions.replicas.sent(target.partition, outcome.size_bytes)
    if reading.must_answer:
        for _, outcome in reading.outcomes:
            if isinstance(outcome, ErrorCode):
                data.requests.request_failed(outcome)


def answer(
    data: Data, message: FetchRequest, context: FetchContext, reading: Reading, request: Request
) -> FetchResponse:
    """Return the answer to a fetch, complete or as changes of its session; empty if its quota is used up."""
    if context.is_stale:
        data.requests.request_failed(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        return refused(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
    if reading.size_bytes and not request.may_have(reading.size_bytes):
        return nothing_yet(context)
    _count(data, message, reading)
    if context.session is not None:
        return answer_changes(context.session, reading, message.isolation_level)
    session_id = 0
    if context.is_new:
        session = data.fetch_sessions.create(context, data.clock.now_ms())
        if session is not None:
            session_id = session.session_id
            remember_sent(reading)
    return answer_all(reading, message.isolation_level, session_id)


def nothing_yet(context: FetchContext) -> FetchResponse:
    """Return an answer without partitions; it starts no session, and an existing one is not changed.

    Source: getThrottledResponse in Kafka's FetchSession.
    """
    session_id = NO_SESSION if context.session is None else context.session.session_id
    return FetchResponse(session_id=session_id, responses=())
