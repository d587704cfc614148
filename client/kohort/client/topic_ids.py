"""Decides whether a topic was recreated, or a lagging broker reports a former topic id.

The newer one of two ids cannot be recognized. So if an answer has a new id, the brokers are
asked, and an id that fewer of them report does not count yet.
"""

import logging
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from uuid import UUID

import anyio

from kohort.client.errors import KohortError
from kohort.client.values import Node
from kohort.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from kohort.protocol.schema import ZERO_UUID

logger = logging.getLogger(__name__)

PATIENCE_MS = 1_000
BROKERS_ASKED_MAX = 5

TopicIds = Mapping[str, UUID]


def metadata_request(
    names: Iterable[str] | None = (), ids: Iterable[UUID] = (), *, create: bool = False
) -> MetadataRequest:
    """Return the question about topics of these names and these ids; with None for names about all."""
    by_name = (MetadataRequestTopic(topic_id=ZERO_UUID, name=each) for each in names or ())
    by_id = (MetadataRequestTopic(topic_id=each, name=None) for each in ids)
    return MetadataRequest(
        topics=None if names is None else (*by_name, *by_id),
        allow_auto_topic_creation=create,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )


def ids_in(response: MetadataResponse) -> dict[str, UUID]:
    """Return the ids of the topics in an answer, as far as it has any."""
    told = response.topics
    return {each.name: each.topic_id for each in told if each.name and each.topic_id != ZERO_UUID}


async def reported_ids(
    ask: Callable[[Node], Awaitable[MetadataResponse]], brokers: Sequence[Node]
) -> list[TopicIds]:
    """Return the ids that each broker reports, for a few of these.

    Brokers that do not answer soon are left out.
    """
    found: list[TopicIds] = []

    async def one(node: Node) -> None:
        try:
            found.append(ids_in(await ask(node)))
        except KohortError as error:
            logger.debug("broker %d does not say which topic id it has: %s", node.node_id, error)

    with anyio.move_on_after(PATIENCE_MS / 1000):
        async with anyio.create_task_group() as tasks:
            for each in random.sample(brokers, min(len(brokers), BROKERS_ASKED_MAX)):
                tasks.start_soon(one, each)
    return found


def most_reported(known: TopicIds, told: Sequence[TopicIds]) -> frozenset[str]:
    """Return the topics whose known id at least as many brokers report as any other id."""
    kept = set()
    for topic, topic_id in known.items():
        votes = Counter(each[topic] for each in told if topic in each)
        if votes and votes[topic_id] == max(votes.values()):
            kept.add(topic)
    return frozenset(kept)
