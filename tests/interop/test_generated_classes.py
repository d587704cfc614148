"""Every codec against the classes that Kafka generates from its schemas.

One JVM reads each body that kohort wrote and writes it again: the bytes must be the same. SEED=7
repeats a run.
"""

import os
import random
import re
import shutil
import struct
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from kohort.protocol.consumer import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from kohort.protocol.errors import ErrorCode, WireError
from kohort.protocol.messages.fetch import FetchRequest
from kohort.protocol.messages.heartbeat import HeartbeatRequest
from kohort.protocol.messages.list_groups import ListGroupsRequest
from kohort.protocol.messages.metadata import MetadataRequest
from kohort.protocol.messages.offset_commit import OffsetCommitRequest
from kohort.protocol.schema import Message
from tests.fuzz.wire import mutated
from tests.interop import schema_jars
from tests.messages import EVERY_MESSAGE, random_message, versions_of

JAVA_SOURCE = Path(__file__).parent / "java" / "RoundTrip.java"
JVM_TIMEOUT_S = 120
MESSAGES_PER_VERSION = 12
RUINS_PER_VERSION = 15
SEED = int(os.environ.get("SEED") or random.SystemRandom().randrange(1 << 32))

every_message = pytest.mark.parametrize("cls", EVERY_MESSAGE, ids=lambda cls: cls.__name__)


class Question(NamedTuple):
    """A body for Kafka's class to read and to write again."""

    class_name: str
    version: int
    body: bytes


class Answer(NamedTuple):
    """What Kafka wrote, or why it refused to read or to write."""

    status: int
    data: bytes


WRITTEN, NOT_READ, NOT_WRITTEN = range(3)


class Jvm:
    """Asks Kafka's generated classes: one process for all the questions of one call."""

    def __init__(self, java: str, jars: Sequence[Path]) -> None:
        self._command = [java, "-cp", os.pathsep.join(map(str, jars)), "-Xshare:auto", str(JAVA_SOURCE)]

    def ask(self, questions: Sequence[Question]) -> list[Answer]:
        asked = b"".join(_packed(each) for each in questions)
        done = subprocess.run(
            self._command, input=asked, capture_output=True, timeout=JVM_TIMEOUT_S, check=False
        )
        assert done.returncode == 0, done.stderr.decode()
        answers = list(_answers(done.stdout))
        assert len(answers) == len(questions)
        return answers


def _packed(question: Question) -> bytes:
    name = question.class_name.encode()
    size = len(question.body)
    return struct.pack(f">H{len(name)}shi", len(name), name, question.version, size) + question.body


def _answers(data: bytes) -> Iterator[Answer]:
    position = 0
    while position < len(data):
        status, size = struct.unpack_from(">bi", data, position)
        yield Answer(status, data[position + 5 : position + 5 + size])
        position += 5 + size


def _java_class(cls: type[Message]) -> str:
    name = cls.__name__
    if cls.__module__.endswith((".offsets_topic", "_group_records")):
        return f"org.apache.kafka.coordinator.group.generated.{name}"
    if cls.__module__.endswith(".transaction_log"):
        return f"org.apache.kafka.coordinator.transaction.generated.{name}"
    if cls.__module__.endswith(".share_state_log"):
        return f"org.apache.kafka.coordinator.share.generated.{name}"
    if cls in (ConsumerProtocolSubscription, ConsumerProtocolAssignment):
        return f"org.apache.kafka.common.message.{name}"
    return f"org.apache.kafka.common.message.{name}Data"


@pytest.fixture(scope="module")
def jvm() -> Jvm:
    java = shutil.which("java")
    if java is None or shutil.which("javac") is None:
        pytest.skip("a Java development kit is not installed")
    try:
        return Jvm(java, schema_jars.jars())
    except schema_jars.MissingTool as missing:
        pytest.skip(str(missing))


Exchange = tuple[Question, Answer]


@pytest.fixture(scope="module")
def exchanges(jvm: Jvm) -> Mapping[str, list[Exchange]]:
    """Return what was asked of each class of Kafka's, and its answers."""
    rng = random.Random(SEED)
    questions = [
        Question(_java_class(cls), version, random_message(cls, version, rng).encode(version))
        for cls in EVERY_MESSAGE
        for version in versions_of(cls)
        for _ in range(MESSAGES_PER_VERSION)
    ]
    grouped: dict[str, list[Exchange]] = {}
    for question, answer in zip(questions, jvm.ask(questions), strict=True):
        grouped.setdefault(question.class_name, []).append((question, answer))
    return grouped


@every_message
def test_kafka_reads_messages_of_kohort_and_writes_the_same_bytes(
    cls: type[Message], exchanges: Mapping[str, list[Exchange]]
) -> None:
    asked = exchanges[_java_class(cls)]
    assert len(asked) == MESSAGES_PER_VERSION * len(versions_of(cls))
    for question, answer in asked:
        shown = f"SEED={SEED} {question.class_name} v{question.version}"
        assert answer.status == WRITTEN, f"{shown}: {answer.data.decode()}"
        assert answer.data == question.body, shown


def _ruined_but_accepted(rng: random.Random) -> Iterator[tuple[Question, Message]]:
    """Yield ruined bodies that kohort reads all the same, with what it reads in them."""
    for cls in EVERY_MESSAGE:
        for version in versions_of(cls):
            for _ in range(RUINS_PER_VERSION):
                body = mutated(random_message(cls, version, rng).encode(version), rng)
                try:
                    message = cls.decode(body, version)
                except WireError:
                    continue
                yield Question(_java_class(cls), version, body), message


def test_messages_accepted_by_kohort_are_accepted_by_kafka(jvm: Jvm) -> None:
    ruined = list(_ruined_but_accepted(random.Random(SEED)))
    assert len(ruined) > len(EVERY_MESSAGE)
    answers = jvm.ask([question for question, _ in ruined])
    for (question, message), answer in zip(ruined, answers, strict=True):
        shown = f"SEED={SEED} {question}: {answer}"
        assert answer.status != NOT_READ, shown
        if answer.status == WRITTEN:
            again = type(message).decode(answer.data, question.version)
            assert again == message or repr(again) == repr(message), shown  # No NaN equals itself.
        else:  # It reads unknown tags in any order, and writes them in ascending order alone.
            assert b"raw tag field" in answer.data, shown


LONG_STRING = b"\x81\x80\x02" + b"x" * 0x8000
REFUSED: list[tuple[type[Message], int, bytes, str]] = [
    (HeartbeatRequest, 4, LONG_STRING + b"\0\0\0\x07\x01\0\0", "invalid length"),
    (HeartbeatRequest, 4, b"\0" + b"\0\0\0\x07\x01\0\0", "null"),
    (HeartbeatRequest, 0, b"\xff\xff" + b"\0\0\0\x07\0\0", "null"),
    (HeartbeatRequest, 0, b"\0\x09g1", "only 2 byte"),
    (MetadataRequest, 0, b"\x7f\xff\xff\xff", "Tried to allocate"),
    (MetadataRequest, 0, b"\xff\xff\xff\xff", "null"),
    (ListGroupsRequest, 4, b"\x80\x80\x80\x80\x07", "Tried to allocate"),
    (
        FetchRequest,
        14,
        b"\xff" * 4 + bytes(21) + b"\x01\x01\x01" + b"\x01\x01\x0d" + bytes(13),
        "Tag 1 is not valid",
    ),
    (OffsetCommitRequest, 8, b"\x80\x80\x80\x80\x80\x01" + bytes(20), "(?i)varint"),
]


def test_messages_refused_by_kohort_are_refused_by_kafka(jvm: Jvm) -> None:
    answers = jvm.ask([Question(_java_class(cls), version, body) for cls, version, body, _ in REFUSED])
    for (cls, version, body, reason), answer in zip(REFUSED, answers, strict=True):
        with pytest.raises(WireError):
            cls.decode(body, version)
        assert answer.status == NOT_READ
        assert re.search(reason, answer.data.decode()), answer.data.decode()


def test_kohort_skips_unknown_tagged_fields_that_kafka_keeps(jvm: Jvm) -> None:
    message = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    body = message.encode(4)[:-1] + b"\x01\x63\x03abc"
    (answer,) = jvm.ask([Question(_java_class(HeartbeatRequest), 4, body)])
    assert answer == Answer(WRITTEN, body)
    assert HeartbeatRequest.decode(body, 4) == message


def test_error_codes_equal_those_of_kafka(jvm: Jvm) -> None:
    (answer,) = jvm.ask([Question("errors", 0, b"")])
    kafkas = [line.split() for line in answer.data.decode().splitlines()]
    ours = [[str(each.value), each.name, str(each.retriable).lower()] for each in ErrorCode]
    assert ours == kafkas
