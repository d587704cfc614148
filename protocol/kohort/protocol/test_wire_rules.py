"""The rules of the wire by hand: bytes that were written out here, not by any codec."""

import tracemalloc
from uuid import UUID

import pytest

from kohort.protocol import constructs
from kohort.protocol.consumer_group_records import ClassicMemberMetadata, ConsumerGroupMemberMetadataValue
from kohort.protocol.errors import EncodeError, WireError
from kohort.protocol.messages.api_versions import ApiVersionsRequest
from kohort.protocol.messages.delete_topics import DeleteTopicsRequest
from kohort.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsRequestCursor,
)
from kohort.protocol.messages.fetch import FetchRequest, ReplicaState
from kohort.protocol.messages.heartbeat import HeartbeatRequest
from kohort.protocol.messages.list_groups import ListGroupsRequest
from kohort.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kohort.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kohort.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kohort.protocol.messages.sync_group import SyncGroupRequest
from kohort.protocol.schema import Message
from tests.messages import message_of

HUGE_COUNT = b"\x80\x80\x80\x80\x08"  # 2^31, which means one element less
LONGEST = "x" * 0x7FFF


def both_refuse(cls: type[Message], data: bytes, version: int) -> None:
    """The compiled decoder and the construct form raise WireError."""
    with pytest.raises(WireError):
        cls.decode(data, version)
    with pytest.raises(WireError):
        constructs.parse(cls, data, version)


@pytest.mark.parametrize(
    "version, data",
    [
        (0, b"\0\x02g1" + b"\0\0\0\x07" + b"\0\x01m"),
        (3, b"\0\x02g1" + b"\0\0\0\x07" + b"\0\x01m" + b"\xff\xff"),
        (4, b"\x03g1" + b"\0\0\0\x07" + b"\x02m" + b"\0" + b"\0"),
    ],
)
def test_a_heartbeat_has_the_bytes_of_the_schema(version: int, data: bytes) -> None:
    message = message_of(HeartbeatRequest, group_id="g1", generation_id=7, member_id="m")
    assert message.encode(version) == data
    assert HeartbeatRequest.decode(data, version) == message


def test_an_offset_commit_has_the_bytes_of_the_schema() -> None:
    partition = OffsetCommitRequestPartition(
        partition_index=3, committed_offset=258, committed_leader_epoch=5, committed_metadata="é"
    )
    message = OffsetCommitRequest(
        group_id="g",
        generation_id_or_member_epoch=1,
        member_id="",
        topics=(message_of(OffsetCommitRequestTopic, name="t", partitions=(partition,)),),
    )
    head = b"\x02g" + b"\0\0\0\x01" + b"\x01" + b"\0"
    body = b"\0\0\0\x03" + b"\0\0\0\0\0\0\x01\x02" + b"\0\0\0\x05" + b"\x03\xc3\xa9" + b"\0"
    data = head + b"\x02" + b"\x02t" + b"\x02" + body + b"\0" + b"\0"
    assert message.encode(8) == data
    assert OffsetCommitRequest.decode(data, 8) == message


def test_a_null_tagged_struct_is_a_varint_of_zero() -> None:
    told = message_of(ConsumerGroupMemberMetadataValue, client_id="c", classic_member_metadata=None)
    head = b"\x01\x01\x02c\x01\x01\x01" + b"\xff" * 4 + b"\x01"
    data = head + b"\x01\x00\x01\x00"
    assert told.encode(0) == constructs.build(told, 0) == data
    assert ConsumerGroupMemberMetadataValue.decode(data, 0) == told
    assert constructs.parse(ConsumerGroupMemberMetadataValue, data, 0) == told
    unsaid = ConsumerGroupMemberMetadataValue.decode(head + b"\0", 0)
    assert unsaid.classic_member_metadata == message_of(ClassicMemberMetadata)


def test_unknown_tagged_fields_inside_nested_structs_are_skipped() -> None:
    unknown = b"\x01\x05\x02zz"
    body = b"\0\0\0\x03" + b"\0\0\0\0\0\0\x01\x02" + b"\0\0\0\x05" + b"\0" + unknown
    data = b"\x02g\0\0\0\x01\x01\0" + b"\x02" + b"\x02t" + b"\x02" + body + unknown + unknown
    message = OffsetCommitRequest.decode(data, 8)
    assert message.topics[0].partitions[0].committed_offset == 258
    assert constructs.parse(OffsetCommitRequest, data, 8) == message


def test_fields_missing_in_the_version_have_their_defaults() -> None:
    message = OffsetCommitRequest.decode(b"\0\x01g\0\0\0\x01\0\0" + b"\0\0\0\0\0\0\0\x09" + b"\0\0\0\0", 2)
    assert (message.group_instance_id, message.retention_time_ms) == (None, 9)
    assert OffsetCommitRequest.decode(b"\0\x01g\0\0\0\x01\0\0\0\0\0\0", 5).retention_time_ms == -1


def test_null_topics_and_no_topics_are_two_questions() -> None:
    everything, nothing = message_of(MetadataRequest, topics=None), message_of(MetadataRequest, topics=())
    assert everything.encode(1) == b"\xff\xff\xff\xff"
    assert nothing.encode(1) == b"\0\0\0\0"
    assert everything.encode(12)[:1] == b"\0"
    assert nothing.encode(12)[:1] == b"\x01"
    assert MetadataRequest.decode(b"\0\x01\0\0", 12).topics is None
    assert MetadataRequest.decode(b"\x01\x01\0\0", 12).topics == ()


def test_the_zero_uuid_means_no_id() -> None:
    topic = message_of(MetadataRequestTopic, name="t")
    data = message_of(MetadataRequest, topics=(topic,)).encode(12)
    assert data == b"\x02" + bytes(16) + b"\x02t\0" + b"\x01\0\0"
    assert MetadataRequest.decode(data, 12).topics == (
        message_of(MetadataRequestTopic, topic_id=UUID(int=0), name="t"),
    )


def test_a_null_struct_is_one_byte() -> None:
    without = message_of(DescribeTopicPartitionsRequest, response_partition_limit=1)
    cursor = DescribeTopicPartitionsRequestCursor(topic_name="t", partition_index=2)
    assert without.encode(0) == b"\x01" + b"\0\0\0\x01" + b"\xff" + b"\0"
    with_one = message_of(DescribeTopicPartitionsRequest, response_partition_limit=1, cursor=cursor)
    assert with_one.encode(0) == b"\x01" + b"\0\0\0\x01" + b"\x01\x02t\0\0\0\x02\0" + b"\0"


def test_tagged_fields_are_written_in_tag_order() -> None:
    message = message_of(
        FetchRequest, cluster_id="c", replica_state=ReplicaState(replica_id=1, replica_epoch=2)
    )
    data = message.encode(15)
    assert data.endswith(b"\x02" + b"\0\x02\x02c" + b"\x01\x0d\0\0\0\x01" + b"\0\0\0\0\0\0\0\x02" + b"\0")
    assert FetchRequest.decode(data, 15) == message


def test_the_last_of_a_repeated_tagged_field_counts() -> None:
    data = message_of(FetchRequest).encode(15)[:-1] + b"\x02" + b"\0\x02\x02c" + b"\0\x02\x02d"
    assert FetchRequest.decode(data, 15).cluster_id == "d"
    assert constructs.parse(FetchRequest, data, 15).cluster_id == "d"


def test_a_tag_of_other_versions_is_refused() -> None:
    known_from_15_on = b"\x01" + b"\x01\x0d" + bytes(13)
    both_refuse(FetchRequest, message_of(FetchRequest).encode(14)[:-1] + known_from_15_on, 14)
    assert FetchRequest.decode(message_of(FetchRequest).encode(15)[:-1] + known_from_15_on, 15)


@pytest.mark.parametrize("size, behind", [(0, b""), (1, b""), (3, b"\0")])
def test_a_tagged_field_that_does_not_fill_its_size_is_refused(size: int, behind: bytes) -> None:
    data = message_of(FetchRequest).encode(15)[:-1] + b"\x01\0" + bytes((size,)) + b"\x02c" + behind
    both_refuse(FetchRequest, data, 15)
    with pytest.raises(WireError, match=r"tagged field cluster_id does not fill its size|before a length"):
        FetchRequest.decode(data, 15, exact=False)


def test_a_struct_array_can_be_any_sequence_when_written() -> None:
    listed = message_of(ListGroupsRequest, states_filter=["Stable"])
    assert listed.encode(4) == message_of(ListGroupsRequest, states_filter=("Stable",)).encode(4)
    assert message_of(ListGroupsRequest, types_filter=[]).encode(0) == b""


def test_any_byte_but_zero_is_true() -> None:
    assert MetadataRequest.decode(b"\0\0\0\0\x02", 4).allow_auto_topic_creation is True
    assert MetadataRequest.decode(b"\0\0\0\0\0", 4).allow_auto_topic_creation is False


@pytest.mark.parametrize("version", [0, 4])
def test_a_string_is_at_most_32767_bytes(version: int) -> None:
    longest = message_of(HeartbeatRequest, group_id=LONGEST)
    assert HeartbeatRequest.decode(longest.encode(version), version) == longest
    assert constructs.parse(HeartbeatRequest, longest.encode(version), version) == longest
    for too_long in (LONGEST + "x", "é" * 0x4000):
        with pytest.raises(EncodeError, match=r"32767|format"):
            message_of(HeartbeatRequest, group_id=too_long).encode(version)
        with pytest.raises(EncodeError, match="32767"):
            constructs.build(message_of(HeartbeatRequest, group_id=too_long), version)


def test_half_a_surrogate_pair_has_no_bytes() -> None:
    with pytest.raises(EncodeError, match="HeartbeatRequest v4"):
        message_of(HeartbeatRequest, group_id="\ud800").encode(4)


def test_a_longer_compact_string_is_refused_when_it_is_read() -> None:
    both_refuse(HeartbeatRequest, b"\x81\x80\x02" + b"x" * 0x8000 + b"\0\0\0\x07\x01\0\0", 4)


def test_bytes_and_records_can_be_longer_than_a_string() -> None:
    records = bytes(100_000)
    partition = message_of(PartitionProduceData, records=records)
    message = message_of(
        ProduceRequest, topic_data=(message_of(TopicProduceData, partition_data=(partition,)),)
    )
    for version in (3, 9):
        assert ProduceRequest.decode(message.encode(version), version) == message


def test_records_stay_a_view_into_the_frame() -> None:
    partition = message_of(PartitionProduceData, records=b"batches")
    data = message_of(
        ProduceRequest, topic_data=(message_of(TopicProduceData, partition_data=(partition,)),)
    ).encode(9)
    decoded = ProduceRequest.decode(memoryview(data), 9)
    records = decoded.topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    assert records.obj is data


def test_records_that_lie_elsewhere_are_passed_on_as_they_are() -> None:
    class InAFile:
        def __len__(self) -> int:
            return 300

    records = InAFile()
    partition = message_of(PartitionProduceData, records=records)
    parts = message_of(
        ProduceRequest, topic_data=(message_of(TopicProduceData, partition_data=(partition,)),)
    ).encode_parts(9)
    place = next(index for index, each in enumerate(parts) if each is records)
    assert parts[place - 1] == b"\xad\x02"  # 300 and one, as a compact length


@pytest.mark.parametrize(
    "data",
    [
        b"\xff\xff\0\0\0\x07\0\0",  # null
        b"\xff\xfe\0\0\0\x07\0\0",  # less than null
        b"\0\x02\xff\xfe\0\0\0\x07\0\0",  # not UTF-8
        b"\0\x03\xed\xa0\x80\0\0\0\x07\0\0",  # half of a surrogate pair
        b"\0\x09g1",  # longer than the data
    ],
)
def test_a_malformed_string_is_refused(data: bytes) -> None:
    both_refuse(HeartbeatRequest, data, 0)


@pytest.mark.parametrize(
    "length",
    [
        b"\x80",  # no end
        b"\x80\x80\x80\x80\x80\x01",  # six bytes
        b"\xff\xff\xff\xff\x7f",  # 35 bits
        b"\xff\xff\xff\xff\x0f",  # 32 bits
    ],
)
def test_a_malformed_length_is_refused(length: bytes) -> None:
    both_refuse(HeartbeatRequest, length + b"\0" * 20, 4)
    both_refuse(HeartbeatRequest, b"\x01\0\0\0\x07\x01\0" + length, 4)  # the count of tagged fields


@pytest.mark.parametrize(
    "cls, version, data, refusal",
    [
        (MetadataRequest, 0, b"\x7f\xff\xff\xff", "before a count of 2147483647"),
        (MetadataRequest, 1, b"\xff\xff\xff\xfe", "a count of -2"),
        (MetadataRequest, 12, HUGE_COUNT, "before a count of 2147483647"),
        (DeleteTopicsRequest, 1, b"\x7f\xff\xff\xff\0\0", "before a count of 2147483647"),
        (ListGroupsRequest, 4, HUGE_COUNT, "before a count of 2147483647"),
        (ListGroupsRequest, 4, b"\x43", "before a count of 66"),  # One more than there are bytes.
        (SyncGroupRequest, 0, bytes(8) + b"\x7f\xff\xff\xff", "before a count of 2147483647"),
        (
            ProduceRequest,
            3,
            b"\xff\xff" + bytes(6) + b"\0\0\0\x01\0\0" + b"\x7f\xff\xff\xff",
            "a count of 2147483647",
        ),
        (ApiVersionsRequest, 3, b"\x01\x01" + HUGE_COUNT, "more than 20000 elements in all"),
        (ApiVersionsRequest, 3, b"\x01\x01\x01\0" + HUGE_COUNT, "before a length of 2147483648"),
    ],
)
def test_a_huge_count_allocates_nothing(cls: type[Message], version: int, data: bytes, refusal: str) -> None:
    padded = data + bytes(64)
    with pytest.raises(WireError):
        cls.decode(padded, version)  # Compiles the decoder before the memory is measured.
    tracemalloc.start()
    try:
        with pytest.raises(WireError, match=refusal):
            cls.decode(padded, version)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


def test_a_number_that_does_not_fit_is_the_callers_mistake() -> None:
    for number in (1 << 31, -(1 << 31) - 1):
        with pytest.raises(EncodeError, match="HeartbeatRequest v4"):
            message_of(HeartbeatRequest, generation_id=number).encode(4)
