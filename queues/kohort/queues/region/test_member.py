"""What a member commits for a checkpoint when a topic is deleted and created again: a consumer in memory."""

from collections.abc import Mapping
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest

from kohort.client.consumer_records import Assignments, ConsumerRecords, PolledOffsets
from kohort.client.errors import CommitFailedError
from kohort.client.values import ConsumerRecord, TopicPartition
from kohort.protocol.errors import ErrorCode
from kohort.queues.region import Region, RegionMember
from kohort.queues.region.membership import Membership, MemberState

pytestmark = pytest.mark.trio
P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


def record(partition: int, offset: int) -> ConsumerRecord[bytes, bytes]:
    return ConsumerRecord("t", partition, offset, 0, b"", b"")


class FakeConsumer:
    """Has two partitions, and refuses commits of what was polled of another topic, as a consumer does."""

    def __init__(self) -> None:
        self.assignments = Assignments().with_next([P0, P1])
        self.found: list[ConsumerRecord[bytes, bytes]] = []
        self.committed: dict[TopicPartition, int] = {}
        self.refuses_with: ErrorCode | None = None

    def paused(self) -> tuple[TopicPartition, ...]:
        return ()

    def assignment(self) -> tuple[TopicPartition, ...]:
        return (P0, P1)

    def pause(self, *partitions: TopicPartition) -> None: ...

    def seek(self, partition: TopicPartition, offset: int) -> None: ...

    async def poll(self, timeout_ms: int) -> ConsumerRecords[bytes, bytes]:
        found, self.found = self.found, []
        return ConsumerRecords(found, self.assignments)

    async def position(self, partition: TopicPartition) -> int:
        return 0

    def group_metadata(self) -> Any:
        return Mock(generation_id=1)

    async def commit(self, offsets: Mapping[TopicPartition, Any]) -> None:
        if self.refuses_with is not None:
            code, self.refuses_with = self.refuses_with, None
            raise CommitFailedError(code, "refused", (P0,))
        assert isinstance(offsets, PolledOffsets)
        for each in offsets:
            if self.assignments.has_come_since(each, offsets.assignment_number):
                raise CommitFailedError(ErrorCode.ILLEGAL_GENERATION, "another assignment", (each,))
        self.committed = {each: at.offset for each, at in offsets.items()}


class Operator:
    """Counts nothing."""

    async def process(self, record: ConsumerRecord[bytes, bytes]) -> None: ...

    def save(self, sequence_id: int) -> bytes:
        return b""

    def restore(self, state: bytes | None) -> None: ...


@pytest.fixture
async def consumer() -> FakeConsumer:
    return FakeConsumer()


@pytest.fixture
async def member(consumer: FakeConsumer) -> RegionMember:
    """A member that has processed five records of each partition."""
    made = RegionMember(Region("r", members=1), "a", Operator(), topics=["t"])
    made._core = Membership("a", 0, 1, "token")
    made._core.become_assigned(["t-0", "t-1"])
    made._consumer = consumer  # type: ignore[assignment]
    made._states, made._log = AsyncMock(), Mock(view=Mock(state=None))
    await made._poll(is_reading=False)
    made._place({"t-0": 5, "t-1": 5})
    return made


async def test_offsets_of_one_topic_are_committed_as_they_are(
    member: RegionMember, consumer: FakeConsumer
) -> None:
    await member._drain(1)
    assert consumer.committed == {P0: 5, P1: 5}
    assert member._core.state is MemberState.DRAINED


@pytest.mark.parametrize(
    "found, wanted",
    [([], {P0: 0, P1: 5}), ([record(0, 3), record(0, 4)], {P0: 3, P1: 5}), ([record(1, 5)], {P0: 0, P1: 5})],
)
async def test_a_new_topic_is_committed_where_its_reading_begins(
    member: RegionMember,
    consumer: FakeConsumer,
    found: list[ConsumerRecord[bytes, bytes]],
    wanted: dict[TopicPartition, int],
) -> None:
    consumer.found = [record(0, 5)]
    await member._poll(is_reading=True)
    consumer.assignments = consumer.assignments.with_next([P0])
    consumer.found = found
    await member._poll(is_reading=True)
    assert len(member._processing) == len(found), "the record of the old topic is dropped"
    await member._drain(1)
    assert consumer.committed == wanted


@pytest.mark.parametrize("is_noticed", [True, False])
async def test_a_commit_that_a_new_topic_refuses_is_made_again_without_a_reset(
    member: RegionMember, consumer: FakeConsumer, *, is_noticed: bool
) -> None:
    if is_noticed:
        consumer.assignments = consumer.assignments.with_next([P0])
    else:
        consumer.refuses_with = ErrorCode.UNKNOWN_TOPIC_ID  # By the broker; the consumer notices later.
    await member._drain(1)
    assert (consumer.committed, member._core.state) == ({}, MemberState.SUBSCRIBED)
    if not is_noticed:
        consumer.assignments = consumer.assignments.with_next([P0])
        await member._poll(is_reading=False)
    await member._drain(1)
    assert (consumer.committed, member._core.state) == ({P0: 0, P1: 5}, MemberState.DRAINED)


async def test_any_other_refused_commit_asks_for_a_reset(
    member: RegionMember, consumer: FakeConsumer
) -> None:
    consumer.refuses_with = ErrorCode.ILLEGAL_GENERATION
    await member._drain(1)
    assert member._core.state is MemberState.RESET_PENDING
