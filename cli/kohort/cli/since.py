"""--since: a time of day, a time, or how long ago."""

import re
from datetime import datetime, timedelta

import click

_PARTS = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")
_CLOCK = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2}))?")


class Since(click.ParamType[int]):
    """Takes 03:00, 2026-11-27T03:00, or 90m, 2h, 1d12h; its value is a time in milliseconds."""

    name = "time"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the time."""
        now = datetime.now().astimezone()
        try:
            found = since(str(value).strip(), now)
        except (ValueError, OverflowError):
            self.fail(f"{value!r} is no time such as 03:00, 2026-11-27T03:00 or 2h", param, ctx)
        if found > now:
            self.fail(f"{value} is in the future", param, ctx)
        return int(found.timestamp() * 1_000)


def since(text: str, now: datetime) -> datetime:
    """Return the time that is meant; a time of day is the last one that has been. Raises: ValueError."""
    clock = _CLOCK.fullmatch(text)
    if clock is not None:
        hour, minute, second = (int(each or 0) for each in clock.groups())
        wall = datetime(now.year, now.month, now.day, hour, minute, second).astimezone()
        if wall <= now:
            return wall
        before = now.date() - timedelta(days=1)
        return datetime(before.year, before.month, before.day, hour, minute, second).astimezone()
    parts = _PARTS.fullmatch(text)
    if text and parts is not None:
        days, hours, minutes, seconds = (int(each or 0) for each in parts.groups())
        return now - timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
    found = datetime.fromisoformat(text)
    return found if found.tzinfo is not None else found.astimezone()
