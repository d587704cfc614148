"""Burrow's rules over made-up commits: what each verdict takes, and what it must not be given for."""

import pytest

from kohort.broker.lag.window import COMMITS_KEPT, Verdict, Window, worst

INTERVAL_MS = 10_000
BEGIN_MS = 1_000_000


def window(*commits: tuple[int, int]) -> Window:
    """A window that was looked at once an interval and found a new (offset, lag) each time."""
    found = Window(BEGIN_MS)
    for number, (offset, lag) in enumerate(commits):
        now_ms = BEGIN_MS + number * INTERVAL_MS
        found.look(now_ms, offset, lag, now_ms)
    return found


def end_ms(found: Window) -> int:
    return found.commits[-1].timestamp_ms


def verdict(found: Window, lag: int, after_ms: int = 0) -> Verdict:
    return found.verdict(lag, end_ms(found) + after_ms, INTERVAL_MS)


def test_without_lag_a_silent_group_is_ok() -> None:
    assert verdict(window((5, 0), (5, 0), (5, 0)), lag=0, after_ms=10_000_000) is Verdict.OK


def test_a_lag_that_shrinks_once_in_a_while_is_no_reason_to_warn() -> None:
    assert verdict(window((10, 5), (20, 9), (30, 8), (40, 12)), lag=12) is Verdict.OK


def test_a_lag_that_never_shrinks_is_a_warning() -> None:
    assert verdict(window((10, 5), (20, 9), (30, 9), (40, 12)), lag=12) is Verdict.WARN


def test_a_group_that_was_at_the_end_within_the_window_is_ok() -> None:
    assert verdict(window((10, 0), (20, 9), (30, 9), (40, 12)), lag=12) is Verdict.OK


def test_committing_the_same_offset_while_there_is_more_is_a_stall() -> None:
    assert verdict(window((10, 5), (10, 9), (10, 20)), lag=20) is Verdict.STALL


def test_two_commits_are_too_few_for_a_verdict() -> None:
    assert verdict(window((10, 5), (10, 9)), lag=9) is Verdict.OK


@pytest.mark.parametrize("commits, silent_ms", [(3, 10 * INTERVAL_MS), (COMMITS_KEPT, 9 * INTERVAL_MS)])
def test_silence_for_longer_than_the_window_is_a_stop(commits: int, silent_ms: int) -> None:
    found = window(*((10 * number, 7 - number % 2) for number in range(commits)))
    assert verdict(found, lag=7, after_ms=silent_ms) is Verdict.OK
    assert verdict(found, lag=7, after_ms=silent_ms + 1) is Verdict.STOP


def test_a_group_that_commits_rarely_gets_a_longer_window() -> None:
    found = Window(BEGIN_MS)
    hour_ms = 3_600_000
    for number in range(COMMITS_KEPT):
        found.look(BEGIN_MS + number * hour_ms, number, 7 - number % 2, BEGIN_MS + number * hour_ms)
    assert verdict(found, lag=7, after_ms=8 * hour_ms) is Verdict.OK
    assert verdict(found, lag=7, after_ms=10 * hour_ms) is Verdict.STOP


def test_a_record_after_a_long_silence_is_no_stop_until_it_has_waited() -> None:
    found = window((5, 0))
    later_ms = end_ms(found) + 86_400_000
    found.look(end_ms(found), 5, 0, later_ms)  # Still at the end a day later.
    assert found.verdict(1, later_ms + INTERVAL_MS, INTERVAL_MS) is Verdict.OK
    assert found.verdict(1, later_ms + 10 * INTERVAL_MS + 1, INTERVAL_MS) is Verdict.STOP


def test_after_a_restart_the_downtime_does_not_count() -> None:
    found = Window(BEGIN_MS)
    found.look(BEGIN_MS - 86_400_000, 5, 3, BEGIN_MS)
    assert found.verdict(3, BEGIN_MS + 1, INTERVAL_MS) is Verdict.OK
    assert found.verdict(3, BEGIN_MS + 10 * INTERVAL_MS + 1, INTERVAL_MS) is Verdict.STOP


def test_committing_a_lower_offset_is_a_rewind_until_the_old_offset_is_reached() -> None:
    assert verdict(window((100, 3), (10, 93), (50, 60)), lag=60) is Verdict.REWIND
    assert verdict(window((100, 0), (10, 90), (50, 60)), lag=60) is Verdict.REWIND
    assert verdict(window((100, 3), (10, 93), (100, 8)), lag=8) is Verdict.OK


def test_a_commit_that_was_seen_before_is_not_counted_twice() -> None:
    found = window((10, 5))
    found.look(BEGIN_MS, 10, 8, BEGIN_MS + INTERVAL_MS)
    assert len(found.commits) == 1


def test_only_the_newest_commits_are_kept() -> None:
    found = window(*((number, 1) for number in range(COMMITS_KEPT + 5)))
    assert [each.offset for each in found.commits] == list(range(5, COMMITS_KEPT + 5))
    assert found.complete == 1.0
    assert window((1, 1)).complete == 0.1


def test_the_verdict_of_a_group_is_its_worst() -> None:
    assert worst() is Verdict.OK
    assert worst(Verdict.WARN, Verdict.OK) is Verdict.WARN
    assert worst(Verdict.STOP, Verdict.STALL, Verdict.WARN) is Verdict.STOP
    assert worst(Verdict.STOP, Verdict.REWIND) is Verdict.REWIND
