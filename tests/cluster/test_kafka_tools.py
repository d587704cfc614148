"""Apache Kafka's own tools against three brokers: topics, moves, elections, settings, brokers taken out."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cluster.broker_cluster import PATIENCE_SECONDS, BrokerCluster
from tests.cluster.etcd_process import EtcdProcess
from tests.interop.conftest import running_tools
from tests.interop.kafka_tools import Output, Tools
from tests.repetitions import only_by_night

pytestmark = only_by_night

Run = Callable[..., Output]
PARTITION = re.compile(r"Leader: (?P<leader>\w+)\s+Replicas: (?P<replicas>[\d,]*)\s+Isr: (?P<isr>[\d,]*)")


@pytest.fixture(scope="module")
def tools() -> Iterator[Tools]:
    """One JVM for all tests of a module."""
    with running_tools() as found:
        yield found


@pytest.fixture
def cluster(tools: Tools, shared_etcd: EtcdProcess, tmp_path: Path) -> Iterator[BrokerCluster]:
    """Three brokers."""
    with BrokerCluster(shared_etcd, tmp_path.name, tmp_path, 3) as cluster:
        yield cluster


@pytest.fixture
def run(tools: Tools, cluster: BrokerCluster) -> Run:
    """Run a tool against whoever runs."""

    def run(tool: str, *arguments: str) -> Output:
        return tools.run(tool, *arguments, "--bootstrap-server", cluster.bootstrap)

    return run


def created(run: Run, assignment: str, *options: str, topic: str = "air") -> None:
    done = run("kafka-topics", "--create", "--topic", topic, "--replica-assignment", assignment, *options)
    assert (done.status, done.lines) == (0, [f"Created topic {topic}."])


def partitions(run: Run, *options: str, topic: str = "air") -> list[tuple[str, str, str]]:
    """Return leader, replicas and in-sync replicas of each partition as kafka-topics shows them."""
    shown = run("kafka-topics", "--describe", "--topic", topic, *options).out
    found = (PARTITION.search(line) for line in shown.splitlines())
    return [(each["leader"], each["replicas"], each["isr"]) for each in found if each is not None]


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def plan(folder: Path, *moves: tuple[int, list[int]]) -> str:
    file = folder / "moves.json"
    wanted = [{"topic": "air", "partition": index, "replicas": nodes} for index, nodes in moves]
    file.write_text(json.dumps({"version": 1, "partitions": wanted}))
    return str(file)


def test_kafka_topics_shows_replicas_out_of_sync_and_missing(run: Run, cluster: BrokerCluster) -> None:
    created(run, "1:3,2:3", "--config", "min.insync.replicas=2")
    created(run, "3", topic="alone")
    assert [each[:2] for each in partitions(run)] == [("1", "1,3"), ("2", "2,3")]
    assert partitions(run, "--under-replicated-partitions") == []
    cluster.brokers[3].kill()
    until(lambda: len(partitions(run, "--unavailable-partitions", topic="alone")) == 1)
    assert partitions(run, topic="alone") == [("none", "3", "")]
    until(lambda: len(partitions(run, "--under-replicated-partitions")) == 2)
    assert partitions(run) == [("1", "1,3", "1"), ("2", "2,3", "2")]
    assert len(partitions(run, "--under-min-isr-partitions")) == 2
    assert partitions(run, "--at-min-isr-partitions") == []
    shown = run("kafka-topics", "--describe", "--topic", "air").out
    assert shown.count("Elr: 3") == 2  # It has all that was acknowledged.


def test_kafka_reassign_partitions_plans_throttles_moves_and_verifies(run: Run, tmp_path: Path) -> None:
    created(run, "1:2,1:2")
    file = plan(tmp_path, (0, [3, 1]), (1, [2, 3]))
    begun = run(
        "kafka-reassign-partitions", "--execute", "--reassignment-json-file", file, "--throttle", "50000000"
    )
    assert begun.status == 0, begun.out
    assert "Successfully started partition reassignments for air-0,air-1" in begun.out

    def is_complete() -> bool:
        verified = run("kafka-reassign-partitions", "--verify", "--reassignment-json-file", file)
        assert verified.status == 0, verified.out
        return verified.out.count("is completed") == 2

    until(is_complete)
    assert [(leader, replicas) for leader, replicas, _ in partitions(run)] == [
        ("1", "3,1"),
        ("2", "2,3"),
    ] or ([replicas for _, replicas, _ in partitions(run)] == ["3,1", "2,3"])
    assert "No partition reassignments found." in run("kafka-reassign-partitions", "--list").out
    # What was throttled is not any more once a move that is complete was looked at.
    for node_id in ("1", "2", "3"):
        shown = run("kafka-configs", "--describe", "--entity-type", "brokers", "--entity-name", node_id)
        assert "throttled.rate" not in shown.out
    shown = run("kafka-configs", "--describe", "--entity-type", "topics", "--entity-name", "air")
    assert "throttled.replicas" not in shown.out


def test_kafka_reassign_partitions_generates_and_cancels(
    run: Run, cluster: BrokerCluster, tmp_path: Path
) -> None:
    created(run, "1,1")
    topics = tmp_path / "topics.json"
    topics.write_text(json.dumps({"version": 1, "topics": [{"topic": "air"}]}))
    proposed = run(
        "kafka-reassign-partitions", "--generate", "--topics-to-move-json-file", str(topics),
        "--broker-list", "2,3", "--disable-rack-aware",
    )  # fmt: skip
    assert proposed.status == 0, proposed.out
    assert "Proposed partition reassignment configuration" in proposed.out
    cluster.brokers[3].kill()
    until(lambda: len(run("kafka-cluster", "list-endpoints").lines) == 3)
    file = plan(tmp_path, (0, [3]))
    refused = run("kafka-reassign-partitions", "--execute", "--reassignment-json-file", file)
    assert refused.status == 1
    assert "3" in refused.out + refused.err
    file = plan(tmp_path, (0, [1]))
    cancelled = run("kafka-reassign-partitions", "--cancel", "--reassignment-json-file", file)
    assert cancelled.status == 0, cancelled.out
    assert "None of the specified partition reassignments are active." in cancelled.out


def test_kafka_leader_election_elects_preferred_leaders_and_unclean_ones(
    run: Run, cluster: BrokerCluster
) -> None:
    created(run, "2:1")
    created(run, "3", topic="alone")
    cluster.brokers[2].kill()
    until(lambda: partitions(run)[0][0] == "1")
    cluster.brokers[2].start()
    until(lambda: sorted(partitions(run)[0][2].split(",")) == ["1", "2"])
    elected = run(
        "kafka-leader-election", "--election-type", "preferred", "--topic", "air", "--partition", "0"
    )
    assert elected.status == 0, elected.out
    assert "Successfully completed leader election (PREFERRED) for partitions air-0" in elected.out
    assert partitions(run)[0][0] == "2"
    again = run("kafka-leader-election", "--election-type", "preferred", "--all-topic-partitions")
    assert again.status == 0, again.out
    cluster.brokers[3].kill()
    until(lambda: partitions(run, topic="alone")[0][0] == "none")
    refused = run(
        "kafka-leader-election", "--election-type", "unclean", "--topic", "alone", "--partition", "0"
    )
    assert refused.status == 1
    assert "1 replica(s) could not be elected" in refused.out + refused.err


def test_kafka_configs_alters_single_brokers_and_all(run: Run) -> None:
    for entity in (("--entity-name", "2"), ("--entity-default",)):
        altered = run(
            "kafka-configs", "--alter", "--entity-type", "brokers", *entity,
            "--add-config", "log.retention.ms=3600000",
        )  # fmt: skip
        assert altered.status == 0, altered.out
        shown = run("kafka-configs", "--describe", "--entity-type", "brokers", *entity)
        assert "log.retention.ms=3600000" in shown.out


def test_kafka_cluster_describes_the_cluster_and_unregisters_brokers(
    run: Run, cluster: BrokerCluster
) -> None:
    told = run("kafka-cluster", "cluster-id")
    assert told.lines[0].startswith("Cluster ID: ")
    assert len(run("kafka-cluster", "list-endpoints").lines) == 4
    created(run, "3:1")
    cluster.brokers[3].stop()
    gone = run("kafka-cluster", "unregister", "--id", "3")
    assert (gone.status, gone.lines) == (0, ["Broker 3 is no longer registered."])
    unknown = run("kafka-cluster", "unregister", "--id", "77")
    assert "77 is not currently registered" in unknown.out + unknown.err
