from kohort.client.admin import Admin
from kohort.client.cluster_connection import ClusterConnection
from kohort.client.consumer import Consumer
from kohort.client.listener import AsyncRebalanceListener as RebalanceListener
from kohort.client.producer import Delivery, Producer
from kohort.client.share.consumer import ShareConsumer

# Type checkers take a name that is imported under another one for private, unless it stands here.
__all__ = [
    "Admin",
    "ClusterConnection",
    "Consumer",
    "Delivery",
    "Producer",
    "RebalanceListener",
    "ShareConsumer",
]
