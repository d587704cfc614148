"""The topics of a destination's retries, routes, dead letters and stashed records."""

from typing import NamedTuple

from kohort.client.admin_values import NewTopic
from kohort.client.aio import Admin
from kohort.client.config import ConsumerOptions
from kohort.client.errors import ItemsError
from kohort.protocol.errors import ErrorCode
from kohort.queues.copying import configs_for_copies
from kohort.queues.forward.settings import Destination
from kohort.queues.options import shared_options


class OwnTopics(NamedTuple):
    """The topics of its own that a destination's workers read, and whether some are new to their group.

    They are where the group had members before some of them were made.
    """

    read: tuple[str, ...]
    are_new: bool


async def ensure_topics(destination: Destination, options: ConsumerOptions) -> OwnTopics:
    """Make the destination's own topics that are missing, as wide as its topic; return those that are read.

    Among these are topics of routes and delays that it had before: records may be left there.
    Raises: BrokerError where the topic itself is missing; KohortError.
    """
    async with Admin(**shared_options(options)) as admin:
        described = await admin.describe_topics(destination.topic)
        count = len(described[destination.topic].partitions)
        there = await admin.list_topics()
        left_over = sorted(each for each in there if destination.is_left_over(each))
        read = (*destination.read_topics, *left_over)
        missing = [each for each in destination.own_topics if each not in there]
        if not missing:
            return OwnTopics(read, are_new=False)
        configs = await configs_for_copies(admin, destination.topic)
        has_members = await _has_members(admin, destination.group_id)
        try:
            await admin.create_topics(
                *(NewTopic(each, partitions=count, configs=configs) for each in missing)
            )
        except ItemsError as error:
            if any(each.code != ErrorCode.TOPIC_ALREADY_EXISTS for each in error.errors.values()):
                raise
        are_new = any(each in destination.read_topics for each in missing)
        return OwnTopics(read, are_new=are_new and has_members)


async def _has_members(admin: Admin, group_id: str) -> bool:
    try:
        return bool((await admin.describe_groups(group_id))[group_id].members)
    except ItemsError:  # There is no such group.
        return False
