"""The permissions of each API: one rule for each. docs/reference/authorization.md is generated from it.

Source: Kafka's KafkaApis and ControllerApis.
"""

from kohort.broker.handlers.authorization.administration import (
    AlterClientQuotas,
    AlterUserScramCredentials,
    Settings,
    with_cluster_operations,
)
from kohort.broker.handlers.authorization.groups import (
    Changed,
    FindCoordinator,
    Listed,
    OffsetFetch,
    Streamed,
    Subscribed,
    with_group_operations,
    with_seen_members,
    with_seen_topics,
    with_seen_topologies,
)
from kohort.broker.handlers.authorization.records import (
    AddPartitionsToTxn,
    Fetch,
    InitProducerId,
    ListOffsets,
    Produce,
)
from kohort.broker.handlers.authorization.refusals import Parts
from kohort.broker.handlers.authorization.rules import Each, Every, Free, Need, Rule, Whole
from kohort.broker.handlers.authorization.shares import (
    ACKNOWLEDGED,
    FETCHED,
    SharedTopics,
    with_seen_offsets,
)
from kohort.broker.handlers.authorization.topics import (
    CreateTopics,
    DeleteTopics,
    DescribeTopicPartitions,
    Metadata,
)
from kohort.protocol.acls import AclOperation, AclResourceType

READ, WRITE, DESCRIBE = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE
ALTER, DELETE, CLUSTER_ACTION = AclOperation.ALTER, AclOperation.DELETE, AclOperation.CLUSTER_ACTION
DESCRIBE_CONFIGS, ALTER_CONFIGS = AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS
TOPIC, GROUP, CLUSTER = AclResourceType.TOPIC, AclResourceType.GROUP, AclResourceType.CLUSTER
TRANSACTIONAL_ID = AclResourceType.TRANSACTIONAL_ID

FREE = Free()

_BY_INDEX = Parts("partitions", "partitions", ("partition_index",))
_TOPICS = Parts("topics", "topics", ("name",), _BY_INDEX)
_COMMITTED = _TOPICS._replace(same=("name", "topic_id"))
_LOW = _TOPICS._replace(inner=_BY_INDEX._replace(told={"low_watermark": -1}))
_EPOCHS = Parts("topics", "topics", ("topic",), Parts("partitions", "partitions", ("partition",)))
_PRODUCERS = Parts(
    "topics", "topics", ("name",), Parts("partition_indexes", "partitions", ("=partition_index",))
)
_MARKERS = Parts(
    "markers",
    "markers",
    ("producer_id",),
    Parts("topics", "topics", ("name",), Parts("partition_indexes", "partitions", ("=partition_index",))),
)
_ELECTED = Parts(
    "topic_partitions",
    "replica_election_results",
    ("topic",),
    Parts("partitions", "partition_result", ("=partition_id",), told={"error_message": None}),
)
_CREATED_ACLS = Parts("creations", "results", (), told={"error_message": None})
_DELETED_ACLS = Parts("filters", "filter_results", (), told={"error_message": None})
_SETTINGS = Parts("resources", "results", ("resource_type", "resource_name"), told={"error_message": None})
_ALTERED = _SETTINGS._replace(answered="responses")
_USERS = Parts("users", "results", ("name=user",), told={"error_message": None})
_GROUPS = Parts("groups", "groups", ("=group_id",))
_SHARE_GROUPS = Parts("groups", "groups", ("group_id",))
_SHARE_STATES = Parts("topics", "results", ("topic_id",), Parts("partitions", "partitions", ("partition",)))
_SHARE_TOPICS = Parts("topics", "responses", ("topic_name",))
_SHARE_OFFSETS = _SHARE_TOPICS._replace(inner=_BY_INDEX)
_TRANSACTIONS = Parts("transactional_ids", "transaction_states", ("=transactional_id",))


def _of_group(operation: AclOperation = READ, parts: Parts | None = None) -> Whole:
    return Whole(operation, on=GROUP, field="group_id", parts=parts)


def _of_transaction(parts: Parts | None = None) -> Whole:
    return Whole(WRITE, on=TRANSACTIONAL_ID, field="transactional_id", parts=parts)


_TOPICS_LEFT_OUT = Need((DESCRIBE,), TOPIC, "each of its topics", "it is left out")
_TOPICS_SEEN = Need(
    (DESCRIBE,), TOPIC, "each; where all are asked for, the others are left out", "TOPIC_AUTHORIZATION_FAILED"
)
_GROUP_HIDDEN = Need((DESCRIBE,), TOPIC, "every topic of a member", "TOPIC_AUTHORIZATION_FAILED")
_TOPOLOGY_HIDDEN = Need((DESCRIBE,), TOPIC, "every topic of the topology", "TOPIC_AUTHORIZATION_FAILED")
_OPERATIONS_HIDDEN = Need((DESCRIBE,), CLUSTER, "the cluster, for what may be done to it", "no operations")

RULES: dict[int, Rule] = {
    0: Produce(),
    1: Fetch(),
    2: ListOffsets(_TOPICS),
    3: Metadata(),
    8: Every(_of_group(parts=_COMMITTED), Each(READ, TOPIC, _COMMITTED)),
    9: OffsetFetch(),
    10: FindCoordinator(),
    11: _of_group(),
    12: _of_group(),
    13: _of_group(),
    14: _of_group(),
    15: Changed(Each(DESCRIBE, GROUP, _GROUPS, key=""), with_group_operations),
    16: Listed("groups", "group_id", GROUP, or_cluster=True),
    17: FREE,
    18: FREE,
    19: CreateTopics(),
    20: DeleteTopics(),
    21: Each(DELETE, TOPIC, _LOW),
    22: InitProducerId(),
    23: Each(DESCRIBE, TOPIC, _EPOCHS, key="topic", or_cluster=CLUSTER_ACTION),
    24: AddPartitionsToTxn(),
    25: Every(_of_transaction(), _of_group()),
    26: _of_transaction(),
    27: Whole(ALTER, CLUSTER_ACTION, parts=_MARKERS),
    28: Every(_of_transaction(_COMMITTED), _of_group(parts=_COMMITTED), Each(READ, TOPIC, _COMMITTED)),
    29: Whole(DESCRIBE),
    30: Whole(ALTER, parts=_CREATED_ACLS),
    31: Whole(ALTER, parts=_DELETED_ACLS),
    32: Settings(DESCRIBE_CONFIGS, _SETTINGS),
    33: Settings(ALTER_CONFIGS, _ALTERED),
    35: Whole(DESCRIBE),
    36: FREE,
    37: Each(ALTER, TOPIC, Parts("topics", "results", ("name",))),
    42: Each(DELETE, GROUP, Parts("groups_names", "results", ("=group_id",)), key=""),
    43: Whole(ALTER, parts=_ELECTED),
    44: Settings(ALTER_CONFIGS, _ALTERED),
    45: Whole(ALTER),
    46: Whole(DESCRIBE),
    47: Every(_of_group(DELETE), Each(READ, TOPIC, _TOPICS)),
    48: Whole(DESCRIBE_CONFIGS),
    49: AlterClientQuotas(),
    50: Whole(DESCRIBE, parts=_USERS),
    51: AlterUserScramCredentials(),
    60: Changed(FREE, with_cluster_operations, _OPERATIONS_HIDDEN),
    61: Each(READ, TOPIC, _PRODUCERS),
    64: Whole(ALTER),
    65: Changed(Each(DESCRIBE, TRANSACTIONAL_ID, _TRANSACTIONS, key=""), with_seen_topics, _TOPICS_LEFT_OUT),
    66: Listed("transaction_states", "transactional_id", TRANSACTIONAL_ID),
    68: Every(_of_group(), Subscribed()),
    69: Changed(
        Each(DESCRIBE, GROUP, _GROUPS._replace(asked="group_ids"), key=""), with_seen_members, _GROUP_HIDDEN
    ),
    71: FREE,
    72: FREE,
    74: Whole(DESCRIBE_CONFIGS),
    75: DescribeTopicPartitions(),
    76: Every(_of_group(), Subscribed()),
    77: Changed(
        Each(DESCRIBE, GROUP, _GROUPS._replace(asked="group_ids"), key=""), with_seen_members, _GROUP_HIDDEN
    ),
    78: Every(_of_group(), SharedTopics(FETCHED)),
    79: Every(_of_group(), SharedTopics(ACKNOWLEDGED)),
    83: Whole(CLUSTER_ACTION, parts=_SHARE_STATES),
    84: Whole(CLUSTER_ACTION, parts=_SHARE_STATES),
    85: Whole(CLUSTER_ACTION, parts=_SHARE_STATES),
    86: Whole(CLUSTER_ACTION, parts=_SHARE_STATES),
    87: Whole(CLUSTER_ACTION, parts=_SHARE_STATES),
    88: Every(_of_group(), Streamed()),
    89: Changed(
        Each(DESCRIBE, GROUP, _GROUPS._replace(asked="group_ids"), key=""),
        with_seen_topologies,
        _TOPOLOGY_HIDDEN,
    ),
    90: Changed(Each(DESCRIBE, GROUP, _SHARE_GROUPS, key="group_id"), with_seen_offsets, _TOPICS_SEEN),
    91: Every(_of_group(), Each(READ, TOPIC, _SHARE_OFFSETS, key="topic_name")),
    92: Every(_of_group(DELETE), Each(READ, TOPIC, _SHARE_TOPICS, key="topic_name")),
    30_001: Whole(CLUSTER_ACTION),  # Of brokers alone, as what follows.
    30_002: Whole(CLUSTER_ACTION),
}
