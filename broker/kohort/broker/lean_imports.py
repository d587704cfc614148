"""structlog without rich and without asyncio: a process that serves imports this before all else.

structlog looks for rich to draw tracebacks with, which a broker's log never shows; importing it takes
as long as a third of the broker's start. asyncio it has for methods that nobody here calls. Where rich,
asyncio or structlog is there already, nothing is changed.
"""

import sys
from importlib import import_module
from types import ModuleType


class _AtFirstUse(ModuleType):
    """Stands for a module, which is imported when something in it is asked for."""

    def __getattr__(self, name: str) -> object:
        return getattr(import_module(self.__name__), name)


if not {"rich", "asyncio", "structlog"} & sys.modules.keys():
    sys.modules["rich"] = None  # type: ignore[assignment]  # None makes its import fail, as if it were absent.
    sys.modules["asyncio"] = _AtFirstUse("asyncio")
    try:
        import structlog  # noqa: F401  # For its side effect: it has now looked for them.
    finally:
        del sys.modules["rich"], sys.modules["asyncio"]
