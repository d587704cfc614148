"""A queue's topics: made where they are missing, and as wide as they have to be."""

from typing import Unpack

from kohort.client.admin_values import NewTopic
from kohort.client.aio import Admin
from kohort.client.config import AdminOptions
from kohort.client.errors import ItemsError
from kohort.protocol.errors import ErrorCode
from kohort.queues.copying import configs_for_copies
from kohort.queues.kmq.queue import Queue


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
            missing.append(NewTopic(queue.markers_topic, partitions=count))
        if queue.dead_letters_topic not in there:
            configs = await configs_for_copies(admin, queue.topic)
            missing.append(NewTopic(queue.dead_letters_topic, partitions=count, configs=configs))
        if missing:
            await _create(admin, missing)
        if queue.markers_topic in there:  # What was made just now may not be known everywhere.
            described = await admin.describe_topics(queue.markers_topic)
            if len(described[queue.markers_topic].partitions) < count:
                await admin.create_partitions({queue.markers_topic: count})
    return count


async def _create(admin: Admin, topics: list[NewTopic]) -> None:
    try:
        await admin.create_topics(*topics)
    except ItemsError as error:
        for each in error.errors.values():
            if each.code != ErrorCode.TOPIC_ALREADY_EXISTS:  # Others start at the same time.
                raise
