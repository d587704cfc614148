"""Groups as JSON: where each stands, who is in it, how far it has read, and why it rebalanced.

Times are in milliseconds since 1970, durations in milliseconds.
"""

from collections.abc import Mapping

from kohort.broker.group.group import Group
from kohort.broker.group.member import Member
from kohort.broker.group.rebalance import Rebalance
from kohort.broker.group.reports import assigned_partitions
from kohort.broker.http.view import View

Json = Mapping[str, object]
"""What msgspec writes as JSON: plain values, and the core's own event structs."""


def list_groups(view: View) -> Json:
    """Return every group in short, and the shards whose groups are not known yet."""
    return {
        "groups": [_summary(group) for group in sorted(view.groups(), key=lambda group: group.group_id)],
        "loading": view.loading(),
    }


def describe_group(view: View, group: Group, now_ms: int) -> Json:
    """Return everything about one group; past rebalances with the newest first."""
    return {
        **_summary(group),
        "state_since_ms": group.state_since_ms,
        "protocol_name": group.protocol_name,
        "leader": group.leader,
        "member_details": [_member(member) for member in group.members.values()],
        "offsets": _offsets(view, group),
        "rebalance": None if group.rebalance is None else _under_way(group.rebalance, now_ms),
        "rebalances": list(reversed(group.history)),
    }


def _summary(group: Group) -> dict[str, object]:
    return {
        "group_id": group.group_id,
        "state": group.state,
        "protocol_type": group.protocol_type or "",
        "generation_id": group.generation_id,
        "members": len(group.members),
        "last_cause": group.history[-1].cause if group.history else None,
    }


def _member(member: Member) -> dict[str, object]:
    partitions: dict[str, list[int]] = {}
    for topic, partition in assigned_partitions(member.assignment):
        partitions.setdefault(topic, []).append(partition)
    return {
        "member_id": member.member_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "group_instance_id": member.group_instance_id,
        "session_timeout_ms": member.session_timeout_ms,
        "rebalance_timeout_ms": member.rebalance_timeout_ms,
        "last_seen_ms": member.last_seen_ms,
        "waits_for": _waits_for(member),
        "assignment": partitions,
    }


def _waits_for(member: Member) -> str | None:
    if member.awaiting_join is not None:
        return "join"
    return "sync" if member.awaiting_sync is not None else None


def _under_way(rebalance: Rebalance, now_ms: int) -> dict[str, object]:
    return {
        "cause": rebalance.cause,
        "further_causes": rebalance.further_causes,
        "from_generation_id": rebalance.generation_id,
        "started_ms": rebalance.started_ms,
        "lasts_ms": now_ms - rebalance.started_ms,
        "phase": "join" if rebalance.join_completed_ms is None else "sync",
        "waiting_for": [wait for wait in rebalance.waits(now_ms) if not wait.joined]
        if rebalance.join_completed_ms is None
        else [],
        "removed_member_ids": rebalance.removed,
    }


def _offsets(view: View, group: Group) -> list[dict[str, object]]:
    rows = []
    for topic in sorted(group.offsets):
        for index, value in sorted(group.offsets[topic].items()):
            partition = view.partition(topic, index)
            end = partition.high_watermark if partition is not None and partition.opened else None
            rows.append(
                {
                    "topic": topic,
                    "partition": index,
                    "offset": value.offset,
                    "leader_epoch": value.leader_epoch,
                    "metadata": value.metadata,
                    "commit_timestamp_ms": value.commit_timestamp,
                    "log_end_offset": end,
                    "lag": None if end is None else max(0, end - value.offset),
                }
            )
    return rows
