"""Acknowledgements record by record, on any Kafka, after SoftwareMill's KMQ and mixing with it.

queue = Queue("orders")

async with QueueClient(queue, bootstrap_servers="localhost:9092") as client:
    for record in await client.next_batch():
        ...
        await client.processed(record)

A `RedeliveryTracker` somewhere delivers again what was not acknowledged in time. For trio and asyncio.
"""

from kohort.protocol.lazy_names import lazy_names

__getattr__, __dir__ = lazy_names(__name__, __file__)
