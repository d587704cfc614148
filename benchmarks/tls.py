"""The cost of TLS 1.3, kohort and Apache Kafka in one run, with the same key and certificate.

    python benchmarks/tls.py [--repeats N] [--seconds N] [--only produce,fetch,commit,commits,connect]

Each figure is from a fresh process with confluent-kafka (librdkafka, OpenSSL): for so many seconds it
produces records of 10 KB, reads those back, commits offsets one at a time or many at once, or opens
connections. Each broker has a plaintext listener beside that for TLS, and both are measured, in turns; the
median of the repetitions counts. kohort answers a produce and a commit when it is on the disk, and takes part
once more without a sync, like Kafka (lax). The table is Markdown, for docs/performance.md.
"""

import argparse
import contextlib
import os
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import trustme
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from tests.differential.apache_kafka import ApacheKafka, MissingTool
from tests.interop.broker_process import BrokerProcess

PARTITIONS = 4
RECORD_BYTES = 10_000
READ_BYTES = 200_000_000
IN_FLIGHT = 64
TIMEOUT_S = 30.0
RUN_TIMEOUT_S = 180
WARM_UP_SECONDS = 1.0
PROTOCOL = "TLSv1.3"
LAX = "log.flush.interval.messages=9223372036854775807"
Settings = dict[str, object]


class Certificate:
    """A key with its certificate, for both brokers, and the certificate of its signer."""

    def __init__(self, folder: Path) -> None:
        authority = trustme.CA()
        made = authority.issue_cert("localhost", "127.0.0.1")
        key = load_pem_private_key(made.private_key_pem.bytes(), None)
        self.path = folder / "server.pem"
        self.path.write_bytes(  # Java reads keys as PKCS #8 alone.
            key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
            + b"".join(each.bytes() for each in made.cert_chain_pems)
        )
        self.trusted = folder / "trusted.pem"
        self.trusted.write_bytes(authority.cert_pem.bytes())

    @property
    def settings(self) -> tuple[str, ...]:
        """Under Kafka's names, for either broker."""
        return (
            "ssl.keystore.type=PEM",
            f"ssl.keystore.location={self.path}",
            f"ssl.enabled.protocols={PROTOCOL}",
        )


class KafkaWithTls(ApacheKafka):
    """Apache Kafka with a listener more."""

    tls_port = 0

    def _properties(self, controller_port: int) -> str:
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.tls_port = probe.getsockname()[1]
        plain = f"listeners=PLAINTEXT://127.0.0.1:{self.address[1]},"
        text = super()._properties(controller_port).replace(plain, f"{plain}SSL://127.0.0.1:{self.tls_port},")
        return text.replace("map=PLAINTEXT:PLAINTEXT,", "map=PLAINTEXT:PLAINTEXT,SSL:SSL,")


def main() -> None:
    """Measure, and print the table."""
    options = arguments()
    if options.child:
        kind, protocol, bootstrap, trusted = options.child.split(",")
        client = {"bootstrap.servers": bootstrap, "security.protocol": protocol, "ssl.ca.location": trusted}
        print(KINDS[kind][1](client, options.seconds))
        return
    kinds = options.only.split(",") if options.only else list(KINDS)
    figures: dict[tuple[str, str, str], list[float]] = {}
    with contextlib.ExitStack() as stack:
        certificate = Certificate(folder(stack))
        brokers = started_brokers(stack, certificate)
        for name, listeners in brokers.items():
            print(f"{name}: {spoken(listeners['SSL'], certificate)}", file=sys.stderr)
        for _ in range(options.repeats):
            for kind in kinds:
                for name, listeners in brokers.items():
                    for protocol, bootstrap in listeners.items():
                        asked = f"{kind},{protocol},{bootstrap},{certificate.trusted}"
                        found = in_a_process(asked, options.seconds)
                        figures.setdefault((name, protocol, kind), []).append(found)
                        print(f"{name}, {protocol}, {KINDS[kind][0]}: {found:,.0f}", file=sys.stderr)
    medians = {each: statistics.median(found) for each, found in figures.items()}
    print("\n".join(report(medians, list(brokers), kinds)))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--only", help=f"of {', '.join(KINDS)}")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    return parser.parse_args()


def started_brokers(stack: contextlib.ExitStack, certificate: Certificate) -> dict[str, dict[str, str]]:
    """Return where each broker listens, by protocol; Apache Kafka is left out where it can't run."""
    brokers: dict[str, dict[str, str]] = {}
    kafka = KafkaWithTls(folder(stack), *certificate.settings, options=("-Xmx1g",))
    try:
        kafka.start()
    except MissingTool as missing:
        print(f"without Apache Kafka: {missing}", file=sys.stderr)
    else:
        stack.callback(kafka.stop)
        plain = "{}:{}".format(*kafka.address)
        brokers["Kafka"] = {"PLAINTEXT": plain, "SSL": f"127.0.0.1:{kafka.tls_port}"}
    for name, settings in (("kohort", ()), ("kohort, lax", (LAX,))):
        kohort = BrokerProcess(folder(stack), *certificate.settings, *settings)
        kohort.options = ("--listen", "SSL://127.0.0.1:0")
        kohort.start()
        stack.callback(kohort.stop)
        plain, _, tls = kohort.bootstrap.partition(",SSL://")
        brokers[name] = {"PLAINTEXT": plain, "SSL": tls}
    return brokers


def folder(stack: contextlib.ExitStack) -> Path:
    return Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kohort-bench-")))


def spoken(bootstrap: str, certificate: Certificate) -> str:
    """Return the TLS version and cipher that an OpenSSL client and the broker agree on."""
    host, port = bootstrap.rsplit(":", 1)
    context = ssl.create_default_context(cafile=str(certificate.trusted))
    with (
        socket.create_connection((host, int(port)), TIMEOUT_S) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as secure,
    ):
        cipher = secure.cipher()
        return f"{secure.version()} {cipher[0] if cipher else ''}"


def in_a_process(asked: str, seconds: float) -> float:
    """Return the result of a separate process."""
    command = [sys.executable, __file__, "--child", asked, "--seconds", str(seconds)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_TIMEOUT_S, check=False)
    if done.returncode:
        raise SystemExit(f"{asked}: {done.stderr[-2000:]}")
    return float(done.stdout)


# -- measurements, in a separate process ---------------------------------------------------------------------


def new_topic(client: Settings) -> str:
    from confluent_kafka.admin import AdminClient, NewTopic

    topic = f"topic-{uuid.uuid4().hex}"
    admin = AdminClient(client)  # Which has to live until it is answered.
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(TIMEOUT_S)
    return topic


class Writer:
    """Writes as many records as there is room for, and counts the acknowledged ones."""

    def __init__(self, client: Settings, topic: str) -> None:
        import confluent_kafka

        own: Settings = {
            "acks": "all",
            "linger.ms": 5,
            "batch.size": 1_000_000,
            "queue.buffering.max.kbytes": 65_536,
        }
        self._producer = confluent_kafka.Producer(client | own)
        self._topic = topic
        self._value = os.urandom(RECORD_BYTES)
        self._number = 0
        self.written_bytes = 0

    def write(self) -> None:
        """Put a record into the queue, once there is room."""
        while True:
            try:
                self._producer.produce(
                    self._topic, self._value, partition=self._number % PARTITIONS, on_delivery=self._delivered
                )
            except BufferError:
                self._producer.poll(0.01)
            else:
                self._number += 1
                self._producer.poll(0)
                return

    def _delivered(self, error: object, _message: object) -> None:
        if error is not None:
            raise SystemExit(f"a record was not written: {error}")
        self.written_bytes += RECORD_BYTES

    def end(self) -> None:
        self._producer.flush(TIMEOUT_S)


def produced(client: Settings, seconds: float) -> float:
    """Return how many MB a second are acknowledged."""
    writer = Writer(client, new_topic(client))
    warm_s = time.monotonic() + WARM_UP_SECONDS
    while time.monotonic() < warm_s:
        writer.write()
    before, began_s = writer.written_bytes, time.monotonic()
    while time.monotonic() < began_s + seconds:
        writer.write()
    found = (writer.written_bytes - before) / (time.monotonic() - began_s) / 1e6
    writer.end()
    return found


def fetched(client: Settings, seconds: float) -> float:
    """Return how many MB a second are read, from the first record on, again and again."""
    import confluent_kafka

    topic = new_topic(client)
    writer = Writer(client, topic)
    while writer.written_bytes < READ_BYTES:
        writer.write()
    writer.end()
    own: Settings = {
        "group.id": uuid.uuid4().hex,
        "enable.auto.commit": False,
        "queued.max.messages.kbytes": 131_072,
        "fetch.max.bytes": 52_428_800,
        "max.partition.fetch.bytes": 10_485_760,
        "enable.partition.eof": True,
    }
    consumer = confluent_kafka.Consumer(client | own)
    read_bytes, began_s = 0, time.monotonic()
    while time.monotonic() < began_s + seconds:
        consumer.assign([confluent_kafka.TopicPartition(topic, each, 0) for each in range(PARTITIONS)])
        ends = 0
        while ends < PARTITIONS and time.monotonic() < began_s + seconds:
            for message in consumer.consume(1_000, 1.0):
                if message.error() is None:
                    read_bytes += len(message.value())
                else:
                    ends += 1
    found = read_bytes / (time.monotonic() - began_s) / 1e6
    consumer.close()
    return found


def committed_one_by_one(client: Settings, seconds: float) -> float:
    """Return how many commits a second are answered, each asked once the last one was."""
    import confluent_kafka

    topic = new_topic(client)
    consumer = confluent_kafka.Consumer(client | {"group.id": uuid.uuid4().hex, "enable.auto.commit": False})
    number = 0

    def commit() -> None:
        nonlocal number
        number += 1
        consumer.commit(offsets=[confluent_kafka.TopicPartition(topic, 0, number)], asynchronous=False)

    return rate(commit, lambda: number, seconds)


def committed(client: Settings, seconds: float) -> float:
    """Return how many commits a second are answered, with many of them in flight."""
    import confluent_kafka

    topic, asked, answered = new_topic(client), 0, 0

    def heard(error: object, _offsets: object) -> None:
        nonlocal answered
        if error is not None:
            raise SystemExit(f"a commit failed: {error}")
        answered += 1

    own: Settings = {"group.id": uuid.uuid4().hex, "enable.auto.commit": False, "on_commit": heard}
    consumer = confluent_kafka.Consumer(client | own)
    consumer.commit(offsets=[confluent_kafka.TopicPartition(topic, 0, 1)], asynchronous=False)
    answered = 0

    def commit() -> None:
        nonlocal asked
        while asked - answered < IN_FLIGHT:
            asked += 1
            consumer.commit(offsets=[confluent_kafka.TopicPartition(topic, 0, asked)], asynchronous=True)
        consumer.poll(0.001)

    return rate(commit, lambda: answered, seconds)


def connected(client: Settings, seconds: float) -> float:
    """Return how many connections a second are opened, whose first request is answered."""
    host, port = str(client["bootstrap.servers"]).rsplit(":", 1)
    versions = bytes.fromhex("0000000a00120000000000010000")  # ApiVersions 0, with an empty client id.
    context = ssl.create_default_context(cafile=str(client["ssl.ca.location"]))
    number = 0

    def connect() -> None:
        nonlocal number
        with contextlib.ExitStack() as stack:
            made: socket.socket = stack.enter_context(socket.create_connection((host, int(port)), TIMEOUT_S))
            if client["security.protocol"] == "SSL":
                made = stack.enter_context(context.wrap_socket(made, server_hostname="localhost"))
            made.sendall(versions)
            if not made.recv(4):
                raise SystemExit("the broker has closed a connection")
        number += 1

    return rate(connect, lambda: number, seconds)


def rate(action: Callable[[], None], count: Callable[[], int], seconds: float) -> float:
    """Return how much the count grows a second while something is done again and again."""
    warm_s = time.monotonic() + WARM_UP_SECONDS
    while time.monotonic() < warm_s:
        action()
    before, began_s = count(), time.monotonic()
    while time.monotonic() < began_s + seconds:
        action()
    return (count() - before) / (time.monotonic() - began_s)


KINDS: Mapping[str, tuple[str, Callable[[Settings, float], float]]] = {
    "produce": ("produced MB/s", produced),
    "fetch": ("fetched MB/s", fetched),
    "commit": ("commits/s, 1 in flight", committed_one_by_one),
    "commits": (f"commits/s, {IN_FLIGHT} in flight", committed),
    "connect": ("connections/s", connected),
}


def report(
    medians: Mapping[tuple[str, str, str], float], names: list[str], kinds: list[str]
) -> Iterator[str]:
    """Yield the table: each figure over TLS, beside Kafka, and its share of the plaintext figure."""
    own = [each for each in names if each != "Kafka"]
    ratios = [f"{each} / Kafka" for each in own] if "Kafka" in names else []
    shares = [f"{each}: of plaintext" for each in names]
    yield "| " + " | ".join([f"over {PROTOCOL}", *names, *ratios, *shares]) + " |"
    yield "| --- |" + " ---: |" * (len(names) + len(ratios) + len(shares))
    for kind in kinds:
        over_tls = {name: medians[name, "SSL", kind] for name in names}
        found = [f"{each:,.0f}" for each in over_tls.values()]
        if ratios:
            found += [f"{over_tls[name] / over_tls['Kafka']:.2f}" for name in own]
        found += [f"{over_tls[name] / medians[name, 'PLAINTEXT', kind]:.0%}" for name in names]
        yield f"| {KINDS[kind][0]} | " + " | ".join(found) + " |"


if __name__ == "__main__":
    main()
