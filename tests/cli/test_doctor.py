"""`kohort doctor`: addresses that lead to another cluster, or to no broker at all."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from kohort.cli.diagnosis import Level
from kohort.cli.diagnosis_broker import _look_at_advertised
from kohort.client import Admin
from kohort.client.admin_values import ClusterDescription
from kohort.client.values import Node
from kohort.testing import Broker
from tests.cli import here
from tests.interop.broker_process import BrokerProcess


@pytest.fixture(scope="module")
def one() -> Iterator[str]:
    """Where the only broker of a cluster listens."""
    with Broker() as broker:
        yield broker.bootstrap


@pytest.fixture(scope="module")
def another() -> Iterator[str]:
    """Where the only broker of another cluster listens."""
    with Broker() as broker:
        yield broker.bootstrap


@pytest.fixture
def strange(request: pytest.FixtureRequest) -> Iterator[str]:
    """Where a program listens that answers any request with the same bytes, and hangs up."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(1_000)
                    connection.sendall(request.param)

        threading.Thread(target=serve, daemon=True).start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)


def failures(*servers: str) -> dict[str, str]:
    """Return what `kohort doctor` says fails, by its subject."""
    done = here.kohort("doctor", "--json", "-b", ",".join(servers))
    found = {each["subject"]: each["text"] for each in json.loads(done.stdout) if each["level"] == "fail"}
    assert done.returncode == (1 if found else 0)
    return found


@pytest.mark.parametrize(
    "strange, words",
    [
        (b"SSH-2.0-OpenSSH_9.6\r\n", "does not speak Kafka's protocol"),
        (b"-ERR unknown command\r\n", "does not speak Kafka's protocol"),
        (bytes(64), "does not speak Kafka's protocol"),
        (b"\x00\x00\x00\x06", "does not speak Kafka's protocol"),
        (b"", "takes connections and does not answer"),
    ],
    ids=["ssh", "redis", "zeros", "cut", "silent"],
    indirect=["strange"],
)
def test_a_second_bootstrap_server_without_kafka_fails(one: str, strange: str, words: str) -> None:
    found = failures(one, strange)
    assert list(found) == [f"bootstrap server {strange}"]
    assert words in found[f"bootstrap server {strange}"]


def test_a_bootstrap_server_of_another_cluster_fails(one: str, another: str) -> None:
    assert not failures(one, one)
    found = failures(one, another)
    assert list(found) == [f"bootstrap server {another}"]
    assert found[f"bootstrap server {another}"].startswith("belongs to another cluster, ")


def test_two_brokers_that_advertise_one_address_fail(one: str) -> None:
    with Admin(bootstrap_servers=one) as admin:
        cluster = admin.describe_cluster()
    (node,) = cluster.nodes
    twice = ClusterDescription(cluster.cluster_id, 1, (node, Node(7, node.host, node.port)))
    found = list(_look_at_advertised(twice, [one]))
    assert [each.subject for each in found] == [f"broker {each}, advertised as {one}" for each in (1, 7)]
    assert {(each.level, each.text) for each in found} == {
        (Level.FAIL, "2 brokers of this cluster advertise this address")
    }


def test_an_advertised_address_that_leads_to_another_cluster_fails(tmp_path: Path, another: str) -> None:
    broker = BrokerProcess(tmp_path)
    broker.options = ("--advertise", another)
    broker.start()
    try:
        found = failures(broker.bootstrap)
        assert list(found) == [f"broker 1, advertised as {another}"]
        assert found[f"broker 1, advertised as {another}"].startswith("belongs to another cluster, ")
    finally:
        broker.stop()
