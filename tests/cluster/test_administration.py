"""Three brokers and their administrator: elections, moves, drained brokers, stops, brokers that are gone."""

from __future__ import annotations

import os
import signal
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from uuid import uuid4

import pytest
import trio

from kohort.broker.etcd.client import EtcdClient
from kohort.broker.etcd.messages import prefix_end
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from kohort.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kohort.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from kohort.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
    IncrementalAlterConfigsResponse,
)
from kohort.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from kohort.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from tests.cluster.broker_cluster import PATIENCE_SECONDS, BrokerCluster, client_of, described, topic_of
from tests.cluster.etcd_process import EtcdProcess
from tests.interop.broker_process import BrokerProcess

BROKER = 4
PATIENT_LEASE = ("broker.session.timeout.ms=60000",)
"""So long that whoever is noticed before is not noticed by it."""


@pytest.fixture
def cluster(shared_etcd: EtcdProcess, tmp_path: Path) -> Iterator[BrokerCluster]:
    """Three brokers whose leases outlast the test."""
    with BrokerCluster(shared_etcd, uuid4().hex, tmp_path, 3, *PATIENT_LEASE) as cluster:
        yield cluster


async def create(broker: BrokerProcess, name: str, *assignments: tuple[int, ...]) -> None:
    topic = CreatableTopic(
        name=name,
        num_partitions=-1,
        replication_factor=-1,
        assignments=tuple(
            CreatableReplicaAssignment(partition_index=index, broker_ids=nodes)
            for index, nodes in enumerate(assignments)
        ),
        configs=(),
    )
    client = await client_of(broker)
    answer = await client.ask(CreateTopicsRequest(topics=(topic,)), CreateTopicsResponse)
    assert (answer.topics[0].error_code, answer.topics[0].error_message) == (0, None)


async def until(holds: Callable[[], Awaitable[object]]) -> None:
    with trio.fail_after(PATIENCE_SECONDS):
        while not await holds():
            await trio.sleep(0.01)


async def leaders(broker: BrokerProcess, name: str) -> list[int]:
    return [each.leader_id for each in (await topic_of(broker, name)).partitions]


async def until_led(broker: BrokerProcess, name: str, *expected: int) -> None:
    async def is_led() -> bool:
        return await leaders(broker, name) == list(expected)

    await until(is_led)


async def set_drained(broker: BrokerProcess, node_id: int, value: str) -> None:
    config = IncrementalAlterConfigsRequestAlterableConfig(
        name="kohort.drained", config_operation=0, value=value
    )
    resource = IncrementalAlterConfigsRequestAlterConfigsResource(
        resource_type=BROKER, resource_name=str(node_id), configs=(config,)
    )
    client = await client_of(broker)
    answer = await client.ask(
        IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False),
        IncrementalAlterConfigsResponse,
    )
    assert answer.responses[0].error_code == 0


async def elect(broker: BrokerProcess, kind: int) -> dict[int, int]:
    client = await client_of(broker)
    answer = await client.ask(
        ElectLeadersRequest(election_type=kind, topic_partitions=None), ElectLeadersResponse
    )
    assert answer.error_code == 0
    return {
        each.partition_id: each.error_code
        for topic in answer.replica_election_results
        if topic.topic == "air"
        for each in topic.partition_result
    }


# -- drained brokers --------------------------------------------------------------------------------------


async def test_a_drained_broker_leads_nothing_until_it_is_undrained(
    cluster: BrokerCluster,
) -> None:
    one, two, _ = cluster.brokers.values()
    await create(one, "air", (2, 1), (2, 3), (3, 2))
    await create(one, "alone", (2,))
    await set_drained(two, 2, "true")
    await until_led(one, "air", 1, 3, 3)
    assert await leaders(one, "alone") == [2]  # Nobody else has it.
    topic = await topic_of(one, "air")
    assert [set(each.isr_nodes) for each in topic.partitions] == [{1, 2}, {2, 3}, {2, 3}]
    assert (await elect(one, 0))[0] == ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    await set_drained(two, 2, "false")

    async def is_elected() -> bool:
        return set((await elect(one, 0)).values()) <= {0} and await leaders(one, "air") == [2, 2, 3]

    await until(is_elected)


async def test_a_clean_stop_hands_over_leadership_first(cluster: BrokerCluster) -> None:
    one, two, three = cluster.brokers.values()
    await create(one, "air", (2, 1), (2, 3), (3, 2))
    assert await trio.to_thread.run_sync(two.stop) == 0
    # Nothing is waited for here: what another could lead was led by another before the process ended.
    assert await leaders(one, "air") == [1, 3, 3]
    assert await leaders(three, "air") == [1, 3, 3]
    assert not [line for line in two.log_lines() if "still leads" in line]


async def test_all_brokers_stop_at_once_without_waiting_for_each_other(cluster: BrokerCluster) -> None:
    await create(cluster.brokers[1], "air", (1, 2, 3), (2, 3, 1), (3, 1, 2))
    statuses: list[int] = []

    async def stop(broker: BrokerProcess) -> None:
        statuses.append(await trio.to_thread.run_sync(broker.stop))

    async with trio.open_nursery() as nursery:
        for broker in cluster.brokers.values():
            nursery.start_soon(stop, broker)
    assert statuses == [0, 0, 0]
    # A broker that has waited for the others in vain says so.
    lines = [line for each in cluster.brokers.values() for line in each.log_lines()]
    assert not [line for line in lines if "still leads" in line]


# -- brokers that die -------------------------------------------------------------------------------------


@pytest.mark.parametrize("who", ["the controller", "another"])
async def test_a_process_that_dies_is_noticed_long_before_its_lease_ends(
    cluster: BrokerCluster, who: str
) -> None:
    controller = (await described(cluster.brokers[1])).controller_id
    dies = controller if who == "the controller" else controller % 3 + 1
    others = [each for each in cluster.brokers if each != dies]
    witness = cluster.brokers[others[0]]
    await create(witness, "air", (dies, others[0]), (dies, others[1]))
    await until_led(witness, "air", dies, dies)
    cluster.brokers[dies].kill()
    with trio.fail_after(10):
        await until_led(witness, "air", *others)
    now = await described(witness)
    assert [each.broker_id for each in now.brokers] == others
    assert now.controller_id in others


async def test_a_suspended_process_is_left_to_its_lease(cluster: BrokerCluster) -> None:
    one, two, _ = cluster.brokers.values()
    await create(one, "air", (2, 1))
    os.kill(two.pid, signal.SIGSTOP)
    try:
        await trio.sleep(2)  # As long as nothing must happen.
        assert await leaders(one, "air") == [2]
    finally:
        os.kill(two.pid, signal.SIGCONT)
    assert [each.broker_id for each in (await described(one)).brokers] == [1, 2, 3]


# -- what an administrator asks for -----------------------------------------------------------------------


async def reassign(broker: BrokerProcess, index: int, target: tuple[int, ...] | None) -> int:
    wanted = ReassignablePartition(partition_index=index, replicas=target)
    client = await client_of(broker)
    answer = await client.ask(
        AlterPartitionReassignmentsRequest(topics=(ReassignableTopic(name="air", partitions=(wanted,)),)),
        AlterPartitionReassignmentsResponse,
    )
    return answer.responses[0].partitions[0].error_code


async def moves(broker: BrokerProcess) -> dict[int, tuple[tuple[int, ...], ...]]:
    client = await client_of(broker)
    answer = await client.ask(ListPartitionReassignmentsRequest(), ListPartitionReassignmentsResponse)
    return {
        each.partition_index: (each.replicas, each.adding_replicas, each.removing_replicas)
        for topic in answer.topics
        for each in topic.partitions
    }


async def test_a_reassignment_is_seen_by_all_brokers_and_can_be_cancelled(cluster: BrokerCluster) -> None:
    one, two, three = cluster.brokers.values()
    await create(one, "air", (1, 2))
    os.kill(two.pid, signal.SIGSTOP)  # It will not be in sync, so that the move lasts.
    try:
        assert await reassign(three, 0, (1, 7)) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
        assert await reassign(three, 0, (1,)) == 0
        await until(partial(_has_replicas, one, (1,)))
        assert await reassign(three, 0, (1, 2)) == 0
        assert await moves(three) == {0: ((1, 2), (2,), ())}
        await until(partial(_has_replicas, one, (1, 2)))
        assert await moves(one) == {0: ((1, 2), (2,), ())}
        assert await reassign(one, 0, None) == 0
        assert await moves(one) == {}
        assert await reassign(one, 0, None) == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    finally:
        os.kill(two.pid, signal.SIGCONT)


async def _has_replicas(broker: BrokerProcess, expected: tuple[int, ...]) -> bool:
    return (await topic_of(broker, "air")).partitions[0].replica_nodes == expected


async def test_removed_or_reordered_replicas_apply_at_once(
    cluster: BrokerCluster,
) -> None:
    one, _, three = cluster.brokers.values()
    await create(one, "air", (1, 2, 3), (1, 2, 3))
    assert await reassign(three, 0, (3, 1)) == 0
    assert await reassign(three, 1, (2, 1, 3)) == 0

    async def is_so() -> bool:
        topic = await topic_of(three, "air")
        return [each.replica_nodes for each in topic.partitions] == [(3, 1), (2, 1, 3)]

    await until(is_so)
    assert await moves(three) == {}
    assert await leaders(three, "air") == [1, 1]
    assert await elect(three, 0) == {0: 0, 1: 0}
    await until_led(one, "air", 3, 2)


async def test_a_missing_broker_is_unregistered_with_its_settings(cluster: BrokerCluster) -> None:
    one, two, three = cluster.brokers.values()
    await set_drained(two, 2, "true")

    async def unregister(node_id: int) -> int:
        client = await client_of(one)
        request = UnregisterBrokerRequest(broker_id=node_id)
        return (await client.ask(request, UnregisterBrokerResponse)).error_code

    assert await unregister(7) == ErrorCode.BROKER_ID_NOT_REGISTERED
    await trio.to_thread.run_sync(two.stop)
    assert await unregister(2) == 0
    assert await unregister(2) == ErrorCode.BROKER_ID_NOT_REGISTERED
    await trio.to_thread.run_sync(three.stop)
    assert await unregister(3) == 0, "it has no settings and no replicas, but a data folder is its own"
    assert await unregister(3) == ErrorCode.BROKER_ID_NOT_REGISTERED
    async with EtcdClient([f"http://{cluster.url.split('/')[2]}"]) as etcd:
        prefix = f"/kohort/{cluster.url.rpartition('/')[2]}/lives/".encode()
        found = await etcd.range_all(prefix, prefix_end(prefix))
    assert [each.key.decode()[-1] for each in found.items] == ["1"]


async def test_a_running_broker_that_is_unregistered_registers_again(
    cluster: BrokerCluster,
) -> None:
    one, two, _ = cluster.brokers.values()
    await create(one, "air", (2, 1))
    client = await client_of(one)
    answer = await client.ask(UnregisterBrokerRequest(broker_id=2), UnregisterBrokerResponse)
    assert answer.error_code == 0
    await until_led(one, "air", 1)

    async def is_back() -> bool:
        return [each.broker_id for each in (await described(one)).brokers] == [1, 2, 3]

    await until(is_back)
    assert two.is_running()
