"""Time that passes, while some members of groups may be heard of."""

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
LOOK_TURNS = 3
LOOK_SECONDS = 0.001
ROUNDS_SECONDS_MAX = 10.0  # A round that takes longer goes on behind the test's back.
HOP_MS_MIN = 1
HOP_MS_MAX = 60_000


class _Nobody:
    """Asks for members that do not ask themselves, and hears no answer."""

    def hang_up(self) -> None:
        """Lose nothing."""

    def hear(self, answer: Message) -> None:
        """Take the answer to a heartbeat."""


NOBODY = _Nobody()


def advance(broker: Broker, clock: MovableClock, seconds: float, client_ids: frozenset[str]) -> None:
    """Let time pass, and do what becomes due; members of these clients send heartbeats meanwhile.

    In the loop's thread, so that nothing comes in between. Without such members it passes at once.
    """
    left_ms = round(seconds * 1_000)
    while left_ms > 0:
        hop_ms = min(left_ms, _send_heartbeats(broker, client_ids)) if client_ids else left_ms
        clock.move_on(hop_ms / 1_000)
        broker.timers.run_due(clock.now_ms())
        left_ms -= hop_ms
    _send_heartbeats(broker, client_ids)


async def finish_rounds(broker: Broker) -> None:
    """Return once every round of background work that was due has ended, such as one of retention."""
    for _ in range(LOOK_TURNS):  # Tasks whose time has come are woken before any of these turns.
        await trio.lowlevel.checkpoint()
    with trio.move_on_after(ROUNDS_SECONDS_MAX):
        while any(part.is_working for part in broker.supervisor.parts):
            await trio.sleep(LOOK_SECONDS)


def _send_heartbeats(broker: Broker, client_ids: frozenset[str]) -> int:
    """Let every member of these clients be heard of; return after how many milliseconds it is time again."""
    again_ms = HOP_MS_MAX
    for shard, group, member in list(_members(broker, client_ids)):
        again_ms = min(again_ms, max(member.session_timeout_ms // HEARTBEATS_PER_SESSION, HOP_MS_MIN))
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
        group_instance_id=member.group_instance_id,
    )
    shard.submit(Heartbeat(shard.ask(NOBODY, NOBODY.hear), message))
