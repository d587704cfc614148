"""The network's side of a membership, against a coordinator that answers when the test says so."""

from __future__ import annotations

import math
from typing import Any, TypeVar

import anyio
import pytest

from kohort.client import group
from kohort.client.cluster import Cluster
from kohort.client.config import consumer_config
from kohort.client.consumer_metrics import ConsumerMetrics
from kohort.client.group import MEMBER_ID_PATIENCE_MS, GroupTask
from kohort.client.member import new_membership
from kohort.client.membership import Membership
from kohort.client.metrics import Metrics
from kohort.client.positions import Positions
from kohort.client.retry import monotonic_ms
from kohort.client.values import Node
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kohort.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kohort.protocol.schema import Message
from tests.client.steps import LONG_MS

M = TypeVar("M", bound=Message)
GIVEN_ID = "c-1"
NEVER = math.inf


class SlowCoordinator(Cluster):
    """Gives an id to who joins without one, once it may; leaves whoever joins with one waiting."""

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.may_answer = anyio.Event()
        self.asked: list[Message] = []

    async def coordinator(self, key: str, key_type: int = 0) -> Node:
        return Node(1, "localhost", 1, None)

    async def request_coordinator(
        self,
        key: str,
        request: Message,
        answer: type[M],
        *,
        key_type: int = 0,
        channel: str = "",
        timeout_ms: float | None = None,
        highest: int | None = None,
    ) -> M:
        self.asked.append(request)
        if isinstance(request, JoinGroupRequest):
            await self.may_answer.wait()
            if request.member_id:
                await anyio.sleep_forever()
            response: Message = JoinGroupResponse(
                error_code=ErrorCode.MEMBER_ID_REQUIRED,
                protocol_name=None,
                leader="",
                member_id=GIVEN_ID,
                members=(),
            )
        else:
            response = LeaveGroupResponse(error_code=ErrorCode.NONE, members=())
        assert isinstance(response, answer)
        return response

    def left(self) -> list[str]:
        """Return the ids under which somebody has left."""
        return [each.members[0].member_id for each in self.asked if isinstance(each, LeaveGroupRequest)]


def closing(
    answers_after_s: float, *, leave_group: bool | None = None, **options: Any
) -> tuple[list[str], int]:
    """Close a member that has just asked to be let in; return whose ids it gave back, and in how many ms."""

    async def main() -> tuple[list[str], int]:
        config = consumer_config({"group_id": "g", **options})
        cluster = SlowCoordinator(config)
        membership: Membership = new_membership(config, "g")
        membership.subscribe(["t"])
        sensors = ConsumerMetrics(Metrics("test"), cluster, Positions(), lambda _: None, lambda: 0)
        task = GroupTask(cluster, membership, lambda: None, sensors, lambda: None)

        async def answer() -> None:
            await anyio.sleep(answers_after_s)
            cluster.may_answer.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(task.run)
            while not cluster.asked:
                await anyio.sleep(0)
            tasks.start_soon(answer)
            began_ms = monotonic_ms()
            with anyio.fail_after(60):
                await task.leave("closes", LONG_MS, leave_group=leave_group)
            took_ms = monotonic_ms() - began_ms
            tasks.cancel_scope.cancel()
        return cluster.left(), took_ms

    return anyio.run(main)


def test_a_member_closed_while_it_joins_leaves_with_its_id() -> None:
    left, _ = closing(0.05)
    assert left == [GIVEN_ID]


def test_a_close_does_not_wait_forever_for_the_member_id() -> None:
    left, took_ms = closing(NEVER)
    assert left == []
    assert took_ms >= MEMBER_ID_PATIENCE_MS


def test_static_and_staying_members_do_not_wait_for_an_id(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group, "MEMBER_ID_PATIENCE_MS", LONG_MS)
    assert closing(NEVER, group_instance_id="one")[0] == []
    assert closing(NEVER, leave_group=False)[0] == []
