"""Topics are created, deleted and given more partitions: decided on the newest snapshot, changed at once."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

from kohort.broker.config import BrokerConfig
from kohort.broker.group.events import GROUP_EVENTS_TOPIC
from kohort.broker.metadata.snapshot import (
    OFFSETS_TOPIC,
    Mutation,
    Snapshot,
    TopicState,
)
from kohort.broker.metadata.store import update
from kohort.broker.metadata.topic_plans import (
    NewTopic,
    Replicas,
    check_partition_count,
    plan_partitions,
    plan_topic,
)
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.storage import StorageError

if TYPE_CHECKING:
    from kohort.broker.broker import Broker

GROUP_EVENTS_PARTITIONS = 1  # One broker writes them all: one file, and one order of everything.
HOUR_MS = 3_600_000
MIB = 1024 * 1024
LONG_MAX = 2**63 - 1

Outcome = TopicState | ApiError
"""What a topic has become, or would become; or why nothing becomes of it."""


@dataclass(frozen=True, slots=True)
class MorePartitions:
    """The number of partitions that a topic shall have in all, and where the new ones shall be."""

    name: str
    count: int
    assignments: Sequence[Replicas] | None = None


def duplicate(what: object) -> ApiError:
    """Return the error for what one request names twice."""
    return ApiError(ErrorCode.INVALID_REQUEST, f"{what} is named more than once in the request")


# -- create -----------------------------------------------------------------------------------------------


async def create_topics(
    broker: "Broker", topics: Sequence[NewTopic], *, validate_only: bool = False
) -> dict[str, Outcome]:
    """Return the outcome of each topic by name; those that can be created are created together."""
    outcomes: dict[str, Outcome] = {}

    def decide(snapshot: Snapshot) -> Mutation:
        outcomes.clear()
        outcomes.update(_plan_topics(snapshot, topics, broker.config))
        return Mutation() if validate_only else Mutation(put=_good(outcomes))

    try:
        await update(broker.metadata, decide)
    except StorageError as error:
        return _failed(outcomes, error)
    await _ready(broker, outcomes)
    return outcomes


async def _ready(broker: "Broker", outcomes: dict[str, Outcome]) -> None:
    """Return once the new partitions have their logs, so that the first produce finds them open."""
    for topic in _good(outcomes):
        await broker.partitions.ready(topic.name)


def _failed(outcomes: dict[str, Outcome], error: StorageError) -> dict[str, Outcome]:
    """Return the outcomes where the disk did not take the change."""
    return {
        name: storage_error(error) if isinstance(each, TopicState) else each
        for name, each in outcomes.items()
    }


def storage_error(error: StorageError) -> ApiError:
    """Return what a client is told of a disk that fails."""
    return ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))


def _good(outcomes: dict[str, Outcome]) -> tuple[TopicState, ...]:
    return tuple(outcome for outcome in outcomes.values() if isinstance(outcome, TopicState))


def _plan_topics(snapshot: Snapshot, topics: Sequence[NewTopic], config: BrokerConfig) -> dict[str, Outcome]:
    outcomes: dict[str, Outcome] = {}
    count = 0
    for new in topics:
        if new.name in outcomes:
            outcomes[new.name] = duplicate(f"topic {new.name}")
            continue
        try:
            topic = plan_topic(snapshot, new, config, also=outcomes)
            check_partition_count(count + len(topic.partitions))
            outcomes[new.name] = topic
            count += len(topic.partitions)
        except ApiError as error:
            outcomes[new.name] = error
    return outcomes


async def ensure_topic(broker: "Broker", new: NewTopic) -> TopicState:
    """Return the topic, which is created if it is not there yet.

    Raises: ApiError if it can't be created.
    """
    present = broker.metadata.snapshot().topics.get(new.name)
    if present is not None:
        return present
    outcome = (await create_topics(broker, [new]))[new.name]
    if isinstance(outcome, TopicState):
        return outcome
    # Somebody else may have created it in between: then it is there, and that is what was wanted.
    present = broker.metadata.snapshot().topics.get(new.name)
    if present is None:
        raise outcome
    return present


async def ensure_offsets_topic(broker: "Broker") -> TopicState:
    """Return `__consumer_offsets`, created as the broker's configuration says if it is not there yet.

    Raises: ApiError if it can't be created.
    """
    return await ensure_topic(broker, offsets_topic(broker))


def offsets_topic(broker: "Broker") -> NewTopic:
    """Return what `__consumer_offsets` is created with. Source: Kafka's GroupCoordinatorService."""
    return NewTopic(
        OFFSETS_TOPIC,
        broker.config.offsets_topic_num_partitions,
        broker.config.offsets_topic_replication_factor,
        configs={
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(broker.config.offsets_topic_segment_bytes),
        },
    )


async def ensure_group_events_topic(broker: "Broker") -> TopicState:
    """Return `__group_events`, created if it is not there yet.

    Raises: ApiError if it can't be created.
    """
    return await ensure_topic(broker, group_events_topic())


def group_events_topic() -> NewTopic:
    """Return what `__group_events` is created with: a week of history at most, written without a sync."""
    return NewTopic(
        GROUP_EVENTS_TOPIC,
        GROUP_EVENTS_PARTITIONS,
        1,
        configs={
            "cleanup.policy": "delete",
            "retention.ms": str(7 * 24 * HOUR_MS),
            "retention.bytes": str(128 * MIB),
            "segment.bytes": str(16 * MIB),
            "flush.messages": str(LONG_MAX),
        },
    )


async def auto_create_topics(broker: "Broker", names: Sequence[str]) -> dict[str, Outcome]:
    """Return the outcome of each topic that a client asked about, created with the broker's defaults."""
    own = {OFFSETS_TOPIC: offsets_topic(broker), GROUP_EVENTS_TOPIC: group_events_topic()}
    return await create_topics(broker, [own.get(name, NewTopic(name)) for name in names])


# -- delete -----------------------------------------------------------------------------------------------


async def delete_topics(broker: "Broker", wanted: Sequence[str | UUID]) -> list[tuple[str | UUID, Outcome]]:
    """Return the outcome for each name or id, in order: the topic that was deleted, or an error.

    Its partitions go with it, and the groups forget their offsets in it.
    """
    outcomes: list[tuple[str | UUID, Outcome]] = []

    def decide(snapshot: Snapshot) -> Mutation:
        outcomes[:] = [(each, _deletable(snapshot, each)) for each in wanted]
        return Mutation(delete=_names(outcomes))

    try:
        await update(broker.metadata, decide)
    except StorageError as error:
        failed = storage_error(error)
        return [(each, failed if isinstance(outcome, TopicState) else outcome) for each, outcome in outcomes]
    if names := frozenset(_names(outcomes)):
        broker.coordinators.topics_deleted(names)
    return outcomes


def _names(outcomes: Sequence[tuple[str | UUID, Outcome]]) -> tuple[str, ...]:
    deleted = (outcome.name for _, outcome in outcomes if isinstance(outcome, TopicState))
    return tuple(dict.fromkeys(deleted))


def _deletable(snapshot: Snapshot, wanted: str | UUID) -> Outcome:
    if isinstance(wanted, UUID):
        topic = snapshot.topics_by_id.get(wanted)
        missing = ErrorCode.UNKNOWN_TOPIC_ID
    else:
        topic = snapshot.topics.get(wanted)
        missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if topic is None:
        return ApiError(missing, f"there is no topic {wanted}")
    return internal_error(topic) if topic.name == OFFSETS_TOPIC else topic


def internal_error(topic: TopicState) -> ApiError:
    """Return the error for a change that would lose every group's offsets or find them no more."""
    return ApiError(ErrorCode.INVALID_REQUEST, f"{topic.name} holds the groups' offsets and must stay")


# -- more partitions --------------------------------------------------------------------------------------


async def create_partitions(
    broker: "Broker", wanted: Sequence[MorePartitions], *, validate_only: bool = False
) -> dict[str, Outcome]:
    """Return the outcome for each topic by name; those that can grow do so together."""
    outcomes: dict[str, Outcome] = {}

    def decide(snapshot: Snapshot) -> Mutation:
        outcomes.clear()
        for each in wanted:
            known = each.name in outcomes
            outcomes[each.name] = duplicate(f"topic {each.name}") if known else _grown(snapshot, each)
        return Mutation() if validate_only else Mutation(put=_good(outcomes))

    try:
        await update(broker.metadata, decide)
    except StorageError as error:
        return _failed(outcomes, error)
    await _ready(broker, outcomes)
    return outcomes


def _grown(snapshot: Snapshot, wanted: MorePartitions) -> Outcome:
    topic = snapshot.topics.get(wanted.name)
    if topic is None:
        return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {wanted.name}")
    if topic.name == OFFSETS_TOPIC:
        return internal_error(topic)
    try:
        return plan_partitions(topic, snapshot, wanted.count, wanted.assignments)
    except ApiError as error:
        return error
