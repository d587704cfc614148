"""Which topics an ingest reads, by their ids: one that is made anew has another id (KIP-516)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from kohort.pipeline.brokers import Brokers
from kohort.pipeline.options import TIMEOUT_MS
from kohort.pipeline.servers import Servers

TopicIds = Mapping[str, str]
"""Ids by name, as texts; a topic is left out whose id is not known."""


class TopicRegister(Protocol):
    """Who knows the topics' ids."""

    def ids(self, topics: Iterable[str]) -> TopicIds:
        """Return the ids of these topics as they are now. Raises: KohortError."""
        ...


class BrokerTopics:
    """The topics of a cluster, asked as patiently as their records are."""

    def __init__(self, servers: Servers) -> None:
        self._servers = servers

    def ids(self, topics: Iterable[str]) -> TopicIds:
        """Return the ids of these topics; brokers before Kafka 2.8 know of none. Raises: KohortError."""
        wanted = sorted(set(topics))
        if not wanted:
            return {}
        with Brokers(self._servers, TIMEOUT_MS) as brokers:
            found = brokers.retrying(lambda: brokers.topic_ids(wanted))
        return {topic: str(topic_id) for topic, topic_id in found.items()}


def made_anew(known: TopicIds, now: TopicIds) -> list[str]:
    """Return the topics that have another id than was known."""
    return sorted(topic for topic, topic_id in known.items() if now.get(topic, topic_id) != topic_id)
