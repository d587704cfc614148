"""The share partitions of a group: some are being initialized, the others may be read.

A group requests state from the share coordinator before a partition is assigned: `initializing` logs
the request, so that the next coordinator of the group repeats it.
"""

from collections.abc import Iterable, Mapping
from uuid import UUID

from kohort.broker.group.decision import Record
from kohort.broker.group.metadata import Metadata
from kohort.broker.group.share.commands import (
    NOT_EMPTY,
    ForgetDeletedTopics,
    ForgetShareState,
    ShareStateReady,
    StartShareState,
    offsets_answer,
)
from kohort.broker.group.share.group import ShareGroup, ShareTopic, ShareTopics
from kohort.broker.group.share.records import epoch_record, state_record
from kohort.broker.group.turn import Turn
from kohort.protocol.errors import ApiError, ErrorCode


def ready_partitions(topics: ShareTopics, metadata: Metadata) -> dict[UUID, frozenset[int]]:
    """Return the partitions that may be read, of topics that are still there."""
    return {
        topic_id: topic.partitions for topic_id, topic in topics.items() if topic_id in metadata.topics_by_id
    }


def missing_partitions(group: ShareGroup, names: Iterable[str], metadata: Metadata) -> ShareTopics:
    """Return the partitions of these topics that are neither ready nor being initialized."""
    missing: dict[UUID, ShareTopic] = {}
    for name in sorted(set(names)):
        topic = metadata.topics.get(name)
        if topic is None:
            continue
        there = _partitions(group.initialized, topic.topic_id) | _partitions(
            group.initializing, topic.topic_id
        )
        lacking = frozenset(range(len(topic.partitions))) - there
        if lacking:
            missing[topic.topic_id] = ShareTopic(name, lacking)
    return missing


def become_ready(turn: Turn, command: ShareStateReady) -> None:
    """Let members have these partitions, from the next epoch."""
    group = turn.groups.find(command.group_id, ShareGroup)
    if group is None:
        return  # It was deleted meanwhile.
    ready = {
        topic_id: ShareTopic(group.initializing[topic_id].name, partitions)
        for topic_id, partitions in _common(group.initializing, command.partitions).items()
    }
    if ready:
        left = _minus(group.initializing, command.partitions)
        turn.log(state_record(group.group_id, left, merged(group.initialized, ready)))
        turn.log(epoch_record(group.group_id, group.epoch + 1, group.metadata_hash))


def start(turn: Turn, command: StartShareState) -> None:
    """Note what begins elsewhere as ready, also of a new group: an administrator has seen to its state."""
    try:
        group: ShareGroup | None = None
        if command.group_id in turn.groups.by_id:
            group = empty_group(turn, command.group_id)
    except ApiError as error:
        turn.reply(command.request_id, offsets_answer(error.code, error.message))
        return
    initializing: ShareTopics = {} if group is None else group.initializing
    initialized: ShareTopics = {} if group is None else group.initialized
    topics = command.metadata.topics_by_id
    started = {
        topic_id: ShareTopic(topics[topic_id].name, partitions)
        for topic_id, partitions in command.partitions.items()
        if topic_id in topics
    }
    left = _minus(initializing, command.partitions)
    turn.log(state_record(command.group_id, left, merged(initialized, started)))
    turn.reply(command.request_id, offsets_answer(ErrorCode.NONE))


def forget(turn: Turn, command: ForgetShareState) -> None:
    """Remove the share partitions of topics, in an empty group."""
    try:
        group = empty_group(turn, command.group_id)
    except ApiError as error:
        turn.reply(command.request_id, offsets_answer(error.code, error.message))
        return
    turn.log(_state_without(group, command.topic_ids))
    turn.reply(command.request_id, offsets_answer(ErrorCode.NONE))


def forget_topics(turn: Turn, command: ForgetDeletedTopics) -> None:
    """Let every group remove its share partitions of deleted topics.

    A topic that the metadata only lack stays: where they are older than the group's state, it comes again.
    """
    for group in turn.groups.of_kind(ShareGroup):
        if not command.topic_ids.isdisjoint(group.initializing.keys() | group.initialized.keys()):
            turn.log(_state_without(group, command.topic_ids))


def _state_without(group: ShareGroup, topic_ids: frozenset[UUID]) -> Record:
    initializing, initialized = (
        {topic_id: topic for topic_id, topic in topics.items() if topic_id not in topic_ids}
        for topics in (group.initializing, group.initialized)
    )
    return state_record(group.group_id, initializing, initialized)


def empty_group(turn: Turn, group_id: str) -> ShareGroup:
    """Return the empty group. Raises: ApiError."""
    group = turn.groups.existing(group_id, ShareGroup)
    if not group.is_empty:
        raise ApiError(ErrorCode.NON_EMPTY_GROUP, NOT_EMPTY)
    return group


def merged(one: ShareTopics, other: ShareTopics) -> ShareTopics:
    """Return the partitions of both."""
    both = dict(one)
    for topic_id, topic in other.items():
        both[topic_id] = ShareTopic(topic.name, topic.partitions | _partitions(one, topic_id))
    return both


def _partitions(topics: ShareTopics, topic_id: UUID) -> frozenset[int]:
    topic = topics.get(topic_id)
    return frozenset() if topic is None else topic.partitions


def _common(topics: ShareTopics, partitions: Mapping[UUID, frozenset[int]]) -> dict[UUID, frozenset[int]]:
    both = {
        topic_id: topic.partitions & partitions.get(topic_id, frozenset())
        for topic_id, topic in topics.items()
    }
    return {topic_id: each for topic_id, each in both.items() if each}


def _minus(topics: ShareTopics, partitions: Mapping[UUID, frozenset[int]]) -> ShareTopics:
    left = {
        topic_id: ShareTopic(topic.name, topic.partitions - partitions.get(topic_id, frozenset()))
        for topic_id, topic in topics.items()
    }
    return {topic_id: topic for topic_id, topic in left.items() if topic.partitions}
