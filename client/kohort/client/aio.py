"""The asynchronous clients, for trio and asyncio.

from kohort.client.aio import Admin, ClusterConnection, Consumer, Producer, ShareConsumer
"""

from typing import TYPE_CHECKING

from kohort.client.admin import Admin
from kohort.client.cluster_connection import ClusterConnection
from kohort.client.consumer import Consumer
from kohort.client.listener import AsyncRebalanceListener as RebalanceListener
from kohort.client.producer import Delivery, Producer

if TYPE_CHECKING:
    from kohort.client.share.consumer import ShareConsumer

__all__ = [
    "Admin",
    "ClusterConnection",
    "Consumer",
    "Delivery",
    "Producer",
    "RebalanceListener",
    "ShareConsumer",
]


def __getattr__(name: str) -> object:
    """Import the share consumer at its first use: who reads by consumer groups does not pay for it."""
    if name != "ShareConsumer":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from kohort.client.share.consumer import ShareConsumer  # noqa: PLC0415

    globals()[name] = ShareConsumer
    return ShareConsumer
