"""Streams groups as their members see them: joining, sharing tasks, leaving, coming back from the log."""

from typing import Any

import pytest

from kohort.broker.explain.events import RebalanceCompleted
from kohort.broker.group import DeleteGroup, GroupConfig, ListGroups, OffsetCommit, OffsetDelete, OffsetFetch
from kohort.broker.group.events import GroupEmptied, GroupLoaded, MemberExpired, MemberJoined, MemberLeft
from kohort.broker.group.state import GroupState
from kohort.broker.group.streams.commands import StreamsGroupHeartbeat
from kohort.broker.group.streams.member import MemberState
from kohort.broker.group.streams.tasks import Task
from kohort.broker.group.streams.test_world import (
    COPY,
    COUNT,
    WORD_COUNT,
    StreamsWorld,
    Thread,
    application,
    settled,
    subtopology,
)
from kohort.broker.group.streams.topology import Status
from kohort.broker.group.test_world import Client, stable_group
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.delete_groups import DeletableGroupResult
from kohort.protocol.messages.join_group import JoinGroupResponse
from kohort.protocol.messages.list_groups import ListGroupsResponse
from kohort.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kohort.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from kohort.protocol.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchResponseGroup
from kohort.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatEndpoint,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatTaskIds,
    StreamsGroupHeartbeatTaskOffset,
)
from kohort.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest

ALL = {Task("0", index) for index in range(4)}


def running(world: StreamsWorld, *names: str, **more: Any) -> list[Thread]:
    """Members of one group that have come to its newest epoch."""
    members = [Thread(world, name, **more) for name in names]
    for each in members:
        assert each.join() is ErrorCode.NONE
        world.make_topics()
    settled(*members)
    return members


def test_the_first_member_gets_all_tasks() -> None:
    world = StreamsWorld(t=4)
    one = Thread(world, "one")
    assert one.join() is ErrorCode.NONE
    assert (one.epoch, one.active, one.statuses) == (2, ALL, {})
    assert (one.last.heartbeat_interval_ms, one.last.standby_tasks, one.last.warmup_tasks) == (5_000, (), ())
    assert world.group().state is GroupState.STABLE
    assert one.heartbeat() is ErrorCode.NONE
    assert one.last.active_tasks is None, "nothing new"
    assert world.noted(MemberJoined)[0].member_id == "one"


def test_a_new_group_waits_for_more_members_before_its_first_assignment() -> None:
    world = StreamsWorld(GroupConfig(group_streams_assignment_interval_ms=0), t=4)
    one, two = Thread(world, "one"), Thread(world, "two")
    assert one.join() is ErrorCode.NONE
    assert (one.epoch, one.active, one.last.heartbeat_interval_ms) == (1, set(), 3_000)
    assert list(one.statuses) == [Status.ASSIGNMENT_DELAYED]
    world.sleep(1_000)
    assert two.join() is ErrorCode.NONE
    assert (two.epoch, two.last.heartbeat_interval_ms) == (1, 2_000)
    world.sleep(2_000)
    assert world.group().assignment_epoch == world.group().epoch
    assert one.heartbeat() is ErrorCode.NONE
    assert two.heartbeat() is ErrorCode.NONE
    assert (len(one.active), one.active | two.active, one.statuses) == (2, ALL, {})


def test_the_second_member_gets_tasks_after_the_first_has_revoked_them() -> None:
    world = StreamsWorld(t=4)
    (one,) = running(world, "one")
    two = Thread(world, "two")
    assert two.join() is ErrorCode.NONE
    assert (two.epoch, two.active) == (3, set()), "it waits"
    assert world.group().members["two"].state is MemberState.UNRELEASED
    assert one.heartbeat() is ErrorCode.NONE
    assert (one.epoch, len(one.active)) == (2, 2), "it is asked to give two up"
    assert world.group().members["one"].state is MemberState.UNREVOKED
    assert one.heartbeat() is ErrorCode.NONE
    assert world.group().members["one"].state is MemberState.UNREVOKED, "it has not said so"
    assert one.tell() is ErrorCode.NONE
    assert one.epoch == 3
    assert two.heartbeat() is ErrorCode.NONE
    assert (one.active | two.active, len(two.active)) == (ALL, 2)
    assert world.group().state is GroupState.STABLE
    assert [each.report.generation_id for each in world.noted(RebalanceCompleted)] == [2, 3]
    (move, _) = world.noted(RebalanceCompleted)[-1].report.moves
    assert (move.topic, move.from_member_id, move.to_member_id) == ("0", "one", "two")


def test_a_member_that_does_not_revoke_is_fenced_after_its_rebalance_timeout() -> None:
    world = StreamsWorld(t=4)
    (one,) = running(world, "one")
    two = Thread(world, "two")
    assert two.join() is ErrorCode.NONE
    for _ in range(3):
        assert one.heartbeat() is ErrorCode.NONE
        assert two.heartbeat() is ErrorCode.NONE
        world.sleep(20_000)
    assert one.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.noted(MemberExpired)[0].reason.startswith("it did not give up its tasks")
    assert two.heartbeat() is ErrorCode.NONE
    assert two.active == ALL


def test_a_silent_member_is_removed_after_its_session_timeout() -> None:
    world = StreamsWorld(t=4)
    one, two = running(world, "one", "two")
    for _ in range(3):
        world.sleep(20_000)
        assert two.heartbeat() is ErrorCode.NONE
    assert world.noted(MemberExpired)[0].member_id == "one"
    assert two.active == ALL
    world.sleep(60_000)
    assert world.noted(GroupEmptied)
    assert world.group().state is GroupState.EMPTY
    assert one.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_leaving_member_is_removed_at_once() -> None:
    world = StreamsWorld(t=4)
    one, two = running(world, "one", "two")
    assert one.leave() is ErrorCode.NONE
    assert (one.last.member_epoch, one.last.status) == (-1, ())
    assert two.heartbeat() is ErrorCode.NONE
    assert two.active == ALL
    assert world.noted(MemberLeft)[0].member_id == "one"
    assert one.leave() is ErrorCode.UNKNOWN_MEMBER_ID


def test_missing_topics_are_reported_and_no_tasks_are_assigned() -> None:
    world = StreamsWorld(u=1)
    one = Thread(world, "one")
    assert one.join() is ErrorCode.NONE
    assert one.statuses == {Status.MISSING_SOURCE_TOPICS: "Source topics t are missing."}
    assert (one.active, world.group().state) == (set(), GroupState.NOT_READY)
    world.change(u=1, t=4)
    assert one.heartbeat() is ErrorCode.NONE
    assert (one.statuses, one.active, world.group().state) == ({}, ALL, GroupState.STABLE)


def test_internal_topics_are_requested_and_the_member_gets_a_short_interval() -> None:
    world = StreamsWorld(t=4)
    one = Thread(world, "one", topology=WORD_COUNT)
    assert one.join() is ErrorCode.NONE
    assert list(one.statuses) == [Status.MISSING_INTERNAL_TOPICS]
    assert one.last.heartbeat_interval_ms == 200
    topics = world.group().configured
    assert topics is not None
    assert [(each.name, each.partitions) for each in topics.missing] == [
        ("g-c", 4),
        ("g-r", 4),
    ]
    assert topics.missing[0].configs == (("cleanup.policy", "compact"),)
    world.make_topics()
    assert one.heartbeat() is ErrorCode.NONE
    assert one.active == {Task(part, index) for part in "01" for index in range(4)}
    assert one.statuses == {}


def test_more_partitions_make_the_group_unfit_until_its_topics_have_as_many() -> None:
    world = StreamsWorld(t=4)
    (one,) = running(world, "one", topology=COUNT)
    world.change(**{"t": 6, "g-c": 4})
    assert one.heartbeat() is ErrorCode.NONE
    assert list(one.statuses) == [Status.INCORRECTLY_PARTITIONED_TOPICS]
    world.change(**{"t": 6, "g-c": 6})
    settled(one)
    assert len(one.active) == 6


def test_standbys_are_on_the_other_process_and_become_active() -> None:
    world = StreamsWorld(t=4)
    world.configure(streams_num_standby_replicas="1")
    one, two = running(world, "one", "two", topology=COUNT)
    assert (one.active, two.active) == (two.standby, one.standby)
    assert world.group().last_configs == {"num.standby.replicas": "1"}
    assert one.leave() is ErrorCode.NONE
    settled(two)
    assert (two.active, two.standby) == (ALL, set())


def test_a_changed_number_of_standbys_starts_a_new_epoch() -> None:
    world = StreamsWorld(t=4)
    one, two = running(world, "one", "two", topology=COUNT)
    epoch = world.group().epoch
    world.configure(streams_num_standby_replicas="1")
    settled(one, two)
    assert world.group().epoch == epoch + 1
    assert len(one.standby) == 2


def test_the_number_of_standbys_is_limited_by_the_broker() -> None:
    world = StreamsWorld(t=2)
    world.configure(streams_num_standby_replicas="9")
    members = running(world, "one", "two", "three", "four", topology=COUNT)
    assert sum(len(each.standby) for each in members) == 4


def test_a_different_topology_of_the_same_epoch_is_refused_and_an_older_one_is_reported() -> None:
    world = StreamsWorld(t=4)
    newer = application(subtopology("0", "t"), epoch=3)
    (one,) = running(world, "one", topology=newer)
    other = Thread(world, "other", topology=application(subtopology("0", "u"), epoch=3))
    assert other.join() is ErrorCode.INVALID_REQUEST
    assert other.last.error_message == "Topology updates are not supported yet."
    newest = Thread(world, "newest", topology=application(subtopology("0", "t"), epoch=4))
    assert newest.join() is ErrorCode.INVALID_REQUEST
    older = Thread(world, "older", topology=COPY)
    assert older.join() is ErrorCode.NONE
    assert older.statuses == {
        Status.STALE_TOPOLOGY: "The member's topology epoch 0 is behind the group's topology epoch 3."
    }
    settled(one, older)
    assert one.active | older.active == ALL


def test_a_requested_shutdown_is_sent_to_all_members_until_the_group_is_empty() -> None:
    world = StreamsWorld(t=4)
    one, two = running(world, "one", "two")
    assert one.heartbeat(shutdown_application=True) is ErrorCode.NONE
    words = (
        "Streams group member one encountered a fatal error and requested a shutdown for the entire "
        "application."
    )
    for each in (one, two):
        assert each.heartbeat() is ErrorCode.NONE
        assert each.statuses == {Status.SHUTDOWN_APPLICATION: words}
    for each in (one, two):
        assert each.leave() is ErrorCode.NONE
    again = Thread(world, "again")
    assert again.join() is ErrorCode.NONE
    assert again.statuses == {}


def test_changed_endpoints_are_sent_to_members() -> None:
    world = StreamsWorld(t=2)
    one = Thread(world, "one")
    assert one.join(user_endpoint=StreamsGroupHeartbeatEndpoint(host="a", port=1)) is ErrorCode.NONE
    assert one.last.endpoint_information_epoch == 0
    (told,) = one.last.partitions_by_user_endpoint or ()
    assert (told.user_endpoint.host, told.user_endpoint.port) == ("a", 1)
    assert [(each.topic, each.partitions) for each in told.active_partitions] == [("t", (0, 1))]
    two = Thread(world, "two")
    assert two.join(user_endpoint=StreamsGroupHeartbeatEndpoint(host="b", port=2)) is ErrorCode.NONE
    settled(one, two)
    for each in (one, two):
        each.endpoint_epoch = -7
        assert each.heartbeat() is ErrorCode.NONE
        told_parts = {
            each.user_endpoint.host: [part.partitions for part in each.active_partitions]
            for each in each.last.partitions_by_user_endpoint or ()
        }
        assert sorted(told_parts) == ["a", "b"]
        assert sorted(index for parts in told_parts.values() for part in parts for index in part) == [0, 1]
    assert one.heartbeat() is ErrorCode.NONE
    assert one.last.partitions_by_user_endpoint is None


def test_a_member_in_another_epoch_is_fenced_unless_it_has_missed_an_answer() -> None:
    world = StreamsWorld(t=4)
    (one,) = running(world, "one")
    assert one.send(one.epoch + 1) is ErrorCode.FENCED_MEMBER_EPOCH
    two = Thread(world, "two")
    assert two.join() is ErrorCode.NONE
    settled(one, two)
    one.epoch -= 1
    assert one.heartbeat() is ErrorCode.FENCED_MEMBER_EPOCH, "it does not say what it has"
    one.epoch = world.group().epoch - 1
    assert one.tell() is ErrorCode.NONE
    assert one.epoch == world.group().epoch


def test_a_member_that_rejoins_without_tasks_receives_its_assignment() -> None:
    world = StreamsWorld(t=4)
    (one,) = running(world, "one")
    one.active = set()
    assert one.join() is ErrorCode.NONE
    assert (one.active, one.epoch) == (ALL, 2)


@pytest.mark.parametrize(
    "fields, words",
    [
        ({"instance_id": " "}, "InstanceId can't be empty."),
        ({"rack_id": " "}, "RackId can't be empty."),
        ({"topology": None}, "Topology must be non-null when (re-)joining."),
        ({"rebalance_timeout_ms": -1}, "RebalanceTimeoutMs must be provided in first request."),
        ({"standby_tasks": None}, "StandbyTasks must be empty when (re-)joining."),
        (
            {"active_tasks": (StreamsGroupHeartbeatTaskIds(subtopology_id="0", partitions=(0,)),)},
            "ActiveTasks must be empty when (re-)joining.",
        ),
        ({"task_offsets": ()}, "TaskOffsets are not supported yet."),
        ({"task_end_offsets": ()}, "TaskEndOffsets are not supported yet."),
    ],
)
def test_an_invalid_heartbeat_is_refused_and_changes_nothing(fields: dict[str, Any], words: str) -> None:
    world = StreamsWorld(t=4)
    one = Thread(world, "one")
    joins: dict[str, Any] = {
        "rebalance_timeout_ms": 1,
        "topology": COPY,
        "process_id": "p",
        "active_tasks": (),
        "standby_tasks": (),
        "warmup_tasks": (),
    }
    assert one.send(0, **{**joins, **fields}) is ErrorCode.INVALID_REQUEST
    assert (one.last.error_message, one.last.status) == (words, ())
    assert not world.core.groups
    assert one.send(1, active_tasks=()) is ErrorCode.INVALID_REQUEST
    assert one.last.error_message == "If one task-type is non-null, all must be non-null."
    assert one.send(-3) is ErrorCode.INVALID_REQUEST
    assert one.send(-2) is ErrorCode.INVALID_REQUEST
    assert one.last.error_message == "InstanceId can't be null."
    assert one.send(4) is ErrorCode.GROUP_ID_NOT_FOUND
    assert one.last.error_message == "Streams group g not found."
    assert one.send(4, topology=COPY) is ErrorCode.INVALID_REQUEST


def test_newer_members_can_report_their_task_offsets() -> None:
    world = StreamsWorld(t=4)
    one = Thread(world, "one", version=1)
    assert one.join() is ErrorCode.NONE
    assert (one.last.acceptable_recovery_lag, one.last.task_offset_interval_ms) == (10_000, 60_000)
    offset = StreamsGroupHeartbeatTaskOffset(subtopology_id="0", partition=0, offset=5)
    assert one.heartbeat(task_offsets=(offset,)) is ErrorCode.NONE


def test_tasks_that_there_are_not_are_refused() -> None:
    world = StreamsWorld(t=4)
    (one,) = running(world, "one")
    one.active = {Task("0", 4)}
    assert one.tell() is ErrorCode.INVALID_REQUEST
    assert one.last.error_message == (
        "Task 4 for subtopology 0 is invalid. Number of tasks for this subtopology: 4"
    )
    one.active = {Task("9", 0)}
    assert one.tell() is ErrorCode.INVALID_REQUEST


def test_a_copartition_group_of_topics_that_are_not_there_is_refused() -> None:
    world = StreamsWorld(t=4)
    one = Thread(world, "one", topology=application(subtopology("0", "t", copartition=[((1,), ())])))
    assert one.join() is ErrorCode.STREAMS_INVALID_TOPOLOGY
    assert not world.core.groups


def test_a_full_group_refuses_new_members() -> None:
    world = StreamsWorld(
        GroupConfig(
            group_streams_max_size=1,
            group_streams_initial_rebalance_delay_ms=0,
            group_streams_assignment_interval_ms=0,
        ),
        t=4,
    )
    running(world, "one")
    two = Thread(world, "two")
    assert two.join() is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert two.last.error_message == "The streams group has reached its maximum capacity of 1 members."


def test_member_metadata_are_limited() -> None:
    config = GroupConfig(group_member_bytes_max=100)
    world = StreamsWorld(config, t=4)
    assert Thread(world, "one", topology=WORD_COUNT).join() is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert not world.core.groups


def test_many_changes_share_one_assignment() -> None:
    world = StreamsWorld(GroupConfig(group_streams_initial_rebalance_delay_ms=0), t=4)
    one, two = Thread(world, "one"), Thread(world, "two")
    assert one.join() is ErrorCode.NONE
    assert one.active == ALL
    world.sleep(400)
    assert two.join() is ErrorCode.NONE
    assert (two.active, two.last.heartbeat_interval_ms) == (set(), 600)
    world.sleep(600)
    settled(one, two)
    assert len(two.active) == 2


def test_a_group_restored_from_the_log_continues() -> None:
    world = StreamsWorld(t=4)
    one, two = running(world, "one", "two", topology=COUNT)
    world.restart()
    assert world.noted(GroupLoaded)[-1].members == 2
    for each in (one, two):
        before = each.active
        assert each.heartbeat() is ErrorCode.NONE
        assert (each.active, each.last.active_tasks) == (before, None)
    world.restart()
    world.sleep(46_000)
    assert world.group().state is GroupState.EMPTY, "sessions begin anew, and end"


def test_the_group_is_listed_described_and_deleted_when_it_is_empty() -> None:
    world = StreamsWorld(t=4)
    (one,) = running(world, "one", topology=WORD_COUNT)
    request_id = next(world.request_ids)
    world.run(world.core.handle(ListGroups(request_id, (), ("streams",)), world.now_ms))
    (listed,) = world.answer(request_id, ListGroupsResponse).groups
    assert (listed.group_id, listed.protocol_type, listed.group_type) == ("g", "streams", "streams")
    told = world.describe()
    assert (told.group_state, told.group_epoch, told.assignment_epoch) == ("Stable", 3, 3)
    assert told.topology is not None
    assert [each.subtopology_id for each in told.topology.subtopologies or ()] == ["0", "1"]
    (member,) = told.members
    assert (member.member_id, member.process_id, member.member_epoch) == ("one", "process-one", 3)
    assert member.assignment == member.target_assignment
    assert world.describe("x").error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert deleted(world) is ErrorCode.NON_EMPTY_GROUP
    assert one.leave() is ErrorCode.NONE
    assert deleted(world) is ErrorCode.NONE
    assert not world.core.groups
    assert world.core._groups.shard_bytes.member_bytes == 0
    world.restart()
    assert not world.core.groups


@pytest.mark.parametrize("state", ["NotReady", "notready", "not_ready", "Stable"])
def test_a_group_that_is_not_ready_is_listed_by_both_names_of_that_state(state: str) -> None:
    world = StreamsWorld(t=4)
    Thread(world, "one", topology=WORD_COUNT).join()
    assert world.group().state is GroupState.NOT_READY
    request_id = next(world.request_ids)
    world.run(world.core.handle(ListGroups(request_id, (state,), ()), world.now_ms))
    listed = world.answer(request_id, ListGroupsResponse).groups
    assert [each.group_id for each in listed] == ([] if state == "Stable" else ["g"])


def deleted(world: StreamsWorld) -> ErrorCode:
    request_id = next(world.request_ids)
    world.run(world.core.handle(DeleteGroup(request_id, "g"), world.now_ms))
    return ErrorCode(world.answer(request_id, DeletableGroupResult).error_code)


def commit(
    world: StreamsWorld, member_id: str, epoch: int, partition: int = 0, version: int = 9
) -> ErrorCode:
    request_id = next(world.request_ids)
    message = OffsetCommitRequest(
        group_id="g",
        generation_id_or_member_epoch=epoch,
        member_id=member_id,
        topics=(
            OffsetCommitRequestTopic(
                name="t",
                partitions=(
                    OffsetCommitRequestPartition(
                        partition_index=partition, committed_offset=5, committed_metadata=""
                    ),
                ),
            ),
        ),
    )
    world.run(world.core.handle(OffsetCommit(request_id, message, version), world.now_ms))
    (topic,) = world.answer(request_id, OffsetCommitResponse).topics
    return ErrorCode(topic.partitions[0].error_code)


def test_members_commit_with_their_epoch_or_an_earlier_one_for_tasks_owned_since() -> None:
    world = StreamsWorld(t=4)
    (one,) = running(world, "one")
    assert commit(world, "one", one.epoch) is ErrorCode.NONE
    assert commit(world, "one", one.epoch, version=8) is ErrorCode.UNSUPPORTED_VERSION
    assert commit(world, "stranger", one.epoch) is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(world, "one", one.epoch + 1) is ErrorCode.STALE_MEMBER_EPOCH
    two = Thread(world, "two")
    assert two.join() is ErrorCode.NONE
    settled(one, two)
    kept = min(one.active).partition
    given = min(two.active).partition
    assert commit(world, "one", one.epoch - 1, kept) is ErrorCode.NONE
    assert commit(world, "one", one.epoch - 1, given) is ErrorCode.STALE_MEMBER_EPOCH
    assert commit(world, "two", two.epoch - 1, given) is ErrorCode.STALE_MEMBER_EPOCH
    assert commit(world, "", -1) is ErrorCode.UNKNOWN_MEMBER_ID
    for each in (one, two):
        assert each.leave() is ErrorCode.NONE
    assert commit(world, "", -1) is ErrorCode.NONE


def test_offsets_are_fetched_in_ones_epoch() -> None:
    world = StreamsWorld(t=4)
    (one,) = running(world, "one")

    def fetched(member_id: str | None, epoch: int) -> ErrorCode:
        request_id = next(world.request_ids)
        asked = OffsetFetchRequestGroup(group_id="g", member_id=member_id, member_epoch=epoch, topics=None)
        world.run(world.core.handle(OffsetFetch(request_id, asked), world.now_ms))
        return ErrorCode(world.answer(request_id, OffsetFetchResponseGroup).error_code)

    assert fetched(None, -1) is ErrorCode.NONE
    assert fetched("one", one.epoch) is ErrorCode.NONE
    assert fetched("one", one.epoch - 1) is ErrorCode.STALE_MEMBER_EPOCH
    assert fetched("two", one.epoch) is ErrorCode.UNKNOWN_MEMBER_ID
    transactional = TxnOffsetCommitRequest(
        transactional_id="x",
        group_id="g",
        producer_id=1,
        producer_epoch=0,
        generation_id_or_member_epoch=one.epoch,
        member_id="one",
        topics=(),
    )
    world.group().check_transactional_commit(transactional)


def test_offsets_of_topics_that_the_application_reads_are_not_deleted() -> None:
    world = StreamsWorld(t=4)
    (one,) = running(world, "one")
    assert commit(world, "one", one.epoch) is ErrorCode.NONE

    def removed(name: str) -> ErrorCode:
        request_id = next(world.request_ids)
        message = OffsetDeleteRequest(
            group_id="g",
            topics=(
                OffsetDeleteRequestTopic(
                    name=name, partitions=(OffsetDeleteRequestPartition(partition_index=0),)
                ),
            ),
        )
        world.run(world.core.handle(OffsetDelete(request_id, message), world.now_ms))
        (topic,) = world.answer(request_id, OffsetDeleteResponse).topics
        return ErrorCode(topic.partitions[0].error_code)

    assert removed("t") is ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    assert removed("u") is ErrorCode.NONE
    assert one.leave() is ErrorCode.NONE
    assert removed("t") is ErrorCode.NONE


def test_groups_of_other_kinds_keep_their_kind_except_an_empty_classic_one() -> None:
    world = StreamsWorld(t=4)
    one = Thread(world, "one", group_id="classic")
    stable_group(world, Client(world, "classic", group_id="classic"))
    assert one.join() is ErrorCode.GROUP_ID_NOT_FOUND
    assert one.last.error_message == "Group classic is not a streams group."
    (two,) = running(world, "two")
    other = Client(world, "other", group_id="g")
    other.join()
    refused = other.joined()
    assert refused is not None
    assert refused.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert two.leave() is ErrorCode.NONE
    stable_group(world, other)
    assert world.core.groups["g"].group_type == "classic"


def test_a_heartbeat_that_can_not_be_put_to_a_shard_is_answered_with_its_code() -> None:
    world = StreamsWorld(t=4)
    message = StreamsGroupHeartbeatRequest(
        group_id="g", member_id="m", member_epoch=1, endpoint_information_epoch=0
    )
    command = StreamsGroupHeartbeat(0, message, 0, "client", "/127.0.0.1", world.metadata)
    assert command.refused(ErrorCode.NOT_COORDINATOR).error_code == ErrorCode.NOT_COORDINATOR


def test_an_empty_streams_group_stays_one_when_a_classic_join_is_refused() -> None:
    world = StreamsWorld(t=4)
    thread = Thread(world, "one")
    thread.join()
    thread.leave()
    logged = len(world.log)
    classic = Client(world, "classic")
    classic.member_id = "nobody"
    answer = world.answer(classic.request_join(), JoinGroupResponse)
    assert (answer.error_code, len(world.log)) == (ErrorCode.UNKNOWN_MEMBER_ID, logged)
    assert not world.group().members
    assert thread.join() is ErrorCode.NONE
