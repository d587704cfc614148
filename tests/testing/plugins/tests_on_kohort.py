"""A plugin for Quix Streams' own tests: what they start as containers of Kafka are brokers of the kit."""

from contextlib import nullcontext
from typing import Any

import testcontainers.core.network as networks  # type: ignore[import-not-found]  # Its tests bring it.

from kohort.testing import Broker

networks.Network = nullcontext  # Before the tests' conftest takes it.


def pytest_configure() -> None:
    """Put brokers in the place of containers: number 0, as those tests have it."""
    from tests.containerhelper import ContainerHelper  # type: ignore[import-not-found]

    def create(network: object) -> tuple[Broker, str, str]:
        broker = Broker({"log.retention.ms": -1}, node_id=0).start()
        return broker, broker.bootstrap, broker.bootstrap

    def start(broker: Any) -> None:
        assert broker.bootstrap

    ContainerHelper.create_kafka_container = staticmethod(create)
    ContainerHelper.start_kafka_container = staticmethod(start)
