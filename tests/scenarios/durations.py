"""Times as scenarios say them, and what a line is that says nothing."""

import re

UNITS_MS = {"ms": 1, "s": 1_000, "min": 60_000, "h": 3_600_000}


class ScenarioError(Exception):
    """A line that says nothing that can be done."""


def duration_ms(text: str) -> int:
    """Return `3s`, `500ms`, `5min` or `2h` in milliseconds. Raises: ScenarioError."""
    found = re.fullmatch(r"(\d+)(ms|s|min|h)", text)
    if found is None:
        raise ScenarioError(f"{text!r} is no duration")
    return int(found[1]) * UNITS_MS[found[2]]
