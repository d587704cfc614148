"""What `kohort groups explain` says of a share group: who holds which records, what happened to others."""

from collections.abc import Iterator, Sequence

import msgspec

from kohort.broker.group.share.explaining import (
    Happened,
    Held,
    HoldUp,
    HoldUpKind,
    PartitionExplained,
    ShareGroupExplained,
)
from kohort.broker.group.share.happenings import Outcome, Reason
from kohort.broker.group.story import clock_time
from kohort.broker.group.words import duration, member_name
from kohort.cli.output import print_encoded, print_line

HELD_TOLD = 10
HAPPENED_TOLD = 20

_HOLD_UPS = {
    HoldUpKind.NO_STATE_YET: "{where}: nobody is given what the share coordinator keeps no state of yet",
    HoldUpKind.NO_SUCH_TOPIC: "{where}: there is no such topic",
    HoldUpKind.NOT_ASSIGNED_YET: "epoch {epoch} has no assignment yet, the last one is of epoch {assigned}",
    HoldUpKind.MEMBER_BEHIND: "{who} has not come to epoch {assigned} yet{seen}",
    HoldUpKind.NOTHING_FOR_MEMBER: "{who} has no partition{seen}",
}
_REASONS = {
    Reason.RELEASED: "{who} gave {it} back",
    Reason.REJECTED: "{who} rejected {it}",
    Reason.LOCK_ENDED: "{who} had {it} for longer than its lock lasts",
    Reason.SESSION_CLOSED: "{who} closed its session",
    Reason.CONNECTION_LOST: "the connection of {who} ended",
}
_OUTCOMES = {
    Outcome.COMES_AGAIN: "{they} again",
    Outcome.GIVEN_UP: "given up",
    Outcome.WAITS_FOR_DEAD_LETTER: "given up, a dead letter is due",
    Outcome.DEAD_LETTER: "the dead letter is written",
    Outcome.NO_DEAD_LETTER: "given up without a dead letter: the broker's log says why",
}


def print_explained(body: bytes, last: int, *, as_json: bool, now_ms: int) -> None:
    """Print what a broker says of a share group, as it came or in words."""
    if as_json:
        print_encoded(body)
        return
    told = msgspec.json.decode(body, type=ShareGroupExplained)
    for line in lines(told, max(last, HAPPENED_TOLD), now_ms):
        print_line(line)


def lines(told: ShareGroupExplained, happened_max: int, now_ms: int) -> Iterator[str]:
    """Return the story of a share group, with so many things at most that happened in each partition."""
    group = told.group
    if group is None:
        yield f"{told.group_id}: another broker than {told.broker_id} coordinates it."
    else:
        yield (
            f"{told.group_id}: {group.state}, {_count(group.members, 'member')}, epoch {group.epoch}, "
            f"assigned in epoch {group.assignment_epoch}."
        )
        for each in group.hold_ups:
            yield f"  Held back: {_hold_up(each, group.epoch, group.assignment_epoch, now_ms)}."
    if not told.partitions:
        yield f"Nobody has read anything of late that broker {told.broker_id} leads."
    for partition in told.partitions:
        yield ""
        yield from _partition(partition, happened_max, now_ms)


def _hold_up(each: HoldUp, epoch: int, assigned: int, now_ms: int) -> str:
    where = each.topic or ""
    if each.partitions:
        where = f"{where} {', '.join(map(str, each.partitions))}"
    seen = ""
    if each.last_seen_ms is not None:
        seen = f", last heard of {duration(max(now_ms - each.last_seen_ms, 0))} ago"
    return _HOLD_UPS[each.kind].format(
        where=where, who=member_name(each.member_id or ""), epoch=epoch, assigned=assigned, seen=seen
    )


def _partition(told: PartitionExplained, happened_max: int, now_ms: int) -> Iterator[str]:
    name = f"{told.topic} {told.partition}"
    if told.start_offset is None:
        yield f"{name}: nobody reads it now."
    else:
        yield (
            f"{name}: from offset {told.start_offset} up to {told.end_offset}; {told.held_records} held, "
            f"{told.again_records} to be handed out again, {told.letter_records} without the dead letter due."
        )
    for each in told.held[:HELD_TOLD]:
        yield f"  {_held(each, now_ms)}"
    if len(told.held) > HELD_TOLD:
        yield f"  and {_count(told.held_records - _records(told.held[:HELD_TOLD]), 'record')} more"
    for happened in told.happened[-happened_max:]:
        yield f"  {_happened(happened)}"


def _held(each: Held, now_ms: int) -> str:
    left_ms = each.lock_until_ms - now_ms
    until = f"for {duration(left_ms)} more" if left_ms > 0 else "its time is up"
    return (
        f"{_offsets(each.first_offset, each.last_offset)}: held by {member_name(each.member_id)} for "
        f"{duration(max(now_ms - each.since_ms, 0))}, {until}, {_delivery(each.delivery_count)}"
    )


def _happened(each: Happened) -> str:
    is_one = each.first_offset == each.last_offset
    outcome = _OUTCOMES[each.outcome].format(they="it comes" if is_one else "they come")
    why = ""
    if each.reason is not None:
        words = _REASONS[each.reason].format(who=member_name(each.member_id), it="it" if is_one else "them")
        why = f"{words}, {_delivery(each.delivery_count)}: "
    where = _offsets(each.first_offset, each.last_offset)
    return f"{clock_time(each.at_ms)}  {where}: {why}{outcome}"


def _records(runs: Sequence[Held]) -> int:
    return sum(each.last_offset + 1 - each.first_offset for each in runs)


def _offsets(first: int, last: int) -> str:
    return f"offset {first}" if first == last else f"offsets {first}-{last}"


def _delivery(count: int) -> str:
    return f"delivery {count}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
