"""Share partitions: single cases, and a model beside which hypothesis drives them."""

import sys
from collections.abc import Callable, Iterable
from functools import partial
from types import FrameType
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kohort.broker.group.share.partition import Limits, SharePartition, Write
from kohort.broker.group.share.record import Acknowledgement, Batch, RecordState
from kohort.protocol.errors import ApiError, ErrorCode

ACCEPT, RELEASE, REJECT, RENEW = (
    Acknowledgement.ACCEPT, Acknowledgement.RELEASE, Acknowledgement.REJECT, Acknowledgement.RENEW,
)  # fmt: skip
LIMITS = Limits(delivery_count_limit=2, record_lock_duration_ms=100, max_record_locks=10)


def settled(
    partition: SharePartition, member: str, first: int, *kinds: Acknowledgement, now_ms: int = 0
) -> Write:
    write = partition.acknowledge(member, first, kinds, now_ms)
    partition.settle(write, 0, is_durable=True)
    return write


def test_a_record_is_acquired_by_one_member() -> None:
    partition = SharePartition(0, LIMITS)
    assert partition.acquire("a", 0, 9, 4, 0) == (Batch(0, 3, RecordState.ACQUIRED, 1),)
    assert partition.acquire("b", 0, 9, 4, 0) == (Batch(4, 7, RecordState.ACQUIRED, 1),)


def test_the_start_offset_moves_past_the_first_completed_records() -> None:
    partition = SharePartition(0, LIMITS)
    partition.acquire("a", 0, 4, 5, 0)
    settled(partition, "a", 1, ACCEPT, REJECT)
    assert partition.start_offset == 0
    settled(partition, "a", 0, ACCEPT)
    assert (partition.start_offset, partition.end_offset) == (3, 5)


def test_a_record_released_at_its_limit_is_archived() -> None:
    partition = SharePartition(0, LIMITS)
    for _ in range(2):
        partition.acquire("a", 0, 0, 1, 0)
        write = settled(partition, "a", 0, RELEASE)
    assert write.batches == (Batch(0, 0, RecordState.ARCHIVED, 2),)
    assert partition.acquire("a", 0, 0, 1, 0) == ()


def test_a_lock_ends_unless_it_is_renewed() -> None:
    partition = SharePartition(0, LIMITS)
    partition.acquire("a", 0, 1, 2, 0)
    assert partition.acknowledge("a", 0, [RENEW], 50).batches == ()
    assert partition.expire_locks(100).batches == (Batch(1, 1, RecordState.AVAILABLE, 1),)
    assert partition.locks.next_timeout_ms() == 150
    assert partition.next_fetch_offset() == 1


def test_a_failed_write_leaves_the_record_with_its_member() -> None:
    partition = SharePartition(0, LIMITS)
    partition.acquire("a", 0, 0, 1, 0)
    write = partition.acknowledge("a", 0, [ACCEPT], 0)
    assert partition.start_offset == 0
    partition.settle(write, 0, is_durable=False)
    settled(partition, "a", 0, ACCEPT)
    assert partition.start_offset == 1


@pytest.mark.parametrize(("member", "first", "now_ms"), [("b", 0, 0), ("a", 0, 100)])
def test_an_acknowledgement_without_acquisition_changes_nothing(member: str, first: int, now_ms: int) -> None:
    partition = SharePartition(0, LIMITS)
    partition.acquire("a", 0, 1, 2, 0)
    before = partition.batches()
    with pytest.raises(ApiError) as refused:
        partition.acknowledge(member, first, [ACCEPT, ACCEPT], now_ms)
    assert refused.value.code is ErrorCode.INVALID_RECORD_STATE
    assert partition.batches() == before


def test_records_in_flight_are_limited() -> None:
    partition = SharePartition(0, LIMITS)
    assert partition.acquire("a", 0, 99, 50, 0) == (Batch(0, 9, RecordState.ACQUIRED, 1),)
    assert partition.acquire("a", 10, 99, 50, 0) == ()


def test_written_states_are_restored_without_acquisitions() -> None:
    written = (Batch(7, 8, RecordState.ACKNOWLEDGED, 1), Batch(9, 9, RecordState.ACQUIRED, 1))
    partition = SharePartition(5, LIMITS, written)
    assert partition.acquire("b", 5, 9, 9, 0) == (
        Batch(5, 6, RecordState.ACQUIRED, 1), Batch(9, 9, RecordState.ACQUIRED, 2),
    )  # fmt: skip


def test_records_deleted_from_the_log_are_no_longer_acquired() -> None:
    partition = SharePartition(0, LIMITS)
    partition.acquire("a", 0, 4, 5, 0)
    write = partition.acknowledge("a", 0, [ACCEPT], 0)
    partition.log_starts_at(3)
    partition.settle(write, 0, is_durable=True)
    assert partition.batches() == (Batch(3, 4, RecordState.ACQUIRED, 1),)


def test_a_record_whose_state_is_being_written_cannot_be_acknowledged_or_released() -> None:
    partition = SharePartition(0, LIMITS)
    partition.acquire("a", 0, 0, 1, 0)
    write = partition.acknowledge("a", 0, [ACCEPT], 0)
    with pytest.raises(ApiError):
        partition.acknowledge("a", 0, [RELEASE], 0)
    with pytest.raises(ApiError):
        partition.acknowledge("a", 0, [RENEW], 0)
    assert partition.locks.next_timeout_ms() is None
    assert partition.expire_locks(100).batches == ()
    assert partition.release_member("a", 0).batches == ()
    assert partition.acquire("b", 0, 0, 1, 100) == ()
    partition.settle(write, 0, is_durable=True)
    assert partition.start_offset == 1


def test_acknowledgements_of_several_runs_are_applied_together_or_not_at_all() -> None:
    partition = SharePartition(0, LIMITS)
    partition.acquire("a", 0, 5, 6, 0)
    with pytest.raises(ApiError):
        partition.acknowledge_all("a", ((0, 0, [ACCEPT]), (6, 6, [ACCEPT])), 0)
    write = partition.acknowledge_all("a", ((0, 0, [ACCEPT]), (3, 4, [RELEASE, REJECT])), 0)
    assert [(each.first_offset, each.state) for each in write.batches] == [
        (0, RecordState.ACKNOWLEDGED),
        (3, RecordState.AVAILABLE),
        (4, RecordState.ARCHIVED),
    ]


def test_records_before_the_start_need_no_acknowledgement_but_a_completed_run_is_refused() -> None:
    partition = SharePartition(0, LIMITS)
    partition.acquire("a", 0, 5, 6, 0)
    partition.log_starts_at(2)
    settled(partition, "a", 0, ACCEPT, ACCEPT, ACCEPT)
    assert partition.start_offset == 3
    with pytest.raises(ApiError):
        partition.acknowledge("a", 0, [ACCEPT, ACCEPT, ACCEPT], 0)


def test_aborted_records_are_archived_while_acquired() -> None:
    partition = SharePartition(0, LIMITS)
    partition.acquire("a", 0, 5, 6, 0)
    assert partition.archive(1, 2).batches == (Batch(1, 2, RecordState.ARCHIVED, 1),)
    assert partition.done_count == 2
    assert [each.first_offset for each in partition.release_member("a", 0).batches] == [0, 3]
    assert partition.is_idle


def test_records_unacknowledged_at_the_end_of_sessions_reach_the_delivery_limit() -> None:
    """As on Apache Kafka 4.3.1: a record that ends each process that gets it does so only so often."""
    partition = SharePartition(0, LIMITS)
    for count in range(1, LIMITS.delivery_count_limit):
        partition.acquire("a", 0, 0, 1, 0)
        assert partition.release_member("a", 0).batches == (Batch(0, 0, RecordState.AVAILABLE, count),)
    partition.acquire("a", 0, 0, 1, 0)
    last = Batch(0, 0, RecordState.ARCHIVED, LIMITS.delivery_count_limit)
    assert partition.release_member("a", 0).batches == (last,)
    assert partition.start_offset == 1


def test_records_that_return_often_are_delivered_in_small_batches_and_finally_alone() -> None:
    """What ends its members takes few others with it: ten records, five deliveries each."""
    partition = SharePartition(0, Limits(delivery_count_limit=5))
    parties: list[list[int]] = []
    for _ in range(3):
        assert partition.often_delivered(0) is None
        partition.acquire("a", 0, 9, 10, 0)
        partition.release_member("a", 0)
    while partition.start_offset < 10:
        first = partition.next_fetch_offset()
        together = partition.often_delivered(first)
        assert together is not None
        assert partition.acquire("a", 0, 9, 10, 0) == (), "they go by themselves"
        taken = partition.acquire("a", first, 9, together, 0, often=True)
        parties.append([each.last_offset - each.first_offset + 1 for each in taken])
        if first == 0:
            partition.release_member("a", 0)
        else:
            settled(partition, "a", first, *[ACCEPT] * sum(parties[-1]))
    assert parties == [[5], [1], [1], [1], [1], [1], [2], [1], [1], [1]]


def test_a_record_that_returns_often_does_not_block_the_delivery_of_others() -> None:
    partition = SharePartition(0, Limits(delivery_count_limit=3))
    for _ in range(2):
        partition.acquire("a", 0, 0, 1, 0)
        partition.release_member("a", 0)
    assert partition.often_delivered(0) == 1
    assert partition.acquire("a", 0, 9, 10, 0) == (Batch(1, 9, RecordState.ACQUIRED, 1),)
    assert partition.acquire("b", 0, 9, 10, 0, often=True) == (Batch(0, 0, RecordState.ACQUIRED, 3),)


def test_an_acknowledgement_past_the_records_read_is_refused() -> None:
    partition = SharePartition(0, LIMITS)
    with pytest.raises(ApiError, match="INVALID_RECORD_STATE"):
        partition.acknowledge("a", 3, [ACCEPT], 0)
    partition.acquire("a", 0, 1, 2, 0)
    for first_offset, kinds in ((3, [ACCEPT]), (1, [ACCEPT, ACCEPT])):
        with pytest.raises(ApiError, match="INVALID_REQUEST"):
            partition.acknowledge("a", first_offset, kinds, 0)
    settled(partition, "a", 0, ACCEPT, ACCEPT)


def test_a_lock_that_expired_during_a_failed_write_is_released_after_it() -> None:
    partition = SharePartition(0, LIMITS)
    partition.acquire("a", 0, 0, 1, 0)
    write = partition.acknowledge("a", 0, [ACCEPT], 0)
    assert partition.expire_locks(100).batches == ()
    partition.settle(write, 0, is_durable=False)
    assert partition.locks.next_timeout_ms() == 100
    assert partition.expire_locks(100).batches == (Batch(0, 0, RecordState.AVAILABLE, 1),)
    assert partition.next_fetch_offset() == 0


def lines_of(work: Callable[[], None]) -> int:
    """Return how many lines of Python the work takes."""
    count = 0

    def traced(frame: FrameType, event: str, argument: object) -> Trace:
        nonlocal count
        count += event == "line"
        return traced

    before = sys.gettrace()
    sys.settrace(traced)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


Trace = Callable[[FrameType, str, object], Any]


def one_by_one(partition: SharePartition, offsets: Iterable[int]) -> None:
    for offset in offsets:
        settled(partition, "a", offset, ACCEPT)
        partition.locks.next_timeout_ms()
        partition.next_fetch_offset()


@pytest.mark.parametrize("order", ["forwards", "backwards", "every other one first"])
def test_the_cost_of_single_acknowledgements_does_not_grow_with_records_in_flight(order: str) -> None:
    lines = []
    for count in (100, 1_000):
        partition = SharePartition(0, Limits(max_record_locks=count))
        partition.acquire("a", 0, count - 1, count, 0)
        offsets = {
            "forwards": [*range(count)],
            "backwards": [*reversed(range(count))],
            "every other one first": [*range(1, count, 2), *range(0, count, 2)],
        }[order]
        lines.append(lines_of(partial(one_by_one, partition, offsets)) / count)
        assert partition.start_offset == count
    assert lines[1] < 1.1 * lines[0]


def test_the_cost_of_records_with_one_state_does_not_grow_with_their_number() -> None:
    def deliver_twice(count: int) -> None:
        partition = SharePartition(0, Limits(max_record_locks=count))
        partition.acquire("a", 0, count - 1, count, 0)
        partition.release_member("a", 10)
        partition.acquire("b", 0, count - 1, count, 20)
        write = partition.acknowledge_all("b", ((0, count - 1, [ACCEPT]),), 30)
        partition.settle(write, 40, is_durable=True)
        assert partition.start_offset == count

    assert lines_of(partial(deliver_twice, 10_000)) == lines_of(partial(deliver_twice, 10))


def test_renewed_locks_do_not_accumulate() -> None:
    partition = SharePartition(0, LIMITS)
    partition.acquire("a", 0, 0, 1, 0)
    for now_ms in range(1, 5_000):
        partition.acknowledge("a", 0, [RENEW], now_ms)
    assert len(partition.locks._heap) < 1_000
    assert partition.locks.next_timeout_ms() == 4_999 + LIMITS.record_lock_duration_ms


class Model(RuleBasedStateMachine):
    """What members have been told, beside what the partition says."""

    def __init__(self) -> None:
        super().__init__()
        self.partition = SharePartition(0, LIMITS)
        self.now_ms = 0
        self.holders: dict[int, tuple[str, int]] = {}
        self.deliveries: dict[int, int] = {}
        self.done: set[int] = set()

    @rule(member=st.sampled_from("abc"), max_records=st.integers(1, 6))
    def acquire(self, member: str, max_records: int) -> None:
        first = self.partition.next_fetch_offset()
        for batch in self.partition.acquire(member, first, first + 5, max_records, self.now_ms):
            for offset in range(batch.first_offset, batch.last_offset + 1):
                assert offset not in self.done
                assert offset not in self.holders
                self.deliveries[offset] = self.deliveries.get(offset, 0) + 1
                assert batch.delivery_count == self.deliveries[offset] <= LIMITS.delivery_count_limit
                self.holders[offset] = (member, self.now_ms + LIMITS.record_lock_duration_ms)

    @rule(
        member=st.sampled_from("abc"),
        back=st.integers(0, 12),
        kind=st.sampled_from(Acknowledgement),
        is_durable=st.booleans(),
    )
    def acknowledge(self, member: str, back: int, kind: Acknowledgement, *, is_durable: bool) -> None:
        offset = self.partition.end_offset - back
        holder, until_ms = self.holders.get(offset, ("", 0))
        try:
            write = self.partition.acknowledge(member, offset, [kind], self.now_ms)
        except ApiError:
            assert holder != member or until_ms <= self.now_ms
            return
        assert holder == member
        assert until_ms > self.now_ms
        self.partition.settle(write, 0, is_durable=is_durable)
        if kind is RENEW:
            self.holders[offset] = (member, self.now_ms + LIMITS.record_lock_duration_ms)
        elif is_durable:
            self.come_back(offset, is_final=kind is not RELEASE)

    @rule(passed_ms=st.integers(1, 80))
    def wait(self, passed_ms: int) -> None:
        self.now_ms += passed_ms
        self.partition.expire_locks(self.now_ms)
        for offset in [each for each, (_, until_ms) in self.holders.items() if until_ms <= self.now_ms]:
            self.come_back(offset, is_final=False)

    @rule(member=st.sampled_from("abc"))
    def leave(self, member: str) -> None:
        self.partition.release_member(member, 0)
        for offset in [each for each, (holder, _) in self.holders.items() if holder == member]:
            self.come_back(offset, is_final=False)

    @rule()
    def restart(self) -> None:
        """Lose the state in memory: the owners of records, and their delivery counts by then."""
        kept = tuple(batch for batch in self.partition.batches() if batch.state is not RecordState.ACQUIRED)
        end = self.partition.end_offset
        self.partition = SharePartition(self.partition.start_offset, LIMITS, kept)
        for offset in self.holders:
            known = [
                b.delivery_count
                for b in self.partition.batches()
                if b.first_offset <= offset <= b.last_offset
            ]
            self.deliveries[offset] = known[0] if known else 0
        self.holders.clear()
        assert self.partition.end_offset <= end

    def come_back(self, offset: int, *, is_final: bool) -> None:
        del self.holders[offset]
        if is_final or self.deliveries[offset] >= LIMITS.delivery_count_limit:
            self.done.add(offset)

    @invariant()
    def it_knows_how_many_are_done_with(self) -> None:
        final = (RecordState.ACKNOWLEDGED, RecordState.ARCHIVED)
        assert self.partition.done_count == sum(
            batch.last_offset + 1 - batch.first_offset
            for batch in self.partition.batches()
            if batch.state in final
        )

    @invariant()
    def nothing_is_lost(self) -> None:
        assert set(range(self.partition.start_offset)) <= self.done

    @invariant()
    def it_knows_what_its_members_hold(self) -> None:
        held = {
            offset
            for batch in self.partition.batches() if batch.state is RecordState.ACQUIRED
            for offset in range(batch.first_offset, batch.last_offset + 1)
        }  # fmt: skip
        assert held == set(self.holders)
        assert len(held) <= LIMITS.max_record_locks


TestModel = Model.TestCase
TestModel.settings = settings(max_examples=60, stateful_step_count=40)
