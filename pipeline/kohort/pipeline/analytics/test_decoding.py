"""Records of `__consumer_offsets` as rows."""

from kohort.pipeline.analytics.decoding import Raw, commit_row, group_row
from kohort.protocol.consumer import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartitions,
)
from kohort.protocol.offsets_topic import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
    encode_key,
    encode_value,
)

COMMIT_KEY = encode_key(OffsetCommitKey(group="g", topic="air", partition=3))
GROUP_KEY = encode_key(GroupMetadataKey(group="g"))


def test_a_commit_is_a_row() -> None:
    value = encode_value(OffsetCommitValue(offset=17, leader_epoch=2, metadata="x", commit_timestamp=99))
    row = commit_row(Raw(7, 40, COMMIT_KEY, value))
    assert row is not None
    assert (row["group_id"], row["topic"], row["partition"]) == ("g", "air", 3)
    assert (row["committed_offset"], row["committed_ms"], row["metadata"]) == (17, 99, "x")
    assert (row["log_partition"], row["log_offset"]) == (7, 40)
    assert group_row(Raw(7, 40, COMMIT_KEY, value)) is None


def test_a_removal_is_a_row_without_an_offset() -> None:
    row = commit_row(Raw(0, 0, COMMIT_KEY, None))
    assert row is not None
    assert row["committed_offset"] is None


def test_a_group_is_a_row_with_its_members_decoded() -> None:
    assignment = ConsumerProtocolAssignment(
        assigned_partitions=(TopicPartitions(topic="air", partitions=(0, 2)),)
    )
    member = MemberMetadata(
        member_id="m",
        client_id="c",
        client_host="/h",
        session_timeout=10,
        rebalance_timeout=20,
        subscription=ConsumerProtocolSubscription(topics=("air",), owned_partitions=()).encode_versioned(),
        assignment=assignment.encode_versioned(),
    )
    value = GroupMetadataValue(
        protocol_type="consumer", generation=4, protocol="range", leader="m", members=(member,)
    )
    row = group_row(Raw(0, 0, GROUP_KEY, encode_value(value)))
    assert row is not None
    assert (row["generation_id"], row["is_deleted"]) == (4, False)
    assert row["members"] == [
        {
            "member_id": "m",
            "group_instance_id": None,
            "client_id": "c",
            "client_host": "/h",
            "rebalance_timeout_ms": 20,
            "session_timeout_ms": 10,
            "topics": ["air"],
            "assigned": [{"topic": "air", "partitions": [0, 2]}],
        }
    ]


def test_members_of_another_protocol_keep_their_bytes_to_themselves() -> None:
    member = MemberMetadata(
        member_id="w",
        client_id="c",
        client_host="/h",
        session_timeout=10,
        subscription=b"\0",
        assignment=b"?",
    )
    value = GroupMetadataValue(
        protocol_type="connect", generation=1, protocol="default", leader="w", members=(member,)
    )
    row = group_row(Raw(0, 0, GROUP_KEY, encode_value(value)))
    assert row is not None
    assert isinstance(row["members"], list)
    (cells,) = row["members"]
    assert cells["topics"] == cells["assigned"] == []


def test_a_deleted_group_is_a_row() -> None:
    row = group_row(Raw(0, 0, GROUP_KEY, None))
    assert row is not None
    assert (row["is_deleted"], row["members"]) == (True, [])


def test_a_record_that_cannot_be_decoded_gives_no_row() -> None:
    for key in (None, b"", b"\0", b"\0\1garbage", b"\0\x09abc"):
        assert commit_row(Raw(0, 0, key, b"\0\1")) is None
        assert group_row(Raw(0, 0, key, b"\0\1")) is None
    assert commit_row(Raw(0, 0, COMMIT_KEY, b"\0\x63")) is None
