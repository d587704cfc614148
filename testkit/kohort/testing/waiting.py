"""Waits for a condition."""

from collections.abc import Callable
from typing import TypeVar

from kohort.testing.errors import NotInTime

T = TypeVar("T")

TIMEOUT_SECONDS = 10.0
CHECK_EVERY_SECONDS = 0.01  # A condition may depend on more than the broker.


def evaluate(condition: Callable[[], T | None]) -> tuple[T | None, str]:
    """Return the condition's value, or None for a LookupError, and a text of either."""
    try:
        found = condition()
    except LookupError as error:
        return None, f"{type(error).__name__}: {error}"
    return found, repr(found)


def not_in_time_error(condition: object, seconds: float, last: str, report: str) -> NotInTime:
    """Return the error with the condition, its last value, and the broker's report."""
    name = getattr(condition, "__qualname__", repr(condition))
    return NotInTime(f"not within {seconds:g} s: {name} (last seen: {last})\n\n{report}")
