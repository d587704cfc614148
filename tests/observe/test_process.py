"""The observer's process: what it says, and that it goes on where it was however it ended."""

from __future__ import annotations

import json
import subprocess
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kohort.client import Acl, AclFilter, AclOperation, AclResourceType, Admin, NewTopic
from tests.interop.broker_process import BrokerProcess
from tests.interop.clients import ALL_CLIENTS, ConsumerOptions, Outgoing
from tests.interop.members import Member
from tests.interop.waiting import wait_until
from tests.observe.observer_process import COMMAND, ObserverProcess

JOINED, LEFT = "a member joined", "a member left"
KOHORT = ALL_CLIENTS["kohort"]
SETTINGS = (
    "group.initial.rebalance.delay.ms=0",
    "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found=true",
)


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    broker = BrokerProcess(tmp_path_factory.mktemp("observed"), *SETTINGS)
    broker.start()
    yield broker.bootstrap
    broker.stop()


def produce(bootstrap: str, topic: str) -> None:
    KOHORT.produce(bootstrap, topic, [Outgoing(b"x", partition=each % 3) for each in range(30)])


@pytest.fixture
def topic(bootstrap: str) -> str:
    name = f"topic-{uuid.uuid4().hex[:8]}"
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics(NewTopic(name, partitions=3))
    produce(bootstrap, name)
    return name


@pytest.fixture
def observer(bootstrap: str, tmp_path: Path) -> Iterator[ObserverProcess]:
    process = ObserverProcess(bootstrap, tmp_path)
    process.start()
    yield process
    process.kill()


def explain(observer: ObserverProcess, group_id: str, *options: str) -> str:
    command = [*COMMAND, "groups", "explain", group_id, "--http", observer.http, *options]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout


def member(bootstrap: str, group_id: str, topic: str) -> Member:
    return Member(KOHORT, bootstrap, ConsumerOptions(group=group_id, topics=[topic]))


def test_a_group_is_explained_by_the_command_line(
    bootstrap: str, topic: str, observer: ObserverProcess
) -> None:
    group_id = f"group-{uuid.uuid4().hex[:8]}"
    one = member(bootstrap, group_id, topic)
    observer.wait_for(group_id, JOINED)
    two = member(bootstrap, group_id, topic)
    wait_until(lambda: observer.kinds(group_id) == [JOINED, JOINED], "two have joined")
    produce(bootstrap, topic)
    wait_until(lambda: two.records, "the second member reads")
    two.call(lambda consumer: consumer.commit())
    two.close()
    observer.wait_for(group_id, LEFT)
    told = explain(observer, group_id)
    assert "Cause (certain): " in told
    assert "Cause (likely): " in told
    answer = json.loads(explain(observer, group_id, "--json", "--last", "1"))
    assert answer["observed"][0]["findings"][0]["kind"] == LEFT
    assert answer["cannot_know"] == []
    one.close()
    described = subprocess.run(
        [*COMMAND, "groups", "describe", group_id, "--lag", "--http", observer.http, "-b", bootstrap],
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    assert "LAG-SECONDS" in described.stdout
    assert f'kminion_kafka_consumer_group_members{{group_id="{group_id}"}}' in observer.page("/metrics")


def test_the_live_page_shows_groups_their_history_and_the_cluster(
    bootstrap: str, topic: str, observer: ObserverProcess
) -> None:
    group_id = f"group-{uuid.uuid4().hex[:8]}"
    one = member(bootstrap, group_id, topic)
    observer.wait_for(group_id, JOINED)
    request = urllib.request.Request(f"http://{observer.http}/", headers={"accept": "text/html"})
    with urllib.request.urlopen(request, timeout=10) as answer:
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert b"/page/app.js" in answer.read()
    assert "timeline" in observer.page("/page/groups.js")
    groups = json.loads(observer.page("/api/v1/live/groups"))["groups"]
    assert {each["group_id"]: each["cause"] for each in groups}[group_id] == JOINED
    one.call(lambda consumer: consumer.commit())
    wait_until(lambda: _live(observer, group_id)["offsets"], "its offsets are shown")
    shown = _live(observer, group_id)
    assert [each["cause"] for each in shown["rebalances"]] == [JOINED]
    assert shown["members"][0]["last_commit_ms"] > 0
    cluster = json.loads(observer.page("/api/v1/live/health"))
    assert [f"{each['host']}:{each['port']}" for each in cluster["brokers"]] == [bootstrap]
    assert cluster["controller"] == cluster["brokers"][0]["node_id"]
    assert cluster["brokers"][0]["in_sync"] == cluster["cluster"]["partitions"] > 0
    one.close()


@pytest.mark.parametrize("kills", range(3))
def test_a_killed_observer_goes_on_where_it_was(
    bootstrap: str, topic: str, observer: ObserverProcess, kills: int
) -> None:
    group_id = f"group-{uuid.uuid4().hex[:8]}"
    members = []
    for _ in range(3):
        members.append(member(bootstrap, group_id, topic))
        wait_until(lambda: all(each.assignment for each in members), "all have partitions")
        for _ in range(kills):
            observer.kill()
            observer.start()
    for each in members:
        each.close()
    wait_until(lambda: _is_told_empty(observer, group_id), "the last change is told")
    observer.kill()
    observer.start()
    wait_until(lambda: _is_told_empty(observer, group_id), "it is known after the restart, too")
    generations = observer.explanations(group_id)[-1]["generation_id"]
    assert observer.changes(group_id) == generations  # None was lost, and none is told twice.
    assert observer.stop() == 0


def test_without_the_right_to_read_it_describes_and_says_what_it_cannot_know(
    bootstrap: str, topic: str, tmp_path: Path
) -> None:
    group_id = f"group-{uuid.uuid4().hex[:8]}"
    guard = Acl("User:somebody", AclOperation.READ, AclResourceType.TOPIC, "__consumer_offsets")
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_acls(guard)
        observer = ObserverProcess(bootstrap, tmp_path)
        try:
            observer.start()
            one = member(bootstrap, group_id, topic)
            wait_until(lambda: observer.explanations(group_id) or _is_seen(observer, group_id), "it is seen")
            two = member(bootstrap, group_id, topic)
            observer.wait_for(group_id, JOINED)
            told = explain(observer, group_id)
            assert "Not known: __consumer_offsets may not be read" in told
            two.close()
            wait_until(lambda: observer.kinds(group_id)[-1] == LEFT, "one has left")
            found = observer.explanations(group_id)[-1]["findings"]
            assert {each["likelihood"] for each in found} == {"possible"}
            admin.delete_acls(AclFilter(resource_type=AclResourceType.TOPIC))
            wait_until(lambda: _reads_records(observer), "it reads records once it may")
            one.close()
            wait_until(lambda: _is_told_empty(observer, group_id), "the last member's end is told")
            assert observer.kinds(group_id) == [JOINED, LEFT, LEFT]  # Nothing is told twice.
            assert observer.group(group_id)["cannot_know"] == []
        finally:
            observer.kill()
            admin.delete_acls(AclFilter(resource_type=AclResourceType.TOPIC))


def test_several_clusters_are_told_apart_and_one_that_is_down_disturbs_none(
    bootstrap: str, topic: str, tmp_path: Path
) -> None:
    group_id = f"group-{uuid.uuid4().hex[:8]}"
    (tmp_path / "other").mkdir()
    other = BrokerProcess(tmp_path / "other", *SETTINGS)
    other.start()
    observer = ObserverProcess(f"one={bootstrap} two={other.bootstrap} gone=127.0.0.1:1", tmp_path)
    try:
        observer.start()
        with Admin(bootstrap_servers=other.bootstrap) as admin:
            admin.create_topics(NewTopic(topic, partitions=3))
        first = member(bootstrap, group_id, topic)
        wait_until(lambda: JOINED in observer.kinds(group_id), "the only cluster with the group tells of it")
        second = member(other.bootstrap, group_id, topic)
        two = f"{observer.http}/two"
        wait_until(lambda: "joined" in _explained(two, group_id), "the other cluster's group is seen")
        assert "one and two have a group" in _explained(observer.http, group_id)
        assert "joined" in _explained(f"{observer.http}/one", group_id)
        wait_until(lambda: "127.0.0.1:1" in _clusters(observer)["gone"]["problem"], "one is told as down")
        assert [*_clusters(observer)] == ["one", "two", "gone"]
        assert _clusters(observer)["one"]["is_ready"]
        metrics = observer.page("/metrics")
        series = 'kminion_kafka_consumer_group_members{cluster="%s",group_id="%s"} 1.0'
        assert series % ("one", group_id) in metrics
        assert series % ("two", group_id) in metrics
        first.close()
        second.close()
        assert observer.stop() == 0
    finally:
        observer.kill()
        other.stop()


def test_two_names_of_one_cluster_are_refused(bootstrap: str, tmp_path: Path) -> None:
    command = [*COMMAND, "observe", "--http", "127.0.0.1:0", "--store", str(tmp_path / "o.db")]
    command += ["--cluster", f"a={bootstrap}", "--cluster", f"b={bootstrap}"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert ended.returncode == 1
    assert "are the same cluster" in ended.stderr


def _live(observer: ObserverProcess, group_id: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(observer.page(f"/api/v1/live/group?id={group_id}"))
    return found


def _clusters(observer: ObserverProcess) -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in json.loads(observer.page("/api/v1/clusters"))}


def _explained(http: str, group_id: str) -> str:
    command = [*COMMAND, "groups", "explain", group_id, "--http", http]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    return ended.stdout + ended.stderr


def _is_told_empty(observer: ObserverProcess, group_id: str) -> bool:
    told = observer.explanations(group_id)
    return bool(told) and told[-1]["members"] == 0


def _reads_records(observer: ObserverProcess) -> bool:
    status = json.loads(observer.page("/api/v1/cluster"))
    return bool(status["reads_records"] and status["is_caught_up"])


def _is_seen(observer: ObserverProcess, group_id: str) -> bool:
    return any(each["group_id"] == group_id for each in json.loads(observer.page("/api/v1/groups")))
