"""Pace, time to drain and verdicts, of made-up samples."""

import pytest

from kohort.pipeline.analytics.arithmetic import Pace, Sample, drain_seconds, pace, time_to_drain, verdict
from kohort.protocol.verdict import Verdict

SECOND_MS = 1_000


def samples(*places: tuple[int, int]) -> list[Sample]:
    """One sample a second, each (committed, end)."""
    return [Sample(number * SECOND_MS, *place) for number, place in enumerate(places)]


def test_pace_is_the_rate_of_commits_and_of_writes() -> None:
    assert pace(samples((0, 100), (50, 110), (100, 120))) == Pace(50.0, 10.0)


def test_one_sample_has_no_pace() -> None:
    assert pace(samples((0, 100))) is None
    assert pace([Sample(5, 1, 1), Sample(5, 2, 2)]) is None


def test_lag_drains_at_the_difference_of_both_paces() -> None:
    assert drain_seconds(120, Pace(50.0, 10.0)) == 3.0


def test_a_lag_that_grows_never_drains_and_none_needs_no_time() -> None:
    assert drain_seconds(120, Pace(10.0, 10.0)) is None
    assert drain_seconds(120, None) is None
    assert drain_seconds(0, None) == 0.0


def test_a_committed_offset_beyond_the_known_end_is_no_negative_lag() -> None:
    assert Sample(0, 12, 10).lag == 0


@pytest.mark.parametrize(
    ("seconds", "of", "has_pace", "words"),
    [
        (0.0, Verdict.OK, True, "none"),
        (5.0, Verdict.OK, True, "5.0 s"),
        (None, Verdict.OK, True, "it stays as it is"),
        (None, Verdict.WARN, True, "never at this pace"),
        (None, Verdict.STOP, False, "not known yet"),
    ],
)
def test_never_is_written_only_if_the_group_falls_behind(
    seconds: float | None, of: Verdict, has_pace: bool, words: str
) -> None:
    assert time_to_drain(seconds, of, has_pace=has_pace) == words


def test_verdicts_are_the_brokers() -> None:
    growing = samples((10, 20), (20, 32), (30, 44), (40, 56))
    assert verdict(growing, 16, 4 * SECOND_MS) is Verdict.WARN
    assert verdict(growing, 16, 60 * SECOND_MS) is Verdict.STOP
    assert verdict(growing, 0, 60 * SECOND_MS) is Verdict.OK
    assert verdict(samples((10, 20), (10, 21), (10, 22)), 12, 3 * SECOND_MS) is Verdict.STALL
    assert verdict(samples((90, 95), (10, 96), (20, 97)), 77, 3 * SECOND_MS) is Verdict.REWIND
    assert verdict([], 5, 0) is Verdict.OK
