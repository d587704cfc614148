"""Which partitions of a follower's session a fetch has to look at: those where something has changed.

A follower of a thousand partitions fetches a thousand times a second while records come to one of them.
Where it asks from the same offset as before, and the leader has no more than that, all is as the last look
left it. Every `WHOLE_LOOK_MS` all are looked at nevertheless: by that the leader knows who keeps up.
"""

from collections.abc import Collection

from kohort.broker.handlers.data.fetch_sessions import FetchContext
from kohort.broker.handlers.data.fetch_target import FetchTarget
from kohort.broker.handlers.data.reader import Reader

WHOLE_LOOK_MS = 200
"""Far below any replica.lag.time.max.ms that makes sense, which the time since a look counts towards."""


def targets_with_news(context: FetchContext, reader: Reader, now_ms: int) -> Collection[FetchTarget]:
    """Return what to look at of a follower's fetch; `context.targets` itself where that is everything."""
    session = context.session
    if session is None or not reader.has_arrived:
        return context.targets
    is_other_life = session.reader_epoch != reader.broker_epoch
    if is_other_life or now_ms - session.looked_ms >= WHOLE_LOOK_MS:
        session.looked_ms = now_ms
        session.reader_epoch = reader.broker_epoch
        for each in context.targets:
            each.is_asked_anew = False
        return context.targets
    return [each for each in context.targets if _has_news(each, reader.node_id)]


def _has_news(target: FetchTarget, node_id: int) -> bool:
    if target.is_asked_anew:
        target.is_asked_anew = False
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
    """Return where a follower that waits may find something by now, or what it is told with that."""
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
