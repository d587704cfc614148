"""Sends half of a response and closes the connection."""

from kohort.broker.handlers.wrapping import WrappedRequest
from kohort.broker.transport.connection import Connection
from kohort.broker.transport.file_range import FileRange
from kohort.broker.transport.request import Answer
from kohort.protocol.schema import Message


class TornRequest(WrappedRequest):
    """A request whose response is cut off in the middle."""

    __slots__ = ()

    def respond(self, message: Message) -> None:
        """Send half of the response and close. If earlier responses are pending, only close."""
        request, connection = self.received, self.connection
        assert isinstance(connection, Connection)
        connection.complete(request, message)
        if request.answer and not connection.closed:
            request.answer = first_half(request.answer)
            connection.send_answers()
        self.hang_up()

    def abandon(self) -> None:
        """Close the connection."""
        self.hang_up()


def first_half(answer: Answer) -> Answer:
    """Return the first half of a response's bytes, or less: file ranges are left out."""
    pieces = [answer] if isinstance(answer, bytes) else answer
    left = sum(map(len, pieces)) // 2
    kept: list[bytes | memoryview | FileRange] = []
    for piece in pieces:
        if not left or not isinstance(piece, bytes | memoryview):
            break
        kept.append(piece[:left])
        left -= len(kept[-1])
    return kept
