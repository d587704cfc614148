"""Which process answers interactive queries about which partitions (Kafka: EndpointToPartitionsManager)."""

from collections.abc import Iterable, Iterator

from kohort.broker.group.metadata import Metadata
from kohort.broker.group.streams.member import StreamsMember
from kohort.broker.group.streams.tasks import TaskSet
from kohort.broker.group.streams.topology import Configured, ConfiguredSubtopology
from kohort.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatEndpoint,
    StreamsGroupHeartbeatEndpointToPartitions,
    StreamsGroupHeartbeatTopicPartition,
)


def partitions_by_endpoint(
    members: Iterable[StreamsMember], configured: Configured, metadata: Metadata
) -> tuple[StreamsGroupHeartbeatEndpointToPartitions, ...]:
    """Return the active and standby partitions of each member with an endpoint."""
    subtopologies = configured.subtopologies or {}

    def partitions(tasks: TaskSet) -> Iterator[StreamsGroupHeartbeatTopicPartition]:
        for subtopology_id in sorted(tasks):
            subtopology = subtopologies.get(subtopology_id)
            if subtopology is not None:
                yield from _read(subtopology, tasks[subtopology_id], metadata)

    return tuple(
        StreamsGroupHeartbeatEndpointToPartitions(
            user_endpoint=StreamsGroupHeartbeatEndpoint(
                host=each.user_endpoint.host, port=each.user_endpoint.port
            ),
            active_partitions=tuple(partitions(each.assigned.tasks.active)),
            standby_partitions=tuple(partitions(each.assigned.standby)),
        )
        for each in members
        if each.user_endpoint is not None
    )


def _read(
    subtopology: ConfiguredSubtopology, partitions: Iterable[int], metadata: Metadata
) -> Iterator[StreamsGroupHeartbeatTopicPartition]:
    """Yield the partitions that tasks read; a topic may have fewer than its subtopology has tasks."""
    internal = (topic.name for topic in subtopology.repartition_sources)
    for name in sorted({*subtopology.source_topics, *internal}):
        topic = metadata.topics.get(name)
        count = 0 if topic is None else len(topic.partitions)
        present = tuple(index for index in sorted(partitions) if index < count)
        yield StreamsGroupHeartbeatTopicPartition(topic=name, partitions=present)
