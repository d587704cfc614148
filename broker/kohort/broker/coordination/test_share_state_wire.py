"""What brokers ask each other of share state: together, in order, and answered in any case."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any
from uuid import UUID

import pytest
import structlog
import trio
import trio.testing

from kohort.broker.coordination.peer_requests import PeerRequests
from kohort.broker.coordination.share_state_wire import BY_COMMAND, BY_REQUEST, AskOfGroup
from kohort.broker.group.decision import Reply
from kohort.broker.runtime.clock import SystemClock
from kohort.broker.runtime.other_brokers import Unreachable
from kohort.broker.runtime.throttled_log import ThrottledLog
from kohort.broker.runtime.workers import TrioWorkers
from kohort.broker.share_state.commands import (
    DeleteState,
    InitializeState,
    ReadState,
    ReadSummary,
    WriteState,
)
from kohort.broker.share_state.coordinator import ShareStateConfig, ShareStateCoordinator
from kohort.broker.share_state.state import ShareKey
from kohort.protocol.errors import ErrorCode
from kohort.protocol.schema import Message
from kohort.protocol.share_state_log import ShareStateBatch

TOPIC, OTHER = UUID(int=1), UUID(int=2)
BATCHES = (ShareStateBatch(first_offset=5, last_offset=7, delivery_state=2, delivery_count=1),)


class Others:
    """A broker with a share coordinator, which answers once it may."""

    node_id = 1

    def __init__(self) -> None:
        self.core = ShareStateCoordinator(ShareStateConfig())
        self.asked: list[Any] = []
        self.may_answer = trio.Event()
        self.is_gone = False

    async def ask(self, node_id: int, request: Message, answer: type[Any], version: int) -> Any:
        again: Any = type(request).decode(request.encode(version), version)  # As it goes over the wire.
        self.asked.append(again)
        await self.may_answer.wait()
        if self.is_gone:
            raise Unreachable("gone")
        kind = BY_REQUEST[type(again)]
        results = []
        for topic in again.topics:
            for each in topic.partitions:
                key = ShareKey(again.group_id, topic.topic_id, each.partition)
                decision = self.core.handle(kind.command(1, key, each), 0)
                for record in decision.records:
                    self.core.replay(record)
                (reply,) = decision.effects
                assert isinstance(reply, Reply)
                results.append((topic.topic_id, reply.message))
        return answer.decode(kind.answer(results).encode(version), version)


Ask = Callable[[Any], None]


@pytest.fixture
def others() -> Others:
    return Others()


@pytest.fixture
def heard() -> list[Any]:
    """The answers, in the order in which they came."""
    return []


@asynccontextmanager
async def asking(others: Others, heard: list[Any]) -> AsyncIterator[Ask]:
    log = ThrottledLog(structlog.get_logger(), SystemClock())
    async with trio.open_nursery() as nursery:
        peers = PeerRequests(others, TrioWorkers(nursery), log)
        yield lambda command: peers.ask(
            2, AskOfGroup(type(command), command.key.group_id), command, heard.append
        )
        with trio.fail_after(5):
            others.may_answer.set()


def key(index: int, group: str = "g", topic: UUID = TOPIC) -> ShareKey:
    return ShareKey(group, topic, index)


def write(index: int, start_offset: int, group: str = "g") -> WriteState:
    return WriteState(-1, key(index, group), 1, 3, start_offset, 2, BATCHES)


async def test_every_command_gives_the_same_result_on_another_broker(
    others: Others, heard: list[Any]
) -> None:
    async with asking(others, heard) as ask:
        others.may_answer.set()
        for command in (
            InitializeState(-1, key(0), 1, -1),
            write(0, 5),
            ReadState(-1, key(0), 3),
            ReadSummary(-1, key(0)),
            DeleteState(-1, key(0)),
            ReadSummary(-1, key(0)),
        ):
            before = len(heard)
            ask(command)
            while len(heard) == before:
                await trio.sleep(0)
    assert [each.error_code for each in heard] == [0] * 6
    _, _, read, summary, _, gone = heard
    assert (read.state_epoch, read.start_offset, len(read.state_batches)) == (1, 5, 1)
    assert (summary.start_offset, summary.leader_epoch, summary.delivery_complete_count) == (8, 3, 0)
    assert gone.start_offset == -1
    assert len(BY_COMMAND) == len({type(each) for each in others.asked})


async def test_requests_made_during_an_open_request_are_sent_together(
    others: Others, heard: list[Any]
) -> None:
    async with asking(others, heard) as ask:
        for index in range(4):
            ask(InitializeState(-1, key(index), 1, index))
            await trio.testing.wait_all_tasks_blocked()
        ask(InitializeState(-1, key(1, topic=OTHER), 1, 9))
    sizes = [sum(len(topic.partitions) for topic in each.topics) for each in others.asked]
    assert sizes == [1, 4]
    assert [each.partition for each in heard] == [0, 1, 2, 3, 1]


async def test_a_partition_is_named_once_in_a_request_and_its_writes_keep_their_order(
    others: Others, heard: list[Any]
) -> None:
    async with asking(others, heard) as ask:
        others.core.replay(others.core.handle(InitializeState(-1, key(0), 1, 0), 0).records[0])
        for start_offset in (1, 2, 3):
            ask(write(0, start_offset))
    offsets = [each.topics[0].partitions[0].start_offset for each in others.asked]
    assert offsets == [1, 2, 3]
    assert [each.error_code for each in heard] == [0, 0, 0]
    assert others.core.states[key(0)].start_offset == 3


async def test_groups_do_not_wait_for_each_other(others: Others, heard: list[Any]) -> None:
    async with asking(others, heard) as ask:
        ask(ReadSummary(-1, key(0, "g")))
        ask(ReadSummary(-1, key(0, "h")))
        await trio.testing.wait_all_tasks_blocked()
        assert {each.group_id for each in others.asked} == {"g", "h"}


async def test_a_request_queued_behind_a_failed_one_fails_with_it(others: Others, heard: list[Any]) -> None:
    """What was said later must not be kept before what was said first is tried again."""
    others.is_gone = True
    async with asking(others, heard) as ask:
        for start_offset in (1, 2):
            ask(write(0, start_offset))
        await trio.testing.wait_all_tasks_blocked()
    assert len(others.asked) == 1
    assert [each.error_code for each in heard] == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 2


async def test_a_request_made_inside_a_callback_is_answered(others: Others, heard: list[Any]) -> None:
    others.is_gone = True
    log = ThrottledLog(structlog.get_logger(), SystemClock())
    async with trio.open_nursery() as nursery:
        peers = PeerRequests(others, TrioWorkers(nursery), log)

        def again(left: int, answer: Message) -> None:
            heard.append(answer)
            if left:
                peers.ask(2, AskOfGroup(ReadSummary, "g"), ReadSummary(-1, key(0)), partial(again, left - 1))

        peers.ask(2, AskOfGroup(ReadSummary, "g"), ReadSummary(-1, key(0)), partial(again, 2))
        others.may_answer.set()
    assert len(heard) == 3
