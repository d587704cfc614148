"""The share coordinator: commands in, records and effects out, and nothing besides.

Source: Kafka's ShareCoordinatorShard. A leader that reads the state with a newer epoch fences those
before it, and a state that is initialized again fences users of the old one.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from kohort.broker.group.decision import NOTHING, Decision, Note, Record, Reply
from kohort.broker.share_state.commands import (
    DeleteState,
    ForgetTopics,
    InitializeState,
    ReadState,
    ReadSummary,
    SnapshotAll,
    Snapshotted,
    WriteState,
)
from kohort.broker.share_state.state import NO_EPOCH, UNKNOWN_COUNT, UNKNOWN_OFFSET, ShareKey, ShareState
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.delete_share_group_state import DeleteShareGroupStatePartitionResult
from kohort.protocol.messages.initialize_share_group_state import InitializeShareGroupStatePartitionResult
from kohort.protocol.messages.read_share_group_state import (
    ReadShareGroupStateBatch,
    ReadShareGroupStatePartitionResult,
)
from kohort.protocol.messages.read_share_group_state_summary import ReadShareGroupStateSummaryPartitionResult
from kohort.protocol.messages.write_share_group_state import WriteShareGroupStatePartitionResult
from kohort.protocol.schema import Message
from kohort.protocol.share_state_log import (
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareUpdateKey,
    ShareUpdateValue,
)

NONE = ErrorCode.NONE
ENDED = -1
"""Replaces the creation time of a state in the record of a deleted one."""
ENDED_MAX = 1_000
"""The epochs of so many deleted share partitions are remembered ..."""
ENDED_KEPT_MS = 3_600_000
"""... and for this long at least, until the log is pruned: by then no request is under way any more."""


class Ended(NamedTuple):
    """A share partition that was deleted: under which state epoch it was kept, and when that ended."""

    state_epoch: int
    at_ms: int


class ShareStateConfig(msgspec.Struct, frozen=True):
    """The settings of the share coordinator."""

    updates_per_snapshot: int = 500
    write_timeout_ms: int = 5_000


class ShareStateCoordinator:
    """The share partitions of one partition of `__share_group_state`, as a state machine."""

    def __init__(self, config: ShareStateConfig) -> None:
        self.config = config
        self.states: dict[ShareKey, ShareState] = {}
        self.ended: dict[ShareKey, Ended] = {}
        """Deleted share partitions, with the epochs that distinguish their next state from them."""
        self._handlers: dict[type, Callable[[Any, int], Decision]] = {
            InitializeState: self._initialize,
            ReadState: self._read,
            WriteState: self._write,
            ReadSummary: self._read_summary,
            DeleteState: self._delete,
            ForgetTopics: self._forget_topics,
            SnapshotAll: self._snapshot_all,
        }

    def handle(self, command: Any, now_ms: int) -> Decision:
        """Return what follows from the command at that time."""
        return self._handlers[type(command)](command, now_ms)

    def replay(self, record: Record) -> None:
        """Take over a record that was just decided, or one read from the log."""
        key, value = record.key, record.value
        assert isinstance(key, ShareSnapshotKey | ShareUpdateKey), key
        share_key = ShareKey(key.group_id, key.topic_id, key.partition)
        if value is None or isinstance(value, ShareSnapshotValue):
            self.states.pop(share_key, None)
            self.ended.pop(share_key, None)
        if value is None:
            return
        if isinstance(value, ShareSnapshotValue):
            if value.create_timestamp == ENDED:
                self.ended[share_key] = Ended(value.state_epoch, value.write_timestamp)
            else:
                self.states[share_key] = ShareState(value)
        else:
            assert isinstance(value, ShareUpdateValue), value
            state = self.states.get(share_key)
            if state is not None:  # Else its snapshot was lost, or it has been deleted.
                state.update(value)

    def loaded(self, now_ms: int) -> Decision:
        """Return nothing: stored state needs no timers."""
        return NOTHING

    def give_up(self, code: ErrorCode) -> Decision:
        """Return nothing: no request is parked."""
        return NOTHING

    def _initialize(self, command: InitializeState, now_ms: int) -> Decision:
        state, ended = self.states.get(command.key), self.ended.get(command.key)
        if (state is not None and command.state_epoch < state.state_epoch) or (
            ended is not None and command.state_epoch <= ended.state_epoch
        ):
            return _reply(command, command.refused(ErrorCode.FENCED_STATE_EPOCH, _FENCED_STATE))
        if command.start_offset < UNKNOWN_OFFSET or command.state_epoch < 0:
            return _reply(
                command, command.refused(ErrorCode.INVALID_REQUEST, "That is no offset or no epoch.")
            )
        answer = InitializeShareGroupStatePartitionResult(partition=command.key.partition, error_code=NONE)
        if (
            state is not None
            and command.state_epoch == state.state_epoch
            and command.start_offset == UNKNOWN_OFFSET
        ):
            return _reply(command, answer)  # A repeated initialization: later changes stay.
        value = ShareSnapshotValue(
            snapshot_epoch=0 if state is None else state.snapshot_epoch + 1,
            state_epoch=command.state_epoch,
            leader_epoch=0 if state is None else state.leader_epoch,
            start_offset=command.start_offset,
            delivery_complete_count=0,
            create_timestamp=now_ms,
            write_timestamp=now_ms,
            state_batches=(),
        )
        return _reply(command, answer, _snapshot_record(command.key, value))

    def _read(self, command: ReadState, now_ms: int) -> Decision:
        state = self.states.get(command.key)
        if state is None:
            answer = ReadShareGroupStatePartitionResult(
                partition=command.key.partition,
                error_code=NONE,
                state_epoch=0,
                start_offset=UNKNOWN_OFFSET,
                state_batches=(),
            )
            return _reply(command, answer)
        if command.leader_epoch != NO_EPOCH and command.leader_epoch < state.leader_epoch:
            return _reply(command, command.refused(ErrorCode.FENCED_LEADER_EPOCH, _FENCED_LEADER))
        answer = ReadShareGroupStatePartitionResult(
            partition=command.key.partition,
            error_code=NONE,
            state_epoch=state.state_epoch,
            start_offset=state.start_offset,
            state_batches=tuple(
                ReadShareGroupStateBatch(
                    first_offset=each.first_offset,
                    last_offset=each.last_offset,
                    delivery_state=each.delivery_state,
                    delivery_count=each.delivery_count,
                )
                for each in state.batches
            ),
        )
        if command.leader_epoch <= state.leader_epoch:
            return _reply(command, answer)
        value = ShareUpdateValue(
            snapshot_epoch=state.snapshot_epoch,
            leader_epoch=command.leader_epoch,
            start_offset=state.start_offset,
            delivery_complete_count=state.delivery_complete_count,
            state_batches=(),
        )
        return _reply(command, answer, self._update_record(command.key, state, value, now_ms))

    def _write(self, command: WriteState, now_ms: int) -> Decision:
        state = self.states.get(command.key)
        if state is None:
            words = "The share partition was not initialized."
            return _reply(command, command.refused(ErrorCode.INVALID_REQUEST, words))
        if command.leader_epoch != NO_EPOCH and command.leader_epoch < state.leader_epoch:
            return _reply(command, command.refused(ErrorCode.FENCED_LEADER_EPOCH, _FENCED_LEADER))
        if command.state_epoch != NO_EPOCH and command.state_epoch < state.state_epoch:
            return _reply(command, command.refused(ErrorCode.FENCED_STATE_EPOCH, _FENCED_STATE))
        if any(not 0 <= each.first_offset <= each.last_offset for each in command.batches):
            return _reply(command, command.refused(ErrorCode.INVALID_REQUEST, "A batch is no range."))
        value = ShareUpdateValue(
            snapshot_epoch=state.snapshot_epoch,
            leader_epoch=max(command.leader_epoch, state.leader_epoch),
            start_offset=command.start_offset,
            delivery_complete_count=state.delivery_complete_count
            if command.delivery_complete_count == UNKNOWN_COUNT
            else command.delivery_complete_count,
            state_batches=tuple(command.batches),
        )
        answer = WriteShareGroupStatePartitionResult(partition=command.key.partition, error_code=NONE)
        record = self._update_record(command.key, state, value, now_ms, command.state_epoch)
        return _reply(command, answer, record)

    def _update_record(
        self,
        key: ShareKey,
        state: ShareState,
        value: ShareUpdateValue,
        now_ms: int,
        state_epoch: int = NO_EPOCH,
    ) -> Record:
        """Return the record of the changes; of all state, after many updates since the last snapshot.

        A leader that writes with a higher state epoch fences its own earlier writes.
        """
        if state.updates < self.config.updates_per_snapshot and state_epoch <= state.state_epoch:
            return Record(
                ShareUpdateKey(group_id=key.group_id, topic_id=key.topic_id, partition=key.partition), value
            )
        epoch = state.snapshot_epoch + 1
        after = ShareState(state.snapshot(now_ms, epoch))
        after.state_epoch = max(state_epoch, state.state_epoch)
        after.update(value)
        return _snapshot_record(key, after.snapshot(now_ms, epoch))

    def _read_summary(self, command: ReadSummary, now_ms: int) -> Decision:
        state = self.states.get(command.key)
        start_offset, done_count = (UNKNOWN_OFFSET, -1) if state is None else state.progress()
        ended = self.ended.get(command.key)
        state_epoch = 0 if ended is None else ended.state_epoch
        answer = ReadShareGroupStateSummaryPartitionResult(
            partition=command.key.partition,
            error_code=NONE,
            state_epoch=state_epoch if state is None else state.state_epoch,
            leader_epoch=0 if state is None else state.leader_epoch,
            start_offset=start_offset,
            delivery_complete_count=done_count,
        )
        return _reply(command, answer)

    def _delete(self, command: DeleteState, now_ms: int) -> Decision:
        answer = DeleteShareGroupStatePartitionResult(partition=command.key.partition, error_code=NONE)
        if command.key not in self.states:
            return _reply(command, answer)
        return _reply(command, answer, *self._end((command.key,), now_ms))

    def _forget_topics(self, command: ForgetTopics, now_ms: int) -> Decision:
        gone = [key for key in self.states if key.topic_id in command.topic_ids]
        return Decision(self._end(gone, now_ms)) if gone else NOTHING

    def _end(self, keys: Sequence[ShareKey], now_ms: int) -> tuple[Record, ...]:
        """Return the records that delete these states, and that forget those deleted long ago."""
        known = [*self.ended, *keys]
        return (
            *(_snapshot_record(key, None) for key in known[:-ENDED_MAX]),
            *(_ended_record(key, self.states[key].state_epoch, now_ms) for key in keys[-ENDED_MAX:]),
        )

    def _snapshot_all(self, command: SnapshotAll, now_ms: int) -> Decision:
        records = [
            _snapshot_record(key, each.snapshot(now_ms, each.snapshot_epoch + 1))
            for key, each in self.states.items()
        ]
        for key, ended in self.ended.items():
            if now_ms - ended.at_ms >= ENDED_KEPT_MS:
                records.append(_snapshot_record(key, None))
            else:
                records.append(_ended_record(key, ended.state_epoch, ended.at_ms))
        return Decision(tuple(records), (Note(Snapshotted(command.end_offset)),))  # type: ignore[arg-type]


_FENCED_STATE = "The share partition has begun anew since."
_FENCED_LEADER = "The partition has a newer leader."


def _ended_record(key: ShareKey, state_epoch: int, at_ms: int) -> Record:
    """Return the record of a deleted state; Kafka reads it as a state that is not used yet."""
    value = ShareSnapshotValue(
        snapshot_epoch=0,
        state_epoch=state_epoch,
        leader_epoch=0,
        start_offset=UNKNOWN_OFFSET,
        delivery_complete_count=UNKNOWN_COUNT,
        create_timestamp=ENDED,
        write_timestamp=at_ms,
        state_batches=(),
    )
    return _snapshot_record(key, value)


def _snapshot_record(key: ShareKey, value: ShareSnapshotValue | None) -> Record:
    return Record(
        ShareSnapshotKey(group_id=key.group_id, topic_id=key.topic_id, partition=key.partition), value
    )


def _reply(command: Any, answer: Message, *records: Record) -> Decision:
    return Decision(records, (Reply(command.request_id, answer),))
