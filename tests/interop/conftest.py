"""A broker process per module, and the three Python clients.

KOHORT_TEST_BOOTSTRAP=HOST:PORT runs the same tests against a broker that is there already (those that
restart or measure it are skipped); KOHORT_TEST_COMMAND serves with another command.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic, TopicMetadata  # type: ignore[attr-defined]  # Its home says otherwise.

from tests.interop.broker_process import BrokerProcess
from tests.interop.clients import ALL_CLIENTS, CLIENTS, Client, ConsumerOptions, Place
from tests.interop.kafka_tools import MissingTool, Tools, jars
from tests.interop.members import Member
from tests.interop.waiting import wait_until

BOOTSTRAP_VARIABLE = "KOHORT_TEST_BOOTSTRAP"
MIXED_VARIABLE = "KOHORT_TEST_MIXED"
QUICK = (
    # Quick, yet long enough for a member to know its topics when it leads: kafka-python 3.0.12 sometimes
    # never finishes a join that a metadata answer overtakes, against Apache Kafka as well.
    "group.initial.rebalance.delay.ms=200",
    "group.min.session.timeout.ms=500",
    "offsets.topic.replication.factor=1",
)

NOTHING = TopicMetadata()
MakeTopic = Callable[[int], list[Place]]
Join = Callable[..., Member]


@contextmanager
def running_tools() -> Iterator[Tools]:
    """Have Kafka's tools in one JVM meanwhile; the test is skipped with a word where they can't be had."""
    try:
        tools = Tools()
    except MissingTool as missing:
        pytest.skip(str(missing))
    try:
        yield tools
    finally:
        tools.close()


@pytest.fixture(scope="module")
def tools() -> Iterator[Tools]:
    """One JVM for all tests of a module."""
    with running_tools() as found:
        yield found


@pytest.fixture(scope="module")
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker of this module's own, quick to form groups."""
    if BOOTSTRAP_VARIABLE in os.environ:
        pytest.skip(f"{BOOTSTRAP_VARIABLE} names a broker that this test cannot restart")
    broker = BrokerProcess(tmp_path_factory.mktemp("broker"), *QUICK)
    try:
        broker.start()
        yield broker
    finally:
        broker.stop()


@pytest.fixture(scope="module")
def bootstrap(request: pytest.FixtureRequest) -> str:
    """Where the broker listens."""
    named = os.environ.get(BOOTSTRAP_VARIABLE)
    if named:
        return named
    broker: BrokerProcess = request.getfixturevalue("own_broker")
    return broker.bootstrap


@pytest.fixture(params=list(ALL_CLIENTS))
def client(request: pytest.FixtureRequest) -> Client:
    """Each of the client libraries in turn; kohort's own, which has tests enough, with make interop alone."""
    if request.param not in CLIENTS and MIXED_VARIABLE not in os.environ:
        pytest.skip(f"{MIXED_VARIABLE}=1 runs it")
    return ALL_CLIENTS[request.param]


@pytest.fixture
def make_topic(bootstrap: str) -> MakeTopic:
    """Return a function that creates a topic of so many partitions and returns its places."""
    admin = AdminClient({"bootstrap.servers": bootstrap})

    def make(partitions: int) -> list[Place]:
        name = f"topic-{uuid.uuid4().hex[:12]}"
        admin.create_topics([NewTopic(name, partitions, 1)])[name].result(15)
        # Apache Kafka's brokers learn of a topic a moment after its controller has answered.
        wait_until(
            lambda: len(admin.list_topics(timeout=15).topics.get(name, NOTHING).partitions) == partitions,
            name,
        )
        return [Place(name, partition) for partition in range(partitions)]

    return make


@pytest.fixture
def group() -> str:
    """A group that nobody has used."""
    return f"group-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def join(bootstrap: str, group: str) -> Iterator[Join]:
    """Return a function by which a client joins the test's group; all leave when the test ends."""
    members: list[Member] = []

    def join(client: Client, topic: str, **options: object) -> Member:
        wanted = ConsumerOptions(group=group, topics=[topic], **options)  # type: ignore[arg-type]
        members.append(Member(client, bootstrap, wanted))
        return members[-1]

    yield join
    for member in members:
        member.close()


@pytest.fixture(scope="module")
def libs() -> Path:
    """The folder with Kafka's jars."""
    try:
        return jars("tools")
    except MissingTool as missing:
        pytest.skip(str(missing))
