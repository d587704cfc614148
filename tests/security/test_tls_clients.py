"""Other people's clients over TLS, unmodified: right and wrong certificates, expired and changed ones."""

from __future__ import annotations

import asyncio
import ssl
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import trustme
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import KafkaConnectionError
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as PythonPartition
from kafka.errors import KafkaError

from tests.interop.conftest import running_tools
from tests.security.secured import Secured, secured

COUNT = 20
PATIENCE_S = 20.0
RELOADED_WITHIN_S = 10.0
LARGE = b"\0\1\2\3" * 50_000


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """A broker that takes nobody without a certificate."""
    with secured(tmp_path_factory.mktemp("secured"), "ssl.client.auth=required") as made:
        yield made


def by_confluent(bootstrap: str, trusted: Path, client: Path | None, topic: str) -> list[bytes]:
    """Return what librdkafka reads of what it has written. Raises: KafkaException."""
    options: dict[str, str | int] = {
        "bootstrap.servers": bootstrap,
        "security.protocol": "SSL",
        "ssl.ca.location": str(trusted),
        "log_level": 0,
    }
    if client is not None:
        options |= {"ssl.certificate.location": str(client), "ssl.key.location": str(client)}
    producer = Producer(options)
    for number in range(COUNT):
        producer.produce(topic, LARGE + b"%d" % number, partition=0)
    if producer.flush(3 if client is None or "right" not in client.name else PATIENCE_S):
        producer.purge()
        raise KafkaException("nothing was taken")
    consumer = Consumer({**options, "group.id": "none", "enable.auto.commit": "false"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[bytes] = []
    deadline_s = time.monotonic() + PATIENCE_S
    while len(found) < COUNT and time.monotonic() < deadline_s:
        found += [each.value() or b"" for each in consumer.consume(COUNT, 1.0) if each.error() is None]
    consumer.close()
    return found


def by_kafka_python(bootstrap: str, trusted: Path, client: Path | None, topic: str) -> list[bytes]:
    """Return what kafka-python reads of what it has written. Raises: KafkaError."""
    options = {
        "bootstrap_servers": bootstrap,
        "security_protocol": "SSL",
        "bootstrap_timeout_ms": 3_000,
        "ssl_cafile": str(trusted),
        "ssl_certfile": str(client) if client else None,
        "ssl_keyfile": str(client) if client else None,
    }
    producer = KafkaProducer(**options, max_block_ms=3_000)
    for number in range(COUNT):
        producer.send(topic, LARGE + b"%d" % number, partition=0)
    producer.flush(PATIENCE_S)
    producer.close()
    consumer = KafkaConsumer(**options, consumer_timeout_ms=5_000)
    consumer.assign([PythonPartition(topic, 0)])
    consumer.seek_to_beginning()
    found = [next(consumer).value for _ in range(COUNT)]
    consumer.close()
    return found


def by_aiokafka(bootstrap: str, trusted: Path, client: Path | None, topic: str) -> list[bytes]:
    """Return what aiokafka reads of what it has written. Raises: KafkaConnectionError."""

    async def run() -> list[bytes]:
        context = ssl.create_default_context(cafile=str(trusted))
        if client is not None:
            context.load_cert_chain(str(client))
        options = {"bootstrap_servers": bootstrap, "security_protocol": "SSL", "ssl_context": context}
        producer = AIOKafkaProducer(**options)
        try:
            await producer.start()
            for number in range(COUNT):
                await producer.send_and_wait(topic, LARGE + b"%d" % number, partition=0)
        finally:
            await producer.stop()
        consumer = AIOKafkaConsumer(topic, **options, auto_offset_reset="earliest")
        await consumer.start()
        try:
            return [(await consumer.getone()).value for _ in range(COUNT)]
        finally:
            await consumer.stop()

    return asyncio.run(asyncio.wait_for(run(), PATIENCE_S))


Run = Callable[[str, Path, Path | None, str], list[bytes]]
CLIENTS = pytest.mark.parametrize("run", [by_confluent, by_kafka_python, by_aiokafka])
REFUSED = (KafkaException, KafkaError, KafkaConnectionError, ssl.SSLError)


@CLIENTS
def test_a_client_with_its_certificate_writes_and_reads(here: Secured, run: Run) -> None:
    topic = f"right-{uuid.uuid4().hex[:8]}"
    found = run(here.bootstrap, here.trusted, here.client("right"), topic)
    assert found == [LARGE + b"%d" % number for number in range(COUNT)]


@CLIENTS
@pytest.mark.parametrize("who", ["nobody", "stranger", "expired"])
def test_a_client_without_a_valid_certificate_gets_nothing(here: Secured, run: Run, who: str) -> None:
    client = {  # type: ignore[no-untyped-call]  # trustme's constructor has no types.
        "nobody": lambda: None,
        "stranger": lambda: here.client("stranger", authority=trustme.CA()),
        "expired": lambda: here.client("expired", expired=True),
    }[who]()
    with pytest.raises(REFUSED):
        run(here.bootstrap, here.trusted, client, f"wrong-{who}")
    words = {"nobody": "shown no certificate", "stranger": "is refused: ", "expired": "has expired"}[who]
    assert any("a TLS handshake failed" in line and words in line for line in here.broker.log_lines())


@CLIENTS
def test_a_client_that_does_not_trust_the_broker_sends_it_nothing(
    here: Secured, run: Run, tmp_path: Path
) -> None:
    (tmp_path / "others.pem").write_bytes(trustme.CA().cert_pem.bytes())
    with pytest.raises(REFUSED):
        run(here.bootstrap, tmp_path / "others.pem", here.client("trusting"), "untrusted")


def test_kafkas_own_tools_work_with_pem_files(here: Secured, tmp_path: Path) -> None:
    properties = tmp_path / "client.properties"
    properties.write_text(
        "security.protocol=SSL\nssl.keystore.type=PEM\nssl.truststore.type=PEM\n"
        f"ssl.keystore.location={here.client('java')}\nssl.truststore.location={here.trusted}\n"
    )
    options = ("--bootstrap-server", here.bootstrap, "--command-config", str(properties))
    with running_tools() as tools:
        made = tools.run("kafka-topics", *options, "--create", "--topic", "by-java", "--partitions", "3")
        assert "Created topic by-java." in made.out
        assert "by-java" in tools.run("kafka-topics", *options, "--list").out
        broker = ("--entity-type", "brokers", "--entity-name", "1")
        shown = tools.run("kafka-configs", *options, *broker, "--describe", "--all")
        assert "ssl.client.auth=required sensitive=false" in shown.out
        assert "ssl.key.password=null sensitive=true" in shown.out


def test_changed_certificates_hold_for_new_connections_and_old_ones_go_on(tmp_path: Path) -> None:
    with secured(tmp_path) as here:
        trust = {"security.protocol": "SSL", "ssl.ca.location": str(here.trusted)}
        producer = Producer({"bootstrap.servers": here.bootstrap, **trust})
        producer.produce("t", b"before")
        assert producer.flush(PATIENCE_S) == 0
        assert here.shown() == "first"
        here.certify("second")
        wait_for(lambda: here.shown() == "second")
        (here.folder / "server.pem").write_text("half a file")
        wait_for(lambda: any("the old ones stay" in line for line in here.broker.log_lines()))
        assert here.shown() == "second"
        here.certify("third", expired=True)
        wait_for(lambda: here.reloads() == 2)
        with pytest.raises(ssl.SSLCertVerificationError, match="expired"):
            here.shown()
        producer.produce("t", b"behind")
        assert producer.flush(PATIENCE_S) == 0


@CLIENTS
def test_a_renewed_certificate_applies_to_new_clients_and_an_expired_one_is_refused(
    tmp_path: Path, run: Run
) -> None:
    with secured(tmp_path) as here:
        for name in ("first", "second"):
            if name != here.shown():
                here.certify(name)
                wait_for(lambda name=name: here.shown() == name)  # type: ignore[misc]
            found = run(here.bootstrap, here.trusted, here.client("right"), name)
            assert found == [LARGE + b"%d" % number for number in range(COUNT)]
        before = here.reloads()
        here.certify("third", expired=True)
        wait_for(lambda: here.reloads() > before)
        with pytest.raises(REFUSED):
            run(here.bootstrap, here.trusted, here.client("trusting"), "third")


def wait_for(holds: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + RELOADED_WITHIN_S
    while not holds():
        assert time.monotonic() < deadline_s
        time.sleep(0.05)
