"""The names of topics that a coordinator identifies by id."""

from collections.abc import Iterable
from uuid import UUID

from kohort.client.cluster import Cluster


async def topic_names(cluster: Cluster, topic_ids: Iterable[UUID]) -> dict[UUID, str]:
    """Return the names of the topics with these ids, without missing topics.

    A broker is asked about unknown ones. Raises: KohortError.
    """
    wanted = frozenset(topic_ids)
    found = _known(cluster, wanted)
    if len(found) < len(wanted):
        await cluster.refresh_metadata_by_id(wanted - found.keys())
        found = _known(cluster, wanted)
    return found


def _known(cluster: Cluster, topic_ids: frozenset[UUID]) -> dict[UUID, str]:
    topics = cluster.metadata.topics.values()
    return {each.topic_id: each.name for each in topics if each.topic_id in topic_ids}
