"""DescribeGroups (15): groups with their members."""

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


@message(api_key=15, versions="0-6", flexible="5+")
class DescribeGroupsRequest(Message):
    """Groups to describe. Kafka: DescribeGroupsRequest.json."""

    groups: Array[String]
    include_authorized_operations: Bool = field(versions="3+")


@struct
class DescribedGroupMember(Message):
    """One of `members` in `DescribedGroup`."""

    member_id: String
    group_instance_id: NullableString = field(default=None, versions="4+", ignorable=True)
    client_id: String
    client_host: String
    member_metadata: Bytes
    member_assignment: Bytes


@struct
class DescribedGroup(Message):
    """One of `groups` in `DescribeGroupsResponse`."""

    error_code: Int16
    error_message: NullableString = field(default=None, versions="6+")
    group_id: String
    group_state: String
    protocol_type: String
    protocol_data: String
    members: Array[DescribedGroupMember]
    authorized_operations: Int32 = field(default=-2147483648, versions="3+")


@message(api_key=15, versions="0-6", flexible="5+")
class DescribeGroupsResponse(Message):
    """The state and the members of each group. Kafka: DescribeGroupsResponse.json."""

    throttle_time_ms: Int32 = field(versions="1+", ignorable=True)
    groups: Array[DescribedGroup]
