"""The broker's defaults for topics and logs: segments, compaction, producers.

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
        BOOLEAN, True, "Whether a missing topic is created when a client asks for it."
    )
    delete_topic_enable: bool = setting(BOOLEAN, True, "Whether topics may be deleted.")
    num_partitions: int = setting(INT, 1, "The default number of partitions of a new topic.", at_least(1))
    default_replication_factor: int = setting(INT, 1, "The default replication factor of a new topic.")
    min_insync_replicas: int = setting(
        INT,
        1,
        "How many replicas must hold a record that acks=all acknowledges.",
        at_least(1),
        read_only=False,
    )
    unclean_leader_election_enable: bool = setting(
        BOOLEAN,
        False,
        "Whether a replica outside the ISR may become leader if no replica of the ISR is alive.",
        read_only=False,
    )
    replica_lag_time_max_ms: int = setting(
        LONG, 30000, "How long a replica may lag before it leaves the ISR."
    )
    replica_fetch_max_bytes: int = setting(
        INT, 1048576, "The most bytes of one partition in a follower's fetch.", at_least(0)
    )
    replica_fetch_response_max_bytes: int = setting(
        INT, 10485760, "The most bytes of all partitions in a follower's fetch.", at_least(0)
    )
    replica_fetch_wait_max_ms: int = setting(
        INT, 500, "How long a follower's fetch may wait for new records."
    )
    replica_fetch_backoff_ms: int = setting(
        INT, 1000, "How long a follower waits before it retries after an error of its leader.", at_least(0)
    )
    replica_socket_timeout_ms: int = setting(
        INT, 30000, "How long a follower waits for its leader's response."
    )
    replica_selector_class: str | None = setting(
        STRING,
        None,
        "Kafka's RackAwareReplicaSelector lets consumers fetch from a replica in their rack.",
    )
    message_max_bytes: int = setting(
        INT, 1048588, "The largest record batch, compressed.", at_least(0), read_only=False
    )
    max_decompressed_message_bytes: int = setting(
        INT,
        2147483639,
        "The largest record batch, decompressed.",
        between(1, 2147483639),
        read_only=False,
    )
    compression_type: str = setting(
        STRING,
        "producer",
        "The compression of a topic's batches. producer keeps the producer's compression.",
        one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        read_only=False,
    )
    compression_gzip_level: int = setting(
        INT, -1, "The compression level of gzip. -1 is its default.", between_or(1, 9, -1), read_only=False
    )
    compression_lz4_level: int = setting(
        INT, 9, "The compression level of lz4.", between(1, 17), read_only=False
    )
    compression_zstd_level: int = setting(
        INT, 3, "The compression level of zstd.", between(-131072, 22), read_only=False
    )

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
        "The age at which a log begins a new segment. The default is log.roll.hours.",
        read_only=False,
    )
    log_roll_jitter_hours: int = setting(
        INT, 0, "The largest random jitter that shortens log.roll.hours, in hours.", at_least(0)
    )
    log_roll_jitter_ms: int | None = setting(
        LONG,
        None,
        "The largest random jitter that shortens log.roll.ms. The default is log.roll.jitter.hours.",
        read_only=False,
    )
    log_index_interval_bytes: int = setting(
        INT, 4096, "The bytes of batches between two index entries.", at_least(0), read_only=False
    )
    log_index_size_max_bytes: int = setting(
        INT, 10485760, "The largest index file of a segment.", at_least(4), read_only=False
    )
    log_retention_bytes: int = setting(
        LONG,
        -1,
        "The size of a partition above which its oldest segments are deleted. -1 means no limit.",
        read_only=False,
    )
    log_retention_hours: int = setting(INT, 168, "How long records are kept, in hours. -1 means no limit.")
    log_retention_minutes: int | None = setting(
        INT, None, "How long records are kept, in minutes. The default is log.retention.hours."
    )
    log_retention_ms: int | None = setting(
        LONG,
        None,
        "How long records are kept. The default is log.retention.minutes. -1 means no limit.",
        read_only=False,
    )
    log_retention_check_interval_ms: int = setting(
        LONG, 300000, "How often expired segments are deleted.", at_least(1)
    )
    log_initial_task_delay_ms: int = setting(
        LONG,
        30000,
        "The delay between the broker's start and the first deletion of expired segments.",
        at_least(0),
    )
    log_segment_delete_delay_ms: int = setting(
        LONG,
        60000,
        "How long the renamed files of a deleted segment stay on the disk.",
        at_least(0),
        read_only=False,
    )
    log_cleanup_policy: tuple[str, ...] = setting(
        LIST,
        ("delete",),
        "delete removes old segments. compact keeps the newest record of each key.",
        each_of("compact", "delete"),
        read_only=False,
    )
    log_flush_interval_messages: int = setting(
        LONG,
        1,
        "The number of records after which a log is synced to disk. With 1 the broker syncs before it "
        "answers.",
        at_least(1),
        read_only=False,
        kafka_default=str(LONG_MAX),
    )
    log_flush_interval_ms: int | None = setting(
        LONG,
        None,
        "The longest time before a record is synced. The default is log.flush.scheduler.interval.ms.",
        read_only=False,
    )
    log_flush_scheduler_interval_ms: int = setting(
        LONG, LONG_MAX, "How often the broker checks which logs must be synced."
    )
    log_flush_offset_checkpoint_interval_ms: int = setting(
        INT, 60000, "How often the recovery points of the logs are stored.", at_least(0)
    )
    log_flush_start_offset_checkpoint_interval_ms: int = setting(
        INT, 60000, "How often the start offsets of the logs are stored.", at_least(0)
    )
    kohort_disk_free_bytes_min: int = setting(
        LONG,
        33554432,
        "With less free disk space, /health/ready answers 503. 0 disables the check. Not in Kafka.",
        at_least(0),
    )
    log_preallocate: bool = setting(
        BOOLEAN, False, "Whether the whole file of a new segment is allocated at once.", read_only=False
    )
    log_message_timestamp_type: str = setting(
        STRING,
        "CreateTime",
        "The timestamp of a record: the producer's time or the broker's time of the append.",
        one_of("CreateTime", "LogAppendTime"),
        read_only=False,
    )
    log_message_timestamp_before_max_ms: int = setting(
        LONG,
        LONG_MAX,
        "How much older than the broker's time a record's timestamp may be.",
        at_least(0),
        read_only=False,
    )
    log_message_timestamp_after_max_ms: int = setting(
        LONG,
        3600000,
        "How much newer than the broker's time a record's timestamp may be.",
        at_least(0),
        read_only=False,
    )
    log_local_retention_bytes: int = setting(
        LONG,
        -2,
        "The bytes of a tiered topic on the local disk. -2 means log.retention.bytes.",
        at_least(-2),
        read_only=False,
    )
    log_local_retention_ms: int = setting(
        LONG,
        -2,
        "How long records of a tiered topic stay on the local disk. -2 means log.retention.ms.",
        at_least(-2),
        read_only=False,
    )
    log_remote_copy_lag_bytes: int = setting(
        LONG,
        -1,
        "How many bytes a tiered topic collects before it copies them to the remote tier.",
        at_least(-1),
    )
    log_remote_copy_lag_ms: int = setting(
        LONG, 0, "How long a tiered topic waits before it copies a record to the remote tier.", at_least(-1)
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
        "The most bytes that the cleaner reads and writes per second.",
        read_only=False,
    )
    log_cleaner_dedupe_buffer_size: int = setting(
        LONG,
        134217728,
        "The cleaner's memory for keys: 200 bytes for each. Records that do not fit wait for the next run.",
        read_only=False,
    )
    log_cleaner_min_cleanable_ratio: float = setting(
        DOUBLE,
        0.5,
        "The uncompacted part of a log, from 0 to 1, above which the log is compacted.",
        between(0, 1),
        read_only=False,
    )
    log_cleaner_delete_retention_ms: int = setting(
        LONG,
        86400000,
        "How long a tombstone stays for readers.",
        at_least(0),
        read_only=False,
    )
    log_cleaner_min_compaction_lag_ms: int = setting(
        LONG, 0, "The shortest time that a record stays uncompacted.", at_least(0), read_only=False
    )
    log_cleaner_max_compaction_lag_ms: int = setting(
        LONG, LONG_MAX, "The longest time that a record stays uncompacted.", at_least(1), read_only=False
    )

    # -- idempotent producers -------------------------------------------------------------------------

    producer_id_expiration_ms: int = setting(
        INT, 86400000, "How long an idle producer's sequence numbers are kept.", at_least(1), read_only=False
    )
    producer_id_expiration_check_interval_ms: int = setting(
        INT, 600000, "How often expired producers are removed.", at_least(1)
    )

    # -- combinations of several settings -------------------------------------------------------------

    @property
    def retention_ms(self) -> int:
        """The default retention: ms wins over minutes, and minutes over hours; -1 for no limit."""
        if self.log_retention_ms is not None:
            return max(self.log_retention_ms, -1)
        if self.log_retention_minutes is not None:
            return max(self.log_retention_minutes * MINUTE_MS, -1)
        return max(self.log_retention_hours * HOUR_MS, -1)

    @property
    def roll_ms(self) -> int:
        """The default age at which topics begin a new segment."""
        return self.log_roll_hours * HOUR_MS if self.log_roll_ms is None else self.log_roll_ms

    @property
    def roll_jitter_ms(self) -> int:
        """The default random jitter of `roll_ms`."""
        return (
            self.log_roll_jitter_hours * HOUR_MS
            if self.log_roll_jitter_ms is None
            else self.log_roll_jitter_ms
        )

    @property
    def flush_ms(self) -> int:
        """The default longest time before a record is synced."""
        if self.log_flush_interval_ms is None:
            return self.log_flush_scheduler_interval_ms
        return self.log_flush_interval_ms
