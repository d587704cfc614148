"""The bytes that members of a classic group write for each other: subscriptions and assignments.

Source: ConsumerProtocolSubscription.json versions 1 to 3: owned partitions (KIP-429), the generation in
which they were owned (KIP-792), the rack (KIP-881).
"""

from kohort.client.assignors import Owned, Subscription
from kohort.protocol.consumer import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartitions,
)
from kohort.protocol.errors import WireError


def encode_subscription(subscription: Subscription) -> bytes:
    """Return the bytes for one protocol of a JoinGroup."""
    return ConsumerProtocolSubscription(
        topics=subscription.topics,
        user_data=subscription.user_data,
        owned_partitions=_topic_partitions(subscription.owned),
        generation_id=subscription.generation_id,
        rack_id=subscription.rack_id,
    ).encode_versioned()


def decode_subscription(data: bytes, group_instance_id: str | None) -> Subscription:
    """Return a member's subscription; one whose bytes can't be read is empty."""
    try:
        decoded = ConsumerProtocolSubscription.decode_versioned(data)
    except WireError:
        return Subscription((), group_instance_id=group_instance_id)
    return Subscription(
        topics=decoded.topics,
        owned={each.topic: each.partitions for each in decoded.owned_partitions},
        generation_id=decoded.generation_id,
        user_data=decoded.user_data,
        rack_id=decoded.rack_id,
        group_instance_id=group_instance_id,
    )


def encode_assignment(partitions: Owned) -> bytes:
    """Return the bytes for one member of a SyncGroup."""
    return ConsumerProtocolAssignment(assigned_partitions=_topic_partitions(partitions)).encode_versioned()


def decode_assignment(data: bytes) -> Owned:
    """Return the partitions that the leader handed out. Raises: WireError."""
    if not data:  # A leader that forgot this member: Kafka hands out an empty assignment.
        return {}
    decoded = ConsumerProtocolAssignment.decode_versioned(data)
    return {each.topic: each.partitions for each in decoded.assigned_partitions if each.partitions}


def _topic_partitions(owned: Owned) -> tuple[TopicPartitions, ...]:
    return tuple(TopicPartitions(topic=topic, partitions=each) for topic, each in sorted(owned.items()))
