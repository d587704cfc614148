"""One error where tasks raise it in groups."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio


@asynccontextmanager
async def one_error() -> AsyncIterator[None]:
    """Raise the first error that is in a group, and not the group."""
    try:
        yield
    except BaseExceptionGroup as group:
        _, found = group.split(anyio.get_cancelled_exc_class())
        if found is None:
            raise
        error: BaseException = found
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        raise error from None
