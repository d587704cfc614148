import structlog
from structlog.testing import capture_logs

from kohort.broker.runtime.clock import ManualClock
from kohort.broker.runtime.throttled_log import LINES_PER_SECOND_MAX, ThrottledLog


def test_lines_per_second_are_limited_and_suppressed_ones_are_counted() -> None:
    with capture_logs() as lines:
        clock = ManualClock()
        log = ThrottledLog(structlog.get_logger(), clock)
        for number in range(100):
            log.warning("malformed request", number=number)
        assert [line["number"] for line in lines] == list(range(LINES_PER_SECOND_MAX))
        clock.advance(1_000)
        log.warning("malformed request", number=100)
        assert lines[-1]["number"] == 100
        assert lines[-1]["left_out"] == 100 - LINES_PER_SECOND_MAX
        log.warning("malformed request", number=101)
        assert "left_out" not in lines[-1]


def test_each_kind_of_line_has_its_own_limit() -> None:
    with capture_logs() as lines:
        log = ThrottledLog(structlog.get_logger(), ManualClock())
        for _ in range(100):
            log.warning("malformed request")
        log.warning("a connection was not accepted")
        assert [line["event"] for line in lines].count("a connection was not accepted") == 1


def test_suppressed_lines_are_counted_in_the_next_quiet_moment() -> None:
    with capture_logs() as lines:
        clock = ManualClock()
        log = ThrottledLog(structlog.get_logger(), clock)
        for _ in range(LINES_PER_SECOND_MAX + 3):
            log.warning("malformed request")
        log.tell_left_out()
        assert len(lines) == LINES_PER_SECOND_MAX
        clock.advance(1_000)
        log.tell_left_out()
        assert lines[-1] == {"event": "malformed request", "left_out": 3, "log_level": "warning"}
        log.tell_left_out()
        assert len(lines) == LINES_PER_SECOND_MAX + 1
