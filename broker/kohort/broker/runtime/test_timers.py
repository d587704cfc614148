import math
import weakref

import pytest

from kohort.broker.runtime.timers import Timers


def test_due_timers_run_in_the_order_of_their_time() -> None:
    timers, ran = Timers(), []
    timers.set("late", 30, lambda: ran.append("late"))
    timers.set("early", 10, lambda: ran.append("early"))
    timers.set("never", 31, lambda: ran.append("never"))
    assert timers.run_due(30) == 2
    assert ran == ["early", "late"]
    assert timers.next_deadline_ms() == 31


def test_a_timer_set_again_runs_once_and_at_its_new_time() -> None:
    timers, ran = Timers(), []
    timers.set("session", 10, lambda: ran.append("old"))
    timers.set("session", 20, lambda: ran.append("new"))
    assert timers.run_due(15) == 0
    assert timers.run_due(20) == 1
    assert ran == ["new"]


def test_a_timer_moved_forward_runs_at_the_earlier_time() -> None:
    timers, ran = Timers(), []
    timers.set("session", 20, lambda: ran.append("old"))
    timers.set("session", 10, lambda: ran.append("new"))
    assert timers.run_due(10) == 1
    assert timers.run_due(20) == 0
    assert ran == ["new"]


def test_a_cancelled_timer_never_runs() -> None:
    timers, ran = Timers(), []
    timers.set("session", 10, lambda: ran.append("ran"))
    timers.cancel("session")
    timers.cancel("unknown")
    assert timers.next_deadline_ms() is None
    assert timers.run_due(100) == 0
    assert not ran
    assert len(timers) == 0


def test_an_action_can_set_its_own_timer_again() -> None:
    timers, ran = Timers(), []

    def again() -> None:
        ran.append("ran")
        timers.set("session", 20, again)

    timers.set("session", 10, again)
    assert timers.run_due(10) == 1
    assert timers.next_deadline_ms() == 20


def test_only_a_new_earliest_timer_reports_a_changed_deadline() -> None:
    told: list[int] = []
    timers = Timers(lambda: told.append(1))
    timers.set("first", 10, lambda: None)
    timers.set("later", 20, lambda: None)
    assert len(told) == 1
    timers.set("earlier", 5, lambda: None)
    assert len(told) == 2


def test_timers_that_are_cancelled_without_end_do_not_fill_the_memory() -> None:
    timers = Timers()
    for number in range(100_000):
        timers.set("join", number + 1_000_000, lambda: None)
        timers.cancel("join")
    assert timers.heap_size < 10_000


def test_a_timer_that_was_cancelled_or_moved_holds_nothing() -> None:
    """A client that waits for days, and goes away, leaves none of what it has asked."""

    class Wait:
        def time_is_up(self) -> None: ...

    timers = Timers()
    cancelled, moved, key = Wait(), Wait(), Wait()
    gone = [weakref.ref(each) for each in (cancelled, moved, key)]
    timers.set("cancelled", 1_000_000, cancelled.time_is_up)
    timers.set("moved", 1_000_000, moved.time_is_up)
    timers.set(("wait", key), 1_000_000, lambda: None)
    timers.cancel("cancelled")
    timers.set("moved", 2_000_000, lambda: None)
    timers.cancel(("wait", key))
    del cancelled, moved, key
    assert [each() for each in gone] == [None, None, None]
    assert timers.next_deadline_ms() == 2_000_000


def test_before_the_earliest_time_no_timer_is_due() -> None:
    timers, ran = Timers(), []
    assert timers.earliest_ms == math.inf
    timers.set("later", 20, lambda: ran.append("later"))
    timers.set("earlier", 10, lambda: ran.append("earlier"))
    assert timers.earliest_ms == 10
    timers.run_due(10)
    assert (ran, timers.earliest_ms) == (["earlier"], 20)
    timers.cancel("later")
    timers.run_due(20)
    assert (ran, timers.earliest_ms) == (["earlier"], math.inf)


def test_an_action_that_raises_leaves_the_others_for_the_next_run() -> None:
    timers, ran = Timers(), []

    def broken() -> None:
        raise ZeroDivisionError

    timers.set("broken", 10, broken)
    timers.set("sound", 11, lambda: ran.append("sound"))
    with pytest.raises(ZeroDivisionError):
        timers.run_due(12)
    assert timers.earliest_ms == 11
    timers.run_due(12)
    assert ran == ["sound"]


def test_the_hook_before_due_timers_can_cancel_them() -> None:
    timers, ran = Timers(), []
    timers.set("kept", 5, lambda: ran.append("kept"))
    timers.set("gone", 5, lambda: ran.append("gone"))
    timers.before_due = lambda: timers.cancel("gone")
    assert timers.run_due(5) == 1
    assert ran == ["kept"]


def test_a_shared_action_receives_the_key_of_its_timer() -> None:
    timers = Timers()
    told: list[object] = []
    timers.set_with_key("one", 10, told.append)
    timers.set_with_key("two", 20, told.append)
    timers.set_with_key("one", 30, told.append)
    timers.set("three", 25, lambda: told.append("action"))
    assert timers.run_due(30) == 3
    assert told == ["two", "action", "one"]
