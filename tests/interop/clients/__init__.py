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
from tests.interop.clients.kohort import Kohort

# The clients of others: what a test asks of all of them at once was written for these three.
CLIENTS: dict[str, Client] = {client.name: client for client in (Confluent(), KafkaPython(), Aiokafka())}

ALL_CLIENTS: dict[str, Client] = CLIENTS | {"kohort": Kohort()}

__all__ = [
    "ALL_CLIENTS",
    "CLIENTS",
    "Changes",
    "Client",
    "ConsumerClient",
    "ConsumerOptions",
    "Incoming",
    "Outgoing",
    "Place",
]
