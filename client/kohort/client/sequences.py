"""The sequences of an idempotent producer: the next batch of a partition, and the meaning of a refusal.

A partition's broker takes a producer's batches only in the order of their sequences, so that a batch
that is sent twice is written once. If the order is broken for good, the producer takes its next
epoch and the partition starts at 0 again (KIP-360); other partitions follow when nothing is in flight.
Source: org.apache.kafka.clients.producer.internals.TransactionManager, TxnPartitionEntry.
"""

from bisect import insort

from kohort.client.batch import NOBODY, Batch, ProducerIdentity, next_sequence
from kohort.protocol.errors import ErrorCode
from kohort.protocol.records import NO_SEQUENCE

EPOCH_MAX = 32_767


class PartitionSequences:
    """One partition's sequences, and its batches without a known result, in order."""

    __slots__ = (
        "has_new_log",
        "identity",
        "is_first_in_log",
        "is_unresolved",
        "last_acked_offset",
        "last_acked_sequence",
        "next",
        "outstanding",
    )

    def __init__(self) -> None:
        self.identity = NOBODY
        self.next = 0
        self.last_acked_sequence = NO_SEQUENCE
        self.last_acked_offset = -1
        self.outstanding: list[Batch] = []  # In flight, or to be sent again.
        self.is_unresolved = False  # A sent batch has expired: it is unknown whether it was written.
        self.has_new_log = False  # The topic was recreated, and batches may be in flight to the old log.
        self.is_first_in_log = False  # The log is a new one, which has none of the batches yet.

    def assign(self, batch: Batch, identity: ProducerIdentity) -> None:
        """Give a batch that goes out for the first time its sequence."""
        if self.identity != identity:
            assert not self.outstanding
            self.restart(identity)
        batch.identity = self.identity
        batch.base_sequence = self.next
        self.next = next_sequence(self.next, batch.record_count)
        self.outstanding.append(batch)

    def holds_back(self, batch: Batch, identity: ProducerIdentity) -> bool:
        """Whether a batch must not go out yet.

        One that is sent again waits until all before it are done with. A new one waits while an expired
        one's fate is unknown, and while batches of an older epoch are in flight. Stricter than Java, it also
        waits until the first batch of all is written: a broker without state of a producer takes any
        sequence for its first, so that the second could shut the first out. And while a batch is sent again:
        a broker recognizes duplicates only among the last five batches. A new log accepts any first
        sequence, too: all wait until nothing is in flight to the old one, and then for the first to be
        written.
        All wait for an id.
        """
        if identity is NOBODY or self.has_new_log:
            return True
        if batch.has_sequence:
            return self.outstanding[0] is not batch
        if not self.outstanding:
            return self.is_unresolved
        return (
            self.is_unresolved
            or self.is_first_in_log
            or self.identity != identity
            or self.last_acked_sequence == NO_SEQUENCE
            or self.outstanding[0].attempts > 1
        )

    def acknowledge(self, batch: Batch, base_offset: int) -> None:
        """A batch was written."""
        self.forget(batch)
        if not self.has_new_log:
            self.is_first_in_log = False
        if batch.identity != self.identity:
            return
        last = next_sequence(batch.base_sequence, batch.record_count - 1)
        if (last - self.last_acked_sequence) & 0x7FFFFFFF < 1 << 30:  # Not after it, even if sequences wrap.
            self.last_acked_sequence = last
        if base_offset >= 0:
            self.last_acked_offset = max(self.last_acked_offset, base_offset + batch.record_count - 1)

    def forget(self, batch: Batch) -> None:
        """A batch is done with, or was split."""
        if batch in self.outstanding:
            self.outstanding.remove(batch)

    def replace(self, batch: Batch, parts: tuple[Batch, ...]) -> None:
        """A batch was split: its parts carry its sequences."""
        self.forget(batch)
        for part in parts:
            insort(self.outstanding, part, key=self._distance)

    def _distance(self, batch: Batch) -> int:
        """Return a number that grows with a batch's place, even where the sequences wrap to 0."""
        return (batch.base_sequence - self.next) & 0x7FFFFFFF

    def restart(self, identity: ProducerIdentity) -> None:
        """Start at 0 with this identity, and renumber outstanding batches."""
        self.identity = identity
        self.next = 0
        self.last_acked_sequence = NO_SEQUENCE
        self.is_unresolved = False
        for batch in self.outstanding:
            batch.has_other_number = batch.has_other_number or batch.may_be_written
            batch.identity = identity
            batch.base_sequence = self.next
            batch.sequence_was_reset = True
            self.next = next_sequence(self.next, batch.record_count)

    def begin_new_log(self) -> list[Batch]:
        """Continue in the log of another topic, with nothing in flight.

        Return the batches that must not be sent there.
        The batches keep their numbers: if the news of the topic is outdated, and the other log
        accepts records, it recognizes those that it has. If a batch may have another number there,
        that cannot be decided.
        """
        self.has_new_log = False
        self.is_first_in_log = True
        return [each for each in self.outstanding if each.has_other_number]

    def is_next(self, batch: Batch) -> bool:
        """Whether everything before a batch is known to be written."""
        return batch.base_sequence == next_sequence(self.last_acked_sequence, 1)

    def has_gap(self) -> bool:
        """Whether, with nothing outstanding, not everything that was sent is known to be written."""
        return self.next != next_sequence(self.last_acked_sequence, 1)

    def is_broken_by(self, batch: Batch, code: ErrorCode, log_start_offset: int) -> bool:
        """Whether a refusal means that only a new epoch helps; otherwise the batch is just sent again.

        For OUT_OF_ORDER_SEQUENCE_NUMBER and UNKNOWN_PRODUCER_ID.
        """
        if batch.identity != self.identity:
            return False  # The epoch was raised while it was in flight.
        if self.has_new_log:
            return False  # The old log's answer does not matter: the batch goes to the new one.
        if self.is_first_in_log:
            return True
        if code is ErrorCode.UNKNOWN_PRODUCER_ID:
            return log_start_offset != -1 and not batch.sequence_was_reset
        if self.is_unresolved:
            return self.outstanding[0] is batch
        return self.is_next(batch) and not batch.sequence_was_reset
