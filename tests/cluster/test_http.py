"""Any broker's HTTP address answers for the cluster, and says which other broker does not answer."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import Request, urlopen
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kohort.broker.http.mcp_sdk import is_installed
from kohort.client import ShareConsumer
from tests.cli import here
from tests.cluster.broker_cluster import PATIENCE_SECONDS, BrokerCluster
from tests.cluster.etcd_process import EtcdProcess
from tests.interop.broker_process import BrokerProcess
from tests.interop.waiting import wait_until

PARTITIONS = 6
GROUPS = 6
SECRET = "one secret"
SETTINGS = (
    "kohort.http.writes.enable=true",
    "share.coordinator.state.topic.num.partitions=3",
    "group.share.record.lock.duration.ms=30000",
    *(("kohort.mcp.enable=true",) if is_installed() else ()),
)


@pytest.fixture(scope="module")
def cluster(shared_etcd: EtcdProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerCluster]:
    """Three brokers that tests leave running."""
    with BrokerCluster(shared_etcd, uuid4().hex, tmp_path_factory.mktemp("http"), 3, *SETTINGS) as started:
        wait_until(lambda: len(brokers_of(started, 1)) == 3, "all are known", PATIENCE_SECONDS)
        yield started


def brokers_of(cluster: BrokerCluster, number: int) -> list[Any]:
    return list(get(cluster.brokers[number], "/api/v1/live/health")["brokers"])


def sizes_of(broker: BrokerProcess) -> list[int]:
    """Return the size of each broker's logs, as this one shows it."""
    return [each["facts"]["size_bytes"] for each in get(broker, "/api/v1/live/health")["brokers"]]


def get(broker: BrokerProcess, path: str, **headers: str) -> Any:
    with urlopen(Request(f"http://{broker.http}{path}", headers=headers), timeout=PATIENCE_SECONDS) as told:
        return json.load(told)


def refused(broker: BrokerProcess, path: str) -> tuple[int, str]:
    """Return the status and the words of an error."""
    with pytest.raises(HTTPError) as error:
        get(broker, path)
    return error.value.code, json.load(error.value)["error"]


def create(cluster: BrokerCluster, topic: str, replicas: int = 3) -> str:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic(topic, PARTITIONS, replicas)])[topic].result(PATIENCE_SECONDS)
    return topic


def produce(cluster: BrokerCluster, topic: str, each: int = 5) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for number in range(each * PARTITIONS):
        producer.produce(topic, str(number), partition=number % PARTITIONS)
    assert producer.flush(PATIENCE_SECONDS) == 0


def commit(cluster: BrokerCluster, group: str, topic: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group})
    consumer.commit(
        offsets=[TopicPartition(topic, index, offset) for index in range(PARTITIONS)], asynchronous=False
    )
    consumer.close()


def coordinator(cluster: BrokerCluster, group: str) -> int:
    """Return which broker has a group by itself."""
    path = f"/api/v1/groups/{quote(group, safe='')}?scope=broker"
    return next(number for number, each in cluster.brokers.items() if is_there(each, path))


def is_there(broker: BrokerProcess, path: str) -> bool:
    try:
        get(broker, path)
    except HTTPError as error:
        if error.code != 404:
            raise
        return False
    return True


@pytest.fixture(scope="module")
def groups(cluster: BrokerCluster) -> list[str]:
    """Groups with all coordinators, each 4 behind in each partition of `read`."""
    create(cluster, "read")
    produce(cluster, "read")
    names = [f"g{number}" for number in range(GROUPS)]
    for name in names:
        commit(cluster, name, "read", 1)
    assert len({coordinator(cluster, name) for name in names}) == 3
    return names


@pytest.mark.parametrize("number", [1, 2, 3])
def test_any_broker_lists_all_groups(cluster: BrokerCluster, groups: list[str], number: int) -> None:
    broker = cluster.brokers[number]
    told = get(broker, "/api/v1/groups")
    assert [each["group_id"] for each in told["groups"] if each["group_id"] in groups] == sorted(groups)
    assert (told["unanswered"], told["without_coordinator"], told["loading"]) == ([], [], [])
    for name in groups:
        assert (found := get(broker, f"/api/v1/groups/{name}"))["lag"] == 4 * PARTITIONS
        assert {each["lag"] for each in found["offsets"]} == {4}
    own = get(broker, "/api/v1/groups?scope=broker")["groups"]
    assert {each["group_id"] for each in own} & set(groups) == {
        name for name in groups if coordinator(cluster, name) == number
    }
    assert refused(broker, "/api/v1/groups/nobody") == (404, "there is no group nobody")


@pytest.mark.parametrize("number", [1, 2, 3])
def test_the_page_of_any_broker_shows_the_cluster(
    cluster: BrokerCluster, groups: list[str], number: int
) -> None:
    broker = cluster.brokers[number]
    shown = get(broker, "/api/v1/live/groups?order=name")
    assert [each["group_id"] for each in shown["groups"] if each["group_id"] in groups] == sorted(groups)
    assert {each["lag"] for each in shown["groups"] if each["group_id"] in groups} == {4 * PARTITIONS}
    assert shown["total"] >= GROUPS
    for name in groups:
        assert get(broker, f"/api/v1/live/group?id={name}")["lag"] == 4 * PARTITIONS
    (topic,) = get(broker, "/api/v1/live/topics?q=read")["topics"]
    assert topic["records"] == 5 * PARTITIONS
    partitions = get(broker, "/api/v1/live/topic?name=read")["partitions"]
    assert [each["high_watermark"] for each in partitions] == [5] * PARTITIONS
    for index in range(PARTITIONS):
        messages = get(broker, f"/api/v1/live/messages/read?partition={index}")
        assert len(messages["records"]) == 5
    everything = get(broker, "/api/v1/live/messages/read?partition=all&offset=0")
    assert len(everything["records"]) == everything["searched"] == 5 * PARTITIONS
    assert (everything["is_at_end"], everything["unanswered"], everything["not_searched"]) == (True, [], [])
    found = get(broker, "/api/v1/live/messages/read?partition=all&q=17")["records"]
    assert [(each["partition"], each["value"]["text"]) for each in found] == [(17 % PARTITIONS, "17")]
    readers = get(broker, "/api/v1/live/topic?name=read")["readers"]
    assert {each["group_id"]: each["lag"] for each in readers} == dict.fromkeys(groups, 4 * PARTITIONS)
    for name in groups:
        assert get(broker, f"/api/v1/live/history?kind=group&name={name}")["name"] == name
    assert get(broker, "/api/v1/live/history?kind=topic&name=read")["samples"] is not None
    assert get(broker, "/api/v1/live/transactions")["unanswered"] == []
    assert get(broker, "/api/v1/live/access")["is_hidden"] is False
    health = get(broker, "/api/v1/live/health")
    assert health["node_id"] == number
    assert (health["cluster"]["offline"], health["cluster"]["under_replicated"]) == (0, 0)
    wait_until(lambda: all(sizes_of(broker)), "a view is a second old at most", PATIENCE_SECONDS)
    assert [(each["node_id"], each["reasons"]) for each in health["brokers"]] == [
        (1, []),
        (2, []),
        (3, []),
    ]
    assert refused(broker, "/api/v1/live/group?id=nobody") == (404, "there is no group nobody")
    assert refused(broker, "/api/v1/live/nothing")[0] == 404
    assert refused(broker, "/api/v1/live/messages/read?partition=99")[0] == 503


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_feed_of_any_broker_is_of_the_cluster(
    cluster: BrokerCluster, groups: list[str], number: int
) -> None:
    for name in groups:
        with urlopen(
            f"http://{cluster.brokers[number].http}/api/v1/live/group/events?id={name}", timeout=10
        ) as feed:
            data = next(line for line in feed if line.startswith(b"data: "))
        assert json.loads(data.removeprefix(b"data: "))["lag"] == 4 * PARTITIONS


@pytest.mark.parametrize("name", ["a\nb", "a/b", "a%2Fb", "a b+c", "é\u2028"])
def test_any_broker_finds_a_group_with_any_name(cluster: BrokerCluster, name: str) -> None:
    create(cluster, topic := uuid4().hex)
    commit(cluster, name, topic, 0)
    for broker in cluster.brokers.values():
        assert get(broker, f"/api/v1/groups/{quote(name, safe='')}")["group_id"] == name


def test_one_address_is_enough_for_the_command_line(cluster: BrokerCluster, groups: list[str]) -> None:
    for broker in cluster.brokers.values():
        environment = {**os.environ, "KOHORT_HTTP": broker.http}
        for name in groups:
            done = here.kohort(
                "groups",
                "describe",
                name,
                "--lag",
                "--json",
                "-b",
                cluster.bootstrap,
                environment=environment,
            )
            assert done.returncode == 0, done.stderr
            (told,) = json.loads(done.stdout)
            assert all(each["lag_seconds"] is not None for each in told["offsets"]), told
            done = here.kohort("groups", "explain", name, environment=environment)
            assert done.returncode == 0, done.stderr


def test_any_broker_forwards_a_group_change_to_its_coordinator(cluster: BrokerCluster) -> None:
    create(cluster, topic := uuid4().hex)
    produce(cluster, topic)
    for number in range(GROUPS):
        commit(cluster, name := f"{topic}-{number}", topic, 1)
        broker = cluster.brokers[number % 3 + 1]
        assert write(broker, {"action": "reset", "group": name, "to": "latest"})
        assert get(broker, f"/api/v1/groups/{name}")["lag"] == 0
        assert write(broker, {"action": "delete", "group": name})
        assert refused(broker, f"/api/v1/groups/{name}")[0] == 404


def write(broker: BrokerProcess, change: dict[str, str]) -> str:
    asked = Request(
        f"http://{broker.http}/api/v1/live/write",
        json.dumps(change).encode(),
        {"x-kohort-write": "1", "content-type": "application/json"},
    )
    with urlopen(asked, timeout=PATIENCE_SECONDS) as told:
        return str(json.load(told)["done"])


def test_any_broker_explains_a_share_group_completely(cluster: BrokerCluster) -> None:
    create(cluster, topic := uuid4().hex)
    with ShareConsumer(bootstrap_servers=cluster.bootstrap, group_id=topic) as consumer:
        consumer.subscribe(topic)

        def are_all_held() -> bool:
            produce(cluster, topic, 1)
            consumer.poll(timeout_ms=500)
            path = f"/api/v1/share-groups/{topic}"
            first = cluster.brokers[1]
            return is_there(first, path) and len(get(first, path)["partitions"]) == PARTITIONS

        wait_until(are_all_held, "records of all partitions are in its hands", PATIENCE_SECONDS)
        for broker in cluster.brokers.values():
            told = get(broker, f"/api/v1/share-groups/{topic}")
            assert told["group"]["state"] == "Stable"
            assert [each["partition"] for each in told["partitions"]] == list(range(PARTITIONS))
            assert (told["brokers"], told["unanswered"]) == ([1, 2, 3], [])
    assert refused(cluster.brokers[1], "/api/v1/share-groups/nobody")[0] == 404


def test_a_broker_that_does_not_answer_is_named(shared_etcd: EtcdProcess, tmp_path: Path) -> None:
    settings = (*SETTINGS, "broker.session.timeout.ms=60000")
    with BrokerCluster(shared_etcd, uuid4().hex, tmp_path, 3, *settings) as cluster:
        create(cluster, "read", 1)
        for number in range(GROUPS):
            commit(cluster, f"g{number}", "read", 0)
        its = [f"g{number}" for number in range(GROUPS) if coordinator(cluster, f"g{number}") == 3]
        assert its
        first, last = cluster.brokers[1], cluster.brokers[3]
        os.kill(last.pid, signal.SIGSTOP)
        try:
            told = get(first, "/api/v1/groups")
            assert [each["broker"] for each in told["unanswered"]] == [3]
            assert len(told["groups"]) == GROUPS - len(its)
            status, words = refused(first, f"/api/v1/groups/{its[0]}")
            assert (status, words.partition(":")[0]) == (
                503,
                f"broker 3 coordinates group {its[0]} and does not answer",
            )
            assert [each["broker"] for each in get(first, "/api/v1/live/groups")["unanswered"]] == [3]
            done = here.kohort(
                "groups", "explain", its[0], "--http", first.http, environment=dict(os.environ)
            )
            assert done.returncode != 0
            assert "broker 3 coordinates group" in done.stderr
            (other, *_) = {f"g{number}" for number in range(GROUPS)} - set(its)
            command = ("groups", "explain", other, "--http", first.http)
            done = here.kohort(*command, environment=dict(os.environ))
            assert done.returncode == 0, done.stderr
        finally:
            os.kill(last.pid, signal.SIGCONT)
        wait_until(lambda: not get(first, "/api/v1/groups")["unanswered"], "it answers", PATIENCE_SECONDS)
        assert get(first, f"/api/v1/groups/{its[0]}")["group_id"] == its[0]


@pytest.mark.skipif(not is_installed(), reason="the extra mcp is not installed")
def test_agents_are_told_of_the_groups_of_all_coordinators(cluster: BrokerCluster, groups: list[str]) -> None:
    assert len({coordinator(cluster, each) for each in groups}) > 1
    for broker in cluster.brokers.values():
        told = agents_answer(broker, "list_groups", search="g", order="name")
        assert {*groups} <= {each["group_id"] for each in told["groups"]}
        for each in groups:
            assert agents_answer(broker, "group_lag", group=each)["lag"] == 4 * PARTITIONS


def agents_answer(broker: BrokerProcess, tool: str, **arguments: str) -> Any:
    """Return what a tool answers at `/mcp`."""
    call = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": tool, "arguments": arguments},
    }
    headers = {
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": "2025-06-18",
    }
    asked = Request(f"http://{broker.http}/mcp", json.dumps(call).encode(), headers)
    with urlopen(asked, timeout=PATIENCE_SECONDS) as told:
        return json.load(told)["result"]["structuredContent"]


def test_secrets_are_checked_once_and_not_forwarded(shared_etcd: EtcdProcess, tmp_path: Path) -> None:
    secrets = tmp_path / "secrets"
    secrets.write_text(f"someone:{SECRET}\n")
    secrets.chmod(0o600)
    with BrokerCluster(
        shared_etcd, uuid4().hex, tmp_path, 2, f"kohort.http.credentials.file={secrets}",
        "offsets.topic.replication.factor=2",
    ) as cluster:  # fmt: skip
        create(cluster, "read", 2)
        for number in range(GROUPS):
            commit(cluster, f"g{number}", "read", 0)
        for broker in cluster.brokers.values():
            assert refused(broker, "/api/v1/groups")[0] == 401
            told = get(broker, "/api/v1/groups", authorization=f"Bearer {SECRET}")
            assert len(told["groups"]) == GROUPS


def test_a_broker_without_writes_cannot_make_another_one_write(
    shared_etcd: EtcdProcess, tmp_path: Path
) -> None:
    with BrokerCluster(
        shared_etcd, uuid4().hex, tmp_path, 2, "offsets.topic.replication.factor=2"
    ) as cluster:
        writer = cluster.brokers[1]
        writer.stop()
        writer.settings = (*writer.settings, "kohort.http.writes.enable=true")
        writer.start()
        create(cluster, "read", 2)
        for number in range(GROUPS):
            commit(cluster, f"g{number}", "read", 0)
        its = {f"g{number}" for number in range(GROUPS) if coordinator(cluster, f"g{number}") == 1}
        others = {f"g{number}" for number in range(GROUPS)} - its
        assert its
        assert others
        for broker, groups in ((cluster.brokers[2], its), (cluster.brokers[2], others), (writer, others)):
            for name in groups:
                with pytest.raises(HTTPError, match="403"):
                    write(broker, {"action": "delete", "group": name})
        assert all(write(writer, {"action": "delete", "group": name}) for name in its)
