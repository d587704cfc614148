import pytest

from kohort.broker.group.subscriptions import (
    REMEMBERED_BYTES_MAX,
    assigned_partitions,
    subscribed_topics,
)
from kohort.protocol.consumer import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartitions,
)
from kohort.protocol.errors import WireError


@pytest.mark.parametrize("count", [1, REMEMBERED_BYTES_MAX])
def test_small_and_large_bytes_are_read_alike(count: int) -> None:
    topics = tuple(f"topic-{number}" for number in range(count))
    metadata = ConsumerProtocolSubscription(topics=topics).encode_versioned()
    assert (len(metadata) > REMEMBERED_BYTES_MAX) == (count > 1)
    assert subscribed_topics(metadata) == set(topics)
    assigned = tuple(TopicPartitions(topic=topic, partitions=(0, 3)) for topic in topics)
    assignment = ConsumerProtocolAssignment(assigned_partitions=assigned).encode_versioned()
    expected = tuple((topic, partition) for topic in topics for partition in (0, 3))
    assert assigned_partitions(assignment) == expected


def test_malformed_subscription_bytes_are_refused_and_malformed_assignments_are_empty() -> None:
    with pytest.raises(WireError):
        subscribed_topics(b"\0")
    assert assigned_partitions(b"") == ()
    assert assigned_partitions(b"\0") == ()
    assert assigned_partitions(b"\0" * 2 + b"\xff" * 1_000) == ()
