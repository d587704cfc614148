"""Imports names of a module when they are first used (PEP 562).

The module's stub lists them, for type checkers and for this import:

    # __init__.pyi
    from kohort.client.admin import Admin as Admin

    # __init__.py
    __getattr__, __dir__ = lazy_names(__name__, __file__)

The stub is read when the first name is used: the import of the module itself costs nothing. Like lazy_loader
(SPEC 1), but names may also come from other packages.
"""

import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module


def lazy_names(module: str, file: str) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` for the module in `file`. Its stub is in the same folder."""

    @cache
    def homes() -> dict[str, tuple[str, str]]:
        import ast  # noqa: PLC0415  # Needed when a name is used.

        with open(file.removesuffix("c") + "i", encoding="utf-8") as stub_file:
            stub = ast.parse(stub_file.read())
        found = [each for each in stub.body if isinstance(each, ast.ImportFrom) and each.module]
        return {
            alias.asname or alias.name: (str(each.module), alias.name)
            for each in found
            for alias in each.names
        }

    def get(name: str) -> object:
        if name == "__all__":
            return names()
        if name not in homes():
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        home, name_there = homes()[name]
        value: object = getattr(import_module(home), name_there)
        setattr(sys.modules[module], name, value)
        return value

    def names() -> list[str]:
        return sorted(homes())

    return get, names
