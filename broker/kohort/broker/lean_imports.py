"""structlog without rich and without asyncio: a process that serves imports this before all else.

structlog looks for rich to draw tracebacks, which a broker's log never shows; importing it takes
a third of the broker's start. It imports asyncio for methods that nobody here calls. Modules
that are loaded already stay.
"""

import sys
from types import ModuleType


class _AtFirstUse(ModuleType):
    """Stands for a module, which is imported when something in it is asked for."""

    def __getattr__(self, name: str) -> object:
        import asyncio  # noqa: PLC0415  # Here it is imported at last.

        return getattr(asyncio, name)


if "structlog" not in sys.modules:
    # None makes an import fail, as if the module were absent.
    stand_ins = {"rich": None, "asyncio": _AtFirstUse("asyncio")}
    stand_ins = {name: module for name, module in stand_ins.items() if name not in sys.modules}
    sys.modules.update(stand_ins)  # type: ignore[arg-type]
    try:
        import structlog  # noqa: F401  # For its side effect: it has now looked for them.
    finally:
        for name in stand_ins:
            del sys.modules[name]
