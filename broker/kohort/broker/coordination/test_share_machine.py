"""Share state read back from its log: every record counts, and what a core trips over is left out alone."""

from uuid import UUID

from kohort.broker.coordination.loading import loaded_core
from kohort.broker.coordination.share_machine import ShareStateMachine
from kohort.broker.group import Record
from kohort.broker.share_state.coordinator import ShareStateConfig, ShareStateCoordinator
from kohort.broker.share_state.state import ShareKey
from kohort.protocol.records import build_batch
from kohort.protocol.share_state_log import (
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareStateBatch,
    ShareUpdateKey,
    ShareUpdateValue,
)

TOPIC = UUID(int=1)
KEY = ShareKey("g", TOPIC, 0)
MACHINE = ShareStateMachine(ShareStateConfig())
SNAPSHOT = Record(
    ShareSnapshotKey(group_id="g", topic_id=TOPIC, partition=0),
    ShareSnapshotValue(
        snapshot_epoch=0,
        state_epoch=1,
        leader_epoch=0,
        start_offset=0,
        create_timestamp=1,
        write_timestamp=1,
        state_batches=(),
    ),
)


def update(offset: int) -> Record:
    done = ShareStateBatch(first_offset=offset, last_offset=offset, delivery_state=2, delivery_count=1)
    return Record(
        ShareUpdateKey(group_id="g", topic_id=TOPIC, partition=0),
        ShareUpdateValue(snapshot_epoch=0, leader_epoch=0, start_offset=0, state_batches=(done,)),
    )


def loaded(*records: Record) -> ShareStateCoordinator:
    batch = build_batch([(1, *MACHINE.encode(record), ()) for record in records])
    return loaded_core(MACHINE, [memoryview(batch)], 0)


def test_every_update_in_the_log_counts() -> None:
    state = loaded(SNAPSHOT, update(3), update(5)).states[KEY]
    assert [(each.first_offset, each.last_offset) for each in state.batches] == [(3, 3), (5, 5)]
    state = loaded(SNAPSHOT, update(3), SNAPSHOT, update(5)).states[KEY]
    assert [each.first_offset for each in state.batches] == [5]


def test_an_update_without_its_snapshot_is_ignored() -> None:
    assert not loaded(update(3)).states
    assert not loaded(SNAPSHOT, update(3), Record(SNAPSHOT.key, None), update(4)).states


def test_a_record_of_a_newer_type_is_skipped() -> None:
    assert MACHINE.decode(b"\0\7whatever", b"") is None
