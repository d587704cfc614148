import pytest

from kohort.broker.group import GroupConfig
from kohort.broker.group.events import CauseKind, MemberIdExpired, MemberRefused, RebalanceStarted
from kohort.broker.group.test_world import Client, World, stable_group, subscription, sync_all
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.join_group import JoinGroupRequestProtocol


def refused_with(client: Client) -> ErrorCode:
    client.join()
    response = client.joined()
    assert response is not None
    return ErrorCode(response.error_code)


@pytest.mark.requirement("R3")
def test_a_dynamic_member_first_gets_an_id_and_joins_with_it() -> None:
    world = World()
    client = Client(world, "c")
    client.request_join()
    response = client.joined()
    assert response is not None
    assert response.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert response.member_id.startswith("c-")
    assert world.state() == "Empty"
    client.member_id = response.member_id
    client.request_join()
    assert client.joined() is None
    assert list(world.core.groups["g"].members) == [response.member_id]


def test_before_version_4_a_member_joins_in_one_step() -> None:
    world = World()
    client = Client(world, "c", version=3)
    client.request_join()
    assert client.joined() is None
    world.sleep(3_000)
    response = client.joined()
    assert response is not None
    assert response.error_code == ErrorCode.NONE
    assert client.is_leader()


@pytest.mark.requirement("R3")
def test_an_id_that_is_not_used_expires_with_the_session_timeout() -> None:
    world = World()
    client = Client(world, "c", session_timeout_ms=6_000)
    client.request_join()
    given = client.joined()
    assert given is not None
    world.sleep(5_999)
    assert "g" in world.core.groups
    world.sleep(1)
    assert [each.member_id for each in world.noted(MemberIdExpired)] == [given.member_id]
    assert "g" not in world.core.groups
    client.member_id = given.member_id
    assert refused_with(client) is ErrorCode.UNKNOWN_MEMBER_ID


def test_the_join_phase_waits_until_a_given_id_is_used() -> None:
    world = World()
    one, two = Client(world, "one"), Client(world, "two")
    stable_group(world, one)
    two.request_join()
    one.request_join()
    assert one.joined() is None, "two has an id and may come any moment"
    response = two.joined()
    assert response is not None
    two.member_id = response.member_id
    two.request_join()
    assert one.joined() is not None
    assert two.joined() is not None


def test_a_given_id_that_expires_ends_the_join_phase() -> None:
    world = World()
    one, two = Client(world, "one"), Client(world, "two", session_timeout_ms=6_000)
    stable_group(world, one)
    two.request_join()
    one.request_join()
    world.sleep(6_000)
    assert one.joined() is not None
    assert one.generation_id == 2


@pytest.mark.requirement("R2")
def test_the_first_member_leads_and_only_it_gets_the_members() -> None:
    world = World()
    clients = [Client(world, name) for name in "abc"]
    for client in clients:
        client.join()
    world.sleep(6_000)
    responses = [client.joined() for client in clients]
    assert all(each is not None and each.leader == clients[0].member_id for each in responses)
    leader, *followers = [each for each in responses if each is not None]
    assert [each.member_id for each in leader.members] == [client.member_id for client in clients]
    assert leader.members[0].metadata == subscription("t")
    assert [each.members for each in followers] == [(), ()]
    assert {each.generation_id for each in responses if each is not None} == {1}


def test_an_empty_group_id_is_invalid() -> None:
    assert refused_with(Client(World(), group_id="")) is ErrorCode.INVALID_GROUP_ID


@pytest.mark.requirement("R6")
def test_session_timeouts_have_to_lie_within_the_brokers_bounds() -> None:
    world = World(GroupConfig(group_min_session_timeout_ms=6_000, group_max_session_timeout_ms=60_000))
    assert refused_with(Client(world, session_timeout_ms=5_999)) is ErrorCode.INVALID_SESSION_TIMEOUT
    assert refused_with(Client(world, session_timeout_ms=60_001)) is ErrorCode.INVALID_SESSION_TIMEOUT
    assert world.core.groups == {}
    assert [each.error for each in world.noted(MemberRefused)] == ["INVALID_SESSION_TIMEOUT"] * 2
    Client(world, session_timeout_ms=6_000).join()
    Client(world, session_timeout_ms=60_000).join()
    assert len(world.core.groups["g"].members) == 2


@pytest.mark.requirement("R5")
def test_a_member_that_shares_no_protocol_is_inconsistent() -> None:
    world = World()
    one = Client(world, "one", protocols=("range",))
    stable_group(world, one)
    assert refused_with(Client(world, protocols=("sticky",))) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert refused_with(Client(world, protocol_type="connect")) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert refused_with(Client(world, protocols=(), group_id="h")) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert list(world.core.groups) == ["g"]
    assert one.heartbeat() is ErrorCode.NONE


@pytest.mark.requirement("R5")
def test_members_vote_among_the_protocols_that_all_support() -> None:
    world = World()
    clients = [
        Client(world, "a", protocols=("range", "sticky", "own")),
        Client(world, "b", protocols=("sticky", "range")),
        Client(world, "c", protocols=("sticky", "range")),
    ]
    stable_group(world, *clients)
    assert world.classic().protocol_name == "sticky"


def test_equal_votes_select_the_protocol_that_kafka_selects() -> None:
    for first, second in (("range", "roundrobin"), ("roundrobin", "range")):
        world = World()
        a, b = Client(world, "a", protocols=(first, second)), Client(world, "b", protocols=(second, first))
        stable_group(world, a, b)
        assert world.classic().protocol_name == "range"


@pytest.mark.requirement("R5")
def test_a_group_moves_live_from_range_to_cooperative() -> None:
    world = World()
    a, b = Client(world, "a"), Client(world, "b")
    stable_group(world, a, b)

    def restart_with(client: Client, *protocols: str) -> Client:
        client.leave()
        fresh = Client(world, client.name, protocols=protocols)
        fresh.join()
        return fresh

    names = []
    for protocols in (("cooperative-sticky", "range"), ("cooperative-sticky",)):
        a = restart_with(a, *protocols)
        b.join()
        sync_all(world, a, b)
        names.append(world.classic().protocol_name)
        b = restart_with(b, *protocols)
        a.join()
        sync_all(world, a, b)
        names.append(world.classic().protocol_name)
    assert names == ["range", "cooperative-sticky", "cooperative-sticky", "cooperative-sticky"]


@pytest.mark.requirement("R6")
def test_a_full_group_refuses_newcomers_but_not_its_members() -> None:
    world = World(GroupConfig(group_max_size=2))
    a, b = Client(world, "a"), Client(world, "b")
    stable_group(world, a, b)
    late = Client(world, "late", version=3)
    assert refused_with(late) is ErrorCode.GROUP_MAX_SIZE_REACHED
    a.join()
    b.join()
    assert a.joined() is not None
    assert a.generation_id == 2


def test_a_member_that_joins_a_full_join_phase_too_late_is_refused() -> None:
    world = World(GroupConfig(group_max_size=2))
    a, b, c = (Client(world, name) for name in "abc")
    a.join()
    b.join()
    assert refused_with(c) is ErrorCode.GROUP_MAX_SIZE_REACHED
    world.sleep(6_000)
    sync_all(world, a, b)


def test_a_follower_that_rejoins_unchanged_gets_the_current_generation() -> None:
    world = World()
    a, b = Client(world, "a"), Client(world, "b")
    stable_group(world, a, b)
    b.request_join()
    response = b.joined()
    assert response is not None
    assert (response.error_code, response.generation_id, response.members) == (ErrorCode.NONE, 1, ())
    assert world.state() == "Stable"


@pytest.mark.requirement("R8")
def test_a_leader_that_rejoins_rebalances_the_group() -> None:
    world = World()
    a, b = Client(world, "a"), Client(world, "b")
    stable_group(world, a, b)
    a.join("cached metadata has changed")
    assert world.state() == "PreparingRebalance"
    assert world.noted(RebalanceStarted)[-1].cause.kind is CauseKind.TOPIC_METADATA_CHANGED
    assert b.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    b.join()
    sync_all(world, a, b)
    assert a.generation_id == 2


@pytest.mark.requirement("R8")
def test_a_changed_subscription_rebalances_the_group() -> None:
    world = World()
    a, b = Client(world, "a"), Client(world, "b")
    stable_group(world, a, b)
    b.protocols = (JoinGroupRequestProtocol(name="range", metadata=subscription("t", "u")),)
    b.join()
    assert world.noted(RebalanceStarted)[-1].cause.kind is CauseKind.SUBSCRIPTION_CHANGED
    a.join()
    sync_all(world, a, b)
    assert world.core.groups["g"].subscribed_topics == frozenset({"t", "u"})


def test_a_member_that_missed_its_answer_gets_it_again_while_others_sync() -> None:
    world = World()
    a, b = Client(world, "a"), Client(world, "b")
    a.join()
    b.join()
    world.sleep(6_000)
    for client, members in ((a, 2), (b, 0)):
        client.joined()
        client.request_join()
        response = client.joined()
        assert response is not None
        assert (response.generation_id, len(response.members)) == (1, members)
    assert world.state() == "CompletingRebalance"


def test_an_unknown_member_id_is_refused() -> None:
    world = World()
    client = Client(world)
    client.member_id = "ghost"
    assert refused_with(client) is ErrorCode.UNKNOWN_MEMBER_ID
    stable_group(world, Client(world))
    assert refused_with(client) is ErrorCode.UNKNOWN_MEMBER_ID


def test_version_0_uses_the_session_timeout_as_rebalance_timeout() -> None:
    world = World()
    client = Client(world, version=0, rebalance_timeout_ms=-1, session_timeout_ms=7_000)
    client.request_join()
    assert world.classic().rebalance_timeout_ms() == 7_000


def test_a_join_sent_twice_is_answered_twice() -> None:
    world = World()
    client = Client(world)
    first = client.join()
    client.request_join()
    assert world.replies[first].error_code == ErrorCode.REBALANCE_IN_PROGRESS  # type: ignore[attr-defined]
    world.sleep(3_000)
    response = client.joined()
    assert response is not None
    assert response.error_code == ErrorCode.NONE


@pytest.mark.requirement("R3")
def test_unused_member_ids_have_one_limit_for_all_groups() -> None:
    world = World(GroupConfig(member_ids_given_max=100))
    first = Client(world, "first")
    first.request_join()
    for _ in range(100):
        Client(world, "greedy").request_join()
    for number in range(100):
        Client(world, "wide", group_id=f"group-{number}").request_join()
    waiting = sum(len(group.given_ids) for group in world.core.groups.values())
    assert waiting == 100
    assert len(world.core.groups) == 100, "a group that came into being for an id goes with it"
    assert len(world.timers) == 100
    assert len(world.noted(MemberIdExpired)) == 101


@pytest.mark.requirement("R3")
def test_a_used_member_id_is_not_evicted_by_many_unused_ones() -> None:
    world = World(GroupConfig(member_ids_given_max=10))
    a = Client(world, "a")
    stable_group(world, a)
    for _ in range(100):
        Client(world, "greedy").request_join()
    assert a.heartbeat() is ErrorCode.NONE
    late = Client(world, "late")
    late.join()
    assert late.member_id in world.core.groups["g"].members
