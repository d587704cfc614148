"""The cause of the rebalance that a member of a classic group begins when it joins again."""

from kohort.broker.group.classic.group import ClassicGroup, Member
from kohort.broker.group.events import Cause, CauseKind
from kohort.broker.group.group import CONSUMER
from kohort.broker.group.notes import member_cause
from kohort.broker.group.turn import Turn
from kohort.protocol.consumer import ConsumerProtocolSubscription
from kohort.protocol.errors import WireError
from kohort.protocol.messages.join_group import JoinGroupRequest

METADATA_CHANGED = "metadata has changed"  # In the reason that Kafka's own clients send (KIP-800).


def rejoin_cause(turn: Turn, group: ClassicGroup, member: Member, message: JoinGroupRequest) -> Cause:
    """Return why this member's coming back has to rebalance the group."""
    return member_cause(turn, _kind(group, member, message), member, message.reason)


def _kind(group: ClassicGroup, member: Member, message: JoinGroupRequest) -> CauseKind:
    """Return the kind; a leader whose reason names metadata has seen topics or partitions change."""
    if member.member_id == group.leader and METADATA_CHANGED in (message.reason or ""):
        return CauseKind.TOPIC_METADATA_CHANGED
    if member.matches(message.protocols):
        return CauseKind.LEADER_REJOINED
    if {each.name for each in member.protocols} != {each.name for each in message.protocols}:
        return CauseKind.PROTOCOLS_CHANGED
    if group.protocol_type == CONSUMER and _subscribes_the_same(group, member, message):
        return CauseKind.OWNERSHIP_CHANGED
    return CauseKind.SUBSCRIPTION_CHANGED


def _subscribes_the_same(group: ClassicGroup, member: Member, message: JoinGroupRequest) -> bool:
    before = member.metadata(group.protocol_name)
    after = next((each.metadata for each in message.protocols if each.name == group.protocol_name), None)
    if before is None or after is None:
        return False
    try:
        old = ConsumerProtocolSubscription.decode_versioned(before)
        new = ConsumerProtocolSubscription.decode_versioned(after)
    except WireError:
        return False
    return set(old.topics) == set(new.topics)
