"""Classic groups: each record has the whole group in one generation. Pure."""

from kohort.broker.explain.observed.events import ObservedMember
from kohort.observe.snapshots import Owners, Snapshot, sharing_topics
from kohort.protocol.consumer import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from kohort.protocol.errors import WireError
from kohort.protocol.offsets_topic import GroupMetadataValue, MemberMetadata

CONSUMER = "consumer"


def snapshot_of(value: GroupMetadataValue, at_ms: int) -> Snapshot:
    """Return a generation. Subscriptions and assignments of other protocols than consumers' are not read."""
    members: dict[str, ObservedMember] = {}
    owners: Owners = {}
    is_consumer = value.protocol_type == CONSUMER
    for each in value.members:
        topics = _topics(each) if is_consumer else ()
        members[each.member_id] = ObservedMember(
            each.member_id,
            each.client_id,
            each.client_host,
            each.group_instance_id,
            topics,
            session_timeout_ms=each.session_timeout,
            rebalance_timeout_ms=max(each.rebalance_timeout, 0),
        )
        if is_consumer:
            _add_owned(owners, each)
    return Snapshot(value.generation, at_ms, value.protocol or "", sharing_topics(members), owners)


def _topics(member: MemberMetadata) -> tuple[str, ...]:
    try:
        return tuple(ConsumerProtocolSubscription.decode_versioned(member.subscription).topics)
    except WireError:
        return ()


def _add_owned(owners: Owners, member: MemberMetadata) -> None:
    if not member.assignment:
        return
    try:
        assignment = ConsumerProtocolAssignment.decode_versioned(member.assignment)
    except WireError:
        return
    for each in assignment.assigned_partitions:
        of_topic = owners.setdefault(each.topic, {})
        of_topic.update(dict.fromkeys(each.partitions, member.member_id))
