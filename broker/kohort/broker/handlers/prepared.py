"""Answers that many clients get: encoded once a version, sent again and again."""

from typing import Generic, TypeVar

from kohort.protocol.schema import Message, RecordsSlice

M = TypeVar("M", bound=Message)


class Prepared(Generic[M]):
    """A message that keeps its encoded forms; the connection takes it as it takes a message."""

    __slots__ = ("_parts", "message")

    def __init__(self, message: M) -> None:
        self.message = message
        self._parts: dict[int, list[bytes | RecordsSlice]] = {}

    def encode_parts(self, version: int) -> list[bytes | RecordsSlice]:
        """Return the body in `version`; the pieces must not be changed."""
        parts = self._parts.get(version)
        if parts is None:
            parts = self._parts[version] = [self.message.encode(version)]
        return parts
