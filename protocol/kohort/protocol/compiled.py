"""What mypyc is told about classes that may be compiled. Where nothing is compiled it changes nothing.

    @mypyc_attr(allow_interpreted_subclasses=True)
    class Request: ...        # has subclasses in modules that are not compiled

Source: mypyc's documentation, "Native classes". Decisions 0029 and 0034.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mypy_extensions import mypyc_attr
else:

    def mypyc_attr(*_attributes: str, **_options: object):
        """Return what returns the class as it is: mypyc reads this, and nobody else."""
        return lambda cls: cls


__all__ = ["mypyc_attr"]
