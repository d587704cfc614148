"""The real client libraries, each with its default settings, behind one small interface."""

from tests.interop.clients.aio import Aiokafka
from tests.interop.clients.confluent import Confluent
from tests.interop.clients.interface import (
    Changes,
    Client,
    ConsumerClient,
    ConsumerOptions,
    Incoming,
    Outgoing,
    Place,
)
from tests.interop.clients.kafka_python import KafkaPython

CLIENTS: dict[str, Client] = {client.name: client for client in (Confluent(), KafkaPython(), Aiokafka())}

__all__ = [
    "CLIENTS",
    "Changes",
    "Client",
    "ConsumerClient",
    "ConsumerOptions",
    "Incoming",
    "Outgoing",
    "Place",
]
