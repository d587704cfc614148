"""`kohort groups explain` and `describe --lag` on groups of a real client, with a broker process."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # Its home says otherwise.

from kohort.client import AcknowledgeType, Admin, ResourceType, ShareConsumer, ShareRecord
from tests.cli.conftest import COMMAND, Kohort
from tests.interop.broker_process import BrokerProcess
from tests.interop.waiting import wait_until

TOPIC = "orders"
PARTITIONS = 4


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    process = BrokerProcess(
        tmp_path_factory.mktemp("explain"),
        "group.initial.rebalance.delay.ms=0",
        "group.min.session.timeout.ms=500",
        "kohort.lag.interval.ms=100",
    )
    process.start()
    admin = AdminClient({"bootstrap.servers": process.bootstrap})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(15)
    yield process
    process.stop()


@pytest.fixture(scope="module")
def bootstrap(broker: BrokerProcess) -> str:
    return broker.bootstrap


MORTAL = """
import sys, time
from kohort.client import Consumer
consumer = Consumer(sys.argv[2], bootstrap_servers=sys.argv[1], group_id="killed", client_id="mortal",
                    session_timeout_ms=1_000, heartbeat_interval_ms=200)
while not consumer.assignment():
    consumer.poll(timeout_ms=100)
print("assigned", flush=True)
while True:
    consumer.poll(timeout_ms=100)
"""


class Reader:
    """A member that is polled by a thread of its own, until it is told to pause."""

    def __init__(self, bootstrap: str, group: str, name: str) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "client.id": name,
                "session.timeout.ms": 6_000,
                "heartbeat.interval.ms": 200,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        self._consumer.subscribe([TOPIC])
        self._polls = threading.Event()
        self._ends = threading.Event()
        self.owned = 0
        self.resume()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def pause(self) -> None:
        """Poll no more: librdkafka goes on with its heartbeats, and cannot rejoin."""
        self._polls.clear()

    def resume(self) -> None:
        self._polls.set()

    def close(self) -> None:
        self._ends.set()
        self.resume()
        self._thread.join(20)

    def _run(self) -> None:
        while not self._ends.is_set():
            self._polls.wait()
            self._consumer.poll(0.05)
            self.owned = len(self._consumer.assignment())
        self._consumer.close()


@contextlib.contextmanager
def members(bootstrap: str, group: str, *names: str) -> Iterator[list[Reader]]:
    """Members that have joined one after the other, each when the former had its partitions."""
    readers: list[Reader] = []
    try:
        for name in names:
            readers.append(Reader(bootstrap, group, name))
            wait_until(shared(readers), f"{len(readers)} members share the partitions")
        yield readers
    finally:
        for reader in readers:
            reader.close()


def shared(readers: list[Reader]) -> Callable[[], bool]:
    def condition() -> bool:
        owned = [each.owned for each in readers]
        return all(owned) and sum(owned) == PARTITIONS

    return condition


def explained(kohort: Kohort, *arguments: str) -> dict[str, Any]:
    done = kohort("groups", "explain", *arguments, "--json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_without_events_the_command_says_why(kohort: Kohort) -> None:
    done = kohort("groups", "explain", "nosuch")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert "there is no topic __group_events" in done.stderr


def test_members_that_joined_one_by_one_are_explained_with_advice(
    kohort: Kohort, broker: BrokerProcess
) -> None:
    with members(broker.bootstrap, "one-by-one", "w1", "w2", "w3"):
        done = kohort("groups", "explain", "one-by-one")
        assert done.returncode == 0
        stories = done.stdout.strip().split("\n\n")
        assert [("w1" in each, "w2" in each, "w3" in each) for each in stories] == [
            (True, False, False),
            (True, True, False),
            (True, True, True),
        ]
        assert "  4 partitions found a reader:" in stories[0]
        assert "Cause: w2-" in stories[1]
        assert " joined.\n  Joining took " in stories[1]
        assert "it waited for w1-" in stories[1]
        assert "orders 2-3  w1-" in stories[1]
        advised = ("group.initial.rebalance.delay.ms", "each for one member more")  # A slow machine
        assert any(words in stories[2] for words in advised)
        over_http = explained(kohort, "one-by-one", "--http", broker.http, "-n", "1")
        assert over_http == explained(kohort, "one-by-one", "--last", "1")
        assert over_http["rebalances"][0]["cause"]["client_id"] == "w3"


@pytest.mark.parametrize("by_http", [False, True])
def test_all_since_a_time_is_one_page(kohort: Kohort, broker: BrokerProcess, *, by_http: bool) -> None:
    group = f"since-{by_http}"
    where = ("--http", broker.http) if by_http else ()
    with members(broker.bootstrap, group, "w1", "w2", "w3"):
        told = kohort("groups", "explain", group, "--since", "1h", *where).stdout
        assert ": 3 rebalances." in told
        assert "a member joined" in told or "joined" in told
        assert len(told.splitlines()) < 20
        found = explained(kohort, group, "--since", "1h", *where)
        assert len(found["rebalances"]) == 3
        nothing = kohort("groups", "explain", group, "--since", "0s", *where).stdout
        assert "Nothing has happened since." in nothing
    refused = kohort("groups", "explain", group, "--since", "soon", *where)
    assert (refused.returncode, "03:00" in refused.stderr) == (2, True)


def test_a_rebalance_under_way_names_missing_members(kohort: Kohort, broker: BrokerProcess) -> None:
    with members(broker.bootstrap, "missing", "w1") as readers:
        readers[0].pause()
        readers.append(Reader(broker.bootstrap, "missing", "w2"))

        def ongoing() -> bool:
            return explained(kohort, "missing")["ongoing"] is not None

        wait_until(ongoing, "the second member has begun a rebalance")
        lines = kohort("groups", "explain", "missing").stdout.splitlines()
        assert lines[-3].endswith(" joined.")
        assert lines[-2].endswith("it still waits for 1 member.")
        assert lines[-1].startswith("    w1-")
        over_http = kohort("groups", "explain", "missing", "--http", broker.http).stdout
        assert "last heard of" in over_http.splitlines()[-1]
        readers[0].resume()
        wait_until(shared(readers), "both share the partitions")


def test_follow_prints_each_rebalance_until_it_is_interrupted(
    environment: dict[str, str], broker: BrokerProcess
) -> None:
    with members(broker.bootstrap, "followed", "w1") as readers:
        process = follow(environment, "followed")
        assert process.stdout is not None
        told = [process.stdout.readline()]
        readers.append(Reader(broker.bootstrap, "followed", "w2"))
        while not any("moved, read by nobody" in line for line in told):
            told.append(process.stdout.readline())
            assert told[-1], process.stderr and process.stderr.read()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=20)
        assert (process.returncode, errors) == (0, "")
        assert "generation 1, stable" in told[0]
        began = next(number for number, line in enumerate(told) if "a rebalance began: w2-" in line)
        assert any("generation 2, stable" in line for line in told[began:])


def test_a_stopped_group_has_a_lag_in_offsets_and_seconds(kohort: Kohort, broker: BrokerProcess) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(10):
        producer.produce(TOPIC, str(number), partition=1)
    producer.flush()
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "behind"})
    consumer.commit(offsets=[TopicPartition(TOPIC, 1, 4), TopicPartition(TOPIC, 2, 0)], asynchronous=False)
    consumer.close()

    def rows() -> dict[int, dict[str, Any]]:
        done = kohort("groups", "describe", "behind", "--lag", "--http", broker.http, "--json")
        assert done.returncode == 0, done.stderr
        return {each["partition"]: each for each in json.loads(done.stdout)[0]["offsets"]}

    wait_until(lambda: rows()[1]["verdict"] == "STOP", "a silent group has stopped")
    found = rows()
    assert (found[1]["lag"], found[2]["lag"], found[2]["lag_seconds"]) == (6, 0, 0.0)
    assert 0 < found[1]["lag_seconds"] < 60
    assert found[2]["verdict"] == "OK"
    table = kohort("groups", "describe", "behind", "--lag", "--http", broker.http).stdout.splitlines()
    assert table[1].split()[5:9] == ["LAG", "LAG-SECONDS", "VERDICT", "CONSUMER-ID"]
    assert "LAG-SECONDS" not in kohort("groups", "describe", "behind").stdout
    with urllib.request.urlopen(f"http://{broker.http}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    place = 'consumergroup="behind",partition="1",topic="orders"'
    assert f"kafka_consumergroup_lag{{{place}}} 6.0" in lines
    assert f"kafka_consumergroup_current_offset{{{place}}} 4.0" in lines
    assert 'kohort_consumergroup_partitions{consumergroup="behind",verdict="stop"} 1.0' in lines
    assert 'kafka_topic_partition_current_offset{partition="1",topic="orders"} 10.0' in lines


def test_a_killed_member_is_reported_as_died(
    kohort: Kohort, broker: BrokerProcess, environment: dict[str, str]
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", MORTAL, broker.bootstrap, TOPIC], stdout=subprocess.PIPE, env=environment
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"assigned\n"
    process.kill()
    process.communicate()

    def causes() -> list[dict[str, Any]]:
        return [each["cause"] for each in explained(kohort, "killed")["rebalances"]]

    wait_until(lambda: len(causes()) == 2, "the killed member's session has ended")
    lines = kohort("groups", "explain", "killed").stdout
    assert re.search(r"Cause: mortal-\w+ died, or was cut off from the network: its connection closed", lines)
    assert "session.timeout.ms" not in lines
    assert 0 < causes()[-1]["connection_closed_ms"] <= causes()[-1]["after_ms"]


def test_rebalances_before_a_restart_are_still_explained(kohort: Kohort, broker: BrokerProcess) -> None:
    with members(broker.bootstrap, "lasting", "w1"):
        pass

    def outcomes() -> list[str]:
        return [each["outcome"] for each in explained(kohort, "lasting")["rebalances"]]

    wait_until(lambda: outcomes() == ["stable", "empty"], "the last event stands in its topic")
    before = explained(kohort, "lasting")
    broker.restart(signal.SIGTERM)
    assert explained(kohort, "lasting") == before
    assert explained(kohort, "lasting", "--http", broker.http)["rebalances"] == []


def test_impossible_requests_are_refused_in_one_line(kohort: Kohort, broker: BrokerProcess) -> None:
    with members(broker.bootstrap, "witness", "w1"):
        pass
    wait_until(lambda: kohort("groups", "explain", "witness").returncode == 0, "events have their topic")
    for arguments in (["nosuch"], ["nosuch", "--http", broker.http]):
        done = kohort("groups", "explain", *arguments)
        code = "" if "--http" in arguments else " (GROUP_ID_NOT_FOUND)"
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr == f"kohort: Group nosuch not found.{code}\n"
    done = kohort("groups", "explain", "nosuch", "--http", "127.0.0.1:1")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "nothing serves HTTP at 127.0.0.1:1" in done.stderr
    done = kohort("groups", "describe", "nosuch", "--lag", "--members")
    assert done.returncode == 2
    assert os.linesep + "Error: --lag is about offsets" in done.stderr


def follow(environment: dict[str, str], *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*COMMAND, "groups", "explain", *arguments, "--follow"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )


def test_a_share_group_is_explained_by_its_records(
    kohort: Kohort, environment: dict[str, str], broker: BrokerProcess
) -> None:
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        settings = {"share.auto.offset.reset": "earliest", "share.record.lock.duration.ms": "60000"}
        admin.alter_configs(ResourceType.GROUP, "workers", values=settings)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(3):
        producer.produce("jobs", b"job %d" % number, partition=0)
    producer.flush(30)
    with ShareConsumer(
        "jobs",
        bootstrap_servers=broker.bootstrap,
        group_id="workers",
        client_id="w1",
        share_acknowledgement_mode="explicit",
    ) as consumer:
        found: list[ShareRecord] = []

        def are_there() -> bool:
            found.extend(consumer.poll(timeout_ms=100))
            return len(found) >= 3

        wait_until(are_there, "three records")
        assert [each.offset for each in found] == [0, 1, 2]
        consumer.acknowledge(found[0], AcknowledgeType.ACCEPT)
        consumer.acknowledge(found[1], AcknowledgeType.REJECT)
        consumer.commit()
        told = explained(kohort, "workers", "--http", broker.http)
        (partition,) = told["partitions"]
        assert (partition["topic"], partition["start_offset"], partition["end_offset"]) == ("jobs", 2, 3)
        (held,) = partition["held"]
        assert (held["first_offset"], held["last_offset"], held["delivery_count"]) == (2, 2, 1)
        (happened,) = partition["happened"]
        assert (happened["first_offset"], happened["outcome"], happened["reason"]) == (
            1,
            "given_up",
            "rejected",
        )
        lines = kohort("groups", "explain", "workers", "--http", broker.http).stdout.splitlines()
        assert re.fullmatch(r"workers: Stable, 1 member, epoch \d+, assigned in epoch \d+\.", lines[0])
        assert lines[1:3] == [
            "",
            "jobs 0: from offset 2 up to 3; 1 held, 0 to be handed out again, 0 without the dead letter due.",
        ]
        assert re.fullmatch(r"  offset 2: held by \S+ for .+, for .+ more, delivery 1", lines[3])
        assert re.fullmatch(r"  [-\d]+ [:\d]+  offset 1: \S+ rejected it, delivery 1: given up", lines[4])
        assert len(lines) == 5
        process = follow(environment, "workers", "--http", broker.http)
        assert process.stdout is not None
        assert "workers: Stable" in process.stdout.readline()
        consumer.acknowledge(found[2], AcknowledgeType.REJECT)
        consumer.commit()
        line = ""
        while "offset 2: " not in line or "rejected it" not in line:
            line = process.stdout.readline()
            assert line, process.stderr and process.stderr.read()
        assert line.startswith("jobs 0: ")
        process.send_signal(signal.SIGINT)
        assert (process.communicate(timeout=20)[1], process.returncode) == ("", 0)
    refused = kohort("groups", "explain", "workers")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "kohort groups explain workers --http HOST:PORT" in refused.stderr
