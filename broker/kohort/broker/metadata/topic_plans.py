"""Plans a new topic or more partitions of a topic, or explains why that is impossible.

Functions of a snapshot that change nothing. The order of the checks is that of Kafka's
ReplicationControlManager, so that a request with two errors gets the same one.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from uuid import UUID, uuid4

import msgspec

from kohort.broker.config import BrokerConfig, ConfigError, topic_config
from kohort.broker.metadata.partition_state import PartitionState
from kohort.broker.metadata.snapshot import OFFSETS_TOPIC, Snapshot, TopicState
from kohort.broker.metadata.topic_names import MetricNames, invalid, validate_topic_name
from kohort.protocol.errors import ApiError, ErrorCode

UNSET = -1
MAX_PARTITIONS_PER_REQUEST = 10_000  # Kafka's ReplicationControlManager.MAX_PARTITIONS_PER_BATCH.
METADATA_TOPIC = "__cluster_metadata"

Replicas = tuple[int, ...]


class NewTopic(msgspec.Struct, frozen=True):
    """A topic that is asked for. `assignments` are (partition, replicas) as the client gave them."""

    name: str
    partition_count: int = UNSET
    replication_factor: int = UNSET
    assignments: Sequence[tuple[int, Replicas]] = ()
    configs: Mapping[str, str | None] = msgspec.field(default_factory=dict)


Placement = Callable[[Snapshot, int, int, int], list[Replicas]]
"""Returns the brokers of so many partitions, with so many replicas each, from the first index.

Raises: ApiError INVALID_REPLICATION_FACTOR where there are fewer brokers than replicas.
"""


def place_in_turn(snapshot: Snapshot, count: int, factor: int, first: int = 0) -> list[Replicas]:
    """Return the brokers of `count` partitions, in turn, so that each leads as many as the others.

    Raises: ApiError INVALID_REPLICATION_FACTOR where there are fewer brokers than replicas.
    """
    nodes = [broker.node_id for broker in snapshot.brokers] or [snapshot.controller_id]
    if factor > len(nodes):
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"a replication factor of {factor} needs {factor} brokers, there are {len(nodes)}",
        )
    return [
        tuple(nodes[(index + replica) % len(nodes)] for replica in range(factor))
        for index in range(first, first + count)
    ]


def random_topic_id() -> UUID:
    """Return a new topic id; one whose text begins with a hyphen would look like a command's option."""
    while True:
        topic_id = uuid4()
        if topic_id.bytes[0] >> 2 != 62:  # 62 is the hyphen of base64url.
            return topic_id


def plan_topic(
    snapshot: Snapshot,
    new: NewTopic,
    config: BrokerConfig,
    taken: MetricNames,
    place: Placement = place_in_turn,
) -> TopicState:
    """Return the state that the new topic would have; `taken` are the names of all others.

    Raises: ApiError with the reason why not.
    """
    if new.name == METADATA_TOPIC:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"the topic {METADATA_TOPIC} can't be created by hand")
    validate_topic_name(new.name)
    if new.name in snapshot.topics:
        raise ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{new.name}' already exists.")
    collision = taken.colliding(new.name)
    if collision is not None:
        raise invalid(f"Topic '{new.name}' collides with existing topic: {collision}")
    configs = check_topic_configs(config, new.configs)
    check_keeps_offsets(config, new.name, configs)
    replicas = _assigned(snapshot, new) if new.assignments else _placed(snapshot, new, config, place)
    return TopicState(new.name, random_topic_id(), partitions_of(replicas), configs)


def check_topic_configs(config: BrokerConfig, configs: Mapping[str, str | None]) -> dict[str, str]:
    """Return the configs, each known and within its limits. Raises: ApiError INVALID_CONFIG."""
    given = {}
    for name, value in configs.items():
        if value is None:
            raise ApiError(ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {name}")
        given[name] = value
    try:
        topic_config(config, given)
    except ConfigError as error:
        raise ApiError(ErrorCode.INVALID_CONFIG, str(error)) from error
    return given


def check_keeps_offsets(config: BrokerConfig, topic: str, configs: Mapping[str, str]) -> None:
    """Return unless this is the offsets topic, and retention would delete committed offsets.

    Kafka takes such a setting. Raises: ApiError INVALID_CONFIG.
    """
    if topic == OFFSETS_TOPIC and topic_config(config, dict(configs)).cleanup_policy != ("compact",):
        raise ApiError(
            ErrorCode.INVALID_CONFIG,
            f"cleanup.policy of {OFFSETS_TOPIC} must be compact: anything else deletes the groups' offsets",
        )


def partitions_of(replicas: Iterable[Replicas], first: int = 0) -> tuple[PartitionState, ...]:
    """Return new partitions, each led by the first of its replicas; all its replicas are in sync."""
    return tuple(
        PartitionState(index, leader=nodes[0], leader_epoch=0, replicas=nodes, isr=nodes)
        for index, nodes in enumerate(replicas, first)
    )


def _assigned(snapshot: Snapshot, new: NewTopic) -> list[Replicas]:
    """Return the replicas that the client chose for each partition. Raises: ApiError."""
    if new.replication_factor != UNSET:
        raise ApiError(ErrorCode.INVALID_REQUEST, "with an assignment the replication factor must be -1")
    if new.partition_count != UNSET:
        raise ApiError(ErrorCode.INVALID_REQUEST, "with an assignment the number of partitions must be -1")
    by_index: dict[int, Replicas] = {}
    for index, nodes in new.assignments:
        if index in by_index:
            raise _bad_assignment(f"partition {index} is assigned more than once")
        by_index[index] = nodes
    if sorted(by_index) != list(range(len(by_index))):
        raise _bad_assignment("the assigned partitions must be 0, 1, 2 and so on without a gap")
    replicas = [by_index[index] for index in range(len(by_index))]
    check_assignments(snapshot, replicas, len(replicas[0]))
    return replicas


def check_assignments(snapshot: Snapshot, replicas: Sequence[Replicas], factor: int) -> None:
    """Return if partitions can be put on these brokers, as many of them each.

    Raises: ApiError INVALID_REPLICA_ASSIGNMENT.
    """
    for nodes in replicas:
        _check_assignment(snapshot, nodes)
        if len(nodes) != factor:
            raise _bad_assignment(
                f"a partition is assigned to {len(nodes)} broker(s), and others of the topic to {factor}"
            )


def _check_assignment(snapshot: Snapshot, nodes: Replicas) -> None:
    known = {broker.node_id for broker in snapshot.brokers}
    if not nodes:
        raise _bad_assignment("a partition is assigned to no broker")
    for node_id in nodes:
        if node_id not in known:
            raise _bad_assignment(f"a partition is assigned to broker {node_id}, which is not in the cluster")
    if len(set(nodes)) != len(nodes):
        raise _bad_assignment("a partition is assigned to the same broker more than once")


def _bad_assignment(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)


def _placed(snapshot: Snapshot, new: NewTopic, config: BrokerConfig, place: Placement) -> list[Replicas]:
    """Return the replicas that we choose for each partition. Raises: ApiError."""
    factor, count = new.replication_factor, new.partition_count
    if factor < UNSET or factor == 0:
        raise ApiError(ErrorCode.INVALID_REPLICATION_FACTOR, "the replication factor must be above 0, or -1")
    if count < UNSET or count == 0:
        raise ApiError(ErrorCode.INVALID_PARTITIONS, "the number of partitions must be above 0, or -1")
    factor = config.default_replication_factor if factor == UNSET else factor
    count = config.num_partitions if count == UNSET else count
    check_partition_count(count)
    return place(snapshot, count, factor, 0)


def check_partition_count(count: int) -> None:
    """Return if one request may make so many partitions. Raises: ApiError POLICY_VIOLATION."""
    if count > MAX_PARTITIONS_PER_REQUEST:
        raise ApiError(
            ErrorCode.POLICY_VIOLATION, f"one request makes at most {MAX_PARTITIONS_PER_REQUEST} partitions"
        )


def plan_partitions(
    topic: TopicState,
    snapshot: Snapshot,
    count: int,
    assignments: Sequence[Replicas] | None,
    place: Placement = place_in_turn,
) -> TopicState:
    """Return the topic with `count` partitions in all. Raises: ApiError with the reason why not."""
    present = len(topic.partitions)
    if count <= present:
        raise ApiError(
            ErrorCode.INVALID_PARTITIONS,
            f"Topic {topic.name} already has {present} partition(s): {count} would be no increase.",
        )
    added = count - present
    check_partition_count(added)
    if assignments is None:
        replicas = place(snapshot, added, len(topic.partitions[0].replicas), present)
    else:
        if len(assignments) != added:
            raise _bad_assignment(f"{added} partition(s) are to be added, {len(assignments)} are assigned")
        check_assignments(snapshot, assignments, len(topic.partitions[0].replicas))
        replicas = list(assignments)
    return TopicState(
        topic.name, topic.topic_id, (*topic.partitions, *partitions_of(replicas, present)), topic.configs
    )
