"""Members join, leave and die; the others take over. Each client alone, and all three in one group."""

from __future__ import annotations

import pytest

from tests.interop.clients import CLIENTS, Client, ConsumerOptions, Outgoing, Place
from tests.interop.conftest import Join, MakeTopic
from tests.interop.members import Member, Mortal, wait_until_shared
from tests.interop.waiting import wait_until

SESSION_TIMEOUT_MS = 2_000
"""Short, for a death that is noticed soon and for heartbeats that soon tell of a rebalance."""
RECORDS = 300


def produce_numbers(client: Client, bootstrap: str, places: list[Place], first: int = 0) -> set[bytes]:
    """Produce RECORDS numbers over all partitions; return their values."""
    values = [str(first + index).encode() for index in range(RECORDS)]
    records = [Outgoing(value, partition=index % len(places)) for index, value in enumerate(values)]
    client.produce(bootstrap, places[0].topic, records)
    return set(values)


def values_of(*members: Member) -> list[bytes]:
    """Return every value that these members have read."""
    return [record.value or b"" for member in members for record in member.records]


@pytest.mark.requirement("R2", "R8", "R11")
def test_members_share_partitions_and_take_over_from_a_leaving_one(
    client: Client, bootstrap: str, make_topic: MakeTopic, join: Join
) -> None:
    places = make_topic(4)
    topic = places[0].topic
    first = join(client, topic, session_timeout_ms=SESSION_TIMEOUT_MS)
    wait_until_shared([first], places)
    second = join(client, topic, session_timeout_ms=SESSION_TIMEOUT_MS)
    wait_until_shared([first, second], places)
    before = produce_numbers(client, bootstrap, places)
    wait_until(lambda: len(values_of(first, second)) >= RECORDS, "all records are read")
    assert sorted(values_of(first, second)) == sorted(before), "each once"
    second.close()
    assert wait_until_shared([first], places) < 0.75 * SESSION_TIMEOUT_MS / 1000, "a leave is told at once"
    after = produce_numbers(client, bootstrap, places, first=RECORDS)
    wait_until(lambda: after <= set(values_of(first)), "the rest is read by who stayed")


@pytest.mark.requirement("R8")
def test_a_killed_members_partitions_move_when_its_session_expires(
    client: Client, bootstrap: str, make_topic: MakeTopic, join: Join, group: str
) -> None:
    places = make_topic(4)
    topic = places[0].topic
    survivor = join(client, topic, session_timeout_ms=SESSION_TIMEOUT_MS)
    options = ConsumerOptions(group=group, topics=[topic], session_timeout_ms=SESSION_TIMEOUT_MS)
    victim = Mortal(client, bootstrap, options)
    try:
        wait_until_shared([survivor, victim], places)
    finally:
        victim.kill()
    took_s = wait_until_shared([survivor], places)
    assert took_s > 0.5 * SESSION_TIMEOUT_MS / 1000, "not before the session is over"


def test_all_three_clients_share_one_group(
    bootstrap: str, make_topic: MakeTopic, join: Join, group: str
) -> None:
    """Their defaults have one assignor in common, which the group's vote finds: roundrobin."""
    places = make_topic(6)
    topic = places[0].topic
    members = [join(client, topic, session_timeout_ms=SESSION_TIMEOUT_MS) for client in CLIENTS.values()]
    wait_until_shared(members, places)
    assert [len(each.assignment) for each in members] == [2, 2, 2]
    expected = produce_numbers(CLIENTS["confluent-kafka"], bootstrap, places)
    wait_until(lambda: len(values_of(*members)) >= RECORDS, "all records are read")
    assert sorted(values_of(*members)) == sorted(expected)
    for leaver in members[:2]:
        leaver.close()
    wait_until_shared(members[2:], places)


@pytest.mark.parametrize("strategy", ["range", "roundrobin"])
def test_all_three_clients_agree_on_a_named_assignor(
    bootstrap: str, make_topic: MakeTopic, join: Join, strategy: str
) -> None:
    places = make_topic(6)
    topic = places[0].topic
    members = [join(client, topic, strategy=strategy) for client in CLIENTS.values()]
    wait_until_shared(members, places)
    assert [len(each.assignment) for each in members] == [2, 2, 2]


@pytest.mark.parametrize(
    "names",
    [
        ("confluent-kafka", "confluent-kafka"),
        ("kafka-python", "kafka-python"),
        ("confluent-kafka", "kafka-python"),
    ],
    ids="+".join,
)
@pytest.mark.requirement("R14")
def test_a_cooperative_member_keeps_its_assigned_partitions(
    names: tuple[str, str], make_topic: MakeTopic, join: Join
) -> None:
    places = make_topic(4)
    topic = places[0].topic
    options = {"strategy": "cooperative-sticky", "session_timeout_ms": SESSION_TIMEOUT_MS}
    first = join(CLIENTS[names[0]], topic, **options)
    wait_until_shared([first], places)
    revoked_before = len(first.consumer.changes.revoked)
    second = join(CLIENTS[names[1]], topic, **options)
    wait_until_shared([first, second], places)
    revoked = frozenset().union(*first.consumer.changes.revoked[revoked_before:])
    assert revoked == second.assignment, "no more was taken from it than the other now has"


@pytest.mark.requirement("R12")
def test_a_static_member_returns_to_its_partitions_without_a_rebalance(
    client: Client, make_topic: MakeTopic, join: Join
) -> None:
    places = make_topic(4)
    topic = places[0].topic
    stays = join(client, topic, instance_id="stays", session_timeout_ms=8_000)
    returns = join(client, topic, instance_id="returns", session_timeout_ms=8_000)
    wait_until_shared([stays, returns], places)
    owned = returns.assignment
    rebalances = len(stays.consumer.changes.assigned)
    returns.close()
    back = join(client, topic, instance_id="returns", session_timeout_ms=8_000)
    wait_until(lambda: back.assignment, "the static member has partitions again")
    assert back.assignment == owned
    assert len(stays.consumer.changes.assigned) == rebalances, "the other one was left alone"
