"""Consumer groups (KIP-848) with unmodified clients, librdkafka, Java and franz-go, under kills."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.cli import here
from tests.interop.broker_process import BrokerProcess
from tests.interop.clients import Changes, Place
from tests.interop.clients.confluent import places
from tests.interop.conftest import MakeTopic
from tests.interop.go_programs import go_program
from tests.interop.java_member import CONSUMER_PROTOCOL, JavaMember
from tests.interop.kafka_tools import MissingTool, Tools
from tests.interop.members import Owner, wait_until_shared
from tests.interop.waiting import wait_until

SETTINGS = (
    "group.consumer.heartbeat.interval.ms=300",
    "group.consumer.session.timeout.ms=6000",
    "group.consumer.min.heartbeat.interval.ms=100",
    "group.consumer.min.session.timeout.ms=1000",
    "group.consumer.assignment.interval.ms=100",
    "offsets.topic.replication.factor=1",
)
PATIENCE_S = 60.0
VICTIM = """
import json, sys
from confluent_kafka import Consumer
consumer = Consumer(json.loads(sys.argv[1]))
consumer.subscribe([sys.argv[2]])
shown = None
while True:
    consumer.poll(0.05)
    has = sorted((each.topic, each.partition) for each in consumer.assignment())
    if has != shown:
        shown = has
        print(json.dumps(has), flush=True)
"""


@pytest.fixture(scope="module")
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker whose consumer groups are quick."""
    broker = BrokerProcess(tmp_path_factory.mktemp("broker"), *SETTINGS)
    try:
        broker.start()
        yield broker
    finally:
        broker.stop()


@pytest.fixture(scope="module")
def bootstrap(own_broker: BrokerProcess) -> str:
    """Where it listens."""
    return own_broker.bootstrap


def options(bootstrap: str, group: str, **more: object) -> dict[str, object]:
    """How librdkafka becomes a member of a consumer group."""
    return {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "group.protocol": "consumer",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        **more,
    }


class Librdkafka:
    """A member in a thread of its own; it commits each record that it has read."""

    def __init__(self, bootstrap: str, group: str, topic: str, **more: object) -> None:
        self.assignment: frozenset[Place] = frozenset()
        self.values: list[bytes] = []
        self.changes = Changes()
        self._ends = threading.Event()
        self._consumer = Consumer(options(bootstrap, group, **more))
        self._consumer.subscribe(
            [topic],
            on_assign=lambda _, told: self.changes.note_assigned(places(told)),
            on_revoke=lambda _, told: self.changes.note_revoked(places(told)),
            on_lost=lambda _, told: self.changes.note_revoked(places(told)),
        )
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Leave the group."""
        self._ends.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ends.is_set():
            message = self._consumer.poll(0.05)
            if message is not None and message.error() is None:
                value = message.value()
                assert isinstance(value, bytes)
                self.values.append(value)
                self._consumer.commit(message, asynchronous=True)
            self.assignment = frozenset(Place(e.topic, e.partition) for e in self._consumer.assignment())
        self._consumer.close()


class Victim:
    """A member in a process of its own, there to be killed."""

    def __init__(self, bootstrap: str, group: str, topic: str) -> None:
        self.assignment: frozenset[Place] = frozenset()
        command = [sys.executable, "-c", VICTIM, json.dumps(options(bootstrap, group)), topic]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def kill(self) -> None:
        """Kill it with SIGKILL: nobody tells the group."""
        self._process.kill()
        self._process.wait()
        self._reader.join()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                self.assignment = frozenset(Place(*each) for each in json.loads(line))


class FranzGo:
    """A member of franz-go, in a process of its own; it commits what it has read."""

    def __init__(self, bootstrap: str, group: str, topic: str) -> None:
        self.assignment: frozenset[Place] = frozenset()
        self.values: list[bytes] = []
        self._topic = topic
        self._has_closed = False
        self._process = subprocess.Popen(
            [go_program("member"), bootstrap, group, topic],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def close(self) -> None:
        """Leave the group, and return when the process has ended."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        assert self._process.wait(PATIENCE_S) == 0
        self._reader.join()
        assert self._has_closed

    def kill(self) -> None:
        """Kill it with SIGKILL: nobody tells the group."""
        self._process.kill()
        self._process.wait()
        self._reader.join()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                what, *words = line.split()
                if what == "record":
                    self.values.append(words[0].encode())
                elif what == "owns":
                    self.assignment = frozenset(Place(self._topic, int(each)) for each in words)
                else:
                    self._has_closed = what == "closed"


def produce(bootstrap: str, places: list[Place], values: range) -> None:
    """Write these numbers to the partitions in turn."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in values:
        place = places[number % len(places)]
        producer.produce(place.topic, str(number), partition=place.partition)
    assert producer.flush(20) == 0


def test_librdkafkas_members_share_and_take_over_from_a_leaving_and_a_killed_one(
    bootstrap: str, group: str, make_topic: MakeTopic
) -> None:
    places = make_topic(6)
    topic = places[0].topic
    one, two = Librdkafka(bootstrap, group, topic), Librdkafka(bootstrap, group, topic)
    wait_until_shared([one, two], places)
    victim = Victim(bootstrap, group, topic)
    everyone: list[Owner] = [one, two, victim]
    wait_until_shared(everyone, places)
    victim.kill()
    wait_until_shared([one, two], places)
    one.close()
    wait_until_shared([two], places)
    two.close()


def test_the_broker_is_killed_and_the_members_go_on_without_losing_or_reading_a_record_twice(
    own_broker: BrokerProcess, bootstrap: str, group: str, make_topic: MakeTopic
) -> None:
    places = make_topic(4)
    members = [Librdkafka(bootstrap, group, places[0].topic) for _ in range(2)]
    wait_until_shared(members, places)
    had = [each.assignment for each in members]
    produce(bootstrap, places, range(200))
    wait_until(lambda: sum(len(each.values) for each in members) == 200, "all are read")
    admin = AdminClient({"bootstrap.servers": bootstrap})
    before = admin.describe_consumer_groups([group])[group].result(15)
    own_broker.restart(signal.SIGKILL)
    produce(bootstrap, places, range(200, 400))
    wait_until(lambda: sum(len(each.values) for each in members) >= 400, "those behind the kill are read")
    values = sorted(int(value) for each in members for value in each.values)
    assert values == list(range(400))
    assert [each.assignment for each in members] == had
    after = admin.describe_consumer_groups([group])[group].result(15)
    assert {each.member_id for each in after.members} == {each.member_id for each in before.members}
    for each in members:
        each.close()


def test_a_regular_expression_and_a_static_member_of_librdkafka(
    bootstrap: str, group: str, make_topic: MakeTopic
) -> None:
    places = make_topic(2)
    topic = places[0].topic
    pattern = f"^{topic[:-1]}.*"
    member = Librdkafka(bootstrap, group, pattern, **{"group.instance.id": "a"})
    wait_until_shared([member], places)
    member.close()
    again = Librdkafka(bootstrap, group, pattern, **{"group.instance.id": "a"})
    wait_until_shared([again], places)
    produce(bootstrap, places, range(10))
    wait_until(lambda: len(again.values) == 10, "it reads")
    again.close()
    consumer = Consumer(options(bootstrap, group))
    try:
        asked = [TopicPartition(place.topic, place.partition) for place in places]
        wait_until(
            lambda: [each.offset for each in consumer.committed(asked, timeout=15)] == [5, 5], "committed"
        )
    finally:
        consumer.close()


def test_franz_gos_members_share_with_librdkafkas_and_one_is_killed(
    bootstrap: str, group: str, make_topic: MakeTopic
) -> None:
    places = make_topic(6)
    topic = places[0].topic
    try:
        one = FranzGo(bootstrap, group, topic)
    except MissingTool as missing:
        pytest.skip(str(missing))
    two, other = FranzGo(bootstrap, group, topic), Librdkafka(bootstrap, group, topic)
    wait_until_shared([one, two, other], places, PATIENCE_S)
    listed = here.kohort("groups", "list", "--type", "--bootstrap-server", bootstrap).stdout
    assert [group, "Consumer"] in [line.split() for line in listed.splitlines()]
    produce(bootstrap, places, range(100))
    read = (one.values, two.values, other.values)
    wait_until(lambda: sum(map(len, read)) >= 100, "all are read", PATIENCE_S)
    assert sorted(value for values in read for value in values) == sorted(b"%d" % each for each in range(100))
    two.kill()
    wait_until_shared([one, other], places, PATIENCE_S)
    one.close()
    wait_until_shared([other], places, PATIENCE_S)
    other.close()


def test_javas_consumer_shares_with_librdkafkas_and_kafkas_tool_shows_both(
    bootstrap: str, group: str, make_topic: MakeTopic
) -> None:
    places = make_topic(4)
    topic = places[0].topic
    try:
        java = JavaMember(bootstrap, group, topic, strategy=CONSUMER_PROTOCOL, session_timeout_ms=0)
        tools = Tools()
    except MissingTool as missing:
        pytest.skip(str(missing))
    other = Librdkafka(bootstrap, group, topic)
    wait_until_shared([java, other], places, 30.0)
    produce(bootstrap, places, range(100))
    wait_until(lambda: len(java.records) + len(other.values) == 100, "all are read once")

    def groups(*arguments: str) -> list[list[str]]:
        output = tools.run("kafka-consumer-groups", "--bootstrap-server", bootstrap, *arguments)
        assert output.status == 0, output.out + output.err
        return output.rows()

    assert [group, "Consumer"] in groups("--list", "--type")
    assert [group, "Stable"] in groups("--list", "--state")
    head, row = groups("--describe", "--group", group, "--state")
    assert (head[0], row[0], row[-2:]) == ("GROUP", group, ["Stable", "2"])
    members = groups("--describe", "--group", group, "--members")
    assert len(members) == 3
    java.close()
    wait_until_shared([other], places)
    other.close()
    wait_until(lambda: [group, "Empty"] in groups("--list", "--state"), "the group is empty")
    assert groups("--delete", "--group", group)[0][:3] == ["Deletion", "of", "requested"]
    tools.close()
