"""Batches that wait for their transaction to have the partition: in order, however they are answered."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NoReturn, cast

import pytest

from kohort.broker.coordination.transaction_partitions import Answered, TransactionPartitions
from kohort.broker.coordination.transaction_wire import Addition
from kohort.broker.handlers.data.transactional import Permissions
from kohort.broker.handlers.transactions.family import TransactionServices
from kohort.broker.partitions import Partition
from kohort.broker.runtime.clock import ManualClock
from kohort.broker.transport.request import Request
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.records import BatchHeader
from kohort.storage import StorageError

PRODUCER = 7


class _Partition:
    """As much of a partition as is looked at."""

    topic, index, error_code = "t", 0, None

    def __init__(self, is_open: Callable[[int, int], bool]) -> None:
        self.log = SimpleNamespace(producers=SimpleNamespace(is_open=is_open))


class CoordinatedElsewhere(TransactionPartitions):
    """Partitions of transactions that another broker coordinates."""

    def __init__(self, world: World) -> None:
        shards = SimpleNamespace(shard_of=self._refuse)
        super().__init__(
            cast("Any", shards), cast("Any", SimpleNamespace(clock=ManualClock())), cast("Any", None), None
        )
        self._world = world

    @staticmethod
    def _refuse(_transactional_id: str) -> NoReturn:
        raise ApiError(ErrorCode.NOT_COORDINATOR)

    def ask_coordinator(self, addition: Addition, answered: Answered) -> None:
        if self._world.answers_at_once is None:
            self._world.asked.append(answered)
        else:
            answered(self._world.answers_at_once)

    def _when_ended(self, transactional_id: str, began_ms: int, action: Callable[[], None]) -> bool:
        world = self._world
        world.patience -= 1
        if world.patience >= 0:
            world.ended.append(action)
        return world.patience >= 0


class World:
    """A partition, a coordinator on another broker, and what became of each batch."""

    def __init__(self) -> None:
        self.is_open = False
        self.asked: list[Callable[[ErrorCode | None], None]] = []
        self.ended: list[Callable[[], None]] = []
        self.answers_at_once: ErrorCode | None = None
        self.patience = 3
        self.became: list[tuple[int, ErrorCode | None]] = []
        self.trips: set[int] = set()
        self.hung_up: list[int] = []
        self.partition = cast("Partition", _Partition(lambda producer_id, epoch: self.is_open))
        shards = SimpleNamespace(transaction_partitions=CoordinatedElsewhere(self))
        family = SimpleNamespace(shards=lambda: shards)
        self.permissions = Permissions(cast("TransactionServices", family))

    def write(self, number: int, version: int = 12) -> bool:
        """Return whether the batch with this number may be appended at once."""

        def resume(error: ApiError | None) -> None:
            if number in self.trips:
                raise StorageError("the disk has failed")
            self.became.append((number, None if error is None else error.code))

        return self.permissions.may_append(
            self.partition,
            cast("BatchHeader", SimpleNamespace(producer_id=PRODUCER, producer_epoch=0)),
            cast("Request", SimpleNamespace(version=version, hang_up=lambda: self.hung_up.append(number))),
            "id",
            resume,
        )


@pytest.fixture
def world() -> World:
    return World()


def test_later_batches_wait_for_the_first_and_are_not_verified_again(world: World) -> None:
    assert not any(world.write(number) for number in range(3))
    (answered,) = world.asked
    world.is_open = True  # As the first batch makes it.
    answered(None)
    assert world.became == [(0, None), (1, None), (2, None)]
    assert world.write(3)  # Nobody waits any more.


def test_a_batch_that_arrives_while_the_last_transaction_ends_keeps_its_order(world: World) -> None:
    world.write(0)
    world.asked.pop()(ErrorCode.CONCURRENT_TRANSACTIONS)
    world.write(1)  # It is not asked for: it would be let through before the first.
    assert not world.asked
    world.ended.pop()()
    answered = world.asked.pop()
    world.is_open = True
    answered(None)
    assert world.became == [(0, None), (1, None)]


def test_the_producer_is_answered_after_the_last_retry(world: World) -> None:
    world.patience = 1
    world.write(0)
    world.asked.pop()(ErrorCode.CONCURRENT_TRANSACTIONS)
    world.ended.pop()()
    world.asked.pop()(ErrorCode.CONCURRENT_TRANSACTIONS)
    assert world.became == [(0, ErrorCode.CONCURRENT_TRANSACTIONS)]


@pytest.mark.parametrize("version", [11, 12])
def test_each_batch_is_verified_alone_if_the_first_was_refused(world: World, version: int) -> None:
    world.write(0, version)
    world.write(1, version)
    world.asked.pop()(ErrorCode.PRODUCER_FENCED)
    assert world.became == [(0, ErrorCode.INVALID_PRODUCER_EPOCH)]
    world.asked.pop()(ErrorCode.NOT_COORDINATOR)
    assert world.became[1] == (1, ErrorCode.NOT_ENOUGH_REPLICAS)


def test_many_waiting_batches_are_answered_without_recursion(world: World) -> None:
    for number in range(5_000):
        world.write(number)
    world.answers_at_once = ErrorCode.COORDINATOR_NOT_AVAILABLE
    world.asked.pop()(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert world.became == [(number, ErrorCode.NOT_ENOUGH_REPLICAS) for number in range(5_000)]


def test_a_failing_batch_closes_its_connection_and_does_not_block_others(world: World) -> None:
    world.answers_at_once = ErrorCode.NOT_COORDINATOR
    world.trips = {0}
    world.write(0)
    world.write(1)
    assert (world.hung_up, world.became) == ([0], [(1, ErrorCode.NOT_ENOUGH_REPLICAS)])


@pytest.mark.parametrize("trips", [{0}, {1}, {0, 1}])
def test_waiting_batches_continue_behind_failing_ones(world: World, trips: set[int]) -> None:
    for number in range(3):
        world.write(number)
    world.trips = trips
    world.answers_at_once = ErrorCode.NOT_COORDINATOR
    world.asked.pop()(ErrorCode.NOT_COORDINATOR)
    world.write(3)
    assert world.hung_up == sorted(trips)
    assert [number for number, _ in world.became] == sorted({0, 1, 2, 3} - trips)
