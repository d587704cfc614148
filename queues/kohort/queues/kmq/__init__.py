"""Acknowledgements record by record, on any Kafka, after SoftwareMill's KMQ and mixing with it.

queue = Queue("orders")

async with QueueClient(queue, bootstrap_servers="localhost:9092") as client:
    for record in await client.next_batch():
        ...
        await client.processed(record)

A `RedeliveryTracker` somewhere delivers again what was not acknowledged in time. For trio and asyncio.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kohort.queues.kmq.client import QueueClient
    from kohort.queues.kmq.counters import TrackerCounters
    from kohort.queues.kmq.locating import Place, State, locate
    from kohort.queues.kmq.queue import Queue
    from kohort.queues.kmq.stats import PartitionStats, QueueStats, queue_stats
    from kohort.queues.kmq.topics import ensure_topics
    from kohort.queues.kmq.tracker import RedeliveryTracker
    from kohort.queues.kmq.worker import QueueWorker, Reject, Release

_HOME = {
    "client": "QueueClient",
    "counters": "TrackerCounters",
    "locating": "Place State locate",
    "queue": "Queue",
    "stats": "PartitionStats QueueStats queue_stats",
    "topics": "ensure_topics",
    "tracker": "RedeliveryTracker",
    "worker": "QueueWorker Reject Release",
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names.split()}

__all__ = [
    "PartitionStats",
    "Place",
    "Queue",
    "QueueClient",
    "QueueStats",
    "QueueWorker",
    "RedeliveryTracker",
    "Reject",
    "Release",
    "State",
    "TrackerCounters",
    "ensure_topics",
    "locate",
    "queue_stats",
]


def __getattr__(name: str) -> object:
    """Import a public name at its first use."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415

    value: object = getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value
