"""What the coordinator says, writes and notes, in words that a person reads."""

from kohort.broker.explain.events import JoinCompleted, RebalanceCompleted
from kohort.broker.group import Event, Record, coordinator_partition
from kohort.broker.group.events import (
    Cause,
    GroupDeleted,
    GroupEmptied,
    GroupLoaded,
    LeaderElected,
    MemberExpired,
    MemberFenced,
    MemberIdExpired,
    MemberIdGiven,
    MemberJoined,
    MemberLeft,
    MemberRefused,
    MemberRejoined,
    OffsetsRemoved,
    RebalanceExtended,
    RebalanceStarted,
    StaticMemberReturned,
)
from kohort.broker.group.subscriptions import assigned_partitions
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnResponse
from kohort.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from kohort.protocol.messages.delete_groups import DeletableGroupResult
from kohort.protocol.messages.describe_groups import DescribedGroup
from kohort.protocol.messages.heartbeat import HeartbeatResponse
from kohort.protocol.messages.join_group import JoinGroupResponse
from kohort.protocol.messages.leave_group import LeaveGroupResponse
from kohort.protocol.messages.list_groups import ListGroupsResponse
from kohort.protocol.messages.offset_commit import OffsetCommitResponse
from kohort.protocol.messages.offset_delete import OffsetDeleteResponse
from kohort.protocol.messages.offset_fetch import OffsetFetchResponseGroup
from kohort.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatResponse
from kohort.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatResponse
from kohort.protocol.messages.sync_group import SyncGroupResponse
from kohort.protocol.messages.txn_offset_commit import TxnOffsetCommitResponse
from kohort.protocol.offsets_topic import GroupMetadataKey, GroupMetadataValue, OffsetCommitKey
from kohort.protocol.schema import Message
from tests.scenarios.telling_epochs import epoch_record_text, heartbeat_text

SHARDS = 50


def code_name(code: int) -> str:
    """Return Kafka's name of an error code; "ok" for none."""
    return "ok" if code == ErrorCode.NONE else ErrorCode(code).name


def seconds(ms: int) -> str:
    """Return a duration in seconds, or in minutes where they are whole and many."""
    if ms >= 600_000 and ms % 60_000 == 0:
        return f"{ms // 60_000}min"
    return f"{ms / 1000:g}s"


def assignment_text(data: bytes) -> str:
    """Return the partitions of an assignment as `[t-0 t-1]`."""
    return "[" + " ".join(f"{topic}-{index}" for topic, index in assigned_partitions(data)) + "]"


def answer_text(message: Message) -> str:
    """Return an answer in words."""
    match message:
        case JoinGroupResponse():
            return _join_text(message)
        case SyncGroupResponse():
            if message.error_code:
                return code_name(message.error_code)
            return f"assigned {assignment_text(message.assignment)}, protocol {message.protocol_name}"
        case HeartbeatResponse():
            return code_name(message.error_code)
        case (
            ConsumerGroupHeartbeatResponse() | ShareGroupHeartbeatResponse() | StreamsGroupHeartbeatResponse()
        ):
            return heartbeat_text(message)
        case LeaveGroupResponse() if message.members:
            return ", ".join(
                f"{each.member_id or each.group_instance_id or '?'} {code_name(each.error_code)}"
                for each in message.members
            )
        case LeaveGroupResponse():
            return code_name(message.error_code)
        case OffsetDeleteResponse() if message.error_code:
            return code_name(message.error_code)
        case AddOffsetsToTxnResponse():
            return code_name(message.error_code)
        case OffsetCommitResponse() | OffsetDeleteResponse() | TxnOffsetCommitResponse():
            return _by_partition(
                [
                    (topic.name, each.partition_index, code_name(each.error_code))
                    for topic in message.topics
                    for each in topic.partitions
                ]
            )
        case OffsetFetchResponseGroup():
            return _fetch_text(message)
        case DescribedGroup():
            return _described_text(message)
        case ListGroupsResponse():
            if message.error_code:
                return code_name(message.error_code)
            return ", ".join(f"{each.group_id} {each.group_state}" for each in message.groups) or "no groups"
        case DeletableGroupResult():
            return code_name(message.error_code)
    raise TypeError(f"no words for {type(message).__name__}")


def _by_partition(results: list[tuple[str, int, str]]) -> str:
    return ", ".join(f"{topic}-{index} {text}" for topic, index, text in results) or "nothing"


def _join_text(message: JoinGroupResponse) -> str:
    if message.error_code == ErrorCode.MEMBER_ID_REQUIRED:
        return f"MEMBER_ID_REQUIRED, join again as {message.member_id}"
    if message.error_code:
        return code_name(message.error_code)
    text = (
        f"joined generation {message.generation_id} as {message.member_id}, protocol {message.protocol_name}"
    )
    if not message.members:
        again = ", leads" if message.leader == message.member_id else f", {message.leader} leads"
        return text + again
    names = " ".join(each.member_id for each in message.members)
    skip = ", need not assign" if message.skip_assignment else ""
    return f"{text}, leads [{names}]{skip}"


def _fetch_text(message: OffsetFetchResponseGroup) -> str:
    if message.error_code:
        return code_name(message.error_code)
    found = [
        (
            t.name,
            p.partition_index,
            code_name(p.error_code)
            if p.error_code
            else f"at {p.committed_offset}" + (f" ({p.metadata})" if p.metadata else ""),
        )
        for t in message.topics
        for p in t.partitions
    ]
    return _by_partition(found)


def _described_text(message: DescribedGroup) -> str:
    if message.error_code:
        return code_name(message.error_code)
    protocol = f" {message.protocol_data}" if message.protocol_data else ""
    members = " ".join(
        each.member_id + (assignment_text(each.member_assignment) if each.member_assignment else "")
        for each in message.members
    )
    return f"{message.group_state}{protocol}: {members or 'no members'}"


def record_text(record: Record) -> str:
    """Return a record of `__consumer_offsets` in words, with its partition."""
    key, value = record.key, record.value
    if not isinstance(key, OffsetCommitKey | GroupMetadataKey):
        told = epoch_record_text(record)
        assert told is not None, record
        return told
    shard = coordinator_partition(key.group, SHARDS)
    if isinstance(key, OffsetCommitKey):
        where = f"{key.group} {key.topic}-{key.partition}"
        if value is None:
            return f"{where} forgotten"
        assert not isinstance(value, GroupMetadataValue)
        return f"{where} at {value.offset}"
    assert isinstance(key, GroupMetadataKey)
    if value is None:
        return f"group {key.group} deleted (shard {shard})"
    assert isinstance(value, GroupMetadataValue)
    members = " ".join(f"{each.member_id}{assignment_text(each.assignment)}" for each in value.members)
    leader = f", {value.leader} leads" if value.leader else ""
    return (
        f"group {key.group} generation {value.generation}{leader}: {members or 'no members'} (shard {shard})"
    )


def cause_text(cause: Cause) -> str:
    """Return why a rebalance began."""
    who = f" ({cause.member_id})" if cause.member_id else ""
    after = f" after {seconds(cause.after_ms)}" if cause.after_ms else ""
    return cause.kind.value + who + after + (f', "{cause.reason}"' if cause.reason else "")


def event_text(event: Event) -> str:
    """Return an event in words."""
    match event:
        case MemberIdGiven():
            return f"{event.member_id} is given as an id"
        case MemberIdExpired():
            return f"the id {event.member_id} was never used"
        case MemberJoined():
            static = f" as {event.group_instance_id}" if event.group_instance_id else ""
            return f"{event.member_id} joins{static}"
        case MemberRejoined():
            return f"{event.member_id} rejoins"
        case MemberLeft():
            return f"{event.member_id} leaves" + (f', "{event.reason}"' if event.reason else "")
        case MemberExpired():
            return f"{event.member_id} is put out: {event.reason}, silent for {seconds(event.after_ms)}"
        case MemberFenced():
            return f"{event.member_id} is fenced by {event.by_member_id}"
        case StaticMemberReturned():
            return f"{event.former_member_id} returns as {event.member_id}" + (
                ", with a rebalance" if event.rebalances else ", without a rebalance"
            )
        case MemberRefused():
            return f"{event.client_id} is refused: {event.error}"
        case RebalanceStarted():
            return f"rebalance begins: {cause_text(event.cause)}"
        case RebalanceExtended():
            return f"the join phase goes on: {event.members} members"
        case JoinCompleted():
            waited = ", ".join(
                f"{each.member_id} {seconds(each.waited_ms)}" + ("" if each.joined else " in vain")
                for each in event.waited_for
            )
            told = f", waited for {waited}" if waited else ""
            return f"all have joined after {seconds(event.waited_ms)}{told}"
        case LeaderElected():
            return f"{event.leader} leads instead of {event.former_leader}"
        case RebalanceCompleted():
            return f"rebalance ends: {event.report.outcome.value}, {len(event.report.moves)} partitions moved"
        case GroupEmptied():
            return "the group is empty"
        case GroupDeleted():
            return "the group is deleted" + (", having expired" if event.expired else "")
        case OffsetsRemoved():
            return f"{event.offsets} offsets removed: {event.reason}"
        case GroupLoaded():
            return f"group {event.group_id} loaded: generation {event.generation_id}, {event.members} members"
    raise TypeError(f"no words for {type(event).__name__}")
