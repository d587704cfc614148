"""The asynchronous clients, for trio and asyncio.

from kohort.client.aio import Admin, ClusterConnection, Consumer, Producer, ShareConsumer
"""

from kohort.protocol.lazy_names import lazy_names

__getattr__, __dir__ = lazy_names(__name__, __file__)
