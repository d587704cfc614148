"""DescribeClientQuotas (48): list the quotas of clients."""

from kohort.protocol.declaring import message, struct
from kohort.protocol.schema import (
    Array,
    Bool,
    Float64,
    Int8,
    Int16,
    Int32,
    Message,
    NullableArray,
    NullableString,
    String,
)


@struct
class DescribeClientQuotasComponent(Message):
    """One of `components` in `DescribeClientQuotasRequest`."""

    entity_type: String
    match_type: Int8
    match: NullableString


@message(api_key=48, versions="0-1", flexible="1+")
class DescribeClientQuotasRequest(Message):
    """A filter for the entities. Kafka: DescribeClientQuotasRequest.json."""

    components: Array[DescribeClientQuotasComponent]
    strict: Bool


@struct
class DescribeClientQuotasEntity(Message):
    """One of `entity` in `DescribeClientQuotasEntry`."""

    entity_type: String
    entity_name: NullableString


@struct
class DescribeClientQuotasValue(Message):
    """One of `values` in `DescribeClientQuotasEntry`."""

    key: String
    value: Float64


@struct
class DescribeClientQuotasEntry(Message):
    """One of `entries` in `DescribeClientQuotasResponse`."""

    entity: Array[DescribeClientQuotasEntity]
    values: Array[DescribeClientQuotasValue]


@message(api_key=48, versions="0-1", flexible="1+")
class DescribeClientQuotasResponse(Message):
    """The quotas of each entity; null if the request is refused. Kafka: DescribeClientQuotasResponse.json."""

    throttle_time_ms: Int32
    error_code: Int16
    error_message: NullableString
    entries: NullableArray[DescribeClientQuotasEntry]
