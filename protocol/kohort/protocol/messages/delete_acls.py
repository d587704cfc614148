"""DeleteAcls (31): remove access control entries."""

from kohort.protocol.declaring import message, struct
from kohort.protocol.schema import Array, Int8, Int16, Int32, Message, NullableString, String, field


@struct
class DeleteAclsFilter(Message):
    """One of `filters` in `DeleteAclsRequest`."""

    resource_type_filter: Int8
    resource_name_filter: NullableString
    pattern_type_filter: Int8 = field(default=3)
    principal_filter: NullableString
    host_filter: NullableString
    operation: Int8
    permission_type: Int8


@message(api_key=31, versions="1-3", flexible="2+")
class DeleteAclsRequest(Message):
    """Filters for the entries to remove. Kafka: DeleteAclsRequest.json."""

    filters: Array[DeleteAclsFilter]


@struct
class DeleteAclsMatchingAcl(Message):
    """One of `matching_acls` in `DeleteAclsFilterResult`."""

    error_code: Int16
    error_message: NullableString
    resource_type: Int8
    resource_name: String
    pattern_type: Int8 = field(default=3)
    principal: String
    host: String
    operation: Int8
    permission_type: Int8


@struct
class DeleteAclsFilterResult(Message):
    """One of `filter_results` in `DeleteAclsResponse`."""

    error_code: Int16
    error_message: NullableString
    matching_acls: Array[DeleteAclsMatchingAcl]


@message(api_key=31, versions="1-3", flexible="2+")
class DeleteAclsResponse(Message):
    """The entries that each filter has removed. Kafka: DeleteAclsResponse.json."""

    throttle_time_ms: Int32
    filter_results: Array[DeleteAclsFilterResult]
