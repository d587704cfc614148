"""What answers say, whichever API they belong to."""

from __future__ import annotations

from kohort.protocol.schema import Message


def codes_in(message: Message) -> set[int]:
    """Return every error code that stands anywhere in an answer."""
    found: set[int] = set()
    for field in type(message).declaration().fields:
        value = getattr(message, field.name)
        if field.name == "error_code":
            found.add(value)
        elif isinstance(value, Message):
            found |= codes_in(value)
        elif isinstance(value, tuple):
            for each in value:
                if isinstance(each, Message):
                    found |= codes_in(each)
    return found
