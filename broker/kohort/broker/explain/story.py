"""A rebalance as a short story."""

from collections.abc import Sequence
from datetime import datetime

from kohort.broker.explain.advice import EAGER, Advice, eager_stop_ms
from kohort.broker.explain.events import Move, RebalanceReport, Waited
from kohort.broker.explain.timeline import OngoingRebalance
from kohort.broker.explain.words import duration, member_name
from kohort.broker.group.events import Cause, CauseKind, GroupLoaded
from kohort.broker.group.rebalance_facts import Outcome

WAITS_TOLD = 3
WAIT_MS_MIN = 100
"""A join takes a moment even if nobody waits."""
MOVES_TOLD = 8
MISSING_TOLD = 8
CAUSES_TOLD = 4

_OUTCOMES = {
    Outcome.STABLE: "stable after",
    Outcome.EMPTY: "empty after",
    Outcome.RESTARTED: "began anew after",
}
_WHO_DID = {
    CauseKind.MEMBER_JOINED: "{who} joined",
    CauseKind.MEMBER_LEFT: "{who} left",
    CauseKind.MEMBER_EXPIRED: "{who} missed its session timeout: nothing was heard of it for {after}",
    CauseKind.MEMBER_DID_NOT_SYNC: "{who} joined, but did not sync in time",
    CauseKind.MEMBER_DID_NOT_COME: "{who} did not come to its new assignment within its rebalance timeout",
    CauseKind.LEADER_REJOINED: "{who}, the leader, rejoined",
    CauseKind.TOPIC_METADATA_CHANGED: "{who}, the leader, saw topics or partitions change",
    CauseKind.METADATA_CHANGED: "topics or partitions changed",
    CauseKind.SUBSCRIPTION_CHANGED: "{who} changed its subscription",
    CauseKind.OWNERSHIP_CHANGED: "{who} gave up partitions that are another's now (cooperative)",
    CauseKind.PROTOCOLS_CHANGED: "{who} changed its assignors",
    CauseKind.STATIC_MEMBER_REPLACED: "{who} came back under its group.instance.id in the middle of it",
    CauseKind.ASSIGNMENT_TOO_LARGE: "{who}, the leader, handed out more than there is room for",
    CauseKind.DOWNGRADED: "the last member of the consumer protocol left, and the group became a classic one",
    CauseKind.OVER_CAPACITY: "the group was loaded with more members than group.max.size",
}


def clock_time(at_ms: int) -> str:
    """Return the local time to the second."""
    return datetime.fromtimestamp(at_ms / 1000).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def time_zones(*times_ms: int) -> str:
    """Return the offset from UTC of `clock_time` at these times, oldest first: UTC+02:00, later UTC+01:00."""
    zones = (datetime.fromtimestamp(each / 1000).astimezone() for each in sorted(times_ms))
    return ", later ".join(dict.fromkeys(f"UTC{each.isoformat(timespec='seconds')[19:]}" for each in zones))


def story(report: RebalanceReport, advice: Sequence[Advice], said: Sequence[str] = ()) -> list[str]:
    """Return the lines about a completed rebalance; `said`: what clients say themselves of that time."""
    lines = [
        f"{clock_time(report.started_ms)}  {'epoch' if report.is_by_broker else 'generation'} "
        f"{report.generation_id}, "
        f"{_OUTCOMES[report.outcome]} {duration(report.still_ms)}",
        f"  Cause: {cause_words(report.cause)}.",
    ]
    lines += _further(report.further_causes)
    lines += [f"  {each}." for each in said]
    if report.is_by_broker:
        lines += _by_broker(report)
    else:
        lines.append(f"  Joining took {duration(report.join_ms)}{_waits(report)}.")
    if report.outcome is Outcome.STABLE and not report.is_by_broker:
        lines.append(
            f"  Assigning took {duration(report.sync_ms)}: {member_name(report.leader or '')} leads "
            f"{_members(report.members)}, {report.protocol_name}."
        )
        lines += _stand_still(report)
    lines += [f"  What to change: {each.text}" for each in advice]
    return lines


def _by_broker(report: RebalanceReport) -> list[str]:
    """Return the lines about the assigning broker, slow members, and moved partitions."""
    if report.outcome is not Outcome.STABLE:
        return []
    lines = [
        f"  Assigned after {duration(report.join_ms)}: {_members(report.members)}, {report.protocol_name}.",
        f"  All had it {duration(report.sync_ms)} later{_waits(report)}.",
    ]
    return lines + _stand_still(report)


def fail_over(event: GroupLoaded) -> list[str]:
    """Return the lines about another broker's having taken the group over."""
    paused = f" for up to {duration(event.silent_ms)}" if event.silent_ms else " for a moment"
    return [
        f"{clock_time(event.at_ms)}  broker {event.node_id} coordinates the group instead of "
        f"broker {event.former_node_id}, which {event.why}",
        f"  Nobody could commit or join{paused}. {_members(event.members)} went on with generation "
        f"{event.generation_id}: nobody had to rejoin.",
    ]


def began(ongoing: OngoingRebalance) -> list[str]:
    """Return the line about a rebalance that has just begun."""
    return [f"{clock_time(ongoing.started_ms)}  a rebalance began: {cause_words(ongoing.cause)}."]


def still_missing(ongoing: OngoingRebalance, now_ms: int) -> list[str]:
    """Return the lines about a rebalance in progress: missing members, and since when."""
    passed = duration(max(now_ms - ongoing.started_ms, 0))
    if not ongoing.missing:
        wait = "everyone is here; a new group waits a moment for more members"
        return [f"  Under way for {passed}: {wait}."]
    if ongoing.is_assigning:
        (leader, since_ms), *_ = ongoing.missing.items()
        waited = duration(max(now_ms - since_ms, 0))
        return [
            f"  Under way for {passed}: everyone has joined; {member_name(leader)} assigns since {waited}."
        ]
    count = len(ongoing.missing)
    lines = [f"  Under way for {passed}: it still waits for {count} member{'' if count == 1 else 's'}."]
    for member_id, since_ms in list(ongoing.missing.items())[:MISSING_TOLD]:
        waited = duration(max(now_ms - since_ms, 0))
        seen_ms = ongoing.last_seen_ms.get(member_id)
        heard = "" if seen_ms is None else f", last heard of {duration(max(now_ms - seen_ms, 0))} ago"
        lines.append(f"    {member_name(member_id)}: for {waited}{heard}")
    if count > MISSING_TOLD:
        lines.append(f"    and {count - MISSING_TOLD} more")
    return lines


def cause_words(cause: Cause) -> str:
    """Return the cause as text: the event, the member, and the client's own reason."""
    who = cause.group_instance_id or member_name(cause.member_id)
    words = _WHO_DID[cause.kind].format(who=who, after=duration(cause.after_ms))
    if cause.connection_closed_ms:
        closed = f"its connection closed {duration(cause.connection_closed_ms)} before its session ended"
        words = f"{who} died, or was cut off from the network: {closed}"
        if cause.group_instance_id:  # It closes without a goodbye, so that it may come back.
            words = f"{who} has not come back: {closed}"
    return f'{words} ("{cause.reason.rstrip(".")}")' if cause.reason else words


def _further(causes: Sequence[Cause]) -> list[str]:
    lines = [f"  Meanwhile: {cause_words(each)}." for each in causes[:CAUSES_TOLD]]
    if len(causes) > CAUSES_TOLD:
        lines.append(f"  Meanwhile: {len(causes) - CAUSES_TOLD} more of the kind.")
    return lines


def _waits(report: RebalanceReport) -> str:
    if not report.waited_for:
        has_waited = report.is_initial and report.join_ms >= WAIT_MS_MIN
        return ": a new group waits for more members" if has_waited else ""
    told = ", ".join(_wait(report, each) for each in report.waited_for[:WAITS_TOLD])
    more = len(report.waited_for) - WAITS_TOLD
    return f": it waited for {told}" + (f" and {more} more" if more > 0 else "")


def _wait(report: RebalanceReport, waited: Waited) -> str:
    end = ""
    if not waited.joined:
        end = ", in vain" if waited.member_id in report.removed_member_ids else ", then it left"
    return f"{member_name(waited.member_id)} ({duration(waited.waited_ms)}{end})"


def _members(count: int) -> str:
    return f"{count} member{'' if count == 1 else 's'}"


def _stand_still(report: RebalanceReport) -> list[str]:
    """Return the moved partitions and how long they had no reader."""
    lines = []
    if report.protocol_name in EAGER and not report.is_initial:
        stop = duration(eager_stop_ms(report))
        lines.append(f"  {report.protocol_name} pauses every member, here {stop}.")
    if not report.moves:
        return [*lines, "  No partition moved."]
    lines.append(f"  {_moved(report)}:")
    by_way: dict[tuple[str | None, str | None], list[Move]] = {}
    for move in report.moves:
        by_way.setdefault((move.from_member_id, move.to_member_id), []).append(move)
    for (before, after), moves in list(by_way.items())[:MOVES_TOLD]:
        lines.append(f"    {_partitions(moves)}  {_owner(before)} -> {_owner(after)}  {_longest(moves)}")
    if len(by_way) > MOVES_TOLD:
        lines.append(f"    and {sum(map(len, list(by_way.values())[MOVES_TOLD:]))} more")
    return lines


def _moved(report: RebalanceReport) -> str:
    count = len(report.moves)
    partitions = f"{count} partition{'' if count == 1 else 's'}"
    if report.is_initial:
        return f"{partitions} found a reader"
    return f"{partitions} moved, read by nobody for up to {_longest(report.moves)}"


def _owner(member_id: str | None) -> str:
    return "nobody" if member_id is None else member_name(member_id)


def _longest(moves: Sequence[Move]) -> str:
    return duration(max(each.still_ms for each in moves))


def _partitions(moves: Sequence[Move]) -> str:
    """Return the partitions by topic, neighbours as a range: `orders 0-3,7`."""
    topics: dict[str, list[int]] = {}
    for move in moves:
        topics.setdefault(move.topic, []).append(move.partition)
    return "; ".join(f"{topic} {_ranges(sorted(indexes))}" for topic, indexes in topics.items())


def _ranges(indexes: Sequence[int]) -> str:
    ranges: list[list[int]] = []
    for index in indexes:
        if ranges and index == ranges[-1][1] + 1:
            ranges[-1][1] = index
        else:
            ranges.append([index, index])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in ranges)
