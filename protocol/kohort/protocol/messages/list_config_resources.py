"""ListConfigResources (74): list the resources that have a configuration."""

from kohort.protocol.declaring import message, struct
from kohort.protocol.schema import Array, Int8, Int16, Int32, Message, String, field


@message(api_key=74, versions="0-1", flexible="0+")
class ListConfigResourcesRequest(Message):
    """Resource types; none for all. Kafka: ListConfigResourcesRequest.json."""

    resource_types: Array[Int8] = field(versions="1+")


@struct
class ConfigResource(Message):
    """One of `config_resources` in `ListConfigResourcesResponse`."""

    resource_name: String
    resource_type: Int8 = field(default=16, versions="1+", ignorable=True)


@message(api_key=74, versions="0-1", flexible="0+")
class ListConfigResourcesResponse(Message):
    """The resources with their types. Kafka: ListConfigResourcesResponse.json."""

    throttle_time_ms: Int32
    error_code: Int16
    config_resources: Array[ConfigResource]
