"""What producers ask, what brokers ask for them, and what timers say.

`request_id` is the shell's id of the request. Each command's docstring names its answer.
"""

import msgspec

from kohort.broker.transactions.transaction import TopicPartition
from kohort.protocol.messages.end_txn import EndTxnRequest
from kohort.protocol.messages.init_producer_id import InitProducerIdRequest


class TransactionTimer(msgspec.Struct, frozen=True):
    """The key of the timer that aborts a transaction."""

    transactional_id: str


class InitProducerId(msgspec.Struct, frozen=True, gc=False):
    """Give the producer of a transactional id its id and a new epoch: InitProducerIdResponse.

    `fresh_producer_id` is an unused one, or None if `needs_producer_id` returned False.
    """

    request_id: int
    message: InitProducerIdRequest
    version: int
    fresh_producer_id: int | None


class AddPartitions(msgspec.Struct, frozen=True, gc=False):
    """Add partitions to a producer's transaction: AddOffsetsToTxnResponse, which is only a code."""

    request_id: int
    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: frozenset[TopicPartition]
    client_version: int


class EndTransaction(msgspec.Struct, frozen=True, gc=False):
    """Commit or abort: EndTxnResponse, once it is decided; markers follow.

    `fresh_producer_id`: see `InitProducerId`.
    """

    request_id: int
    message: EndTxnRequest
    version: int
    fresh_producer_id: int | None


class MarkersWritten(msgspec.Struct, frozen=True, gc=False):
    """Every partition of a prepared transaction has its marker. Not answered."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


class TimerFired(msgspec.Struct, frozen=True, gc=False):
    """A transaction may have been open for too long. Not answered."""

    key: TransactionTimer


class ExpireTransactionalIds(msgspec.Struct, frozen=True, gc=False):
    """Forget transactional ids that were unused for long. Not answered."""


Command = (
    InitProducerId | AddPartitions | EndTransaction | MarkersWritten | TimerFired | ExpireTransactionalIds
)


class MarkersDue(msgspec.Struct, frozen=True, gc=False):
    """Told once a transaction's end is durable: its partitions are to get their markers."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    is_commit: bool
    partitions: frozenset[TopicPartition]
    client_version: int
