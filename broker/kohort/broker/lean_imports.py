"""structlog and trio without what a broker does not use: a process that serves imports this before all else.

structlog looks for rich to draw tracebacks, which a broker's log never shows; importing it takes
a third of the broker's start. It imports asyncio for methods that nobody here calls. trio imports ssl for
streams that most brokers have none of, and hmac for datagrams. It asks for the path of the threads' library,
for which ctypes starts another process. Modules that are loaded already stay.
"""

import ctypes.util
import sys
from importlib import import_module
from types import ModuleType

_FIND_LIBRARY = ctypes.util.find_library


class _AtFirstUse(ModuleType):
    """Stands for a module, which is imported when something in it is asked for."""

    def __getattr__(self, name: str) -> object:
        """Import the module and return what it has under this name."""
        return getattr(import_module(self.__name__), name)


def _find_library(name: str) -> str | None:
    """Return the file of a library: the linker knows most by name, and ctypes starts a process for each."""
    file = f"lib{name}.so.0"
    try:
        ctypes.CDLL(file)
    except OSError:
        return _FIND_LIBRARY(name)
    return file


def _import_without(stand_ins: dict[str, ModuleType | None], name: str) -> None:
    """Import a module, unless it is there, while these stand for others that are not.

    None makes an import fail, as if the module were absent.
    """
    if name in sys.modules:
        return
    stand_ins = {name: module for name, module in stand_ins.items() if name not in sys.modules}
    sys.modules.update(stand_ins)  # type: ignore[arg-type]
    try:
        import_module(name)
    finally:
        for each in stand_ins:
            del sys.modules[each]


_import_without({"rich": None, "asyncio": _AtFirstUse("asyncio")}, "structlog")
ctypes.util.find_library = _find_library
try:
    _import_without({each: _AtFirstUse(each) for each in ("ssl", "hmac")}, "trio")
finally:
    ctypes.util.find_library = _FIND_LIBRARY
