"""Internal topics of Kafka Streams applications: repartition and changelog topics.

The permission to create topics is checked for each requesting member (Kafka: AutoTopicCreationManager).
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import structlog

from kohort.broker.coordination.group_shards import GroupShards
from kohort.broker.metadata.snapshot import TopicState
from kohort.broker.metadata.topic_plans import NewTopic
from kohort.broker.metadata.topics import Topics
from kohort.broker.runtime.clock import Clock
from kohort.broker.runtime.workers import Workers
from kohort.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from kohort.broker.group.streams.topology import InternalTopic

ERROR_KEPT_MS = 30_000
"""How long members are told why a topic could not be created; each heartbeat tries again."""
ERRORS_KEPT_MAX = 1_000
ERRORS_TOLD = 3

log = structlog.get_logger("kohort.streams")


class InternalTopics:
    """What makes topics for streams groups, one try at a time for each group. The loop's thread only."""

    def __init__(self, topics: Topics, groups: GroupShards, workers: Workers, clock: Clock) -> None:
        self._topics = topics
        self._groups = groups
        self._workers = workers
        self._clock = clock
        self._making: set[str] = set()  # The groups whose topics are being made just now.
        self._errors: dict[str, tuple[int, str]] = {}  # By topic: the end of that time, and the message.

    def make(self, group_id: str, may_create: Callable[[str], bool]) -> str:
        """Create the topics that the group lacks, and return the message: why one was not, before or now."""
        missing = self._missing(group_id)
        denied = [each.name for each in missing if not may_create(each.name)]
        if denied:
            return f"; Unauthorized to CREATE on topics {', '.join(denied)}."
        if missing and group_id not in self._making:
            self._making.add(group_id)
            self._workers.spawn(self._make, group_id, missing)
        return self._errors_text(each.name for each in missing)

    def _missing(self, group_id: str) -> "tuple[InternalTopic, ...]":
        from kohort.broker.group.streams.group import StreamsGroup  # noqa: PLC0415  # Where there is one.

        group = self._groups.find(group_id, StreamsGroup)
        if group is None or group.configured is None:
            return ()
        return group.configured.missing

    async def _make(self, group_id: str, missing: "tuple[InternalTopic, ...]") -> None:
        wanted = [
            NewTopic(
                each.name,
                each.partitions,
                each.replication_factor or -1,
                configs=dict(each.configs),
            )
            for each in missing
        ]
        try:
            outcomes = await self._topics.create(wanted)
        finally:
            self._making.discard(group_id)
        until_ms = self._clock.now_ms() + ERROR_KEPT_MS
        for name, outcome in outcomes.items():
            if isinstance(outcome, TopicState) or outcome.code is ErrorCode.TOPIC_ALREADY_EXISTS:
                self._errors.pop(name, None)
                continue
            log.warning("a topic of a streams group could not be made", topic=name, error=str(outcome))
            self._errors[name] = (until_ms, outcome.message or outcome.code.name)
            while len(self._errors) > ERRORS_KEPT_MAX:
                del self._errors[next(iter(self._errors))]

    def _errors_text(self, names: Iterable[str]) -> str:
        now_ms = self._clock.now_ms()
        told = [
            f"{name} ({self._errors[name][1]})"
            for name in names
            if name in self._errors and now_ms < self._errors[name][0]
        ]
        more = f" and {len(told) - ERRORS_TOLD} more" if len(told) > ERRORS_TOLD else ""
        return f"; Creation failed: {', '.join(told[:ERRORS_TOLD])}{more}." if told else ""
