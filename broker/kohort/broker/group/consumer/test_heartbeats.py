"""Consumer groups as their members see them: joining, reconciling, leaving, coming back."""

from typing import Any

import msgspec
import pytest

from kohort.broker.group import DeleteGroup, DescribeGroup, GroupConfig, ListGroups, OffsetFetch, Reply
from kohort.broker.group.commands import TxnOffsetCommit
from kohort.broker.group.consumer.member import MemberState
from kohort.broker.group.consumer.records import current_record
from kohort.broker.group.consumer.test_world import AT_ONCE, Consumer, ConsumerWorld, consumer_state, settle
from kohort.broker.group.events import MemberExpired, MemberJoined, MemberLeft, StaticMemberReturned
from kohort.broker.group.test_world import Client, stable_group
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.delete_groups import DeletableGroupResult
from kohort.protocol.messages.describe_groups import DescribedGroup
from kohort.protocol.messages.join_group import JoinGroupResponse
from kohort.protocol.messages.list_groups import ListGroupsResponse
from kohort.protocol.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchResponseGroup
from kohort.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)

ALL = {("t", index) for index in range(4)}


def test_a_second_member_gets_its_half_after_the_first_has_revoked_it() -> None:
    world = ConsumerWorld(t=4)
    one, two = Consumer(world, "one"), Consumer(world, "two")
    one.join()
    assert two.join() is ErrorCode.NONE
    assert (two.epoch, two.has) == (3, set())
    assert world.state() == "Reconciling"
    assert one.heartbeat() is ErrorCode.NONE
    assert (one.epoch, len(one.has)) == (2, 2)  # It is told in its old epoch, and acts on it ...
    assert two.heartbeat() is ErrorCode.NONE
    assert two.has == set()  # ... but until it says so, nobody gets what it had.
    one.heartbeat()
    two.heartbeat()
    assert (one.epoch, two.epoch) == (3, 3)
    assert (len(one.has), len(two.has), one.has | two.has) == (2, 2, ALL)
    assert world.state() == "Stable"


def test_a_member_that_does_not_revoke_delays_only_its_partitions_until_it_is_fenced() -> None:
    world = ConsumerWorld(t=3)
    one, two, three = (Consumer(world, name) for name in ("one", "two", "three"))
    one.join()
    two.join()
    settle(one, two)
    one.stubborn = True
    three.join()
    for _ in range(3):
        for each in (one, two, three):
            assert each.heartbeat() is ErrorCode.NONE
    assert (three.has, two.epoch, three.epoch) == (set(), 4, 4)
    world.sleep(30_000)
    for each in (one, two, three):
        assert each.heartbeat() is ErrorCode.NONE
    world.sleep(30_001)
    assert one.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID
    assert [each.member_id for each in world.noted(MemberExpired)] == ["one"]
    settle(two, three)
    assert two.has | three.has == {("t", 0), ("t", 1), ("t", 2)}


def test_a_silent_member_is_removed_after_its_session_timeout() -> None:
    world = ConsumerWorld(t=4)
    one, two = Consumer(world, "one"), Consumer(world, "two")
    one.join()
    two.join()
    settle(one, two)
    for _ in range(4):
        world.sleep(15_000)
        assert one.quiet_heartbeat() is ErrorCode.NONE
    assert [each.member_id for each in world.noted(MemberExpired)] == ["two"]
    settle(one)
    assert one.has == ALL
    assert two.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID
    assert two.join() is ErrorCode.NONE


def test_partitions_of_a_leaving_member_are_assigned_with_the_next_heartbeat() -> None:
    world = ConsumerWorld(t=4)
    one, two = Consumer(world, "one"), Consumer(world, "two")
    one.join()
    two.join()
    settle(one, two)
    assert two.leave() is ErrorCode.NONE
    assert two.last.member_epoch == -1
    assert world.state() == "Assigning"
    assert one.quiet_heartbeat() is ErrorCode.NONE
    assert (one.has, one.epoch, world.state()) == (ALL, 4, "Stable")
    one.leave()
    assert world.state() == "Empty"
    assert [each.member_id for each in world.noted(MemberJoined)] == ["one", "two"]
    assert [each.member_id for each in world.noted(MemberLeft)] == ["two", "one"]


def test_a_lost_answer_is_repeated_to_a_member_with_the_previous_epoch() -> None:
    world = ConsumerWorld(t=4)
    one = Consumer(world, "one")
    one.join()
    world.change(t=6)
    before = one.owned
    one.heartbeat()
    assert one.epoch == 3
    one.epoch, one.owned = 2, before  # It has not heard of that.
    assert one.heartbeat() is ErrorCode.NONE
    assert one.epoch == 3
    assert one.heartbeat(rebalance_timeout_ms=60_000, subscribed_topic_names=("t",)) is ErrorCode.NONE
    assert len(one.has) == 6


@pytest.mark.parametrize("epoch", [0, 3])
def test_a_wrong_epoch_is_fenced(epoch: int) -> None:
    world = ConsumerWorld(t=4)
    one = Consumer(world, "one")
    one.join()
    world.change(t=5)
    one.heartbeat()
    one.epoch = 7 if epoch else 1
    one.owned = {key: (*value, 99) for key, value in one.owned.items()}
    assert one.heartbeat() is ErrorCode.FENCED_MEMBER_EPOCH
    assert "must abandon all its partitions and rejoin" in (one.last.error_message or "")
    assert one.join() is ErrorCode.NONE
    assert one.has == ALL | {("t", 4)}


def test_more_partitions_and_new_topics_reach_their_readers_with_the_next_heartbeat() -> None:
    world = ConsumerWorld(t=1)
    one = Consumer(world, "one", "t", "later")
    one.join()
    assert one.has == {("t", 0)}
    world.change(t=2, later=1, other=5)
    assert one.quiet_heartbeat() is ErrorCode.NONE
    assert (one.has, one.epoch) == ({("t", 0), ("t", 1), ("later", 0)}, 3)
    world.change(t=2, other=6)
    one.quiet_heartbeat()
    assert (one.has, world.describe().group_epoch) == ({("t", 0), ("t", 1)}, 4)
    world.change(t=2, other=7)
    one.heartbeat()
    assert world.describe().group_epoch == 4  # Of what nobody reads nobody hears.


def test_a_regular_expression_is_resolved_by_the_broker_and_again_for_new_topics() -> None:
    world = ConsumerWorld()
    world.change(**{"orders-eu": 1, "orders-us": 1, "bills": 1})
    one = Consumer(world, "one", regex="orders-.*")
    assert one.join() is ErrorCode.NONE
    assert one.has == {("orders-eu", 0), ("orders-us", 0)}
    world.change(**{"orders-eu": 1, "orders-us": 1, "orders-asia": 2, "bills": 1})
    world.sleep(10_000)
    one.heartbeat()
    assert len(one.has) == 4
    assert world.describe().members[0].subscribed_topic_regex == "orders-.*"
    one.regex, one.topics = "", ("bills",)
    one.heartbeat(subscribed_topic_regex="", subscribed_topic_names=("bills",))
    settle(one)
    assert one.has == {("bills", 0)}
    assert world.group().regexes == {}


def test_an_invalid_expression_is_refused_and_creates_no_group() -> None:
    world = ConsumerWorld(t=1)
    assert Consumer(world, "one", regex="(t").join() is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert world.core.groups == {}


def test_an_absent_static_member_keeps_its_partitions() -> None:
    world = ConsumerWorld(t=4)
    one, two = Consumer(world, "one", instance="a"), Consumer(world, "two", instance="b")
    one.join()
    two.join()
    settle(one, two)
    had, epoch = two.has, world.group().epoch
    assert Consumer(world, "other", instance="b").join() is ErrorCode.UNRELEASED_INSTANCE_ID
    assert two.leave(-2) is ErrorCode.NONE
    assert two.last.member_epoch == -2
    one.heartbeat()
    back = Consumer(world, "back", instance="b")
    assert back.join() is ErrorCode.NONE
    assert (back.has, world.group().epoch, world.state()) == (had, epoch, "Stable")
    assert two.heartbeat() is ErrorCode.FENCED_INSTANCE_ID
    assert [each.former_member_id for each in world.noted(StaticMemberReturned)] == ["two"]
    back.instance = "nobody"
    assert back.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_member_that_does_not_return_is_removed_when_its_session_ends() -> None:
    world = ConsumerWorld(t=4)
    one, two = Consumer(world, "one"), Consumer(world, "two", instance="b")
    one.join()
    two.join()
    settle(one, two)
    two.leave(-2)
    for _ in range(4):
        world.sleep(15_000)
        one.heartbeat()
    settle(one)
    assert one.has == ALL


def test_many_joins_share_one_assignment_and_get_a_short_heartbeat_interval() -> None:
    world = ConsumerWorld(GroupConfig(), t=6)
    members = [Consumer(world, f"m{number}") for number in range(3)]
    for each in members:
        each.join()
    assert [each.last.heartbeat_interval_ms for each in members] == [5_000, 1_000, 1_000]
    assert (world.group().epoch, world.group().assignment_epoch) == (4, 2)
    world.sleep(1_000)
    settle(*members)
    assert world.group().assignment_epoch == 4
    assert sorted(len(each.has) for each in members) == [2, 2, 2]


def test_a_new_coordinator_waits_until_the_next_assignment_is_due() -> None:
    world = ConsumerWorld(GroupConfig(), t=6)
    one, two = Consumer(world, "one"), Consumer(world, "two")
    one.join()
    world.restart()
    two.join()
    assert two.last.heartbeat_interval_ms == 1_000
    assert (world.group().epoch, world.group().assignment_epoch) == (3, 2)
    world.sleep(1_000)
    settle(one, two)
    assert world.group().assignment_epoch == 3


def test_members_choose_the_assignor() -> None:
    world = ConsumerWorld(t=4)
    one, two = Consumer(world, "one", assignor="range"), Consumer(world, "two", assignor="range")
    one.join()
    two.join()
    settle(one, two)
    assert (one.has, two.has) == ({("t", 0), ("t", 1)}, {("t", 2), ("t", 3)})
    assert world.describe().assignor_name == "range"
    assert Consumer(world, "x", assignor="mine").join() is ErrorCode.UNSUPPORTED_ASSIGNOR


def test_a_full_group_refuses_new_members() -> None:
    world = ConsumerWorld(GroupConfig(group_consumer_max_size=1), t=4)
    assert Consumer(world, "one").join() is ErrorCode.NONE
    assert Consumer(world, "two").join() is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert Consumer(world, "one").join() is ErrorCode.NONE


def test_a_static_member_returns_to_a_full_group() -> None:
    world = ConsumerWorld(GroupConfig(group_consumer_max_size=1), t=4)
    away = Consumer(world, "one", instance="i")
    assert away.join() is ErrorCode.NONE
    assert Consumer(world, "two", instance="i").join() is ErrorCode.UNRELEASED_INSTANCE_ID
    away.leave(-2)
    assert Consumer(world, "three", instance="j").join() is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert Consumer(world, "four").join() is ErrorCode.GROUP_MAX_SIZE_REACHED
    back = Consumer(world, "two", instance="i")
    assert back.join() is ErrorCode.NONE
    assert back.has == ALL


def test_a_group_is_restored_from_its_log_with_its_epochs() -> None:
    world = ConsumerWorld(t=4)
    one, two = Consumer(world, "one"), Consumer(world, "two", regex="t")
    one.join()
    two.join()
    one.heartbeat()
    world.restart()
    assert world.state() == "Reconciling"
    settle(one, two)
    assert (one.epoch, two.epoch, one.has | two.has) == (3, 3, ALL)
    world.restart()
    assert one.quiet_heartbeat() is ErrorCode.NONE
    assert one.last.assignment is None
    world.sleep(45_001)
    assert {each.member_id for each in world.noted(MemberExpired)} == {"one", "two"}
    assert world.state() == "Empty"


@pytest.mark.requirement("R6")
def test_commits_carry_the_member_epoch() -> None:
    world = ConsumerWorld(t=4, u=1)
    one = Consumer(world, "one")
    one.join()
    assert one.commit("t", 0) is ErrorCode.NONE
    assert one.commit("t", 0, version=8) is ErrorCode.UNSUPPORTED_VERSION
    assert one.commit("t", 0, epoch=3) is ErrorCode.STALE_MEMBER_EPOCH
    assert Consumer(world, "two").commit("t", 0, epoch=2) is ErrorCode.UNKNOWN_MEMBER_ID
    world.change(t=5, u=1)
    one.heartbeat()
    assert one.epoch == 3
    assert one.commit("t", 0, epoch=2) is ErrorCode.NONE  # It has had this one since then (KIP-1251).
    assert one.commit("t", 4, epoch=2) is ErrorCode.STALE_MEMBER_EPOCH
    assert one.commit("u", 0, epoch=2) is ErrorCode.STALE_MEMBER_EPOCH


@pytest.mark.parametrize(
    "member_id, epoch, code",
    [
        (None, -1, ErrorCode.NONE),
        ("one", 2, ErrorCode.NONE),
        ("one", 3, ErrorCode.STALE_MEMBER_EPOCH),
        ("two", 1, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_fetches_of_offsets_carry_the_member_epoch(
    member_id: str | None, epoch: int, code: ErrorCode
) -> None:
    world = ConsumerWorld(t=4)
    one = Consumer(world, "one")
    one.join()
    one.commit("t", 0)
    asked = OffsetFetchRequestGroup(group_id="g", member_id=member_id, member_epoch=epoch, topics=None)
    world.do(OffsetFetch(7_000, asked))
    answer = world.answer(7_000, OffsetFetchResponseGroup)
    assert (answer.error_code, len(answer.topics)) == (code, 0 if code else 1)


@pytest.mark.parametrize(
    "member_id, epoch, code",
    [
        ("one", 2, ErrorCode.NONE),
        ("one", 3, ErrorCode.ILLEGAL_GENERATION),
        ("two", 1, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_commits_of_transactions_carry_the_member_epoch_as_a_generation(
    member_id: str, epoch: int, code: ErrorCode
) -> None:
    world = ConsumerWorld(t=4)
    Consumer(world, "one").join()
    partition = TxnOffsetCommitRequestPartition(
        partition_index=0, committed_offset=7, committed_metadata=None
    )
    message = TxnOffsetCommitRequest(
        transactional_id="x",
        group_id="g",
        producer_id=1,
        producer_epoch=0,
        generation_id_or_member_epoch=epoch,
        member_id=member_id,
        topics=(TxnOffsetCommitRequestTopic(name="t", partitions=(partition,)),),
    )
    decision = world.core.handle(TxnOffsetCommit(7_000, message), world.now_ms)
    (reply,) = decision.effects
    assert isinstance(reply, Reply)
    assert isinstance(reply.message, TxnOffsetCommitResponse)
    assert reply.message.topics[0].partitions[0].error_code == code


def test_classic_requests_are_refused_by_a_consumer_group_and_the_reverse() -> None:
    world = ConsumerWorld(t=4)
    Consumer(world, "one").join()
    client = Client(world, "classic", protocol_type="connect", protocols=("default",))
    client.request_join()
    joined = client.joined()
    assert joined is not None
    assert joined.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    client.member_id, client.generation_id = "one", 1
    assert client.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID
    world.do(DescribeGroup(7_000, "g", 6))
    described = world.answer(7_000, DescribedGroup)
    assert described.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert described.error_message == "Group g is not a classic group."
    stable_group(world, Client(world, "c", group_id="old", protocol_type="connect", protocols=("default",)))
    assert world.describe("old").error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert Consumer(world, "two", group_id="old").join() is ErrorCode.GROUP_ID_NOT_FOUND


def test_an_empty_group_changes_its_kind_and_keeps_its_offsets() -> None:
    world = ConsumerWorld(t=4)
    client = Client(world, "classic")
    stable_group(world, client)
    client.commit("t", 0, 42)
    client.leave()
    one = Consumer(world, "one")
    assert one.join() is ErrorCode.NONE
    assert (one.epoch, world.fetch("t", 0)) == (2, 42)
    world.restart()
    assert (world.group().group_type, world.fetch("t", 0)) == ("consumer", 42)
    one.leave()
    again = Client(world, "again")
    stable_group(world, again)
    assert (world.core.groups["g"].group_type, world.fetch("t", 0)) == ("classic", 42)
    world.restart()
    assert again.heartbeat() is ErrorCode.NONE


@pytest.mark.parametrize(
    ("stranger", "protocols", "code"),
    [
        ("nobody", ("range",), ErrorCode.UNKNOWN_MEMBER_ID),
        ("", (), ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ("", ("x" * 20_000_000,), ErrorCode.GROUP_MAX_SIZE_REACHED),
    ],
    ids=["unknown", "without protocols", "too large"],
)
def test_an_empty_consumer_group_stays_one_when_a_classic_join_is_refused(
    stranger: str, protocols: tuple[str, ...], code: ErrorCode
) -> None:
    world = ConsumerWorld(t=4)
    one = Consumer(world, "one")
    one.join()
    one.leave()
    logged = len(world.log)
    classic = Client(world, "classic", protocols=protocols)
    classic.member_id = stranger
    answer = world.answer(classic.request_join(), JoinGroupResponse)
    assert (answer.error_code, len(world.log)) == (code, logged)
    assert world.group().epoch == 3
    assert one.join() is ErrorCode.NONE
    assert one.epoch == 4


def test_an_empty_group_becomes_classic_when_a_classic_member_gets_its_id() -> None:
    world = ConsumerWorld(t=4)
    one = Consumer(world, "one")
    one.join()
    one.leave()
    classic = Client(world, "classic")
    answer = world.answer(classic.request_join(), JoinGroupResponse)
    assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert world.classic().given_ids == {answer.member_id}
    world.sleep(classic.session_timeout_ms)
    assert "g" not in world.core.groups, "the id was not used, and the log says nothing of the group"


def test_groups_are_listed_with_their_types_and_deleted_once_they_are_empty() -> None:
    world = ConsumerWorld(t=4)
    one = Consumer(world, "one")
    one.join()
    stable_group(world, Client(world, "c", group_id="old", protocol_type="connect", protocols=("default",)))
    for request_id, types, found in ((7_000, (), 2), (7_001, ("Consumer",), 1), (7_002, ("classic",), 1)):
        world.do(ListGroups(request_id, (), types))
        assert len(world.answer(request_id, ListGroupsResponse).groups) == found
    world.do(DeleteGroup(7_003, "g"))
    assert world.answer(7_003, DeletableGroupResult).error_code == ErrorCode.NON_EMPTY_GROUP
    one.commit("t", 0)
    one.leave()
    world.do(DeleteGroup(7_004, "g"))
    assert world.answer(7_004, DeletableGroupResult).error_code == ErrorCode.NONE
    world.restart()
    assert set(world.core.groups) == {"old"}


@pytest.mark.parametrize(
    "epoch, fields, words",
    [
        (-3, {}, "MemberEpoch is invalid."),
        (0, {"topic_partitions": ()}, "RebalanceTimeoutMs must be provided in first request."),
        (0, {"rebalance_timeout_ms": 1}, "TopicPartitions must be empty when (re-)joining."),
        (
            0,
            {"rebalance_timeout_ms": 1, "topic_partitions": ()},
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
        ),
        (-2, {}, "InstanceId can't be null."),
        (1, {"rack_id": ""}, "RackId can't be empty."),
    ],
)
def test_an_invalid_heartbeat_is_refused_with_kafkas_message(
    epoch: int, fields: dict[str, Any], words: str
) -> None:
    world = ConsumerWorld(t=4)
    answer = Consumer(world, "one").send(epoch, **fields)
    assert (answer.error_code, answer.error_message) == (ErrorCode.INVALID_REQUEST, words)


def test_the_first_version_gives_a_member_its_id() -> None:
    world = ConsumerWorld(AT_ONCE, t=4)
    one = Consumer(world, "")
    assert one.join(version=1) is ErrorCode.INVALID_REQUEST
    assert one.join(version=0) is ErrorCode.NONE
    assert one.member_id == "made-for-it"


def test_settings_of_one_group_apply_only_to_it() -> None:
    world = ConsumerWorld(GroupConfig(), t=4)
    configs = {
        "consumer.session.timeout.ms": "10000",
        "consumer.heartbeat.interval.ms": "2000",
        "consumer.assignment.interval.ms": "0",
    }
    world.metadata = msgspec.structs.replace(world.metadata, group_configs={"g": configs})
    one, two = Consumer(world, "one"), Consumer(world, "two")
    other = Consumer(world, "other", group_id="other")
    for each in (one, two, other):
        each.join()
    assert (one.last.heartbeat_interval_ms, other.last.heartbeat_interval_ms) == (2_000, 5_000)
    settle(one, two)  # Two assignments at once.
    world.sleep(10_001)
    assert one.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID
    assert other.heartbeat() is ErrorCode.NONE


def test_settings_of_a_group_stay_within_the_bounds_of_the_broker() -> None:
    world = ConsumerWorld(GroupConfig(bounds={"consumer.heartbeat.interval.ms": (5_000, 15_000)}), t=4)
    for asked, given in (("2000", 5_000), ("6000", 6_000), ("20000", 15_000)):
        world.sleep(1_000)  # So that nobody has to wait for an assignment.
        configs = {"consumer.heartbeat.interval.ms": asked}
        world.metadata = msgspec.structs.replace(world.metadata, group_configs={"g": configs})
        one = Consumer(world, f"one with {asked}")
        one.join()
        assert one.last.heartbeat_interval_ms == given


def test_a_member_that_rejoins_with_another_instance_id_frees_the_former_one() -> None:
    world = ConsumerWorld(t=4)
    one, two = Consumer(world, "one", instance="a"), Consumer(world, "two")
    one.join()
    two.join()
    one.instance = "b"
    assert one.join() is ErrorCode.NONE
    assert world.group().instances == {"b": "one"}
    assert one.leave() is ErrorCode.NONE
    assert Consumer(world, "three", instance="a").join() is ErrorCode.NONE
    assert world.group().instances == {"a": "three"}


def test_a_fenced_member_in_an_unknown_state_leaves_no_trace() -> None:
    world = ConsumerWorld(t=4)
    one, two = Consumer(world, "one"), Consumer(world, "two")
    one.join()
    two.join()
    settle(one, two)
    unknown = msgspec.structs.replace(world.group().members["one"], state=MemberState.UNKNOWN)
    record = current_record("g", unknown)
    for core in (world.core, world.follower):
        core.replay(record)
    before = consumer_state(world.core)
    world.change(t=8)
    assert one.heartbeat(subscribed_topic_names=("t", "u")) is ErrorCode.FENCED_MEMBER_EPOCH
    assert consumer_state(world.core) == before
    assert not world.group().is_rebalancing
    assert one.join() is ErrorCode.NONE
    settle(one, two)
