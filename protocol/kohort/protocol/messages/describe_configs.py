"""DescribeConfigs (32): the configuration of topics, brokers and groups."""

from kohort.protocol.declaring import message, struct
from kohort.protocol.schema import (
    Array,
    Bool,
    Int8,
    Int16,
    Int32,
    Message,
    NullableArray,
    NullableString,
    String,
    field,
)


@struct
class DescribeConfigsResource(Message):
    """One of `resources` in `DescribeConfigsRequest`."""

    resource_type: Int8
    resource_name: String
    configuration_keys: NullableArray[String]


@message(api_key=32, versions="1-4", flexible="4+")
class DescribeConfigsRequest(Message):
    """Resources, and the requested settings of each. Kafka: DescribeConfigsRequest.json."""

    resources: Array[DescribeConfigsResource]
    include_synonyms: Bool = field(default=False, versions="1+")
    include_documentation: Bool = field(default=False, versions="3+")


@struct
class DescribeConfigsSynonym(Message):
    """One of `synonyms` in `DescribeConfigsResourceResult`."""

    name: String = field(versions="1+")
    value: NullableString = field(versions="1+")
    source: Int8 = field(versions="1+")


@struct
class DescribeConfigsResourceResult(Message):
    """One of `configs` in `DescribeConfigsResult`."""

    name: String
    value: NullableString
    read_only: Bool
    config_source: Int8 = field(default=-1, versions="1+", ignorable=True)
    is_sensitive: Bool
    synonyms: Array[DescribeConfigsSynonym] = field(versions="1+", ignorable=True)
    config_type: Int8 = field(default=0, versions="3+", ignorable=True)
    documentation: NullableString = field(versions="3+", ignorable=True)


@struct
class DescribeConfigsResult(Message):
    """One of `results` in `DescribeConfigsResponse`."""

    error_code: Int16
    error_message: NullableString
    resource_type: Int8
    resource_name: String
    configs: Array[DescribeConfigsResourceResult]


@message(api_key=32, versions="1-4", flexible="4+")
class DescribeConfigsResponse(Message):
    """The values with their sources. Kafka: DescribeConfigsResponse.json."""

    throttle_time_ms: Int32
    results: Array[DescribeConfigsResult]
