"""What coordinators go by: groups of every kind with their offsets, and transactions.

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
"""The least segment.bytes of a topic. Kafka takes less for internal topics, and then cannot create them."""


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
    group_max_size: int = setting(INT, INT_MAX, "How many members a group may have.", at_least(1))
    group_coordinator_rebalance_protocols: tuple[str, ...] = setting(
        LIST,
        ("classic", "consumer", "streams"),
        "The protocols that members of groups may speak; share groups are there in any case.",
        each_of("consumer", "classic", "share", "streams"),
    )
    kohort_group_version: int = setting(
        INT,
        1,
        "The level of the feature group.version: with 0 there are no consumer groups. Not in Kafka.",
        between(0, 1),
    )
    group_consumer_assignors: tuple[str, ...] = setting(
        LIST,
        ("uniform", "range"),
        "The assignors that consumer groups may ask for; the first is for those that ask for none.",
        each_of("uniform", "range"),
    )
    group_consumer_assignment_interval_ms: int = setting(
        INT,
        1000,
        "How long after an assignment a consumer group gets its next one at the earliest.",
        at_least(0),
    )
    group_consumer_min_assignment_interval_ms: int = setting(
        INT, 0, "The least that consumer.assignment.interval.ms of a group may be.", at_least(0)
    )
    group_consumer_max_assignment_interval_ms: int = setting(
        INT, 15000, "The most that consumer.assignment.interval.ms of a group may be.", at_least(0)
    )
    group_consumer_heartbeat_interval_ms: int = setting(
        INT, 5000, "How often members of consumer groups are asked to send heartbeats.", at_least(1)
    )
    group_consumer_min_heartbeat_interval_ms: int = setting(
        INT, 5000, "The least that consumer.heartbeat.interval.ms of a group may be.", at_least(1)
    )
    group_consumer_max_heartbeat_interval_ms: int = setting(
        INT, 15000, "The most that consumer.heartbeat.interval.ms of a group may be.", at_least(1)
    )
    group_consumer_session_timeout_ms: int = setting(
        INT, 45000, "After how long without a heartbeat a consumer group's member is put out.", at_least(1)
    )
    group_consumer_min_session_timeout_ms: int = setting(
        INT, 45000, "The least that consumer.session.timeout.ms of a group may be.", at_least(1)
    )
    group_consumer_max_session_timeout_ms: int = setting(
        INT, 60000, "The most that consumer.session.timeout.ms of a group may be.", at_least(1)
    )
    group_consumer_max_size: int = setting(
        INT, INT_MAX, "How many members a consumer group may have.", at_least(1)
    )
    group_consumer_migration_policy: str = setting(
        STRING,
        "bidirectional",
        "Which way groups with members may change between the classic and the consumer protocol.",
        one_of_in_any_case("DISABLED", "DOWNGRADE", "UPGRADE", "BIDIRECTIONAL"),
    )
    group_consumer_regex_refresh_interval_ms: int = setting(
        INT, 600000, "How often regular expressions are resolved anew in any case.", at_least(10000)
    )
    group_share_assignors: tuple[str, ...] = setting(
        LIST, ("simple",), "The assignors of share groups: there is one.", each_of("simple")
    )
    group_share_session_timeout_ms: int = setting(
        INT, 45000, "After how long without a heartbeat a share group's member is put out.", at_least(1)
    )
    group_share_min_session_timeout_ms: int = setting(
        INT, 45000, "The least that share.session.timeout.ms of a group may be.", at_least(1)
    )
    group_share_max_session_timeout_ms: int = setting(
        INT, 60000, "The most that share.session.timeout.ms of a group may be.", at_least(1)
    )
    group_share_heartbeat_interval_ms: int = setting(
        INT, 5000, "How often members of share groups are asked to send heartbeats.", at_least(1)
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
        "How long after an assignment a share group gets its next one at the earliest.",
        at_least(0),
    )
    group_share_min_assignment_interval_ms: int = setting(
        INT, 0, "The least that share.assignment.interval.ms of a group may be.", at_least(0)
    )
    group_share_max_assignment_interval_ms: int = setting(
        INT, 15000, "The most that share.assignment.interval.ms of a group may be.", at_least(0)
    )
    group_share_max_size: int = setting(
        INT, 200, "How many members a share group may have.", between(1, 1000)
    )
    group_share_max_share_sessions: int = setting(
        INT, 2000, "How many members of share groups may fetch from this broker.", at_least(1)
    )
    group_share_record_lock_duration_ms: int = setting(
        INT, 30000, "How long a record is its member's that a share group hands out.", between(1000, 3600000)
    )
    group_share_min_record_lock_duration_ms: int = setting(
        INT, 15000, "The least that share.record.lock.duration.ms of a group may be.", between(1000, 30000)
    )
    group_share_max_record_lock_duration_ms: int = setting(
        INT, 60000, "The most that share.record.lock.duration.ms of a group may be.", between(30000, 3600000)
    )
    group_share_delivery_count_limit: int = setting(
        INT, 5, "How often a share group hands out a record before it gives it up.", between(2, 10)
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
        "Whether topics for dead letters that share groups name are made where they are not.",
    )
    errors_deadletterqueue_topic_name_prefix: str = setting(
        STRING, "dlq.", "What the name of a topic for dead letters has to begin with."
    )
    share_coordinator_state_topic_num_partitions: int = setting(
        INT, 50, "The partitions of __share_group_state, fixed when it is made.", at_least(1)
    )
    share_coordinator_state_topic_replication_factor: int = setting(
        SHORT,
        3,
        "The replicas of each partition of __share_group_state; a broker alone holds one.",
        at_least(1),
    )
    share_coordinator_state_topic_min_isr: int = setting(
        SHORT, 2, "How many replicas of __share_group_state must have what is acknowledged.", at_least(1)
    )
    share_coordinator_state_topic_segment_bytes: int = setting(
        INT, 104857600, "The size of a segment of __share_group_state.", at_least(SEGMENT_BYTES_MIN)
    )
    share_coordinator_state_topic_prune_interval_ms: int = setting(
        INT, 300000, "How often what is not needed of __share_group_state is deleted.", at_least(1)
    )
    share_coordinator_snapshot_update_records_per_snapshot: int = setting(
        INT, 500, "After how many updates a share partition's state is written as a whole.", between(0, 500)
    )
    share_coordinator_write_timeout_ms: int = setting(
        INT, 5000, "How long an acknowledgement may wait for its record to be written.", at_least(1)
    )
    kohort_share_version: int = setting(
        INT,
        1,
        "The level of the feature share.version: with 0 there are no share groups. Not in Kafka.",
        between(0, 1),
    )
    group_streams_assignors: tuple[str, ...] = setting(
        LIST, ("sticky",), "The assignors of streams groups: there is one.", each_of("sticky")
    )
    group_streams_session_timeout_ms: int = setting(
        INT, 45000, "After how long without a heartbeat a streams group's member is put out.", at_least(1)
    )
    group_streams_min_session_timeout_ms: int = setting(
        INT, 45000, "The least that streams.session.timeout.ms of a group may be.", at_least(1)
    )
    group_streams_max_session_timeout_ms: int = setting(
        INT, 60000, "The most that streams.session.timeout.ms of a group may be.", at_least(1)
    )
    group_streams_heartbeat_interval_ms: int = setting(
        INT, 5000, "How often members of streams groups are asked to send heartbeats.", at_least(1)
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
        "How long after an assignment a streams group gets its next one at the earliest.",
        at_least(0),
    )
    group_streams_min_assignment_interval_ms: int = setting(
        INT, 0, "The least that streams.assignment.interval.ms of a group may be.", at_least(0)
    )
    group_streams_max_assignment_interval_ms: int = setting(
        INT, 15000, "The most that streams.assignment.interval.ms of a group may be.", at_least(0)
    )
    group_streams_initial_rebalance_delay_ms: int = setting(
        INT, 3000, "How long a new streams group waits for more members before it is assigned.", at_least(0)
    )
    group_streams_max_size: int = setting(
        INT, 2147483647, "How many members a streams group may have.", at_least(1)
    )
    group_streams_num_standby_replicas: int = setting(
        INT, 0, "How many copies of each task's state streams groups keep.", at_least(0)
    )
    group_streams_max_standby_replicas: int = setting(
        INT, 2, "How many copies of each task's state a streams group may keep.", at_least(0)
    )
    group_streams_acceptable_recovery_lag: int = setting(
        LONG,
        10000,
        "How far behind a copy of a task's state counts as caught up; members are told.",
        at_least(0),
    )
    group_streams_task_offset_interval_ms: int = setting(
        INT, 60000, "How often members tell how far their copies are, where they can.", at_least(1)
    )
    group_streams_min_task_offset_interval_ms: int = setting(
        INT, 15000, "The least that streams.task.offset.interval.ms of a group may be.", at_least(1)
    )
    kohort_streams_version: int = setting(
        INT,
        1,
        "The level of the feature streams.version: with 0 there are no streams groups. Not in Kafka.",
        between(0, 1),
    )
    offset_metadata_max_bytes: int = setting(
        INT, 4096, "The longest metadata that a committed offset may carry."
    )
    offsets_commit_timeout_ms: int = setting(
        INT, 5000, "How long a commit may wait for its records to be written.", at_least(1)
    )
    offsets_retention_minutes: int = setting(
        INT, 10080, "How long the offsets of a group without members are kept.", at_least(1)
    )
    offsets_retention_check_interval_ms: int = setting(
        LONG, 600000, "How often expired offsets are looked for.", at_least(1)
    )
    offsets_topic_num_partitions: int = setting(
        INT, 50, "The partitions of __consumer_offsets, fixed when it is made.", at_least(1)
    )
    offsets_topic_replication_factor: int = setting(
        SHORT,
        3,
        "The replicas of each partition of __consumer_offsets; a broker alone holds one.",
        at_least(1),
    )
    offsets_topic_segment_bytes: int = setting(
        INT, 104857600, "The segment size of __consumer_offsets.", at_least(SEGMENT_BYTES_MIN)
    )

    add_partitions_to_txn_retry_backoff_ms: int = setting(
        INT,
        20,
        "How soon a transaction's first records are tried again while the one before is being ended.",
        at_least(1),
    )
    add_partitions_to_txn_retry_backoff_max_ms: int = setting(
        INT,
        100,
        "How long they are tried again by the broker; then it is left to the producer.",
        at_least(0),
    )
    transaction_max_timeout_ms: int = setting(
        INT, 900_000, "The longest time that a producer may ask its transactions to stay open.", at_least(1)
    )
    transaction_remove_expired_transaction_cleanup_interval_ms: int = setting(
        INT, 3_600_000, "How often it is looked for transactional ids that nobody uses.", at_least(1)
    )
    transaction_state_log_min_isr: int = setting(
        INT,
        2,
        "The replicas that must have what is decided of a transaction, in a cluster: the min.insync.replicas "
        "of __transaction_state.",
        at_least(1),
    )
    transaction_state_log_num_partitions: int = setting(
        INT, 50, "The partitions of __transaction_state, fixed when it is made.", at_least(1)
    )
    transaction_state_log_replication_factor: int = setting(
        SHORT,
        3,
        "The replicas of each partition of __transaction_state; a broker alone holds one.",
        at_least(1),
    )
    transaction_state_log_segment_bytes: int = setting(
        INT, 104857600, "The segment size of __transaction_state.", at_least(SEGMENT_BYTES_MIN)
    )
    transactional_id_expiration_ms: int = setting(
        INT, 604_800_000, "How long a transactional id is kept that nobody uses.", at_least(1)
    )

    kohort_group_events_enable: bool = setting(
        BOOLEAN, True, "Whether what happens in groups is written to __group_events. Not in Kafka."
    )

    kohort_metrics_groups_max: int = setting(
        INT,
        1000,
        "How many groups have series of their own among the metrics; totals count all. Not in Kafka.",
        at_least(0),
    )
    kohort_metrics_partitions_max: int = setting(
        INT,
        5000,
        "How many partitions have series of their own among the metrics, of all groups together and of the "
        "logs. Not in Kafka.",
        at_least(0),
    )

    kohort_lag_interval_ms: int = setting(
        LONG,
        10000,
        "How often each group's commits are looked at to tell whether it keeps up. Not in Kafka.",
        at_least(100),
    )
