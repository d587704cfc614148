"""The settings of coordinators: groups of all types, their offsets, and transactions.

Source: org.apache.kafka.coordinator.group.GroupCoordinatorConfig, ShareGroupConfig,
org.apache.kafka.coordinator.transaction.TransactionLogConfig.
"""

from kohort.broker.config.settings import BrokerSettings, setting
from kohort.broker.config.values import (
    BOOLEAN,
    INT,
    INT_MAX,
    LIST,
    LONG,
    SHORT,
    STRING,
    at_least,
    between,
    each_of,
    one_of_in_any_case,
)

SEGMENT_BYTES_MIN = 1048576
"""The least segment.bytes of a topic. Kafka accepts less for internal topics, but cannot create them then."""


class CoordinatorSettings(BrokerSettings):
    """Groups, their offsets, share partitions and transactions."""

    # -- groups and their offsets ---------------------------------------------------------------------

    group_initial_rebalance_delay_ms: int = setting(
        INT, 3000, "How long the first rebalance of an empty group waits for more members."
    )
    group_min_session_timeout_ms: int = setting(
        INT, 6000, "The shortest session timeout that a member may ask for."
    )
    group_max_session_timeout_ms: int = setting(
        INT, 1800000, "The longest session timeout that a member may ask for."
    )
    group_max_size: int = setting(
        INT, INT_MAX, "The largest number of members in a classic group.", at_least(1)
    )
    group_coordinator_rebalance_protocols: tuple[str, ...] = setting(
        LIST,
        ("classic", "consumer", "streams"),
        "The enabled rebalance protocols. Share groups are always enabled.",
        each_of("consumer", "classic", "share", "streams"),
    )
    kohort_group_version: int = setting(
        INT,
        1,
        "The level of the feature group.version. 0 disables consumer groups. Not in Kafka.",
        between(0, 1),
    )
    group_consumer_assignors: tuple[str, ...] = setting(
        LIST,
        ("uniform", "range"),
        "The assignors of consumer groups. The first is the default.",
        each_of("uniform", "range"),
    )
    group_consumer_assignment_interval_ms: int = setting(
        INT,
        1000,
        "The shortest time between two assignments of a consumer group.",
        at_least(0),
    )
    group_consumer_min_assignment_interval_ms: int = setting(
        INT, 0, "The least that consumer.assignment.interval.ms of a group may be.", at_least(0)
    )
    group_consumer_max_assignment_interval_ms: int = setting(
        INT, 15000, "The most that consumer.assignment.interval.ms of a group may be.", at_least(0)
    )
    group_consumer_heartbeat_interval_ms: int = setting(
        INT, 5000, "The heartbeat interval of members of consumer groups.", at_least(1)
    )
    group_consumer_min_heartbeat_interval_ms: int = setting(
        INT, 5000, "The least that consumer.heartbeat.interval.ms of a group may be.", at_least(1)
    )
    group_consumer_max_heartbeat_interval_ms: int = setting(
        INT, 15000, "The most that consumer.heartbeat.interval.ms of a group may be.", at_least(1)
    )
    group_consumer_session_timeout_ms: int = setting(
        INT, 45000, "The time without a heartbeat after which a consumer group removes a member.", at_least(1)
    )
    group_consumer_min_session_timeout_ms: int = setting(
        INT, 45000, "The least that consumer.session.timeout.ms of a group may be.", at_least(1)
    )
    group_consumer_max_session_timeout_ms: int = setting(
        INT, 60000, "The most that consumer.session.timeout.ms of a group may be.", at_least(1)
    )
    group_consumer_max_size: int = setting(
        INT, INT_MAX, "The largest number of members in a consumer group.", at_least(1)
    )
    group_consumer_migration_policy: str = setting(
        STRING,
        "bidirectional",
        "Which migrations between the classic and the consumer protocol are allowed for groups with members.",
        one_of_in_any_case("DISABLED", "DOWNGRADE", "UPGRADE", "BIDIRECTIONAL"),
    )
    group_consumer_regex_refresh_interval_ms: int = setting(
        INT,
        600000,
        "How often regular expressions are resolved again, even without new topics.",
        at_least(10000),
    )
    group_share_assignors: tuple[str, ...] = setting(
        LIST, ("simple",), "The assignors of share groups. There is only one.", each_of("simple")
    )
    group_share_session_timeout_ms: int = setting(
        INT, 45000, "The time without a heartbeat after which a share group removes a member.", at_least(1)
    )
    group_share_min_session_timeout_ms: int = setting(
        INT, 45000, "The least that share.session.timeout.ms of a group may be.", at_least(1)
    )
    group_share_max_session_timeout_ms: int = setting(
        INT, 60000, "The most that share.session.timeout.ms of a group may be.", at_least(1)
    )
    group_share_heartbeat_interval_ms: int = setting(
        INT, 5000, "The heartbeat interval of members of share groups.", at_least(1)
    )
    group_share_min_heartbeat_interval_ms: int = setting(
        INT, 5000, "The least that share.heartbeat.interval.ms of a group may be.", at_least(1)
    )
    group_share_max_heartbeat_interval_ms: int = setting(
        INT, 15000, "The most that share.heartbeat.interval.ms of a group may be.", at_least(1)
    )
    group_share_assignment_interval_ms: int = setting(
        INT,
        1000,
        "The shortest time between two assignments of a share group.",
        at_least(0),
    )
    group_share_min_assignment_interval_ms: int = setting(
        INT, 0, "The least that share.assignment.interval.ms of a group may be.", at_least(0)
    )
    group_share_max_assignment_interval_ms: int = setting(
        INT, 15000, "The most that share.assignment.interval.ms of a group may be.", at_least(0)
    )
    group_share_max_size: int = setting(
        INT, 200, "The largest number of members in a share group.", between(1, 1000)
    )
    group_share_max_share_sessions: int = setting(
        INT, 2000, "The largest number of share sessions on this broker.", at_least(1)
    )
    group_share_record_lock_duration_ms: int = setting(
        INT,
        30000,
        "How long a member of a share group holds the lock of an acquired record.",
        between(1000, 3600000),
    )
    group_share_min_record_lock_duration_ms: int = setting(
        INT, 15000, "The least that share.record.lock.duration.ms of a group may be.", between(1000, 30000)
    )
    group_share_max_record_lock_duration_ms: int = setting(
        INT, 60000, "The most that share.record.lock.duration.ms of a group may be.", between(30000, 3600000)
    )
    group_share_delivery_count_limit: int = setting(
        INT, 5, "How often a share group delivers a record before it archives it.", between(2, 10)
    )
    group_share_min_delivery_count_limit: int = setting(
        INT, 2, "The least that share.delivery.count.limit of a group may be.", between(2, 5)
    )
    group_share_max_delivery_count_limit: int = setting(
        INT, 10, "The most that share.delivery.count.limit of a group may be.", between(5, 25)
    )
    group_share_partition_max_record_locks: int = setting(
        INT, 2000, "How many records of a partition a share group may have in flight.", between(100, 10000)
    )
    group_share_min_partition_max_record_locks: int = setting(
        INT, 100, "The least that share.partition.max.record.locks of a group may be.", between(100, 2000)
    )
    group_share_max_partition_max_record_locks: int = setting(
        INT, 4000, "The most that share.partition.max.record.locks of a group may be.", between(2000, 10000)
    )
    errors_deadletterqueue_auto_create_topics_enable: bool = setting(
        BOOLEAN,
        False,
        "Whether missing dead letter topics of share groups are created.",
    )
    errors_deadletterqueue_topic_name_prefix: str = setting(
        STRING, "dlq.", "The required prefix of the names of dead letter topics."
    )
    share_coordinator_state_topic_num_partitions: int = setting(
        INT,
        50,
        "The number of partitions of __share_group_state. It is fixed when the topic is created.",
        at_least(1),
    )
    share_coordinator_state_topic_replication_factor: int = setting(
        SHORT,
        3,
        "The replication factor of __share_group_state. A single broker has one replica.",
        at_least(1),
    )
    share_coordinator_state_topic_min_isr: int = setting(
        SHORT, 2, "The min.insync.replicas of __share_group_state.", at_least(1)
    )
    share_coordinator_state_topic_segment_bytes: int = setting(
        INT, 104857600, "The segment size of __share_group_state.", at_least(SEGMENT_BYTES_MIN)
    )
    share_coordinator_state_topic_prune_interval_ms: int = setting(
        INT, 300000, "How often unneeded records of __share_group_state are deleted.", at_least(1)
    )
    share_coordinator_snapshot_update_records_per_snapshot: int = setting(
        INT,
        500,
        "After how many updates a snapshot of a share partition's state is written.",
        between(0, 500),
    )
    share_coordinator_write_timeout_ms: int = setting(
        INT, 5000, "How long an acknowledgement may wait for the write of its record.", at_least(1)
    )
    kohort_share_version: int = setting(
        INT,
        1,
        "The level of the feature share.version. 0 disables share groups. Not in Kafka.",
        between(0, 1),
    )
    group_streams_assignors: tuple[str, ...] = setting(
        LIST, ("sticky",), "The assignors of streams groups. There is only one.", each_of("sticky")
    )
    group_streams_session_timeout_ms: int = setting(
        INT, 45000, "The time without a heartbeat after which a streams group removes a member.", at_least(1)
    )
    group_streams_min_session_timeout_ms: int = setting(
        INT, 45000, "The least that streams.session.timeout.ms of a group may be.", at_least(1)
    )
    group_streams_max_session_timeout_ms: int = setting(
        INT, 60000, "The most that streams.session.timeout.ms of a group may be.", at_least(1)
    )
    group_streams_heartbeat_interval_ms: int = setting(
        INT, 5000, "The heartbeat interval of members of streams groups.", at_least(1)
    )
    group_streams_min_heartbeat_interval_ms: int = setting(
        INT, 5000, "The least that streams.heartbeat.interval.ms of a group may be.", at_least(1)
    )
    group_streams_max_heartbeat_interval_ms: int = setting(
        INT, 15000, "The most that streams.heartbeat.interval.ms of a group may be.", at_least(1)
    )
    group_streams_assignment_interval_ms: int = setting(
        INT,
        1000,
        "The shortest time between two assignments of a streams group.",
        at_least(0),
    )
    group_streams_min_assignment_interval_ms: int = setting(
        INT, 0, "The least that streams.assignment.interval.ms of a group may be.", at_least(0)
    )
    group_streams_max_assignment_interval_ms: int = setting(
        INT, 15000, "The most that streams.assignment.interval.ms of a group may be.", at_least(0)
    )
    group_streams_initial_rebalance_delay_ms: int = setting(
        INT,
        3000,
        "How long a new streams group waits for more members before its first assignment.",
        at_least(0),
    )
    group_streams_max_size: int = setting(
        INT, 2147483647, "The largest number of members in a streams group.", at_least(1)
    )
    group_streams_num_standby_replicas: int = setting(
        INT, 0, "The number of standby replicas of each stateful task in streams groups.", at_least(0)
    )
    group_streams_max_standby_replicas: int = setting(
        INT, 2, "The largest number of standby replicas that a streams group may set.", at_least(0)
    )
    group_streams_acceptable_recovery_lag: int = setting(
        LONG,
        10000,
        "The lag up to which a task's state counts as caught up. Members receive this value.",
        at_least(0),
    )
    group_streams_task_offset_interval_ms: int = setting(
        INT, 60000, "How often members report the offsets of their tasks, if they can.", at_least(1)
    )
    group_streams_min_task_offset_interval_ms: int = setting(
        INT, 15000, "The least that streams.task.offset.interval.ms of a group may be.", at_least(1)
    )
    kohort_streams_version: int = setting(
        INT,
        1,
        "The level of the feature streams.version. 0 disables streams groups. Not in Kafka.",
        between(0, 1),
    )
    offset_metadata_max_bytes: int = setting(
        INT, 4096, "The largest metadata of a committed offset, in bytes."
    )
    offsets_commit_timeout_ms: int = setting(
        INT, 5000, "How long a commit may wait for the write of its records.", at_least(1)
    )
    offsets_retention_minutes: int = setting(
        INT, 10080, "How long the offsets of a group without members are kept.", at_least(1)
    )
    offsets_retention_check_interval_ms: int = setting(
        LONG, 600000, "How often expired offsets are removed.", at_least(1)
    )
    offsets_topic_num_partitions: int = setting(
        INT,
        50,
        "The number of partitions of __consumer_offsets. It is fixed when the topic is created.",
        at_least(1),
    )
    offsets_topic_replication_factor: int = setting(
        SHORT,
        3,
        "The replication factor of __consumer_offsets. A single broker has one replica.",
        at_least(1),
    )
    offsets_topic_segment_bytes: int = setting(
        INT, 104857600, "The segment size of __consumer_offsets.", at_least(SEGMENT_BYTES_MIN)
    )

    add_partitions_to_txn_retry_backoff_ms: int = setting(
        INT,
        20,
        "How soon the broker retries to add a partition while the previous transaction is ending.",
        at_least(1),
    )
    add_partitions_to_txn_retry_backoff_max_ms: int = setting(
        INT,
        100,
        "How long the broker retries. After that the producer must retry.",
        at_least(0),
    )
    transaction_max_timeout_ms: int = setting(
        INT, 900_000, "The longest transaction timeout that a producer may ask for.", at_least(1)
    )
    transaction_remove_expired_transaction_cleanup_interval_ms: int = setting(
        INT, 3_600_000, "How often expired transactional ids are removed.", at_least(1)
    )
    transaction_state_log_min_isr: int = setting(
        INT,
        2,
        "The min.insync.replicas of __transaction_state in a cluster.",
        at_least(1),
    )
    transaction_state_log_num_partitions: int = setting(
        INT,
        50,
        "The number of partitions of __transaction_state. It is fixed when the topic is created.",
        at_least(1),
    )
    transaction_state_log_replication_factor: int = setting(
        SHORT,
        3,
        "The replication factor of __transaction_state. A single broker has one replica.",
        at_least(1),
    )
    transaction_state_log_segment_bytes: int = setting(
        INT, 104857600, "The segment size of __transaction_state.", at_least(SEGMENT_BYTES_MIN)
    )
    transactional_id_expiration_ms: int = setting(
        INT, 604_800_000, "How long an unused transactional id is kept.", at_least(1)
    )

    kohort_group_events_enable: bool = setting(
        BOOLEAN, True, "Whether events of groups are written to __group_events. Not in Kafka."
    )

    kohort_metrics_groups_max: int = setting(
        INT,
        1000,
        "The largest number of groups with their own metrics. Totals count all groups. Not in Kafka.",
        at_least(0),
    )
    kohort_metrics_partitions_max: int = setting(
        INT,
        5000,
        "The largest number of partitions with their own metrics, for groups and for logs. Not in Kafka.",
        at_least(0),
    )

    kohort_lag_interval_ms: int = setting(
        LONG,
        10000,
        "How often the lag and the verdict of each group are updated. Not in Kafka.",
        at_least(100),
    )
