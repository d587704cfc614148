"""Heartbeat (12): a member of a classic group shows that it is alive."""

from kohort.protocol.declaring import message
from kohort.protocol.schema import Int16, Int32, Message, NullableString, String, field


@message(api_key=12, versions="0-4", flexible="4+")
class HeartbeatRequest(Message):
    """A member and its generation. Kafka: HeartbeatRequest.json."""

    group_id: String
    generation_id: Int32
    member_id: String
    group_instance_id: NullableString = field(default=None, versions="3+")


@message(api_key=12, versions="0-4", flexible="4+")
class HeartbeatResponse(Message):
    """The result. Kafka: HeartbeatResponse.json."""

    throttle_time_ms: Int32 = field(versions="1+", ignorable=True)
    error_code: Int16
