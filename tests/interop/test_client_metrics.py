"""Clients send their own metrics (KIP-714): librdkafka's consumer, and Java's as Kafka's tool asks it to."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from prometheus_client.parser import text_string_to_metric_families as parse

from kohort.client import Admin, NewTopic, Producer, ResourceType
from tests.interop.broker_process import BrokerProcess
from tests.interop.kafka_tools import MissingTool, Tools, java_command
from tests.interop.threads import meanwhile
from tests.interop.waiting import wait_until
from tests.repetitions import only_by_night

COMMIT_LATENCY = "org_apache_kafka_consumer_coordinator_commit_latency_avg"
WITHIN_S = 120.0
WORKED = re.compile(
    r"Cause: java-1-\w+ left .*\n  java-1 itself says .*: at most \d{1,2},?\d* m?s between two polls"
)


def page(broker: BrokerProcess, path: str) -> str:
    with urllib.request.urlopen(f"http://{broker.http}{path}", timeout=20) as answer:
        body: bytes = answer.read()
        return body.decode()


def groups_of(broker: BrokerProcess, metric: str) -> set[tuple[str, str]]:
    """Return group and client id of each client that sent the metric."""
    every = [each for family in parse(page(broker, "/metrics")) for each in family.samples]
    return {(each.labels["group_id"], each.labels["client_id"]) for each in every if each.name == metric}


def prepare(broker: BrokerProcess, topic: str) -> None:
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.create_topics(NewTopic(topic, partitions=1))
    with Producer(bootstrap_servers=broker.bootstrap) as producer:
        for _ in range(10):
            producer.send(topic, b"x")


def facts_of(broker: BrokerProcess, group: str) -> list[str]:
    clients = json.loads(page(broker, f"/api/v1/groups/{group}"))["clients"]
    return [fact for each in clients for fact in each["facts"]]


def explained(broker: BrokerProcess, group: str) -> str:
    """Return what `kohort groups explain` says."""
    command = [sys.executable, "-m", "kohort.cli", "groups", "explain", group, "--http", broker.http]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@contextmanager
def librdkafka(broker: BrokerProcess, group: str, topic: str) -> Iterator[None]:
    """A consumer that polls and commits meanwhile; it sends metrics by default."""
    from confluent_kafka import Consumer

    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": group,
            "client.id": f"{group}-1",
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 200,
        }
    )
    consumer.subscribe([topic])

    def poll(ended: threading.Event) -> None:
        while not ended.is_set():
            consumer.consume(10, 0.1)
        consumer.close()

    with meanwhile(poll):
        yield


def test_librdkafka_sends_what_it_is_asked_for(own_broker: BrokerProcess) -> None:
    prepare(own_broker, "rd-topic")
    with Admin(bootstrap_servers=own_broker.bootstrap) as admin:
        wanted = {"metrics": "org.apache.kafka.consumer.", "interval.ms": "500", "match": "client_id=rd-.*"}
        admin.alter_configs(ResourceType.CLIENT_METRICS, "rd", values=wanted)
        assert admin.describe_configs(ResourceType.CLIENT_METRICS, "rd")["interval.ms"].value == "500"
    with librdkafka(own_broker, "rd-group", "rd-topic"):
        wait_until(
            lambda: ("rd-group", "rd-group-1") in groups_of(own_broker, COMMIT_LATENCY), "it sends", WITHIN_S
        )
        assert any("a commit takes" in each for each in facts_of(own_broker, "rd-group"))
        told = explained(own_broker, "rd-group")
        assert "What its clients say:\n  rd-group-1 (" in told
        assert "    a commit takes" in told
        assert re.search(r"Cause: .* joined.*\n  rd-group-1 itself says .*: .*a commit took", told)
    text = page(own_broker, "/metrics")
    assert "kohort_client_metrics_left_out_total 0.0" in text
    assert 'kohort_client_metrics_refused_total{error="INVALID_RECORD"}' not in text


@only_by_night
def test_java_sends_what_kafkas_tool_asks_for(own_broker: BrokerProcess, tools: Tools) -> None:
    prepare(own_broker, "java-topic")
    server = ("--bootstrap-server", own_broker.bootstrap)
    made = tools.run(
        "kafka-client-metrics",
        *server,
        *("--alter", "--name", "java", "--metrics", "*", "--interval", "1000"),
        *("--match", "client_id=java-.*,client_software_name=apache-kafka-java"),
    )
    assert made.status == 0, made.err
    listed = tools.run("kafka-client-metrics", *server, "--list")
    assert "java" in listed.lines
    told = tools.run("kafka-client-metrics", *server, "--describe", "--name", "java")
    assert "interval.ms=1000" in told.out
    try:
        command = java_command(
            "clients",
            "CommandedMember",
            *("topics", "java-topic", f"bootstrap.servers={own_broker.bootstrap}", "group.id=java-group"),
            *("client.id=java-1", "auto.offset.reset=earliest", "auto.commit.interval.ms=200"),
            "max.poll.interval.ms=4000",
        )
    except MissingTool as missing:
        pytest.skip(str(missing))
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as member:
        assert member.stdin is not None
        member.stdin.write("join\n")
        member.stdin.flush()
        wait_until(
            lambda: any("between two polls" in each for each in _facts(own_broker)), "it sends", WITHIN_S
        )
        wait_until(
            lambda: ("java-group", "java-1") in groups_of(own_broker, COMMIT_LATENCY), "it commits", WITHIN_S
        )
        member.stdin.write("stall 8\n")
        member.stdin.flush()
        wait_until(lambda: WORKED.search(explained(own_broker, "java-group")), "it says why", WITHIN_S)
        member.stdin.close()
    gone = tools.run("kafka-client-metrics", *server, "--delete", "--name", "java")
    assert gone.status == 0, gone.err
    assert "java" not in tools.run("kafka-client-metrics", *server, "--list").lines


def _facts(broker: BrokerProcess) -> list[str]:
    try:
        return facts_of(broker, "java-group")
    except urllib.error.HTTPError:  # The group is not there yet.
        return []
