"""The broker's own settings, under Kafka's names.

Defaults and limits are those of org.apache.kafka.server.config and its neighbours in Apache Kafka 4.4;
where kohort's default is another one, `kafka_default` says Kafka's.
"""

import sys
from collections.abc import Mapping

from kohort.broker.config.settings import Settings, setting
from kohort.broker.config.values import (
    INT_MAX,
    LONG_MAX,
    ConfigError,
    ConfigSource,
    ConfigType,
    ConfigValue,
    at_least,
    between,
    between_or,
    each_of,
    one_of,
    render,
)

BOOLEAN, STRING, INT, SHORT, LONG, DOUBLE, LIST = ConfigType
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
    group_consumer_heartbeat_interval_ms: int = setting(
        INT, 5000, "How often members of consumer groups are asked to send heartbeats.", at_least(1)
    )
    group_consumer_session_timeout_ms: int = setting(
        INT, 45000, "After how long without a heartbeat a consumer group's member is put out.", at_least(1)
    )
    group_consumer_max_size: int = setting(
        INT, INT_MAX, "How many members a consumer group may have.", at_least(1)
    )
    group_consumer_regex_refresh_interval_ms: int = setting(
        INT, 600000, "How often regular expressions are resolved anew in any case.", at_least(10000)
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

    transaction_max_timeout_ms: int = setting(
        INT, 900_000, "The longest time that a producer may ask its transactions to stay open.", at_least(1)
    )
    transaction_remove_expired_transaction_cleanup_interval_ms: int = setting(
        INT, 3_600_000, "How often it is looked for transactional ids that nobody uses.", at_least(1)
    )
    transaction_state_log_num_partitions: int = setting(
        INT, 50, "The partitions of __transaction_state, fixed when it is made.", at_least(1)
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
