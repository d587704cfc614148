"""What answers do to partitions, and what a poll then hands out."""

from collections import deque
from collections.abc import Iterator

import pytest

from kohort.client.cluster import Cluster
from kohort.client.config import consumer_config
from kohort.client.errors import BrokerError, NoOffsetError
from kohort.client.fetch_answers import FetchAnswers
from kohort.client.fetch_buffer import FetchBuffer
from kohort.client.fetched_chunk import Chunk
from kohort.client.positions import RESET, Fetching, PartitionState, Positions
from kohort.client.values import Node, PartitionInfo, TopicPartition
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.fetch import (
    AbortedTransaction,
    FetchResponseLeaderIdAndEpoch,
    FetchResponseNodeEndpoint,
    PartitionData,
)
from kohort.protocol.records import ControlType, build_batch, build_transaction_marker

KIB = 1024


def records_of(first_offset: int, *values: bytes, leader_epoch: int = 0) -> bytes:
    return build_batch(
        [(1_000, None, each, ()) for each in values], base_offset=first_offset, leader_epoch=leader_epoch
    )


def transaction(first_offset: int, *values: bytes) -> bytes:
    return build_batch(
        [(1_000, None, each, ()) for each in values],
        base_offset=first_offset,
        producer_id=7,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=True,
    )


def abort_marker(offset: int) -> bytes:
    return build_transaction_marker(
        ControlType.ABORT,
        timestamp_ms=1,
        producer_id=7,
        producer_epoch=0,
        coordinator_epoch=0,
        base_offset=offset,
    )


class World:
    """A reader that has never seen a broker: what one would answer is put in by hand."""

    def __init__(self, *partitions: int, can_reset: bool = True, **options: object) -> None:
        config = consumer_config({"group_id": "g", **options})
        self.cluster = Cluster(config)
        self.positions = Positions()
        self.positions.assign(TopicPartition("t", each) for each in partitions)
        self.buffer = FetchBuffer(can_reset=can_reset)
        self.answers = FetchAnswers(self.cluster, config, self.buffer)
        for each in self.positions:
            each.seek(0)

    def state(self, partition: int = 0) -> PartitionState:
        return self.positions.get(TopicPartition("t", partition))

    def receive(
        self,
        records: bytes = b"",
        partition: int = 0,
        *,
        code: int = 0,
        fetching: Fetching | None = None,
        aborted: list[AbortedTransaction] | None = None,
        leader: tuple[int, int] = (-1, -1),
        endpoints: tuple[FetchResponseNodeEndpoint, ...] = (),
        preferred: int = -1,
    ) -> None:
        state = self.state(partition)
        data = PartitionData(
            partition_index=partition,
            error_code=code,
            high_watermark=100,
            aborted_transactions=None if aborted is None else tuple(aborted),
            records=records,
            current_leader=FetchResponseLeaderIdAndEpoch(leader_id=leader[0], leader_epoch=leader[1]),
            preferred_read_replica=preferred,
        )
        self.answers.take(state, fetching or state.stand.fetching, data, endpoints)

    def values(self, most: int = 100) -> list[bytes | None]:
        return [each.value for each in self.buffer.take(most)]


def test_the_position_follows_each_returned_record() -> None:
    world = World(0)
    world.receive(records_of(0, b"a", b"b", b"c", leader_epoch=4))
    first = world.buffer.next_record()
    assert first is not None
    assert (first.offset, world.state().position, world.state().fetch_offset) == (0, 1, 3)
    assert world.state().stand.leader_epoch == 4
    second = world.buffer.next_record()
    assert second is not None
    assert (second.value, world.state().position) == (b"b", 2)
    assert world.values() == [b"c"]
    assert world.state().position == 3
    assert world.positions.consumed()[TopicPartition("t", 0)].leader_epoch == 4


def test_a_poll_takes_from_several_batches_and_partitions_up_to_its_limit() -> None:
    world = World(0, 1)
    world.receive(records_of(0, b"a", b"b") + records_of(2, b"c", b"d"), 0)
    world.receive(records_of(0, b"x", b"y"), 1)
    assert world.values(3) == [b"a", b"b", b"c"]
    assert world.values(2) == [b"d", b"x"]
    assert world.values(2) == [b"y"]


def test_a_batch_that_starts_before_the_position_is_read_from_the_position() -> None:
    world = World(0)
    world.state().seek(2)
    world.receive(records_of(0, b"a", b"b", b"c"))
    assert world.values() == [b"c"]


def test_offsets_without_a_record_are_skipped() -> None:
    world = World(0)
    control = build_batch([(1_000, b"\0\0\0\x01", b"", ())], base_offset=1, is_control=True)
    world.receive(records_of(0, b"a") + control)
    assert world.values() == [b"a"]
    assert world.state().position == 2


def test_partitions_that_are_paused_in_turn_are_read_in_turn() -> None:
    """Each is paused when a poll has read it, and all are resumed at three; Java's counts."""
    world = World(0, 1, 2, 3)
    for each in range(4):
        world.receive(records_of(0, *[b"x"] * 1_000), each)
    counts = [0, 0, 0, 0]
    for _ in range(198):
        (read,) = {each.partition for each in world.buffer.take(10)}
        counts[read] += 10
        world.state(read).paused = True
        if sum(state.paused for state in world.positions) == 3:
            for state in world.positions:
                state.paused = False
            world.buffer.resume()
    assert counts == [660, 330, 660, 330]


def test_a_skipped_partition_is_read_in_its_order_after_the_others() -> None:
    world = World(0, 1)
    world.receive(records_of(0, b"a", b"b"), 0)
    world.receive(records_of(0, b"x", b"y"), 1)
    world.receive(records_of(2, b"c"), 0)
    assert world.values(1) == [b"a"]
    world.state(0).paused = True
    assert world.values(1) == [b"x"]
    world.state(0).paused = False
    world.buffer.resume()
    assert world.values() == [b"y", b"b", b"c"]


def test_pausing_and_resuming_all_between_polls_keeps_the_order() -> None:
    world = World(1, 0)
    world.receive(records_of(0, b"a", b"b"), 0)
    world.receive(records_of(0, b"x", b"y"), 1)
    assert world.values(1) == [b"a"]
    for each in world.positions:
        each.paused = True
    assert world.values() == []
    for each in world.positions:
        each.paused = False
    world.buffer.resume()
    assert world.values() == [b"b", b"x", b"y"]


def test_iteration_skips_a_paused_partition_and_returns_to_it() -> None:
    world = World(0, 1)
    world.receive(records_of(0, b"a", b"b"), 0)
    world.receive(records_of(0, b"x", b"y", b"z"), 1)
    read = [world.buffer.next_record()]
    world.state(0).paused = True
    read += [world.buffer.next_record(), world.buffer.next_record()]
    world.state(0).paused = False
    world.buffer.resume()
    read += [world.buffer.next_record() for _ in range(3)]
    assert [each and each.value for each in read] == [b"a", b"x", b"y", b"z", b"b", None]


def test_records_fetched_before_a_seek_are_dropped() -> None:
    world = World(0)
    before = world.state().stand.fetching
    world.receive(records_of(0, b"a", b"b"))
    world.state().seek(7)
    assert world.values() == []
    world.receive(records_of(0, b"a"), fetching=before)  # An answer that was in flight.
    assert world.values() == []
    world.receive(records_of(7, b"h"))
    assert world.values() == [b"h"]


def test_a_record_taken_during_a_seek_of_another_thread_does_not_move_the_new_position() -> None:
    world = World(0)
    world.receive(records_of(0, b"a", b"b"))
    chunk = world.buffer._first(may_raise=True)  # As the reading thread has it in its hands ...
    assert chunk is not None
    world.state().seek_to(RESET)  # ... when the other one looks the position up anew.
    chunk.take(2)
    assert world.state().position is None


def test_records_fetched_again_during_a_take_are_not_returned_twice() -> None:
    world = World(0)
    world.receive(records_of(0, b"a", b"b"))
    chunk = world.buffer._first(may_raise=True)  # As the reading thread has it in its hands ...
    assert chunk is not None
    assert chunk.fill()
    world.state().void()  # ... when the other one has to ask a new leader whether the position still counts.
    assert [each.value for each in chunk.take(1)] == [b"a"]
    world.receive(records_of(0, b"a", b"b", b"c"))
    assert world.values() == [b"b", b"c"]


def test_records_that_became_invalid_during_a_take_are_not_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(0)
    world.receive(records_of(0, b"a", b"b"))
    chunk = world.buffer._first(may_raise=True)
    assert chunk is not None
    read = chunk._read_batches

    def read_slowly(*args: object) -> None:
        read(*args)  # type: ignore[arg-type]  # What it is given.
        world.state().void()

    monkeypatch.setattr(Chunk, "_read_batches", lambda chunk, *args: read_slowly(*args))
    assert chunk.take(2) == ()
    assert world.state().position == 0


def test_a_revoked_partition_returns_no_more_records() -> None:
    world = World(0, 1)
    world.receive(records_of(0, b"a", b"b"), 0)
    world.receive(records_of(0, b"x"), 1)
    assert world.values(1) == [b"a"]
    world.positions.assign([TopicPartition("t", 1)])
    assert world.values() == [b"x"]


def test_a_paused_partition_keeps_its_records_in_order() -> None:
    world = World(0, 1)
    world.receive(records_of(0, b"a"), 0)
    world.receive(records_of(0, b"x"), 1)
    world.receive(records_of(1, b"b"), 0)
    world.state(0).paused = True
    assert world.values() == [b"x"]
    assert not world.buffer.has_records
    world.state(0).paused = False
    assert world.values() == [b"a", b"b"]


def test_a_pause_applies_at_once_to_iteration() -> None:
    world = World(0)
    world.receive(records_of(0, b"a", b"b"))
    assert world.buffer.next_record() is not None
    world.state().paused = True
    assert world.buffer.next_record() is None


def test_the_buffer_requests_more_when_a_chunk_is_used_up() -> None:
    world = World(0)
    world.receive(records_of(0, b"a"))
    assert world.buffer.next_record() is not None
    assert (world.buffer.is_hungry, world.state().stand.fetching.chunks_ahead) == (False, 1)
    assert world.buffer.next_record() is None
    assert (world.buffer.is_hungry, world.state().stand.fetching.chunks_ahead) == (True, 0)


def test_an_offset_out_of_range_is_reset_after_all_earlier_records_are_read() -> None:
    world = World(0)
    world.receive(records_of(0, b"a"))
    world.receive(code=ErrorCode.OFFSET_OUT_OF_RANGE)
    assert world.values() == [b"a"]
    assert world.values() == []
    assert (world.state().position, world.state().reset_to) == (None, RESET)


def test_an_offset_out_of_range_without_a_reset_policy_is_an_error_at_every_poll() -> None:
    world = World(0, can_reset=False)
    for _ in range(2):
        world.receive(code=ErrorCode.OFFSET_OUT_OF_RANGE)
        with pytest.raises(NoOffsetError, match="t-0: its offset 0 is out of range"):
            world.values()
        assert world.state().position == 0


def test_a_lagging_follower_does_not_reset_the_position() -> None:
    world = World(0)
    world.receive(preferred=2)
    assert world.state().read_replica == 2
    world.receive(code=ErrorCode.OFFSET_OUT_OF_RANGE)
    assert (world.state().read_replica, world.state().position) == (None, 0)
    assert not world.buffer.has_records


def test_a_damaged_batch_is_an_error_with_its_offset_after_all_earlier_records() -> None:
    world = World(0)
    damaged = bytearray(records_of(1, b"b"))
    damaged[-2] ^= 1
    for _ in range(2):  # Each time that it is fetched.
        world.receive(records_of(0, b"a") + bytes(damaged))
        if world.state().position == 0:
            assert world.values() == [b"a"]
        with pytest.raises(BrokerError, match="t-0 at offset 1") as caught:
            world.values()
        assert caught.value.code is ErrorCode.CORRUPT_MESSAGE
        assert (world.state().position, world.state().fetch_offset) == (1, 1)


def test_a_damaged_batch_is_read_if_crcs_are_not_checked() -> None:
    world = World(0, check_crcs=False)
    damaged = bytearray(records_of(0, b"a"))
    damaged[-2] ^= 3
    world.receive(bytes(damaged))
    assert world.values() == [b"b"]


def test_a_truncated_batch_at_the_end_is_left_for_the_next_fetch() -> None:
    world = World(0)
    world.receive(records_of(0, b"a") + records_of(1, b"b")[:-1])
    assert world.values() == [b"a"]
    assert world.state().fetch_offset == 1


ABORTED = records_of(0, b"a") + transaction(1, b"x", b"y") + abort_marker(3) + transaction(4, b"b")


def test_an_answer_without_a_complete_batch_is_an_error_and_is_not_requested_forever() -> None:
    world = World(0)
    world.receive(records_of(0, b"a"))
    assert world.values() == [b"a"]
    for _ in range(2):
        world.receive(records_of(1, b"b" * 100)[:-1])  # As it would come again and again.
        with pytest.raises(BrokerError, match="t-0 at offset 1: an answer of 169 bytes has no whole batch"):
            world.values()
        assert world.state().position == 1
    world.receive(records_of(1, b"b"))
    assert world.values() == [b"b"]


def test_read_committed_skips_aborted_transactions() -> None:
    world = World(0, isolation_level="read_committed")
    world.receive(ABORTED, aborted=[AbortedTransaction(producer_id=7, first_offset=1)])
    assert world.values() == [b"a", b"b"]


def test_read_uncommitted_returns_aborted_transactions() -> None:
    world = World(0)
    world.receive(ABORTED)
    assert world.values() == [b"a", b"x", b"y", b"b"]


def test_polls_and_columns_can_alternate() -> None:
    world = World(0)
    world.receive(records_of(0, b"a", b"b", b"c"))
    assert world.values(1) == [b"a"]
    (found,) = world.buffer.take_columns(KIB)
    assert (found[0], found[1].values.to_list()) == (TopicPartition("t", 0), [b"b", b"c"])
    assert world.state().position == 3
    world.receive(records_of(3, b"d"))
    assert world.values() == [b"d"]
    assert world.buffer.take_columns(KIB) == []


def test_polls_and_batches_can_alternate() -> None:
    world = World(0)
    world.receive(records_of(0, b"a", b"b", b"c"))
    assert world.values(1) == [b"a"]
    (found,) = world.buffer.take_batches(KIB)
    assert (found.partition, found.header.base_offset, found.from_offset) == (TopicPartition("t", 0), 0, 1)
    assert found.records.count(b"c") == 1
    assert world.state().position == 3
    world.receive(records_of(3, b"d"))
    assert world.values() == [b"d"]
    assert world.buffer.take_batches(KIB) == []


def test_batches_of_aborted_transactions_are_passed_over() -> None:
    world = World(0, isolation_level="read_committed")
    world.receive(ABORTED, aborted=[AbortedTransaction(producer_id=7, first_offset=1)])
    found = world.buffer.take_batches(KIB)
    assert sum(each.header.record_count for each in found) == 2
    assert world.values() == []


def test_batches_before_a_damaged_one_are_taken_first() -> None:
    world = World(0)
    damaged = bytearray(records_of(1, b"b"))
    damaged[-1] ^= 1
    world.receive(records_of(0, b"a") + bytes(damaged))
    assert [each.header.base_offset for each in world.buffer.take_batches(KIB)] == [0]
    assert world.state().position == 1
    with pytest.raises(BrokerError, match="t-0 at offset 1"):
        world.buffer.take_batches(KIB)


MOVED = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


def with_metadata(world: World) -> None:
    from kohort.client.metadata import TopicMetadata
    from kohort.protocol.schema import ZERO_UUID

    partition = PartitionInfo(0, 1, 5, (1, 2), (1, 2))
    world.cluster.metadata.topics["t"] = TopicMetadata("t", ZERO_UUID, False, 0, {0: partition})
    world.cluster.metadata.nodes = {1: Node(1, "one", 9092)}


@pytest.mark.parametrize("code", MOVED)
def test_a_moved_leader_is_looked_up(code: ErrorCode) -> None:
    world = World(0)
    with_metadata(world)
    world.receive(code=code)
    assert world.answers.is_metadata_stale
    assert world.state().retry_at_ms > 0


@pytest.mark.parametrize("code", MOVED)
def test_a_new_leader_named_in_the_answer_is_used_at_once(code: ErrorCode) -> None:
    world = World(0)
    with_metadata(world)
    world.receive(
        code=code, leader=(2, 6), endpoints=(FetchResponseNodeEndpoint(node_id=2, host="two", port=9),)
    )
    leader = world.cluster.leader(TopicPartition("t", 0))
    assert (leader.leader, leader.leader_epoch) == (2, 6)
    assert world.cluster.metadata.nodes[2] == Node(2, "two", 9)
    assert (world.answers.is_metadata_stale, world.state().retry_at_ms) == (False, 0)


def test_a_leader_of_an_old_epoch_is_no_news() -> None:
    world = World(0)
    with_metadata(world)
    world.receive(code=ErrorCode.NOT_LEADER_OR_FOLLOWER, leader=(1, 5))
    assert world.answers.is_metadata_stale


def test_an_unknown_leader_epoch_is_retried_later() -> None:
    world = World(0)
    world.receive(code=ErrorCode.UNKNOWN_LEADER_EPOCH)
    assert world.state().retry_at_ms > 0
    assert not world.answers.is_metadata_stale
    assert not world.buffer.has_records


def test_a_topic_without_read_permission_is_an_error() -> None:
    world = World(0)
    world.receive(code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(BrokerError, match="TOPIC_AUTHORIZATION_FAILED: partition t-0"):
        world.values()


def test_returned_records_are_counted_for_every_way_of_reading() -> None:
    world = World(0, 1)
    world.receive(records_of(0, b"a", b"b", b"c") + records_of(3, b"d"), 0)
    world.receive(records_of(0, b"x", b"y"), 1)
    assert world.buffer.next_record() is not None
    assert world.buffer.next_record() is not None
    assert world.buffer.handed_out == 2
    assert len(world.values(1)) == 1
    assert len(world.buffer.take_columns(1)) == 1
    assert world.buffer.handed_out == 4
    world.state(1).seek(1)
    assert world.values() == []
    assert world.buffer.handed_out == 4
    world.receive(records_of(1, b"y"), 1)
    assert len(world.values()) == 1
    assert world.buffer.handed_out == 5


def test_a_partition_that_is_paused_holds_its_own_bytes_and_not_the_answer() -> None:
    world = World(0)
    answer = memoryview(records_of(0, b"a", b"b") + b"of another partition")
    before, later = Chunk(world.state(), answer[:-20]), Chunk(world.state(), answer[:-20])
    world.buffer.add(before)
    assert world.values(1) == [b"a"]
    world.state().paused = True
    world.buffer.detach(world.state())
    world.buffer.add(later)
    assert [type(before.data), type(later.data)] == [bytes, bytes]
    world.state().paused = False
    assert world.values() == [b"b"], "and it is read on where it was"


def test_held_bytes_are_counted_and_paused_partitions_can_be_dropped() -> None:
    world = World(0, 1)
    records = records_of(0, b"a")
    world.receive(records, 0)
    world.receive(records, 1)
    assert world.buffer.held_bytes == 2 * len(records)
    world.state(0).paused = True
    world.buffer.drop_paused()
    assert (world.buffer.held_bytes, world.state(0).fetch_offset) == (len(records), 0)


def test_records_added_by_the_other_thread_are_not_lost() -> None:
    world = World(0)
    world.receive(records_of(0, b"a"))

    class Busy(deque[Chunk]):
        """What the loop adds to as soon as somebody walks over it."""

        def __iter__(self) -> Iterator[Chunk]:
            steps = super().__iter__()
            world.receive(records_of(len(self), b"more"))
            return steps

    world.buffer._chunks = Busy(world.buffer._chunks)
    record = world.buffer.next_record()
    assert record is not None
    assert record.value == b"a"
