"""One poller and many workers: records of a group, handled side by side and committed in order.

def handle(record): ...

pool = WorkerPool("flights", handler=handle, group_id="g", workers=8, bootstrap_servers="localhost:9092")
pool.run()

`WorkerPool` has threads, `AsyncWorkerPool` tasks under trio and asyncio.
"""

from kohort.client.workers.errors import HandlerError
from kohort.client.workers.tasks import AsyncWorkerPool
from kohort.client.workers.threads import WorkerPool
from kohort.client.workers.windows import Order

__all__ = ["AsyncWorkerPool", "HandlerError", "Order", "WorkerPool"]
