"""Other people's clients that say who they are, unmodified: by each mechanism, rightly and wrongly."""

from __future__ import annotations

import asyncio
import ssl
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import KafkaConnectionError
from aiokafka.errors import KafkaError as AioKafkaError
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka import KafkaError as ConfluentError
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # Their home says otherwise.
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as PythonPartition
from kafka.errors import KafkaError

from tests.interop.conftest import running_tools
from tests.security.guarded import PASSWORD, PLAIN_USERS, PROTOCOLS, USER, Guarded, guarded

COUNT = 20
ITERATIONS = 8_192
AGAIN_MS = 4_000
PATIENCE_S = 20.0
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
SETTINGS = (f"sasl.enabled.mechanisms={','.join(MECHANISMS)}", f"sasl.jaas.config={PLAIN_USERS}")


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """A broker that wants to know who comes."""
    with guarded(tmp_path_factory.mktemp("guarded"), *SETTINGS) as made:
        admin = AdminClient({"bootstrap.servers": made.plain})
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            given = UserScramCredentialUpsertion(
                USER, ScramCredentialInfo(mechanism, ITERATIONS), PASSWORD.encode()
            )
            for done in admin.alter_user_scram_credentials([given]).values():
                done.result(PATIENCE_S)
        yield made


class Proof(NamedTuple):
    """How a client shows who it is, and where."""

    bootstrap: str
    protocol: str
    trusted: Path
    mechanism: str
    user: str = USER
    password: str = PASSWORD


def by_confluent(proof: Proof, topic: str) -> list[bytes]:
    """Return what librdkafka reads of what it has written. Raises: KafkaException."""
    heard: list[str] = []
    options: dict[str, Any] = {
        "bootstrap.servers": proof.bootstrap,
        "security.protocol": proof.protocol,
        "ssl.ca.location": str(proof.trusted),
        "sasl.mechanism": proof.mechanism,
        "sasl.username": proof.user,
        "sasl.password": proof.password,
        "log_level": 0,
    }

    def hear(error: ConfluentError) -> None:
        heard.append(str(error))

    producer = Producer({**options, "error_cb": hear})
    for number in range(COUNT):
        producer.produce(topic, b"%d" % number, partition=0)
    deadline_s = time.monotonic() + PATIENCE_S
    while producer.flush(0.1):
        if any("_AUTHENTICATION" in each for each in heard) or time.monotonic() > deadline_s:
            producer.purge()
            raise KafkaException("; ".join(heard))
    consumer = Consumer({**options, "group.id": "none", "enable.auto.commit": "false"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[bytes] = []
    while len(found) < COUNT and time.monotonic() < deadline_s:
        found += [each.value() or b"" for each in consumer.consume(COUNT, 1.0) if each.error() is None]
    consumer.close()
    return found


def by_kafka_python(proof: Proof, topic: str) -> list[bytes]:
    """Return what kafka-python reads of what it has written. Raises: KafkaError."""
    options = {
        "bootstrap_servers": proof.bootstrap,
        "security_protocol": proof.protocol,
        "bootstrap_timeout_ms": 5_000,
        "ssl_cafile": str(proof.trusted),
        "sasl_mechanism": proof.mechanism,
        "sasl_plain_username": proof.user,
        "sasl_plain_password": proof.password,
    }
    producer = KafkaProducer(**options, max_block_ms=5_000)
    for number in range(COUNT):
        producer.send(topic, b"%d" % number, partition=0)
    producer.flush(PATIENCE_S)
    producer.close()
    consumer = KafkaConsumer(**options, consumer_timeout_ms=5_000)
    consumer.assign([PythonPartition(topic, 0)])
    consumer.seek_to_beginning()
    found = [next(consumer).value for _ in range(COUNT)]
    consumer.close()
    return found


def by_aiokafka(proof: Proof, topic: str) -> list[bytes]:
    """Return what aiokafka reads of what it has written. Raises: KafkaConnectionError."""

    async def run() -> list[bytes]:
        options: dict[str, Any] = {
            "bootstrap_servers": proof.bootstrap,
            "security_protocol": proof.protocol,
            "sasl_mechanism": proof.mechanism,
            "sasl_plain_username": proof.user,
            "sasl_plain_password": proof.password,
        }
        if proof.protocol == "SASL_SSL":
            options["ssl_context"] = ssl.create_default_context(cafile=str(proof.trusted))
        producer = AIOKafkaProducer(**options)
        try:
            await producer.start()
            for number in range(COUNT):
                await producer.send_and_wait(topic, b"%d" % number, partition=0)
        finally:
            await producer.stop()
        consumer = AIOKafkaConsumer(topic, **options, auto_offset_reset="earliest")
        await consumer.start()
        try:
            return [(await consumer.getone()).value for _ in range(COUNT)]
        finally:
            await consumer.stop()

    return asyncio.run(asyncio.wait_for(run(), PATIENCE_S))


Run = Callable[[Proof, str], list[bytes]]
CLIENTS = pytest.mark.parametrize("run", [by_confluent, by_kafka_python, by_aiokafka])
AT = pytest.mark.parametrize("protocol", PROTOCOLS)
BY = pytest.mark.parametrize("mechanism", MECHANISMS)
REFUSED = (KafkaException, KafkaError, KafkaConnectionError, AioKafkaError)


@CLIENTS
@AT
@BY
def test_an_authenticated_client_writes_and_reads(
    here: Guarded, run: Run, protocol: str, mechanism: str
) -> None:
    topic = f"right-{uuid.uuid4().hex[:8]}"
    found = run(Proof(here.at(protocol), protocol, here.trusted, mechanism), topic)
    assert found == [b"%d" % number for number in range(COUNT)]


@CLIENTS
@BY
@pytest.mark.parametrize("user, password", [(USER, "a guess"), ("eve", PASSWORD)])
def test_a_wrong_name_or_password_gets_nothing(
    here: Guarded, run: Run, mechanism: str, user: str, password: str
) -> None:
    topic = f"wrong-{uuid.uuid4().hex[:8]}"
    proof = Proof(here.at("SASL_PLAINTEXT"), "SASL_PLAINTEXT", here.trusted, mechanism, user, password)
    with pytest.raises(REFUSED):
        run(proof, topic)
    plain = AdminClient({"bootstrap.servers": here.plain})
    assert topic not in plain.list_topics(timeout=5).topics
    lines = [line for line in here.broker.log_lines() if "authentication failed" in line]
    assert lines
    assert not any(PASSWORD in line or "a guess" in line for line in here.broker.log_lines())


@BY
def test_kafkas_tools_authenticate(here: Guarded, tmp_path: Path, mechanism: str) -> None:
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    words = (
        "security.protocol=SASL_SSL\nssl.truststore.type=PEM\n"
        f"ssl.truststore.location={here.trusted}\nsasl.mechanism={mechanism}\n"
        f"sasl.jaas.config=org.apache.kafka.common.security.{module} required "
    )
    right, wrong = tmp_path / "right.properties", tmp_path / "wrong.properties"
    right.write_text(f'{words} username="{USER}" password="{PASSWORD}";\n')
    wrong.write_text(f'{words} username="{USER}" password="a guess";\n')
    with running_tools() as tools:
        options = ("--bootstrap-server", here.at("SASL_SSL"), "--command-config")
        topic = f"by-java-{mechanism.lower()}"
        made = tools.run("kafka-topics", *options, str(right), "--create", "--topic", topic)
        assert f"Created topic {topic}." in made.out
        refused = tools.run("kafka-topics", *options, str(wrong), "--list")
        assert "Authentication failed" in refused.out + refused.err


def test_kafkas_tool_sets_and_removes_user_passwords(here: Guarded, tmp_path: Path) -> None:
    users = ("--bootstrap-server", here.plain, "--entity-type", "users")
    carol = (*users, "--entity-name", "carol")
    proof = Proof(
        here.at("SASL_PLAINTEXT"), "SASL_PLAINTEXT", here.trusted, "SCRAM-SHA-512", "carol", "carol's"
    )
    with running_tools() as tools:
        added = tools.run(
            "kafka-configs", *carol, "--alter",
            "--add-config", "SCRAM-SHA-256=[iterations=4096,password=x],SCRAM-SHA-512=[password=carol's]",
        )  # fmt: skip
        assert "Completed updating config for user carol." in added.out
        by_confluent(proof, f"carols-{uuid.uuid4().hex[:8]}")
        shown = tools.run("kafka-configs", *users, "--describe").out
        for name, iterations in (("carol", (4096, 4096)), (USER, (ITERATIONS, ITERATIONS))):
            assert (
                f"SCRAM credential configs for user-principal '{name}' are "
                f"SCRAM-SHA-256=iterations={iterations[0]}, SCRAM-SHA-512=iterations={iterations[1]}"
            ) in shown
        deleted = tools.run("kafka-configs", *carol, "--alter", "--delete-config", "SCRAM-SHA-512")
        assert "Completed updating config for user carol." in deleted.out
        with pytest.raises(REFUSED):
            by_confluent(proof, "carols")
        assert "SCRAM-SHA-512" not in tools.run("kafka-configs", *carol, "--describe").out


def test_users_survive_a_start_and_the_file_has_no_password(tmp_path: Path) -> None:
    with guarded(tmp_path, *SETTINGS) as here:
        admin = AdminClient({"bootstrap.servers": here.plain})
        sha_256 = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, ITERATIONS)
        given = UserScramCredentialUpsertion("dora", sha_256, b"dora's secret")
        for done in admin.alter_user_scram_credentials([given]).values():
            done.result(PATIENCE_S)
        here.broker.kill()
        here.broker.bootstrap = here.plain
        here.broker.start()
        kept = (here.broker.data / "metadata.jsonl").read_text()
        assert "dora" in kept
        assert "secret" not in kept
        place = here.at("SASL_PLAINTEXT")
        by_kafka_python(
            Proof(place, "SASL_PLAINTEXT", here.trusted, "SCRAM-SHA-256", "dora", "dora's secret"), "doras"
        )


def test_a_client_that_reauthenticates_in_time_continues(tmp_path: Path) -> None:
    with guarded(tmp_path, *SETTINGS, f"connections.max.reauth.ms={AGAIN_MS}") as here:
        heard: list[str] = []
        producer = Producer(
            {
                "bootstrap.servers": here.at("SASL_PLAINTEXT"),
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.username": USER,
                "sasl.password": PASSWORD,
                "error_cb": lambda error: heard.append(str(error)),
            }
        )
        until_s = time.monotonic() + 2.5 * AGAIN_MS / 1000
        while time.monotonic() < until_s:
            producer.produce("again", b"x")
            assert producer.flush(PATIENCE_S) == 0
        assert heard == []
        assert here.metric("kohort_sasl_authentications_expired_total") == 0
        accepted = here.metric("kohort_connections_accepted_total")
        assert here.metric("kohort_sasl_authentications_total") >= accepted + 2


def test_no_password_is_shown(here: Guarded) -> None:
    with running_tools() as tools:
        broker = ("--bootstrap-server", here.plain, "--entity-type", "brokers", "--entity-name", "1")
        shown = tools.run("kafka-configs", *broker, "--describe", "--all")
    assert "sasl.jaas.config=null sensitive=true" in shown.out
    assert PASSWORD not in shown.out
