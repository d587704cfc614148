"""How much one call reads of what was fetched, and what is left when it is interrupted."""

from collections.abc import Callable
from unittest.mock import patch

import pytest

from kohort.client import columns, fetched_chunk
from kohort.client.batches import plain_records
from kohort.client.errors import BrokerError
from kohort.client.test_fetcher import ABORTED, World
from kohort.client.values import TopicPartition
from kohort.protocol.messages.fetch import AbortedTransaction
from kohort.protocol.records import BatchHeader, Compression, build_batch

KIB = 1024
ALL = 1 << 30
Read = Callable[[World], list[tuple[int, int]]]


def compressed(count: int, compression: Compression = Compression.ZSTD, size: int = 256 * KIB) -> bytes:
    """Return batches of one record each."""
    return b"".join(
        build_batch([(1, None, bytes(size), ())], base_offset=each, compression=compression)
        for each in range(count)
    )


def polled(world: World) -> list[tuple[int, int]]:
    return [(each.partition, each.offset) for each in world.buffer.take(1_000)]


def as_batches(world: World) -> list[tuple[int, int]]:
    return [(each.partition.partition, each.header.base_offset) for each in world.buffer.take_batches(ALL)]


def as_columns(world: World) -> list[tuple[int, int]]:
    found = world.buffer.take_columns(ALL)
    return [(where.partition, int(offset)) for where, each in found for offset in each.offsets]


WAYS = pytest.mark.parametrize("read", [polled, as_batches, as_columns])


class FailsAt:
    """Decompresses, except for the batch with this number, where it is interrupted."""

    def __init__(self, number: int, error: BaseException) -> None:
        self._left = number
        self._error = error

    def __call__(self, header: BatchHeader, payload: memoryview) -> bytes:
        self._left -= 1
        if self._left < 0:
            raise self._error
        return plain_records(header, payload)


def interrupted(world: World, read: Read, number: int, error: BaseException) -> None:
    fails = FailsAt(number, error)
    with (
        patch.object(fetched_chunk, "plain_records", fails),
        patch.object(columns, "plain_records", fails),
        pytest.raises(type(error)),
    ):
        read(world)


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.GZIP, Compression.ZSTD])
@pytest.mark.parametrize("most_bytes", [1, 256 * KIB, 700 * KIB, 1 << 20])
def test_batches_are_decompressed_up_to_the_bound_and_the_next_call_goes_on(
    compression: Compression, most_bytes: int
) -> None:
    world = World(0)
    world.receive(compressed(12, compression))
    offsets: list[int] = []
    for _ in range(12):
        with patch.object(fetched_chunk, "plain_records", wraps=plain_records) as decompressed:
            found = world.buffer.take_batches(most_bytes)
        assert decompressed.call_count == len(found)
        assert sum(len(each.records) for each in found[:-1]) < most_bytes
        offsets += [each.header.base_offset for each in found]
        assert world.state().position == len(offsets)
        assert world.buffer.handed_out == len(offsets)
    assert offsets == list(range(12))
    assert world.buffer.take_batches(most_bytes) == []
    assert not world.buffer.has_records


def test_the_bound_counts_the_batches_of_all_partitions() -> None:
    world = World(0, 1)
    world.receive(compressed(3), 0)
    world.receive(compressed(3), 1)
    sizes = []
    while found := world.buffer.take_batches(KIB * KIB):
        sizes.append([each.partition.partition for each in found])
    assert sizes == [[0, 0, 0, 1], [1, 1]]


def test_columns_have_about_as_many_bytes_as_asked_for() -> None:
    for compression in (Compression.NONE, Compression.ZSTD):
        world = World(0)
        world.receive(compressed(12, compression))
        offsets: list[int] = []
        while found := world.buffer.take_columns(500 * KIB):
            assert sum(each.size_bytes for _, each in found) <= 1_000 * KIB
            offsets += [int(offset) for _, each in found for offset in each.offsets]
            assert world.state().position == len(offsets)
        assert offsets == list(range(12))


def test_all_ways_of_reading_go_on_where_some_batches_were_taken() -> None:
    world = World(0)
    world.receive(compressed(8))
    assert len(world.buffer.take_batches(1)) == 1
    assert [each.offset for each in world.buffer.take(2)] == [1, 2]
    assert [each.header.base_offset for each in world.buffer.take_batches(1)] == [3]
    ((_, found),) = world.buffer.take_columns(1)
    assert found.offsets.tolist() == [4]
    assert [each.header.base_offset for each in world.buffer.take_batches(1)] == [5]
    assert polled(world) == [(0, 6), (0, 7)]
    assert as_batches(world) == []


def test_aborted_batches_do_not_count_and_are_passed_over() -> None:
    world = World(0, isolation_level="read_committed")
    world.receive(ABORTED, aborted=[AbortedTransaction(producer_id=7, first_offset=1)])
    found = []
    while more := world.buffer.take_batches(1):
        found += more
    assert sum(each.header.record_count for each in found) == 2


def test_a_damaged_batch_behind_the_bound_is_an_error_only_when_it_is_reached() -> None:
    world = World(0)
    records = bytearray(compressed(3))
    records[-1] ^= 1
    world.receive(bytes(records))
    assert [each.header.base_offset for each in world.buffer.take_batches(1)] == [0]
    assert [each.header.base_offset for each in world.buffer.take_batches(ALL)] == [1]
    with pytest.raises(BrokerError, match="t-0 at offset 2"):
        world.buffer.take_batches(ALL)
    assert world.state().position == 2


@WAYS
@pytest.mark.parametrize("error", [KeyboardInterrupt(), MemoryError()], ids=["interrupt", "memory"])
@pytest.mark.parametrize("number", [0, 1, 2])
def test_what_was_read_before_an_interruption_is_read_again(
    read: Read, error: BaseException, number: int
) -> None:
    world = World(0)
    world.receive(compressed(3))
    interrupted(world, read, number, error)
    assert (world.state().position, world.state().stand.leader_epoch) == (0, -1)
    assert read(world) == [(0, 0), (0, 1), (0, 2)]
    assert world.state().position == 3
    assert world.buffer.handed_out == 3


@WAYS
@pytest.mark.parametrize("error", [KeyboardInterrupt(), MemoryError()], ids=["interrupt", "memory"])
def test_partitions_read_before_an_interruption_are_fetched_again(read: Read, error: BaseException) -> None:
    world = World(0, 1)
    for partition in (0, 1):
        world.receive(compressed(2, size=KIB), partition)
    interrupted(world, read, 3, error)
    assert [each.position for each in world.positions] == [0, 0]
    assert world.state(0).fetch_offset == 0
    world.receive(compressed(2, size=KIB), 0)
    assert sorted(read(world)) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert world.buffer.handed_out == 4
    assert [each.offset for each in world.positions.consumed().values()] == [2, 2]


@WAYS
def test_an_interruption_takes_back_what_this_call_read_and_no_more(read: Read) -> None:
    world = World(0, 1)
    world.receive(compressed(2, size=KIB), 0)
    assert [each.offset for each in world.buffer.take(1)] == [0]
    world.receive(compressed(4, size=KIB)[len(compressed(2, size=KIB)) :], 0)
    world.receive(compressed(1, size=KIB), 1)
    interrupted(world, read, 2 if read is polled else 3, KeyboardInterrupt())
    assert world.state(0).position == 1
    assert world.positions.consumed()[TopicPartition("t", 0)].offset == 1
    world.receive(compressed(4, size=KIB), 0)
    assert sorted(read(world)) == [(0, 1), (0, 2), (0, 3), (1, 0)]


@WAYS
def test_an_interruption_leaves_a_position_that_was_set_meanwhile(read: Read) -> None:
    world = World(0, 1)
    for partition in (0, 1):
        world.receive(compressed(1, size=KIB), partition)

    class SoughtMeanwhile(FailsAt):
        def __call__(self, header: BatchHeader, payload: memoryview) -> bytes:
            if self._left == 0:
                world.state(0).seek(77)
            return super().__call__(header, payload)

    fails = SoughtMeanwhile(1, KeyboardInterrupt())
    with (
        patch.object(fetched_chunk, "plain_records", fails),
        patch.object(columns, "plain_records", fails),
        pytest.raises(KeyboardInterrupt),
    ):
        read(world)
    assert [each.position for each in world.positions] == [77, 0]
