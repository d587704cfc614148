"""A group's story, put together from its events alone: past rebalances, and the one under way."""

from collections import deque

import msgspec

from kohort.broker.group.events import (
    AnyEvent,
    Cause,
    Event,
    GroupDeleted,
    GroupEmptied,
    GroupLoaded,
    JoinCompleted,
    MemberEvent,
    MemberExpired,
    MemberFenced,
    MemberIdExpired,
    MemberIdGiven,
    MemberJoined,
    MemberLeft,
    MemberRejoined,
    RebalanceCompleted,
    RebalanceExtended,
    RebalanceReport,
    RebalanceStarted,
    StaticMemberReturned,
)

FENCED_KEPT = 32
_DECODER = msgspec.json.Decoder(AnyEvent)
_HERE = (MemberJoined, MemberRejoined)
_GONE = (MemberLeft, MemberExpired, MemberIdExpired)
_NEW_START = (GroupLoaded, GroupDeleted, GroupEmptied)


def read_event(value: bytes) -> Event | None:
    """Return an event as it stands in `__group_events`, None for what is none, or is of a newer kohort."""
    try:
        event: Event = _DECODER.decode(value)
    except msgspec.DecodeError:  # Of which a kind or a value that is not known is one, too.
        return None
    return event


class UnderWay:
    """A rebalance that is not over: who is missing, and since when.

    `missing` has member ids with the time since which the group waits for each; `is_assigning`: everyone
    has joined, and the leader is the one that is missing.
    """

    def __init__(self, cause: Cause, started_ms: int) -> None:
        self.cause = cause
        self.started_ms = started_ms
        self.missing: dict[str, int] = {}
        self.last_seen_ms: dict[str, int] = {}
        self.is_assigning = False
        self.deadline_ms: int | None = None


class Timeline:
    """The rebalances of one group, the newest last, as far back as `kept`."""

    def __init__(self, kept: int) -> None:
        self.reports: deque[RebalanceReport] = deque(maxlen=kept)
        self.fenced: deque[MemberFenced] = deque(maxlen=FENCED_KEPT)
        self.under_way: UnderWay | None = None

    def add(self, event: Event) -> None:
        """Take over the next event of the group."""
        if isinstance(event, RebalanceStarted):
            self.under_way = UnderWay(event.cause, event.at_ms)
            self.under_way.missing = dict.fromkeys(event.waits_for_member_ids, event.at_ms)
        elif isinstance(event, RebalanceCompleted):
            self.reports.append(event.report)
            self.under_way = None
        elif isinstance(event, _NEW_START):
            self.under_way = None  # A rebalance does not outlive the coordinator, nor its group.
        elif isinstance(event, MemberFenced):
            self.fenced.append(event)
        elif self.under_way is not None:
            _follow(self.under_way, event)


def _follow(under_way: UnderWay, event: Event) -> None:
    missing = under_way.missing
    if isinstance(event, JoinCompleted):
        under_way.is_assigning = True
        under_way.missing = {event.leader: event.at_ms}
    elif isinstance(event, RebalanceExtended):
        under_way.deadline_ms = event.deadline_ms
    elif isinstance(event, StaticMemberReturned):
        missing.pop(event.former_member_id, None)
    elif isinstance(event, MemberIdGiven) and not under_way.is_assigning:
        missing[event.member_id] = event.at_ms
    elif isinstance(event, MemberEvent) and isinstance(event, (*_HERE, *_GONE)):
        missing.pop(event.member_id, None)
