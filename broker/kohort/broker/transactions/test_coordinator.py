"""Transactions decided: states, epochs, fencing, time-outs, by the answers and the records."""

from __future__ import annotations

from typing import Any

import pytest

from kohort.broker.group.decision import Decision, Note, Reply, SetTimer
from kohort.broker.transactions.commands import (
    AddPartitions,
    Command,
    EndTransaction,
    ExpireTransactionalIds,
    InitProducerId,
    MarkersDue,
    MarkersWritten,
    TimerFired,
    TransactionTimer,
)
from kohort.broker.transactions.coordinator import TransactionConfig, TransactionCoordinator
from kohort.broker.transactions.transaction import EPOCH_MAX, TransactionState
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.end_txn import EndTxnRequest
from kohort.protocol.messages.init_producer_id import InitProducerIdRequest

State = TransactionState
PLACES = frozenset({("t", 0), ("t", 1)})
TIMEOUT_MS = 60_000


class World:
    """One core, its log, and what it wants done."""

    def __init__(self) -> None:
        self.core = TransactionCoordinator(TransactionConfig())
        self.log: list[Any] = []
        self.now_ms = 1_000_000
        self.due: list[MarkersDue] = []
        self.timers: dict[object, int] = {}
        self._fresh = 100

    def do(self, command: Command) -> Any:
        """Execute a command; return its answer, None if it has none."""
        return self.carry_out(self.core.handle(command, self.now_ms))

    def carry_out(self, decision: Decision) -> Any:
        for record in decision.records:
            self.core.replay(record)
            self.log.append(record)
        answer = None
        for effect in decision.effects:
            if isinstance(effect, Reply):
                answer = effect.message
            elif isinstance(effect, SetTimer):
                self.timers[effect.key] = effect.deadline_ms
            elif isinstance(effect, Note):
                assert isinstance(effect.event, MarkersDue)
                self.due.append(effect.event)
        return answer

    def reload(self) -> None:
        """Go on as another coordinator does that reads the log."""
        self.core = TransactionCoordinator(TransactionConfig())
        for record in self.log:
            self.core.replay(record)
        self.due, self.timers = [], {}
        self.carry_out(self.core.loaded(self.now_ms))

    def init(
        self, producer_id: int = -1, epoch: int = -1, version: int = 5, timeout_ms: int = TIMEOUT_MS
    ) -> Any:
        message = InitProducerIdRequest(
            transactional_id="a",
            transaction_timeout_ms=timeout_ms,
            producer_id=producer_id,
            producer_epoch=epoch,
        )
        fresh = None
        if self.core.needs_producer_id("a"):
            self._fresh += 1
            fresh = self._fresh
        return self.do(InitProducerId(1, message, version, fresh))

    def add(
        self, producer_id: int, epoch: int, places: frozenset[tuple[str, int]] = PLACES, version: int = 0
    ) -> int:
        answer = self.do(AddPartitions(2, "a", producer_id, epoch, places, version))
        return int(answer.error_code)

    def end(self, producer_id: int, epoch: int, *, commit: bool = True, version: int = 4) -> Any:
        message = EndTxnRequest(
            transactional_id="a", producer_id=producer_id, producer_epoch=epoch, committed=commit
        )
        fresh = None
        if self.core.needs_producer_id("a"):
            self._fresh += 1
            fresh = self._fresh
        return self.do(EndTransaction(3, message, version, fresh))

    def markers_written(self) -> None:
        for due in self.due:
            self.do(MarkersWritten(due.transactional_id, due.producer_id, due.producer_epoch))
        self.due = []

    @property
    def state(self) -> State:
        return self.core.transactions["a"].state


@pytest.fixture
def world() -> World:
    return World()


def started(world: World) -> tuple[int, int]:
    answer = world.init()
    assert answer.error_code == 0
    return answer.producer_id, answer.producer_epoch


@pytest.mark.parametrize("commit", [True, False])
def test_a_transaction_ends_once_its_markers_are_written(world: World, commit: bool) -> None:
    producer = started(world)
    assert producer == (101, 0)
    assert world.add(*producer) == 0
    assert world.state is State.ONGOING
    assert world.end(*producer, commit=commit).error_code == 0
    assert world.state is (State.PREPARE_COMMIT if commit else State.PREPARE_ABORT)
    assert world.due == [MarkersDue("a", 101, 0, commit, PLACES, 0)]
    world.markers_written()
    assert world.state is (State.COMPLETE_COMMIT if commit else State.COMPLETE_ABORT)
    assert world.add(*producer) == 0, "the next one begins with the same epoch"


def test_a_prepared_transaction_is_completed_by_the_next_coordinator(world: World) -> None:
    producer = started(world)
    world.add(*producer)
    world.end(*producer)
    world.reload()
    assert world.due == [MarkersDue("a", *producer, True, PLACES, 0)]
    assert world.end(*producer).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    assert world.end(*producer, commit=False).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    assert world.add(*producer) == ErrorCode.CONCURRENT_TRANSACTIONS
    assert world.init().error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    world.markers_written()
    assert world.end(*producer).error_code == 0, "told again that it is committed"
    assert world.end(*producer, commit=False).error_code == ErrorCode.INVALID_TXN_STATE


def test_a_new_producer_fences_the_old_one(world: World) -> None:
    old = started(world)
    new = started(world)
    assert new == (old[0], old[1] + 1)
    assert world.add(*old) == ErrorCode.PRODUCER_FENCED
    assert world.end(*old).error_code == ErrorCode.PRODUCER_FENCED
    assert world.end(*old, version=1).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert world.add(new[0] + 5, new[1]) == ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_a_new_producer_first_aborts_the_open_transaction_of_the_old_one(world: World) -> None:
    old = started(world)
    world.add(*old)
    assert world.init().error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    assert world.due == [MarkersDue("a", old[0], old[1] + 1, False, PLACES, 0)]
    assert world.end(*old).error_code == ErrorCode.PRODUCER_FENCED
    world.markers_written()
    assert started(world) == (old[0], old[1] + 2)


def test_a_transaction_that_is_open_for_too_long_is_aborted(world: World) -> None:
    producer = started(world)
    world.add(*producer)
    key = TransactionTimer("a")
    assert world.timers[key] == world.now_ms + TIMEOUT_MS
    world.now_ms += TIMEOUT_MS - 1
    world.do(TimerFired(key))
    assert world.state is State.ONGOING
    world.now_ms += 1
    world.reload()
    assert world.timers[key] <= world.now_ms, "also after a fail-over"
    world.do(TimerFired(key))
    assert world.due == [MarkersDue("a", producer[0], producer[1] + 1, False, PLACES, 0)]
    assert world.end(*producer).error_code == ErrorCode.PRODUCER_FENCED


def test_a_producer_that_timed_out_can_continue_with_the_next_epoch(world: World) -> None:
    producer_id, epoch = started(world)
    world.add(producer_id, epoch)
    world.now_ms += TIMEOUT_MS
    world.do(TimerFired(TransactionTimer("a")))
    assert world.init(producer_id, epoch).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    world.markers_written()
    for _ in range(2):
        answer = world.init(producer_id, epoch)
        assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (0, producer_id, epoch + 1)
    assert started(world) == (producer_id, epoch + 2)
    assert world.init(producer_id, epoch).error_code == ErrorCode.PRODUCER_FENCED


def test_the_epoch_that_fences_the_last_one_is_never_given_to_a_producer(world: World) -> None:
    producer_id, _ = started(world)
    world.core.transactions["a"].producer_epoch = EPOCH_MAX - 1
    world.add(producer_id, EPOCH_MAX - 1, version=2)
    world.now_ms += TIMEOUT_MS
    world.do(TimerFired(TransactionTimer("a")))
    world.markers_written()
    assert world.end(producer_id, EPOCH_MAX - 1, commit=False, version=5).producer_epoch == EPOCH_MAX
    assert world.add(producer_id, EPOCH_MAX, version=2) == ErrorCode.PRODUCER_FENCED
    again = world.end(producer_id, EPOCH_MAX, commit=False, version=5)
    assert again.error_code == ErrorCode.PRODUCER_FENCED
    answer = world.init(producer_id, EPOCH_MAX - 1)
    assert (answer.error_code, answer.producer_epoch, answer.producer_id > producer_id) == (0, 0, True)


def test_partitions_are_verified_while_the_transaction_is_open(world: World) -> None:
    producer = started(world)
    verify = world.core.verify
    assert verify("a", *producer, ("t", 0)) is ErrorCode.TRANSACTION_ABORTABLE
    world.add(*producer)
    assert verify("a", *producer, ("t", 0)) is None
    assert verify("a", *producer, ("t", 2)) is ErrorCode.TRANSACTION_ABORTABLE
    assert verify("a", producer[0], producer[1] + 1, ("t", 0)) is ErrorCode.PRODUCER_FENCED
    assert verify("b", *producer, ("t", 0)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    world.end(*producer)
    assert verify("a", *producer, ("t", 0)) is ErrorCode.CONCURRENT_TRANSACTIONS


def test_each_end_gives_a_producer_of_version_2_a_new_epoch(world: World) -> None:
    producer = started(world)
    world.add(*producer, version=2)
    ended = world.end(*producer, version=5)
    assert (ended.error_code, ended.producer_id, ended.producer_epoch) == (0, producer[0], producer[1] + 1)
    assert world.due[0].producer_epoch == producer[1] + 1
    again = world.end(*producer, version=5)
    assert again.error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    world.markers_written()
    again = world.end(*producer, version=5)
    assert (again.error_code, again.producer_epoch) == (0, producer[1] + 1), "asked again, told again"
    assert world.end(*producer, commit=False, version=5).error_code == ErrorCode.INVALID_TXN_STATE
    assert world.add(*producer, version=2) == ErrorCode.PRODUCER_FENCED
    assert world.add(producer[0], producer[1] + 1, version=2) == 0


def test_a_fenced_producer_of_version_2_is_told_and_can_continue(world: World) -> None:
    producer_id, epoch = started(world)
    world.add(producer_id, epoch)
    world.now_ms += TIMEOUT_MS
    world.do(TimerFired(TransactionTimer("a")))
    early = world.end(producer_id, epoch, version=5)
    assert early.error_code == ErrorCode.CONCURRENT_TRANSACTIONS, "it is being aborted"
    world.markers_written()
    late = world.end(producer_id, epoch, version=5)
    assert late.error_code == ErrorCode.PRODUCER_FENCED, "it was aborted"
    late = world.end(producer_id, epoch, commit=False, version=5)
    assert (late.error_code, late.producer_id, late.producer_epoch) == (0, producer_id, epoch + 1)
    assert world.end(producer_id, epoch).error_code == ErrorCode.PRODUCER_FENCED, "by version 1 it is not"


def test_a_commit_with_the_previous_id_after_a_timeout_is_refused(world: World) -> None:
    producer_id, _ = started(world)
    world.core.transactions["a"].producer_epoch = EPOCH_MAX - 1
    world.add(producer_id, EPOCH_MAX - 1, version=2)
    aborted = world.end(producer_id, EPOCH_MAX - 1, commit=False, version=5)
    world.markers_written()
    assert aborted.producer_id != producer_id
    late = world.end(producer_id, EPOCH_MAX - 1, version=5)
    assert late.error_code == ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("version", [4, 5])
def test_an_opposite_end_is_retried_until_the_first_has_completed(
    world: World, commit: bool, version: int
) -> None:
    producer_id, epoch = started(world)
    world.add(producer_id, epoch, version=2 if version == 5 else 0)
    assert world.end(producer_id, epoch, commit=commit, version=version).error_code == 0
    other = world.end(producer_id, epoch, commit=not commit, version=version)
    assert other.error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    world.markers_written()
    other = world.end(producer_id, epoch, commit=not commit, version=version)
    is_fenced = version == 5 and not commit
    assert other.error_code == (ErrorCode.PRODUCER_FENCED if is_fenced else ErrorCode.INVALID_TXN_STATE)


@pytest.mark.parametrize("commit", [True, False])
def test_an_end_by_another_version_1_producer_is_fenced(world: World, commit: bool) -> None:
    """Apache Kafka answers that it is done, and gives the one that is fenced the other's epoch."""
    fenced = started(world)
    world.add(*fenced, version=2)
    assert world.init().error_code == ErrorCode.CONCURRENT_TRANSACTIONS, "it is aborted first"
    world.markers_written()
    newest = started(world)
    world.add(*newest)
    assert world.end(*newest, commit=commit).error_code == 0
    world.markers_written()
    before = newest[0], newest[1] - 1
    for old in (fenced, before):
        for is_commit in (True, False):
            late = world.end(*old, commit=is_commit, version=5)
            assert late.error_code == ErrorCode.PRODUCER_FENCED
    assert world.end(*newest, commit=commit).error_code == 0, "who has ended it may ask again"


def test_an_end_by_another_producer_id_of_version_1_is_fenced(world: World) -> None:
    producer_id, _ = started(world)
    world.core.transactions["a"].producer_epoch = EPOCH_MAX - 1
    newest = started(world)
    assert newest[0] != producer_id
    world.add(*newest)
    assert world.end(*newest).error_code == 0
    world.markers_written()
    late = world.end(producer_id, EPOCH_MAX - 1, version=5)
    assert late.error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING


@pytest.mark.parametrize("commit", [True, False])
def test_a_late_end_does_not_end_the_next_transaction(world: World, commit: bool) -> None:
    producer_id, epoch = started(world)
    world.add(producer_id, epoch, version=2)
    assert world.end(producer_id, epoch, commit=commit, version=5).error_code == 0
    world.markers_written()
    assert world.add(producer_id, epoch + 1, version=2) == 0
    again = world.end(producer_id, epoch, commit=commit, version=5)
    assert again.error_code == ErrorCode.PRODUCER_FENCED
    assert world.state is State.ONGOING


@pytest.mark.parametrize("is_last_epoch", [False, True])
@pytest.mark.parametrize("commit", [True, False])
def test_a_producer_that_is_faster_than_its_markers_must_retry(
    world: World, commit: bool, is_last_epoch: bool
) -> None:
    """As in Apache Kafka, which does not know the id, though, that the last epoch is followed by."""
    producer_id, epoch = started(world)
    if is_last_epoch:
        epoch = world.core.transactions["a"].producer_epoch = EPOCH_MAX - 1
    world.add(producer_id, epoch, version=2)
    ended = world.end(producer_id, epoch, commit=commit, version=5)
    newest = ended.producer_id, ended.producer_epoch
    world.reload()  # Whoever coordinates next knows it as well.
    for is_commit in (True, False):
        early = world.end(*newest, commit=is_commit, version=5)
        assert early.error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    assert world.add(*newest, version=2) == ErrorCode.CONCURRENT_TRANSACTIONS
    assert world.core.verify("a", *newest, ("t", 0)) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert world.init(*newest).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    world.markers_written()
    assert world.end(newest[0], newest[1] + 1, version=5).error_code == ErrorCode.PRODUCER_FENCED
    aborted = world.end(*newest, commit=False, version=5)
    assert (aborted.error_code, aborted.producer_epoch) == (0, newest[1] + 1)


def test_a_late_end_of_the_last_epoch_does_not_end_a_transaction_of_the_next_id(world: World) -> None:
    producer_id, _ = started(world)
    world.core.transactions["a"].producer_epoch = EPOCH_MAX - 1
    world.add(producer_id, EPOCH_MAX - 1, version=2)
    ended = world.end(producer_id, EPOCH_MAX - 1, version=5)
    world.markers_written()
    assert world.add(ended.producer_id, 0, version=2) == 0
    assert world.end(producer_id, EPOCH_MAX - 1, version=5).error_code == ErrorCode.PRODUCER_FENCED
    assert world.state is State.ONGOING


def test_a_transaction_of_version_2_can_be_aborted_before_it_began(world: World) -> None:
    producer = started(world)
    assert world.end(*producer, version=5).error_code == ErrorCode.INVALID_TXN_STATE
    ended = world.end(*producer, commit=False, version=5)
    assert (ended.error_code, ended.producer_epoch) == (0, producer[1] + 1)
    assert world.due == [MarkersDue("a", producer[0], producer[1] + 1, False, frozenset(), 2)]
    world.markers_written()
    assert world.state is State.COMPLETE_ABORT
    assert world.end(*producer, commit=False, version=4).error_code == ErrorCode.PRODUCER_FENCED


def test_a_producer_of_version_1_cannot_end_a_transaction_before_it_began(world: World) -> None:
    producer = started(world)
    for commit in (True, False):
        assert world.end(*producer, commit=commit).error_code == ErrorCode.INVALID_TXN_STATE


def test_the_last_epoch_of_an_id_is_followed_by_another_id(world: World) -> None:
    producer_id, _ = started(world)
    world.core.transactions["a"].producer_epoch = EPOCH_MAX - 2
    assert started(world) == (producer_id, EPOCH_MAX - 1)
    world.add(producer_id, EPOCH_MAX - 1, version=2)
    ended = world.end(producer_id, EPOCH_MAX - 1, version=5)
    assert (ended.error_code, ended.producer_epoch) == (0, 0)
    assert ended.producer_id > producer_id
    assert (world.due[0].producer_id, world.due[0].producer_epoch) == (producer_id, EPOCH_MAX)
    world.reload()
    world.markers_written()
    again = world.end(producer_id, EPOCH_MAX - 1, version=5)
    assert (again.error_code, again.producer_id, again.producer_epoch) == (0, ended.producer_id, 0)
    assert world.add(ended.producer_id, 0, version=2) == 0


def test_init_at_the_last_epoch_takes_a_new_id(world: World) -> None:
    producer_id, _ = started(world)
    world.core.transactions["a"].producer_epoch = EPOCH_MAX - 1
    again, epoch = started(world)
    assert (again > producer_id, epoch) == (True, 0)


def test_a_producer_bumps_its_own_epoch_and_can_repeat_the_request(world: World) -> None:
    producer_id, epoch = started(world)
    for _ in range(2):
        answer = world.init(producer_id, epoch)
        assert (answer.error_code, answer.producer_epoch) == (0, epoch + 1)
    assert world.init(producer_id, epoch + 1).producer_epoch == epoch + 2
    assert world.init(producer_id, epoch).error_code == ErrorCode.PRODUCER_FENCED
    assert world.init(producer_id, epoch, version=3).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert world.init(producer_id + 7, 0).error_code == ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_transaction_timeouts_have_bounds(world: World, timeout_ms: int) -> None:
    assert world.init(timeout_ms=timeout_ms).error_code == ErrorCode.INVALID_TRANSACTION_TIMEOUT


def test_unused_transactional_ids_expire_but_not_during_a_transaction(world: World) -> None:
    producer = started(world)
    world.add(*producer)
    world.now_ms += 8 * 86_400_000
    world.do(ExpireTransactionalIds())
    assert "a" in world.core.transactions
    world.end(*producer)
    world.markers_written()
    world.now_ms += 8 * 86_400_000
    world.do(ExpireTransactionalIds())
    assert world.core.transactions == {}
    world.reload()
    assert world.core.transactions == {}


def test_markers_of_an_earlier_end_complete_nothing(world: World) -> None:
    producer = started(world)
    world.add(*producer)
    world.end(*producer)
    world.do(MarkersWritten("a", producer[0], producer[1] + 1))
    assert world.state is State.PREPARE_COMMIT
