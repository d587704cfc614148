"""A shard's log read back: the newest record of each key counts, and what is damaged harms nothing else."""

from kohort.broker.coordination.group_machine import GroupMachine
from kohort.broker.coordination.loading import loaded_core
from kohort.broker.group import GroupConfig, GroupCoordinator
from kohort.protocol.offsets_topic import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    encode_key,
    encode_value,
)
from kohort.protocol.records import Compression, ControlType, build_batch, build_transaction_marker

Pair = tuple[bytes, bytes | None]
COMMIT, ABORT = ControlType.COMMIT, ControlType.ABORT


def commit(partition: int, offset: int | None) -> Pair:
    """Return the record of a commit; None takes it away."""
    key = encode_key(OffsetCommitKey(group="g", topic="t", partition=partition))
    if offset is None:
        return key, None
    return key, encode_value(OffsetCommitValue(offset=offset, metadata="", commit_timestamp=1))


def batch(*records: Pair) -> memoryview:
    return memoryview(build_batch([(1, key, value, ()) for key, value in records]))


def loaded(*batches: memoryview) -> GroupCoordinator:
    return loaded_core(GroupMachine(GroupConfig()), batches, 0)


def offsets(core: GroupCoordinator) -> dict[int, int]:
    return {index: value.offset for index, value in core.groups["g"].offsets["t"].items()}


def test_the_newest_record_of_each_key_counts() -> None:
    core = loaded(
        batch(commit(0, 1), commit(1, 5)), batch(commit(0, 2)), batch(commit(1, None), commit(2, 7))
    )
    assert offsets(core) == {0: 2, 2: 7}


def test_a_group_that_was_deleted_and_created_again_has_only_later_records() -> None:
    group = encode_key(GroupMetadataKey(group="g"))
    value = encode_value(
        GroupMetadataValue(protocol_type="consumer", generation=3, protocol=None, leader=None, members=())
    )
    gone = batch(commit(0, None), (group, None))
    core = loaded(batch((group, value), commit(0, 1)), gone, batch(commit(1, 4)))
    assert offsets(core) == {1: 4}
    assert core.groups["g"].generation_id == 0


def test_only_a_damaged_batch_is_skipped() -> None:
    damaged = bytearray(batch(commit(0, 2), commit(1, 2)))
    damaged[-3] ^= 1
    core = loaded(batch(commit(0, 1)), memoryview(damaged), batch(commit(2, 3)))
    assert offsets(core) == {0: 1, 2: 3}


def test_only_an_unknown_value_version_is_skipped() -> None:
    key, _ = commit(0, 1)
    assert offsets(loaded(batch((key, b"\0\x63what a newer Kafka writes"), commit(1, 3)))) == {1: 3}


def test_keys_of_an_unknown_type_are_skipped() -> None:
    assert offsets(loaded(batch((b"\0\x09whatever", b"it says"), commit(1, 3)))) == {1: 3}


def of_transaction(producer_id: int, *records: Pair) -> memoryview:
    rows = [(1, key, value, ()) for key, value in records]
    return memoryview(build_batch(rows, producer_id=producer_id, producer_epoch=0, is_transactional=True))


def at(offset: int, built: memoryview) -> memoryview:
    """Return the batch as a log has it at that offset, which no checksum covers."""
    return memoryview(offset.to_bytes(8, "big") + bytes(built[8:]))


def marker(kind: ControlType, producer_id: int) -> memoryview:
    built = build_transaction_marker(
        kind, timestamp_ms=1, producer_id=producer_id, producer_epoch=0, coordinator_epoch=0
    )
    return memoryview(built)


def test_commits_of_a_transaction_count_from_its_marker() -> None:
    core = loaded(
        of_transaction(5, commit(0, 1), commit(1, 1)),
        batch(commit(0, 2)),
        of_transaction(6, commit(2, 1)),
        of_transaction(5, commit(3, 1)),
        marker(COMMIT, 5),
    )
    assert offsets(core) == {0: 2, 1: 1, 3: 1}, "neither counts what was committed over, nor what is open"
    core.end_pending(6, is_commit=True)
    assert offsets(core) == {0: 2, 1: 1, 2: 1, 3: 1}


def test_commits_of_an_aborted_transaction_never_count() -> None:
    core = loaded(
        batch(commit(0, 1)),
        of_transaction(5, commit(0, 2)),
        of_transaction(6, commit(1, 2)),
        marker(ABORT, 5),
        marker(COMMIT, 6),
        marker(COMMIT, 5),
    )
    assert offsets(core) == {0: 1, 1: 2}


def test_compressed_batches_are_read_as_well() -> None:
    key, value = commit(0, 7)
    assert offsets(loaded(memoryview(build_batch([(1, key, value, ())], compression=Compression.LZ4)))) == {
        0: 7
    }


def test_a_load_beside_the_loop_pauses_regularly() -> None:
    told: list[int] = []
    batches = [batch(commit(place, 1), commit(place, 2)) for place in range(50)]
    loaded_core(GroupMachine(GroupConfig()), batches, 0, told.append)
    assert told[:50] == [len(each) for each in batches]
    assert len(told) == 100, "once for each batch, and once for each key that is left"


def test_of_two_open_transactions_the_last_write_counts_in_either_order_of_their_ends() -> None:
    core = loaded(
        at(0, of_transaction(5, commit(1, 1))),  # So that this one is known first ...
        at(1, of_transaction(6, commit(0, 1))),
        at(2, of_transaction(5, commit(0, 2))),  # ... and has written partition 0 last.
    )
    core.end_pending(5, is_commit=True)
    core.end_pending(6, is_commit=True)
    assert offsets(core) == {0: 2, 1: 1}


def test_only_an_unknown_value_in_an_open_transaction_is_skipped() -> None:
    key, _ = commit(0, 1)
    core = loaded(of_transaction(5, (key, b"\0\x63what a newer Kafka writes"), commit(1, 3)))
    core.end_pending(5, is_commit=True)
    assert offsets(core) == {1: 3}
