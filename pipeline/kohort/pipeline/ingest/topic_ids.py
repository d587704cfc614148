"""Which topics an ingest reads, by their ids: one that is made anew has another id (KIP-516)."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from typing import Protocol

from kohort.client.errors import KohortError
from kohort.pipeline.brokers import Brokers
from kohort.pipeline.offsets import TopicIds
from kohort.pipeline.servers import Servers

ATTEMPT_MS = 5_000
SILENT_SECONDS = 60.0
"""How long nobody is asked after brokers that did not answer."""

log = logging.getLogger(__name__)


class TopicRegister(Protocol):
    """Who knows the topics' ids."""

    def ids(self, topics: Iterable[str]) -> TopicIds:
        """Return the ids of these topics as they are now. Raises: KohortError."""
        ...


class BrokerTopics:
    """The topics of a cluster. Where no broker says, they are not known, and asked for again after a while.

    The records come from wherever the stream has them: data that is there does not wait for this.
    """

    def __init__(self, servers: Servers) -> None:
        self._servers = servers
        self._silent_until_s = 0.0

    def ids(self, topics: Iterable[str]) -> TopicIds:
        """Return the ids of these topics; brokers before Kafka 2.8 know of none. Raises: KohortError."""
        wanted = sorted(set(topics))
        if not wanted or time.monotonic() < self._silent_until_s:
            return {}
        try:
            with Brokers(self._servers, ATTEMPT_MS) as brokers:
                found = brokers.retrying(lambda: brokers.topic_ids(wanted))
        except KohortError as error:
            if not error.retriable:
                raise
            log.warning("whether topics were made anew is not known: %s", error)
            self._silent_until_s = time.monotonic() + SILENT_SECONDS
            return {}
        return {topic: str(topic_id) for topic, topic_id in found.items()}
