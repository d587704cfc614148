import pytest

from kohort.broker.group import (
    Command,
    DeleteGroup,
    DescribeGroup,
    ExpireOffsets,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    ListGroups,
    OffsetCommit,
    OffsetDelete,
    OffsetFetch,
    Reply,
    SyncGroup,
    refusal,
)
from kohort.broker.group.test_world import Client, World, stable_group
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.heartbeat import HeartbeatRequest
from kohort.protocol.messages.join_group import JoinGroupRequest
from kohort.protocol.messages.leave_group import LeaveGroupRequest
from kohort.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kohort.protocol.messages.offset_delete import OffsetDeleteRequest
from kohort.protocol.messages.offset_fetch import OffsetFetchRequestGroup
from kohort.protocol.messages.sync_group import SyncGroupRequest
from kohort.protocol.schema import ZERO_UUID

JOIN = JoinGroupRequest(
    group_id="g", session_timeout_ms=1, member_id="m", protocol_type="consumer", protocols=()
)
SYNC = SyncGroupRequest(group_id="g", generation_id=1, member_id="m", assignments=())
PARTITION = OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata=None)
COMMIT = OffsetCommitRequest(
    group_id="g",
    member_id="",
    topics=(OffsetCommitRequestTopic(name="t", topic_id=ZERO_UUID, partitions=(PARTITION,)),),
)
COMMANDS: list[Command] = [
    JoinGroup(1, JOIN, 9, "new", "c", "/h", None, lambda topic: True),
    SyncGroup(1, SYNC, 5),
    Heartbeat(1, HeartbeatRequest(group_id="g", generation_id=1, member_id="m")),
    LeaveGroup(1, LeaveGroupRequest(group_id="g", member_id="m", members=()), 5),
    OffsetFetch(1, OffsetFetchRequestGroup(group_id="g", topics=None)),
    DescribeGroup(1, "g", 6),
    ListGroups(1),
    DeleteGroup(1, "g"),
    OffsetDelete(1, OffsetDeleteRequest(group_id="g", topics=())),
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda each: type(each).__name__)
def test_every_request_can_be_refused(command: Command) -> None:
    answer = refusal(command, ErrorCode.NOT_COORDINATOR)
    assert getattr(answer, "error_code", None) == ErrorCode.NOT_COORDINATOR


def test_a_refused_commit_fails_every_partition() -> None:
    answer = refusal(OffsetCommit(1, COMMIT, 9), ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert isinstance(answer, OffsetCommitResponse)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_a_loading_shard_answers_heartbeats_without_an_error() -> None:
    heartbeat = next(each for each in COMMANDS if isinstance(each, Heartbeat))
    answer = refusal(heartbeat, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert getattr(answer, "error_code", None) == ErrorCode.NONE


def test_timer_commands_are_refused_without_an_answer() -> None:
    assert refusal(ExpireOffsets(), ErrorCode.NOT_COORDINATOR) is None


def test_a_closed_core_answers_all_parked_requests() -> None:
    world = World()
    stable, joining = Client(world, "stable"), Client(world, "joining")
    stable_group(world, stable)
    joining.join()
    leader, syncing = Client(world, "leader", group_id="h"), Client(world, "syncing", group_id="h")
    leader.join()
    syncing.join()
    world.sleep(6_000)
    assert syncing.joined() is not None
    syncing.sync()
    decision = world.core.give_up(ErrorCode.NOT_COORDINATOR)
    replies = [each for each in decision.effects if isinstance(each, Reply)]
    assert {each.request_id for each in replies} == {joining.request_id, syncing.request_id}
    assert all(getattr(each.message, "error_code", 0) == ErrorCode.NOT_COORDINATOR for each in replies)
    assert decision.records == ()
