"""DeleteGroups (42): delete groups without members."""

from kohort.protocol.declaring import message, struct
from kohort.protocol.schema import Array, Int16, Int32, Message, NullableString, String, field


@message(api_key=42, versions="0-3", flexible="2+")
class DeleteGroupsRequest(Message):
    """Groups to delete. Kafka: DeleteGroupsRequest.json."""

    groups_names: Array[String]


@struct
class DeletableGroupResult(Message):
    """One of `results` in `DeleteGroupsResponse`."""

    group_id: String
    error_code: Int16
    error_message: NullableString = field(default=None, versions="3+", ignorable=True)


@message(api_key=42, versions="0-3", flexible="2+")
class DeleteGroupsResponse(Message):
    """The result of each group. Kafka: DeleteGroupsResponse.json."""

    throttle_time_ms: Int32
    results: Array[DeletableGroupResult]
