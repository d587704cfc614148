"""SyncGroup (14): send or receive the assignment of a generation."""

from kohort.protocol.declaring import message, struct
from kohort.protocol.schema import Array, Bytes, Int16, Int32, Message, NullableString, String, field


@struct
class SyncGroupRequestAssignment(Message):
    """One of `assignments` in `SyncGroupRequest`."""

    member_id: String
    assignment: Bytes


@message(api_key=14, versions="0-5", flexible="4+")
class SyncGroupRequest(Message):
    """A member that needs its assignment. The leader sends the assignments of all members.

    Kafka: SyncGroupRequest.json.
    """

    group_id: String
    generation_id: Int32
    member_id: String
    group_instance_id: NullableString = field(default=None, versions="3+")
    protocol_type: NullableString = field(default=None, versions="5+", ignorable=True)
    protocol_name: NullableString = field(default=None, versions="5+", ignorable=True)
    assignments: Array[SyncGroupRequestAssignment]


@message(api_key=14, versions="0-5", flexible="4+")
class SyncGroupResponse(Message):
    """The member's own assignment. Kafka: SyncGroupResponse.json."""

    throttle_time_ms: Int32 = field(versions="1+", ignorable=True)
    error_code: Int16
    protocol_type: NullableString = field(default=None, versions="5+", ignorable=True)
    protocol_name: NullableString = field(default=None, versions="5+", ignorable=True)
    assignment: Bytes
