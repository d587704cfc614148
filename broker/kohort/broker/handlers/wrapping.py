"""Requests that stand for others: what sees an answer before it is sent, or asks in another's name."""

from collections.abc import Awaitable
from typing import Any

from kohort.broker.transport.dispatch import Handle
from kohort.broker.transport.permissions import Permissions
from kohort.broker.transport.request import ReceivedRequest, Request
from kohort.protocol.schema import Message


class WrappedRequest(Request):
    """A request that stands for the original, which says all that this one does not say otherwise."""

    __slots__ = ("original",)

    def __init__(self, original: Request) -> None:
        super().__init__(
            original.connection, original.api, original.version, original.correlation_id, original.client_id
        )
        self.original = original

    def finish(self, answer: Any) -> Any:
        """Return what is sent, given what the handler answers."""
        return answer

    @property
    def received(self) -> ReceivedRequest:
        """The request that the connection knows."""
        return self.original.received

    @property
    def permissions(self) -> Permissions:
        """Those of the original."""
        return self.original.permissions

    def may_have(self, size_bytes: int) -> bool:
        """Return what the original says."""
        return self.original.may_have(size_bytes)

    def respond(self, message: Message) -> None:
        """Answer the original."""
        self.original.respond(self.finish(message))

    def hang_up(self) -> None:
        """Close the original's connection."""
        self.original.hang_up()

    def abandon(self) -> None:
        """Never answer the original."""
        self.original.abandon()


def ask(handle: Handle, message: Any, request: WrappedRequest) -> Any:
    """Return what the handler answers, finished; None where that comes by `respond`, which finishes it."""
    answer = handle(message, request)
    if answer is None:
        return None
    return _later(request, answer) if isinstance(answer, Awaitable) else request.finish(answer)


async def _later(request: WrappedRequest, answer: Awaitable[Any]) -> Any:
    found = await answer
    return None if found is None else request.finish(found)
