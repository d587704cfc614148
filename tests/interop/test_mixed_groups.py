"""kohort's consumer in one group with every other client, on kohort and on Apache Kafka.

`make test` has one group of each protocol on kohort; KOHORT_TEST_MIXED=1, as `make interop` sets it, all.
aiokafka has no cooperative assignor, and is missing from cooperative groups.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence

import pytest

from kohort.client import Admin
from tests.differential import apache_kafka
from tests.interop.clients import ALL_CLIENTS, ConsumerOptions, Outgoing, Place
from tests.interop.clients.kohort import Kohort
from tests.interop.conftest import BOOTSTRAP_VARIABLE, MIXED_VARIABLE, QUICK, MakeTopic
from tests.interop.java_member import JavaMember
from tests.interop.kafka_tools import MissingTool
from tests.interop.members import Member, shares
from tests.interop.waiting import wait_until

WHOLE = MIXED_VARIABLE in os.environ
SESSION_TIMEOUT_MS = 3_000 if WHOLE else 2_000
RECORDS = 500
EAGER = ("kohort", "confluent-kafka", "kafka-python", "aiokafka", "java")
COOPERATIVE = ("kohort", "confluent-kafka", "kafka-python", "java")
WITHIN_S = 60.0

AnyMember = Member | JavaMember
only_whole = pytest.mark.skipif(not WHOLE, reason="KOHORT_TEST_MIXED=1 runs it")


@pytest.fixture(scope="module", params=["kohort", pytest.param("apache", marks=only_whole)])
def bootstrap(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where each of the two brokers listens, in turn."""
    if request.param == "kohort":
        yield os.environ.get(BOOTSTRAP_VARIABLE) or request.getfixturevalue("own_broker").bootstrap
        return
    with apache_kafka.running(tmp_path_factory.mktemp("apache"), *QUICK) as address:
        yield address


@pytest.fixture
def enter(bootstrap: str, group: str) -> Iterator[Callable[[str, str, str], AnyMember]]:
    """Return what lets a client enter the test's group by its name; all leave when the test ends."""
    members: list[AnyMember] = []

    def enter(name: str, topic: str, strategy: str) -> AnyMember:
        if name == "java":
            try:
                members.append(
                    JavaMember(
                        bootstrap, group, topic, strategy=strategy, session_timeout_ms=SESSION_TIMEOUT_MS
                    )
                )
            except MissingTool as missing:
                pytest.skip(str(missing))
        else:
            options = ConsumerOptions(
                group=group, topics=[topic], strategy=strategy, session_timeout_ms=SESSION_TIMEOUT_MS
            )
            members.append(Member(ALL_CLIENTS[name], bootstrap, options))
        return members[-1]

    yield enter
    for each in members:
        each.close()


def produce(bootstrap: str, places: Sequence[Place], first: int) -> set[bytes]:
    """Produce RECORDS numbers over all partitions; return them."""
    values = [b"%d" % (first + index) for index in range(RECORDS)]
    records = [Outgoing(value, partition=index % len(places)) for index, value in enumerate(values)]
    Kohort().produce(bootstrap, places[0].topic, records)
    return set(values)


def owners(members: Sequence[AnyMember]) -> dict[Place, str]:
    """Return who owns each partition."""
    return {place: each.name for each in members for place in each.assignment}


CASES = [
    pytest.param("range", EAGER, id="eager, kohort leads"),
    pytest.param("range", EAGER[::-1], id="eager, java leads", marks=only_whole),
    pytest.param("range", ("confluent-kafka", *EAGER), id="eager, confluent leads", marks=only_whole),
    pytest.param("sticky", ("java", "kohort", "kafka-python", "kohort"), id="sticky", marks=only_whole),
    pytest.param("cooperative-sticky", COOPERATIVE, id="cooperative, kohort leads"),
    pytest.param("cooperative-sticky", COOPERATIVE[::-1], id="cooperative, java leads", marks=only_whole),
    pytest.param(
        "cooperative-sticky",
        ("kafka-python", "kohort", "confluent-kafka", "java"),
        id="cooperative, kafka-python leads",
        marks=only_whole,
    ),
]


@pytest.mark.parametrize("strategy, names", CASES)
@pytest.mark.requirement("R5", "R11", "R14", "R22")
def test_all_clients_share_a_group_with_kohorts_client(  # noqa: PLR0917  # Fixtures.
    bootstrap: str,
    make_topic: MakeTopic,
    group: str,
    enter: Callable[[str, str, str], AnyMember],
    strategy: str,
    names: tuple[str, ...],
) -> None:
    places = make_topic(2 * len(names))
    topic = places[0].topic
    expected: set[bytes] = set()
    members: list[AnyMember] = []
    for name in names:
        members.append(enter(name, topic, strategy))
        expected |= produce(bootstrap, places, len(expected))  # While the group rebalances.
        wait_until(shares(members, places), f"{name} has its share: {owners(members)}", WITHIN_S)
    # Cooperative members give up partitions in a rebalance of its own: who is last may have had one of two.
    wait_until(lambda: [len(each.assignment) for each in members] == [2] * len(members), "two each", WITHIN_S)

    def everything_is_read() -> bool:
        return expected <= {record.value for each in members for record in each.records}

    wait_until(everything_is_read, "all records are read", WITHIN_S)
    before = [len(each.records) for each in members]
    owner = {place: index for index, each in enumerate(members) for place in each.assignment}
    late = produce(bootstrap, places, len(expected))
    wait_until(
        lambda: sum(len(each.records) for each in members) >= sum(before) + RECORDS, "the rest", WITHIN_S
    )
    read = [(index, record) for index, each in enumerate(members) for record in each.records[before[index] :]]
    assert sorted(record.value or b"" for _, record in read) == sorted(late), "each once"
    assert all(owner[record.place] == index for index, record in read), "by the owner of its partition"

    while len(members) > 1:
        leaver = members.pop(0)
        began_s = time.monotonic()
        leaver.close()
        wait_until(shares(members, places), f"the rest has {leaver.name}'s share", WITHIN_S)
        assert time.monotonic() - began_s < SESSION_TIMEOUT_MS / 1000 + 3, "it said goodbye"
    members[0].close()
    with Admin(bootstrap_servers=bootstrap) as admin:
        assert admin.describe_groups(group)[group].state == "Empty"
