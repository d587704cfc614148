"""The asynchronous clients, for trio and asyncio.

from kohort.client.aio import Admin, Consumer, Producer
"""

from kohort.client.consumer import Consumer
from kohort.client.listener import AsyncRebalanceListener as RebalanceListener

__all__ = ["Consumer", "RebalanceListener"]
