"""Offsets of many partitions as Spark keeps them: `{"topic": {"0": 42}}`, as its Kafka connector does.

So a checkpoint of either source shows the position of its query in the same form. A stream of ours adds two
notes, under names that no topic can have. `@topic_ids` shows that a topic was created again. `@starts` is the
start of the first batch, which Spark itself does not keep.
"""

import json
from collections.abc import Mapping
from typing import NamedTuple

from kohort.client import TopicPartition
from kohort.pipeline.errors import OptionError

Offsets = dict[TopicPartition, int]
SparkOffsets = dict[str, dict[str, int]]
StreamOffsets = dict[str, Mapping[str, object]]
"""As Spark hands them over and takes them: JSON with our notes."""
TopicIds = Mapping[str, str]
"""Ids by name, as texts; a topic with an unknown id is left out."""
NOTE = "@"
TOPIC_IDS, STARTS = "@topic_ids", "@starts"


class Position(NamedTuple):
    """How far a stream is: the next offset of each partition, and the topics' ids."""

    offsets: Offsets
    topic_ids: TopicIds
    starts: Offsets | None = None
    """The start of the first batch; None except after that batch."""


def encode_position(position: Position) -> StreamOffsets:
    """Return what goes into a checkpoint."""
    told: StreamOffsets = dict(encode_offsets(position.offsets))
    if position.topic_ids:
        told[TOPIC_IDS] = dict(sorted(position.topic_ids.items()))
    if position.starts is not None:
        told[STARTS] = encode_offsets(position.starts)
    return told


def decode_position(given: StreamOffsets) -> Position:
    """Return the position of a stream. Raises: OptionError for anything else."""
    ids = {topic: str(each) for topic, each in given.get(TOPIC_IDS, {}).items()}
    starts = given.get(STARTS)
    begun = None if starts is None else decode_offsets(json.dumps(starts))
    return Position(decode_offsets(without_notes(given)), ids, begun)


def without_notes(given: StreamOffsets) -> SparkOffsets:
    """Return the offsets alone, as Spark's connector writes them."""
    return {topic: offsets for topic, offsets in given.items() if not topic.startswith(NOTE)}  # type: ignore[misc]  # Checked by decode_offsets.


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


def decode_partitions(given: str) -> frozenset[TopicPartition]:
    """Return partitions by their topics. Raises: OptionError for anything but `{"topic": [0, 1]}`."""
    try:
        topics = json.loads(given)
        found = frozenset(TopicPartition(topic, int(each)) for topic, all_ in topics.items() for each in all_)
    except (ValueError, AttributeError, TypeError):
        found = frozenset()
    if not found:
        raise OptionError(f"{given!r} are no partitions: give them as " + '{"topic": [0, 1]}')
    return found


def made_anew(known: TopicIds, now: TopicIds) -> list[str]:
    """Return the topics that have another id than was known."""
    return sorted(topic for topic, topic_id in known.items() if now.get(topic, topic_id) != topic_id)
