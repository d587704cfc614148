"""Elapsed time and wall time, where they part."""

import time

import pytest

from kohort.broker.runtime.clock import SystemClock

HOUR_NS = 3_600_000_000_000


class Machine:
    """A machine's two clocks, set by hand."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.wall_ns = 1_700_000_000 * 1_000_000_000
        self.monotonic_ns = 5 * HOUR_NS
        monkeypatch.setattr(time, "time_ns", lambda: self.wall_ns)
        monkeypatch.setattr(time, "monotonic_ns", lambda: self.monotonic_ns)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch)


def test_both_clocks_start_at_the_system_time(machine: Machine) -> None:
    clock = SystemClock()
    assert clock.now_ms() == clock.wall_ms() == machine.wall_ns // 1_000_000


@pytest.mark.parametrize("step_ns", [-HOUR_NS, HOUR_NS])
def test_a_changed_system_time_moves_timestamps_and_ends_no_session(machine: Machine, step_ns: int) -> None:
    """By NTP, or while the machine was suspended, which stops the monotonic clock of Linux."""
    clock = SystemClock()
    began_ms = clock.now_ms()
    machine.wall_ns += step_ns
    machine.monotonic_ns += 1_000_000
    assert clock.now_ms() == began_ms + 1
    assert clock.wall_ms() == began_ms + step_ns // 1_000_000
