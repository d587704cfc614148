"""The asynchronous clients, for trio and asyncio.

from kohort.client.aio import Admin, ClusterConnection, Consumer, Producer
"""

from kohort.client.admin import Admin
from kohort.client.cluster_connection import ClusterConnection
from kohort.client.consumer import Consumer
from kohort.client.listener import AsyncRebalanceListener as RebalanceListener
from kohort.client.producer import Delivery, Producer

__all__ = ["Admin", "ClusterConnection", "Consumer", "Delivery", "Producer", "RebalanceListener"]
