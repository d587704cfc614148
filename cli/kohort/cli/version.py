"""`kohort version` and `kohort --version`: which kohort this is, and on which Python."""

import platform
from importlib.metadata import version as installed_version
from importlib.util import find_spec
from pathlib import Path

import click

from kohort.cli.output import print_line

COMPILED_MODULE = "kohort.broker.transport.peer"
"""One of the modules that hatch_build.py compiles. It compiles all of them or none."""


def describe_version() -> str:
    """Return one line: the version, whether its modules are compiled, and Python's version."""
    return f"kohort {installed_version('kohort')}, {_build()}, Python {platform.python_version()}"


def _build() -> str:
    """Return `compiled` where the wheel has compiled modules, else `pure Python`."""
    found = find_spec(COMPILED_MODULE)
    return "pure Python" if found is None or Path(str(found.origin)).suffix == ".py" else "compiled"


@click.command()
def version() -> None:
    """Print the version of kohort and of Python, as --version does."""
    print_line(describe_version())
