"""Answers that many clients get: encoded once a version, sent again and again."""

from typing import Generic, TypeVar

from kohort.protocol.schema import Message, RecordsSlice

M = TypeVar("M", bound=Message)


class Prepared(Generic[M]):
    """A message that keeps its encoded forms; the connection takes it as it takes a message."""

    __slots__ = ("_bodies", "message")

    def __init__(self, message: M) -> None:
        self.message = message
        self._bodies: dict[int, bytes] = {}

    def encode_parts(self, version: int) -> list[bytes | RecordsSlice]:
        """Return the body in `version`, in a list of the caller's own."""
        body = self._bodies.get(version)
        if body is None:
            body = self._bodies[version] = self.message.encode(version)
        return [body]
