"""What the group core notes, told on: to the log in words, to the metrics in numbers.

Thousands of groups may form in a second, and a line costs as much as a request: then so many lines of each
kind are written, and one that says how many were left out. All are in `__group_events`, and all are counted.
"""

import structlog

from kohort.broker.coordination.counters import GroupCounters
from kohort.broker.group.events import (
    Event,
    GroupDeleted,
    GroupLoaded,
    MemberEvent,
    MemberExpired,
    MemberFenced,
    MemberLeft,
    MemberRefused,
    OffsetsRemoved,
    RebalanceCompleted,
    RebalanceStarted,
)
from kohort.broker.runtime.clock import Clock
from kohort.broker.runtime.throttled_log import ThrottledLog

LINES_PER_SECOND_MAX = 50
SAID = frozenset(
    (
        GroupDeleted,
        GroupLoaded,
        MemberExpired,
        MemberFenced,
        MemberLeft,
        MemberRefused,
        OffsetsRemoved,
        RebalanceCompleted,
        RebalanceStarted,
    )
)
"""What is logged at the level of information or above."""

log = structlog.get_logger("kohort.group")


class ToldEvents:
    """Counts events, and logs what an operator would ask about; the rest at the debug level."""

    def __init__(self, counters: GroupCounters, clock: Clock) -> None:
        self._counters = counters
        self._all = log.bind()  # The proxy would look for its logger at each event.
        self._log = ThrottledLog(self._all, clock, LINES_PER_SECOND_MAX)

    def tell_left_out(self) -> None:
        """Log how many lines were left out, where it is quiet now; to be called now and then."""
        self._log.tell_left_out()

    def note(self, event: Event) -> None:
        """Count and log the event."""
        if type(event) not in SAID:  # Most are: several in a round of a group.
            member = event.member_id if isinstance(event, MemberEvent) else None
            self._all.debug("group event", kind=type(event).__name__, group=event.group_id, member=member)
            return
        counters, lines = self._counters, self._log
        if isinstance(event, RebalanceStarted):
            counters.rebalance_started(event.cause.kind.name)
            lines.info(
                "rebalance begins",
                group=event.group_id,
                cause=event.cause.kind.value,
                member=event.cause.member_id,
                reason=event.cause.reason,
                members=event.members,
            )
        elif isinstance(event, RebalanceCompleted):
            report = event.report
            counters.rebalance_completed(report)
            lines.info(
                "rebalance ends",
                group=event.group_id,
                outcome=report.outcome.value,
                generation=report.generation_id,
                members=report.members,
                join_ms=report.join_ms,
                sync_ms=report.sync_ms,
                moved=len(report.moves),
                waited_for=report.waited_for[0].member_id if report.waited_for else None,
            )
        elif isinstance(event, MemberExpired):
            counters.members_expired += 1
            lines.warning(
                "member expired", group=event.group_id, member=event.member_id, after_ms=event.after_ms
            )
        elif isinstance(event, MemberFenced):
            counters.members_fenced += 1
            lines.warning(
                "member fenced", group=event.group_id, member=event.member_id, by=event.by_member_id
            )
        elif isinstance(event, MemberLeft):
            lines.info("member left", group=event.group_id, member=event.member_id, reason=event.reason)
        elif isinstance(event, MemberRefused):
            lines.info("member refused", group=event.group_id, client=event.client_id, error=event.error)
        elif isinstance(event, GroupLoaded):
            lines.info(
                "group loaded", group=event.group_id, members=event.members, generation=event.generation_id
            )
        elif isinstance(event, GroupDeleted):
            lines.info("group deleted", group=event.group_id, expired=event.expired)
        elif isinstance(event, OffsetsRemoved):
            counters.offsets_went(event.reason, event.offsets)
            lines.info("offsets removed", group=event.group_id, offsets=event.offsets, reason=event.reason)
