"""What logs go by where their topics say nothing: topics, segments, compaction, producers.

Source: org.apache.kafka.server.config.ServerLogConfigs, org.apache.kafka.storage.internals.log.CleanerConfig.
"""

import sys

from kohort.broker.config.settings import BrokerSettings, setting
from kohort.broker.config.values import (
    BOOLEAN,
    DOUBLE,
    INT,
    LIST,
    LONG,
    LONG_MAX,
    STRING,
    at_least,
    between,
    between_or,
    each_of,
    one_of,
)

HOUR_MS = 3_600_000
MINUTE_MS = 60_000


class LogSettings(BrokerSettings):
    """Topics and their logs."""

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
