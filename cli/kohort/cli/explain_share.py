"""What `kohort groups explain` says of a share group: who holds which records, what happened to others."""

import sys
from collections.abc import Iterable, Iterator, Sequence

import click
import msgspec

from kohort.broker.explain.share_groups import (
    GroupExplained,
    Happened,
    Held,
    HoldUp,
    HoldUpKind,
    PartitionExplained,
    ShareGroupExplained,
)
from kohort.broker.explain.story import clock_time
from kohort.broker.explain.words import duration, member_name
from kohort.broker.group.share.delivery_events import Outcome, Reason
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


class ShareTelling:
    """What brokers say of a share group, and what of that was told already."""

    def __init__(self, group_id: str, *, as_json: bool) -> None:
        self.group_id = group_id
        self._as_json = as_json
        self._shown: set[tuple[str, int, Happened]] = set()
        self._hold_ups: tuple[HoldUp, ...] = ()

    def all(self, bodies: Sequence[bytes], last: int, now_ms: int) -> None:
        """Print how the group stands, by what each broker says of the partitions that it leads.

        Raises: click.ClickException where no broker says anything.
        """
        told = self._decoded(bodies)
        self._shown.update(_everything(told))
        self._hold_ups = told[0].group.hold_ups if told[0].group else ()
        if self._as_json:
            print_encoded(msgspec.json.encode(merged(told)))
        else:
            self._print(lines(told, max(last, HAPPENED_TOLD), now_ms))

    def news(self, bodies: Sequence[bytes], now_ms: int) -> None:
        """Print what has happened to records since the last time, and what holds the group back by now.

        Raises: click.ClickException where no broker says anything.
        """
        told = self._decoded(bodies)
        fresh = sorted(
            (each for each in _everything(told) if each not in self._shown), key=lambda each: each[2].at_ms
        )
        self._shown.update(fresh)
        for topic, partition, happened in fresh:
            if self._as_json:
                print_encoded(
                    msgspec.json.encode(
                        {"topic": topic, "partition": partition, **msgspec.structs.asdict(happened)}
                    )
                )
            else:
                self._print([f"{topic} {partition}: {_happened(happened)}"])
        group = told[0].group
        if group is not None and group.hold_ups != self._hold_ups and not self._as_json:
            self._print(_hold_ups_of(group, now_ms))
        self._hold_ups = () if group is None else group.hold_ups

    def _decoded(self, bodies: Sequence[bytes]) -> list[ShareGroupExplained]:
        """Return what each broker says, its coordinator's first."""
        if not bodies:
            raise click.ClickException(f"Group {self.group_id} not found.")
        told = [msgspec.json.decode(each, type=ShareGroupExplained) for each in bodies]
        return sorted(told, key=lambda each: each.group is None)

    def _print(self, told: Iterable[str]) -> None:
        for line in told:
            print_line(line)
        sys.stdout.flush()


def merged(told: Sequence[ShareGroupExplained]) -> ShareGroupExplained:
    """Return what addresses say as one, with the partitions in order; the first one's id stands for all.

    Each address may answer for the whole cluster: what two of them say counts once.
    """
    partitions = {(each.topic, each.partition): each for every in told for each in every.partitions}
    in_order = tuple(each for _, each in sorted(partitions.items()))
    brokers = sorted({broker for each in told for broker in each.brokers or (each.broker_id,)})
    unanswered = tuple(each for each in told[0].unanswered if each.broker not in brokers)
    return msgspec.structs.replace(
        told[0], partitions=in_order, brokers=tuple(brokers), unanswered=unanswered
    )


def _everything(told: Sequence[ShareGroupExplained]) -> Iterator[tuple[str, int, Happened]]:
    """Yield what happened, with its partition."""
    for each in told:
        for partition in each.partitions:
            for happened in partition.happened:
                yield partition.topic, partition.partition, happened


def lines(told: Sequence[ShareGroupExplained], happened_max: int, now_ms: int) -> Iterator[str]:
    """Return the story of a share group, with so many things at most that happened in each partition."""
    whole = merged(told)
    group = whole.group
    brokers = ", ".join(map(str, whole.brokers))
    if group is None:
        asked = f"broker {brokers} does" if len(whole.brokers) == 1 else f"brokers {brokers} do"
        yield f"{whole.group_id}: {asked} not coordinate this group; ask another broker."
    else:
        yield (
            f"{whole.group_id}: {group.state}, {_count(group.members, 'member')}, epoch {group.epoch}, "
            f"assigned in epoch {group.assignment_epoch}."
        )
        yield from _hold_ups_of(group, now_ms)
    for each in whole.unanswered:
        yield f"Broker {each.broker} does not answer: {each.reason}. What it leads is not told of."
    if not whole.partitions:
        yield f"Nobody has read anything of late that broker {brokers} leads."
    for partition in whole.partitions:
        yield ""
        yield from _partition(partition, happened_max, now_ms)


def _hold_ups_of(group: GroupExplained, now_ms: int) -> Iterator[str]:
    for each in group.hold_ups:
        yield f"  Held back: {_hold_up(each, group.epoch, group.assignment_epoch, now_ms)}."


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
