"""The setup of a Spark worker process, once before its first task."""

import gc
from functools import cache

from pyspark import TaskContext


@cache
def spare_collections() -> None:
    """Exclude the imports of a worker from garbage collection, once per process; elsewhere do nothing.

    Spark's worker collects all garbage after each task. Spark, Arrow and their modules are hundreds of
    thousands of objects, so that this takes longer than many a task. Source: pyspark/daemon.py, gc.freeze.
    """
    if TaskContext.get() is not None:
        gc.freeze()
