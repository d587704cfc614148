"""Share and streams groups as the observer follows them, on kohort's broker and on Apache Kafka's."""

from __future__ import annotations

import subprocess
import threading
import urllib.error
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trio

from kohort.broker.group.streams.test_world import application, subtopology
from kohort.client import Admin, NewTopic, Producer, ResourceType, ShareConsumer
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kohort.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)
from tests.differential.apache_kafka import running
from tests.differential.wire import Connection
from tests.interop.broker_process import BrokerProcess
from tests.interop.threads import meanwhile
from tests.interop.waiting import wait_until
from tests.observe.observer_process import COMMAND, ObserverProcess
from tests.repetitions import some_by_day

JOINED, LEFT = "a member joined", "a member left"
SETTINGS = (
    "share.coordinator.state.topic.replication.factor=1",
    "share.coordinator.state.topic.min.isr=1",
    "group.share.assignment.interval.ms=0",
    "group.streams.assignment.interval.ms=0",
    "group.streams.initial.rebalance.delay.ms=0",
)
LOADING = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
}
PATIENCE_S = 60.0


@pytest.fixture(scope="module", params=some_by_day(("kohort", "kafka"), "kohort"))
def bootstrap(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "kafka":
        with running(folder, *SETTINGS) as found:
            yield found
        return
    broker = BrokerProcess(folder, *SETTINGS)
    broker.start()
    yield broker.bootstrap
    broker.stop()


@pytest.fixture
def observer(bootstrap: str, tmp_path: Path) -> Iterator[ObserverProcess]:
    process = ObserverProcess(bootstrap, tmp_path)
    process.start()
    wait_until(lambda: is_ready(process), "the observer has read all records", PATIENCE_S)
    yield process
    process.kill()


def is_ready(observer: ObserverProcess) -> bool:
    try:
        return bool(observer.page("/health/ready"))
    except urllib.error.HTTPError:
        return False


@pytest.fixture
def topic(bootstrap: str) -> str:
    name = f"topic-{uuid.uuid4().hex[:8]}"
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics(NewTopic(name, partitions=2))
    return name


def new_group() -> str:
    return f"group-{uuid.uuid4().hex[:8]}"


@contextmanager
def share_member(bootstrap: str, group_id: str, topic: str) -> Iterator[None]:
    """Be a member of a share group that reads and accepts, in a thread of its own."""

    def read(ends: threading.Event) -> None:
        with ShareConsumer(topic, bootstrap_servers=bootstrap, group_id=group_id) as consumer:
            while not ends.is_set():
                consumer.poll(timeout_ms=100)

    with meanwhile(read):
        yield


class StreamsMember:
    """Sends the heartbeats of a member of a streams group."""

    def __init__(self, bootstrap: str, group_id: str) -> None:
        host, _, port = bootstrap.rpartition(":")
        self._line = Connection((host, int(port)))
        self._group_id = group_id
        self._member_id = str(uuid.uuid4())

    def find_coordinator(self) -> None:
        """Return once the group has a coordinator."""
        wait_until(self._has_coordinator, "the group has a coordinator", PATIENCE_S)

    def _has_coordinator(self) -> bool:
        request = FindCoordinatorRequest(coordinator_keys=(self._group_id,))
        answer = self._ask("FindCoordinator", 4, request)
        assert isinstance(answer, FindCoordinatorResponse)
        return not answer.coordinators[0].error_code

    def join(self, *sources: str) -> None:
        """Join with an application that reads these topics."""
        topology = application(subtopology("0", *sources))
        self._beat(
            member_epoch=0,
            rebalance_timeout_ms=300_000,
            topology=topology,
            active_tasks=(),
            standby_tasks=(),
            warmup_tasks=(),
            process_id=self._member_id,
            client_tags=(),
        )

    def leave(self) -> None:
        """Leave the group, and close the connection."""
        self._beat(member_epoch=-1)
        self._line.close()

    def _beat(self, **told: object) -> None:
        def is_answered() -> bool:
            request = StreamsGroupHeartbeatRequest(
                group_id=self._group_id, member_id=self._member_id, endpoint_information_epoch=-1, **told
            )
            answer = self._ask("StreamsGroupHeartbeat", 0, request)
            assert isinstance(answer, StreamsGroupHeartbeatResponse)
            if answer.error_code in LOADING:
                return False
            assert not answer.error_code, answer
            return True

        wait_until(is_answered, "a heartbeat is answered", PATIENCE_S)

    def _ask(self, name: str, version: int, request: object) -> object:
        return trio.run(self._line.ask, name, version, request)


def explained(observer: ObserverProcess, group_id: str) -> str:
    command = [*COMMAND, "groups", "explain", group_id, "--http", observer.http]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE_S).stdout


def test_a_share_group_is_explained_with_where_it_begins(
    bootstrap: str, topic: str, observer: ObserverProcess
) -> None:
    group_id = new_group()
    with Admin(bootstrap_servers=bootstrap) as admin:
        earliest = {"share.auto.offset.reset": "earliest"}
        admin.alter_configs(ResourceType.GROUP, group_id, values=earliest)
    with share_member(bootstrap, group_id, topic):
        wait_until(lambda: joined_or_left(observer, group_id) == [JOINED], "one has joined", PATIENCE_S)
        with share_member(bootstrap, group_id, topic):
            wait_until(
                lambda: joined_or_left(observer, group_id) == [JOINED, JOINED], "two have joined", PATIENCE_S
            )
            group = observer.group(group_id)
            assert (group["type"], group["member_count"]) == ("share", 2)
            with Producer(bootstrap_servers=bootstrap) as producer:
                for each in range(20):
                    producer.send(topic, b"x", partition=each % 2)

            def is_read() -> bool:
                offsets = observer.group(group_id)["offsets"]
                return sum(each["offset"] for each in offsets) == 20 and {
                    each["lag"] for each in offsets
                } == {0}

            wait_until(is_read, "the group has acknowledged all records", PATIENCE_S)
        observer.wait_for(group_id, LEFT, PATIENCE_S)
    wait_until(lambda: observer.group(group_id)["member_count"] == 0, "nobody is left", PATIENCE_S)
    everybody = [JOINED, JOINED, LEFT, LEFT]
    wait_until(lambda: joined_or_left(observer, group_id) == everybody, "all is told", PATIENCE_S)
    told = explained(observer, group_id)
    assert "Cause (possible): " in told
    assert "joined" in told
    before = observer.kinds(group_id)
    observer.kill()
    observer.start()
    wait_until(lambda: observer.kinds(group_id) == before, "as before", PATIENCE_S)


def test_a_streams_group_is_explained_with_its_topology(
    bootstrap: str, topic: str, observer: ObserverProcess
) -> None:
    group_id = new_group()
    one = StreamsMember(bootstrap, group_id)
    one.find_coordinator()
    one.join(topic)
    observer.wait_for(group_id, JOINED, PATIENCE_S)
    wait_until(lambda: owned(observer, group_id) == [[[topic, 0], [topic, 1]]], "it has tasks", PATIENCE_S)
    assert observer.group(group_id)["type"] == "streams"
    other = StreamsMember(bootstrap, group_id)
    other.join(topic)
    wait_until(lambda: joined_or_left(observer, group_id) == [JOINED, JOINED], "two have joined", PATIENCE_S)
    assert sorted(owned(observer, group_id)) == [[[topic, 0]], [[topic, 1]]]
    other.leave()
    observer.wait_for(group_id, LEFT, PATIENCE_S)
    told = explained(observer, group_id)
    assert "epoch" in told
    one.leave()
    wait_until(lambda: observer.group(group_id)["member_count"] == 0, "nobody is left", PATIENCE_S)


def joined_or_left(observer: ObserverProcess, group_id: str) -> list[str]:
    """Return the first finding of each explanation for a member that joined or left."""
    return [each for each in observer.kinds(group_id) if each in {JOINED, LEFT}]


def owned(observer: ObserverProcess, group_id: str) -> list[list[object]]:
    """Return the partitions of each member."""
    return [each["partitions"] for each in observer.group(group_id)["members"]]
