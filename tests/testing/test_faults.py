"""Faults on order: what clients do when a broker answers errors, late, or not at all."""

import socket
import threading
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka import Producer as ConfluentProducer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # Its home says otherwise.
from kafka import KafkaProducer

from kohort.client import Consumer as KohortConsumer
from kohort.client import Producer
from kohort.testing import Broker, ErrorCode


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(topics={"orders": 1}) as broker:
        yield broker


def consumer_of(broker: Broker, **settings: object) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "readers",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
            **settings,
        }
    )


def send(broker: Broker, *values: bytes) -> None:
    with Producer(bootstrap_servers=broker.bootstrap) as producer:
        for value in values:
            producer.send("orders", value=value)


def next_value(consumer: Consumer) -> bytes:
    for _ in range(1_000):
        message = consumer.poll(0.02)
        if message is not None and message.error() is None:
            value = message.value()
            assert isinstance(value, bytes)
            return value
    raise AssertionError("nothing came")


def test_commits_fail_as_often_as_was_ordered(broker: Broker) -> None:
    consumer = consumer_of(broker)
    place = [TopicPartition("orders", 0, 7)]
    broker.fail_next("OffsetCommit", ErrorCode.TOPIC_AUTHORIZATION_FAILED, times=2)
    for _ in range(2):
        with pytest.raises(KafkaException) as raised:
            consumer.commit(offsets=place, asynchronous=False)
        assert raised.value.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert "readers" not in broker.groups
    consumer.commit(offsets=place, asynchronous=False)
    assert broker.groups["readers"].offsets == {("orders", 0): 7}
    commits = broker.requests.of("OffsetCommit")
    assert commits.errors == [ErrorCode.TOPIC_AUTHORIZATION_FAILED] * 2
    assert [each.fault for each in commits] == ["answered TOPIC_AUTHORIZATION_FAILED by order"] * 2 + [""]
    consumer.close()


@pytest.mark.parametrize("library", ["confluent", "kafka-python", "kohort"])
def test_a_produce_that_fails_is_sent_again(broker: Broker, library: str) -> None:
    broker.fail_next("Produce", ErrorCode.NOT_LEADER_OR_FOLLOWER, times=2)
    if library == "confluent":
        confluent = ConfluentProducer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        confluent.produce("orders", b"one")
        assert confluent.flush(20) == 0
    elif library == "kafka-python":
        python = KafkaProducer(bootstrap_servers=broker.bootstrap)
        python.send("orders", b"one").get(20)
        python.close()
    else:
        send(broker, b"one")
    assert [each.value for each in broker.records("orders")] == [b"one"]
    assert broker.requests.of("Produce").errors == [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 2


def test_of_a_torn_answer_half_arrives_though_all_was_done(broker: Broker) -> None:
    host, port = broker.bootstrap.split(":")
    frame = bytes.fromhex("0003 0009 00000007 0001 63 00".replace(" ", "")) + METADATA_OF_ALL
    with socket.create_connection((host, int(port)), timeout=10) as client:
        client.sendall(len(frame).to_bytes(4, "big") + frame)
        whole = received(client)
    assert len(whole) == 4 + int.from_bytes(whole[:4], "big")
    broker.tear_next("Metadata", client_id="c")
    with socket.create_connection((host, int(port)), timeout=10) as client:
        client.sendall(len(frame).to_bytes(4, "big") + frame)
        torn = received(client, until_closed=True)
    assert torn == whole[: len(whole) // 2]
    assert [each.fault for each in broker.requests.of("Metadata")] == ["", "answer torn"]


METADATA_OF_ALL = bytes([0, 1, 0, 0, 0])
"""Version 9 without topics: of all, none are made, no authorizations are told."""


def received(client: socket.socket, *, until_closed: bool = False) -> bytes:
    data = b""
    while until_closed or len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4], "big"):
        more = client.recv(65_536)
        if not more:
            break
        data += more
    return data


@pytest.mark.parametrize("library", ["confluent", "kafka-python", "kohort"])
def test_a_produce_whose_answer_is_torn_is_written_and_sent_again(broker: Broker, library: str) -> None:
    broker.tear_next("Produce")
    if library == "confluent":
        confluent = ConfluentProducer(
            {"bootstrap.servers": broker.bootstrap, "log_level": 0, "enable.idempotence": True}
        )
        confluent.produce("orders", b"one")
        assert confluent.flush(20) == 0
    elif library == "kafka-python":
        python = KafkaProducer(bootstrap_servers=broker.bootstrap, enable_idempotence=True)
        python.send("orders", b"one").get(20)
        python.close()
    else:
        send(broker, b"one")
    assert [each.value for each in broker.records("orders")] == [b"one"]
    first, *again = broker.requests.of("Produce")
    assert (first.fault, first.is_answered, len(again)) == ("answer torn", True, 1)


def test_a_torn_fetch_loses_no_record_and_a_torn_join_gets_its_group(broker: Broker) -> None:
    send(broker, b"one")
    broker.tear_next("Fetch")
    broker.tear_next("JoinGroup")
    broker.tear_next("OffsetCommit")
    consumer = consumer_of(broker, **{"session.timeout.ms": 6_000})  # The torn join's member ends by it.
    consumer.subscribe(["orders"])
    assert next_value(consumer) == b"one"
    consumer.commit(asynchronous=False)
    assert broker.groups["readers"].offsets == {("orders", 0): 1}
    consumer.close()
    torn = [each.api for each in broker.requests if each.fault == "answer torn"]
    assert sorted(torn) == ["Fetch", "JoinGroup", "OffsetCommit"]


@pytest.mark.parametrize("library", ["confluent", "kohort"])
def test_a_fetch_that_fails_is_repeated(broker: Broker, library: str) -> None:
    send(broker, b"one")
    broker.fail_next("Fetch", ErrorCode.NOT_LEADER_OR_FOLLOWER)
    if library == "confluent":
        consumer = consumer_of(broker)
        consumer.assign([TopicPartition("orders", 0, 0)])
        assert next_value(consumer) == b"one"
        consumer.close()
    else:
        with KohortConsumer(
            "orders", bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest", group_id="readers"
        ) as reader:
            assert next(iter(reader)).value == b"one"
    assert ErrorCode.NOT_LEADER_OR_FOLLOWER in broker.requests.of("Fetch").errors


def test_a_fetch_in_a_session_fails_for_the_partition(broker: Broker) -> None:
    send(broker, b"one")
    with KohortConsumer(
        "orders", bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest", group_id="readers"
    ) as reader:
        assert next(iter(reader)).value == b"one"
        broker.fail_next("Fetch", ErrorCode.KAFKA_STORAGE_ERROR)
        send(broker, b"two")
        assert next(iter(reader)).value == b"two"
    errors = broker.requests.of("Fetch").errors
    assert ErrorCode.KAFKA_STORAGE_ERROR in errors or ErrorCode.FETCH_SESSION_ID_NOT_FOUND in errors


def test_joins_heartbeats_coordinators_and_metadata_can_fail(broker: Broker) -> None:
    send(broker, b"one")
    broker.fail_next("FindCoordinator", ErrorCode.COORDINATOR_NOT_AVAILABLE)
    broker.fail_next("Metadata", ErrorCode.LEADER_NOT_AVAILABLE)
    broker.fail_next("JoinGroup", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    broker.fail_next("SyncGroup", ErrorCode.REBALANCE_IN_PROGRESS)
    broker.fail_next("ListOffsets", ErrorCode.NOT_LEADER_OR_FOLLOWER)
    broker.fail_next("OffsetFetch", ErrorCode.UNSTABLE_OFFSET_COMMIT)
    consumer = consumer_of(broker)
    consumer.subscribe(["orders"])
    assert next_value(consumer) == b"one"
    assert {
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
    } <= set(broker.requests.errors)
    consumer.close()


def test_administration_can_fail(broker: Broker) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    broker.fail_next("CreateTopics", ErrorCode.POLICY_VIOLATION)
    with pytest.raises(KafkaException) as raised:
        admin.create_topics([NewTopic("payments", 1, 1)])["payments"].result(20)
    assert raised.value.args[0].code() == KafkaError.POLICY_VIOLATION
    with pytest.raises(KeyError):
        broker.records("payments")


def test_a_fault_hits_the_client_that_it_is_meant_for(broker: Broker) -> None:
    broker.fail_next("OffsetCommit", ErrorCode.GROUP_AUTHORIZATION_FAILED, client_id="billing")
    others = consumer_of(broker, **{"client.id": "shipping"})
    others.commit(offsets=[TopicPartition("orders", 0, 1)], asynchronous=False)
    billing = consumer_of(broker, **{"client.id": "billing"})
    with pytest.raises(KafkaException):
        billing.commit(offsets=[TopicPartition("orders", 0, 1)], asynchronous=False)
    assert broker.requests.of("OffsetCommit", client_id="shipping").errors == []
    others.close()
    billing.close()


def test_a_delay_is_over_when_the_brokers_time_has_passed(broker: Broker) -> None:
    broker.delay_next("Produce", seconds=3600)
    sent = threading.Thread(target=send, args=(broker, b"late"))
    sent.start()
    waiting = broker.until(lambda: broker.requests.of("Produce")[0])
    assert broker.records("orders") == ()
    broker.clock.advance(seconds=3600)
    sent.join(20)
    assert [each.value for each in broker.records("orders")] == [b"late"]
    assert waiting.is_answered
    assert waiting.fault == "delayed for 3600 s"


def test_a_short_delay_passes_by_itself(broker: Broker) -> None:
    broker.delay_next("Produce", seconds=0.3)
    began = time.monotonic()
    send(broker, b"late")
    assert time.monotonic() - began >= 0.3


def test_a_request_that_is_late_can_fail_as_well(broker: Broker) -> None:
    broker.delay_next("OffsetCommit", seconds=0.01)
    broker.fail_next("OffsetCommit", ErrorCode.GROUP_AUTHORIZATION_FAILED)
    consumer = consumer_of(broker)
    with pytest.raises(KafkaException):
        consumer.commit(offsets=[TopicPartition("orders", 0, 1)], asynchronous=False)
    [commit] = broker.requests.of("OffsetCommit")
    assert commit.fault == "delayed for 0.01 s, answered GROUP_AUTHORIZATION_FAILED by order"
    consumer.close()


def test_a_connection_that_is_dropped_instead_of_an_answer_loses_nothing(broker: Broker) -> None:
    broker.drop_next("Produce")
    send(broker, b"one")
    assert [each.value for each in broker.records("orders")] == [b"one"]
    assert [each.fault for each in broker.requests.of("Produce")] == ["connection closed", ""]


def test_connections_are_dropped_of_one_client_or_of_all(broker: Broker) -> None:
    one = ConfluentProducer({"bootstrap.servers": broker.bootstrap, "client.id": "one", "log_level": 0})
    two = ConfluentProducer({"bootstrap.servers": broker.bootstrap, "client.id": "two", "log_level": 0})
    for each in (one, two):
        each.produce("orders", b"before")
        assert each.flush(20) == 0
    assert broker.drop_connections("one") >= 1
    assert broker.drop_connections("nobody") == 0
    assert broker.drop_connections() >= 1
    for each in (one, two):
        each.produce("orders", b"after")
        assert each.flush(20) == 0
    assert [each.value for each in broker.records("orders")].count(b"after") == 2


def test_a_consumer_goes_on_behind_a_restart(broker: Broker) -> None:
    send(broker, b"one")
    consumer = consumer_of(broker)
    consumer.subscribe(["orders"])
    assert next_value(consumer) == b"one"
    consumer.commit(asynchronous=False)
    before = broker.groups["readers"].generation
    broker.restart()
    send(broker, b"two")
    assert next_value(consumer) == b"two"
    group = broker.until(lambda: broker.groups["readers"])
    assert group.generation == before
    assert group.offsets == {("orders", 0): 1}
    consumer.close()


def members_of(broker: Broker, *client_ids: str) -> list[Consumer]:
    """Return consumers that are in their group, and know so."""
    members: list[Consumer] = []
    for client_id in client_ids:
        members.append(consumer_of(broker, **{"client.id": client_id, "heartbeat.interval.ms": 100}))
        members[-1].subscribe(["orders"])
        broker.until(lambda: poll_all(members) and is_settled(broker, len(members)))
    return members


def poll_all(members: list[Consumer]) -> bool:
    for each in members:
        each.poll(0.01)
    return True


def is_settled(broker: Broker, members: int) -> bool:
    group = broker.groups["readers"]
    return group.state == "Stable" and len(group.members) == members


def test_a_group_rebalances_by_order(broker: Broker) -> None:
    members = members_of(broker, "one", "two")
    before = broker.groups["readers"].generation
    broker.rebalance("readers")
    group = broker.until(
        lambda: poll_all(members) and is_settled(broker, 2) and broker.groups["readers"].generation > before
        and broker.groups["readers"]
    )  # fmt: skip
    assert group.generation == before + 1
    assert {each.client_id for each in group.members} == {"one", "two"}
    for each in members:
        each.close()


def test_members_look_for_their_coordinator_by_order(broker: Broker) -> None:
    members = members_of(broker, "one", "two")
    generation = broker.groups["readers"].generation
    asked = {each: len(broker.requests.of("FindCoordinator", client_id=each)) for each in ("one", "two")}
    broker.move_coordinator("readers")
    broker.until(
        lambda: (
            poll_all(members)
            and all(
                len(broker.requests.of("FindCoordinator", client_id=each)) > asked[each] for each in asked
            )
        )
    )
    told = [each for each in broker.requests.of("Heartbeat") if each.errors == (ErrorCode.NOT_COORDINATOR,)]
    assert sorted(each.client_id for each in told) == ["one", "two"]
    assert broker.groups["readers"].generation == generation
    for each in members:
        each.close()


def test_a_group_without_members_cannot_be_told_anything(broker: Broker) -> None:
    with pytest.raises(KeyError, match="'nobody' has no members"):
        broker.rebalance("nobody")


def test_an_order_that_cannot_be_is_refused_with_what_would_be_right(broker: Broker) -> None:
    with pytest.raises(ValueError, match="did you mean OffsetCommit"):
        broker.fail_next("OffsetComit", ErrorCode.NOT_COORDINATOR)
    with pytest.raises(ValueError, match="times"):
        broker.fail_next("OffsetCommit", ErrorCode.NOT_COORDINATOR, times=0)


def test_orders_can_be_taken_back(broker: Broker) -> None:
    broker.drop_next("Produce", times=1_000)
    broker.clear_faults()
    send(broker, b"one")
    assert len(broker.requests.of("Produce")) == 1
