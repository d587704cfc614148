from structlog.testing import capture_logs

from kohort.broker.coordination.counters import GroupCounters
from kohort.broker.coordination.events import LINES_PER_SECOND_MAX, GroupEventLogger
from kohort.broker.group.events import (
    Cause,
    CauseKind,
    Event,
    MemberExpired,
    MemberRejoined,
    RebalanceStarted,
)
from kohort.broker.runtime.clock import ManualClock


def _started(number: int) -> RebalanceStarted:
    cause = Cause(CauseKind.MEMBER_JOINED, 0, member_id="m")
    return RebalanceStarted(group_id=f"g-{number}", at_ms=0, cause=cause, from_generation_id=0, members=1)


def test_a_storm_of_events_writes_limited_lines_and_counts_all_events() -> None:
    counters, clock = GroupCounters(), ManualClock()
    with capture_logs() as lines:
        told = GroupEventLogger(counters, clock)
        for number in range(1_000):
            told.note(_started(number))
        assert [line["group"] for line in lines] == [f"g-{number}" for number in range(LINES_PER_SECOND_MAX)]
        told.tell_left_out()
        assert len(lines) == LINES_PER_SECOND_MAX  # Not while more may come.
        clock.advance(1_000)
        told.tell_left_out()
    assert lines[-1] == {
        "event": "rebalance begins",
        "log_level": "info",
        "left_out": 1_000 - LINES_PER_SECOND_MAX,
    }
    assert counters.rebalances == {"MEMBER_JOINED": 1_000}


def test_a_storm_of_one_kind_does_not_suppress_the_others() -> None:
    with capture_logs() as lines:
        told = GroupEventLogger(GroupCounters(), ManualClock())
        for number in range(1_000):
            told.note(_started(number))
        told.note(MemberExpired(group_id="g", at_ms=0, member_id="m", after_ms=9))
    assert lines[-1]["event"] == "member expired"
    assert lines[-1]["log_level"] == "warning"


def test_other_events_are_logged_at_debug_level() -> None:
    with capture_logs() as lines:
        GroupEventLogger(GroupCounters(), ManualClock()).note(
            MemberRejoined(group_id="g", at_ms=0, member_id="m")
        )
    (line,) = lines
    assert line == {
        "event": "group event",
        "log_level": "debug",
        "kind": "MemberRejoined",
        "group": "g",
        "member": "m",
    }


def test_every_logged_kind_is_an_event() -> None:
    told = GroupEventLogger(GroupCounters(), ManualClock())
    assert all(issubclass(kind, Event) for kind in told._loggers)
