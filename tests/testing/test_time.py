"""Time under control: what takes real members of groups and real logs seconds or days is over at once."""

import time
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer as ConfluentConsumer
from kafka import KafkaConsumer

from kohort.client import Producer
from kohort.testing import Broker
from tests.interop.java_member import JavaMember
from tests.interop.kafka_tools import MissingTool

SESSION_MS = 45_000
WEEK_SECONDS = 7 * 24 * 3600
JVM_SECONDS = 30.0  # For a process to start, and to join.

Close = Callable[[], None]


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(topics={"orders": 2}) as broker:
        yield broker


def confluent_member(broker: Broker, client_id: str = "confluent") -> Close:
    consumer = ConfluentConsumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "client.id": client_id,
            "group.id": "readers",
            "session.timeout.ms": SESSION_MS,
            "log_level": 0,
        }
    )
    consumer.subscribe(["orders"])
    broker.until(lambda: (consumer.poll(0.01), is_in(broker, client_id))[1])
    return consumer.close


def kafka_python_member(broker: Broker, client_id: str = "kafka-python") -> Close:
    consumer = KafkaConsumer(
        "orders",
        bootstrap_servers=broker.bootstrap,
        client_id=client_id,
        group_id="readers",
        session_timeout_ms=SESSION_MS,
    )
    broker.until(lambda: (consumer.poll(10), is_in(broker, client_id))[1])
    return consumer.close


def java_member(broker: Broker) -> Close:
    """Kafka's own consumer, in a process of its own."""
    try:
        member = JavaMember(
            broker.bootstrap, "readers", "orders", strategy="range", session_timeout_ms=SESSION_MS
        )
    except MissingTool as missing:
        pytest.skip(str(missing))
    broker.until(lambda: broker.groups["readers"].state == "Stable" and member.assignment, JVM_SECONDS)
    return member.close


def is_in(broker: Broker, client_id: str) -> bool:
    group = broker.groups["readers"]
    return group.state == "Stable" and client_id in [each.client_id for each in group.members]


@pytest.mark.parametrize("join", [confluent_member, kafka_python_member, java_member])
def test_a_session_of_45_seconds_ends_at_once(broker: Broker, join: Callable[[Broker], Close]) -> None:
    close = join(broker)
    began = time.monotonic()
    broker.clock.advance(seconds=46)
    group = broker.groups["readers"]
    took = time.monotonic() - began
    assert group.members == ()
    assert "missed its session timeout" in group.rebalances[-1].cause
    assert "not heard of for 4" in group.rebalances[-1].cause
    assert took < SESSION_MS / 1_000, "it does not wait for the end of the session in real time"
    close()


def test_a_member_that_is_named_lives_on_while_another_ends(broker: Broker) -> None:
    close_one = confluent_member(broker, "dead")
    close_two = confluent_member_beside(broker, "living")
    broker.clock.advance(seconds=46, alive=["living"])
    group = broker.groups["readers"]
    assert [each.client_id for each in group.members] == ["living"]
    close_two()
    close_one()


def confluent_member_beside(broker: Broker, client_id: str) -> Close:
    """Return once two are members; the first rejoins with its next poll, in a thread of librdkafka's."""
    consumer = ConfluentConsumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "client.id": client_id,
            "group.id": "readers",
            "session.timeout.ms": SESSION_MS,
            "log_level": 0,
        }
    )
    consumer.subscribe(["orders"])
    broker.until(lambda: (consumer.poll(0.01), is_there(broker, client_id))[1])
    return consumer.close


def is_there(broker: Broker, client_id: str) -> bool:
    return client_id in [each.client_id for each in broker.groups["readers"].members]


def test_a_member_lives_through_less_than_its_session(broker: Broker) -> None:
    close = confluent_member(broker)
    broker.clock.advance(seconds=30)
    assert is_there(broker, "confluent")
    broker.clock.advance(seconds=30, alive="confluent")
    broker.clock.advance(seconds=30)
    assert is_there(broker, "confluent")
    close()


def test_offsets_of_a_group_without_members_expire(broker: Broker) -> None:
    close = confluent_member(broker)
    close()
    consumer = ConfluentConsumer({"bootstrap.servers": broker.bootstrap, "group.id": "readers"})
    from confluent_kafka import TopicPartition

    consumer.commit(offsets=[TopicPartition("orders", 0, 5)], asynchronous=False)
    consumer.close()
    assert broker.groups["readers"].offsets == {("orders", 0): 5}
    broker.clock.advance(seconds=WEEK_SECONDS - 3600)
    assert broker.groups["readers"].offsets == {("orders", 0): 5}
    broker.clock.advance(seconds=3 * 3600)
    broker.until(lambda: "readers" not in broker.groups)


def test_old_records_go(broker: Broker) -> None:
    with Producer(bootstrap_servers=broker.bootstrap) as producer:
        producer.send("orders", value=b"old")
    assert len(broker.records("orders")) == 1
    broker.clock.advance(seconds=2 * WEEK_SECONDS)
    broker.until(lambda: not broker.records("orders"))
    with Producer(bootstrap_servers=broker.bootstrap) as producer:
        producer.send("orders", value=b"new")
    assert [each.value for each in broker.records("orders")] == [b"new"]


def test_wall_time_moves_as_well(broker: Broker) -> None:
    before = broker.clock.time()
    broker.clock.advance(seconds=3600)
    assert 3600 <= broker.clock.time() - before < 3700
    with pytest.raises(ValueError, match="cannot go back"):
        broker.clock.advance(seconds=-1)


def test_a_fetch_that_waits_is_answered(broker: Broker) -> None:
    consumer = ConfluentConsumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "readers",
            "fetch.wait.max.ms": 60_000,
            "socket.timeout.ms": 120_000,
            "log_level": 0,
        }
    )
    from confluent_kafka import TopicPartition

    consumer.assign([TopicPartition("orders", 0, 0)])
    waiting = broker.until(lambda: (consumer.poll(0.01), broker.requests.of("Fetch")[-1])[1])
    assert not waiting.is_answered
    broker.clock.advance(seconds=61)
    broker.until(lambda: waiting.is_answered)
    consumer.close()
