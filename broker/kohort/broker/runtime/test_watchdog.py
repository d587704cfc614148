"""A blocked process is ended; a stopped or idle one is not: over virtual time."""

import os
import signal

import pytest

from kohort.broker.runtime.watchdog import BLOCKED_FACTOR, ORPHAN_SECONDS_MAX, Watchdog

STALL_S = 10.0


class Loop:
    """A loop that computes as much as a test says."""

    def __init__(self, parent: int | None = None) -> None:
        self.busy_s = 0.0
        self.ends: list[str] = []
        self.dog = Watchdog(STALL_S, parent=parent, busy_seconds=lambda: self.busy_s, end=self.ends.append)

    def look(self, *, times: int = 1, busy: float = 0.0, beats: bool = False) -> str:
        """Let looks pass, between which the loop computes this part of the time; return what ended it."""
        for _ in range(times):
            self.busy_s += busy * self.dog.look_seconds
            if beats:
                self.dog.beat()
            self.dog.look()
        return self.ends[0] if self.ends else ""


def looks(seconds: float, loop: Loop) -> int:
    return int(seconds / loop.dog.look_seconds)


def test_a_loop_with_signs_of_life_can_compute_forever() -> None:
    loop = Loop()
    assert not loop.look(times=1_000, busy=1.0, beats=True)


def test_a_loop_that_computes_without_a_sign_of_life_is_ended_after_ten_seconds() -> None:
    loop = Loop()
    loop.look(beats=True, busy=1.0)
    assert not loop.look(times=looks(STALL_S, loop) - 1, busy=1.0)
    assert "has computed for 10 s" in loop.look(busy=1.0)


def test_a_loop_that_gets_half_a_processor_has_twice_as_long() -> None:
    loop = Loop()
    loop.look(beats=True)
    assert not loop.look(times=looks(2 * STALL_S, loop) - 1, busy=0.5)
    assert "has computed" in loop.look(busy=0.5)


def test_a_waiting_loop_has_a_longer_limit() -> None:
    loop = Loop()
    loop.look(beats=True)
    assert not loop.look(times=looks(STALL_S * BLOCKED_FACTOR, loop) - 1)
    assert "has waited for 60 s" in loop.look()


def test_a_process_that_was_suspended_is_not_ended_when_it_continues() -> None:
    """Whatever a clock says, the time is one look, in which the loop has computed nothing."""
    loop = Loop()
    loop.look(beats=True)
    assert not loop.look()
    assert not loop.look(beats=True)


def test_no_sign_of_life_is_expected_before_the_first_or_after_the_last() -> None:
    loop = Loop()
    assert not loop.look(times=1_000, busy=1.0)
    loop.look(beats=True)
    loop.dog.rest()
    assert not loop.look(times=1_000, busy=1.0)


def test_threads_started_between_two_checks_do_not_trigger_the_kernel_timer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They may compute on all processors until the next look winds it up."""
    wound: list[float] = []
    monkeypatch.setattr(os, "cpu_count", lambda: 32)
    monkeypatch.setattr(signal, "setitimer", lambda _, seconds: wound.append(seconds))
    loop = Loop()
    loop.dog.start()
    loop.dog.stop()
    assert wound[0] >= STALL_S + 32 * loop.dog.look_seconds
    assert wound[-1] == 0


@pytest.mark.parametrize("is_watching", [False, True])
def test_a_worker_does_not_outlive_its_supervisor_for_long(is_watching: bool) -> None:
    loop, other = Loop(parent=os.getppid() + 1), Loop(parent=os.getppid())
    assert not loop.look(times=looks(ORPHAN_SECONDS_MAX, loop) - 1, beats=is_watching)
    assert "supervisor is gone" in loop.look(beats=is_watching)
    assert not other.look(times=looks(ORPHAN_SECONDS_MAX, loop) + 1, beats=is_watching)
