"""What brokers ask each other about transactions: together, in order, and answered in any case."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import structlog
import trio

from kohort.broker.coordination.peer_requests import PeerRequests
from kohort.broker.coordination.transaction_markers import Marker
from kohort.broker.coordination.transaction_wire import ADD_PARTITIONS, WRITE_MARKERS, Addition
from kohort.broker.runtime.clock import SystemClock
from kohort.broker.runtime.other_brokers import Unreachable
from kohort.broker.runtime.throttled_log import ThrottledLog
from kohort.broker.runtime.workers import TrioWorkers
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from kohort.protocol.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from kohort.protocol.schema import Message


class Others:
    """Brokers that answer once they may, with what was set for a partition."""

    node_id = 1

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.may_answer = trio.Event()
        self.codes: dict[int, int] = {}
        self.fails = False
        self.quick: set[int] = set()

    async def ask(self, node_id: int, request: Message, answer: type[Any], version: int) -> Any:
        again: Any = type(request).decode(request.encode(version), version)  # As it goes over the wire.
        self.asked.append(again)
        if not (isinstance(again, WriteTxnMarkersRequest) and self.is_answered_at_once(again)):
            await self.may_answer.wait()
        if self.fails:
            raise Unreachable("gone")
        made = self.markers(again) if isinstance(again, WriteTxnMarkersRequest) else self.additions(again)
        return answer.decode(made.encode(version), version)

    def is_answered_at_once(self, request: WriteTxnMarkersRequest) -> bool:
        places = {
            index for each in request.markers for topic in each.topics for index in topic.partition_indexes
        }
        return places <= self.quick

    def markers(self, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
        return WriteTxnMarkersResponse(
            markers=tuple(
                WritableTxnMarkerResult(
                    producer_id=marker.producer_id,
                    topics=tuple(
                        WritableTxnMarkerTopicResult(
                            name=topic.name,
                            partitions=tuple(
                                WritableTxnMarkerPartitionResult(
                                    partition_index=index, error_code=self.codes.get(index, 0)
                                )
                                for index in topic.partition_indexes
                            ),
                        )
                        for topic in marker.topics
                    ),
                )
                for marker in request.markers
            )
        )

    def additions(self, request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnResponse:
        return AddPartitionsToTxnResponse(
            throttle_time_ms=0,
            results_by_transaction=tuple(
                AddPartitionsToTxnResult(
                    transactional_id=each.transactional_id,
                    topic_results=tuple(
                        AddPartitionsToTxnTopicResult(
                            name=topic.name,
                            results_by_partition=tuple(
                                AddPartitionsToTxnPartitionResult(
                                    partition_index=index, partition_error_code=self.codes.get(index, 0)
                                )
                                for index in topic.partitions
                            ),
                        )
                        for topic in each.topics
                    ),
                )
                for each in request.transactions
            ),
        )


class Asking:
    """The lines, and what was heard, in order."""

    def __init__(self, peers: PeerRequests) -> None:
        self.peers = peers
        self.heard: list[tuple[str, ErrorCode]] = []

    def add(self, name: str, index: int, *, epoch: int = 0, verify_only: bool = False) -> None:
        addition = Addition(name, 7, epoch, ("t", index), verify_only)
        self.peers.ask(2, ADD_PARTITIONS, addition, lambda code: self.heard.append((f"{name}-{index}", code)))

    def write(self, index: int, *, epoch: int = 0, is_commit: bool = True) -> None:
        marker = Marker(7, epoch, is_commit, 3, 2)
        self.peers.ask(
            2,
            WRITE_MARKERS,
            (marker, ("t", index)),
            lambda code: self.heard.append((f"{epoch}-{index}", code)),
        )


@pytest.fixture
def others() -> Others:
    return Others()


@asynccontextmanager
async def asking(others: Others) -> AsyncIterator[Asking]:
    log = ThrottledLog(structlog.get_logger(), SystemClock())
    async with trio.open_nursery() as nursery:
        yield Asking(PeerRequests(others, TrioWorkers(nursery), log))
        with trio.fail_after(5):
            others.may_answer.set()


async def test_requests_made_during_an_open_request_are_sent_together(others: Others) -> None:
    async with asking(others) as asked:
        asked.write(0)
        await trio.testing.wait_all_tasks_blocked()
        for index in (1, 2, 1):
            asked.write(index)
        asked.write(3, epoch=1, is_commit=False)
        others.codes = {2: ErrorCode.NOT_ENOUGH_REPLICAS}
    first, second = others.asked
    assert len(first.markers) == 1
    assert [
        (
            each.producer_epoch,
            each.transaction_result,
            each.coordinator_epoch,
            tuple(each.topics[0].partition_indexes),
        )
        for each in second.markers
    ] == [(0, True, 3, (1, 2)), (1, False, 3, (3,))]
    none, few = ErrorCode.NONE, ErrorCode.NOT_ENOUGH_REPLICAS
    assert asked.heard == [("0-0", none), ("0-1", none), ("0-2", few), ("0-1", none), ("1-3", none)]


async def test_a_request_names_an_id_once_and_keeps_its_order(others: Others) -> None:
    async with asking(others) as asked:
        asked.add("first", 9)
        await trio.testing.wait_all_tasks_blocked()
        asked.add("a", 0)
        asked.add("a", 1, epoch=1)  # Another epoch: not with the one before.
        asked.add("b", 2, verify_only=True)
        asked.add("a", 3)  # Of the first epoch, and yet behind the one before.
        asked.add("b", 4, verify_only=True)
    seen = [
        [
            (each.transactional_id, each.producer_epoch, each.verify_only, tuple(each.topics[0].partitions))
            for each in request.transactions
        ]
        for request in others.asked
    ]
    assert seen == [
        [("first", 0, False, (9,))],
        [("a", 0, False, (0,)), ("b", 0, True, (2, 4))],
        [("a", 1, False, (1,))],
        [("a", 0, False, (3,))],
    ]
    assert [name for name, _ in asked.heard if name[0] == "a"] == ["a-0", "a-1", "a-3"]


async def test_a_marker_that_waits_for_replicas_does_not_delay_others(others: Others) -> None:
    others.quick = {1}
    async with asking(others) as asked:
        asked.write(0)
        await trio.testing.wait_all_tasks_blocked()
        asked.write(1)
        await trio.testing.wait_all_tasks_blocked()
        assert asked.heard == [("0-1", ErrorCode.NONE)]
        assert [each.transaction_version for request in others.asked for each in request.markers] == [2, 2]
    assert asked.heard[1:] == [("0-0", ErrorCode.NONE)]


async def test_the_requester_is_answered_if_the_broker_is_gone(others: Others) -> None:
    others.fails = True
    async with asking(others) as asked:
        asked.write(0)
        asked.add("a", 0)
    assert sorted(asked.heard) == [
        ("0-0", ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ("a-0", ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ]


async def test_a_failing_callback_does_not_stop_other_answers(others: Others) -> None:
    def fail(code: ErrorCode) -> None:
        raise RuntimeError("a bug")

    async with asking(others) as asked:
        asked.peers.ask(2, WRITE_MARKERS, (Marker(7, 0, True, 3), ("t", 0)), fail)
        asked.write(0)
    assert asked.heard == [("0-0", ErrorCode.NONE)]
