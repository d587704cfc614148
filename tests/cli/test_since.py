"""--since takes a time of day, a time, or how long ago."""

from __future__ import annotations

from datetime import datetime, timedelta

import click
import pytest

from kohort.cli.since import Since, since

NOW = datetime(2026, 11, 27, 9, 30, 15).astimezone()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("03:00", datetime(2026, 11, 27, 3).astimezone()),
        ("9:30:15", NOW),
        ("09:31", datetime(2026, 11, 26, 9, 31).astimezone()),
        ("2026-11-20T03:00", datetime(2026, 11, 20, 3).astimezone()),
        ("2026-11-20 03:00:07", datetime(2026, 11, 20, 3, 0, 7).astimezone()),
        ("2026-11-20", datetime(2026, 11, 20).astimezone()),
        ("2026-11-20T03:00:00+00:00", datetime.fromisoformat("2026-11-20T03:00:00+00:00")),
        ("2h", NOW - timedelta(hours=2)),
        ("1d12h", NOW - timedelta(days=1, hours=12)),
        ("90m", NOW - timedelta(minutes=90)),
        ("45s", NOW - timedelta(seconds=45)),
    ],
)
def test_times_are_read(text: str, expected: datetime) -> None:
    assert since(text, NOW) == expected


@pytest.mark.parametrize(
    "text", ["", "soon", "25:00", "12:60", "2h1d", "2026-13-01", "-2h", "99999999999d", "2999-01-01"]
)
def test_what_is_no_time_in_the_past_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter):
        Since().convert(text, None, None)
