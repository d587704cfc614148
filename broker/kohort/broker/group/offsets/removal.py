"""Offsets that go: expired, deleted with their topic, or on request."""

from kohort.broker.group.commands import ExpireOffsets, OffsetDelete, TopicsDeleted
from kohort.broker.group.decision import Record
from kohort.broker.group.events import GroupDeleted, OffsetsRemoved
from kohort.broker.group.group import CONSUMER, STREAMS, AnyGroup
from kohort.broker.group.turn import Turn
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.messages.offset_delete import (
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from kohort.protocol.offsets_topic import OffsetCommitKey, OffsetCommitValue
from kohort.protocol.schema import ZERO_UUID


def expire_offsets(turn: Turn, _command: ExpireOffsets) -> None:
    """Remove expired offsets, and groups without any state."""
    for group in turn.groups.by_id.values():
        if not group.has_offsets:
            continue  # It stays until it is deleted.
        if _expire(turn, group) and group.is_empty and not group.given_ids:
            for record in turn.groups.kinds.tombstones(group):
                turn.log(record)
            turn.note(GroupDeleted(group_id=group.group_id, at_ms=turn.now_ms, expired=True))


def delete_topics(turn: Turn, command: TopicsDeleted) -> None:
    """Forget every group's offsets of topics that are gone."""
    concerned = command.names | command.topic_ids.keys()
    for group in turn.groups.by_id.values():
        removed = [
            (topic, partition)
            for topic in concerned & group.offsets.keys()
            for partition, value in group.offsets[topic].items()
            if _is_of_gone_topic(command, topic, value)
        ]
        remove_offsets(turn, group, sorted(removed), "topic deleted")
    for key, value in turn.groups.pending.held():  # Of whose groups there may be no other word yet.
        if key.topic in concerned and _is_of_gone_topic(command, key.topic, value):
            _supersede(turn, command, key)


def offset_tombstone(group_id: str, topic: str, partition: int) -> Record:
    """Return the record that deletes a committed offset."""
    return Record(OffsetCommitKey(group=group_id, topic=topic, partition=partition), None)


def _is_of_gone_topic(command: TopicsDeleted, topic: str, value: OffsetCommitValue) -> bool:
    """Return whether an offset belongs to a deleted topic, and not to the one with its name now."""
    current = command.topic_ids.get(topic)
    if value.topic_id == ZERO_UUID:
        return topic in command.names
    return value.topic_id != current and (current is not None or topic in command.names)


def _supersede(turn: Turn, command: TopicsDeleted, key: OffsetCommitKey) -> None:
    """Drop the pending writes of open transactions for a partition; the committed offset stays."""
    group = turn.groups.by_id.get(key.group)
    kept = None if group is None else group.offsets.get(key.topic, {}).get(key.partition)
    if kept is None or _is_of_gone_topic(command, key.topic, kept):
        turn.log(offset_tombstone(key.group, key.topic, key.partition))
    else:
        turn.log(Record(key, kept))  # Later writes override pending ones.


def delete_offsets(turn: Turn, command: OffsetDelete) -> None:
    """Delete the named offsets, of topics that no member of the group subscribes to."""
    message = command.message
    try:
        group = _check_deletion(turn, message.group_id)
    except ApiError as error:
        turn.reply(command.request_id, _deleted(error.code, ()))
        return
    topics = tuple(_delete_topic(turn, group, topic) for topic in message.topics)
    turn.reply(command.request_id, _deleted(ErrorCode.NONE, topics))


def remove_offsets(turn: Turn, group: AnyGroup, removed: list[tuple[str, int]], reason: str) -> None:
    """Log a tombstone for each of these offsets."""
    for topic, partition in removed:
        turn.log(offset_tombstone(group.group_id, topic, partition))
    if removed:
        turn.note(
            OffsetsRemoved(group_id=group.group_id, at_ms=turn.now_ms, offsets=len(removed), reason=reason)
        )


def all_offsets(group: AnyGroup) -> list[tuple[str, int]]:
    """Return the partitions of which the group has an offset."""
    return [(topic, partition) for topic, offsets in group.offsets.items() for partition in offsets]


def _expire(turn: Turn, group: AnyGroup) -> bool:
    """Remove the group's expired offsets; return whether no others are left."""
    pending = turn.groups.pending
    if not group.offsets:
        return not pending.holds_any(group.group_id)
    if not group.may_expire_offsets:
        return False
    retention_ms = turn.config.offsets_retention_ms
    unread = None if group.is_empty else group.subscribed_topics
    expired = [
        (topic, partition)
        for topic, offsets in group.offsets.items()
        if unread is None or topic not in unread
        for partition, value in offsets.items()
        if _is_expired(group, value, turn.now_ms, retention_ms)
        and not pending.holds(group.group_id, topic, partition)
    ]
    remove_offsets(turn, group, expired, "expired")
    is_all = len(expired) == sum(len(offsets) for offsets in group.offsets.values())
    return is_all and not pending.holds_any(group.group_id)


def _is_expired(group: AnyGroup, value: OffsetCommitValue, now_ms: int, retention_ms: int) -> bool:
    if value.expire_timestamp >= 0:  # An old client said how long to keep it.
        return now_ms >= value.expire_timestamp
    since_ms = value.commit_timestamp
    if group.is_empty and group.protocol_type is not None and group.state_since_ms >= 0:
        since_ms = max(since_ms, group.state_since_ms)  # The retention did not run while there were members.
    return now_ms - since_ms >= retention_ms


def _check_deletion(turn: Turn, group_id: str) -> AnyGroup:
    """Return the group whose offsets may be deleted. Raises: ApiError (Kafka: validateOffsetDelete)."""
    if not group_id:
        raise ApiError(ErrorCode.INVALID_GROUP_ID)
    group = turn.groups.existing_of_any_kind(group_id)
    if not group.is_empty and group.protocol_type not in (CONSUMER, STREAMS):
        raise ApiError(ErrorCode.NON_EMPTY_GROUP)
    return group


def _deleted(code: ErrorCode, topics: tuple[OffsetDeleteResponseTopic, ...]) -> OffsetDeleteResponse:
    return OffsetDeleteResponse(error_code=code, throttle_time_ms=0, topics=topics)


def _delete_topic(turn: Turn, group: AnyGroup, topic: OffsetDeleteRequestTopic) -> OffsetDeleteResponseTopic:
    code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if group.subscribes_to(topic.name) else ErrorCode.NONE
    if code is ErrorCode.NONE:
        kept = group.offsets.get(topic.name, {})
        asked = dict.fromkeys(each.partition_index for each in topic.partitions)
        pending = turn.groups.pending
        removed = [
            (topic.name, partition)
            for partition in asked
            if partition in kept or pending.holds(group.group_id, topic.name, partition)
        ]
        remove_offsets(turn, group, removed, "on request")
    return OffsetDeleteResponseTopic(
        name=topic.name,
        partitions=tuple(
            OffsetDeleteResponsePartition(partition_index=each.partition_index, error_code=code)
            for each in topic.partitions
        ),
    )
