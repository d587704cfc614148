"""What a member commits for a checkpoint when a topic is deleted and created again: a consumer in memory."""

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any
from unittest.mock import AsyncMock, Mock

import anyio
import anyio.lowlevel
import pytest

from kohort.client.consumer_records import Assignments, ConsumerRecords, PolledOffsets
from kohort.client.errors import CommitFailedError, KohortError
from kohort.client.values import ConsumerRecord, TopicPartition
from kohort.protocol.errors import ErrorCode
from kohort.queues.region import OperatorError, Region, RegionMember, StateLostError
from kohort.queues.region.entries import MemberState
from kohort.queues.region.membership import Membership

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
        self._outcomes: list[Callable[[], None]] = []

    def paused(self) -> tuple[TopicPartition, ...]:
        return ()

    def assignment(self) -> tuple[TopicPartition, ...]:
        return (P0, P1)

    def pause(self, *partitions: TopicPartition) -> None: ...

    def seek(self, partition: TopicPartition, offset: int) -> None: ...

    async def poll(self, timeout_ms: int) -> ConsumerRecords[bytes, bytes]:
        await anyio.lowlevel.checkpoint()
        found, self.found = self.found, []
        while self._outcomes:
            self._outcomes.pop()()
        return ConsumerRecords(found, self.assignments)

    async def position(self, partition: TopicPartition) -> int:
        return 0

    def group_metadata(self) -> Any:
        return Mock(generation_id=1)

    def commit_async(
        self, offsets: Mapping[TopicPartition, Any], callback: Callable[[object, KohortError | None], None]
    ) -> None:
        if self.refuses_with is not None:
            code, self.refuses_with = self.refuses_with, None
            error = CommitFailedError(code, "refused", (P0,))
            self._outcomes.append(lambda: callback(offsets, error))
            return
        assert isinstance(offsets, PolledOffsets)
        for each in offsets:
            if self.assignments.has_come_since(each, offsets.assignment_number):
                raise CommitFailedError(ErrorCode.ILLEGAL_GENERATION, "another assignment", (each,))
        self.committed = {each: at.offset for each, at in offsets.items()}
        self._outcomes.append(lambda: callback(offsets, None))


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
async def member(consumer: FakeConsumer) -> AsyncIterator[RegionMember]:
    """A member that has processed five records of each partition."""
    made = RegionMember(Region("r", members=1), "a", Operator(), topics=["t"])
    made._core = Membership("a", 0, 1, "token")
    made._core.become_assigned(["t-0", "t-1"])
    made._reading = made._reader()
    made._reading.consumer = consumer  # type: ignore[assignment]
    made._states, made._log = AsyncMock(), Mock(view=Mock(state=None))
    made._states.save.return_value = "saved"
    await made._reading.poll(is_reading=False)
    made._core.looked_up({"t": "id"})
    made._reading.place({"t-0": 5, "t-1": 5})
    async with made._executor, anyio.create_task_group() as made._tasks:
        yield made


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
    await member._reading.poll(is_reading=True)
    consumer.assignments = consumer.assignments.with_next([P0])
    consumer.found = found
    await member._reading.poll(is_reading=True)
    member._core.looked_up({"t": "another"})
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
        await member._reading.poll(is_reading=False)
    assert member._core.is_moving, "the topic's id is to be looked up"
    member._core.looked_up({"t": "another"})
    await member._drain(1)
    assert (consumer.committed, member._core.state) == ({P0: 0, P1: 5}, MemberState.DRAINED)


@pytest.mark.parametrize(
    "code", [ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.REBALANCE_IN_PROGRESS]
)
async def test_a_drain_that_meets_a_rebalance_is_put_off(
    member: RegionMember, consumer: FakeConsumer, code: ErrorCode
) -> None:
    consumer.refuses_with = code
    await member._drain(1)
    assert (consumer.committed, member._core.state) == ({}, MemberState.SUBSCRIBED)
    await member._drain(1)
    assert (consumer.committed, member._core.state) == ({P0: 5, P1: 5}, MemberState.DRAINED)


async def test_a_commit_that_no_rebalance_explains_asks_for_a_reset(
    member: RegionMember, consumer: FakeConsumer
) -> None:
    consumer.refuses_with = ErrorCode.OFFSET_METADATA_TOO_LARGE
    await member._drain(1)
    assert member._core.state is MemberState.RESET_PENDING


async def test_partitions_that_come_back_are_read_on_without_a_reset(
    member: RegionMember, consumer: FakeConsumer
) -> None:
    consumer.found = [record(0, 5), record(0, 6)]
    await member._reading.poll(is_reading=True)
    member._reading.become_revoked((P0, P1))
    assert member._core.is_moving
    await member._drain(1)
    assert consumer.committed == {}
    member._reading.become_assigned((P1, P0))
    assert member._core.state is MemberState.POLLING
    member._reading.place({"t-0": 7, "t-1": 5})
    assert member._processing.noted == {"t-0": 5, "t-1": 5}, "two records are processed later"
    await member._drain(1)
    assert consumer.committed == {P0: 5, P1: 5}


async def test_a_partition_that_was_read_and_does_not_come_back_asks_for_a_reset(
    member: RegionMember, consumer: FakeConsumer
) -> None:
    consumer.found = [record(0, 5)]
    await member._reading.poll(is_reading=True)
    member._reading.become_revoked((P0, P1))
    member._reading.become_assigned((P0,))
    assert member._core.report.wanted is None, "nothing was read of the other one"
    member._reading.become_revoked((P0,))
    member._reading.become_assigned((P1,))
    assert member._core.state is MemberState.RESET_PENDING
    wanted = member._core.report.wanted
    assert wanted is not None
    assert (wanted.forced, wanted.reason) == (True, "a lost t-0")
    assert len(member._processing) == 0


@pytest.mark.parametrize("wrong", ["raises", "hangs", "is lost"])
async def test_a_state_that_does_not_come_back_asks_for_another_attempt(
    member: RegionMember, wrong: str
) -> None:
    async def load(saved: str) -> bytes:
        if wrong == "hangs":
            await anyio.sleep_forever()
        if wrong == "is lost":
            raise StateLostError("no state at saved")
        return b""

    member._states.load = load  # type: ignore[method-assign]
    member._timeout_s = 0.05
    if wrong == "raises":
        member._executor.restore = AsyncMock(side_effect=OperatorError("restore raised 5"))  # type: ignore[method-assign]
    await member._restore(4, "saved")
    wanted = member._core.report.wanted
    assert wanted is not None
    assert (wanted.attempt, wanted.forced) == (4, False)
    assert "a did not restore its state" in wanted.reason
    assert member._core.attempt == 0
