"""The ids of the topics that an ingest reads: a topic that is created again has another id (KIP-516)."""

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
"""How long no request is sent after the brokers did not answer."""

log = logging.getLogger(__name__)


class TopicRegister(Protocol):
    """The interface that returns the ids of topics."""

    def ids(self, topics: Iterable[str]) -> TopicIds:
        """Return the ids of these topics as they are now. Raises: KohortError."""
        ...


class BrokerTopics:
    """The topics of a cluster. If no broker answers, the ids are unknown, and asked for again after a while.

    The records come from the stream, from any origin: they do not wait for this.
    """

    def __init__(self, servers: Servers) -> None:
        self._servers = servers
        self._silent_until_s = 0.0

    def ids(self, topics: Iterable[str]) -> TopicIds:
        """Return the ids of these topics; brokers before Kafka 2.8 have none. Raises: KohortError."""
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
