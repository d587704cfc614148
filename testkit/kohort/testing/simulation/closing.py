"""Ends the coroutines and generators of dead processes, so that none is left for a collection of garbage."""

from collections.abc import Coroutine, Iterable
from contextlib import suppress
from typing import Any

CLOSES_MAX = 50  # What waits again in a `finally` block is closed again.


def close_coroutine(coroutine: Any) -> None:
    """Close a coroutine, however often it waits again."""
    for _ in range(CLOSES_MAX):
        with suppress(BaseException):
            coroutine.close()
        if coroutine.cr_frame is None:
            return


def close_generators(generators: Iterable[Any]) -> None:
    """Close asynchronous generators: a loop that is gone cannot."""
    for generator in sorted(generators, key=lambda each: each.__qualname__):
        for _ in range(CLOSES_MAX):
            with suppress(BaseException):
                _run(generator.aclose())
            if generator.ag_frame is None:
                break


def _run(closing: Coroutine[Any, Any, None]) -> None:
    """Go on until it waits, and have it end there."""
    closing.send(None)
    closing.throw(GeneratorExit)
