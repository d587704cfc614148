"""Whether a process is in its group: what readiness probes ask."""

from kohort.client.aio import Consumer


def generation_of(consumer: Consumer[bytes, bytes]) -> int:
    """Return the generation of its group that a consumer has its partitions in; -1 before the first."""
    return consumer.group_metadata().generation_id


def has_joined(consumer: Consumer[bytes, bytes]) -> bool:
    """Return whether this consumer has been in a generation of its group, with or without partitions."""
    return generation_of(consumer) >= 0
