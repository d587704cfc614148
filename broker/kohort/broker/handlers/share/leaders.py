"""The leader of a partition, for a member that has asked another broker."""

from collections.abc import Iterator, Mapping

from kohort.broker.coordination.share_partitions import TopicIdPartition
from kohort.broker.metadata import Snapshot
from kohort.protocol.errors import ErrorCode

UNKNOWN = -1, -1
UNTOLD = 0, 0
"""The value if no other leader has to be found: the defaults of Kafka's schema."""
LED_ELSEWHERE = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


def leader_of(snapshot: Snapshot, place: TopicIdPartition, code: ErrorCode) -> tuple[int, int]:
    """Return the partition's leader and its epoch, if the member has to look for it."""
    if code not in LED_ELSEWHERE:
        return UNTOLD
    state = snapshot.partition(place)
    return UNKNOWN if state is None else (state.leader, state.leader_epoch)


def endpoints_of(
    snapshot: Snapshot, codes: Mapping[TopicIdPartition, ErrorCode], listener: int
) -> Iterator[tuple[int, str, int, str | None]]:
    """Yield node id, host, port and rack of each of these leaders."""
    leaders = {leader_of(snapshot, place, code)[0] for place, code in codes.items() if code in LED_ELSEWHERE}
    for node_id in sorted(leaders):
        broker = snapshot.broker(node_id)
        if broker is not None:
            yield node_id, *broker.address(listener), broker.rack
