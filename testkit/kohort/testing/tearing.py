"""An answer of which half is sent, and then nothing more: the connection is closed."""

from typing import Any

from kohort.broker.transport.connection import Connection
from kohort.broker.transport.file_range import FileRange
from kohort.broker.transport.request import Answer, Request
from kohort.protocol.schema import Message


class TornRequest:
    """A request whose answer is cut off in the middle."""

    __slots__ = ("_request",)

    def __init__(self, request: Request) -> None:
        self._request = request

    def __getattr__(self, name: str) -> Any:
        return getattr(self._request, name)

    def respond(self, message: Message) -> None:
        """Send half of the answer, and close; where answers before it are still owed, close at once."""
        request, connection = self._request, self._request.connection
        assert isinstance(connection, Connection)
        connection.complete(request, message)
        if request.answer and not connection.closed:
            request.answer = first_half(request.answer)
            connection.send_answers()
        request.hang_up()

    def abandon(self) -> None:
        """Close: nobody waits for an answer that could be torn."""
        self._request.hang_up()


def first_half(answer: Answer) -> Answer:
    """Return the first half of an answer's bytes, or less: none of what lies in a file, and never all."""
    pieces = [answer] if isinstance(answer, bytes) else answer
    left = sum(map(len, pieces)) // 2
    kept: list[bytes | memoryview | FileRange] = []
    for piece in pieces:
        if not left or not isinstance(piece, bytes | memoryview):
            break
        kept.append(piece[:left])
        left -= len(kept[-1])
    return kept
