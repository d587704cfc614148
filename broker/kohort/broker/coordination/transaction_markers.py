"""Commit and abort markers, written to the partitions that this broker leads.

A marker for a partition of `__consumer_offsets` goes through that partition's shard: its place among the
shard's batches says which offsets it ends. Source: KafkaApis.handleWriteTxnMarkersRequest.
"""

from collections import Counter
from collections.abc import Callable

import msgspec

from kohort.broker.coordination.group_shards import GroupShards
from kohort.broker.coordination.services import CoordinatorServices
from kohort.broker.coordination.shard import BrokerRequester
from kohort.broker.group import EndOffsets
from kohort.broker.metadata import OFFSETS_TOPIC
from kohort.broker.partitions import Partition
from kohort.broker.partitions.markers import append_marker
from kohort.broker.partitions.partition import LedElsewhere
from kohort.broker.transactions.transaction import BUMPING_VERSION, TopicPartition
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnResponse
from kohort.protocol.records import ControlType
from kohort.protocol.schema import Message
from kohort.storage import StorageError

Written = Callable[[ErrorCode], None]
"""Called in the loop's thread once a marker is on every replica that counts, or why it will not be."""


class Marker(msgspec.Struct, frozen=True, gc=False):
    """How a producer's transaction ends, and by which coordinator."""

    producer_id: int
    producer_epoch: int
    is_commit: bool
    coordinator_epoch: int
    transaction_version: int = 0

    @property
    def is_bumped(self) -> bool:
        """Whether its epoch is newer than that of the records that it ends (KIP-890)."""
        return self.transaction_version >= BUMPING_VERSION


class MarkerWriter:
    """Writes markers into partitions that this broker leads. The loop's thread only."""

    def __init__(self, services: CoordinatorServices, groups: GroupShards) -> None:
        self._partitions = services.partitions
        self._groups = groups
        self._flusher = services.flusher
        self._clock = services.clock
        self._workers = services.workers
        self._ending: Counter[tuple[int, int]] = Counter()  # By partition and producer.

    def ending(self, place: TopicPartition, producer_id: int) -> int:
        """Return how many markers of a producer wait to be written by a shard of groups."""
        return self._ending[place[1], producer_id] if place[0] == OFFSETS_TOPIC else 0

    def write(self, marker: Marker, place: TopicPartition, written: Written) -> None:
        """Write a marker, and call `written`; an unopened log is opened in a thread."""
        partition = self._partitions.peek(*place)
        if partition is not None and not partition.opened:
            self._workers.spawn(self._open_and_write, marker, place, written)
            return
        try:
            if place[0] == OFFSETS_TOPIC:
                self._end_offsets(marker, place[1], written)
            else:
                self._append(marker, self._partitions.serving(*place), written)
        except ApiError as error:
            written(error.code)

    async def _open_and_write(self, marker: Marker, place: TopicPartition, written: Written) -> None:
        try:
            await self._partitions.opened(*place)
        except StorageError:
            written(ErrorCode.KAFKA_STORAGE_ERROR)
        else:
            self.write(marker, place, written)

    def _append(self, marker: Marker, partition: Partition, written: Written) -> None:
        """Append the marker, if enough replicas would have it. Raises: ApiError."""
        if partition.leadership is not None and not partition.leadership.has_enough_replicas:
            raise ApiError(ErrorCode.NOT_ENOUGH_REPLICAS)
        kind = ControlType.COMMIT if marker.is_commit else ControlType.ABORT
        try:
            append_marker(
                partition,
                kind,
                marker.producer_id,
                marker.producer_epoch,
                coordinator_epoch=marker.coordinator_epoch,
                now_ms=self._clock.wall_ms(),
                is_bumped=marker.is_bumped,
            )
        except StorageError as error:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error

        def committed(error: StorageError | None) -> None:
            if isinstance(error, LedElsewhere) or partition.resigned:
                written(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            else:
                written(ErrorCode.NONE if error is None else ErrorCode.KAFKA_STORAGE_ERROR)

        self._flusher.request_commit(partition, committed)

    def _end_offsets(self, marker: Marker, index: int, written: Written) -> None:
        """Let the shard end a transaction's offsets. Raises: ApiError."""
        shard = self._groups.shard_at(index)
        shard.check_enough_replicas()
        partition = self._partitions.serving(OFFSETS_TOPIC, index)
        partition.log.producers.check_marker(
            marker.producer_id, marker.producer_epoch, marker.coordinator_epoch, is_bumped=marker.is_bumped
        )

        key = index, marker.producer_id

        def ended(code: ErrorCode) -> None:
            self._ending[key] -= 1
            if not self._ending[key]:
                del self._ending[key]
            written(code)

        def respond(message: Message) -> None:
            assert isinstance(message, AddOffsetsToTxnResponse)
            ended(ErrorCode(message.error_code))

        request_id = shard.ask(BrokerRequester(ended), respond)
        self._ending[key] += 1
        shard.submit(
            EndOffsets(
                request_id,
                marker.producer_id,
                marker.producer_epoch,
                marker.is_commit,
                marker.coordinator_epoch,
            )
        )
