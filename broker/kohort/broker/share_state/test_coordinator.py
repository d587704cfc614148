"""The share coordinator: what it keeps, whom it shuts out, and that its log says all that it knows."""

from collections.abc import Sequence
from itertools import count
from random import Random
from typing import TypeVar
from uuid import UUID

import pytest

from kohort.broker.group.decision import Decision, Note, Record, Reply
from kohort.broker.share_state import coordinator
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
from kohort.broker.share_state.coordinator import ENDED_KEPT_MS, ShareStateConfig, ShareStateCoordinator
from kohort.broker.share_state.state import (
    TRIES,
    UNKNOWN_COUNT,
    UNKNOWN_OFFSET,
    ShareKey,
    next_life,
    next_try,
)
from kohort.broker.share_state.test_state import batch
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.delete_share_group_state import DeleteShareGroupStatePartitionResult
from kohort.protocol.messages.initialize_share_group_state import InitializeShareGroupStatePartitionResult
from kohort.protocol.messages.read_share_group_state import ReadShareGroupStatePartitionResult
from kohort.protocol.messages.read_share_group_state_summary import ReadShareGroupStateSummaryPartitionResult
from kohort.protocol.messages.write_share_group_state import WriteShareGroupStatePartitionResult
from kohort.protocol.schema import Message
from kohort.protocol.share_state_log import (
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareStateBatch,
    ShareUpdateKey,
    ShareUpdateValue,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)

M = TypeVar("M", bound=Message)
KEY = ShareKey("g", UUID(int=1), 0)
OTHER = ShareKey("g", UUID(int=2), 0)


class World:
    """A shell whose log is a list of bytes."""

    def __init__(self, updates_per_snapshot: int = 3) -> None:
        self.config = ShareStateConfig(updates_per_snapshot)
        self.core = ShareStateCoordinator(self.config)
        self.log: list[tuple[bytes, bytes | None]] = []
        self.ids = count(1)

    def run(self, decision: Decision) -> list[Message]:
        for record in decision.records:
            self.log.append(encoded(record))
            self.core.replay(record)
        assert told(self.loaded()) == told(self.core)
        return [each.message for each in decision.effects if isinstance(each, Reply)]

    def ask(self, kind: type[M], command: object) -> M:
        (answer,) = self.run(self.core.handle(command, 1_000))
        assert isinstance(answer, kind)
        return answer

    def loaded(self, log: Sequence[tuple[bytes, bytes | None]] | None = None) -> ShareStateCoordinator:
        core = ShareStateCoordinator(self.config)
        for key, value in self.log if log is None else log:
            core.replay(decoded(key, value))
        return core

    def initialize(self, epoch: int = 1, start: int = 0, key: ShareKey = KEY) -> int:
        command = InitializeState(next(self.ids), key, epoch, start)
        return self.ask(InitializeShareGroupStatePartitionResult, command).error_code

    def write(
        self, *batches: ShareStateBatch, start: int = 0, state_epoch: int = 1, leader_epoch: int = 0
    ) -> int:
        command = WriteState(next(self.ids), KEY, state_epoch, leader_epoch, start, 0, batches)
        return self.ask(WriteShareGroupStatePartitionResult, command).error_code

    def read(self, leader_epoch: int = 0) -> ReadShareGroupStatePartitionResult:
        return self.ask(ReadShareGroupStatePartitionResult, ReadState(next(self.ids), KEY, leader_epoch))


def encoded(record: Record) -> tuple[bytes, bytes | None]:
    key, value = record.key, record.value
    assert isinstance(key, ShareSnapshotKey | ShareUpdateKey)
    assert value is None or isinstance(value, ShareSnapshotValue | ShareUpdateValue)
    return encode_key(key), None if value is None else encode_value(value)


def decoded(key: bytes, value: bytes | None) -> Record:
    found = decode_key(key)
    assert found is not None
    return Record(found, None if value is None else decode_value(found, value))


def told(core: ShareStateCoordinator) -> object:
    return core.ended, {
        key: (each.state_epoch, each.leader_epoch, each.start_offset, tuple(each.batches))
        for key, each in core.states.items()
    }


def test_written_state_is_read_and_a_new_start_drops_earlier_batches() -> None:
    world = World()
    assert world.initialize(start=-1) == ErrorCode.NONE
    assert (world.read().start_offset, world.read().state_epoch) == (-1, 1)
    assert world.write(batch(3, 5), batch(7, 7, 0, 2), start=2) == ErrorCode.NONE
    assert world.write(start=4) == ErrorCode.NONE
    found = world.read()
    assert found.start_offset == 4
    assert [(each.first_offset, each.last_offset) for each in found.state_batches] == [(4, 5), (7, 7)]


def test_many_updates_make_a_snapshot_and_only_later_records_are_needed() -> None:
    world = World(updates_per_snapshot=3)
    world.initialize()
    for offset in range(1, 20, 2):
        world.write(batch(offset, offset))
    snapshots = [
        at
        for at, (key, value) in enumerate(world.log)
        if isinstance(decoded(key, value).key, ShareSnapshotKey)
    ]
    assert snapshots == [0, 4, 8]
    assert told(world.loaded(world.log[8:])) == told(world.core)


def test_older_leader_and_state_epochs_are_fenced() -> None:
    world = World()
    world.initialize(epoch=2)
    assert world.read(leader_epoch=5).error_code == ErrorCode.NONE
    assert world.read(leader_epoch=4).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert world.write(batch(1, 1), state_epoch=2, leader_epoch=4) == ErrorCode.FENCED_LEADER_EPOCH
    assert world.write(batch(1, 1), state_epoch=1, leader_epoch=5) == ErrorCode.FENCED_STATE_EPOCH
    assert world.initialize(epoch=1) == ErrorCode.FENCED_STATE_EPOCH
    assert world.write(batch(1, 1), state_epoch=2, leader_epoch=5) == ErrorCode.NONE
    assert world.initialize(epoch=3, start=7) == ErrorCode.NONE
    found = world.read(leader_epoch=5)
    assert (found.start_offset, found.state_batches, found.state_epoch) == (7, (), 3)


@pytest.mark.parametrize("wrong", [batch(5, 4), batch(-1, 3)])
def test_an_invalid_range_changes_nothing(wrong: ShareStateBatch) -> None:
    world = World()
    assert world.write(batch(1, 1)) == ErrorCode.INVALID_REQUEST  # There is no such share partition yet.
    world.initialize()
    assert world.write(batch(1, 1), wrong) == ErrorCode.INVALID_REQUEST
    assert world.read().state_batches == ()
    assert world.initialize(start=-2) == ErrorCode.INVALID_REQUEST


def test_deleted_state_is_unknown() -> None:
    world = World()
    world.initialize()
    world.initialize(key=OTHER)
    for _ in range(2):
        deleted = world.ask(DeleteShareGroupStatePartitionResult, DeleteState(next(world.ids), KEY))
        assert deleted.error_code == ErrorCode.NONE
    summary = world.ask(ReadShareGroupStateSummaryPartitionResult, ReadSummary(next(world.ids), KEY))
    assert (summary.error_code, summary.start_offset) == (ErrorCode.NONE, -1)
    assert world.read().start_offset == -1
    world.run(world.core.handle(ForgetTopics(frozenset((OTHER.topic_id,))), 0))
    assert not world.core.states
    assert world.write(batch(1, 1)) == ErrorCode.INVALID_REQUEST


def delete(world: World, key: ShareKey = KEY) -> None:
    answer = world.ask(DeleteShareGroupStatePartitionResult, DeleteState(next(world.ids), key))
    assert answer.error_code == ErrorCode.NONE


def begin_life(world: World) -> int:
    """Begin another life as a group's coordinator does, and return its state epoch."""
    summary = world.ask(ReadShareGroupStateSummaryPartitionResult, ReadSummary(next(world.ids), KEY))
    epoch = next_life(summary.state_epoch)
    assert world.initialize(epoch, start=-1) == ErrorCode.NONE
    return epoch


def test_a_request_of_a_deleted_share_group_does_not_change_its_successor() -> None:
    world = World()
    first = begin_life(world)
    world.write(batch(0, 3), state_epoch=first)
    delete(world)
    for _ in range(2):  # Also where the coordinator has been loaded anew, or has pruned its log.
        assert world.initialize(first, start=-1) == ErrorCode.FENCED_STATE_EPOCH
        assert world.read().start_offset == -1
        world.core = world.loaded()
        world.run(world.core.handle(SnapshotAll(len(world.log)), 1_000))
    second = begin_life(world)
    world.write(batch(5, 7), state_epoch=second, start=5)
    for late in (first, next_try(first), next_life(first) - 1):
        assert world.write(batch(8, 9), state_epoch=late) == ErrorCode.FENCED_STATE_EPOCH
        assert world.initialize(late, start=-1) == ErrorCode.FENCED_STATE_EPOCH
    assert [(each.first_offset, each.last_offset) for each in world.read().state_batches] == [(5, 7)]


def test_a_repeated_initialization_keeps_later_writes() -> None:
    world = World()
    epoch = begin_life(world)
    world.write(batch(0, 3), state_epoch=epoch)
    assert world.initialize(epoch, start=-1) == ErrorCode.NONE
    assert len(world.read().state_batches) == 1
    assert world.initialize(epoch, start=9) == ErrorCode.NONE, "an administrator has it begin elsewhere"
    assert (world.read().start_offset, world.read().state_batches) == (9, ())


def test_a_write_with_a_higher_epoch_fences_earlier_ones() -> None:
    world = World()
    epoch = begin_life(world)
    world.write(batch(0, 3), state_epoch=epoch)
    command = WriteState(next(world.ids), KEY, next_try(epoch), 0, UNKNOWN_OFFSET, UNKNOWN_COUNT, ())
    assert world.ask(WriteShareGroupStatePartitionResult, command).error_code == ErrorCode.NONE
    assert world.write(batch(0, 3, 0), state_epoch=epoch) == ErrorCode.FENCED_STATE_EPOCH
    assert world.read().state_epoch == next_try(epoch)
    assert [(each.first_offset, each.last_offset) for each in world.read().state_batches] == [(0, 3)]


def test_the_number_of_remembered_deleted_states_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinator, "ENDED_MAX", 2)
    world = World()
    keys = [ShareKey("g", UUID(int=number), 0) for number in range(4)]
    for key in keys:
        world.initialize(7, key=key)
    delete(world, keys[3])
    world.run(world.core.handle(ForgetTopics(frozenset(key.topic_id for key in keys[:3])), 1_000))
    assert list(world.core.ended) == keys[1:3]
    world.run(world.core.handle(SnapshotAll(0), 1_000 + ENDED_KEPT_MS))
    assert not world.core.ended


def test_retries_of_one_initialization_never_reach_the_epoch_of_the_next() -> None:
    epoch = next_life(0)
    for _ in range(2 * TRIES):
        epoch = next_try(epoch)
    assert epoch == next_life(next_life(0)) - 1
    assert next_life(2**31 - 1) == 2**31 - 1


def test_a_summary_has_the_start_offset_and_the_number_of_completed_records() -> None:
    world = World()
    world.initialize(start=5)
    command = WriteState(next(world.ids), KEY, 1, 3, 6, 2, (batch(8, 9),))
    world.ask(WriteShareGroupStatePartitionResult, command)
    summary = world.ask(ReadShareGroupStateSummaryPartitionResult, ReadSummary(next(world.ids), KEY))
    assert (summary.start_offset, summary.leader_epoch, summary.delivery_complete_count) == (6, 3, 2)


def test_snapshots_of_all_make_the_log_before_them_needless() -> None:
    world = World(updates_per_snapshot=500)
    world.initialize()
    world.initialize(key=OTHER)
    world.write(batch(1, 1))
    end = len(world.log)
    decision = world.core.handle(SnapshotAll(end), 0)
    world.run(decision)
    assert decision.effects == (Note(Snapshotted(end)),)  # type: ignore[arg-type]  # As the core does.
    assert told(world.loaded(world.log[end:])) == told(world.core)


@pytest.mark.parametrize("seed", range(20))
def test_the_log_contains_all_state(seed: int) -> None:
    random = Random(seed)
    world = World(random.choice((0, 1, 3, 500)))
    for _ in range(100):
        first = random.randrange(30)
        world.read(random.randrange(3))
        if random.random() < 0.2:
            world.initialize(random.randrange(3), random.randrange(-1, 5))
        world.write(
            batch(first, first + random.randrange(5), random.choice((0, 2, 4)), random.randrange(1, 4)),
            start=random.randrange(-1, 20),
            state_epoch=random.randrange(3),
            leader_epoch=random.randrange(3),
        )
