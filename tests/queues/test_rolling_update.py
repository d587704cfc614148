"""A rolling update as Kubernetes makes it, of deploy/kubernetes/workers: no group is rebalanced for it.

Each pod is a process with the command and the environment of its manifest. One after the other is ended by
SIGTERM and started again under its name, once the one before it is ready. Their group's generation stays.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from kohort.client import Admin, Consumer, NewTopic, Producer
from kohort.client.config import INSTANCE_ID_VARIABLE
from kohort.protocol.offsets_topic import GroupMetadataRecord, decode_record
from tests.interop.waiting import wait_until
from tests.packaging.test_kubernetes import WORKERS, container, manifests
from tests.ports import free_port
from tests.queues.service import http_double
from tests.repetitions import only_by_night

READY_S = 90.0
PARTITIONS = 6
TOPICS = ("payments", "orders", "parcels")
TOPICS_OF_FORWARD = 4  # A worker reads the three of its retries, too.


class Pod:
    """A pod. That of a StatefulSet keeps its name and its address; its process is another one each time."""

    def __init__(self, stateful: dict[str, Any], ordinal: int, bootstrap: str, folder: Path) -> None:
        self.name = f"{stateful['metadata']['name']}-{ordinal}"
        self._ours, self._folder = container(stateful), folder
        self._grace_s = stateful["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
        self._joined = folder / f"{self.name}.joined"
        self.address = f"127.0.0.1:{free_port()}"
        self.environment = {
            **os.environ,
            "KOHORT_BOOTSTRAP_SERVERS": bootstrap,
            **({INSTANCE_ID_VARIABLE: self.name} if stateful["kind"] == "StatefulSet" else {}),
            "JOINED_FILE": str(self._joined),
        }
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def _command(self) -> list[str]:
        if "command" in self._ours:
            return [sys.executable, *self._ours["command"][1:]]
        words = list(self._ours["args"])
        words[words.index("--http") + 1] = self.address
        return [sys.executable, "-m", "kohort.cli", *words]

    def start(self) -> None:
        self._joined.unlink(missing_ok=True)
        with (self._folder / f"{self.name}.log").open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdout=log, stderr=log, cwd=self._folder, env=self.environment
            )

    def is_ready(self) -> bool:
        """Return what its readiness probe says."""
        assert self._process is not None
        assert self._process.poll() is None, self.log()
        if "command" in self._ours:
            return self._joined.exists()
        try:
            with urllib.request.urlopen(f"http://{self.address}/health/ready", timeout=10) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def wait_ready(self) -> None:
        wait_until(self.is_ready, f"{self.name} is ready", READY_S)

    def stop(self) -> None:
        """End it as the kubelet does, within its grace period."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        assert self._process.wait(self._grace_s) == 0, self.log()

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def log(self) -> str:
        return (self._folder / f"{self.name}.log").read_text(encoding="utf-8")


class Places:
    """Who has what in a group, by the instance ids of its members, and their ids: new ones after a rejoin."""

    def __init__(self, bootstrap: str, group_id: str) -> None:
        self._options, self._group_id = {"bootstrap_servers": bootstrap}, group_id

    def now(self) -> tuple[str, dict[str, tuple[str, ...]]]:
        """Return the group's state, and what each member has."""
        with Admin(**self._options) as admin:  # type: ignore[arg-type]  # Of one name.
            found = admin.describe_groups(self._group_id)[self._group_id]
        members = {
            each.group_instance_id or each.member_id: tuple(
                f"{topic}-{number}"
                for topic, numbers in sorted(each.assignment.items())
                for number in sorted(numbers)
            )
            for each in found.members
        }
        return str(found.state).lower(), members


@pytest.fixture
def pods(bootstrap: str, tmp_path: Path) -> Iterator[Any]:
    """Start the pods of a StatefulSet, all at once; what runs at the end of the test is killed."""
    folder = tmp_path / "code"
    shutil.copytree(WORKERS / "code", folder)
    with Admin(bootstrap_servers=bootstrap) as admin:
        missing = set(TOPICS) - set(admin.list_topics())
        admin.create_topics(*(NewTopic(each, partitions=PARTITIONS) for each in sorted(missing)))
    running: list[Pod] = []

    def start(file: str, name: str) -> list[Pod]:
        (stateful,) = (
            each
            for each in manifests(WORKERS / file)
            if each["metadata"]["name"] == name and "template" in each["spec"]
        )
        found = [Pod(stateful, each, bootstrap, folder) for each in range(stateful["spec"]["replicas"])]
        running.extend(found)
        for each in found:
            each.start()
        for each in found:
            each.wait_ready()
        return found

    def kill_all() -> None:
        for each in running:
            each.kill()

    with ExitStack() as stack:
        service = stack.enter_context(http_double())
        settings = folder / "forward.toml"
        text = settings.read_text(encoding="utf-8")
        text = text.replace("http://shop:8080/parcels", service.url).replace('["shop"]', '["127.0.0.1"]')
        settings.write_text(text, encoding="utf-8")
        stack.callback(kill_all)
        start.service = service  # type: ignore[attr-defined]  # Whom records are pushed to.
        yield start


def told(pod: Pod) -> dict[str, Any]:
    """Return what a pod's JSON says of itself, or of its only destination."""
    with urllib.request.urlopen(f"http://{pod.address}/api/v1/worker", timeout=10) as answer:
        found: dict[str, Any] = json.loads(answer.read())
    return found["destinations"][0] if found["kind"] == "forward" else found


def generations(pods: list[Pod]) -> list[int]:
    return [told(each)["generation_id"] for each in pods]


def have_settled(pods: list[Pod], places: Places, partitions: int) -> bool:
    """Return whether all partitions are assigned, and all pods are in one generation and have them.

    Then no rebalance is due: a partition that one member has to give up to another has no owner in between.
    """
    state, assigned = places.now()
    if state != "stable" or sum(map(len, assigned.values())) < partitions:
        return False
    states = [told(each) for each in pods]
    shares = [each["partitions"] for each in states]
    counts = [each if isinstance(each, int | float) else len(each) for each in shares]
    return (
        len({each["generation_id"] for each in states}) == 1 and min(counts) > 0 and sum(counts) >= partitions
    )


KINDS = [
    ("queue.yaml", "orders-workers", "kmq-orders", "orders"),
    pytest.param(("queue.yaml", "orders-trackers", "kmq-orders-redelivery", "orders"), marks=only_by_night),
    ("forward.yaml", "parcels-forward", "forward-parcels", "parcels"),
    pytest.param(("region.yaml", "totals-members", "totals-members", "payments"), marks=only_by_night),
]
NAMES = ("orders-workers", "orders-trackers", "parcels-forward", "totals-members")


@pytest.mark.parametrize("kind", KINDS, ids=NAMES)
def test_workers_that_are_replaced_one_by_one_keep_their_groups_generation(
    bootstrap: str, pods: Any, kind: tuple[str, str, str, str]
) -> None:
    file, name, group_id, topic = kind
    if file == "region.yaml":
        pods(file, "totals-coordinators")
    partitions = PARTITIONS * (TOPICS_OF_FORWARD if name == "parcels-forward" else 1)
    all_of_them = pods(file, name)
    group = Places(bootstrap, group_id)
    wait_until(lambda: have_settled(all_of_them, group, partitions), "the group has settled", READY_S)
    before, places = generations(all_of_them), group.now()
    assert journal_generation(bootstrap, group_id) == before[0]
    assert set(places[1]) == {each.name for each in all_of_them}, "the pods' names are the members'"
    value = b"1" if topic == "payments" else b"ok"
    with Producer(bootstrap_servers=bootstrap) as producer:
        for number, pod in enumerate(reversed(all_of_them)):
            producer.send(topic, value, partition=number)
            pod.stop()
            assert group.now() == places, "its place is kept while it is away"
            producer.send(topic, value, partition=number)
            pod.start()
            pod.wait_ready()
            assert generations(all_of_them) == before
    wait_until(lambda: have_settled(all_of_them, group, partitions), "all have their partitions", READY_S)
    assert generations(all_of_them) == before
    assert group.now() == places
    assert journal_generation(bootstrap, group_id) == before[0]
    if file == "region.yaml":
        wait_until(lambda: told(all_of_them[0])["phase"] == "running", "the region goes on", READY_S)
        assert told(all_of_them[0])["resets"] <= len(all_of_them), "one for each pod that was replaced"
    if name == "parcels-forward":
        sent = 2 * len(all_of_them)
        wait_until(lambda: len(pods.service.pushes) >= sent, "what came meanwhile is pushed")


def test_a_consumer_of_ones_own_keeps_its_groups_generation(bootstrap: str, pods: Any) -> None:
    all_of_them = pods("consumer.yaml", "readers")

    def is_settled() -> bool:
        state, members = Places(bootstrap, "readers").now()
        shares = [len(each) for each in members.values()]
        return state == "stable" and len(shares) == len(all_of_them) and sum(shares) == PARTITIONS

    wait_until(is_settled, "the group has settled", READY_S)
    places = Places(bootstrap, "readers").now()
    generation_id = journal_generation(bootstrap, "readers")
    with Producer(bootstrap_servers=bootstrap) as producer:
        for pod in reversed(all_of_them):
            pod.stop()
            for partition in range(PARTITIONS):
                producer.send("payments", b"1", partition=partition)
            pod.start()
            pod.wait_ready()
            assert Places(bootstrap, "readers").now() == places
    assert journal_generation(bootstrap, "readers") == generation_id

    def is_all_read() -> bool:
        lines = [
            line for pod in all_of_them for line in pod.log().splitlines() if line.startswith("payments ")
        ]
        return len(set(lines)) >= PARTITIONS * len(all_of_them)

    wait_until(is_all_read, "what came meanwhile is read", READY_S)


def journal_generation(bootstrap: str, group_id: str) -> int:
    """Return the generation that the group's last metadata in __consumer_offsets has."""
    newest = -1
    with Consumer(bootstrap_servers=bootstrap, exclude_internal_topics=False) as consumer:
        partitions = consumer.partitions_for("__consumer_offsets")
        consumer.assign(*partitions)
        consumer.seek_to_beginning(*partitions)
        ends = consumer.end_offsets(*partitions)
        while any(consumer.position(each) < ends[each] for each in partitions):
            for record in consumer.poll(timeout_ms=500):
                found = decode_record(record.key or b"", record.value)
                if isinstance(found, GroupMetadataRecord) and found.key.group == group_id and found.value:
                    newest = found.value.generation
    return newest


def test_members_without_names_are_a_rebalance_each_time(bootstrap: str, pods: Any) -> None:
    """What the tests above look at does change, where pods are those of a Deployment."""
    with Admin(bootstrap_servers=bootstrap) as admin:  # The names of a test before, as after a scale-down.
        if any(each.group_id == "readers" for each in admin.list_groups()):
            static = Places(bootstrap, "readers").now()[1]
            admin.remove_group_members("readers", group_instance_ids=static)
    first, *_ = all_of_them = pods("consumer-deployment.yaml", "readers-scaled")

    def members() -> int:
        return len(Places(bootstrap, "readers").now()[1])

    wait_until(lambda: members() == len(all_of_them), "all are in the group", READY_S)
    before = journal_generation(bootstrap, "readers")
    first.stop()
    wait_until(lambda: journal_generation(bootstrap, "readers") > before, "others are rebalanced", READY_S)
    assert members() == len(all_of_them) - 1
