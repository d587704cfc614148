"""The broker's own settings, under Kafka's names.

Defaults and limits are those of org.apache.kafka.server.config and its neighbours in Apache Kafka 4.4;
where kohort's default is another one, `kafka_default` says Kafka's.
"""

import sys
from collections.abc import Mapping

from kohort.broker.config.group_bounds import check_broker
from kohort.broker.config.settings import Settings, setting
from kohort.broker.config.values import (
    INT_MAX,
    LONG_MAX,
    ConfigError,
    ConfigSource,
    ConfigType,
    ConfigValue,
    Validator,
    at_least,
    between,
    between_or,
    each_of,
    one_of,
    one_of_in_any_case,
    render,
)

BOOLEAN, STRING, INT, SHORT, LONG, DOUBLE, LIST, PASSWORD = ConfigType
STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
HOUR_MS = 3_600_000
MINUTE_MS = 60_000


class BrokerConfig(Settings):
    """Every setting of the broker; `log_retention_ms` is Kafka's `log.retention.ms`, and so on."""

    KIND = "broker"
    READ_ONLY = True

    # -- who and where --------------------------------------------------------------------------------

    node_id: int = setting(
        INT, 1, "The number by which clients know this broker.", at_least(0), kafka_default="<required>"
    )
    broker_id: int = setting(INT, -1, "The old name of node.id; -1 leaves the choice to node.id.")
    broker_rack: str | None = setting(STRING, None, "The rack that this broker stands in, as clients see it.")

    # -- the cluster ----------------------------------------------------------------------------------

    kohort_cluster: str | None = setting(
        STRING,
        None,
        "The cluster that this broker belongs to, as etcd://HOST:PORT,HOST:PORT/NAME; without it the broker "
        "is alone. Not in Kafka.",
    )
    kohort_workers: int = setting(
        INT,
        1,
        "How many processes serve, each of them a broker of this host, behind one address: --workers. Not in "
        "Kafka.",
    )
    kohort_etcd_user: str | None = setting(
        STRING, None, "The user that this broker is to etcd. Not in Kafka."
    )
    kohort_etcd_password_file: str | None = setting(
        STRING, None, "A file with the password of kohort.etcd.user. Not in Kafka."
    )
    kohort_etcd_ssl_ca_file: str | None = setting(
        STRING,
        None,
        "The certificates, in PEM, that etcd's is checked with; without it the system's. Not in Kafka.",
    )
    kohort_etcd_ssl_certificate_file: str | None = setting(
        STRING, None, "The certificate, in PEM, that this broker shows to etcd. Not in Kafka."
    )
    kohort_etcd_ssl_key_file: str | None = setting(
        STRING, None, "The key of that certificate; without it the certificate's file has it. Not in Kafka."
    )
    kohort_etcd_request_timeout_ms: int = setting(
        INT,
        5000,
        "How long etcd, all endpoints together, may take for an answer. Not in Kafka.",
        at_least(100),
    )
    kohort_drained: bool = setting(
        BOOLEAN,
        False,
        "Whether this broker of a cluster leads only what no other can; it goes on to hold replicas. "
        "Not in Kafka.",
        read_only=False,
    )
    broker_session_timeout_ms: int = setting(
        INT,
        9000,
        "How long a broker of a cluster is taken for alive without a sign of it; it stops by itself before.",
    )
    broker_heartbeat_interval_ms: int = setting(
        INT, 2000, "How often a broker of a cluster gives a sign of life."
    )
    controlled_shutdown_enable: bool = setting(
        BOOLEAN, True, "Whether others lead what a broker leads before it stops."
    )
    auto_leader_rebalance_enable: bool = setting(
        BOOLEAN,
        True,
        "Whether the controller lets preferred leaders lead again where another leads more than a tenth of "
        "what a broker should.",
    )
    leader_imbalance_check_interval_seconds: int = setting(
        LONG, 300, "How often the controller looks whether preferred leaders lead.", at_least(1)
    )
    leader_replication_throttled_rate: int = setting(
        LONG,
        LONG_MAX,
        "How many bytes a second a leader sends of the replicas that a topic names as throttled.",
        at_least(0),
        read_only=False,
    )
    follower_replication_throttled_rate: int = setting(
        LONG,
        LONG_MAX,
        "How many bytes a second a follower takes of the replicas that a topic names as throttled.",
        at_least(0),
        read_only=False,
    )
    replica_alter_log_dirs_io_max_bytes_per_second: int = setting(
        LONG,
        LONG_MAX,
        "How many bytes a second move between the data folders of a broker; kohort has one folder.",
        at_least(0),
        read_only=False,
    )

    # -- connections and requests ---------------------------------------------------------------------

    socket_request_max_bytes: int = setting(
        INT, 104857600, "The largest request; a larger one closes its connection.", at_least(1)
    )
    socket_send_buffer_bytes: int = setting(
        INT,
        -1,
        "The kernel's send buffer of a connection; -1 leaves it to the kernel.",
        kafka_default="102400",
    )
    socket_receive_buffer_bytes: int = setting(
        INT,
        -1,
        "The kernel's receive buffer of a connection; -1 leaves it to the kernel.",
        kafka_default="102400",
    )
    socket_listen_backlog_size: int = setting(
        INT, 1024, "How many connections may wait to be accepted.", at_least(1), kafka_default="50"
    )
    connections_max_idle_ms: int = setting(
        LONG, 600000, "A connection that asks nothing for so long is closed; a negative value keeps it open."
    )
    max_connections: int = setting(
        INT, INT_MAX, "How many connections may be open at once.", at_least(0), read_only=False
    )
    max_connections_per_ip: int = setting(
        INT,
        INT_MAX,
        "How many connections one address may have open at once.",
        at_least(0),
        read_only=False,
    )
    queued_max_requests: int = setting(
        INT, 500, "How many requests may be in flight before the broker reads no more of them.", at_least(1)
    )
    queued_max_request_bytes: int = setting(
        LONG,
        83886080,
        "How many bytes all connections may hold together: requests until they are answered, and answers "
        "until they are taken. Each may hold what is still free; -1 sets no limit.",
        kafka_default="-1",
    )
    request_timeout_ms: int = setting(
        INT, 30000, "How long an answer may wait for something else before it is given up."
    )
    fetch_max_bytes: int = setting(
        INT, 57671680, "The most bytes that one fetch answers with.", at_least(1024)
    )
    max_incremental_fetch_session_cache_slots: int = setting(
        INT, 1000, "How many incremental fetch sessions are kept.", at_least(0)
    )
    max_request_partition_size_limit: int = setting(
        INT, 2000, "The most partitions that one DescribeTopicPartitions answers with.", at_least(1)
    )

    kohort_http_messages_enable: bool = setting(
        BOOLEAN,
        True,
        "Whether the live page at the HTTP address may show records of topics. Not in Kafka.",
        read_only=False,
    )
    kohort_http_writes_enable: bool = setting(
        BOOLEAN,
        False,
        "Whether the live page may delete groups, reset offsets of empty ones and remove members: "
        "--http-allow-writes. Not in Kafka.",
    )
    kohort_http_security_protocol: str = setting(
        STRING,
        "PLAINTEXT",
        "What the HTTP address speaks: PLAINTEXT, or SSL by the certificates of ssl.keystore.*. "
        "Not in Kafka.",
        one_of("PLAINTEXT", "SSL"),
    )
    kohort_http_credentials_file: str | None = setting(
        STRING,
        None,
        "A file with NAME:SECRET, one a line: who shows none of these by Basic or as a Bearer token sees "
        "no page. Not in Kafka.",
    )
    kohort_http_allowed_hosts: tuple[str, ...] = setting(
        LIST,
        (),
        "Further names by which HTTP clients may call this broker, such as a service's; * allows all. "
        "Not in Kafka.",
    )

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
        INT, 104857600, "The size of a segment of __share_group_state.", at_least(1)
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
        INT, 104857600, "The segment size of __consumer_offsets.", at_least(1)
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
        INT, 104857600, "The segment size of __transaction_state.", at_least(1)
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

    # -- topics ---------------------------------------------------------------------------------------

    auto_create_topics_enable: bool = setting(
        BOOLEAN, True, "Whether a topic is made when a client asks for one that is not there."
    )
    delete_topic_enable: bool = setting(BOOLEAN, True, "Whether topics may be deleted.")
    num_partitions: int = setting(
        INT, 1, "The partitions of a topic that is made without a number.", at_least(1)
    )
    default_replication_factor: int = setting(
        INT, 1, "The replicas of a topic that is made without a number."
    )
    min_insync_replicas: int = setting(
        INT,
        1,
        "How many replicas must hold a record that acks=all acknowledges.",
        at_least(1),
        read_only=False,
    )
    unclean_leader_election_enable: bool = setting(
        BOOLEAN, False, "Whether a replica that lags behind may lead when no other can.", read_only=False
    )
    replica_lag_time_max_ms: int = setting(
        LONG, 30000, "How long a replica may lack something until it is out of sync."
    )
    replica_fetch_max_bytes: int = setting(
        INT, 1048576, "How much of one partition a follower asks for at once.", at_least(0)
    )
    replica_fetch_response_max_bytes: int = setting(
        INT, 10485760, "How much of all partitions of one leader a follower asks for at once.", at_least(0)
    )
    replica_fetch_wait_max_ms: int = setting(
        INT, 500, "How long a leader may wait with its answer to a follower until there is something new."
    )
    replica_fetch_backoff_ms: int = setting(
        INT, 1000, "How long a follower waits where its leader does not answer.", at_least(0)
    )
    replica_socket_timeout_ms: int = setting(
        INT, 30000, "How long a follower waits for an answer of its leader."
    )
    replica_selector_class: str | None = setting(
        STRING,
        None,
        "With the name of Kafka's RackAwareReplicaSelector consumers are sent to a replica in their rack.",
    )
    message_max_bytes: int = setting(
        INT, 1048588, "The largest record batch, as it was compressed.", at_least(0), read_only=False
    )
    max_decompressed_message_bytes: int = setting(
        INT,
        2147483639,
        "The largest record batch once decompressed.",
        between(1, 2147483639),
        read_only=False,
    )
    compression_type: str = setting(
        STRING,
        "producer",
        "The compression of a topic's batches; producer keeps what the producer chose.",
        one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        read_only=False,
    )
    compression_gzip_level: int = setting(
        INT, -1, "The level of gzip, -1 for its default.", between_or(1, 9, -1), read_only=False
    )
    compression_lz4_level: int = setting(INT, 9, "The level of lz4.", between(1, 17), read_only=False)
    compression_zstd_level: int = setting(INT, 3, "The level of zstd.", between(-131072, 22), read_only=False)

    # -- the log --------------------------------------------------------------------------------------

    log_segment_bytes: int = setting(
        INT, 1073741824, "The size at which a log begins a new segment.", at_least(1048576), read_only=False
    )
    log_roll_hours: int = setting(
        INT, 168, "The age at which a log begins a new segment, in hours.", at_least(1)
    )
    log_roll_ms: int | None = setting(
        LONG,
        None,
        "The age at which a log begins a new segment; without it log.roll.hours counts.",
        read_only=False,
    )
    log_roll_jitter_hours: int = setting(
        INT, 0, "How much earlier, at random, a segment may end, in hours.", at_least(0)
    )
    log_roll_jitter_ms: int | None = setting(
        LONG,
        None,
        "How much earlier, at random, a segment may end; without it log.roll.jitter.hours counts.",
        read_only=False,
    )
    log_index_interval_bytes: int = setting(
        INT, 4096, "How many bytes of batches lie between two index entries.", at_least(0), read_only=False
    )
    log_index_size_max_bytes: int = setting(
        INT, 10485760, "The largest index file of a segment.", at_least(4), read_only=False
    )
    log_retention_bytes: int = setting(
        LONG,
        -1,
        "How large a partition may grow before its oldest segments go; -1 sets no limit.",
        read_only=False,
    )
    log_retention_hours: int = setting(INT, 168, "How long records are kept, in hours; -1 keeps them.")
    log_retention_minutes: int | None = setting(
        INT, None, "How long records are kept, in minutes; without it log.retention.hours counts."
    )
    log_retention_ms: int | None = setting(
        LONG,
        None,
        "How long records are kept; without it log.retention.minutes counts. -1 keeps them.",
        read_only=False,
    )
    log_retention_check_interval_ms: int = setting(
        LONG, 300000, "How often segments that may go are looked for.", at_least(1)
    )
    log_initial_task_delay_ms: int = setting(
        LONG, 30000, "How long after the start old segments are looked for the first time.", at_least(0)
    )
    log_segment_delete_delay_ms: int = setting(
        LONG,
        60000,
        "How long the files of a deleted segment stay, renamed, on the disk.",
        at_least(0),
        read_only=False,
    )
    log_cleanup_policy: tuple[str, ...] = setting(
        LIST,
        ("delete",),
        "What becomes of old segments: delete drops them, compact keeps the newest record of each key.",
        each_of("compact", "delete"),
        read_only=False,
    )
    log_flush_interval_messages: int = setting(
        LONG,
        1,
        "After how many records a log is synced to the disk; 1 answers nobody before the sync.",
        at_least(1),
        read_only=False,
        kafka_default=str(LONG_MAX),
    )
    log_flush_interval_ms: int | None = setting(
        LONG,
        None,
        "The longest that a record waits for the sync; without it log.flush.scheduler.interval.ms counts.",
        read_only=False,
    )
    log_flush_scheduler_interval_ms: int = setting(
        LONG, LONG_MAX, "How often logs that are due for a sync are looked for."
    )
    log_flush_offset_checkpoint_interval_ms: int = setting(
        INT, 60000, "How often the recovery points of the logs are written down.", at_least(0)
    )
    log_flush_start_offset_checkpoint_interval_ms: int = setting(
        INT, 60000, "How often the start offsets of the logs are written down.", at_least(0)
    )
    kohort_disk_free_bytes_min: int = setting(
        LONG,
        33554432,
        "With less room than this under the data folder /health/ready says 503; 0 never does. Not in Kafka.",
        at_least(0),
    )
    log_preallocate: bool = setting(
        BOOLEAN, False, "Whether a new segment takes its whole room at once.", read_only=False
    )
    log_message_timestamp_type: str = setting(
        STRING,
        "CreateTime",
        "Whose time a record bears: its producer's, or the broker's at the append.",
        one_of("CreateTime", "LogAppendTime"),
        read_only=False,
    )
    log_message_timestamp_before_max_ms: int = setting(
        LONG,
        LONG_MAX,
        "How far a record's time may lie before the broker's.",
        at_least(0),
        read_only=False,
    )
    log_message_timestamp_after_max_ms: int = setting(
        LONG, 3600000, "How far a record's time may lie after the broker's.", at_least(0), read_only=False
    )
    log_local_retention_bytes: int = setting(
        LONG,
        -2,
        "What stays on the local disk of a tiered topic; -2 means log.retention.bytes.",
        at_least(-2),
        read_only=False,
    )
    log_local_retention_ms: int = setting(
        LONG,
        -2,
        "How long a tiered topic stays on the local disk; -2 means log.retention.ms.",
        at_least(-2),
        read_only=False,
    )
    log_remote_copy_lag_bytes: int = setting(
        LONG, -1, "How many bytes a tiered topic keeps to itself before it copies.", at_least(-1)
    )
    log_remote_copy_lag_ms: int = setting(
        LONG, 0, "How long a tiered topic keeps a record to itself before it copies.", at_least(-1)
    )

    # -- compaction -----------------------------------------------------------------------------------

    log_cleaner_enable: bool = setting(BOOLEAN, True, "Whether compacted topics are compacted.")
    log_cleaner_backoff_ms: int = setting(
        LONG,
        15000,
        "How long the cleaner sleeps when there is nothing to compact.",
        at_least(0),
        read_only=False,
    )
    log_cleaner_io_max_bytes_per_second: float = setting(
        DOUBLE,
        sys.float_info.max,
        "How many bytes the cleaner reads and writes in a second at most.",
        read_only=False,
    )
    log_cleaner_dedupe_buffer_size: int = setting(
        LONG,
        134217728,
        "The memory in which the cleaner keeps keys, 200 bytes for each; what finds no room waits.",
        read_only=False,
    )
    log_cleaner_min_cleanable_ratio: float = setting(
        DOUBLE,
        0.5,
        "The share of a log that must be uncompacted before it is compacted.",
        between(0, 1),
        read_only=False,
    )
    log_cleaner_delete_retention_ms: int = setting(
        LONG,
        86400000,
        "How long a tombstone stays, so that readers see the deletion.",
        at_least(0),
        read_only=False,
    )
    log_cleaner_min_compaction_lag_ms: int = setting(
        LONG, 0, "How long a record stays uncompacted at least.", at_least(0), read_only=False
    )
    log_cleaner_max_compaction_lag_ms: int = setting(
        LONG, LONG_MAX, "How long a record stays uncompacted at most.", at_least(1), read_only=False
    )

    # -- idempotent producers -------------------------------------------------------------------------

    producer_id_expiration_ms: int = setting(
        INT, 86400000, "How long an idle producer's sequence numbers are kept.", at_least(1), read_only=False
    )
    producer_id_expiration_check_interval_ms: int = setting(
        INT, 600000, "How often idle producers are looked for.", at_least(1)
    )

    # -- TLS ------------------------------------------------------------------------------------------

    ssl_keystore_type: str = setting(
        STRING,
        "PEM",
        "The form of the broker's key and certificates; JKS and PKCS12 have to be converted.",
        kafka_default="JKS",
    )
    ssl_keystore_location: str | None = setting(
        STRING, None, "A PEM file with the broker's private key and its certificates, its own first."
    )
    ssl_keystore_password: str | None = setting(
        PASSWORD, None, "PEM files have none: ssl.key.password is the key's own."
    )
    ssl_keystore_certificate_chain: str | None = setting(
        PASSWORD, None, "The broker's certificates themselves, in PEM, instead of ssl.keystore.location."
    )
    ssl_keystore_key: str | None = setting(
        PASSWORD, None, "The broker's private key itself, in PEM, instead of ssl.keystore.location."
    )
    ssl_key_password: str | None = setting(PASSWORD, None, "What the broker's private key is encrypted with.")
    ssl_truststore_type: str = setting(
        STRING,
        "PEM",
        "The form of the certificates that clients are trusted by; others than PEM have to be converted.",
        kafka_default="JKS",
    )
    ssl_truststore_location: str | None = setting(
        STRING, None, "A PEM file with the certificates of those who sign the clients' certificates."
    )
    ssl_truststore_password: str | None = setting(PASSWORD, None, "PEM files have none.")
    ssl_truststore_certificates: str | None = setting(
        PASSWORD, None, "Those certificates themselves, in PEM, instead of ssl.truststore.location."
    )
    ssl_client_auth: str = setting(
        STRING,
        "none",
        "Whether clients must show a certificate, may, or are not asked.",
        one_of("required", "requested", "none"),
    )
    ssl_enabled_protocols: tuple[str, ...] = setting(
        LIST,
        ("TLSv1.2", "TLSv1.3"),
        "The versions of TLS that are spoken.",
    )
    ssl_principal_mapping_rules: str = setting(
        STRING,
        "DEFAULT",
        "How the subject of a client's certificate becomes its name, the first rule that matches: "
        "RULE:PATTERN/REPLACEMENT/[LU],...,DEFAULT. No rule that matches, no connection.",
    )
    kohort_ssl_reload_interval_ms: int = setting(
        LONG,
        10_000,
        "How often the files of certificates are looked at; new ones hold for new connections. Not in Kafka.",
        at_least(100),
    )

    # -- SASL -----------------------------------------------------------------------------------------

    sasl_enabled_mechanisms: tuple[str, ...] = setting(
        LIST,
        (),
        "By which mechanisms clients of SASL_PLAINTEXT and SASL_SSL listeners may say who they are; "
        "listener.name.NAME.sasl.enabled.mechanisms says it of one listener.",
        kafka_default="GSSAPI",
    )
    sasl_jaas_config: str | None = setting(
        PASSWORD,
        None,
        'The users of PLAIN, as Kafka writes them: ...PlainLoginModule required user_NAME="PASSWORD"; '
        "for one listener it is listener.name.NAME.plain.sasl.jaas.config.",
    )
    sasl_server_max_receive_size: int = setting(
        INT,
        65536,
        "The largest request of a client that has not said who it is.",
        kafka_default="524288",
    )
    connection_failed_authentication_delay_ms: int = setting(
        INT,
        100,
        "After how long a client is told that it is not who it says, and its connection closed.",
        at_least(0),
    )
    connections_max_reauth_ms: int = setting(
        LONG,
        0,
        "For how long a client is taken for who it has said it is; it may say so again, or its connection is "
        "closed at its next request. 0 sets no end.",
    )
    inter_broker_listener_name: str | None = setting(
        STRING, None, "The listener, by its name, by which brokers of a cluster reach each other."
    )
    security_inter_broker_protocol: str = setting(
        STRING,
        "PLAINTEXT",
        "Without inter.broker.listener.name: what that listener speaks; the first that does is it.",
        one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
    )
    sasl_mechanism_inter_broker_protocol: str | None = setting(
        STRING,
        None,
        "By which mechanism brokers say to each other who they are, as the username and password of that "
        "listener's jaas.config.",
        kafka_default="GSSAPI",
    )
    ssl_endpoint_identification_algorithm: str = setting(
        STRING,
        "https",
        "Whether another broker's certificate has to bear the name or address by which it is reached: https, "
        "or nothing.",
    )
    sasl_oauthbearer_jwks_endpoint_url: str | None = setting(
        STRING,
        None,
        "Where the keys are by which tokens of OAUTHBEARER are checked: the https:// or file:// URL of a "
        "JSON Web Key Set.",
    )
    sasl_oauthbearer_jwks_endpoint_refresh_ms: int = setting(
        LONG,
        3_600_000,
        "How often those keys are read again, but for tokens that name an unknown one.",
    )
    sasl_oauthbearer_expected_issuer: str | None = setting(
        STRING, None, "Who has to have issued a token: its claim iss."
    )
    sasl_oauthbearer_expected_audience: tuple[str, ...] = setting(
        LIST, (), "For whom a token has to be: one of them has to be in its claim aud."
    )
    sasl_oauthbearer_allow_unverified_issuer: bool = setting(
        BOOLEAN, False, "Whether tokens of any issuer are taken where none is expected."
    )
    sasl_oauthbearer_allow_unverified_audience: bool = setting(
        BOOLEAN, False, "Whether tokens for anybody are taken where no audience is expected."
    )
    sasl_oauthbearer_sub_claim_name: str = setting(
        STRING, "sub", "The claim of a token that is its user's name."
    )
    sasl_oauthbearer_clock_skew_seconds: int = setting(
        INT, 30, "How far the clock of who issues tokens may be from this one."
    )
    kohort_listener_settings: str | None = setting(
        PASSWORD,
        None,
        "What listener.name.NAME... settings say, which are given under their own names. Not in Kafka.",
    )

    # -- who may do what ------------------------------------------------------------------------------

    authorizer_class_name: str = setting(
        STRING,
        "",
        "The name of Kafka's authorizer, if access control lists are to hold; without it everybody may do "
        "everything.",
        Validator(
            "non-null string",
            lambda value: None if value in ("", STANDARD_AUTHORIZER) else f"it must be {STANDARD_AUTHORIZER}",
        ),
    )
    super_users: str = setting(
        STRING,
        "",
        "Who may do everything, whatever the access control lists say: User:NAME;User:NAME.",
    )
    allow_everyone_if_no_acl_found: bool = setting(
        BOOLEAN,
        False,
        "Whether everybody may do everything with what no entry of the access control lists is about.",
    )

    # -- how much clients may do ----------------------------------------------------------------------

    quota_window_num: int = setting(INT, 11, "Over how many windows rates of clients are taken.", at_least(1))
    quota_window_size_seconds: int = setting(INT, 1, "How long such a window is.", at_least(1))
    controller_quota_window_num: int = setting(
        INT,
        11,
        "In how many windows as many partitions come in as may be made or deleted at once.",
        at_least(1),
    )
    controller_quota_window_size_seconds: int = setting(INT, 1, "How long such a window is.", at_least(1))

    # -- where values come from -----------------------------------------------------------------------

    def __init__(self, **values: ConfigValue) -> None:
        super().__init__(**values)
        texts = {
            self.definition(name.replace("_", ".")).name: render(value) for name, value in values.items()
        }
        self._settle({ConfigSource.STATIC_BROKER: texts})

    @classmethod
    def parsed(cls, texts: Mapping[str, str | None]) -> "BrokerConfig":
        """Return the settings that these texts give, under their dotted names."""
        return cls(**cls.parse_values(texts))

    def with_dynamic(
        self, broker: Mapping[str, str | None], cluster: Mapping[str, str | None] | None = None
    ) -> "BrokerConfig":
        """Return these settings under what was altered while the broker ran.

        `broker` holds what was altered for this broker, `cluster` for all; the former wins, and both win
        over what the broker was started with. The dynamic values of `self` are dropped.
        """
        layers = {
            ConfigSource.DYNAMIC_BROKER: dict(broker),
            ConfigSource.DYNAMIC_DEFAULT_BROKER: dict(cluster or {}),
            ConfigSource.STATIC_BROKER: dict(self.layer(ConfigSource.STATIC_BROKER)),
        }
        config = BrokerConfig()
        del config.__dict__["broker_id"]  # It was made of the default of node.id.
        for layer in reversed(layers.values()):
            config.__dict__.update(self.parse_values(layer))
        config._settle(layers)
        return config

    def layer(self, source: ConfigSource) -> Mapping[str, str | None]:
        """Return the texts that come from one source, by dotted name."""
        layers: dict[ConfigSource, dict[str, str | None]] = self.__dict__["_layers"]
        return layers.get(source, {})

    def _settle(self, layers: dict[ConfigSource, dict[str, str | None]]) -> None:
        """Let node.id and broker.id agree, and keep where each value came from."""
        if "broker_id" in self.__dict__ and self.broker_id >= 0:
            if self.__dict__.get("node_id", self.broker_id) != self.broker_id:
                raise ConfigError(
                    f"broker.id={self.broker_id} and node.id={self.node_id} differ: set one of them"
                )
            self.__dict__["node_id"] = self.broker_id
        self.__dict__["broker_id"] = self.node_id
        if self.group_min_session_timeout_ms > self.group_max_session_timeout_ms:
            raise ConfigError(
                f"group.min.session.timeout.ms={self.group_min_session_timeout_ms} must not exceed "
                f"group.max.session.timeout.ms={self.group_max_session_timeout_ms}"
            )
        if "classic" not in self.group_coordinator_rebalance_protocols:
            raise ConfigError("group.coordinator.rebalance.protocols: the classic protocol can't be disabled")
        check_broker(self)
        self.__dict__["_layers"] = layers

    # -- what several settings say together -----------------------------------------------------------

    @property
    def retention_ms(self) -> int:
        """How long topics keep records by default: ms before minutes before hours; -1 for ever."""
        if self.log_retention_ms is not None:
            return max(self.log_retention_ms, -1)
        if self.log_retention_minutes is not None:
            return max(self.log_retention_minutes * MINUTE_MS, -1)
        return max(self.log_retention_hours * HOUR_MS, -1)

    @property
    def roll_ms(self) -> int:
        """The age at which topics begin a new segment by default."""
        return self.log_roll_hours * HOUR_MS if self.log_roll_ms is None else self.log_roll_ms

    @property
    def roll_jitter_ms(self) -> int:
        """How much earlier a segment may end by default."""
        return (
            self.log_roll_jitter_hours * HOUR_MS
            if self.log_roll_jitter_ms is None
            else self.log_roll_jitter_ms
        )

    @property
    def flush_ms(self) -> int:
        """The longest that a record waits for a sync by default."""
        if self.log_flush_interval_ms is None:
            return self.log_flush_scheduler_interval_ms
        return self.log_flush_interval_ms


BROKER_DEFINITIONS = tuple(BrokerConfig.DEFINITIONS.values())
