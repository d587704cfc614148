"""The interface of the transport to the handlers of requests."""

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from kohort.broker.transport.request import Request
from kohort.protocol.schema import Message

Handle = Callable[[Any, Request], "Message | Awaitable[Message | None] | None"]
"""Takes the decoded message and its request.

Returns the answer, or None where `request.respond(answer)` is called later (exactly once), or an awaitable
whose result is one of the two.
"""


class Handlers(dict[int, Handle]):
    """The handlers by API key, cached from a `Dispatch`."""

    def __init__(self, dispatch: "Dispatch") -> None:
        super().__init__()
        self._dispatch = dispatch

        self.copies: list[Callable[[], None]] = []
        """Callbacks that clear copies of these handlers."""

    def rebind(self) -> None:
        """Clear the cache, so that the `Dispatch` is asked again."""
        self.clear()
        for forget in self.copies:
            forget()

    def __missing__(self, api_key: int) -> Handle:
        """Return the handler of an API that was not used yet."""
        handle = self[api_key] = self._dispatch.handler_of(api_key)
        return handle


class Dispatch(Protocol):
    """Finds the handler of an API."""

    def handler_of(self, api_key: int, /) -> Handle:
        """Return the handler of an API of the registry."""
        ...
