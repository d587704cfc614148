"""What kohort advises, after histories that the core itself has noted."""

from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from kohort.broker.explain.advice import Advice, AdviceKind, advice_of, advise, same_instance
from kohort.broker.explain.events import RebalanceReport
from kohort.broker.explain.words import duration, member_name
from kohort.broker.group.config import GroupConfig
from kohort.broker.group.events import CauseKind, MemberFenced
from kohort.broker.group.test_world import Client, World, stable_group, sync_all

UNKNOWN_TO_THE_COORDINATOR = "encountered UNKNOWN_MEMBER_ID from HEARTBEAT response"


def advised(world: World) -> tuple[Advice, ...]:
    """The advice for the newest rebalance."""
    *earlier, report = world.history()
    return advise(report, earlier)


def kinds(world: World) -> list[AdviceKind]:
    return [each.kind for each in advised(world)]


def rebalanced(world: World, *members: Client, after_ms: int = 100) -> None:
    """Let the others join the rebalance that the last of these has begun."""
    for member in members[:-1]:
        member.join()
    world.sleep(after_ms)
    sync_all(world, *members)


def quick() -> World:
    return World(GroupConfig(group_initial_rebalance_delay_ms=0))


def pair(
    world: World, session_timeout_ms: int = 10_000, rebalance_timeout_ms: int = 60_000
) -> tuple[Client, Client]:
    """A stable group of two."""
    a, b = (
        Client(world, name, session_timeout_ms=session_timeout_ms, rebalance_timeout_ms=rebalance_timeout_ms)
        for name in "ab"
    )
    stable_group(world, a, b)
    return a, b


def test_a_member_more_is_no_reason_for_advice() -> None:
    world = World()
    a, b = pair(world)
    world.sleep(1_000)
    c = Client(world, "c")
    c.join()
    a.join()
    world.sleep(2_500)
    b.join()
    sync_all(world, a, b, c)
    assert advised(world) == ()


def test_an_expired_member_that_returns_alive_had_too_short_a_session() -> None:
    world = World()
    a, b = Client(world, "a", session_timeout_ms=60_000), Client(world, "b", session_timeout_ms=12_000)
    stable_group(world, a, b)
    world.sleep(12_000)
    a.join()
    sync_all(world, a)
    world.sleep(5_000)
    b.member_id = ""
    b.join(UNKNOWN_TO_THE_COORDINATOR)
    a.join()
    sync_all(world, a, b)
    (advice,) = advised(world)
    assert (advice.kind, advice.setting) == (AdviceKind.SESSION_TOO_SHORT, "session.timeout.ms")
    assert "put out after 12 s of silence, yet was alive: it had paused for up to 17 s" in advice.text


def test_a_member_that_may_have_restarted_is_also_advised_a_group_instance_id() -> None:
    world = World()
    a, b = Client(world, "a", session_timeout_ms=60_000), Client(world, "b", session_timeout_ms=12_000)
    stable_group(world, a, b)
    world.sleep(12_000)
    a.join()
    sync_all(world, a)
    world.sleep(5_000)
    again = Client(world, "b")
    again.join()
    a.join()
    sync_all(world, a, again)
    (advice,) = advised(world)
    assert advice.kind is AdviceKind.SESSION_TOO_SHORT
    assert "above 17 s" in advice.text
    assert "group.instance.id" in advice.text


def test_a_member_that_joins_much_later_is_a_new_member() -> None:
    world = World()
    a, b = Client(world, "a", session_timeout_ms=1_000_000), Client(world, "b", session_timeout_ms=12_000)
    stable_group(world, a, b)
    world.sleep(12_000)
    a.join()
    sync_all(world, a)
    world.sleep(700_000)
    again = Client(world, "b")
    again.join()
    a.join()
    sync_all(world, a, again)
    assert advised(world) == ()


def test_a_very_short_session_is_reported_at_once() -> None:
    world = World()
    a, b = Client(world, "a", session_timeout_ms=60_000), Client(world, "b", session_timeout_ms=6_000)
    stable_group(world, a, b)
    world.sleep(6_000)
    a.join()
    sync_all(world, a)
    assert kinds(world) == [AdviceKind.SHORT_SESSION]


def test_a_member_that_died_is_advised_an_instance_id_when_it_returns() -> None:
    world = World()
    a, b = Client(world, "a", session_timeout_ms=60_000), Client(world, "b", session_timeout_ms=6_000)
    stable_group(world, a, b)
    world.sleep(1_000)
    b.lose_connection()
    world.sleep(5_000)
    a.join()
    sync_all(world, a)
    assert kinds(world) == []
    again = Client(world, "b")
    again.join()
    a.join()
    sync_all(world, a, again)
    (advice,) = advised(world)
    assert (advice.kind, advice.setting) == (AdviceKind.RESTART, "group.instance.id")
    assert "whose process had died" in advice.text


def test_a_member_seen_on_another_connection_had_paused() -> None:
    world = World()
    a, b = Client(world, "a", session_timeout_ms=60_000), Client(world, "b", session_timeout_ms=6_000)
    stable_group(world, a, b)
    b.lose_connection()
    world.sleep(1_000)
    b.heartbeat()
    world.sleep(6_000)
    a.join()
    sync_all(world, a)
    assert kinds(world) == [AdviceKind.SHORT_SESSION]


def test_a_leave_reason_with_a_poll_timeout_is_believed() -> None:
    world = World()
    a, b = pair(world)
    b.leave("consumer poll timeout has expired.")
    a.join()
    sync_all(world, a)
    (advice,) = advised(world)
    assert (advice.kind, advice.setting) == (AdviceKind.POLL_INTERVAL, "max.poll.interval.ms")
    assert "max.poll.records" in advice.text


def test_a_member_that_only_beats_and_does_not_rejoin_exceeded_its_poll_interval() -> None:
    world = World()
    a, b = pair(world, rebalance_timeout_ms=20_000)
    c = Client(world, "c", rebalance_timeout_ms=20_000)
    c.join()
    a.join()
    for _ in range(5):
        world.sleep(4_000)
        b.heartbeat()
    sync_all(world, a, c)
    assert kinds(world) == [AdviceKind.REJOIN_TOO_LATE, AdviceKind.EAGER]
    assert "did not rejoin within 20 s" in advised(world)[0].text


def test_a_member_that_leaves_while_others_wait_for_it_had_not_polled() -> None:
    world = World()
    a, b = pair(world)
    c = Client(world, "c")
    c.join()
    a.join()
    world.sleep(3_000)
    b.heartbeat()
    world.sleep(3_000)
    b.leave("")
    sync_all(world, a, c)
    advice, _ = advised(world)  # The other: everybody stood still for it.
    assert (advice.kind, advice.about) == (AdviceKind.POLL_INTERVAL, "b")
    assert "let the others wait for 6.0 s" in advice.text


def test_a_member_closed_during_a_rebalance_gets_no_advice() -> None:
    for reason, after_ms in (("the consumer is being closed", 6_000), ("", 1_000)):
        world = World()
        a, b = pair(world)
        c = Client(world, "c")
        c.join()
        a.join()
        world.sleep(after_ms)
        b.leave(reason)
        sync_all(world, a, c)
        assert len(world.history()) == 2
        assert AdviceKind.POLL_INTERVAL not in kinds(world)


def test_no_group_is_advised_to_wait_for_half_a_minute() -> None:
    world = quick()
    members: list[Client] = []
    for name in "abc":
        members.append(Client(world, name, session_timeout_ms=1_000_000))
        members[-1].join()
        world.sleep(1)
        rebalanced(world, *members)
        world.sleep(15_000)
    assert [(each.kind, each.setting) for each in advised(world)] == [(AdviceKind.ONE_BY_ONE, "")]


def test_members_that_join_one_by_one_get_advice_for_the_initial_delay() -> None:
    world = quick()
    members: list[Client] = []
    for name in "abcd":
        members.append(Client(world, name))
        members[-1].join()
        world.sleep(1)
        rebalanced(world, *members)
        world.sleep(2_000)
    (advice,) = advised(world)
    assert (advice.kind, advice.setting) == (AdviceKind.ONE_BY_ONE, "group.initial.rebalance.delay.ms")
    assert "rebalanced 4 times within 6.3 s" in advice.text
    assert "above 7.0 s" in advice.text
    told = [[each.kind for each in found] for _, found in advice_of(world.history())]
    assert told == [[], [], [], [AdviceKind.ONE_BY_ONE]], "once is enough"


def test_new_members_of_an_old_group_are_advised_to_start_together() -> None:
    world = quick()
    members = [Client(world, "old", session_timeout_ms=1_000_000)]
    stable_group(world, *members)
    world.sleep(600_000)
    for name in "abc":
        members.append(Client(world, name))
        members[-1].join()
        rebalanced(world, *members)
        world.sleep(2_000)
    (advice,) = advised(world)
    assert (advice.kind, advice.setting) == (AdviceKind.ONE_BY_ONE, "")


def test_a_restarted_member_is_offered_a_group_instance_id() -> None:
    world = World()
    a, b = pair(world)
    b.leave("the consumer is being closed")
    a.join()
    sync_all(world, a)
    world.sleep(3_000)
    again = Client(world, "b")
    again.join()
    a.join()
    sync_all(world, a, again)
    (advice,) = advised(world)
    assert (advice.kind, advice.setting) == (AdviceKind.RESTART, "group.instance.id")
    assert "3.0 s" in advice.text


def test_the_member_that_everybody_waits_for_is_advised_fewer_records() -> None:
    world = World()
    a, b = pair(world, session_timeout_ms=30_000)
    c = Client(world, "c", protocols=("range",))
    c.join()
    a.join()
    world.sleep(4_500)
    b.join()
    sync_all(world, a, b, c)
    (advice,) = advised(world)
    assert (advice.kind, advice.about) == (AdviceKind.SLOW_MEMBER, "b")


def test_an_eager_group_with_a_long_pause_is_advised_the_cooperative_assignor() -> None:
    world = World()
    a, b = pair(world, session_timeout_ms=30_000)
    c = Client(world, "c")
    c.join()
    a.join()
    world.sleep(5_000)
    b.join()
    sync_all(world, a, b, c)
    slow, eager = advised(world)
    assert (slow.kind, eager.kind) == (AdviceKind.SLOW_MEMBER, AdviceKind.EAGER)
    assert "for up to 5.0 s" in eager.text


def test_members_that_read_until_the_last_joined_did_not_pause() -> None:
    world = World()
    a, b = pair(world, session_timeout_ms=30_000)
    c = Client(world, "c")
    c.join()
    world.sleep(6_000)
    a.join()
    b.join()
    sync_all(world, a, b, c)
    assert advised(world) == ()


def test_a_slow_leader_is_named() -> None:
    world = World()
    a, b = pair(world)
    c = Client(world, "c")
    for each in (c, a, b):
        each.join()
    world.sleep(4_000)
    sync_all(world, a, b, c)
    (advice,) = advised(world)
    assert advice.kind is AdviceKind.SLOW_LEADER
    assert advice.about == world.classic().leader
    assert "took 4.0 s to assign" in advice.text


def test_a_member_that_vanishes_between_join_and_sync_is_named() -> None:
    world = World()
    a, b = pair(world, rebalance_timeout_ms=8_000, session_timeout_ms=60_000)
    c = Client(world, "c", rebalance_timeout_ms=8_000, session_timeout_ms=60_000)
    c.join()
    a.join()
    b.join()
    for each in (a, b, c):
        each.joined()
    leader = next(each for each in (a, b, c) if each.is_leader())
    leader.sync({})
    world.sleep(8_000)
    leader.join()
    sync_all(world, leader)
    assert AdviceKind.DID_NOT_SYNC in kinds(world)


def test_a_group_that_is_too_large_is_reported_with_the_limit() -> None:
    world = World()
    a, b = pair(world)
    world.config = GroupConfig(group_max_size=1)
    world.restart()
    a.join()
    b.join()
    sync_all(world, a)
    assert AdviceKind.OVER_CAPACITY in kinds(world)
    assert b.member_id not in world.core.groups["g"].members


def test_two_processes_with_one_group_instance_id_fence_each_other() -> None:
    def fenced(at_ms: int, instance: str) -> MemberFenced:
        return MemberFenced(
            group_id="g", at_ms=at_ms, member_id="m", group_instance_id=instance, by_member_id="n"
        )

    (advice,) = same_instance([fenced(1_000, "one"), fenced(2_000, "two"), fenced(4_000, "one")])
    assert advice.about == "one"
    assert "2 times within 3.0 s" in advice.text
    assert same_instance([fenced(1_000, "one"), fenced(86_400_000, "one")]) == ()


@pytest.mark.parametrize(
    "ms, words",
    [(7, "7 ms"), (4_240, "4.2 s"), (45_400, "45 s"), (119_000, "119 s"), (200_000, "3 min 20 s")],
)
def test_durations_are_written_in_a_suitable_unit(ms: int, words: str) -> None:
    assert duration(ms) == words


def test_a_member_is_called_by_its_client_and_the_first_digits_of_its_id() -> None:
    assert member_name("billing-1-3f2a91c0-11d0-4b7a-9c1e-2b9a4f2f8c11") == "billing-1-3f2a91c0"
    assert member_name("odd one") == "odd one"
    assert member_name("") == "somebody"


class Counted(tuple[RebalanceReport, ...]):
    """A history that counts how many of its rebalances were looked at."""

    looks = 0

    def __iter__(self) -> Iterator[RebalanceReport]:
        for each in super().__iter__():
            Counted.looks += 1
            yield each

    def __reversed__(self) -> Iterator[RebalanceReport]:
        for place in range(len(self) - 1, -1, -1):
            Counted.looks += 1
            yield self[place]


def test_a_long_history_is_looked_at_only_as_far_back_as_it_counts() -> None:
    world = quick()
    a, b = pair(world)
    world.sleep(1_000)
    c = Client(world, "c")
    c.join()
    rebalanced(world, a, b, c)
    *_, report = world.history()
    gone = replace(report, cause=replace(report.cause, kind=CauseKind.MEMBER_LEFT, client_id="other"))
    earlier = Counted(
        replace(gone, started_ms=at_ms, cause=replace(gone.cause, at_ms=at_ms))
        for at_ms in range(report.started_ms - 5_000_000, report.started_ms, 5_000)
    )
    assert advise(report, earlier) == ()
    assert 100 < Counted.looks < 300  # Of 1,000: each rule looks back for ten minutes at most.
