"""ApiVersions (18): the APIs of a broker and their versions."""

from kohort.protocol.declaring import message, struct
from kohort.protocol.schema import (
    Array,
    Bool,
    Int16,
    Int32,
    Int64,
    Message,
    NullableString,
    String,
    field,
)


@message(api_key=18, versions="0-5", flexible="3+")
class ApiVersionsRequest(Message):
    """The name and version of the client software. Kafka: ApiVersionsRequest.json."""

    client_software_name: String = field(versions="3+", ignorable=True)
    client_software_version: String = field(versions="3+", ignorable=True)
    cluster_id: NullableString = field(default=None, versions="5+", ignorable=True)
    node_id: Int32 = field(default=-1, versions="5+", ignorable=True)


@struct
class ApiVersion(Message):
    """One of `api_keys` in `ApiVersionsResponse`."""

    api_key: Int16
    min_version: Int16
    max_version: Int16


@struct
class SupportedFeatureKey(Message):
    """One of `supported_features` in `ApiVersionsResponse`."""

    name: String = field(versions="3+")
    min_version: Int16 = field(versions="3+")
    max_version: Int16 = field(versions="3+")


@struct
class FinalizedFeatureKey(Message):
    """One of `finalized_features` in `ApiVersionsResponse`."""

    name: String = field(versions="3+")
    max_version_level: Int16 = field(versions="3+")
    min_version_level: Int16 = field(versions="3+")


@message(api_key=18, versions="0-5", flexible="3+")
class ApiVersionsResponse(Message):
    """The APIs with their version ranges, and the features. Kafka: ApiVersionsResponse.json."""

    error_code: Int16
    api_keys: Array[ApiVersion]
    throttle_time_ms: Int32 = field(versions="1+", ignorable=True)
    supported_features: Array[SupportedFeatureKey] = field(versions="3+", tag=0, tagged="3+", ignorable=True)
    finalized_features_epoch: Int64 = field(default=-1, versions="3+", tag=1, tagged="3+", ignorable=True)
    finalized_features: Array[FinalizedFeatureKey] = field(versions="3+", tag=2, tagged="3+", ignorable=True)
    zk_migration_ready: Bool = field(default=False, versions="3+", tag=3, tagged="3+", ignorable=True)
