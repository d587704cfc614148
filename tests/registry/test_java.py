"""A Java client of Confluent's Schema Registry on this registry: Spring's, with Apache Avro."""

from __future__ import annotations

import json
import subprocess
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kohort.client import Avro
from tests.interop.kafka_tools import MissingTool, java_command
from tests.registry.asking import ask

pytest.importorskip("fastavro", reason="the extra `registry` has fastavro")

_NAMED = {"type": "record", "name": "User", "namespace": "shop"}
USER: dict[str, Any] = {**_NAMED, "fields": [{"name": "name", "type": "string"}]}
OLDER: dict[str, Any] = {**USER, "fields": [*USER["fields"], {"name": "age", "type": "int", "default": -1}]}
BROKEN: dict[str, Any] = {**USER, "fields": [*USER["fields"], {"name": "age", "type": "int"}]}

Java = Callable[..., str]


@pytest.fixture(scope="module")
def java(url: str) -> Iterator[Java]:
    """Ask the Java program: the words of a command make its answer."""
    try:
        command = java_command("registry", "Registry", url)
    except MissingTool as missing:
        pytest.skip(str(missing))
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        asked, answers = process.stdin, process.stdout

        def answer(*words: str) -> str:
            asked.write("\t".join(words) + "\n")
            asked.flush()
            return answers.readline().rstrip("\n")

        yield answer
        asked.close()


@pytest.fixture
def subject() -> str:
    return f"users-{uuid.uuid4().hex}-value"


def test_a_java_client_registers_versions_and_reads_them(java: Java, url: str, subject: str) -> None:
    first_id, version = java("register", subject, json.dumps(USER)).split()
    assert version == "1"
    assert java("register", subject, json.dumps(USER)).split() == [first_id, "1"]
    later_id, version = java("register", subject, json.dumps(OLDER)).split()
    assert (later_id != first_id, version) == (True, "2")
    assert json.loads(java("id", first_id)) == USER
    assert json.loads(java("version", subject, "2")) == OLDER
    assert ask(url, "GET", f"/subjects/{subject}/versions").content == [1, 2]


def test_a_java_client_is_refused_what_readers_could_not_read(java: Java, url: str, subject: str) -> None:
    java("register", subject, json.dumps(USER))
    assert java("register", subject, json.dumps(BROKEN)).startswith("error")
    assert ask(url, "GET", f"/subjects/{subject}/versions").content == [1]


def test_a_java_client_is_told_that_there_is_no_schema(java: Java, subject: str) -> None:
    assert java("id", "1000000") == "error SchemaNotFoundException"
    assert java("version", subject, "1") == "error SchemaNotFoundException"


def test_records_are_read_that_java_has_written_and_by_java(java: Java, url: str, subject: str) -> None:
    schema_id, _ = java("register", subject, json.dumps(USER)).split()
    avro = Avro(url)
    assert avro(bytes.fromhex(java("encode", schema_id, "Ada"))) == {"name": "Ada"}
    assert java("decode", avro.serializer(subject, USER)({"name": "Bob"}).hex()) == "Bob"
