"""A running ShareFetch: its acknowledgements, the available records, the wait for more, the answer."""

from itertools import count, groupby
from uuid import UUID

from kohort.broker.coordination.led_share_partition import LedSharePartition
from kohort.broker.coordination.share_partitions import FINAL_EPOCH, ShareSession, TopicIdPartition
from kohort.broker.coordination.shares import Shares
from kohort.broker.handlers.share.acknowledgements import PendingAcknowledgements
from kohort.broker.handlers.share.family import ShareServices
from kohort.broker.handlers.share.leaders import endpoints_of, leader_of
from kohort.broker.handlers.share.share_reading import Taken, available_bytes, take
from kohort.broker.partitions import Partition
from kohort.broker.transport.request import Request
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.share_fetch import (
    ShareFetchAcquired,
    ShareFetchLeaderIdAndEpoch,
    ShareFetchNodeEndpoint,
    ShareFetchPartitionResponse,
    ShareFetchRequest,
    ShareFetchResponse,
    ShareFetchTopicResponse,
)
from kohort.storage import StorageError

ANSWER_BYTES_MAX = 8 * 1024 * 1024

_numbers = count()

Outcome = Taken | ErrorCode


class ShareFetching:
    """One request of a session: it waits for more records, and for those that come back."""

    def __init__(
        self,
        sharing: ShareServices,
        shares: Shares,
        message: ShareFetchRequest,
        request: Request,
        session: ShareSession,
    ) -> None:
        self._sharing = sharing
        self._shares = shares
        self._message = message
        self._request = request
        self._session = session
        self._timer = ("share fetch", next(_numbers))
        self._acknowledgements = PendingAcknowledgements(self._fetch)
        self._outcomes: dict[TopicIdPartition, Outcome] = {}
        self._is_waiting = False
        self._is_time_up = False
        self._is_over = False
        self._partitions: set[Partition] = set()
        self._led: set[LedSharePartition] = set()

    # -- the way of the request ---------------------------------------------------------------------------

    def begin(self) -> None:
        """Apply the acknowledgements; released records are available for the fetch after it."""
        message = self._message
        self._request.connection.on_close.append(self._drop)
        told = [
            ((topic.topic_id, each.partition_index), each.acknowledgement_batches)
            for topic in message.topics
            for each in topic.partitions
            if each.acknowledgement_batches
        ]
        self._acknowledgements.submit(
            self._sharing,
            self._shares,
            self._session.group_id,
            self._session.member_id,
            told,
            may_renew=message.is_renew_ack,
        )

    def _fetch(self) -> None:
        """Look for records, when all acknowledgements are durable, or have failed."""
        message = self._message
        wants_none = message.max_records <= 0 or message.max_bytes <= 0
        if self._is_over or self._session.is_over or message.share_session_epoch == FINAL_EPOCH or wants_none:
            self._fetched()
        elif not self._look(min_bytes=message.min_bytes):
            self._is_waiting = True
            if message.max_wait_ms > 0:
                now_ms = self._sharing.data.clock.now_ms()
                self._sharing.data.timers.set(self._timer, now_ms + message.max_wait_ms, self._time_is_up)
            else:
                self._time_is_up()

    def advanced(self, partition: Partition) -> None:
        """Look again: there are more records, or there never will be."""
        self._look_again()

    def available(self, led: LedSharePartition) -> None:
        """Check again: records were released, or the share partition has started to serve, or has ended."""
        self._look_again()

    def _look_again(self) -> None:
        if self._is_time_up:
            self._time_is_up()
        elif self._is_waiting and not self._session.is_over:  # Its end releases its records, and wakes all.
            self._look(min_bytes=self._message.min_bytes)

    def _time_is_up(self) -> None:
        """Answer with the available records; if a share partition is still unknown, once it is known.

        Without this a member that does not wait would find nothing whenever it is the first to come: as in
        Kafka's SharePartitionManager, which begins to wait when the share partitions are there.
        """
        self._is_time_up = True
        if not self._is_waiting or (not self._session.is_over and self._look(min_bytes=0)):
            return
        if self._session.is_over or not any(led.is_loading for led in self._led):
            self._fetched()

    def _fetched(self) -> None:
        """Wait no longer, and answer."""
        self._stop_waiting()
        self._answer()

    def _drop(self) -> None:
        """Forget the request: its connection is closed."""
        self._stop_waiting()
        self._is_over = True

    def _stop_waiting(self) -> None:
        self._is_waiting = False
        self._sharing.data.timers.cancel(self._timer)
        for partition in self._partitions:
            partition.waits.pop(self, None)
        for led in self._led:
            led.waits.pop(self, None)
        self._partitions, self._led = set(), set()

    # -- looking ------------------------------------------------------------------------------------------

    def _look(self, *, min_bytes: int) -> bool:
        """Acquire if there is enough, or an error; return whether that was the case."""
        # No wake-up is needed during the check.
        was_waiting, self._is_waiting = self._is_waiting, False
        found, size_bytes = [], 0
        for place in self._session.places:
            led = self._led_at(place)
            if led is None:
                continue
            try:
                available = available_bytes(led)
            except (StorageError, OSError) as error:
                self._failed(led, error)
                continue
            if available:
                found.append(led)
                size_bytes += available
        is_enough = bool(self._outcomes) or (bool(found) and size_bytes >= min_bytes)
        if is_enough:
            self._take_from(found)
        self._is_waiting = was_waiting
        if not self._outcomes:
            return False
        self._fetched()
        return True

    def _led_at(self, place: TopicIdPartition) -> LedSharePartition | None:
        """Return the share partition if it serves; note the error if not."""
        table = self._sharing.data.partitions
        partition = table.get_by_id(*place)
        if partition is None:
            self._outcomes[place] = table.why_missing(*place)
            self._shares.partitions.end((self._session.key_of(place),))  # Its topic is gone.
            return None
        if partition.error_code is not None:
            self._outcomes[place] = partition.error_code
            return None
        key = self._session.key_of(place)
        led = self._shares.partitions.led(key, partition)
        if led.end_code is not None:
            self._outcomes[place] = led.end_code
            return None
        led.members.add(self._session.member_id)
        self._partitions.add(partition)
        self._led.add(led)
        partition.waits[self] = None
        led.waits[self] = None
        return led

    def _take_from(self, found: list[LedSharePartition]) -> None:
        message = self._message
        records = message.max_records
        left_bytes = min(message.max_bytes, self._sharing.current.config.fetch_max_bytes, ANSWER_BYTES_MAX)
        for number, led in enumerate(found):
            if records <= 0 or left_bytes <= 0:
                break
            try:
                taken = take(
                    led,
                    self._session.member_id,
                    max_bytes=left_bytes // (len(found) - number),
                    max_records=records,
                    mode=message.share_acquire_mode,
                )
            except (StorageError, OSError) as error:
                self._failed(led, error)
                continue
            if taken is not None:
                place = led.key.topic_id, led.key.partition
                self._outcomes[place] = taken
                self._session.served(place)
                records -= taken.record_count
                left_bytes -= len(taken.records)
                self._sharing.data.counters.fetched_bytes += len(taken.records)

    def _failed(self, led: LedSharePartition, error: Exception) -> None:
        partition = led.partition
        partition.failed(StorageError(f"{partition.topic}-{partition.index} can't be read: {error}"))
        self._outcomes[led.key.topic_id, led.key.partition] = ErrorCode.KAFKA_STORAGE_ERROR

    # -- the answer ---------------------------------------------------------------------------------------

    def _answer(self) -> None:
        if self._message.share_session_epoch == FINAL_EPOCH:
            self._shares.partitions.close_session(self._session)
        if self._is_over:
            return
        self._is_over = True
        self._request.connection.on_close.remove(self._drop)
        for code in self._outcomes.values():
            if isinstance(code, ErrorCode):
                self._sharing.data.requests.request_failed(code)
        places = sorted({*self._outcomes, *self._acknowledgements.codes, *self._session.untold})
        self._session.untold.clear()
        snapshot = self._sharing.groups.metadata.snapshot()
        codes = {place: self._error(place) for place in places}
        settings = self._shares.partitions.settings_of(self._session.group_id)
        self._request.respond(
            ShareFetchResponse(
                throttle_time_ms=0,
                error_code=ErrorCode.NONE,
                acquisition_lock_timeout_ms=settings.share_record_lock_duration_ms,
                responses=tuple(
                    ShareFetchTopicResponse(
                        topic_id=topic_id, partitions=tuple(map(self._partition, of_topic))
                    )
                    for topic_id, of_topic in groupby(places, key=_topic_id)
                ),
                node_endpoints=tuple(
                    ShareFetchNodeEndpoint(node_id=node_id, host=host, port=port, rack=rack)
                    for node_id, host, port, rack in endpoints_of(
                        snapshot, codes, self._request.connection.listener
                    )
                ),
            )
        )

    def _error(self, place: TopicIdPartition) -> ErrorCode:
        """Return the error of a partition, first of all of fetching from it."""
        outcome = self._outcomes.get(place)
        return (
            outcome
            if isinstance(outcome, ErrorCode)
            else self._acknowledgements.codes.get(place, ErrorCode.NONE)
        )

    def _partition(self, place: TopicIdPartition) -> ShareFetchPartitionResponse:
        outcome = self._outcomes.get(place)
        leader_id, leader_epoch = leader_of(
            self._sharing.groups.metadata.snapshot(), place, self._error(place)
        )
        return ShareFetchPartitionResponse(
            partition_index=place[1],
            error_code=outcome if isinstance(outcome, ErrorCode) else ErrorCode.NONE,
            acknowledge_error_code=self._acknowledgements.codes.get(place, ErrorCode.NONE),
            current_leader=ShareFetchLeaderIdAndEpoch(leader_id=leader_id, leader_epoch=leader_epoch),
            records=outcome.records if isinstance(outcome, Taken) else b"",
            acquired_records=tuple(
                ShareFetchAcquired(
                    first_offset=each.first_offset,
                    last_offset=each.last_offset,
                    delivery_count=each.delivery_count,
                )
                for each in (outcome.acquired if isinstance(outcome, Taken) else ())
            ),
        )


def _topic_id(place: TopicIdPartition) -> UUID:
    return place[0]


def failed(code: ErrorCode) -> ShareFetchResponse:
    """Return the answer to a request that fails as a whole."""
    return ShareFetchResponse(
        throttle_time_ms=0, error_code=code, acquisition_lock_timeout_ms=0, responses=(), node_endpoints=()
    )
