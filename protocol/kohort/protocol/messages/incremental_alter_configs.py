"""IncrementalAlterConfigs (44): set, delete, append to or subtract from single settings."""

from kohort.protocol.declaring import message, struct
from kohort.protocol.limits import MAX_NAMED
from kohort.protocol.schema import Array, Bool, Int8, Int16, Int32, Message, NullableString, String


@struct
class IncrementalAlterConfigsRequestAlterableConfig(Message):
    """One of `configs` in `IncrementalAlterConfigsRequestAlterConfigsResource`."""

    name: String
    config_operation: Int8
    value: NullableString


@struct
class IncrementalAlterConfigsRequestAlterConfigsResource(Message):
    """One of `resources` in `IncrementalAlterConfigsRequest`."""

    resource_type: Int8
    resource_name: String
    configs: Array[IncrementalAlterConfigsRequestAlterableConfig]


@message(api_key=44, versions="0-1", flexible="1+", max_items=MAX_NAMED)
class IncrementalAlterConfigsRequest(Message):
    """The operations on each resource. Kafka: IncrementalAlterConfigsRequest.json."""

    resources: Array[IncrementalAlterConfigsRequestAlterConfigsResource]
    validate_only: Bool


@struct
class IncrementalAlterConfigsResponseAlterConfigsResourceResponse(Message):
    """One of `responses` in `IncrementalAlterConfigsResponse`."""

    error_code: Int16
    error_message: NullableString
    resource_type: Int8
    resource_name: String


@message(api_key=44, versions="0-1", flexible="1+")
class IncrementalAlterConfigsResponse(Message):
    """The result of each change. Kafka: IncrementalAlterConfigsResponse.json."""

    throttle_time_ms: Int32
    responses: Array[IncrementalAlterConfigsResponseAlterConfigsResourceResponse]
