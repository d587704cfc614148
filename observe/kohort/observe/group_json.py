"""A group as the observer's answers have it: in short, its members, its offsets. Pure."""

from collections.abc import Iterator

from kohort.observe.group import ObservedGroup
from kohort.observe.lags import PlaceLag

Json = dict[str, object]


def group_type(group: ObservedGroup) -> str:
    """Return classic, consumer, share or streams."""
    return group.kind if group.is_by_broker else "classic"


def group_state(group: ObservedGroup) -> str:
    """Return Stable or Empty: records tell of no other state."""
    return "Stable" if group.snapshot.members else "Empty"


def summary(group: ObservedGroup) -> Json:
    """Return a group in short."""
    snapshot = group.snapshot
    return {
        "group_id": group.group_id,
        "state": group_state(group),
        "protocol_type": group.kind,
        "type": group_type(group),
        "protocol_name": snapshot.protocol_name,
        "generation_id": snapshot.generation_id,
        "member_count": len(snapshot.members),
        "state_since_ms": snapshot.at_ms,
    }


def members_of(group: ObservedGroup) -> Iterator[Json]:
    """Yield the members: what each owns, and how it commits; None for what was never seen."""
    owned = group.snapshot.owned()
    for member_id, member in group.snapshot.members.items():
        activity = group.activities.get(member_id)
        yield {
            "member_id": member_id,
            "group_instance_id": member.group_instance_id,
            "client_id": member.client_id,
            "client_host": member.client_host,
            "topics": member.topics or (member.topic_regex,),
            "partitions": owned.get(member_id, []),
            "session_timeout_ms": member.session_timeout_ms,
            "rebalance_timeout_ms": member.rebalance_timeout_ms,
            "last_commit_ms": None if activity is None else activity.last_commit_ms or None,
            "commit_interval_ms": None if activity is None else activity.commit_interval_ms or None,
            "last_progress_ms": None if activity is None else activity.last_progress_ms or None,
        }


def offset_of(lag: PlaceLag) -> Json:
    """Return the committed offset of one partition, with its lag."""
    return {
        "topic": lag.topic,
        "partition": lag.partition,
        "offset": lag.offset,
        "commit_timestamp_ms": lag.commit_timestamp_ms,
        "high_watermark": lag.end_offset,
        "lag": lag.lag,
        "lag_seconds": lag.lag_seconds,
        "verdict": lag.verdict,
    }
