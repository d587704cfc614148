"""Metadata: the brokers, and the topics that were asked about, created on the way where that is wanted."""

from collections.abc import Coroutine, Iterable, Sequence
from itertools import islice
from typing import cast

from kohort.broker.handlers.administration.authorized_operations import (
    CLUSTER_OPERATIONS,
    NOT_ASKED,
    TOPIC_OPERATIONS,
)
from kohort.broker.handlers.administration.family import Administration
from kohort.broker.handlers.prepared import Prepared
from kohort.broker.metadata import NO_LEADER, Snapshot, TopicState, offline_replicas
from kohort.broker.metadata.topic_names import is_valid_topic_name
from kohort.broker.transport.request import Request
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.limits import MAX_ITEMS
from kohort.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kohort.protocol.schema import ZERO_UUID

AUTO_CREATED_MAX = MAX_ITEMS

Errors = dict[str, ErrorCode]


def handle(
    admin: Administration, message: MetadataRequest, request: Request
) -> MetadataResponse | Prepared[MetadataResponse] | Coroutine[object, object, MetadataResponse]:
    """Return the metadata; at once, unless a topic is to be created first."""
    snapshot = admin.metadata.snapshot()
    wanted, listener = message.topics, request.connection.listener
    if wanted is None or (request.version == 0 and not wanted):  # Version 0 has no null.
        return _every_topic(snapshot, message, listener)
    missing = _to_create(admin, snapshot, message, wanted)
    if missing:
        return _after_creation(admin, message, wanted, request, missing)
    topics = _wanted_topics(snapshot, message, wanted, request.version, {})
    return _answer(snapshot, message, topics, listener)


def _operations(message: MetadataRequest) -> int:
    return TOPIC_OPERATIONS if message.include_topic_authorized_operations else NOT_ASKED


def _answer(
    snapshot: Snapshot, message: MetadataRequest, topics: Sequence[MetadataResponseTopic], listener: int
) -> MetadataResponse:
    asked = message.include_cluster_authorized_operations
    return MetadataResponse(
        brokers=tuple(
            MetadataResponseBroker(node_id=each.node_id, host=host, port=port, rack=each.rack)
            for each in snapshot.brokers
            for host, port in (each.address(listener),)
        ),
        cluster_id=snapshot.cluster_id,
        controller_id=snapshot.controller_id,
        topics=tuple(topics),
        cluster_authorized_operations=CLUSTER_OPERATIONS if asked else NOT_ASKED,
    )


# -- topics -----------------------------------------------------------------------------------------------


def _every_topic(snapshot: Snapshot, message: MetadataRequest, listener: int) -> Prepared[MetadataResponse]:
    """Return all topics; made once a snapshot, as every client asks for them again and again."""
    operations = _operations(message)
    key = ("Metadata", operations, message.include_cluster_authorized_operations, listener)
    found = snapshot.memo.get(key)
    if found is None:
        topics = [_described(snapshot, topic, operations) for topic in snapshot.topics.values()]
        found = snapshot.memo[key] = Prepared(_answer(snapshot, message, topics, listener))
    return cast("Prepared[MetadataResponse]", found)


def _wanted_topics(
    snapshot: Snapshot,
    message: MetadataRequest,
    wanted: Iterable[MetadataRequestTopic],
    version: int,
    errors: Errors,
) -> list[MetadataResponseTopic]:
    operations = _operations(message)
    return [_topic(snapshot, each, version, operations, errors) for each in dict.fromkeys(wanted)]


def _topic(
    snapshot: Snapshot, wanted: MetadataRequestTopic, version: int, operations: int, errors: Errors
) -> MetadataResponseTopic:
    if not _is_well_formed(wanted, version):
        name = wanted.name if version >= 12 else wanted.name or ""
        return _error(ErrorCode.INVALID_REQUEST, name, wanted)
    if wanted.topic_id != ZERO_UUID:
        topic = snapshot.topics_by_id.get(wanted.topic_id)
        if topic is None:
            return _error(ErrorCode.UNKNOWN_TOPIC_ID, None, wanted)
        return _described(snapshot, topic, operations)
    name = wanted.name or ""
    topic = snapshot.topics.get(name)
    if topic is not None:
        return _described(snapshot, topic, operations)
    if not is_valid_topic_name(name):
        return _error(ErrorCode.INVALID_TOPIC_EXCEPTION, name, wanted)
    return _error(errors.get(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), name, wanted)


def _is_well_formed(wanted: MetadataRequestTopic, version: int) -> bool:
    """Return whether it names a topic: by name, or from version 12 on by id."""
    if wanted.topic_id == ZERO_UUID:
        return wanted.name is not None
    return version >= 12


def _error(code: ErrorCode, name: str | None, wanted: MetadataRequestTopic) -> MetadataResponseTopic:
    return MetadataResponseTopic(error_code=code, name=name, topic_id=wanted.topic_id, partitions=())


def _described(snapshot: Snapshot, topic: TopicState, operations: int) -> MetadataResponseTopic:
    key = ("Metadata", topic.name, operations)
    found = snapshot.memo.get(key)
    if found is None:
        found = snapshot.memo[key] = MetadataResponseTopic(
            error_code=ErrorCode.NONE,
            name=topic.name,
            topic_id=topic.topic_id,
            is_internal=topic.is_internal,
            partitions=_partitions(topic, frozenset(each.node_id for each in snapshot.brokers)),
            topic_authorized_operations=operations,
        )
    return cast(MetadataResponseTopic, found)


def _partitions(topic: TopicState, live: frozenset[int]) -> tuple[MetadataResponsePartition, ...]:
    """Return the partitions; one whose leader is not among the live brokers has none, as with Kafka."""
    return tuple(
        MetadataResponsePartition(
            error_code=ErrorCode.NONE if each.leader in live else ErrorCode.LEADER_NOT_AVAILABLE,
            partition_index=each.index,
            leader_id=each.leader if each.leader in live else NO_LEADER,
            leader_epoch=each.leader_epoch,
            replica_nodes=each.replicas,
            isr_nodes=each.isr,
            offline_replicas=offline_replicas(each, live),
        )
        for each in topic.partitions
    )


# -- automatic creation -----------------------------------------------------------------------------------


def _to_create(
    admin: Administration,
    snapshot: Snapshot,
    message: MetadataRequest,
    wanted: Iterable[MetadataRequestTopic],
) -> list[str]:
    """Return the names that are not there and may be created because a client asks about them.

    Only the first of very many: a client that asks again, as for a missing topic, gets the others.
    """
    if not (message.allow_auto_topic_creation and admin.current.config.auto_create_topics_enable):
        return []
    missing = (
        each.name
        for each in dict.fromkeys(wanted)
        if each.name is not None
        and each.name not in snapshot.topics
        and each.topic_id == ZERO_UUID
        and is_valid_topic_name(each.name)
    )
    return list(islice(missing, AUTO_CREATED_MAX))


async def _after_creation(
    admin: Administration,
    message: MetadataRequest,
    wanted: Sequence[MetadataRequestTopic],
    request: Request,
    missing: Sequence[str],
) -> MetadataResponse:
    """Return the metadata with the new topics in it: the client need not ask again, as with Kafka."""
    outcomes = await admin.topics.auto_create(missing)
    errors = {name: each.code for name, each in outcomes.items() if isinstance(each, ApiError)}
    snapshot = admin.metadata.snapshot()
    topics = _wanted_topics(snapshot, message, wanted, request.version, errors)
    return _answer(snapshot, message, topics, request.connection.listener)
