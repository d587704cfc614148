"""What a declaration makes of a class."""

import pytest

from kohort.protocol import compiler
from kohort.protocol.declaring import message, struct
from kohort.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from kohort.protocol.messages.fetch import FetchRequest, ReplicaState
from kohort.protocol.messages.heartbeat import HeartbeatRequest
from kohort.protocol.messages.join_group import JoinGroupRequest
from kohort.protocol.schema import Array, Int32, Message, NullableArray, String, decoders, field
from kohort.protocol.versions import ALL, NONE, Versions
from tests.messages import message_of


@struct
class Point(Message):
    """A struct of a declaration made here."""

    x: Int32
    y: Int32 = field(default=-1, versions="1+")


@message(api_key=99, versions="0-2", flexible="2+")
class Drawing(Message):
    """A message declared here."""

    title: String = field(versions="1+", tag=0, tagged="2+", ignorable=True)
    points: NullableArray[Point] = field(nullable="1+")
    numbers: Array[Int32]
    origin: Point
    cursor: Point | None = field(default=None, versions="1+")


def test_a_declaration_describes_its_message() -> None:
    declared = Drawing.declaration()
    assert (declared.name, declared.api_key) == ("Drawing", 99)
    assert (declared.versions, declared.flexible) == (Versions(0, 2), Versions.parse("2+"))
    assert [each.name for each in declared.fields] == ["title", "points", "numbers", "origin", "cursor"]
    title, points, numbers, origin, cursor = declared.fields
    assert (title.tag, title.tagged, title.ignorable) == (0, Versions.parse("2+"), True)
    assert (points.nullable, points.struct, numbers.nullable) == (Versions.parse("1+"), Point, NONE)
    assert numbers.element is not None
    assert numbers.element.name == "int32"
    assert (origin.default, origin.nullable) == (message_of(Point), NONE)
    assert (cursor.default, cursor.nullable) == (None, ALL)


def test_a_declared_message_is_coded_in_each_of_its_versions() -> None:
    point = Point(x=1, y=-1)
    drawing = Drawing(title="t", points=(point,), numbers=(7,), origin=point)
    old = b"\0\0\0\x01" + b"\0\0\0\x01" + b"\0\0\0\x01\0\0\0\x07" + b"\0\0\0\x01"
    assert drawing.encode(0) == old
    assert Drawing.decode(old, 0) == Drawing(title="", points=(point,), numbers=(7,), origin=point)
    xy = b"\0\0\0\x01\xff\xff\xff\xff"
    assert drawing.encode(1) == b"\0\x01t" + b"\0\0\0\x01" + xy + b"\0\0\0\x01\0\0\0\x07" + xy + b"\xff"
    tagged = b"\x01" + b"\0\x02\x02t"
    assert drawing.encode(2) == b"\x02" + xy + b"\0" + b"\x02\0\0\0\x07" + xy + b"\0" + b"\xff" + tagged


def test_every_field_has_its_default_from_the_schema() -> None:
    request = message_of(FetchRequest)
    assert (request.cluster_id, request.replica_id, request.topics) == (None, -1, ())
    assert request.replica_state == ReplicaState(replica_id=-1, replica_epoch=-1)
    assert message_of(DescribeTopicPartitionsRequest).response_partition_limit == 2000
    assert message_of(JoinGroupRequest).rebalance_timeout_ms == -1


def test_a_message_is_frozen_and_slotted_and_compares_by_value() -> None:
    heartbeat = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    with pytest.raises(AttributeError):
        setattr(heartbeat, "group_id", "other")  # noqa: B010  # Type checkers refuse the plain form.
    assert not hasattr(heartbeat, "__dict__")
    assert heartbeat == HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    assert heartbeat != HeartbeatRequest(group_id="g", generation_id=1, member_id="n")
    assert len({heartbeat, HeartbeatRequest(group_id="g", generation_id=1, member_id="m")}) == 1


def test_a_codec_is_compiled_once() -> None:
    Drawing.decode(message_of(Drawing).encode(1), 1)
    first = decoders[Drawing, 1]
    Drawing.decode(message_of(Drawing).encode(1), 1)
    assert decoders[Drawing, 1] is first


def test_the_generated_code_can_be_read() -> None:
    assert "unpack_from" in compiler.decoder_text(HeartbeatRequest, 4)
    assert "parts += (" in compiler.encoder_text(HeartbeatRequest, 4)
