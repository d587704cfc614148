"""Offsets of many partitions as Spark keeps them: `{"topic": {"0": 42}}`, as its Kafka connector does.

So a checkpoint of either source says in the same words how far its query has come.
"""

import json
from collections.abc import Mapping

from kohort.client import TopicPartition
from kohort.pipeline.errors import OptionError

Offsets = dict[TopicPartition, int]
SparkOffsets = dict[str, dict[str, int]]


def encode_offsets(offsets: Mapping[TopicPartition, int]) -> SparkOffsets:
    """Return what goes into a checkpoint, in the order of the partitions."""
    told: SparkOffsets = {}
    for each in sorted(offsets):
        told.setdefault(each.topic, {})[str(each.partition)] = offsets[each]
    return told


def decode_offsets(given: str | Mapping[str, Mapping[str, int]]) -> Offsets:
    """Return the offsets by partition. Raises: OptionError for anything but `{"topic": {"0": 42}}`."""
    try:
        topics = json.loads(given) if isinstance(given, str) else given
        return {
            TopicPartition(topic, int(partition)): int(offset)
            for topic, partitions in topics.items()
            for partition, offset in partitions.items()
        }
    except (ValueError, AttributeError, TypeError):
        raise OptionError(f"{given!r} are no offsets: give them as " + '{"topic": {"0": 42}}') from None
