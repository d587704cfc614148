"""Spark's daemon of Python workers, silent about connections that the JVM has closed first.

The JVM closes the connection of the worker of a stream's source or sink when the query ends;
the worker's flush then fails, and the daemon writes a traceback for each query. It writes everything
else as before. Spark starts this by its setting `spark.python.daemon.module`. Source: pyspark/daemon.py.
"""

import sys
import traceback
from types import SimpleNamespace

from pyspark import daemon


def print_exc() -> None:
    """Write the traceback of the current exception, unless a connection was closed."""
    if not isinstance(sys.exc_info()[1], BrokenPipeError):
        traceback.print_exc()


if __name__ == "__main__":
    setattr(daemon, "traceback", SimpleNamespace(print_exc=print_exc, format_exc=traceback.format_exc))  # noqa: B010
    daemon.manager()
