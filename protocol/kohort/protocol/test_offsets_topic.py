"""Keys and values of `__consumer_offsets`."""

from uuid import UUID

import pytest

from kohort.protocol import share_group_records, streams_group_records
from kohort.protocol.consumer_group_records import (
    RECORDS,
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    CurrentPartitions,
)
from kohort.protocol.errors import WireError
from kohort.protocol.offsets_topic import (
    CONSUMER_GROUP_TYPES,
    SHARE_GROUP_TYPES,
    STREAMS_GROUP_TYPES,
    GroupMetadataKey,
    GroupMetadataRecord,
    GroupMetadataValue,
    MemberMetadata,
    ModernGroupRecord,
    OffsetCommitKey,
    OffsetCommitRecord,
    OffsetCommitValue,
    UnknownKey,
    decode_key,
    decode_record,
    decode_value,
    encode_key,
    encode_value,
)
from kohort.protocol.schema import Message
from tests.messages import message_of

OFFSET = message_of(
    OffsetCommitValue, offset=42, leader_epoch=3, metadata="m", commit_timestamp=1_700_000_000_000
)
GROUP = GroupMetadataValue(
    protocol_type="consumer",
    generation=7,
    protocol="range",
    leader="a",
    current_state_timestamp=5,
    members=(
        message_of(MemberMetadata, member_id="a", group_instance_id="i", client_id="c", client_host="/h"),
    ),
)


@pytest.mark.parametrize("name", ["", "g", "grüppe", "g" * 32_767, "ü" * 16_383])
@pytest.mark.parametrize("partition", [0, 1, 2**31 - 1])
def test_the_key_of_an_offset_equals_its_message(name: str, partition: int) -> None:
    key = OffsetCommitKey(group=name, topic="t", partition=partition)
    assert encode_key(key) == b"\0\x01" + key.encode(0)
    assert decode_key(encode_key(key)) == key


def test_the_key_of_an_offset_has_no_name_that_is_too_long() -> None:
    for name in ("g" * 32_768, "ü" * 16_384):
        with pytest.raises(WireError):
            encode_key(OffsetCommitKey(group=name, topic="t", partition=0))


def test_a_key_starts_with_its_record_type() -> None:
    commit, group = OffsetCommitKey(group="g", topic="t", partition=1), GroupMetadataKey(group="g")
    assert encode_key(commit) == b"\0\x01" + b"\0\x01g" + b"\0\x01t" + b"\0\0\0\x01"
    assert encode_key(group) == b"\0\x02" + b"\0\x01g"
    assert [decode_key(encode_key(each)) for each in (commit, group)] == [commit, group]


def test_the_oldest_type_of_key_is_read_as_an_offset() -> None:
    key = OffsetCommitKey(group="g", topic="t", partition=1)
    assert decode_key(b"\0\0" + key.encode(0)) == key


@pytest.mark.parametrize("record_type", [9, 18, -1])
def test_a_key_of_an_unknown_type_is_returned_with_its_type(record_type: int) -> None:
    data = record_type.to_bytes(2, "big", signed=True) + b"whatever"
    assert decode_key(data) == UnknownKey(record_type=record_type)


def test_values_are_written_in_the_versions_that_kafka_writes() -> None:
    with_id = message_of(OffsetCommitValue, offset=42, topic_id=UUID(int=9))
    assert [encode_value(each)[:2] for each in (OFFSET, with_id, GROUP)] == [b"\0\x03", b"\0\x04", b"\0\x03"]


@pytest.mark.parametrize(
    "value", [OFFSET, message_of(OffsetCommitValue, offset=1, topic_id=UUID(int=9)), GROUP]
)
def test_a_value_survives_its_encoding(value: Message) -> None:
    assert decode_value(type(value), encode_value(value)) == value


def test_values_of_older_brokers_are_read() -> None:
    first = b"\0\x01" + bytes(7) + b"\x2a" + b"\0\x01m" + bytes(7) + b"\x05" + bytes(7) + b"\x06"
    assert decode_value(OffsetCommitValue, first) == message_of(
        OffsetCommitValue, offset=42, metadata="m", commit_timestamp=5, expire_timestamp=6
    )
    for version in range(4):
        read = decode_value(GroupMetadataValue, b"\0" + bytes((version,)) + GROUP.encode(version))
        assert read.members[0].group_instance_id == ("i" if version == 3 else None)


@pytest.mark.parametrize("data", [b"", b"\0", b"\0\x05", b"\xff\xff", b"\0\x03", encode_value(OFFSET) + b"!"])
def test_a_malformed_value_is_refused(data: bytes) -> None:
    with pytest.raises(WireError):
        decode_value(OffsetCommitValue, data)


@pytest.mark.parametrize("data", [b"", b"\0", b"\0\x01", b"\0\x02", b"\0\x02\0\x01g!"])
def test_a_malformed_key_is_refused(data: bytes) -> None:
    with pytest.raises(WireError):
        decode_key(data)


def test_a_record_is_decoded_by_its_key() -> None:
    commit, group = OffsetCommitKey(group="g", topic="t", partition=1), GroupMetadataKey(group="g")
    assert decode_record(encode_key(commit), encode_value(OFFSET)) == OffsetCommitRecord(commit, OFFSET)
    assert decode_record(encode_key(group), encode_value(GROUP)) == GroupMetadataRecord(group, GROUP)
    assert decode_record(encode_key(commit), None) == OffsetCommitRecord(commit, None)
    assert decode_record(encode_key(group), None) == GroupMetadataRecord(group, None)


def test_the_value_of_an_unknown_record_type_is_not_decoded() -> None:
    assert decode_record(b"\0\x09key", b"value") == UnknownKey(record_type=9)


@pytest.mark.parametrize("value", [b"", b"\0\x63", encode_value(OFFSET) + b"!"])
def test_a_record_with_a_malformed_value_is_refused(value: bytes) -> None:
    key = encode_key(OffsetCommitKey(group="g", topic="t", partition=1))
    with pytest.raises(WireError):
        decode_record(key, value)


def test_an_offset_with_its_own_expiry_keeps_it() -> None:
    value = OffsetCommitValue(offset=7, metadata="", commit_timestamp=1, expire_timestamp=99)
    data = encode_value(value)
    assert data[:2] == b"\0\1"
    assert decode_value(OffsetCommitValue, data).expire_timestamp == 99


MEMBER = message_of(
    ConsumerGroupMemberMetadataValue,
    client_id="c",
    client_host="/1.2.3.4",
    instance_id=None,
    rack_id=None,
    subscribed_topic_names=("t",),
    subscribed_topic_regex=None,
    server_assignor=None,
    rebalance_timeout_ms=5,
)


def test_records_of_consumer_groups_are_bytes_as_kafka_writes_them() -> None:
    key = ConsumerGroupMemberMetadataKey(group_id="g", member_id="m")
    assert encode_key(key) == b"\0\x05" + b"\0\x01g" + b"\0\x01m"
    data = (
        b"\0\0"
        + b"\0"
        + b"\0"
        + b"\x02c"
        + b"\x09/1.2.3.4"
        + b"\x02\x02t"
        + b"\0"
        + b"\0\0\0\5"
        + b"\0"
        + b"\0"
    )
    assert encode_value(MEMBER) == data
    assert decode_record(encode_key(key), data) == ModernGroupRecord(key, MEMBER)
    assert decode_record(encode_key(key), None) == ModernGroupRecord(key, None)


@pytest.mark.parametrize("record_type", sorted(share_group_records.RECORDS))
def test_every_record_type_of_a_share_group_survives_its_encoding(record_type: int) -> None:
    key_type, value_type = share_group_records.RECORDS[record_type]
    key, value = message_of(key_type), message_of(value_type)
    assert decode_record(encode_key(key), encode_value(value)) == ModernGroupRecord(key, value)
    assert encode_key(key)[:2] == record_type.to_bytes(2, "big")
    assert record_type in SHARE_GROUP_TYPES


@pytest.mark.parametrize("record_type", sorted(streams_group_records.RECORDS))
def test_every_record_type_of_a_streams_group_survives_its_encoding(record_type: int) -> None:
    key_type, value_type = streams_group_records.RECORDS[record_type]
    key, value = message_of(key_type), message_of(value_type)
    assert decode_record(encode_key(key), encode_value(value)) == ModernGroupRecord(key, value)
    assert encode_key(key)[:2] == record_type.to_bytes(2, "big")
    assert record_type in STREAMS_GROUP_TYPES


def test_validated_and_assigned_epochs_of_a_streams_group_are_tagged() -> None:
    config = streams_group_records.StreamsGroupAssignmentConfig(key="num.standby.replicas", value="0")
    group = message_of(
        streams_group_records.StreamsGroupMetadataValue,
        epoch=7,
        validated_topology_epoch=0,
        last_assignment_configs=(config,),
    )
    tags = b"\2" + b"\0\4\0\0\0\0" + b"\1\x19\2\x15num.standby.replicas\0020\0"
    data = b"\0\0" + b"\0\0\0\7" + bytes(8) + tags
    assert encode_value(group) == data
    assert decode_value(streams_group_records.StreamsGroupMetadataValue, data) == group


@pytest.mark.parametrize("record_type", sorted(RECORDS))
def test_every_record_type_of_a_consumer_group_survives_its_encoding(record_type: int) -> None:
    key_type, value_type = RECORDS[record_type]
    key, value = message_of(key_type), message_of(value_type)
    assert decode_record(encode_key(key), encode_value(value)) == ModernGroupRecord(key, value)
    assert encode_key(key)[:2] == record_type.to_bytes(2, "big")
    assert record_type in CONSUMER_GROUP_TYPES


def test_classic_metadata_of_a_member_and_partition_epochs_are_tagged() -> None:
    protocol = ClassicProtocol(name="range", metadata=b"m")
    classic = ClassicMemberMetadata(session_timeout_ms=1, supported_protocols=(protocol,))
    member = message_of(ConsumerGroupMemberMetadataValue, classic_member_metadata=classic)
    assert decode_value(ConsumerGroupMemberMetadataValue, encode_value(member)) == member
    has = CurrentPartitions(topic_id=UUID(int=1), partitions=(3, 4), assignment_epochs=(1, 2))
    current = message_of(ConsumerGroupCurrentMemberAssignmentValue, assigned_partitions=(has,))
    assert decode_value(ConsumerGroupCurrentMemberAssignmentValue, encode_value(current)) == current


@pytest.mark.parametrize("metadata", ["", "note", "\u00fc" * 63, "m" * 126, "m" * 127, "m" * 4_096])
def test_an_offset_with_a_topic_id_has_kafkas_form(metadata: str) -> None:
    value = OffsetCommitValue(
        offset=2**40, leader_epoch=7, metadata=metadata, commit_timestamp=2**41, topic_id=UUID(int=2**127 + 5)
    )
    encoded = encode_value(value)
    assert encoded == b"\0\4" + value.encode(4)
    assert decode_value(OffsetCommitValue, encoded) == value


def test_offsets_share_the_objects_of_their_topic_ids() -> None:
    """A million offsets of a topic would have a million of them."""
    ids = []
    for partition in range(2):
        key = OffsetCommitKey(group="g", topic="t", partition=partition)
        value = OffsetCommitValue(offset=1, metadata="", commit_timestamp=1, topic_id=UUID(int=7))
        found = decode_record(encode_key(key), encode_value(value))
        assert isinstance(found, OffsetCommitRecord)
        assert found.value == value
        ids.append(found.value.topic_id)
    assert ids[0] is ids[1]
