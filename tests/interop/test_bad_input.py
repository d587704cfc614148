"""Clients that send nonsense, stop half way or never read lose their connection, and nobody else does."""

from __future__ import annotations

import socket
import struct
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # Its home says otherwise.

from kohort.broker.runtime.throttled_log import LINES_PER_SECOND_MAX, WINDOW_MS
from kohort.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tests.interop.broker_process import BrokerProcess
from tests.interop.clients import CLIENTS, Outgoing
from tests.interop.waiting import wait_until

MEBIBYTE = 1024 * 1024
API_VERSIONS = 18
FETCH = 1
FETCH_VERSION = 12  # The newest that names topics instead of their ids.
GIVEN_UP_WITHIN_S = 20.0
PAUSED_AFTER_S = 0.5
# Those who send nonsense more often find their lines counted instead of written.
LINE_EVERY_S = 1.1 * WINDOW_MS / 1_000 / LINES_PER_SECOND_MAX
GARBAGE = {
    "http": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "tls": bytes.fromhex("16030100c8010000c40303") + b"\x00" * 200,
    "a frame of two gigabytes": struct.pack(">i", 2**31 - 1) + b"x" * 100,
    "a negative frame": struct.pack(">i", -1) + b"x" * 100,
    "an empty frame": struct.pack(">i", 0),
    "a frame shorter than a header": struct.pack(">i", 3) + b"abc",
    "an unknown api key": struct.pack(">ihhih", 10, 999, 0, 1, -1),
    "an unknown version": struct.pack(">ihhih", 10, FETCH, 99, 1, -1),
    "a client id that is no text": struct.pack(">ihhih", 14, API_VERSIONS, 0, 1, 4) + b"\xff\xfe\xfd\xfc",
    "a body that is no fetch": struct.pack(">ihhih", 30, FETCH, FETCH_VERSION, 1, -1) + b"\xff" * 20,
}


@contextmanager
def connected(broker: BrokerProcess) -> Iterator[socket.socket]:
    """Open a connection with a deadline for everything done on it."""
    with socket.create_connection(broker.address, timeout=GIVEN_UP_WITHIN_S) as connection:
        yield connection


def peer_of(connection: socket.socket) -> str:
    """Return the name by which the broker knows this connection."""
    host, port = connection.getsockname()
    return f"{host}:{port}"


def is_closed_by_broker(connection: socket.socket) -> bool:
    """Return True when the broker has closed it; wait for that. Raises: TimeoutError."""
    try:
        while connection.recv(65_536):
            pass
    except ConnectionResetError:
        pass  # It had not read all that was sent.
    return True


def lines_about(broker: BrokerProcess, peer: str) -> list[str]:
    """Return the log lines that name this peer."""
    return [line for line in broker.log_lines() if peer in line]


def answers(broker: BrokerProcess) -> bool:
    """Return whether a well-behaved client is answered at once."""
    request = struct.pack(">ihhih", 10, API_VERSIONS, 0, 7, -1)
    with socket.create_connection(broker.address, timeout=2.0) as connection:
        connection.sendall(request)
        header = connection.recv(8, socket.MSG_WAITALL)
    return bool(struct.unpack(">ii", header)[1] == 7)


@pytest.mark.parametrize("name", GARBAGE)
def test_malformed_bytes_close_the_connection_and_log_one_line(own_broker: BrokerProcess, name: str) -> None:
    time.sleep(LINE_EVERY_S)
    before_bytes = own_broker.resident_bytes()
    with connected(own_broker) as patient, connected(own_broker) as connection:
        connection.sendall(GARBAGE[name])
        assert is_closed_by_broker(connection)
        peer = peer_of(connection)
        patient.sendall(struct.pack(">ihhih", 10, API_VERSIONS, 0, 7, -1))
        assert patient.recv(4, socket.MSG_WAITALL), "the other connection is still served"
    wait_until(lambda: lines_about(own_broker, peer), "a line about it")
    assert len(lines_about(own_broker, peer)) == 1
    assert answers(own_broker)
    assert own_broker.resident_bytes() - before_bytes < 16 * MEBIBYTE


def test_random_bytes_never_end_the_broker(own_broker: BrokerProcess) -> None:
    for round_number in range(50):
        noise = uuid.uuid5(uuid.NAMESPACE_OID, str(round_number)).bytes * 40
        with connected(own_broker) as connection:
            connection.sendall(struct.pack(">i", len(noise)) + noise)
            assert is_closed_by_broker(connection)
    assert answers(own_broker)


def fetch_of(topic: str, correlation_id: int) -> bytes:
    """Return a frame that asks for all of the topic's first partition."""
    partition = FetchPartition(
        partition=0, current_leader_epoch=-1, fetch_offset=0, log_start_offset=-1, partition_max_bytes=2**30
    )
    body = FetchRequest(
        replica_id=-1,
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=2**30,
        topics=(FetchTopic(topic=topic, partitions=(partition,)),),
    ).encode(FETCH_VERSION)
    header = struct.pack(">hhih", FETCH, FETCH_VERSION, correlation_id, -1) + b"\x00"
    return struct.pack(">i", len(header) + len(body)) + header + body


def test_a_half_frame_and_a_client_that_never_reads_are_closed(own_broker: BrokerProcess) -> None:
    """Both at once, for each takes its time. The deaf one costs bounded memory, whatever it asked for."""
    topic = f"unread-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": own_broker.bootstrap})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(15)
    records = [Outgoing(b"x" * 900_000) for _ in range(20)]
    CLIENTS["confluent-kafka"].produce(own_broker.bootstrap, topic, records)
    before_bytes = peak_bytes = own_broker.resident_bytes()
    with connected(own_broker) as silent, connected(own_broker) as deaf:
        silent.sendall(struct.pack(">i", 100_000) + b"\x00\x12")
        assert ask_until_nothing_more_is_taken(deaf, topic) > 0

        def is_given_up() -> bool:
            nonlocal peak_bytes
            peak_bytes = max(peak_bytes, own_broker.resident_bytes())
            return bool(lines_about(own_broker, peer_of(deaf)))

        assert answers(own_broker), "others are served meanwhile"
        wait_until(is_given_up, "the deaf client is given up", GIVEN_UP_WITHIN_S)
        assert is_closed_by_broker(silent)
        assert [len(lines_about(own_broker, peer_of(each))) for each in (silent, deaf)] == [1, 1]
    assert peak_bytes - before_bytes < 64 * MEBIBYTE, "it asked for many gigabytes"
    assert answers(own_broker)


def ask_until_nothing_more_is_taken(connection: socket.socket, topic: str) -> int:
    """Ask for 18 MB again and again until the broker reads no more; return how many bytes went out."""
    requests = b"".join(fetch_of(topic, correlation_id) for correlation_id in range(1_000))
    sent = 0
    connection.settimeout(PAUSED_AFTER_S)
    try:
        for _ in range(10_000):
            sent += connection.send(requests)
    except TimeoutError:
        return sent
    raise AssertionError(f"the broker reads on and on: {sent} bytes of requests")


def test_a_thousand_connections_leave_no_resources(own_broker: BrokerProcess) -> None:
    assert answers(own_broker)
    wait_until(lambda: own_broker.open_files() < 200, "earlier connections are gone")
    files, before_bytes = own_broker.open_files(), own_broker.resident_bytes()
    for _ in range(1_000):
        with connected(own_broker):
            pass
    assert answers(own_broker)
    wait_until(lambda: own_broker.open_files() <= files, "every connection is closed")
    assert own_broker.resident_bytes() - before_bytes < 16 * MEBIBYTE
