"""A log is failing while it takes nothing, and no longer than that is known."""

from types import SimpleNamespace
from typing import Any

from kohort.broker.partitions.failing_logs import FORGOTTEN_MS, FailingLogs


class Clock:
    """Stands where it is put."""

    ms = 0

    def now_ms(self) -> int:
        return self.ms


class Log(SimpleNamespace):
    """A partition, as far as that is asked for."""

    def __hash__(self) -> int:  # type: ignore[override]  # A namespace has none.
        return id(self)


def world() -> tuple[Any, FailingLogs, Any]:
    clock: Any = Clock()
    return clock, FailingLogs(clock), Log(failures=1, offline=None, deleted=False)


def test_one_failure_does_not_count_after_the_log_is_open_again() -> None:
    clock, logs, log = world()
    logs.failed(log)
    clock.ms = 5_000
    assert not logs.have_failed_for(1_000)
    log.offline = OSError()
    assert logs.have_failed_for(1_000)
    assert not logs.have_failed_for(6_000)


def test_a_log_that_opens_and_fails_again_is_failing_until_a_write_succeeds() -> None:
    clock, logs, log = world()
    for clock.ms in (0, 400, 1_200):
        logs.failed(log)
    log.failures = 3
    assert logs.have_failed_for(1_000)
    log.failures = 0
    assert not logs.have_failed_for(1_000)


def test_a_failed_log_without_writes_is_forgiven_after_a_time() -> None:
    clock, logs, log = world()
    for clock.ms in (0, 1_200):
        logs.failed(log)
    log.failures = 2
    clock.ms += FORGOTTEN_MS
    assert logs.have_failed_for(1_000)
    clock.ms += 1
    assert not logs.have_failed_for(1_000)
