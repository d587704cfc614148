"""The decorator that gives mypyc options for a class. It does nothing in interpreted code.

    @mypyc_attr(allow_interpreted_subclasses=True)
    class Request: ...        # Modules that are not compiled have subclasses of it.

Source: mypyc's documentation, "Native classes". Decisions 0029 and 0034.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mypy_extensions import mypyc_attr
else:

    def mypyc_attr(*_attributes: str, **_options: object):
        """Return a decorator that returns the class unchanged. Only mypyc reads the options."""
        return lambda cls: cls


__all__ = ["mypyc_attr"]
