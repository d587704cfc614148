"""A share consumer's settings."""

from collections.abc import Mapping

from kohort.client.config import (
    ClientConfig,
    ClientOptions,
    Milliseconds,
    Positive,
    converted,
    require,
    require_callables,
)

ACKNOWLEDGEMENT_MODES = ("implicit", "explicit")
ACQUIRE_MODES = {"batch_optimized": 0, "record_limit": 1}


class ShareConsumerOptions(ClientOptions, total=False):
    """The options of a ShareConsumer, without its deserializers."""

    group_id: str
    client_rack: str | None
    share_acknowledgement_mode: str
    share_acquire_mode: str
    max_poll_interval_ms: int
    max_poll_records: int
    fetch_min_bytes: int
    fetch_max_wait_ms: int
    fetch_max_bytes: int
    check_crcs: bool
    allow_auto_create_topics: bool


class ShareConsumerConfig(ClientConfig, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A ShareConsumer's settings."""

    group_id: str = ""
    client_rack: str | None = None
    share_acknowledgement_mode: str = "implicit"
    share_acquire_mode: str = "batch_optimized"
    max_poll_interval_ms: Positive = 300_000
    max_poll_records: Positive = 500
    fetch_min_bytes: Positive = 1
    fetch_max_wait_ms: Milliseconds = 500
    fetch_max_bytes: Positive = 52_428_800
    check_crcs: bool = True
    allow_auto_create_topics: bool = True
    key_deserializer: object = None
    value_deserializer: object = None

    @property
    def exclude_internal_topics(self) -> bool:
        """Whether patterns pass internal topics over; a share group has no patterns."""
        return True

    @property
    def is_implicit(self) -> bool:
        """Whether a poll accepts the records of the previous one."""
        return self.share_acknowledgement_mode == "implicit"

    @property
    def acquire_mode(self) -> int:
        """How much the broker may return at once: whole batches, or at most max_poll_records."""
        return ACQUIRE_MODES[self.share_acquire_mode]


def share_consumer_config(options: Mapping[str, object]) -> ShareConsumerConfig:
    """Return a ShareConsumer's settings. Raises: ConfigurationError."""
    config = converted(options, ShareConsumerConfig)
    require(config.group_id != "", "a share consumer is a member of a group: give a group_id")
    mode, acquire = config.share_acknowledgement_mode, config.share_acquire_mode
    require(
        mode in ACKNOWLEDGEMENT_MODES,
        f"share_acknowledgement_mode is {mode!r}: give 'implicit' or 'explicit'",
    )
    require(
        acquire in ACQUIRE_MODES,
        f"share_acquire_mode is {acquire!r}: give 'batch_optimized' or 'record_limit'",
    )
    require_callables(config, "key_deserializer", "value_deserializer")
    return config
