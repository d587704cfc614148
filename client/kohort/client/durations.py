"""How far back auto_offset_reset goes: `by_duration:` with an ISO 8601 duration."""

import re

_DURATION = re.compile(
    r"by_duration:P(?:(?P<days>\d+)D)?(?:T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?"
)


def is_duration(text: str) -> bool:
    """Whether it is one."""
    found = _DURATION.fullmatch(text)
    return found is not None and any(found.groupdict().values())


def duration_ms(text: str) -> int:
    """Return the milliseconds of `by_duration:PnDTnHnMnS`, which has been checked before."""
    found = _DURATION.fullmatch(text)
    assert found is not None, text
    days, hours, minutes, seconds = (float(each or 0) for each in found.groups())
    return int((((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000)
