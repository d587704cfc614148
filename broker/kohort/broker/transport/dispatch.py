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


class Dispatch(Protocol):
    """Finds who answers an API."""

    def handler_of(self, api_key: int, /) -> Handle:
        """Return the function that answers the API, which is in the registry."""
        ...
