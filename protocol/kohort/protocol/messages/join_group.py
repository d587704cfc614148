"""JoinGroup (11): become a member of a group's next generation."""

from kohort.protocol.declaring import message, struct
from kohort.protocol.schema import (
    Array,
    Bool,
    Bytes,
    Int16,
    Int32,
    Message,
    NullableString,
    String,
    field,
)


@struct
class JoinGroupRequestProtocol(Message):
    """One of `protocols` in `JoinGroupRequest`."""

    name: String
    metadata: Bytes


@message(api_key=11, versions="0-9", flexible="6+")
class JoinGroupRequest(Message):
    """The member, its timeouts, and its protocols in order of preference. Kafka: JoinGroupRequest.json."""

    group_id: String
    session_timeout_ms: Int32
    rebalance_timeout_ms: Int32 = field(default=-1, versions="1+", ignorable=True)
    member_id: String
    group_instance_id: NullableString = field(default=None, versions="5+")
    protocol_type: String
    protocols: Array[JoinGroupRequestProtocol]
    reason: NullableString = field(default=None, versions="8+", ignorable=True)


@struct
class JoinGroupResponseMember(Message):
    """One of `members` in `JoinGroupResponse`."""

    member_id: String
    group_instance_id: NullableString = field(default=None, versions="5+", ignorable=True)
    metadata: Bytes


@message(api_key=11, versions="0-9", flexible="6+")
class JoinGroupResponse(Message):
    """The generation. The leader also gets the members and their metadata. Kafka: JoinGroupResponse.json."""

    throttle_time_ms: Int32 = field(versions="2+", ignorable=True)
    error_code: Int16
    generation_id: Int32 = field(default=-1)
    protocol_type: NullableString = field(default=None, versions="7+", ignorable=True)
    protocol_name: NullableString = field(nullable="7+")
    leader: String
    skip_assignment: Bool = field(default=False, versions="9+")
    member_id: String
    members: Array[JoinGroupResponseMember]
