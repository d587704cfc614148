"""A fetch as the leader checks it: is it of my epoch, and does that log agree with mine.

Source: Kafka's Fetch 12 and newer (KIP-595's DivergingEpoch), UnifiedLog.read, Partition.readRecords.
"""

from dataclasses import dataclass

from kohort.broker.replication.logs import ReplicatedLog
from kohort.protocol.errors import ErrorCode

NO_EPOCH = -1
NO_OFFSET = -1


@dataclass(frozen=True, slots=True)
class FetchFrom:
    """Where somebody wants to read: the offset, the epoch of the record before it, and whose log it is.

    -1 is an unknown epoch: nothing is then compared. `log_start_offset` is the start of the
    reader's own log, -1 if it does not send it.
    """

    offset: int
    last_fetched_epoch: int = NO_EPOCH
    leader_epoch: int = NO_EPOCH
    log_start_offset: int = NO_OFFSET


@dataclass(frozen=True, slots=True)
class ReplicaFetch:
    """A follower's fetch: all before `at.offset` is on its disk.

    `broker_epoch` is that of its registration.
    """

    node_id: int
    broker_epoch: int
    at: FetchFrom


@dataclass(frozen=True, slots=True)
class Diverging:
    """The reader's log leaves the leader's: the leader's `epoch` ends at `end_offset`."""

    epoch: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class Served:
    """The fetch may be answered with records from its offset on, below `end_offset`."""

    end_offset: int
    high_watermark: int
    log_start_offset: int


def check_leader_epoch(known: int, asked: int) -> ErrorCode | None:
    """Return the error for a client with another leader epoch, None for the current one."""
    if asked in {NO_EPOCH, known}:
        return None
    return ErrorCode.FENCED_LEADER_EPOCH if asked < known else ErrorCode.UNKNOWN_LEADER_EPOCH


def answer_to(at: FetchFrom, log: ReplicatedLog) -> Diverging | ErrorCode | None:
    """Return where the reader's log diverges, an error, or None if it may continue from its offset."""
    if at.last_fetched_epoch != NO_EPOCH:
        epoch, end_offset = log.end_offset_for_epoch(at.last_fetched_epoch)
        if epoch == NO_EPOCH:
            return ErrorCode.OFFSET_OUT_OF_RANGE
        if epoch < at.last_fetched_epoch or end_offset < at.offset:
            return Diverging(epoch, end_offset)
    if not log.log_start_offset <= at.offset <= log.log_end_offset:
        return ErrorCode.OFFSET_OUT_OF_RANGE
    return None
