"""Why a rebalance begins: who did what, and with which words."""

from kohort.broker.group.classic.group import ClassicGroup, Member
from kohort.broker.group.events import Cause, CauseKind
from kohort.broker.group.group import CONSUMER
from kohort.broker.group.turn import Turn
from kohort.protocol.consumer import ConsumerProtocolSubscription
from kohort.protocol.errors import WireError
from kohort.protocol.messages.join_group import JoinGroupRequest

METADATA_CHANGED = "metadata has changed"  # In the reason that Kafka's own clients send (KIP-800).
REASON_LENGTH_KEPT = 255


def client_reason(reason: str | None) -> str:
    """Return what a client gave as its reason, no longer than KIP-800 lets it be."""
    return "" if reason is None else reason[:REASON_LENGTH_KEPT]


def member_cause(
    turn: Turn,
    kind: CauseKind,
    member: Member,
    reason: str | None = None,
    *,
    after_ms: int = 0,
    connection_closed_ms: int = 0,
) -> Cause:
    """Return the cause that lies with a member."""
    return Cause(
        kind=kind,
        at_ms=turn.now_ms,
        member_id=member.member_id,
        client_id=member.client_id,
        group_instance_id=member.group_instance_id,
        reason=client_reason(reason),
        after_ms=after_ms,
        client_host=member.client_host,
        connection_closed_ms=connection_closed_ms,
    )


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
