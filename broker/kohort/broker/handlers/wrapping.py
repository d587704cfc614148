"""Wrapped requests: see an answer before it is sent, or ask on behalf of another request."""

from collections.abc import Awaitable
from typing import Any

from kohort.broker.transport.dispatch import Handle
from kohort.broker.transport.permissions import Permissions
from kohort.broker.transport.request import ReceivedRequest, Request
from kohort.protocol.schema import Message


class WrappedRequest(Request):
    """A request that wraps the original, and forwards everything that it does not override."""

    __slots__ = ("original",)

    def __init__(self, original: Request) -> None:
        super().__init__(
            original.connection, original.api, original.version, original.correlation_id, original.client_id
        )
        self.original = original

    def finish(self, answer: Any) -> Any:
        """Return the answer to send, given the handler's answer."""
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
        """Return the original's value."""
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
    """Return the handler's answer, finished; None if it comes by `respond`, which finishes it."""
    answer = handle(message, request)
    if answer is None:
        return None
    return _later(request, answer) if isinstance(answer, Awaitable) else request.finish(answer)


async def _later(request: WrappedRequest, answer: Awaitable[Any]) -> Any:
    found = await answer
    return None if found is None else request.finish(found)
