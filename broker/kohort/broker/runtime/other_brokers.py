"""How a broker asks the others of its cluster. The connections are implemented elsewhere."""

from typing import Protocol, TypeVar

from kohort.protocol.schema import Message

AnswerT = TypeVar("AnswerT", bound=Message)


class Unreachable(OSError):
    """Another broker could not be asked, or did not answer in time; the request may have been executed."""


class OtherBrokers(Protocol):
    """How another broker is asked."""

    node_id: int
    """Of this broker."""

    async def ask(self, node_id: int, request: Message, answer: type[AnswerT], version: int, /) -> AnswerT:
        """Return the answer of the broker with that id. Raises: Unreachable."""
        ...
