"""What leaders of partitions and group coordinators ask of the share coordinator, one partition each."""

from collections.abc import Sequence
from uuid import UUID

import msgspec

from kohort.broker.share_state.state import ShareKey
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.delete_share_group_state import DeleteShareGroupStatePartitionResult
from kohort.protocol.messages.initialize_share_group_state import InitializeShareGroupStatePartitionResult
from kohort.protocol.messages.read_share_group_state import ReadShareGroupStatePartitionResult
from kohort.protocol.messages.read_share_group_state_summary import ReadShareGroupStateSummaryPartitionResult
from kohort.protocol.messages.write_share_group_state import WriteShareGroupStatePartitionResult
from kohort.protocol.schema import Message
from kohort.protocol.share_state_log import ShareStateBatch


class InitializeState(msgspec.Struct, frozen=True, gc=False):
    """Initialize a state, possibly again: InitializeShareGroupStatePartitionResult."""

    request_id: int
    key: ShareKey
    state_epoch: int
    start_offset: int

    def refused(self, code: ErrorCode, message: str | None = None) -> Message:
        """Return the answer that says why not."""
        return InitializeShareGroupStatePartitionResult(
            partition=self.key.partition, error_code=code, error_message=message
        )


class ReadState(msgspec.Struct, frozen=True, gc=False):
    """Return all state to a leader, and fence earlier leaders: ReadShareGroupStatePartitionResult."""

    request_id: int
    key: ShareKey
    leader_epoch: int

    def refused(self, code: ErrorCode, message: str | None = None) -> Message:
        """Return the answer that says why not."""
        return ReadShareGroupStatePartitionResult(
            partition=self.key.partition,
            error_code=code,
            error_message=message,
            state_epoch=0,
            start_offset=0,
            state_batches=(),
        )


class WriteState(msgspec.Struct, frozen=True, gc=False):
    """Write changes: WriteShareGroupStatePartitionResult."""

    request_id: int
    key: ShareKey
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: Sequence[ShareStateBatch]

    def refused(self, code: ErrorCode, message: str | None = None) -> Message:
        """Return the answer that says why not."""
        return WriteShareGroupStatePartitionResult(
            partition=self.key.partition, error_code=code, error_message=message
        )


class ReadSummary(msgspec.Struct, frozen=True, gc=False):
    """Return the start offset of a share partition to anybody: ReadShareGroupStateSummaryPartitionResult."""

    request_id: int
    key: ShareKey

    def refused(self, code: ErrorCode, message: str | None = None) -> Message:
        """Return the answer that says why not."""
        return ReadShareGroupStateSummaryPartitionResult(
            partition=self.key.partition,
            error_code=code,
            error_message=message,
            state_epoch=0,
            leader_epoch=0,
            start_offset=0,
        )


class DeleteState(msgspec.Struct, frozen=True, gc=False):
    """Forget a share partition: DeleteShareGroupStatePartitionResult."""

    request_id: int
    key: ShareKey

    def refused(self, code: ErrorCode, message: str | None = None) -> Message:
        """Return the answer that says why not."""
        return DeleteShareGroupStatePartitionResult(
            partition=self.key.partition, error_code=code, error_message=message
        )


class ForgetTopics(msgspec.Struct, frozen=True):
    """Forget all share partitions of topics that are gone. Not answered."""

    topic_ids: frozenset[UUID]


class SnapshotAll(msgspec.Struct, frozen=True, gc=False):
    """Log a snapshot of everything, so that the log before them is not needed: the note `Snapshotted`."""

    end_offset: int
    """Where the log ended before that."""


class Snapshotted(msgspec.Struct, frozen=True, gc=False):
    """The log is not needed any more up to there."""

    end_offset: int
