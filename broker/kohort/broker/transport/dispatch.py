"""What the transport needs of those who answer: which function takes a request."""

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
    """Who answers, by API key: what a `Dispatch` has found is kept."""

    def __init__(self, dispatch: "Dispatch") -> None:
        super().__init__()
        self._dispatch = dispatch

        self.copies: list[Callable[[], None]] = []
        """Each forgets what it has of these: who answers may change."""

    def rebind(self) -> None:
        """Ask the `Dispatch` for everything anew."""
        self.clear()
        for forget in self.copies:
            forget()

    def __missing__(self, api_key: int) -> Handle:
        """Return who is to answer an API that nobody has asked for yet."""
        handle = self[api_key] = self._dispatch.handler_of(api_key)
        return handle


class Dispatch(Protocol):
    """Finds who answers an API."""

    def handler_of(self, api_key: int, /) -> Handle:
        """Return the function that answers the API, which is in the registry."""
        ...
