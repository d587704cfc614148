"""What a Spark worker process does once, before its first task."""

import gc
from functools import cache

from pyspark import TaskContext


@cache
def spare_collections() -> None:
    """Keep what a worker has imported out of garbage collections, once per process; elsewhere do nothing.

    Spark's worker collects all garbage after each task. Spark, Arrow and their modules are hundreds of
    thousands of objects, so that this takes longer than many a task. Source: pyspark/daemon.py, gc.freeze.
    """
    if TaskContext.get() is not None:
        gc.freeze()
