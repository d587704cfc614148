"""AlterConfigs (33): replace the whole configuration of a resource."""

from kohort.protocol.declaring import message, struct
from kohort.protocol.limits import MAX_NAMED
from kohort.protocol.schema import Array, Bool, Int8, Int16, Int32, Message, NullableString, String


@struct
class AlterConfigsRequestAlterableConfig(Message):
    """One of `configs` in `AlterConfigsRequestAlterConfigsResource`."""

    name: String
    value: NullableString


@struct
class AlterConfigsRequestAlterConfigsResource(Message):
    """One of `resources` in `AlterConfigsRequest`."""

    resource_type: Int8
    resource_name: String
    configs: Array[AlterConfigsRequestAlterableConfig]


@message(api_key=33, versions="0-2", flexible="2+", max_items=MAX_NAMED)
class AlterConfigsRequest(Message):
    """The new configuration of each resource. Kafka: AlterConfigsRequest.json."""

    resources: Array[AlterConfigsRequestAlterConfigsResource]
    validate_only: Bool


@struct
class AlterConfigsResponseAlterConfigsResourceResponse(Message):
    """One of `responses` in `AlterConfigsResponse`."""

    error_code: Int16
    error_message: NullableString
    resource_type: Int8
    resource_name: String


@message(api_key=33, versions="0-2", flexible="2+")
class AlterConfigsResponse(Message):
    """The result of each change. Kafka: AlterConfigsResponse.json."""

    throttle_time_ms: Int32
    responses: Array[AlterConfigsResponseAlterConfigsResourceResponse]
