"""`group_protocol="consumer"` (KIP-848) against kohort, and with KOHORT_TEST_MIXED=1 against Apache Kafka."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from typing import Any, cast

import anyio
import pytest

from kohort.client import (
    Admin,
    BrokerError,
    ClusterConnection,
    CommitFailedError,
    Consumer,
    GroupMetadata,
    KohortError,
    NewTopic,
    OffsetAndMetadata,
    Producer,
    RebalanceListener,
    TopicPartition,
    UnsupportedVersionError,
    aio,
)
from kohort.client.cluster import Cluster
from kohort.client.config import ConsumerOptions, admin_config
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from tests.client.conftest import BOOTSTRAP_VARIABLE
from tests.differential import apache_kafka
from tests.interop.broker_process import BrokerProcess
from tests.interop.conftest import MIXED_VARIABLE
from tests.interop.waiting import wait_until

SETTINGS = (
    "group.consumer.heartbeat.interval.ms=200",
    "group.consumer.session.timeout.ms=1500",
    "group.consumer.min.heartbeat.interval.ms=100",
    "group.consumer.min.session.timeout.ms=500",
)
OF_KAFKA = (
    "transaction.state.log.replication.factor=1",
    "transaction.state.log.min.isr=1",
)
only_mixed = pytest.mark.skipif(MIXED_VARIABLE not in os.environ, reason="KOHORT_TEST_MIXED=1 runs it")
both_loops = pytest.mark.parametrize("loop", ["asyncio", "trio"])
MakeTopic = Callable[[int], str]


@pytest.fixture(scope="module", params=["kohort", pytest.param("apache", marks=only_mixed)])
def bootstrap(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where each of the two brokers listens, in turn; their consumer groups are quick."""
    folder = tmp_path_factory.mktemp("broker")
    if request.param == "apache":
        with apache_kafka.running(folder, *SETTINGS, *OF_KAFKA) as address:
            yield address
    elif BOOTSTRAP_VARIABLE in os.environ:
        pytest.skip(f"{BOOTSTRAP_VARIABLE} names a broker whose groups may be slow")
    else:
        own = BrokerProcess(folder, *SETTINGS, "offsets.topic.replication.factor=1")
        own.start()
        yield own.bootstrap
        own.stop()


def options(bootstrap: str, group: str, **more: Any) -> ConsumerOptions:
    """Settings of a member."""
    found: dict[str, Any] = {
        "bootstrap_servers": bootstrap,
        "group_id": group,
        "group_protocol": "consumer",
        "auto_offset_reset": "earliest",
        **more,
    }
    return cast("ConsumerOptions", found)


def produce(bootstrap: str, topic: str, values: range, partitions: int) -> None:
    """Write these numbers to the partitions in turn."""
    with Producer(bootstrap_servers=bootstrap) as producer:
        for number in values:
            producer.send(topic, b"%d" % number, partition=number % partitions)


class Reader:
    """A member in a thread, which notes what it reads and owns."""

    def __init__(self, topic: str, settings: ConsumerOptions) -> None:
        self.values: list[int] = []
        self.owned: frozenset[int] = frozenset()
        self.events: list[tuple[str, tuple[int, ...]]] = []
        self.error: Exception | None = None
        self.member_id = ""
        self._topic, self._settings = topic, settings
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Leave the group."""
        self._ends.set()
        self._thread.join()
        assert self.error is None, self.error

    def _run(self) -> None:
        note = self.events.append

        class Noting(RebalanceListener):
            def on_assigned(self, partitions: tuple[TopicPartition, ...]) -> None:
                note(("assigned", tuple(each.partition for each in partitions)))

            def on_revoked(self, partitions: tuple[TopicPartition, ...]) -> None:
                note(("revoked", tuple(each.partition for each in partitions)))

            def on_lost(self, partitions: tuple[TopicPartition, ...]) -> None:
                note(("lost", tuple(each.partition for each in partitions)))

        try:
            with Consumer(self._topic, listener=Noting(), **self._settings) as consumer:
                while not self._ends.is_set():
                    self.values += [int(each.value or b"-1") for each in consumer.poll(timeout_ms=50)]
                    self.owned = frozenset(each.partition for each in consumer.assignment())
                    self.member_id = consumer.group_metadata().member_id
        except Exception as error:  # noqa: BLE001 - `close` raises it in the test's thread.
            self.error = error


class Victim:
    """A member in a process of its own."""

    def __init__(self, topic: str, settings: ConsumerOptions) -> None:
        self.owned: frozenset[int] = frozenset()
        command = [sys.executable, "-m", "tests.client.protocol_member", json.dumps(settings), topic]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def kill(self) -> None:
        """Kill it with SIGKILL: nobody tells the group."""
        self._process.kill()
        self._process.wait()
        self._reader.join()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                self.owned = frozenset(json.loads(line)[0])


def share(members: list[Reader | Victim], count: int) -> Callable[[], bool]:
    """Whether these have all partitions, each of them one, and nobody none."""

    def holds() -> bool:
        shares = [each.owned for each in members]
        return all(shares) and sum(map(len, shares)) == count == len(frozenset[int]().union(*shares))

    return holds


def put_out(bootstrap: str, group: str, member_id: str) -> None:
    """Let the member leave its group without its knowledge."""

    async def main() -> None:
        request = ConsumerGroupHeartbeatRequest(group_id=group, member_id=member_id, member_epoch=-1)
        async with Cluster(admin_config({"bootstrap_servers": bootstrap})) as cluster:
            answer = await cluster.request_coordinator(group, request, ConsumerGroupHeartbeatResponse)
            assert answer.error_code == 0

    anyio.run(main)


def test_members_share_and_take_over_from_a_leaving_and_a_killed_one(
    bootstrap: str, topic: MakeTopic, group: str
) -> None:
    name = topic(6)
    settings = options(bootstrap, group, auto_commit_interval_ms=100)
    one, two = Reader(name, settings), Reader(name, settings)
    wait_until(share([one, two], 6), "two share")
    produce(bootstrap, name, range(60), 6)
    wait_until(lambda: len(one.values) + len(two.values) == 60, "all is read")
    victim = Victim(name, settings)
    wait_until(share([one, two, victim], 6), "three share")
    victim.kill()
    produce(bootstrap, name, range(60, 120), 6)
    wait_until(share([one, two], 6), "two share what the killed one had")
    wait_until(lambda: {*one.values, *two.values} == set(range(120)), "nothing is missed")
    assert sorted(one.values + two.values)[:60] == list(range(60)), "what was given up was committed"
    one.close()
    wait_until(share([two], 6), "one has all")
    two.close()
    kinds = {kind for each in (one, two) for kind, _ in each.events}
    assert kinds == {"assigned", "revoked"}


@both_loops
def test_the_asynchronous_consumer_commits_and_continues(
    bootstrap: str, topic: MakeTopic, group: str, loop: str
) -> None:
    name = topic(2)
    produce(bootstrap, name, range(20), 2)

    async def read(count: int) -> list[int]:
        seen: list[int] = []
        async with aio.Consumer(name, **options(bootstrap, group, enable_auto_commit=False)) as consumer:
            while len(seen) < count:
                records = await consumer.poll(timeout_ms=200)
                seen += [int(each.value or b"-1") for each in records]
            await consumer.commit()
            committed = await consumer.committed(*(TopicPartition(name, each) for each in range(2)))
            assert sum(each.offset for each in committed.values() if each is not None) >= count
        return seen

    async def main() -> None:
        with anyio.fail_after(30):
            assert sorted(await read(20)) == list(range(20))
            async with aio.Producer(bootstrap_servers=bootstrap) as producer:
                for number in range(20, 40):
                    await producer.send(name, b"%d" % number, partition=number % 2)
            assert sorted(await read(20)) == list(range(20, 40))

    anyio.run(main, backend=loop)


def test_a_returning_static_member_gets_its_partitions_and_a_second_one_is_refused(
    bootstrap: str, topic: MakeTopic, group: str
) -> None:
    name = topic(4)
    settings = options(bootstrap, group)
    static = options(bootstrap, group, group_instance_id="one")
    one, other = Reader(name, static), Reader(name, settings)
    wait_until(share([one, other], 4), "they share")
    had, moves = one.owned, len(other.events)
    with Consumer(name, **static) as second, pytest.raises(BrokerError, match="its session has to end first"):
        second.poll(timeout_ms=5_000)
    one.close()
    again = Reader(name, static)
    wait_until(share([again, other], 4), "it is back")
    assert again.owned == had
    assert len(other.events) == moves, "nobody else noticed"
    again.close()
    other.close()


def test_a_pattern_is_resolved_by_the_broker(bootstrap: str, group: str) -> None:
    prefix = f"p-{uuid.uuid4().hex[:8]}"
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics(*(NewTopic(f"{prefix}-{each}", partitions=1) for each in ("a", "b", "no")))
    produce(bootstrap, f"{prefix}-a", range(5), 1)
    with Consumer(**options(bootstrap, group)) as consumer:
        consumer.subscribe(pattern=f"{prefix}-.")
        seen: list[object] = []
        wait_until(lambda: seen.extend(consumer.poll(timeout_ms=100)) or len(seen) == 5, "it is read")
        assert consumer.subscription() == (f"{prefix}-a", f"{prefix}-b")
        consumer.subscribe(f"{prefix}-no")
        wait_until(
            lambda: consumer.poll(timeout_ms=50) or consumer.subscription() == (f"{prefix}-no",), "by name"
        )
        wait_until(
            lambda: consumer.poll(timeout_ms=50) or [each.topic for each in consumer.assignment()], "it moves"
        )


def test_a_removed_member_loses_its_partitions_and_rejoins(
    bootstrap: str, topic: MakeTopic, group: str
) -> None:
    name = topic(2)
    reader = Reader(name, options(bootstrap, group))
    wait_until(share([reader], 2), "it has both")
    put_out(bootstrap, group, reader.member_id)
    wait_until(lambda: [kind for kind, _ in reader.events] == ["assigned", "lost", "assigned"], "it is back")
    produce(bootstrap, name, range(4), 2)
    wait_until(lambda: sorted(reader.values) == list(range(4)), "it reads")
    reader.close()


def test_a_commit_of_a_removed_member_names_its_partitions(
    bootstrap: str, topic: MakeTopic, group: str
) -> None:
    name = topic(1)
    produce(bootstrap, name, range(3), 1)
    with Consumer(name, **options(bootstrap, group, enable_auto_commit=False)) as consumer:
        records = consumer.poll(timeout_ms=10_000)
        put_out(bootstrap, group, consumer.group_metadata().member_id)
        with pytest.raises(CommitFailedError) as caught:
            consumer.commit(records)
        assert caught.value.partitions == ((name, 0),)
        again: list[object] = []
        wait_until(lambda: again.extend(consumer.poll(timeout_ms=100)) or len(again) == 3, "read again")
        consumer.commit()


@only_mixed
def test_commits_are_consistent_while_members_join_and_leave(
    bootstrap: str, topic: MakeTopic, group: str
) -> None:
    """Each by-hand commit counts or names its partitions; no record is missed, none goes back behind it."""
    name = topic(4)
    first = Reader(name, options(bootstrap, group, auto_commit_interval_ms=50))
    produce(bootstrap, name, range(100), 4)
    seen: list[int] = []
    for turn in range(3):
        more = Reader(name, options(bootstrap, group, auto_commit_interval_ms=50))
        wait_until(share([first, more], 4), "they share")
        produce(bootstrap, name, range(100 * (turn + 1), 100 * (turn + 2)), 4)
        more.close()
        seen += more.values
    wait_until(lambda: {*first.values, *seen} == set(range(400)), "nothing is missed")
    assert len(first.values) + len(seen) == 400, "nothing is read twice"
    first.close()


def test_a_transaction_commits_offsets_as_the_member_in_its_epoch(
    bootstrap: str, topic: MakeTopic, group: str
) -> None:
    name = topic(1)
    where = TopicPartition(name, 0)
    produce(bootstrap, name, range(3), 1)
    with (
        ClusterConnection(bootstrap_servers=bootstrap) as cluster,
        Consumer(
            name,
            cluster=cluster,
            group_id=group,
            group_protocol="consumer",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        ) as consumer,
        Producer(cluster=cluster, transactional_id=f"t-{group}") as producer,
    ):
        records: list[object] = []
        wait_until(lambda: records.extend(consumer.poll(timeout_ms=100)) or len(records) == 3, "all")
        now = consumer.group_metadata()
        with producer.transaction():
            producer.send_offsets({where: 2}, now)
        wait_until(lambda: consumer.committed(where)[where] == OffsetAndMetadata(2), "its marker is written")
        later = GroupMetadata(group, now.generation_id + 1, now.member_id)
        with pytest.raises(KohortError), producer.transaction():
            producer.send_offsets({where: 3}, later)


def test_an_assignor_that_the_broker_lacks_is_named(bootstrap: str, topic: MakeTopic, group: str) -> None:
    with (
        Consumer(topic(1), **options(bootstrap, group, group_remote_assignor="nosuch")) as consumer,
        pytest.raises(BrokerError, match="nosuch") as caught,
    ):
        consumer.poll(timeout_ms=5_000)
    assert caught.value.code is ErrorCode.UNSUPPORTED_ASSIGNOR


def test_a_broker_without_the_protocol_is_named(topic: MakeTopic, group: str, bootstrap: str) -> None:
    name = topic(1)
    with Consumer(name, **options(bootstrap, group)) as consumer:
        cluster = consumer._session.cluster
        spoken = cluster.request_coordinator

        async def old(group_id: str, request: Any, answer: Any, **more: Any) -> Any:
            if isinstance(request, ConsumerGroupHeartbeatRequest):
                raise UnsupportedVersionError("b:1 does not speak ConsumerGroupHeartbeat")
            return await spoken(group_id, request, answer, **more)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(cluster, "request_coordinator", old)
            with pytest.raises(UnsupportedVersionError, match="give group_protocol='classic'"):
                wait_until(lambda: consumer.poll(timeout_ms=50) and False, "it is refused", 5)
