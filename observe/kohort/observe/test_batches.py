import random
import struct
from contextlib import suppress
from uuid import UUID

import msgspec
import pytest

from kohort.broker.explain.observed.events import AnyObserved
from kohort.client import TopicPartition
from kohort.client.batches import FetchedBatch
from kohort.observe import batches
from kohort.observe.batches import Commits, known_commits
from kohort.observe.records import Records
from kohort.observe.test_records import NOW, Log
from kohort.protocol.errors import WireError
from kohort.protocol.offsets_topic import OffsetCommitKey, OffsetCommitValue, encode_key, encode_value
from kohort.protocol.records import HEADER_BYTES, build_batch, read_header
from kohort.protocol.records.header import LOG_APPEND_TIME_FLAG

Taken = tuple[bytes, bytes | None, int]
PARTITION = TopicPartition("__consumer_offsets", 3)


def key_of(partition: int, group: str = "g") -> bytes:
    return encode_key(OffsetCommitKey(group=group, topic="t", partition=partition))


def value_of(offset: int, metadata: str = "") -> bytes:
    return encode_value(OffsetCommitValue(offset=offset, metadata=metadata, commit_timestamp=NOW))


def batch_of(*records: Taken, base_offset: int = 0, from_offset: int = 0) -> FetchedBatch:
    data = build_batch(((at_ms, key, value, ()) for key, value, at_ms in records), base_offset=base_offset)
    return FetchedBatch(PARTITION, read_header(data), data[HEADER_BYTES:], from_offset)


class NotedLog(Log):
    """Keeps what it writes."""

    def __init__(self) -> None:
        super().__init__()
        self.taken: list[Taken] = []
        take = self.records.take

        def note(key: bytes, value: bytes | None, at_ms: int, *, is_transactional: bool = False) -> None:
            self.taken.append((key, value, at_ms))
            take(key, value, at_ms, is_transactional=is_transactional)

        self.records.take = note  # type: ignore[method-assign]  # It calls the method that it replaces.


def history(chance: random.Random) -> NotedLog:
    """Return a log in which members come and go, commit, go back, and lose offsets."""
    log = NotedLog()
    log.generation(1, {"a": [0, 1, 2], "b": [3, 4]})
    for _ in range(chance.randrange(20, 120)):
        log.now_ms += chance.choice((0, 0, 0, 1, 40, 70, 9_000, 100_000))
        partition = chance.randrange(5)
        if chance.random() < 0.9:
            log.commit(partition, chance.choice((log.now_ms - NOW, chance.randrange(1_000))))
        elif chance.random() < 0.5:
            log.remove(partition)
        else:
            log.generation(chance.randrange(2, 9), chance.choice(({}, {"a": [0, 1]}, {"c": [0, 1, 2, 3, 4]})))
    return log


def state_of(records: Records) -> list[tuple[str, bytes | None, list[AnyObserved]]]:
    records.settle(NOW + 10**9)
    return [*records.drain()]


@pytest.mark.parametrize("seed", range(15))
def test_batches_tell_the_same_as_their_records_one_by_one(seed: int) -> None:
    chance = random.Random(seed)
    log = history(chance)
    records = Records(log.records.facts)
    begin = 0
    while begin < len(log.taken):
        end = begin + chance.randrange(1, 30)
        batch = batch_of(*log.taken[begin:end], base_offset=begin)
        newest_ms = records.take_batch(batch)
        assert newest_ms <= max(at_ms for *_, at_ms in log.taken[begin:end])
        begin = end
    assert records.records == log.records.records == len(log.taken)
    assert state_of(records) == state_of(log.records)


def test_commits_of_known_partitions_are_read_without_their_keys_being_decoded() -> None:
    known = {key_of(each): each for each in range(100)}
    records = [(key_of(each), value_of(1_000 + each), NOW + each) for each in range(100)]
    batch = batch_of(*records)
    found = known_commits(batch.header, batch.records, known.get)
    assert found == [(each, 1_000 + each, NOW + each) for each in range(100)]


@pytest.mark.parametrize(
    "other",
    [
        (key_of(0), None, NOW),
        (key_of(7), value_of(5), NOW),
        (key_of(0), b"\0\3", NOW),
        (key_of(0), b"", NOW),
        (b"", value_of(5), NOW),
        (bytes(300), value_of(5), NOW),
        (bytes(9_000), value_of(5), NOW),
    ],
)
def test_a_batch_with_another_record_is_left_to_the_slow_way(other: Taken) -> None:
    batch = batch_of((key_of(0), value_of(1), NOW), other)
    assert known_commits(batch.header, batch.records, {key_of(0): 0}.get) is None


@pytest.mark.parametrize("metadata", ["", "m" * 60, "m" * 200, "m" * 20_000])
def test_metadata_of_any_length_stands_behind_the_offset(metadata: str) -> None:
    log = Log()
    log.commit(0, 5)
    log.records.take_batch(batch_of((key_of(0), value_of(1 << 40, metadata), NOW)))
    assert log.records.groups["g"].places["t", 0].offset == 1 << 40


def test_of_a_batch_in_the_middle_of_which_reading_begins_the_rest_is_taken() -> None:
    log = Log()
    log.commit(0, 1)
    log.commit(1, 1)
    records = [(key_of(0), value_of(9), NOW), (key_of(1), value_of(8), NOW)]
    log.records.take_batch(batch_of(*records, base_offset=10, from_offset=11))
    places = log.records.groups["g"].places
    assert (places["t", 0].offset, places["t", 1].offset) == (1, 8)


def test_of_a_batch_that_ends_early_nothing_is_taken() -> None:
    log = Log()
    log.commit(0, 1)
    whole = batch_of((key_of(0), value_of(7), NOW), (key_of(0), value_of(8), NOW))
    for length in range(len(whole.records)):
        with pytest.raises(WireError):
            log.records.take_batch(whole._replace(records=whole.records[:length]))
    with pytest.raises(WireError):
        log.records.take_batch(whole._replace(records=whole.records + b"\0"))
    assert log.records.groups["g"].places["t", 0].offset == 1


@pytest.mark.parametrize("seed", range(8))
def test_damaged_batches_are_an_error_of_the_wire_or_nothing(seed: int) -> None:
    chance = random.Random(seed)
    log = Log()
    log.commit(0, 1)
    whole = batch_of(*((key_of(0), value_of(each), NOW) for each in range(chance.randrange(1, 70))))
    for _ in range(60):
        data = bytearray(whole.records)
        data[chance.randrange(len(data))] = chance.randrange(256)
        with suppress(WireError):
            log.records.take_batch(whole._replace(records=bytes(data)))


def test_a_batch_with_the_time_of_the_broker_has_that_time() -> None:
    log = Log()
    log.commit(0, 1)
    batch = batch_of((key_of(0), value_of(9), NOW))
    attributes = batch.header.attributes | LOG_APPEND_TIME_FLAG
    header = msgspec.structs.replace(batch.header, attributes=attributes, max_timestamp=NOW + 500)
    assert log.records.take_batch(batch._replace(header=header)) == NOW + 500
    assert log.records.groups["g"].places["t", 0].at_ms == NOW + 500


def test_the_layout_of_a_committed_offset_begins_with_version_and_offset() -> None:
    for topic_id in (0, 7):
        value = OffsetCommitValue(offset=-5, metadata="m", commit_timestamp=1, topic_id=UUID(int=topic_id))
        assert struct.unpack_from(">hq", encode_value(value)) == (4 if topic_id else 3, -5)


# Layouts


def commits_of(commits: Commits[int], batch: FetchedBatch) -> list[tuple[int, int, int]] | None:
    found = commits.of(batch.header, batch.records)
    if found is None:
        return None
    taken = [(*each, at_ms) for at_ms, commits in found for each in commits]
    assert batch.header.record_count == len(taken)
    return taken


def request(offset: int, at_ms: int, *, step_ms: int = 0, metadata: str = "") -> FetchedBatch:
    """Return the batch of a request that commits ten partitions."""
    return batch_of(
        *((key_of(each), value_of(offset + each, metadata), at_ms + each * step_ms) for each in range(10)),
        base_offset=offset,
    )


@pytest.mark.parametrize("step_ms", [0, 1, -3, 900])
@pytest.mark.parametrize("metadata", ["", "m" * 60, "m" * 200])
def test_a_layout_that_comes_again_is_read_at_once(
    metadata: str, step_ms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = {key_of(each): each for each in range(10)}
    commits = Commits(known)
    for offset in (1, 2):
        commits_of(commits, request(offset, NOW, step_ms=step_ms, metadata=metadata))
    monkeypatch.setattr(batches, "known_commits", None)
    found = commits_of(commits, request(1 << 40, NOW + 5, step_ms=step_ms, metadata=metadata))
    assert found == [(each, (1 << 40) + each, NOW + 5 + each * step_ms) for each in range(10)]


def test_no_byte_of_a_batch_is_passed_over_because_of_its_layout() -> None:
    known = {key_of(each): each for each in range(10)}
    batch = request(7, NOW)
    for place in range(len(batch.records)):
        for bit in (1, 0x80):
            commits = Commits(known)
            for _ in range(2):
                commits_of(commits, batch)
            changed = bytearray(batch.records)
            changed[place] ^= bit
            other = batch._replace(records=bytes(changed))
            assert commits_of(commits, other) == known_commits(other.header, other.records, known.get)


def test_a_damaged_batch_that_comes_again_is_an_error_of_the_wire_or_nothing() -> None:
    whole = batch_of(*((key_of(each), value_of(each), NOW + each) for each in range(3)))
    for place in range(len(whole.records)):
        for bit in range(8):
            log = Log()
            for each in range(3):
                log.commit(each, 1)
            changed = bytearray(whole.records)
            changed[place] ^= 1 << bit
            for _ in range(3):  # The second one makes a layout.
                with suppress(WireError):
                    log.records.take_batch(whole._replace(records=bytes(changed)))


def test_the_layouts_that_are_kept_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "LAYOUT_RECORDS_MAX", 25)
    groups = [f"group-{each}" for each in range(9)]
    commits = Commits({key_of(each, group): each for group in groups for each in range(10)})
    for _ in range(3):
        for group in groups:
            batch = batch_of(*((key_of(each, group), value_of(each), NOW) for each in range(10)))
            for _ in range(2):
                assert commits_of(commits, batch) == [(each, each, NOW) for each in range(10)]
            assert commits.layout_records <= 25


def test_no_layout_is_kept_by_bytes_that_are_no_key() -> None:
    """The cleaner may leave a first record whose offset is far behind that of its batch."""
    commits = Commits({key_of(each): each for each in range(2)})
    for offset in range(1, 50):
        batch = batch_of((key_of(0), value_of(offset), NOW), (key_of(1), value_of(offset), NOW))
        data = bytearray(batch.records)
        data[0] += 2  # The record is a byte longer: its offset's delta, now 100, takes two.
        data[3:4] = b"\xc8\x01"
        shifted = batch._replace(records=bytes(data))
        assert commits_of(commits, shifted) == [(0, offset, NOW), (1, offset, NOW)]
    assert not commits.layouts


@pytest.mark.parametrize("seed", range(15))
def test_requests_of_one_layout_tell_the_same_as_their_records_one_by_one(seed: int) -> None:
    chance = random.Random(seed)
    log = NotedLog()
    records = Records(log.records.facts)
    log.generation(1, {"a": [0, 1, 2], "b": [3, 4]})
    begin = 0
    for _ in range(chance.randrange(30, 150)):
        log.now_ms += chance.choice((0, 40, 9_000, 100_000))
        match chance.randrange(40):
            case 0:
                log.remove(chance.randrange(5))
            case 1:
                log.generation(chance.randrange(2, 9), chance.choice(({}, {"a": [0, 1]}, {"c": [*range(5)]})))
            case _:
                for partition in chance.choice(((0, 1, 2), (3, 4))):
                    log.commit(partition, chance.choice((log.now_ms - NOW, chance.randrange(1_000))))
        batch = batch_of(*log.taken[begin:], base_offset=begin)
        assert records.take_batch(batch) == log.taken[-1][2]
        begin = len(log.taken)
    assert state_of(records) == state_of(log.records)


def test_a_partition_that_was_removed_is_a_new_one_in_a_layout_that_comes_again() -> None:
    log = Log()
    taken = [(key_of(each), value_of(9), NOW + 5) for each in range(2)]
    for _ in range(4):
        log.records.take_batch(batch_of(*taken))
    before = log.records.groups["g"].places["t", 1]
    log.remove(1)
    log.records.take_batch(batch_of(*taken))
    after = log.records.groups["g"].places["t", 1]
    assert (after is before, after.offset) == (False, 9)


def test_a_partition_that_was_dropped_is_a_new_one_in_a_layout_that_comes_again() -> None:
    log = Log()
    taken = [(key_of(each), value_of(9), NOW + 5) for each in range(2)]
    for _ in range(4):
        log.records.take_batch(batch_of(*taken))
    group = log.records.groups["g"]
    group.drop([("t", 1)])
    log.events()
    log.records.take_batch(batch_of(*taken))
    assert [*group.places] == [("t", 0), ("t", 1)]
