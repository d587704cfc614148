"""The client library: consumer, producer and admin for kohort and for Apache Kafka.

from kohort.client import Admin, Consumer, Producer          # blocking
from kohort.client.aio import Admin, Consumer, Producer      # trio or asyncio
"""

from kohort.protocol.lazy_names import lazy_names

__getattr__, __dir__ = lazy_names(__name__, __file__)
