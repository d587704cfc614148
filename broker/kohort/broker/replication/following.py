"""One partition of a follower: how to handle an answer, and where the next fetch starts.

The order is: append the records byte for byte, sync, and only then fetch the next ones. If the logs
diverge, this one is truncated to the end of the largest common epoch, never by the high watermark.
Source: kafka.server.AbstractFetcherThread, ReplicaFetcherThread; KIP-101, KIP-279, KIP-595.
"""

from dataclasses import dataclass

from kohort.broker.metadata.partition_state import PartitionState
from kohort.broker.replication.logs import ReplicatedLog
from kohort.broker.replication.replica_fetch import Diverging, FetchFrom
from kohort.protocol.errors import ErrorCode


@dataclass(frozen=True, slots=True)
class Append:
    """Append the records that came, sync them, then call `synced`."""

    high_watermark: int
    log_start_offset: int


@dataclass(frozen=True, slots=True)
class Truncate:
    """Truncate the log to this offset, on the disk as well, then call `truncated`, and fetch again."""

    offset: int


@dataclass(frozen=True, slots=True)
class Restart:
    """Empty the log and begin at this offset: the leader has nothing before it; then call `truncated`."""

    offset: int


@dataclass(frozen=True, slots=True)
class Retry:
    """Ask again after a while. The leader may not know its epoch yet, or this broker not the newest one."""

    error_code: ErrorCode


class Following:
    """A partition under one leader epoch. A new leader epoch is a new one of these.

    `high_watermark` is the leader's, as far as this log goes: consumers read below it.
    """

    def __init__(self, state: PartitionState, log: ReplicatedLog, *, high_watermark: int) -> None:
        self.state = state
        self.log = log
        self.high_watermark = min(high_watermark, log.log_end_offset)
        self._leader_high_watermark = self.high_watermark

    def follow(self, state: PartitionState) -> None:
        """Apply the current metadata, of the same leader epoch."""
        assert state.leader_epoch == self.state.leader_epoch, (state, self.state)
        self.state = state

    def next_fetch(self) -> FetchFrom | None:
        """Return where to fetch from; None while something of the log is not on the disk yet."""
        log = self.log
        if log.flushed_offset < log.log_end_offset:
            return None
        return FetchFrom(log.log_end_offset, log.latest_epoch, self.state.leader_epoch, log.log_start_offset)

    def answered(self, high_watermark: int, log_start_offset: int) -> Append:
        """Return how to handle records from the fetch offset; there may be none."""
        self._leader_high_watermark = high_watermark
        return Append(high_watermark, log_start_offset)

    def synced(self) -> bool:
        """Return whether consumers may read more, now that the records are on the disk."""
        known = min(self._leader_high_watermark, self.log.flushed_offset)
        if known <= self.high_watermark:
            return False
        self.high_watermark = known
        return True

    def diverged(self, found: Diverging) -> Truncate:
        """Return where to cut: the end of the largest epoch that both logs have.

        If this log does not have the leader's epoch, the next fetch asks about an older one.
        """
        log = self.log
        epoch, end_offset = log.end_offset_for_epoch(found.epoch)
        if epoch == found.epoch:
            end_offset = min(end_offset, found.end_offset)
        elif epoch < 0:
            end_offset = found.end_offset
        return Truncate(min(end_offset, log.log_end_offset))

    def gap(self, offset: int) -> Truncate:
        """Return where to cut a log that has lost records from this offset on: what follows comes again."""
        return Truncate(min(offset, self.log.log_end_offset))

    def truncated(self) -> None:
        """Note that the log is shorter. Only after an unclean election was that committed."""
        self.high_watermark = min(self.high_watermark, self.log.log_end_offset)
        self._leader_high_watermark = min(self._leader_high_watermark, self.high_watermark)

    def out_of_range(self, leader_start_offset: int, leader_end_offset: int) -> Truncate | Restart | None:
        """Return what to do if the leader lacks this log's end, by the range of the leader's log."""
        end_offset = self.log.log_end_offset
        if leader_end_offset < end_offset:
            return Truncate(leader_end_offset)
        if leader_start_offset > end_offset:
            return Restart(leader_start_offset)
        return None

    def failed(self, error_code: ErrorCode) -> Retry:
        """Return what to do about a transient error."""
        return Retry(error_code)
