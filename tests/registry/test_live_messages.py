"""Records on the live page, decoded by the schemas of a registry."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kohort.client import Admin, Producer, SchemaRegistry
from kohort.client.schema_header import with_header
from tests.ports import free_port
from tests.registry.asking import ask
from tests.registry.test_beside import served
from tests.registry.test_consume import written_by_confluent

DEPTH = 250_000


class Served(NamedTuple):
    kafka: str
    http: str
    registry: str

    def value(self, topic: str, offset: int = 0) -> dict[str, Any]:
        """Return one value as the page shows it."""
        found: dict[str, Any] = self.records(topic, f"&offset={offset}&count=1")[0]["value"]
        return found

    def records(self, topic: str, more: str = "") -> list[dict[str, Any]]:
        url = f"http://{self.http}/api/v1/live/messages/{topic}?partition=0{more}"
        with urllib.request.urlopen(url, timeout=30) as answer:
            told: dict[str, Any] = json.load(answer)
        records: list[dict[str, Any]] = told["records"]
        return records

    def write(self, topic: str, *values: bytes, key: bytes | None = None) -> None:
        with Producer(bootstrap_servers=self.kafka) as producer:
            for each in values:
                producer.send(topic, each, key=key, partition=0)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("page")
    http = f"127.0.0.1:{free_port()}"
    with served("--data", str(folder), "--schema-registry", "127.0.0.1:0", "--http", http) as (kafka, url):
        yield Served(kafka, http, url)


def test_three_formats_are_decoded_and_their_schemas_told(broker: Served) -> None:
    values = written_by_confluent(broker.registry, "orders")
    broker.write("orders", *values, b"plain", key=values[1])
    records = broker.records("orders")
    decoded = [each["value"].get("decoded", {}) for each in records]
    assert [json.loads(each["text"]) for each in decoded[:4]] == [
        {"name": "Ada", "photo": {"base64": "/wA="}, "born": "1970-01-08"},
        {"id": 3},
        {"name": "ON", "number": 4},
        ["a", 2.5],
    ]
    assert decoded[4] == {}, "it has no id of a schema"
    assert [(each["type"], each["subject"], each["version"]) for each in decoded[:3]] == [
        ("AVRO", "orders-value", 1),
        ("JSON", "orders-json-value", 1),
        ("PROTOBUF", "orders-p-value", 1),
    ]
    assert json.loads(records[0]["key"]["decoded"]["text"]) == {"id": 3}
    assert records[0]["value"]["hex"] == values[0].hex(), "the bytes are there as well"


def test_the_subject_is_that_of_the_topic_where_several_have_the_schema(broker: Served) -> None:
    registry = SchemaRegistry(broker.registry)
    ids = {registry.register(f"{each}-value", '"long"') for each in ("aa", "longs", "zz")}
    broker.write("longs", with_header(ids.pop(), b"\x0e"))
    value = broker.value("longs")
    assert (value["decoded"]["subject"], value["decoded"]["text"]) == ("longs-value", "7")


def test_what_cannot_be_decoded_is_raw_with_the_reason_and_harms_nobody(broker: Served) -> None:
    registry = SchemaRegistry(broker.registry)
    node = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}
    nodes = registry.register("nodes-value", json.dumps(node))
    nulls = registry.register("nulls-value", '{"type": "array", "items": "null"}')
    texts = registry.register("texts-value", '"string"')
    broker.write(
        "hostile",
        with_header(99, b"unknown"),
        with_header(texts, b"\x62"),
        with_header(nodes, b"\2" * DEPTH + b"\0"),
        with_header(nulls, b"\x80\x80\x80\x80\x80\x80\x01\0"),  # 2 ** 41 of them.
        with_header(texts, b"\x06Ada"),
    )
    began = time.monotonic()
    values = [broker.value("hostile", offset) for offset in range(5)]
    assert time.monotonic() - began < 20
    assert len(broker.records("hostile")) == 5, "they are shown together as well"
    problems = [each["decoded"]["problem"] for each in values]
    assert problems[0] == "the schema registry has no schema 99"
    assert problems[1] == f"it does not fit schema {texts}: it ends too early"
    assert "has ended" in problems[2] or "too deeply" in problems[2], "the C stack is too small for it"
    assert problems[3], "there is no memory for so many"
    assert [each["decoded"]["text"] for each in values[:4]] == [None] * 4
    assert values[0]["hex"].startswith("0000000063")
    assert (values[4]["decoded"]["text"], problems[4]) == ('"Ada"', "")
    with Admin(bootstrap_servers=broker.kafka) as admin:
        assert "hostile" in admin.list_topics(), "the broker lives"


def test_a_registry_elsewhere_decodes_and_one_that_is_silent_is_told_of(
    broker: Served, tmp_path: Path
) -> None:
    schema_id = SchemaRegistry(broker.registry).register("names-value", '"string"')
    http, nobody = f"127.0.0.1:{free_port()}", f"http://127.0.0.1:{free_port()}"
    own = ("--schema-registry", "127.0.0.1:0", "--http", http)
    for url, text in ((broker.registry, '"Ada"'), (nobody, None)):
        setting = ("--set", f"kohort.schema.registry.url={url}")
        with served("--data", str(tmp_path / str(text)), *own, *setting) as (kafka, _):
            other = Served(kafka, http, url)
            other.write("names", with_header(schema_id, b"\x06Ada"))
            value = other.value("names")
        assert value["decoded"]["text"] == text
        assert (text is None) == ("does not answer" in value["decoded"]["problem"])


def test_a_page_without_a_secret_for_the_closed_registry_shows_records_as_they_are(tmp_path: Path) -> None:
    credentials = tmp_path / "credentials"
    credentials.write_text("ada:a-long-secret\n")
    credentials.chmod(0o600)
    http = f"127.0.0.1:{free_port()}"
    arguments = ("--data", str(tmp_path / "data"), "--schema-registry", "127.0.0.1:0", "--http", http)
    secret = {"authorization": "Bearer a-long-secret"}
    with served(*arguments, "--set", f"kohort.http.credentials.file={credentials}") as (kafka, url):
        assert ask(url, "GET", "/subjects").status == 401
        Served(kafka, http, url).write("names", with_header(1, b"\x06Ada"))
        request = urllib.request.Request(f"http://{http}/api/v1/live/messages/names", headers=secret)
        with urllib.request.urlopen(request, timeout=30) as answer:
            [record] = json.load(answer)["records"]
    assert "decoded" not in record["value"]
