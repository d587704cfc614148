"""Spark's daemon of Python workers, without a word on connections that the JVM has closed first.

The JVM is done with a worker of a stream's source or sink when the query ends, and closes the connection;
what the worker flushes then breaks, and the daemon writes a traceback of it for each query. All else it
writes as ever. Spark starts this by its setting `spark.python.daemon.module`. Source: pyspark/daemon.py.
"""

import sys
import traceback
from types import SimpleNamespace

from pyspark import daemon


def print_exc() -> None:
    """Write the traceback of what is handled just now, unless a connection was closed."""
    if not isinstance(sys.exc_info()[1], BrokenPipeError):
        traceback.print_exc()


if __name__ == "__main__":
    setattr(daemon, "traceback", SimpleNamespace(print_exc=print_exc, format_exc=traceback.format_exc))  # noqa: B010
    daemon.manager()
