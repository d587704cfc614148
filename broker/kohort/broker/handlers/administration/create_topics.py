"""CreateTopics: new topics, or the proof that they could be created."""

from collections import Counter

from kohort.broker.config import describe_topic
from kohort.broker.handlers.administration.family import Administration
from kohort.broker.metadata import TopicState
from kohort.broker.metadata.topic_plans import NewTopic
from kohort.broker.metadata.topics import Outcome, duplicate
from kohort.broker.transport.request import Request
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

Described = dict[tuple[tuple[str, str], ...], tuple[CreatableTopicConfigs, ...]]
"""All settings of a topic, by those that are its own."""


async def handle(
    admin: Administration, message: CreateTopicsRequest, request: Request
) -> CreateTopicsResponse:
    """Return the result for each topic; a failed one does not affect the others."""
    counts = Counter(topic.name for topic in message.topics)
    wanted = [_new_topic(topic) for topic in message.topics if counts[topic.name] == 1]
    outcomes = await admin.topics.create(wanted, validate_only=message.validate_only)
    outcomes |= {name: duplicate(f"topic {name}") for name, count in counts.items() if count > 1}
    described: Described = {}
    return CreateTopicsResponse(
        topics=tuple(_result(admin, name, outcome, described) for name, outcome in outcomes.items())
    )


def _new_topic(topic: CreatableTopic) -> NewTopic:
    return NewTopic(
        name=topic.name,
        partition_count=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignments=tuple((each.partition_index, each.broker_ids) for each in topic.assignments),
        configs={each.name: each.value for each in topic.configs},
    )


def _result(admin: Administration, name: str, outcome: Outcome, described: Described) -> CreatableTopicResult:
    if isinstance(outcome, ApiError):
        return CreatableTopicResult(name=name, error_code=outcome.code, error_message=outcome.message)
    return CreatableTopicResult(
        name=name,
        topic_id=outcome.topic_id,
        error_code=ErrorCode.NONE,
        error_message=None,
        num_partitions=len(outcome.partitions),
        replication_factor=len(outcome.partitions[0].replicas),
        configs=_configs(admin, outcome, described),
    )


def _configs(
    admin: Administration, topic: TopicState, described: Described
) -> tuple[CreatableTopicConfigs, ...]:
    """Return a topic's settings; most topics of a request have the same ones."""
    own = tuple(sorted(topic.configs.items()))
    if own not in described:
        described[own] = _describe(admin, topic)
    return described[own]


def _describe(admin: Administration, topic: TopicState) -> tuple[CreatableTopicConfigs, ...]:
    return tuple(
        CreatableTopicConfigs(
            name=entry.name,
            value=entry.value,
            read_only=entry.read_only,
            config_source=entry.source,
            is_sensitive=entry.sensitive,
        )
        for entry in describe_topic(admin.current.config, topic.configs)
    )
