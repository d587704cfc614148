"""Pushes the records of topics to services, and does with each what the service answers.

destination = Destination(name="orders", topic="orders", url="http://127.0.0.1:8080/orders")

async with open_service(destination) as service:
    await Forwarder(destination, service, bootstrap_servers="localhost:9092").run()

`kohort forward --config forward.toml` runs several of them. For trio and asyncio; needs the extra `queues`.
"""

from kohort.protocol.lazy_names import lazy_names

__getattr__, __dir__ = lazy_names(__name__, __file__)
