"""A group's story, put together from its events alone: past rebalances, and the one in progress."""

from collections import deque

import msgspec

from kohort.broker.explain.events import AnyEvent, JoinCompleted, RebalanceCompleted, RebalanceReport
from kohort.broker.group.events import (
    Cause,
    Event,
    GroupDeleted,
    GroupEmptied,
    GroupLoaded,
    MemberEvent,
    MemberExpired,
    MemberFenced,
    MemberIdExpired,
    MemberIdGiven,
    MemberJoined,
    MemberLeft,
    MemberRejoined,
    RebalanceExtended,
    RebalanceStarted,
    StaticMemberReturned,
)

FENCED_KEPT = 32
_DECODER = msgspec.json.Decoder(AnyEvent)
_HERE = (MemberJoined, MemberRejoined)
_GONE = (MemberLeft, MemberExpired, MemberIdExpired)
_NEW_START = (GroupLoaded, GroupDeleted, GroupEmptied)


def read_event(value: bytes) -> Event | None:
    """Return an event of `__group_events`, None for an invalid one, or one of a newer kohort."""
    try:
        event: Event = _DECODER.decode(value)
    except msgspec.DecodeError:  # Of which a kind or a value that is not known is one, too.
        return None
    return event


class OngoingRebalance:
    """A rebalance that is not over: its missing members, and since when.

    `missing` has member ids with the time since which the group waits for each; `is_assigning`: everyone
    has joined, and only the leader's assignment is missing.
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
        self.fail_overs: deque[GroupLoaded] = deque(maxlen=kept)
        """When another broker took the group over: no rebalance, but everybody waits."""
        self.ongoing: OngoingRebalance | None = None

    def add(self, event: Event) -> None:
        """Take over the next event of the group."""
        if isinstance(event, RebalanceStarted):
            self.ongoing = OngoingRebalance(event.cause, event.at_ms)
            self.ongoing.missing = dict.fromkeys(event.waits_for_member_ids, event.at_ms)
        elif isinstance(event, RebalanceCompleted):
            self.reports.append(event.report)
            self.ongoing = None
        elif isinstance(event, _NEW_START):
            self.ongoing = None  # A rebalance does not survive the coordinator, nor its group.
            if isinstance(event, GroupLoaded) and event.is_fail_over:
                self.fail_overs.append(event)
        elif isinstance(event, MemberFenced):
            self.fenced.append(event)
        elif self.ongoing is not None:
            _follow(self.ongoing, event)


def _follow(ongoing: OngoingRebalance, event: Event) -> None:
    missing = ongoing.missing
    if isinstance(event, JoinCompleted):
        ongoing.is_assigning = True
        ongoing.missing = {event.leader: event.at_ms}
    elif isinstance(event, RebalanceExtended):
        ongoing.deadline_ms = event.deadline_ms
    elif isinstance(event, StaticMemberReturned):
        missing.pop(event.former_member_id, None)
    elif isinstance(event, MemberIdGiven) and not ongoing.is_assigning:
        missing[event.member_id] = event.at_ms
    elif isinstance(event, MemberEvent) and isinstance(event, (*_HERE, *_GONE)):
        missing.pop(event.member_id, None)
