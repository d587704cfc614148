"""`kohort consume --schema-registry`: what Confluent's serializers wrote, as JSON."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from typing import Any

import pytest

from kohort.client import Producer, SchemaRegistry, SchemaRegistryError
from kohort.client.protobuf import read_indexes
from kohort.registry.decoding import SchemaDecoder, UndecodableError
from kohort.testing import Broker
from tests.registry.asking import register

pytest.importorskip("confluent_kafka.schema_registry", reason="it writes the records")

from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import struct_pb2, type_pb2

USER = {
    "type": "record",
    "name": "User",
    "fields": [
        {"name": "name", "type": "string"},
        {"name": "photo", "type": "bytes"},
        {"name": "born", "type": {"type": "int", "logicalType": "date"}},
    ],
}
DOCUMENT = {"title": "order", "type": "object", "properties": {"id": {"type": "integer"}}}


def consume(broker: Broker, topic: str, url: str, *more: str) -> tuple[list[str], str]:
    """Return the lines that the command prints, and its standard error."""
    command = [sys.executable, "-m", "kohort.cli", "consume", topic, "--from-beginning", "--exit-at-end"]
    command += ["--bootstrap-server", broker.bootstrap, "--schema-registry", url, *more]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines(), done.stderr


def written_by_confluent(url: str, topic: str) -> list[bytes]:
    """Return a value in each of the three formats, and one of a nested message."""
    client = SchemaRegistryClient({"url": url})
    value = SerializationContext(topic, MessageField.VALUE)
    avro: Any = AvroSerializer(client, json.dumps(USER))
    others = [SerializationContext(f"{topic}-{each}", MessageField.VALUE) for each in ("json", "p", "n")]
    document: Any = JSONSerializer(json.dumps(DOCUMENT), client)
    plain = {"use.deprecated.format": False}
    enum: Any = ProtobufSerializer(type_pb2.EnumValue, client, plain)
    nested: Any = ProtobufSerializer(struct_pb2.ListValue, client, plain)
    items = struct_pb2.ListValue()
    items.extend(["a", 2.5])
    return [
        avro({"name": "Ada", "photo": b"\xff\x00", "born": 7}, value),
        document({"id": 3}, others[0]),
        enum(type_pb2.EnumValue(name="ON", number=4), others[1]),
        nested(items, others[2]),
    ]


def test_three_formats_are_shown_as_json(broker: Broker, url: str) -> None:
    topic = broker.create_topic(f"shown-{uuid.uuid4().hex}", 1)
    values = written_by_confluent(url, topic)
    with Producer(bootstrap_servers=broker.bootstrap) as producer:
        for each in values:
            producer.send(topic, each, key=values[1])
        producer.send(topic, b"plain", key=None)
        producer.send(topic, None, key=b"\0\0\0\xff\xffunknown id")
    shown, _ = consume(broker, topic, url)
    expected = [
        {"name": "Ada", "photo": {"base64": "/wA="}, "born": "1970-01-08"},
        {"id": 3},
        {"name": "ON", "number": 4},
        ["a", 2.5],
    ]
    assert [json.loads(each) for each in shown[:4]] == expected
    assert shown[4:] == ["plain", ""]
    whole = [json.loads(each) for each in consume(broker, topic, url, "--json")[0]]
    assert [each["value"] for each in whole] == [*expected, "plain", None]
    assert [each["key"] for each in whole[:5]] == [{"id": 3}] * 4 + [None]


def test_a_value_that_does_not_fit_its_schema_is_named_and_shown_as_it_is(broker: Broker, url: str) -> None:
    topic = broker.create_topic(f"unfit-{uuid.uuid4().hex}", 1)
    schema_id = register(url, f"{topic}-value", USER)
    with Producer(bootstrap_servers=broker.bootstrap) as producer:
        producer.send(topic, b"\0" + schema_id.to_bytes(4, "big") + b"\x06ab")
        producer.send(topic, b"behind")
    shown, errors = consume(broker, topic, url)
    assert shown[-1] == "behind"
    assert f"the value of {topic}-0 at offset 0: it does not fit schema {schema_id}" in errors


def test_a_value_that_is_nested_too_deeply_is_refused(url: str) -> None:
    schema_id = register(url, f"deep-{uuid.uuid4().hex}", {}, schemaType="JSON")
    decoder = SchemaDecoder(SchemaRegistry(url))
    with pytest.raises(UndecodableError, match="nested too deeply"):
        decoder.json_of(b"\0" + schema_id.to_bytes(4) + b"[" * 100_000)


@pytest.mark.parametrize("place", range(4))
def test_a_value_cut_anywhere_is_decoded_or_refused(url: str, place: int) -> None:
    decoder = SchemaDecoder(SchemaRegistry(url))
    value = written_by_confluent(url, f"cut-{uuid.uuid4().hex}")[place]
    refused = 0
    for size in range(len(value)):
        try:
            text = decoder.json_of(value[:size])
        except UndecodableError:
            refused += 1
        else:
            assert text is None or json.loads(text) is not None
    assert refused, "no cut is noticed"


def test_a_registry_that_does_not_answer_is_an_error(url: str) -> None:
    with pytest.raises(Exception, match="does not answer"):
        SchemaDecoder(SchemaRegistry("http://127.0.0.1:1")).json_of(b"\0\0\0\0\1x")
    with pytest.raises(SchemaRegistryError, match="404"):
        SchemaRegistry(f"{url}/nowhere").schema(1)


def test_indexes_of_messages_are_numbers_in_zigzag_encoding() -> None:
    assert read_indexes(b"\0rest", 0) == ([0], 1)
    assert read_indexes(b"\x04\x02\x04rest", 0) == ([1, 2], 3)
    for data in (b"", b"\x04\x02", b"\x80" * 20, b"\x01", b"\xfe\x01"):
        with pytest.raises(ValueError, match="indexes"):
            read_indexes(data, 0)
