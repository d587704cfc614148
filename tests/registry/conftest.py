"""A broker and a schema registry for all tests of a file."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kohort.broker.transport.addresses import Address
from kohort.testing import Broker
from kohort.testing.schema_registry import RunningRegistry


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """A broker."""
    with Broker() as broker:
        yield broker


@pytest.fixture(scope="module")
def url(broker: Broker) -> Iterator[str]:
    """Where its registry answers."""
    registry = RunningRegistry(broker.bootstrap, Address("127.0.0.1", 0))
    yield f"http://{registry.address}"
    registry.close()
