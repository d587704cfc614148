"""Advances the broker's time, and keeps the sessions of some members alive."""

from collections.abc import Iterator

import trio

from kohort.broker.broker import Broker
from kohort.broker.coordination.group_shards import GroupShard
from kohort.broker.group.classic.group import ClassicGroup, Member
from kohort.broker.group.commands import Heartbeat
from kohort.protocol.messages.heartbeat import HeartbeatRequest
from kohort.protocol.schema import Message
from kohort.testing.clock import MovableClock

HEARTBEATS_PER_SESSION = 3
CHECKPOINTS = 3
POLL_SECONDS = 0.001
ROUNDS_SECONDS_MAX = 10.0  # The test does not wait longer for a round.
STEP_MS_MIN = 1
STEP_MS_MAX = 60_000


class _NoRequester:
    """The requester of heartbeats that the test sends for members. It ignores the responses."""

    def hang_up(self) -> None:
        """Do nothing."""

    def hear(self, answer: Message) -> None:
        """Ignore the response."""


NO_REQUESTER = _NoRequester()


def advance(broker: Broker, clock: MovableClock, seconds: float, client_ids: frozenset[str]) -> None:
    """Advance the time and run due timers. Send heartbeats for the members of these clients meanwhile.

    It runs in the loop's thread, without interruption. Without such members it is one step.
    """
    left_ms = round(seconds * 1_000)
    while left_ms > 0:
        step_ms = min(left_ms, _send_heartbeats(broker, client_ids)) if client_ids else left_ms
        clock.advance(step_ms / 1_000)
        broker.timers.run_due(clock.now_ms())
        left_ms -= step_ms
    _send_heartbeats(broker, client_ids)


async def finish_rounds(broker: Broker) -> None:
    """Return when the due rounds of background work, such as retention, have ended."""
    for _ in range(CHECKPOINTS):  # Due tasks run before these checkpoints return.
        await trio.lowlevel.checkpoint()
    with trio.move_on_after(ROUNDS_SECONDS_MAX):
        while any(part.is_working for part in broker.supervisor.parts):
            await trio.sleep(POLL_SECONDS)


def _send_heartbeats(broker: Broker, client_ids: frozenset[str]) -> int:
    """Send a heartbeat for every member of these clients. Return the milliseconds until the next ones."""
    again_ms = STEP_MS_MAX
    for shard, group, member in list(_members(broker, client_ids)):
        again_ms = min(again_ms, max(member.session_timeout_ms // HEARTBEATS_PER_SESSION, STEP_MS_MIN))
        _send_heartbeat(shard, group, member)
    return again_ms


def _members(broker: Broker, client_ids: frozenset[str]) -> Iterator[tuple[GroupShard, ClassicGroup, Member]]:
    for each in broker.group_shards.groups():
        group = broker.group_shards.find(each.group_id, ClassicGroup)
        for member in () if group is None else group.members.values():
            if group is not None and member.client_id in client_ids:
                yield broker.group_shards.shard_of(group.group_id), group, member


def _send_heartbeat(shard: GroupShard, group: ClassicGroup, member: Member) -> None:
    message = HeartbeatRequest(
        group_id=group.group_id,
        generation_id=group.generation_id,
        member_id=member.member_id,
        group_instance_id=member.instance_id,
    )
    shard.submit(Heartbeat(shard.ask(NO_REQUESTER, NO_REQUESTER.hear), message))
