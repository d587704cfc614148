"""A queue's topics: made where they are missing, and as wide as they have to be."""

import logging
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
            configs = {RETENTION: str(queue.markers_retention_ms), "cleanup.policy": "delete"}
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
            await _check_retention(admin, queue)
    return count


async def _check_retention(admin: Admin, queue: Queue) -> None:
    """Warn where markers are deleted while their records may still be open: these never come again."""
    kept_ms = await retention_ms(admin, queue.markers_topic)
    if kept_ms is not None and 0 <= kept_ms < 2 * queue.message_timeout_ms:
        logger.warning(
            "%s keeps markers for %s ms; set %s to %s or more: records whose marker is deleted are lost",
            queue.markers_topic,
            kept_ms,
            RETENTION,
            queue.markers_retention_ms,
        )


async def retention_ms(admin: Admin, topic: str) -> int | None:
    """Return how long a topic keeps records, -1 for ever; None where that is not to be known."""
    try:
        entries = await admin.describe_configs(ResourceType.TOPIC, topic)
    except BrokerError as error:
        logger.info("how long %s keeps its records is not known: %s", topic, str(error))
        return None
    value = entries[RETENTION].value if RETENTION in entries else None
    return None if value is None else int(value)


async def _create(admin: Admin, topics: list[NewTopic]) -> None:
    try:
        await admin.create_topics(*topics)
    except ItemsError as error:
        for each in error.errors.values():
            if each.code != ErrorCode.TOPIC_ALREADY_EXISTS:  # Others start at the same time.
                raise
