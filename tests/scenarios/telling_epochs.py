"""What the coordinator says to members of groups with epochs, and writes of such groups, in words."""

from collections.abc import Iterable
from uuid import UUID

from kohort.broker.group import Record
from kohort.broker.group.streams.tasks import TaskIds
from kohort.protocol import consumer_group_records as consumer
from kohort.protocol import share_group_records as share
from kohort.protocol import streams_group_records as streams
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from kohort.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatResponse
from kohort.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatResponse
from kohort.protocol.schema import Message


def heartbeat_text(
    message: ConsumerGroupHeartbeatResponse | ShareGroupHeartbeatResponse | StreamsGroupHeartbeatResponse,
) -> str:
    """Return the answer to a heartbeat in words."""
    if message.error_code:
        return ErrorCode(message.error_code).name
    text = f"epoch {message.member_epoch}"
    if not isinstance(message, StreamsGroupHeartbeatResponse):
        if message.assignment is not None:
            given = ((each.topic_id, each.partitions) for each in message.assignment.topic_partitions)
            text += f", has {_partitions(given)}"
        return text
    if message.active_tasks is not None:
        text += f", has {_tasks(message.active_tasks)}"
    return text + "".join(f"; {each.status_detail}" for each in message.status or ())


def epoch_record_text(record: Record) -> str | None:
    """Return a record of a group with epochs in words; None for one of another kind."""
    value = record.value
    who = getattr(record.key, "member_id", "group g")
    if value is None:
        kind = type(record.key).__name__.removesuffix("Key")
        for name in ("ConsumerGroup", "ShareGroup", "StreamsGroup"):
            kind = kind.removeprefix(name)
        return f"{who}: {kind} forgotten"
    return _group_text(value) or _member_text(who, value)


def _group_text(value: Message) -> str | None:
    match value:
        case (
            consumer.ConsumerGroupMetadataValue()
            | share.ShareGroupMetadataValue()
            | streams.StreamsGroupMetadataValue()
        ):
            return f"group g in epoch {value.epoch}"
        case (
            consumer.ConsumerGroupTargetAssignmentMetadataValue()
            | share.ShareGroupTargetAssignmentMetadataValue()
            | streams.StreamsGroupTargetAssignmentMetadataValue()
        ):
            return f"target for epoch {value.assignment_epoch}"
        case streams.StreamsGroupTopologyValue():
            return f"topology {value.epoch} of {len(value.subtopologies)} subtopologies"
        case share.ShareGroupStatePartitionMetadataValue():
            begun, there = (
                _partitions((each.topic_id, each.partitions) for each in topics)
                for topics in (value.initializing_topics, value.initialized_topics)
            )
            return f"share state of {there}, and to come {begun}"
    return None


def _member_text(who: str, value: Message) -> str | None:
    match value:
        case consumer.ConsumerGroupMemberMetadataValue() | share.ShareGroupMemberMetadataValue():
            return f"{who} reads {' '.join(value.subscribed_topic_names)}"
        case streams.StreamsGroupMemberMetadataValue():
            return f"{who} runs on {value.process_id}"
        case (
            consumer.ConsumerGroupTargetAssignmentMemberValue()
            | share.ShareGroupTargetAssignmentMemberValue()
        ):
            given = ((each.topic_id, each.partitions) for each in value.topic_partitions)
            return f"{who} shall have {_partitions(given)}"
        case streams.StreamsGroupTargetAssignmentMemberValue():
            return f"{who} shall have {_tasks(value.active_tasks)}"
        case consumer.ConsumerGroupCurrentMemberAssignmentValue():
            gives = _partitions((e.topic_id, e.partitions) for e in value.partitions_pending_revocation)
            has = _partitions((e.topic_id, e.partitions) for e in value.assigned_partitions)
        case share.ShareGroupCurrentMemberAssignmentValue():
            gives, has = "[]", _partitions((e.topic_id, e.partitions) for e in value.assigned_partitions)
        case streams.StreamsGroupCurrentMemberAssignmentValue():
            gives, has = _tasks(value.active_tasks_pending_revocation), _tasks(value.active_tasks)
        case _:
            return None
    return f"{who} in epoch {value.member_epoch} has {has}" + ("" if gives == "[]" else f", gives up {gives}")


def _partitions(topics: Iterable[tuple[UUID, Iterable[int]]]) -> str:
    """Return partitions as `[t-0 t-1]`; the ids of a scenario's topics are their names in bytes."""
    named = (
        (topic_id.bytes.lstrip(b"\0").decode(), index) for topic_id, indexes in topics for index in indexes
    )
    return "[" + " ".join(f"{name}-{index}" for name, index in sorted(named)) + "]"


def _tasks(ids: Iterable[TaskIds]) -> str:
    """Return tasks as `[0_0 0_1]`."""
    return "[" + " ".join(f"{each.subtopology_id}_{index}" for each in ids for index in each.partitions) + "]"
