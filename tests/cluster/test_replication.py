"""Three brokers that copy each other's records: what was acknowledged survives whoever dies."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from urllib.request import urlopen
from uuid import uuid4

import pytest
import trio
from confluent_kafka import Consumer, ElectionType, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kohort.client import Consumer as KohortConsumer
from tests.cluster.broker_cluster import PATIENCE_SECONDS, SESSION_MS, BrokerCluster, topic_of
from tests.cluster.etcd_process import EtcdProcess
from tests.cluster.test_brokers import coordinator
from tests.interop.broker_process import BrokerProcess
from tests.repetitions import only_by_night

LAG_MS = 1_000
QUICK = (f"replica.lag.time.max.ms={LAG_MS}", "replica.fetch.backoff.ms=100")


@pytest.fixture
def cluster(shared_etcd: EtcdProcess, tmp_path: Path) -> Iterator[BrokerCluster]:
    """Three brokers."""
    with BrokerCluster(shared_etcd, uuid4().hex, tmp_path, 3, *QUICK) as cluster:
        yield cluster


async def create(cluster: BrokerCluster, name: str, partitions: int = 1, **configs: str) -> None:
    """Make a topic with three replicas, and return once every broker knows it."""
    config = {key.replace("_", "."): value for key, value in configs.items()}
    topic = NewTopic(name, num_partitions=partitions, replication_factor=3, config=config)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    (made,) = admin.create_topics([topic]).values()
    await trio.to_thread.run_sync(made.result, PATIENCE_SECONDS)
    for broker in cluster.brokers.values():
        await until(lambda broker=broker: _is_known(broker, name))  # type: ignore[misc]


async def _is_known(broker: BrokerProcess, name: str) -> bool:
    return (await topic_of(broker, name)).error_code == 0


async def until(holds: Callable[[], Awaitable[object]]) -> None:
    with trio.fail_after(PATIENCE_SECONDS):
        while not await holds():
            await trio.sleep(0.02)


class Writer:
    """A producer that waits for every in-sync replica, and knows what it was told of each record."""

    def __init__(self, cluster: BrokerCluster, tag: bytes = b"", **settings: object) -> None:
        self._tag = tag
        self.acknowledged: list[bytes] = []
        self.errors: list[object] = []
        self._sent = 0
        self._producer = Producer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 0,
                **settings,
            }
        )

    def send(self, topic: str, count: int, partition: int = 0) -> None:
        """Send so many records, each with a number of its own."""
        for _ in range(count):
            self._producer.produce(
                topic, b"%b%d" % (self._tag, self._sent), partition=partition, on_delivery=self._delivered
            )
            self._sent += 1

    def _delivered(self, error: object, message: object) -> None:
        if error is None:
            self.acknowledged.append(message.value())  # type: ignore[attr-defined]
        else:
            self.errors.append(error)

    async def flush(self, seconds: float = PATIENCE_SECONDS) -> int:
        """Return how many records are still under way when all are answered, or the time is up."""
        return await trio.to_thread.run_sync(self._producer.flush, seconds)

    def poll(self) -> None:
        """Hear what has been answered so far."""
        self._producer.poll(0)


async def values_of(bootstrap: str, topic: str, partition: int = 0, **settings: object) -> list[bytes]:
    """Return every value of a partition, up to the end that its leader tells."""

    def read() -> list[bytes]:
        reader = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": uuid4().hex,
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                **settings,
            }
        )
        try:
            reader.assign([TopicPartition(topic, partition, 0)])
            values: list[bytes] = []
            while True:
                message = reader.poll(PATIENCE_SECONDS)
                assert message is not None, "nothing can be read"
                if message.error() is not None:
                    assert message.error().name() == "_PARTITION_EOF", message.error()
                    return values
                values.append(message.value())
        finally:
            reader.close()

    return await trio.to_thread.run_sync(read)


async def isr(broker: BrokerProcess, topic: str) -> tuple[int, ...]:
    """Return who is in sync, in the order of the node ids."""
    return tuple(sorted((await topic_of(broker, topic)).partitions[0].isr_nodes))


async def leader(broker: BrokerProcess, topic: str) -> int:
    """Return who leads the topic's first partition, -1 where nobody does."""
    return (await topic_of(broker, topic)).partitions[0].leader_id


async def test_records_are_on_all_brokers_when_they_are_acknowledged(cluster: BrokerCluster) -> None:
    await create(cluster, "air")
    writer = Writer(cluster)
    writer.send("air", 500)
    assert await writer.flush() == 0
    assert not writer.errors
    assert await values_of(cluster.bootstrap, "air") == writer.acknowledged
    segments = [(broker.data / "air-0" / f"{0:020}.log").read_bytes() for broker in cluster.brokers.values()]
    assert segments[0]
    assert segments[0] == segments[1] == segments[2]


async def test_acknowledged_records_survive_their_leader(cluster: BrokerCluster) -> None:
    await create(cluster, "air", min_insync_replicas="2")
    writer = Writer(cluster)
    for _ in range(2):
        writer.send("air", 300)
        await trio.sleep(0.05)  # So that the leader dies in the middle of something.
        writer.send("air", 300)
        led_by = await leader(cluster.brokers[1], "air")
        cluster.brokers[led_by].kill()
        writer.send("air", 300)
        assert await writer.flush() == 0
        cluster.brokers[led_by].start()
        other = next(each for node_id, each in cluster.brokers.items() if node_id != led_by)

        async def all_in_sync(other: BrokerProcess = other) -> bool:
            return await isr(other, "air") == (1, 2, 3)

        await until(all_in_sync)
    assert not writer.errors
    assert await values_of(cluster.bootstrap, "air") == [b"%d" % number for number in range(1_800)]


async def in_sync(cluster: BrokerCluster, topic: str, *node_ids: int) -> None:
    """Return once a broker that runs says that these, and nobody else, are in sync."""
    asked = next(each for node_id, each in cluster.brokers.items() if node_id in node_ids)

    async def are_in_sync() -> bool:
        return await isr(asked, topic) == node_ids

    await until(are_in_sync)


@only_by_night
async def test_an_absent_follower_leaves_the_isr_and_rejoins(
    cluster: BrokerCluster,
) -> None:
    await create(cluster, "air")
    led_by = await leader(cluster.brokers[1], "air")
    away = led_by % 3 + 1
    others = tuple(sorted({1, 2, 3} - {away}))
    writer = Writer(cluster)
    writer.send("air", 100)
    assert await writer.flush() == 0
    cluster.brokers[away].kill()
    writer.send("air", 100)
    assert await writer.flush() == 0  # It is waited for until it is out of sync.
    await in_sync(cluster, "air", *others)
    writer.send("air", 100)
    assert await writer.flush() == 0
    cluster.brokers[away].start()
    await in_sync(cluster, "air", 1, 2, 3)
    assert not writer.errors
    assert len(await values_of(cluster.bootstrap, "air")) == 300
    for other in others:  # What the one that was away has, it has to the last record.
        cluster.brokers[other].kill()
    cluster.brokers[others[0]].start()
    await in_sync(cluster, "air", *sorted((away, others[0])))
    assert await values_of(cluster.bootstrap, "air") == writer.acknowledged


@only_by_night
async def test_a_suspended_follower_is_removed_from_the_isr_by_its_leader(cluster: BrokerCluster) -> None:
    await create(cluster, "air", min_insync_replicas="3")
    led_by = await leader(cluster.brokers[1], "air")
    slow = cluster.brokers[led_by % 3 + 1]
    others = tuple(sorted({1, 2, 3} - {led_by % 3 + 1}))
    os.kill(slow.pid, signal.SIGSTOP)
    try:
        writer = Writer(cluster, **{"message.timeout.ms": 60_000})
        writer.send("air", 10)  # They are appended, and wait.
        await in_sync(cluster, "air", *others)
        refused = Writer(cluster, **{"message.timeout.ms": 1_500, "enable.idempotence": False})
        refused.send("air", 1)
        assert await refused.flush() == 0
        assert (refused.acknowledged, len(refused.errors)) == ([], 1)
        assert await writer.flush(0.1) == 10, "acknowledged by fewer than min.insync.replicas"
    finally:
        os.kill(slow.pid, signal.SIGCONT)
    await in_sync(cluster, "air", 1, 2, 3)
    assert await writer.flush() == 0
    assert not writer.errors
    assert await values_of(cluster.bootstrap, "air") == writer.acknowledged


@only_by_night
@pytest.mark.parametrize("is_leader", [False, True], ids=["a follower", "the leader"])
async def test_a_replica_that_lost_its_folder_gets_all_of_it_again(
    cluster: BrokerCluster, is_leader: bool
) -> None:
    await create(cluster, "air")
    led_by = await leader(cluster.brokers[1], "air")
    wiped = led_by if is_leader else led_by % 3 + 1
    writer = Writer(cluster)
    writer.send("air", 200)
    assert await writer.flush() == 0
    cluster.brokers[wiped].kill()
    shutil.rmtree(cluster.brokers[wiped].data)
    cluster.brokers[wiped].start()
    writer.send("air", 200)
    assert await writer.flush() == 0
    await in_sync(cluster, "air", 1, 2, 3)
    assert not writer.errors
    assert await values_of(cluster.bootstrap, "air") == writer.acknowledged
    assert len(writer.acknowledged) == 400
    segments = {(broker.data / "air-0" / f"{0:020}.log").read_bytes() for broker in cluster.brokers.values()}
    assert len(segments) == 1


async def test_a_replica_with_a_truncated_sealed_segment_fetches_the_missing_records(
    shared_etcd: EtcdProcess, tmp_path: Path
) -> None:
    """It is in sync only once it has all of it: else it would lead with a hole in the middle."""
    with BrokerCluster(shared_etcd, uuid4().hex, tmp_path, 3, *QUICK, "log.segment.bytes=1048576") as cluster:
        await create(cluster, "air")
        led_by = await leader(cluster.brokers[1], "air")
        damaged = cluster.brokers[led_by % 3 + 1]
        writer = Writer(cluster, b"-" * 10_000)
        for _ in range(15):
            writer.send("air", 20)
            assert await writer.flush() == 0
        damaged.stop()
        sealed, *others = sorted((damaged.data / "air-0").glob("*.log"))
        assert others
        with sealed.open("r+b") as file:
            file.truncate(sealed.stat().st_size // 2)
        damaged.start()
        writer.send("air", 10)
        assert await writer.flush() == 0
        await in_sync(cluster, "air", 1, 2, 3)
        files = {
            b"".join(each.read_bytes() for each in sorted((broker.data / "air-0").glob("*.log")))
            for broker in cluster.brokers.values()
        }
        assert len(files) == 1
        assert await values_of(cluster.bootstrap, "air") == writer.acknowledged
        assert len(writer.acknowledged) == 310


@pytest.mark.parametrize("is_leader", [False, True], ids=["a follower", "the leader"])
async def test_a_replica_restored_from_a_backup_loses_no_record(
    shared_etcd: EtcdProcess, tmp_path: Path, is_leader: bool
) -> None:
    """It is back before anybody has noticed that it was gone, and in sync as far as the metadata know."""
    with BrokerCluster(
        shared_etcd, uuid4().hex, tmp_path, 3, *QUICK, "broker.session.timeout.ms=20000"
    ) as cluster:
        await create(cluster, "air")
        led_by = await leader(cluster.brokers[1], "air")
        restored = cluster.brokers[led_by if is_leader else led_by % 3 + 1]
        others = [each for each in cluster.brokers.values() if each is not restored]
        writer = Writer(cluster)
        writer.send("air", 100)
        assert await writer.flush() == 0
        backup = tmp_path / "backup"
        shutil.copytree(restored.data, backup)
        restored.restart(signal.SIGKILL)
        await in_sync(cluster, "air", 1, 2, 3)
        writer.send("air", 100)
        assert await writer.flush() == 0
        if is_leader:
            admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
            elected = admin.elect_leaders(ElectionType.PREFERRED, [TopicPartition("air", 0)])
            await trio.to_thread.run_sync(elected.result, PATIENCE_SECONDS)

            async def leads_again() -> bool:
                return await leader(restored, "air") == led_by

            await until(leads_again)
        for each in others:
            os.kill(each.pid, signal.SIGSTOP)
        try:
            restored.kill()
            shutil.rmtree(restored.data)
            shutil.copytree(backup, restored.data)
            restored.start()
        finally:
            for each in others:
                os.kill(each.pid, signal.SIGCONT)
        writer.send("air", 100)
        assert await writer.flush() == 0
        await in_sync(cluster, "air", 1, 2, 3)
        assert not writer.errors
        assert await values_of(cluster.bootstrap, "air") == writer.acknowledged
        assert len(writer.acknowledged) == 300


@only_by_night
async def test_a_leader_suspended_beyond_its_lease_acknowledges_nothing_wrongly(
    cluster: BrokerCluster,
) -> None:
    await create(cluster, "air")
    led_by = await leader(cluster.brokers[1], "air")
    other = cluster.brokers[led_by % 3 + 1]
    writer = Writer(cluster, **{"socket.timeout.ms": 3_000})
    writer.send("air", 100)
    os.kill(cluster.brokers[led_by].pid, signal.SIGSTOP)
    try:
        writer.send("air", 100)

        async def is_led_by_another() -> bool:
            return await leader(other, "air") not in {-1, led_by}

        await until(is_led_by_another)
        writer.send("air", 100)
        await writer.flush(SESSION_MS / 1_000)
    finally:
        os.kill(cluster.brokers[led_by].pid, signal.SIGCONT)
    writer.send("air", 100)
    assert await writer.flush() == 0
    await in_sync(cluster, "air", 1, 2, 3)
    assert not writer.errors
    assert await values_of(cluster.bootstrap, "air") == [b"%d" % number for number in range(400)]


class Reader:
    """A member of a group, by confluent-kafka; it says how often it was given partitions."""

    def __init__(self, cluster: BrokerCluster, group_id: str, topic: str) -> None:
        self.given: list[list[int]] = []
        self.values: list[bytes] = []
        self._consumer = Consumer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "group.id": group_id,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "partition.assignment.strategy": "range",
                "session.timeout.ms": 30_000,
            }
        )
        self._consumer.subscribe([topic], on_assign=self._given)

    def _given(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self.given.append([each.partition for each in partitions])

    def read(self, count: int) -> None:
        """Read so many records. Blocks."""
        while count:
            count -= self.poll(PATIENCE_SECONDS)

    def poll(self, seconds: float) -> bool:
        """Return whether there was a record. Blocks."""
        message = self._consumer.poll(seconds)
        if message is None or message.error() is not None:
            return False
        self.values.append(message.value())
        return True

    def commit(self) -> dict[int, int]:
        """Commit where it stands, and return that, by partition, as the group has it. Blocks."""
        self._consumer.commit(asynchronous=False)
        committed = self._consumer.committed(self._consumer.assignment(), PATIENCE_SECONDS)
        return {each.partition: each.offset for each in committed}

    def close(self) -> None:
        """Leave the group."""
        self._consumer.close()


@only_by_night
def test_a_group_continues_on_another_coordinator(cluster: BrokerCluster) -> None:
    trio.run(partial(create, cluster, "air", 4))
    writer = Writer(cluster)
    for partition in range(4):
        writer.send("air", 50, partition)
    assert trio.run(writer.flush) == 0
    reader = Reader(cluster, "flights", "air")
    ours = KohortConsumer(
        "air",
        bootstrap_servers=cluster.bootstrap,
        group_id="flights",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        partition_assignment_strategy=("range",),
        session_timeout_ms=30_000,
    )
    try:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not (reader.given and len(reader.given[-1]) == 2 and len(ours.assignment()) == 2):
            assert time.monotonic() < deadline, (reader.given, ours.assignment())
            reader.poll(0.1)
            ours.poll(timeout_ms=100)
        for partition in range(4):  # Either may have read all there was while the other joined.
            writer.send("air", 50, partition)
        assert trio.run(writer.flush) == 0
        before = commit_both(reader, ours)
        given, generation_id = list(reader.given), ours.group_metadata().generation_id
        for _ in range(2):
            led_by = trio.run(coordinator, cluster.brokers[1], "flights")
            cluster.brokers[led_by].kill()
            for partition in range(4):
                writer.send("air", 50, partition)
            assert trio.run(writer.flush) == 0
            after = commit_both(reader, ours)
            assert all(after[partition] >= offset for partition, offset in before.items())
            before = after
            assert (reader.given, ours.group_metadata().generation_id) == (given, generation_id)
            cluster.brokers[led_by].start()
            trio.run(in_sync, cluster, "air", 1, 2, 3)
            trio.run(in_sync, cluster, "__consumer_offsets", 1, 2, 3)
    finally:
        reader.close()
        ours.close()
    assert not writer.errors


def commit_both(reader: Reader, ours: KohortConsumer[object, object]) -> dict[int, int]:
    """Read a little with both members, commit with both, and return the commits of the first."""
    reader.read(20)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not ours.poll(timeout_ms=1_000):
        assert time.monotonic() < deadline, f"nothing came for {ours.assignment()}"
    ours.commit()
    return reader.commit()


@only_by_night
async def test_records_only_on_a_dead_leader_are_truncated_when_it_returns(
    shared_etcd: EtcdProcess, tmp_path: Path
) -> None:
    with BrokerCluster(shared_etcd, uuid4().hex, tmp_path, 3, "replica.fetch.backoff.ms=100") as cluster:
        await create(cluster, "air")
        led_by = await leader(cluster.brokers[1], "air")
        old = cluster.brokers[led_by]
        others = [each for node_id, each in cluster.brokers.items() if node_id != led_by]
        writer = Writer(cluster)
        writer.send("air", 50)
        assert await writer.flush() == 0
        for each in others:
            os.kill(each.pid, signal.SIGSTOP)
        hasty = Writer(cluster, b"hasty ", **{"acks": 1, "enable.idempotence": False})
        for _ in range(5):  # The first goes out as the answer to a fetch that waits.
            hasty.send("air", 10)
            assert await hasty.flush() == 0
        old.kill()
        for each in others:
            os.kill(each.pid, signal.SIGCONT)
        writer.send("air", 50)
        assert await writer.flush() == 0
        old.start()
        await in_sync(cluster, "air", 1, 2, 3)
        writer.send("air", 50)
        assert await writer.flush() == 0
        assert not writer.errors
        assert any("log is cut" in line for line in old.log_lines())
        values = await values_of(cluster.bootstrap, "air")
        assert [value for value in values if not value.startswith(b"hasty")] == writer.acknowledged
        assert len(values) < 200, "nothing was lost that one broker alone had"
        segments = {
            (broker.data / "air-0" / f"{0:020}.log").read_bytes() for broker in cluster.brokers.values()
        }
        assert len(segments) == 1


@only_by_night
async def test_consumers_read_in_their_rack(shared_etcd: EtcdProcess, tmp_path: Path) -> None:
    selector = "replica.selector.class=org.apache.kafka.common.replica.RackAwareReplicaSelector"
    with BrokerCluster(shared_etcd, uuid4().hex, tmp_path, 3, *QUICK, selector) as cluster:
        await create(cluster, "air")
        led_by = await leader(cluster.brokers[1], "air")
        near = led_by % 3 + 1
        writer = Writer(cluster)
        writer.send("air", 300)
        assert await writer.flush() == 0
        before = {node_id: fetched_bytes(broker) for node_id, broker in cluster.brokers.items()}
        rack = {"client.rack": f"r{near}"}
        assert await values_of(cluster.bootstrap, "air", **rack) == writer.acknowledged

        async def has_given() -> bool:
            return fetched_bytes(cluster.brokers[near]) > before[near]

        await until(has_given)
        assert fetched_bytes(cluster.brokers[led_by]) == before[led_by]


def fetched_bytes(broker: BrokerProcess) -> float:
    """Return how much a broker has given to whoever fetched."""
    with urlopen(f"http://{broker.http}/metrics", timeout=PATIENCE_SECONDS) as answer:
        for line in answer.read().decode().splitlines():
            if line.startswith("kohort_fetched_bytes_total"):
                return float(line.split()[-1])
    raise AssertionError("it does not say")


@pytest.mark.parametrize("side", ["leader", "follower"])
async def test_a_throttled_replica_catches_up_at_its_rate(
    shared_etcd: EtcdProcess, tmp_path: Path, side: str
) -> None:
    small = "replica.fetch.max.bytes=32768"  # One fetch may go over the rate.
    rate = f"{side}.replication.throttled.rate=300000"
    with BrokerCluster(shared_etcd, uuid4().hex, tmp_path, 3, *QUICK, small, rate) as cluster:
        await create(cluster, "air", **{f"{side}_replication_throttled_replicas": "*"})
        wiped = (await leader(cluster.brokers[1], "air")) % 3 + 1
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
        began = trio.current_time()
        for _ in range(120):
            producer.produce("air", os.urandom(10_000))
        assert await trio.to_thread.run_sync(producer.flush, PATIENCE_SECONDS) == 0
        assert trio.current_time() - began < 2, "replicas in sync are held back"
        await in_sync(cluster, "air", 1, 2, 3)
        cluster.brokers[wiped].kill()
        shutil.rmtree(cluster.brokers[wiped].data)
        cluster.brokers[wiped].start()
        began = trio.current_time()
        await in_sync(cluster, "air", 1, 2, 3)
        assert trio.current_time() - began > 2, (
            "1,200 KB at 300 KB/s, of which a second's worth comes at once"
        )


async def test_deleted_records_stay_deleted_when_their_leader_dies(cluster: BrokerCluster) -> None:
    """It is answered once every replica begins there: before, one that leads next would show it again."""
    await create(cluster, "shortened", min_insync_replicas="2")
    leader = next(iter((await topic_of(cluster.brokers[1], "shortened")).partitions)).leader_id
    others = [broker for node_id, broker in cluster.brokers.items() if node_id != leader]
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "linger.ms": 0})
    for number in range(20):
        producer.produce("shortened", b"%d" % number, partition=0)
    assert producer.flush(PATIENCE_SECONDS) == 0
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    place = TopicPartition("shortened", 0, 10)

    def delete(seconds: float) -> int:
        (answer,) = admin.delete_records([place], operation_timeout=seconds).values()
        return int(answer.result(PATIENCE_SECONDS).low_watermark)

    assert await trio.to_thread.run_sync(delete, PATIENCE_SECONDS) == 10
    cluster.brokers[leader].kill()

    async def begins_there() -> bool:
        answers = [await topic_of(each, "shortened") for each in others]
        return all(each.partitions[0].leader_id not in (-1, leader) for each in answers)

    await until(begins_there)
    consumer = Consumer(
        {
            "bootstrap.servers": ",".join(each.bootstrap for each in others),
            "group.id": "reads",
            "log_level": 0,
        }
    )
    try:
        found = await trio.to_thread.run_sync(
            partial(consumer.get_watermark_offsets, TopicPartition("shortened", 0), PATIENCE_SECONDS)
        )
    finally:
        consumer.close()
    assert found == (10, 20)
