"""The broker's internal topics, created when they are needed first."""

from collections.abc import Callable

import trio

from kohort.broker.config import BrokerConfig
from kohort.broker.config.current import CurrentConfig
from kohort.broker.metadata import (
    OFFSETS_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTIONS_TOPIC,
    MetadataStore,
    TopicState,
)
from kohort.broker.metadata.internal_topics import (
    group_events_topic,
    offsets_topic,
    share_state_topic,
    transactions_topic,
)
from kohort.broker.metadata.topic_plans import NewTopic
from kohort.broker.metadata.topics import Topics


class EnsuredTopics:
    """Creates internal topics. The loop's thread only."""

    def __init__(self, topics: Topics, metadata: MetadataStore, current: CurrentConfig) -> None:
        self._topics = topics
        self._metadata = metadata
        self._current = current
        self._creating = trio.Lock()

    async def offsets(self) -> TopicState:
        """Return `__consumer_offsets`, created unless it is there. Raises: ApiError."""
        return await self._ensure(OFFSETS_TOPIC, offsets_topic)

    async def transactions(self) -> TopicState:
        """Return `__transaction_state`, created unless it is there. Raises: ApiError."""
        return await self._ensure(TRANSACTIONS_TOPIC, transactions_topic)

    async def share_state(self) -> TopicState:
        """Return `__share_group_state`, created unless it is there. Raises: ApiError."""
        return await self._ensure(SHARE_STATE_TOPIC, share_state_topic)

    async def group_events(self) -> TopicState:
        """Return `__group_events`, created unless it is there. Raises: ApiError."""
        return await self._topics.ensure(group_events_topic(self._current.config))

    async def _ensure(self, name: str, plan: Callable[[BrokerConfig], NewTopic]) -> TopicState:
        present = self._metadata.snapshot().topics.get(name)
        if present is not None and not self._creating.locked():
            return (
                present  # A lock lets one task in at each turn of the loop: fifty shards would queue for it.
            )
        async with self._creating:
            return await self._topics.ensure(plan(self._current.config))
