"""DescribeAcls (29): list access control entries."""

from kohort.protocol.declaring import message, struct
from kohort.protocol.schema import Array, Int8, Int16, Int32, Message, NullableString, String, field


@message(api_key=29, versions="1-3", flexible="2+")
class DescribeAclsRequest(Message):
    """A filter for the entries. Kafka: DescribeAclsRequest.json."""

    resource_type_filter: Int8
    resource_name_filter: NullableString
    pattern_type_filter: Int8 = field(default=3)
    principal_filter: NullableString
    host_filter: NullableString
    operation: Int8
    permission_type: Int8


@struct
class AclDescription(Message):
    """One of `acls` in `DescribeAclsResource`."""

    principal: String
    host: String
    operation: Int8
    permission_type: Int8


@struct
class DescribeAclsResource(Message):
    """One of `resources` in `DescribeAclsResponse`."""

    resource_type: Int8
    resource_name: String
    pattern_type: Int8 = field(default=3)
    acls: Array[AclDescription]


@message(api_key=29, versions="1-3", flexible="2+")
class DescribeAclsResponse(Message):
    """The entries, by resource. Kafka: DescribeAclsResponse.json."""

    throttle_time_ms: Int32
    error_code: Int16
    error_message: NullableString
    resources: Array[DescribeAclsResource]
