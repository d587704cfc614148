"""Between the transport and the handlers: a broker without a lease resigns before it answers."""

from collections.abc import Awaitable, Callable
from typing import Any

from kohort.broker.transport.dispatch import Dispatch, Handle
from kohort.broker.transport.request import Request
from kohort.protocol.schema import Message


class Gate:
    """A `Dispatch` that checks the lease first: a process that was paused notices here, and not later."""

    def __init__(self, inner: Dispatch, check: Callable[[], object]) -> None:
        self._inner = inner
        self._check = check
        self._checked: dict[int, Handle] = {}

    def handler_of(self, api_key: int) -> Handle:
        """Return the handler of the API, which runs after the lease was checked."""
        handle = self._checked.get(api_key)
        if handle is None:
            handle = self._checked[api_key] = self._behind_check(self._inner.handler_of(api_key))
        return handle

    def _behind_check(self, handle: Handle) -> Handle:
        def checked(message: Any, request: Request) -> Message | Awaitable[Message | None] | None:
            self._check()
            return handle(message, request)

        return checked
