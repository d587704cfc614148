"""Calls into a running event loop from any thread, the loop's own among them."""

import asyncio
from collections.abc import Callable

import anyio.lowlevel
import trio.lowlevel


def from_any_thread() -> Callable[[Callable[[], None]], None]:
    """Return what lets the loop that runs now call a function soon, whichever thread asks."""
    native = anyio.lowlevel.current_token().native_token
    if isinstance(native, trio.lowlevel.TrioToken):
        return native.run_sync_soon
    assert isinstance(native, asyncio.AbstractEventLoop)
    loop = native

    def call_soon(function: Callable[[], None]) -> None:
        loop.call_soon_threadsafe(function)

    return call_soon
