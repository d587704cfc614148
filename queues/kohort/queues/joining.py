"""Whether a process is in its group: what readiness probes ask."""

from kohort.client.aio import Consumer


def has_joined(consumer: Consumer[bytes, bytes]) -> bool:
    """Return whether this consumer has been in a generation of its group, with or without partitions."""
    return consumer.group_metadata().generation_id >= 0
