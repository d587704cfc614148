"""How late a loop was, by a clock that is moved by hand."""

from typing import Any, cast

import pytest

from kohort.broker.runtime.clock import ManualClock
from kohort.broker.runtime.loop_lag import INTERVAL_SECONDS, LATE_FOR_SECONDS, WINDOW_SECONDS, LoopLag


class Late:
    """Workers that wake whoever sleeps later than asked, and end after some naps."""

    def __init__(self, clock: ManualClock, *late_seconds: float) -> None:
        self._clock = clock
        self._late_seconds = list(late_seconds)

    async def sleep(self, seconds: float) -> None:
        if not self._late_seconds:
            raise EOFError
        self._clock.advance(int((seconds + self._late_seconds.pop(0)) * 1000))


async def measured(clock: ManualClock, *late_seconds: float) -> LoopLag:
    lag = LoopLag(cast(Any, Late(clock, *late_seconds)), clock.now_ms)
    with pytest.raises(EOFError):
        await lag.run()
    return lag


async def test_the_maximum_of_the_last_minute_is_kept() -> None:
    clock = ManualClock()
    lag = await measured(clock, 0, 2.5, 0.25)
    assert lag.seconds_max == 2.5
    assert lag.reason() is None
    clock.advance(int(WINDOW_SECONDS * 1000))
    lag.note(0.5)
    assert lag.seconds_max == 0.5


async def test_a_blocked_loop_is_a_reason_for_a_while() -> None:
    clock = ManualClock()
    lag = await measured(clock, 8.0)
    assert lag.reason() == "event loop: stood still for 8 s a moment ago"
    clock.advance(int((LATE_FOR_SECONDS + INTERVAL_SECONDS) * 1000))
    assert lag.reason() is None
