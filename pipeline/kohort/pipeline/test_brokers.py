"""What a driver learns of its brokers, where these do not say the same."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast
from uuid import UUID

import anyio
import pytest

from kohort.client.cluster import Cluster
from kohort.client.errors import BrokerError
from kohort.pipeline.brokers import Brokers
from kohort.pipeline.servers import Servers

OLD, NEW = UUID(int=1), UUID(int=2)


class Told:
    """A cluster whose first broker tells one id, and others theirs."""

    def __init__(self, first: UUID, others: list[UUID]) -> None:
        self.metadata = SimpleNamespace(topics={"t": SimpleNamespace(topic_id=first)})
        self._others = others

    async def refresh_metadata(self, topics: set[str]) -> None:
        assert topics == {"t", "missing"}

    async def reported_topic_ids(self, topics: set[str]) -> list[dict[str, UUID]]:
        return [{"t": each} for each in self._others]


def agreed(first: UUID, *others: UUID) -> dict[str, UUID]:
    brokers = Brokers(Servers("here:9092"), 1_000)
    brokers._cluster = cast("Cluster", Told(first, list(others)))
    return anyio.run(brokers._agreed_topic_ids, {"t", "missing"})


def test_the_topic_id_is_that_of_most_brokers() -> None:
    assert agreed(OLD, NEW, OLD, NEW) == {"t": NEW}
    assert agreed(NEW, NEW) == {"t": NEW}
    assert agreed(NEW) == {"t": NEW}, "nobody else answers"
    assert agreed(UUID(int=0)) == {}, "brokers without ids"


def test_an_undecided_topic_id_is_retriable() -> None:
    with pytest.raises(BrokerError, match="has two ids by now") as caught:
        agreed(NEW, OLD, NEW)
    assert caught.value.retriable
