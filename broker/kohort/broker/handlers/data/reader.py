"""The sender of a fetch: a consumer, perhaps with a rack, or a follower; and its view of a partition.

Source: ReplicaManager.fetchMessages, Partition.fetchRecords; KIP-392 (reads from followers), KIP-903.
"""

from typing import TYPE_CHECKING, NamedTuple

from kohort.broker.handlers.data.family import Data
from kohort.broker.handlers.data.fetch_target import FetchTarget
from kohort.broker.partitions.partition import Partition
from kohort.broker.partitions.waits import Waits
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.fetch import FetchRequest, FetchResponseEpochEndOffset

if TYPE_CHECKING:
    from kohort.broker.partitions.replicas import Replicas

READ_COMMITTED = 1
CONSUMER_ID = -1
FIRST_VERSION_WITH_RACKS = 11
FIRST_VERSION_WITH_REPLICA_STATE = 15
RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


class PreferredReplica(NamedTuple):
    """A consumer reads from this broker from now on."""

    node_id: int


Refusal = ErrorCode | FetchResponseEpochEndOffset | PreferredReplica
"""The error for a reader instead of records."""


class Reader(NamedTuple):
    """One fetch's reader. `replicas` is None on a single broker: it has no followers."""

    replicas: "Replicas | None" = None
    node_id: int = CONSUMER_ID
    broker_epoch: int = -1
    has_arrived: bool = False
    """Whether the request has just arrived, and has the offsets of a follower."""
    reads_followers: bool = False
    rack: str = ""
    """The consumer's, where it is to be sent to the replica there."""
    wants_committed: bool = False
    """Whether records of open transactions are hidden from it, and aborted ones are listed."""
    wants_high_watermark: bool = False
    """Whether a follower gets the high watermark at once: consumers read from it."""
    is_follower: bool = False
    """Whether another broker asks, the one of `node_id`."""

    def waits_at(self, partition: Partition) -> Waits[Partition]:
        """Return where it waits: a follower for all records, a consumer for those that are committed."""
        return partition.replica_waits if self.is_follower else partition.waits

    def after_arrival(self) -> "Reader":
        """Return the same one for later checks while it waits."""
        return self._replace(has_arrived=False) if self.has_arrived else self


CONSUMER = Reader()
CONSUMER_OF_COMMITTED = Reader(wants_committed=True)


def reader_of(data: Data, message: FetchRequest, version: int) -> Reader:
    """Return the reader of a request."""
    replicas = data.partitions.replicas
    wants_committed = message.isolation_level == READ_COMMITTED
    if replicas is None:
        return CONSUMER_OF_COMMITTED if wants_committed else CONSUMER
    state = message.replica_state
    node_id = state.replica_id if version >= FIRST_VERSION_WITH_REPLICA_STATE else message.replica_id
    is_rack_aware = data.current.config.replica_selector_class == RACK_AWARE
    if node_id > CONSUMER_ID:
        return Reader(
            replicas,
            node_id,
            state.replica_epoch,
            has_arrived=True,
            wants_high_watermark=is_rack_aware,
            is_follower=True,
        )
    return Reader(
        replicas,
        has_arrived=True,
        reads_followers=version >= FIRST_VERSION_WITH_RACKS,
        rack=message.rack_id if is_rack_aware else "",
        wants_committed=wants_committed,
    )


def end_offset_for(reader: Reader, target: FetchTarget, partition: Partition) -> int | Refusal:
    """Return the end for this reader in a replicated partition, or its error.

    How far a follower is counts once, when its request arrives.
    """
    replicas, leadership = reader.replicas, partition.leadership
    assert replicas is not None
    if reader.is_follower:
        if reader.has_arrived:
            refused = replicas.fetched(
                partition,
                node_id=reader.node_id,
                broker_epoch=reader.broker_epoch,
                offset=target.fetch_offset,
                last_fetched_epoch=target.last_fetched_epoch,
                leader_epoch=target.current_leader_epoch,
                log_start_offset=target.log_start_offset,
            )
            if refused is not None:
                return refused if isinstance(refused, ErrorCode) else _epoch_end(*refused)
            leadership = partition.leadership
        if leadership is None:
            return partition.error_code or ErrorCode.NOT_LEADER_OR_FOLLOWER
        epoch_error = partition.check_leader_epoch(target.current_leader_epoch)
        if epoch_error is None and replicas.holds_back(partition, reader.node_id):
            return target.fetch_offset
        return leadership.log.flushed_offset if epoch_error is None else epoch_error
    return _refusal_of_consumer(reader, replicas, target, partition) or partition.high_watermark


def _refusal_of_consumer(
    reader: Reader, replicas: "Replicas", target: FetchTarget, partition: Partition
) -> Refusal | None:
    if partition.error_code is not None and not (reader.reads_followers and partition.following is not None):
        return partition.error_code
    error_code = partition.check_leader_epoch(target.current_leader_epoch)
    error_code = error_code or replicas.check_read(partition, target.fetch_offset)
    if error_code is not None:
        return error_code
    if reader.rack and reader.has_arrived:
        preferred = replicas.read_replica(partition, reader.rack, target.fetch_offset)
        if preferred is not None:
            return PreferredReplica(preferred)
    return None


def _epoch_end(epoch: int, end_offset: int) -> FetchResponseEpochEndOffset:
    return FetchResponseEpochEndOffset(epoch=epoch, end_offset=end_offset)
