"""BrokerPage: what this broker alone answers to an HTTP client, for a broker that answers for the cluster."""

from kohort.broker.handlers.between.family import Between
from kohort.broker.transport.request import Request
from kohort.protocol.between_brokers import BrokerPageRequest, BrokerPageResponse


async def handle(between: Between, message: BrokerPageRequest, request: Request) -> BrokerPageResponse:
    """Return the page."""
    return await between.page(message)
