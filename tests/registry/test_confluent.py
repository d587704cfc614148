"""Confluent's own client and serializers (confluent-kafka) on this registry."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest

from kohort.testing import Broker
from tests.registry.asking import ask

pytest.importorskip(
    "confluent_kafka.schema_registry", reason="the group `registry` has what Confluent's client needs"
)

from confluent_kafka import Consumer, Producer
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

USER = {"type": "record", "name": "User", "namespace": "shop", "fields": [{"name": "name", "type": "string"}]}
OLDER = {**USER, "fields": [*USER["fields"], {"name": "age", "type": "int", "default": -1}]}
BROKEN = {**USER, "fields": [*USER["fields"], {"name": "age", "type": "int"}]}


def avro(schema: Any, references: list[SchemaReference] | None = None) -> Schema:
    return Schema(json.dumps(schema), "AVRO", references or [])


@pytest.fixture
def client(url: str) -> SchemaRegistryClient:
    return SchemaRegistryClient({"url": url})


@pytest.fixture
def subject() -> str:
    return f"{uuid.uuid4().hex}-value"


def code_of(error: pytest.ExceptionInfo[SchemaRegistryError]) -> tuple[int, int]:
    return error.value.http_status_code, error.value.error_code


def test_subjects_and_versions(client: SchemaRegistryClient, subject: str, url: str) -> None:
    first = client.register_schema(subject, avro(USER))
    second = client.register_schema(subject, avro(OLDER))
    assert client.get_versions(subject) == [1, 2]
    assert subject in client.get_subjects()
    assert client.get_subjects(subject_prefix=subject) == [subject]
    latest = client.get_latest_version(subject)
    assert (latest.schema_id, latest.version, latest.subject) == (second, 2, subject)
    assert json.loads(str(latest.schema.schema_str)) == {
        key: OLDER[key] for key in ("type", "name", "namespace", "fields")
    }
    assert client.get_version(subject, 1).schema_id == first
    assert client.lookup_schema(subject, avro(USER)).version == 1
    assert client.get_schema_versions(first)[0].subject == subject
    assert client.get_subjects_by_schema_id(first) == [subject]
    assert "AVRO" in client.get_schema_types()
    full = SchemaRegistryClient({"url": url}).register_schema_full_response(subject, avro(OLDER))
    assert (full.schema_id, full.version) == (second, 2)


def test_compatibility(client: SchemaRegistryClient, subject: str) -> None:
    client.register_schema(subject, avro(USER))
    assert client.test_compatibility(subject, avro(OLDER))
    assert not client.test_compatibility(subject, avro(BROKEN))
    assert not client.test_compatibility_all_versions(subject, avro(BROKEN))
    with pytest.raises(SchemaRegistryError) as refused:
        client.register_schema(subject, avro(BROKEN))
    assert code_of(refused) == (409, 409)
    client.set_compatibility(subject, "NONE")
    assert client.get_compatibility(subject) == "NONE"
    assert client.register_schema(subject, avro(BROKEN))


def test_deleting(client: SchemaRegistryClient, subject: str) -> None:
    schema_id = client.register_schema(subject, avro(USER))
    assert client.delete_subject(subject) == [1]
    assert client.get_schema(schema_id)
    with pytest.raises(SchemaRegistryError) as refused:
        client.get_latest_version(subject)
    assert code_of(refused) == (404, 40401)
    assert client.get_version(subject, 1, deleted=True).version == 1
    assert client.delete_subject(subject, permanent=True) == [1]
    with pytest.raises(SchemaRegistryError) as refused:
        client.delete_version(subject, 1)
    assert code_of(refused) == (404, 40401)


def test_references(client: SchemaRegistryClient, subject: str) -> None:
    client.register_schema(subject, avro(USER))
    order = {"type": "record", "name": "Order", "fields": [{"name": "user", "type": "shop.User"}]}
    references = [SchemaReference("shop.User", subject, 1)]
    schema_id = client.register_schema(f"order-{subject}", avro(order, references))
    assert client.get_schema(schema_id).references == references
    assert client.get_referenced_by(subject, 1) == [schema_id]
    with pytest.raises(SchemaRegistryError) as refused:
        client.delete_version(subject, 1)
    assert code_of(refused) == (422, 42206)
    writer = AvroSerializer(client, avro(order, references), conf={"auto.register.schemas": False})
    reader = AvroDeserializer(client)
    context = SerializationContext(f"order-{subject}".removesuffix("-value"), MessageField.VALUE)
    assert reader(writer({"user": {"name": "Ada"}}, context), context) == {"user": {"name": "Ada"}}


def test_serializers_through_a_topic(client: SchemaRegistryClient, broker: Broker) -> None:
    topic = broker.create_topic(f"users-{uuid.uuid4().hex}", 1)
    context = SerializationContext(topic, MessageField.VALUE)
    old, new = AvroSerializer(client, json.dumps(USER)), AvroSerializer(client, json.dumps(OLDER))
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce(topic, old({"name": "Ada"}, context))
    producer.produce(topic, new({"name": "Bob", "age": 7}, context))
    assert producer.flush(10) == 0
    reader = AvroDeserializer(client, json.dumps(OLDER))
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": topic, "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    found = [reader(each.value(), context) for each in consumer.consume(2, 20)]
    consumer.close()
    assert found == [{"name": "Ada", "age": -1}, {"name": "Bob", "age": 7}]
    assert client.get_versions(f"{topic}-value") == [1, 2]


def test_latest_version_and_normalization(client: SchemaRegistryClient, subject: str) -> None:
    client.register_schema(subject, avro(USER), normalize_schemas=True)
    context = SerializationContext(subject.removesuffix("-value"), MessageField.VALUE)
    conf = {"auto.register.schemas": False, "use.latest.version": True}
    data = AvroSerializer(client, json.dumps(USER), conf=conf)({"name": "Ada"}, context)
    assert data is not None
    assert data[:5] == b"\0" + (client.get_latest_version(subject).schema_id or 0).to_bytes(4, "big")
    assert AvroDeserializer(client)(data, context) == {"name": "Ada"}


PERSON: dict[str, Any] = {
    "title": "Person",
    "type": "object",
    "properties": {"name": {"type": "string"}},
    "required": ["name"],
}


def test_json_schema_through_its_serializers(client: SchemaRegistryClient, subject: str, url: str) -> None:
    closed = json.dumps({**PERSON, "additionalProperties": False})
    more = {**PERSON["properties"], "age": {"type": "integer"}}
    newer = json.dumps({**PERSON, "additionalProperties": False, "properties": more})
    context = SerializationContext(subject.removesuffix("-value"), MessageField.VALUE)
    old_data = JSONSerializer(closed, client)({"name": "Ada"}, context)
    new_data = JSONSerializer(newer, client)({"name": "Bob", "age": 7}, context)
    reader = JSONDeserializer(None, schema_registry_client=client)
    assert [reader(each, context) for each in (old_data, new_data)] == [
        {"name": "Ada"},
        {"name": "Bob", "age": 7},
    ]
    assert client.get_versions(subject) == [1, 2]
    latest = client.get_latest_version(subject)
    assert (latest.schema.schema_type, latest.schema.schema_str) == (
        "JSON",
        newer.replace(", ", ",").replace(": ", ":"),
    )
    with pytest.raises(SchemaRegistryError) as refused:
        SchemaRegistryClient({"url": url}).register_schema(
            subject, Schema(closed, "JSON"), normalize_schemas=True
        )
    assert code_of(refused) == (409, 409), "a property may not be taken out of a closed schema"
    with pytest.raises(SchemaRegistryError) as refused:
        client.register_schema(subject, avro(USER))
    assert code_of(refused) == (409, 409), "the type may not change"


def test_json_schema_with_a_reference(client: SchemaRegistryClient, subject: str) -> None:
    person = f"person-{subject}"
    client.register_schema(person, Schema(json.dumps(PERSON), "JSON"))
    order = json.dumps({"title": "Order", "type": "object", "properties": {"by": {"$ref": "person.json"}}})
    references = [SchemaReference("person.json", person, 1)]
    with pytest.raises(SchemaRegistryError) as refused:
        client.register_schema(subject, Schema(order, "JSON"))
    assert code_of(refused) == (422, 42201)
    schema_id = client.register_schema(subject, Schema(order, "JSON", references))
    assert client.get_referenced_by(person, 1) == [schema_id]
    context = SerializationContext(subject.removesuffix("-value"), MessageField.VALUE)
    serializer = JSONSerializer(
        Schema(order, "JSON", references), client, conf={"auto.register.schemas": False}
    )
    assert serializer({"by": {"name": "Ada"}}, context)


KIND = FileDescriptorProto(name="shop/kind.proto", package="shop", syntax="proto3")
KIND.enum_type.add(name="Kind").value.add(name="NONE", number=0)


def message_class(*fields: tuple[str, int]) -> Any:
    """Return the class of a message within another one, which uses an enum of another file."""
    file = FileDescriptorProto(name="shop/user.proto", package="shop", syntax="proto3")
    file.dependency.append(KIND.name)
    outer = file.message_type.add(name="Outer")
    outer.nested_type.add(name="Other")
    user = outer.nested_type.add(name="User")
    user.field.add(name="kind", number=1, type_name=".shop.Kind", type=14, label=1)
    for name, number in fields:
        user.field.add(name=name, number=number, type=9, label=1)
    pool = DescriptorPool()
    for each in (KIND, file):
        pool.AddSerializedFile(each.SerializeToString())
    return GetMessageClass(pool.FindMessageTypeByName("shop.Outer.User"))


def test_protobuf_through_its_serializers(client: SchemaRegistryClient, subject: str) -> None:
    old, new = message_class(("name", 2)), message_class(("name", 2), ("mail", 3))
    context = SerializationContext(subject.removesuffix("-value"), MessageField.VALUE)
    conf = {"use.deprecated.format": False}
    data = [
        ProtobufSerializer(old, client, conf)(old(name="Ada"), context),
        ProtobufSerializer(new, client, conf)(new(name="Bob", mail="b@x"), context),
    ]
    reader = ProtobufDeserializer(new, conf, client)
    found = [reader(each, context) for each in data]
    assert [(each.name, each.mail) for each in found] == [("Ada", ""), ("Bob", "b@x")]
    assert client.get_versions(subject) == [1, 2]
    assert client.get_versions(KIND.name) == [1]
    latest = client.get_latest_version(subject)
    assert latest.schema.schema_type == "PROTOBUF"
    assert "message Outer {" in str(latest.schema.schema_str)
    assert latest.schema.references == [SchemaReference(KIND.name, KIND.name, 1)]


def test_a_proto_text_and_its_descriptor_are_one_version(
    client: SchemaRegistryClient, subject: str, url: str
) -> None:
    text = 'syntax = "proto3"; // Words.\npackage shop; message One { string name = 1; }'
    schema_id = client.register_schema(subject, Schema(text, "PROTOBUF"))
    assert SchemaRegistryClient({"url": url}).get_schema(schema_id).schema_str == text
    descriptor = SchemaRegistryClient({"url": url}).get_schema(schema_id, fmt="serialized").schema_str
    assert descriptor is not None
    assert descriptor != text
    assert client.lookup_schema(subject, Schema(descriptor, "PROTOBUF")).version == 1
    for method, path, body in (
        ("GET", "versions/1", None),
        ("GET", "metadata", None),
        ("POST", "", {"schema": text, "schemaType": "PROTOBUF"}),
    ):
        for query, wanted in (("", text), ("?format=serialized", descriptor)):
            told = ask(url, method, f"/subjects/{subject}/{path}".rstrip("/") + query, body)
            assert told.content["schema"] == wanted
    assert client.register_schema(subject, Schema(descriptor, "PROTOBUF")) == schema_id
    wrong = Schema(text.replace("string", "int32"), "PROTOBUF")
    assert not client.test_compatibility(subject, wrong)
    with pytest.raises(SchemaRegistryError) as refused:
        client.register_schema(subject, wrong)
    assert code_of(refused) == (409, 409)
    with pytest.raises(SchemaRegistryError) as refused:
        client.register_schema(subject, Schema('syntax = "proto3"; import "none.proto";', "PROTOBUF"))
    assert code_of(refused) == (422, 42201)
