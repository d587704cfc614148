"""What members bring has a limit, in each group and in all groups of a broker."""

from __future__ import annotations

import pytest

from kohort.broker.group import GroupConfig, GroupCoordinator, Room
from kohort.broker.group.events import CauseKind, RebalanceStarted
from kohort.broker.group.test_world import Client, World, stable_group, sync_all
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.join_group import JoinGroupRequestProtocol

LIMITED = GroupConfig(group_member_bytes_max=10_000, member_bytes_max=25_000)


def bringing(world: World, name: str, size_bytes: int, **fields: str) -> Client:
    client = Client(world, name, **fields)  # type: ignore[arg-type]  # Names of the group and of the instance.
    client.protocols = (JoinGroupRequestProtocol(name="range", metadata=bytes(size_bytes)),)
    return client


def code_of(client: Client) -> ErrorCode | None:
    response = client.joined()
    return None if response is None else ErrorCode(response.error_code)


def held_bytes(world: World) -> int:
    return sum(group.member_bytes for group in world.core.groups.values())


def test_a_group_refuses_members_when_their_metadata_exceed_the_limit() -> None:
    world = World(LIMITED)
    a, b, c = (bringing(world, name, 4_000) for name in "abc")
    a.join()
    b.join()
    c.join()
    assert code_of(c) is ErrorCode.GROUP_MAX_SIZE_REACHED
    world.sleep(6_000)
    sync_all(world, a, b)
    assert not world.classic().pending_members, "nobody waits for who was refused"


def test_a_member_with_little_metadata_joins_a_group_that_refused_a_larger_one() -> None:
    world = World(LIMITED)
    a, b, small = bringing(world, "a", 9_000), bringing(world, "b", 2_000), bringing(world, "small", 800)
    a.join()
    small.join()
    b.join()
    assert code_of(b) is ErrorCode.GROUP_MAX_SIZE_REACHED
    world.sleep(6_000)
    sync_all(world, a, small)


def test_metadata_of_all_groups_together_have_a_limit() -> None:
    world = World(LIMITED)
    members = [bringing(world, "a", 8_000, group_id=f"g{number}") for number in range(4)]
    for each in members:
        each.join()
    assert [code_of(each) for each in members] == [None, None, None, ErrorCode.GROUP_MAX_SIZE_REACHED]
    assert "g3" not in world.core.groups, "nothing is kept of a group whose only member was refused"


def test_a_member_can_rejoin_with_equal_metadata_and_a_leaving_one_frees_space() -> None:
    world = World(LIMITED)
    a, b = bringing(world, "a", 4_500), bringing(world, "b", 4_500)
    stable_group(world, a, b)
    a.join()
    b.join()
    sync_all(world, a, b)
    assert b.leave() is ErrorCode.NONE
    c = bringing(world, "c", 4_500)
    c.join()
    a.join()
    sync_all(world, a, c)


def test_a_member_that_rejoins_with_too_much_metadata_stays_a_member() -> None:
    world = World(LIMITED)
    a, b = bringing(world, "a", 4_500), bringing(world, "b", 4_500)
    stable_group(world, a, b)
    before_bytes = held_bytes(world)
    b.protocols = (JoinGroupRequestProtocol(name="range", metadata=bytes(8_000)),)
    b.join()
    assert code_of(b) is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert held_bytes(world) == before_bytes
    assert a.heartbeat() is ErrorCode.NONE
    assert b.heartbeat() is ErrorCode.NONE


def test_a_returning_static_member_reuses_its_own_space() -> None:
    world = World(LIMITED)
    a = bringing(world, "a", 9_000, instance="one")
    stable_group(world, a)
    again = bringing(world, "a", 9_000, instance="one")
    again.join()
    assert code_of(again) is ErrorCode.NONE
    assert held_bytes(world) < 10_000


def test_many_protocol_names_count_as_metadata() -> None:
    world = World(LIMITED)
    a = Client(world, "a", version=3)
    a.protocols = tuple(JoinGroupRequestProtocol(name=str(each), metadata=b"") for each in range(100))
    a.join()
    assert code_of(a) is ErrorCode.GROUP_MAX_SIZE_REACHED


@pytest.mark.requirement("R2")
def test_a_leader_with_a_too_large_assignment_fails_as_in_kafka() -> None:
    world = World(LIMITED)
    a, b = bringing(world, "a", 4_000), bringing(world, "b", 4_000)
    for each in (a, b):
        each.join()
    world.sleep(6_000)
    for each in (a, b):
        assert code_of(each) is ErrorCode.NONE
    b.sync()
    a.sync({a.member_id: bytes(3_000)})
    for each in (a, b):
        response = each.synced()
        assert response is not None
        assert response.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert world.state() == "PreparingRebalance"
    assert world.noted(RebalanceStarted)[-1].cause.kind is CauseKind.ASSIGNMENT_TOO_LARGE
    for each in (a, b):
        each.join()
    sync_all(world, a, b)


def test_the_shards_of_a_broker_share_the_limit() -> None:
    room = Room()
    first, second = World(LIMITED), World(LIMITED)
    first.core, second.core = GroupCoordinator(LIMITED, room), GroupCoordinator(LIMITED, room)
    for world in (first, second):
        world.run(world.core.loaded(world.now_ms))
    for number in range(3):
        bringing(first, "a", 8_000, group_id=f"g{number}").join()
    refused = bringing(second, "late", 2_000)
    refused.join()
    assert code_of(refused) is ErrorCode.GROUP_MAX_SIZE_REACHED
    first.core.give_up(ErrorCode.NOT_COORDINATOR)
    let_in = bringing(second, "late", 2_000)
    let_in.join()
    assert code_of(let_in) is None


def test_member_metadata_count_after_a_restart() -> None:
    world = World(LIMITED)
    a, b = bringing(world, "a", 4_000), bringing(world, "b", 4_000)
    stable_group(world, a, b)
    before_bytes = held_bytes(world)
    world.restart()
    assert held_bytes(world) == before_bytes
    c = bringing(world, "c", 4_000)
    c.join()
    assert code_of(c) is ErrorCode.GROUP_MAX_SIZE_REACHED
