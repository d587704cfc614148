"""The cause of the rebalance that a member of a classic group begins when it joins again."""

from msgspec.structs import replace

from kohort.broker.group.events import Cause, CauseKind
from kohort.broker.group.group import CONSUMER
from kohort.broker.group.rebalance_facts import Rejoin
from kohort.protocol.consumer import ConsumerProtocolSubscription
from kohort.protocol.errors import WireError
from kohort.protocol.messages.join_group import JoinGroupRequestProtocol

METADATA_CHANGED = "metadata has changed"  # In the reason that Kafka's own clients send (KIP-800).


def rejoin_cause(rejoin: Rejoin) -> Cause:
    """Return why the group has to rebalance."""
    return replace(rejoin.cause, kind=_kind(rejoin))


def _kind(rejoin: Rejoin) -> CauseKind:
    """Return the kind; a leader whose reason names metadata has seen topics or partitions change."""
    former, current = rejoin.former, rejoin.current
    if rejoin.is_leader and METADATA_CHANGED in rejoin.cause.reason:
        return CauseKind.TOPIC_METADATA_CHANGED
    if former == current:
        return CauseKind.LEADER_REJOINED
    if {each.name for each in former} != {each.name for each in current}:
        return CauseKind.PROTOCOLS_CHANGED
    if rejoin.protocol_type == CONSUMER and _subscribes_the_same(rejoin):
        return CauseKind.OWNERSHIP_CHANGED
    return CauseKind.SUBSCRIPTION_CHANGED


def _subscribes_the_same(rejoin: Rejoin) -> bool:
    before = _metadata(rejoin.former, rejoin.protocol_name)
    after = _metadata(rejoin.current, rejoin.protocol_name)
    if before is None or after is None:
        return False
    try:
        old = ConsumerProtocolSubscription.decode_versioned(before)
        new = ConsumerProtocolSubscription.decode_versioned(after)
    except WireError:
        return False
    return set(old.topics) == set(new.topics)


def _metadata(protocols: tuple[JoinGroupRequestProtocol, ...], name: str | None) -> bytes | None:
    return next((each.metadata for each in protocols if each.name == name), None)
