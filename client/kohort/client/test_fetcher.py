import pytest

from kohort.client.cluster import Cluster
from kohort.client.config import consumer_config
from kohort.client.errors import BrokerError
from kohort.client.fetcher import CHUNKS_AHEAD, Fetcher
from kohort.client.positions import PartitionState, Positions
from kohort.client.values import TopicPartition
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages import PartitionData
from kohort.protocol.records import build_batch


def records_of(first_offset: int, *values: bytes) -> bytes:
    return build_batch([(1_000, None, each, ()) for each in values], base_offset=first_offset)


class World:
    """A fetcher that has never seen a broker: what one would answer is put in by hand."""

    def __init__(self, *partitions: int) -> None:
        config = consumer_config({"group_id": "g"})
        self.positions = Positions()
        self.positions.assign(TopicPartition("t", each) for each in partitions)
        self.fetcher = Fetcher(Cluster(config), config, self.positions, lambda: None)
        for each in self.positions:
            each.seek(0)

    def state(self, partition: int = 0) -> PartitionState:
        return self.positions.get(TopicPartition("t", partition))

    def receive(self, records: bytes, partition: int = 0, code: int = 0, epoch: int | None = None) -> None:
        state = self.state(partition)
        data = PartitionData(
            partition_index=partition,
            error_code=code,
            high_watermark=0,
            aborted_transactions=None,
            records=records,
        )
        asked_in = state.epoch if epoch is None else epoch
        problem = self.fetcher._received(state, asked_in, state.fetch_offset or 0, data)
        if problem is not None:
            raise problem

    def values(self, most: int = 100) -> list[bytes | None]:
        return [each.value for each in self.fetcher.take(most)]


def test_the_position_follows_each_record_that_is_handed_out() -> None:
    world = World(0)
    world.receive(records_of(0, b"a", b"b", b"c"))
    first = world.fetcher.next_record()
    assert first is not None
    assert (first.offset, world.state().position, world.state().fetch_offset) == (0, 1, 3)
    assert world.values() == [b"b", b"c"]
    assert world.state().position == 3


def test_a_batch_that_begins_before_the_position_is_read_from_there() -> None:
    world = World(0)
    world.state().seek(2)
    world.receive(records_of(0, b"a", b"b", b"c"))
    assert world.values() == [b"c"]


def test_offsets_that_hold_no_record_are_passed_over() -> None:
    world = World(0)
    control = build_batch([(1_000, b"\0\0\0\x01", b"", ())], base_offset=1, is_control=True)
    world.receive(records_of(0, b"a") + control)
    assert world.values() == [b"a"]
    assert world.state().position == 2


def test_what_was_fetched_before_a_seek_is_void() -> None:
    world = World(0)
    world.receive(records_of(0, b"a", b"b"))
    world.state().seek(7)
    assert world.values() == []
    world.receive(records_of(0, b"a"), epoch=0)  # An answer that was under way.
    assert world.values() == []
    world.receive(records_of(7, b"h"))
    assert world.values() == [b"h"]


def test_a_partition_that_was_given_up_hands_out_nothing_more() -> None:
    world = World(0, 1)
    world.receive(records_of(0, b"a", b"b"), 0)
    world.receive(records_of(0, b"x"), 1)
    assert world.values(1) == [b"a"]
    world.positions.assign([TopicPartition("t", 1)])
    assert world.values() == [b"x"]


def test_a_paused_partition_keeps_its_records_for_later() -> None:
    world = World(0, 1)
    world.receive(records_of(0, b"a"), 0)
    world.receive(records_of(0, b"x"), 1)
    world.state(0).paused = True
    assert world.values() == [b"x"]
    assert not world.fetcher.has_records
    world.state(0).paused = False
    assert world.values() == [b"a"]


def test_the_reader_asks_for_more_when_a_chunk_is_used_up() -> None:
    world = World(0)
    world.receive(records_of(0, b"a"))
    assert world.fetcher.next_record() is not None
    assert not world.fetcher.is_hungry
    assert world.fetcher.next_record() is None
    assert world.fetcher.is_hungry
    assert world.state().buffered == 0


def test_an_offset_out_of_range_is_looked_up_only_when_all_before_is_read() -> None:
    world = World(0)
    world.receive(records_of(0, b"a"))
    world.receive(b"", code=ErrorCode.OFFSET_OUT_OF_RANGE)
    assert (world.state().position, world.state().buffered) == (0, CHUNKS_AHEAD)
    assert world.values() == [b"a"]
    world.receive(b"", code=ErrorCode.OFFSET_OUT_OF_RANGE)
    assert world.state().position is None


def test_a_damaged_batch_is_an_error_that_names_the_place() -> None:
    world = World(0)
    damaged = bytearray(records_of(0, b"a"))
    damaged[-2] ^= 1
    world.receive(bytes(damaged))
    with pytest.raises(BrokerError, match="t-0 at offset 0") as caught:
        world.fetcher.next_record()
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE


def test_a_batch_that_is_cut_short_at_the_end_is_left_for_the_next_fetch() -> None:
    world = World(0)
    world.receive(records_of(0, b"a") + records_of(1, b"b")[:-1])
    assert world.values() == [b"a"]
    assert world.state().fetch_offset == 1
