"""The settings of a topic that storage needs."""

from kohort.broker.config import TopicConfig
from kohort.storage import LogConfig


def log_config_of(config: TopicConfig) -> LogConfig:
    """Return the settings of a topic's logs: both rooms use Kafka's names with underscores."""
    return LogConfig(
        segment_bytes=config.internal_segment_bytes or config.segment_bytes,
        segment_ms=config.segment_ms,
        segment_jitter_ms=config.segment_jitter_ms,
        index_interval_bytes=config.index_interval_bytes,
        segment_index_bytes=config.segment_index_bytes,
        retention_ms=config.retention_ms,
        retention_bytes=config.retention_bytes,
        max_message_bytes=config.max_message_bytes,
        message_timestamp_type=config.message_timestamp_type,
        flush_messages=config.flush_messages,
        flush_ms=config.flush_ms,
        cleanup_policy=config.cleanup_policy,
        delete_retention_ms=config.delete_retention_ms,
        min_cleanable_dirty_ratio=config.min_cleanable_dirty_ratio,
        min_compaction_lag_ms=config.min_compaction_lag_ms,
        max_compaction_lag_ms=config.max_compaction_lag_ms,
        file_delete_delay_ms=config.file_delete_delay_ms,
    )
