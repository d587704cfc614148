"""An answer of which half is sent, and then nothing more: the connection is closed."""

from kohort.broker.handlers.wrapping import WrappedRequest
from kohort.broker.transport.connection import Connection
from kohort.broker.transport.file_range import FileRange
from kohort.broker.transport.request import Answer
from kohort.protocol.schema import Message


class TornRequest(WrappedRequest):
    """A request whose answer is cut off in the middle."""

    __slots__ = ()

    def respond(self, message: Message) -> None:
        """Send half of the answer, and close; where answers before it are still owed, close at once."""
        request, connection = self.received, self.connection
        assert isinstance(connection, Connection)
        connection.complete(request, message)
        if request.answer and not connection.closed:
            request.answer = first_half(request.answer)
            connection.send_answers()
        self.hang_up()

    def abandon(self) -> None:
        """Close: nobody waits for an answer that could be torn."""
        self.hang_up()


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
