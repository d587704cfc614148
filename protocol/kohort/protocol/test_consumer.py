"""The consumer protocol inside JoinGroup and SyncGroup."""

import pytest

from kohort.protocol.consumer import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartitions,
)
from kohort.protocol.errors import WireError
from tests.messages import message_of

OWNED = (TopicPartitions(topic="t", partitions=(0, 2)),)
SUBSCRIPTION = message_of(
    ConsumerProtocolSubscription, topics=("t", "u"), owned_partitions=OWNED, generation_id=4, rack_id="rack"
)


def test_a_subscription_carries_its_version() -> None:
    old = b"\0\0" + b"\0\0\0\x01\0\x01t" + b"\xff\xff\xff\xff"
    assert message_of(ConsumerProtocolSubscription, topics=("t",)).encode_versioned(0) == old
    assert ConsumerProtocolSubscription.decode_versioned(old).topics == ("t",)
    assert SUBSCRIPTION.encode_versioned()[:2] == b"\0\x03"


def test_an_older_version_omits_newer_fields() -> None:
    for version in range(4):
        read = ConsumerProtocolSubscription.decode_versioned(SUBSCRIPTION.encode_versioned(version))
        assert read.topics == SUBSCRIPTION.topics
        assert read.owned_partitions == (OWNED if version >= 1 else ())
        assert read.generation_id == (4 if version >= 2 else -1)
        assert read.rack_id == ("rack" if version >= 3 else None)


def test_a_newer_version_is_read_as_the_newest_known_one() -> None:
    data = b"\0\x09" + SUBSCRIPTION.encode(3) + b"fields of the future"
    assert ConsumerProtocolSubscription.decode_versioned(data) == SUBSCRIPTION
    assignment = ConsumerProtocolAssignment(assigned_partitions=OWNED, user_data=b"")
    future = b"\0\x04" + assignment.encode(3) + b"more"
    assert ConsumerProtocolAssignment.decode_versioned(future) == assignment


@pytest.mark.parametrize("data", [b"", b"\0", b"\xff\xff", b"\0\0\0\0", b"\0\0\0\0\0\0\xff\xff\xff\xff!"])
def test_malformed_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(WireError):
        ConsumerProtocolSubscription.decode_versioned(data)
    with pytest.raises(WireError):
        ConsumerProtocolAssignment.decode_versioned(data)


def test_a_null_assignment_differs_from_an_empty_one() -> None:
    empty = ConsumerProtocolAssignment(assigned_partitions=())
    assert empty.encode_versioned(0) == b"\0\0" + b"\0\0\0\0" + b"\xff\xff\xff\xff"
