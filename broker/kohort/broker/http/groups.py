"""Groups as JSON: where each stands, who is in it, how far it has read, and why it rebalanced.

Times are in milliseconds since 1970, durations in milliseconds.
"""

from collections.abc import Mapping

import msgspec

from kohort.broker.group.group import Group
from kohort.broker.group.views import view_of
from kohort.broker.http.view import View

Json = Mapping[str, object]
"""What msgspec writes as JSON: plain values, and the core's own structs."""


def list_groups(view: View) -> Json:
    """Return every group in short, and the shards whose groups are not known yet."""
    return {
        "groups": [_summary(group) for group in sorted(view.groups(), key=lambda group: group.group_id)],
        "loading": view.loading(),
    }


def _summary(group: Group) -> Json:
    rebalance = group.rebalance
    last = group.history[-1] if group.history else None
    return {
        "group_id": group.group_id,
        "state": group.state,
        "protocol_type": group.protocol_type or "",
        "generation_id": group.generation_id,
        "member_count": len(group.members),
        "rebalance_cause": None if rebalance is None else rebalance.cause,
        "last_rebalance_cause": None if last is None else last.cause,
    }


def describe_group(view: View, group: Group, now_ms: int) -> Json:
    """Return everything about one group: `GroupView`, and where each partition was read to."""
    return {**msgspec.structs.asdict(view_of(group, now_ms)), "offsets": _offsets(view, group)}


def _offsets(view: View, group: Group) -> list[Json]:
    rows: list[Json] = []
    for topic in sorted(group.offsets):
        for index, value in sorted(group.offsets[topic].items()):
            partition = view.partition(topic, index)
            serves = partition is not None and partition.opened and partition.offline is None
            end = partition.high_watermark if partition is not None and serves else None
            rows.append(
                {
                    "topic": topic,
                    "partition": index,
                    "offset": value.offset,
                    "leader_epoch": value.leader_epoch,
                    "metadata": value.metadata,
                    "commit_timestamp_ms": value.commit_timestamp,
                    "high_watermark": end,
                    "lag": None if end is None else max(0, end - value.offset),
                }
            )
    return rows
