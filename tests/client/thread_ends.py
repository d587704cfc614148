"""The threads of clients, and where one is that does not end."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
import traceback
from collections.abc import Collection, Iterator
from types import CoroutineType

from tests.interop.waiting import DEADLINE_S, wait_until


def client_threads() -> set[threading.Thread]:
    """Return the threads of clients. Those that an earlier test has left may end at any time."""
    return {each for each in threading.enumerate() if each.name.startswith("kohort-")}


def wait_for_ends(before: Collection[threading.Thread], within_s: float = DEADLINE_S) -> None:
    """Return when every client's thread that was not there before has ended.

    Raises: AssertionError with the stacks of the others, and of the tasks of asyncio.
    """
    try:
        wait_until(lambda: client_threads() <= set(before), "the threads' end", within_s)
    except AssertionError as error:
        for each in client_threads() - set(before):
            frame = sys._current_frames().get(each.ident or 0)
            error.add_note(f"thread {each.name}:\n{''.join(traceback.format_stack(frame))}")
        for each in gc.get_objects():
            if isinstance(each, asyncio.Task) and not each.done():
                error.add_note(f"task {each.get_name()}:\n{''.join(_frames(each.get_coro()))}")
        raise


def _frames(awaited: object) -> Iterator[str]:
    """Yield where a coroutine is, and what it awaits, and so on."""
    while isinstance(awaited, CoroutineType) and awaited.cr_frame is not None:
        yield from traceback.format_stack(awaited.cr_frame, limit=1)
        awaited = awaited.cr_await
