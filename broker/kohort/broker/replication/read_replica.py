"""Consumers that read from a follower in their rack, never beyond what it knows to be committed.

Source: KIP-392; org.apache.kafka.common.replica.RackAwareReplicaSelector.
"""

from kohort.broker.controller import LiveBrokers
from kohort.broker.replication.following import Following
from kohort.broker.replication.leadership import Leadership
from kohort.protocol.errors import ErrorCode


def select_read_replica(
    leadership: Leadership, brokers: LiveBrokers, rack: str | None, offset: int
) -> int | None:
    """Return the replica to read from instead of the leader; None for the leader itself.

    Among those in the consumer's rack that are in sync and have its offset: the one with the highest end, the
    lowest node id among equals.
    """
    own = brokers.get(leadership.node_id)
    if rack is None or (own is not None and own.rack == rack):
        return None
    near = [
        each
        for each in leadership.state.isr
        if each != leadership.node_id
        and (broker := brokers.get(each)) is not None
        and broker.rack == rack
        and not broker.is_draining
        and leadership.synced_end_offset(each) >= offset
    ]
    return min(near, key=lambda each: (-leadership.synced_end_offset(each), each), default=None)


def check_follower_read(following: Following, offset: int) -> ErrorCode | None:
    """Return why a consumer can't read from `offset` on here, None where it can."""
    if offset < following.log.log_start_offset:
        return ErrorCode.OFFSET_OUT_OF_RANGE
    # The leader has shown it more records than this broker knows to be committed.
    if offset > following.high_watermark:
        return ErrorCode.OFFSET_NOT_AVAILABLE
    return None
