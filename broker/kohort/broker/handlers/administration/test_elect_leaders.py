"""ElectLeaders and UnregisterBroker on a broker that is alone: its partitions need nobody else."""

from pathlib import Path

import pytest

from kohort.broker.handlers.administration.test_admin_support import AdminWorld
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    ElectLeadersTopicPartitions,
)
from kohort.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse


@pytest.mark.parametrize("version", range(3))
async def test_a_preferred_leader_needs_no_election(tmp_path: Path, version: int) -> None:
    world = await AdminWorld(tmp_path).start()
    await world.create("t", 2)
    wanted = ElectLeadersTopicPartitions(topic="t", partitions=(1, 7))
    answer = await world.ask(
        ElectLeadersRequest(election_type=0, topic_partitions=(wanted,)), ElectLeadersResponse, version
    )
    (topic,) = answer.replica_election_results
    assert (answer.error_code, topic.topic) == (0, "t")
    assert [(each.partition_id, each.error_code) for each in topic.partition_result] == [
        (1, ErrorCode.ELECTION_NOT_NEEDED),
        (7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]


async def test_an_election_for_all_partitions_omits_those_without_a_change(tmp_path: Path) -> None:
    world = await AdminWorld(tmp_path).start()
    await world.create("t", 2)
    for kind in (0, 1):
        request = ElectLeadersRequest(election_type=kind, topic_partitions=None)
        answer = await world.ask(request, ElectLeadersResponse)
        assert (answer.error_code, answer.replica_election_results) == (0, ())


async def test_an_unknown_kind_of_election_is_refused(tmp_path: Path) -> None:
    world = await AdminWorld(tmp_path).start()
    request = ElectLeadersRequest(election_type=2, topic_partitions=None)
    answer = await world.ask(request, ElectLeadersResponse)
    assert answer.error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    "node_id, code", [(1, ErrorCode.INVALID_REQUEST), (7, ErrorCode.BROKER_ID_NOT_REGISTERED)]
)
async def test_a_single_broker_cannot_be_unregistered(tmp_path: Path, node_id: int, code: ErrorCode) -> None:
    world = await AdminWorld(tmp_path).start()
    answer = await world.ask(UnregisterBrokerRequest(broker_id=node_id), UnregisterBrokerResponse)
    assert answer.error_code == code
    assert world.snapshot.broker(1) is not None
