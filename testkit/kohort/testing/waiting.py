"""Waiting for a condition instead of sleeping."""

from collections.abc import Callable
from typing import TypeVar

from kohort.testing.errors import NotInTime

T = TypeVar("T")

TIMEOUT_SECONDS = 10.0
LOOK_EVERY_SECONDS = 0.01  # A condition may hang on more than the broker.


def look(condition: Callable[[], T | None]) -> tuple[T | None, str]:
    """Return what the condition gives, None where what it looks at is not there, and that in words."""
    try:
        found = condition()
    except LookupError as error:
        return None, f"{type(error).__name__}: {error}"
    return found, repr(found)


def not_in_time(condition: object, seconds: float, last: str, report: str) -> NotInTime:
    """Return the error that says what was waited for, and what the broker has seen."""
    name = getattr(condition, "__qualname__", repr(condition))
    return NotInTime(f"not within {seconds:g} s: {name} (last seen: {last})\n\n{report}")
