"""CRC-32C of batches, journals and snapshots, computed with the processor's own instruction.

The package crc32c also imports parsers of mail, archives and arguments: a fifth of a client's import time. So
only its extension is loaded, where it can be found.
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
        return import_module(PACKAGE)  # It is imported already, or it has no such extension.
    module = module_from_spec(found)
    found.loader.exec_module(module)
    sys.modules[EXTENSION] = module  # A later import of the package gets this module.
    return module


crc32c: Callable[..., int] = _extension().crc32c
"""`crc32c(data, value=0)`: the CRC of `data`, continued from the CRC `value` of the bytes before."""
