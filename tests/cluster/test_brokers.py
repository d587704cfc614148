"""Three brokers on one etcd: what each tells, who leads, and what becomes of it when one dies."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest
import trio
from confluent_kafka import Consumer, Producer

from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from kohort.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kohort.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kohort.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from tests.cluster.broker_cluster import (
    PATIENCE_SECONDS,
    SESSION_MS,
    BrokerCluster,
    client_of,
    described,
    topic_of,
)
from tests.cluster.etcd_process import EtcdProcess
from tests.interop.broker_process import BrokerProcess
from tests.ports import free_port


@pytest.fixture
def cluster(shared_etcd: EtcdProcess, tmp_path: Path) -> Iterator[BrokerCluster]:
    """Three brokers."""
    with BrokerCluster(shared_etcd, uuid4().hex, tmp_path, 3) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def calm_cluster(
    shared_etcd: EtcdProcess, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BrokerCluster]:
    """Three brokers for all tests that leave them running; each makes topics and groups of its own."""
    with BrokerCluster(shared_etcd, uuid4().hex, tmp_path_factory.mktemp("calm"), 3) as cluster:
        yield cluster


async def create(broker: BrokerProcess, name: str, partitions: int, replicas: int) -> None:
    topic = CreatableTopic(
        name=name, num_partitions=partitions, replication_factor=replicas, assignments=(), configs=()
    )
    client = await client_of(broker)
    answer = await client.ask(CreateTopicsRequest(topics=(topic,)), CreateTopicsResponse)
    assert (answer.topics[0].error_code, answer.topics[0].error_message) == (0, None)


async def until(holds: Callable[[], Awaitable[object]]) -> None:
    with trio.fail_after(PATIENCE_SECONDS):
        while not await holds():
            await trio.sleep(0.02)


async def leaders(broker: BrokerProcess, name: str) -> list[int]:
    return [each.leader_id for each in (await topic_of(broker, name)).partitions]


async def end_offset(broker: BrokerProcess, name: str, index: int, leader_epoch: int = -1) -> tuple[int, int]:
    """Return the error, and the end of the partition where there is none, as this broker tells it."""
    asked = ListOffsetsPartition(partition_index=index, current_leader_epoch=leader_epoch, timestamp=-1)
    request = ListOffsetsRequest(replica_id=-1, topics=(ListOffsetsTopic(name=name, partitions=(asked,)),))
    answer = await (await client_of(broker)).ask(request, ListOffsetsResponse, 5)
    (found,) = answer.topics[0].partitions
    return found.error_code, found.offset


async def coordinator(broker: BrokerProcess, group_id: str) -> int:
    """Return who this broker says is the group's coordinator."""
    client = await client_of(broker)
    with trio.fail_after(PATIENCE_SECONDS):
        while True:
            request = FindCoordinatorRequest(coordinator_keys=(group_id,))
            (found,) = (await client.ask(request, FindCoordinatorResponse)).coordinators
            if found.error_code == 0:
                return found.node_id
            assert found.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
            await trio.sleep(0.05)


# -- what they tell ---------------------------------------------------------------------------------------


async def test_all_brokers_return_the_same_brokers_racks_and_controller(calm_cluster: BrokerCluster) -> None:
    told = [await described(broker) for broker in calm_cluster.brokers.values()]
    assert told[0].cluster_id
    for each in told:
        assert [(one.broker_id, one.port, one.rack) for one in each.brokers] == [
            (node_id, broker.address[1], f"r{node_id}") for node_id, broker in calm_cluster.brokers.items()
        ]
        assert each.controller_id in calm_cluster.brokers
        assert (each.cluster_id, each.controller_id) == (told[0].cluster_id, told[0].controller_id)


async def test_a_topic_is_known_everywhere_and_its_replicas_are_in_different_racks(
    calm_cluster: BrokerCluster,
) -> None:
    await create(calm_cluster.brokers[1], "air", 6, 2)
    for broker in calm_cluster.brokers.values():
        await until(lambda broker=broker: _is_known(broker, "air"))  # type: ignore[misc]
    topic = await topic_of(calm_cluster.brokers[3], "air")
    assert sorted(each.leader_id for each in topic.partitions) == [1, 1, 2, 2, 3, 3]
    for each in topic.partitions:
        assert each.leader_id == each.replica_nodes[0]
        assert len(set(each.replica_nodes)) == 2
        assert (each.isr_nodes, each.offline_replicas) == (each.replica_nodes, ())


async def _is_known(broker: BrokerProcess, name: str) -> bool:
    return (await topic_of(broker, name)).error_code == 0


async def test_only_the_leader_serves_a_partition(calm_cluster: BrokerCluster) -> None:
    await create(calm_cluster.brokers[1], "led", 3, 1)
    led = await leaders(calm_cluster.brokers[1], "led")
    for node_id, broker in calm_cluster.brokers.items():
        await until(lambda broker=broker: _is_known(broker, "led"))  # type: ignore[misc]
        for index, leader in enumerate(led):
            expected = (0, 0) if leader == node_id else (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
            assert await end_offset(broker, "led", index) == expected


async def test_only_the_coordinator_serves_a_group(calm_cluster: BrokerCluster) -> None:
    groups = [f"group-{number}" for number in range(12)]
    found = {group: await coordinator(calm_cluster.brokers[1], group) for group in groups}
    assert len(set(found.values())) > 1
    for group, node_id in found.items():
        for each, broker in calm_cluster.brokers.items():
            assert await coordinator(broker, group) == node_id
            asked = HeartbeatRequest(group_id=group, generation_id=1, member_id="nobody")
            code = (await (await client_of(broker)).ask(asked, HeartbeatResponse)).error_code
            here = ErrorCode.UNKNOWN_MEMBER_ID
            assert code == (here if each == node_id else ErrorCode.NOT_COORDINATOR)


def test_clients_produce_and_consume_over_all_brokers(calm_cluster: BrokerCluster) -> None:
    failed: list[object] = []

    def delivered(error: object, _message: object) -> None:
        if error is not None:
            failed.append(error)

    producer = Producer({"bootstrap.servers": calm_cluster.brokers[2].bootstrap})
    for number in range(300):
        producer.produce("produced", str(number), callback=delivered)
    assert producer.flush(PATIENCE_SECONDS) == 0
    assert not failed
    consumer = Consumer(
        {
            "bootstrap.servers": calm_cluster.brokers[3].bootstrap,
            "group.id": "flights",
            "auto.offset.reset": "earliest",
        }
    )
    try:
        consumer.subscribe(["produced"])
        values: set[bytes | None] = set()
        while len(values) < 300:
            message = consumer.poll(PATIENCE_SECONDS)
            assert message is not None
            assert message.error() is None
            values.add(message.value())
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()
    assert values == {b"%d" % number for number in range(300)}


# -- one that dies ----------------------------------------------------------------------------------------


async def test_a_broker_that_died_leads_its_partitions_again_after_its_return(
    cluster: BrokerCluster,
) -> None:
    one, two, three = cluster.brokers.values()
    await create(one, "air", 6, 1)
    await produce(cluster, "air", 60)
    before = await topic_of(one, "air")
    lost = [each.partition_index for each in before.partitions if each.leader_id == 2]
    ends = {index: await end_offset(two, "air", index) for index in lost}
    two.kill()

    async def is_seen() -> bool:
        return [each.broker_id for each in (await described(three)).brokers] == [1, 3]

    await until(is_seen)
    topic = await topic_of(one, "air")
    for each in topic.partitions:
        if each.partition_index in lost:
            assert each.error_code == ErrorCode.LEADER_NOT_AVAILABLE
            assert (each.leader_id, each.offline_replicas) == (-1, (2,))
        else:
            assert (each.leader_id, each.offline_replicas) != (-1, ())
    await trio.to_thread.run_sync(two.start)
    await until(lambda: _are_led_by(one, "air", lost, 2))
    after = await topic_of(one, "air")
    for index in lost:
        assert after.partitions[index].leader_epoch > before.partitions[index].leader_epoch
        await until(lambda index=index: _serves(two, "air", index))  # type: ignore[misc]
        assert await end_offset(two, "air", index) == ends[index]
        epoch = before.partitions[index].leader_epoch
        assert (await end_offset(two, "air", index, epoch))[0] == ErrorCode.FENCED_LEADER_EPOCH


async def _are_led_by(broker: BrokerProcess, name: str, indexes: list[int], node_id: int) -> bool:
    led = await leaders(broker, name)
    return all(led[index] == node_id for index in indexes)


async def _serves(broker: BrokerProcess, name: str, index: int) -> bool:
    return (await end_offset(broker, name, index))[0] == 0


async def produce(cluster: BrokerCluster, topic: str, count: int) -> None:
    def send() -> None:
        producer = Producer({"bootstrap.servers": cluster.bootstrap})
        for number in range(count):
            producer.produce(topic, str(number), partition=number % 6)
        assert producer.flush(PATIENCE_SECONDS) == 0

    await trio.to_thread.run_sync(send)


async def test_a_restart_within_the_lease_leads_under_new_epochs_at_once(cluster: BrokerCluster) -> None:
    one, two, _ = cluster.brokers.values()
    await create(one, "air", 3, 1)
    before = await topic_of(one, "air")
    (index,) = [each.partition_index for each in before.partitions if each.leader_id == 2]
    with trio.fail_after(PATIENCE_SECONDS):
        await trio.to_thread.run_sync(two.restart, signal.SIGKILL)
        while not await _serves(two, "air", index):
            await trio.sleep(0.02)
    assert (await topic_of(two, "air")).partitions[index].leader_epoch > before.partitions[index].leader_epoch


async def test_another_controller_takes_over_when_one_dies(cluster: BrokerCluster) -> None:
    first = (await described(cluster.brokers[1])).controller_id
    others = [broker for node_id, broker in cluster.brokers.items() if node_id != first]
    await create(others[0], "air", 3, 2)
    cluster.brokers[first].kill()

    async def is_replaced() -> bool:
        now = await described(others[0])
        return now.controller_id not in (-1, first) and len(now.brokers) == 2

    await until(is_replaced)

    async def all_are_led() -> bool:
        topic = await topic_of(others[1], "air")
        return all(each.leader_id not in (-1, first) for each in topic.partitions)

    await until(all_are_led)  # The new controller elects in the place of the old one's partitions.
    for each in (await topic_of(others[1], "air")).partitions:
        assert first not in each.isr_nodes
        assert each.offline_replicas == tuple(node for node in each.replica_nodes if node == first)


async def test_a_broker_that_was_paused_past_its_lease_serves_nothing_that_another_leads(
    cluster: BrokerCluster,
) -> None:
    one, two, _ = cluster.brokers.values()
    await create(one, "air", 3, 2)
    before = await topic_of(one, "air")
    (index,) = [each.partition_index for each in before.partitions if each.leader_id == 2]
    await until(lambda: _serves(two, "air", index))
    connection = await client_of(two)
    asked = ListOffsetsPartition(partition_index=index, current_leader_epoch=-1, timestamp=-1)
    request = ListOffsetsRequest(replica_id=-1, topics=(ListOffsetsTopic(name="air", partitions=(asked,)),))
    two_process = two.pid
    subprocess.run(["kill", "-STOP", str(two_process)], check=True)
    try:

        async def is_led_elsewhere() -> bool:
            return (await leaders(one, "air"))[index] not in (-1, 2)

        await until(is_led_elsewhere)
        frame, version, header_bytes = connection.frame(request, 5)
        await connection.send(frame)  # It finds this in its socket when it wakes up, before anything else.
    finally:
        subprocess.run(["kill", "-CONT", str(two_process)], check=True)
    with trio.fail_after(PATIENCE_SECONDS):
        answer = await connection.receive()
    assert answer is not None
    (found,) = ListOffsetsResponse.decode(answer[header_bytes:], version).topics[0].partitions
    assert found.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER

    async def is_back() -> bool:
        return [each.broker_id for each in (await described(one)).brokers] == [1, 2, 3]

    await until(is_back)


async def test_without_etcd_brokers_serve_until_their_leases_end_and_again_after_its_return(
    own_etcd: EtcdProcess, tmp_path: Path
) -> None:
    with BrokerCluster(own_etcd, "c", tmp_path, 1) as cluster:
        (broker,) = cluster.brokers.values()
        await create(broker, "air", 1, 1)
        own_etcd.kill()
        began = trio.current_time()
        assert await _serves(broker, "air", 0)

        async def serves_no_more() -> bool:
            return not await _serves(broker, "air", 0)

        await until(serves_no_more)
        assert trio.current_time() - began < SESSION_MS / 1000
        await trio.to_thread.run_sync(own_etcd.start)
        await until(lambda: _serves(broker, "air", 0))


async def test_a_clean_stop_is_seen_at_once(cluster: BrokerCluster) -> None:
    assert await trio.to_thread.run_sync(cluster.brokers[2].stop) == 0
    with trio.fail_after(SESSION_MS / 1000 / 2):
        while [each.broker_id for each in (await described(cluster.brokers[1])).brokers] != [1, 3]:
            await trio.sleep(0.01)


# -- starts that fail -------------------------------------------------------------------------------------


def failed_start(folder: Path, *arguments: str) -> str:
    """Return the last line that the broker says before it ends with status 1."""
    ended = subprocess.run(
        [sys.executable, "-m", "kohort.broker", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0",
         "--data", str(folder), *arguments],
        capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False,
    )  # fmt: skip
    assert ended.returncode == 1, ended
    assert not ended.stdout
    return ended.stderr.splitlines()[-1]


def test_a_node_id_in_use_ends_the_start_with_one_line(calm_cluster: BrokerCluster, tmp_path: Path) -> None:
    said = failed_start(
        tmp_path / "other", "--node-id", "2", "--cluster", calm_cluster.url,
        "--set", "broker.session.timeout.ms=1000", "--set", "broker.heartbeat.interval.ms=200",
    )  # fmt: skip
    port = calm_cluster.brokers[2].address[1]
    assert said == (
        f"kohort serve: node id 2 is in use by another broker at 127.0.0.1:{port}: "
        "give each its own with --node-id"
    )


def test_an_unreachable_etcd_ends_the_start_with_one_line(tmp_path: Path) -> None:
    nobody = f"127.0.0.1:{free_port()}"
    said = failed_start(
        tmp_path, "--node-id", "1", "--cluster", f"etcd://{nobody}/c",
        "--set", "kohort.etcd.request.timeout.ms=300",
    )  # fmt: skip
    assert said.startswith(f"kohort serve: etcd can't be reached: http://{nobody}: ")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--cluster", "h1:2379"], "kohort.cluster: 'h1:2379' is not etcd://HOST:PORT,HOST:PORT/NAME"),
        (["--cluster", "etcd://h1/c"], "give --node-id"),
        (
            ["--cluster", "etcd://h1/c", "--node-id", "1", "--set", "broker.session.timeout.ms=3000"],
            "broker.heartbeat.interval.ms=2000 must be at most half of broker.session.timeout.ms=3000",
        ),
        (
            ["--cluster", "etcd://h1/c", "--node-id", "1", "--set", "broker.session.timeout.ms=999"],
            "broker.session.timeout.ms must be at least 1000",
        ),
        (
            ["--cluster", "etcd://h1/c", "--node-id", "1", "--set", "kohort.etcd.ssl.ca.file=ca.pem"],
            "write etcds:// instead of etcd://",
        ),
        (
            ["--cluster", "etcd://h1/c", "--node-id", "1", "--set", "kohort.etcd.password.file=none"],
            "needs kohort.etcd.user",
        ),
    ],
)
def test_a_wrong_setting_ends_the_start_with_one_line(
    tmp_path: Path, arguments: list[str], said: str
) -> None:
    assert said in failed_start(tmp_path, *arguments)


async def test_a_folder_of_another_cluster_is_refused(
    cluster: BrokerCluster, shared_etcd: EtcdProcess, tmp_path: Path
) -> None:
    cluster.brokers[1].stop()
    said = await trio.to_thread.run_sync(
        lambda: failed_start(cluster.brokers[1].data, "--node-id", "4", "--cluster", cluster.url)
    )
    assert "belongs to" in said


# -- folders ----------------------------------------------------------------------------------------------


async def test_a_single_broker_starts_a_cluster_with_its_data(
    shared_etcd: EtcdProcess, tmp_path: Path
) -> None:
    with BrokerCluster(shared_etcd, uuid4().hex, tmp_path, 0) as cluster:
        member, newcomer = cluster.broker(1), cluster.broker(2)
        alone = BrokerProcess(tmp_path / "1", "node.id=1", "offsets.topic.num.partitions=6")
        cluster.brokers = {1: alone}
        alone.start()
        await create(alone, "air", 6, 1)
        await produce(cluster, "air", 60)
        before = await topic_of(alone, "air")
        cluster_id = (await described(alone)).cluster_id
        alone.kill()
        cluster.brokers = {1: member, 2: newcomer}
        for broker in cluster.brokers.values():
            await trio.to_thread.run_sync(broker.start)
        for index in range(6):
            await until(lambda index=index: _serves(member, "air", index))  # type: ignore[misc]
            assert await end_offset(member, "air", index) == (0, 10)
        after = await topic_of(newcomer, "air")
        assert after.topic_id == before.topic_id
        assert (await described(newcomer)).cluster_id == cluster_id
        assert not (member.data / "metadata.jsonl").exists()
        await trio.to_thread.run_sync(member.restart, signal.SIGTERM)  # As any other from now on.
        await until(lambda: _serves(member, "air", 0))


async def test_a_folder_of_a_single_broker_cannot_join_an_existing_cluster(
    calm_cluster: BrokerCluster, tmp_path: Path
) -> None:
    (tmp_path / "alone").mkdir()
    alone = BrokerProcess(tmp_path / "alone", "node.id=4")
    alone.start()
    await create(alone, "air", 1, 1)
    alone.stop()
    said = await trio.to_thread.run_sync(
        lambda: failed_start(alone.data, "--node-id", "4", "--cluster", calm_cluster.url)
    )
    assert "belongs to" in said
    assert (alone.data / "air-0").is_dir()


async def is_in_sync_again(broker: BrokerProcess) -> bool:
    """Return whether all replicas of a topic have what there is."""
    return all(
        set(each.isr_nodes) == set(each.replica_nodes) for each in (await topic_of(broker, "air")).partitions
    )


async def test_a_broker_that_lost_its_folder_is_in_no_isr(cluster: BrokerCluster) -> None:
    one, two, _ = cluster.brokers.values()
    await create(one, "air", 3, 2)
    await create(one, "sea", 3, 1)
    two.kill()
    shutil.rmtree(two.data)
    await trio.to_thread.run_sync(two.start)

    async def is_back() -> bool:
        return [each.broker_id for each in (await described(one)).brokers] == [1, 2, 3]

    async def leads_nothing() -> bool:
        """Return whether what it alone had has no leader: it would lead nothing.

        It may be in sync again with what others have, and soon is: there is not much of it.
        """
        topics = [await topic_of(one, name) for name in ("air", "sea")]
        return all(
            (each.leader_id == -1) is (each.replica_nodes == (2,)) and each.leader_id != 2
            for topic in topics
            for each in topic.partitions
        )

    await until(is_back)
    await until(leads_nothing)
    await until(lambda: is_in_sync_again(one))
    assert await leads_nothing()
    for each in (await topic_of(one, "air")).partitions:
        assert each.leader_id in {1, 3}
