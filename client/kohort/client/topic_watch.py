"""Keeps the subscribed topics up to date: those that appear, match, grow or vanish."""

import logging
import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from kohort.client.cluster import PATIENCE_MS, Cluster
from kohort.client.errors import KohortError
from kohort.client.membership import Membership
from kohort.client.retry import monotonic_ms
from kohort.client.signal import Signal

if TYPE_CHECKING:
    from kohort.client.config import ConsumerConfig
    from kohort.client.share.config import ShareConsumerConfig

logger = logging.getLogger(__name__)

CHECK_MS = 1_000  # How often to check for missing topics, and for news from another task.

_SAID_OTHERWISE = ("[:", "{,")
"""Syntax that differs between a broker's expressions (RE2) and Python's.

Named classes, and literal braces.
"""


class TopicWatch:
    """A subscription, and a task that reports changes of its topics to the membership."""

    def __init__(
        self,
        cluster: Cluster,
        config: "ConsumerConfig | ShareConsumerConfig",
        membership: Callable[[], Membership | None],
        changed: Callable[[], None],
    ) -> None:
        self.topics: tuple[str, ...] = ()
        self.pattern: re.Pattern[str] | None = None
        self._cluster = cluster
        self._config = config
        self._membership = membership
        self._changed = changed
        self._signal = Signal()
        self._due_ms = 0
        self._reported_counts: Mapping[str, int] = {}

    @property
    def is_subscribed(self) -> bool:
        """Whether there is a subscription, even to topics that don't exist."""
        return bool(self.topics) or self.pattern is not None

    @property
    def is_resolved_there(self) -> bool:
        """Whether the broker resolves the pattern."""
        membership = self._membership()
        return self.pattern is not None and membership is not None and membership.resolves_patterns

    def subscribe(self, topics: Iterable[str], pattern: re.Pattern[str] | None) -> None:
        """Watch these topics, or those whose whole name matches; nothing ends the subscription."""
        self.topics = tuple(sorted(set(topics)))
        self.pattern = pattern
        self._due_ms = 0
        self._reported_counts = {}
        self._tell_topics()
        self._signal.set()

    def may_want(self, topic: str) -> bool:
        """Whether this topic is subscribed, as far as known without a broker."""
        if self.pattern is None:
            return topic in self.topics
        is_said_otherwise = self.is_resolved_there and any(
            each in self.pattern.pattern for each in _SAID_OTHERWISE
        )
        return is_said_otherwise or self.pattern.fullmatch(topic) is not None

    async def run(self) -> None:
        """Watch until cancelled."""
        while True:
            if self.is_subscribed:
                if monotonic_ms() >= self._due_ms:
                    await self._renew()
                self._tell_partitions()
            await self._signal.wait(
                min(self._config.metadata_max_age_ms, CHECK_MS) if self.is_subscribed else None
            )

    async def _renew(self) -> None:
        wait_ms = self._config.metadata_max_age_ms
        try:
            await self._ask()
        except KohortError as error:
            logger.debug("metadata: %s", error)
            wait_ms = self._config.retry_backoff_max_ms
            self._due_ms = monotonic_ms() + wait_ms
            return  # The known topics are outdated.
        known = self._cluster.metadata.topics
        for each in self.topics:
            missing = self._cluster.topic_error(each)
            if missing is not None:
                self._cluster.warnings.say(("topic", each), missing, after_ms=PATIENCE_MS)
        lacks_topics = self.pattern and not self.topics and not self.is_resolved_there
        if lacks_topics or any(each not in known for each in self.topics):
            wait_ms = min(wait_ms, CHECK_MS)
        self._due_ms = monotonic_ms() + wait_ms

    async def _ask(self) -> None:
        membership = self._membership()
        pattern = self.pattern
        if pattern is None or self.is_resolved_there:
            others = frozenset[str]() if membership is None else membership.watched_topics
            await self._cluster.refresh_metadata(others.union(self.topics))
            await self._create_missing()
            return
        await self._cluster.refresh_metadata(None)
        if self.pattern is pattern:  # The user may have changed it meanwhile.
            self.topics = tuple(
                sorted(
                    each.name
                    for each in self._cluster.metadata.topics.values()
                    if pattern.fullmatch(each.name)
                    and not (each.is_internal and self._config.exclude_internal_topics)
                )
            )
            self._tell_topics()

    async def _create_missing(self) -> None:
        """Let the broker create missing topics subscribed by name, and no others.

        They may have been deleted.
        """
        known = self._cluster.metadata.topics
        missing = [each for each in self.topics if each not in known]
        if missing and self.pattern is None and self._config.allow_auto_create_topics:
            await self._cluster.refresh_metadata(missing, create=True)

    def _tell_topics(self) -> None:
        membership = self._membership()
        if membership is None:
            return
        if self.pattern is not None and membership.resolves_patterns:
            membership.subscribe_pattern(self.pattern.pattern)
        elif self.topics:
            membership.subscribe(self.topics)
        else:
            return
        self._changed()

    def _tell_partitions(self) -> None:
        membership = self._membership()
        counts = self._cluster.metadata.partition_counts()
        if membership is not None and counts != self._reported_counts:
            self._reported_counts = counts
            membership.partitions_changed(counts)
            self._changed()
