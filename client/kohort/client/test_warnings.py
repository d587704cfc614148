"""What is said of trouble, and how often."""

import logging
from itertools import pairwise

import pytest

from kohort.client import Consumer, Producer
from kohort.client.errors import KohortError
from kohort.client.warnings import GAP_MOST_MS, SUBJECTS_MAX, Warnings

NOWHERE = "127.0.0.1:1"


class Clock:
    def __init__(self) -> None:
        self.now_ms = 1_000

    def __call__(self) -> int:
        return self.now_ms


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    found = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
    caplog.clear()
    return found


def test_the_first_is_said_at_once_and_again_at_growing_gaps(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    warnings = Warnings(clock)
    times: list[int] = []
    for second in range(3_600):
        clock.now_ms = second * 1_000
        warnings.say("b1", "no connection")
        if said(caplog):
            times.append(second)
    assert times[:6] == [0, 10, 30, 70, 150, 310]
    assert {later - sooner for sooner, later in pairwise(times[5:])} == {GAP_MOST_MS // 1_000}


def test_it_is_said_how_long_it_lasts(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    warnings = Warnings(clock)
    for at_ms in range(0, 10_001, 1_000):
        clock.now_ms = at_ms
        warnings.say("b1", "no connection")
    assert said(caplog) == ["no connection", "no connection (for 10 s now)"]


def test_subjects_do_not_quiet_each_other(caplog: pytest.LogCaptureFixture) -> None:
    warnings = Warnings(Clock())
    for each in ("b1", "b2", "b1"):
        warnings.say(each, each)
    assert said(caplog) == ["b1", "b2"]


def test_after_a_quiet_time_trouble_is_new_again(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    warnings = Warnings(clock)
    for at_ms in (0, 1_000, 10_000, 100_000, 101_000):
        clock.now_ms = at_ms
        warnings.say("b1", at_ms)
    assert said(caplog) == ["0", "10000 (for 10 s now)", "100000"]


def test_what_passes_soon_is_not_worth_a_word(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    warnings = Warnings(clock)
    for at_ms in (0, 400):
        clock.now_ms = at_ms
        warnings.say("topic", "is not there yet", after_ms=500)
    warnings.is_over("topic")
    for at_ms in (1_000, 1_400, 1_500):
        clock.now_ms = at_ms
        warnings.say("topic", at_ms, after_ms=500)
    assert said(caplog) == ["1500"]


def test_ever_new_subjects_take_no_ever_more_memory() -> None:
    warnings = Warnings(Clock())
    for each in range(3 * SUBJECTS_MAX):
        warnings.say(each, "x")
    assert len(warnings._troubles) <= SUBJECTS_MAX


def test_a_consumer_says_within_a_second_that_no_broker_answers(caplog: pytest.LogCaptureFixture) -> None:
    with Consumer("t", bootstrap_servers=NOWHERE, group_id="g", enable_auto_commit=False) as consumer:
        assert consumer.poll(timeout_ms=900) == []
    messages = said(caplog)
    assert messages[0] == f"no connection to {NOWHERE}: Connection refused"
    assert len([each for each in messages if each.startswith("no connection")]) == 1, "once"


def test_a_producer_says_so_while_send_waits(caplog: pytest.LogCaptureFixture) -> None:
    with Producer(bootstrap_servers=NOWHERE, max_block_ms=700) as producer, pytest.raises(KohortError):
        producer.send("t", b"")
    assert f"no connection to {NOWHERE}: Connection refused" in said(caplog)
