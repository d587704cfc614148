"""A transactional id: its producer, and the state of its newest transaction.

States and their numbers are Kafka's (org.apache.kafka.coordinator.transaction.TransactionState):

    Empty -> Ongoing -> PrepareCommit -> CompleteCommit -> Ongoing, Empty ...
                     -> PrepareAbort  -> CompleteAbort  -> Ongoing, Empty ...

Prepared is decided: from then on markers are written until each partition has its own, however often the
coordinator fails. A transaction of version 2 (KIP-890) may also be aborted before it has begun, which bumps
the epoch.
"""

from enum import IntEnum

import msgspec

from kohort.protocol.transaction_log import PartitionsSchema, TransactionLogKey, TransactionLogValue

NO_PRODUCER_ID = -1
NO_EPOCH = -1
FIRST_EPOCH = 0
EPOCH_MAX = 2**15 - 1
NEVER_MS = -1
BUMPING_VERSION = 2
"""The transaction.version from which each end gives the producer a new epoch."""

TopicPartition = tuple[str, int]
"""A topic and a partition's index."""


class TransactionState(IntEnum):
    """The state of a transaction, by its number in the log."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def label(self) -> str:
        """Kafka's name of it."""
        return "".join(word.capitalize() for word in self.name.split("_"))

    @property
    def is_prepared(self) -> bool:
        """Whether its end is decided, and markers are being written."""
        return self in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)


LABELS = frozenset(state.label for state in TransactionState)


class Transaction(msgspec.Struct):
    """The logged state of a transactional id, and the epoch before the newest, which is not logged."""

    transactional_id: str
    producer_id: int = NO_PRODUCER_ID
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_EPOCH
    last_producer_epoch: int = NO_EPOCH
    timeout_ms: int = 0
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    start_ms: int = NEVER_MS
    last_update_ms: int = NEVER_MS
    client_version: int = 0

    @property
    def key(self) -> TransactionLogKey:
        """The key of its record."""
        return TransactionLogKey(transactional_id=self.transactional_id)

    @property
    def is_epoch_exhausted(self) -> bool:
        """Whether the next epoch needs another producer id."""
        return self.producer_epoch >= EPOCH_MAX - 1

    @property
    def deadline_ms(self) -> int:
        """When it is aborted unless it has ended before."""
        return self.start_ms + self.timeout_ms

    def value(self) -> TransactionLogValue:
        """Return its value for the log."""
        return TransactionLogValue(
            producer_id=self.producer_id,
            previous_producer_id=self.previous_producer_id,
            next_producer_id=self.next_producer_id,
            producer_epoch=self.producer_epoch,
            next_producer_epoch=NO_EPOCH if self.next_producer_id == NO_PRODUCER_ID else FIRST_EPOCH,
            transaction_timeout_ms=self.timeout_ms,
            transaction_status=self.state,
            transaction_partitions=(
                None if self.state is TransactionState.EMPTY else _by_topic(self.partitions)
            ),
            transaction_last_update_timestamp_ms=self.last_update_ms,
            transaction_start_timestamp_ms=self.start_ms,
            client_transaction_version=self.client_version,
        )


def logged_transaction(key: TransactionLogKey, value: TransactionLogValue) -> Transaction:
    """Return the transaction of a record. Raises: ValueError for an unknown state."""
    return Transaction(
        key.transactional_id,
        producer_id=value.producer_id,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        producer_epoch=value.producer_epoch,
        timeout_ms=value.transaction_timeout_ms,
        state=TransactionState(value.transaction_status),
        partitions=frozenset(
            (each.topic, index) for each in value.transaction_partitions or () for index in each.partition_ids
        ),
        start_ms=value.transaction_start_timestamp_ms,
        last_update_ms=value.transaction_last_update_timestamp_ms,
        client_version=value.client_transaction_version,
    )


def _by_topic(places: frozenset[TopicPartition]) -> tuple[PartitionsSchema, ...]:
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(places):
        topics.setdefault(topic, []).append(index)
    return tuple(
        PartitionsSchema(topic=topic, partition_ids=tuple(indexes)) for topic, indexes in topics.items()
    )
