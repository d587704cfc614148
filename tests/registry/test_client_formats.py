"""kohort's client with JSON Schema and Protocol Buffers, and Confluent's serializers on the other side."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest

from kohort.client import (
    ConfigurationError,
    Consumer,
    DeserializationError,
    Json,
    Producer,
    Protobuf,
    SchemaRegistry,
    SchemaRegistryError,
)
from kohort.client.protobuf import indexes_of, read_indexes, write_indexes
from kohort.testing import Broker
from tests.registry.asking import ask, register

pytest.importorskip("jsonschema", reason="the extra `registry` has jsonschema")
pytest.importorskip("google.protobuf", reason="the extra `registry` has protobuf")

from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

PERSON: dict[str, Any] = {
    "title": "Person",
    "type": "object",
    "properties": {"name": {"type": "string"}},
    "required": ["name"],
}


@pytest.fixture
def topic(broker: Broker) -> str:
    return broker.create_topic(f"people-{uuid.uuid4().hex}", 1)


def through(broker: Broker, topic: str, serializer: Any, deserializer: Any, value: object) -> object:
    """Return a value that was written to a topic and read from it."""
    with Producer(bootstrap_servers=broker.bootstrap, value_serializer=serializer) as producer:
        producer.send(topic, value)
    options: Any = {"bootstrap_servers": broker.bootstrap, "auto_offset_reset": "earliest"}
    with Consumer(topic, group_id=topic, value_deserializer=deserializer, **options) as consumer:
        return next(iter(consumer)).value


def test_json_is_read_as_it_was_written(url: str, broker: Broker, topic: str) -> None:
    values = Json(url)
    serializer = values.serializer(f"{topic}-value", PERSON)
    assert through(broker, topic, serializer, values, {"name": "Ada"}) == {"name": "Ada"}
    assert ask(url, "GET", f"/subjects/{topic}-value/versions/1").content["schemaType"] == "JSON"


@pytest.mark.parametrize("wrong", [{}, {"name": 7}, "Ada", None, [1]])
def test_json_that_does_not_fit_its_schema_is_neither_written_nor_read(url: str, wrong: object) -> None:
    subject = f"s-{uuid.uuid4().hex}"
    serializer = Json(url).serializer(subject, json.dumps(PERSON))
    with pytest.raises(ValueError, match="does not fit schema"):
        serializer(wrong)
    data = Json(url, validate=False).serializer(subject, PERSON)(wrong)
    assert Json(url, validate=False)(data) == wrong
    with pytest.raises(ValueError, match="does not fit schema"):
        Json(url)(data)
    with pytest.raises(ValueError, match="no JSON"):
        Json(url)(b"{}")


def test_json_of_a_schema_with_references_asks_nobody_else(url: str) -> None:
    person, order = f"p-{uuid.uuid4().hex}", f"o-{uuid.uuid4().hex}"
    register(url, person, PERSON, schemaType="JSON")
    schema = {"$id": "http://example.com/order.json", "properties": {"by": {"$ref": "person.json"}}}
    references = [{"name": "person.json", "subject": person, "version": 1}]
    schema_id = register(url, order, schema, schemaType="JSON", references=references)
    values = Json(url)
    header = b"\0" + schema_id.to_bytes(4, "big")
    assert values(header + b'{"by": {"name": "Ada"}}') == {"by": {"name": "Ada"}}
    with pytest.raises(ValueError, match="does not fit"):
        values(header + b'{"by": {}}')


def test_without_registration_json_and_protobuf_need_their_schema(url: str) -> None:
    subject = f"s-{uuid.uuid4().hex}"
    with pytest.raises(SchemaRegistryError, match="40401"):
        Json(url).serializer(subject, PERSON, register=False)({"name": "Ada"})
    user = message_class("User")
    with pytest.raises(SchemaRegistryError, match="40401"):
        Protobuf(url, user).serializer(subject, register=False)(user(name="Ada"))
    Protobuf(url, user).serializer(subject)(user(name="Ada"))
    assert Protobuf(url, user).serializer(subject, register=False)(user(name="Ada"))


def test_confluents_json_serializers_and_ours_read_each_other(url: str, topic: str) -> None:
    pytest.importorskip("confluent_kafka.schema_registry", reason="the group `registry` has what it needs")
    from confluent_kafka.schema_registry import SchemaRegistryClient
    from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
    from confluent_kafka.serialization import MessageField, SerializationContext

    client = SchemaRegistryClient({"url": url})
    context = SerializationContext(topic, MessageField.VALUE)
    ours, value = Json(url), {"name": "Ada"}
    theirs = JSONSerializer(json.dumps(PERSON), client)(value, context)
    assert theirs is not None
    assert ours(theirs) == value
    data = ours.serializer(f"{topic}-value", PERSON)(value)
    assert data == theirs
    assert JSONDeserializer(None, schema_registry_client=client)(data, context) == value


KIND = FileDescriptorProto(name="shop/kind.proto", package="shop", syntax="proto3")
KIND.enum_type.add(name="Kind").value.add(name="NONE", number=0)


def message_class(name: str) -> Any:
    """Return the class of User, or of Outer.Second within another message of the same file."""
    file = FileDescriptorProto(name="shop/people.proto", package="shop", syntax="proto3")
    file.dependency.append(KIND.name)
    user, outer = file.message_type.add(name="User"), file.message_type.add(name="Outer")
    outer.nested_type.add(name="First")
    for each in (user, outer.nested_type.add(name="Second")):
        each.field.add(name="name", number=1, type=9, label=1)
        each.field.add(name="kind", number=2, type_name=".shop.Kind", type=14, label=1)
    pool = DescriptorPool()
    for one in (KIND, file):
        pool.AddSerializedFile(one.SerializeToString())
    return GetMessageClass(pool.FindMessageTypeByName(f"shop.{name}"))


@pytest.mark.parametrize("name", ["User", "Outer.Second"])
def test_protobuf_is_read_as_it_was_written(url: str, broker: Broker, topic: str, name: str) -> None:
    kind = message_class(name)
    messages = Protobuf(url, kind)
    serializer = messages.serializer(f"{topic}-value")
    assert through(broker, topic, serializer, messages, kind(name="Ada")) == kind(name="Ada")
    latest = ask(url, "GET", f"/subjects/{topic}-value/versions/1").content
    assert latest["schemaType"] == "PROTOBUF"
    assert latest["references"] == [{"name": KIND.name, "subject": KIND.name, "version": 1}]


@pytest.mark.parametrize("name", ["User", "Outer.Second"])
def test_confluents_protobuf_serializers_and_ours_read_each_other(url: str, topic: str, name: str) -> None:
    pytest.importorskip("confluent_kafka.schema_registry", reason="the group `registry` has what it needs")
    from confluent_kafka.schema_registry import SchemaRegistryClient
    from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
    from confluent_kafka.serialization import MessageField, SerializationContext

    client, kind, conf = (
        SchemaRegistryClient({"url": url}),
        message_class(name),
        {"use.deprecated.format": False},
    )
    context = SerializationContext(topic, MessageField.VALUE)
    ours, value = Protobuf(url, kind), kind(name="Ada")
    theirs = ProtobufSerializer(kind, client, conf)(value, context)
    assert theirs is not None
    assert ours(theirs) == value
    data = ours.serializer(f"{topic}-value")(value)
    assert data == theirs
    assert ProtobufDeserializer(kind, conf, client)(data, context) == value


def test_what_is_no_message_is_refused(url: str) -> None:
    user, other = message_class("User"), message_class("Outer.Second")
    with pytest.raises(ConfigurationError):
        Protobuf(url, dict)  # type: ignore[type-var]  # The argument is refused.
    with pytest.raises(TypeError):
        Protobuf(url, user).serializer("s")(other())
    for data in (b"", b"\0\0\0\0", b"\1\0\0\0\1\0", b"\0\0\0\0\1", b"\0\0\0\0\1\x80"):
        with pytest.raises(ValueError, match=r"no Protocol Buffers|cut off"):
            Protobuf(url, user)(data)
    with pytest.raises(DecodeError):
        Protobuf(url, user)(b"\0\0\0\0\1\0\xff")


def test_a_wrong_message_in_a_topic_names_its_record(url: str, broker: Broker, topic: str) -> None:
    user = message_class("User")
    with pytest.raises(DeserializationError) as failure:
        through(broker, topic, None, Protobuf(SchemaRegistry(url), user), b"\0\0\0\0\1\0\xff")
    assert failure.value.record.value == b"\0\0\0\0\1\0\xff"


@pytest.mark.parametrize("indexes", [[0], [1], [0, 0], [1, 2], [200, 3, 0]])
def test_indexes_are_read_as_they_are_written(indexes: list[int]) -> None:
    data = write_indexes(indexes)
    assert read_indexes(data + b"rest", 0) == (indexes, len(data))


def test_the_indexes_of_a_message_are_its_place_in_the_file() -> None:
    assert indexes_of(message_class("User").DESCRIPTOR) == [0]
    assert indexes_of(message_class("Outer.Second").DESCRIPTOR) == [1, 1]
