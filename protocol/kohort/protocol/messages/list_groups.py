"""ListGroups (16): the groups that a broker coordinates."""

from kohort.protocol.declaring import message, struct
from kohort.protocol.schema import Array, Int16, Int32, Message, String, field


@message(api_key=16, versions="0-5", flexible="3+")
class ListGroupsRequest(Message):
    """States and types to list; none for all. Kafka: ListGroupsRequest.json."""

    states_filter: Array[String] = field(versions="4+")
    types_filter: Array[String] = field(versions="5+")


@struct
class ListedGroup(Message):
    """One of `groups` in `ListGroupsResponse`."""

    group_id: String
    protocol_type: String
    group_state: String = field(versions="4+", ignorable=True)
    group_type: String = field(versions="5+", ignorable=True)


@message(api_key=16, versions="0-5", flexible="3+")
class ListGroupsResponse(Message):
    """The groups, with state and type in newer versions. Kafka: ListGroupsResponse.json."""

    throttle_time_ms: Int32 = field(versions="1+", ignorable=True)
    error_code: Int16
    groups: Array[ListedGroup]
