"""The events of groups: logged, counted, and passed on to `__group_events`.

Thousands of groups may form in a second, and a line costs as much as a request. So the lines of each kind in
a second are limited, and one line says how many were left out. Every event is counted, and passed on.
"""

from collections.abc import Callable
from typing import Any

import structlog

from kohort.broker.coordination.counters import GroupCounters
from kohort.broker.explain.events import RebalanceCompleted
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
    RebalanceStarted,
)
from kohort.broker.runtime.clock import Clock
from kohort.broker.runtime.throttled_log import ThrottledLog

LINES_PER_SECOND_MAX = 50

log = structlog.get_logger("kohort.group")


class GroupEventLogger:
    """Counts events, and logs what an operator would ask about; the rest at the debug level."""

    def __init__(
        self, counters: GroupCounters, clock: Clock, then: Callable[[Event], None] = lambda event: None
    ) -> None:
        """`then` gets every event afterwards."""
        self._counters = counters
        self.then = then
        """Gets every event afterwards."""
        self._all = log.bind()  # The proxy would look up its logger at each event.
        self._log = ThrottledLog(self._all, clock, LINES_PER_SECOND_MAX)
        self._loggers: dict[type, Callable[[Any], None]] = {
            GroupDeleted: self._group_deleted,
            GroupLoaded: self._group_loaded,
            MemberExpired: self._member_expired,
            MemberFenced: self._member_fenced,
            MemberLeft: self._member_left,
            MemberRefused: self._member_refused,
            OffsetsRemoved: self._offsets_removed,
            RebalanceCompleted: self._rebalance_completed,
            RebalanceStarted: self._rebalance_started,
        }

    def tell_left_out(self) -> None:
        """Log how many lines were left out, when no more come; to be called now and then."""
        self._log.tell_left_out()

    def note(self, event: Event) -> None:
        """Count, log and pass on the event."""
        log_event = self._loggers.get(type(event))
        if log_event is not None:
            log_event(event)
        else:  # Most are not logged: several in a round of a group.
            member = event.member_id if isinstance(event, MemberEvent) else None
            self._all.debug("group event", kind=type(event).__name__, group=event.group_id, member=member)
        self.then(event)

    def _rebalance_started(self, event: RebalanceStarted) -> None:
        cause = event.cause
        kind = cause.kind
        self._counters.rebalance_started(kind.name)
        self._log.info(
            "rebalance begins",
            group=event.group_id,
            cause=kind.value,
            member=cause.member_id,
            reason=cause.reason,
            members=event.members,
        )

    def _rebalance_completed(self, event: RebalanceCompleted) -> None:
        report = event.report
        self._counters.rebalance_completed(report)
        self._log.info(
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

    def _member_expired(self, event: MemberExpired) -> None:
        self._counters.members_expired += 1
        self._log.warning(
            "member expired", group=event.group_id, member=event.member_id, after_ms=event.after_ms
        )

    def _member_fenced(self, event: MemberFenced) -> None:
        self._counters.members_fenced += 1
        self._log.warning(
            "member fenced", group=event.group_id, member=event.member_id, by=event.by_member_id
        )

    def _member_left(self, event: MemberLeft) -> None:
        self._log.info("member left", group=event.group_id, member=event.member_id, reason=event.reason)

    def _member_refused(self, event: MemberRefused) -> None:
        self._log.info("member refused", group=event.group_id, client=event.client_id, error=event.error)

    def _group_loaded(self, event: GroupLoaded) -> None:
        self._log.info(
            "group loaded", group=event.group_id, members=event.members, generation=event.generation_id
        )

    def _group_deleted(self, event: GroupDeleted) -> None:
        self._log.info("group deleted", group=event.group_id, expired=event.expired)

    def _offsets_removed(self, event: OffsetsRemoved) -> None:
        self._counters.offsets_went(event.reason, event.offsets)
        self._log.info("offsets removed", group=event.group_id, offsets=event.offsets, reason=event.reason)
