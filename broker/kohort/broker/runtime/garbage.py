"""When the garbage collector need not look: while much is made that stays."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_collections() -> Iterator[None]:
    """Keep the collector from looking through all there is, again and again, and finding nothing.

    For what makes many objects that stay, and no cycles worth a word: with ten thousand topics each look
    takes a tenth of a second. It is of the whole process, so not for what waits for others.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
