"""A live group is upgraded client by client to the consumer protocol, and goes back, with four libraries."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

import pytest
from confluent_kafka.admin import AdminClient

from tests.interop.broker_process import BrokerProcess
from tests.interop.clients import ALL_CLIENTS, ConsumerOptions, Outgoing, Place
from tests.interop.clients.kohort import Kohort
from tests.interop.conftest import QUICK, MakeTopic
from tests.interop.java_member import CONSUMER_PROTOCOL, JavaMember
from tests.interop.kafka_tools import MissingTool
from tests.interop.members import Member, shares
from tests.interop.ownership import EVER_S, Span, longest_gap_s, owned_twice, owners
from tests.interop.test_consumer_groups import Librdkafka
from tests.interop.waiting import wait_until

SETTINGS = (
    *QUICK,
    "group.consumer.heartbeat.interval.ms=300",
    "group.consumer.session.timeout.ms=6000",
    "group.consumer.min.heartbeat.interval.ms=100",
    "group.consumer.min.session.timeout.ms=1000",
    "group.consumer.assignment.interval.ms=100",
)
RECORDS = 200
WITHIN_S = 60.0
NOBODYS_S_MAX = 10.0
AnyMember = Member | JavaMember | Librdkafka


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where a broker listens whose groups of both kinds are quick."""
    broker = BrokerProcess(tmp_path_factory.mktemp("broker"), *SETTINGS)
    try:
        broker.start()
        yield broker.bootstrap
    finally:
        broker.stop()


class Rolling:
    """The members of a group while they are exchanged, and what has been written for them."""

    def __init__(self, bootstrap: str, group: str, places: Sequence[Place], strategy: str) -> None:
        self.bootstrap, self.group, self.places, self.strategy = bootstrap, group, places, strategy
        self.members: list[AnyMember] = []
        self.former: list[AnyMember] = []
        self.left_s: dict[AnyMember, float] = {}
        self.written: set[bytes] = set()
        self.admin = AdminClient({"bootstrap.servers": bootstrap})

    def classic(self, name: str) -> AnyMember:
        """A member of the classic protocol."""
        topic = self.places[0].topic
        if name == "java":
            return JavaMember(
                self.bootstrap, self.group, topic, strategy=self.strategy, session_timeout_ms=6_000
            )
        options = ConsumerOptions(
            group=self.group, topics=[topic], strategy=self.strategy, session_timeout_ms=6_000
        )
        return Member(ALL_CLIENTS[name], self.bootstrap, options)

    def modern(self, name: str) -> AnyMember:
        """A member of the consumer protocol."""
        topic = self.places[0].topic
        if name == "java":
            return JavaMember(
                self.bootstrap, self.group, topic, strategy=CONSUMER_PROTOCOL, session_timeout_ms=0
            )
        if name == "kohort":
            options = ConsumerOptions(group=self.group, topics=[topic], strategy=CONSUMER_PROTOCOL)
            return Member(ALL_CLIENTS[name], self.bootstrap, options)
        return Librdkafka(self.bootstrap, self.group, topic)

    def exchange(self, old: AnyMember | None, new: Callable[[], AnyMember] | None) -> None:
        """Let one go and another one come, while records are written; return when all have their share."""
        if old is not None:
            self.left_s[old] = time.monotonic()  # From here on it gives up what it has.
            old.close()
            self.members.remove(old)
            self.former.append(old)
        if new is not None:
            self.members.append(new())
        self.write()
        wait_until(shares(self.members, self.places), f"they share: {self.owned()}", WITHIN_S)

    def write(self) -> None:
        """Write so many records to all partitions in turn."""
        first = len(self.written)
        values = [b"%d" % (first + index) for index in range(RECORDS)]
        records = [Outgoing(value, partition=index % len(self.places)) for index, value in enumerate(values)]
        Kohort().produce(self.bootstrap, self.places[0].topic, records)
        self.written |= set(values)

    def owned(self) -> list[tuple[str, int]]:
        return [(type(each).__name__, len(each.assignment)) for each in self.members]

    def kind(self) -> str:
        """The type of the group, as its description says."""
        listed = self.admin.list_consumer_groups().result(15).valid
        (found,) = (each for each in listed if each.group_id == self.group)
        return str(found.type.name)

    def read(self) -> set[bytes]:
        values: set[bytes] = set()
        for each in (*self.members, *self.former):
            if isinstance(each, Librdkafka):
                values |= set(each.values)
            else:
                values |= {record.value for record in each.records if record.value is not None}
        return values

    def owners(self) -> dict[Place, list[Span]]:
        """Who owned each partition, one after another."""
        everyone = enumerate((*self.former, *self.members))
        return owners(
            (f"{type(each).__name__} {number}", each.changes, self.left_s.get(each, EVER_S))
            for number, each in everyone
        )

    def close(self) -> None:
        for each in self.members:
            each.close()


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_a_live_group_of_four_clients_is_upgraded_and_downgraded_member_by_member(
    bootstrap: str, group: str, make_topic: MakeTopic, strategy: str
) -> None:
    names = ["kohort", "confluent-kafka", "kafka-python", "java"]
    modern = ["confluent-kafka", "java", "kohort", "kohort"]
    rolling = Rolling(bootstrap, group, make_topic(8), strategy)
    try:
        for name in names:
            rolling.exchange(None, lambda name=name: rolling.classic(name))  # type: ignore[misc]
        assert rolling.kind() == "CLASSIC"
        for old, name in zip(list(rolling.members), modern, strict=True):
            rolling.exchange(old, lambda name=name: rolling.modern(name))  # type: ignore[misc]
            assert rolling.kind() == "CONSUMER"
        for old, name in zip(list(rolling.members), names, strict=True):
            rolling.exchange(old, lambda name=name: rolling.classic(name))  # type: ignore[misc]
        assert rolling.kind() == "CLASSIC"
        wait_until(lambda: rolling.read() >= rolling.written, "every record is read", WITHIN_S)
        owned = rolling.owners()
        assert set(owned) == set(rolling.places)
        assert not owned_twice(owned)
        assert sum(map(len, owned.values())) > 3 * len(owned), "they went from hand to hand"
        assert longest_gap_s(owned) < NOBODYS_S_MAX
    except MissingTool as missing:
        pytest.skip(str(missing))
    finally:
        rolling.close()
