"""Calls into a running event loop from any thread, the loop's own among them."""

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

import anyio.lowlevel

if TYPE_CHECKING:
    import asyncio

    import trio.lowlevel


def from_any_thread() -> Callable[[Callable[[], None]], None]:
    """Return a function that schedules a call in the running loop, from any thread.

    Neither loop's library is imported: users of one do not load the other.
    """
    native = anyio.lowlevel.current_token().native_token
    if hasattr(native, "run_sync_soon"):
        return cast("trio.lowlevel.TrioToken", native).run_sync_soon
    loop = cast("asyncio.AbstractEventLoop", native)

    def call_soon(function: Callable[[], None]) -> None:
        loop.call_soon_threadsafe(function)

    return call_soon
