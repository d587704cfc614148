"""Consumers that drain, checkpoint and reset together, so that what they compute counts each record once.

await RegionCoordinator(region, bootstrap_servers="localhost:9092").run()
await RegionMember(region, "a", operator, topics=["flights"], bootstrap_servers="localhost:9092").run()
"""

from kohort.protocol.lazy_names import lazy_names

__getattr__, __dir__ = lazy_names(__name__, __file__)
