"""What the group core notes, told on: to the log in words, to the metrics in numbers."""

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

log = structlog.get_logger("kohort.group")


def note_event(counters: GroupCounters, event: Event) -> None:
    """Count the event, and log what an operator would ask about; the rest at the debug level."""
    if isinstance(event, RebalanceStarted):
        counters.rebalance_started(event.cause.kind.name)
        log.info(
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
        log.info(
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
        log.warning("member expired", group=event.group_id, member=event.member_id, after_ms=event.after_ms)
    elif isinstance(event, MemberFenced):
        counters.members_fenced += 1
        log.warning("member fenced", group=event.group_id, member=event.member_id, by=event.by_member_id)
    elif isinstance(event, MemberLeft):
        log.info("member left", group=event.group_id, member=event.member_id, reason=event.reason)
    elif isinstance(event, MemberRefused):
        log.info("member refused", group=event.group_id, client=event.client_id, error=event.error)
    elif isinstance(event, GroupLoaded):
        log.info("group loaded", group=event.group_id, members=event.members, generation=event.generation_id)
    elif isinstance(event, GroupDeleted):
        log.info("group deleted", group=event.group_id, expired=event.expired)
    elif isinstance(event, OffsetsRemoved):
        counters.offsets_went(event.reason, event.offsets)
        log.info("offsets removed", group=event.group_id, offsets=event.offsets, reason=event.reason)
    else:
        member = event.member_id if isinstance(event, MemberEvent) else None
        log.debug("group event", kind=type(event).__name__, group=event.group_id, member=member)
