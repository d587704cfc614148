"""kohort's own client with Avro and a registry, and with Confluent's serializers on the other side."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest

from kohort.client import (
    Avro,
    ConfigurationError,
    Consumer,
    DeserializationError,
    NetworkError,
    Producer,
    SchemaRegistry,
    SchemaRegistryError,
    aio,
)
from kohort.client.errors import SerializationError
from kohort.testing import Broker
from tests.registry.asking import ask, register

pytest.importorskip("fastavro", reason="the extra `registry` has fastavro")

USER: dict[str, Any] = {"type": "record", "name": "User", "fields": [{"name": "name", "type": "string"}]}
OLDER: dict[str, Any] = {**USER, "fields": [*USER["fields"], {"name": "age", "type": "int", "default": -1}]}


@pytest.fixture
def topic(broker: Broker) -> str:
    return broker.create_topic(f"users-{uuid.uuid4().hex}", 1)


def read(broker: Broker, topic: str, avro: Avro, count: int) -> list[object]:
    with Consumer(
        topic,
        group_id=topic,
        bootstrap_servers=broker.bootstrap,
        auto_offset_reset="earliest",
        value_deserializer=avro,
    ) as consumer:
        found: list[object] = []
        while len(found) < count:
            found += [each.value for each in consumer.poll(timeout_ms=10_000)]
    return found


def test_a_value_written_with_one_schema_is_read_with_another(url: str, broker: Broker, topic: str) -> None:
    avro = Avro(url)
    subject = f"{topic}-value"
    for schema, value in ((USER, {"name": "Ada"}), (OLDER, {"name": "Bob", "age": 7})):
        serializer = avro.serializer(subject, schema)
        with Producer(bootstrap_servers=broker.bootstrap, value_serializer=serializer) as producer:
            producer.send(topic, value)
    assert ask(url, "GET", f"/subjects/{subject}/versions").content == [1, 2]
    assert read(broker, topic, Avro(url), 2) == [{"name": "Ada"}, {"name": "Bob", "age": 7}]


def test_the_readers_schema_supplies_missing_fields(url: str) -> None:
    data = Avro(url).serializer(f"s-{uuid.uuid4().hex}", json.dumps(USER))({"name": "Ada"})
    assert Avro(url, reader_schema=OLDER)(data) == {"name": "Ada", "age": -1}


async def test_the_asynchronous_clients_accept_it(url: str, broker: Broker, topic: str) -> None:
    avro = Avro(url)
    serializer = avro.serializer(f"{topic}-value", USER)
    async with aio.Producer(bootstrap_servers=broker.bootstrap, value_serializer=serializer) as producer:
        await (await producer.send(topic, {"name": "Ada"}))
    options: Any = {"bootstrap_servers": broker.bootstrap, "auto_offset_reset": "earliest"}
    async with aio.Consumer(topic, group_id=topic, value_deserializer=avro, **options) as consumer:
        async for record in consumer:
            assert record.value == {"name": "Ada"}
            break


def test_schemas_that_are_referred_to_are_read_with_it(url: str) -> None:
    names = [f"{each}-{uuid.uuid4().hex}" for each in ("street", "address", "person")]
    register(url, names[0], {"type": "record", "name": "Street", "fields": [{"name": "s", "type": "string"}]})
    address = {"type": "record", "name": "Address", "fields": [{"name": "street", "type": "Street"}]}
    register(url, names[1], address, references=[{"name": "Street", "subject": names[0], "version": 1}])
    person = {"type": "record", "name": "Person", "fields": [{"name": "a", "type": "Address"}]}
    references = [{"name": "Address", "subject": names[1], "version": 1}]
    schema_id = register(url, names[2], person, references=references)
    data = b"\0" + schema_id.to_bytes(4, "big") + b"\x04hi"
    assert Avro(url)(data) == {"a": {"street": {"s": "hi"}}}


@pytest.mark.parametrize(
    "schema, value, data",
    [
        ("n.Street", {"s": "hi"}, b"\x04hi"),
        (["null", "n.Street"], {"s": "hi"}, b"\x02\x04hi"),
        ({"type": "array", "items": ["n.Street", "n.Way"]}, [{"a": {"s": "hi"}, "b": {"s": "ho"}}],
         b"\x02\x02\x04hi\x04ho\x00"),
        ({"type": "map", "values": "n.Way"}, {}, b"\0"),
    ],
)  # fmt: skip
def test_a_schema_of_nothing_but_references_is_read(
    url: str, schema: Any, value: object, data: bytes
) -> None:
    street, way, subject = (f"{each}-{uuid.uuid4().hex}" for each in ("street", "way", "subject"))
    fields = [{"name": "s", "type": "string"}]
    register(url, street, {"type": "record", "name": "Street", "namespace": "n", "fields": fields})
    both = [{"name": "a", "type": "Street"}, {"name": "b", "type": "Street"}]
    used = {"name": "n.Street", "subject": street, "version": 1}
    register(url, way, {"type": "record", "name": "Way", "namespace": "n", "fields": both}, references=[used])
    references = [used, {"name": "n.Way", "subject": way, "version": 1}]
    schema_id = register(url, subject, schema, references=references)
    found = b"\0" + schema_id.to_bytes(4, "big") + data
    avro = Avro(url)
    assert avro(found) == value


def test_confluents_serializers_and_ours_read_each_other(url: str, topic: str) -> None:
    pytest.importorskip("confluent_kafka.schema_registry", reason="the group `registry` has what it needs")
    from confluent_kafka.schema_registry import SchemaRegistryClient
    from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
    from confluent_kafka.serialization import MessageField, SerializationContext

    client = SchemaRegistryClient({"url": url})
    context = SerializationContext(topic, MessageField.VALUE)
    ours, theirs = Avro(url), AvroSerializer(client, json.dumps(OLDER))
    value = {"name": "Ada", "age": 36}
    data = theirs(value, context)
    assert data is not None
    assert ours(data) == value
    assert ours.serializer(f"{topic}-value", OLDER)(value) == data
    assert AvroDeserializer(client)(data, context) == value


def test_without_registration_the_schema_must_exist(url: str) -> None:
    subject = f"s-{uuid.uuid4().hex}"
    with pytest.raises(SchemaRegistryError) as refused:
        Avro(url).serializer(subject, USER, register=False)({"name": "Ada"})
    assert (refused.value.status, refused.value.error_code, refused.value.retriable) == (404, 40401, False)
    register(url, subject, USER)
    assert Avro(url).serializer(subject, USER, register=False)({"name": "Ada"})


def test_a_schema_that_does_not_fit_and_a_value_that_does_not_are_refused(
    url: str, broker: Broker, topic: str
) -> None:
    avro = Avro(url)
    avro.serializer(f"{topic}-value", USER)({"name": "Ada"})
    broken = {**USER, "fields": [{"name": "other", "type": "int"}]}
    with pytest.raises(SchemaRegistryError, match="409"):
        avro.serializer(f"{topic}-value", broken)({"other": 1})
    serializer = avro.serializer(f"{topic}-value", USER)
    with (
        Producer(bootstrap_servers=broker.bootstrap, value_serializer=serializer) as producer,
        pytest.raises(SerializationError),
    ):
        producer.send(topic, {"name": 7})


def test_bytes_that_no_serializer_wrote_name_their_record(url: str, broker: Broker, topic: str) -> None:
    with Producer(bootstrap_servers=broker.bootstrap) as producer:
        producer.send(topic, b'{"json": true}')
    with pytest.raises(DeserializationError, match="no Avro") as failure:
        read(broker, topic, Avro(url), 1)
    assert failure.value.record.value == b'{"json": true}'


def test_an_id_is_requested_once(url: str) -> None:
    data = Avro(url).serializer(f"s-{uuid.uuid4().hex}", USER)({"name": "Ada"})
    avro = Avro(url)
    assert avro(data) == {"name": "Ada"}
    avro.registry = SchemaRegistry("http://127.0.0.1:1")
    assert avro(data) == {"name": "Ada"}


def test_another_url_is_used_if_one_does_not_answer(url: str) -> None:
    registry = SchemaRegistry("http://127.0.0.1:1", url)
    assert Avro(registry).serializer(f"s-{uuid.uuid4().hex}", USER)({"name": "Ada"})
    with pytest.raises(NetworkError, match=r"does not answer: 127\.0\.0\.1:1: ") as caught:
        SchemaRegistry("http://me:hush@127.0.0.1:1").schema(1)
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize("wrong", ["", "127.0.0.1:8081", "ftp://host", "http://"])
def test_an_invalid_url_is_refused_at_once(wrong: str) -> None:
    with pytest.raises(ConfigurationError):
        Avro(wrong)
