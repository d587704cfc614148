"""Brokers that answer as older versions of Kafka do, asked by real clients and byte by byte."""

import asyncio
import contextlib
import socket
from collections.abc import Callable

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import Producer as ConfluentProducer
from kafka import KafkaConsumer, KafkaProducer

from kohort.broker.config import ConfigError
from kohort.client import Consumer, Producer
from kohort.protocol.messages.api_versions import ApiVersionsResponse
from kohort.protocol.registry import APIS, BY_NAME
from kohort.testing import Broker, ErrorCode
from kohort.testing.kafka_versions import HIGHEST_VERSIONS, highest_versions

VERSIONS = ["2.4", "2.8", "3.0", "3.9", "4.0"]
API_VERSIONS = 18


def confluent(bootstrap: str) -> bytes | None:
    producer = ConfluentProducer({"bootstrap.servers": bootstrap, "log_level": 0, "enable.idempotence": True})
    producer.produce("orders", b"one")
    assert producer.flush(20) == 0
    settings = {"bootstrap.servers": bootstrap, "group.id": "g", "auto.offset.reset": "earliest"}
    consumer = ConfluentConsumer({**settings, "log_level": 0})
    consumer.subscribe(["orders"])
    for _ in range(200):
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            consumer.commit(asynchronous=False)
            consumer.close()
            value = message.value()
            assert isinstance(value, bytes)
            return value
    raise AssertionError("nothing came")


def kafka_python(bootstrap: str) -> bytes | None:
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    producer.send("orders", b"one").get(20)
    producer.close()
    consumer = KafkaConsumer(
        "orders",
        bootstrap_servers=bootstrap,
        group_id="g",
        auto_offset_reset="earliest",
        consumer_timeout_ms=20_000,
    )
    with contextlib.closing(consumer):
        value = next(consumer).value
        consumer.commit()
    assert isinstance(value, bytes)
    return value


def aiokafka(bootstrap: str) -> bytes | None:
    async def main() -> bytes | None:
        async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
            await producer.send_and_wait("orders", b"one")
        consumer = AIOKafkaConsumer(
            "orders", bootstrap_servers=bootstrap, group_id="g", auto_offset_reset="earliest"
        )
        async with consumer:
            record = await asyncio.wait_for(consumer.getone(), 20)
            await consumer.commit()
            value = record.value
            assert value is None or isinstance(value, bytes)
            return value

    return asyncio.run(main())


def kohort(bootstrap: str) -> bytes | None:
    with Producer(bootstrap_servers=bootstrap) as producer:
        producer.send("orders", value=b"one").result(20)
    with Consumer(
        "orders", bootstrap_servers=bootstrap, group_id="g", auto_offset_reset="earliest"
    ) as consumer:
        value = next(iter(consumer)).value
        consumer.commit()
        return value


@pytest.mark.parametrize("client", [confluent, kafka_python, aiokafka, kohort])
@pytest.mark.parametrize("version", VERSIONS)
def test_a_client_writes_reads_and_commits(version: str, client: Callable[[str], bytes | None]) -> None:
    highest = highest_versions(version)
    with Broker(topics={"orders": 1}, api_versions=version) as broker:
        assert client(broker.bootstrap) == b"one"
        broker.expect_commit(group="g", topic="orders", offset=1)
        executed = [each for each in broker.requests if not each.fault]
        assert all(each.version <= highest[BY_NAME[each.api].api_key] for each in executed)
        refused = {each.api for each in broker.requests if each.fault}
        assert refused <= {"ApiVersions"}, "clients ask only what the broker says that it has"


def ask(bootstrap: str, api_key: int, version: int, body: bytes) -> bytes:
    """Return the answer without its length, or nothing if the broker closes the connection."""
    host, port = bootstrap.split(":")
    tags = b"\0" if (flexible := APIS[api_key].flexible_from) is not None and version >= flexible else b""
    head = api_key.to_bytes(2, "big") + version.to_bytes(2, "big") + (7).to_bytes(4, "big") + b"\0\1c" + tags
    frame = head + body
    with socket.create_connection((host, int(port)), timeout=10) as client:
        client.sendall(len(frame).to_bytes(4, "big") + frame)
        data = b""
        while len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4], "big"):
            more = client.recv(65_536)
            if not more:
                return b""
            data += more
    return data[4:]


@pytest.mark.parametrize("version", list(HIGHEST_VERSIONS))
def test_api_versions_are_those_of_that_version_of_kafka(version: str) -> None:
    with Broker(api_versions=version) as broker:
        answer = ApiVersionsResponse.decode(ask(broker.bootstrap, API_VERSIONS, 0, b"")[4:], 0)
    found = {each.api_key: each.max_version for each in answer.api_keys}
    highest = highest_versions(version)
    assert found == {key: highest[key] for key in highest if key in found}
    missing = {APIS[key].name for key in highest if key not in found}
    assert missing <= {"WriteTxnMarkers"}, (
        "between brokers; the versions of Kafka 4 have none in common with 2.4"
    )
    assert 0 in found
    assert 1 in found


def test_a_newer_api_versions_is_answered_in_version_0_with_what_there_is() -> None:
    with Broker(api_versions="2.8") as broker:
        answer = ApiVersionsResponse.decode(ask(broker.bootstrap, API_VERSIONS, 4, b"\2c\2c\0")[4:], 0)
        assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
        assert [(each.api_key, each.max_version) for each in answer.api_keys] == [(API_VERSIONS, 3)]
        assert broker.requests[0].fault == "refused: Kafka 2.8 has ApiVersions up to version 3"


def test_features_are_unknown_before_kafka_4() -> None:
    for version, features in (("3.9", []), ("4.0", ["group.version", "transaction.version"])):
        with Broker(api_versions=version) as broker:
            answer = ApiVersionsResponse.decode(ask(broker.bootstrap, API_VERSIONS, 3, b"\2c\2c\0")[4:], 3)
            assert sorted(each.name for each in answer.finalized_features) == features


@pytest.mark.parametrize(
    "api, version, refusal",
    [
        ("Metadata", 12, "refused: Kafka 2.8 has Metadata up to version 11"),
        ("DescribeTopicPartitions", 0, "refused: Kafka 2.8 has no DescribeTopicPartitions"),
        ("ConsumerGroupHeartbeat", 0, "refused: Kafka 2.8 has no ConsumerGroupHeartbeat"),
    ],
)
def test_a_newer_request_closes_the_connection(api: str, version: int, refusal: str) -> None:
    request = BY_NAME[api].request()
    with Broker(api_versions="2.8") as broker:
        assert ask(broker.bootstrap, BY_NAME[api].api_key, version, request.encode(version)) == b""
        [seen] = broker.requests
        assert (seen.fault, seen.is_answered) == (refusal, False)
        assert refusal in broker.report()


def test_an_unknown_version_of_kafka_is_refused_with_those_there_are() -> None:
    with pytest.raises(ConfigError, match=r"api_versions is '1\.0': it must be one of 2\.4, 2\.5"):
        Broker(api_versions="1.0")
