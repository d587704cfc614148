"""Members of a consumer group that still use JoinGroup, SyncGroup and Heartbeat, until they are upgraded.

A JoinGroup is their step: it has their topics and owned partitions, and is answered at once. The assignment
is in SyncGroup's answer. If another step is due, their heartbeats get REBALANCE_IN_PROGRESS. Kafka:
GroupMetadataManager's classicGroupJoinToConsumerGroup and its like.
"""

import msgspec

from kohort.broker.group.classic.group import unique_by_name
from kohort.broker.group.classic.joining import (
    VERSION_OF_KNOWN_MEMBER_IDS,
    check_request,
    join_instead,
    refuse,
)
from kohort.broker.group.classic.member_metadata import rebalance_timeout_ms
from kohort.broker.group.classic.parking import join_error, sync_error
from kohort.broker.group.classic.syncing import lacks_protocol
from kohort.broker.group.classic.syncing import refuse_kind as refuse_sync
from kohort.broker.group.commands import Heartbeat, JoinGroup, SyncGroup
from kohort.broker.group.consumer.group import ConsumerGroup
from kohort.broker.group.consumer.joining import (
    Joined,
    check_capacity,
    check_room,
    take_place,
)
from kohort.broker.group.consumer.member import (
    ClassicSide,
    ConsumerMember,
    MemberState,
    metadata_bytes,
)
from kohort.broker.group.consumer.migrating import assignment_bytes, downgrade_soon, version_of
from kohort.broker.group.consumer.reconciling import Owned, check_state
from kohort.broker.group.consumer.sessions import await_request, extend_session, stop_awaiting
from kohort.broker.group.consumer.stepping import Step
from kohort.broker.group.epochs.members import JOINING, known_member
from kohort.broker.group.epochs.partitions import Partitions
from kohort.broker.group.group import CONSUMER
from kohort.broker.group.metadata import Metadata
from kohort.broker.group.turn import Turn
from kohort.protocol.consumer import ConsumerProtocolSubscription
from kohort.protocol.errors import ApiError, ErrorCode, WireError
from kohort.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatTopicPartitions
from kohort.protocol.messages.heartbeat import HeartbeatResponse
from kohort.protocol.messages.join_group import JoinGroupResponse
from kohort.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse


def join(turn: Turn, group: ConsumerGroup, command: JoinGroup) -> None:
    """Answer a JoinGroup to a consumer group; an empty one becomes a classic one."""
    if group.is_empty:
        join_instead(turn, group, command)
        return
    try:
        check_request(turn, command)
        _join(turn, group, command)
    except ApiError as error:
        refuse(turn, command, error.code)


def _join(turn: Turn, group: ConsumerGroup, command: JoinGroup) -> None:
    """Answer the JoinGroup at once: its sender is a member, or comes again with an id. Raises: ApiError."""
    message = command.message
    member_id = message.member_id or command.member_id
    check_capacity(turn, group, member_id, message.group_instance_id)
    side = _side(group, command, member_id)
    subscription = _subscription(side)
    topic_names = tuple(sorted(set(subscription.topics)))
    check_room(turn, group, member_id, metadata_bytes(topic_names, None, side))
    is_dynamic = not message.member_id and message.group_instance_id is None
    if is_dynamic and command.version >= VERSION_OF_KNOWN_MEMBER_IDS:
        turn.reply(command.request_id, join_error(ErrorCode.MEMBER_ID_REQUIRED, member_id, command.version))
        return
    metadata = command.metadata
    assert metadata is not None
    owned = _owned(subscription, metadata)
    start = _joined(turn, group, command, member_id, owned)
    wish = msgspec.structs.replace(
        start.member,
        instance_id=message.group_instance_id or start.member.instance_id,
        rack_id=subscription.rack_id or start.member.rack_id,
        rebalance_timeout_ms=rebalance_timeout_ms(command),
        topic_names=topic_names,
        topic_regex=None,
        client_id=command.client_id,
        client_host=command.client_host,
        classic=side,
    )
    step = Step(turn, metadata, group, start, may_describe=command.may_describe)
    member = step.taken(wish, owned)
    stop_awaiting(turn, group, member_id)
    await_request(turn, group, member, "SyncGroup")
    if start.replaced is not None:  # Perhaps the last one of the consumer protocol.
        downgrade_soon(turn, group, without={start.replaced.member_id}, is_joined=True)
    else:  # Perhaps it had to wait for names of topics.
        downgrade_soon(turn, group)
    turn.reply(
        command.request_id,
        JoinGroupResponse(
            throttle_time_ms=0,
            error_code=ErrorCode.NONE,
            generation_id=member.epoch,
            protocol_type=CONSUMER,
            protocol_name=side.protocol_name,
            leader="",
            member_id=member_id,
            members=(),
        ),
    )


def sync(turn: Turn, group: ConsumerGroup, command: SyncGroup) -> None:
    """Answer with the member's assignment, unless it has to join again first."""
    message = command.message
    if lacks_protocol(command):
        refuse_sync(turn, group, command)
        return
    try:
        member, side = _syncing_member(turn, group, message)
    except ApiError as error:
        turn.reply(command.request_id, sync_error(error.code))
        return
    stop_awaiting(turn, group, member.member_id)
    extend_session(turn, group, member)
    assert command.metadata is not None
    topics = command.metadata.topics_by_id
    names = {topic_id: topics[topic_id].name for topic_id in member.assigned if topic_id in topics}
    version = version_of(side.metadata(side.protocol_name))
    turn.reply(
        command.request_id,
        SyncGroupResponse(
            throttle_time_ms=0,
            error_code=ErrorCode.NONE,
            protocol_type=message.protocol_type,
            protocol_name=message.protocol_name,
            assignment=assignment_bytes(member.assigned, names, version),
        ),
    )


def _syncing_member(
    turn: Turn, group: ConsumerGroup, message: SyncGroupRequest
) -> tuple[ConsumerMember, ClassicSide]:
    """Return the member that may have its assignment. Raises: ApiError."""
    member, side = _member(group, message.member_id, message.group_instance_id)
    _check_generation(member, message.generation_id)
    if (message.protocol_type or CONSUMER) != CONSUMER or (
        message.protocol_name is not None and message.protocol_name != side.protocol_name
    ):
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if group.epoch > member.epoch and member.state is not MemberState.UNREVOKED:
        await_request(turn, group, member, "JoinGroup")
        raise ApiError(ErrorCode.REBALANCE_IN_PROGRESS)
    return member, side


def heartbeat(turn: Turn, group: ConsumerGroup, command: Heartbeat) -> None:
    """Answer without an error, or that another JoinGroup is due."""
    message = command.message
    code = ErrorCode.NONE
    try:
        member, _ = _member(group, message.member_id, message.group_instance_id)
        _check_generation(member, message.generation_id)
    except ApiError as error:
        code = error.code
    else:
        extend_session(turn, group, member)
        if _has_to_join(group, member):
            code = ErrorCode.REBALANCE_IN_PROGRESS
            await_request(turn, group, member, "JoinGroup")
    turn.reply(command.request_id, HeartbeatResponse(throttle_time_ms=0, error_code=code))


def _has_to_join(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """Return whether there is anything that the member's next step would bring."""
    if member.epoch < group.epoch or member.state is MemberState.UNREVOKED:
        return True
    return member.state is MemberState.UNRELEASED and not _waits(
        group, member, group.targets.get(member.member_id, {})
    )


def _waits(group: ConsumerGroup, member: ConsumerMember, target: Partitions) -> bool:
    """Return whether another member still has partitions of the target."""
    return any(
        group.owner(topic_id, index) not in (None, member.member_id)
        for topic_id, indexes in target.items()
        for index in indexes
    )


def _side(group: ConsumerGroup, command: JoinGroup, member_id: str) -> ClassicSide:
    """Return the member's classic protocols. Raises: ApiError if the other members support none of them."""
    message = command.message
    protocols = unique_by_name(message.protocols)
    others = [
        {name for name, _ in each.classic.protocols}
        for each in group.members.values()
        if each.classic is not None and each.member_id != member_id
    ]
    if message.protocol_type != CONSUMER or not any(
        all(protocol.name in names for names in others) for protocol in protocols
    ):
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    return ClassicSide(message.session_timeout_ms, tuple((each.name, each.metadata) for each in protocols))


def _subscription(side: ClassicSide) -> ConsumerProtocolSubscription:
    try:
        return ConsumerProtocolSubscription.decode_versioned(side.protocols[0][1])
    except WireError:
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL) from None


def _owned(
    subscription: ConsumerProtocolSubscription, metadata: Metadata
) -> tuple[ConsumerGroupHeartbeatTopicPartitions, ...]:
    """Return the member's owned partitions; one that revokes all before it joins sends none."""
    return tuple(
        ConsumerGroupHeartbeatTopicPartitions(
            topic_id=metadata.topics[each.topic].topic_id, partitions=tuple(each.partitions)
        )
        for each in subscription.owned_partitions
        if each.topic in metadata.topics
    )


def _joined(turn: Turn, group: ConsumerGroup, command: JoinGroup, member_id: str, owned: Owned) -> Joined:
    """Return the member before its step; a static one without a member id replaces the former one."""
    message = command.message
    instance_id = message.group_instance_id
    if instance_id is not None:
        if message.member_id:
            return Joined(known_member(group, message.member_id, instance_id))
        former = group.static_member(instance_id)
        if former is not None:
            check_state(former, owned)
            return take_place(turn, group, former, member_id)
    known = group.members.get(member_id)
    return Joined(ConsumerMember(member_id=member_id, epoch=JOINING) if known is None else known)


def _member(
    group: ConsumerGroup, member_id: str, instance_id: str | None
) -> tuple[ConsumerMember, ClassicSide]:
    """Return the member and its classic side. Raises: ApiError."""
    member = known_member(group, member_id, instance_id)
    if member.classic is None:
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
    return member, member.classic


def _check_generation(member: ConsumerMember, generation_id: int) -> None:
    if generation_id != member.epoch:
        raise ApiError(ErrorCode.ILLEGAL_GENERATION)
