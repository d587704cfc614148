"""LeaveGroup (13): members leave a group at once."""

from kohort.protocol.declaring import message, struct
from kohort.protocol.schema import Array, Int16, Int32, Message, NullableString, String, field


@struct
class MemberIdentity(Message):
    """One of `members` in `LeaveGroupRequest`."""

    member_id: String = field(versions="3+")
    group_instance_id: NullableString = field(default=None, versions="3+")
    reason: NullableString = field(default=None, versions="5+", ignorable=True)


@message(api_key=13, versions="0-5", flexible="4+")
class LeaveGroupRequest(Message):
    """One member, or from version 3 several, with reasons from version 5. Kafka: LeaveGroupRequest.json."""

    group_id: String
    member_id: String = field(versions="0-2")
    members: Array[MemberIdentity] = field(versions="3+")


@struct
class MemberResponse(Message):
    """One of `members` in `LeaveGroupResponse`."""

    member_id: String = field(versions="3+")
    group_instance_id: NullableString = field(versions="3+")
    error_code: Int16 = field(versions="3+")


@message(api_key=13, versions="0-5", flexible="4+")
class LeaveGroupResponse(Message):
    """The result of each member. Kafka: LeaveGroupResponse.json."""

    throttle_time_ms: Int32 = field(versions="1+", ignorable=True)
    error_code: Int16
    members: Array[MemberResponse] = field(versions="3+")
