"""Selects the partitions of a follower's session that a fetch has to check: those with changes.

A follower of a thousand partitions fetches a thousand times a second while only one gets records. If
it asks from the same offset as before, and the leader has no more records, nothing has changed. Every
`FULL_CHECK_MS` all partitions are checked: so the leader knows which followers keep up.
"""

from collections.abc import Collection

from kohort.broker.handlers.data.fetch_sessions import FetchContext
from kohort.broker.handlers.data.fetch_target import FetchTarget
from kohort.broker.handlers.data.reader import Reader

FULL_CHECK_MS = 200
"""Far below any sensible replica.lag.time.max.ms, towards which the time since a check counts."""


def targets_to_read(context: FetchContext, reader: Reader, now_ms: int) -> Collection[FetchTarget]:
    """Return the partitions of a follower's fetch to read; `context.targets` itself where those are all."""
    session = context.session
    if session is None or not reader.has_arrived:
        return context.targets
    has_restarted = session.reader_epoch != reader.broker_epoch
    if has_restarted or now_ms - session.checked_ms >= FULL_CHECK_MS:
        session.checked_ms = now_ms
        session.reader_epoch = reader.broker_epoch
        for each in context.targets:
            each.is_sent_again = False
        return context.targets
    return [each for each in context.targets if _has_changed(each, reader.node_id)]


def _has_changed(target: FetchTarget, node_id: int) -> bool:
    if target.is_sent_again:
        target.is_sent_again = False
        return True
    partition = target.partition
    if partition is None or partition.deleted:
        return True
    leadership = partition.leadership
    return (
        leadership is None
        or partition.error_code is not None
        or node_id not in leadership.state.isr
        or target.current_leader_epoch != partition.leader_epoch
        or target.fetch_offset != leadership.log.flushed_offset
        or target.sent_high_watermark != partition.high_watermark
        or target.sent_log_start_offset != partition.log.log_start_offset
    )


def targets_with_records(context: FetchContext) -> list[FetchTarget]:
    """Return the partitions that have records, or new offsets, for a waiting follower."""
    return [
        each
        for each in context.targets
        if each.partition is None
        or (leadership := each.partition.leadership) is None
        or each.partition.error_code is not None
        or each.fetch_offset != leadership.log.flushed_offset
        or each.sent_high_watermark != each.partition.high_watermark
        or each.sent_log_start_offset != each.partition.log.log_start_offset
    ]
