"""What a queue is called in Kafka: its topics, its groups, and its times."""

import msgspec

from kohort.client.errors import ConfigurationError

MARKERS_RETENTION_MS_MIN = 86_400_000


class Queue(msgspec.Struct, frozen=True):
    """The names and times that everybody at a queue has to agree on; only the topic has no default.

    Times, count, header and dead letters default to the original's. Source: KmqConfig, StandaloneConfig.
    """

    topic: str
    markers_topic: str = ""
    """Start and end markers: as many partitions as the topic. `<topic>__markers`."""
    dead_letters_topic: str = ""
    """`<topic>__undelivered`."""
    group_id: str = ""
    """The group that reads the topic. `kmq-<topic>`."""
    redelivery_group_id: str = ""
    """The group of the trackers, which reads the markers. `kmq-<topic>-redelivery`."""
    message_timeout_ms: int = 90_000
    """So long after its start marker a record without an end marker is delivered again."""
    use_now_after_ms: int = 1_000
    """Time is the newest marker's, and the wall clock once there was none for so long."""
    redelivery_count_header: str = "kmq-redelivery-count"
    max_redelivery_count: int = 3
    """How often a record is delivered again before it is a dead letter."""

    @property
    def markers_retention_ms(self) -> int:
        """So long the markers topic keeps markers: a day, or twice the longest time a record may be open."""
        return max(MARKERS_RETENTION_MS_MIN, 2 * self.message_timeout_ms)

    def __post_init__(self) -> None:
        if not self.topic:
            raise ConfigurationError("a queue needs the name of its topic")
        defaults = {
            "markers_topic": f"{self.topic}__markers",
            "dead_letters_topic": f"{self.topic}__undelivered",
            "group_id": f"kmq-{self.topic}",
            "redelivery_group_id": f"kmq-{self.topic}-redelivery",
        }
        for name, default in defaults.items():
            if not getattr(self, name):
                msgspec.structs.force_setattr(self, name, default)
        for name in ("message_timeout_ms", "use_now_after_ms"):
            if getattr(self, name) < 1:
                raise ConfigurationError(f"{name} is {getattr(self, name)}: at least 1 is needed")
        if self.max_redelivery_count < 0:
            raise ConfigurationError(f"max_redelivery_count is {self.max_redelivery_count}: 0 or more")
