"""A topic's settings: its own overrides over the broker's defaults.

Source: org.apache.kafka.common.config.TopicConfig and LogConfig, Apache Kafka 4.4.
"""

from collections.abc import Mapping

from kohort.broker.config.broker_config import BrokerConfig
from kohort.broker.config.settings import Settings, setting
from kohort.broker.config.values import (
    BOOLEAN,
    DOUBLE,
    INT,
    LIST,
    LONG,
    LONG_MAX,
    STRING,
    THROTTLED_REPLICAS,
    ConfigError,
    ConfigValue,
    at_least,
    between,
    between_or,
    each_of,
    one_of,
    only,
)

NO_TIERS = "kohort keeps every segment on its own disk"


class TopicConfig(Settings):
    """Every setting of a topic; `retention_ms` is Kafka's `retention.ms`, and so on."""

    KIND = "topic"

    cleanup_policy: tuple[str, ...] = setting(
        LIST,
        ("delete",),
        "delete removes old segments. compact keeps the newest record of each key.",
        each_of("compact", "delete"),
        synonyms=("log.cleanup.policy",),
    )
    compression_type: str = setting(
        STRING,
        "producer",
        "The compression of the batches. producer keeps the producer's compression.",
        one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        synonyms=("compression.type",),
    )
    compression_gzip_level: int = setting(
        INT,
        -1,
        "The compression level of gzip. -1 is its default.",
        between_or(1, 9, -1),
        synonyms=("compression.gzip.level",),
    )
    compression_lz4_level: int = setting(
        INT, 9, "The compression level of lz4.", between(1, 17), synonyms=("compression.lz4.level",)
    )
    compression_zstd_level: int = setting(
        INT, 3, "The compression level of zstd.", between(-131072, 22), synonyms=("compression.zstd.level",)
    )
    delete_retention_ms: int = setting(
        LONG,
        86400000,
        "How long a tombstone stays in a compacted topic for readers.",
        at_least(0),
        synonyms=("log.cleaner.delete.retention.ms",),
    )
    errors_deadletterqueue_group_enable: bool = setting(
        BOOLEAN, False, "Whether share groups may write dead letters to this topic."
    )
    file_delete_delay_ms: int = setting(
        LONG,
        60000,
        "How long the renamed files of a deleted segment stay on the disk.",
        at_least(0),
        synonyms=("log.segment.delete.delay.ms",),
    )
    flush_messages: int = setting(
        LONG,
        1,
        "The number of records after which the log is synced to disk. With 1 the broker syncs before it "
        "answers.",
        at_least(1),
        synonyms=("log.flush.interval.messages",),
        kafka_default=str(LONG_MAX),
    )
    flush_ms: int = setting(
        LONG,
        LONG_MAX,
        "The longest time before a record is synced.",
        at_least(0),
        synonyms=("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
    )
    follower_replication_throttled_replicas: tuple[str, ...] = setting(
        LIST, (), "The follower replicas with a limited rate, as partition:broker.", THROTTLED_REPLICAS
    )
    index_interval_bytes: int = setting(
        INT,
        4096,
        "The bytes of batches between two index entries.",
        at_least(0),
        synonyms=("log.index.interval.bytes",),
    )
    internal_segment_bytes: int | None = setting(
        INT, None, "A segment size below the limit of segment.bytes, for tests.", internal=True
    )
    leader_replication_throttled_replicas: tuple[str, ...] = setting(
        LIST, (), "The leader replicas with a limited rate, as partition:broker.", THROTTLED_REPLICAS
    )
    local_retention_bytes: int = setting(
        LONG,
        -2,
        "The bytes of a tiered topic on the local disk. -2 means retention.bytes.",
        at_least(-2),
        synonyms=("log.local.retention.bytes",),
    )
    local_retention_ms: int = setting(
        LONG,
        -2,
        "How long records of a tiered topic stay on the local disk. -2 means retention.ms.",
        at_least(-2),
        synonyms=("log.local.retention.ms",),
    )
    max_compaction_lag_ms: int = setting(
        LONG,
        LONG_MAX,
        "The longest time that a record stays uncompacted.",
        at_least(1),
        synonyms=("log.cleaner.max.compaction.lag.ms",),
    )
    max_decompressed_message_bytes: int = setting(
        INT,
        2147483639,
        "The largest record batch, decompressed.",
        between(1, 2147483639),
        synonyms=("max.decompressed.message.bytes",),
    )
    max_message_bytes: int = setting(
        INT,
        1048588,
        "The largest record batch, compressed.",
        at_least(0),
        synonyms=("message.max.bytes",),
    )
    message_timestamp_after_max_ms: int = setting(
        LONG,
        3600000,
        "How much newer than the broker's time a record's timestamp may be.",
        at_least(0),
        synonyms=("log.message.timestamp.after.max.ms",),
    )
    message_timestamp_before_max_ms: int = setting(
        LONG,
        LONG_MAX,
        "How much older than the broker's time a record's timestamp may be.",
        at_least(0),
        synonyms=("log.message.timestamp.before.max.ms",),
    )
    message_timestamp_type: str = setting(
        STRING,
        "CreateTime",
        "The timestamp of a record: the producer's time or the broker's time of the append.",
        one_of("CreateTime", "LogAppendTime"),
        synonyms=("log.message.timestamp.type",),
    )
    min_cleanable_dirty_ratio: float = setting(
        DOUBLE,
        0.5,
        "The uncompacted part of the log, from 0 to 1, above which the log is compacted.",
        between(0, 1),
        synonyms=("log.cleaner.min.cleanable.ratio",),
    )
    min_compaction_lag_ms: int = setting(
        LONG,
        0,
        "The shortest time that a record stays uncompacted.",
        at_least(0),
        synonyms=("log.cleaner.min.compaction.lag.ms",),
    )
    min_insync_replicas: int = setting(
        INT,
        1,
        "How many replicas must hold a record that acks=all acknowledges.",
        at_least(1),
        synonyms=("min.insync.replicas",),
    )
    preallocate: bool = setting(
        BOOLEAN,
        False,
        "Whether the whole file of a new segment is allocated at once.",
        synonyms=("log.preallocate",),
    )
    remote_copy_lag_bytes: int = setting(
        LONG,
        -1,
        "How many bytes a tiered topic collects before it copies them to the remote tier.",
        at_least(-1),
        synonyms=("log.remote.copy.lag.bytes",),
    )
    remote_copy_lag_ms: int = setting(
        LONG,
        0,
        "How long a tiered topic waits before it copies a record to the remote tier.",
        at_least(-1),
        synonyms=("log.remote.copy.lag.ms",),
    )
    remote_log_copy_disable: bool = setting(
        BOOLEAN, False, "Whether a tiered topic stops copying.", only(False, NO_TIERS)
    )
    remote_log_delete_on_disable: bool = setting(
        BOOLEAN,
        False,
        "Whether a topic that leaves tiered storage deletes its remote segments.",
        only(False, NO_TIERS),
    )
    remote_storage_enable: bool = setting(
        BOOLEAN, False, "Whether old segments move to a remote tier.", only(False, NO_TIERS)
    )
    retention_bytes: int = setting(
        LONG,
        -1,
        "The size of a partition above which its oldest segments are deleted. -1 means no limit.",
        synonyms=("log.retention.bytes",),
    )
    retention_ms: int = setting(
        LONG,
        604800000,
        "How long records are kept. -1 means no limit.",
        at_least(-1),
        synonyms=("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    )
    segment_bytes: int = setting(
        INT,
        1073741824,
        "The size at which the log begins a new segment.",
        at_least(1048576),
        synonyms=("log.segment.bytes",),
    )
    segment_index_bytes: int = setting(
        INT,
        10485760,
        "The largest index file of a segment.",
        at_least(4),
        synonyms=("log.index.size.max.bytes",),
    )
    segment_jitter_ms: int = setting(
        LONG,
        0,
        "The largest random jitter that shortens segment.ms.",
        at_least(0),
        synonyms=("log.roll.jitter.ms", "log.roll.jitter.hours"),
    )
    segment_ms: int = setting(
        LONG,
        604800000,
        "The age at which the log begins a new segment.",
        at_least(1),
        synonyms=("log.roll.ms", "log.roll.hours"),
    )
    unclean_leader_election_enable: bool = setting(
        BOOLEAN,
        False,
        "Whether a replica outside the ISR may become leader if no replica of the ISR is alive.",
        synonyms=("unclean.leader.election.enable",),
    )

    def check_together(self) -> None:
        """Check the settings together. Raises: ConfigError if two settings contradict each other."""
        if self.min_compaction_lag_ms > self.max_compaction_lag_ms:
            raise ConfigError(
                f"min.compaction.lag.ms={self.min_compaction_lag_ms} must not exceed "
                f"max.compaction.lag.ms={self.max_compaction_lag_ms}"
            )


TOPIC_DEFINITIONS = tuple(each for each in TopicConfig.DEFINITIONS.values() if not each.internal)


def topic_config(broker: BrokerConfig, overrides: Mapping[str, str | None]) -> TopicConfig:
    """Return a topic's settings: its overrides (text by dotted name) over the broker's values.

    Raises: ConfigError for an unknown name, a wrong value, or contradictions.
    """
    if overrides:
        return _over(broker, overrides)
    known: TopicConfig | None = broker.__dict__.get("_topic_config")
    if known is None:  # Most topics have no overrides and share one object.
        known = broker.__dict__["_topic_config"] = _over(broker, {})
    return known


def _over(broker: BrokerConfig, overrides: Mapping[str, str | None]) -> TopicConfig:
    config = TopicConfig()
    config.__dict__.update(_defaults(broker))
    config.__dict__.update(TopicConfig.parse_values(overrides))
    config.check_together()
    return config


def _defaults(broker: BrokerConfig) -> dict[str, ConfigValue]:
    """Return the broker's defaults for topics, by attribute. They are cached in the broker's settings."""
    defaults: dict[str, ConfigValue] | None = broker.__dict__.get("_topic_defaults")
    if defaults is None:
        defaults = {
            definition.attribute: broker.value(definition.synonyms[0])
            for definition in TopicConfig.DEFINITIONS.values()
            if len(definition.synonyms) == 1
        }
        defaults["retention_ms"] = broker.retention_ms
        defaults["segment_ms"] = broker.roll_ms
        defaults["segment_jitter_ms"] = broker.roll_jitter_ms
        defaults["flush_ms"] = broker.flush_ms
        broker.__dict__["_topic_defaults"] = defaults
    return defaults
