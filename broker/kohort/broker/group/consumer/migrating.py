"""Groups that change their kind while members are in them (`group.consumer.migration.policy`).

Upwards with the first member of the consumer protocol: the classic ones stay members, keep their partitions,
and are asked to rejoin in their own time. Downwards when the last member of the consumer protocol has
gone: then the group is a classic one with the members that are left, and rebalances. Kafka:
GroupMetadataManager's convertToConsumerGroup and convertToClassicGroup.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from uuid import UUID

from kohort.broker.group.classic.group import ClassicGroup, Member
from kohort.broker.group.classic.parking import answer_join, answer_sync, parked_join_error, sync_error
from kohort.broker.group.classic.rebalancing import end_rebalance
from kohort.broker.group.classic.records import group_tombstone
from kohort.broker.group.classic.timers import end_session
from kohort.broker.group.consumer.group import ConsumerGroup
from kohort.broker.group.consumer.member import ClassicSide, ConsumerMember, MemberState
from kohort.broker.group.consumer.records import (
    current_record,
    epoch_record,
    group_tombstones,
    member_record,
    target_epoch_record,
    target_record,
)
from kohort.broker.group.consumer.sessions import extend_session, forget_timers
from kohort.broker.group.decision import JoinTimer, Record, SessionTimer, SyncTimer
from kohort.broker.group.epochs.partitions import Held, Partitions
from kohort.broker.group.epochs.rebalancing import end_rebalance as end_epoch_rebalance
from kohort.broker.group.group import CONSUMER
from kohort.broker.group.metadata import Metadata
from kohort.broker.group.partition import hash_table_place
from kohort.broker.group.rebalance_facts import Outcome
from kohort.broker.group.turn import Turn
from kohort.protocol.consumer import (
    NEWEST_VERSION,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartitions,
)
from kohort.protocol.errors import ApiError, ErrorCode, WireError
from kohort.protocol.offsets_topic import GroupMetadataKey, GroupMetadataValue, MemberMetadata


def upgraded(turn: Turn, group: ClassicGroup, metadata: Metadata) -> ConsumerGroup:
    """Return the consumer group that the classic one becomes, at once and as logged. Raises: ApiError."""
    members: list[ConsumerMember] = []
    if group.is_empty:
        records = [] if group.metadata is None else [group_tombstone(group.group_id)]
    else:
        _check_upgrade(turn, group)
        members = _upgraded_members(group, metadata)
        records = _upgrade_records(group, members)
    _stop(turn, group)
    for record in records:
        turn.log(record)
    made = turn.new_group(group.group_id, ConsumerGroup)
    if members:  # Later steps of this turn use them; the owner replays the records.
        made.generation_id = made.assignment_epoch = group.generation_id
        for each in members:
            made.targets[each.member_id] = _target(each)
            made.put_member(each)
    for member in made.members.values():
        extend_session(turn, made, member)
    return made


def downgrade_soon(
    turn: Turn, group: ConsumerGroup, without: Collection[str] = (), *, is_joined: bool = False
) -> None:
    """Downgrade the group to a classic one soon, if only classic members remain without the leaving ones.

    `is_joined`: one more is there after this turn.
    """
    if _has_only_classic(turn, group, without, int(is_joined)):
        turn.set_timer(JoinTimer(group.group_id), turn.now_ms)


def downgrade(turn: Turn, group: ConsumerGroup, _key: JoinTimer) -> None:
    """Log a classic group instead, if still no member uses the consumer protocol. Its members have to rejoin.

    That it has no leader shows that it has yet to rebalance, also after a load.
    """
    if not _has_only_classic(turn, group):
        return
    end_epoch_rebalance(turn, group, group.epoch, group.members, Outcome.RESTARTED)
    for member_id in group.members:
        forget_timers(turn, group, member_id)
    sides = {each.member_id: each.classic for each in group.members.values() if each.classic}
    name = _common_protocol(list(sides.values()))
    value = GroupMetadataValue(
        protocol_type=CONSUMER,
        generation=group.epoch,
        protocol=name,
        leader=None,
        current_state_timestamp=turn.now_ms,
        members=tuple(
            _member_metadata(group, each, sides[each.member_id], name) for each in group.members.values()
        ),
    )
    for record in group_tombstones(group):
        turn.log(record)
    turn.log(Record(GroupMetadataKey(group=group.group_id), value))
    turn.set_timer(JoinTimer(group.group_id), turn.now_ms)


def assignment_bytes(held: Held, names: dict[UUID, str], version: int) -> bytes:
    """Return an assignment as SyncGroup's answer has it; a topic that is gone is left out."""
    return ConsumerProtocolAssignment(
        assigned_partitions=tuple(
            TopicPartitions(topic=names[topic_id], partitions=tuple(sorted(held[topic_id])))
            for topic_id in sorted(held)
            if topic_id in names
        )
    ).encode_versioned(version)


def version_of(metadata: bytes) -> int:
    """Return the version of a member's consumer protocol, at most the newest one known here."""
    return min(int.from_bytes(metadata[:2], "big"), NEWEST_VERSION)


def _has_only_classic(
    turn: Turn, group: ConsumerGroup, without: Collection[str] = (), joined: int = 0
) -> bool:
    # After a load the names of the assigned topics are unknown until the next JoinGroup has the metadata.
    left = [each for each in group.members.values() if each.member_id not in without]
    return (
        turn.config.may_downgrade
        and 0 < len(left) + joined <= turn.config.group_max_size
        and all(each.classic is not None for each in left)
        and (bool(group.topic_names) or not any(each.assigned for each in left))
    )


def _common_protocol(sides: list[ClassicSide]) -> str:
    """Return the protocol that a classic group of these members selects."""
    counts = Counter(name for side in sides for name, _ in side.protocols)
    votes = Counter(next(name for name, _ in side.protocols if counts[name] == len(sides)) for side in sides)
    return max(votes, key=lambda name: (votes[name], -hash_table_place(name)))


def _member_metadata(
    group: ConsumerGroup, member: ConsumerMember, side: ClassicSide, protocol_name: str
) -> MemberMetadata:
    subscription = side.metadata(protocol_name)
    return MemberMetadata(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout=member.rebalance_timeout_ms,
        session_timeout=side.session_timeout_ms,
        subscription=subscription,
        assignment=assignment_bytes(member.assigned, group.topic_names, version_of(subscription)),
    )


def _check_upgrade(turn: Turn, group: ClassicGroup) -> None:
    """Raises: ApiError GROUP_ID_NOT_FOUND where the migration policy or the group forbids the upgrade."""
    if (
        not turn.config.may_upgrade
        or group.protocol_type != CONSUMER
        or group.member_count > turn.config.group_consumer_max_size
    ):
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group.group_id} is not a consumer group.")


def _stop(turn: Turn, group: ClassicGroup) -> None:
    """Answer the parked requests with REBALANCE_IN_PROGRESS; end the group's timers and rebalance."""
    for member in group.members.values():
        answer_join(turn, group, member, parked_join_error(ErrorCode.REBALANCE_IN_PROGRESS, member))
        answer_sync(turn, member, sync_error(ErrorCode.REBALANCE_IN_PROGRESS))
        end_session(turn, group, member)
    for member_id in group.pending_members:
        turn.cancel_timer(SessionTimer(group.group_id, member_id))
    if group.is_rebalancing:
        end_rebalance(turn, group, Outcome.RESTARTED)
    for key in (JoinTimer(group.group_id), SyncTimer(group.group_id)):
        turn.cancel_timer(key)


def _upgrade_records(group: ClassicGroup, members: list[ConsumerMember]) -> list[Record]:
    """Return the records, the classic group's end first."""
    group_id, epoch = group.group_id, group.generation_id
    return [
        group_tombstone(group_id),
        *(member_record(group_id, each) for each in members),
        epoch_record(group_id, epoch, 0),
        *(target_record(group_id, each.member_id, _target(each)) for each in members),
        target_epoch_record(group_id, epoch, 0),
        *(current_record(group_id, each) for each in members),
    ]


def _target(member: ConsumerMember) -> Partitions:
    return {topic_id: frozenset(indexes) for topic_id, indexes in member.assigned.items()}


def _upgraded_members(group: ClassicGroup, metadata: Metadata) -> list[ConsumerMember]:
    """Return the members as those of a consumer group. Raises: ApiError for members of unknown words."""
    try:
        return list(_each_upgraded(group, metadata))
    except WireError:
        raise _no_upgrade(group, "the embedded consumer protocol is malformed") from None


def _each_upgraded(group: ClassicGroup, metadata: Metadata) -> Iterator[ConsumerMember]:
    taken: set[tuple[UUID, int]] = set()
    given = {each: _assigned(group, each, metadata, taken) for each in group.members.values()}
    for member, assigned in given.items():
        said = member.metadata(group.protocol_name)
        subscription = ConsumerProtocolSubscription.decode_versioned(
            member.protocols[0].metadata if said is None else said
        )
        epoch = group.generation_id
        # It may not know yet that it lost these, so it gives them up first. Kafka hands them out at once.
        revoking = _held(group, subscription.owned_partitions, metadata, taken)
        yield ConsumerMember(
            member_id=member.member_id,
            instance_id=member.instance_id,
            rack_id=subscription.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            topic_names=tuple(sorted(set(subscription.topics))),
            epoch=epoch,
            previous_epoch=epoch,
            state=MemberState.UNREVOKED if revoking else MemberState.STABLE,
            assigned=assigned,
            revoking=revoking,
            classic=ClassicSide(
                member.session_timeout_ms, tuple((each.name, each.metadata) for each in member.protocols)
            ),
        )


def _assigned(group: ClassicGroup, member: Member, metadata: Metadata, taken: set[tuple[UUID, int]]) -> Held:
    """Return the member's assignment; a partition that a leader assigned twice is the first one's."""
    if not member.assignment:
        return {}
    given = ConsumerProtocolAssignment.decode_versioned(member.assignment)
    if given.user_data:
        raise _no_upgrade(group, "an unsupported custom assignor is in use")
    return _held(group, given.assigned_partitions, metadata, taken)


def _held(
    group: ClassicGroup, topics: Iterable[TopicPartitions], metadata: Metadata, taken: set[tuple[UUID, int]]
) -> Held:
    """Return those of the partitions that exist and have no owner yet, and count them as taken."""
    held: dict[UUID, dict[int, int]] = {}
    for each in topics:
        topic = metadata.topics.get(each.topic)
        for index in each.partitions if topic is not None else ():
            if topic is not None and (topic.topic_id, index) not in taken:
                taken.add((topic.topic_id, index))
                held.setdefault(topic.topic_id, {})[index] = group.generation_id
    return held


def _no_upgrade(group: ClassicGroup, reason: str) -> ApiError:
    return ApiError(
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"Cannot upgrade the classic group {group.group_id} to a consumer group because {reason}.",
    )
