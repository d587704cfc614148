"""A queue's topics: made where they are missing, and as wide as they have to be."""

import logging
from dataclasses import dataclass
from typing import Unpack

from kohort.client.admin_values import NewTopic, ResourceType
from kohort.client.aio import Admin
from kohort.client.config import AdminOptions
from kohort.client.errors import BrokerError, ItemsError
from kohort.protocol.errors import ErrorCode
from kohort.queues.copying import configs_for_copies
from kohort.queues.kmq.queue import Queue

logger = logging.getLogger(__name__)

RETENTION = "retention.ms"
CLEANUP = "cleanup.policy"
DELETE = "delete"


async def ensure_topics(queue: Queue, **options: Unpack[AdminOptions]) -> int:
    """Return how many partitions the queue has, once markers and dead letters have their topics.

    The markers topic gets as many partitions as the message topic, also where that has grown.
    Raises: BrokerError where there is no message topic; KohortError.
    """
    async with Admin(**options) as admin:
        count = len((await admin.describe_topics(queue.topic))[queue.topic].partitions)
        there = set(await admin.list_topics(include_internal=True))
        missing = []
        if queue.markers_topic not in there:
            configs = {RETENTION: str(queue.markers_retention_ms), CLEANUP: DELETE}
            missing.append(NewTopic(queue.markers_topic, partitions=count, configs=configs))
        if queue.dead_letters_topic not in there:
            configs = await configs_for_copies(admin, queue.topic)
            missing.append(NewTopic(queue.dead_letters_topic, partitions=count, configs=configs))
        if missing:
            await _create(admin, missing)
        if queue.markers_topic in there:  # What was made just now may not be known everywhere.
            described = await admin.describe_topics(queue.markers_topic)
            if len(described[queue.markers_topic].partitions) < count:
                await admin.create_partitions({queue.markers_topic: count})
            for fault in (await keeping_of(admin, queue.markers_topic)).faults(queue, 0):
                logger.warning("%s", fault)
    return count


@dataclass(frozen=True, slots=True)
class Keeping:
    """How a markers topic keeps its markers: -1 ms is for ever; None where a setting is not to be known."""

    retention_ms: int | None = None
    cleanup_policy: str | None = None

    def faults(self, queue: Queue, longest_ms: int) -> list[str]:
        """Return what is wrong with that where a record may be open for `longest_ms`.

        A record whose marker is deleted before its end marker was written never comes again.
        """
        found = []
        needed_ms = 2 * max(queue.message_timeout_ms, longest_ms)
        if self.retention_ms is not None and 0 <= self.retention_ms < needed_ms:
            wanted_ms = max(needed_ms, queue.markers_retention_ms)
            found.append(
                f"{queue.markers_topic} keeps markers for {self.retention_ms} ms;"
                f" set {RETENTION} to {wanted_ms} or more: records whose marker is deleted are lost"
            )
        if self.cleanup_policy is not None and DELETE not in self.cleanup_policy:
            found.append(
                f"{queue.markers_topic} has {CLEANUP} {self.cleanup_policy}; set it to {DELETE}:"
                " compaction keeps a marker of each record for ever"
            )
        return found


async def keeping_of(admin: Admin, topic: str) -> Keeping:
    """Return how a topic keeps its records."""
    try:
        entries = await admin.describe_configs(ResourceType.TOPIC, topic)
    except BrokerError as error:
        logger.info("how %s keeps its records is not known: %s", topic, str(error))
        return Keeping()
    retention = entries[RETENTION].value if RETENTION in entries else None
    policy = entries[CLEANUP].value if CLEANUP in entries else None
    return Keeping(None if retention is None else int(retention), policy)


async def _create(admin: Admin, topics: list[NewTopic]) -> None:
    try:
        await admin.create_topics(*topics)
    except ItemsError as error:
        for each in error.errors.values():
            if each.code != ErrorCode.TOPIC_ALREADY_EXISTS:  # Others start at the same time.
                raise
