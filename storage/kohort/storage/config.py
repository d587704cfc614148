"""The settings of a topic that concern one log, with Kafka's defaults."""

import msgspec


class LogConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Kafka's topic configs, by their names with underscores. Times in milliseconds, -1 for no limit."""

    segment_bytes: int = 1024 * 1024 * 1024
    segment_ms: int = 7 * 24 * 60 * 60 * 1000
    segment_jitter_ms: int = 0
    index_interval_bytes: int = 4096
    segment_index_bytes: int = 10 * 1024 * 1024
    retention_ms: int = 7 * 24 * 60 * 60 * 1000
    retention_bytes: int = -1
    max_message_bytes: int = 1024 * 1024 + 12
    message_timestamp_type: str = "CreateTime"
    flush_messages: int = 1
    flush_ms: int = 2**63 - 1
    cleanup_policy: tuple[str, ...] = ("delete",)
    delete_retention_ms: int = 24 * 60 * 60 * 1000
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = 2**63 - 1
    file_delete_delay_ms: int = 60_000

    @property
    def is_compacted(self) -> bool:
        """Whether only the newest record of each key is kept."""
        return "compact" in self.cleanup_policy

    @property
    def roll_ms(self) -> int:
        """The maximum age of a segment, so that a record can be compacted in time."""
        return min(self.segment_ms, self.max_compaction_lag_ms) if self.is_compacted else self.segment_ms
