"""CRC-32C, by which batches, journals and snapshots are checked, at the speed of the processor's own.

The package crc32c looks up its own version and makes ready for a command line when it is imported, with
parsers of mail, archives and arguments: a fifth of the time in which a client is imported. What computes is
its extension alone, and only that is loaded, where it is found.
"""

import sys
from collections.abc import Callable
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from types import ModuleType

PACKAGE, EXTENSION = "crc32c", "crc32c._crc32c"


def _extension() -> ModuleType:
    package = None if PACKAGE in sys.modules else find_spec(PACKAGE)
    places = None if package is None else package.submodule_search_locations
    found = None if places is None else PathFinder.find_spec(EXTENSION, places)
    if found is None or found.loader is None:
        return import_module(PACKAGE)  # It is imported already, or built in another way.
    module = module_from_spec(found)
    found.loader.exec_module(module)
    sys.modules[EXTENSION] = module  # Whoever imports the package gets the same.
    return module


crc32c: Callable[..., int] = _extension().crc32c
"""`crc32c(data, value=0)`: the CRC of some bytes, going on from that of the bytes before them."""
