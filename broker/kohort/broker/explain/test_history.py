"""Past rebalances have a room of their own: each group keeps what fits, and always its last."""

from __future__ import annotations

from kohort.broker.explain.events import RebalanceCompleted
from kohort.broker.explain.history import REPORT_BYTES, bytes_of
from kohort.broker.group import DeleteGroup, GroupConfig
from kohort.broker.group.test_world import Client, World, stable_group
from kohort.protocol.consumer import ConsumerProtocolAssignment, TopicPartitions

MOVED = 100
BYTES_MAX = 100_000


def assignment(*topics: str) -> bytes:
    """Return a hundred partitions of each topic as one member's."""
    parts = tuple(TopicPartitions(topic=each, partitions=tuple(range(MOVED))) for each in topics)
    value = ConsumerProtocolAssignment(assigned_partitions=parts, user_data=None)
    return (1).to_bytes(2, "big") + value.encode(1)


def rebalance(member: Client, times: int) -> None:
    """Join and share out as often, other partitions each time."""
    for number in range(times):
        member.join()
        response = member.joined()
        assert response is not None
        member.sync({member.member_id: assignment(f"topic-{number % 2}")})
        assert member.synced() is not None


def limited_world() -> World:
    world = World(GroupConfig(group_initial_rebalance_delay_ms=0))
    world.room.bytes_max = BYTES_MAX
    return world


def held_bytes(world: World) -> int:
    held = sum(bytes_of(each) for group_id in world.core.groups for each in world.history(group_id))
    assert world.room.size_bytes == held
    return held


def test_a_group_drops_older_rebalances_without_space() -> None:
    world = limited_world()
    member = Client(world, "a")
    stable_group(world, member)
    rebalance(member, 20)
    history = world.history()
    assert 2 <= len(history) < 8
    assert all(each.moves for each in history)
    assert held_bytes(world) <= BYTES_MAX
    assert len(world.noted(RebalanceCompleted)) == 21, "all were told, with everything"
    assert len(world.noted(RebalanceCompleted)[-1].report.moves) == 2 * MOVED


def test_a_group_without_space_keeps_a_summary_of_its_last_rebalance() -> None:
    world = limited_world()
    for number in range(6):
        member = Client(world, "a", group_id=f"g{number}")
        stable_group(world, member)
        rebalance(member, 5)
    last = world.history("g5")[-1]
    assert (last.moves, last.waited_for) == ((), ())
    assert last.generation_id == 6
    assert last.leader is not None
    spare = 6 * REPORT_BYTES  # An outline is kept of each group's last one in any case.
    assert held_bytes(world) <= BYTES_MAX + spare


def test_a_deleted_group_frees_its_space() -> None:
    world = limited_world()
    member = Client(world, "a")
    stable_group(world, member)
    rebalance(member, 20)
    member.leave()
    world.do(DeleteGroup(next(world.request_ids), "g"))
    assert "g" not in world.core.groups
    assert held_bytes(world) == 0
    other = Client(world, "b", group_id="other")
    stable_group(world, other)
    rebalance(other, 3)
    assert len(world.history("other")) == 4
